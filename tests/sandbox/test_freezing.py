"""Uses that are stopped while another one is timed: none works on, and none is ended for waiting for a busy core."""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import pytest

from autograder import census
from autograder.census import ForkedUse
from autograder.notebook import Cell
from autograder.program import read_program
from autograder.submission import Host, Submission

from .busy import busy_core

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux has what stops processes from outside")

Learner = Callable[[str], Submission]
OWN = 1_000_000_000
"""Of no process: there are no such numbers."""

WORKS_ON = """
import os, threading

def work_on(core):
    # whoever has this policy gets a core only where nobody else asks for it: some milliseconds each second at most
    os.sched_setaffinity(0, {core})
    os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
    threading.Thread(target=count, daemon=True).start()

counted = 0

def count():
    global counted
    while True:
        counted += 1

def so_far():
    return counted
"""


@pytest.fixture
def learner() -> Iterator[Learner]:
    with Host("auto") as host:
        yield lambda source: Submission(host.runner, read_program([Cell("code", source)]))


def test_a_use_that_waits_for_a_busy_core_is_not_ended(learner: Learner) -> None:
    """It notices that it is to stop when its turn comes, and not before; then it stands still."""
    submission = learner(WORKS_ON)
    core = min(os.sched_getaffinity(0))
    submission.work_on(core)
    with busy_core(core):
        for _ in range(5):
            submission.so_far.freeze()
            held = submission.so_far.cpu_seconds()
            assert submission.so_far.cpu_seconds() == held
            submission.so_far.thaw()
    assert submission.so_far() > 0


@dataclass
class Family:
    """Processes as the census sees them, in place of real ones: the use's own, and those that it starts."""

    looks_until_still: float = 0
    starts_at_each_look: int = 0
    looks: int = 0
    stopped: set[int] = field(default_factory=set)
    ended: set[int] = field(default_factory=set)

    def processes(self) -> dict[int, int]:
        self.looks += 1
        return {OWN + 1 + n: OWN for n in range(self.looks * self.starts_at_each_look)}

    def is_still(self, pid: int) -> bool:
        return pid in self.stopped and self.looks > self.looks_until_still


@pytest.fixture
def family(monkeypatch: pytest.MonkeyPatch) -> Family:
    members = Family()
    monkeypatch.setattr(census, "_processes", members.processes)
    monkeypatch.setattr(census, "_is_still", members.is_still)
    monkeypatch.setattr(census, "_signal", lambda pid, number: members.stopped.add(pid))
    monkeypatch.setattr(census, "kill", members.ended.add)
    monkeypatch.setattr(census, "_pauses", lambda: [0.0] * 370)
    return members


def frozen() -> ForkedUse:
    use = ForkedUse(1, OWN, memory=0, disk=0, born=0.0, alone=True)
    census.freeze(use, {1: use})
    return use


@pytest.mark.parametrize("looks", [0, 5, 300])
def test_however_long_it_takes_to_stand_still(family: Family, looks: int) -> None:
    family.looks_until_still = looks
    assert frozen().reason == ""
    assert (family.stopped, family.ended) == ({OWN}, set())


def test_what_is_started_meanwhile_is_stopped_as_well(family: Family) -> None:
    """After the second look nothing new comes."""
    processes = family.processes
    family.starts_at_each_look, family.looks_until_still = 1, 3
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(census, "_processes", lambda: dict(list(processes().items())[:2]))
        assert frozen().reason == ""
    assert (family.stopped, family.ended) == ({OWN, OWN + 1, OWN + 2}, set())


def test_a_use_that_keeps_starting_processes_is_ended(family: Family) -> None:
    family.starts_at_each_look = 1
    assert frozen().reason == "restless"
    assert family.looks < 200
    assert {OWN, OWN + 1, OWN + 100} <= family.ended


def test_a_use_that_never_stands_still_is_ended(family: Family) -> None:
    family.looks_until_still = math.inf
    assert frozen().reason == "restless"
    assert family.ended == {OWN}


def test_a_use_is_waited_for_half_a_minute() -> None:
    assert 25 < sum(census._pauses()) < 40
