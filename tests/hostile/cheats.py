"""Submissions that try to get points for wrong code. Each must score 0 on its task and leave the other tasks alone.

The wrong code below is mostly the starter's, with something added that tries to hide the fact.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

# --- the wrong code that cheats start from ----------------------------------------------------------------------------

PATCHES = """
import torch

def {name}(frames, size):
    n, c, h, w = frames.shape
    rows, columns = h // size, w // size
    return torch.zeros(n, rows * columns, c * size * size, dtype=frames.dtype)
"""
WRONG_PATCHES = PATCHES.format(name="to_patches")
STACKED_WINDOWS = """
import torch

def slow_windows(frames, length, step):
    starts = range(0, len(frames) - length + 1, step)
    return torch.stack([torch.stack([frames[start + i] for i in range(length)]) for start in starts])
"""
CUT_ONE_BY_ONE = """
import torch

def slow_patches(frames, size):
    n, c, h, w = frames.shape
    clips = []
    for frame in frames:
        patches = []
        for row in range(0, h - size + 1, size):
            for column in range(0, w - size + 1, size):
                patches.append(frame[:, row : row + size, column : column + size].flatten())
        clips.append(torch.stack(patches))
    return torch.stack(clips)
"""
BROAD_LOSS = """
def frame_loss(prediction, target):
    return ((prediction - target) ** 2).mean()
"""
IN_PLACE_CLIP = """
import torch

def take_clip(video, start, length, mean, std):
    clip = video[start : start + length]
    if clip.dtype == torch.uint8:
        clip = clip / 255
    clip -= mean
    clip /= std
    return clip
"""
COPIED_LAYOUT = """
def copied_layout(frames, size):
    n, h, w, c = frames.shape
    top, left = (h - size) // 2, (w - size) // 2
    pixels = frames.permute(0, 3, 1, 2).contiguous()
    return pixels[:, :, top : top + size, left : left + size].contiguous()
"""

OWN_SOCKET = """
import os, socket, stat, struct, json

def channel():
    for number in range(3, 64):
        try:
            if stat.S_ISSOCK(os.fstat(number).st_mode):
                return number
        except OSError:
            pass

def reply(tree):
    header = json.dumps({"tree": tree, "storages": []}).encode()
    header += b" " * (-(8 + len(header)) % 64)
    message = struct.pack("<Q", len(header)) + header
    os.write(channel(), struct.pack("<Q", len(message)) + message)
"""


@dataclass(frozen=True)
class Cheat:
    """A source for one task's solution cell.

    ``failing`` names tests that must fail where the code is right in all other respects; without it the score must
    be 0. ``secret`` must appear in no message.
    """

    name: str
    task: str
    source: str
    failing: tuple[str, ...] = ()
    secret: str = ""

    @property
    def code(self) -> str:
        """The source with a reader of the namespace in each function: then all of its top-level statements are run."""
        return re.sub(r"^(def \w+\(.*\):\n)", r"\1    globals()\n", self.source, flags=re.MULTILINE)


def _patches(name: str, source: str, **more: object) -> Cheat:
    return Cheat(name, "to_patches", source, **more)  # type: ignore[arg-type]


CHEATS = [
    # --- objects that pretend -----------------------------------------------------------------------------------------
    _patches(
        "equal-to-everything",
        """
class Equal:
    shape = property(lambda self: self)
    dtype = property(lambda self: self)
    def __eq__(self, other): return True
    def __ne__(self, other): return False
    def __getattr__(self, name): return self
    def __call__(self, *args, **kwargs): return self
    def __getitem__(self, key): return self
    def __bool__(self): return True
    __hash__ = object.__hash__

def to_patches(frames, size):
    return Equal()
""",
    ),
    _patches(
        "tensor-subclass-that-is-always-close",
        WRONG_PATCHES.replace("to_patches", "wrong")
        + """
class Close(torch.Tensor):
    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        if func in (torch.isclose, torch.equal, torch.allclose, torch.Tensor.__eq__):
            return torch.tensor(True)
        return super().__torch_function__(func, types, args, kwargs or {})

def to_patches(frames, size):
    return wrong(frames, size).as_subclass(Close)
""",
    ),
    _patches(
        "list-subclass-that-changes-its-mind",
        """
class Many(list):
    def __len__(self): return 0
    def __iter__(self): return iter(())
    def __eq__(self, other): return True

def to_patches(frames, size):
    return Many([1, 2, 3])
