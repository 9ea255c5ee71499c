"""Every kind of broken file is graded or refused as declared: never a traceback, never a wrong score."""

from __future__ import annotations

import copy
import importlib.util
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from autograder.chapter import Chapter, chapter_of
from autograder.cli import main
from autograder.errors import SubmissionRefused
from autograder.grading import Grading
from autograder.normalise import Normalised, normalise
from autograder.notebook import read
from autograder.report import Outcome, Report
from autograder.submission import Host

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="some kinds of file exist on Linux alone")


def _catalogue() -> ModuleType:
    """``files.py`` beside this file: test folders are no packages, so it is loaded by its path."""
    spec = importlib.util.spec_from_file_location("hostile_files", Path(__file__).with_name("files.py"))
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


files = _catalogue()
GRADED = [kind for kind in files.KINDS.values() if kind.score is not None]
REFUSED = [kind for kind in files.KINDS.values() if kind.score is None]


@pytest.fixture(scope="module")
def right_answer(chapter: Chapter, as_notebook: Callable[[Any], dict[str, Any]]) -> dict[str, Any]:
    """The solution as a learner would hand it in; under ``starter`` the original sources, for kinds that want them."""
    starter = {cell.grade_id: cell.source for cell in chapter.starter if cell.is_solution}
    return {**as_notebook(chapter.solution), "starter": starter}


def _written(kind: Any, folder: Path, right_answer: dict[str, Any]) -> Path:
    path: Path = kind.write(folder, copy.deepcopy(right_answer))
    return path


@pytest.fixture(scope="module")
def grade(chapter: Chapter, host: Host) -> Callable[[Normalised], Report]:
    """Grades the tasks of the catalogue; what is the same notebook once it is laid out is graded once."""
    grading = Grading(chapter, host, hidden=False)
    known: dict[Any, Report] = {}

    def graded(laid: Normalised) -> Report:
        key = (laid.untouched, *((cell.kind, cell.source, cell.grade_id, cell.points) for cell in laid.cells))
        if key not in known:
            known[key] = grading.grade(laid, tasks=files.TASKS, owner=key)
        return known[key]

    return graded


@pytest.mark.parametrize("kind", GRADED, ids=lambda kind: kind.name)
def test_graded(
    kind: Any,
    tmp_path: Path,
    chapter: Chapter,
    grade: Callable[[Normalised], Report],
    right_answer: dict[str, Any],
) -> None:
    path = _written(kind, tmp_path, right_answer)
    notebook = read(path)
    assert chapter_of(path, {chapter.name: chapter}, notebook) is chapter
    laid = normalise(chapter.starter, notebook, path.name)
    report = grade(laid)
    failed = [test.message for task in report.tasks for test in task.tests if test.outcome is not Outcome.PASSED]
    assert report.score == kind.score, failed
    assert report.max_score == files.POINTS
    assert not [test for task in report.tasks for test in task.tests if test.outcome is Outcome.ERROR]
    notes = [*laid.notes, *report.notes]
    assert any(kind.says in note for note in notes), notes
    json.loads(report.to_json())


@pytest.mark.parametrize("kind", REFUSED, ids=lambda kind: kind.name)
def test_refused(kind: Any, tmp_path: Path, chapter: Chapter, right_answer: dict[str, Any]) -> None:
    path = _written(kind, tmp_path, right_answer)
    with pytest.raises(SubmissionRefused) as caught:
        normalise(chapter.starter, read(path), path.name)
    assert kind.says in str(caught.value)
    assert path.name[:200] in str(caught.value)


@pytest.mark.parametrize("kind", REFUSED, ids=lambda kind: kind.name)
def test_refused_by_the_command(
    kind: Any, tmp_path: Path, right_answer: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    path = _written(kind, tmp_path, right_answer)
    assert main(["grade", str(path), "--isolation", "none"]) == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert kind.says in err and "Traceback" not in err


@pytest.mark.slow
def test_a_folder_full_of_shadows_does_not_reach_the_grader(
    small_course: Path, small_notebook: Callable[..., Path]
) -> None:
    """The command, started in the learner's folder: each module there would end the process with status 77."""
    right = json.loads(small_notebook(double="2 * x", half="x / 2").read_text(encoding="utf-8"))
    path = files.beside_modules_of_the_same_name(small_course / "handed in", right)
    command = Path(sys.executable).with_name("autograder")
    done = subprocess.run(
        [command, "grade", path.name, "--isolation", "none", "--json"],
        cwd=path.parent,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    report = json.loads(done.stdout)
    assert (report["score"], report["max_score"]) == (3.0, 3.0)
