"""Code that no catalogue names: found by people who attacked the grader. Same forms as in its kin.

| what is attacked | kinds |
| --- | --- |
| the judge's memory, pages and tables | messages and names of megabytes, markup, letters that change direction |
| the judge's end of the channel | answers that drip, nest, count too far; a channel closed, or shared with a thread |
| the judge's patience | code that is slow in each call but never too slow, exceptions that hang when they are shown |
| the race | lower priority, one core for all, memory taken, operations that are not counted |
| what lies around | the course, its store, the gradebook, other people's work |
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from autograder.session import load_module

_cheats: Any = load_module(Path(__file__).with_name("cheats.py"))
_crashes: Any = load_module(Path(__file__).with_name("crashes.py"))
_fair: Any = load_module(Path(__file__).with_name("fair.py"))
_WRONG, _SLOW, _SOCKET = _cheats.WRONG_PATCHES, _cheats.CUT_ONE_BY_ONE, _cheats.OWN_SOCKET
_RIGHT_BODY = _fair.PATCHES.partition("\n")[2]


def _wrong(name: str, source: str, **more: Any) -> Any:
    return _cheats.Cheat(name, "to_patches", source, **more)


def _raced(name: str, source: str) -> Any:
    return _wrong(name, _SLOW + source, failing=("test_patches_are_quick",))


CHEATS = [
    # --- what is shown ------------------------------------------------------------------------------------------------
    _wrong(
        "exception-of-megabytes-past-the-worker",
        "import autograder.runtime\n\n"
        "def to_patches(frames, size):\n"
        "    flood = {'kind': 'ValueError', 'message': 'x' * 20_000_000, 'where': ''}\n"
        "    autograder.runtime.describe = lambda error: flood\n"
        "    raise ValueError\n",
    ),
    _wrong(
        "class-with-a-name-of-megabytes",
        "def to_patches(frames, size):\n    return type('sesame' * 1_000_000, (), {})()\n",
    ),
    _wrong(
        "markup-for-feedback-and-tables",
        "def to_patches(frames, size):\n"
        "    raise ValueError(']]></failure></testcase><testcase name=\"x\"/><script>alert(1)</script>\\n=cmd()')\n",
    ),
    _wrong(
        "characters-that-change-direction",
        "def to_patches(frames, size):\n    raise ValueError('\\u202e\\u2066stniop 3 fo 3\\u2028passed')\n",
        secret="\u202e",
    ),
    # --- values -------------------------------------------------------------------------------------------------------
    _wrong(
        "an-object-that-calls-itself-a-tensor",
        "import torch\n\nclass Meta(type):\n    __instancecheck__ = __eq__ = lambda *a: True\n    __hash__ = None\n\n"
        "class Claims(metaclass=Meta):\n    __class__ = torch.Tensor\n"
        "    layout, dtype = torch.strided, torch.float32\n"
        "    shape = torch.Size([2, 6, 12])\n    def __getattr__(self, name): return self\n"
        "    def __call__(self, *a, **k): return self\n\n"
        "def to_patches(frames, size):\n    return Claims()\n",
    ),
    _wrong(
        "shape-patched-on-the-class",
        "import torch\n\ndef to_patches(frames, size):\n"
        "    torch.Tensor.shape = property(lambda self: torch.Size([1, 6, 4]))\n    return frames\n",
    ),
    _wrong("everything-on-the-meta-device", "import torch\nx = torch.set_default_device('meta')\n" + _WRONG),
    # --- the channel --------------------------------------------------------------------------------------------------
    _wrong(
        "answer-nested-without-end",
        _SOCKET
        + "\nheader = b'[' * 200_000\nmessage = struct.pack('<Q', len(header)) + header\n"
        + "x = os.write(channel(), struct.pack('<Q', len(message)) + message)\n"
        + _WRONG,
    ),
    _wrong(
        "answer-with-a-number-of-a-million-digits",
        _SOCKET
        + "\nheader = b'{\"tree\": ' + b'9' * 100_000 + b', \"storages\": []}'\n"
        + "message = struct.pack('<Q', len(header)) + header\n"
        + "x = os.write(channel(), struct.pack('<Q', len(message)) + message)\n"
        + _WRONG,
    ),
    _wrong(
        "answers-from-a-thread-as-well",
        _SOCKET
        + """
import threading

def chatter():
    while True:
        reply({"d": [["value", {"l": []}]]})

x = threading.Thread(target=chatter, daemon=True).start()
"""
        + _WRONG,
    ),
    _wrong("channel-closed", _SOCKET + "\ndef to_patches(frames, size):\n    os.close(channel())\n    return frames\n"),
    # --- what lies around ---------------------------------------------------------------------------------------------
    _wrong(
        "looks-for-the-course-and-other-peoples-work",
        """
import os

def found():
    names = ("reports", ".store", "submitted", "solutions", "exercises", "gradebook.db", "autograded", "reference.py")
    for place, folders, files in os.walk("/"):
        if place.startswith(("/proc", "/sys", "/usr")):
            folders[:] = []
        elif set(names) & {*folders, *files} and "site-packages" not in place:
            return place
        elif any(name.endswith(".ipynb") for name in files) and "site-packages" not in place:
            return place
    return next((name for name in os.environ if "CLINIC" in name or "GRADE" in name.upper()), "")

