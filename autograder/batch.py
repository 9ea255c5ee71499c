"""Grades many submissions: what is stored already is taken over, the rest is put to judges, and each grade is kept.

Tests that take no times run side by side; those that do come afterwards, on a machine that is quiet by then.
"""

from __future__ import annotations

import contextlib
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum

from autograder.errors import ClinicError, StoreError, SubmissionRefused
from autograder.grading import refused_report, report_of
from autograder.handed_in import HandedIn, open_submission
from autograder.hardware import machine_class
from autograder.judging import Course, Judges, Request, carry_out, guards_of
from autograder.normalise import Normalised
from autograder.program import Program, read_program
from autograder.report import Outcome, Part, Report
from autograder.store import Store


class Status(StrEnum):
    """What became of one submission."""

    GRADED = "graded"
    REFUSED = "refused"
    """It holds nothing that could be graded: no points, and the reason in its report."""
    FAILED = "failed"
    """A fault of ours kept it from being graded; there is no report."""


@dataclass(frozen=True)
class Graded:
    """One submission, and its report where there is one; ``problems`` are for the instructor to look at."""

    handed_in: HandedIn
    status: Status
    report: Report | None
    problems: tuple[str, ...] = ()
    from_store: bool = False
    """Whether nothing had to be run for it."""

    def without_tests(self) -> Graded:
        """The same with the tasks' scores alone: what can be kept of thousands."""
        if self.report is None:
            return self
        return replace(self, report=replace(self.report, tasks=tuple(replace(t, tests=()) for t in self.report.tasks)))


