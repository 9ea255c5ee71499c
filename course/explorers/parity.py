"""Explorer: one picture on two paths, eager PyTorch and an exported file in ONNX Runtime, compared at every node.

A small network tells tiles of two photographs apart, and brightens dark ones first. It is exported in a right way and
in several wrong ones (``EXPORTS``). The values between its layers are read on both paths: in PyTorch by hooks, from the
file by making them outputs as well (:func:`with_inner_values`), with the engine's own optimisations switched off.
:func:`compare` gives the numbers, :class:`ParityDrawing` draws them, and :func:`explore_parity` puts a slider for the
brightness on it.
"""

from __future__ import annotations

import ast
import contextlib
import html
import io
import itertools
import logging
import math
import warnings
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache, lru_cache
from types import MappingProxyType
from typing import Final

import ipywidgets as widgets
import onnx
import onnxruntime
import torch
from matplotlib.collections import PolyCollection
from matplotlib.patches import Rectangle
from torch import Tensor, nn

from autograder import plotting
from autograder.pictures import photograph
from explorers import canvas
from explorers.timing import one_thread

NODES: Final = ("picture", "lighten", "standardise", "block1", "relu1", "block2", "relu2", "pool", "dropout", "head")
"""Where the two paths are compared, in order: the input, and what each layer returns. The last one gives the logits."""

EXPORTS: Final = (
    "right",
    "traced on a bright picture",
    "traced on a dark picture",
    "exported in train mode",
    "right, but fed with BGR",
)
"""The served models to choose from."""

PICTURES: Final = ("temple", "flower")
"""The pictures to choose from, which are also the two classes."""

BRIGHTNESSES: Final = tuple(round(0.05 * step, 2) for step in range(1, 21))
"""What the picture's pixels can be multiplied by."""

DARK: Final = 0.25
"""A picture whose mean is below this is brightened."""

BUDGET: Final = 1e-4
"""The largest relative error that a served model may have."""

_SIZE: Final = 32
_CORNERS: Final = ((150, 75), (120, 180))  # where the pictures are cut from the photographs


# --------------------------------------------------------------------------
# The network
# --------------------------------------------------------------------------


class _LightenByIf(nn.Module):
    """Brightens dark pictures: Python decides, once for the batch."""

    def forward(self, x: Tensor) -> Tensor:
        if x.mean() < DARK:
            return x.clamp(min=1e-6).sqrt()
        return x


class _LightenByWhere(nn.Module):
    """Brightens dark pictures: a tensor decides, for each picture of the batch."""

    def forward(self, x: Tensor) -> Tensor:
        dark = x.mean(dim=(1, 2, 3), keepdim=True) < DARK
        return torch.where(dark, x.clamp(min=1e-6).sqrt(), x)


class _Standardise(nn.Module):
    """From 0..1 to about -1..1."""

    def forward(self, x: Tensor) -> Tensor:
        return (x - 0.45) / 0.3


class _Pool(nn.Module):
    """Mean over height and width."""

    def forward(self, x: Tensor) -> Tensor:
        return x.mean(dim=(2, 3))


