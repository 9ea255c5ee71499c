# ---
# jupyter:
#   jupytext:
#     formats: ipynb,py:percent
#     text_representation:
#       extension: .py
#       format_name: percent
#       format_version: '1.3'
#       jupytext_version: 1.19.6
#   kernelspec:
#     display_name: Python 3 (ipykernel)
#     language: python
#     name: python3
# ---

# %% [markdown]
# # Chapter 8: export
#
# "It was right in the notebook." A trained model leaves the notebook as a file, and another program serves it. On the
# way, a branch gets lost, a size is fixed, a channel is swapped, Dropout stays on. Hardly any of it raises an error:
# the served model answers, and the answers are wrong.
#
# In this lesson, PyTorch is the notebook's side (**eager**: Python runs each operator as it comes to it), and ONNX
# Runtime is the **engine**: it reads a file in the ONNX format and needs neither PyTorch nor our classes. Other engines
# read other formats. What can go wrong is much the same everywhere.
#
# Make each prediction before you run the cell. What the text says is checked by an `assert` close by, so you can change
# the numbers and see what still holds. Everything here runs on a CPU. What the exporters do was tried with the version
# of torch that this course is pinned to; where versions are known to differ, the text says so.

# %%
import copy
import io
import json
import math
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import onnx
import onnxruntime
import torch
import torch.nn.functional as F
from explorers.parity import compare, explore_parity, quietly
from explorers.timing import JUST_NOW, cost_ratio
from onnxruntime.quantization import CalibrationDataReader, quantize_static
from torch import nn
from torch.export import Dim
from torch.nn.utils.fusion import fuse_conv_bn_eval

from autograder import plotting
from autograder.pictures import photograph

plotting.use_course_style()
torch.set_num_threads(1)  # networks as small as these only lose time by sharing the work between cores

MEAN, STD, DARK = 0.45, 0.3, 0.25


def tiles(n, size, seed):
    """Tiles of two photographs, uint8 (n, size, size, 3) in RGB, and which photograph each is from."""
    generator = torch.Generator().manual_seed(seed)
    photographs = [photograph(0), photograph(1)]  # a temple and a flower, (427, 640, 3)
    labels = torch.randint(2, (n,), generator=generator)
    cut = []
    for label in labels.tolist():
        top, left = (int(torch.randint(side - size, (), generator=generator)) for side in (427, 640))
        cut.append(photographs[label][top : top + size, left : left + size])
    return torch.stack(cut), labels


def to_input(raw):
    """From uint8 (n, height, width, 3) in RGB to what the network was trained on: (n, 3, 32, 32), 0..1."""
    x = raw.permute(0, 3, 1, 2).float() / 255
    return F.interpolate(x, size=(32, 32), mode="bilinear", antialias=True)


raw, labels = tiles(600, 72, seed=0)
pictures = to_input(raw)
pictures[::2] *= 0.3  # every second one was taken in the evening
train_x, train_y = pictures[:400], labels[:400]
test_x, test_y = pictures[400:], labels[400:]
dark = test_x.mean(dim=(1, 2, 3)) < DARK
bright_ones, dark_ones = test_x[~dark], test_x[dark]
print(f"{len(test_x)} test pictures, {len(dark_ones)} of them dark")

figure, panels = plt.subplots(1, 8, figsize=(9, 1.6))
for axes, picture, label in zip(panels, test_x, test_y, strict=False):
    axes.imshow(picture.permute(1, 2, 0))
    axes.set(title=("temple", "flower")[label], xticks=[], yticks=[])
plotting.show_figure("Pictures: tiles of the two photographs. Every second one is darkened.")

# %% [markdown]
# ## The example took one branch
#
# Our network tells the two apart. A dark picture is brightened first, by an `if`. The simplest kind of exporter,
# a **tracer**, runs the model once on an example and writes down which operators ran.
#
# **Predict:** we trace with one bright picture. What does the traced model do with a dark one? What is written down if
# the example is dark? And `torch.export`, the newer way: what does it do with the `if`?


# %%
class ByIf(nn.Module):
    """Brightens dark pictures: Python decides."""

    def forward(self, x):
        if x.mean() < DARK:
            return x.clamp(min=1e-6).sqrt()
        return x


class ByWhere(nn.Module):
    """Brightens dark pictures: a tensor decides, for each picture of the batch."""

    def forward(self, x):
        is_dark = x.mean(dim=(1, 2, 3), keepdim=True) < DARK
        return torch.where(is_dark, x.clamp(min=1e-6).sqrt(), x)


class TileNet(nn.Module):
    """(n, 3, height, width) in 0..1 to logits (n, 2)."""

    def __init__(self, lighten, width=32):
        super().__init__()
        self.lighten = lighten
        self.block1 = nn.Sequential(nn.Conv2d(3, width, 3, stride=2, padding=1), nn.BatchNorm2d(width))
        self.block2 = nn.Sequential(nn.Conv2d(width, 2 * width, 3, stride=2, padding=1), nn.BatchNorm2d(2 * width))
        self.dropout = nn.Dropout(0.3)
        self.head = nn.Linear(2 * width, 2)

    def forward(self, x):
        x = (self.lighten(x) - MEAN) / STD
        x = self.block1(x).relu()
        x = self.block2(x).relu()
        return self.head(self.dropout(x.mean(dim=(2, 3))))


torch.manual_seed(0)
net = TileNet(ByWhere())
optimiser = torch.optim.Adam(net.parameters(), lr=0.005)
for _ in range(60):
    chosen = torch.randint(400, (32,))
    optimiser.zero_grad()
    F.cross_entropy(net(train_x[chosen]), train_y[chosen]).backward()
    optimiser.step()
net = net.eval().requires_grad_(False)

# %%
branchy = TileNet(ByIf()).eval().requires_grad_(False)
branchy.load_state_dict(net.state_dict())  # the same weights; only the branch is written differently

with quietly():
    traced = {"bright": torch.jit.trace(branchy, bright_ones[:1]), "dark": torch.jit.trace(branchy, dark_ones[:1])}
    try:
        torch.export.export(branchy, (bright_ones[:1],))
        refusal = ""
    except RuntimeError as error:
        refusal = f"{type(error).__name__}: {str(error).splitlines()[0]}"


def accuracy(model, at_once=False):
    """Share of right answers on bright and on dark pictures, asked one by one or all at once."""
    logits = model(test_x) if at_once else torch.cat([model(x) for x in test_x.split(1)])
    hits = logits.argmax(1) == test_y
    return [hits[chosen].float().mean().item() for chosen in (~dark, dark)]


scores = {"eager": accuracy(branchy)} | {f"traced with a {name} one": accuracy(model) for name, model in traced.items()}
for name, (on_bright, on_dark) in scores.items():
    print(f"{name:>24}: right for {on_bright:.0%} of the bright pictures, {on_dark:.0%} of the dark ones")
print("torch.export:", refusal)

assert torch.equal(traced["bright"](bright_ones[:1]), branchy(bright_ones[:1]))  # on the example all is well
assert scores["traced with a bright one"][0] == scores["eager"][0]
assert scores["traced with a bright one"][1] < scores["eager"][1] - 0.05
assert not torch.allclose(traced["dark"](bright_ones[:1]), branchy(bright_ones[:1]), atol=0.01)
assert "data-dependent" in refusal

# %% [markdown]
# <details><summary>Answer</summary>
#
# The tracer does not see an `if`. It sees the operators that *ran*, so only the branch of the example is in the model,
# and it is taken for every picture. On the example, and on all pictures like it, the traced model is right to the last
# bit. A test with pictures of one kind says nothing.
#
# `torch.export` refuses. It does not look at the example's values, only at shapes, so it cannot know which way to go.
# That is a good thing: the model has to be rewritten, and now we know.
#
# </details>
#
# The explorer shows one picture on both paths, and the largest difference at each node. **Predict:** for a model that
# was traced with a bright picture: at which brightness does the error appear, and at which node? Then move the slider.
# Look at the other served models as well: at which node do they part from eager?

# %%
print("Explorer: one picture through two paths, eager and served; the table says at which node they part.")
explore_parity("traced on a bright picture", "temple", 1.0)

# %%
for brightness in (1.0, 0.1):
    nodes = compare("traced on a bright picture", "temple", brightness)
    print(f"brightness {brightness}:", {node.name: f"{node.error:.0e}" for node in nodes})
    assert all(node.within for node in nodes) == (brightness == 1.0)
first_apart = {}
for export in (
    "traced on a bright picture",
    "traced on a dark picture",
    "exported in train mode",
    "right, but fed with BGR",
):
    nodes = compare(export, "temple", 1.0 if "dark" in export else 0.1)
    first_apart[export] = next(node.name for node in nodes if not node.within)
print(first_apart)
assert list(first_apart.values()) == ["lighten", "lighten", "dropout", "picture"]
assert all(node.within for brightness in (1.0, 0.1) for node in compare("right", "temple", brightness))

