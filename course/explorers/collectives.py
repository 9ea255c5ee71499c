"""Explorer: collectives, with ranks as threads that keep logical time.

:func:`run_ranks_as_threads` runs one function on several threads that can talk to each other through a
:class:`Communicator`, and returns a :class:`Timeline`: who computed, who waited, who gave what to whom, and who waits for
ever. Time is counted in steps that the function itself declares, so a run gives the same timeline on every machine.
:class:`TimelineDrawing` draws it, :func:`explore_collectives` puts a slider on it.
"""

from __future__ import annotations

import functools
import html
import inspect
import operator
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from types import CodeType
from typing import Any, Final

import ipywidgets as widgets
import numpy as np
from matplotlib.patches import FancyArrowPatch, Rectangle
from matplotlib.path import Path
from PIL import Image

from autograder import plotting
from explorers import canvas

WORLD_SIZES: Final = (2, 3, 4)

Program = Callable[[int, int, "Communicator"], Any]


# Ranks as threads


@dataclass(frozen=True)
class Span:
    """What one rank did from ``begin`` to ``end`` (None: for ever).

    ``kind`` is "compute", "wait" or "talk" (the collective itself), ``label`` what it computed or the collective's call,
    ``line`` the line of the program, counted from its ``def`` (-1 if unknown).
    """

    rank: int
    kind: str
    label: str
    begin: int
    end: int | None
    line: int


@dataclass(frozen=True)
class Exchange:
    """A collective that took place, from ``begin`` to ``end``: what each rank gave and got, by rank."""

    call: str
    root: int | None
    begin: int
    end: int
    given: tuple[Any, ...]
    got: tuple[Any, ...]


@dataclass(frozen=True)
class Deadlock:
    """Why nobody can go on: the call that each rank waits in, and for whom it waits; other ranks have finished."""

    calls: dict[int, str]
    waits_for: dict[int, tuple[int, ...]]

    def __str__(self) -> str:
        words = [f"rank {rank} waits in {call} for {_ranks(self.waits_for[rank])}" for rank, call in self.calls.items()]
        finished = sorted({other for others in self.waits_for.values() for other in others} - set(self.calls))
        if finished:
            words.append(f"{_ranks(finished)} {'have' if len(finished) > 1 else 'has'} finished")
        return f"Deadlock: {'; '.join(words)}."


@dataclass(frozen=True)
class Timeline:
    """A whole run. ``values`` is what each rank returned (None for one that never came back)."""

    world_size: int
    spans: tuple[Span, ...]
    exchanges: tuple[Exchange, ...]
    values: tuple[Any, ...]
    deadlock: Deadlock | None

    @property
    def end(self) -> int:
        """The last step; a deadlock is shown for two steps, although it never ends."""
        last = max((span.begin if span.end is None else span.end for span in self.spans), default=0)
        return last + 2 if self.deadlock else last

    def waited(self, rank: int) -> int:
        """For how many steps ``rank`` waited, up to :attr:`end`."""
        waits = [span for span in self.spans if span.rank == rank and span.kind == "wait"]
        return sum((self.end if span.end is None else span.end) - span.begin for span in waits)


class _NeverBack(BaseException):
    """Ends the thread of a rank that would wait for ever. Not an Exception: no program should catch it."""


@dataclass(frozen=True)
class _Request:
    call: str
    root: int | None
    value: Any
    begin: int
    line: int

    @property
    def shown(self) -> str:
        return self.call if self.root is None else f"{self.call} from {self.root}"


