"""Broken files, made by code: every way in which a notebook reached a grader that it was not written for.

Each kind starts from a right answer, the solution of chapter 1 saved as a learner would save it, and writes a file (or
something else) into a folder. It is either to be graded, with the points declared of the 4 that ``take_clip`` and
``frame_loss`` have together, or to be refused; the text declared must be among the notes or in the reason.
"""

from __future__ import annotations

import copy
import json
import os
import socket
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

CHAPTER = "ch01_tensor_views"
NAME = f"{CHAPTER}.ipynb"
TASKS = ("take_clip", "frame_loss")
POINTS = 4.0

Notebook = dict[str, Any]
Writer = Callable[[Path, Notebook], Path]
_STARTER_LOSS = "def frame_loss(prediction, target):\n    return ((prediction - target) ** 2).mean()"


@dataclass(frozen=True)
class Kind:
    """One kind of broken file; ``score`` is None where it must be refused."""

    name: str
    write: Writer
    score: float | None
    says: str


KINDS: dict[str, Kind] = {}


def graded(score: float = POINTS, says: str = "") -> Callable[[Writer], Writer]:
    """Declare a kind that must be graded with *score* points and a note that contains *says*."""

    def declare(write: Writer) -> Writer:
        KINDS[write.__name__] = Kind(write.__name__, write, score, says)
        return write

    return declare


def refused(says: str) -> Callable[[Writer], Writer]:
    """Declare a kind that must be refused with a reason that contains *says*."""

    def declare(write: Writer) -> Writer:
        KINDS[write.__name__] = Kind(write.__name__, write, None, says)
        return write

    return declare


# --- helpers ----------------------------------------------------------------------------------------------------------


def save(folder: Path, notebook: Any, name: str = NAME) -> Path:
    """Write *notebook* as JSON."""
    return put(folder, json.dumps(notebook, indent=1, ensure_ascii=False).encode(), name)


def put(folder: Path, data: bytes, name: str = NAME) -> Path:
    """Write bytes."""
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return path


def place(notebook: Notebook, grade_id: str) -> int:
    """The index of a marked cell."""
    return next(
        i for i, c in enumerate(notebook["cells"]) if c["metadata"].get("nbgrader", {}).get("grade_id") == grade_id
    )


def cell(notebook: Notebook, grade_id: str) -> dict[str, Any]:
    """A marked cell."""
    found: dict[str, Any] = notebook["cells"][place(notebook, grade_id)]
    return found


def code(source: str) -> dict[str, Any]:
    """A code cell of the learner's own."""
    return {
        "cell_type": "code",
        "execution_count": None,
        "id": "own-cell",
        "metadata": {},
        "outputs": [],
        "source": source,
    }


def text_of(raw: dict[str, Any]) -> str:
    """A cell's source as one string."""
    return "".join(raw["source"])


# --- bytes ------------------------------------------------------------------------------------------------------------


@graded()
def sound(folder: Path, notebook: Notebook) -> Path:
    return save(folder, notebook)


@refused("is empty. Save the notebook and submit it again.")
def empty(folder: Path, notebook: Notebook) -> Path:
    return put(folder, b"")


@refused("is empty")
def only_blanks(folder: Path, notebook: Notebook) -> Path:
    return put(folder, b" \n\t\n" * 100)


