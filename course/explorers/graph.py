"""Explorer: the autograd graph of a small expression, built while it runs.

:mod:`explorers.graph_run` runs the expression and writes down what torch did.
This module draws any moment of that run (:class:`GraphDrawing`) and puts
controls on it (:func:`explore_graph`).
"""

from __future__ import annotations

import html
from dataclasses import dataclass, field
from typing import Any, Final

import ipywidgets as widgets
from matplotlib.axes import Axes
from matplotlib.patches import FancyArrowPatch, Rectangle
from matplotlib.path import Path

from autograder import plotting
from explorers import canvas
from explorers.graph_run import EDITS as EDITS
from explorers.graph_run import EXPRESSIONS as EXPRESSIONS
from explorers.graph_run import MOMENTS as MOMENTS
from explorers.graph_run import Box, GraphRun, Moment, expression_named, number, rows_at
from explorers.graph_run import Edit as Edit
from explorers.graph_run import Saved as Saved
from explorers.graph_run import describe as describe
from explorers.graph_run import explain as explain
from explorers.graph_run import run_expression as run_expression

# --------------------------------------------------------------------------
# The drawing
# --------------------------------------------------------------------------

# Lengths in pixels.
_WIDTH: Final = 980
_HEIGHT: Final = 430
_TOP: Final = 130
_BOX_HEIGHT: Final = 168
_LINE: Final = 23
_MOST_BOXES: Final = 6


class GraphDrawing:
    """Draws moments of runs into one figure that is reused, since making figures is slow.

    Statements stand side by side in the order in which they run. Arrows above
    them lead from a value to the statements that read it, arrows below them
    carry gradients back. Every picture has the same size, so that nothing
    jumps when a slider moves.
    """

    def __init__(self) -> None:
        self._canvas = canvas.make_canvas(_WIDTH, _HEIGHT)
        self._figure = self._canvas.figure
        self._axes: Axes = self._figure.add_axes((0, 0, 1, 1))
        self._axes.set_axis_off()
        self._axes.set_xlim(0, _WIDTH)
        # y grows downwards, as one reads.
        self._axes.set_ylim(_HEIGHT, 0)

    def render(self, run: GraphRun, step: int = -1) -> bytes:
        """Draw moment ``step`` of ``run`` and return the picture as the bytes of a PNG file."""
        canvas.wipe(self._axes)
        _Sketch(self._axes, run, run.moments[step]).draw()
        self._canvas.draw()
        return canvas.png_of_pixels(self._canvas)


def render_png(run: GraphRun, step: int = -1) -> bytes:
    """Draw moment ``step`` of ``run`` into a figure of its own; returns the bytes of a PNG file."""
    return GraphDrawing().render(run, step)


