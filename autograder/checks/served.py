"""What exported files answer in a process that has nothing but these files.

Each function takes the ``baseline`` fixture, which starts that process (:mod:`autograder.checks.server` is its code),
and files as uint8 tensors, as a probe brings them back. One process serves all tests of a task.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import torch

from autograder.errors import Finding
from autograder.submission import Submission

_SERVER = Path(__file__).with_name("server.py").read_text(encoding="utf-8")
NAMES = ("pictures", "logits")
"""What chapter 8 promises input and output of an ONNX file to be called."""


def server(baseline: Callable[[str], Submission], which: str = "") -> Submission:
    """The process itself; each word *which* starts one of its own, to be timed apart from the others."""
    return baseline(f"{_SERVER}\n# {which}\n")


def answers(
    baseline: Callable[[str], Submission],
    files: Mapping[str, torch.Tensor],
    name: str,
    batches: Sequence[torch.Tensor],
    names: Sequence[str] = NAMES,
) -> list[torch.Tensor]:
    """What the file *name* answers to each batch, where *files*, by name, are all that there is.

    A ``.pt2`` file is served by PyTorch, any other by ONNX Runtime, by the *names* of its input and output; with ``()``
    whatever these are called. Raises :class:`~autograder.errors.Finding` where the file is missing or does not open, or
    where a batch gets an exception instead of an answer.
    """
    if name not in files:
        raise Finding(f"there is no {name} in the folder")
    found = server(baseline).answers(dict(files), name, list(batches), list(names))
    if found is None:
        raise Finding(f"{name} does not open")
    for batch, answer in zip(batches, found, strict=True):
        if not isinstance(answer, torch.Tensor):
            text = f"{name} has no answer to some pictures"
            raise Finding(text, f"{name} has no answer to pictures of shape {tuple(batch.shape)}: {answer}")
    answered: list[torch.Tensor] = found
    return answered


def operators(baseline: Callable[[str], Submission], content: torch.Tensor) -> dict[str, int]:
    """How often each operator occurs in what ONNX Runtime makes of an ONNX file, once it has optimised it."""
    counts: dict[str, int] = server(baseline).operators(content)
    return counts
