"""Who shares memory with whom, found out by writing: no attribute is asked that could be answered falsely."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from autograder.checks.outputs import assert_matches
from autograder.errors import Finding
from autograder.submission import LearnerFunction


def _overwrite_input_probe(function, args, kwargs, position, values):  # type: ignore[no-untyped-def]
    result = function(*args, **kwargs)
    args[position].copy_(values)
    return result


def _overwrite_result_probe(function, args, kwargs, position, seed):  # type: ignore[no-untyped-def]
    result = function(*args, **kwargs)
    try:
        # from 1 on: smaller numbers would all be 0 in a tensor of integers
        result.detach().copy_(1 + 100 * torch.rand(result.shape, generator=torch.Generator().manual_seed(seed)))
    except RuntimeError:  # torch refuses to copy into elements that share memory with one another
        return None
    return args[position]


def _inputs_after_probe(function, args, kwargs):  # type: ignore[no-untyped-def]
    function(*args, **kwargs)
    return args


def _fresh_values(like: torch.Tensor, seed: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    if like.dtype.is_floating_point:
        return torch.rand(like.shape, generator=generator, dtype=torch.float64).to(like.dtype)
    return torch.randint(0, 100, like.shape, generator=generator).to(like.dtype)


def assert_is_view(
    function: LearnerFunction,
    args: Sequence[Any],
    reference: Callable[..., torch.Tensor],
    *,
    of: int = 0,
    seed: int = 0,
    hint: str = "",
    **kwargs: Any,
) -> None:
    """Fail unless ``function(*args, **kwargs)`` is a view of argument number *of*.

    The argument is overwritten with new values *after* the call; a view shows them, a copy shows the old ones. The
    expected result is ``reference`` of the new values. Raises ``AssertionError``.
    """
    values = _fresh_values(args[of], seed)
    actual = function.probe(_overwrite_input_probe, tuple(args), kwargs, of, values)
    changed = [*args]
    changed[of] = values
    expected = reference(*changed, **kwargs)
    old = reference(*args, **kwargs)
    if isinstance(actual, torch.Tensor) and actual.shape == old.shape and torch.equal(actual.to(old.dtype), old):
        raise Finding(f"`{function.name}` returned a copy: a write to its input did not show in it. {hint}".strip())
    assert_matches(actual, expected, what="the result, seen again after its input was overwritten", hint=hint)


def assert_owns_result(
    function: LearnerFunction,
    args: Sequence[Any],
    *,
    of: int = 0,
    seed: int = 0,
    hint: str = "",
    **kwargs: Any,
) -> None:
    """Fail if writing to the result of ``function(*args, **kwargs)`` changes argument number *of*."""
    after = function.probe(_overwrite_result_probe, tuple(args), kwargs, of, seed)
    if after is None:
        raise Finding(
            f"elements of the result of `{function.name}` share memory: whoever writes to one writes to others"
        )
    assert_matches(after, args[of], what=f"after a write to the result of `{function.name}`, its input", hint=hint)


def assert_leaves_inputs_alone(
    function: LearnerFunction, args: Sequence[Any], *, hint: str = "", **kwargs: Any
) -> None:
    """Fail if ``function(*args, **kwargs)`` changes one of its arguments."""
    after = function.probe(_inputs_after_probe, tuple(args), kwargs)
    for number, (was, now) in enumerate(zip(args, after, strict=True)):
        assert_matches(now, was, what=f"after the call of `{function.name}`, argument {number}", hint=hint)
