"""The lesson of chapter 3."""

from __future__ import annotations

from .lessons import LessonTests


class TestLesson(LessonTests):
    chapter = "ch03_training_loop"
    sections = (
        "The order of the calls",
        "Two modes",
        "Statistics that move",
        "Logits, not probabilities",
        "What a module knows about",
        "Accumulating gradients",
        "When a batch explodes",
        "What the log keeps alive",
        "Averages over batches",
        "Weight decay",
        "The learning rate over time",
        "Beyond accuracy",
        "A new head on an old body",
        "Padding and masks",
        "Overfit one batch",
        "Three functions instead of one",
    )
    measured = 1
    pictures = 12
