"""``autograder reset``: one cell gets its starting code back, all else stays, and nothing of the learner's is lost."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

import nbformat
import pytest

from autograder.chapter import STARTER_NAME, Chapter, find_chapters
from autograder.errors import ChapterError
from autograder.reset import plan

NOW = datetime(2026, 3, 1, 14, 5, 9)
CH01 = "ch01_tensor_views"


@pytest.fixture
def small(small_course: Path) -> Chapter:
    """The small chapter, untouched."""
    return find_chapters(small_course)["ch07_small"]


@pytest.fixture
def real(project: Path, tmp_path: Path) -> Chapter:
    """Chapter 1 as learners have it, with a function in each solution cell changed and outputs in the notebook."""
    folder = tmp_path / "exercises" / CH01
    folder.mkdir(parents=True)
    starter = (project / "exercises" / CH01 / STARTER_NAME).read_bytes()
    (folder / STARTER_NAME).write_bytes(starter)
    content = json.loads(starter)
    for number, cell in enumerate(content["cells"]):
        if cell["cell_type"] == "code":
            cell["execution_count"] = number
            cell["outputs"] = [{"name": "stdout", "output_type": "stream", "text": ["ä → 1e-05\n"]}]
        if cell["metadata"].get("nbgrader", {}).get("solution"):
            cell["source"] = ["# mine\n", *cell["source"]]
    (folder / f"{CH01}.ipynb").write_text(written(content), encoding="utf-8")
    return find_chapters(tmp_path)[CH01]


def written(content: dict[str, Any]) -> str:
    """As JupyterLab writes it."""
    return str(nbformat.writes(nbformat.from_dict(content))) + "\n"


def saved(chapter: Chapter) -> Path:
    assert chapter.exercise is not None
    return chapter.exercise / f"{chapter.name}.ipynb"


def source(chapter: Chapter, grade_id: str) -> str:
    for cell in json.loads(saved(chapter).read_text(encoding="utf-8"))["cells"]:
        if cell["metadata"].get("nbgrader", {}).get("grade_id") == grade_id:
            return "".join(cell["source"])
    raise AssertionError(grade_id)


def give_back(chapter: Chapter, task: str) -> Path | None:
    reset = plan(chapter, chapter.task(task))
    assert reset is not None
    root = saved(chapter).parents[2]
    kept = reset.keep(root, chapter.name, NOW)
    reset.write()
    return kept


def refused(chapter: Chapter, task: str) -> str:
    """What is said, and that nothing is changed."""
    before = saved(chapter).read_bytes() if saved(chapter).exists() else None
    with pytest.raises(ChapterError) as caught:
        plan(chapter, chapter.task(task))
    assert (saved(chapter).read_bytes() if saved(chapter).exists() else None) == before
    return str(caught.value)


def edit(path: Path, change: Callable[[list[Any]], object]) -> None:
    content = json.loads(path.read_text(encoding="utf-8"))
    change(content["cells"])
    path.write_text(json.dumps(content), encoding="utf-8")


def test_only_the_cell_changes_byte_by_byte(real: Chapter) -> None:
    before = saved(real).read_text(encoding="utf-8").splitlines()
    at = before.index('    "# mine\\n",', before.index('     "grade_id": "to_patches-code",'))
    kept = give_back(real, "to_patches")
    assert saved(real).read_text(encoding="utf-8").splitlines() == before[:at] + before[at + 1 :]
    assert saved(real).read_bytes().endswith(b"}\n")
    assert kept is not None and kept.name == "to_patches-2026-03-01-140509.py"
    starter = next(cell.source for cell in real.starter if cell.grade_id == "to_patches-code")
    assert kept.read_text(encoding="utf-8") == f"# mine\n{starter}\n"


@pytest.mark.parametrize("change", [{"indent": None}, {"indent": 2}, {"indent": 1, "sort_keys": True}])
def test_the_file_keeps_its_form(real: Chapter, change: dict[str, Any]) -> None:
    content = json.loads(saved(real).read_text(encoding="utf-8"))
    content["metadata"]["z"] = content["metadata"]["a"] = {"mine": True}
    saved(real).write_text(json.dumps(content, ensure_ascii=False, **change), encoding="utf-8")
    give_back(real, "take_clip")
    for cell in content["cells"]:
        if cell["metadata"].get("nbgrader", {}).get("grade_id") == "take_clip-code":
            cell["source"] = cell["source"][1:]
    assert saved(real).read_text(encoding="utf-8") == json.dumps(content, ensure_ascii=False, **change)


def test_permissions_stay(small: Chapter, small_notebook: Callable[..., Path]) -> None:
    small_notebook(double="2 * x").chmod(0o640)
    give_back(small, "double")
    assert saved(small).stat().st_mode & 0o777 == 0o640


def test_lines_are_counted(small: Chapter, small_notebook: Callable[..., Path]) -> None:
    small_notebook(double="(\n        2 * x\n    )")
    reset = plan(small, small.task("double"))
    assert reset is not None and reset.lines_changed() == (3, 1)


@pytest.mark.parametrize("end", ["", "\n", "\n\n"])
def test_an_untouched_task_needs_nothing(small: Chapter, end: str) -> None:
    edit(saved(small), lambda cells: cells[0]["source"].append(end))
    assert plan(small, small.task("double")) is None


def test_two_versions_of_one_second_are_both_kept(small: Chapter, small_notebook: Callable[..., Path]) -> None:
    kept = []
    for answer in ("2 * x", "3 * x", "4 * x"):
        small_notebook(double=answer)
        kept.append(give_back(small, "double"))
    assert [path.name for path in kept if path] == [
        "double-2026-03-01-140509.py",
        "double-2026-03-01-140509-2.py",
        "double-2026-03-01-140509-3.py",
    ]
    assert [path.read_text() for path in kept if path] == [
        f"def double(x):\n    return {answer} * x\n" for answer in (2, 3, 4)
    ]


def test_a_deleted_cell_is_laid_back_in_its_place(real: Chapter) -> None:
    """With all that was handed out with it, behind what stood before it."""
    whole = json.loads(saved(real).read_text(encoding="utf-8"))
    at = next(
        i for i, c in enumerate(whole["cells"]) if c["metadata"].get("nbgrader", {}).get("grade_id") == "take_clip-code"
    )
    released = json.loads((saved(real).parent / STARTER_NAME).read_text(encoding="utf-8"))["cells"][at]
    edit(saved(real), lambda cells: cells.pop(at))
    assert give_back(real, "take_clip") is None
    whole["cells"][at] = released
    assert json.loads(saved(real).read_text(encoding="utf-8")) == whole
    nbformat.validate(nbformat.read(saved(real), as_version=4))


def test_a_cell_that_lost_its_mark_gets_it_back(small: Chapter, small_notebook: Callable[..., Path]) -> None:
    small_notebook(double="2 * x")
    edit(saved(small), lambda cells: cells[0]["metadata"].update(nbgrader={}, mine=1))
    give_back(small, "double")
    cell = json.loads(saved(small).read_text())["cells"][0]
    assert cell["metadata"]["nbgrader"]["grade_id"] == "double-code" and cell["metadata"]["mine"] == 1
    assert "".join(cell["source"]) == "def double(x):\n    return x"


def test_a_cell_that_was_made_markdown_is_code_again(small: Chapter, small_notebook: Callable[..., Path]) -> None:
    small_notebook()

    def to_markdown(cells: list[Any]) -> None:
        cells[0]["cell_type"] = "markdown"
        del cells[0]["outputs"], cells[0]["execution_count"]

    edit(saved(small), to_markdown)
    give_back(small, "double")
    nbformat.validate(nbformat.read(saved(small), as_version=4))
    assert json.loads(saved(small).read_text())["cells"][0]["cell_type"] == "code"


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (None, "there is no such file"),
        ("", "is empty"),
        ('{"cells": [', "is not a complete notebook"),
        ('{"cells": [], "nbformat": 4}', "holds none of this chapter's tasks"),
    ],
)
def test_a_notebook_that_cannot_be_read_is_refused(small: Chapter, content: str | None, says: str) -> None:
    saved(small).unlink()
    if content is not None:
        saved(small).write_text(content)
    said = refused(small, "double")
    assert says in said
    assert f"The untouched copy is beside it: {saved(small).parent / STARTER_NAME}" in said


def test_another_format_or_encoding_is_refused(small: Chapter) -> None:
    text = saved(small).read_text()
    saved(small).write_text(text.replace('"nbformat": 4', '"nbformat": 3'))
    assert "another notebook format than 4" in refused(small, "double")
    saved(small).write_text(text, encoding="utf-16")
    assert "not written as JupyterLab writes notebooks" in refused(small, "double")
    saved(small).write_text(text.replace('"cells": [', '"cells": [7, '))
    assert "Some of its cells cannot be read." in refused(small, "double")


def test_a_link_is_refused(small: Chapter, tmp_path: Path) -> None:
    os.replace(saved(small), tmp_path / "elsewhere.ipynb")
    saved(small).symlink_to(tmp_path / "elsewhere.ipynb")
    assert "is a symbolic link" in refused(small, "double")


def own_cell(text: str, **more: Any) -> dict[str, Any]:
    return {
        "cell_type": "code",
        "id": "own",
        "metadata": {},
        "source": text,
        "outputs": [],
        "execution_count": None,
    } | more


def test_a_second_definition_would_count_so_it_is_refused(small: Chapter, small_notebook: Callable[..., Path]) -> None:
    small_notebook(double="2 * x")
    edit(saved(small), lambda cells: cells.append(own_cell("\n# try\ndef double(x):\n    return x + x")))
    said = refused(small, "double")
    assert "`double` is defined in another cell as well, which begins with\n\n    # try\n\n" in said
    edit(saved(small), lambda cells: cells[-1].update(cell_type="markdown"))
    assert plan(small, small.task("double")) is not None


def test_a_changed_copy_would_count_so_it_is_refused(small: Chapter, small_notebook: Callable[..., Path]) -> None:
    """JupyterLab copies nbgrader's mark with a cell; of several, the last changed one is graded."""
    small_notebook(double="2 * x")
    edit(
        saved(small),
        lambda cells: cells.insert(1, {**cells[0], "id": "copy", "source": "def double(x):\n    return 3 * x"}),
    )
    assert "is defined in another cell as well" in refused(small, "double")


