"""The proxy that tests use: a learner's functions as attributes, wherever they run.

Three forms behind one class: a sandboxed worker, a plain child process, and the live kernel (``check`` in a notebook).
A test cannot tell which it has: arguments and results cross by the same wire format in all three.
"""

from __future__ import annotations

import ast
import contextlib
import inspect
import signal
import textwrap
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from typing import Any, Protocol

from autograder.errors import (
    ChapterError,
    IsolationUnavailable,
    LearnerException,
    LearnerMissing,
    LearnerTimeout,
    SandboxError,
)
from autograder.patience import MOST_HELD_UP
from autograder.program import Program, read_history
from autograder.replies import missing_text, value_of
from autograder.runtime import OUTPUT_TAIL, Runtime, TailBuffer, encode_reply
from autograder.sandbox import AnySandbox, Limits, Use, start
from autograder.wire import decode, encode

CALL_TIMEOUT_S = 20.0
"""How long one request may take. Generous: it is there to end a hang, not to ask for speed.

Here and below, time in which others kept the code from computing is not counted, up to ``MOST_HELD_UP`` times as long.
"""
TASK_PATIENCE_S = 120.0
"""How long the tests of one task together may wait for its code, which could be slow in every single call."""
RANKS_PATIENCE_S = 30.0
"""How long all tests of a task together may wait for ranks that never come; a deadlock is noticed much sooner."""

Call = tuple[tuple[Any, ...], dict[str, Any]]
"""Positional and keyword arguments of one call."""


class Runner(Protocol):
    """Somewhere that requests are answered."""

    @property
    def device(self) -> str:
        """Where the tensors of a request are brought before the code gets them, as torch spells it."""

    def request(self, message: Mapping[str, Any], timeout: float) -> Any:
        """The value of one request; raises a LearnerError."""

    def timed(self, message: Mapping[str, Any], timeout: float) -> tuple[Any, float]:
        """The value of one request and the seconds from asking until all of it had arrived."""

    def freeze(self, stop: bool) -> None:
        """Hold whatever runs there still, or let it go on."""

    def cpu_seconds(self) -> float:
        """What has been computed there so far; 0 where that cannot be known."""

    def held_up_seconds(self) -> float:
        """How long others have kept it from computing; 0 where that cannot be known."""

    def close(self) -> None:
        """Give back what the runner holds."""


class WorkerRunner:
    """Requests answered by one fork of a warm process."""

    def __init__(self, use: Use) -> None:
        self._use = use

    @property
    def isolation(self) -> str:
        """The backend that holds it in."""
        return self._use.isolation

    @property
    def device(self) -> str:
        """See :class:`Runner`."""
        return self._use.device

    def request(self, message: Mapping[str, Any], timeout: float) -> Any:
        """See :class:`Runner`."""
        return self._use.request(message, timeout)

    def timed(self, message: Mapping[str, Any], timeout: float) -> tuple[Any, float]:
        """See :class:`Runner`."""
        answer, elapsed = self._use.send(message, timeout)
        return self._use.receive(answer), elapsed

    def freeze(self, stop: bool) -> None:
        """See :class:`Runner`."""
        if stop:
            self._use.freeze()
        else:
            self._use.thaw()

    def cpu_seconds(self) -> float:
        """See :class:`Runner`."""
        return self._use.cpu_seconds()

    def held_up_seconds(self) -> float:
        """See :class:`Runner`."""
        return self._use.held_up_seconds()

    def close(self) -> None:
        """See :class:`Runner`."""
        self._use.close()


