"""A core that others are busy on."""

from __future__ import annotations

import contextlib
import subprocess
import sys
from collections.abc import Iterator


@contextlib.contextmanager
def busy_core(core: int, processes: int = 1) -> Iterator[None]:
    """So many *processes* that never rest, all of them on *core*, from now on and until this is left.

    Each is in a session of its own: what is in one session together may have to share what one process would get.
    """
    program = f"import os; os.sched_setaffinity(0, {{{core}}}); print(flush=True)\nwhile True: pass"
    busy = [
        subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, start_new_session=True)
        for _ in range(processes)
    ]
    try:
        for process in busy:
            assert process.stdout is not None
            process.stdout.readline()
        yield
    finally:
        for process in busy:
            process.kill()
            process.communicate()
