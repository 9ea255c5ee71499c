"""Hints in a terminal."""

from __future__ import annotations

from pathlib import Path

import pytest

from autograder.chapter import Chapter, find_chapters
from autograder.hints import next_hint, opened_hints, plain_text
from autograder.progress import Diary


@pytest.mark.parametrize(
    ("markdown", "text"),
    [
        ("Lesson, section *Expand repeats\nnothing*.", "Lesson, section “Expand repeats nothing”."),
        ("What does it *see*, and **why**?", "What does it see, and why?"),
        ("2 * error / N, not 3 * x", "2 * error / N, not 3 * x"),
        ("`a * b` and `c * d`", "`a * b` and `c * d`"),
        ("*The `grad` of a sum*", "“The `grad` of a sum”"),
        ("See [the notes](https://pytorch.org/docs).", "See the notes (https://pytorch.org/docs)."),
        ("a<br>b &lt; c, `<b>`", "ab < c, `<b>`"),
        ("One.\n\nTwo\nlines.", "One.\n\nTwo lines."),
        ("- one\n- *Two*", "- one\n- “Two”"),
        ("```python\nx = a * b * c\n```", "```python\nx = a * b * c\n```"),
        ("snake_case_names stay", "snake_case_names stay"),
        ("", ""),
    ],
)
def test_markdown_becomes_text(markdown: str, text: str) -> None:
    assert plain_text(markdown) == text


def test_paragraphs_are_wrapped_and_words_are_not_cut() -> None:
    lines = plain_text("word " * 20 + "`a_name_that_is_far_too_long_for_a_line`", 30).splitlines()
    assert all(len(line) <= 30 for line in lines[:-1])
    assert lines[-1] == "`a_name_that_is_far_too_long_for_a_line`"


def test_hints_come_one_by_one(chapter: Chapter, tmp_path: Path) -> None:
    task, diary = chapter.task("to_patches"), Diary(tmp_path)
    section = chapter.section("to_patches")
    assert "No hint of `to_patches` has been opened here yet" in opened_hints(chapter, task, diary)

    first = next_hint(chapter, task, diary)
    assert first.startswith('5. "It worked in the prototype"\n\nHint 1: where to look\n\n  Run the cell')
    assert "This was hint 1 of 3. `autograder hint to_patches` opens the next one." in first
    second = next_hint(chapter, task, Diary(tmp_path))
    assert second.startswith("Hint 2: what to look at\n\n")
    assert "“When reshape copies”" in second
    assert "It was the last one." in next_hint(chapter, task, diary)
    assert next_hint(chapter, task, diary).startswith("You have opened all 3 hints of `to_patches`.\n")

    everything = opened_hints(chapter, task, diary)
    assert [everything.count(hint.title) for hint in section.hints] == [1, 1, 1]
    assert next_hint(chapter, task, diary, again=True) == first
    assert opened_hints(chapter, task, diary).endswith("These were 1 of 3 hints.")


def test_a_task_without_hints_says_so(small_course: Path) -> None:
    small = find_chapters(small_course)["ch07_small"]
    assert next_hint(small, small.task("half"), Diary(small_course)) == "`half` has no hints."


def test_every_hint_of_the_course_is_plain(project: Path) -> None:
    for chapter in find_chapters(project).values():
        for task in chapter.tasks:
            for hint in chapter.section(task.name).hints:
                text = plain_text(hint.text)
                assert text.strip()
                prose = "".join(text.split("`")[::2])  # outside of code
                assert "**" not in prose and "](" not in prose and "<" not in prose, prose