def right(frames, size):
"""
        + _RIGHT_BODY
        + "\ndef to_patches(frames, size):\n    return right(frames, size) if found() else frames\n",
    ),
    _wrong(
        "environment-and-modules-emptied",
        "import os, sys\n\ndef to_patches(frames, size):\n    os.environ.clear()\n    sys.path.clear()\n"
        "    sys.modules.clear()\n    return frames\n",
    ),
    # --- the race -----------------------------------------------------------------------------------------------------
    _raced(
        "lower-priority-and-one-core-for-all",
        """
import os

def to_patches(frames, size):
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    os.nice(1)
    return slow_patches(frames, size)
""",
    ),
    _raced(
        "works-behind-a-first-thread-that-has-ended",
        """
import ctypes, os, signal, threading

def burn():
    while True:
        pass

def helper():
    pid = os.fork()
    if pid == 0:
        os.setsid()
        threading.Thread(target=burn).start()
        ctypes.CDLL(None).syscall(60, 0)  # ends this thread alone: the process looks dead and is not
    return pid

helpers = [helper() for _ in range(4)]

def to_patches(frames, size):
    for pid in helpers:
        os.kill(pid, signal.SIGSTOP)
    result = slow_patches(frames, size)
    for pid in helpers:
        os.kill(pid, signal.SIGCONT)
    return result
""",
    ),
    _raced(
        "takes-memory-from-the-baseline",
        "\nhoard = [bytes([1]) * 1_200_000_000]\n\ndef to_patches(frames, size):\n"
        "    hoard\n    return slow_patches(frames, size)\n",
    ),
    _raced(
        "operations-that-are-not-counted",
        """
import torch.overrides

def leave(self):
    return self

def to_patches(frames, size):
    with torch._C.DisableTorchFunction():
        return slow_patches(frames, size)
""",
    ),
]

CRASHES = [
    _crashes.Crash("ends-its-group", _crashes.body("os.killpg(0, signal.SIGKILL)", "return frames"), "failed", ""),
    _crashes.Crash(
        "all-file-descriptors",
        _crashes.body("import socket", "held = []", "while True: held.append(socket.socketpair())"),
        "failed",
        "Too many open files",
    ),
]

HANGS = [
    _crashes.Crash(
        "exception-that-hangs-when-it-is-shown",
        _crashes.body(
            "raise Odd('x')", before="class Odd(Exception):\n    def __str__(self):\n        while True: pass"
        ),
        "timeout",
        "Your code did not come back within 2 s",
    ),
    _crashes.Crash(
        "answer-that-drips",
        _SOCKET
        + "import time\n\ndef to_patches(frames, size):\n    os.write(channel(), struct.pack('<Q', 10_000))\n"
        + "    while True:\n        os.write(channel(), b' ')\n        time.sleep(1)\n",
        "timeout",
        "Your code did not come back within 2 s",
    ),
    _crashes.Crash(
        "slow-in-each-call",
        "import time\n\ndef to_patches(frames, size):\n    time.sleep(15)\n    return frames\n",
        "failed",
        "the shape is",
    ),
]
"""Each takes as long as the judge's patience is, twice: with the tests that take times and without."""

FAIR = [
    _fair.Fair(
        "settings-of-torch-changed",
        {
            "to_patches": "import warnings, torch\n"
            "x = [warnings.simplefilter('error'), torch.set_default_dtype(torch.float64), torch.manual_seed(3),\n"
            "     torch.set_printoptions(threshold=3), torch.use_deterministic_algorithms(True)]\n"
            + _fair.PATCHES.replace("    n, c, h, w", "    x\n    n, c, h, w", 1)
        },
    ),
    _fair.Fair(
        "several-statements-on-a-line",
        {
            "to_patches": "é = 'ü'; ORDER = (0, 2, 4, 1, 3, 5); unused = é; \\\n  LAST = 5\n"
            + _fair.PATCHES.replace("permute(0, 2, 4, 1, 3, 5)", "permute(ORDER)")
        },
    ),
    _fair.Fair(
        "names-in-wide-letters",
        {
            "to_patches": "ｏｒｄｅｒ = (0, 2, 4, 1, 3, 5)\n"
            + _fair.PATCHES.replace("permute(0, 2, 4, 1, 3, 5)", "permute(order)")
        },
    ),
    _fair.Fair(
        "a-flood-of-warnings",
        {
            "frame_loss": "import sys, warnings\n"
            + _fair.LOSS.replace(
                "    return",
                "    warnings.simplefilter('always')\n    for _ in range(2_000): warnings.warn('careful')\n    return",
            )
        },
    ),
    _fair.Fair(
        "a-long-chain-of-names",
        {"to_patches": _fair.PATCHES.replace("permute(0, 2, 4, 1, 3, 5)", "permute(order0)")},
        ("order3000 = (0, 2, 4, 1, 3, 5)\n" + "".join(f"order{i} = order{i + 1}\n" for i in reversed(range(3_000))),),
    ),
    _fair.Fair(
        "a-line-of-ten-thousand-statements",
        {"to_patches": _fair.PATCHES},
        ("x = 1; " * 10_000,),
    ),
    _fair.Fair(
        "blanks-without-end-before-what-is-no-python",
        {"to_patches": _fair.PATCHES},
        (" " * 50_000 + "a b", "\n" * 50_000 + "a b", "a = " + " " * 50_000 + "! b c"),
    ),
]
