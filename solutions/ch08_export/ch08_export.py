# ---
# jupyter:
#   jupytext:
#     formats: ipynb,py:percent
#     text_representation:
#       extension: .py
#       format_name: percent
#   kernelspec:
#     display_name: Python 3 (ipykernel)
#     language: python
#     name: python3
#   torch_clinic_warm:
#   - torch._dynamo
#   - autograder.warm_onnx
# ---

# %% [markdown]
# # Exercise 8: it was right in the notebook
#
# A small network tells from which of two photographs a tile was cut. In the notebook it is right nearly every time. Then
# it was exported, to be served by another program on another machine, and since then people write complaints.
#
# Each section below is one complaint, the function it is about, and a cell that checks your repair. Change the code, run
# its cell, then run the check. What each docstring promises is what the callers rely on: none of the promises is wrong,
# and nothing needs another signature. The sections do not build on each other.
#
# The checks are a sample: a few small examples, which you may read in the files `test_ch08_….py` beside this notebook.
# A grade comes from more of them, at other sizes, dtypes and models. Nothing is asked there that the docstrings do not
# promise, so when a check is green, read the docstring once more.
#
# The lesson that goes with this exercise is [Export](../../course/ch08_export.ipynb); a failed check names the
# section to reread. Everything runs on a CPU. Plan for two to three hours, with a pause after section 5. Hints are folded
# away under each complaint; open them one at a time.

# %% nbgrader={"grade": false, "grade_id": "setup", "locked": true, "schema_version": 3, "solution": false, "task": false}
import contextlib
import copy
import io
import logging
import math
import os
import tempfile
import time
import warnings
from pathlib import Path
from unittest import mock

import matplotlib.pyplot as plt
import onnxruntime
import torch
import torch.nn.functional as F
from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_static
from torch import nn

from autograder import check, what_you_fixed
from autograder.pictures import photograph
from autograder.plotting import show_figure, use_course_style

use_course_style()

torch.set_num_threads(1)  # networks as small as these lose time by sharing the work between cores
# exporters and quantisers would speak of torchvision, of code that cannot be found, and of steps that are not needed here
for name in (None, "torch.onnx", "torch.fx"):
    logging.getLogger(name).setLevel(logging.ERROR)
warnings.filterwarnings("ignore", category=FutureWarning, module="copyreg")

# %% [markdown]
# ## What is given
#
# `PHOTOGRAPHS` are two photographs as a camera takes them, `SMALL` the same at a third of their height and width.
# `tiles(n, size, seed)` cuts squares from the small ones: raw pictures, channels last, and which photograph each is from.
# `MEAN` and `STD` are those of the training, for red, green and blue.
#
# `prepared` makes of them what the network is trained on. `TileNet` is the network; a tile whose mean is below `DARK`, after
# preparation, is brightened first. `trained_net` trains one, in some seconds. `exports_to_onnx` exports a function of one
# tensor and serves it in ONNX Runtime, the engine that is used in production; `open_served` opens a file with it.
#
# `leaky_clip` is an operator that the research team has written: it limits numbers to an interval, and its gradient is
# its own. `save_as_on` writes a checkpoint as a machine with that device would. None of these is part of the exercise.


# %% nbgrader={"grade": false, "grade_id": "given", "locked": true, "schema_version": 3, "solution": false, "task": false}
MEAN = torch.tensor([0.485, 0.456, 0.406])  # red, green, blue, of values from 0 to 1
STD = torch.tensor([0.229, 0.224, 0.225])
DARK = -1.0  # the mean of a prepared tile that was taken in the dark
PHOTOGRAPHS = [photograph(0), photograph(1)]  # uint8, (427, 640, 3), RGB
SMALL = [F.avg_pool2d(p.permute(2, 0, 1).float(), 3).round().byte().permute(1, 2, 0) for p in PHOTOGRAPHS]
FREE = torch.export.Dim.DYNAMIC  # in an export: a size that is to stay open


def tiles(n, size=32, seed=0, photographs=SMALL):
    """Tiles of size by size pixels from random places: uint8 (n, size, size, 3), RGB; and labels (n,), int64.

    The label is the number of the photograph: 0 (a temple) or 1 (a flower).
    """
    generator = torch.Generator().manual_seed(seed)
    labels = torch.randint(len(photographs), (n,), generator=generator)
    cut = []
    for label in labels.tolist():
        height, width, _ = photographs[label].shape
        top = int(torch.randint(height - size + 1, (), generator=generator))
        left = int(torch.randint(width - size + 1, (), generator=generator))
        cut.append(photographs[label][top : top + size, left : left + size])
    return torch.stack(cut), labels


def prepared(raw):
    """Tiles of the right size, uint8 (N, H, W, 3), RGB, as the network is trained on them: float32 (N, 3, H, W)."""
    return ((raw / 255 - MEAN) / STD).permute(0, 3, 1, 2).contiguous()


class TileNet(nn.Module):
    """Which photograph is a tile from? Float (N, 3, H, W), prepared as in training, to logits (N, 2); any H and W >= 16.

    A tile whose mean is below `DARK` is brightened first. activation: a function of one tensor, used behind both
    convolutions.
    """

    def __init__(self, activation=F.relu, width=16):
        super().__init__()
        self.activation = activation
        self.conv1 = nn.Conv2d(3, width, 3, stride=2)
        self.norm1 = nn.BatchNorm2d(width)
        self.conv2 = nn.Conv2d(width, 2 * width, 3, stride=2)
        self.norm2 = nn.BatchNorm2d(2 * width)
        self.dropout = nn.Dropout(0.3)
        self.head = nn.Linear(2 * width, 2)

    def forward(self, x):
        dark = x.mean(dim=(1, 2, 3), keepdim=True) < DARK
        x = torch.where(dark, 2 * x + 2, x)
        x = self.activation(self.norm1(self.conv1(x)))
        x = self.activation(self.norm2(self.conv2(x)))
        return self.head(self.dropout(x.mean(dim=(2, 3))))


def trained_net(activation=F.relu, seed=0, n_steps=120):
    """A trained TileNet in eval mode, the same for the same seed."""
    torch.manual_seed(seed)
    net = TileNet(activation)
    raw, labels = tiles(512, seed=1)
    inputs = prepared(raw)
    optimiser = torch.optim.Adam(net.parameters(), lr=3e-3)
    for step in range(n_steps):
        batch = torch.arange(64 * step, 64 * (step + 1)) % len(inputs)
        optimiser.zero_grad()
        F.cross_entropy(net(inputs[batch]), labels[batch]).backward()
        optimiser.step()
    return net.eval()


@torch.no_grad()
def accuracy(net, inputs, labels):
    """The share of inputs that the network gives the right label, in percent."""
    return 100 * (net(inputs).argmax(dim=1) == labels).float().mean().item()


