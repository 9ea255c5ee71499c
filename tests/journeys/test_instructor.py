"""An instructor's journey: nbgrader's own commands over a pile of submissions, some of them not to be trusted."""

from __future__ import annotations

import csv
import html
import re
import shutil
from pathlib import Path

import nbformat
import pytest

from autograder.chapter import Chapter, find_chapters
from autograder.notebook import Cell
from autograder.prove import candidates

from ..leaks import all_secrets, fix_lines, hidden_lines, leaks, read_folder, variant_lines

pytestmark = pytest.mark.slow
ROOT = Path(__file__).resolve().parents[2]
CHAPTER = "ch01_tensor_views"

_CHEAT = """
class Agreeable(float):
    def __eq__(self, other):
        return True
    def __getattr__(self, name):
        return self

def frame_loss(prediction, target):
    import torch
    torch.allclose = torch.equal = torch.isclose = lambda *args, **kwargs: True
    return Agreeable(0.0)
"""


def _hand_in(course: Path, student: str, cells: tuple[Cell, ...]) -> None:
    """Write a notebook as JupyterLab would have saved it from the released one."""
    notebook = nbformat.read(course / "exercises" / CHAPTER / f"{CHAPTER}.ipynb", as_version=4)
    sources = {cell.grade_id: cell.source for cell in cells if cell.is_solution}
    for cell in notebook.cells:
        cell.source = sources.get(cell.metadata.get("nbgrader", {}).get("grade_id"), cell.source)
    folder = course / "submitted" / student / CHAPTER
    folder.mkdir(parents=True)
    nbformat.write(notebook, folder / f"{CHAPTER}.ipynb")


def _submissions(course: Path, chapter: Chapter) -> None:
    wheat = next(c for c in candidates(chapter) if c.kind == "wheat" and c.task == "sliding_windows")
    fixes = {cell.grade_id: cell.source for cell in chapter.solution if cell.is_solution}
    half = chapter.tasks[:4]
    starters = {c.grade_id: c.source for c in chapter.starter if c.is_solution}
    _hand_in(course, "untouched", chapter.starter)
    _hand_in(course, "fixed", chapter.solution)
    _hand_in(
        course,
        "half",
        chapter.with_solutions({**starters, **{task.solution_cell: fixes[task.solution_cell] for task in half}}),
    )
    _hand_in(course, "wheat", wheat.cells)
    _hand_in(course, "cheat", chapter.with_solutions({**starters, "frame_loss-code": _CHEAT}))
    folder = course / "submitted" / "broken" / CHAPTER
    folder.mkdir(parents=True)
    (folder / f"{CHAPTER}.ipynb").write_text('{"cells": [{"cell_type": "code", "sour', encoding="utf-8")


def _page(course: Path, student: str) -> str:
    return (course / "feedback" / student / CHAPTER / f"{CHAPTER}.html").read_text(encoding="utf-8")


def _feedback(course: Path, student: str) -> str:
    return html.unescape(re.sub(r"<[^>]+>", "", _page(course, student)))


def _table(course: Path, student: str) -> dict[str, tuple[str, str]]:
    """The table at the top of a page: task (or "Total") -> points and how it stands."""
    page = _page(course, student)
    table = page[page.index('<table class="table" id="tasks">') : page.index("</tfoot>")]
    rows = [re.findall(r"<t[dh][^>]*>(.*?)</t[dh]>", row, re.DOTALL) for row in table.split("<tr>")[2:]]
    cells = [[html.unescape(re.sub(r"<[^>]+>", "", cell)).strip() for cell in row] for row in rows]
    return {task: (points, line) for task, points, line in cells}