def _network(lighten: nn.Module) -> nn.Sequential:
    """The untrained network: one layer for each node but the first."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        layers = (
            lighten,
            _Standardise(),
            nn.Sequential(nn.Conv2d(3, 8, 3, stride=2, padding=1), nn.BatchNorm2d(8)),
            nn.ReLU(),
            nn.Sequential(nn.Conv2d(8, 16, 3, stride=2, padding=1), nn.BatchNorm2d(16)),
            nn.ReLU(),
            _Pool(),
            nn.Dropout(0.3),
            nn.Linear(16, 2),
        )
    return nn.Sequential(OrderedDict(zip(NODES[1:], layers, strict=True)))


@cache
def _photographs() -> tuple[Tensor, ...]:
    return tuple(photograph(index).permute(2, 0, 1).float() / 255 for index in range(len(PICTURES)))


def _batch(n: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """``n`` tiles from random places, darkened more or less: (n, 3, size, size) in 0..1, and their labels."""
    labels = torch.randint(len(PICTURES), (n,), generator=generator)
    factors = torch.rand(n, generator=generator).clamp(min=0.05)
    cut = []
    for factor, label in zip(factors, labels.tolist(), strict=True):
        top, left = (int(torch.randint(side - _SIZE, (), generator=generator)) for side in (427, 640))
        tile = _photographs()[label][:, top : top + _SIZE, left : left + _SIZE]
        cut.append(factor * tile)
    return torch.stack(cut), labels


@cache
def _weights() -> Mapping[str, Tensor]:
    """State of the trained network."""
    net = _network(_LightenByWhere()).train()
    optimiser = torch.optim.Adam(net.parameters(), lr=0.01)
    generator = torch.Generator().manual_seed(0)
    with one_thread(), torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)  # for Dropout
        for _ in range(100):
            x, labels = _batch(32, generator)
            optimiser.zero_grad()
            nn.functional.cross_entropy(net(x), labels).backward()
            optimiser.step()
    return MappingProxyType(net.state_dict())


def _trained(lighten: nn.Module) -> nn.Sequential:
    """The trained network in eval mode, with this first layer."""
    net = _network(lighten)
    net.load_state_dict(dict(_weights()))
    return net.eval()


@cache
def _eager() -> nn.Sequential:
    return _trained(_LightenByWhere())


@lru_cache(maxsize=64)
def picture_at(picture: str, brightness: float) -> Tensor:
    """One of ``PICTURES`` at one of ``BRIGHTNESSES``: float32, (1, 3, 32, 32), 0..1; kept, so do not change it.

    Raises ``ValueError`` for others.
    """
    if picture not in PICTURES:
        raise ValueError(f"unknown picture {picture!r}, expected one of {PICTURES}")
    if brightness not in BRIGHTNESSES:
        raise ValueError(f"unknown brightness {brightness!r}, expected one of {BRIGHTNESSES}")
    number = PICTURES.index(picture)
    top, left = _CORNERS[number]
    return brightness * _photographs()[number][None, :, top : top + _SIZE, left : left + _SIZE]


# --------------------------------------------------------------------------
# Exports
# --------------------------------------------------------------------------


@contextlib.contextmanager
def quietly() -> Iterator[None]:
    """Keep the exporters' warnings, log lines and prints off the screen; exceptions go through."""
    disabled = logging.root.manager.disable
    with (
        warnings.catch_warnings(),
        contextlib.redirect_stderr(io.StringIO()),
        contextlib.redirect_stdout(io.StringIO()),
    ):
        warnings.simplefilter("ignore")
        logging.disable(logging.CRITICAL)
        try:
            yield
        finally:
            logging.disable(disabled)


def _export(name: str) -> bytes:
    """The ONNX file of one of ``EXPORTS``, for one picture."""
    with quietly(), torch.no_grad(), torch.random.fork_rng(devices=[]):
        if name.startswith("traced"):
            example = picture_at("temple", 1.0 if "bright" in name else 0.1)
            file = io.BytesIO()
            net = _trained(_LightenByIf())
            torch.onnx.export(net, (example,), file, dynamo=False, input_names=["picture"], output_names=["logits"])
            return file.getvalue()
        net = _trained(_LightenByWhere()).train("train" in name)
        program = torch.onnx.export(
            net,
            (picture_at("temple", 1.0),),
            dynamo=True,
            verbose=False,
            input_names=["picture"],
            output_names=["logits"],
        )
    assert program is not None
    model: bytes = program.model_proto.SerializeToString()
    return model


def _layer_of(node: onnx.NodeProto) -> str | None:
    """The network's layer that an operator of the file comes from, as the exporters note it; None if they don't."""
    for entry in node.metadata_props:
        if entry.key == "pkg.torch.onnx.name_scopes":  # "['', 'block1', 'block1.0', 'conv2d']"
            scopes = ast.literal_eval(entry.value)
            return scopes[1] if len(scopes) > 2 else None
    parts = node.name.split("/")  # the older exporter: "/block1/block1.0/Conv"
    return parts[1] if len(parts) > 2 else None


def with_inner_values(model: bytes) -> tuple[bytes, dict[str, str]]:
    """An ONNX file that also returns what is computed on the way, and the value's name in it for each of ``NODES``.

    A layer that left no operator in the file (a branch that did nothing when it was traced) has the name of the value
    before it.
    """
    proto = onnx.load_from_string(model)
    names = {NODES[0]: proto.graph.input[0].name}
    found = {_layer_of(node): node.output[0] for node in proto.graph.node}  # the last operator of each layer counts
    for before, name in itertools.pairwise(NODES):
        names[name] = found.get(name, names[before])
    there = {value.name for value in (*proto.graph.output, *proto.graph.input)}
    inner = dict.fromkeys(name for name in names.values() if name not in there)
    proto.graph.output.extend([onnx.ValueInfoProto(name=name) for name in inner])
    return proto.SerializeToString(), names


