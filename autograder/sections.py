"""The Markdown cell above a task: its heading, which is the symptom, and its hints, which are folded away."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from urllib.parse import quote

from autograder.notebook import Cell

_HEADING = re.compile(r"^##\s+(.+)$", re.MULTILINE)
_HINT = re.compile(r"<details>\s*<summary>(.*?)</summary>(.*?)</details>", re.DOTALL)
_EMPHASISED = re.compile(r"\*([^*]+)\*")


@dataclass(frozen=True)
class Hint:
    """One folded hint: its title, its text (Markdown), and what it emphasises (sections of the lesson among it)."""

    title: str
    text: str
    names: frozenset[str]


@dataclass(frozen=True)
class Section:
    """What a task's section of the exercise offers to go back to."""

    heading: str
    hints: tuple[Hint, ...]

    @property
    def anchor(self) -> str:
        """What a link to the section goes to on a page that nbconvert made: the heading's id."""
        return quote(self.heading.replace(" ", "-"), safe="?/:@!$&'()*+,;=")

    def hint_for(self, lessons: Collection[str]) -> str:
        """The title of the first hint that names one of these sections of the lesson, else of the first; "" if none."""
        naming = [hint.title for hint in self.hints if hint.names & set(lessons)]
        return next(iter(naming or [hint.title for hint in self.hints]), "")


def section_above(cells: Sequence[Cell], grade_id: str) -> Section:
    """The section that the cell *grade_id* stands in: of the last heading above it; empty where there is none."""
    found = Section("", ())
    for cell in cells:
        if cell.grade_id == grade_id:
            return found
        heading = _HEADING.search(cell.source) if cell.kind == "markdown" else None
        if heading is not None:
            found = Section(heading[1].strip(), tuple(_hint(*match) for match in _HINT.findall(cell.source)))
    return Section("", ())


def _hint(title: str, text: str) -> Hint:
    names = {" ".join(name.split()) for name in _EMPHASISED.findall(text)}
    return Hint(" ".join(title.split()), text.strip(), frozenset(names))