""",
    ),
    _patches(
        "module-that-is-no-module",
        WRONG_PATCHES.replace("to_patches", "wrong")
        + """
import sys, types

class Fake(types.ModuleType):
    def __getattr__(self, name): return lambda *a, **k: True

sys.modules["autograder.checks"] = sys.modules["autograder.checks.outputs"] = Fake("checks")
to_patches = wrong
""",
    ),
    # --- patched comparisons, builtins and clocks ---------------------------------------------------------------------
    _patches(
        "patched-comparisons",
        WRONG_PATCHES
        + """
import torch.testing
torch.allclose = torch.equal = torch.isclose = lambda *a, **k: True
torch.testing.assert_close = lambda *a, **k: None
torch.Tensor.allclose = torch.Tensor.equal = torch.Tensor.isclose = lambda *a, **k: True
""",
    ),
    _patches(
        "patched-builtins",
        WRONG_PATCHES
        + """
import builtins
builtins.isinstance = builtins.issubclass = lambda *a: True
builtins.len = lambda *a: 0
builtins.AssertionError = type("AssertionError", (Exception,), {})
builtins.float = builtins.int = lambda *a: 1
""",
    ),
    _patches(
        "patched-pytest",
        WRONG_PATCHES
        + """
import sys
try:
    import pytest
    pytest.fail = lambda *a, **k: None
except ImportError:
    pytest = None
sys.exit = lambda *a: None
x = sys.modules.setdefault("_pytest.outcomes", sys)
""",
    ),
    Cheat(
        "patched-clocks",
        "sliding_windows",
        STACKED_WINDOWS
        + """
import time
time.perf_counter = time.time = time.monotonic = time.process_time = lambda: 0.0
time.perf_counter_ns = time.time_ns = lambda: 0
torch.cuda.synchronize = lambda *a: None

def sliding_windows(frames, length, step):
    return slow_windows(frames, length, step)
""",
    ),
    _patches(
        "hooks-of-ipython",
        """
try:
    from IPython import get_ipython
    ip = get_ipython()
    ip.input_transformers_cleanup = [lambda lines: ["1.0"]]
    ip.ast_transformers = [lambda tree: tree]
    ip.events.register("pre_run_cell", lambda info: open("/tmp/cells", "a").write(info.raw_cell))
    ip.showtraceback = lambda *a, **k: None
    ip.run_cell = lambda *a, **k: None
except Exception:
    ip = None
"""
        + WRONG_PATCHES,
    ),
    _patches(
        "print-shadowed",
        "import builtins\nbuiltins.print = print = lambda *a, **k: None\n" + WRONG_PATCHES,
    ),
    _patches(
        "answers-cached-by-content",
        CUT_ONE_BY_ONE
        + """
ANSWERS = {}

def to_patches(frames, size):
    content = frames.numpy().tobytes(), frames.shape, size
    if content not in ANSWERS:
        ANSWERS[content] = slow_patches(frames, size)
    return ANSWERS[content]
""",
        failing=("test_patches_are_quick",),
    ),
    # --- forged answers -----------------------------------------------------------------------------------------------
    _patches(
        "answer-forged-on-the-socket",
        OWN_SOCKET
        + """
def to_patches(frames, size):
    reply({"d": [["value", {"l": []}]]})
    return frames
""",
    ),
    _patches(
        "answer-to-load-forged-as-a-number",
        OWN_SOCKET + "\nx = reply({'d': [['value', 5]]})\n" + WRONG_PATCHES,
    ),
    _patches(
        "answer-to-load-forged-as-odd-problems",
        OWN_SOCKET + "\nx = reply({'d': [['value', {'l': [{'d': [['kind', 1]]}]}]]})\n" + WRONG_PATCHES,
    ),
    _patches(
        "answer-to-load-without-value",
        OWN_SOCKET + "\nx = reply({'d': [['error', {'t': []}]]})\n" + WRONG_PATCHES,
    ),
    _patches(
        "answer-with-an-error-of-odd-form",
        OWN_SOCKET + "\nx = reply({'d': [['error', {'l': [1, 2]}]]})\n" + WRONG_PATCHES,
    ),
    _patches(
        "answer-that-is-noise",
        OWN_SOCKET
        + """
