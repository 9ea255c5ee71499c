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
# The lesson that goes with this exercise is [Several processes](../../course/ch07_ddp.ipynb); a failed check names the
# section to reread. Hints are folded away under each complaint; open them one at a time.

# %% nbgrader={"grade": false, "grade_id": "setup", "locked": true, "schema_version": 3, "solution": false, "task": false}
import contextlib
import copy
import os
import tempfile

import matplotlib.pyplot as plt
import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from autograder import check
from autograder.pictures import digits
from autograder.ranks import launch

torch.set_num_threads(1)  # networks as small as these lose time by sharing the work between cores

# %% [markdown]
# ## What is given
#
# `launch(function, world_size, *args)` runs `function(rank, world_size, *args)` in `world_size` processes, the *ranks*.
# They are members of one gloo group that has been set up, so `function` may use `torch.distributed` at once; it never
# calls `init_process_group` itself. The result is the list of what the ranks returned. Where ranks wait for each other
# in vain, `launch` ends them and says which rank was in which call.
#
# The digits are as in the chapters before: rows of 64 numbers from 0 to 1, and labels. `counted_collectives` tells how
# many calls in which ranks talk to each other were made inside a `with`. None of these is part of the exercise.

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


@contextlib.contextmanager
def counted_collectives():
    """Gives a list that grows by the name of each collective function of `torch.distributed` that is called."""
    names = [
        "all_gather",
        "all_gather_into_tensor",
        "all_gather_object",
        "all_reduce",
        "barrier",
        "broadcast",
        "reduce",
    ]
    calls, originals = [], {name: getattr(dist, name) for name in names}

    def counting(name):
        def call(*args, **kwargs):
            calls.append(name)
            return originals[name](*args, **kwargs)

        return call

    for name in names:
        setattr(dist, name, counting(name))
    try:
        yield calls
    finally:
        for name, original in originals.items():
            setattr(dist, name, original)


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
# the address? Which backend can do what? Lesson, section *Ranks, and how they meet*.
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

    Where any of the five variables is missing, raises a ValueError whose message has the names of all that are missing.
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
    have. Their gradients may have any layout in memory. Whether `.grad` is the same tensor as before does not matter.
    A parameter that occurs in two places in the model is one parameter.

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
    with counted_collectives() as calls:
        average_gradients(model)

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
    return gradient_of(model), len(calls), str(found)


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
    of the same make, is right if afterwards, to within rounding errors,
    `.grad` of every trainable parameter is, on every rank, the mean over all ranks of what it was, where None counts as
    zeros; and the values of all parameters are as before, and so is `.grad` of frozen ones, whatever it was.
    Nothing else is asked of it: what it returns, how often the ranks talk, and whether `.grad` is the same tensor as
    before are its own affair.

    Right ones work for any small model with float32 parameters that is on the CPU.
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
