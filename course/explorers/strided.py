"""Explorer: a small tensor drawn over its storage.

A tensor is a shape, a stride per dimension and an offset, laid over a flat
row of storage slots. This module runs a chain of real torch operations on a
small ``torch.arange`` tensor, reports which slot each index of the result
lands on (:func:`run_steps`), draws it (:class:`StridedDrawing`) and puts
sliders on it (:func:`explore_strides`).
"""

from __future__ import annotations

import html
import itertools
import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final

import ipywidgets as widgets
import torch
from matplotlib.axes import Axes
from matplotlib.collections import PolyCollection
from matplotlib.patches import FancyArrowPatch

from autograder import plotting
from explorers import canvas

OPERATIONS: Final = ("permute", "slice", "expand", "view", "reshape", "unfold", "contiguous")

BASE_SHAPES: Final[tuple[tuple[int, ...], ...]] = ((3, 4), (12,), (4,), (1, 4), (4, 1), (2, 3, 2))

# Beyond this the labels in the cells are too small to read on a projector.
MAX_CELLS: Final = 64

Shape = tuple[int, ...]


# --------------------------------------------------------------------------
# The numbers
# --------------------------------------------------------------------------


@dataclass(frozen=True)
class Step:
    """One operation of the chain, with whole-number arguments.

    Arguments by operation:

    * ``permute``: the order of the dimensions
    * ``slice``: dimension, start, stop, step
    * ``expand``, ``view``, ``reshape``: the new shape
    * ``unfold``: dimension, window size, step from window to window
    * ``contiguous``: none

    Raises ``ValueError`` for an operation that is not in ``OPERATIONS``.
    """

    operation: str
    arguments: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        if self.operation not in OPERATIONS:
            raise ValueError(f"unknown operation {self.operation!r}, expected one of {OPERATIONS}")

    def code(self) -> str:
        """The step as Python code to append to a tensor, e.g. ``.permute(1, 0)``."""
        if self.operation == "slice":
            dim, start, stop, step = self.arguments
            jump = "" if step == 1 else f":{step}"
            return "[" + ":, " * dim + f"{start}:{stop}{jump}]"
        return f".{self.operation}({', '.join(map(str, self.arguments))})"

    def apply(self, tensor: torch.Tensor) -> torch.Tensor:
        """Run the step on ``tensor`` (any shape, any dtype) and return the result.

        Whether the result is a view or a copy is up to torch. Raises whatever
        torch raises: ``RuntimeError``, ``IndexError`` or ``ValueError``.
        """
        if self.operation == "slice":
            dim, start, stop, step = self.arguments
            return tensor[(slice(None),) * dim + (slice(start, stop, step),)]
        if self.operation in ("unfold", "contiguous"):
            method: Callable[..., torch.Tensor] = getattr(tensor, self.operation)
            return method(*self.arguments)
        # A tuple, since permute() and view() without arguments mean something else.
        result: torch.Tensor = getattr(tensor, self.operation)(self.arguments)
        return result


@dataclass(frozen=True)
class Snapshot:
    """How a tensor lies on its storage after one step; strides and offset in elements."""

    code: str
    shape: Shape
    stride: Shape
    offset: int
    is_contiguous: bool
    shares_storage: bool


@dataclass(frozen=True)
class Refusal:
    """A step that torch refused: its code and torch's own message."""

    code: str
    message: str


@dataclass(frozen=True)
class StridedState:
    """Everything the drawing shows about the tensor at the end of the chain.

    * ``steps``: code of the steps that torch accepted, in order
    * ``shape``, ``stride``, ``offset``: as torch reports them, in elements
    * ``is_contiguous``: as torch reports it
    * ``shares_storage``: True while the tensor lies on the storage of the
      tensor the chain started from
    * ``storage``: the value in each slot of the storage the tensor lies on
    * ``cells``: index of the tensor -> slot of the storage
    * ``aliases``: slot -> number of indices that reach it, where more than one
    * ``history``: one :class:`Snapshot` per step, the first for the start
    * ``refusal``: the step torch refused, or None
    """

    steps: tuple[str, ...]
    shape: Shape
    stride: Shape
    offset: int
    is_contiguous: bool
    shares_storage: bool
    storage: tuple[int, ...]
    cells: Mapping[Shape, int]
    aliases: Mapping[int, int]
    history: tuple[Snapshot, ...]
    refusal: Refusal | None = None


