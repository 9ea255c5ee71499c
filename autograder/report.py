"""What grading one notebook yields: frozen, and written as JSON with a schema version."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from enum import StrEnum
from typing import Any

from autograder.errors import ReportError

SCHEMA_VERSION = 2


class Outcome(StrEnum):
    """How one test ended."""

    PASSED = "passed"
    FAILED = "failed"
    """The learner's code is wrong."""
    TIMEOUT = "timeout"
    """The learner's code did not come back in time."""
    SKIPPED = "skipped"
    """This hardware cannot show it; taken out of the denominator."""
    ERROR = "error"
    """A fault of ours: never costs the learner a point, always reported to the instructor."""

    @property
    def counts(self) -> bool:
        """Whether the outcome says anything about the learner's code."""
        return self not in (Outcome.SKIPPED, Outcome.ERROR)


@dataclass(frozen=True)
class Figure:
    """Something that a test measured, and what was asked of it: ``2.1 times as fast; at least 3.9``.

    Figures differ from run to run (times do, at least), verdicts must not: that is why they are apart from messages.
    """

    what: str
    """What was measured, in words: ``speed-up``, ``largest relative error``."""
    measured: float
    asked: float
    at_least: bool
    """Whether ``asked`` is the least that will do, or the most."""
    unit: str = ""
    """What stands behind the number: ``times``, ``MB``; nothing for a bare number."""


@dataclass(frozen=True)
class TestResult:
    """One test's verdict; ``message`` is what the learner is told."""

    __test__ = False  # pytest: not a test class, in spite of its name

    name: str
    outcome: Outcome
    message: str = ""
    description: str = ""
    """The first line of the test's docstring: what was looked for."""
    earns: bool = True
    """False for a guard: a test that the untouched notebook passes too."""
    hidden: bool = False
    lesson: str = ""
    """The section of the lesson to go back to."""
    pitfalls: tuple[str, ...] = ()
    figures: tuple[Figure, ...] = ()
    """What the test measured on the way; gives away no input."""

    @classmethod
    def from_data(cls, data: Mapping[str, Any]) -> TestResult:
        """The result that :func:`dataclasses.asdict` made *data* of."""
        figures = tuple(Figure(**figure) for figure in data.get("figures", ()))
        outcome, pitfalls = Outcome(data["outcome"]), tuple(data["pitfalls"])
        return cls(**{**data, "outcome": outcome, "pitfalls": pitfalls, "figures": figures})


@dataclass(frozen=True)
class TaskReport:
    """The tests of one grade cell, and what they come to."""

    task: str
    score: float
    max_score: float
    tests: tuple[TestResult, ...] = ()
    note: str = ""

    @property
    def passed(self) -> bool:
        """Whether full marks were given."""
        return self.score >= self.max_score

    @property
    def is_final(self) -> bool:
        """Whether no result is a fault of ours, so that running the tests once more would change nothing."""
        return _all_final(self.tests)


@dataclass(frozen=True)
class Report:
    """The graded notebook."""

    chapter: str
    tasks: tuple[TaskReport, ...]
    notes: tuple[str, ...] = ()
    hardware: Mapping[str, Any] = field(default_factory=dict)
    schema_version: int = SCHEMA_VERSION

    @property
    def score(self) -> float:
        """Sum of the tasks' scores, in points."""
        return round(sum(task.score for task in self.tasks), 6)

    @property
    def max_score(self) -> float:
        """Sum of the points that can be had, in points."""
        return sum(task.max_score for task in self.tasks)

    def task(self, name: str) -> TaskReport:
        """The report of task *name*; ``KeyError`` where the chapter has none of that name."""
        for task in self.tasks:
            if task.task == name:
                return task
        raise KeyError(name)

    def without_figures(self) -> Report:
        """The verdict alone: the same, byte for byte, whenever the same work is graded on the same kind of machine."""
        tasks = (replace(t, tests=tuple(replace(test, figures=()) for test in t.tests)) for t in self.tasks)
        return replace(self, tasks=tuple(tasks))

    def to_json(self, indent: int | None = None) -> str:
        """The report as JSON (keys as in README, section "Instructors")."""
        data = {
            "schema_version": self.schema_version,
            "chapter": self.chapter,
            "score": self.score,
            "max_score": self.max_score,
            "tasks": [asdict(task) for task in self.tasks],
            "notes": list(self.notes),
            "hardware": dict(self.hardware),
        }
        return json.dumps(data, indent=indent)

    @classmethod
    def from_json(cls, text: str) -> Report:
        """The report that :meth:`to_json` wrote; raises :class:`ReportError` for anything else."""
        data = _of_this_version(text)
        try:
            tasks = tuple(
                TaskReport(**{**task, "tests": tuple(map(TestResult.from_data, task["tests"]))})
                for task in data["tasks"]
            )
            return cls(str(data["chapter"]), tasks, tuple(data["notes"]), data["hardware"])
        except (ValueError, KeyError, TypeError, AttributeError) as problem:
            raise ReportError(_NO_REPORT.format(f"{type(problem).__name__}: {problem}")) from None


