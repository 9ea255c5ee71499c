"""A judge with a real sandbox, and little memory for who is judged."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from autograder.chapter import find_chapters
from autograder.errors import IsolationUnavailable
from autograder.grading import Grading
from autograder.sandbox import Limits
from autograder.submission import Host

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def sandboxed() -> Iterator[Grading]:
    """Grades chapter 1 under bubblewrap."""
    try:
        host = Host("bubblewrap", limits=Limits(memory=400_000_000))
        assert host.isolation == "bubblewrap"
    except IsolationUnavailable as error:
        if os.environ.get("CI"):
            raise  # what instructors rely on must be tried somewhere
        pytest.skip(str(error))
    with host:
        yield Grading(find_chapters(ROOT)["ch01_tensor_views"], host)
