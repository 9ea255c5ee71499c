"""Makes static pages of the lessons, after a run, and of the exercises as they are handed out: ``make site``.

What Sphinx is to read is gathered in a folder that is thrown away; ``conf.py`` has its settings.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import nbformat
from nbclient import NotebookClient
from widgets import stand_still

from autograder.build import built_notebook, notebook_sources
from autograder.chapter import STARTER_NAME

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
_TO_NOTEBOOK = re.compile(r"""(<a\s[^>]*href="[^":]+)\.ipynb(?=")""")
_TO_READ = (
    "```{note}\nThis is the exercise as it is handed out, to read. Work on it in JupyterLab: `make learn` in the "
    "course's folder, then open `%s`.\n```"
)


def run_lesson(source: Path) -> Any:
    """The notebook of a lesson after a run from top to bottom; raises nbclient's CellExecutionError at an error."""
    notebook = nbformat.reads(built_notebook(source), as_version=4)
    folder = {"metadata": {"path": str(source.parent)}}
    quiet = ["--IPKernelApp.log_level=ERROR"]  # it warns of connections that never leave this machine
    client = NotebookClient(notebook, timeout=600, kernel_name="python3", resources=folder, extra_arguments=quiet)
    client.execute()
    return notebook


def lesson_to_read(notebook: Any) -> Any:
    """A lesson that has been run, without what needs a kernel."""
    stand_still(notebook)
    lead_to_pages(notebook)
    return notebook


def lead_to_pages(notebook: Any) -> None:
    """In HTML that cells have shown, turn links to notebooks into links to their pages; Sphinx sees to the others."""
    for cell in notebook.cells:
        for output in cell.get("outputs", ()):
            if shown := output.get("data", {}).get("text/html"):
                output["data"]["text/html"] = _TO_NOTEBOOK.sub(r"\1.html", shown)


def exercise_to_read(starter: Path) -> Any:
    """A chapter's pristine notebook, with a note on top of where it is worked on."""
    notebook = nbformat.read(starter, as_version=4)
    name = f"exercises/{starter.parent.name}/{starter.parent.name}.ipynb"
    notebook.cells.insert(1, nbformat.v4.new_markdown_cell(_TO_READ % name))
    return notebook


def gather(root: Path, target: Path, runs: Path | None = None) -> None:
    """Write what Sphinx is to read: the notebooks, where they lie in the project, and the first page.

    A lesson that the folder *runs* holds as a notebook after a run is taken from there.
    """
    shutil.copyfile(HERE / "index.md", target / "index.md")
    pages = {}
    for source in notebook_sources(root):
        if source.parent.name == "course":
            pages[source.with_suffix(".ipynb").relative_to(root)] = lesson_to_read(_run_before(source, runs))
    for starter in sorted((root / "exercises").glob(f"ch*/{STARTER_NAME}")):
        chapter = starter.parent.name
        pages[Path("exercises", chapter, f"{chapter}.ipynb")] = exercise_to_read(starter)
    for path, notebook in pages.items():
        (target / path).parent.mkdir(parents=True, exist_ok=True)
        nbformat.write(notebook, target / path)


def _run_before(source: Path, runs: Path | None) -> Any:
    """The notebook of a lesson after a run, which is made where *runs* has none."""
    if runs is not None and (path := runs / f"{source.stem}.ipynb").is_file():
        return nbformat.read(path, as_version=4)
    print(f"running {source.stem}", flush=True)
    return run_lesson(source)


def make(out: Path, runs: Path | None = None) -> None:
    """Build the pages anew in the folder *out*. Raises ``SystemExit`` where Sphinx has so much as a warning.

    For *runs* see :func:`gather`.
    """
    with tempfile.TemporaryDirectory(prefix="torch-clinic-site-") as scratch:
        gathered, fresh = Path(scratch, "source"), Path(scratch, "html")
        gathered.mkdir()
        gather(ROOT, gathered, runs)
        options = ["-b", "html", "-q", "-W", "--keep-going", "-c", str(HERE), "-d", str(Path(scratch, "doctrees"))]
        done = subprocess.run([sys.executable, "-m", "sphinx", *options, str(gathered), str(fresh)], check=False)
        if done.returncode:
            raise SystemExit("site: no pages were made, for the reasons above")
        shutil.rmtree(out, ignore_errors=True)
        out.parent.mkdir(parents=True, exist_ok=True)
        shutil.move(fresh, out)


def main(arguments: Sequence[str] | None = None) -> None:
    """The command."""
    parser = argparse.ArgumentParser(description="Makes static pages of the lessons.")
    parser.add_argument("--out", type=Path, metavar="DIR", default=ROOT / "dist" / "site", help="where the pages go")
    parser.add_argument("--runs", type=Path, metavar="DIR", help="notebooks of lessons that have been run already")
    options = parser.parse_args(arguments)
    os.environ["PYTHONPATH"] = str(ROOT)  # for kernels: this project's engine, also where another one is installed
    make(options.out, options.runs)
    print(f"{options.out / 'index.html'}: open it in a browser")


if __name__ == "__main__":
    main()
