"""Ranks as real processes: one function in several processes of a gloo group, and what became of each.

Runs beside the learner's code, in the worker. Each rank is a fork, so the function may come from anywhere, a notebook's
cell included; that is safe only in a process that computes on one thread, as the worker does. Processes find each other
through a file, never through a port that could be taken.
"""

from __future__ import annotations

import contextlib
import mmap
import os
import select
import shutil
import signal
import struct
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import timedelta
from functools import wraps
from pathlib import Path
from typing import Any

from autograder.runtime import Runtime, describe, encode_reply
from autograder.wire import decode

STALL_S = 6.0
"""When every rank that is left has been in the same collective call for so long, none of them will come back."""
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
_WRAPPED = ("DistributedDataParallel", "DistributedDataParallel.forward", "backward")
NOTED = (*CALLS, *_WRAPPED)
_CRUMB = struct.Struct("<iI")
_NOWHERE = -1


def run_ranks(function: Callable[[int], Any], world_size: int, timeout: float) -> list[dict[str, Any]]:
    """Run ``function(rank)`` on each rank of a new group and return what became of each, by rank.

    Each outcome has ``state``: ``returned`` (with ``value``, plain data), ``raised`` (with ``error`` as
    :func:`~autograder.runtime.describe` gives it), ``died`` (its process ended), or ``waiting`` (it had not come back
    after *timeout* seconds, or when nobody was left who could have helped it). ``call`` and ``number`` say which noted
    call (:data:`NOTED`) it is in, or was in last, and how many it had begun; ``collectives`` counts what the backend
    carried out, those that DistributedDataParallel starts included. No process outlives the call.
    """
    folder = tempfile.mkdtemp(prefix="ranks-")
    crumbs = mmap.mmap(-1, _CRUMB.size * world_size)  # shared with the forks
    children: dict[int, tuple[int, int]] = {}
    try:
        for rank in range(world_size):
            _CRUMB.pack_into(crumbs, _CRUMB.size * rank, _NOWHERE, 0)
        for rank in range(world_size):
            read_end, write_end = os.pipe()
            pid = os.fork()
            if pid == 0:
                os.close(read_end)
                _be_rank(function, rank, world_size, os.path.join(folder, "rendezvous"), crumbs, write_end, timeout)
            os.close(write_end)
            children[rank] = pid, read_end
        answers = _collect({end: rank for rank, (_, end) in children.items()}, crumbs, timeout)
        return [_outcome(rank, answers.get(rank), crumbs) for rank in range(world_size)]
    finally:
        for pid, end in children.values():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            os.close(end)
        crumbs.close()
        shutil.rmtree(folder, ignore_errors=True)


def operation(runtime: Runtime) -> Callable[[dict[str, Any]], list[dict[str, Any]]]:
    """The request ``ranks`` of a worker: run a probe as ``probe(learner, rank, world_size, *args)`` on each rank."""

    def ranks(request: dict[str, Any]) -> list[dict[str, Any]]:
        function, before = runtime.target(request)
        world_size = request["world_size"]
        return run_ranks(
            lambda rank: function(*before, rank, world_size, *request["args"]), world_size, request["timeout"]
        )

    return ranks


def _collect(waiting: dict[int, int], crumbs: mmap.mmap, timeout: float) -> dict[int, bytes]:
    """What each rank sent before its end of the pipe closed; a rank without an entry is still at work."""
    parts: dict[int, list[bytes]] = {rank: [] for rank in waiting.values()}
    done: dict[int, bytes] = {}
    deadline = time.monotonic() + timeout
    before, since = b"", time.monotonic()
    while waiting and time.monotonic() < deadline:
        readable, _, _ = select.select(list(waiting), [], [], 0.05)
        for end in readable:
            if data := os.read(end, 1 << 16):
                parts[waiting[end]].append(data)
            else:
                rank = waiting.pop(end)
                done[rank] = b"".join(parts[rank])
        now = bytes(crumbs[:]) + bytes(len(waiting))
        if now != before:
            before, since = now, time.monotonic()
        stuck = all(_crumb(crumbs, rank)[0] in CALLS for rank in waiting.values())
        if stuck and time.monotonic() - since > STALL_S:
            break
    return done


