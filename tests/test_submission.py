"""The proxy that tests use, on code that runs in this process."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest
import torch

from autograder.errors import ChapterError, LearnerException, LearnerMissing
from autograder.notebook import Cell
from autograder.program import read_program
from autograder.runtime import encode_reply
from autograder.submission import LiveRunner, Runner, Submission
from autograder.wire import decode

Learner = Callable[[str], Submission]


def test_functions_are_attributes(learner: Learner) -> None:
    submission = learner("def f(x, *, y=1):\n    return {'sum': x + y}")
    assert submission.f(torch.ones(2), y=2)["sum"].tolist() == [3, 3]
    assert submission.answered


def test_private_names_are_no_functions(learner: Learner) -> None:
    with pytest.raises(AttributeError):
        _ = learner("def _f(): pass")._f


def test_arguments_are_copies(learner: Learner) -> None:
    """A test's own tensors stay out of the learner's reach, in this process as elsewhere."""
    x = torch.zeros(2)
    learner("def f(x):\n    x += 1\n    return x").f(x)
    assert x.tolist() == [0, 0]


def test_an_exception_of_the_learners_says_what_and_where(learner: Learner) -> None:
    submission = learner("def f(x):\n    return x.view(7)")
    with pytest.raises(LearnerException, match=r"raised RuntimeError: shape .* \(in cell 1, line 2: ") as caught:
        submission.f(torch.zeros(6))
    assert caught.value.kind == "RuntimeError"


def test_exit_is_told_as_such(learner: Learner) -> None:
    with pytest.raises(LearnerException, match=r"called exit \(in cell 1, line 3"):
        learner("import sys\ndef f():\n    sys.exit(0)").f()


def test_what_cannot_be_handed_back_is_the_learners_error(learner: Learner) -> None:
    with pytest.raises(LearnerException, match="returned something that cannot be handed back: a function"):
        learner("def f():\n    return lambda: 1").f()


def test_ctrl_c_in_a_live_kernel_stops_the_check(learner: Learner) -> None:
    with pytest.raises(KeyboardInterrupt):
        learner("def f():\n    raise KeyboardInterrupt").f()


# --- names that are not there -----------------------------------------------------------------------------------------


def test_a_missing_name(learner: Learner) -> None:
    submission = learner("def g(): pass")
    with pytest.raises(LearnerMissing, match=r"^the notebook does not define `f`$"):
        submission.f()
    assert submission.answered


def test_a_missing_name_is_explained_by_a_syntax_error() -> None:
    cells = [Cell("code", "def f(:\n    pass", nbgrader={"grade_id": "f-code"}), Cell("code", "x = 1")]
    submission = Submission(lambda: LiveRunner({}), read_program(cells))
    with pytest.raises(LearnerMissing, match=r"`f`; f does not parse \(line 1: "):
        submission.f()


def test_a_missing_name_is_explained_by_what_failed_before_it(learner: Learner) -> None:
    with pytest.raises(LearnerMissing, match=r"`f`; cell 1, line 1: import not_there: ModuleNotFoundError"):
        learner("import not_there\nf = not_there.f").f()


def test_a_name_that_a_star_import_might_have_brought(learner: Learner) -> None:
    with pytest.raises(LearnerMissing, match="`f`"):
        learner("from math import *").f()


def test_a_live_kernel_is_asked_as_it_is() -> None:
    submission = Submission(lambda: LiveRunner({"f": lambda: 1}), None)
    assert submission.f() == 1
    with pytest.raises(LearnerMissing, match=r"^the notebook does not define `g`$"):
        submission.g()


# --- loading ----------------------------------------------------------------------------------------------------------


def test_nothing_runs_before_it_is_needed_and_nothing_runs_twice(learner: Learner) -> None:
    source = "log = []\nclass A:\n    log.append('A')\nclass B:\n    log.append('B')\n"
    source += "def f():\n    return A and list(log)\ndef g():\n    return B and A and list(log)"
    submission = learner(source)
    assert submission.f() == ["A"]
    assert submission.g() == ["A", "B"]
    assert submission.f() == ["A", "B"]


def test_closing_starts_afresh() -> None:
    opened: list[Runner] = []

    def open_runner() -> Runner:
        opened.append(LiveRunner({}))
        return opened[-1]

    cells = [Cell("code", "calls = []\ndef f():\n    calls.append(1)\n    return len(calls)")]
    submission = Submission(open_runner, read_program(cells))
    assert opened == []
    assert [submission.f(), submission.f()] == [1, 2]
    submission.close()
    assert submission.f() == 1
    assert len(opened) == 2


# --- probes -----------------------------------------------------------------------------------------------------------


def _twice(learner, x):
    return [learner.f(x), learner.g(learner.f(x))]


def test_a_probe_runs_beside_the_code_and_finds_functions_as_attributes(learner: Learner) -> None:
    submission = learner("def f(x):\n    return x + 1\ndef g(x):\n    return 10 * x\nunused = 1 / 0")
    assert submission.run(_twice, 1) == [2, 20]


def test_a_probe_may_be_local_but_cannot_see_around_itself(learner: Learner) -> None:
    secret = 41

    def probe(learner):
        return learner.f() + secret

    with pytest.raises(LearnerException, match="NameError: name 'secret'"):
        learner("def f():\n    return 1").run(probe)


def test_a_lambda_is_no_probe(learner: Learner) -> None:
    with pytest.raises(ChapterError, match="plain function"):
        learner("f = 1").run(lambda learner: learner.f)


def test_a_probe_without_source_is_the_authors_mistake(learner: Learner) -> None:
    namespace: dict[str, object] = {}
    exec("def probe(learner): return 1", namespace)
    with pytest.raises(ChapterError, match="cannot be read"):
        learner("f = 1").run(namespace["probe"])  # type: ignore[arg-type]


def _after(function, args):
    function(*args)
    return args


def test_a_function_can_be_probed_alone(learner: Learner) -> None:
    (after,) = learner("def f(x):\n    x += 1").f.probe(_after, (torch.zeros(2),))
    assert after.tolist() == [1, 1]


def _total(function, *args):
    return sum(function(*args))


def test_staged_calls(learner: Learner) -> None:
    function = learner("def f(n):\n    return list(range(n))").f
    function.stage([((2,), {}), ((3,), {})])
    results, seconds = function.go()
    assert results == [[0, 1], [0, 1, 2]] and seconds > 0
    function.stage([((4,), {})], via=_total)
    assert function.go()[0] == [6]


def test_two_runners_do_not_share_a_namespace(learner: Learner) -> None:
    first, second = learner("def f():\n    return 1"), learner("def f():\n    return 2")
    assert (first.f(), second.f(), first.f()) == (1, 2, 1)


def test_a_reply_that_cannot_be_sent_becomes_an_error() -> None:
    """What it printed is kept."""
    reply = decode(bytearray(encode_reply({"value": threading.Lock(), "output": "printed"})))
    assert reply["error"]["kind"] == "WireError" and reply["output"] == "printed"
