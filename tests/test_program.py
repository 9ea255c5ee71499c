"""What of a notebook is kept for a grade, what is left out, and what its magics become."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Callable

import pytest

from autograder.notebook import Cell
from autograder.program import Program, read_program, without_magics


def program(*sources: str) -> Program:
    return read_program([Cell("code", source) for source in sources])


def kept(found: Program, *names: str) -> str:
    """The source of everything that would run for *names*."""
    parts = []
    for cell, indices in found.needed_for(names):
        body = ast.parse(cell.source).body
        parts += [ast.unparse(body[index]) for index in indices]
    return "\n".join(parts)


def run(found: Program, *names: str) -> dict[str, object]:
    namespace: dict[str, object] = {}
    exec(kept(found, *names), namespace)
    return namespace


# --- what is a definition ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "definition",
    [
        "import f",
        "from m import f",
        "from m import g as f",
        "import f.g",
        "def f(): pass",
        "async def f(): pass",
        "class f: pass",
        "f = 1",
        "f: int = 1",
        "f, g = 1, 2",
        "[a, *f] = range(3)",
        "a = f = 2",
        "if True:\n    def f(): pass\nelse:\n    f = None",
        "try:\n    import f\nexcept ImportError:\n    f = None",
        "with a:\n    f = 1",
        "f.attribute = 1",
        "f[0] = 1",
    ],
)
def test_kept(definition: str) -> None:
    found = program(definition)
    assert found.defines("f")
    assert kept(found, "f") == ast.unparse(ast.parse(definition))


@pytest.mark.parametrize(
    "statement",
    [
        "print(f)",
        "f",
        "f()",
        "for f in range(3):\n    pass",
        "while True:\n    f = 1",
        "assert f",
        "del f",
        "raise SystemExit",
        "if True:\n    f = 1\n    print(f)",
        "try:\n    f = g()\nexcept Exception as error:\n    print(error)",
        "with a:\n    f()",
        "'''only text'''",
    ],
)
def test_left_out(statement: str) -> None:
    found = program(statement)
    assert not found.defines("f")
    assert kept(found, "f") == ""


def test_an_endless_loop_below_a_right_answer_does_no_harm() -> None:
    found = program("def f(x):\n    return x + 1\n\nwhile True:\n    pass")
    assert run(found, "f")["f"](1) == 2  # type: ignore[operator]


# --- slicing ----------------------------------------------------------------------------------------------------------


def test_only_what_a_name_needs_is_kept_in_the_order_of_the_notebook() -> None:
    found = program(
        "import torch\nimport slow_to_import",
        "SCALE = 2\nUNUSED = expensive()",
        "def helper(x):\n    return x * SCALE",
        "def f(x):\n    return helper(x)",
        "def other():\n    return UNUSED",
    )
    assert kept(found, "f").splitlines() == [
        "SCALE = 2",
        "def helper(x):",
        "    return x * SCALE",
        "def f(x):",
        "    return helper(x)",
    ]
    assert run(found, "f")["f"](3) == 6  # type: ignore[operator]


def test_all_definitions_of_a_name_are_kept_and_the_last_one_holds() -> None:
    found = program("def f():\n    return 1", "f_before = f", "def f():\n    return f_before() + 1")
    assert run(found, "f")["f"]() == 2  # type: ignore[operator]


@pytest.mark.parametrize(
    ("user", "needs"),
    [
        ("@cached\ndef f(): pass", "cached"),
        ("class f(Base): pass", "Base"),
        ("def f(x=DEFAULT): pass", "DEFAULT"),
        ("def f(x: 'Kind'): pass", "Kind"),
        ("f = [row for row in TABLE]", "TABLE"),
        ("def f():\n    def g():\n        return deep\n    return g", "deep"),
        ("f = lambda: late", "late"),
        ("f = 1\nf += step", "step"),
        ("def f():\n    return f'{shown}'", "shown"),
    ],
)
def test_names_are_followed_wherever_they_are_used(user: str, needs: str) -> None:
    assert f"{needs} = 1" in kept(program(f"{needs} = 1", user), "f")


def test_changes_to_a_needed_object_are_kept() -> None:
    found = program("class f: pass\ntable = {}", "f.x = 1\ntable['a'] = f", "other = {}\nother[0] = 1")
    assert kept(found, "table").splitlines()[-2:] == ["f.x = 1", "table['a'] = f"]


@pytest.mark.parametrize("reader", ["globals()", "locals()", "vars()", "eval('hidden')", "exec('y = hidden')"])
def test_code_that_may_look_up_any_name_gets_all_definitions(reader: str) -> None:
    found = program("hidden = 1", f"def f():\n    return {reader}", "def g():\n    return 1")
    assert "hidden = 1" in kept(found, "f")
    assert "hidden" not in kept(found, "g")


def test_star_imports_are_always_kept_and_may_define_anything() -> None:
    found = program("from math import *", "def f(x):\n    return sqrt(x)")
    assert run(found, "f")["f"](4) == 2  # type: ignore[operator]
    assert found.defines("cos")


def test_future_imports_are_always_kept() -> None:
    found = program("from __future__ import annotations", "def f(x: Unknown):\n    return x")
    assert kept(found, "f").startswith("from __future__ import annotations")


@pytest.mark.parametrize(
    "function",
    [
        "def f(model):\n    return model",
        "def f(x):\n    model = x\n    return model",
        "def f(x):\n    return [model for model in x]",
        "def f(x):\n    return (lambda model: model)(x)",
        "def f(x):\n    def inner(model):\n        return model\n    return inner(x)",
        "def f(x):\n    return {'model': x}",
        "class f:\n    def __init__(self, model):\n        self.model = model",
        "f = lambda model: model",
        "f = 1; g = 2\r\ndef h(model): return model",
    ],
)
def test_names_of_its_own_are_not_looked_for_in_the_notebook(function: str) -> None:
    """A demonstration that happens to use the name of a parameter or a local variable is not run for a grade."""
    found = program("model = train_for_hours()", function)
    assert "train_for_hours" not in kept(found, "f")


@pytest.mark.parametrize(
    "function",
    [
        "def f():\n    return model",
        "def f(x=model):\n    return x",
        "@model\ndef f(x):\n    return x",
        "@staticmethod\n@model\ndef f(x):\n    return x",
        "def f():\n    def inner():\n        return model\n    return inner",
        "def f():\n    return lambda: [model for _ in range(3)]",
        "def f(x):\n    global model\n    model = x",
        "def f(x: 'model'):\n    return x",
        "def f(x) -> model:\n    return x",
        "class f(model):\n    pass",
        "class f:\n    size = model",
        "class f:\n    model = model",
        "class f:\n    def g(self):\n        return model",
        "f = [model for _ in range(3)]",
        "a = 1; f = model",
        "a = '''\nx'''; f = model",
        "if True:\n    def f():\n        return model",
        "def f(x):\n    return f'{model!r:>{x}}'",
    ],
)
def test_names_of_the_notebook_are_found_wherever_a_statement_reads_them(function: str) -> None:
    """Defaults, decorators, annotations, bases, nested functions and class bodies read the notebook's names."""
    found = program("model = 1", "other = 2", function)
    assert "model = 1" in kept(found, "f") and "other" not in kept(found, "f")


