"""Notebooks graded per minute: `autograder grade` on two cores against stock nbgrader with the tests in the kernel.

    python benchmarks/throughput.py [CHAPTER ...] [--rounds N] [--class-size N]

In every round two classes of each chapter (see ``classes.py``: a mixed one, and a small one of notebooks that are all
unlike) are graded from nothing by `autograder grade --jobs 2`, as a command of its own, start and all, and then the
solution by nbgrader's ``Execute`` preprocessor, which is what stock `nbgrader autograde` spends its time on: a kernel
is started, the notebook run from top to bottom, and a cell at its end runs the same visible and hidden tests in that
kernel. Stock nbgrader takes as long for one notebook, whatever the others hold; a wrong one may take it longer.

Target: 10 times as many notebooks of a mixed class in a given time, over all chapters. Exit status 1 where it is
missed. For unlike notebooks, which leave nothing to take over, the ratio is printed too.
"""

from __future__ import annotations

import argparse
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from pathlib import Path

import nbformat
from classes import mixed, unlike, write_class
from nbgrader.preprocessors import Execute
from stock import tests_in_kernel

from autograder.chapter import Chapter, find_chapters, find_root

TARGET = 10.0
JOBS = 2
UNLIKE_SIZE = 9
WAYS = ("mixed", "unlike", "stock")


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
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--class-size", type=int, default=100)
    options = parser.parse_args()
    root = find_root(Path.cwd())
    chapters = [c for name, c in find_chapters(root).items() if not options.chapters or name in options.chapters]
    seconds: dict[tuple[str, str], list[float]] = defaultdict(list)
    with tempfile.TemporaryDirectory() as scratch:
        course = course_copy(root, Path(scratch) / "course")
        for chapter in chapters:  # classifying the tests by the untouched notebook is done once for a course
            write_class(chapter, Path(scratch) / "first" / chapter.name, 1)
            grade_class(course, Path(scratch) / "first" / chapter.name)
        for number in range(options.rounds):
            for chapter in chapters:
                place = Path(scratch) / f"{chapter.name}-{number}"
                for of, size in ((mixed, options.class_size), (unlike, UNLIKE_SIZE)):
                    write_class(chapter, place / of.__name__, size, first=number * size, of=of)
                    seconds[of.__name__, chapter.name].append(
                        grade_class(course, place / of.__name__, "--force") / size
                    )
                # not the starter, whose hanging demonstrations would cost stock nbgrader more than is fair
                [solved] = write_class(chapter, place / "solved", 1)
                seconds["stock", chapter.name].append(_stock(root, chapter, solved))
                last = ", ".join(f"{way} {seconds[way, chapter.name][-1]:.2f} s" for way in WAYS)
                print(f"  round {number + 1}, {chapter.name}: {last} a notebook", flush=True)
    medians = {key: statistics.median(values) for key, values in seconds.items()}
    print(f"Seconds a notebook, medians of {options.rounds} rounds, {JOBS} jobs")
    print(f"mixed: classes of {options.class_size}; unlike: classes of {UNLIKE_SIZE}")
    for chapter in chapters:
        row = {way: medians[way, chapter.name] for way in WAYS}
        columns = [*(f"{way} {value:6.2f}" for way, value in row.items()), f"{row['stock'] / row['mixed']:5.1f} times"]
        print(f"  {chapter.name:24} " + "  ".join(columns))
    total = {way: sum(medians[way, chapter.name] for chapter in chapters) for way in WAYS}
    ratio = total["stock"] / total["mixed"]
    print(f"over all chapters: {ratio:.1f} times the throughput for mixed classes (target {TARGET:g}), ", end="")
    print(f"{total['stock'] / total['unlike']:.1f} times for unlike notebooks")
    return 0 if ratio >= TARGET else 1


if __name__ == "__main__":
    sys.exit(main())
