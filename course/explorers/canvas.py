"""What the explorers' drawings share: a figure that is made once, and pictures as the bytes of a PNG file."""

from __future__ import annotations

import io
from typing import Final

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
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


def png_of_figure(figure: Figure) -> bytes:
    """``figure``, drawn anew."""
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", pil_kwargs={"compress_level": _COMPRESSION})
    return buffer.getvalue()


def png_of_image(image: Image.Image) -> bytes:
    """``image`` as it is."""
    buffer = io.BytesIO()
    image.save(buffer, "png", compress_level=_COMPRESSION)
    return buffer.getvalue()


def png_of_pixels(canvas: FigureCanvasAgg) -> bytes:
    """What is on ``canvas`` now, without drawing anything."""
    pixels = canvas.buffer_rgba()
    height, width, _ = pixels.shape
    return png_of_image(Image.frombuffer("RGBA", (width, height), pixels, "raw", "RGBA", 0, 1))
