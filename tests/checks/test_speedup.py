"""The race between submission and baseline, on simulated clocks: no machine's speed matters here."""

from __future__ import annotations

import math
import random
import time
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from autograder import figures
from autograder.checks import speedup
from autograder.checks.speedup import Race, Verdict, assert_faster, assert_gains, product_gain
from autograder.errors import Finding
from autograder.report import Figure


@pytest.fixture(autouse=True)
def _no_figures_yet() -> None:
    figures.taken()


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
        self.submission = SimpleNamespace(label=label, device="cpu")
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
def test_a_slow_one_fails_on_a_noisy_machine(seed: int) -> None:
    with pytest.raises(Finding, match=r"^`f` is not fast enough yet; asked for: at least 4 times as fast as the orig"):
        compete(Racer(noisy(0.01), seed=seed), Racer(noisy(0.01), label="original version", seed=seed + 1_000))


def test_the_message_has_what_is_asked_and_the_hint_and_the_figure_has_the_median() -> None:
    with pytest.raises(Finding) as caught:
        compete(Racer(lambda rng: 0.005), hint="Unfold.")
    assert str(caught.value) == (
        "`f` is not fast enough yet; asked for: at least 4 times as fast as the original version. Unfold."
    )
    assert figures.taken() == (speed(2, 4),)


def speed(measured: float, asked: float, label: str = "original version") -> Figure:
    return Figure(f"`f` beside the {label}", measured, asked, at_least=True, unit="times as fast")


def test_who_is_fast_enough_is_told_how_fast() -> None:
    compete(Racer(lambda rng: 0.00123))
    assert figures.taken() == (speed(8.1, 4),)


def test_messages_hold_nothing_that_was_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    """Too slow, wrong, or on a machine that gains nothing: the same text, however much of it there is."""

    def said(run: Callable[[float], None]) -> set[str]:
        texts = set()
        for factor in (1.0, 1.1, 1.234):
            with pytest.raises((Finding, AssertionError, pytest.skip.Exception)) as caught:
                run(factor)
            texts.add(str(caught.value))
        return texts

    assert len(said(lambda factor: compete(Racer(lambda rng: 0.005 * factor)))) == 1
    assert len(said(lambda factor: compete(Racer(lambda rng: 0.001, lambda x: x + factor + 1)))) == 1
    gain = "product_gain"

    def in_bf16(factor: float, least: float) -> None:
        monkeypatch.setattr(speedup, gain, lambda device, dtype, product: least * factor)
        compete_in_bf16(Racer(lambda rng: 0.01))

    assert len(said(lambda factor: in_bf16(factor, 1.0))) == 1
    assert len(said(lambda factor: in_bf16(factor, 4.0))) == 1


def test_what_cannot_be_decided_is_skipped_with_the_figure() -> None:
    """Win and loss in turn, whatever the order of running: no verdict, and never the learner's failure."""
    # one pair is won, the next is lost twice
    submission = Racer(lambda rng: 0.001 if submission.runs % 3 == 1 else 0.005)
    with pytest.raises(pytest.skip.Exception, match="could not be measured here: too noisy"):
        compete(submission)
    assert [(figure.what, figure.asked) for figure in figures.taken()] == [("`f` beside the original version", 4)]
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
    with pytest.raises(Finding):
        compete(Racer(lambda rng: 1e-6, staging=lambda rng: 0.01 + 1e-4))
    assert figures.taken() == (speed(1, 4),)


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
    told: list[tuple[int, int]] = []
    with figures.pairs_told_to(lambda run, at_most: told.append((run, at_most))):
        assert_faster(fast, slow, inputs, reference, reference_ratio=9.0)
    assert told == [(pair, speedup.FIRST_TRY_PAIRS) for pair in range(1, len(told) + 1)] and len(told) > 10
    with pytest.raises(Finding):
        assert_faster(slow, fast, inputs, reference, reference_ratio=9.0)


# --- what the hardware gains ------------------------------------------------------------------------------------------


def gaining(monkeypatch: pytest.MonkeyPatch, gain: float) -> None:
    """A machine whose bare products gain that much."""
    monkeypatch.setattr(speedup, "product_gain", lambda device, dtype, product: gain)


def compete_in_bf16(submission: Racer, **options: Any) -> None:
    plain = Racer(lambda rng: 0.01, label="plain version")
    size: Any = {"dtype": torch.bfloat16, "product": (8, 64, 64)}
    assert_gains(submission, plain, inputs, reference, **size, **options)  # type: ignore[arg-type]


def product(gain: float) -> Figure:
    return Figure("a bare product in bfloat16 beside one in float32", gain, 2.25, at_least=True, unit="times as fast")


