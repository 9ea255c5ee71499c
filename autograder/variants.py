"""Wheats and chaffs: files of alternative solutions for one task, a section for each.

A section starts with ``# %% its-name``, then comment lines ``# key: value`` (its facts), then the source that takes the
place of the task's solution cell. Facts in use: ``fails`` (names of the tests that must fail, separated by commas),
``says`` (a part of the message that the learner must get), ``silent`` (wrong without an error, see a chapter's tests).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from autograder.errors import ChapterError

_HEADER = re.compile(r"^# %% ([\w-]+)\s*$", re.MULTILINE)
_FACT = re.compile(r"^# (\w+): (.*)$")


@dataclass(frozen=True)
class Variant:
    """One alternative for a task's solution cell."""

    task: str
    name: str
    source: str
    facts: Mapping[str, str]


def read_variants(path: Path) -> list[Variant]:
    """The sections of a file named after its task; raises :class:`ChapterError` for one without a body."""
    pieces = _HEADER.split(path.read_text(encoding="utf-8"))
    variants = []
    for name, body in zip(pieces[1::2], pieces[2::2], strict=True):
        lines = body.strip("\n").splitlines()
        facts = {}
        while lines and (fact := _FACT.match(lines[0])):
            facts[fact[1]] = fact[2].strip()
            lines.pop(0)
        source = "\n".join(lines).strip("\n")
        if not source:
            raise ChapterError(f"{path}: section {name!r} is empty")
        variants.append(Variant(path.stem, name, source, facts))
    return variants
