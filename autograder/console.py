"""What a batch shows in a terminal: progress with the time left, a table at the end, and a line for each problem."""

from __future__ import annotations

from collections.abc import Sequence
from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeRemainingColumn

from autograder.batch import Graded, Status
from autograder.handed_in import Stray
from autograder.text import one_line

_KINDS = {False: "tests", True: "timed tests, one at a time"}
_LONGEST_NAME = 60
"""Characters of a student's name in the table: one long name would widen every line."""


class ProgressBars:
    """A bar for each kind of tests, on stderr; quiet where that is no terminal."""

    def __init__(self) -> None:
        self._console = Console(stderr=True)
        columns = TextColumn("{task.description:26}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn()
        self._progress = Progress(*columns, console=self._console, disable=not self._console.is_terminal)
        self._bars: dict[bool, TaskID] = {}

    def show(self, timed: bool, done: int, total: int) -> None:
        """Say that *done* of *total* submissions are through with tests of this kind."""
        if timed not in self._bars:
            self._bars[timed] = self._progress.add_task(_KINDS[timed], total=total)
        self._progress.update(self._bars[timed], completed=done)

    def __enter__(self) -> ProgressBars:
        self._progress.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._progress.stop()


def table(graded: Sequence[Graded]) -> str:
    """A line for each submission, and a last one that counts them."""
    rows = [("student", "chapter", "points", "")]
    for one in graded:
        points = f"{one.report.score:.2f} of {one.report.max_score:g}" if one.report is not None else "—"
        rows.append((one_line(one.handed_in.student, _LONGEST_NAME), one.handed_in.chapter, points, _remark(one)))
    widths = [max(len(row[column]) for row in rows) for column in range(3)]
    lines = [
        f"{a:{widths[0]}}  {b:{widths[1]}}  {c:>{widths[2]}}  {d}".rstrip()
        for a, b, c, d in rows  # the points are aligned on the right: they are compared
    ]
    return "\n".join([*lines, "", _summary(graded)])


def _remark(one: Graded) -> str:
    if one.status is Status.GRADED:
        return "" if not one.problems else f"to be looked at: {len(one.problems)}"
    return str(one.status)


def _summary(graded: Sequence[Graded]) -> str:
    counts = {status: sum(one.status is status for one in graded) for status in Status}
    kept = sum(one.from_store for one in graded)
    text = f"{len(graded)} submissions: {counts[Status.GRADED]} graded"
    text += f" ({kept} of them taken over from before)" if kept else ""
    text += f", {counts[Status.REFUSED]} refused (no points, reason below)" if counts[Status.REFUSED] else ""
    return text + (f", {counts[Status.FAILED]} not graded" if counts[Status.FAILED] else "")


def problem_lines(graded: Sequence[Graded], strays: Sequence[Stray]) -> list[str]:
    """One line per problem: whose, where, what is wrong, what to do."""
    lines = [
        f"{one_line(one.handed_in.student)}/{one.handed_in.chapter}: {one_line(problem)}{_advice(one)}"
        for one in graded
        for problem in one.problems
    ]
    return lines + [f"{one_line(str(stray.path))}: {one_line(stray.reason)}" for stray in strays]


def _advice(one: Graded) -> str:
    if one.status is Status.FAILED:
        return " Run the same command again; if it stays, look at that file by hand."
    if one.status is Status.REFUSED:
        return f" ({one_line(str(one.handed_in.path))})"
    return ""