class LiveRunner:
    """Requests answered in this process: feedback for a learner in their own kernel, not a grade.

    ``printed`` is the tail of what the code has printed.
    """

    device = "cpu"

    def __init__(self, namespace: dict[str, Any] | None = None) -> None:
        self._runtime = Runtime(namespace)
        self._over: LearnerTimeout | None = None
        self.printed = ""

    def request(self, message: Mapping[str, Any], timeout: float) -> Any:
        """See :class:`Runner`; where there are no alarms, the timeout is the learner's patience."""
        return self.timed(message, timeout)[0]

    def timed(self, message: Mapping[str, Any], timeout: float) -> tuple[Any, float]:
        """See :class:`Runner`."""
        if self._over is not None:
            raise self._over
        # the test's own tensors stay out of reach, as they do elsewhere
        copy = decode(bytearray(encode(dict(message))))
        output = TailBuffer()
        begin = time.perf_counter()
        try:
            with contextlib.redirect_stdout(output), contextlib.redirect_stderr(output), _alarm(timeout):
                reply = self._runtime.handle(copy)
            late = reply.get("error", {}).get("kind") == _OutOfTime.__name__
        except _OutOfTime:  # it rang just when the answer was there
            late = True
        self.printed = (self.printed + output.text)[-OUTPUT_TAIL:]
        if late:
            self._over = LearnerTimeout(f"did not come back within {timeout:g} s")
            raise self._over
        reply["output"] = output.take()
        if reply.get("error", {}).get("kind") == "KeyboardInterrupt":
            raise KeyboardInterrupt
        answer = encode_reply(reply)
        elapsed = time.perf_counter() - begin
        return value_of(decode(bytearray(answer))), elapsed

    def program(self) -> Program:
        """What the cells that the kernel has run define."""
        return read_history(self._runtime.namespace)

    def freeze(self, stop: bool) -> None:
        """Nothing: this process cannot stop itself."""

    def cpu_seconds(self) -> float:
        """See :class:`Runner`; the learner's share is not known apart from the rest."""
        return 0.0

    def held_up_seconds(self) -> float:
        """Nobody knows here."""
        return 0.0

    def close(self) -> None:
        """See :class:`Runner`."""


class _OutOfTime(BaseException):
    """Raised inside a learner's code by the alarm; not an Exception, so that few handlers catch it."""


@contextlib.contextmanager
def _alarm(seconds: float) -> Iterator[None]:
    """Interrupt what runs after some seconds, and again each second; only on a main thread and where signals can."""
    if not hasattr(signal, "setitimer") or threading.current_thread() is not threading.main_thread():
        yield
        return

    def ring(number: int, frame: object) -> None:
        raise _OutOfTime

    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, seconds, 1.0)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


class Host:
    """Keeps warm sandboxes at hand and replaces them when they break or when another learner's turn comes."""

    def __init__(self, isolation: str = "auto", device: str = "cpu", limits: Limits | None = None) -> None:
        self._wanted = isolation
        self._device = device
        self._limits = limits
        self._sandboxes: dict[str, AnySandbox] = {}
        self._owners: dict[str, object] = {}

    @property
    def isolation(self) -> str:
        """The backend in force; starts it where nothing runs yet."""
        return self._warm("submission").isolation

    def runner(
        self, owner: object = None, role: str = "submission", threads: int = 1, warm: Sequence[str] = ()
    ) -> WorkerRunner:
        """A fork for *owner*, who plays *role* (``submission`` or ``baseline``), with the modules *warm* imported.

        Where the backend cannot hide one use from the next, a baseline gets a sandbox of its own, and a new owner a new
        one. Elsewhere one sandbox serves all; with no isolation, for code that is trusted, one serves all owners.
        """
        sandbox = self._warm("submission")
        if not sandbox.separates_uses:
            if sandbox.isolation != "none" and owner != self._owners.get(role, owner):
                self._close(role)
            self._owners[role] = owner
        else:
            role = "submission"
        try:
            return WorkerRunner(self._warm(role).use(threads, warm))
        except SandboxError:  # learner's code may have ended the warm process; a second failure is ours
            self._close(role)
            return WorkerRunner(self._warm(role).use(threads, warm))

    def _warm(self, role: str) -> AnySandbox:
        if role not in self._sandboxes:
            try:
                self._sandboxes[role] = start(self._wanted, self._limits, self._device)
            except OSError as error:
                raise IsolationUnavailable(f"a worker could not be started: {error}") from None
        return self._sandboxes[role]

    def _close(self, role: str) -> None:
        if role in self._sandboxes:
            self._sandboxes.pop(role).close()

    def close(self) -> None:
        """End every sandbox that runs."""
        for role in list(self._sandboxes):
            self._close(role)

    def __enter__(self) -> Host:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()