def _register_leaky_clip():
    @torch.library.custom_op("tiles::leaky_clip", mutates_args=())
    def leaky_clip(x: torch.Tensor, limit: float) -> torch.Tensor:
        if x.dtype != torch.float32:
            raise TypeError(f"leaky_clip was written for float32, not for {x.dtype}")
        return x.clamp(-limit, limit)

    @leaky_clip.register_fake
    def _(x, limit):
        return torch.empty_like(x)

    def remember(ctx, inputs, output):
        x, ctx.limit = inputs
        ctx.save_for_backward(x)

    def backward(ctx, gradient):
        (x,) = ctx.saved_tensors
        return torch.where(x.abs() <= ctx.limit, gradient, 0.1 * gradient), None

    leaky_clip.register_autograd(backward, setup_context=remember)
    return leaky_clip


leaky_clip = _register_leaky_clip()


@contextlib.contextmanager
def quiet():
    """Nothing is printed inside: exporters and tracers say much that would bury what matters here."""
    with (
        warnings.catch_warnings(),
        contextlib.redirect_stdout(io.StringIO()),
        contextlib.redirect_stderr(io.StringIO()),
    ):
        warnings.simplefilter("ignore")
        yield


class Module(nn.Module):
    """A function as a module, which is what exporters ask for."""

    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, x):
        return self.function(x)


def exports_to_onnx(function, example, dynamic_shapes):
    """Exports a function of one tensor: a function that has the engine compute it. Raises what the exporter raises."""
    module = function if isinstance(function, nn.Module) else Module(function)
    with quiet():
        program = torch.onnx.export(module, (example,), dynamo=True, verbose=False, dynamic_shapes=(dynamic_shapes,))
    session = onnxruntime.InferenceSession(program.model_proto.SerializeToString())
    name = session.get_inputs()[0].name
    return lambda x: torch.from_numpy(session.run(None, {name: x.numpy()})[0])


