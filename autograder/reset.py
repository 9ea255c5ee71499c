"""Gives a task its starting code back: ``autograder reset``. The learner's version is put aside, never lost.

Only that task's solution cell is changed in the file. What is not sure to do what was asked for (the function is
defined in a second cell, too) is refused, with what to do.
"""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from autograder.chapter import STARTER_NAME, Chapter, Task
from autograder.errors import ChapterError, SubmissionRefused
from autograder.normalise import defined_names, normalise, places
from autograder.notebook import Cell, RawNotebook, parse, read
from autograder.program import read_program
from autograder.store import write_atomically
from autograder.text import one_line

FOLDER = "kept"
"""Where, in a course's folder, the versions are that were put aside."""
_INDENT = re.compile(r"\A\{\r?\n( +)")


@dataclass(frozen=True)
class Reset:
    """What would be done to one notebook; nothing has been yet."""

    path: Path
    task: str
    before: bytes
    """The file as it was read."""
    after: str
    """The file as it is to be."""
    theirs: str | None
    """The learner's version of the cell; None where the cell is lost."""
    starter: str

    def lines_changed(self) -> tuple[int, int]:
        """How many lines of the learner's would go, and how many would come back."""
        theirs, starter = (self.theirs or "").splitlines(), self.starter.splitlines()
        kept = sum(
            block.size for block in difflib.SequenceMatcher(None, theirs, starter, autojunk=False).get_matching_blocks()
        )
        return len(theirs) - kept, len(starter) - kept

    def keep(self, root: Path, chapter: str, now: datetime) -> Path | None:
        """Put the learner's version aside in the course at *root*; where it is, None where there is none.

        Raises :class:`ChapterError` where it cannot be written.
        """
        if self.theirs is None:
            return None
        folder = root / FOLDER / chapter
        try:
            folder.mkdir(parents=True, exist_ok=True)
            for name in _names(f"{self.task}-{now:%Y-%m-%d-%H%M%S}"):
                try:
                    with (folder / name).open("x", encoding="utf-8") as file:
                        file.write(self.theirs.rstrip("\n") + "\n")
                    return folder / name
                except FileExistsError:
                    continue
        except OSError as error:
            raise ChapterError(
                f"Your version could not be put aside in {folder}: {error.strerror}. So nothing was changed."
            ) from None
        raise AssertionError("unreachable")

    def write(self) -> None:
        """Change the notebook.

        Raises :class:`ChapterError` where it was saved since it was read, or cannot be written.
        """
        try:
            if self.path.read_bytes() != self.before:
                raise ChapterError(
                    f"{self.path} was saved just now, so it was left as it is. Run the same command again."
                )
            write_atomically(self.path, self.after)
        except OSError as error:
            raise ChapterError(f"{self.path} could not be written: {error.strerror}. It is as it was.") from None


def plan(chapter: Chapter, task: Task) -> Reset | None:
    """What giving *task* its starting code back would change in the learner's notebook; None where it has it already.

    Raises :class:`ChapterError` where that cannot be done, with what to do instead.
    """
    if chapter.exercise is None:
        raise ChapterError(f"{chapter.name} has no folder in exercises/.")
    path = chapter.exercise / f"{chapter.name}.ipynb"
    try:
        read(path)  # refuses links and the like
        before = path.read_bytes()
        submitted = parse(before, path.name)
        at = places(chapter.starter, submitted)
        content, indent = _content(before, path.name)
    except (SubmissionRefused, OSError) as error:
        raise ChapterError(_no_use(path, error)) from None
    if len(content["cells"]) != len(submitted.cells):
        raise ChapterError(_no_use(path, "Some of its cells cannot be read."))

    index = next(i for i, cell in enumerate(chapter.starter) if cell.grade_id == task.solution_cell)
    wanted = chapter.starter[index]
    theirs = submitted.cells[at[index]] if index in at else None
    if theirs is None:
        before_it = [at[i] for i in range(index) if i in at]
        content["cells"].insert(max(before_it, default=-1) + 1, _released_cell(chapter, task))
    else:
        _put(content["cells"][at[index]], wanted)

    text = json.dumps(content, indent=indent, ensure_ascii=False) + ("\n" if before.endswith(b"\n") else "")
    _would_do(chapter, task, submitted, parse(text.encode("utf-8", "backslashreplace")))
    if theirs is not None and theirs.kind == "code" and theirs.source.strip() == wanted.source.strip():
        return None
    return Reset(path, task.name, before, text, theirs.source if theirs is not None else None, wanted.source)


