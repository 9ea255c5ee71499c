"""A task's report as plain text and as HTML: one wording for notebook, feedback page and terminal."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import replace
from html import escape
from typing import Protocol

from autograder.report import Figure, Outcome, Report, TaskReport, TestResult
from autograder.sections import Section

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
# a pair that colour-blind people can tell apart, legible on white and on the dark theme's background
GOOD = "#1f7fc0"
BAD = "#c2640c"
_ASKED = "#808080"
_MANY = 20
_LONG = 100
"""A message of more characters is not said twice in a table."""
_AGAIN = "The same as above."


def _distinct(tests: tuple[TestResult, ...]) -> list[TestResult]:
    """Tests as a person wants to see them: the cases of one parametrised test together, the worst of them shown."""
    worst: dict[str, TestResult] = {}
    rank = [Outcome.PASSED, Outcome.SKIPPED, Outcome.ERROR, Outcome.FAILED, Outcome.TIMEOUT]
    for test in tests:
        key = test.name.partition("[")[0]
        if key not in worst or rank.index(test.outcome) > rank.index(worst[key].outcome):
            worst[key] = test
    return list(worst.values())


def _in_full_once(tests: tuple[TestResult, ...]) -> Iterator[TestResult]:
    """Distinct tests, a long message (a function that raises, and each test calls it) with the first of them only."""
    said: set[str] = set()
    for test in _distinct(tests):
        yield replace(test, message=_AGAIN) if test.message in said else test
        if len(test.message) > _LONG:
            said.add(test.message)


def _is_wrong(test: TestResult) -> bool:
    return test.outcome in (Outcome.FAILED, Outcome.TIMEOUT)


def _found(test: TestResult) -> str:
    """What a test found, in words."""
    if test.outcome is Outcome.FAILED and test.hidden and not test.message:
        return "This does not hold for an input that is not shown."
    return test.message


def _lesson(test: TestResult) -> str:
    return test.lesson if _is_wrong(test) else ""


def _hint(report: TaskReport, section: Section) -> str:
    """Which of the exercise's hints to go back to; "" where nothing is wrong."""
    wrong = [test for test in report.tests if _is_wrong(test)]
    return section.hint_for({test.lesson for test in wrong}) if wrong else ""


class Scored(Protocol):
    """What has points: a task's report, a chapter's, how one of them stands."""

    @property
    def score(self) -> float:
        """The points that were given."""

    @property
    def max_score(self) -> float:
        """The points that can be had."""


def points(scored: Scored) -> str:
    """``1.5 of 2 points``."""
    return f"{scored.score:.2f}".rstrip("0").rstrip(".") + f" of {scored.max_score:g} points"


def in_one_line(report: TaskReport) -> str:
    """How a task stands: ``2 of 7 tests failed, such as: Each frame has memory of its own.``"""
    tests = _distinct(report.tests)
    if not tests:
        return "not graded"
    wrong = [test for test in tests if _is_wrong(test)]
    if wrong:
        return f"{len(wrong)} of {len(tests)} tests failed, such as: {wrong[0].description}"
    unknown = sum(test.outcome is not Outcome.PASSED for test in tests)
    passed = f"{len(tests) - unknown} of {len(tests)} tests passed"
    return f"{passed}, {unknown} could not be run here" if unknown else passed


def _number(value: float) -> str:
    return f"{value:,.0f}" if value == round(value) and abs(value) < 1e15 else f"{value:.3g}"


def figure_text(figure: Figure) -> str:
    """``speed-up, measured: 1.1 times; asked: at least 3.9``."""
    unit = "%" if figure.unit == "%" else f" {figure.unit}" if figure.unit else ""
    asked = "asked: at least" if figure.at_least else "allowed: at most"
    return f"{figure.what}, measured: {_number(figure.measured)}{unit}; {asked} {_number(figure.asked)}"


