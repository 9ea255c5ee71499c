"""The explorer of the training loop: its numbers are torch's, and the widget follows its controls."""

from __future__ import annotations

import importlib
import io
from pathlib import Path
from types import ModuleType
from typing import Any

import ipywidgets as widgets
import matplotlib.pyplot as plt
import pytest
import torch
from PIL import Image

RIGHT = "zero, forward, backward, clip, step"
ORDERS = (
    RIGHT,
    "forward, backward, clip, step, zero",
    "zero between backward and step",
    "no zero",
    "step before backward",
    "clip after step",
    "scheduler before step",
    "no eval()",
    "no train() after validating",
)
STILL = ("zero between backward and step", "step before backward")


@pytest.fixture
def loop(course_folder: Path) -> ModuleType:
    """The module ``explorers.loop``."""
    return importlib.import_module("explorers.loop")


def moments(trace: Any, call: str) -> list[tuple[Any, Any]]:
    """(moment before, moment after) for each time that ``call`` was made."""
    pairs = zip(trace.moments, trace.moments[1:], strict=False)
    return [(before, after) for before, after in pairs if after.call == call]


def number_of(trace: Any, call: str, epoch: int, batch: int = 0) -> int:
    """The number of one call, for the slider."""
    wanted = (call, epoch, batch)
    return [(moment.call, moment.epoch, moment.batch) for moment in trace.moments].index(wanted)


class TestNumbers:
    def test_the_orders_are_the_ones_that_the_lesson_speaks_of(self, loop: ModuleType) -> None:
        assert tuple(loop.ORDERS) == ORDERS

    @pytest.mark.parametrize("order", ORDERS)
    def test_every_step_is_sgd_with_momentum(self, loop: ModuleType, order: str) -> None:
        trace = loop.run_order(order)
        assert len(trace.curve) == len(trace.path) == 1 + loop.N_EPOCHS * loop.N_BATCHES
        for before, after in moments(trace, "step"):
            if before.gradient is None:
                assert after.weights == before.weights
                assert after.momentum == before.momentum
                continue
            held = before.momentum or (0.0, 0.0)
            momentum = [0.5 * old + new for old, new in zip(held, before.gradient, strict=True)]
            weights = [old - before.rate * move for old, move in zip(before.weights, momentum, strict=True)]
            assert after.momentum == pytest.approx(momentum, rel=1e-5, abs=1e-6)
            assert after.weights == pytest.approx(weights, rel=1e-5, abs=1e-6)

    @pytest.mark.parametrize("order", ORDERS)
    def test_each_call_changes_only_what_it_should(self, loop: ModuleType, order: str) -> None:
        may_change = {
            "train": {"mode"},
            "eval": {"mode"},
            "zero": {"gradient"},
            "forward": {"loss"},
            "backward": {"gradient"},
            "clip": {"gradient"},
            "step": {"weights", "momentum"},
            "scheduler": {"rate"},
            "validate": {"validation"},
        }
        for call, allowed in may_change.items():
            for before, after in moments(loop.run_order(order), call):
                facts = ("weights", "gradient", "momentum", "rate", "mode", "loss", "validation")
                changed = {fact for fact in facts if getattr(before, fact) != getattr(after, fact)}
                assert changed <= allowed

    @pytest.mark.parametrize("order", ORDERS)
    def test_the_curve_is_the_loss_at_the_weights(self, loop: ModuleType, order: str) -> None:
        trace = loop.run_order(order)
        x, y = loop._points()
        for weights, loss in zip(trace.path, trace.curve, strict=True):
            by_hand = (x @ torch.tensor(weights)[:, None] - y).square().mean().item()
            assert loss == pytest.approx(by_hand, rel=1e-4)

    def test_two_right_orders_give_the_same_weights(self, loop: ModuleType) -> None:
        assert loop.run_order(RIGHT).path == loop.run_order("forward, backward, clip, step, zero").path
        assert loop.run_order(RIGHT).curve[-1] < loop.run_order(RIGHT).curve[0] / 20

    @pytest.mark.parametrize("order", STILL)
    def test_orders_that_never_move(self, loop: ModuleType, order: str) -> None:
        trace = loop.run_order(order)
        assert set(trace.path) == {trace.path[0]}
        assert any(after.gradient for _, after in moments(trace, "backward"))

    def test_without_zero_gradients_add_up(self, loop: ModuleType) -> None:
        trace, right = loop.run_order("no zero"), loop.run_order(RIGHT)
        assert trace.path[1] == right.path[1]  # the first step shows nothing
        assert trace.path[2] != right.path[2]
        assert all(moment.gradient is not None for moment in trace.moments[3:])
        assert trace.curve[-1] > 4 * right.curve[-1]

    def test_clipping_bounds_the_gradient_that_a_step_sees(self, loop: ModuleType) -> None:
        def longest(order: str) -> float:
            return max(
                torch.tensor(before.gradient).norm().item() for before, _ in moments(loop.run_order(order), "step")
            )

        assert longest(RIGHT) <= loop.MAX_NORM * 1.001
        assert longest("clip after step") > 10 * loop.MAX_NORM
        assert loop.run_order("clip after step").curve[-1] > 50 * loop.run_order(RIGHT).curve[-1]

    def test_the_scheduler_too_early_skips_the_first_rate(self, loop: ModuleType) -> None:
        early, right = loop.run_order("scheduler before step"), loop.run_order(RIGHT)
        used = [before.rate for before, _ in moments(early, "step")]
        intended = [before.rate for before, _ in moments(right, "step")]
        assert intended[0] == right.rate
        assert used[:-1] == intended[1:]
        assert "optimizer.step()" in next(after.warning for _, after in moments(early, "scheduler"))
        assert not any(moment.warning for moment in right.moments)

    def test_modes(self, loop: ModuleType) -> None:
        def modes(order: str, call: str) -> list[str]:
            return [after.mode for _, after in moments(loop.run_order(order), call)]

        assert set(modes(RIGHT, "forward")) == {"train"}
        assert set(modes(RIGHT, "validate")) == {"eval"}
        assert set(modes("no eval()", "validate")) == {"train"}
        assert modes("no train() after validating", "forward") == ["train"] * 4 + ["eval"] * 8
        right, noisy = loop.run_order(RIGHT), loop.run_order("no eval()")
        assert all(loss == pytest.approx(right.curve[steps], rel=1e-4) for steps, loss in right.validations)
        assert all(loss != pytest.approx(noisy.curve[steps], rel=1e-2) for steps, loss in noisy.validations)

    def test_runs_repeat_and_leave_the_global_generator_alone(self, loop: ModuleType) -> None:
        before = torch.get_rng_state()
        first = loop.run_order.__wrapped__(RIGHT, 0.1)
        torch.rand(3)
        after = torch.get_rng_state()
        second = loop.run_order.__wrapped__(RIGHT, 0.1)
        assert first == second
        assert torch.equal(torch.get_rng_state(), after)
        assert not torch.equal(before, after)

    def test_unknown_orders_and_rates_are_errors(self, loop: ModuleType) -> None:
        with pytest.raises(ValueError, match="unknown order"):
            loop.run_order("backwards")
        with pytest.raises(ValueError, match="must be positive"):
            loop.run_order(RIGHT, 0.0)
        with pytest.raises(ValueError, match="must be positive"):
            loop.run_order(RIGHT, float("nan"))