def test_a_lost_cell_whose_code_is_elsewhere_is_not_laid_back(small: Chapter) -> None:
    def move(cells: list[Any]) -> None:
        cells[2] = own_cell("half = lambda x: x / 2")

    edit(saved(small), move)
    assert "`half` is defined in another cell as well" in refused(small, "half")


def test_merged_cells_are_not_torn_apart(small: Chapter, small_notebook: Callable[..., Path]) -> None:
    small_notebook(double="2 * x", half="x / 2")

    def merge(cells: list[Any]) -> None:
        cells[0]["source"] = [*cells[0]["source"], "\n\n", *cells.pop(2)["source"]]

    edit(saved(small), merge)
    assert "The cell of `double` holds the code of `half` as well" in refused(small, "double")


def test_what_was_saved_meanwhile_is_not_overwritten(small: Chapter, small_notebook: Callable[..., Path]) -> None:
    small_notebook(double="2 * x")
    reset = plan(small, small.task("double"))
    assert reset is not None
    path = small_notebook(double="4 * x")
    before = path.read_bytes()
    with pytest.raises(ChapterError, match="was saved just now, so it was left as it is"):
        reset.write()
    assert path.read_bytes() == before


def test_what_cannot_be_put_aside_is_not_replaced(
    small: Chapter, small_notebook: Callable[..., Path], small_course: Path
) -> None:
    small_notebook(double="2 * x")
    (small_course / "kept").write_text("a file in the place of the folder")
    reset = plan(small, small.task("double"))
    assert reset is not None
    with pytest.raises(ChapterError, match=r"could not be put aside in .*So nothing was changed"):
        reset.keep(small_course, small.name, NOW)


def test_what_json_can_spell_and_utf8_cannot_is_kept(small: Chapter, small_notebook: Callable[..., Path]) -> None:
    path = small_notebook(double="2 * x")
    edit(path, lambda cells: cells.append(own_cell("'half of a pair: \ud800'")))
    give_back(small, "double")
    assert json.loads(path.read_text())["cells"][-1]["source"] == "'half of a pair: \ud800'"
    assert source(small, "double-code") == "def double(x):\n    return x"