class LearnerFunction:
    """One function of the learner's; calling it runs it where the submission runs."""

    def __init__(self, submission: Submission, name: str) -> None:
        self.submission = submission
        self.name = name

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """The function's result, as plain data; raises a :class:`~autograder.errors.LearnerError`."""
        return self.submission._ask({"op": "call", "function": self.name, "args": args, "kwargs": kwargs}, {self.name})

    def probe(self, probe: Callable[..., Any], *args: Any) -> Any:
        """Run ``probe(function, *args)`` beside the learner's code, see :meth:`Submission.run`."""
        return self.submission._ask(
            {
                "op": "call",
                "probe": _applied(probe, self.name),
                "function": "applied",
                "args": args,
                "kwargs": {},
            },
            {self.name},
        )

    def on_ranks(self, probe: Callable[..., Any], world_size: int, *args: Any, timeout: float = 20.0) -> list[Any]:
        """Run ``probe(function, rank, world_size, *args)`` on each rank of a group, see :meth:`Submission.on_ranks`."""
        return self.submission._on_ranks(_applied(probe, self.name), "applied", {self.name}, world_size, args, timeout)

    def stage(self, calls: Sequence[Call], via: Callable[..., Any] | None = None) -> None:
        """Hand over the inputs of calls to be timed; nothing of the learner's should run yet.

        With ``via`` each call is ``via(function, *args, **kwargs)``, for results that are large and need not travel.
        """
        message: dict[str, Any] = {"op": "stage", "function": self.name, "calls": list(calls)}
        if via is not None:
            message |= {"probe": _applied(via, self.name), "function": "applied"}
        self.submission._ask(message, {self.name})

    def go(self) -> tuple[list[Any], float]:
        """Run the staged calls: their results, and the seconds until the last byte of them was here."""
        results, elapsed = self.submission._timed({"op": "go"})
        return results, elapsed

    def freeze(self) -> None:
        """Hold all that runs on the submission's side still, while something else is timed."""
        self.submission._freeze(True)

    def thaw(self) -> None:
        """Let it go on."""
        self.submission._freeze(False)

    def cpu_seconds(self) -> float:
        """What the submission's side has computed so far; 0 where that cannot be known."""
        return self.submission._cpu_seconds()


