"""What runs in a Dask worker: one judge, in a process of its own beside the worker.

Not in the worker's thread. Dask takes samples of what that thread does, many times a second, and the worker answers its
scheduler meanwhile: both would be in the times. What ends a hanging call, an alarm, needs a main thread. And a
process that is new for each batch has the tests as they are now, not as they were when the worker was started.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import platform
import threading
from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass

from autograder.errors import ClinicError
from autograder.hardware import machine_class_here, resolve_device
from autograder.judging import Course, Request, as_seen_first, warm_host
from autograder.pool import LocalJudges
from autograder.report import Part


@dataclass(frozen=True)
class View:
    """What a judge finds where it sits: the machine's name and class, and the version of each chapter it can see."""

    host: str
    machine: str
    versions: dict[str, str]


def _look_around(course: Course, chapters: Sequence[str]) -> View:
    if not course.root.is_dir():
        raise ClinicError(f"it cannot see the course's folder {course.root}. Share that folder, under the same path")
    course = as_seen_first(course)
    here = [name for name in chapters if name in course.chapters]
    warm_host(course)  # raises where code cannot be held in; the first request needs it anyway
    machine = machine_class_here(resolve_device(course.device))
    return View(platform.node(), machine, {name: course.version(name) for name in here})


class _Seats:
    """The judges of a worker, by batch: one at a time, save where two batches share a cluster."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._judges: dict[str, LocalJudges] = {}
        self._busy: set[str] = set()

    def look_around(self, batch: str, course: Course, chapters: Sequence[str]) -> Future[View]:
        with self._lock:
            return self._of(batch).aside(_look_around, course, chapters)

    def carry_out(self, batch: str, request: Request) -> Part | ClinicError:
        judges = self._take(batch)
        try:
            judges.ask(request)
            return judges.answer()[1]
        finally:
            self._busy.discard(batch)

    def guards(self, batch: str, course: Course, chapter: str) -> set[str] | ClinicError:
        judges = self._take(batch)
        try:
            return judges.guards(course, chapter)
        except ClinicError as error:
            return error
        finally:
            self._busy.discard(batch)

    def close(self, batch: str) -> None:
        with self._lock:
            if batch in self._judges:
                self._judges.pop(batch).close()

    def _take(self, batch: str) -> LocalJudges:
        with self._lock:
            self._busy.add(batch)
            return self._of(batch)

    def _of(self, batch: str) -> LocalJudges:
        if batch not in self._judges:
            # whoever asked for another batch may have been killed, and never say that it is over
            for over in self._judges.keys() - self._busy:
                self._judges.pop(over).close()
            # a nanny marks its worker as one that may have no children; this one's end by themselves when it does
            multiprocessing.current_process().daemon = False
            self._judges[batch] = LocalJudges(1)
        return self._judges[batch]


_seats = _Seats()


async def look_around(batch: str, course: Course, chapters: Sequence[str]) -> View:
    """What the worker's judge finds; raises :class:`ClinicError` where it cannot judge."""
    return await asyncio.wrap_future(_seats.look_around(batch, course, chapters))


def carry_out_here(batch: str, request: Request) -> Part | ClinicError:
    """The answer to *request* of the worker's judge for *batch*."""
    return _seats.carry_out(batch, request)


def guards_here(batch: str, course: Course, chapter: str) -> set[str] | ClinicError:
    """The same for :func:`~autograder.judging.guards_of`."""
    return _seats.guards(batch, course, chapter)


def leave(batch: str) -> None:
    """End the worker's judge for *batch*, after what it may be at."""
    _seats.close(batch)
