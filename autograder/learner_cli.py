"""The learner's commands: ``autograder progress``, ``watch``, ``hint`` and ``reset``.

What they need is imported when one of them runs: ``autograder --help`` must not wait for it.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from autograder.chapter import Chapter


def add_commands(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the learner's commands to those of ``autograder``; each sets ``run`` to what carries it out."""
    progress = commands.add_parser(
        "progress",
        help="show which tasks are done",
        description="Show which tasks are done, their points, and what to do next, by the last check of each task.",
    )
    progress.add_argument("chapter", nargs="?", metavar="CHAPTER", help="this chapter alone, such as ch01")
    progress.set_defaults(run=_progress)

    watch = commands.add_parser(
        "watch",
        help="check tasks whenever you save a notebook",
        description="Wait for saves of exercise notebooks, and check the tasks whose code has changed. Ctrl-C ends it.",
    )
    watch.add_argument("chapter", nargs="?", metavar="CHAPTER", help="this chapter alone, such as ch01")
    watch.set_defaults(run=_watch)

    hint = commands.add_parser(
        "hint", help="open a task's next hint", description="Show the next hint of a task, the same as in its notebook."
    )
    hint.add_argument("task", nargs="?", metavar="TASK", help="a task's name, or CHAPTER/TASK (default: the next open)")
    which = hint.add_mutually_exclusive_group()
    which.add_argument("--all", action="store_true", help="show once more what has been opened so far")
    which.add_argument("--again", action="store_true", help="begin with the first hint again")
    hint.set_defaults(run=_hint)

    reset = commands.add_parser(
        "reset",
        help="give a task its starting code back",
        description="Give a task its starting code back. Your version is put aside, in the course's folder kept/.",
    )
    reset.add_argument("task", metavar="TASK", help="a task's name, or CHAPTER/TASK")
    reset.add_argument("--yes", action="store_true", help="don't ask")
    reset.set_defaults(run=_reset)


def _course() -> tuple[Path, dict[str, Chapter]]:
    """The course that the working folder is in, and its chapters; raises :class:`ChapterError` where there is none."""
    from autograder.chapter import find_chapters, find_root
    from autograder.errors import ChapterError

    root = find_root(Path.cwd())
    chapters = {name: chapter for name, chapter in find_chapters(root).items() if chapter.exercise is not None}
    if not chapters:
        raise ChapterError(f"There are no exercises in {root / 'exercises'}. Run this inside the course's folder.")
    return root, chapters


def _chosen(chapters: dict[str, Chapter], name: str | None) -> list[Chapter]:
    from autograder.lookup import chapter_called

    return list(chapters.values()) if name is None else [chapter_called(chapters, name)]


def _progress(options: argparse.Namespace) -> int:
    from autograder.progress import Diary
    from autograder.progress_table import advice, table

    root, chapters = _course()
    standings = [Diary(root).standing(chapter) for chapter in _chosen(chapters, options.chapter)]
    _say(table(standings))
    _say(advice(standings, chapters))
    return 0


def _watch(options: argparse.Namespace) -> int:
    root, chapters = _course()
    chosen = _chosen(chapters, options.chapter)
    which = f"exercises/{chosen[0].name}" if len(chosen) == 1 else f"{len(chosen)} chapters in exercises"
    _say(f"Watching {which}. Save a notebook, and the tasks that you have changed are checked. Ctrl-C ends this.")
    for name in ("SIGTERM", "SIGHUP"):  # a terminal that is closed: end as by Ctrl-C, and leave nothing behind
        if hasattr(signal, name):
            signal.signal(getattr(signal, name), signal.default_int_handler)
    try:
        from autograder.submission import Host
        from autograder.watch import Watch, saves

        with Host("none") as host:
            watch = Watch(root, chosen, host, _say)
            _say(f"{watch.what_is_open()}\n")
            host.runner(warm=chosen[0].warm).close()  # so that the first check need not wait for torch
            watch.run(saves(root, watch.notebooks))
    except KeyboardInterrupt:
        _say("")
    return 0


def _say(text: str) -> None:
    try:
        print(text, flush=True)  # somebody waits for it, also behind a pipe
    except BrokenPipeError:  # who reads it, such as `head`, has read enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # Python writes what is left when it ends
        sys.exit(1)


def _hint(options: argparse.Namespace) -> int:
    from autograder.hints import next_hint, opened_hints
    from autograder.lookup import task_called
    from autograder.progress import Diary
    from autograder.progress_table import next_in_words

    root, chapters = _course()
    chapter, task = task_called(chapters, options.task or _next_open(root, chapters))
    if not options.task:
        _say(f"{next_in_words(chapter.name, task.name)}\n")
    if options.all:
        _say(opened_hints(chapter, task, Diary(root)))
    else:
        _say(next_hint(chapter, task, Diary(root), again=options.again))
    return 0


def _next_open(root: Path, chapters: dict[str, Chapter]) -> str:
    """The task that comes next, as CHAPTER/TASK; raises :class:`ChapterError` where all are done."""
    from autograder.errors import ChapterError
    from autograder.progress import Diary
    from autograder.progress_table import next_open

    following = next_open([Diary(root).standing(chapter) for chapter in chapters.values()])
    if following is None:
        raise ChapterError("All tasks are done. Name the task whose hints you want to see.")
    return "/".join(following)


def _reset(options: argparse.Namespace) -> int:
    from autograder.errors import ClinicError
    from autograder.lookup import task_called
    from autograder.progress import Diary
    from autograder.reset import plan

    root, chapters = _course()
    chapter, task = task_called(chapters, options.task)
    reset = plan(chapter, task)
    if reset is None:
        print(f"`{task.name}` has its starting code already. Nothing was changed.")
        return 0
    if reset.theirs is None:
        print(f"The cell of `{task.name}` is not in {reset.path.relative_to(root)} any more. It would be laid back.")
    else:
        gone, back = reset.lines_changed()
        where = reset.path.relative_to(root)
        print(f"{where}, `{task.name}`: {_lines(gone)} of yours would go, {_lines(back)} would come back.")
    if not options.yes and not sys.stdin.isatty():
        raise ClinicError(
            "Nobody can be asked here, so nothing was changed. "
            f"`autograder reset {options.task} --yes` does it without asking."
        )
    if not options.yes and not _agrees(f"Give `{task.name}` its starting code back? Your version is kept. [y/N] "):
        print("Nothing was changed.")
        return 1
    kept = reset.keep(root, chapter.name, datetime.now())
    reset.write()
    Diary(root).forget(chapter.name, task.name)
    print(f"`{task.name}` has its starting code back." + (f" Yours is in {kept.relative_to(root)}." if kept else ""))
    if kept:
        print("To have that again, paste what is in that file into the task's cell.")
    print("Is the notebook open in JupyterLab? Then: File > Reload Notebook from Disk, before you save there.")
    return 0


def _lines(number: int) -> str:
    return "1 line" if number == 1 else f"{number} lines"


def _agrees(question: str) -> bool:
    try:
        return input(question).strip().casefold() in ("y", "yes")
    except (EOFError, KeyboardInterrupt):
        print()
        return False
