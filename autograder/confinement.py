"""What a worker gives up before it runs a learner's code: root, namespaces, capabilities, system calls, and resources
beyond its limits. Linux only; elsewhere nothing is given up. Used by the worker alone.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import platform
import struct
import sys
from typing import Any

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


def _libc() -> Any:
    return ctypes.CDLL(None, use_errno=True)


def _check(result: int, what: str) -> None:
    if result != 0:
        raise OSError(ctypes.get_errno(), f"{what}: {os.strerror(ctypes.get_errno())}")


def prepare_zygote() -> None:
    """Become the reaper of orphans, close one's memory to others, and, as root, become nobody."""
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


def isolate(kind: str) -> int:
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


def limit(limits: dict[str, int]) -> None:
    """Hold this process to *limits* for good (keys as in ``sandbox.Limits``, bytes and counts)."""
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
