"""A learner's diary: the last check of each task, in files that anything may happen to."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from autograder.chapter import Chapter
from autograder.progress import FOLDER, Diary
from autograder.report import Outcome, TaskReport, TestResult

NAME = "ch01_tensor_views"


def test_nothing_is_done_before_the_first_check(chapter: Chapter, tmp_path: Path) -> None:
    standing = Diary(tmp_path).standing(chapter)
    assert [task.task for task in standing.tasks] == [task.name for task in chapter.tasks]
    assert (standing.done, standing.score, standing.checked, standing.complete) == (0, 0, None, False)
    assert standing.max_score == sum(task.points for task in chapter.tasks)


def test_the_last_check_counts(chapter: Chapter, tmp_path: Path) -> None:
    first, second = chapter.tasks[:2]
    diary = Diary(tmp_path)
    diary.note(chapter, [TaskReport(first.name, first.points, first.points)])
    diary.note(chapter, [TaskReport(second.name, second.points, second.points)])
    diary.note(chapter, [TaskReport(second.name, second.points / 4, second.points)])
    standing = Diary(tmp_path).standing(chapter)
    assert [task.done for task in standing.tasks[:3]] == [True, False, False]
    assert standing.score == first.points + second.points / 4
    assert standing.checked is not None


def test_all_tasks_done_is_complete(chapter: Chapter, tmp_path: Path) -> None:
    Diary(tmp_path).note(chapter, [TaskReport(task.name, task.points, task.points) for task in chapter.tasks])
    assert Diary(tmp_path).standing(chapter).complete


@pytest.mark.parametrize(
    "text", ["", "[1]", "{", '{"score": 2}', json.dumps({"score": "x", "max_score": 0, "checked": "now"}), "\0"]
)
def test_a_damaged_file_counts_as_no_check(chapter: Chapter, tmp_path: Path, text: str) -> None:
    task = chapter.tasks[0]
    diary = Diary(tmp_path)
    diary.note(chapter, [TaskReport(task.name, task.points, task.points)])
    (tmp_path / FOLDER / NAME / f"{task.name}.json").write_text(text)
    assert diary.standing(chapter).done == 0


def test_a_folder_that_cannot_be_written_stops_nothing(chapter: Chapter, tmp_path: Path) -> None:
    (tmp_path / FOLDER).write_text("a file in the place of the folder")
    task = chapter.tasks[0]
    Diary(tmp_path).note(chapter, [TaskReport(task.name, task.points, task.points)])
    assert Diary(tmp_path).standing(chapter).done == 0
    assert Diary(tmp_path).state() == ()


def test_the_state_changes_with_each_note(chapter: Chapter, tmp_path: Path) -> None:
    diary = Diary(tmp_path)
    before = diary.state()
    diary.note(chapter, [TaskReport(chapter.tasks[0].name, 0, chapter.tasks[0].points)])
    assert diary.state() != before


def test_hints_are_counted(tmp_path: Path) -> None:
    diary = Diary(tmp_path)
    assert diary.hints_opened(NAME, "to_patches") == 0
    diary.note_hints(NAME, "to_patches", 2)
    assert Diary(tmp_path).hints_opened(NAME, "to_patches") == 2
    (tmp_path / FOLDER / NAME / "to_patches.hints.json").write_text('{"opened": "many"}')
    assert Diary(tmp_path).hints_opened(NAME, "to_patches") == 0


def test_a_fault_of_ours_leaves_what_was_noted_before(chapter: Chapter, tmp_path: Path) -> None:
    task = chapter.tasks[0]
    diary = Diary(tmp_path)
    diary.note(chapter, [TaskReport(task.name, task.points, task.points)])
    diary.note(chapter, [TaskReport(task.name, 0, task.points, (TestResult("t", Outcome.ERROR),))])
    assert diary.standing(chapter).done == 1


def test_a_task_can_be_forgotten(chapter: Chapter, tmp_path: Path) -> None:
    first, second = chapter.tasks[:2]
    diary = Diary(tmp_path)
    diary.forget(NAME, first.name)  # nothing is there: nothing to do
    diary.note(chapter, [TaskReport(task.name, task.points, task.points) for task in (first, second)])
    diary.forget(NAME, first.name)
    assert [task.done for task in diary.standing(chapter).tasks[:2]] == [False, True]
    assert diary.standing(chapter).tasks[0].checked is None
