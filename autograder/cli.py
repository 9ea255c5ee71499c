"""The command ``autograder``. Exit status: 0 done, 1 could not be done, or graded (and why), 2 wrong usage."""

from __future__ import annotations

import argparse
import io
import json
import os
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

from autograder.learner_cli import add_commands

if TYPE_CHECKING:
    from autograder.batch import Graded
    from autograder.cluster import ClusterJudges
    from autograder.handed_in import HandedIn
    from autograder.judging import Course

ISOLATIONS = ("auto", "bubblewrap", "sandlock", "none")  # named again here: --help must not wait for torch


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="autograder", description="Works through the exercises, and grades them.")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    add_commands(commands)
    grade = commands.add_parser(
        "grade",
        help="grade one notebook, or a whole class",
        description="Grade notebooks in a sandbox, by the hidden tests where they are at hand. One notebook: its "
        "report is printed. A folder (nbgrader's submitted/, a student's, a chapter's), or several notebooks: a table "
        "is printed, reports are kept in the course's folder reports/, and a second run does only what has changed.",
    )
    grade.add_argument("paths", type=Path, nargs="+", metavar="SUBMITTED", help="a submitted .ipynb file, or a folder")
    grade.add_argument("--json", action="store_true", help="one notebook: print the report as JSON")
    grade.add_argument("--gradescope", type=Path, metavar="FILE", help="one notebook: write Gradescope's results.json")
    grade.add_argument("--device", default="cpu", metavar="D", help="cpu (default), cuda, mps, xpu or auto")
    grade.add_argument(
        "--isolation",
        default="auto",
        choices=ISOLATIONS,
        metavar="I",
        help="auto (default: the strongest that works), bubblewrap, sandlock, or none for code that you trust",
    )
    many = grade.add_argument_group("grading many")
    many.add_argument("--chapter", metavar="C", help="grade this chapter alone")
    many.add_argument("--jobs", type=_positive, metavar="N", help="side by side (default: one for each core)")
    many.add_argument("--force", action="store_true", help="grade anew what has been graded before")
    many.add_argument("--dask", metavar="ADDRESS", help="grade on the workers of a Dask cluster, see README")
    many.add_argument("--out", type=Path, metavar="DIR", help="where reports go (default: reports/ in the course)")
    grade.set_defaults(run=_grade, wrong_usage=grade.error)
    return parser


