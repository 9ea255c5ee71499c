"""Are verdicts the same each time on a loaded machine? Solution, starter and a wheat, many times each.

    python benchmarks/verdicts.py [CHAPTER ...] [--times N] [--jobs N] [--only timed|untimed] [--notes FILE]

All tests of a chapter are run N times (100 by default) on the solution, the starter, and one wheat of a task with a
timed test (of any task where there is none; its other tasks are the solution's, and not run again), beside two
processes that are busy all the time. Solution and wheat must never fail a test; the starter must fail the same ones
each time. ``--only`` runs the tests that take times alone, or the others. A race that stays undecided is counted by
itself. With ``--jobs`` so many sides are graded at once, each a load on the others (tests that take times still take
turns). With ``--notes`` each grading is noted in FILE, and a run that was interrupted goes on from there. Exit status 1
for a changed verdict.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from multiprocessing import get_context
from pathlib import Path

from autograder.chapter import Chapter, find_chapters, find_root
from autograder.grading import Grading
from autograder.normalise import Normalised
from autograder.notebook import Cell
from autograder.prove import candidates
from autograder.report import Outcome
from autograder.submission import Host

_BUSY = "import itertools\nfor i in itertools.count(): pass"
_FAILED = (Outcome.FAILED, Outcome.TIMEOUT)


@contextlib.contextmanager
def _busy_machine() -> Iterator[None]:
    busy = [subprocess.Popen([sys.executable, "-c", _BUSY]) for _ in range(2)]
    try:
        yield
    finally:
        for process in busy:
            process.kill()
            process.wait()


def _sides(chapter: Chapter) -> dict[str, tuple[tuple[Cell, ...], tuple[str, ...]]]:
    """What is graded, by name: cells, and for which tasks."""
    every = tuple(task.name for task in chapter.tasks)
    timed = "\n".join(path.read_text() for path in chapter.tests).split("\n\n\n")
    tasks = {
        task.name for task in chapter.tasks for block in timed if "mark.timed" in block and f'"{task.name}"' in block
    }
    wheats = [candidate for candidate in candidates(chapter) if candidate.kind == "wheat"]
    wheat = next((candidate for candidate in wheats if candidate.task in tasks), wheats[0])
    sides = {"solution": (chapter.solution, every), "starter": (chapter.starter, every)}
    return sides | {wheat.name: (wheat.cells, (wheat.task,))}


@dataclass
class Tally:
    """What has been seen of one chapter's one side: for each test, how often it ended how, and what failures said."""

    outcomes: dict[str, Counter[str]] = field(default_factory=dict)
    said: dict[str, set[str]] = field(default_factory=dict)
    times: int = 0

    def add(self, outcomes: Mapping[str, str], said: Mapping[str, str]) -> None:
        """Count one grading."""
        self.times += 1
        for name, text in said.items():
            self.said.setdefault(name, set()).add(text)
        for name, outcome in outcomes.items():
            self.outcomes.setdefault(name, Counter())[outcome] += 1

    def changed(self, must_pass: bool) -> list[str]:
        """The verdicts that were not the same each time, or not what they must be."""
        lines = []
        for name, counts in self.outcomes.items():
            decided = {outcome: n for outcome, n in counts.items() if outcome != Outcome.SKIPPED}
            failed = sum(decided.get(outcome, 0) for outcome in _FAILED)
            others = sum(decided.values()) - failed
            if (failed and must_pass) or (failed and others) or decided.get(Outcome.ERROR):
                lines.append(f"{name}: {dict(counts)} {sorted(self.said.get(name, ()))}")
        return lines

    @property
    def undecided(self) -> int:
        """How many races were decided in some runs and undecided in others."""
        return sum(c[Outcome.SKIPPED] for c in self.outcomes.values() if c[Outcome.SKIPPED] < self.times)


@dataclass(frozen=True)
class Job:
    """What one process grades: one side of one chapter, so often, and what is noted of it already."""

    root: Path
    chapter: str
    side: str
    times: int
    timed: bool | None
    notes: Path | None
    tally: Tally


def _grade(job: Job) -> Tally:
    chapter = find_chapters(job.root)[job.chapter]
    cells, tasks = _sides(chapter)[job.side]
    with Host("auto") as host:
        grading = Grading(chapter, host, timed=job.timed)
        for number in range(job.tally.times, job.times):
            part = grading.run(Normalised(cells, (), frozenset()), tasks, owner=(job.side, number))
            results = [test for tests in part.results.values() for test in tests]
            outcomes = {test.name: str(test.outcome) for test in results}
            said = {test.name: test.message for test in results if test.message} if job.side != "starter" else {}
            job.tally.add(outcomes, said)
            if job.notes:
                with job.notes.open("a") as notes:
                    notes.write(json.dumps([job.chapter, job.side, outcomes, said]) + "\n")
    return job.tally


def main() -> int:
    """Run, count, print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("chapters", nargs="*")
    parser.add_argument("--times", type=int, default=100)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--only", choices=("timed", "untimed"))
    parser.add_argument("--notes", type=Path)
    options = parser.parse_args()
    timed = None if options.only is None else options.only == "timed"
    tallies: dict[tuple[str, str], Tally] = {}
    for line in options.notes.read_text().splitlines() if options.notes and options.notes.exists() else ():
        chapter_name, side, outcomes, said = json.loads(line)
        tallies.setdefault((chapter_name, side), Tally()).add(outcomes, said)
    root = find_root(Path.cwd())
    chapters = find_chapters(root)
    for name in options.chapters:
        if name not in chapters:
            parser.error(f"there is no chapter {name}; there are {', '.join(chapters)}")
    jobs = [
        Job(root, name, side, options.times, timed, options.notes, tallies.get((name, side), Tally()))
        for name, chapter in chapters.items()
        if not options.chapters or name in options.chapters
        for side in _sides(chapter)
    ]
    begin = time.monotonic()
    wrong = 0
    # a new interpreter for each: a fork of a process that has computed with torch may hang
    pool = ProcessPoolExecutor(options.jobs, get_context("spawn"), max_tasks_per_child=1)
    with _busy_machine(), pool:
        for job, tally in zip(jobs, pool.map(_grade, jobs), strict=True):
            changed = tally.changed(must_pass=job.side != "starter")
            wrong += len(changed)
            verdicts = sum(sum(counts.values()) for counts in tally.outcomes.values())
            said = f"{verdicts} verdicts, {len(changed)} tests changed theirs, {tally.undecided} races undecided"
            print(f"{job.chapter}, {job.side}, {tally.times} times: {said}", flush=True)
            for line in changed:
                print(f"  CHANGED {line}", flush=True)
    print(f"tests with a changed verdict: {wrong}; {time.monotonic() - begin:.0f} s")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