@dataclass
class _Sketch:
    """One drawing in progress."""

    axes: Axes
    run: GraphRun
    moment: Moment
    pitch: float = field(init=False)
    width: float = field(init=False)

    def __post_init__(self) -> None:
        self.pitch = (_WIDTH - 20) / max(len(self.run.statements), _MOST_BOXES)
        self.width = self.pitch - 18

    def draw(self) -> None:
        self._write(12, 16, "forward: who reads whom", color=plotting.GREY, ha="left")
        self._write(12, _HEIGHT - 14, "backward: gradients passed on", color=plotting.GREY, ha="left")
        for at in range(len(self.run.statements)):
            if at < len(self.moment.memory):
                self._box(at)
            else:
                self._frame(at, facecolor=plotting.PAPER, edgecolor=plotting.GREY, linestyle=":")
                self._write(self._middle(at), _TOP + 18, self.run.statements[at], color=plotting.GREY)
        for at in range(1, len(self.moment.memory)):
            for source in dict.fromkeys(self.run.boxes[at].reads):
                self._read(source, at)
        for (source, target), values in self.moment.flows.items():
            self._flow(source, target, values)

    def _box(self, at: int) -> None:
        box, (value, version) = self.run.boxes[at], self.moment.memory[at]
        broken = self.moment.broken == at
        looks: dict[str, Any] = {"facecolor": plotting.PALE_BLUE if at in self.moment.arrived else plotting.PAPER}
        if box.is_edit:
            looks = {"facecolor": plotting.PALE_ORANGE, "linestyle": "--"}
        if broken:
            looks = {"facecolor": plotting.PALE_ORANGE, "edgecolor": plotting.ORANGE, "linewidth": 3.5, "hatch": "//"}
            looks["hatchcolor"] = plotting.PALE_GREY
        self._frame(at, **looks)
        overwritten = value != box.value
        lines: list[tuple[str, dict[str, Any]]] = [
            (box.code, {"weight": "bold"}),
            (f"{number(box.value)} → {number(value)}" if overwritten else f"value {number(value)}", {}),
            (f"version {version}", {}),
            (box.node or "no node", {"size": 8.5}),
            (self._saved(box), {"size": 9, "color": plotting.INK if box.saved else plotting.GREY}),
        ]
        if overwritten:
            lines[1][1].update(color=plotting.ORANGE, weight="bold")
        if broken:
            lines.append(("BREAKS HERE", {"color": plotting.ORANGE, "weight": "bold"}))
        elif at in self.moment.arrived:
            arrived = self.moment.arrived[at]
            lines.append((f"gradient {number(arrived)}", {"color": plotting.BLUE, "weight": "bold"}))
        for line, (words, options) in enumerate(lines):
            self._write(self._middle(at), _TOP + 18 + _LINE * line + (6 if line > 2 else 0), words, **options)

    def _saved(self, box: Box) -> str:
        if box.node == "AccumulateGrad":
            return ""
        return "saves " + (", ".join(f"{saved.name} v{saved.version}" for saved in box.saved) or "nothing")

    def _read(self, source: int, at: int) -> None:
        hidden = self.run.boxes[at].node is None
        self._arc(source, at, _TOP, -1, plotting.GREY, ":" if hidden else "-")

    def _flow(self, source: int, target: int, values: tuple[float, ...]) -> None:
        peak = self._arc(source, target, _TOP + _BOX_HEIGHT, 1, plotting.BLUE, "-")
        middle = (self._middle(source) + self._middle(target)) / 2
        words = " + ".join(map(number, values))
        # On paper of its own, since other arrows may pass behind it.
        paper = {"facecolor": plotting.PAPER, "edgecolor": "none", "pad": 0.8}
        self._write(middle, peak + 1, words, color=plotting.BLUE, size=9.5, weight="bold", bbox=paper)

    def _arc(self, source: int, target: int, y: float, side: int, color: str, linestyle: str) -> float:
        """A curved arrow between two boxes, above or below them; returns how far it goes."""
        span = abs(source - target)
        height = 14 + 20 * span
        direction = 1 if target > source else -1
        # Arrows leave a box on the side they go to, and arrive on the side they come from.
        start = self._middle(source) + direction * self.width * 0.22
        end = self._middle(target) - direction * self.width * 0.22
        control = y + side * height * 4 / 3
        path = Path([(start, y), (start, control), (end, control), (end, y)], [Path.MOVETO] + [Path.CURVE4] * 3)
        arrow = FancyArrowPatch(
            path=path, arrowstyle="-|>", mutation_scale=11, linewidth=1.6, color=color, linestyle=linestyle
        )
        self.axes.add_artist(arrow)
        return y + side * height

    def _frame(self, at: int, **looks: Any) -> None:
        settings = {"edgecolor": plotting.INK, "linewidth": 1.2} | looks
        left = self._middle(at) - self.width / 2
        # Not add_patch, which would take the time to fit the axes' limits to it.
        self.axes.add_artist(Rectangle((left, _TOP), self.width, _BOX_HEIGHT, **settings))

    def _middle(self, at: int) -> float:
        return 10 + self.pitch * (at + 0.5)

    def _write(self, x: float, y: float, words: str, size: float = 10, **options: Any) -> None:
        settings = {"ha": "center", "va": "center", "color": plotting.INK} | options
        canvas.write(self.axes, x, y, words, fontsize=size, **settings)


# --------------------------------------------------------------------------
# The widget
# --------------------------------------------------------------------------

NOTHING: Final = "(no edit)"

_LEAST: Final = -3.0
_MOST: Final = 3.0

_EDIT_NAMES: Final = {
    NOTHING: NOTHING,
    "in place: add_(1)": "add_",
    "in place: relu_()": "relu_",
    "behind its back: .data.add_(1)": "data",
    "cut off: detach()": "detach",
}


