"""Laying a learner's cells into the pristine notebook."""

from __future__ import annotations

from dataclasses import replace

import pytest

from autograder.errors import SubmissionRefused
from autograder.normalise import Normalised, normalise
from autograder.notebook import Cell, RawNotebook

PRISTINE = (
    Cell("markdown", "# Title", "id-title"),
    Cell("code", "MEAN = 1", "id-given", {"grade_id": "given", "locked": True, "schema_version": 3}),
    Cell("code", "def f():\n    return 0", "id-f", {"grade_id": "f-code", "solution": True, "schema_version": 3}),
    Cell("code", "print(f())", "id-demo"),
    Cell("code", "check('f')", "id-check", {"grade_id": "f", "grade": True, "points": 2, "schema_version": 3}),
    Cell("code", "def g():\n    return 0", "id-g", {"grade_id": "g-code", "solution": True, "schema_version": 3}),
    Cell("code", "check('g')", "id-check-g", {"grade_id": "g", "grade": True, "points": 1, "schema_version": 3}),
)
TITLE, GIVEN, F, DEMO, CHECK, G, CHECK_G = PRISTINE
F1 = replace(F, source="def f():\n    return 1")
G1 = replace(G, source="def g():\n    return 1")
OWN = Cell("code", "helper = 1", "id-own")


def lay(*cells: Cell) -> Normalised:
    return normalise(PRISTINE, RawNotebook(cells))


def sources(laid: Normalised) -> list[str]:
    return [cell.source for cell in laid.cells]


def code_of(laid: Normalised) -> dict[str, object]:
    """What the laid notebook defines; as in grading, demonstrations are not run."""
    namespace: dict[str, object] = {}
    for cell in laid.cells:
        if (cell.kind == "code" or cell.is_solution) and not cell.source.startswith(("check", "print")):
            exec(cell.source, namespace)
    return {name: namespace[name]() for name in ("f", "g")}  # type: ignore[operator]


def test_an_untouched_notebook_stays_as_it_is() -> None:
    laid = lay(*PRISTINE)
    assert laid.cells == PRISTINE
    assert laid.notes == ()
    assert laid.untouched == {"f-code", "g-code"}


def test_solutions_and_own_cells_are_kept_in_their_places() -> None:
    demo = replace(DEMO, source="print('mine')")
    laid = lay(OWN, TITLE, GIVEN, F1, replace(OWN, source="a"), replace(OWN, source="b"), demo, CHECK, G, CHECK_G, OWN)
    assert sources(laid) == [
        "helper = 1",
        "# Title",
        "MEAN = 1",
        F1.source,
        "a",
        "b",
        "print('mine')",
        "check('f')",
        G.source,
        "check('g')",
        "helper = 1",
    ]
    assert laid.notes == ()
    assert laid.untouched == {"g-code"}


def test_own_cells_lose_marks_that_are_not_theirs() -> None:
    mark = {"grade_id": "bonus", "grade": True, "points": 100}
    laid = lay(*PRISTINE, Cell("code", "check('bonus')", "x", mark))
    assert laid.cells[-1] == Cell("code", "check('bonus')")
    assert sum(cell.points for cell in laid.cells) == 3


def test_empty_own_cells_are_left_out() -> None:
    assert lay(Cell("code", " \n"), *PRISTINE, Cell("markdown", "")).cells == PRISTINE


@pytest.mark.parametrize("index", [1, 4, 6])
def test_locked_and_grade_cells_are_restored(index: int) -> None:
    cells = list(PRISTINE)
    cells[index] = replace(cells[index], source="2.0")
    laid = lay(*cells)
    assert laid.cells == PRISTINE
    assert "is not for editing; its original was restored" in laid.notes[0]


def test_points_are_restored() -> None:
    laid = lay(*PRISTINE[:4], replace(CHECK, nbgrader={**CHECK.nbgrader, "points": 100}), G, CHECK_G)
    assert laid.cells == PRISTINE
    assert laid.notes == ("Cell 'f' had its points changed; the original's were restored.",)


@pytest.mark.parametrize(
    ("key", "value"), [("grade", True), ("locked", True), ("solution", False), ("schema_version", 1)]
)
def test_a_solution_cells_marks_are_restored(key: str, value: object) -> None:
    laid = lay(*PRISTINE[:2], replace(F1, nbgrader={**F1.nbgrader, key: value}), *PRISTINE[3:])
    assert laid.cells[2] == F1
    assert laid.notes == ("Cell 'f-code' had its metadata changed; the original's were restored.",)


def test_missing_given_cells_are_put_back() -> None:
    laid = lay(F1, G1)
    assert sources(laid) == [F1.source if c is F else G1.source if c is G else c.source for c in PRISTINE]
    assert "Cell 'given' was missing; it was put back." in laid.notes


