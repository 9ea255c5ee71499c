"""Grade one notebook: normalise it, run the chapter's tests against it in a sandbox, and say what it is worth."""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import os
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from platformdirs import user_cache_path

from autograder.chapter import Chapter, Task, chapter_of, find_chapters, find_root
from autograder.errors import ChapterError
from autograder.hardware import fingerprint, one_thread
from autograder.normalise import Normalised, normalise
from autograder.notebook import Cell, read
from autograder.program import read_program
from autograder.report import Outcome, Report, TaskReport, TestResult, score_task
from autograder.session import Fixtures, Session, task_of
from autograder.submission import Host, LiveRunner, Runner

_VISIBLE_ONLY = "Graded by the visible tests alone: the hidden tests are not at hand in a learner's copy."


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
    try:
        # tests compute little: a second thread would only take the core from the worker that they wait for
        with _plain_pytest(), one_thread(), contextlib.redirect_stdout(noise), contextlib.redirect_stderr(noise):
            status = pytest.main([*options, *map(str, files)], plugins=[fixtures, only, _Markers()])
    finally:
        session.close()
    if status is pytest.ExitCode.INTERRUPTED and "error" not in noise.getvalue().lower():
        raise KeyboardInterrupt
    if status not in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED, pytest.ExitCode.NO_TESTS_COLLECTED):
        raise ChapterError(f"The tests of {session.chapter.name} could not be run:\n{noise.getvalue()[-2000:]}")
    return session.results_by_task()


class _Markers:
    def pytest_configure(self, config: pytest.Config) -> None:
        from autograder.session import MARKERS

        for marker in MARKERS:
            config.addinivalue_line("markers", marker)


# --- which tests earn -------------------------------------------------------------------------------------------------


def passed_by_starter(chapter: Chapter, device: str, files: Sequence[Path], tasks: Sequence[str]) -> set[str]:
    """The names of the tests that the untouched notebook passes: the guards. Run once, then remembered on disk."""
    guards: set[str] = set()
    key = _key(chapter, device, files)
    for task in tasks:
        store = user_cache_path("torch-clinic") / "starter" / key / f"{task}.json"
        try:
            known = json.loads(store.read_text())
        except (OSError, ValueError):
            session = Session(chapter, chapter.starter_program, lambda role: LiveRunner())
            results = run_tests(session, files, [task]).get(task, [])
            known = [result.name for result in results if result.outcome is Outcome.PASSED]
            if not any(result.outcome is Outcome.ERROR for result in results):
                _write_atomically(store, json.dumps(known))
        guards |= set(known)
    return guards


def _key(chapter: Chapter, device: str, files: Sequence[Path]) -> str:
    import torch

    digest = hashlib.sha256(f"{device} {torch.__version__}".encode())
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


def _write_atomically(path: Path, text: str) -> None:
    with contextlib.suppress(OSError):  # a cache that cannot be written costs time, nothing else
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor, temporary = tempfile.mkstemp(dir=path.parent)
        with os.fdopen(descriptor, "w") as file:
            file.write(text)
        os.replace(temporary, path)


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

    def files(self) -> list[Path]:
        """The test files that count."""
        return [*self.chapter.visible_tests, *(self.chapter.hidden_tests if self.hidden else [])]

    def grade(self, submission: Normalised, tasks: Sequence[str] | None = None, owner: object = None) -> Report:
        """Grade a normalised submission; *owner* tells one learner's work from the next."""
        chosen = [task for task in self.chapter.tasks if tasks is None or task.name in tasks]
        program = read_program(submission.cells)
        session = Session(self.chapter, program, lambda role: self.host.runner(owner, role, warm=self.chapter.warm))
        run_tests(session, self.files(), [task.name for task in chosen], timed=self.timed)
        reports = score_results(self.chapter, self.device, self.files(), chosen, session, submission.untouched)
        notes = list(submission.notes)
        notes += [f"Cell {cell!r} does not parse: {text}" for cell, text in program.errors().items()]
        if not self.chapter.hidden_tests or not self.hidden:
            notes.append(_VISIBLE_ONLY)
        hardware = fingerprint(self.device, threads=1, isolation=self.host.isolation)
        return Report(self.chapter.name, reports, tuple(notes), hardware)


def score_results(
    chapter: Chapter,
    device: str,
    files: Sequence[Path],
    tasks: Sequence[Task],
    session: Session,
    untouched: frozenset[str] = frozenset(),
) -> tuple[TaskReport, ...]:
    """What the results of a session come to, task by task; *untouched* names the solution cells left as they were."""
    results = session.results_by_task()
    guards = passed_by_starter(chapter, device, files, [task.name for task in tasks])
    return tuple(
        score_task(
            task.name,
            task.points,
            tuple(replace(result, earns=result.name not in guards) for result in results.get(task.name, [])),
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
    chapters = find_chapters(root or _root_for(path))
    chapter = chapter_of(path, chapters, submitted)
    normalised = normalise(chapter.starter, submitted, path.name)
    with Host(isolation, device) as host:
        return Grading(chapter, host, device).grade(normalised)


def _root_for(path: Path) -> Path:
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
    on_result: Callable[[str, TestResult], None] | None = None,
) -> tuple[tuple[TaskReport, ...], str]:
    """Run the visible tests of *tasks* against a live namespace: feedback, not a grade.

    Returns the reports, and the tail of what the learner's code printed meanwhile.
    """
    runners: list[LiveRunner] = []

    def open_runner(role: str) -> Runner:
        runner = LiveRunner(namespace if role == "submission" else None)
        if role == "submission":
            runners.append(runner)
        return runner

    session = Session(chapter, None, open_runner, on_result=on_result)
    run_tests(session, chapter.visible_tests, tasks)
    chosen = [chapter.task(name) for name in tasks]
    reports = score_results(chapter, "cpu", chapter.visible_tests, chosen, session)
    return reports, "".join(runner.printed for runner in runners)