def run_steps(shape: Sequence[int], steps: Sequence[Step] = ()) -> StridedState:
    """Run ``steps`` on an int64 ``torch.arange`` tensor of ``shape``.

    Stops at the first step torch refuses; the state then describes the tensor
    before that step and carries torch's message. Raises ``ValueError`` if
    ``shape`` is empty or has a size below 1.
    """
    if not shape or min(shape) < 1:
        raise ValueError(f"every size of the starting shape must be at least 1, got {tuple(shape)}")
    base = torch.arange(math.prod(shape)).view(tuple(shape))
    tensor, refusal = base, None
    history = [_snapshot("x", base, base)]
    for step in steps:
        try:
            tensor = step.apply(tensor)
        except (RuntimeError, IndexError, ValueError) as error:
            refusal = Refusal(step.code(), str(error).strip())
            break
        history.append(_snapshot(step.code(), tensor, base))
    return _state(tensor, history, refusal)


def _snapshot(code: str, tensor: torch.Tensor, base: torch.Tensor) -> Snapshot:
    shares = tensor.untyped_storage().data_ptr() == base.untyped_storage().data_ptr()
    return Snapshot(
        code=code,
        shape=tuple(tensor.shape),
        stride=tensor.stride(),
        offset=int(tensor.storage_offset()),
        is_contiguous=tensor.is_contiguous(),
        shares_storage=shares,
    )


def _state(tensor: torch.Tensor, history: list[Snapshot], refusal: Refusal | None) -> StridedState:
    last = history[-1]
    slots = tensor.untyped_storage().nbytes() // tensor.element_size()
    storage = tensor.as_strided((slots,), (1,), 0)
    # The same shape, stride and offset laid over slot numbers instead of
    # values: torch itself then says which slot each index reaches.
    slot_of = torch.arange(slots).as_strided(last.shape, last.stride, last.offset)
    indices = itertools.product(*map(range, last.shape))
    cells = dict(zip(indices, slot_of.flatten().tolist(), strict=True))
    visits = Counter(cells.values())
    return StridedState(
        steps=tuple(snapshot.code for snapshot in history[1:]),
        shape=last.shape,
        stride=last.stride,
        offset=last.offset,
        is_contiguous=last.is_contiguous,
        shares_storage=last.shares_storage,
        storage=tuple(storage.tolist()),
        cells=MappingProxyType(cells),
        aliases=MappingProxyType({slot: n for slot, n in sorted(visits.items()) if n > 1}),
        history=tuple(history),
        refusal=refusal,
    )


def explain(state: StridedState) -> str:
    """One line of plain text that says what the drawing of ``state`` shows."""
    if state.refusal is not None:
        return f"torch refused {state.refusal.code}; the drawing shows the tensor before it."
    if not state.cells:
        return "The tensor has no elements, so it reaches no slot at all."
    if not state.shares_storage:
        return f"A new storage: {len(state.storage)} elements were copied, so writes no longer reach x."
    if state.aliases:
        most = max(state.aliases.values())
        return (
            f"{_count(len(state.cells), 'cell')} on {_count(len(set(state.cells.values())), 'slot')}: "
            f"one slot is reached up to {most} times, so one write shows in up to {most} cells."
        )
    if not state.steps:
        return "The starting tensor: reading it row by row walks the storage from left to right."
    if state.is_contiguous:
        return "A view of x, no copy: reading it row by row still walks the storage from left to right."
    return "A view of x, no copy: reading it row by row now jumps around in the storage (not contiguous)."


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def describe(state: StridedState) -> str:
    """The chain as a plain text table, one line per step, then :func:`explain`."""
    width = max(len(snapshot.code) for snapshot in state.history)
    lines = [f"{snapshot.code:<{width}}  {_facts(snapshot)}" for snapshot in state.history]
    if state.refusal is not None:
        lines.append(f"{state.refusal.code}  refused: {state.refusal.message}")
    return "\n".join([*lines, explain(state)])