@dataclass
class _World:
    """What the threads share; every access holds ``changed``."""

    world_size: int
    code: CodeType | None
    changed: threading.Condition = field(default_factory=threading.Condition)
    pending: dict[int, _Request] = field(default_factory=dict)
    results: dict[int, tuple[int, Any]] = field(default_factory=dict)
    finished: set[int] = field(default_factory=set)
    spans: list[Span] = field(default_factory=list)
    exchanges: list[Exchange] = field(default_factory=list)
    deadlock: Deadlock | None = None

    def settle(self) -> None:
        """Once every rank waits or has finished: carry out the collective that they agree on, or call it a deadlock."""
        if not self.pending or len(self.pending) + len(self.finished) < self.world_size:
            return
        requests = [self.pending[rank] for rank in sorted(self.pending)]
        if not self.finished and len({request.shown for request in requests}) == 1:
            self._exchange(requests)
        else:
            self._give_up()
        self.pending.clear()
        self.changed.notify_all()

    def _exchange(self, requests: list[_Request]) -> None:
        given = tuple(request.value for request in requests)
        call, root = requests[0].call, requests[0].root
        got: tuple[Any, ...] = given
        if call == "all_reduce":
            got = (functools.reduce(operator.add, given),) * self.world_size
        elif call == "all_gather":
            got = tuple(list(given) for _ in given)  # each rank gets a list of its own
        elif root is not None:
            got = (given[root],) * self.world_size
        begin = max(request.begin for request in requests)
        for rank, request in enumerate(requests):
            if request.begin < begin:
                self.spans.append(Span(rank, "wait", request.shown, request.begin, begin, request.line))
            self.spans.append(Span(rank, "talk", request.shown, begin, begin + 1, request.line))
            self.results[rank] = begin + 1, got[rank]
        self.exchanges.append(Exchange(call, root, begin, begin + 1, given, got))

    def _give_up(self) -> None:
        calls = {rank: self.pending[rank].shown for rank in sorted(self.pending)}
        waits_for = {
            rank: tuple(other for other in range(self.world_size) if calls.get(other) != call)
            for rank, call in calls.items()
        }
        self.deadlock = Deadlock(calls, waits_for)
        for rank, request in self.pending.items():
            self.spans.append(Span(rank, "wait", request.shown, request.begin, None, request.line))


class Communicator:
    """What a rank talks through. Each collective returns when *all* ranks have called it, and takes one step.

    (A real ``broadcast`` may let its sender go on earlier. Nothing should rely on that.)
    """

    def __init__(self, rank: int, world: _World) -> None:
        self._rank = rank
        self._world = world
        self._clock = 0

    def compute(self, label: str, steps: int = 1) -> None:
        """Be busy for some steps of logical time."""
        span = Span(self._rank, "compute", label, self._clock, self._clock + steps, self._line())
        with self._world.changed:
            self._world.spans.append(span)
        self._clock += steps

    def all_reduce(self, value: Any) -> Any:
        """The sum over all ranks, added in the order of the ranks."""
        return self._collective("all_reduce", None, value)

    def broadcast(self, value: Any, root: int = 0) -> Any:
        """The value of rank ``root``."""
        return self._collective("broadcast", root, value)

    def all_gather(self, value: Any) -> list[Any]:
        """The values of all ranks, by rank."""
        gathered: list[Any] = self._collective("all_gather", None, value)
        return gathered

    def barrier(self) -> None:
        """Wait until all ranks are here."""
        self._collective("barrier", None, None)

    def _collective(self, call: str, root: int | None, value: Any) -> Any:
        world = self._world
        request = _Request(call, root, value, self._clock, self._line())
        with world.changed:
            world.pending[self._rank] = request
            world.settle()
            while self._rank not in world.results:
                if world.deadlock:
                    raise _NeverBack
                world.changed.wait()
            self._clock, result = world.results.pop(self._rank)
        return result

    def _line(self) -> int:
        frame = sys._getframe(1)
        while frame is not None and frame.f_code is not self._world.code:
            frame = frame.f_back  # type: ignore[assignment]
        return -1 if frame is None else frame.f_lineno - frame.f_code.co_firstlineno

    def _finish(self) -> None:
        with self._world.changed:
            self._world.finished.add(self._rank)
            self._world.settle()