def open_served(path):
    """ONNX Runtime on a file, on one thread: a function of pictures, a float32 tensor, that gives logits."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])

    def serve(pictures):
        return torch.from_numpy(session.run(["logits"], {"pictures": pictures.numpy()})[0])

    return serve


def save_as_on(device, content, path):
    """`torch.save`, on a machine whose tensors are on `device`."""
    with mock.patch("torch.serialization.location_tag", lambda storage: device):
        torch.save(content, path)


# %% [markdown]
# ## 1. "The camera sees what nobody else sees"
#
# > *From the people at the camera:* we send you the same two scenes that you trained on. Your service might as well toss a
# > coin, and it is always sure of itself.
# >
# > *From the operations team:* we logged what goes into the network. In the training notebook the numbers lie between -2.2
# > and 2.7. Here they are in the hundreds, or thousands.
# >
# > *From the imaging team:* somebody has drawn what arrives. It is white all over; and when we correct that by hand, red is
# > blue, and fine patterns are gone.
#
# <details><summary>Hint 1: where to look</summary>
#
# The cell below draws what the network is given, beside what it was trained on, and measures it channel by channel. There
# are three separate things to find; repairing the one that shouts does not repair the others.
#
# </details>
#
# <details><summary>Hint 2: what to look at</summary>
#
# In which order does the camera send its channels? Which values do `MEAN` and `STD` belong to? And when a picture is made
# smaller, which of its pixels have a part in a pixel of the result? Lesson, section *The same picture, other numbers*.
#
# </details>
#
# <details><summary>Hint 3: nearly there</summary>
#
# The last dimension is to be turned round. A division is missing before the mean goes off. And `F.interpolate` looks at
# four pixels, however many there are, unless it is told otherwise.
#
# </details>


# %% nbgrader={"grade": false, "grade_id": "to_input-code", "locked": false, "schema_version": 3, "solution": true, "task": false}
def to_input(picture, size):
    """A raw picture from the camera as the network was trained to see it: float32 (3, size, size).

    picture: uint8 (H, W, 3), any H and W from 1 on, in any layout in memory; its channels are blue, green, red. It stays
    as it is.

    The result has the channels red, green, blue. The whole picture is brought to size by size pixels, whatever its shape,
    larger or smaller, by bilinear interpolation with antialiasing: where it gets smaller, all pixels in reach of the
    widened triangle have their share (`antialias=True` of `F.interpolate`, and `Image.resize` of Pillow; corners are not
    aligned). Values are from 0 to 1, then `MEAN` is taken off and the result divided by `STD`, each channel its own.

    Whether values are rounded to whole grey levels on the way is left open: before `MEAN` and `STD`, every value is within
    one grey level, 1/255, of the exact one.
    """
    ### BEGIN SOLUTION E4
    channels = picture.flip(-1).permute(2, 0, 1).float()
    ### BUG
    # channels = picture.permute(2, 0, 1).float()
    ### END SOLUTION
    ### BEGIN SOLUTION E4
    resized = F.interpolate(channels[None], size=(size, size), mode="bilinear", antialias=True)[0]
    ### BUG
    # resized = F.interpolate(channels[None], size=(size, size), mode="bilinear")[0]
    ### END SOLUTION
    ### BEGIN SOLUTION E4
    values = resized / 255
    ### BUG
    # values = resized
    ### END SOLUTION
    return (values - MEAN[:, None, None]) / STD[:, None, None]


# %%
net = trained_net()
seen, seen_labels = tiles(200, 32, seed=2)
trained_on = prepared(seen)
shot, shot_labels = tiles(200, 97, seed=2, photographs=PHOTOGRAPHS)
arrived = torch.stack([to_input(picture, 32) for picture in shot.flip(-1)])  # the camera sends blue, green, red

for name, inputs, truth in (("in training", trained_on, seen_labels), ("from the camera", arrived, shot_labels)):
    channels = ", ".join(f"{value:.2f}" for value in inputs.mean(dim=(0, 2, 3)).tolist())
    print(f"{name:16} from {inputs.min():7.1f} to {inputs.max():7.1f}, mean of each channel {channels},", end=" ")
    print(f"right: {accuracy(net, inputs, truth):.0f} %")

stripes = torch.zeros(128, 128, 3, dtype=torch.uint8)
stripes[:, ::4] = 255  # a quarter of all pixels is white: from afar, an even grey
raw, _ = tiles(1, 140, seed=5, photographs=PHOTOGRAPHS)
figure, axes = plt.subplots(1, 4, figsize=(9, 2.4))
pictures = {"camera: a flower": raw[0], "camera: stripes": stripes}
for axis, (title, picture) in zip(axes[::2], pictures.items(), strict=True):
    axis.imshow(picture)
    axis.set_title(title, fontsize=9)
for axis, picture in zip(axes[1::2], pictures.values(), strict=True):
    drawn = to_input(picture.flip(-1), 32).permute(1, 2, 0) * STD + MEAN
    axis.imshow(drawn.clamp(0, 1))
    axis.set_title("as the network gets it", fontsize=9)
for axis in axes:
    axis.set_axis_off()
show_figure(
    "Pictures: a flower as the camera sends it and as the network gets it; then stripes, a quarter of them white, likewise."
)

# %% nbgrader={"grade": true, "grade_id": "to_input", "locked": true, "schema_version": 3, "solution": false, "task": false, "points": 4}
check("to_input")

# %% [markdown]
# ## 2. "It cannot be converted"
#
# > *From the serving team:* the engine refuses the model: it has never heard of `leaky_clip`, and neither has the
# > exporter. Without that operator the model is worth nothing, you say. Then say it in words that the engine knows.
# >
# > *From the numerics team:* we check gradients in float64. Your function gives back float32, whatever we give it.
# >
# > *From the research team:* change what you like, but units that are at their limit must go on learning as they do. This
# > is what the operator is for.
#
# <details><summary>Hint 1: where to look</summary>
#
# The cell below shows values and gradients around the limits, what the exporter says, and what becomes of a float64. Then
# read the operator, in the cell of what is given: what it does forwards is one thing, what it does backwards another.
#
# </details>
#
# <details><summary>Hint 2: what to look at</summary>
#
# Forwards, one well-known function is enough. Which gradient does it have by itself inside, outside, and exactly at the
# limits? What does `detach` do to a value, and what to its gradient? Lesson, section *Operators that the engine has not*.
#
# </details>
#
# <details><summary>Hint 3: nearly there</summary>
#
# `z - z.detach()` is zero, and yet has the gradient of z. So the values may come from one expression and the gradient from
# another. Mind the order of the additions: a small number that is added to a large one gets rounded.
#
# </details>


# %% nbgrader={"grade": false, "grade_id": "soft_clip-code", "locked": false, "schema_version": 3, "solution": true, "task": false}
def soft_clip(x, limit):
    """x, limited to the interval from -limit to limit; what is outside goes on learning, at a tenth of the speed.

    x: float32 or float64, finite, however large, of any shape and layout; it stays as it is. limit: a float above 0.
    Returns a new tensor of the same shape and dtype, as precise as the dtype: x where it is within the interval, else the
    limit that is nearest.

    The gradient with respect to x is the one that arrives where x is within the interval, its ends included, and a tenth of
    it outside. In float32, values and gradient are those of `leaky_clip`.

    Made of PyTorch's own operators, so that `torch.onnx.export` can convert it, and what comes out runs in ONNX Runtime.
    """
    ### BEGIN SOLUTION E7
    values = x
    ### BUG
    # values = x.float()  # the operator was written for float32
    ### END SOLUTION
    ### BEGIN SOLUTION E7
    slope = torch.where(values.abs() <= limit, values, 0.1 * values)
    return values.clamp(-limit, limit).detach() + (slope - slope.detach())
    ### BUG
    # return leaky_clip(values, limit)
    ### END SOLUTION


# %%
around = torch.tensor([-30.0, -2.0, -1.0, 0.5, 2.0, 2.5], requires_grad=True)
clipped = soft_clip(around, 2.0)
(gradient,) = torch.autograd.grad(clipped.sum(), around)
print("x:       ", *(f"{value:6.1f}" for value in around.tolist()))
print("clipped: ", *(f"{value:6.1f}" for value in clipped.tolist()))
print("gradient:", *(f"{value:6.1f}" for value in gradient.tolist()))
try:
    print("float64:  becomes", soft_clip(torch.ones(3, dtype=torch.float64), 2.0).dtype)
except Exception as error:
    print("float64: ", error)
try:
    served = exports_to_onnx(lambda x: soft_clip(x, 2.0), around.detach(), {0: FREE})
    print("ONNX:     exported; the engine says", served(around.detach()).tolist())
except Exception as error:
    reasons = [line for line in str(error).splitlines() if "No ONNX function" in line] or [str(error)]
    print("ONNX:     refused:", reasons[0].partition(": ")[2].partition(". Failure")[0] or reasons[0][:200])

# %% nbgrader={"grade": true, "grade_id": "soft_clip", "locked": true, "schema_version": 3, "solution": false, "task": false, "points": 3}
check("soft_clip")

# %% [markdown]
# ## 3. "At night it is as dark as ever"
#
# > *From the serving team:* one function cannot be exported with `torch.export`: something about data-dependent
# > expressions. The old tracer took it without complaint, except for a warning. Now the exported model brightens every
# > picture, or none; it depends on who did the export.
# >
# > *From the people at the camera:* a picture that was bright enough when sent alone comes out otherwise when there are
# > others in its batch.
# >
# > *From the night watch:* with the cap on the lens, the service sends us "not a number".
#
# <details><summary>Hint 1: where to look</summary>
#
# The cell below sends a dark picture, a bright one and a black one, alone and together, and then lets a tracer and
# `torch.export` have the function. Which decision is taken for whom, and when?
#
# </details>
#
# <details><summary>Hint 2: what to look at</summary>
#
# An `if` of Python needs one answer, now. What is needed is an answer for each picture, and whenever the model runs. Which
# function of tensors takes from two tensors by a third? Lesson, section *The example took one branch*.
#
# </details>
#
# <details><summary>Hint 3: nearly there</summary>
#
# `torch.where` computes both sides, everywhere. So a side that is not taken must be free of divisions by zero too: what is
# thrown away as a value comes back as a gradient of zero times infinity. Put a harmless number into the divisor first.
#
# </details>


# %% nbgrader={"grade": false, "grade_id": "lighten-code", "locked": false, "schema_version": 3, "solution": true, "task": false}
DUSK = 0.25  # a picture whose mean is below this is brightened
BRIGHT = 0.5  # the mean that it is brought to, before it is limited to 1


def lighten(pictures):
    """Brightens the dark pictures of a batch, and no others.

    pictures: float32 or float64 (N, C, H, W) with values from 0 to 1, N from 1 on. Not changed.
    Returns a tensor of the same shape and dtype. Each picture is looked at by itself: if its mean, over all channels and
    pixels, is below `DUSK`, all its values are multiplied by `BRIGHT` / mean and limited to at most 1; otherwise it comes
    back with the values it has. A picture that is black all over stays black.

    Gradients are those of this rule, the mean's part in it included; that of a black picture is the gradient that arrives,
    as if it came back with the values it has. They are finite for all pictures, black or with black pixels.

    Can be exported by `torch.export` and `torch.onnx.export`, with N, H and W left open and with any example; the exported
    model follows the rule for any picture of any batch.
    """
    ### BEGIN SOLUTION E1
    mean = pictures.mean(dim=(1, 2, 3), keepdim=True)
    ### BUG
    # mean = pictures.mean()
    ### END SOLUTION
    ### BEGIN SOLUTION E1
    dark = (mean > 0) & (mean < DUSK)
    brightened = (pictures * (BRIGHT / torch.where(dark, mean, 1.0))).clamp(max=1)  # no division by the other means
    ### BUG
    # dark = mean < DUSK
    # brightened = (pictures * (BRIGHT / mean)).clamp(max=1)
    ### END SOLUTION
    ### BEGIN SOLUTION E1
    return torch.where(dark, brightened, pictures)
    ### BUG
    # return brightened if bool(dark.all()) else pictures
    ### END SOLUTION


# %%
pattern = torch.linspace(0, 1, 64).view(1, 1, 8, 8).expand(1, 3, 8, 8)  # the mean is 0.5
samples = {"dark": 0.2 * pattern, "bright": pattern, "black": 0 * pattern}
together = lighten(torch.cat(list(samples.values())))
for (name, sample), of_batch in zip(samples.items(), together, strict=True):
    print(f"{name:7} mean {sample.mean():.2f}; lightened alone {lighten(sample).mean():.2f}, in a batch ", end="")
    print(f"{of_batch.mean():.2f}")
for name, sample in samples.items():
    with quiet():  # the tracer warns, and is deprecated besides
        traced = torch.jit.trace(lighten, sample, check_trace=False)
    means = ", ".join(f"{other} {traced(values).mean():.2f}" for other, values in samples.items())
    print(f"traced with the {name} picture, the means are: {means}")
try:
    with quiet():
        exported = torch.export.export(Module(lighten), (samples["bright"],)).module()
    print("torch.export:", ", ".join(f"{name} {exported(sample).mean():.2f}" for name, sample in samples.items()))
except Exception as error:
    print("torch.export refuses it:", str(error).strip().partition(" (")[0])

# %% nbgrader={"grade": true, "grade_id": "lighten", "locked": true, "schema_version": 3, "solution": false, "task": false, "points": 4}
check("lighten")

# %% [markdown]
# ## 4. "It asks for a card that we have not got"
#
# > *From the serving team:* the checkpoint cannot be opened on our machines. They have no graphics cards and never will.
# >
# > *From the security team:* your checkpoints come from outside, and opening one can run any program that its author cares
# > to put into it. This is going to stop.
# >
# > *From the operations team:* last week somebody deployed the checkpoint of another model. It was loaded without a word,
# > and then it guessed.
# >
# > *From the people at the lens:* our correction is not in the checkpoint. In half precision it stops the model, and on any
# > device but the one that it thinks is there, too.
#
# <details><summary>Hint 1: where to look</summary>
#
# The cell below tries each of these in turn. Three things are to be repaired in `load_model`; in `Shading`, one idea
# repairs both of its lines.
#
# </details>
#
# <details><summary>Hint 2: what to look at</summary>
#
# Which arguments does `torch.load` have for where tensors go, and for what a file may contain? What does `load_state_dict`
# do with names that do not fit? And what does a module know about its tensors that are no parameters? Lesson, section
# *Devices that came along*.
#
# </details>
#
# <details><summary>Hint 3: nearly there</summary>
#
# A tensor that belongs to a module and is not trained is a buffer: it is saved, loaded, moved and converted with the rest,
# and where it is used nothing has to be said about devices or dtypes any more.
#
# </details>


# %% nbgrader={"grade": false, "grade_id": "load_model-code", "locked": false, "schema_version": 3, "solution": true, "task": false}
class Shading(nn.Module):
    """Evens out what a lens does to colours: each channel of the pictures times a gain of its own.

    gains: C numbers (a list of floats), float32 to begin with. They are not trained, and no parameter; they are in the
    module's `state_dict` under the name "gains", shape (C,), and come back from there.

    The module goes where it is sent, as any module does: after `.to(...)` it is on that device ("meta" is one as well) and
    of that dtype. It takes pictures (N, C, H, W) that are on its device and of its dtype, and so is what it returns.
    """

    def __init__(self, gains):
        super().__init__()
        ### BEGIN SOLUTION E8
        self.register_buffer("gains", torch.tensor(gains))
        ### BUG
        # self.gains = torch.tensor(gains)
        ### END SOLUTION

    def forward(self, pictures):
        ### BEGIN SOLUTION E8
        gains = self.gains
        ### BUG
        # here = "cuda" if torch.cuda.is_available() else "cpu"
        # gains = torch.as_tensor(self.gains, dtype=torch.float32, device=here)
        ### END SOLUTION
        return pictures * gains[:, None, None]


def load_model(model, path):
    """Fill a model with what a checkpoint holds; returns that same model.

    path: a file that `torch.save` has written on any machine, also one with devices that this one does not have. It holds
    a dict with the model's `state_dict` under "model"; anything else in there is none of our business.

    All parameters and buffers of the model get the saved values, as near as their dtype allows. They stay the tensors they
    are, on their device and of their dtype; so does the model's mode.

    Where names or shapes in the file are not those of the model's `state_dict`, as a strict `load_state_dict` judges it,
    raises a RuntimeError that has the names. A file that holds more than tensors, numbers, strings and plain containers
    of these is refused with a `pickle.UnpicklingError`; opening a file never runs code from it.
    """
    ### BEGIN SOLUTION E8
    saved = torch.load(path, map_location="cpu", weights_only=True)
    ### BUG
    # saved = torch.load(path, weights_only=False)
    ### END SOLUTION
    ### BEGIN SOLUTION E8
    model.load_state_dict(saved["model"])
    ### BUG
    # model.load_state_dict(saved["model"], strict=False)
    ### END SOLUTION
    return model


# %%
class Surprise:
    """Something that, once in a file, calls a function when the file is opened."""

    def __reduce__(self):
        return print, ("    (this line is printed by the checkpoint)",)


def attempt(what, action):
    """Prints what comes of it."""
    try:
        print(f"{what}: {action()}")
    except Exception as error:
        print(f"{what}: {type(error).__name__}: {str(error).strip().splitlines()[0].partition('. ')[0]}")


with tempfile.TemporaryDirectory() as folder:
    path = Path(folder) / "checkpoint.pt"
    blank = nn.Linear(2, 1)
    save_as_on("cuda:7", {"model": {"weight": torch.ones(1, 2), "bias": torch.zeros(1)}}, path)
    attempt("saved on the card cuda:7", lambda: load_model(blank, path).weight.tolist())
    torch.save({"model": {"kernel": torch.ones(1, 2)}}, path)
    attempt("a checkpoint of another model", lambda: load_model(blank, path).weight.tolist())
    torch.save({"model": blank.state_dict(), "note": Surprise()}, path)
    attempt("a checkpoint with a surprise", lambda: load_model(blank, path) and "loaded")
    attempt("the correction in a checkpoint", lambda: list(Shading([1.1, 1.0, 0.9]).state_dict()))
    half = torch.ones(1, 3, 2, 2, dtype=torch.bfloat16)
    attempt("bfloat16 becomes", lambda: Shading([1.1, 1.0, 0.9]).to(torch.bfloat16)(half).dtype)
    attempt("on another device", lambda: Shading([1.1, 1.0, 0.9]).to("meta")(half.float().to("meta")).device)

# %% nbgrader={"grade": true, "grade_id": "load_model", "locked": true, "schema_version": 3, "solution": false, "task": false, "points": 3}
check("load_model")

# %% [markdown]
# ## 5. "Folded once, and wrong ever since"
#
# > *From the serving team:* your script folds each BatchNorm into the convolution before it, so that there is less to
# > compute. The folded network answers otherwise than the one it was made of. The layers without a bias are better.
# >
# > *From the quantisation team:* some channels have become enormous, or "not a number": those that are hardly ever active.
# >
# > *From the training team:* somebody folded a network in the middle of training. It did not complain, and afterwards our
# > BatchNorm had another mode.
#
# <details><summary>Hint 1: where to look</summary>
#
# The cell below folds layers of several kinds and compares them. Write down what the convolution and the BatchNorm do with
# one number, one after the other, and multiply it out.
#
# </details>
#
# <details><summary>Hint 2: what to look at</summary>
#
# Where is the convolution's bias in your line? What is under the root? And which statistics does a BatchNorm use in which
# mode? Lesson, section *Folding BatchNorm*.
#
# </details>
#
# <details><summary>Hint 3: nearly there</summary>
#
# The mean is taken off what comes *out of* the convolution, its bias included. `eps` is added to the variance, not to the
# deviation. And something that depends on the batch cannot be folded into weights at all.
#
# </details>


# %% nbgrader={"grade": false, "grade_id": "fold_batchnorm-code", "locked": false, "schema_version": 3, "solution": true, "task": false}
def fold_batchnorm(conv, norm):
    """One convolution that does what `norm(conv(x))` does.

    conv: an `nn.Conv2d`, of any stride, padding, dilation and number of groups, with or without a bias. norm: an
    `nn.BatchNorm2d` for its output that uses its running statistics, with weights of its own or without (`affine=False`).
    Both are float32 or float64, both the same.

    Returns a new `nn.Conv2d` with a bias, on the same device and of the same dtype, whose results and gradients with respect
    to x are those of `norm(conv(x))` within 1e-5 (float64: 1e-10), relative to the largest of the same channel. Its
    parameters are leaves that can be trained.

    `conv` and `norm` stay as they are, values, gradients and mode, and share no memory with the new layer. A `norm` that
    would use the statistics of the batch, since it is in train mode or keeps no running ones, cannot be folded: raises a
    ValueError. The mode of `conv` does not matter.
    """
    ### BEGIN SOLUTION E6
    if norm.training or norm.running_mean is None:
        raise ValueError("the BatchNorm uses the statistics of the batch, which no weights can stand for")
    ### BUG
    # norm.eval()
    ### END SOLUTION
    folded = copy.deepcopy(conv)
    gamma = torch.ones_like(norm.running_var) if norm.weight is None else norm.weight
    beta = torch.zeros_like(norm.running_mean) if norm.bias is None else norm.bias
    with torch.no_grad():
        ### BEGIN SOLUTION E6
        scale = gamma / torch.sqrt(norm.running_var + norm.eps)
        ### BUG
        # scale = gamma / torch.sqrt(norm.running_var)
        ### END SOLUTION
        ### BEGIN SOLUTION E6
        bias = torch.zeros_like(scale) if conv.bias is None else conv.bias
        shift = beta + (bias - norm.running_mean) * scale
        ### BUG
        # shift = beta - norm.running_mean * scale
        ### END SOLUTION
        folded.weight = nn.Parameter(conv.weight * scale[:, None, None, None])
        folded.bias = nn.Parameter(shift)
    return folded


# %%
torch.manual_seed(0)
x = torch.randn(4, 3, 12, 12)


def layers(bias, variance):
    """A convolution and a BatchNorm that has seen something; the variance of its first channel is chosen."""
    conv, norm = nn.Conv2d(3, 4, 3, bias=bias), nn.BatchNorm2d(4)
    norm.running_mean.copy_(torch.tensor([0.1, -0.4, 0.3, 0.8]))
    norm.running_var.copy_(torch.tensor([variance, 0.5, 2.0, 1.2]))
    return conv, norm.eval()


for title, conv, norm in (
    ("no bias", *layers(False, 1.0)),
    ("with a bias", *layers(True, 1.0)),
    ("no bias, a channel that hardly varies", *layers(False, 1e-6)),
    ("no bias, a channel that does not vary", *layers(False, 0.0)),
):
    expected = norm(conv(x))
    difference = (fold_batchnorm(conv, norm)(x) - expected).abs().max() / expected.abs().max()
    print(f"{title:38} largest difference, relative to the largest number: {difference.item():.1g}")
conv, norm = layers(False, 1.0)
try:
    fold_batchnorm(conv, norm.train())
    print(f"in the middle of training: folded; the BatchNorm's train mode is now {norm.training}")
except ValueError as error:
    print(f"in the middle of training: {error}")

# %% nbgrader={"grade": true, "grade_id": "fold_batchnorm", "locked": true, "schema_version": 3, "solution": false, "task": false, "points": 3}
check("fold_batchnorm")

# %% [markdown]
# ## 6. "Your file works, as long as I send what you sent"
#
# > *From the people who serve it:* two pictures of 32 × 40 pixels get an answer. One picture gets an error, and so does
# > any other size. On the second machine, where we had copied `model.onnx` to, it did not even open.
# >
# > *From the evaluation team:* of `model.pt2` we get another answer each time that we ask, and a picture's answer
# > depends on who else is in the batch.
# >
# > *From the training team:* after an export, our runs cannot be repeated. We draw other random numbers than without
# > it.
#
# <details><summary>Hint 1: where to look</summary>
#
# The cell below asks both files for the same pictures, in batches of several sizes, and lists what is in the folder.
# Which of the numbers of the example could have become part of the file?
#
# </details>
#
# <details><summary>Hint 2: what to look at</summary>
#
# What does a layer of dropout do in the mode in which the model arrives? What may differ from call to call has to be
# named by whoever exports. Lesson, sections *Another size at the door* and *Train mode goes along*.
#
# </details>
#
# <details><summary>Hint 3: nearly there</summary>
#
# There are four things to repair: a copy of the model can have a mode of its own; `dynamic_shapes` leaves sizes open,
# if the example has none that is 1; an example need not be random; and the weights can go into the file itself.
#
# </details>


# %% nbgrader={"grade": false, "grade_id": "export_model-code", "locked": false, "schema_version": 3, "solution": true, "task": false}
def export_model(model, folder):
    """Write a model for those who serve it: `model.pt2`, for `torch.export.load`, and `model.onnx`, for ONNX Runtime.

    model: takes prepared pictures, float32 (n, 3, h, w), to logits, float32 (n, k). Its parameters and buffers are on
    the CPU, and each of its modules is in train or in eval mode, as it happens. `torch.export` can export it with n, h
    and w left open. folder: a string; the folder is there, and empty.

    Both files answer pictures of any n from 1 and any h and w from 16 on, h and w different or not. The answers are
    those of the model in eval mode; the largest difference is below 1e-4 of the largest logit. Each file is complete:
    it works in a process that has neither the other file nor the model's class, and nothing else is in the folder. In
    `model.onnx` the input is called "pictures" and the output "logits", and one small picture is answered at least
    twice as fast as by the model in PyTorch, both on one thread.

    Afterwards the model is as it was: the mode of each module, parameters, `requires_grad`, gradients and buffers. So
    is the state of torch's random numbers. Returns None.
    """
    ### BEGIN SOLUTION E5
    network = copy.deepcopy(model).eval()
    ### BUG
    # network = model
    ### END SOLUTION
    ### BEGIN SOLUTION E5
    example = torch.zeros(2, 3, 32, 40)
    ### BUG
    # example = torch.randn(2, 3, 32, 40)
    ### END SOLUTION
    ### BEGIN SOLUTION E3
    open_sizes = {0: torch.export.Dim.DYNAMIC, 2: torch.export.Dim.DYNAMIC, 3: torch.export.Dim.DYNAMIC}
    program = torch.export.export(network, (example,), dynamic_shapes=(open_sizes,))
    ### BUG
    # program = torch.export.export(network, (example,))
    ### END SOLUTION
    torch.export.save(program, os.path.join(folder, "model.pt2"))
    ### BEGIN SOLUTION E11
    more = {"external_data": False}
    ### BUG
    # more = {}
    ### END SOLUTION
    path = os.path.join(folder, "model.onnx")
    torch.onnx.export(program, (), path, input_names=["pictures"], output_names=["logits"], verbose=False, **more)


# %%
model = trained_net().train()  # as training leaves it
in_eval_mode = copy.deepcopy(model).eval()
with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryDirectory() as elsewhere:
    torch.manual_seed(0)
    export_model(model, folder)
    print("a random number after the export:", f"{torch.rand(()):.4f};", end=" ")
    torch.manual_seed(0)
    print("without one:", f"{torch.rand(()):.4f}")
    print("in the folder:", ", ".join(sorted(os.listdir(folder))))
    for name in ("model.pt2", "model.onnx"):
        with open(os.path.join(folder, name), "rb") as file, open(os.path.join(elsewhere, name), "wb") as copied:
            copied.write(file.read())
        try:
            path = os.path.join(elsewhere, name)
            serve = open_served(path) if name.endswith("onnx") else torch.export.load(path).module()
        except Exception as error:
            print(f"{name}, copied to another folder, does not open: {type(error).__name__}")
            path = os.path.join(folder, name)
            serve = open_served(path)
        for size in ((2, 3, 32, 40), (1, 3, 32, 40), (5, 3, 48, 40)):
            pictures = torch.randn(size)
            with torch.no_grad():
                expected = in_eval_mode(pictures)
                try:
                    off = (serve(pictures) - expected).abs().max() / expected.abs().max()
                    print(f"{name}, pictures {size}: off by {off:.1e} of the largest logit")
                except Exception as error:
                    print(f"{name}, pictures {size}: {type(error).__name__}")

# %% nbgrader={"grade": true, "grade_id": "export_model", "locked": true, "schema_version": 3, "solution": false, "task": false, "points": 5}
check("export_model")

# %% [markdown]
# ## 7. "We did compare"
#
# There was a comparison before each release. It sent one picture and looked whether the answers were nearly the same.
# It is below. Every broken release of last year went through it.
#
# `check_served(serve, model)` gets a served model and the model that it was made from. It returns if what is served is
# right and raises (an `assert` will do) if not. It will be tried on right ones of many kinds and on wrong ones.
#
# <details><summary>Hint 1: where to look</summary>
#
# Write down what the complaints of this exercise were about. Which of them would show with one picture of noise?
#
# </details>
#
# <details><summary>Hint 2: what to look at</summary>
#
# How many pictures, of which brightness, in batches of which sizes? What does the model's own mode do to the answers
# that you compare with? And what compares as false with everything? Lesson, sections *Parity, in another process* and
# *A test for a served model*.
#
# </details>
#
# <details><summary>Hint 3: nearly there</summary>
#
# A hundred pictures, some of them dark, some bright and some of one colour; batches of 1, 2, 5 and more; sizes that are
# not square; the same once more; pictures that have not been changed; and one number for the difference: the largest,
# over the largest logit.
#
# </details>


# %% nbgrader={"grade": false, "grade_id": "check_served-code", "locked": false, "schema_version": 3, "solution": true, "task": false}
def check_served(serve, model):
    """Raise an exception unless a served model gives the answers of the model that it was made from.

    model: takes prepared pictures, float32 (n, 3, h, w), to logits (n, k). A picture whose mean, over all that is in
    it, is below DARK goes through another branch than the others. The model may be in any mode, and its layers may well
    behave otherwise in train mode than in eval mode. Parameters and buffers are float32, on the CPU.

    `serve(pictures)` is right if, for pictures with any n from 1 and any h and w from 16 on, on either side of DARK, it
    returns a float32 tensor (n, k) with the logits of the model in eval mode: the largest difference over a batch is
    below 1e-4 of the batch's largest logit. A picture's answer depends on nothing but this picture: not on what is in
    the batch with it, nor on what was asked before. `pictures` stays as it is. Right ones are off by rounding errors:
    by less than 1e-5. Wrong ones are off by more than 1e-3, or no numbers at all, for at least one in ten pictures of
    some kind: nearly black, nearly white or in between, grey or of one colour, square or not.

    Afterwards the model is as it was: parameters, buffers, gradients and the mode of each module.
    """
    ### BEGIN SOLUTION E2
    network = copy.deepcopy(model).eval()
    generator = torch.Generator().manual_seed(0)

    def compare(pictures):
        with torch.no_grad():
            expected = network(pictures)
        sent = pictures.clone()
        found = serve(sent)
        assert torch.equal(sent, pictures), "the pictures have been changed"
        assert found.shape == expected.shape and found.dtype == torch.float32, f"{found.dtype}, {tuple(found.shape)}"
        off = ((found - expected).abs().max() / expected.abs().max()).item()
        assert off < 1e-4, f"pictures {tuple(pictures.shape)}: off by {off:.1e} of the largest logit"  # nor is nan

    for height, width in ((32, 32), (16, 45)):
        for n in (1, 2, 5, 60, 1, 7, 40):
            brightness = torch.empty(n, 1, 1, 1).uniform_(-2.5, 2.5, generator=generator)
            colours = torch.randn(n, 3, 1, 1, generator=generator)
            pictures = brightness + 0.5 * colours + 0.5 * torch.randn(n, 3, height, width, generator=generator)
            for _ in range(2):
                compare(pictures)
            compare(pictures.flip(0))
    ### BUG
    # picture = torch.ones(1, 3, 32, 32)
    # found, expected = serve(picture), model.eval()(picture)
    # assert (found - expected).abs().mean() < 1.0, "the answers differ"
    ### END SOLUTION


# %%
class Untrained(nn.Module):
    """A small model with two branches and no layer that has a mode."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(1)
        self.layer = nn.Conv2d(3, 2, 3, padding=1)

    def forward(self, pictures):
        dark = pictures.mean(dim=(1, 2, 3), keepdim=True) < DARK
        return self.layer(torch.where(dark, 2 * pictures + 3, pictures)).mean(dim=(2, 3))


