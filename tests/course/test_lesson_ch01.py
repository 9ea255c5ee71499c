"""The lesson of chapter 1: its sections, and a run from top to bottom in a real kernel."""

from __future__ import annotations

import re
from pathlib import Path

import jupytext
import matplotlib.font_manager  # noqa: F401  builds matplotlib's font cache, see below
import nbformat
import pytest
from nbclient import NotebookClient

# Messages of the exercise point at these headings.
SECTIONS = [
    "Storage, shape, stride, offset",
    "What a view shares",
    "Contiguity and what it costs",
    "When reshape copies",
    "Permute is not view",
    "Broadcasting",
    "Expand repeats nothing",
    "Windows are views",
    "A test that can fail",
]

WIDGET = "application/vnd.jupyter.widget-view+json"
"""The type of an output that is an explorer."""


@pytest.fixture
def lesson(course_folder: Path) -> nbformat.NotebookNode:
    return jupytext.read(course_folder / "ch01_tensor_views.py")


def markdown(notebook: nbformat.NotebookNode) -> str:
    return "\n\n".join(cell.source for cell in notebook.cells if cell.cell_type == "markdown")


def sections(notebook: nbformat.NotebookNode) -> dict[str, str]:
    """Heading -> all source of the section, text and code."""
    source = "\n".join(cell.source for cell in notebook.cells)
    parts = re.split(r"^## (.+)$", source, flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def test_sections_are_the_ones_that_exercises_point_at(lesson: nbformat.NotebookNode) -> None:
    assert list(sections(lesson)) == [*SECTIONS, "Summary"]


@pytest.mark.parametrize("heading", SECTIONS)
def test_each_section_asks_first_and_asserts_what_it_says(lesson: nbformat.NotebookNode, heading: str) -> None:
    section = sections(lesson)[heading]
    assert "**Predict" in section
    assert re.search(r"^\s*assert ", section, flags=re.MULTILINE)
    assert section.count("<details>") == section.count("</details>") >= 1


def test_summary_leads_to_every_section_and_to_the_exercise(lesson: nbformat.NotebookNode) -> None:
    summary = sections(lesson)["Summary"]
    rows = [line.strip("| ").split(" | ") for line in summary.splitlines() if line.startswith("| ")]
    assert {row[-1] for row in rows[1:]} == set(SECTIONS)
    assert "(../exercises/ch01_tensor_views/ch01_tensor_views.ipynb)" in markdown(lesson)


def test_a_measured_claim_that_fails_says_that_the_machine_may_be_busy(lesson: nbformat.NotebookNode) -> None:
    timed = [cell.source for cell in lesson.cells if cell.cell_type == "code" and "= cost_ratio(" in cell.source]
    timed += [cell.source for cell in lesson.cells if cell.cell_type == "code" and ": cost_ratio(" in cell.source]
    assert len(timed) == 2
    for source in timed:
        claims = re.findall(r"^assert .*\b(?:ratio|multiply|pack_first|columns)\b.*", source, flags=re.MULTILINE)
        assert claims
        assert all(", JUST_NOW.format(" in claim for claim in claims)


@pytest.mark.slow
def test_lesson_runs_from_top_to_bottom_in_silence(
    lesson: nbformat.NotebookNode, course_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The package may not be installed where the tests run. That matplotlib's font cache exists by now
    # matters too: building it, once per machine, makes matplotlib write to stderr.
    monkeypatch.setenv("PYTHONPATH", str(course_folder.parent))
    client = NotebookClient(
        lesson, timeout=300, kernel_name="python3", resources={"metadata": {"path": str(course_folder)}}
    )

    client.execute()  # raises at the first error

    outputs = [output for cell in lesson.cells if cell.cell_type == "code" for output in cell.outputs]
    noise = [output.text for output in outputs if output.output_type == "stream" and output.name == "stderr"]
    assert noise == []
    pictures = [output for output in outputs if output.get("data", {}).keys() & {"image/png", WIDGET}]
    assert len(pictures) >= 9