def test_reading_many_statements_takes_time_in_proportion() -> None:
    """Each statement is looked at by itself, so that ten times as many cost about ten times as much, not a hundred."""
    found = program("x = 1\n" * 15_000)
    assert len(found.statements) == 15_000


@pytest.mark.parametrize(
    "source",
    [
        "x = 1; " * 10_000,
        "\n" * 40_000 + "a b",
        " " * 40_000 + "a b",
        "a = " + " " * 40_000 + "! b\na b",
        "def f():\n    return a0\n" + "".join(f"a{i} = a{i + 1}\n" for i in reversed(range(5_000))),
    ],
    ids=["one line", "empty lines", "blanks", "blanks before a shell's line", "chain"],
)
def test_no_code_takes_its_reader_hours(source: str) -> None:
    """Each took minutes or hours when all of a line was read for each statement in it, or a pattern went back."""
    found = program(source)
    found.needed_for(["f", "x"])
    assert found.errors() or found.statements


def test_statements_that_share_a_line_are_told_apart() -> None:
    found = program("é = 'ü'; a = é; \\\n  b = c; d = a", "def f():\n    return d")
    assert found.needed_for(["f"])[0][1] == [0, 1, 3]
    assert run(found, "f")["f"]() == "ü"  # type: ignore[operator]


