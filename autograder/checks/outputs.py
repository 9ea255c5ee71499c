"""Agreement of a result with what was expected: structure, shape, dtype, values."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

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
) -> None:
    """Fail unless *actual* is *expected*: same containers, shapes, (where ``dtype``) dtypes, and close values.

    Tolerances default by dtype (:data:`DEFAULT_TOLERANCES`). ``nan`` equals ``nan``. The layout in memory, the device
    and ``requires_grad`` do not matter. Raises ``AssertionError`` that says how many elements differ, by how much,
    where, what was allowed and, with *hint*, what to look at next.
    """
    problem = _difference(actual, expected, rtol, atol, dtype, what)
    if problem:
        raise AssertionError(f"{problem}\n{hint}" if hint else problem)


def _difference(actual: Any, expected: Any, rtol: float | None, atol: float | None, dtype: bool, what: str) -> str:
    if isinstance(expected, torch.Tensor):
        return _tensor_difference(actual, expected, rtol, atol, dtype, what)
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
        return _tensor_difference(torch.as_tensor(actual), torch.tensor(expected), rtol, atol, False, what)
    else:
        same = type(actual) is type(expected) and actual == expected
        return "" if same else f"{what} is {_short(actual)}; expected {_short(expected)}."
    return next((found for name, a, e in pairs if (found := _difference(a, e, rtol, atol, dtype, name))), "")


def _short(value: Any) -> str:
    text = f"a tensor of shape {tuple(value.shape)}" if isinstance(value, torch.Tensor) else repr(value)
    return text if len(text) <= 80 else text[:77] + "..."


def _tensor_difference(
    actual: Any, expected: torch.Tensor, rtol: float | None, atol: float | None, dtype: bool, what: str
) -> str:
    if not isinstance(actual, torch.Tensor):
        return f"{what}: got {_short(actual)}; expected a tensor."
    if actual.shape != expected.shape:
        return f"{what}: the shape is {tuple(actual.shape)}; expected {tuple(expected.shape)}."
    if dtype and actual.dtype != expected.dtype:
        return f"{what}: the dtype is {actual.dtype}; expected {expected.dtype}."
    default_rtol, default_atol = DEFAULT_TOLERANCES.get(expected.dtype, (0.0, 0.0))
    rtol = default_rtol if rtol is None else rtol
    atol = default_atol if atol is None else atol
    actual, expected = actual.detach().cpu(), expected.detach().cpu()
    wide = torch.complex128 if actual.is_complex() or expected.is_complex() else torch.float64
    left, right = actual.to(wide), expected.to(wide)
    close = torch.isclose(left, right, rtol=rtol, atol=atol, equal_nan=True)
    wrong = int((~close).sum())
    if wrong == 0:
        return ""
    return _describe(left, right, close, wrong, rtol, atol, what)


def _describe(
    left: torch.Tensor,
    right: torch.Tensor,
    close: torch.Tensor,
    wrong: int,
    rtol: float,
    atol: float,
    what: str,
) -> str:
    error = (left - right).abs()
    error = torch.where(close, torch.zeros_like(error), torch.nan_to_num(error, nan=torch.inf))
    at = tuple(int(i) for i in torch.unravel_index(error.argmax(), error.shape)) if error.dim() else ()
    place = f" at index {at}" if at else ""
    values = "got {}, expected {}".format(*_told_apart(left[at].item(), right[at].item()))
    if (rtol or atol) and not _whole(left, right):
        values += f"; allowed: {atol:g} + {rtol:g} x |expected|"
    if close.numel() == 1:
        return f"{what} differs from what was expected: {values}."
    share = f"{wrong} of {close.numel()} elements ({wrong / close.numel():.1%})"
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
