"""Code for one task that crashes, hangs or floods. The other tasks keep their marks, and the learner is told why."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Crash:
    """A source for the solution cell of to_patches.

    ``outcome`` is how its first visible test must end, ``says`` a part of the message shown with it.
    """

    name: str
    source: str
    outcome: str
    says: str


def body(*lines: str, before: str = "") -> str:
    return (
        f"import os, signal, sys, threading, time\nimport torch\n{before}\n\ndef to_patches(frames, size):\n"
        + "".join(f"    {line}\n" for line in lines)
    )


_RIGHT = """
def to_patches(frames, size):
    n, c, h, w = frames.shape
    rows, columns = h // size, w // size
    grid = frames[:, :, : rows * size, : columns * size]
    grid = grid.reshape(n, c, rows, size, columns, size).permute(0, 2, 4, 1, 3, 5)
    return grid.reshape(n, rows * columns, c * size * size)
"""

CRASHES = [
    Crash("exit", body("sys.exit(3)"), "failed", "Your code called exit"),
    Crash("exit-behind-pythons-back", body("os._exit(3)"), "failed", "Your code ended its process (status 3)"),
    Crash(
        "exit-while-loading",
        "import os\nx = os._exit(0)\n" + _RIGHT.replace("(frames, size):", "(frames, size, x=x):"),
        "failed",
        "Your code ended its process (status 0)",
    ),
    Crash(
        "segmentation-fault",
        body("import ctypes", "ctypes.string_at(0)"),
        "failed",
        "Your code was ended by signal SIGSEGV",
    ),
    Crash("abort", body("os.abort()"), "failed", "Your code was ended by signal"),
    Crash("endless-loop", body("while True: pass"), "timeout", "Your code did not come back within 2 s"),
    Crash(
        "endless-loop-while-loading",
        "import time\nx = [time.sleep(1000)]\n" + _RIGHT.replace("(frames, size):", "(frames, size, x=x):"),
        "timeout",
        "Your code did not come back within 2 s",
    ),
    Crash(
        "endless-loop-that-ignores-signals",
        body(
            "for n in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP): signal.signal(n, signal.SIG_IGN)",
            "while True:",
            "    try: time.sleep(100)",
            "    except BaseException: pass",
        ),
        "timeout",
        "Your code did not come back within 2 s",
    ),
    Crash(
        "deadlock",
        body("lock = threading.Lock()", "lock.acquire()", "lock.acquire()"),
        "timeout",
        "Your code did not come back within 2 s",
    ),
    Crash(
        "rank-that-never-comes",
        body(
            "import torch.distributed as dist",
            "place = os.environ['TMPDIR'] + '/rendezvous'",
            "dist.init_process_group('gloo', init_method='file://' + place, rank=0, world_size=2)",
        ),
        "timeout",
        "Your code did not come back within 2 s",
    ),
    Crash("deep-recursion", body("return to_patches(frames, size)"), "failed", "raised RecursionError"),
    Crash("memory-in-one-piece", body("return torch.ones(10**10)"), "failed", "Your code raised"),
    Crash("memory-in-small-pieces", body("return [bytearray(10**7) for _ in range(10**6)]"), "failed", "MemoryError"),
    Crash(
        "memory-of-helpers",
        body(
            "for _ in range(8):",
            "    if os.fork() == 0:",
            "        block = b'x' * 300_000_000",
            "        time.sleep(60)",
            "time.sleep(60)",
        ),
        "failed",
        "Your code took more than the 0.4 GB of memory that it may have",
    ),
    Crash("fork-bomb", body("while True: os.fork()"), "failed", "Your code raised BlockingIOError"),
    Crash(
        "thread-bomb",
        body("while True: threading.Thread(target=time.sleep, args=(60,), daemon=True).start()"),
        "failed",
        "can't start new thread",
    ),
    Crash(
        "disk-bomb",
        body(
            "n = 0",
            "while True:",
            "    n += 1",
            "    with open(f'{os.environ[\"TMPDIR\"]}/{n}', 'wb') as file: file.write(bytes(10**7))",
        ),
        "failed",
        "No space left on device",
    ),
    Crash(
        "flood-of-output",
        body(
            "for stream in (sys.stdout, sys.stderr):",
            "    for _ in range(20): stream.write('x' * 1_000_000)",
            "print('the end')",
            "raise ValueError('after the flood')",
        ),
        "failed",
        "the end",
    ),
    Crash(
        "large-result",
        body("return torch.empty(300_000_000, dtype=torch.uint8)"),
        "failed",
        "300 MB of tensors are more than the 256 MB allowed",
    ),
    Crash(
        "result-of-a-gigabyte",
        body("return torch.empty(1_000_000_000, dtype=torch.uint8)"),
        "failed",
        "Your code",
    ),
    Crash(
        "widget-that-waits-for-a-browser",
        body(
            "import ipywidgets",
            "pressed = []",
            "button = ipywidgets.Button(description='Go on')",
            "button.on_click(pressed.append)",
            "while not pressed: time.sleep(0.01)",
        ),
        "timeout",
        "Your code did not come back within 2 s",
    ),
    Crash("endless-text", body("return 'x' * 100_000_000"), "failed", "cannot be handed back"),
    Crash("input", body("return input('size? ')"), "failed", "Your code raised EOFError"),
    Crash("debugger", body("breakpoint()", "return frames"), "failed", "Your code raised BdbQuit"),
    Crash(
        "network",
        body("import urllib.request", "return urllib.request.urlopen('http://127.0.0.1:9/').read()"),
        "failed",
        "Your code raised URLError",
    ),
    Crash(
        "missing-module",
        "import no_such_module\n" + body("return no_such_module.f(frames)"),
        "failed",
        "no_such_module",
    ),
    Crash("syntax-error", "def to_patches(frames, size)\n    return frames\n", "failed", "does not parse"),
    Crash("nothing-defined", "x = 1\n", "failed", "The notebook does not define `to_patches`"),
    Crash("name-taken-by-a-number", "to_patches = 3\n", "failed", "Your code raised TypeError"),
    Crash(
        "exception-that-cannot-be-shown",
        body(
            "raise Odd('x')",
            before="class Odd(Exception):\n    def __str__(self): raise RuntimeError",
        ),
        "failed",
        "Your code raised Odd: (its message cannot be shown)",
    ),
    Crash(
        "exception-of-a-megabyte",
        body("raise ValueError('x' * 1_000_000)"),
        "failed",
        "Your code raised ValueError",
    ),
]

LEFT_BEHIND = [
    # right answers, with something that goes on: full marks, and nothing of it stays
    (
        "background-thread",
        "import threading, time\n"
        + _RIGHT.replace(
            "    n, c, h, w",
            "    threading.Thread(target=time.sleep, args=(600,), daemon=True).start()\n    n, c, h, w",
            1,
        ),
    ),
    (
        "detached-process",
        "import os, time\n"
        "def detach():\n"
        "    if os.fork() == 0:\n"
        "        os.setsid()\n"
        "        if os.fork() == 0:\n"
        "            time.sleep(600)\n"
        "        os._exit(0)\n"
        "x = detach()\n" + _RIGHT.replace("    n, c, h, w", "    x\n    n, c, h, w", 1),
    ),
]
