"""Lays a learner's cells into a pristine notebook, so that whatever happened to the file, grading sees a sound one.

Kept from the submission: the sources of the solution cells and the learner's own cells. Everything else (locked and
grade cells, points, metadata, order) is the pristine notebook's.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

from autograder.errors import SubmissionRefused
from autograder.notebook import Cell, RawNotebook

_DEFINED = re.compile(r"^(?:async\s+def|def|class)\s+(\w+)", re.MULTILINE)
_ASSIGNED = re.compile(r"^(\w+)\s*=(?!=)", re.MULTILINE)


@dataclass(frozen=True)
class Normalised:
    """A sound notebook with the learner's code in it.

    ``untouched`` names the solution cells (by grade_id) whose source is still the starter's.
    """

    cells: tuple[Cell, ...]
    notes: tuple[str, ...]
    untouched: frozenset[str]


def normalise(pristine: Sequence[Cell], submitted: RawNotebook, name: str = "The notebook") -> Normalised:
    """Lay the submission's code into *pristine* (the released notebook's cells).

    Raises :class:`SubmissionRefused` where not one of the chapter's solution cells can be found.
    """
    return _Laying(pristine, submitted, name).result()


def places(pristine: Sequence[Cell], submitted: RawNotebook) -> dict[int, int]:
    """Where the submission has the cells of *pristine*: index there -> index in *submitted*; lost ones are left out.

    Raises :class:`SubmissionRefused` as :func:`normalise` does.
    """
    laying = _Laying(pristine, submitted, "The notebook")
    laying.result()
    return {theirs: i for i, theirs in laying.place.items()}


def defined_names(source: str) -> set[str]:
    """The functions and classes that a cell defines at its top level, whether it parses or not."""
    return set(_DEFINED.findall(source))


class _Laying:
    def __init__(self, pristine: Sequence[Cell], submitted: RawNotebook, name: str) -> None:
        self.pristine = list(pristine)
        self.learner = list(submitted.cells)
        self.notes = list(submitted.notes)
        self.name = name
        self.place: dict[int, int] = {}
        """Index of a learner's cell -> index of the pristine cell that it is."""
        self.dropped: set[int] = set()
        self.elsewhere: set[int] = set()
        """Pristine solution cells that are missing while another cell (one merged with it, say) has their code."""

    def result(self) -> Normalised:
        solutions = [index for index, cell in enumerate(self.pristine) if cell.is_solution]
        found = [index for index in solutions if self._match_solution(index)]
        if solutions and not found:
            wanted = ", ".join(
                self._names(self.pristine[index]) or self.pristine[index].grade_id for index in solutions
            )
            raise SubmissionRefused(
                f"{self.name} holds none of this chapter's tasks (looked for {wanted}). "
                "Is it the notebook of another chapter?"
            )
        for index, cell in enumerate(self.pristine):
            if not cell.is_solution:
                self._match_given(index, cell)
        return self._lay()

    @staticmethod
    def _names(cell: Cell) -> str:
        return ", ".join(_DEFINED.findall(cell.source))

    def _free(self) -> list[int]:
        return [i for i in range(len(self.learner)) if i not in self.place and i not in self.dropped]

    def _match_solution(self, index: int) -> bool:
        wanted = self.pristine[index]
        found = [i for i in self._free() if self.learner[i].grade_id == wanted.grade_id]
        if not found:
            found = self._by_definition(wanted)
            if found:
                self.notes.append(f"Cell {wanted.grade_id!r} had lost its nbgrader mark; found by what it defines.")
        if not found and self._defined_elsewhere(wanted):
            self.notes.append(f"Cell {wanted.grade_id!r} is missing; what it should define was found in another cell.")
            self.elsewhere.add(index)
            return True
        if not found:
            self.notes.append(f"Cell {wanted.grade_id!r} is missing; the notebook's original version stands in for it.")
            return False
        changed = [i for i in found if self.learner[i].source.strip() != wanted.source.strip()]
        unchanged = set(found).difference(changed)
        if len(found) > 1:
            self.notes.append(f"Cell {wanted.grade_id!r} is there {len(found)} times; the last changed one counts.")
            # a copy that is still the original is a backup, whichever comes last
            self.dropped.update(unchanged if changed else ())
        chosen = self._likeliest(wanted, changed or found)
        self.place[chosen] = index
        cell = self.learner[chosen]
        if cell.kind != "code":
            self.notes.append(f"Cell {wanted.grade_id!r} had been turned into {cell.kind}; it was read as code.")
        for key in ("grade", "locked", "solution", "schema_version"):
            if cell.nbgrader and cell.nbgrader.get(key) != wanted.nbgrader.get(key):
                self.notes.append(f"Cell {wanted.grade_id!r} had its metadata changed; the original's were restored.")
                break
        return True

    def _defines(self, i: int, wanted: Cell) -> bool:
        return defined_names(wanted.source) <= defined_names(self.learner[i].source)

    def _likeliest(self, wanted: Cell, found: list[int]) -> int:
        """The last that defines what it should and is code: not half of a split cell, nor notes made of a copy."""
        found = [i for i in found if self._defines(i, wanted)] or found
        return ([i for i in found if self.learner[i].kind == "code"] or found)[-1]

    def _by_definition(self, wanted: Cell) -> list[int]:
        known = {cell.grade_id for cell in self.pristine if cell.grade_id}
        marks = Counter(cell.grade_id for cell in self.learner)
        return [
            i
            for i in self._free()
            if _DEFINED.search(wanted.source)
            and (self.learner[i].grade_id not in known or marks[self.learner[i].grade_id] > 1)
            and self._defines(i, wanted)
        ]

    def _defined_elsewhere(self, wanted: Cell) -> bool:
        """Whether the original, standing in, would take the place of what some other cell of the learner's defines."""
        names = defined_names(wanted.source)
        bound = {
            name
            for i, cell in enumerate(self.learner)
            if cell.kind == "code" and i not in self.dropped
            for name in (*_DEFINED.findall(cell.source), *_ASSIGNED.findall(cell.source))
        }
        return bool(names) and names <= bound

    def _match_given(self, index: int, cell: Cell) -> None:
        if cell.grade_id:
            found = [i for i in self._free() if self.learner[i].grade_id == cell.grade_id]
            if not found:
                self.notes.append(f"Cell {cell.grade_id!r} was missing; it was put back.")
            for i in found:
                theirs = self.learner[i]
                if theirs.source.strip() != cell.source.strip():
                    self.notes.append(f"Cell {cell.grade_id!r} is not for editing; its original was restored.")
                if theirs.nbgrader.get("points") != cell.nbgrader.get("points"):
                    self.notes.append(f"Cell {cell.grade_id!r} had its points changed; the original's were restored.")
            if len(found) > 1:
                self.notes.append(f"Cell {cell.grade_id!r} is there {len(found)} times; one was kept.")
            self.place.update(dict.fromkeys(found[:1], index))
            self.dropped.update(found[1:])
            return
        by_source = [i for i in self._free() if self.learner[i].source.strip() == cell.source.strip()]
        by_id = [i for i in self._free() if cell.cell_id and self.learner[i].cell_id == cell.cell_id]
        for i in (by_source or by_id)[:1]:
            self.place[i] = index

    def _lay(self) -> Normalised:
        after: dict[int, list[Cell]] = {}
        source = {}
        anchor = -1
        for i, cell in enumerate(self.learner):
            if i in self.place:
                anchor = self.place[i]
                source[anchor] = cell.source
            elif i not in self.dropped and cell.source.strip():
                after.setdefault(anchor, []).append(replace(cell, cell_id="", nbgrader={}))
        cells = list(after.get(-1, []))
        untouched = set()
        for index, cell in enumerate(self.pristine):
            # a demonstration cell (neither locked nor graded) is the learner's to change
            editable = cell.is_solution or not cell.grade_id
            text = source.get(index, cell.source) if editable else cell.source
            if index in self.elsewhere:
                text = "# This cell's code stands in another cell."
            cells.append(replace(cell, source=text))
            cells += after.get(index, [])
            if cell.is_solution and text.strip() == cell.source.strip():
                untouched.add(cell.grade_id)
        return Normalised(tuple(cells), tuple(dict.fromkeys(self.notes)), frozenset(untouched))
