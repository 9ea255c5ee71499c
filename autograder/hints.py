"""A task's hints in a terminal: ``autograder hint``. One at a time, as in the notebook, where they are folded away."""

from __future__ import annotations

import itertools
import re
import shutil
import textwrap
from html import unescape

from autograder.chapter import Chapter, Task
from autograder.progress import Diary
from autograder.sections import Hint

_WIDEST = 100
_CODE_SPAN = re.compile(r"`+[^`]*`+")
_IMAGE_OR_LINK = re.compile(r"!?\[([^\]]*)\]\(([^)\s]+)[^)]*\)")
_STRONG = re.compile(r"\*\*(?=\S)(.+?)(?<=\S)\*\*", re.DOTALL)
_EMPHASIS = re.compile(r"\*(?=\S)([^*]+)(?<=\S)\*")
_TAG = re.compile(r"</?[a-zA-Z][^>]*>")
_NOT_PROSE = re.compile(r"^(?: {4}|\t|```|\s*(?:[-+*]|\d+\.|>|\|)\s)", re.MULTILINE)


def next_hint(chapter: Chapter, task: Task, diary: Diary, *, again: bool = False) -> str:
    """The task's next hint as text, noted as opened; *again* begins with the first."""
    section = chapter.section(task.name)
    if not section.hints:
        return f"`{task.name}` has no hints."
    opened = 0 if again else diary.hints_opened(chapter.name, task.name)
    if opened >= len(section.hints):
        return (
            f"You have opened {_all_of(len(section.hints))} of `{task.name}`.\n"
            f"`autograder hint {task.name} --all` shows what you have opened, `--again` begins anew."
        )
    diary.note_hints(chapter.name, task.name, opened + 1)
    lines = [f"{section.heading}\n"] if opened == 0 else []
    lines.append(_as_text(section.hints[opened]))
    left = len(section.hints) - opened - 1
    more = f"`autograder hint {task.name}` opens the next one." if left else "It was the last one."
    lines.append(f"This was hint {opened + 1} of {len(section.hints)}. {more}")
    return "\n".join(lines)


def opened_hints(chapter: Chapter, task: Task, diary: Diary) -> str:
    """All hints of the task that have been opened so far, as text."""
    section = chapter.section(task.name)
    opened = section.hints[: diary.hints_opened(chapter.name, task.name)]
    if not opened:
        return f"No hint of `{task.name}` has been opened here yet. `autograder hint {task.name}` opens the first one."
    lines = [f"{section.heading}\n", *map(_as_text, opened)]
    lines.append(f"These were {len(opened)} of {len(section.hints)} hints.")
    return "\n".join(lines)


def plain_text(markdown: str, width: int = _WIDEST) -> str:
    """*markdown* without its marks, paragraphs wrapped at *width* columns; code keeps its backticks and its lines.

    An emphasised name, such as that of a lesson's section, is put in quotation marks, where it was set apart before.
    """
    blocks = re.split(r"\n\s*\n", markdown.strip("\n"))
    return "\n\n".join(_block(block, width) for block in blocks)


def _block(block: str, width: int) -> str:
    if _NOT_PROSE.search(block):
        code = re.search(r"^(?: {4}|\t|```)", block, re.MULTILINE)
        return block if code else _without_marks(block)
    return textwrap.fill(_without_marks(block), width, break_long_words=False, break_on_hyphens=False)


def _without_marks(text: str) -> str:
    code = _CODE_SPAN.findall(text)
    text = _CODE_SPAN.sub("\0", text)  # put aside: a * or a < in it is no mark
    text = _IMAGE_OR_LINK.sub(r"\1 (\2)", text)
    text = _STRONG.sub(r"\1", text)
    text = _EMPHASIS.sub(lambda found: f"“{found[1]}”" if found[1][0].isupper() else found[1], text)
    text = unescape(_TAG.sub("", text))
    return "".join(itertools.chain.from_iterable(itertools.zip_longest(text.split("\0"), code, fillvalue="")))


def _as_text(hint: Hint) -> str:
    width = min(shutil.get_terminal_size().columns, _WIDEST)
    body = textwrap.indent(plain_text(hint.text, width - 2), "  ")
    return f"{_without_marks(hint.title)}\n\n{body}\n"


def _all_of(number: int) -> str:
    return "the only hint" if number == 1 else f"all {number} hints"
