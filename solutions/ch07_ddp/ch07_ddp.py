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
# # Exercise 7: two workers, no gain
#
# The classifier of hand-written digits is to be trained by several processes at once, each with a share of the data. Its
# code starts, finishes and writes a model. Yet two processes are hardly quicker than one, the model is worse, and now
# and then the job stands still for ever. The people who run it have filed these complaints.
#
# Each section below is one complaint, the function it is about, and a cell that checks your repair. Change the code, run
# its cell, then run the check. What each docstring promises is what the callers rely on: none of the promises is wrong,
# and nothing needs another signature. The sections do not build on each other.
#
# The checks are a sample: a few small examples, which you may read in the files `test_ch07_….py` beside this notebook.
# A grade comes from more of them, at other sizes, dtypes and numbers of processes. Nothing is asked there that the
# docstrings do not promise, so when a check is green, read the docstring once more.
#
# The lesson that goes with this exercise is [Distributed data parallel](../../course/ch07_ddp.ipynb); a failed check names the
# section to reread. Everything runs on a CPU. Plan for two hours, with a pause after section 4. Hints are folded away under
# each complaint; open them one at a time.

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

from autograder import check, what_you_fixed
from autograder.errors import RanksError
from autograder.pictures import digits
from autograder.ranks import collectives_so_far, launch

torch.set_num_threads(1)  # networks as small as these lose time by sharing the work between cores

# %% [markdown]
# ## What is given
#
# `launch(function, world_size, *args)` runs `function(rank, world_size, *args)` in `world_size` processes, the *ranks*.
# They are members of one gloo group that has been set up, so `function` may use `torch.distributed` at once; it never
# calls `init_process_group` itself. The result is the list of what the ranks returned. Where ranks wait for each other
# in vain, `launch` notices after some seconds, ends them, and says which rank was in which call. (Its argument `timeout`,
# 60 seconds if not given, is the longest that all of it may take, the start of the processes included.)
#
# The digits are as in the chapters before: rows of 64 numbers from 0 to 1, and labels. `collectives_so_far()` tells a rank
# how many calls in which ranks talk to each other it has taken part in, those that `DistributedDataParallel` makes
# included. None of these is part of the exercise.

# %% nbgrader={"grade": false, "grade_id": "given", "locked": true, "schema_version": 3, "solution": false, "task": false}
IMAGES, LABELS = digits()


def share_of(rank, world_size, rows):
    """Every `world_size`-th row, beginning with row `rank`: what this rank works on."""
    return rows[rank::world_size]


def small_model(seed=0):
    """The classifier: (N, 64) to logits (N, 10); the same weights for the same seed."""
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(64, 32), nn.Tanh(), nn.Linear(32, 10))


def gradient_of(model):
    """All gradients of a model as one long row; zeros where a parameter has none."""
    gradients = [torch.zeros_like(p) if p.grad is None else p.grad for p in model.parameters()]
    return torch.cat([gradient.flatten() for gradient in gradients])


def in_batches(images, labels, size):
    """The samples in batches of `size`, the last one shorter if need be: a list of (images, labels)."""
    return list(zip(images.split(size), labels.split(size), strict=True)) if len(images) else []


# %% [markdown]
# ## 1. "It runs on my machine, on both of its cards"
#
# > *From the platform team:* on one machine with two cards, training starts. On two such machines, the processes of the
# > second one say `invalid device ordinal`; and before we saw that, they had been looking for the others for half an
# > hour.
# >
# > *From the people with laptops:* we have no such cards, and cannot start it at all.
# >
# > *From the operations team:* someone forgot `torchrun` and started the script four times by hand. No error. We got four
# > models, one on top of the other, each trained alone.
#
# <details><summary>Hint 1: where to look</summary>
#
# The cell below does what `torchrun` does on two machines with two cards each. Go through its table row by row: which
# process ends up with something that its machine does not have?
#
# </details>
#
# <details><summary>Hint 2: what to look at</summary>
#
# Which of the numbers that `torchrun` hands out counts over all machines, and which over one? Who has to be found under
# the address? Which backend can do what? And what should a process do that has not been told one of them? Lesson,
# section *Ranks, and how they meet*.
#
# </details>
#
# <details><summary>Hint 3: nearly there</summary>
#
# There are four things to repair. A card is chosen by the number that begins anew on each machine; the address is in the
# environment already; the backend goes with the kind of device; and a value that is missing cannot be made up.
#
# </details>


