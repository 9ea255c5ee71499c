"""Who shares memory with whom."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from autograder.checks import assert_is_view, assert_leaves_inputs_alone, assert_owns_result
from autograder.errors import Finding
from autograder.submission import Submission

Learner = Callable[[str], Submission]
DTYPES = [torch.float32, torch.float16, torch.uint8, torch.int64]


def frames(dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.arange(24).reshape(2, 3, 4).to(dtype)


def transposed(x: torch.Tensor) -> torch.Tensor:
    return torch.stack([row.t() for row in x])


def f_of(learner: Learner, body: str):
    return learner(f"import torch\nkeep = []\ndef f(x):\n    {body}").f


# --- views ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("body", ["return x.transpose(1, 2)", "return x.mT", "return x.permute(0, 2, 1)[:]"])
def test_a_view_is_one(learner: Learner, body: str, dtype: torch.dtype) -> None:
    assert_is_view(f_of(learner, body), (frames(dtype),), transposed)


@pytest.mark.parametrize("body", ["return x.mT.contiguous()", "return x.mT.clone()", "return x.mT + 0"])
def test_a_copy_is_found_out(learner: Learner, body: str) -> None:
    with pytest.raises(Finding, match=r"`f` returned a copy: a write to its input did not show in it. Use mT."):
        assert_is_view(f_of(learner, body), (frames(),), transposed, hint="Use mT.")


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ("return x.view(2, 4, 3)", "differs from what was expected"),
        ("return x", "the shape is"),
        ("return None", "expected a tensor"),
        ("x = x.clone(); return x.view(2, 4, 3)", "cannot be told while its values are wrong"),
    ],
)
def test_a_wrong_view_fails_as_wrong(learner: Learner, body: str, says: str) -> None:
    with pytest.raises(AssertionError, match=says) as caught:
        assert_is_view(f_of(learner, body), (frames(),), transposed)
    assert not isinstance(caught.value, Finding)


def test_what_was_drawn_is_not_told(learner: Learner) -> None:
    """The values written are others each time; the message must not be."""
    texts = set()
    for _ in range(3):
        with pytest.raises(AssertionError) as caught:
            assert_is_view(f_of(learner, "return x.view(2, 4, 3)"), (frames(),), transposed)
        texts.add(str(caught.value))
    assert len(texts) == 1


def test_the_argument_can_be_chosen(learner: Learner) -> None:
    function = learner("def f(n, x, *, end):\n    return x[n:end]").f
    assert_is_view(function, (1, frames()), lambda n, x, end: x[n:end], of=1, end=2)


# --- results of one's own ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [*DTYPES, torch.bool], ids=str)
@pytest.mark.parametrize("body", ["return x.mT.clone()", "return x.flatten()[[0, 1]]", "return torch.zeros(3)"])
def test_a_result_of_its_own(learner: Learner, body: str, dtype: torch.dtype) -> None:
    assert_owns_result(f_of(learner, body), (frames(dtype),))


@pytest.mark.parametrize("dtype", [*DTYPES, torch.bool], ids=str)
@pytest.mark.parametrize("body", ["return x", "return x.mT", "return x[0]", "return x.reshape(6, 4)"])
def test_a_result_that_shares_memory_is_found_out(learner: Learner, body: str, dtype: torch.dtype) -> None:
    """Zeros are the hardest input: a write of small random numbers would leave integers as they are."""
    with pytest.raises(
        AssertionError, match="after a write to the result of `f`, its input differs from what was expected"
    ):
        assert_owns_result(f_of(learner, body), (torch.zeros(2, 3, 4, dtype=dtype),))


@pytest.mark.parametrize("body", ["return x[:1].expand(5, 3, 4)", "return x.new_zeros(1).expand(4)"])
def test_a_result_that_shares_memory_with_itself_is_found_out(learner: Learner, body: str) -> None:
    with pytest.raises(Finding, match="elements of the result of `f` share memory"):
        assert_owns_result(f_of(learner, body), (frames(),))


def test_a_result_that_is_no_tensor(learner: Learner) -> None:
    with pytest.raises(Finding, match="the result of `f` is no tensor"):
        assert_owns_result(f_of(learner, "return None"), (frames(),))


# --- inputs -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("body", ["return x + 1", "x = x.clone(); x += 1; return x", "return x", "return None"])
def test_inputs_left_alone(learner: Learner, body: str) -> None:
    assert_leaves_inputs_alone(f_of(learner, body), (frames(),))


@pytest.mark.parametrize(
    "body",
    [
        "x += 1",
        "x[0, 0, 0] = 9",
        "x.mT.mul_(2)",
        "x.data.zero_()",
        "x.resize_(2, 2)",
        "x.unsqueeze_(0)",
        "x.detach().numpy()[0] = 7",
    ],
)
def test_changed_inputs_are_found_out(learner: Learner, body: str) -> None:
    with pytest.raises(AssertionError, match=r"after the call of `f`, its first argument: .*"):
        assert_leaves_inputs_alone(f_of(learner, body), (frames(),))


def test_every_argument_is_looked_at(learner: Learner) -> None:
    function = learner("def f(x, rows, options):\n    rows.append(1)").f
    with pytest.raises(AssertionError, match="its second argument has 2 values; expected 1"):
        assert_leaves_inputs_alone(function, (frames(), [0], {"a": 1}))
