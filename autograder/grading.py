"""Grade one notebook: normalise it, run the chapter's tests against it in a sandbox, and say what it is worth."""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.metadata import version
from pathlib import Path

import pytest
from platformdirs import user_cache_path

from autograder.chapter import Chapter, Task, chapter_of, find_chapters, find_root
from autograder.errors import ChapterError
from autograder.hardware import fingerprint, one_thread
from autograder.normalise import Normalised, normalise
from autograder.notebook import Cell, read
from autograder.program import read_program
from autograder.report import Outcome, Part, Report, TaskReport, TestResult, score_task
from autograder.session import Fixtures, Session, task_of
from autograder.store import write_atomically
from autograder.submission import Host, LiveRunner, Runner

_MOST_NOTES = 20
"""How many cells that do not parse are named."""
_VISIBLE_ONLY = "Graded by the visible tests alone: the hidden tests are not at hand in a learner's copy."

_THE_STARTERS_TURN = "what the untouched notebook passes already (looked at once, then remembered)."
"""What stands in a test's place while :func:`passed_by_starter` is at work."""

_UNTOUCHED = object()
"""Whom the untouched notebook belongs to."""
_STARTERS_TRIES = 3
_STARTERS_PATIENCE = 3.0
"""A guard that is taken for none, since the machine was busy just then, would spoil every grade from there on."""


class _Only:
    """Keeps the tests of the wanted tasks; of these only those that take times (``timed``) or only the others."""

    def __init__(self, tasks: frozenset[str], timed: bool | None) -> None:
        self._tasks = tasks
        self._timed = timed

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        kept = [
            item
            for item in items
            if task_of(item) in self._tasks and self._timed in (None, item.get_closest_marker("timed") is not None)
        ]
        config.hook.pytest_deselected(items=[item for item in items if item not in kept])
        items[:] = kept


@contextlib.contextmanager
def _plain_pytest() -> Iterator[None]:
    """No options or plugins of the surrounding project: a grade depends on the chapter's tests alone."""
    names = {"PYTEST_ADDOPTS": None, "PYTEST_PLUGINS": None, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    before = {name: os.environ.get(name) for name in names}
    current = os.environ.get("PYTEST_CURRENT_TEST")  # a pytest inside a pytest would take the outer one's away
    try:
        _set_environment(names)
        yield
    finally:
        _set_environment({**before, "PYTEST_CURRENT_TEST": current})


def _set_environment(values: Mapping[str, str | None]) -> None:
    for name, value in values.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value


def run_tests(
    session: Session, files: Sequence[Path], tasks: Iterable[str], *, timed: bool | None = None
) -> dict[str, list[TestResult]]:
    """Run the tests in *files* that count for *tasks*, in this process; the results by task, in the tests' order.

    ``timed`` limits the run to the tests that take times, or to the others. Raises :class:`ChapterError` where the
    tests cannot be collected.
    """
    only = _Only(frozenset(tasks), timed)
    fixtures = Fixtures(lambda path: session)
    options = ["-c", os.devnull, "--rootdir", os.sep, "--import-mode=importlib", "-s", "-q"]
    # what pytest would do for a person's eyes, or to find leaks, takes most of a short run's time
    options += ["--tb=native", "-p", "no:cacheprovider", "-p", "no:unraisableexception", "-p", "no:threadexception"]
    options += ["-p", "no:logging"]
    noise = io.StringIO()
    plugin = _Plugin()
    try:
        # tests compute little: a second thread would only take the core from the worker that they wait for
        with _plain_pytest(), one_thread(), contextlib.redirect_stdout(noise), contextlib.redirect_stderr(noise):
            status = pytest.main([*options, *map(str, files)], plugins=[fixtures, only, plugin])
    finally:
        session.close()
    if plugin.interrupted:
        raise KeyboardInterrupt
    if status not in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED, pytest.ExitCode.NO_TESTS_COLLECTED):
        raise ChapterError(f"The tests of {session.chapter.name} could not be run:\n{noise.getvalue()[-2000:]}")
    return session.results_by_task()


