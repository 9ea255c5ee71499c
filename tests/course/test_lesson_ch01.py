"""The lesson of chapter 1."""

from __future__ import annotations

from .lessons import LessonTests


class TestLesson(LessonTests):
    chapter = "ch01_tensor_views"
    sections = (
        "Storage, shape, stride, offset",
        "What a view shares",
        "Contiguity and what it costs",
        "When reshape copies",
        "Permute is not view",
        "Broadcasting",
        "Expand repeats nothing",
        "Windows are views",
        "A test that can fail",
    )
    measured = 2
    measured_names = ("ratio", "multiply", "pack_first", "columns")
    pictures = 9
