"""Solution regions: the views made of them, and what is said about malformed ones."""

from __future__ import annotations

import pytest

from autograder.errors import ChapterError, PlantingError
from autograder.planting import Region, mutants, regions, render, solution, starter

ONE = """\
def f(x):
    ### BEGIN SOLUTION V5
    return x + 1
    ### BUG
    # y = x

    # if y:
    #     return y
    ### END SOLUTION
"""
TWO = """\
import torch
### BEGIN SOLUTION V1
a = 1
### BUG
# a = 2
### END SOLUTION
middle = 0
### BEGIN SOLUTION V2
b = 1
### BUG
#b = 2
### END SOLUTION
end = 0"""


def test_solution_shows_the_fix_without_markers() -> None:
    assert solution(ONE) == "def f(x):\n    return x + 1"


def test_starter_shows_the_bug_uncommented_with_its_indentation() -> None:
    assert starter(ONE) == "def f(x):\n    y = x\n\n    if y:\n        return y"


def test_each_mutant_has_one_bug() -> None:
    found = [(region.pitfall, source) for region, source in mutants(TWO)]
    assert found == [
        ("V1", "import torch\na = 2\nmiddle = 0\nb = 1\nend = 0"),
        ("V2", "import torch\na = 1\nmiddle = 0\nb = 2\nend = 0"),
    ]


def test_regions_carry_both_sides() -> None:
    assert regions(TWO) == [Region("V1", ("a = 1",), ("a = 2",)), Region("V2", ("b = 1",), ("b = 2",))]


def test_render_chooses_by_index_and_region() -> None:
    assert render(TWO, lambda index, region: index == 1 and region.pitfall == "V2") == mutants(TWO)[1][1]


@pytest.mark.parametrize("source", ["", "x = 1", "# BEGIN SOLUTION\nx = 1", "text = '''\n## BUG\n'''"])
def test_a_cell_without_markers_is_left_as_it_is(source: str) -> None:
    assert solution(source) == starter(source) == source
    assert regions(source) == [] and mutants(source) == []


def test_a_region_may_have_an_empty_fix_and_no_pitfall() -> None:
    """A fix can be to leave something out."""
    source = "### BEGIN SOLUTION\n### BUG\n# x = 1\n### END SOLUTION"
    assert solution(source) == ""
    assert starter(source) == "x = 1"
    assert regions(source)[0].pitfall == ""


@pytest.mark.parametrize(
    ("source", "says"),
    [
        ("### BEGIN SOLUTION\nx = 1\n### BUG\n# x = 2", "not closed"),
        ("### BEGIN SOLUTION\nx = 1\n### END SOLUTION", "line 3: END SOLUTION without a planted bug"),
        ("### BEGIN SOLUTION\nx = 1\n### BUG\n\n### END SOLUTION", "line 5: END SOLUTION without a planted bug"),
        ("### BEGIN SOLUTION\n### BEGIN SOLUTION", "line 2: BEGIN SOLUTION inside another region"),
        ("x = 1\n### BUG", "line 2: BUG belongs between"),
        ("### BEGIN SOLUTION\n### BUG\n# a\n### BUG\n# b\n### END SOLUTION", "line 4: BUG belongs between"),
        ("x = 1\n### END SOLUTION", "line 2: END SOLUTION without"),
        ("### BEGIN SOLUTION\nx = 1\n### BUG\nx = 2\n### END SOLUTION", "line 4: the bug's lines must be comm"),
    ],
)
def test_malformed_regions_are_named_with_cell_and_line(source: str, says: str) -> None:
    with pytest.raises(PlantingError, match=says) as caught:
        starter(source, "my-cell")
    assert str(caught.value).startswith("my-cell")
    assert isinstance(caught.value, ChapterError)
