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
# # Exercise 6: the loss that stops falling
#
# You have inherited a classifier of hand-written digits that is trained in mixed precision: half of the bits wherever they
# are enough, all of them where they are not. Somebody has switched it on, the loss fell for a while, and all seemed well.
# The people who use it have filed eight complaints.
#
# Each section below is one complaint, the function or class it is about, and a cell that checks your repair. Change the
# code, run its cell, then run the check. What each docstring promises is what the callers rely on: none of the promises
# is wrong, and nothing needs another signature. The sections do not build on each other.
#
# The checks are a sample: a few small examples, which you may read in the files `test_ch06_….py` beside this notebook.
# A grade comes from more of them, at other sizes, dtypes and numbers of steps. Nothing is asked there that the docstrings
# do not promise, so when a check is green, read the docstring once more.
#
# The lesson that goes with this exercise is [Mixed precision](../../course/ch06_mixed_precision.ipynb); a failed check
# names the section to reread. Everything runs on a CPU. Plan for two hours, with a pause after section 4. Hints are folded
# away under each complaint; open them one at a time.

# %% nbgrader={"grade": false, "grade_id": "setup", "locked": true, "schema_version": 3, "solution": false, "task": false}
import copy
import io
import math
import time

import matplotlib.pyplot as plt
import torch
import torch.nn.functional as F
from torch import nn

from autograder import check, what_you_fixed
from autograder.instruments import Conversions, MatmulDtypes
from autograder.pictures import digits
from autograder.plotting import show_figure, use_course_style

use_course_style()

torch.set_num_threads(1)  # networks as small as these lose time by sharing the work between cores

# %% [markdown]
# ## What is given
#
# Real digits, 8 by 8 pixels, as flat rows of 64 numbers from 0 to 1, and their labels; a small network; and a scaler that
# does nothing in float32, where nothing needs scaling.
#
# `DTYPES` names the three formats. `project` is a linear layer whose weights are kept in one dtype and used in another:
# it computes in the dtype of what it is given. `MatmulDtypes`, imported above, counts matrix products by the dtype that
# they are computed in, and `Conversions` counts how often a tensor is converted from one dtype to another.
#
# None of these is part of the exercise.


# %% nbgrader={"grade": false, "grade_id": "given", "locked": true, "schema_version": 3, "solution": false, "task": false}
IMAGES, LABELS = digits()
DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}


def project(layer, x):
    """What the `nn.Linear` makes of x, computed in the dtype of x, whatever the dtype of the layer's parameters."""
    return F.linear(x, layer.weight.to(x.dtype), layer.bias.to(x.dtype))


def small_network(seed=0):
    """A network of two layers for the digits, the same for the same seed."""
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(64, 32), nn.Tanh(), nn.Linear(32, 10))


def scaler_for(dtype, **settings):
    """A scaler for a training in `dtype` on the device of the digits; disabled for float32."""
    return torch.amp.GradScaler(IMAGES.device.type, enabled=dtype != torch.float32, **settings)


# %% [markdown]
# ## 1. "It trains, as long as the pictures are bright and nobody clips"
#
# > *From the imaging team:* the pictures of our new camera are very faint. In float32 the model learns from them. In
# > float16 most of its weights stay where they are, as if there were nothing to see. There is a scaler for that, and it is
# > called.
# >
# > *From the modelling team:* since somebody set `max_norm`, the loss in float16 is a flat line. The same `max_norm` in
# > float32 does no harm.
#
# <details><summary>Hint 1: where to look</summary>
#
# There are two separate things to find. The cell below counts the weights that move in a single step, with a `max_norm` so
# high that it plays no part. Then it draws the loss with a `max_norm` that does.
#
# </details>
#
# <details><summary>Hint 2: what to look at</summary>
#
# At which point of the step are the gradients still float16? And by how much are they too large when they are clipped?
# Lesson, sections *Gradients that vanish on the way* and *The order of five calls*.
#
# </details>
#
# <details><summary>Hint 3: nearly there</summary>
#
# What has become zero stays zero, whatever it is multiplied by afterwards; but a derivative is linear in what it is the
# derivative of. And a scaler can be asked to take its scale away earlier than in its own step; it remembers that it did.
#
# </details>


# %% nbgrader={"grade": false, "grade_id": "train_step-code", "locked": false, "schema_version": 3, "solution": true, "task": false}
def train_step(model, x, y, optimiser, scaler, max_norm, dtype):
    """One step of training in mixed precision; returns the loss of the batch.

    model: gives logits (N, n_classes) for x; its parameters are float32 and stay so, and its mode is left alone. y: labels
    (N,), int64. optimiser: one of `torch.optim` that needs no closure and is not fused, for all parameters of the model.
    dtype: the forward pass runs in an autocast region of this dtype; torch.float32 stands for none. The loss is the mean
    cross entropy, computed in float32 from the logits.

    scaler: a `torch.amp.GradScaler` for the device of x. Gradients are computed times its scale, so that the backward
    pass keeps those that are too small for the dtype. The step is made with the gradients of the loss itself, as
    float32; where their total norm, over all parameters together, is above `max_norm`, they are scaled down to it, as
    `nn.utils.clip_grad_norm_` does. Where gradients times the scale are inf or nan, no step is made: the parameters and
    the optimiser's state stay as they were. The scaler's scale is updated once in each call. If the scaler is disabled,
    the step is a plain one, clipped all the same.

    Gradients left in `.grad` from before have no influence; what is in there afterwards is not promised.

    Returns the loss before the step, not scaled: a float32 tensor without dimensions, detached.
    """
    with torch.autocast(x.device.type, dtype, enabled=dtype != torch.float32):
        logits = model(x)
    loss = F.cross_entropy(logits.float(), y)
    optimiser.zero_grad()
    ### BEGIN SOLUTION M1
    scaler.scale(loss).backward()
    ### BUG
    # loss.backward()
    # for parameter in model.parameters():
    #     if parameter.grad is not None:
    #         parameter.grad = scaler.scale(parameter.grad)
    ### END SOLUTION
    ### BEGIN SOLUTION M4
    scaler.unscale_(optimiser)
    nn.utils.clip_grad_norm_(model.parameters(), max_norm)
    ### BUG
    # nn.utils.clip_grad_norm_(model.parameters(), max_norm)
    ### END SOLUTION
    scaler.step(optimiser)
    scaler.update()
    return loss.detach()


