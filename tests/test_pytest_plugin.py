"""``pytest exercises`` and ``pytest solutions --submission PATH``; in `journeys` they are typed as people type them."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from autograder.chapter import find_chapters
from autograder.progress import FOLDER, Diary

from . import warm_pytest

pytestmark = pytest.mark.slow  # each starts a pytest of its own, and that a process which imports torch

Notebook = Callable[..., Path]


def run_pytest(course: Path, *arguments: str, cache: bool = False) -> tuple[int, str]:
    """Exit status and everything printed; with or without pytest's own *cache*."""
    environment = {**os.environ, "COLUMNS": "120", "PYTEST_ADDOPTS": "", "XDG_CACHE_HOME": str(course.parent / "cache")}
    printed = course.parent / "printed.txt"
    status = warm_pytest.run(
        course, arguments if cache else ("-p", "no:cacheprovider", *arguments), environment, printed
    )
    return status, printed.read_text()


def test_the_summary_has_points_by_task_and_what_tests_say(small_course: Path, small_notebook: Notebook) -> None:
    small_notebook(double="2 * x")
    status, out = run_pytest(small_course, "exercises")
    assert status == pytest.ExitCode.TESTS_FAILED
    summary = out.partition("ch07_small: points by task")[2]
    assert "done  double                    2.00 of 2" in summary
    assert "open  half                      0.00 of 1" in summary
    assert "failed: Half of four is two." in summary
    assert "The result differs from what was expected: got 4, expected 2" in summary
    assert "2.00 of 3 points" in summary
    assert "Traceback" not in out and "assert_matches(" not in out


def test_a_solved_exercise_passes(small_course: Path, small_notebook: Notebook) -> None:
    small_notebook(double="2 * x", half="x / 2")
    status, out = run_pytest(small_course, "exercises")
    assert status == pytest.ExitCode.OK
    assert "3.00 of 3 points" in out and "open  " not in out


def test_chosen_tests_are_summed_up_alone(small_course: Path, small_notebook: Notebook) -> None:
    small_notebook(half="x / 2")
    status, out = run_pytest(small_course, "exercises", "-k", "halves")
    assert status == pytest.ExitCode.OK
    assert "1.00 of 1 points" in out
    assert "double" not in out.partition("points by task")[2]


def test_a_task_can_be_chosen_by_its_name(small_course: Path, small_notebook: Notebook) -> None:
    small_notebook(double="2 * x")
    status, out = run_pytest(small_course, "exercises", "-k", "double")
    assert status == pytest.ExitCode.OK
    assert re.search(r"done +double +2\.00 of 2", out) and "2.00 of 2 points" in out


def test_some_of_a_tasks_tests_give_no_points(small_course: Path, small_notebook: Notebook) -> None:
    """Nor do they say that the task is done, or that this machine could not run it."""
    small_notebook()
    for name, passed in (("test_zero", 1), ("test_doubles", 0)):
        _, out = run_pytest(small_course, "exercises", "-k", name)
        summary = out.partition("points by task")[2]
        assert re.search(rf"part +double +{passed} of 1 chosen tests passed; points need all of them", summary)
        assert "done" not in summary and "of 2" not in summary and "this machine" not in summary


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("", "ch07_small.ipynb is empty. Save the notebook"),
        ('{"cells": [', "is not a complete notebook"),
        ('{"cells": [], "nbformat": 4}', "holds none of this chapter's tasks"),
        (None, "there is no such file"),
    ],
)
def test_a_broken_exercise_notebook_gives_a_clear_message_and_no_traceback(
    small_course: Path, small_notebook: Notebook, content: str | None, says: str
) -> None:
    path = small_notebook()
    path.unlink()
    if content is not None:
        path.write_text(content)
    status, out = run_pytest(small_course, "exercises")
    assert status == pytest.ExitCode.TESTS_FAILED
    assert says in out.partition("== ch07_small ==")[2]
    assert "Traceback" not in out and "INTERNALERROR" not in out and not re.search(r"\.py:\d", out)


def test_a_cell_that_does_not_parse_costs_its_own_task(small_course: Path, small_notebook: Notebook) -> None:
    small_notebook(double="2 *", half="x / 2")
    status, out = run_pytest(small_course, "exercises")
    assert status == pytest.ExitCode.TESTS_FAILED
    assert "open  double" in out and "done  half" in out
    assert "double does not parse (line 2: invalid syntax)" in out


def test_another_notebook_can_be_named(small_course: Path, small_notebook: Notebook, tmp_path: Path) -> None:
    """The notebook beside the tests is untouched; the one named is what is tested, whatever it is called."""
    submitted = tmp_path / "ch07_small (1).ipynb"
    shutil.move(small_notebook(double="2 * x", half="x / 2"), submitted)
    small_notebook()
    status, out = run_pytest(small_course, "exercises", "--submission", str(submitted), "--isolation", "none")
    assert status == pytest.ExitCode.OK
    assert "3.00 of 3 points" in out


def test_a_submission_that_is_not_there_gives_a_clear_message(small_course: Path) -> None:
    status, out = run_pytest(small_course, "exercises", "--submission", "nowhere.ipynb", "--isolation", "none")
    assert status == pytest.ExitCode.TESTS_FAILED
    assert "nowhere.ipynb: there is no such file" in out
    assert "Traceback" not in out and "INTERNALERROR" not in out


def test_a_device_that_is_not_there_is_wrong_usage(small_course: Path) -> None:
    status, out = run_pytest(small_course, "exercises", "--device", "nonsense")
    assert status != pytest.ExitCode.OK
    assert "--device nonsense" in out
    assert "INTERNALERROR" not in out