@cache
def _served(export: str) -> tuple[onnxruntime.InferenceSession, Mapping[str, str]]:
    """A session with inner values and their names; made once for each of ``EXPORTS``."""
    model, names = with_inner_values(_export("right" if "BGR" in export else export))
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 3  # the engine's remarks on unused weights are of no interest here
    # The file is run as it is written. Otherwise what the engine rewrites would depend on which values are asked for.
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    return session, MappingProxyType(names)


# --------------------------------------------------------------------------
# The comparison
# --------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Node:
    """What both paths have at one of ``NODES``: equal shapes, float32, batch first.

    ``error`` is the largest difference, relative to the largest number that eager has there; ``absent`` says that the
    file has no operator for this layer.
    """

    name: str
    eager: Tensor
    served: Tensor
    error: float
    absent: bool

    @property
    def within(self) -> bool:
        """Is the error within ``BUDGET``? (A NaN is not.)"""
        return self.error <= BUDGET


def relative_error(eager: Tensor, served: Tensor) -> float:
    """The largest difference, divided by the largest number in ``eager``. Raises ``ValueError`` for unequal shapes."""
    if eager.shape != served.shape:
        raise ValueError(f"eager has the shape {tuple(eager.shape)}, the served model {tuple(served.shape)}")
    largest = (eager - served).abs().max().item()
    return largest / max(eager.abs().max().item(), torch.finfo(torch.float32).tiny)


def _eager_values(x: Tensor) -> dict[str, Tensor]:
    values, net = {NODES[0]: x}, _eager()

    def note(name: str) -> object:
        return lambda _module, _inputs, output: values.__setitem__(name, output)

    hooks = [layer.register_forward_hook(note(name)) for name, layer in net.named_children()]
    try:
        with torch.no_grad():
            net(x)
    finally:
        for hook in hooks:
            hook.remove()
    return values


@lru_cache(maxsize=512)
def compare(export: str, picture: str, brightness: float) -> tuple[Node, ...]:
    """Both paths at each of ``NODES``, for one of ``EXPORTS``, ``PICTURES`` and ``BRIGHTNESSES``.

    Kept, so do not change the tensors. Raises ``ValueError`` for other choices.
    """
    if export not in EXPORTS:
        raise ValueError(f"unknown export {export!r}, expected one of {EXPORTS}")
    with one_thread():
        x = picture_at(picture, brightness)
        eager = _eager_values(x)
        session, names = _served(export)
        sent = x.flip(1).contiguous() if "BGR" in export else x
        wanted = [value.name for value in session.get_outputs()]
        got = dict(
            zip(wanted, map(torch.from_numpy, session.run(wanted, {names[NODES[0]]: sent.numpy()})), strict=True)
        )
        got[names[NODES[0]]] = sent
        nodes = []
        for before, name in zip((None, *NODES), NODES, strict=False):
            served = got[names[name]]
            absent = before is not None and names[name] == names[before]
            nodes.append(Node(name, eager[name], served, relative_error(eager[name], served), absent))
    return tuple(nodes)


def probabilities(nodes: tuple[Node, ...]) -> tuple[list[float], list[float]]:
    """The probabilities of the two classes, eager's and the served model's."""
    return nodes[-1].eager[0].softmax(0).tolist(), nodes[-1].served[0].softmax(0).tolist()


def explain(export: str, picture: str, brightness: float) -> str:
    """One line of plain text about what the choice shows."""
    nodes = compare(export, picture, brightness)
    mean = nodes[0].eager.mean().item()
    branch = f"The picture's mean is {mean:.2f}, so eager {'brightens it' if mean < DARK else 'leaves it as it is'}."
    first = next((node for node in nodes if not node.within), None)
    if first is None:
        worst = max(node.error for node in nodes)
        return f"{branch} The paths agree at every node (largest relative error {worst:.0e})."
    why = " (the file has no operator for it)" if first.absent else ""
    ours, theirs = (PICTURES[row.index(max(row))] for row in probabilities(nodes))
    verdict = "Both still say" if ours == theirs else f'Eager says "{ours}", the served model'
    return f'{branch} The paths part at "{first.name}"{why}. {verdict} "{theirs}".'


def describe(export: str, picture: str, brightness: float) -> str:
    """All that the explorer shows as plain text: the choice, a line for each node, probabilities, :func:`explain`."""
    nodes = compare(export, picture, brightness)
    lines = [f"{picture} at brightness {brightness}, export: {export}"]
    lines += [f"{node.name}: {_words(node)}" for node in nodes]
    for path, row in zip(("eager", "served"), probabilities(nodes), strict=True):
        lines.append(f"{path}: " + ", ".join(f"{name} {share:.4f}" for name, share in zip(PICTURES, row, strict=True)))
    return "\n".join([*lines, explain(export, picture, brightness)])


