"""The explorer of number formats: its numbers are torch's, and the widget follows its controls."""

from __future__ import annotations

import importlib
import io
import math
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import ipywidgets as widgets
import matplotlib.pyplot as plt
import pytest
import torch
from PIL import Image

PLACES = ("logits", "layer 3", "layer 2", "layer 1", "weights of layer 1")
STEPS = (0, 10, 30, 60)
CHOICES = [(place, step, exponent) for place in PLACES for step in STEPS for exponent in (0, 13, 44)]


@pytest.fixture(autouse=True)
def one_thread(course_folder: Path) -> Iterator[None]:
    """Tensors as small as these only lose time by sharing the work between cores."""
    with importlib.import_module("explorers.timing").one_thread():
        yield


@pytest.fixture
def precision(course_folder: Path) -> ModuleType:
    """The module ``explorers.precision``."""
    return importlib.import_module("explorers.precision")


def float64(*numbers: float) -> torch.Tensor:
    return torch.tensor(numbers, dtype=torch.float64)


class TestCast:
    def test_fates_of_numbers_that_can_be_worked_out_by_hand(self, precision: ModuleType) -> None:
        # fp16: the smallest subnormal is 2**-24, and half of it rounds to zero; the smallest normal is 2**-14.
        numbers = float64(2.0**-25, 2.0**-24, -(2.0**-15), 2.0**-14, 1.0, 65504.0, -65520.0, 0.0)
        fate = precision.cast(numbers, 1.0, torch.float16)
        assert fate == precision.Fate(
            flushed=pytest.approx(1 / 7), subnormal=pytest.approx(2 / 7), overflowed=pytest.approx(1 / 7), error=0.0
        )

    def test_the_scale_moves_numbers(self, precision: ModuleType) -> None:
        numbers = float64(2.0**-30, -(2.0**-26))
        assert precision.cast(numbers, 1.0, torch.float16).flushed == 1
        assert precision.cast(numbers, 2.0**4, torch.float16).flushed == 0.5
        assert precision.cast(numbers, 2.0**16, torch.float16) == precision.Fate(0.0, 0.0, 0.0, 0.0)
        assert precision.cast(numbers, 2.0**43, torch.float16).overflowed == 0.5

    def test_rounding_error_is_relative(self, precision: ModuleType) -> None:
        # bf16 keeps 7 bits: 1 + 2**-9 becomes 1, and 3 times it becomes 3.
        for scale in (1.0, 2.0**60):
            fate = precision.cast(float64(1 + 2.0**-9, 3 * (1 + 2.0**-9)), scale, torch.bfloat16)
            assert fate.error == pytest.approx(2.0**-9, rel=0.01)
        assert precision.cast(float64(1 + 2.0**-9), 1.0, torch.float16).error == 0

    def test_what_is_lost_has_no_rounding_error(self, precision: ModuleType) -> None:
        assert math.isnan(precision.cast(float64(1e-12, 1e-11), 1.0, torch.float16).error)
        assert precision.cast(float64(1e-12, 1.0), 1.0, torch.float16).error == 0

    def test_nothing_to_cast_and_strange_scales_are_errors(self, precision: ModuleType) -> None:
        with pytest.raises(ValueError, match="other than zero"):
            precision.cast(float64(0.0), 1.0, torch.float16)
        for scale in (0.0, -1.0, math.nan):
            with pytest.raises(ValueError, match="positive"):
                precision.cast(float64(1.0), scale, torch.float16)