def test_of_very_much_code_the_solution_cells_are_read() -> None:
    mark = {"grade_id": "f-code", "solution": True}
    own = [Cell("code", "x = 1\n" * 10_000)] * 6
    found = read_program([*own, Cell("code", "def f():\n    return 1", nbgrader=mark)])
    assert set(found.errors()) == {"cell 6"} and found.defines("f")


def test_conditional_imports() -> None:
    found = program("try:\n    import not_there as fast\nexcept ImportError:\n    import math as fast", "f = fast.ceil")
    assert run(found, "f")["f"](1.5) == 2  # type: ignore[operator]


def test_cells_are_asked_for_once_with_all_their_statements() -> None:
    found = program("a = 1\nprint(a)\nb = a\nc = 3", "d = b")
    assert [(cell.name, indices) for cell, indices in found.needed_for(["d"])] == [("cell 1", [0, 2]), ("cell 2", [0])]


# --- cells ------------------------------------------------------------------------------------------------------------


def test_a_cell_that_does_not_parse_costs_nothing_but_itself() -> None:
    cells = [
        Cell("code", "def f():\n    return 1", nbgrader={"grade_id": "f-code", "solution": True}),
        Cell("code", "def g(:\n    return 1", nbgrader={"grade_id": "g-code", "solution": True}),
        Cell("code", "h = 1 +"),
    ]
    found = read_program(cells)
    assert found.defines("f") and not found.defines("g") and not found.defines("h")
    assert set(found.errors()) == {"g", "cell 3"}
    assert found.errors()["g"].startswith("line 1: ")


def test_text_cells_are_no_code_unless_they_are_solution_cells() -> None:
    mark = {"grade_id": "f-code", "solution": True}
    found = read_program([Cell("markdown", "a = 1"), Cell("raw", "b = 1"), Cell("markdown", "c = 1", nbgrader=mark)])
    assert (found.defines("a"), found.defines("b"), found.defines("c")) == (False, False, True)


@pytest.mark.parametrize(
    "source",
    [
        "x = " + "-" * 100_000 + "1",
        "x = f" + "()" * 100_000,
        "x = " + "(" * 1_000,
        "if a:\n    x = 1\n" + "elif a:\n    x = 1\n" * 1_500,
        "x = 1\n" * 100_000,
        "x = '\0'",
        "x = " + "9" * 10_000,
        "x = '\N{SNOWMAN}' if \N{SNOWMAN} else 1",
        "\tx = 1\n        y = 2",
    ],
    ids=["minus", "calls", "brackets", "elif", "long", "nul", "number", "snowman", "tabs"],
)
def test_code_that_is_hard_to_parse_is_an_error_of_its_cell(source: str) -> None:
    found = program(source, "def f(): pass")
    assert set(found.errors()) == {"cell 1"}
    assert found.defines("f")


def test_reading_warns_about_nothing() -> None:
    """An invalid escape is the learner's concern; it must not become a warning, or an error, of the grader's."""
    code = (
        "from autograder.notebook import Cell; from autograder.program import read_program;"
        r"read_program([Cell('code', 'x = \'\\d\'\nassert (1, 2)\ny = 1 is 1')])"
    )
    done = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


