"""Finds chapters on disk. A chapter is its folders: there is no list to keep.

``solutions/chNN_slug/`` is the authored exercise, ``exercises/chNN_slug/`` what was built from it for learners. Where
the first is absent (a learner's copy), the second is enough: it holds a pristine starter beside the notebook.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from autograder import planting
from autograder.errors import ChapterError, SubmissionRefused
from autograder.needs import Needs, needs_of
from autograder.notebook import Cell, RawNotebook, read
from autograder.planting import Region
from autograder.program import Program, read_program
from autograder.sections import Section, section_above

STARTER_NAME = ".starter.ipynb"
"""The pristine copy of a released notebook, hidden from file browsers and from nbgrader."""
WARM_KEY = "torch_clinic_warm"
"""Where the pristine notebook's metadata lists modules that the warm process is to import for this chapter."""
_COPY_SUFFIX = re.compile(r"(?: ?\(\d+\)|-Copy\d*|_copy\d*| - Copy)+$", re.IGNORECASE)


@dataclass(frozen=True)
class Task:
    """A grade cell: its grade_id, its points, and the grade_id of the solution cell above it."""

    name: str
    points: float
    solution_cell: str


@dataclass(frozen=True)
class Mutant:
    """The solution with one region turned back into its bug."""

    task: str
    region: Region
    cells: tuple[Cell, ...]


@dataclass(frozen=True)
class Chapter:
    """One chapter's exercise; ``source`` is its authored folder or None in a learner's copy."""

    name: str
    source: Path | None
    exercise: Path | None

    @property
    def folder(self) -> Path:
        """The authored folder where there is one, else the released one."""
        folder = self.source or self.exercise
        assert folder is not None
        return folder

    @property
    def visible_tests(self) -> list[Path]:
        """The tests that learners have."""
        return sorted(self.folder.glob("test_*.py"))

    @property
    def hidden_tests(self) -> list[Path]:
        """The tests that only instructors have; empty in a learner's copy."""
        return sorted((self.source / "hidden").glob("test_*.py")) if self.source else []

    @property
    def tests(self) -> list[Path]:
        """All tests that are at hand."""
        return [*self.visible_tests, *self.hidden_tests]

    @cached_property
    def needs(self) -> dict[str, Needs]:
        """What the tests of each task may ask a notebook for."""
        found = needs_of(self.tests)
        return {task.name: found.get(task.name, Needs()) for task in self.tasks}

    @property
    def has_timed_tests(self) -> bool:
        """Whether any of the tests takes times."""
        return any(True in needs.kinds for needs in self.needs.values())

    @cached_property
    def authored(self) -> tuple[Cell, ...]:
        """The authored notebook's cells, with both sides of every region."""
        if self.source is None:
            raise ChapterError(f"{self.name}: the authored notebook is not part of a learner's copy.")
        return self._pristine.cells

    @cached_property
    def starter(self) -> tuple[Cell, ...]:
        """The released notebook's cells, as no one has edited them."""
        if self.source is not None:
            return self.with_solutions({c.grade_id: planting.starter(c.source, c.grade_id) for c in self._solutions()})
        return self._pristine.cells

    @cached_property
    def solution(self) -> tuple[Cell, ...]:
        """The cells with every fix."""
        return self.with_solutions({})

    @cached_property
    def tasks(self) -> tuple[Task, ...]:
        """The grade cells, in order."""
        tasks = []
        solution_cell = ""
        for cell in self.authored if self.source is not None else self.starter:
            if cell.is_solution:
                solution_cell = cell.grade_id
            if cell.is_grade:
                tasks.append(Task(cell.grade_id, cell.points, solution_cell))
        return tuple(tasks)

    @cached_property
    def warm(self) -> tuple[str, ...]:
        """The modules that the chapter's notebook names to be imported by the warm process: ours, never a learner's.

        Raises :class:`ChapterError` where they are no list of names.
        """
        names = self._pristine.metadata.get(WARM_KEY, [])
        if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
            raise ChapterError(f"{self.name}: {WARM_KEY!r} in the notebook's metadata must be a list of module names.")
        return tuple(names)

    @cached_property
    def _pristine(self) -> RawNotebook:
        """The authored notebook, or, in a learner's copy, the starter that no one has edited."""
        if self.source is not None:
            return _read_own(self.source / f"{self.name}.ipynb")
        assert self.exercise is not None
        return _read_own(self.exercise / STARTER_NAME)

    @cached_property
    def starter_program(self) -> Program:
        """What the untouched notebook defines."""
        return read_program(self.starter)

    def task(self, name: str) -> Task:
        """The task of that name; :class:`ChapterError` with the names there are."""
        for task in self.tasks:
            if task.name == name:
                return task
        raise ChapterError(f"{self.name} has no task {name!r}. Its tasks: {', '.join(t.name for t in self.tasks)}.")

    def section(self, task: str) -> Section:
        """The section of the exercise that the task stands in: the symptom, and the hints."""
        return section_above(self.starter, self.task(task).solution_cell)

    def mutants(self) -> list[Mutant]:
        """One for each region."""
        of_cell = {task.solution_cell: task.name for task in self.tasks}
        return [
            Mutant(of_cell[cell.grade_id], region, self.with_solutions({cell.grade_id: source}))
            for cell in self._solutions()
            for region, source in planting.mutants(cell.source, cell.grade_id)
        ]

    def with_solutions(self, sources: dict[str, str]) -> tuple[Cell, ...]:
        """The solution's cells with some solution cells (by grade_id) replaced."""
        return tuple(
            replace(cell, source=sources.get(cell.grade_id, planting.solution(cell.source, cell.grade_id)))
            if cell.is_solution
            else cell
            for cell in self.authored
        )

    def _solutions(self) -> Sequence[Cell]:
        return [cell for cell in self.authored if cell.is_solution]


