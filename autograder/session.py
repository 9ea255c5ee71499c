"""One run of a chapter's tests against one submission: the fixtures that tests get, and the results they leave.

Used in two ways: by :mod:`autograder.grading`, which runs pytest inside the judge, and by the pytest face, for people
who type ``pytest exercises``.
"""

from __future__ import annotations

import importlib.util
import itertools
import re
import sys
import tempfile
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass, field
from getpass import getuser
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from filelock import FileLock

from autograder import figures
from autograder.chapter import Chapter
from autograder.errors import (
    ChapterError,
    ClinicError,
    Finding,
    LearnerCrashed,
    LearnerError,
    LearnerException,
    LearnerMissing,
    LearnerTimeout,
    WireError,
)
from autograder.notebook import Cell
from autograder.program import Program, read_program
from autograder.replies import public_kind
from autograder.report import Outcome, TestResult
from autograder.submission import Runner, Submission
from autograder.text import printable

MARKERS = (
    "task(name): the grade cell that the test counts for",
    "pitfall(*rows): the rows of the syllabus that the test catches",
    "lesson(section): the section of the lesson to reread when the test fails",
    "timed: takes times, so nothing else of ours may run beside it",
)
_MESSAGE_LINES = 12
_ADDRESS = re.compile(r"\b0x[0-9a-f]{8,16}\b")
"""Where an object lies in memory: says nothing, and is another one each time."""
_TIMING_LOCK = Path(tempfile.gettempdir()) / f"torch-clinic-timing-{getuser()}.lock"


@dataclass
class Session:
    """A chapter, a submission to it, and where code runs.

    ``program`` is what the submission defines, None for a live kernel. ``open_runner(role)`` opens somewhere to run,
    ``role`` being ``submission`` or ``baseline``: each gets a place of its own.
    """

    chapter: Chapter
    program: Program | None
    open_runner: Callable[[str], Runner]
    results: list[tuple[str, TestResult]] = field(default_factory=list)
    """(task, result) in the order in which tests ran; a test that fails in teardown as well has two."""
    on_start: Callable[[str, int, int], None] | None = None
    """Told of each test that begins: its description, how many of the run's tests are through, how many there are."""
    patience: float = 1.0
    """What the time that a request may take is multiplied by."""
    asked_names: dict[str, set[str]] = field(default_factory=dict)
    """The names that each task's tests have asked the submission for."""
    _turn: tuple[str, bool] = ("", False)
    """The task whose tests are run, and whether it is those that take times."""
    _open: dict[str, Submission] = field(default_factory=dict)

    def submission(self, task: str, timed: bool = False) -> Submission:
        """The submission as *task*'s tests see it: a new process for each task, and one for those that take times.

        Were a task's tests all in one, code could keep what it has seen of hidden tests, and tell it in a visible one.
        """
        return self._for_task((task, timed), "submission", self.program, lambda: self.open_runner("submission"))

    def baseline(self, task: str, which: str = "starter", timed: bool = True) -> Submission:
        """What a submission is measured against: the starter, the solution with the bug of pitfall *which*, or code.

        Raises :class:`ChapterError` for a pitfall that has no region in the task.
        """
        if which == "starter":
            program, label = self.chapter.starter_program, "original version"
        elif "\n" in which:
            cell = Cell("code", f"import torch\n{which}")
            program, label = read_program([cell]), "plain version"
        else:
            found = [m for m in self.chapter.mutants() if m.region.pitfall == which and m.task == task]
            if not found:
                raise ChapterError(f"{self.chapter.name}, task {task}: no region for a baseline named {which!r}")
            program, label = read_program(found[0].cells), "version with that bug"
        submission = self._for_task((task, timed), f"baseline {which}", program, lambda: self.open_runner("baseline"))
        submission.label = label
        return submission

    def _for_task(
        self, turn: tuple[str, bool], role: str, program: Program | None, opener: Callable[[], Runner]
    ) -> Submission:
        if turn != self._turn:
            self.close()
            self._turn = turn
        if role not in self._open:
            self._open[role] = Submission(opener, program, role)
            self._open[role].timeout *= self.patience
        return self._open[role]

    def results_by_task(self) -> dict[str, list[TestResult]]:
        """The last result of each test, by task."""
        last = {(task, result.name): result for task, result in self.results}
        by_task: dict[str, list[TestResult]] = {}
        for (task, _), result in last.items():
            by_task.setdefault(task, []).append(result)
        return by_task

    def learner_answered(self) -> bool:
        """Whether the current task's submission has been called at all."""
        return "submission" in self._open and self._open["submission"].answered

    def close(self) -> None:
        """End the current task's processes."""
        if "submission" in self._open:
            submission = self._open["submission"]
            self.asked_names.setdefault(self._turn[0], set()).update(submission.asked_names)
        for submission in self._open.values():
            submission.close()
        self._open = {}
        self._turn = ("", False)


