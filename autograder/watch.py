"""``autograder watch``: each save of an exercise notebook is answered with the checks of the tasks that it changed."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from watchfiles import watch

from autograder.chapter import Chapter
from autograder.errors import ClinicError, SubmissionRefused
from autograder.grading import Grading
from autograder.needs import Needs, needs_of
from autograder.normalise import Normalised, normalise
from autograder.notebook import read
from autograder.program import Program, read_program
from autograder.progress import Diary
from autograder.progress_table import in_one_line, next_in_words, next_open
from autograder.rendering import task_text
from autograder.submission import Host
from autograder.testbar import TestBar

_QUIET_MS = 1_000
"""After so long without an event, files are looked at all the same: some network folders report no events."""

_ALL_DONE = "All tasks are done. In a chapter's notebook, `what_you_fixed()` shows what you have changed."

Stamp = tuple[int, int, int] | None


def saves(root: Path, notebooks: Collection[Path]) -> Iterator[bool]:
    """True soon after one of the *notebooks* in the course at *root* may have changed, False now and then if none has.

    Events of a check's time are there afterwards, as one.
    """
    names = {str(path) for path in notebooks}
    events = watch(
        root / "exercises",
        watch_filter=lambda change, path: path in names,
        rust_timeout=_QUIET_MS,
        yield_on_timeout=True,
        raise_interrupt=True,
    )
    return (bool(changes) for changes in events)


@dataclass
class _Watched:
    """One notebook, and what of it has been seen and checked."""

    chapter: Chapter
    path: Path
    needs: dict[str, Needs]
    checked: dict[str, object]
    """task -> what of the notebook its tests run, when they were last run."""
    seen: Stamp
    broken: bool = False
    """Whether it could not be read when it was seen last, and nothing was said: it may be half written."""
    notes: tuple[str, ...] = ()


class Watch:
    """Checks what has been saved; what it has to say goes to *say*, a line or several at a time."""

    def __init__(self, root: Path, chapters: Sequence[Chapter], host: Host, say: Callable[[str], None]) -> None:
        self._chapters = chapters
        self._diary = Diary(root)
        self._host = host
        self._say = say
        self._watched = [_first_look(chapter) for chapter in chapters]

    @property
    def notebooks(self) -> list[Path]:
        """The files that are watched."""
        return [one.path for one in self._watched]

    def run(self, wake_ups: Iterable[bool]) -> None:
        """Look at the notebooks at each of the *wake_ups*, see :func:`saves`, until these end."""
        for busy in wake_ups:
            for one in self._watched:
                self._look(one, quiet=not busy)

    def what_is_open(self) -> str:
        """Which task comes next, as a line."""
        following = next_open([self._diary.standing(chapter) for chapter in self._chapters])
        return next_in_words(*following) if following else _ALL_DONE

    def _look(self, one: _Watched, quiet: bool) -> None:
        stamp = _stamp(one.path)
        is_new, one.seen = stamp != one.seen, stamp
        if not is_new and not (one.broken and quiet):
            return
        try:
            submission = normalise(one.chapter.starter, read(one.path), one.path.name)
        except SubmissionRefused as refusal:
            if not is_new:  # nobody is writing it any more
                self._say(f"{_now()}  {one.chapter.name}: {refusal}\n")
            one.broken = is_new
            return
        one.broken = False
        if _stamp(one.path) != stamp:  # it is being written
            return
        try:
            self._check(one, submission)
        except ClinicError as error:  # the tasks count as not checked: the next save tries again
            self._say(f"{error}\n")

    def _check(self, one: _Watched, submission: Normalised) -> None:
        program = read_program(submission.cells)
        code = {task: _code(one.chapter, program, needs) for task, needs in one.needs.items()}
        changed = [task for task in code if code[task] != one.checked.get(task)]
        if not changed:
            self._say(f"{_now()}  {one.chapter.name} was saved; the code of no task has changed.")
            return
        self._say(f"{_now()}  {one.chapter.name} was saved. Checking {', '.join(changed)}\n")
        if submission.notes != one.notes:
            one.notes = submission.notes
            self._say("".join(f"Note: {note}\n" for note in submission.notes))
        for task in changed:
            if _stamp(one.path) != one.seen:  # saved again: the newest state counts
                return
            self._check_task(one, submission, task)
            one.checked[task] = code[task]
        standing = self._diary.standing(one.chapter)
        self._say(f"{in_one_line(standing)}. {self.what_is_open()}\n")

    def _check_task(self, one: _Watched, submission: Normalised, task: str) -> None:
        was_done = self._is_done(one.chapter, task)
        with TestBar(task) as bar:
            grading = Grading(one.chapter, self._host, hidden=False, on_start=bar.started)
            (report,) = grading.grade(submission, [task], owner=str(one.path)).tasks
        self._diary.note(one.chapter, [report])
        self._say(task_text(report, one.chapter.section(task)))
        if self._is_done(one.chapter, task):
            self._say(f"`{task}` is done.\n" if not was_done else f"`{task}` is still done.\n")
        elif was_done:
            self._say(f"`{task}` was done before; now it is open again.\n")

    def _is_done(self, chapter: Chapter, task: str) -> bool:
        return next(one.done for one in self._diary.standing(chapter).tasks if one.task == task)


def _first_look(chapter: Chapter) -> _Watched:
    """What is there at the beginning counts as checked, and a notebook that cannot be read as untouched."""
    assert chapter.exercise is not None
    path = chapter.exercise / f"{chapter.name}.ipynb"
    needs = needs_of(chapter.visible_tests)
    needs = {task.name: needs[task.name] for task in chapter.tasks if task.name in needs}
    stamp = _stamp(path)
    try:
        program = read_program(normalise(chapter.starter, read(path)).cells)
    except SubmissionRefused:
        program = chapter.starter_program
    return _Watched(chapter, path, needs, {task: _code(chapter, program, of) for task, of in needs.items()}, stamp)


def _code(chapter: Chapter, program: Program, needs: Needs) -> object:
    """What of *program* a task's tests run, to be compared: as in the key of a part of a grade, but for cells' names.

    Names of a learner's own cells are their numbers: one cell more above would change them. Cells that do not parse
    matter only to a task that misses something.
    """
    run = [(cell.source, tuple(indices)) for cell, indices in program.needed_for(needs.names)]
    missing = [name for name in needs.names if chapter.starter_program.defines(name) and not program.defines(name)]
    return run, sorted(missing), program.errors() if missing else {}


def _stamp(path: Path) -> Stamp:
    """Something that is another one whenever the file has been written; None where there is none."""
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size, status.st_ino


def _now() -> str:
    return f"{datetime.now():%H:%M:%S}"
