"""The stock way to grade: the chapter's tests in the learner's own kernel, as a cell at the notebook's end."""

from __future__ import annotations

from pathlib import Path

import nbformat

from autograder.chapter import Chapter

_IN_KERNEL = """
from pathlib import Path
from autograder.chapter import find_chapters
from autograder.grading import run_tests
from autograder.session import Session
from autograder.submission import LiveRunner
_chapter = find_chapters(Path({root!r}))[{chapter!r}]
_session = Session(_chapter, None, lambda role: LiveRunner(globals() if role == "submission" else None))
run_tests(_session, _chapter.tests, [task.name for task in _chapter.tasks], timed={timed!r})
"""


def tests_in_kernel(root: Path, chapter: Chapter, timed: bool | None, then: str) -> nbformat.NotebookNode:
    """A cell that runs the tests (``timed`` as in ``run_tests``), and after them *then*, which finds ``_session``."""
    source = _IN_KERNEL.format(root=str(root), chapter=chapter.name, timed=timed) + then
    return nbformat.v4.new_code_cell(source)
