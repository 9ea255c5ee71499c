"""The command ``autograder``. Exit status: 0 graded, 1 could not be graded (and why), 2 wrong usage."""

from __future__ import annotations

import argparse
import io
import json
import sys
from collections.abc import Sequence
from pathlib import Path

ISOLATIONS = ("auto", "bubblewrap", "sandlock", "none")  # named again here: --help must not wait for torch


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="autograder", description="Grades the exercises of the course.")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    grade = commands.add_parser(
        "grade",
        help="grade one notebook",
        description="Grade one notebook in a sandbox, by the hidden tests where they are at hand.",
    )
    grade.add_argument("notebook", type=Path, metavar="NOTEBOOK", help="the submitted .ipynb file")
    grade.add_argument("--json", action="store_true", help="print the report as JSON")
    grade.add_argument("--device", default="cpu", metavar="D", help="cpu (default), cuda, mps, xpu or auto")
    grade.add_argument(
        "--isolation",
        default="auto",
        choices=ISOLATIONS,
        metavar="I",
        help="auto (default: the strongest that works), bubblewrap, sandlock, or none for code that you trust",
    )
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; returns the exit status."""
    options = _parser().parse_args(arguments)
    from autograder.errors import ClinicError
    from autograder.grading import grade_notebook
    from autograder.hardware import resolve_device
    from autograder.rendering import report_text
    from autograder.report import SCHEMA_VERSION

    try:
        device = resolve_device(options.device)
        report = grade_notebook(options.notebook, isolation=options.isolation, device=device)
    except ClinicError as error:
        if options.json:
            print(json.dumps({"schema_version": SCHEMA_VERSION, "error": str(error)}, indent=2))
        print(f"autograder: {options.notebook} could not be graded.\n{error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("autograder: interrupted, nothing was graded.", file=sys.stderr)
        return 1
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")  # a terminal that cannot show a check mark still shows the grade
    print(report.to_json(indent=2) if options.json else report_text(report))
    return 0


if __name__ == "__main__":
    sys.exit(main())
