"""The explorer of collectives: ranks as threads keep the same logical time every time, and the widget follows."""

from __future__ import annotations

import importlib
import io
import itertools
import time
from pathlib import Path
from types import ModuleType
from typing import Any

import ipywidgets as widgets
import matplotlib.pyplot as plt
import pytest
import torch
from PIL import Image

STUCK = ("barrier inside if rank == 0", "unequal numbers of batches", "rank 0 validates the wrapped model")
FINE = ("mean of gradients", "broadcast of the start", "barrier after the if", "stop together", "a slow rank")
PROGRAMS = (*STUCK, *FINE)
SIZES = (2, 3, 4)


@pytest.fixture
def collectives(course_folder: Path) -> ModuleType:
    """The module ``explorers.collectives``."""
    return importlib.import_module("explorers.collectives")


class TestRanksAsThreads:
    def test_each_collective_gives_what_it_should(self, collectives: ModuleType) -> None:
        def program(rank: int, world_size: int, comm: Any) -> list[Any]:
            value = 10.0**rank
            return [comm.all_reduce(value), comm.broadcast(value, root=1), comm.all_gather(value), comm.barrier()]

        timeline = collectives.run_ranks_as_threads(program, 3)
        assert timeline.values == ([111.0, 10.0, [1.0, 10.0, 100.0], None],) * 3
        assert [exchange.call for exchange in timeline.exchanges] == [
            "all_reduce",
            "broadcast",
            "all_gather",
            "barrier",
        ]
        assert timeline.exchanges[0].given == (1.0, 10.0, 100.0)
        assert timeline.exchanges[1].root == 1

    def test_a_rank_may_change_its_list_without_changing_that_of_others(self, collectives: ModuleType) -> None:
        def program(rank: int, world_size: int, comm: Any) -> list[int]:
            gathered: list[int] = comm.all_gather(rank)
            comm.barrier()
            gathered[0] = 100 + rank
            comm.barrier()
            return gathered

        assert collectives.run_ranks_as_threads(program, 2).values == ([100, 1], [101, 1])

    def test_tensors_can_be_summed(self, collectives: ModuleType) -> None:
        timeline = collectives.run_ranks_as_threads(lambda rank, n, comm: comm.all_reduce(torch.ones(3) * rank), 3)
        assert all(torch.equal(value, torch.full((3,), 3.0)) for value in timeline.values)

    def test_waiting_is_counted_up_to_the_last_rank(self, collectives: ModuleType) -> None:
        def program(rank: int, world_size: int, comm: Any) -> None:
            comm.compute("work", steps=[5, 1, 3][rank])
            comm.barrier()

        timeline = collectives.run_ranks_as_threads(program, 3)
        assert [timeline.waited(rank) for rank in range(3)] == [0, 4, 2]
        assert timeline.end == 6
        assert [(span.begin, span.end) for span in timeline.spans if span.kind == "talk"] == [(5, 6)] * 3

    @pytest.mark.parametrize("world_size", SIZES)
    @pytest.mark.parametrize("name", PROGRAMS)
    def test_the_timeline_does_not_depend_on_the_threads(
        self, collectives: ModuleType, name: str, world_size: int
    ) -> None:
        program = collectives.PROGRAMS[name][0]
        runs = {repr(collectives.run_ranks_as_threads(program, world_size)) for _ in range(5)}
        assert len(runs) == 1

    def test_real_delays_do_not_matter(self, collectives: ModuleType) -> None:
        def program(slow: int) -> Any:
            def delayed(rank: int, world_size: int, comm: Any) -> float:
                for _ in range(3):
                    comm.compute("work", steps=1 + rank)
                    time.sleep(0.01 if rank == slow else 0)
                    total = comm.all_reduce(0.1 * rank)
                return total

            return delayed

        runs = {repr(collectives.run_ranks_as_threads(program(slow), 3)) for slow in range(3)}
        assert len(runs) == 1

    @pytest.mark.parametrize("world_size", SIZES)
    @pytest.mark.parametrize("name", PROGRAMS)
    def test_no_rank_does_two_things_at_once(self, collectives: ModuleType, name: str, world_size: int) -> None:
        timeline = collectives.run_program(name, world_size)
        for rank in range(world_size):
            spans = [span for span in timeline.spans if span.rank == rank]
            assert spans[0].begin == 0
            for before, after in itertools.pairwise(spans):
                assert before.end == after.begin

    def test_errors_of_a_rank_come_out_with_its_number(self, collectives: ModuleType) -> None:
        def program(rank: int, world_size: int, comm: Any) -> None:
            if rank == 1:
                raise KeyError("lost")
            comm.barrier()

        with pytest.raises(KeyError, match="lost") as caught:
            collectives.run_ranks_as_threads(program, 2)
        assert caught.value.__notes__ == ["(raised on rank 1)"]


