"""Right code, written in ways that a grader could stumble over. Each must score in full."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from autograder.notebook import Cell


@dataclass(frozen=True)
class Fair:
    """Sources for solution cells, by task, and further cells of the learner's own before the first of them."""

    name: str
    sources: dict[str, str]
    own_cells: tuple[str, ...] = ()
    after_cells: tuple[str, ...] = ()


_BODY = """
    n, c, h, w = frames.shape
    rows, columns = h // size, w // size
    grid = frames[:, :, : rows * size, : columns * size]
    grid = grid.reshape(n, c, rows, size, columns, size).permute(0, 2, 4, 1, 3, 5)
    return grid.reshape(n, rows * columns, c * size * size)
"""
PATCHES = "def to_patches(frames, size):" + _BODY
LOSS = """
def frame_loss(prediction, target):
    return ((prediction[:, 0] - target) ** 2).mean()
"""


def _patches(name: str, source: str, *own_cells: str, after: tuple[str, ...] = ()) -> Fair:
    return Fair(name, {"to_patches": source}, own_cells, after)


FAIR = [
    Fair(
        "slow-where-no-speed-is-asked",
        {
            "frame_loss": """
import time

def frame_loss(prediction, target):
    time.sleep(0.05)
    total = 0
    for i in range(len(target)):
        total = total + (prediction[i, 0] - target[i]) ** 2
    return total / len(target)
"""
        },
    ),
    Fair(
        "result-with-requires-grad",
        {"frame_loss": LOSS.replace(".mean()", ".mean().requires_grad_()")},
    ),
    _patches("result-that-is-not-contiguous", PATCHES.rstrip() + ".mT.contiguous().mT\n"),
    _patches(
        "result-that-is-a-parameter",
        PATCHES.replace("    return grid.reshape", "    result = grid.reshape")
        + "    if result.is_floating_point() and not result.requires_grad:\n"
        + "        result = torch.nn.Parameter(result, requires_grad=False)\n    return result\n",
    ),
    _patches(
        "helpers-in-a-cell-of-ones-own",
        "def to_patches(frames, size):\n    return regroup(cut(frames, size))\n",
        "def cut(frames, size):\n"
        "    n, c, h, w = frames.shape\n"
        "    rows, columns = h // size, w // size\n"
        "    return frames[:, :, : rows * size, : columns * size].reshape(n, c, rows, size, columns, size)\n",
        "from einops_that_is_missing import rearrange",
        "import torch as t\n\ndef regroup(grid):\n"
        "    return t.flatten(grid.permute(0, 2, 4, 1, 3, 5).flatten(3), 1, 2)\n",
    ),
    _patches(
        "helper-in-the-cell-below",
        "def to_patches(frames, size):\n    return later(frames, size)\n",
        after=("def later(frames, size):" + _BODY,),
    ),
    _patches(
        "magics",
        "%time x = 3\n%load_ext autoreload\n!ls\n" + PATCHES.replace("    return", "    %time y = 1\n    return"),
    ),
    _patches("timed-cell", "%%time\n" + PATCHES),
    _patches("prints", PATCHES.replace("    return", "    print('patches', rows, columns, grid.shape)\n    return")),
    _patches(
        "warnings-on-stderr",
        "import sys, warnings\n"
        + PATCHES.replace(
            "    return",
            "    warnings.warn('careful')\n    print('careful', file=sys.stderr)\n"
            "    os.write(2, b'careful')\n    return",
        ),
        "import os",
    ),
    _patches(
        "logging",
        "import logging\nlog = logging.getLogger(__name__)\n"
        + PATCHES.replace("    return", "    log.warning('rows %d', rows)\n    return"),
    ),
    _patches(
        "type-hints",
        "from typing import Annotated\n\n"
        + PATCHES.replace("(frames, size)", "(frames: Annotated['torch.Tensor', 'NCHW'], size: int) -> 'torch.Tensor'"),
    ),
    _patches(
        "annotations-from-the-future",
        "from __future__ import annotations\n\n"
        + PATCHES.replace("(frames, size)", "(frames: NoSuchType, size: int | None) -> Nowhere"),
    ),
    _patches(
        "docstring",
        PATCHES.replace(":\n    n, c", ':\n    """Cut.\n\n    !ls and %time are words here.\n    """\n    n, c', 1),
    ),
    _patches(
        "packages-installed-from-the-notebook",
        "!pip install --quiet no-such-package\n%pip install torch\n" + PATCHES,
        "!pip install no-such-package",
        "%conda install torch",
    ),
    _patches("module-missing-elsewhere", PATCHES, "import no_such_module\nfrom no_such_module import thing\n"),
    _patches("error-elsewhere", PATCHES, "x = 1 / 0", "raise RuntimeError('a demonstration')", "def broken(:\n"),
    _patches(
        "hanging-demonstration",
        PATCHES,
        "import time\nslept = time.sleep(10_000)",
        "while True:\n    pass\n",
        "answer = input('continue? ')",
        "big = [bytearray(10**9) for _ in range(10**6)]",
    ),
    _patches(
        "constants",
        "ORDER = (0, 2, 4, 1, 3, 5)\nFIRST, *REST = ORDER\n"
        + PATCHES.replace("permute(0, 2, 4, 1, 3, 5)", "permute(FIRST, *REST)"),
    ),
    _patches(
        "dataclass-as-a-helper",
        """
from dataclasses import dataclass, field

@dataclass(frozen=True, order=True)
class Grid:
    rows: int
    columns: int
    size: int
    order: tuple = field(default=(0, 2, 4, 1, 3, 5), compare=False)

    @classmethod
    def of(cls, frames, size):
        return cls(frames.shape[2] // size, frames.shape[3] // size, size)

    def cut(self, frames):
        n, c = frames.shape[:2]
        whole = frames[:, :, : self.rows * self.size, : self.columns * self.size]
        return whole.reshape(n, c, self.rows, self.size, self.columns, self.size).permute(self.order)

def to_patches(frames, size):
    return Grid.of(frames, size).cut(frames).flatten(3).flatten(1, 2)
""",
    ),
    _patches(
        "decorator",
        """
import functools

def logged(function):
    @functools.wraps(function)
    def wrapper(*args, **kwargs):
        print("call of", function.__name__)
        return function(*args, **kwargs)
    return wrapper

@logged
"""
        + PATCHES,
    ),
    _patches(
        "cached-helper",
        """
import functools

@functools.cache
def counts(height, width, size):
    return height // size, width // size

"""
        + PATCHES.replace("rows, columns = h // size, w // size", "rows, columns = counts(h, w, size)"),
    ),
    _patches("lambda", "to_patches = lambda frames, size: _cut(frames, size)\n", "def _cut(frames, size):" + _BODY),
    _patches(
        "module-as-the-function",
        """
class Patches(torch.nn.Module):
    def forward(self, frames, size):"""
        + _BODY.replace("\n    ", "\n        ")
        + "\nto_patches = Patches()\n",
    ),
    _patches("defined-twice", "def to_patches(frames, size):\n    return None\n\n" + PATCHES),
    _patches("positional-only-and-defaults", PATCHES.replace("(frames, size)", "(frames, size=16, /, *, loud=False)")),
    _patches(
        "function-in-a-function",
        "def make():\n    def inner(frames, size):"
        + _BODY.replace("\n    ", "\n        ")
        + "\n    return inner\n\nto_patches = make()\n",
    ),
    _patches("names-of-our-own", "value = error = output = learner = applied = submission = function = 1\n" + PATCHES),
    _patches(
        "numpy-on-the-way",
        "import numpy as np\n"
        + PATCHES.replace(
            "rows, columns = h // size, w // size", "rows, columns = (int(x) for x in np.array([h, w]) // size)"
        ),
    ),
    _patches(
        "seed-and-threads",
        "import torch\nx = torch.manual_seed(0)\n"
        + PATCHES.replace("    return", "    torch.set_num_threads(1)\n    return"),
    ),
    _patches(
        "context-manager-and-try",
        "try:\n    import fancy\nexcept ImportError:\n    fancy = None\n"
        + PATCHES.replace("    return", "    assert fancy is None\n    return"),
    ),
    _patches(
        "file-in-scratch",
        "import tempfile\n"
        + PATCHES.replace("    return", "    with tempfile.TemporaryFile() as file: file.write(b'x')\n    return"),
    ),
    _patches(
        "thread-of-ones-own",
        "from concurrent.futures import ThreadPoolExecutor\n"
        + PATCHES.replace(
            "    return", "    with ThreadPoolExecutor(1) as pool: pool.submit(print, 'x').result()\n    return"
        ),
    ),
    _patches(
        "walrus-and-match",
        PATCHES.replace(
            "    n, c, h, w = frames.shape",
            "    match tuple(frames.shape):\n        case (n, c, h, w):\n            pass\n"
            "    if (k := size) < 1: raise ValueError(k)",
        ),
    ),
    Fair(
        "windows-in-python-integers",
        {
            "sliding_windows": """
def sliding_windows(frames, length, step):
    return frames.unfold(0, length, step).permute(0, -1, *range(1, frames.dim()))
"""
        },
    ),
    Fair(
        "in-place-without-a-trace",
        {
            "take_clip": """
import torch

def take_clip(video, start, length, mean, std):
    clip = video[start : start + length].clone()
    if clip.dtype == torch.uint8:
        clip = clip / 255
    clip -= mean
    clip /= std
    return clip
"""
        },
    ),
    Fair(
        "result-that-has-a-name-of-its-own",
        {
            "title_clip": """
import torch

def title_clip(title, n_frames):
    white = 255 if title.dtype == torch.uint8 else 1.0
    clip = torch.empty((n_frames, *title.shape), dtype=title.dtype)
    clip[:] = title
    for i, frame in enumerate(clip):
        frame[-2:, : title.shape[1] * (i + 1) // n_frames].fill_(white)
    return clip
"""
        },
    ),
    Fair(
        "view-by-another-way",
        {
            "to_model_layout": """
def to_model_layout(frames, size):
    top, left = (frames.shape[1] - size) // 2, (frames.shape[2] - size) // 2
    return frames.narrow(1, top, size).narrow(2, left, size).movedim(-1, 1)
"""
        },
    ),
    Fair(
        "own-test-with-a-counter",
        {
            "check_frame_loss": """
import torch
tried = []

def check_frame_loss(loss):
    tried.append(loss)
    for n in (1, 2, 5):
        prediction = torch.randn(n, 1, requires_grad=True)
        target = torch.randn(n)
        error = prediction.detach()[:, 0] - target
        value = loss(prediction, target)
        assert value.shape == () and torch.allclose(value, (error**2).mean(), atol=1e-5), "value"
        (gradient,) = torch.autograd.grad(value, prediction)
        assert torch.allclose(gradient[:, 0], 2 * error / n, atol=1e-5), "gradient"
"""
        },
    ),
]


def cells_of(chapter: Any, fair: Any) -> list[Cell]:
    """The solution with the sources in their places, and the learner's own cells around the first of them."""
    cells = chapter.with_solutions({chapter.task(task).solution_cell: text for task, text in fair.sources.items()})
    first = min(i for i, c in enumerate(cells) if c.source in fair.sources.values())
    own = [Cell("code", source) for source in fair.own_cells]
    after = [Cell("code", source) for source in fair.after_cells]
    return [*cells[:first], *own, cells[first], *after, *cells[first + 1 :]]
