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
# ---

# %% [markdown]
# # Exercise 3: the classifier that shines in training only
#
# You have inherited a small classifier of hand-written digits and all that surrounds it: the model, the loop that trains
# it, the loop that scores it, the optimiser, the schedule, and some tools that other teams asked for. It runs, and its
# training curves look fine. The people who use it have filed ten complaints.
#
# Each section below is one complaint, the function or class it is about, and a cell that checks your repair. Change the
# code, run its cell, then run the check. What each docstring promises is what the callers rely on: none of the promises
# is wrong, and nothing needs another signature. The sections do not build on each other.
#
# The checks are a sample: a few small examples, which you may read in the files `test_ch03_….py` beside this notebook.
# A grade comes from more of them, at other sizes, dtypes and numbers of steps. Nothing is asked there that the docstrings
# do not promise, so when a check is green, read the docstring once more.
#
# The lesson that goes with this exercise is [The training loop](../../course/ch03_training_loop.ipynb); a failed check
# names the section to reread. Plan for 90 to 120 minutes, with a pause after section 5. Hints are folded away under each
# complaint; open them one at a time.

# %% nbgrader={"grade": false, "grade_id": "setup", "locked": true, "schema_version": 3, "solution": false, "task": false}
import copy
import math
import time

import matplotlib.pyplot as plt
import torch
import torch.nn.functional as F
from torch import nn

from autograder import check, what_you_fixed
from autograder.instruments import GraphCounter
from autograder.pictures import digits
from autograder.plotting import show_figure, use_course_style

use_course_style()

torch.set_num_threads(1)  # networks as small as these lose time by sharing the work between cores

# %% [markdown]
# ## What is given
#
# Real digits, 8 by 8 pixels, as flat rows of 64 numbers from 0 to 1, and their labels. The block below is the
# classifier's building block. `GraphCounter`, imported above, is a layer that does nothing but count the autograd graphs
# that are alive. None of these is part of the exercise.

# %% nbgrader={"grade": false, "grade_id": "given", "locked": true, "schema_version": 3, "solution": false, "task": false}
IMAGES, LABELS = digits()
MEAN = IMAGES.mean(0)
STD = IMAGES.std(0) + 0.1  # some pixels are the same in every picture


def in_batches(images, labels, size):
    """The samples in batches of `size`, the last one shorter if need be: a list of (images, labels)."""
    return list(zip(images.split(size), labels.split(size), strict=True))


class Block(nn.Module):
    """A residual block: (N, width) to (N, width)."""

    def __init__(self, width):
        super().__init__()
        # the normalisation takes a mean away, and with it any bias; so the linear layer has none
        linear = nn.Linear(width, width, bias=False)
        self.layers = nn.Sequential(linear, nn.BatchNorm1d(width), nn.ReLU(), nn.Dropout(0.1))

    def forward(self, x):
        return x + self.layers(x)


BATCH_NORMS = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d, nn.SyncBatchNorm)  # for isinstance

# %%
plt.figure(figsize=(7, 1.2))
plt.imshow(torch.cat(list(IMAGES[:10].view(10, 8, 8)), dim=1).numpy(), cmap="gray_r")
plt.axis("off")
show_figure(
    f"Picture: ten hand-written digits in a row; {len(IMAGES)} digits in all. Their labels: {LABELS[:10].tolist()}."
)

# %% [markdown]
# ## 1. "It cannot even learn thirty digits by heart"
#
# > *From the modelling team:* we ran the oldest test there is: one batch, over and over, until the loss is zero. It is
# > not zero. It does not even come close, however long we wait and whatever the number of blocks.
# >
# > *From the platform team:* we moved the model to an accelerator with `.to(...)`. Only a part of it arrived. And a model
# > that we loaded from a `state_dict` gives other scores than the one that was saved.
#
# <details><summary>Hint 1: where to look</summary>
#
# The cell below prints how many numbers the model trains, and the names in its `state_dict`. Write down what should be
# in there, and compare.
#
# </details>
#
# <details><summary>Hint 2: what to look at</summary>
#
# How does a module find out about its parts? Lesson, section *What a module knows about*. And what does
# `F.cross_entropy` do with what it is given? Lesson, section *Logits, not probabilities*.
#
# </details>
#
# <details><summary>Hint 3: nearly there</summary>
#
# There are three things to repair. Layers in a list need a list that is a module itself; numbers that belong to the
# model but are not trained have a place of their own in `nn.Module`; and the last line does one thing too many.
#
# </details>