def _facts(snapshot: Snapshot) -> str:
    return (
        f"shape {snapshot.shape}  stride {snapshot.stride}  offset {snapshot.offset}  "
        f"{'contiguous' if snapshot.is_contiguous else 'not contiguous'}  "
        f"{_ownership(snapshot)}"
    )


def _ownership(snapshot: Snapshot) -> str:
    return "storage of x" if snapshot.shares_storage else "storage of its own"


# --------------------------------------------------------------------------
# The drawing
# --------------------------------------------------------------------------

# Lengths of the drawing, in cells.
_MARGIN: Final = 0.3
_LABEL: Final = 0.75
_ARC: Final = 0.62
_BLOCK_GAP: Final = 0.8
_SLOTS_PER_ROW: Final = 18
_SLOT_ROW: Final = 1.75
# Lengths in pixels.
_BIGGEST_CELL: Final = 50.0
_POINTS_PER_PIXEL: Final = 72 / canvas.DPI


class StridedDrawing:
    """Draws states into one figure that is reused, since making figures is slow.

    ``width`` is in pixels; the height follows from what there is to draw, so
    that cells stay readable. The figure is drawn by the Agg canvas directly:
    it needs no display and leaves pyplot's figures alone.
    """

    def __init__(self, width: int = 900) -> None:
        self._width = width
        self._canvas = canvas.make_canvas(width, width)  # the height is set for each picture
        self._figure = self._canvas.figure
        self._axes: Axes = self._figure.add_axes((0, 0, 1, 1))
        self._axes.set_axis_off()

    def render(self, state: StridedState) -> bytes:
        """Draw ``state`` and return the picture as the bytes of a PNG file."""
        axes = self._axes
        canvas.wipe(axes)
        layout = _Layout.of(state)
        cell = min(self._width / layout.width, _BIGGEST_CELL)
        self._figure.set_size_inches(self._width / canvas.DPI, layout.height * cell / canvas.DPI)
        axes.set_xlim(0, self._width / cell)
        # y grows downwards: the storage is on top, the tensor under it.
        axes.set_ylim(layout.height, 0)
        pen = _Pen(axes, cell * _POINTS_PER_PIXEL)
        _draw_storage(pen, state, layout)
        _draw_tensor(pen, state, layout)
        pen.finish()
        self._canvas.draw()
        return canvas.png_of_pixels(self._canvas)


def render_png(state: StridedState) -> bytes:
    """Draw ``state`` into a figure of its own; returns the bytes of a PNG file."""
    return StridedDrawing().render(state)


@dataclass(frozen=True)
class _Layout:
    """Where things go, in cells: sizes of the drawing and the top of its parts."""

    width: float
    height: float
    storage_top: float
    tensor_top: float
    blocks: tuple[Shape, ...]
    rows: int
    columns: int
    crowded: bool

    @staticmethod
    def of(state: StridedState) -> _Layout:
        """Blocks are the leading dimensions: a 3-d tensor is a row of 2-d grids."""
        padded = (1,) * (2 - len(state.shape)) + state.shape
        *leading, rows, columns = padded
        blocks = tuple(itertools.product(*map(range, leading)))
        crowded = len(state.cells) > MAX_CELLS
        storage_rows = math.ceil(len(state.storage) / _SLOTS_PER_ROW)
        storage_columns = min(len(state.storage), _SLOTS_PER_ROW)
        storage_top = _MARGIN + _LABEL + _ARC * len(state.shape)
        tensor_top = storage_top + _SLOT_ROW * storage_rows + _LABEL
        tensor_width, tensor_height = 0.0, 1.0
        if not crowded and state.cells:
            tensor_width = len(blocks) * (columns + _BLOCK_GAP)
            tensor_height = rows + (_LABEL if leading else 0.0)
        width = max(storage_columns, tensor_width) + 2 * _MARGIN
        height = tensor_top + tensor_height + _MARGIN
        return _Layout(width, height, storage_top, tensor_top, blocks, rows, columns, crowded)


