"""Finds in what learners get a line that is not for them: of a hidden test, a reference, a variant or a fix."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from autograder import planting
from autograder.chapter import Chapter, find_chapters

_SAYS_SOMETHING = 25
"""Shorter lines (``return total / count``) are anybody's."""


def hidden_lines(chapter: Chapter) -> set[str]:
    """The lines of a chapter's hidden tests and references."""
    assert chapter.source is not None
    return lines(_texts_of(sorted((chapter.source / "hidden").glob("*.py"))))


def variant_lines(chapter: Chapter) -> set[str]:
    """The lines of its wheats, chaffs, decoys, and of whatever else lies in a folder below ``hidden``."""
    assert chapter.source is not None
    return lines(_texts_of(sorted((chapter.source / "hidden").glob("*/**/*.py"))))


def fix_lines(chapter: Chapter) -> set[str]:
    """The lines of its fixes."""
    regions = [region for cell in chapter.authored if cell.is_solution for region in planting.regions(cell.source)]
    return lines(line for region in regions for line in region.fix)


def lines(texts: Iterable[str]) -> set[str]:
    """The lines of texts, stripped, without those that are too short to say anything."""
    found = {line.strip() for text in texts for line in text.splitlines()}
    return {line for line in found if len(line) > _SAYS_SOMETHING}


@cache
def all_secrets(root: Path) -> frozenset[str]:
    """Every such line of the project at *root* that no author meant for learners anywhere: in any chapter, that is."""
    chapters = find_chapters(root).values()
    found = set().union(*(hidden_lines(c) | variant_lines(c) | fix_lines(c) for c in chapters))
    return frozenset(found - _in(_shown(root), found))


@cache
def _shown(root: Path) -> str:
    """What authors wrote for learners to see: visible tests, starters, lessons, the engine."""
    chapters = find_chapters(root).values()
    starters = [cell.source for chapter in chapters for cell in chapter.starter]
    files = [path for chapter in chapters for path in chapter.visible_tests]
    files += [*sorted((root / "course").rglob("*.py")), *sorted((root / "autograder").rglob("*.py"))]
    return "\n".join([*starters, *_texts_of(files)])


def _texts_of(paths: Iterable[Path]) -> list[str]:
    return [path.read_text(encoding="utf-8") for path in paths]


def leaks(files: Mapping[str, bytes], secrets: Iterable[str]) -> list[str]:
    """Which of the *secrets* are in *files* (names and contents), and where; notebooks are read cell by cell."""
    places = [(place, text) for name, content in files.items() for place, text in _places(name, content)]
    found = _in("\n".join({text for _, text in places}), secrets)
    return [f"{place}: {line}" for line in sorted(found) for place, text in places if line in text]


def _in(text: str, found: Iterable[str]) -> set[str]:
    """Which of the lines found are in a text. Looking for each by itself would take long."""
    length = _SAYS_SOMETHING + 1
    beginnings = {text[start : start + length] for start in range(len(text))}
    return {line for line in found if (len(line) < length or line[:length] in beginnings) and line in text}


def _places(name: str, content: bytes) -> Iterator[tuple[str, str]]:
    """The texts of a file as a reader sees them: without JSON's quoting, each with the place where it is."""
    text = content.decode("utf-8")
    if not name.endswith(".ipynb"):
        yield name, text
        return
    notebook = json.loads(text)
    for number, cell in enumerate(notebook.pop("cells"), start=1):
        yield f"{name}, cell {number}", "\n".join(_strings(cell))
    yield f"{name}, metadata", "\n".join(_strings(notebook))


def _strings(value: Any) -> Iterator[str]:
    """All strings in a piece of JSON; a list of lines, which is how notebooks keep a text, is one string."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, list) and all(isinstance(item, str) for item in value):
        yield "".join(value)
    elif isinstance(value, list):
        for item in value:
            yield from _strings(item)
    elif isinstance(value, dict):
        for key, item in value.items():
            yield key
            yield from _strings(item)


def read_folder(folder: Path) -> dict[str, bytes]:
    """All files below a folder, by name."""
    return {
        path.relative_to(folder).as_posix(): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()
    }