untrained = Untrained()


def knows_one_branch(pictures):
    """What an exporter makes of a branch if its example was bright."""
    with torch.no_grad():
        return untrained.layer(pictures).mean(dim=(2, 3))


def knows_one_size(pictures):
    """What an exporter makes of a batch if its example had one picture."""
    with torch.no_grad():
        return untrained(pictures[:1])


for name, serve in {"one branch only": knows_one_branch, "one picture only": knows_one_size}.items():
    try:
        check_served(serve, untrained)
        print(f"A served model that knows {name}: the test finds nothing wrong with it.")
    except Exception as error:
        print(f"A served model that knows {name}: {error}")

# %% nbgrader={"grade": true, "grade_id": "check_served", "locked": true, "schema_version": 3, "solution": false, "task": false, "points": 4}
check("check_served")

# %% [markdown]
# ## 8. "A third of the size, and a third of the answers wrong"
#
# > *From the platform team:* the int8 model is small and quick, as promised. We put it on all the boxes.
# >
# > *From the people who look at the answers:* a third of them are wrong that were right before. No error anywhere.
# >
# > *From the modelling team:* even when we give it its numbers by hand, the answers are off where weights are small.
#
# <details><summary>Hint 1: where to look</summary>
#
# int8 has 256 steps. Somebody has to say over which range they are spread: for each tensor that flows, and for each
# weight. The cell below shows what the quantiser had to go by.
#
# </details>
#
# <details><summary>Hint 2: what to look at</summary>
#
# What does the first layer get when the model is served, and what did it get here? How many pictures has the quantiser
# seen? How many weights share one range? Lesson, section *Eight bits*.
#
# </details>
#
# <details><summary>Hint 3: nearly there</summary>
#
# There are three things to repair: calibrate on what the model is served, on all of it, and let each channel's weights
# have a range of their own; `quantize_static` has a word for that.
#
# </details>


