"""The plain child for machines that cannot fork (Windows): a new process for every use, reached over loopback."""

from __future__ import annotations

import contextlib
import hmac
import itertools
import json
import secrets
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from autograder.errors import SandboxError
from autograder.sandbox.backends import boot, environment
from autograder.sandbox.process import START_TIMEOUT_S, Limits, Use, stage_worker


class SingleUseSandbox:
    """Starts a worker per use, which costs importing torch each time; otherwise as a plain ``Sandbox``."""

    isolation = "none"
    separates_uses = False

    def __init__(self, limits: Limits, device: str) -> None:
        self.limits = limits
        self.device = device
        self._numbers = itertools.count(1)
        self._processes: dict[int, subprocess.Popen[bytes]] = {}
        self._stage = Path(tempfile.mkdtemp(prefix="torch-clinic-"))
        stage_worker(self._stage)

    def use(self, threads: int = 1, warm: Sequence[str] = ()) -> Use:
        """A new process, with nothing in it that could be kept warm; raises :class:`SandboxError` on failure."""
        number = next(self._numbers)
        token = secrets.token_hex(16)
        limits = json.dumps({**asdict(self.limits), "own_processes": False})
        with socket.create_server(("127.0.0.1", 0)) as listener:
            port = listener.getsockname()[1]
            self._processes[number] = subprocess.Popen(
                boot(str(self._stage), "single", str(port), token, limits, str(threads)),
                env=environment(str(self._stage)),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
            channel = self._accept(listener, token)
        use = Use(self, number, channel)
        use.greet()
        return use

    @staticmethod
    def _accept(listener: socket.socket, token: str) -> socket.socket:
        """The worker's connection: whoever else comes first does not know the token."""
        listener.settimeout(START_TIMEOUT_S)
        try:
            while True:
                channel, _ = listener.accept()
                channel.settimeout(START_TIMEOUT_S)
                if hmac.compare_digest(channel.recv(len(token), socket.MSG_WAITALL), token.encode()):
                    return channel
                channel.close()
        except OSError as error:
            raise SandboxError(f"a worker did not come up: {error}") from None

    def close(self) -> None:
        """End every process and remove the scratch folder."""
        for number in list(self._processes):
            self.end_use(number)
        shutil.rmtree(self._stage, ignore_errors=True)

    def __enter__(self) -> SingleUseSandbox:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def diagnosis(self) -> str:
        """Nothing is kept of what a worker writes."""
        return "the worker ended without a word"

    def end_use(self, number: int) -> None:
        """End the process of a use."""
        process = self._processes.get(number)
        if process is not None:
            with contextlib.suppress(OSError):
                process.kill()
            process.wait()

    def exit_notice(self, number: int) -> dict[str, Any] | None:
        """How the process of a use ended."""
        try:
            return {"code": self._processes[number].wait(timeout=5.0), "reason": ""}
        except subprocess.TimeoutExpired:
            return None

    def command(self, request: dict[str, Any]) -> dict[str, Any]:
        """Neither holding a use nor asking what it has computed is possible here."""
        return {}
