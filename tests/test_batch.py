"""Grading many: what is asked of judges and what is not, and what becomes of it when something goes wrong."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from autograder.batch import Batch, Graded, Status
from autograder.chapter import find_chapters
from autograder.errors import ClinicError, SandboxError
from autograder.grading import passed_by_starter
from autograder.handed_in import HandedIn
from autograder.hardware import fingerprint, machine_class
from autograder.judging import Course, Request, carry_out, guards_of
from autograder.report import Outcome, Part, TestResult
from autograder.store import Store

NAME = "ch07_small"
MACHINE = machine_class(fingerprint())


class Recorder:
    """Judges in this process that note what they are asked, and may go wrong as told."""

    def __init__(self, wrong: Callable[[Request], Part | ClinicError | None] = lambda request: None) -> None:
        self.asked: list[str] = []
        self.tasks: list[tuple[str, ...]] = []
        self.at_once: list[tuple[bool, int]] = []
        self._wrong = wrong
        self._waiting: list[Request] = []

    def slots(self, timed: bool) -> int:
        return 1 if timed else 3

    def ask(self, request: Request) -> None:
        self.asked.append(request.name)
        self.tasks.append(request.tasks)
        self._waiting.append(request)
        self.at_once.append((request.timed, len(self._waiting)))

    def answer(self) -> tuple[Request, Part | ClinicError]:
        request = self._waiting.pop()  # the last first: answers come in any order
        return request, self._wrong(request) or carry_out(request)

    def guards(self, course: Course, chapter: str) -> set[str]:
        return guards_of(course, chapter)


@pytest.fixture
def timed_course(small_course: Path) -> Path:
    """The small course with one test that is marked as taking times."""
    tests = small_course / "exercises" / NAME / f"test_{NAME}.py"
    marked = tests.read_text().replace("def test_halves", "@pytest.mark.timed\ndef test_halves")
    tests.write_text(marked)
    return small_course


@pytest.fixture
def hand_in(timed_course: Path, small_answers: Any, notebook_file: Any) -> Callable[..., HandedIn]:
    def write(student: str, double: str = "2 * x", half: str = "x / 2") -> HandedIn:
        path = timed_course / "submitted" / student / NAME / f"{NAME}.ipynb"
        path.parent.mkdir(parents=True, exist_ok=True)
        notebook_file(path, small_answers(double, half))
        return HandedIn(student, NAME, path)

    return write


@pytest.fixture
def run(timed_course: Path) -> Callable[..., list[Graded]]:
    """``run(judges, *submissions)``: one batch over them; the store lasts."""

    def grade(judges: Recorder | None, *submissions: HandedIn, fresh: bool = False) -> list[Graded]:
        def opened() -> Recorder:
            assert judges is not None, "nothing should have to be run"
            return judges

        batch = Batch(Course(timed_course, "none"), Store.of_course(timed_course), [MACHINE], fresh)
        return sorted(batch.run(submissions, opened), key=lambda one: one.handed_in.student)

    return grade


def scores(graded: Sequence[Graded]) -> list[float | None]:
    return [one.report.score if one.report else None for one in graded]


def test_each_gets_a_grade(run, hand_in):
    graded = run(Recorder(), hand_in("ann"), hand_in("bob", double="x"), hand_in("eve", half="x", double="x + 3"))
    assert scores(graded) == [3, 1, 0]  # eve's 3 + 3 is 6, but 0 is no longer 0: a guard fails
    assert [one.status for one in graded] == [Status.GRADED] * 3


def test_timed_tests_come_last_and_one_at_a_time(run, hand_in):
    judges = Recorder()
    run(judges, *(hand_in(student, f"2 * x + {i}", f"x / 2 + {i}") for i, student in enumerate(("ann", "bob", "eve"))))
    kinds = [timed for timed, _ in judges.at_once]
    assert kinds == [False] * 3 + [True] * 3
    assert max(count for timed, count in judges.at_once if timed) == 1
    assert max(count for timed, count in judges.at_once if not timed) == 3


def test_a_second_run_runs_nothing_and_says_the_same(run, hand_in):
    people = hand_in("ann"), hand_in("bob", double="x")
    first = run(Recorder(), *people)
    second = run(None, *people)
    assert [one.from_store for one in second] == [True, True]
    assert [one.report for one in second] == [one.report for one in first]


def test_only_what_changed_is_run_again(run, hand_in):
    people = [hand_in("ann"), hand_in("bob", double="x")]
    run(Recorder(), *people)
    judges = Recorder()
    hand_in("bob", double="x + x")
    assert scores(run(judges, *people)) == [3, 3]
    assert judges.asked == [f"bob/{NAME}"]
    assert judges.tasks == [("double",)], "the other task's code is what it was"


def test_changed_tests_run_all_again(run, hand_in, timed_course):
    person = hand_in("ann")
    run(Recorder(), person)
    tests = timed_course / "exercises" / NAME / f"test_{NAME}.py"
    tests.write_text(tests.read_text() + "\n# changed\n")
    judges = Recorder()
    run(judges, person)
    assert len(judges.asked) == 2


def test_by_force_all_is_run_again_but_equal_work_once(run, hand_in):
    people = hand_in("ann"), hand_in("bob")
    run(Recorder(), *people)
    judges = Recorder()
    graded = run(judges, *people, fresh=True)
    assert scores(graded) == [3, 3]
    assert sorted(judges.asked[:2]) == [f"ann/{NAME}", f"bob/{NAME}"]  # at once: neither knows of the other yet
    assert len(judges.asked) == 3, "the timed tests of equal work are run once"


def test_a_file_that_cannot_be_read_is_refused_with_no_points(run, hand_in):
    person = hand_in("ann")
    person.path.write_text("{")
    (graded,) = run(None, person)
    assert graded.status is Status.REFUSED
    assert scores([graded]) == [0] and graded.report.max_score == 3
    assert "JSON" in graded.problems[0] and "JSON" in graded.report.tasks[0].note


def test_a_judge_that_fails_costs_one_grade_and_no_other(run, hand_in):
    def wrong(request: Request) -> ClinicError | None:
        return SandboxError("it broke") if request.name.startswith("bob") else None

    people = hand_in("ann"), hand_in("bob", double="x")
    graded = run(Recorder(wrong), *people)
    assert [one.status for one in graded] == [Status.GRADED, Status.FAILED]
    assert scores(graded) == [3, None] and "it broke" in graded[1].problems[0]
    assert scores(run(Recorder(), *people)) == [3, 1]


def test_faults_of_ours_are_told_cost_nothing_and_are_tried_again(run, hand_in):
    def wrong(request: Request) -> Part:
        part = carry_out(request)
        broken = {task: tuple(_broken(test) for test in tests) for task, tests in part.results.items()}
        return Part(broken, part.hardware)

    person = hand_in("ann")
    (graded,) = run(Recorder(wrong), person)
    assert scores([graded]) == [3]
    assert graded.problems and all("fault of ours" in problem for problem in graded.problems)
    judges = Recorder()
    assert run(judges, person)[0].problems == ()
    assert len(judges.asked) == 2


def _broken(test: TestResult) -> TestResult:
    return TestResult(test.name, Outcome.ERROR, "the sandbox is gone")


def test_a_file_that_changes_meanwhile_is_not_given_the_old_grade(run, hand_in):
    def change(request: Request) -> None:
        if not request.timed:
            hand_in("ann", double="x")

    (graded,) = run(Recorder(change), hand_in("ann"))
    assert graded.status is Status.FAILED
    assert "changed while it was being graded" in graded.problems[0]


def test_progress_counts_both_kinds(timed_course, hand_in):
    seen = []
    batch = Batch(
        Course(timed_course, "none"),
        Store.of_course(timed_course),
        [MACHINE],
        on_progress=lambda timed, done, total: seen.append((timed, done, total)),
    )
    list(batch.run([hand_in("ann"), hand_in("bob", double="x")], Recorder))
    for timed in (False, True):
        counts = [done for kind, done, total in seen if kind is timed and total == 2]
        assert counts == sorted(counts) and counts[-1] == 2


def test_a_report_is_the_same_whether_its_parts_were_run_apart_or_together(run, hand_in, timed_course):
    from autograder.grading import Grading
    from autograder.handed_in import open_submission
    from autograder.submission import Host

    person = hand_in("ann", half="x")
    (graded,) = run(Recorder(), person)
    chapter = find_chapters(timed_course)[NAME]
    with Host("none") as host:
        together = Grading(chapter, host).grade(open_submission(person.path, chapter))
    assert graded.report.to_json() == together.to_json()


def test_the_untouched_notebook_is_run_once_only(timed_course):
    chapter = find_chapters(timed_course)[NAME]
    files = chapter.visible_tests
    first = passed_by_starter(chapter, "cpu", files, ["double", "half"])
    memory = list((timed_course.parent / "cache").rglob("*.json"))
    assert len(memory) == 2 and all(isinstance(json.loads(path.read_text()), list) for path in memory)
    assert passed_by_starter(chapter, "cpu", files, ["double", "half"]) == first == {f"test_{NAME}::test_zero"}


def test_what_cannot_be_measured_on_the_untouched_notebook_earns_nothing(timed_course):
    """It is tried a few times; what is skipped each time may have been right from the beginning."""
    tests = timed_course / "exercises" / NAME / f"test_{NAME}.py"
    tried = timed_course / "tried"
    skipping = f'    open({str(tried)!r}, "a").write("x")\n    pytest.skip("too noisy")\n'
    tests.write_text(tests.read_text().replace('    """Half of four is two."""\n', f'    """Half."""\n{skipping}'))
    chapter = find_chapters(timed_course)[NAME]
    guards = passed_by_starter(chapter, "cpu", chapter.visible_tests, ["half"])
    assert guards == {f"test_{NAME}::test_halves"}
    assert len(tried.read_text()) == 3


def test_a_task_that_others_solved_alike_is_run_once(run, hand_in):
    """Whatever else is in their notebooks."""
    judges = Recorder()
    first = run(judges, hand_in("ann"))
    second = run(judges, hand_in("bob", double="x + x  # my own way"))
    assert scores([*first, *second]) == [3, 3]
    assert judges.tasks == [("double",), ("half",), ("double",)]


def test_tests_must_show_what_they_ask_for(run, hand_in, timed_course):
    """Else a verdict could be taken over from a notebook that differs in what was asked."""
    tests = timed_course / "exercises" / NAME / f"test_{NAME}.py"
    tests.write_text(tests.read_text().replace("submission.half(4)", 'getattr(submission, "ha" + "lf")(4)'))
    (graded,) = run(Recorder(_as_errors), hand_in("ann"))
    assert graded.status is Status.FAILED and "ask for half" in graded.problems[0]


def _as_errors(request: Request) -> Part | ClinicError:
    try:
        return carry_out(request)
    except ClinicError as error:
        return error
