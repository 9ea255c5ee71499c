"""What has been graded stays: all of it or nothing, under a key that says what it depends on."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from autograder.notebook import Cell
from autograder.program import read_program
from autograder.report import Outcome, Part, TestResult
from autograder.store import Store, part_key, write_atomically


def part(outcome: Outcome = Outcome.PASSED) -> Part:
    return Part({"one": (TestResult("t::a", outcome, pitfalls=("V1",)),)}, {"cores": 2})


def test_what_is_put_can_be_got(tmp_path):
    store = Store(tmp_path / "new")
    assert store.get("ab12") is None
    store.put("ab12", part())
    assert store.get("ab12") == part()


def test_a_fault_of_ours_is_not_kept(tmp_path):
    store = Store(tmp_path)
    store.put("ab12", part(Outcome.ERROR))
    assert store.get("ab12") is None


@pytest.mark.parametrize("damage", ["", "{", "[1]", '{"schema_version": 0}', "\0" * 100])
def test_a_damaged_file_counts_as_none(tmp_path, damage):
    store = Store(tmp_path)
    store.put("ab12", part())
    (file,) = tmp_path.rglob("*.json")
    file.write_text(damage)
    assert store.get("ab12") is None
    store.put("ab12", part())
    assert store.get("ab12") == part()


MARK = {"grade_id": "f-code", "solution": True}
FUNCTION = "def f(x):\n    return g(x) + 1"


def key(
    *cells: str,
    source: str = FUNCTION,
    version: str = "tests",
    machine: str = "machine",
    task: str = "f",
    timed: bool = False,
    names: tuple[str, ...] = ("f",),
) -> str:
    """The key of a notebook with some cells of the learner's own before the task's cell."""
    notebook = [*(Cell("code", text) for text in cells), Cell("code", source, nbgrader=MARK)]
    return part_key(version, machine, task, timed, read_program(notebook), names)


HELPER = "def g(x):\n    return x"


def test_the_key_names_all_that_a_verdict_depends_on():
    keys = [
        key(HELPER),
        key(HELPER, version="other"),
        key(HELPER, machine="other"),
        key(HELPER, task="other"),
        key(HELPER, timed=True),
        key(HELPER, source=FUNCTION.replace("1", "2")),
        key(HELPER, source=FUNCTION + "  # '\ud800'"),
        key(HELPER.replace("x", "y")),
        key(HELPER, HELPER.replace("return x", "return 2 * x")),
        key("", HELPER),  # messages name a cell of the learner's own by its number
        key("from helpers import *", HELPER),
        key(HELPER, "def broken(:"),  # that it does not parse is told
        key(),
        key(source="def other(x): pass"),
        key(source="def other(x): pass", names=("f", "h")),
        key("h = 1", source="def other(x): pass", names=("f", "h")),
    ]
    assert len(set(keys)) == len(keys) - 1  # of two names neither of which is there, one is as good as the other


def test_what_the_tests_do_not_run_is_no_part_of_the_key():
    """Other tasks, demonstrations, words."""
    assert key(HELPER, "def other(): return 1", "print(f(3))") == key(HELPER, "def other(): return 2", "print(f(4))")


def test_code_that_may_reach_everything_has_everything_in_its_key():
    reader = "def f(x):\n    return globals()['g'](x)"
    assert key("z = 1", source=reader) != key("z = 2", source=reader)


def test_a_file_is_whole_or_not_there(tmp_path):
    """A process that is killed while it writes, over and over, never leaves half a file."""
    target = tmp_path / "grade.json"
    endless = (
        "import sys; from pathlib import Path; from autograder.store import write_atomically\n"
        "print('ready', flush=True)\n"
        "while True: write_atomically(Path(sys.argv[1]), 'x' * 200_000)"
    )
    for _ in range(3):
        writer = subprocess.Popen([sys.executable, "-c", endless, str(target)], stdout=subprocess.PIPE)
        assert writer.stdout is not None and writer.stdout.readline()
        while not target.exists():
            assert writer.poll() is None
        writer.kill()
        writer.wait()
        writer.stdout.close()
        assert target.read_text() == "x" * 200_000
        target.unlink()


def test_a_failed_write_leaves_nothing(tmp_path):
    with pytest.raises(OSError):
        write_atomically(tmp_path / ("n" * 300), "text")
    assert list(tmp_path.iterdir()) == []


def test_names_that_are_no_utf_8_can_be_written(tmp_path: Path):
    write_atomically(tmp_path / "list", "student-\udcff")
    assert (tmp_path / "list").read_text() == "student-\\udcff"


def test_a_file_that_is_written_anew_keeps_its_permissions(tmp_path):
    path = tmp_path / "file"
    path.write_text("old")
    path.chmod(0o640)
    write_atomically(path, "new")
    assert (path.read_text(), path.stat().st_mode & 0o777) == ("new", 0o640)