# %% nbgrader={"grade": false, "grade_id": "quantise-code", "locked": false, "schema_version": 3, "solution": true, "task": false}
def quantise(model_path, pictures, target_path):
    """Write the int8 form of an ONNX model, by static quantisation, for ONNX Runtime on a CPU.

    model_path: the file of a model whose input "pictures" are prepared pictures, float32 (n, 3, h, w), and whose output
    "logits" is float32 (n, k). Convolutions, the linear layer and activations make up the model; BatchNorm is folded.
    pictures: uint8 (m, h, w, 3), RGB, as they come in, m up to a few hundred: a sample of what the model will be
    served, in no particular order. target_path: the file to write.

    Served by ONNX Runtime, the new model's convolutions and linear layers are all computed in int8, weights and what
    flows into them. On pictures such as the sample, its logits differ from the old ones by less than 0.05 of their
    norm, over all pictures together, and 98 of 100 have the same class; weights that are small keep their values beside
    channels of the same layer whose weights are large. Where the weights are many, the file has at most 0.35 of the old
    one's bytes. It is faster than the old one by at least the root of what int8 can gain here.

    The old file and the pictures stay as they are, and nothing but the new file is written to its folder. Returns None.
    """

    class Calibration(CalibrationDataReader):
        """Hands the quantiser one batch after the other."""

        def __init__(self, inputs):
            self.batches = iter(inputs.split(16))

        def get_next(self):
            batch = next(self.batches, None)
            return None if batch is None else {"pictures": batch.numpy()}

    ### BEGIN SOLUTION E9
    sample = pictures
    ### BUG
    # sample = pictures[:1]
    ### END SOLUTION
    ### BEGIN SOLUTION E9
    inputs = prepared(sample)
    ### BUG
    # inputs = sample.permute(0, 3, 1, 2).float().contiguous()
    ### END SOLUTION
    ### BEGIN SOLUTION E9
    ranges = {"per_channel": True}
    ### BUG
    # ranges = {"per_channel": False}
    ### END SOLUTION
    quantize_static(
        model_path,
        target_path,
        Calibration(inputs),
        quant_format=QuantFormat.QDQ,
        activation_type=QuantType.QInt8,
        weight_type=QuantType.QInt8,
        **ranges,
    )


