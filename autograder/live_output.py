"""An output of a notebook's cell that can be shown anew in its place, also when the cell is long over."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Data = dict[str, str]
"""One thing in the forms that it can be shown in: MIME type -> text."""


def changing_output() -> Callable[[Data], None]:
    """A function that shows its data in one output of the running cell, in place of what it showed before."""
    handle: Any = None

    def show(data: Data) -> None:
        from IPython.display import display

        nonlocal handle
        if handle is None:
            handle = display(data, raw=True, display_id=True)
        else:
            handle.update(data, raw=True)

    return show