# --- magics -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("source", "plain"),
    [
        ("%time f()", "f()"),
        ("%timeit -n 10 -r 3 f()", "f()"),
        ("x = 1\n%time y = f(x)", "x = 1\ny = f(x)"),
        ("y = %time f()\nz = y", "y = f()\nz = y"),
        ("def f():\n    %time x = g()\n    return x", "def f():\n    x = g()\n    return x"),
        ("%%time\nx = 1", "\nx = 1"),
        ("%%time -n 3\nx = 1", "\nx = 1"),
        ("%%capture out\n%%time\nx = 1", "\npass\nx = 1"),
        ("%%bash\nrm -rf x", ""),
        ("%%writefile a.py\nx = 1", ""),
        ("%%html\n<b>", ""),
        ("%matplotlib inline\nx = 1", "pass\nx = 1"),
        ("!pip install x\nx = 1", "pass\nx = 1"),
        ("if a:\n    !ls\nx = 1", "if a:\n    pass\nx = 1"),
        ("files = !ls\nx = 1", "files = None\nx = 1"),
        ("a, b = %who_ls\nx = 1", "a, b = None\nx = 1"),
        ("torch.view?\nx = 1", "pass\nx = 1"),
        ("torch.view??\nx = 1", "pass\nx = 1"),
        ("?torch\nx = 1", "pass\nx = 1"),
        ("%time\nx = 1", "pass\nx = 1"),
    ],
)
def test_magics_become_plain_python(source: str, plain: str) -> None:
    assert without_magics(source) == plain
    ast.parse(plain)


@pytest.mark.parametrize(
    "source",
    [
        "x = '''\n%time is of the essence\n!\n'''",
        "x = (7\n% 4)",
        "# what is this?\nx = 1",
        "x = 1  # really??",
    ],
)
def test_plain_python_is_left_alone(source: str) -> None:
    assert without_magics(source) == source


def test_a_question_in_a_comment_is_no_request_for_help() -> None:
    """The magic below makes the cell other than plain Python; its comments have to survive that."""
    source = "def f(x):\n# why is this here?\n    y = g(  # and this?\n        x)\n    return y\n%time f(1)"
    assert without_magics(source) == source.replace("%time ", "")


@pytest.mark.parametrize("magic", ["%time", "%time f()", "!ls", "%matplotlib inline", "f?"])
def test_the_number_of_lines_stays(magic: str) -> None:
    source = f"a = 1\n{magic}\n\n\nb = 2\n"
    assert without_magics(source).count("\n") == source.count("\n")


def deeper(levels: int, function: Callable[[], Program]) -> Program:
    """What *function* returns, called so many levels further down in the stack."""
    return deeper(levels - 1, function) if levels else function()


@pytest.mark.parametrize("nested", [100, 200, 300, 400, 500, 700, 900, 1_200, 2_000, 4_000])
def test_what_can_be_read_does_not_depend_on_who_reads(nested: int) -> None:
    """Of code that is nested about as deeply as Python can read, each caller sees the same, whether or not it parses.

    A batch reads a notebook once more where it needs it again, and takes one that reads otherwise for a changed one.
    """
    # two sources, since one that is met again is not read again
    one, other = (Cell("code", f"if {n}:\n    x = 0\n" + "elif 0:\n    x = 0\n" * nested) for n in range(2))
    first = read_program([one])
    second = deeper(400, lambda: read_program([other]))
    assert first.statements == second.statements
    assert first.errors() == second.errors()


def test_a_cell_that_is_met_again_elsewhere_keeps_its_new_place() -> None:
    """What is known of a cell's source is used wherever it stands: its statements still belong to that place."""
    first, second = Cell("code", "import torch"), Cell("code", "def f():\n    return torch")
    forth, back = read_program([first, second]), read_program([second, first])
    assert [(statement.cell, statement.binds) for statement in forth.statements] == [(0, {"torch"}), (1, {"f"})]
    assert [(statement.cell, statement.binds) for statement in back.statements] == [(0, {"f"}), (1, {"torch"})]
    assert [cell.source for cell, _ in back.needed_for(["f"])] == [second.source, first.source]
