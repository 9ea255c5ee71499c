"""Where tests leave what they measured, until :mod:`autograder.session` takes it into the test's result.

One list for the process: tests run one after the other, and whoever measures is too deep in a check to return a figure.
For the same reason a race tells here how far it is.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator

from autograder.report import Figure

_left: list[Figure] = []
_listeners: list[Callable[[int, int], None]] = []


@contextlib.contextmanager
def pairs_told_to(listener: Callable[[int, int], None]) -> Iterator[None]:
    """Inside, each race tells *listener* how many pairs it has run, and how many it may take at most."""
    _listeners.append(listener)
    try:
        yield
    finally:
        _listeners.remove(listener)


def tell_pairs(run: int, at_most: int) -> None:
    """Say that a race has run so many pairs of at most so many."""
    for listener in _listeners:
        listener(run, at_most)


def leave(figure: Figure) -> None:
    """Note what the running test has measured. A number that is not finite is no figure, and is dropped."""
    if math.isfinite(figure.measured) and math.isfinite(figure.asked):
        _left.append(figure)


def taken() -> tuple[Figure, ...]:
    """What was left since the last call, in order; nothing is left then."""
    found = tuple(_left)
    _left.clear()
    return found


def rounded(value: float, digits: int) -> float:
    """*value* with that many significant digits: as much as a figure can say without telling more than it should."""
    return float(f"{value:.{digits}g}")
