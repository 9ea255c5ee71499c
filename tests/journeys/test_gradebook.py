"""A class is graded by `autograder grade`; the gradebook is filled from that, and keeps what people add to it."""

from __future__ import annotations

import csv
import json
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from nbgrader.api import Gradebook

pytestmark = pytest.mark.slow
NAME = "ch07_small"
_REGIONS = """def {name}(x):
    ### BEGIN SOLUTION V1
    return {right}
    ### BUG
    # return x
    ### END SOLUTION"""
_NOTHING_RUNS = """
import autograder.batch

def refuse(request):
    raise SystemExit(f"{request.name} was run, though it had been graded")

autograder.batch.carry_out = refuse
"""
ANSWERS = {"ann": ("2 * x", "x / 2"), "bob": ("x", "x / 2"), "eve": ("x", "x")}
SCORES = {"ann": 3.0, "bob": 1.0, "eve": 0.0}


@pytest.fixture
def course(tmp_path: Path, small_course: Path, small_answers: Any, notebook_file: Any) -> Path:
    """An instructor's copy of the small course, released, with three students' work handed in."""
    authored = small_answers()
    for index, (name, right) in enumerate((("double", "2 * x"), ("half", "x / 2"))):
        cell = authored[2 * index]
        authored[2 * index] = type(cell)(
            cell.kind, _REGIONS.format(name=name, right=right), cell.cell_id, cell.nbgrader
        )
    source = small_course / "solutions" / NAME
    source.mkdir(parents=True)
    notebook_file(source / f"{NAME}.ipynb", authored)
    tests = (small_course / "exercises" / NAME / f"test_{NAME}.py").read_text(encoding="utf-8")
    (source / f"test_{NAME}.py").write_text(tests, encoding="utf-8")
    (source / "hidden").mkdir()
    timed = tests.replace("@pytest.mark.lesson", "@pytest.mark.timed\n@pytest.mark.lesson")
    (source / "hidden" / f"test_{NAME}_hidden.py").write_text(timed, encoding="utf-8")
    config = (Path(__file__).parents[2] / "nbgrader_config.py").read_text(encoding="utf-8")
    (small_course / "nbgrader_config.py").write_text(
        f'{config}c.JudgeSubmission.isolation = "none"\n', encoding="utf-8"
    )
    for student, answers in ANSWERS.items():
        folder = small_course / "submitted" / student / NAME
        folder.mkdir(parents=True)
        notebook_file(folder / f"{NAME}.ipynb", small_answers(*answers))
    return small_course


@pytest.fixture
def run(course: Path, command: Callable[..., Any]) -> Callable[..., str]:
    """Runs a command in the course and gives what it printed; it must succeed."""

    def call(program: str, *arguments: str) -> str:
        done = command(program, *arguments, cwd=course)
        assert done.returncode == 0, done.stdout + done.stderr
        return str(done.stdout + done.stderr)

    return call


def forbid_running(course: Path) -> None:
    """From here on nbgrader must find every grade in the store."""
    with (course / "nbgrader_config.py").open("a", encoding="utf-8") as config:
        config.write(_NOTHING_RUNS)


@contextmanager
def gradebook(course: Path) -> Iterator[Gradebook]:
    with Gradebook(f"sqlite:///{course / 'gradebook.db'}") as opened:
        yield opened


def scores(course: Path) -> dict[str, float]:
    with gradebook(course) as book:
        return {found.student.id: found.score for found in book.assignment_submissions(NAME)}


