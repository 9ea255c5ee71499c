"""What a task's tests can ask of a notebook, read from their code: so a verdict on one task can be taken over.

Two notebooks that differ elsewhere have the same verdict on a task whose tests run the same code of both. Which code
that is follows from the names that the tests may ask for: what they read of an object that is called ``submission``,
or, in a probe, ``learner``. A name asked for in any other way is noticed when it is asked for, and an error (see
:meth:`~autograder.grading.Grading.run`).
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

_TEST = ast.FunctionDef | ast.AsyncFunctionDef
_NOTEBOOK = ("submission", "learner")
"""What tests and probes call the notebook that is judged."""


@dataclass(frozen=True)
class Needs:
    """Of one task: all names that its tests may ask the notebook for, which kinds of tests it has, and their names."""

    names: frozenset[str] = frozenset()
    kinds: frozenset[bool] = frozenset()
    """True where some take times, False where some don't."""
    tests: frozenset[str] = frozenset()
    """The names of its tests, ``file::function``; a parametrised one counts once."""


def needs_of(files: Sequence[Path]) -> dict[str, Needs]:
    """The needs of each task that has tests in *files*."""
    names: dict[str, set[str]] = {}
    kinds: dict[str, set[bool]] = {}
    tests: dict[str, set[str]] = {}
    for path in files:
        module = ast.parse(path.read_text(encoding="utf-8"))
        shared = _bindings(module)
        for test in module.body:
            if isinstance(test, _TEST) and (task := _task(test)):
                names.setdefault(task, set()).update(_asked(test, shared))
                kinds.setdefault(task, set()).add(any("mark.timed" in ast.unparse(d) for d in test.decorator_list))
                tests.setdefault(task, set()).add(f"{path.stem}::{test.name}")
    return {task: Needs(frozenset(names[task]), frozenset(kinds[task]), frozenset(tests[task])) for task in names}


def _task(test: _TEST) -> str:
    """The name behind ``@pytest.mark.task``; empty where there is none."""
    for decorator in test.decorator_list:
        if isinstance(decorator, ast.Call) and ast.unparse(decorator.func).endswith("mark.task"):
            return str(ast.literal_eval(decorator.args[0]))
    return ""


def _bindings(module: ast.Module) -> dict[str, list[ast.stmt]]:
    """name -> the statements at the top level that bind it: probes, helpers, tables of cases."""
    bound: dict[str, list[ast.stmt]] = {}
    for statement in module.body:
        for name in _bound_by(statement):
            bound.setdefault(name, []).append(statement)
    return bound


def _bound_by(statement: ast.stmt) -> Iterable[str]:
    if isinstance(statement, _TEST | ast.ClassDef):
        return [statement.name]
    names = (node for node in ast.walk(statement) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store))
    return [node.id for node in names]


def _asked(test: ast.stmt, shared: dict[str, list[ast.stmt]]) -> set[str]:
    """Every name that a test, or what it may use of its own file, asks the notebook for."""
    found: set[str] = set()
    seen: set[str] = set()
    to_read: list[ast.stmt] = [test]
    while to_read:
        for node in ast.walk(to_read.pop()):
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in _NOTEBOOK:
                found.add(node.attr)
            # a fixture is named by a parameter
            name = node.id if isinstance(node, ast.Name) else node.arg if isinstance(node, ast.arg) else ""
            if name in shared and name not in seen:
                seen.add(name)
                to_read += shared[name]
    return found
