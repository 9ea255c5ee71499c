"""The lesson of chapter 8."""

from __future__ import annotations

from .lessons import LessonTests


class TestLesson(LessonTests):
    chapter = "ch08_export"
    sections = (
        "The example took one branch",
        "Another size at the door",
        "Train mode goes along",
        "The same picture, other numbers",
        "Operators that the engine has not",
        "Devices that came along",
        "Folding BatchNorm",
        "Parity, in another process",
        "Eight bits",
        "The slowest of a hundred",
        "Which format when",
        "A test for a served model",
    )
    measured = 2
    measured_names = ("ratio", "tail")
    pictures = 8