# %% [markdown]
# <details><summary>Answer</summary>
#
# Where the picture's mean falls below 0.25, and there at the node of the branch: for the file, it does not exist.
# Everything after it is wrong as well, so look for the *first* node that differs. It names the cause of the others,
# too: Dropout that is still at work, or the picture itself. (The bars are logarithmic: an error of 1e-7 is what another
# order of additions does. Dropout has no operator in the right file, and needs none.)
#
# </details>
#
# So the decision has to be an operator. There is another reason to rewrite it.
#
# **Predict:** the network with the `if` gets all test pictures, bright and dark, in *one* batch. What does it do?

# %%
for name, model in {"if": branchy, "where": net}.items():
    alone, together = accuracy(model), accuracy(model, at_once=True)
    print(f"{name:>6}: one by one {alone[1]:.0%} of the dark ones right, in one batch {together[1]:.0%}")
print(f"mean of the whole batch: {test_x.mean():.2f}")
difference = {
    model: (model(test_x) - torch.cat([model(x) for x in test_x.split(1)])).abs().max() for model in (net, branchy)
}
assert difference[net] < 1e-4 and difference[branchy] > 0.1

# %% [markdown]
# <details><summary>Answer</summary>
#
# `x.mean() < DARK` asks *once*, for the mean of all pictures, and treats them alike. Whether a picture is brightened
# then depends on its neighbours in the batch. `torch.where` with a condition of shape (n, 1, 1, 1) asks for each.
#
# </details>
#
# `torch.where` computes both branches and picks. That is fine for values. For gradients, there is a trap.
#
# **Predict:** a picture is bright, so it stays as it is, and its gradient should be 1 everywhere. One of its pixels is
# 0. What is the gradient there, if the dark branch is `x.sqrt()`?

# %%
picture = torch.full((1, 3, 2, 2), 0.8)
picture[0, 0, 0, 0] = 0
gradients = {}
for name, brighten in {"sqrt": torch.sqrt, "clamp, then sqrt": lambda x: x.clamp(min=1e-6).sqrt()}.items():
    x = picture.clone().requires_grad_()
    torch.where(x.mean() < DARK, brighten(x), x).sum().backward()
    gradients[name] = x.grad[0, 0, 0, 0].item()
    print(f"{name:>17}: gradient at the black pixel {gradients[name]}, elsewhere {x.grad[0, 1, 0, 0].item()}")
assert gradients["sqrt"] != gradients["sqrt"] and gradients["clamp, then sqrt"] == 1

# %% [markdown]
# <details><summary>Answer</summary>
#
# NaN. The branch that was not taken gets a gradient of 0, and the slope of the square root at 0 is infinite: 0 times
# infinity. So keep the *input* of each branch in its domain, before `where` picks. (Chapter 2 has more of these.)
#
# </details>
#
# Where both branches together are too expensive to compute, `torch.cond` keeps a real branch in the exported program.
# And a branch is not all that a tracer bakes in.
#
# **Predict:** a function adds up the pictures of a batch by `for i in range(x.shape[0])`, and is traced with a batch of
# 2. What does it return for a batch of 5, and is there a warning?


# %%
class ByCond(nn.Module):
    """Brightens a single dark picture by a branch that stays a branch."""

    def forward(self, x):
        return torch.cond(x.mean() < DARK, lambda x: x.clamp(min=1e-6).sqrt(), lambda x: x.clone(), (x,))


with quietly():
    exported = torch.export.export(ByCond(), (bright_ones[:1],)).module()
for x in (bright_ones[:1], dark_ones[:1]):
    assert torch.equal(exported(x), ByIf()(x))

with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    torch.jit.trace(branchy, bright_ones[:1], check_trace=False)
    of_the_if = [warning for warning in caught if warning.category is torch.jit.TracerWarning]
    looped = torch.jit.trace(lambda x: sum(x[i] for i in range(x.shape[0])), torch.ones(2, 1), check_trace=False)
total = looped(torch.ones(5, 1)).item()
n_of_the_loop = sum(warning.category is torch.jit.TracerWarning for warning in caught) - len(of_the_if)
print(f"the sum of five ones is {total:.0f}; warnings: {len(of_the_if)} about the if, {n_of_the_loop} about the loop")
assert total == 2 and of_the_if and n_of_the_loop == 0

# %% [markdown]
# <details><summary>Answer</summary>
#
# 2: the loop ran twice when it was traced, so it is two additions for ever. For an `if` on a tensor the tracer at least
# warns (our cells keep that off the screen). For this loop it says nothing.
#
# </details>
#
# ## Another size at the door
#
# From here on we export to an ONNX file and serve it in ONNX Runtime.
#
# **Predict:** the example is a batch of 2 pictures of 32 by 32. Nothing is said about sizes. What does the engine say
# to 5 pictures? And the program that `torch.export` made?


# %%
def to_onnx(model, example, shapes=None):
    """The model as the bytes of an ONNX file, with input "pictures" and output "logits"."""
    with quietly():
        program = torch.onnx.export(
            model,
            (example,),
            dynamo=True,  # the newer exporter, which goes through torch.export
            verbose=False,
            dynamic_shapes=None if shapes is None else (shapes,),
            input_names=["pictures"],
            output_names=["logits"],
        )
    return program.model_proto.SerializeToString()


def session_of(model, as_written=False, **sizes):
    """An engine on one thread for these bytes; ``sizes`` fixes dimensions that the file leaves open, by name.

    An engine rewrites a file before it runs it, to be faster; with ``as_written`` it does not.
    """
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 4  # what goes wrong is raised as well
    if as_written:
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    for name, size in sizes.items():
        options.add_free_dimension_override_by_name(name, size)
    return onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])


def serve(session, x):
    """What the engine answers, as a tensor."""
    return torch.from_numpy(session.run(["logits"], {"pictures": x.numpy()})[0])


def relative_error(served, expected):
    """The largest difference, relative to the largest number that was expected."""
    return ((served - expected).abs().max() / expected.abs().max()).item()


def attempt(function, *args):
    """The shape of what the call returns, or what it says when it fails."""
    try:
        return str(tuple(function(*args).shape))
    except Exception as error:  # each engine has exceptions of its own
        return " ".join(str(error).split())[:170]


example = test_x[:2]
fixed_file = to_onnx(net, example)
fixed = session_of(fixed_file)
with quietly():
    fixed_program = torch.export.export(net, (example,)).module()
print("input of the file:", fixed.get_inputs()[0].shape)
for n in (2, 5):
    print(f"{n} pictures, ONNX Runtime: ", attempt(serve, fixed, test_x[:n]))
    print(f"{n} pictures, torch.export: ", attempt(fixed_program, test_x[:n]))
assert fixed.get_inputs()[0].shape == [2, 3, 32, 32]
assert attempt(serve, fixed, example) == attempt(fixed_program, example) == "(2, 2)"
assert "Expected: 2" in attempt(serve, fixed, test_x[:5]) and "Guard failed" in attempt(fixed_program, test_x[:5])

# %% [markdown]
# <details><summary>Answer</summary>
#
# Both refuse. What we do not declare as changeable is fixed at the example's size. This is the friendly case: it fails
# loudly, if only at the first request of another size.
#
# </details>
#
# Sizes that may change get a name, as a `Dim`. **Predict:** which of these work then: 1 picture, 5 pictures, pictures
# of 47 by 33? And what if the *example* had been one picture only?

# %%
any_size = {0: Dim("batch"), 2: Dim("height", min=16), 3: Dim("width", min=16)}
model = to_onnx(net, example, any_size)
engine = session_of(model)
print("input of the file:", engine.get_inputs()[0].shape)
for shape in ((1, 3, 32, 32), (5, 3, 32, 32), (2, 3, 47, 33)):
    x = torch.rand(shape, generator=torch.Generator().manual_seed(0))
    error = relative_error(serve(engine, x), net(x))
    print(f"{shape}: relative error {error:.0e}")
    assert error < 1e-4
with quietly():
    complaint = attempt(
        lambda x: torch.export.export(net, (x,), dynamic_shapes=({0: Dim("batch")},)).module()(x), test_x[:1]
    )
print("example of one picture:", complaint)
assert engine.get_inputs()[0].shape == ["batch", 3, "height", "width"] and "violated" in complaint

# %% [markdown]
# <details><summary>Answer</summary>
#
# All work. But an example of *one* picture does not do: sizes 0 and 1 are special (an operator may broadcast there), so
# the exporter takes a 1 for a constant. Use 2 or more for every size that shall stay open.
#
# </details>
#
# Now a wrapper around the network that returns each batch with its size made explicit.
#
# **Predict:** two ways to write it: `x.shape[0]` and `len(x)`. Both are the same number in eager. Is the batch still
# open after export? Does an exporter complain if it is not?


# %%
class Reshaping(nn.Module):
    """The network, with its output reshaped to what it already is."""

    def __init__(self, size_of):
        super().__init__()
        self.net, self.size_of = net, size_of

    def forward(self, x):
        return self.net(x).reshape(self.size_of(x), 2)


