"""Explorer: the training loop, stepped call by call.

Two weights are fitted to a few points with a real optimiser, a real scheduler
and a layer of Dropout, by the calls of a training loop in a chosen order.
:func:`run_order` notes what every call left behind, :class:`LoopDrawing` draws
the path over the loss and the curve, :func:`explore_loop` puts sliders on it.
"""

from __future__ import annotations

import html
import math
import warnings
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

import ipywidgets as widgets
import torch
from torch import Tensor, nn

from autograder import plotting
from explorers import canvas

N_EPOCHS: Final = 3
N_BATCHES: Final = 4
RATES: Final = (0.02, 0.05, 0.1, 0.2, 0.4)
MAX_NORM: Final = 2.0

# The code of each call, as the listing and the table show it.
CALLS: Final = {
    "train": "model.train()",
    "zero": "optimiser.zero_grad()",
    "forward": "loss = loss_of(model(x), y)",
    "backward": "loss.backward()",
    "clip": f"clip_grad_norm_(weights, {MAX_NORM:g})",
    "step": "optimiser.step()",
    "scheduler": "scheduler.step()",
    "eval": "model.eval()",
    "validate": "validation = loss_of(model(all_x), all_y)",
}

Pair = tuple[float, float]


# --------------------------------------------------------------------------
# The numbers
# --------------------------------------------------------------------------


@dataclass(frozen=True)
class Order:
    """The calls of a training loop in some order, and what that order does.

    * ``name``: for the list of choices
    * ``batch``: calls for every batch (keys of ``CALLS``)
    * ``verdict``: one line of plain text
    * ``opening``, ``closing``: calls before and after the batches of an epoch
    * ``opens_each_epoch``: False if ``opening`` runs before the first epoch only
    """

    name: str
    batch: tuple[str, ...]
    verdict: str
    opening: tuple[str, ...] = ("train",)
    closing: tuple[str, ...] = ("eval", "validate")
    opens_each_epoch: bool = True


_RIGHT: Final = ("zero", "forward", "backward", "clip", "step", "scheduler")

RIGHT: Final = "zero, forward, backward, clip, step"

ORDERS: Final = {
    order.name: order
    for order in (
        Order(RIGHT, _RIGHT, "Right: the step sees the gradient of this batch only, and clipped."),
        Order(
            "forward, backward, clip, step, zero",
            ("forward", "backward", "clip", "step", "scheduler", "zero"),
            "Right too: clearing the gradient after the step is as good as before the next backward.",
        ),
        Order(
            "zero between backward and step",
            ("forward", "backward", "zero", "clip", "step", "scheduler"),
            "Wrong: the gradient is cleared before the step can use it, so the weights never move.",
        ),
        Order(
            "no zero",
            ("forward", "backward", "clip", "step", "scheduler"),
            "Wrong: each gradient is added to the old ones. The first step is right, the later ones are not.",
        ),
        Order(
            "step before backward",
            ("zero", "forward", "step", "backward", "clip", "scheduler"),
            "Wrong: at the step .grad is still empty, and the next zero_grad() throws the gradient away.",
        ),
        Order(
            "clip after step",
            ("zero", "forward", "backward", "step", "clip", "scheduler"),
            "Wrong: the step has used the gradient at its full length. Clipping it afterwards does nothing.",
        ),
        Order(
            "scheduler before step",
            ("zero", "forward", "backward", "clip", "scheduler", "step"),
            "Wrong: the first learning rate is never used, each step takes the rate of the next one.",
        ),
        Order(
            "no eval()",
            _RIGHT,
            "Wrong: Dropout acts while validating. The diamonds leave the curve, by chance, up or down.",
            closing=("validate",),
        ),
        Order(
            "no train() after validating",
            _RIGHT,
            "Wrong: from the second epoch on Dropout no longer acts in training. Nothing reports it.",
            opens_each_epoch=False,
        ),
    )
}


@dataclass(frozen=True)
class Moment:
    """What there is to see after one call.

    * ``call``: key of ``CALLS``, or "start"; ``epoch`` and ``batch`` count from 1,
      ``batch`` is 0 for calls that belong to no batch
    * ``weights``, ``gradient``, ``momentum``: pairs; None where torch holds None
    * ``rate``: the optimiser's learning rate; ``mode``: "train" or "eval"
    * ``loss``: what the last forward gave; ``validation``: what the last validation gave
    * ``n_steps``: how often the optimiser was called so far
    * ``warning``: what torch warned about during the call, or ""
    """

    call: str
    epoch: int
    batch: int
    weights: Pair
    gradient: Pair | None
    momentum: Pair | None
    rate: float
    mode: str
    loss: float | None
    validation: float | None
    n_steps: int
    warning: str = ""


