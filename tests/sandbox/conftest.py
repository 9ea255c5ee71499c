"""Which of the tests of sandboxes a run tries."""

from __future__ import annotations

import zlib
from pathlib import Path

import pytest

from ..draw import UNDER_SANDLOCK, drawn, share

HERE = Path(__file__).parent
SANDBOX = HERE.parents[1] / "autograder" / "sandbox"


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Of a file's attacks under sandlock, which starts a sandbox for each, a share; others once the sandbox changes."""
    costly = [item for item in items if item.path == HERE / "test_isolation.py" and _is_under_sandlock(item)]
    sources = b"".join(path.read_bytes() for path in sorted(SANDBOX.glob("*.py")))
    left_out = set(costly) - set(drawn(costly, share(UNDER_SANDLOCK), zlib.crc32(sources)))
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if item not in left_out]


def _is_under_sandlock(item: pytest.Item) -> bool:
    return (
        isinstance(item, pytest.Function)
        and getattr(item, "callspec", None) is not None
        and (item.callspec.params.get("host") == "sandlock")
    )