# %% nbgrader={"grade": false, "grade_id": "process_group_settings-code", "locked": false, "schema_version": 3, "solution": true, "task": false}
def process_group_settings(environment, device_type):
    """What this process needs in order to join its group and to pick its device, from what `torchrun` has set.

    environment: a mapping of strings to strings, such as `os.environ`. Of what is in it, RANK, LOCAL_RANK, WORLD_SIZE,
    MASTER_ADDR and MASTER_PORT count. device_type: "cpu" or "cuda".

    Returns a dict with exactly these keys:
    "backend": "gloo" for the CPU, "nccl" for CUDA;
    "init_method": "tcp://ADDRESS:PORT", where rank 0 of the group listens;
    "rank" and "world_size": ints, over all machines;
    "device": a str, "cpu" or "cuda:K". The cards of each machine are counted from 0, and each of a machine's processes
    has one of its own, in the order of their local ranks.

    Where any of the five variables is not there, raises a ValueError whose message has the names of all that are
    missing.
    The environment stays as it is, and so does the process: nothing is started here.
    """
    names = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
    ### BEGIN SOLUTION P8
    missing = [name for name in names if name not in environment]
    if missing:
        raise ValueError(f"{', '.join(missing)} not set; was this process started by torchrun?")
    values = [environment[name] for name in names]
    ### BUG
    # defaults = dict(zip(names, ("0", "0", "1", "127.0.0.1", "29500"), strict=True))
    # values = [environment.get(name, defaults[name]) for name in names]
    ### END SOLUTION
    rank, local_rank, world_size = (int(value) for value in values[:3])
    ### BEGIN SOLUTION P7
    address, port = values[3:]
    ### BUG
    # address, port = "127.0.0.1", values[4]
    ### END SOLUTION
    ### BEGIN SOLUTION P7
    backend = "nccl" if device_type == "cuda" else "gloo"
    ### BUG
    # backend = "nccl"
    ### END SOLUTION
    ### BEGIN SOLUTION P8
    device = f"cuda:{local_rank}" if device_type == "cuda" else "cpu"
    ### BUG
    # device = f"cuda:{rank}" if device_type == "cuda" else "cpu"
    ### END SOLUTION
    return {
        "backend": backend,
        "init_method": f"tcp://{address}:{port}",
        "rank": rank,
        "world_size": world_size,
        "device": device,
    }


# %%
as_torchrun = {"WORLD_SIZE": "4", "LOCAL_WORLD_SIZE": "2", "MASTER_ADDR": "10.1.0.7", "MASTER_PORT": "29400"}
print("Two machines with two cards each (cuda:0 and cuda:1); rank 0 listens at 10.1.0.7:29400.")
for machine in range(2):
    for local_rank in range(2):
        own = {"RANK": str(2 * machine + local_rank), "LOCAL_RANK": str(local_rank)}
        print(f"  machine {machine}, process {local_rank}:", process_group_settings(as_torchrun | own, "cuda"))
print("A laptop:")
laptop = {"RANK": "0", "LOCAL_RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": "localhost", "MASTER_PORT": "29500"}
print(" ", process_group_settings(laptop, "cpu"))
print("Started without torchrun:")
try:
    print("  goes on as", process_group_settings({}, "cpu"))
except ValueError as error:
    print("  stops:", error)

# %% nbgrader={"grade": true, "grade_id": "process_group_settings", "locked": true, "schema_version": 3, "solution": false, "task": false, "points": 3}
check("process_group_settings")

