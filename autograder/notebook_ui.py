"""``check("task")`` in a learner's notebook: the visible tests of a task, run on the live kernel, as a small table."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from autograder.chapter import Chapter, find_chapters, find_root
from autograder.errors import ClinicError
from autograder.grading import check_live
from autograder.rendering import task_html, task_text
from autograder.report import TaskReport


class CheckResult:
    """What a check found: a table in JupyterLab, the score as plain text (which is what nbgrader reads)."""

    def __init__(self, report: TaskReport) -> None:
        self.report = report

    def __repr__(self) -> str:
        return repr(float(self.report.score))

    def _repr_html_(self) -> str:
        return task_html(self.report)

    @property
    def text(self) -> str:
        """The table as text, for a terminal: ``print(check("task").text)``."""
        return task_text(self.report)


def check(task: str) -> CheckResult | None:
    """Run the visible tests of *task* against what this notebook defines now.

    It is feedback; the grade comes from running the saved notebook in a process of its own. Prints what is wrong and
    returns None where there is no such task or no chapter here.
    """
    try:
        chapter = _chapter_here(task)
        return CheckResult(check_live(chapter, _live_namespace(), [chapter.task(task).name])[0])
    except ClinicError as error:
        print(error)
        return None


def _chapter_here(task: str) -> Chapter:
    here = Path.cwd()
    chapters = find_chapters(find_root(here))
    if here.name in chapters:
        return chapters[here.name]
    for chapter in chapters.values():
        if any(known.name == task for known in chapter.tasks):
            return chapter
    raise ClinicError(f"No chapter with a task {task!r} is near {here}. Open the notebook in its own folder.")


def _live_namespace() -> dict[str, Any]:
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    return shell.user_ns if shell is not None else sys.modules["__main__"].__dict__
