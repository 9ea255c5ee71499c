"""What people type for a chapter or a task, and what they are told where there is none of that name."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from autograder.chapter import STARTER_NAME, Chapter, find_chapters
from autograder.errors import ChapterError
from autograder.lookup import chapter_called, task_called


@pytest.fixture
def chapters(small_course: Path, small_answers: Any, notebook_file: Any) -> dict[str, Chapter]:
    """Two chapters with the same tasks."""
    other = small_course / "exercises" / "ch08_other"
    other.mkdir()
    notebook_file(other / STARTER_NAME, small_answers())
    return find_chapters(small_course)


@pytest.mark.parametrize(
    "name",
    [
        "ch07_small",
        "ch07",
        "ch07_s",
        "7",
        "07",
        "exercises/ch07_small/",
        "./exercises/ch07_small/ch07_small.ipynb",
        "ch07_small.ipynb",
    ],
)
def test_a_chapter_is_found_in_many_spellings(chapters: dict[str, Chapter], name: str) -> None:
    assert chapter_called(chapters, name).name == "ch07_small"


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("ch0", "Several chapters begin with `ch0`. Chapters: ch07_small, ch08_other."),
        ("ch07-small", "Did you mean `ch07_small`? Chapters: ch07_small, ch08_other."),
        ("9", "There is no chapter `9` here."),
        ("", "There is no chapter `` here. Chapters: ch07_small, ch08_other."),
        ("x\x1b[2J\n", "There is no chapter `x?[2J` here. Chapters: "),
    ],
)
def test_a_chapter_that_is_not_there(chapters: dict[str, Chapter], name: str, says: str) -> None:
    with pytest.raises(ChapterError) as caught:
        chapter_called(chapters, name)
    assert says in str(caught.value)


def test_the_whole_name_counts_before_a_longer_one(chapters: dict[str, Chapter]) -> None:
    longer = {**chapters, "ch07_small_again": chapters["ch08_other"]}
    assert chapter_called(longer, "ch07_small") is chapters["ch07_small"]


def test_a_task_of_one_chapter_needs_its_name_alone(chapters: dict[str, Chapter]) -> None:
    small = {"ch07_small": chapters["ch07_small"]}
    chapter, task = task_called(small, "half")
    assert (chapter.name, task.name) == ("ch07_small", "half")


def test_a_task_of_two_chapters_needs_its_chapter(chapters: dict[str, Chapter]) -> None:
    with pytest.raises(ChapterError, match="which one you mean: `ch07_small/half` or `ch08_other/half`"):
        task_called(chapters, "half")
    chapter, task = task_called(chapters, "ch08/half")
    assert (chapter.name, task.name) == ("ch08_other", "half")


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("Doubel", "There is no task `Doubel`. Did you mean `double`? `autograder progress` lists all tasks."),
        ("ch07/halve", "There is no task `halve` in ch07_small. Did you mean `half`?"),
        ("quadruple", "There is no task `quadruple`. `autograder progress` lists all tasks."),
        ("ch99/half", "There is no chapter `ch99` here."),
    ],
)
def test_a_task_that_is_not_there(chapters: dict[str, Chapter], name: str, says: str) -> None:
    with pytest.raises(ChapterError) as caught:
        task_called(chapters, name)
    assert says in str(caught.value)
