"""The child process: warmed once, forked for every use. It starts learners' code; nobody imports it.

Two roles:

* The **zygote** imports torch and then only forks. It runs no learner code and no tensor work (a thread pool does not
  survive a fork), so nothing of one learner can reach the next through it. It ends uses that are told to end, that
  outgrow their memory, or whose judge is gone, together with whatever they left behind.
* A **use** is one fork: it gives up what it could do harm with (namespaces, limits, streams), then answers the requests
  that come over its own socket until that closes.

Where a machine cannot fork, the same file serves a single use (``single``).
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import json
import os
import select
import signal
import socket
import struct
import sys
import time
from collections.abc import Iterator
from itertools import islice
from typing import Any

from autograder.census import ForkedUse, cpu_seconds, end_strays, freeze, held_up_seconds, kill, own_bytes, thaw, watch
from autograder.confinement import isolate, limit, prepare_zygote
from autograder.large_pages import gathered

_POLL_S = 0.05
_GATHERED_PER_FORK = 5
"""A few at a time: whoever asks for a single fork does not wait for what spares the next hundred."""


def _zygote(control: socket.socket) -> None:
    # imported here, once, is warm in every fork
    import torch  # noqa: F401

    import autograder.ranks  # noqa: F401

    prepare_zygote()
    own, large_pages = _warm([]), gathered()
    uses: dict[int, ForkedUse] = {}
    try:
        control.sendall(b'{"ready": true}\n')
        _keep(control, uses, own, large_pages)
    except ConnectionError:
        pass  # a judge that was killed, with notices that it had not read yet: the socket breaks, it does not end
    finally:
        for use in uses.values():
            kill(use.pid)
        end_strays(set())


def _keep(control: socket.socket, uses: dict[int, ForkedUse], own: int, large_pages: Iterator[None]) -> None:
    """Fork, watch and end *uses* as the judge asks, until it is gone."""
    wake, wakened = socket.socketpair()
    for end in (wake, wakened):
        end.setblocking(False)
    signal.signal(signal.SIGCHLD, lambda number, frame: None)
    signal.set_wakeup_fd(wakened.fileno(), warn_on_full_buffer=False)  # a use that ends is noticed at once
    pending = b""
    channels: list[int] = []  # descriptors that came along; each "fork" takes the next, in order
    watched = 0.0
    while True:
        readable, _, _ = select.select([control, wake], [], [], _POLL_S if uses else 1.0)
        if wake in readable:
            wake.recv(4096)
        if control in readable:
            data, descriptors, _, _ = socket.recv_fds(control, 65_536, 8)
            if not data:
                return  # the judge is gone
            channels += descriptors
            *lines, pending = (pending + data).split(b"\n")
            for line in lines:
                request = json.loads(line)
                if request["op"] == "fork":
                    channel = socket.socket(fileno=channels.pop(0))
                    pid = _fork_use((control, wake, wakened), channel, request)
                    limits, alone = request["limits"], request["isolate"] == "namespaces"
                    uses[request["use"]] = ForkedUse(
                        request["use"], pid, limits["memory"], limits["disk"], time.monotonic(), alone
                    )
                    for _ in islice(large_pages, _GATHERED_PER_FORK):
                        pass
                elif request["op"] == "warm":
                    own, large_pages = _warm(request["modules"]), gathered()
                    control.sendall(b'{"ack": true}\n')
                elif request["op"] == "end":
                    if request["use"] in uses:
                        kill(uses[request["use"]].pid)
                else:
                    answer = {"ack": True, **_answer(request["op"], uses.get(request["use"]), uses)}
                    control.sendall(json.dumps(answer).encode() + b"\n")
        if time.monotonic() - watched >= _POLL_S:
            watch(uses, own)
            watched = time.monotonic()
        _reap(control, uses)


def _warm(modules: list[str]) -> int:
    """Import modules that a chapter names, for all forks to come; the bytes that this process holds afterwards."""
    for name in modules:
        with contextlib.suppress(Exception):  # what cannot be imported ahead is met, and told, where it is needed
            importlib.import_module(name)
    gc.collect()
    gc.freeze()  # a collection in a fork would touch, and so copy, every page
    return own_bytes(os.getpid())


def _answer(operation: str, use: ForkedUse | None, uses: dict[int, ForkedUse]) -> dict[str, Any]:
    """What is told about a use, or done to it, while it lives."""
    if use is None:
        return {}
    if operation == "cpu":
        return {"seconds": cpu_seconds(use, uses)}
    if operation == "held up":
        return {"seconds": held_up_seconds(use, uses)}
    (freeze if operation == "freeze" else thaw)(use, uses)
    return {}


def _fork_use(ours: tuple[socket.socket, ...], channel: socket.socket, request: dict[str, Any]) -> int:
    read_end, write_end = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            os.close(read_end)
            for end in ours:
                end.close()
            inner = isolate(request["isolate"])
            if inner:
                os.write(write_end, struct.pack("<q", inner))
                os._exit(0)  # the use itself is our child; the zygote, as the reaper of orphans, becomes its parent
            os.close(write_end)
            _serve(channel, request["limits"], request["threads"])
        except BaseException as error:
            with contextlib.suppress(BaseException):
                os.write(2, f"worker: {type(error).__name__}: {error}\n".encode())
            os._exit(81)
    os.close(write_end)
    channel.close()
    answer = os.read(read_end, 8)
    os.close(read_end)
    inner = struct.unpack("<q", answer)[0] if len(answer) == 8 else 0
    if inner:
        os.waitpid(pid, 0)
        return int(inner)
    return pid


def _reap(control: socket.socket, uses: dict[int, ForkedUse]) -> None:
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if pid == 0:
            return
        for number, use in list(uses.items()):
            if use.pid == pid:
                del uses[number]
                end_strays({other.pid for other in uses.values()})
                code = os.waitstatus_to_exitcode(status)
                notice = {"exited": number, "code": code, "reason": use.reason}
                control.sendall(json.dumps(notice).encode() + b"\n")


def _serve(channel: socket.socket, limits: dict[str, int], threads: int) -> None:
    """Answer requests until the judge closes the channel."""
    from autograder.ranks import operation
    from autograder.runtime import Runtime, TailBuffer, encode_reply
    from autograder.wire import decode

    for name in [name for name in os.environ if name.startswith("CLINIC_")]:
        del os.environ[name]
    with contextlib.suppress(OSError):
        os.chdir(os.environ["TMPDIR"] if limits["own_processes"] else os.getcwd())
    limit(limits)
    import torch

    torch.set_num_threads(threads)
    _rehearse()
    runtime = Runtime()
    runtime.operations["ranks"] = operation(runtime)
    device = "cpu"
    for stream in (0, 1, 2):  # only now: until here stderr carries our own troubles
        descriptor = os.open(os.devnull, os.O_RDWR)
        os.dup2(descriptor, stream)
        os.close(descriptor)
    output = TailBuffer()
    sys.stdout = sys.stderr = output
    while True:
        message = _receive(channel)
        if message is None:
            os._exit(0)
        request = decode(message, device)
        device = request.get("device", device)
        reply = runtime.handle(request)
        reply["output"] = output.take()
        data = encode_reply(reply)
        # before the answer goes out: giving large buffers back must not fall into the next request
        del message, request, reply
        channel.sendall(struct.pack("<Q", len(data)) + data)


def _rehearse() -> None:
    """Do once, with code of ours, what every use begins with.

    The first touch of each page that is shared with the warm process costs a copy. A use is forked ahead, so this
    happens while nobody waits for it.
    """
    import torch

    from autograder.runtime import Runtime
    from autograder.wire import decode, encode

    runtime = Runtime()
    source = "import torch\ndef f(x):\n    return (x.permute(1, 0) * 2).reshape(-1)\n"
    load = {"op": "load", "cells": [{"name": "rehearsal", "source": source, "keep": [0, 1]}]}
    x = torch.ones(2, 3, requires_grad=True)
    for request in (load, {"op": "call", "function": "f", "args": (x,), "kwargs": {}}):
        encode(runtime.handle(decode(bytearray(encode(request)))))
    torch.autograd.grad((x * 2).sum(), [x])


def _receive(channel: socket.socket) -> bytearray | None:
    header = _read(channel, 8)
    return None if header is None else _read(channel, struct.unpack("<Q", header)[0])


def _read(channel: socket.socket, size: int) -> bytearray | None:
    data = bytearray(size)
    view = memoryview(data)
    while view:
        count = channel.recv_into(view)
        if count == 0:
            return None
        view = view[count:]
    return data


def main(arguments: list[str]) -> None:
    """``zygote`` serves forks over the socket that is its stdin; ``single PORT TOKEN LIMITS THREADS`` one use."""
    if arguments[0] == "zygote":
        control = socket.socket(fileno=os.dup(0))
        nothing = os.open(os.devnull, os.O_RDONLY)
        os.dup2(nothing, 0)
        os.close(nothing)
        _zygote(control)
        return
    _, port, token, limits, threads = arguments
    channel = socket.create_connection(("127.0.0.1", int(port)))
    channel.sendall(token.encode())
    _serve(channel, json.loads(limits), int(threads))


if __name__ == "__main__":
    main(sys.argv[1:])
