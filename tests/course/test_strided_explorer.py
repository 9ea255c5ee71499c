"""The explorer of strides: its numbers are torch's, and the widget follows its controls."""

from __future__ import annotations

import io
from types import ModuleType
from typing import Any

import ipywidgets as widgets
import pytest
import torch
from PIL import Image

# (starting shape, steps as (operation, *arguments))
Chain = tuple[tuple[int, ...], list[tuple[Any, ...]]]

CHAINS: list[Chain] = [
    ((3, 4), []),
    ((3, 4), [("permute", 1, 0)]),
    ((2, 3, 2), [("permute", 2, 0, 1), ("slice", 1, 0, 2, 1)]),
    ((3, 4), [("slice", 0, 1, 3, 1), ("slice", 1, 0, 4, 2)]),
    ((3, 4), [("permute", 1, 0), ("reshape", 2, 6)]),
    ((4, 1), [("expand", 4, 3)]),
    ((4,), [("expand", 3, 4), ("contiguous",)]),
    ((12,), [("unfold", 0, 4, 2)]),
    ((12,), [("unfold", 0, 4, 1), ("unfold", 0, 4, 1)]),
    ((3, 4), [("slice", 1, 2, 2, 1)]),
]


def run(strided: ModuleType, shape: tuple[int, ...], steps: list[tuple[Any, ...]]) -> Any:
    return strided.run_steps(shape, steps_of(strided, steps))


def steps_of(strided: ModuleType, steps: list[tuple[Any, ...]]) -> list[Any]:
    return [strided.Step(operation, arguments) for operation, *rest in steps for arguments in [tuple(rest)]]


def size_of(png: bytes) -> tuple[int, int]:
    return Image.open(io.BytesIO(png)).size


class TestNumbers:
    @pytest.mark.parametrize(("shape", "steps"), CHAINS)
    def test_each_cell_names_the_slot_that_holds_its_value(
        self, strided: ModuleType, shape: tuple[int, ...], steps: list[tuple[Any, ...]]
    ) -> None:
        state = run(strided, shape, steps)
        tensor = torch.arange(torch.Size(shape).numel()).view(shape)
        for step in steps_of(strided, steps):
            tensor = step.apply(tensor)

        assert state.refusal is None
        assert (state.shape, state.stride, state.offset) == (
            tuple(tensor.shape),
            tensor.stride(),
            tensor.storage_offset(),
        )
        assert len(state.cells) == tensor.numel()
        for index, slot in state.cells.items():
            assert state.storage[slot] == tensor[index].item()

    def test_permute_swaps_strides_and_keeps_the_storage(self, strided: ModuleType) -> None:
        state = run(strided, (3, 4), [("permute", 1, 0)])
        assert (state.shape, state.stride) == ((4, 3), (1, 4))
        assert not state.is_contiguous
        assert state.shares_storage
        assert state.cells[1, 2] == 9
        assert not state.aliases

    def test_a_slice_starts_at_an_offset(self, strided: ModuleType) -> None:
        state = run(strided, (3, 4), [("slice", 1, 1, 4, 2)])
        assert (state.shape, state.stride, state.offset) == ((3, 2), (4, 2), 1)
        assert list(state.cells.values()) == [1, 3, 5, 7, 9, 11]
        assert state.steps == ("[:, 1:4:2]",)

    def test_expand_reaches_each_slot_once_per_row(self, strided: ModuleType) -> None:
        state = run(strided, (4,), [("expand", 3, 4)])
        assert state.stride == (0, 1)
        assert state.aliases == {0: 3, 1: 3, 2: 3, 3: 3}
        assert len(state.storage) == 4

    def test_windows_overlap_where_their_step_is_short(self, strided: ModuleType) -> None:
        overlapping = run(strided, (8,), [("unfold", 0, 4, 2)])
        assert (overlapping.shape, overlapping.stride) == ((3, 4), (2, 1))
        assert overlapping.aliases == {2: 2, 3: 2, 4: 2, 5: 2}
        assert overlapping.shares_storage
        apart = run(strided, (8,), [("unfold", 0, 4, 4)])
        assert not apart.aliases

    def test_contiguous_after_permute_moves_to_a_storage_of_its_own(self, strided: ModuleType) -> None:
        state = run(strided, (3, 4), [("permute", 1, 0), ("contiguous",)])
        assert not state.shares_storage
        assert state.is_contiguous
        assert state.storage[:4] == (0, 4, 8, 1)

    def test_contiguous_with_nothing_to_do_stays_where_it_is(self, strided: ModuleType) -> None:
        assert run(strided, (3, 4), [("contiguous",)]).shares_storage

    def test_reshape_copies_only_where_it_must(self, strided: ModuleType) -> None:
        assert run(strided, (3, 4), [("reshape", 12)]).shares_storage
        assert not run(strided, (3, 4), [("permute", 1, 0), ("reshape", 12)]).shares_storage

    def test_history_tells_each_step(self, strided: ModuleType) -> None:
        state = run(strided, (3, 4), [("permute", 1, 0), ("contiguous",)])
        assert [snapshot.stride for snapshot in state.history] == [(4, 1), (1, 4), (3, 1)]
        assert [snapshot.code for snapshot in state.history] == ["x", ".permute(1, 0)", ".contiguous()"]