def task_of(item: pytest.Item) -> str:
    """The task that a test counts for; raises ``pytest.UsageError`` for a test without one."""
    marker = item.get_closest_marker("task")
    if marker is None or len(marker.args) != 1:
        raise pytest.UsageError(f'{item.nodeid}: an exercise test needs @pytest.mark.task("name of its grade cell")')
    return str(marker.args[0])


def test_name(item: pytest.Item) -> str:
    """What a test is called in results: ``file::test[case]``."""
    return f"{item.path.stem}::{item.name}"


def _is_timed(item: pytest.Item) -> bool:
    return item.get_closest_marker("timed") is not None


class Fixtures:
    """The pytest plugin with the fixtures; ``find(path)`` gives the session that a test file belongs to."""

    def __init__(self, find: Callable[[Path], Session | None]) -> None:
        self._find = find

    def session_of(self, item: pytest.Item) -> Session | None:
        """The session of a test, None for a test that is none of ours."""
        return self._find(item.path)

    def _of_request(self, request: pytest.FixtureRequest) -> Session:
        session = self._find(request.path)
        if session is None:
            raise pytest.UsageError(f"{request.path}: not a test of a chapter under exercises/ or solutions/")
        return session

    @pytest.fixture
    def submission(self, request: pytest.FixtureRequest) -> Submission:
        """The learner's notebook: its functions are attributes."""
        return self._of_request(request).submission(task_of(request.node), _is_timed(request.node))

    @pytest.fixture
    def baseline(self, request: pytest.FixtureRequest) -> Callable[..., Submission]:
        """What a speed-up is measured against: ``baseline("starter")``, or with a pitfall or source instead."""
        session, task, timed = self._of_request(request), task_of(request.node), _is_timed(request.node)

        def open_baseline(which: str = "starter") -> Submission:
            return session.baseline(task, which, timed)

        return open_baseline

    @pytest.fixture
    def starter_source(self, request: pytest.FixtureRequest) -> Callable[[str], str]:
        """``starter_source(grade_id)``: the source of a solution cell as it was handed out."""
        cells = {cell.grade_id: cell.source for cell in self._of_request(request).chapter.starter}
        return cells.__getitem__

    @pytest.fixture
    def reference(self, request: pytest.FixtureRequest) -> ModuleType:
        """The chapter's reference implementation; only hidden tests have it."""
        return load_module(request.path.parent / "reference.py")

    @pytest.fixture
    def photographs(self) -> Callable[..., Any]:
        """``photographs(seed, n_frames, height, width)``: a clip from a real photograph, uint8, channels last."""
        from autograder.pictures import random_clip

        return random_clip

    @pytest.fixture
    def digits(self) -> Callable[..., Any]:
        """``digits(seed, n)``: real digits, images (float32, (n, 64), 0..1) and labels (int64, (n,))."""
        from autograder.pictures import random_digits

        return random_digits

    @pytest.fixture(autouse=True)
    def _quiet_machine(self, request: pytest.FixtureRequest) -> Iterator[None]:
        if not _is_timed(request.node):
            yield
            return
        with FileLock(_TIMING_LOCK):
            yield

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Tests of one task run together, since they share a process; tasks in the notebook's order.

        Those that take times come last in their task: a report reads the same where they are run apart.
        """

        def order(item: pytest.Item) -> tuple[str, int, bool]:
            session = self.session_of(item)
            if session is None:
                return ("", 0, False)
            names = [task.name for task in session.chapter.tasks]
            session.chapter.task(task_of(item))  # raises for a task that is not there
            return (session.chapter.name, names.index(task_of(item)), _is_timed(item))

        items.sort(key=order)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        """Forget what was measured before: it is not this test's. Say that the test begins."""
        figures.taken()
        session = self.session_of(item)
        if session is not None and session.on_start is not None:
            among = [other for other in item.session.items if self.session_of(other) is session]
            session.on_start(_description(item), among.index(item), len(among))

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[None]
    ) -> Generator[None, Any, Any]:  # a generator: what it yields back is the report
        """Note the outcome of each test in its session, and show a failure as its message instead of a traceback."""
        report = yield
        session = self.session_of(item)
        if session is None or (call.when == "teardown" and call.excinfo is None):
            return report
        if call.when == "setup" and call.excinfo is None:
            return report
        result = _result(item, call, session)
        session.results.append((task_of(item), result))
        if result.outcome in (Outcome.FAILED, Outcome.TIMEOUT):
            report.longrepr = f"{result.description}\n{result.message}".strip()
        return report