# %%
faint = 1e-6 * IMAGES[:256]  # pictures of the new camera
for name, precision in (("float32", torch.float32), ("float16", torch.float16)):
    linear = nn.Linear(64, 10)
    nn.init.zeros_(linear.weight)
    optimiser = torch.optim.SGD(linear.parameters(), lr=1.0)
    train_step(linear, faint, LABELS[:256], optimiser, scaler_for(precision), 1e9, precision)
    print(f"{name}, faint pictures: {(linear.weight != 0).sum().item()} of {linear.weight.numel()} weights have moved")

plt.figure(figsize=(5, 2.5))
ends = []
for name, precision in (("float32", torch.float32), ("float16", torch.float16)):
    network = small_network()
    optimiser = torch.optim.SGD(network.parameters(), lr=0.5)
    scaler = scaler_for(precision)
    losses = [
        train_step(network, IMAGES[:256], LABELS[:256], optimiser, scaler, 0.5, precision).item() for _ in range(60)
    ]
    plt.plot(losses, label=name)
    ends.append(f"from {losses[0]:.2f} to {losses[-1]:.2f} in {name}")
plt.xlabel("step")
plt.ylabel("loss")
plt.legend()
show_figure(f"Curves: loss over 60 steps with max_norm 0.5, {' and '.join(ends)}.")

# %% nbgrader={"grade": true, "grade_id": "train_step", "locked": true, "schema_version": 3, "solution": false, "task": false, "points": 4}
check("train_step")

# %% [markdown]
# ## 2. "The schedule is ahead of the training"
#
# > *From the training log:* the warm-up was to take eight steps. The log shows it going up, one rate after the other, but
# > for some of these batches the weights do not move at all. When the rate is at its highest, some of the eight steps
# > have yet to be made.
# >
# > *From the modelling team:* and the number of steps in the log is not the number of steps that the optimiser made.
#
# <details><summary>Hint 1: where to look</summary>
#
# The scaler in the cell below tries a higher scale after every step, so it overflows again and again. The cell lists what
# the schedule did and how many steps the optimiser made.
#
# </details>
#
# <details><summary>Hint 2: what to look at</summary>
#
# What does `scaler.step` do with a batch whose gradients have overflowed? How does anyone find out that it did? Lesson,
# section *A step that was skipped*.
#
# </details>
#
# <details><summary>Hint 3: nearly there</summary>
#
# The scaler does not say that it skipped a step, but it does something about it in `update`. Compare a number before and
# after; think of what else may change that number, and in which direction.
#
# </details>


# %% nbgrader={"grade": false, "grade_id": "fit-code", "locked": false, "schema_version": 3, "solution": true, "task": false}
def fit(model, batches, optimiser, scheduler, scaler, dtype):
    """Train for one pass over the batches, in mixed precision; returns `(losses, rates)`.

    model: gives logits (N, n_classes); its parameters are float32, its mode is left alone. batches: an iterable of
    (x, y), y labels (N,), int64. The forward pass runs in an autocast region of `dtype` (torch.float32 stands for none);
    the loss is the mean cross entropy, computed in float32. optimiser: one of `torch.optim` that needs no closure and is
    not fused. scaler: a `torch.amp.GradScaler`, updated once for each batch; where it finds that scaled gradients
    overflow, the optimiser makes no step for that batch. Each batch's gradients are its own, whatever was in `.grad`
    before.

    scheduler: one of `torch.optim.lr_scheduler` that goes by steps. It is stepped once after each step that the optimiser
    has really made (with a rate of 0 as well), and at no other time: after k of them, the rate is that of the schedule's
    place k. A disabled scaler skips nothing. The next pass is a call with the same objects, and goes on from there.

    Returns two lists of floats: the loss of every batch, before its step; and the rate (of the first group) of every step
    that was really made, so there is none for a batch that was skipped.
    """
    losses, rates = [], []
    for x, y in batches:
        with torch.autocast(x.device.type, dtype, enabled=dtype != torch.float32):
            logits = model(x)
        loss = F.cross_entropy(logits.float(), y)
        losses.append(loss.item())
        rate = optimiser.param_groups[0]["lr"]
        optimiser.zero_grad()
        scaler.scale(loss).backward()
        ### BEGIN SOLUTION M8
        scale = scaler.get_scale()
        scaler.step(optimiser)
        scaler.update()
        if scaler.get_scale() >= scale:  # it is lowered for a batch that was skipped, and for no other
            rates.append(rate)
            scheduler.step()
        ### BUG
        # scaler.step(optimiser)
        # scaler.update()
        # rates.append(rate)
        # scheduler.step()
        ### END SOLUTION
    return losses, rates


# %%
network = small_network()
optimiser = torch.optim.SGD(network.parameters(), lr=0.8)
scheduler = torch.optim.lr_scheduler.LambdaLR(optimiser, lambda done: min(1.0, (done + 1) / 8))
steps = []
optimiser.register_step_post_hook(lambda *_: steps.append(optimiser.param_groups[0]["lr"]))
batches = list(zip(IMAGES[:768].split(64), LABELS[:768].split(64), strict=True))
scaler = scaler_for(torch.float16, init_scale=2.0**18, growth_interval=1)
losses, rates = fit(network, batches, optimiser, scheduler, scaler, torch.float16)
print(f"{len(batches)} batches, of which the optimiser made {len(steps)} steps")
print("rates that it made them with: ", " ".join(f"{rate:.1f}" for rate in steps))
print("rates that the log shows:     ", " ".join(f"{rate:.1f}" for rate in rates))
print("the schedule stands at step", scheduler.last_epoch)

