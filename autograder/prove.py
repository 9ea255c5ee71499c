"""Tests the tests: solution and wheats pass; starter, mutants and chaffs fail where they should.

``python -m autograder.prove [CHAPTER …]`` prints what it finds and writes ``docs/kill_matrix.md``; exit status 1 where
something does not hold.
"""

from __future__ import annotations

import os
import sys
import zlib
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field, replace
from itertools import zip_longest
from multiprocessing import get_context
from pathlib import Path

from autograder.chapter import Chapter, find_chapters, find_root
from autograder.errors import ChapterError
from autograder.grading import Grading, grade_cells
from autograder.judging import settle
from autograder.notebook import Cell
from autograder.program import read_program
from autograder.report import Outcome, Report, TestResult
from autograder.store import what_runs
from autograder.submission import Host
from autograder.variants import Variant, read_variants

MATRIX = Path("docs") / "kill_matrix.md"
_VARIANTS = ("wheat", "decoy", "chaff")
_DRAWN = ("mutant", *_VARIANTS)
_MUTANTS_SHARE = 8
"""Of the mutants, which are few and what the syllabus promises, at least one in so many is always graded."""
_SIGNS = {Outcome.PASSED: "·", Outcome.SKIPPED: "?", Outcome.ERROR: "!"}


@dataclass(frozen=True)
class Candidate:
    """Something to grade: ``kind`` is solution, starter, wheat, decoy, mutant or chaff."""

    kind: str
    name: str
    task: str
    cells: tuple[Cell, ...]
    facts: dict[str, str] = field(default_factory=dict)

    @property
    def is_right(self) -> bool:
        """Whether it must pass everything."""
        return self.kind in ("solution", "wheat", "decoy")


def candidates(chapter: Chapter) -> Iterator[Candidate]:
    """Everything that the chapter's tests are tried on."""
    yield Candidate("solution", "solution", "", chapter.solution)
    yield Candidate("starter", "starter", "", chapter.starter)
    seen: dict[tuple[str, str], int] = {}
    for mutant in chapter.mutants():
        pitfall = mutant.region.pitfall
        number = seen[mutant.task, pitfall] = seen.get((mutant.task, pitfall), 0) + 1
        name = f"mutant {pitfall}" if number == 1 else f"mutant {pitfall}, region {number}"
        yield Candidate("mutant", name, mutant.task, mutant.cells, {"pitfall": pitfall})
    assert chapter.source is not None
    for kind in _VARIANTS:
        for path in sorted((chapter.source / "hidden" / f"{kind}s").glob("*.py")):
            for variant in read_variants(path):
                cells = chapter.with_solutions({_solution_cell(chapter, variant): variant.source})
                yield Candidate(kind, f"{kind} {variant.name}", variant.task, cells, dict(variant.facts))


def _solution_cell(chapter: Chapter, variant: Variant) -> str:
    return chapter.task(variant.task).solution_cell


def drawn(chapter: Chapter, share: int) -> list[Candidate]:
    """Solution, starter, one variant in *share*, and of the mutants one in ``_MUTANTS_SHARE`` if that is more of them.

    They are the same ones until the chapter's tests change.
    """
    tests = b"".join(path.read_bytes() for path in chapter.tests)
    seed = zlib.crc32(tests)

    def is_in(candidate: Candidate) -> bool:
        name = f"{candidate.task} {candidate.name}"
        one_in = min(share, _MUTANTS_SHARE) if candidate.kind == "mutant" else share
        return candidate.kind not in _DRAWN or zlib.crc32(name.encode(), seed) % one_in == 0

    return [candidate for candidate in candidates(chapter) if is_in(candidate)]


def prove(
    chapter: Chapter, host: Host, report_progress: bool = False, share: int = 1
) -> tuple[list[tuple[Candidate, Report]], list[str]]:
    """Grade every candidate; the reports, and what does not hold (empty when all is well).

    With a *share* only some candidates are graded (:func:`drawn`); then tests that nothing makes fail cannot be told.
    """
    if chapter.source is None:
        raise ChapterError("Only an author's copy, with solutions/, can be proved.")
    grading = Grading(chapter, host)
    of_starter = grading.grade_starter()  # before the first grade, which would run it to know the guards
    reports: list[tuple[Candidate, Report]] = []
    problems: list[str] = []
    for candidate in drawn(chapter, share):
        solution = reports[0][1] if reports else None
        report = of_starter if candidate.kind == "starter" else _grade(candidate, grading, solution)
        found = _judge(candidate, report)
        if report_progress:
            verdict = "; ".join(found) or "as it should be"
            print(f"  {chapter.name[:4]} {candidate.task or 'all tasks':24} {candidate.name:42} {verdict}", flush=True)
        problems += [f"{chapter.name}, {candidate.task}, {candidate.name}: {text}" for text in found]
        reports.append((candidate, report))
    if share == 1:
        problems += _untouched_tests(chapter, reports)
    return reports, problems


