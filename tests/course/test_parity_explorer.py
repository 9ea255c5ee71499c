"""The explorer of exported models: its numbers are the engine's, and the widget follows its controls."""

from __future__ import annotations

import importlib
import io
import logging
import sys
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import ipywidgets as widgets
import matplotlib.pyplot as plt
import onnxruntime
import pytest
import torch
from PIL import Image

EXPORTS = (
    "right",
    "traced on a bright picture",
    "traced on a dark picture",
    "exported in train mode",
    "right, but fed with BGR",
)
CHOICES = [(export, picture, level) for export in EXPORTS for picture in ("temple", "flower") for level in (0.1, 1.0)]


@pytest.fixture(autouse=True)
def one_thread(course_folder: Path) -> Iterator[None]:
    """Tensors as small as these only lose time by sharing the work between cores."""
    with importlib.import_module("explorers.timing").one_thread():
        yield


@pytest.fixture
def parity(course_folder: Path) -> ModuleType:
    """The module ``explorers.parity``."""
    return importlib.import_module("explorers.parity")


class TestRelativeError:
    def test_by_hand(self, parity: ModuleType) -> None:
        eager, served = torch.tensor([1.0, -4.0]), torch.tensor([1.5, -4.0])
        assert parity.relative_error(eager, served) == 0.125  # 0.5 of 4, not of 1
        assert parity.relative_error(eager, eager) == 0

    def test_zeros_divide_by_nothing(self, parity: ModuleType) -> None:
        assert parity.relative_error(torch.zeros(2), torch.zeros(2)) == 0
        assert parity.relative_error(torch.zeros(2), torch.ones(2)) > 1

    def test_unequal_shapes_are_errors_not_broadcast(self, parity: ModuleType) -> None:
        with pytest.raises(ValueError, match="shape"):
            parity.relative_error(torch.zeros(2), torch.zeros(1, 2))

    def test_nan_is_never_within_the_budget(self, parity: ModuleType) -> None:
        nan = torch.tensor([float("nan")])
        error = parity.relative_error(torch.ones(1), nan)
        assert not parity.Node("head", torch.ones(1), nan, error, False).within


class TestCompare:
    def test_the_choices_are_the_ones_that_the_lesson_speaks_of(self, parity: ModuleType) -> None:
        assert parity.EXPORTS == EXPORTS
        assert (parity.DARK, parity.BUDGET) == (0.25, 1e-4)

    @pytest.mark.parametrize("picture", ["temple", "flower"])
    def test_the_right_export_agrees_at_every_node_and_brightness(self, parity: ModuleType, picture: str) -> None:
        for brightness in parity.BRIGHTNESSES:
            nodes = parity.compare("right", picture, brightness)
            assert tuple(node.name for node in nodes) == parity.NODES
            assert all(node.within for node in nodes)

    @pytest.mark.parametrize("picture", ["temple", "flower"])
    def test_traced_ones_are_wrong_on_the_other_side_of_the_branch_only(self, parity: ModuleType, picture: str) -> None:
        sides = set()
        for brightness in parity.BRIGHTNESSES:
            dark = parity.picture_at(picture, brightness).mean().item() < parity.DARK
            sides.add(dark)
            for export, right_side in (("traced on a bright picture", not dark), ("traced on a dark picture", dark)):
                wrong = [node.name for node in parity.compare(export, picture, brightness) if not node.within]
                assert wrong == ([] if right_side else list(parity.NODES[1:]))
        assert sides == {True, False}

    def test_the_first_node_that_differs_names_the_cause(self, parity: ModuleType) -> None:
        for export, expected in (("exported in train mode", "dropout"), ("right, but fed with BGR", "picture")):
            nodes = parity.compare(export, "temple", 1.0)
            assert next(node.name for node in nodes if not node.within) == expected

    def test_a_branch_that_did_nothing_has_no_operator(self, parity: ModuleType) -> None:
        def absent(export: str) -> list[str]:
            return [node.name for node in parity.compare(export, "temple", 1.0) if node.absent]

        assert absent("right") == ["dropout"]  # as it should be
        assert absent("traced on a bright picture") == ["lighten", "dropout"]
        assert absent("exported in train mode") == []

    def test_eager_values_are_those_of_the_layers_applied_by_hand(self, parity: ModuleType) -> None:
        net = parity._eager()
        value = parity.picture_at("temple", 0.2)
        for node, layer in zip(parity.compare("right", "temple", 0.2)[1:], net, strict=True):
            value = layer(value)
            torch.testing.assert_close(node.eager, value.detach(), rtol=0, atol=0)

    def test_served_logits_are_those_of_the_file_without_inner_values(self, parity: ModuleType) -> None:
        session = onnxruntime.InferenceSession(parity._export("right"), providers=["CPUExecutionProvider"])
        for brightness in (0.1, 1.0):
            (logits,) = session.run(None, {"picture": parity.picture_at("flower", brightness).numpy()})
            served = parity.compare("right", "flower", brightness)[-1].served
            torch.testing.assert_close(served, torch.from_numpy(logits), rtol=1e-5, atol=1e-5)

    def test_eager_knows_the_pictures_at_most_brightnesses(self, parity: ModuleType) -> None:
        for number, picture in enumerate(parity.PICTURES):
            nodes = [parity.compare("right", picture, brightness) for brightness in parity.BRIGHTNESSES]
            known = [parity.probabilities(found)[0][number] > 0.5 for found in nodes]
            assert sum(known) >= 0.9 * len(known)

    def test_a_dark_temple_is_a_flower_without_its_branch(self, parity: ModuleType) -> None:
        eager, served = parity.probabilities(parity.compare("traced on a bright picture", "temple", 0.05))
        assert eager[0] > 0.5 > served[0]

    def test_unknown_choices_are_errors(self, parity: ModuleType) -> None:
        with pytest.raises(ValueError, match="unknown export"):
            parity.compare("best", "temple", 1.0)
        with pytest.raises(ValueError, match="unknown picture"):
            parity.compare("right", "dog", 1.0)
        for brightness in (0.0, 0.07, 1.05):
            with pytest.raises(ValueError, match="unknown brightness"):
                parity.compare("right", "temple", brightness)


