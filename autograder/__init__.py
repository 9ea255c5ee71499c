"""torch-clinic: a course on PyTorch's production pitfalls, and the autograder that goes with it.

``check("task")`` in an exercise notebook runs that task's tests against the notebook's live code; ``what_you_fixed()``
shows what has been changed since it was handed out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from autograder.notebook_ui import check as check
    from autograder.notebook_ui import what_you_fixed as what_you_fixed

__version__ = "0.1.0"
__all__ = ["__version__", "check", "what_you_fixed"]


def __getattr__(name: str) -> Any:
    # resolved on first use: the package itself must be importable at once, and without torch, by --help and the worker
    if name in ("check", "what_you_fixed"):
        from autograder import notebook_ui

        return getattr(notebook_ui, name)
    raise AttributeError(f"module 'autograder' has no attribute {name!r}")
