"""The progress board of ``00_start_here``: chapters and tasks, what is done and what is open, and where to go on.

It follows the learner's diary: a check that passes in another notebook, or in a terminal, is on it a second later.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from html import escape
from pathlib import Path

from autograder.chapter import find_root
from autograder.errors import ClinicError
from autograder.live_output import Data, changing_output
from autograder.outline import ChapterOutline, read_outline
from autograder.progress import ChapterStanding, Diary, Standing
from autograder.rendering import BAD, GOOD

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
        standings = [standing for _, standing in self.chapters]
        tasks = sum(len(standing.tasks) for standing in standings)
        points = _points(sum(s.score for s in standings), sum(s.max_score for s in standings))
        words = f"{sum(standing.done for standing in standings)} of {tasks} tasks are done, {points}."
        if self.current is None:
            return f"{words} That is the whole course!"
        outline, standing = self.current
        open_task = next(task.task for task in standing.tasks if not task.done)
        return f"{words} Next: {open_task}, in chapter {outline.number}, {outline.title}."

    @property
    def current(self) -> tuple[ChapterOutline, ChapterStanding] | None:
        """The first chapter with an open task."""
        return next(((o, s) for o, s in self.chapters if not s.complete), None)

    @property
    def text(self) -> str:
        """The board as lines of text."""
        lines = [self.summary]
        for outline, standing in self.chapters:
            lines += ["", f"Chapter {outline.number}: {outline.title}. {_chapter_line(standing)}"]
            lines += map(_line, standing.tasks)
        return "\n".join(lines) + "\n"

    @property
    def html(self) -> str:
        """The board with links; a chapter's tasks are folded away but for the first chapter with an open one."""
        parts = [f"<p><b>{escape(self.summary)}</b></p>"]
        for outline, standing in self.chapters:
            unfolded = " open" if self.current is not None and standing is self.current[1] else ""
            head = f"<b>Chapter {outline.number}: {escape(outline.title)}</b>. {_chapter_line(standing)}"
            rows = "".join(map(_row, standing.tasks))
            table = f"<table><tr>{_cells('th', 'task', 'state', 'points', 'last check')}</tr>{rows}</table>"
            parts.append(f"<details{unfolded}><summary>{head}</summary>{table}</details><p>{self._links(outline)}</p>")
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


def _points(score: float, max_score: float) -> str:
    return f"{score:.2f}".rstrip("0").rstrip(".") + f" of {max_score:g} points"


def _chapter_line(standing: ChapterStanding) -> str:
    done = f"{standing.done} of {len(standing.tasks)} tasks done, {_points(standing.score, standing.max_score)}"
    return f"{'✓ complete: ' if standing.complete else ''}{done}"


def _sign(task: Standing) -> str:
    return "✓" if task.done else "–"


def _word(task: Standing) -> str:
    return "done" if task.done else "open"


def _when(checked: datetime | None) -> str:
    """In the learner's own time."""
    return "not checked yet" if checked is None else f"{checked.astimezone():%d %b %Y, %H:%M}"


def _line(task: Standing) -> str:
    points = _points(task.score, task.max_score)
    return f"  {_sign(task)} {_word(task):7} {task.task:28} {points:16} {_when(task.checked)}"


def _row(task: Standing) -> str:
    word = f'<b style="color:{GOOD if task.done else BAD}">{_sign(task)} {_word(task)}</b>'
    name = f"<code>{escape(task.task)}</code>"
    return f"<tr>{_cells('td', name, word, _points(task.score, task.max_score), _when(task.checked))}</tr>"


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
