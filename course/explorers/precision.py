"""Explorer: where gradients fall on the number lines of fp32, bf16 and fp16.

A small network really learns digits. Its gradients are taken in float64 at a
few steps (:func:`gradients`), multiplied by a loss scale and cast by torch to
each format: what becomes zero, what loses digits, what overflows
(:func:`cast`, :func:`fates`). The same training also runs in each precision
(:func:`training_curves`). :class:`PrecisionDrawing` draws both, and
:func:`explore_precision` puts sliders on it.
"""

from __future__ import annotations

import copy
import html
import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from types import MappingProxyType
from typing import Final

import ipywidgets as widgets
import torch
from matplotlib.collections import PolyCollection
from matplotlib.patches import Rectangle
from torch import Tensor, nn

from autograder import plotting
from autograder.pictures import digits
from explorers import canvas
from explorers.timing import one_thread

FORMATS: Final[Mapping[str, torch.dtype]] = MappingProxyType(
    {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
)

N_STEPS: Final = 60
STEPS: Final = (0, 10, 30, 60)
"""After how many steps of the training gradients can be looked at."""

PLACES: Final = ("logits", "layer 3", "layer 2", "layer 1", "weights of layer 1")
"""The gradients to choose from: of the outputs of the four layers, last one first, and of the first weights."""

MAX_EXPONENT: Final = 44
"""The largest loss scale is two to this power."""

LOSS_WEIGHT: Final = 1e-5
"""The loss is multiplied by this, as a mean over 100 000 positions in each picture would be."""

RUNS: Final = ("fp32", "bf16 autocast", "fp16 with GradScaler", "fp16 without scaling")
"""The names of the training curves."""


# --------------------------------------------------------------------------
# The training
# --------------------------------------------------------------------------


def _network() -> nn.Sequential:
    """Four linear layers with tanh between them; the same weights each time."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return nn.Sequential(
            nn.Linear(64, 32), nn.Tanh(), nn.Linear(32, 32), nn.Tanh(), nn.Linear(32, 32), nn.Tanh(), nn.Linear(32, 10)
        )


@lru_cache(maxsize=1)
def _data() -> tuple[Tensor, Tensor]:
    """256 digits, (256, 64), and their labels."""
    images, labels = digits()
    return images[:256], labels[:256]


def _train(run: str, looked_at: tuple[int, ...] = ()) -> tuple[tuple[float, ...], dict[int, nn.Sequential]]:
    """Train in the way that ``run`` (one of ``RUNS``) says.

    Returns the loss before the first and after each step, without the weight of
    the loss, and copies of the network after the numbers of steps ``looked_at``.
    """
    x, y = _data()
    net = _network()
    optimiser = torch.optim.Adam(net.parameters(), lr=0.01)
    scaler = torch.amp.GradScaler("cpu", enabled=run == "fp16 with GradScaler")
    dtype = FORMATS[run[:4]]
    losses: list[float] = []
    copies = {}
    for number in range(N_STEPS + 1):
        if number in looked_at:
            copies[number] = copy.deepcopy(net)
        optimiser.zero_grad()
        with torch.autocast("cpu", dtype=torch.bfloat16 if run == "fp32" else dtype, enabled=run != "fp32"):
            logits = net(x)
        loss = nn.functional.cross_entropy(logits.float(), y)
        losses.append(loss.item())
        scaler.scale(LOSS_WEIGHT * loss).backward()
        if number < N_STEPS:
            scaler.step(optimiser)
            scaler.update()
    return tuple(losses), copies


@lru_cache(maxsize=1)
def training_curves() -> Mapping[str, tuple[float, ...]]:
    """The loss before the first and after each step for each of ``RUNS``, computed once and kept."""
    with one_thread():
        return MappingProxyType({run: _train(run)[0] for run in RUNS})


@lru_cache(maxsize=1)
def _all_gradients() -> Mapping[tuple[str, int], Tensor]:
    found = {}
    x, y = _data()
    with one_thread():
        _, copies = _train("fp32", STEPS)
        for number, net in copies.items():
            outputs, out = [], x.double()
            for layer in net.double():
                out = layer(out)
                if isinstance(layer, nn.Linear):
                    outputs.append(out)
            loss = LOSS_WEIGHT * nn.functional.cross_entropy(out, y)
            wanted = (*reversed(outputs), net[0].weight)
            for place, gradient in zip(PLACES, torch.autograd.grad(loss, wanted), strict=True):
                found[place, number] = gradient.flatten()
    return MappingProxyType(found)


def gradients(place: str, step: int) -> Tensor:
    """The gradients at ``place`` (one of ``PLACES``) after ``step`` steps (one of ``STEPS``), without any scale.

    float64 and flat; computed once and kept, so do not change it. Raises ``ValueError`` for other places or steps.
    """
    if place not in PLACES:
        raise ValueError(f"unknown place {place!r}, expected one of {PLACES}")
    if step not in STEPS:
        raise ValueError(f"no gradients were kept at step {step}, expected one of {STEPS}")
    return _all_gradients()[place, step]


# --------------------------------------------------------------------------
# The formats
# --------------------------------------------------------------------------


@dataclass(frozen=True)
class Fate:
    """What a format makes of numbers, as shares of those that were not zero to begin with.

    * ``flushed``: became zero
    * ``subnormal``: lie below the smallest normal number, so they keep fewer digits the smaller they are
    * ``overflowed``: became infinite
    * ``error``: median of the relative rounding error of all that are neither zero nor infinite; NaN if there is none
    """

    flushed: float
    subnormal: float
    overflowed: float
    error: float


_NAMES: Final = ("flushed", "subnormal", "fine", "overflowed")


def _kinds(numbers: Tensor, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """``numbers`` (float64, none of them zero) in ``dtype``, as float64, and for each the index of its fate in
    ``_NAMES``."""
    there = numbers.to(dtype).double()
    sizes = there.abs()
    kinds = torch.full(numbers.shape, _NAMES.index("fine"))
    kinds[sizes < torch.finfo(dtype).smallest_normal] = _NAMES.index("subnormal")
    kinds[sizes == 0] = _NAMES.index("flushed")
    kinds[sizes == math.inf] = _NAMES.index("overflowed")
    return there, kinds


def cast(numbers: Tensor, scale: float, dtype: torch.dtype) -> Fate:
    """What becomes of ``numbers * scale`` (float64, flat) when torch casts it to ``dtype``.

    Zeros in ``numbers`` are left out. Raises ``ValueError`` if nothing else is there, or the scale is not positive.
    """
    if not scale > 0:
        raise ValueError(f"the scale must be positive, got {scale}")
    scaled = numbers[numbers != 0] * scale
    if len(scaled) == 0:
        raise ValueError("there are no numbers other than zero")
    there, kinds = _kinds(scaled, dtype)
    flushed, subnormal, _, overflowed = (torch.bincount(kinds, minlength=4) / len(kinds)).tolist()
    kept = (kinds == _NAMES.index("subnormal")) | (kinds == _NAMES.index("fine"))
    errors = ((there[kept] - scaled[kept]) / scaled[kept]).abs()
    return Fate(flushed, subnormal, overflowed, errors.median().item() if len(errors) else math.nan)


@lru_cache(maxsize=1024)
def fates(place: str, step: int, exponent: int) -> Mapping[str, Fate]:
    """For each of ``FORMATS``, what becomes of the gradients there when the loss is scaled by ``2**exponent``."""
    numbers = gradients(place, step)
    with one_thread():
        return MappingProxyType({name: cast(numbers, 2.0**exponent, dtype) for name, dtype in FORMATS.items()})


def explain(place: str, step: int, exponent: int) -> str:
    """One line of plain text about what the choice shows, fp16 above all."""
    fate = fates(place, step, exponent)["fp16"]
    if fate.overflowed:
        return (
            f"The scale is too large: in fp16 {_percent(fate.overflowed)} overflow to infinity, "
            "and GradScaler would skip this step and halve its scale."
        )
    if fate.flushed == 1:
        return "The scale is too small: in fp16 every gradient here becomes zero, so nothing above it learns."
    bf16 = fates(place, step, exponent)["bf16"]
    if fate.flushed > 0.1:
        return (
            f"The scale is too small: in fp16 {_percent(fate.flushed)} become zero, and {_percent(fate.subnormal)} are "
            f"subnormal, with few digits left. In bf16 {_percent(bf16.flushed)} become zero, whatever the scale."
        )
    if fate.subnormal > 0.1:
        return (
            f"The scale is at the lower end: in fp16 {_percent(fate.flushed)} become zero, and "
            f"{_percent(fate.subnormal)} are subnormal. The typical rounding error is {fate.error:.1e}."
        )
    return (
        f"The scale fits: in fp16 {_percent(fate.flushed)} become zero, and the typical rounding error is "
        f"{fate.error:.1e}. That of bf16 is {bf16.error:.1e}, whatever the scale."
    )


def summary() -> str:
    """One line of plain text about the training curves."""
    ends = ", ".join(f"{run} {curve[-1]:.3f}" for run, curve in training_curves().items())
    first = next(iter(training_curves().values()))[0]
    return f"Loss {first:.2f} at the start; after {N_STEPS} steps: {ends}."


def describe(place: str, step: int, exponent: int) -> str:
    """All that the explorer shows as plain text: the choice, a line for each format, :func:`explain`, the curves."""
    lines = [f"gradients of {place} after {step} steps, loss scale 2**{exponent}"]
    for name, fate in fates(place, step, exponent).items():
        lines.append(f"{name}: " + ", ".join(f"{key} {value}" for key, value in _facts(fate)))
    return "\n".join([*lines, explain(place, step, exponent), summary()])


def _percent(share: float) -> str:
    if 0 < share < 0.001:
        return "less than 0.1 %"
    if 0.999 < share < 1:
        return "more than 99.9 %"
    return f"{100 * share:.3g} %"


def _facts(fate: Fate) -> list[tuple[str, str]]:
    return [
        ("become 0", _percent(fate.flushed)),
        ("subnormal", _percent(fate.subnormal)),
        ("overflow", _percent(fate.overflowed)),
        ("typical rounding error", "-" if math.isnan(fate.error) else f"{fate.error:.1e}"),
    ]


# --------------------------------------------------------------------------
# The drawing
# --------------------------------------------------------------------------

# What the number lines show, as powers of two; smaller gradients are counted in the first bar.
_LEFT, _RIGHT = -64, 40
_LOOKS: Final = (
    ("becomes 0", plotting.ORANGE, "xxx"),
    ("subnormal", plotting.MID_ORANGE, "///"),
    ("fine", plotting.PALE_BLUE, None),
    ("overflows", plotting.PURPLE, "..."),
)
_LINES: Final = (
    (plotting.BLUE, "-", 5.0),
    (plotting.GREEN, "--", 2.5),
    (plotting.INK, ":", 2.5),
    (plotting.ORANGE, "-.", 2.5),
)


def _bars(place: str, step: int, exponent: int) -> list[list[tuple[float, float, float]]]:
    """For each fate in fp16 the bars as (left edge, bottom, height): a bar for each power of two, fates stacked.

    Heights are relative to the highest stack.
    """
    numbers = gradients(place, step)
    scaled = numbers[numbers != 0] * 2.0**exponent
    _, kinds = _kinds(scaled, torch.float16)
    # frexp puts the mantissa into 0.5..1, so the power of two below a number is one less.
    columns = (scaled.frexp().exponent - 1).clamp(_LEFT, _RIGHT - 1) - _LEFT
    counts = torch.bincount(kinds * (_RIGHT - _LEFT) + columns, minlength=4 * (_RIGHT - _LEFT)).view(4, -1)
    shares = counts.double() / counts.sum(dim=0).max()
    bottoms = shares.cumsum(dim=0) - shares
    return [
        [
            (_LEFT + at, bottoms[kind, at].item(), shares[kind, at].item())
            for at in counts[kind].nonzero()[:, 0].tolist()
        ]
        for kind in range(4)
    ]


class PrecisionDrawing:
    """Draws choices into one figure that is reused, since making figures is slow.

    Left the histogram of the gradients over the three number lines, right the
    training curves with a mark at the step. What never changes is drawn once
    and laid under everything else as pixels.
    """

    def __init__(self, width: int = 900, height: int = 380) -> None:
        self._canvas = canvas.make_canvas(width, height)
        self._figure = self._canvas.figure
        self._histogram = self._figure.add_axes((0.07, 0.42, 0.5, 0.49))
        self._ranges = self._figure.add_axes((0.07, 0.14, 0.5, 0.26))
        self._plot = self._figure.add_axes((0.66, 0.14, 0.32, 0.77))
        self._draw_histogram_axes()
        self._draw_number_lines()
        self._draw_curves()
        self._stacks = [
            PolyCollection([], facecolors=color, edgecolors=plotting.INK, hatch=hatch, linewidths=0.6, animated=True)
            for _, color, hatch in _LOOKS
        ]
        for stack in self._stacks:
            self._histogram.add_collection(stack)
        self._words = self._histogram.text(
            0.995, 0.96, "", transform=self._histogram.transAxes, fontsize=10, ha="right", va="top", animated=True
        )
        self._mark = self._plot.axvline(0, color=plotting.GREY, linewidth=1.5, animated=True)
        self._canvas.draw()
        self._background = self._canvas.copy_from_bbox(self._figure.bbox)

    def _draw_histogram_axes(self) -> None:
        axes = self._histogram
        axes.set(xlim=(_LEFT, _RIGHT), ylim=(0, 1.6), xticks=[], yticks=[])
        axes.set_title("gradients times the loss scale, coloured by what fp16 does", fontsize=11)
        axes.set_ylabel("how many", fontsize=10)
        axes.tick_params(labelsize=9)
        for at in (-25, -14, 16):
            axes.axvline(at, color=plotting.GREY, linewidth=1, linestyle=":")
        handles = [
            Rectangle((0, 0), 1, 1, facecolor=color, edgecolor=plotting.INK, hatch=hatch) for _, color, hatch in _LOOKS
        ]
        axes.legend(handles, [name for name, *_ in _LOOKS], fontsize=9, loc="upper left", ncols=2)

    def _draw_number_lines(self) -> None:
        axes = self._ranges
        for row, dtype in enumerate(FORMATS.values()):
            limits = torch.finfo(dtype)
            normal, top = math.log2(limits.smallest_normal), math.log2(limits.max)
            lowest = normal + math.log2(limits.eps)
            axes.barh(-row, top - normal, 0.62, normal, color=plotting.PALE_BLUE, edgecolor=plotting.INK)
            axes.barh(
                -row, normal - lowest, 0.62, lowest, color=plotting.MID_ORANGE, edgecolor=plotting.INK, hatch="///"
            )
            digits_kept = round(-math.log2(limits.eps))
            axes.text(1, -row, f"{digits_kept} bits", fontsize=9, ha="center", va="center")
        axes.set(xlim=(_LEFT, _RIGHT), ylim=(-2.5, 0.5), yticks=[0, -1, -2], yticklabels=list(FORMATS))
        ticks = [-60, -40, -24, -14, 0, 16, 32]
        axes.set_xticks(ticks, [f"$2^{{{tick}}}$" for tick in ticks])
        axes.set_xlabel("size (fp32 and bf16: from $2^{-126}$ to $2^{128}$), bits of the fraction", fontsize=10)
        axes.tick_params(labelsize=9)

    def _draw_curves(self) -> None:
        axes = self._plot
        for (run, curve), (color, dashes, width) in zip(training_curves().items(), _LINES, strict=True):
            axes.semilogy(curve, color=color, linestyle=dashes, linewidth=width, label=run)
        axes.set_title("training loss", fontsize=11)
        axes.set_xlabel("steps (line: the one on the left)", fontsize=10)
        axes.tick_params(labelsize=9)
        axes.legend(fontsize=9, loc="lower left")

    def render(self, place: str, step: int, exponent: int) -> bytes:
        """Draw the gradients at ``place`` and ``step`` under the loss scale ``2**exponent``; the bytes of a PNG file."""
        with one_thread():
            all_bars = _bars(place, step, exponent)
        for stack, bars in zip(self._stacks, all_bars, strict=True):
            stack.set_verts(
                [
                    ((left, low), (left + 1, low), (left + 1, low + height), (left, low + height))
                    for left, low, height in bars
                ]
            )
        fate = fates(place, step, exponent)["fp16"]
        self._words.set_text("\n".join(f"{_percent(share)} {word}" for share, word in _shares(fate)))
        self._mark.set_xdata([step, step])
        self._canvas.restore_region(self._background)
        for stack in self._stacks:
            self._histogram.draw_artist(stack)
        self._histogram.draw_artist(self._words)
        self._plot.draw_artist(self._mark)
        return canvas.png_of_pixels(self._canvas)


def _shares(fate: Fate) -> list[tuple[float, str]]:
    return [(fate.flushed, "become 0"), (fate.subnormal, "subnormal"), (fate.overflowed, "overflow")]


def render_png(place: str = "layer 1", step: int = 0, exponent: int = 0) -> bytes:
    """Draw a choice into a figure of its own; the bytes of a PNG file."""
    return PrecisionDrawing().render(place, step, exponent)


# --------------------------------------------------------------------------
# The widget
# --------------------------------------------------------------------------


class PrecisionExplorer:
    """The widget: a place, a step and a slider for the loss scale, with a drawing and a table.

    ``box`` is the container to show.
    """

    def __init__(self, place: str = "layer 1", step: int = 0, exponent: int = 0) -> None:
        """Start at ``place`` (one of ``PLACES``), ``step`` (one of ``STEPS``) and the loss scale ``2**exponent``.

        Raises ``ValueError`` for others, or an exponent outside 0..``MAX_EXPONENT``.
        """
        gradients(place, step)  # raises for what is not there
        if exponent not in range(MAX_EXPONENT + 1):
            raise ValueError(f"the exponent must be a whole number in 0..{MAX_EXPONENT}, got {exponent}")
        label = {"description_width": "110px"}
        self.place = widgets.Dropdown(
            options=PLACES,
            value=place,
            description="gradients of",
            layout=widgets.Layout(width="330px"),
            style=label,
        )
        self.step = widgets.SelectionSlider(
            options=STEPS, value=step, description="after steps", layout=widgets.Layout(width="320px"), style=label
        )
        self.exponent = widgets.IntSlider(
            value=exponent,
            min=0,
            max=MAX_EXPONENT,
            description="log2 of the scale",
            layout=widgets.Layout(width="740px"),
            style=label,
        )
        self.line = widgets.HTML()
        self.curves = widgets.HTML(html.escape(summary()))
        self.table = widgets.HTML()
        self.picture = widgets.Image(format="png", layout=widgets.Layout(max_width="100%"))
        self._drawing = PrecisionDrawing()
        for control in (self.place, self.step, self.exponent):
            control.observe(lambda _change: self._show(), names="value")
        choices = widgets.HBox([self.place, self.step], layout=widgets.Layout(flex_flow="row wrap"))
        self.box = widgets.VBox([choices, self.exponent, self.line, self.picture, self.table, self.curves])
        self._show()

    def _show(self) -> None:
        choice = (self.place.value, self.step.value, self.exponent.value)
        self.line.value = f"<b>{html.escape(explain(*choice))}</b>"
        self.table.value = _table_html(fates(*choice))
        self.picture.value = self._drawing.render(*choice)


def _table_html(by_format: Mapping[str, Fate]) -> str:
    """A row for each format."""
    cell = 'style="text-align:right;padding:0 14px 0 0"'
    names = [name for name, _ in _facts(next(iter(by_format.values())))]
    head = "".join(f"<th {cell}>{name}</th>" for name in ("", *names))
    rows = [
        f"<th {cell}>{name}</th>" + "".join(f"<td {cell}>{html.escape(value)}</td>" for _, value in _facts(fate))
        for name, fate in by_format.items()
    ]
    return f"<table><tr>{head}</tr>{''.join(f'<tr>{row}</tr>' for row in rows)}</table>"


def explore_precision(place: str = "layer 1", step: int = 0, exponent: int = 0) -> widgets.VBox:
    """Gradients on the number lines of three formats, with a slider for the loss scale, to show in a notebook.

    ``place`` is one of ``PLACES``, ``step`` one of ``STEPS``, and the scale to begin with is ``2**exponent``. Returns
    an ipywidgets container. Raises ``ValueError`` for others.
    """
    box: widgets.VBox = PrecisionExplorer(place, step, exponent).box
    return box