def _words(node: Node) -> str:
    """A node's error as text."""
    size = "equal" if node.error == 0 else f"{node.error:.1e}"
    return f"{size}{', no operator' if node.absent else ''}{'' if node.within else '  too much'}"


# --------------------------------------------------------------------------
# The drawing
# --------------------------------------------------------------------------

_LOWEST, _HIGHEST = -9.0, 5.4  # the bars' axis, as powers of ten


class ParityDrawing:
    """Draws choices into one figure that is reused, since making figures is slow.

    Left what both paths hand to the convolutions and where they differ, right a bar for each node. What never changes
    is drawn once and laid under everything else as pixels.
    """

    def __init__(self, width: int = 900, height: int = 400) -> None:
        self._canvas = canvas.make_canvas(width, height)
        self._figure = self._canvas.figure
        self._images = []
        for place, title in enumerate(("eager", "served", "difference")):
            axes = self._figure.add_axes((0.02 + 0.135 * place, 0.46, 0.125, 0.36))
            axes.set_axis_off()
            axes.set_title(title, fontsize=11)
            blank = torch.zeros(_SIZE, _SIZE, 3).numpy()
            self._images.append(axes.imshow(blank, vmin=0, vmax=1, interpolation="nearest", animated=True))
        self._figure.text(0.02, 0.93, "the picture after the branch", fontsize=11)
        self._line = self._figure.add_axes((0.03, 0.2, 0.37, 0.1))
        self._bars_axes = self._figure.add_axes((0.55, 0.15, 0.43, 0.77))
        self._draw_brightness()
        self._draw_bar_axes()
        self._good = PolyCollection([], facecolors=plotting.PALE_BLUE, edgecolors=plotting.INK, animated=True)
        self._bad = PolyCollection([], facecolors=plotting.ORANGE, edgecolors=plotting.INK, hatch="///", animated=True)
        for bars in (self._good, self._bad):
            self._bars_axes.add_collection(bars)
        paper = {
            "facecolor": plotting.PAPER,
            "edgecolor": "none",
            "pad": 0.5,
        }  # so that the budget does not cross a word
        self._labels = [
            self._bars_axes.text(0, -row, "", fontsize=9, va="center", animated=True, bbox=paper)
            for row in range(len(NODES))
        ]
        (self._mark,) = self._line.plot(
            [0], [0.5], "v", color=plotting.INK, markeredgecolor=plotting.PAPER, markersize=12, animated=True
        )
        self._canvas.draw()
        self._background = self._canvas.copy_from_bbox(self._figure.bbox)

    def _draw_brightness(self) -> None:
        axes = self._line
        axes.add_patch(Rectangle((0, 0), DARK, 1, facecolor=plotting.GREY, edgecolor=plotting.INK, hatch="..."))
        axes.add_patch(Rectangle((DARK, 0), 1 - DARK, 1, facecolor=plotting.PALE_ORANGE, edgecolor=plotting.INK))
        axes.text(DARK / 2, 1.35, "brightened", fontsize=9, ha="center")
        axes.text((1 + DARK) / 2, 1.35, "left as it is", fontsize=9, ha="center")
        axes.set(xlim=(0, 1), ylim=(0, 1), yticks=[], xticks=[0, DARK, 0.5, 0.75, 1])
        axes.tick_params(labelsize=9)
        axes.set_xlabel("mean of the picture", fontsize=10)

    def _draw_bar_axes(self) -> None:
        axes = self._bars_axes
        axes.set(
            xlim=(_LOWEST, _HIGHEST), ylim=(0.4 - len(NODES), 0.6), yticks=range(0, -len(NODES), -1), yticklabels=NODES
        )
        ticks = [-8, -6, -4, -2, 0]
        axes.set_xticks(ticks, [f"$10^{{{tick}}}$" for tick in ticks])
        axes.tick_params(labelsize=10)
        axes.axvline(math.log10(BUDGET), color=plotting.INK, linestyle="--", linewidth=1.5)
        axes.set_xlabel("largest relative error (dashed: the budget)", fontsize=10)
        axes.set_title("eager against served, node by node", fontsize=11)

    def render(self, export: str, picture: str, brightness: float) -> bytes:
        """Draw a choice; the bytes of a PNG file. Raises ``ValueError`` for what there is not."""
        nodes = compare(export, picture, brightness)
        eager, served = (values[0].permute(1, 2, 0).clamp(0, 1) for values in (nodes[1].eager, nodes[1].served))
        for image, pixels in zip(self._images, (eager, served, (eager - served).abs()), strict=True):
            image.set_data(pixels.numpy())
        self._mark.set_xdata([nodes[0].eager.mean().item()])
        good, bad = [], []
        for row, (node, label) in enumerate(zip(nodes, self._labels, strict=True)):
            end = min(max(math.log10(node.error), _LOWEST), 0.0) if node.error > 0 else _LOWEST
            corners = ((_LOWEST, -row - 0.3), (end, -row - 0.3), (end, -row + 0.3), (_LOWEST, -row + 0.3))
            (good if node.within else bad).append(corners)
            label.set_text(_words(node).replace("  too much", ""))
            label.set_x(end + 0.12)
        self._good.set_verts(good)
        self._bad.set_verts(bad)
        self._canvas.restore_region(self._background)
        for artist in (self._good, self._bad, *self._labels):
            self._bars_axes.draw_artist(artist)
        for image in self._images:
            image.axes.draw_artist(image)
        self._line.draw_artist(self._mark)
        return canvas.png_of_pixels(self._canvas)