@dataclass(frozen=True)
class Trace:
    """A whole run: ``moments[0]`` is before the first call.

    * ``curve``: loss over all good points, without Dropout, before the first
      and after each step of the optimiser
    * ``path``: the weights at these times
    * ``validations``: (number of steps, loss) for each validation of the loop
    """

    order: Order
    rate: float
    moments: tuple[Moment, ...]
    curve: tuple[float, ...]
    path: tuple[Pair, ...]
    validations: tuple[tuple[int, float], ...]


def _points() -> tuple[Tensor, Tensor]:
    """Sixteen points that two weights fit almost: (16, 2) inputs and (16, 1) targets."""
    generator = torch.Generator().manual_seed(3)
    x = torch.randn(4 * N_BATCHES, 2, generator=generator) * torch.tensor([1.0, 0.7])
    noise = 0.1 * torch.randn(4 * N_BATCHES, 1, generator=generator)
    return x, x @ torch.tensor([[1.2], [-0.8]]) + noise


_WRONG_BATCH: Final = 2
"""In this batch one target has lost its decimal point."""


def _batches() -> list[tuple[Tensor, Tensor]]:
    x, y = _points()
    batches = [(x[start : start + 4], y[start : start + 4].clone()) for start in range(0, len(x), 4)]
    batches[_WRONG_BATCH][1][1] *= 100
    return batches


def loss_at(weights: Tensor) -> Tensor:
    """Loss over all good points, without Dropout: ``weights`` (..., 2), result (...)."""
    x, y = _points()
    return ((weights @ x.T) - y[:, 0]).square().mean(dim=-1)


def calls_of(order: Order) -> list[tuple[str, int, int]]:
    """All calls of a run in turn, as (key of ``CALLS``, epoch, batch), counted from 1."""
    calls = []
    for epoch in range(1, N_EPOCHS + 1):
        if epoch == 1 or order.opens_each_epoch:
            calls += [(call, epoch, 0) for call in order.opening]
        calls += [(call, epoch, batch) for batch in range(1, N_BATCHES + 1) for call in order.batch]
        calls += [(call, epoch, 0) for call in order.closing]
    return calls


@lru_cache(maxsize=64)
def run_order(name: str, rate: float = 0.2) -> Trace:
    """Train by the order called ``name`` at learning rate ``rate`` and note every call.

    The same arguments give the same numbers. Leaves torch's global generator as
    it was. Raises ``ValueError`` for a name that is not in ``ORDERS`` or a rate
    that is not positive.
    """
    if name not in ORDERS:
        raise ValueError(f"unknown order {name!r}, expected one of {tuple(ORDERS)}")
    if not rate > 0:
        raise ValueError(f"the learning rate must be positive, got {rate}")
    order = ORDERS[name]
    with torch.random.fork_rng(devices=[]):
        # Dropout draws from the global generator.
        torch.manual_seed(0)
        run = _Run(rate)
        for call, epoch, batch in calls_of(order):
            run.do(call, epoch, batch)
    return Trace(order, rate, tuple(run.moments), tuple(run.curve), tuple(run.path), tuple(run.validations))