class _Pen:
    """Text and boxes on the axes; text in cells shrinks with them, captions do not."""

    def __init__(self, axes: Axes, points: float) -> None:
        self.axes = axes
        self._points = points
        self._boxes: dict[int, list[list[tuple[float, float]]]] = {0: [], 1: [], 2: []}

    def text(self, x: float, y: float, words: str, size: float = 0.34, **options: Any) -> None:
        """Write ``words`` with its centre at (x, y); ``size`` is in cells."""
        settings = {"ha": "center", "va": "center", "color": plotting.INK} | options
        canvas.write(self.axes, x, y, words, fontsize=size * self._points, **settings)

    def caption(self, y: float, words: str, weight: str = "bold") -> None:
        """Write a line of ``words`` that starts at the left margin."""
        looks = {"ha": "left", "va": "center", "color": plotting.INK, "weight": weight}
        canvas.write(self.axes, _MARGIN, y, words, fontsize=11, **looks)

    def box(self, x: float, y: float, visits: int) -> None:
        """A slot or cell, its looks by how often it is reached; drawn by :meth:`finish`."""
        self._boxes[min(visits, 2)].append([(x, y), (x + 1, y), (x + 1, y + 1), (x, y + 1)])

    def finish(self) -> None:
        """Draw the boxes: dotted if unreached, plain if reached once, hatched if more."""
        for visits, looks in _BOX_LOOKS.items():
            # One artist for all boxes of a kind: one each would double the time.
            boxes = PolyCollection(self._boxes[visits], linewidths=1.2, zorder=1, **looks)
            self.axes.add_collection(boxes, autolim=False)


_BOX_LOOKS: Final[dict[int, dict[str, Any]]] = {
    0: {"facecolors": plotting.PAPER, "edgecolors": plotting.GREY, "linestyles": ":"},
    1: {"facecolors": plotting.PALE_BLUE, "edgecolors": plotting.INK},
    # The hatch is pale, since numbers have to be read on top of it.
    2: {
        "facecolors": plotting.PALE_ORANGE,
        "edgecolors": plotting.INK,
        "hatch": "//",
        "hatchcolors": plotting.MID_ORANGE,
    },
}


def _draw_storage(pen: _Pen, state: StridedState, layout: _Layout) -> None:
    visits = Counter(state.cells.values())
    pen.caption(_MARGIN + 0.2, _storage_caption(state, visits))
    for slot, value in enumerate(state.storage):
        x, y = _slot_corner(slot, layout)
        pen.box(x, y, visits[slot])
        pen.text(x + 0.5, y + 0.5, str(value))
        pen.text(x + 0.5, y + 1.18, str(slot), size=0.26, color=plotting.GREY)
        if visits[slot] > 1:
            pen.text(x + 0.5, y + 1.48, f"x{visits[slot]}", size=0.32, color=plotting.ORANGE, weight="bold")
    if state.cells:
        _draw_strides(pen, state, layout)


def _storage_caption(state: StridedState, visits: Counter[int]) -> str:
    """What the row of slots is, with a key for the looks that occur in it."""
    owner = "Storage of x" if state.shares_storage else "A new storage, not that of x"
    key = ["value inside, number below"]
    if len(visits) < len(state.storage):
        key.append("dotted: not reached")
    if state.aliases:
        key.append("hatched xN: reached N times")
    return f"{owner}: {_count(len(state.storage), 'slot')} ({'; '.join(key)})"


def _slot_corner(slot: int, layout: _Layout) -> tuple[float, float]:
    row, column = divmod(slot, _SLOTS_PER_ROW)
    return _MARGIN + column, layout.storage_top + _SLOT_ROW * row


