"""Classes of submissions for the benchmarks: real right and wrong answers, no two of them alike."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import cycle, islice
from pathlib import Path

import nbformat

from autograder.chapter import Chapter
from autograder.notebook import Cell
from autograder.prove import candidates


def submissions(chapter: Chapter, number: int, first: int = 0) -> Iterator[tuple[Cell, ...]]:
    """*number* notebooks by turns from solution, starter, wheats and mutants, each with a comment of its own.

    The comment keeps a grader that remembers from taking one verdict for another. *first* counts on from another class.
    """
    kinds = ("solution", "starter", "wheat", "mutant")
    chosen = [candidate.cells for candidate in candidates(chapter) if candidate.kind in kinds]
    for place, cells in enumerate(islice(cycle(chosen), first, first + number), start=first):
        yield tuple(
            replace(cell, source=f"{cell.source}\n# by number {place}") if cell.is_solution else cell for cell in cells
        )


def write_class(chapter: Chapter, folder: Path, number: int, first: int = 0) -> list[Path]:
    """Write :func:`submissions` as nbgrader expects them, ``<folder>/<student>/<chapter>/``; the notebooks' paths."""
    paths = []
    for place, cells in enumerate(submissions(chapter, number, first), start=first):
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