def _description(item: pytest.Item) -> str:
    """What a test looks for: the first line of its docstring."""
    docstring = (getattr(getattr(item, "function", None), "__doc__", None) or "").strip()
    return docstring.splitlines()[0] if docstring else item.name


def _result(item: pytest.Item, call: pytest.CallInfo[None], session: Session) -> TestResult:
    hidden = item.path.parent.name == "hidden"
    error = call.excinfo.value if call.excinfo is not None else None
    outcome = _outcome(error, call.when, session)
    # no section of the lesson helps with a function that is not there
    lesson = None if isinstance(error, LearnerMissing) else item.get_closest_marker("lesson")
    pitfalls = [str(row) for marker in item.iter_markers("pitfall") for row in marker.args]
    return TestResult(
        name=test_name(item),
        outcome=outcome,
        message=_ADDRESS.sub("0x…", printable(_message(error, outcome, hidden))),
        description=_description(item),
        hidden=hidden,
        lesson=str(lesson.args[0]) if lesson is not None else "",
        pitfalls=tuple(dict.fromkeys(pitfalls)),
        figures=figures.taken(),
    )


def _outcome(error: BaseException | None, when: str | None, session: Session) -> Outcome:
    if error is None:
        return Outcome.PASSED
    if isinstance(error, pytest.skip.Exception):
        return Outcome.SKIPPED
    if isinstance(error, LearnerTimeout):
        return Outcome.TIMEOUT
    if isinstance(error, AssertionError | LearnerError | pytest.fail.Exception):
        return Outcome.FAILED
    # A test that stumbles over what the learner's code gave it has found a fault of that code. Were it counted as ours,
    # an answer made to trip the test would cost nothing.
    # A result that cannot be sent on, back to their own code, is no fault of ours either.
    ours = isinstance(error, ClinicError) and not isinstance(error, WireError)
    stumbled = when == "call" and not ours and session.learner_answered()
    return Outcome.FAILED if stumbled else Outcome.ERROR


def _message(error: BaseException | None, outcome: Outcome, hidden: bool) -> str:
    if error is None:
        return ""
    if outcome is Outcome.ERROR:
        return f"{type(error).__name__}: {error}"
    if isinstance(error, pytest.skip.Exception):
        return str(error.msg)
    if isinstance(error, LearnerException):
        if hidden:
            kind = public_kind(error)
            return f"Your code raised {kind}." if kind else "Your code raised an exception."
        printed = f"\nIt printed: {error.output[-300:].strip()}" if error.output.strip() else ""
        return _capitalised(f"your code {error}{printed}")
    if isinstance(error, LearnerMissing):
        return _capitalised(str(error).partition(";")[0] if hidden else str(error)) + "."
    if isinstance(error, LearnerCrashed) and hidden:
        return f"Your code {error.public}."
    if isinstance(error, LearnerError):
        return f"Your code {error}."
    if isinstance(error, Finding):
        return _capitalised(str(error) if hidden else error.in_full)
    if hidden:
        return ""
    if isinstance(error, AssertionError):
        lines = str(error).strip().splitlines() or ["the check does not hold"]
        # behind a message of the test's own, pytest's account of the expression is noise to a learner
        lines = [lines[0], *itertools.takewhile(lambda line: not line.startswith("assert "), lines[1:])]
        return _capitalised("\n".join(lines[:_MESSAGE_LINES]))
    return f"The result could not be used: {type(error).__name__}: {error}"


def _capitalised(text: str) -> str:
    """*text* as a sentence begins, unless it begins with the name of a file or of something in code."""
    first = text.partition(" ")[0].rstrip(".:,")
    return text if "." in first or "`" in first else text[:1].upper() + text[1:]


def load_module(path: Path) -> ModuleType:
    """The module in a file, by its path: chapters may all have a ``reference.py``. Raises :class:`ChapterError`."""
    name = f"clinic_{abs(hash(path.resolve()))}_{path.stem}"
    if name in sys.modules:
        return sys.modules[name]
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None or not path.is_file():
        raise ChapterError(f"{path} is missing; a hidden test needs it")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module
