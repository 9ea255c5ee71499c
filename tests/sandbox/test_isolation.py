"""Code that tries to get out, to take more than its share, or to leave something behind, under each sandbox."""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from autograder.errors import (
    IsolationUnavailable,
    LearnerCrashed,
    LearnerError,
    LearnerException,
    LearnerTimeout,
)
from autograder.notebook import Cell
from autograder.program import read_program
from autograder.sandbox import Limits
from autograder.submission import Host, Submission

ROOT = Path(__file__).resolve().parents[2]
LIMITS = Limits(memory=400_000_000, disk=30_000_000)
TOO_MUCH_MEMORY = {
    "took more than the 0.4 GB of memory that it may have",
    "was ended by signal SIGKILL",  # sandlock's way, for what it counts itself
    "ended its process (status 9) before it had answered",  # how the code below says that a helper was ended
}


# a sandbox for each submission: some seconds for each test
@pytest.fixture(scope="module", params=["bubblewrap", pytest.param("sandlock", marks=pytest.mark.slow)])
def host(request) -> Iterator[Host]:
    """A judge's end, one for each backend."""
    host = Host(request.param, limits=LIMITS)
    try:
        assert host.isolation == request.param
    except IsolationUnavailable as error:
        if os.environ.get("CI") and request.param == "bubblewrap":
            raise  # what instructors rely on must be tried somewhere
        pytest.skip(str(error))
    with host:
        yield host


class Bench:
    """Opens submissions on one host, and shows afterwards that the host still works."""

    def __init__(self, host: Host) -> None:
        self.host = host
        self.opened: list[Submission] = []

    def __call__(self, source: str, timeout: float = 20.0, owner: str = "learner") -> Submission:
        program = read_program([Cell("code", source)])
        submission = Submission(lambda: self.host.runner(owner), program)
        submission.timeout = timeout
        self.opened.append(submission)
        return submission

    def close(self) -> None:
        for submission in self.opened:
            submission.close()
        next_one = self("def double(x):\n    return 2 * x\n", owner="next learner")
        assert next_one.double(21) == 42
        next_one.close()


@pytest.fixture
def code(host) -> Iterator[Bench]:
    bench = Bench(host)
    yield bench
    bench.close()


def raised(submission: Submission) -> LearnerException:
    with pytest.raises(LearnerException) as caught:
        submission.attack()
    return caught.value


def crashed(submission: Submission) -> str:
    with pytest.raises(LearnerCrashed) as caught:
        submission.attack()
    return str(caught.value)


def descendants() -> set[int]:
    return {process.pid for process in psutil.Process().children(recursive=True)}


# --- reading ----------------------------------------------------------------------------------------------------------


@pytest.fixture
def private_files(tmp_path: Path) -> list[Path]:
    gradebook = tmp_path / "gradebook.db"
    other = tmp_path / "submitted" / "somebody" / "ch01.ipynb"
    other.parent.mkdir(parents=True)
    for path in (gradebook, other):
        path.write_text("private")
    hidden = sorted((ROOT / "solutions").glob("*/hidden/*.py"))
    assert hidden
    return [
        gradebook,
        other,
        hidden[0],
        ROOT / "pyproject.toml",
        ROOT / "autograder" / "grading.py",
        Path("/etc/passwd"),
    ]


def test_private_files_cannot_be_read(code, private_files):
    source = """
def attack(paths):
    found = []
    for path in paths:
        try:
            found.append(open(path, "rb").read())
        except OSError:
            found.append(None)
    return [data is None for data in found]
"""
    answers = code(source).attack([str(path) for path in private_files])
    assert dict(zip(map(str, private_files), answers, strict=True)) == {str(path): True for path in private_files}


def test_private_folders_cannot_be_listed(code, private_files):
    source = """
import os

def attack(paths):
    found = []
    for path in paths:
        try:
            found += [path + "/" + name for name in os.listdir(path)]
        except OSError:
            pass
    return found
"""
    folders = [private_files[0].parent, private_files[1].parent, ROOT / "solutions", ROOT / "exercises", Path.home()]
    seen = code(source).attack([str(folder) for folder in folders])
    # the installation may lie in the home folder: the way to it may be seen, nothing else
    inside = [path for path in seen if not any(prefix.startswith(path) for prefix in (sys.prefix, sys.base_prefix))]
    assert inside == []