def task_text(report: TaskReport, section: Section | None = None) -> str:
    """The report as lines of text. Names of tests do not occur: hidden ones have to stay so.

    With the *section* of the exercise that the task stands in, it names the hint to go back to.
    """
    lines = [f"{report.task}: {points(report)}"]
    for test in _in_full_once(report.tests):
        lines.append(f"  {_SIGNS[test.outcome]} {_WORDS[test.outcome]}: {test.description}")
        lines += [f"      {line}" for line in _found(test).splitlines()]
        lines += [f"      {figure_text(figure)}" for figure in test.figures]
        if lesson := _lesson(test):
            lines.append(f"      Lesson section to reread: {lesson}")
    if section is not None and (hint := _hint(report, section)):
        lines.append(f"  A hint for this: {hint}, in section {section.heading}")
    if report.note:
        lines.append(f"  {report.note}")
    return "\n".join(lines) + "\n"


def report_text(report: Report) -> str:
    """The whole report as text."""
    parts = [task_text(task) for task in report.tasks]
    parts.append(f"{report.chapter}: {points(report)}\n")
    parts += [f"note: {note}\n" for note in report.notes]
    return "\n".join(parts)


def text_html(text: str) -> str:
    """Text of ours as HTML: lines stay lines, `code` looks like code."""
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", escape(text)).replace("\n", "<br>")


def _lengths(figure: Figure) -> tuple[float, float] | None:
    """The lengths of the bars for what was measured and what was asked, up to 1; None where nothing can be drawn.

    Where one is many times the other, lengths are logarithms: the shorter one would hardly be seen.
    """
    measured, asked = figure.measured, figure.asked
    longest = 100.0 if figure.unit == "%" else max(measured, asked)
    if longest <= 0 or min(measured, asked) < 0:
        return None
    least = min(measured, asked)
    if least > 0 and longest > _MANY * least:
        whole = math.log(longest / least) + 1
        return (math.log(measured / least) + 1) / whole, (math.log(asked / least) + 1) / whole
    return measured / longest, asked / longest


def _figure_html(figure: Figure) -> str:
    """The figure in words, a bar for what was measured, and a thin one below for what was asked.

    Nothing but blocks with a width: JupyterLab drops other styles from notebooks that it does not trust.
    """
    text = figure_text(figure)
    words = f"<br><small>{text_html(text)}</small>"
    lengths = _lengths(figure)
    if lengths is None:
        return words
    good = figure.measured >= figure.asked if figure.at_least else figure.measured <= figure.asked
    bars = ((lengths[0], "0.6em", GOOD if good else BAD), (lengths[1], "0.25em", _ASKED))
    drawn = "".join(
        f'<span style="display:block;height:{height};width:{100 * length:.0f}%;background-color:{colour}"></span>'
        for length, height, colour in bars
    )
    frame = f'role="img" aria-label="{escape(text)}" style="display:inline-block;width:14em"'
    return f"{words}<br><span {frame}>{drawn}</span>"


def _row(test: TestResult) -> str:
    colour = GOOD if test.outcome is Outcome.PASSED else BAD
    found = _found(test)
    said = f"<br><small>{text_html(found)}</small>" if found else ""
    said += "".join(map(_figure_html, test.figures))
    if lesson := _lesson(test):
        said += f"<br><small>Lesson section to reread: <em>{escape(lesson)}</em></small>"
    left = "text-align:left;vertical-align:top;padding:2px 12px 6px 0"
    return (
        f'<tr><td style="{left};white-space:nowrap;color:{colour}"><b>{_SIGNS[test.outcome]} '
        f'{_WORDS[test.outcome]}</b></td><td style="{left}">{text_html(test.description)}{said}</td></tr>'
    )


def task_html(report: TaskReport, printed: str = "", section: Section | None = None) -> str:
    """The report as a small table; outcomes are told by sign and word, not by colour alone.

    *printed* is what the learner's code printed meanwhile; for *section* see :func:`task_text`.
    """
    rows = "".join(map(_row, _in_full_once(report.tests)))
    head = '<tr><th></th><th style="text-align:left">What was looked for, and what was found</th></tr>'
    table = f"<table>{head}{rows}</table>" if rows else ""
    more = ""
    if section is not None and (hint := _hint(report, section)):
        link = f'<a href="#{escape(section.anchor)}">section {escape(section.heading)}</a>'
        more += f"<p>A hint for this: <em>{escape(hint)}</em>, in {link}</p>"
    if report.note:
        more += f"<p>{text_html(report.note)}</p>"
    if printed:
        more += f"<details><summary>Your code printed</summary><pre>{escape(printed)}</pre></details>"
    return f"<p><b>{escape(report.task)}</b>: {points(report)}</p>{table}{more}"
