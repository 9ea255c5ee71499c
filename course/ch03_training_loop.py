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
#
# Plan for about an hour of reading, and pause where you like. Tasks 1 to 5 of the exercise need the sections up
# to *The learning rate over time*, except *Statistics that move*; that one and the rest are for tasks 6 to 10.

# %%
import copy
import itertools
import math

import matplotlib.pyplot as plt
import torch
import torch.nn.functional as F
from explorers.loop import ORDERS, RIGHT, explore_loop, run_order, summary
from explorers.timing import JUST_NOW, cost_ratio
from sklearn.metrics import confusion_matrix, recall_score
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_sequence

from autograder import plotting
from autograder.instruments import HostReads, SavedTensors
from autograder.pictures import digits

plotting.use_course_style()
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
# and through the optimiser's state, and they hardly ever check whether it was their turn.
#
# The example is as small as it can be: two weights, sixteen points, SGD with momentum, three epochs of
# four batches. One target in the third batch is 100 times too large.
#
# Here are six orders: the right one (zero, forward, backward, clip, step, scheduler), one without
# `zero_grad()`, one with it between backward and step, one that steps before backward, one that clips after
# the step, and one that calls the scheduler before the step.
#
# **Predict:** which two never move the weights at all? Which wrong one looks perfectly right after the *first*
# step?

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
for name in ("zero between backward and step", "step before backward"):
    assert set(curves[name]) == {right[0]}  # never moves
    assert all(moment.gradient is None for moment in run_order(name).moments if moment.call == "step")
assert curves["no zero"][1] == right[1]  # one step shows nothing
assert curves["no zero"][4] < right[4] and curves["no zero"][12] > 4 * right[12]
assert curves["clip after step"][2] < right[2] and curves["clip after step"][12] > 50 * right[12]
assert all(curves["scheduler before step"][steps] < 2 * right[steps] for steps in range(13))

figure, axes = plt.subplots()
axes.set_prop_cycle(plt.cycler(color=[plotting.BLUE, plotting.ORANGE, plotting.GREEN, plotting.PURPLE, plotting.GREY]))
dashes = iter(["-", "--", "-.", ":", "-"])
for name, marker in zip(shown, ["o", "s", "^", None, "D", "x"], strict=True):
    if marker:  # one of the two that never move is enough
        axes.semilogy(curves[name], next(dashes), marker=marker, label=name)
axes.set(xlabel="steps of the optimiser", ylabel="loss (log scale)")
axes.legend(fontsize=11, loc="center left", bbox_to_anchor=(1, 0.5))
plotting.show_figure(
    "Curves: without zero_grad (squares) the loss falls faster at first, then turns. Cleared too early (triangles), "
    "it is flat. Clipped too late (diamonds), the spoilt batch throws the weights away. The scheduler first "
    "(crosses): close to the right order."
)

# %% [markdown]
# <details><summary>Answer</summary>
#
# Two never move: `zero_grad()` *between* backward and step, and `step()` *before* backward. In both, the
# step meets an empty `.grad`: `zero_grad()` sets it to `None`, and an optimiser skips parameters whose
# gradient is `None`, without a word.
#
# Without `zero_grad()` the first step is exactly right. Then the gradients pile up, because `backward()`
# **adds** to `.grad`. A test of one step cannot see that. Take three.
#
# </details>
#
# Now step through it by hand. Start with "no zero", and move the slider until the second `backward()`.
# Then try "clip after step" at batch 3. The last two orders of the list are about the mode, train or eval:
# the small model has a layer of Dropout.

# %%
print("Explorer: one training, call by call; the line and the table say what is in the weights and in .grad.")
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
# The last order even ends lower than the right one: two weights cannot overfit, so here Dropout only
# disturbs. Do not trust a lower training loss. A Dropout that was lost looks just like that.

# %% [markdown]
# ## Two modes
#
# A module has a flag, `training`. Only a few layers look at it. `Dropout` throws elements away while it is
# True, and does nothing while it is False. `BatchNorm` normalises with the mean and variance of *this
# batch* while it is True. While it is False, it normalises with its *running statistics*, averages that it has
# kept in training.
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
        print(f"{mode:>5} mode: {', '.join(f'{score:.3f}' for score in scores[mode])}")

assert len(set(scores["eval"])) == 1
assert len(set(scores["train"])) >= 4
assert max(scores["train"]) < scores["eval"][0]

# %% [markdown]
# <details><summary>Answer</summary>
#
# One in eval mode. In train mode nearly every validation gives another value, all of them too low, since
# Dropout still throws half of the features away.
#
# </details>
#
# Now BatchNorm.
#
# **Predict:** does what a fresh BatchNorm layer says about one picture depend on the other pictures in the batch,
# in eval mode and in train mode? And what does it do in train mode with a batch of one picture?

# %%
norm = nn.BatchNorm1d(64)
one, others = train_x[:1], train_x[1:16]
with torch.no_grad():
    alone = norm.eval()(one)
    in_company = norm.eval()(torch.cat([one, others]))[:1]
    in_training = norm.train()(torch.cat([one, others]))[:1]
assert torch.allclose(alone, in_company)
assert not torch.allclose(alone, in_training)

print("eval mode: the others change the answer by", (alone - in_company).abs().max().item())
print("train mode: the others change the answer by", (alone - in_training).abs().max().item())

try:
    norm.train()(one)