# %% nbgrader={"grade": false, "grade_id": "Classifier-code", "locked": false, "schema_version": 3, "solution": true, "task": false}
class Classifier(nn.Module):
    """Tells which digit a picture shows.

    Normalises the images, (x - mean) / std, then applies a linear layer from 64 to `width`, `n_blocks` blocks (`Block`,
    as given above; n_blocks may be 0), and a linear layer from `width` to `n_classes`.

    mean, std: float32 tensors, (64,) or without dimensions. They belong to the model, but they are not trained.

    The model takes images (N, 64), of the dtype and on the device that it was itself brought to, and returns scores
    (N, n_classes), the logits: their softmax are the probabilities of the classes, and `F.cross_entropy(scores, labels)`
    is the loss that it is trained with.

    As with any module, `.to(...)` brings all of it to another device or dtype, `.eval()` reaches all of it,
    those of its `parameters()` that require gradients are all that is trained, and `state_dict()` is all that a second
    model of the same size needs in order to give the same scores, whatever numbers that one was built with (in tensors
    of the same shape).
    """

    def __init__(self, n_blocks, width, mean, std, n_classes=10):
        super().__init__()
        ### BEGIN SOLUTION T15
        self.register_buffer("mean", mean.clone())
        self.register_buffer("std", std.clone())
        ### BUG
        # self.mean = mean
        # self.std = std
        ### END SOLUTION
        self.first = nn.Linear(64, width)
        ### BEGIN SOLUTION T5
        self.blocks = nn.ModuleList(Block(width) for _ in range(n_blocks))
        ### BUG
        # self.blocks = [Block(width) for _ in range(n_blocks)]
        ### END SOLUTION
        self.last = nn.Linear(width, n_classes)

    def forward(self, images):
        x = self.first((images - self.mean) / self.std)
        for block in self.blocks:
            x = block(x)
        ### BEGIN SOLUTION T17
        return self.last(x)
        ### BUG
        # return self.last(x).softmax(dim=1)
        ### END SOLUTION


# %%
torch.manual_seed(0)
model = Classifier(n_blocks=3, width=32, mean=MEAN, std=STD)
optimiser = torch.optim.Adam(model.parameters(), lr=1e-2)
losses = []
for _ in range(60):
    loss = F.cross_entropy(model(IMAGES[:30]), LABELS[:30])
    optimiser.zero_grad()
    loss.backward()
    optimiser.step()
    losses.append(loss.item())
plt.figure(figsize=(5, 2.5))
plt.plot(losses)
plt.xlabel("step")
plt.ylabel("loss")
show_figure(f"Curve: loss on the same 30 digits, from {losses[0]:.2f} to {losses[-1]:.2f} in 60 steps.")
print("numbers that are trained:", sum(parameter.numel() for parameter in model.parameters()))
print("state_dict:", ", ".join(model.state_dict()))
try:  # the device "meta" holds shapes without numbers: moving there shows what stays behind, on any machine
    print("on another device:", tuple(model.to("meta")(IMAGES.to("meta")).shape))
except (RuntimeError, NotImplementedError) as error:
    print("on another device:", str(error).splitlines()[0])

# %% nbgrader={"grade": true, "grade_id": "Classifier", "locked": true, "schema_version": 3, "solution": false, "task": false, "points": 4}
check("Classifier")

# %% [markdown]
# ## 2. "The more we accumulate, the worse it gets"
#
# > *From the modelling team:* our batches are small, so we let four of them make one step. That should give the curve of
# > one batch of four times the size. It gives another curve altogether. And the samples at the end of an epoch might as
# > well not be there.
# >
# > *From the training log:* one broken picture in ten thousand, and the loss is gone for good. Wasn't that what
# > `max_norm` was meant for?
# >
# > *From the platform team:* memory goes up from batch to batch and comes back at the end of the epoch.
#
# <details><summary>Hint 1: where to look</summary>
#
# Five calls have to come in a certain order. Write the order down for one step that is made of three batches: which calls
# come once per batch, and which once per step?
#
# </details>
#
# <details><summary>Hint 2: what to look at</summary>
#
# What do three backward passes leave in `.grad`? What should be there, if the batches have 8, 8 and 3 samples? Lesson,
# sections *The order of the calls*, *Accumulating gradients* and *When a batch explodes*. For the memory: *What the log
# keeps alive*.
#
# </details>
#
# <details><summary>Hint 3: nearly there</summary>
#
# There are five things to repair. Count what the loop does with ten batches and `accumulate=4`. Weigh each batch by its
# share of the step's samples. And look at each line that comes after the one that needs it.
#
# </details>


# %% nbgrader={"grade": false, "grade_id": "train_one_epoch-code", "locked": false, "schema_version": 3, "solution": true, "task": false}
def train_one_epoch(model, batches, optimiser, accumulate, max_norm):
    """Train for one epoch with cross-entropy, in train mode; returns the mean loss per sample, a Python float.

    batches: a list of (images, labels), at least one, of any sizes from 1 on. The optimiser has all trainable parameters
    of the model; those that are frozen, if any, have no gradient.

    Each batch goes through the model by itself, once and in order, forward and backward, before the next one does. Every
    `accumulate` batches make one step of the optimiser; those that are left over at the end make one more. The gradient
    of a step is that of the mean loss over all samples of its batches, scaled down to a total norm of `max_norm` where
    it is larger (as `nn.utils.clip_grad_norm_` does). Gradients from before the call have no part in it.

    The result is the mean, over all samples, of the loss that each had when its batch went through the model. It costs
    next to nothing: graphs do not pile up from batch to batch, and neither do reads from the device (`.item()` and the
    like, for which an accelerator has to be waited for): however many batches there are, their number is the same.
    """
    model.train()
    total, seen = 0.0, 0
    ### BEGIN SOLUTION T3
    starts = range(0, len(batches), accumulate)
    ### BUG
    # starts = range(0, len(batches) - accumulate + 1, accumulate)
    ### END SOLUTION
    for first in starts:
        group = batches[first : first + accumulate]
        ### BEGIN SOLUTION T2
        optimiser.zero_grad()
        ### BUG
        # # the batches that make one step
        ### END SOLUTION
        for images, labels in group:
            ### BEGIN SOLUTION T2
            # gradients add up here, from batch to batch
            ### BUG
            # optimiser.zero_grad()
            ### END SOLUTION
            loss = F.cross_entropy(model(images), labels)
            ### BEGIN SOLUTION T3
            n_samples = sum(len(of_batch) for _, of_batch in group)
            (loss * (len(labels) / n_samples)).backward()
            ### BUG
            # loss.backward()
            ### END SOLUTION
            ### BEGIN SOLUTION T18
            total = total + loss.detach() * len(labels)
            ### BUG
            # total = total + loss * len(labels)
            ### END SOLUTION
            seen += len(labels)
        ### BEGIN SOLUTION T11
        nn.utils.clip_grad_norm_(model.parameters(), max_norm)
        optimiser.step()
        ### BUG
        # optimiser.step()
        # nn.utils.clip_grad_norm_(model.parameters(), max_norm)
        ### END SOLUTION
    return (total / seen).item()


