"""Running a learner's definitions: what raises is reported and the rest goes on."""

from __future__ import annotations

from typing import Any

import pytest

from autograder.runtime import OUTPUT_TAIL, Learner, Missing, Runtime, TailBuffer, describe


def load(runtime: Runtime, *cells: tuple[str, str]) -> Any:
    from ast import parse

    message = [{"name": name, "source": s, "keep": list(range(len(parse(s).body)))} for name, s in cells]
    return runtime.handle({"op": "load", "cells": message})


def call(runtime: Runtime, function: str, *args: Any, **kwargs: Any) -> Any:
    return runtime.handle({"op": "call", "function": function, "args": args, "kwargs": kwargs})


def test_loading_goes_on_after_a_statement_that_raises() -> None:
    runtime = Runtime({})
    reply = load(runtime, ("a", "x = 1\ny = 1 / 0\nz = x + 1"), ("b", "raise SystemExit(3)\nw = z"))
    assert [(p["cell"], p["kind"]) for p in reply["value"]] == [("a", "ZeroDivisionError"), ("b", "SystemExit")]
    assert reply["value"][0]["where"] == "a, line 2: y = 1 / 0"
    assert (runtime.namespace["x"], runtime.namespace["z"], runtime.namespace["w"]) == (1, 2, 2)
    assert "y" not in runtime.namespace


def test_only_the_wanted_statements_run() -> None:
    runtime = Runtime({})
    runtime.handle({"op": "load", "cells": [{"name": "a", "source": "x = 1\ny = 2\nz = 3", "keep": [0, 2]}]})
    assert {"x", "z"} <= set(runtime.namespace) and "y" not in runtime.namespace


def test_a_future_import_holds_for_later_cells_as_in_ipython() -> None:
    runtime = Runtime({})
    reply = load(runtime, ("a", "from __future__ import annotations"), ("b", "def f(x: Unknown): return x"))
    assert reply == {"value": []}
    assert call(runtime, "f", 2) == {"value": 2}


def test_without_it_annotations_are_evaluated() -> None:
    """The grader's own future imports must not leak into the learner's code."""
    assert load(Runtime({}), ("a", "def f(x: Unknown): return x"))["value"][0]["kind"] == "NameError"


def test_classes_find_their_module_as_dataclasses_need_it() -> None:
    runtime = Runtime()
    source = "from __future__ import annotations\nimport dataclasses\n@dataclasses.dataclass\nclass P:\n    x: int = 1"
    assert load(runtime, ("a", source), ("b", "f = lambda: P(2).x")) == {"value": []}
    assert call(runtime, "f") == {"value": 2}


@pytest.mark.parametrize(
    ("body", "kind", "message"),
    [
        ("raise ValueError('no')", "ValueError", "no"),
        ("raise SystemExit(0)", "SystemExit", "0"),
        ("raise KeyboardInterrupt", "KeyboardInterrupt", ""),
        ("raise GeneratorExit", "GeneratorExit", ""),
        ("raise BaseException('b')", "BaseException", "b"),
        ("return f()", "RecursionError", "maximum recursion depth exceeded"),
        ("return undefined", "NameError", "name 'undefined' is not defined"),
        ("raise 1", "TypeError", "exceptions must derive from BaseException"),
    ],
)
def test_whatever_a_call_raises_is_data(body: str, kind: str, message: str) -> None:
    runtime = Runtime({})
    load(runtime, ("my-cell", f"def f():\n    {body}"))
    error = call(runtime, "f")["error"]
    assert (error["kind"], error["message"]) == (kind, message)
    assert error["where"] == f"my-cell, line 2: {body}"


def test_a_missing_name_is_told_apart_from_errors_of_the_code() -> None:
    runtime = Runtime({})
    assert call(runtime, "f")["error"] == {"kind": "Missing", "message": "f", "where": ""}
    with pytest.raises(Missing):
        _ = Learner({}).f


def test_probes_see_the_learner_and_keep_nothing_of_one_another() -> None:
    runtime = Runtime({"f": lambda x: x + 1})
    probe = "state = []\ndef p(learner, x):\n    state.append(x)\n    return learner.f(x), len(state)"
    request = {"op": "call", "probe": probe, "function": "p", "args": (1,), "kwargs": {}}
    assert runtime.handle(request) == {"value": (2, 1)}
    assert "p" not in runtime.namespace and "state" not in runtime.namespace