def test_environment_of_the_judge_is_hidden(host, code, monkeypatch):
    monkeypatch.setenv("JUDGES_MARKER", "marker-of-the-judge")
    host.close()  # the next sandbox starts with the marker around
    source = """
import os

def attack():
    texts = [repr(dict(os.environ))]
    for pid in os.listdir("/proc"):
        if pid.isdigit():
            for name in ("environ", "cmdline"):
                try:
                    texts.append(open(f"/proc/{pid}/{name}", "rb").read().decode(errors="replace"))
                except OSError:
                    pass
    return "".join(texts)
"""
    seen = code(source).attack()
    assert "marker-of-the-judge" not in seen
    assert str(Path(__file__)) not in seen  # the command line that tests run under


@pytest.mark.parametrize("mode", ["rb", "r+b"])
def test_memory_of_other_processes_is_closed(code, mode):
    source = f"""
import os

def attack(judge):
    opened = []
    for pid in {{*filter(str.isdigit, os.listdir("/proc")), str(judge)}} - {{str(os.getpid())}}:
        try:
            if os.path.samefile(f"/proc/{{pid}}", "/proc/self"):
                continue  # the outer number of this very process
            with open(f"/proc/{{pid}}/mem", {mode!r}) as memory:
                for line in open(f"/proc/{{pid}}/maps"):
                    if "rw-p" in line:
                        memory.seek(int(line.partition("-")[0], 16))
                        memory.read(1)
                        opened.append(pid)
                        break
        except OSError:
            pass
    return opened
"""
    first = code("def wait():\n    return 1\n")
    first.wait()  # another use that is alive, as a baseline is
    opened = code(source).attack(os.getpid())
    if code.host.isolation == "bubblewrap":
        assert opened == []
    else:  # a sandbox of its own for each submission: only its own processes may be among them
        assert str(os.getpid()) not in opened


def test_files_that_are_open_are_its_own(code):
    source = """
import os

def attack():
    found = []
    for number in range(256):
        try:
            found.append(os.readlink(f"/proc/self/fd/{number}"))
        except OSError:
            pass
    return found
"""
    seen = code(source).attack()
    assert [name for name in seen if name.startswith("/")] == ["/dev/null"] * 3 + [
        name for name in seen if name.startswith("/proc")
    ]
    assert sum(name.startswith("socket:") for name in seen) == 1, "more than the channel that answers go through"


# --- writing ----------------------------------------------------------------------------------------------------------


def test_nothing_outside_scratch_can_be_written(code, tmp_path):
    source = """
import os, sys

def attack(paths):
    written = []
    for folder in paths + [os.path.dirname(sys.modules["autograder"].__file__), os.path.dirname(os.__file__)]:
        path = os.path.join(folder, "left-behind")
        try:
            open(path, "w").write("x")
            written.append(path)
        except OSError:
            pass
    return written
"""
    paths = ["/", "/dev", "/etc", "/usr", "/var/tmp", "/run", "/home", str(tmp_path), str(ROOT), sys.prefix]
    assert code(source).attack(paths) == []
    assert list(tmp_path.iterdir()) == []


def test_what_one_use_leaves_is_not_seen_by_the_next(code):
    source = """
import ctypes, os

PLACES = [os.environ["TMPDIR"], "/tmp", "/dev/shm", "/", "/dev"]
libc = ctypes.CDLL(None, use_errno=True)

def leave():
    for place in PLACES:
        try:
            open(place + "/note", "w").write("the answer is 42")
        except OSError:
            pass
    try:
        from multiprocessing import shared_memory
        shared_memory.SharedMemory("note", create=True, size=64)
    except OSError:
        pass
    libc.shmget(4242, 4096, 0o1666)

def find():
    found = [place for place in PLACES if os.path.exists(place + "/note")]
    if libc.shmget(4242, 4096, 0) >= 0:
        found.append("SysV")
    try:
        from multiprocessing import shared_memory
        shared_memory.SharedMemory("note").close()
        found.append("posix")
    except OSError:
        pass
    return found
"""
    first = code(source, owner="first")
    first.leave()
    first.close()
    assert code(source, owner="second").find() == []