def program_for(wrapper, batch):
    """What becomes of five pictures in the exported program, if ``batch`` is said about the size of the batch."""

    def answer(x):
        return torch.export.export(wrapper, (example,), dynamic_shapes=({0: batch},)).module()(x)

    with quietly():
        return attempt(answer, test_x[:5])


outcomes = {}
for name, size_of in {"x.shape[0]": lambda x: x.shape[0], "len(x)": len}.items():
    wrapper = Reshaping(size_of).eval()
    by_name, by_auto = program_for(wrapper, Dim("batch")), program_for(wrapper, Dim.AUTO)
    wrapped = session_of(to_onnx(wrapper, example, {0: Dim("batch")}))
    outcomes[name] = by_name, by_auto, wrapped.get_inputs()[0].shape[0]
    print(f"{name}\n    torch.export, Dim:      {by_name[:100]}\n    torch.export, Dim.AUTO: {by_auto}")
    print(f"    torch.onnx.export, Dim: exports; batch of the file: {outcomes[name][2]!r}")
assert outcomes["x.shape[0]"] == ("(5, 2)", "(5, 2)", "batch")
by_name, by_auto, batch = outcomes["len(x)"]
assert "violated" in by_name and "Guard failed" in by_auto and batch == 2

# %% [markdown]
# <details><summary>Answer</summary>
#
# `x.shape[0]` stays a symbol. `len` must return a plain number (and so must `int(...)`), so the batch is fixed at 2.
# What happens then depends on who exports:
#
# * `torch.export` with a *named* `Dim` says so at once.
# * With `Dim.AUTO` it may choose, so it fixes the size in silence. The program fails at the first other batch.
# * `torch.onnx.export` returns a file. If one way to capture the model fails, it tries another, and ends up with a
#   fixed batch although we asked for an open one, without an error.
#
# So use named sizes, or `Dim.DYNAMIC`, which must stay open as well but needs no name, and look at what the *file* says:
# `session.get_inputs()[0].shape`.
#
# </details>
#
# And count the files. The exporter may put the weights beside the model, where they get lost when only the model is
# copied; `external_data=False` keeps all in one file:

# %%
beside, batches = {}, []
with tempfile.TemporaryDirectory() as folder, quietly():
    for external in (True, False):
        place = Path(folder, f"external_data={external}")
        place.mkdir()
        torch.onnx.export(
            nn.Linear(512, 512),
            (torch.zeros(2, 512),),
            place / "model.onnx",
            dynamic_shapes=({0: Dim.DYNAMIC},),
            external_data=external,
            verbose=False,
        )
        beside[place.name] = sorted(file.name for file in place.iterdir())
        batches.append(onnxruntime.InferenceSession(place / "model.onnx").get_inputs()[0].shape[0])
for name, files in beside.items():
    print(f"{name:20} {', '.join(files)}")
assert beside == {"external_data=True": ["model.onnx", "model.onnx.data"], "external_data=False": ["model.onnx"]}
assert all(isinstance(batch, str) for batch in batches)  # a name: open

# %% [markdown]
# ## Train mode goes along
#
# **Predict:** we forget `eval()`. Does an answer then depend on the other pictures of the batch (BatchNorm)? Does it
# change from call to call (Dropout)? Is that the same for the program of `torch.export`, which is saved as `.pt2`, and
# for the ONNX file?


# %%
def forgotten(p=0.3):
    """A copy of the network in train mode, with its Dropout at ``p``."""
    twin = copy.deepcopy(net).train()
    twin.dropout.p = p
    return twin


def looks(answer):
    """Does the first picture's answer depend on its batch? Does it change from call to call? Is it eager's, in eval?"""
    first, again, alone = answer(test_x[:8])[:1], answer(test_x[:8])[:1], answer(test_x[:1].expand(2, -1, -1, -1))[:1]
    return [
        not torch.allclose(a, b, rtol=1e-3, atol=1e-4)
        for a, b in ((first, alone), (first, again), (first, net(test_x[:1])))
    ]


def program_of(model):
    """The model through torch.export, with an open batch."""
    with quietly():
        return torch.export.export(model, (example,), dynamic_shapes=({0: Dim("batch")},)).module()


found, without_dropout = {}, forgotten(p=0.0)
before = copy.deepcopy(without_dropout.state_dict())
found[".pt2, BatchNorm"] = looks(program_of(without_dropout))
moved = [name for name, value in without_dropout.state_dict().items() if not torch.equal(value, before[name])]
train_file = to_onnx(forgotten(), example, {0: Dim("batch")})
rewritten, dropping = session_of(train_file), session_of(train_file, as_written=True)
found["ONNX, both"] = looks(lambda x: serve(rewritten, x))
found["the same file, as written"] = looks(lambda x: serve(dropping, x))
with quietly():
    file = io.BytesIO()
    names = {"input_names": ["pictures"], "output_names": ["logits"]}
    torch.onnx.export(forgotten(), (example,), file, dynamo=False, **names)
by_older = relative_error(serve(session_of(file.getvalue(), as_written=True), example), net(example))
found["ONNX, eval()"] = looks(lambda x: serve(engine, x))
for name, (by_batch, by_call, wrong) in found.items():
    print(
        f"{name:>25}: depends on the batch {by_batch!s:>5}, on the call {by_call!s:>5}, differs from eager {wrong!s:>5}"
    )
print(f"the older exporter, in train mode: relative error {by_older:.0e}")
print("changed in the network that we exported:", moved)

figure, axes = plt.subplots(figsize=(9, 3.2))
as_written = {"eval mode": session_of(model, as_written=True), "train mode": dropping}
for (name, session), marker in zip(as_written.items(), "ox", strict=True):
    axes.plot(
        net(test_x)[:, 0],
        serve(session, test_x)[:, 0],
        marker,
        linestyle="none",
        label=f"exported in {name}, run as written",
    )
axes.set(xlabel="first logit, eager", ylabel="the same, served")
axes.legend()
plotting.show_figure(
    "Points: exported in eval mode, all lie on the diagonal. With Dropout left on, they scatter around it."
)

assert found[".pt2, BatchNorm"] == [True, False, True] and found["ONNX, both"] == found["ONNX, eval()"] == [False] * 3
assert all(node.op_type != "BatchNormalization" for node in onnx.load_from_string(train_file).graph.node)
assert found["the same file, as written"][1:] == [True, True]
assert any("running_mean" in name for name in moved) and by_older < 1e-4

# %% [markdown]
# <details><summary>Answer</summary>
#
# In the `.pt2` program, BatchNorm uses the statistics of each *batch*: the answer for a picture depends on its
# neighbours. It even goes on learning: running the program has moved the running statistics, and as exporting copies
# nothing, those of our own network too.
#
# The ONNX file looks fine, by two accidents. This exporter writes BatchNorm in eval mode, whatever the layer is in. And
# Dropout is in the file, at work, but this engine removes it when it rewrites the file to be faster. An engine that
# runs the file as it is written (so does our explorer) gives other answers at each call. No documentation promises
# either: other exporters, engines and versions do otherwise. The older exporter (`dynamo=False`), for one, switched the
# whole model to eval by itself.
#
# </details>
#
# An exported program cannot be repaired later: it has no layers any more that could switch. So the mode must be right
# before. But a function that exports *during* training, say the best model so far, must put it back.
#
# **Predict:** block 1 is frozen (its BatchNorm is in eval mode) while the rest trains. What does
# `net.eval(); export(); net.train()` do to it?

# %%
with quietly():
    switching = attempt(lambda: program_of(net).eval())
print("program.eval():", switching)
assert "not supported" in switching

training = forgotten()
training.block1.eval()
careless = copy.deepcopy(training)
careless.eval()
careless.train()
modes = {module: module.training for module in training.modules()}
try:
    training.eval()  # here the export would be
finally:
    for module, mode in modes.items():
        module.training = mode
print(
    "block 1 in train mode afterwards:", careless.block1.training, "(careless),", training.block1.training, "(put back)"
)
assert careless.block1.training and not training.block1.training and training.block2.training

# %% [markdown]
# <details><summary>Answer</summary>
#
# It thaws: `train()` switches *all* modules. Remember the mode of each, and put each back, also if the export fails.
#
# </details>
#
# ## The same picture, other numbers
#
# The network is right, and the file is right. Now someone else writes the code that turns a camera's picture into its
# input. Cameras (and OpenCV) deliver uint8 in **BGR**: blue first.
#
# **Predict:** order these five mistakes by the share of answers that they change: channels left as BGR; no antialiasing
# when shrinking; the nearest pixel instead of interpolation; 0..255 for 0..1; mean and deviation applied twice, in
# the preprocessing and in the network.


# %%
def prepare(camera, order="RGB", mode="bilinear", antialias=True, scale=255.0, twice=False):
    """uint8 (n, height, width, 3) in BGR to (n, 3, 32, 32), with one thing done otherwise."""
    x = camera.flip(-1) if order == "RGB" else camera
    x = x.permute(0, 3, 1, 2).float() / scale
    x = F.interpolate(x, size=(32, 32), mode=mode, antialias=antialias)
    return (x - MEAN) / STD if twice else x


