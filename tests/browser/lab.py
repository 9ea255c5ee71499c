"""What a learner does in JupyterLab, by name: open, run, change, check, press a button, read."""

from __future__ import annotations

import json
import re
import time
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import psutil
from playwright.sync_api import Locator, Page, expect

from ..lab_address import PATIENCE_S

expect.set_options(timeout=PATIENCE_S * 1000)
_DONE = re.compile(r"\[\d+\]:")


@dataclass(frozen=True)
class Lab:
    """A JupyterLab that runs: the folder it serves, its address, the id of its process."""

    folder: Path
    address: str
    pid: int
    TOKEN: ClassVar[str] = "let-me-in"

    def _api(self, method: str, path: str) -> Any:
        headers = {"Authorization": f"token {self.TOKEN}"}
        request = urllib.request.Request(f"{self.address}/api/{path}", headers=headers, method=method)
        with urllib.request.urlopen(request, timeout=PATIENCE_S) as answer:
            text = answer.read()
        return json.loads(text) if text else None

    def end_kernels(self) -> None:
        """As with *Shut Down All Kernels*."""
        for session in self._api("GET", "sessions"):
            self._api("DELETE", f"sessions/{session['id']}")

    def processes(self) -> dict[int, psutil.Process]:
        """JupyterLab's children and theirs, by id: kernels, and what these have started."""
        return {child.pid: child for child in psutil.Process(self.pid).children(recursive=True)}

    def source(self, path: str) -> list[str]:
        """The sources of the cells of a saved notebook."""
        cells = json.loads((self.folder / path).read_text(encoding="utf-8"))["cells"]
        return ["".join(cell["source"]) for cell in cells]


def until(holds: Callable[[], bool], what: str) -> None:
    """Wait for *holds*; ``AssertionError`` where that takes too long."""
    deadline = time.monotonic() + PATIENCE_S
    while not holds():
        assert time.monotonic() < deadline, f"still waiting for {what}"
        time.sleep(0.1)


class NotebookPage:
    """One notebook in a window of the browser."""

    def __init__(self, lab: Lab, page: Page, workspace: str) -> None:
        self.lab = lab
        self.page = page
        self._workspace = re.sub(r"\W+", "-", workspace)
        self._indicator = page.locator(".jp-Notebook-ExecutionIndicator:visible")
        self._scroller = page.locator(".jp-NotebookPanel:visible .jp-WindowedPanel-outer")

    # --- as a whole

    def open(self, path: str) -> None:
        """Open the notebook at *path*, and wait for its kernel."""
        address = f"{self.lab.address}/lab/workspaces/{self._workspace}/tree/{path}"
        self.page.goto(f"{address}?reset&token={self.lab.TOKEN}")
        # what the notebook shows of its kernel is idle from the start, before there is one
        expect(self.page.locator("#jp-main-statusbar")).to_contain_text("| Idle")
        self.wait_until_idle()

    def wait_until_idle(self) -> None:
        """Wait until nothing runs, and nothing waits to be run."""
        expect(self._indicator).to_have_attribute("data-status", "idle")

    def wait_until_busy(self) -> None:
        """Wait until the kernel is at work."""
        expect(self._indicator).to_have_attribute("data-status", "busy")

    def menu(self, *labels: str) -> None:
        """Click through the menus: ``menu("Run", "Run All Cells")``."""
        self.page.locator(".lm-MenuBar-itemLabel", has_text=re.compile(f"^{labels[0]}$")).click()
        for label in labels[1:]:
            self.page.locator(".lm-Menu-itemLabel", has_text=re.compile(f"^{re.escape(label)}$")).click()

    def run_all(self) -> None:
        """Run every cell, and wait until all have been run."""
        self.menu("Run", "Run All Cells")
        self.to_top()
        first = self._scroller.locator(".jp-CodeCell").first
        expect(first.locator(".jp-InputPrompt")).to_have_text(_DONE)
        self.wait_until_idle()  # all were handed to the kernel before the first was done

    def save(self) -> None:
        """As with Ctrl-S; waits until the file is written."""
        self.page.keyboard.press("Control+s")
        expect(self.page.locator(".lm-TabBar-tab.lm-mod-current.jp-mod-dirty:visible")).to_have_count(0)

    def press(self, command: str) -> None:
        """Click the button of the toolbar that stands for a command of JupyterLab's."""
        self.page.locator(f'.jp-NotebookPanel-toolbar:visible [data-command="{command}"]').click()

    def press_validate(self) -> None:
        """Click nbgrader's button."""
        self.page.locator(".jp-NotebookPanel-toolbar:visible .validate-button").click()

    def dialog(self) -> Locator:
        """The dialog that is open, when it is."""
        found = self.page.locator(".jp-Dialog-content")
        found.wait_for()
        return found

    # --- cell by cell

    def to_top(self) -> None:
        """Scroll to the first cell."""
        self._scroller.evaluate("outer => outer.scrollTo(0, 0)")

    def cell(self, text: str, kind: str = "") -> Locator:
        """The first cell that holds *text*, in its source or below; *kind* is Code or Markdown.

        JupyterLab draws only cells near the window, so this scrolls down from the top until there is one.
        """
        found = self._scroller.locator(f".jp-{kind}Cell" if kind else ".jp-Notebook-cell", has_text=text).first
        self.to_top()
        while not found.is_visible():
            down = "outer => { const before = outer.scrollTop; outer.scrollBy(0, outer.clientHeight / 2); "
            moved = self._scroller.evaluate(down + "return outer.scrollTop > before; }")
            self.page.wait_for_timeout(50)  # to draw
            if not moved:
                break
        expect(found, f"no cell with {text!r}").to_be_visible()
        found.scroll_into_view_if_needed()
        return found

    def run(self, cell: Locator) -> Locator:
        """Run one cell, as with Ctrl-Enter, and wait for its end; gives the cell back."""
        self.start(cell)
        self.wait_until_idle()
        expect(cell.locator(".jp-InputPrompt")).to_have_text(_DONE)
        return cell

    def start(self, cell: Locator) -> None:
        """Run one cell without waiting for its end."""
        cell.locator(".jp-InputArea-editor").click()
        self.page.keyboard.press("Control+Enter")

    def write(self, cell: Locator, source: str) -> None:
        """Replace what stands in a code cell, by keyboard."""
        cell.locator(".cm-content").click()
        self.page.keyboard.press("Control+a")
        self.page.keyboard.insert_text(source)
