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
# ---

# %% [markdown]
# # Exercise 7: two workers, no gain

# %% nbgrader={"grade": false, "grade_id": "setup", "locked": true, "schema_version": 3, "solution": false, "task": false}
import contextlib
import os
import tempfile
from collections import Counter

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

from autograder import check
from autograder.errors import RanksError
from autograder.pictures import digits
from autograder.ranks import launch

torch.set_num_threads(1)  # networks as small as these lose time by sharing the work between cores

# %% nbgrader={"grade": false, "grade_id": "given", "locked": true, "schema_version": 3, "solution": false, "task": false}
IMAGES, LABELS = digits()


def in_batches(images, labels, size):
    """The samples in batches of `size`, the last one shorter if need be: a list of (images, labels)."""
    return list(zip(images.split(size), labels.split(size), strict=True))


# %% [markdown]
# ## 4. "Twice the workers, twice the work"
#
# > *From the operations team:* we doubled the workers, and an epoch takes exactly as long as before. The log says that
# > each of them went through the whole data.
# >
# > *From the modelling team:* whether we look at epoch 1 or epoch 20, the samples come in the same order, to the last
# > picture. Wasn't this meant to be shuffled?
#
# <details><summary>Hint 1: where to look</summary>
#
# For a data set of ten samples, write down which ones each of two ranks should get in an epoch, and then which ones they
# do get. Do so for two epochs.
#
# </details>
#
# <details><summary>Hint 2: what to look at</summary>
#
# How does a sampler know which part is its own, and what decides the order? Lesson, section *Each sample once*.
#
# </details>
#
# <details><summary>Hint 3: nearly there</summary>
#
# Two of the function's arguments are not used at all, and a third one is not used either. The sampler needs two of them
# when it is made; the last one has to be told to it before each epoch.
#
# </details>


# %% nbgrader={"grade": false, "grade_id": "epoch_batches-code", "locked": false, "schema_version": 3, "solution": true, "task": false}
def epoch_batches(dataset, batch_size, rank, world_size, epoch, seed):
    """The batches that one rank goes through in one epoch: a list of pairs (images, labels).

    dataset: a `TensorDataset` of images and int64 labels with at least one sample. Each batch has `batch_size` samples
    of the rank's share, in the shapes (batch_size, ...) and (batch_size,); the last one has what is left.

    In each epoch all samples are shuffled and then divided among the ranks 0 to world_size - 1. Every rank gets the same
    number of them: as few as possible for no sample to be left out. Where the numbers do not divide, some samples come
    once more than others, and none comes more often than that.

    The result depends on the arguments alone, whatever was drawn from random number generators before. Another epoch,
    0, 1, 2 and so on, means another order of the samples and other samples for each rank (with more than one rank);
    another seed does so, too.
    """
    ### BEGIN SOLUTION P2
    sampler = DistributedSampler(dataset, num_replicas=world_size, rank=rank, seed=seed)
    ### BUG
    # sampler = DistributedSampler(dataset, num_replicas=1, rank=0, seed=seed)
    ### END SOLUTION
    loader = DataLoader(dataset, batch_size=batch_size, sampler=sampler)
    ### BEGIN SOLUTION P3
    sampler.set_epoch(epoch)
    ### BUG
    # # the sampler shuffles by itself
    ### END SOLUTION
    return list(loader)


# %%
numbered = TensorDataset(IMAGES[:12], torch.arange(12))  # labels that tell which sample it is
for epoch in range(2):
    together = Counter()
    for rank in range(2):
        batches = epoch_batches(numbered, 4, rank, 2, epoch, seed=0)
        samples = [index for _, labels in batches for index in labels.tolist()]
        together.update(samples)
        print(f"epoch {epoch}, rank {rank}: {len(samples):2} samples, {samples}")
    print(f"epoch {epoch}: of 12 samples, {sum(count > 1 for count in together.values())} come more than once")

