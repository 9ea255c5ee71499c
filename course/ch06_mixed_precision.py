# ---
# jupyter:
#   jupytext:
#     formats: ipynb,py:percent
#     text_representation:
#       extension: .py
#       format_name: percent
#       format_version: '1.3'
#   kernelspec:
#     display_name: Python 3 (ipykernel)
#     language: python
#     name: python3
# ---

# %% [markdown]
# # Chapter 6: mixed precision
#
# Numbers of 16 bits need half the memory of fp32, and hardware that is made for them multiplies them faster. Mixed
# precision uses them where that is safe and fp32 elsewhere. It takes four lines to switch on. This chapter is about
# what can go wrong in those lines: gradients that become zero, weights that do not move, losses that are rounded, masks
# that turn into NaN.
#
# Everything here runs on a CPU, bf16 and fp16 alike. Where CUDA differs, the text says so. Those remarks come from
# torch's documentation and reports of others: nothing in this lesson was tried on a GPU.
#
# How to use this lesson: every section asks for a prediction. Make it before you run the cell. A wrong guess is the
# most useful thing that can happen to you here. Every claim in the text is checked by an `assert` in a cell close by,
# so you can change the numbers and see what still holds.

# %%
import copy
import io
import itertools
import math
import warnings

import matplotlib.pyplot as plt
import torch
import torch.nn.functional as F
from explorers.precision import FORMATS, LOSS_WEIGHT, explore_precision, fates, training_curves
from explorers.timing import JUST_NOW, cost_ratio
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

from autograder import plotting
from autograder.instruments import MatmulDtypes
from autograder.pictures import digits

plotting.use_course_style()
torch.set_num_threads(1)  # networks as small as these only lose time by sharing the work between cores

images, labels = digits()  # (1797, 64) in 0..1 and (1797,)
x, y = images[:256], labels[:256]


def deep_net():
    """Four linear layers with tanh between them, for digits."""
    torch.manual_seed(0)
    hidden = [nn.Linear(64, 32), nn.Tanh(), nn.Linear(32, 32), nn.Tanh(), nn.Linear(32, 32), nn.Tanh()]
    return nn.Sequential(*hidden, nn.Linear(32, 10))


def autocast(precision):
    """Autocast on the CPU for one of "fp32", "bf16" and "fp16"; for fp32 it is switched off."""
    dtype = FORMATS["bf16" if precision == "fp32" else precision]
    return torch.autocast("cpu", dtype=dtype, enabled=precision != "fp32")


def refusal(function, *args):
    """What torch says when it refuses this call."""
    try:
        function(*args)
    except (RuntimeError, ValueError) as error:
        return str(error)
    raise AssertionError("torch should refuse this")


# %% [markdown]
# ## Three formats
#
# A floating-point number has a sign, an exponent (how large) and a fraction (which digits). fp32 has 8 bits for the
# exponent and 23 for the fraction. **bf16** keeps the 8 and has only 7 for the fraction. **fp16** has 5 and 10.
#
# **Predict:** three numbers: 70 000, a hundred-millionth (1e-8), and 1 + 1/512. Which of them survive in bf16, and
# which in fp16?

# %%
numbers = {"70 000": 70_000.0, "1e-8": 1e-8, "1 + 1/512": 1 + 1 / 512}
print(f"{'':>6}", *(f"{name:>12}" for name in numbers))
for name, dtype in FORMATS.items():
    print(f"{name:>6}", *(f"{torch.tensor(number, dtype=dtype).item():>12.7g}" for number in numbers.values()))

print(f"\n{'':>6} {'largest':>10} {'smallest normal':>16} {'smallest at all':>16} {'step above 1':>14}")
for name, dtype in FORMATS.items():
    limits = torch.finfo(dtype)
    smallest = limits.smallest_normal * limits.eps
    print(f"{name:>6} {limits.max:>10.3g} {limits.smallest_normal:>16.2g} {smallest:>16.2g} {limits.eps:>14.2g}")

assert torch.tensor(1 + 1 / 512, dtype=torch.bfloat16) == 1
assert torch.tensor(70_000.0, dtype=torch.bfloat16) == 70_144 and torch.tensor(1e-8, dtype=torch.bfloat16) > 0
assert torch.tensor(70_000.0, dtype=torch.float16).isinf() and torch.tensor(1e-8, dtype=torch.float16) == 0
assert torch.tensor(1 + 1 / 512, dtype=torch.float16) == 1 + 1 / 512

# %% [markdown]
# <details><summary>Answer</summary>
#
# bf16 keeps the size of all three, but 1 + 1/512 becomes 1: it has only two to three decimal digits. (70 000 becomes
# 70144.) fp16 keeps 1 + 1/512 exactly. But 70 000 is more than its largest number, 65 504, so it *overflows* to
# infinity. And 1e-8 is so small that it is *flushed* to zero.
#
# </details>
#
# So bf16 has the range of fp32 and hardly any digits. fp16 has more digits and a narrow range. Below its smallest
# normal number, 6e-5, come the *subnormal* ones: they lose digit after digit, down to 6e-8.
#
# Now real gradients. The explorer shows those of a small network on digits. Its loss is multiplied by 0.00001. That
# stands for a mean over 100 000 positions of each picture, as when every pixel is classified. The slider multiplies the
# loss by a power of two, the *loss scale*.
#
# **Predict:** without a scale (slider at 0): what share of the gradients of layer 1 becomes zero in fp16? And in bf16?
# Then move the slider until as few as possible are lost.

# %%
print("Explorer: gradients on the number lines of three formats; the table says how many are lost in each.")
explore_precision("layer 1", 0, 0)

# %%
unscaled, scaled = fates("layer 1", 0, 0), fates("layer 1", 0, 24)
largest = fates("weights of layer 1", 10, 44)
for name, there in {"scale 1": unscaled, "scale 2**24": scaled, "scale 2**44, weights": largest}.items():
    print(
        f"{name:>20}:",
        *(f"{kind}: {fate.flushed:.0%} zero, {fate.overflowed:.0%} inf." for kind, fate in there.items()),
    )
assert unscaled["fp16"].flushed > 0.9 and unscaled["bf16"].flushed == 0 and scaled["fp16"].flushed < 0.01
assert largest["fp16"].overflowed > 0.1 and largest["bf16"].overflowed == 0
assert 4 < scaled["bf16"].error / scaled["fp16"].error < 16  # three bits fewer: errors 8 times as large

# %% [markdown]
# <details><summary>Answer</summary>
#
# In fp16 all of them become zero (and in bf16 none does). There is a wide range of scales at which nothing is lost, and
# above it numbers overflow. In bf16 the scale makes no difference: the rounding errors are larger, and they are the
# same everywhere.
#
# </details>

# %% [markdown]
# ## What autocast casts
#
# Inside `torch.autocast(device_type, dtype=...)` each operator looks itself up in a list. Those that are safe and gain
# most (matrix products, convolutions) convert their inputs to the 16-bit format. Some are sensitive, and convert theirs
# to fp32. All others take what comes.
#
# **Predict:** the input and the weights are fp32. What is the dtype of each result below in a bf16 region? And of the
# weight's gradient after a backward pass?

