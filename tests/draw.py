"""Which of many kinds a run tries: a share of those that cost time, the same ones until the kinds change."""

from __future__ import annotations

import os
import zlib
from collections.abc import Iterable, Sequence
from typing import Any

ONE_BY_ONE = 8
"""Of the kinds that are graded by themselves, which sees more than a batch, `make test` takes one in so many."""
IN_A_BATCH = 40
ON_RANKS = 4
"""Of each group of ways in which ranks fail, some ten seconds each."""
UNDER_SANDLOCK = 10
"""Of the attacks that have a sandbox each, some ten seconds of processor time."""


def share(usual: int) -> int:
    """*usual*, or what ``HOSTILE_SHARE`` says (``make hostile``: 1, which is all)."""
    return int(os.environ.get("HOSTILE_SHARE", usual))


def drawn(kinds: Iterable[Any], share: int, seed: int = 0) -> Sequence[Any]:
    """One in *share* of *kinds*, by their names."""
    return [kind for kind in kinds if zlib.crc32(kind.name.encode(), seed) % share == 0]
