"""How far a learner is, in words and as lines of text: for ``autograder progress``, and for the board."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from autograder.chapter import Chapter
from autograder.progress import ChapterStanding, Standing
from autograder.rendering import points


def next_open(standings: Sequence[ChapterStanding]) -> tuple[str, str] | None:
    """The first task that is not done, as chapter and task; None where all are."""
    opened = ((standing.chapter, task.task) for standing in standings for task in standing.tasks if not task.done)
    return next(opened, None)


def next_in_words(chapter: str, task: str) -> str:
    """``Next open task: to_patches, in ch01_tensor_views``."""
    return f"Next open task: {task}, in {chapter}"


def in_words(standing: ChapterStanding) -> str:
    """``2 of 8 tasks done, 5 of 20 points``."""
    return f"{standing.done} of {len(standing.tasks)} tasks done, {points(standing)}"


def in_one_line(standing: ChapterStanding) -> str:
    """``ch01_tensor_views: 2 of 8 tasks done, 5 of 20 points``."""
    return f"{standing.chapter}: {in_words(standing)}"


def state(task: Standing) -> str:
    """``done`` or ``open``."""
    return "done" if task.done else "open"


def last_check(task: Standing) -> str:
    """When it was, in the learner's own time."""
    return f"{task.checked.astimezone():%Y-%m-%d %H:%M}" if task.checked is not None else "not checked yet"


def table(standings: Sequence[ChapterStanding]) -> str:
    """A line for each chapter, below it a line for each of its tasks; a last one for all where there are several."""
    tasks = [task for standing in standings for task in standing.tasks]
    widths = [max(map(len, column), default=0) for column in zip(*map(_row, tasks), strict=True)] or [0, 0, 0, 0]
    lines = []
    for standing in standings:
        rows = [
            "  ".join(f"{entry:{width}}" for entry, width in zip(_row(task), widths, strict=True))
            for task in standing.tasks
        ]
        lines += [in_one_line(standing), *(f"  {row}".rstrip() for row in rows), ""]
    if len(standings) > 1:
        everything = ChapterStanding("All chapters", tuple(tasks))
        lines += [in_one_line(everything), ""]
    return "\n".join(lines)


def advice(standings: Sequence[ChapterStanding], chapters: Mapping[str, Chapter]) -> str:
    """What to do next."""
    if (following := next_open(standings)) is None:
        return "Everything here is done."
    chapter, task = following
    heading = chapters[chapter].section(task).heading
    section = f", section {heading}" if heading else ""
    return (
        f"Next: {task}, in exercises/{chapter}/{chapter}.ipynb{section}\n"
        f"Stuck? `autograder hint {task}` opens a hint. `autograder watch` checks whenever you save."
    )


def _row(task: Standing) -> tuple[str, str, str, str]:
    return state(task), task.task, points(task), last_check(task)