def test_two_uses_at_once_do_not_see_each_others_scratch(code):
    source = """
import os

def leave():
    open(os.environ["TMPDIR"] + "/note", "w").write("x")

def look():
    return os.path.exists(os.environ["TMPDIR"] + "/note")
"""
    if code.host.isolation != "bubblewrap":
        pytest.skip("sandlock gives each submission a sandbox of its own, one at a time")
    first = code(source)
    first.leave()
    assert not code(source).look()
    assert first.look()


# --- network ----------------------------------------------------------------------------------------------------------


def test_network_is_closed(code):
    with socket.socket() as tcp, socket.socket(socket.AF_UNIX) as unix, socket.socket(type=socket.SOCK_DGRAM) as udp:
        tcp.bind(("127.0.0.1", 0))
        tcp.listen()
        udp.bind(("127.0.0.1", 0))
        udp.settimeout(0.3)
        name = f"\0torch-clinic-{os.getpid()}-{threading.get_ident()}"
        unix.bind(name)
        unix.listen()
        source = """
import socket

def attack(port, udp_port, name):
    reached = []
    for family, address in ((socket.AF_INET, ("127.0.0.1", port)), (socket.AF_UNIX, name)):
        try:
            with socket.socket(family) as s:
                s.settimeout(2)
                s.connect(address)
                reached.append(repr(address))
        except OSError:
            pass
    try:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
            s.sendto(b"hello", ("127.0.0.1", udp_port))
    except OSError:
        pass
    return reached
"""
        submission = code(source)
        assert submission.attack(tcp.getsockname()[1], udp.getsockname()[1], name) == []
        with pytest.raises(TimeoutError):
            udp.recvfrom(16)


# --- privileges -------------------------------------------------------------------------------------------------------


def test_no_new_namespaces_or_mounts(code):
    source = """
import ctypes, os

libc = ctypes.CDLL(None, use_errno=True)

def attack():
    folder = os.environ["TMPDIR"] + "/place"
    os.makedirs(folder)
    tries = {
        "mount": libc.mount(b"tmpfs", folder.encode(), b"tmpfs", 0, b"size=10g"),
        "umount": libc.umount2(b"/tmp", 2),
        "user namespace": libc.unshare(0x10000000),
        "clone": libc.syscall(56 if os.uname().machine == "x86_64" else 220, 0x10000000 | 17, 0, 0, 0, 0),
    }
    return [name for name, result in tries.items() if result >= 0]
"""
    assert code(source).attack() == []


def test_no_capabilities_are_left(code):
    source = """
def attack():
    return [line.split() for line in open("/proc/self/status") if line.startswith(("CapEff", "CapPrm", "CapBnd"))]
"""
    if code.host.isolation != "bubblewrap":
        pytest.skip("sandlock refuses system calls instead")
    assert {int(value, 16) for _, value in code(source).attack()} == {0}


# --- taking more than one's share -------------------------------------------------------------------------------------


def test_one_large_allocation_is_refused(code):
    submission = code("import torch\n\ndef attack():\n    return torch.ones(10**9).sum()\n")
    if code.host.isolation == "sandlock":  # it ends a process that asks for more than there is
        assert crashed(submission) in TOO_MUCH_MEMORY
        return
    error = raised(submission)
    assert error.kind in ("RuntimeError", "MemoryError")
    assert "alloc" in str(error)


def test_many_small_allocations_are_refused(code):
    error = raised(code("def attack():\n    return [bytearray(10**7) for _ in range(1000)]\n"))
    assert error.kind == "MemoryError"


def test_memory_of_many_processes_is_counted_together(code):
    source = """
import os, time

def attack():
    for _ in range(8):
        if os.fork() == 0:
            block = b"x" * 250_000_000
            time.sleep(60)
            os._exit(0)
    while os.waitpid(-1, 0)[1] == 0:
        pass
    os._exit(9)  # one was ended from outside
"""
    assert crashed(code(source)) in TOO_MUCH_MEMORY


def test_memory_of_detached_processes_is_counted(code):
    source = """
import os, time

def attack():
    for _ in range(8):
        if os.fork() == 0:
            os.setsid()
            if os.fork() == 0:
                block = b"x" * 250_000_000
                open(f"{os.environ['TMPDIR']}/{os.getpid()}", "w").close()
                time.sleep(60)
            os._exit(0)
    time.sleep(6)
    if len(os.listdir(os.environ["TMPDIR"])) < 8:
        os._exit(9)  # not all of them got that far
"""
    assert crashed(code(source)) in TOO_MUCH_MEMORY