def _content(data: bytes, name: str) -> tuple[dict[str, Any], int | None]:
    """The file's JSON, and by how much it is indented; raises :class:`SubmissionRefused`."""
    try:
        text = data.decode("utf-8-sig")
        content = json.loads(text)
    except ValueError:
        raise SubmissionRefused(
            f"{name} is not written as JupyterLab writes notebooks, so it was left as it is."
        ) from None
    if content.get("nbformat") != 4 or not isinstance(content.get("cells"), list):
        raise SubmissionRefused(f"{name} has another notebook format than 4. Open it in JupyterLab and save it.")
    indented = _INDENT.match(text)
    return content, len(indented[1]) if indented else None


def _no_use(path: Path, problem: object) -> str:
    return (
        f"The task cannot be reset in this file. {problem}\n"
        f"The untouched copy is beside it: {path.parent / STARTER_NAME}. "
        "To begin the whole chapter anew, put yours somewhere safe and copy that one to its place."
    )


def _put(raw: dict[str, Any], wanted: Cell) -> None:
    """Make the cell of a file what was handed out; its outputs stay, and what else is in its metadata."""
    raw["source"] = _source(wanted.source, raw.get("source"))
    metadata = raw.get("metadata")
    raw["metadata"] = (metadata if isinstance(metadata, dict) else {}) | {"nbgrader": dict(wanted.nbgrader)}
    if raw["cell_type"] != "code":
        raw.pop("attachments", None)
        raw |= {"cell_type": "code", "execution_count": None, "outputs": []}


def _source(text: str, like: object) -> str | list[str]:
    """In the form in which the file has it: one string, or a list of lines."""
    return text if isinstance(like, str) else text.splitlines(keepends=True)


def _released_cell(chapter: Chapter, task: Task) -> dict[str, Any]:
    assert chapter.exercise is not None
    path = chapter.exercise / STARTER_NAME
    try:
        cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
        return next(c for c in cells if c["metadata"].get("nbgrader", {}).get("grade_id") == task.solution_cell)
    except (OSError, ValueError, LookupError, TypeError, AttributeError, StopIteration):
        raise ChapterError(f"{path} is missing or damaged. It is a file of the course itself; get it anew.") from None


def _would_do(chapter: Chapter, task: Task, before: RawNotebook, after: RawNotebook) -> None:
    """Whether the starting code would be what counts, and nothing else would be lost; else :class:`ChapterError`."""
    was, is_now = (normalise(chapter.starter, notebook).cells for notebook in (before, after))
    code = {cell.grade_id: cell.source for cell in is_now if cell.is_solution}
    for cell in was:
        if cell.is_solution and cell.grade_id != task.solution_cell and code[cell.grade_id] != cell.source:
            raise ChapterError(
                f"The cell of `{task.name}` holds the code of `{cell.grade_id.removesuffix('-code')}` as well, which "
                "would be lost. Open the notebook, split the cell between the two (Edit > Split Cell), save, and run "
                "this again."
            )
    names = defined_names(next(c.source for c in chapter.starter if c.grade_id == task.solution_cell))
    program = read_program(is_now)
    as_handed_out = {cell.source for cell in chapter.starter_program.cells}
    for statement in program.statements:
        source = program.cells[statement.cell].source
        if (both := names & statement.binds) and source not in as_handed_out:
            raise ChapterError(
                f"`{min(both)}` is defined in another cell as well, which begins with\n\n"
                f"    {one_line(source.strip().splitlines()[0], 80)}\n\n"
                "and that one would count. Remove that cell, or turn it into Markdown (Cell type: Markdown), save, "
                "and run this again."
            )


def _names(stem: str) -> Iterable[str]:
    yield f"{stem}.py"
    number = 2
    while True:
        yield f"{stem}-{number}.py"
        number += 1