# %%
def exported_plainly(model, path):
    """An ONNX file of a model in eval mode, for one picture of 32 by 32 or several."""
    network = copy.deepcopy(model).eval()
    sizes = ({0: torch.export.Dim.DYNAMIC},)
    names = {"input_names": ["pictures"], "output_names": ["logits"]}
    example = torch.zeros(2, 3, 32, 32)
    torch.onnx.export(network, (example,), path, dynamic_shapes=sizes, external_data=False, verbose=False, **names)


def seconds(serve, pictures):
    """The least of 20 times."""
    times = []
    for _ in range(20):
        begin = time.perf_counter()
        serve(pictures)
        times.append(time.perf_counter() - begin)
    return min(times)


torch.manual_seed(0)
wide = nn.Sequential(  # the weights are many, so a quarter of them is nearly a quarter of the file
    nn.Conv2d(3, 32, 3, padding=1),
    nn.ReLU(),
    nn.Conv2d(32, 128, 3, stride=2, padding=1),
    nn.ReLU(),
    nn.AdaptiveAvgPool2d(1),
    nn.Flatten(),
    nn.Linear(128, 2),
)
pictures, labels = tiles(512, seed=1)
optimiser = torch.optim.Adam(wide.parameters(), lr=3e-3)
for x, y in zip(prepared(pictures).split(32), labels.split(32), strict=True):
    optimiser.zero_grad()
    F.cross_entropy(wide(x), y).backward()
    optimiser.step()
