"""The race between submission and baseline, on simulated clocks: no machine's speed matters here."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from autograder.checks import speedup
from autograder.checks.speedup import Race, Verdict, assert_faster
from autograder.errors import Finding


class Racer:
    """Looks like a learner's function; a call takes ``seconds(rng)``, receiving the inputs ``staging(rng)``."""

    def __init__(
        self,
        seconds: Callable[[random.Random], float],
        answer: Callable[..., Any] = lambda x: x + 1,
        label: str = "submission",
        staging: Callable[[random.Random], float] = lambda rng: 1e-4,
        seed: int = 0,
    ) -> None:
        self.name = "f"
        self.submission = SimpleNamespace(label=label)
        self.runs = 0
        self._rng = random.Random(seed)
        self._seconds, self._answer, self._staging = seconds, answer, staging
        self._calls: list[Any] = []
        self._computed = 0.0

    def stage(self, calls: Any, via: Any = None) -> None:
        self._calls = [(via, *call) for call in calls]
        self._computed += self._staging(self._rng)

    def go(self) -> tuple[list[Any], float]:
        self.runs += 1
        results = [
            via(self._answer, *args, **kwargs) if via else self._answer(*args, **kwargs)
            for via, args, kwargs in self._calls
        ]
        seconds = len(self._calls) * self._seconds(self._rng)
        self._computed += seconds
        return results, seconds

    def cpu_seconds(self) -> float:
        return self._computed

    def freeze(self) -> None: ...

    def thaw(self) -> None: ...


def noisy(mean: float, spread: float = 0.5) -> Callable[[random.Random], float]:
    """Log-normal times, as a busy machine's are, with a tenfold hiccup now and then."""
    return lambda rng: mean * math.exp(rng.gauss(0, spread)) * (10 if rng.random() < 0.03 else 1)


def inputs(seed: int) -> tuple[tuple[Any, ...], dict[str, Any]]:
    return (torch.tensor(float(seed % 1_000)),), {}


def reference(x: torch.Tensor) -> torch.Tensor:
    return x + 1


def compete(submission: Racer, baseline: Racer | None = None, ratio: float = 16.0, **options: Any) -> None:
    baseline = baseline or Racer(lambda rng: 0.01, label="original version")
    assert_faster(submission, baseline, inputs, reference, reference_ratio=ratio, **options)  # type: ignore[arg-type]


# --- the martingales --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("ratio", "verdict"), [(5.0, Verdict.FASTER), (3.0, Verdict.NOT_FASTER), (4.0, Verdict.NOT_FASTER)]
)
def test_twelve_like_pairs_decide(ratio: float, verdict: Verdict) -> None:
    """A ratio of exactly k is no win."""
    race = Race(k=4.0)
    verdicts = [race.add(ratio, 1.0) for _ in range(12)]
    assert verdicts == [Verdict.UNDECIDED] * 11 + [verdict]
    assert race.median == ratio


def test_one_loss_must_be_made_up_for() -> None:
    race = Race(k=2.0)
    verdicts = [race.add(1.0, 1.0)] + [race.add(3.0, 1.0) for _ in range(20)]
    # 0.2 * 1.8**n reaches 1000 at n = 15
    assert verdicts.index(Verdict.FASTER) == 15


def test_alternating_pairs_never_decide() -> None:
    race = Race(k=2.0)
    assert {race.add(3.0 if i % 2 else 1.0, 1.0) for i in range(1_000)} == {Verdict.UNDECIDED}


def test_no_time_at_all_is_no_division_by_zero() -> None:
    assert Race(k=2.0).add(1.0, 0.0) is Verdict.UNDECIDED
    assert math.isnan(Race(k=2.0).median)


def _decide(win_probability: float, rng: random.Random, pairs: int = 200) -> Verdict:
    race = Race(k=2.0)
    for _ in range(pairs):
        verdict = race.add(3.0 if rng.random() < win_probability else 1.0, 1.0)
        if verdict is not Verdict.UNDECIDED:
            return verdict
    return Verdict.UNDECIDED


@pytest.mark.parametrize(
    ("win_probability", "right"),
    [(0.95, Verdict.FASTER), (0.9, Verdict.FASTER), (0.1, Verdict.NOT_FASTER), (0.05, Verdict.NOT_FASTER)],
)
def test_away_from_the_threshold_no_verdict_is_wrong(win_probability: float, right: Verdict) -> None:
    rng = random.Random(1)
    verdicts = [_decide(win_probability, rng) for _ in range(2_000)]
    assert set(verdicts) <= {right, Verdict.UNDECIDED}
    assert verdicts.count(right) > 1_950


def test_at_even_odds_a_false_verdict_is_as_rare_as_promised() -> None:
    """At most 1 in 1000 for each side; of 4,000 decisions at most 8 are expected, 20 would be a miracle."""
    rng = random.Random(2)
    verdicts = [_decide(0.5, rng) for _ in range(4_000)]
    assert len(verdicts) - verdicts.count(Verdict.UNDECIDED) < 20


# --- races ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(40))
def test_a_fast_submission_passes_on_a_noisy_machine(seed: int) -> None:
    compete(Racer(noisy(0.01 / 16), seed=seed), Racer(noisy(0.01), seed=seed + 1_000))


