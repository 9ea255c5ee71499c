"""What the explorers' drawings share: words that are drawn once and copied from then on."""

from __future__ import annotations

import importlib
import io
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from PIL import Image, ImageChops

LOOKS: tuple[dict[str, Any], ...] = (
    {"fontsize": 10, "ha": "center", "va": "center"},
    {"fontsize": 9, "ha": "left", "va": "top", "color": "#d55e00", "weight": "bold"},
    {"fontsize": 11, "ha": "right", "va": "center_baseline"},
    {"fontsize": 8, "ha": "center", "va": "center", "rotation": 90},
    {"fontsize": 10, "ha": "center", "va": "center", "bbox": {"facecolor": "#fbe6d4", "edgecolor": "none", "pad": 6}},
    {"fontsize": 10, "bbox": {"facecolor": "#fbe6d4", "edgecolor": "none"}},
)


@pytest.fixture
def canvas(course_folder: Path) -> ModuleType:
    return importlib.import_module("explorers.canvas")


def page(canvas: ModuleType) -> tuple[Any, Any]:
    """A blank canvas of 200 by 100 pixels and its axes, y downwards."""
    blank = canvas.make_canvas(200, 100)
    axes = blank.figure.add_axes((0, 0, 1, 1), xlim=(0, 200), ylim=(100, 0))
    axes.set_axis_off()
    return blank, axes


def picture_of(canvas: ModuleType, blank: Any) -> Image.Image:
    blank.draw()
    picture: Image.Image = canvas.image_of(blank)
    return picture


def written(canvas: ModuleType, words: str, x: float = 100, y: float = 50, **looks: Any) -> Image.Image:
    blank, axes = page(canvas)
    canvas.write(axes, x, y, words, **looks)
    return picture_of(canvas, blank)


def box_of(picture: Image.Image) -> tuple[int, int, int, int]:
    """Left, top, right and bottom of what is not paper."""
    box = ImageChops.difference(picture, Image.new("RGB", picture.size, "white")).getbbox()
    assert box is not None
    return box


@pytest.mark.parametrize("looks", LOOKS)
def test_words_look_and_stand_as_matplotlib_would_have_them(canvas: ModuleType, looks: dict[str, Any]) -> None:
    blank, axes = page(canvas)
    axes.text(100, 50, "gap 12", **looks)
    wanted, got = picture_of(canvas, blank), written(canvas, "gap 12", **looks)
    assert np.abs(np.subtract(box_of(wanted), box_of(got))).max() <= 1
    # As much ink of each colour; only where it falls within its pixel may differ.
    ink = [(255.0 - np.asarray(picture)).sum(axis=(0, 1)) for picture in (wanted, got)]
    np.testing.assert_allclose(ink[0], ink[1], rtol=0.05)


def test_the_same_words_elsewhere_are_the_same_pixels(canvas: ModuleType) -> None:
    here, there = written(canvas, "slot 7", 60, 30), written(canvas, "slot 7", 140, 70)
    assert here.crop(box_of(here)).tobytes() == there.crop(box_of(there)).tobytes()


def test_what_differs_is_not_mixed_up(canvas: ModuleType) -> None:
    variants = [{}, *LOOKS, LOOKS[0] | {"fontsize": 10.5}, LOOKS[0] | {"color": "#767676"}]
    pictures = [written(canvas, words, **looks).tobytes() for looks in variants for words in ("one", "two")]
    assert len(set(pictures)) == len(pictures)


def test_words_that_reach_over_the_edge_are_cut_there(canvas: ModuleType) -> None:
    assert box_of(written(canvas, "over the edge", 190, 50))[2] == 200
    assert box_of(written(canvas, "over the edge", -20, 50))[0] == 0


def test_wiped_axes_are_blank(canvas: ModuleType) -> None:
    from matplotlib.collections import PolyCollection
    from matplotlib.patches import Rectangle

    blank, axes = page(canvas)
    before = picture_of(canvas, blank).tobytes()
    canvas.write(axes, 100, 50, "words")
    axes.add_artist(Rectangle((10, 10), 50, 20))
    axes.add_collection(PolyCollection([[(100, 80), (150, 80), (150, 95)]]), autolim=False)
    assert picture_of(canvas, blank).tobytes() != before
    canvas.wipe(axes)
    assert picture_of(canvas, blank).tobytes() == before


def test_a_png_holds_every_pixel(canvas: ModuleType) -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (7, 13, 3), np.uint8)
    with Image.open(io.BytesIO(canvas.png_of_image(Image.fromarray(pixels)))) as picture:
        picture.verify()  # checksums
    with Image.open(io.BytesIO(canvas.png_of_image(Image.fromarray(pixels)))) as picture:
        assert (picture.format, picture.mode) == ("PNG", "RGB")
        assert np.array_equal(np.asarray(picture), pixels)
