"""How the warm process is started: inside bubblewrap, inside sandlock, or as a plain child.

Each backend only builds a command line; what it promises is written in its docstring and tested in
``tests/sandbox``. ``ISOLATIONS`` lists the names that ``--isolation`` takes.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import sysconfig
from dataclasses import dataclass
from glob import glob
from pathlib import Path

from autograder.errors import IsolationUnavailable

ISOLATIONS = ("auto", "bubblewrap", "sandlock", "none")

_BOOT = "import sys; sys.path.insert(0, {stage!r}); from autograder.worker import main; main(sys.argv[1:])"
_WARM_BYTES = 1_500_000_000
"""What sandlock counts for the warm process and a use that has done nothing yet, with room to spare."""
_PASSED_ON = ("OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE", "CUDA_VISIBLE_DEVICES", "SYSTEMROOT")
"""The only variables of the person's environment that reach a worker: what the libraries need to run right."""


_SCRATCH = "/scratch"
"""Where a use in bubblewrap may write: an empty folder of its own."""


@dataclass(frozen=True)
class Launch:
    """A command to start, and how each use of it is to isolate itself (``namespaces`` or ``process``)."""

    argv: list[str]
    environment: dict[str, str]
    isolate: str
    own_processes: bool
    """Whether a limit on processes counts this sandbox's alone."""


def environment(scratch: str) -> dict[str, str]:
    """The whole environment of a worker."""
    passed = {name: os.environ[name] for name in _PASSED_ON if name in os.environ}
    return {
        "PATH": "/usr/bin:/bin",
        "LANG": "C.UTF-8",
        "HOME": scratch,
        "TMPDIR": scratch,
        "PYTHONDONTWRITEBYTECODE": "1",
        **passed,
    }


def python_folders() -> list[str]:
    """The folders of the Python installation: interpreter, standard library and installed packages."""
    paths = {
        sys.prefix,
        sys.base_prefix,
        sysconfig.get_path("purelib"),
        sysconfig.get_path("platlib"),
        str(Path(sys.executable).resolve().parent.parent),
    }
    found = sorted(path for path in paths if os.path.isdir(path))
    inside = [path for path in found if any(path != other and path.startswith(other + os.sep) for other in found)]
    return [path for path in found if path not in inside]


def boot(stage: str, *arguments: str) -> list[str]:
    """The command line of a worker."""
    return [sys.executable, "-I", "-c", _BOOT.format(stage=stage), *arguments]


def plain(stage: Path, memory: int, disk: int, device: str) -> Launch:
    """A child process with limits and nothing hidden from it: for one's own code, on any system."""
    return Launch(boot(str(stage), "zygote"), environment(str(stage)), "process", False)


