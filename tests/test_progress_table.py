"""``autograder progress``, as lines of text."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

from autograder.chapter import find_chapters
from autograder.progress import ChapterStanding, Standing
from autograder.progress_table import advice, next_open, table

CHECKED = datetime(2026, 3, 1, 12, 30, tzinfo=UTC)
HALF_DONE = ChapterStanding("ch07_small", (Standing("double", 2, 2, CHECKED), Standing("half", 1, 0.25, CHECKED)))
UNTOUCHED = ChapterStanding("ch08_other", (Standing("a_longer_name", 3),))
DONE = ChapterStanding("ch09_done", (Standing("one", 1, 1, CHECKED),))


def test_one_chapter() -> None:
    when = f"{CHECKED.astimezone():%Y-%m-%d %H:%M}"  # in local time
    assert table([HALF_DONE]).splitlines() == [
        "ch07_small: 1 of 2 tasks done, 2.25 of 3 points",
        f"  done  double  2 of 2 points     {when}",
        f"  open  half    0.25 of 1 points  {when}",
    ]


def test_several_chapters_are_aligned_and_summed_up() -> None:
    lines = table([HALF_DONE, UNTOUCHED]).splitlines()
    assert lines[1].startswith("  done  double         2 of 2 points     2026-")
    assert "  open  a_longer_name  0 of 3 points     not checked yet" in lines
    assert lines[-1] == "All chapters: 1 of 3 tasks done, 2.25 of 6 points"


def test_a_course_without_tasks_has_a_table_too() -> None:
    assert table([ChapterStanding("ch01_none", ())]).strip() == "ch01_none: 0 of 0 tasks done, 0 of 0 points"


def test_the_first_open_task_is_next() -> None:
    assert next_open([DONE, HALF_DONE, UNTOUCHED]) == ("ch07_small", "half")
    assert next_open([DONE]) is None


def test_the_advice_names_the_notebook(small_course: Path) -> None:
    chapters = find_chapters(small_course)
    said = advice([DONE, HALF_DONE], chapters)
    assert said.startswith("Next: half, in exercises/ch07_small/ch07_small.ipynb\n")
    assert "`autograder hint half`" in said
    assert advice([DONE], chapters) == "Everything here is done."


def test_the_advice_names_the_section(project: Path) -> None:
    chapters = find_chapters(project)
    standing = ChapterStanding("ch01_tensor_views", (Standing("to_patches", 3),))
    assert 'section 5. "It worked in the prototype"' in advice([standing], chapters)
