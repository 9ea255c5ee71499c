"""The progress board of ``00_start_here``: chapters and tasks, what is done and what is open, and where to go on.

It follows the learner's diary: a check that passes in another notebook, or in a terminal, is on it a second later.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Callable
from dataclasses import dataclass
from html import escape
from pathlib import Path

from autograder.chapter import find_root
from autograder.errors import ClinicError
from autograder.live_output import Data, changing_output
from autograder.outline import ChapterOutline, read_outline
from autograder.progress import ChapterStanding, Diary, Standing
from autograder.progress_table import in_words, last_check, next_open, state, table
from autograder.rendering import BAD, GOOD, points

_EVERY_S = 1.0
_following: asyncio.Task[None] | None = None
"""What keeps the board that was shown last up to date."""


@dataclass(frozen=True)
class Board:
    """How far a learner is, at one moment. Links lead from the folder ``base``."""

    chapters: tuple[tuple[ChapterOutline, ChapterStanding], ...]
    base: Path

    @property
    def summary(self) -> str:
        """One sentence on all, one on what comes next."""
        words = f"{in_words(self.whole)}."
        if self.current is None:
            return f"{words} That is the whole course!"
        outline, task = self.current
        return f"{words} Next: {task}, in chapter {outline.number}, {outline.title}."

    @property
    def whole(self) -> ChapterStanding:
        """All chapters as if they were one."""
        return ChapterStanding("", tuple(task for _, standing in self.chapters for task in standing.tasks))

    @property
    def current(self) -> tuple[ChapterOutline, str] | None:
        """The first chapter with an open task, and that task."""
        outlines = {standing.chapter: outline for outline, standing in self.chapters}
        following = next_open([standing for _, standing in self.chapters])
        return (outlines[following[0]], following[1]) if following else None

    @property
    def text(self) -> str:
        """The board as lines of text."""
        return f"{self.summary}\n\n{table([standing for _, standing in self.chapters])}"

    @property
    def html(self) -> str:
        """The board with links; a chapter's tasks are folded away but for the first chapter with an open one."""
        parts = [f"<p><b>{escape(self.summary)}</b></p>"]
        for outline, standing in self.chapters:
            unfolded = " open" if self.current is not None and outline is self.current[0] else ""
            title = f"<b>Chapter {outline.number}: {escape(outline.title)}</b>"
            stands = f"{_sign(standing.complete)} {in_words(standing)}"
            rows = _cells("th", "task", "state", "points", "last check"), *map(_row, standing.tasks)
            tasks = f"<table>{''.join(f'<tr>{row}</tr>' for row in rows)}</table>"
            parts.append(f"<details{unfolded}><summary>{title}: {stands}</summary>{tasks}</details>")
            parts.append(f"<p>{self._links(outline)}</p>")
        return "".join(parts)

    @property
    def data(self) -> Data:
        """The board in both forms."""
        return {"text/plain": self.text, "text/html": self.html}

    def _links(self, outline: ChapterOutline) -> str:
        links = []
        if outline.lesson is not None:
            links.append(f"{self._link(outline.lesson, 'Lesson')} (about {outline.lesson_minutes} minutes)")
        if outline.exercise is not None:
            time = f" ({outline.exercise_time})" if outline.exercise_time else ""
            links.append(f"{self._link(outline.exercise, 'Exercise')}{time}")
        return " · ".join(links)

    def _link(self, path: Path, words: str) -> str:
        target = Path(os.path.relpath(path, self.base)).as_posix()
        return f'<a href="{escape(target)}">{words}</a>'


def _sign(done: bool) -> str:
    return "✓" if done else "–"


def _row(task: Standing) -> str:
    word = f'<b style="color:{GOOD if task.done else BAD}">{_sign(task.done)} {state(task)}</b>'
    name = f"<code>{escape(task.task)}</code>"
    return _cells("td", name, word, points(task), last_check(task))


def _cells(tag: str, *contents: str) -> str:
    return "".join(f'<{tag} style="text-align:left;padding:1px 14px 1px 0">{text}</{tag}>' for text in contents)


def read_board(root: Path, base: Path) -> Board:
    """The board of the course at *root* as it stands now, with links that lead from the folder *base*."""
    diary = Diary(root)
    outlines = read_outline(root)
    return Board(tuple((outline, diary.standing(outline.chapter)) for outline in outlines), base)


def show_board() -> None:
    """Show the board below the running cell, and keep it up to date while the kernel lives or until it is shown anew.

    Prints what is wrong where no course is near. Where no event loop runs (outside of a kernel), the board is shown as
    it is and stays so.
    """
    global _following
    if _following is not None:
        _following.cancel()
        _following = None
    try:
        here = Path.cwd()
        root = find_root(here)
        show = changing_output()
        seen = Diary(root).state()
        show(read_board(root, here).data)
        loop = asyncio.get_running_loop()
    except ClinicError as error:
        print(error)
    except RuntimeError:
        return
    else:
        _following = loop.create_task(_follow(root, here, show, seen))


async def _follow(root: Path, base: Path, show: Callable[[Data], None], seen: object) -> None:
    """Show the board anew whenever a check has been noted."""
    diary = Diary(root)
    while True:
        await asyncio.sleep(_EVERY_S)
        state = diary.state()
        if state != seen:
            with contextlib.suppress(ClinicError, OSError):  # a file is being written: the next look will do
                show(read_board(root, base).data)
                seen = state
