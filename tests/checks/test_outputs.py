"""Agreement of results: what matches, and what is said of what does not."""

from __future__ import annotations

import math
import re
from typing import Any

import pytest
import torch

from autograder import figures
from autograder.checks import assert_matches
from autograder.checks.outputs import DEFAULT_TOLERANCES
from autograder.report import Figure

x = torch.arange(6.0).reshape(2, 3)


def double(value: float) -> torch.Tensor:
    return torch.tensor(value, dtype=torch.float64)


@pytest.mark.parametrize(
    ("actual", "expected"),
    [
        (x, x.clone()),
        (x.t().contiguous().t(), x),
        (x.clone().requires_grad_(), x),
        (x + 1e-6, x),
        (torch.tensor([math.nan, math.inf, -math.inf]), torch.tensor([math.nan, math.inf, -math.inf])),
        (torch.tensor([1, 2], dtype=torch.uint8), torch.tensor([1, 2], dtype=torch.uint8)),
        (torch.tensor([True]), torch.tensor([True])),
        (torch.tensor([1 + 2j]), torch.tensor([1 + 2j])),
        (torch.zeros(0, 3), torch.zeros(0, 3)),
        (torch.tensor(1.0), torch.tensor(1.0)),
        (torch.tensor([1.0], dtype=torch.bfloat16) * 1.01, torch.tensor([1.0], dtype=torch.bfloat16)),
        ([x, (1, "a")], (x, [1, "a"])),
        ({"a": x, "b": None}, {"b": None, "a": x}),
        (1.0, 1.0 + 1e-9),
        (torch.tensor(2.0), 2.0),
        (2, 2.0),
        (math.nan, math.nan),
        (True, True),
        (torch.float32, torch.float32),
    ],
)
def test_right(actual: Any, expected: Any) -> None:
    assert_matches(actual, expected)


@pytest.mark.parametrize(
    ("actual", "expected", "says"),
    [
        (x + 1e-3, x, "the result: 6 of 6 elements (100.0%) differ"),
        (x.index_fill(1, torch.tensor(1), 7), x, "2 of 6 elements (33.3%) differ from what was expected, most by 6"),
        (x.index_fill(1, torch.tensor(1), 7), x, "at index (0, 1) (got "),
        (x.t(), x, "the shape is (3, 2); expected (2, 3)."),
        (x[None], x, "the shape is (1, 2, 3); expected (2, 3)."),
        (torch.tensor(1.0), torch.tensor([1.0]), "the shape is (); expected (1,)."),
        (x.double(), x, "the dtype is torch.float64; expected torch.float32."),
        (x.long(), x, "the dtype is torch.int64; expected torch.float32."),
        (torch.tensor(1.0), torch.tensor(2.0), "differs from what was expected: got 1, expected 2"),
        (torch.tensor([math.nan, 0]), torch.tensor([0.0, 0]), "got nan, expected 0"),
        (torch.tensor([0.0, 5]), torch.tensor([math.nan, 0]), "2 of 2 elements"),
        (torch.tensor([math.inf]), torch.tensor([-math.inf]), "got inf, expected -inf"),
        (torch.tensor([3], dtype=torch.uint8), torch.tensor([4], dtype=torch.uint8), "got 3, expected 4"),
        (torch.tensor([True]), torch.tensor([False]), "got 1, expected 0"),
        (None, x, "got None; expected a tensor."),
        ([x], x, "expected a tensor."),
        (1.0, x, "got 1.0; expected a tensor."),
        (x, [x], "the result is a Tensor; expected 1 values."),
        ([x], [x, x], "the result has 1 values; expected 2."),
        ([x, x + 1], [x, x], "the result[1]: 6 of 6 elements"),
        ({"a": x}, {"b": x}, "should have the keys ['b']"),
        ({"a": x + 1}, {"a": x}, "the result['a']: 6 of 6"),
        ("1.0", 1.0, "the result is a str; expected a number."),
        (1.5, 1.0, "differs from what was expected: got 1.5, expected 1"),
        (1, True, "the result is 1; expected True."),
        (1.0, 1, "the result is 1.0; expected 1."),
        ("a" * 200, "b", "..."),
        (None, "b", "the result is None; expected 'b'."),
        (x, None, "the result is a tensor of shape (2, 3); expected None."),
    ],
)
def test_wrong(actual: Any, expected: Any, says: str) -> None:
    with pytest.raises(AssertionError) as caught:
        assert_matches(actual, expected)
    assert says in str(caught.value)
    assert len(str(caught.value)) < 400