@pytest.mark.parametrize("gain", [0.03, 1.0, 2.2])
def test_a_machine_that_gains_nothing_skips_with_the_figure(monkeypatch: pytest.MonkeyPatch, gain: float) -> None:
    """However fast or slow the submission is: it is not even run."""
    gaining(monkeypatch, gain)
    for seconds in (0.1, 0.0001):
        submission = Racer(lambda rng, seconds=seconds: seconds)
        with pytest.raises(pytest.skip.Exception, match=r"product in bfloat16 is less than 2.25 times as fast as"):
            compete_in_bf16(submission)
        assert submission.runs == 0
        assert figures.taken() == (product(gain),)


@pytest.mark.parametrize("gain", [2.25, 4.0, 16.0])
def test_half_of_the_gain_is_asked_for_on_a_logarithmic_scale(monkeypatch: pytest.MonkeyPatch, gain: float) -> None:
    gaining(monkeypatch, gain)
    compete_in_bf16(Racer(lambda rng: 0.0095 / math.sqrt(gain)))
    with pytest.raises(Finding):
        compete_in_bf16(Racer(lambda rng: 0.0105 / math.sqrt(gain)))


def test_who_is_too_slow_is_shown_what_a_bare_product_gains(monkeypatch: pytest.MonkeyPatch) -> None:
    gaining(monkeypatch, 4.0)
    with pytest.raises(Finding) as caught:
        compete_in_bf16(Racer(lambda rng: 0.01))
    assert str(caught.value) == (
        "`f` is not fast enough yet; asked for: a good part of what a bare product gains from bfloat16 on this machine."
        " It computes in bfloat16, the plain version in float32."
    )
    assert figures.taken() == (product(4), speed(1, 2, "plain version"))


@pytest.mark.parametrize("seed", range(20))
def test_on_a_noisy_machine_the_right_one_gains_and_the_wrong_one_does_not(
    monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    """The figures of chapter 6: products gain 3, right code 2.3, code that converts again and again 1.2."""
    gaining(monkeypatch, 3.0)
    plain = Racer(noisy(0.04, 0.15), label="plain version", seed=seed + 1_000)
    size: Any = {"dtype": torch.bfloat16, "product": (8, 64, 64)}
    assert_gains(Racer(noisy(0.04 / 2.3, 0.15), seed=seed), plain, inputs, reference, **size)  # type: ignore[arg-type]
    with pytest.raises(Finding):
        assert_gains(Racer(noisy(0.04 / 1.2, 0.15), seed=seed), plain, inputs, reference, **size)  # type: ignore[arg-type]


def test_wrong_outputs_gain_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    gaining(monkeypatch, 4.0)
    with pytest.raises(AssertionError, match="a timed result of `f` differs"):
        compete_in_bf16(Racer(lambda rng: 1e-9, lambda x: x + 2))


@pytest.fixture
def slow_products(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[torch.dtype]]:
    """Products that take 4 ms in float32 and 1 ms in anything else; the dtypes of all that were made."""
    made: list[torch.dtype] = []

    def linear(x: torch.Tensor, weight: torch.Tensor) -> None:
        assert (x.shape, weight.shape) == ((3, 5), (7, 5)) and x.dtype == weight.dtype
        assert torch.get_num_threads() == 1 and not torch.is_grad_enabled()
        made.append(x.dtype)
        time.sleep(0.004 if x.dtype == torch.float32 else 0.001)

    monkeypatch.setattr(torch.nn.functional, "linear", linear)
    monkeypatch.setattr(speedup, "PRODUCT_PAIRS", 8)
    product_gain.cache_clear()
    yield made
    product_gain.cache_clear()


def test_the_gain_is_measured_once_and_leaves_no_trace(slow_products: list[torch.dtype]) -> None:
    """Sleeping takes a little longer than asked for, so the ratio is somewhat below 4."""
    threads, state = torch.get_num_threads(), torch.get_rng_state()
    gain = product_gain("cpu", torch.bfloat16, (3, 5, 7))
    assert 2 < gain < 4.5
    n_made = len(slow_products)
    assert product_gain("cpu", torch.bfloat16, (3, 5, 7)) == gain
    assert len(slow_products) == n_made
    assert set(slow_products) == {torch.float32, torch.bfloat16}
    assert torch.get_num_threads() == threads and torch.equal(torch.get_rng_state(), state)
    product_gain("cpu", torch.float16, (3, 5, 7))
    assert torch.float16 in slow_products


def test_real_products_have_a_gain() -> None:
    """In the same dtype there is none, whatever the machine."""
    assert 0.3 < product_gain("cpu", torch.float32, (4, 64, 64)) < 1.5
    assert product_gain("cpu", torch.bfloat16, (4, 64, 64)) > 0


def test_a_submission_knows_its_device(learner: Callable[[str], Any]) -> None:
    assert learner("def f(x):\n    return x").device == "cpu"