# %%
def small_model():
    torch.manual_seed(1)
    return nn.Sequential(nn.Linear(64, 32), nn.Tanh(), nn.Linear(32, 10), GraphCounter())


curves = {}
for size, accumulate in ((32, 1), (8, 4)):
    model = small_model()
    optimiser = torch.optim.SGD(model.parameters(), lr=0.2)
    batches = in_batches(IMAGES[:150], LABELS[:150], size)
    curves[f"{accumulate} x {size}"] = [train_one_epoch(model, batches, optimiser, accumulate, 1e6) for _ in range(6)]
plt.figure(figsize=(5, 2.5))
for name, curve in curves.items():
    plt.plot(curve, label=name)
plt.xlabel("epoch")
plt.ylabel("loss")
plt.legend()
show_figure("Curves: the loss per epoch, once with 1 x 32 and once with 4 x 8 samples per step.")
for name, curve in curves.items():
    print(f"{name:>6} samples per step, loss per epoch", [round(value, 2) for value in curve])

layer = nn.Linear(64, 10)
before = layer.weight.detach().clone()
batches = [(IMAGES[:8], LABELS[:8]), (1e4 * IMAGES[8:16], LABELS[8:16])]
train_one_epoch(layer, batches, torch.optim.SGD(layer.parameters(), lr=0.1), 1, max_norm=1.0)
moved = (layer.weight - before).norm().item()
print(f"two steps, rate 0.1, max_norm 1: the weights have moved by {moved:.3g}; 0.2 is the most that is allowed")

model = small_model()
train_one_epoch(model, in_batches(IMAGES[:96], LABELS[:96], 8), torch.optim.SGD(model.parameters(), lr=0.1), 1, 1.0)
print("graphs of earlier batches that are alive as each batch comes:", model[-1].history)
print("(1 is fine: the last loss lives until the next one replaces it)")

# %% nbgrader={"grade": true, "grade_id": "train_one_epoch", "locked": true, "schema_version": 3, "solution": false, "task": false, "points": 5}
check("train_one_epoch")

# %% [markdown]
# ## 3. "Looking at the model changes it"
#
# > *From the evaluation team:* we score the same model on the same data and get another result each time. It depends on
# > the batch size, too. With a batch size of 1, it does not run at all.
# >
# > *From the fine-tuning team:* we freeze the normalisation layers before training. After the first validation they are
# > not frozen any more.
# >
# > *From the platform team:* validation needs as much memory as training. Why?
#
# <details><summary>Hint 1: where to look</summary>
#
# Score a model twice, and print `module.training` for all its modules before and after.
#
# </details>
#
# <details><summary>Hint 2: what to look at</summary>
#
# Which kinds of layer behave differently in training, and what do they do then? Lesson, section *Two modes*. For the
# batch size: *Averages over batches*; for the memory: *What the log keeps alive*.
#
# </details>
#
# <details><summary>Hint 3: nearly there</summary>
#
# There are four things to repair. All modules need the other mode, not one kind only; each has to get its own old mode
# back; nobody will ask for gradients; and what is counted should be samples.
#
# </details>


# %% nbgrader={"grade": false, "grade_id": "validate-code", "locked": false, "schema_version": 3, "solution": true, "task": false}
def validate(model, batches):
    """Score a model: returns {"loss": mean cross-entropy, "accuracy": share of right predictions}, two Python floats.

    batches: a list of (images, labels), at least one, of any sizes from 1 on. Both results are means over all samples, however
    these are divided into batches. The prediction is the class with the highest score.

    The whole model is in eval mode meanwhile, and no autograd graph is made. Afterwards everything is as it was: each
    single module's mode, running statistics, parameters and their gradients, and whether gradients are computed.
    """
    ### BEGIN SOLUTION T1
    modes = [(module, module.training) for module in model.modules()]
    ### BUG
    # modes = [(model, model.training)]
    ### END SOLUTION
    ### BEGIN SOLUTION T1
    model.eval()
    ### BUG
    # for module in model.modules():
    #     if isinstance(module, nn.Dropout):
    #         module.eval()
    ### END SOLUTION
    loss = correct = n = 0
    for images, labels in batches:
        ### BEGIN SOLUTION T4
        with torch.no_grad():
            scores = model(images)
        ### BUG
        # scores = model(images)
        ### END SOLUTION
        ### BEGIN SOLUTION T14
        loss += F.cross_entropy(scores, labels, reduction="sum").item()
        correct += (scores.argmax(dim=1) == labels).sum().item()
        n += len(labels)
        ### BUG
        # loss += F.cross_entropy(scores, labels).item()
        # correct += (scores.argmax(dim=1) == labels).float().mean().item()
        # n += 1
        ### END SOLUTION
    for module, training in modes:
        module.train(training)  # and all inside it; those come later in the list
    return {"loss": loss / n, "accuracy": correct / n}