new_raw, new_labels = tiles(200, 131, seed=1)
camera = new_raw.flip(-1)  # what a camera would deliver
right = prepare(camera)
MISTAKES = {
    "none": {},
    "BGR": {"order": "BGR"},
    "no antialiasing": {"antialias": False},
    "nearest pixel": {"mode": "nearest", "antialias": False},
    "0..255": {"scale": 1.0},
    "mean and deviation twice": {"twice": True},
}
changed, off = {}, {}
figure, panels = plt.subplots(1, 6, figsize=(11, 2.2))
for axes, (name, mistake) in zip(panels, MISTAKES.items(), strict=True):
    x = prepare(camera, **mistake)
    changed[name] = (serve(engine, x).argmax(1) != serve(engine, right).argmax(1)).float().mean().item()
    off[name] = (x - right).abs().mean().item()
    hits = (serve(engine, x).argmax(1) == new_labels).float().mean()
    print(
        f"{name:>25}: pixels off by {off[name]:7.3f} in the mean, {changed[name]:4.0%} other answers, {hits:.0%} right"
    )
    axes.imshow(x[6].permute(1, 2, 0).clamp(0, 1))
    axes.set(xticks=[], yticks=[])
    axes.set_title(name, fontsize=9)
plotting.show_figure(
    "Pictures: one picture as the network gets it, clipped to 0..1; first without a mistake, then with each of them."
)
assert torch.equal(right, to_input(new_raw)) and changed["none"] == 0
assert max(changed["BGR"], changed["0..255"], changed["mean and deviation twice"]) > 0.2
assert 0 < off["no antialiasing"] < off["nearest pixel"] < 0.2 and changed["nearest pixel"] < 0.1

# %% [markdown]
# <details><summary>Answer</summary>
#
# Swapped channels and wrong ranges change many answers, but by no means all: the accuracy is merely worse than in the
# lab, and one looks for the cause in the data. The wrong ways to shrink change hardly any answer *here*, where two
# classes differ a lot. The pixels are other ones all the same.
#
# </details>
#
# None of these gives an error: all have the right shape and dtype. Three habits help. Compare **pixels**, not answers.
# Use a picture that is coloured, not square and not symmetric. And ship the preprocessing with the model.
#
# **Predict:** a grey picture of 32 by 32, symmetric. Which of the five mistakes does it show?

# %%
grey = torch.full((1, 32, 32, 3), 115, dtype=torch.uint8)
grey[:, 8:24, 8:24] = 200
shows = [name for name, mistake in MISTAKES.items() if not torch.equal(prepare(grey, **mistake), prepare(grey))]
print("a grey picture of the right size shows:", shows)
assert shows == ["0..255", "mean and deviation twice"]
shows = [name for name, mistake in MISTAKES.items() if not torch.equal(prepare(camera[:1], **mistake), right[:1])]
print("a real picture shows:", shows)
assert shows == list(MISTAKES)[1:]


class Complete(nn.Module):
    """Preprocessing and network in one: uint8 (n, height, width, 3) in BGR to logits."""

    def __init__(self, net):
        super().__init__()
        self.net = net

    def forward(self, camera):
        return self.net(prepare(camera))


complete = session_of(to_onnx(Complete(net).eval(), camera[:2], {0: Dim("batch")}))
error = relative_error(serve(complete, camera), net(right))
print(f"camera pictures in, logits out: relative error {error:.0e}")
assert error < 1e-4

# %% [markdown]
# <details><summary>Answer</summary>
#
# Only the two about ranges. Grey has equal channels, and what is not shrunk needs no antialiasing.
#
# </details>
#
# The last lines export preprocessing *and* network as one file. Who serves it has nothing left to get wrong, except the
# order of the channels, which the file's description should state. (A mean and deviation belong into the network, too.)
#
# ## Operators that the engine has not
#
# A custom operator is a function of your own that torch treats as one operator. Here is one that rounds to eight
# levels. Its gradient is made up: 1 within 0..1 and 0 outside, since the slope of rounding is 0 nearly everywhere.
#
# **Predict:** can a network with it be exported by `torch.export`? To ONNX?


# %%
@torch.library.custom_op("lesson::levels", mutates_args=())
def levels(x: torch.Tensor, n: int) -> torch.Tensor:
    """Round to ``n`` steps between 0 and 1."""
    return (x.clamp(0, 1) * n).round() / n


@levels.register_fake
def _(x, n):
    return torch.empty_like(x)  # all that an exporter needs to know: shape and dtype


def keep_input(ctx, inputs, output):
    """Save what backward needs."""
    ctx.save_for_backward(inputs[0])


def straight_through(ctx, gradient):
    """As if nothing had been rounded."""
    (x,) = ctx.saved_tensors
    return gradient * ((x >= 0) & (x <= 1)), None


levels.register_autograd(straight_through, setup_context=keep_input)


class Coarse(nn.Module):
    """The network on pictures of eight levels, by some way to round."""

    def __init__(self, rounding):
        super().__init__()
        self.net, self.rounding = net, rounding

    def forward(self, x):
        return self.net(self.rounding(x, 8))


coarse = Coarse(levels).eval()
with quietly():
    exported_coarse = torch.export.export(coarse, (example,))
operators = [str(node.target) for node in exported_coarse.graph.nodes if "lesson" in str(node.target)]
print("torch.export keeps", operators, "as a name; its code is in this notebook")
with quietly():
    try:
        torch.onnx.export(coarse, (example,), dynamo=True, verbose=False)
        refusal = ""
    except RuntimeError as error:
        refusal = str(error)
print("torch.onnx.export:", next(line for line in refusal.splitlines() if "lesson" in line).strip()[:140])
assert operators == ["lesson.levels.default"] and torch.equal(exported_coarse.module()(example), coarse(example))
assert "lesson" in refusal

# %% [markdown]
# <details><summary>Answer</summary>
#
# `torch.export` succeeds, but the file only holds the operator's *name*. In this process it runs, since we have
# registered it. In another one it does not load, as the last but one section shows. ONNX has no operator of that name,
# and the exporter says so.
#
# </details>
#
# The operator is made of standard operators inside, so we can write it with those. Values are easy to get right.
#
# **Predict:** three rewritings below. Which of them have the same values? Which the same gradients, at the limits too?


# %%
def plain(x, n):
    """What the operator computes."""
    return (x.clamp(0, 1) * n).round() / n


def detached(x, n):
    """Rounded by adding a difference that has no gradient."""
    return x + ((x.clamp(0, 1) * n).round() / n - x).detach()


def clamped(x, n):
    """The same, but outside 0..1 the gradient stops at the clamp."""
    inside = x.clamp(0, 1)
    return inside + ((inside * n).round() / n - inside).detach()


x = torch.cat([torch.linspace(-0.5, 1.5, 401), torch.tensor([0.0, 1.0, 0.0625, 0.1875])]).double()
upstream = torch.randn(x.shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64)


def value_and_gradient(function):
    """At ``x``, with random numbers from above."""
    leaf = x.clone().requires_grad_()
    value = function(leaf, 8)
    value.backward(upstream)
    return value.detach(), leaf.grad


expected = value_and_gradient(levels)
figure, panels = plt.subplots(1, 2, figsize=(9, 3))
verdicts = {}
for name, function in {"custom": levels, "plain": plain, "detached": detached, "clamped": clamped}.items():
    value, gradient = value_and_gradient(function)
    verdicts[name] = [
        torch.allclose(a, b, rtol=0, atol=1e-12) for a, b in zip((value, gradient), expected, strict=True)
    ]
    print(f"{name:>9}: same values {verdicts[name][0]}, same gradients {verdicts[name][1]}")
    panels[0].plot(x[:401], value[:401])
    panels[1].plot(x[:401], (gradient / upstream)[:401], label=name)
panels[0].set(title="values", xlabel="x")
panels[1].set(title="gradients", xlabel="x")
panels[1].legend(fontsize=10)
plotting.show_figure(
    "Curves: on the left, four equal stairs. On the right only custom and clamped coincide, 1 between 0 and 1, "
    "0 elsewhere."
)
assert verdicts == {"custom": [True, True], "plain": [True, False], "detached": [True, False], "clamped": [True, True]}
served = serve(session_of(to_onnx(Coarse(clamped).eval(), example, any_size)), test_x)
print(f"served by the engine: relative error {relative_error(served, coarse(test_x)):.0e}")
assert relative_error(served, coarse(test_x)) < 1e-4

# %% [markdown]
# <details><summary>Answer</summary>
#
# All three have the right values, and a parity test of the served model would accept all. But with `plain` nothing
# below the operator learns, and `detached` has a gradient outside as well. A rewriting has to be compared in *both*, in
# double precision, with random numbers from above, and at the points where cases meet.
#
# </details>
#
# ## Devices that came along
#
# A checkpoint remembers on which device each tensor was. We have no GPU here, so the next cell cheats: it writes a
# checkpoint that says "cuda:7" about tensors of the CPU.
#
# **Predict:** does `torch.load` put the tensors on the CPU if there is no such device?

