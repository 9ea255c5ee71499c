"""Large pages for the warm process: what it holds stays as it is."""

from __future__ import annotations

import subprocess
import sys

import pytest

PROGRAM = """
import os
from autograder.large_pages import gathered

held = bytearray(os.urandom(64)) * (1 << 19)  # 32 MB
before = bytes(held)
steps = sum(1 for _ in gathered())
assert held == before
pid = os.fork()
if pid == 0:
    held[0] ^= 1
    os._exit(0 if held[1:] == before[1:] else 1)
assert os.waitpid(pid, 0)[1] == 0
assert held == before, "a fork wrote to its parent"
print(steps)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="other systems do not gather pages")
def test_gathering_changes_no_byte_and_keeps_forks_apart():
    """In a process of its own: 32 MB are gathered in 15 steps or more, and a fork's changes stay its own."""
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) >= 15


def test_gathering_does_nothing_elsewhere(monkeypatch):
    """On a system without such pages there is no step to take."""
    monkeypatch.setattr(sys, "platform", "darwin")
    from autograder.large_pages import gathered

    assert list(gathered()) == []
