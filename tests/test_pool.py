"""Judges in processes of their own: one that dies is replaced, all of them go with whoever started them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest

from autograder.errors import SandboxError
from autograder.judging import Course, Request
from autograder.pool import ATTEMPTS, LocalJudges
from autograder.report import Part

pytestmark = pytest.mark.slow
NAME = "ch07_small"
PATIENCE_S = 120.0
STUDENTS = 6


def wait_for(condition: Callable[[], bool]) -> None:
    """Wait until something is so; fails only where it never is."""
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline, "it never came to that"
        time.sleep(0.01)


def request(course: Path, cells: Any, name: str = "ann") -> Request:
    return Request(Course(course, "none"), NAME, name, tuple(cells), ("double", "half"), timed=False)


def killer(of: Path, times: int) -> str:
    """Answers that end their judge (the zygote's parent) the first *times* times."""
    return (
        f"(__import__('pathlib').Path({str(of)!r}).open('a').write('x'), "
        f"len(__import__('pathlib').Path({str(of)!r}).read_text()) <= {times} and "
        "__import__('os').kill(__import__('psutil').Process(__import__('os').getppid()).ppid(), 9), 2 * x)[-1]"
    )


@pytest.mark.parametrize(("deaths", "survives"), [(1, True), pytest.param(ATTEMPTS, False, marks=pytest.mark.thorough)])
def test_a_judge_that_dies_is_replaced_and_its_request_tried_again(
    small_course: Path, tmp_path: Path, small_answers: Any, deaths: int, survives: bool
) -> None:
    with LocalJudges(1) as judges:
        judges.ask(request(small_course, small_answers(killer(tmp_path / "deaths", deaths), "x / 2")))
        _, answer = judges.answer()
        if survives:
            assert isinstance(answer, Part) and answer.is_final
        else:
            assert isinstance(answer, SandboxError) and f"{ATTEMPTS} times" in str(answer)
        judges.ask(request(small_course, small_answers("2 * x", "x / 2"), "bob"))
        asked, answer = judges.answer()
        assert asked.name == "bob" and isinstance(answer, Part), "who comes next is not troubled"


@pytest.fixture
def class_of_slow_work(small_course: Path, small_answers: Any, notebook_file: Any) -> Path:
    """Submissions that take a while each, no two alike."""
    for number in range(STUDENTS):
        answer = f"(__import__('time').sleep(0.4), 2 * x)[-1]  # {number}"
        folder = small_course / "submitted" / f"s{number}" / NAME
        folder.mkdir(parents=True)
        notebook_file(folder / f"{NAME}.ipynb", small_answers(answer, "x / 2"))
    return small_course


def grade(course: Path, out: str) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "autograder.cli", "grade", "submitted", "--isolation", "none", "--jobs", "2"]
    return subprocess.Popen([*command, "--out", out], cwd=course, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)


def test_a_batch_that_is_killed_loses_and_corrupts_nothing(class_of_slow_work: Path) -> None:
    """Killed over and over, each time a little later, it ends with the reports of a run that nobody disturbed."""
    course = class_of_slow_work
    store = course / "reports" / ".store"

    def stored() -> dict[str, str]:
        return {path.name: path.read_text() for path in store.rglob("*.json")}

    kept: dict[str, str] = {}
    for more in (1, 2):
        process = grade(course, "killed")
        wait_for(lambda: len(stored()) >= len(kept) + more or process.poll() is not None)  # noqa: B023
        children = psutil.Process(process.pid).children(recursive=True) if process.poll() is None else []
        process.send_signal(signal.SIGKILL)
        process.communicate()
        psutil.wait_procs(children, timeout=PATIENCE_S)
        assert not [child for child in children if child.is_running() and child.status() != psutil.STATUS_ZOMBIE]
        now = stored()
        assert {name: now[name] for name in kept} == kept, "what was finished has changed"
        assert all(Part.from_json(text) for text in now.values())
        kept = now
    last = grade(course, "killed")
    said, _ = last.communicate()
    assert last.returncode == 0 and f"{STUDENTS} graded" in said.decode()
    assert {name: text for name, text in stored().items() if name in kept} == kept
    os.rename(store, course / "before")
    whole = grade(course, "undisturbed")
    assert whole.wait() == 0
    whole.communicate()
    for number in range(STUDENTS):
        name = Path(f"s{number}") / f"{NAME}.json"
        assert (course / "killed" / name).read_bytes() == (course / "undisturbed" / name).read_bytes()
