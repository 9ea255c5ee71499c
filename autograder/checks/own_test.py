"""Judges a test that a learner wrote, by what it accepts and rejects."""

from __future__ import annotations

import random
from collections.abc import Sequence

from autograder.errors import LearnerException
from autograder.submission import LearnerFunction


def _try_probe(function, source):  # type: ignore[no-untyped-def]
    namespace: dict = {}  # type: ignore[type-arg]
    exec(compile("import torch\n" + source, "<implementation>", "exec"), namespace)
    function(namespace["implementation"])


def rejection(function: LearnerFunction, source: str, among: Sequence[str] = ()) -> str | None:
    """What the learner's test *function* raises for an implementation, or None where it accepts it.

    ``source`` defines a function named ``implementation`` and gives no hint at whether it is right. A test that counts
    its calls could learn by heart which of them to accept. So with ``among``, the sources of all implementations that
    it will see, these are tried in one process in an order drawn anew each time, and the answers kept for the tests
    that follow; without, the implementation comes to a new process.
    """
    submission = function.submission
    if not among:
        submission.close()
    answers = submission.remembered.setdefault(f"rejections by {function.name}", {})
    if source not in answers:
        sources = [other for other in dict.fromkeys((source, *among)) if other not in answers]
        random.SystemRandom().shuffle(sources)
        # all answers or none: where one of them ends the process, it is not left to chance which were noted before
        answers.update({other: _try(function, other) for other in sources})
    answer: str | None = answers[source]
    return answer


def _try(function: LearnerFunction, source: str) -> str | None:
    try:
        function.probe(_try_probe, source)
    except LearnerException as error:
        return str(error)
    return None


def assert_accepts(function: LearnerFunction, source: str, among: Sequence[str] = ()) -> None:
    """Fail where the learner's test raises for a right implementation; for ``among`` see :func:`rejection`."""
    reason = rejection(function, source, among)
    if reason is not None:
        raise AssertionError(f"`{function.name}` should accept this implementation, but it {reason}")


def assert_rejects(function: LearnerFunction, source: str, among: Sequence[str] = ()) -> None:
    """Fail where the learner's test does not raise for a wrong implementation; for ``among`` see :func:`rejection`."""
    if rejection(function, source, among) is None:
        raise AssertionError(f"`{function.name}` accepts an implementation that is wrong")
