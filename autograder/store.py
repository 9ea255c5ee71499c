"""Keeps what has been graded, so that a second run does only what has changed, and a killed one loses nothing.

A part of a grade, the results of one task's tests of one kind, is stored under a key made of the code that these tests
run, the version of tests and engine, and the class of the machine. The student's name is no part of it: who hands in
the same code gets the same verdict, and a change to one task costs that task's tests alone.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Collection
from pathlib import Path

from autograder.errors import ReportError
from autograder.program import Program
from autograder.report import Part

FOLDER = "reports"
"""Where, in a course's folder, reports are kept."""


def what_runs(program: Program, names: Collection[str]) -> list[object]:
    """What tests that ask *program* for *names* can have of it: where two programs agree in this, so do the verdicts.

    What is needed for the names is all that is ever run. Cells have their names in it, because messages name them, and
    so do cells that do not parse.
    """
    run = [[cell.name, cell.source, indices] for cell, indices in program.needed_for(names)]
    return [run, sorted(name for name in names if program.defines(name)), program.errors()]


def part_key(version: str, machine: str, task: str, timed: bool, program: Program, names: Collection[str]) -> str:
    """The name of one part: of the tests of *task* that take times (*timed*), or of the others, for the code they run.

    *names* are those that the tests may ask *program* for. Nothing else is in it: nobody's report may depend on who was
    graded before.
    """
    # as JSON, because a lone surrogate is no UTF-8, and may well stand in a notebook
    facts = json.dumps([version, machine, task, timed, *what_runs(program, names)])
    return hashlib.sha256(facts.encode()).hexdigest()


def write_atomically(path: Path, text: str) -> None:
    """Write *text* to *path*, all of it or nothing, also where the process is killed on the way.

    A file that was there before keeps its permissions.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=".", suffix=".part")
    try:
        # a file's name, and so a student's, need not be sound UTF-8
        with os.fdopen(descriptor, "w", encoding="utf-8", errors="backslashreplace") as file:
            file.write(text)
            file.flush()
            os.fsync(descriptor)
        with contextlib.suppress(FileNotFoundError):
            shutil.copymode(path, temporary)
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise


class Store:
    """Parts in a folder, a file for each. Several processes may use it at once."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    @classmethod
    def of_course(cls, root: Path) -> Store:
        """The store that all faces share for the course at *root*."""
        return cls(root / FOLDER / ".store")

    def _path(self, key: str) -> Path:
        return self._folder / key[:2] / f"{key[2:]}.json"

    def get(self, key: str) -> Part | None:
        """The part stored under *key*; None where there is none that can be read."""
        try:
            return Part.from_json(self._path(key).read_text(encoding="utf-8"))
        except (OSError, ValueError, ReportError):
            return None

    def put(self, key: str, part: Part) -> None:
        """Store *part*, unless it holds a fault of ours: that is tried again the next time.

        Raises ``OSError`` where the folder cannot be written.
        """
        if part.is_final:
            write_atomically(self._path(key), part.to_json())