# %%
layer = nn.Linear(64, 16)
results = {}
for precision in ("bf16", "fp16"):
    with autocast(precision):
        hidden = layer(x)
        results[precision] = {
            "layer(x)": hidden.dtype,
            "x @ x.T": (x @ x.T).dtype,
            "x * x": (x * x).dtype,
            "hidden.relu()": hidden.relu().dtype,
            "F.mse_loss(hidden, hidden)": F.mse_loss(hidden, hidden).dtype,
            "F.cross_entropy(hidden, y)": F.cross_entropy(hidden, y).dtype,
            "hidden.softmax(dim=1)": hidden.softmax(dim=1).dtype,
            "F.layer_norm(hidden, (16,))": F.layer_norm(hidden, (16,)).dtype,
        }
        loss = F.cross_entropy(hidden.float(), y)
    layer.zero_grad()
    loss.backward()  # outside: each backward runs in the dtype that its forward had
    results[precision] |= {"layer.weight": layer.weight.dtype, "layer.weight.grad": layer.weight.grad.dtype}

for name in results["bf16"]:
    print(f"{name:>28}", *(f"{str(results[precision][name]).removeprefix('torch.'):>10}" for precision in results))

for precision, found in results.items():
    assert found["layer(x)"] == found["x @ x.T"] == found["hidden.relu()"] == FORMATS[precision]
    assert found["x * x"] == found["F.mse_loss(hidden, hidden)"] == torch.float32
    assert found["layer.weight"] == found["layer.weight.grad"] == torch.float32

# %% [markdown]
# <details><summary>Answer</summary>
#
# Products are bf16. `x * x` is on no list, so it stays fp32. Weights stay fp32, and so do their gradients: autocast
# works on *copies* of the weights.
#
# </details>
#
# Look at the last lines of the operators: on a CPU, `softmax` and `layer_norm` take what comes. On CUDA both are on the
# fp32 list. The lists differ, and so does the default dtype: bf16 on the CPU, fp16 on CUDA. So name the dtype, take the
# device from the data (`x.device.type`), and do not build on whether one operator is cast. Where fp32 matters, write
# `.float()`.
#
# Copying the weights costs time. Autocast keeps the copies until the region ends.
#
# **Predict:** a layer is called five times. How often is its weight converted if one region is around all five calls,
# and how often if each call has a region of its own?


# %%
class Casts(TorchDispatchMode):
    """Notes the shape of everything that is converted to another dtype."""

    def __init__(self):
        super().__init__()
        self.shapes = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        if func.overloadpacket.__name__ == "_to_copy":
            self.shapes.append(tuple(args[0].shape))
        return func(*args, **(kwargs or {}))


with Casts() as together, autocast("bf16"):
    for _ in range(5):
        layer(x)
with Casts() as apart:
    for _ in range(5):
        with autocast("bf16"):
            layer(x)

weight_casts = [casts.shapes.count((16, 64)) for casts in (together, apart)]
print(f"weight converted {weight_casts[0]} time(s) in one region, {weight_casts[1]} times in five")
assert weight_casts == [1, 5] and together.shapes.count((256, 64)) == 5

with autocast("bf16"), torch.no_grad():
    before = layer(x)
    layer.weight.zero_()
    assert torch.equal(layer(x), before)

# %% [markdown]
# <details><summary>Answer</summary>
#
# Once, and five times. Only weights (leaves that need gradients) are kept; the input is converted at each call. So one
# region goes around the *whole* forward pass, not around each layer.
#
# </details>
#
# But copies get out of date: if the weights change within a region, the next call does not notice (last lines of the
# cell). So forward pass and loss go into the region, and `optimiser.step()` stays out of it. torch recommends to call
# `backward()` outside as well.
#
# And a copy collects its gradients in its own format. A recurrent network uses the same layer for each row or time
# step, and each use adds something to the gradients.
#
# **Predict:** a layer is used 32 times, then 1000 times. Each use adds 1 to the gradient of its biases. What is this
# gradient in the end if all uses share a bf16 copy, and what if each use has a region (and a copy) of its own? How far
# off is the gradient of the weights?

# %%
uses = torch.rand(1000, 64, generator=torch.Generator().manual_seed(0))


def gradients_of_uses(n, shared):
    """Gradients of weights and biases when the layer is used n times, in one bf16 region or in one for each use."""
    layer.zero_grad()
    totals = []
    for part in [uses[:n]] if shared else uses[:n].split(1):
        with autocast("bf16"):
            totals += [layer(use).float().sum() for use in part]
    torch.stack(totals).sum().backward()
    return layer.weight.grad.clone(), layer.bias.grad.clone()


errors = {}
for n in (32, 1000):
    exact = uses[:n].double().sum(dim=0).expand(16, 64)
    for shared in (True, False):
        gradient, ones = gradients_of_uses(n, shared)
        errors[n, shared] = ((gradient - exact).norm() / exact.norm()).item()
        kind = "one region" if shared else "a region each"
        print(f"{n:>4} uses, {kind:>13}: gradient of a bias {ones[0]:g}, weights off by {errors[n, shared]:.2%}")
        assert (ones == (256 if n == 1000 and shared else n)).all()

assert torch.tensor(256.0, dtype=torch.bfloat16) + 1 == 256
assert errors[32, True] < 0.02 and errors[1000, True] > 0.1 and errors[1000, False] < 0.005

# %% [markdown]
# <details><summary>Answer</summary>
#
# 32 either way; but then 256 and 1000. In bf16, 256 + 1 is 256, so the sum stands still. The weights' gradient is off by
# half a percent after 32 uses, and by tens of percent after 1000. With a copy for each use, every contribution becomes
# fp32 before it is added.
#
# </details>
#
# So to share one copy is fast, and exact enough for some dozens of uses. For many hundreds of them the sum of the
# gradients belongs into fp32.

# %% [markdown]
# ## Gradients that vanish on the way
#
# In an autocast region the backward pass is in 16 bits where the forward pass was. Activations are of size 1 or so. The
# gradients of a *mean* loss can be much smaller.
#
# **Predict:** one backward pass of the four-layer network, loss times 0.00001 as before, in each precision. What share
# of the first layer's weight gradients is exactly zero? (Some pixels are blank in every picture, so it is not 0 in fp32
# either.)


# %%
def first_gradient(precision, scale=1.0):
    """Gradient of the first weights; the loss is scaled for backward, and the gradient scaled back."""
    net = deep_net()
    with autocast(precision):
        logits = net(x)
    loss = LOSS_WEIGHT * F.cross_entropy(logits.float(), y)
    (scale * loss).backward()
    return net[0].weight.grad / scale


found = {precision: first_gradient(precision) for precision in FORMATS}
found["fp16, loss times 2**16"] = first_gradient("fp16", 2.0**16)
zeros = {name: (gradient == 0).double().mean().item() for name, gradient in found.items()}
for name, share in zeros.items():
    print(f"{name:>24}: {share:6.1%} zero, length {found[name].norm():.2e}")

assert zeros["fp16"] > 0.9 > 0.5 > zeros["fp32"]
assert abs(zeros["bf16"] - zeros["fp32"]) < 0.05 and abs(zeros["fp16, loss times 2**16"] - zeros["fp32"]) < 0.05
assert (found["fp16, loss times 2**16"] - found["fp32"]).norm() < 0.02 * found["fp32"].norm()
assert torch.allclose(first_gradient("bf16", 2.0**16), found["bf16"], rtol=1e-5, atol=0)  # bf16 gains nothing