class _Plugin:
    """Makes our markers known, and tells whether a person has ended the run."""

    interrupted = False

    def pytest_keyboard_interrupt(self, excinfo: pytest.ExceptionInfo[BaseException]) -> None:
        # pytest ends itself in the same way where tests cannot be collected
        self.interrupted = not isinstance(excinfo.value, pytest.Session.Interrupted)

    def pytest_configure(self, config: pytest.Config) -> None:
        from autograder.session import MARKERS

        for marker in MARKERS:
            config.addinivalue_line("markers", marker)


# --- which tests earn -------------------------------------------------------------------------------------------------


def passed_by_starter(
    chapter: Chapter, device: str, files: Sequence[Path], tasks: Sequence[str], host: Host | None = None
) -> set[str]:
    """The names of the tests that the untouched notebook passes: the guards. Run once, then remembered on disk.

    So are those that could not be measured on it, in several tries: nobody is to be paid for what may have been there
    from the beginning. Without a *host* it runs in this process, where each rank must import torch anew.
    """
    folder = _memory(chapter, device, files)
    guards: set[str] = set()
    for task in tasks:
        known = _recall(folder, task)
        if known is None:
            known = _remember(folder, task, _tried_on_starter(chapter, files, task, host))
        guards |= known
    return guards


def _remember(folder: Path, task: str, results: Sequence[TestResult]) -> set[str]:
    """The guards among one task's results on the untouched notebook."""
    guards = {result.name for result in results if result.outcome in (Outcome.PASSED, Outcome.SKIPPED)}
    if not any(result.outcome is Outcome.ERROR for result in results):
        with contextlib.suppress(OSError):  # a cache that cannot be written costs time, nothing else
            write_atomically(folder / f"{task}.json", json.dumps(sorted(guards)))
    return guards


def _tried_on_starter(chapter: Chapter, files: Sequence[Path], task: str, host: Host | None) -> list[TestResult]:
    """The results of one task's tests on the untouched notebook; tried again where a time could not be measured."""

    def open_runner(role: str) -> Runner:
        return LiveRunner() if host is None else host.runner(_UNTOUCHED, role, warm=chapter.warm)

    for _ in range(_STARTERS_TRIES):
        session = Session(chapter, chapter.starter_program, open_runner, patience=_STARTERS_PATIENCE)
        results = run_tests(session, files, [task]).get(task, [])
        if not any(result.outcome is Outcome.SKIPPED for result in results):
            break
    return results


def remembered_guards(chapter: Chapter, device: str, files: Sequence[Path]) -> set[str] | None:
    """The same for all tasks from what is remembered, None where that does not cover them."""
    folder = _memory(chapter, device, files)
    known = [_recall(folder, task.name) for task in chapter.tasks]
    return None if None in known else set().union(*(names for names in known if names))


def _memory(chapter: Chapter, device: str, files: Sequence[Path]) -> Path:
    return user_cache_path("torch-clinic") / "starter" / tests_version(chapter, device, files)


def _recall(folder: Path, task: str) -> set[str] | None:
    try:
        return set(json.loads((folder / f"{task}.json").read_text(encoding="utf-8")))
    except (OSError, ValueError):
        return None


def tests_version(chapter: Chapter, device: str, files: Sequence[Path]) -> str:
    """A name for all that decides on a notebook but the notebook: the tests, the engine, torch, the device."""
    digest = hashlib.sha256(f"{device} {version('torch')}".encode())
    package = Path(__file__).parent
    # hidden tests read what lies beside them: the reference, and other implementations
    beside = {folder for folder in (file.parent for file in files) if folder.name == "hidden"}
    sources = [
        *files,
        *sorted(package.rglob("*.py")),
        *(path for f in sorted(beside) for path in sorted(f.rglob("*.py"))),
    ]
    for path in sources:
        if path.is_file():
            digest.update(path.read_bytes())
    for cell in chapter.starter:
        digest.update(f"{cell.kind}\0{cell.source}\0{cell.grade_id}\0".encode())
    return digest.hexdigest()[:32]


