"""What every lesson is tested for: its sections, its claims, and a run from top to bottom in a real kernel.

A lesson's test file derives a class ``TestLesson`` from :class:`LessonTests` and says what differs.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import ClassVar

import jupytext
import matplotlib.font_manager  # noqa: F401  builds matplotlib's font cache, see the run below
import nbformat
import pytest
from nbclient import NotebookClient

WIDGET = "application/vnd.jupyter.widget-view+json"
"""The type of an output that is an explorer."""


def sections_of(notebook: nbformat.NotebookNode) -> dict[str, str]:
    """Heading -> all source of the section, text and code."""
    source = "\n".join(cell.source for cell in notebook.cells)
    parts = re.split(r"^## (.+)$", source, flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


class LessonTests:
    """The tests of one lesson.

    * ``chapter``: name of the lesson's file, without its ending
    * ``sections``: its headings, without the summary; messages of the exercise point at them
    * ``measured``: how many cells measure a time, and ``measured_names``: the names that hold what they measured
    * ``pictures``: how many plots and explorers it shows at least
    """

    chapter: ClassVar[str]
    sections: ClassVar[tuple[str, ...]]
    measured: ClassVar[int] = 0
    measured_names: ClassVar[tuple[str, ...]] = ("ratio",)
    pictures: ClassVar[int]

    def pytest_generate_tests(self, metafunc: pytest.Metafunc) -> None:
        if "heading" in metafunc.fixturenames:
            metafunc.parametrize("heading", self.sections)

    @pytest.fixture
    def lesson(self, course_folder: Path) -> nbformat.NotebookNode:
        return jupytext.read(course_folder / f"{self.chapter}.py")

    def test_sections_are_the_ones_that_exercises_point_at(self, lesson: nbformat.NotebookNode) -> None:
        found = list(sections_of(lesson))
        assert found == [*self.sections, "Summary"], f"the lesson has the sections {found}"

    def test_each_section_asks_first_and_asserts_what_it_says(
        self, lesson: nbformat.NotebookNode, heading: str
    ) -> None:
        section = sections_of(lesson)[heading]
        assert "**Predict" in section, "it asks for no prediction"
        assert re.search(r"^\s*assert ", section, flags=re.MULTILINE), "it asserts nothing"
        opened, closed = section.count("<details>"), section.count("</details>")
        assert opened == closed >= 1, f"{opened} answers are opened, {closed} closed"

    def test_summary_leads_to_every_section_and_to_the_exercise(self, lesson: nbformat.NotebookNode) -> None:
        summary = sections_of(lesson)["Summary"]
        rows = [line.strip("| ").split(" | ") for line in summary.splitlines() if line.startswith("| ")]
        named = {row[-1] for row in rows[1:]}
        assert named == set(self.sections), f"only one of the two names {named ^ set(self.sections)}"
        exercise = f"(../exercises/{self.chapter}/{self.chapter}.ipynb)"
        assert exercise in summary, f"no link to {exercise}"

    def test_a_measured_claim_that_fails_says_that_the_machine_may_be_busy(self, lesson: nbformat.NotebookNode) -> None:
        code = [cell.source for cell in lesson.cells if cell.cell_type == "code"]
        timed = [source for source in code if re.search(r"(?<!def )\b(?:cost_ratio|perf_counter)\(", source)]
        assert len(timed) == self.measured, f"{len(timed)} cells measure a time"
        names = "|".join(self.measured_names)
        for source in timed:
            claims = re.findall(rf"^assert .*\b(?:{names})\b.*", source, flags=re.MULTILINE)
            assert claims, f"nothing is claimed about what this cell measures:\n{source}"
            bare = [claim for claim in claims if ", JUST_NOW.format(" not in claim]
            assert not bare, f"claims that blame the reader: {bare}"

    @pytest.mark.slow
    def test_lesson_runs_from_top_to_bottom_in_silence(
        self,
        lesson: nbformat.NotebookNode,
        course_folder: Path,
        lesson_runs: Path,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        # The package may not be installed where the tests run. That matplotlib's font cache exists by now
        # matters too: building it, once per machine, makes matplotlib write to stderr.
        monkeypatch.setenv("PYTHONPATH", str(course_folder.parent))
        client = NotebookClient(
            lesson, timeout=300, kernel_name="python3", resources={"metadata": {"path": str(course_folder)}}
        )

        client.execute()  # raises at the first error
        nbformat.write(lesson, lesson_runs / f"{self.chapter}.ipynb")

        outputs = [output for cell in lesson.cells if cell.cell_type == "code" for output in cell.outputs]
        noise = [output.text for output in outputs if output.output_type == "stream" and output.name == "stderr"]
        assert noise == [], f"the lesson wrote to stderr: {noise}"
        shown = [output for output in outputs if output.get("data", {}).keys() & {"image/png", WIDGET}]
        assert len(shown) >= self.pictures, f"{len(shown)} plots and explorers"