# %% [markdown]
# ## 2. "With more ranks it jumps further, and waits longer"
#
# > *From the modelling team:* two ranks with half of a batch each should make the step that one process makes with the
# > whole batch. They go twice as far. Four ranks go four times as far.
# >
# > *From the platform team:* the network between the machines is idle most of the time, and all the ranks wait. A deeper
# > model makes it worse, even one with fewer numbers in all.
# >
# > *From the research team:* we have a branch that only some batches go through. The first time that one rank uses it
# > and another does not, the job breaks or stands still.
#
# <details><summary>Hint 1: where to look</summary>
#
# The cell below compares two ranks with one process, and counts how often they talk. Write down, for a model with two
# parameters of which rank 0 has no gradient for the first, which calls each rank makes.
#
# </details>
#
# <details><summary>Hint 2: what to look at</summary>
#
# What does `dist.all_reduce` leave behind, and what would have been right? What does a call cost that carries almost
# nothing? Lesson, section *The mean of gradients*; for what breaks, *Collectives, and who waits*.
#
# </details>
#
# <details><summary>Hint 3: nearly there</summary>
#
# There are three things to repair. Somewhere the number of ranks has to come in. Gradients of one dtype fit into one long
# row, which can be cut again afterwards. And a rank without a gradient has something to say all the same: zeros.
#
# </details>


# %% nbgrader={"grade": false, "grade_id": "average_gradients-code", "locked": false, "schema_version": 3, "solution": true, "task": false}
def average_gradients(model):
    """Bring the gradients of all ranks together; each rank calls this with its own copy of the model, after backward.

    Afterwards `.grad` of every trainable parameter is, on every rank, the mean over all ranks of what it was. Where
    `.grad` was None, that rank counts as one with zeros; a parameter without a gradient on any rank ends with zeros. So
    with batches of equal size and losses that are means, the gradients are those of one process on all batches at once.

    The parameters are float32 or float64, perhaps some of each, and nothing is computed with less precision than they
    have. Their gradients are dense, with any strides, which may differ from rank to rank. Whether `.grad` is the same
    tensor as before does not matter. A parameter that occurs in two places in the model is one parameter.

    Frozen parameters (`requires_grad` is False) are left as they are, with `.grad`, whatever it is. So are the values of
    all parameters, and the buffers.

    However many parameters there are, the ranks talk at most twice for each of their dtypes: that many collective calls.
    """
    trainable = [p for p in model.parameters() if p.requires_grad]
    ### BEGIN SOLUTION P9
    for p in trainable:
        if p.grad is None:  # other ranks may have one, and wait for this rank's part
            p.grad = torch.zeros_like(p)
    gradients = [p.grad for p in trainable]
    ### BUG
    # gradients = [p.grad for p in trainable if p.grad is not None]
    ### END SOLUTION
    ### BEGIN SOLUTION P9
    for gradient in gradients:
        gradient /= dist.get_world_size()
    ### BUG
    # # now one after the other
    ### END SOLUTION
    ### BEGIN SOLUTION P9
    for dtype in (torch.float32, torch.float64):
        of_dtype = [gradient for gradient in gradients if gradient.dtype == dtype]
        if of_dtype:
            row = torch.cat([gradient.flatten() for gradient in of_dtype])
            dist.all_reduce(row)
            for gradient, part in zip(of_dtype, row.split([g.numel() for g in of_dtype]), strict=True):
                gradient.copy_(part.view_as(gradient))
    ### BUG
    # for gradient in gradients:
    #     dist.all_reduce(gradient)
    ### END SOLUTION


# %%
def averaged_on_rank(rank, world_size, images, labels):
    model = small_model()
    F.cross_entropy(model(share_of(rank, world_size, images)), share_of(rank, world_size, labels)).backward()
    before = collectives_so_far()
    average_gradients(model)
    n_calls = collectives_so_far() - before

    branched = nn.ModuleDict({"branch": nn.Linear(2, 1, bias=False), "trunk": nn.Linear(2, 1, bias=False)})
    branched["trunk"](torch.ones(1, 2)).sum().backward()  # a gradient of 1, 1
    if rank == 1:  # rank 0 does not use the branch
        branched["branch"](torch.full((1, 2), 10.0)).sum().backward()  # a gradient of 10, 10
    try:
        average_gradients(branched)
        found = {
            name: layer.weight.grad if layer.weight.grad is None else layer.weight.grad.tolist()
            for name, layer in branched.items()
        }
    except RuntimeError as error:
        found = f"no gradients, but a {type(error).__name__}"
    return gradient_of(model), n_calls, str(found)


