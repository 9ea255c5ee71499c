"""Ranks as real processes: one function in several processes of a gloo group, and what became of each.

Two ways to start them. A *fork* of a process that computes on one thread, as the worker does, takes a tenth of a
second and needs nothing of the function. A *spawned* rank is a new interpreter that first runs the definitions that the
function needs: some seconds, but from any process and on any system, a notebook's kernel included (:func:`launch`).
Either way the processes find each other through a file, never through a port that could be taken, and talk over the
loopback interface. For a verdict, a rank that is done stays where it is until all are: whoever needs it still is then
found waiting. In a notebook it ends, as it would anywhere, and the others lose their connection to it.
"""

from __future__ import annotations

import contextlib
import mmap
import os
import signal
import struct
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import wraps
from multiprocessing import Pipe, get_context, parent_process
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any, Protocol, cast

from autograder.errors import RanksError
from autograder.forking import CAN_FORK
from autograder.patience import Patience, number_in_proc, waited_seconds
from autograder.runtime import Runtime, TailBuffer, describe, encode_reply
from autograder.wire import decode, encode

STALL_S = 6.0
"""When every rank that is left has been in the same call for so long, and computed nothing, none will come back."""
STALL_AFTER_ONE_LEFT_S = 3.0
"""The same where a rank is done already: whoever waits for that one waits in vain."""
_HEARTBEAT_S = 0.1
_COMPUTED_S = 0.05
"""Processor seconds that only a rank at work needs; a heartbeat takes a thousandth of it."""
CALLS = (
    "all_gather",
    "all_gather_into_tensor",
    "all_gather_object",
    "all_reduce",
    "all_to_all",
    "all_to_all_single",
    "barrier",
    "broadcast",
    "broadcast_object_list",
    "destroy_process_group",
    "gather",
    "gather_object",
    "monitored_barrier",
    "new_group",
    "recv",
    "reduce",
    "reduce_scatter",
    "reduce_scatter_tensor",
    "scatter",
    "scatter_object_list",
    "send",
)
"""Functions of ``torch.distributed`` in which a rank may wait for others; each rank notes which one it is in."""
LOOPBACK = {"linux": "lo", "darwin": "lo0"}
"""The loopback interface by ``sys.platform``; elsewhere gloo takes the one of the machine's name."""
_WRAPPED = ("DistributedDataParallel", "DistributedDataParallel.forward", "backward")
NOTED = (*CALLS, *_WRAPPED)
_CALL = struct.Struct("<iIq")
"""Which noted call a rank is in, how many of CALLS it has begun, and how many numbers it has brought along (-1: none).

Written by the thread that computes."""
_CPU = struct.Struct("<d")
"""How many processor seconds it has used: written by another thread, so it has a place of its own."""
_NUMBER = struct.Struct("<q")
"""By which number ``/proc`` lists it; 0 until it has told."""
_CPU_AT = _CALL.size
_NUMBER_AT = _CPU_AT + _CPU.size
_CRUMBS = _NUMBER_AT + _NUMBER.size
_NOWHERE = -1
_LOST = "another rank has left the group, or its process has ended"
_GROUPS: list[Any] = []
"""The process groups of this rank."""


def operation(runtime: Runtime) -> Callable[[dict[str, Any]], list[dict[str, Any]]]:
    """The request ``ranks`` of a worker: run a probe as ``probe(learner, rank, world_size, *args)`` on each rank."""

    def ranks(request: dict[str, Any]) -> list[dict[str, Any]]:
        import torch

        cuda: Any = torch.cuda
        if CAN_FORK and not cuda.is_initialized():  # else a fork could not use the GPU
            call = _call(runtime, request)
            crumbs = mmap.mmap(-1, _CRUMBS * request["world_size"])  # shared with forks
            return _run(lambda *of_rank: _fork(call, *of_rank), request, crumbs)
        return run_spawned(runtime.loaded, request)

    return ranks


def run_spawned(cells: Sequence[Mapping[str, Any]], request: dict[str, Any]) -> list[dict[str, Any]]:
    """The same in new interpreters, each of which runs *cells* first (in the form of a ``load`` request)."""
    payload = encode({"cells": list(cells), "request": request})
    context = get_context("spawn")

    def start(rank: int, meeting: _Meeting, answer: Connection) -> _Process:
        process = context.Process(target=_spawned, args=(payload, rank, meeting, answer), daemon=True)
        process.start()
        return process

    return _run(start, request, context.RawArray("B", _CRUMBS * request["world_size"]))


def _call(runtime: Runtime, request: dict[str, Any]) -> Callable[[int], Any]:
    function, before = runtime.target(request)
    return lambda rank: function(*before, rank, request["world_size"], *request["args"])