def _grade(candidate: Candidate, grading: Grading, solution: Report | None) -> Report:
    """All tests of its own task; of the others those that take no times, where they can tell it from the solution.

    The other tasks have the solution's results.
    """
    if not candidate.task or solution is None:
        return grade_cells(candidate.cells, grading)
    own = grade_cells(candidate.cells, grading, [candidate.task])
    others = _tasks_that_differ(candidate, grading.chapter)
    rest = grade_cells(candidate.cells, replace(grading, timed=False), others).tasks if others else ()
    by_name = {report.task: report for report in (*solution.tasks, *own.tasks, *rest)}
    return replace(own, tasks=tuple(by_name[task.name] for task in grading.chapter.tasks))


def _tasks_that_differ(candidate: Candidate, chapter: Chapter) -> list[str]:
    """The tasks, beside the candidate's own, whose tests run other code of it than of the solution."""
    here, there = read_program(candidate.cells), read_program(chapter.solution)
    needs = {task.name: chapter.needs[task.name].names for task in chapter.tasks if task.name != candidate.task}
    return [task for task, names in needs.items() if what_runs(here, names) != what_runs(there, names)]


def _failed(tests: Sequence[TestResult]) -> list[TestResult]:
    return [test for test in tests if test.outcome in (Outcome.FAILED, Outcome.TIMEOUT)]


def _base(name: str) -> str:
    """The test function's name, without file and parameters."""
    return name.partition("::")[2].partition("[")[0]


def _judge(candidate: Candidate, report: Report) -> list[str]:
    problems = [
        f"{test.name} is {test.outcome}: {test.message}"
        for task in report.tasks
        for test in task.tests
        if test.outcome is Outcome.ERROR
    ]
    if candidate.is_right:
        problems += [f"fails {t.name}: {t.message}" for task in report.tasks for t in _failed(task.tests)]
        return problems
    if candidate.kind == "starter":
        problems += [f"earns {task.score:g} points in {task.task}" for task in report.tasks if task.score > 0]
        problems += [f"passes all of {task.task}" for task in report.tasks if not _failed(task.tests)]
        return problems
    for task in report.tasks:
        failed = _failed(task.tests)
        if task.task != candidate.task:
            problems += [f"fails {test.name}, of another task" for test in failed]
        elif candidate.kind == "mutant":
            pitfall = candidate.facts["pitfall"]
            if not any(pitfall in test.pitfalls for test in failed):
                problems.append(f"no test that is marked {pitfall} fails")
        else:
            problems += _as_declared(candidate, task.tests)
    return problems


def _as_declared(candidate: Candidate, tests: Sequence[TestResult]) -> list[str]:
    """What does not hold of a chaff's ``# …:`` lines; a skipped test neither holds nor breaks them."""
    failed = _failed(tests)
    declared = {name.strip() for name in candidate.facts.get("fails", "").split(",") if name.strip()}
    actual = {_base(test.name) for test in failed}
    unknown = (declared - actual) & {_base(test.name) for test in tests if test.outcome is Outcome.SKIPPED}
    problems = []
    if "misconception" not in candidate.facts:
        problems.append("has no line `# misconception:`")
    if declared != actual | unknown:
        problems.append(f"fails {', '.join(sorted(actual)) or 'nothing'}; declared: {', '.join(sorted(declared))}")
    says = candidate.facts.get("says", "")
    said = any(says in test.message or says in test.description for test in failed)
    if not says or not (said or unknown):
        problems.append(f"no message says {says!r}: {[test.message for test in failed if test.message]}")
    return problems


def _untouched_tests(chapter: Chapter, reports: Sequence[tuple[Candidate, Report]]) -> list[str]:
    """Tests that nothing makes fail: they could be left out unnoticed.

    One that was skipped for the solution is none of them: this machine cannot show what it is about.
    """
    every = [(c, test) for c, report in reports for task in report.tasks for test in task.tests]
    skipped = {test.name for c, test in every if c.kind == "solution" and test.outcome is Outcome.SKIPPED}
    names = {test.name for _, test in every} - skipped
    killed = {t.name for c, r in reports if not c.is_right for task in r.tasks for t in _failed(task.tests)}
    return [f"{chapter.name}: nothing makes {name} fail" for name in sorted(names - killed)]


def section_of(text: str, name: str) -> str:
    """The part of a kill matrix that is about one chapter; empty where it has none."""
    return (text.partition(f"\n## {name}\n")[2] or "").partition("\n## ")[0]


