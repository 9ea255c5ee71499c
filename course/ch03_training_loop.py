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
# # Chapter 3: the training loop
#
# A training loop is ten lines that everyone has written. Nearly every mistake in them is silent: the loss
# falls, the curves look fine, and the model is worse than it could be, or it is fine in training and
# nowhere else. This chapter goes through the loop call by call, then through what stands around it: modes,
# losses, optimisers, learning rates, metrics.
#
# How to use this lesson: every section asks for a prediction. Make it before you run the cell. A wrong
# guess is the most useful thing that can happen to you here. Every claim in the text is checked by an
# `assert` in a cell close by, so you can change the numbers and see what still holds.

# %%
import contextlib
import copy
import itertools
import math
import time

import matplotlib.pyplot as plt
import torch
import torch.nn.functional as F
from explorers import style
from explorers.loop import ORDERS, RIGHT, explore_loop, run_order, summary
from sklearn.metrics import confusion_matrix, recall_score
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_sequence

from autograder.instruments import HostReads, SavedTensors
from autograder.pictures import digits

style.use_course_style()
torch.set_num_threads(1)  # networks as small as these only lose time by sharing the work between cores

images, labels = digits()  # (1797, 64) in 0..1 and (1797,)
train_x, train_y = images[:1200], labels[:1200]
test_x, test_y = images[1200:], labels[1200:]


def batches_of(x, y, size):
    """The samples in batches of the given size; the last one may be shorter."""
    return list(zip(x.split(size), y.split(size), strict=True))


def accuracy(logits, y):
    """Share of rows whose largest logit is that of the label."""
    return (logits.argmax(dim=1) == y).double().mean().item()


# %% [markdown]
# ## The order of the calls
#
# Each batch goes through the same few calls: clear the gradients, forward, backward, clip the gradients,
# step of the optimiser, step of the learning rate's scheduler. They talk to each other through `.grad`
# and through the optimiser's state, and none of them checks whether it was its turn.
#
# The example is as small as it can be: two weights, sixteen points, SGD with momentum, three epochs of
# four batches. One target in the third batch is 100 times too large.
#
# **Predict:** which of the orders below never move the weights at all? Which ones look perfectly right
# after the *first* step?

# %%
shown = [
    RIGHT,
    "no zero",
    "zero between backward and step",
    "step before backward",
    "clip after step",
    "scheduler before step",
]
curves = {name: run_order(name).curve for name in shown}

print(f"{'loss after ... steps':>36} {'0':>6} {'1':>6} {'4':>6} {'8':>6} {'12':>6}")
for name, curve in curves.items():
    print(f"{name:>36}", *(f"{curve[steps]:6.2f}" for steps in (0, 1, 4, 8, 12)))

right = curves[RIGHT]
assert set(curves["zero between backward and step"]) == {right[0]}  # never moves
assert set(curves["step before backward"]) == {right[0]}  # nor does this
assert curves["no zero"][1] == right[1]  # one step shows nothing
assert curves["no zero"][12] > 4 * right[12]
assert curves["clip after step"][12] > 50 * right[12]

figure, axes = plt.subplots()
axes.set_prop_cycle(plt.cycler(color=[style.BLUE, style.ORANGE, style.GREEN, style.PURPLE, style.GREY]))
dashes = iter(["-", "--", "-.", ":", "-"])
for name, marker in zip(shown, ["o", "s", "^", None, "D", "x"], strict=True):
    if marker:  # one of the two that never move is enough
        axes.semilogy(curves[name], next(dashes), marker=marker, label=name)
axes.set(xlabel="steps of the optimiser", ylabel="loss (log scale)")
axes.legend(fontsize=11, loc="center left", bbox_to_anchor=(1, 0.5))
print("Squares: without zero_grad the loss falls faster at first, then turns. Triangles: cleared too early, flat.")
print("Diamonds: clipped too late, the spoilt batch throws the weights away. Crosses: close to the right order.")
plt.show()

# %% [markdown]
# <details><summary>Answer</summary>
#
# Two never move: `zero_grad()` *between* backward and step, and `step()` *before* backward. In both, the
# step meets an empty `.grad`. `zero_grad()` sets it to `None`, and an optimiser passes over parameters
# whose gradient is `None`, without a word.
#
# "No zero" is exactly right for one step. Only then do gradients pile up, because `backward()` **adds** to
# `.grad`. So a test of one step cannot see it; take three.
#
# </details>
#
# Now step through it by hand. Start with "no zero", and move the slider until the second `backward()`.
# Then try "clip after step" at batch 3, and the two orders about the mode at the bottom of the list.

# %%
explore_loop("no zero")

# %%
for name in ("scheduler before step", "no eval()", "no train() after validating"):
    print(f"{name}: {ORDERS[name].verdict}\n    {summary(run_order(name))}")

early, intended = (run_order(name).moments for name in ("scheduler before step", RIGHT))
first_rate = [next(moment.rate for moment in moments if moment.call == "step") for moments in (early, intended)]
print(f"rate of the first step: {first_rate[0]:g}, intended: {first_rate[1]:g}")
assert first_rate[0] < first_rate[1]
assert run_order("no train() after validating").curve[-1] < right[-1]
assert any("optimizer.step()" in moment.warning for moment in early)  # here torch does warn, once

# %% [markdown]
# The last order even ends lower than the right one. Two weights have nothing to overfit with, so here Dropout only
# disturbs. Do not trust a lower training loss: it is exactly what a Dropout that was lost looks like.
#
# In a deeper network a step between forward and backward can be an error: `backward()` would need the
# weights as they were, and `step()` has changed them in place. Be glad if you get this message; with one
# layer, or with the step of an empty gradient, you don't.

# %%
torch.manual_seed(0)
net = nn.Sequential(nn.Linear(64, 8), nn.Tanh(), nn.Linear(8, 10))
optimiser = torch.optim.SGD(net.parameters(), lr=0.1)
F.cross_entropy(net(train_x[:32]), train_y[:32]).backward()  # there is a gradient to step with

loss = F.cross_entropy(net(train_x[:32]), train_y[:32])
optimiser.step()
try:
    loss.backward()
except RuntimeError as error:
    print("torch says:", str(error)[:84], "...")
    assert "inplace operation" in str(error)
else:
    raise AssertionError("backward should have noticed that the weights have changed")

# %% [markdown]
# ## Two modes
#
# A module has a flag, `training`. Only a few layers look at it. `Dropout` throws elements away while it is
# True, and does nothing while it is False. `BatchNorm` normalises with the mean and variance of *this
# batch* while it is True, and with its running statistics while it is False.
#
# **Predict:** we validate the same trained network eight times on the same pictures. How many different
# accuracies do we see in eval mode, and how many in train mode?


# %%
def net_with_both(width=32):
    """A small network for digits, with BatchNorm and Dropout."""
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(64, width), nn.BatchNorm1d(width), nn.ReLU(), nn.Dropout(0.5), nn.Linear(width, 10))


def train(net, batches, n_epochs=3, lr=0.01):
    """A plain loop with AdamW."""
    optimiser = torch.optim.AdamW(net.parameters(), lr=lr)
    net.train()
    for _, (x, y) in itertools.product(range(n_epochs), batches):
        optimiser.zero_grad()
        F.cross_entropy(net(x), y).backward()
        optimiser.step()
    return net


trained = train(net_with_both(), batches_of(train_x, train_y, 64))
scores = {}
with torch.no_grad():
    for mode in ("eval", "train"):
        # A copy: validating in train mode also changes the running statistics.
        net = copy.deepcopy(trained).train(mode == "train")
        scores[mode] = [accuracy(net(test_x), test_y) for _ in range(8)]

figure, axes = plt.subplots(figsize=(9, 3))
for (mode, values), marker in zip(scores.items(), "os", strict=True):
    axes.plot(range(1, 9), values, marker=marker, label=f"{mode} mode")
    print(f"{mode:>5} mode: {', '.join(f'{value:.3f}' for value in values)}")
axes.set(xlabel="validation number", ylabel="accuracy")
axes.legend()
print("Solid with dots, eval mode: a flat line. Dashed with squares, train mode: lower, and it jumps.")
plt.show()

assert len(set(scores["eval"])) == 1
assert len(set(scores["train"])) > 1
assert max(scores["train"]) < scores["eval"][0]

# %% [markdown]
# <details><summary>Answer</summary>
#
# One in eval mode. In train mode nearly every validation gives another value, all of them too low, since
# Dropout still throws half of the features away.
#
# </details>
#
# And with BatchNorm in train mode, what the model says about one picture depends on which other pictures are in
# the batch:

# %%
norm = nn.BatchNorm1d(64)
one, others = train_x[:1], train_x[1:16]
with torch.no_grad():
    alone = norm.eval()(one)
    in_company = norm.eval()(torch.cat([one, others]))[:1]
    in_training = norm.train()(torch.cat([one, others]))[:1]
assert torch.allclose(alone, in_company)
assert not torch.allclose(alone, in_training)

try:
    norm.train()(one)
except ValueError as error:
    print("a batch of one picture in train mode:", error)
else:
    raise AssertionError("one picture has no variance to normalise with")
assert 1153 % 64 == 1

# %% [markdown]
# That last error is how an epoch ends for a data set of 1153 samples in batches of 64. With 1154 samples there is no
# error: the last batch has two rows, and its statistics are nearly noise.
#
# Modes and gradients are two different switches. And `train()` and `eval()` are blunt: each sets the flag
# of the module **and of everything inside it**.
#
# **Predict:** in the network below somebody has put one BatchNorm into eval mode on purpose (it is frozen).
# Then a validation runs: `net.eval()`, some scores, `net.train()`. In which mode is that layer now?

# %%
net = net_with_both().train()
net[1].eval()  # frozen on purpose
before = [module.training for module in net.modules()]

