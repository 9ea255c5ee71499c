"""Reads notebooks that may be broken in any way, and keeps what grading needs: the cells.

Nothing here runs code or follows a link. nbformat's reader and validator are not used: they refuse what can be graded
(a lost cell id, a newer minor version, a byte order mark), and all that is wanted is the source of each cell.
"""

from __future__ import annotations

import codecs
import errno
import json
import os
import stat
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from autograder.errors import SubmissionRefused
from autograder.stack import at_the_bottom
from autograder.text import one_line

MAX_NOTEBOOK_BYTES = 50_000_000
"""A notebook with its plots has a few MB. One beyond this is refused before it is read."""
MAX_CELLS = 10_000
"""One that has more was made by a program, to keep others busy."""

_KINDS = ("code", "markdown", "raw")
_LONGEST_NUMBER = 300
"""Digits. No field of a notebook that matters here holds a longer one, and Python takes its time over them."""

_BOMS = (  # UTF-32 first: its little-endian mark begins with UTF-16's
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
    (codecs.BOM_UTF8, "utf-8-sig"),
)


@dataclass(frozen=True)
class Cell:
    """One cell: ``kind`` is ``code``, ``markdown`` or ``raw``; ``nbgrader`` is its nbgrader metadata or empty."""

    kind: str
    source: str
    cell_id: str = ""
    nbgrader: Mapping[str, Any] = field(default_factory=dict)

    @property
    def grade_id(self) -> str:
        """nbgrader's name of the cell, ``""`` for a cell that nbgrader does not know."""
        value = self.nbgrader.get("grade_id", "")
        return value if isinstance(value, str) else ""

    @property
    def is_solution(self) -> bool:
        """Whether the learner is meant to edit this cell."""
        return bool(self.nbgrader.get("solution"))

    @property
    def is_grade(self) -> bool:
        """Whether the cell carries points."""
        return bool(self.nbgrader.get("grade"))

    @property
    def points(self) -> float:
        """What a grade cell is worth."""
        return float(self.nbgrader.get("points", 0))


@dataclass(frozen=True)
class RawNotebook:
    """The cells of a file as they stand, what had to be done to read it, and its metadata."""

    cells: tuple[Cell, ...]
    notes: tuple[str, ...] = ()
    metadata: Mapping[str, Any] = field(default_factory=dict)


_HOW_TO_OPEN = sum(getattr(os, flag, 0) for flag in ("O_RDONLY", "O_NOFOLLOW", "O_NONBLOCK", "O_BINARY"))
"""As far as a system has them. O_NOFOLLOW: a link could point at someone else's file; O_NONBLOCK: opening a pipe must
not wait; O_BINARY: Windows would end a file at the first byte 26."""


def read(path: Path) -> RawNotebook:
    """Read the notebook at *path*; raises :class:`SubmissionRefused` with the reason where it cannot be read."""
    return parse(_read_bytes(path), one_line(path.name))


def _read_bytes(path: Path) -> bytes:
    name = one_line(path.name)
    try:
        descriptor = os.open(path, _HOW_TO_OPEN)
    except FileNotFoundError:
        raise SubmissionRefused(f"{name}: there is no such file. Check the name and the folder.") from None
    except OSError as error:
        if error.errno == errno.ELOOP or os.path.islink(path):
            raise SubmissionRefused(
                f"{name} is a symbolic link, which is not followed. Submit the notebook itself."
            ) from None
        raise SubmissionRefused(f"{name} cannot be opened: {error.strerror}.") from None
    status = os.fstat(descriptor)
    if not stat.S_ISREG(status.st_mode):
        os.close(descriptor)
        raise SubmissionRefused(f"{name} is not a regular file. Give the path of a notebook.")
    with os.fdopen(descriptor, "rb") as file:
        if status.st_size > MAX_NOTEBOOK_BYTES:
            raise SubmissionRefused(
                f"{name} has {status.st_size / 1e6:.0f} MB; at most {MAX_NOTEBOOK_BYTES / 1e6:.0f} MB are read. "
                "Clear the outputs (Edit > Clear Outputs of All Cells) and save again."
            )
        return file.read(MAX_NOTEBOOK_BYTES + 1)


