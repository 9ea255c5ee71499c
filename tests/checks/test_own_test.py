"""Judging a test that a learner wrote."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from autograder.checks import assert_accepts, assert_rejects
from autograder.checks.own_test import rejection
from autograder.errors import LearnerMissing
from autograder.submission import Submission

Learner = Callable[[str], Submission]
GOOD = "def check(f):\n    assert f(2) == 4, 'two squared'\n    assert f(3) == 9"
RIGHT = "def implementation(x):\n    return x * x"
WRONG = "def implementation(x):\n    return x + x"
RAISES = "def implementation(x):\n    raise ValueError('boom')"
USES_TORCH = "def implementation(x):\n    return int(torch.tensor(x) ** 2)"


@pytest.mark.parametrize("source", [RIGHT, USES_TORCH, "square = lambda x: x**2\n\nimplementation = square\n"])
def test_a_good_test_accepts_what_is_right(learner: Learner, source: str) -> None:
    assert_accepts(learner(GOOD).check, source)


@pytest.mark.parametrize("source", [WRONG, RAISES])
def test_a_good_test_rejects_what_is_wrong(learner: Learner, source: str) -> None:
    assert_rejects(learner(GOOD).check, source)


def test_a_test_that_looks_at_nothing_rejects_nothing(learner: Learner) -> None:
    function = learner("def check(f):\n    f(0)").check
    assert_accepts(function, RIGHT)
    with pytest.raises(AssertionError, match=r"^`check` accepts an implementation that is wrong$"):
        assert_rejects(function, WRONG)


def test_a_test_that_rejects_everything_accepts_nothing(learner: Learner) -> None:
    function = learner("def check(f):\n    raise AssertionError('never')").check
    assert_rejects(function, WRONG)
    with pytest.raises(AssertionError, match=r"`check` should accept this .*, but it raised AssertionError: never"):
        assert_accepts(function, RIGHT)


def test_returning_false_is_not_raising(learner: Learner) -> None:
    with pytest.raises(AssertionError):
        assert_rejects(learner("def check(f):\n    return f(3) == 9").check, WRONG)


def test_what_a_rejection_says(learner: Learner) -> None:
    assert rejection(learner(GOOD).check, RIGHT) is None
    assert "two squared" in (rejection(learner(GOOD).check, "def implementation(x):\n    return 0") or "")


def test_implementations_do_not_see_one_another(learner: Learner) -> None:
    function = learner(GOOD).check
    assert_accepts(function, "seen = []\n" + RIGHT)
    assert_rejects(function, "def implementation(x):\n    return x * x if 'seen' in globals() else 0")


def test_a_missing_test_is_reported_as_missing(learner: Learner) -> None:
    with pytest.raises(LearnerMissing):
        assert_rejects(learner("x = 1").check, WRONG)
