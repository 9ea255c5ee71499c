"""What the explorers' drawings share: a figure that is made once, words that are drawn once, pictures as PNG files."""

from __future__ import annotations

import functools
import math
import struct
import zlib
from typing import Any, Final

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backend_bases import RendererBase
from matplotlib.backends.backend_agg import FigureCanvasAgg, RendererAgg
from matplotlib.figure import Figure
from matplotlib.text import Text
from PIL import Image

from autograder import plotting

DPI: Final = 100
# Light compression: a picture travels no further than the browser.
_COMPRESSION: Final = 1


def make_canvas(width: float, height: float) -> FigureCanvasAgg:
    """The Agg canvas of a new figure, ``width`` by ``height`` pixels: it needs no display, nor pyplot's figures."""
    figure = Figure(figsize=(width / DPI, height / DPI), dpi=DPI, facecolor=plotting.PAPER)
    # A style set elsewhere may switch on a layout engine; axes are placed by hand, and it would only cost time.
    figure.set_layout_engine("none")
    return FigureCanvasAgg(figure)


def wipe(axes: Axes) -> None:
    """Remove what stands on ``axes``: cheaper than to clear them, which makes new ticks each time."""
    for artist in (*axes.texts, *axes.patches, *axes.collections):
        artist.remove()


def write(axes: Axes, x: float, y: float, words: str, **looks: Any) -> None:
    """Put ``words`` at a place of ``axes``, with ``looks`` as for ``axes.text``: much quicker for words used before.

    They stand on whole pixels. Only ``bbox`` among ``looks`` may be a dict, for a rectangle behind the words.
    """
    axes.add_artist(_KeptText(x, y, words, looks))


class _KeptText(Text):
    """A text that is drawn once, kept as pixels, and from then on copied, also for its like in other figures.

    Matplotlib lays out and draws each letter anew each time, which was most of the time that a picture took.
    """

    def __init__(self, x: float, y: float, words: str, looks: dict[str, Any]) -> None:
        super().__init__(x, y, words, **looks)
        paper = tuple(looks.get("bbox", {}).items())
        self._key = (words, tuple((name, look) for name, look in looks.items() if name != "bbox"), paper)

    def set_clip_path(self, path: Any, transform: Any = None) -> None:
        """Do nothing: a text is not clipped unless asked, and to prepare it takes axes longer than to draw it here."""

    def draw(self, renderer: RendererBase) -> None:
        """Copy the pixels to where the text stands."""
        pixels, left, bottom = _pixels_of(*self._key)
        x, y = self.get_transform().transform(self.get_position())
        gc = renderer.new_gc()
        renderer.draw_image(gc, round(x) + left, round(y) + bottom, pixels)
        gc.restore()


@functools.cache
def _any_figure() -> Figure:
    """What a text asks how large its points are."""
    return make_canvas(1, 1).figure


@functools.lru_cache(maxsize=2048)
def _pixels_of(
    words: str, looks: tuple[tuple[str, Any], ...], paper: tuple[tuple[str, Any], ...]
) -> tuple[np.ndarray, int, int]:
    """A text as (height, width, 4) bytes, its rows from the bottom up, and where they begin as seen from its place."""
    text = Text(0, 0, words, **dict(looks), bbox=dict(paper) if paper else None)
    text.set_figure(_any_figure())
    extent = text.get_window_extent(RendererAgg(1, 1, DPI))
    # Letters may stand out a little, and so does the paper, by 4 points if nothing else is asked.
    border = 2 + (math.ceil(dict(paper).get("pad", 4) * DPI / 72) if paper else 0)
    left, bottom = math.floor(extent.x0) - border, math.floor(extent.y0) - border
    width, height = math.ceil(extent.x1) + border - left, math.ceil(extent.y1) + border - bottom
    renderer = RendererAgg(width, height, DPI)
    text.set_position((-left, -bottom))
    text.draw(renderer)
    return np.ascontiguousarray(np.asarray(renderer.buffer_rgba())[::-1]), left, bottom


def png_of_image(image: Image.Image) -> bytes:
    """``image`` (mode RGB) as it is.

    Pillow would try five filters on each row of pixels. For drawings they gain nothing, and took a quarter of a move's time and more.
    """
    width, height = image.size
    rows = np.zeros((height, 1 + 3 * width), np.uint8)  # each row begins with the number of its filter: 0 is none
    rows[:, 1:] = np.asarray(image).reshape(height, 3 * width)
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)  # 8 bits for each of three colours
    chunks = ((b"IHDR", header), (b"IDAT", zlib.compress(rows, _COMPRESSION)), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data)) for name, data in chunks
    )


def image_of(canvas: FigureCanvasAgg) -> Image.Image:
    """What is on ``canvas`` now, without drawing anything: a copy, without transparency."""
    pixels = canvas.buffer_rgba()
    height, width, _ = pixels.shape
    return Image.frombuffer("RGBA", (width, height), pixels, "raw", "RGBA", 0, 1).convert("RGB")


def png_of_pixels(canvas: FigureCanvasAgg) -> bytes:
    """What is on ``canvas`` now, without drawing anything."""
    return png_of_image(image_of(canvas))