except ValueError as error:
    print("a batch of one picture in train mode:", error)
else:
    raise AssertionError("one picture has no variance to normalise with")
assert 1153 % 64 == 1 and 1154 % 64 == 2

two = train_x[:2]
with torch.no_grad():
    of_two = norm.train()(two)
differ = two[0] != two[1]
assert torch.allclose(of_two[:, differ].abs(), torch.ones(2, int(differ.sum())), atol=0.02)

# %% [markdown]
# <details><summary>Answer</summary>
#
# In eval mode no, in train mode yes. One picture has no variance, so in train mode that is an error.
#
# </details>
#
# This error is how an epoch ends for a data set of 1153 samples in batches of 64. With 1154 samples there is no
# error, but the last batch has only two rows. Then BatchNorm makes +1 and -1 of *any* two numbers that differ:
# all that is left of two pictures is which one is brighter at each pixel.
#
# Modes and gradients are two different switches: `eval()` does not save any memory (see *What the log keeps alive*),
# and `no_grad()` does not switch Dropout off. And `train()` and `eval()` reach far: each sets the flag
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
# In train mode: the layer is not frozen any more. So a validation that leaves no trace does not end with
# `train()`. It notes the flag of *each* module before it begins, and puts each one back, even if an error
# ends it early. (`module.training` is a plain attribute. You may set it, and then no other module changes.)
#
# </details>
#
# A model that comes in eval mode should leave in eval mode, too. And if you forget `train()` altogether,
# Dropout is off and BatchNorm's statistics stand still from the second epoch on. Nothing reports it, as you saw
# in the explorer.

# %% [markdown]
# ## Statistics that move
#
# BatchNorm keeps two things that are not parameters: `running_mean` and `running_var`. No optimiser changes
# them. They move in the forward pass.
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
# In both cases of train mode. Gradients do not matter at all. So if you show a model new data in eval mode, it
# adapts nothing: the scores stay the same to the last digit. And a forward pass in train mode, "just to
# look", does change the model, also under `no_grad()`.
#
# </details>
#
# How fast do they move? With `momentum=0.1` (the default) each batch contributes a tenth:
# `new = 0.9 * old + 0.1 * batch`. This is the opposite of an optimiser's momentum, where 0.9 keeps the
# past.
#
# **Predict:** after 10 batches with mean 5, starting from 0: where is `running_mean`? With `momentum=None` the
# layer keeps the plain average of all batches that it has seen. Where is it then?

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
assert abs(histories[None][1] - 5) < 0.5 and abs(histories[0.5][10] - 5) < 0.3

figure, axes = plt.subplots(figsize=(9, 3.4))
for (momentum, history), marker in zip(histories.items(), "os^", strict=True):
    axes.plot(history, marker=marker, markersize=5, label=f"momentum={momentum}")
axes.axhline(5, color=plotting.GREY, linewidth=1)
axes.set(xlabel="batches seen in train mode", ylabel="running_mean", xticks=range(0, 21, 5))
axes.legend()
plotting.show_figure(
    f"Curves: momentum=0.1 (dots) creeps up, {histories[0.1][10]:.2f} after 10 batches. 0.5 (squares) is faster. "
    f"None (triangles): {histories[None][1]:.2f} after one batch."
)

# %% [markdown]
# <details><summary>Answer</summary>
#
# At about 3.3: the old statistics still count for `0.9 ** 10`, a third. With `momentum=None` it is close to 5
# after the first batch: the old value has no part in the average.
#
# </details>
#
# "All batches" are those since the last `reset_running_stats()`; `num_batches_tracked` counts them. Without a
# reset, the batches of the training still count.
#
# **Predict:** with `momentum=None`, a batch of 2 rows and one of 30. Does each *row* count the same, or each
# *batch*? And by what is the sum of squares divided in the variance, by n or by n - 1?

# %%
layer = nn.BatchNorm1d(1, momentum=None)
small, large = drifted[0][:2], drifted[1][:30]
layer(small)
layer(large)
print(f"running_mean {layer.running_mean.item():.4f}: mean of the batches' means", end=" ")
print(f"{(small.mean() + large.mean()) / 2:.4f}, mean of all rows {torch.cat([small, large]).mean():.4f}")
assert not torch.allclose(layer.running_mean, torch.cat([small, large]).mean(), atol=0.1)
assert torch.allclose(layer.running_mean, (small.mean() + large.mean()) / 2)
assert torch.allclose(layer.running_var, (small.var() + large.var()) / 2)
assert layer.num_batches_tracked == 2

centred = large - large.mean()
assert torch.allclose(layer(large), centred / (large.var(correction=0) + layer.eps).sqrt(), atol=1e-5)

layer.reset_running_stats()
assert (layer.running_mean.item(), layer.running_var.item(), layer.num_batches_tracked.item()) == (0, 1, 0)

# %% [markdown]
# <details><summary>Answer</summary>
#
# Each batch. The variance that is *kept* is divided by n - 1; the one that train mode *normalises with* is divided
# by n.
#
# </details>

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
# It is 1.46, and nothing can be better. The second softmax sees one number 1 and nine numbers 0, and gives the
# right class `e / (e + 9)`. With C classes the floor is `log(1 + (C - 1) / e)`. So if a loss gets stuck just above
# 1.46 with ten classes, or 0.74 with four, look for a softmax. People report these very numbers
# (ariecattan/SciCo#2).
#
# </details>
#
# **Predict:** we train the same network without and with a softmax at its end. Which one recognises more *new*
# digits?

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
axes.axhline(floor, color=plotting.GREY, linewidth=1)
axes.annotate("floor: 1.46", (80, floor - 0.05), va="top", color=plotting.GREY)
axes.set(xlabel="steps", ylabel="training loss")
axes.legend()
for name, curve in losses.items():
    print(f"{name:>14}: loss {curve[0]:.2f} -> {curve[-1]:.3f}, accuracy on new digits {scores[name]:.3f}")