def test_shared_memory_is_counted(code):
    source = """
import mmap

def attack():
    block = mmap.mmap(-1, 900_000_000)  # shared: a limit on private data does not see it
    for start in range(0, 900_000_000, 1_000_000):
        block[start : start + 1_000_000] = bytes(1_000_000)
    import time
    time.sleep(60)
"""
    assert crashed(code(source)) in TOO_MUCH_MEMORY


def test_memory_that_no_process_shows_is_refused(code):
    source = """
import ctypes, os

def attack():
    tries = []
    try:
        tries.append(os.memfd_create("x"))
    except OSError:
        pass
    segment = ctypes.CDLL(None).shmget(0, 900_000_000, 0o1666)
    return tries + ([segment] if segment >= 0 else [])
"""
    assert code(source).attack() == []


def test_fork_bomb(code):
    source = """
import os, time

def attack():
    try:
        while True:
            os.fork()
    except OSError:
        time.sleep(60)
"""
    with pytest.raises((LearnerTimeout, LearnerCrashed)):
        code(source, timeout=2).attack()


def test_thread_bomb(code):
    source = """
import threading, time

def attack():
    for _ in range(10_000):
        threading.Thread(target=time.sleep, args=(60,), daemon=True).start()
"""
    with pytest.raises(LearnerError):
        code(source, timeout=10).attack()


def test_one_large_file_is_refused(code):
    source = """
import os

def attack():
    with open(os.environ["TMPDIR"] + "/large", "wb") as file:
        for _ in range(100):
            file.write(bytes(1_000_000))
"""
    assert raised(code(source)).kind == "OSError"


def test_many_files_are_refused(code):
    source = """
import os, time

def attack():
    for number in range(20):
        with open(f"{os.environ['TMPDIR']}/{number}", "wb") as file:
            for _ in range(8):
                file.write(bytes(1_000_000))
        time.sleep(0.05)
    time.sleep(5)
"""
    with pytest.raises(LearnerError) as caught:
        code(source).attack()
    assert "No space left" in str(caught.value) or "wrote more than the 30 MB" in str(caught.value)


def test_flood_of_output_keeps_its_tail(code):
    source = """
import sys

def attack():
    for stream in (sys.stdout, sys.stderr):
        for _ in range(20):
            stream.write("x" * 1_000_000)
    print("the end")
    raise ValueError("after the flood")
"""
    error = raised(code(source))
    assert error.output.endswith("the end\n")
    assert len(error.output) < 10_000


def test_flood_past_python(code):
    source = """
import os

def attack():
    for descriptor in (1, 2):
        for _ in range(20):
            os.write(descriptor, b"x" * 1_000_000)
    return "done"
"""
    assert code(source).attack() == "done"


def test_one_gigabyte_is_not_handed_back(code):
    error = raised(code("import torch\n\ndef attack():\n    return torch.empty(300_000_000, dtype=torch.uint8)\n"))
    assert error.kind == "WireError"
    assert "300 MB of tensors are more than the 256 MB allowed" in str(error)


def test_endless_text_is_not_handed_back(code):
    assert raised(code("def attack():\n    return 'x' * 100_000_000\n")).kind == "WireError"


# --- ending in odd ways -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("status", [0, 1, 81])
def test_exit_behind_pythons_back(code, status):
    assert crashed(code(f"import os\n\ndef attack():\n    os._exit({status})\n")) == (
        f"ended its process (status {status}) before it had answered"
    )


def test_sys_exit_is_an_exception(code):
    submission = code("import sys\n\ndef attack():\n    sys.exit(0)\n\ndef fine():\n    return 1\n")
    assert "called exit" in str(raised(submission))
    assert submission.fine() == 1


def test_segmentation_fault(code):
    assert crashed(code("import ctypes\n\ndef attack():\n    ctypes.string_at(0)\n")) == "was ended by signal SIGSEGV"


@pytest.mark.parametrize("number", [9, 40])
def test_signal_to_oneself(code, number):
    source = (
        f"import os, time\n\ndef attack():\n    os.kill(os.getpid(), {number})\n    time.sleep(0.2)\n    return 1\n"
    )
    submission = code(source)
    if code.host.isolation == "bubblewrap":
        assert submission.attack() == 1  # the first process of a namespace cannot be ended from inside
    else:
        assert crashed(submission) == f"was ended by signal {'SIGKILL' if number == 9 else 40}"


