"""A real JupyterLab on a learner's copy of the course, and a real browser in front of it."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from playwright.sync_api import Browser, sync_playwright

from ..lab_address import lab_address
from .lab import PATIENCE_S, Lab, NotebookPage

ROOT = Path(__file__).resolve().parents[2]
_NO_NEWS = '{"fetchNews": "false", "checkForUpdates": false}'


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Chromium, closed in the end; skips where there is none."""
    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    if chromium is None:
        pytest.skip("chromium is not installed")
    options = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"]
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=options)
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """JupyterLab, started as ``make learn`` does; with it end its kernels, and whatever these have started."""
    folder = tmp_path_factory.mktemp("learner")
    for name in ("course", "exercises"):
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__", ".ipynb_checkpoints"))
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    log = folder / "lab.log"
    with log.open("w") as out:
        process = subprocess.Popen(
            [
                *(sys.executable, "-m", "jupyterlab", "--no-browser", "--allow-root", "--ServerApp.ip=127.0.0.1"),
                *(
                    f"--ServerApp.port={port}",
                    f"--ServerApp.root_dir={folder}",
                    f"--IdentityProvider.token={Lab.TOKEN}",
                ),
            ],
            cwd=folder,
            env=_environment(tmp_path_factory.mktemp("settings")),
            stdout=out,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        yield Lab(folder, lab_address(process, log, Lab.TOKEN), process.pid)
    finally:
        _end(process)


def _environment(settings: Path) -> dict[str, str]:
    """This one's, but with settings of its own, in which JupyterLab asks for no news (see make/common.mk)."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST_", "JUPYTER"))}
    news = settings / "user-settings" / "@jupyterlab" / "apputils-extension" / "notification.jupyterlab-settings"
    news.parent.mkdir(parents=True)
    news.write_text(_NO_NEWS, encoding="utf-8")
    places = {
        "JUPYTER_CONFIG_DIR": "config",
        "JUPYTER_DATA_DIR": "data",
        "JUPYTER_RUNTIME_DIR": "runtime",
        "JUPYTERLAB_SETTINGS_DIR": "user-settings",
        "JUPYTERLAB_WORKSPACES_DIR": "workspaces",
        "IPYTHONDIR": "ipython",
    }
    return inherited | {name: str(settings / place) for name, place in places.items()}


def _end(process: subprocess.Popen[bytes]) -> None:
    """Ask JupyterLab to end, and end by force what is left of it then."""
    family = psutil.Process(process.pid).children(recursive=True) if process.poll() is None else []
    process.send_signal(signal.SIGTERM)
    try:
        process.wait(20)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    for left in psutil.wait_procs(family, 10)[1]:
        left.kill()


@pytest.fixture
def page(lab: Lab, browser: Browser, request: pytest.FixtureRequest) -> Iterator[NotebookPage]:
    """A new window of the browser, onto exercises as they were handed out; its kernels end with it."""
    for folder in (lab.folder / "exercises").glob("ch*"):
        shutil.copyfile(folder / ".starter.ipynb", folder / f"{folder.name}.ipynb")
    context = browser.new_context(viewport={"width": 1400, "height": 1000})
    context.set_default_timeout(PATIENCE_S * 1000)
    try:
        yield NotebookPage(lab, context.new_page(), workspace=request.node.name)
    finally:
        context.close()
        lab.end_kernels()