# %%
pretend = False
torch.serialization.register_package(0, lambda storage: "cuda:7" if pretend else None, lambda storage, location: None)


def saved(thing):
    """``torch.save`` into memory."""
    file = io.BytesIO()
    torch.save(thing, file)
    return file.getvalue()


def load(data, **options):
    """What ``torch.load`` gives, or says."""
    try:
        return torch.load(io.BytesIO(data), **options)
    except Exception as error:  # RuntimeError, UnpicklingError, AttributeError
        return f"{type(error).__name__}: {str(error).split('. ')[0]}"


pretend = True
checkpoint, whole_module = saved(net.state_dict()), saved(net)
pretend = False
print("as it is:            ", load(checkpoint))
weights = load(checkpoint, map_location="cpu", weights_only=True)
print("with map_location:   ", len(weights), "tensors, on", {str(weight.device) for weight in weights.values()})
print("the whole module:    ", load(whole_module, map_location="cpu"))
assert "RuntimeError" in load(checkpoint) and {str(weight.device) for weight in weights.values()} == {"cpu"}
assert "UnpicklingError" in load(whole_module, map_location="cpu")

partial = {name: weight for name, weight in weights.items() if "block2" not in name}
torch.manual_seed(1)
twin = TileNet(ByWhere()).eval()
report = twin.load_state_dict(partial, strict=False)
hits = (twin(test_x).argmax(1) == test_y).float().mean()
print(f"strict=False: {len(report.missing_keys)} tensors are missing, no error, {hits:.0%} right")
assert len(report.missing_keys) >= 6 and hits < 0.9

# %% [markdown]
# <details><summary>Answer</summary>
#
# No, it is an error. `map_location="cpu"` says where tensors should go. It belongs into every script that loads: it
# costs nothing where the device exists.
#
# </details>
#
# The cell shows two more things. A whole module is saved as a pickle, which may run any code when it is loaded;
# `weights_only=True` (by now the default) refuses it. So save the `state_dict`. And `strict=False` accepts a checkpoint
# that lacks a whole block: what is missing stays random.
#
# Devices hide in code, too. **Predict:** a network shades the picture's edge with weights made in `forward`. Which of
# three ways follows the module to another device (`meta` stands for it here) and to another dtype? And which leaves a
# device in the exported program?


# %%
class Shading(nn.Module):
    """Multiplies each column by a weight between 0.5 and 1."""

    def __init__(self, way):
        super().__init__()
        self.way = way
        self.register_buffer("shade", torch.linspace(0.5, 1, 32))

    def forward(self, x):
        if self.way == "made in forward":
            return x * torch.linspace(0.5, 1, x.shape[-1])
        if self.way == "made like x":
            return x * torch.linspace(0.5, 1, x.shape[-1], device=x.device, dtype=x.dtype)
        return x * self.shade


follows = {}
for way in ("made in forward", "made like x", "a buffer"):
    module = Shading(way)
    with quietly():
        graph = torch.export.export(module, (example,)).graph
    baked = [str(node.kwargs["device"]) for node in graph.nodes if "device" in node.kwargs]
    low = module.bfloat16()(example.bfloat16()).dtype
    elsewhere = attempt(module.to("meta"), example.to("meta"))
    follows[way] = elsewhere == "(2, 3, 32, 32)", low == torch.bfloat16, baked
    print(f"{way:>16}: on meta {elsewhere}; bf16 gives {low}; devices in the exported program {baked}")
assert follows["made in forward"] == (False, False, ["cpu"])
assert follows["made like x"] == (True, True, ["cpu"]) and follows["a buffer"] == (True, True, [])

# %% [markdown]
# <details><summary>Answer</summary>
#
# A tensor made in `forward` without a word is on the default device in fp32: it fails elsewhere, and in bf16 it
# silently makes everything after it fp32. "Like x" is right in eager. But when it is exported, `x.device` is a constant
# like any other: the program asks for the device on which it was *exported*. A **buffer** is part of the module's
# state. It goes where the module goes, and the program holds no device.
#
# </details>
#
# ## Folding BatchNorm
#
# In eval mode BatchNorm is a multiplication and an addition per channel, with fixed numbers. So it can be folded into
# the convolution before it. With mean μ, variance σ², weight γ and shift β:
#
#     new weight = weight · γ / √(σ² + ε)
#     new bias   = (bias − μ) · γ / √(σ² + ε) + β
#
# **Predict:** the four mistakes below: which is the largest? Which would you not see in a network that was never
# trained, where μ = 0, σ² = 1, γ = 1 and β = 0?


# %%
def fold(conv, norm, mistake=None, batch=None):
    """One convolution instead of two layers; ``mistake`` is what is done otherwise."""
    mean, variance = norm.running_mean, norm.running_var
    if mistake == "statistics of a batch":
        out = conv(batch)
        mean, variance = out.mean(dim=(0, 2, 3)), out.var(dim=(0, 2, 3))
    scale = norm.weight / (variance + (0 if mistake == "no epsilon" else norm.eps)).sqrt()
    bias = torch.zeros_like(mean) if mistake == "bias of the convolution forgotten" else conv.bias
    shift = 0 if mistake == "shift forgotten" else norm.bias
    folded = copy.deepcopy(conv)
    folded.weight.copy_(conv.weight * scale[:, None, None, None])
    folded.bias.copy_((bias - mean) * scale + shift)
    return folded


FOLDINGS = [None, "no epsilon", "bias of the convolution forgotten", "shift forgotten", "statistics of a batch"]
torch.manual_seed(1)
fresh = TileNet(ByWhere()).eval().requires_grad_(False)
entering = (net.lighten(test_x) - MEAN) / STD  # what block 1 gets
errors = {}
for name, (conv, norm) in {"trained": net.block1, "never trained": fresh.block1}.items():
    for mistake in FOLDINGS:
        folded = fold(conv, norm, mistake, batch=entering[:8])
        errors[name, mistake] = relative_error(folded(entering), norm(conv(entering)))
        print(f"{name:>14}, {mistake or 'right':>34}: relative error {errors[name, mistake]:.0e}")
assert errors["trained", None] < 1e-5 and all(errors["trained", mistake] > 1e-5 for mistake in FOLDINGS[1:])
assert errors["never trained", "shift forgotten"] < 1e-5
ordered = sorted(FOLDINGS[1:], key=lambda mistake: errors["trained", mistake])
assert ordered[0] == "no epsilon" and ordered[-1] == "statistics of a batch"
try:
    fuse_conv_bn_eval(*copy.deepcopy(net.block1).train())
    refused = False
except AssertionError:
    refused = True
by_torch = fuse_conv_bn_eval(*net.block1)
kinds = {node.op_type for node in onnx.load_from_string(model).graph.node}
print("torch's own function refuses train mode:", refused, "- operators in our ONNX file:", sorted(kinds))
assert refused and relative_error(by_torch(entering), net.block1(entering)) < 1e-5
assert "Conv" in kinds and "BatchNormalization" not in kinds

# %% [markdown]
# <details><summary>Answer</summary>
#
# The statistics of a batch do the most harm here, and the forgotten epsilon the least: it only matters where a channel
# hardly varies. In a fresh network, nothing is to be seen of a forgotten shift. So test with statistics, weights and
# biases that are all away from 0 and 1.
#
# </details>
#
# Where to fold? Mostly not by hand: our ONNX file has no BatchNorm any more, the exporter has folded it. Fold *after*
# training, in eval mode: the folded convolution no longer follows the statistics. And int8 has a word to say, too.
#
# **Predict:** before folding, the weights of all channels have about the same range. One channel's output hardly
# varied in training, another's a lot. What are the ranges after folding? What does that mean for int8, if all channels
# have to share one scale of 255 steps?


# %%
def rounded(weight, per_channel):
    """Weights to int8 and back, with one scale for all or one for each output channel."""
    largest = weight.abs().amax(dim=(1, 2, 3), keepdim=True) if per_channel else weight.abs().max()
    scale = largest / 127
    return (weight / scale).round() * scale


conv, norm = copy.deepcopy(net.block1)
norm.running_var.copy_(torch.logspace(-3, 2, len(norm.running_var)))  # channels that vary by very different amounts
before, after = conv.weight, fold(conv, norm).weight
lost = {}
for per_channel in (False, True):
    noise = (rounded(after, per_channel) - after).flatten(1).norm(dim=1) / after.flatten(1).norm(dim=1)
    lost[per_channel] = noise
    print(
        f"{'a scale per channel' if per_channel else 'one scale for all':>20}: worst channel off by {noise.max():.1%}"
    )
figure, axes = plt.subplots(figsize=(9, 3.2))
axes.semilogy(before.abs().amax(dim=(1, 2, 3)), marker="o", label="before folding")
axes.semilogy(after.abs().amax(dim=(1, 2, 3)), marker="s", label="after folding")
axes.axhline(after.abs().max() / 127, color=plotting.GREY, label="one step of a shared scale")
axes.set(xlabel="output channel", ylabel="largest weight")
axes.legend(fontsize=10)
plotting.show_figure(
    "Curves: after folding the ranges differ by factors of hundreds. Channels below the grey line become zero."
)
ranges = after.abs().amax(dim=(1, 2, 3))
assert ranges.max() > 100 * ranges.min() and lost[False].max() > 0.5 and lost[True].max() < 0.02