plotting.show_figure(
    "Curves: from logits (solid) the loss falls to almost 0. Softmax first (dashed): it comes to rest on the floor."
)

assert losses["logits"][-1] < 0.1
assert floor < min(losses["softmax first"]) < 1.7
assert abs(scores["softmax first"] - scores["logits"]) < 0.1

# %% [markdown]
# <details><summary>Answer</summary>
#
# Neither by much, on this easy task. That is why the bug lives long: the accuracy says that all is well, and only
# the loss looks odd.
#
# </details>
#
# Still, it can do harm.
#
# **Predict:** a sample is *confidently* wrong: its logits are 20, 0 and 0, and the second class is the right one.
# How long is the gradient of the loss, without and with a softmax in between?

# %%
confident = torch.tensor([[20.0, 0.0, 0.0]], requires_grad=True)
truth = torch.tensor([1])
(push,) = torch.autograd.grad(F.cross_entropy(confident, truth), confident)
(push_twice,) = torch.autograd.grad(F.cross_entropy(confident.softmax(dim=1), truth), confident)
print(f"gradient, logits: {push.norm():.3f}; softmax first: {push_twice.norm():.1e}")
assert push.norm() > 1.4 and push_twice.norm() < 1e-6

logs = confident.log_softmax(dim=1)
assert torch.allclose(logs.log_softmax(dim=1), logs)
assert torch.equal(confident.argmax(dim=1), confident.softmax(dim=1).argmax(dim=1))
assert F.binary_cross_entropy_with_logits(torch.ones(3), torch.ones(3)) > 0.31  # probabilities 1, targets 1

# %% [markdown]
# <details><summary>Answer</summary>
#
# 1.41 and, but for rounding, 0. Such a sample should push hardest. Behind a softmax it does not push at all, so it
# stays wrong.
#
# </details>
#
# So the network returns logits, and whoever wants probabilities takes the softmax outside. The largest logit has
# the largest probability, so `argmax` needs none. The same goes for `sigmoid` and
# `binary_cross_entropy_with_logits`. (A *log*-softmax in the network does no harm: taken twice, it is the same.)

# %% [markdown]
# ## What a module knows about
#
# `parameters()`, `state_dict()` and `.to(...)` walk over what a module has *registered*. A `Parameter` or a
# `Module` is registered when you assign it to an attribute. Any other tensor is registered only by
# `register_buffer`.
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

bag.eval()
assert bag.in_list[0].training and not bag.in_module_list[0].training  # eval() does not reach the list

# %% [markdown]
# <details><summary>Answer</summary>
#
# A plain list is not a module. Layers in it are in none of the three: they are not saved, they stay on the CPU,
# and the optimiser never hears of them, so they keep their random weights. `eval()` does not reach them either.
#
# The plain tensor is left behind as well. A buffer is saved and moved but not trained, which is right for
# constants such as the mean of the data. A buffer with `persistent=False` is moved but not saved.
#
# </details>
#
# **Predict:** an optimiser trains `bag.parameters()`. The forward pass uses the layer in the list. Does that layer
# get a gradient? Does it move?

# %%
torch.manual_seed(0)
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
# <details><summary>Answer</summary>
#
# It has a gradient, since autograd does not care about registration, and it does not move. So "every layer has a
# gradient" is not a good test. "Every layer has moved after a step" is.
#
# </details>
#
# On a CPU nothing is ever on the wrong device. So how do you find parts that are left behind, if your laptop
# has no GPU? With the **meta** device, which is always there. Its tensors have a shape but no memory, and mixing
# them with tensors on the CPU is an error (nearly always).
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
# `forward`, make it where the input is: `torch.arange(3.0, device=x.device, dtype=x.dtype)`.
#
# </details>
#
# The cure is *not* to write `.to(x.device)` in `forward`: that copies at each step, and what is not
# registered is still not saved.
#
# A second test that needs no GPU: convert module and input to `torch.bfloat16`, and look at the output's dtype.
#
# **Predict:** why not to `torch.float64`?

# %%
for dtype in (torch.float64, torch.bfloat16):
    out = {kind: kind().to(dtype)(torch.zeros(2, 3, dtype=dtype)).dtype for kind in (AddsPlain, AddsBuffer)}
    print(f".to({dtype}): AddsPlain gives {out[AddsPlain]}, AddsBuffer {out[AddsBuffer]}")
    assert out[AddsBuffer] == dtype
    assert out[AddsPlain] == (torch.float64 if dtype == torch.float64 else torch.float32)

# A CPU tensor without dimensions may be mixed with any device: meta does not notice it either.
assert (torch.zeros(3, device="meta") + torch.tensor(1.0)).shape == (3,)

