"""What of a notebook is run for a grade: its definitions, and of these only what a task needs.

Imports, functions, classes and assignments at the top level count; calls, loops, plots and shell lines do not. From
the functions that a test asks for, the names that they use are followed to the statements that bind them, so that a
slow or broken demonstration elsewhere in the notebook costs nothing. Code is read here, never run.
"""

from __future__ import annotations

import ast
import re
import symtable
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import Any

from autograder.notebook import Cell
from autograder.stack import at_the_bottom

_TRANSPARENT = r"(?:time|timeit|prun|capture|memit)"
"""IPython magics that run the code behind them: the code is kept and the magic dropped."""
_CELL_MAGIC = re.compile(rf"^%%{_TRANSPARENT}\b[^\n]*(?:\n|$)")
_TARGET = r"\w[\w, ]*=[ \t]*"
"""What a magic's result is assigned to. It begins with no blank: a long row of them could be split in many ways."""
_LINE_MAGIC = re.compile(rf"^([ \t]*(?:{_TARGET})?)%{_TRANSPARENT}[ \t]+(?:-\w+[ \t]+(?:\d+[ \t]+)?)*", re.MULTILINE)
_OTHER_MAGIC = re.compile(r"^(\s*)(?:[%!?].*|[\w.*\[\]]+\?{1,2}\s*)$")
_ASSIGNED_MAGIC = re.compile(rf"^([ \t]*)({_TARGET})[%!].*$")

_NEWLINE = re.compile(r"\r\n|\r|\n")
_IDENTIFIER = re.compile(r"[^\W\d]\w*")

_LONGEST_CELL = 100_000
"""Characters. A longer cell is not read: parsing takes a hundred times its size in memory, and a second or more."""
_LONGEST_KNOWN = 4_000
"""Characters. What is found in longer cells is not kept: it may take a thousand times their size."""
_MOST_CODE = 300_000
"""Characters of code that are read outside of solution cells. Whoever submits may have all cores busy otherwise."""

_NAMESPACE_READERS = frozenset({"globals", "locals", "vars", "eval", "exec", "__import__"})
"""A function that uses one of these may reach names that reading its code does not show."""


@dataclass(frozen=True)
class Statement:
    """A top-level statement: where it stands, the names it binds and the names it may read."""

    cell: int
    index: int
    binds: frozenset[str]
    uses: frozenset[str]
    wildcard: bool = False


@dataclass(frozen=True)
class CodeCell:
    """A code cell as plain Python; ``error`` is the syntax error's text where it does not parse."""

    name: str
    source: str
    error: str = ""


@dataclass(frozen=True)
class Program:
    """The definitions of a notebook, in its order."""

    cells: tuple[CodeCell, ...]
    statements: tuple[Statement, ...]

    def errors(self) -> dict[str, str]:
        """Cells that do not parse: name -> what Python says."""
        return {cell.name: cell.error for cell in self.cells if cell.error}

    @cached_property
    def _binders(self) -> dict[str, list[int]]:
        """name -> the statements that bind it."""
        binders: dict[str, list[int]] = {}
        for i, statement in enumerate(self.statements):
            for name in statement.binds:
                binders.setdefault(name, []).append(i)
        return binders

    def defines(self, name: str) -> bool:
        """Whether some top-level statement binds *name*."""
        return name in self._binders or any(statement.wildcard for statement in self.statements)

    def needed_for(self, names: Iterable[str]) -> list[tuple[CodeCell, list[int]]]:
        """The cells to run so that *names* work, each with the indices of its statements, in order."""
        chosen: set[int] = {i for i, statement in enumerate(self.statements) if statement.wildcard}
        wanted: set[str] = set()
        to_follow = list(names)
        while to_follow:
            name = to_follow.pop()
            if name in _NAMESPACE_READERS:
                chosen = set(range(len(self.statements)))
                break
            if name in wanted:
                continue
            wanted.add(name)
            for i in self._binders.get(name, ()):
                if i not in chosen:
                    chosen.add(i)
                    to_follow += self.statements[i].uses
        by_cell: dict[int, list[int]] = {}
        for i in sorted(chosen):
            by_cell.setdefault(self.statements[i].cell, []).append(self.statements[i].index)
        return [(self.cells[cell], indices) for cell, indices in by_cell.items()]


def read_program(cells: Sequence[Cell]) -> Program:
    """The definitions in the code cells, read without running anything."""
    return at_the_bottom(_read_program, cells)


def _read_program(cells: Sequence[Cell]) -> Program:
    code_cells: list[CodeCell] = []
    statements: list[Statement] = []
    own_code = 0
    for number, cell in enumerate(cells):
        if cell.kind != "code" and not cell.is_solution:
            continue
        name = cell.grade_id.removesuffix("-code") or f"cell {number + 1}"
        if len(cell.source) > _LONGEST_CELL:
            code_cells.append(CodeCell(name, "", f"it is longer than {_LONGEST_CELL:,} characters"))
            continue
        own_code += 0 if cell.is_solution else len(cell.source)
        if own_code > _MOST_CODE and not cell.is_solution:
            code_cells.append(CodeCell(name, "", f"with it, your own cells have more than {_MOST_CODE:,} characters"))
            continue
        code_cell, found = _read_cell(name, cell.source)
        statements += [replace(statement, cell=len(code_cells)) for statement in found]
        code_cells.append(code_cell)
    return Program(tuple(code_cells), tuple(statements))


def _read_cell(name: str, source: str) -> tuple[CodeCell, tuple[Statement, ...]]:
    """A code cell as plain Python, and its definitions, as if it were the notebook's first."""
    return (_known_cell if len(source) <= _LONGEST_KNOWN else _parsed)(name, source)