net.eval()  # ... validate ...
out = net(test_x[:4])
net.train()
after = [module.training for module in net.modules()]

print("training flags before:", before)
print("training flags after: ", after)
assert before != after and all(after)
assert out.requires_grad  # eval() does not switch autograd off
with torch.no_grad():
    assert net.training  # and no_grad() does not change the mode

# %% [markdown]
# <details><summary>Answer</summary>
#
# In train mode: the frozen layer thawed. So a validation that leaves no trace does not end with
# `train()`. It notes the flag of *each* module before it begins, and puts each one back. It does so even
# if an exception passes through.
#
# </details>
#
# A function that finds the model in eval mode should leave it in eval mode, too. If you forget `train()`
# altogether, Dropout and BatchNorm stay off from the second epoch on, and the only sign is a training curve
# that has become suspiciously smooth.

# %% [markdown]
# ## Statistics that move
#
# BatchNorm has two things that are not parameters: `running_mean` and `running_var`. No gradient ever
# reaches them. They move while the forward pass runs.
#
# **Predict:** new data has mean 5. We send it through a fresh layer in four ways: train or eval mode, with
# gradients or under `no_grad()`. In which of the four does `running_mean` move?

# %%
generator = torch.Generator().manual_seed(1)
drifted = [5 + torch.randn(50, 1, generator=generator) for _ in range(20)]

moved = {}
for mode, grad in itertools.product(("train", "eval"), (True, False)):
    layer = nn.BatchNorm1d(1).train(mode == "train")
    with torch.set_grad_enabled(grad):
        layer(drifted[0])
    moved[mode, grad] = layer.running_mean.item() != 0
    print(
        f"{mode:>5} mode, {'with   ' if grad else 'without'} gradients: running_mean = {layer.running_mean.item():.3f}"
    )

assert moved == {("train", True): True, ("train", False): True, ("eval", True): False, ("eval", False): False}

# %% [markdown]
# <details><summary>Answer</summary>
#
# In both cases of train mode. Gradients do not matter at all. So letting a model "see" new data in eval
# mode adapts nothing, and a forward pass in train mode under `no_grad()`, "just to look", does change the
# model.
#
# </details>
#
# How fast do they move? With `momentum=0.1` (the default) each batch contributes a tenth:
# `new = 0.9 * old + 0.1 * batch`. This is the opposite of an optimiser's momentum, where 0.9 keeps the
# past. And the layer has never forgotten where it came from.
#
# **Predict:** after 10 batches with mean 5, starting from 0: where is `running_mean`? And with
# `momentum=None`?

# %%
histories = {}
for momentum in (0.1, 0.5, None):
    layer = nn.BatchNorm1d(1, momentum=momentum)
    history = [layer.running_mean.item()]
    for batch in drifted:
        layer(batch)
        history.append(layer.running_mean.item())
    histories[momentum] = history

batch_means = torch.stack([batch.mean() for batch in drifted])
assert math.isclose(histories[0.1][10], 5 * (1 - 0.9**10), rel_tol=0.05)  # about 3.26
assert math.isclose(histories[None][20], batch_means.mean().item(), rel_tol=1e-5)  # the plain average

figure, axes = plt.subplots(figsize=(9, 3.4))
for (momentum, history), marker in zip(histories.items(), "os^", strict=True):
    axes.plot(history, marker=marker, markersize=5, label=f"momentum={momentum}")
axes.axhline(5, color=style.GREY, linewidth=1)
axes.set(xlabel="batches seen in train mode", ylabel="running_mean", xticks=range(0, 21, 5))
axes.legend()
print(f"momentum=0.1 (dots) creeps up and is at {histories[0.1][10]:.2f} after 10 batches;", end=" ")
print(f"momentum=None (triangles) is at {histories[None][1]:.2f} after one.")
plt.show()

# %% [markdown]
# <details><summary>Answer</summary>
#
# At about 3.3: the old statistics still count for `0.9 ** 10`, a third. With `momentum=None` the layer keeps
# the **plain average over all batches since its last reset**, so it is close to 5 at once.
#
# </details>
#
# The average is over *batches*: a batch of 2 counts as much as a batch of 30. And the variance that is
# stored is the unbiased one, although the layer normalises with the biased one. `reset_running_stats()` is
# the reset, and `num_batches_tracked` counts since then.

# %%
layer = nn.BatchNorm1d(1, momentum=None)
small, large = drifted[0][:2], drifted[1][:30]
layer(small)
layer(large)
print("average over two batches of 2 and 30 rows:", layer.running_mean.item())
assert torch.allclose(layer.running_mean, (small.mean() + large.mean()) / 2)
assert torch.allclose(layer.running_var, (small.var() + large.var()) / 2)
assert layer.num_batches_tracked == 2

centred = large - large.mean()
assert torch.allclose(layer(large), centred / (large.var(correction=0) + layer.eps).sqrt(), atol=1e-5)

layer.reset_running_stats()
assert (layer.running_mean.item(), layer.running_var.item(), layer.num_batches_tracked.item()) == (0, 1, 0)

# %% [markdown]
# ## Logits, not probabilities
#
# `F.cross_entropy` (and `nn.CrossEntropyLoss`) expects **logits**: any real numbers. It takes the log of
# their softmax itself. If the network already ends with a softmax, the softmax is applied twice. Nothing
# complains, since probabilities are real numbers too.
#
# **Predict:** a *perfect* classifier gives probability 1 to the right class of ten, 0 to the others. We
# hand these probabilities to `F.cross_entropy`. Is the loss 0?

# %%
perfect = F.one_hot(labels, 10).float()
loss = F.cross_entropy(perfect, labels).item()
print(f"loss of perfect probabilities: {loss:.4f}")

for n_classes in (2, 4, 10, 1000):
    floor = math.log(1 + (n_classes - 1) / math.e)
    print(f"{n_classes:>5} classes: the loss cannot fall below {floor:.4f}")
assert math.isclose(loss, math.log(1 + 9 / math.e), rel_tol=1e-5)

# %% [markdown]
# <details><summary>Answer</summary>
#
# It is 1.46, and nothing can be better. The second softmax sees one number 1 and nine numbers 0, and makes
# `e / (e + 9)` of them. With C classes the floor is `log(1 + (C - 1) / e)`. A loss that gets stuck just
# above 1.46, or 0.74 with four classes, has a name: people report these very numbers
# (ariecattan/SciCo#2).
#
# </details>
#
# Does such a network learn? Yes, and that is why the bug lives long.

# %%
floor = math.log(1 + 9 / math.e)
losses, scores = {}, {}
for name in ("logits", "softmax first"):
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10))
    if name == "softmax first":
        net.append(nn.Softmax(dim=1))
    optimiser = torch.optim.AdamW(net.parameters(), lr=0.01)
    losses[name] = []
    for _ in range(120):
        optimiser.zero_grad()
        loss = F.cross_entropy(net(train_x[:300]), train_y[:300])
        loss.backward()
        optimiser.step()
        losses[name].append(loss.item())
    scores[name] = accuracy(net(test_x), test_y)

figure, axes = plt.subplots(figsize=(9, 3.4))
for name, curve in losses.items():
    axes.plot(curve, label=name)
axes.axhline(floor, color=style.GREY, linewidth=1)
axes.annotate("floor: 1.46", (80, floor - 0.05), va="top", color=style.GREY)
axes.set(xlabel="steps", ylabel="training loss")
axes.legend()
for name, curve in losses.items():
    print(f"{name:>14}: loss {curve[0]:.2f} -> {curve[-1]:.3f}, accuracy on new digits {scores[name]:.3f}")
print("Solid, logits: the loss falls to almost 0. Dashed, softmax first: it comes to rest on the floor.")
plt.show()

assert losses["logits"][-1] < 0.1
assert floor < min(losses["softmax first"]) < 1.7
assert scores["softmax first"] > 0.6

# %% [markdown]
# The loss is wrong, and so is its slope. A sample that is *confidently* wrong should push hardest. Through
# two softmaxes it pushes not at all.

# %%
confident = torch.tensor([[20.0, 0.0, 0.0]], requires_grad=True)
truth = torch.tensor([1])
(push,) = torch.autograd.grad(F.cross_entropy(confident, truth), confident)
(push_twice,) = torch.autograd.grad(F.cross_entropy(confident.softmax(dim=1), truth), confident)
print(f"gradient, logits: {push.norm():.3f}; softmax first: {push_twice.norm():.1e}")
assert push.norm() > 1.4 and push_twice.norm() < 1e-6

twice = confident.log_softmax(dim=1)
assert torch.allclose(twice.log_softmax(dim=1), twice)  # log_softmax twice is harmless

# %% [markdown]
# So: the network returns logits; whoever wants probabilities takes the softmax outside. The largest logit
# is the largest probability, so `argmax` needs no softmax. The same goes for `sigmoid` and
# `binary_cross_entropy_with_logits`.

# %% [markdown]
# ## What a module knows about
#
# `parameters()`, `state_dict()` and `.to(...)` walk over what a module has *registered*. Registration
# happens when you assign an attribute, and only if what you assign is a `Parameter`, a `Module` or comes
# through `register_buffer`. A list is a list.
#
# **Predict:** for each attribute of `Bag`: is it among the parameters? In the state dict? Does
# `.to(torch.float64)` reach it? There are seven rows.