# %% [markdown]
# <details><summary>Answer</summary>
#
# A sum takes the wider of two dtypes, and float64 is wider than the float32 that was left behind. So it hides.
#
# </details>
#
# Neither test finds everything: a number *without dimensions* may be mixed with any device. So read the names in
# `state_dict()`, too.

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
# *tokens*, and the loss is a mean over tokens. Divide by the number of things that the mean is over. And do not
# log the loss that you have divided for `backward()`: it is too small by that factor.
#
# The other question is which calls come once per micro-batch, and which once per step.
#
# **Predict:** ten batches, one step for every four. Each batch adds 1 to the gradient of `w`, and
# the learning rate is 1, so `-w` counts how many batches have been used. What is it after one epoch? And after
# two? And what if `zero_grad()` comes before *each* batch, as in a plain loop, and there are 8 batches?

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

w = nn.Parameter(torch.zeros(()))
optimiser = torch.optim.SGD([w], lr=1.0)
for number in range(8):
    optimiser.zero_grad()
    w.backward()
    if (number + 1) % 4 == 0:
        optimiser.step()
print(f"with zero_grad() before each batch: {-w.item():.0f} of 8")
assert w == -2

# %% [markdown]
# <details><summary>Answer</summary>
#
# 8, then 16. The last two batches of each epoch never become a step, and `zero_grad()` throws their gradient
# away. Without it they would leak into the first step of the next epoch, which is then made of six batches.
# A well-known library dropped 24 of 120 batches per epoch in this way (ultralytics/ultralytics#11217).
#
# 2 of 8: in front of each `backward()`, `zero_grad()` leaves only the last micro-batch of each group.
#
# </details>
#
# So `zero_grad()` belongs to the step, not to the micro-batch.
#
# The last group must step too, and it must be divided by *its own* number of samples. You need to know that
# number before you divide: collect the group first, or scale the gradient just before the step.
#
# One thing accumulation cannot do: BatchNorm sees each micro-batch by itself (see *Two modes*). Four micro-batches
# of 8 are normalised with statistics of 8 rows, not of 32.

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
curves, distances = {}, {}
for clip, marker in zip(("between", "before backward", "after step"), "osx", strict=True):
    curves[clip], distances[clip] = run_with_spoilt_batch(clip)
    axes.semilogy(curves[clip], marker=marker, markersize=8 if marker == "x" else 5, label=f"clipped {clip}")
    print(f"clipped {clip:>15}: the spoilt batch moved the weights by {distances[clip]:.3g}")
axes.set(xlabel="step (number 8 is spoilt)", ylabel="loss on good data (log scale)", xticks=range(0, 20, 2))
axes.legend()
plotting.show_figure(
    "Curves: clipped in between (solid, dots) there is no jump, but the loss falls slowly. The other two lie on each "
    "other: they fall fast and then jump from below 1 to above a million."
)

assert all(later < earlier for earlier, later in itertools.pairwise(curves["between"]))
assert curves["after step"][7] < 1 < curves["between"][7] and curves["after step"][8] > 1e6
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
# It is also slower here: `max_norm=1` shortens the good gradients too. Look at the lengths in your log, and choose
# `max_norm` somewhat above the usual ones. With accumulation, clip once per step, after the last micro-batch.
#
# Clipping does not help against an *infinite* gradient: `max_norm / inf` is 0, and `inf * 0` is NaN.

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
# Three things can be counted, also on a CPU. `SavedTensors` counts the tensors that graphs have saved for a backward
# pass. `HostReads` counts how often Python reads a tensor's value. And `nodes_behind` counts the *nodes* of the graph
# that a tensor keeps alive: one for each operation.
#
# **Predict:** five ways to add up losses over 20 batches. In which do saved tensors pile up? In which does
# the graph grow all the same? Which reads a value at each step?


# %%
def nodes_behind(total):
    """How many nodes of the autograd graph a value keeps alive."""
    found, waiting = set(), [getattr(total, "grad_fn", None)]
    while waiting:
        node = waiting.pop()
        if node is not None and node not in found:
            found.add(node)
            waiting += [parent for parent, _ in node.next_functions]
    return len(found)


def add_up(keep, training=True, grad=True):
    """Add up keep(loss) over 20 batches: saved tensors after each, nodes behind the total, host reads."""
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(64, 16), nn.ReLU(), nn.Linear(16, 10))
    optimiser = torch.optim.SGD(net.parameters(), lr=0.1)
    total, alive = torch.zeros(()), []
    with SavedTensors() as saved, HostReads() as reads, torch.set_grad_enabled(grad):
        for x, y in batches_of(train_x, train_y, 60):
            loss = F.cross_entropy(net(x), y)
            if training:
                optimiser.zero_grad()
                loss.backward()
                optimiser.step()
            total = total + keep(loss)
            alive.append(saved.alive)
        total.detach().item()  # for the log, once
    return alive, nodes_behind(total), reads.count


counts = {
    "train: total += loss": add_up(lambda loss: loss),
    "train: total += loss.detach()": add_up(lambda loss: loss.detach()),
    "train: total += loss.item()": add_up(lambda loss: loss.item()),
    "validate: total += loss": add_up(lambda loss: loss, training=False),
    "validate under no_grad: total += loss": add_up(lambda loss: loss, training=False, grad=False),
}
print(f"{'':>38}  saved tensors after 1, 2, ... 20 batches  nodes  host reads")
for way, (alive, nodes, n_reads) in counts.items():
    print(f"{way:>38}  {f'{alive[0]}, {alive[1]}, ... {alive[-1]}':>40}  {nodes:>5}  {n_reads:>10}")