class Submission:
    """A notebook's functions as attributes: ``submission.to_patches(frames, size=8)``.

    ``program`` is what the notebook defines (None for a live kernel, which has run it already); a name that it does
    not define raises :class:`~autograder.errors.LearnerMissing` when called, with the syntax error that hides it.
    """

    def __init__(self, open_runner: Callable[[], Runner], program: Program | None, label: str = "submission") -> None:
        self._open = open_runner
        self._program = program
        self._runner: Runner | None = None
        self._loaded: set[tuple[str, int]] = set()
        self._problems: list[str] = []
        self._copy: tuple[Host, Submission] | None = None
        self.label = label
        self.timeout = CALL_TIMEOUT_S
        self._waited_s = 0.0
        self._busy_s = 0.0
        self.remembered: dict[str, Any] = {}
        """What checks keep from one test of a task to the next; forgotten with the process."""
        self.answered = False
        """Whether any of the learner's code has been asked for and has come back, with whatever result."""
        self.asked_names: set[str] = set()
        """The names that have been asked for, of every process that served this submission."""

    def __getattr__(self, name: str) -> LearnerFunction:
        if name.startswith("_"):
            raise AttributeError(name)
        return LearnerFunction(self, name)

    @property
    def device(self) -> str:
        """The device that the learner's code gets its tensors on."""
        return self._ready(set()).device

    def run(self, probe: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Run ``probe(learner, *args, **kwargs)`` beside the learner's code and return its plain data.

        The probe is sent as source: it must be self-contained, may use ``torch``, and finds the learner's functions as
        attributes of its first parameter. Whatever it returns could be forged by code that knows the right answer, so
        it must carry none.
        """
        source, name = _source(probe)
        message = {"op": "call", "probe": source, "function": name, "args": args, "kwargs": kwargs}
        return self._ask(message, _attributes_of_first_parameter(source))

    def on_ranks(self, probe: Callable[..., Any], world_size: int, *args: Any, timeout: float = 20.0) -> list[Any]:
        """Run ``probe(learner, rank, world_size, *args)`` on each rank of a new group: what became of each rank.

        The ranks are processes of their own in a gloo group that has been set up, see
        :mod:`autograder.ranks`; :mod:`autograder.checks.ranks` makes a verdict of the outcomes. A probe is sent as
        source, as in :meth:`run`. A process with threads must not fork: what a live kernel or the judge itself has run
        goes to a plain child.

        Raises :class:`~autograder.errors.IsolationUnavailable` in sandlock, which could lend ranks no loopback
        interface but this machine's own.
        """
        source, name = _source(probe)
        return self._on_ranks(source, name, _attributes_of_first_parameter(source), world_size, args, timeout)

    def _on_ranks(
        self, probe: str, function: str, names: set[str], world_size: int, args: Sequence[Any], timeout: float
    ) -> list[Any]:
        """Have *function* of the source *probe* run on ranks; *names* are what it asks the learner's code for."""
        runner = self._ready(set())
        if isinstance(runner, WorkerRunner) and runner.isolation == "sandlock":
            raise IsolationUnavailable(
                "processes that talk to each other cannot be tried in sandlock, only in bubblewrap"
            )
        if isinstance(runner, LiveRunner):
            self.answered = True
            return self._in_a_child(runner)._on_ranks(probe, function, names, world_size, args, timeout)
        message = {
            "op": "ranks",
            "probe": probe,
            "function": function,
            "args": args,
            "world_size": world_size,
            "timeout": timeout,
        }
        if self._waited_s >= RANKS_PATIENCE_S:
            raise LearnerTimeout(f"was not tried here: in tests before, ranks had not come back within {timeout:g} s")
        begin = time.monotonic()
        outcomes: list[Any] = self._asked(
            message, names, lambda runner: runner.request(message, timeout + self.timeout)
        )
        if (waited := time.monotonic() - begin) >= timeout and not _all_came_back(outcomes):
            self._waited_s += waited
        return outcomes

    def _in_a_child(self, runner: LiveRunner) -> Submission:
        if self._copy is None:
            host = Host("none")
            self._copy = host, Submission(lambda: host.runner("kernel"), self._program or runner.program(), self.label)
        return self._copy[1]

    def close(self) -> None:
        """End the process behind this submission; the next call starts afresh."""
        if self._copy is not None:
            host, copy = self._copy
            copy.close()
            host.close()
            self._copy = None
        if self._runner is not None:
            self._runner.close()
            self._runner = None
        self._loaded = set()
        self._problems = []
        self._waited_s = 0.0
        self.remembered = {}

    def _opened(self) -> Runner:
        if self._runner is None:
            self._runner = self._open()
        return self._runner

    def _ready(self, names: set[str]) -> Runner:
        runner = self._opened()
        if self._program is None:
            return runner
        cells = []
        for cell, indices in self._program.needed_for(names):
            keep = [index for index in indices if (cell.name, index) not in self._loaded]
            self._loaded |= {(cell.name, index) for index in keep}
            if keep:
                cells.append({"name": cell.name, "source": cell.source, "keep": keep})
        if cells:
            self.answered = True  # the cells run from here on: what comes back may be anything
            problems = runner.request({"op": "load", "cells": cells}, self.timeout)
            self._problems = [f"{p['where'] or p['cell']}: {p['kind']}: {p['message']}" for p in problems]
        return runner

    def _ask(self, message: dict[str, Any], names: set[str]) -> Any:
        return self._asked(message, names, lambda runner: runner.request(message, self.timeout))

    def _timed(self, message: dict[str, Any]) -> tuple[Any, float]:
        value, elapsed = self._asked(message, set(), lambda runner: runner.timed(message, self.timeout))
        return value, elapsed

    def _asked(self, message: dict[str, Any], names: set[str], ask: Callable[[Runner], Any]) -> Any:
        if self._out_of_patience():
            raise LearnerTimeout(f"took more than {TASK_PATIENCE_S:g} s in all; it was not called once more here")
        try:
            self._require(names)
            self._opened()  # which is not the learner's time
            with self._counted():
                runner = self._ready(names)
                self.answered = True
                return ask(runner)
        except LearnerMissing as error:
            # Only a name that was asked for is believed. Another one is a text of the learner's own making, which must
            # not be told where an exception's message must not be.
            missing = [name for name in names if str(error) == missing_text(name)]
            if not missing:
                raise LearnerException(f"raised Missing: {error}", "Missing") from None
            raise self._explained(error) from None

    @contextlib.contextmanager
    def _counted(self) -> Iterator[None]:
        begin = time.monotonic()
        try:
            yield
        finally:
            self._busy_s += time.monotonic() - begin

    def _out_of_patience(self) -> bool:
        if self._busy_s < TASK_PATIENCE_S:
            return False
        held_up_s = self._runner.held_up_seconds() if self._runner is not None else 0.0
        return self._busy_s - min(held_up_s, MOST_HELD_UP * TASK_PATIENCE_S) >= TASK_PATIENCE_S

    def _freeze(self, stop: bool) -> None:
        if self._runner is not None:
            with self._counted():
                self._runner.freeze(stop)

    def _cpu_seconds(self) -> float:
        return self._runner.cpu_seconds() if self._runner is not None else 0.0

    def _require(self, names: set[str]) -> None:
        self.asked_names |= names
        missing = [name for name in names if self._program is not None and not self._program.defines(name)]
        if missing:
            self.answered = True
            raise LearnerMissing(missing_text(missing[0]))

    def _explained(self, error: LearnerMissing) -> LearnerMissing:
        reasons = list(self._problems)
        if self._program is not None:
            reasons += [f"{cell} does not parse ({text})" for cell, text in self._program.errors().items()]
        return LearnerMissing("; ".join([str(error), *reasons])) if reasons else error


def _all_came_back(outcomes: Any) -> bool:
    """Whether no rank is still awaited, by what the learner's process has sent, which may be anything."""
    return isinstance(outcomes, list) and all(isinstance(o, dict) and o.get("state") != "waiting" for o in outcomes)


@cache
def _source(probe: Callable[..., Any]) -> tuple[str, str]:
    try:
        source = textwrap.dedent(inspect.getsource(probe))
    except OSError:
        raise ChapterError(f"the source of probe {probe!r} cannot be read; define it in a file") from None
    tree = ast.parse(source)
    if not isinstance(tree.body[0], ast.FunctionDef):
        raise ChapterError(f"probe {probe!r} must be a plain function (def), not a lambda or method")
    return source, tree.body[0].name


@cache
def _applied(probe: Callable[..., Any], name: str) -> str:
    source, probe_name = _source(probe)
    wrapper = f"def applied(learner, *args, **kwargs):\n    return {probe_name}(learner.{name}, *args, **kwargs)\n"
    return f"{source}\n\n{wrapper}"


def _attributes_of_first_parameter(source: str) -> set[str]:
    function = ast.parse(source).body[0]
    assert isinstance(function, ast.FunctionDef)
    first = function.args.args[0].arg
    return {
        node.attr
        for node in ast.walk(function)
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == first
    }
