"""What a learner has changed, told as a diff: from the kernel's history, else from the saved notebook."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

import autograder
from autograder.chapter import Chapter, find_chapters
from autograder.fixes import Fix, Fixes, fixes_of

Answers = Callable[..., Path]
SMALL = "ch07_small"


@pytest.fixture
def small(small_course: Path) -> Chapter:
    return find_chapters(small_course)[SMALL]


def changes(chapter: Chapter, *history: str) -> dict[str, tuple[str, ...]]:
    """Task -> the lines of its diff, where a kernel has run these cells."""
    return {fix.task: fix.lines for fix in fixes_of(chapter, {"In": ["", *history]}).fixes}


def test_the_last_cell_that_defines_the_function_counts(small: Chapter) -> None:
    lines = changes(small, "def double(x):\n    return 3 * x", "def double(x):\n    return 2 * x", "double(4)")[
        "double"
    ]
    assert lines == (" def double(x):", "-    return x", "+    return 2 * x")


def test_a_cell_that_only_mentions_the_function_is_none(small: Chapter) -> None:
    history = ("def double(x):\n    return 2 * x", "print('double', double(3))", "double = (")
    assert "+    return 2 * x" in changes(small, *history)["double"]


def test_what_the_kernel_has_not_run_comes_from_the_saved_notebook(small: Chapter, small_notebook: Answers) -> None:
    small_notebook(half="x / 2")
    lines = changes(small, "def double(x):\n    return 2 * x")
    assert "+    return x / 2" in lines["half"]
    assert "+    return 2 * x" in lines["double"]


def test_an_untouched_task_has_no_lines_and_says_so(small: Chapter) -> None:
    fixes = fixes_of(small, {})
    assert [fix.lines for fix in fixes.fixes] == [(), ()]
    assert fixes.text.count("No difference to the code that was handed out.") == 2


def test_a_saved_notebook_that_cannot_be_read_is_left_aside(small: Chapter) -> None:
    assert small.exercise is not None
    (small.exercise / f"{SMALL}.ipynb").write_text("{", encoding="utf-8")
    assert changes(small) == {"double": (), "half": ()}


def test_lines_far_from_a_change_are_left_out(small: Chapter) -> None:
    padding = "".join(f"    a{i} = {i}\n" for i in range(9))
    lines = changes(small, f"# mine\ndef double(x):\n    return x\n\n\ndef more():\n{padding}    return a0")["double"]
    assert lines[0] == "+# mine"
    assert not any(line.startswith(("@@", "---", "+++")) for line in lines)


def test_html_is_escaped_folded_and_signed() -> None:
    fix = Fix("double", '1. "Twice <b>"', (" def double(x):", "-    return x < 1", "…", "+    return 2 * x"))
    html = Fixes("ch07_small", (fix,))._repr_html_()
    assert html.count("<details>") == html.count("</details>") == 1
    assert "Twice &lt;b&gt;" in html and "<b>&quot;" not in html
    assert re.search(r"<span[^>]*>−    return x &lt; 1</span>", html)
    assert re.search(r"<span[^>]*>\+    return 2 \* x</span>", html)


def test_every_task_of_the_course_is_recognised_in_its_own_solution() -> None:
    """Each cell of each solution, run in a kernel, is found again by what it defines."""
    for name, chapter in find_chapters(Path(__file__).parents[1]).items():
        solution = {cell.grade_id: cell.source for cell in chapter.solution if cell.is_solution}
        fixes = fixes_of(chapter, {"In": ["", *solution.values()]})
        assert [fix.task for fix in fixes.fixes] == [task.name for task in chapter.tasks]
        for fix in fixes.fixes:
            assert fix.heading, f"{name}: {fix.task}"
            added = [line for line in fix.lines if line.startswith("+") and line[1:].strip()]
            assert added, f"{name}: {fix.task}"
            assert all(line[1:] in solution[chapter.task(fix.task).solution_cell] for line in added)


def test_it_can_be_asked_for_by_name(
    small_course: Path, small_notebook: Answers, capsys: pytest.CaptureFixture[str]
) -> None:
    small_notebook(double="2 * x")
    found = autograder.what_you_fixed(SMALL)
    assert found is not None
    assert "+    return 2 * x" in repr(found)
    assert autograder.what_you_fixed("ch99") is None
    assert "There is no chapter 'ch99' here. The chapters: ch07_small." in capsys.readouterr().out
