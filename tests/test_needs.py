"""What a task's tests may ask for, read from their code."""

from __future__ import annotations

from pathlib import Path

import pytest

from autograder.chapter import find_chapters
from autograder.needs import needs_of
from autograder.program import read_program

ROOT = Path(__file__).resolve().parents[1]
CHAPTERS = find_chapters(ROOT)
TESTS = """
import pytest

CASES = [lambda learner: learner.from_a_table(1)]


def probe(learner, x):
    return deeper(learner)(x)


def deeper(learner):
    return learner.in_a_helper


@pytest.fixture
def prepared(submission):
    return submission.in_a_fixture()


@pytest.mark.task("one")
def test_one(submission):
    assert submission.direct(1).of_an_answer == submission.run(probe, 1)
    assert library.of_a_library(submission)


@pytest.mark.task("one")
@pytest.mark.timed
def test_quick(submission):
    pass


@pytest.mark.task("two")
@pytest.mark.parametrize("case", CASES)
def test_two(submission, case, prepared):
    pass


def test_of_no_task(submission):
    submission.elsewhere()
"""


def test_names_are_found_in_tests_probes_helpers_tables_and_fixtures(tmp_path):
    (tmp_path / "test_x.py").write_text(TESTS)
    needs = needs_of([tmp_path / "test_x.py"])
    assert set(needs) == {"one", "two"}
    assert {"direct", "in_a_helper"} <= needs["one"].names
    assert {"from_a_table", "in_a_fixture"} <= needs["two"].names
    assert not {"from_a_table", "in_a_fixture", "elsewhere", "of_an_answer", "of_a_library"} & needs["one"].names
    assert not {"direct", "in_a_helper", "elsewhere"} & needs["two"].names
    assert (needs["one"].kinds, needs["two"].kinds) == ({True, False}, {False})
    assert (needs["one"].tests, needs["two"].tests) == (
        {"test_x::test_one", "test_x::test_quick"},
        {"test_x::test_two"},
    )


def test_tests_of_a_task_in_several_files_count_together(tmp_path):
    for name in ("a", "b"):
        (tmp_path / f"{name}.py").write_text(
            f"@pytest.mark.task('t')\ndef test(submission):\n    submission.{name}()\n"
        )
    assert {"a", "b"} <= needs_of(sorted(tmp_path.glob("*.py")))["t"].names


@pytest.mark.parametrize("name", CHAPTERS)
def test_each_task_needs_no_solution_cell_but_its_own(name: str) -> None:
    """Else a change to one task would cost another's tests; that it is enough is seen to whenever tests are run."""
    chapter = CHAPTERS[name]
    program = read_program(chapter.solution)
    cells = {task.solution_cell.removesuffix("-code") for task in chapter.tasks}
    for task in chapter.tasks:
        needed = {cell.name for cell, _ in program.needed_for(chapter.needs[task.name].names)} & cells
        assert needed == {task.solution_cell.removesuffix("-code")}
