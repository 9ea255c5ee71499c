"""What a check measures reaches the result of the test that ran it, and no other."""

from __future__ import annotations

from pathlib import Path

import pytest

from autograder import figures
from autograder.chapter import Chapter, find_chapters
from autograder.grading import Grading, check_live, grade_cells
from autograder.report import Figure, Outcome
from autograder.submission import Host

FIGURE = Figure("speed", 2, 4, at_least=True)


def test_what_was_left_is_taken_once_and_in_order() -> None:
    figures.taken()
    other = Figure("error", 1, 0, at_least=False)
    figures.leave(FIGURE)
    figures.leave(other)
    assert figures.taken() == (FIGURE, other)
    assert figures.taken() == ()


@pytest.mark.parametrize("number", [float("nan"), float("inf"), float("-inf")])
def test_what_is_no_number_is_no_figure(number: float) -> None:
    figures.taken()
    figures.leave(Figure("speed", number, 4, at_least=True))
    figures.leave(Figure("speed", 4, number, at_least=True))
    assert figures.taken() == ()


@pytest.mark.parametrize(
    ("value", "digits", "result"), [(0.01234, 1, 0.01), (1.96, 2, 2.0), (1234.5, 2, 1200.0), (0.0, 1, 0.0)]
)
def test_rounding_is_to_significant_digits(value: float, digits: int, result: float) -> None:
    assert figures.rounded(value, digits) == result


_TESTS = """
import pytest
from autograder.figures import leave
from autograder.report import Figure


@pytest.fixture
def measuring():
    leave(Figure("setup", 1, 1, at_least=True))


@pytest.mark.task("double")
@pytest.mark.parametrize("how", ["pass", "fail", "skip", "stumble"])
def test_measures(submission, measuring, how):
    submission.double(1)
    leave(Figure(how, 1, 2, at_least=True))
    if how == "fail":
        raise AssertionError("no")
    if how == "skip":
        pytest.skip("no")
    if how == "stumble":
        None.x


@pytest.mark.task("half")
def test_measures_nothing(submission):
    submission.half(1)
"""


def test_figures_are_in_the_results_however_a_test_ends(small_course: Path) -> None:
    (small_course / "exercises" / "ch07_small" / "test_ch07_small.py").write_text(_TESTS)
    chapter = find_chapters(small_course)["ch07_small"]
    figures.leave(Figure("left over from before", 1, 2, at_least=True))
    namespace: dict[str, object] = {}
    exec("double = half = lambda x: x", namespace)
    (double, half), _ = check_live(chapter, namespace, ["double", "half"])
    left = {test.name.partition("[")[2][:-1]: [figure.what for figure in test.figures] for test in double.tests}
    assert left == {how: ["setup", how] for how in ("pass", "fail", "skip", "stumble")}
    assert {test.outcome for test in double.tests} == {Outcome.PASSED, Outcome.FAILED, Outcome.SKIPPED}
    assert half.tests[0].figures == ()


@pytest.mark.slow
def test_the_verdict_on_the_same_work_is_the_same_byte_for_byte(chapter: Chapter, host: Host) -> None:
    """The untouched chapter 1, whose tests race, draw inputs and write random numbers, graded twice."""
    first, second = (grade_cells(chapter.starter, Grading(chapter, host)) for _ in range(2))
    assert first.without_figures().to_json() == second.without_figures().to_json()
    left = {figure.unit for task in first.tasks for test in task.tests for figure in test.figures}
    assert {"times as fast", "bytes", "%", "times what is allowed"} <= left
