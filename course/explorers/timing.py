"""How lessons compare times: always a ratio of two versions that ran in turns, never a bare number of seconds."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable
from typing import Final

from autograder.hardware import one_thread

JUST_NOW: Final = "on this machine, just now, {}. Times vary: run the cell again when the machine is idle"
"""What a measured claim that fails says: format it with what was measured and what was expected."""


def cost_ratio(candidate: Callable[[], object], baseline: Callable[[], object], rounds: int = 40) -> float:
    """How many times as long as the baseline the candidate takes: fastest of ``rounds`` runs each, taken in turns.

    The fastest run counts because other programs can only make a run slower. Each version runs once before, to
    pay for setting things up.
    """
    fastest = {candidate: float("inf"), baseline: float("inf")}
    with one_thread():
        candidate()
        baseline()
        for _, version in itertools.product(range(rounds), (candidate, baseline)):
            start = time.perf_counter()
            version()
            fastest[version] = min(fastest[version], time.perf_counter() - start)
    return fastest[candidate] / fastest[baseline]
