"""What a learner's code and the tests' probes may import of this package inside every sandbox."""

from __future__ import annotations

import pytest

from autograder.errors import IsolationUnavailable
from autograder.notebook import Cell
from autograder.program import read_program
from autograder.submission import Host, Submission

SOURCE = """
import torch
from autograder.pictures import digits, photograph

IMAGES, LABELS = digits()


def known():
    from sklearn.metrics import accuracy_score
    return len(IMAGES), sorted(set(LABELS.tolist())), tuple(photograph(0).shape), accuracy_score([1], [1])


def loss(x):
    return (x * x).sum()
"""


def _saved(learner, x):  # type: ignore[no-untyped-def]
    from autograder.instruments import HostReads, SavedTensors

    with SavedTensors() as saved, HostReads() as reads:
        loss = learner.loss(x.requires_grad_())
        value = loss.item()
    return saved.alive, reads.count, value


@pytest.mark.parametrize("isolation", ["bubblewrap", pytest.param("sandlock", marks=pytest.mark.slow), "none"])
def test_digits_photographs_and_instruments_are_at_hand(isolation: str) -> None:
    """The course's own data can be used in an answer, and a probe can measure."""
    import torch

    try:
        with Host(isolation) as host:
            host.isolation  # noqa: B018  starts it
            submission = Submission(lambda: host.runner("learner"), read_program([Cell("code", SOURCE)]))
            assert submission.known() == (1797, list(range(10)), (427, 640, 3), 1.0)
            alive, reads, value = submission.run(_saved, torch.tensor([1.0, 2.0]))
            assert alive > 0 and reads == 1 and value == 5.0
            submission.close()
    except IsolationUnavailable as error:
        pytest.skip(str(error))
