"""What learners call in a notebook: ``check("task")`` runs a task's visible tests on the live kernel, as a small table;
``what_you_fixed()`` shows what has been changed since the notebook was handed out.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from autograder import validating
from autograder.chapter import Chapter, find_chapters, find_root
from autograder.check_bar import CheckBar
from autograder.errors import ClinicError
from autograder.fixes import Fixes, fixes_of
from autograder.grading import check_live
from autograder.live_output import changing_output
from autograder.progress import Diary
from autograder.rendering import task_html, task_text
from autograder.report import TaskReport
from autograder.sections import Section

_INTERRUPTED = "The check was interrupted. Nothing was lost; run it again when the function is changed."
_OUT_OF_TIME = (
    "The check was stopped: Validate gives each cell a limited time. Run this check in the notebook itself, where it "
    "has the time that it needs."
)


class CheckResult:
    """What a check found: a table in JupyterLab, the score as plain text (which is what nbgrader reads).

    ``fixes`` is what was changed in the whole chapter, where this check has completed it.
    """

    def __init__(
        self, report: TaskReport, printed: str = "", section: Section | None = None, fixes: Fixes | None = None
    ) -> None:
        self.report = report
        self.printed = printed
        self.section = section
        self.fixes = fixes

    def __repr__(self) -> str:
        return repr(float(self.report.score))

    def _repr_html_(self) -> str:
        fixed = f"<p><b>{_ALL_DONE}</b></p>{self.fixes._repr_html_()}" if self.fixes else ""
        return task_html(self.report, self.printed, self.section) + fixed

    @property
    def text(self) -> str:
        """The table as text, for a terminal: ``print(check("task").text)``."""
        printed = f"Your code printed:\n{self.printed}" if self.printed else ""
        fixed = f"\n{_ALL_DONE}\n\n{self.fixes.text}" if self.fixes else ""
        return task_text(self.report, self.section) + printed + fixed


_ALL_DONE = "Every task of this chapter is done."


def check(task: str | Callable[..., Any] = "") -> CheckResult | None:
    """Run the visible tests of *task* (its name, or the function itself) against what this notebook defines now.

    It is feedback; the grade comes from running the saved notebook in a process of its own, and looks at more. The
    result is noted in the learner's diary. Prints what is wrong and returns None where there is no such task or no
    chapter here, or when it is interrupted.
    """
    name = task if isinstance(task, str) else getattr(task, "__name__", repr(task))
    try:
        chapter = _chapter_here(name)
        namespace = _live_namespace()
        wanted = [chapter.task(name).name]
        if validating.run_by_nbgrader() or not hasattr(_shell(), "kernel"):
            reports, printed = check_live(chapter, namespace, wanted)
        else:
            with CheckBar(name, changing_output()) as bar:
                reports, printed = check_live(chapter, namespace, wanted, bar.started)
        fixes = fixes_of(chapter, namespace) if _noted_as_the_last(chapter, reports[0]) else None
        result = CheckResult(reports[0], printed, chapter.section(name), fixes)
        if validating.is_on() and not result.report.passed:
            validating.tell(result.text)
        return result
    except ClinicError as error:
        validating.tell(str(error))
    except KeyboardInterrupt:
        validating.tell(_OUT_OF_TIME if validating.is_on() else _INTERRUPTED)
    return None


def what_you_fixed(chapter: str = "") -> Fixes | None:
    """Your own code beside the code that was handed out, task by task: of this notebook's chapter, or of the one named.

    Prints what is wrong and returns None where there is no such chapter.
    """
    try:
        here = Path.cwd()
        chapters = find_chapters(find_root(here))
        name = chapter or here.name
        if name not in chapters:
            raise ClinicError(f"There is no chapter {name!r} here. The chapters: {', '.join(chapters) or 'none'}.")
        return fixes_of(chapters[name], _live_namespace() if name == here.name else {})
    except ClinicError as error:
        print(error)
    return None


def _noted_as_the_last(chapter: Chapter, report: TaskReport) -> bool:
    """Note a check in the learner's diary; whether it has made the chapter complete.

    Only what is checked in a course's ``exercises/`` is a learner's: elsewhere, nothing is noted.
    """
    here = Path.cwd().resolve()
    root = find_root(here)
    if validating.run_by_nbgrader() or root / "exercises" not in here.parents:
        return False
    diary = Diary(root)
    complete_before = diary.standing(chapter).complete
    diary.note(chapter, [report])
    return diary.standing(chapter).complete and not complete_before


def _chapter_here(task: str) -> Chapter:
    here = Path.cwd()
    chapters = find_chapters(find_root(here))
    if here.name in chapters:
        return chapters[here.name]
    for chapter in chapters.values():
        if any(known.name == task for known in chapter.tasks):
            return chapter
    raise ClinicError(f"No chapter with a task {task!r} is near {here}. Open the notebook in its own folder.")


def _shell() -> Any:
    """IPython's shell, which has a ``kernel`` where a notebook may look on; None in plain Python."""
    ipython = sys.modules.get("IPython")
    return ipython.get_ipython() if ipython is not None else None


def _live_namespace() -> dict[str, Any]:
    shell = _shell()
    return shell.user_ns if shell is not None else sys.modules["__main__"].__dict__