@pytest.mark.parametrize("seed", range(40))
def test_a_slow_one_fails_with_figures(seed: int) -> None:
    with pytest.raises(Finding, match=r"^`f` runs [\d.]+ times as fast as the original version; at least 4 times"):
        compete(Racer(noisy(0.01), seed=seed), Racer(noisy(0.01), label="original version", seed=seed + 1_000))


def test_the_message_has_the_median_and_the_hint() -> None:
    with pytest.raises(Finding) as caught:
        compete(Racer(lambda rng: 0.005), hint="Unfold.")
    assert str(caught.value) == (
        "`f` runs 2 times as fast as the original version; at least 4 times is asked for (median of 12 pairs). Unfold."
    )


def test_what_cannot_be_decided_is_skipped_with_the_figure() -> None:
    """Win and loss in turn, whatever the order of running: no verdict, and never the learner's failure."""
    # one pair is won, the next is lost twice
    submission = Racer(lambda rng: 0.001 if submission.runs % 3 == 1 else 0.005)
    with pytest.raises(pytest.skip.Exception, match=r"could not be measured here: .* times as fast, 4 asked for"):
        compete(submission)
    # a pair that is won takes one run, a lost one two
    assert submission.runs == 3 * (speedup.FIRST_TRY_PAIRS + speedup.SECOND_TRY_PAIRS) // 2


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        (lambda x: x + 2, "a timed result of `f` differs"),
        (lambda x: None, "a timed result of `f`: got None; expected a tensor"),
        (lambda x: torch.zeros(3), "the shape is"),
    ],
)
def test_wrong_outputs_fail_at_once_however_fast(answer: Callable[..., Any], says: str) -> None:
    submission = Racer(lambda rng: 1e-9, answer)
    with pytest.raises(AssertionError, match=says):
        compete(submission)
    assert submission.runs == 1


def test_a_wrong_output_in_a_late_pair_fails_too() -> None:
    submission = Racer(lambda rng: 0.001, lambda x: x + (1 if submission.runs < 10 else 2))
    with pytest.raises(AssertionError, match="a timed result"):
        compete(submission)


def test_fewer_results_than_calls_fail() -> None:
    submission = Racer(lambda rng: 0.001)
    submission.go = lambda: ([], 1e-9)  # type: ignore[method-assign]
    with pytest.raises(AssertionError, match="another number of results"):
        compete(submission)


def test_work_done_ahead_of_the_clock_is_counted() -> None:
    """All the work while the inputs arrive, none when the clock runs: as slow as the work is."""
    with pytest.raises(Finding, match="runs 1 times as fast"):
        compete(Racer(lambda rng: 1e-6, staging=lambda rng: 0.01 + 1e-4))


@pytest.mark.parametrize("ratio", [2.2499, 1.0, 0.0])
def test_small_gains_are_not_timed(ratio: float) -> None:
    with pytest.raises(ValueError, match="not timed: count something instead"):
        compete(Racer(lambda rng: 0.001), ratio=ratio)


def test_a_gain_of_two_and_a_quarter_is() -> None:
    compete(Racer(lambda rng: 0.006), ratio=2.25)


def test_a_sample_is_enough_work_for_the_clock() -> None:
    """A baseline of 1 ms is called five times for each sample, one of 1 µs 64 times, one of 10 ms once."""
    for seconds, calls in ((0.001, 5), (1e-6, 64), (0.01, 1)):
        submission = Racer(lambda rng, seconds=seconds: seconds / 10)
        compete(submission, Racer(lambda rng, seconds=seconds: seconds))
        assert len(submission._calls) == calls


def test_inputs_are_fresh_for_each_pair_and_cannot_be_foreseen() -> None:
    def seeds() -> list[int]:
        seen: list[int] = []

        def noted(seed: int) -> Any:
            seen.append(seed)
            return inputs(seed)

        submission, baseline = Racer(lambda rng: 0.001), Racer(lambda rng: 0.01)
        assert_faster(submission, baseline, noted, reference, reference_ratio=16.0)  # type: ignore[arg-type]
        return seen

    first, second = seeds(), seeds()
    assert len(set(first)) == len(first)
    assert not set(first) & set(second)


def test_what_is_timed_may_go_through_a_function_of_the_tests() -> None:
    def doubled(function: Callable[..., Any], x: torch.Tensor) -> Any:
        return 2 * function(x)

    racers = Racer(lambda rng: 0.001), Racer(lambda rng: 0.01)
    assert_faster(*racers, inputs, lambda x: 2 * (x + 1), reference_ratio=16.0, via=doubled)  # type: ignore[arg-type]


def test_a_learners_functions_can_race(learner: Callable[[str], Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """The same through real functions, with a sleep for the slow one: fifty times is beyond any noise."""
    monkeypatch.setattr(speedup, "MIN_SAMPLE_S", 0.0)
    fast = learner("def f(x):\n    return x + 1").f
    slow = learner("import time\ndef f(x):\n    time.sleep(0.01)\n    return x + 1").f
    assert_faster(fast, slow, inputs, reference, reference_ratio=9.0)
    with pytest.raises(Finding):
        assert_faster(slow, fast, inputs, reference, reference_ratio=9.0)
