"""One request to a judge, wherever it sits: in this process, in one beside it, or on another machine."""

from __future__ import annotations

import atexit
import faulthandler
import gc
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Protocol

from autograder.chapter import Chapter, find_chapters
from autograder.errors import ClinicError
from autograder.grading import Grading, remembered_guards, tests_version
from autograder.hardware import resolve_device
from autograder.normalise import Normalised
from autograder.notebook import Cell
from autograder.program import Program
from autograder.report import Part
from autograder.store import part_key
from autograder.submission import Host

REQUEST_LIMIT_S = 1_800
"""A judge that is at one request for so long is stuck, by a fault of ours: learners' code has limits of its own."""


@dataclass(frozen=True)
class Course:
    """Where the chapters are, and how they are to be graded."""

    root: Path
    isolation: str = "auto"
    device: str = "cpu"

    @cached_property
    def chapters(self) -> dict[str, Chapter]:
        """All chapters by name, as they were when first asked for."""
        return find_chapters(self.root)

    @cached_property
    def _versions(self) -> dict[str, str]:
        return {}

    def __reduce__(self) -> tuple[type[Course], tuple[Path, str, str]]:
        """Sent to another process without what has been looked up here."""
        return Course, (self.root, self.isolation, self.device)

    def version(self, name: str) -> str:
        """See :func:`~autograder.grading.tests_version`."""
        if name not in self._versions:
            self._versions[name] = tests_version(self.chapters[name], self.device, self.chapters[name].tests)
        return self._versions[name]

    def remembered_guards(self, name: str) -> set[str] | None:
        """See :func:`~autograder.grading.remembered_guards`."""
        return remembered_guards(self.chapters[name], self.device, self.chapters[name].tests)

    def key(self, name: str, task: str, timed: bool, program: Program, machine: str) -> str:
        """What a part of a grade is stored under that was found on a machine of class *machine*."""
        names = self.chapters[name].needs[task].names
        return part_key(self.version(name), f"{machine} {self.isolation}", task, timed, program, names)


@dataclass(frozen=True)
class Request:
    """Run those tests of some *tasks* of *chapter* that take times, or the others, on *cells*.

    *name* tells requests apart.
    """

    course: Course
    chapter: str
    name: str
    cells: tuple[Cell, ...]
    tasks: tuple[str, ...]
    timed: bool
    version: str = ""
    """Where given: the version of the chapter that whoever asks has, and without which no answer is wanted."""


class Judges(Protocol):
    """Those who carry out requests. Whoever asks keeps to ``slots``, and gets one answer for each request."""

    def slots(self, timed: bool) -> int:
        """How many requests of that kind may be under way at once."""

    def ask(self, request: Request) -> None:
        """Have a request carried out."""

    def answer(self) -> tuple[Request, Part | ClinicError]:
        """The next answer, in whatever order they come; waits for it. An error is ours, never the learner's."""

    def guards(self, course: Course, chapter: str) -> set[str]:
        """See :meth:`~autograder.grading.Grading.guards`; raises :class:`ClinicError` where code cannot be run."""


_courses: dict[Course, Course] = {}
_hosts: dict[tuple[str, str], Host] = {}


def as_seen_first(course: Course) -> Course:
    """*course* with what this process found when it first looked: it goes on with the tests that it has imported."""
    return _courses.setdefault(course, course)


def _host(course: Course) -> Host:
    """One for all requests of a process."""
    key = (course.isolation, resolve_device(course.device))
    if key not in _hosts:
        _hosts[key] = Host(*key)
        atexit.register(_hosts[key].close)
        settle()
    return _hosts[key]


def warm_host(course: Course) -> str:
    """Get ready for requests; returns the isolation in force.

    Raises :class:`~autograder.errors.IsolationUnavailable` where there is none as asked for.
    """
    return _host(course).isolation


def settle() -> None:
    """In a judge's process, once it is ready: what it holds now stays, and is not gone through for garbage any more.

    That takes half a second, every few notebooks.
    """
    import torch  # noqa: F401  every request needs it

    gc.collect()
    gc.freeze()


def _grading(course: Course, chapter: str, timed: bool | None = None) -> Grading:
    found = as_seen_first(course).chapters[chapter]
    return Grading(found, _host(course), resolve_device(course.device), timed=timed)


def carry_out(request: Request) -> Part:
    """The results of a request's tests, found in this process."""
    course, chapter = as_seen_first(request.course), request.chapter
    if request.version and not (chapter in course.chapters and course.version(chapter) == request.version):
        raise ClinicError(f"The judge has other tests of {chapter}, another autograder or another torch.")
    with _not_forever():
        laid = Normalised(request.cells, (), frozenset())
        return _grading(request.course, request.chapter, request.timed).run(laid, request.tasks, request.name)


def guards_of(course: Course, chapter: str) -> set[str]:
    """The names of the tests that the untouched notebook passes."""
    with _not_forever():
        return _grading(course, chapter).guards()


@contextmanager
def _not_forever() -> Iterator[None]:
    """End this process, and with it the request, where it takes beyond all reason."""
    faulthandler.dump_traceback_later(REQUEST_LIMIT_S, exit=True, file=2)  # sys.stderr may be no real file
    try:
        yield
    finally:
        faulthandler.cancel_dump_traceback_later()
