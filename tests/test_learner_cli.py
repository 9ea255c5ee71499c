"""The learner's commands as they are typed: what is printed where, and the exit status."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from autograder.chapter import find_chapters
from autograder.cli import main
from autograder.progress import Diary
from autograder.report import TaskReport

Capture = pytest.CaptureFixture[str]
Notebook = Callable[..., Path]


def note_done(course: Path, task: str) -> None:
    chapter = find_chapters(course)["ch07_small"]
    points = chapter.task(task).points
    Diary(course).note(chapter, [TaskReport(task, points, points)])


def is_done(course: Path, task: str) -> bool:
    standing = Diary(course).standing(find_chapters(course)["ch07_small"])
    return next(one.done for one in standing.tasks if one.task == task)


# --- progress ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("arguments", [[], ["ch07"]])
def test_progress_works_from_any_folder_of_the_course(
    small_course: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch, arguments: list[str]
) -> None:
    note_done(small_course, "double")
    monkeypatch.chdir(small_course / "exercises" / "ch07_small")
    assert main(["progress", *arguments]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    assert out.startswith("ch07_small: 1 of 2 tasks done, 2 of 3 points\n  done  double  2 of 2 points  20")
    assert "  open  half    0 of 1 points  not checked yet\n" in out
    assert "Next: half, in exercises/ch07_small/ch07_small.ipynb\n" in out


@pytest.mark.parametrize("arguments", [["progress"], ["hint", "half"], ["reset", "half"], ["watch"]])
def test_outside_of_a_course_there_is_a_friendly_word(
    tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch, arguments: list[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(arguments) == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("autograder: No folder `exercises` or `solutions` at or above")
    (tmp_path / "exercises").mkdir()
    assert main(arguments) == 1
    assert "There are no exercises in" in capsys.readouterr().err


@pytest.mark.parametrize("arguments", [["progress"], ["hint", "double"]])
def test_a_reader_that_has_read_enough_is_no_trouble(small_course: Path, arguments: list[str]) -> None:
    """As in ``autograder progress | head -1``."""
    ours, theirs = os.pipe()
    os.close(ours)  # nobody reads it
    code = f"from autograder.cli import main; main({arguments})"
    done = subprocess.run([sys.executable, "-c", code], check=False, stdout=theirs, stderr=subprocess.PIPE)
    os.close(theirs)
    assert (done.returncode, done.stderr) == (1, b"")


@pytest.mark.parametrize("arguments", [["progress"], ["hint", "double"], ["reset", "double"]])
def test_what_only_looks_does_not_wait_for_torch(small_course: Path, arguments: list[str]) -> None:
    code = f"import sys; from autograder.cli import main; main({arguments}); sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False, stdout=subprocess.DEVNULL).returncode == 0


@pytest.mark.parametrize(
    "arguments", [["progress", "a", "b"], ["reset"], ["hint", "x", "--all", "--again"], ["watch", "a", "b"]]
)
def test_wrong_usage_is_status_2(arguments: list[str], capsys: Capture) -> None:
    with pytest.raises(SystemExit) as caught:
        main(arguments)
    assert caught.value.code == 2
    assert "usage: autograder" in capsys.readouterr().err


# --- hint -------------------------------------------------------------------------------------------------------------


def test_hints_are_remembered_between_commands(
    project: Path, tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "exercises" / "ch01_tensor_views"
    folder.mkdir(parents=True)
    (folder / ".starter.ipynb").write_bytes((project / "exercises" / folder.name / ".starter.ipynb").read_bytes())
    monkeypatch.chdir(tmp_path)
    shown = []
    for arguments in (["take_clip"], ["ch01/take_clip"], ["take_clip", "--all"], ["take_clip", "--again"]):
        assert main(["hint", *arguments]) == 0
        shown.append(capsys.readouterr().out)
    assert "hint 1 of 3" in shown[0] and "hint 2 of 3" in shown[1] and "2 of 3 hints" in shown[2]
    assert shown[3] == shown[0]


def test_without_a_task_it_is_the_next_open_one(small_course: Path, small_notebook: Notebook, capsys: Capture) -> None:
    note_done(small_course, "double")
    assert main(["hint"]) == 0
    assert capsys.readouterr().out == "Next open task: half, in ch07_small\n\n`half` has no hints.\n"
    note_done(small_course, "half")
    assert main(["hint"]) == 1
    assert "All tasks are done. Name the task" in capsys.readouterr().err


def test_an_unknown_task_is_answered_with_names_near_to_it(small_course: Path, capsys: Capture) -> None:
    assert main(["hint", "halfs"]) == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert err == (
        "autograder: There is no task `halfs`. Did you mean `half`? `autograder progress` lists all tasks.\n"
    )


# --- reset ------------------------------------------------------------------------------------------------------------


def test_reset_without_asking(small_course: Path, small_notebook: Notebook, capsys: Capture) -> None:
    path = small_notebook(double="2 * x", half="x / 2")
    note_done(small_course, "double")
    note_done(small_course, "half")
    assert main(["reset", "double", "--yes"]) == 0
    out = capsys.readouterr().out
    (kept,) = (small_course / "kept" / "ch07_small").iterdir()
    assert out.splitlines() == [
        "exercises/ch07_small/ch07_small.ipynb, `double`: 1 line of yours would go, 1 line would come back.",
        f"`double` has its starting code back. Yours is in kept/ch07_small/{kept.name}.",
        "To have that again, paste what is in that file into the task's cell.",
        "Is the notebook open in JupyterLab? Then: File > Reload Notebook from Disk, before you save there.",
    ]
    assert kept.read_text() == "def double(x):\n    return 2 * x\n"
    assert "return 2 * x" not in path.read_text() and "return x / 2" in path.read_text()
    assert not is_done(small_course, "double") and is_done(small_course, "half")


def test_where_nobody_can_be_asked_nothing_is_changed(
    small_course: Path, small_notebook: Notebook, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = small_notebook(double="2 * x")
    before = path.read_bytes()
    with open(os.devnull) as nothing:
        monkeypatch.setattr("sys.stdin", nothing)
        assert main(["reset", "double"]) == 1
    assert "`autograder reset double --yes` does it without asking" in capsys.readouterr().err
    assert path.read_bytes() == before and not (small_course / "kept").exists()


def test_an_untouched_task_is_left(small_course: Path, small_notebook: Notebook, capsys: Capture) -> None:
    path = small_notebook(half="x / 2")
    before = path.stat()
    assert main(["reset", "double", "--yes"]) == 0
    assert capsys.readouterr().out == "`double` has its starting code already. Nothing was changed.\n"
    assert path.stat() == before and not (small_course / "kept").exists()


def test_a_lost_cell_is_laid_back(small_course: Path, capsys: Capture) -> None:
    path = small_course / "exercises" / "ch07_small" / "ch07_small.ipynb"
    text = path.read_text()
    path.write_text(text.replace("double-code", "gone").replace("def double", "def lost"))
    assert main(["reset", "double", "--yes"]) == 0
    out = capsys.readouterr().out
    assert (
        "The cell of `double` is not in exercises/ch07_small/ch07_small.ipynb any more. It would be laid back.\n" in out
    )
    assert "`double` has its starting code back.\n" in out
    assert "def double" in path.read_text() and "def lost" in path.read_text()


def test_ctrl_c_means_no(
    small_course: Path, small_notebook: Notebook, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Terminal:
        @staticmethod
        def isatty() -> bool:
            return True

        @staticmethod
        def readline() -> str:
            raise KeyboardInterrupt

    path = small_notebook(double="2 * x")
    before = path.read_bytes()
    monkeypatch.setattr("sys.stdin", Terminal)
    assert main(["reset", "double"]) == 1
    assert capsys.readouterr().out.endswith("[y/N] \nNothing was changed.\n")
    assert path.read_bytes() == before


@pytest.mark.skipif(sys.platform == "win32", reason="needs a terminal of Unix's kind")
@pytest.mark.parametrize(("answer", "status"), [(b"y\n", 0), (b"YES\n", 0), (b"\n", 1), (b"nope\n", 1), (b"\x04", 1)])
def test_in_a_terminal_it_asks(small_course: Path, small_notebook: Notebook, answer: bytes, status: int) -> None:
    """Enter and an end of input mean no."""
    path = small_notebook(double="2 * x")
    before = path.read_bytes()
    ours, theirs = pty.openpty()
    with subprocess.Popen(
        [sys.executable, "-c", _IN_A_TERMINAL], stdin=theirs, stdout=subprocess.PIPE, start_new_session=True
    ) as process:
        os.close(theirs)
        assert process.stdout is not None
        shown = b""
        while b"[y/N] " not in shown:
            byte = process.stdout.read(1)
            assert byte, shown
            shown += byte
        os.write(ours, answer)
        shown += process.stdout.read()
        assert process.wait() == status
    os.close(ours)
    assert b"Give `double` its starting code back? Your version is kept. [y/N] " in shown
    assert b"Traceback" not in shown
    if status:
        assert b"Nothing was changed." in shown and path.read_bytes() == before
    else:
        assert b"return 2 * x" not in path.read_bytes()


_IN_A_TERMINAL = """
import sys
from autograder.cli import main
sys.exit(main(["reset", "double"]))
"""