# %% nbgrader={"grade": true, "grade_id": "fit", "locked": true, "schema_version": 3, "solution": false, "task": false, "points": 3}
check("fit")

# %% [markdown]
# ## 3. "After an interruption it is not the same run"
#
# > *From the platform team:* our machines are taken away now and then, so we save everything and go on from there. In
# > float32 a run that was interrupted gives exactly the weights of one that was not. In float16 it does not, and the log
# > shows skipped steps right after each resumption.
# >
# > *From the modelling team:* our schedule falls earlier than planned in the runs that were resumed.
#
# <details><summary>Hint 1: where to look</summary>
#
# The cell below trains once without an interruption and once with one. It prints the rate of each step, and where each
# run stands. Which of these are not the same, and which is the first?
#
# </details>
#
# <details><summary>Hint 2: what to look at</summary>
#
# What changes from step to step, besides the weights? Which of these can be worked out from the number of batches, if some
# of them made no step? Lesson, section *A step that was skipped*.
#
# </details>
#
# <details><summary>Hint 3: nearly there</summary>
#
# Four objects have a `state_dict`, and each of them has a `load_state_dict`. Neither is replaced by anything that guesses.
#
# </details>


# %% nbgrader={"grade": false, "grade_id": "save_state-code", "locked": false, "schema_version": 3, "solution": true, "task": false}
def save_state(model, optimiser, scheduler, scaler, step):
    """All that is needed to go on with a training in mixed precision, as a dict.

    optimiser: one of `torch.optim`; scheduler: one of `torch.optim.lr_scheduler`, which is stepped only where the
    optimiser was; scaler: a `torch.amp.GradScaler`, possibly disabled; step: how many batches have been trained on, an
    int (the scaler may have skipped some).

    The dict can be written with `torch.save` and read with `torch.load(…, weights_only=True)`. What is in it does not
    change when the training goes on. The four objects stay as they were.
    """
    ### BEGIN SOLUTION M8
    parts = {"model": model, "optimiser": optimiser, "scheduler": scheduler, "scaler": scaler}
    ### BUG
    # parts = {"model": model, "optimiser": optimiser, "scheduler": scheduler}
    ### END SOLUTION
    state = {name: copy.deepcopy(part.state_dict()) for name, part in parts.items()}
    return {"step": step, **state}


def load_state(state, model, optimiser, scheduler, scaler):
    """Bring new objects to where the saved ones were; returns the number of batches trained on, an int.

    state: what `save_state` has made, straight from it or back from a file; it is loaded once. The objects are of the
    same kinds, sizes and settings as those that were saved, but just made (the scaler perhaps with another initial
    scale). A training that goes on with them does, on a CPU, bit by bit what it would have done without an
    interruption: parameters, rates, the scaler's scale and the times at which it changes. Random numbers are not part of
    the state.
    """
    ### BEGIN SOLUTION M8
    scheduler.load_state_dict(state["scheduler"])
    ### BUG
    # scheduler.last_epoch = state["step"]
    ### END SOLUTION
    model.load_state_dict(state["model"])
    optimiser.load_state_dict(state["optimiser"])
    if "scaler" in state:
        scaler.load_state_dict(state["scaler"])
    return state["step"]


# %%
def new_training():
    network = small_network()
    optimiser = torch.optim.SGD(network.parameters(), lr=0.8, momentum=0.5)
    scheduler = torch.optim.lr_scheduler.StepLR(optimiser, step_size=10, gamma=0.5)  # half of the rate after ten steps
    return network, optimiser, scheduler, scaler_for(torch.float16, init_scale=2.0**24, growth_interval=6)


def go_on(training, first, last):
    """Train on the batches from `first` up to `last`; for each of them its rate, or the word "skip", as text."""
    network, optimiser, scheduler, scaler = training
    log = []
    for i in range(first, last):
        x, y = IMAGES[64 * i : 64 * i + 64], LABELS[64 * i : 64 * i + 64]
        with torch.autocast(x.device.type, torch.float16):
            logits = network(x)
        optimiser.zero_grad()
        scaler.scale(F.cross_entropy(logits.float(), y)).backward()
        before, rate = scaler.get_scale(), optimiser.param_groups[0]["lr"]
        scaler.step(optimiser)
        scaler.update()
        if scaler.get_scale() < before:
            log.append("skip")
        else:
            log.append(f"{rate:.1f} ")
            scheduler.step()
    return " ".join(log)


def standing(training):
    """Where a training is, as text."""
    _, optimiser, scheduler, scaler = training
    rate = optimiser.param_groups[0]["lr"]
    return f"scale 2^{math.log2(scaler.get_scale()):.0f}, schedule at {scheduler.last_epoch}, rate {rate}"


straight, interrupted, resumed = new_training(), new_training(), new_training()
print("batches 0 to 8:               ", go_on(straight, 0, 9))
go_on(interrupted, 0, 9)
file = io.BytesIO()
torch.save(save_state(*interrupted, 9), file)
file.seek(0)
step = load_state(torch.load(file, weights_only=True), *resumed)
print("when it was saved:            ", standing(interrupted))
print("when it was loaded:           ", standing(resumed))
print(f"batches {step} to 23, straight run:", go_on(straight, 9, 24))
print(f"batches {step} to 23, resumed run: ", go_on(resumed, step, 24))
print("at the end, straight run:     ", standing(straight))
print("at the end, resumed run:      ", standing(resumed))
off = max((a - b).abs().max().item() for a, b in zip(straight[0].parameters(), resumed[0].parameters(), strict=True))
print(f"The weights of the two runs differ by up to {off:.6f}.")

# %% nbgrader={"grade": true, "grade_id": "save_state", "locked": true, "schema_version": 3, "solution": false, "task": false, "points": 3}
check("save_state")

