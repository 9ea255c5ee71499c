"""What a worker's or live kernel's reply means to a test: a value, or the learner's error in the learner's words."""

from __future__ import annotations

import builtins
from collections.abc import Mapping
from typing import Any

from autograder.errors import LearnerException, LearnerMissing


def value_of(reply: Mapping[str, Any]) -> Any:
    """The value in a reply; raises the :class:`~autograder.errors.LearnerError` that it reports instead.

    A reply of another form raises ``KeyError`` or ``TypeError``.
    """
    error = reply.get("error")
    if error is None:
        return reply["value"]
    kind, message, where = (str(error[key]) for key in ("kind", "message", "where"))
    output = str(reply.get("output", ""))
    at = f" (in {where})" if where else ""
    if kind == "Missing":
        raise LearnerMissing(missing_text(message))
    if kind == "WireError":
        raise LearnerException(f"returned something that cannot be handed back: {message}", kind, output)
    if kind == "SystemExit":
        raise LearnerException(f"called exit{at}", kind, output)
    raise LearnerException(f"raised {kind}: {message}{at}", kind, output)


def missing_text(name: str) -> str:
    """What a learner is told about a name that they do not define."""
    return f"the notebook does not define `{name}`"


def public_kind(error: LearnerException) -> str:
    """The exception's class where it is one of Python's own, else ``""``: a learner's class name may carry anything."""
    known = getattr(builtins, error.kind, None)
    return error.kind if isinstance(known, type) and issubclass(known, BaseException) else ""
