"""What many of the project's tests share."""

from __future__ import annotations

import json
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from autograder.chapter import Chapter, find_chapters
from autograder.notebook import Cell
from autograder.program import read_program
from autograder.submission import Host, LiveRunner, Submission

from .sharing import PROOF, scheduling

PROJECT = Path(__file__).parents[1]


def pytest_configure() -> None:
    """A shell's background job starts with Ctrl-C ignored, and so would all that tests start and end that way."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """What `make test` hands to its processes, see ``sharing.py``."""
    return scheduling(config, log) if config.getoption("dist") == "loadfile" else None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Proofs first, then files with slow tests: handed out last, one process would be at them while others are done."""
    slow = {item.path for item in items if item.get_closest_marker("slow")}
    items.sort(key=lambda item: (not item.name.startswith(PROOF), item.path not in slow))


@pytest.fixture(scope="session")
def project() -> Path:
    """The repository's folder."""
    return PROJECT


@pytest.fixture(scope="session")
def lesson_runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the lessons' tests leave the lessons that they have run, for the site's."""
    return tmp_path_factory.mktemp("lesson-runs")


@pytest.fixture(scope="session")
def chapter() -> Chapter:
    """Chapter 1, with its authored side."""
    return find_chapters(PROJECT)["ch01_tensor_views"]


@pytest.fixture(scope="module")
def host() -> Iterator[Host]:
    """A warm process without isolation, for code of the project's own."""
    with Host("none") as host:
        yield host


@pytest.fixture
def learner() -> Callable[[str], Submission]:
    """``learner(source)``: a submission that holds this code, run in this process."""

    def submit(source: str) -> Submission:
        return Submission(lambda: LiveRunner({}), read_program([Cell("code", source)]))

    return submit


SMALL = "ch07_small"
_SMALL_TESTS = '''
import pytest
from autograder.checks import assert_matches


@pytest.mark.task("double")
@pytest.mark.lesson("Twice <b>")
def test_doubles(submission):
    """Twice <b>three</b> is six."""
    assert_matches(submission.double(3), 6, what="<double>")


@pytest.mark.task("double")
def test_zero(submission):
    """Twice nothing is nothing."""
    assert_matches(submission.double(0), 0)


@pytest.mark.task("half")
def test_halves(submission):
    """Half of four is two."""
    assert_matches(submission.half(4), 2.0)
'''


def small_cells(double: str = "x", half: str = "x") -> list[Cell]:
    """The notebook of the small chapter; right are ``2 * x`` and ``x / 2``, the defaults are the bugs."""

    def solution(name: str, expression: str) -> Cell:
        mark = {"grade_id": f"{name}-code", "solution": True, "grade": False, "locked": False, "schema_version": 3}
        return Cell("code", f"def {name}(x):\n    return {expression}", f"{name}-code", mark)

    def grade(name: str, points: int) -> Cell:
        mark = {"grade_id": name, "solution": False, "grade": True, "locked": True, "schema_version": 3}
        return Cell("code", f'check("{name}")', name, mark | {"points": points})

    return [solution("double", double), grade("double", 2), solution("half", half), grade("half", 1)]


@pytest.fixture
def small_answers() -> Callable[..., list[Cell]]:
    """``small_answers(double, half)``: the small chapter's notebook with these expressions for answers."""
    return small_cells


@pytest.fixture
def small_course(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working folder becomes a learner's copy of a course with one untouched chapter of two quick tasks."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    folder = tmp_path / "course" / "exercises" / SMALL
    folder.mkdir(parents=True)
    for name in (f"{SMALL}.ipynb", ".starter.ipynb"):
        write_notebook(folder / name, small_cells())
    (folder / f"test_{SMALL}.py").write_text(_SMALL_TESTS, encoding="utf-8")
    monkeypatch.chdir(tmp_path / "course")
    return tmp_path / "course"


@pytest.fixture
def small_notebook(small_course: Path) -> Callable[..., Path]:
    """``small_notebook(double=…, half=…)``: the small chapter's notebook with these answers saved in it."""

    def write(double: str = "x", half: str = "x") -> Path:
        return write_notebook(small_course / "exercises" / SMALL / f"{SMALL}.ipynb", small_cells(double, half))

    return write


@pytest.fixture
def notebook_file() -> Callable[[Path, Any], Path]:
    """``notebook_file(path, cells)``: write cells as a notebook of format 4.5 and give the path back."""
    return write_notebook


@pytest.fixture(scope="session")
def as_notebook() -> Callable[[Any], dict[str, Any]]:
    """``as_notebook(cells)``: the content of a notebook file with these cells."""
    return notebook_of


def write_notebook(path: Path, cells: Any) -> Path:
    """Write *cells* to *path* as JupyterLab would."""
    path.write_text(json.dumps(notebook_of(cells)), encoding="utf-8")
    return path


def notebook_of(cells: Any) -> dict[str, Any]:
    """The content of a notebook file with these cells."""
    return {
        "cells": [cell_of(cell, number) for number, cell in enumerate(cells)],
        "metadata": {"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}},
        "nbformat": 4,
        "nbformat_minor": 5,
    }


def cell_of(cell: Cell, number: int) -> dict[str, Any]:
    """One cell as it stands in a file."""
    raw: dict[str, Any] = {
        "cell_type": cell.kind,
        "id": cell.cell_id or f"cell-{number}",
        "metadata": {"nbgrader": dict(cell.nbgrader)} if cell.nbgrader else {},
        "source": cell.source.splitlines(keepends=True),
    }
    if cell.kind == "code":
        raw |= {"execution_count": None, "outputs": []}
    return raw


class Processes:
    """Counts the processes under this one, a fork that lies ready for the next use included."""

    @staticmethod
    def count(host: Host) -> int:
        """How many there are when nothing is in use; waits until what has just been ended is gone."""
        host.runner("nobody").close()  # from here on one fork lies ready, as after every use
        now, since = -1, 0.0
        while time.monotonic() < since + 0.3 or now < 0:
            found = len(psutil.Process().children(recursive=True))
            if found != now:
                now, since = found, time.monotonic()
            time.sleep(0.02)
        return now

    @classmethod
    def settle_at(cls, number: int, host: Host, patience_s: float = 20.0) -> bool:
        """Whether there are no more than *number*, now or soon: on a busy machine, what was ended goes one by one."""
        deadline = time.monotonic() + patience_s
        while cls.count(host) > number:
            if time.monotonic() > deadline:
                return False
        return True


@pytest.fixture
def processes() -> Processes:
    """To show that nothing is left behind."""
    return Processes()