# %% [markdown]
# <details><summary>Answer</summary>
#
# They differ by factors of hundreds. With one scale for all, a channel with small weights is less than one step: it
# becomes zero. One scale *per channel* costs a few numbers more and loses nothing. If accuracy collapses after int8,
# look there first.
#
# </details>
#
# ## Parity, in another process
#
# Everything so far was compared inside this notebook. It knows our classes, our operators, our threads and our
# variables. The machine that serves knows nothing of it. So the real test runs the engine in a process that gets two
# files, the model and the inputs, and returns one, the outputs.
#
# Five served models wait below, one of them right. **Predict:** which ones does *one bright picture* find? Which need
# 100 pictures of both kinds? Which is right for a batch of two, and for no other?

# %%
SERVER = """
import sys
import numpy, onnxruntime

options = onnxruntime.SessionOptions()
options.log_severity_level = 4
requests = numpy.load("requests.npz")
for name in sys.argv[1:]:
    session = onnxruntime.InferenceSession(name + ".onnx", options, providers=["CPUExecutionProvider"])
    answers = {}
    for key, pictures in requests.items():
        for attempt in "first", "second":
            try:
                answers[key + " " + attempt] = session.run(["logits"], {"pictures": pictures})[0]
            except Exception:
                pass  # no answer is an answer, too
    numpy.savez(name + ".npz", **answers)
print("torch" in sys.modules)
"""


def in_another_process(models, requests):
    """Serve each request twice by each model (bytes), where only numpy and the engine are known: name -> answers."""
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        (place / "server.py").write_text(SERVER)
        np.savez(place / "requests.npz", **{key: x.numpy() for key, x in requests.items()})
        for name, model in models.items():
            (place / f"{name}.onnx").write_bytes(model)
        command = [sys.executable, "server.py", *models]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=100)
        assert done.returncode == 0, done.stderr
        knows_torch = done.stdout.strip() == "True"
        return {name: dict(np.load(place / f"{name}.npz")) for name in models}, knows_torch


def one_branch(model):
    """The network without its branch, as traced with a bright picture."""
    twin = copy.deepcopy(model)
    twin.lighten = nn.Identity()
    return twin


class Noisy(nn.Module):
    """An augmentation that was left in ``forward``: a little noise."""

    def __init__(self, net):
        super().__init__()
        self.net = net

    def forward(self, x):
        return self.net(x + 0.02 * torch.randn_like(x))


def with_coarse_weights(model):
    """The file with its numbers rounded to bf16 and back."""
    proto = onnx.load_from_string(model)
    for tensor in proto.graph.initializer:
        if tensor.data_type == onnx.TensorProto.FLOAT:
            values = torch.from_numpy(onnx.numpy_helper.to_array(tensor).copy()).bfloat16().float()
            tensor.CopyFrom(onnx.numpy_helper.from_array(values.numpy(), tensor.name))
    return proto.SerializeToString()


SERVED = {
    "right": model,
    "one_branch": to_onnx(one_branch(net), example, any_size),
    "fixed_batch": fixed_file,
    "noise": to_onnx(Noisy(net).eval(), example, any_size),
    "bf16_weights": with_coarse_weights(model),
}
hundred = torch.cat([bright_ones[:50], dark_ones[:50]])
REQUESTS = {"one bright": bright_ones[:1], "hundred": hundred, "two": hundred[49:51], "five": hundred[48:53]}
REQUESTS["another size"] = F.interpolate(hundred[:4], size=(47, 33))

# %%
answers, knows_torch = in_another_process(SERVED, REQUESTS)

table = {}
print(f"{'':>14}", *(f"{key:>13}" for key in REQUESTS), f"{'twice equal':>13}")
for name, given in answers.items():
    row = {}
    for key, x in REQUESTS.items():
        answer = given.get(f"{key} first")
        row[key] = float("inf") if answer is None else relative_error(torch.from_numpy(answer), net(x))
    row["twice equal"] = all(np.array_equal(given[key], given[key.replace("first", "second")]) for key in given)
    table[name] = row
    words = ["no answer" if row[key] == float("inf") else f"{row[key]:.0e}" for key in REQUESTS]
    print(f"{name:>14}", *(f"{word:>13}" for word in words), f"{row['twice equal']!s:>13}")
print("the other process knew torch:", knows_torch)

figure, axes = plt.subplots(figsize=(9, 3.2))
for place, given in enumerate(answers.values()):
    if "hundred first" in given:
        each = (torch.from_numpy(given["hundred first"]) - net(hundred)).abs().amax(dim=1) / net(hundred).abs().max()
        spread = place + torch.linspace(-0.3, 0.3, 100)
        for half, marker, color in ((slice(50), "o", plotting.BLUE), (slice(50, 100), "x", plotting.ORANGE)):
            axes.semilogy(spread[half], each[half] + 1e-9, marker, linestyle="none", color=color, markersize=5)
axes.axhline(1e-4, color=plotting.INK, linestyle="--")
axes.set(xticks=range(len(answers)), xticklabels=answers, ylabel="relative error")
plotting.show_figure("Points: one for each picture, circles bright, crosses dark; dashed, the budget of 1e-4.")

assert not knows_torch
assert all(table["right"][key] < 1e-5 for key in REQUESTS) and table["right"]["twice equal"]
assert table["one_branch"]["one bright"] < 1e-4 < table["one_branch"]["hundred"]
assert table["fixed_batch"]["two"] < 1e-4 and table["fixed_batch"]["five"] == float("inf")
assert not table["noise"]["twice equal"] and table["bf16_weights"]["hundred"] > 1e-4
agree = (torch.from_numpy(answers["bf16_weights"]["hundred first"]).argmax(1) == net(hundred).argmax(1)).float().mean()
print(f"with bf16 weights {agree:.0%} of the answers are the same")
assert agree > 0.95

# %% [markdown]
# <details><summary>Answer</summary>
#
# One bright picture does not find the missing branch. A batch of two, as in the example of the export, does not find
# the fixed batch. The rounded weights are found by a small *budget*: nearly all their answers are the same, but the
# numbers differ by far more than another order of additions can explain. The right file is off by less than 1e-5 here.
# Deeper networks and other hardware need more, so a budget of 1e-4 leaves room, and still catches such things.
#
# </details>
#
# So a parity test takes 100 or so samples from **each branch**, several batch and image sizes, each request **twice**,
# the engine and the **process** that will serve, and a budget that was fixed before. And it demands an answer: one that
# skips what failed, as our little server does, must count it as wrong.
#
# ## Eight bits
#
# **Static quantisation** stores weights as int8, and computes with int8 activations, too. For those it must know which
# numbers occur at each node. It *calibrates*: it runs some pictures and notes the ranges.
#
# **Predict:** how much smaller is the file? How many answers change if we calibrate with (1) 64 training pictures, (2)
# the same ones as raw 0..255, (3) black pictures? And which is faster for a single picture, eager or the engine?


# %%
class Feed(CalibrationDataReader):
    """Gives batches to the calibration, one after the other."""

    def __init__(self, x):
        self.batches = iter(x.split(16))

    def get_next(self):
        """The next batch as the model's inputs, None at the end."""
        batch = next(self.batches, None)
        return None if batch is None else {"pictures": batch.numpy()}


def quantised(model, x, **options):
    """The bytes of an int8 version, calibrated on ``x``."""
    with tempfile.TemporaryDirectory() as folder, quietly():
        path = Path(folder) / "int8.onnx"
        quantize_static(onnx.load_from_string(model), str(path), Feed(x), per_channel=True, **options)
        return path.read_bytes()


SETS = {"pictures": train_x[:64], "raw 0..255": 255 * train_x[:64], "black": torch.zeros(64, 3, 32, 32)}
full = serve(engine, test_x)
small, agreement, signal = {}, {}, {}
for name, x in SETS.items():
    small[name] = quantised(model, x)
    out = serve(session_of(small[name]), test_x)
    agreement[name] = (out.argmax(1) == full.argmax(1)).float().mean().item()
    signal[name] = 10 * torch.log10(full.square().sum() / (out - full).square().sum()).item()
    print(
        f"calibrated on {name:>10}: {len(small[name]):>6} bytes, "
        f"{agreement[name]:4.0%} same answers, signal to noise {signal[name]:5.1f} dB"
    )
print(f"in fp32: {len(model)} bytes")
tiny = to_onnx(TileNet(ByWhere(), width=2).eval(), example, any_size)
tiny_int8 = quantised(tiny, train_x[:64])
print(f"a tiny network: {len(tiny)} bytes in fp32, {len(tiny_int8)} in int8")
assert len(small["pictures"]) < 0.5 * len(model) and len(tiny_int8) > 0.8 * len(tiny)
assert agreement["pictures"] > 0.97 and agreement["raw 0..255"] < 0.9
assert signal["pictures"] > signal["black"] + 6 and signal["pictures"] > signal["raw 0..255"] + 6