class TestGradients:
    def test_the_choices_are_the_ones_that_the_lesson_speaks_of(self, precision: ModuleType) -> None:
        assert (precision.PLACES, precision.STEPS) == (PLACES, STEPS)
        assert tuple(precision.FORMATS) == ("fp32", "bf16", "fp16")

    def test_those_of_the_logits_are_softmax_minus_label(self, precision: ModuleType) -> None:
        x, y = precision._data()
        logits = precision._network().double()(x.double())
        expected = (logits.softmax(dim=1) - torch.nn.functional.one_hot(y, 10)) / len(x) * precision.LOSS_WEIGHT
        torch.testing.assert_close(precision.gradients("logits", 0), expected.flatten(), rtol=1e-9, atol=0)

    def test_those_of_the_weights_follow_from_the_layer(self, precision: ModuleType) -> None:
        x, _ = precision._data()
        for step in STEPS:
            layer = precision.gradients("layer 1", step).view(len(x), -1)
            weights = precision.gradients("weights of layer 1", step).view(-1, x.shape[1])
            torch.testing.assert_close(weights, layer.T @ x.double(), rtol=1e-9, atol=1e-20)

    def test_training_changes_them(self, precision: ModuleType) -> None:
        sizes = [precision.gradients("logits", step).abs().mean().item() for step in STEPS]
        assert sizes[0] > 5 * sizes[-1]

    def test_unknown_choices_are_errors(self, precision: ModuleType) -> None:
        with pytest.raises(ValueError, match="unknown place"):
            precision.gradients("layer 9", 0)
        with pytest.raises(ValueError, match="at step 7"):
            precision.gradients("logits", 7)

    @pytest.mark.parametrize(("place", "step"), [(place, step) for place in PLACES for step in STEPS])
    def test_fates_are_those_of_torchs_cast(self, precision: ModuleType, place: str, step: int) -> None:
        numbers = precision.gradients(place, step)
        numbers = numbers[numbers != 0]
        for exponent in (0, 8, 16, 40):
            found = precision.fates(place, step, exponent)
            for name, dtype in (("fp32", torch.float32), ("bf16", torch.bfloat16), ("fp16", torch.float16)):
                there = (numbers * 2.0**exponent).to(dtype)
                assert found[name].flushed == pytest.approx((there == 0).double().mean().item(), abs=1e-6)
                assert found[name].overflowed == pytest.approx(there.isinf().double().mean().item(), abs=1e-6)

    @pytest.mark.parametrize("place", PLACES)
    def test_a_larger_scale_flushes_less_and_overflows_more(self, precision: ModuleType, place: str) -> None:
        for step in STEPS:
            fates = [precision.fates(place, step, exponent)["fp16"] for exponent in range(0, 45, 4)]
            flushed = [fate.flushed for fate in fates]
            overflowed = [fate.overflowed for fate in fates]
            assert flushed == sorted(flushed, reverse=True)
            assert overflowed == sorted(overflowed)

    def test_only_fp16_needs_a_scale(self, precision: ModuleType) -> None:
        for choice in CHOICES:
            fates = precision.fates(*choice)
            for name in ("fp32", "bf16"):
                assert (fates[name].flushed, fates[name].subnormal, fates[name].overflowed) == (0, 0, 0)
            assert fates["fp32"].error < 1e-6 < fates["bf16"].error
        assert precision.fates("layer 1", 0, 0)["fp16"].flushed > 0.9
        assert precision.fates("layer 1", 0, 16)["fp16"].flushed < 0.01


class TestCurves:
    def test_only_fp16_without_scaling_stands_still(self, precision: ModuleType) -> None:
        curves = precision.training_curves()
        assert tuple(curves) == precision.RUNS
        assert all(len(curve) == precision.N_STEPS + 1 for curve in curves.values())
        for run in ("fp32", "bf16 autocast", "fp16 with GradScaler"):
            assert curves[run][-1] < 0.1
        assert min(curves["fp16 without scaling"]) > 1.5

    def test_they_repeat_and_leave_the_global_generator_alone(self, precision: ModuleType) -> None:
        before = torch.get_rng_state()
        first, second = precision._train("fp32")[0], precision._train("fp32")[0]
        assert first == second
        assert torch.equal(torch.get_rng_state(), before)


class TestWords:
    @pytest.mark.parametrize("choice", CHOICES)
    def test_every_choice_has_one_line(self, precision: ModuleType, choice: tuple[str, int, int]) -> None:
        line = precision.explain(*choice)
        assert line.endswith(".") and "\n" not in line
        everything = precision.describe(*choice)
        assert line in everything and precision.summary() in everything
        assert "nan" not in everything

    def test_the_line_says_whether_the_scale_fits(self, precision: ModuleType) -> None:
        assert "every gradient here becomes zero" in precision.explain("layer 1", 0, 0)
        assert "too small" in precision.explain("layer 1", 0, 4)
        assert "lower end" in precision.explain("layer 1", 0, 10)
        assert "fits" in precision.explain("layer 1", 0, 24)
        assert "too large" in precision.explain("weights of layer 1", 10, 44)

    def test_shares_next_to_none_and_all_are_not_rounded_away(self, precision: ModuleType) -> None:
        shares = (0.0, 0.0004, 0.5, 0.9996, 1.0)
        words = ["0 %", "less than 0.1 %", "50 %", "more than 99.9 %", "100 %"]
        assert [precision._percent(share) for share in shares] == words


