"""What grading one notebook costs beyond the learner's own code, and against nbgrader's stock way.

    python benchmarks/overhead.py [--rounds N]

Three ways of running the same tests (the chapter's visible and hidden ones that take no times) on the same solved
notebook, in turn:

* floor: the learner's functions called in this process by the same tests, warm. What is left is the tests' own work
  and the learner's code.
* ours: a normalised submission graded in a sandbox that is warm already, as for every notebook after the first.
* stock: nbgrader's ``Execute`` preprocessor, which starts a kernel and runs the whole notebook; a cell at its end runs
  the same tests in that kernel.

Overhead is ours minus floor. Targets: at most 0.2 s a notebook, and at least 5 times less than stock minus floor.
Exit status 1 where a target is missed.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import nbformat
from nbgrader.preprocessors import Execute
from stock import tests_in_kernel

from autograder.chapter import Chapter, find_chapters, find_root
from autograder.grading import Grading, run_tests
from autograder.normalise import normalise
from autograder.notebook import read
from autograder.program import read_program
from autograder.report import Report
from autograder.session import Session
from autograder.submission import Host, LiveRunner

CHAPTER = "ch01_tensor_views"
TARGET_S = 0.2
TARGET_RATIO = 5.0

_ALL_PASSED = """
assert all(result.outcome == "passed" for _, result in _session.results), _session.results
"""


def _solved(chapter: Chapter, folder: Path) -> Path:
    """The released notebook with every fix, as a learner would have saved it, without its own check cells."""
    fixes = {cell.grade_id: cell.source for cell in chapter.solution if cell.is_solution}
    notebook = nbformat.read(chapter.folder / f"{chapter.name}.ipynb", as_version=4)
    for cell in notebook.cells:
        mark = cell.metadata.get("nbgrader", {})
        cell.source = fixes.get(mark.get("grade_id"), cell.source)
        if mark.get("grade"):
            cell.source = "pass"  # the same tests run once, at the end, in all three ways
    path = folder / f"{chapter.name}.ipynb"
    nbformat.write(notebook, path)
    return path


def _floor(chapter: Chapter) -> None:
    session = Session(chapter, read_program(chapter.solution), lambda role: LiveRunner())
    files = [*chapter.visible_tests, *chapter.hidden_tests]
    run_tests(session, files, [task.name for task in chapter.tasks], timed=False)
    assert all(result.outcome == "passed" for _, result in session.results)


def _ours(chapter: Chapter, path: Path, host: Host) -> Report:
    grading = Grading(chapter, host, timed=False)
    report = grading.grade(normalise(chapter.starter, read(path)), owner=object())
    assert report.score == report.max_score, report.to_json()
    return report


def _stock(root: Path, chapter: Chapter, path: Path) -> None:
    notebook = nbformat.read(path, as_version=4)
    notebook.cells.append(tests_in_kernel(root, chapter, timed=False, then=_ALL_PASSED))
    resources = {"metadata": {"path": str(path.parent)}}
    ran, _ = Execute(timeout=300).preprocess(notebook, resources)
    errors = [output for cell in ran.cells for output in cell.get("outputs", []) if output.output_type == "error"]
    assert not errors, errors


def _seconds(action: Callable[[], object]) -> float:
    begin = time.perf_counter()
    action()
    return time.perf_counter() - begin


def main() -> int:
    """Measure, print, and compare with the targets."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=8)
    rounds = parser.parse_args().rounds
    root = find_root(Path.cwd())
    chapter = find_chapters(root)[CHAPTER]
    times: dict[str, list[float]] = {"floor": [], "ours": [], "stock": []}
    with tempfile.TemporaryDirectory() as scratch, Host("auto") as host:
        path = _solved(chapter, Path(scratch))
        _floor(chapter)
        _ours(chapter, path, host)  # the first notebook pays for starting the sandbox and classifying the tests
        for _ in range(rounds):
            times["floor"].append(_seconds(lambda: _floor(chapter)))
            times["ours"].append(_seconds(lambda: _ours(chapter, path, host)))
            times["stock"].append(_seconds(lambda: _stock(root, chapter, path)))
        isolation = host.isolation
    floor, ours, stock = (statistics.median(times[way]) for way in ("floor", "ours", "stock"))
    overhead, stock_overhead = ours - floor, stock - floor
    print(f"{chapter.name}, isolation {isolation}, {rounds} interleaved rounds, medians per notebook:")
    for way, seconds in times.items():
        print(f"  {way:6} {statistics.median(seconds):6.3f} s  (from {min(seconds):.3f} to {max(seconds):.3f})")
    print(f"overhead: {overhead:.3f} s (target {TARGET_S} s); stock {stock_overhead:.3f} s")
    print(f"stock / ours: {stock_overhead / overhead:.1f} (target {TARGET_RATIO:g})")
    return 0 if overhead <= TARGET_S and stock_overhead >= TARGET_RATIO * overhead else 1


if __name__ == "__main__":
    sys.exit(main())
