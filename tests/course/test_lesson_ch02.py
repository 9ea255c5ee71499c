"""The lesson of chapter 2."""

from __future__ import annotations

from .lessons import LessonTests


class TestLesson(LessonTests):
    chapter = "ch02_autograd"
    sections = (
        "What backward leaves behind",
        "What moves and what does not",
        "In place, and the version counter",
        "Behind autograd's back",
        "Cutting the graph",
        "What keeps a graph alive",
        "Finite value, infinite slope",
        "Writing a backward",
        "Gradients of gradients",
        "One gradient for each sample",
        "Gradients through depth",
        "A test for a gradient",
    )
    measured = 1
    pictures = 14
