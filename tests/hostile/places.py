"""Names, folders and files of a class that a grader stumbles over, beyond the catalogue.

A kind writes into the folder of all submissions, under whatever student's name it likes. What it gets is right work
(the solution of chapter 1) as a notebook, unless it says otherwise.
"""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

CHAPTER = "ch01_tensor_views"
NAME = f"{CHAPTER}.ipynb"
Notebook = dict[str, Any]


@dataclass(frozen=True)
class Place:
    """One kind: the student's name, what writes it, and whether it is graded (in full), refused, or only reported."""

    name: str
    student: str
    write: Callable[[Path, Notebook], None]
    becomes: str
    says: str = ""


def _save(path: Path, notebook: Notebook) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(notebook), encoding="utf-8")


def _in_place(student: str) -> Callable[[Path, Notebook], None]:
    return lambda folder, notebook: _save(folder / student / CHAPTER / NAME, notebook)


NAMES = {
    "a-line-break": "ann\nbob",
    "a-leading-dash": "-rf",
    "a-formula": "=cmd|' !A0",
    "a-formula-in-wide-letters": "＝1+1",
    "two-hundred-and-fifty-letters": "x" * 250,
    "no-utf-8": os.fsdecode(b"zo\xeb"),
    "escape-sequences": "\x1b]0;owned\x07\x1b[2J",
    "letters-that-run-backwards": "\u202egpj.exe",
    "markup": "<b>&amp;\"']]>",
    "the-name-of-the-table": "grades.csv",
    "the-name-of-the-other-table": "JUnit.XML",
    "the-name-of-the-store": ".store",
    "three-dots": "...",
    "the-name-of-a-chapter": CHAPTER,
    "blanks": "  ",
}


def _linked_student(folder: Path, notebook: Notebook) -> None:
    _save(folder / "target-of-a-link" / CHAPTER / NAME, notebook)
    (folder / "linked-student").symlink_to("target-of-a-link")


def _linked_chapter(folder: Path, notebook: Notebook) -> None:
    (folder / "linked-chapter").mkdir()
    (folder / "linked-chapter" / CHAPTER).symlink_to(f"../target-of-a-link/{CHAPTER}")


def _pipe(folder: Path, notebook: Notebook) -> None:
    (folder / "pipe-for-a-folder").mkdir()
    os.mkfifo(folder / "pipe-for-a-folder" / CHAPTER)


def _socket(folder: Path, notebook: Notebook) -> None:
    (folder / "socket-for-a-folder").mkdir()
    before = os.getcwd()
    os.chdir(folder / "socket-for-a-folder")  # the path of a socket may not be long
    try:
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(CHAPTER)
    finally:
        os.chdir(before)


def _file(folder: Path, notebook: Notebook) -> None:
    _save(folder / "file-for-a-folder" / CHAPTER, notebook)


def _hard_link(folder: Path, notebook: Notebook) -> None:
    _save(folder / "linked-to" / CHAPTER / NAME, notebook)
    (folder / "hard-link" / CHAPTER).mkdir(parents=True)
    os.link(folder / "linked-to" / CHAPTER / NAME, folder / "hard-link" / CHAPTER / NAME)


def _hundreds(folder: Path, notebook: Notebook) -> None:
    for number in range(300):
        _save(folder / "hundreds-of-notebooks" / CHAPTER / f"try {number}.ipynb", {"cells": []})


def _hundreds_elsewhere(folder: Path, notebook: Notebook) -> None:
    _save(folder / "hundreds-elsewhere" / CHAPTER / NAME, notebook)
    for number in range(300):
        _save(folder / "hundreds-elsewhere" / f"try {number}" / NAME, {"cells": []})


def _deep(student: str, notebook_at_the_bottom: bool) -> Callable[[Path, Notebook], None]:
    def write(folder: Path, notebook: Notebook) -> None:
        home = folder / student / CHAPTER
        home.mkdir(parents=True)
        before = os.getcwd()
        os.chdir(home)
        try:
            if not notebook_at_the_bottom:
                _save(Path(NAME), notebook)
            for _ in range(1_500):
                os.mkdir("d")
                os.chdir("d")
            if notebook_at_the_bottom:
                _save(Path(NAME), notebook)
        finally:
            os.chdir(before)

    return write