class _Run:
    """The things that a loop works on, and the notes about them."""

    def __init__(self, rate: float) -> None:
        self._model = nn.Sequential(nn.Dropout(0.2), nn.Linear(2, 1, bias=False))
        self._weight: Tensor = self._model[1].weight
        with torch.no_grad():
            self._weight.copy_(torch.tensor([[-0.9, 0.9]]))
        self._optimiser = torch.optim.SGD(self._model.parameters(), lr=rate, momentum=0.5)
        self._scheduler = torch.optim.lr_scheduler.ExponentialLR(self._optimiser, gamma=0.9)
        self._batches = _batches()
        self._all_x, self._all_y = _points()
        self._loss: Tensor | None = None
        self._validation: float | None = None
        self.moments: list[Moment] = []
        self.curve: list[float] = []
        self.path: list[Pair] = []
        self.validations: list[tuple[int, float]] = []
        self._note_step()
        self._note("start", 1, 0, "")

    def do(self, call: str, epoch: int, batch: int) -> None:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            self._call(call, batch)
        if call == "step":
            self._note_step()
        self._note(call, epoch, batch, str(caught[0].message) if caught else "")

    def _call(self, call: str, batch: int) -> None:
        if call == "train":
            self._model.train()
        elif call == "eval":
            self._model.eval()
        elif call == "zero":
            self._optimiser.zero_grad()
        elif call == "forward":
            x, y = self._batches[batch - 1]
            self._loss = nn.functional.mse_loss(self._model(x), y)
        elif call == "backward":
            assert self._loss is not None
            self._loss.backward()
        elif call == "clip":
            nn.utils.clip_grad_norm_(self._model.parameters(), MAX_NORM)
        elif call == "step":
            self._optimiser.step()
        elif call == "scheduler":
            self._scheduler.step()
        elif call == "validate":
            with torch.no_grad():
                self._validation = nn.functional.mse_loss(self._model(self._all_x), self._all_y).item()
            self.validations.append((len(self.curve) - 1, self._validation))

    def _note_step(self) -> None:
        weight = self._weight.detach()[0]
        self.curve.append(loss_at(weight).item())
        self.path.append(_pair(weight))

    def _note(self, call: str, epoch: int, batch: int, warning: str) -> None:
        gradient = self._weight.grad
        momentum = self._optimiser.state[self._weight].get("momentum_buffer")
        self.moments.append(
            Moment(
                call=call,
                epoch=epoch,
                batch=batch,
                weights=_pair(self._weight),
                gradient=None if gradient is None else _pair(gradient),
                momentum=None if momentum is None else _pair(momentum),
                rate=self._optimiser.param_groups[0]["lr"],
                mode="train" if self._model.training else "eval",
                loss=None if self._loss is None else self._loss.item(),
                validation=self._validation,
                n_steps=len(self.curve) - 1,
                warning=warning,
            )
        )


def _pair(tensor: Tensor) -> Pair:
    first, second = tensor.detach().flatten().tolist()
    return first, second


def explain(trace: Trace, number: int) -> str:
    """One line of plain text about what call ``number`` of the trace did (0: before the first)."""
    now = trace.moments[number]
    if number == 0:
        return "Before the first call: two weights, no gradient, no optimiser state."
    before = trace.moments[number - 1]
    if now.call in ("train", "eval"):
        acts = "acts" if now.mode == "train" else "does nothing"
        changed = "" if before.mode != now.mode else " (it was so before)"
        return f"The mode is {now.mode} now{changed}: Dropout {acts}. Weights and gradient are untouched."
    if now.call == "zero":
        held = "held nothing anyway" if before.gradient is None else f"held {_show(before.gradient)}"
        return f".grad {held}; now it holds None."
    if now.call == "forward":
        spoilt = " One target of this batch is 100 times too large." if now.batch - 1 == _WRONG_BATCH else ""
        return f"The loss of batch {now.batch} in {now.mode} mode is {now.loss:.3g}.{spoilt}"
    if now.call == "backward":
        assert now.gradient is not None
        if before.gradient is None:
            return f"The gradient of this loss is in .grad now: {_show(now.gradient)}."
        new = (now.gradient[0] - before.gradient[0], now.gradient[1] - before.gradient[1])
        return f"The gradient of this loss, {_show(new)}, was added to what .grad held, {_show(before.gradient)}."
    if now.call == "clip":
        return _explain_clip(before, now)
    if now.call == "step":
        if now.gradient is None:
            return ".grad is None, so the optimiser passed these weights over: nothing moved."
        return f"The weights moved by {math.dist(before.weights, now.weights):.3g}, to {_show(now.weights)}."
    if now.call == "scheduler":
        words = f"The learning rate went from {before.rate:.3g} to {now.rate:.3g}."
        return f"{words} torch warns that no optimiser.step() came first." if now.warning else words
    assert now.validation is not None
    good = trace.curve[now.n_steps]
    if now.mode == "train":
        return f"Validation in train mode: {now.validation:.3g}, by chance. Without Dropout it would be {good:.3g}."
    return f"Validation loss: {now.validation:.3g}. Weights and gradient are untouched."


