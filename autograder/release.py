"""Makes what learners get, as one zip. ``python -m autograder.release [--out DIR]``.

By allow-list: a file is in it because something here names it, or because a lesson, an exercise or the engine imports
it. The same sources give the same bytes.
"""

from __future__ import annotations

import argparse
import io
import sys
import tempfile
import tomllib
import zipfile
from collections.abc import Sequence
from pathlib import Path, PurePosixPath

from autograder.build import notebook_sources, outdated_notebooks, release
from autograder.chapter import STARTER_NAME, find_root
from autograder.errors import ChapterError
from autograder.imports import files_needed

_FIXED = {
    "README.md": "release/README.md",
    "Makefile": "release/Makefile",
    "make/common.mk": "make/common.mk",
    "pyproject.toml": "pyproject.toml",
    "environment.yml": "environment.yml",
    "LICENSE": "LICENSE",
    "nbgrader_config.py": "release/nbgrader_config.py",
    "autograder/py.typed": "autograder/py.typed",
}
"""Files that are there whatever the chapters are: name in the bundle -> name in the project."""
_STARTED = """
import autograder.cli, autograder.pytest_plugin, autograder.worker, autograder.warm_onnx, autograder.checks.server
"""
"""The parts of the engine that are started, or read, by their names. What authors alone use is not among them."""
_WHEN = (2000, 1, 1, 0, 0, 0)
"""The time of every file in the zip."""


def bundle(root: Path, exercises: Path) -> dict[str, bytes]:
    """What a learner gets: names below the bundle's folder, sorted, and contents.

    *exercises* holds the released exercises, of which the notebooks are as nobody has edited them. Raises
    :class:`ChapterError` where a file is missing.
    """
    lessons = [source for source in notebook_sources(root) if source.parent.name == "course"]
    chapters = [source.stem for source in notebook_sources(root) if source.parent.name != "course"]
    released = [path for name in chapters for path in _of_exercise(exercises / name)]

    code = [source.read_text(encoding="utf-8") for source in lessons]
    explorers = files_needed(code, root / "course" / "explorers")
    # an exercise's cells are in its source, with imports that only the fixes need
    authored = [root / "solutions" / name / f"{name}.py" for name in chapters]
    others = [*explorers, *authored, *(path for path in released if path.suffix == ".py")]
    code += [path.read_text(encoding="utf-8") for path in others]
    engine = files_needed([_STARTED, *code], root / "autograder")

    files = {name: root / place for name, place in _FIXED.items()}
    for path in [*(source.with_suffix(".ipynb") for source in lessons), *explorers, *engine]:
        files[path.relative_to(root).as_posix()] = path
    files |= {f"exercises/{path.relative_to(exercises).as_posix()}": path for path in released}
    contents = {name: _read(path) for name, path in files.items()}
    contents["requirements.lock"] = _learners_lock(root)
    return dict(sorted(contents.items()))


def _of_exercise(folder: Path) -> list[Path]:
    """What is released of a chapter: its notebook, the pristine copy of it, the visible tests."""
    return [folder / f"{folder.name}.ipynb", folder / STARTER_NAME, *sorted(folder.glob("test_*.py"))]


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        raise ChapterError(f"{path} belongs in the bundle, but is not there. Run `make build`.") from None


def _learners_lock(root: Path) -> bytes:
    """requirements.lock without the packages that only work on the course needs."""
    left_out = set(_read(root / "release" / "developers_only.txt").decode().split("\n"))
    lines = _read(root / "requirements.lock").decode().splitlines(keepends=True)
    return "".join(line for line in lines if line.partition("==")[0] not in left_out).encode()


def outdated(root: Path, exercises: Path) -> list[str]:
    """The built files of the project that are not what the sources make of them; *exercises* is freshly released.

    An exercise's notebook is left out: it may have been edited, and the bundle has the fresh one anyway.
    """
    names = [target.relative_to(root).as_posix() for target, _ in outdated_notebooks(root)]
    for path in sorted(exercises.glob("ch*/*")):
        place = root / "exercises" / path.relative_to(exercises)
        edited_by_learners = path.name == f"{path.parent.name}.ipynb"
        if not edited_by_learners and (not place.is_file() or place.read_bytes() != path.read_bytes()):
            names.append(place.relative_to(root).as_posix())
    return names


def zipped(files: dict[str, bytes], folder: str) -> bytes:
    """A zip with *files* in one *folder*.

    Nothing in it depends on when, where or by whom it was made. It is not compressed, since what a compressor makes
    of the same bytes changes with its version.
    """
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_STORED) as archive:
        for name in sorted(files):
            entry = zipfile.ZipInfo(f"{folder}/{name}", _WHEN)
            entry.create_system = 3  # Unix, wherever it was made: else the permissions would not count
            entry.external_attr = 0o100644 << 16
            archive.writestr(entry, files[name])
    return buffer.getvalue()


def summary(files: dict[str, bytes]) -> str:
    """What is in a bundle, a line for each folder."""
    folders: dict[str, list[str]] = {}
    for name in files:
        path = PurePosixPath(name)
        folders.setdefault(str(path.parent), []).append(path.name)
    width = max(map(len, folders))
    return "\n".join(f"  {folder:{width}}  {', '.join(names)}" for folder, names in sorted(folders.items()))


def make(root: Path, out: Path) -> tuple[Path, dict[str, bytes]]:
    """Write the bundle of the project at *root* to the folder *out*; its path, and the files in it.

    Raises :class:`ChapterError` where the project's built files are not what its sources make of them.
    """
    version = tomllib.loads(_read(root / "pyproject.toml").decode())["project"]["version"]
    with tempfile.TemporaryDirectory(prefix="torch-clinic-exercises-") as scratch:
        fresh = Path(scratch)
        release(root, fresh)
        if stale := outdated(root, fresh):
            listed = "\n".join(f"  {name}" for name in stale)
            raise ChapterError(f"Not what the sources make of them:\n{listed}\nRun `make build`, then try again.")
        files = bundle(root, fresh)
    folder = f"torch-clinic-{version}"
    out.mkdir(parents=True, exist_ok=True)
    path = out / f"{folder}.zip"
    path.write_bytes(zipped(files, folder))
    return path, files


def main(arguments: Sequence[str] | None = None) -> int:
    """The command. Exit status: 0 made, 1 not made (and why), 2 wrong usage."""
    parser = argparse.ArgumentParser(prog="python -m autograder.release", description="Makes what learners get.")
    parser.add_argument("--out", type=Path, metavar="DIR", help="where the zip goes (default: dist/ in the project)")
    options = parser.parse_args(arguments)
    try:
        root = find_root(Path.cwd())
        path, files = make(root, options.out or root / "dist")
    except ChapterError as error:
        print(f"release: no bundle was made.\n{error}", file=sys.stderr)
        return 1
    print(f"{path}: {len(files)} files, {path.stat().st_size / 1e6:.1f} MB")
    print(summary(files))
    return 0


if __name__ == "__main__":
    sys.exit(main())
