"""Copies of the course as people have it, and the commands as people type them."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
Command = Callable[..., "subprocess.CompletedProcess[str]"]


def _ignore_leftovers(folder: str, names: list[str]) -> list[str]:
    return [name for name in names if name in ("__pycache__", ".ipynb_checkpoints")]


@pytest.fixture
def learners_copy(tmp_path: Path) -> Path:
    """The course as a learner has it: lessons and freshly handed-out exercises, no solutions."""
    for name in ("course", "exercises"):
        shutil.copytree(ROOT / name, tmp_path / name, ignore=_ignore_leftovers)
    for folder in (tmp_path / "exercises").glob("ch*"):
        shutil.copyfile(folder / ".starter.ipynb", folder / f"{folder.name}.ipynb")  # this checkout's may be solved
    return tmp_path


@pytest.fixture
def instructors_copy(tmp_path: Path) -> Path:
    """The course as an instructor has it, before anything was released."""
    shutil.copytree(ROOT / "solutions", tmp_path / "solutions", ignore=_ignore_leftovers)
    shutil.copyfile(ROOT / "nbgrader_config.py", tmp_path / "nbgrader_config.py")
    return tmp_path


@pytest.fixture
def command(tmp_path: Path) -> Command:
    """Runs a program of this environment in the copy, as from a terminal."""

    def run(program: str, *arguments: str, cwd: Path = tmp_path) -> subprocess.CompletedProcess[str]:
        environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
        argv = [str(Path(sys.executable).parent / program), *arguments]
        return subprocess.run(argv, cwd=cwd, env=environment, capture_output=True, text=True, check=False)

    return run