# %%
torch.manual_seed(0)
model = nn.Sequential(nn.Linear(64, 32), nn.BatchNorm1d(32), nn.ReLU(), nn.Dropout(0.3), nn.Linear(32, 10))
optimiser = torch.optim.Adam(model.parameters(), lr=3e-3)
for images, labels in in_batches(IMAGES[:1000], LABELS[:1000], 100) * 3:
    optimiser.zero_grad()
    F.cross_entropy(model(images), labels).backward()
    optimiser.step()
model[1].eval()  # frozen, as the fine-tuning team does it
print("in train mode before:", [type(module).__name__ for module in model if module.training])
for size in (101, 101, 25, 1):
    try:
        found = validate(model, in_batches(IMAGES[1000:1101], LABELS[1000:1101], size))
        print(f"batches of {size:3}: ", ", ".join(f"{name} {value:.4f}" for name, value in found.items()))
    except ValueError as error:
        print(f"batches of {size:3}:  ValueError: {error}")
    print("    in train mode after:", [type(module).__name__ for module in model if module.training])

# %% nbgrader={"grade": true, "grade_id": "validate", "locked": true, "schema_version": 3, "solution": false, "task": false, "points": 4}
check("validate")

# %% [markdown]
# ## 4. "Weight decay shrinks everything but the weights"
#
# > *From the modelling team:* we raised the weight decay tenfold. The large weights, those that it is there for, look as
# > they did before. But outputs lost their offsets and normalisation layers faded: each of these had been small, and
# > useful.
#
# <details><summary>Hint 1: where to look</summary>
#
# With gradients of zero, an optimiser can do nothing but decay. The cell below makes five such steps. By which factor
# should a number shrink in one step, and which numbers should?
#
# </details>
#
# <details><summary>Hint 2: what to look at</summary>
#
# Where does the decay go in: before or after the gradient is divided by its own size? Lesson, section *Weight decay*.
#
# </details>
#
# <details><summary>Hint 3: nearly there</summary>
#
# There are two things to repair. An optimiser takes a list of groups, each with its own `weight_decay`. And it has a
# sibling that keeps decay and gradient apart.
#
# </details>


# %% nbgrader={"grade": false, "grade_id": "make_optimiser-code", "locked": false, "schema_version": 3, "solution": true, "task": false}
def make_optimiser(model, lr, weight_decay):
    """An optimiser for a model: AdamW's steps, with torch's defaults for betas and eps, in which only weights decay.

    The weights of linear layers, of convolutions and of embeddings decay: at each step they shrink by the factor
    1 - lr * weight_decay, apart from the step that their gradient makes. Biases and the parameters of normalisation
    layers do not decay. (The models have no other kinds of parameters; normalisation layers have one dimension.)

    Each trainable parameter is in exactly one parameter group and once in it, also one that two layers share. Parameters
    that are frozen (`requires_grad` is False) are in none. All groups have the rate `lr`.
    """
    trainable = [parameter for parameter in model.parameters() if parameter.requires_grad]
    ### BEGIN SOLUTION T7
    groups = [
        {"params": [parameter for parameter in trainable if parameter.dim() > 1], "weight_decay": weight_decay},
        {"params": [parameter for parameter in trainable if parameter.dim() <= 1], "weight_decay": 0.0},
    ]
    ### BUG
    # groups = [{"params": trainable, "weight_decay": weight_decay}]
    ### END SOLUTION
    ### BEGIN SOLUTION T7
    return torch.optim.AdamW(groups, lr=lr)
    ### BUG
    # return torch.optim.Adam(groups, lr=lr)
    ### END SOLUTION


# %%
model = nn.Sequential(nn.Linear(1, 2), nn.BatchNorm1d(2))
with torch.no_grad():
    model[0].weight.copy_(torch.tensor([[10.0], [0.1]]))
    model[0].bias.fill_(0.1)
optimiser = make_optimiser(model, lr=0.01, weight_decay=1.0)
for parameter in model.parameters():
    parameter.grad = torch.zeros_like(parameter)
for step in range(6):
    if step:
        optimiser.step()
    print(
        f"after {step} steps:  weights {[round(w, 4) for w in model[0].weight.flatten().tolist()]}",
        f"  bias {round(model[0].bias[0].item(), 4)}   normalisation {round(model[1].weight[0].item(), 4)}",
    )

# %% nbgrader={"grade": true, "grade_id": "make_optimiser", "locked": true, "schema_version": 3, "solution": false, "task": false, "points": 3}
check("make_optimiser")

# %% [markdown]
# ## 5. "The first hundred steps ruin it, the last hundred do nothing"
#
# > *From the training log:* the loss jumps up in the very first steps. We were promised a gentle start.
# >
# > *From the modelling team:* the rate goes down like a staircase, and at the end of a run it is nowhere near its floor.
# > The last epoch makes steps that are far too large.
#
# <details><summary>Hint 1: where to look</summary>
#
# The cell below draws the rate, step by step. Draw by hand what the docstring promises, for two epochs of three steps.
#
# </details>
#
# <details><summary>Hint 2: what to look at</summary>
#
# What does the function inside count: steps or epochs? Lesson, section *The learning rate over time*.
#
# </details>
#
# <details><summary>Hint 3: nearly there</summary>
#
# There are two things to repair. One stretch of the schedule is missing. The other has a formula in the docstring; put in
# the number of the step as it is, and think of what happens after the last one.
#
# </details>