# %% nbgrader={"grade": true, "grade_id": "epoch_batches", "locked": true, "schema_version": 3, "solution": false, "task": false, "points": 4}
check("epoch_batches")

# %% [markdown]
# ## 5. "Each worker has a model of its own"
#
# > *From the evaluation team:* we took the trained model of rank 0 and that of rank 1. They give different answers.
# >
# > *From the modelling team:* with two workers, the loss of the first steps falls more slowly than with one, though each
# > step sees twice the samples.
# >
# > *From the operations team:* we let eight batches make one step so that the workers need not talk so often. The
# > network is exactly as busy as before.
#
# <details><summary>Hint 1: where to look</summary>
#
# The cell below trains two ranks that start from seeds of their own. Compare the first lines of its output with what
# should be there: how far apart may the two be?
#
# </details>
#
# <details><summary>Hint 2: what to look at</summary>
#
# What does `DistributedDataParallel` do when it is made, in `forward`, and in `backward`? Lesson, sections *What DDP
# does for you* and *Accumulating without talking*. For the slow start: *A larger batch, another rate*.
#
# </details>
#
# <details><summary>Hint 3: nearly there</summary>
#
# There are three things to repair, one on each of these: an argument when the model is wrapped; the rate, for which the
# docstring has the rule; and the block that keeps the ranks from talking. It decides in `forward` whether the next
# `backward` will.
#
# </details>


# %% nbgrader={"grade": false, "grade_id": "train_on_ranks-code", "locked": false, "schema_version": 3, "solution": true, "task": false}
def train_on_ranks(model, batches, accumulate, lr):
    """Train for one epoch together with the other ranks; every rank calls this, inside a process group. Returns None.

    model: this rank's own new model, a plain module, with parameters and buffers that may differ from those on other
    ranks (so do the seeds), but the same layers on all of them. All parameters that are not frozen are used. The layers
    keep no statistics. It is trained in place: each rank's `model` itself has the trained parameters afterwards.

    batches: this rank's own list of (inputs, labels). All batches on all ranks have the same size; all ranks have the
    same number of them, a multiple of `accumulate`.

    All ranks start from the parameters and buffers of rank 0. Every `accumulate` batches make a step of plain gradient
    descent on the mean cross entropy of all these batches of all ranks. So on all ranks the result is what one process
    would get from rank 0's model if each step were one large batch. Frozen parameters and buffers stay as they are on
    rank 0.

    `lr` was tuned in one process, with the same size of batches and the same `accumulate`. It is adapted to the number
    of ranks by the linear rule: n times as many samples in a step, n times the rate.

    The ranks talk once per step, not once per batch: with the same number of steps, the number of collective calls that
    are carried out does not depend on `accumulate`.
    """
    ### BEGIN SOLUTION P10
    wrapped = DistributedDataParallel(model)
    ### BUG
    # wrapped = DistributedDataParallel(model, init_sync=False)  # starts faster
    ### END SOLUTION
    ### BEGIN SOLUTION P5
    optimiser = torch.optim.SGD(model.parameters(), lr=lr * dist.get_world_size())
    ### BUG
    # optimiser = torch.optim.SGD(model.parameters(), lr=lr)
    ### END SOLUTION
    for i, (inputs, labels) in enumerate(batches, start=1):
        makes_step = i % accumulate == 0
        quiet = contextlib.nullcontext() if makes_step else wrapped.no_sync()
        ### BEGIN SOLUTION P12
        with quiet:
            loss = F.cross_entropy(wrapped(inputs), labels)
            (loss / accumulate).backward()
        ### BUG
        # loss = F.cross_entropy(wrapped(inputs), labels)
        # with quiet:
        #     (loss / accumulate).backward()
        ### END SOLUTION
        if makes_step:
            optimiser.step()
            optimiser.zero_grad()


# %%
def new_model(seed):
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(64, 16), nn.Tanh(), nn.Linear(16, 10))