@refused("it stops being JSON")
def truncated(folder: Path, notebook: Notebook) -> Path:
    data = json.dumps(notebook).encode()
    return put(folder, data[: len(data) // 2])


@refused("it stops being JSON")
def not_json(folder: Path, notebook: Notebook) -> Path:
    return put(folder, b"def take_clip(video, start, length, mean, std):\n    return video\n")


@refused("it stops being JSON")
def zipped(folder: Path, notebook: Notebook) -> Path:
    return put(folder, b"PK\x03\x04" + bytes(range(256)) * 10)


@refused("it stops being JSON")
def merge_conflict(folder: Path, notebook: Notebook) -> Path:
    data = json.dumps(notebook, indent=1)
    return put(folder, data.replace(' "nbformat"', '<<<<<<< HEAD\n "nbformat"').encode())


@refused("is JSON but no notebook")
def json_but_no_notebook(folder: Path, notebook: Notebook) -> Path:
    return save(folder, {"name": "package", "version": 1})


@refused("is JSON but no notebook")
def json_list(folder: Path, notebook: Notebook) -> Path:
    return save(folder, notebook["cells"])


@refused("is JSON but no notebook")
def json_number(folder: Path, notebook: Notebook) -> Path:
    return put(folder, b"7")


@refused("is JSON but no notebook")
def cells_are_no_list(folder: Path, notebook: Notebook) -> Path:
    return save(folder, {**notebook, "cells": {str(i): c for i, c in enumerate(notebook["cells"])}})


@refused("holds none of this chapter's tasks")
def no_cells(folder: Path, notebook: Notebook) -> Path:
    return save(folder, {**notebook, "cells": []})


@graded(says="saved as UTF-8-SIG with a byte order mark")
def byte_order_mark(folder: Path, notebook: Notebook) -> Path:
    return put(folder, json.dumps(notebook).encode("utf-8-sig"))


@graded(says="saved as UTF-16 with a byte order mark")
def utf_16(folder: Path, notebook: Notebook) -> Path:
    return put(folder, json.dumps(notebook).encode("utf-16"))


@graded(says="NUL characters")
def utf_16_without_mark(folder: Path, notebook: Notebook) -> Path:
    return put(folder, json.dumps(notebook).encode("utf-16-le"))


@graded(says="saved as UTF-32")
def utf_32(folder: Path, notebook: Notebook) -> Path:
    return put(folder, json.dumps(notebook).encode("utf-32"))


@refused("is not a text file that could be read as utf-16")
def half_a_utf_16(folder: Path, notebook: Notebook) -> Path:
    return put(folder, json.dumps(notebook).encode("utf-16")[:-1])


@graded(says="it was read as Latin-1")
def latin_1(folder: Path, notebook: Notebook) -> Path:
    notebook["cells"].insert(2, code("name = 'Zoë'  # déjà vu"))
    return put(folder, json.dumps(notebook, ensure_ascii=False).encode("latin-1", "replace"))


@graded(says="NUL characters in the file were left out")
def nul_characters(folder: Path, notebook: Notebook) -> Path:
    return put(folder, json.dumps(notebook).encode() + b"\0" * 4096)


@graded()
def nul_characters_in_code(folder: Path, notebook: Notebook) -> Path:
    raw = cell(notebook, "frame_loss-code")
    raw["source"] = "\0" + text_of(raw) + "\0"
    return put(folder, json.dumps(notebook).encode())


@graded()
def half_a_surrogate_pair(folder: Path, notebook: Notebook) -> Path:
    raw = cell(notebook, "frame_loss-code")
    raw["source"] = text_of(raw) + "  # \ud83d"
    return put(folder, json.dumps(notebook).encode())


@graded()
def windows_line_ends(folder: Path, notebook: Notebook) -> Path:
    for raw in notebook["cells"]:
        raw["source"] = text_of(raw).replace("\n", "\r\n")
    return put(folder, json.dumps(notebook, indent=1).replace("\n", "\r\n").encode())


@refused("500 MB; at most 50 MB are read. Clear the outputs")
def half_a_gigabyte(folder: Path, notebook: Notebook) -> Path:
    path = save(folder, notebook)
    os.truncate(path, 500_000_000)
    return path


@graded()
def large_outputs(folder: Path, notebook: Notebook) -> Path:
    output = {"output_type": "display_data", "metadata": {}, "data": {"image/png": "A" * 20_000_000}}
    cell(notebook, "take_clip")["outputs"] = [output]
    return save(folder, notebook)


@refused("nested more deeply than any notebook")
def deep_nesting(folder: Path, notebook: Notebook) -> Path:
    return put(folder, b'{"cells": ' + b"[" * 200_000 + b"]" * 200_000 + b"}")


@refused("nested more deeply than any notebook")
def deep_nesting_in_metadata(folder: Path, notebook: Notebook) -> Path:
    notebook["metadata"]["deep"] = "HERE"
    nested = '{"a":' * 100_000 + "1" + "}" * 100_000
    return put(folder, json.dumps(notebook).replace('"HERE"', nested).encode())


@graded()
def giant_integers(folder: Path, notebook: Notebook) -> Path:
    notebook["metadata"]["number"] = "HERE"
    cell(notebook, "take_clip")["execution_count"] = "HERE"
    return put(folder, json.dumps(notebook).replace('"HERE"', "9" * 100_000).encode())


@graded()
def numbers_that_are_not_json(folder: Path, notebook: Notebook) -> Path:
    notebook["metadata"] |= {"a": float("nan"), "b": float("-inf")}
    return save(folder, notebook)


# --- formats ----------------------------------------------------------------------------------------------------------


def _format_3(notebook: Notebook) -> Notebook:
    cells = []
    for raw in notebook["cells"]:
        old = {"cell_type": raw["cell_type"], "metadata": raw["metadata"]}
        old["input" if raw["cell_type"] == "code" else "source"] = raw["source"]
        if raw["cell_type"] == "code":
            old |= {"language": "python", "outputs": [], "collapsed": False, "prompt_number": 1}
        cells.append(old)
    cells.insert(0, {"cell_type": "heading", "level": 1, "metadata": {}, "source": "Exercise"})
    return {"metadata": {"name": ""}, "nbformat": 3, "nbformat_minor": 0, "worksheets": [{"cells": cells}]}


@graded(says="notebook format 3 instead of 4")
def format_3(folder: Path, notebook: Notebook) -> Path:
    return save(folder, _format_3(notebook))


@graded(says="notebook format 3 instead of 4")
def format_3_in_two_sheets(folder: Path, notebook: Notebook) -> Path:
    old = _format_3(notebook)
    cells = old["worksheets"][0]["cells"]
    old["worksheets"] = [{"cells": cells[:9]}, {}, "odd", {"cells": cells[9:]}]
    return save(folder, old)


@graded()
def format_4_2(folder: Path, notebook: Notebook) -> Path:
    for raw in notebook["cells"]:
        del raw["id"]
    return save(folder, {**notebook, "nbformat_minor": 2})


@graded()
def format_4_99(folder: Path, notebook: Notebook) -> Path:
    return save(folder, {**notebook, "nbformat_minor": 99, "unheard_of": [1]})


@graded(says="notebook format 5 instead of 4")
def format_5(folder: Path, notebook: Notebook) -> Path:
    return save(folder, {**notebook, "nbformat": 5, "nbformat_minor": 0})


@graded(says="notebook format None instead of 4")
def no_format(folder: Path, notebook: Notebook) -> Path:
    del notebook["nbformat"], notebook["nbformat_minor"]
    return save(folder, notebook)


@graded(says="notebook format ['4'")
def odd_format(folder: Path, notebook: Notebook) -> Path:
    return save(folder, {**notebook, "nbformat": ["4"] * 10_000})


@graded()
def no_kernelspec(folder: Path, notebook: Notebook) -> Path:
    return save(folder, {**notebook, "metadata": {}})


@graded()
def unknown_kernelspec(folder: Path, notebook: Notebook) -> Path:
    notebook["metadata"] = {"kernelspec": {"name": "julia-1.9", "display_name": "Julia", "language": "julia"}}
    return save(folder, notebook)


@graded()
def odd_notebook_metadata(folder: Path, notebook: Notebook) -> Path:
    return save(folder, {**notebook, "metadata": ["not", "an", "object"]})


@graded()
def odd_cells(folder: Path, notebook: Notebook) -> Path:
    odd = [None, 7, "x", [], {}, {"cell_type": 3}, {"cell_type": "code"}, {"cell_type": "code", "source": 5}]
    odd += [{"cell_type": "video", "source": "x"}, {"cell_type": "code", "source": ["a = 1\n", None, 3]}]
    odd += [{"cell_type": "code", "source": "", "metadata": [1]}]
    odd += [{"cell_type": "code", "source": "b = 1", "metadata": {"nbgrader": "lost"}, "id": 7}]
    return save(folder, {**notebook, "cells": [*odd, *notebook["cells"], *odd]})


@graded()
def sources_as_strings(folder: Path, notebook: Notebook) -> Path:
    for raw in notebook["cells"]:
        raw["source"] = text_of(raw)
    return save(folder, notebook)


@graded()
def duplicate_cell_ids(folder: Path, notebook: Notebook) -> Path:
    for raw in notebook["cells"]:
        raw["id"] = "the-same"
    return save(folder, notebook)


@graded()
def every_cell_has_a_demonstrations_id(folder: Path, notebook: Notebook) -> Path:
    demonstration = notebook["cells"][place(notebook, "title_clip-code") + 1]["id"]
    for raw in notebook["cells"]:
        raw["id"] = demonstration
    return save(folder, notebook)


@graded()
def invalid_cell_ids(folder: Path, notebook: Notebook) -> Path:
    for number, raw in enumerate(notebook["cells"]):
        raw["id"] = [None, 7, "", "x" * 10_000, "not allowed!", {}][number % 6]
    return save(folder, notebook)


# --- names and places -------------------------------------------------------------------------------------------------


@graded()
def renamed_by_a_browser(folder: Path, notebook: Notebook) -> Path:
    return save(folder, notebook, f"{CHAPTER} (1).ipynb")


@graded()
def renamed_by_jupyter(folder: Path, notebook: Notebook) -> Path:
    return save(folder, notebook, f"{CHAPTER}-Copy1.ipynb")


@graded()
def renamed_altogether(folder: Path, notebook: Notebook) -> Path:
    return save(folder, notebook, "Hausaufgabe Zoë, final (2) FINAL.ipynb")


@graded()
def other_suffix(folder: Path, notebook: Notebook) -> Path:
    return save(folder, notebook, f"{CHAPTER}.ipynb.json")


@graded()
def in_another_folder(folder: Path, notebook: Notebook) -> Path:
    return save(folder, notebook, f"ch99_other/{NAME}")


@refused("there is no such file. Check the name and the folder.")
def missing(folder: Path, notebook: Notebook) -> Path:
    return folder / NAME


@refused("cannot be opened: Not a directory")
def below_a_file(folder: Path, notebook: Notebook) -> Path:
    return save(folder, notebook) / NAME


@refused("cannot be opened: File name too long")
def endless_name(folder: Path, notebook: Notebook) -> Path:
    return folder / f"{CHAPTER}{'-Copy1' * 500}.ipynb"


@refused("is a symbolic link, which is not followed")
def symbolic_link(folder: Path, notebook: Notebook) -> Path:
    target = save(folder, notebook, "somebody-elses.ipynb")
    (folder / NAME).symlink_to(target)
    return folder / NAME


@refused("is a symbolic link, which is not followed")
def symbolic_link_in_a_circle(folder: Path, notebook: Notebook) -> Path:
    (folder / NAME).symlink_to(folder / NAME)
    return folder / NAME


@refused("is not a regular file")
def named_pipe(folder: Path, notebook: Notebook) -> Path:
    os.mkfifo(folder / NAME)
    return folder / NAME


@refused("is not a regular file")
def directory(folder: Path, notebook: Notebook) -> Path:
    save(folder, notebook, f"{NAME}/{NAME}")
    return folder / NAME


@refused("is not a regular file")
def device(folder: Path, notebook: Notebook) -> Path:
    return Path("/dev/zero")


@refused("cannot be opened")
def unix_socket(folder: Path, notebook: Notebook) -> Path:
    before = os.getcwd()
    os.chdir(folder)  # the path of a socket may not be long
    try:
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(NAME)
    finally:
        os.chdir(before)
    return folder / NAME


SHADOWED = (
    "torch",
    "math",
    "random",
    "json",
    "numpy",
    "autograder",
    "pytest",
    "conftest",
    "sitecustomize",
    "test_ch01",
)


@graded()
def beside_modules_of_the_same_name(folder: Path, notebook: Notebook) -> Path:
    for module in SHADOWED:
        put(folder, b"import os\nos._exit(77)\n", f"{module}.py")
    put(folder, b"[pytest]\naddopts = --nonsense\n", "pytest.ini")
    notebook["cells"].insert(0, code("import math, random, json\nhalf = math.sqrt(0.25)"))
    return save(folder, notebook)


@graded()
def inside_a_forged_course(folder: Path, notebook: Notebook) -> Path:
    for top in ("exercises", "solutions"):
        put(folder, b"import os\nos._exit(77)\n", f"{top}/{CHAPTER}/test_{CHAPTER}.py")
        save(folder, notebook, f"{top}/{CHAPTER}/.starter.ipynb")
        save(folder, notebook, f"{top}/{CHAPTER}/{NAME}")
    return folder / "exercises" / CHAPTER / NAME


# --- solution cells ---------------------------------------------------------------------------------------------------


@graded(says="is there 2 times; the last changed one counts")
def solution_cell_copied(folder: Path, notebook: Notebook) -> Path:
    at = place(notebook, "frame_loss-code")
    notebook["cells"].insert(at + 1, copy.deepcopy(notebook["cells"][at]))
    return save(folder, notebook)


@graded(says="is there 2 times")
def original_kept_as_a_copy_below(folder: Path, notebook: Notebook) -> Path:
    at = place(notebook, "frame_loss-code")
    backup = copy.deepcopy(notebook["cells"][at])
    backup["source"] = notebook["starter"]["frame_loss-code"]
    notebook["cells"].insert(at + 1, backup)
    return save(folder, notebook)


@graded(says="is there 2 times")
def first_try_kept_above(folder: Path, notebook: Notebook) -> Path:
    at = place(notebook, "frame_loss-code")
    notebook["cells"].insert(at, {**copy.deepcopy(notebook["cells"][at]), "source": _STARTER_LOSS})
    return save(folder, notebook)


@graded(score=2, says="is there 2 times; the last changed one counts")
def wrong_try_below_a_right_one(folder: Path, notebook: Notebook) -> Path:
    at = place(notebook, "frame_loss-code")
    notebook["cells"].insert(at + 1, {**copy.deepcopy(notebook["cells"][at]), "source": _STARTER_LOSS})
    return save(folder, notebook)


@graded()
def solution_cell_split_before_the_function(folder: Path, notebook: Notebook) -> Path:
    """JupyterLab gives both halves the mark."""
    at = place(notebook, "frame_loss-code")
    lower = notebook["cells"][at]
    upper = {
        **copy.deepcopy(lower),
        "source": "import torch.nn.functional as F\n\n\ndef _column(p):\n    return p[:, 0]",
    }
    lower["source"] = "def frame_loss(prediction, target):\n    return F.mse_loss(_column(prediction), target)"
    notebook["cells"].insert(at, upper)
    return save(folder, notebook)


@graded()
def solution_cell_split_below_the_function(folder: Path, notebook: Notebook) -> Path:
    at = place(notebook, "frame_loss-code")
    lower = {**copy.deepcopy(notebook["cells"][at]), "source": "print(frame_loss(torch.ones(2, 1), torch.ones(2)))"}
    notebook["cells"].insert(at + 1, lower)
    return save(folder, notebook)


@graded(score=2)
def solution_cell_emptied(folder: Path, notebook: Notebook) -> Path:
    cell(notebook, "frame_loss-code")["source"] = []
    return save(folder, notebook)


@graded()
def solution_cell_emptied_and_its_code_elsewhere(folder: Path, notebook: Notebook) -> Path:
    source = text_of(cell(notebook, "frame_loss-code"))
    cell(notebook, "frame_loss-code")["source"] = []
    notebook["cells"].append(code(source))
    return save(folder, notebook)


@graded(score=2, says="Cell 'frame_loss-code' is missing; the notebook's original version stands in for it.")
def solution_cell_deleted(folder: Path, notebook: Notebook) -> Path:
    del notebook["cells"][place(notebook, "frame_loss-code")]
    return save(folder, notebook)


@graded(says="had lost its nbgrader mark; found by what it defines")
def solution_cell_deleted_and_written_anew(folder: Path, notebook: Notebook) -> Path:
    source = text_of(notebook["cells"].pop(place(notebook, "frame_loss-code")))
    notebook["cells"].insert(3, code(source))
    return save(folder, notebook)


@graded(says="what it should define was found in another cell")
def solution_cells_merged(folder: Path, notebook: Notebook) -> Path:
    source = text_of(notebook["cells"].pop(place(notebook, "frame_loss-code")))
    upper = cell(notebook, "take_clip-code")
    upper["source"] = text_of(upper) + "\n\n\n" + source
    return save(folder, notebook)


@graded(says="had been turned into markdown; it was read as code")
def solution_cell_turned_into_markdown(folder: Path, notebook: Notebook) -> Path:
    cell(notebook, "frame_loss-code")["cell_type"] = "markdown"
    return save(folder, notebook)


@graded(says="had been turned into raw; it was read as code")
def solution_cell_turned_into_raw(folder: Path, notebook: Notebook) -> Path:
    cell(notebook, "frame_loss-code")["cell_type"] = "raw"
    return save(folder, notebook)


@graded()
def solution_cell_moved_after_its_use(folder: Path, notebook: Notebook) -> Path:
    notebook["cells"].append(notebook["cells"].pop(place(notebook, "frame_loss-code")))
    return save(folder, notebook)


@graded()
def all_cells_in_reverse(folder: Path, notebook: Notebook) -> Path:
    notebook["cells"].reverse()
    return save(folder, notebook)


@graded(score=2, says="Cell 'frame_loss' does not parse: line 2: ")
def syntax_error_in_a_solution_cell(folder: Path, notebook: Notebook) -> Path:
    cell(notebook, "frame_loss-code")["source"] = "def frame_loss(prediction, target):\n    return (prediction - target"
    return save(folder, notebook)


@graded(says="does not parse")
def syntax_error_in_a_cell_of_ones_own(folder: Path, notebook: Notebook) -> Path:
    notebook["cells"].insert(4, code("for frame in clip\n    print(frame"))
    return save(folder, notebook)


@graded(says="does not parse: it is longer than")
def gigantic_cell(folder: Path, notebook: Notebook) -> Path:
    notebook["cells"].append(code("x = [\n" + "1, 2, 3,\n" * 1_000_000 + "]"))
    return save(folder, notebook)


@graded()
def cell_that_makes_a_parser_run_out_of_stack(folder: Path, notebook: Notebook) -> Path:
    notebook["cells"].append(code("if 0:\n    x = 0\n" + "elif 0:\n    x = 0\n" * 1_200))
    notebook["cells"].append(code("x = " + "(" * 150 + "-" * 50_000 + "1" + ")" * 150))
    return save(folder, notebook)


@graded()
def future_import_in_a_cell_of_ones_own(folder: Path, notebook: Notebook) -> Path:
    notebook["cells"].insert(0, code('"""My notes."""\nfrom __future__ import annotations\nimport torch'))
    return save(folder, notebook)


@graded()
def future_import_in_a_solution_cell(folder: Path, notebook: Notebook) -> Path:
    raw = cell(notebook, "frame_loss-code")
    head = "from __future__ import annotations, division, print_function\n\n\n"
    raw["source"] = head + text_of(raw).replace("prediction, target)", "prediction: Unknown, target: Also) -> Not", 1)
    return save(folder, notebook)


@graded(score=2, says="does not parse")
def future_import_that_does_not_exist(folder: Path, notebook: Notebook) -> Path:
    raw = cell(notebook, "frame_loss-code")
    raw["source"] = "from __future__ import braces this\n" + text_of(raw)
    return save(folder, notebook)


# --- marks, locked cells and grade cells ------------------------------------------------------------------------------


@graded(says="had lost its nbgrader mark; found by what it defines")
def all_metadata_lost(folder: Path, notebook: Notebook) -> Path:
    for raw in notebook["cells"]:
        raw["metadata"] = {}
    return save(folder, notebook)


@graded(says="had lost its nbgrader mark")
def all_metadata_lost_and_renamed(folder: Path, notebook: Notebook) -> Path:
    """As after a journey through a converter: what the cells define still tells what they are."""
    for raw in notebook["cells"]:
        raw["metadata"] = {}
    return save(folder, notebook, "Untitled.ipynb")


@graded(says="had lost its nbgrader mark")
def cells_without_metadata(folder: Path, notebook: Notebook) -> Path:
    for raw in notebook["cells"]:
        del raw["metadata"], raw["id"]
    return save(folder, notebook)


@graded(says="had its metadata changed; the original's were restored")
def solution_cell_locked(folder: Path, notebook: Notebook) -> Path:
    cell(notebook, "frame_loss-code")["metadata"]["nbgrader"] |= {"locked": True, "solution": False, "grade": True}
    return save(folder, notebook)


@graded(says="had its metadata changed")
def schema_version_1(folder: Path, notebook: Notebook) -> Path:
    for raw in notebook["cells"]:
        if "nbgrader" in raw["metadata"]:
            raw["metadata"]["nbgrader"]["schema_version"] = 1
    return save(folder, notebook)


@graded(says="had its metadata changed")
def schema_version_99(folder: Path, notebook: Notebook) -> Path:
    for raw in notebook["cells"]:
        if "nbgrader" in raw["metadata"]:
            raw["metadata"]["nbgrader"] |= {"schema_version": 99, "cell_type": "code", "checksum": "0"}
    return save(folder, notebook)


@graded()
def marks_exchanged(folder: Path, notebook: Notebook) -> Path:
    one, other = cell(notebook, "frame_loss-code"), cell(notebook, "take_clip-code")
    one["metadata"], other["metadata"] = other["metadata"], one["metadata"]
    return save(folder, notebook)


@graded()
def one_mark_for_all_cells(folder: Path, notebook: Notebook) -> Path:
    mark = cell(notebook, "frame_loss-code")["metadata"]
    for raw in notebook["cells"]:
        raw["metadata"] = mark
    return save(folder, notebook)


@graded()
def marks_of_odd_types(folder: Path, notebook: Notebook) -> Path:
    for number, raw in enumerate(notebook["cells"]):
        raw["metadata"]["nbgrader"] = [{"grade_id": 7}, {"grade_id": None, "points": "x"}, [], "mark", None][number % 5]
    return save(folder, notebook)


@graded(says="Cell 'frame_loss' is not for editing; its original was restored.")
def grade_cell_edited(folder: Path, notebook: Notebook) -> Path:
    cell(notebook, "frame_loss")["source"] = "2.0"
    return save(folder, notebook)


@graded(says="Cell 'frame_loss' is there 2 times; one was kept.")
def grade_cell_copied(folder: Path, notebook: Notebook) -> Path:
    notebook["cells"].append(copy.deepcopy(cell(notebook, "frame_loss")))
    return save(folder, notebook)


@graded(says="Cell 'frame_loss' was missing; it was put back.")
def grade_cell_deleted(folder: Path, notebook: Notebook) -> Path:
    del notebook["cells"][place(notebook, "frame_loss")]
    return save(folder, notebook)


@graded(says="Cell 'frame_loss' had its points changed; the original's were restored.")
def points_raised(folder: Path, notebook: Notebook) -> Path:
    cell(notebook, "frame_loss")["metadata"]["nbgrader"]["points"] = 1_000
    return save(folder, notebook)


@graded(says="had its points changed")
def points_that_are_no_number(folder: Path, notebook: Notebook) -> Path:
    cell(notebook, "frame_loss")["metadata"]["nbgrader"]["points"] = "many"
    cell(notebook, "take_clip")["metadata"]["nbgrader"]["points"] = -5
    return save(folder, notebook)


@graded(says="Cell 'given' is not for editing; its original was restored.")
def given_cell_edited(folder: Path, notebook: Notebook) -> Path:
    cell(notebook, "given")["source"] = "MEAN = STD = None\nraise SystemExit"
    return save(folder, notebook)


@graded(says="Cell 'setup' was missing; it was put back.")
def setup_cell_deleted(folder: Path, notebook: Notebook) -> Path:
    del notebook["cells"][place(notebook, "setup")]
    return save(folder, notebook)


# --- outputs ----------------------------------------------------------------------------------------------------------


@graded()
def stale_outputs(folder: Path, notebook: Notebook) -> Path:
    """Errors and warnings of an earlier run say nothing about the code that was handed in."""
    outputs = [
        {"output_type": "error", "ename": "RuntimeError", "evalue": "old", "traceback": ["\x1b[31mold\x1b[0m"]},
        {"output_type": "stream", "name": "stderr", "text": "a warning"},
        {"output_type": "execute_result", "execution_count": 3, "metadata": {}, "data": {"text/plain": "0.0"}},
    ]
    for raw in notebook["cells"]:
        if raw["cell_type"] == "code":
            raw |= {"outputs": outputs, "execution_count": 3}
    return save(folder, notebook)


@graded(score=0)
def starter_with_full_marks_in_its_outputs(folder: Path, notebook: Notebook) -> Path:
    full = {"output_type": "execute_result", "execution_count": 1, "metadata": {}, "data": {"text/plain": "2.0"}}
    for raw in notebook["cells"]:
        grade_id = raw["metadata"].get("nbgrader", {}).get("grade_id", "")
        raw["source"] = notebook["starter"].get(grade_id, raw["source"])
        if raw["cell_type"] == "code":
            raw["outputs"] = [full]
    return save(folder, notebook)


@graded()
def odd_outputs(folder: Path, notebook: Notebook) -> Path:
    for number, raw in enumerate(notebook["cells"]):
        raw["outputs"] = [None, "text", {"a": 1}, [7, {"output_type": "pizza"}]][number % 4]
        raw["execution_count"] = ["x", -1, {}][number % 3]
    return save(folder, notebook)
