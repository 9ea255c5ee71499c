"""The speed-up that each reference fix reaches, in the judge's own harness: the figures that the chapters record.

    python benchmarks/speedups.py [CHAPTER]

For every timed test of a chapter the solution is raced against the test's baseline a few times, and the ratios of all
pairs are put together. A chapter's constant should be near the lower quartile, rounded down: k is its square root.
Where k comes from the gain of a bare product (`assert_gains`), the lower quartile should be well above k.
"""

from __future__ import annotations

import statistics
import sys
from pathlib import Path

from autograder.chapter import find_chapters, find_root
from autograder.checks import speedup
from autograder.grading import Grading, grade_cells
from autograder.submission import Host

ROUNDS = 8


def main() -> None:
    """Print one line per timed function."""
    for name, chapter in find_chapters(find_root(Path.cwd())).items():
        if sys.argv[1:] and name not in sys.argv[1:]:
            continue
        ratios: dict[tuple[str, float], list[float]] = {}
        with Host("auto") as host:
            for _ in range(ROUNDS):
                speedup.MEASURED.clear()
                grade_cells(chapter.solution, Grading(chapter, host))
                for function, k, measured in speedup.MEASURED:
                    ratios.setdefault((function, k), []).extend(measured)
        print(f"{name}: pairs, lower quartile and median of baseline time / solution time; k asked for")
        for (function, k), measured in ratios.items():
            low = statistics.quantiles(measured, n=4)[0]
            print(f"  {function:20} {len(measured):4} pairs  {low:6.1f}  {statistics.median(measured):6.1f}  k {k:.2f}")


if __name__ == "__main__":
    main()
