"""Are speed verdicts right on a loaded machine? Solution and starter, many times each, beside two busy processes.

    python benchmarks/verdicts.py [--times N]

Every timed test of every chapter is run N times (200 by default) on the solution, which must never be called too slow,
and N times on the starter, which must never be called fast. Prints wrong verdicts (there must be none) and the share
of undecided ones. Exit status 1 for a wrong verdict.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

from autograder.chapter import Chapter, find_chapters, find_root
from autograder.grading import run_tests
from autograder.notebook import Cell
from autograder.program import read_program
from autograder.report import Outcome
from autograder.session import Session
from autograder.submission import Host

_BUSY = "import itertools\nfor i in itertools.count(): pass"


def _timed_tests(chapter: Chapter, cells: tuple[Cell, ...], host: Host, owner: object) -> list[tuple[str, Outcome]]:
    session = Session(chapter, read_program(cells), lambda role: host.runner(owner, role, warm=chapter.warm))
    files = [*chapter.visible_tests, *chapter.hidden_tests]
    run_tests(session, files, [task.name for task in chapter.tasks], timed=True)
    return [(result.name.partition("::")[2], result.outcome) for _, result in session.results]


def main() -> int:
    """Run, count, print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--times", type=int, default=200)
    times = parser.parse_args().times
    wrong = 0
    for chapter in find_chapters(find_root(Path.cwd())).values():
        sides = {"solution": chapter.solution, "starter": chapter.starter}
        busy = [subprocess.Popen([sys.executable, "-c", _BUSY]) for _ in range(2)]
        begin = time.monotonic()
        try:
            with Host("auto") as host:
                for side, cells in sides.items():
                    counts: dict[str, Counter[str]] = {}
                    for number in range(times):
                        for name, outcome in _timed_tests(chapter, cells, host, (side, number)):
                            counts.setdefault(name, Counter())[outcome] += 1
                    for name, outcomes in counts.items():
                        right = Outcome.PASSED if side == "solution" else Outcome.FAILED
                        missed = sum(n for outcome, n in outcomes.items() if outcome not in (right, Outcome.SKIPPED))
                        undecided = outcomes[Outcome.SKIPPED] / times
                        print(f"{chapter.name} {side:8} {name:36} wrong {missed} of {times}, undecided {undecided:.1%}")
                        wrong += missed
        finally:
            for process in busy:
                process.kill()
                process.wait()
        print(f"{chapter.name}: {time.monotonic() - begin:.0f} s")
    print(f"wrong verdicts: {wrong}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
