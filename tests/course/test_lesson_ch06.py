"""The lesson of chapter 6."""

from __future__ import annotations

from .lessons import LessonTests


class TestLesson(LessonTests):
    chapter = "ch06_mixed_precision"
    sections = (
        "Three formats",
        "What autocast casts",
        "Gradients that vanish on the way",
        "The order of five calls",
        "Weights that round away",
        "The loss in full precision",
        "Promotion without a word",
        "Masks in half precision",
        "One model, one setting",
        "A step that was skipped",
        "What it gains here",
        "A test for a training step",
    )
    measured = 3
    pictures = 5
