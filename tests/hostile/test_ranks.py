"""Ranks that hang, die or leave something behind cost their own task only, and are named, with the call they are in."""

from __future__ import annotations

import time
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import pytest

from autograder import submission
from autograder.chapter import Chapter, find_chapters
from autograder.grading import Grading, grade_cells
from autograder.report import Outcome
from autograder.session import load_module
from autograder.submission import Host

from ..draw import ON_RANKS, share

pytestmark = pytest.mark.slow
ROOT = Path(__file__).resolve().parents[2]
_RANKS: Any = load_module(Path(__file__).with_name("ranks.py"))
TASK, HANGS, DEADLOCKS, DEATHS, source_of = (
    _RANKS.TASK,
    _RANKS.HANGS,
    _RANKS.DEADLOCKS,
    _RANKS.DEATHS,
    _RANKS.source_of,
)
FAILING = [bad for kinds in (HANGS, DEADLOCKS, DEATHS) for bad in kinds[:: share(ON_RANKS)]]
NEIGHBOURS = ("process_group_settings", "epoch_batches", "save_checkpoint")
PATIENCE_S = 60.0
"""No rank may keep anyone waiting for longer than this before there is a verdict."""


@pytest.fixture(scope="module")
def chapter() -> Chapter:
    return find_chapters(ROOT)["ch07_ddp"]


@pytest.fixture(scope="module")
def grading(sandboxed: Grading, chapter: Chapter) -> Grading:
    return replace(sandboxed, chapter=chapter, hidden=False)  # the visible tests meet all of it as well


@pytest.fixture
def waits(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """How long each group of ranks was waited for, in seconds."""
    seconds: list[float] = []
    on_ranks = submission.Submission.on_ranks

    def timed(*args, **kwargs):
        begin = time.monotonic()
        try:
            return on_ranks(*args, **kwargs)
        finally:
            seconds.append(time.monotonic() - begin)

    monkeypatch.setattr(submission.Submission, "on_ranks", timed)
    return seconds


@pytest.mark.parametrize("bad", [pytest.param(bad, id=bad.name) for bad in FAILING])
def test_ranks_that_fail_are_named_and_cost_their_task(grading, bad, waits, processes, monkeypatch):
    monkeypatch.setattr(submission, "RANKS_PATIENCE_S", 5.0)
    before = processes.count(grading.host)
    chapter = grading.chapter
    cells = chapter.with_solutions({chapter.task(TASK).solution_cell: source_of(bad)})
    report = grade_cells(cells, grading, [TASK, *NEIGHBOURS])
    task = report.task(TASK)
    assert task.score == 0
    assert {test.outcome for test in task.tests} <= {Outcome.FAILED, Outcome.TIMEOUT}
    first = next(test for test in task.tests if test.outcome in (Outcome.FAILED, Outcome.TIMEOUT))
    for part in bad.says:
        assert part.lower() in first.message.lower()
    for name in NEIGHBOURS:
        assert report.task(name).passed, f"{name} lost points"
    assert max(waits) < PATIENCE_S
    assert processes.settle_at(before, grading.host), "something is still running"


def test_what_a_rank_starts_goes_with_it(grading, processes):
    """A child of a rank, and a thread of it, do not outlive a right answer's test."""
    chapter = grading.chapter
    right = next(c.source for c in chapter.solution if c.grade_id == chapter.task(TASK).solution_cell)
    own = right.replace(
        "    trainable =",
        "    if os.fork() == 0:\n        os.setsid()\n        time.sleep(10_000)\n    trainable =",
        1,
    )
    assert own != right
    before = processes.count(grading.host)
    cells = chapter.with_solutions({chapter.task(TASK).solution_cell: "import os, time\n" + own})
    report = grade_cells(cells, grading, [TASK])
    assert report.task(TASK).passed
    assert processes.settle_at(before, grading.host), "something is still running"


@pytest.mark.thorough
def test_two_gradings_at_once_agree():
    """Two processes grade the same answers side by side, in sandboxes of their own: both say the same."""
    with ProcessPoolExecutor(2, get_context("spawn")) as both:
        first, second = both.map(_graded, [ROOT] * 2)
    assert first == second
    scores = {task: score for task, score, _ in first}
    assert scores.pop(TASK) == 0
    assert set(scores) == {"save_checkpoint"} and scores["save_checkpoint"] > 0


def _graded(root: Path) -> list[tuple[str, float, list[tuple[str, str]]]]:
    """What each task of a notebook with a deadlock is worth, and what is said about each test."""
    chapter = find_chapters(root)["ch07_ddp"]
    bad = next(bad for bad in DEADLOCKS if bad.name == "a-barrier-of-one")
    cells = chapter.with_solutions({chapter.task(TASK).solution_cell: source_of(bad)})
    with Host("bubblewrap") as host:
        report = grade_cells(cells, Grading(chapter, host, hidden=False), [TASK, "save_checkpoint"])
    return [(task.task, task.score, [(test.outcome, test.message) for test in task.tests]) for task in report.tasks]