def test_tests_of_other_projects_are_left_alone(tmp_path: Path) -> None:
    (tmp_path / "test_other.py").write_text("def test_it(tmp_path):\n    assert 1 + 1 == 3\n")
    status, out = run_pytest(tmp_path, "test_other.py")
    assert status == pytest.ExitCode.TESTS_FAILED
    assert "assert (1 + 1) == 3" in out
    assert "points" not in out


def test_solutions_pass_their_own_tests_when_submitted(project: Path, tmp_path: Path, chapter: Any) -> None:
    """``pytest solutions --submission PATH``, for a few quick tests, the hidden ones among them."""
    course = tmp_path / "course"
    shutil.copytree(project / "solutions", course / "solutions")
    notebook = course / "solutions" / chapter.name / f"{chapter.name}.ipynb"
    submitted = shutil.copy(notebook, tmp_path / "handed-in.ipynb")
    arguments = ["--submission", str(submitted), "--isolation", "none", "-k", "loss_value or perfect_prediction"]
    # what is handed in here still has both sides of each region; the fix is the one that runs
    status, out = run_pytest(course, "solutions", *arguments)
    assert status == pytest.ExitCode.OK
    assert "part  frame_loss" in out  # two of its tests were chosen


# --- what is noted in the learner's diary -----------------------------------------------------------------------------


def noted(course: Path) -> dict[str, float]:
    """The points of each task of the small chapter that has been noted."""
    standing = Diary(course).standing(find_chapters(course)["ch07_small"])
    return {task.task: task.score for task in standing.tasks if task.checked is not None}


@pytest.mark.parametrize(
    ("arguments", "tasks"),
    [
        (["exercises"], {"double": 4 / 3, "half": 1.0}),
        (["exercises/ch07_small/test_ch07_small.py", "--tb=short"], {"double": 4 / 3, "half": 1.0}),
        (["exercises", "-k", "doubles or halves"], {"half": 1.0}),
        (["exercises", "-m", "lesson"], {}),
        (["exercises", "--deselect", "exercises/ch07_small/test_ch07_small.py::test_halves"], {"double": 4 / 3}),
        (["exercises", "-x"], {}),
        (["exercises/ch07_small/test_ch07_small.py::test_halves"], {}),
        (["exercises", "--collect-only"], {}),
        (["exercises", "--submission", "exercises/ch07_small/ch07_small.ipynb", "--isolation", "none"], {}),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_a_task_is_noted_when_all_of_its_tests_have_run(
    small_course: Path, small_notebook: Notebook, arguments: list[str], tasks: dict[str, float]
) -> None:
    """One case of a test of ``double`` fails, so that one earning test of three gives no points, and -x ends there."""
    tests = small_course / "exercises" / "ch07_small" / "test_ch07_small.py"
    tests.write_text(tests.read_text() + _A_CASE_THAT_FAILS)
    small_notebook(double="2 * x if x != 5 else 0", half="x / 2")
    run_pytest(small_course, *arguments)
    assert noted(small_course) == pytest.approx(tasks, abs=1e-4)


_A_CASE_THAT_FAILS = '''

@pytest.mark.task("double")
@pytest.mark.parametrize("x", [5, 4])
def test_cases(submission, x):
    """Twice that."""
    assert_matches(submission.double(x), 2 * x)
'''


def test_what_failed_before_is_no_whole_task(small_course: Path, small_notebook: Notebook) -> None:
    """With ``--lf`` pytest does not even collect the other tests of a file."""
    small_notebook(double="2 * x if x else 1")
    (small_course / "pytest.ini").write_text("[pytest]\n")
    run_pytest(small_course, "exercises", cache=True)
    assert set(noted(small_course)) == {"double", "half"}
    shutil.rmtree(small_course / FOLDER)
    small_notebook(double="2 * x", half="x / 2")
    _, again = run_pytest(small_course, "exercises", "--lf", cache=True)
    assert "part  double" in again
    assert noted(small_course) == {}


def test_tests_of_another_file_belong_to_a_task_as_well(small_course: Path, small_notebook: Notebook) -> None:
    """One file's tests alone are not all of a task's."""
    folder = small_course / "exercises" / "ch07_small"
    (folder / "test_ch07_more.py").write_text(
        'import pytest\n\n\n@pytest.mark.task("half")\ndef test_more(submission):\n'
        '    """Half of ten is five."""\n    assert submission.half(10) == 5\n'
    )
    small_notebook(double="2 * x", half="x / 2")
    run_pytest(small_course, "exercises/ch07_small/test_ch07_small.py")
    assert noted(small_course) == {"double": 2.0}
    run_pytest(small_course, "exercises")
    assert noted(small_course) == {"double": 2.0, "half": 1.0}


def test_a_fault_of_ours_is_not_noted(small_course: Path, small_notebook: Notebook) -> None:
    tests = small_course / "exercises" / "ch07_small" / "test_ch07_small.py"
    fault = '\n\n@pytest.mark.task("half")\ndef test_ours(nothing_of_that_name):\n    """A fault."""\n'
    tests.write_text(tests.read_text() + fault)
    small_notebook(double="2 * x", half="x / 2")
    run_pytest(small_course, "exercises")
    assert noted(small_course) == {"double": 2.0}


def test_the_authors_own_runs_are_not_noted(small_course: Path, small_notebook: Notebook) -> None:
    small_notebook(double="2 * x", half="x / 2")
    shutil.move(small_course / "exercises", small_course / "solutions")
    status, out = run_pytest(small_course, "solutions")
    assert status == pytest.ExitCode.OK and "ch07_small: points by task" in out
    assert not (small_course / FOLDER).exists()
