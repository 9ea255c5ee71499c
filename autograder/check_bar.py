"""What a learner sees while a check takes its time: a bar, which test runs, and of a race the pairs so far."""

from __future__ import annotations

import contextlib
import contextvars
import threading
from collections.abc import Callable
from dataclasses import dataclass, replace
from html import escape
from types import TracebackType

from autograder.figures import pairs_told_to
from autograder.live_output import Data
from autograder.rendering import GOOD, text_html

_AFTER_S = 0.5
"""A check that is over by then shows no bar: it would only flash."""
_EVERY_S = 0.2
"""Between two looks at how far the check is; the browser is not to be busy with a bar."""
NOTHING: Data = {"text/plain": "", "text/html": ""}
"""What takes the bar away: JupyterLab gives it no height, and nbconvert no warning, as it does for no form at all."""


@dataclass(frozen=True)
class Moment:
    """How far a check is: ``through`` of ``tests`` have been run, and the next one looks for ``description``."""

    task: str
    description: str = ""
    through: int = 0
    tests: int = 0
    pairs: int = 0
    """Of a race: how many pairs have been run, of at most ``pairs_at_most``."""
    pairs_at_most: int = 0

    @property
    def text(self) -> str:
        """``Checking title_clip: 2 of 5 tests are through. Now: The bar grows. (pair 12 of at most 60)``."""
        words = f"Checking {self.task}: {self.through} of {self.tests} tests are through."
        if self.description:
            words += f" Now: {self.description}"
        if self.pairs:
            words += f" (pair {self.pairs} of at most {self.pairs_at_most})"
        return words

    @property
    def data(self) -> Data:
        """The sentence, and a bar above the sentence."""
        share = self.through / self.tests if self.tests else 0.0
        spoken = f'role="progressbar" aria-valuemin="0" aria-valuemax="{self.tests}" aria-valuenow="{self.through}"'
        bar = (
            f'<div {spoken} aria-label="{escape(self.text)}" style="width:24em;background-color:#d0d0d0">'
            f'<span style="display:block;height:0.6em;width:{100 * share:.0f}%;background-color:{GOOD}"></span></div>'
        )
        return {"text/plain": self.text, "text/html": f"{bar}<small>{text_html(self.text)}</small>"}


class CheckBar:
    """The bar of one check, as a context manager; it appears after half a second and is gone at the end.

    ``show`` is given what there is to see, each time something else; at last ``NOTHING``. It is called from
    a thread, since the learner's code has the main one.
    """

    def __init__(self, task: str, show: Callable[[Data], None], after_s: float = _AFTER_S) -> None:
        self._moment = Moment(task)
        self._show = show
        self._after_s = after_s
        self._over = threading.Event()
        self._shown = False
        self._told = contextlib.ExitStack()
        # the thread writes into the cell that has made the bar, whichever runs by then
        context = contextvars.copy_context()
        self._thread = threading.Thread(target=context.run, args=(self._follow,), daemon=True)

    def started(self, description: str, through: int, tests: int) -> None:
        """Take down that a test begins."""
        self._moment = Moment(self._moment.task, description, through, tests)

    def _pairs(self, run: int, at_most: int) -> None:
        self._moment = replace(self._moment, pairs=run, pairs_at_most=at_most)

    def _follow(self) -> None:
        seen: Moment | None = None
        wait_s = self._after_s
        while not self._over.wait(wait_s):
            wait_s = _EVERY_S
            if self._moment != seen and self._moment.tests:
                seen, self._shown = self._moment, True
                self._try_to_show(seen.data)

    def _try_to_show(self, data: Data) -> None:
        with contextlib.suppress(Exception):  # a check counts without its bar, and must not write to stderr
            self._show(data)

    def __enter__(self) -> CheckBar:
        self._told.enter_context(pairs_told_to(self._pairs))
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._told.close()
        self._over.set()
        self._thread.join()
        if self._shown:
            self._try_to_show(NOTHING)
