"""nbgrader's own commands, with our judge in them. ``configure(c)`` is all that ``nbgrader_config.py`` calls.

* ``generate_assignment``: :class:`PlantBugs` takes ``ClearSolutions``' place; the visible tests and a pristine starter
  are released beside the notebook, nothing else is; an exercise that somebody has edited is not replaced.
* ``autograde``: :class:`SubmissionExporter` stands where nbgrader reads files, so that nbgrader sees only sound
  notebooks; :class:`JudgeSubmission` stands where ``Execute`` stood.
* ``generate_feedback``: pages with a table of the tasks, see :mod:`autograder.feedback`.
"""

from __future__ import annotations

import os
import shutil
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import nbformat
from nbconvert.exporters import NotebookExporter
from nbconvert.preprocessors import ClearMetadataPreprocessor
from nbgrader import preprocessors
from nbgrader.converters import Autograde, GenerateAssignment, NbGraderException
from nbgrader.preprocessors import NbGraderPreprocessor
from traitlets import Unicode

from autograder import planting
from autograder.chapter import STARTER_NAME, Chapter, find_chapters, is_edited
from autograder.errors import PlantingError, SubmissionRefused
from autograder.feedback import ClinicGenerateFeedback, task_outputs
from autograder.handed_in import open_submission
from autograder.hardware import machine_class_here, resolve_device
from autograder.normalise import Normalised
from autograder.notebook import Cell
from autograder.rendering import points
from autograder.store import Store

# What grades is imported where it is used: it brings torch along, seconds that nbgrader's other commands need not take.
if TYPE_CHECKING:
    from autograder.batch import Batch

_KEY = "torch_clinic"


class PlantBugs(NbGraderPreprocessor):  # type: ignore[misc]
    """Puts the planted bug in the place of each fix."""

    def preprocess(self, nb: Any, resources: Any) -> tuple[Any, Any]:
        """See nbconvert; also drops jupytext's pairing, which is the authors' and not the learners'."""
        nb.metadata.pop("jupytext", None)
        planted, resources = super().preprocess(nb, resources)
        return planted, resources

    def preprocess_cell(self, cell: Any, resources: Any, index: int) -> tuple[Any, Any]:
        """Turn one solution cell into its starter; raises PlantingError for one without a planted bug."""
        mark = cell.metadata.get("nbgrader", {})
        if mark.get("solution"):
            if not planting.regions(cell.source, mark["grade_id"]):
                raise PlantingError(f"{mark['grade_id']}: a solution cell without a region would be released")
            cell.source = planting.starter(cell.source, mark["grade_id"])
        return cell, resources


class ClinicGenerateAssignment(GenerateAssignment):  # type: ignore[misc]
    """Releases by allow-list, and never replaces an edited exercise."""

    def init_notebooks(self) -> None:
        """Refuse ``--force`` where it would remove somebody's work.

        Here and not later: once a conversion has begun, nbgrader answers any failure by removing the folder.
        """
        super().init_notebooks()
        for source in self.assignments if self.force else ():
            folder = Path(self.coursedir.root) / self.coursedir.release_directory / Path(source).name
            if is_edited(folder):
                notebook = folder / f"{folder.name}.ipynb"
                raise _stop(self.log, f"{notebook} has been edited and is not replaced. Move it away first.")

    def convert_single_notebook(self, notebook_filename: str) -> None:
        """Add the visible tests and the pristine starter to what is released."""
        super().convert_single_notebook(notebook_filename)
        source = Path(notebook_filename).parent
        target = Path(self.writer.build_directory)
        for test in sorted(source.glob("test_*.py")):
            shutil.copyfile(test, target / test.name)
        shutil.copyfile(target / Path(notebook_filename).name, target / STARTER_NAME)


def _stop(log: Any, message: str) -> NbGraderException:
    """An exception that ends the command, its text already said: nbgrader's commands end without repeating it."""
    log.error(message)
    return NbGraderException(message)


class SubmissionExporter(NotebookExporter):
    """Reads a submission's bytes in whatever state they are, and gives nbgrader a sound notebook."""

    def from_filename(self, filename: str, resources: Any = None, **kw: Any) -> Any:
        """The normalised submission; a file that holds nothing to grade becomes the starter, marked as refused."""
        converter = self.parent
        if not (isinstance(converter, ClinicAutograde) and converter._sanitizing):
            return super().from_filename(filename, resources=resources, **kw)
        chapter = _chapter(converter.coursedir, resources["nbgrader"]["assignment"])
        marks: dict[str, Any] = {"notes": [], "refused": ""}
        cells: tuple[Cell, ...] = chapter.starter
        try:
            laid = open_submission(Path(filename), chapter)
            cells, marks["notes"] = laid.cells, list(laid.notes)
            marks["untouched"] = sorted(laid.untouched)
        except SubmissionRefused as refusal:
            self.log.warning("%s: %s", filename, refusal)
            marks["refused"] = str(refusal)
        return self.from_notebook_node(_as_notebook(cells, marks), resources=resources, **kw)  # type: ignore[no-untyped-call]


def _as_notebook(cells: tuple[Cell, ...], marks: dict[str, Any]) -> Any:
    nb = nbformat.v4.new_notebook(metadata={"kernelspec": {"name": "python3", "display_name": "Python 3"}, _KEY: marks})
    for number, cell in enumerate(cells):
        make: Any = {"code": nbformat.v4.new_code_cell, "raw": nbformat.v4.new_raw_cell}.get(
            cell.kind if not cell.is_solution else "code", nbformat.v4.new_markdown_cell
        )
        made = make(cell.source, id=f"cell-{number}")
        if cell.nbgrader:
            made.metadata["nbgrader"] = nbformat.from_dict(dict(cell.nbgrader))
        nb.cells.append(made)
    return nb


