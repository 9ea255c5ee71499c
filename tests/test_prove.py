"""The tests of the chapters are tested: the proof holds, and the published kill matrix is what it yields."""

from __future__ import annotations

from pathlib import Path

import pytest

from autograder.chapter import find_chapters
from autograder.prove import (
    MATRIX,
    Candidate,
    _judge,
    _tasks_that_differ,
    _untouched_tests,
    candidates,
    differences,
    drawn,
    prove_all,
    section_of,
)
from autograder.report import Outcome, Report, TaskReport, TestResult

ROOT = Path(__file__).resolve().parents[1]
CHAPTERS = find_chapters(ROOT)
SHARE = 60
_KINDS = ("solution", "starter", "mutant", "wheat", "decoy", "chaff")


@pytest.mark.slow
@pytest.mark.parametrize("name", CHAPTERS)
def test_a_chapter_is_proved_and_its_matrix_is_current(name: str) -> None:
    """Right candidates pass, wrong ones fail where declared, and docs/kill_matrix.md is what comes of it.

    Of mutants and variants a part, the same until the chapter's tests change: `make prove` takes all, and its time.
    """
    text, problems = prove_all(ROOT, [name], jobs=1, share=SHARE)  # other tests run beside it
    assert not problems, "\n".join(problems)
    published = section_of((ROOT / MATRIX).read_text(encoding="utf-8"), name)
    found = differences(section_of(text, name), published)
    assert published and not found, "run make prove:\n" + "\n".join(found)


@pytest.mark.parametrize("name", CHAPTERS)
def test_a_share_of_the_candidates_is_drawn(name: str) -> None:
    """The same ones each time: solution and starter always, some of the mutants, a few of the variants."""
    chapter = CHAPTERS[name]
    every, some = list(candidates(chapter)), drawn(chapter, SHARE)
    assert some == drawn(chapter, SHARE) and drawn(chapter, 1) == every
    number = {kind: [sum(c.kind == kind for c in these) for these in (some, every)] for kind in _KINDS}
    assert number["solution"] == number["starter"] == [1, 1]
    assert 0 < number["mutant"][0] < number["mutant"][1]
    variants, all_variants = (sum(number[kind][i] for kind in ("wheat", "decoy", "chaff")) for i in (0, 1))
    assert 0 < variants < 4 * all_variants / SHARE


@pytest.mark.parametrize("name", CHAPTERS)
def test_the_matrix_has_every_candidate_and_no_others(name: str) -> None:
    """Also those that a proof of a part leaves out."""
    section = section_of((ROOT / MATRIX).read_text(encoding="utf-8"), name)
    kinds = tuple(f"| {kind} " for kind in _KINDS[2:])
    listed = [line.split("|")[1].strip() for line in section.splitlines() if line.startswith(kinds)]
    assert sorted(listed) == sorted(c.name for c in candidates(CHAPTERS[name]) if c.kind in _KINDS[2:])


def test_the_matrix_has_the_chapters_and_no_others() -> None:
    """In the course's order."""
    text = (ROOT / MATRIX).read_text(encoding="utf-8")
    assert [line[3:] for line in text.splitlines() if line.startswith("## ")] == list(CHAPTERS)


@pytest.mark.parametrize("name", CHAPTERS)
def test_each_task_has_its_wheats_chaffs_and_the_chapter_a_decoy(name: str) -> None:
    """At least three other right solutions and four wrong ones for each task, and something that only looks wrong."""
    found = list(candidates(CHAPTERS[name]))
    for task in CHAPTERS[name].tasks:
        kinds = [candidate.kind for candidate in found if candidate.task == task.name]
        assert kinds.count("wheat") >= 3, task.name
        assert kinds.count("chaff") >= 4, task.name
        assert kinds.count("mutant") >= 1, task.name
    assert any(candidate.kind == "decoy" for candidate in found)
    names = [(candidate.task, candidate.name) for candidate in found]
    assert len(names) == len(set(names))


def _report(*outcomes: tuple[str, Outcome]) -> Report:
    tests = tuple(TestResult(f"file::{name}", outcome, "a message", pitfalls=("V1",)) for name, outcome in outcomes)
    return Report("chapter", (TaskReport("task", 0.0, 1.0, tests), TaskReport("other", 1.0, 1.0)))


def test_the_judge_of_chaffs_sees_what_does_not_hold() -> None:
    """A chaff that fails other tests than declared, without its message or its misconception, is a problem each."""
    facts = {"misconception": "that", "fails": "test_a", "says": "message"}
    failed = _report(("test_a", Outcome.FAILED), ("test_b", Outcome.PASSED))
    assert _judge(Candidate("chaff", "chaff x", "task", (), facts), failed) == []
    assert _judge(Candidate("chaff", "chaff x", "task", (), {**facts, "fails": "test_b"}), failed)
    assert _judge(Candidate("chaff", "chaff x", "task", (), {**facts, "says": "nothing of this"}), failed)
    assert _judge(Candidate("chaff", "chaff x", "task", (), {"fails": "test_a", "says": "message"}), failed)
    assert _judge(Candidate("chaff", "chaff x", "other", (), facts), failed), "it fails at another task"
    assert _judge(Candidate("mutant", "mutant V1", "task", (), {"pitfall": "V1"}), failed) == []
    assert _judge(Candidate("mutant", "mutant V2", "task", (), {"pitfall": "V2"}), failed)
    assert _judge(Candidate("wheat", "wheat x", "task", ()), failed)
    assert _judge(Candidate("solution", "solution", "", ()), _report(("test_a", Outcome.ERROR)))
    assert _judge(Candidate("starter", "starter", "", ()), failed), "it earns points in the other task"


