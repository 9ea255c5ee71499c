"""The judge's end of a warm process and of its forks."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import select
import shutil
import signal
import socket
import struct
import subprocess
import tempfile
import time
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Protocol

from autograder.errors import (
    IsolationUnavailable,
    LearnerCrashed,
    LearnerError,
    LearnerTimeout,
    SandboxError,
    WireError,
)
from autograder.patience import Patience
from autograder.replies import value_of
from autograder.sandbox.backends import BACKENDS, Launch
from autograder.wire import MAX_MESSAGE_BYTES, decode, encode

_STAGED = (
    "__init__.py",
    "text.py",
    "errors.py",
    "forking.py",
    "patience.py",
    "wire.py",
    "runtime.py",
    "ranks.py",
    "census.py",
    "confinement.py",
    "large_pages.py",
    "worker.py",
)
"""All that a worker itself needs of this package; nothing else of it can be read from inside ..."""
_OFFERED = ("instruments.py", "pictures.py", "warm_onnx.py")
"""... but what probes measure with, the pictures and digits that learners' own code may use, and what chapters warm."""
START_TIMEOUT_S = 60.0
_END_TIMEOUT_S = 5.0
_NOTICES_AT_ONCE = 65_536
_FORKED_AHEAD = 2
"""Tasks with few tests are over before one more fork is ready."""
_ENDED = "ended its process before it had answered"


@dataclass(frozen=True)
class Limits:
    """What one use may take: bytes of memory (beyond the warm process's) and of disk, counts of the rest."""

    memory: int = 2_000_000_000
    processes: int = 64
    files: int = 256
    disk: int = 100_000_000


class Keeper(Protocol):
    """Where a use comes from: it knows how uses end, and can hold them."""

    limits: Limits
    device: str
    isolation: str

    def end_use(self, number: int) -> None:
        """End a use and everything it started."""

    def exit_notice(self, number: int) -> dict[str, Any] | None:
        """How a use ended (``code``, ``reason``), None where nobody knows."""

    def command(self, request: dict[str, Any]) -> dict[str, Any]:
        """Ask about a use or hold it (``freeze``, ``thaw``, ``cpu``, ``held up``); empty where that is impossible."""

    def diagnosis(self) -> str:
        """The last word of a process that did not come up."""


