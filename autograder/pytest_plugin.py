"""``pytest exercises``: the face for people who check themselves, and for authors (``pytest solutions``).

Each chapter's tests run against the notebook beside them, or against ``--submission PATH``. After pytest's own report
comes a summary by task: points, and what each failing test says.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from autograder.chapter import Chapter, chapter_of, find_chapters
from autograder.errors import ClinicError
from autograder.grading import passed_by_starter, score_results
from autograder.hardware import resolve_device
from autograder.needs import Needs, needs_of
from autograder.normalise import Normalised, normalise
from autograder.notebook import read
from autograder.program import read_program
from autograder.progress import Diary
from autograder.report import Outcome, TaskReport
from autograder.sandbox import ISOLATIONS
from autograder.session import MARKERS, Fixtures, Session, task_of, test_name
from autograder.submission import Host


def pytest_addoption(parser: pytest.Parser) -> None:
    """Our options."""
    group = parser.getgroup("torch-clinic")
    group.addoption("--submission", metavar="PATH", help="run the tests against this notebook, sandboxed")
    group.addoption(
        "--device", default="cpu", help="cpu (default), cuda, mps, xpu, or auto for the accelerator there is"
    )
    group.addoption(
        "--isolation",
        default=None,
        choices=ISOLATIONS,
        help="how submitted code is kept apart (default: none for your own notebooks, auto with --submission)",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Register the markers and the fixtures."""
    for marker in MARKERS:
        config.addinivalue_line("markers", marker)
    face = _Face(config)
    config.pluginmanager.register(face, "torch-clinic-face")
    config.pluginmanager.register(Fixtures(face.find), "torch-clinic-fixtures")


@dataclass
class _Bound:
    """A chapter's folder with tests, and what they are run against."""

    chapter: Chapter
    folder: Path
    session: Session | None = None
    submission: Normalised | None = None
    refusal: str = ""
    files: set[Path] = field(default_factory=set)
    collected: dict[str, set[str]] = field(default_factory=dict)
    """The tests of each task that were found, before -k and the like left any out: ``file::test``."""

    def whole(self, reports: Sequence[TaskReport]) -> list[TaskReport]:
        """The reports of those tasks of which every visible test has been run to its end."""
        there = needs_of(sorted(self.folder.glob("test_*.py")))
        return [report for report in reports if self._is_whole(report, there.get(report.task, Needs()))]

    def _is_whole(self, report: TaskReport, there: Needs) -> bool:
        ran = {test.name for test in report.tests}
        # pytest does not even look for tests that no argument names, nor (--lf) for those that passed before
        return self.collected[report.task] <= ran and there.tests <= {name.partition("[")[0] for name in ran}


