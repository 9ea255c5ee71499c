"""Whoever cannot see a figure is told what it shows: held for every lesson and every exercise, in their sources."""

from __future__ import annotations

import ast
import io
import re
from collections.abc import Iterator
from contextlib import redirect_stdout
from pathlib import Path

import jupytext
import matplotlib
import matplotlib.pyplot as plt
import pytest

from autograder import plotting
from autograder.build import notebook_sources
from autograder.program import without_magics

PROJECT = Path(__file__).parents[2]
SOURCES = notebook_sources(PROJECT)
BEGINNING = re.compile(rf"(?:{'|'.join(plotting.KINDS)}):")
MAKES_A_FIGURE = {"figure", "subplots", "subplot_mosaic", "subplot"}


def _name(call: ast.Call) -> str:
    """``show`` of ``plt.show()``."""
    return call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")


def _beginning(node: ast.expr) -> str:
    """How a text begins that a call is given: the first characters of a string, or of an f-string."""
    if isinstance(node, ast.JoinedStr):
        node = node.values[0]
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""


def _calls(tree: ast.AST) -> list[ast.Call]:
    return [node for node in ast.walk(tree) if isinstance(node, ast.Call)]


def _said(calls: list[ast.Call]) -> Iterator[str]:
    """The beginnings of what these calls print about something shown."""
    for call in calls:
        beginnings = [_beginning(argument) for argument in call.args]
        if _name(call) == "print":
            beginnings = beginnings[:1]  # how the line begins
        yield from (text for text in beginnings if BEGINNING.match(text))


def unsaid(source: str) -> list[str]:
    """What a code cell shows without saying in words what there is to see."""
    tree = ast.parse(without_magics(source))
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
    inside = {id(call) for function in functions for call in _calls(function)}
    calls = _calls(tree)
    top = [call for call in calls if id(call) not in inside]
    faults = [ast.unparse(call) for call in calls if _name(call) == "show" and ast.unparse(call).startswith("plt.")]
    shown = [call for call in top if _name(call) in MAKES_A_FIGURE or _name(call).startswith("explore_")]
    shown += [call for call in top if _name(call) == "display" and "Image" in ast.unparse(call)]
    if len(shown) > len(list(_said(top))):
        faults += [ast.unparse(call) for call in shown]
    for function in functions:  # one that draws is told the text, or says it
        drawing = _calls(function)
        makes = any(_name(call) in MAKES_A_FIGURE or "Image(" in ast.unparse(call) for call in drawing)
        if makes and not any(_name(call) == "show_figure" for call in drawing) and not list(_said(drawing)):
            faults.append(function.name)
    return faults


@pytest.mark.parametrize("source", SOURCES, ids=lambda path: path.stem + "-" + path.parent.name)
def test_each_cell_says_what_it_shows(source: Path) -> None:
    cells = [cell.source for cell in jupytext.read(source).cells if cell.cell_type == "code"]
    assert [fault for cell in cells for fault in unsaid(cell)] == []


def test_every_chapter_but_one_has_something_to_say() -> None:
    """Else the test above could not fail; chapter 7's exercise has no figure."""
    silent = []
    for source in SOURCES:
        cells = [cell.source for cell in jupytext.read(source).cells if cell.cell_type == "code"]
        if not any(list(_said(_calls(ast.parse(without_magics(cell))))) for cell in cells):
            silent.append((source.parent.name, source.stem))
    assert silent == [("course", "00_start_here"), ("ch07_ddp", "ch07_ddp")]


@pytest.mark.parametrize(
    "cell",
    [
        "plt.figure()\nplt.plot(x)\nplt.show()",
        "figure, axes = plt.subplots()\naxes.plot(x)",
        "figure, axes = plt.subplots()\nprint('The loss falls.')",
        "figure, axes = plt.subplots()\nshow_figure('the loss falls')",
        "explore_graph('x', 1.0)",
        "display(Image(png))",
        "def draw(x):\n    plt.figure()\n    plt.plot(x)",
        "plt.figure()\nshow_figure('Curve: a')\nplt.figure()",
    ],
)
def test_a_cell_that_says_nothing_is_found(cell: str) -> None:
    assert unsaid(cell)


@pytest.mark.parametrize(
    "cell",
    [
        "plt.figure()\nplt.plot(x)\nshow_figure(f'Curve: the loss, {x}')",
        "figure, axes = plt.subplots()\nplotting.show_figure('Bars: a' f'{b}')",
        "print('Explorer: a box for each statement')\nexplore_graph('x', 1.0)",
        "print('Picture:', describe(x))\ndisplay(Image(png))",
        "def draw(x, text):\n    plt.figure()\n    show_figure(text)",
        "figure = 3",
    ],
)
def test_a_cell_that_says_it_is_fine(cell: str) -> None:
    assert unsaid(cell) == []


def test_exercises_with_figures_have_the_style_of_the_course() -> None:
    for source in SOURCES:
        text = source.read_text(encoding="utf-8")
        if "matplotlib" in text:
            assert "use_course_style()\n" in text, source


def test_show_figure_prints_and_shows(monkeypatch: pytest.MonkeyPatch) -> None:
    shown: list[str] = []
    printed = io.StringIO()
    monkeypatch.setattr(plt, "show", lambda: shown.append(printed.getvalue()))
    with redirect_stdout(printed):
        plotting.show_figure("Curves: both fall.")
    assert shown == ["Curves: both fall.\n"], "the words come first"
    with pytest.raises(ValueError, match=r"begins with its kind and a colon \(Bars, Curve"):
        plotting.show_figure("both fall")


def test_the_style_is_set() -> None:
    with matplotlib.rc_context():
        plotting.use_course_style()
        assert matplotlib.rcParams["figure.facecolor"] == plotting.PAPER
        assert matplotlib.rcParams["axes.prop_cycle"].by_key()["linestyle"][:2] == ["-", "--"]