def test_a_chaff_is_judged_by_what_this_machine_can_show() -> None:
    """A test that was skipped may be among the declared ones; what else fails, or does not, is seen all the same."""
    facts = {"misconception": "that", "fails": "test_a, test_timed", "says": "what only the timed test says"}
    chaff = Candidate("chaff", "chaff x", "task", (), facts)
    skipped = ("test_timed", Outcome.SKIPPED)
    assert _judge(chaff, _report(("test_a", Outcome.FAILED), skipped)) == []
    assert _judge(chaff, _report(("test_a", Outcome.PASSED), skipped)), "it passes what is declared"
    assert _judge(chaff, _report(("test_a", Outcome.FAILED), ("test_b", Outcome.FAILED), skipped)), "it fails more"
    assert _judge(chaff, _report(("test_a", Outcome.FAILED), ("test_timed", Outcome.PASSED))), "it is fast"
    assert _judge(chaff, _report(("test_a", Outcome.FAILED), ("test_timed", Outcome.FAILED))), "the message is another"
    only_slow = Candidate("chaff", "chaff y", "task", (), {**facts, "fails": "test_timed"})
    assert _judge(only_slow, _report(("test_a", Outcome.PASSED), skipped)) == []
    # one of several parameters that could not be measured does not excuse the others
    half = _report(("test_a", Outcome.FAILED), ("test_timed[x]", Outcome.SKIPPED), ("test_timed[y]", Outcome.FAILED))
    assert _judge(Candidate("chaff", "chaff z", "task", (), {**facts, "says": "message"}), half) == []
    # a skipped test of which the chaff says nothing is no excuse for its message
    other = {"misconception": "that", "fails": "test_a", "says": "nothing of this"}
    assert _judge(Candidate("chaff", "chaff w", "task", (), other), _report(("test_a", Outcome.FAILED), skipped))


def _proof(solution: Outcome, chaff: Outcome) -> list[str]:
    """What is said about a timed test with these outcomes, beside one that is fine."""
    reports = [
        (Candidate("solution", "solution", "", ()), _report(("test_a", Outcome.PASSED), ("test_timed", solution))),
        (Candidate("chaff", "chaff x", "task", ()), _report(("test_a", Outcome.FAILED), ("test_timed", chaff))),
    ]
    return _untouched_tests(CHAPTERS["ch01_tensor_views"], reports)


def test_a_test_must_be_failed_by_something_where_it_can_be_shown() -> None:
    """Nothing fails a timed test: a problem where the solution has passed it, none where that was skipped."""
    assert _proof(Outcome.PASSED, Outcome.FAILED) == []
    assert _proof(Outcome.PASSED, Outcome.PASSED) == ["ch01_tensor_views: nothing makes file::test_timed fail"]
    assert _proof(Outcome.PASSED, Outcome.SKIPPED) == ["ch01_tensor_views: nothing makes file::test_timed fail"]
    assert _proof(Outcome.SKIPPED, Outcome.SKIPPED) == []


def test_what_could_not_be_measured_is_no_difference_between_matrices() -> None:
    """In any column, the last one too; other signs, other candidates and other tests are differences."""
    published = (
        "## ch\n1. `test_a`\n\n| candidate | 1 | 2 |\n| --- | --- | --- |\n| solution | · | · |\n| chaff | x | x |"
    )
    assert differences(published, published) == []
    for cell in ("| · | · |", "| x | x |"):
        for unmeasured in (cell[:-3] + "? |", "| ?" + cell[3:]):
            assert differences(published.replace(cell, unmeasured), published) == []
            assert differences(published, published.replace(cell, unmeasured)) == []
    assert len(differences(published.replace("| x | x |", "| x | · |"), published)) == 1
    assert differences(published.replace("chaff", "chaff y"), published)
    assert differences(published.replace("`test_a`", "`test_b`"), published)
    assert differences(published.replace("`test_a`", "`test_a` (guard)"), published) == []  # the starter's line says it
    assert differences(published + "\n| chaff z | x | x |", published)
    assert differences(published, published + "\n| chaff z | x | x |") == []
    assert differences(published, published + "\n| wheat z | · | · |") == []
    assert differences(published, published + "\n| mutant V1 | · | x |") == []
    assert differences(published, published + "\n| starter | · | x |")
    assert differences(published, published + "\n### other\n| chaff | x | x |")
    assert differences(published.replace("| x | x |", "| x |"), published)


def test_a_candidate_matters_to_tasks_whose_tests_run_other_code_of_it() -> None:
    """By names that it binds beyond the solution's cell."""
    chapter = CHAPTERS["ch01_tensor_views"]
    cell = chapter.task("take_clip").solution_cell
    plain = "def take_clip(video, start, length, mean, std):\n    return video"
    others = [task.name for task in chapter.tasks if task.name != "take_clip"]
    for source, expected in (
        (plain, []),
        (f"def _shorter(video):\n    return video\n\n\n{plain}", []),
        (f"{plain}\n\n\ndef to_patches(frames, size):\n    return frames", ["to_patches"]),
        (f"from torch import *\n\n\n{plain}", others),
        (f"MEAN = 0\n\n\n{plain}", []),  # no other task's code reads it
        (f"torch = None\n\n\n{plain}", ["title_clip", "write_timecode", "check_frame_loss"]),
    ):
        candidate = Candidate("chaff", "chaff x", "take_clip", chapter.with_solutions({cell: source}))
        assert _tasks_that_differ(candidate, chapter) == expected