def _outcome(rank: int, answer: bytes | None, crumbs: mmap.mmap) -> dict[str, Any]:
    call, number = _crumb(crumbs, rank)
    outcome: dict[str, Any] = {"rank": rank, "state": "waiting", "call": call, "number": number}
    if answer is None:
        return outcome
    if not answer:
        return outcome | {"state": "died"}
    reply = decode(bytearray(answer))
    state = "raised" if "error" in reply else "returned"
    return outcome | {"state": state, **{key: reply[key] for key in ("value", "error", "collectives") if key in reply}}


def _crumb(crumbs: mmap.mmap, rank: int) -> tuple[str, int]:
    index, number = _CRUMB.unpack_from(crumbs, _CRUMB.size * rank)
    return (NOTED[index] if 0 <= index < len(NOTED) else "", number)


# --- inside a rank ----------------------------------------------------------------------------------------------------


def _be_rank(
    function: Callable[[int], Any],
    rank: int,
    world_size: int,
    rendezvous: str,
    crumbs: mmap.mmap,
    write_end: int,
    timeout: float,
) -> None:
    """The life of one rank's process; never returns."""
    try:
        reply = _answer(function, rank, world_size, rendezvous, crumbs, timeout)
        data = encode_reply(reply)
        while data:
            data = data[os.write(write_end, data) :]
    finally:
        os._exit(0)


def _answer(
    function: Callable[[int], Any], rank: int, world_size: int, rendezvous: str, crumbs: mmap.mmap, timeout: float
) -> dict[str, Any]:
    import torch
    import torch.distributed as dist

    torch.set_num_threads(1)
    try:
        dist.init_process_group(
            "gloo",
            init_method=Path(rendezvous).as_uri(),
            rank=rank,
            world_size=world_size,
            # the parent gives up first: it can say who waits for whom
            timeout=timedelta(seconds=timeout + 60),
        )
        _note_calls(crumbs, rank)
        with _counted() as collectives:
            value = function(rank)
        return {"value": value, "collectives": dict(collectives)}
    except BaseException as error:
        return {"error": describe(error)}


@contextlib.contextmanager
def _counted() -> Iterator[Counter[str]]:
    """Count the collectives that gloo carries out, by name (``all_reduce``), whoever starts them."""
    from torch.profiler import ProfilerActivity, profile

    counts: Counter[str] = Counter()
    with _silenced(), profile(activities=[ProfilerActivity.CPU]) as profiler:
        yield counts
    for event in profiler.events() or ():
        if event.name.startswith("gloo:"):
            counts[event.name.removeprefix("gloo:")] += 1


@contextlib.contextmanager
def _silenced() -> Iterator[None]:
    """The profiler's library writes to stderr as it starts and stops."""
    sys.stderr.flush()
    kept, nowhere = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 2)
    try:
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(nowhere)


def _note_calls(crumbs: mmap.mmap, rank: int) -> None:
    """From now on, note which call this rank is in."""
    import torch
    import torch.distributed as dist
    from torch.nn.parallel import DistributedDataParallel

    def noting(function: Callable[..., Any], name: str) -> Callable[..., Any]:
        index = NOTED.index(name)

        @wraps(function)
        def noted(*args: Any, **kwargs: Any) -> Any:
            outer, number = _CRUMB.unpack_from(crumbs, _CRUMB.size * rank)
            _CRUMB.pack_into(crumbs, _CRUMB.size * rank, index, number + 1)
            try:
                return function(*args, **kwargs)
            finally:
                now = _CRUMB.unpack_from(crumbs, _CRUMB.size * rank)[1]
                _CRUMB.pack_into(crumbs, _CRUMB.size * rank, outer, now)

        return noted

    for name in CALLS:
        if hasattr(dist, name):
            setattr(dist, name, noting(getattr(dist, name), name))
    wrapped: Any = DistributedDataParallel
    wrapped.__init__ = noting(wrapped.__init__, "DistributedDataParallel")
    wrapped.forward = noting(wrapped.forward, "DistributedDataParallel.forward")
    tensor: Any = torch.Tensor
    tensor.backward = noting(tensor.backward, "backward")
