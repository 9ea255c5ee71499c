"""What nbgrader shows of a report: the outputs of grade cells, and the pages that ``generate_feedback`` makes."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import nbformat
import nbgrader.server_extensions.formgrader
from nbgrader.converters import GenerateFeedback
from traitlets.config import Config

from autograder.rendering import in_one_line, task_html, task_text, text_html
from autograder.report import TaskReport
from autograder.sections import Section

_TEMPLATES = Path(__file__).parent / "templates"


def task_outputs(report: TaskReport, section: Section, notes: Sequence[str], count: int) -> list[Any]:
    """The outputs of a grade cell: a card with what was found, then the score as nbgrader reads it, a plain float.

    The card is text where HTML isn't shown. It is a display and not a part of the result, whose plain text has to be
    the score. (Any error output, or anything on the stream of errors, would be 0 points.) *notes* on how the file was
    read stand above the card and at the top of a feedback page; *count* is the cell's execution count.
    """
    above = [note for note in notes if note != report.note]
    html = "".join(f"<p>Note: {text_html(note)}</p>" for note in above) + task_html(report, section=section)
    text = "".join(f"note: {note}\n" for note in above) + task_text(report, section)
    for_the_table = {"line": in_one_line(report), "about": [line for note in notes for line in note.splitlines()]}
    return [
        nbformat.v4.new_output(
            "display_data", {"text/html": html, "text/plain": text}, metadata={"torch_clinic": for_the_table}
        ),
        nbformat.v4.new_output("execute_result", {"text/plain": repr(report.score)}, execution_count=count),
    ]


class ClinicGenerateFeedback(GenerateFeedback):  # type: ignore[misc]
    """Makes pages of our template, which is nbgrader's with a table of the tasks at its top."""

    def __init__(self, coursedir: Any = None, **kwargs: Any) -> None:
        super().__init__(coursedir=coursedir, **kwargs)
        config = Config()
        theirs = Path(nbgrader.server_extensions.formgrader.__file__).parent / "templates"
        # ours has the name of theirs, which formgrader asks for by name, and extends it as feedback/index.html.j2
        config.HTMLExporter.template_name = "feedback"
        config.HTMLExporter.extra_template_basedirs = [str(_TEMPLATES), str(theirs)]
        config.HTMLExporter.extra_template_paths = [*self.config.HTMLExporter.extra_template_paths, str(theirs)]
        self.update_config(config)
