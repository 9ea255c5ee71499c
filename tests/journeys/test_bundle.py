"""A new learner's journey: an empty directory, the zip, the commands of its README."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import sysconfig
import urllib.error
import urllib.request
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from autograder.chapter import find_chapters

from ..lab_address import lab_address

pytestmark = pytest.mark.slow
ROOT = Path(__file__).resolve().parents[2]
CHAPTER = "ch01_tensor_views"
CHAPTERS = find_chapters(ROOT)
_TOKEN = "let-me-in"


def _environment(**more: str) -> dict[str, str]:
    """A learner's: without what this test run, or a make around it, has set."""
    ours = re.compile(r"PYTEST_|PYTHON|MAKE|MFLAGS|TORCH|PORT$|LAB_ARGS$|VIRTUAL_ENV|JUPYTER")
    return {name: value for name, value in os.environ.items() if not ours.match(name)} | more


def _run(folder: Path, *command: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command, cwd=folder, env=_environment(**environment), capture_output=True, text=True, check=False
    )


@pytest.fixture(scope="module")
def unzipped(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The bundle, made by the command and unzipped in an empty directory; without an environment as yet."""
    folder = tmp_path_factory.mktemp("learner")
    made = _run(ROOT, sys.executable, "-m", "autograder.release", "--out", str(folder), PYTHONPATH=str(ROOT))
    assert made.returncode == 0, made.stderr
    (path,) = folder.glob("*.zip")
    assert made.stdout.startswith(f"{path}: ")
    with zipfile.ZipFile(path) as archive:
        archive.extractall(folder)
    return folder / path.stem


@pytest.fixture(scope="module")
def learner(unzipped: Path) -> Path:
    """The same after ``make install``, which would take minutes: an environment that borrows this one's packages.

    Packages are borrowed by a path, not as a site folder, so that nothing leads to this project's own engine.
    """
    environment = unzipped / ".venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", environment], check=True)
    python = str(environment / "bin" / "python")
    (site,) = environment.glob("lib/python*/site-packages")
    (site / "borrowed.pth").write_text(sysconfig.get_path("purelib"), encoding="utf-8")
    for name in ("share", "etc"):
        shutil.copytree(Path(sys.prefix) / name, environment / name, dirs_exist_ok=True, symlinks=True)
    installed = _run(unzipped, python, "-m", "pip", "install", "--no-deps", "--no-build-isolation", "-e", ".")
    assert installed.returncode == 0, installed.stderr
    (environment / "installed").touch()
    return unzipped


def test_the_engine_is_the_unzipped_one(learner: Path) -> None:
    """And all of it can be imported, without what stays at home."""
    modules = [path.relative_to(learner) for path in (learner / "autograder").rglob("*.py")]
    names = [".".join(path.with_suffix("").parts).removesuffix(".__init__") for path in modules]
    source = f"import autograder, {', '.join(sorted(names))}; print(autograder.__file__)"
    done = _run(learner.parent, str(learner / ".venv" / "bin" / "python"), "-c", source)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == str(learner / "autograder" / "__init__.py")


@pytest.mark.skipif(shutil.which("make") is None, reason="make is not installed")
def test_make_test_reports_points_for_each_chapter(learner: Path) -> None:
    """All open at first, in plain words; for two chapters, since all untouched ones take minutes."""
    chosen = [*CHAPTERS.values()][::3]
    left_out = [chapter for chapter in CHAPTERS.values() if chapter not in chosen]
    done = _run(learner, "make", "test", f"PYTEST_ARGS={' '.join(f'--ignore=exercises/{c.name}' for c in left_out)}")
    out = done.stdout + done.stderr
    assert "pip install" not in out
    for chapter in chosen:
        points = sum(task.points for task in chapter.tasks)
        total = rf"{chapter.name}: points by task.*?^0\.00 of {points:g} points$"
        assert re.search(total, out, re.MULTILINE | re.DOTALL)
    assert not re.search(r"^done ", out, re.MULTILINE)
    assert "Traceback" not in out
    assert done.returncode == 2


def test_pytest_alone_finds_the_exercises(learner: Path) -> None:
    """The settings name a folder of tests that learners don't have."""
    done = _run(learner, str(learner / ".venv" / "bin" / "python"), "-m", "pytest", "--collect-only", "-q")
    assert done.returncode == 0, done.stdout + done.stderr
    for chapter in CHAPTERS.values():
        for path in chapter.visible_tests:
            assert f"exercises/{chapter.name}/{path.name}" in done.stdout


def test_the_command_grades_in_a_sandbox(unzipped: Path) -> None:
    """With this environment's Python: a sandbox shows a worker nothing beyond the environment it was started from."""
    source = (
        "import autograder, sys; print(autograder.__file__, file=sys.stderr); import autograder.cli as cli; cli.main()"
    )
    notebook = f"exercises/{CHAPTER}/{CHAPTER}.ipynb"
    done = _run(unzipped, sys.executable, "-c", source, "grade", notebook, "--json", PYTHONPATH=str(unzipped))
    assert done.returncode == 0, done.stderr
    assert done.stderr.splitlines()[0] == str(unzipped / "autograder" / "__init__.py")
    report = json.loads(done.stdout)
    assert (report["score"], report["max_score"]) == (0, 20)
    assert report["hardware"]["isolation"] in ("bubblewrap", "sandlock")
    assert any("visible tests alone" in note for note in report["notes"])


# --- make learn -------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def lab(learner: Path) -> Iterator[str]:
    """The address of the JupyterLab that ``make learn`` starts."""
    if shutil.which("make") is None:
        pytest.skip("make is not installed")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    options = f"--no-browser --IdentityProvider.token={_TOKEN}"
    log = learner.parent / "learn.log"
    with log.open("w") as out:
        make = subprocess.Popen(
            ["make", "learn", f"PORT={port}", f"LAB_ARGS={options}"],
            cwd=learner,
            env=_environment(),
            stdout=out,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        yield lab_address(make, log, _TOKEN, "/lab/tree/course/00_start_here.ipynb")
    finally:
        os.killpg(make.pid, signal.SIGTERM)
        make.wait()


def _get(address: str, data: dict[str, str] | None = None) -> str:
    headers = {"Authorization": f"token {_TOKEN}", "Content-Type": "application/json"}
    request = urllib.request.Request(address, json.dumps(data).encode() if data else None, headers)
    with urllib.request.urlopen(request, timeout=300) as answer:
        return str(answer.read().decode("utf-8"))


def test_make_learn_serves_the_lessons_and_the_exercises(lab: str) -> None:
    assert "jupyter-config-data" in _get(f"{lab}/lab/tree/course/00_start_here.ipynb")
    for name in CHAPTERS:
        for path in (f"course/{name}.ipynb", f"exercises/{name}/{name}.ipynb"):
            assert json.loads(_get(f"{lab}/api/contents/{path}"))["type"] == "notebook"
    with pytest.raises(urllib.error.HTTPError):
        _get(f"{lab}/api/contents/exercises/no_such_notebook.ipynb")


def test_the_validate_button_works(lab: str) -> None:
    """nbgrader's: it runs the notebook and lists the checks that are open, with what they found."""
    answer = json.loads(_get(f"{lab}/assignments/validate", {"path": f"exercises/{CHAPTER}/{CHAPTER}.ipynb"}))
    assert answer["success"], answer["value"]
    opened = [cell["source"] for cell in answer["value"]["failed"]]
    assert opened == [f'check("{task.name}")' for task in CHAPTERS[CHAPTER].tasks]
    assert all("✗ failed: " in cell["raw_error"] for cell in answer["value"]["failed"])
