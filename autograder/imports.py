"""Which files of a package some code needs: read from its import statements, without running any of it."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from importlib.util import resolve_name
from pathlib import Path


def files_needed(sources: Iterable[str], package: Path) -> list[Path]:
    """The files of *package* (its folder) that *sources* import, and that these import in turn; sorted.

    *sources* are Python source texts. Imports inside functions count. What is imported by a name that is put together
    at run time is not seen. Raises :class:`SyntaxError` where a source is not Python.
    """
    needed: set[Path] = set()
    open_names = {name for source in sources for name in _imported(source, "")}
    while open_names:
        name = open_names.pop()
        path = _file(name, package)
        if path is not None and path not in needed:
            needed.add(path)
            inside = name if path.name == "__init__.py" else name.rpartition(".")[0]
            open_names |= set(_imported(path.read_text(encoding="utf-8"), inside))
    return sorted(needed)


def _imported(source: str, inside: str) -> Iterator[str]:
    """All dotted names that may be modules which *source*, part of the package *inside*, imports."""
    for node in ast.walk(ast.parse(source)):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            module = resolve_name("." * node.level + (node.module or ""), inside) if node.level else node.module
            names = [f"{module}.{alias.name}" for alias in node.names]  # each a module, or something inside one
        for name in names:
            parts = name.split(".")
            yield from (".".join(parts[:length]) for length in range(1, len(parts) + 1))


def _file(name: str, package: Path) -> Path | None:
    """Where the module *name* is, or None for what is no module of *package*."""
    first, *rest = name.split(".")
    if first != package.name:
        return None
    path = package.joinpath(*rest)
    if (path / "__init__.py").is_file():
        return path / "__init__.py"
    return path.with_suffix(".py") if rest and path.with_suffix(".py").is_file() else None