def _explain_clip(before: Moment, now: Moment) -> str:
    if before.gradient is None or now.gradient is None:
        return ".grad is None, so there was nothing to clip."
    length = math.hypot(*before.gradient)
    if length <= MAX_NORM:
        return f"The gradient has length {length:.3g}, at most {MAX_NORM:g}: it stays as it is."
    late = "" if now.n_steps < _steps_due(now) else " The step had used it before that."
    return f"The gradient was {length:.3g} long and was shortened to {math.hypot(*now.gradient):.3g}.{late}"


def _steps_due(now: Moment) -> int:
    """How many steps there are once the step of this moment's batch was made."""
    return (now.epoch - 1) * N_BATCHES + now.batch


def _show(pair: Pair | None) -> str:
    return "None" if pair is None else f"({pair[0]:.3g}, {pair[1]:.3g})"


def describe(trace: Trace, number: int) -> str:
    """The state after call ``number`` as plain text: call, facts, :func:`explain`, the order's verdict."""
    now = trace.moments[number]
    facts = "  ".join(f"{name} {value}" for name, value in _facts(now))
    return "\n".join([_place(trace, number), facts, explain(trace, number), trace.order.verdict, summary(trace)])


def summary(trace: Trace) -> str:
    """One line of plain text about the curve of the whole run."""
    right = run_order(RIGHT, trace.rate)
    words = f"Loss before: {trace.curve[0]:.3g}; after {len(trace.curve) - 1} steps: {trace.curve[-1]:.3g}"
    return f"{words}; highest on the way: {max(trace.curve):.3g}. The right order ends at {right.curve[-1]:.3g}."


def _place(trace: Trace, number: int) -> str:
    now = trace.moments[number]
    if number == 0:
        return f"call 0 of {len(trace.moments) - 1}: (start)"
    where = f"epoch {now.epoch}" + (f", batch {now.batch}" if now.batch else "")
    return f"call {number} of {len(trace.moments) - 1}: {CALLS[now.call]}   [{where}]"


def _facts(now: Moment) -> list[tuple[str, str]]:
    return [
        ("weights", _show(now.weights)),
        (".grad", _show(now.gradient)),
        ("momentum", _show(now.momentum)),
        ("learning rate", f"{now.rate:.3g}"),
        ("mode", now.mode),
        ("loss", "-" if now.loss is None else f"{now.loss:.3g}"),
        ("validation", "-" if now.validation is None else f"{now.validation:.3g}"),
    ]


# --------------------------------------------------------------------------
# The drawing
# --------------------------------------------------------------------------

# What the map shows of the first and of the second weight.
_ACROSS: Final = (-2.2, 3.0)
_UP: Final = (-6.2, 1.8)
_LOWEST, _HIGHEST = 1e-2, 2e2