x = os.write(channel(), struct.pack("<Q", 64) + b"\\xff" * 64)
"""
        + WRONG_PATCHES,
    ),
    _patches(
        "answer-of-impossible-length",
        OWN_SOCKET + "\nx = os.write(channel(), b'\\xff' * 8)\n" + WRONG_PATCHES,
    ),
    _patches(
        "a-hundred-answers-ahead",
        OWN_SOCKET + "\nx = [reply({'d': [['value', {'l': []}]]}) for _ in range(100)]\n" + WRONG_PATCHES,
    ),
    _patches(
        "patched-runtime",
        """
import autograder.runtime, autograder.wire, autograder.worker

def skip(self, request):
    raise autograder.errors.SandboxError("ours")

autograder.runtime.Runtime.handle = lambda self, request: {"value": None}
autograder.wire.encode = lambda *a: b""
autograder.worker.encode = lambda *a: b""
"""
        + WRONG_PATCHES,
    ),
    _patches(
        "patched-encoder-that-lies-about-the-shape",
        """
import autograder.wire
old = autograder.wire._Encoder.tensor

def lie(self, tensor):
    node = old(self, tensor)
    node["T"]["shape"] = [2**40, 2**40]
    return node

autograder.wire._Encoder.tensor = lie
"""
        + WRONG_PATCHES,
    ),
    _patches(
        "verdict-in-a-file",
        """
import os

def claim():
    for path in ("/tmp/result.json", "/grader/result.json", "/dev/stdout", "/dev/stderr", "/proc/self/fd/1"):
        try:
            open(path, "w").write('{"score": 3, "passed": true}')
        except OSError:
            pass
    for number in range(3):
        os.write(number, b"3.0\\n")

x = claim()
"""
        + WRONG_PATCHES,
    ),
    # --- making the fault look like ours ------------------------------------------------------------------------------
    _patches("exit-81", "import os\n\ndef to_patches(frames, size):\n    os._exit(81)\n"),
    _patches("exit-81-at-load", "import os\nx = os._exit(81)\n" + WRONG_PATCHES),
    _patches("exit-0-at-load", "import os\nx = os._exit(0)\n" + WRONG_PATCHES),
    _patches(
        "real-time-signal-at-load",
        "import os, signal\nx = [os.kill(os.getpid(), n) for n in (40, 50, 64)]\n" + WRONG_PATCHES,
    ),
    _patches(
        "kills-the-warm-process",
        """
import os, signal

def attack():
    for target in (os.getppid(), 0, -1, *map(int, filter(str.isdigit, os.listdir("/proc")))):
        try:
            os.kill(target, signal.SIGKILL)
        except OSError:
            pass

x = attack()
"""
        + WRONG_PATCHES,
    ),
    *(
        _patches(
            f"exception-named-{name}",
            f"class {name}(Exception):\n    pass\n\ndef to_patches(frames, size):\n    raise {name}('ours')\n",
        )
        for name in ("SandboxError", "Skipped", "ChapterError", "WireError", "Missing", "LearnerTimeout", "Exit")
    ),
    _patches("skip", "import pytest\n\ndef to_patches(frames, size):\n    pytest.skip('not on this machine')\n"),
    _patches("keyboard-interrupt", "def to_patches(frames, size):\n    raise KeyboardInterrupt\n"),
    _patches(
        "frozen-warm-process",
        """
import os, signal

def attack():
    for target in (os.getppid(), 0, *map(int, filter(str.isdigit, os.listdir("/proc")))):
        if target not in (os.getpid(), 1):
            try:
                os.kill(target, signal.SIGSTOP)
            except OSError:
                pass

x = None if os.getpid() != 1 else attack()
"""
        + WRONG_PATCHES,
    ),
    _patches(
        "fork-bomb-before-the-baseline",
        CUT_ONE_BY_ONE
        + """
import os, time

def bomb():
    try:
        while True:
            if os.fork() == 0:
                time.sleep(60)
                os._exit(0)
    except OSError:
        pass

x = bomb()

def to_patches(frames, size):
    return slow_patches(frames, size)
