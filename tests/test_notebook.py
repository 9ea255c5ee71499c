"""Reading notebooks in any state. Broken files of every kind are in ``hostile/``; here are the parts, and chance."""

from __future__ import annotations

import copy
import json
import random
from pathlib import Path
from typing import Any

import pytest

from autograder.chapter import Chapter
from autograder.errors import SubmissionRefused
from autograder.normalise import normalise
from autograder.notebook import MAX_NOTEBOOK_BYTES, Cell, parse, read
from autograder.program import read_program


def test_a_cell_knows_its_marks() -> None:
    solution = Cell("code", "", nbgrader={"grade_id": "a-code", "solution": True, "grade": False})
    grade = Cell("code", "", nbgrader={"grade_id": "a", "solution": False, "grade": True, "points": 2})
    assert (solution.grade_id, solution.is_solution, solution.is_grade, solution.points) == ("a-code", True, False, 0)
    assert (grade.grade_id, grade.is_solution, grade.is_grade, grade.points) == ("a", False, True, 2)
    assert Cell("code", "").grade_id == Cell("code", "", nbgrader={"grade_id": 7}).grade_id == ""


def test_a_notebook_is_read_as_it_stands(tmp_path: Path, notebook_file: Any) -> None:
    cells = [Cell("markdown", "# é\n\ntext", "one"), Cell("code", "x = 1\n", "two", {"grade_id": "x"}), Cell("raw", "")]
    found = read(notebook_file(tmp_path / "a.ipynb", cells))
    assert [(c.kind, c.source, c.nbgrader) for c in found.cells] == [(c.kind, c.source, c.nbgrader) for c in cells]
    assert [c.cell_id for c in found.cells] == ["one", "two", "cell-2"]
    assert found.notes == ()


def test_reading_leaves_no_file_open(tmp_path: Path, recwarn: pytest.WarningsRecorder) -> None:
    for _ in range(3):
        with pytest.raises(SubmissionRefused):
            read(tmp_path)
    assert not [warning for warning in recwarn if warning.category is ResourceWarning]


@pytest.mark.parametrize(("size", "refused"), [(MAX_NOTEBOOK_BYTES, False), (MAX_NOTEBOOK_BYTES + 1, True)])
def test_the_limit_on_size(tmp_path: Path, size: int, refused: bool) -> None:
    path = tmp_path / "a.ipynb"
    path.write_bytes(b'{"cells": []}'.ljust(size))
    if refused:
        with pytest.raises(SubmissionRefused, match="Clear the outputs"):
            read(path)
    else:
        assert read(path).cells == ()


def test_bytes_mutated_at_random_are_read_or_refused(chapter: Chapter) -> None:
    """From file to program, nothing else than a refusal may come of a damaged notebook."""
    path = chapter.folder / f"{chapter.name}.ipynb"
    good = path.read_bytes()
    rng = random.Random(7)
    read_well = 0
    for _ in range(150):
        data = bytearray(good)
        for _ in range(rng.randint(1, 3)):
            at = rng.randrange(len(data))
            data[at : at + rng.choice([0, 1, 1, 50])] = rng.randbytes(rng.choice([0, 1, 1, 4]))
        try:
            laid = normalise(chapter.starter, parse(bytes(data)))
        except SubmissionRefused:
            continue
        read_program(laid.cells)
        read_well += 1
    assert 10 < read_well < 140


ODD: list[Any] = [
    None,
    True,
    0,
    -1,
    1.5,
    "",
    "code",
    "\ud800",
    "x" * 1_000,
    [],
    ["a", 1],
    {},
    {"grade_id": "frame_loss-code"},
]


def test_structures_mutated_at_random_are_read_or_refused(chapter: Chapter) -> None:
    """The same for files that are sound JSON with odd things in it; the points are the pristine notebook's, always."""
    path = chapter.folder / f"{chapter.name}.ipynb"
    good = json.loads(path.read_text(encoding="utf-8"))
    points = [(task.name, task.points) for task in chapter.tasks]
    rng = random.Random(8)
    for _ in range(300):
        content = copy.deepcopy(good)
        for _ in range(rng.randint(1, 12)):
            _mutate(content if rng.random() < 0.1 else rng.choice(_cells(content)), rng)
        try:
            laid = normalise(chapter.starter, parse(json.dumps(content).encode()))
        except SubmissionRefused:
            continue
        read_program(laid.cells)
        assert [(cell.grade_id, cell.points) for cell in laid.cells if cell.is_grade] == points


def _cells(content: dict[str, Any]) -> list[Any]:
    cells = content.get("cells")
    return cells if isinstance(cells, list) and cells else [content]


def _mutate(value: Any, rng: random.Random) -> None:
    """Put something odd in the place of something inside *value*, at any depth."""
    while isinstance(value, dict | list) and value:
        key = rng.choice(list(value)) if isinstance(value, dict) else rng.randrange(len(value))
        if rng.random() < 0.4 or not isinstance(value[key], dict | list):
            value[key] = copy.deepcopy(rng.choice(ODD))
            return
        value = value[key]
