"""How long ``check("task")`` takes in a notebook, for the tasks without timed tests.

    python benchmarks/check.py

Runs the released starter in a real kernel, then each check a few times, and prints the median by the kernel's clock.
Target: well under a second (0.5 s) for each. Exit status 1 where one is missed. The very first check of a chapter on a
machine also finds out which tests the untouched notebook passes; it is left out here.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import nbformat
from nbclient import NotebookClient

from autograder.chapter import Chapter, find_chapters, find_root

TARGET_S = 0.5
_TIMES = """
import json, statistics, time
found = {{}}
for task in {tasks!r}:
    check(task)
    times = []
    for _ in range(5):
        begin = time.perf_counter()
        check(task)._repr_html_()
        times.append(time.perf_counter() - begin)
    found[task] = statistics.median(times)
print(json.dumps(found))
"""


def _untimed(chapter: Chapter) -> list[str]:
    """The tasks none of whose visible tests is marked ``timed``."""
    blocks = [block for path in chapter.visible_tests for block in path.read_text(encoding="utf-8").split("\n\n\n")]
    timed = [block for block in blocks if "@pytest.mark.timed" in block]
    return [t.name for t in chapter.tasks if not any(f'task("{t.name}")' in block for block in timed)]


def main() -> int:
    """Measure, print, compare."""
    slowest = 0.0
    for chapter in find_chapters(find_root(Path.cwd())).values():
        notebook = nbformat.v4.new_notebook()
        cells = [cell for cell in chapter.starter if cell.kind == "code" and cell.grade_id and not cell.is_grade]
        notebook.cells = [nbformat.v4.new_code_cell(cell.source) for cell in cells]
        notebook.cells.append(nbformat.v4.new_code_cell(_TIMES.format(tasks=_untimed(chapter))))
        client = NotebookClient(notebook, resources={"metadata": {"path": str(chapter.folder)}}, timeout=300)
        ran = client.execute()
        found = json.loads(ran.cells[-1].outputs[0]["text"])
        for task, seconds in found.items():
            print(f"{chapter.name} {task:20} {seconds:.3f} s")
            slowest = max(slowest, seconds)
    print(f"slowest: {slowest:.3f} s (target {TARGET_S} s)")
    return 0 if slowest <= TARGET_S else 1


if __name__ == "__main__":
    sys.exit(main())
