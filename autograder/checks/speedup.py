"""Whether a function is at least k times faster than a baseline, on a machine that is never quiet.

Baseline and submission run in pairs, in like workers, order drawn at random, fresh inputs each time. A pair is a win
if ``t_baseline / t_submission > k``. Under "at most even odds of a win" the product of ``1 + 0.8`` for each win and
``1 - 0.8`` for each loss is a martingale, and so is its mirror image under the opposite; by Ville's inequality either
reaches 1000 wrongly with probability at most 1 in 1000, whenever one stops (J. Ville, Étude critique de la notion de
collectif, 1939). A lost pair's second time, see :func:`race`, moves the border that the verdict is about a little in
the submission's favour.

Where the gain comes from the code, k is a constant of the test (:func:`assert_faster`). Where it comes from the
hardware, k follows what a bare matrix product gains on this machine (:func:`assert_gains`).
"""

from __future__ import annotations

import math
import random
import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cache
from typing import TYPE_CHECKING, Any

import pytest

from autograder.checks.outputs import assert_matches
from autograder.errors import Finding
from autograder.figures import leave, rounded, tell_pairs
from autograder.hardware import one_thread
from autograder.report import Figure
from autograder.submission import Call, LearnerFunction

if TYPE_CHECKING:
    import torch

STAKE = 0.8
EVIDENCE = 1_000.0
FIRST_TRY_PAIRS = 60
SECOND_TRY_PAIRS = 200
MIN_SAMPLE_S = 0.005
"""A sample is at least this much work of the baseline; less is lost in the clock and the scheduler."""
MAX_CALLS_PER_SAMPLE = 64
LEAST_RATIO = 2.25
"""A fix, or a format, that gains less than this is not timed."""
PRODUCT_PAIRS = 40

MEASURED: list[tuple[str, float, list[float]]] = []
"""(function, k, ratios) of each race run in this process, for ``benchmarks/``; a figure has the median only."""


class Verdict(StrEnum):
    """What a race can end with."""

    FASTER = "faster"
    NOT_FASTER = "not faster"
    UNDECIDED = "undecided"


@dataclass
class Race:
    """The two martingales of one race against factor ``k``."""

    k: float
    for_it: float = 1.0
    against_it: float = 1.0
    ratios: list[float] = field(default_factory=list)

    def add(self, baseline_s: float, submission_s: float, ahead_s: float = 0.0) -> Verdict:
        """Take one pair of times, in seconds, and say where the race stands.

        ``ahead_s`` is what the submission's side computed outside that time, beyond what receiving the inputs takes.
        Where that alone would cost it the pair, it has worked ahead of the clock, and the time is added.
        """
        if ahead_s > baseline_s / self.k:
            submission_s += ahead_s
        ratio = baseline_s / max(submission_s, 1e-9)
        self.ratios.append(ratio)
        stake = STAKE if ratio > self.k else -STAKE
        self.for_it *= 1 + stake
        self.against_it *= 1 - stake
        if self.for_it >= EVIDENCE:
            return Verdict.FASTER
        return Verdict.NOT_FASTER if self.against_it >= EVIDENCE else Verdict.UNDECIDED

    @property
    def median(self) -> float:
        """The median ratio so far: for people; the verdict does not use it."""
        return statistics.median(self.ratios) if self.ratios else math.nan


