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


def _second_probe(function, args, kwargs, wrt, cotangent, second):  # type: ignore[no-untyped-def]
    args = list(args)
    leaves = []
    for position in wrt:
        args[position] = args[position].detach().clone().requires_grad_()
        leaves.append(args[position])
    cotangent = cotangent.detach().clone().requires_grad_()
    result = function(*args, **kwargs)
    first = torch.autograd.grad(result, leaves, cotangent, create_graph=True, allow_unused=True)
    pairs = [(mine, theirs) for mine, theirs in zip(first, second, strict=True) if mine is not None]
    pairs = [(mine, theirs) for mine, theirs in pairs if mine.requires_grad]
    if not pairs:
        return "its gradient cannot be differentiated a second time"
    outputs, cotangents = [mine for mine, _ in pairs], [theirs for _, theirs in pairs]
    return list(torch.autograd.grad(outputs, [*leaves, cotangent], cotangents, allow_unused=True))


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
    twice: bool = False,
    hint: str = "",
    **kwargs: Any,
) -> None:
    """Fail unless the gradients of ``function`` agree with finite differences of its own outputs, in float64.

    With ``twice`` its second derivatives are then compared with finite differences of its gradients as well, along a
    random cotangent, as ``torch.autograd.gradgradcheck`` does. ``torch.autograd.gradcheck`` runs in the judge; only
    single outputs and single gradients come from the learner's process. Raises ``AssertionError`` with its finding.
    """
    fixed = list(args)

    def ask(probe: Callable[..., Any], leaves: Sequence[torch.Tensor], *more: Any) -> list[Any]:
        # gradients are off where this is called from, which code that runs in this process would notice
        with torch.enable_grad():
            found = function.probe(probe, tuple(_placed(fixed, wrt, leaves)), kwargs, list(wrt), *more)
        if not isinstance(found, list):
            raise AssertionError(f"`{function.name}`: {found}. {hint}".strip())
        return found

    class Remote(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, *leaves: torch.Tensor) -> Any:
            ctx.save_for_backward(*leaves)
            with torch.enable_grad():
                return function(*_placed(fixed, wrt, leaves), **kwargs)

        @staticmethod
        def backward(ctx: Any, *cotangents: Any) -> Any:
            return tuple(ask(_gradient_probe, ctx.saved_tensors, cotangents[0]))

    class RemoteGradient(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, cotangent: torch.Tensor, *leaves: torch.Tensor) -> Any:
            ctx.save_for_backward(cotangent, *leaves)
            found = ask(_gradient_probe, leaves, cotangent.detach())
            return tuple(
                torch.zeros_like(leaf) if mine is None else mine for mine, leaf in zip(found, leaves, strict=True)
            )

        @staticmethod
        def backward(ctx: Any, *seconds: Any) -> Any:
            cotangent, *leaves = ctx.saved_tensors
            *of_leaves, of_cotangent = ask(_second_probe, leaves, cotangent.detach(), list(seconds))
            return (of_cotangent, *of_leaves)

    leaves = [args[position].detach().to(torch.float64).clone().requires_grad_() for position in wrt]
    _checked(Remote.apply, leaves, f"gradcheck of `{function.name}`", hint)
    if twice:
        shape = function(*_placed(fixed, wrt, leaves), **kwargs).shape
        cotangent = _cotangent(shape, 0).requires_grad_()
        _checked(RemoteGradient.apply, [cotangent, *leaves], f"gradgradcheck of `{function.name}`", hint)


def _checked(function: Callable[..., Any], leaves: Sequence[torch.Tensor], what: str, hint: str) -> None:
    try:
        torch.autograd.gradcheck(function, leaves, check_batched_grad=False)
    except GradcheckError as error:
        first = str(error).strip().splitlines()[0]
        raise AssertionError(f"{what}: {first} {hint}".strip()) from None


def _placed(args: Sequence[Any], wrt: Sequence[int], leaves: Sequence[torch.Tensor]) -> list[Any]:
    placed = list(args)
    for position, leaf in zip(wrt, leaves, strict=True):
        placed[position] = leaf.detach()
    return placed