# %% [markdown]
# ## 4. "One empty picture, and everything is NaN"
#
# > *From the training log:* in fp16 the loss is NaN in every batch that has a sequence without a single row of its own.
# > In fp32 and bf16 nothing breaks, but such a sequence comes out as an average of rows that are not there.
# >
# > *From the modelling team:* with large queries and keys, as they come late in training, fp16 gives NaN even where
# > nothing is padded. bf16 does not.
#
# <details><summary>Hint 1: where to look</summary>
#
# Print the scores of one sample in fp16, before and after the mask: once for a sequence that is all padding, once for
# large queries and keys. Where does the first number appear that is not finite?
#
# </details>
#
# <details><summary>Hint 2: what to look at</summary>
#
# What is the largest number that each format can hold? Which numbers on the way are larger, though the result would not
# be? And what does a softmax make of a row in which all scores are the same? Lesson, section *Masks in half precision*.
#
# </details>
#
# <details><summary>Hint 3: nearly there</summary>
#
# There are two things to repair. A product of two factors can be scaled down after it has overflowed, or before it can.
# A mask can be *added* as a number, or *filled in*; and after the softmax there is a second chance to say what a padded
# key weighs. Try the gradients as well.
#
# </details>


# %% nbgrader={"grade": false, "grade_id": "attention-code", "locked": false, "schema_version": 3, "solution": true, "task": false}
def attention(q, k, v, padding):
    """Attention among the rows of each sequence: softmax(q k^T / sqrt(D)) v, without what is padding.

    q, k, v: (N, H, L, D), all of the same dtype, float16, bfloat16, float32 or float64. padding: (N, L), bool, True
    where a row of the sequence is padding; it holds for all H heads. Returns (N, H, L, D) in the dtype of q, outside of
    any autocast region.

    A padded row of k and v has weight 0, whatever (finite) numbers stand there. A padded row of q counts like any other:
    it gets its result from the rows of k and v that are not padded. Where all rows of a sequence are padding, its results
    are zeros. q k^T may be larger than float16 can hold, as long as q k^T / sqrt(D) is not, in padded rows as well.

    Results and gradients are finite. They differ from exact ones only by what rounding q, k, v, the scaled scores, the
    weights and the result to the dtype would do. Padded keys and values get gradients of zero; so does all of a sequence
    that is nothing but padding. The inputs stay as they were.
    """
    hidden = padding[:, None, None, :]  # the same for all heads and all queries
    ### BEGIN SOLUTION M9
    scores = (q / math.sqrt(q.shape[-1])) @ k.mT
    ### BUG
    # scores = q @ k.mT / math.sqrt(q.shape[-1])
    ### END SOLUTION
    ### BEGIN SOLUTION M9
    scores = scores.masked_fill(hidden, torch.finfo(scores.dtype).min)
    weights = scores.softmax(dim=-1).masked_fill(hidden, 0)  # where all are hidden, the softmax gives them equal shares
    ### BUG
    # scores = scores + hidden.to(scores.dtype) * -1e9
    # weights = scores.softmax(dim=-1)
    ### END SOLUTION
    return weights @ v


# %%
generator = torch.Generator().manual_seed(0)
n_rows = torch.tensor([8, 3, 0])
padding = torch.arange(8) >= n_rows[:, None]
q, k, v = (torch.randn(3, 2, 8, 16, generator=generator) for _ in range(3))


def worst(result):
    """The largest value of each sample, as text."""
    return ", ".join(f"{value:.3g}" for value in result.detach().float().abs().amax(dim=(1, 2, 3)).tolist())


for name, dtype in DTYPES.items():
    mine = [x.to(dtype, copy=True).requires_grad_() for x in (q, k, v)]
    result = attention(*mine, padding)
    result.sum().backward()
    print(f"{name}: sequences of {', '.join(map(str, n_rows.tolist()))} rows")
    print("  largest result (wanted for 0 rows: 0):  ", worst(result))
    for letter, x in zip("qkv", mine, strict=True):
        print(f"  largest gradient of {letter} (the same):       ", worst(x.grad))
    large = torch.full((1, 1, 4, 64), 40.0, dtype=dtype)
    print("  q, k and v are 40 everywhere (wanted: 40):", worst(attention(large, large, large, padding[:1, :4])))

# %% nbgrader={"grade": true, "grade_id": "attention", "locked": true, "schema_version": 3, "solution": false, "task": false, "points": 4}
check("attention")

# %% [markdown]
# ## 5. "The loss has steps, and then it is infinite"
#
# > *From the modelling team:* we watch the loss of a half-precision model while it learns. It does not go down in a
# > curve, it goes down in stairs. With some batches it is infinite.
# >
# > *From the evaluation team:* the same logits in fp32 give one loss outside of an autocast region and another inside.
#
# <details><summary>Hint 1: where to look</summary>
#
# Print the dtype of each intermediate result, for logits in bf16, and for logits in fp32 inside an autocast region. Which
# line is the first that is not float32?
#
# </details>
#
# <details><summary>Hint 2: what to look at</summary>
#
# How far apart are two neighbours in bf16 near 2? How large a logit has an exponential that float16 can hold, and float32?
# Which operators does autocast take for matrix products? Lesson, sections *The loss in full precision* and *What
# autocast casts*.
#
# </details>
#
# <details><summary>Hint 3: nearly there</summary>
#
# There are three things to repair: where the computation becomes float32, how the logarithm of a sum of exponentials is
# taken, and by what means the sum over the classes is made.
#
# </details>


