"""Judges in processes of their own on this machine, one request at a time each."""

from __future__ import annotations

import os
import queue
import threading
from collections.abc import Callable
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import get_context, parent_process
from multiprocessing.connection import wait
from types import TracebackType
from typing import Any

from autograder.errors import ClinicError, SandboxError
from autograder.judging import Course, Request, carry_out, guards_of
from autograder.report import Part

ATTEMPTS = 3
"""How often a request is tried whose judge dies over it."""
REQUESTS_PER_PROCESS = 200
"""A judge's process is replaced after so many, so that what a library may leak does not add up."""


class LocalJudges:
    """*jobs* judges; tests that take times are given to one of them, and only when asked for alone."""

    def __init__(self, jobs: int) -> None:
        self._jobs = jobs
        self._processes = {number: _process() for number in range(jobs)}
        self._free = list(self._processes)
        self._attempts: dict[str, int] = {}
        self._done: queue.SimpleQueue[tuple[int, Request, Future[Part]]] = queue.SimpleQueue()

    def slots(self, timed: bool) -> int:
        """See :class:`~autograder.judging.Judges`: where times are taken, nothing else of ours runs."""
        return 1 if timed else self._jobs

    def ask(self, request: Request) -> None:
        """See :class:`~autograder.judging.Judges`."""
        number = self._free.pop()
        future = self._processes[number].submit(carry_out, request)
        future.add_done_callback(lambda done: self._done.put((number, request, done)))

    def answer(self) -> tuple[Request, Part | ClinicError]:
        """See :class:`~autograder.judging.Judges`. A judge that dies is replaced, and its request tried again."""
        while True:
            number, request, future = self._done.get()
            self._free.append(number)
            try:
                return request, future.result()
            except ClinicError as error:
                return request, error
            except BrokenProcessPool:
                self._replace(number)
                tried = self._attempts[request.name] = self._attempts.get(request.name, 0) + 1
                if tried >= ATTEMPTS:
                    return request, SandboxError(f"the judge's own process ended {tried} times over it")
                self.ask(request)
            except Exception as error:  # a fault of ours, which must not end the batch
                return request, SandboxError(f"{type(error).__name__}: {error}")

    def guards(self, course: Course, chapter: str) -> set[str]:
        """See :class:`~autograder.judging.Judges`."""
        try:
            found: set[str] = self.aside(guards_of, course, chapter).result()
            return found
        except BrokenProcessPool:
            self._replace(self._next)
            raise SandboxError(f"a judge's process ended while it tried the untouched notebook of {chapter}") from None

    def aside(self, function: Callable[..., Any], *arguments: object) -> Future[Any]:
        """Have something else done in a judge's process: of one that is free, if any is."""
        return self._processes[self._next].submit(function, *arguments)

    @property
    def _next(self) -> int:
        return self._free[-1] if self._free else 0

    def _replace(self, number: int) -> None:
        self._processes[number].shutdown(wait=False)
        self._processes[number] = _process()

    def close(self, wait: bool = False) -> None:
        """End the processes, each after the request that it is at; ``wait`` until they have."""
        for process in self._processes.values():
            process.shutdown(wait=wait, cancel_futures=True)

    def __enter__(self) -> LocalJudges:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close(wait=kind is None)


def _process() -> ProcessPoolExecutor:
    """A pool of one: so a process that dies takes no other request along, and it is known which one it was."""
    # spawned: a process that has imported torch must not be forked and then compute
    return ProcessPoolExecutor(1, get_context("spawn"), _end_with_parent, max_tasks_per_child=REQUESTS_PER_PROCESS)


def _end_with_parent() -> None:
    """In a judge's process: end when whoever asks is gone, even where it was killed and could not say so."""
    parent = parent_process()
    assert parent is not None

    def watch() -> None:
        wait([parent.sentinel])
        os._exit(1)

    threading.Thread(target=watch, daemon=True, name="ends with its parent").start()
