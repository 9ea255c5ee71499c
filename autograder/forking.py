"""Whether a process that has imported torch may fork here and compute in the fork."""

from __future__ import annotations

import os
import sys

CAN_FORK = hasattr(os, "fork") and sys.platform != "darwin"
"""False on Windows, which has no fork, and on macOS, whose libraries for linear algebra may crash in one."""