# %% nbgrader={"grade": false, "grade_id": "make_scheduler-code", "locked": false, "schema_version": 3, "solution": true, "task": false}
def make_scheduler(optimiser, n_epochs, steps_per_epoch, n_warmup, floor):
    """A schedule for the learning rate: an object whose `step()` is called once after each step of the optimiser.

    The rate of each parameter group is the one that the group was made with, times a factor. With T = n_epochs *
    steps_per_epoch, the factor for step s (counted from 1) is

        s / n_warmup                                      for s <= n_warmup, a linear warm-up,
        floor + (1 - floor) * (1 + cos(pi * p)) / 2       after that, with p = (s - n_warmup) / (T - n_warmup),
        floor                                             for s > T.

    The factor of the first step is in force as soon as this function returns. n_warmup is at least 0 and less than T;
    floor is in 0..1.
    """

    def factor(n_done):
        step = n_done + 1
        ### BEGIN SOLUTION T8
        if step <= n_warmup:
            return step / n_warmup
        ### BUG
        # # nothing is gained by waiting
        ### END SOLUTION
        ### BEGIN SOLUTION T8
        progress = min((step - n_warmup) / (n_epochs * steps_per_epoch - n_warmup), 1.0)
        ### BUG
        # progress = n_done // steps_per_epoch / n_epochs
        ### END SOLUTION
        return floor + (1 - floor) * (1 + math.cos(math.pi * progress)) / 2

    return torch.optim.lr_scheduler.LambdaLR(optimiser, factor)


# %%
optimiser = torch.optim.SGD([nn.Parameter(torch.zeros(1))], lr=0.4)
scheduler = make_scheduler(optimiser, n_epochs=5, steps_per_epoch=20, n_warmup=15, floor=0.05)
rates = []
for _ in range(100):
    rates.append(optimiser.param_groups[0]["lr"])
    optimiser.step()
    scheduler.step()
plt.figure(figsize=(5, 2.5))
plt.plot(range(1, 101), rates)
plt.xlabel("step")
plt.ylabel("rate")
show_figure(f"Curve: rate in steps 1, 2, 3: {[round(rate, 3) for rate in rates[:3]]}, highest: {max(rates):.3f}.")
print("rate in steps 98, 99, 100:", [round(rate, 3) for rate in rates[-3:]], " floor: 0.02")
print("different values in 100 steps:", len(set(rates)))

# %% nbgrader={"grade": true, "grade_id": "make_scheduler", "locked": true, "schema_version": 3, "solution": false, "task": false, "points": 3}
check("make_scheduler")

# %% [markdown]
# ## 6. "97 percent, and the customer says it never reads an 8"
#
# > *From the support team:* on the meter readings of this customer the weekly report says 97 % accuracy, and a balanced
# > accuracy that is just as good. They sent us a page of eights. The model did not get a single one right.
#
# <details><summary>Hint 1: where to look</summary>
#
# Read the row of the rare digit in the table of counts that the cell below draws. Then find the same digit in the list of
# recalls.
#
# </details>
#
# <details><summary>Hint 2: what to look at</summary>
#
# Of all eights, how many were found? Of all answers "eight", how many were right? These are two questions, and which of
# them a division answers depends on what one divides by. Lesson, section *Beyond accuracy*.
#
# </details>
#
# <details><summary>Hint 3: nearly there</summary>
#
# A class that is never predicted has a recall, and it is not `nan`. And what does the docstring say that the balanced
# accuracy is a mean of?
#
# </details>


# %% nbgrader={"grade": false, "grade_id": "class_report-code", "locked": false, "schema_version": 3, "solution": true, "task": false}
def class_report(predictions, labels, n_classes):
    """How good predictions are, class by class, as a dict.

    predictions, labels: (N,) int64, N >= 1, values from 0 to n_classes - 1; both stay as they were. The keys:

    - "confusion": (n_classes, n_classes) int64; row t, column p counts the samples of class t that were called p.
    - "recall": (n_classes,) float32, the share of a class's samples that were found; nan for a class without samples.
    - "f1": (n_classes,) float32, 2 * hits / (samples of the class + predictions of the class); nan where there are
      neither.
    - "accuracy": the share of all samples that are right.
    - "balanced_accuracy": the plain mean of the recalls that are not nan.
    - "macro_f1": the plain mean of the f1 that are not nan.

    The last three are Python floats.
    """
    confusion = torch.bincount(labels * n_classes + predictions, minlength=n_classes**2).reshape(n_classes, n_classes)
    hits = confusion.diag()
    n_labelled, n_predicted = confusion.sum(1), confusion.sum(0)
    ### BEGIN SOLUTION T9
    recall = hits / n_labelled
    ### BUG
    # recall = hits / n_predicted
    ### END SOLUTION
    f1 = 2 * hits / (n_labelled + n_predicted)
    accuracy = hits.sum() / len(labels)
    return {
        "confusion": confusion,
        "recall": recall,
        "f1": f1,
        "accuracy": accuracy.item(),
        ### BEGIN SOLUTION T9
        "balanced_accuracy": recall.nanmean().item(),
        ### BUG
        # "balanced_accuracy": accuracy.item(),
        ### END SOLUTION
        "macro_f1": f1.nanmean().item(),
    }


