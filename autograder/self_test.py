"""What this machine can show of the course: things are really tried, and told in plain words."""

from __future__ import annotations

import contextlib
import io
import os
import platform
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from html import escape
from importlib.metadata import version
from pathlib import Path
from typing import Any

from autograder.chapter import find_root
from autograder.checks.speedup import LEAST_RATIO, product_gain
from autograder.hardware import fingerprint, usable_cores
from autograder.progress import FOLDER
from autograder.ranks import launch
from autograder.rendering import BAD, GOOD

_PRODUCT = (64, 512, 512)
"""Large enough to show what the processor can do, and done in a moment."""
_RANKS_PATIENCE_S = 60.0


@dataclass(frozen=True)
class Capability:
    """One thing that was tried: whether it works here, in words, and what that means for the course."""

    works: bool
    what: str
    means: str = ""

    @property
    def text(self) -> str:
        """``✓ What was found. What it means.``"""
        return f"{'✓' if self.works else '–'} {self.what}{' ' if self.means else ''}{self.means}"


@dataclass(frozen=True)
class SelfTest:
    """All that was tried; shown in a notebook as a list, printed as lines."""

    capabilities: tuple[Capability, ...]

    @property
    def text(self) -> str:
        """A line for each, and one for all."""
        return "\n".join([*(capability.text for capability in self.capabilities), self.summary])

    @property
    def summary(self) -> str:
        """Whether one can begin."""
        if all(capability.works for capability in self.capabilities):
            return "This machine can show everything. You can begin."
        return "You can begin. Lines with – say what this machine cannot show, and what to do about it."

    def __repr__(self) -> str:
        return self.text

    def _repr_html_(self) -> str:
        rows = "".join(map(_row, self.capabilities))
        return f"<table>{rows}</table><p>{escape(self.summary)}</p>"


def _row(capability: Capability) -> str:
    sign, colour = ("✓", GOOD) if capability.works else ("–", BAD)
    left = "text-align:left;vertical-align:top;padding:1px 12px 1px 0"
    means = f"<br><small>{escape(capability.means)}</small>" if capability.means else ""
    return (
        f'<tr><td style="{left};color:{colour}"><b>{sign}</b></td>'
        f'<td style="{left}">{escape(capability.what)}{means}</td></tr>'
    )


def self_test() -> SelfTest:
    """Try what the course needs, and what parts of it need; takes some seconds.

    Nothing is raised: what goes wrong is one that does not work.
    """
    return SelfTest(tuple(_tried(name, attempt) for name, attempt in _ATTEMPTS.items()))


def _tried(name: str, attempt: Callable[[], Capability]) -> Capability:
    try:
        with _in_silence():
            return attempt()
    except Exception as error:
        kind = type(error).__name__
        means = "Run `make install` again, restart the kernel, and try once more; then ask whoever gave you the course."
        return Capability(False, f"{name} did not work: {kind}: {error}.", means)


@contextlib.contextmanager
def _in_silence() -> Iterator[None]:
    """Libraries that are loaded for the first time may have something to say, but not to a learner."""
    with warnings.catch_warnings(), contextlib.redirect_stderr(io.StringIO()):
        warnings.simplefilter("ignore")
        yield


# --- what is tried ----------------------------------------------------------------------------------------------------


def _machine() -> Capability:
    facts = fingerprint()
    cores = usable_cores()
    what = (
        f"Python {platform.python_version()}, torch {facts['torch']}, on {facts['processor']} "
        f"with {cores} {'core' if cores == 1 else 'cores'}."
    )
    if cores > 1:
        return Capability(True, what)
    return Capability(False, what, "With one core, checks that take times, and ranks, need patience.")


def _training_step() -> Capability:
    import torch

    generator = torch.Generator().manual_seed(0)
    x = torch.randn(64, 3, generator=generator)
    y = x @ torch.tensor([[1.0], [-2.0], [0.5]])
    weight = torch.zeros(3, 1, requires_grad=True)
    optimiser = torch.optim.SGD([weight], lr=0.1)
    losses = []
    for _ in range(2):
        loss = ((x @ weight - y) ** 2).mean()
        (weight.grad,) = torch.autograd.grad(loss, weight)
        optimiser.step()
        losses.append(loss.item())
    return Capability(losses[1] < losses[0], f"A training step: the loss went from {losses[0]:.2f} to {losses[1]:.2f}.")


def _diary() -> Capability:
    folder = find_root(Path.cwd()) / FOLDER
    try:
        folder.mkdir(exist_ok=True)
        writable = os.access(folder, os.W_OK)
    except OSError:
        writable = False
    if writable:
        return Capability(True, "Your progress can be written down.")
    return Capability(
        False, f"The folder {folder} cannot be written.", "Checks work, but the board below will not know about them."
    )


def _bfloat16() -> Capability:
    import torch

    gain = product_gain("cpu", torch.bfloat16, _PRODUCT)
    what = f"A product of matrices in bfloat16 is {gain:.1f} times as fast as in float32."
    if gain >= LEAST_RATIO:
        return Capability(True, what, "So speed in bfloat16 (chapter 6) can be shown here.")
    means = (
        f"Tests that take times in bfloat16 need {LEAST_RATIO:g} times. Here they are left out (“not measured”), which "
        "costs no points. Everything else about bfloat16 can be seen."
    )
    return Capability(False, what, means)


def _ranks() -> Capability:
    sums = launch(_sum_over_ranks, 2, timeout=_RANKS_PATIENCE_S)
    works = sums == [3.0, 3.0]
    return Capability(works, "Two ranks, as processes that talk through gloo, have added up a number (chapter 7).")


def _sum_over_ranks(rank: int, world_size: int) -> float:
    """What all ranks have after adding 1 and 2; run in processes of their own."""
    import torch
    import torch.distributed as dist

    number = torch.tensor(float(rank + 1))
    dist.all_reduce(number)
    return number.item()


def _onnx_runtime() -> Capability:
    import numpy as np
    import onnxruntime
    from onnx import TensorProto, helper

    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [2]) for name in "xy")
    graph = helper.make_graph([helper.make_node("Add", ["x", "x"], ["y"])], "twice", [x], [y])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
    session: Any = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    (result,) = session.run(None, {"x": np.array([1, 2], dtype=np.float32)})
    works = result.tolist() == [2, 4]
    return Capability(works, f"ONNX Runtime {version('onnxruntime')} has served a small model (chapter 8).")


def _gpu() -> Capability:
    found = fingerprint()["accelerator"]
    if found == "none":
        return Capability(
            False, "There is no GPU, or torch cannot use it.", "No task needs one: all of the course runs on the CPU."
        )
    return Capability(
        True, f"torch can use a GPU: {found}.", "The course runs on the CPU all the same, for everybody alike."
    )


_ATTEMPTS: dict[str, Callable[[], Capability]] = {
    "Looking at the machine": _machine,
    "A training step": _training_step,
    "Writing down your progress": _diary,
    "Two ranks": _ranks,
    "ONNX Runtime": _onnx_runtime,
    "Products in bfloat16": _bfloat16,
    "Looking for a GPU": _gpu,
}
