"""Ranks that hang, wait for each other or die, and what is said about them."""

from __future__ import annotations

import textwrap
from dataclasses import dataclass

TASK = "average_gradients"


@dataclass(frozen=True)
class Bad:
    """The body of an averaging that fails on rank 1, and what is said about it."""

    name: str
    body: str
    says: tuple[str, ...]


HANGS = [
    Bad(
        "sleeps",
        "if rank == 1:\n    time.sleep(10_000)\ndist.all_reduce(p.grad)",
        (
            "rank 0 still waits in `all_reduce` of 2 numbers, its collective call number 1",
            "rank 1 is still busy outside of collective calls",
        ),
    ),
    Bad(
        "runs-for-ever",
        "while rank == 1:\n    pass\ndist.barrier()",
        (
            "rank 0 still waits in `barrier`, its collective call number 1",
            "rank 1 is still busy outside of collective calls",
        ),
    ),
    Bad(
        "stops-itself",
        "if rank == 1:\n    os.kill(os.getpid(), signal.SIGSTOP)\ndist.barrier()",
        ("rank 0 still waits in `barrier`", "rank 1 is still busy outside of collective calls"),
    ),
    Bad(
        "holds-the-interpreter",
        "if rank == 1:\n    ctypes.PyDLL(None).sleep(10_000)\ndist.barrier()",
        ("rank 0 still waits in `barrier`", "rank 1 is still busy outside of collective calls"),
    ),
]
DEADLOCKS = [
    Bad(
        "a-barrier-of-one",
        "dist.all_reduce(p.grad)\nif rank == 0:\n    dist.barrier()",
        ("rank 0 still waits in `barrier`", "rank 1 had come back, after 1 collective call"),
    ),
    Bad(
        "waits-for-a-message",
        "dist.recv(p.grad, 1 - rank)",
        (
            "rank 0 still waits in `recv` of 2 numbers, its collective call number 1",
            "rank 1 still waits in `recv` of 2 numbers, its collective call number 1",
        ),
    ),
]
DEATHS = [
    Bad("exits", "dist.barrier()\nif rank == 1:\n    os._exit(0)\ndist.barrier()", ("the process of rank 1 ended",)),
    Bad(
        "crashes",
        "if rank == 1:\n    ctypes.string_at(0)\ndist.barrier()",
        ("the process of rank 1 ended outside of collective calls, after 0 collective calls",),
    ),
    Bad(
        "is-killed-by-another",
        "pids = [torch.zeros(1, dtype=torch.int64) for _ in range(2)]\n"
        "dist.all_gather(pids, torch.tensor([os.getpid()]))\n"
        "if rank == 0:\n    os.kill(pids[1].item(), signal.SIGKILL)\ndist.barrier()",
        ("the process of rank 1 ended",),
    ),
    Bad("ends-the-group", "if rank == 1:\n    dist.destroy_process_group()\nelse:\n    dist.barrier()", ("rank",)),
    Bad("tries-to-end-who-started-it", "os.kill(os.getppid(), signal.SIGKILL)", ("the gradients",)),
    Bad("floods", "while True:\n    print('x' * 1_000_000)", ("rank",)),
]


def source_of(bad: Bad) -> str:
    """The solution cell."""
    head = "import ctypes, os, signal, time\n\n\ndef average_gradients(model):\n"
    body = f"rank, p = dist.get_rank(), next(model.parameters())\np.grad = torch.zeros_like(p)\n{bad.body}\n"
    return head + textwrap.indent(body, "    ")