def _parsed(name: str, source: str) -> tuple[CodeCell, tuple[Statement, ...]]:
    source = without_magics(source)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # an invalid escape in a learner's string is no concern of ours
            tree = ast.parse(source, filename=f"<{name}>")
        lines = [line.encode() for line in _NEWLINE.split(source)]  # offsets in a tree count bytes
        found = tuple(_statement(node, lines, i) for i, node in enumerate(tree.body) if _is_definition(node))
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        return CodeCell(name, source, _describe(error)), ()
    return CodeCell(name, source), found


_known_cell = lru_cache(maxsize=256)(_parsed)
"""Most cells of a notebook are as they were given out, and a notebook is read again for each request about it."""


def read_history(namespace: Mapping[str, Any]) -> Program:
    """The definitions in the cells that an IPython kernel with this namespace has run, in order; none elsewhere."""
    return read_program([Cell("code", source) for source in list(namespace.get("In", ()))[1:]])  # it counts from 1


def _describe(error: BaseException) -> str:
    if isinstance(error, SyntaxError):
        return f"line {error.lineno}: {error.msg}"
    return f"{type(error).__name__}: {error}"


def without_magics(source: str) -> str:
    """Plain Python of a cell: transparent magics (``%time``) are taken off, other magics and shell lines blanked.

    The number of lines stays, so that a traceback names the line that the learner sees.
    """
    if source.lstrip().startswith("%%"):
        source = source.lstrip()
        stripped, count = _CELL_MAGIC.subn("\n", source, count=1)
        if not count:
            return ""  # a cell of another language (%%bash, %%writefile …)
        source = stripped
    try:
        ast.parse(source)
        return source  # plain Python already: a % or ! at a line's start stands inside a string
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        pass
    source = _LINE_MAGIC.sub(r"\1", source)
    lines = []
    for line in source.split("\n"):
        if assigned := _ASSIGNED_MAGIC.match(line):
            line = f"{assigned[1]}{assigned[2]}None"
        elif other := _OTHER_MAGIC.match(line):
            line = f"{other[1]}pass"
        lines.append(line)
    return "\n".join(lines)


def _is_definition(node: ast.stmt) -> bool:
    match node:
        case (
            ast.Import()
            | ast.ImportFrom()
            | ast.FunctionDef()
            | ast.AsyncFunctionDef()
            | ast.ClassDef()
            | ast.Assign()
            | ast.AnnAssign()
            | ast.AugAssign()
            | ast.Pass()
        ):
            return True
        case ast.If(body=body, orelse=orelse):
            return all(map(_is_definition, [*body, *orelse]))
        case ast.With(body=body):
            return all(map(_is_definition, body))
        case ast.Try(body=body, handlers=handlers, orelse=orelse, finalbody=final):
            inner = [
                *body,
                *orelse,
                *final,
                *(statement for handler in handlers for statement in handler.body),
            ]
            return all(map(_is_definition, inner))
        case _:
            return type(node).__name__ == "TypeAlias"  # Python 3.12 and later


def _statement(node: ast.stmt, lines: Sequence[bytes], index: int) -> Statement:
    binds: set[str] = set()
    uses = _names_read(node, lines)
    wildcard = False
    for child in ast.walk(node):
        match child:
            case ast.ImportFrom(module="__future__"):
                wildcard = True  # changes how the code after it is compiled
            case ast.Import(names=aliases) | ast.ImportFrom(names=aliases):
                wildcard = wildcard or any(alias.name == "*" for alias in aliases)
                binds |= {(alias.asname or alias.name).split(".")[0] for alias in aliases}
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                binds.add(name)
            case ast.Name(id=name, ctx=ast.Store() | ast.Del()):
                binds.add(name)
            case (
                ast.arg(annotation=ast.Constant(value=str(text)))
                | ast.AnnAssign(annotation=ast.Constant(value=str(text)))
            ):
                uses |= set(_IDENTIFIER.findall(text))  # a quoted annotation
            case ast.Attribute(ctx=ast.Store()) | ast.Subscript(ctx=ast.Store()):
                binds |= {name.id for name in ast.walk(child) if isinstance(name, ast.Name)}
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        binds = {node.name}
    elif isinstance(node, ast.AugAssign):
        uses |= binds
    return Statement(0, index, frozenset(binds), frozenset(uses), wildcard)


def _names_read(node: ast.stmt, lines: Sequence[bytes]) -> set[str]:
    """The names that a top-level statement may read from the notebook's namespace, now or when it is called.

    A function's parameters and local variables are its own: were they followed, a demonstration that uses the same
    name (``model = train(...)``) would be run for every grade.
    """
    assert node.end_lineno is not None
    decorators = getattr(node, "decorator_list", [])
    first = min([node.lineno, *(decorator.lineno for decorator in decorators)])
    text = list(lines[first - 1 : node.end_lineno])
    text[-1] = text[-1][: node.end_col_offset]
    if not decorators:  # what is decorated begins its line; others may share it, and a line may hold very many
        text[0] = text[0][node.col_offset :]
    try:
        return _global_reads(symtable.symtable(b"\n".join(text).decode(), "<cell>", "exec"))
    except (SyntaxError, ValueError, RecursionError):  # one that no compiler takes by itself: be generous
        return {name.id for name in ast.walk(node) if isinstance(name, ast.Name)}


def _global_reads(table: symtable.SymbolTable) -> set[str]:
    own_scope = table.get_type() == "function"
    names = {
        symbol.get_name()
        for symbol in table.get_symbols()
        if (symbol.is_global() or not own_scope) and (symbol.is_referenced() or symbol.is_declared_global())
    }
    return names.union(*map(_global_reads, table.get_children()))