def loss_of(model):
    with torch.no_grad():
        return F.cross_entropy(model(IMAGES[:256]), LABELS[:256]).item()


def train_digits(rank, world_size, accumulate):
    """Train on this rank's half of 256 digits; the weights, the loss on all of them, and how often gloo reduced."""
    model = new_model(seed=rank)  # each rank draws numbers of its own
    batches = in_batches(IMAGES[rank:256:world_size], LABELS[rank:256:world_size], 8)
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profiler:
        train_on_ranks(model, batches, accumulate, lr=0.5)
    reductions = sum(event.name == "gloo:all_reduce" for event in profiler.events())
    return model[0].weight.detach(), loss_of(model), reductions


results = launch(train_digits, 2, 4)
apart = (results[0][0] - results[1][0]).abs().max().item()
print(f"after training, the weights of the two ranks are up to {apart:.4f} apart")
print("16 batches on each rank, 4 for each step, so 4 steps; all-reductions:", results[0][2])
print(f"loss on all 256 digits after these steps: rank 0 {results[0][1]:.3f}, rank 1 {results[1][1]:.3f}")
alone = new_model(seed=0)
for images, labels in in_batches(IMAGES[:256], LABELS[:256], 64):  # what the two ranks have for each step, together
    gradients = torch.autograd.grad(F.cross_entropy(alone(images), labels), list(alone.parameters()))
    with torch.no_grad():
        for parameter, gradient in zip(alone.parameters(), gradients, strict=True):
            parameter -= 2 * 0.5 * gradient
print(f"loss of one process that makes these steps from rank 0's start, at the rate of the rule: {loss_of(alone):.3f}")

# %% nbgrader={"grade": true, "grade_id": "train_on_ranks", "locked": true, "schema_version": 3, "solution": false, "task": false, "points": 5}
check("train_on_ranks")

# %% [markdown]
# ## 6. "The score depends on the number of workers"
#
# > *From the evaluation team:* with one worker the model is right on 84 % of the samples. With two workers, on the same
# > samples, it can be anything from 42 to 92 %, as they happen to be divided. Nobody touched the model.
# >
# > *From the operations team:* when the last worker has no samples left, evaluation never ends.
# >
# > *From the modelling team:* after an evaluation, the model of rank 1 has other statistics in its BatchNorm layers than
# > before. We looked for a forgotten `eval()`; it is there.
#
# <details><summary>Hint 1: where to look</summary>
#
# Take three samples on rank 0, all right, and one on rank 1 that is wrong. What share is right in all, and what does the
# function make of it?
#
# </details>
#
# <details><summary>Hint 2: what to look at</summary>
#
# Which numbers can be added up over ranks? Lesson, section *Metrics over all ranks*. What else happens in the `forward`
# of a wrapped model, before the model's own? Lesson, section *One rank writes, all ranks wait*.
#
# </details>
#
# <details><summary>Hint 3: nearly there</summary>
#
# There are two things to repair. Sums and counts go over the ranks; the division comes last. And to score samples, the
# wrapping is not needed: the model inside is called `module`.
#
# </details>


