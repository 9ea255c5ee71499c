"""nbgrader's Validate, as a button in JupyterLab and as a command: what it shows of a check is what the check tells it.

Validate runs the saved notebook in a kernel of its own and lists the grade cells that lack points. Beside such a cell
it shows what the cell wrote to stderr, and nothing else that a check can show. A cell that writes there has no points
for nbgrader, so a task with all its points must not; and one whose check could not be run must, or nbgrader counts it
as right.
"""

from __future__ import annotations

import os
import sys
import textwrap

_VARIABLE = "NBGRADER_EXECUTION"
_WIDTH = 80
"""In characters: the command ``nbgrader validate`` cuts lines that are longer than 83."""


def is_on() -> bool:
    """Whether nbgrader's Validate started this kernel."""
    return os.environ.get(_VARIABLE) == "validate"


def run_by_nbgrader() -> bool:
    """Whether nbgrader started this kernel, to grade or to validate: nobody looks on then, and it is no check."""
    return _VARIABLE in os.environ


def tell(text: str) -> None:
    """Print *text* where it is seen: below the cell, or in the list that Validate shows."""
    if is_on():
        print("\n".join(map(_wrapped, text.splitlines())), file=sys.stderr)
    else:
        print(text)


def _wrapped(line: str) -> str:
    indent = line[: len(line) - len(line.lstrip())]
    return textwrap.fill(
        line, _WIDTH, subsequent_indent=f"{indent}    ", break_long_words=False, break_on_hyphens=False
    )
