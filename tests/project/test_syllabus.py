"""Every row of the syllabus is a planted bug that a learner meets and a test that catches it, or is taught."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from autograder import planting
from autograder.chapter import Chapter, find_chapters

ROOT = Path(__file__).resolve().parents[2]
_HEADING = re.compile(r"^## .*\(`(ch\w+)`\)$", re.MULTILINE)


def _rows(chapter: str) -> list[dict[str, str]]:
    """The rows of a chapter's table, by column."""
    pieces = _HEADING.split((ROOT / "docs" / "syllabus.md").read_text(encoding="utf-8"))
    text = dict(zip(pieces[1::2], pieces[2::2], strict=True)).get(chapter, "").partition("\n## ")[0]
    lines = [[cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines() if line[:1] == "|"]
    return [dict(zip(lines[0], line, strict=True)) for line in lines[2:]]


def _is_taught(row: dict[str, str]) -> bool:
    """Whether a row is a section of the lesson with a demonstration, and no bug of the exercise."""
    return row["task"] == "taught" and not row["tests"]


def _names(cell: str) -> list[str]:
    return re.findall(r"`(\w+)`", cell)


def _marked(chapter: Chapter) -> dict[str, tuple[str, set[str]]]:
    """Each test function of a chapter, with its task and its pitfalls."""
    found = {}
    for path in [*chapter.visible_tests, *chapter.hidden_tests]:
        for block in re.split(r"\n\n\n", path.read_text(encoding="utf-8")):
            name = re.search(r"^def (test_\w+)", block, re.MULTILINE)
            task = re.search(r'@pytest.mark.task\("(\w+)"\)', block)
            if name and task:
                pitfalls = re.search(r"@pytest.mark.pitfall\((.*)\)", block)
                found[name[1]] = (task[1], set(re.findall(r'"(\w+)"', pitfalls[1])) if pitfalls else set())
    return found


CHAPTERS = find_chapters(ROOT)


@pytest.mark.parametrize("name", CHAPTERS)
def test_each_row_has_a_task_and_a_test(name: str) -> None:
    """A row's bug is planted in its task, and the tests it names exist, count for the task and are marked with it."""
    chapter = CHAPTERS[name]
    rows = _rows(name)
    assert rows, f"docs/syllabus.md has no table for {name}"
    marked = _marked(chapter)
    cells = {cell.grade_id: cell.source for cell in chapter.authored}
    lesson = (ROOT / "course" / f"{name}.py").read_text(encoding="utf-8")
    for row in rows:
        assert re.search(rf"^# ##+ .*{re.escape(row['lesson section'])}", lesson, re.MULTILINE), row["lesson section"]
        if _is_taught(row):
            continue
        tasks, tests = _names(row["task"]), _names(row["tests"])
        assert tasks and tests, row
        for task in tasks:
            planted = planting.regions(cells[chapter.task(task).solution_cell])
            assert row["row"] in {region.pitfall for region in planted}, f"{row['row']} is not planted in {task}"
        for test in tests:
            task, pitfalls = marked[test]
            assert task in tasks and row["row"] in pitfalls, f"{test} does not count for {row['row']}"


@pytest.mark.parametrize("name", CHAPTERS)
def test_each_planted_bug_and_each_mark_is_a_row(name: str) -> None:
    """No bug is planted and no test is marked with a row that the syllabus does not have."""
    chapter = CHAPTERS[name]
    rows = {row["row"] for row in _rows(name) if not _is_taught(row)}
    assert {mutant.region.pitfall for mutant in chapter.mutants()} == rows
    assert set().union(*(pitfalls for _, pitfalls in _marked(chapter).values())) == rows


@pytest.mark.parametrize("name", CHAPTERS)
def test_lessons_have_the_sections_that_tests_point_at(name: str) -> None:
    """A learner sent back to a section of the lesson finds it."""
    chapter = CHAPTERS[name]
    lesson = (ROOT / "course" / f"{name}.py").read_text(encoding="utf-8")
    for path in [*chapter.visible_tests, *chapter.hidden_tests]:
        for section in re.findall(r'@pytest.mark.lesson\("(.*)"\)', path.read_text(encoding="utf-8")):
            assert re.search(rf"^# ##+ .*{re.escape(section)}", lesson, re.MULTILINE), section
