"""How far a learner is: the last check of each task, kept on disk beside the exercises.

One small file for a task, written whenever all of its visible tests have run on the learner's own notebook, be it by
``check`` in the notebook, by ``pytest exercises`` or by ``autograder watch``. It is a diary and no grade.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from autograder.chapter import Chapter
from autograder.report import TaskReport
from autograder.store import write_atomically

FOLDER = ".progress"
"""Where, in a course's folder, the diary is."""


@dataclass(frozen=True)
class Standing:
    """How one task stands; ``checked`` is None, and ``score`` 0, where it has not been checked yet."""

    task: str
    max_score: float
    score: float = 0.0
    checked: datetime | None = None

    @property
    def done(self) -> bool:
        """Whether the last check gave every point."""
        return self.checked is not None and self.score >= self.max_score


@dataclass(frozen=True)
class ChapterStanding:
    """How a chapter's tasks stand, in the notebook's order."""

    chapter: str
    tasks: tuple[Standing, ...]

    @property
    def done(self) -> int:
        """How many tasks are done."""
        return sum(task.done for task in self.tasks)

    @property
    def score(self) -> float:
        """Points of the last checks."""
        return sum(task.score for task in self.tasks)

    @property
    def max_score(self) -> float:
        """Points that can be had."""
        return sum(task.max_score for task in self.tasks)

    @property
    def complete(self) -> bool:
        """Whether every task is done."""
        return self.done == len(self.tasks)

    @property
    def checked(self) -> datetime | None:
        """When a task of the chapter was last checked."""
        return max((task.checked for task in self.tasks if task.checked is not None), default=None)


class Diary:
    """The diary of the course at *root*. Several processes may use it at once."""

    def __init__(self, root: Path) -> None:
        self._folder = root / FOLDER

    def note(self, chapter: Chapter, reports: Sequence[TaskReport]) -> None:
        """Write down what a check of whole tasks has found; one in which something of ours failed has found nothing.

        What cannot be written (a folder that is not the learner's, a full disk) is left: a check counts without it.
        """
        now = datetime.now(UTC).isoformat(timespec="seconds")
        for report in reports:
            if not report.is_final:
                continue
            facts = {"score": report.score, "max_score": report.max_score, "checked": now}
            with contextlib.suppress(OSError):
                write_atomically(self._path(chapter.name, report.task), json.dumps(facts))

    def forget(self, chapter: str, task: str) -> None:
        """Take the last check of a task out: it has not been checked yet."""
        with contextlib.suppress(OSError):
            self._path(chapter, task).unlink(missing_ok=True)

    def standing(self, chapter: Chapter) -> ChapterStanding:
        """How the chapter's tasks stand. A file that cannot be read counts as none."""
        return ChapterStanding(chapter.name, tuple(self._of_task(chapter, t.name, t.points) for t in chapter.tasks))

    def hints_opened(self, chapter: str, task: str) -> int:
        """How many of the task's hints have been opened in a terminal."""
        opened = self._read(self._hints(chapter, task)).get("opened", 0)
        return opened if isinstance(opened, int) and opened > 0 else 0

    def note_hints(self, chapter: str, task: str, opened: int) -> None:
        """Write down how many hints have been opened."""
        with contextlib.suppress(OSError):
            write_atomically(self._hints(chapter, task), json.dumps({"opened": opened}))

    def state(self) -> tuple[tuple[str, int], ...]:
        """Something that is another one whenever a check has been noted: cheap to ask for, again and again."""
        with contextlib.suppress(OSError):
            return tuple(sorted((str(path), path.stat().st_mtime_ns) for path in self._folder.glob("*/*.json")))
        return ()

    def _of_task(self, chapter: Chapter, task: str, points: float) -> Standing:
        facts = self._read(self._path(chapter.name, task))
        try:
            checked = datetime.fromisoformat(facts["checked"]).astimezone(UTC)
            # the share, should the task's points have changed since
            score = points * float(facts["score"]) / float(facts["max_score"])
        except (KeyError, TypeError, ValueError, ZeroDivisionError, OverflowError):
            return Standing(task, points)
        return Standing(task, points, score, checked)

    def _path(self, chapter: str, task: str) -> Path:
        return self._folder / chapter / f"{task}.json"

    def _hints(self, chapter: str, task: str) -> Path:
        return self._folder / chapter / f"{task}.hints.json"

    def _read(self, path: Path) -> dict[str, Any]:
        try:
            facts = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return {}
        return facts if isinstance(facts, dict) else {}
