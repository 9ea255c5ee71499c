"""How messages are put to learners."""

from __future__ import annotations

import pytest

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
