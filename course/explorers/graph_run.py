"""The autograd graph of a small expression, built while it runs: what :mod:`explorers.graph` draws.

An expression is a few statements on one number ``x``. This module really runs
them in torch, with an edit (in place, behind autograd's back, or a detach) put
between them, and writes down what torch did: the node of each statement, what
it saved for backward, the version counters, the gradients that pass through,
and the node that fails (:func:`run_expression`).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, Final

import torch

# --------------------------------------------------------------------------
# What can be run
# --------------------------------------------------------------------------

Values = Mapping[str, torch.Tensor]


@dataclass(frozen=True)
class Op:
    """One statement: ``name = code``. ``reads`` are the names in it, once for each time they stand there."""

    name: str
    code: str
    reads: tuple[str, ...]
    apply: Callable[[Values], torch.Tensor]


@dataclass(frozen=True)
class Expression:
    """Statements on ``x`` that end in ``y``, and the value of ``x`` to begin with."""

    ops: tuple[Op, ...]
    start: float

    @property
    def names(self) -> tuple[str, ...]:
        """The tensors that can be edited, ``x`` first."""
        return ("x", *(op.name for op in self.ops))


EXPRESSIONS: Final[Mapping[str, Expression]] = MappingProxyType(
    {
        "x*x + 2*x + 1": Expression(
            (
                Op("a", "x * x", ("x", "x"), lambda t: t["x"] * t["x"]),
                Op("b", "2 * x", ("x",), lambda t: 2 * t["x"]),
                Op("c", "a + b", ("a", "b"), lambda t: t["a"] + t["b"]),
                Op("y", "c + 1", ("c",), lambda t: t["c"] + 1),
            ),
            3.0,
        ),
        "a factor used twice": Expression(
            (
                Op("a", "x + 1", ("x",), lambda t: t["x"] + 1),
                Op("b", "a * x", ("a", "x"), lambda t: t["a"] * t["x"]),
                Op("y", "a * b", ("a", "b"), lambda t: t["a"] * t["b"]),
            ),
            2.0,
        ),
        "tanh, then exp": Expression(
            (
                Op("a", "tanh(x)", ("x",), lambda t: t["x"].tanh()),
                Op("b", "exp(a)", ("a",), lambda t: t["a"].exp()),
                Op("y", "b - x", ("b", "x"), lambda t: t["b"] - t["x"]),
            ),
            0.5,
        ),
        "a square root at zero": Expression(
            (
                Op("a", "x * x", ("x", "x"), lambda t: t["x"] * t["x"]),
                Op("b", "sqrt(a)", ("a",), lambda t: t["a"].sqrt()),
                Op("y", "b + x", ("b", "x"), lambda t: t["b"] + t["x"]),
            ),
            0.0,
        ),
        "two branches, one relu": Expression(
            (
                Op("a", "2 * x", ("x",), lambda t: 2 * t["x"]),
                Op("b", "a * a", ("a", "a"), lambda t: t["a"] * t["a"]),
                Op("c", "relu(a)", ("a",), lambda t: t["a"].relu()),
                Op("y", "b + c", ("b", "c"), lambda t: t["b"] + t["c"]),
            ),
            -1.0,
        ),
    }
)

EDITS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "add_": "{}.add_(1)",
        "relu_": "{}.relu_()",
        "data": "{}.data.add_(1)",
        "detach": "{0} = {0}.detach()",
    }
)
"""The edits, and what each looks like as code."""

MOMENTS: Final = ("at once", "after its first use", "at the end")
"""When an edit can happen, seen from the tensor that is edited."""


@dataclass(frozen=True)
class Edit:
    """An edit of the tensor ``target``: ``kind`` is a key of ``EDITS``, ``when`` one of ``MOMENTS``.

    Raises ``ValueError`` for any other kind or moment.
    """

    kind: str
    target: str
    when: str = "after its first use"

    def __post_init__(self) -> None:
        if self.kind not in EDITS:
            raise ValueError(f"unknown edit {self.kind!r}, expected one of {tuple(EDITS)}")
        if self.when not in MOMENTS:
            raise ValueError(f"unknown moment {self.when!r}, expected one of {MOMENTS}")

    def code(self) -> str:
        """The edit as Python code."""
        return EDITS[self.kind].format(self.target)

    def apply(self, tensor: torch.Tensor) -> torch.Tensor:
        """Edit ``tensor``, and return the tensor that goes by its name afterwards."""
        if self.kind == "add_":
            return tensor.add_(1)
        if self.kind == "relu_":
            return tensor.relu_()
        if self.kind == "data":
            tensor.data.add_(1)
            return tensor
        return tensor.detach()


# --------------------------------------------------------------------------
# What happened
# --------------------------------------------------------------------------


@dataclass(frozen=True)
class Saved:
    """A tensor that a node keeps for backward: its name, and its version and value when it was saved."""

    name: str
    version: int
    value: float


@dataclass(frozen=True)
class Box:
    """One statement as it ran.

    * ``name``: the tensor it made or edited
    * ``code``: the statement
    * ``reads``: numbers of the boxes that it read from
    * ``value``: what it held right after the statement
    * ``node``: name of torch's node for it, None where autograd has none
    * ``saved``: what that node keeps for backward (constants left out)
    * ``is_edit``: whether it is the edit
    """

    name: str
    code: str
    reads: tuple[int, ...]
    value: float
    node: str | None
    saved: tuple[Saved, ...] = ()
    is_edit: bool = False


@dataclass(frozen=True)
class Moment:
    """The state after one step of the run, forward or backward.

    * ``words``: what this step did, in one line
    * ``memory``: for each box so far, what its tensor holds now and its version
    * ``arrived``: box -> gradient that has arrived at its node
    * ``flows``: (from box, to box) -> gradients passed on, one for each use
    * ``broken``: the box whose node failed, or None
    """

    words: str
    memory: tuple[tuple[float, int], ...]
    arrived: Mapping[int, float]
    flows: Mapping[tuple[int, int], tuple[float, ...]]
    broken: int | None = None


@dataclass(frozen=True)
class GraphRun:
    """A run from the first statement to the end of backward.

    * ``boxes``: the statements, ``x`` first, and ``statements``: code of all, also of those that never ran
    * ``moments``: the steps; the last one carries the outcome
    * ``y``: the result, and ``plain_y``: what it is without the edit; None where the run did not get there
    * ``grad``: ``x.grad`` afterwards, None if nothing arrived
    * ``slopes``: what the gradient should be: the slope of the program as it ran, edit included, measured to the left
      and to the right of ``x`` (they differ at a kink)
    * ``error``: torch's message if it refused
    * ``verdict``: "right", "wrong", "not finite" or "refused"
    """

    boxes: tuple[Box, ...]
    statements: tuple[str, ...]
    moments: tuple[Moment, ...]
    y: float | None
    plain_y: float
    grad: float | None
    slopes: tuple[float, float]
    error: str | None
    verdict: str


_H: Final = 1e-6
_TOLERANCE: Final = 1e-3


def run_expression(name: str, x: float, edit: Edit | None = None) -> GraphRun:
    """Run the expression ``name`` at ``x`` in float64, with ``edit`` in between, then backward from ``y``.

    What torch raises on the way is reported in the result. Raises ``ValueError`` if there is no such expression, or
    nothing in it by the name of the edit's target.
    """
    expression = expression_named(name)
    if edit is not None and edit.target not in expression.names:
        raise ValueError(f"{name!r} has no tensor {edit.target!r}, only {expression.names}")
    program = _program(expression, edit)
    recorder = _Recorder(program, x)
    recorder.forward()
    if recorder.error is None:
        recorder.backward()
    return _judge(recorder, expression, program, x, edit)


def expression_named(name: str) -> Expression:
    if name not in EXPRESSIONS:
        raise ValueError(f"unknown expression {name!r}, expected one of {tuple(EXPRESSIONS)}")
    return EXPRESSIONS[name]


def _program(expression: Expression, edit: Edit | None) -> tuple[Op | Edit, ...]:
    """The statements in the order in which they run, the edit among them."""
    program: list[Op | Edit] = list(expression.ops)
    if edit is not None:
        program.insert(_place(expression.ops, edit), edit)
    return tuple(program)


def _place(ops: Sequence[Op], edit: Edit) -> int:
    if edit.when == "at the end":
        return len(ops)
    if edit.when == "at once":
        return next((number + 1 for number, op in enumerate(ops) if op.name == edit.target), 0)
    return next((number + 1 for number, op in enumerate(ops) if edit.target in op.reads), len(ops))


def _value(program: Sequence[Op | Edit], x: float) -> float:
    """What the program computes at ``x``, without autograd."""
    tensors = {"x": torch.tensor(x, dtype=torch.float64)}
    with torch.no_grad():
        for statement in program:
            if isinstance(statement, Op):
                tensors[statement.name] = statement.apply(tensors)
            else:
                tensors[statement.target] = statement.apply(tensors[statement.target])
    return tensors["y"].item()


class _Recorder:
    """Runs a program and writes down its moments."""

    def __init__(self, program: Sequence[Op | Edit], x: float) -> None:
        self.program = program
        self.tensors = {"x": torch.tensor(x, dtype=torch.float64, requires_grad=True)}
        self.boxes = [Box("x", f"x = {number(x)}", (), x, "AccumulateGrad")]
        self.moments: list[Moment] = []
        self.error: str | None = None
        self.broken: int | None = None
        self.by_box = [self.tensors["x"]]
        self._nodes: list[Any] = [None]  # that of x is met on the way back
        self._latest = {"x": 0}
        self._arrived: dict[int, float] = {}
        self._flows: dict[tuple[int, int], tuple[float, ...]] = {}
        self._note("x is a leaf: a place where gradients are collected.")

    def _note(self, words: str) -> None:
        memory = tuple((tensor.item(), tensor._version) for tensor in self.by_box)
        arrived, flows = MappingProxyType(dict(self._arrived)), MappingProxyType(dict(self._flows))
        self.moments.append(Moment(words, memory, arrived, flows, self.broken))

    def forward(self) -> None:
        for statement in self.program:
            if isinstance(statement, Op):
                result = statement.apply(self.tensors)
                code, reads, name = f"{statement.name} = {statement.code}", statement.reads, statement.name
            else:
                code, reads, name = statement.code(), (statement.target,), statement.target
                try:
                    result = statement.apply(self.tensors[name])
                except RuntimeError as error:
                    self.error = str(error)
                    self._note(f"torch refuses {code}: {error}")
                    return
            sources = tuple(self._latest[read] for read in reads)
            # A .data edit leaves the tensor's node where it is: the statement itself has none.
            hidden = isinstance(statement, Edit) and statement.kind == "data"
            node = None if hidden else result.grad_fn
            self.tensors[name] = result
            self._latest[name] = len(self.boxes)
            self._nodes.append(node)
            self.by_box.append(result)
            saved = self._saved_by(node)
            self.boxes.append(
                Box(name, code, sources, result.item(), node and node.name(), saved, isinstance(statement, Edit))
            )
            self._note(self._forward_words(statement))

    def _saved_by(self, node: Any) -> tuple[Saved, ...]:
        """What ``node`` saved. Asked right after it was made: torch refuses to show what has changed since."""
        if node is None:
            return ()
        names = {tensor.data_ptr(): name for name, tensor in self.tensors.items()}
        kept = [getattr(node, attribute) for attribute in dir(node) if attribute.startswith("_saved_")]
        return tuple(
            Saved(names[tensor.data_ptr()], tensor._version, tensor.item())
            for tensor in kept
            if isinstance(tensor, torch.Tensor) and tensor.data_ptr() in names
        )

    def _forward_words(self, statement: Op | Edit) -> str:
        box = self.boxes[-1]
        if isinstance(statement, Op):
            made = f"Forward: {box.code} gives {number(box.value)}."
            if box.node is None:
                return f"{made} Nothing in it needs a gradient, so there is no node."
            return f"{made} {box.node} {_saves(box)}."
        (before, old), (now, new) = self.moments[-1].memory[box.reads[0]], (box.value, self.by_box[-1]._version)
        if statement.kind == "detach":
            return f"{box.code}: the same memory under the same name, but no way back from here."
        written = f"{box.code} writes into {box.name}: {number(before)} becomes {number(now)}"
        if statement.kind == "data":
            return f"{written}, and the version stays {new}: autograd is not told."
        return f"{written}, the version goes from {old} to {new}, and {box.node} {_saves(box)}."

    def backward(self) -> None:
        y = self.tensors["y"]
        nodes = _reachable(y.grad_fn)
        log: list[tuple[int, float, tuple[Any, ...] | None]] = []
        hooks = [hook for node in nodes for hook in self._listen(node, self._box_of(node), log)]
        try:
            y.backward()
        except RuntimeError as error:
            self.error = str(error)
        for hook in hooks:
            hook.remove()
        self._replay(log)
        if self.error is not None and not log:
            self._note(f"torch refuses y.backward(): {self.error}")

    def _box_of(self, node: Any) -> int:
        return next((box for box, known in enumerate(self._nodes) if known is node), 0)

    @staticmethod
    def _listen(node: Any, box: int, log: list[tuple[int, float, tuple[Any, ...] | None]]) -> list[Any]:
        """Hooks that log when a node is about to run, and when it has."""

        def before(arriving: tuple[Any, ...]) -> None:
            log.append((box, arriving[0].item(), None))

        def after(leaving: tuple[Any, ...], arriving: tuple[Any, ...]) -> None:
            values = tuple(None if value is None else value.item() for value in leaving)
            log.append((box, arriving[0].item(), values))

        return [node.register_prehook(before), node.register_hook(after)]

    def _replay(self, log: Sequence[tuple[int, float, tuple[Any, ...] | None]]) -> None:
        """One moment for each node that ran; one that began and has no end is the one that failed."""
        finished = {box for box, _, leaving in log if leaving is not None}
        for box, arriving, leaving in log:
            self._arrived[box] = arriving
            if box not in finished:
                self.broken = box
                self._note("")  # the outcome, which _judge puts in
            elif leaving is not None:
                self._pass_on(box, arriving, leaving)

    def _pass_on(self, box: int, arriving: float, leaving: tuple[Any, ...]) -> None:
        if box == 0:
            self._note(f"Backward: {number(arriving)} arrives at x and is added to x.grad.")
            return
        parts = []
        # An operation with a constant has one value too many, None, for the constant.
        passed = [value for value in leaving if value is not None]
        targets = [source for read in self.boxes[box].reads if (source := self._gradient_goes_to(read)) is not None]
        for source in dict.fromkeys(targets):
            values = tuple(v for v, target in zip(passed, targets, strict=False) if target == source)
            self._flows[box, source] = values
            parts.append(f"{' + '.join(map(number, values))} to {self.boxes[source].name}")
        node = self.boxes[box].node
        self._note(f"Backward: {node} of {self.boxes[box].code} gets {number(arriving)}, passes {' and '.join(parts)}.")

    def _gradient_goes_to(self, box: int) -> int | None:
        """Whose node gets the gradient of a box: a .data edit has none and hands it to the statement before it."""
        while self._hidden(box):
            (box,) = self.boxes[box].reads
        return box if self.boxes[box].node is not None else None

    def _hidden(self, box: int) -> bool:
        statement = self.program[box - 1] if box else None
        return isinstance(statement, Edit) and statement.kind == "data"


def _reachable(node: Any) -> list[Any]:
    """The node and all that can be reached from it, each once."""
    found: list[Any] = []
    waiting = [node]
    while waiting:
        node = waiting.pop()
        if node is not None and not any(node is known for known in found):
            found.append(node)
            waiting += [parent for parent, _ in node.next_functions]
    return found


def _judge(
    recorder: _Recorder, expression: Expression, program: Sequence[Op | Edit], x: float, edit: Edit | None
) -> GraphRun:
    y = recorder.tensors.get("y")
    leaf = recorder.by_box[0]
    plain_y = _value(expression.ops, x)
    middle = _value(program, x)
    slopes = ((middle - _value(program, x - _H)) / _H, (_value(program, x + _H) - middle) / _H)
    run = GraphRun(
        boxes=tuple(recorder.boxes),
        statements=("x", *(f"{s.name} = {s.code}" if isinstance(s, Op) else s.code() for s in program)),
        moments=tuple(recorder.moments),
        y=None if y is None else y.item(),
        plain_y=plain_y,
        grad=None if leaf.grad is None else leaf.grad.item(),
        slopes=slopes,
        error=recorder.error,
        verdict="",
    )
    run = replace(run, verdict=_verdict(run))
    last = replace(run.moments[-1], words=_outcome(run, edit))
    # What failed has its own moment already; a success gets one more, to look back on.
    before = run.moments[:-1] if run.verdict == "refused" else run.moments
    return replace(run, moments=(*before, last))


def _verdict(run: GraphRun) -> str:
    if run.error is not None:
        return "refused"
    if run.grad is None or not math.isfinite(run.grad):
        return "not finite"
    low, high = sorted(run.slopes)
    room = _TOLERANCE * (1 + abs(high))
    return "right" if low - room <= run.grad <= high + room else "wrong"


def _outcome(run: GraphRun, edit: Edit | None) -> str:
    """The end of the story, in one line."""
    code = edit.code() if edit else ""
    truth = _truth(run.slopes)
    if run.verdict == "refused":
        return _refusal(run, code)
    result = f"x.grad is {number(run.grad if run.grad is not None else math.nan)}"
    if run.verdict == "not finite":
        return f"{result}, although y is {number(run.y or 0.0)}: {_first_not_finite(run)}. {truth}."
    if run.verdict == "wrong":
        if edit is not None and edit.kind == "detach":
            return f"No error, and {result}: what would flow back through {code} is missing. {truth}."
        return f"No error, and {result}: silently wrong. {truth}. {_what_changed(run)}"
    # A gradient at a kink is one of many that would do.
    agreed = f"{result}, as finite differences say." if "kink" not in truth else f"{result}. {truth}."
    if edit is None:
        return agreed
    if run.y is not None and abs(run.y - run.plain_y) > _TOLERANCE:
        return (
            f"{agreed} But y is {number(run.y)}, without {code} it is {number(run.plain_y)}: later statements read the "
            "new value."
        )
    return agreed if "kink" in truth else f"{agreed} {code} harms nothing here."


def _truth(slopes: tuple[float, float]) -> str:
    # Measured in steps of a millionth, so the fourth decimal place is noise at most.
    left, right = (round(slope, 3) for slope in slopes)
    if abs(left - right) > _TOLERANCE * (1 + abs(left)):
        return f"The true slope has a kink here: {number(left)} to the left, {number(right)} to the right"
    return f"The true value is {number((left + right) / 2)}"


def _refusal(run: GraphRun, code: str) -> str:
    broken = run.moments[-1].broken
    if broken is None:
        where = "y.backward()" if len(run.boxes) == len(run.statements) else code
        return f"torch refuses {where}: {run.error}"
    box = run.boxes[broken]
    changed = [saved for saved in box.saved if saved.version != _version_now(run, saved.name)]
    parts = [
        f"it saved {'its own result ' if saved.name == box.name else ''}{saved.name} at version {saved.version}, "
        f"and {code} has moved {saved.name} to version {_version_now(run, saved.name)}"
        for saved in dict.fromkeys(changed)
    ]
    return f"{box.node} of {box.code} breaks: {'; '.join(parts)}."


def _version_now(run: GraphRun, name: str) -> int:
    return next(run.moments[-1].memory[at][1] for at, box in enumerate(run.boxes) if box.name == name)


def _what_changed(run: GraphRun) -> str:
    """Which node computed with a value that was not there in the forward pass."""
    for box in run.boxes:
        for saved in box.saved:
            now = next(run.moments[-1].memory[at][0] for at, other in enumerate(run.boxes) if other.name == saved.name)
            if now != saved.value:
                return (
                    f"{box.node} of {box.code} had saved {saved.name} = {number(saved.value)} and found {number(now)}, "
                    "under the same version."
                )
    return "A change of the value was hidden from autograd."


def _first_not_finite(run: GraphRun) -> str:
    flows = run.moments[-1].flows
    for (source, target), values in flows.items():
        if any(math.isnan(value) for value in values):
            arrived = run.moments[-1].arrived[source]
            return (
                f"{run.boxes[source].node} of {run.boxes[source].code} got {number(arrived)} and multiplied it by "
                f"{run.boxes[target].name} = {number(run.boxes[target].value)}"
            )
    return "a slope on the way is infinite"


def _saves(box: Box) -> str:
    if not box.saved:
        return "saves nothing"
    times = Counter(f"{saved.name} (version {saved.version})" for saved in box.saved)
    return "saves " + " and ".join(f"{words} twice" if count == 2 else words for words, count in times.items())


def number(value: float) -> str:
    """A number in four digits at most, for the drawing."""
    return f"{value + 0.0:.4g}"  # adding 0 turns -0.0 into 0.0


def explain(run: GraphRun, step: int = -1) -> str:
    """One line of plain text about moment ``step``; the last one says how it ended."""
    return run.moments[step].words


def describe(run: GraphRun, step: int = -1) -> str:
    """Moment ``step`` as a plain text table, a line for each statement so far, then :func:`explain`."""
    rows = [("statement", "value now", "version", "node", "saved", "gradient"), *rows_at(run, step)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = ["  ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    return "\n".join([*lines, explain(run, step)])


def rows_at(run: GraphRun, step: int) -> list[tuple[str, ...]]:
    moment = run.moments[step]
    rows = []
    for at, (value, version) in enumerate(moment.memory):
        box = run.boxes[at]
        saved = ", ".join(f"{saved.name} v{saved.version}" for saved in box.saved) or "-"
        arrived = number(moment.arrived[at]) if at in moment.arrived else "-"
        rows.append((box.code, number(value), str(version), box.node or "none", saved, arrived))
    return rows
