"""Grades as other programs read them."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from xml.etree import ElementTree

import pytest

from autograder.batch import Graded, Status
from autograder.console import problem_lines, table
from autograder.exports import grades_csv, gradescope_json, junit_suite, junit_xml, tasks_csv, write_report
from autograder.handed_in import HandedIn, Stray
from autograder.report import Figure, Outcome, Report, TestResult, score_task

FIGURE = Figure("speed-up", 1.2, 3.9, at_least=True, unit="times")


def graded(student: str = "ann", message: str = "too slow", problems: tuple[str, ...] = ()) -> Graded:
    tests = (
        TestResult("test_a::test_shape", Outcome.PASSED, description="The shape is right."),
        TestResult("test_b::test_fast", Outcome.FAILED, message, "It is fast.", hidden=True, figures=(FIGURE,)),
    )
    others = (TestResult("t::s", Outcome.SKIPPED, "no GPU"), TestResult("t::e", Outcome.ERROR, "broken"))
    tasks = (score_task("one", 2, tests, touched=True), score_task("two", 1, others, touched=True))
    report = Report("ch01_x", tasks, ("a note",), {"cores": 2})
    return Graded(HandedIn(student, "ch01_x", Path("submitted") / student), Status.GRADED, report, problems)


REFUSED = Graded(
    HandedIn("bob", "ch01_x", Path("submitted/bob/ch01_x/ch01_x.ipynb")),
    Status.REFUSED,
    Report("ch01_x", (score_task("one", 2, (), touched=False),)),
    ("It stops being JSON at line 3.",),
)
FAILED = Graded(HandedIn("eve", "ch01_x", Path("e")), Status.FAILED, None, ("the judge\nended",))


def test_a_line_for_each_submission():
    rows = list(csv.DictReader(io.StringIO(grades_csv([graded(), REFUSED, FAILED]))))
    assert [(row["student"], row["status"], row["score"], row["max_score"]) for row in rows] == [
        ("ann", "graded", "2", "3"),
        ("bob", "refused", "0", "2"),
        ("eve", "failed", "", ""),
    ]
    assert "JSON" in rows[1]["problems"]


def test_a_line_for_each_task():
    rows = list(csv.DictReader(io.StringIO(tasks_csv([graded(), FAILED]))))
    assert [(row["task"], row["score"], row["max_score"]) for row in rows] == [("one", "1", "2"), ("two", "1", "1")]


@pytest.mark.parametrize("name", ["=HYPERLINK(1)", "+1", "-1", "@x"])
def test_a_spreadsheet_computes_nothing(name):
    (row,) = csv.DictReader(io.StringIO(grades_csv([graded(name)])))
    assert row["student"] == f"'{name}"


def test_junit_has_a_suite_for_each_and_a_case_for_each_test():
    root = ElementTree.fromstring(junit_xml(map(junit_suite, [graded(), REFUSED, FAILED])))
    assert [suite.get("name") for suite in root] == ["ann/ch01_x", "bob/ch01_x", "eve/ch01_x"]
    first = root[0]
    counts = {key: first.get(key) for key in ("tests", "failures", "errors", "skipped")}
    assert counts == {"tests": "4", "failures": "1", "errors": "1", "skipped": "1"}
    failure = first.find("testcase[@name='test_fast']/failure")
    assert failure is not None and failure.text == "too slow" and failure.get("message") == "It is fast."
    assert root[1].get("errors") == root[2].get("errors") == "1"


@pytest.mark.parametrize("text", ["<b>&amp;]]>", "\x00\x1b[31m\ufffe\ud800", "</failure></testcase>"])
def test_nothing_that_is_said_breaks_the_xml(text):
    root = ElementTree.fromstring(junit_xml([junit_suite(graded(text, message=text))]).encode())
    assert len(root[0]) == 4


def test_gradescope_gets_a_test_for_each_task():
    report = graded().report
    data = json.loads(gradescope_json(report))
    assert data["score"] == 2
    assert [(test["name"], test["score"], test["max_score"], test["status"]) for test in data["tests"]] == [
        ("one", 1, 2, "failed"),
        ("two", 1, 1, "passed"),
    ]
    assert "too slow" in data["tests"][0]["output"] and "a note" in data["output"]
    assert "test_fast" not in json.dumps(data), "the name of a hidden test is told"


def test_the_verdict_is_apart_from_what_was_measured(tmp_path):
    write_report(tmp_path, graded())
    verdict = (tmp_path / "ann" / "ch01_x.json").read_text()
    assert Report.from_json(verdict) == graded().report.without_figures()
    (figure,) = json.loads((tmp_path / "ann" / "ch01_x.figures.json").read_text())
    assert (figure["test"], figure["measured"], figure["asked"]) == ("test_b::test_fast", 1.2, 3.9)


@pytest.mark.parametrize("name", ["grades.csv", "TASKS.csv", "junit.xml", "..", ".", "", ".store"])
def test_no_student_is_named_like_a_file_of_ours(tmp_path, name):
    out = tmp_path / "reports"
    write_report(out, graded(name))
    (written,) = {path.parent.name for path in tmp_path.rglob("*.json")}
    assert written == f"student {name}"


def test_what_was_not_graded_has_no_report(tmp_path):
    write_report(tmp_path, FAILED)
    assert list(tmp_path.iterdir()) == []


def test_the_table_counts_and_each_problem_has_a_line():
    people = [graded(problems=("one: x was not measured",)), REFUSED, FAILED]
    text = table(people)
    assert "ann" in text and "2.00 of 3" in text and "to be looked at: 1" in text
    assert "3 submissions: 1 graded, 1 refused (no points, reason below), 1 not graded" in text
    lines = problem_lines(people, [Stray("zoe", Path("submitted/zoe"), "Nothing was handed in.")])
    assert len(lines) == 4 and not any("\n" in line for line in lines)
    assert "submitted/bob" in lines[1] and "Run the same command again" in lines[2] and "submitted/zoe" in lines[3]


def test_names_cannot_confuse_a_terminal():
    person = graded("ann\x1b[2J\nbob\u202e")
    assert "\x1b" not in table([person]) and "\u202e" not in table([person])
    assert len(table([person]).splitlines()) == 4
