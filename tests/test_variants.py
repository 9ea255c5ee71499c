"""Files of wheats and chaffs."""

from __future__ import annotations

from pathlib import Path

import pytest

from autograder.chapter import Chapter
from autograder.errors import ChapterError
from autograder.variants import Variant, read_variants

TEXT = """\
This line stands before the first section.

# %% first-one
# misconception: a view is a copy
# fails: test_a, test_b
# says: some text: with a colon

# a comment of the code's own
def f():
    # note: no fact any more
    return 1

# %% second
x = 1


"""


def test_sections_have_facts_and_a_source(tmp_path: Path) -> None:
    path = tmp_path / "my_task.py"
    path.write_text(TEXT)
    first, second = read_variants(path)
    facts = {"misconception": "a view is a copy", "fails": "test_a, test_b", "says": "some text: with a colon"}
    source = "# a comment of the code's own\ndef f():\n    # note: no fact any more\n    return 1"
    assert first == Variant("my_task", "first-one", source, facts)
    assert second == Variant("my_task", "second", "x = 1", {})


@pytest.mark.parametrize("body", ["", "\n\n", "# says: nothing follows\n"])
def test_an_empty_section_is_the_authors_mistake(tmp_path: Path, body: str) -> None:
    path = tmp_path / "t.py"
    path.write_text(f"# %% full\nx = 1\n# %% empty\n{body}")
    with pytest.raises(ChapterError, match="section 'empty' is empty"):
        read_variants(path)


def test_a_file_without_sections_has_no_variants(tmp_path: Path) -> None:
    path = tmp_path / "t.py"
    path.write_text("x = 1\n")
    assert read_variants(path) == []


def test_the_courses_own_variants_are_for_tasks_that_exist_and_have_distinct_names(chapter: Chapter) -> None:
    assert chapter.source is not None
    for folder in ("wheats", "chaffs", "decoys"):
        for path in sorted((chapter.source / "hidden" / folder).glob("*.py")):
            found = read_variants(path)
            assert found, path
            chapter.task(path.stem)
            assert len({variant.name for variant in found}) == len(found)