class _Process(Protocol):
    def kill(self) -> None:
        """End it at once."""

    def join(self) -> None:
        """Wait for its end."""


@dataclass(frozen=True)
class _Meeting:
    """What the ranks of one group share: how many there are, the file where they meet, where each leaves its crumbs.

    ``stay``: whether a rank that is done waits for the others.
    """

    world_size: int
    file: str
    timeout: float
    crumbs: Any
    stay: bool


def _run(
    start: Callable[[int, _Meeting, Connection], _Process], request: Mapping[str, Any], crumbs: Any
) -> list[dict[str, Any]]:
    """Start each rank and return what became of it, by rank.

    Each outcome has ``state``: ``returned`` (with ``value``, plain data), ``raised`` (with ``error`` as
    :func:`~autograder.runtime.describe` gives it), ``died`` (its process ended), or ``waiting`` (it had not come back
    after *timeout* seconds, those not counted in which it had no core, or when nobody was left who could have helped
    it). ``call`` and ``number`` say which noted call (:data:`NOTED`) it is in, and how many of :data:`CALLS` it had
    begun; ``size`` is how many numbers it has brought to the call, -1 where that is not known; ``collectives`` is how
    many the backend carried out, those that DistributedDataParallel starts included; ``output`` is the tail of what it
    printed. No process outlives this.
    """
    world_size, timeout = request["world_size"], request["timeout"]
    for rank in range(world_size):
        _CALL.pack_into(crumbs, _CRUMBS * rank, _NOWHERE, 0, -1)
    with tempfile.TemporaryDirectory(prefix="ranks-", ignore_cleanup_errors=True) as folder:
        meeting = _Meeting(world_size, os.path.join(folder, "rendezvous"), timeout, crumbs, request.get("stay", True))
        processes: list[_Process] = []
        waiting: dict[Connection, int] = {}
        try:
            for rank in range(world_size):
                ours, theirs = Pipe(duplex=False)
                waiting[ours] = rank
                with theirs:
                    processes.append(start(rank, meeting, theirs))
            patience = Patience(lambda: max(_waited_s(crumbs, rank) for rank in range(world_size)))
            patience.start(timeout)
            answers = _collect(dict(waiting), crumbs, patience)
            return [_outcome(rank, answers.get(rank), crumbs) for rank in range(world_size)]
        finally:
            for process in processes:
                process.kill()
            for process in processes:
                process.join()
            for end in waiting:
                end.close()


def _collect(waiting: dict[Connection, int], crumbs: Any, patience: Patience) -> dict[int, bytes]:
    """What each rank sent, nothing at all where it ended without; a rank without an entry is still at work."""
    done: dict[int, bytes] = {}
    before, since = _progress(waiting.values(), crumbs), time.monotonic()
    while waiting and not patience.is_over():
        for ready in wait(list(waiting), 0.05):
            end = cast(Connection, ready)
            rank = waiting.pop(end)
            try:
                done[rank] = end.recv_bytes()
            except (EOFError, OSError):
                done[rank] = b""
        now = _progress(waiting.values(), crumbs)
        if now != before:
            before, since = now, time.monotonic()
        stuck = all(_crumb(crumbs, rank)[0] for rank in waiting.values())
        if stuck and time.monotonic() - since > (STALL_AFTER_ONE_LEFT_S if done else STALL_S):
            break
    return done


def _progress(ranks: Iterable[int], crumbs: Any) -> list[tuple[int, str, int, int]]:
    """Something that changes whenever one of the *ranks* gets on, by a call or by computing."""
    seen = []
    for rank in ranks:
        call, number, _ = _crumb(crumbs, rank)
        (cpu_s,) = _CPU.unpack_from(crumbs, _CRUMBS * rank + _CPU_AT)
        seen.append((rank, call, number, int(cpu_s / _COMPUTED_S)))
    return seen


def _waited_s(crumbs: Any, rank: int) -> float:
    (number,) = _NUMBER.unpack_from(crumbs, _CRUMBS * rank + _NUMBER_AT)
    return waited_seconds(number)


def _outcome(rank: int, answer: bytes | None, crumbs: Any) -> dict[str, Any]:
    call, number, size = _crumb(crumbs, rank)
    outcome: dict[str, Any] = {"rank": rank, "state": "waiting", "call": call, "number": number, "size": size}
    if answer is None:
        return outcome
    if not answer:
        return outcome | {"state": "died"}
    reply = decode(bytearray(answer))
    state = "raised" if "error" in reply else "returned"
    kept = {key: reply[key] for key in ("value", "error", "collectives", "output") if key in reply}
    return outcome | {"state": state} | kept


def _crumb(crumbs: Any, rank: int) -> tuple[str, int, int]:
    index, number, size = _CALL.unpack_from(crumbs, _CRUMBS * rank)
    return (NOTED[index] if 0 <= index < len(NOTED) else "", number, size)


