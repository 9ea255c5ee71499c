"""Which files of a package some code needs."""

from __future__ import annotations

from pathlib import Path

import pytest

from autograder.imports import files_needed

_FILES = {
    "__init__.py": "",
    "alone.py": "import os",
    "chain.py": "from kit import link",
    "link.py": "def late():\n    import kit.alone",
    "circle.py": "import kit.circle",
    "parts/__init__.py": "from kit.parts.inner import thing",
    "parts/inner.py": "thing = 1",
    "parts/near.py": "from . import inner\nfrom ..alone import os",
    "never.py": "",
}


@pytest.fixture
def kit(tmp_path: Path) -> Path:
    """A package to look at."""
    for name, text in _FILES.items():
        path = tmp_path / "kit" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return tmp_path / "kit"


@pytest.mark.parametrize(
    ("source", "needed"),
    [
        ("import os, kitchen, kit_other.alone", set()),
        ("import kit", {"__init__.py"}),
        ("from kit import no_module", {"__init__.py"}),
        ("from kit import alone", {"__init__.py", "alone.py"}),
        ("from kit.chain import anything", {"__init__.py", "chain.py", "link.py", "alone.py"}),
        ("def f():\n    import kit.circle as round_and_round", {"__init__.py", "circle.py"}),
        ("from kit.parts import thing", {"__init__.py", "parts/__init__.py", "parts/inner.py"}),
        ("import kit.parts.near", {"__init__.py", "parts/__init__.py", "parts/inner.py", "parts/near.py", "alone.py"}),
    ],
)
def test_imports_are_followed(kit: Path, source: str, needed: set[str]) -> None:
    found = files_needed([source], kit)
    assert {path.relative_to(kit).as_posix() for path in found} == needed
    assert found == sorted(found)


def test_several_sources_add_up(kit: Path) -> None:
    assert [path.name for path in files_needed(["import kit.never", "import kit.alone"], kit)] == [
        "__init__.py",
        "alone.py",
        "never.py",
    ]
