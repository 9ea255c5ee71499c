"""Makes every notebook from its source, and the exercises from the authored folders. ``python -m autograder.build``.

Nothing that somebody edited is replaced: an exercise is compared with the starter it was made from, and kept, with a
word, where it differs.
"""

from __future__ import annotations

import filecmp
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jupytext
import nbformat
from jupytext.combine import combine_inputs_with_outputs
from nbgrader.apps import NbGraderAPI
from nbgrader.coursedir import CourseDirectory
from traitlets.config.loader import PyFileConfigLoader

from autograder.chapter import STARTER_NAME, find_root, is_edited


def notebook_sources(root: Path) -> list[Path]:
    """The percent-format files that a notebook is built from: lessons, and authored exercises."""
    lessons = [
        path for path in sorted((root / "course").glob("*.py")) if path.name[:1].isdigit() or path.name[:2] == "ch"
    ]
    authored = [folder / f"{folder.name}.py" for folder in sorted((root / "solutions").glob("ch*"))]
    return [*lessons, *(path for path in authored if path.is_file())]


def built_notebook(source: Path) -> str:
    """The notebook of a percent-format file, without outputs; cells that have not changed keep their ids."""
    notebook: Any = jupytext.read(source)
    existing = source.with_suffix(".ipynb")
    if existing.exists():
        notebook = combine_inputs_with_outputs(notebook, nbformat.read(existing, as_version=4), fmt="py:percent")
    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.outputs = []
            cell.execution_count = None
    notebook.metadata.pop("language_info", None)
    notebook.nbformat, notebook.nbformat_minor = 4, 5
    for cell in notebook.cells:
        cell.setdefault("id", nbformat.v4.new_code_cell().id)
    text: str = nbformat.writes(notebook)
    return text + "\n"


def outdated_notebooks(root: Path) -> Iterator[tuple[Path, str]]:
    """Each notebook that is not what its source makes of it, and what it should be."""
    for source in notebook_sources(root):
        target = source.with_suffix(".ipynb")
        text = built_notebook(source)
        if not target.exists() or target.read_text(encoding="utf-8") != text:
            yield target, text


def build_notebooks(root: Path) -> list[str]:
    """Write every notebook that is not what its source makes of it; one line for each that was written."""
    written = []
    for target, text in outdated_notebooks(root):
        target.write_text(text, encoding="utf-8")
        written.append(f"wrote {target.relative_to(root)}")
    return written


def release(root: Path, target: Path) -> None:
    """Have nbgrader generate every chapter's assignment into *target*, with a gradebook that is thrown away.

    It is what ``nbgrader generate_assignment`` does; the command takes one chapter at a time, and ten times as long.
    """
    with tempfile.TemporaryDirectory(prefix="torch-clinic-release-") as scratch:
        course = Path(scratch)
        shutil.copytree(root / "solutions", course / "solutions")
        config = PyFileConfigLoader("nbgrader_config.py", path=str(root)).load_config()
        config.CourseDirectory.root = str(course)
        nbgrader = NbGraderAPI(CourseDirectory(config=config), config=config)
        for folder in sorted((course / "solutions").glob("ch*")):
            done = nbgrader.generate_assignment(folder.name)
            if not done["success"]:
                raise SystemExit(f"nbgrader could not generate {folder.name}:\n{done.get('error')}\n{done.get('log')}")
        shutil.copytree(course / "exercises", target, dirs_exist_ok=True)


def install_exercises(root: Path, fresh: Path) -> list[str]:
    """Bring freshly released exercises to ``exercises/``; one line for each file written or kept."""
    lines = []
    for folder in sorted(fresh.glob("ch*")):
        target = root / "exercises" / folder.name
        target.mkdir(parents=True, exist_ok=True)
        edited = is_edited(target)
        # the notebook first: were we stopped before the new starter is there, it would only look edited
        names = sorted((path.name for path in folder.iterdir()), key=lambda name: name == STARTER_NAME)
        for name in names:
            if name == f"{folder.name}.ipynb" and edited:
                lines.append(f"kept exercises/{folder.name}/{name}: it has been edited")
            elif not (target / name).exists() or not filecmp.cmp(folder / name, target / name, shallow=False):
                shutil.copyfile(folder / name, target / name)
                lines.append(f"wrote exercises/{folder.name}/{name}")
    return lines


def build(root: Path) -> list[str]:
    """Build everything; what was done, a line each."""
    lines = build_notebooks(root)
    with tempfile.TemporaryDirectory(prefix="torch-clinic-exercises-") as scratch:
        release(root, Path(scratch))
        lines += install_exercises(root, Path(scratch))
    return lines


def main() -> int:
    """The command."""
    for line in build(find_root(Path.cwd())) or ["everything is up to date"]:
        print(line)
    return 0


if __name__ == "__main__":
    sys.exit(main())
