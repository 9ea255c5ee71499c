"""Notebooks graded per minute: `autograder grade` on two cores against stock nbgrader with the tests in the kernel.

    python benchmarks/throughput.py [CHAPTER ...] [--rounds N] [--class-size N]

In every round each chapter's class of submissions (solution, starter, wheats and mutants by turns, no two alike) is
graded by `autograder grade --jobs 2` as a command of its own, start and all, and then the first of the same notebooks
by nbgrader's ``Execute`` preprocessor, which is what stock `nbgrader autograde` spends its time on: a kernel is
started, the notebook run from top to bottom, and a cell at its end runs the same visible and hidden tests in that
kernel. Target: 10 times as many notebooks in a given time, over all chapters. Exit status 1 where it is missed.
"""

from __future__ import annotations

import argparse
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import nbformat
from classes import write_class
from nbgrader.preprocessors import Execute
from stock import tests_in_kernel

from autograder.chapter import Chapter, find_chapters, find_root

TARGET = 10.0
JOBS = 2


def course_copy(root: Path, folder: Path) -> Path:
    """The instructor's folder without anything that was graded in it before."""
    shutil.copytree(root / "solutions", folder / "solutions", ignore=shutil.ignore_patterns("__pycache__"))
    return folder


def grade_class(course: Path, submitted: Path, *options: str) -> float:
    """Seconds that `autograder grade` takes for a class, start included."""
    command = [sys.executable, "-m", "autograder.cli", "grade", str(submitted), "--jobs", str(JOBS), *options]
    begin = time.perf_counter()
    done = subprocess.run(command, cwd=course, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise SystemExit(f"autograder grade went wrong:\n{done.stdout}\n{done.stderr}")
    return time.perf_counter() - begin


def _stock(root: Path, chapter: Chapter, path: Path) -> float:
    """Seconds that nbgrader's own way takes for one notebook."""
    notebook = nbformat.read(path, as_version=4)
    for cell in notebook.cells:
        if cell.metadata.get("nbgrader", {}).get("grade"):
            cell.source = "pass"  # the tests run once, at the end, as they do for us
    notebook.cells.append(tests_in_kernel(root, chapter, timed=None, then="print(len(_session.results))"))
    begin = time.perf_counter()
    ran, _ = Execute(timeout=600, allow_errors=True).preprocess(notebook, {"metadata": {"path": str(path.parent)}})
    seconds = time.perf_counter() - begin
    said = [output.get("text", "") for output in ran.cells[-1].outputs]
    if not said or not said[-1].strip().isdecimal():
        raise SystemExit(f"the tests did not run in the kernel: {ran.cells[-1].outputs}")
    return seconds


def main() -> int:
    """Measure, print, compare with the target."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("chapters", nargs="*")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--class-size", type=int, default=12)
    options = parser.parse_args()
    root = find_root(Path.cwd())
    chapters = [c for name, c in find_chapters(root).items() if not options.chapters or name in options.chapters]
    ours: dict[str, list[float]] = {chapter.name: [] for chapter in chapters}
    stock: dict[str, list[float]] = {chapter.name: [] for chapter in chapters}
    with tempfile.TemporaryDirectory() as scratch:
        course = course_copy(root, Path(scratch) / "course")
        for number in range(options.rounds):
            for chapter in chapters:
                submitted = Path(scratch) / f"{chapter.name}-{number}"
                paths = write_class(chapter, submitted, options.class_size, first=number * options.class_size)
                if number == 0:  # classifying the tests by the untouched notebook is done once for a course
                    first = Path(scratch) / f"{chapter.name}-first"
                    write_class(chapter, first, 1, first=10_000)
                    grade_class(course, first)
                ours[chapter.name].append(grade_class(course, submitted) / options.class_size)
                # not the starter, whose hanging demonstrations would cost stock nbgrader more than is fair
                stock[chapter.name].append(_stock(root, chapter, paths[0]))
                last = f"ours {ours[chapter.name][-1]:.2f} s, stock {stock[chapter.name][-1]:.2f} s"
                print(f"  round {number + 1}, {chapter.name}: {last} a notebook", flush=True)
    print(f"Seconds a notebook, medians of {options.rounds} rounds; classes of {options.class_size}, {JOBS} jobs")
    medians = {name: (statistics.median(ours[name]), statistics.median(stock[name])) for name in ours}
    for name, (mine, theirs) in medians.items():
        print(f"  {name:24} ours {mine:7.2f}  stock {theirs:7.2f}  ratio {theirs / mine:5.1f}")
    total = sum(theirs for _, theirs in medians.values()) / sum(mine for mine, _ in medians.values())
    print(f"over all chapters: {total:.1f} times the throughput (target {TARGET:g})")
    return 0 if total >= TARGET else 1


if __name__ == "__main__":
    sys.exit(main())
