"""Whose work is where: nbgrader's trees, single notebooks, and what lies about besides."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from autograder.chapter import Chapter, find_chapters
from autograder.errors import SubmissionRefused
from autograder.handed_in import find_handed_in, locate, open_submission

NAME = "ch07_small"


@pytest.fixture
def chapters(small_course: Path) -> dict[str, Chapter]:
    return find_chapters(small_course)


@pytest.fixture
def hand_in(small_course: Path, small_answers: Callable[..., Any], notebook_file: Any) -> Callable[..., Path]:
    """``hand_in("ann/ch07_small/ch07_small.ipynb")``: a solved notebook at that place under ``submitted``."""

    def write(place: str) -> Path:
        path = small_course / "submitted" / place
        path.parent.mkdir(parents=True, exist_ok=True)
        return notebook_file(path, small_answers("2 * x", "x / 2"))

    return write


def found(top: Path, chapters: dict[str, Chapter], *paths: str, only: str | None = None) -> tuple[list[Any], list[str]]:
    handed_in, strays = find_handed_in([top / path for path in paths or ("submitted",)], chapters, only)
    return [(h.student, h.chapter, str(h.path.relative_to(top))) for h in handed_in], [s.reason for s in strays]


def test_a_tree_of_students(small_course, chapters, hand_in):
    for student in ("zoe", "ann"):
        hand_in(f"{student}/{NAME}/{NAME}.ipynb")
    (small_course / "submitted" / "notes.txt").write_text("no student")
    handed_in, strays = found(small_course, chapters)
    assert [student for student, _, _ in handed_in] == ["ann", "zoe"]
    assert handed_in[0] == ("ann", NAME, f"submitted/ann/{NAME}/{NAME}.ipynb")
    assert strays == []


@pytest.mark.parametrize("path", ["submitted/ann", f"submitted/ann/{NAME}", f"submitted/ann/{NAME}/{NAME}.ipynb"])
def test_any_level_of_the_tree_may_be_named(small_course, chapters, hand_in, path):
    hand_in(f"ann/{NAME}/{NAME}.ipynb")
    hand_in(f"bob/{NAME}/{NAME}.ipynb")
    assert found(small_course, chapters, path)[0] == [("ann", NAME, f"submitted/ann/{NAME}/{NAME}.ipynb")]


def test_a_notebook_in_the_wrong_folder_is_given_to_its_chapter(small_course, chapters, hand_in):
    hand_in(f"ann/week 3/{NAME} (1).ipynb")
    assert found(small_course, chapters)[0] == [("ann", NAME, f"submitted/ann/week 3/{NAME} (1).ipynb")]


def test_of_two_the_one_in_its_place_is_graded_and_the_other_named(small_course, chapters, hand_in):
    hand_in(f"ann/{NAME}/{NAME}.ipynb")
    hand_in(f"ann/{NAME}-copy/{NAME}.ipynb")
    handed_in, strays = found(small_course, chapters)
    assert [path for _, _, path in handed_in] == [f"submitted/ann/{NAME}/{NAME}.ipynb"]
    assert len(strays) == 1 and "twice" in strays[0]


def test_the_same_path_given_twice_is_one_submission(small_course, chapters, hand_in):
    hand_in(f"ann/{NAME}/{NAME}.ipynb")
    handed_in, strays = found(small_course, chapters, "submitted", "submitted/ann")
    assert len(handed_in) == 1 and strays == []


def test_empty_folders_are_named(small_course, chapters):
    (small_course / "submitted" / "ann").mkdir(parents=True)
    assert found(small_course, chapters) == ([], ["Nothing was handed in: there is no notebook in this folder."])
    (small_course / "nobody").mkdir()
    _, (reason,) = found(small_course, chapters, "nobody")
    assert "<student>/<chapter>" in reason


def test_a_student_named_like_a_chapter_hides_nobody(small_course, chapters, hand_in):
    for student in ("ann", NAME, ".hidden"):
        hand_in(f"{student}/{NAME}/{NAME}.ipynb")
    handed_in, strays = found(small_course, chapters)
    assert [student for student, _, _ in handed_in] == [".hidden", "ann", NAME]
    assert strays == []


def test_what_is_damaged_is_graded_all_the_same_where_its_name_tells_the_chapter(small_course, chapters, hand_in):
    hand_in(f"ann/{NAME}.ipynb").write_text("{")
    handed_in, strays = found(small_course, chapters)
    assert [(student, chapter) for student, chapter, _ in handed_in] == [("ann", NAME)]
    assert strays == []


def test_folders_without_end_are_not_walked_to_their_end(small_course, chapters, hand_in, monkeypatch):
    monkeypatch.chdir(hand_in(f"ann/{NAME}/draft.ipynb").parent)
    for _ in range(1_200):
        os.mkdir("d")
        os.chdir("d")
    assert locate(small_course / "submitted" / "ann" / NAME / f"{NAME}.ipynb").name == "draft.ipynb"
    monkeypatch.chdir(small_course)
    subprocess.run(["rm", "-rf", str(small_course / "submitted")], check=True)  # shutil would give up


def test_links_are_not_followed(small_course, chapters, hand_in):
    hand_in(f"ann/{NAME}/{NAME}.ipynb")
    (small_course / "submitted" / "bob").symlink_to("ann")
    (small_course / "submitted" / "eve").mkdir()
    (small_course / "submitted" / "eve" / NAME).symlink_to(f"../ann/{NAME}")
    handed_in, strays = found(small_course, chapters)
    assert [student for student, _, _ in handed_in] == ["ann", "eve"]
    assert len(strays) == 1 and "symbolic link" in strays[0]
    with pytest.raises(SubmissionRefused, match="symbolic link"):
        locate(small_course / handed_in[1][2])


def test_other_chapters_can_be_left_out(small_course, chapters, hand_in):
    hand_in(f"ann/{NAME}/{NAME}.ipynb")
    assert found(small_course, chapters, only="ch99_other")[0] == []


def test_a_renamed_notebook_is_found_in_its_folder_and_noted(small_course, chapters, hand_in):
    hand_in(f"ann/{NAME}/final/my work.ipynb")
    laid = open_submission(small_course / "submitted" / "ann" / NAME / f"{NAME}.ipynb", chapters[NAME])
    assert "handed in as final/my work.ipynb" in laid.notes[0]
    hand_in(f"ann/{NAME}/other.ipynb")
    with pytest.raises(SubmissionRefused, match="several notebooks"):
        open_submission(small_course / "submitted" / "ann" / NAME / f"{NAME}.ipynb", chapters[NAME])


@pytest.mark.parametrize("name", ["x" * 300 + ".ipynb", "missing.ipynb"])
def test_names_that_lead_nowhere(small_course, chapters, name):
    handed_in, strays = find_handed_in([small_course / name], chapters)
    assert handed_in == [] and len(strays) == 1
