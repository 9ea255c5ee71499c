"""Verdicts about ranks: did all of them come back, and if not, who waits for whom."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest

from autograder.errors import Finding, IsolationUnavailable, LearnerException
from autograder.ranks import told
from autograder.replies import value_of
from autograder.submission import LearnerFunction, Submission


def values_on_ranks(
    asked: Submission | LearnerFunction, probe: Callable[..., Any], world_size: int, *args: Any, timeout: float = 20.0
) -> list[Any]:
    """What ``probe(learner, rank, world_size, *args)`` returned on each rank, by rank.

    *learner* is what *asked* is: the submission, or one function of it.

    Raises :class:`~autograder.errors.Finding` where a rank hangs or its process ended, with the rank and the call it is
    in; where a rank raised, that :class:`~autograder.errors.LearnerException`.
    """
    return [outcome["value"] for outcome in outcomes_on_ranks(asked, probe, world_size, *args, timeout=timeout)]


def outcomes_on_ranks(
    asked: Submission | LearnerFunction, probe: Callable[..., Any], world_size: int, *args: Any, timeout: float = 20.0
) -> list[Mapping[str, Any]]:
    """The same with all that is known about each rank; ``collectives`` is how many the rank took part in."""
    try:
        outcomes = asked.on_ranks(probe, world_size, *args, timeout=timeout)
    except IsolationUnavailable as error:  # nobody's fault: the test is skipped, with the reason
        pytest.skip(str(error))
    if not _is_well_formed(outcomes, world_size):
        raise AssertionError("the ranks gave no answer that could be read")
    if any(outcome["state"] == "died" for outcome in outcomes):
        raise _finding(outcomes)
    for outcome in outcomes:  # where others wait for a rank that raised, its exception is what matters
        if outcome["state"] == "raised":
            try:
                value_of(outcome)
            except LearnerException as error:
                raise LearnerException(f"{error} (on rank {outcome['rank']} of {world_size})", error.kind) from None
    if any(outcome["state"] == "waiting" for outcome in outcomes):
        raise _finding(outcomes)
    return outcomes


def _finding(outcomes: Sequence[Mapping[str, Any]]) -> Finding:
    """Who is where. The sizes of what ranks brought may have been made of a hidden input."""
    return Finding("; ".join(told(outcome, sizes=False) for outcome in outcomes), "; ".join(map(told, outcomes)))


def _is_well_formed(outcomes: Any, world_size: int) -> bool:
    return (
        isinstance(outcomes, Sequence)
        and len(outcomes) == world_size
        and all(
            isinstance(outcome, Mapping)
            and outcome.get("rank") == rank
            and outcome.get("state") in ("returned", "raised", "died", "waiting")
            and isinstance(outcome.get("number"), int)
            and isinstance(outcome.get("size"), int)
            and (outcome["state"] != "returned" or ("value" in outcome and isinstance(outcome.get("collectives"), int)))
            for rank, outcome in enumerate(outcomes)
        )
    )
