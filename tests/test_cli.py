"""The command: what it prints where, and its exit status."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from autograder.cli import ISOLATIONS, main
from autograder.sandbox import ISOLATIONS as SANDBOX_ISOLATIONS

Capture = pytest.CaptureFixture[str]
Notebook = Callable[..., Path]


def grade(path: Path | str, *options: str) -> int:
    return main(["grade", str(path), "--isolation", "none", *options])


def test_a_graded_notebook_is_reported_on_stdout(small_notebook: Notebook, capsys: Capture) -> None:
    assert grade(small_notebook(double="2 * x")) == 0
    out, err = capsys.readouterr()
    assert err == ""
    assert "double: 2 of 2 points" in out
    assert "✗ failed: Half of four is two." in out
    assert "half: 0 of 1 points" in out
    assert "ch07_small: 2 of 3 points" in out
    assert "test_halves" not in out


def test_doing_nothing_earns_nothing_and_is_no_failure(small_notebook: Notebook, capsys: Capture) -> None:
    assert grade(small_notebook()) == 0
    assert "ch07_small: 0 of 3 points" in capsys.readouterr().out


def test_json_has_the_documented_keys(small_notebook: Notebook, capsys: Capture) -> None:
    assert grade(small_notebook(double="2 * x"), "--json") == 0
    data: dict[str, Any] = json.loads(capsys.readouterr().out)
    assert list(data) == ["schema_version", "chapter", "score", "max_score", "tasks", "notes", "hardware"]
    assert (data["schema_version"], data["chapter"], data["score"], data["max_score"]) == (2, "ch07_small", 2, 3)
    assert [(task["task"], task["score"], task["max_score"]) for task in data["tasks"]] == [
        ("double", 2, 2),
        ("half", 0, 1),
    ]
    (test,) = data["tasks"][1]["tests"]
    assert test["name"] == "test_ch07_small::test_halves"
    assert test["outcome"] == "failed"
    assert test["message"].startswith("The result differs from what was expected: got 4, expected 2")
    assert data["hardware"]["isolation"] == "none"


def test_a_copy_without_hidden_tests_says_so(small_notebook: Notebook, capsys: Capture) -> None:
    grade(small_notebook())
    assert "note: Graded by the visible tests alone" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (None, "there is no such file"),
        ("", "is empty"),
        ("{", "is not a complete notebook"),
        ("{}", "is JSON but no notebook"),
        ('{"cells": []}', "holds none of this chapter's tasks"),
    ],
)
def test_what_cannot_be_graded_is_told_on_stderr(
    small_course: Path, capsys: Capture, content: str | None, says: str
) -> None:
    path = small_course / "ch07_small (1).ipynb"
    if content is not None:
        path.write_text(content)
    assert grade(path) == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith(f"autograder: {path} could not be graded.\n")
    assert says in err
    assert "Traceback" not in err


def test_a_notebook_of_no_chapter_is_refused(small_course: Path, notebook_file: Any, capsys: Capture) -> None:
    assert grade(notebook_file(small_course / "shopping.ipynb", [])) == 1
    assert "shopping.ipynb belongs to no chapter that is here (chapters: ch07_small)" in capsys.readouterr().err


def test_a_name_that_no_system_allows_is_refused(capsys: Capture) -> None:
    assert grade("x" * 5_000 + ".ipynb") == 1
    assert "cannot be opened" in capsys.readouterr().err


@pytest.mark.parametrize("device", ["nonsense", "meta"])
def test_a_device_that_is_not_there_is_named(small_notebook: Notebook, capsys: Capture, device: str) -> None:
    assert grade(small_notebook(), "--device", device) == 1
    assert f"--device {device}: " in capsys.readouterr().err


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["grade"],
        ["mark", "x"],
        ["grade", "x", "--isolation", "jail"],
        ["grade", "x", "y", "--json"],
        ["grade", "x", "--jobs", "0"],
        ["-x"],
    ],
)
def test_wrong_usage_is_status_2(arguments: list[str], capsys: Capture) -> None:
    with pytest.raises(SystemExit) as caught:
        main(arguments)
    assert caught.value.code == 2
    assert "usage: autograder" in capsys.readouterr().err


@pytest.mark.parametrize("arguments", [["--help"], ["grade", "--help"]])
def test_help(arguments: list[str], capsys: Capture) -> None:
    with pytest.raises(SystemExit) as caught:
        main(arguments)
    assert caught.value.code == 0
    assert "usage: autograder" in capsys.readouterr().out


def test_help_does_not_wait_for_torch() -> None:
    code = "import sys; from autograder.cli import _parser; _parser().format_help(); sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_nbgraders_commands_that_grade_nothing_do_not_wait_for_torch(tmp_path: Path) -> None:
    code = (
        "import sys; from traitlets.config import Config; from autograder.nbgrader_preprocessors import configure; "
        "configure(Config()); sys.exit('torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], cwd=tmp_path, check=False).returncode == 0


@pytest.mark.slow
def test_who_has_a_class_graded_does_not_wait_for_torch(small_course: Path, small_notebook: Notebook) -> None:
    """The judges import it; nobody does where everything is graded already."""
    folder = small_course / "submitted" / "ann" / "ch07_small"
    folder.mkdir(parents=True)
    shutil.copy(small_notebook(double="2 * x"), folder)
    code = (
        "import sys; from autograder.cli import main; "
        "status = main(['grade', 'submitted', '--isolation', 'none', '--jobs', '1']); "
        "sys.exit(status or 'torch' in sys.modules)"
    )
    for said in ("1 graded\n", "1 graded (1 of them taken over from before)"):
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
        assert (done.returncode, done.stderr) == (0, "")
        assert said in done.stdout


def test_the_isolations_named_twice_are_the_same() -> None:
    assert ISOLATIONS == SANDBOX_ISOLATIONS


def test_odd_texts_of_a_learners_are_shown_harmlessly(small_notebook: Notebook, capsys: Capture) -> None:
    """Half a surrogate pair cannot be printed, and an escape sequence would be obeyed by a terminal."""
    assert grade(small_notebook(double="int('\\ud800 \\x1b[2J')")) == 0
    out = capsys.readouterr().out
    assert "ValueError: invalid literal" in out
    assert "\x1b" not in out


@pytest.mark.slow
def test_an_output_that_cannot_show_a_check_mark_still_shows_the_grade(small_notebook: Notebook) -> None:
    path = small_notebook(double="2 * x")
    done = subprocess.run(
        [sys.executable, "-m", "autograder.cli", "grade", str(path), "--isolation", "none"],
        env={**os.environ, "PYTHONIOENCODING": "ascii", "XDG_CACHE_HOME": str(path.parent)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert "ch07_small: 2 of 3 points" in done.stdout


def test_tests_that_a_learner_hands_in_are_not_run(small_notebook: Notebook, tmp_path: Path, capsys: Capture) -> None:
    """A folder that looks like a course, with the notebook in it: what counts is the course one stands in."""
    path = small_notebook(double="2 * x")
    learners, authors = (tmp_path / "handed in" / top / "ch07_small" for top in ("exercises", "solutions"))
    for theirs in (learners, authors):
        shutil.copytree(path.parent, theirs)
        forged = "from pathlib import Path\nPath(__file__).with_name('ran').touch()\n"
        (theirs / "test_ch07_small.py").write_text(forged)
    assert grade(learners / path.name) == 0
    assert "ch07_small: 2 of 3 points" in capsys.readouterr().out
    assert not (learners / "ran").exists() and not (authors / "ran").exists()


@pytest.mark.slow
def test_a_learners_copy_of_the_course_grades_itself(
    project: Path, tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only exercises/ is there: the visible tests are enough for a starter to earn nothing. Two chapters will do."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "exercises").mkdir()
    for folder in sorted((project / "exercises").glob("ch*"))[::3]:
        target = tmp_path / "exercises" / folder.name
        target.mkdir(parents=True)
        for path in (folder / ".starter.ipynb", *folder.glob("test_*.py")):
            shutil.copy(path, target)
        shutil.copy(folder / ".starter.ipynb", target / f"{folder.name}.ipynb")
        assert grade(target / f"{folder.name}.ipynb") == 0
        out, err = capsys.readouterr()
        assert err == ""
        assert f"{folder.name}: 0 of " in out
        assert "Graded by the visible tests alone" in out
