"""A report as text and as HTML."""

from __future__ import annotations

import re

import pytest

from autograder.rendering import figure_text, in_one_line, report_text, task_html, task_text
from autograder.report import Figure, Outcome, Report, TaskReport, TestResult
from autograder.sections import Hint, Section

P, F, T, S, E = Outcome.PASSED, Outcome.FAILED, Outcome.TIMEOUT, Outcome.SKIPPED, Outcome.ERROR
SPEED = Figure("`f` beside the original version", 1.1, 3.9, at_least=True, unit="times as fast")
SECTION = Section(
    '1. "It is <slow>"',
    (
        Hint("Hint 1: where to look", "Look.", frozenset()),
        Hint("Hint 2: what to look at", "*Loops*", frozenset({"Loops"})),
    ),
)


def task(*tests: TestResult, note: str = "") -> TaskReport:
    return TaskReport("f", 1.5, 3, tests, note)


def slow(outcome: Outcome = F, **more: object) -> TestResult:
    return TestResult("a.py::t", outcome, "Too slow.", "It is `quick`.", lesson="Loops", figures=(SPEED,), **more)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("figure", "text"),
    [
        (SPEED, "`f` beside the original version, measured: 1.1 times as fast; asked: at least 3.9"),
        (Figure("memory", 4000, 640, False, "bytes"), "memory, measured: 4,000 bytes; allowed: at most 640"),
        (Figure("elements that differ", 30, 0, False, "%"), "elements that differ, measured: 30%; allowed: at most 0"),
        (Figure("error", 1e-05, 1.5e-06, False), "error, measured: 1e-05; allowed: at most 1.5e-06"),
    ],
)
def test_a_figure_in_words(figure: Figure, text: str) -> None:
    assert figure_text(figure) == text
    assert text.replace("`f`", "<code>f</code>") in task_html(task(TestResult("t", F, figures=(figure,))))


def test_the_text_says_what_was_looked_for_found_and_measured_and_where_to_go() -> None:
    assert task_text(task(slow(), note="A note."), SECTION) == (
        "f: 1.5 of 3 points\n"
        "  ✗ failed: It is `quick`.\n"
        "      Too slow.\n"
        "      `f` beside the original version, measured: 1.1 times as fast; asked: at least 3.9\n"
        "      Lesson section to reread: Loops\n"
        '  A hint for this: Hint 2: what to look at, in section 1. "It is <slow>"\n'
        "  A note.\n"
    )


def test_html_says_the_same_as_the_text() -> None:
    report = task(slow(), TestResult("b", P, description="Right."), TestResult("c", S, "Too noisy."), note="A note.")
    html = task_html(report, section=SECTION)
    words = re.sub(r"<[^>]+>", " ", html)
    for line in task_text(report, SECTION).splitlines():
        for part in re.split(r"`|:(?: |$)|, in section", line.strip()):
            assert part.replace("<", "&lt;").replace(">", "&gt;").replace('"', "&quot;") in words, part
    assert 'href="#1.-%22It-is-%3Cslow%3E%22"' in html


@pytest.mark.parametrize("outcome", [P, S, E])
def test_where_nothing_is_wrong_nobody_is_sent_back(outcome: Outcome) -> None:
    for shown in (task_text(task(slow(outcome)), SECTION), task_html(task(slow(outcome)), section=SECTION)):
        assert "reread" not in shown and "Hint" not in shown
        assert "measured: 1.1 times as fast" in shown


def test_without_a_section_no_hint_is_named() -> None:
    assert "go back" not in task_text(task(slow())) + task_html(task(slow()))


def test_a_hidden_failure_without_a_word_is_said_to_be_one() -> None:
    hidden = TestResult("t", F, description="It holds.", hidden=True)
    says = "This does not hold for an input that is not shown."
    assert says in task_text(task(hidden)) and says in task_html(task(hidden))
    for other in (TestResult("t", F), TestResult("t", T, hidden=True), TestResult("t", F, "Because.", hidden=True)):
        assert says not in task_text(task(other)) + task_html(task(other))


