"""Ranks inside the sandbox: what they return, what is counted, and who waits for whom when they do not come back."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, cast

import psutil
import pytest
import torch
import torch.distributed as dist

from autograder.checks.ranks import outcomes_on_ranks, values_on_ranks
from autograder.errors import Finding, IsolationUnavailable, LearnerException, RanksError
from autograder.notebook import Cell
from autograder.program import read_program
from autograder.ranks import STALL_S, launch
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


def train(x, accumulate, steps):
    model = nn.parallel.DistributedDataParallel(nn.Linear(2, 1))
    for _ in range(steps):
        with model.no_sync():
            for _ in range(accumulate - 1):
                model(x).sum().backward()
        model(x).sum().backward()
    return model.module.weight.grad


def split(rank):
    pair = dist.new_group([0, 1])
    dist.barrier()
    if rank < 2:
        dist.all_reduce(torch.ones(1), group=pair)
    dist.barrier()
    dist.destroy_process_group()


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


def fail_alone(rank):
    fail(rank)
    dist.barrier()


def leave(rank):
    dist.barrier()
    if rank == 0:
        dist.barrier()


class Slow(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, seconds):
        ctx.seconds = seconds
        return x.clone()

    @staticmethod
    def backward(ctx, gradient):
        until = time.monotonic() + ctx.seconds
        while time.monotonic() < until:
            torch.ones(100) @ torch.ones(100)
        return gradient, None


def compute(seconds):
    x = torch.ones(1, requires_grad=True)
    Slow.apply(x, seconds).sum().backward()
    return x.grad.item()
"""


@pytest.fixture(scope="module", params=["bubblewrap", pytest.param("none", marks=pytest.mark.thorough)])
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


def _train(learner, rank, world_size, rows, accumulate, steps):  # type: ignore[no-untyped-def]
    return learner.train(rows[rank : rank + 1], accumulate, steps)


def _split(learner, rank, world_size):  # type: ignore[no-untyped-def]
    learner.split(rank)


def _hang(learner, rank, world_size):  # type: ignore[no-untyped-def]
    learner.hang(rank)


def _mismatch(learner, rank, world_size):  # type: ignore[no-untyped-def]
    learner.mismatch(rank)


def _die(learner, rank, world_size):  # type: ignore[no-untyped-def]
    learner.die(rank)


def _fail(learner, rank, world_size):  # type: ignore[no-untyped-def]
    learner.fail(rank)


def _fail_alone(learner, rank, world_size):  # type: ignore[no-untyped-def]
    learner.fail_alone(rank)


def _leave(learner, rank, world_size):  # type: ignore[no-untyped-def]
    learner.leave(rank)


def _compute(learner, rank, world_size, seconds):  # type: ignore[no-untyped-def]
    return learner.compute(seconds)


def _gone(rank: int, world_size: int) -> None:
    if rank == 1:
        os._exit(0)
    dist.barrier()


def _forever(rank: int, world_size: int) -> None:
    time.sleep(1000)


@pytest.mark.parametrize("world_size", [1, 2, 3])
def test_values_come_back_by_rank(submission: Submission, world_size: int) -> None:
    rows = torch.arange(6.0).reshape(3, 2)
    values = values_on_ranks(submission, _average, world_size, rows)
    assert len(values) == world_size
    for value in values:
        torch.testing.assert_close(value, rows[:world_size].mean(0))


def test_collectives_are_counted_those_of_ddp_included(submission: Submission) -> None:
    """Three micro-batches with one synchronisation cost as many as one; a second step costs more; groups count."""
    counts = {}
    for accumulate in (1, 3):
        outcomes = outcomes_on_ranks(submission, _train, 2, torch.eye(2), accumulate, 1)
        torch.testing.assert_close([outcome["value"] for outcome in outcomes], [torch.full((1, 2), accumulate / 2)] * 2)
        counts[accumulate] = [outcome["collectives"] for outcome in outcomes]
    assert counts[3] == counts[1]
    more = outcomes_on_ranks(submission, _train, 2, torch.eye(2), 1, 2)
    assert all(outcome["collectives"] > count for outcome, count in zip(more, counts[1], strict=True))
    assert [outcome["collectives"] for outcome in outcomes_on_ranks(submission, _average, 2, torch.eye(2))] == [1, 1]
    assert [outcome["collectives"] for outcome in outcomes_on_ranks(submission, _split, 3)] == [3, 3, 2]