# %%
labels = torch.arange(400) % 8  # digits 0 to 7, again and again ...
labels[::33] = 8  # ... and now and then an 8; a 9 never comes
predictions = labels.where(labels != 8, 3)  # every 8 is taken for a 3
report = class_report(predictions, labels, 10)
plt.figure(figsize=(3, 3))
plt.imshow(report["confusion"], cmap="Greys")
plt.xlabel("predicted")
plt.ylabel("true")
show_figure(f"Grid: the table of counts; its row 8 has {report['confusion'][8, 3]} samples, all of them in column 3.")
print("recall:", [round(value, 2) for value in report["recall"].tolist()])
print(f"accuracy {report['accuracy']:.3f}, balanced accuracy {report['balanced_accuracy']:.3f}")

# %% nbgrader={"grade": true, "grade_id": "class_report", "locked": true, "schema_version": 3, "solution": false, "task": false, "points": 3}
check("class_report")

# %% [markdown]
# ## 7. "We showed it the new camera. Nothing changed"
#
# > *From the deployment team:* the new camera's pictures are brighter, so you gave us a function that lets the BatchNorm
# > layers get used to them, without labels. We ran it over a day of pictures: the scores are the same to the last digit.
# > A colleague put one call into it. Now the scores change, but half of the old camera seems still to be in there, and
# > the result depends on how many pictures we show.
#
# <details><summary>Hint 1: where to look</summary>
#
# Print `running_mean` of one layer before, during and after the loop.
#
# </details>
#
# <details><summary>Hint 2: what to look at</summary>
#
# Which mode must a BatchNorm layer be in for its statistics to move? And how does a new batch get mixed with what was
# there: what does `momentum` say, and what does it mean if it is `None`? Lesson, section *Statistics that move*.
#
# </details>
#
# <details><summary>Hint 3: nearly there</summary>
#
# Three things have to be set for each BatchNorm layer, and for no other: its mode, its momentum, and a fresh start.
#
# </details>


# %% nbgrader={"grade": false, "grade_id": "refresh_statistics-code", "locked": false, "schema_version": 3, "solution": true, "task": false}
def refresh_statistics(model, batches):
    """Estimate the statistics of all BatchNorm layers anew, from unlabelled batches; works in place.

    batches: an iterable of inputs of `model`, at least one, to be gone through once. Each goes through the model with
    the BatchNorm layers behaving as in train mode (so they normalise with that batch's own mean and variance) and all
    other modules as in eval mode. Afterwards `running_mean` of each BatchNorm layer is the plain mean, over the batches,
    of the means of what came into the layer; `running_var` is that of the variances (n - 1 in the denominator, as
    BatchNorm keeps them); `num_batches_tracked` is the number of batches. All batches count the same, and nothing of the
    old statistics is left.

    All else is as before: parameters and their `.grad`, other buffers, each layer's `momentum`, the mode of every
    module. No graph for gradients is recorded.
    """
    layers = [module for module in model.modules() if isinstance(module, BATCH_NORMS)]
    momenta = [layer.momentum for layer in layers]
    modes = {module: module.training for module in model.modules()}
    ### BEGIN SOLUTION T12
    model.eval()
    for layer in layers:
        layer.train()
    ### BUG
    # model.eval()
    ### END SOLUTION
    ### BEGIN SOLUTION T12
    for layer in layers:
        layer.reset_running_stats()
        layer.momentum = None  # a plain average instead of a moving one
    ### BUG
    # for layer in layers:
    #     layer.momentum = 0.1
    ### END SOLUTION
    with torch.no_grad():
        for batch in batches:
            model(batch)
    for layer, momentum in zip(layers, momenta, strict=True):
        layer.momentum = momentum
    for module, mode in modes.items():
        module.training = mode


# %%
torch.manual_seed(0)
camera_model = nn.Sequential(nn.Linear(64, 4), nn.BatchNorm1d(4))
pictures, _ = digits()
for old in pictures[:960].split(96):  # the old camera
    camera_model(old)
brighter = [1.5 * batch + 0.5 for batch in pictures[960:1440].split(96)]  # the new one
camera_model.eval()
for moment in ("before", "after"):
    with torch.no_grad():
        out = camera_model(torch.cat(brighter))
    print(f"{moment:>6} the refresh: outputs' mean {out.mean(0).abs().max():.2f} (wanted: near 0),", end=" ")
    print(f"deviation {out.std(0).mean():.2f} (wanted: near 1)")
    refresh_statistics(camera_model, brighter)

# %% nbgrader={"grade": true, "grade_id": "refresh_statistics", "locked": true, "schema_version": 3, "solution": false, "task": false, "points": 3}
check("refresh_statistics")

# %% [markdown]
# ## 8. "Fine-tuning made it forget"
#
# > *From the modelling team:* we put a new head on the pretrained network and trained both, with small batches from our
# > own data. We asked for a hundredth of the head's rate for the body, to be careful with it. After a few steps the body
# > gives other features than before for the very same picture; even with a rate of 0 for everything it does.
#
# <details><summary>Hint 1: where to look</summary>
#
# Two things can change what a body computes: its parameters and its buffers. The cell below prints how far each of them
# has moved.
#
# </details>
#
# <details><summary>Hint 2: what to look at</summary>
#
# What does `.train()` do to modules inside of modules? And what is the rate of each group in `optimiser.param_groups`?
# Lesson, section *A new head on an old body*. A Dropout must still follow the mode: *Two modes*.
#
# </details>
#
# <details><summary>Hint 3: nearly there</summary>
#
# `.train()` and `.eval()` of a module both end up in its method `train(mode)`, and a class may have its own. Which
# modules in the body are not to follow? The groups are a list of two.
#
# </details>