class TestDrawing:
    @pytest.mark.parametrize("choice", CHOICES)
    def test_bars_hold_every_gradient(self, precision: ModuleType, choice: tuple[str, int, int]) -> None:
        bars = precision._bars(*choice)
        fate = precision.fates(*choice)["fp16"]
        total = sum(height for stack in bars for _, _, height in stack)
        shares = [sum(height for _, _, height in stack) / total for stack in bars]
        fine = 1 - fate.flushed - fate.subnormal - fate.overflowed
        assert shares == pytest.approx([fate.flushed, fate.subnormal, fine, fate.overflowed], abs=1e-5)
        assert max(low + height for stack in bars for _, low, height in stack) == pytest.approx(1)

    def test_every_choice_can_be_drawn(self, precision: ModuleType) -> None:
        drawing = precision.PrecisionDrawing()
        pictures = {drawing.render(*choice) for choice in CHOICES}
        assert len(pictures) == len(CHOICES)
        assert {Image.open(io.BytesIO(picture)).size for picture in pictures} == {(900, 380)}

    def test_a_reused_figure_keeps_nothing_of_the_last_drawing(self, precision: ModuleType) -> None:
        drawing = precision.PrecisionDrawing()
        before = drawing.render("layer 1", 0, 8)
        drawing.render("weights of layer 1", 60, 44)
        assert drawing.render("layer 1", 0, 8) == before

    def test_fates_differ_in_hatch_too(self, precision: ModuleType) -> None:
        hatches = [hatch for _, _, hatch in precision._LOOKS]
        assert len(set(hatches)) == len(hatches)
        assert [stack.get_hatch() for stack in precision.PrecisionDrawing()._stacks] == hatches

    def test_drawing_leaves_pyplot_alone(self, precision: ModuleType) -> None:
        open_before = plt.get_fignums()
        precision.render_png()
        assert plt.get_fignums() == open_before


class TestWidget:
    def test_the_slider_changes_line_table_and_picture(self, precision: ModuleType) -> None:
        explorer = precision.PrecisionExplorer()
        picture = explorer.picture.value
        assert "every gradient here becomes zero" in explorer.line.value
        assert "100 %" in explorer.table.value

        explorer.exponent.value = 24
        assert "The scale fits" in explorer.line.value
        assert "100 %" not in explorer.table.value
        assert explorer.picture.value != picture

    def test_place_and_step_change_it_too(self, precision: ModuleType) -> None:
        explorer = precision.PrecisionExplorer("layer 1", 0, 16)
        seen = {explorer.picture.value}
        explorer.place.value = "logits"
        seen.add(explorer.picture.value)
        explorer.step.value = 60
        seen.add(explorer.picture.value)
        assert len(seen) == 3
        assert precision.explain("logits", 60, 16) in explorer.line.value

    def test_curves_are_told_in_words(self, precision: ModuleType) -> None:
        explorer = precision.PrecisionExplorer()
        assert all(run in explorer.curves.value for run in precision.RUNS)

    def test_lessons_get_a_container(self, precision: ModuleType) -> None:
        box = precision.explore_precision("logits", 30, 16)
        assert isinstance(box, widgets.VBox)
        assert any(isinstance(child, widgets.Image) for child in box.children)

    def test_unknown_beginnings_are_errors(self, precision: ModuleType) -> None:
        with pytest.raises(ValueError, match="unknown place"):
            precision.explore_precision("layer 9")
        with pytest.raises(ValueError, match="at step 7"):
            precision.explore_precision("logits", 7)
        for exponent in (-1, 45, 2.5):
            with pytest.raises(ValueError, match="whole number"):
                precision.explore_precision("logits", 0, exponent)
