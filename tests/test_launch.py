"""Ranks that a person launches, from a file or from a notebook's cells, and a check of ranks in a live kernel."""

from __future__ import annotations

import nbformat
import pytest
import torch
import torch.distributed as dist
from nbclient import NotebookClient

from autograder.checks.ranks import values_on_ranks
from autograder.errors import RanksError
from autograder.ranks import launch
from autograder.submission import LiveRunner, Submission

OFFSET = 10.0


def summed(rank: int, world_size: int, row: torch.Tensor) -> torch.Tensor:
    """The sum over ranks of rank * row, and a bit."""
    mine = rank * row + OFFSET
    dist.all_reduce(mine)
    print("rank", rank, "of", world_size)
    return mine


def lonely(rank: int, world_size: int) -> None:
    """Only rank 0 goes to the barrier."""
    if rank == 0:
        dist.barrier()
    else:
        raise ValueError("not coming")


def test_a_function_of_a_file_runs_on_real_ranks(capsys: pytest.CaptureFixture[str]) -> None:
    """Values come back by rank; what ranks print is shown with their number."""
    values = launch(summed, 2, torch.ones(2))
    assert [value.tolist() for value in values] == [[21.0, 21.0]] * 2
    assert capsys.readouterr().out.splitlines() == ["[rank 0] rank 0 of 2", "[rank 1] rank 1 of 2"]


def profiled(rank: int, world_size: int) -> bool:
    """Whether a profiler watches this rank."""
    return torch.autograd._profiler_enabled()


def test_nothing_watches_a_launched_function() -> None:
    """A lesson measures times in there, and may want a profiler of its own."""
    assert launch(profiled, 2) == [False, False]


def test_a_rank_that_raises_is_named() -> None:
    """With its exception; and the text is all that a notebook shows."""
    with pytest.raises(RanksError, match="rank 1 raised ValueError: not coming") as caught:
        launch(lonely, 2, timeout=60)
    assert caught.value._render_traceback_() == [f"RanksError: {caught.value}"]


def early(rank: int, world_size: int) -> None:
    """Rank 1 is done before rank 0 is."""
    if rank == 0:
        dist.barrier()


def test_a_rank_that_is_done_ends_as_it_would_anywhere() -> None:
    """The other loses its connection, which is told with the line, and without gloo's own text."""
    with pytest.raises(RanksError) as caught:
        launch(early, 2, timeout=60)
    told = str(caught.value)
    assert told.startswith("rank 0 raised RuntimeError: another rank has left the group, or its process has ended (")
    assert "dist.barrier()" in told
    assert told.endswith("; rank 1 had come back, after 0 collective calls")


def test_a_function_without_a_name_is_refused() -> None:
    """In words."""
    with pytest.raises(TypeError, match="define it with `def`"):
        launch(lambda rank, world_size: rank, 2)


CELLS = [
    "import torch\nimport torch.distributed as dist\nfrom autograder.ranks import launch\nSCALE = 2.0",
    "def helper(x):\n    return x * SCALE",
    "def work(rank, world_size, x):\n    y = helper(x) + rank\n    dist.all_reduce(y)\n    return y",
    "(torch.rand(900, 900) @ torch.rand(900, 900)).sum();  # the kernel has threads from here on",
    "values = launch(work, 2, torch.ones(1))\nprint(values)",
]


def _run(*sources: str) -> nbformat.NotebookNode:
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(source) for source in sources])
    NotebookClient(notebook, timeout=120, kernel_name="python3", allow_errors=True).execute()
    return notebook.cells[-1].outputs


@pytest.mark.slow
def test_cells_of_a_notebook_run_on_real_ranks() -> None:
    """Defined in cells, called from another, after the kernel has computed on several threads."""
    (printed,) = _run(*CELLS)
    assert printed.text == "[tensor([5.]), tensor([5.])]\n"


@pytest.mark.slow
def test_a_notebook_shows_no_traceback_of_ours() -> None:
    """What a rank raised is told in a line or two."""
    (error,) = _run(CELLS[0], "def work(rank, world_size):\n    raise KeyError(rank)", "launch(work, 2)")
    assert error.ename == "RanksError"
    (line,) = error.traceback
    assert line.startswith(
        "RanksError: rank 0 raised KeyError: 0 (cell 2, line 2: raise KeyError(rank)); rank 1 raised"
    )


def _doubled(learner, rank, world_size, x):  # type: ignore[no-untyped-def]
    return learner.work(rank, world_size, x)


def test_ranks_are_checked_in_a_live_kernel() -> None:
    """The kernel's cells, as they were run, go to a child that may fork."""
    namespace = {"In": ["", *CELLS[:3]]}
    submission = Submission(lambda: LiveRunner(namespace), None)
    values = values_on_ranks(submission, _doubled, 3, torch.ones(1))
    assert [value.item() for value in values] == [9.0] * 3
    submission.close()
