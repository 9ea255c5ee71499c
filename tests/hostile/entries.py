"""A class of submissions: every kind of the catalogue and beyond as what one student hands in, and some honest ones."""

from __future__ import annotations

import copy
import json
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

from autograder.chapter import Chapter
from autograder.notebook import Cell
from autograder.prove import candidates
from autograder.session import load_module

HERE = Path(__file__).parent
_KINDS = ("cheats", "crashes", "fair", "files", "places", "further", "ranks")
draw = load_module(HERE.parent / "draw.py")
cheats, crashes, fair, files, places, further, ranks = (load_module(HERE / f"{name}.py") for name in _KINDS)
_CHAPTER, _RANKS_CHAPTER = "ch01_tensor_views", "ch07_ddp"
_NOWHERE = {"device", "endless_name"}
"""Kinds of file that no folder can hold."""
_OTHERWISE = {
    # what lies in a folder of its own is looked for elsewhere, and found or not
    "missing": ("refused", "No notebook was handed in"),
    "other_suffix": ("refused", "No notebook was handed in"),
    "below_a_file": ("graded", ""),
    "inside_a_forged_course": ("refused", "there are several notebooks in its place"),
}
_ALSO_LOST = {
    # changes torch for all of the notebook, and the learner's own test with it
    "patched-comparisons": {"check_frame_loss": False},
}
Notebook = dict[str, Any]


@dataclass(frozen=True)
class Entry:
    """What one student hands in, and what has to come of it.

    ``write`` gets the folder of all submissions. ``lost`` names tasks: True where they have no points, False where they
    may have some but not all; the others have all. ``becomes`` is graded, refused, or reported (no grade, and a line).
    """

    name: str
    student: str
    group: str
    write: Callable[[Path], Any]
    chapter: str = _CHAPTER
    lost: dict[str, bool] = field(default_factory=dict)
    becomes: str = "graded"
    says: str = ""
    failing: tuple[str, ...] = ()
    """Tests that must fail."""
    secret: str = ""
    """What no message may tell: none of a hidden test, or none at all where it is a control character."""

    @property
    def costs(self) -> bool:
        """Whether code has to be run for it that nobody else has handed in."""
        return self.becomes == "graded" and self.group not in ("honest", "names")


def _saved(student: str, chapter: str, notebook: Notebook) -> Callable[[Path], Any]:
    name = f"{chapter}.ipynb"
    return lambda folder: files.save(folder / student / chapter, notebook, name)