def test_a_hint_and_another_name_are_said() -> None:
    with pytest.raises(AssertionError, match=r"^the frames: 6 of 6 .*\nLook at the strides.$"):
        assert_matches(x + 1, x, what="the frames", hint="Look at the strides.")


def test_tolerances_can_be_given() -> None:
    assert_matches(x + 0.5, x, atol=0.6)
    assert_matches(x * 1.1, x, rtol=0.2)
    with pytest.raises(AssertionError):
        assert_matches(x + 1e-7 + 1e-6, x, rtol=0, atol=0)


def test_the_dtype_can_be_left_open() -> None:
    assert_matches(x.double(), x, dtype=False)
    assert_matches(x.long(), x, dtype=False)


@pytest.mark.parametrize("dtype", DEFAULT_TOLERANCES, ids=str)
def test_default_tolerances_are_those_of_assert_close(dtype: torch.dtype) -> None:
    """Just inside and just outside the tolerances that torch documents."""
    rtol, atol = DEFAULT_TOLERANCES[dtype]
    expected = torch.tensor([4.0], dtype=dtype)
    limit = atol + rtol * 4
    step = torch.finfo(dtype).eps * 4
    inside = (torch.tensor([4.0], dtype=torch.float64) + limit * 0.9 - step / 2).to(dtype)
    outside = (torch.tensor([4.0], dtype=torch.float64) + limit * 1.1 + step).to(dtype)
    assert_matches(inside, expected)
    torch.testing.assert_close(inside, expected)
    with pytest.raises(AssertionError):
        assert_matches(outside, expected)
    with pytest.raises(AssertionError):
        torch.testing.assert_close(outside, expected)


# --- figures ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("actual", "expected", "size"),
    [
        (torch.tensor([1.0, 2.0]), torch.tensor([1.0, 3.0]), 10_000),
        (torch.tensor([0.0, 0.0]), torch.tensor([0.1, 0.7]), 10_000),
        (torch.tensor([0.0, 0.0]), torch.tensor([0.1, 0.4]), 10_000),
        (torch.tensor([1.0, 2.0001]), torch.tensor([1.0, 2.0]), 3),
        (0.5, 0.25, 1_000),
    ],
)
def test_the_size_of_an_error_is_told_in_units_of_the_tolerance(actual: Any, expected: Any, size: float) -> None:
    """To the power of ten: who answers with zeros cannot read off what was expected."""
    figures.taken()
    with pytest.raises(AssertionError):
        assert_matches(actual, expected, rtol=0, atol=4e-5)
    assert figures.taken() == (Figure("largest error, roughly", size, 1, at_least=False, unit="times what is allowed"),)


def test_where_values_must_be_equal_the_share_that_differs_is_told() -> None:
    figures.taken()
    with pytest.raises(AssertionError):
        assert_matches(torch.tensor([1, 2, 3]), torch.tensor([1, 2, 4]))
    assert figures.taken() == (Figure("elements that differ", 30, 0, at_least=False, unit="%"),)


@pytest.mark.parametrize(
    ("actual", "expected"),
    [(1, 2), (torch.tensor(1), torch.tensor(2)), (torch.zeros(2), torch.zeros(3)), (torch.inf, 1.0), (torch.nan, 1.0)],
)
def test_where_a_size_says_nothing_there_is_no_figure(actual: Any, expected: Any) -> None:
    """Nor may it give away a single whole number."""
    figures.taken()
    with pytest.raises(AssertionError):
        assert_matches(actual, expected)
    assert figures.taken() == ()


def test_a_match_leaves_no_figure() -> None:
    figures.taken()
    assert_matches(x, x.clone())
    assert figures.taken() == ()


@pytest.mark.parametrize(
    ("actual", "expected", "message"),
    [
        (0.7 + 1e-8, 0.7, "got 0.70000001, expected 0.7"),
        (1 / 3 + 1e-12, 1 / 3, "got 0.333333333334, expected 0.333333333333"),
        (1.0 + 2.0**-52, 1.0, "got 1.0000000000000002, expected 1"),
        (0.25, 0.75, "got 0.25, expected 0.75"),
        (math.nan, 0.7, "got nan, expected 0.7"),
    ],
)
def test_numbers_are_shown_with_as_many_digits_as_tell_them_apart(actual: float, expected: float, message: str) -> None:
    with pytest.raises(AssertionError, match=re.escape(message) + ";"):
        assert_matches(double(actual), double(expected), rtol=1e-17, atol=0)