class _Face:
    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._bound: dict[Path, _Bound | None] = {}
        self._host: Host | None = None
        self._device = ""
        self._only = ""

    @property
    def host(self) -> Host:
        if self._host is None:
            try:
                self._device = resolve_device(self._config.getoption("device"))
            except ClinicError as error:
                raise pytest.UsageError(str(error)) from None
            default = "auto" if self._config.getoption("submission") else "none"
            self._host = Host(self._config.getoption("isolation") or default, self._device)
        return self._host

    def find(self, path: Path) -> Session | None:
        bound = self.bound(path)
        return bound.session if bound else None

    def bound(self, path: Path) -> _Bound | None:
        folder = path.parent.parent if path.parent.name == "hidden" else path.parent
        if folder.parent.name not in ("exercises", "solutions"):
            return None
        if folder not in self._bound:
            self._bound[folder] = self._bind(folder)
        return self._bound[folder]

    def _bind(self, folder: Path) -> _Bound | None:
        chapters = find_chapters(folder.parent.parent)
        chapter = chapters.get(folder.name)
        if chapter is None:
            return None
        bound = _Bound(chapter, folder)
        given = self._config.getoption("submission")
        path = Path(given) if given else folder / f"{folder.name}.ipynb"
        try:
            notebook = read(path)
            if given:
                self._only = chapter_of(path, chapters, notebook).name
            bound.submission = normalise(chapter.starter, notebook, path.name)
        except ClinicError as error:
            bound.refusal = str(error)
            bound.session = Session(chapter, None, lambda role: self.host.runner(warm=chapter.warm))
            return bound
        import torch

        torch.set_num_threads(1)  # as for a grade
        program = read_program(bound.submission.cells)
        bound.session = Session(chapter, program, lambda role: self.host.runner(str(path), role, warm=chapter.warm))
        return bound

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        kept: list[pytest.Item] = []
        left_out: list[pytest.Item] = []
        for item in items:
            bound = self.bound(item.path)
            (left_out if bound and self._only and bound.chapter.name != self._only else kept).append(item)
            if bound is not None:
                bound.files.add(item.path)
                bound.collected.setdefault(task_of(item), set()).add(test_name(item))
                item.extra_keyword_matches.add(task_of(item))  # so that -k takes a task's name
        if items and all(self.bound(item.path) for item in items) and config.option.tbstyle == "auto":
            config.option.tbstyle = "no"  # our summary by task says it all; --tb=short brings pytest's own back
        if left_out:
            config.hook.pytest_deselected(items=left_out)
            items[:] = kept

    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        bound = self.bound(item.path)
        if bound is not None and bound.refusal:
            pytest.fail(bound.refusal, pytrace=False)

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        for bound in self._bound.values():
            if bound is None or bound.session is None or not bound.session.results:
                continue
            if bound.refusal:
                terminalreporter.section(bound.chapter.name)
                terminalreporter.write_line(bound.refusal)
                continue
            assert bound.submission is not None
            ran = bound.session.results_by_task()  # -k and the like leave tasks out
            tasks = [task for task in bound.chapter.tasks if task.name in ran]
            names = [task.name for task in tasks]
            guards = passed_by_starter(bound.chapter, self._device, sorted(bound.files), names, self.host)
            reports = score_results(tasks, ran, guards, bound.submission.untouched)
            whole = bound.whole(reports)
            self._write(terminalreporter, bound, reports, {report.task for report in whole})
            if self._is_learners_own(bound):
                Diary(bound.folder.parent.parent).note(bound.chapter, whole)

    def _is_learners_own(self, bound: _Bound) -> bool:
        """Whether what has run may count as a check of the learner's own notebook, and of whole tasks.

        Of a test that is named, or has failed before, the other cases are not even collected.
        """
        some_cases_only = any("::" in name for name in self._config.args) or self._config.getoption("lf", False)
        return (
            bound.folder.parent.name == "exercises" and not self._config.getoption("submission") and not some_cases_only
        )

    def _write(self, terminal: Any, bound: _Bound, reports: Sequence[TaskReport], whole: set[str]) -> None:
        """The summary; points are shown for the tasks in *whole*, since some of a task's tests say little."""
        terminal.section(f"{bound.chapter.name}: points by task")
        for report in reports:
            terminal.write_line(_heading(report, report.task in whole), bold=True)
            for test in report.tests:
                if test.outcome in (Outcome.PASSED, Outcome.SKIPPED):
                    continue
                again = f"  [lesson: {test.lesson}]" if test.lesson else ""
                terminal.write_line(f"      {test.outcome}: {test.description}{again}")
                for line in test.message.splitlines():
                    terminal.write_line(f"        {line}")
            for test in report.tests:
                if test.outcome is Outcome.SKIPPED:
                    terminal.write_line(f"      skipped: {test.description} ({test.message})")
            if report.note and report.task in whole:
                terminal.write_line(f"      {report.note}")
        if counted := [report for report in reports if report.task in whole]:
            total, most = (sum(points) for points in zip(*((r.score, r.max_score) for r in counted), strict=True))
            terminal.write_line(f"{total:.2f} of {most:g} points", bold=True)
        for note in bound.submission.notes if bound.submission else ():
            terminal.write_line(f"note: {note}")

    def pytest_unconfigure(self) -> None:
        for bound in self._bound.values():
            if bound is not None and bound.session is not None:
                bound.session.close()
        if self._host is not None:
            self._host.close()


def _heading(report: TaskReport, whole: bool) -> str:
    if not whole:
        passed = sum(test.outcome is Outcome.PASSED for test in report.tests)
        return f"part  {report.task:24} {passed} of {len(report.tests)} chosen tests passed; points need all of them"
    return f"{'done' if report.passed else 'open'}  {report.task:24} {report.score:5.2f} of {report.max_score:g}"