one_process = small_model()
F.cross_entropy(one_process(IMAGES[:24]), LABELS[:24]).backward()
by_rank = launch(averaged_on_rank, 2, IMAGES[:24], LABELS[:24])
gradient, n_calls, _ = by_rank[0]
off = (gradient - gradient_of(one_process)).norm() / gradient_of(one_process).norm()
print(f"two ranks: the gradient is off by {off:.0%} from that of one process on the whole batch;", end=" ")
print(f"{n_calls} collective calls for {len(list(one_process.parameters()))} parameters")
print("a branch that only rank 1 uses (there its gradient is 10, the trunk's is 1 on both ranks):")
for rank, (_, _, found) in enumerate(by_rank):
    print(f"  afterwards on rank {rank}: {found}")

# %% nbgrader={"grade": true, "grade_id": "average_gradients", "locked": true, "schema_version": 3, "solution": false, "task": false, "points": 4}
check("average_gradients")

# %% [markdown]
# ## 3. "The rank with the fewest labels shouts loudest"
#
# > *From the data team:* not all digits have been labelled yet; the others are marked with -100, and the loss skips them.
# > On one process that works well. On several, a picture that has the only label on its rank pulls as hard as
# > sixteen pictures together on another one.
# >
# > *From the training log:* the loss that we log is not the one that a single process logs for the same pictures. When a
# > rank gets a batch without any label, it is `nan`.
#
# <details><summary>Hint 1: where to look</summary>
#
# Take two ranks, one with 3 labels and one with 1. Write down by how much each of the four losses is multiplied in the
# end. By how much should it be?
#
# </details>
#
# <details><summary>Hint 2: what to look at</summary>
#
# What does `F.cross_entropy` divide by, and what does `DistributedDataParallel` divide by after that? Lesson, sections
# *The mean of gradients* and *What DDP does for you*. For the log: *Metrics over all ranks*.
#
# </details>
#
# <details><summary>Hint 3: nearly there</summary>
#
# There are two things to repair, with the same cure: sums and counts can be added over ranks, means cannot. And what DDP
# divides by, you can multiply with beforehand.
#
# </details>


# %% nbgrader={"grade": false, "grade_id": "mean_loss_backward-code", "locked": false, "schema_version": 3, "solution": true, "task": false}
def mean_loss_backward(model, images, labels):
    """One forward and backward pass on all ranks; each calls this with its own batch. Returns the loss, a Python float.

    model: a classifier wrapped in `DistributedDataParallel`; its gradients are None. images: (n, D), labels: (n,) int64,
    with n >= 1. Pictures with the label -100 have no label, and do not count. n may differ from rank to rank, and so may
    the number of labels; a rank may have none at all, but there is at least one label among all ranks.

    The loss is the mean cross-entropy over all pictures of all ranks that have a label, each of them with the same
    weight: what one process would have computed with the batches of all ranks joined into one. Every rank returns this
    loss, and every rank's parameters have its gradient in `.grad`. Parameters and batch stay as they are.
    """
    total = F.cross_entropy(model(images), labels, reduction="sum")  # a label of -100 adds nothing
    n_labels = (labels != -100).sum()
    ### BEGIN SOLUTION P13
    n_everywhere = n_labels.clone()
    dist.all_reduce(n_everywhere)
    # the backward pass divides by the number of ranks
    (total * dist.get_world_size() / n_everywhere).backward()
    ### BUG
    # (total / n_labels).backward()
    ### END SOLUTION
    ### BEGIN SOLUTION P13
    sums = torch.stack([total.detach(), n_labels.to(total.dtype)])
    dist.all_reduce(sums)
    return (sums[0] / sums[1]).item()
    ### BUG
    # mean = total.detach() / n_labels
    # dist.all_reduce(mean)
    # return mean.item() / dist.get_world_size()
    ### END SOLUTION


# %%
def unequal_on_rank(rank, world_size, images, variants):
    found = []
    for labels in variants:
        model = DistributedDataParallel(small_model())
        loss = mean_loss_backward(model, share_of(rank, world_size, images), share_of(rank, world_size, labels))
        found.append((loss, gradient_of(model)))
    return found


COUNTS = (16, 4, 1, 0)  # of rank 1's 16 pictures, so many have a label
partly_labelled = []
for n_left in COUNTS:
    some_labels = LABELS[:32].clone()
    some_labels[1::2][n_left:] = -100
    partly_labelled.append(some_labels)
