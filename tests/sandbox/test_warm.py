"""Modules that the warm process imports ahead because a chapter names them."""

from __future__ import annotations

import pytest

from autograder.errors import IsolationUnavailable
from autograder.notebook import Cell
from autograder.program import read_program
from autograder.submission import Host, Submission

SOURCE = """
import sys

def loaded(name):
    return name in sys.modules
"""


@pytest.mark.parametrize("isolation", ["bubblewrap", "none"])
def test_named_modules_are_there_in_every_later_fork(isolation: str) -> None:
    """One that cannot be imported does not matter; what was asked for stays, and nobody who did not ask is ended."""

    def submission(*warm: str) -> Submission:
        return Submission(lambda: host.runner("learner", warm=warm), read_program([Cell("code", SOURCE)]))

    try:
        with Host(isolation) as host:
            cold = submission()
            assert not cold.loaded("sqlite3")
            for warm in (("sqlite3", "no_such_module"), ("sqlite3",), ()):
                later = submission(*warm)
                assert later.loaded("sqlite3")
                later.close()
            assert not cold.loaded("sqlite3")
    except IsolationUnavailable as error:
        pytest.skip(str(error))


def test_what_exports_need_is_there() -> None:
    """The module that chapters name for exports can be imported inside, and says nothing on the way."""
    with Host("none") as host:
        warm = ("autograder.warm_onnx",)
        submission = Submission(lambda: host.runner(warm=warm), read_program([Cell("code", SOURCE)]))
        for name in ("autograder.warm_onnx", "torch.export._trace", "torch.onnx._internal.exporter._registration"):
            assert submission.loaded(name)
        assert host._sandboxes["submission"].diagnosis() == "it ended without a word"