def _draft_elsewhere(folder: Path, notebook: Notebook) -> None:
    _save(folder / "draft-elsewhere" / CHAPTER / NAME, notebook)
    _save(folder / "draft-elsewhere" / "A draft" / NAME, {**notebook, "cells": notebook["cells"][:5]})


def _damaged_outside(folder: Path, notebook: Notebook) -> None:
    (folder / "damaged-outside").mkdir()
    (folder / "damaged-outside" / NAME).write_text(json.dumps(notebook)[:500], encoding="utf-8")


def _own_store(folder: Path, notebook: Notebook) -> None:
    forged = {"schema_version": 2, "results": {}, "hardware": {}}
    for home in (folder / "own-store", folder / "own-store" / CHAPTER):
        for name in ("reports/.store/00/00.json", f"reports/own-store/{CHAPTER}.json", "solutions/x.py"):
            path = home / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(json.dumps(forged), encoding="utf-8")
    _save(folder / "own-store" / CHAPTER / NAME, notebook)


def _very_many_cells(folder: Path, notebook: Notebook) -> None:
    cells = [*notebook["cells"], *([{"cell_type": "code", "metadata": {}, "source": "x"}] * 11_000)]
    _save(folder / "very-many-cells" / CHAPTER / NAME, {**notebook, "cells": cells})


def _very_many_copies(folder: Path, notebook: Notebook) -> None:
    cells = list(notebook["cells"])
    at = next(i for i, c in enumerate(cells) if c["metadata"].get("nbgrader", {}).get("grade_id") == "frame_loss-code")
    cells[at:at] = [{**cells[at], "source": "x = 1"}, {**cells[at], "source": notebook["starter"]}] * 4_000
    _save(folder / "very-many-copies" / CHAPTER / NAME, {**notebook, "cells": cells})


def _odd_json(folder: Path, notebook: Notebook) -> None:
    text = json.dumps({**notebook, "metadata": {"n": 1}}).replace('"n": 1', f'"n": {"9" * 1_000_000}, "m": 1e999999')
    path = folder / "odd-json" / CHAPTER / NAME
    path.parent.mkdir(parents=True)
    path.write_text('{"cells": [], "cells": 3, ' + text[1:], encoding="utf-8")


def _nested_json(folder: Path, notebook: Notebook) -> None:
    text = json.dumps({**notebook, "metadata": {"n": 1}}).replace('"n": 1', '"n": ' + "[" * 10**6 + "]" * 10**6)
    path = folder / "nested-json" / CHAPTER / NAME
    path.parent.mkdir(parents=True)
    path.write_text(text, encoding="utf-8")


PLACES = [
    *(Place(f"a-student-called-{name}", student, _in_place(student), "graded") for name, student in NAMES.items()),
    Place("linked-student", "linked-student", _linked_student, "reported", "symbolic link, which is not followed"),
    Place("linked-chapter", "linked-chapter", _linked_chapter, "refused", "symbolic link, which is not followed"),
    Place("pipe-for-a-folder", "pipe-for-a-folder", _pipe, "refused", "No notebook was handed in"),
    Place("socket-for-a-folder", "socket-for-a-folder", _socket, "refused", "No notebook was handed in"),
    Place("file-for-a-folder", "file-for-a-folder", _file, "refused", "No notebook was handed in"),
    Place("hard-link", "hard-link", _hard_link, "graded"),
    Place("hundreds-of-notebooks", "hundreds-of-notebooks", _hundreds, "refused", "and more."),
    Place("hundreds-elsewhere", "hundreds-elsewhere", _hundreds_elsewhere, "graded"),
    Place("deep-folders", "deep-folders", _deep("deep-folders", False), "graded"),
    Place("deep-down", "deep-down", _deep("deep-down", True), "refused", "No notebook was handed in"),
    Place("draft-elsewhere", "draft-elsewhere", _draft_elsewhere, "graded"),
    Place("damaged-outside", "damaged-outside", _damaged_outside, "refused", "it stops being JSON"),
    Place("own-store", "own-store", _own_store, "graded"),
    Place("very-many-cells", "very-many-cells", _very_many_cells, "refused", "at most 10,000 are read"),
    Place("very-many-copies", "very-many-copies", _very_many_copies, "graded", "the last changed one counts"),
    Place("odd-json", "odd-json", _odd_json, "graded"),
    Place("nested-json", "nested-json", _nested_json, "refused", "nested more deeply"),
]
