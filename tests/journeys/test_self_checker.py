"""A self-checker's journey: a clean copy of the repository and ``pytest exercises``."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import nbformat
import pytest

from autograder.chapter import Chapter, find_chapters

pytestmark = pytest.mark.slow
ROOT = Path(__file__).resolve().parents[2]
CHAPTER = "ch01_tensor_views"
CHAPTERS = {CHAPTER: find_chapters(ROOT)[CHAPTER]}
"""One will do: the others are seen, untouched and solved, when they are proved, and two at once in a release."""


def _solve(course: Path, chapter: str, *grade_ids: str) -> None:
    notebook = course / "exercises" / chapter / f"{chapter}.ipynb"
    fixes = {cell.grade_id: cell.source for cell in CHAPTERS[chapter].solution if cell.is_solution}
    nb = nbformat.read(notebook, as_version=4)
    for cell in nb.cells:
        grade_id = cell.metadata.get("nbgrader", {}).get("grade_id")
        if grade_id in fixes and (not grade_ids or grade_id in grade_ids):
            cell.source = fixes[grade_id]
    nbformat.write(nb, notebook)


def test_from_untouched_to_solved(learners_copy: Path, command) -> None:
    """The tests fail with what is wrong, task by task; after one fix one task is done; after all, all pass."""
    shutil.copyfile(ROOT / "pyproject.toml", learners_copy / "pyproject.toml")
    for folder in (learners_copy / "exercises").glob("ch*"):
        if folder.name not in CHAPTERS:
            shutil.rmtree(folder)

    untouched = command("pytest", "exercises")
    assert untouched.returncode == 1, untouched.stdout + untouched.stderr
    for name, chapter in CHAPTERS.items():
        assert f"{name}: points by task" in untouched.stdout
        assert f"0.00 of {_points(chapter):g} points" in untouched.stdout
    assert not re.search(r"^done ", untouched.stdout, re.MULTILINE)
    assert "Your code raised RuntimeError: view size is not compatible" in untouched.stdout
    assert "Traceback" not in untouched.stdout + untouched.stderr

    _solve(learners_copy, CHAPTER, "take_clip-code")
    one = command("pytest", f"exercises/{CHAPTER}")
    assert one.returncode == 1
    assert "done  take_clip" in one.stdout and "open  to_patches" in one.stdout
    assert "2.00 of 20 points" in one.stdout
    progress = command("autograder", "progress", "ch01")
    assert progress.stdout.startswith(f"{CHAPTER}: 1 of 8 tasks done, 2 of 20 points\n"), progress.stderr
    assert "Next: title_clip, in exercises/" in progress.stdout

    for name in CHAPTERS:
        _solve(learners_copy, name)
    solved = command("pytest", "exercises")
    assert solved.returncode == 0, solved.stdout
    for chapter in CHAPTERS.values():
        assert f"{_points(chapter):.2f} of {_points(chapter):g} points" in solved.stdout
    assert command("autograder", "progress").stdout.endswith("Everything here is done.\n")


def _points(chapter: Chapter) -> float:
    return sum(task.points for task in chapter.tasks)


@pytest.mark.thorough
def test_the_command_grades_a_learners_copy_by_its_visible_tests(learners_copy: Path, command) -> None:
    """``autograder grade`` works without the hidden tests, and says that it did without."""
    notebook = learners_copy / "exercises" / CHAPTER / f"{CHAPTER}.ipynb"
    _solve(learners_copy, CHAPTER)
    done = command("autograder", "grade", str(notebook), "--json")
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert report["score"] == report["max_score"] == 20
    assert any("visible tests alone" in note for note in report["notes"])
    assert report["hardware"]["isolation"] in ("bubblewrap", "sandlock")
