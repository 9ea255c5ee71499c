"""How `make test` shares the tests among its processes.

A file's tests stay together, since they share what is made once for a file: a released course, a JupyterLab, a warm
process. (xdist's own way of saying so, a mark for a group, does nothing since pytest 9.2.)
"""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import Any

PROOF = "test_a_chapter_is_proved"


def group_of(nodeid: str) -> str:
    """What a test is handed out with: its file, but for proofs, lessons with their pages, and the browser's tests."""
    name, _, test = nodeid.partition("::")
    path = PurePosixPath(name)
    if test.startswith(PROOF):
        return nodeid  # takes minutes: each chapter's by itself
    if path.name.startswith("test_lesson_") or path.name == "test_site.py":
        return "lessons"  # the pages are made of the lessons that have been run
    if path.parent.name == "browser":
        return "browser"  # one JupyterLab at a time
    return name


def scheduling(config: Any, log: Any) -> Any:
    """xdist's scheduling by files, with our groups."""
    from xdist.scheduler import LoadFileScheduling

    class GroupScheduling(LoadFileScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return group_of(nodeid)

    return GroupScheduling(config, log)
