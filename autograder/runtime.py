"""Runs a learner's definitions and calls them: the part shared by the worker process and the live kernel.

Everything here runs beside untrusted code and is trusted by nobody: what it returns is data that a judge checks.
"""

from __future__ import annotations
import __future__

import ast
import builtins
import linecache
import sys
import traceback
from collections.abc import Callable, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

from autograder.errors import WireError
from autograder.wire import encode

_INSTRUMENTS_NAME = "autograder.instruments"
_INSTRUMENTS_FILE = Path(__file__).with_name("instruments.py")
_INSTRUMENTS = compile(_INSTRUMENTS_FILE.read_bytes(), str(_INSTRUMENTS_FILE), "exec", dont_inherit=True)
"""Read before any code of the learner's runs."""
OUTPUT_TAIL = 4_000
"""Characters of what the learner's code prints that are kept, to be shown beside a failure."""
_FUTURE_FLAG = __future__.annotations.compiler_flag
"""The one ``from __future__`` import that still changes anything; it holds for all later cells, as in IPython."""


class TailBuffer:
    """A text stream that keeps its last :data:`OUTPUT_TAIL` characters, however much is written."""

    encoding = "utf-8"
    errors = "replace"

    def __init__(self) -> None:
        self.text = ""

    def write(self, text: str) -> int:
        """Append *text*."""
        self.text = (self.text + text[-OUTPUT_TAIL:])[-OUTPUT_TAIL:]
        return len(text)

    def flush(self) -> None:
        """Nothing is held back."""

    def isatty(self) -> bool:
        """Never a terminal."""
        return False

    def take(self) -> str:
        """What was kept, and forget it."""
        text, self.text = self.text, ""
        return text


def encode_reply(reply: Mapping[str, Any]) -> bytes:
    """A reply's bytes; one that cannot be sent, or is too large, becomes the error that says why.

    What the learner's code printed is kept either way.
    """
    try:
        return encode(dict(reply))
    except WireError as error:
        failure = {"kind": "WireError", "message": str(error), "where": ""}
        return encode({"error": failure, "output": reply.get("output", "")})


class Missing(Exception):
    """The learner's code does not define a name; kept apart from errors raised by the code itself."""


class Learner:
    """The learner's definitions as attributes, for probes: ``learner.to_patches(x)``."""

    def __init__(self, namespace: Mapping[str, Any]) -> None:
        self._namespace = namespace

    def __getattr__(self, name: str) -> Any:
        try:
            return self._namespace[name]
        except KeyError:
            raise Missing(name) from None