def differences(here: str, there: str) -> list[str]:
    """Where two kill matrices differ, as pairs of lines; a cell with ``?`` in either of them is no difference.

    Nor is a candidate that *here* leaves out. A race that one machine could not decide, or a gain that its hardware
    does not have, says nothing about the tests. Nor does the word "guard" matter: whether a test is one is what the
    starter's line says, in as far as it could be measured.
    """

    def same(a: str, b: str) -> bool:
        cells = [[cell.strip() for cell in line.replace(" (guard)", "").split("|")] for line in (a, b)]
        return len(cells[0]) == len(cells[1]) and all(x == y or "?" in (x, y) for x, y in zip(*cells, strict=True))

    named = set(_variants(here))
    left_out = {number for number, variant in enumerate(_variants(there)) if variant[1] and variant not in named}
    lines = [line for number, line in enumerate(there.splitlines()) if number not in left_out]
    pairs = zip_longest(here.splitlines(), lines, fillvalue="")
    return [f"{a}\n{b}" for a, b in pairs if not same(a, b)]


def _variants(text: str) -> list[tuple[str, str]]:
    """For each line of a matrix the heading it stands under, and what it is about if that is drawn (``_DRAWN``)."""
    starts = tuple(f"| {kind} " for kind in _DRAWN)
    heading, found = "", []
    for line in text.splitlines():
        if line.startswith("#"):
            heading = line
        found.append((heading, line.split("|")[1].strip() if line.startswith(starts) else ""))
    return found


def matrix(chapter: Chapter, reports: Sequence[tuple[Candidate, Report]]) -> str:
    """The kill matrix of a chapter as Markdown: for each task, candidates down and tests across."""
    parts = [f"## {chapter.name}\n"]
    for number, task in enumerate(chapter.tasks):
        tests = reports[0][1].tasks[number].tests
        guards = {test.name for test in tests if not test.earns}
        parts.append(f"### {task.name} ({task.points:g} points)\n")
        parts += [
            f"{i}. `{test.name.partition('::')[2]}`"
            f"{' (hidden)' if test.hidden else ''}{' (guard)' if test.name in guards else ''}"
            f"{': ' + ', '.join(test.pitfalls) if test.pitfalls else ''}"
            for i, test in enumerate(tests, start=1)
        ]
        header = ["candidate", *(str(i) for i in range(1, len(tests) + 1))]
        parts += ["", "| " + " | ".join(header) + " |", "|" + " --- |" * len(header)]
        for candidate, report in reports:
            if candidate.task in ("", task.name):
                outcomes = {test.name: test.outcome for test in report.tasks[number].tests}
                signs = [_SIGNS.get(outcomes[test.name], "x") for test in tests]
                parts.append("| " + " | ".join([candidate.name, *signs]) + " |")
        parts.append("")
    return "\n".join(parts)


_PREFACE = """# Kill matrix

Made by `make prove`; do not edit. Candidates down, tests across: `x` fails, `·` passes, `?` could not be measured.
Solution, wheats (other right solutions) and decoys (code that looks wrong and is right) must pass everything; the
starter, mutants (the solution with one bug planted) and chaffs (wrong solutions, named by misconception) must fail.
A test is a guard where the starter passes it: it earns nothing and, failing, costs the task.
"""


def prove_all(
    root: Path, names: Sequence[str] = (), report_progress: bool = False, jobs: int | None = None, share: int = 1
) -> tuple[str, list[str]]:
    """Prove the chapters named (or all), *jobs* at a time (as many as there are cores): the matrix, and the problems.

    Timed tests take turns all the same, since they hold a lock. For *share* see :func:`prove`.
    """
    chosen = [name for name in find_chapters(root) if not names or name in names]
    tasks = [(root, name, report_progress, share) for name in chosen]
    # a new interpreter for each: a fork of a process that has computed with torch may hang
    with ProcessPoolExecutor(
        min(len(chosen), jobs or os.cpu_count() or 1), get_context("spawn"), max_tasks_per_child=1
    ) as pool:
        proofs = list(pool.map(_prove_one, tasks))
    return "\n".join([_PREFACE, *(text for text, _ in proofs)]), [problem for _, found in proofs for problem in found]


def _prove_one(job: tuple[Path, str, bool, int]) -> tuple[str, list[str]]:
    root, name, report_progress, share = job
    chapter = find_chapters(root)[name]
    if report_progress:
        print(name, flush=True)
    with Host("auto") as host:
        settle()
        reports, problems = prove(chapter, host, report_progress, share)
    return matrix(chapter, reports), problems


def main(arguments: Sequence[str]) -> int:
    """The command."""
    root = find_root(Path.cwd())
    text, problems = prove_all(root, arguments, report_progress=True)
    print(text)
    if not arguments:
        (root / MATRIX).parent.mkdir(exist_ok=True)
        (root / MATRIX).write_text(text, encoding="utf-8")
        print(f"wrote {MATRIX}")
    for problem in problems:
        print("PROBLEM", problem)
    print(f"{len(problems)} problems" if problems else "all proved")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
