"""The plain child for machines that should not fork, tried here although this one may."""

from __future__ import annotations

from collections.abc import Iterator

import psutil
import pytest
import torch

from autograder.errors import LearnerCrashed, LearnerException, LearnerTimeout
from autograder.sandbox import Limits, Sandbox, SingleUseSandbox, start

CODE = """
import os, time
def double(x):
    return 2 * x
def fail():
    raise ValueError("no")
def leave():
    os._exit(3)
def hang():
    time.sleep(1000)
"""


@pytest.fixture(scope="module")
def sandbox() -> Iterator[SingleUseSandbox]:
    with SingleUseSandbox(Limits(), "cpu") as sandbox:
        yield sandbox


def _ask(sandbox: SingleUseSandbox, function: str, *args: object, timeout: float = 20.0) -> object:
    use = sandbox.use()
    try:
        use.request({"op": "load", "cells": [{"name": "code", "source": CODE, "keep": [0, 1, 2, 3, 4]}]}, 20.0)
        return use.request({"op": "call", "function": function, "args": args, "kwargs": {}}, timeout)
    finally:
        use.close()


def test_calls_errors_exits_and_hangs_are_told_apart(sandbox: SingleUseSandbox) -> None:
    """A result, an exception, an exit and a hang end as they do in the other backends, and leave nothing behind."""
    assert torch.equal(_ask(sandbox, "double", torch.arange(3)), torch.tensor([0, 2, 4]))
    with pytest.raises(LearnerException, match="raised ValueError: no"):
        _ask(sandbox, "fail")
    with pytest.raises(LearnerCrashed, match="status 3"):
        _ask(sandbox, "leave")
    with pytest.raises(LearnerTimeout):
        _ask(sandbox, "hang", timeout=1.0)
    workers = [process.pid for process in sandbox._processes.values()]
    assert len(workers) == 4
    assert not any(psutil.pid_exists(pid) for pid in workers)


def test_closing_ends_what_is_still_open() -> None:
    with SingleUseSandbox(Limits(), "cpu") as sandbox:
        sandbox.use()
        (worker,) = sandbox._processes.values()
    assert worker.poll() is not None


def test_it_stands_in_where_processes_should_not_fork(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("autograder.sandbox.CAN_FORK", False)
    with start("none") as sandbox:
        assert isinstance(sandbox, SingleUseSandbox)
    monkeypatch.setattr("autograder.sandbox.CAN_FORK", True)
    with start("none") as sandbox:
        assert isinstance(sandbox, Sandbox)