for run, curve in training_curves().items():
    print(f"training in {run:>21}: loss {curve[0]:.3f} -> {curve[-1]:.3f}")
    assert min(curve) > 1.5 if run == "fp16 without scaling" else curve[-1] < 0.1

# %% [markdown]
# <details><summary>Answer</summary>
#
# In fp16 nearly all, in bf16 no more than in fp32. Multiplying the loss by a power of two before backward multiplies
# each gradient on the way by it, and moves them all to where fp16 has numbers. Afterwards we divide the fp32 gradients
# of the weights.
#
# </details>
#
# That is what `torch.amp.GradScaler` does. And bf16 does not need it: it gets the same gradient, scaled or not. And
# training without it? Look at the last lines of the output: fp16 without scaling does not learn. No NaN, no error. With
# gradients that are a little larger, training is just slower, which is harder to notice.
#
# How does the scaler find its scale? It tries. If there is an infinity or a NaN among the gradients, it *skips* the
# step of the optimiser, and halves the scale. After `growth_interval` good steps in a row (2000, unless you say
# otherwise) it doubles it.
#
# **Predict:** we start at the absurd scale of 2**44, with a `growth_interval` of 8. What does the scale do over 60
# steps? Do the first steps ruin the weights?


# %%
def fp16_steps(net, optimiser, scaler, n_steps, loss_weight=1.0, then=lambda happened: None):
    """Train in fp16. For each step: its scale, whether the optimiser moved, the loss. ``then`` is called after it."""
    happened, log = [], []
    hook = optimiser.register_step_post_hook(lambda *_: happened.append(True))
    for _ in range(n_steps):
        happened.clear()
        scale = scaler.get_scale()
        optimiser.zero_grad()
        with autocast("fp16"):
            logits = net(x)
        loss = F.cross_entropy(logits.float(), y)
        scaler.scale(loss_weight * loss).backward()
        scaler.step(optimiser)
        scaler.update()
        log.append((scale, bool(happened), loss.item()))
        then(bool(happened))
    hook.remove()
    return log


def same_weights(net, other):
    """Are all parameters equal to the last bit?"""
    return all(torch.equal(a, b) for a, b in zip(net.parameters(), other.parameters(), strict=True))


net = deep_net()
optimiser = torch.optim.Adam(net.parameters(), lr=0.01)
scaler = torch.amp.GradScaler("cpu", init_scale=2.0**44, growth_interval=8)
log = fp16_steps(net, optimiser, scaler, 1, LOSS_WEIGHT)
assert same_weights(net, deep_net())  # the first step was skipped
log += fp16_steps(net, optimiser, scaler, 59, LOSS_WEIGHT)

scales, moved, losses = zip(*log, strict=True)
skipped = [step for step, did in enumerate(moved) if not did]
figure, axes = plt.subplots(figsize=(9, 3.2))
axes.step(range(60), [math.log2(scale) for scale in scales], where="post", label="log2 of the scale")
axes.plot(
    skipped, [math.log2(scales[step]) for step in skipped], "X", color=plotting.ORANGE, ms=10, label="skipped step"
)
axes.set(xlabel="steps", ylabel="log2 of the scale")
axes.legend()
plotting.show_figure(
    f"Curve: the scale, halved at each skipped step (crosses, at {skipped}). It ends at "
    f"2**{math.log2(scales[-1]):.0f}, the loss at {losses[-1]:.3f}."
)

for (scale, did, _), (next_scale, _, _) in itertools.pairwise(log):
    assert next_scale == scale / 2 if not did else next_scale in (scale, 2 * scale)
assert 2 <= len(skipped) < 30 and losses[-1] < losses[0] / 4

# %% [markdown]
# <details><summary>Answer</summary>
#
# It falls by half at each step until nothing overflows, then climbs and is knocked back now and then. Skipped steps
# leave the weights as they were. So a few skipped steps, at the start above all, are healthy. A scale that falls and
# falls is not: then there is an infinity or a NaN that no scale can cure.
#
# </details>

# %% [markdown]
# ## The order of five calls
#
# With a scaler a step has five calls: `scaler.scale(loss).backward()`, `scaler.unscale_(optimiser)`, the clipping,
# `scaler.step(optimiser)`, `scaler.update()`. Between the first and the second, the gradients in `.grad` are scaled.
#
# In this example the gradient has length 10, clipping to length 1, plain SGD with rate 1.
#
# **Predict:** how long is the step that the weights take in each of these orders? The scale is 65 536.

# %%
push = torch.tensor([6.0, 0.0, 8.0])  # length 10


def length_of_step(order, make=torch.optim.SGD):
    """Make the calls in this order; how far the weights have moved."""
    weights = nn.Parameter(torch.zeros(3))
    optimiser = make([weights], lr=1.0)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**16)
    calls = {
        "backward": lambda: scaler.scale((weights * push).sum()).backward(),
        "unscale_": lambda: scaler.unscale_(optimiser),
        "clip": lambda: nn.utils.clip_grad_norm_(weights, 1.0),
        "step": lambda: scaler.step(optimiser),
        "optimiser.step": optimiser.step,
        "update": scaler.update,
    }
    for call in order.split(", "):
        calls[call]()
    return weights.detach().norm().item()


orders = [
    "backward, unscale_, clip, step, update",
    "backward, clip, step, update",
    "backward, step, clip, update",
    "backward, optimiser.step",
]
steps = {order: length_of_step(order) for order in orders}
for order, length in steps.items():
    print(f"{order:>40}: {length:.3g}")

assert math.isclose(steps[orders[0]], 1, rel_tol=1e-4)
assert math.isclose(steps[orders[1]], 2**-16, rel_tol=1e-4) and math.isclose(steps[orders[2]], 10, rel_tol=1e-4)
assert math.isclose(steps[orders[3]], 655_360, rel_tol=1e-4)

# %% [markdown]
# <details><summary>Answer</summary>
#
# 1; then 1/65 536, because the *scaled* gradient of length 655 360 was clipped to 1, and was then divided by the scale;
# then 10, because the clipping came too late; then 655 360, because nobody divided at all.
#
# </details>
#
# `scaler.step` divides by the scale itself if you have not called `unscale_`. So you need `unscale_` only if you want
# to look at the gradients or change them, and clipping does both.
#
# **Predict:** which of these does torch refuse: `unscale_` twice; `step` twice without `update`; `unscale_` after
# `step`; `step` without `unscale_`? And how does clipping too early look with Adam in place of SGD?

# %%
for order in ("backward, unscale_, unscale_", "backward, step, step", "backward, step, unscale_"):
    print(f"{order}: {refusal(length_of_step, order)}")
adam = [length_of_step(order, torch.optim.Adam) for order in orders[:2]]
print(f"length of the first step of Adam: {adam[0]:.3f}, clipped too early {adam[1]:.3f}")
assert math.isclose(*adam, rel_tol=0.01)

weights = nn.Parameter(torch.zeros(3))
torch.amp.GradScaler("cpu", init_scale=2.0**16).scale((weights * push).sum()).backward()
print(f"norm that clip_grad_norm_ returns before unscale_: {nn.utils.clip_grad_norm_(weights, 1.0):,.0f}")