def _draw_strides(pen: _Pen, state: StridedState, layout: _Layout) -> None:
    """An arrow per dimension, over the storage: one step along it from the first cell."""
    start_x, start_y = _slot_corner(state.offset, layout)
    for lane, dim in enumerate(reversed(range(len(state.shape)))):
        height = start_y - 0.3 - _ARC * lane
        words = f"dim {dim}: +{state.stride[dim]}"
        if state.shape[dim] == 1:
            words += " (size 1, never used)"
        end_slot = state.offset + state.stride[dim]
        end_x, end_y = _slot_corner(end_slot, layout)
        if state.shape[dim] == 1 or state.stride[dim] == 0 or end_y != start_y:
            if state.stride[dim] == 0:
                words += " (stays on the same slot)"
            pen.text(start_x + 0.5, height, words, size=0.3, ha="left", color=plotting.BLUE)
            continue
        arrow = FancyArrowPatch(
            (start_x + 0.5, height),
            (end_x + 0.5, height),
            arrowstyle="-|>",
            mutation_scale=9,
            shrinkA=0,
            shrinkB=0,
            linewidth=1.6,
            color=plotting.BLUE,
        )
        pen.axes.add_artist(arrow)
        pen.text(end_x + 0.7, height, words, size=0.3, ha="left", color=plotting.BLUE)


def _draw_tensor(pen: _Pen, state: StridedState, layout: _Layout) -> None:
    name = "x" + "".join(state.steps)
    title = f"Tensor: {name}   shape {state.shape}  stride {state.stride}  offset {state.offset}"
    pen.caption(layout.tensor_top - 0.4, title)
    if layout.crowded:
        words = f"{len(state.cells)} cells: too many to draw readably. The slots above still count them."
        pen.caption(layout.tensor_top + 0.4, words, weight="normal")
        return
    top = layout.tensor_top + (_LABEL if len(state.shape) > 2 else 0.0)
    for number, block in enumerate(layout.blocks):
        left = _MARGIN + number * (layout.columns + _BLOCK_GAP)
        if block:
            words = f"[{', '.join(map(str, block))}]"
            pen.text(left + layout.columns / 2, top - 0.35, words, size=0.3)
        for row, column in itertools.product(range(layout.rows), range(layout.columns)):
            index = (*block, row, column)[-len(state.shape) :]
            _draw_cell(pen, state, left + column, top + row, state.cells[index])


def _draw_cell(pen: _Pen, state: StridedState, x: float, y: float, slot: int) -> None:
    visits = state.aliases.get(slot, 1)
    pen.box(x, y, visits)
    pen.text(x + 0.5, y + 0.36, str(state.storage[slot]))
    pen.text(x + 0.5, y + 0.76, f"slot {slot}", size=0.22)


# --------------------------------------------------------------------------
# The widget
# --------------------------------------------------------------------------

NOTHING: Final = "(nothing)"


