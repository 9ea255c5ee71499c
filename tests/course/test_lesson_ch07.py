"""The lesson of chapter 7."""

from __future__ import annotations

from .lessons import LessonTests


class TestLesson(LessonTests):
    chapter = "ch07_ddp"
    sections = (
        "Ranks, and how they meet",
        "Collectives, and who waits",
        "The mean of gradients",
        "What DDP does for you",
        "Each sample once",
        "A larger batch, another rate",
        "Accumulating without talking",
        "Metrics over all ranks",
        "One rank writes, all ranks wait",
        "When more ranks are slower",
        "The other ways to share the work",
        "A test for many ranks",
    )
    measured = 2
    measured_names = ("forty", "growth", "ratios")
    pictures = 8