# %% [markdown]
# <details><summary>Answer</summary>
#
# The first three. A loop without `update()` runs into the third one in its second step. With Adam nothing seems to be
# wrong, because it divides by the size of the gradients anyway. But now *every* step is clipped to the same length, so
# one bad batch counts as much as all others.
#
# </details>
#
# The number that gives it away is the norm that `clip_grad_norm_` returns. Log it. If it is in the thousands, and jumps
# by a factor of two now and then, it is that of scaled gradients.

# %% [markdown]
# ## Weights that round away
#
# "Then let us make the weights bf16 as well, it saves more memory." Here is one weight, 1.0. At each step it should
# become smaller by 0.001, the size of a step of Adam with a usual learning rate.
#
# **Predict:** where is it after 800 steps in fp32, in fp16, in bf16? It should be 0.2.

# %%
tracks = {}
for name, dtype in FORMATS.items():
    weight = torch.ones(1, dtype=dtype)
    tracks[name] = [weight.item()]
    for _ in range(800):
        weight = weight - 0.001
        tracks[name].append(weight.item())

figure, axes = plt.subplots(figsize=(9, 3))
for name, track in tracks.items():
    axes.plot(track, label=name)
axes.set(xlabel="steps", ylabel="the weight")
axes.legend()
plotting.show_figure(
    f"Curves: the weight ends at {', '.join(f'{track[-1]:.4f} in {name}' for name, track in tracks.items())}. "
    "The line of bf16 is flat."
)

assert abs(tracks["fp32"][-1] - 0.2) < 1e-3 and abs(tracks["fp16"][-1] - 0.2) < 0.1
assert set(tracks["bf16"]) == {1.0}
assert torch.finfo(torch.bfloat16).eps / 4 > 0.001  # half of the distance to the next number below 1

# %% [markdown]
# <details><summary>Answer</summary>
#
# In bf16 it is still exactly 1. The next number below is 0.00391 away, and what is less than half of that is rounded
# back. fp16 gets near, since it has steps of 0.00049 there. It takes two of them each time, so it goes wrong by a few
# percent.
#
# </details>
#
# **Predict:** two networks with a LayerNorm, whose weights begin at 1. One has bf16 weights. The other has fp32 weights
# and runs under bf16 autocast. AdamW, rate 0.0005, 100 steps. How many of the 32 LayerNorm weights have moved in each?


# %%
def net_with_norm():
    """A small network for digits with a LayerNorm."""
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(64, 32), nn.LayerNorm(32), nn.GELU(), nn.Linear(32, 10))


norms = {}
for name in ("bf16 weights", "fp32 weights, autocast"):
    by_hand = name == "bf16 weights"
    net = net_with_norm().to(torch.bfloat16 if by_hand else torch.float32)
    optimiser = torch.optim.AdamW(net.parameters(), lr=5e-4)
    for _ in range(100):
        optimiser.zero_grad()
        with autocast("fp32" if by_hand else "bf16"):
            logits = net(x.to(torch.bfloat16) if by_hand else x)
        loss = F.cross_entropy(logits.float(), y)
        loss.backward()
        optimiser.step()
    norms[name] = (net[1].weight != 1).sum().item()
    print(f"{name:>23}: {norms[name]} of 32 LayerNorm weights have moved; loss {loss.item():.3f}")

assert norms == {"bf16 weights": 0, "fp32 weights, autocast": 32}

half, scaler = nn.Linear(64, 1).half(), torch.amp.GradScaler("cpu")
scaler.scale(half(x.half()).float().sum()).backward()
print("fp16 weights:", refusal(scaler.unscale_, torch.optim.SGD(half.parameters(), lr=1.0)))
average = torch.ones(1, dtype=torch.bfloat16)
for _ in range(3000):
    average.lerp_(torch.zeros_like(average), 0.001)  # average = 0.999 * average + 0.001 * new
assert average == 1  # it should be 0.05

# %% [markdown]
# <details><summary>Answer</summary>
#
# None, and all 32. Smaller weights have a finer spacing, so the other layers do learn, the loss falls, and nobody
# notices. There are published models whose norm weights are all exactly 1 (vllm-project/speculators#765).
#
# </details>
#
# That is why autocast leaves the weights in fp32: they are *master weights*, which collect small steps, and 16-bit
# copies of them are used in products. Do not call `.half()` or `.to(torch.bfloat16)` on a model that you train. With
# fp16 weights and a `GradScaler` torch even refuses. Everything else that collects small steps belongs into fp32, too:
# in bf16 a running average of the weights does not move either (last lines of the cell).

# %% [markdown]
# ## The loss in full precision
#
# The logits come out of an autocast region in 16 bits. A loss has logarithms, exponentials and sums over many samples,
# all of which ask for range or digits.
#
# **Predict:** the logits of one sample are 0 and 20 in fp16, and the first class is the right one. The loss is 20. What
# do the three hand-written losses give, and what happens to the third with logits of 0 and 12?

# %%
ways = {
    "-log(softmax)": lambda logits: -logits.softmax(dim=1)[:, 0].log(),
    "-log_softmax": lambda logits: -logits.log_softmax(dim=1)[:, 0],
    "log(sum(exp)) - logit": lambda logits: logits.exp().sum(dim=1).log() - logits[:, 0],
}
seen = {}
for second, (name, way), kind in itertools.product((20.0, 12.0), ways.items(), ("fp16", "float() first")):
    logits = torch.tensor([[0.0, second]], dtype=torch.float16, requires_grad=True)
    loss = way(logits if kind == "fp16" else logits.float())
    (gradient,) = torch.autograd.grad(loss.sum(), logits)
    seen[second, name, kind] = loss.item(), gradient.isfinite().all().item()
    words = "finite" if seen[second, name, kind][1] else "NaN or inf"
    print(f"logits 0, {second:g}: {name:>22} {kind:>14}: {loss.item():8.5f}, gradient {words}")

assert seen[20.0, "-log(softmax)", "fp16"] == (math.inf, False)
assert seen[12.0, "log(sum(exp)) - logit", "fp16"] == (math.inf, False)
assert all(abs(loss - second) < 0.01 and finite for (second, _, kind), (loss, finite) in seen.items() if kind != "fp16")

# %% [markdown]
# <details><summary>Answer</summary>
#
# The first: infinity. A probability of 2e-9 is zero in fp16. The third: infinity too, already for 12, since `exp(12)`
# is more than 65 504. Their gradients are not finite. `log_softmax` subtracts the largest logit first, so it is safe.
# But its result is an fp16 number.
#
# </details>
#
# What is wrong with a loss that is an fp16 number? We look at one training through the eyes of each format.
#
# **Predict:** the loss falls a little, around 2.3, in 60 small steps. How many *different* values of it does bf16 show?

# %%
net = deep_net()
optimiser = torch.optim.SGD(net.parameters(), lr=0.01)
watched = []
for _ in range(60):
    optimiser.zero_grad()
    loss = F.cross_entropy(net(x), y)
    loss.backward()
    optimiser.step()
    watched.append(loss.detach())
watched = torch.stack(watched)
different = {name: len(watched.to(dtype).unique()) for name, dtype in FORMATS.items()}
figure, axes = plt.subplots(figsize=(9, 3.2))
for name, dtype in FORMATS.items():
    axes.plot(watched.to(dtype).float(), label=name)