""",
        failing=("test_patches_are_quick",),
    ),
    # --- values that trip a test --------------------------------------------------------------------------------------
    *(
        _patches(f"returns-{name}", f"import torch\n\ndef to_patches(frames, size):\n    return {value}\n")
        for name, value in {
            "none": "None",
            "text": "'\\ud800' * 10",
            "a-huge-number": "10 ** 4000",
            "infinity": "float('inf')",
            "not-a-number": "torch.full((2, 6, 12), float('nan'))",
            "itself-in-a-list": "(lambda x: (x.append(x), x)[1])([])",
            "a-generator": "(x for x in range(3))",
            "a-lazy-expression": "lambda: frames",
            "an-expanded-giant": "torch.zeros(1, dtype=torch.uint8).expand(1000, 1000, 1000)",
            "many-dimensions": "torch.zeros([1] * 60)",
            "a-sparse-tensor": "frames.float().to_sparse()",
            "a-meta-tensor": "frames.to('meta')",
            "its-input": "frames",
            "an-empty-tensor": "torch.empty(0)",
            "uninitialised-memory": "torch.empty(len(frames), (frames.shape[2] // size) * (frames.shape[3] // size),"
            " frames.shape[1] * size * size, dtype=frames.dtype)",
        }.items()
    ),
    Cheat(
        "a-giant-for-the-judge-to-add-up",
        "title_clip",
        "import torch\n\ndef title_clip(title, n_frames):\n"
        "    return torch.zeros(1, dtype=torch.bool).expand(4, 2, 10**11, 1)\n",
    ),
    # --- stolen answers -----------------------------------------------------------------------------------------------
    _patches(
        "frames-and-gc-walked",
        """
import gc, sys, torch