def exported(course: Path) -> dict[str, float]:
    with (course / "grades.csv").open() as file:
        return {row["student_id"]: float(row["score"]) for row in csv.DictReader(file)}


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the graded course is kept for the next test."""
    return tmp_path_factory.mktemp("graded") / "course"


@pytest.fixture
def graded(course: Path, run: Callable[..., str], kept: Path, tmp_path: Path) -> Path:
    """The course after the class was released, graded and put into the gradebook; from here on nothing may be run.

    That takes a while, so it is done for the first test that wants it, and copied for the others.
    """
    if not kept.exists():
        run("nbgrader", "generate_assignment", NAME, "--create", "--force")
        said = run("autograder", "grade", "submitted", "--isolation", "none", "--jobs", "1")
        assert "3 submissions: 3 graded" in said
        forbid_running(course)
        run("nbgrader", "autograde", NAME)
        shutil.copytree(tmp_path, kept)
    shutil.copytree(kept, tmp_path, dirs_exist_ok=True)
    return course


def test_the_gradebook_is_filled_from_what_is_stored(graded, run):
    course = graded
    assert scores(course) == SCORES
    for student, score in SCORES.items():
        report = json.loads((course / "reports" / student / f"{NAME}.json").read_text())
        assert (report["score"], report["max_score"]) == (score, 3)
    with (course / "reports" / "grades.csv").open() as file:
        assert {row["student"]: float(row["score"]) for row in csv.DictReader(file)} == SCORES
    run("nbgrader", "generate_feedback", NAME)
    page = (course / "feedback" / "bob" / NAME / f"{NAME}.html").read_text(encoding="utf-8")
    assert "Twice &lt;b&gt;three&lt;/b&gt; is six." in page
    run("nbgrader", "export")
    assert exported(course) == SCORES


def test_manual_grades_and_comments_survive_a_regrade(graded, run):
    course = graded
    with gradebook(course) as book:
        grade = next(g for g in book.find_submission_notebook(NAME, NAME, "bob").grades if g.name == "double")
        grade.manual_score, grade.extra_credit = 1.5, 0.25
        comment = next(c for c in book.find_submission_notebook(NAME, NAME, "bob").comments if c.name == "double-code")
        comment.manual_comment = "You were close: see me after the lesson."
        book.db.commit()
    run("nbgrader", "autograde", NAME, "--force")
    assert scores(course) == SCORES | {"bob": 1 + 1.5 + 0.25}
    run("nbgrader", "generate_feedback", NAME)
    page = (course / "feedback" / "bob" / NAME / f"{NAME}.html").read_text(encoding="utf-8")
    assert "You were close" in page


def test_new_work_is_graded_anew_and_nothing_else(graded, run, notebook_file, small_answers):
    course = graded
    notebook_file(course / "submitted" / "eve" / NAME / f"{NAME}.ipynb", small_answers("x + x", "x"))
    said = run("autograder", "grade", "submitted", "--isolation", "none", "--jobs", "1")
    assert "3 graded (2 of them taken over from before)" in said
    run("nbgrader", "autograde", NAME, "--force")
    assert scores(course) == SCORES | {"eve": 2}


def test_late_penalties_are_nbgraders_own(graded, run):
    course = graded
    for student, day in (("ann", "2026-01-03"), ("bob", "2026-01-01")):
        (course / "submitted" / student / NAME / "timestamp.txt").write_text(f"{day} 12:00:00 UTC")
    with (course / "nbgrader_config.py").open("a", encoding="utf-8") as config:
        config.write('c.LateSubmissionPlugin.penalty_method = "zero"\n')
    run("nbgrader", "db", "assignment", "add", NAME, "--duedate=2026-01-02 12:00:00 UTC")
    run("nbgrader", "autograde", NAME, "--force")
    run("nbgrader", "export")
    assert exported(course) == SCORES | {"ann": 0}
    with gradebook(course) as book:
        late = book.find_submission(NAME, "ann")
        assert (late.total_seconds_late, late.notebooks[0].late_submission_penalty) == (24 * 3600, 3)


def test_what_nbgrader_graded_first_is_taken_over_as_well(course, run):
    run("nbgrader", "generate_assignment", NAME, "--create", "--force")
    run("nbgrader", "autograde", NAME)
    said = run("autograder", "grade", "submitted", "--isolation", "none", "--jobs", "1")
    assert "3 graded (3 of them taken over from before)" in said