@pytest.mark.parametrize(
    ("probe", "says"),
    [
        (
            _hang,
            [
                "rank 0 still waits in `barrier`, its collective call number 2",
                "rank 1 is still busy outside of collective calls",
            ],
        ),
        (_die, ["the process of rank 1 ended outside of collective calls, after 1 collective call"]),
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


def test_an_exception_counts_before_those_who_wait_for_it(submission: Submission) -> None:
    """Rank 0 waits at a barrier for rank 1, which raised: the exception is told, and soon."""
    begin = time.monotonic()
    with pytest.raises(LearnerException, match=r"raised KeyError: 'nothing'.*on rank 1 of 2"):
        values_on_ranks(submission, _fail_alone, 2, timeout=500)
    assert time.monotonic() - begin < 60


def test_sizes_are_told_where_nothing_is_hidden() -> None:
    """Ranks that bring different numbers of numbers: a visible test says so; a hidden one must not."""
    outcomes = [
        {"rank": rank, "state": "waiting", "call": "all_reduce", "number": 1, "size": 1 + rank} for rank in range(2)
    ]
    with pytest.raises(Finding) as found:
        values_on_ranks(cast(Submission, _Answering(outcomes)), _average, 2)
    one, other = "rank 0 still waits in `all_reduce`", "rank 1 still waits in `all_reduce`"
    number = "its collective call number 1"
    assert str(found.value) == f"{one}, {number}; {other}, {number}"
    assert found.value.in_full == f"{one} of 1 number, {number}; {other} of 2 numbers, {number}"


class _Answering:
    """A submission whose ranks end as was agreed."""

    def __init__(self, outcomes: list[dict[str, Any]]) -> None:
        self._outcomes = outcomes

    def on_ranks(self, *args: Any, **kwargs: Any) -> list[dict[str, Any]]:
        return self._outcomes


def test_whoever_leaves_early_is_told(submission: Submission) -> None:
    """Rank 1 comes back although rank 0 still needs it: nobody reads a text of gloo's."""
    with pytest.raises(Finding) as found:
        values_on_ranks(submission, _leave, 2, timeout=500)
    told = (
        "rank 0 still waits in `barrier`, its collective call number 2; rank 1 had come back, after 1 collective call"
    )
    assert str(found.value) == told


def test_a_process_that_is_gone_breaks_connections_in_plain_words() -> None:
    """What gloo says of it, with line numbers and an address, is not passed on."""
    with pytest.raises(RanksError) as raised:
        launch(_gone, 2, timeout=60)
    assert "the process of rank 1 ended" in str(raised.value)
    assert "another rank has left the group" in str(raised.value)
    assert "127.0.0.1" not in str(raised.value)


@pytest.mark.slow
def test_a_heavy_backward_is_no_deadlock(submission: Submission) -> None:
    """Ranks that compute for long inside a call that is noted are not taken for stuck."""
    values = values_on_ranks(submission, _compute, 2, STALL_S + 2, timeout=60)
    assert values == [1.0, 1.0]


def test_ranks_go_with_their_parent() -> None:
    """A process that launched ranks and is killed leaves none behind, whatever they were at."""
    source = "import os; from tests.sandbox.test_ranks import _forever; from autograder.ranks import launch\n"
    source += "if __name__ == '__main__': launch(_forever, 2, timeout=300)"
    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder) / "launching.py"
        script.write_text(source)
        parent = subprocess.Popen(
            [sys.executable, str(script)],
            env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        ranks = _eventually(lambda: _children(parent.pid, at_least=2))
        parent.kill()
        parent.wait()
        _eventually(lambda: not [rank for rank in ranks if rank.is_running() and rank.status() != psutil.STATUS_ZOMBIE])


def _children(pid: int, at_least: int) -> list[psutil.Process]:
    found = [
        child for child in psutil.Process(pid).children(recursive=True) if "spawn_main" in " ".join(child.cmdline())
    ]
    return found if len(found) >= at_least else []


def _eventually(condition: Callable[[], Any], patience_s: float = 60.0) -> Any:
    """What *condition* gives as soon as that is true."""
    deadline = time.monotonic() + patience_s
    while time.monotonic() < deadline:
        if found := condition():
            return found
        time.sleep(0.05)
    raise AssertionError("it did not come to that")


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