with torch.no_grad():  # as after folding a BatchNorm: one channel is sixty times as large as the others,
    wide[0].weight[0] *= 60  # and the next layer makes up for it
    wide[0].bias[0] *= 60
    wide[2].weight[:, 0] /= 60
with tempfile.TemporaryDirectory() as folder:
    paths = [os.path.join(folder, name) for name in ("float32.onnx", "int8.onnx")]
    exported_plainly(wide, paths[0])
    quantise(paths[0], tiles(64, seed=2)[0], paths[1])
    pictures, labels = tiles(400, seed=3)
    logits = [open_served(path)(prepared(pictures)) for path in paths]
    for path, found in zip(paths, logits, strict=True):
        right = (found.argmax(dim=1) == labels).float().mean()
        took = seconds(open_served(path), prepared(pictures[:16]))
        print(f"{os.path.basename(path):12} {os.path.getsize(path):7,} bytes, {right:.0%} right, {1e3 * took:.2f} ms")
    print(f"the logits differ by {(logits[1] - logits[0]).norm() / logits[0].norm():.2f} of their norm")

# %% nbgrader={"grade": true, "grade_id": "quantise", "locked": true, "schema_version": 3, "solution": false, "task": false, "points": 4}
check("quantise")

# %% [markdown]
# ## 9. "On average it is fine"
#
# > *From the people who serve it:* your report has a P50 of five milliseconds. Nobody has ever seen five milliseconds:
# > it takes a fraction of one, or more than fifty.
# >
# > *From the operations team:* it is worst after a restart, and gets better over the day. The engine keeps all of it in
# > memory: for each batch size that anybody has sent.
# >
# > *From a client:* I kept your answers for a while, and then they were someone else's.
#
# <details><summary>Hint 1: where to look</summary>
#
# The cell below prints for how many shapes the engine has prepared itself, and the latencies beside the report. Could
# any request have taken as long as the report says for 99 %?
#
# </details>
#
# <details><summary>Hint 2: what to look at</summary>
#
# A batch may hold more pictures than were asked about. Whose memory does an answer lie in? What does a formula assume
# that turns a mean and a deviation into a percentile? Lesson, section *The slowest of a hundred*.
#
# </details>
#
# <details><summary>Hint 3: nearly there</summary>
#
# There are four things to repair: cut and fill up requests to the sizes given; call the engine once with each of them
# before the clock matters; keep a copy of what it answers; and take percentiles from the sorted latencies.
#
# </details>


