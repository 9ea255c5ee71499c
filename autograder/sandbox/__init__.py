"""Starts, limits, warms and ends the processes that run learners' code.

``start(isolation)`` gives a :class:`Sandbox`: one warm process, isolated from the machine; ``sandbox.use()`` forks it
for one task's tests. Three backends stand behind it (:mod:`autograder.sandbox.backends`).
"""

from autograder.sandbox.backends import ISOLATIONS as ISOLATIONS
from autograder.sandbox.process import Limits as Limits
from autograder.sandbox.process import Sandbox as Sandbox
from autograder.sandbox.process import Use as Use
from autograder.sandbox.process import start as start

__all__ = ["ISOLATIONS", "Limits", "Sandbox", "Use", "start"]