class Class:
    """All entries there are; *as_notebook* makes a file's content of cells."""

    def __init__(self, chapters: dict[str, Chapter], as_notebook: Callable[[Any], Notebook]) -> None:
        self._chapter = chapters[_CHAPTER]
        self._ranks_chapter = chapters[_RANKS_CHAPTER]
        self._as_notebook = as_notebook
        self._right = as_notebook(self._chapter.solution)
        self._starter = {c.grade_id: c.source for c in self._chapter.starter if c.is_solution}

    def honest(self) -> Iterator[Entry]:
        """Solution, starter, half of it done, and answers that are right in other ways, in two chapters."""
        right = {c.grade_id: c.source for c in self._chapter.solution if c.is_solution}
        half = [task.solution_cell for task in self._chapter.tasks[:4]]
        undone = {task.name: True for task in self._chapter.tasks}
        yield self._entry("solution", "honest", self._chapter.solution)
        yield self._entry("starter", "honest", self._chapter.starter, lost=undone)
        yield self._entry(
            "half-done",
            "honest",
            self._chapter.with_solutions({**self._starter, **{cell: right[cell] for cell in half}}),
            lost=dict(islice(undone.items(), 4, None)),
        )
        wheats = [c for c in candidates(self._chapter) if c.kind == "wheat"]
        for number in (0, len(wheats) // 2):
            yield self._entry(f"wheat-{number}", "honest", wheats[number].cells)
        yield self._entry("stumbles", "honest", self._stumbling(), lost={"frame_loss": True})

    def hostile(self) -> Iterator[Entry]:
        """Everything else."""
        yield from map(self._of_cheat, [*cheats.CHEATS, *further.CHEATS])
        yield from map(self._of_crash, [*crashes.CRASHES, *further.CRASHES, *further.HANGS])
        for name, source in crashes.LEFT_BEHIND:
            yield self._entry(f"left-behind-{name}", "crashes", self._with("to_patches", source))
        for kind in [*fair.FAIR, *further.FAIR]:
            yield self._entry(f"fair-{kind.name}", "fair", fair.cells_of(self._chapter, kind))
        yield from map(self._of_file, (k for k in files.KINDS.values() if k.name not in _NOWHERE))
        yield from map(self._of_place, places.PLACES)
        # the same code as an honest student's, with words between, and graded before: messages name cells by number
        copied = [c for cell in self._stumbling() for c in (Cell("markdown", "words"), cell)]
        yield self._entry("copied-with-words-between", "places", copied, lost={"frame_loss": True})
        for bad in (*ranks.HANGS, *ranks.DEADLOCKS, *ranks.DEATHS):
            cell = self._ranks_chapter.task(ranks.TASK).solution_cell
            cells = self._ranks_chapter.with_solutions({cell: ranks.source_of(bad)})
            yield self._entry(f"rank-{bad.name}", "ranks", cells, _RANKS_CHAPTER, lost={ranks.TASK: True})

    def _with(self, task: str, source: str) -> Sequence[Cell]:
        return self._chapter.with_solutions({self._chapter.task(task).solution_cell: source})

    def _stumbling(self) -> list[Cell]:
        """The solution, but for an exception in a cell of the learner's own."""
        helper = Cell("code", "def mean_error(prediction, target):\n    return prediction.no_such_thing")
        source = "def frame_loss(prediction, target):\n    return mean_error(prediction, target)\n"
        return [helper, *self._with("frame_loss", source)]

    def _entry(self, name: str, group: str, cells: Iterable[Cell], chapter: str = _CHAPTER, **more: Any) -> Entry:
        return Entry(name, name, group, _saved(name, chapter, self._as_notebook(cells)), chapter, **more)

    def _of_cheat(self, cheat: Any) -> Entry:
        return self._entry(
            f"cheat-{cheat.name}",
            "cheats",
            self._with(cheat.task, cheat.code),
            lost={cheat.task: not cheat.failing} | _ALSO_LOST.get(cheat.name, {}),
            failing=cheat.failing,
            secret=cheat.secret,
        )

    def _of_crash(self, crash: Any) -> Entry:
        says = crash.says.replace("2 s", "20 s").replace("0.4 GB", "2 GB")  # the command's own limits are larger
        cells = self._with("to_patches", crash.source)
        return self._entry(f"crash-{crash.name}", "crashes", cells, lost={"to_patches": True}, says=says)

    def _of_file(self, kind: Any) -> Entry:
        lost = {files.POINTS: {}, 2.0: {"frame_loss": True}, 0.0: {t.name: True for t in self._chapter.tasks}}
        becomes, says = ("refused" if kind.score is None else "graded"), kind.says
        becomes, says = _OTHERWISE.get(kind.name, (becomes, says))

        def write(folder: Path) -> Any:
            home = folder / f"file-{kind.name}" / _CHAPTER
            home.mkdir(parents=True)
            kind.write(home, {**copy.deepcopy(self._right), "starter": self._starter})

        of_kind = lost[kind.score if kind.score is not None else files.POINTS]
        student = f"file-{kind.name}"
        return Entry(student, student, "files", write, lost=of_kind, becomes=becomes, says=says)

    def _of_place(self, place: Any) -> Entry:
        notebook = {**copy.deepcopy(self._right), "starter": self._starter["frame_loss-code"]}
        group = "names" if place.name.startswith("a-student-called-") else "places"
        write = lambda folder: place.write(folder, notebook)  # noqa: E731
        return Entry(place.name, place.student, group, write, becomes=place.becomes, says=place.says)


def drawn(entries: Sequence[Entry], share: int) -> list[Entry]:
    """One in *share* of the entries that take time, and all others: the same ones until the kinds change."""
    seed = zlib.crc32(b"".join((HERE / f"{name}.py").read_bytes() for name in _KINDS))
    costly = draw.drawn([entry for entry in entries if entry.costs], share, seed)
    return [entry for entry in entries if not entry.costs or entry in costly]


def problems(entry: Entry, path: Path, said: str) -> Iterator[str]:
    """What is wrong with the report at *path* of an entry; *said* is what the command printed."""
    if entry.becomes == "reported":
        if entry.says not in said:
            yield f"nothing was said of {entry.says!r}"
        return
    if not path.is_file():
        yield "there is no report"
        return
    report = json.loads(path.read_text(encoding="utf-8"))
    tests = [test for task in report["tasks"] for test in task["tests"]]
    texts = [*report["notes"], *(test["message"] for test in tests)]
    if entry.says and not any(entry.says in text for text in texts):
        yield f"nothing was said of {entry.says!r}: {[text[:100] for text in texts if text][:5]}"
    if entry.becomes == "refused":
        if report["score"] or tests:
            yield f"it was not refused: {report['score']} points"
        return
    if not tests:
        yield f"it was not graded: {report['notes']}"
    yield from (f"a fault of ours: {test['name']}: {test['message']}" for test in tests if test["outcome"] == "error")
    for task in report["tasks"]:
        got = "all" if task["score"] == task["max_score"] else "some" if task["score"] else "no"
        wanted = {None: ["all"], True: ["no"], False: ["no", "some"]}[entry.lost.get(task["task"])]
        if got not in wanted:
            bad = [
                f"{t['name'].partition('::')[2]}: {t['message'][:150]}"
                for t in task["tests"]
                if t["outcome"] != "passed"
            ]
            yield f"{task['task']} has {got} points instead of {' or '.join(wanted)}: {bad[:4]}"
    passed = {test["name"].partition("::")[2] for test in tests if test["outcome"] == "passed"}
    yield from (f"{name} passed" for name in entry.failing if name in passed)
    for test in tests:
        if entry.secret and entry.secret in test["message"] and (test["hidden"] or not entry.secret.isprintable()):
            yield f"{test['name']} tells {entry.secret!r}"
        if len(test["message"]) > 4_000:
            yield f"the message of {test['name']} has {len(test['message'])} characters"
