"""Runs of a chapter's tests in this process."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from autograder.chapter import find_chapters
from autograder.errors import ChapterError
from autograder.grading import Grading, check_live
from autograder.normalise import Normalised
from autograder.submission import Host


def test_an_interrupted_run_is_no_fault_of_the_tests(small_course: Path) -> None:
    """Whatever has failed before, with the word `error` in what it says."""

    def double(x: int) -> int:
        if x == 3:
            raise ValueError("error")
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        check_live(find_chapters(small_course)["ch07_small"], {"double": double}, ["double"])


def test_tests_that_cannot_be_collected_are_no_interruption(small_course: Path) -> None:
    (small_course / "exercises" / "ch07_small" / "test_ch07_more.py").write_text("raise KeyError")
    with pytest.raises(ChapterError, match="The tests of ch07_small could not be run"):
        check_live(find_chapters(small_course)["ch07_small"], {"double": lambda x: x}, ["double"])


def test_each_test_is_told_as_it_begins(small_course: Path, small_answers: Any, host: Host) -> None:
    told: list[tuple[str, int, int]] = []
    chapter = find_chapters(small_course)["ch07_small"]
    grading = Grading(chapter, host, on_start=lambda *moment: told.append(moment))
    grading.run(Normalised(tuple(small_answers()), (), frozenset()), ["double"])
    assert told == [("Twice <b>three</b> is six.", 0, 2), ("Twice nothing is nothing.", 1, 2)]
