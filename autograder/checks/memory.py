"""How much memory a result holds, measured on what came over the wire."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from autograder.checks.outputs import assert_matches
from autograder.errors import Finding
from autograder.figures import leave
from autograder.report import Figure
from autograder.submission import LearnerFunction
from autograder.wire import stored_bytes


def assert_holds_at_most(
    function: LearnerFunction,
    args: Sequence[Any],
    limit: int,
    *,
    reference: Callable[..., Any] | None = None,
    hint: str = "",
    **kwargs: Any,
) -> None:
    """Fail if the tensors that ``function(*args, **kwargs)`` returns look at more than *limit* bytes of storage.

    Overlaps count once, so a view of overlapping windows holds no more than its input. The bytes are counted as they
    arrived, in the judge; a result cannot claim to be smaller than it is. With ``reference`` the result must be that of
    ``reference(*args, **kwargs)`` too: without, nothing at all would hold the least.
    """
    actual = function(*args, **kwargs)
    if reference is not None:
        assert_matches(actual, reference(*args, **kwargs), hint=hint)
    held = stored_bytes(actual)
    if held > limit:
        leave(Figure("memory that the result holds", held, limit, at_least=False, unit="bytes"))
        raise Finding(
            f"the result of `{function.name}` holds {held:,} bytes, {held / limit:.1f} times the {limit:,} "
            f"that are needed. {hint}".strip()
        )