with_graph, detached, read, validated, without_grad = counts.values()
assert with_graph[0] == [0] * 20 and with_graph[1] > 100 and with_graph[2] == 1
assert detached == without_grad == ([0] * 20, 0, 1)
assert read == ([0] * 20, 0, 20 + 1)
assert validated[0] == [validated[0][0] * number for number in range(1, 21)] and validated[0][0] > 0

# %% [markdown]
# <details><summary>Answer</summary>
#
# * `validate: total += loss` is the expensive one: no `backward()` ever frees what its graphs have saved, so
#   all activations of all batches stay in memory.
# * `train: total += loss` holds no saved tensors, since `backward()` freed them. But the *nodes* of each step's
#   graph stay: a slow leak.
# * `.item()` at each step holds nothing and reads 20 times more. On an accelerator each read waits until all the
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
plotting.show_figure(
    "Curves: counted by samples (solid, dots), 0.8 for every batch size. The mean of means (dashed, squares) depends "
    f"on the batch size, between {min(mean_of_means):.2f} and {max(mean_of_means):.2f}."
)

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
# So add up over samples, count samples, divide at the end. For a mean loss, add up `loss * len(y)`. This works for
# everything that is a mean over samples. Precision and F1 are not (see *Beyond accuracy*).

# %% [markdown]
# ## Weight decay
#
# Weight decay makes weights a little smaller at each step. With plain SGD there are two ways to do it that
# give the same result: add `weight_decay * w` to the gradient (L2), or shrink the weight directly by the factor
# `1 - lr * weight_decay` (decoupled). `Adam` does the first, `AdamW` the second.
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
assert abs(shrink(torch.optim.Adam, [0] * 50, weight_decay=0.01)[-1] - adam[-1]) < 0.01

# With plain SGD both ways are one: lr * (gradient + weight_decay * w) = lr * gradient + (lr * weight_decay) * w.
by_hand = 1.0
for gradient in (0.5, -2.0, 1.0):
    by_hand = by_hand * (1 - 0.01 * 0.1) - 0.01 * gradient
assert math.isclose(shrink(torch.optim.SGD, (0.5, -2.0, 1.0))[-1], by_hand, rel_tol=1e-5)

# %% [markdown]
# <details><summary>Answer</summary>
#
# About 0.54. Adam divides each gradient by its own size. Here the decay is the only gradient, so Adam makes steps of
# nearly `lr` of it, whatever `weight_decay` is.
#
# </details>
#
# **Predict:** now there are gradients, and their mean is 0: they are +0.01 and -0.01 in turns, or +10 and -10. In
# which case does `Adam` shrink the weight more? And `AdamW`?

# %%
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
plotting.show_figure(
    "Curves: on the left, Adam, the weight with small gradients (solid) is gone, the other (dashed) has hardly moved. "
    "On the right, AdamW, both shrink alike."
)

assert abs(ends["Adam", 0.01]) < 0.2 and ends["Adam", 10] > 0.9
assert all(abs(ends["AdamW", size] - 0.999**200) < 0.05 for size in (0.01, 10))

# %% [markdown]
# <details><summary>Answer</summary>
#
# `Adam` shrinks the weight with the small gradients to almost nothing, and the other one hardly: the decay is divided
# by the size of the gradients, too. `AdamW` shrinks both by the same factor.
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
# in the name misses it (deepspeedai/DeepSpeedExamples#75 is a bug of this kind). Look at the module's type or at the
# number of dimensions. And count: each parameter that trains belongs to exactly one group.

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
# **Predict:** 5 epochs of 20 steps, and half a cosine from 0.1 down to 0, which takes `T_max` calls. Four loops:
# `T_max=100` and called after each step; `T_max=100`, after each epoch; `T_max=5`, after each step; `T_max=5`, after
# each epoch. Draw the four curves before you run the cell.


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


fitting, too_slow, too_fast, stairs = rates(100, True), rates(100, False), rates(5, True), rates(5, False)

figure, axes = plt.subplots(figsize=(9, 3.4))
axes.plot(fitting, label="T_max=100, each step")
axes.plot(too_slow, label="T_max=100, each epoch")
axes.plot(too_fast, linewidth=1.2, label="T_max=5, each step")
axes.plot(stairs, label="T_max=5, each epoch")
axes.set(xlabel="step", ylabel="learning rate")
axes.legend(loc="center left", bbox_to_anchor=(1, 0.5), fontsize=11)
plotting.show_figure(
    f"Curves: the solid one falls to {fitting[-1]:.1e}. The dashed one is still at {too_slow[-1]:.4f} at the end. "
    f"The thin one, dash-dotted, goes down and up again {sum(rate < 1e-6 for rate in too_fast)} times. "
    f"The dotted one is a staircase of {len(set(stairs))} steps; the lowest is {stairs[-1]:.4f}."
)

assert fitting[-1] < 1e-4
assert too_slow[-1] > 0.099
assert sum(rate < 1e-6 for rate in too_fast) == 10 and sum(rate > 0.0999 for rate in too_fast) == 10
assert len(set(stairs)) == 5 and 0.009 < stairs[-1] < 0.01