def race(
    submission: LearnerFunction,
    baseline: LearnerFunction,
    inputs: Callable[[int], Call],
    k: float,
    verify: Callable[[Call, Any], None],
    *,
    max_pairs: int,
    seeds: Iterator[int],
    rng: random.Random,
    via: Callable[..., Any] | None = None,
) -> tuple[Verdict, Race]:
    """Run pairs until the race is decided or *max_pairs* have been run.

    ``inputs(seed)`` makes one call's arguments. ``verify(call, result)`` raises ``AssertionError`` for a wrong result:
    every output of the submission that is timed is looked at, so wrong work is never paid for its speed.
    """
    current = Race(k)
    calls_per_sample = _calibrate(baseline, inputs, seeds, via)

    def fresh_calls() -> list[Call]:
        return [inputs(next(seeds)) for _ in range(calls_per_sample)]

    def run_baseline(calls: list[Call]) -> tuple[float, float]:
        """Seconds on the clock, and seconds of computing that receiving the inputs took."""
        submission.freeze()
        before = baseline.cpu_seconds()
        baseline.stage(calls, via)
        receiving = baseline.cpu_seconds() - before
        _, elapsed = baseline.go()
        submission.thaw()
        return elapsed, receiving

    def run_submission(calls: list[Call]) -> tuple[float, float]:
        """Seconds on the clock, and seconds of computing outside of it; the results are right, or this raises."""
        before = submission.cpu_seconds()
        submission.stage(calls, via)
        results, elapsed = submission.go()
        outside = submission.cpu_seconds() - before - elapsed
        if len(results) != len(calls):
            raise AssertionError("a timed run gave back another number of results than it was asked for")
        for call, result in zip(calls, results, strict=True):
            verify(call, result)
        return elapsed, outside

    for _ in range(max_pairs):
        calls = fresh_calls()
        if rng.random() < 0.5:
            base_s, receiving = run_baseline(calls)
            own_s, outside = run_submission(calls)
        else:
            own_s, outside = run_submission(calls)
            base_s, receiving = run_baseline(calls)
        if base_s <= k * own_s:
            # Work of a fraction of a millisecond that has to wait for a busy core looks slow. Lost pairs get a second
            # time for the submission, and the better one counts: it helps who was held up, not who is slow.
            own_s, outside = min((own_s, outside), run_submission(fresh_calls()))
        verdict = current.add(base_s, own_s, outside - receiving)
        tell_pairs(len(current.ratios), max_pairs)
        if verdict is not Verdict.UNDECIDED:
            return verdict, current
    return Verdict.UNDECIDED, current


def _calibrate(
    baseline: LearnerFunction,
    inputs: Callable[[int], Call],
    seeds: Iterator[int],
    via: Callable[..., Any] | None,
) -> int:
    best = math.inf
    for _ in range(3):  # the first runs are cold
        baseline.stage([inputs(next(seeds))], via)
        best = min(best, baseline.go()[1])
    return _calls_per_sample(best)


def _calls_per_sample(seconds: float) -> int:
    """How many calls of so many seconds each make a sample."""
    return max(1, min(MAX_CALLS_PER_SAMPLE, math.ceil(MIN_SAMPLE_S / seconds)))


def _random_seeds(rng: random.Random) -> Iterator[int]:
    while True:
        yield rng.getrandbits(48)


def assert_faster(
    submission: LearnerFunction,
    baseline: LearnerFunction,
    inputs: Callable[[int], Call],
    reference: Callable[..., Any],
    *,
    reference_ratio: float,
    via: Callable[..., Any] | None = None,
    asked: str = "",
    hint: str = "",
    rtol: float | None = None,
    atol: float | None = None,
) -> None:
    """Fail if *submission* is not at least ``sqrt(reference_ratio)`` times as fast as *baseline*.

    ``reference_ratio`` is the speed-up that the reference fix reaches, as measured by ``benchmarks/speedups.py``; below
    ``LEAST_RATIO`` nothing is to be timed (raises ``ValueError``). Wrong outputs fail at once. A race that stays
    undecided after a second, longer try *skips* the test: a noisy machine is never the learner's failure. With ``via``,
    what is timed is ``via(function, *args, **kwargs)`` on both sides, and ``reference(*args, **kwargs)`` is what that
    must return.

    The speed-up is left as a figure, whatever the verdict; messages hold nothing that was measured. Where
    ``reference_ratio`` itself was measured, ``asked`` says in words what is asked for.
    """
    if reference_ratio < LEAST_RATIO:
        raise ValueError(f"a fix that gains {reference_ratio:g} is not timed: count something instead (DESIGN, 5)")
    k = math.sqrt(reference_ratio)
    rng = random.Random()  # unpredictable on purpose: inputs that cannot be guessed cannot be answered beforehand

    def verify(call: Call, result: Any) -> None:
        args, kwargs = call
        expected, what = reference(*args, **kwargs), f"a timed result of `{submission.name}`"
        assert_matches(result, expected, rtol=rtol, atol=atol, what=what, drawn=True)

    name, label = submission.name, baseline.submission.label
    asked = asked or f"at least {k:.2g} times as fast as the {label}"
    for max_pairs in (FIRST_TRY_PAIRS, SECOND_TRY_PAIRS):
        verdict, run = race(
            submission,
            baseline,
            inputs,
            k,
            verify,
            max_pairs=max_pairs,
            seeds=_random_seeds(rng),
            rng=rng,
            via=via,
        )
        MEASURED.append((name, k, run.ratios))
        if verdict is not Verdict.UNDECIDED:
            break
    speed = rounded(run.median, 2)
    leave(Figure(f"`{name}` beside the {label}", speed, rounded(k, 2), at_least=True, unit="times as fast"))
    if verdict is Verdict.NOT_FASTER:
        raise Finding(f"`{name}` is not fast enough yet; asked for: {asked}. {hint}".strip())
    if verdict is Verdict.UNDECIDED:
        pytest.skip("the speed could not be measured here: too noisy")