@dataclass(frozen=True)
class Part:
    """What some of a chapter's tests say about a notebook, before it is made a grade of: what is stored and merged.

    ``results`` holds the tests' results by task, ``hardware`` what they depend on.
    """

    results: Mapping[str, tuple[TestResult, ...]]
    hardware: Mapping[str, Any]

    @property
    def is_final(self) -> bool:
        """Whether no result is a fault of ours, so that running the tests once more would change nothing."""
        return all(map(_all_final, self.results.values()))

    def to_json(self) -> str:
        """The part as JSON."""
        results = {task: [asdict(test) for test in tests] for task, tests in self.results.items()}
        return json.dumps({"schema_version": SCHEMA_VERSION, "results": results, "hardware": dict(self.hardware)})

    @classmethod
    def from_json(cls, text: str) -> Part:
        """The part that :meth:`to_json` wrote; raises :class:`ReportError` for anything else."""
        data = _of_this_version(text)
        try:
            results = {task: tuple(map(TestResult.from_data, tests)) for task, tests in data["results"].items()}
            return cls(results, dict(data["hardware"]))
        except (ValueError, KeyError, TypeError, AttributeError) as problem:
            raise ReportError(_NO_REPORT.format(f"{type(problem).__name__}: {problem}")) from None


def _all_final(tests: Sequence[TestResult]) -> bool:
    return not any(test.outcome is Outcome.ERROR for test in tests)


_NO_REPORT = "this is no report of ours ({})"


def _of_this_version(text: str) -> dict[str, Any]:
    try:
        data = json.loads(text)
        version = data["schema_version"]
    except (ValueError, KeyError, TypeError) as problem:
        raise ReportError(_NO_REPORT.format(f"{type(problem).__name__}: {problem}")) from None
    if version != SCHEMA_VERSION:
        raise ReportError(
            f"this is a report of schema version {version}; this program writes and reads {SCHEMA_VERSION}"
        )
    assert isinstance(data, dict)
    return data


def score_task(task: str, points: float, tests: tuple[TestResult, ...], *, touched: bool) -> TaskReport:
    """Credit for one task.

    ``points × earning tests passed / earning tests that count``, and 0 where a guard fails. Where this machine could
    run none of the earning tests, nothing is known: a changed cell keeps its points (a fault of ours costs nobody
    anything), an untouched one (``touched=False``) has none, and the report says so.
    """
    counted = [test for test in tests if test.outcome.counts]
    guards_hold = all(test.outcome is Outcome.PASSED for test in counted if not test.earns)
    earning = [test for test in counted if test.earns]
    note = ""
    if not guards_hold:
        score = 0.0
        if any(test.outcome is Outcome.PASSED for test in earning):
            note = "A test that holds for the code as it was handed out fails now, so the task has no points yet."
    elif earning:
        passed = sum(test.outcome is Outcome.PASSED for test in earning)
        score = points * passed / len(earning)
    else:
        score = points if touched else 0.0
        note = "None of this task's tests could be run on this machine; an instructor should look at it."
    return TaskReport(task, round(score, 6), points, tests, note)