# %% [markdown]
# <details><summary>Answer</summary>
#
# Only the first is the curve that was meant. The second never gets down: training ends at nearly the full rate.
# The third swings up and down ten times: beyond `T_max` a cosine rises again. The fourth is a staircase, and its
# whole last epoch runs at a tenth of the full rate.
#
# </details>
#
# None of the four raises an error. So record the rate of each step and *look at it*, once, before you train for
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
# first steps *every* parameter moves at full rate, in directions that come from one or two random batches. A warm-up
# keeps these steps short until Adam has seen more.
#
# </details>
#
# `LambdaLR` takes any function of n, the number of `step()` calls so far. What it returns is a *factor* for each
# group's own rate. The factor for n = 0 is set as soon as you make the scheduler.
#
# Below is a triangle for 40 steps: up for 10 and down for 30.
#
# **Predict:** which n belongs to the last of the 40 steps? And which rates do you get if the loop goes on after it?

# %%
first, second = nn.Parameter(torch.zeros(1)), nn.Parameter(torch.zeros(1))
optimiser = torch.optim.SGD([{"params": [first], "lr": 0.1}, {"params": [second], "lr": 0.01}])
scheduler = torch.optim.lr_scheduler.LambdaLR(optimiser, lambda n: min((n + 1) / 10, (40 - n) / 30))
used = []
for _ in range(42):
    used.append([group["lr"] for group in optimiser.param_groups])
    optimiser.step()
    scheduler.step()

print("first group: ", ", ".join(f"{rates[0]:.3f}" for rates in used[:12]), "...")
print("second group:", ", ".join(f"{rates[1]:.4f}" for rates in used[:12]), "...")
print("first group, steps 39 to 42:", ", ".join(f"{rates[0]:.4f}" for rates in used[38:]))
assert math.isclose(used[0][0], 0.01) and math.isclose(used[9][0], 0.1)  # the first step already warms up
assert math.isclose(used[39][0], 0.1 / 30)  # step 40 has n = 39: count from 0
assert used[40][0] == 0 and math.isclose(used[41][0], -0.1 / 30)
assert all(math.isclose(one, 10 * other) for one, other in used)  # the ratio of the groups stays

# %% [markdown]
# <details><summary>Answer</summary>
#
# Step 40 has n = 39. Step 41 has the rate 0, and step 42 a *negative* one, with no error: such a step goes uphill. So
# write down what your function gives for the first step, for the last one, and after it.
#
# </details>

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
plotting.show_figure(
    f"Grid: a dark diagonal, but for the eight: of its {matrix[rare].sum()} pictures, {matrix[rare, rare]} are "
    f"recognised. Most of them are taken for a {matrix[rare].argmax()} ({matrix[rare].max()} times)."
)

assert (new_y == rare).double().mean() < 0.03
assert 0.85 < overall < 0.93
assert recalls[rare] < 0.3
assert recalls.mean() < overall - 0.03

# %% [markdown]
# <details><summary>Answer</summary>
#
# Up to 0.97: a class of 3 % cannot cost more than 3 %. (Here it is lower, about 0.89: eights
# are not this network's only mistakes.) In the mean of the recalls, the *balanced accuracy*, each class counts a
# tenth, so a class that is never found costs a tenth: the mean cannot be above 0.9. The row of the eight in the confusion matrix shows at once what is wrong.
#
# </details>
#
# Rows or columns? Two questions are easily mixed up. Of those that *are* an eight, how many were found? That is
# recall. Of those that were *called* an eight, how many are one? That is precision. **F1** lies between the two: it is
# their harmonic mean, `2 * p * r / (p + r)`.
#
# **Predict:** below, rows are the truth and columns the guess. What are recall and precision of class 0? Class 2 was
# never guessed, class 3 never occurs: which of their numbers are 0, and which are NaN?

# %%
counts = torch.tensor([[8, 2, 0, 0], [4, 6, 0, 0], [2, 0, 0, 0], [0, 0, 0, 0]])
recall = counts.diagonal() / counts.sum(dim=1)
precision = counts.diagonal() / counts.sum(dim=0)
print("recall:   ", [round(value, 3) for value in recall.tolist()])
print("precision:", [round(value, 3) for value in precision.tolist()])
print("mean recall:", recall.mean().item(), " without NaN:", round(recall.nanmean().item(), 3))

assert math.isclose(recall[0], 8 / 10, rel_tol=1e-6) and math.isclose(precision[0], 8 / 14, rel_tol=1e-6)
f1 = 2 * counts.diagonal() / (counts.sum(dim=0) + counts.sum(dim=1))  # the same, from the counts
both = 2 * precision * recall / (precision + recall)
assert torch.allclose(f1[:2], both[:2]) and f1[2] == 0 and both[2].isnan()
assert recall[2] == 0 and precision[2].isnan()
assert recall[3].isnan() and precision[3].isnan()
assert recall.mean().isnan() and math.isclose(recall.nanmean(), (0.8 + 0.6 + 0) / 3, rel_tol=1e-6)

# Two batches of 4 samples: in one, 1 of 1 called positive is right; in the other, 0 of 3.
right_calls, calls = torch.tensor([1, 0]), torch.tensor([1, 3])
assert (right_calls / calls).mean() == 0.5 and right_calls.sum() / calls.sum() == 0.25

