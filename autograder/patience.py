"""How long to wait for others' code: by the clock, but not for what others kept it from computing.

On a crowded machine a few seconds of computing may take half a minute, through no fault of whoever computes. The kernel
counts how long each thread was ready to run and had no core.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable

MOST_HELD_UP = 3.0
"""At most so many times as long as code may take, it may be held up besides."""
_LEAST_S = 0.2
"""Less than this is what a process waits for now and then on any machine."""


class Patience:
    """A deadline that is put off by what ``held_up()`` has come to, in seconds, since whoever is waited for began."""

    def __init__(self, held_up: Callable[[], float] = float) -> None:
        self._held_up = held_up
        self._excused_s = 0.0
        self._excusable_s = 0.0
        self._until = 0.0

    def start(self, timeout: float) -> None:
        """From now on there are *timeout* seconds. What was held up before, and not needed, still counts."""
        self._until = time.monotonic() + timeout
        self._excusable_s = MOST_HELD_UP * timeout

    def left(self) -> float:
        """Seconds that are left, more than 0; raises ``TimeoutError`` where there are none."""
        while (left := self._until - time.monotonic()) <= 0:
            before, self._excused_s = self._excused_s, self._held_up()
            more = min(self._excused_s - before, self._excusable_s)
            if more < _LEAST_S:
                raise TimeoutError
            self._excusable_s -= more
            self._until += more
        return left

    def is_over(self) -> bool:
        """Whether nothing is left."""
        try:
            self.left()
        except TimeoutError:
            return True
        return False


def number_in_proc() -> int:
    """By which number ``/proc`` lists this process; 0 where there is none.

    It is not always what the process itself is told: a use is in a namespace of its own, where it is number 1.
    """
    with contextlib.suppress(OSError, ValueError):
        return int(os.readlink("/proc/self"))
    return 0


def waited_seconds(number: int) -> float:
    """For how long the most unlucky thread of a process had no core; 0 where the system does not tell.

    *number* is the one by which ``/proc`` lists it.
    """
    most = 0
    with contextlib.suppress(OSError):
        for thread in os.listdir(f"/proc/{number}/task"):
            # time on a core and time waiting for one, in nanoseconds, and the number of turns
            with (
                contextlib.suppress(OSError, ValueError, IndexError),
                open(f"/proc/{number}/task/{thread}/schedstat") as file,
            ):
                most = max(most, int(file.read().split()[1]))
    return most / 1e9
