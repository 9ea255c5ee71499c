"""``python -m pytest`` without the seconds that importing torch takes: forks of a process that has imported it."""

from __future__ import annotations

import os
import runpy
import sys
from collections.abc import Mapping, Sequence
from multiprocessing import get_context
from pathlib import Path

_FORKS = get_context("forkserver")
# nothing is computed in the process that is forked, so torch may be used in each fork
_FORKS.set_forkserver_preload(["torch", "pytest", "autograder.pytest_plugin"])
_NOT_FOR_FORKS = "ignore:Module already imported:pytest.PytestAssertRewriteWarning"


def run(folder: Path, arguments: Sequence[str], environment: Mapping[str, str], printed: Path) -> int:
    """Exit status of pytest in *folder*; what it prints goes to the file *printed*."""
    process = _FORKS.Process(target=_pytest, args=(folder, arguments, environment, printed))
    process.start()
    process.join()
    assert process.exitcode is not None
    return process.exitcode


def _pytest(folder: Path, arguments: Sequence[str], environment: Mapping[str, str], printed: Path) -> None:
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    with printed.open("wb") as file:
        for standard in (1, 2):
            os.dup2(file.fileno(), standard)
    sys.path.insert(0, "")
    sys.argv = ["pytest", "-W", _NOT_FOR_FORKS, *arguments]
    runpy.run_module("pytest", run_name="__main__")