class TestDeadlocks:
    def test_a_rank_that_has_finished_is_waited_for(self, collectives: ModuleType) -> None:
        timeline = collectives.run_program("barrier inside if rank == 0", 3)
        assert timeline.deadlock.calls == {0: "barrier"}
        assert timeline.deadlock.waits_for == {0: (1, 2)}
        assert "ranks 1 and 2 have finished" in str(timeline.deadlock)

    def test_calls_that_do_not_match_wait_for_each_other(self, collectives: ModuleType) -> None:
        timeline = collectives.run_program("rank 0 validates the wrapped model", 3)
        assert timeline.deadlock.waits_for == {0: (1, 2), 1: (0,), 2: (0,)}
        assert timeline.exchanges == ()

    def test_broadcasts_from_different_ranks_do_not_match(self, collectives: ModuleType) -> None:
        timeline = collectives.run_ranks_as_threads(lambda rank, n, comm: comm.broadcast(1, root=rank), 2)
        assert timeline.deadlock.waits_for == {0: (1,), 1: (0,)}
        assert timeline.values == (None, None)

    def test_calls_that_match_by_chance_take_place(self, collectives: ModuleType) -> None:
        timeline = collectives.run_program("unequal numbers of batches", 2)
        assert timeline.exchanges[-1].given == (0.5, 20.0)
        assert timeline.values == (None, 20.5)
        assert timeline.deadlock.waits_for == {0: (1,)}

    def test_a_program_cannot_catch_its_end(self, collectives: ModuleType) -> None:
        def program(rank: int, world_size: int, comm: Any) -> str:
            try:
                if rank == 0:
                    comm.barrier()
            except Exception:
                return "caught"
            return "went on"

        assert collectives.run_ranks_as_threads(program, 2).values == (None, "went on")

    @pytest.mark.parametrize("world_size", SIZES)
    def test_the_others_finish(self, collectives: ModuleType, world_size: int) -> None:
        assert set(collectives.PROGRAMS) == set(PROGRAMS)
        for name in FINE:
            assert collectives.run_program(name, world_size).deadlock is None
        for name in STUCK:
            assert collectives.run_program(name, world_size).deadlock

    def test_the_right_programs_agree_on_all_ranks(self, collectives: ModuleType) -> None:
        for name in FINE:
            assert len(set(collectives.run_program(name, 4).values)) == 1


class TestWords:
    def test_who_waits_for_whom(self, collectives: ModuleType) -> None:
        timeline = collectives.run_program("a slow rank", 3)
        words = collectives.explain(timeline, 2)
        assert words == (
            "rank 0 waits in all_reduce for rank 1; rank 1 computes: backward; rank 2 waits in all_reduce for rank 1."
        )
        assert "gives 0.5 to all_reduce, gets 1.5" in collectives.explain(timeline, 5)
        assert timeline.waited(1) == 0 and timeline.waited(0) == 6

    def test_a_rank_waits_only_for_those_that_have_not_come(self, collectives: ModuleType) -> None:
        timeline = collectives.run_program("broadcast of the start", 3)
        assert "rank 0 waits in broadcast from 0 for ranks 1 and 2" in collectives.explain(timeline, 2)
        assert "rank 0 waits in broadcast from 0 for rank 2" in collectives.explain(timeline, 3)

    @pytest.mark.parametrize("name", STUCK)
    def test_the_last_step_tells_the_deadlock(self, collectives: ModuleType, name: str) -> None:
        timeline = collectives.run_program(name, 2)
        assert collectives.explain(timeline, timeline.end) == str(timeline.deadlock)
        assert "for ever" in collectives.explain(timeline, timeline.end - 1)
        assert "Deadlock" in collectives.summary(timeline)

    @pytest.mark.parametrize("name", PROGRAMS)
    def test_every_step_is_one_line(self, collectives: ModuleType, name: str) -> None:
        timeline = collectives.run_program(name, 4)
        for step in range(timeline.end + 1):
            words = collectives.explain(timeline, step)
            assert words.endswith(".") and "\n" not in words


