"""Where a reading of nested things begins: always equally deep in the stack, so that it always ends the same way."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")


def at_the_bottom(function: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
    """The result of a call that begins at the bottom of a stack of its own; what it raises is raised here.

    How deeply nested code or JSON Python can read depends on how deep in the stack the reader stands. Without this,
    the same notebook would be read by one caller and refused by another.
    """
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(function, *args, **kwargs).result()
