"""The bar that is seen while a check takes its time."""

from __future__ import annotations

import threading
from collections.abc import Callable

from autograder.check_bar import NOTHING, CheckBar, Moment
from autograder.figures import tell_pairs
from autograder.live_output import Data

PATIENCE_S = 20.0


class Screen:
    """What a bar has shown, and a way to wait until it shows something in particular."""

    def __init__(self) -> None:
        self.shown: list[Data] = []
        self._changed = threading.Condition()

    def __call__(self, data: Data) -> None:
        with self._changed:
            self.shown.append(data)
            self._changed.notify_all()

    def wait_for(self, words: str) -> bool:
        """Whether the words come up soon."""

        def there() -> bool:
            return any(words in data.get("text/plain", "") for data in self.shown)

        with self._changed:
            return self._changed.wait_for(there, timeout=PATIENCE_S)


def test_the_sentence_says_how_far_the_check_is_and_what_runs() -> None:
    moment = Moment("title_clip", "The bar grows & stays.", through=2, tests=5, pairs=12, pairs_at_most=60)
    assert moment.text == (
        "Checking title_clip: 2 of 5 tests are through. Now: The bar grows & stays. (pair 12 of at most 60)"
    )
    html = moment.data["text/html"]
    assert "width:40%" in html and 'aria-valuenow="2"' in html
    assert html.count("The bar grows &amp; stays.") == 2, "in the label of the bar, and to be read"
    assert "pair" not in Moment("title_clip", "The bar grows.", 2, 5).text


def test_a_quick_check_shows_nothing() -> None:
    screen = Screen()
    with CheckBar("double", screen, after_s=PATIENCE_S) as bar:
        bar.started("Twice three is six.", 0, 2)
    assert screen.shown == []


def test_a_long_check_shows_its_tests_and_pairs_and_is_gone_at_the_end() -> None:
    screen = Screen()
    with CheckBar("double", screen, after_s=0) as bar:
        bar.started("Twice three is six.", 0, 2)
        assert screen.wait_for("0 of 2 tests are through. Now: Twice three is six.")
        tell_pairs(7, 60)
        assert screen.wait_for("(pair 7 of at most 60)")
        bar.started("Twice nothing is nothing.", 1, 2)
        assert screen.wait_for("1 of 2 tests are through. Now: Twice nothing is nothing.")
    assert screen.shown[-1] == NOTHING
    tell_pairs(8, 60)
    assert screen.shown[-1] == NOTHING, "it listens no more"


def test_an_interrupted_check_takes_its_bar_away() -> None:
    screen = Screen()
    try:
        with CheckBar("double", screen, after_s=0) as bar:
            bar.started("Twice three is six.", 0, 2)
            assert screen.wait_for("0 of 2")
            raise KeyboardInterrupt
    except KeyboardInterrupt:
        assert screen.shown[-1] == NOTHING


def test_a_front_end_that_fails_costs_nothing(capfd: Callable[..., object]) -> None:
    tried = threading.Event()

    def broken(data: Data) -> None:
        tried.set()
        raise OSError("no front end")

    with CheckBar("double", broken, after_s=0) as bar:
        bar.started("Twice three is six.", 0, 2)
        assert tried.wait(PATIENCE_S)
    assert capfd.readouterr().err == ""  # type: ignore[attr-defined]