def bars(measured: float, asked: float, at_least: bool = True, unit: str = "") -> tuple[int, int]:
    """The lengths of the two bars, in per cent: what was measured, what was asked."""
    html = task_html(task(TestResult("t", F, figures=(Figure("what", measured, asked, at_least, unit),))))
    first, second = re.findall(r"width:(\d+)%", html)
    return int(first), int(second)


def test_one_bar_is_as_long_as_what_was_measured_and_one_as_what_was_asked() -> None:
    assert bars(2, 4) == (50, 100)
    assert bars(8, 4) == (100, 50)
    assert bars(30, 0, at_least=False, unit="%") == (30, 0)


def test_beside_many_times_what_is_allowed_that_is_still_seen() -> None:
    measured, asked = bars(1_000_000, 1, at_least=False)
    assert measured == 100 and 3 < asked < 20
    assert bars(10_000, 1, at_least=False)[1] > asked


def test_a_bar_says_in_words_and_by_its_colour_whether_it_is_enough() -> None:
    def drawn(measured: float, at_least: bool) -> str:
        return task_html(task(TestResult("t", P, figures=(Figure("what <is>", measured, 2, at_least),))))

    def colours(html: str) -> list[str]:
        return re.findall(r"background-color:(#\w+)", html)

    assert colours(drawn(3, True)) == colours(drawn(1, False))
    assert colours(drawn(1, True)) == colours(drawn(3, False)) != colours(drawn(3, True))
    assert 'role="img" aria-label="what &lt;is&gt;, measured: 3; asked: at least 2"' in drawn(3, True)
    assert "<script" not in drawn(3, True)


@pytest.mark.parametrize(("measured", "asked"), [(0.0, 0.0), (-1.0, 2.0)])
def test_what_cannot_be_drawn_is_told_in_words_alone(measured: float, asked: float) -> None:
    html = task_html(task(TestResult("t", F, figures=(Figure("what", measured, asked, True),))))
    assert "what, measured" in html and "<span" not in html


@pytest.mark.parametrize(
    ("outcomes", "line"),
    [
        ([], "not graded"),
        ([P, P], "2 of 2 tests passed"),
        ([P, S, E], "1 of 3 tests passed, 2 could not be run here"),
        ([P, F, T], "2 of 3 tests failed, such as: What test 1 looks for."),
    ],
)
def test_a_task_in_one_line(outcomes: list[Outcome], line: str) -> None:
    tests = [
        TestResult(f"t{i}", outcome, description=f"What test {i} looks for.") for i, outcome in enumerate(outcomes)
    ]
    assert in_one_line(task(*tests)) == line


def test_cases_of_one_test_are_told_once_the_worst_of_them() -> None:
    tests = TestResult("t[a]", P, description="It holds."), TestResult("t[b]", F, "Not for b.", "It holds.")
    text = task_text(task(*tests))
    assert text.count("It holds.") == 1 and "Not for b." in text
    assert in_one_line(task(*tests)).startswith("1 of 1 tests failed")


def test_a_long_message_is_said_once() -> None:
    """As where a function raises: every test that calls it has found the same."""
    raised = "Your code raised RuntimeError. " + 5 * "The exporter cannot follow this branch. "
    report = task(*(TestResult(name, F, raised, f"Looks for {name}.") for name in "ab"), TestResult("c", F, "Wrong."))
    for text in (task_text(report), task_html(report)):
        assert text.count(raised.strip()) == 1
        assert text.index("Looks for a.") < text.index(raised.strip()) < text.index("Looks for b.")
        assert text.count("The same as above.") == 1
    short = task(*(TestResult(name, F, "Your code raised KeyError.") for name in "ab"))
    assert task_text(short).count("Your code raised KeyError.") == 2


def test_a_whole_report_ends_with_its_total_and_notes() -> None:
    text = report_text(Report("ch01_x", (task(slow()),), ("A cell was lost.",)))
    assert text.endswith("ch01_x: 1.5 of 3 points\n\nnote: A cell was lost.\n")