class LoopDrawing:
    """Draws moments of traces into one figure that is reused, since making figures is slow.

    Left the path of the weights over the loss, right the loss after each step,
    both beside those of the right order. The map, which never changes, is drawn
    once and laid under everything else as pixels.
    """

    def __init__(self, width: int = 900, height: int = 380) -> None:
        self._canvas = canvas.make_canvas(width, height)
        self._figure = self._canvas.figure
        self._map = self._figure.add_axes((0.07, 0.14, 0.38, 0.76))
        self._plot = self._figure.add_axes((0.55, 0.14, 0.43, 0.76))
        self._draw_background()
        plain = {"animated": True, "color": plotting.GREY, "linestyle": "--", "linewidth": 2}
        (self._right_path,) = self._map.plot([], [], **plain)
        (self._right_curve,) = self._plot.plot([], [], **plain)
        bold = {"animated": True, "color": plotting.BLUE, "linewidth": 2.2, "marker": "o", "markersize": 4}
        (self._path,) = self._map.plot([], [], **bold)
        (self._curve,) = self._plot.plot([], [], **bold)
        dot = {
            "animated": True,
            "color": plotting.ORANGE,
            "marker": "o",
            "markersize": 11,
            "markeredgecolor": plotting.INK,
        }
        (self._here,) = self._map.plot([], [], **dot)
        (self._now,) = self._plot.plot([], [], **dot)
        diamonds = {"animated": True, "color": plotting.PURPLE, "linestyle": "none", "marker": "D", "markersize": 8}
        (self._validations,) = self._plot.plot([], [], **diamonds)
        self._words = self._map.text(
            0.03, 0.94, "", transform=self._map.transAxes, fontsize=10, animated=True, color=plotting.INK
        )
        self._words.set_bbox({"facecolor": plotting.PAPER, "edgecolor": "none", "pad": 2})
        self._canvas.draw()
        self._background = self._canvas.copy_from_bbox(self._figure.bbox)

    def _draw_background(self) -> None:
        first, second = torch.linspace(*_ACROSS, 81), torch.linspace(*_UP, 81)
        loss = loss_at(torch.cartesian_prod(second, first).flip(-1)).view(81, 81)
        levels = [0.1, 0.5, 2, 4, 8, 12, 16]
        contours = self._map.contour(first, second, loss, levels, colors=plotting.GREY, linewidths=0.8)
        self._map.clabel(contours, fontsize=8, fmt="%g")
        self._map.set(xlim=_ACROSS, ylim=_UP)
        self._map.set_title("path of the weights (lines: equal loss)", fontsize=11)
        self._map.set_xlabel("first weight", fontsize=10)
        self._map.set_ylabel("second weight", fontsize=10)
        self._plot.set_yscale("log")
        self._plot.set(xlim=(-0.4, N_EPOCHS * N_BATCHES + 0.4), ylim=(_LOWEST, _HIGHEST))
        self._plot.set_title("loss (dashed: right order; diamond: validation)", fontsize=11)
        self._plot.set_xlabel("steps of the optimiser", fontsize=10)
        for axes in (self._map, self._plot):
            axes.tick_params(labelsize=9)

    def render(self, trace: Trace, number: int) -> bytes:
        """Draw ``trace`` up to call ``number``; returns the bytes of a PNG file."""
        now, right = trace.moments[number], run_order(RIGHT, trace.rate)
        path = [_on_map(weights) for weights in trace.path[: now.n_steps + 1]]
        curve = [_on_plot(loss) for loss in trace.curve]
        self._right_path.set_data(*zip(*map(_on_map, right.path), strict=True))
        self._right_curve.set_data(range(len(right.curve)), list(map(_on_plot, right.curve)))
        self._path.set_data(*zip(*path, strict=True))
        self._here.set_data(*zip(path[-1], strict=True))
        self._curve.set_data(range(now.n_steps + 1), curve[: now.n_steps + 1])
        self._now.set_data([now.n_steps], [curve[now.n_steps]])
        seen = [pair for pair in trace.validations if pair[0] < now.n_steps or _validated(trace, number, pair[0])]
        self._validations.set_data([steps for steps, _ in seen], [_on_plot(loss) for _, loss in seen])
        outside = _on_map(now.weights) != now.weights
        self._words.set_text(f"off the map: {_show(now.weights)}" if outside else "")
        return self._png()

    def _png(self) -> bytes:
        """Background and moving parts as a PNG; only the latter are drawn."""
        self._canvas.restore_region(self._background)
        for axes, parts in (
            (self._map, (self._right_path, self._path, self._here, self._words)),
            (self._plot, (self._right_curve, self._curve, self._validations, self._now)),
        ):
            for part in parts:
                axes.draw_artist(part)
        return canvas.png_of_pixels(self._canvas)


def _validated(trace: Trace, number: int, n_steps: int) -> bool:
    """Has the validation after ``n_steps`` steps run by call ``number``?"""
    return any(moment.call == "validate" and moment.n_steps == n_steps for moment in trace.moments[1 : number + 1])


def _on_map(weights: Pair) -> Pair:
    """The weights, moved to the border of the map where they lie outside."""
    first, second = (
        min(max(weight, low + 0.1), high - 0.1) for weight, (low, high) in zip(weights, (_ACROSS, _UP), strict=True)
    )
    return first, second


def _on_plot(loss: float) -> float:
    return min(max(loss, _LOWEST * 1.2), _HIGHEST / 1.5) if math.isfinite(loss) else _HIGHEST / 1.5


def render_png(trace: Trace, number: int | None = None) -> bytes:
    """Draw ``trace`` up to call ``number`` (default: the last) into a figure of its own; the bytes of a PNG file."""
    return LoopDrawing().render(trace, len(trace.moments) - 1 if number is None else number)


# --------------------------------------------------------------------------
# The widget
# --------------------------------------------------------------------------