class TestDrawing:
    @pytest.mark.parametrize("world_size", SIZES)
    @pytest.mark.parametrize("name", PROGRAMS)
    def test_every_program_can_be_drawn(self, collectives: ModuleType, name: str, world_size: int) -> None:
        timeline = collectives.run_program(name, world_size)
        assert Image.open(io.BytesIO(collectives.render_png(timeline))).size == (900, 340)
        assert collectives.render_png(timeline, 0) != collectives.render_png(timeline)

    def test_what_has_not_happened_is_covered(self, collectives: ModuleType) -> None:
        drawing = collectives.TimelineDrawing()
        timeline = collectives.run_program("mean of gradients", 2)
        first, whole = (Image.open(io.BytesIO(drawing.render(timeline, step))) for step in (1, timeline.end))
        right_half = (460, 40, 880, 280)
        assert len(first.crop(right_half).getcolors()) == 1
        assert len(whole.crop(right_half).getcolors(maxcolors=1 << 20)) > 10

    def test_a_reused_figure_keeps_nothing_of_the_last_drawing(self, collectives: ModuleType) -> None:
        drawing = collectives.TimelineDrawing()
        timeline = collectives.run_program("a slow rank", 3)
        before = drawing.render(timeline, 5)
        drawing.render(collectives.run_program("unequal numbers of batches", 4), 8)
        assert drawing.render(timeline, 5) == before

    def test_only_givers_have_arrows(self, collectives: ModuleType) -> None:
        drawing = collectives.TimelineDrawing()
        for name, count in (("mean of gradients", 2 * 6), ("broadcast of the start", 2), ("barrier after the if", 0)):
            drawing.render(collectives.run_program(name, 3), 0)
            arrows = [patch for patch in drawing._axes.patches if type(patch).__name__ == "FancyArrowPatch"]
            assert len(arrows) == count

    def test_drawing_leaves_pyplot_alone(self, collectives: ModuleType) -> None:
        open_before = plt.get_fignums()
        collectives.render_png(collectives.run_program("mean of gradients"))
        assert plt.get_fignums() == open_before


class TestWidget:
    def test_the_slider_goes_step_by_step(self, collectives: ModuleType) -> None:
        explorer = collectives.CollectivesExplorer("a slow rank", 2)
        picture = explorer.picture.value
        assert "has not begun" in explorer.line.value
        explorer.step.value = 2
        assert "rank 0 waits in all_reduce for rank 1" in explorer.line.value
        assert "rank 0 →         mean = comm.all_reduce" in explorer.listing.value
        assert "rank 1 →         comm.compute" in explorer.listing.value
        assert explorer.picture.value != picture

    def test_the_verdict_comes_at_the_end_only(self, collectives: ModuleType) -> None:
        explorer = collectives.CollectivesExplorer("unequal numbers of batches", 2)
        explorer.step.value = explorer.step.max - 1
        assert "Wrong" not in explorer.verdict.value
        explorer.step.value = explorer.step.max
        assert "Wrong" in explorer.verdict.value and "Deadlock" in explorer.verdict.value

    def test_another_choice_starts_from_the_beginning(self, collectives: ModuleType) -> None:
        explorer = collectives.CollectivesExplorer("a slow rank", 2)
        explorer.step.value = explorer.step.max
        explorer.program.value = "broadcast of the start"
        assert explorer.step.value == 0
        assert explorer.step.max == explorer.timeline.end == 5
        explorer.world_size.value = 4
        assert explorer.step.max == explorer.timeline.end == 7
        assert "rank 3" in explorer.line.value

    def test_lessons_get_a_container(self, collectives: ModuleType) -> None:
        box = collectives.explore_collectives("barrier after the if", 3)
        assert isinstance(box, widgets.VBox)
        assert any(isinstance(child, widgets.Image) for child in box.children)

    def test_unknown_beginnings_are_errors(self, collectives: ModuleType) -> None:
        with pytest.raises(ValueError, match="unknown program"):
            collectives.explore_collectives("all alone")
        with pytest.raises(ValueError, match="world size"):
            collectives.explore_collectives("a slow rank", 1)
