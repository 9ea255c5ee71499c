"""Right code scores in full, however it is written (see fair.py)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from autograder.chapter import find_chapters
from autograder.errors import IsolationUnavailable
from autograder.grading import Grading, grade_cells
from autograder.sandbox import Limits
from autograder.session import load_module
from autograder.submission import Host

ROOT = Path(__file__).resolve().parents[2]
_FAIR: Any = load_module(Path(__file__).with_name("fair.py"))
FAIR, cells_of = _FAIR.FAIR, _FAIR.cells_of


@pytest.fixture(scope="module")
def host() -> Iterator[Host]:
    host = Host("auto", limits=Limits(memory=400_000_000))
    try:
        host.isolation  # noqa: B018  (starts it)
    except IsolationUnavailable as error:
        pytest.skip(str(error))
    with host:
        yield host


@pytest.mark.parametrize("fair", [pytest.param(fair, id=fair.name) for fair in FAIR])
def test_right_code_scores_in_full(host, fair):
    chapter = find_chapters(ROOT)["ch01_tensor_views"]
    grading = Grading(chapter, host, timed=False)
    report = grade_cells(cells_of(chapter, fair), grading, list(fair.sources))
    assert [(t.name, t.message) for task in report.tasks for t in task.tests if t.outcome != "passed"] == []
    assert report.score == report.max_score


@pytest.mark.slow
def test_right_code_is_quick_enough(host):
    chapter = find_chapters(ROOT)["ch01_tensor_views"]
    quick = {"prints", "cached-helper", "dataclass-as-a-helper", "windows-in-python-integers", "view-by-another-way"}
    for fair in FAIR:
        if fair.name in quick:
            report = grade_cells(cells_of(chapter, fair), Grading(chapter, host, timed=True), list(fair.sources))
            assert [(t.name, t.message) for task in report.tasks for t in task.tests if t.outcome == "failed"] == []
