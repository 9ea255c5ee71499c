"""What has been graded stays: all of it or nothing, under a key that says what it depends on."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from autograder.notebook import Cell
from autograder.report import Outcome, Part, TestResult
from autograder.store import Store, part_key, write_atomically

CELLS = (Cell("code", "x = 1", nbgrader={"grade_id": "a", "solution": True}), Cell("markdown", "words"))


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


def changed(**fields: object) -> tuple[Cell, ...]:
    source = fields.pop("source", "x = 1")
    return (Cell("code", str(source), nbgrader={"grade_id": "a", "solution": True} | fields), CELLS[1])


def test_the_key_names_all_that_a_verdict_depends_on():
    keys = [
        part_key("tests", "machine", CELLS, False),
        part_key("tests", "machine", CELLS, True),
        part_key("other tests", "machine", CELLS, False),
        part_key("tests", "other machine", CELLS, False),
        part_key("tests", "machine", changed(source="x = 2"), False),
        part_key("tests", "machine", changed(source="x = '\ud800'"), False),
        part_key("tests", "machine", (*CELLS, Cell("code", "y = 1")), False),
        part_key("tests", "machine", (Cell("code", "y = 1"), *CELLS), False),
    ]
    assert len(set(keys)) == len(keys)


def test_a_cells_place_is_part_of_the_key():
    """Messages name a cell of the learner's own by its number: nobody gets another one's numbers."""
    code = Cell("code", "x = 1")
    assert part_key("v", "m", [CELLS[0], code], False) != part_key(
        "v", "m", [CELLS[0], Cell("markdown", "words"), code], False
    )


def test_words_are_no_part_of_the_key():
    assert part_key("t", "m", CELLS, False) == part_key("t", "m", (CELLS[0], Cell("markdown", "other")), False)


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