one = test_x[:1]
eager_ratio = cost_ratio(lambda: net(one), lambda: serve(engine, one))
print(f"for one picture, eager takes {eager_ratio:.1f} times as long as the engine in fp32")
assert eager_ratio > 1, JUST_NOW.format(f"the ratio was {eager_ratio:.1f} (expected: more than 1)")
session8 = session_of(small["pictures"])
x = test_x[:16]
ratio = cost_ratio(lambda: serve(session8, x), lambda: serve(engine, x), rounds=20)
print(f"int8 takes {ratio:.2f} times as long as fp32 in the same engine, for 16 pictures")
assert 0 < ratio < float("inf"), JUST_NOW.format(f"the ratio was {ratio:.2f} (expected: a number)")

# %% [markdown]
# <details><summary>Answer</summary>
#
# A weight takes one byte instead of four. The rest of the file (names, scales, the nodes that convert) even grows, so
# a tiny network gains nothing. Calibrated on pictures as the network gets them, nearly all answers stay. On raw numbers
# the ranges are 255 times too large: real pictures then fall into one or two of the 256 steps. On black ones they are
# too small, and everything larger is cut off. Classes can survive that where numbers do not, so look at both. The files
# have the same size, and nobody complains.
#
# </details>
#
# The engine is faster than eager already in fp32: there is no Python between the operators, which counts most where
# they are small. Whether int8 adds to that depends on the processor's instructions, on the engine and on the sizes of
# the layers: see your own number above. So an int8 model needs three measurements, each with a floor that was agreed on
# before: size, agreement with fp32, and latency *in the engine that will serve it*.
#
# ## The slowest of a hundred
#
# Many engines prepare themselves for each shape that they meet: they compile, choose algorithms, plan memory. Ours does
# so here, by fixing the batch size in a new session for each size it has not seen. Requests come with 1 to 24 pictures.
#
# **Predict:** 150 requests. Which number shows the preparations best: the mean latency, the median (P50), P95 or P99?


# %%
SIDE = 16  # little pictures, so that preparations are not hidden behind work


class Engine:
    """Serves batches of any size; prepares a session for each size that it meets."""

    def __init__(self, buckets=()):
        self.buckets, self.sessions, self.late = sorted(buckets), {}, 0
        for size in self.buckets:
            self.sessions[size] = session_of(model, batch=size, height=SIDE, width=SIDE)
            serve(self.sessions[size], torch.zeros(size, 3, SIDE, SIDE))

    def __call__(self, x):
        """Logits of the pictures."""
        n = len(x)
        size = next((bucket for bucket in self.buckets if bucket >= n), n)
        if size not in self.sessions:
            self.late += 1
            self.sessions[size] = session_of(model, batch=size, height=SIDE, width=SIDE)
        padded = torch.cat([x, x.new_zeros(size - n, *x.shape[1:])]) if size > n else x
        return serve(self.sessions[size], padded)[:n]


def latencies(engine, requests):
    """Milliseconds of each request, in order."""
    found = []
    for x in requests:
        start = time.perf_counter()
        engine(x)
        found.append(1000 * (time.perf_counter() - start))
    return torch.tensor(found)


generator = torch.Generator().manual_seed(0)
sizes = (1 + torch.empty(150).exponential_(0.3, generator=generator).clamp(max=23)).int().tolist()
little = F.interpolate(test_x, size=(SIDE, SIDE))
requests = [little[:n] for n in sizes]
times, late = {}, {}
for name, buckets in {"any shape": (), "buckets 4, 8, 24": (4, 8, 24)}.items():
    runs = []
    for _ in range(3):  # the same requests three times, each time with a new engine: other programs can only add time
        each = Engine(buckets)
        runs.append(latencies(each, requests))
    times[name], late[name] = torch.stack(runs).amin(dim=0), each.late
figure, axes = plt.subplots(figsize=(9, 3.4))
for (name, found_times), marker in zip(times.items(), "ox", strict=True):
    points = {f"P{percent}": found_times.quantile(percent / 100).item() for percent in (50, 95, 99)}
    words = ", ".join(f"{key} {value:.2f}" for key, value in points.items())
    print(f"{name:>17}: mean {found_times.mean():.2f} ms, {words}; {late[name]} preparations while someone waited")
    axes.semilogy(found_times, marker, linestyle="none", label=name, markersize=5)
axes.set(xlabel="request", ylabel="milliseconds")
axes.legend()
plotting.show_figure("Points: without buckets, each new size stands out as a slow request, at the start above all.")

tail = (times["any shape"].quantile(0.99) / times["buckets 4, 8, 24"].quantile(0.99)).item()
print(f"P99 without buckets is {tail:.1f} times as long")
assert late == {"any shape": len(set(sizes)), "buckets 4, 8, 24": 0} and len(set(sizes)) > 0.05 * len(sizes)
assert tail > 1, JUST_NOW.format(f"the tail was {tail:.1f} times as long (expected: more than 1)")
for x in (little[:3], little[:24]):
    assert relative_error(each(x), net(x)) < 1e-4
assert 0.63 < 1 - 0.95**20 < 0.65
few = torch.tensor([1.0, 1.0, 1.0, 1.0, 2.0])  # latencies of five requests
assert abs(few.quantile(0.95).item() - 1.8) < 1e-6 and few.sort().values[math.ceil(0.95 * 5) - 1] == 2

# %% [markdown]
# <details><summary>Answer</summary>
#
# P99, and here P95 too, since more than one request in twenty comes with a new size. The median never sees a
# preparation, and the mean mixes many quick requests with a few slow ones into a number that describes neither. Users
# notice the tail: of pages that make twenty requests, two in three have one of the slowest twentieth among them. So
# report **percentiles**, over requests whose shapes change as they will in service.
#
# There are several kinds of percentile. `quantile` interpolates between two of the measured times. In service, P95 is
# mostly one of the times itself, the smallest that 95 % do not exceed: number `math.ceil(0.95 * n)` of n in order. Of
# hundreds of requests both are the same to the eye; of the five in the cell above they are not.
#
# </details>
#
# With a few fixed sizes, prepared *before* the first request, no shape is new. Each request is padded up to the next
# size, and the padding's answers are cut off.
#
# **Predict:** what does the padding cost? And may one pad the *pictures* with black as well, if they vary in size?

# %%
computed = sum(next(bucket for bucket in (4, 8, 24) if bucket >= n) for n in sizes)
print(f"{sum(sizes)} pictures were asked for, {computed} were computed: {computed / sum(sizes):.2f} times as many")
padded = F.pad(test_x[:8], (0, 8, 0, 8))  # black to the right and below
print(f"pictures padded with black: relative error {relative_error(net(padded), net(test_x[:8])):.0%}")
assert computed > sum(sizes) and relative_error(net(padded), net(test_x[:8])) > 0.01

# %% [markdown]
# <details><summary>Answer</summary>
#
# The pictures in a batch do not know of each other (in eval mode), so padding the batch changes nothing but the amount
# of work. Padding a *picture* does: the mean over all places counts the black ones, too. There the network needs a
# mask, or the picture is scaled to one of a few sizes, in training as in service.
#
# </details>
#
# Where sizes are fixed, the answers' sizes are as well, and an engine can be told to write each of them to the same
# place, which spares it a new array for every request.
#
# **Predict:** two requests, one after the other. What does the first answer hold at the end?

# %%
in_place = session_of(model, batch=4, height=SIDE, width=SIDE)
place = np.zeros((4, net(little[:4]).shape[1]), dtype=np.float32)
binding = in_place.io_binding()
binding.bind_output("logits", "cpu", 0, np.float32, place.shape, place.ctypes.data)


def serve_in_place(x):
    """What the engine answers, where it has written it."""
    binding.bind_cpu_input("pictures", x.contiguous().numpy())
    in_place.run_with_iobinding(binding)
    return torch.from_numpy(place)


first = serve_in_place(little[:4])
kept = first.clone()
second = serve_in_place(little[4:8])
print(f"the first answer, now: relative error {relative_error(first, net(little[:4])):.0%}")
print(f"the clone of it:       relative error {relative_error(kept, net(little[:4])):.0%}")
assert first.data_ptr() == second.data_ptr() and relative_error(first, net(little[4:8])) < 1e-4
assert relative_error(first, net(little[:4])) > 0.01 and relative_error(kept, net(little[:4])) < 1e-4

# %% [markdown]
# <details><summary>Answer</summary>
#
# The second one's numbers. The answer is not a tensor of its own but a view of the engine's memory; whoever keeps it
# beyond the next call keeps a **copy** (`clone()`). The mistake goes unseen as long as each answer is used up at once,
# and shows when answers are collected in a list, or when two requests meet.
#
# </details>
#
# ## Which format when
#
# There are several ways to put a model into a file. The next cell writes six files and starts a process that has torch
# and ONNX Runtime, but neither this notebook nor its classes. It tries to open each and to classify two pictures.
#
# **Predict:** which of the six work there?

