"""``check`` in a notebook, with a namespace in place of the live kernel."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient

import autograder
from autograder import notebook_ui
from autograder.chapter import find_chapters
from autograder.check_bar import NOTHING
from autograder.notebook_ui import CheckResult, check
from autograder.progress import ChapterStanding, Diary

Capture = pytest.CaptureFixture[str]


@pytest.fixture
def kernel(small_course: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], dict[str, Any]]:
    """``kernel(source)``: a kernel in the small chapter's folder that has run this code."""

    def start(source: str) -> dict[str, Any]:
        namespace: dict[str, Any] = {}
        exec(source, namespace)
        monkeypatch.chdir(small_course / "exercises" / "ch07_small")
        monkeypatch.setattr(notebook_ui, "_live_namespace", lambda: namespace)
        return namespace

    return start


Kernel = Callable[[str], dict[str, Any]]
STARTER = "double = half = lambda x: x"
SOLUTION = "double = lambda x: 2 * x\nhalf = lambda x: x / 2"


def checked(task: str) -> CheckResult:
    result = check(task)
    assert result is not None
    return result


def test_the_starter_fails_and_the_solution_passes(kernel: Kernel) -> None:
    kernel(STARTER)
    assert repr(checked("double")) == "0.0"
    kernel(SOLUTION)
    assert repr(checked("double")) == "2.0"
    assert repr(checked("half")) == "1.0"


def test_what_is_defined_now_counts(kernel: Kernel) -> None:
    namespace = kernel(STARTER)
    assert not checked("double").report.passed
    namespace["double"] = lambda x: x + x
    assert checked("double").report.passed


def test_the_namespace_is_left_as_it_was(kernel: Kernel) -> None:
    namespace = kernel(SOLUTION)
    names = set(namespace)
    check("double")
    assert set(namespace) == names


def test_the_representation_is_a_float_as_nbgrader_reads_it(kernel: Kernel) -> None:
    kernel(STARTER)
    for task in ("double", "half"):
        assert repr(float(repr(checked(task)))) == repr(checked(task))


def test_the_table_has_outcome_description_message_and_lesson_escaped(kernel: Kernel) -> None:
    kernel("double = lambda x: '<script>'\nhalf = lambda x: x / 2")
    html = checked("double")._repr_html_()
    assert "<b>✗ failed</b>" in html
    assert "Twice &lt;b&gt;three&lt;/b&gt; is six." in html
    assert "&lt;double&gt; is &#x27;&lt;script&gt;&#x27;; expected 6." in html
    assert "Lesson section to reread: <em>Twice &lt;b&gt;</em>" in html
    assert "<script>" not in html and "<double>" not in html
    assert "<b>✓ passed</b>" in checked("half")._repr_html_()


def test_the_text_says_the_same(kernel: Kernel) -> None:
    kernel(STARTER)
    text = checked("double").text
    assert text.startswith("double: 0 of 2 points\n")
    assert "✗ failed: Twice <b>three</b> is six.\n      <double> is 3; expected 6.\n" in text
    assert "✓ passed: Twice nothing is nothing." in text


def test_a_function_that_raises_is_told_with_the_line(kernel: Kernel) -> None:
    kernel("def double(x):\n    return 1 / 0")
    assert "Your code raised ZeroDivisionError: division by zero" in checked("double").text


def test_a_function_that_is_not_there_is_told(kernel: Kernel) -> None:
    kernel("")
    assert "The notebook does not define `double`" in checked("double").text


@pytest.mark.parametrize("task", ["triple", "", "double "])
def test_an_unknown_task_prints_the_names_and_raises_nothing(kernel: Kernel, capsys: Capture, task: str) -> None:
    kernel(STARTER)
    assert check(task) is None
    assert f"has no task {task!r}. Its tasks: double, half." in capsys.readouterr().out


