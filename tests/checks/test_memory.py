"""How much memory a result holds."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from autograder import figures
from autograder.checks import assert_holds_at_most
from autograder.errors import Finding
from autograder.report import Figure
from autograder.submission import Submission

Learner = Callable[[str], Submission]


@pytest.fixture(autouse=True)
def _no_figures_yet() -> None:
    figures.taken()


FRAMES = torch.rand(32, 5)


@pytest.mark.parametrize(
    "body",
    [
        "return x.unfold(0, 8, 1)",
        "return x",
        "return x[::2]",
        "return x[:1].expand(1000, 5)",
        "return [x, x.t()]",
        "return x.clone()",
    ],
)
def test_views_hold_no_more_than_their_input(learner: Learner, body: str) -> None:
    assert_holds_at_most(learner(f"def f(x):\n    return {body[7:]}").f, (FRAMES,), FRAMES.nbytes)
    assert not figures.taken()


@pytest.mark.parametrize(
    ("body", "held", "times"),
    [
        ("return x.unfold(0, 8, 1).contiguous()", "4,000", "6.2"),
        ("return torch.stack([x[i:i + 8] for i in range(25)])", "4,000", "6.2"),
        ("return x.double()", "1,280", "2.0"),
        ("return [x, x.clone()]", "1,280", "2.0"),
    ],
)
def test_copies_are_found_out_with_figures(learner: Learner, body: str, held: str, times: str) -> None:
    function = learner(f"import torch\ndef f(x):\n    {body}").f
    with pytest.raises(Finding) as caught:
        assert_holds_at_most(function, (FRAMES,), FRAMES.nbytes, hint="Use unfold.")
    assert str(caught.value) == (
        f"the result of `f` holds {held} bytes, {times} times the 640 that are needed. Use unfold."
    )
    figure = Figure("memory that the result holds", int(held.replace(",", "")), 640, at_least=False, unit="bytes")
    assert figures.taken() == (figure,)


def test_keyword_arguments_pass_through(learner: Learner) -> None:
    with pytest.raises(Finding):
        assert_holds_at_most(learner("def f(x, *, n):\n    return x.repeat(n, 1)").f, (FRAMES,), FRAMES.nbytes, n=2)
