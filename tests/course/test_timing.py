"""The lessons' stopwatch: a ratio that follows the work, and threads that are given back."""

from __future__ import annotations

import importlib
from pathlib import Path
from types import ModuleType

import pytest
import torch


@pytest.fixture
def timing(course_folder: Path) -> ModuleType:
    """The module ``explorers.timing``."""
    return importlib.import_module("explorers.timing")


def test_ratio_of_known_times(timing: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a clock that the work itself moves, the ratio is that of the work; a slow first run does not count."""
    clock = [0.0]
    runs: list[str] = []
    monkeypatch.setattr(timing.time, "perf_counter", lambda: clock[0])

    def work(name: str, seconds: float) -> None:
        clock[0] += seconds * (10 if name not in runs else 1)
        runs.append(name)

    assert timing.cost_ratio(lambda: work("slow", 6), lambda: work("quick", 2), rounds=3) == 3
    assert runs == ["slow", "quick"] * 4


def test_one_thread_gives_the_others_back(timing: ModuleType) -> None:
    """Inside there is one thread, afterwards as many as before, an error in between or not."""
    before = torch.get_num_threads()
    with pytest.raises(KeyError), timing.one_thread():
        assert torch.get_num_threads() == 1
        raise KeyError
    assert torch.get_num_threads() == before