def render_png(export: str = "right", picture: str = "temple", brightness: float = 1.0) -> bytes:
    """Draw a choice into a figure of its own; the bytes of a PNG file. Raises ``ValueError`` for what there is not."""
    return ParityDrawing().render(export, picture, brightness)


# --------------------------------------------------------------------------
# The widget
# --------------------------------------------------------------------------


class ParityExplorer:
    """The widget: an export, a picture and a slider for its brightness, with a drawing and a line of text.

    ``box`` is the container to show. All exports are made at the start, so that a move needs no new one.
    """

    def __init__(self, export: str = "right", picture: str = "temple", brightness: float = 1.0) -> None:
        """Start at one of ``EXPORTS``, ``PICTURES`` and ``BRIGHTNESSES``; raises ``ValueError`` for others."""
        compare(export, picture, brightness)  # raises for what is not there
        for name in EXPORTS:
            _served(name)
        label = {"description_width": "90px"}
        self.export = widgets.Dropdown(
            options=EXPORTS,
            value=export,
            description="served model",
            layout=widgets.Layout(width="360px"),
            style=label,
        )
        self.picture = widgets.ToggleButtons(
            options=PICTURES,
            value=picture,
            description="picture",
            layout=widgets.Layout(width="360px"),
            style=label | {"button_width": "90px"},
        )
        self.brightness = widgets.SelectionSlider(
            options=BRIGHTNESSES,
            value=brightness,
            description="brightness",
            layout=widgets.Layout(width="740px"),
            style=label,
        )
        self.line = widgets.HTML()
        self.outcome = widgets.HTML()
        self.image = widgets.Image(format="png", layout=widgets.Layout(max_width="100%"))
        self._drawing = ParityDrawing()
        for control in (self.export, self.picture, self.brightness):
            control.observe(lambda _change: self._show(), names="value")
        choices = widgets.HBox([self.export, self.picture], layout=widgets.Layout(flex_flow="row wrap"))
        self.box = widgets.VBox([choices, self.brightness, self.line, self.image, self.outcome])
        self._show()

    def _show(self) -> None:
        choice = (self.export.value, self.picture.value, self.brightness.value)
        self.line.value = f"<b>{html.escape(explain(*choice))}</b>"
        self.outcome.value = _table_html(compare(*choice))
        self.image.value = self._drawing.render(*choice)


def _table_html(nodes: tuple[Node, ...]) -> str:
    """The probabilities, a row for each path."""
    cell = 'style="text-align:right;padding:0 14px 0 0"'
    head = "".join(f"<th {cell}>{name}</th>" for name in ("probability of", *PICTURES))
    rows = [
        f"<th {cell}>{path}</th>" + "".join(f"<td {cell}>{share:.4f}</td>" for share in row)
        for path, row in zip(("eager", "served"), probabilities(nodes), strict=True)
    ]
    return f"<table><tr>{head}</tr>{''.join(f'<tr>{row}</tr>' for row in rows)}</table>"


def explore_parity(export: str = "right", picture: str = "temple", brightness: float = 1.0) -> widgets.VBox:
    """One picture on both paths, with a slider for its brightness, to show in a notebook.

    Start at one of ``EXPORTS``, ``PICTURES`` and ``BRIGHTNESSES``. Returns an ipywidgets container. Raises
    ``ValueError`` for others.
    """
    box: widgets.VBox = ParityExplorer(export, picture, brightness).box
    return box