class StepControls:
    """The controls of one step: an operation and the arguments that go with it.

    ``box`` is the widget to show. ``offer(shape)`` fits the choices to the
    tensor the step is about to meet; ``step()`` reads the controls.
    """

    def __init__(self, title: str, start: Step | None, shape: Shape, changed: Callable[[], None]) -> None:
        self.operation = widgets.Dropdown(
            options=(NOTHING, *OPERATIONS),
            value=start.operation if start else NOTHING,
            description=title,
            layout=widgets.Layout(width="230px"),
        )
        self.choice = widgets.Dropdown(description="to", layout=widgets.Layout(width="260px"))
        self.numbers = tuple(
            widgets.IntSlider(layout=widgets.Layout(width="230px"), style={"description_width": "46px"})
            for _ in range(4)
        )
        self.box = widgets.HBox(
            [self.operation, self.choice, *self.numbers], layout=widgets.Layout(flex_flow="row wrap")
        )
        self._start = start
        self._offered: tuple[str, Shape] | None = None
        self.offer(shape)
        for control in (self.operation, self.choice, *self.numbers):
            control.observe(lambda _change: changed(), names="value")

    def offer(self, shape: Shape) -> None:
        """Fit the choices to a tensor of ``shape``; keeps them if nothing changed."""
        operation = self.operation.value
        if self._offered == (operation, shape):
            return
        self._offered = (operation, shape)
        choices = _choices(operation, shape)
        ranges = _ranges(operation, shape)
        self._offer_choices(choices)
        self._offer_numbers(ranges)
        # What the lesson asked to begin with holds for the first fit only.
        self._start = None

    def step(self) -> Step | None:
        """The step the controls describe, or None for "nothing"."""
        operation = self.operation.value
        if operation == NOTHING:
            return None
        if operation in ("slice", "unfold"):
            shown = [slider.value for slider in self.numbers if slider.layout.display != "none"]
            return Step(operation, tuple(shown))
        if operation == "contiguous":
            return Step(operation)
        return Step(operation, self.choice.value)

    def _offer_choices(self, choices: tuple[Shape, ...]) -> None:
        _show(self.choice, bool(choices))
        wanted = self._start.arguments if self._start else self.choice.value
        if wanted not in choices:
            if self._start and choices:
                choices = (*choices, wanted)
            else:
                wanted = choices[0] if choices else None
        self.choice.options = [(str(choice), choice) for choice in choices]
        self.choice.value = wanted if choices else None

    def _offer_numbers(self, ranges: tuple[_Range, ...]) -> None:
        for position, slider in enumerate(self.numbers):
            _show(slider, position < len(ranges))
            if position >= len(ranges):
                continue
            spec = ranges[position]
            value = self._start.arguments[position] if self._start else spec.value
            # In this order minimum never passes maximum, which ipywidgets refuses.
            slider.min, slider.max = 0, max(spec.high, value)
            slider.min = spec.low
            slider.value = value
            slider.description = spec.name


@dataclass(frozen=True)
class _Range:
    name: str
    low: int
    high: int
    value: int


def _show(widget: Any, visible: bool) -> None:
    widget.layout.display = None if visible else "none"


def _choices(operation: str, shape: Shape) -> tuple[Shape, ...]:
    """Arguments worth trying for an operation that takes a whole tuple."""
    if operation == "permute":
        orders = list(itertools.permutations(range(len(shape))))
        # The one that changes nothing goes last: the first is what one sees first.
        return (*reversed(orders[1:]), orders[0])
    if operation == "expand":
        return _expansions(shape)
    if operation in ("view", "reshape"):
        return _factorisations(math.prod(shape))
    return ()


def _expansions(shape: Shape) -> tuple[Shape, ...]:
    """Shapes to expand to; the last one is refused wherever no size is 1."""
    found = [(times, *shape) for times in (2, 3, 4)]
    for dim, size in enumerate(shape):
        if size == 1:
            found += [(*shape[:dim], times, *shape[dim + 1 :]) for times in (3, 4)]
    doubled = (2 * shape[0], *shape[1:])
    return tuple(dict.fromkeys([*found, doubled]))


