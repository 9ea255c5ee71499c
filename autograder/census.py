"""The processes that a warm process has forked and their kin: counting, holding and ending them."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass

from autograder.patience import waited_seconds

_MAX_SCRATCH_FILES = 10_000
_MAX_STARTS = 100
"""So often something new may be found to run in a use that is told to stop."""
_LOOKS = 370


@dataclass
class ForkedUse:
    """What the warm process knows of a use; sizes in bytes."""

    number: int
    pid: int
    memory: int
    disk: int
    born: float
    """When it was forked, on the monotonic clock."""
    alone: bool
    """Whether it has namespaces of its own: its orphans stay in its family then, and its scratch folder is limited."""
    reason: str = ""


def own_bytes(pid: int) -> int:
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


def _members(use: ForkedUse, uses: dict[int, ForkedUse], parents: dict[int, int]) -> list[int]:
    """The processes of a use. Where uses have no namespaces, orphans are ours, and nobody can tell whose they were."""
    members = _family(use.pid, parents)
    if not use.alone:
        known = {other.pid for other in uses.values()}
        for pid in [pid for pid, parent in parents.items() if parent == os.getpid() and pid not in known]:
            members += _family(pid, parents)
    return members


def watch(uses: dict[int, ForkedUse], own: int) -> None:
    """End a use whose processes together take more than it may have: limits of the system hold for one process only."""
    if not uses or sys.platform != "linux":
        return
    parents = _processes()
    for use in uses.values():
        members = _members(use, uses, parents)
        if sum(max(0, own_bytes(pid) - own) for pid in members) > use.memory:
            use.reason = "memory"
        elif not use.alone and _scratch_bytes(use.disk) > use.disk:
            use.reason = "disk"
        else:
            continue
        for pid in reversed(members):
            kill(pid)


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


def freeze(use: ForkedUse, uses: dict[int, ForkedUse]) -> None:
    """Stop every process of a use until :func:`thaw`: it must not work while another one is timed.

    A use that keeps starting processes is ended. One that was told to stop and waits for a busy core, which it needs to
    do so, only takes its time.
    """
    if sys.platform != "linux":
        return
    told: set[int] = set()
    starts = 0
    for pause in _pauses():
        members = _members(use, uses, _processes())
        restless = [pid for pid in members if not _is_still(pid)]
        if not restless:
            return
        starts += not told.issuperset(restless)  # one may fork while we look
        if starts > _MAX_STARTS:
            break
        told.update(restless)
        for pid in restless:
            _signal(pid, signal.SIGSTOP)
        time.sleep(pause)
    use.reason = "restless"
    for pid in reversed(members):
        kill(pid)


def thaw(use: ForkedUse, uses: dict[int, ForkedUse]) -> None:
    """Let every process of a use go on."""
    if sys.platform == "linux":
        for pid in _members(use, uses, _processes()):
            _signal(pid, signal.SIGCONT)


def _pauses() -> Iterator[float]:
    """Seconds to wait between looks at processes that have been told to stop: half a minute in all.

    Looks are counted, not the clock asked: where the whole machine stands still for a while, so does this.
    """
    pause = 0.0002
    for _ in range(_LOOKS):
        yield pause
        pause = min(pause * 1.1, 0.1)


def cpu_seconds(use: ForkedUse, uses: dict[int, ForkedUse]) -> float:
    """What the processes of a use have computed so far, threads that have ended included."""
    total = 0.0
    if sys.platform == "linux":
        for pid in _members(use, uses, _processes()):
            with contextlib.suppress(OSError):
                total += time.clock_gettime((~pid << 3) | 2)  # the kernel's name for the clock of another process
    return total


def held_up_seconds(use: ForkedUse, uses: dict[int, ForkedUse]) -> float:
    """How long a use has waited so far for a core that others had; 0 where the system does not tell.

    It is what its most unlucky thread has waited, and at most the time in which the use computed nothing at all: whose
    threads keep each other waiting is not held up by others.
    """
    if sys.platform != "linux":
        return 0.0
    members = _members(use, uses, _processes())
    waited = max((waited_seconds(pid) for pid in members), default=0.0)
    return max(0.0, min(waited, time.monotonic() - use.born - cpu_seconds(use, uses)))


def _is_still(pid: int) -> bool:
    """Whether no thread of a process runs: it looks dead where its first one has ended, while others may work on."""
    with contextlib.suppress(OSError):
        return all(_state(f"{pid}/task/{thread}") in "TtZX" for thread in os.listdir(f"/proc/{pid}/task"))
    return True


def _state(task: str) -> str:
    try:
        with open(f"/proc/{task}/stat", "rb") as file:
            return file.read().rpartition(b")")[2].split()[0].decode()
    except (OSError, IndexError):
        return "X"


def _signal(pid: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.kill(pid, number)


def kill(pid: int) -> None:
    """End a process and its group, if they are there."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.kill(pid, signal.SIGKILL)


def end_strays(keep: set[int]) -> None:
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