class ClinicAutograde(Autograde):  # type: ignore[misc]
    """Expects one notebook, named after the chapter, of every student who handed anything in."""

    def init_notebooks(self) -> None:
        """Find folders instead of files: a misnamed or missing notebook is a matter for the exporter."""
        chapters = find_chapters(Path(self.coursedir.root))
        name = self.coursedir.assignment_id
        if name not in chapters:
            super().init_notebooks()
            return
        pattern = self._format_source(name, self.coursedir.student_id)
        folders = sorted(path for path in Path(self.coursedir.root).glob(os.path.relpath(pattern, self.coursedir.root)))
        self.notebooks: list[str] = []
        self.assignments = {str(folder): [str(folder / f"{name}.ipynb")] for folder in folders if folder.is_dir()}
        if not self.assignments:
            raise _stop(self.log, f"Nothing was submitted: no folder matches {pattern}.")


class JudgeSubmission(NbGraderPreprocessor):  # type: ignore[misc]
    """Fills each grade cell's output with the judge's messages and its score."""

    isolation = Unicode("auto", help="auto, bubblewrap, sandlock, or none").tag(config=True)
    device = Unicode("cpu", help="cpu, cuda, mps, xpu or auto").tag(config=True)

    def preprocess(self, nb: Any, resources: Any) -> tuple[Any, Any]:
        """Grade the notebook, or take over what ``autograder grade`` found; never raises for a learner's code."""
        from autograder.batch import problems_of
        from autograder.grading import refused_report

        marks = nb.metadata.get(_KEY, {})
        chapter = _chapter(self.parent.parent.coursedir, resources["nbgrader"]["assignment"])
        student = resources["nbgrader"]["student"]
        if marks.get("refused"):
            report = refused_report(chapter, marks["refused"])
        else:
            cells = tuple(Cell(c.cell_type, c.source, nbgrader=c.metadata.get("nbgrader", {})) for c in nb.cells)
            laid = Normalised(cells, tuple(marks.get("notes", ())), frozenset(marks.get("untouched", ())))
            report = self._batch().grade_here(student, chapter.name, laid)
        tasks = {task.task: task for task in report.tasks}
        for problem in problems_of(report):
            self.log.error("%s: %s", student, problem)
        self.log.info("%s: %s", student, "; ".join(map(points, report.tasks)))
        notes = report.notes
        for count, cell in enumerate((c for c in nb.cells if c.cell_type == "code"), start=1):
            cell.execution_count = count
            cell.outputs = []
            mark = cell.metadata.get("nbgrader", {})
            if mark.get("grade") and mark["grade_id"] in tasks:
                task = tasks[mark["grade_id"]]
                score = min(max(0.0, float(task.score)), float(mark["points"]))
                cell.outputs = task_outputs(replace(task, score=score), chapter.section(task.task), notes, count)
                notes = ()  # with the first card only
        return nb, resources

    def _batch(self) -> Batch:
        """What grades for the course, sharing its store with ``autograder grade``."""
        from autograder.batch import Batch
        from autograder.judging import Course

        course = Course(Path(self.parent.parent.coursedir.root), self.isolation, resolve_device(self.device))
        return Batch(course, Store.of_course(course.root), [machine_class_here(course.device)])


def _chapter(coursedir: Any, assignment: str) -> Chapter:
    chapters = find_chapters(Path(coursedir.root))
    if assignment not in chapters:
        raise NbGraderException(f"There is no chapter {assignment!r} under {coursedir.root}.")
    return chapters[assignment]


def configure(c: Any) -> None:
    """Set up nbgrader's configuration object for this course."""
    import nbgrader.apps.api
    import nbgrader.apps.autogradeapp
    import nbgrader.apps.generateassignmentapp
    import nbgrader.apps.generatefeedbackapp

    # nbgrader calls alembic by name, which is beside this Python even where its environment is not activated
    os.environ["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)])
    # nbgrader names these classes in its code and not in its configuration
    for module in (nbgrader.apps.api, nbgrader.apps.autogradeapp):
        module.Autograde = ClinicAutograde
    for module in (nbgrader.apps.api, nbgrader.apps.generateassignmentapp):
        module.GenerateAssignment = ClinicGenerateAssignment
    for module in (nbgrader.apps.api, nbgrader.apps.generatefeedbackapp):
        module.GenerateFeedback = ClinicGenerateFeedback

    exchange = Path.cwd() / ".exchange"
    exchange.mkdir(exist_ok=True)  # formgrader complains until there is one, whether or not it is used
    c.Exchange.root = str(exchange)
    c.CourseDirectory.source_directory = "solutions"
    c.CourseDirectory.release_directory = "exercises"
    c.CourseDirectory.ignore = ["*"]  # releases and grades the notebook alone; what else is released is named above
    # by name: formgrader wants a configuration that can be written down
    c.GenerateAssignment.preprocessors = [
        _name(PlantBugs if preprocessor is preprocessors.ClearSolutions else preprocessor)
        for preprocessor in GenerateAssignment.preprocessors.default_args[0]
    ]
    c.Autograde.exporter_class = _name(SubmissionExporter)
    c.Autograde.autograde_preprocessors = [
        _name(preprocessor)
        for preprocessor in (
            JudgeSubmission,
            ClearMetadataPreprocessor,
            preprocessors.LimitOutput,
            preprocessors.SaveAutoGrades,
            preprocessors.AssignLatePenalties,
            preprocessors.CheckCellMetadata,
        )
    ]


def _name(cls: type) -> str:
    return f"{cls.__module__}.{cls.__qualname__}"
