"""Finding chapters on disk, and what their notebooks are."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from autograder.chapter import STARTER_NAME, WARM_KEY, Chapter, Task, chapter_of, find_chapters, find_root, is_edited
from autograder.errors import ChapterError, SubmissionRefused
from autograder.notebook import Cell, RawNotebook, read

Writer = Callable[[Path, Any], Path]
NAME = "ch07_small"
FIX = "def f():\n    ### BEGIN SOLUTION V1\n    return 1\n    ### BUG\n    # return 0\n    ### END SOLUTION"
CELLS = [
    Cell("markdown", "# Small"),
    Cell("code", FIX, nbgrader={"grade_id": "f-code", "solution": True, "grade": False}),
    Cell("code", "check('f')", nbgrader={"grade_id": "f", "solution": False, "grade": True, "points": 2}),
]
STARTER = [CELLS[0], Cell("code", "def f():\n    return 0", nbgrader=CELLS[1].nbgrader), CELLS[2]]


@pytest.fixture
def authored(tmp_path: Path, notebook_file: Writer) -> Path:
    folder = tmp_path / "solutions" / NAME
    (folder / "hidden").mkdir(parents=True)
    notebook_file(folder / f"{NAME}.ipynb", CELLS)
    (folder / f"test_{NAME}.py").touch()
    (folder / "hidden" / f"test_{NAME}_hidden.py").touch()
    return tmp_path


@pytest.fixture
def released(tmp_path: Path, notebook_file: Writer) -> Path:
    folder = tmp_path / "exercises" / NAME
    folder.mkdir(parents=True)
    notebook_file(folder / f"{NAME}.ipynb", STARTER)
    notebook_file(folder / STARTER_NAME, STARTER)
    (folder / f"test_{NAME}.py").touch()
    return tmp_path


def test_an_authored_chapter(authored: Path) -> None:
    chapter = find_chapters(authored)[NAME]
    assert chapter.folder == authored / "solutions" / NAME
    assert [path.name for path in chapter.visible_tests] == [f"test_{NAME}.py"]
    assert [path.name for path in chapter.hidden_tests] == [f"test_{NAME}_hidden.py"]
    assert chapter.tasks == (Task("f", 2, "f-code"),)
    assert [cell.source for cell in chapter.starter] == [cell.source for cell in STARTER]
    assert chapter.solution[1].source == "def f():\n    return 1"
    (mutant,) = chapter.mutants()
    assert (mutant.task, mutant.region.pitfall, mutant.cells[1].source) == ("f", "V1", STARTER[1].source)
    assert chapter.with_solutions({"f-code": "f = 3"})[1].source == "f = 3"


def test_a_learners_copy(released: Path) -> None:
    chapter = find_chapters(released)[NAME]
    assert chapter.source is None
    assert chapter.folder == released / "exercises" / NAME
    assert chapter.hidden_tests == []
    assert chapter.tasks == (Task("f", 2, "f-code"),)
    assert chapter.starter_program.defines("f")
    with pytest.raises(ChapterError, match="not part of a learner's copy"):
        _ = chapter.solution


def test_a_copy_with_both_sides(authored: Path, released: Path) -> None:
    chapter = find_chapters(authored)[NAME]
    assert chapter.source is not None and chapter.exercise is not None


def test_a_learners_edits_are_not_taken_for_the_starter(released: Path, notebook_file: Writer) -> None:
    notebook_file(released / "exercises" / NAME / f"{NAME}.ipynb", [Cell("code", "everything deleted")])
    assert find_chapters(released)[NAME].tasks == (Task("f", 2, "f-code"),)


def test_folders_that_are_no_chapters_are_passed_over(released: Path) -> None:
    (released / "exercises" / "ch08_empty").mkdir()
    (released / "exercises" / "notes").mkdir()
    (released / "exercises" / "ch09_a_file").touch()
    assert list(find_chapters(released)) == [NAME]
    assert find_chapters(released / "nowhere") == {}


def test_an_unknown_task_is_answered_with_the_names_there_are(released: Path) -> None:
    with pytest.raises(ChapterError, match=r"no task 'g'. Its tasks: f."):
        find_chapters(released)[NAME].task("g")


def test_a_damaged_file_of_the_course_itself_says_how_to_mend_it(released: Path) -> None:
    (released / "exercises" / NAME / STARTER_NAME).write_text("{")
    with pytest.raises(ChapterError, match="make build"):
        _ = find_chapters(released)[NAME].tasks


def test_the_root_is_found_from_inside(released: Path) -> None:
    assert find_root(released) == released.resolve()
    assert find_root(released / "exercises" / NAME) == released.resolve()


def test_outside_the_course_there_is_no_root(tmp_path: Path) -> None:
    with pytest.raises(ChapterError, match="Run this inside the course's folder"):
        find_root(tmp_path)


# --- edited or not ----------------------------------------------------------------------------------------------------


def test_a_fresh_exercise_is_not_edited_and_one_without_a_notebook_neither(released: Path) -> None:
    folder = released / "exercises" / NAME
    assert not is_edited(folder)
    (folder / f"{NAME}.ipynb").unlink()
    assert not is_edited(folder)


def test_running_and_saving_is_no_edit(released: Path) -> None:
    """Outputs, execution counts and metadata come from running; nobody's work is lost with them."""
    path = released / "exercises" / NAME / f"{NAME}.ipynb"
    content = json.loads(path.read_text())
    content["cells"][2]["outputs"] = [{"output_type": "stream", "name": "stdout", "text": "x"}]
    content["metadata"]["language_info"] = {"name": "python"}
    path.write_text(json.dumps(content, indent=1))
    assert not is_edited(path.parent)