class TestQuiet:
    def test_it_keeps_words_off_the_screen_and_puts_everything_back(
        self, parity: ModuleType, capfd: pytest.CaptureFixture[str]
    ) -> None:
        disabled, filters = logging.root.manager.disable, list(warnings.filters)
        with parity.quietly():
            print("print")
            print("error", file=sys.stderr)
            warnings.warn("warning", stacklevel=1)
            logging.getLogger("somewhere").error("log")
        assert capfd.readouterr() == ("", "")
        assert logging.root.manager.disable == disabled and list(warnings.filters) == filters

    def test_exceptions_go_through(self, parity: ModuleType) -> None:
        with pytest.raises(KeyError), parity.quietly():
            raise KeyError
        assert logging.root.manager.disable == 0

    def test_making_exports_leaves_the_global_generator_alone(self, parity: ModuleType) -> None:
        before = torch.get_rng_state()
        parity._weights.__wrapped__()
        parity._export("exported in train mode")
        assert torch.equal(torch.get_rng_state(), before)


class TestWords:
    @pytest.mark.parametrize("choice", CHOICES)
    def test_every_choice_has_one_line(self, parity: ModuleType, choice: tuple[str, str, float]) -> None:
        line = parity.explain(*choice)
        assert line.endswith(".") and "\n" not in line
        everything = parity.describe(*choice)
        assert line in everything and "nan" not in everything
        assert all(name in everything for name in parity.NODES)

    def test_the_line_says_where_the_paths_part(self, parity: ModuleType) -> None:
        assert "agree at every node" in parity.explain("right", "flower", 0.1)
        line = parity.explain("traced on a bright picture", "temple", 0.05)
        assert "eager brightens it" in line and 'part at "lighten" (the file has no operator for it)' in line
        assert 'Eager says "temple", the served model "flower"' in line
        assert "leaves it as it is" in parity.explain("right", "flower", 1.0)


class TestDrawing:
    def test_every_choice_can_be_drawn(self, parity: ModuleType) -> None:
        drawing = parity.ParityDrawing()
        pictures = {drawing.render(*choice) for choice in CHOICES}
        assert len(pictures) >= 16  # where a wrong export is right, it looks much like the right one
        assert {Image.open(io.BytesIO(picture)).size for picture in pictures} == {(900, 400)}

    def test_a_reused_figure_keeps_nothing_of_the_last_drawing(self, parity: ModuleType) -> None:
        drawing = parity.ParityDrawing()
        before = drawing.render("right", "flower", 1.0)
        drawing.render("traced on a bright picture", "temple", 0.05)
        assert drawing.render("right", "flower", 1.0) == before

    def test_bars_over_the_budget_differ_in_hatch_too(self, parity: ModuleType) -> None:
        drawing = parity.ParityDrawing()
        assert drawing._good.get_hatch() != drawing._bad.get_hatch()

    def test_drawing_leaves_pyplot_alone(self, parity: ModuleType) -> None:
        open_before = plt.get_fignums()
        parity.render_png()
        assert plt.get_fignums() == open_before


class TestWidget:
    def test_the_slider_changes_line_table_and_picture(self, parity: ModuleType) -> None:
        explorer = parity.ParityExplorer("traced on a bright picture", "flower", 1.0)
        before = explorer.line.value, explorer.outcome.value, explorer.image.value
        assert "agree at every node" in explorer.line.value

        explorer.brightness.value = 0.1
        after = explorer.line.value, explorer.outcome.value, explorer.image.value
        assert all(old != new for old, new in zip(before, after, strict=True))
        assert "The paths part" in explorer.line.value

        explorer.export.value = "right"
        assert "agree at every node" in explorer.line.value

    def test_a_move_takes_less_than_a_tenth_of_a_second(self, parity: ModuleType) -> None:
        explorer = parity.ParityExplorer()
        parity.compare.cache_clear()
        moves = []
        for brightness in parity.BRIGHTNESSES:
            start = time.perf_counter()
            explorer.brightness.value = brightness
            moves.append(time.perf_counter() - start)
        assert min(moves) < 0.1  # the quickest one: this is no place to measure a busy machine

    def test_lessons_get_a_container(self, parity: ModuleType) -> None:
        box = parity.explore_parity("right", "temple", 0.5)
        assert isinstance(box, widgets.VBox)
        assert any(isinstance(child, widgets.Image) for child in box.children)

    def test_unknown_beginnings_are_errors(self, parity: ModuleType) -> None:
        with pytest.raises(ValueError, match="unknown export"):
            parity.explore_parity("best")