class Runtime:
    """One namespace of learner's code, and the requests that can be made of it (see :meth:`handle`)."""

    def __init__(self, namespace: dict[str, Any] | None = None) -> None:
        if namespace is None:
            module = ModuleType("submission")
            sys.modules["submission"] = module  # where dataclasses, pickle and inspect look for a class's module
            namespace = module.__dict__
            namespace["__builtins__"] = builtins
        self.namespace = namespace
        self.problems: list[dict[str, Any]] = []
        self.loaded: list[dict[str, Any]] = []
        """The cells that were run, in order, as the requests had them."""
        self.operations: dict[str, Callable[[dict[str, Any]], Any]] = {}
        """Further requests that can be made of it, by name."""
        self._flags = 0
        self._probes: dict[str, Any] = {}
        self._staged: list[tuple[Any, tuple[Any, ...], dict[str, Any]]] = []

    def handle(self, request: dict[str, Any]) -> dict[str, Any]:
        """Answer one request: ``load``, ``call``, ``stage`` or ``go``; the reply has ``value`` or ``error``."""
        try:
            operation = self.operations.get(request["op"]) or getattr(self, f"_{request['op']}")
            return {"value": operation(request)}
        except Missing as missing:
            return {"error": {"kind": "Missing", "message": str(missing), "where": ""}}
        except WireError as error:
            return {"error": {"kind": "WireError", "message": str(error), "where": ""}}
        except BaseException as error:
            return {"error": describe(error)}

    def _hello(self, request: dict[str, Any]) -> None:
        """Nothing: an answer shows that this side is up."""

    def _load(self, request: dict[str, Any]) -> list[dict[str, Any]]:
        """Run the wanted statements of each cell; one that raises is reported and the next one goes on."""
        for cell in request["cells"]:
            self.loaded.append(cell)
            filename = f"<{cell['name']}>"
            source = cell["source"]
            linecache.cache[filename] = (len(source), None, source.splitlines(keepends=True), filename)
            tree = ast.parse(source, filename)
            for index in cell["keep"]:
                module = ast.Module([tree.body[index]], type_ignores=[])
                try:
                    code = compile(module, filename, "exec", flags=self._flags, dont_inherit=True)
                    self._flags |= code.co_flags & _FUTURE_FLAG
                    exec(code, self.namespace)
                except BaseException as error:
                    self.problems.append({"cell": cell["name"], **describe(error)})
        return self.problems

    def target(self, request: dict[str, Any]) -> tuple[Any, tuple[Any, ...]]:
        """The function to call and the arguments that go before the request's own."""
        learner = Learner(self.namespace)
        if "probe" not in request:
            return getattr(learner, request["function"]), ()
        source = request["probe"]
        if source not in self._probes:
            filename = f"<probe {request['function']}>"
            linecache.cache[filename] = (len(source), None, source.splitlines(keepends=True), filename)
            tree = ast.parse("import torch\n" + source, filename)
            namespace = _own_instruments(tree)
            exec(compile(tree, filename, "exec", dont_inherit=True), namespace)
            self._probes[source] = namespace[request["function"]]
        return self._probes[source], (learner,)

    def _call(self, request: dict[str, Any]) -> Any:
        function, before = self.target(request)
        return function(*before, *request["args"], **request["kwargs"])

    def _stage(self, request: dict[str, Any]) -> None:
        """Take the inputs of calls that will be timed, so that their transfer is over when the clock starts."""
        function, before = self.target(request)
        self._staged = [(function, (*before, *args), kwargs) for args, kwargs in request["calls"]]

    def _go(self, request: dict[str, Any]) -> list[Any]:
        # the inputs live on until the next stage: giving their memory back would count as the learner's time
        return [function(*args, **kwargs) for function, args, kwargs in self._staged]


class _InstrumentsTaken(ast.NodeTransformer):
    """Takes a probe's imports from ``autograder.instruments`` out and notes what they bind: name -> name there."""

    def __init__(self) -> None:
        self.names: dict[str, str] = {}

    def visit_ImportFrom(self, node: ast.ImportFrom) -> ast.stmt:
        """Replace one import."""
        if node.module != _INSTRUMENTS_NAME:
            return node
        self.names |= {alias.asname or alias.name: alias.name for alias in node.names}
        return ast.copy_location(ast.Pass(), node)


def _own_instruments(probe: ast.Module) -> dict[str, Any]:
    """What a probe imports from ``autograder.instruments``, in copies of its own; the imports are taken out of it.

    The learner's code runs in the same process and may have changed the module that everybody imports.
    """
    taken = _InstrumentsTaken()
    taken.visit(probe)
    if not taken.names:
        return {}
    module = ModuleType(_INSTRUMENTS_NAME)
    exec(_INSTRUMENTS, module.__dict__)
    return {name: getattr(module, there) for name, there in taken.names.items()}


def describe(error: BaseException) -> dict[str, Any]:
    """An exception as data: class name, message, and the innermost line of the learner's own that raised it."""
    try:
        message = str(error)[:2_000]
    except BaseException:  # this may run code of the learner's
        message = "(its message cannot be shown)"
    where = ""
    try:
        for frame in traceback.extract_tb(error.__traceback__):
            if frame.filename.startswith("<") and not frame.filename.startswith(("<frozen", "<probe", "<string")):
                where = f"{frame.filename[1:-1]}, line {frame.lineno}: {(frame.line or '').strip()}"[:300]
            elif "ipykernel_" in frame.filename:
                where = f"line {frame.lineno}: {(frame.line or '').strip()}"[:300]
    except BaseException:
        where = ""
    return {"kind": type(error).__name__, "message": message, "where": where}