def _factorisations(elements: int) -> tuple[Shape, ...]:
    """All ways to shape ``elements`` elements in one, two or three dimensions above 1."""
    divisors = [number for number in range(2, elements) if elements % number == 0]
    pairs = [(number, elements // number) for number in divisors]
    triples = [
        (first, second, elements // first // second)
        for first, second in itertools.product(divisors, repeat=2)
        if elements % (first * second) == 0 and first * second < elements
    ]
    return ((elements,), *pairs, *triples)


def _ranges(operation: str, shape: Shape) -> tuple[_Range, ...]:
    """The sliders of an operation that takes numbers; sizes come from the longest dimension."""
    last, longest = len(shape) - 1, max(shape, default=1)
    if operation == "slice":
        return (
            _Range("dim", 0, last, last),
            _Range("start", 0, longest, min(1, longest)),
            _Range("stop", 0, longest, longest),
            _Range("step", 1, max(longest, 1), 1),
        )
    if operation == "unfold":
        # One more than fits, so that the refusal can be met.
        return (
            _Range("dim", 0, last, last),
            _Range("size", 1, longest + 1, min(3, max(shape[last], 1))),
            _Range("step", 1, max(longest, 1), 1),
        )
    return ()


class StrideExplorer:
    """The widget: a starting shape, two steps, a table and the drawing.

    ``box`` is the container to show, ``state`` what is drawn at the moment.
    Everything is recomputed when a control moves.
    """

    def __init__(self, shape: Shape = (3, 4), steps: Sequence[Step] = ()) -> None:
        """Start from an arange of ``shape`` with up to two ``steps`` already set.

        Raises ``ValueError`` for more than two steps or a size below 1.
        """
        if len(steps) > 2:
            raise ValueError(f"the explorer has two steps, got {len(steps)}")
        self.state = run_steps(shape, steps)
        shapes = tuple(dict.fromkeys([*BASE_SHAPES, tuple(shape)]))
        self.shape = widgets.Dropdown(
            options=[(f"arange as {option}", option) for option in shapes],
            value=tuple(shape),
            description="x",
            layout=widgets.Layout(width="260px"),
        )
        self._busy = False
        self._drawing = StridedDrawing()
        self.steps = tuple(
            StepControls(
                f"then {number + 1}",
                steps[number] if number < len(steps) else None,
                self._shape_before(number),
                self._update,
            )
            for number in range(2)
        )
        self.line = widgets.HTML()
        self.table = widgets.HTML()
        self.picture = widgets.Image(format="png", layout=widgets.Layout(max_width="100%"))
        self.shape.observe(lambda _change: self._update(), names="value")
        rows = [self.shape, *(controls.box for controls in self.steps)]
        self.box = widgets.VBox([*rows, self.line, self.picture, self.table])
        self._update()

    def _shape_before(self, number: int) -> Shape:
        history = self.state.history
        return history[min(number, len(history) - 1)].shape

    def _update(self) -> None:
        """Recompute and redraw; the controls it resets on the way must not call it again."""
        if self._busy:
            return
        self._busy = True
        try:
            chain: list[Step] = []
            self.state = run_steps(self.shape.value)
            for controls in self.steps:
                # Past a refused step there is no tensor to fit the controls to.
                if self.state.refusal is not None:
                    break
                controls.offer(self.state.shape)
                step = controls.step()
                if step is not None:
                    chain.append(step)
                    self.state = run_steps(self.shape.value, chain)
            self._show_state()
        finally:
            self._busy = False

    def _show_state(self) -> None:
        self.line.value = _line_html(self.state)
        self.table.value = _table_html(self.state)
        self.picture.value = self._drawing.render(self.state)


def _line_html(state: StridedState) -> str:
    line = f"<b>{html.escape(explain(state))}</b>"
    if state.refusal is None:
        return line
    return f"{line}<br>torch says: <code>{html.escape(state.refusal.message)}</code>"


def _table_html(state: StridedState) -> str:
    """The chain as a table; a stride that differs from the line above is marked."""
    heads = ("step", "shape", "stride", "offset", "contiguous", "lies on")
    rows = ["".join(f'<th style="text-align:left;padding:0 12px 0 0">{head}</th>' for head in heads)]
    before: Snapshot | None = None
    for now in state.history:
        stride = str(now.stride)
        if before is not None and before.stride != now.stride:
            stride = f"{stride} (was {before.stride})"
        facts = (
            f"<code>{html.escape(now.code)}</code>",
            str(now.shape),
            stride,
            str(now.offset),
            "yes" if now.is_contiguous else "no",
            _ownership(now),
        )
        rows.append("".join(f'<td style="padding:0 12px 0 0">{fact}</td>' for fact in facts))
        before = now
    return "<table>" + "".join(f"<tr>{row}</tr>" for row in rows) + "</table>"


def explore_strides(shape: Shape = (3, 4), steps: Sequence[Step] = ()) -> widgets.VBox:
    """Sliders over a small tensor drawn on its storage, to show in a notebook.

    ``shape`` is that of the starting ``torch.arange`` tensor (int64), ``steps``
    up to two operations that are set to begin with. Returns an ipywidgets
    container. Raises ``ValueError`` for more than two steps or a size below 1.
    """
    explorer = StrideExplorer(shape, steps)
    box: widgets.VBox = explorer.box
    return box