on_rank_0, _ = launch(unequal_on_rank, 2, IMAGES[:32], partly_labelled)
for n_left, some_labels, (found, gradient) in zip(COUNTS, partly_labelled, on_rank_0, strict=True):
    one_process = small_model()
    loss = F.cross_entropy(one_process(IMAGES[:32]), some_labels)
    loss.backward()
    expected = gradient_of(one_process)
    off = ((gradient - expected).norm() / expected.norm()).item()
    print(f"16 and {n_left:2} labels: loss {found:.4f} (one process: {loss.item():.4f}), gradient off by {off:.0%}")

# %% nbgrader={"grade": true, "grade_id": "mean_loss_backward", "locked": true, "schema_version": 3, "solution": false, "task": false, "points": 3}
check("mean_loss_backward")

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
# Three of the function's arguments are not used at all. The sampler needs two of them when it is made; the third has to
# be told to it before each epoch.
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

    The result depends on the arguments alone, whatever was drawn from random number generators before. Unless there are
    too few samples for it, another epoch, 0, 1, 2 and so on, means another order of the samples and other samples for
    each rank (with more than one rank); another seed with the same epoch does so, too.
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
# > *From the evaluation team:* we took the trained model of rank 0 and that of rank 1. They give different answers. Even
# > where all their weights are equal, as somebody has seen to in a copy, those with BatchNorm do.
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
# does for you* and *Accumulating without talking*. For the slow start: *A larger batch, another rate*. For the
# statistics of BatchNorm: *One rank writes, all ranks wait*.
#
# </details>
#
# <details><summary>Hint 3: nearly there</summary>
#
# There are four things to repair: an argument when the model is wrapped; the rate, for which the docstring has the rule;
# the block that keeps the ranks from talking, which decides in `forward` whether the next `backward` will; and what
# the last forward pass has written down on each rank, and nobody has sent since.
#
# </details>


# %% nbgrader={"grade": false, "grade_id": "train_on_ranks-code", "locked": false, "schema_version": 3, "solution": true, "task": false}
def train_on_ranks(model, batches, accumulate, lr):
    """Train for one epoch together with the other ranks; every rank calls this, inside a process group. Returns None.

    model: this rank's own new model, a plain module, with parameters and buffers that may differ from those on other
    ranks (so do the seeds), but the same layers on all of them. All parameters that are not frozen are used. It is
    trained in place: each rank's `model` itself has the trained parameters afterwards.

    batches: this rank's own list of (inputs, labels). All batches on all ranks have the same size; all ranks have the
    same number of them, a multiple of `accumulate`.

    All ranks start from the parameters and buffers of rank 0. Every `accumulate` batches make a step of plain gradient
    descent on the mean cross entropy of all these batches of all ranks. So, where layers treat each sample by itself, the
    result on all ranks is what one process would get from rank 0's model if each step were one large batch. Frozen
    parameters, and buffers that no layer changes, stay as they are on rank 0.

    Where layers keep statistics in buffers, as BatchNorm does, rank 0 makes them from its own batches; what the other
    ranks have meanwhile does not matter, but afterwards all ranks have those of rank 0.

    `lr` was tuned in one process, with the same size of batches and the same `accumulate`. It is adapted to the number
    of ranks by the linear rule: n times as many samples in a step, n times the rate.

    The ranks talk for each step, not for each batch: with the same number of steps, the number of collective calls that
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
    ### BEGIN SOLUTION P10
    for buffer in model.buffers():  # they have gone on since the last forward pass that sent them
        dist.broadcast(buffer, src=0)
    ### BUG
    # # each forward pass sends the buffers of rank 0 to all
    ### END SOLUTION


# %%
def new_model(seed):
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(64, 16), nn.Tanh(), nn.Linear(16, 10))


def loss_of(model):
    with torch.no_grad():
        return F.cross_entropy(model(IMAGES[:256]), LABELS[:256]).item()


def train_digits(rank, world_size, accumulate):
    """Train on this rank's half of 256 digits; the weights, the loss on all of them, calls, and a running mean."""
    model = new_model(seed=rank)  # each rank draws numbers of its own
    batches = in_batches(IMAGES[rank:256:world_size], LABELS[rank:256:world_size], 8)
    counts = [collectives_so_far()]
    train_on_ranks(model, batches, accumulate, lr=0.5)
    counts.append(collectives_so_far())
    train_on_ranks(new_model(seed=rank), batches, 1, lr=0.5)
    counts.append(collectives_so_far())
    normed = nn.Sequential(nn.BatchNorm1d(64), new_model(seed=0))
    train_on_ranks(normed, batches, accumulate, lr=0.5)
    calls = counts[1] - counts[0], counts[2] - counts[1]
    return model[0].weight.detach(), loss_of(model), calls, normed[0].running_mean


