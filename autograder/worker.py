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
import platform
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
_PR_SET_SECCOMP = 22
_PR_CAPBSET_DROP = 24
_PR_SET_NO_NEW_PRIVS = 38
_PR_SET_CHILD_SUBREAPER = 36
_CLONE_NEWNS = 0x20000
_CLONE_NEWIPC = 0x08000000
_CLONE_NEWUSER = 0x10000000
_CLONE_NEWPID = 0x20000000
_MS_NOSUID_NODEV = 0x2 | 0x4
_NOBODY = 65534
_MAX_SCRATCH_FILES = 10_000


@dataclass
class _Use:
    number: int
    pid: int
    memory: int
    disk: int
    alone: bool
    """Whether it has namespaces of its own: its orphans stay in its family then, and its scratch folder is limited."""
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
    libc.prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)  # a use, of the same user, must not write to our memory through /proc
    if os.getuid() == 0 and os.environ.get("CLINIC_DROP_ROOT"):
        # process limits do not hold for root, and nothing here needs root
        os.setgroups([])
        os.setresgid(_NOBODY, _NOBODY, _NOBODY)
        os.setresuid(_NOBODY, _NOBODY, _NOBODY)


def _zygote(control: socket.socket) -> None:
    import torch

    # imported here, once, is warm in every fork
    with contextlib.suppress(ImportError):  # a first call of autograd would fetch it, in every fork anew
        import torch.fx.experimental.symbolic_shapes  # noqa: F401

    import autograder.runtime  # noqa: F401

    _prepare_zygote()
    gc.collect()
    gc.freeze()  # a collection in a fork would touch, and so copy, every page
    control.sendall(b'{"ready": true}\n')
    uses: dict[int, _Use] = {}
    own = _own_bytes(os.getpid())
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
                break  # the judge is gone
            channels += descriptors
            *lines, pending = (pending + data).split(b"\n")
            for line in lines:
                request = json.loads(line)
                if request["op"] == "fork":
                    channel = socket.socket(fileno=channels.pop(0))
                    pid = _fork_use((control, wake, wakened), channel, request)
                    limits, alone = request["limits"], request["isolate"] == "namespaces"
                    uses[request["use"]] = _Use(request["use"], pid, limits["memory"], limits["disk"], alone)
                elif request["op"] == "end":
                    if request["use"] in uses:
                        _kill(uses[request["use"]].pid)
                else:
                    answer = {"ack": True, **_answer(request["op"], uses.get(request["use"]), uses)}
                    control.sendall(json.dumps(answer).encode() + b"\n")
        if time.monotonic() - watched >= _POLL_S:
            _watch(uses, own)
            watched = time.monotonic()
        _reap(control, uses)
    for use in uses.values():
        _kill(use.pid)
    _end_strays(set())


def _answer(operation: str, use: _Use | None, uses: dict[int, _Use]) -> dict[str, Any]:
    """What is told about a use, or done to it, while it lives."""
    if use is None:
        return {}
    if operation == "cpu":
        return {"cpu": _cpu_seconds(use, uses)}
    _freeze(use, uses, operation == "freeze")
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
    libc.prctl(_PR_SET_DUMPABLE, 1, 0, 0, 0)  # for as long as /proc/self has to be written to; see _limit
    _check(libc.unshare(_CLONE_NEWUSER | _CLONE_NEWNS | _CLONE_NEWPID | _CLONE_NEWIPC), "unshare")
    for name, text in (("setgroups", "deny"), ("uid_map", f"{uid} {uid} 1"), ("gid_map", f"{gid} {gid} 1")):
        with open(f"/proc/self/{name}", "w") as file:
            file.write(text)
    pid = os.fork()
    if pid:
        return pid
    os.setsid()  # kill(0, …) must not reach the warm process
    size = os.environ.get("CLINIC_DISK", "100000000").encode()
    for folder in (os.environ["TMPDIR"].encode(), b"/dev/shm"):
        _check(libc.mount(b"tmpfs", folder, b"tmpfs", _MS_NOSUID_NODEV, b"mode=1777,size=" + size), "mount")
    _seal(libc)
    return 0


