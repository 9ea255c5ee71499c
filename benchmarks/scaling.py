"""Whether a class twice as large takes twice the time, and no more memory.

    python benchmarks/scaling.py [--small N] [--chapter CHAPTER]

Grades a class of N (100) and one of 2 N submissions of one chapter with `autograder grade --jobs 2`, and looks every
0.2 s at the memory of all its processes (proportional set size: what processes share is counted once). Targets: at most
2.2 times the time; less than 1.5 GB; for 2 N no more than a tenth above the memory for N. Exit status 1 where one is
missed.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import psutil
from classes import write_class
from throughput import JOBS, course_copy

from autograder.chapter import find_chapters, find_root

LONGEST = 2.2
MOST_BYTES = 1_500_000_000
GROWTH = 1.1


def _bytes(process: psutil.Process) -> int:
    total = 0
    for one in (process, *process.children(recursive=True)):
        try:
            total += one.memory_full_info().pss
        except psutil.Error:  # it has ended
            continue
    return total


def _grade(course: Path, submitted: Path) -> tuple[float, int]:
    """Seconds, and the most bytes held at any time."""
    command = [sys.executable, "-m", "autograder.cli", "grade", str(submitted), "--jobs", str(JOBS)]
    begin = time.perf_counter()
    process = subprocess.Popen(command, cwd=course, stdout=subprocess.DEVNULL)
    watched, most = psutil.Process(process.pid), 0
    while process.poll() is None:
        most = max(most, _bytes(watched))
        time.sleep(0.2)
    if process.returncode != 0:
        raise SystemExit(f"autograder grade ended with status {process.returncode}")
    return time.perf_counter() - begin, most


def main() -> int:
    """Measure, print, compare with the targets."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--small", type=int, default=100)
    parser.add_argument("--chapter", default="ch01_tensor_views")
    options = parser.parse_args()
    root = find_root(Path.cwd())
    chapter = find_chapters(root)[options.chapter]
    found = {}
    with tempfile.TemporaryDirectory() as scratch:
        course = course_copy(root, Path(scratch) / "course")
        for number, first in ((1, 0), (options.small, 1), (2 * options.small, 1 + options.small)):
            submitted = Path(scratch) / str(number)
            write_class(chapter, submitted, number, first)
            seconds, most = found[number] = _grade(course, submitted)
            print(f"{number:5} submissions: {seconds:7.1f} s, at most {most / 1e9:.2f} GB", flush=True)
    (small_s, small_b), (large_s, large_b) = found[options.small], found[2 * options.small]
    print(f"twice the class: {large_s / small_s:.2f} times the time (target {LONGEST}), ", end="")
    print(f"{large_b / small_b:.2f} times the memory (target {GROWTH}), {large_b / 1e9:.2f} GB (target 1.5)")
    return 0 if large_s <= LONGEST * small_s and large_b <= GROWTH * small_b and large_b < MOST_BYTES else 1


if __name__ == "__main__":
    sys.exit(main())
