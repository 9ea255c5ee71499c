"""A learner reads: the first page, and a lesson with an explorer."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Locator, expect

from autograder.chapter import Chapter
from autograder.progress import Diary
from autograder.report import TaskReport

from .lab import NotebookPage, until

pytestmark = [pytest.mark.slow, pytest.mark.browser]


def test_the_first_page_tries_the_machine_and_leads_to_the_chapters(page: NotebookPage) -> None:
    page.open("course/00_start_here.ipynb")
    page.run_all()
    expect(page.cell("self_test()", "Code").locator(".jp-OutputArea-output")).to_contain_text("✓")
    board = page.cell("show_board()", "Code").locator(".jp-OutputArea-output")
    expect(board.get_by_role("link", name="Lesson").first).to_be_visible()
    board.get_by_role("link", name="Exercise").first.click()
    page.cell("the video-frame pipeline", "Markdown")


def test_the_board_follows_checks_that_are_made_elsewhere(page: NotebookPage, chapter: Chapter) -> None:
    page.open("course/00_start_here.ipynb")
    board = page.run(page.cell("show_board()", "Code")).locator(".jp-OutputArea-output")
    expect(board).to_contain_text(f"0 of {len(chapter.tasks)} tasks done")
    first = chapter.tasks[0]
    row = board.get_by_role("row").filter(has_text=first.name)
    expect(row).to_contain_text("– open")

    diary = Diary(page.lab.folder)
    diary.note(chapter, [TaskReport(first.name, first.points, first.points)])
    expect(board).to_contain_text(f"1 of {len(chapter.tasks)} tasks done")
    expect(row).to_contain_text("✓ done")

    diary.forget(chapter.name, first.name)
    expect(row).to_contain_text("– open")


def _drawn(picture: Locator) -> str:
    """The bytes of a picture, whatever address the browser has given them."""
    read = """async image => {
        const bytes = new Uint8Array(await (await fetch(image.src)).arrayBuffer());
        return Array.from(bytes).join();
    }"""
    return str(picture.evaluate(read))


def test_a_slider_changes_the_line_and_the_picture(page: NotebookPage) -> None:
    page.open("course/ch02_autograd.ipynb")
    page.run_all()
    explorer = page.cell("explore_graph(", "Code")
    line = explorer.locator(".widget-html-content").first
    picture = explorer.locator("img.widget-image")
    before, drawn_before = line.inner_text(), _drawn(picture)
    assert len(before.split()) > 4, "a sentence says what is seen"

    slider = explorer.get_by_role("slider").first
    slider.focus()
    slider.press("ArrowLeft")

    expect(line).not_to_have_text(re.compile(re.escape(before)))
    until(lambda: _drawn(picture) != drawn_before, "another picture")