class Use:
    """One fork: a namespace of learner's code, asked over its own channel."""

    def __init__(self, sandbox: Keeper, number: int, channel: socket.socket) -> None:
        self._sandbox = sandbox
        self._number = number
        self._channel = channel
        self._over: Exception | None = None
        self._greeted = False
        self._patience = Patience(self.held_up_seconds)
        self.device = sandbox.device
        self.isolation = sandbox.isolation

    def greet(self) -> None:
        """Wait until the use is set up; raises :class:`SandboxError` where that fails.

        What fails before this answer is ours. What fails after it is the learner's code, whatever it pretends.
        """
        try:
            self.request({"op": "hello", "device": self.device}, START_TIMEOUT_S)
        except LearnerError as error:
            raise SandboxError(f"a worker could not be set up: it {error}") from None
        self._greeted = True

    def request(self, message: Mapping[str, Any], timeout: float) -> Any:
        """Send a request and wait at most *timeout* seconds for its value, while it is held up by others not counted.

        Raises a :class:`~autograder.errors.LearnerError`; after a timeout or a crash the use is over, and every later
        request raises the same again.
        """
        answer, _ = self.send(message, timeout)
        return self.receive(answer)

    def send(self, message: Mapping[str, Any], timeout: float) -> tuple[bytearray, float]:
        """Send a request; the raw answer and the seconds until its last byte had arrived, on the judge's clock."""
        if self._over is not None:
            raise self._over
        data = encode(dict(message))
        self._patience.start(timeout)
        try:
            start = time.perf_counter()
            self._write(struct.pack("<Q", len(data)) + data)
            (length,) = struct.unpack("<Q", self._read(8))
            if length > 2 * MAX_MESSAGE_BYTES:
                raise WireError("an answer of impossible length")
            answer = self._read(length)
            return answer, time.perf_counter() - start
        except TimeoutError:
            self._end(LearnerTimeout(f"did not come back within {timeout:g} s"))
        except (OSError, EOFError):
            self._end(self._crash())
        except WireError as error:
            self._end(LearnerCrashed(f"sent something that is no answer ({error})"))
        except MemoryError:
            self._end(LearnerCrashed("sent more than there is room for"))
        raise AssertionError("unreachable")

    def receive(self, answer: bytearray) -> Any:
        """The value in a raw answer, or the learner's error raised."""
        try:
            reply = decode(answer)
            if not isinstance(reply, dict):
                raise WireError("an answer of another form")
            return value_of(reply)
        except LearnerError:
            raise
        except Exception as problem:  # whatever was sent, no fault of ours may come of it
            self._end(LearnerCrashed(f"sent something that is no answer ({type(problem).__name__})"))
            raise AssertionError("unreachable") from None

    def freeze(self) -> None:
        """Stop every process of the use until :meth:`thaw`, so that it cannot disturb what is timed meanwhile."""
        self._sandbox.command({"op": "freeze", "use": self._number})

    def thaw(self) -> None:
        """Let the use go on."""
        self._sandbox.command({"op": "thaw", "use": self._number})

    def cpu_seconds(self) -> float:
        """What the use and the processes that it started have computed so far; 0 where that cannot be known."""
        return self._seconds("cpu")

    def held_up_seconds(self) -> float:
        """How long it has waited for a core that others had, see :func:`autograder.census.held_up_seconds`."""
        return self._seconds("held up")

    def _seconds(self, operation: str) -> float:
        return float(self._sandbox.command({"op": operation, "use": self._number}).get("seconds", 0.0))

    def close(self) -> None:
        """End the use and everything it started."""
        self._channel.close()
        self._sandbox.end_use(self._number)

    def _end(self, reason: Exception) -> None:
        self._over = reason
        self.close()
        raise reason

    def _crash(self) -> Exception:
        notice = self._sandbox.exit_notice(self._number)
        if not self._greeted:
            return SandboxError(f"a worker could not be set up: {self._sandbox.diagnosis()}")
        if notice is None:
            return LearnerCrashed(_ENDED, _ENDED)
        if notice["reason"] == "memory":
            limit = self._sandbox.limits.memory / 1e9
            text = f"took more than the {limit:g} GB of memory that it may have"
            return LearnerCrashed(text, text)
        if notice["reason"] == "disk":
            limit = self._sandbox.limits.disk / 1e6
            text = f"wrote more than the {limit:g} MB of files that it may have"
            return LearnerCrashed(text, text)
        if notice["reason"] == "restless":
            text = "kept starting processes and had to be ended"
            return LearnerCrashed(text, text)
        code = int(notice["code"])
        if code < 0:
            return LearnerCrashed(f"was ended by signal {_signal_name(-code)}", _ENDED)
        return LearnerCrashed(f"ended its process (status {code}) before it had answered", _ENDED)

    def _write(self, data: bytes) -> None:
        view = memoryview(data)
        while view:
            self._channel.settimeout(self._patience.left())
            with contextlib.suppress(TimeoutError):  # our patience says whether it is over
                view = view[self._channel.send(view) :]

    def _read(self, size: int) -> bytearray:
        data = bytearray(size)
        view = memoryview(data)
        while view:
            self._channel.settimeout(self._patience.left())
            with contextlib.suppress(TimeoutError):
                count = self._channel.recv_into(view)
                if count == 0:
                    raise EOFError
                view = view[count:]
        return data


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return str(number)  # real-time signals have no names


