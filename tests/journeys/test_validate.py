"""nbgrader's Validate, as learners have it: in a copy without any configuration of nbgrader."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Collection
from pathlib import Path

import nbformat
import pytest
from nbgrader.validator import Validator

from autograder.chapter import find_chapters

pytestmark = pytest.mark.slow
ROOT = Path(__file__).resolve().parents[2]
CHAPTER = find_chapters(ROOT)["ch01_tensor_views"]
TASKS = [task.name for task in CHAPTER.tasks]
Repair = Callable[[Collection[str]], Path]
Command = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def repaired(learners_copy: Path) -> Repair:
    """``repaired(tasks)``: the learner's notebook with the fixes of these tasks."""

    def write(tasks: Collection[str]) -> Path:
        path = learners_copy / "exercises" / CHAPTER.name / f"{CHAPTER.name}.ipynb"
        notebook = nbformat.read(path, as_version=4)
        fixes = {cell.grade_id: cell.source for cell in CHAPTER.solution if cell.is_solution}
        wanted = {task.solution_cell for task in CHAPTER.tasks if task.name in tasks}
        for cell in notebook.cells:
            grade_id = cell.metadata.get("nbgrader", {}).get("grade_id")
            if grade_id in wanted:
                cell.source = fixes[grade_id]
        nbformat.write(notebook, path)
        return path

    return write


def _open_tasks(path: Path) -> dict[str, str]:
    """What the button's dialog lists: source of the cell -> the text below it."""
    found = Validator().validate(str(path))
    assert set(found) <= {"failed"}
    return {cell["source"]: cell["raw_error"] for cell in found.get("failed", [])}


def test_what_is_not_repaired_is_listed_with_what_was_found(repaired: Repair) -> None:
    listed = _open_tasks(repaired(TASKS[::2]))
    assert list(listed) == [f'check("{task}")' for task in TASKS[1::2]]
    for task, text in zip(TASKS[1::2], listed.values(), strict=True):
        assert text.startswith(f"{task}: 0 of "), text
        assert "✗ failed: " in text
        assert "Lesson section to reread: " in text
        assert "A hint for this: Hint " in text
        assert "Traceback" not in text and "Partial credit" not in text


def test_the_command_says_success_of_a_notebook_without_faults(repaired: Repair, command: Command) -> None:
    done = command("nbgrader", "validate", str(repaired(TASKS)))
    assert done.returncode == 0, done.stderr
    assert done.stdout == "Success! Your notebook passes all the tests.\n"


@pytest.mark.thorough
def test_the_command_shows_whole_lines(repaired: Repair, command: Command) -> None:
    """It cuts what is too long for it, and a learner would miss the end of each sentence."""
    done = command("nbgrader", "validate", str(repaired(TASKS[1:])))
    assert f'check("{TASKS[0]}")' in done.stdout
    assert "Lesson section to reread: " in done.stdout
    assert not [line for line in done.stdout.splitlines() if line.endswith("...")]
