"""The explorer of the autograd graph: it reports what torch does, and the widget follows its controls."""

from __future__ import annotations

import importlib
import io
import itertools
import math
from pathlib import Path
from types import ModuleType
from typing import Any

import ipywidgets as widgets
import pytest
import torch
from PIL import Image

# y as a function of x, written once more, and its slope
FUNCTIONS: dict[str, Any] = {
    "x*x + 2*x + 1": (lambda x: (x + 1) ** 2, lambda x: 2 * x + 2),
    "a factor used twice": (lambda x: (x + 1) ** 2 * x, lambda x: (x + 1) * (3 * x + 1)),
    "tanh, then exp": (
        lambda x: math.exp(math.tanh(x)) - x,
        lambda x: math.exp(math.tanh(x)) * (1 - math.tanh(x) ** 2) - 1,
    ),
    "a square root at zero": (lambda x: abs(x) + x, lambda x: 2.0 if x > 0 else 0.0),
    "two branches, one relu": (lambda x: 4 * x * x + max(2 * x, 0), lambda x: 8 * x + (2 if x > 0 else 0)),
}


@pytest.fixture
def graph(course_folder: Path) -> ModuleType:
    """The module ``explorers.graph``."""
    return importlib.import_module("explorers.graph")


def size_of(png: bytes) -> tuple[int, int]:
    return Image.open(io.BytesIO(png)).size


def all_edits(graph: ModuleType, name: str) -> list[Any]:
    names = graph.EXPRESSIONS[name].names
    return [None, *(graph.Edit(*edit) for edit in itertools.product(graph.EDITS, names, graph.MOMENTS))]


class TestNumbers:
    @pytest.mark.parametrize("name", FUNCTIONS)
    @pytest.mark.parametrize("x", [-2.5, -1.0, 0.5, 3.0])
    def test_value_and_gradient_are_those_of_the_expression(self, graph: ModuleType, name: str, x: float) -> None:
        function, slope = FUNCTIONS[name]
        run = graph.run_expression(name, x)
        assert run.y == pytest.approx(function(x))
        assert run.grad == pytest.approx(slope(x))
        assert run.slopes == pytest.approx((slope(x), slope(x)), abs=1e-4)
        assert run.verdict == "right"

    def test_every_expression_is_tried_here(self, graph: ModuleType) -> None:
        assert list(graph.EXPRESSIONS) == list(FUNCTIONS)

    def test_nodes_and_what_they_save_are_torchs(self, graph: ModuleType) -> None:
        run = graph.run_expression("tanh, then exp", 0.5)
        x = torch.tensor(0.5, dtype=torch.float64, requires_grad=True)
        a = x.tanh()
        b = a.exp()
        assert [box.node for box in run.boxes[1:3]] == [a.grad_fn.name(), b.grad_fn.name()]
        assert run.boxes[2].saved == (graph.Saved("b", b._version, b.item()),)
        assert run.boxes[3].saved == ()

    def test_constants_are_left_out_of_what_is_saved(self, graph: ModuleType) -> None:
        boxes = graph.run_expression("x*x + 2*x + 1", 3.0).boxes
        assert [[saved.name for saved in box.saved] for box in boxes] == [[], ["x", "x"], [], [], []]

    def test_gradients_flow_back_one_node_at_a_time(self, graph: ModuleType) -> None:
        run = graph.run_expression("x*x + 2*x + 1", 3.0)
        backward = [moment for moment in run.moments if moment.arrived]
        assert [len(moment.arrived) for moment in backward] == [1, 2, 3, 4, 5, 5]
        last = run.moments[-1]
        assert last.arrived == {4: 1, 3: 1, 2: 1, 1: 1, 0: 8}
        assert last.flows == {(4, 3): (1,), (3, 1): (1,), (3, 2): (1,), (2, 0): (2,), (1, 0): (3, 3)}

    @pytest.mark.parametrize("name", FUNCTIONS)
    def test_what_arrives_is_what_was_passed_on(self, graph: ModuleType, name: str) -> None:
        for edit in all_edits(graph, name):
            run = graph.run_expression(name, 1.25, edit)
            if run.grad is None:
                continue
            last = run.moments[-1]
            for box, arrived in last.arrived.items():
                passed = [sum(values) for (_, target), values in last.flows.items() if target == box]
                if passed:
                    assert arrived == pytest.approx(sum(passed))
            assert last.arrived[0] == run.grad

    def test_a_square_root_at_zero_gives_nan_and_says_where(self, graph: ModuleType) -> None:
        run = graph.run_expression("a square root at zero", 0.0)
        assert run.verdict == "not finite"
        assert run.y == 0
        assert math.isnan(run.grad)
        assert "MulBackward0 of a = x * x got inf" in graph.explain(run)
        assert "kink" in graph.explain(run)

    def test_memory_and_versions_follow_an_edit(self, graph: ModuleType) -> None:
        run = graph.run_expression("x*x + 2*x + 1", 3.0, graph.Edit("add_", "a"))
        edit = next(at for at, box in enumerate(run.boxes) if box.is_edit)
        assert run.boxes[1].value == 9
        assert run.moments[edit - 1].memory[1] == (9, 0)
        assert run.moments[edit].memory[1] == run.moments[edit].memory[edit] == (10, 1)