@pytest.mark.parametrize("target", ["os.getppid()", "-1", "0"])
def test_signals_to_others_do_not_reach_them(code, target):
    other = code("def attack():\n    return 'alive'\n")
    if code.host.isolation == "bubblewrap":
        assert other.attack() == "alive"
    source = f"""
import os, signal

def attack():
    os.kill({target}, signal.SIGKILL)
"""
    with contextlib.suppress(LearnerError):  # whoever kills their own process has failed
        code(source, timeout=5).attack()
    if code.host.isolation == "bubblewrap":
        assert other.attack() == "alive"  # neither the warm process nor another use was hit


def test_endless_loop_that_ignores_signals(code):
    source = """
import signal

def attack():
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    while True:
        pass
"""
    with pytest.raises(LearnerTimeout, match="did not come back within 1 s"):
        code(source, timeout=1).attack()


def test_what_comes_after_a_timeout_is_over_too(code):
    submission = code("def attack():\n    while True:\n        pass\n\ndef fine():\n    return 1\n", timeout=1)
    for name in ("attack", "fine"):
        with pytest.raises(LearnerTimeout):
            getattr(submission, name)()


def test_deep_recursion(code):
    submission = code("def attack():\n    return attack()\n\ndef fine():\n    return 1\n")
    assert raised(submission).kind == "RecursionError"
    assert submission.fine() == 1


def test_input_finds_no_one(code):
    assert raised(code("def attack():\n    return input('your name: ')\n")).kind == "EOFError"


# --- nothing stays ----------------------------------------------------------------------------------------------------

_DETACHED = """
import os, threading, time

def attack():
    threading.Thread(target=time.sleep, args=(120,), daemon=True).start()
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            for number in range(3, 64):
                try:
                    os.close(number)
                except OSError:
                    pass
            time.sleep(120)
        os._exit(0)
    if os.fork() == 0:
        while True:
            pass
    return os.getpid()
"""


def test_detached_processes_end_with_their_use(host, code, processes):
    before = processes.count(host)
    submission = code(_DETACHED)
    submission.attack()
    assert len(descendants()) >= before + 3
    submission.close()
    assert processes.settle_at(before, host)


def test_closing_leaves_no_process(host, processes):
    processes.count(host)  # nothing of the other sandbox is on its way
    before = descendants()
    with Host(host.isolation, limits=LIMITS) as other:
        submission = Submission(lambda: other.runner("learner"), read_program([Cell("code", _DETACHED)]))
        submission.attack()
        started = [process for process in psutil.Process().children(recursive=True) if process.pid not in before]
        assert started
    assert psutil.wait_procs(started, timeout=10)[1] == []


_JUDGE = """
import sys, time
from autograder.notebook import Cell
from autograder.program import read_program
from autograder.submission import Host, Submission

host = Host(sys.argv[1])
submission = Submission(lambda: host.runner("learner"), read_program([Cell("code", sys.argv[2])]))
submission.attack()
print("ready", flush=True)
time.sleep(120)
"""


def test_end_of_the_judge_is_the_end_of_the_sandbox(host, tmp_path):
    judge = subprocess.Popen(
        [sys.executable, "-c", _JUDGE, host.isolation, _DETACHED],
        stdout=subprocess.PIPE,
        cwd=ROOT,
        env={**os.environ, "TMPDIR": str(tmp_path)},  # what it cannot clear away any more, pytest does
    )
    assert judge.stdout is not None
    try:
        assert judge.stdout.readline() == b"ready\n"
        started = psutil.Process(judge.pid).children(recursive=True)
        assert len(started) >= 3
    finally:
        judge.kill()
        judge.wait()
        judge.stdout.close()
    _, alive = psutil.wait_procs(started, timeout=30)
    assert alive == []
    shutil.rmtree(tmp_path, ignore_errors=True)


def test_use_works_after_the_warm_process_was_ended(host, code):
    submission = code("def attack():\n    return 1\n")
    assert submission.attack() == 1
    for process in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.NoSuchProcess):  # one may go with another
            process.kill()  # all of them are ours: sandboxes that this test has started
    assert "before it had answered" in crashed(submission)
    deadline = time.monotonic() + 10
    while descendants() and time.monotonic() < deadline:
        time.sleep(0.05)