def _seal(libc: Any) -> None:
    """Give up all capabilities for good, and the system calls that would bring some back or get around a limit.

    The owner of a user namespace may do anything in it: mount a scratch folder without a limit, say. Whoever could
    make a new namespace would own that.
    """
    for capability in range(64):
        libc.prctl(_PR_CAPBSET_DROP, capability, 0, 0, 0)
    header = (ctypes.c_uint32 * 2)(0x20080522, 0)  # version 3, this process
    nothing = (ctypes.c_uint32 * 6)()
    _check(libc.capset(header, nothing), "capset")
    libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    program = _seccomp_program(platform.machine())
    if program:
        buffer = ctypes.create_string_buffer(program, len(program))
        descriptor = struct.pack("@HxxxxxxP", len(program) // 8, ctypes.addressof(buffer))
        _check(libc.prctl(_PR_SET_SECCOMP, 2, ctypes.c_char_p(descriptor), 0, 0), "seccomp")


_DENIED_CALLS = {
    # name: number on x86_64 and on aarch64
    "shmget": (29, 194),  # memory that no limit counts and no process shows
    "memfd_create": (319, 279),
    "memfd_secret": (447, 447),
    "ptrace": (101, 117),
    "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271),
    "unshare": (272, 97),
    "setns": (308, 268),
    "mount": (165, 40),
    "umount2": (166, 39),
    "pivot_root": (155, 41),
    "open_tree": (428, 428),
    "move_mount": (429, 429),
    "fsopen": (430, 430),
    "fsmount": (432, 432),
    "mount_setattr": (442, 442),
    "add_key": (248, 217),
    "request_key": (249, 218),
    "keyctl": (250, 219),
    "bpf": (321, 280),
    "perf_event_open": (298, 241),
    "userfaultfd": (323, 282),
    "io_uring_setup": (425, 425),
    "clone3": (435, 435),  # its flags cannot be seen from here; libraries fall back to clone
}


def _seccomp_program(machine: str) -> bytes:
    """A filter, in the kernel's classic BPF, that refuses those calls; empty for a processor that is not known."""
    column, architecture, clone = {"x86_64": (0, 0xC000003E, 56), "aarch64": (1, 0xC00000B7, 220)}.get(
        machine, (0, 0, 0)
    )
    if not architecture:
        return b""
    load, equal, at_least, any_bit, answer = 0x20, 0x15, 0x35, 0x45, 0x06
    allow, refuse = 0x7FFF0000, 0x00050000 | 38  # ENOSYS: what a library takes as "do without"
    numbers = [of_machine[column] for of_machine in _DENIED_CALLS.values()]
    code = [
        (load, 0, 0, 4),  # the architecture: numbers mean other calls on another one
        (equal, 0, len(numbers) + 6, architecture),
        (load, 0, 0, 0),  # the call's number
        (at_least, len(numbers) + 4, 0, 0x40000000),  # x86's other set of numbers
    ]
    code += [(equal, len(numbers) - i + 3, 0, number) for i, number in enumerate(numbers)]
    code += [
        (equal, 0, 2, clone),
        (load, 0, 0, 16),  # the lower half of its first argument: flags
        (any_bit, 1, 0, 0x7E020000),  # a new namespace of any kind
        (answer, 0, 0, allow),
        (answer, 0, 0, refuse),
    ]
    return b"".join(struct.pack("=HBBI", *instruction) for instruction in code)


def _own_bytes(pid: int) -> int:
    """Memory of a process that is no file's, in bytes, shared memory included; 0 where the system does not tell."""
    total = 0
    try:
        with open(f"/proc/{pid}/status", "rb") as file:
            for line in file:
                if line.startswith((b"RssAnon:", b"RssShmem:")):
                    total += int(line.split()[1]) * 1024
    except (OSError, ValueError):
        pass
    return total


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


def _members(use: _Use, uses: dict[int, _Use], parents: dict[int, int]) -> list[int]:
    """The processes of a use. Where uses have no namespaces, orphans are ours, and nobody can tell whose they were."""
    members = _family(use.pid, parents)
    if not use.alone:
        known = {other.pid for other in uses.values()}
        for pid in [pid for pid, parent in parents.items() if parent == os.getpid() and pid not in known]:
            members += _family(pid, parents)
    return members


def _watch(uses: dict[int, _Use], own: int) -> None:
    """End a use whose processes together take more than it may have: limits of the system hold for one process only."""
    if not uses or sys.platform != "linux":
        return
    parents = _processes()
    for use in uses.values():
        members = _members(use, uses, parents)
        if sum(max(0, _own_bytes(pid) - own) for pid in members) > use.memory:
            use.reason = "memory"
        elif not use.alone and _scratch_bytes(use.disk) > use.disk:
            use.reason = "disk"
        else:
            continue
        for pid in reversed(members):
            _kill(pid)


def _scratch_bytes(enough: int) -> int:
    """Bytes in the scratch folder, counted until there are more than *enough*; very many files are too many."""
    total = 0
    files = 0
    for folder, _, names in os.walk(os.environ.get("TMPDIR", os.devnull)):
        for name in names:
            files += 1
            with contextlib.suppress(OSError):
                total += os.lstat(os.path.join(folder, name)).st_blocks * 512
            if total > enough or files > _MAX_SCRATCH_FILES:
                return enough + 1
    return total


def _freeze(use: _Use, uses: dict[int, _Use], stop: bool) -> None:
    """Stop every process of a use, or let all go on: a use must not work while another one is timed."""
    if sys.platform != "linux":
        return
    for _ in range(100):  # one may fork while we look
        members = _members(use, uses, _processes())
        states = [_state(pid) for pid in members]
        if not stop or all(state in "TtZX" for state in states):
            break
        for pid, state in zip(members, states, strict=True):
            if state not in "TtZX":
                _signal(pid, signal.SIGSTOP)
        time.sleep(0.0002)
    else:
        use.reason = "restless"
        for pid in reversed(members):
            _kill(pid)
    if not stop:
        for pid in members:
            _signal(pid, signal.SIGCONT)


def _cpu_seconds(use: _Use, uses: dict[int, _Use]) -> float:
    """What the processes of a use have computed so far, threads that have ended included."""
    total = 0.0
    if sys.platform == "linux":
        for pid in _members(use, uses, _processes()):
            with contextlib.suppress(OSError):
                total += time.clock_gettime((~pid << 3) | 2)  # the kernel's name for the clock of another process
    return total


def _state(pid: int) -> str:
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return file.read().rpartition(b")")[2].split()[0].decode()
    except (OSError, IndexError):
        return "X"


def _signal(pid: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.kill(pid, number)


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
    libc = _libc()
    libc.prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)  # another use, of the same user, must not reach in through /proc
    libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)


def _serve(channel: socket.socket, limits: dict[str, int], threads: int) -> None:
    """Answer requests until the judge closes the channel."""
    from autograder.errors import WireError
    from autograder.runtime import Runtime, TailBuffer
    from autograder.wire import MAX_MESSAGE_BYTES, decode, encode

    for name in [name for name in os.environ if name.startswith("CLINIC_")]:
        del os.environ[name]
    with contextlib.suppress(OSError):
        os.chdir(os.environ["TMPDIR"] if limits["own_processes"] else os.getcwd())
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