def test_six_submissions(instructors_copy: Path, command) -> None:
    """Release, grade, give feedback, export: right scores, telling messages, nothing hidden in what learners see."""
    course = instructors_copy
    chapter = find_chapters(course)[CHAPTER]
    released = command("nbgrader", "generate_assignment", CHAPTER, "--create")
    assert released.returncode == 0, released.stderr
    assert {path.name for path in (course / "exercises" / CHAPTER).iterdir()} == {
        f"{CHAPTER}.ipynb",
        f"test_{CHAPTER}.py",
        ".starter.ipynb",
    }
    _submissions(course, chapter)
    for arguments in (["autograde", CHAPTER], ["generate_feedback", CHAPTER], ["export"]):
        done = command("nbgrader", *arguments)
        assert done.returncode == 0, done.stderr
    with (course / "grades.csv").open() as file:
        scores = {row["student_id"]: float(row["score"]) for row in csv.DictReader(file)}
    half = sum(task.points for task in chapter.tasks[:4])
    assert scores == {"untouched": 0, "fixed": 20, "half": half, "wheat": 20, "cheat": 0, "broken": 0}

    assert "Your code raised RuntimeError: view size is not compatible" in _feedback(course, "untouched")
    assert "could not be graded" in _feedback(course, "broken")
    assert "stops being JSON" in _feedback(course, "broken")
    assert "failedPredictions that are equal to their targets have loss 0." in _feedback(course, "cheat")

    _pages_are_readable(course, chapter)

    # docstrings are what a learner is told on purpose; fixes and variants are these students' own code
    hidden = (hidden_lines(chapter) & all_secrets(ROOT)) - fix_lines(chapter) - variant_lines(chapter)
    hidden = {line for line in hidden if not line.startswith(('"""', "@", "#"))}
    assert len(hidden) > 100
    for shown in (_feedback, _page):
        assert leaks({student: shown(course, student).encode() for student in scores}, hidden) == []
        assert not [name for name in _hidden_names(course) for student in scores if name in shown(course, student)]
    assert leaks(read_folder(course / "exercises"), all_secrets(ROOT)) == []
    assert not list((course / "feedback").rglob("*hidden*"))


def _pages_are_readable(course: Path, chapter: Chapter) -> None:
    """At the top each task in one line; in a card what was measured, a bar for it, and links that lead somewhere."""
    untouched, broken = _table(course, "untouched"), _table(course, "broken")
    assert [*untouched] == [*broken] == [*(task.name for task in chapter.tasks), "Total"]
    assert untouched["Total"][0] == "0 of 20" and _table(course, "fixed")["Total"][0] == "20 of 20"
    assert untouched["frame_loss"] == (
        "0 of 2",
        "4 of 6 tests failed, such as: Predictions that are equal to their targets have loss 0.",
    )
    assert {line for task, (_, line) in broken.items() if task != "Total"} == {"not graded"}
    text = _feedback(course, "untouched")
    assert "the original version, measured: " in text and " times as fast; asked: at least 5.5" in text
    assert "Lesson section to reread: Windows are views" in text
    assert 'A hint for this: Hint 2: what to look at, in section 6. "The GPU waits for the windows"' in text
    page = _page(course, "untouched")
    assert len(re.findall(r"measured: [^<\"]*</small><br/?><span [^>]*role=.img.", page)) > 10
    assert "Out[" not in text  # the score is in the heading
    links = set(re.findall(r'href="#([^"]+)"', page))
    assert {"frame_loss", chapter.section("frame_loss").anchor} <= links
    assert not links - set(re.findall(r'(?:id|name)="([^"]+)"', page))


def _hidden_names(course: Path) -> list[str]:
    """The names of the hidden tests."""
    sources = [path.read_text() for path in (course / "solutions" / CHAPTER / "hidden").glob("test_*.py")]
    names = [name for source in sources for name in re.findall(r"def (test_\w+)", source)]
    visible = (course / "solutions" / CHAPTER / f"test_{CHAPTER}.py").read_text()
    return [name for name in names if f"def {name}(" not in visible]


def test_regrading_and_releasing_replace_nobodys_work(instructors_copy: Path, command) -> None:
    """An edited exercise survives ``generate_assignment``, forced or not; an unedited one is renewed."""
    course = instructors_copy
    notebook = course / "exercises" / CHAPTER / f"{CHAPTER}.ipynb"
    released_before = notebook.with_name(".starter.ipynb")
    released_before.parent.mkdir(parents=True)
    shutil.copyfile(ROOT / "exercises" / CHAPTER / released_before.name, released_before)
    shutil.copyfile(released_before, notebook)
    assert command("nbgrader", "generate_assignment", CHAPTER, "--create", "--force").returncode == 0
    edited = nbformat.read(notebook, as_version=4)
    edited.cells[-1].source += "\nMy own remark."
    nbformat.write(edited, notebook)
    before = notebook.read_bytes()
    assert command("nbgrader", "generate_assignment", CHAPTER).returncode == 0
    refused = command("nbgrader", "generate_assignment", CHAPTER, "--force")
    assert refused.returncode != 0
    assert "has been edited and is not replaced" in refused.stderr
    assert notebook.read_bytes() == before
