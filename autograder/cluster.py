"""Judges on the workers of a Dask cluster, one on each.

Dask hands out requests, and hands one out again whose worker has died. Workers declare what they are as resources:
``exclusive`` (nothing else runs on that machine: tests that take times are run there alone) and ``GPU``.
"""

from __future__ import annotations

import contextlib
import queue
import time
import uuid
from collections import Counter
from collections.abc import Callable, Collection, Mapping
from concurrent.futures import CancelledError
from dataclasses import replace
from types import TracebackType
from typing import Any, TypeVar

from distributed import Client, Future, KilledWorker

from autograder.errors import ClinicError, SandboxError
from autograder.hardware import machine_class
from autograder.judging import Course, Request
from autograder.report import Part
from autograder.seat import View, carry_out_here, guards_here, leave, look_around

_T = TypeVar("_T")
EXCLUSIVE = "exclusive"
GPU = "GPU"
CONNECT_LIMIT_S = 20
LOOK_EVERY_S = 5.0
"""How often it is seen to that there still is somebody to wait for."""
PATIENCE_S = 120.0
"""How long to wait for a new worker where the last one is gone: a nanny starts another, a batch system may."""


class ClusterJudges:
    """A judge on each worker of the cluster whose scheduler is at *address*; *chapters* are those to be graded.

    ``machines`` are the classes of the workers' machines; workers that come later are added as they answer. Raises
    :class:`ClinicError` where nobody is there, or where a worker would grade otherwise than it is done here.
    """

    def __init__(self, address: str, course: Course, chapters: Collection[str]) -> None:
        self.machines: list[str] = []
        self._address = address
        self._course = course
        self._batch = uuid.uuid4().hex
        self._waits_for_timed = False
        self._asked: dict[str, Future[Any]] = {}
        self._done: queue.SimpleQueue[tuple[Request, Future[Any]]] = queue.SimpleQueue()
        try:
            self._client = Client(address, timeout=CONNECT_LIMIT_S, set_as_default=False, name="torch-clinic")
        except (OSError, ValueError) as error:  # a timeout is an OSError
            raise ClinicError(
                f"--dask {address}: no Dask scheduler answers there ({error}). Start one with `dask scheduler`, "
                "and give the address that it prints, such as tcp://10.0.0.1:8786."
            ) from None
        try:
            self._see_that_all_is_well(sorted(chapters))
        except BaseException:
            self.__exit__(None, None, None)
            raise

    def slots(self, timed: bool) -> int:
        """See :class:`~autograder.judging.Judges`: one for each worker that can do it."""
        return max(1, len(self._workers(timed)))  # for a while there may be none, see PATIENCE_S

    def ask(self, request: Request) -> None:
        """See :class:`~autograder.judging.Judges`."""
        there = replace(request, version=request.course.version(request.chapter))
        future = self._submit(carry_out_here, there, timed=request.timed)
        self._asked[request.name] = future  # Dask forgets what nobody holds
        future.add_done_callback(lambda done: self._done.put((request, done)))

    def answer(self) -> tuple[Request, Part | ClinicError]:
        """See :class:`~autograder.judging.Judges`. Raises :class:`ClinicError` where nobody is left to wait for."""
        request, future = self._while_somebody_is_there(lambda limit: self._done.get(timeout=limit))
        del self._asked[request.name]
        answer = self._result(future)
        if isinstance(answer, Part) and machine_class(answer.hardware) not in self.machines:
            self.machines.append(machine_class(answer.hardware))
        return request, answer

    def guards(self, course: Course, chapter: str) -> set[str]:
        """See :class:`~autograder.judging.Judges`."""
        timed = course.chapters[chapter].has_timed_tests
        answer: set[str] | ClinicError = self._result(self._submit(guards_here, course, chapter, timed=timed))
        if isinstance(answer, ClinicError):
            raise answer
        return answer

    def _submit(self, function: Any, *arguments: object, timed: bool) -> Future[Any]:
        self._waits_for_timed = timed
        needs = {name: 1 for name in self._needs(timed)}
        # keys of our own making: a student's name may be no sound text
        key = f"torch-clinic-{uuid.uuid4().hex}"
        return self._client.submit(function, self._batch, *arguments, key=key, pure=False, resources=needs or None)

    def _needs(self, timed: bool) -> list[str]:
        return [EXCLUSIVE] * timed + [GPU] * (self._course.device != "cpu")

    def _result(self, future: Future[Any]) -> Any:
        try:
            # also of one that is done: the worker that holds its answer may go before it is fetched
            return self._while_somebody_is_there(lambda limit: future.result(timeout=limit))
        except ClinicError:
            raise
        except KilledWorker as error:
            return SandboxError(f"the workers that tried it ended, the last at {error.last_worker.address}")
        except CancelledError:
            raise self._gone() from None
        except Exception as error:  # a fault of ours, which must not end the batch
            return SandboxError(f"{type(error).__name__}: {error}")

    def _workers(self, timed: bool) -> dict[str, Mapping[str, Any]]:
        """What the scheduler knows of the workers that can do requests of one kind, by address."""
        try:
            known = self._client.scheduler_info()["workers"]
        except (OSError, RuntimeError):  # a closed client's is the second
            raise self._gone() from None
        needs = self._needs(timed)
        return {at: facts for at, facts in known.items() if all(facts["resources"].get(n, 0) >= 1 for n in needs)}

    def _while_somebody_is_there(self, wait: Callable[[float], _T]) -> _T:
        """What ``wait(limit)`` gives, called again while there are workers who can do what was asked."""
        seen = time.monotonic()
        while True:
            with contextlib.suppress(queue.Empty, TimeoutError):
                return wait(LOOK_EVERY_S)
            if self._client.status != "running":
                raise self._gone()
            if self._workers(self._waits_for_timed):
                seen = time.monotonic()
            elif time.monotonic() > seen + PATIENCE_S:
                raise ClinicError(
                    f"The workers of {self._address} that could do the rest are gone, and no other has "
                    f"come for {PATIENCE_S:g} s. Start some; the same command goes on from what is graded."
                )

    def _gone(self) -> ClinicError:
        return ClinicError(
            f"The Dask scheduler at {self._address} is gone. "
            "Start scheduler and workers; the same command goes on from what is graded."
        )

    # --- before anything is asked -------------------------------------------------------------------------------------

    def _see_that_all_is_well(self, chapters: list[str]) -> None:
        workers = self._workers(timed=False)
        start = f"dask worker {self._address} --nthreads 1"
        if not workers:
            what = (
                "no worker"
                if self._course.device == "cpu"
                else f"no worker with a GPU (--device {self._course.device})"
            )
            option = "" if self._course.device == "cpu" else ' --resources "GPU=1"'
            raise ClinicError(f"--dask {self._address}: there is {what}. Start some: {start}{option}")
        wide = [_named(at, facts) for at, facts in workers.items() if facts["nthreads"] != 1]
        if wide:
            raise ClinicError(
                f"{'; '.join(wide)}: more than one thread, so tests would run beside each other. Start it anew: {start}"
            )
        timed = [name for name in chapters if self._course.chapters[name].has_timed_tests]
        exclusive = self._workers(timed=True)
        if timed and not exclusive:
            resources = ",".join(f"{name}=1" for name in self._needs(timed=True))
            raise ClinicError(
                f"{', '.join(timed)}: some tests take times, and no worker has its machine to itself. "
                f'Start one where nothing else runs: {start} --resources "{resources}"'
            )
        found = self._client.run(
            look_around, self._batch, self._course, chapters, workers=list(workers), on_error="return"
        )
        problems = [
            f"{_named(at, workers[at])}: {problem}"
            for at, view in found.items()
            if (problem := self._problem(view, chapters))
        ]
        hosts = Counter(found[at].host for at in exclusive if isinstance(found.get(at), View))
        problems += [
            f"{host}: {count} workers say that they have this machine to themselves (exclusive). Leave one of them."
            for host, count in hosts.items()
            if count > 1
        ]
        if problems:
            raise ClinicError("\n".join([f"--dask {self._address}: nothing was graded.", *problems]))
        self.machines += sorted({view.machine for view in found.values()})

    def _problem(self, view: View | Exception, chapters: list[str]) -> str:
        """Why the worker that has this view cannot be a judge; empty where it can."""
        if isinstance(view, ClinicError):
            return str(view)
        if isinstance(view, ImportError):
            return f"it has no autograder like this one ({view}). Start it with this course's Python environment."
        if isinstance(view, Exception):
            return f"it cannot judge ({type(view).__name__}: {view}). Its own log may say more."
        others = [name for name in chapters if view.versions.get(name) != self._course.version(name)]
        if others:
            return (
                f"it has other tests, another autograder or another torch than are used here, for {', '.join(others)}. "
                "Give it the same folder and the same Python environment."
            )
        return ""

    def __enter__(self) -> ClusterJudges:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        with contextlib.suppress(Exception):  # whoever is gone needs no word
            if self._client.status == "running":
                self._client.cancel(list(self._asked.values()))
                self._client.run(leave, self._batch, on_error="ignore")
        self._client.close()


def _named(address: str, facts: Mapping[str, Any]) -> str:
    name = facts["name"]
    return f"worker {address}" if name == address else f"worker {name} at {address}"
