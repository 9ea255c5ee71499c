"""Judges a test that a learner wrote for code that runs on several ranks."""
# A probe is sent as source and bears no annotations, and torch.distributed names its stores in no list of exports.
# mypy: disable-error-code="attr-defined, no-untyped-def, no-untyped-call, type-arg"

from __future__ import annotations

import random
from collections.abc import Sequence

from autograder.checks.ranks import values_on_ranks
from autograder.errors import Finding, LearnerError
from autograder.submission import LearnerFunction


def _try_probe(function, rank, world_size, sources):
    import tempfile
    import uuid
    from datetime import timedelta

    import torch.distributed as dist

    path = [f"{tempfile.gettempdir()}/{uuid.uuid4()}"]
    dist.broadcast_object_list(path)
    store = dist.FileStore(path[0], world_size)

    def meet(store, what):
        store.set(f"rank {rank} {what}", "")
        store.wait([f"rank {other} {what}" for other in range(world_size)], timedelta(seconds=8))

    answers = []
    for number, source in enumerate(sources):
        # a group of its own for each: where a test raises on one rank, another may still wait for that one
        dist.destroy_process_group()
        own = dist.PrefixStore(str(number), store)
        dist.init_process_group("gloo", store=own, rank=rank, world_size=world_size, timeout=timedelta(seconds=5))
        meet(own, "is in")  # whoever leaves breaks its connections, which others may still be making
        namespace: dict = {}
        exec(compile(f"import torch\nimport torch.distributed as dist\n{source}", "<tried>", "exec"), namespace)
        try:
            function(namespace["implementation"], rank, world_size)
        except Exception as error:
            answers.append(f"{type(error).__name__}: {error}")
            own.set(f"rank {rank} is through", "")
        else:
            answers.append("")
            meet(own, "is through")  # or may still need
    return answers


def rejection_on_ranks(function: LearnerFunction, source: str, world_size: int, among: Sequence[str]) -> str:
    """What the learner's test *function* raised for an implementation on any of *world_size* ranks, or an empty text.

    The test is called as ``function(implementation, rank, world_size)`` on each rank. ``source`` defines a function
    named ``implementation``, with ``torch`` and ``dist`` at hand, and ``among`` are the sources of all that the test
    will see on so many ranks: they are tried in one launch, in an order drawn anew, and the answers kept for the tests
    that follow. Raises :class:`~autograder.errors.Finding` or :class:`~autograder.errors.LearnerError`, for each of
    them alike, where a rank did not come back.
    """
    remembered = function.submission.remembered
    answers: dict[str, str | Exception]
    answers = remembered.setdefault(f"rejections by {function.name} on {world_size} ranks", {})
    if source not in answers:
        sources = list(dict.fromkeys((source, *among)))
        random.SystemRandom().shuffle(sources)
        try:
            by_rank = values_on_ranks(function, _try_probe, world_size, sources, timeout=15)
        except (Finding, LearnerError) as error:
            answers |= dict.fromkeys(sources, error)
        else:
            answers |= {other: "".join(texts) for other, *texts in zip(sources, *by_rank, strict=True)}
    answer = answers[source]
    if isinstance(answer, Exception):
        raise answer
    return answer