class TestRefusals:
    def test_view_after_permute_is_refused_in_torchs_words(self, strided: ModuleType) -> None:
        with pytest.raises(RuntimeError) as torchs:
            torch.arange(12).view(3, 4).permute(1, 0).view(12)

        state = run(strided, (3, 4), [("permute", 1, 0), ("view", 12)])

        assert state.refusal == strided.Refusal(".view(12)", str(torchs.value))
        assert state.steps == (".permute(1, 0)",)
        assert state.stride == (1, 4)
        assert str(torchs.value) in strided.describe(state)

    @pytest.mark.parametrize(
        "step",
        [("expand", 3, 5), ("view", 5, 2), ("unfold", 1, 5, 1), ("slice", 3, 0, 1, 1), ("slice", 0, 0, 1, 0)],
    )
    def test_whatever_torch_raises_is_reported(self, strided: ModuleType, step: tuple[Any, ...]) -> None:
        state = run(strided, (3, 4), [step])
        assert state.refusal is not None
        assert state.refusal.message
        assert state.shape == (3, 4)

    def test_steps_after_a_refused_one_are_not_run(self, strided: ModuleType) -> None:
        state = run(strided, (3, 4), [("view", 5), ("permute", 1, 0)])
        assert state.steps == ()

    def test_unknown_operations_and_sizes_are_errors(self, strided: ModuleType) -> None:
        with pytest.raises(ValueError, match="unknown operation"):
            strided.Step("rotate")
        with pytest.raises(ValueError, match="at least 1"):
            strided.run_steps((3, 0))
        with pytest.raises(ValueError, match="at least 1"):
            strided.run_steps(())


class TestDrawing:
    @pytest.mark.parametrize(("shape", "steps"), CHAINS)
    def test_every_state_can_be_drawn(
        self, strided: ModuleType, shape: tuple[int, ...], steps: list[tuple[Any, ...]]
    ) -> None:
        width, height = size_of(strided.render_png(run(strided, shape, steps)))
        assert width == 900
        assert height > 200

    def test_a_reused_figure_keeps_nothing_of_the_last_drawing(self, strided: ModuleType) -> None:
        first, second = run(strided, (3, 4), []), run(strided, (4,), [("expand", 3, 4)])
        drawing = strided.StridedDrawing()
        before = drawing.render(first)
        drawing.render(second)
        assert drawing.render(first) == before

    def test_shared_slots_are_marked_in_words_and_hatched(self, strided: ModuleType) -> None:
        drawing = strided.StridedDrawing()
        drawing.render(run(strided, (4,), [("expand", 3, 4)]))
        axes = drawing._axes
        assert [text.get_text() for text in axes.texts].count("x3") == 4
        assert sum(len(boxes.get_paths()) for boxes in axes.collections if boxes.get_hatch()) == 4 + 12

    def test_drawing_leaves_pyplot_alone(self, strided: ModuleType) -> None:
        import matplotlib.pyplot as plt

        open_before = plt.get_fignums()
        strided.render_png(run(strided, (3, 4), []))
        assert plt.get_fignums() == open_before


