"""Who shares memory with whom, found out by writing: no attribute is asked that could be answered falsely."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Sequence
from typing import Any

import torch

from autograder.checks.outputs import assert_matches, nth_argument
from autograder.errors import Finding
from autograder.submission import LearnerFunction

# What is written comes in a second message, when the function has returned: it could find it in the frame of its
# caller. It is written through numpy, whose arrays cannot be given another way of doing it, as Tensor.copy_ can.


def _overwrite_input_probe(function, step, args, kwargs, position, values, held=[]):  # type: ignore[no-untyped-def]  # noqa: B006
    if step == "call":
        place = args[position].detach()
        place = place.numpy() if place.device.type == "cpu" and place.dtype != torch.bfloat16 else place
        held[:] = [place, function(*args, **kwargs)]
        return None
    place, result = held
    place[...] = values if isinstance(place, torch.Tensor) else values.numpy()
    return result


def _overwrite_result_probe(function, step, args, kwargs, position, values, held=[]):  # type: ignore[no-untyped-def]  # noqa: B006
    if step == "call":
        held[:] = [args[position], function(*args, **kwargs)]
        return held[1]
    before, result = held
    try:
        result.detach().copy_(values)
    except RuntimeError:  # torch refuses to copy into elements that share memory with one another
        return None
    return result, before


def _inputs_after_probe(function, args, kwargs):  # type: ignore[no-untyped-def]
    function(*args, **kwargs)
    return args


def _fresh_values(like: torch.Tensor, seed: int | None) -> torch.Tensor:
    """Values that cannot be foreseen, unless *seed* fixes them; from 1 on, where a result may be all 0."""
    generator = torch.Generator().manual_seed(secrets.randbits(48) if seed is None else seed)
    if like.dtype.is_floating_point:
        return torch.rand(like.shape, generator=generator, dtype=torch.float64).to(like.dtype)
    return torch.randint(1, 100, like.shape, generator=generator).to(like.dtype)


def assert_is_view(
    function: LearnerFunction,
    args: Sequence[Any],
    reference: Callable[..., torch.Tensor],
    *,
    of: int = 0,
    seed: int | None = None,
    hint: str = "",
    **kwargs: Any,
) -> None:
    """Fail unless ``function(*args, **kwargs)`` is a view of argument number *of*.

    The argument is overwritten with new values *after* the call; a view shows them, a copy shows the old ones. The
    expected result is ``reference`` of the new values. Raises ``AssertionError``.
    """
    values = _fresh_values(args[of], seed)
    function.probe(_overwrite_input_probe, "call", tuple(args), kwargs, of, None)
    actual = function.probe(_overwrite_input_probe, "write", None, None, None, values)
    changed = [*args]
    changed[of] = values
    expected = reference(*changed, **kwargs)
    old = reference(*args, **kwargs)
    if isinstance(actual, torch.Tensor) and actual.shape == old.shape and torch.equal(actual.to(old.dtype), old):
        raise Finding(f"`{function.name}` returned a copy: a write to its input did not show in it. {hint}".strip())
    if isinstance(actual, torch.Tensor) and actual.shape != expected.shape:
        assert_matches(actual, expected, what="the result", hint=hint, drawn=True)
    assert_matches(
        actual,
        expected,
        what=f"whether `{function.name}` returns a view cannot be told while its values are wrong: the result",
        hint=hint,
        drawn=True,
    )


def assert_owns_result(
    function: LearnerFunction,
    args: Sequence[Any],
    *,
    of: int = 0,
    seed: int | None = None,
    hint: str = "",
    **kwargs: Any,
) -> None:
    """Fail if writing to the result of ``function(*args, **kwargs)`` changes argument number *of*."""
    result = function.probe(_overwrite_result_probe, "call", tuple(args), kwargs, of, None)
    if not isinstance(result, torch.Tensor):
        raise Finding(f"the result of `{function.name}` is no tensor")
    values = _fresh_values(result, seed)
    answer = function.probe(_overwrite_result_probe, "write", None, None, None, values)
    if answer is None:
        raise Finding(
            f"elements of the result of `{function.name}` share memory: whoever writes to one writes to others"
        )
    written, after = answer
    after_write = f"after a write to the result of `{function.name}`"
    assert_matches(written, values, what=f"{after_write}, the result", hint=hint, drawn=True)
    assert_matches(after, args[of], what=f"{after_write}, its input", rtol=0, atol=0, hint=hint, drawn=True)


def assert_leaves_inputs_alone(
    function: LearnerFunction, args: Sequence[Any], *, hint: str = "", **kwargs: Any
) -> None:
    """Fail if ``function(*args, **kwargs)`` changes one of its arguments."""
    after = function.probe(_inputs_after_probe, tuple(args), kwargs)
    for number, (was, now) in enumerate(zip(args, after, strict=True)):
        assert_matches(
            now, was, what=f"after the call of `{function.name}`, {nth_argument(number)}", rtol=0, atol=0, hint=hint
        )
