"""The progress board: what it says, where it links to, and that it follows the diary."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from autograder import board
from autograder.board import Board, read_board, show_board
from autograder.chapter import Chapter, find_chapters
from autograder.live_output import Data
from autograder.progress import Diary
from autograder.report import TaskReport

PROJECT = Path(__file__).parents[1]
SMALL = "ch07_small"
PATIENCE_S = 20.0


@pytest.fixture
def small(small_course: Path) -> Chapter:
    return find_chapters(small_course)[SMALL]


def note(root: Path, chapter: Chapter, **scores: float) -> None:
    reports = [TaskReport(task, score, chapter.task(task).points) for task, score in scores.items()]
    Diary(root).note(chapter, reports)


def test_nothing_done_yet(small_course: Path, small: Chapter) -> None:
    shown = read_board(small_course, small_course)
    assert shown.summary == "0 of 2 tasks done, 0 of 3 points. Next: double, in chapter 7, small."
    assert shown.text.count("  open  ") == 2 and shown.text.count("not checked yet") == 2


def test_done_and_open_are_told_by_sign_and_word(small_course: Path, small: Chapter) -> None:
    note(small_course, small, double=2.0, half=0.25)
    shown = read_board(small_course, small_course)
    assert shown.summary == "1 of 2 tasks done, 2.25 of 3 points. Next: half, in chapter 7, small."
    lines = shown.text.splitlines()
    assert re.search(r"done +double +2 of 2 points +\d{4}-\d\d-\d\d \d\d:\d\d", lines[3])
    assert re.search(r"open +half +0\.25 of 1 points", lines[4])
    assert re.search(r"<code>double</code></td>.*?✓ done", shown.html)
    assert re.search(r"<code>half</code></td>.*?– open", shown.html)


def test_a_complete_course_says_so(small_course: Path, small: Chapter) -> None:
    note(small_course, small, double=2.0, half=1.0)
    shown = read_board(small_course, small_course)
    assert "That is the whole course!" in shown.summary
    assert ": ✓ 2 of 2 tasks done" in shown.html
    assert "<details open>" not in shown.html


def test_the_first_chapter_with_an_open_task_is_unfolded(tmp_path: Path) -> None:
    chapters = list(find_chapters(PROJECT).values())
    shown = read_board(PROJECT, PROJECT / "course")
    standings = {c.name: Diary(tmp_path).standing(c) for c in chapters}
    fresh = Board(tuple((outline, standings[outline.chapter.name]) for outline, _ in shown.chapters), shown.base)
    assert fresh.html.count("<details open>") == 1
    assert fresh.html.index("<details open>") < fresh.html.index("<details>")


def test_links_lead_to_lessons_and_exercises() -> None:
    base = PROJECT / "course"
    html = read_board(PROJECT, base).html
    targets = re.findall(r'<a href="([^"]+)">', html)
    names = find_chapters(PROJECT)
    assert targets == [link for n in names for link in (f"{n}.ipynb", f"../exercises/{n}/{n}.ipynb")]
    assert all((base / target).is_file() for target in targets)
    assert len(re.findall(r"Lesson</a> \(about \d+ minutes\)", html)) == len(names)


def test_a_chapter_without_a_lesson_has_no_link_to_one(small_course: Path, small: Chapter) -> None:
    html = read_board(small_course, small_course).html
    assert "Lesson" not in html and f'href="exercises/{SMALL}/{SMALL}.ipynb"' in html


# --- following --------------------------------------------------------------------------------------------------------


@pytest.fixture
def screen(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Data]]:
    """What boards show."""
    shown: list[Data] = []
    monkeypatch.setattr(board, "changing_output", lambda: shown.append)
    monkeypatch.setattr(board, "_EVERY_S", 0.02)
    yield shown
    board._following = None


async def _until(screen: list[Data], words: str) -> bool:
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        if words in screen[-1]["text/plain"]:
            return True
        await asyncio.sleep(0.02)
    return False


def test_it_follows_the_diary(small_course: Path, small: Chapter, screen: list[Data]) -> None:
    async def look_on() -> None:
        show_board()
        assert "0 of 2 tasks done" in screen[-1]["text/plain"]
        note(small_course, small, double=2.0)
        assert await _until(screen, "1 of 2 tasks done")
        await asyncio.sleep(0.2)
        assert len(screen) == 2, "it is shown anew only where something has changed"

    asyncio.run(look_on())


def test_shown_anew_the_old_board_is_left_alone(small_course: Path, small: Chapter, screen: list[Data]) -> None:
    async def look_on() -> None:
        show_board()
        first = board._following
        show_board()
        note(small_course, small, half=1.0)
        assert await _until(screen, "1 of 2 tasks done")
        assert first is not None and first.cancelled()

    asyncio.run(look_on())
    assert len(screen) == 3


def test_without_an_event_loop_it_is_shown_once(small: Chapter, screen: list[Data]) -> None:
    show_board()
    assert len(screen) == 1 and board._following is None


def test_outside_of_a_course_it_says_where_to_go(
    tmp_path: Path, screen: list[Data], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    show_board()
    assert screen == []
    assert "Run this inside the course's folder" in capsys.readouterr().out
