"""Where tests leave what they measured, until :mod:`autograder.session` takes it into the test's result.

One list for the process: tests run one after the other, and whoever measures is too deep in a check to return a figure.
"""

from __future__ import annotations

import math

from autograder.report import Figure

_left: list[Figure] = []


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
