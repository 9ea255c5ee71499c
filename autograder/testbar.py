"""A bar in a terminal while the tests of one task run."""

from __future__ import annotations

import sys
from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

_PER_SECOND = 2
"""How often the bar is drawn. Seldom: it takes time from the process that takes times."""


class TestBar:
    """How many of a task's tests have run, on stderr; quiet where that is no terminal. It leaves nothing behind."""

    __test__ = False  # pytest: not a test class, in spite of its name

    def __init__(self, task: str) -> None:
        # the file by itself: while pytest runs in this process, sys.stderr is another one
        console = Console(file=sys.stderr)
        columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn()
        self._progress = Progress(
            *columns,
            console=console,
            disable=not console.is_terminal,
            transient=True,
            refresh_per_second=_PER_SECOND,
            redirect_stdout=False,
            redirect_stderr=False,
        )
        self._bar = self._progress.add_task(f"{task}: tests", total=None)

    def started(self, description: str, through: int, tests: int) -> None:
        """A test begins when ``through`` of ``tests`` have been run."""
        self._progress.update(self._bar, completed=through, total=tests)

    def __enter__(self) -> TestBar:
        self._progress.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._progress.stop()