# %% nbgrader={"grade": false, "grade_id": "FineTuned-code", "locked": false, "schema_version": 3, "solution": true, "task": false}
class FineTuned(nn.Module):
    """A new head on a pretrained body, both to be trained.

    body: a module that makes features (N, n_features) of its input; it is used and trained itself, not a copy of it.
    The head is a new `nn.Linear`. The model takes what the body takes, and gives the head's logits (N, n_classes).

    In train mode and in eval mode, whether set on this model or on one that it is a part of, and in a model that is just
    made, the BatchNorm layers of the body normalise with the running statistics that they came with, and leave them as
    they are. Their weights and biases are trained like all else in the body. Every other module (Dropout, say) follows
    the mode. `train` and `eval` return the model, as those of all modules do.

    `parameter_groups(lr_body, lr_head)` gives the groups for an optimiser of `torch.optim`: each parameter of the body
    once, with rate lr_body, and each of the head once, with rate lr_head.
    """

    def __init__(self, body, n_features, n_classes):
        super().__init__()
        self.body = body
        self.head = nn.Linear(n_features, n_classes)
        self.train()

    def forward(self, x):
        return self.head(self.body(x))

    ### BEGIN SOLUTION T13
    def train(self, mode=True):
        super().train(mode)
        for module in self.body.modules():
            if isinstance(module, BATCH_NORMS):
                module.eval()
        return self

    ### BUG
    # def train(self, mode=True):
    #     return super().train(mode)
    #
    ### END SOLUTION
    def parameter_groups(self, lr_body, lr_head):
        ### BEGIN SOLUTION T13
        return [
            {"params": list(self.body.parameters()), "lr": lr_body},
            {"params": list(self.head.parameters()), "lr": lr_head},
        ]
        ### BUG
        # return [{"params": list(self.parameters()), "lr": lr_head}]
        ### END SOLUTION


# %%
torch.manual_seed(0)
old_body = nn.Sequential(nn.Linear(64, 16), nn.BatchNorm1d(16), nn.ReLU())
images, targets = digits()
for old in images[:960].split(96):
    old_body(old)
came_with = copy.deepcopy(old_body)
tuned = FineTuned(old_body, 16, 10)
new_head = copy.deepcopy(tuned.head)
optimiser = torch.optim.SGD(tuned.parameter_groups(lr_body=0.001, lr_head=0.1))
for start in range(1000, 1080, 8):  # small batches of other pictures
    tuned.train()
    loss = F.cross_entropy(tuned(1 - images[start : start + 8]), targets[start : start + 8])
    optimiser.zero_grad()
    loss.backward()
    optimiser.step()
print("After ten steps with a body's rate of a hundredth of the head's:")
for name in ("0.weight", "1.weight", "1.running_mean", "1.running_var"):
    moved = (old_body.state_dict()[name] - came_with.state_dict()[name]).abs().max().item()
    print(f"  body {name:14} has moved by up to {moved:.4f}")
moved = (tuned.head.weight - new_head.weight).abs().max().item()
print(f"  head weight         has moved by up to {moved:.4f}")

# %% nbgrader={"grade": true, "grade_id": "FineTuned", "locked": true, "schema_version": 3, "solution": false, "task": false, "points": 4}
check("FineTuned")

# %% [markdown]
# ## 9. "Short ones cost as much as long ones, and come out paler"
#
# > *From the operations team:* most pen strokes are 5 to 20 points long, and now and then there is one of some hundreds,
# > so the limit is high. A batch of short strokes takes exactly as long as a batch of long ones.
# >
# > *From the modelling team:* the pooled states of short strokes are all nearly the same. When we raise the limit, they
# > get more alike still.
#
# <details><summary>Hint 1: where to look</summary>
#
# Print the shape of what goes into `rnn`, for three short strokes and a limit of 500.
#
# </details>
#
# <details><summary>Hint 2: what to look at</summary>
#
# How many of these steps hold a point of the stroke? Which of the states end up in the mean? Lesson, section *Padding and
# masks*.
#
# </details>
#
# <details><summary>Hint 3: nearly there</summary>
#
# A batch needs as many steps as its longest stroke has. The mean of a stroke's own states is a sum over a mask, divided
# by the number of its own steps.
#
# </details>


# %% nbgrader={"grade": false, "grade_id": "pooled_states-code", "locked": false, "schema_version": 3, "solution": true, "task": false}
def pooled_states(rnn, sequences, limit):
    """The mean of the states that a recurrent network goes through, for each sequence.

    rnn: an `nn.GRU` with batch_first=True, one direction, one layer or more. sequences: a list of one or more tensors
    (L_i, D), each L_i >= 1, of the network's dtype. Of a sequence that is longer than `limit`, only the first `limit`
    steps count. Returns (N, H): in row i the mean of the last layer's states over the steps of sequence i, and over no
    others, so that it does not depend on what else is in the batch. Gradients flow to the network and the sequences;
    the sequences stay as they were.

    The work that `rnn` is given grows with the longest sequence of the batch (as far as it counts), not with the limit:
    at most N times that many steps in all.
    """
    cut = [sequence[:limit] for sequence in sequences]
    lengths = torch.tensor([len(sequence) for sequence in cut], device=cut[0].device)
    ### BEGIN SOLUTION T16
    n_steps = max(len(sequence) for sequence in cut)
    ### BUG
    # n_steps = limit
    ### END SOLUTION
    batch = torch.stack([F.pad(sequence, (0, 0, 0, n_steps - len(sequence))) for sequence in cut])
    states, _ = rnn(batch)
    ### BEGIN SOLUTION T16
    own = torch.arange(n_steps, device=batch.device) < lengths[:, None]
    return states.masked_fill(~own[:, :, None], 0).sum(1) / lengths[:, None]
    ### BUG
    # return states.mean(1)
    ### END SOLUTION