class TestVerdicts:
    def test_an_edit_of_a_saved_tensor_breaks_the_node_that_saved_it(self, graph: ModuleType) -> None:
        x = torch.tensor(-1.0, requires_grad=True)
        a = 2 * x
        b = a * a
        y = b + a.relu_()
        with pytest.raises(RuntimeError, match="is at version 1; expected version 0"):
            y.backward()

        run = graph.run_expression("two branches, one relu", -1.0, graph.Edit("relu_", "a"))

        assert run.verdict == "refused"
        assert "modified by an inplace operation" in run.error
        assert run.boxes[run.moments[-1].broken].code == "b = a * a"
        assert graph.explain(run) == (
            "MulBackward0 of b = a * a breaks: it saved a at version 0, and a.relu_() has moved a to version 1."
        )
        assert run.grad is None

    def test_a_node_that_saved_its_own_result_breaks_too(self, graph: ModuleType) -> None:
        run = graph.run_expression("tanh, then exp", 0.5, graph.Edit("add_", "b", "at once"))
        assert run.boxes[run.moments[-1].broken].code == "b = exp(a)"
        assert "its own result b" in graph.explain(run)

    def test_an_edit_before_anyone_saved_is_part_of_the_program(self, graph: ModuleType) -> None:
        run = graph.run_expression("two branches, one relu", -1.0, graph.Edit("relu_", "a", "at once"))
        assert (run.verdict, run.y, run.plain_y) == ("right", 0, 4)
        assert "without a.relu_() it is 4" in graph.explain(run)

    def test_data_is_silently_wrong_and_the_true_value_is_told(self, graph: ModuleType) -> None:
        run = graph.run_expression("a factor used twice", 2.0, graph.Edit("data", "a"))
        # y = (x + 2) * b with b = (x + 1) * x; backward takes x + 2 for the x + 1 in b as well.
        assert run.verdict == "wrong"
        assert (run.y, run.grad) == (24, 30)
        assert run.slopes == pytest.approx((26, 26), abs=1e-3)
        assert "The true value is 26" in graph.explain(run)
        assert all(version == 0 for _, version in run.moments[-1].memory)

    def test_detach_leaves_a_part_out(self, graph: ModuleType) -> None:
        run = graph.run_expression("x*x + 2*x + 1", 3.0, graph.Edit("detach", "a", "at once"))
        assert (run.verdict, run.grad) == ("wrong", 2)
        assert "The true value is 8" in graph.explain(run)

    def test_a_leaf_may_not_be_changed_in_place(self, graph: ModuleType) -> None:
        run = graph.run_expression("a factor used twice", 2.0, graph.Edit("add_", "x", "at once"))
        assert run.verdict == "refused"
        assert "leaf" in graph.explain(run)
        assert len(run.boxes) == 1

    def test_without_any_graph_backward_is_refused(self, graph: ModuleType) -> None:
        run = graph.run_expression("tanh, then exp", 0.5, graph.Edit("detach", "y"))
        assert run.verdict == "refused"
        assert "torch refuses y.backward()" in graph.explain(run)

    @pytest.mark.parametrize("name", FUNCTIONS)
    def test_right_and_wrong_are_decided_by_finite_differences(self, graph: ModuleType, name: str) -> None:
        verdicts = set()
        for edit in all_edits(graph, name):
            run = graph.run_expression(name, 1.25, edit)
            verdicts.add(run.verdict)
            if run.verdict == "right":
                assert run.grad == pytest.approx(run.slopes[0], abs=1e-2)
            elif run.verdict == "wrong":
                assert abs(run.grad - run.slopes[0]) > 1e-3
                assert edit.kind in ("data", "detach")
            else:
                assert run.error
        assert verdicts == {"right", "wrong", "refused"}

    def test_unknown_names_are_errors(self, graph: ModuleType) -> None:
        with pytest.raises(ValueError, match="unknown expression"):
            graph.run_expression("sin(x)", 1.0)
        with pytest.raises(ValueError, match="no tensor 'c'"):
            graph.run_expression("tanh, then exp", 1.0, graph.Edit("add_", "c"))
        with pytest.raises(ValueError, match="unknown edit"):
            graph.Edit("mul_", "a")
        with pytest.raises(ValueError, match="unknown moment"):
            graph.Edit("add_", "a", "tomorrow")


