"""Wrong code gets no points, whatever it tries (see cheats.py), and costs no other task anything.

`make test` tries a share of the kinds one by one, `make hostile` all of them.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from autograder.chapter import Chapter
from autograder.grading import Grading, grade_cells
from autograder.report import Outcome
from autograder.session import load_module

from ..draw import ONE_BY_ONE, drawn, share

pytestmark = pytest.mark.slow
CHEATS: list[Any] = load_module(Path(__file__).with_name("cheats.py")).CHEATS
TRIED = drawn(CHEATS, share(ONE_BY_ONE))


@pytest.fixture(scope="module")
def grading(sandboxed: Grading) -> Grading:
    return sandboxed


def with_cheat(chapter: Chapter, cheat: Any) -> tuple[Any, ...]:
    return chapter.with_solutions({chapter.task(cheat.task).solution_cell: cheat.code})


@pytest.mark.parametrize("cheat", [pytest.param(cheat, id=cheat.name) for cheat in TRIED])
def test_cheat_gains_nothing(grading, cheat):
    neighbour = "write_timecode" if cheat.task == "frame_loss" else "frame_loss"
    report = grade_cells(with_cheat(grading.chapter, cheat), grading, [cheat.task, neighbour])
    cheated = report.task(cheat.task)
    outcomes = {test.name.partition("::")[2]: test.outcome for test in cheated.tests}
    assert Outcome.ERROR not in outcomes.values(), "a fault of the submission was taken for one of ours"
    if cheat.failing:
        assert {outcomes[name] for name in cheat.failing} <= {Outcome.FAILED, Outcome.TIMEOUT}
        assert cheated.score < cheated.max_score
    else:
        assert Outcome.SKIPPED not in outcomes.values()
        assert cheated.score == 0, [test.name for test in cheated.tests if test.earns and test.outcome == "passed"]
    if cheat.secret:
        assert not [test.message for test in cheated.tests if test.hidden and cheat.secret in test.message]
    assert all(ord(c) >= 32 or c == "\n" for test in cheated.tests for c in test.message)
    report.to_json().encode()  # whatever was raised, the report can be written
    assert report.task(neighbour).passed, "another task lost points"


def test_what_hidden_tests_showed_is_not_told_in_a_visible_one(grading):
    """A visible test that takes times comes after hidden ones: by then, their inputs must be forgotten."""
    source = "seen = []\n\ndef sliding_windows(frames, length, step):\n"
    source += "    seen.append(tuple(frames.shape))\n    raise ValueError(repr(seen))\n"
    chapter = grading.chapter
    cells = chapter.with_solutions({chapter.task("sliding_windows").solution_cell: source})
    report = grade_cells(cells, grading, ["sliding_windows"]).task("sliding_windows")
    told = [test.message for test in report.tests if not test.hidden]
    assert any("(8, 4, 5, 3)" in message for message in told)  # what a visible test showed
    assert not any("(9, 4, 5, 3)" in message for message in told)


def test_names_are_unique():
    names = [cheat.name for cheat in CHEATS]
    assert len(names) == len(set(names))
