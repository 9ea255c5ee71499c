"""The course as a learner sees it: its chapters in order, each with its title, lesson, exercise, and the time it takes.

All of it is read from the notebooks themselves; there is no list to keep.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from autograder.chapter import Chapter, find_chapters
from autograder.errors import SubmissionRefused
from autograder.notebook import Cell, read

_TITLE = re.compile(r"^# Chapter \d+: (.+)$", re.MULTILINE)
_PLAN = re.compile(r"Plan\s+for\s+([^.,]+)")
_WORDS_PER_MINUTE = 200
_MINUTES_PER_CELL = 0.75
"""To make a prediction, run the cell, and look at what comes out."""
_STEP_MINUTES = 5


@dataclass(frozen=True)
class ChapterOutline:
    """One chapter: ``lesson`` and ``exercise`` are notebooks, None where they are not there."""

    chapter: Chapter
    number: int
    title: str
    lesson: Path | None
    lesson_minutes: int
    exercise: Path | None
    exercise_time: str
    """In the words of the exercise: ``30 to 60 minutes``; "" where it does not say."""


def read_outline(root: Path) -> list[ChapterOutline]:
    """The chapters of the course at *root*, in the order to take them in."""
    return [_outline_of(root, chapter) for _, chapter in sorted(find_chapters(root).items())]


def _outline_of(root: Path, chapter: Chapter) -> ChapterOutline:
    number, _, topic = chapter.name.removeprefix("ch").partition("_")
    lesson = root / "course" / f"{chapter.name}.ipynb"
    exercise = root / "exercises" / chapter.name / f"{chapter.name}.ipynb"
    cells = _cells(lesson)
    title = _TITLE.search(_prose(cells))
    plan = _PLAN.search(_prose(chapter.starter))
    return ChapterOutline(
        chapter,
        int(number) if number.isdigit() else 0,
        title[1].strip() if title else topic.replace("_", " "),
        lesson if cells else None,
        _minutes(cells),
        exercise if exercise.is_file() else None,
        " ".join(plan[1].split()) if plan else "",
    )


def _cells(path: Path) -> Sequence[Cell]:
    try:
        return read(path).cells
    except SubmissionRefused:
        return ()


def _prose(cells: Sequence[Cell]) -> str:
    return "\n\n".join(cell.source for cell in cells if cell.kind == "markdown")


def _minutes(cells: Sequence[Cell]) -> int:
    """About how long a lesson takes, in steps of five minutes."""
    code = sum(cell.kind == "code" for cell in cells)
    minutes = len(_prose(cells).split()) / _WORDS_PER_MINUTE + _MINUTES_PER_CELL * code
    return _STEP_MINUTES * math.ceil(minutes / _STEP_MINUTES)
