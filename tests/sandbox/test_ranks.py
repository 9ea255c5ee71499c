"""Ranks inside the sandbox: what they return, what is counted, and who waits for whom when they do not come back."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import psutil
import pytest
import torch

from autograder.checks.ranks import outcomes_on_ranks, values_on_ranks
from autograder.errors import Finding, IsolationUnavailable, LearnerException
from autograder.notebook import Cell
from autograder.program import read_program
from autograder.submission import Host, Submission

SOURCE = """
import os
import time

import torch
import torch.distributed as dist
from torch import nn


def average(tensor):
    dist.all_reduce(tensor)
    return tensor / dist.get_world_size()


def train(x, accumulate):
    model = nn.parallel.DistributedDataParallel(nn.Linear(2, 1))
    with model.no_sync():
        for _ in range(accumulate - 1):
            model(x).sum().backward()
    model(x).sum().backward()
    return model.module.weight.grad


def hang(rank):
    average(torch.ones(1))
    if rank == 0:
        dist.barrier()
    else:
        time.sleep(1000)


def mismatch(rank):
    if rank == 0:
        dist.broadcast(torch.ones(1), src=1)
    dist.barrier()
    dist.barrier() if rank else dist.all_reduce(torch.ones(1))


def die(rank):
    average(torch.ones(1))
    if rank == 1:
        os._exit(0)
    average(torch.ones(1))


def fail(rank):
    if rank == 1:
        raise KeyError("nothing")
"""


@pytest.fixture(scope="module", params=["bubblewrap", "none"])
def host(request: pytest.FixtureRequest) -> Iterator[Host]:
    host = Host(request.param)
    try:
        assert host.isolation == request.param
    except IsolationUnavailable as error:
        pytest.skip(str(error))
    with host:
        yield host


@pytest.fixture
def submission(host: Host) -> Iterator[Submission]:
    submission = Submission(lambda: host.runner("learner"), read_program([Cell("code", SOURCE)]))
    yield submission
    submission.close()


def _average(learner, rank, world_size, rows):  # type: ignore[no-untyped-def]
    return learner.average(rows[rank].clone())


def _train(learner, rank, world_size, rows, accumulate):  # type: ignore[no-untyped-def]
    return learner.train(rows[rank : rank + 1], accumulate)


def _hang(learner, rank, world_size):  # type: ignore[no-untyped-def]
    learner.hang(rank)


def _mismatch(learner, rank, world_size):  # type: ignore[no-untyped-def]
    learner.mismatch(rank)


def _die(learner, rank, world_size):  # type: ignore[no-untyped-def]
    learner.die(rank)


def _fail(learner, rank, world_size):  # type: ignore[no-untyped-def]
    learner.fail(rank)


@pytest.mark.parametrize("world_size", [1, 2, 3])
def test_values_come_back_by_rank(submission: Submission, world_size: int) -> None:
    rows = torch.arange(6.0).reshape(3, 2)
    values = values_on_ranks(submission, _average, world_size, rows)
    assert len(values) == world_size
    for value in values:
        torch.testing.assert_close(value, rows[:world_size].mean(0))


def test_collectives_are_counted_those_of_ddp_included(submission: Submission) -> None:
    """Three micro-batches without and with synchronisation between them: one reduction either way."""
    outcomes = outcomes_on_ranks(submission, _train, 2, torch.eye(2), 3)
    for outcome in outcomes:
        torch.testing.assert_close(outcome["value"], torch.full((1, 2), 1.5))
        assert outcome["collectives"]["all_reduce"] == 1
    assert outcomes_on_ranks(submission, _train, 2, torch.eye(2), 1)[0]["collectives"]["all_reduce"] == 1
    assert outcomes_on_ranks(submission, _average, 2, torch.eye(2))[0]["collectives"] == {"all_reduce": 1}


@pytest.mark.parametrize(
    ("probe", "says"),
    [
        (_hang, ["rank 0 still waits in `barrier`, its call number 2", "rank 1 still waits in no collective call"]),
        (_die, ["the process of rank 1 ended in no collective call, after 1 of them"]),
    ],
)
def test_who_waits_for_whom(submission: Submission, probe: Callable[..., Any], says: list[str]) -> None:
    """A rank that hangs or dies is named, with the call that each is in; the submission can be used on."""
    begin = time.monotonic()
    with pytest.raises(Finding) as found:
        values_on_ranks(submission, probe, 2, timeout=3)
    assert time.monotonic() - begin < 40
    for part in says:
        assert part in str(found.value)
    assert values_on_ranks(submission, _average, 2, torch.eye(2))[0].tolist() == [0.5, 0.5]


def test_ranks_that_wait_for_each_other_are_ended_early(submission: Submission) -> None:
    """A deadlock is noticed: nobody is left who could help."""
    begin = time.monotonic()
    with pytest.raises((Finding, LearnerException)):
        values_on_ranks(submission, _mismatch, 2, timeout=500)
    assert time.monotonic() - begin < 60


def test_an_exception_names_its_rank(submission: Submission) -> None:
    with pytest.raises(LearnerException, match=r"raised KeyError: 'nothing'.*on rank 1 of 2"):
        values_on_ranks(submission, _fail, 2)


def test_nothing_is_left_behind(submission: Submission) -> None:
    """After ranks that hung, there are no more processes than before."""
    values_on_ranks(submission, _average, 2, torch.eye(2))
    before = {child.pid for child in psutil.Process().children(recursive=True)}
    with pytest.raises(Finding):
        values_on_ranks(submission, _hang, 2, timeout=1)
    after = {child.pid for child in psutil.Process().children(recursive=True)}
    assert len(after) <= len(before)


def test_two_at_once_agree(host: Host) -> None:
    """Groups find their own ranks: no port or file is shared."""
    found: list[Any] = []

    def run(row: float) -> None:
        own = Submission(lambda: host.runner(f"learner {row}"), read_program([Cell("code", SOURCE)]))
        found.append((row, [value.item() for value in values_on_ranks(own, _average, 2, torch.full((2, 1), row))]))
        own.close()

    with Host(host.isolation) as other:
        own = Submission(lambda: other.runner("other"), read_program([Cell("code", SOURCE)]))
        thread = threading.Thread(target=run, args=(3.0,))
        thread.start()
        values = values_on_ranks(own, _average, 2, torch.full((2, 1), 7.0))
        thread.join()
        own.close()
    assert [value.item() for value in values] == [7.0, 7.0]
    assert found == [(3.0, [3.0, 3.0])]
