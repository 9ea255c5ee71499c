"""Agreement of a result with what was expected: structure, shape, dtype, values."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch

from autograder.figures import leave, rounded
from autograder.report import Figure

DEFAULT_TOLERANCES = {
    torch.float16: (1e-3, 1e-5),
    torch.bfloat16: (1.6e-2, 1e-5),
    torch.float32: (1.3e-6, 1e-5),
    torch.float64: (1e-7, 1e-7),
    torch.complex64: (1.3e-6, 1e-5),
    torch.complex128: (1e-7, 1e-7),
}
"""(rtol, atol) by dtype, the values that ``torch.testing.assert_close`` documents; all other dtypes must be equal."""


def assert_matches(
    actual: Any,
    expected: Any,
    *,
    rtol: float | None = None,
    atol: float | None = None,
    dtype: bool = True,
    what: str = "the result",
    hint: str = "",
    drawn: bool = False,
) -> None:
    """Fail unless *actual* is *expected*: same containers, shapes, (where ``dtype``) dtypes, and close values.

    Tolerances default by dtype (:data:`DEFAULT_TOLERANCES`). ``nan`` equals ``nan``. The layout in memory, the device
    and ``requires_grad`` do not matter. Raises ``AssertionError`` that says how many elements differ, by how much,
    where, what was allowed and, with *hint*, what to look at next. ``drawn`` is for values that come from a generator
    nobody can foresee: then it says only that they differ, since a message must not vary from run to run. The size of
    the error is left as a figure, to one digit: hidden tests leave it too, and it must not give away what they expect.
    """
    problem = _difference(actual, expected, _Allowed(rtol, atol, dtype, drawn), what)
    if problem:
        raise AssertionError(f"{problem}\n{hint}" if hint else problem)


@dataclass(frozen=True)
class _Allowed:
    """The options of :func:`assert_matches`."""

    rtol: float | None
    atol: float | None
    dtype: bool
    drawn: bool


def _difference(actual: Any, expected: Any, allowed: _Allowed, what: str) -> str:
    if isinstance(expected, torch.Tensor):
        return _tensor_difference(actual, expected, allowed, what)
    if isinstance(expected, torch.Size):  # a shape reads better as a whole
        same = isinstance(actual, tuple) and tuple(actual) == tuple(expected)
        shown = tuple(actual) if isinstance(actual, tuple) else _short(actual)
        return "" if same else f"{what} is {shown}; expected {tuple(expected)}."
    if isinstance(expected, list | tuple):
        if not isinstance(actual, list | tuple):
            return f"{what} is a {type(actual).__name__}; expected {len(expected)} values."
        if len(actual) != len(expected):
            return f"{what} has {len(actual)} values; expected {len(expected)}."
        pairs = [(f"{what}[{i}]", a, e) for i, (a, e) in enumerate(zip(actual, expected, strict=True))]
    elif isinstance(expected, Mapping):
        if not isinstance(actual, Mapping) or set(actual) != set(expected):
            return f"{what} should have the keys {sorted(map(str, expected))}."
        pairs = [(f"{what}[{key!r}]", actual[key], expected[key]) for key in expected]
    elif isinstance(expected, float):
        if not isinstance(actual, int | float | torch.Tensor):
            return f"{what} is a {type(actual).__name__}; expected a number."
        return _tensor_difference(torch.as_tensor(actual), torch.tensor(expected), replace(allowed, dtype=False), what)
    else:
        same = type(actual) is type(expected) and actual == expected
        return "" if same else f"{what} is {_short(actual)}; expected {_short(expected)}."
    return next((found for name, a, e in pairs if (found := _difference(a, e, allowed, name))), "")


def _short(value: Any) -> str:
    text = f"a tensor of shape {tuple(value.shape)}" if isinstance(value, torch.Tensor) else repr(value)
    return text if len(text) <= 80 else text[:77] + "..."


def _tensor_difference(actual: Any, expected: torch.Tensor, allowed: _Allowed, what: str) -> str:
    if not isinstance(actual, torch.Tensor):
        return f"{what}: got {_short(actual)}; expected a tensor."
    if actual.shape != expected.shape:
        return f"{what}: the shape is {tuple(actual.shape)}; expected {tuple(expected.shape)}."
    if allowed.dtype and actual.dtype != expected.dtype:
        return f"{what}: the dtype is {actual.dtype}; expected {expected.dtype}."
    default_rtol, default_atol = DEFAULT_TOLERANCES.get(expected.dtype, (0.0, 0.0))
    rtol = default_rtol if allowed.rtol is None else allowed.rtol
    atol = default_atol if allowed.atol is None else allowed.atol
    actual, expected = actual.detach().cpu(), expected.detach().cpu()
    wide = torch.complex128 if actual.is_complex() or expected.is_complex() else torch.float64
    left, right = actual.to(wide), expected.to(wide)
    close = torch.isclose(left, right, rtol=rtol, atol=atol, equal_nan=True)
    wrong = int((~close).sum())
    if wrong == 0:
        return ""
    error = (left - right).abs()
    error = torch.where(close, torch.zeros_like(error), torch.nan_to_num(error, nan=torch.inf))
    _leave_size_of_error(error, right, wrong, rtol, atol)
    if allowed.drawn:
        return f"{what} differs from what was expected."
    return _describe(left, right, error, wrong, rtol, atol, what)


def _leave_size_of_error(error: torch.Tensor, expected: torch.Tensor, wrong: int, rtol: float, atol: float) -> None:
    """In units of the tolerance, and where that is 0 as the share of the elements.

    A hidden test leaves it too. Its digits would tell the largest value expected to who answers with zeros, so of ten
    and more only the power of ten is told; what is smaller comes from a result that is nearly right.
    """
    if rtol == atol == 0:
        if error.numel() > 1:
            share = rounded(100 * wrong / error.numel(), 1)
            leave(Figure("elements that differ", share, 0, at_least=False, unit="%"))
        return
    size = float((error / (atol + rtol * expected.abs())).nan_to_num(nan=0.0, posinf=torch.inf).max())
    if math.isfinite(size):
        size = float(math.ceil(size)) if size < 10 else 10.0 ** math.floor(math.log10(size))
        leave(Figure("largest error, roughly", size, 1, at_least=False, unit="times what is allowed"))


def _describe(
    left: torch.Tensor,
    right: torch.Tensor,
    error: torch.Tensor,
    wrong: int,
    rtol: float,
    atol: float,
    what: str,
) -> str:
    at = tuple(int(i) for i in torch.unravel_index(error.argmax(), error.shape)) if error.dim() else ()
    place = f" at index {at}" if at else ""
    values = "got {}, expected {}".format(*_told_apart(left[at].item(), right[at].item()))
    if (rtol or atol) and not _whole(left, right):
        values += f"; allowed: {atol:g} + {rtol:g} x |expected|"
    if error.numel() == 1:
        return f"{what} differs from what was expected: {values}."
    share = f"{wrong} of {error.numel()} elements ({wrong / error.numel():.1%})"
    most = float(error.max())
    how_much = f"most by {most:.4g}{place}" if most < torch.inf else f"one of them{place}"
    return f"{what}: {share} differ from what was expected, {how_much} ({values})."


def _told_apart(*numbers: complex) -> tuple[str, ...]:
    """The numbers with six digits, or with as many as it takes for them to look different; equal ones with six."""
    shown = tuple(f"{number:.6g}" for number in numbers)
    if len(set(numbers)) == 1:
        return shown
    for digits in range(7, 18):  # 17 tell any two numbers in float64 apart
        if len(set(shown)) > 1:
            break
        shown = tuple(f"{number:.{digits}g}" for number in numbers)
    return shown


def _whole(*tensors: torch.Tensor) -> bool:
    """Whether all values are whole numbers: nobody wonders about a tolerance then."""
    return all(not t.is_complex() and bool((t == t.round()).all()) for t in tensors)


def nth_argument(position: int) -> str:
    """``its first argument`` and so on."""
    names = ("first", "second", "third", "fourth", "fifth")
    return f"its {names[position]} argument" if position < len(names) else f"its argument number {position + 1}"
