"""The learners' bundle: what is in it, what never is, and that the same sources give the same bytes."""

from __future__ import annotations

import ast
import io
import json
import os
import re
import shutil
import tomllib
import zipfile
from pathlib import Path, PurePosixPath
from typing import Any

import pytest
from nbgrader.preprocessors import Execute
from traitlets.config import PyFileConfigLoader

from autograder import release
from autograder.chapter import STARTER_NAME, find_chapters
from autograder.errors import ChapterError

from .leaks import all_secrets, fix_lines, hidden_lines, leaks, variant_lines

PROJECT = Path(__file__).parents[1]
CHAPTERS = find_chapters(PROJECT)
CHAPTER = "ch01_tensor_views"


def _hand_out(root: Path, target: Path) -> None:
    """Stands for ``nbgrader generate_assignment``, which takes long: ``test_build.py`` shows that it gives the same."""
    for folder in sorted((root / "exercises").glob("ch*")):
        shutil.copytree(folder, target / folder.name, dirs_exist_ok=True)
        shutil.copyfile(folder / STARTER_NAME, target / folder.name / f"{folder.name}.ipynb")


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """The bundle of this project."""
    exercises = tmp_path_factory.mktemp("exercises")
    _hand_out(PROJECT, exercises)
    return release.bundle(PROJECT, exercises)


@pytest.fixture
def copy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the project that may be written to."""
    root = tmp_path / "project"
    for name in ("autograder", "course", "solutions", "exercises", "release", "make"):
        shutil.copytree(PROJECT / name, root / name, ignore=shutil.ignore_patterns("__pycache__", ".ipynb_checkpoints"))
    for name in ("pyproject.toml", "requirements.lock", "environment.yml", "LICENSE"):
        shutil.copyfile(PROJECT / name, root / name)
    for folder in (root / "exercises").iterdir():
        shutil.copyfile(folder / STARTER_NAME, folder / f"{folder.name}.ipynb")  # this checkout's may be solved
    monkeypatch.setattr(release, "release", _hand_out)
    return root


# --- what is in it ----------------------------------------------------------------------------------------------------


def test_each_chapter_is_there(files: dict[str, bytes]) -> None:
    for name, chapter in CHAPTERS.items():
        assert f"course/{name}.ipynb" in files
        notebook = files[f"exercises/{name}/{name}.ipynb"]
        assert notebook == files[f"exercises/{name}/{STARTER_NAME}"]
        cells = json.loads(notebook)["cells"]
        assert ["".join(cell["source"]) for cell in cells] == [cell.source for cell in chapter.starter]
        for test in chapter.visible_tests:
            assert files[f"exercises/{name}/{test.name}"] == test.read_bytes()


def test_nothing_is_there_but_the_kinds_of_files_that_learners_need(files: dict[str, bytes]) -> None:
    kinds = [
        r"(README\.md|Makefile|LICENSE|pyproject\.toml|requirements\.lock|environment\.yml|make/common\.mk)",
        r"nbgrader_config\.py",
        r"course/(00_start_here|ch\d\d_\w+)\.ipynb",
        r"course/explorers/\w+\.py",
        r"exercises/(ch\d\d_\w+)/(\.starter|\1)\.ipynb",
        r"exercises/ch\d\d_\w+/test_ch\d\d_\w+\.py",
        r"autograder/([a-z]+/)?\w+\.py",
        r"autograder/py\.typed",
    ]
    assert [name for name in files if not any(re.fullmatch(kind, name) for kind in kinds)] == []


def test_what_only_authors_use_stays_at_home(files: dict[str, bytes]) -> None:
    for module in ("build", "prove", "release", "nbgrader_preprocessors", "variants", "imports"):
        assert (PROJECT / "autograder" / f"{module}.py").is_file()
        assert f"autograder/{module}.py" not in files


def test_what_the_project_promises_to_start_is_there(files: dict[str, bytes]) -> None:
    """The command and the pytest plugin; and every import of the engine's own leads to a file of the bundle."""
    project = tomllib.loads(files["pyproject.toml"].decode())["project"]
    started = [*project["scripts"].values(), *project["entry-points"]["pytest11"].values()]
    modules = {name.partition(":")[0] for name in started}
    for name, content in files.items():
        if name.endswith(".py"):
            nodes = list(ast.walk(ast.parse(content)))
            modules |= {node.module for node in nodes if isinstance(node, ast.ImportFrom) and node.module}
    own = {module for module in modules if module.partition(".")[0] == "autograder"}
    assert len(own) > 20
    for module in own:
        path = module.replace(".", "/")
        assert f"{path}.py" in files or f"{path}/__init__.py" in files, module


