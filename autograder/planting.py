"""Planted bugs: one source for solution, starter and single-bug mutants.

A solution cell holds regions, each with the fix and, commented out below it, the bug that takes its place in the
learner's notebook::

    ### BEGIN SOLUTION V5
    frames = frames.permute(0, 3, 1, 2)
    ### BUG
    # n, h, w, c = frames.shape
    # frames = frames.view(n, c, h, w)
    ### END SOLUTION

The word behind ``BEGIN SOLUTION`` is the row of the syllabus. One format gives four things: the solution (every fix),
the starter (every bug), a mutant for each region (all fixes but one), and the difference to teach from.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from autograder.errors import PlantingError

_BEGIN = re.compile(r"^(?P<indent>\s*)### BEGIN SOLUTION(?:\s+(?P<pitfall>\S+))?\s*$")
_BUG = re.compile(r"^\s*### BUG\s*$")
_END = re.compile(r"^\s*### END SOLUTION\s*$")


@dataclass(frozen=True)
class Region:
    """One planted bug: its row of the syllabus and its two sides, as lines of source."""

    pitfall: str
    fix: tuple[str, ...]
    bug: tuple[str, ...]


def _uncomment(line: str, cell: str, number: int) -> str:
    body = line.lstrip()
    indent = line[: len(line) - len(body)]
    if not body:
        return ""
    if not body.startswith("#"):
        raise PlantingError(f"{cell}, line {number}: the bug's lines must be commented out, but found {body!r}")
    return (indent + body[1:].removeprefix(" ")).rstrip()


def split(source: str, cell: str = "cell") -> Iterator[str | Region]:
    """The pieces of a solution cell in order: plain lines (``str``) and :class:`Region`.

    Raises :class:`PlantingError` for a marker without its partner, a region without a bug, or a bug not commented out.
    """
    pitfall = ""
    side: list[str] | None = None
    fix: list[str] = []
    bug: list[str] = []
    for number, line in enumerate(source.splitlines(), start=1):
        if begin := _BEGIN.match(line):
            if side is not None:
                raise PlantingError(f"{cell}, line {number}: BEGIN SOLUTION inside another region; add END SOLUTION")
            fix, bug = [], []
            side, pitfall = fix, begin["pitfall"] or ""
        elif _BUG.match(line):
            if side is not fix:
                raise PlantingError(f"{cell}, line {number}: BUG belongs between BEGIN SOLUTION and END SOLUTION")
            side = bug
        elif _END.match(line):
            if side is not bug or not any(text.strip() for text in bug):
                raise PlantingError(f"{cell}, line {number}: END SOLUTION without a planted bug above it")
            yield Region(pitfall, tuple(fix), tuple(bug))
            side = None
        elif side is None:
            yield line
        else:
            side.append(_uncomment(line, cell, number) if side is bug else line)
    if side is not None:
        raise PlantingError(f"{cell}: the last region is not closed; add END SOLUTION")


def regions(source: str, cell: str = "cell") -> list[Region]:
    """The regions of a cell, in order; empty for a cell without markers."""
    return [piece for piece in split(source, cell) if isinstance(piece, Region)]


def render(source: str, planted: Callable[[int, Region], bool], cell: str = "cell") -> str:
    """The cell without markers: a region shows its bug where ``planted(index, region)``, else its fix."""
    lines: list[str] = []
    index = 0
    for piece in split(source, cell):
        if isinstance(piece, Region):
            lines += piece.bug if planted(index, piece) else piece.fix
            index += 1
        else:
            lines.append(piece)
    return "\n".join(lines)


def solution(source: str, cell: str = "cell") -> str:
    """The cell with every fix."""
    return render(source, lambda index, region: False, cell)


def starter(source: str, cell: str = "cell") -> str:
    """The cell with every bug: what the learner gets."""
    return render(source, lambda index, region: True, cell)


def mutants(source: str, cell: str = "cell") -> list[tuple[Region, str]]:
    """For each region of the cell: the region, and the cell in which this region alone shows its bug."""

    def with_one_bug(chosen: int) -> str:
        return render(source, lambda index, region: index == chosen, cell)

    return [(region, with_one_bug(number)) for number, region in enumerate(regions(source, cell))]