# %% nbgrader={"grade": false, "grade_id": "serve_requests-code", "locked": false, "schema_version": 3, "solution": true, "task": false}
def serve_requests(engine, requests, sizes, clock=time.perf_counter):
    """Answer requests, one after the other, and report how long they took.

    `engine(batch)` takes float32 (b, 3, h, w) to logits (b, k), each picture's for itself. When a shape comes for the
    first time, it prepares itself for that, which takes long. Its answer lies in memory of its own, which the next call
    may overwrite. requests: a list with at least one tensor (n, 3, h, w), n from 1 on and of any number, h and w the
    same for all. sizes: some numbers of pictures, ascending.

    Returns (answers, report). answers: for each request, in their order, the logits (n, k) of its pictures; they stay
    what they are, whatever the engine does next. report: {"p50": …, "p95": …, "p99": …}, Python floats: "p95", say, is
    the smallest of the latencies that at least 95 % of all latencies do not exceed. A request's latency is the
    difference of `clock()`, in seconds, between when it is taken up and when its answer is there.

    The engine gets batches of the given sizes only, and before the first request it has been called with each of them
    once, so that no request waits for a preparation. A request goes, by itself, into the smallest size that holds it.
    Where none does, it is cut into batches of the largest size, and what is left goes into the smallest size that holds
    that. The requests stay as they are.
    """

    def answered(pictures):
        """The logits of one request."""
        parts = []
        ### BEGIN SOLUTION E10
        for part in pictures.split(sizes[-1]):
            size = next(size for size in sizes if size >= len(part))
            filled = torch.cat([part, part.new_zeros(size - len(part), *part.shape[1:])])
            parts.append(engine(filled)[: len(part)].clone())
        ### BUG
        # parts.append(engine(pictures))
        ### END SOLUTION
        return torch.cat(parts) if len(parts) > 1 else parts[0]

    ### BEGIN SOLUTION E10
    for size in sizes:
        engine(requests[0].new_zeros(size, *requests[0].shape[1:]))
    ### BUG
    # # the engine prepares itself as it goes
    ### END SOLUTION
    answers, latencies = [], []
    for pictures in requests:
        begin = clock()
        answers.append(answered(pictures))
        latencies.append(clock() - begin)
    ### BEGIN SOLUTION E10
    ordered = sorted(latencies)
    report = {f"p{q}": ordered[math.ceil(q * len(ordered) / 100) - 1] for q in (50, 95, 99)}
    ### BUG
    # mean = sum(latencies) / len(latencies)
    # deviation = (sum((latency - mean) ** 2 for latency in latencies) / len(latencies)) ** 0.5
    # report = {"p50": mean, "p95": mean + 1.645 * deviation, "p99": mean + 2.326 * deviation}
    ### END SOLUTION
    return answers, report


# %%
class Engine:
    """Sums up each picture, and takes 50 ms to prepare itself for a new shape; `shapes` are those that it knows."""

    def __init__(self):
        self.shapes = set()
        self.memory = torch.zeros(64, 1)

    def __call__(self, batch):
        if batch.shape not in self.shapes:
            time.sleep(0.05)
            self.shapes.add(batch.shape)
        self.memory[: len(batch)] = batch.sum(dim=(1, 2, 3))[:, None]
        return self.memory[: len(batch)]


generator = torch.Generator().manual_seed(0)
lengths = torch.randint(1, 20, (200,), generator=generator).tolist()
requests = [torch.full((n, 3, 8, 8), float(i)) for i, n in enumerate(lengths)]
stamps = []


def stamped_clock():
    """The time, noted down."""
    stamps.append(time.perf_counter())
    return stamps[-1]


engine = Engine()
replies, report = serve_requests(engine, requests, [1, 4, 16], stamped_clock)
print(f"200 requests with 1 to 19 pictures: the engine has prepared itself for {len(engine.shapes)} shapes")
print("the report:", {name: f"{1e3 * value:.2f} ms" for name, value in report.items()})
took = sorted(1e3 * (after - before) for before, after in zip(stamps[::2], stamps[1::2], strict=True))
print(f"the slowest requests: {', '.join(f'{t:.2f}' for t in took[-3:])} ms; half took less than {took[100]:.2f} ms")
wrong = sum(not torch.allclose(a, x.sum(dim=(1, 2, 3))[:, None]) for a, x in zip(replies, requests, strict=True))
print(f"answers that are someone else's by now: {wrong} of 200")

# %% nbgrader={"grade": true, "grade_id": "serve_requests", "locked": true, "schema_version": 3, "solution": false, "task": false, "points": 4}
check("serve_requests")

# %% [markdown]
# ## All green?
#
# Then the sample is green. Save, and `pytest exercises` in a terminal runs the same checks on the saved file; a grade
# asks for the docstrings' promises in full. The habits to take along: bring no branch, size, mode or device of one example
# into a file; prepare pictures once, in one way; compare what is served in another process, on all kinds of input; and
# look at the slowest requests, not at the mean.