# %% [markdown]
# <details><summary>Answer</summary>
#
# Recall 8/10: divide by the sum of the **row**. Precision 8/14: divide by the sum of the **column**. If the matrix is
# transposed by mistake, the two change places, and nothing else tells you.
#
# Class 2 has a recall, and it is 0: nothing of it was found. Its precision is 0/0. Its F1 is NaN by the formula above,
# but 0 if you compute it from the counts, as the cell does. Class 3 has none of the three.
#
# </details>
#
# Decide what 0/0 should mean, and write it down. Left in, one NaN makes the mean NaN. Turned into 0, it makes a model
# look bad for a class that nobody showed it. `nanmean` leaves it out.
#
# If the samples come in batches, add up the *counts* of all batches, and take the ratios once. The mean of the batches'
# precisions is another number, even if all batches have the same size: in the last lines of the cell it is 1/2, and the
# precision is 1/4.

# %% [markdown]
# ## A new head on an old body
#
# Take a body that was trained on one task, and put a fresh head on it for a new task: that is the cheapest way to a
# good model. Here the body has learnt the digits 0 to 4. The new task is 5 to 9, and its pictures are negatives: black
# and white are swapped.
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
# If the body is to be trained too, the second question is the rate.
#
# **Predict:** with BatchNorm in eval mode, we train body and head at the same rate of 0.1, or the body at 0.001.
# Which one does better on the old task, and which on the new one?

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
    color = (plotting.PALE_BLUE, plotting.PALE_ORANGE)[number]
    values = [result[number] for result in results.values()]
    axes.bar(places, values, width=0.4, label=task, hatch=hatch, color=color, edgecolor=plotting.INK)
axes.set_xticks(range(4), results, fontsize=11)
axes.set(ylabel="accuracy", ylim=(0, 1.3), yticks=[0, 0.5, 1])
axes.legend(loc="upper center", ncols=2)
plotting.show_figure(
    "Bars: plain, the old task: only the second and the fourth variant keep it. Hatched, the new task: "
    "the second variant learns it less well than the fourth."
)

still, one_rate, two_rates = list(results.values())[1:]
assert still[0] == before
assert two_rates[0] > before - 0.1
assert one_rate[0] < two_rates[0] - 0.1
assert two_rates[1] > max(still[1], one_rate[1]) + 0.1

# %% [markdown]
# <details><summary>Answer</summary>
#
# The one with the small rate for the body, on both. A random head needs large steps. The body is good already, and
# large steps, at first driven by the errors of a random head, destroy that.
#
# </details>
#
# The first variant, with statistics that follow the new data, does well on the *new* task: they fit the new pictures.
# If that is what you want, do it on purpose (see *Statistics that move*). By accident it harms everything else that
# uses this body.
#
# There is a trap in `new_body[1].eval()`: the `train()` at the start of the next epoch undoes it. But `train()` is an
# ordinary method. It sets the module's own flag, then calls `train()` of each child, and returns the module. `eval()`
# is `train(False)`. So a class can decide for itself what a mode means for it.
#
# **Predict:** `AlwaysOn` below is a Dropout that never switches off. (People use one to get several answers from one
# model and look at their spread.) After `net.eval()`, in which mode is each of the three layers?


# %%
class AlwaysOn(nn.Dropout):
    """Dropout that stays in train mode, whatever is asked for."""

    def train(self, mode=True):
        """Set the flag to True."""
        return super().train(True)


net = nn.Sequential(nn.Linear(64, 16), AlwaysOn(0.5), nn.Dropout(0.5))
assert net.training  # a new module is in train mode, although nobody has called train()
net.eval()
print("training after eval():", [layer.training for layer in net])
assert [layer.training for layer in net] == [False, True, False]
assert net.train() is net and all(layer.training for layer in net)

# %% [markdown]
# <details><summary>Answer</summary>
#
# In eval mode, in train mode, in eval mode: the parent calls `train(False)` of each child, and the second one has its
# own.
#
# </details>

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
    ratio = cost_ratio(lambda: gru(to_limit), lambda: gru(longest), rounds=10)
used = lengths.sum().item()
print(f"padded to the limit takes {ratio:.1f} times as long as padded to the longest")
print(f"of the steps, {used / longest[..., 0].numel():.0%} are data if padded to the longest,", end=" ")
print(f"{used / to_limit[..., 0].numel():.0%} if padded to the limit")

figure, panels = plt.subplots(2, 1, figsize=(9, 3.4))
for axes, padded, name in zip(panels, (longest, to_limit), ("the longest", "the limit"), strict=True):
    axes.imshow(torch.arange(padded.shape[1]) < lengths[:, None], aspect="auto", vmin=-0.5, vmax=1.5)
    axes.set(title=f"padded to {name}: {padded.shape[1]} steps", ylabel="sequence", xlim=(-0.5, LIMIT - 0.5))
panels[1].set_xlabel("step")
plotting.show_figure(
    "Pictures: light is data, dark is padding. Padded to the limit, nearly the whole rectangle is dark."
)

assert tuple(longest.shape) == (16, 32, 8) and tuple(to_limit.shape) == (16, 256, 8)
assert ratio > 3, JUST_NOW.format(f"the ratio was {ratio:.1f} (expected: about {LIMIT // 32})")

# %% [markdown]
# <details><summary>Answer</summary>
#
# About eight times: a recurrent net does one step after the other, and 256 is eight times 32. Pad to the longest
# sequence *of this batch*. The limit is only there to cut what is longer.
#
# </details>
#
# Now the values.
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

with torch.no_grad():
    spreads = [gru(padded)[0][:, -1].std(dim=0).mean().item() for padded in (longest, to_limit)]