class TestWords:
    @pytest.mark.parametrize("order", ORDERS)
    def test_every_moment_has_one_line(self, loop: ModuleType, order: str) -> None:
        trace = loop.run_order(order)
        for number in range(len(trace.moments)):
            line = loop.explain(trace, number)
            assert line.endswith(".") and "\n" not in line
            assert trace.order.verdict in loop.describe(trace, number)

    def test_backward_says_that_it_added(self, loop: ModuleType) -> None:
        trace = loop.run_order("no zero")
        first, second = (number_of(trace, "backward", 1, batch) for batch in (1, 2))
        assert "is in .grad now" in loop.explain(trace, first)
        assert "was added to what .grad held" in loop.explain(trace, second)

    def test_clipping_too_late_is_said(self, loop: ModuleType) -> None:
        late, right = loop.run_order("clip after step"), loop.run_order(RIGHT)
        words = "The step had used it before that."
        assert words in loop.explain(late, number_of(late, "clip", 1, 3))
        assert words not in loop.explain(right, number_of(right, "clip", 1, 3))

    def test_a_step_without_gradient_is_said(self, loop: ModuleType) -> None:
        for order in STILL:
            trace = loop.run_order(order)
            assert "nothing moved" in loop.explain(trace, number_of(trace, "step", 1, 1))

    def test_torchs_warning_is_told(self, loop: ModuleType) -> None:
        trace = loop.run_order("scheduler before step")
        assert "torch warns" in loop.explain(trace, number_of(trace, "scheduler", 1, 1))

    def test_a_diverging_run_can_still_be_described(self, loop: ModuleType) -> None:
        trace = loop.run_order("clip after step", 50.0)
        number = len(trace.moments) - 1
        assert loop.describe(trace, number)
        assert loop.render_png(trace)


