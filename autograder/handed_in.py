"""Finds what was handed in: nbgrader's ``submitted/<student>/<chapter>/`` trees, or notebooks named one by one.

Nothing here follows a link or runs anything.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path

from autograder.chapter import Chapter, chapter_named, chapter_of
from autograder.errors import SubmissionRefused
from autograder.normalise import Normalised, normalise
from autograder.notebook import read
from autograder.text import printable

_MOST_NAMED = 5
_MOST_NOTEBOOKS = 20
_MOST_FOLDERS = 1_000
_DEEPEST = 20
"""How far notebooks are looked for that are not in their place; somebody may have handed in any number of them."""


@dataclass(frozen=True)
class HandedIn:
    """One student's work on one chapter; ``path`` is the notebook, or where it should be."""

    student: str
    chapter: str
    path: Path


@dataclass(frozen=True)
class Stray:
    """Something among what was handed in that cannot be given to a chapter, and why."""

    student: str
    path: Path
    reason: str


def locate(expected: Path) -> Path:
    """The file that a learner meant: in its place, or the only notebook in its folder or below it.

    Raises :class:`SubmissionRefused` where there is none, or more than one.
    """
    if os.path.islink(expected.parent):
        raise SubmissionRefused("The submitted folder is a symbolic link, which is not followed.")
    if os.path.lexists(expected):
        return expected
    found = list(islice(_notebooks(expected.parent), _MOST_NAMED + 1))
    if not found:
        raise SubmissionRefused(f"No notebook was handed in: {expected.name} is missing.")
    if len(found) > 1:
        names = ", ".join(str(path.relative_to(expected.parent)) for path in found[:_MOST_NAMED])
        more = " and more" if len(found) > _MOST_NAMED else ""
        raise SubmissionRefused(
            f"{expected.name} is missing, and there are several notebooks in its place: {names}{more}."
        )
    return found[0]


def open_submission(expected: Path, chapter: Chapter) -> Normalised:
    """What was handed in at *expected*, laid into the chapter's pristine notebook.

    Raises :class:`SubmissionRefused` where it holds nothing that could be graded.
    """
    found = locate(expected)
    laid = normalise(chapter.starter, read(found), found.name)
    if found == expected:
        return laid
    note = printable(f"The notebook was handed in as {found.relative_to(expected.parent)}.")
    return replace(laid, notes=(note, *laid.notes))


def is_notebook(path: Path) -> bool:
    """Whether *path* is meant to be one notebook, whatever is there, and not a folder of them."""
    # pathlib's ways to ask raise for some names
    return path.suffix == ".ipynb" or os.path.islink(path) or not os.path.isdir(path)


def find_handed_in(
    paths: Sequence[Path], chapters: Mapping[str, Chapter], only: str | None = None
) -> tuple[list[HandedIn], list[Stray]]:
    """What *paths* hold, sorted by student and chapter, and what of it cannot be graded; *only* names a chapter.

    A path is a notebook, a folder of students (nbgrader's ``submitted``), one student's folder, or one chapter's folder
    in it.
    """
    found: list[HandedIn | Stray] = []
    for path in paths:
        found += _in_path(path, chapters)
    # in the order found where one chapter was handed in twice: what lies in its place comes before copies elsewhere
    handed_in = sorted(dict.fromkeys(h for h in found if isinstance(h, HandedIn)), key=lambda h: (h.student, h.chapter))
    strays = [stray for stray in found if isinstance(stray, Stray)]
    known: dict[tuple[str, str], HandedIn] = {}
    for one in handed_in:
        if only is not None and one.chapter != only:
            continue
        first = known.setdefault((one.student, one.chapter), one)
        if first is not one:
            reason = f"{one.student} has handed in {one.chapter} twice; graded is {first.path}. Leave one of them."
            strays.append(Stray(one.student, one.path, reason))
    return list(known.values()), strays


def _in_path(path: Path, chapters: Mapping[str, Chapter]) -> Iterator[HandedIn | Stray]:
    student = Path(os.path.abspath(path)).parent.name
    if is_notebook(path):
        # an exercise that is graded where it was worked on belongs to nobody by name
        in_place = student in chapters
        yield _single(Path(os.path.abspath(path)).parent.parent.name if in_place else path.stem, path, chapters)
    elif path.resolve().name in chapters:
        yield HandedIn(student, path.resolve().name, path / f"{path.resolve().name}.ipynb")
    elif _holds_chapters(path, chapters) and not any(
        _holds_chapters(path / name, chapters) for name in os.listdir(path) if name not in chapters
    ):
        yield from _of_student(path, chapters)
    else:  # a class, also where some student is named like a chapter
        yield from _of_students([path / name for name in sorted(os.listdir(path))], path, chapters)


def _holds_chapters(folder: Path, chapters: Mapping[str, Chapter]) -> bool:
    return any(os.path.isdir(folder / name) for name in chapters)


def _of_students(folders: Iterable[Path], top: Path, chapters: Mapping[str, Chapter]) -> Iterator[HandedIn | Stray]:
    anybody = False
    for folder in folders:
        if folder.name.startswith(".") and not _holds_chapters(folder, chapters):
            continue
        if os.path.islink(folder):
            yield Stray(folder.name, folder, "This is a symbolic link, which is not followed. Copy what it points to.")
        elif os.path.isdir(folder):
            yield from _of_student(folder, chapters)
        else:
            continue  # timestamps, archives: nbgrader leaves such things as well
        anybody = True
    if not anybody:
        yield Stray("", top, f"There is no student's folder in {top}. Expected: {top}/<student>/<chapter>/.")


def _of_student(folder: Path, chapters: Mapping[str, Chapter]) -> Iterator[HandedIn | Stray]:
    """A folder for each chapter; notebooks that lie elsewhere are given to the chapter that they are about."""
    present = [name for name in chapters if os.path.lexists(folder / name)]  # a folder; whatever else it is is refused
    yield from (HandedIn(folder.name, name, folder / name / f"{name}.ipynb") for name in present)
    others = (path for path in _notebooks(folder) if path.relative_to(folder).parts[0] not in present)
    elsewhere = list(islice(others, _MOST_NOTEBOOKS + 1))
    yield from (_single(folder.name, path, chapters) for path in elsewhere[:_MOST_NOTEBOOKS])
    if len(elsewhere) > _MOST_NOTEBOOKS:
        yield Stray(
            folder.name, folder, f"Only {_MOST_NOTEBOOKS} notebooks outside of chapters' folders are looked at."
        )
    if not present and not elsewhere:
        yield Stray(folder.name, folder, "Nothing was handed in: there is no notebook in this folder.")


def _single(student: str, path: Path, chapters: Mapping[str, Chapter]) -> HandedIn | Stray:
    try:
        named = chapter_named(path, dict(chapters))  # then it is graded, or refused, whatever is in it
        chapter = named if named is not None else chapter_of(path, dict(chapters), read(path))
        return HandedIn(student, chapter.name, path)
    except SubmissionRefused as refusal:
        return Stray(student, path, str(refusal))


def _notebooks(folder: Path) -> Iterator[Path]:
    """The notebooks in a folder and below it, in order; hidden ones and JupyterLab's own copies left out."""
    for place, folders, names in islice(os.walk(folder), _MOST_FOLDERS):
        deep = len(Path(place).parts) - len(folder.parts) >= _DEEPEST
        folders[:] = [] if deep else sorted(name for name in folders if name != ".ipynb_checkpoints")
        for name in sorted(names):
            if name.endswith(".ipynb") and not name.startswith("."):
                yield Path(place) / name