# %% nbgrader={"grade": false, "grade_id": "smoothed_loss-code", "locked": false, "schema_version": 3, "solution": true, "task": false}
def smoothed_loss(logits, labels, smoothing):
    """Cross-entropy with smoothed labels, the mean over the samples: float32, without dimensions.

    logits: (N, C), float16, bfloat16 or float32, finite. labels: (N,), int64. smoothing: a Python float from 0 to 1. The
    wanted probability of a sample's own class is 1 - smoothing + smoothing / C, that of each other class smoothing / C.

    The loss is that of the logits as they are, computed in float32 (or better): its error is a few millionths of the
    largest logit, or of 1 where all are smaller, whatever the dtype of the logits, and whether or not the call is inside
    an autocast region of any dtype. The gradients are as exact as the dtype of the logits allows. Logits may be some
    thousands, of either sign. The inputs stay as they were.
    """
    ### BEGIN SOLUTION M3
    logits = logits.float()
    ### BUG
    # # in the dtype that the model gives
    ### END SOLUTION
    ### BEGIN SOLUTION M3
    log_probabilities = logits - logits.logsumexp(dim=1, keepdim=True)
    ### BUG
    # log_probabilities = logits - logits.exp().sum(dim=1, keepdim=True).log()
    ### END SOLUTION
    n_classes = logits.shape[1]
    wanted = torch.full_like(log_probabilities, smoothing / n_classes)
    wanted.scatter_(1, labels[:, None], 1 - smoothing + smoothing / n_classes)
    ### BEGIN SOLUTION M3
    return -(wanted * log_probabilities).sum(dim=1).mean()
    ### BUG
    # return -torch.einsum("nc,nc->n", wanted, log_probabilities).mean()
    ### END SOLUTION


# %%
generator = torch.Generator().manual_seed(0)
scores, labels = torch.randn(64, 10, generator=generator), torch.arange(64) % 10
falling = [scores + 0.002 * step * F.one_hot(labels, 10) for step in range(60)]  # the right logits grow, step by step
plt.figure(figsize=(5, 2.5))
for name, dtype in DTYPES.items():
    curve = [smoothed_loss(logits.to(dtype), labels, 0.1).item() for logits in falling]
    plt.plot(curve, label=name)
    print(f"{name}: loss from {curve[0]:.5f} to {curve[-1]:.5f}, {len(set(curve))} different values in 60 steps")
plt.xlabel("step")
plt.ylabel("loss")
plt.legend()
show_figure("Curves: the loss of the same logits in three formats, step by step.")

inside = {}
for name, dtype in DTYPES.items():
    with torch.autocast("cpu", dtype=dtype, enabled=name != "fp32"):
        inside[name] = smoothed_loss(scores, labels, 0.1).item()
print("the same fp32 logits in a region of", ", ".join(f"{name}: {value:.5f}" for name, value in inside.items()))
for size in (10, 20, 100):
    values = [smoothed_loss(torch.eye(10, dtype=d) * size, torch.arange(10), 0.1).item() for d in DTYPES.values()]
    print(f"one logit of {size}, nine of 0: loss", ", ".join(f"{value:.4f}" for value in values), end=" ")
    print(f"(wanted: {0.09 * size:.1f} to four digits, in all three formats)")

# %% nbgrader={"grade": true, "grade_id": "smoothed_loss", "locked": true, "schema_version": 3, "solution": false, "task": false, "points": 3}
check("smoothed_loss")

# %% [markdown]
# ## 6. "In half precision it is another model"
#
# > *From the evaluation team:* we loaded the same weights into a model for fp32 and into one for bf16. We expected
# > rounding errors. What we got were other predictions.
# >
# > *From the modelling team:* fine-tuning with a small learning rate works in fp32. In bf16 most weights do not
# > move at all.
# >
# > *From the platform team:* we have hardware that is fast in bf16. The profiler says that the model spends its time in
# > fp32 products all the same.
#
# <details><summary>Hint 1: where to look</summary>
#
# The cell below prints dtypes: those of the parameters, and those of the matrix products. It also prints how far the
# logits in one precision are from those in fp32. Which of these should depend on the precision?
#
# </details>
#
# <details><summary>Hint 2: what to look at</summary>
#
# What happens to a weight of 1 that is to change by a thousandth, in bf16? What is the dtype of a sum of a bf16 tensor and
# a float32 tensor? Lesson, sections *Weights that round away*, *Promotion without a word* and *One model, one setting*.
#
# </details>
#
# <details><summary>Hint 3: nearly there</summary>
#
# There are three things to repair. Weights are kept in one dtype and used in another, and `project` sees to the second
# half of that. After each line of `forward`, print the dtype of x. And compare the two branches line by line, or rather:
# see to it that there is nothing to compare.
#
# </details>


# %% nbgrader={"grade": false, "grade_id": "RowClassifier-code", "locked": false, "schema_version": 3, "solution": true, "task": false}
class RowClassifier(nn.Module):
    """Tells which digit a picture shows, by attention among its rows, in the precision that it is asked for.

    positions: (8, width), float32, belongs to the model but is not trained. precision: "fp32", "bf16" or "fp16". It is an
    attribute, and may be set to another one at any time. The parts are `nn.Linear` layers: `embed` (8 to width); `query`,
    `key`, `value` and `out` (width to width); `head` (width to n_classes).

    Takes images (N, 64), float32, and gives logits (N, n_classes), float32. A picture is 8 rows of 8 pixels. x is `embed`
    of the rows, plus the positions. Then x is x + out(softmax(query(x) key(x)^T / sqrt(width)) value(x)), the softmax
    over the keys. The logits are `head` of the mean of x over the rows.

    The precision decides in which dtype this is computed, and nothing else. All matrix products, forward and backward,
    are computed in float32 for "fp32", in bfloat16 for "bf16" and in float16 for "fp16", and the results differ by no
    more than these roundings. (All numbers on the way, those of query(x) key(x)^T too, are small enough for float16.) The
    parameters, their gradients and the positions are float32 in any precision; setting another one leaves them as they
    are. `state_dict()` has the weights and biases of the layers and `positions`, and suits a model of any other precision.
    The model is never called inside an autocast region; it may open its own.
    """

    def __init__(self, width, positions, precision="fp32", n_classes=10):
        super().__init__()
        self.precision = precision
        self.register_buffer("positions", positions.clone())
        self.embed = nn.Linear(8, width)
        self.query = nn.Linear(width, width)
        self.key = nn.Linear(width, width)
        self.value = nn.Linear(width, width)
        self.out = nn.Linear(width, width)
        self.head = nn.Linear(width, n_classes)
        ### BEGIN SOLUTION M2
        # the parameters stay float32: `project` rounds them where they are used
        ### BUG
        # for parameter in self.parameters():
        #     parameter.data = parameter.data.to(DTYPES[precision])
        ### END SOLUTION

    def forward(self, images):
        rows = images.reshape(len(images), 8, 8).to(DTYPES[self.precision])
        x = project(self.embed, rows)
        ### BEGIN SOLUTION M5
        x = x + self.positions.to(x.dtype)
        ### BUG
        # x = x + self.positions
        ### END SOLUTION
        q, k, v = project(self.query, x), project(self.key, x), project(self.value, x)
        ### BEGIN SOLUTION M7
        weights = (q @ k.mT / math.sqrt(q.shape[-1])).softmax(dim=-1)
        x = x + project(self.out, weights @ v)
        ### BUG
        # if self.precision == "fp32":
        #     weights = (q @ k.mT / math.sqrt(q.shape[-1])).softmax(dim=-1)
        #     x = x + project(self.out, weights @ v)
        # else:  # the fast path
        #     weights = (q @ k.mT).softmax(dim=-1)
        #     x = project(self.out, weights @ v)
        ### END SOLUTION
        return project(self.head, x.mean(dim=1)).float()


