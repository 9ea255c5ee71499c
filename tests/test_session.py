"""How messages are put to learners, and what a session tells while its tests run."""

from __future__ import annotations

from pathlib import Path

import pytest

from autograder.chapter import find_chapters
from autograder.grading import check_live
from autograder.session import _capitalised


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("the result differs", "The result differs"),
        ("model.pt2 does not open", "model.pt2 does not open"),
        ("`f` is slow", "`f` is slow"),
        ("nothing.", "Nothing."),
        ("the file: model.onnx", "The file: model.onnx"),
        ("", ""),
    ],
)
def test_a_message_begins_like_a_sentence_unless_with_a_name(text: str, shown: str) -> None:
    assert _capitalised(text) == shown


def test_each_test_that_begins_is_told(small_course: Path) -> None:
    """With how many are through and how many there are; at last, that the starter has its turn."""
    told: list[tuple[str, int, int]] = []
    chapter = find_chapters(small_course)["ch07_small"]
    check_live(chapter, {"double": lambda x: x}, ["double"], lambda *moment: told.append(moment))
    *tests, starter = told
    assert tests == [("Twice <b>three</b> is six.", 0, 2), ("Twice nothing is nothing.", 1, 2)]
    assert starter[1:] == (2, 2) and "untouched notebook" in starter[0]
