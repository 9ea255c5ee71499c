"""Grades as files that other programs read: JSON, CSV, JUnit XML, Gradescope's ``results.json``."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from pathlib import Path
from xml.etree import ElementTree

from autograder.batch import Graded
from autograder.rendering import task_text
from autograder.report import Outcome, Report, TestResult
from autograder.store import write_atomically

GRADES, TASKS, JUNIT = "grades.csv", "tasks.csv", "junit.xml"
"""The files of a whole class, beside the students' folders."""


def write_report(folder: Path, graded: Graded) -> None:
    """Write ``<student>/<chapter>.json``, the verdict, and ``<chapter>.figures.json``, what was measured for it.

    The verdict is the same, byte for byte, whenever the same work is graded on the same kind of machine.
    """
    if graded.report is None:
        return
    home = folder / folder_name(graded.handed_in.student)
    name = graded.handed_in.chapter
    figures = [
        {"task": task.task, "test": test.name, **asdict(figure)}
        for task in graded.report.tasks
        for test in task.tests
        for figure in test.figures
    ]
    write_atomically(home / f"{name}.figures.json", json.dumps(figures, indent=2) + "\n")
    write_atomically(home / f"{name}.json", graded.report.without_figures().to_json(indent=2) + "\n")


def folder_name(student: str) -> str:
    """A folder's name for a student's reports: the student's, where that leads to no file of ours or of the system."""
    taken = student.startswith(".") or student.casefold() in ("", GRADES, TASKS, JUNIT)
    return f"student {student}" if taken else student


def grades_csv(graded: Iterable[Graded]) -> str:
    """A line for each submission: student, chapter, status, score, max_score, and what is to be looked at."""
    rows = [["student", "chapter", "status", "score", "max_score", "problems"]]
    for one in graded:
        report = one.report
        score = [f"{report.score:g}", f"{report.max_score:g}"] if report is not None else ["", ""]
        rows.append([one.handed_in.student, one.handed_in.chapter, one.status, *score, " / ".join(one.problems)])
    return _csv(rows)


def tasks_csv(graded: Iterable[Graded]) -> str:
    """A line for each task of each submission: student, chapter, task, score, max_score."""
    rows = [["student", "chapter", "task", "score", "max_score"]]
    for one in graded:
        for task in one.report.tasks if one.report is not None else ():
            who = [one.handed_in.student, one.handed_in.chapter]
            rows.append([*who, task.task, f"{task.score:g}", f"{task.max_score:g}"])
    return _csv(rows)


def _csv(rows: Sequence[Sequence[str]]) -> str:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows([_harmless(cell) for cell in row] for row in rows)
    return text.getvalue()


def _harmless(cell: str) -> str:
    """*cell* so that a spreadsheet shows it instead of computing it: a student's name is the student's to choose."""
    return f"'{cell}" if cell.startswith(tuple("=+-@\t\r\n＝＋－＠")) else cell


def junit_suite(one: Graded) -> str:
    """JUnit's XML for one submission: a suite, and in it a case for each test, of class ``<chapter>.<task>``."""
    suite = ElementTree.Element("testsuite", name=_xml(f"{one.handed_in.student}/{one.handed_in.chapter}"))
    cases = [(task.task, test) for task in one.report.tasks for test in task.tests] if one.report else []
    for task, test in cases:
        named = {"classname": f"{one.handed_in.chapter}.{task}", "name": test.name.partition("::")[2]}
        _outcome(ElementTree.SubElement(suite, "testcase", named), test)
    if not cases:
        case = ElementTree.SubElement(suite, "testcase", classname=one.handed_in.chapter, name="can be graded")
        ElementTree.SubElement(case, "error", message=_xml("; ".join(one.problems) or one.status))
    for name, tag in (("failures", "failure"), ("errors", "error"), ("skipped", "skipped")):
        suite.set(name, str(len(suite.findall(f"testcase/{tag}"))))
    suite.set("tests", str(len(suite)))
    ElementTree.indent(suite)
    return ElementTree.tostring(suite, encoding="unicode")


def junit_xml(suites: Iterable[str]) -> str:
    """JUnit's XML for a class, from what :func:`junit_suite` made of each submission."""
    lines = ['<?xml version="1.0" encoding="utf-8"?>', '<testsuites name="autograder">', *suites, "</testsuites>"]
    return "\n".join(lines) + "\n"


def _outcome(case: ElementTree.Element, test: TestResult) -> None:
    tag = {
        Outcome.FAILED: "failure",
        Outcome.TIMEOUT: "failure",
        Outcome.SKIPPED: "skipped",
        Outcome.ERROR: "error",
    }.get(test.outcome)
    if tag is not None:
        ElementTree.SubElement(case, tag, message=_xml(test.description)).text = _xml(test.message)


_NOT_IN_XML = re.compile("[^\t\n -\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def _xml(text: str) -> str:
    """*text* without what XML 1.0 has no way to write."""
    return _NOT_IN_XML.sub("?", text)


def gradescope_json(report: Report) -> str:
    """Gradescope's ``results.json``: a test for each task, with its points and what the learner is told."""
    tests = [
        {
            "name": task.task,
            "score": task.score,
            "max_score": task.max_score,
            "status": "passed" if task.passed else "failed",
            "output": task_text(task),
            "output_format": "text",
            "visibility": "visible",
        }
        for task in report.tasks
    ]
    notes = "".join(f"note: {note}\n" for note in report.notes)
    data = {"score": report.score, "output": notes, "output_format": "text", "visibility": "visible", "tests": tests}
    return json.dumps(data, indent=2) + "\n"
