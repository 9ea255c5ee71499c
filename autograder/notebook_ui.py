"""``check("task")`` in a learner's notebook: the visible tests of a task, run on the live kernel, as a small table."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from autograder import validating
from autograder.chapter import Chapter, find_chapters, find_root
from autograder.errors import ClinicError
from autograder.grading import check_live
from autograder.rendering import task_html, task_text
from autograder.report import TaskReport
from autograder.sections import Section

_INTERRUPTED = "The check was interrupted. Nothing was lost; run it again when the function is changed."
_OUT_OF_TIME = (
    "The check was stopped: Validate gives each cell a limited time. Run this check in the notebook itself, where it "
    "has the time that it needs."
)


class CheckResult:
    """What a check found: a table in JupyterLab, the score as plain text (which is what nbgrader reads)."""

    def __init__(self, report: TaskReport, printed: str = "", section: Section | None = None) -> None:
        self.report = report
        self.printed = printed
        self.section = section

    def __repr__(self) -> str:
        return repr(float(self.report.score))

    def _repr_html_(self) -> str:
        return task_html(self.report, self.printed, self.section)

    @property
    def text(self) -> str:
        """The table as text, for a terminal: ``print(check("task").text)``."""
        return task_text(self.report, self.section) + (f"Your code printed:\n{self.printed}" if self.printed else "")


def check(task: str | Callable[..., Any] = "") -> CheckResult | None:
    """Run the visible tests of *task* (its name, or the function itself) against what this notebook defines now.

    It is feedback; the grade comes from running the saved notebook in a process of its own, and looks at more. Prints
    what is wrong and returns None where there is no such task or no chapter here, or when it is interrupted.
    """
    name = task if isinstance(task, str) else getattr(task, "__name__", repr(task))
    try:
        chapter = _chapter_here(name)
        reports, printed = check_live(chapter, _live_namespace(), [chapter.task(name).name])
        result = CheckResult(reports[0], printed, chapter.section(name))
        if validating.is_on() and not result.report.passed:
            validating.tell(result.text)
        return result
    except ClinicError as error:
        validating.tell(str(error))
    except KeyboardInterrupt:
        validating.tell(_OUT_OF_TIME if validating.is_on() else _INTERRUPTED)
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
