"""torch-clinic: a course on PyTorch's production pitfalls, and the autograder that goes with it.

``check("task")`` in an exercise notebook runs that task's tests against the notebook's live code.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from autograder.notebook_ui import check as check

__version__ = "0.1.0"
__all__ = ["__version__", "check"]


def __getattr__(name: str) -> Any:
    # resolved on first use: the package itself must be importable at once, and without torch, by --help and the worker
    if name == "check":
        from autograder.notebook_ui import check

        return check
    raise AttributeError(f"module 'autograder' has no attribute {name!r}")
