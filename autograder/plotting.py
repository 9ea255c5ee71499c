"""The one place that decides what the pictures of the course look like, in lessons, explorers and exercises.

Colours come from the Okabe-Ito palette, which stays distinguishable with the
common forms of colour blindness. A colour never carries a message alone: marks
differ in hatch, line style or text as well.
"""

from __future__ import annotations

import re
from typing import Any, Final

import matplotlib as mpl
from cycler import cycler

INK: Final = "#1a1a1a"
PAPER: Final = "#ffffff"
GREY: Final = "#767676"
PALE_GREY: Final = "#ededed"
BLUE: Final = "#0072b2"
PALE_BLUE: Final = "#cfe5f3"
ORANGE: Final = "#d55e00"
MID_ORANGE: Final = "#e5a473"
PALE_ORANGE: Final = "#fbe6d4"
GREEN: Final = "#009e73"
PURPLE: Final = "#a3508a"

# Colour and line style advance together, so a line is known by its dashes too.
_LINES: Final = cycler(color=[BLUE, ORANGE, GREEN, PURPLE]) + cycler(linestyle=["-", "--", "-.", ":"])

# Any: matplotlib's stubs spell out every single name that may be a key.
_SETTINGS: Final[dict[Any, object]] = {
    "figure.dpi": 100,
    "figure.figsize": (9.0, 3.8),
    "figure.facecolor": PAPER,
    "figure.constrained_layout.use": True,
    "font.size": 13,
    "axes.titlesize": 14,
    "axes.labelsize": 13,
    "axes.edgecolor": INK,
    "axes.labelcolor": INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.prop_cycle": _LINES,
    "lines.linewidth": 2.5,
    "text.color": INK,
    # As legible without, and an explorer's picture, which is mostly text, is drawn in a fifth less time.
    "text.hinting": "none",
    "hatch.linewidth": 1.5,
    "legend.frameon": False,
    # Photographs are shown pixel by pixel: smoothing would hide scrambling.
    "image.interpolation": "nearest",
    "image.cmap": "cividis",
}


KINDS: Final = ("Bars", "Curve", "Curves", "Explorer", "Grid", "Grids", "Picture", "Pictures", "Points")
"""What a text about something shown begins with, before a colon."""


def use_course_style() -> None:
    """Set matplotlib's settings for every figure made after this call.

    Changes the process-wide ``matplotlib.rcParams``; call it once, at the top
    of a lesson or an exercise. Raises nothing.
    """
    mpl.rcParams.update(_SETTINGS)


def show_figure(text: str) -> None:
    """Print what the current figure shows, then show it: whoever cannot see it is to know what is there.

    ``text`` begins with one of ``KINDS`` and a colon, such as ``Curves: the loss falls in both``. Raises ``ValueError``
    for another beginning.
    """
    import matplotlib.pyplot as plt  # here, since explorers draw without it

    kind = re.match(r"(\w+): ", text)
    if kind is None or kind[1] not in KINDS:
        raise ValueError(f"a figure's text begins with its kind and a colon ({', '.join(KINDS)}), not {text[:20]!r}")
    print(text)
    plt.show()
