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
import ctypes
import gc
import json
import os
import select
import signal
import socket
import struct
import sys
import time
from dataclasses import dataclass
from typing import Any

_POLL_S = 0.05
_PR_SET_DUMPABLE = 4
_PR_SET_NO_NEW_PRIVS = 38
_PR_SET_CHILD_SUBREAPER = 36
_CLONE_NEWNS = 0x20000
_CLONE_NEWIPC = 0x08000000
_CLONE_NEWUSER = 0x10000000
_CLONE_NEWPID = 0x20000000
_MS_NOSUID_NODEV = 0x2 | 0x4
_NOBODY = 65534


@dataclass
class _Use:
    number: int
    pid: int
    limit: int
    reason: str = ""


def _libc() -> Any:
    return ctypes.CDLL(None, use_errno=True)


def _check(result: int, what: str) -> None:
    if result != 0:
        raise OSError(ctypes.get_errno(), f"{what}: {os.strerror(ctypes.get_errno())}")


# --- zygote -----------------------------------------------------------------------------------------------------------


def _prepare_zygote() -> None:
    if sys.platform != "linux":
        return
    libc = _libc()
    libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)  # what a use leaves behind comes to us, to be ended
    if os.getuid() == 0 and os.environ.get("CLINIC_DROP_ROOT"):
        # process limits do not hold for root, and nothing here needs root
        os.setgroups([])
        os.setresgid(_NOBODY, _NOBODY, _NOBODY)
        os.setresuid(_NOBODY, _NOBODY, _NOBODY)
        libc.prctl(_PR_SET_DUMPABLE, 1, 0, 0, 0)  # changing uid cleared it; /proc/self must stay ours


def _zygote(control: socket.socket) -> None:
    import torch  # noqa: F401  (what makes a later fork warm)

    import autograder.runtime  # noqa: F401

    _prepare_zygote()
    gc.collect()
    gc.freeze()  # a collection in a fork would touch, and so copy, every page
    control.sendall(b'{"ready": true}\n')
    uses: dict[int, _Use] = {}
    own = _anonymous_bytes(os.getpid())
    wake, wakened = socket.socketpair()
    for end in (wake, wakened):
        end.setblocking(False)
    signal.signal(signal.SIGCHLD, lambda number, frame: None)
    signal.set_wakeup_fd(wakened.fileno(), warn_on_full_buffer=False)  # a use that ends is noticed at once
    while True:
        readable, _, _ = select.select([control, wake], [], [], _POLL_S if uses else 1.0)
        if wake in readable:
            wake.recv(4096)
        if control in readable:
            data, descriptors, _, _ = socket.recv_fds(control, 65_536, 1)
            if not data:
                break  # the judge is gone
            request = json.loads(data)
            if request["op"] == "fork":
                pid = _fork_use(control, socket.socket(fileno=descriptors[0]), request)
                uses[request["use"]] = _Use(request["use"], pid, request["limits"]["memory"])
            elif request["op"] == "end" and request["use"] in uses:
                _kill(uses[request["use"]].pid)
            control.sendall(b'{"ack": true}\n')  # one request at a time: a descriptor never meets another message
        _watch_memory(uses, own)
        _reap(control, uses)
    for use in uses.values():
        _kill(use.pid)
    _end_strays(set())


def _fork_use(control: socket.socket, channel: socket.socket, request: dict[str, Any]) -> int:
    read_end, write_end = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            os.close(read_end)
            control.close()
            inner = _isolate(request["isolate"])
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


def _isolate(kind: str) -> int:
    """Enter namespaces of this use's own. Returns the pid of the use in the process that must make way, else 0."""
    if kind != "namespaces":
        if hasattr(os, "setpgid"):
            os.setpgid(0, 0)
        return 0
    libc = _libc()
    uid, gid = os.getuid(), os.getgid()
    _check(libc.unshare(_CLONE_NEWUSER | _CLONE_NEWNS | _CLONE_NEWPID | _CLONE_NEWIPC), "unshare")
    for name, text in (("setgroups", "deny"), ("uid_map", f"{uid} {uid} 1"), ("gid_map", f"{gid} {gid} 1")):
        with open(f"/proc/self/{name}", "w") as file:
            file.write(text)
    pid = os.fork()
    if pid:
        return pid
    size = os.environ.get("CLINIC_DISK", "100000000").encode()
    for folder in (b"/tmp", b"/dev/shm"):
        _check(libc.mount(b"tmpfs", folder, b"tmpfs", _MS_NOSUID_NODEV, b"mode=1777,size=" + size), "mount")
    return 0