class GraphExplorer:
    """The widget: an expression, its ``x``, an edit, a slider through the run, the drawing and a table.

    ``box`` is the container to show, ``run`` what was run last. A move of
    ``step`` only draws; any other move runs the expression again.
    """

    def __init__(self, name: str = "x*x + 2*x + 1", x: float | None = None, edit: Edit | None = None) -> None:
        """Start with the expression ``name`` at ``x`` (its own start if None), with ``edit`` set.

        Raises ``ValueError`` for an unknown expression or target, or an ``x`` beyond the slider.
        """
        expression = expression_named(name)
        x = expression.start if x is None else x
        if not _LEAST <= x <= _MOST:
            raise ValueError(f"x must be from {_LEAST} to {_MOST}, got {x}")
        self.run = run_expression(name, x, edit)
        wide, narrow = widgets.Layout(width="340px"), widgets.Layout(width="260px")
        self.expression = widgets.Dropdown(options=list(EXPRESSIONS), value=name, description="y is", layout=wide)
        self.x = widgets.FloatSlider(value=x, min=_LEAST, max=_MOST, step=0.25, description="x", layout=wide)
        self.edit = widgets.Dropdown(
            options=list(_EDIT_NAMES.items()), value=edit.kind if edit else NOTHING, description="edit", layout=wide
        )
        self.target = widgets.Dropdown(
            options=expression.names, value=edit.target if edit else "a", description="of", layout=narrow
        )
        self.when = widgets.Dropdown(
            options=MOMENTS, value=edit.when if edit else MOMENTS[1], description="when", layout=narrow
        )
        last = len(self.run.moments) - 1
        self.step = widgets.IntSlider(
            value=last, min=0, max=last, description="step", readout=False, layout=widgets.Layout(width="620px")
        )
        self.line = widgets.HTML()
        self.table = widgets.HTML()
        self.picture = widgets.Image(format="png", layout=widgets.Layout(max_width="100%"))
        self._drawing = GraphDrawing()
        self._busy = False
        self.expression.observe(self._new_expression, names="value")
        for control in (self.x, self.edit, self.target, self.when):
            control.observe(lambda _change: self._run(), names="value")
        self.step.observe(lambda _change: self._show(), names="value")
        row = widgets.Layout(flex_flow="row wrap")
        self.box = widgets.VBox(
            [
                widgets.HBox([self.expression, self.x], layout=row),
                widgets.HBox([self.edit, self.target, self.when], layout=row),
                self.step,
                self.line,
                self.picture,
                self.table,
            ]
        )
        self._show()

    def _new_expression(self, _change: object) -> None:
        """Fit the other controls to the new expression; they must not run anything on the way."""
        self._busy = True
        try:
            expression = EXPRESSIONS[self.expression.value]
            wanted = self.target.value
            self.target.options = expression.names
            self.target.value = wanted if wanted in expression.names else "a"
            self.x.value = expression.start
        finally:
            self._busy = False
        self._run()

    def _run(self) -> None:
        if self._busy:
            return
        self._busy = True
        try:
            edit = None
            if self.edit.value != NOTHING:
                edit = Edit(self.edit.value, self.target.value, self.when.value)
            self.run = run_expression(self.expression.value, self.x.value, edit)
            at_the_end = self.step.value == self.step.max
            self.step.max = len(self.run.moments) - 1
            if at_the_end:
                self.step.value = self.step.max
        finally:
            self._busy = False
        self._show()

    def _show(self) -> None:
        if self._busy:
            return
        for control in (self.target, self.when):
            control.disabled = self.edit.value == NOTHING
        step = self.step.value
        self.line.value = f"<b>Step {step} of {self.step.max}.</b> {html.escape(explain(self.run, step))}"
        self.table.value = _table_html(self.run, step)
        self.picture.value = self._drawing.render(self.run, step)


def _table_html(run: GraphRun, step: int) -> str:
    heads = ("statement", "value now", "version", "node", "saved for backward", "gradient that arrived")
    lines = ["".join(f'<th style="text-align:left;padding:0 12px 0 0">{head}</th>' for head in heads)]
    for row in rows_at(run, step):
        lines.append("".join(f'<td style="padding:0 12px 0 0">{html.escape(cell)}</td>' for cell in row))
    return "<table>" + "".join(f"<tr>{line}</tr>" for line in lines) + "</table>"


def explore_graph(name: str = "x*x + 2*x + 1", x: float | None = None, edit: Edit | None = None) -> widgets.VBox:
    """The graph of a small expression, step by step, to show in a notebook.

    ``name`` is a key of ``EXPRESSIONS``, ``x`` a number from -3 to 3, ``edit``
    an :class:`Edit` that is set to begin with. Returns an ipywidgets container.
    Raises ``ValueError`` for an unknown expression or target, or another ``x``.
    """
    explorer = GraphExplorer(name, x, edit)
    box: widgets.VBox = explorer.box
    return box
