"""Answers that bend the counters instead of what they do, in chapters that count."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from autograder.chapter import find_chapters
from autograder.grading import Grading, grade_cells
from autograder.submission import Host

ROOT = Path(__file__).resolve().parents[2]

_BEND = """


def bend():
    import autograder.instruments as counters

    for counter in (counters.SavedTensors, counters.GraphCounter):
        counter.alive = property(lambda self: 0)
    counters.GraphCounter.history = property(lambda self: [0] * 12, lambda self, value: None)
    counters.HostReads.count = property(lambda self: 0)
    counters.reachable_bytes = lambda thing: 0


bent = {name}
"""
_LOG = """

class FeatureLog(bent):
    def __init__(self):
        bend()
        super().__init__()
"""
_EPOCH = """

def train_one_epoch(*args):
    bend()
    return bent(*args)
"""


@pytest.fixture(scope="module")
def host() -> Iterator[Host]:
    """A warm process of its own for each use: what is bent here bends nothing of the judge's."""
    with Host("none") as host:
        yield host


@pytest.mark.parametrize(
    ("name", "task", "wrapper", "tests"),
    [
        (
            "ch02_autograd",
            "FeatureLog",
            _LOG,
            {"test_log_keeps_no_graph", "test_log_stays_small", "test_log_does_not_grow"},
        ),
        (
            "ch03_training_loop",
            "train_one_epoch",
            _EPOCH,
            {"test_the_log_costs_nothing", "test_backward_before_the_next_forward"},
        ),
    ],
    ids=["FeatureLog", "train_one_epoch"],
)
def test_counters_that_were_bent_count_all_the_same(
    host: Host, name: str, task: str, wrapper: str, tests: set[str]
) -> None:
    """The original, wrong code with every shared counter set to 0 fails what it fails without."""
    chapter = find_chapters(ROOT)[name]
    cell = chapter.task(task).solution_cell
    starter = next(c.source for c in chapter.starter if c.grade_id == cell)
    cells = chapter.with_solutions({cell: starter + _BEND.format(name=task) + wrapper})
    report = grade_cells(cells, Grading(chapter, host), [task]).task(task)
    assert {test.name.partition("::")[2] for test in report.tests if test.outcome == "failed"} >= tests
    assert report.score == 0