def _positive(text: str) -> int:
    number = int(text) if text.isdecimal() else 0
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text!r}: give a whole number from 1 upwards")
    return number


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; returns the exit status."""
    options = _parser().parse_args(arguments)
    from autograder.errors import ClinicError

    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")  # a terminal that cannot show a check mark still shows the grade
    try:
        return int(options.run(options))
    except ClinicError as error:
        print(f"autograder: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("autograder: interrupted.", file=sys.stderr)
        return 1


def _grade(options: argparse.Namespace) -> int:
    from autograder.handed_in import is_notebook

    single = len(options.paths) == 1 and is_notebook(options.paths[0])
    if not single and (options.json or options.gradescope):
        options.wrong_usage("--json and --gradescope are for one notebook; a batch writes its reports to --out")
    try:
        return _grade_one(options) if single and not _asks_for_a_batch(options) else _grade_many(options)
    except KeyboardInterrupt:
        kept = "nothing was graded" if single else "what was graded is kept; the same command goes on from there"
        print(f"autograder: interrupted, {kept}.", file=sys.stderr)
        return 1


def _asks_for_a_batch(options: argparse.Namespace) -> bool:
    return any((options.chapter, options.jobs, options.force, options.dask, options.out))


def _grade_one(options: argparse.Namespace) -> int:
    from autograder.errors import ClinicError
    from autograder.exports import gradescope_json
    from autograder.grading import grade_notebook
    from autograder.hardware import resolve_device
    from autograder.rendering import report_text
    from autograder.report import SCHEMA_VERSION
    from autograder.text import one_line

    notebook: Path = options.paths[0]
    try:
        device = resolve_device(options.device)
        report = grade_notebook(notebook, isolation=options.isolation, device=device)
    except ClinicError as error:
        if options.json:
            print(json.dumps({"schema_version": SCHEMA_VERSION, "error": str(error)}, indent=2))
        print(f"autograder: {one_line(str(notebook))} could not be graded.\n{error}", file=sys.stderr)
        return 1
    if options.gradescope is not None:
        _write(options.gradescope, gradescope_json(report))
    print(report.to_json(indent=2) if options.json else report_text(report))
    return 0


def _grade_many(options: argparse.Namespace) -> int:
    from autograder.chapter import find_chapters
    from autograder.console import problem_lines, table
    from autograder.errors import ClinicError
    from autograder.grading import root_for
    from autograder.handed_in import find_handed_in
    from autograder.hardware import resolve_device
    from autograder.judging import Course
    from autograder.store import FOLDER

    root = root_for(options.paths[0])
    chapters = find_chapters(root)
    if options.chapter is not None and options.chapter not in chapters:
        raise ClinicError(f"--chapter {options.chapter}: there are {', '.join(chapters) or 'no chapters'}.")
    handed_in, strays = find_handed_in(options.paths, chapters, options.chapter)
    if not handed_in:
        where = ", ".join(map(str, options.paths))
        raise ClinicError("\n".join([f"Nothing to grade was found in {where}.", *problem_lines([], strays)]))
    device = options.device if options.dask else resolve_device(options.device)
    out = options.out or root / FOLDER
    graded = _graded(Course(root, options.isolation, device), handed_in, out, options)
    print(table(graded))
    for line in problem_lines(graded, strays):
        print(line)
    print(f"Reports: {out}")
    return 0 if all(one.report is not None for one in graded) else 1


def _graded(course: Course, handed_in: list[HandedIn], out: Path, options: argparse.Namespace) -> list[Graded]:
    from autograder.batch import Batch
    from autograder.console import ProgressBars
    from autograder.exports import GRADES, JUNIT, TASKS, grades_csv, junit_suite, junit_xml, tasks_csv, write_report
    from autograder.hardware import machine_class_here
    from autograder.judging import Judges
    from autograder.pool import LocalJudges
    from autograder.store import Store

    with ExitStack() as resources:
        judges: Judges | None = None
        if options.dask:
            chapters = {one.chapter for one in handed_in}
            judges = cluster = resources.enter_context(_cluster(options.dask, course, chapters))
            machines = cluster.machines
        else:
            machines = [machine_class_here(course.device)]

        def open_judges() -> Judges:
            return judges or resources.enter_context(LocalJudges(options.jobs or os.cpu_count() or 1))

        bars = resources.enter_context(ProgressBars())
        batch = Batch(course, Store.of_course(course.root), machines, options.force, bars.show)
        graded, suites = {}, {}
        for one in batch.run(handed_in, open_judges):
            write_report(out, one)
            graded[one.handed_in], suites[one.handed_in] = one.without_tests(), junit_suite(one)
    in_order = [graded[one] for one in handed_in]
    _write(out / GRADES, grades_csv(in_order))
    _write(out / TASKS, tasks_csv(in_order))
    _write(out / JUNIT, junit_xml(suites[one] for one in handed_in))
    return in_order


def _cluster(address: str, course: Course, chapters: set[str]) -> ClusterJudges:
    from autograder.errors import ClinicError

    try:
        from autograder.cluster import ClusterJudges
    except ModuleNotFoundError as error:
        if error.name not in ("distributed", "dask"):
            raise
        raise ClinicError(
            "--dask needs Dask, which is not installed: pip install -e '.[cluster]' in the course's folder, "
            "here and for the workers."
        ) from None
    return ClusterJudges(address, course, chapters)


def _write(path: Path, text: str) -> None:
    from autograder.errors import ClinicError
    from autograder.store import write_atomically

    try:
        write_atomically(path, text)
    except OSError as error:
        raise ClinicError(f"{path} could not be written: {error.strerror}. Give another place.") from None


if __name__ == "__main__":
    sys.exit(main())
