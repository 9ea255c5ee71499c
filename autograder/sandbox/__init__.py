"""Starts, limits, warms and ends the processes that run learners' code.

``start(isolation)`` gives a sandbox: one warm process, isolated from the machine; ``sandbox.use()`` forks it for one
task's tests. Three backends stand behind it (:mod:`autograder.sandbox.backends`), and where processes should not fork,
a process for each use (:mod:`autograder.sandbox.single`).
"""

from __future__ import annotations

from autograder.errors import IsolationUnavailable
from autograder.forking import CAN_FORK
from autograder.sandbox.backends import ISOLATIONS
from autograder.sandbox.process import Limits, Sandbox, Use
from autograder.sandbox.single import SingleUseSandbox

__all__ = ["ISOLATIONS", "AnySandbox", "Limits", "Sandbox", "SingleUseSandbox", "Use", "start"]

AnySandbox = Sandbox | SingleUseSandbox


def start(isolation: str = "auto", limits: Limits | None = None, device: str = "cpu") -> AnySandbox:
    """Start a sandbox; ``auto`` takes the strongest that works here and never none.

    Raises :class:`IsolationUnavailable` with what to install or to ask for.
    """
    limits = limits or Limits()
    if isolation == "none" and not CAN_FORK:
        return SingleUseSandbox(limits, device)
    if isolation != "auto":
        return Sandbox(isolation, limits, device)
    reasons = []
    for name in ("bubblewrap", "sandlock"):
        try:
            return Sandbox(name, limits, device)
        except IsolationUnavailable as error:
            reasons.append(str(error))
    raise IsolationUnavailable(
        "No sandbox works here, and other people's code is not run without one:\n  "
        + "\n  ".join(reasons)
        + "\nFor code that you trust, say --isolation none."
    )