def bubblewrap(stage: Path, memory: int, disk: int, device: str) -> Launch:
    """Namespaces: no network, no files but the Python installation, no other processes, a scratch folder in memory.

    Each use has, on top, user, mount, pid and IPC namespaces of its own, so nothing outlives it.
    """
    program = shutil.which("bwrap")
    if program is None:
        raise IsolationUnavailable("bubblewrap is not installed (Debian, Ubuntu: apt install bubblewrap).")
    argv = [program, "--die-with-parent", "--new-session", "--clearenv", "--cap-drop", "ALL"]
    variables = {**environment(_SCRATCH), "CLINIC_DISK": str(disk)}
    if os.getuid() == 0:
        # root stays root just long enough to become nobody: a process limit does not hold for root in a user namespace
        argv += ["--unshare-pid", "--unshare-net", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try"]
        argv += ["--cap-add", "CAP_SETUID", "--cap-add", "CAP_SETGID"]
        variables["CLINIC_DROP_ROOT"] = "1"
    else:
        argv += ["--unshare-all"]
    for name, value in variables.items():
        argv += ["--setenv", name, value]
    for folder in ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32"):
        if os.path.islink(folder):
            argv += ["--symlink", os.readlink(folder), folder]
        elif os.path.isdir(folder):
            argv += ["--ro-bind", folder, folder]
    for folder in ("/etc", "/sys", "/sys/devices", "/sys/devices/system"):
        argv += ["--perms", "0755", "--dir", folder]  # else nobody could not look into them, which gloo takes amiss
    argv += [
        "--ro-bind-try",
        "/etc/ld.so.cache",
        "/etc/ld.so.cache",
        "--ro-bind-try",
        "/etc/alternatives",
        "/etc/alternatives",
    ]
    argv += [
        "--proc",
        "/proc",
        "--dev",
        "/dev",
        "--ro-bind-try",
        "/sys/devices/system/cpu",
        "/sys/devices/system/cpu",
    ]
    argv += ["--perms", "1777", "--size", str(disk), "--tmpfs", _SCRATCH]
    folders = python_folders()
    if not any(folder.startswith("/tmp/") for folder in folders):
        argv += ["--symlink", _SCRATCH, "/tmp"]  # for code that names it; an installation in it must not be covered
    if device.startswith("cuda"):
        argv += ["--ro-bind-try", "/sys", "/sys"]
        for node in glob("/dev/nvidia*"):
            argv += ["--dev-bind", node, node]
    for folder in folders:
        for parent in reversed(Path(folder).parents[:-1]):
            argv += ["--perms", "0755", "--dir", str(parent)]  # else nobody could not pass through root's home
        argv += ["--ro-bind", folder, folder]
    argv += ["--ro-bind", str(stage), "/grader", "--chdir", _SCRATCH]
    # what lies around the mounts belongs to who started it, and is one for all uses
    argv += ["--remount-ro", "/dev", "--remount-ro", "/", "--"]
    argv += boot("/grader", "zygote")
    return Launch(argv, {}, "namespaces", True)


_SANDLOCK = """
import json, sys
from sandlock import Sandbox
settings, command = json.loads(sys.argv[1]), sys.argv[2:]
sys.exit(Sandbox(**settings).run_interactive(command))
"""


def sandlock(stage: Path, memory: int, disk: int, device: str) -> Launch:
    """Landlock and seccomp: no network, no files but the Python installation and a scratch folder, limited processes.

    Uses of one sandbox are not hidden from each other, so each submission gets a new one. Weaker than bubblewrap in one
    more way: processes that a use starts can neither be held while a baseline is timed nor be counted to its time.
    """
    if sys.platform != "linux":
        raise IsolationUnavailable("sandlock needs Linux.")
    try:
        from sandlock import landlock_abi_version, min_landlock_abi
    except ImportError:
        raise IsolationUnavailable("sandlock is not installed (pip install sandlock).") from None
    if landlock_abi_version() < min_landlock_abi():
        raise IsolationUnavailable("sandlock needs a Linux kernel of 6.12 or newer with Landlock switched on.")
    readable = [
        "/usr",
        "/bin",
        "/lib",
        "/lib64",
        "/proc",
        "/dev/null",
        "/dev/urandom",
        "/sys/devices/system/cpu",
    ]
    readable += ["/etc/ld.so.cache", *python_folders(), str(stage)]
    scratch = stage / "scratch"
    scratch.mkdir(exist_ok=True)
    settings = {
        "fs_readable": [path for path in readable if os.path.exists(path)],
        "fs_writable": [str(scratch), "/dev/null"],
        "max_processes": 64,
        # of all processes together: those that a use starts are hidden from the warm process, which watches the others
        "max_memory": memory + _WARM_BYTES,
        "clean_env": True,
        "env": environment(str(scratch)),
        "cwd": str(scratch),
        "no_coredump": True,
        # memory that no limit counts and no process shows
        "extra_deny_syscalls": ["memfd_create", "memfd_secret", "shmget"],
    }
    if device.startswith("cuda"):
        settings["gpu_devices"] = []
    argv = [sys.executable, "-I", "-c", _SANDLOCK, json.dumps(settings)]
    return Launch([*argv, *boot(str(stage), "zygote")], dict(os.environ), "process", False)


BACKENDS = {"bubblewrap": bubblewrap, "sandlock": sandlock, "none": plain}
