"""What the tests of the course share: its folder, importable as in JupyterLab."""

from __future__ import annotations

import importlib
from pathlib import Path
from types import ModuleType

import pytest

PROJECT = Path(__file__).parents[2]


@pytest.fixture
def course_folder(monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder ``course/``, put on ``sys.path`` as a notebook in it would see it."""
    folder = PROJECT / "course"
    monkeypatch.syspath_prepend(folder)
    return folder


@pytest.fixture
def strided(course_folder: Path) -> ModuleType:
    """The module ``explorers.strided``."""
    return importlib.import_module("explorers.strided")