# --- grading ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Grading:
    """How to grade: the chapter, where code runs, and on which device."""

    chapter: Chapter
    host: Host
    device: str = "cpu"
    hidden: bool = True
    """Whether hidden tests are used where they are at hand."""
    timed: bool | None = None
    """Limits the tests to those that take times, or to the others; a grade needs both."""
    on_start: Callable[[str, int, int], None] | None = None
    """Told of each test that begins, see :class:`Session`."""

    def files(self) -> list[Path]:
        """The test files that count."""
        return self.chapter.tests if self.hidden else self.chapter.visible_tests

    def run(self, submission: Normalised, tasks: Sequence[str] | None = None, owner: object = None) -> Part:
        """Run the tests on a normalised submission; *owner* tells one learner's work from the next.

        Raises :class:`ChapterError` for tests that ask the submission for more than their code shows.
        """
        chosen = self._chosen(tasks)
        program = read_program(submission.cells)
        session = Session(
            self.chapter,
            program,
            lambda role: self.host.runner(owner, role, warm=self.chapter.warm),
            on_start=self.on_start,
        )
        results = run_tests(session, self.files(), chosen, timed=self.timed)
        for task, names in session.asked_names.items():
            if unseen := names - self.chapter.needs[task].names:
                raise ChapterError(
                    f"{self.chapter.name}, task {task}: its tests ask for {', '.join(sorted(unseen))} in a way that "
                    "reading them does not show. Write `submission.name`, or `learner.name` in a probe of that file."
                )
        hardware = fingerprint(self.device, threads=1, isolation=self.host.isolation)
        return Part({task: tuple(found) for task, found in results.items()}, hardware)

    def guards(self, tasks: Sequence[str] | None = None) -> set[str]:
        """The names of the tests that earn nothing, see :func:`passed_by_starter`."""
        return passed_by_starter(self.chapter, self.device, self.files(), self._chosen(tasks), self.host)

    def grade_starter(self) -> Report:
        """Grade the untouched notebook; what :meth:`guards` would find out by running it too is remembered."""
        untouched = Normalised(self.chapter.starter, (), frozenset())
        part = self.run(untouched, owner=_UNTOUCHED)
        folder = _memory(self.chapter, self.device, self.files())
        for task, results in part.results.items():
            if not any(result.outcome is Outcome.SKIPPED for result in results):  # those are tried again there
                _remember(folder, task, results)
        return report_of(self.chapter, untouched, [part], self.guards(), hidden=self.hidden)

    def grade(self, submission: Normalised, tasks: Sequence[str] | None = None, owner: object = None) -> Report:
        """Run the tests on a normalised submission, and say what it is worth."""
        part = self.run(submission, tasks, owner)
        return report_of(self.chapter, submission, [part], self.guards(tasks), self._chosen(tasks), hidden=self.hidden)

    def _chosen(self, tasks: Sequence[str] | None) -> list[str]:
        return [task.name for task in self.chapter.tasks if tasks is None or task.name in tasks]


def report_of(
    chapter: Chapter,
    submission: Normalised,
    parts: Sequence[Part],
    guards: Collection[str],
    tasks: Sequence[str] | None = None,
    *,
    hidden: bool = True,
) -> Report:
    """The grade that the results in *parts* come to; *guards* are the names of the tests that earn nothing."""
    chosen = [task for task in chapter.tasks if tasks is None or task.name in tasks]
    results = {task.name: [test for part in parts for test in part.results.get(task.name, ())] for task in chosen}
    notes = list(submission.notes)
    unread = [f"Cell {cell!r} does not parse: {text}" for cell, text in read_program(submission.cells).errors().items()]
    notes += unread[:_MOST_NOTES]
    if len(unread) > _MOST_NOTES:
        notes.append(f"So it is with {len(unread) - _MOST_NOTES:,} more cells.")
    if not chapter.hidden_tests or not hidden:
        notes.append(_VISIBLE_ONLY)
    hardware = dict(parts[0].hardware) if parts else {}
    if any(part.hardware != parts[0].hardware for part in parts):
        hardware["timed_on"] = dict(parts[-1].hardware)
    return Report(chapter.name, score_results(chosen, results, guards, submission.untouched), tuple(notes), hardware)


