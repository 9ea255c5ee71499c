"""Finds what was handed in: nbgrader's ``submitted/<student>/<chapter>/`` trees, or notebooks named one by one.

Nothing here follows a link or runs anything.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from autograder.chapter import Chapter, chapter_of
from autograder.errors import SubmissionRefused
from autograder.normalise import Normalised, normalise
from autograder.notebook import read


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
    if expected.parent.is_symlink():
        raise SubmissionRefused("The submitted folder is a symbolic link, which is not followed.")
    if expected.exists() or expected.is_symlink():
        return expected
    found = list(_notebooks(expected.parent))
    if not found:
        raise SubmissionRefused(f"No notebook was handed in: {expected.name} is missing.")
    if len(found) > 1:
        names = ", ".join(str(path.relative_to(expected.parent)) for path in found)
        raise SubmissionRefused(f"{expected.name} is missing, and there are several notebooks in its place: {names}.")
    return found[0]


def open_submission(expected: Path, chapter: Chapter) -> Normalised:
    """What was handed in at *expected*, laid into the chapter's pristine notebook.

    Raises :class:`SubmissionRefused` where it holds nothing that could be graded.
    """
    found = locate(expected)
    laid = normalise(chapter.starter, read(found), found.name)
    if found == expected:
        return laid
    note = f"The notebook was handed in as {found.relative_to(expected.parent)}."
    return replace(laid, notes=(note, *laid.notes))


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
    handed_in = sorted({h for h in found if isinstance(h, HandedIn)}, key=lambda h: (h.student, h.chapter, h.path))
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
    if os.path.islink(path) or not os.path.isdir(path):  # pathlib's raise for some names
        # an exercise that is graded where it was worked on belongs to nobody by name
        in_place = student in chapters
        yield _single(Path(os.path.abspath(path)).parent.parent.name if in_place else path.stem, path, chapters)
    elif path.resolve().name in chapters:
        yield HandedIn(student, path.resolve().name, path / f"{path.resolve().name}.ipynb")
    elif any((path / name).is_dir() for name in chapters):
        yield from _of_student(path, chapters)
    else:
        yield from _of_students(sorted(path.iterdir()), path, chapters)


def _of_students(folders: Iterable[Path], top: Path, chapters: Mapping[str, Chapter]) -> Iterator[HandedIn | Stray]:
    anybody = False
    for folder in folders:
        if folder.name.startswith("."):
            continue
        if folder.is_symlink():
            yield Stray(folder.name, folder, "This is a symbolic link, which is not followed. Copy what it points to.")
        elif folder.is_dir():
            yield from _of_student(folder, chapters)
        else:
            continue  # timestamps, archives: nbgrader leaves such things as well
        anybody = True
    if not anybody:
        yield Stray("", top, f"There is no student's folder in {top}. Expected: {top}/<student>/<chapter>/.")


def _of_student(folder: Path, chapters: Mapping[str, Chapter]) -> Iterator[HandedIn | Stray]:
    """A folder for each chapter; notebooks that lie elsewhere are given to the chapter that they are about."""
    present = [name for name in chapters if (folder / name).is_dir()]
    yield from (HandedIn(folder.name, name, folder / name / f"{name}.ipynb") for name in present)
    elsewhere = [path for path in _notebooks(folder) if path.relative_to(folder).parts[0] not in present]
    yield from (_single(folder.name, path, chapters) for path in elsewhere)
    if not present and not elsewhere:
        yield Stray(folder.name, folder, "Nothing was handed in: there is no notebook in this folder.")


def _single(student: str, path: Path, chapters: Mapping[str, Chapter]) -> HandedIn | Stray:
    try:
        return HandedIn(student, chapter_of(path, dict(chapters), read(path)).name, path)
    except SubmissionRefused as refusal:
        return Stray(student, path, str(refusal))


def _notebooks(folder: Path) -> Iterator[Path]:
    """The notebooks in a folder and below it, in order; hidden ones and JupyterLab's own copies left out."""
    for place, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if name != ".ipynb_checkpoints")
        for name in sorted(names):
            if name.endswith(".ipynb") and not name.startswith("."):
                yield Path(place) / name
