"""Gradients through a learner's function, against a float64 reference or finite differences."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.autograd.gradcheck import GradcheckError

from autograder.checks.outputs import assert_matches, nth_argument
from autograder.submission import LearnerFunction


def _gradient_probe(function, args, kwargs, wrt, cotangent):  # type: ignore[no-untyped-def]
    args = list(args)
    leaves = []
    for position in wrt:
        args[position] = args[position].detach().clone().requires_grad_()
        leaves.append(args[position])
    result = function(*args, **kwargs)
    if not isinstance(result, torch.Tensor):
        return "the result is not a tensor"
    if result.shape != cotangent.shape:
        return f"the result has shape {tuple(result.shape)}; expected {tuple(cotangent.shape)}"
    if not result.requires_grad:
        return [None for _ in wrt]
    return list(torch.autograd.grad(result, leaves, cotangent.to(result.dtype), allow_unused=True))


def _cotangent(shape: torch.Size, seed: int) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def assert_gradients_match(
    function: LearnerFunction,
    args: Sequence[Any],
    reference: Callable[..., torch.Tensor],
    *,
    wrt: Sequence[int] = (0,),
    rtol: float = 1e-4,
    atol: float = 1e-6,
    seed: int = 0,
    hint: str = "",
    **kwargs: Any,
) -> None:
    """Fail unless gradients of ``function`` with respect to arguments *wrt* agree with those of a float64 reference.

    A random cotangent (float64, the shape of the result) is pulled back through both. Raises ``AssertionError`` that
    names the argument, or says that no gradient arrives at all.
    """
    wide = [a.to(torch.float64) if isinstance(a, torch.Tensor) and a.dtype.is_floating_point else a for a in args]
    for position in wrt:
        wide[position] = wide[position].detach().clone().requires_grad_()
    result = reference(*wide, **kwargs)
    cotangent = _cotangent(result.shape, seed)
    expected = torch.autograd.grad(result, [wide[position] for position in wrt], cotangent)
    actual = function.probe(_gradient_probe, tuple(args), kwargs, list(wrt), cotangent)
    if isinstance(actual, str):
        raise AssertionError(f"`{function.name}`: {actual}. {hint}".strip())
    if not isinstance(actual, list) or len(actual) != len(expected):
        raise AssertionError(f"`{function.name}` gave no gradients back.")
    for position, mine, theirs in zip(wrt, actual, expected, strict=True):
        if mine is None:
            raise AssertionError(f"no gradient of `{function.name}` reaches {nth_argument(position)}. {hint}".strip())
        assert_matches(
            mine,
            theirs,
            rtol=rtol,
            atol=atol,
            dtype=False,
            what=f"the gradient of `{function.name}` with respect to {nth_argument(position)}",
            hint=hint,
        )


def assert_gradcheck(
    function: LearnerFunction,
    args: Sequence[Any],
    *,
    wrt: Sequence[int] = (0,),
    hint: str = "",
    **kwargs: Any,
) -> None:
    """Fail unless the gradients of ``function`` agree with finite differences of its own outputs, in float64.

    ``torch.autograd.gradcheck`` runs in the judge; only single outputs and single gradients come from the learner's
    process. Raises ``AssertionError`` with gradcheck's finding.
    """
    fixed = list(args)

    class Remote(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, *leaves: torch.Tensor) -> Any:
            ctx.save_for_backward(*leaves)
            with torch.enable_grad():  # off in here, which code that runs in this process would notice
                return function(*_placed(fixed, wrt, leaves), **kwargs)

        @staticmethod
        def backward(ctx: Any, *cotangents: Any) -> Any:
            placed = _placed(fixed, wrt, ctx.saved_tensors)
            with torch.enable_grad():
                found = function.probe(_gradient_probe, tuple(placed), kwargs, list(wrt), cotangents[0])
            if not isinstance(found, list):
                raise AssertionError(f"`{function.name}`: {found}")
            return tuple(found)

    leaves = [args[position].detach().to(torch.float64).clone().requires_grad_() for position in wrt]
    try:
        torch.autograd.gradcheck(Remote.apply, leaves, check_batched_grad=False)
    except GradcheckError as error:
        first = str(error).strip().splitlines()[0]
        raise AssertionError(f"gradcheck of `{function.name}`: {first} {hint}".strip()) from None


def _placed(args: Sequence[Any], wrt: Sequence[int], leaves: Sequence[torch.Tensor]) -> list[Any]:
    placed = list(args)
    for position, leaf in zip(wrt, leaves, strict=True):
        placed[position] = leaf.detach()
    return placed