class TestDrawing:
    @pytest.mark.parametrize("order", ORDERS)
    def test_every_order_can_be_drawn(self, loop: ModuleType, order: str) -> None:
        trace = loop.run_order(order)
        assert Image.open(io.BytesIO(loop.render_png(trace))).size == (900, 380)
        assert loop.render_png(trace, 0) != loop.render_png(trace)

    def test_a_reused_figure_keeps_nothing_of_the_last_drawing(self, loop: ModuleType) -> None:
        drawing = loop.LoopDrawing()
        before = drawing.render(loop.run_order(RIGHT), 30)
        drawing.render(loop.run_order("clip after step", 0.4), 81)
        assert drawing.render(loop.run_order(RIGHT), 30) == before

    def test_validations_appear_when_they_have_run(self, loop: ModuleType) -> None:
        trace, drawing = loop.run_order(RIGHT), loop.LoopDrawing()
        number = number_of(trace, "validate", 1)
        drawing.render(trace, number - 1)
        assert len(drawing._validations.get_xdata()) == 0
        drawing.render(trace, number)
        assert len(drawing._validations.get_xdata()) == 1

    def test_weights_off_the_map_are_told_in_words(self, loop: ModuleType) -> None:
        trace, drawing = loop.run_order("clip after step", 1.0), loop.LoopDrawing()
        drawing.render(trace, number_of(trace, "step", 1, 3))
        assert "off the map" in drawing._words.get_text()
        drawing.render(trace, 0)
        assert drawing._words.get_text() == ""

    def test_drawing_leaves_pyplot_alone(self, loop: ModuleType) -> None:
        open_before = plt.get_fignums()
        loop.render_png(loop.run_order(RIGHT))
        assert plt.get_fignums() == open_before


class TestWidget:
    def test_the_slider_goes_call_by_call(self, loop: ModuleType) -> None:
        explorer = loop.LoopExplorer()
        picture = explorer.picture.value
        assert "(start)" in explorer.line.value

        explorer.call.value = number_of(explorer.trace, "backward", 1, 1)
        assert "loss.backward()" in explorer.line.value
        assert "→         loss.backward()" in explorer.listing.value
        assert "(was None)" in explorer.table.value

        explorer.call.value += 2
        assert "optimiser.step()" in explorer.line.value
        assert explorer.picture.value != picture

    def test_another_order_says_what_it_does_wrong(self, loop: ModuleType) -> None:
        explorer = loop.LoopExplorer()
        explorer.call.value = 40
        explorer.order.value = "no zero"
        assert "Wrong: each gradient is added" in explorer.verdict.value
        assert explorer.call.value == 40
        assert "zero_grad" not in explorer.listing.value

    def test_a_shorter_run_moves_the_slider_back(self, loop: ModuleType) -> None:
        explorer = loop.LoopExplorer()
        explorer.call.value = explorer.call.max
        explorer.order.value = "no zero"
        assert explorer.call.value == explorer.call.max == len(explorer.trace.moments) - 1
        assert f"call {explorer.call.max} of {explorer.call.max}" in explorer.line.value

    def test_the_learning_rate_changes_the_run(self, loop: ModuleType) -> None:
        explorer = loop.LoopExplorer(rate=0.02)
        explorer.call.value = explorer.call.max
        slow = explorer.trace.curve[-1]
        explorer.rate.value = 0.2
        assert explorer.trace.curve[-1] < slow / 10

    def test_train_before_the_loop_stands_before_it(self, loop: ModuleType) -> None:
        listing = loop.LoopExplorer("no train() after validating").listing.value
        assert listing.index("model.train()") < listing.index("for epoch")
        listing = loop.LoopExplorer(RIGHT).listing.value
        assert listing.index("model.train()") > listing.index("for epoch")

    def test_lessons_get_a_container(self, loop: ModuleType) -> None:
        box = loop.explore_loop("no zero", 0.4)
        assert isinstance(box, widgets.VBox)
        assert any(isinstance(child, widgets.Image) for child in box.children)

    def test_unknown_beginnings_are_errors(self, loop: ModuleType) -> None:
        with pytest.raises(ValueError, match="one of"):
            loop.explore_loop(RIGHT, 0.3)
        with pytest.raises(ValueError, match="unknown order"):
            loop.explore_loop("backwards")