def told(outcome: Mapping[str, Any], sizes: bool = True) -> str:
    """One rank's fate in words, *sizes* of what it brought included.

    The name of a call is believed only if it is one of those that are noted.
    """
    rank, number, size = outcome["rank"], outcome["number"], outcome["size"]
    call = outcome.get("call")
    calls = f"{number} collective call{'' if number == 1 else 's'}"
    if call in CALLS:
        brought = f" of {size} number{'' if size == 1 else 's'}" if sizes and size >= 0 else ""
        inside = f"in `{call}`{brought}, its collective call number {number}"
    else:
        inside = f"in `{call}`, after {calls}" if call in NOTED else f"outside of collective calls, after {calls}"
    if outcome["state"] == "waiting":
        return f"rank {rank} {'still waits' if call in NOTED else 'is still busy'} {inside}"
    if outcome["state"] == "died":
        return f"the process of rank {rank} ended {inside}"
    if outcome["state"] == "raised":
        return f"rank {rank} raised an exception {inside}"
    return f"rank {rank} had come back, after {calls}"


# --- from a notebook --------------------------------------------------------------------------------------------------


def launch(function: Callable[..., Any], world_size: int, *args: Any, timeout: float = 60.0) -> list[Any]:
    """Run ``function(rank, world_size, *args)`` on each of *world_size* ranks; what it returned, by rank.

    The ranks are new processes in a gloo group that has been set up, so the function can use ``torch.distributed`` at
    once. It may be defined in a cell of a notebook, with all that it needs: each process runs those definitions first
    (imports, functions, classes, assignments; no other statements). Arguments and results are plain data: tensors,
    numbers, strings, lists, tuples and dicts. What a rank prints is shown when all are done.

    Raises :class:`~autograder.errors.RanksError` where a rank raises, dies or hangs, with who waits for whom, and
    ``TypeError`` for a function without a name of its own.
    """
    request = {"op": "ranks", "function": function.__name__, "args": args, "world_size": world_size, "timeout": timeout}
    outcomes = run_spawned(_definitions(function), request | {"stay": False})
    for outcome in outcomes:
        for line in outcome.get("output", "").splitlines():
            print(f"[rank {outcome['rank']}] {line}")
    if any(outcome["state"] != "returned" for outcome in outcomes):
        # a rank that raised of its own accord, or ended, is the cause; those that wait or lost it are what comes of it
        causes_first = sorted(outcomes, key=lambda outcome: not _may_be_the_cause(outcome))
        raise RanksError("; ".join(_told_in_full(outcome) for outcome in causes_first))
    return [outcome["value"] for outcome in outcomes]


def _may_be_the_cause(outcome: Mapping[str, Any]) -> bool:
    state = outcome["state"]
    return state == "died" or (state == "raised" and str(outcome["error"]["message"]) != _LOST)


def _told_in_full(outcome: Mapping[str, Any]) -> str:
    if outcome["state"] != "raised":
        return told(outcome)
    error = outcome["error"]
    where = f" ({error['where']})" if error["where"] else ""
    return f"rank {outcome['rank']} raised {error['kind']}: {error['message']}{where}"


def _definitions(function: Callable[..., Any]) -> list[dict[str, Any]]:
    """What has to be run so that *function* exists elsewhere: from the cells as they were run, or from its file."""
    import inspect

    from autograder.notebook import Cell
    from autograder.program import read_history, read_program

    name = function.__name__
    if not name.isidentifier() or not inspect.isfunction(function):
        raise TypeError(f"{function!r} has no name by which other processes could find it: define it with `def`")
    program = read_history(function.__globals__)
    if not program.defines(name):
        program = read_program([Cell("code", Path(inspect.getfile(function)).read_text(encoding="utf-8"))])
    return [{"name": cell.name, "source": cell.source, "keep": indices} for cell, indices in program.needed_for({name})]


def collectives_so_far() -> int:
    """How many collectives this rank has taken part in, those that ``DistributedDataParallel`` starts included.

    For use inside a rank that was started here. Each group numbers its collectives, to compare ranks that disagree.
    """
    return sum(int(group._get_sequence_number_for_group()) for group in _GROUPS)


# --- inside a rank ----------------------------------------------------------------------------------------------------


class _Fork:
    """A forked process, as much of it as is needed here."""

    def __init__(self, pid: int) -> None:
        self.pid = pid

    def kill(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)

    def join(self) -> None:
        os.waitpid(self.pid, 0)


