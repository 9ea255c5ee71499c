"""What the Makefile promises, without installing anything: in a copy, mostly with `make -n`."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
TARGETS = ["install", "learn", "test", "test-fast", "build", "prove", "release", "site", "bench", "lint", "lock"]
TARGETS += ["clean"]
LEARNERS_TARGETS = ["help", "install", "learn", "test"]

pytestmark = pytest.mark.skipif(shutil.which("make") is None, reason="make is not installed")

# Under `make test`, these would reach the inner make and change what it does.
OUTER = {"MAKEFLAGS", "MFLAGS", "MAKELEVEL", "MAKEOVERRIDES", "PYTHON", "TORCH", "TORCH_INDEX"}
OUTER |= {"PORT", "LAB_ARGS", "PYTEST_ARGS"}
ENVIRONMENT = {name: value for name, value in os.environ.items() if name not in OUTER}


def make(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["make", *arguments], cwd=folder, env=ENVIRONMENT, capture_output=True, text=True, timeout=60)


def output(folder: Path, *arguments: str) -> str:
    result = make(folder, *arguments)
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """The files the Makefile works with, and an environment that looks freshly installed."""
    (tmp_path / "make").mkdir()
    for name in ["Makefile", "make/common.mk", "requirements.lock", "pyproject.toml"]:
        shutil.copy(ROOT / name, tmp_path / name)
        os.utime(tmp_path / name, (1000, 1000))
    python = tmp_path / ".venv" / "bin" / "python"
    python.parent.mkdir(parents=True)
    # Would give away a target that runs it though it shouldn't.
    python.write_text("#!/bin/sh\necho python was run >&2\nexit 1\n")
    python.chmod(0o755)
    (tmp_path / ".venv" / "installed").touch()
    return tmp_path


def test_help_is_the_default_and_lists_each_target(copy: Path):
    text = output(copy)
    assert text == output(copy, "help")
    described = {line.split()[0]: line.split()[1:] for line in text.splitlines() if line.startswith("  ")}
    for target in ["help", "distclean", *TARGETS]:
        assert described.get(target), f"{target} is missing or has no description"


@pytest.fixture
def learners(copy: Path) -> Path:
    """The same with the Makefile that learners get."""
    shutil.copy(ROOT / "release" / "Makefile", copy / "Makefile")
    return copy


def test_a_learners_help_lists_what_a_learner_needs(learners: Path):
    text = output(learners)
    assert [line.split()[0] for line in text.splitlines() if re.match(r"  [a-z]", line)] == LEARNERS_TARGETS
    assert "PYTEST_ARGS" in text
    assert "JOBS" not in text  # the project's own


@pytest.mark.parametrize("target", LEARNERS_TARGETS)
def test_each_of_a_learners_targets_can_be_looked_at_first(learners: Path, target: str):
    result = make(learners, "-n", target)
    assert result.returncode == 0
    assert result.stderr == ""


def test_a_learners_test_checks_the_exercises(learners: Path):
    assert "-m pytest exercises -k ch01" in output(learners, "-n", "test", "PYTEST_ARGS=-k ch01")


@pytest.mark.parametrize("target", TARGETS)
def test_each_target_can_be_looked_at_first(copy: Path, target: str):
    result = make(copy, "-n", target)
    assert result.returncode == 0
    assert result.stderr == ""


def test_install_does_nothing_when_nothing_changed(copy: Path):
    assert make(copy, "-q", "install").returncode == 0
    # The fake Python would fail, so this shows that nothing is run.
    assert "pip" not in output(copy, "install")


@pytest.mark.parametrize("changed", ["requirements.lock", "pyproject.toml"])
def test_install_runs_again_after_a_change(copy: Path, changed: str):
    (copy / changed).touch()
    os.utime(copy / ".venv" / "installed", (2000, 2000))
    assert "pip install" in output(copy, "-n", "install")


def test_install_makes_the_environment_only_where_there_is_none(copy: Path):
    (copy / "requirements.lock").touch()
    os.utime(copy / ".venv" / "installed", (2000, 2000))
    assert "-m venv" not in output(copy, "-n", "install")
    shutil.rmtree(copy / ".venv")
    assert "-m venv" in output(copy, "-n", "install")


def test_another_torch_is_installed_and_then_kept(copy: Path):
    other = "torch==2.12.1"
    text = output(copy, "-n", "install", f"TORCH={other}")
    assert f'pip install --no-compile  "{other}"' in text
    # The rest comes from the lock without its torch line.
    assert "grep -v '^torch==' requirements.lock" in text
    assert "-r requirements.lock" not in text

    (copy / ".venv" / "chosen-torch").write_text(other + "\n")
    assert "pip" not in output(copy, "-n", "install")
    assert "pip" not in output(copy, "-n", "install", f"TORCH={other}")


def test_torch_index_is_handed_to_pip_for_torch_only(copy: Path):
    shutil.rmtree(copy / ".venv")
    text = output(copy, "-n", "install", "TORCH_INDEX=file:///some/wheels")
    (line,) = [line for line in text.splitlines() if "--extra-index-url" in line]
    assert '"file:///some/wheels" "torch==' in line


@pytest.mark.parametrize(
    ("python", "advice"),
    [
        ("false", "Python 3.11 or newer"),  # stands for a Python that is too old
        ("no-such-python", "Python 3.11 or newer"),
    ],
)
def test_install_says_what_to_do_without_a_fitting_python(copy: Path, python: str, advice: str):
    shutil.rmtree(copy / ".venv")
    result = make(copy, "install", f"PYTHON={python}")
    assert result.returncode != 0
    assert advice in result.stdout
    assert "apt-get install" in result.stdout
    assert not (copy / ".venv" / "installed").exists()


def test_install_says_what_to_do_without_venv(copy: Path):
    shutil.rmtree(copy / ".venv")
    # Like Debian's Python before python3-venv is installed: new enough, but without ensurepip.
    python = copy / "bare-python"
    python.write_text('#!/bin/sh\ncase "$2" in *ensurepip*) exit 1;; esac\n')
    python.chmod(0o755)
    result = make(copy, "install", "PYTHON=./bare-python")
    assert result.returncode != 0
    assert "apt-get install python3-venv" in result.stdout


def test_learn_starts_jupyterlab_at_the_first_notebook(copy: Path):
    text = output(copy, "-n", "learn", "PORT=9999", "LAB_ARGS=--no-browser")
    for part in ["--ServerApp.ip=127.0.0.1", "--ServerApp.port=9999", "--no-browser"]:
        assert part in text
    assert "course/00_start_here.ipynb" in text
    assert f'--ServerApp.root_dir="{copy}"' in text


@pytest.mark.parametrize("target", ["clean", "distclean"])
def test_cleaning_never_names_anybodys_work(copy: Path, target: str):
    text = output(copy, "-n", target)
    for folder in ["exercises", "submi", "gradebook", "course"]:
        assert folder not in text


def test_clean_removes_leftovers_and_keeps_work(copy: Path):
    kept = [
        "exercises/one/answer.py",
        "exercises/one/__pycache__/answer.pyc",
        "submitted/ada/one/answer.py",
        "gradebook.db",
        ".venv/installed",
        "autograder/cli.py",
    ]
    removed = [
        ".cache/ruff/x",
        "build/x",
        "dist/x",
        "torch_clinic.egg-info/PKG-INFO",
        "autograder/__pycache__/cli.pyc",
    ]
    for name in kept + removed:
        (copy / name).parent.mkdir(parents=True, exist_ok=True)
        (copy / name).touch()
    output(copy, "clean")
    assert [name for name in kept if not (copy / name).exists()] == []
    assert [name for name in removed if (copy / name).exists()] == []
