"""Classes of submissions for the benchmarks, of the right and wrong answers that a chapter is proved with.

Two kinds. In a *mixed* class everybody has taken, task by task, one of the known answers (15 to 38 for each task), so
some have solved a task alike, as in a class of any size some have. In a class of *unlike* notebooks no two cells are
the same, and nothing that was graded once is of use again.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import cycle, islice
from pathlib import Path

import nbformat

from autograder.chapter import Chapter
from autograder.notebook import Cell
from autograder.prove import candidates


def unlike(chapter: Chapter, number: int, first: int = 0) -> Iterator[tuple[Cell, ...]]:
    """*number* notebooks by turns from solution, starter, wheats and mutants, each cell with a comment of its own.

    *first* counts on from another class.
    """
    kinds = ("solution", "starter", "wheat", "mutant")
    chosen = [candidate.cells for candidate in candidates(chapter) if candidate.kind in kinds]
    for place, cells in enumerate(islice(cycle(chosen), first, first + number), start=first):
        yield tuple(
            replace(cell, source=f"{cell.source}\n# by number {place}") if cell.is_solution else cell for cell in cells
        )


def mixed(chapter: Chapter, number: int, first: int = 0) -> Iterator[tuple[Cell, ...]]:
    """*number* notebooks, each cell drawn from all known answers to its task, each as likely; the same ones each time.

    *first* counts on from another class.
    """
    answers: dict[str, set[str]] = {}
    for candidate in candidates(chapter):
        for cell in candidate.cells:
            if cell.is_solution:
                answers.setdefault(cell.grade_id, set()).add(cell.source)
    in_order = {grade_id: sorted(sources) for grade_id, sources in answers.items()}
    for place in range(first, first + number):
        draw = random.Random(f"{chapter.name} {place}")
        yield chapter.with_solutions({grade_id: draw.choice(sources) for grade_id, sources in in_order.items()})


def write_class(
    chapter: Chapter,
    folder: Path,
    number: int,
    first: int = 0,
    *,
    of: Callable[..., Iterator[tuple[Cell, ...]]] = unlike,
) -> list[Path]:
    """Write a class as nbgrader expects it, ``<folder>/<student>/<chapter>/``; the notebooks' paths.

    *of* is :func:`unlike` or :func:`mixed`.
    """
    paths = []
    for place, cells in enumerate(of(chapter, number, first), start=first):
        path = folder / f"student{place:04}" / chapter.name / f"{chapter.name}.ipynb"
        path.parent.mkdir(parents=True, exist_ok=True)
        nbformat.write(as_notebook(cells), path)
        paths.append(path)
    return paths


def as_notebook(cells: tuple[Cell, ...]) -> nbformat.NotebookNode:
    """A notebook with these cells, as JupyterLab would have saved it."""
    notebook = nbformat.v4.new_notebook()
    for number, cell in enumerate(cells):
        make = nbformat.v4.new_code_cell if cell.kind == "code" else nbformat.v4.new_markdown_cell
        made = make(cell.source, id=f"cell-{number}")
        if cell.nbgrader:
            made.metadata["nbgrader"] = dict(cell.nbgrader)
        notebook.cells.append(made)
    return notebook