def _fork(call: Callable[[int], Any], rank: int, meeting: _Meeting, answer: Connection) -> _Fork:
    parent = os.getpid()
    pid = os.fork()
    if pid:
        return _Fork(pid)
    try:
        heart = _beating(meeting.crumbs, rank, lambda: os.getppid() == parent)
        answer.send_bytes(_answer(call, rank, meeting))
        if meeting.stay:
            heart.join()
    finally:
        os._exit(0)


def _spawned(payload: bytes, rank: int, meeting: _Meeting, answer: Connection) -> None:
    """The life of a spawned rank."""
    parent = parent_process()
    assert parent is not None
    heart = _beating(meeting.crumbs, rank, parent.is_alive)
    message = decode(bytearray(payload))
    runtime = Runtime()
    runtime.handle({"op": "load", "cells": message["cells"]})
    # looked up inside, so that a function that is missing becomes an answer as well
    answer.send_bytes(_answer(lambda rank: _call(runtime, message["request"])(rank), rank, meeting))
    if meeting.stay:
        heart.join()
    os._exit(0)  # nobody waits for what the group's threads may still be at


def _beating(crumbs: Any, rank: int, parent_lives: Callable[[], bool]) -> threading.Thread:
    """Note this rank's processor time again and again; and end the process when nobody is left to hear of it."""
    _NUMBER.pack_into(crumbs, _CRUMBS * rank + _NUMBER_AT, number_in_proc())

    def beat() -> None:
        while parent_lives():
            _CPU.pack_into(crumbs, _CRUMBS * rank + _CPU_AT, time.process_time())
            time.sleep(_HEARTBEAT_S)
        os._exit(0)

    heart = threading.Thread(target=beat, daemon=True)
    heart.start()
    return heart


def _answer(call: Callable[[int], Any], rank: int, meeting: _Meeting) -> bytes:
    import torch
    import torch.distributed as dist

    torch.set_num_threads(1)
    if sys.platform in LOOPBACK:
        os.environ["GLOO_SOCKET_IFNAME"] = LOOPBACK[sys.platform]
    output = TailBuffer()
    try:
        dist.init_process_group(
            # nccl wants a GPU for each rank; gloo can do with any tensors
            "cpu:gloo,cuda:nccl" if torch.cuda.device_count() >= meeting.world_size else "gloo",
            init_method=Path(meeting.file).as_uri(),
            rank=rank,
            world_size=meeting.world_size,
            # whoever started the ranks gives up first: from there one can see who waits for whom
            timeout=timedelta(seconds=meeting.timeout + 60),
        )
        dist.barrier()  # a rank that ends at once would break connections that others are still making
        _GROUPS[:] = [dist.group.WORLD]
        before = collectives_so_far()
        _note_calls(meeting.crumbs, rank)
        with contextlib.redirect_stdout(output):
            value = call(rank)
        reply = {"value": value, "collectives": collectives_so_far() - before}
    except BaseException as error:
        reply = {"error": describe(error)}
        if _is_lost_connection(error):
            reply["error"]["message"] = _LOST
    return encode_reply(reply | {"output": output.text})


def _is_lost_connection(error: BaseException) -> bool:
    """Whether gloo says, with line numbers of its own and an address, that a connection was closed."""
    return isinstance(error, RuntimeError) and "gloo" in str(error) and "onnection" in str(error)


def _note_calls(crumbs: Any, rank: int) -> None:
    """From now on, note which call this rank is in, and which groups it makes."""
    import torch
    import torch.distributed as dist
    from torch.nn.parallel import DistributedDataParallel

    def noting(function: Callable[..., Any], name: str) -> Callable[..., Any]:
        index = NOTED.index(name)

        @wraps(function)
        def noted(*args: Any, **kwargs: Any) -> Any:
            outer, number, brought = _CALL.unpack_from(crumbs, _CRUMBS * rank)
            size = next((value.numel() for value in args if isinstance(value, torch.Tensor)), -1)
            _CALL.pack_into(crumbs, _CRUMBS * rank, index, number + (name in CALLS), size)
            try:
                result = function(*args, **kwargs)
                if name == "new_group" and isinstance(result, dist.ProcessGroup):  # not where this rank stays outside
                    _GROUPS.append(result)
                return result
            finally:
                now = _CALL.unpack_from(crumbs, _CRUMBS * rank)[1]
                _CALL.pack_into(crumbs, _CRUMBS * rank, outer, now, brought)

        return noted

    for name in CALLS:
        if hasattr(dist, name):
            setattr(dist, name, noting(getattr(dist, name), name))
    wrapped: Any = DistributedDataParallel
    wrapped.__init__ = noting(wrapped.__init__, "DistributedDataParallel")
    wrapped.forward = noting(wrapped.forward, "DistributedDataParallel.forward")
    tensor: Any = torch.Tensor
    tensor.backward = noting(tensor.backward, "backward")
