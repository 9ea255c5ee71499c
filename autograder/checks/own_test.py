"""Judges a test that a learner wrote, by what it accepts and rejects."""

from __future__ import annotations

from autograder.errors import LearnerException
from autograder.submission import LearnerFunction


def _try_probe(function, source):  # type: ignore[no-untyped-def]
    namespace: dict = {}  # type: ignore[type-arg]
    exec(compile("import torch\n" + source, "<implementation>", "exec"), namespace)
    function(namespace["implementation"])


def rejection(function: LearnerFunction, source: str) -> str | None:
    """What the learner's test *function* raises for an implementation, or None where it accepts it.

    ``source`` defines a function named ``implementation`` and gives no hint at whether it is right. Each comes to a new
    process: a test that counts its calls would soon know which of them to accept.
    """
    function.submission.close()
    try:
        function.probe(_try_probe, source)
    except LearnerException as error:
        return str(error)
    return None


def assert_accepts(function: LearnerFunction, source: str) -> None:
    """Fail where the learner's test raises for a right implementation."""
    reason = rejection(function, source)
    if reason is not None:
        raise AssertionError(f"`{function.name}` should accept this implementation, but it {reason}")


def assert_rejects(function: LearnerFunction, source: str) -> None:
    """Fail where the learner's test does not raise for a wrong implementation."""
    if rejection(function, source) is None:
        raise AssertionError(f"`{function.name}` accepts an implementation that is wrong")