# %%
OPENER = """
import io, json, logging, sys, warnings
warnings.simplefilter("ignore")
logging.disable(logging.CRITICAL)
import numpy, onnxruntime, torch

pictures = torch.from_numpy(numpy.load("pictures.npy"))

def by_onnx(path):
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    return lambda x: torch.from_numpy(session.run(None, {"pictures": x.numpy()})[0])

OPENERS = {
    "weights.pt": lambda path: torch.load(path, weights_only=True),
    "module.pt": lambda path: torch.load(path, weights_only=False),
    "traced.ts": torch.jit.load,
    "program.pt2": lambda path: torch.export.load(path).module(),
    "custom.pt2": lambda path: torch.export.load(path).module(),
    "model.onnx": by_onnx,
}
outcome = {}
for path, opener in OPENERS.items():
    try:
        outcome[path] = opener(path)(pictures).tolist()
    except Exception as error:
        outcome[path] = type(error).__name__ + ": " + " ".join(str(error).split())[:70]
print(json.dumps(outcome))
"""
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    traced = torch.jit.trace(net, example)
deprecations = {w.category.__name__ for w in caught if issubclass(w.category, (DeprecationWarning, FutureWarning))}

with tempfile.TemporaryDirectory() as folder:
    place = Path(folder)
    np.save(place / "pictures.npy", example.numpy())
    (place / "opener.py").write_text(OPENER)
    (place / "weights.pt").write_bytes(saved(net.state_dict()))
    (place / "module.pt").write_bytes(saved(net))
    (place / "model.onnx").write_bytes(model)
    with quietly():
        traced.save(place / "traced.ts")
        program = torch.export.export(net, (example,), dynamic_shapes=(any_size,))
        torch.export.save(program, place / "program.pt2")
        again = torch.export.export(net, (example.clone(),), dynamic_shapes=(any_size,))
        torch.export.save(again, place / "example cloned.pt2")
        torch.export.save(exported_coarse, place / "custom.pt2")
    file_sizes = {path.name: path.stat().st_size for path in place.iterdir()}
    done = subprocess.run([sys.executable, "opener.py"], cwd=folder, capture_output=True, text=True, timeout=200)
    assert done.returncode == 0, done.stderr
opened = json.loads(done.stdout)
works = []
for path, outcome in opened.items():
    if isinstance(outcome, list) and relative_error(torch.tensor(outcome), net(example)) < 1e-4:
        works.append(path)
    print(f"{path:>12}, {file_sizes[path]:>7} bytes: {'works' if path in works else outcome}")
print("program.pt2, exported with a copy of the example:", file_sizes["example cloned.pt2"], "bytes")
print("torch.jit.trace warns:", *deprecations)
assert file_sizes["program.pt2"] > pictures.nbytes and file_sizes["example cloned.pt2"] < 0.1 * pictures.nbytes
assert works == ["traced.ts", "program.pt2", "model.onnx"]
assert "AttributeError" in opened["module.pt"] and deprecations

# %% [markdown]
# <details><summary>Answer</summary>
#
# Three of them. A `state_dict` is only tensors: it needs the class. A pickled module needs the class *under the same
# name in the same file*, so it breaks when the code moves. And `custom.pt2` needs someone to register the operator.
#
# Why is `program.pt2` so large? It holds the example, too, and our example is a view (chapter 1): two pictures of a
# storage with 600. Give the exporter a copy, and an example that you would show to anyone.
#
# </details>
#
# | You want to | Format | Needs to run | Mind |
# |---|---|---|---|
# | keep the weights, go on training | `state_dict`, with `weights_only` | torch and the class | keep the class's code |
# | serve with torch, without the class | `torch.export` to `.pt2` | torch | the example travels along |
# | serve without torch, on other hardware | ONNX | an ONNX engine | operators and their versions; parity |
# | keep an old service alive | TorchScript (`torch.jit`) | torch | **deprecated**; branches baked in by `trace` |
#
# **TorchScript** still loads and runs, and much that is in service depends on it. But `torch.jit.trace` and `script`
# warn that they are deprecated (the cell shows with which kind of warning: newer versions use the louder
# `FutureWarning`), and torch's documentation points to `torch.export`. Begin nothing new with it.
#
# ## A test for a served model
#
# A test that accepts a right served model and refuses wrong ones: what must it look at? Below, a served model is a
# function from pictures to logits. One is right and five are wrong. Four checks look at them.
#
# **Predict:** the check that people write first is "the answers agree on a test batch". How many of the five does it
# find? Which check finds the model that returns NaN for one picture in a hundred?

# %%
rare = hundred.mean(dim=(1, 2, 3)).argmin()  # the darkest of all


def with_nan(x):
    """NaN for the darkest pictures."""
    out = net(x)
    out[x.mean(dim=(1, 2, 3)) <= hundred[rare].mean() + 1e-6] = float("nan")
    return out


def only_batches_of(n, model):
    """A model that refuses other batches."""

    def answer(x):
        if len(x) != n:
            raise ValueError("unexpected batch")
        return model(x)

    return answer


coarse_engine = session_of(SERVED["bf16_weights"])
CANDIDATES = {
    "right": lambda x: serve(engine, x),
    "one branch": one_branch(net),
    "train mode": forgotten(),
    "fixed batch": only_batches_of(50, net),
    "bf16 weights": lambda x: serve(coarse_engine, x),
    "NaN": with_nan,
}


def answers_agree(model):
    """The same classes for 50 bright pictures."""
    return bool((model(hundred[:50]).argmax(1) == net(hundred[:50]).argmax(1)).float().mean() >= 0.9)


def close_on_both_branches(model):
    """Numbers within the budget, for bright and dark pictures, in batches of the known size."""
    expected = net(hundred)
    served = torch.cat([model(x) for x in hundred.split(50)])
    return (served - expected).abs().max() <= 1e-4 * expected.abs().max()  # False where there is a NaN


def not_far_off(model):
    """The same, asked the other way round: no difference above the budget."""
    expected = net(hundred)
    served = torch.cat([model(x) for x in hundred.split(50)])
    return not ((served - expected).abs() > 1e-4 * expected.abs().max()).any()


def any_batch_twice(model):
    """Batches of 1, 2 and 5, each twice, with the same numbers both times."""
    try:
        return all(torch.equal(model(hundred[48 : 48 + n]), model(hundred[48 : 48 + n])) for n in (1, 2, 5))
    except ValueError:
        return False


CHECKS = [answers_agree, not_far_off, close_on_both_branches, any_batch_twice]
passed = {name: [bool(check(candidate)) for check in CHECKS] for name, candidate in CANDIDATES.items()}
print(f"{'':>13}", *(f"{check.__name__:>23}" for check in CHECKS))
for name, verdicts in passed.items():
    print(f"{name:>13}", *(f"{'passes' if verdict else 'CAUGHT':>23}" for verdict in verdicts))
assert all(passed["right"]) and not any(all(verdicts) for name, verdicts in passed.items() if name != "right")
assert passed["one branch"][0] and passed["bf16 weights"][0] and passed["fixed batch"][0]
assert passed["NaN"][1] and not passed["NaN"][2]
assert passed["fixed batch"] == [True, True, True, False]

# %% [markdown]
# <details><summary>Answer</summary>
#
# Comparing answers finds next to none of them: classes are too coarse, and the pictures are all bright. And look at the
# second and the third check. They say the same thing in two ways, and only one catches NaN: every comparison with NaN
# is false, so "nothing is too far off" holds, and "everything is close" does not. Always ask whether all is *close*.
#
# </details>
#
# Such a test is also tested itself: it has to accept every right model, one that computes in another order too, so a
# budget of 0 would be wrong. And it needs wrong ones to refuse.
#
# ## Summary
#
# | Symptom | Look at | Lesson section |
# |---|---|---|
# | Some kinds of input are always wrong | branches, loops; the first node that differs | The example took one branch |
# | Fails at the next batch or image size | the file's input shape; `Dim`; `len` | Another size at the door |
# | Answers depend on the batch or on the call | mode of each module before export | Train mode goes along |
# | False alarms, but the model is right | pixels: order, range, interpolation | The same picture, other numbers |
# | Conversion fails; a part stops learning | standard operators; gradients, too | Operators that the engine has not |
# | Fails on a machine without a GPU | `map_location`; buffers made in `forward` | Devices that came along |
# | Collapses after folding, or after int8 | statistics, bias, range of each channel | Folding BatchNorm |
# | "The model went stupid in production" | 100 samples, another process, a budget | Parity, in another process |
# | int8, and accuracy drops without a word | what it was calibrated on | Eight bits |
# | Quick in the mean, slow for some | P95, P99; shapes that are new | The slowest of a hundred |
# | The file does not open elsewhere | what each format needs | Which format when |
# | Nobody knows whether the served model is right | both branches, sizes, twice, NaN | A test for a served model |
#
# Now it is your turn: the exercise takes a small picture classifier from the notebook into service, and on the way it
# gets everything wrong that one can: [open the exercise](../exercises/ch08_export/ch08_export.ipynb).