class Sandbox:
    """One warm process. ``isolation`` names the backend that is in force."""

    def __init__(self, isolation: str, limits: Limits, device: str) -> None:
        self.isolation = isolation
        self.limits = limits
        self.device = device
        self._numbers = itertools.count(1)
        self._exits: dict[int, dict[str, Any]] = {}
        self._buffer = b""
        self._notices: deque[dict[str, Any]] = deque()
        self._spares: list[tuple[int, Use]] = []
        self._warmed: set[str] = set()
        self._stage = Path(tempfile.mkdtemp(prefix="torch-clinic-"))
        self._stage.chmod(0o755)
        stage_worker(self._stage)
        self._control, theirs = socket.socketpair()
        with theirs:
            try:
                self._launch: Launch = BACKENDS[isolation](self._stage, limits.memory, limits.disk, device)
                self._stderr = tempfile.TemporaryFile()  # noqa: SIM115  (closed by close())
                self._process = subprocess.Popen(
                    self._launch.argv,
                    env=self._launch.environment,
                    stdin=theirs.fileno(),
                    stdout=subprocess.DEVNULL,
                    stderr=self._stderr,
                    start_new_session=True,
                )
            except BaseException:
                shutil.rmtree(self._stage, ignore_errors=True)
                raise
        try:
            self._await("ready", START_TIMEOUT_S)
        except SandboxError:
            reason = self.diagnosis()
            self.close()
            raise IsolationUnavailable(f"{isolation} does not work on this machine: {reason}") from None

    @property
    def separates_uses(self) -> bool:
        """Whether uses are hidden from each other, so that one sandbox may serve several submissions."""
        return self._launch.isolate == "namespaces"

    def use(self, threads: int = 1, warm: Sequence[str] = ()) -> Use:
        """A fork of the warm process; *threads* is what torch may use in it.

        *warm* names modules that the warm process imports before, once: they run where all later forks come from, so
        they must never be a learner's. The next forks are made ahead, beside what is done with this one. Raises
        :class:`SandboxError`.
        """
        if not self._warmed.issuperset(warm):
            self.command({"op": "warm", "use": 0, "modules": list(warm)})
            self._warmed.update(warm)
            while self._spares:  # they were forked without
                self._spares.pop()[1].close()
        while self._spares and self._spares[0][0] != threads:
            self._spares.pop(0)[1].close()
        use = self._spares.pop(0)[1] if self._spares else self._fork(threads)
        use.greet()
        while len(self._spares) < _FORKED_AHEAD:
            self._spares.append((threads, self._fork(threads)))
        return use

    def _fork(self, threads: int) -> Use:
        self._listen()
        number = next(self._numbers)
        ours, theirs = socket.socketpair()
        limits = {**asdict(self.limits), "own_processes": self._launch.own_processes}
        request = {
            "op": "fork",
            "use": number,
            "limits": limits,
            "threads": threads,
            "isolate": self._launch.isolate,
        }
        with theirs:
            self._post(request, [theirs.fileno()])
        return Use(self, number, ours)

    def close(self) -> None:
        """End the warm process with all its uses, and remove the scratch folder."""
        self._control.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(timeout=_END_TIMEOUT_S)
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        self._stderr.close()
        shutil.rmtree(self._stage, ignore_errors=True)

    def __enter__(self) -> Sandbox:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def diagnosis(self) -> str:
        """The last line that the warm process wrote to stderr."""
        self._stderr.seek(0)
        lines = self._stderr.read().decode(errors="replace").strip().splitlines()
        return lines[-1] if lines else "it ended without a word"

    def end_use(self, number: int) -> None:
        """See :class:`Keeper`."""
        if number not in self._exits and self._process.poll() is None:
            with contextlib.suppress(SandboxError):  # the whole sandbox is gone, and the use with it
                self._post({"op": "end", "use": number})

    def exit_notice(self, number: int) -> dict[str, Any] | None:
        """See :class:`Keeper`."""
        try:
            while number not in self._exits:
                self._await("exited", _END_TIMEOUT_S)
        except SandboxError:
            return None
        return self._exits[number]

    def command(self, request: dict[str, Any]) -> dict[str, Any]:
        """See :class:`Keeper`."""
        try:
            self._post(request)
            return self._await("ack", _END_TIMEOUT_S + START_TIMEOUT_S)
        except SandboxError:  # the next request to a use says so
            return {}

    def _post(self, request: dict[str, Any], descriptors: Sequence[int] = ()) -> None:
        """Ask the warm process for something, and do not wait for it."""
        try:
            socket.send_fds(self._control, [json.dumps(request).encode() + b"\n"], descriptors)
        except OSError:
            raise SandboxError(f"the warm process is gone: {self.diagnosis()}") from None

    def _await(self, key: str, timeout: float) -> dict[str, Any]:
        """Read notices until one with *key* has come: that one."""
        patience = Patience()
        patience.start(timeout)
        while True:
            while self._notices:
                notice = self._notices.popleft()
                if key in notice:
                    return notice
            try:
                self._control.settimeout(patience.left())
                data = self._control.recv(_NOTICES_AT_ONCE)
            except OSError:
                data = b""
            if not data:
                raise SandboxError(f"the warm process does not answer: {self.diagnosis()}")
            self._note(data)

    def _note(self, data: bytes) -> None:
        """Take in what the warm process has sent."""
        *lines, self._buffer = (self._buffer + data).split(b"\n")
        for line in lines:
            notice: dict[str, Any] = json.loads(line)
            if "exited" in notice:
                self._exits[notice["exited"]] = notice
            self._notices.append(notice)

    def _listen(self) -> None:
        """Take in what has been sent unasked. Were that never read, the warm process would wait to send more of it."""
        self._notices.clear()  # whoever waited for one of these has given up
        poller = select.poll()
        poller.register(self._control, select.POLLIN)
        with contextlib.suppress(OSError):  # where it is gone, the next request will say so
            while poller.poll(0) and (data := self._control.recv(_NOTICES_AT_ONCE)):
                self._note(data)


def stage_worker(stage: Path) -> None:
    """Copy what a worker needs of this package, and nothing else of it, to *stage*."""
    package = Path(__file__).resolve().parents[1]
    target = stage / "autograder"
    target.mkdir()
    for name in (*_STAGED, *_OFFERED):
        shutil.copyfile(package / name, target / name)
