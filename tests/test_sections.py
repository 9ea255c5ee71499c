"""The sections of an exercise: symptom and hints."""

from __future__ import annotations

import pytest

from autograder.chapter import Chapter
from autograder.notebook import Cell
from autograder.sections import Section, section_above

TEXT = """## 2. "It is slow"

Somebody said so.

<details><summary>Hint 1: where to look</summary>

Print it.

</details>

<details><summary>Hint 2: what to look at</summary>

How often? Lesson, section *What a view
shares*. And *this* too.

</details>
"""


def cells() -> list[Cell]:
    return [
        Cell("markdown", "# Exercise"),
        Cell("code", "import torch", nbgrader={"grade_id": "setup"}),
        Cell("markdown", TEXT),
        Cell("markdown", "More words."),
        Cell("code", "## not a heading", nbgrader={"grade_id": "f-code"}),
        Cell("code", 'check("f")', nbgrader={"grade_id": "f"}),
    ]


def test_a_section_has_its_heading_and_its_hints() -> None:
    section = section_above(cells(), "f-code")
    assert section == section_above(cells(), "f")
    assert section.heading == '2. "It is slow"'
    assert [hint.title for hint in section.hints] == ["Hint 1: where to look", "Hint 2: what to look at"]
    assert section.anchor == "2.-%22It-is-slow%22"


@pytest.mark.parametrize("grade_id", ["setup", "nowhere"])
def test_where_there_is_no_heading_the_section_is_empty(grade_id: str) -> None:
    section = section_above(cells(), grade_id)
    assert section == Section("", ())
    assert section.hint_for(["What a view shares"]) == ""


@pytest.mark.parametrize(
    ("lessons", "title"),
    [
        (["What a view shares"], "Hint 2: what to look at"),
        (["Another", "What a view shares"], "Hint 2: what to look at"),
        (["Another"], "Hint 1: where to look"),
        ([], "Hint 1: where to look"),
    ],
)
def test_the_hint_is_the_one_that_names_the_section_of_the_lesson(lessons: list[str], title: str) -> None:
    assert section_above(cells(), "f").hint_for(lessons) == title


def test_each_task_of_a_chapter_has_a_symptom_and_hints(chapter: Chapter) -> None:
    for task in chapter.tasks:
        section = chapter.section(task.name)
        assert section.heading and section.hints, task.name