# %%
images, labels = (part[:100] for part in digits())
torch.manual_seed(0)
positions = torch.randn(8, 32)
first = RowClassifier(32, positions)
optimiser = torch.optim.Adam(first.parameters(), lr=3e-3)
for _ in range(50):
    optimiser.zero_grad()
    F.cross_entropy(first(images), labels).backward()
    optimiser.step()
expected = first(images).detach()
plt.figure(figsize=(5, 2.5))
for name in DTYPES:
    model = RowClassifier(32, positions, name)
    model.load_state_dict(first.state_dict())
    with MatmulDtypes() as products:
        off = (model(images) - expected).abs().max().item()
    print(f"{name}: parameters in", ", ".join(sorted({str(parameter.dtype) for parameter in model.parameters()})))
    print("  matrix products:", products.counts)
    print(f"  logits, up to {expected.abs().max():.0f} in fp32: off by up to {off:.2g}")
    optimiser = torch.optim.SGD(model.parameters(), lr=5e-3)
    curve, before = [], model.query.weight.detach().clone()
    for step in range(20):
        optimiser.zero_grad()
        loss = F.cross_entropy(model(images), labels)
        loss.backward()
        optimiser.step()
        curve.append(loss.item())
        if step == 0:
            moved = (model.query.weight != before).float().mean().item()
    print(f"  weights of `query` that a step with a small rate has moved: {moved:.0%}")
    plt.plot(curve, label=name)
    print(f"  loss from {curve[0]:.3f} to {curve[-1]:.3f} in 20 such steps")
first.precision = "bf16"  # the one that was made for fp32
with MatmulDtypes() as products:
    off = (first(images) - expected).abs().max().item()
print(f"made for fp32, then set to bf16: matrix products {products.counts}, logits off by up to {off:.2g}")
plt.xlabel("step")
plt.ylabel("loss")
plt.legend()
show_figure("Curves: the loss during these 20 steps, in three formats.")

# %% nbgrader={"grade": true, "grade_id": "RowClassifier", "locked": true, "schema_version": 3, "solution": false, "task": false, "points": 5}
check("RowClassifier")

# %% [markdown]
# ## 7. "We turned on bf16, and it got slower"
#
# > *From the platform team:* a single large matrix product is faster in bf16 than in fp32 on our hardware, by a factor of
# > several. The network that reads pictures row by row is made of nothing but matrix products, and with bf16 it is slower
# > than with fp32. The more rows, the more we lose. When the network is frozen, it is no better.
#
# <details><summary>Hint 1: where to look</summary>
#
# The cell below counts conversions between dtypes, for 8 rows and for 32. What is it that is converted again and again?
#
# </details>
#
# <details><summary>Hint 2: what to look at</summary>
#
# What does autocast remember of a weight that it has cast, for how long, and for which weights only? Lesson, sections
# *What autocast casts* and *What it gains here*.
#
# </details>
#
# <details><summary>Hint 3: nearly there</summary>
#
# What does not change from row to row can be converted before the first one: the weights, the biases, and all the rows
# at once. A state in `dtype` is what the next row needs, and the conversion back can wait for the last one. The same
# product can be written in several ways, and not each of them has a fast kernel in each dtype: the cell below measures.
#
# </details>


# %% nbgrader={"grade": false, "grade_id": "read_rows-code", "locked": false, "schema_version": 3, "solution": true, "task": false}
def read_rows(from_row, from_state, rows, dtype):
    """The states of a recurrent network that reads pictures row by row, computed in `dtype`.

    state_t = tanh(from_row(row_t) + from_state(state_{t-1})), with zeros as the state before the first row.

    from_row, from_state: `nn.Linear` layers, D to H and H to H, both with bias, with float32 parameters that may be
    frozen. rows: (N, T, D), float32, T >= 1. dtype: torch.bfloat16, torch.float16 or torch.float32. Returns all states,
    (N, T, H), float32. Called outside of any autocast region, with gradients recorded or not.

    All matrix products of the forward pass are computed in `dtype`, and results and gradients differ from exact ones by
    no more than that takes. (The gradient of a parameter is a sum over the rows, which may be made in `dtype`: it is as
    exact as that for T up to 32, and need not be for a longer one.) Gradients flow to the layers' parameters and to the
    rows; the parameters and the rows stay as they were, float32.

    Conversions between dtypes cost time, and those that the forward pass makes are few: each parameter is converted once
    at most, and how many conversions there are in all does not depend on N or T.

    So bfloat16 is worth it where the hardware is. Without gradients, for a dozen rows or more and an H of 2048 or more: if a
    bare product of N x H and H x H numbers is g >= 2.25 times as fast in bfloat16 as in float32, the function is at least
    sqrt(g) times as fast in bfloat16 as the formula above is in float32, with frozen parameters as well.
    """
    ### BEGIN SOLUTION M6
    row_weights = [parameter.to(dtype) for parameter in (from_row.weight, from_row.bias)]
    state_weights = [parameter.to(dtype) for parameter in (from_state.weight, from_state.bias)]

    def step(row, state):
        return torch.tanh(F.linear(row.to(dtype), *row_weights) + F.linear(state.to(dtype), *state_weights))

    ### BUG
    # def step(row, state):
    #     with torch.autocast(row.device.type, dtype=dtype, enabled=dtype != torch.float32):
    #         return torch.tanh(from_row(row) + from_state(state))
    #
    ### END SOLUTION
    ### BEGIN SOLUTION M6
    rows = rows.to(dtype)
    ### BUG
    # # the rows are float32, and each is converted where that is needed
    ### END SOLUTION
    state = rows.new_zeros(len(rows), from_state.in_features)
    states = []
    for t in range(rows.shape[1]):
        state = step(rows[:, t], state)
        ### BEGIN SOLUTION M6
        # the state stays in `dtype`: that is what the next step needs
        ### BUG
        # state = state.float()
        ### END SOLUTION
        states.append(state)
    return torch.stack(states, dim=1).float()