axes.set(xlabel="steps", ylabel="the same loss")
axes.legend()
plotting.show_figure(
    f"Curves: the loss goes from {watched[0]:.4f} to {watched[-1]:.4f}; different values: {different}. "
    "The line of bf16 is a staircase."
)

assert watched[-1] < watched[0] and different["fp32"] > 50
assert (torch.full((1000,), 100.0, dtype=torch.float16).sum() / 1000).isinf()  # a sum of 100 000
assert different["bf16"] <= different["fp32"] / 6 and different["bf16"] < different["fp16"]

# %% [markdown]
# <details><summary>Answer</summary>
#
# A handful. Between 2 and 4, bf16 numbers are 0.016 apart, fp16 numbers 0.002. "Stop when the loss has not fallen for
# five steps" stops here.
#
# </details>
#
# Sums overflow, too: a thousand squared errors of 100 have the sum 100 000, however it is divided afterwards.
#
# The losses of `torch.nn.functional` are on autocast's fp32 lists for the most part. Losses that you write yourself are
# not: they are sums and logarithms that take what comes. So convert the logits *first*: `logits.float()`, then
# everything else. Converting the result is too late.

# %% [markdown]
# ## Promotion without a word
#
# If two dtypes meet in an elementwise operation, the result has the wider one. What counts as meeting is not obvious.
#
# **Predict:** a bf16 tensor is multiplied by each of these. For which is the result fp32?

# %%
low = torch.ones(4, dtype=torch.bfloat16)
others = {
    "Python number 2.0": 2.0,
    "fp32 tensor without dimensions": torch.tensor(2.0),
    "fp32 tensor of shape (1,)": torch.tensor([2.0]),
    "fp16 tensor": torch.ones(4, dtype=torch.float16),
    "int64 tensor": torch.arange(4),
}
products = {name: (low * other).dtype for name, other in others.items()}
for name, dtype in products.items():
    print(f"bf16 * {name:<31} -> {str(dtype).removeprefix('torch.')}")
widened = {name for name, dtype in products.items() if dtype == torch.float32}
assert widened == {"fp32 tensor of shape (1,)", "fp16 tensor"}
assert (torch.tensor(2.0) * torch.tensor([1.0], dtype=torch.bfloat16)).dtype == torch.bfloat16

# %% [markdown]
# <details><summary>Answer</summary>
#
# For the tensor of shape `(1,)` and for fp16. A tensor *without dimensions* counts like a plain number: it does not
# widen others of its kind. One with dimensions does, even if it has a single element. bf16 and fp16 have no common
# 16-bit format, so they meet in fp32.
#
# </details>
#
# Now this inside a model. Below, queries and keys are multiplied by a temperature, one number for each head. The model
# is used for inference in bf16, but the temperature was loaded in fp32.
#
# **Predict:** three projections and two products of the attention, five matrix products in all. In which dtype does
# each run? Does anything complain?


# %%
class TinyAttention(nn.Module):
    """Self-attention over the 8 rows of a digit, two heads; returns (N, 2, 8, 8)."""

    def __init__(self):
        super().__init__()
        self.query, self.key, self.value = nn.Linear(8, 16), nn.Linear(8, 16), nn.Linear(8, 16)
        self.register_buffer("temperature", torch.full((2, 1, 1), 0.6))

    def forward(self, rows):
        """rows (N, 8, 8)."""
        query, key, value = (
            layer(rows).unflatten(2, (2, 8)).transpose(1, 2) for layer in (self.query, self.key, self.value)
        )
        query, key = query * self.temperature, key * self.temperature
        weights = (query @ key.transpose(2, 3)).softmax(dim=-1)
        return weights.to(value.dtype) @ value


def products_of(model, rows, precision="fp32"):
    """Matrix products of one forward pass, by dtype, and the dtype of the output."""
    with torch.no_grad(), MatmulDtypes() as seen, autocast(precision):
        out = model(rows)
    return {name.removeprefix("torch."): count for name, count in seen.counts.items()}, out.dtype


rows = x.view(-1, 8, 8)
torch.manual_seed(0)
model = TinyAttention()
by_hand = copy.deepcopy(model).to(torch.bfloat16)
repaired = copy.deepcopy(by_hand)
by_hand.temperature = by_hand.temperature.float()
counted = {
    "bf16 by hand, fp32 buffer": products_of(by_hand, rows.bfloat16()),
    "bf16 by hand, bf16 buffer": products_of(repaired, rows.bfloat16()),
    "autocast, fp32 buffer": products_of(model, rows, "bf16"),
}
for name, (by_dtype, dtype) in counted.items():
    print(f"{name:>26}: {by_dtype}, output {dtype}")
assert counted["bf16 by hand, fp32 buffer"][0] == {"bfloat16": 4, "float32": 1}
assert counted["bf16 by hand, bf16 buffer"][0] == counted["autocast, fp32 buffer"][0] == {"bfloat16": 5}
assert counted["bf16 by hand, fp32 buffer"][1] == torch.bfloat16  # the output tells nothing
print("if only one of two factors is widened:", refusal(torch.mm, torch.ones(2, 2), torch.ones(2, 2).bfloat16()))
with autocast("bf16"):
    query = model.query(rows)
    assert (query + torch.zeros(16)).nbytes == 2 * query.nbytes

# %% [markdown]
# <details><summary>Answer</summary>
#
# The product of queries and keys runs in fp32, because both have met the buffer. Nothing complains, and the output is
# bf16 as it should be. If only *one* of the two had met it, torch would have refused: the dtypes of a matrix product
# must be equal.
#
# </details>
#
# Autocast converts what goes *into* a product, so there the product is safe. What comes between the products is not: a
# query that has met an fp32 tensor takes twice the bytes until the next product. So let constants follow the data,
# `offsets.to(query.dtype)`, or make them without dimensions. And count what runs in which dtype, as here. A look at the
# output is not enough.

# %% [markdown]
# ## Masks in half precision
#
# Attention must not look at padding. The usual trick is to make the scores of the padding very small before the
# softmax. "Very small" is often -1e9.
#
# **Predict:** one row of scores, the last position is padding. What do these give in fp16: `scores + mask * -1e9`;
# `scores.masked_fill(mask, -1e9)`; and `scores + mask * finfo.min` where the score of the padding is -40?

# %%
scores = torch.tensor([1.0, 2.0, -40.0], dtype=torch.float16)
mask = torch.tensor([False, False, True])  # True: padding
lowest = torch.finfo(torch.float16).min
print("added -1e9:       ", (scores + mask.half() * -1e9).tolist())
print("filled with -1e9: ", refusal(scores.masked_fill, mask, -1e9))
print(f"added {lowest:g}:     ", (scores + mask.half() * lowest).tolist())

assert (scores + mask.half() * -1e9)[2] == (scores + mask.half() * lowest)[2] == -math.inf

# %% [markdown]
# <details><summary>Answer</summary>
#
# -1e9 does not fit into fp16. `masked_fill` refuses it. The addition makes it minus infinity in silence, and so does
# adding the smallest number to a score that is already negative. Filling with it is safe.
#
# </details>
#
# Minus infinity is not wrong in itself: its softmax is exactly 0. It becomes a problem in a row in which *everything*
# is masked, such as a sequence that is padding only.
#
# **Predict:** four ways, and two rows: one with padding, one of padding only. Which ways give a NaN in the forward
# pass, and which in the gradient of the scores? What does the second row of weights look like where there is no NaN?