# %%
class Bag(nn.Module):
    """Seven ways to keep numbers in a module."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(2, 2)
        self.in_list = [nn.Linear(2, 2)]
        self.in_module_list = nn.ModuleList([nn.Linear(2, 2)])
        self.parameter = nn.Parameter(torch.ones(2))
        self.plain = torch.ones(2)
        self.register_buffer("buffer", torch.ones(2))
        self.register_buffer("passing", torch.ones(2), persistent=False)


bag = Bag().to(torch.float64)
numbers = {
    "layer": bag.layer.weight,
    "in_list": bag.in_list[0].weight,
    "in_module_list": bag.in_module_list[0].weight,
    "parameter": bag.parameter,
    "plain": bag.plain,
    "buffer": bag.buffer,
    "passing": bag.passing,
}
parameters = {name.split(".")[0] for name, _ in bag.named_parameters()}
saved = {key.split(".")[0] for key in bag.state_dict()}
converted = {name for name, tensor in numbers.items() if tensor.dtype == torch.float64}

print(f"{'':>14}  parameters  state_dict  .to()")
for name in numbers:
    ticks = ["yes" if name in found else "-" for found in (parameters, saved, converted)]
    print(f"{name:>14}  {ticks[0]:^10}  {ticks[1]:^10}  {ticks[2]:^5}")

assert parameters == {"layer", "in_module_list", "parameter"}
assert saved == parameters | {"buffer"}
assert converted == saved | {"passing"}

# %% [markdown]
# <details><summary>Answer</summary>
#
# Layers in a plain list are in none of the three: the optimiser never hears of them, so they keep their
# random weights; they are not saved; they stay on the CPU. The plain tensor is left behind as well. A
# buffer is saved and moved but not trained, which is right for constants such as the mean of the data. A
# buffer with `persistent=False` is moved but not saved.
#
# </details>
#
# A layer in a list does get a *gradient*, since autograd does not care about registration. So "every layer
# has a gradient" is not a good test. "Every layer has moved after a step" is.

# %%
bag = Bag()
optimiser = torch.optim.SGD(bag.parameters(), lr=0.1)
listed, registered = bag.in_list[0], bag.in_module_list[0]
before = listed.weight.detach().clone(), registered.weight.detach().clone()
registered(listed(torch.ones(1, 2))).square().sum().backward()
optimiser.step()
print("has a gradient:", listed.weight.grad is not None, "  has moved:", not torch.equal(listed.weight, before[0]))
assert listed.weight.grad.abs().sum() > 0 and torch.equal(listed.weight, before[0])
assert not torch.equal(registered.weight, before[1])

# %% [markdown]
# On a CPU nothing is ever on the wrong device. So how do you find parts that are left behind, if your laptop
# has no GPU? With the **meta** device: its tensors have a shape but no memory. It is always there, and
# mixing it with the CPU is an error.
#
# **Predict:** three layers that add something to their input. Which of them survives `.to("meta")`?


# %%
class AddsPlain(nn.Module):
    """Keeps its offset as an ordinary attribute."""

    def __init__(self):
        super().__init__()
        self.offset = torch.arange(3.0)

    def forward(self, x):
        """x (N, 3) plus 0, 1, 2."""
        return x + self.offset


class AddsNew(nn.Module):
    """Makes its offset anew in each forward."""

    def forward(self, x):
        """x (N, 3) plus 0, 1, 2."""
        return x + torch.arange(3.0)


class AddsBuffer(nn.Module):
    """Has registered its offset."""

    def __init__(self):
        super().__init__()
        self.register_buffer("offset", torch.arange(3.0))

    def forward(self, x):
        """x (N, 3) plus 0, 1, 2."""
        return x + self.offset


survives = {}
for kind in (AddsPlain, AddsNew, AddsBuffer):
    assert kind()(torch.zeros(2, 3)).tolist() == [[0, 1, 2]] * 2  # on the CPU all three are fine
    try:
        kind().to("meta")(torch.zeros(2, 3, device="meta"))
    except RuntimeError as error:
        survives[kind.__name__] = False
        print(f"{kind.__name__:>10}: {error}")
    else:
        survives[kind.__name__] = True
        print(f"{kind.__name__:>10}: fine")
assert survives == {"AddsPlain": False, "AddsNew": False, "AddsBuffer": True}

# %% [markdown]
# <details><summary>Answer</summary>
#
# Only the one with a buffer. The other two keep or make a tensor on the CPU. If something must be made in
# `forward`, make it where the input is: `torch.arange(3.0, device=x.device)`.
#
# </details>
#
# The cure is *not* to write `.to(x.device)` in `forward`: that copies at each step, and what is not
# registered is still not saved. A second test that needs no GPU: `.to(torch.float64)` and look at the dtype
# of the output. Use both, since not every operation notices a tensor from another device.

# %% [markdown]
# ## Accumulating gradients
#
# If a large batch does not fit into memory, do several small forward and backward passes, let the
# gradients add up in `.grad`, and step once. The aim is the gradient of the large batch. What goes wrong is
# the arithmetic.
#
# **Predict:** ten samples come in micro-batches of 4, 4 and 2. Three recipes for what to call `backward()`
# on: the mean loss of each micro-batch; that mean divided by 3; the *sum* of its losses divided by 10. How
# much does one sample count in each?

# %%
sizes = [4, 4, 2]
recipes = {
    "mean": lambda part: part.mean(),
    "mean / 3": lambda part: part.mean() / 3,
    "sum / 10": lambda part: part.sum() / 10,
}
weights = {}
for name, recipe in recipes.items():
    # One number stands for the loss of each sample: its gradient is how much the sample counts.
    sample_losses = torch.ones(10, requires_grad=True)
    for part in sample_losses.split(sizes):
        recipe(part).backward()
    weights[name] = sample_losses.grad
    print(f"{name:>9}: {', '.join(f'{weight:.3f}' for weight in weights[name].tolist())}")

figure, axes = plt.subplots(figsize=(9, 3.4))
for number, ((name, values), hatch) in enumerate(zip(weights.items(), ["", "//", "xx"], strict=True)):
    places = torch.arange(10) + 0.27 * (number - 1)
    color = (style.PALE_BLUE, style.PALE_ORANGE, style.PALE_GREY)[number]
    axes.bar(places, values, width=0.27, label=name, hatch=hatch, color=color, edgecolor=style.INK)
axes.axhline(0.1, color=style.ORANGE, linestyle="--")
axes.set(xlabel="sample", ylabel="weight in the gradient", xticks=range(10))
axes.legend()
print("Dashed line: 1/10, as in one batch of ten. Only 'sum / 10' (crossed bars) reaches it for every sample;")
print("with 'mean' all bars are too high, with 'mean / 3' the last two samples count double.")
plt.show()

assert torch.allclose(weights["sum / 10"], torch.full((10,), 0.1))
assert torch.allclose(weights["mean"], torch.tensor([1 / 4] * 8 + [1 / 2] * 2))
assert torch.allclose(weights["mean / 3"], torch.tensor([1 / 12] * 8 + [1 / 6] * 2))

# %% [markdown]
# <details><summary>Answer</summary>
#
# * `mean`: 1/4 or 1/2. The gradient is about three times too long: the learning rate is off by the number of
#   micro-batches.
# * `mean / 3`: 1/12 or 1/6. The length is right, but samples of a short micro-batch count double. It is the
#   same for all only if all micro-batches have the same size.
# * `sum / 10`: 1/10 each, exactly as in one batch of ten.
#
# </details>
#
# The same happens with texts: micro-batches with equally many *sentences* have different numbers of
# *tokens*, and the loss is a mean over tokens. Divide by the number of things that the mean is over.
#
# A second mistake hides at the end of the epoch.
#
# **Predict:** ten batches, one step for every four. Each batch adds 1 to the gradient of `w`, and
# the learning rate is 1, so `w` counts how many batches have been used. What is `-w` after one epoch? And
# after two?

# %%
w = nn.Parameter(torch.zeros(()))
optimiser = torch.optim.SGD([w], lr=1.0)
used = []
for _epoch in range(2):
    optimiser.zero_grad()  # a clean start for each epoch
    for number in range(10):
        w.backward()  # the gradient of w is 1
        if (number + 1) % 4 == 0:
            optimiser.step()
            optimiser.zero_grad()
    used.append(-w.item())
print(f"batches used after one epoch: {used[0]:.0f} of 10, after two: {used[1]:.0f} of 20")
assert used == [8, 16]

# %% [markdown]
# <details><summary>Answer</summary>
#
# 8, then 16. The last two batches of each epoch never become a step, and `zero_grad()` throws their gradient
# away. Without it they would leak into the first step of the next epoch, which is then made of six batches.
# A well-known library dropped 24 of 120 batches per epoch in this way (ultralytics/ultralytics#11217).
#
# </details>
#
# So the last group must step too, and it must be divided by *its own* number of samples. You need to know
# that number before you divide: collect the group first, or scale the gradient just before the step.
#
# One thing accumulation cannot do: BatchNorm sees each micro-batch by itself. Four micro-batches of 8
# normalise with statistics of 8 rows, not of 32.

# %% [markdown]
# ## When a batch explodes
#
# One bad batch can throw away an hour of training. Clipping limits how far: if the gradient is longer
# than `max_norm`, shorten it to that length, and leave its direction alone.
#
# **Predict:** two parameters have the gradients 3 and 4. We call `clip_grad_norm_` with `max_norm=1` on both
# together. What are they afterwards? And if we clip each parameter by itself? And with
# `clip_grad_value_`?


# %%
def with_gradients(*gradients):
    """Parameters that have these numbers as gradients."""
    made = [nn.Parameter(torch.zeros(())) for _ in gradients]
    for parameter, gradient in zip(made, gradients, strict=True):
        parameter.grad = torch.tensor(gradient)
    return made


together, apart, by_value = with_gradients(3.0, 4.0), with_gradients(3.0, 4.0), with_gradients(3.0, 4.0)
norm = nn.utils.clip_grad_norm_(together, 1.0)
for parameter in apart:
    nn.utils.clip_grad_norm_([parameter], 1.0)
nn.utils.clip_grad_value_(by_value, 1.0)

clipped = {"together": together, "each by itself": apart, "by value": by_value}
for name, made in clipped.items():
    print(f"{name:>15}: {[round(parameter.grad.item(), 3) for parameter in made]}")
print(f"clip_grad_norm_ returned {norm.item():g}")

assert torch.allclose(torch.stack([parameter.grad for parameter in together]), torch.tensor([0.6, 0.8]))
assert norm == 5  # the length before clipping
for made in (apart, by_value):
    assert torch.allclose(torch.stack([parameter.grad for parameter in made]), torch.ones(2))

# %% [markdown]
# <details><summary>Answer</summary>
#
# Together: 0.6 and 0.8. The length goes from 5 to 1 and the direction stays. In the two other ways both become
# 1, so the direction has changed. The function returns the length *before* clipping. Put it into your log: it
# is the best early sign of trouble.
#
# </details>
#
# Now the order. A linear model learns from 20 batches of which number 8 is spoilt: its targets are 1000 times
# too large.
#
# **Predict:** three loops clip before `backward()`, after `step()`, and in between. Which of them is
# protected?


# %%
def run_with_spoilt_batch(clip):
    """Losses on good data after each of 20 steps, and how far the weights moved in the spoilt one."""
    generator = torch.Generator().manual_seed(2)
    x = torch.randn(20, 16, 4, generator=generator)
    truth = x @ torch.tensor([1.0, -1.0, 0.5, 2.0])
    targets = truth.clone()
    targets[8] *= 1000
    w = nn.Parameter(torch.zeros(4))
    optimiser = torch.optim.SGD([w], lr=0.1)
    losses = []
    for number in range(20):
        optimiser.zero_grad()
        loss = (x[number] @ w - targets[number]).square().mean()
        if clip == "before backward":
            nn.utils.clip_grad_norm_([w], 1.0)
        loss.backward()
        if clip == "between":
            nn.utils.clip_grad_norm_([w], 1.0)
        before = w.detach().clone()
        optimiser.step()
        if clip == "after step":
            nn.utils.clip_grad_norm_([w], 1.0)
        if number == 8:
            distance = (w - before).norm().item()
        losses.append((x @ w - truth).square().mean().item())
    return losses, distance


figure, axes = plt.subplots(figsize=(9, 3.6))
distances = {}
for clip, marker in zip(("between", "before backward", "after step"), "osx", strict=True):
    curve, distances[clip] = run_with_spoilt_batch(clip)
    axes.semilogy(curve, marker=marker, markersize=8 if marker == "x" else 5, label=f"clipped {clip}")
    print(f"clipped {clip:>15}: the spoilt batch moved the weights by {distances[clip]:.3g}, last loss {curve[-1]:.3g}")
axes.set(xlabel="step (number 8 is spoilt)", ylabel="loss on good data (log scale)", xticks=range(0, 20, 2))
axes.legend()
print("Solid with dots, clipped in between: no jump.", end=" ")
print("The other two lie on each other and jump from below 1 to above a million.")
plt.show()

assert curve[7] < 1 and curve[8] > 1e6

assert distances["between"] <= 0.1 * 1.0001  # learning rate times max_norm
assert distances["before backward"] == distances["after step"] > 100
assert run_with_spoilt_batch("never") == run_with_spoilt_batch("after step")

# %% [markdown]
# <details><summary>Answer</summary>
#
# Only the one in between. Before `backward()` there is no gradient yet, after `step()` it has been used. The
# two wrong loops take exactly the same path as one without clipping. With plain SGD the right one moves at
# most `lr * max_norm` per step.
#
# </details>
#
# With accumulation, clip once per step, after the last micro-batch: clipping each part is something else.
# And clipping does not repair what is not a number: `max_norm / inf` is 0, and `inf * 0` is NaN.

# %%
broken = with_gradients(float("inf"), 1.0)
nn.utils.clip_grad_norm_(broken, 1.0)
print("an infinite gradient after clipping:", [parameter.grad.item() for parameter in broken])
assert broken[0].grad.isnan() and broken[1].grad == 0

try:
    nn.utils.clip_grad_norm_(with_gradients(float("inf"), 1.0), 1.0, error_if_nonfinite=True)
except RuntimeError as error:
    print("with error_if_nonfinite=True:", str(error).split(",")[0], "...")
else:
    raise AssertionError("it should have raised an error")

# %% [markdown]
# ## What the log keeps alive
#
# A loss is a tensor with a history: the graph that `backward()` walks. Whoever keeps the loss keeps the
# graph. And whoever turns it into a Python number has to wait until an accelerator has computed it.
#
# Both can be counted, also on a CPU. `SavedTensors` counts the tensors that graphs keep for a backward pass,
# `HostReads` how often Python reads a tensor's value. The third count, the nodes of the graph, we do by hand.
#
# **Predict:** five ways to add up losses over 20 batches. In which do saved tensors pile up? In which does
# the graph grow all the same? Which reads a value at each step?


# %%
def nodes_behind(total):
    """How many nodes of the autograd graph a value keeps alive."""
    found, waiting = set(), [total.grad_fn] if isinstance(total, torch.Tensor) and total.requires_grad else []
    while waiting:
        node = waiting.pop()
        if node is not None and node not in found:
            found.add(node)
            waiting += [parent for parent, _ in node.next_functions]
    return len(found)


def add_up(way):
    """Saved tensors after each of 20 batches, nodes behind the total, host reads."""
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(64, 16), nn.ReLU(), nn.Linear(16, 10))
    optimiser = torch.optim.SGD(net.parameters(), lr=0.1)
    total, alive = 0.0, []
    with SavedTensors() as saved, HostReads() as reads:
        for x, y in batches_of(train_x, train_y, 60):
            if way.startswith("train"):
                optimiser.zero_grad()
                loss = F.cross_entropy(net(x), y)
                loss.backward()
                optimiser.step()
                total += loss.item() if "item" in way else loss.detach() if "detach" in way else loss
            else:
                with torch.no_grad() if "no_grad" in way else contextlib.nullcontext():
                    total += F.cross_entropy(net(x), y)
            alive.append(saved.alive)
        value = total.detach().item() if isinstance(total, torch.Tensor) else total
        assert 0 < value / len(alive) < 2.5
    return alive, nodes_behind(total), reads.count


WAYS = (
    "train: total += loss",
    "train: total += loss.detach()",
    "train: total += loss.item()",
    "validate: total += loss",
    "validate under no_grad: total += loss",
)
counts = {way: add_up(way) for way in WAYS}
print(f"{'':>38}  saved tensors  nodes  host reads")
for way, (alive, nodes, n_reads) in counts.items():
    print(f"{way:>38}  {alive[-1]:>13}  {nodes:>5}  {n_reads:>10}")

figure, axes = plt.subplots(figsize=(9, 3))
for way in WAYS[3:]:
    axes.plot(range(1, 21), counts[way][0], label=way)
axes.set(xlabel="batches", ylabel="saved tensors alive", xticks=range(0, 21, 5))
axes.legend()
print("Solid: a validation with gradients holds more with every batch. Dashed: under no_grad it holds nothing.")
plt.show()

assert counts[WAYS[0]][0][-1] == 0 and counts[WAYS[0]][1] > 100 and counts[WAYS[0]][2] == 1
assert counts[WAYS[1]] == ([0] * 20, 0, 1)
assert counts[WAYS[2]] == ([0] * 20, 0, 20)
assert counts[WAYS[3]][0] == [counts[WAYS[3]][0][0] * number for number in range(1, 21)]
assert counts[WAYS[4]] == ([0] * 20, 0, 1)

# %% [markdown]
# <details><summary>Answer</summary>
#
# * `validate: total += loss` is the expensive one: no `backward()` ever frees what its graphs have saved, so
#   all activations of all batches stay in memory.
# * `train: total += loss` saves nothing any more, since `backward()` freed it, but the *nodes* of each step's
#   graph stay: a slow leak. And `total` still has `requires_grad`: whoever uses it in a loss walks into graphs
#   that are gone.
# * `.item()` at each step holds nothing and reads 20 times. On an accelerator each read waits until all the
#   work so far is done.
# * `.detach()` holds nothing and reads once, at the end.
#
# </details>
#
# Detach what you keep, add up on the device, and read once per epoch or every 100 steps. Other reads that are
# easy to miss are `if loss.isnan():`, `print(loss)` and an f-string with a tensor in it.

# %%
loss = torch.tensor(0.5)
with HostReads() as reads:
    if loss.isnan():
        raise AssertionError
    f"{loss:.3f}"
    loss.tolist()
print("reads by name:", reads.by_name)
assert reads.count == 3

loss = nn.Linear(2, 1)(torch.ones(1, 2)).square().sum()
loss.backward()
total = 0 + loss
assert total.requires_grad
try:
    total.backward()
except RuntimeError as error:
    print("backward of a total:", str(error).split("(")[0])
else:
    raise AssertionError("the graph of the first loss should be gone")

# %% [markdown]
# ## Averages over batches
#
# **Predict:** ten samples in batches of 4, 4 and 2. The model gets the first eight right and the last two
# wrong. What is its accuracy? What is the mean of the three batch accuracies? And with `drop_last=True`?

# %%
hits = torch.tensor([1.0] * 8 + [0.0] * 2)
per_batch = [part.mean().item() for part in hits.split(4)]
print("accuracy of each batch:", per_batch)
print(
    f"mean of the batches {sum(per_batch) / 3:.3f}, with drop_last {sum(per_batch[:2]) / 2:.3f}, true {hits.mean():.3f}"
)
assert per_batch == [1, 1, 0]

mean_of_means = [torch.stack([part.mean() for part in hits.split(size)]).mean().item() for size in range(1, 11)]
per_sample = [sum(part.sum().item() for part in hits.split(size)) / len(hits) for size in range(1, 11)]

figure, axes = plt.subplots(figsize=(9, 3))
axes.plot(range(1, 11), per_sample, marker="o", label="sum over samples / number of samples")
axes.plot(range(1, 11), mean_of_means, marker="s", label="mean of the batch means")
axes.set(xlabel="batch size", ylabel="accuracy", ylim=(0, 1), xticks=range(1, 11))
axes.legend(loc="lower left")
print("Solid with dots: 0.8 for every batch size. Dashed with squares: depends on the batch size, between", end=" ")
print(f"{min(mean_of_means):.2f} and {max(mean_of_means):.2f}.")
plt.show()

assert all(math.isclose(value, 0.8, rel_tol=1e-6) for value in per_sample)
right_sizes = [size for size, value in enumerate(mean_of_means, 1) if math.isclose(value, 0.8, rel_tol=1e-5)]
assert right_sizes == [1, 2, 5, 10]  # those that divide 10

# %% [markdown]
# <details><summary>Answer</summary>
#
# 0.8; 0.667; 1.0. A mean of batch means gives samples in a short batch more weight. It is right wherever the
# batch size divides the number of samples, so a test with 8 samples in batches of 4 cannot see it.
# `drop_last` simply does not look at some samples. It has its place in training, never in validation.
#
# </details>
#
# So add up over samples, count samples, divide at the end. For a mean loss that is `loss * len(y)`. It works for
# everything that is a mean over samples. It does **not** work for ratios of counts, such as precision or F1:
#
# **Predict:** batch A: 4 samples, one called positive, rightly. Batch B: 4 samples, three called positive, all
# wrongly. The two precisions are 1 and 0. Both batches have the same size. Is the precision 0.5?

# %%
called, correct = torch.tensor([1, 3]), torch.tensor([1, 0])
print(f"mean of the precisions: {(correct / called).mean():.2f}, precision: {correct.sum() / called.sum():.2f}")
assert (correct / called).mean() == 0.5
assert correct.sum() / called.sum() == 0.25

# %% [markdown]
# <details><summary>Answer</summary>
#
# No: one of four calls was right, 0.25. Add up the *counts* over all batches, and take the ratio once.
#
# </details>

# %% [markdown]
# ## Weight decay
#
# Weight decay makes weights a little smaller at each step. With plain SGD there are two ways to do it that
# give the same result: add `weight_decay * w` to the gradient (L2), or shrink the weight directly by the factor
# `1 - lr * weight_decay` (decoupled). With Adam they are two different things, because Adam divides the
# gradient by its own size.
#
# **Predict:** a weight of 1 whose gradient is always 0, 50 steps with `lr=0.01, weight_decay=0.1`. Decoupled
# decay leaves 0.999 ** 50 = 0.951. What does `Adam(weight_decay=0.1)` leave?


# %%
def shrink(kind, gradients, lr=0.01, weight_decay=0.1):
    """A weight of 1 after each step with the given gradients."""
    w = nn.Parameter(torch.ones(()))
    optimiser = kind([w], lr=lr, weight_decay=weight_decay)
    history = [1.0]
    for gradient in gradients:
        w.grad = torch.tensor(float(gradient))
        optimiser.step()
        history.append(w.item())
    return history


adam, adamw = (shrink(kind, [0] * 50) for kind in (torch.optim.Adam, torch.optim.AdamW))
print(f"no gradient, 50 steps: Adam {adam[-1]:.3f}, AdamW {adamw[-1]:.3f}")
assert math.isclose(adamw[-1], 0.999**50, rel_tol=1e-5)
assert 0.4 < adam[-1] < 0.6

# With plain SGD both ways are one: lr * (gradient + weight_decay * w) = lr * gradient + (lr * weight_decay) * w.
by_hand = 1.0
for gradient in (0.5, -2.0, 1.0):
    by_hand = by_hand * (1 - 0.01 * 0.1) - 0.01 * gradient
assert math.isclose(shrink(torch.optim.SGD, (0.5, -2.0, 1.0))[-1], by_hand, rel_tol=1e-5)

# Gradients of mean 0 that are small or large: how much decay is left?
signs = [(-1) ** (number // 2) for number in range(200)]
figure, panels = plt.subplots(1, 2, sharey=True, figsize=(9, 3.4))
ends = {}
for axes, kind in zip(panels, (torch.optim.Adam, torch.optim.AdamW), strict=True):
    for size in (0.01, 10):
        history = shrink(kind, [size * sign for sign in signs])
        ends[kind.__name__, size] = history[-1]
        axes.plot(history, label=f"gradients ±{size:g}")
    axes.set(title=f"{kind.__name__}(weight_decay=0.1)", xlabel="steps")
panels[0].set_ylabel("weight")
panels[0].legend(fontsize=11)
for (name, size), end in ends.items():
    print(f"{name:>5}, gradients of ±{size:g}: the weight ends at {end:.2f}")
print("Left, Adam: the weight with small gradients (solid) is gone, the other (dashed) has hardly moved.")
print("Right, AdamW: both shrink alike.")
plt.show()

assert abs(ends["Adam", 0.01]) < 0.2 and ends["Adam", 10] > 0.9
assert all(abs(ends["AdamW", size] - 0.999**200) < 0.05 for size in (0.01, 10))

# %% [markdown]
# <details><summary>Answer</summary>
#
# About 0.54. The decay is Adam's only gradient, so Adam scales it up to steps of nearly `lr` each, whatever
# `weight_decay` is. In real training it is the other way round for weights with large gradients: they hardly
# decay at all. `AdamW` shrinks every weight by the same factor.
#
# </details>
#
# The second question is *which* parameters should shrink. By default: everything that you hand over.
#
# **Predict:** a network of Linear, BatchNorm and Linear has six parameters. After some AdamW steps with zero
# gradients, which of them have become smaller?

# %%
torch.manual_seed(0)
net = nn.Sequential(nn.Linear(64, 8), nn.BatchNorm1d(8), nn.Linear(8, 10))


def shrinking(optimiser, net):
    """Names of the parameters that get smaller although their gradients are 0."""
    before = {name: parameter.detach().norm() for name, parameter in net.named_parameters()}
    for parameter in net.parameters():
        parameter.grad = torch.zeros_like(parameter)
    optimiser.step()
    return [name for name, parameter in net.named_parameters() if parameter.norm() < before[name]]


everything = shrinking(torch.optim.AdamW(net.parameters(), lr=0.1, weight_decay=0.1), net)
two_groups = [
    {"params": [net[0].weight, net[2].weight], "weight_decay": 0.1},
    {"params": [net[0].bias, net[1].weight, net[1].bias, net[2].bias], "weight_decay": 0.0},
]
matrices = shrinking(torch.optim.AdamW(two_groups, lr=0.1), net)
for name, parameter in net.named_parameters():
    kind = type(net[int(name[0])]).__name__
    print(f"{name:>9} {tuple(parameter.shape)!s:>9} of {kind:<11}", "default: shrinks" * (name in everything), end="")
    print("   two groups: shrinks" * (name in matrices))

assert everything == ["0.weight", "0.bias", "1.weight", "2.weight", "2.bias"]  # 1.bias is 0 already
assert matrices == ["0.weight", "2.weight"]

# %% [markdown]
# <details><summary>Answer</summary>
#
# All of them (only BatchNorm's bias, which is 0, has nothing to lose). The scale of a BatchNorm is 1 by design,
# and pulling it towards 0 works against the layer. Biases and scales are few and do not overfit. So the usual
# choice is decay for weight *matrices* only.
#
# </details>
#
# Be careful with names: BatchNorm's scale is called `1.weight` here, so a filter that looks for "norm" or "bias"
# in the name misses it (deepspeedai/DeepSpeedExamples#75 had a pattern that matched nothing). Look at the module's
# type or the number of dimensions instead. And count: each parameter that trains belongs to exactly one group.

# %%
assert not any("norm" in name for name, _ in net.named_parameters())
in_groups = [id(parameter) for group in two_groups for parameter in group["params"]]
assert sorted(in_groups) == sorted(id(parameter) for parameter in net.parameters())
print(f"{len(in_groups)} parameters in the groups, {len(list(net.parameters()))} in the network")

# %% [markdown]
# ## The learning rate over time
#
# A scheduler knows nothing about epochs. It counts how often *you* call `step()`. The number that you gave it
# and the place from which you call it must fit.
#
# **Predict:** 5 epochs of 20 steps, a cosine from 0.1 down to 0. Three loops: `T_max=100` and called for each
# step; `T_max=100` and called for each epoch; `T_max=5` and called for each step. Draw the three curves before
# you run the cell.


# %%
def rates(t_max, every_step):
    """The learning rate at each of 100 steps in 5 epochs."""
    optimiser = torch.optim.SGD([nn.Parameter(torch.zeros(1))], lr=0.1)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, T_max=t_max)
    used = []
    for _epoch in range(5):
        for _step in range(20):
            used.append(optimiser.param_groups[0]["lr"])
            optimiser.step()
            if every_step:
                scheduler.step()
        if not every_step:
            scheduler.step()
    return used


fitting, too_slow, too_fast = rates(100, True), rates(100, False), rates(5, True)

figure, axes = plt.subplots(figsize=(9, 3.4))
axes.plot(fitting, label="T_max=100, each step")
axes.plot(too_slow, label="T_max=100, each epoch")
axes.plot(too_fast, linewidth=1.2, label="T_max=5, each step")
axes.set(xlabel="step", ylabel="learning rate")
axes.legend(loc="center left", bbox_to_anchor=(1, 0.5), fontsize=11)
print(f"Solid: falls to {fitting[-1]:.1e}. Dashed: still {too_slow[-1]:.4f} at the end.", end=" ")
print(f"Thin, dash-dotted: down and up again {sum(rate < 1e-6 for rate in too_fast)} times.")
plt.show()

assert fitting[-1] < 1e-4
assert too_slow[-1] > 0.099
assert sum(rate < 1e-6 for rate in too_fast) == 10 and sum(rate > 0.0999 for rate in too_fast) == 10

# %% [markdown]
# <details><summary>Answer</summary>
#
# Only the first is the curve that was meant. The second never gets down: training ends at nearly the full rate.
# The third swings up and down ten times: beyond `T_max` a cosine rises again.
#
# </details>
#
# None of the three raises an error. So record the rate of each step and *look at it*, once, before you train for
# a day.
#
# At the other end of training there is the **warm-up**: a few steps with small, growing rates. Why?
#
# **Predict:** the first step of Adam with `lr=0.1`, for a parameter whose gradient is 0.0001, 1 or 10000. How far
# does it move in each case?

# %%
moves = {}
for gradient in (1e-4, 1.0, 1e4):
    w = nn.Parameter(torch.zeros(()))
    w.grad = torch.tensor(gradient)
    torch.optim.Adam([w], lr=0.1).step()
    moves[gradient] = -w.item()
    print(f"gradient {gradient:g}: moved by {moves[gradient]:.4f}")
assert all(math.isclose(move, 0.1, rel_tol=1e-3) for move in moves.values())

# %% [markdown]
# <details><summary>Answer</summary>
#
# By 0.1 each time. Adam divides by the size of the gradients it has seen, and has seen only this one. So in the
# first steps *every* parameter moves at full rate, in directions that come from one or two random batches of an
# untrained network. A warm-up keeps these steps short until Adam's averages mean something.
#
# </details>
#
# `LambdaLR` takes any function of the number of `step()` calls so far. What it returns is a *factor*: each group's
# own rate is multiplied by it, so a ratio between groups stays. Making the scheduler already applies the factor for
# 0. Here is a triangle, up for 10 steps and down for 30:

# %%
first, second = nn.Parameter(torch.zeros(1)), nn.Parameter(torch.zeros(1))
optimiser = torch.optim.SGD([{"params": [first], "lr": 0.1}, {"params": [second], "lr": 0.01}])
scheduler = torch.optim.lr_scheduler.LambdaLR(optimiser, lambda n: min((n + 1) / 10, (40 - n) / 30))
used = []
for _ in range(40):
    used.append([group["lr"] for group in optimiser.param_groups])
    optimiser.step()
    scheduler.step()

print("first group: ", ", ".join(f"{rates[0]:.3f}" for rates in used[:12]), "...")
print("second group:", ", ".join(f"{rates[1]:.4f}" for rates in used[:12]), "...")
assert math.isclose(used[0][0], 0.01) and math.isclose(used[9][0], 0.1)  # the first step already warms up
assert math.isclose(used[39][0], 0.1 / 30)  # step 40 has n = 39: count from 0
assert all(math.isclose(one, 10 * other) for one, other in used)

# %% [markdown]
# ## Beyond accuracy
#
# **Predict:** a classifier for digits has hardly seen an eight. In the test data 3 % of the pictures are eights, and
# it recognises none. How high can its accuracy still be? And the mean of the ten recalls?

# %%
rare = 8


def with_few(x, y, n):
    """All samples of the other digits, and the first n eights."""
    keep = y != rare
    keep[(y == rare).nonzero()[:n, 0]] = True
    return x[keep], y[keep]


few_x, few_y = with_few(train_x, train_y, 2)
new_x, new_y = with_few(test_x, test_y, 16)
torch.manual_seed(0)
net = train(nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10)), batches_of(few_x, few_y, 64), 10)
guesses = net(new_x).argmax(dim=1)

overall = (guesses == new_y).double().mean().item()
recalls = recall_score(new_y, guesses, average=None)
print(f"accuracy {overall:.3f}, mean recall {recalls.mean():.3f}, recall of the eight {recalls[rare]:.3f}")
print("recall of each digit:", ", ".join(f"{recall:.2f}" for recall in recalls))

matrix = confusion_matrix(new_y, guesses)  # row: the true digit, column: the guess
figure, axes = plt.subplots(figsize=(9, 4.6))
axes.imshow(matrix, cmap="Blues", vmax=matrix.max())
axes.set(xticks=range(10), yticks=range(10), xlabel="predicted", ylabel="true digit")
for row, column in itertools.product(range(10), range(10)):
    if matrix[row, column]:
        ink = "white" if matrix[row, column] > 30 else "black"
        axes.text(column, row, str(matrix[row, column]), ha="center", va="center", color=ink, fontsize=10)
print(f"A dark diagonal, but for the eight: of its {matrix[rare].sum()} pictures, {matrix[rare, rare]} are recognised.")
plt.show()

assert (new_y == rare).double().mean() < 0.03
assert overall > 0.85
assert recalls[rare] < 0.3
assert recalls.mean() < overall - 0.03

# %% [markdown]
# <details><summary>Answer</summary>
#
# Up to 0.97: a class of 3 % cannot cost more than 3 %. In the mean of the recalls (the *balanced accuracy*) each
# class counts a tenth, so a dead class costs ten points. The row of the eight in the confusion matrix shows it at
# once, and also what the eights are taken for.
#
# </details>
#
# Rows or columns? Two questions that are easily mixed up: of those that *are* an eight, how many were found
# (recall)? Of those that were *called* an eight, how many are one (precision)?
#
# **Predict:** below, rows are the truth and columns the guess. What is the recall of class 0, and what is its
# precision?

# %%
counts = torch.tensor([[8, 2, 0], [4, 6, 0], [0, 0, 0]])  # class 2 does not occur
recall = counts.diagonal() / counts.sum(dim=1)
precision = counts.diagonal() / counts.sum(dim=0)
print("recall:   ", [round(value, 3) for value in recall.tolist()])
print("precision:", [round(value, 3) for value in precision.tolist()])

assert math.isclose(recall[0], 8 / 10, rel_tol=1e-6) and math.isclose(precision[0], 8 / 12, rel_tol=1e-6)
assert recall[2].isnan() and recall.mean().isnan()
assert math.isclose(recall.nanmean(), (0.8 + 0.6) / 2, rel_tol=1e-6)

# %% [markdown]
# <details><summary>Answer</summary>
#
# Recall 8/10: divide by the sum of the **row**. Precision 8/12: divide by the sum of the **column**. A transposed
# matrix swaps them, with no other sign.
#
# </details>
#
# A class that does not occur has no recall: 0/0. Decide what that should mean and write it down. Left in, one NaN
# makes the mean NaN. Turned into 0, it makes a model look bad for a class that nobody showed it. `nanmean` leaves it
# out.

# %% [markdown]
# ## A new head on an old body
#
# A body that was trained on one task, a fresh head for a new one: the cheapest way to a good model. Here the body
# has learnt the digits 0 to 4. The new task is 5 to 9, and its pictures are negatives: black and white are swapped.
#
# **Predict:** we freeze all of the body's parameters (`requires_grad_(False)`) and train only the new head, in
# train mode. Does the body still do as well on its old task afterwards?

# %%
old_x, old_y = images[labels < 5], labels[labels < 5]
new_x, new_y = 1 - images[labels >= 5], labels[labels >= 5] - 5

torch.manual_seed(0)
body = nn.Sequential(nn.Linear(64, 32), nn.BatchNorm1d(32), nn.ReLU())
old_head = nn.Linear(32, 5)
train(nn.Sequential(body, old_head), batches_of(old_x, old_y, 64), 3)


@torch.no_grad()
def old_task(body):
    """Accuracy of the body with its old head on its old task, in eval mode."""
    return accuracy(old_head(copy.deepcopy(body).eval()(old_x)), old_y)


def fine_tune(freeze=False, still_norm=False, lr_body=0.1, lr_head=0.1):
    """Train a new head (and the body) for two epochs; the changed body, and accuracy on the new task."""
    torch.manual_seed(1)
    new_body, new_head = copy.deepcopy(body), nn.Linear(32, 5)
    new_body.requires_grad_(not freeze)
    optimiser = torch.optim.SGD(
        [{"params": new_body.parameters(), "lr": lr_body}, {"params": new_head.parameters(), "lr": lr_head}],
        momentum=0.9,
    )
    new_body.train()
    if still_norm:
        new_body[1].eval()
    for _epoch, (x, y) in itertools.product(range(2), batches_of(new_x, new_y, 32)):
        optimiser.zero_grad()
        F.cross_entropy(new_head(new_body(x)), y).backward()
        optimiser.step()
    new_body.eval()
    return new_body, accuracy(new_head(new_body(new_x)), new_y)


before = old_task(body)
frozen, _ = fine_tune(freeze=True)
changed = [key for key, value in frozen.state_dict().items() if not torch.equal(value, body.state_dict()[key])]
print(f"old task before: {before:.3f}, after training only the head: {old_task(frozen):.3f}")
print("changed in the frozen body:", changed)

assert changed == ["1.running_mean", "1.running_var", "1.num_batches_tracked"]
assert old_task(frozen) < before - 0.1

# %% [markdown]
# <details><summary>Answer</summary>
#
# No. No parameter has moved, but BatchNorm's running statistics have: they follow the new data in train mode.
# `requires_grad_(False)` is about gradients, and no gradient is needed to move them. A frozen BatchNorm must be in
# **eval mode** as well.
#
# </details>
#
# If the body is to be trained too, the second question is the rate. The head is random and needs large steps. The
# body is good already, and large steps, at first driven by the errors of a random head, destroy that.
#
# **Predict:** with BatchNorm in eval mode, we train body and head at the same rate of 0.1, or the body at 0.001.
# Which one remembers the old task?

# %%
variants = {
    "body frozen,\ntrain mode": {"freeze": True},
    "body frozen,\nBatchNorm in eval": {"freeze": True, "still_norm": True},
    "one rate: 0.1": {"still_norm": True},
    "body 0.001,\nhead 0.1": {"still_norm": True, "lr_body": 0.001},
}
results = {}
for name, options in variants.items():
    tuned, new_score = fine_tune(**options)
    results[name] = (old_task(tuned), new_score)
    print(f"{' '.join(name.split()):>30}: old task {results[name][0]:.3f}, new task {new_score:.3f}")

figure, axes = plt.subplots(figsize=(9, 3.4))
for number, (task, hatch) in enumerate({"old task": "", "new task": "//"}.items()):
    places = [place + 0.4 * number - 0.2 for place in range(4)]
    color = (style.PALE_BLUE, style.PALE_ORANGE)[number]
    values = [result[number] for result in results.values()]
    axes.bar(places, values, width=0.4, label=task, hatch=hatch, color=color, edgecolor=style.INK)
axes.set_xticks(range(4), results, fontsize=11)
axes.set(ylabel="accuracy", ylim=(0, 1.3), yticks=[0, 0.5, 1])
axes.legend(loc="upper center", ncols=2)
print("Plain bars, the old task: only the second and the fourth variant keep it. Hatched bars, the new task:", end=" ")
print("the second variant learns it less well than the fourth.")
plt.show()

still, one_rate, two_rates = list(results.values())[1:]
assert still[0] == before
assert two_rates[0] > before - 0.1
assert one_rate[0] < two_rates[0] - 0.1
assert two_rates[1] > still[1] + 0.05

# %% [markdown]
# <details><summary>Answer</summary>
#
# The one with the small rate for the body. At one rate for all, the body forgets its old task within two epochs.
#
# </details>
#
# The first variant, statistics that follow the new data, does well on the *new* task: they fit the new pictures. If
# that is what you want, do it on purpose (see *Statistics that move*), not by accident: with few or small batches they
# are mostly noise, and everything else that uses this body has lost.
#
# There is a trap in `new_body[1].eval()`: the next `train()` at the start of an epoch undoes it. `train()` is an
# ordinary method: it sets its own flag, then calls `train()` of each child. `eval()` is `train(False)`. So a module
# can decide for itself what a mode means for it. Here is a Dropout that is always on (people use one to get several
# answers from one model and look at their spread):


# %%
class AlwaysOn(nn.Dropout):
    """Dropout that stays in train mode, whatever is asked for."""

    def train(self, mode=True):
        """Set the flag to True."""
        return super().train(True)


net = nn.Sequential(nn.Linear(64, 16), AlwaysOn(0.5), nn.Dropout(0.5))
net.eval()
assert [layer.training for layer in net] == [False, True, False]
net.train()
assert all(layer.training for layer in net)
print("after eval() and train() each layer is in the mode that it wants")

# %% [markdown]
# ## Padding and masks
#
# Sequences differ in length; a tensor does not. So short sequences are padded, and then two things need care: how
# *far* you pad, and that nobody takes the padding for data.
#
# Our sequences are numbers written with one to four digits, read row by row: 8 to 32 rows of 8 pixels. The model may
# get up to 256 rows.
#
# **Predict:** we run a GRU over 16 such sequences, padded to 256, or padded to the longest one in the batch. How
# many times as long does the first take?


# %%
def cost_ratio(candidate, baseline, rounds=10):
    """How many times as long as the baseline the candidate takes (fastest runs, taken in turns)."""
    fastest = {candidate: float("inf"), baseline: float("inf")}
    candidate()  # the first run of each pays for setting things up
    baseline()
    for _, version in itertools.product(range(rounds), (candidate, baseline)):
        start = time.perf_counter()
        version()
        fastest[version] = min(fastest[version], time.perf_counter() - start)
    return fastest[candidate] / fastest[baseline]


JUST_NOW = "on this machine, just now, {}. Times vary: run the cell again when the machine is idle"

# %%
LIMIT = 256
generator = torch.Generator().manual_seed(3)
lengths = torch.randint(1, 5, (16,), generator=generator)
lengths[0] = 4
sequences = [
    images[start : start + n].reshape(-1, 8) for start, n in zip(range(0, 64, 4), lengths.tolist(), strict=True)
]
lengths = torch.tensor([len(sequence) for sequence in sequences])

longest = pad_sequence(sequences, batch_first=True)  # (16, 32, 8)
to_limit = F.pad(longest, (0, 0, 0, LIMIT - longest.shape[1]))  # (16, 256, 8)
torch.manual_seed(0)
gru = nn.GRU(8, 32, batch_first=True)

with torch.no_grad():
    ratio = cost_ratio(lambda: gru(to_limit), lambda: gru(longest))
used = lengths.sum().item()
print(f"padded to the limit takes {ratio:.1f} times as long as padded to the longest")
print(f"of the steps, {used / longest[..., 0].numel():.0%} are data if padded to the longest,", end=" ")
print(f"{used / to_limit[..., 0].numel():.0%} if padded to the limit")

figure, panels = plt.subplots(2, 1, figsize=(9, 3.4))
for axes, padded, name in zip(panels, (longest, to_limit), ("the longest", "the limit"), strict=True):
    axes.imshow(torch.arange(padded.shape[1]) < lengths[:, None], aspect="auto", vmin=-0.5, vmax=1.5)
    axes.set(title=f"padded to {name}: {padded.shape[1]} steps", ylabel="sequence", xlim=(-0.5, LIMIT - 0.5))
panels[1].set_xlabel("step")
print("Light: data. Dark: padding. Padded to the limit, nearly the whole rectangle is dark.")
plt.show()

assert tuple(longest.shape) == (16, 32, 8) and tuple(to_limit.shape) == (16, 256, 8)
assert ratio > 3, JUST_NOW.format(f"the ratio was {ratio:.1f} (expected: about {LIMIT // 32})")

# %% [markdown]
# <details><summary>Answer</summary>
#
# About eight times, or more: a recurrent net does one step after the other, and 256 is eight times 32. Pad to the
# longest sequence *of this batch*; the limit is only for cutting what is longer. Batches of similar lengths waste even
# less.
#
# </details>
#
# And the padding? A GRU runs on over zeros, and its state changes at each of them.
#
# **Predict:** we want the last state of each sequence. `states[:, -1]` is the last step of the rectangle. Does what
# it says about the *shortest* sequence depend on the others in the batch?

# %%
with torch.no_grad():
    states, _ = gru(longest)
    alone = torch.stack([gru(sequence[None])[0][0, -1] for sequence in sequences])
    packed = pack_padded_sequence(longest, lengths, batch_first=True, enforce_sorted=False)
    _, from_packed = gru(packed)

    shortest = sequences[lengths.argmin()]
    by_padding = [gru(F.pad(shortest, (0, 0, 0, padding))[None])[0][0, -1] for padding in (0, 1, 4, 24)]

errors = [(state - by_padding[0]).abs().max().item() for state in by_padding]
print(f"the shortest sequence has {len(shortest)} steps. Its state at the end of the rectangle is off by")
for padding, error in zip((0, 1, 4, 24), errors, strict=True):
    print(f"    {error:.3f} if the longest in the batch has {len(shortest) + padding}")
assert errors[0] == 0 and min(errors[1:]) > 0.01 and len(set(errors)) == 4

own_last = states[torch.arange(16), lengths - 1]
assert torch.allclose(own_last, alone, atol=1e-5)
assert torch.allclose(from_packed[0], alone, atol=1e-5)  # a packed sequence stops at its own end
assert not torch.allclose(states[:, -1], alone, atol=1e-2)

# %% [markdown]
# <details><summary>Answer</summary>
#
# Yes. `states[:, -1]` has run over padding, and how much of it there is depends on the longest sequence in the batch.
# So the answer for one sequence depends on its neighbours. The state at its own last step does not.
#
# </details>
#
# For anything over all steps (a maximum, a sum, attention) make a **mask** from the lengths, once per batch:
# `arange(T) < lengths[:, None]`. And here is a good test: pad with NaN in place of 0. What looks at the padding comes
# out as NaN. It also shows why multiplying by the mask is not enough: `0 * NaN` is NaN.

# %%
mask = torch.arange(longest.shape[1], device=longest.device) < lengths[:, None]  # (16, 32)
poisoned = longest.masked_fill(~mask[..., None], float("nan"))
with torch.no_grad():
    poisoned_states, _ = gru(poisoned)
highest = {
    "no mask": poisoned_states.amax(dim=1),
    "times mask": (poisoned_states * mask[..., None]).amax(dim=1),
    "masked_fill": poisoned_states.masked_fill(~mask[..., None], -torch.inf).amax(dim=1),
}
for name, values in highest.items():
    print(f"{name:>11}: {values.isnan().any(dim=1).sum()} of 16 sequences are NaN")

assert highest["no mask"].isnan().any() and highest["times mask"].isnan().any()
by_hand = torch.stack([states[n, : lengths[n]].amax(dim=0) for n in range(16)])
assert torch.allclose(highest["masked_fill"], by_hand, atol=1e-5)

# %% [markdown]
# ## Overfit one batch
#
# Before you train for a night: take *one* batch, and train on it until the model knows it by heart. A healthy pipeline
# gets there in a minute. If it cannot learn 32 samples, it will not learn a million.
#
# Below are a healthy pipeline and five that are broken.
#
# **Predict:** the usual test is "the loss has fallen". Which of the broken ones pass it? Which pass "one batch: the
# loss gets below 0.1"? And which one passes "one batch: all predictions are right in eval mode" as well?


# %%
def learn_batch(bug, x, y, n_steps=100):
    """Train a fresh network on one batch; its losses, and the network."""
    torch.manual_seed(0)
    hidden, head = nn.Linear(64, 48), nn.Linear(48, 10)
    norm = nn.BatchNorm1d(48, momentum=1e-4 if bug == "statistics do not follow" else 0.1)
    net = nn.Sequential(hidden, norm, nn.ReLU(), head)
    trained = head.parameters() if bug == "hidden layer not trained" else net.parameters()
    optimiser = torch.optim.AdamW(trained, lr=0.01)
    losses = []
    for _ in range(n_steps):
        optimiser.zero_grad()
        targets = y[torch.randperm(len(y))] if bug == "labels shuffled" else y
        out = net(x).softmax(dim=1) if bug == "softmax first" else net(x)
        loss = F.cross_entropy(out, targets)
        loss.backward()
        if bug == "zero_grad too late":
            optimiser.zero_grad()
        optimiser.step()
        losses.append(loss.item())
    return losses, net


x, y = train_x[100:132], train_y[100:132]
PIPELINES = (
    "healthy",
    "softmax first",
    "labels shuffled",
    "zero_grad too late",
    "statistics do not follow",
    "hidden layer not trained",
)
passes = {}
figure, axes = plt.subplots(figsize=(9, 3.8))
looks = itertools.cycle(
    zip(
        [style.BLUE, style.ORANGE, style.GREEN, style.PURPLE, style.GREY, style.INK],
        ["-", "--", "-.", ":", "-", "--"],
        strict=True,
    )
)
print(f"{'':>25}  loss has fallen  loss below 0.1  right in eval mode")
for bug, (color, dash) in zip(PIPELINES, looks, strict=False):
    losses, net = learn_batch(bug, x, y)
    with torch.no_grad():
        known = accuracy(net.eval()(x), y)
    last = sum(losses[-10:]) / 10
    passes[bug] = (last < losses[0] - 0.02, last < 0.1, known == 1)
    axes.semilogy(losses, color=color, linestyle=dash, linewidth=6 if bug == "healthy" else 2, label=bug)
    print(f"{bug:>25}", *(f"{'passes' if passed else 'CAUGHT':>15}" for passed in passes[bug]))
axes.axhline(0.1, color=style.GREY, linewidth=1)
axes.set(xlabel="steps on the same batch", ylabel="loss (log scale)")
axes.legend(fontsize=11, loc="center left", bbox_to_anchor=(1, 0.5))
print("Three curves dive under 0.1: the healthy one (thick), 'statistics do not follow', which lies on it,", end=" ")
print("and 'hidden layer not trained'.")
plt.show()

assert passes == {
    "healthy": (True, True, True),
    "softmax first": (True, False, True),
    "labels shuffled": (True, False, False),
    "zero_grad too late": (False, False, False),
    "statistics do not follow": (True, True, False),
    "hidden layer not trained": (True, True, True),
}

# %% [markdown]
# <details><summary>Answer</summary>
#
# "The loss has fallen" catches only the pipeline that does not move at all. A threshold catches the softmax and the
# shuffled labels too. It must lie below every floor that a bug can cause (1.46 for the softmax), and a healthy
# pipeline must pass it with a wide margin. Looking at the predictions in eval mode catches the statistics: that
# pipeline's loss is fine, in train mode.
#
# The hidden layer that is not trained gets past all three: the head alone can learn 32 samples by heart.
#
# </details>
#
# So one batch tells you a lot and not everything. Other quick questions to ask in the same minute: has *every*
# parameter moved? Is the very first loss near `log(C)`, 2.3 for ten classes? Does the *reported* loss agree with one
# that you compute yourself? What about labels that belong to other pictures, always the same ones? The model will
# learn those by heart as well. Only looking at the data helps.

# %%
_, net = learn_batch("hidden layer not trained", x, y)
torch.manual_seed(0)
fresh = nn.Linear(64, 48)  # the first thing that learn_batch makes, from the same seed
still = [torch.equal(net[0].weight, fresh.weight), torch.equal(net[0].bias, fresh.bias)]
first_loss = learn_batch("healthy", x, y, 1)[0][0]
print(
    f"hidden layer unchanged after 100 steps: {all(still)}; first loss {first_loss:.2f}, log(10) = {math.log(10):.2f}"
)
assert all(still)
assert abs(first_loss - math.log(10)) < 0.6

# %% [markdown]
# ## Three functions instead of one
#
# Most loops begin as one long function: train, validate, schedule, log, keep the best model. It works, until you want
# to test it. Then the only thing that you can do is to run all of it and see whether the result looks good.
#
# Split it in three: one function trains for an epoch, one validates, and `fit` decides what happens when. `fit` is
# given the other two, so that it can be tested **without any real training**: with functions that only take notes.
#
# **Predict:** `fit` below keeps the model of the best epoch. The scores will be 0.5, 0.9 and 0.7. It has one bug that
# no look at the curves would show. Which weight does it return, that of epoch 0, 1 or 2?


# %%
def fit(model, train_epoch, validate, n_epochs):
    """Train for some epochs; the state of the epoch with the best score."""
    best_score, best_state = -math.inf, None
    for epoch in range(n_epochs):
        train_epoch(model, epoch)
        score = validate(model, epoch)
        if score > best_score:
            best_score, best_state = score, model.state_dict()
    return best_state


notes = []


def noting_train(model, epoch):
    """Instead of training: set the weight to the number of the epoch."""
    notes.append(f"train {epoch}")
    with torch.no_grad():
        model.weight.fill_(epoch)


def noting_validate(model, epoch):
    """Instead of validating: a score that was thought up."""
    notes.append(f"validate {epoch}")
    return [0.5, 0.9, 0.7][epoch]


best = fit(nn.Linear(1, 1, bias=False), noting_train, noting_validate, 3)
print("calls:", ", ".join(notes))
print("weight of the best epoch:", best["weight"].item())

assert notes == ["train 0", "validate 0", "train 1", "validate 1", "train 2", "validate 2"]
assert best["weight"].item() == 2  # it should be 1

# %% [markdown]
# <details><summary>Answer</summary>
#
# That of epoch 2, the last one. `state_dict()` holds the model's own tensors, not copies: training goes on and changes
# them in place. Keep `copy.deepcopy(model.state_dict())`, or write it to a file.
#
# </details>
#
# Two notes and a made-up score found it in a millisecond. Trained for real, you would have a model that is "a bit
# worse than the log said".

# %%
kept = nn.Linear(1, 1, bias=False)
live, copied = kept.state_dict(), copy.deepcopy(kept.state_dict())
with torch.no_grad():
    kept.weight.fill_(7)
assert live["weight"] == 7 and copied["weight"] != 7

# %% [markdown]
# The other two functions are tested alone as well, with cases that can be worked out by hand.
#
# **Predict:** the "model" below is `nn.Identity()`, so the logits are what we hand in. The metric is the share of
# samples whose label is among the *two* largest logits. Three samples come in batches of 2 and 1. What is it?


# %%
def top_two(model, batches):
    """Share of samples whose label is among the two largest logits."""
    hits, n = 0, 0
    for x, y in batches:
        hits += (model(x).topk(2).indices == y[:, None]).any(dim=1).sum().item()
        n += len(y)
    return hits / n


case = [
    (torch.tensor([[3.0, 2.0, 1.0], [3.0, 2.0, 1.0]]), torch.tensor([1, 2])),  # second largest: yes; smallest: no
    (torch.tensor([[0.0, 5.0, 4.0]]), torch.tensor([2])),  # second largest: yes
]
print(f"share: {top_two(nn.Identity(), case):.3f}")
assert top_two(nn.Identity(), case) == 2 / 3

# %% [markdown]
# <details><summary>Answer</summary>
#
# 2/3. A mean of batch means would give (1/2 + 1) / 2 = 3/4: with batches of 2 and 1 this small case can tell the two
# apart. With batches of equal size it could not.
#
# </details>
#
# And a training epoch? One weight, plain SGD, two batches, and you can follow each number with a pencil. If one step
# looks right, do three: some bugs need a second step to show.

# %% [markdown]
# ## Summary
#
# | Symptom | Look at | Lesson section |
# |---|---|---|
# | The loss does not move, or falls and then turns | the order of zero, backward, clip, step | The order of the calls |
# | Scores jump from call to call; fine in training only | `training` of every module | Two modes |
# | A model does not adapt, or changes untrained | `running_mean`, the mode | Statistics that move |
# | The loss gets stuck at 1.46 (ten classes) | a softmax before the loss | Logits, not probabilities |
# | Layers that do not learn; parts left behind | `named_parameters()`, `.to("meta")` | What a module knows about |
# | Accumulated steps differ from large batches | what the mean is over; the last group | Accumulating gradients |
# | One bad batch ruins everything | gradient's length; clip between backward and step | When a batch explodes |
# | Memory grows; the accelerator waits | losses kept with their graph; reads at each step | What the log keeps alive |
# | The metric depends on the batch size | sums and counts instead of means | Averages over batches |
# | Decay does not help, or hurts | `AdamW`; which parameters are in which group | Weight decay |
# | Diverges at the start, does not settle at the end | the rate of every step, plotted | The learning rate over time |
# | High accuracy, unhappy users | recall of each class, confusion matrix | Beyond accuracy |
# | Fine-tuning forgets | BatchNorm of the body, its learning rate | A new head on an old body |
# | Short sequences are slow; results depend on neighbours | padded length, mask | Padding and masks |
# | It learns, but not well, and nobody knows why | one batch, learnt by heart | Overfit one batch |
# | The loop cannot be tested | `fit` with functions that take notes | Three functions instead of one |
#
# Now it is your turn: the exercise is a digits classifier with all that belongs to it. It runs, it shines in training,
# and it is wrong in several of these ways:
# [open the exercise](../exercises/ch03_training_loop/ch03_training_loop.ipynb).