# %%
def milliseconds(call):
    """How long a call takes at best, without gradients."""
    times = []
    with torch.no_grad():
        for _ in range(10):
            begin = time.perf_counter()
            call()
            times.append(time.perf_counter() - begin)
    return 1e3 * min(times)


torch.manual_seed(0)
from_row, from_state = nn.Linear(8, 512), nn.Linear(512, 512)
factors = {dtype: torch.randn(512, 512).to(dtype) for dtype in (torch.float32, torch.bfloat16)}
bare = {dtype: milliseconds(lambda factor=factor: factor @ factor) for dtype, factor in factors.items()}
gain = bare[torch.float32] / bare[torch.bfloat16]
print(f"a bare product of 512 x 512 matrices: bf16 is {gain:.1f} x as fast as fp32 on this machine")
for frozen in (False, True):
    for parameter in (*from_row.parameters(), *from_state.parameters()):
        parameter.requires_grad_(not frozen)
    counts = []
    for n_rows in (8, 32):
        pictures = torch.rand(16, n_rows, 8)
        with Conversions() as conversions:
            read_rows(from_row, from_state, pictures, torch.bfloat16)
        counts.append(conversions.count)
    slow, fast = (milliseconds(lambda d=d, x=pictures: read_rows(from_row, from_state, x, d)) for d in factors)
    print(f"{'frozen' if frozen else 'trained'}: {counts[0]} conversions for 8 rows, {counts[1]} for 32;", end=" ")
    print(f"bf16 is {slow / fast:.1f} x as fast as fp32")

from_row, from_state = nn.Linear(8, 2048).requires_grad_(False), nn.Linear(2048, 2048).requires_grad_(False)
states, pictures = torch.randn(8, 2048), torch.rand(8, 16, 8)
bare = [(states.to(dtype), from_state.weight.to(dtype)) for dtype in factors]
slow, fast = (milliseconds(lambda pair=pair: F.linear(*pair)) for pair in bare)
print(f"8 states of 2048 numbers: a bare product is {slow / fast:.1f} x as fast in bf16 as in fp32,", end=" ")
slow, fast = (milliseconds(lambda d=d: read_rows(from_row, from_state, pictures, d)) for d in factors)
print(f"and `read_rows`, frozen, {slow / fast:.1f} x")

# %% nbgrader={"grade": true, "grade_id": "read_rows", "locked": true, "schema_version": 3, "solution": false, "task": false, "points": 3}
check("read_rows")

# %% [markdown]
# ## 8. The step that only looks like training
#
# A step of mixed precision has five calls in an order, and most of the wrong orders run. The test that guarded it asked
# whether the loss falls: it is below. With an optimiser that is forgiving, it falls in almost any case.
#
# `check_train_step(train_step)` is given a function with the arguments of section 1. It returns if the function keeps
# the promises that the docstring lists, and raises (an `assert` will do) if not. It will be tried on right ones of many
# kinds and on wrong ones, and most of these let a loss fall.
#
# <details><summary>Hint 1: where to look</summary>
#
# Each sentence of the docstring can be broken by itself. Which small batch would show it?
#
# </details>
#
# <details><summary>Hint 2: what to look at</summary>
#
# With a linear layer whose weights are zero, you know the gradient before you begin. Choose the pictures so that it is tiny,
# or huge, or huge only when it is multiplied by the scale. Lesson, section *A test for a training step*.
#
# </details>
#
# <details><summary>Hint 3: nearly there</summary>
#
# Plain SGD shows the gradient: it is what the weights have moved by, over the rate. Ask for the norm of that with a small
# `max_norm`, at a scale that you have set yourself; and look at weights and scale after a batch that must be skipped.
#
# </details>