class TestWords:
    def test_each_step_says_what_it_did(self, graph: ModuleType) -> None:
        run = graph.run_expression("x*x + 2*x + 1", 3.0)
        assert graph.explain(run, 1) == "Forward: a = x * x gives 9. MulBackward0 saves x (version 0) twice."
        assert graph.explain(run, 8) == "Backward: MulBackward0 of a = x * x gets 1, passes 3 + 3 to x."
        assert graph.explain(run) == "x.grad is 8, as finite differences say."

    def test_the_table_has_a_line_for_each_statement_so_far(self, graph: ModuleType) -> None:
        run = graph.run_expression("two branches, one relu", -1.0, graph.Edit("relu_", "a"))
        for step, moment in enumerate(run.moments):
            lines = graph.describe(run, step).splitlines()
            assert len(lines) == len(moment.memory) + 2
            assert lines[-1] == graph.explain(run, step)

    @pytest.mark.parametrize("name", FUNCTIONS)
    def test_every_moment_has_words(self, graph: ModuleType, name: str) -> None:
        for edit in all_edits(graph, name):
            for moment in graph.run_expression(name, graph.EXPRESSIONS[name].start, edit).moments:
                assert moment.words


class TestDrawing:
    @pytest.mark.parametrize("name", FUNCTIONS)
    def test_every_moment_can_be_drawn_and_has_one_size(self, graph: ModuleType, name: str) -> None:
        drawing = graph.GraphDrawing()
        for edit in (None, graph.Edit("data", "a"), graph.Edit("add_", "b", "at once")):
            run = graph.run_expression(name, graph.EXPRESSIONS[name].start, edit)
            sizes = {size_of(drawing.render(run, step)) for step in range(0, len(run.moments), 4)}
            assert sizes == {(980, 430)}

    def test_a_reused_figure_keeps_nothing_of_the_last_drawing(self, graph: ModuleType) -> None:
        first = graph.run_expression("x*x + 2*x + 1", 3.0)
        second = graph.run_expression("two branches, one relu", -1.0, graph.Edit("relu_", "a"))
        drawing = graph.GraphDrawing()
        before = drawing.render(first)
        assert drawing.render(second) != before
        assert drawing.render(first) == before

    def test_the_node_that_breaks_is_marked_in_words_and_hatched(self, graph: ModuleType) -> None:
        drawing = graph.GraphDrawing()
        drawing.render(graph.run_expression("two branches, one relu", -1.0, graph.Edit("relu_", "a")))
        assert [text.get_text() for text in drawing._axes.texts].count("BREAKS HERE") == 1
        assert sum(bool(patch.get_hatch()) for patch in drawing._axes.patches) == 1

    def test_what_was_overwritten_is_shown_with_both_values(self, graph: ModuleType) -> None:
        drawing = graph.GraphDrawing()
        drawing.render(graph.run_expression("a factor used twice", 2.0, graph.Edit("data", "a")))
        assert "3 → 4" in [text.get_text() for text in drawing._axes.texts]

    def test_drawing_leaves_pyplot_alone(self, graph: ModuleType) -> None:
        import matplotlib.pyplot as plt

        open_before = plt.get_fignums()
        graph.render_png(graph.run_expression("x*x + 2*x + 1", 3.0))
        assert plt.get_fignums() == open_before


