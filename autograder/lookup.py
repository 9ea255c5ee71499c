"""Finds a chapter or a task by what a learner types; a wrong name is answered with those that are near it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from pathlib import PurePath

from autograder.chapter import Chapter, Task
from autograder.errors import ChapterError
from autograder.text import one_line


def chapter_called(chapters: Mapping[str, Chapter], name: str) -> Chapter:
    """The chapter *name*: in full, by its beginning (``ch01``) or number, or as the path of its folder or notebook.

    Raises :class:`ChapterError` with the names there are.
    """
    wanted = PurePath(name).name.removesuffix(".ipynb")
    if wanted.isdecimal():
        wanted = f"ch{int(wanted):02}_"
    found = [known for known in chapters if wanted and known.startswith(wanted)]
    if wanted in chapters:
        found = [wanted]
    if len(found) == 1:
        return chapters[found[0]]
    wrong = f"There is no chapter `{one_line(name)}` here.{_near(wanted, chapters)}"
    if found:
        wrong = f"Several chapters begin with `{wanted}`."
    raise ChapterError(f"{wrong} Chapters: {', '.join(chapters) or 'none'}.")


def task_called(chapters: Mapping[str, Chapter], name: str) -> tuple[Chapter, Task]:
    """The task *name*, or ``CHAPTER/TASK``, and its chapter.

    Raises :class:`ChapterError` where there is none, with names near to it, or where several chapters have it.
    """
    of_chapter, _, wanted = name.rpartition("/")
    among = [chapter_called(chapters, of_chapter)] if of_chapter else list(chapters.values())
    found = [(chapter, task) for chapter in among for task in chapter.tasks if task.name == wanted]
    if len(found) == 1:
        return found[0]
    if found:
        choices = " or ".join(f"`{chapter.name}/{wanted}`" for chapter, _ in found)
        raise ChapterError(f"Several chapters have a task `{wanted}`. Say which one you mean: {choices}.")
    meant = _near(wanted, [task.name for chapter in among for task in chapter.tasks])
    where = f" in {among[0].name}" if of_chapter else ""
    raise ChapterError(f"There is no task `{one_line(wanted)}`{where}.{meant} `autograder progress` lists all tasks.")


def _near(name: str, known: Iterable[str]) -> str:
    by_folded = {other.casefold(): other for other in known}
    near = [by_folded[other] for other in get_close_matches(name.casefold(), by_folded)]
    return f" Did you mean {' or '.join(f'`{other}`' for other in near)}?" if near else ""
