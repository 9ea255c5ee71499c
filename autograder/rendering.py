"""A task's report as plain text and as HTML: one wording for notebook, feedback page and terminal."""

from __future__ import annotations

import re
from html import escape

from autograder.report import Outcome, Report, TaskReport, TestResult

_WORDS = {
    Outcome.PASSED: "passed",
    Outcome.FAILED: "failed",
    Outcome.TIMEOUT: "took too long",
    Outcome.SKIPPED: "not measured",
    Outcome.ERROR: "our fault",
}
_SIGNS = {
    Outcome.PASSED: "✓",
    Outcome.FAILED: "✗",
    Outcome.TIMEOUT: "✗",
    Outcome.SKIPPED: "–",
    Outcome.ERROR: "!",
}


def _distinct(tests: tuple[TestResult, ...]) -> list[TestResult]:
    """Tests as a person wants to see them: the cases of one parametrised test together, the worst of them shown."""
    worst: dict[str, TestResult] = {}
    rank = [Outcome.PASSED, Outcome.SKIPPED, Outcome.ERROR, Outcome.FAILED, Outcome.TIMEOUT]
    for test in tests:
        key = test.name.partition("[")[0]
        if key not in worst or rank.index(test.outcome) > rank.index(worst[key].outcome):
            worst[key] = test
    return list(worst.values())


def points(report: TaskReport) -> str:
    """``1.5 of 2 points``."""
    return f"{report.score:.2f}".rstrip("0").rstrip(".") + f" of {report.max_score:g} points"


def task_text(report: TaskReport) -> str:
    """The report as lines of text. Names of tests do not occur: hidden ones have to stay so."""
    lines = [f"{report.task}: {points(report)}"]
    for test in _distinct(report.tests):
        lines.append(f"  {_SIGNS[test.outcome]} {_WORDS[test.outcome]}: {test.description}")
        lines += [f"      {line}" for line in test.message.splitlines()]
        if test.outcome in (Outcome.FAILED, Outcome.TIMEOUT) and test.lesson:
            lines.append(f"      Lesson section to reread: {test.lesson}")
    if report.note:
        lines.append(f"  {report.note}")
    return "\n".join(lines) + "\n"


def report_text(report: Report) -> str:
    """The whole report as text."""
    parts = [task_text(task) for task in report.tasks]
    total = f"{report.score:.2f}".rstrip("0").rstrip(".")
    parts.append(f"{report.chapter}: {total} of {report.max_score:g} points\n")
    parts += [f"note: {note}\n" for note in report.notes]
    return "\n".join(parts)


def _html(text: str) -> str:
    """Text of ours as HTML: lines stay lines, `code` looks like code."""
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", escape(text)).replace("\n", "<br>")


def task_html(report: TaskReport, printed: str = "") -> str:
    """The report as a small table; outcomes are told by sign and word, not by colour alone."""
    rows = []
    for test in _distinct(report.tests):
        ok = test.outcome is Outcome.PASSED
        colour = "#0072b2" if ok else "#b35900"  # a pair that colour-blind people can tell apart
        said = f"<br><small>{_html(test.message)}</small>" if test.message else ""
        again = ""
        if test.outcome in (Outcome.FAILED, Outcome.TIMEOUT) and test.lesson:
            again = f"<br><small>Lesson section to reread: <em>{escape(test.lesson)}</em></small>"
        rows.append(
            f'<tr><td style="white-space:nowrap;vertical-align:top;color:{colour}"><b>{_SIGNS[test.outcome]} '
            f"{_WORDS[test.outcome]}</b></td>"
            f'<td style="text-align:left">{_html(test.description)}{said}{again}</td></tr>'
        )
    note = f"<p>{escape(report.note)}</p>" if report.note else ""
    if printed:
        note += f"<details><summary>Your code printed</summary><pre>{escape(printed)}</pre></details>"
    return f"<p><b>{escape(report.task)}</b>: {points(report)}</p><table>{''.join(rows)}</table>{note}"
