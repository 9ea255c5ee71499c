"""The whole hostile class in one batch with honest students, through the command as an instructor types it.

`make test` takes a share of the kinds that cost time, always the same; `make hostile` takes all.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from getpass import getuser
from pathlib import Path
from typing import Any

import psutil
import pytest

from autograder.chapter import find_chapters
from autograder.exports import folder_name
from autograder.session import load_module

from ..draw import IN_A_BATCH, share

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(shutil.which("bwrap") is None, reason="other people's code needs bubblewrap"),
]
ROOT = Path(__file__).resolve().parents[2]
SETTLED_S = 20.0
_entries: Any = load_module(Path(__file__).with_name("entries.py"))
SHARE = share(IN_A_BATCH)
_HEARTBEAT = """
import sys, time
longest, phase = 0.0, ""
while True:
    begin = time.monotonic()
    time.sleep(0.05)
    sum(range(10_000))
    print(time.monotonic() - begin - 0.05, flush=True)
"""


class Heartbeat:
    """A process beside a batch that wants to do next to nothing twenty times a second; how late it was at most."""

    def __init__(self) -> None:
        self._process = subprocess.Popen([sys.executable, "-c", _HEARTBEAT], stdout=subprocess.PIPE, text=True)
        self._thread = threading.Thread(target=self._listen, daemon=True)
        self._longest_s = 0.0
        self._thread.start()

    def _listen(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._longest_s = max(self._longest_s, float(line))

    def longest_s(self) -> float:
        """The longest delay since this was asked last, in seconds."""
        longest, self._longest_s = self._longest_s, 0.0
        return longest

    def close(self) -> None:
        """End it."""
        self._process.kill()
        self._process.wait()
        self._thread.join()


@contextmanager
def _watched(process: subprocess.Popen[str]) -> Iterator[set[psutil.Process]]:
    """The descendants that *process* was seen to have."""
    seen: set[psutil.Process] = set()
    over = threading.Event()

    def look() -> None:
        while not over.wait(0.5):
            with suppress(psutil.NoSuchProcess):
                seen.update(psutil.Process(process.pid).children(recursive=True))

    thread = threading.Thread(target=look)
    thread.start()
    try:
        yield seen
    finally:
        over.set()
        thread.join()


def _alive(processes: set[psutil.Process]) -> list[psutil.Process]:
    return [p for p in processes if p.is_running() and p.status() != psutil.STATUS_ZOMBIE]


class Course:
    """A copy of the course, with a folder for temporary files of its own: nothing may be left in it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        shutil.copytree(ROOT / "solutions", folder / "solutions", ignore=shutil.ignore_patterns("__pycache__"))
        self.temporary = folder / "temporary"
        self.temporary.mkdir(mode=0o777)
        # tests that take times take turns with all others on this machine
        self.lock = f"torch-clinic-timing-{getuser()}.lock"
        shared = Path(tempfile.gettempdir()) / self.lock
        shared.touch()
        os.link(shared, self.temporary / self.lock)

    def grade(self, entries: Sequence[Any], name: str) -> str:
        """Hand *entries* in and grade them into the folder *name*, from an empty store; what was printed.

        Asserts that nothing is left: no process, file or mount.
        """
        submitted = self.folder / f"submitted-{name}"
        submitted.mkdir()
        for entry in entries:
            entry.write(submitted)
        shutil.rmtree(self.folder / "reports", ignore_errors=True)
        environment = {k: v for k, v in os.environ.items() if not k.startswith("PYTEST_")}
        shared_memory, mounts = set(os.listdir("/dev/shm")), _mounts(self.folder)
        program = str(Path(sys.executable).with_name("autograder"))
        process = subprocess.Popen(
            [program, "grade", str(submitted), "--jobs", "2", "--out", str(self.folder / name)],
            cwd=self.folder,
            env={**environment, "TMPDIR": str(self.temporary), "PYTHONPATH": str(ROOT)},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        with _watched(process) as seen:
            said, _ = process.communicate()
        assert "Traceback" not in said, said
        assert len(seen) > 2
        patience = time.monotonic() + SETTLED_S
        while _alive(seen) and time.monotonic() < patience:
            time.sleep(0.1)
        assert _alive(seen) == []
        assert {path.name for path in self.temporary.iterdir()} == {self.lock}
        assert [new for new in set(os.listdir("/dev/shm")) - shared_memory if "torch" in new] == []
        assert _mounts(self.folder) == mounts
        return said


def _mounts(folder: Path) -> list[str]:
    lines = Path("/proc/mounts").read_text(encoding="utf-8").splitlines()
    return [line for line in lines if str(folder) in line or "torch-clinic" in line]


def _report(out: Path, entry: Any) -> Path:
    return out / folder_name(entry.student) / f"{entry.chapter}.json"


@pytest.fixture
def course() -> Iterator[Course]:
    """Not in pytest's own folders: what is in there may lie too deep to be removed by it."""
    folder = Path(tempfile.mkdtemp(prefix="hostile-class-"))
    try:
        yield Course(folder)
    finally:
        subprocess.run(["rm", "-rf", str(folder)], check=False)


def test_one_batch_with_everybody_in_it(
    course: Course, as_notebook: Callable[[Any], dict[str, Any]], record_property: Callable[[str, object], None]
) -> None:
    """Cheats are not paid, right work is not docked, and the honest are graded as if they had been alone."""
    everybody = _entries.Class(find_chapters(ROOT), as_notebook)
    honest = list(everybody.honest())[:: 1 if SHARE == 1 else 2]  # each is graded twice
    hostile = _entries.drawn(list(everybody.hostile()), SHARE)
    course.grade(honest, "alone")
    heartbeat = Heartbeat()
    try:
        time.sleep(3)
        before = heartbeat.longest_s()
        begin = time.monotonic()
        said = course.grade([*honest, *hostile], "together")
        took, during = time.monotonic() - begin, heartbeat.longest_s()
    finally:
        heartbeat.close()
    figures = {"kinds": len(hostile), "took_s": took, "delay_before_s": before, "delay_s": during}
    for name, value in figures.items():
        record_property(name, value)
    print(figures)
    out, alone = course.folder / "together", course.folder / "alone"
    found = {entry.name: list(_entries.problems(entry, _report(out, entry), said)) for entry in [*honest, *hostile]}
    assert {name: texts for name, texts in found.items() if texts} == {}
    for entry in honest:
        assert _report(out, entry).read_bytes() == _report(alone, entry).read_bytes(), f"{entry.name}'s report changed"
    assert all(character.isprintable() for line in said.splitlines() for character in line)
    assert during < 100 * max(before, 0.05), "the machine could not be used meanwhile"


def test_names_of_kinds_are_unique(as_notebook: Callable[[Any], dict[str, Any]]) -> None:
    everybody = _entries.Class(find_chapters(ROOT), as_notebook)
    entries = [*everybody.honest(), *everybody.hostile()]
    assert len({entry.name for entry in entries}) == len({entry.student for entry in entries}) == len(entries)
    assert len(_entries.drawn(entries, 30)) < len(entries)
