"""A learner's journey: the handed-out notebook in a real kernel, first as it is, then repaired cell by cell."""

from __future__ import annotations

from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

from autograder.chapter import find_chapters
from autograder.progress import Diary
from autograder.report import TaskReport

pytestmark = pytest.mark.slow
ROOT = Path(__file__).resolve().parents[2]
CHAPTER = "ch01_tensor_views"


def _run(notebook: nbformat.NotebookNode, folder: Path) -> nbformat.NotebookNode:
    """Execute every cell in a new kernel; a cell that raises ends the test with its traceback."""
    client = NotebookClient(notebook, kernel_name="python3", resources={"metadata": {"path": str(folder)}}, timeout=120)
    return client.execute()


def _checks(notebook: nbformat.NotebookNode) -> dict[str, dict[str, str]]:
    """What each check cell shows: task -> outputs by MIME type."""
    found = {}
    for cell in notebook.cells:
        if cell.metadata.get("nbgrader", {}).get("grade"):
            (result,) = [output for output in cell.outputs if output.output_type == "execute_result"]
            found[cell.metadata.nbgrader.grade_id] = result["data"]
    return found


def test_checks_fail_on_the_starter_and_pass_after_the_fixes(learners_copy: Path) -> None:
    """Untouched, every check is at 0 points and the notebook runs to its end; repaired, every check is full."""
    folder = learners_copy / "exercises" / CHAPTER
    chapter = find_chapters(ROOT)[CHAPTER]
    points = {task.name: task.points for task in chapter.tasks}
    notebook = nbformat.read(folder / f"{CHAPTER}.ipynb", as_version=4)

    before = _checks(_run(notebook, folder))
    assert {task: float(shown["text/plain"]) for task, shown in before.items()} == dict.fromkeys(points, 0.0)
    assert all("failed" in shown["text/html"] and "Lesson section" in shown["text/html"] for shown in before.values())

    fixes = {cell.grade_id: cell.source for cell in chapter.solution if cell.is_solution}
    for cell in notebook.cells:
        cell.source = fixes.get(cell.metadata.get("nbgrader", {}).get("grade_id"), cell.source)
    after = _checks(_run(notebook, folder))
    assert {task: float(shown["text/plain"]) for task, shown in after.items()} == points
    assert not any("failed" in shown["text/html"] for shown in after.values())

    *others, last = after.values()
    assert "What you fixed" in last["text/html"], "the check that completes the chapter"
    assert not any("What you fixed" in shown["text/html"] for shown in others)
    assert Diary(learners_copy).standing(find_chapters(learners_copy)[CHAPTER]).complete


def test_the_first_notebook_tests_the_machine_and_shows_how_far_one_is(learners_copy: Path) -> None:
    """Without a front end as well: nothing is written to stderr, and the board knows of a check made elsewhere."""
    here = find_chapters(learners_copy)[CHAPTER]
    task = here.tasks[0]
    Diary(learners_copy).note(here, [TaskReport(task.name, task.points, task.points)])
    notebook = nbformat.read(learners_copy / "course" / "00_start_here.ipynb", as_version=4)
    outputs = [o for cell in _run(notebook, learners_copy / "course").cells for o in cell.get("outputs", ())]
    tested, board = (output["data"]["text/plain"] for output in outputs)
    assert "✓ A training step" in tested and "✓ Two ranks" in tested and "You can begin." in tested
    assert "1 of " in board and f"Next: {here.tasks[1].name}, in chapter 1, tensor views." in board


def test_one_fix_in_a_running_kernel_changes_its_own_check_only(learners_copy: Path) -> None:
    """A learner repairs one function in the living kernel and checks again: that task is done, another still open."""
    folder = learners_copy / "exercises" / CHAPTER
    chapter = find_chapters(ROOT)[CHAPTER]
    notebook = nbformat.read(folder / f"{CHAPTER}.ipynb", as_version=4)
    fix = next(cell.source for cell in chapter.solution if cell.grade_id == "frame_loss-code")
    code = nbformat.v4.new_code_cell
    notebook.cells += [
        code(fix),
        code('check("frame_loss")'),
        code('check("take_clip")'),
        code('check("no_such_task")'),
    ]
    ran = _run(notebook, folder).cells[-4:]
    assert float(ran[1].outputs[0]["data"]["text/plain"]) == chapter.task("frame_loss").points
    assert float(ran[2].outputs[0]["data"]["text/plain"]) == 0.0
    assert "has no task 'no_such_task'" in ran[3].outputs[0]["text"]