# %%
both = torch.tensor([[False, False, True], [True, True, True]])


def masked(way, scores):
    """Attention weights; ``way`` says how the mask is applied."""
    if way == "fill with -inf":
        return scores.masked_fill(both, -math.inf).softmax(dim=-1)
    if way == "fill with finfo.min":
        return scores.masked_fill(both, torch.finfo(scores.dtype).min).softmax(dim=-1)
    weights = (scores + both.to(scores.dtype) * -1e9).softmax(dim=-1)
    return weights.masked_fill(both, 0) if way == "add -1e9, clear after" else weights


outcomes = {}
ways = ("fill with -inf", "add -1e9", "add -1e9, clear after", "fill with finfo.min")
for way, dtype in itertools.product(ways, (torch.float16, torch.float32)):
    scores = torch.tensor([[1.0, 2.0, 0.5], [0.3, 0.1, 0.2]], dtype=dtype, requires_grad=True)
    weights = masked(way, scores)
    (gradient,) = torch.autograd.grad((weights * torch.tensor([1.0, 2.0, 3.0], dtype=dtype)).sum(), scores)
    outcomes[way, dtype] = bool(weights.isfinite().all()), bool(gradient.isfinite().all())
    row = ", ".join(f"{weight:.2f}" for weight in weights[1].tolist())
    finite = ["finite" if fine else "NaN" for fine in outcomes[way, dtype]]
    print(f"{way:>21}, {str(dtype)[6:]}: forward {finite[0]:>6}, gradient {finite[1]:>6}; second row: {row}")

assert not outcomes["add -1e9", torch.float16][0] and outcomes["add -1e9", torch.float32][0]
assert not outcomes["fill with -inf", torch.float16][0] and not outcomes["fill with -inf", torch.float32][0]
assert all(outcomes["fill with finfo.min", torch.float16]) and all(outcomes["fill with finfo.min", torch.float32])
assert outcomes["add -1e9, clear after", torch.float16] == (True, False)

# %% [markdown]
# <details><summary>Answer</summary>
#
# Minus infinity gives NaN in the second row, in any dtype: it is 0 divided by 0. (The scores get no NaN back, since
# `masked_fill` passes nothing to what it has filled. Values and weights elsewhere do.) Adding -1e9 is the same in fp16,
# a bug that shows only with fp16 *and* an empty row. In fp32 the scores drown in the -1e9, and padding gets weights of
# 1/3.
#
# Filling with the smallest number is finite, but the empty row takes the mean of its padding, too. Clearing the NaN
# afterwards cures the forward pass only: on the way back, zero times NaN is NaN again.
#
# </details>
#
# So decide first what an empty row should give (zeros, mostly), and say so in the docstring. Keep the softmax away from
# rows without any finite score. Take the softmax in fp32, since large scores have few digits left in 16 bits. Then test
# three things: padding has no influence, the empty row gives what you have decided, and all gradients are finite.

# %% [markdown]
# ## One model, one setting
#
# At some time somebody writes a second forward pass "for half precision". From then on there are two models. Below, a
# temperature was added to the first of them last month.
#
# **Predict:** the two paths of this model are compared by their accuracy on the same digits. Does it show the
# difference?


# %%
class TwoPaths(nn.Module):
    """A classifier with a forward pass for each precision; they have drifted apart."""

    def __init__(self):
        super().__init__()
        self.body, self.head = nn.Linear(64, 32), nn.Linear(32, 10)
        self.temperature = 0.5

    def forward(self, x):
        """Logits in fp32."""
        return self.head(F.gelu(self.body(x))) / self.temperature

    def forward_half(self, x):
        """Logits in bf16, from an older version of the model."""
        hidden = F.linear(x.bfloat16(), self.body.weight.bfloat16(), self.body.bias.bfloat16())
        return F.linear(F.gelu(hidden), self.head.weight.bfloat16(), self.head.bias.bfloat16())


torch.manual_seed(0)
model = TwoPaths()
optimiser = torch.optim.AdamW(model.parameters(), lr=0.01)
for _ in range(60):
    optimiser.zero_grad()
    F.cross_entropy(model(x), y).backward()
    optimiser.step()

test_x, test_y = images[1200:], labels[1200:]
with torch.no_grad():
    reference = model(test_x)
    outputs = {"second path, bf16": model.forward_half(test_x)}
    for precision in ("bf16", "fp16"):
        with autocast(precision):
            outputs[f"same path, {precision}"] = model(test_x)

correct = {name: (out.argmax(dim=1) == test_y).double().mean().item() for name, out in outputs.items()}
right = (reference.argmax(dim=1) == test_y).double().mean().item()
distance = {name: ((out.float() - reference).norm() / reference.norm()).item() for name, out in outputs.items()}
print(f"{'fp32':>18}: accuracy {right:.3f}")
for name in outputs:
    print(f"{name:>18}: accuracy {correct[name]:.3f}, distance of the logits from those of fp32 {distance[name]:.5f}")
assert all(abs(share - right) < 0.02 for share in correct.values())
assert all(distance[f"same path, {name}"] < 2 * torch.finfo(FORMATS[name]).eps for name in ("bf16", "fp16"))
assert 0.4 < distance["second path, bf16"] < 0.6

# %% [markdown]
# <details><summary>Answer</summary>
#
# No: dividing all logits by the same number does not change which one is the largest. Probabilities, thresholds and the
# loss are all wrong. The *logits* show it, once we know how far they may be apart.
#
# </details>
#
# The budget for that comes from the format: a few times its `eps` (the step above 1), relative to the size of the
# outputs. An honest 16-bit run stays within it. A forgotten factor, position or layer does not. And write only one
# path. The precision is a setting of whoever *calls* the model, as `autocast(precision)` at the top of this lesson. In
# a program of your own, take the device type from the data.

# %% [markdown]
# ## A step that was skipped
#
# If the scaler skips a step, the optimiser does not move. The scheduler of the learning rate does not know.
#
# **Predict:** a warm-up over five steps: 0.2, 0.4, ... of the full rate. The first scale is far too large, and the
# scaler skips some steps. What is the learning rate of the first step that really happens? And what does torch say?


# %%
def warm_up(only_if_stepped):
    """Train in fp16 with a warm-up; the log, the rate of each step, and torch's warnings."""
    net, rates = deep_net(), []
    optimiser = torch.optim.SGD(net.parameters(), lr=0.1)
    scheduler = torch.optim.lr_scheduler.LambdaLR(optimiser, lambda step: min(1.0, (step + 1) / 5))

    def then(happened):
        rates.append(scheduler.get_last_lr()[0])
        if happened or not only_if_stepped:
            scheduler.step()

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        log = fp16_steps(net, optimiser, torch.amp.GradScaler("cpu", init_scale=2.0**30), 16, then=then)
    return log, rates, [str(warning.message) for warning in caught]


used = {}
for only_if_stepped in (False, True):
    log, rates, said = warm_up(only_if_stepped)
    used[only_if_stepped] = [rate for (_, happened, _), rate in zip(log, rates, strict=True) if happened]
    words = [f"{rate:.2f}" if moved else "skip" for (_, moved, _), rate in zip(log, rates, strict=True)]
    print(f"scheduler steps {'with the optimiser' if only_if_stepped else 'always'}:", *words)
    print("    torch warns:", said[0].split(". ")[0] if said else "no")
    assert any("lr_scheduler.step()" in message for message in said) is not only_if_stepped

