"""How the tests are shared among processes."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from .sharing import group_of

ROOT = Path(__file__).resolve().parents[1]


@pytest.mark.parametrize(
    ("nodeid", "group"),
    [
        ("tests/test_a.py::test_it[x@y]", "tests/test_a.py"),
        ("tests/test_a.py::TestClass::test_it", "tests/test_a.py"),
        ("tests/course/test_lesson_ch01.py::TestLesson::test_it", "lessons"),
        ("tests/project/test_site.py::test_it", "lessons"),
        ("tests/browser/test_lessons.py::test_it", "browser"),
        ("tests/test_prove.py::test_a_chapter_is_proved[ch01]", "tests/test_prove.py::test_a_chapter_is_proved[ch01]"),
        ("tests/test_prove.py::test_the_judge", "tests/test_prove.py"),
    ],
)
def test_what_a_test_is_handed_out_with(nodeid: str, group: str) -> None:
    assert group_of(nodeid) == group


@pytest.mark.slow
def test_a_files_tests_run_in_one_process() -> None:
    """As `make test` hands them out; pytest and xdist may change under us without a word."""
    (options,) = re.findall(r"^SHARED := -n \$\(JOBS\) (.*)", (ROOT / "Makefile").read_text(), re.MULTILINE)
    files = ["tests/test_hints.py", "tests/test_exports.py", "tests/test_imports.py"]
    command = [sys.executable, "-m", "pytest", "-v", "-n", "2", *options.split(), *files]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    ran = set(re.findall(r"^\[(gw\d)\].* PASSED (\S+\.py)::", done.stdout, re.MULTILINE))
    assert sorted(file for _, file in ran) == sorted(files), ran
    assert len({process for process, _ in ran}) == 2
