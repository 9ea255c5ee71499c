"""Credit for a task, and the report as JSON."""

from __future__ import annotations

import json
from dataclasses import FrozenInstanceError

import pytest

from autograder.errors import ReportError
from autograder.report import SCHEMA_VERSION, Figure, Outcome, Report, TaskReport, TestResult, score_task

P, F, T, S, E = Outcome.PASSED, Outcome.FAILED, Outcome.TIMEOUT, Outcome.SKIPPED, Outcome.ERROR


def scored(earning: list[Outcome], guards: list[Outcome] = [], touched: bool = True) -> TaskReport:  # noqa: B006
    tests = [TestResult(f"e{i}", outcome) for i, outcome in enumerate(earning)]
    tests += [TestResult(f"g{i}", outcome, earns=False) for i, outcome in enumerate(guards)]
    return score_task("t", 3, tuple(tests), touched=touched)


@pytest.mark.parametrize(
    ("earning", "guards", "points"),
    [
        ([P, P, P], [], 3),
        ([P, F, F], [], 1),
        ([P, T], [P], 1.5),
        ([F, F], [P, P], 0),
        ([P, P], [F], 0),
        ([P, P], [P, T], 0),
        ([P, S], [], 3),
        ([P, F, S, E], [], 1.5),
        ([P, P], [S], 3),
        ([P, P], [E], 3),
        ([P] * 1 + [F] * 6, [], 0.428571),
    ],
)
def test_credit_is_the_share_of_earning_tests_and_nothing_where_a_guard_fails(
    earning: list[Outcome], guards: list[Outcome], points: float
) -> None:
    report = scored(earning, guards)
    assert report.score == points
    assert report.max_score == 3
    assert report.passed is (points == 3)


@pytest.mark.parametrize("touched", [True, False])
@pytest.mark.parametrize("earning", [[S], [E, E], [S, E], []])
def test_where_no_earning_test_could_run_a_changed_cell_keeps_its_points(earning: list[Outcome], touched: bool) -> None:
    report = scored(earning, touched=touched)
    assert report.score == (3 if touched else 0)
    assert "instructor" in report.note


def test_a_failing_guard_counts_even_where_no_earning_test_could_run() -> None:
    assert scored([S], [F]).score == 0


def test_a_failed_guard_is_explained() -> None:
    assert "holds for the code as it was handed out" in scored([P], [F]).note
    assert scored([F]).note == ""


@pytest.mark.parametrize(("outcome", "counts"), [(P, True), (F, True), (T, True), (S, False), (E, False)])
def test_what_counts(outcome: Outcome, counts: bool) -> None:
    assert outcome.counts is counts


def report() -> Report:
    tests = (TestResult("a.py::t", P, description="It holds."), TestResult("a.py::u", F, "It does not.", hidden=True))
    tasks = (score_task("one", 2, tests, touched=True), score_task("two", 1, (), touched=False))
    return Report("ch01_x", tasks, ("a note",), {"cores": 2})


def test_json_has_the_documented_keys() -> None:
    data = json.loads(report().to_json())
    assert list(data) == ["schema_version", "chapter", "score", "max_score", "tasks", "notes", "hardware"]
    assert data["schema_version"] == SCHEMA_VERSION == 2
    assert (data["chapter"], data["score"], data["max_score"]) == ("ch01_x", 1, 3)
    assert {"task", "score", "max_score", "tests"} <= set(data["tasks"][0])
    assert [{key: test[key] for key in ("name", "outcome", "message")} for test in data["tasks"][0]["tests"]] == [
        {"name": "a.py::t", "outcome": "passed", "message": ""},
        {"name": "a.py::u", "outcome": "failed", "message": "It does not."},
    ]
    assert data["notes"] == ["a note"]
    assert data["hardware"] == {"cores": 2}


def test_a_report_is_frozen_and_finds_its_tasks() -> None:
    found = report()
    assert found.task("two").max_score == 1
    with pytest.raises(KeyError):
        found.task("three")
    with pytest.raises(FrozenInstanceError):
        found.chapter = "other"  # type: ignore[misc]


def test_the_score_does_not_collect_rounding_errors() -> None:
    thirds = tuple(scored([P, F, F]) for _ in range(3))
    tenths = tuple(TaskReport(str(i), 0.1, 1) for i in range(10))
    assert Report("c", thirds).score == 3
    assert Report("c", tenths).score == 1


def measured() -> Report:
    figures = (Figure("speed-up", 2.1, 3.9, at_least=True, unit="times"),)
    tests = (TestResult("a.py::t", F, pitfalls=("V1", "V2"), figures=figures),)
    return Report("ch01_x", (score_task("one", 2, tests, touched=True),), ("a note",), {"cores": 2})


def test_a_report_survives_its_json() -> None:
    assert Report.from_json(measured().to_json()) == measured()


def test_the_verdict_alone_does_not_depend_on_what_was_measured() -> None:
    assert measured().without_figures().task("one").tests[0].figures == ()
    assert "speed-up" not in measured().without_figures().to_json()


@pytest.mark.parametrize("text", ["", "{", "[]", "null", '{"schema_version": 2}', '{"schema_version": 1}'])
def test_what_is_no_report_is_refused(text: str) -> None:
    with pytest.raises(ReportError, match="report"):
        Report.from_json(text)