class TestWidget:
    def test_the_slider_of_x_changes_numbers_picture_and_words(self, graph: ModuleType) -> None:
        explorer = graph.GraphExplorer("x*x + 2*x + 1", 3.0)
        picture = explorer.picture.value
        assert "x.grad is 8" in explorer.line.value

        explorer.x.value = 1.0

        assert explorer.run.y == 4
        assert explorer.picture.value != picture
        assert "x.grad is 4" in explorer.line.value

    def test_the_slider_of_steps_runs_nothing_and_keeps_its_figure(self, graph: ModuleType) -> None:
        explorer = graph.GraphExplorer()
        run, figure = explorer.run, explorer._drawing._figure
        pictures = set()
        for step in range(explorer.step.max + 1):
            explorer.step.value = step
            pictures.add(explorer.picture.value)
            assert graph.explain(run, step) in explorer.line.value
        assert explorer.run is run
        assert explorer._drawing._figure is figure
        # All differ but the last two: the end looks back on what the last node left.
        assert len(pictures) == explorer.step.max

    def test_one_move_is_one_run_and_one_drawing(self, graph: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
        explorer = graph.GraphExplorer()
        runs, drawings = [], []
        run, render = graph.run_expression, graph.GraphDrawing.render
        monkeypatch.setattr(graph, "run_expression", lambda *what: runs.append(what) or run(*what))
        monkeypatch.setattr(graph.GraphDrawing, "render", lambda *what: drawings.append(what) or render(*what))

        explorer.expression.value = "two branches, one relu"
        explorer.edit.value = "relu_"
        explorer.when.value = "at the end"

        assert len(runs) == len(drawings) == 3

    def test_an_edit_shows_which_node_breaks(self, graph: ModuleType) -> None:
        explorer = graph.GraphExplorer("two branches, one relu")
        assert explorer.target.disabled
        explorer.edit.value = "relu_"
        assert not explorer.target.disabled
        assert "MulBackward0 of b = a * a breaks" in explorer.line.value
        explorer.edit.value = "data"
        assert "silently wrong" in explorer.line.value

    def test_targets_follow_the_expression(self, graph: ModuleType) -> None:
        explorer = graph.GraphExplorer("x*x + 2*x + 1", edit=graph.Edit("add_", "c"))
        explorer.expression.value = "tanh, then exp"
        assert explorer.target.options == ("x", "a", "b", "y")
        assert explorer.target.value == "a"
        assert explorer.x.value == 0.5

    def test_a_place_before_the_end_is_kept(self, graph: ModuleType) -> None:
        explorer = graph.GraphExplorer()
        explorer.step.value = 2
        explorer.x.value = 1.0
        assert explorer.step.value == 2
        assert "b = 2 * x gives 2" in explorer.line.value

    @pytest.mark.slow
    def test_any_choice_can_be_made(self, graph: ModuleType) -> None:
        explorer = graph.GraphExplorer()
        for name in graph.EXPRESSIONS:
            explorer.expression.value = name
            for kind, target in itertools.product(graph.EDITS, graph.EXPRESSIONS[name].names):
                explorer.edit.value = kind
                explorer.target.value = target
                assert explorer.picture.value

    def test_lessons_get_a_container(self, graph: ModuleType) -> None:
        box = graph.explore_graph("a factor used twice", 2.0, graph.Edit("data", "a"))
        assert isinstance(box, widgets.VBox)
        assert any(isinstance(child, widgets.Image) for child in box.children)

    def test_what_the_controls_cannot_show_is_an_error(self, graph: ModuleType) -> None:
        with pytest.raises(ValueError, match="unknown expression"):
            graph.explore_graph("sin(x)")
        with pytest.raises(ValueError, match="from -3"):
            graph.explore_graph("tanh, then exp", 7.0)