assert not any(happened for _, happened, _ in log[:5])
assert math.isclose(used[False][0], 0.1) and math.isclose(used[True][0], 0.02)
for (scale, happened, _), (next_scale, _, _) in itertools.pairwise(log):
    assert (next_scale < scale) == (not happened)  # the scale falls exactly where a step was skipped

# %% [markdown]
# <details><summary>Answer</summary>
#
# The full rate: the skipped steps have used up the warm-up. torch warns that the scheduler was called before the
# optimiser, which looks odd, since the order of the calls is right. In most programs this is the first sign of a
# skipped step.
#
# </details>
#
# The loop must know whether the optimiser has moved. A hook, as here, is one way. It has to be removed after the loop,
# or the next loop has two. (And not with a *fused* optimiser: there the scaler calls `step` in any case.) The other way
# is in the last assert: the scale falls after a skipped step, and only then.
#
# The scaler has a memory, too: its scale, and how many good steps in a row there were.
#
# **Predict:** training is interrupted after 13 steps and continued from a checkpoint with model and optimiser. The
# scaler is new. Does the run go on as if nothing had happened?


# %%
def fresh():
    """Network, optimiser and scaler as at the start of a training."""
    net = deep_net()
    optimiser = torch.optim.Adam(net.parameters(), lr=0.01)
    return net, optimiser, torch.amp.GradScaler("cpu", init_scale=2.0**30, growth_interval=5)


net, optimiser, scaler = fresh()
log = fp16_steps(net, optimiser, scaler, 13)
file = io.BytesIO()
torch.save({"net": net.state_dict(), "optimiser": optimiser.state_dict(), "scaler": scaler.state_dict()}, file)
straight = fp16_steps(net, optimiser, scaler, 12)

resumed, ends = {}, {}
for name in ("with the scaler", "without"):
    file.seek(0)
    state = torch.load(file, weights_only=True)
    again, its_optimiser, its_scaler = fresh()
    again.load_state_dict(state["net"])
    its_optimiser.load_state_dict(state["optimiser"])
    if name == "with the scaler":
        its_scaler.load_state_dict(state["scaler"])
    resumed[name] = fp16_steps(again, its_optimiser, its_scaler, 12)
    ends[name] = same_weights(net, again)

print("state of the scaler:", state["scaler"])
print("same weights in the end:", ends)

figure, axes = plt.subplots(figsize=(9, 3))
axes.plot(range(25), [math.log2(scale) for scale, *_ in log + straight], label="straight on", linewidth=5)
for (name, resumed_log), marker in zip(resumed.items(), "os", strict=True):
    axes.plot(range(13, 25), [math.log2(scale) for scale, *_ in resumed_log], marker=marker, label=f"resumed {name}")
axes.set(xlabel="steps", ylabel="log2 of the scale")
axes.legend(fontsize=11)
plotting.show_figure(
    "Curves: resumed with the scaler, the scale follows the straight run. Without it, it starts from the top again."
)

assert resumed["with the scaler"] == straight and resumed["without"] != straight
assert ends == {"with the scaler": True, "without": False}
assert "_growth_tracker" in state["scaler"] and torch.amp.GradScaler("cpu", enabled=False).state_dict() == {}

# %% [markdown]
# <details><summary>Answer</summary>
#
# No. It starts from the first scale, and skips steps that it had no need to skip. With the scaler's state the run is
# the same to the last bit. So a checkpoint holds model, optimiser, scheduler *and* scaler.
#
# </details>
#
# The state of a scaler is a dict of plain numbers. That of a *disabled* one is empty, and loading an empty dict into an
# enabled scaler is an error. Think of it when you continue a bf16 run in fp16.

# %% [markdown]
# ## What it gains here
#
# "Mixed precision is twice as fast." It depends on the hardware: the 16-bit units must exist. So measure, and begin
# with the bare matrix product. If that gains nothing, nothing built on it will.
#
# **Predict:** on the machine that runs this notebook: how does a bf16 product of 384 by 384 compare with an fp32 one?

# %%
full = torch.randn(384, 384)
low = full.bfloat16()
ratio = cost_ratio(lambda: low @ low, lambda: full @ full, rounds=10)
print(f"a bf16 product takes {ratio:.2f} times as long as an fp32 one here, so the gain is a factor of {1 / ratio:.2f}")
assert 0 < ratio < math.inf, JUST_NOW.format(f"the ratio was {ratio:.2f} (expected: a number)")

# %% [markdown]
# <details><summary>Answer</summary>
#
# Only the measurement knows. CPUs with instructions for bf16 gain something like a factor of two or more. On others
# bf16 may be *slower*, since it is converted back and forth. fp16 products can be slower by far on a CPU. On CUDA with
# tensor cores, 1.5 to 2 times for a whole training is what people report (not tried here).
#
# </details>
#
# In a model, autocast also converts the input of each product and (once) its weight.
#
# **Predict:** a small layer, 16 by 16, with a batch of 8. How does autocast compare with plain fp32?

# %%
small = nn.Sequential(*(nn.Linear(16, 16) for _ in range(8)))
few = torch.randn(8, 16)


def under(precision):
    """One region around the model."""
    with torch.no_grad(), autocast(precision):
        return small(few)


ratio = cost_ratio(lambda: under("bf16"), lambda: under("fp32"))
print(f"a tiny model under bf16 autocast takes {ratio:.1f} times as long as in fp32")
assert ratio > 1, JUST_NOW.format(f"the ratio was {ratio:.1f} (expected: more than 1)")

with Casts() as casts:
    under("bf16")
assert len(casts.shapes) == 17  # 8 weights, 8 biases, 1 input: for one batch

# %% [markdown]
# <details><summary>Answer</summary>
#
# It is slower. The products are so small that the 17 conversions cost more than they save. And if a region is entered
# anew for each row or time step, all weights are converted again each time.
#
# </details>
#
# Wide layers have large products, but also large weights to convert.
#
# **Predict:** a layer of 1024 by 1024, and a batch of 8. How long does it take to convert the weight, compared with the
# product that it is converted for?

# %%
wide, states = torch.randn(1024, 1024), torch.randn(8, 1024).bfloat16()
low = wide.bfloat16()
ratio = cost_ratio(lambda: wide.bfloat16(), lambda: F.linear(states, low))
print(f"converting the weight takes {ratio:.2f} times as long as the bf16 product itself")
assert ratio > 0.05, JUST_NOW.format(f"the ratio was {ratio:.2f} (expected: more than 0.05)")

# %% [markdown]
# <details><summary>Answer</summary>
#
# A good part of the product's time, often half of it and more: the product of a small batch reads each weight once, and
# so does the conversion. Where a weight is converted for each product, there is not much left of the gain.
#
# </details>
#
# So mixed precision pays off for *large* products: wide layers, large batches, and one region around all. The other
# gain is memory: what autograd saves for the backward pass.
#
# **Predict:** a wider network with a batch of 512. How many bytes does it save for backward under bf16 autocast,
# compared with fp32? Half?