results = launch(train_digits, 2, 4)
apart = (results[0][0] - results[1][0]).abs().max().item()
print(f"after training, the weights of the two ranks are up to {apart:.4f} apart")
apart = (results[0][3] - results[1][3]).abs().max().item()
print(f"those of a model with BatchNorm, its running means: up to {apart:.4f} apart")
n_calls, n_calls_of_1 = results[0][2]
print(f"16 batches on each rank: {n_calls} collective calls for 4 steps of 4 batches, {n_calls_of_1} for 16 steps of 1")
print(f"loss on all 256 digits after the 4 steps: rank 0 {results[0][1]:.3f}, rank 1 {results[1][1]:.3f}")
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

    model: this rank's model, plain or wrapped in `DistributedDataParallel` (on all ranks alike); its layers may have any
    names, `module` included. batches: this rank's own list of (inputs, labels). Numbers and sizes of batches may differ
    from rank to rank, and a rank may have no batch at all; over all ranks there is at least one sample.

    Returns `{"loss": ..., "accuracy": ...}`, two Python floats that are the same on all ranks: the mean cross entropy and
    the share of right answers, over all samples of all ranks, each sample counting the same. The model that scores a
    sample is the one on its own rank as it is, in eval mode.

    Afterwards parameters, buffers, gradients and the mode of each module are as they were, on each rank. (No layer
    changes its buffers in eval mode.) The result comes whatever the ranks have to do: no rank waits for one that has
    fewer batches.
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


def score_wrapped(rank, world_size):
    """A wrapped model, and batches on rank 0 only."""
    batches = in_batches(IMAGES[300:340], LABELS[300:340], 20) if rank == 0 else []
    return evaluate(DistributedDataParallel(scored_model()), batches)["accuracy"]


try:  # ranks that wait in vain are ended after some seconds
    fate = f"{launch(score_wrapped, 2)[0]:.3f}"
except RanksError as error:
    fate = f"the ranks did not come back: {error}"
with torch.no_grad():
    n_right = (scored_model().eval()(IMAGES[300:420]).argmax(dim=1) == LABELS[300:420]).sum().item()
print(f"the same 120 digits, scored by one process: accuracy {n_right / 120:.3f}")
for (first, second), on_rank_0, on_rank_1 in zip(divisions, results[0][0], results[1][0], strict=True):
    print(
        f"{first:3} of them on rank 0, {second:2} on rank 1: {on_rank_0:.3f} says rank 0, {on_rank_1:.3f} says rank 1"
    )
print("a wrapped model, and nothing to score on rank 1:", fate)
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

    model: plain or wrapped in `DistributedDataParallel` (on all ranks alike); its layers may have any names, `module`
    included. `torch.load(path)` gives the `state_dict` of the plain model, with its names, and the parameters and
    buffers that rank 0 has.

    path: a string, the file on rank 0's disk; its folder is there. On other ranks, which may have disks of their own, no
    file is written, changed or removed, whatever their `path`. A file that was at `path` before is replaced as a whole:
    at every moment there is either the old file, complete, or the new one, complete, even if the job is stopped or
    saving fails halfway. After a call that went well, nothing else is left in the folder.

    No rank returns before the new file is complete. Where saving fails, rank 0 raises; what becomes of the others then
    is not promised.
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

