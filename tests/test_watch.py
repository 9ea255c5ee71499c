"""What ``autograder watch`` checks and says, with wake-ups given by hand; as a process it is in another file."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from autograder.chapter import find_chapters
from autograder.progress import Diary
from autograder.submission import Host
from autograder.watch import Watch, saves

Notebook = Callable[..., Path]
BUSY, QUIET = True, False


class Watched:
    """A watch over the small course, and what it has said."""

    def __init__(self, course: Path, host: Host) -> None:
        self._said: list[str] = []
        self.watch = Watch(course, list(find_chapters(course).values()), host, self._said.append)

    def after(self, *wake_ups: bool) -> str:
        """What it says at these wake-ups."""
        self._said.clear()
        self.watch.run(wake_ups)
        return "\n".join(self._said)


@pytest.fixture
def watched(small_course: Path, host: Host) -> Watched:
    return Watched(small_course, host)


def test_only_what_has_changed_is_checked(watched: Watched, small_notebook: Notebook, small_course: Path) -> None:
    assert watched.after(BUSY, QUIET) == ""
    small_notebook(double="2 * x")
    said = watched.after(BUSY)
    assert "Checking double\n" in said and "`double` is done." in said and "half:" not in said
    assert said.endswith("Next open task: half, in ch07_small\n")
    assert watched.after(BUSY, QUIET) == ""
    standing = Diary(small_course).standing(find_chapters(small_course)["ch07_small"])
    assert [(task.done, task.checked is not None) for task in standing.tasks] == [(True, True), (False, False)]


def test_a_save_without_a_change_of_code_is_told_in_one_line(watched: Watched, small_notebook: Notebook) -> None:
    small_notebook()
    said = watched.after(BUSY)
    assert said.endswith("ch07_small was saved; the code of no task has changed.")
    assert len(said.splitlines()) == 1


def test_a_wake_up_without_an_event_finds_a_save_too(watched: Watched, small_notebook: Notebook) -> None:
    small_notebook(half="x / 2")
    assert "`half` is done." in watched.after(QUIET)


def test_a_half_written_file_is_waited_for(watched: Watched, small_notebook: Notebook) -> None:
    path = small_notebook(double="2 * x")
    whole = path.read_text()
    path.write_text(whole[:100])
    assert watched.after(BUSY) == ""
    path.write_text(whole)
    assert "`double` is done." in watched.after(BUSY)


def test_a_file_that_stays_broken_is_told_once(watched: Watched, small_notebook: Notebook) -> None:
    path = small_notebook()
    path.write_text("{")
    assert watched.after(BUSY) == ""
    assert "ch07_small: ch07_small.ipynb is not a complete notebook" in watched.after(QUIET)
    assert watched.after(QUIET, QUIET, BUSY, QUIET) == ""
    path.write_text("{ ")  # without an event this time
    assert watched.after(QUIET) == ""
    assert "is not a complete notebook" in watched.after(QUIET)
    path.write_text("{{")
    assert "is not a complete notebook" in watched.after(BUSY, QUIET)
    path.unlink()
    assert "there is no such file" in watched.after(BUSY, QUIET)


def test_a_cell_that_does_not_parse_costs_its_own_task(watched: Watched, small_notebook: Notebook) -> None:
    small_notebook(double="2 *")
    said = watched.after(BUSY)
    assert "Checking double\n" in said
    assert "double does not parse (line 2: invalid syntax)" in said
    small_notebook(double="2 * x)")
    assert "double does not parse (line 2: unmatched ')')" in watched.after(BUSY)


def test_what_a_task_uses_belongs_to_it_wherever_it_stands(watched: Watched, small_notebook: Notebook) -> None:
    """A cell of one's own that is not used changes nothing, also where all others move down."""
    path = small_notebook(double="twice(x)")
    watched.after(BUSY)
    content = json.loads(path.read_text())
    own = {"cell_type": "code", "id": "own", "metadata": {}, "outputs": [], "execution_count": None}
    content["cells"].insert(0, own | {"source": "a = 1"})
    path.write_text(json.dumps(content))
    assert "no task has changed" in watched.after(BUSY)
    content["cells"].insert(0, own | {"source": "def twice(x):\n    return 2 * x", "id": "second"})
    path.write_text(json.dumps(content))
    assert "`double` is done." in watched.after(BUSY)
    content["cells"].insert(0, own | {"source": "b = 1", "id": "third"})
    path.write_text(json.dumps(content))
    assert "no task has changed" in watched.after(BUSY)


def test_a_task_that_is_open_again_is_told(watched: Watched, small_notebook: Notebook) -> None:
    small_notebook(double="2 * x", half="x / 2")
    said = watched.after(BUSY)
    assert "Checking double, half\n" in said and said.endswith("shows what you have changed.\n")
    small_notebook(double="x + x", half="x / 2")
    assert "`double` is still done." in watched.after(BUSY)
    small_notebook(double="x", half="x / 2")
    assert "`double` was done before; now it is open again." in watched.after(BUSY)


def test_saved_again_while_a_check_runs(
    watched: Watched, small_notebook: Notebook, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The rest of what was to be checked is left, and the newest state is checked next."""
    note = Diary.note

    def save_meanwhile(diary: Diary, *args: Any) -> None:
        monkeypatch.undo()
        note(diary, *args)
        small_notebook(double="2 * x", half="x / 2")

    monkeypatch.setattr(Diary, "note", save_meanwhile)
    small_notebook(double="2 * x", half="x / 4")
    said = watched.after(BUSY, BUSY)
    assert "Checking double, half\n" in said and "Checking half\n" in said
    assert said.count("half: ") == 1 and "`half` is done." in said


def test_a_fault_of_ours_is_told_and_the_next_save_tries_again(
    watched: Watched, small_notebook: Notebook, small_course: Path
) -> None:
    tests = small_course / "exercises" / "ch07_small" / "test_ch07_small.py"
    right = tests.read_text()
    tests.write_text("import pytest\n\nimport no_such_module\n" + right)
    small_notebook(double="2 * x")
    assert "The tests of ch07_small could not be run" in watched.after(BUSY)
    tests.write_text(right)
    small_notebook(double="2 * x", half="x")
    assert "`double` is done." in watched.after(BUSY)


def test_notes_about_the_file_are_told_once(watched: Watched, small_notebook: Notebook) -> None:
    path = small_notebook(double="2 * x")
    content = json.loads(path.read_text())
    content["cells"][0]["metadata"] = {}
    path.write_text(json.dumps(content))
    assert "Note: Cell 'double-code' had lost its nbgrader mark; found by what it defines." in watched.after(BUSY)
    content["cells"][0]["source"] = "def double(x):\n    return x + x"
    path.write_text(json.dumps(content))
    said = watched.after(BUSY)
    assert "Checking double" in said and "Note:" not in said


def test_a_notebook_that_is_broken_at_the_beginning_counts_as_untouched(
    small_course: Path, small_notebook: Notebook, host: Host
) -> None:
    small_notebook().write_text("")
    watched = Watched(small_course, host)
    assert watched.after(QUIET) == ""
    small_notebook(half="x / 2")
    assert "Checking half\n" in watched.after(BUSY)


def test_saves_wake_up_and_other_files_do_not(small_course: Path, small_notebook: Notebook) -> None:
    path = small_notebook()
    wake_ups: Iterator[bool] = saves(small_course, [path])
    assert next(wake_ups) is False  # by now it listens
    (path.parent / "notes.ipynb").write_text("{}")
    (path.parent / f".~{path.name}").write_text("{}")
    assert next(wake_ups) is False
    small_notebook(double="2 * x")
    assert next(wake_ups) is True
