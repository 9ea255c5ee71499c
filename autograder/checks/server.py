"""Those who serve: a process that gets exported files as bytes, and has neither the notebook nor its classes.

Nobody imports this file. Its source is run in a worker of its own, as a baseline; :mod:`autograder.checks.served` asks
it. Files come as uint8 tensors, and what is served goes back as tensors on the CPU.
"""

import contextlib
import os
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence

import onnx
import onnxruntime
import torch

Serve = Callable[[torch.Tensor], torch.Tensor]

OPTIMISED = "as computed.onnx"
"""Where ONNX Runtime writes what it makes of a file."""
held: dict[str, Serve] = {}


def opened(folder: str, name: str, names: Sequence[str]) -> Serve:
    """A file as a function of one tensor: ``.pt2`` in PyTorch, anything else in ONNX Runtime on one thread.

    ``names`` are those of the input and the output that are asked for in an ONNX file; without, its first ones serve.
    """
    path = os.path.join(folder, name)
    if name.endswith(".pt2"):
        return in_torch(torch.export.load(path).module())
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 4
    options.optimized_model_filepath = os.path.join(folder, OPTIMISED)
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    source, result = names or (session.get_inputs()[0].name, session.get_outputs()[0].name)
    return lambda x: torch.from_numpy(session.run([result], {source: x.cpu().numpy()})[0])


def in_torch(module: torch.nn.Module) -> Serve:
    """A module as a function of one tensor that computes no gradients."""

    def serve(x: torch.Tensor) -> torch.Tensor:
        with torch.no_grad():
            found: torch.Tensor = module(x.cpu())
        return found

    return serve


@contextlib.contextmanager
def written(files: dict[str, torch.Tensor]) -> Iterator[str]:
    """A folder with these files, which is gone afterwards: what has been opened by then is in memory."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        for name, content in files.items():
            with open(os.path.join(folder, name), "wb") as file:
                file.write(content.cpu().numpy().tobytes())
        yield folder


def answers(
    files: dict[str, torch.Tensor], name: str, batches: Sequence[torch.Tensor], names: Sequence[str]
) -> list[torch.Tensor | str] | None:
    """What is served for each batch, or the name of the exception; None where the file does not open."""
    try:
        with written(files) as folder:
            serve = opened(folder, name, names)
    except Exception:
        return None
    found: list[torch.Tensor | str] = []
    for batch in batches:
        try:
            found.append(serve(batch))
        except Exception as error:
            found.append(type(error).__name__)
    return found


def operators(content: torch.Tensor) -> dict[str, int]:
    """How often each operator occurs in what ONNX Runtime makes of a file."""
    with written({"model.onnx": content}) as folder:
        opened(folder, "model.onnx", ())
        graph = onnx.load(os.path.join(folder, OPTIMISED)).graph
    return dict(Counter(node.op_type for node in graph.node))


def hold(content: torch.Tensor) -> None:
    """Open an ONNX file for ``served`` and ``one_by_one``."""
    with written({"model.onnx": content}) as folder:
        held["serve"] = opened(folder, "model.onnx", ())


def served(x: torch.Tensor) -> torch.Tensor:
    """What the file in hand answers."""
    return held["serve"](x)


def one_by_one(x: torch.Tensor) -> torch.Tensor:
    """What it answers where each of a batch comes by itself."""
    return torch.cat([held["serve"](one) for one in torch.split(x, 1)])