@dataclass
class Batch:
    """One run over some submissions.

    ``machines`` are the classes of machine (see :func:`~autograder.hardware.machine_class`) whose verdicts count;
    ``fresh`` grades anew what is stored already.
    """

    course: Course
    store: Store
    machines: Sequence[str]
    fresh: bool = False
    on_progress: Callable[[bool, int, int], None] = lambda timed, done, total: None
    """Called with the kind of tests, how many submissions are through with them, and how many there are."""
    _parts: dict[str, Part] = field(default_factory=dict)
    """What this run must remember by itself: parts with a fault of ours are not stored."""
    _stored: set[str] = field(default_factory=set)
    """The keys of what this run has stored."""

    def run(self, submissions: Sequence[HandedIn], judges: Callable[[], Judges]) -> Iterator[Graded]:
        """Grade everything, and yield each submission as soon as its grade is final.

        ``judges()`` is called once, and not before something has to be run. Raises :class:`ClinicError` where nothing
        can be run at all.
        """
        # once for each chapter: they stand under a name that is made of all tests and the engine
        remembered = {name: self.course.remembered_guards(name) for name in {one.chapter for one in submissions}}
        waiting: list[HandedIn] = []
        for one in submissions:
            try:
                laid = self._open(one)
                guards, parts = remembered[one.chapter], self._parts_of(one.chapter, laid)
                if guards is not None and parts is not None:
                    yield self._composed(one, laid, parts, guards, from_store=True)
                else:
                    waiting.append(one)
            except SubmissionRefused as refusal:
                report = refused_report(self.course.chapters[one.chapter], str(refusal))
                yield Graded(one, Status.REFUSED, report, (str(refusal),))
        if waiting:
            yield from self._judged(waiting, judges())

    def grade_here(self, student: str, chapter: str, laid: Normalised) -> Report:
        """The grade of one submission that has been read already; what is not stored yet is run in this process."""
        program = read_program(laid.cells)
        for timed in (False, True):
            if missing := self._missing(chapter, program, timed):
                request = Request(self.course, chapter, student, laid.cells, missing, timed)
                with contextlib.suppress(StoreError):  # a grade that cannot be kept is a grade all the same
                    self._keep(request, carry_out(request))
        guards = self.course.remembered_guards(chapter)
        parts = self._parts_of(chapter, laid) or []
        known = guards_of(self.course, chapter) if guards is None else guards
        return report_of(self.course.chapters[chapter], laid, parts, known)

    def _judged(self, waiting: Sequence[HandedIn], judges: Judges) -> Iterator[Graded]:
        chapters = dict.fromkeys(one.chapter for one in waiting)
        guards = {}
        for name in chapters:
            known = self.course.remembered_guards(name)
            guards[name] = judges.guards(self.course, name) if known is None else known
        able: list[HandedIn] = []
        for one, problem in self._phase(waiting, judges, timed=False):
            if problem:
                yield Graded(one, Status.FAILED, None, (problem,))
            else:
                able.append(one)
        for one, problem in self._phase(able, judges, timed=True):
            try:
                laid = self._open(one)
            except SubmissionRefused as refusal:
                problem = str(refusal)
            parts = None if problem else self._parts_of(one.chapter, laid)
            if parts is not None:
                yield self._composed(one, laid, parts, guards[one.chapter])
            else:
                changed = "The file changed while it was being graded. Run the same command again."
                yield Graded(one, Status.FAILED, None, (problem or changed,))

    def _phase(self, waiting: Sequence[HandedIn], judges: Judges, timed: bool) -> Iterator[tuple[HandedIn, str]]:
        """Have the tests of one kind run where they have not been; yields each submission, and what kept it from it."""
        queue = deque(waiting)
        asked: dict[str, HandedIn] = {}
        done = 0
        while queue or asked:
            self.on_progress(timed, done, len(waiting))
            if queue and len(asked) < judges.slots(timed):
                one = queue.popleft()
                request = self._request(one, timed)
                if isinstance(request, Request):
                    asked[request.name] = one
                    judges.ask(request)
                else:
                    done += 1
                    yield one, request
                continue
            answered, answer = judges.answer()
            one = asked.pop(answered.name)
            done += 1
            if isinstance(answer, ClinicError):
                yield one, str(answer)
            else:
                self._keep(answered, answer)
                yield one, ""
        self.on_progress(timed, done, len(waiting))

    def _request(self, one: HandedIn, timed: bool) -> Request | str:
        """What to ask of a judge; empty where there is nothing to ask, or the reason why nothing can be asked."""
        try:
            cells = self._open(one).cells
        except SubmissionRefused as refusal:  # it could be read before
            return str(refusal)
        missing = self._missing(one.chapter, read_program(cells), timed)
        name = f"{one.student}/{one.chapter}" + (", timed" if timed else "")
        return Request(self.course, one.chapter, name, cells, missing, timed) if missing else ""

    def _open(self, one: HandedIn) -> Normalised:
        return open_submission(one.path, self.course.chapters[one.chapter])

    def _tasks(self, chapter: str, timed: bool) -> list[str]:
        """The tasks that have tests of that kind."""
        needs = self.course.chapters[chapter].needs
        return [task for task in needs if timed in needs[task].kinds]

    def _missing(self, chapter: str, program: Program, timed: bool) -> tuple[str, ...]:
        """The tasks whose tests of that kind have yet to be run."""
        tasks = self._tasks(chapter, timed)
        return tuple(task for task in tasks if self._part(chapter, task, timed, program) is None)

    def _part(self, chapter: str, task: str, timed: bool, program: Program) -> Part | None:
        for machine in self.machines:
            key = self.course.key(chapter, task, timed, program, machine)
            if key in self._parts:
                return self._parts[key]
            known = None if self.fresh and key not in self._stored else self.store.get(key)
            if known is not None:
                return known
        return None

    def _keep(self, request: Request, part: Part) -> None:
        program = read_program(request.cells)
        machine = machine_class(part.hardware)
        keys = {t: self.course.key(request.chapter, t, request.timed, program, machine) for t in request.tasks}
        parts = {key: Part({task: part.results.get(task, ())}, part.hardware) for task, key in keys.items()}
        self._parts |= parts
        for key, one in parts.items():
            if one.is_final:
                self._put(key, one)

    def _put(self, key: str, part: Part) -> None:
        try:
            self.store.put(key, part)
        except OSError as error:
            raise StoreError(f"A report could not be kept ({error}). Make room, or see whose the folder is.") from None
        del self._parts[key]
        self._stored.add(key)

    def _parts_of(self, chapter: str, laid: Normalised) -> list[Part] | None:
        """All parts of a submission's grade; None where one is still missing."""
        program = read_program(laid.cells)
        parts = []
        for timed in (False, True):
            for task in self._tasks(chapter, timed):
                part = self._part(chapter, task, timed, program)
                if part is None:
                    return None
                parts.append(part)
        return parts

    def _composed(
        self, one: HandedIn, laid: Normalised, parts: list[Part], guards: set[str], from_store: bool = False
    ) -> Graded:
        report = report_of(self.course.chapters[one.chapter], laid, parts, guards)
        return Graded(one, Status.GRADED, report, tuple(problems_of(report)), from_store)


def problems_of(report: Report) -> Iterator[str]:
    """What an instructor should know about a grade: faults of ours, and what this machine could not show."""
    for task in report.tasks:
        for test in task.tests:
            if test.outcome is Outcome.ERROR:
                yield f"{task.task}: {test.name} went wrong by a fault of ours and costs no points: {test.message}"
            elif test.outcome is Outcome.SKIPPED:
                yield f"{task.task}: {test.name} was not measured and does not count: {test.message}"
