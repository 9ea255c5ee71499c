"""A learner reads: the first page, and a lesson with an explorer."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Locator, expect

from .lab import NotebookPage, until

pytestmark = [pytest.mark.slow, pytest.mark.browser, pytest.mark.xdist_group("browser")]


def test_the_first_page_runs_and_leads_to_the_chapters(page: NotebookPage) -> None:
    page.open("course/00_start_here.ipynb")
    page.run_all()
    page.cell("Is this machine ready?")
    expect(page.cell("import fingerprint").locator(".jp-OutputArea-output")).to_contain_text("torch")
    chapters = page.cell("chapter_line")
    expect(chapters.get_by_role("link", name="lesson").first).to_be_visible()
    chapters.get_by_role("link", name="exercise").first.click()
    page.cell("the video-frame pipeline", "Markdown")


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