class LoopExplorer:
    """The widget: an order, a learning rate, a slider over the calls, a drawing and a table.

    ``box`` is the container to show, ``trace`` the run that is shown.
    """

    def __init__(self, order: str = RIGHT, rate: float = 0.2) -> None:
        """Start with ``order`` (a name in ``ORDERS``) and ``rate`` (one of ``RATES``), before the first call.

        Raises ``ValueError`` for others.
        """
        if rate not in RATES:
            raise ValueError(f"the learning rate must be one of {RATES}, got {rate}")
        self.trace = run_order(order, rate)
        label = {"description_width": "90px"}
        self.order = widgets.Dropdown(
            options=list(ORDERS),
            value=order,
            description="order",
            layout=widgets.Layout(width="420px"),
            style=label,
        )
        self.rate = widgets.SelectionSlider(
            options=RATES, value=rate, description="learning rate", layout=widgets.Layout(width="320px"), style=label
        )
        self.call = widgets.IntSlider(
            value=0,
            min=0,
            max=len(self.trace.moments) - 1,
            description="call",
            layout=widgets.Layout(width="740px"),
            style=label,
        )
        self.line = widgets.HTML()
        self.verdict = widgets.HTML()
        self.table = widgets.HTML()
        self.listing = widgets.HTML()
        self.picture = widgets.Image(format="png", layout=widgets.Layout(max_width="100%"))
        self._drawing = LoopDrawing()
        self._busy = False
        for control in (self.order, self.rate):
            control.observe(lambda _change: self._choose(), names="value")
        self.call.observe(lambda _change: self._show(), names="value")
        state = widgets.HBox([self.listing, self.table], layout=widgets.Layout(flex_flow="row wrap"))
        controls = widgets.HBox([self.order, self.rate], layout=widgets.Layout(flex_flow="row wrap"))
        self.box = widgets.VBox([controls, self.call, self.line, self.verdict, self.picture, state])
        self._show()

    def _choose(self) -> None:
        """Another order or rate; the slider may have to move, which must not draw a second time."""
        self._busy = True
        try:
            self.trace = run_order(self.order.value, self.rate.value)
            self.call.max = len(self.trace.moments) - 1
        finally:
            self._busy = False
        self._show()

    def _show(self) -> None:
        if self._busy:
            return
        number = self.call.value
        self.line.value = (
            f"<b>{html.escape(_place(self.trace, number))}</b><br>{html.escape(explain(self.trace, number))}"
        )
        self.verdict.value = f"<b>{html.escape(self.trace.order.verdict)}</b> {html.escape(summary(self.trace))}"
        self.table.value = _table_html(self.trace, number)
        self.listing.value = _listing_html(self.trace, number)
        self.picture.value = self._drawing.render(self.trace, number)


def _table_html(trace: Trace, number: int) -> str:
    """The facts as a table; one that the last call changed also says what it was."""
    now, before = trace.moments[number], trace.moments[max(number - 1, 0)]
    rows = []
    for (name, value), (_, old) in zip(_facts(now), _facts(before), strict=True):
        words = f"<b>{html.escape(value)}</b> (was {html.escape(old)})" if value != old else html.escape(value)
        rows.append(f'<tr><th style="text-align:left;padding:0 12px 0 0">{name}</th><td>{words}</td></tr>')
    return f"<table>{''.join(rows)}</table>"


def _listing_html(trace: Trace, number: int) -> str:
    """The loop as code, with an arrow at the call that was made last."""
    now, order = trace.moments[number], trace.order
    lines: list[tuple[str, str]] = []
    opening = [(call, CALLS[call]) for call in order.opening]
    if not order.opens_each_epoch:
        lines += opening
    lines.append(("", f"for epoch in range({N_EPOCHS}):"))
    if order.opens_each_epoch:
        lines += [(call, f"    {code}") for call, code in opening]
    lines.append(("", "    for x, y in batches:"))
    lines += [(call, f"        {CALLS[call]}") for call in order.batch]
    lines += [(call, f"    {CALLS[call]}") for call in order.closing]
    marked = [f"{'→' if call and call == now.call else ' '} {html.escape(code)}" for call, code in lines]
    return f'<pre style="line-height:1.3;margin:0 40px 0 0">{"<br>".join(marked)}</pre>'


def explore_loop(order: str = RIGHT, rate: float = 0.2) -> widgets.VBox:
    """A training loop to step through call by call, to show in a notebook.

    ``order`` is a name in ``ORDERS`` and ``rate`` one of ``RATES`` to begin
    with. Returns an ipywidgets container. Raises ``ValueError`` for others.
    """
    explorer = LoopExplorer(order, rate)
    box: widgets.VBox = explorer.box
    return box