def _decode(data: bytes, name: str, notes: list[str]) -> str:
    for mark, encoding in _BOMS:
        if data.startswith(mark):
            try:
                text = data.decode(encoding)
            except UnicodeDecodeError:
                raise SubmissionRefused(f"{name} is not a text file that could be read as {encoding}.") from None
            notes.append(f"The file was saved as {encoding.upper()} with a byte order mark; it was read all the same.")
            return text
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        notes.append("The file is not UTF-8; it was read as Latin-1.")
        return data.decode("latin-1")


def parse(data: bytes, name: str = "notebook") -> RawNotebook:
    """The cells in the bytes of a notebook of nbformat 3, 4 or later; raises :class:`SubmissionRefused`."""
    notes: list[str] = []
    if not data.strip():
        raise SubmissionRefused(f"{name} is empty. Save the notebook and submit it again.")
    text = _decode(data, name, notes)
    if "\0" in text:
        text = text.replace("\0", "")
        notes.append("NUL characters in the file were left out.")
    try:
        content = at_the_bottom(json.loads, text, parse_int=_number)
    except RecursionError:
        raise SubmissionRefused(
            f"{name} is no notebook: lists or objects in it are nested more deeply than any notebook nests them."
        ) from None
    except ValueError as error:
        where = f" (line {error.lineno}, column {error.colno})" if isinstance(error, json.JSONDecodeError) else ""
        raise SubmissionRefused(
            f"{name} is not a complete notebook: it stops being JSON{where}. "
            "It may have been cut off on its way; open it in JupyterLab, save it and submit it again."
        ) from None
    cells = _find_cells(content)
    if cells is None:
        raise SubmissionRefused(f"{name} is JSON but no notebook: it has no list of cells. Submit the .ipynb file.")
    if len(cells) > MAX_CELLS:
        raise SubmissionRefused(f"{name} has {len(cells):,} cells; at most {MAX_CELLS:,} are read.")
    version = content.get("nbformat")
    if version != 4:
        notes.append(
            f"The file has notebook format {str(version)[:20]} instead of 4; its cells were read all the same."
        )
    metadata = content.get("metadata")
    return RawNotebook(
        tuple(cell for raw in cells if (cell := _cell(raw)) is not None),
        tuple(notes),
        metadata if isinstance(metadata, dict) else {},
    )


def _number(digits: str) -> int:
    return int(digits) if len(digits) <= _LONGEST_NUMBER else 0


def _find_cells(content: Any) -> list[Any] | None:
    if not isinstance(content, dict):
        return None
    if isinstance(content.get("cells"), list):
        return list(content["cells"])
    worksheets = content.get("worksheets")  # where nbformat 3 keeps the cells
    if not isinstance(worksheets, list):
        return None
    sheets = [sheet for sheet in worksheets if isinstance(sheet, dict)]
    return [cell for sheet in sheets if isinstance(sheet.get("cells"), list) for cell in sheet["cells"]]


def _cell(raw: Any) -> Cell | None:
    if not isinstance(raw, dict) or not isinstance(raw.get("cell_type"), str):
        return None
    source = raw.get("source", raw.get("input", ""))  # "input" in nbformat 3
    if isinstance(source, list):
        source = "".join(part for part in source if isinstance(part, str))
    if not isinstance(source, str):
        return None
    metadata = raw.get("metadata")
    nbgrader = metadata.get("nbgrader") if isinstance(metadata, dict) else None
    cell_id = raw.get("id")
    return Cell(
        kind=raw["cell_type"] if raw["cell_type"] in _KINDS else "markdown",  # "heading" in nbformat 3
        # NUL and halves of a surrogate pair, which JSON can spell, are characters that Python does not compile
        source=source.replace("\0", "").encode("utf-8", "replace").decode("utf-8"),
        cell_id=cell_id if isinstance(cell_id, str) else "",
        nbgrader=nbgrader if isinstance(nbgrader, dict) else {},
    )
