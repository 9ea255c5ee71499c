"""Where a JupyterLab that a test has started answers."""

from __future__ import annotations

import contextlib
import subprocess
import time
import urllib.error
import urllib.request
from pathlib import Path

PATIENCE_S = 120.0
"""For whatever has to come; generous, since other tests may be at work beside these."""


def lab_address(process: subprocess.Popen[bytes], log: Path, token: str, page: str = "/lab") -> str:
    """The address in *log*, without *page*, once somebody listens there.

    The port may be another than was asked for, where somebody was quicker. Fails where *process* ends, or says nothing.
    """
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline and process.poll() is None:
        for word in log.read_text(encoding="utf-8").split():
            address, found, _ = word.partition(page)
            if found and address.startswith("http://127.0.0.1:"):
                with contextlib.suppress(urllib.error.URLError):  # it may say so before it listens
                    urllib.request.urlopen(f"{address}/api?token={token}", timeout=PATIENCE_S).close()
                    return address
        time.sleep(0.1)
    raise AssertionError(log.read_text(encoding="utf-8"))