def test_from_another_folder_of_the_course_the_task_is_found_by_name(
    kernel: Kernel, small_course: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    kernel(SOLUTION)
    monkeypatch.chdir(small_course)
    assert checked("half").report.passed
    assert check("triple") is None
    assert "Open the notebook in its own folder" in capsys.readouterr().out


def test_outside_the_course_it_says_where_to_go(
    kernel: Kernel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    kernel(SOLUTION)
    monkeypatch.chdir(tmp_path)
    assert check("half") is None
    assert "Run this inside the course's folder" in capsys.readouterr().out


def test_nothing_of_pytests_own_output_is_seen(kernel: Kernel, capsys: Capture) -> None:
    kernel("def double(x):\n    print('printed')\n    return 2 * x")
    check("double")
    out, err = capsys.readouterr()
    assert "passed in" not in out + err and "test session" not in out + err


# --- the diary --------------------------------------------------------------------------------------------------------


def standing(course: Path) -> ChapterStanding:
    return Diary(course).standing(find_chapters(course)["ch07_small"])


def test_a_check_is_noted_in_the_diary(kernel: Kernel, small_course: Path) -> None:
    kernel("double = lambda x: 2 * x\nhalf = lambda x: x")
    check("double")
    check("half")
    assert [(task.done, task.checked is not None) for task in standing(small_course).tasks] == [
        (True, True),
        (False, True),
    ]


@pytest.mark.parametrize("how", ["autograde", "validate"])
def test_what_nbgrader_runs_is_not_noted(
    kernel: Kernel, small_course: Path, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    kernel(SOLUTION)
    monkeypatch.setenv("NBGRADER_EXECUTION", how)
    assert checked("double").report.passed
    assert standing(small_course).checked is None


@pytest.mark.parametrize("folder", ["solutions/ch07_small", "submitted/ann/ch07_small", "."])
def test_only_what_is_checked_among_the_exercises_is_noted(
    kernel: Kernel, small_course: Path, monkeypatch: pytest.MonkeyPatch, folder: str
) -> None:
    kernel(SOLUTION)
    (small_course / folder).mkdir(parents=True, exist_ok=True)
    monkeypatch.chdir(small_course / folder)
    assert checked("double").report.passed
    assert standing(small_course).checked is None


def test_the_check_that_completes_a_chapter_shows_what_was_fixed(kernel: Kernel, small_course: Path) -> None:
    namespace = kernel(SOLUTION)
    namespace["In"] = ["", "def double(x):\n    return 2 * x", "half = lambda x: x / 2"]
    first, last, once_more = checked("double"), checked("half"), checked("half")
    assert "What you fixed" not in first._repr_html_() + first.text
    for shown in (last._repr_html_(), last.text):
        assert "Every task of this chapter is done." in shown
        assert "What you fixed" in shown and "+    return 2 * x" in shown
    assert repr(last) == "1.0"
    assert "What you fixed" not in once_more.text, "it was complete before"


# --- in a kernel ------------------------------------------------------------------------------------------------------

_SLOW_TEST = '''

@pytest.mark.task("half")
def test_slow(submission):
    """Half of ten takes a while."""
    import time
    time.sleep(1.5)
    assert_matches(submission.half(10), 5.0)
'''


@pytest.mark.slow
@pytest.mark.parametrize("by_nbgrader", [False, True])
def test_a_long_check_has_a_bar_which_leaves_the_score_alone(
    small_course: Path, small_notebook: Callable[..., Path], monkeypatch: pytest.MonkeyPatch, by_nbgrader: bool
) -> None:
    """In a real kernel without a front end: the bar has come and gone, and what nbgrader reads is as ever."""
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[1]))
    if by_nbgrader:
        monkeypatch.setenv("NBGRADER_EXECUTION", "validate")
    path = small_notebook(half="x / 2")
    tests = path.parent / "test_ch07_small.py"
    tests.write_text(tests.read_text(encoding="utf-8") + _SLOW_TEST, encoding="utf-8")
    notebook = nbformat.read(path, as_version=4)
    notebook.cells.insert(0, nbformat.v4.new_code_cell("from autograder import check"))
    messages: list[dict[str, Any]] = []

    class Client(NotebookClient):
        def process_message(self, msg: Any, cell: Any, cell_index: int) -> Any:
            messages.append(msg)
            return super().process_message(msg, cell, cell_index)

    Client(notebook, kernel_name="python3", resources={"metadata": {"path": str(path.parent)}}, timeout=120).execute()
    outputs = notebook.cells[-1].outputs
    assert not [output for output in outputs if output.output_type in ("stream", "error")]
    (result,) = [output for output in outputs if output.output_type == "execute_result"]
    assert result["data"]["text/plain"] == "1.0"
    shown = [output["data"] for output in outputs if output.output_type == "display_data"]
    told = " ".join(str(message["content"]) for message in messages)
    if by_nbgrader:
        assert shown == [] and "Checking half" not in told
    else:
        assert shown == [NOTHING], "it is gone"
        assert "Checking half: 1 of 2 tests are through. Now: Half of ten takes a while." in told


# --- in the kernel of nbgrader's Validate, which shows stderr alone ---------------------------------------------------


@pytest.fixture
def validating(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NBGRADER_EXECUTION", "validate")


def _words(text: str) -> str:
    return " ".join(text.split())


def test_validate_is_told_what_is_wrong(kernel: Kernel, capsys: Capture, validating: None) -> None:
    kernel("def double(x):\n    print('printed')\n    return x")
    result = checked("double")
    out, err = capsys.readouterr()
    assert out == ""
    assert _words(err) == _words(result.text)
    assert "✗ failed: Twice <b>three</b> is six." in err and "printed" in err


def test_validate_is_told_nothing_of_what_is_right(kernel: Kernel, capsys: Capture, validating: None) -> None:
    kernel(SOLUTION)
    assert checked("double").report.passed
    assert capsys.readouterr() == ("", "")


def test_validate_is_told_that_a_check_could_not_be_run(kernel: Kernel, capsys: Capture, validating: None) -> None:
    """Without a word on stderr, nbgrader would count the cell as right."""
    kernel(SOLUTION)
    assert check("triple") is None
    assert "has no task 'triple'" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("stream", "words"), [("out", "run it again when the function is changed"), ("err", "Validate gives each cell")]
)
def test_an_interrupted_check_says_so(
    kernel: Kernel, capsys: Capture, monkeypatch: pytest.MonkeyPatch, stream: str, words: str
) -> None:
    def interrupted(*_: Any) -> None:
        raise KeyboardInterrupt

    kernel(SOLUTION)
    monkeypatch.setattr(notebook_ui, "check_live", interrupted)
    if stream == "err":
        monkeypatch.setenv("NBGRADER_EXECUTION", "validate")
    assert check("double") is None
    captured = capsys.readouterr()
    assert words in _words(getattr(captured, stream))
    assert captured.out == "" or captured.err == ""


def test_lines_are_short_enough_for_nbgraders_command(kernel: Kernel, capsys: Capture, validating: None) -> None:
    """It cuts those that are longer."""
    kernel(f"def double(x):\n    raise ValueError({'a word or two and ' * 20!r})")
    checked("double")
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) > 5
    assert max(map(len, lines)) <= 80


def test_check_is_what_the_package_offers() -> None:
    assert autograder.check is check
    with pytest.raises(AttributeError):
        _ = autograder.cheque