# %% nbgrader={"grade": false, "grade_id": "check_train_step-code", "locked": false, "schema_version": 3, "solution": true, "task": false}
def check_train_step(train_step):
    """Raise an exception unless a training step in mixed precision does what it should.

    `train_step(model, x, y, optimiser, scaler, max_norm, dtype)` trains the model, whose parameters are float32, for one
    step on x and the labels y (N,), int64. The optimiser is one of `torch.optim` that needs no closure and is not fused,
    for all parameters; the scaler is a `torch.amp.GradScaler`. It is right if all of this holds:

    - The layers of the model get an autocast region of `dtype`, torch.float16 or torch.bfloat16.
    - It returns the mean cross entropy before the step, worked out in float32 from the model's logits and not scaled: a
      float32 tensor without dimensions, detached.
    - Gradients that are too small for float16, but not so when multiplied by the scale, take part in the step.
    - The step is made with the gradients of the loss itself. If their total norm, over all parameters together, is above
      `max_norm`, they are scaled down to it; if it is not, they are left as they are.
    - What was in `.grad` before has no influence.
    - Where gradients times the scale are inf or nan, the parameters stay as they were; the scaler's scale is lowered as
      the scaler does it, and the next step is right again. Other steps change the scale only as the scaler does it.

    The step of a right one is off by at most 2 % of its own length, all parameters together, from an exact computation:
    that is what half precision costs where no large numbers cancel. Right ones go about it in many ways, and need to be
    right for ordinary numbers only: scales from 1 to 2^24, a `max_norm` of 1e-9 or more, gradients to be clipped that
    have a total norm of 1e-3 or more, and gradients times the scale that are inf or nan, or have a total norm below 1e15.
    """
    ### BEGIN SOLUTION M4
    half = torch.float16

    def new(n_in, lr, init_scale):
        """A linear layer of zeros, two classes; its gradients are known beforehand."""
        layer = nn.Linear(n_in, 2)
        nn.init.zeros_(layer.weight)
        nn.init.zeros_(layer.bias)
        optimiser = torch.optim.SGD(layer.parameters(), lr=lr)
        return layer, optimiser, torch.amp.GradScaler("cpu", init_scale=init_scale)

    def assert_close(actual, expected, what):
        off = (actual.detach() - expected).norm() / expected.norm()
        assert off < 0.02, f"{what}: off by {off:.2%}"

    # logits that half precision holds without an error, so the loss is known to the precision of float32
    layer, optimiser, scaler = new(2, 0.0, 16.0)
    layer.weight.data = torch.tensor([[1.0, 2.0], [0.5, 0.25]])
    x, y = torch.tensor([[1.0, 1.0], [0.5, 3.0], [2.0, 0.0]]), torch.tensor([0, 1, 1])
    for dtype in (half, torch.bfloat16):
        seen = []
        hook = layer.register_forward_hook(lambda module, args, output, seen=seen: seen.append(output.dtype))
        loss = train_step(layer, x, y, optimiser, scaler, 1.0, dtype)
        hook.remove()
        assert seen and all(found == dtype for found in seen), f"the layer ran in {seen}, not in {dtype}"
        assert loss.shape == () and loss.dtype == torch.float32 and not loss.requires_grad, "not a plain number"
        torch.testing.assert_close(loss, F.cross_entropy(x @ layer.weight.detach().T, y), rtol=1e-5, atol=0.0)

    # each of 32 samples has a faint pixel of its own, and so a gradient of 2^-26, too small for float16
    layer, optimiser, scaler = new(32, 2.0**26, 2.0**16)
    labels = torch.arange(32) % 2
    train_step(layer, 2.0**-20 * torch.eye(32), labels, optimiser, scaler, 1.0, half)
    assert_close(layer.weight[0], 1.0 - 2.0 * labels, "faint pixels")

    # one picture with a single pixel: gradients of 0.5 for two weights and both biases, so a total norm of 1
    single, label = torch.tensor([[1.0, 0.0]]), torch.tensor([0])
    way = torch.tensor([[0.5, 0.0], [-0.5, 0.0]]), torch.tensor([0.5, -0.5])
    for dtype, max_norm, share in ((half, 0.25, 0.25), (half, 3.0, 1.0), (torch.bfloat16, 0.25, 0.25)):
        layer, optimiser, scaler = new(2, 0.5, 1024.0)
        layer.weight.grad, layer.bias.grad = torch.full((2, 2), 7.0), torch.full((2,), -7.0)
        train_step(layer, single, label, optimiser, scaler, max_norm, dtype)
        assert_close(layer.weight, 0.5 * share * way[0], f"weights, after a step with max_norm {max_norm}")
        assert_close(layer.bias, 0.5 * share * way[1], f"biases, after a step with max_norm {max_norm}")
        assert scaler.get_scale() == 1024, f"the scale has become {scaler.get_scale()}"

    # a bright picture: gradients of 2048 for two weights, which float16 holds times 16, but not times 32
    bright, way = torch.tensor([[4096.0, 0.0]]), torch.tensor([[2048.0, 0.0], [-2048.0, 0.0]])
    layer, optimiser, scaler = new(2, 0.5, 32.0)
    train_step(layer, bright, label, optimiser, scaler, 2.0, half)
    assert not layer.weight.any() and not layer.bias.any(), "it made a step in spite of an overflow"
    assert scaler.get_scale() == 16, f"after an overflow at 32 the scale is {scaler.get_scale()}"
    train_step(layer, bright, label, optimiser, scaler, 2.0, half)
    assert_close(layer.weight, way / way.norm(), "the step after a skipped one")
    assert scaler.get_scale() == 16, f"after a good step the scale is {scaler.get_scale()}"
    ### BUG
    # torch.manual_seed(0)
    # network = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4))
    # optimiser = torch.optim.Adam(network.parameters(), lr=0.01)
    # scaler = torch.amp.GradScaler("cpu")
    # x, y = torch.rand(16, 8), torch.arange(16) % 4
    # losses = [train_step(network, x, y, optimiser, scaler, 1.0, torch.float16) for _ in range(20)]
    # assert losses[-1] < losses[0], "the loss has not fallen"
    ### END SOLUTION


# %%
def step_that_clips_too_early(model, x, y, optimiser, scaler, max_norm, dtype):
    """Runs, and with Adam its loss falls."""
    with torch.autocast(x.device.type, dtype):
        logits = model(x)
    loss = F.cross_entropy(logits.float(), y)
    optimiser.zero_grad()
    scaler.scale(loss).backward()
    nn.utils.clip_grad_norm_(model.parameters(), max_norm)
    scaler.step(optimiser)
    scaler.update()
    return loss.detach()


try:
    check_train_step(step_that_clips_too_early)
    print("The test finds nothing wrong with clipping the scaled gradients.")
except Exception as error:
    print("The test says:", error)

# %% nbgrader={"grade": true, "grade_id": "check_train_step", "locked": true, "schema_version": 3, "solution": false, "task": false, "points": 4}
check("check_train_step")

# %% [markdown]
# ## All green?
#
# Then the sample is green. Save, and `pytest exercises` in a terminal runs the same checks on the saved file; a grade
# asks for the docstrings' promises in full. The habits to take along: scale the loss, not the gradients; take the scale
# away before you look at a gradient; know which steps were made; and save all that changes from step to step.