def refused_report(chapter: Chapter, reason: str) -> Report:
    """The grade of a notebook that could not be read: nothing for each task, with the reason."""
    note = f"This notebook could not be graded.\n{reason}"
    tasks = tuple(TaskReport(task.name, 0.0, task.points, (), note) for task in chapter.tasks)
    return Report(chapter.name, tasks, (note,))


def score_results(
    tasks: Sequence[Task],
    results: Mapping[str, Sequence[TestResult]],
    guards: Collection[str],
    untouched: Collection[str] = (),
) -> tuple[TaskReport, ...]:
    """What the results come to, task by task; *untouched* names the solution cells left as they were."""
    return tuple(
        score_task(
            task.name,
            task.points,
            tuple(replace(result, earns=result.name not in guards) for result in results.get(task.name, ())),
            touched=task.solution_cell not in untouched,
        )
        for task in tasks
    )


def grade_notebook(path: Path, root: Path | None = None, isolation: str = "auto", device: str = "cpu") -> Report:
    """Grade the notebook at *path* as other people's work.

    Raises :class:`~autograder.errors.SubmissionRefused` where it holds nothing that could be graded,
    :class:`~autograder.errors.IsolationUnavailable` where it cannot be run safely, and :class:`ChapterError`.
    """
    submitted = read(path)
    chapters = find_chapters(root or root_for(path))
    chapter = chapter_of(path, chapters, submitted)
    normalised = normalise(chapter.starter, submitted, path.name)
    with Host(isolation, device) as host:
        return Grading(chapter, host, device).grade(normalised)


def root_for(path: Path) -> Path:
    """The course that a submission at *path* belongs to; raises :class:`ChapterError` where none is near."""
    # The notebook's own folder comes last: a learner's tests, handed in beside it, would run in the judge.
    for start in (Path.cwd(), Path(__file__).parent, path.parent):
        with contextlib.suppress(ChapterError):
            return find_root(start)
    raise ChapterError("No folder `exercises` or `solutions` is near. Run this inside the course's folder.")


def grade_cells(cells: Sequence[Cell], grading: Grading, tasks: Sequence[str] | None = None) -> Report:
    """Grade cells of our own making (a solution, a mutant, a wheat) as they stand."""
    return grading.grade(Normalised(tuple(cells), (), frozenset()), tasks, owner=object())


def check_live(
    chapter: Chapter,
    namespace: dict[str, object],
    tasks: Sequence[str],
    on_start: Callable[[str, int, int], None] | None = None,
) -> tuple[tuple[TaskReport, ...], str]:
    """Run the visible tests of *tasks* against a live namespace: feedback, not a grade.

    ``on_start`` is told of each test that begins, see :class:`Session`, and of the look at the starter.
    Returns the reports, and the tail of what the learner's code printed meanwhile.
    """
    runners: list[LiveRunner] = []

    def open_runner(role: str) -> Runner:
        runner = LiveRunner(namespace if role == "submission" else None)
        if role == "submission":
            runners.append(runner)
        return runner

    session = Session(chapter, None, open_runner, on_start=on_start)
    run_tests(session, chapter.visible_tests, tasks)
    chosen = [chapter.task(name) for name in tasks]
    if on_start is not None:
        on_start(_THE_STARTERS_TURN, len(session.results), len(session.results))
    guards = passed_by_starter(chapter, "cpu", chapter.visible_tests, tasks)
    reports = score_results(chosen, session.results_by_task(), guards)
    return reports, "".join(runner.printed for runner in runners)