print(f"spread of the 16 last states: {spreads[0]:.3f} after 32 steps, {spreads[1]:.1e} after {LIMIT}")
assert spreads[1] < spreads[0] / 10

own_last = states[torch.arange(16), lengths - 1]
assert torch.allclose(own_last, alone, atol=1e-5)
assert torch.allclose(from_packed[0], alone, atol=1e-5)  # a packed sequence stops at its own end
assert not torch.allclose(states[:, -1], alone, atol=1e-2)

# %% [markdown]
# <details><summary>Answer</summary>
#
# Yes. A GRU runs on over the zeros, and its state changes at each of them. How many there are depends on the longest
# sequence in the batch. So the answer for one sequence depends on its neighbours. With many zeros the GRU forgets what
# it has read, and the last states of all sequences become nearly the same.
#
# The state at a sequence's own last step is not affected. `pack_padded_sequence` makes the GRU stop there.
#
# </details>
#
# For anything over all steps (a maximum, a sum, a mean, attention) make a **mask** from the lengths, once per batch:
# True where there is data. And a mean divides by the number of its *own* steps.
#
# Here is a good test: pad with NaN in place of 0. What looks at the padding comes out as NaN.
#
# **Predict:** we take the maximum over the steps: without a mask, with the states multiplied by the mask, and with
# `masked_fill`. Which of the three pass the test?

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
assert not torch.allclose((states * mask[..., None]).amax(dim=1), by_hand, atol=1e-2)  # 0 won

# %% [markdown]
# <details><summary>Answer</summary>
#
# Only `masked_fill`. Multiplying is not enough: `0 * NaN` is NaN. (With zeros as padding it is wrong as well, without
# a NaN to tell you: 0 is more than a negative state, so it wins the maximum.)
#
# </details>

# %% [markdown]
# ## Overfit one batch
#
# Before you train for a night: take *one* batch, and train on it until the model knows it by heart. A healthy pipeline
# gets there within a minute. If it cannot learn 32 samples, it will not learn a million.
#
# Below are a healthy pipeline and five that are broken.
#
# **Predict:** the usual test is "the loss has fallen". Which of the broken ones pass it? Which pass "the loss gets
# below 0.1"? And which one passes both, and "all predictions are right in eval mode" as well?


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
        targets = y.roll(1) if bug == "label of the neighbour" else y
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
    "label of the neighbour",
    "zero_grad too late",
    "statistics do not follow",
    "hidden layer not trained",
)
passes = {}
figure, axes = plt.subplots(figsize=(9, 3.8))
colors = [plotting.BLUE, plotting.ORANGE, plotting.GREEN, plotting.PURPLE, plotting.GREY, plotting.INK]
dashes = ["-", "--", "-.", ":", "-", "--"]
print(f"{'':>25}  loss has fallen  loss below 0.1  right in eval mode")
for bug, color, dash in zip(PIPELINES, colors, dashes, strict=True):
    losses, net = learn_batch(bug, x, y)
    with torch.no_grad():
        known = accuracy(net.eval()(x), y)
    last = sum(losses[-10:]) / 10
    passes[bug] = (last < losses[0] - 0.02, last < 0.1, known == 1)
    axes.semilogy(losses, color=color, linestyle=dash, linewidth=6 if bug == "healthy" else 2, label=bug)
    print(f"{bug:>25}", *(f"{'passes' if passed else 'CAUGHT':>15}" for passed in passes[bug]))
axes.axhline(0.1, color=plotting.GREY, linewidth=1)
axes.set(xlabel="steps on the same batch", ylabel="loss (log scale)")
axes.legend(fontsize=11, loc="center left", bbox_to_anchor=(1, 0.5))
plotting.show_figure(
    "Curves: four dive under 0.1 (thin line): the healthy one (thick), 'statistics do not follow' on it, "
    "'label of the neighbour' close to it, and 'hidden layer not trained', more slowly."
)

assert passes == {
    "healthy": (True, True, True),
    "softmax first": (True, False, True),
    "label of the neighbour": (True, True, False),
    "zero_grad too late": (False, False, False),
    "statistics do not follow": (True, True, False),
    "hidden layer not trained": (True, True, True),
}

# %% [markdown]
# <details><summary>Answer</summary>
#
# "The loss has fallen" catches only the pipeline that does not move at all. A threshold catches the softmax too. It
# must lie below every floor that a bug can cause (1.46 for the softmax), and a healthy pipeline must pass it with a
# wide margin.
#
# Looking at the predictions in eval mode catches two more. One has learned other labels by heart; its loss is
# fine, since it is the loss of those. The other is fine in train mode only.
#
# The hidden layer that is not trained gets past all three: the head alone can learn 32 samples by heart.
#
# </details>
#
# So one batch tells you a lot and not everything. Other quick questions to ask in the same minute: has *every*
# parameter moved? Is the very first loss near `log(C)`, 2.3 for ten classes? And if the labels are wrong already in
# the data that you hand in, no test of the pipeline can notice. Look at some samples and their labels.

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
# Two functions that only take notes have found it at once. After a real training you would have a model that is a bit
# worse than the log said. A copy stays as it was:

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
# And a function that trains for an epoch? Give it one weight, plain SGD and a few small batches, and you can work out
# each number by hand. Make it three steps: some bugs need a second one to show (see *The order of the calls*).

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
