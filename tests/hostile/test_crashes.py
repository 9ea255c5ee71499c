"""A task whose code crashes, hangs or floods costs its own points only (see crashes.py), and leaves nothing running."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from autograder import submission
from autograder.grading import Grading, grade_cells
from autograder.report import Outcome, Report
from autograder.session import load_module

from ..draw import ONE_BY_ONE, drawn, share

pytestmark = pytest.mark.slow
TASK, NEIGHBOUR = "to_patches", "frame_loss"
_CRASHES: Any = load_module(Path(__file__).with_name("crashes.py"))
TRIED = drawn(_CRASHES.CRASHES, share(ONE_BY_ONE))


@pytest.fixture(scope="module")
def grading(sandboxed: Grading) -> Grading:
    return replace(sandboxed, timed=False)  # no right answer here whose speed would matter


@pytest.fixture(autouse=True)
def short_patience(request, monkeypatch):
    # long enough for right code on a busy machine where nothing hangs
    hangs = getattr(request.node, "callspec", None) and "timeout" in getattr(
        request.node.callspec.params.get("crash"), "outcome", ""
    )
    monkeypatch.setattr(submission, "CALL_TIMEOUT_S", 2.0 if hangs else 20.0)


def grade(grading: Grading, source: str) -> Report:
    chapter = grading.chapter
    cells = chapter.with_solutions({chapter.task(TASK).solution_cell: source})
    return grade_cells(cells, grading, [TASK, NEIGHBOUR])


@pytest.mark.parametrize("crash", [pytest.param(crash, id=crash.name) for crash in TRIED])
def test_crash_costs_its_own_task(grading, crash, processes):
    before = processes.count(grading.host)
    report = grade(grading, crash.source)
    task = report.task(TASK)
    assert task.score == 0
    assert {test.outcome for test in task.tests} <= {Outcome.FAILED, Outcome.TIMEOUT}
    assert task.tests[0].outcome == crash.outcome
    assert crash.says in task.tests[0].message
    assert all(len(test.message) < 10_000 for test in task.tests)
    assert report.task(NEIGHBOUR).passed, "another task lost points"
    assert processes.settle_at(before, grading.host), "something is still running"


@pytest.mark.parametrize("source", [pytest.param(source, id=name) for name, source in _CRASHES.LEFT_BEHIND])
def test_what_goes_on_is_ended(grading, source, processes):
    before = processes.count(grading.host)
    report = grade(grading, source)
    assert report.score == report.max_score
    assert processes.settle_at(before, grading.host), "something is still running"


def test_next_submission_is_unaffected(grading):
    chapter = grading.chapter
    for crash in _CRASHES.CRASHES[1:4]:
        grade(grading, crash.source)
    report = grade_cells(chapter.solution, grading)
    assert report.score == report.max_score
