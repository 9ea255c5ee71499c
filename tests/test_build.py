"""What is built from what: notebooks from their sources, exercises from the authored folders, and nothing leaks."""

from __future__ import annotations

import difflib
import json
import re
import shutil
from pathlib import Path

import pytest

from autograder import build, planting
from autograder.chapter import STARTER_NAME, find_chapters
from autograder.notebook import read

from .leaks import all_secrets, leaks, lines

PROJECT = Path(__file__).parents[1]
SOURCES = build.notebook_sources(PROJECT)
CHAPTERS = find_chapters(PROJECT)


def ids(path: Path) -> str:
    return str(path.relative_to(PROJECT))


@pytest.fixture(scope="module")
def fresh(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """All exercises, released anew."""
    folder = tmp_path_factory.mktemp("fresh")
    build.release(PROJECT, folder)
    return folder


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """A copy of the course that may be written to."""
    for name in ("course", "solutions", "exercises"):
        shutil.copytree(
            PROJECT / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__", ".ipynb_checkpoints")
        )
    return tmp_path


# --- notebooks --------------------------------------------------------------------------------------------------------


def test_every_chapter_has_a_lesson_and_an_exercise() -> None:
    names = {path.stem for path in SOURCES if path.parent.name == "course" and path.name.startswith("ch")}
    assert names == set(CHAPTERS)
    assert {path.stem for path in SOURCES if path.parent.name != "course"} == set(CHAPTERS)


@pytest.mark.parametrize("source", SOURCES, ids=ids)
def test_a_committed_notebook_is_what_its_source_makes_of_it(source: Path) -> None:
    """Run ``make build`` where this fails."""
    committed = source.with_suffix(".ipynb").read_text(encoding="utf-8").splitlines()
    assert list(difflib.unified_diff(committed, build.built_notebook(source).splitlines(), lineterm="")) == []


@pytest.mark.parametrize("source", SOURCES, ids=ids)
def test_committed_notebooks_have_no_outputs_and_distinct_ids(source: Path) -> None:
    content = json.loads(source.with_suffix(".ipynb").read_text(encoding="utf-8"))
    code = [cell for cell in content["cells"] if cell["cell_type"] == "code"]
    assert [cell for cell in code if cell["outputs"] or cell["execution_count"] is not None] == []
    assert len({cell["id"] for cell in content["cells"]}) == len(content["cells"])


def test_building_notebooks_twice_changes_nothing(copy: Path) -> None:
    build.build_notebooks(copy)
    before = {path: path.read_bytes() for path in copy.rglob("*.ipynb")}
    assert build.build_notebooks(copy) == []
    assert {path: path.read_bytes() for path in copy.rglob("*.ipynb")} == before


def test_an_edited_source_changes_its_notebook_and_the_other_cells_keep_their_ids(copy: Path) -> None:
    source = build.notebook_sources(copy)[-1]
    build.build_notebooks(copy)
    before = json.loads(source.with_suffix(".ipynb").read_text(encoding="utf-8"))["cells"]
    source.write_text(source.read_text(encoding="utf-8") + "\n# %%\nadded = 1\n", encoding="utf-8")
    assert build.build_notebooks(copy) == [f"wrote {source.with_suffix('.ipynb').relative_to(copy)}"]
    after = json.loads(source.with_suffix(".ipynb").read_text(encoding="utf-8"))["cells"]
    assert after[:-1] == before
    assert after[-1]["source"] == ["added = 1"]


def test_a_notebook_that_is_not_there_is_made(copy: Path) -> None:
    source = build.notebook_sources(copy)[0]
    source.with_suffix(".ipynb").unlink()
    assert build.build_notebooks(copy)[0] == f"wrote {source.with_suffix('.ipynb').relative_to(copy)}"
    assert json.loads(source.with_suffix(".ipynb").read_text(encoding="utf-8"))["nbformat"] == 4


# --- exercises --------------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("name", CHAPTERS)
def test_a_fresh_release_is_what_is_committed(fresh: Path, name: str) -> None:
    """Starter and tests; the notebook itself is the learner's to change."""
    committed, released = PROJECT / "exercises" / name, fresh / name
    tests = [path.name for path in sorted(released.glob("test_*.py"))]
    assert {path.name for path in released.iterdir()} == {STARTER_NAME, f"{name}.ipynb", *tests}
    assert (released / f"{name}.ipynb").read_bytes() == (released / STARTER_NAME).read_bytes()
    for file in (STARTER_NAME, *tests):
        assert (committed / file).read_text(encoding="utf-8") == (released / file).read_text(encoding="utf-8"), file


@pytest.mark.slow
@pytest.mark.parametrize("name", CHAPTERS)
def test_a_released_notebook_is_the_starter(fresh: Path, name: str) -> None:
    released = json.loads((fresh / name / STARTER_NAME).read_text(encoding="utf-8"))
    assert ["".join(cell["source"]) for cell in released["cells"]] == [c.source for c in CHAPTERS[name].starter]
    assert "jupytext" not in released["metadata"]


def _mark(path: Path, text: str) -> str:
    content = json.loads(path.read_text(encoding="utf-8"))
    content["cells"][-1]["source"] = [text]
    path.write_text(json.dumps(content), encoding="utf-8")
    return path.read_text(encoding="utf-8")


def test_an_edited_exercise_survives_and_what_lies_beside_it_is_renewed(copy: Path, tmp_path: Path) -> None:
    folder = next((copy / "exercises").glob("ch*"))
    released = tmp_path / "released"
    shutil.copytree(copy / "exercises", released)
    shutil.copy(folder / STARTER_NAME, released / folder.name / f"{folder.name}.ipynb")
    shutil.copy(folder / STARTER_NAME, folder / f"{folder.name}.ipynb")
    mine = _mark(folder / f"{folder.name}.ipynb", "my work")
    (folder / "my_notes.txt").write_text("mine")
    (released / folder.name / f"test_{folder.name}.py").write_text("# renewed\n")
    _mark(released / folder.name / STARTER_NAME, "renewed")

    lines = build.install_exercises(copy, released)

    assert f"kept exercises/{folder.name}/{folder.name}.ipynb: it has been edited" in lines
    assert (folder / f"{folder.name}.ipynb").read_text(encoding="utf-8") == mine
    assert (folder / f"test_{folder.name}.py").read_text() == "# renewed\n"
    assert "renewed" in (folder / STARTER_NAME).read_text(encoding="utf-8")
    assert (folder / "my_notes.txt").read_text() == "mine"
    # it still counts as edited the next time, although the starter is another now
    assert any(line.startswith("kept") for line in build.install_exercises(copy, released))


def test_an_unedited_exercise_is_renewed_and_then_up_to_date(copy: Path, tmp_path: Path) -> None:
    folder = next((copy / "exercises").glob("ch*"))
    shutil.copy(folder / STARTER_NAME, folder / f"{folder.name}.ipynb")
    released = tmp_path / "released"
    shutil.copytree(copy / "exercises", released)
    for name in (STARTER_NAME, f"{folder.name}.ipynb"):
        _mark(released / folder.name / name, "renewed")
    assert len(build.install_exercises(copy, released)) == 2
    assert "renewed" in (folder / f"{folder.name}.ipynb").read_text(encoding="utf-8")
    assert build.install_exercises(copy, released) == []


# --- leaks ------------------------------------------------------------------------------------------------------------


def _released(name: str) -> dict[str, bytes]:
    """All that learners get with an exercise, but for what they wrote themselves."""
    folder = PROJECT / "exercises" / name
    return {path.name: path.read_bytes() for path in (folder / STARTER_NAME, *sorted(folder.glob("test_*.py")))}


@pytest.mark.parametrize("name", CHAPTERS)
def test_exercises_hold_nothing_but_what_is_released(name: str) -> None:
    hidden = {path.name for path in (PROJECT / "solutions" / name / "hidden").rglob("*") if path.is_file()}
    assert hidden
    assert not hidden & {path.name for path in (PROJECT / "exercises").rglob("*")}


@pytest.mark.parametrize("name", CHAPTERS)
def test_no_marker_and_no_fix_is_released(name: str) -> None:
    """A solution cell as released has no line that only its fixes have; other cells may well do the same right."""
    assert leaks(_released(name), ["BEGIN SOLUTION", "END SOLUTION", "### BUG"]) == []
    released = {cell.grade_id: cell.source for cell in read(PROJECT / "exercises" / name / STARTER_NAME).cells}
    for cell in CHAPTERS[name].authored:
        if cell.is_solution:
            regions = planting.regions(cell.source)
            bugs = lines(line for region in regions for line in region.bug)
            fixes = lines(line for region in regions for line in region.fix)
            assert fixes, cell.grade_id
            assert not (fixes - bugs) & lines([released[cell.grade_id]])


@pytest.mark.parametrize("name", CHAPTERS)
def test_nothing_hidden_is_released(name: str) -> None:
    """No line of a hidden test, a reference, a variant or a fix, of any chapter, and no hidden test's name."""
    released = _released(name)
    assert leaks(released, all_secrets(PROJECT)) == []
    text = "\n".join(content.decode("utf-8") for content in released.values())
    for path in CHAPTERS[name].hidden_tests:
        for test in re.findall(r"def (test_\w+)", path.read_text(encoding="utf-8")):
            assert not re.search(rf"\b{test}\b", text), test