class TestWidget:
    def test_a_slider_changes_numbers_picture_and_words(self, strided: ModuleType) -> None:
        explorer = strided.StrideExplorer((3, 4), steps_of(strided, [("slice", 1, 0, 4, 1)]))
        picture = explorer.picture.value
        start = explorer.steps[0].numbers[1]

        start.value = 2

        assert explorer.state.offset == 2
        assert explorer.state.shape == (3, 2)
        assert explorer.picture.value != picture
        assert "[:, 2:4]" in explorer.table.value

    def test_permute_then_view_shows_torchs_message(self, strided: ModuleType) -> None:
        explorer = strided.StrideExplorer()
        first, second = explorer.steps
        first.operation.value = "permute"
        first.choice.value = (1, 0)
        second.operation.value = "view"
        second.choice.value = (12,)

        assert explorer.state.refusal is not None
        assert "view size is not compatible" in explorer.line.value

        second.operation.value = "reshape"
        assert explorer.state.refusal is None
        assert "storage of its own" in explorer.table.value

    def test_changed_strides_are_pointed_out(self, strided: ModuleType) -> None:
        explorer = strided.StrideExplorer((3, 4), steps_of(strided, [("permute", 1, 0)]))
        assert "(1, 4) (was (4, 1))" in explorer.table.value

    def test_only_controls_of_the_chosen_operation_are_shown(self, strided: ModuleType) -> None:
        explorer = strided.StrideExplorer()
        controls = explorer.steps[0]

        def shown() -> list[str]:
            return [widget.description for widget in controls.numbers if widget.layout.display != "none"]

        controls.operation.value = "slice"
        assert shown() == ["dim", "start", "stop", "step"]
        controls.operation.value = "unfold"
        assert shown() == ["dim", "size", "step"]
        controls.operation.value = "contiguous"
        assert shown() == []

    def test_choices_follow_the_tensor_before_them(self, strided: ModuleType) -> None:
        explorer = strided.StrideExplorer((3, 4), steps_of(strided, [("permute", 1, 0)]))
        explorer.shape.value = (2, 3, 2)
        assert all(len(choice) == 3 for _, choice in explorer.steps[0].choice.options)
        assert explorer.state.refusal is None

    @pytest.mark.slow
    @pytest.mark.parametrize("base", [(3, 4), (12,), (4,), (1, 4), (4, 1), (2, 3, 2)])
    def test_any_pair_of_operations_can_be_chosen(self, strided: ModuleType, base: tuple[int, ...]) -> None:
        explorer = strided.StrideExplorer(base)
        first, second = explorer.steps
        for operation in strided.OPERATIONS:
            first.operation.value = operation
            for follower in strided.OPERATIONS:
                second.operation.value = follower
                assert explorer.picture.value

    def test_lessons_get_a_container(self, strided: ModuleType) -> None:
        box = strided.explore_strides((4, 1), steps_of(strided, [("expand", 4, 3)]))
        assert isinstance(box, widgets.VBox)
        assert any(isinstance(child, widgets.Image) for child in box.children)

    def test_a_chain_longer_than_the_controls_is_an_error(self, strided: ModuleType) -> None:
        with pytest.raises(ValueError, match="two steps"):
            strided.StrideExplorer((3, 4), steps_of(strided, [("contiguous",)] * 3))