# %%
def saved_bytes(net, x, precision):
    """Bytes that one forward pass keeps for backward, each storage once, parameters left out."""
    own = {parameter.untyped_storage().data_ptr() for parameter in net.parameters()}
    kept = {}

    def note(tensor):
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in own:
            kept[storage.data_ptr()] = storage.nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(note, lambda tensor: tensor), autocast(precision):
        _out = net(x)  # kept alive until all is counted, so that no address is used twice
    return sum(kept.values())


torch.manual_seed(0)
wide = nn.Sequential(nn.Linear(64, 128), nn.Tanh(), nn.Linear(128, 128), nn.Tanh(), nn.Linear(128, 10))
saved = {}
for n in (8, 512):
    for precision in ("fp32", "bf16"):
        saved[n, precision] = saved_bytes(wide, images[:n].clone(), precision)
    print(f"batch of {n:>3}: {saved[n, 'fp32']:>8} bytes in fp32, {saved[n, 'bf16']:>8} in bf16", end=" ")
    print(f"({saved[n, 'bf16'] / saved[n, 'fp32']:.2f} times as many)")
assert 0.4 < saved[512, "bf16"] / saved[512, "fp32"] < 0.7 and saved[8, "bf16"] > saved[8, "fp32"]

# %% [markdown]
# <details><summary>Answer</summary>
#
# Nearly half with the large batch. With a batch of 8 it is *more* than in fp32: backward also keeps the bf16 copies of
# the weights, and they outweigh the activations.
#
# </details>
#
# Weights, gradients and the state of the optimiser are not in this number. They stay fp32 and get no smaller. On CUDA,
# operators on the fp32 list (softmax, LayerNorm) also save fp32 tensors, so the gain is smaller where there are many of
# them. Before you claim a gain, measure the whole step with and without, and state the bare product's gain next to it.

# %% [markdown]
# ## A test for a training step
#
# How would you test a step with a scaler? Below are a right one and three wrong ones. Three checks look at them.
#
# **Predict:** the check that everybody writes is "the loss falls". How many of the three wrong ones does it catch?


# %%
def make_step(bug):
    """A training step with clipping to 1 in fp16; ``bug`` is what is wrong with it, or None."""

    def step(net, x, y, optimiser, scaler):
        if bug != "old gradients stay":
            optimiser.zero_grad()
        with autocast("fp16"):
            logits = net(x)
        loss = F.cross_entropy(logits.float(), y)
        if bug == "no scaling":
            loss.backward()
            nn.utils.clip_grad_norm_(net.parameters(), 1.0)
            optimiser.step()
            return
        scaler.scale(loss).backward()
        if bug != "clipped while scaled":
            scaler.unscale_(optimiser)
        nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        scaler.step(optimiser)
        scaler.update()

    return step


def linear_net():
    """A linear classifier whose first input counts for nothing yet."""
    torch.manual_seed(0)
    net = nn.Linear(64, 10)
    with torch.no_grad():
        net.weight[:, 0] = 0
    return net


def steps_of(step, n_steps, x=x, scale=2.0**8, old=0.0):
    """Take steps with SGD, ``old`` in every gradient before the first; the network."""
    net = linear_net()
    net.weight.grad = torch.full_like(net.weight, old)
    optimiser = torch.optim.SGD(net.parameters(), lr=0.5)
    scaler = torch.amp.GradScaler("cpu", init_scale=scale)
    for _ in range(n_steps):
        step(net, x, y, optimiser, scaler)
    return net


def loss_falls(step):
    """After 30 steps the loss is clearly lower."""
    return bool(F.cross_entropy(steps_of(step, 30)(x), y) < 0.9 * F.cross_entropy(linear_net()(x), y))


def like_fp32(step):
    """Three steps from large inputs, which must be clipped, end where plain fp32 steps end."""
    net, expected = steps_of(step, 3, 10 * x, old=1e6), linear_net()
    optimiser = torch.optim.SGD(expected.parameters(), lr=0.5)
    for _ in range(3):
        optimiser.zero_grad()
        F.cross_entropy(expected(10 * x), y).backward()
        nn.utils.clip_grad_norm_(expected.parameters(), 1.0)
        optimiser.step()
    moved = (expected.weight - linear_net().weight).norm()
    return bool((net.weight - expected.weight).norm() < 0.02 * moved)


def tiny_gradients_arrive(step):
    """A weight moves although its gradient is too small for fp16."""
    faint = x.clone()
    faint[:, 0] = 2.0**-23
    net = steps_of(step, 1, faint, scale=2.0**12)
    return bool(net.weight[:, 0].abs().max() > 0)


BUGS = [None, "clipped while scaled", "old gradients stay", "no scaling"]
checks = [loss_falls, like_fp32, tiny_gradients_arrive]
passes = {bug: [check(make_step(bug)) for check in checks] for bug in BUGS}
print(f"{'':>22} ", *(f"{check.__name__:>22}" for check in checks))
for bug, results_ in passes.items():
    print(f"{bug or 'right':>22}:", *(f"{'passes' if passed else 'CAUGHT':>22}" for passed in results_))

assert all(passes[None]) and not any(all(passes[bug]) for bug in BUGS[1:])
assert not passes["clipped while scaled"][1] and not passes["old gradients stay"][1]
assert passes["old gradients stay"][0] and passes["no scaling"] == [True, True, False]

# %% [markdown]
# <details><summary>Answer</summary>
#
# Only the one that hardly moves at all, "clipped while scaled". The others learn, more or less well.
#
# </details>
#
# A good check builds a situation in which a mistake must show:
#
# * a *large* gradient, several steps, and a comparison with plain fp32: order of the calls, clipping, old gradients.
#   (The scaler divides what is left from the last step as well, so forgotten gradients are hardly noticed. The check
#   therefore puts a large one there on purpose.)
# * a *tiny* gradient: it arrives.
# * an *overflow* (not shown here): nothing moves, and the scale falls.
#
# The budget for the comparison comes from the format: 2 % is generous for fp16, and 100 % would catch nothing.

# %% [markdown]
# ## Summary
#
# | Symptom | Look at | Lesson section |
# |---|---|---|
# | Infinity, zero or a number that no longer grows | range and spacing of the format | Three formats |
# | Differs between CPU and CUDA; weights out of date | dtypes by looking; where the region ends | What autocast casts |
# | In fp16 the loss does not fall, without an error | share of zeros among the gradients; `GradScaler` | Gradients that vanish on the way |
# | Training stands still; logged norms in the thousands | `unscale_` before the clipping | The order of five calls |
# | Some weights are exactly what they were at the start | dtype of the weights and averages | Weights that round away |
# | Loss is infinite, or a staircase | `.float()` before the loss, not after | The loss in full precision |
# | 16 bits, and no faster | products counted by dtype; buffers | Promotion without a word |
# | NaN with padding | an empty row; what the mask is filled with | Masks in half precision |
# | Results depend on the precision | logits compared within a budget | One model, one setting |
# | The warm-up is skipped; resumed runs differ | skipped steps; state of the scaler | A step that was skipped |
# | Mixed precision is slower | the bare product; number of conversions | What it gains here |
# | Nobody knows whether the step is right | large, infinite and tiny gradients | A test for a training step |
#
# Now it is your turn: the exercise is a classifier with attention that reads digits row by row, in three precisions. In
# fp16 its loss stops falling, and that is not all:
# [open the exercise](../exercises/ch06_mixed_precision/ch06_mixed_precision.ipynb).