def test_a_copied_grade_cell_counts_once() -> None:
    laid = lay(*PRISTINE, CHECK, CHECK)
    assert laid.cells == PRISTINE
    assert "Cell 'f' is there 3 times; one was kept." in laid.notes


def test_lost_marks_are_found_by_what_a_cell_defines() -> None:
    laid = lay(*(replace(cell, nbgrader={}) for cell in (TITLE, GIVEN, F1, DEMO, CHECK, G1, CHECK_G)))
    assert code_of(laid) == {"f": 1, "g": 1}
    assert [cell.grade_id for cell in laid.cells if cell.is_solution] == ["f-code", "g-code"]
    assert "Cell 'f-code' had lost its nbgrader mark; found by what it defines." in laid.notes


def test_a_text_cell_that_was_a_solution_is_read_as_code() -> None:
    laid = lay(TITLE, GIVEN, replace(F1, kind="markdown"), DEMO, CHECK, G1, CHECK_G)
    assert laid.cells[2] == F1
    assert "had been turned into markdown" in laid.notes[0]


@pytest.mark.parametrize(
    "cells",
    [
        (F1, G1),
        (G1, CHECK, F1, TITLE),
        (F, F1, G1),
        (F1, F, G1),
        (F, F1, F, G1),
        (F1, replace(F, source="def f():\n    return 2", kind="markdown"), G1),
        (replace(F, source=""), Cell("code", F1.source), G1),
        (Cell("code", F1.source), G1),
        (Cell("code", "f = lambda: 1"), G1),
        (replace(F1, source=f"{F1.source}\n\n{G1.source}"),),
        (replace(F1, source=F1.source + "\n\n" + G1.source, nbgrader={}),),
        (F1, replace(F, source="unrelated = 1"), G1),
        (replace(F, source="ONE = 1"), replace(F, source="def f():\n    return ONE"), G1),
        (replace(F1, nbgrader=G.nbgrader), G1),
        (G1, replace(F1, nbgrader=G.nbgrader)),
        (replace(F1, nbgrader=G.nbgrader), replace(G1, nbgrader=F.nbgrader)),
        (replace(F1, nbgrader={"grade_id": 7}), replace(G1, nbgrader={"grade_id": "G-CODE"})),
        tuple(replace(cell, cell_id="id-demo") for cell in (OWN, F1, G1)),
        (replace(F1, nbgrader=CHECK.nbgrader), CHECK, G1),
    ],
    ids=[
        "plain",
        "moved",
        "backup before",
        "backup after",
        "backups around",
        "copy kept as text",
        "emptied, code in a cell of one's own",
        "deleted, code in a cell of one's own",
        "deleted, assigned instead of defined",
        "two cells merged",
        "two cells merged and their mark lost",
        "split, second half without the function",
        "split before the function",
        "another task's mark",
        "another task's mark, moved",
        "marks exchanged",
        "odd marks",
        "one id for all cells",
        "a grade cell's mark",
    ],
)
def test_a_right_answer_is_found_wherever_it_went(cells: tuple[Cell, ...]) -> None:
    """The same functions hold in the laid notebook as would in the learner's own, run from top to bottom."""
    laid = lay(*cells)
    assert code_of(laid) == {"f": 1, "g": 1}
    assert [(c.grade_id, c.points) for c in laid.cells if c.is_grade] == [("f", 2), ("g", 1)]
    assert not laid.untouched


def test_of_two_changed_copies_the_last_one_counts() -> None:
    laid = lay(F1, replace(F1, source="def f():\n    return 2"), G1)
    assert code_of(laid) == {"f": 2, "g": 1}
    assert "Cell 'f-code' is there 2 times; the last changed one counts." in laid.notes


def test_a_missing_solution_cell_is_the_original_again() -> None:
    laid = lay(TITLE, F1)
    assert code_of(laid) == {"f": 1, "g": 0}
    assert laid.untouched == {"g-code"}
    assert "Cell 'g-code' is missing; the notebook's original version stands in for it." in laid.notes


def test_an_emptied_solution_cell_is_touched() -> None:
    laid = lay(F1, replace(G, source=""))
    assert laid.cells[5].source == ""
    assert laid.untouched == frozenset()


@pytest.mark.parametrize("cells", [(), (TITLE, GIVEN, CHECK), (OWN,)])
def test_a_notebook_without_any_of_the_tasks_is_refused(cells: tuple[Cell, ...]) -> None:
    with pytest.raises(SubmissionRefused, match=r"My\.ipynb holds none of this chapter's tasks \(looked for f, g\)"):
        normalise(PRISTINE, RawNotebook(cells), "My.ipynb")


def test_notes_of_reading_the_file_are_kept_and_said_once() -> None:
    laid = normalise(PRISTINE, RawNotebook(PRISTINE, ("read as Latin-1", "read as Latin-1")))
    assert laid.notes == ("read as Latin-1",)