# %% nbgrader={"grade": false, "grade_id": "evaluate-code", "locked": false, "schema_version": 3, "solution": true, "task": false}
def evaluate(model, batches):
    """Score a model on the samples of all ranks; every rank calls this, inside a process group.

    model: this rank's model, plain or wrapped in `DistributedDataParallel` (on all ranks alike). batches: this rank's own
    list of (inputs, labels). Numbers and sizes of batches may differ from rank to rank, and a rank may have no batch at
    all; over all ranks there is at least one sample.

    Returns `{"loss": ..., "accuracy": ...}`, two Python floats that are the same on all ranks: the mean cross entropy and
    the share of right answers, over all samples of all ranks, each sample counting the same. The model that scores a
    sample is the one on its own rank as it is, in eval mode.

    Afterwards parameters, buffers, gradients and the mode of each module are as they were, on each rank. The result
    comes whatever the ranks have to do: no rank waits for one that has fewer batches.
    """
    ### BEGIN SOLUTION P4
    network = model.module if isinstance(model, DistributedDataParallel) else model
    ### BUG
    # network = model
    ### END SOLUTION
    modes = {module: module.training for module in model.modules()}
    model.eval()
    loss, n_right, n_samples = 0.0, 0, 0
    with torch.no_grad():
        for inputs, labels in batches:
            scores = network(inputs)
            loss += F.cross_entropy(scores, labels, reduction="sum").item()
            n_right += (scores.argmax(dim=1) == labels).sum().item()
            n_samples += len(labels)
    for module, training in modes.items():
        module.training = training
    device = next(model.parameters()).device
    ### BEGIN SOLUTION P13
    sums = torch.tensor([loss, n_right, n_samples], dtype=torch.float64, device=device)
    dist.all_reduce(sums)
    loss, n_right, n_samples = sums.tolist()
    return {"loss": loss / n_samples, "accuracy": n_right / n_samples}
    ### BUG
    # means = torch.tensor([loss, n_right], dtype=torch.float64, device=device) / max(n_samples, 1)
    # dist.all_reduce(means)
    # loss, accuracy = (means / dist.get_world_size()).tolist()
    # return {"loss": loss, "accuracy": accuracy}
    ### END SOLUTION


# %%
def scored_model():
    """A small classifier: it knows the mean of each class."""
    model = nn.Sequential(nn.BatchNorm1d(64, affine=False), nn.Linear(64, 10))
    means = torch.stack([IMAGES[:300][LABELS[:300] == label].mean(0) for label in range(10)])
    with torch.no_grad():
        model[0].running_mean.copy_(IMAGES[:300].mean(0))
        model[1].weight.copy_(means - IMAGES[:300].mean(0))
        model[1].bias.copy_(-model[1].weight.square().sum(1) / 2)
    return model


def score_digits(rank, world_size, divisions):
    """The accuracy on the same digits, divided among the ranks in several ways; then evaluate the model wrapped."""
    found = []
    for first, second in divisions:
        own = slice(300, 300 + first) if rank == 0 else slice(300 + first, 300 + first + second)
        found.append(evaluate(scored_model(), in_batches(IMAGES[own], LABELS[own], 20))["accuracy"])
    model = scored_model()
    wrapped = DistributedDataParallel(model)
    model[0].running_mean += rank  # as after an epoch of training on other samples
    before = model[0].running_mean.clone()
    evaluate(wrapped, in_batches(IMAGES[:40], LABELS[:40], 20))
    return found, (model[0].running_mean - before).abs().max().item()


divisions = [(60, 60), (100, 20), (119, 1), (120, 0)]
results = launch(score_digits, 2, divisions)
with torch.no_grad():
    n_right = (scored_model().eval()(IMAGES[300:420]).argmax(dim=1) == LABELS[300:420]).sum().item()
print(f"the same 120 digits, scored by one process: accuracy {n_right / 120:.3f}")
for (first, second), on_rank_0, on_rank_1 in zip(divisions, results[0][0], results[1][0], strict=True):
    print(
        f"{first:3} of them on rank 0, {second:2} on rank 1: {on_rank_0:.3f} says rank 0, {on_rank_1:.3f} says rank 1"
    )
print(
    "a wrapped model's statistics have moved by:",
    ", ".join(f"{moved:.2f} on rank {i}" for i, (_, moved) in enumerate(results)),
)

# %% nbgrader={"grade": true, "grade_id": "evaluate", "locked": true, "schema_version": 3, "solution": false, "task": false, "points": 4}
check("evaluate")