def assert_gains(
    submission: LearnerFunction,
    baseline: LearnerFunction,
    inputs: Callable[[int], Call],
    reference: Callable[..., Any],
    *,
    dtype: torch.dtype,
    product: tuple[int, int, int],
    via: Callable[..., Any] | None = None,
    rtol: float | None = None,
    atol: float | None = None,
) -> None:
    """Fail if *submission*, in *dtype*, has too small a share of what a bare product gains over float32.

    *baseline* does the same work in float32; it should be code of the test's own, which no learner can slow down. The
    gain of bare products of the shape *product* is measured here, on the device that the submission runs on (see
    :func:`product_gain`), and serves as ``reference_ratio`` of :func:`assert_faster`: half of the gain, on a
    logarithmic scale, is asked for. The gain is left as a figure. Where it is below ``LEAST_RATIO``, this machine can
    show nothing, and the test is *skipped*. That the submission does compute in *dtype* is for the test to ask before.
    """
    gain = product_gain(submission.submission.device, dtype, product)
    name = str(dtype).removeprefix("torch.")
    what = f"a bare product in {name} beside one in float32"
    leave(Figure(what, rounded(gain, 2), LEAST_RATIO, at_least=True, unit="times as fast"))
    if gain < LEAST_RATIO:
        pytest.skip(
            f"a bare product in {name} is less than {LEAST_RATIO:g} times as fast as one in float32 on this machine, "
            "so what is built on it is not timed"
        )
    assert_faster(
        submission,
        baseline,
        inputs,
        reference,
        reference_ratio=gain,
        via=via,
        asked=f"a good part of what a bare product gains from {name} on this machine",
        hint=f"It computes in {name}, the {baseline.submission.label} in float32.",
        rtol=rtol,
        atol=atol,
    )


@cache
def product_gain(device: str, dtype: torch.dtype, product: tuple[int, int, int]) -> float:
    """How many times as fast a bare product in *dtype* is as one in float32; measured once in a process.

    *product* is (n, k, m), for x (n, k) and the weight (m, k) of a linear layer. Products in the two formats are timed
    in pairs, order drawn at random, on one thread as a judge computes. A product that had to wait for a core says
    nothing about it, so each of a pair is the best of some; of the ratios the lower quartile counts, so that what noise
    is left makes the gain smaller rather than larger.
    """
    import torch

    n, n_in, n_out = product
    wide = torch.ones(n, n_in, device=device), torch.ones(n_out, n_in, device=device)  # draws no random numbers
    narrow = wide[0].to(dtype), wide[1].to(dtype)
    # a linear layer's product: `x @ weight.T` may end in another kernel
    linear = torch.nn.functional.linear

    def seconds(factors: tuple[torch.Tensor, torch.Tensor], times: int) -> float:
        best = math.inf
        for _ in range(times):
            begin = time.perf_counter()
            linear(*factors)
            if device != "cpu":
                torch.accelerator.synchronize()
            best = min(best, time.perf_counter() - begin)
        return best

    with one_thread(), torch.no_grad():
        times = _calls_per_sample(min(seconds(factors, 3) for factors in (narrow, wide)))  # the first runs are cold
        ratios = []
        for _ in range(PRODUCT_PAIRS):
            if random.random() < 0.5:
                wide_s = seconds(wide, times)
                narrow_s = seconds(narrow, times)
            else:
                narrow_s = seconds(narrow, times)
                wide_s = seconds(wide, times)
            ratios.append(wide_s / narrow_s)
    return statistics.quantiles(ratios, n=4)[0]