def test_no_notebook_has_outputs(files: dict[str, bytes]) -> None:
    notebooks = [json.loads(content) for name, content in files.items() if name.endswith(".ipynb")]
    code = [cell for notebook in notebooks for cell in notebook["cells"] if cell["cell_type"] == "code"]
    assert code
    assert [cell for cell in code if cell["outputs"] or cell["execution_count"] is not None] == []


def test_links_lead_to_what_is_there(files: dict[str, bytes]) -> None:
    texts = [("README.md", files["README.md"].decode())]
    for name, content in files.items():
        if name.endswith(".ipynb"):
            cells = json.loads(content)["cells"]
            texts += [(name, "".join(cell["source"])) for cell in cells if cell["cell_type"] == "markdown"]
    links = {(name, link) for name, text in texts for link in re.findall(r"\]\(([^)#\s]+)[^)]*\)", text)}
    inside = {(name, link) for name, link in links if "://" not in link}
    assert len(inside) >= len(CHAPTERS)
    for name, link in inside:
        target = Path(os.path.normpath(PurePosixPath(name).parent / link)).as_posix()
        assert target in files, f"{name} links to {link}"


def test_validate_gives_a_cell_as_long_as_a_check_may_take(files: dict[str, bytes], tmp_path: Path) -> None:
    """Two minutes, see ARCHITECTURE.md; with the half minute of nbgrader's own, right work was listed as open."""
    (tmp_path / "nbgrader_config.py").write_bytes(files["nbgrader_config.py"])
    config = PyFileConfigLoader("nbgrader_config.py", path=str(tmp_path)).load_config()
    assert Execute(config=config).timeout == 120


def test_strays_do_not_get_in(copy: Path, files: dict[str, bytes]) -> None:
    strays = [
        "course/notes.py",
        "course/draft.ipynb",
        "course/explorers/unused.py",
        "course/explorers/__pycache__/canvas.cpython-311.pyc",
        "exercises/ch01_tensor_views/my_solution.ipynb",
        "exercises/ch01_tensor_views/.ipynb_checkpoints/ch01_tensor_views-checkpoint.ipynb",
        "exercises/ch99_removed/ch99_removed.ipynb",
        f"exercises/ch99_removed/{STARTER_NAME}",
        "autograder/scratch.py",
        "autograder/checks/answers.py",
        "release/notes.txt",
        "make/secret.mk",
        ".env",
    ]
    for name in strays:
        (copy / name).parent.mkdir(parents=True, exist_ok=True)
        (copy / name).write_text("{}", encoding="utf-8")
    assert release.bundle(copy, copy / "exercises") == files


# --- what never is ----------------------------------------------------------------------------------------------------


def test_no_line_of_what_is_hidden_is_there(files: dict[str, bytes]) -> None:
    secrets = all_secrets(PROJECT)
    assert leaks(files, secrets) == []


@pytest.mark.parametrize("kind", [hidden_lines, variant_lines, fix_lines])
def test_every_chapter_has_lines_to_look_for(kind: Any) -> None:
    """Else the test above could not fail."""
    for name, chapter in CHAPTERS.items():
        assert len(kind(chapter) & all_secrets(PROJECT)) > 10, name


@pytest.mark.parametrize("kind", [hidden_lines, variant_lines, fix_lines])
@pytest.mark.parametrize("place", ["cell", "metadata", "output", "attached", "explorer", "readme"])
def test_a_planted_leak_is_found(files: dict[str, bytes], place: str, kind: Any) -> None:
    """In whatever part of a file it is, also where JSON writes it in another way."""
    line = max(kind(CHAPTERS["ch06_mixed_precision"]) & all_secrets(PROJECT), key=lambda line: (line.count('"'), line))
    if place in ("explorer", "readme"):
        name = "course/explorers/canvas.py" if place == "explorer" else "README.md"
        planted = files[name] + f"\n    print({line})\n".encode()
    else:
        name = f"course/{CHAPTER}.ipynb"
        notebook = json.loads(files[name])
        cell = notebook["cells"][-1]
        if place == "cell":
            cell["source"] = ["x = 1\n", f"    {line}  # so there\n"]
        elif place == "output":
            cell["outputs"] = [{"output_type": "stream", "name": "stdout", "text": [line]}]
        else:
            cell["metadata" if place == "metadata" else "attachments"] = {"a": [{"b": f"1\n{line}\n2"}]}
        planted = json.dumps(notebook).encode()
    found = leaks({name: planted, "LICENSE": files["LICENSE"]}, all_secrets(PROJECT))
    assert found
    assert all(entry.startswith(name) for entry in found)
    assert any(entry.endswith(f": {line}") for entry in found)