# %% [markdown]
# ## 8. "But the ranks agreed with each other"
#
# There was a test of the averaging. It asked whether all ranks have the same gradients afterwards, and they had. It is
# below.
#
# `check_averaging(average, rank, world_size)` is called on every rank of a group, with one and the same implementation
# of gradient averaging. It returns on every rank if the implementation keeps the promise of the docstring, and raises on
# at least one of them (an `assert` will do) if not. It will be tried on right ones of many kinds, and on wrong ones; in
# groups of two ranks and of three.
#
# <details><summary>Hint 1: where to look</summary>
#
# Which of the bugs of section 2 would leave ranks that agree with each other?
#
# </details>
#
# <details><summary>Hint 2: what to look at</summary>
#
# You choose the gradients of all ranks, so each rank can work out for itself what has to come out. What would make
# two different mistakes look the same? Lesson, section *A test for many ranks*.
#
# </details>
#
# <details><summary>Hint 3: nearly there</summary>
#
# More than one parameter; gradients that differ from rank to rank and from parameter to parameter; one that is missing on
# one rank; one that is frozen; and numbers, not agreement.
#
# </details>


# %% nbgrader={"grade": false, "grade_id": "check_averaging-code", "locked": false, "schema_version": 3, "solution": true, "task": false}
def check_averaging(average, rank, world_size):
    """Raise an exception on at least one rank unless `average` brings the gradients of all ranks together rightly.

    Called on every rank of a group of two or more, which is set up. `average(model)`, called on every rank with models
    of the same make, is right if afterwards, to within rounding errors, `.grad` of every trainable parameter is, on
    every rank, the mean over all ranks of what it was, where None counts as zeros; and the values of all parameters are
    as before, and so is `.grad` of frozen ones, whatever it was. Nothing else is asked of it: what it returns, how often
    the ranks talk, and whether `.grad` is the same tensor as before are its own affair.

    Right ones work for any small model with float32 parameters that is on the CPU. Implementations that stand still for
    ever are not tried.
    """
    ### BEGIN SOLUTION P9
    model = nn.Sequential(nn.Linear(3, 2), nn.Linear(2, 1))
    frozen = model[1].bias.requires_grad_(False)
    parameters = list(model.parameters())
    generator = torch.Generator().manual_seed(0)  # so that each rank knows what the others have
    gradients = [[torch.randn(p.shape, generator=generator) for p in parameters] for _ in range(world_size)]
    gradients[0][1] = None
    for p, gradient in zip(parameters, gradients[rank], strict=True):
        p.grad = None if gradient is None else gradient.clone()
    values = [p.detach().clone() for p in parameters]

    average(model)

    for number, p in enumerate(parameters):
        of_ranks = [torch.zeros_like(p) if of_rank[number] is None else of_rank[number] for of_rank in gradients]
        expected = gradients[rank][number] if p is frozen else sum(of_ranks) / world_size
        assert p.grad is not None, f"parameter {number} has no gradient"
        assert torch.allclose(p.grad, expected, atol=1e-6), f"parameter {number} has another gradient than expected"
        assert torch.equal(p, values[number]), f"parameter {number} has another value than before"
    ### BUG
    # model = nn.Linear(3, 2)
    # for p in model.parameters():
    #     p.grad = torch.full_like(p, rank + 1.0)
    # average(model)
    # for p in model.parameters():
    #     of_ranks = [torch.empty_like(p) for _ in range(world_size)]
    #     dist.all_gather(of_ranks, p.grad)
    #     assert all(torch.equal(p.grad, other) for other in of_ranks), "the ranks do not agree"
    ### END SOLUTION


# %%
def sums_up(model):
    """Forgets to divide."""
    for p in model.parameters():
        if p.requires_grad:
            p.grad = torch.zeros_like(p) if p.grad is None else p.grad
            dist.all_reduce(p.grad)


def tried_on_rank(rank, world_size):
    try:
        check_averaging(sums_up, rank, world_size)
    except Exception as error:
        return f"says: {error}"
    return "finds nothing wrong"


for rank, verdict in enumerate(launch(tried_on_rank, 2)):
    print(f"An averaging that only sums: on rank {rank} the test {verdict}.")

# %% nbgrader={"grade": true, "grade_id": "check_averaging", "locked": true, "schema_version": 3, "solution": false, "task": false, "points": 3}
check("check_averaging")

# %% [markdown]
# ## All green?
#
# Then the sample is green. Save, and `pytest exercises` in a terminal runs the same checks on the saved file; a grade
# asks for the docstrings' promises in full. The habits to take along: know which numbers count over all machines; let all
# ranks make the same calls in the same order; add sums and counts over ranks, never means; and compare several ranks with
# one process on all of the data.
