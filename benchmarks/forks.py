"""What large pages save of each fork of a warm process.

    python benchmarks/forks.py [--rounds N]

Two processes import what the warm process imports; one of them then gathers its memory in large pages as that does.
In turn each forks ten times, twice over as for a use with namespaces of its own. Processor time, the forks' included,
is compared, since that is what a busy grader has too little of. Exit status 1 where large pages save less than half.
"""

from __future__ import annotations

import argparse
import gc
import os
import statistics
import sys
from multiprocessing import get_context
from multiprocessing.connection import Connection

FORKS = 10
TARGET = 2.0


def _fork() -> None:
    if pid := os.fork():
        os.waitpid(pid, 0)
        return
    if pid := os.fork():
        os.waitpid(pid, 0)
    os._exit(0)


def _serve(asked: Connection, large: bool) -> None:
    import torch
    import torch._dynamo  # noqa: F401

    import autograder.ranks  # noqa: F401
    from autograder.large_pages import gathered

    gc.collect()
    gc.freeze()
    for _ in gathered() if large else ():
        pass
    while asked.recv():
        before = os.times()
        for _ in range(FORKS):
            _fork()
        asked.send(sum(os.times()[:4]) - sum(before[:4]))


def main() -> int:
    """Measure, print, compare with the target."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=20)
    rounds = parser.parse_args().rounds
    context = get_context("spawn")
    asking: dict[bool, Connection] = {}
    for large in (False, True):
        asking[large], asked = context.Pipe()
        context.Process(target=_serve, args=(asked, large), daemon=True).start()
    ratios = []
    seconds: dict[bool, list[float]] = {False: [], True: []}
    for number in range(rounds + 1):
        for large in (False, True) if number % 2 else (True, False):
            asking[large].send(True)
            seconds[large].append(asking[large].recv() / FORKS)
        ratios.append(seconds[False][-1] / max(seconds[True][-1], 1e-9))
    for connection in asking.values():
        connection.send(False)
    small_ms, large_ms = (1e3 * statistics.median(seconds[large][1:]) for large in (False, True))  # the first are cold
    ratio = statistics.median(ratios[1:])
    print(f"processor time of a double fork: {small_ms:.1f} ms with small pages, {large_ms:.1f} ms with large ones")
    print(f"small / large: {ratio:.1f}, median of {rounds} pairs (target {TARGET:g})")
    return 0 if ratio >= TARGET else 1


if __name__ == "__main__":
    sys.exit(main())