def _read_own(path: Path) -> RawNotebook:
    try:
        return read(path)
    except SubmissionRefused as error:
        raise ChapterError(f"A file of the course itself is missing or damaged: {error} Run `make build`.") from None


def find_root(start: Path) -> Path:
    """The nearest folder from *start* upwards with ``exercises`` or ``solutions``; raises :class:`ChapterError`."""
    start = start.resolve()
    for folder in (start, *start.parents):
        if (folder / "exercises").is_dir() or (folder / "solutions").is_dir():
            return folder
    raise ChapterError(
        f"No folder `exercises` or `solutions` at or above {start}. Run this inside the course's folder."
    )


def find_chapters(root: Path) -> dict[str, Chapter]:
    """All chapters under *root*, by name."""
    chapters = {}
    for top in ("solutions", "exercises"):
        for folder in sorted((root / top).glob("ch*")):
            source = root / "solutions" / folder.name
            exercise = root / "exercises" / folder.name
            has_source = (source / f"{folder.name}.ipynb").is_file()
            if has_source or (exercise / STARTER_NAME).is_file():
                chapters[folder.name] = Chapter(
                    folder.name, source if has_source else None, exercise if exercise.is_dir() else None
                )
    return chapters


def is_edited(folder: Path) -> bool:
    """Whether an exercise folder's notebook differs, in any cell, from the starter beside it."""
    notebook = folder / f"{folder.name}.ipynb"
    if not notebook.exists():
        return False
    try:
        return [(c.kind, c.source) for c in read(notebook).cells] != [
            (c.kind, c.source) for c in read(folder / STARTER_NAME).cells
        ]
    except SubmissionRefused:
        return True  # whatever it is, it is somebody's


def chapter_named(path: Path, chapters: dict[str, Chapter]) -> Chapter | None:
    """The chapter that a submitted notebook's name or its folder's tells, whatever is in it."""
    for candidate in (_COPY_SUFFIX.sub("", path.stem), os.path.basename(os.path.realpath(path.parent))):
        if candidate in chapters:
            return chapters[candidate]
    return None


def chapter_of(path: Path, chapters: dict[str, Chapter], notebook: RawNotebook) -> Chapter:
    """The chapter that a submitted notebook belongs to: by its name, its folder, or the tasks it holds or defines.

    Raises :class:`SubmissionRefused` where none fits.
    """
    named = chapter_named(path, chapters)
    if named is not None:
        return named
    known = {cell.grade_id for cell in notebook.cells if cell.grade_id}
    for statement in read_program(notebook.cells).statements:  # tasks are named after what they ask for
        known |= statement.binds
    best = max(chapters.values(), key=lambda c: len(known & {t.name for t in c.tasks}), default=None)
    if best is None or not known & {task.name for task in best.tasks}:
        names = ", ".join(chapters) or "none"
        raise SubmissionRefused(
            f"{path.name} belongs to no chapter that is here (chapters: {names}). "
            "Name it after its chapter, as it was handed out."
        )
    return best
