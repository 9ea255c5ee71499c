"""What the warm process tells unasked: which of its forks have ended."""

from __future__ import annotations

import socket
from collections.abc import Callable

import pytest

from autograder.sandbox import process
from autograder.submission import Host


@pytest.fixture
def small_buffers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sockets that hold a few notices instead of some hundreds."""
    pair: Callable[[], tuple[socket.socket, socket.socket]] = socket.socketpair

    def small_pair() -> tuple[socket.socket, socket.socket]:
        ends = pair()
        for end in ends:
            end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4_096)
        return ends

    monkeypatch.setattr(process.socket, "socketpair", small_pair)


@pytest.mark.usefixtures("small_buffers")
def test_many_uses_end_without_a_word_from_the_judge() -> None:
    """The warm process never waits for its notices to be read: after more of them than fit, it is still the same."""
    with Host("none") as host:
        host.runner().close()
        warm = host._sandboxes["submission"]
        for _ in range(40):
            host.runner().close()
        assert host._sandboxes["submission"] is warm
