"""Code that others on the same machine keep from computing is given the time that it waited for a core."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator

import pytest

from autograder import census, patience, submission
from autograder.census import ForkedUse
from autograder.checks.ranks import values_on_ranks
from autograder.errors import LearnerTimeout
from autograder.notebook import Cell
from autograder.program import read_program
from autograder.submission import Host, Submission

from .busy import busy_core

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells who waited for a core")

SOURCE = """
import os, time

def share(core):
    os.sched_setaffinity(0, {core})

def excuse_all(times):
    import autograder.patience
    autograder.patience.MOST_HELD_UP = times

def is_listed():
    from autograder.patience import number_in_proc
    return os.path.samefile(f"/proc/{number_in_proc()}", "/proc/self")

def compute(seconds):
    until = time.process_time() + seconds
    while time.process_time() < until:
        pass
    return seconds

def sleep(seconds):
    time.sleep(seconds)
"""
BUSY = 2
ALL = 50.0
"""How much may be excused where a test's machine may be busy with other tests besides."""


@pytest.fixture(scope="module")
def host() -> Iterator[Host]:
    with Host("auto") as host:
        yield host


@pytest.fixture
def crowded(host: Host, monkeypatch: pytest.MonkeyPatch) -> Iterator[Submission]:
    """A submission on a core that others are busy on; a request may take 2 seconds."""
    monkeypatch.setattr(submission, "CALL_TIMEOUT_S", 2.0)
    core = min(os.sched_getaffinity(0))
    learner = Submission(host.runner, read_program([Cell("code", SOURCE)]))
    learner.share(core)
    with busy_core(core, BUSY):
        yield learner
    learner.close()


@pytest.fixture
def all_excused(crowded: Submission, monkeypatch: pytest.MonkeyPatch) -> None:
    """However long others keep the code from computing, it is waited for, by the judge and by the ranks' process."""
    monkeypatch.setattr(patience, "MOST_HELD_UP", ALL)
    monkeypatch.setattr(submission, "MOST_HELD_UP", ALL)
    crowded.excuse_all(ALL)


def _on_each_rank(learner, rank, world_size, seconds):  # type: ignore[no-untyped-def]
    return learner.compute(seconds)


def test_a_process_in_a_namespace_knows_which_one_it_is_in_proc(crowded: Submission) -> None:
    """A use and its ranks are told other numbers than those by which /proc lists them."""
    assert crowded.is_listed()


@pytest.mark.usefixtures("all_excused")
def test_ranks_that_wait_for_a_busy_core_are_waited_for(crowded: Submission) -> None:
    assert values_on_ranks(crowded, _on_each_rank, 2, 0.8, timeout=2.0) == [0.8, 0.8]


@pytest.mark.usefixtures("all_excused")
def test_who_waits_for_a_busy_core_is_waited_for(crowded: Submission) -> None:
    """A second of work beside two busy processes takes three."""
    assert crowded.compute(1.0) == 1.0


@pytest.mark.usefixtures("all_excused")
def test_who_waits_for_a_busy_core_does_not_run_out_of_patience(
    crowded: Submission, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What all tests of a task may take together is meant alike."""
    monkeypatch.setattr(submission, "TASK_PATIENCE_S", 2.0)
    for _ in range(3):
        assert crowded.compute(0.5) == 0.5
    assert crowded._busy_s > 2.0


def test_who_sleeps_is_not_held_up(crowded: Submission) -> None:
    with pytest.raises(LearnerTimeout, match="did not come back within 2 s"):
        crowded.sleep(7.0)


def test_who_computes_for_ever_is_ended(crowded: Submission) -> None:
    with pytest.raises(LearnerTimeout, match="did not come back within 2 s"):
        crowded.compute(1e9)


@pytest.mark.parametrize(
    ("waited", "computed", "held_up"),
    [(0.0, 10.0, 0.0), (8.0, 2.0, 8.0), (8.0, 6.0, 4.0), (9.0, 20.0, 0.0), (0.5, 0.1, 0.5)],
    ids=["alone", "beside others", "in part by its own", "by its own threads", "asleep"],
)
def test_what_counts_as_held_up(
    monkeypatch: pytest.MonkeyPatch, waited: float, computed: float, held_up: float
) -> None:
    """Of a use that is ten seconds old: what it waited, as far as it did not compute meanwhile."""
    monkeypatch.setattr(time, "monotonic", lambda: 110.0)
    monkeypatch.setattr(census, "_processes", dict)
    monkeypatch.setattr(census, "waited_seconds", lambda pid: waited)
    monkeypatch.setattr(census, "cpu_seconds", lambda use, uses: computed)
    use = ForkedUse(1, 1_000_000_000, memory=0, disk=0, born=100.0, alone=True)
    assert census.held_up_seconds(use, {1: use}) == pytest.approx(held_up)
