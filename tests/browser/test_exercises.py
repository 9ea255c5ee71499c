"""A learner works on an exercise: sees the symptom, opens a hint, repairs a function, checks it, validates all."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import expect

from autograder.chapter import Chapter
from autograder.progress import Diary
from autograder.report import TaskReport

from .lab import NotebookPage, until

pytestmark = [pytest.mark.slow, pytest.mark.browser]
CHAPTER = "ch01_tensor_views"
EXERCISE = f"exercises/{CHAPTER}/{CHAPTER}.ipynb"
HANGS = "def title_clip(title, n_frames):\n    while True:\n        pass\n"


def test_from_the_symptom_to_a_repair(page: NotebookPage, chapter: Chapter) -> None:
    page.open(EXERCISE)
    page.run_all()

    symptom = page.cell("Every frame of the title card looks like the last one", "Markdown")
    hints = symptom.locator("details")
    hints.nth(0).locator("summary").click()
    expect(hints.nth(0)).to_contain_text("Which stride stands out?")
    assert hints.evaluate_all("all => all.map(one => one.open)") == [True, False, False]

    expect(page.cell("White pixels in the bottom row", "Code")).to_contain_text("[128, 128, 128, 128, 128]")
    table = page.cell('check("title_clip")', "Code").locator(".jp-OutputArea-output").last
    expect(table).to_contain_text("✗ failed")
    expect(table).to_contain_text("Lesson section to reread: Expand repeats nothing")
    expect(table).to_contain_text("0 of 2 points")

    others = [task for task in chapter.tasks if task.name != "title_clip"]
    Diary(page.lab.folder).note(chapter, [TaskReport(task.name, task.points, task.points) for task in others])
    (fix,) = (cell.source for cell in chapter.solution if cell.grade_id == "title_clip-code")
    function = page.cell("def title_clip(", "Code")
    page.write(function, fix)
    page.run(function)
    table = page.run(page.cell('check("title_clip")', "Code")).locator(".jp-OutputArea-output").last
    expect(table).to_contain_text("2 of 2 points")
    expect(table).to_contain_text("✓ passed")
    expect(table).not_to_contain_text("failed")
    expect(table).to_contain_text("Every task of this chapter is done.")
    changed = table.locator("details", has_text="title_clip")
    changed.locator("summary").click()
    expect(changed.locator("pre")).to_contain_text(re.compile(r"^\+ .*expand", re.MULTILINE))

    page.press_validate()
    listed = page.dialog()
    text = listed.inner_text()
    for task in others:
        assert f'check("{task.name}")' in text
        assert f"{task.name}: 0 of " in text
    assert 'check("title_clip")' not in text
    assert "Lesson section to reread: " in text
    assert "Traceback" not in text


def test_a_function_that_hangs_is_stopped_by_the_learner(page: NotebookPage) -> None:
    page.open(EXERCISE)
    page.run(page.cell("from autograder import check", "Code"))
    function = page.cell("def title_clip(", "Code")
    page.write(function, HANGS)
    page.run(function)
    cell = page.cell('check("title_clip")', "Code")
    page.start(cell)
    page.wait_until_busy()
    bar = cell.get_by_role("progressbar")
    expect(bar).to_have_attribute("aria-valuenow", "0")
    expect(cell.locator(".jp-Cell-outputArea")).to_contain_text("Checking title_clip: 0 of ")
    page.press("notebook:interrupt-kernel")
    expect(cell.locator(".jp-Cell-outputArea")).to_contain_text("The check was interrupted. Nothing was lost")
    page.wait_until_idle()
    expect(bar).to_have_count(0)
    expect(page.cell("def title_clip(", "Code")).to_contain_text("while True:")


def test_a_restart_in_the_middle_of_a_check_leaves_nothing_behind(page: NotebookPage) -> None:
    """Ranks of chapter 7 are processes of their own, below the kernel: they are gone as well, and the text stays."""
    path = "exercises/ch07_ddp/ch07_ddp.ipynb"
    page.open(path)
    before_opened = page.lab.processes()
    page.run(page.cell("from autograder import check", "Code"))
    page.run(page.cell("def small_model(", "Code"))
    function = page.cell("def average_gradients(", "Code")
    page.write(function, "def average_gradients(model):\n    while True:\n        pass\n")
    page.run(function)
    page.save()
    saved = page.lab.source(path)
    page.start(page.cell('check("average_gradients")', "Code"))
    until(lambda: len(page.lab.processes()) > len(before_opened) + 1, "the ranks")
    running = page.lab.processes()

    page.press("notebook:restart-kernel")
    page.dialog().get_by_role("button", name="Confirm Kernel Restart").click()
    page.wait_until_idle()

    until(lambda: not any(process.is_running() for process in running.values()), "the end of what was running")
    page.save()
    assert page.lab.source(path) == saved
    page.run(page.cell("from autograder import check", "Code"))
