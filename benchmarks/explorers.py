"""How long the lessons' explorers take to answer when a slider or a choice is moved.

    python benchmarks/explorers.py

Each control that an explorer shows to begin with is moved through its values and back, and each move is timed until the
new picture, line and table are there; what the browser then does is not in it. The clock is the processor's, which is
what one waits for where nothing else runs. All of that is done three times, and of each move the fastest counts: other
programs can only make it slower. Prints the median, the 95th percentile and the slowest move, and the slowest of the
first round, in which some explorers run what they then keep, and draw words that they then copy. Target: 100 ms at the
95th percentile for each explorer. Exit status 1 where it is missed, or where an explorer has no line in words.
"""

from __future__ import annotations

import importlib
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import ipywidgets as widgets

from autograder import plotting
from autograder.chapter import find_root

TARGET_MS = 100.0
ROUNDS = 3


def _explorers(course: Path) -> Iterator[tuple[str, Callable[[], widgets.Box], bool]]:
    """Each explorer: its name, what opens it at its default, and whether it explains itself in a line."""
    sys.path.insert(0, str(course))
    for path in sorted((course / "explorers").glob("*.py")):
        module = importlib.import_module(f"explorers.{path.stem}")
        for name, function in list(vars(module).items()):
            if name.startswith("explore_"):
                yield name, function, hasattr(module, "explain")


def _controls(widget: widgets.Widget) -> Iterator[Any]:
    """What can be moved inside a container, in its order; what is hidden cannot."""
    if widget.layout.display == "none":
        return
    if isinstance(widget, widgets.Box):
        for child in widget.children:
            yield from _controls(child)
    elif isinstance(widget, widgets.Image | widgets.HTML | widgets.HTMLMath):
        return
    elif hasattr(widget, "value"):
        yield widget


def _values(control: Any) -> list[Any]:
    """The values that a control can be moved to, as its own values."""
    if hasattr(control, "_options_values"):  # a dropdown, a row of buttons, a slider over choices
        return list(control._options_values)
    if isinstance(control, widgets.Checkbox | widgets.ToggleButton):
        return [False, True]
    steps = round((control.max - control.min) / control.step)
    return [control.min + number * control.step for number in range(steps + 1)]


def _moves(box: widgets.Box) -> list[float]:
    """Milliseconds of each move of each control."""
    times = []
    for control in list(_controls(box)):
        before = control.value
        for value in [*_values(control), before]:
            if value != control.value:
                begin = time.process_time()
                control.value = value
                times.append(1000 * (time.process_time() - begin))
    return times


def main() -> int:
    """Measure, print, compare."""
    missed = 0
    plotting.use_course_style()
    print(f"{'':22} {'moves':>6} {'median':>8} {'95 %':>8} {'slowest':>8} {'at first':>9} {'opens in':>9}  (ms)")
    for name, open_it, explains in _explorers(find_root(Path.cwd()) / "course"):
        begin = time.process_time()
        box = open_it()
        opening = 1000 * (time.process_time() - begin)
        rounds = [_moves(box) for _ in range(ROUNDS)]
        times = [min(move) for move in zip(*rounds, strict=True)]
        late = statistics.quantiles(times, n=20)[-1]
        verdict = "" if late <= TARGET_MS and explains else "  missed" if explains else "  no line in words"
        missed += bool(verdict)
        figures = f"{statistics.median(times):8.1f} {late:8.1f} {max(times):8.1f} {max(rounds[0]):9.1f} {opening:9.0f}"
        print(f"{name:22} {len(times):6} {figures}{verdict}")
    print(f"target: {TARGET_MS:g} ms at the 95th percentile")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
