"""Gradient checks: right functions pass, each kind of wrong one fails with its message."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from autograder.checks import assert_gradcheck, assert_gradients_match
from autograder.errors import LearnerException
from autograder.submission import Submission

Learner = Callable[[str], Submission]


def reference(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    return torch.stack([(row * w).sum() ** 2 for row in x])


ARGS = (torch.arange(6.0).reshape(3, 2) / 3, torch.tensor([1.0, -2.0]))


@pytest.mark.parametrize(
    "body",
    [
        "return (x @ w) ** 2",
        "return (x * w).sum(1).square()",
        "return torch.stack([r.dot(w) for r in x]).pow(2)",
        "return (x.double() @ w.double()).pow(2).float()",
    ],
)
@pytest.mark.parametrize("wrt", [(0,), (1,), (0, 1), (1, 0)])
def test_right(learner: Learner, body: str, wrt: tuple[int, ...]) -> None:
    submission = learner(f"import torch\ndef f(x, w):\n    {body}")
    assert_gradients_match(submission.f, ARGS, reference, wrt=wrt)


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ("return (x.detach() @ w) ** 2", "no gradient of `f` reaches its first argument. Do not detach."),
        ("return (x.detach() @ w.detach()) ** 2", "no gradient of `f` reaches its first argument"),
        ("return (x @ w.detach()) ** 2", "no gradient of `f` reaches its second argument"),
        ("return (x @ w) ** 2 * 1.01", "the gradient of `f` with respect to its first argument: "),
        ("x = x.clone(); x[0] = x[0].detach(); return (x @ w) ** 2", "2 of 6 elements (33.3%) differ"),
        ("return (x @ w) ** 2 + (x.sum() - x.sum().detach())", "differ"),
    ],
)
def test_wrong(learner: Learner, body: str, says: str) -> None:
    submission = learner(f"import torch\ndef f(x, w):\n    {body}")
    with pytest.raises(AssertionError) as caught:
        assert_gradients_match(submission.f, ARGS, reference, wrt=(0, 1), hint="Do not detach.")
    assert says in str(caught.value)


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ("return ((x @ w) ** 2).sum()", r"the result has shape \(\); expected \(3,\)"),
        ("return [x @ w]", "the result is not a tensor"),
        ("with torch.no_grad(): return torch.ones(2)", "the result has shape"),
        ("x -= 1; return x @ w", "a leaf Variable that requires grad is being used in an in-place operation"),
    ],
)
def test_what_cannot_be_differentiated_is_the_learners_error(learner: Learner, body: str, says: str) -> None:
    with pytest.raises((AssertionError, LearnerException), match=says):
        assert_gradients_match(learner(f"import torch\ndef f(x, w):\n    {body}").f, ARGS, reference)


def test_keyword_arguments_and_other_arguments_pass_through(learner: Learner) -> None:
    submission = learner("def f(x, n, *, scale):\n    return x[:n] * scale")
    assert_gradients_match(submission.f, (torch.rand(4), 2), lambda x, n, scale: x[:n] * scale, scale=3.0)


def test_the_tests_own_tensors_are_left_alone(learner: Learner) -> None:
    x = torch.rand(3)
    assert_gradients_match(learner("def f(x):\n    return x * 2").f, (x,), lambda x: x * 2)
    assert not x.requires_grad and x.grad is None


CUSTOM = """
import torch
class Square(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x
    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return {backward}
f = Square.apply
"""


def test_gradcheck_passes_a_right_custom_function(learner: Learner) -> None:
    assert_gradcheck(learner(CUSTOM.format(backward="2 * x * grad")).f, (torch.tensor([0.5, -1.5]),))


@pytest.mark.parametrize("backward", ["2 * x", "2 * grad", "x * grad", "grad * 0"])
def test_gradcheck_fails_a_wrong_one(learner: Learner, backward: str) -> None:
    function = learner(CUSTOM.format(backward=backward)).f
    with pytest.raises(AssertionError, match=r"^gradcheck of `f`: .*Mind the chain rule\.$"):
        assert_gradcheck(function, (torch.tensor([0.5, -1.5]),), hint="Mind the chain rule.")


def test_gradcheck_of_several_arguments(learner: Learner) -> None:
    args = (torch.rand(2, 3), torch.rand(3))
    assert_gradcheck(learner("def f(x, w):\n    return x @ w").f, args, wrt=(0, 1))
    with pytest.raises(AssertionError):
        assert_gradcheck(learner("def f(x, w):\n    return x @ w.detach()").f, args, wrt=(0, 1))


CUBE = """
import torch


class Cube(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        ctx.square = 3 * x * x
        return x * x * x

    @staticmethod
    def backward(ctx, upstream):
        (x,) = ctx.saved_tensors
        return {backward}


def f(x):
    return Cube.apply(x)
"""


@pytest.mark.parametrize(
    ("source", "says"),
    [
        (CUBE.format(backward="3 * x * x * upstream"), ""),
        ("def f(x):\n    return x ** 3", ""),
        ("def f(x):\n    return 2 * x", ""),
        (CUBE.format(backward="ctx.square * upstream"), "gradgradcheck of `f`"),
        (CUBE.format(backward="(3 * x * x * upstream).detach()"), "cannot be differentiated a second time"),
        (CUBE.format(backward="2 * x * x * upstream"), "gradcheck of `f`"),
        (CUBE.format(backward="3 * x * x"), "gradcheck of `f`"),
    ],
)
def test_second_derivatives(learner: Learner, source: str, says: str) -> None:
    """What is right once may be wrong the second time; only ``twice`` sees it."""
    submission = learner(source)
    x = torch.tensor([0.5, -1.0, 2.0])
    if not says:
        assert_gradcheck(submission.f, (x,), twice=True)
        return
    with pytest.raises(AssertionError, match=says):
        assert_gradcheck(submission.f, (x,), twice=True)
    if "grad" in says and not says.startswith("gradcheck"):
        assert_gradcheck(submission.f, (x,))


def test_second_derivatives_with_two_arguments(learner: Learner) -> None:
    """Both arguments, one of which has no influence on the other's gradient, and one that is not used."""
    submission = learner("def f(x, w):\n    return x ** 2 * w.sum()")
    args = (torch.tensor([0.5, -1.0]), torch.tensor([1.0, 3.0]))
    assert_gradcheck(submission.f, args, wrt=(0, 1), twice=True)
    assert_gradcheck(learner("def f(x, w):\n    return x ** 2").f, args, wrt=(0, 1), twice=True)
