"""The outline of the course, read from its notebooks."""

from __future__ import annotations

from pathlib import Path

from autograder.chapter import find_chapters
from autograder.outline import read_outline

PROJECT = Path(__file__).parents[1]


def test_every_chapter_has_a_title_a_lesson_an_exercise_and_times() -> None:
    outline = read_outline(PROJECT)
    assert [entry.chapter.name for entry in outline] == sorted(find_chapters(PROJECT))
    for entry in outline:
        assert entry.lesson is not None and entry.lesson.is_file()
        assert entry.exercise is not None and entry.exercise.is_file()
        assert 20 <= entry.lesson_minutes <= 120 and entry.lesson_minutes % 5 == 0
        assert "minutes" in entry.exercise_time or "hours" in entry.exercise_time, entry.chapter.name
    assert outline[0].title == "tensor views" and outline[0].exercise_time == "30 to 60 minutes"


def test_what_is_not_there_is_left_out(small_course: Path) -> None:
    (entry,) = read_outline(small_course)
    assert (entry.number, entry.title, entry.lesson, entry.lesson_minutes, entry.exercise_time) == (
        7,
        "small",
        None,
        0,
        "",
    )