def test_staged_calls_run_when_told_to_go_and_not_before() -> None:
    seen: list[int] = []
    runtime = Runtime({"f": lambda x, y=0: seen.append(x) or x + y})
    assert runtime.handle({"op": "stage", "function": "f", "calls": [((1,), {}), ((2,), {"y": 5})]}) == {"value": None}
    assert seen == []
    assert runtime.handle({"op": "go"}) == {"value": [1, 7]}
    assert seen == [1, 2]


@pytest.mark.parametrize("request_", [{"op": "delete"}, {}, {"op": "load"}, {"op": "call", "function": "f"}], ids=str)
def test_an_odd_request_is_answered_with_an_error(request_: dict[str, Any]) -> None:
    assert "error" in Runtime({"f": print}).handle(request_)


class _Odd(Exception):
    def __init__(self, text: Any) -> None:
        self.text = text

    def __str__(self) -> str:
        if isinstance(self.text, BaseException):
            raise self.text
        return self.text  # type: ignore[no-any-return]


@pytest.mark.parametrize("text", [ValueError("inner"), SystemExit(1), KeyboardInterrupt(), 7, None], ids=repr)
def test_an_exception_whose_message_cannot_be_had_is_described_all_the_same(text: Any) -> None:
    assert describe(_Odd(text)) == {"kind": "_Odd", "message": "(its message cannot be shown)", "where": ""}


def test_a_message_is_cut() -> None:
    assert len(describe(ValueError("x" * 1_000_000))["message"]) == 2_000


def test_the_innermost_line_of_the_learners_own_is_named() -> None:
    runtime = Runtime({})
    load(runtime, ("a", "import json\ndef g(x):\n    return json.loads(x)"), ("b", "def f(x):\n    return g(x)"))
    assert call(runtime, "f", "{")["error"]["where"] == "a, line 3: return json.loads(x)"


def test_tail_buffer_keeps_the_tail_however_much_is_written() -> None:
    buffer = TailBuffer()
    assert buffer.write("a" * 10_000_000) == 10_000_000
    for i in range(1_000):
        buffer.write(f"line {i}\n")
    text = buffer.take()
    assert len(text) == OUTPUT_TAIL and text.endswith("line 999\n")
    assert buffer.take() == ""


def test_tail_buffer_is_a_stream() -> None:
    buffer = TailBuffer()
    print("a", 1, file=buffer, flush=True)  # type: ignore[call-overload]
    assert buffer.take() == "a 1\n"
    assert not buffer.isatty()


_TAMPERED = """
import torch
from autograder import instruments

instruments.SavedTensors.alive = property(lambda self: 0)
instruments.HostReads.count = property(lambda self: 0)
instruments.mlp = lambda *args, **kwargs: torch.nn.Identity()


def loss(x):
    instruments.SavedTensors.alive = property(lambda self: 0)
    import sys
    sys.modules["autograder.instruments"] = None
    value = (x * x).sum()
    value.item()
    return value
"""
_PROBE = """
def measured(learner, x):
    from autograder.instruments import HostReads as Reads, SavedTensors, mlp
    with SavedTensors() as saved, Reads() as reads:
        kept = learner.loss(x.requires_grad_())
    return saved.alive > 0, reads.count, type(mlp([x[:1, None], x[:1]])).__name__
"""


def test_a_probe_measures_with_instruments_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """Code that changes the shared module, before it is called or while it runs, changes nothing of what is counted."""
    import sys

    import torch

    from autograder import instruments

    for name, attribute in ((instruments.SavedTensors, "alive"), (instruments.HostReads, "count")):
        monkeypatch.setattr(name, attribute, getattr(name, attribute))  # given back afterwards
    monkeypatch.setattr(instruments, "mlp", instruments.mlp)
    monkeypatch.setitem(sys.modules, "autograder.instruments", instruments)
    runtime = Runtime({})
    assert load(runtime, ("a", _TAMPERED)) == {"value": []}
    request = {"op": "call", "probe": _PROBE, "function": "measured", "args": (torch.ones(2),), "kwargs": {}}
    assert runtime.handle(request) == {"value": (True, 1, "Sequential")}
