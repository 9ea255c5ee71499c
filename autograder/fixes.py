"""What a learner has changed in a chapter: for each task, the code as handed out beside their own, as a diff."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

from autograder.chapter import Chapter, Task
from autograder.errors import SubmissionRefused
from autograder.normalise import normalise
from autograder.notebook import Cell, read
from autograder.program import read_program
from autograder.rendering import BAD, GOOD

_CONTEXT = 2
"""Unchanged lines shown around a change."""
_SKIPPED = "…"
_COLOURS = {"+": GOOD, "-": BAD}


@dataclass(frozen=True)
class Fix:
    """One task's change; ``lines`` are a diff's: ``+``, ``-`` or a blank in front of each, ``…`` for lines left out."""

    task: str
    heading: str
    """The symptom: the heading of the task's section in the exercise."""
    lines: tuple[str, ...]


@dataclass(frozen=True)
class Fixes:
    """What was fixed in a chapter, to be shown in a notebook or printed."""

    chapter: str
    fixes: tuple[Fix, ...]

    @property
    def text(self) -> str:
        """All changes as lines of text."""
        parts = [f"What you fixed in {self.chapter}: - the code as it was handed out, + yours."]
        for fix in self.fixes:
            body = [f"  {line}" for line in fix.lines] or ["  No difference to the code that was handed out."]
            parts.append("\n".join([f"{fix.heading} (`{fix.task}`)", *body]))
        return "\n\n".join(parts) + "\n"

    def __repr__(self) -> str:
        return self.text

    def _repr_html_(self) -> str:
        key = "lines with − were handed out, lines with + are yours."
        head = f"<p><b>What you fixed</b> in {escape(self.chapter)}: {key}</p>"
        return head + "".join(map(_fix_html, self.fixes))


def _fix_html(fix: Fix) -> str:
    """Folded; signs tell what colours tell."""
    summary = f"<summary>{escape(fix.heading)} (<code>{escape(fix.task)}</code>)</summary>"
    if not fix.lines:
        return f"<details>{summary}<p>No difference to the code that was handed out.</p></details>"
    return f"<details>{summary}<pre>{chr(10).join(map(_line_html, fix.lines))}</pre></details>"


def _line_html(line: str) -> str:
    colour = _COLOURS.get(line[:1])
    text = escape(line.replace("-", "−", 1) if line[:1] == "-" else line)
    return f'<span style="color:{colour}">{text}</span>' if colour else text


def fixes_of(chapter: Chapter, namespace: Mapping[str, Any]) -> Fixes:
    """What was changed in *chapter*, as the kernel with *namespace* has run it.

    A task's code is the last cell run that defines its function; where the kernel has run none, the saved notebook's.
    """
    saved = _saved_sources(chapter)
    handed_out = {cell.grade_id: cell.source for cell in chapter.starter if cell.is_solution}
    found = []
    for task in chapter.tasks:
        before = handed_out[task.solution_cell]
        after = _last_run(_names(task, before), namespace) or saved.get(task.solution_cell, before)
        found.append(Fix(task.name, chapter.section(task.name).heading, tuple(_difference(before, after))))
    return Fixes(chapter.name, tuple(found))


def _names(task: Task, source: str) -> frozenset[str]:
    """What a cell has to define to be the task's."""
    bound = frozenset().union(*(statement.binds for statement in read_program([Cell("code", source)]).statements))
    return frozenset({task.name}) if task.name in bound else bound


def _last_run(names: frozenset[str], namespace: Mapping[str, Any]) -> str:
    """The last cell that an IPython kernel has run and that defines *names*; "" where there is none."""
    history: Sequence[str] = namespace.get("In", ())
    for source in reversed(history):
        # what does not mention the names need not be parsed
        if names and all(name in source for name in names):
            program = read_program([Cell("code", source)])
            if all(program.defines(name) for name in names):
                return source
    return ""


def _saved_sources(chapter: Chapter) -> dict[str, str]:
    """The solution cells of the notebook as last saved: grade_id -> source; empty where it cannot be read."""
    if chapter.exercise is None:
        return {}
    try:
        saved = normalise(chapter.starter, read(chapter.exercise / f"{chapter.name}.ipynb"))
    except SubmissionRefused:
        return {}
    return {cell.grade_id: cell.source for cell in saved.cells if cell.is_solution}


def _difference(before: str, after: str) -> Iterator[str]:
    """A unified diff without its headers; where lines are left out stands ``…``."""
    old, new = before.rstrip().splitlines(), after.rstrip().splitlines()
    lines = difflib.unified_diff(old, new, n=_CONTEXT, lineterm="")
    for number, line in enumerate(list(lines)[2:]):  # behind the names of the two files
        if not line.startswith("@@"):
            yield line
        elif number:
            yield _SKIPPED