def test_a_short_secret_is_found_as_well() -> None:
    assert leaks({"a.py": b"x = 1  ### BUG\n"}, ["### BUG", "### BEG"]) == ["a.py: ### BUG"]


# --- the zip ----------------------------------------------------------------------------------------------------------


def test_the_same_sources_give_the_same_bytes(copy: Path, tmp_path: Path) -> None:
    """Whatever the times and permissions of the files are, and whatever somebody did to an exercise."""
    first, _ = release.make(copy, tmp_path / "first")
    for number, path in enumerate(sorted(copy.rglob("*"))):
        if path.is_file():
            os.utime(path, (1_700_000_000 + number, 1_700_000_000 + number))
            path.chmod(0o700)
    solved = copy / "exercises" / CHAPTER / f"{CHAPTER}.ipynb"
    solved.write_text(solved.read_text(encoding="utf-8").replace("def ", "def  "), encoding="utf-8")
    second, _ = release.make(copy, tmp_path / "second")
    assert first.read_bytes() == second.read_bytes()


def test_all_is_in_one_folder_and_readable(files: dict[str, bytes]) -> None:
    with zipfile.ZipFile(io.BytesIO(release.zipped(files, "torch-clinic-1"))) as archive:
        assert archive.namelist() == sorted(f"torch-clinic-1/{name}" for name in files)
        assert {entry.external_attr >> 16 for entry in archive.infolist()} == {0o100644}
        assert len({entry.date_time for entry in archive.infolist()}) == 1
        assert {name: archive.read(f"torch-clinic-1/{name}") for name in files} == files


def test_the_command_says_where_it_is_and_what_is_in_it(
    copy: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(copy / "solutions")
    assert release.main([]) == 0
    version = tomllib.loads((PROJECT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
    path = copy / "dist" / f"torch-clinic-{version}.zip"
    out = capsys.readouterr().out
    assert out.startswith(f"{path}: ")
    assert re.search(rf"^  exercises/{CHAPTER} +\.starter\.ipynb, {CHAPTER}\.ipynb, test_", out, re.MULTILINE)
    assert zipfile.is_zipfile(path)


@pytest.mark.parametrize(
    ("built", "how"),
    [
        (f"course/{CHAPTER}.ipynb", "older"),
        (f"solutions/{CHAPTER}/{CHAPTER}.ipynb", "older"),
        ("course/00_start_here.ipynb", "missing"),
    ],
)
def test_a_stale_build_is_refused(copy: Path, tmp_path: Path, built: str, how: str) -> None:
    path = copy / built
    path.unlink() if how == "missing" else path.write_bytes(path.read_bytes().replace(b"torch", b"touch", 1))
    with pytest.raises(ChapterError, match=rf"{re.escape(built)}\nRun `make build`"):
        release.make(copy, tmp_path)
    assert list(tmp_path.glob("*.zip")) == []


@pytest.mark.parametrize("name", [STARTER_NAME, f"test_{CHAPTER}.py"])
def test_a_stale_exercise_is_refused(
    copy: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    """What is released from the sources is compared with what lies in the project."""

    def changed(root: Path, target: Path) -> None:
        _hand_out(root, target)
        with (target / CHAPTER / name).open("ab") as file:
            file.write(b"\n")

    monkeypatch.setattr(release, "release", changed)
    monkeypatch.chdir(copy)
    assert release.main([]) == 1
    err = capsys.readouterr().err
    assert f"exercises/{CHAPTER}/{name}\nRun `make build`" in err
    assert not (copy / "dist").exists()


def test_a_missing_file_is_named(copy: Path, tmp_path: Path) -> None:
    (copy / "LICENSE").unlink()
    with pytest.raises(ChapterError, match="LICENSE belongs in the bundle"):
        release.make(copy, tmp_path)