# %%
torch.manual_seed(0)
network = nn.GRU(2, 8, batch_first=True)
strokes = [torch.randn(length, 2) for length in (1, 4, 8)]
with torch.no_grad():
    one_by_one = [network(stroke[None])[0][0].mean(0) for stroke in strokes]  # what each gives on its own
for limit in (10, 100, 1000):
    times = []
    for _ in range(4):  # the first call is cold
        begin = time.perf_counter()
        with torch.no_grad():
            pooled = pooled_states(network, strokes, limit)
        times.append(time.perf_counter() - begin)
    off = [f"{(a - b).norm():.3f}" for a, b in zip(pooled, one_by_one, strict=True)]
    print(f"limit {limit:4}: {min(times) * 1e3:6.2f} ms; off by {', '.join(off)}")
print("(off: how far strokes of 1, 4 and 8 points come out from what each of them gives on its own)")

# %% nbgrader={"grade": true, "grade_id": "pooled_states", "locked": true, "schema_version": 3, "solution": false, "task": false, "points": 4}
check("pooled_states")

# %% [markdown]
# ## 10. The minute that would have saved a week
#
# Most of what went wrong above ran without an error, and the loss went down a little. The test that guarded the training
# code was content with that: it is below. There is a better one, which takes less than a second: take one batch, train
# on it again and again, and ask that the model knows it by heart.
#
# `check_pipeline(make_pipeline)` is given a function that makes a model and its training step. It returns if they keep
# the promise of the docstring, and raises (an `assert` will do) if not. It will be tried on right pipelines of many kinds
# (other optimisers, widths, norms, with dropout, clipping or a warm-up) and on wrong ones. Some of these have a loss that
# goes to zero.
#
# <details><summary>Hint 1: where to look</summary>
#
# Which of the bugs in this notebook would a loss that "has fallen" have shown?
#
# </details>
#
# <details><summary>Hint 2: what to look at</summary>
#
# A loss can look good while the model has learned other labels, or while it only works in train mode. What would you ask
# of the model itself? Lesson, section *Overfit one batch*.
#
# </details>
#
# <details><summary>Hint 3: nearly there</summary>
#
# The docstring has both numbers and both questions: the loss after so many steps on one batch, and the answers in eval
# mode.
#
# </details>


# %% nbgrader={"grade": false, "grade_id": "check_pipeline-code", "locked": false, "schema_version": 3, "solution": true, "task": false}
def check_pipeline(make_pipeline):
    """Raise an exception unless a training pipeline can learn one batch by heart.

    `make_pipeline()` returns a new `(model, step)`. The model takes pictures x, (n, 64) float32 from 0 to 1, and gives
    logits (n, 10). `step(x, y)`, with labels y (n,) int64 from 0 to 9, trains the model for one step on these, in
    whatever mode it needs, and returns the batch's loss before the step as a Python float: the mean cross entropy, 2 to
    3 for a new model.

    A pipeline is right if, stepped 60 times on one batch of 32 different pictures, it ends with a loss below 0.1 (the one
    that the 60th step returns), and if the model in eval mode then gives the highest logit of every one of the 32
    pictures to the picture's own label. Right ones do so whatever the seed and whatever the labels, with room to spare.
    It is learning by heart, so made-up pictures will do.
    """
    generator = torch.Generator().manual_seed(0)
    x, y = torch.rand(32, 64, generator=generator), torch.arange(32) % 10
    model, step = make_pipeline()
    ### BEGIN SOLUTION T10
    for _ in range(60):
        loss = step(x, y)
    assert loss < 0.1, f"after 60 steps on one batch the loss is still {loss:.3f}"
    model.eval()
    with torch.no_grad():
        n_right = (model(x).argmax(dim=1) == y).sum().item()
    assert n_right == 32, f"in eval mode the model knows only {n_right} of the 32 pictures"
    ### BUG
    # losses = [step(x, y) for _ in range(20)]
    # assert losses[-1] < losses[0], "the loss has not fallen"
    ### END SOLUTION


# %%
def pipeline_with_swapped_labels():
    """Trains each picture on its neighbour's label; nothing crashes."""
    model = nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10))
    optimiser = torch.optim.Adam(model.parameters(), lr=0.02)

    def step(x, y):
        loss = F.cross_entropy(model(x), y.roll(1))
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        return loss.item()

    return model, step


torch.manual_seed(0)
try:
    check_pipeline(pipeline_with_swapped_labels)
    print("The test finds nothing wrong with labels that went to the neighbour.")
except Exception as error:
    print("The test says:", error)

# %% nbgrader={"grade": true, "grade_id": "check_pipeline", "locked": true, "schema_version": 3, "solution": false, "task": false, "points": 4}
check("check_pipeline")

# %% [markdown]
# ## All green?
#
# Then the sample is green. Save, and `pytest exercises` in a terminal runs the same checks on the saved file; a grade
# asks for the docstrings' promises in full. The habits to take along: know what each call of the loop reads and writes;
# leave every mode as you found it; weigh by samples, not by batches; and before any long run, learn one batch by heart.