def _anonymous_bytes(pid: int) -> int:
    """Memory of a process that is its own and not a file's, in bytes; 0 where the system does not tell."""
    try:
        with open(f"/proc/{pid}/status", "rb") as file:
            for line in file:
                if line.startswith(b"RssAnon:"):
                    return int(line.split()[1]) * 1024
    except (OSError, ValueError):
        pass
    return 0


def _processes() -> dict[int, int]:
    """pid -> parent's pid of every process to be seen."""
    parents = {}
    try:
        names = [name for name in os.listdir("/proc") if name.isdigit()]
    except OSError:
        return {}
    for name in names:
        with contextlib.suppress(OSError, ValueError, IndexError), open(f"/proc/{name}/stat", "rb") as file:
            parents[int(name)] = int(file.read().rpartition(b")")[2].split()[1])
    return parents


def _family(root: int, parents: dict[int, int]) -> list[int]:
    family = [root]
    for pid in family:
        family += [child for child, parent in parents.items() if parent == pid]
    return family


def _watch_memory(uses: dict[int, _Use], own: int) -> None:
    """End a use whose processes together have more memory than allowed (a per-process limit cannot see that)."""
    if not uses or sys.platform != "linux":
        return
    parents = _processes()
    for use in uses.values():
        total = sum(max(0, _anonymous_bytes(pid) - own) for pid in _family(use.pid, parents))
        if total > use.limit:
            use.reason = "memory"
            for pid in reversed(_family(use.pid, parents)):
                _kill(pid)


def _kill(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.kill(pid, signal.SIGKILL)


def _reap(control: socket.socket, uses: dict[int, _Use]) -> None:
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
                _end_strays({other.pid for other in uses.values()})
                code = os.waitstatus_to_exitcode(status)
                notice = {"exited": number, "code": code, "reason": use.reason}
                control.sendall(json.dumps(notice).encode() + b"\n")


def _end_strays(keep: set[int]) -> None:
    """End every process that a finished use left behind: as the reaper of orphans, we are their parent now."""
    if sys.platform != "linux":
        return
    for _ in range(100):  # a stray may fork while we look; its children come to us in turn
        parents = _processes()
        kept = {pid for root in keep for pid in _family(root, parents)}
        strays = [pid for pid in _family(os.getpid(), parents)[1:] if pid not in kept]
        if not strays:
            return
        for pid in strays:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        for pid in strays:
            with contextlib.suppress(ChildProcessError):
                os.waitpid(pid, os.WNOHANG)
        time.sleep(0.005)


# --- use --------------------------------------------------------------------------------------------------------------


def _limit(limits: dict[str, int]) -> None:
    if sys.platform != "linux":
        return
    import resource

    with contextlib.suppress(OSError), open("/proc/self/oom_score_adj", "w") as file:
        file.write("1000")  # should the machine run out of memory all the same, this process goes first
    used = 0
    with open("/proc/self/status", "rb") as file:
        for line in file:
            if line.startswith(b"VmData:"):
                used = int(line.split()[1]) * 1024
    for kind, value in (
        (resource.RLIMIT_DATA, used + limits["memory"]),
        (resource.RLIMIT_NPROC, limits["processes"]),
        (resource.RLIMIT_NOFILE, limits["files"]),
        (resource.RLIMIT_FSIZE, limits["disk"]),
        (resource.RLIMIT_CORE, 0),
    ):
        if kind == resource.RLIMIT_NPROC and not limits["own_processes"]:
            continue  # it would count every process of the person, not those of this use
        resource.setrlimit(kind, (value, value))
    _libc().prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)


def _serve(channel: socket.socket, limits: dict[str, int], threads: int) -> None:
    """Answer requests until the judge closes the channel."""
    from autograder.errors import WireError
    from autograder.runtime import Runtime, TailBuffer
    from autograder.wire import MAX_MESSAGE_BYTES, decode, encode

    for name in [name for name in os.environ if name.startswith("CLINIC_")]:
        del os.environ[name]
    with contextlib.suppress(OSError):
        os.chdir("/tmp" if limits["own_processes"] else os.getcwd())
    _limit(limits)
    import torch

    torch.set_num_threads(threads)
    runtime = Runtime()
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
        try:
            data = encode(reply, MAX_MESSAGE_BYTES)
        except WireError as error:
            reply = {
                "error": {"kind": "WireError", "message": str(error), "where": ""},
                "output": reply["output"],
            }
            data = encode(reply)
        del (
            message,
            request,
            reply,
        )  # before the answer: giving large buffers back must not fall into the next request
        channel.sendall(struct.pack("<Q", len(data)) + data)


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