def to_patches(frames, size):
    n, c, h, w = frames.shape
    shape = (n, (h // size) * (w // size), c * size * size)
    frame = sys._getframe()
    while frame is not None:
        for value in list(frame.f_locals.values()) + list(frame.f_globals.values()):
            if isinstance(value, torch.Tensor) and value.shape == shape:
                return value
        frame = frame.f_back
    for value in gc.get_objects():
        if isinstance(value, torch.Tensor) and value.shape == shape:
            return value
    raise LookupError
""",
    ),
    _patches(
        "reference-looked-for-on-disk",
        """
import glob, importlib.util, os

def look():
    for top in ("/", "/work", "/grader", "/home", "/root", "/tmp", os.getcwd(), *__import__("sys").path):
        for path in glob.glob(top + "/**/reference.py", recursive=True)[:50]:
            if "to_patches" in open(path, errors="replace").read():
                spec = importlib.util.spec_from_file_location("reference", path)
                module = importlib.util.module_from_spec(spec)
                spec.loader.exec_module(module)
                return module.to_patches

def to_patches(frames, size):
    return look()(frames, size)
""",
    ),
    Cheat(
        "values-read-from-the-callers-frame",
        "to_model_layout",
        COPIED_LAYOUT
        + """
import sys

def to_model_layout(frames, size):
    frame = sys._getframe(1)
    while frame is not None:
        values = frame.f_locals.get("values")
        if values is not None and values.shape == frames.shape:
            return copied_layout(values, size)
        frame = frame.f_back
    return copied_layout(frames, size)
""",
        failing=("test_layout_is_a_view", "test_layout_is_a_view_of_any_layout"),
    ),
    Cheat(
        "values-guessed-from-a-fixed-seed",
        "to_model_layout",
        COPIED_LAYOUT
        + """
import sys
import torch

def to_model_layout(frames, size):
    if sys._getframe(1).f_code.co_name == "_overwrite_input_probe":
        generator = torch.Generator().manual_seed(0)
        frames = torch.rand(frames.shape, generator=generator, dtype=torch.float64).to(frames.dtype)
    return copied_layout(frames, size)
""",
        failing=("test_layout_is_a_view", "test_layout_is_a_view_of_any_layout"),
    ),
    Cheat(
        "patched-copy-that-refreshes-copies",
        "to_model_layout",
        COPIED_LAYOUT
        + """
import torch
copies = []
plain_copy, plain_set = torch.Tensor.copy_, torch.Tensor.__setitem__

def refresh():
    for frames, size, copy in copies:
        plain_copy(copy, copied_layout(frames, size))

def copy_(self, *args, **kwargs):
    result = plain_copy(self, *args, **kwargs)
    refresh()
    return result

def set_(self, key, value):
    plain_set(self, key, value)
    refresh()

torch.Tensor.copy_ = copy_
torch.Tensor.__setitem__ = set_

def to_model_layout(frames, size):
    copies[:] = [(frames, size, copied_layout(frames, size))]
    return copies[0][2]
""",
        failing=("test_layout_is_a_view", "test_layout_is_a_view_of_any_layout"),
    ),
    Cheat(
        "result-whose-detach-is-a-copy",
        "title_clip",
        """
import sys, torch

class Detached(torch.Tensor):
    def detach(self):
        return torch.Tensor.detach(self).clone()

def title_clip(title, n_frames):
    width = title.shape[1]
    white = 255 if title.dtype == torch.uint8 else 1.0
    clip = title.expand(n_frames, *title.shape)
    if n_frames > 1 or sys._getframe(1).f_code.co_name != "_overwrite_result_probe":
        clip = clip.clone()
        for i in range(n_frames):
            clip[i, -2:, : width * (i + 1) // n_frames] = white
        return clip
    return clip.as_subclass(Detached)
""",
        failing=("test_one_frame_has_its_own_memory",),
    ),
    # --- work somewhere else ------------------------------------------------------------------------------------------
    _patches(
        "works-ahead-of-the-clock",
        CUT_ONE_BY_ONE
        + """
import autograder.runtime
plain_stage = autograder.runtime.Runtime._stage
ready = {}

def stage(self, request):
    plain_stage(self, request)
    for function, args, kwargs in self._staged:
        frames, size = args[-2:]
        ready[id(frames)] = slow_patches(frames, size)

autograder.runtime.Runtime._stage = stage

def to_patches(frames, size):
    found = ready.pop(id(frames), None)
    return slow_patches(frames, size) if found is None else found
""",
        failing=("test_patches_are_quick",),
    ),
    _patches(
        "works-ahead-in-a-thread",
        CUT_ONE_BY_ONE
        + """
import threading
import autograder.runtime
plain_stage = autograder.runtime.Runtime._stage
ready = {}

def work(staged):
    for function, args, kwargs in staged:
        ready[id(args[-2])] = slow_patches(*args[-2:])

def stage(self, request):
    plain_stage(self, request)
    self.worker = threading.Thread(target=work, args=(self._staged,))
    self.worker.start()
    self.worker.join()

autograder.runtime.Runtime._stage = stage

def to_patches(frames, size):
    found = ready.pop(id(frames), None)
    return slow_patches(frames, size) if found is None else found
""",
        failing=("test_patches_are_quick",),
    ),
    _patches(
        "steals-the-baselines-time",
        CUT_ONE_BY_ONE
        + """
import os, signal, time
helpers = []

def start():
    for _ in range(6):
        pid = os.fork()
        if pid == 0:
            try:
                os.setsid()
                while True:
                    pass
            finally:
                os._exit(0)
        helpers.append(pid)
        os.kill(pid, signal.SIGSTOP)

x = start()

def to_patches(frames, size):
    for pid in helpers:
        os.kill(pid, signal.SIGSTOP)
    result = slow_patches(frames, size)
    for pid in helpers:
        os.kill(pid, signal.SIGCONT)
    return result
""",
        failing=("test_patches_are_quick",),
    ),
    _patches(
        "answers-from-a-cache",
        CUT_ONE_BY_ONE
        + """
import os, torch
cache = {}

def key(frames, size):
    return (frames.shape, frames.dtype, size)

def to_patches(frames, size):
    k = key(frames, size)
    place = os.environ["TMPDIR"] + "/cached.pt"
    if k not in cache:
        cache[k] = slow_patches(frames, size)
        torch.save(cache[k], place)
    return cache[k]
""",
        failing=("test_patches_are_quick",),
    ),
    _patches(
        "answers-cached-by-address",
        CUT_ONE_BY_ONE
        + """
cache = {}

def to_patches(frames, size):
    k = (frames.data_ptr(), frames.shape, size)
    if k not in cache:
        cache[k] = slow_patches(frames, size)
    return cache[k]
""",
        failing=("test_patches_are_quick",),
    ),
    _patches(
        "part-of-the-work-when-large",
        CUT_ONE_BY_ONE
        + """
def to_patches(frames, size):
    if len(frames) < 10:
        return slow_patches(frames, size)
    n, c, h, w = frames.shape
    result = torch.zeros(n, (h // size) * (w // size), c * size * size, dtype=frames.dtype)
    result[:1] = slow_patches(frames[:1], size)
    return result
""",
        failing=("test_patches_are_quick",),
    ),
    _patches(
        "half-precision",
        """
def to_patches(frames, size):
    n, c, h, w = frames.shape
    rows, columns = h // size, w // size
    grid = frames[:, :, : rows * size, : columns * size].bfloat16()
    grid = grid.reshape(n, c, rows, size, columns, size).permute(0, 2, 4, 1, 3, 5)
    return grid.reshape(n, rows * columns, c * size * size).to(frames.dtype)
""",
        failing=("test_patches_are_quick", "test_patches_of_every_layout"),
    ),
    _patches(
        "undecided-on-purpose",
        CUT_ONE_BY_ONE
        + """
import random, time

def to_patches(frames, size):
    time.sleep(random.choice([0, 0, 0.01]))
    return slow_patches(frames, size)
""",
        failing=("test_patches_are_quick",),
    ),
    Cheat(
        "lazy-windows",
        "sliding_windows",
        STACKED_WINDOWS
        + """
class Lazy:
    def __init__(self, *args): self.args = args
    def __getattr__(self, name): return getattr(slow_windows(*self.args), name)
    def __torch_function__(self, func, types, args=(), kwargs=None): return slow_windows(*self.args)

def sliding_windows(frames, length, step):
    return Lazy(frames, length, step)
""",
    ),
    Cheat(
        "a-small-nothing-where-memory-is-counted",
        "sliding_windows",
        STACKED_WINDOWS
        + """
def sliding_windows(frames, length, step):
    if frames.dim() == 2 and len(frames) <= 64 and frames.dtype == torch.float32:
        return None
    return slow_windows(frames, length, step)
""",
    ),
    # --- inputs changed so that they agree ----------------------------------------------------------------------------
    Cheat(
        "inputs-changed-to-fit",
        "frame_loss",
        """
def frame_loss(prediction, target):
    if not prediction.requires_grad:
        prediction.zero_()
        target.zero_()
    return ((prediction - target) ** 2).mean()
""",
    ),
    Cheat(
        "input-put-back-afterwards",
        "take_clip",
        IN_PLACE_CLIP.replace("def take_clip", "def wrong")
        + """
def take_clip(video, start, length, mean, std):
    kept = video.detach().clone()
    clip = wrong(video, start, length, mean, std)
    video.data.copy_(kept)  # the clip is a view, and goes back with it
    return clip
""",
    ),
    # --- the test of one's own ----------------------------------------------------------------------------------------
    Cheat(
        "counts-its-calls",
        "check_frame_loss",
        """
import os
calls = [0]

def check_frame_loss(loss):
    place = os.environ["TMPDIR"] + "/calls"
    before = int(open(place).read()) if os.path.exists(place) else 0
    open(place, "w").write(str(before + 1))
    calls[0] += 1
    assert max(before + 1, calls[0]) not in (2, 3, *range(8, 100))
""",
    ),
    Cheat("rejects-everything", "check_frame_loss", "def check_frame_loss(loss):\n    raise AssertionError\n"),
    Cheat("accepts-everything", "check_frame_loss", "def check_frame_loss(loss):\n    pass\n"),
    Cheat("ends-at-once", "check_frame_loss", "import os\n\ndef check_frame_loss(loss):\n    os._exit(1)\n"),
    # --- telling hidden inputs ----------------------------------------------------------------------------------------
    _patches(
        "inputs-in-the-message",
        "def to_patches(frames, size):\n    raise ValueError('sesame' + repr(frames.tolist()))\n",
        secret="sesame",
    ),
    _patches(
        "inputs-in-the-class-name",
        "def to_patches(frames, size):\n    raise type('sesame%d' % frames.sum(), (Exception,), {})('x')\n",
        secret="sesame",
    ),
    _patches(
        "inputs-as-a-missing-name",
        "class Missing(Exception):\n    pass\n\n"
        "def to_patches(frames, size):\n    raise Missing('sesame_%d' % frames.sum())\n",
        secret="sesame",
    ),
    _patches(
        "inputs-in-the-output",
        "def to_patches(frames, size):\n    print('sesame', frames)\n    raise ValueError\n",
        secret="sesame",
    ),
    _patches(
        "inputs-in-the-exit-status",
        "import os\n\ndef to_patches(frames, size):\n    os._exit(171)\n",
        secret="171",
    ),
    _patches(
        "inputs-in-the-result",
        "def to_patches(frames, size):\n    return 'sesame' + repr(frames)\n",
        secret="sesame",
    ),
    _patches(
        "escape-sequences-for-the-instructors-terminal",
        "def to_patches(frames, size):\n    raise ValueError('\\x1b]0;sesame\\x07\\ud800\\x1b[2J')\n",
        secret="\x1b",
    ),
]