@pytest.mark.parametrize("cells", [STARTER[:2], [*STARTER, Cell("markdown", "my notes")], STARTER[::-1], []])
def test_any_change_to_a_cell_is_an_edit(released: Path, notebook_file: Writer, cells: list[Cell]) -> None:
    notebook_file(released / "exercises" / NAME / f"{NAME}.ipynb", cells)
    assert is_edited(released / "exercises" / NAME)


@pytest.mark.parametrize("broken", [f"{NAME}.ipynb", STARTER_NAME])
def test_what_cannot_be_read_counts_as_edited(released: Path, broken: str) -> None:
    (released / "exercises" / NAME / broken).write_text("no JSON")
    assert is_edited(released / "exercises" / NAME)


# --- whose notebook is it ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name",
    [
        f"{NAME}.ipynb",
        f"{NAME} (1).ipynb",
        f"{NAME}(12).ipynb",
        f"{NAME}-Copy1.ipynb",
        f"{NAME}-Copy2 (3).ipynb",
        f"{NAME}_copy1.ipynb",
        f"{NAME} - Copy.ipynb",
        f"{NAME}/anything.ipynb",
    ],
)
def test_a_notebook_is_known_by_its_name_or_folder(released: Path, name: str) -> None:
    chapters = find_chapters(released)
    assert chapter_of(Path("somewhere") / name, chapters, RawNotebook(())) is chapters[NAME]


def test_a_renamed_notebook_is_known_by_its_tasks(released: Path) -> None:
    chapters = find_chapters(released)
    assert chapter_of(Path("homework.ipynb"), chapters, RawNotebook(tuple(STARTER))) is chapters[NAME]


@pytest.mark.parametrize("cells", [(), (Cell("code", "x = 1"),), (Cell("code", "", nbgrader={"grade_id": "other"}),)])
def test_another_notebook_is_refused_with_the_chapters_there_are(released: Path, cells: tuple[Cell, ...]) -> None:
    with pytest.raises(SubmissionRefused, match=f"belongs to no chapter that is here .chapters: {NAME}"):
        chapter_of(Path("homework.ipynb"), find_chapters(released), RawNotebook(cells))


def test_the_courses_own_starter_and_solution_differ_in_every_solution_cell(chapter: Chapter) -> None:
    for before, after in zip(chapter.starter, chapter.solution, strict=True):
        assert (before.source != after.source) is before.is_solution
    assert sum(task.points for task in chapter.tasks) > 0
    assert read(chapter.folder / f"{chapter.name}.ipynb").notes == ()


def test_a_chapter_names_modules_to_keep_warm(authored: Path, as_notebook: Callable[..., Any]) -> None:
    """They come from the chapter's own notebook; where there is no list of names, it says so."""
    path = authored / "solutions" / NAME / f"{NAME}.ipynb"
    assert find_chapters(authored)[NAME].warm == ()
    for value, expected in ((["json", "csv"], ("json", "csv")), ("json", None), ([1], None)):
        content = as_notebook(CELLS)
        content["metadata"][WARM_KEY] = value
        path.write_text(json.dumps(content), encoding="utf-8")
        chapter = find_chapters(authored)[NAME]
        if expected is not None:
            assert chapter.warm == expected
            continue
        with pytest.raises(ChapterError, match="must be a list of module names"):
            chapter.warm  # noqa: B018


def test_a_learners_copy_names_them_in_the_starter(released: Path, as_notebook: Callable[..., Any]) -> None:
    """What stands in the notebook that learners edit does not count."""
    folder = released / "exercises" / NAME
    for name, value in ((f"{NAME}.ipynb", ["os"]), (STARTER_NAME, ["json"])):
        content = as_notebook(STARTER)
        content["metadata"][WARM_KEY] = value
        (folder / name).write_text(json.dumps(content), encoding="utf-8")
    assert find_chapters(released)[NAME].warm == ("json",)