# %% [markdown]
# ## 7. "Half a checkpoint"
#
# > *From the operations team:* a job was stopped while it saved. The file was cut off, and the one before it was gone.
# > When two workers save at once on shared storage, some files can't be read at all.
# >
# > *From the platform team:* your file does not load into our model. All the names are wrong. They begin with `module.`.
# >
# > *From the modelling team:* we once let only one worker save. Then the job hung, and we went back.
#
# <details><summary>Hint 1: where to look</summary>
#
# The cell below shows which ranks write a file, and what is in it.
#
# </details>
#
# <details><summary>Hint 2: what to look at</summary>
#
# Which of the lines may only one rank go through, and which must all of them go through? Lesson, section *One rank
# writes, all ranks wait*. What does a reader find at `path` while `torch.save` is halfway?
#
# </details>
#
# <details><summary>Hint 3: nearly there</summary>
#
# There are four things to repair: the names, who writes, where it writes to first (`os.replace` moves a file to its place
# in one go), and a line that is indented too far.
#
# </details>


# %% nbgrader={"grade": false, "grade_id": "save_checkpoint-code", "locked": false, "schema_version": 3, "solution": true, "task": false}
def save_checkpoint(model, path):
    """Save the model of rank 0 to a file; every rank calls this, inside a process group. Returns None.

    model: plain or wrapped in `DistributedDataParallel` (on all ranks alike). `torch.load(path)` gives the `state_dict`
    of the plain model, with its names, and the parameters and buffers that rank 0 has.

    path: a string, the file on rank 0's disk; its folder is there. On other ranks, which may have disks of their own, no
    file is written, changed or removed, whatever their `path`. A file that was at `path` before is replaced as a whole:
    at every moment there is either the old file, complete, or the new one, complete, even if the job is stopped or
    saving fails halfway. After a call that went well, nothing else is left in the folder.

    No rank returns before the new file is complete.
    """
    ### BEGIN SOLUTION P4
    network = model.module if isinstance(model, DistributedDataParallel) else model
    ### BUG
    # network = model
    ### END SOLUTION
    ### BEGIN SOLUTION P4
    is_writer = dist.get_rank() == 0
    ### BUG
    # is_writer = True
    ### END SOLUTION
    if is_writer:
        ### BEGIN SOLUTION P4
        torch.save(network.state_dict(), path + ".partial")
        os.replace(path + ".partial", path)
        ### BUG
        # torch.save(network.state_dict(), path)
        ### END SOLUTION
    ### BEGIN SOLUTION P4
    dist.barrier()
    ### BUG
    # if is_writer:
    #     dist.barrier()
    ### END SOLUTION


# %%
def save_twice(rank, world_size, folder):
    """Save a wrapped model twice, each rank to a disk of its own: what is there, and what became of the first file."""
    disk = os.path.join(folder, f"disk{rank}")
    os.mkdir(disk)
    path = os.path.join(disk, "model.pt")
    model = DistributedDataParallel(nn.Linear(3, 2))
    save_checkpoint(model, path)
    first = os.open(path, os.O_RDONLY) if os.path.exists(path) else None  # a reader, who takes some time
    dist.barrier()
    with torch.no_grad():
        model.module.weight += 1
    save_checkpoint(model, path)
    if first is None:
        return f"files {os.listdir(disk)}"
    with os.fdopen(first, "rb") as old, open(path, "rb") as new:
        changed = old.read() == new.read()
    fate = "has had it changed while it was open" if changed else "still has all of it"
    return f"files {os.listdir(disk)}, names {list(torch.load(path))}; who reads the first file {fate}"


with tempfile.TemporaryDirectory() as folder:
    try:
        for rank, found in enumerate(launch(save_twice, 2, folder)):
            print(f"rank {rank}:", found)
    except RanksError as error:
        print("The ranks did not come back:", error)

# %% nbgrader={"grade": true, "grade_id": "save_checkpoint", "locked": true, "schema_version": 3, "solution": false, "task": false, "points": 3}
check("save_checkpoint")
