"""Text that is somebody else's to choose (names of files, messages of exceptions), made fit to be shown."""

from __future__ import annotations

import re

_UNFIT = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
"""Control characters, those that change the direction of what follows, and halves of surrogate pairs."""


def printable(text: str, limit: int = 4_000) -> str:
    """*text* without what a terminal or a file would choke on, and no more than *limit* characters of it.

    Lines and tabs are kept.
    """
    return _UNFIT.sub("?", _shortened(text, limit))


def one_line(text: str, limit: int = 300) -> str:
    """*text* on one line, without anything that cannot be seen."""
    plain = " ".join(_shortened(text, 10 * limit).split())
    return _shortened("".join(c if c.isprintable() else "?" for c in plain), limit)


def _shortened(text: str, limit: int) -> str:
    return text if len(text) <= limit else text[: limit - 1] + "…"