def run_ranks_as_threads(function: Program, world_size: int) -> Timeline:
    """Run ``function(rank, world_size, comm)`` on ``world_size`` threads at once, and note what they did.

    ``comm`` is the rank's own :class:`Communicator`. A deadlock ends the run and stands in the timeline. If ranks raise
    errors, that of the lowest rank is raised here, with a note that names it.
    """
    world = _World(world_size, getattr(function, "__code__", None))
    values: list[Any] = [None] * world_size
    errors: dict[int, BaseException] = {}

    def live(rank: int) -> None:
        comm = Communicator(rank, world)
        try:
            values[rank] = function(rank, world_size, comm)
        except _NeverBack:
            return
        except BaseException as error:
            errors[rank] = error
        comm._finish()

    threads = [threading.Thread(target=live, args=(rank,), daemon=True) for rank in range(world_size)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        first = min(errors)
        errors[first].add_note(f"(raised on rank {first})")
        raise errors[first]
    spans = tuple(sorted(world.spans, key=lambda span: (span.begin, span.rank)))  # threads note in any order
    return Timeline(world_size, spans, tuple(world.exchanges), tuple(values), world.deadlock)


# Programs to look at. Their source is shown, so it is written to be read.


def _mean_of_gradients(rank: int, world_size: int, comm: Communicator) -> float:
    weight = 1.0
    for batch in range(2):
        comm.compute("backward", steps=2)
        gradient = float(rank + batch)
        mean = comm.all_reduce(gradient) / world_size
        comm.compute("step")
        weight = weight - 0.1 * mean
    return weight


def _start_from_rank_0(rank: int, world_size: int, comm: Communicator) -> float:
    comm.compute("init", steps=1 + rank)
    weight = float(10 * rank)  # drawn with another seed on each rank
    weight = comm.broadcast(weight, root=0)
    comm.compute("train", steps=2)
    return weight


def _barrier_for_rank_0(rank: int, world_size: int, comm: Communicator) -> None:
    comm.compute("train", steps=2)
    if rank == 0:
        comm.compute("save", steps=3)
        comm.barrier()
    comm.compute("load")


def _barrier_for_all(rank: int, world_size: int, comm: Communicator) -> None:
    comm.compute("train", steps=2)
    if rank == 0:
        comm.compute("save", steps=3)
    comm.barrier()
    comm.compute("load")


def _unequal_batches(rank: int, world_size: int, comm: Communicator) -> float:
    weight, n_batches = 1.0, 3 if rank == 0 else 2
    for batch in range(n_batches):
        comm.compute(f"batch {batch}")
        weight = weight - comm.all_reduce(0.5) / world_size
    hits = 10.0 * n_batches
    return comm.all_reduce(hits)


def _stop_together(rank: int, world_size: int, comm: Communicator) -> float:
    weight, n_batches = 1.0, 3 if rank == 0 else 2
    n_batches = min(comm.all_gather(n_batches))
    for batch in range(n_batches):
        comm.compute(f"batch {batch}")
        weight = weight - comm.all_reduce(0.5) / world_size
    hits = 10.0 * n_batches
    return comm.all_reduce(hits)


def _slow_rank(rank: int, world_size: int, comm: Communicator) -> float:
    weight = 1.0
    for _ in range(2):
        comm.compute("backward", steps=4 if rank == 1 else 1)
        mean = comm.all_reduce(0.5) / world_size
        comm.compute("step")
        weight = weight - 0.1 * mean
    return weight


def _validate_on_rank_0(rank: int, world_size: int, comm: Communicator) -> None:
    comm.compute("train", steps=2)
    if rank == 0:
        comm.broadcast([0.3], root=0)  # inside forward of the wrapped model
        comm.compute("validate", steps=2)
    comm.barrier()


PROGRAMS: Final[dict[str, tuple[Program, str]]] = {
    "mean of gradients": (_mean_of_gradients, "Right: all ranks get the same mean, so their weights stay equal."),
    "broadcast of the start": (_start_from_rank_0, "Right: whatever each rank drew, all go on with rank 0's weight."),
    "barrier inside if rank == 0": (_barrier_for_rank_0, "Wrong: only rank 0 comes, and the others load too early."),
    "barrier after the if": (_barrier_for_all, "Right: one rank saves, all ranks wait, and nobody loads too early."),
    "unequal numbers of batches": (_unequal_batches, "Wrong: a gradient of rank 0 is added to the others' hits."),
    "stop together": (_stop_together, "Right: the ranks agree on a number of batches. It costs rank 0 its third."),
    "a slow rank": (_slow_rank, "Right but slow: at each collective, all ranks wait for the slowest one."),
    "rank 0 validates the wrapped model": (_validate_on_rank_0, "Wrong: the wrapped model's forward broadcasts too."),
}


@functools.lru_cache(maxsize=64)
def run_program(name: str, world_size: int = 2) -> Timeline:
    """Run the program called ``name`` (a key of ``PROGRAMS``). Raises ``ValueError`` for other names and sizes."""
    if name not in PROGRAMS:
        raise ValueError(f"unknown program {name!r}, expected one of {tuple(PROGRAMS)}")
    if world_size not in WORLD_SIZES:
        raise ValueError(f"the world size must be one of {WORLD_SIZES}, got {world_size}")
    return run_ranks_as_threads(PROGRAMS[name][0], world_size)


# Words


def _ranks(ranks: Any) -> str:
    numbers = [str(rank) for rank in ranks]
    return f"rank {numbers[0]}" if len(numbers) == 1 else f"ranks {', '.join(numbers[:-1])} and {numbers[-1]}"


def _span_at(timeline: Timeline, rank: int, step: int) -> Span | None:
    """What ``rank`` did in step ``step`` (from ``step - 1`` to ``step``); None before it began or after it finished."""
    for span in timeline.spans:
        if span.rank == rank and span.begin < step and (span.end is None or step <= span.end):
            return span
    return None


def state_of(timeline: Timeline, rank: int, step: int) -> str:
    """What ``rank`` does in ``step``, as plain text."""
    span = _span_at(timeline, rank, step)
    if span is None:
        if step == 0:
            return "has not begun"
        returned = timeline.values[rank]
        return "has finished" if returned is None else f"has returned {_short(returned)}"
    if span.kind == "compute":
        return f"computes: {span.label}"
    if span.kind == "talk":
        exchange = next(exchange for exchange in timeline.exchanges if exchange.begin == span.begin)
        if exchange.call == "barrier":
            return "is in barrier, like all others"
        return f"gives {_short(exchange.given[rank])} to {span.label}, gets {_short(exchange.got[rank])}"
    if span.end is None and timeline.deadlock:
        return f"waits in {span.label} for {_ranks(timeline.deadlock.waits_for[rank])}, for ever"
    others = {other: _span_at(timeline, other, step) for other in range(timeline.world_size)}
    absent = [other for other, doing in others.items() if not doing or (doing.kind, doing.end) != ("wait", span.end)]
    return f"waits in {span.label} for {_ranks(absent)}"


def _short(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:g}"
    return f"[{', '.join(map(_short, value))}]" if isinstance(value, list) else str(value)


def explain(timeline: Timeline, step: int) -> str:
    """One line of plain text about ``step`` (0: before the first)."""
    if step >= timeline.end and timeline.deadlock:
        return str(timeline.deadlock)
    words = [f"rank {rank} {state_of(timeline, rank, step)}" for rank in range(timeline.world_size)]
    return "; ".join(words) + "."


def summary(timeline: Timeline) -> str:
    """One line of plain text about the whole run: how long each rank waited, and how it ended."""
    waits = ", ".join(f"rank {rank} {timeline.waited(rank)}" for rank in range(timeline.world_size))
    ended = str(timeline.deadlock) if timeline.deadlock else f"All ranks finish by step {timeline.end}."
    return f"{len(timeline.exchanges)} collectives; steps spent waiting: {waits}. {ended}"


# The drawing
_LEFT, _RIGHT, _BOTTOM, _TOP = 0.08, 0.985, 0.14, 0.9
_HALF: Final = 0.3  # half the height of a box; ranks are 1 apart


class TimelineDrawing:
    """Draws timelines into one figure that is reused, since making figures is slow.

    A timeline is drawn once as a whole and kept as pixels; a step only covers what has not happened yet.
    """

    def __init__(self, width: int = 900, height: int = 340) -> None:
        """Make the figure, ``width`` by ``height`` pixels."""
        self._canvas = canvas.make_canvas(width, height)
        self._axes = self._canvas.figure.add_axes((_LEFT, _BOTTOM, _RIGHT - _LEFT, _TOP - _BOTTOM))
        self._axes.tick_params(labelbottom=False, labelleft=False)  # what they say is written with the rest
        self._pixels: Image.Image | None = None
        self._shown: Timeline | None = None

    def render(self, timeline: Timeline, step: int) -> bytes:
        """Draw ``timeline`` up to ``step``; returns the bytes of a PNG file."""
        if self._shown is not timeline or self._pixels is None:
            self._pixels = self._draw(timeline)
            self._shown = timeline
        picture = self._pixels.copy()
        width, height = picture.size
        now = round(width * (_LEFT + (_RIGHT - _LEFT) * step / max(timeline.end, 1)))
        if step < timeline.end:
            top, bottom = round(height * (1 - _TOP)) - 2, round(height * (1 - _BOTTOM)) - 1
            picture.paste(plotting.PALE_GREY, (now, top, width, bottom))
            picture.paste(plotting.INK, (now, top, now + 2, bottom))
        return canvas.png_of_image(picture)

    def _draw(self, timeline: Timeline) -> Image.Image:
        axes = self._axes
        canvas.wipe(axes)
        end, world_size = max(timeline.end, 1), timeline.world_size
        bottom, top = world_size - 0.45, -0.55
        axes.set(xlim=(0, end), ylim=(bottom, top), xticks=range(end + 1), yticks=range(world_size))
        across, down = self._pixel()
        for rank in range(world_size):
            looks = {"ha": "right", "va": "center_baseline"}
            canvas.write(axes, -10 * across, rank, f"rank {rank}", fontsize=11, **looks)
        for step in range(end + 1):
            canvas.write(axes, step, bottom + 10 * down, str(step), fontsize=9, ha="center", va="top")
        canvas.write(axes, end / 2, bottom + 28 * down, "steps", fontsize=10, ha="center", va="top")
        key = "pale: computes    hatched: waits    dark: collective (arrows: who gives to whom)"
        canvas.write(axes, end / 2, top - 8 * down, key, fontsize=11, ha="center")
        for span in timeline.spans:
            self._draw_span(span, end)
        for exchange in timeline.exchanges:
            self._draw_arrows(exchange, world_size)
        self._canvas.draw()
        return canvas.image_of(self._canvas)

    def _pixel(self) -> tuple[float, float]:
        """The width of a pixel in steps and its height in ranks."""
        (left, right), (bottom, top) = self._axes.get_xlim(), self._axes.get_ylim()
        return (right - left) / self._axes.bbox.width, (bottom - top) / self._axes.bbox.height

    def _draw_span(self, span: Span, end: int) -> None:
        face, edge, hatch = {
            "compute": (plotting.PALE_BLUE, plotting.INK, None),
            "wait": (plotting.PALE_ORANGE, plotting.ORANGE, "//"),
            "talk": (plotting.BLUE, plotting.INK, None),
        }[span.kind]
        length = (end if span.end is None else span.end) - span.begin
        box = Rectangle((span.begin, span.rank - _HALF), length, 2 * _HALF, facecolor=face, edgecolor=edge, hatch=hatch)
        self._axes.add_artist(box)
        label = span.label
        if span.kind == "wait":
            label = "waits" if span.end else f"{span.label}, for ever"
        # Words that are too long for their box stand upright.
        room = length / end * 900 * (_RIGHT - _LEFT)
        upright = len(label) * 6.5 > room
        looks: dict[str, Any] = {"fontsize": 8, "rotation": 90} if upright else {"fontsize": 9}
        if span.kind == "wait":
            looks["bbox"] = {"facecolor": plotting.PALE_ORANGE, "edgecolor": "none", "pad": 1}
        color = plotting.PAPER if span.kind == "talk" else plotting.INK
        middle = span.begin + length / 2
        canvas.write(self._axes, middle, span.rank, label, ha="center", va="center", color=color, **looks)

    def _draw_arrows(self, exchange: Exchange, world_size: int) -> None:
        if exchange.call == "barrier":
            return  # nobody gives anything
        givers = range(world_size) if exchange.root is None else (exchange.root,)
        for giver in givers:
            for taker in set(range(world_size)) - {giver}:
                side = _HALF if taker > giver else -_HALF
                start = np.array((exchange.begin + 0.15, giver + side))
                way = np.array((exchange.end - 0.15, taker - side)) - start
                # A little room at both ends. Were the arrow to find it by itself, that would take it four times as long.
                room = way * (3 / np.hypot(*way / self._pixel()))
                path = Path([start + room, start + way - room])
                arrow = FancyArrowPatch(path=path, arrowstyle="-|>", mutation_scale=11, color=plotting.PURPLE)
                self._axes.add_artist(arrow)


def render_png(timeline: Timeline, step: int | None = None) -> bytes:
    """Draw ``timeline`` up to ``step`` (default: the last) into a new figure; the bytes of a PNG file."""
    return TimelineDrawing().render(timeline, timeline.end if step is None else step)


# The widget


class CollectivesExplorer:
    """The widget: a program, a world size, a slider over the steps, a drawing and the program's source.

    ``box`` is the container to show, ``timeline`` the run that is shown.
    """

    def __init__(self, program: str = "mean of gradients", world_size: int = 2) -> None:
        """Start with ``program`` (a key of ``PROGRAMS``) before the first step. Raises ``ValueError`` for others."""
        self.timeline = run_program(program, world_size)
        looks = {
            width: {"layout": widgets.Layout(width=width), "style": {"description_width": "80px"}}
            for width in ("420px", "170px", "740px")
        }
        self.program = widgets.Dropdown(options=list(PROGRAMS), value=program, description="program", **looks["420px"])
        self.world_size = widgets.Dropdown(
            options=WORLD_SIZES, value=world_size, description="world size", **looks["170px"]
        )
        self.step = widgets.IntSlider(value=0, min=0, max=self.timeline.end, description="step", **looks["740px"])
        self.line = widgets.HTML()
        self.verdict = widgets.HTML()
        self.listing = widgets.HTML()
        self.picture = widgets.Image(format="png", layout=widgets.Layout(max_width="100%"))
        self._drawing = TimelineDrawing()
        self._busy = False
        for control in (self.program, self.world_size):
            control.observe(lambda _change: self._choose(), names="value")
        self.step.observe(lambda _change: self._show(), names="value")
        controls = widgets.HBox([self.program, self.world_size], layout=widgets.Layout(flex_flow="row wrap"))
        self.box = widgets.VBox([controls, self.step, self.line, self.picture, self.verdict, self.listing])
        self._show()

    def _choose(self) -> None:
        """Another program or size; the slider goes back to the start, which must not draw a second time."""
        self._busy = True
        try:
            self.timeline = run_program(self.program.value, self.world_size.value)
            self.step.value = 0
            self.step.max = self.timeline.end
        finally:
            self._busy = False
        self._show()

    def _show(self) -> None:
        if self._busy:
            return
        step, end = self.step.value, self.timeline.end
        self.line.value = f"<b>step {step} of {end}</b><br>{html.escape(explain(self.timeline, step))}"
        program, verdict = PROGRAMS[self.program.value]
        shown = f"<b>{html.escape(verdict)}</b> {summary(self.timeline)}" if step == end else ""
        self.verdict.value = shown or "(what becomes of it stands here at the last step)"  # earlier, it would spoil it
        self.listing.value = _listing_html(program, self.timeline, step)
        self.picture.value = self._drawing.render(self.timeline, step)


def _listing_html(program: Program, timeline: Timeline, step: int) -> str:
    """The program as code; before each line the ranks that are in it."""
    here: dict[int, list[str]] = {}
    for rank in range(timeline.world_size):
        if span := _span_at(timeline, rank, step):
            here.setdefault(span.line, []).append(str(rank))
    lines = []
    for number, code in enumerate(inspect.getsource(program).rstrip().splitlines()):
        if number == 0:
            code = "def program(rank, world_size, comm):"
        marks = f"rank {','.join(here[number])}" if number in here else ""
        shown = f"{marks:>12}{' → ' if marks else '   '}{html.escape(code)}"
        lines.append(f"<b>{shown}</b>" if marks else shown)
    return f'<pre style="line-height:1.3;margin:0">{"<br>".join(lines)}</pre>'


def explore_collectives(program: str = "mean of gradients", world_size: int = 2) -> widgets.VBox:
    """Ranks that talk to each other, to step through, to show in a notebook.

    ``program`` is a key of ``PROGRAMS`` and ``world_size`` one of ``WORLD_SIZES`` to begin with. Returns an ipywidgets
    container. Raises ``ValueError`` for others.
    """
    box: widgets.VBox = CollectivesExplorer(program, world_size).box
    return box
