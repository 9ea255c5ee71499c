"""``autograder watch`` as a process: it is started, notebooks are saved, and it is ended as a terminal does it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from autograder.chapter import find_chapters
from autograder.progress import Diary

pytestmark = pytest.mark.slow  # each starts a process that imports torch, and a warm one
Notebook = Callable[..., Path]
PATIENCE_S = 180.0
READY = "Next open task"


class Watching:
    """The running command: what it has printed, and what it has started."""

    def __init__(self, course: Path, *arguments: str) -> None:
        environment = {**os.environ, "XDG_CACHE_HOME": str(course.parent / "cache")}
        self.process = subprocess.Popen(
            [sys.executable, "-m", "autograder.cli", "watch", *arguments],
            cwd=course,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        self.printed = ""
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.printed += line

    def wait_for(self, text: str, after: int = 0) -> str:
        """What was printed behind *after* characters, once *text* is in it."""
        deadline = time.monotonic() + PATIENCE_S
        while text not in self.printed[after:]:
            assert time.monotonic() < deadline, f"{text!r} is not in:\n{self.printed}"
            assert self.process.poll() is None, f"it ended, with:\n{self.printed}"
            time.sleep(0.05)
        return self.printed[after:]

    def started(self) -> list[psutil.Process]:
        """All processes that it has started."""
        return psutil.Process(self.process.pid).children(recursive=True)

    def end(self, number: signal.Signals = signal.SIGINT) -> int:
        """Send it a signal; its exit status, when all that it printed has been read."""
        self.process.send_signal(number)
        status = self.process.wait(PATIENCE_S)
        self._reader.join(PATIENCE_S)
        return status


@pytest.fixture
def watching(small_course: Path) -> Iterator[Callable[..., Watching]]:
    """``watching(*arguments)``: the command in the small course, ended whatever happens."""
    running: list[Watching] = []

    def start(*arguments: str) -> Watching:
        running.append(Watching(small_course, *arguments))
        running[-1].wait_for(READY)
        return running[-1]

    yield start
    for one in running:
        if one.process.poll() is None:
            one.end(signal.SIGKILL)


def all_gone(processes: list[psutil.Process]) -> bool:
    _, alive = psutil.wait_procs(processes, timeout=PATIENCE_S)
    return not alive


def test_a_save_is_checked_and_ctrl_c_ends_it(
    small_course: Path, small_notebook: Notebook, watching: Callable[..., Watching]
) -> None:
    watch = watching()
    assert watch.printed == (
        "Watching exercises/ch07_small. Save a notebook, and the tasks that you have changed are checked. "
        "Ctrl-C ends this.\nNext open task: double, in ch07_small\n\n"
    )

    small_notebook(double="2 * x")
    out = watch.wait_for("3 points. Next open task: half, in ch07_small\n")
    assert "ch07_small was saved. Checking double\n" in out
    assert "double: 2 of 2 points\n  ✓ passed: Twice <b>three</b> is six." in out
    assert "`double` is done.\n" in out
    assert "half: " not in out  # it has not changed
    assert "ch07_small: 1 of 2 tasks done, 2 of 3 points." in out

    seen = len(watch.printed)
    small_notebook(double="2 * x", half="x / 2")
    out = watch.wait_for("All tasks are done.", after=seen)
    assert "Checking half\n" in out and "`half` is done." in out and "double:" not in out

    seen = len(watch.printed)
    small_notebook(double="3 * x", half="x / 2")
    out = watch.wait_for("Next open task: double", after=seen)
    assert "`double` was done before; now it is open again." in out

    standing = Diary(small_course).standing(find_chapters(small_course)["ch07_small"])
    assert [task.done for task in standing.tasks] == [False, True]

    started = watch.started()
    assert started
    seen = len(watch.printed)
    assert watch.end() == 0
    assert watch.printed[seen:].strip() == ""
    assert all_gone(started)


def test_a_file_that_stays_broken_is_told_in_words_and_the_next_save_counts(
    small_notebook: Notebook, watching: Callable[..., Watching]
) -> None:
    watch = watching("ch07")
    path = small_notebook()
    path.write_text(path.read_text()[:200])
    out = watch.wait_for("ch07_small.ipynb is not a complete notebook")
    assert "Traceback" not in out
    small_notebook(half="x / 2")
    out = watch.wait_for("`half` is done.")
    assert out.count("is not a complete notebook") == 1


def test_saved_in_pieces_as_by_a_slow_disk(small_notebook: Notebook, watching: Callable[..., Watching]) -> None:
    """The file is emptied, then written bit by bit: what counts is what stands there in the end."""
    watch = watching()
    path = small_notebook()
    text = path.read_text().replace("return x", "return 2 * x", 1)
    with path.open("w") as file:
        for start in range(0, len(text), 200):
            file.write(text[start : start + 200])
            file.flush()
            time.sleep(0.02)
    watch.wait_for("`double` is done.")


def test_replaced_as_editors_do_it(small_notebook: Notebook, watching: Callable[..., Watching]) -> None:
    watch = watching()
    path = small_notebook()
    new = path.with_name("new")
    new.write_text(path.read_text().replace("return x", "return 2 * x", 1))
    os.replace(new, path)
    watch.wait_for("`double` is done.")


def run_forever(small_notebook: Notebook, mark: Path) -> None:
    """Save code that never ends, and come back when it runs."""
    small_notebook(double=f"[open({str(mark)!r}, 'w').close() for _ in iter(int, 1)]")
    deadline = time.monotonic() + PATIENCE_S
    while not mark.exists():
        assert time.monotonic() < deadline
        time.sleep(0.05)


@pytest.mark.parametrize(
    "number",
    [
        pytest.param(signal.SIGINT, marks=pytest.mark.thorough),
        pytest.param(signal.SIGTERM, marks=pytest.mark.thorough),
        signal.SIGKILL,
    ],
)
def test_ended_while_code_runs_forever_it_leaves_no_process(
    small_notebook: Notebook, watching: Callable[..., Watching], tmp_path: Path, number: signal.Signals
) -> None:
    watch = watching()
    run_forever(small_notebook, tmp_path / "running")
    started = watch.started()
    assert len(started) >= 2
    status = watch.end(number)
    assert status == (-signal.SIGKILL if number is signal.SIGKILL else 0)
    assert all_gone(started)
    assert "Traceback" not in watch.printed


def test_an_infinite_loop_ends_by_itself_and_what_was_saved_meanwhile_is_checked_next(
    small_notebook: Notebook, watching: Callable[..., Watching], tmp_path: Path
) -> None:
    """With the usual limits, so this takes as long as a request may."""
    watch = watching()
    run_forever(small_notebook, tmp_path / "running")
    small_notebook(double="5 * x")
    small_notebook(double="2 * x")
    out = watch.wait_for("`double` is done.")
    assert "✗ took too long: Twice <b>three</b> is six.\n      Your code did not come back within 20 s." in out
    assert "5 * x" not in out and out.count("double: ") == 2  # of the two saves, only the last is checked


def test_a_course_whose_notebook_is_gone_is_watched_all_the_same(small_notebook: Notebook, small_course: Path) -> None:
    small_notebook().unlink()
    watch = Watching(small_course)
    try:
        watch.wait_for(READY)
        small_notebook(double="2 * x")
        watch.wait_for("`double` is done.")
    finally:
        assert watch.end() == 0


def test_without_events_files_are_looked_at_all_the_same(
    small_notebook: Notebook, watching: Callable[..., Watching], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Polling so seldom stands for a network folder that reports nothing."""
    monkeypatch.setenv("WATCHFILES_FORCE_POLLING", "true")
    monkeypatch.setenv("WATCHFILES_POLL_DELAY_MS", "10000000")
    watch = watching()
    small_notebook(double="2 * x")
    watch.wait_for("`double` is done.")


def test_a_chapter_that_is_not_there_is_told(small_course: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "autograder.cli", "watch", "ch99"],
        cwd=small_course,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == "autograder: There is no chapter `ch99` here. Chapters: ch07_small.\n"


def test_an_own_cell_in_a_notebook_of_lists_and_strings(
    small_notebook: Notebook, watching: Callable[..., Watching]
) -> None:
    """A cell of one's own above the others changes no task; one that a task uses does."""
    watch = watching()
    path = small_notebook(double="twice(x)")
    content = json.loads(path.read_text())
    watch.wait_for("Checking double")
    watch.wait_for("✗ failed: Twice nothing is nothing.")
    own = {"cell_type": "markdown", "id": "own", "metadata": {}, "source": "# Notes"}
    content["cells"].insert(0, own)
    path.write_text(json.dumps(content))
    watch.wait_for("ch07_small was saved; the code of no task has changed.")
    content["cells"][0] |= {"cell_type": "code", "source": "def twice(x):\n    return 2 * x", "outputs": []}
    path.write_text(json.dumps(content))
    watch.wait_for("`double` is done.")
