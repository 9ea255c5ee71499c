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
# # Chapter 7: distributed data parallel
#
# Training on several processes sounds simple: each takes a part of the batch, and they average their gradients. Then
# the job hangs without a word. Or it runs, and the numbers are not those of one process. Or all is right, and it is
# slower than before. This chapter goes through it in the order in which things go wrong.
#
# Some cells start real processes, which takes some seconds. Others use threads that behave like processes, so that we
# can look at who waits for whom. Make each prediction before you run the cell. What the text says is checked by an
# `assert` close by, so you can change the numbers and see what still holds.
#
# The first cell has only imports and small helpers. Run it, and look one up where it is used.
#
# Everything here runs on a CPU. Where GPUs differ, a line begins with **On GPUs**. Those lines come from torch's
# documentation and from reports of others: nothing in this lesson was tried on several GPUs.

# %%
import contextlib
import inspect
import io
import os
import pickle
import socket
import subprocess
import sys
import tempfile
import time
from datetime import timedelta
from itertools import chain
from pathlib import Path
from unittest import mock

import matplotlib.pyplot as plt
import torch
import torch.distributed as dist
import torch.nn.functional as F
from explorers.collectives import explore_collectives, render_png, run_program, run_ranks_as_threads, summary
from explorers.timing import JUST_NOW, cost_ratio
from IPython.display import Image, display
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler

from autograder import plotting
from autograder.pictures import digits
from autograder.ranks import launch

plotting.use_course_style()
torch.set_num_threads(1)  # networks as small as these only lose time by sharing the work between cores

images, labels = digits()  # (1797, 64) in 0..1 and (1797,)
train_x, train_y = images[:1200], labels[:1200]
test_x, test_y = images[1200:], labels[1200:]


def net_of(seed, width=32):
    """A small network for digits."""
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(64, width), nn.ReLU(), nn.Linear(width, 10))


def weights_of(net):
    """All parameters as one vector, a copy."""
    return torch.cat([parameter.detach().flatten() for parameter in net.parameters()])


def gradient_of(net):
    """All gradients as one vector, a copy."""
    return torch.cat([parameter.grad.flatten() for parameter in net.parameters()])


def step_by(net, gradient, lr):
    """Plain SGD with a gradient that is one vector."""
    nn.utils.vector_to_parameters(weights_of(net) - lr * gradient, net.parameters())


def gradient_on(x, y, net=None):
    """Gradient of the mean loss over these samples, for a network or at the weights of ``net_of(0)``."""
    net = net or net_of(0)
    net.zero_grad()
    F.cross_entropy(net(x), y).backward()
    return gradient_of(net)


def show(timeline):
    """A picture of ranks that ran as threads, and a line of text about it."""
    print("Picture:", summary(timeline))
    display(Image(render_png(timeline)))


def show_grid(axes, grid, **settings):
    """Draw zeros dark and ones light, with lines between the cells."""
    axes.imshow(grid, vmin=-0.2, vmax=1.2, aspect="auto")
    n_rows, n_columns = grid.shape
    axes.set(yticks=range(n_rows), **settings)
    axes.set_yticks([row - 0.5 for row in range(1, n_rows)], minor=True)
    axes.set_xticks([column - 0.5 for column in range(1, n_columns)], minor=True)
    axes.grid(which="minor", color=plotting.PAPER, linewidth=1)
    axes.tick_params(which="minor", length=0)


# %% [markdown]
# ## Ranks, and how they meet
#
# A distributed job is the *same script*, started several times. The processes tell themselves apart by a few numbers:
#
# * **world size**: how many processes there are, on all machines together
# * **rank**: the number of this process among all of them, from 0
# * **local rank**: its number among those *on its own machine*, from 0
#
# `torchrun` starts the script once per device, and hands these numbers to each process in its environment. On the first
# and on the second of two machines with two GPUs each we would call:
#
#     torchrun --nnodes 2 --nproc-per-node 2 --node-rank 0 --master-addr 10.0.0.1 --master-port 29500 train.py
#     torchrun --nnodes 2 --nproc-per-node 2 --node-rank 1 --master-addr 10.0.0.1 --master-port 29500 train.py
#
# The next cell does that, with one machine in both roles and a script that only says what it was told.
#
# **Predict:** the script says `device = f"cuda:{rank}"`, and each machine has `cuda:0` and `cuda:1`. Which of the four
# processes ask for a device that does not exist? Which would, if there was only the first machine?

# %%
ROLL_CALL = """
import os
names = ("GROUP_RANK", "RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE")
told = [os.environ[name] for name in names]
with open(f"told {told[1]}", "w") as file:
    file.write(" ".join(told))
"""


def torchrun(folder, script, *options):
    """Start torchrun on a script, as from a shell."""
    path = Path(folder) / "script.py"
    path.write_text(script)
    command = [sys.executable, "-m", "torch.distributed.run", *options, str(path)]
    environment = os.environ | {"USE_LIBUV": "0"}  # torch for Windows is built without libuv
    return subprocess.Popen(
        command, cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


with socket.socket() as any_free:
    any_free.bind(("127.0.0.1", 0))
    port = str(any_free.getsockname()[1])
meeting_point = ["--master-addr", "127.0.0.1", "--master-port", port]
with tempfile.TemporaryDirectory() as folder:
    two_each = ["--nnodes", "2", "--nproc-per-node", "2", *meeting_point]
    machines = [torchrun(folder, ROLL_CALL, *two_each, "--node-rank", str(number)) for number in range(2)]
    printed = [machine.communicate(timeout=100) for machine in machines]
    told = [[int(number) for number in path.read_text().split()] for path in sorted(Path(folder).glob("told *"))]

for machine, rank, local_rank, world_size, local_world_size in told:
    print(f"machine {machine}: rank {rank} of {world_size}, local rank {local_rank} of {local_world_size}")
missing = [rank for _, rank, _, _, local_world_size in told if rank >= local_world_size]
print("cuda:rank does not exist for ranks", missing)
assert [tuple(numbers[:3]) for numbers in told] == [(0, 0, 0), (0, 1, 1), (1, 2, 0), (1, 3, 1)], printed
assert missing == [2, 3]

# %% [markdown]
# <details><summary>Answer</summary>
#
# Ranks 2 and 3: all those of the second machine. On one machine rank and local rank are the same number, so the mistake
# waits there until the job grows. The device goes by the **local** rank. All that is split over the whole job (data,
# who saves) goes by the **rank**.
#
# **On GPUs:** pick the device before anything else, by `torch.cuda.set_device(local_rank)`. A process that picks none
# works on `cuda:0`, like all the others on its machine.
#
# </details>
#
# Before the processes can talk they must *meet*, in a **process group**. `init_process_group(backend)` reads the
# environment and waits at the address until the whole world is there. The backend is what carries the data: `gloo`
# between CPUs, `nccl` between NVIDIA GPUs.
#
# **Predict:** what does it do if a variable is missing? What if the world size is 2, and only one process comes? What
# if the backend is one that this machine cannot use? And what does `all_reduce`, a sum over all ranks, do to a tensor
# in a world of size 1?


# %%
def meet(world_size, backend="gloo", **others):
    """Try to join a group as rank 0, by torchrun's variables; what became of it."""
    told = {"RANK": "0", "LOCAL_RANK": "0", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "0"}  # any free port
    with mock.patch.dict(os.environ, told):  # puts everything back at the end
        os.environ.pop("WORLD_SIZE", None)
        if world_size:
            os.environ["WORLD_SIZE"] = world_size
        try:
            dist.init_process_group(backend, **others)
        except (ValueError, RuntimeError) as error:
            return f"{type(error).__name__}: {error}"
    return f"rank {dist.get_rank()} of {dist.get_world_size()}, by {dist.get_backend()}"


briefly = timedelta(seconds=1)
fates = [meet(None), meet("2", timeout=briefly)]
fates += [] if torch.cuda.is_available() else [meet("1", "nccl", timeout=briefly)]
fates += [meet("1")]
print(*fates, sep="\n")
total = torch.arange(3.0)
dist.all_reduce(total)
print("0, 1, 2 summed over a world of size 1:", total.tolist())
dist.destroy_process_group()

assert "ValueError" in fates[0] and "WORLD_SIZE" in fates[0] and "Timed out" in fates[1]
assert torch.cuda.is_available() or "NCCL" in fates[2]
assert fates[-1] == "rank 0 of 1, by gloo"
assert torch.equal(total, torch.arange(3.0))
assert [dist.get_default_backend_for_device(device) for device in ("cpu", "cuda")] == ["gloo", "nccl"]
assert dist.distributed_c10d.default_pg_timeout == timedelta(minutes=30)

# %% [markdown]
# <details><summary>Answer</summary>
#
# A missing variable is an error that names it, and so is a backend that is not there. A process that does not come is
# *not* an error for a long time: everyone waits, with `gloo` for half an hour unless you give `timeout=`. For those
# that wait, a process that looks for them at a wrong address is one that does not come. So a job that hangs before its
# first line of output has a wrong world size, a wrong address, or a process that died early.
#
# `torch.distributed.get_default_backend_for_device` knows which backend goes with which device, so a script that asks
# it runs on a laptop as well.
#
# In a world of size 1 a sum over all ranks changes nothing. Nearly every mistake in this chapter is invisible there.
# Test with two ranks, better with three.
#
# </details>
#
# ## Collectives, and who waits
#
# A **collective** is a call that all ranks make together: `all_reduce` (everyone gets the sum), `broadcast` (everyone
# gets one rank's value), `all_gather` (everyone gets all values), `barrier` (nobody gets anything, all just wait).
#
# To look at them, we run ranks as threads. Each talks through its `comm`; `comm.compute` keeps it busy for some steps.
#
# **Predict:** three ranks compute for 1, 2 and 4 steps. Then each gives 1, 10 or 100 to `all_reduce`. What does each
# rank get, and how long does each one wait?


# %%
def three_of_them(rank, world_size, comm):
    """Compute, then sum."""
    comm.compute("backward", steps=[1, 2, 4][rank])
    return comm.all_reduce([1, 10, 100][rank])


timeline = run_ranks_as_threads(three_of_them, 3)
print("each rank gets", timeline.values)
show(timeline)
assert timeline.values == (111, 111, 111)
assert [timeline.waited(rank) for rank in range(3)] == [3, 2, 0]

# %% [markdown]
# <details><summary>Answer</summary>
#
# All get 111, at the same time. The collective can only begin when the *last* rank has come. A job is as fast as its
# slowest rank.
#
# </details>
#
# Nothing in a collective says what it is *for*. The first call of one rank meets the first call of the others, the
# second the second. So all ranks must make **the same calls in the same order**.
#
# **Predict:** below, only rank 0 comes to the barrier: it stands inside `if rank == 0`. Who gets stuck, and what do the
# others do meanwhile? Move the slider to the end. Then choose "unequal numbers of batches": rank 0 has three batches,
# the others have two, and at the end all sum their hits. Who gets stuck there, and do the others get the right sum?

# %%
print("Explorer: ranks side by side, step by step; the line says who computes, who waits, and for whom.")
explore_collectives("barrier inside if rank == 0", world_size=3)

# %%
stuck, uneven = run_program("barrier inside if rank == 0", 3), run_program("unequal numbers of batches", 2)
print("barrier:", stuck.deadlock)
print("batches:", uneven.deadlock)
print("the last sum that took place was over", uneven.exchanges[-1].given, "- rank 1 returns", uneven.values[1])
assert stuck.deadlock.waits_for == {0: (1, 2)} and uneven.deadlock.waits_for == {0: (1,)}
assert uneven.exchanges[-1].given == (0.5, 20.0)  # a gradient and a number of hits
assert uneven.values == (None, 20.5)
together = run_program("stop together", 2)
assert not together.deadlock and together.values == (40.0, 40.0)

# %% [markdown]
# <details><summary>Answer</summary>
#
# Rank 0 waits for ever. The others load a file that is not complete, and finish as if all were well. With unequal
# batches, rank 0's third *gradient* meets rank 1's *hits*. Both are single numbers, so nobody objects: rank 1
# returns 20.5 hits. Then rank 0 sums its own hits, and nobody is left. Where a job hangs is rarely where it went wrong.
#
# </details>
#
# Step through "stop together" and "barrier after the if" to see two cures, and through "a slow rank".
#
# **On GPUs** it is harder to see. `nccl` works in the background: Python goes on after the call, and stands still
# where it next needs a number, say at `loss.item()`. After ten minutes, a watchdog ends the process.
#
# Threads are only a picture, so now one function on threads and on real processes. In a script, one starts them by
# `torchrun`, or from Python by `torch.multiprocessing.spawn(function, args, nprocs)` below a line
# `if __name__ == "__main__":`. Here, `launch` starts one process for each rank. At the end, only rank 0 calls a
# barrier, and rank 1 comes to its end meanwhile.
#
# **Predict:** do processes return the same weight as threads? Does the barrier hang here as well? And why not simply
# `spawn`: what travels to a new process if it is to run our function?


# %%
def mean_of_gradients(rank, world_size, comm):
    """Three steps on one weight, each rank with gradients of its own."""
    weight = 1.0
    for batch in range(3):
        comm.compute("backward")
        weight -= 0.1 * comm.all_reduce(float(rank + batch)) / world_size
    return weight


class Gloo:
    """The same calls for real processes. (torch's own all_reduce works in place, on tensors.)"""

    def compute(self, label):
        """Real work takes its time by itself."""

    def all_reduce(self, value):
        """The sum over all ranks."""
        tensor = torch.tensor(value, dtype=torch.float64)
        dist.all_reduce(tensor)
        return tensor.item()


def by_processes(rank, world_size):
    """The same function on a real rank, then a barrier that only rank 0 comes to."""
    weight = mean_of_gradients(rank, world_size, Gloo())
    try:
        if rank == 0:
            dist.barrier()
    except RuntimeError as error:
        return weight, str(error)
    return weight, ""


by_threads = run_ranks_as_threads(mean_of_gradients, 2).values
real = launch(by_processes, 2)
print("threads:  ", by_threads)
print("processes:", [weight for weight, _ in real])
print("rank 0 at the barrier:", real[0][1].partition(". ")[0])
parcel = pickle.dumps(by_processes)
print("what travels of a function:", parcel)
assert [weight for weight, _ in real] == list(by_threads) == [by_threads[0]] * 2
assert real[0][1] and not real[1][1]
assert b"__main__" in parcel and b"by_processes" in parcel and b"barrier" not in parcel

# %% [markdown]
# <details><summary>Answer</summary>
#
# The same weight. The barrier does not hang here, since rank 1 has *ended*: its connection closes, and gloo tells rank
# 0. So an error about a connection means: **look at the log of another rank**. Were rank 1 alive and busy with
# something else, rank 0 would wait until the timeout.
#
# Of a function only its *name* travels: "`by_processes` of `__main__`". The new process imports a script's `__main__`
# anew (so guard what it should not do again), but of a notebook it knows nothing: "Can't get attribute". `launch` sends
# the definitions along, on Linux, macOS and Windows alike. Without it, move the function to a file and import it.
#
# </details>
#
# ## The mean of gradients
#
# **Predict:** two ranks have half of a batch each, and each computes the gradient of the mean loss over its half. One
# process on the whole batch would get some gradient. Which equals it, the sum of the two halves' gradients, or their
# mean? With four ranks? And with two parts of 48 and 16 samples?

# %%
x, y = train_x[:64], train_y[:64]
whole = gradient_on(x, y)
off = {}
for sizes in ([32, 32], [16, 16, 16, 16], [48, 16]):
    parts = [gradient_on(*part) for part in zip(x.split(sizes), y.split(sizes), strict=True)]
    weighted = sum(size * part for size, part in zip(sizes, parts, strict=True)) / sum(sizes)
    for name, answer in {"sum": sum(parts), "mean": sum(parts) / len(parts), "weighted mean": weighted}.items():
        off[name, *sizes] = ((answer - whole).norm() / whole.norm()).item()
        print(f"{sizes} samples, {name:>13}: off by {off[name, *sizes]:.1%} of the length")
assert 0.99 < off["sum", 32, 32] < 1.01 and 2.99 < off["sum", 16, 16, 16, 16] < 3.01
assert off["mean", 32, 32] < 1e-5 and off["mean", 16, 16, 16, 16] < 1e-5 and off["mean", 48, 16] > 0.05
assert all(error < 1e-5 for (name, *_), error in off.items() if name == "weighted mean")

# %% [markdown]
# <details><summary>Answer</summary>
#
# The mean, if all ranks have equally many samples. The sum is twice as long on two ranks, four times on four: as if the
# learning rate grew with the number of ranks. With unequal numbers a mean of means is not the mean over all samples:
# each rank's part must count by its number of samples. That matters most for text, where it is *tokens* that count, and
# hardly any two ranks have equally many.
#
# </details>
#
# **Predict:** now the cost. A network has 40 small tensors of 100 numbers. How many times as long do 40 calls of
# `all_reduce` take as one call for a tensor of 4000 numbers? And one call for 10,000 numbers as one for 100?


# %%
def cost_of_calls(rank, world_size, lengths):
    """How long calls take: of each length against 100 numbers, and 40 calls for 100 against one for 4000."""

    def sums(length, n_calls=1):
        tensors = [torch.ones(length) for _ in range(n_calls)]
        return lambda: [dist.all_reduce(tensor.fill_(1)) for tensor in tensors]

    growth = [cost_ratio(sums(length), sums(100), rounds=20) for length in lengths]
    return growth, cost_ratio(sums(100, n_calls=40), sums(4000), rounds=20)


lengths = [1000, 10_000, 100_000, 1_000_000]
growth, forty = launch(cost_of_calls, 2, lengths)[0]
for length, times in zip(lengths, growth, strict=True):
    print(f"one call for {length:>9,} numbers: {times:5.1f} times as long as one for 100")
print(f"40 calls for       100 numbers: {forty:5.1f} times as long as one for 4000")
tensors = [torch.arange(3.0), torch.arange(4.0).view(2, 2)]
row = torch.cat([tensor.flatten() for tensor in tensors])  # one tensor, for one call
parts = [part.view_as(tensor) for part, tensor in zip(row.split([3, 4]), tensors, strict=True)]
assert all(torch.equal(part, tensor) for part, tensor in zip(parts, tensors, strict=True))
assert forty > 4, JUST_NOW.format(f"40 calls took {forty:.1f} times as long as one (expected: far more than 4)")
assert growth[1] < 20, JUST_NOW.format(f"10,000 numbers took {growth[1]:.1f} times as long (expected: less than 20)")

# %% [markdown]
# <details><summary>Answer</summary>
#
# Forty calls take many times as long, and a hundred times as many numbers cost hardly more. A call has a price of its
# own: messages have to go to all ranks and back. Only with very many numbers does their amount count. So put many small
# tensors into a few large ones, **buckets**, and make one call for each. `torch.cat` makes one row of them, and
# `row.split(lengths)` cuts it again afterwards.
#
# **On GPUs**, and between machines, the figures are others; what they say is the same.
#
# </details>
#
# **Predict:** a parameter that a rank has not used has no gradient there: `.grad` is `None`. Take three parameters,
# `a`, `b` and `c`, one call for each. Rank 1 has none for `b`, so it goes on to the next. What does rank 0 get for `b`?


# %%
def skip_the_missing(rank, world_size, comm):
    """One all_reduce per gradient; a rank skips those that it does not have."""
    gradients = {"a": 1.0, "b": 10.0 if rank == 0 else None, "c": 100.0}
    for name, gradient in gradients.items():
        comm.compute(name)
        if gradient is not None:
            comm.all_reduce(gradient)


timeline = run_ranks_as_threads(skip_the_missing, 2)
print("summed:", [exchange.given for exchange in timeline.exchanges], timeline.deadlock)
assert timeline.exchanges[1].given == (10.0, 100.0)
assert timeline.deadlock.waits_for == {0: (1,)}

# %% [markdown]
# <details><summary>Answer</summary>
#
# 110: its own `b` and rank 1's `c`. Then it waits for ever for a `c`. In a real network the two might have the same
# shape, and then nothing tells you. Whether a rank takes part in a collective must never depend on *its own* data. A
# rank with nothing to say says zero.
#
# </details>
#
# ## What DDP does for you
#
# `DistributedDataParallel(model)`, in short DDP, does three things: it sends rank 0's parameters and buffers to all
# ranks when it wraps the model; it puts the parameters into buckets; and it hangs a hook on each parameter, so that a
# bucket is averaged *during* `backward()`, as soon as its gradients are there.
#
# **Predict:** first, why the common start matters. Two ranks start from different weights, and take ten steps with the
# *same* averaged gradients. Do the weights come closer?


# %%
def distances_of(seeds):
    """How far two ranks' weights are apart, in ten steps with the mean of their gradients."""
    nets = [net_of(seed) for seed in seeds]
    distances = []
    for step in range(11):
        distances.append((weights_of(nets[0]) - weights_of(nets[1])).norm().item())
        parts = train_x[64 * step :].split(32), train_y[64 * step :].split(32)  # each rank takes another one
        mean = sum(gradient_on(*pair) for pair in zip(*parts, nets, strict=False)) / 2
        for net in nets:
            step_by(net, mean, 0.1)
    return distances


apart, together = distances_of([0, 1]), distances_of([0, 0])
print("distance, own starts:", [round(distance, 3) for distance in apart[::5]], "common start:", together[::5])
assert abs(apart[-1] - apart[0]) < 1e-3 * apart[0] and set(together) == {0.0}

# %% [markdown]
# <details><summary>Answer</summary>
#
# No. Both make the same steps, so they stay exactly as far apart as they were. Each rank trains a model of its own,
# with gradients that are right for neither.
#
# </details>
#
# Now the real DDP, on two processes that seed differently. A *communication hook* lets us note each bucket that is
# averaged, and how many numbers it holds.
#
# **Predict:** (1) are the weights equal after wrapping? (2) does a bucket wait for the end of backward? (3) each rank
# prints its loss: what do we read, and is it the loss of the whole batch? (4) what does backward average if forward
# went through `ddp.module`?


# %%
def noting(events):
    """A communication hook that averages as DDP does by itself, and notes the size of each bucket."""

    def hook(_, bucket):
        events.append(bucket.buffer().numel())
        shares = bucket.buffer() / dist.get_world_size()
        return dist.all_reduce(shares, async_op=True).get_future().then(lambda done: done.value()[0])

    return hook


def gradients_with_ddp(rank, world_size, x, y):
    """Start, events of backward, gradient and loss on this rank; the same if forward goes past the wrapper."""
    x, y = x.chunk(world_size)[rank], y.chunk(world_size)[rank]
    events = []
    ddp = DistributedDataParallel(net_of(seed=rank), bucket_cap_mb=0.001)  # tiny buckets, to see more than one
    ddp.register_comm_hook(None, noting(events))
    ddp.module[0].weight.register_hook(lambda _: events.append("first layer"))
    told = {"start": weights_of(ddp)}
    for _ in range(2):  # after the first step the buckets are arranged anew
        ddp.zero_grad()
        events.clear()
        loss = F.cross_entropy(ddp(x), y)
        loss.backward()
    print(f"loss {loss.item():.4f}")
    told |= {"gradient": gradient_of(ddp), "loss": loss.item(), "events": list(events)}
    ddp.zero_grad()
    events.clear()
    F.cross_entropy(ddp.module(x), y).backward()
    return told | {"past the wrapper": gradient_of(ddp), "events past it": list(events)}


first, second = launch(gradients_with_ddp, 2, x, y)
loss = F.cross_entropy(net_of(0)(x), y)
print(f"(1) weights equal: {torch.equal(first['start'], second['start'])}")
print(f"(2) what happens in backward: {first['events']}")
print(f"(3) loss of the whole batch: {loss.item():.4f}")
print(f"(4) past the wrapper: {first['events past it']}")
assert torch.equal(first["start"], second["start"]) and torch.equal(first["start"], weights_of(net_of(0)))
assert torch.equal(first["gradient"], second["gradient"])
torch.testing.assert_close(first["gradient"], gradient_on(x, y), rtol=1e-4, atol=1e-6)
sizes = [event for event in first["events"] if event != "first layer"]
assert sum(sizes) == len(first["start"]) and first["events"].index("first layer") > 0  # the last layer comes first
assert first["loss"] != second["loss"] and abs((first["loss"] + second["loss"]) / 2 - loss.item()) < 1e-5
assert first["events past it"] == ["first layer"]
assert not torch.allclose(first["past the wrapper"], second["past the wrapper"], atol=1e-3)

# %% [markdown]
# <details><summary>Answer</summary>
#
# 1. Yes, and all equal rank 0's. The averaged gradient is the one of a single process on the whole batch.
# 2. No. The last layer's bucket is on its way before the first layer has its gradient: talking hides behind computing.
# 3. A line from each rank, with the loss of its own share. Let one rank print, and print a number that was reduced.
# 4. Nothing at all. The hooks are prepared by the wrapper's forward. Past it, each rank keeps its own gradient.
#
# </details>
#
# **Predict:** (5) both ranks train a wrapped network with a BatchNorm: do their running statistics agree? And after one
# more forward, in eval mode? (6) what if a parameter takes no part in the loss? (7) can a plain network load the state
# of a wrapped one? (8) what becomes of the gradient if each rank multiplies its loss by the world size?


# %%
def the_rest_with_ddp(rank, world_size, x, y):
    """BatchNorm's statistics, a parameter that is not used, the names in the state, and a loss that is multiplied."""
    x, y = x.chunk(world_size)[rank], y.chunk(world_size)[rank]
    norm = DistributedDataParallel(nn.Sequential(nn.BatchNorm1d(64), nn.Linear(64, 10)))
    for _ in range(3):
        F.cross_entropy(norm(x), y).backward()
    told = {"statistics": norm.module[0].running_mean.clone(), "keys": list(norm.state_dict())}
    with torch.no_grad():
        norm.eval()(x)
    told["statistics after eval"] = norm.module[0].running_mean.clone()
    norm.module.train()(x)  # a section further down asks for what follows
    told["moved"] = norm.module[0].running_mean.clone()
    for buffer in norm.module.buffers():
        dist.broadcast(buffer, src=0)
    told["sent"] = norm.module[0].running_mean.clone()
    try:
        nn.SyncBatchNorm(64)(x)
    except ValueError as error:
        told["SyncBatchNorm"] = str(error)
    for find_unused in (False, True):
        net = net_of(0)
        net.register_parameter("unused", nn.Parameter(torch.zeros(3)))
        ddp = DistributedDataParallel(net, find_unused_parameters=find_unused)
        n_forwards, error = 0, "no error"
        try:
            for _ in range(3):
                n_forwards += 1
                F.cross_entropy(ddp(x), y).backward()
        except RuntimeError as raised:
            error = str(raised).partition(".")[0]
        told["found" if find_unused else "unused"] = f"{n_forwards} forwards, {error}"
    ddp = DistributedDataParallel(net_of(0))
    (world_size * F.cross_entropy(ddp(x), y)).backward()
    return told | {"times world size": gradient_of(ddp)}


first, second = launch(the_rest_with_ddp, 2, x, y)
print(f"(5) statistics differ by up to {(first['statistics'] - second['statistics']).abs().max():.4f},", end=" ")
print(f"after eval by {(first['statistics after eval'] - second['statistics after eval']).abs().max():.4f}")
print(f"(6) {first['unused']}; with find_unused_parameters: {first['found']}")
print(f"(7) keys: {', '.join(first['keys'])}")
times = (first["times world size"].norm() / gradient_on(x, y).norm()).item()
print(f"(8) the gradient is {times:.2f} times as long as that of one process")
assert not torch.allclose(first["statistics"], second["statistics"], atol=1e-3)
assert torch.equal(first["statistics after eval"], second["statistics after eval"])
assert torch.equal(first["statistics after eval"], first["statistics"])  # rank 0's
assert (
    first["unused"].startswith("2 forwards, Expected") and first["found"] == second["found"] == "3 forwards, no error"
)
plain = nn.Sequential(nn.BatchNorm1d(64), nn.Linear(64, 10))
assert first["keys"] == [f"module.{key}" for key in plain.state_dict()]
torch.testing.assert_close(first["times world size"], 2 * gradient_on(x, y), rtol=1e-4, atol=1e-6)

# %% [markdown]
# <details><summary>Answer</summary>
#
# 5. Not at first. DDP sends rank 0's buffers at the *beginning* of each forward, in eval mode too. In train mode the
#    forward then moves them, on each rank with other data.
# 6. An error, at the next forward: its bucket never got complete. Remove the parameter, use it, or say
#    `find_unused_parameters=True`, which costs a walk through the graph in every step.
# 7. No: its keys begin with `module.`. Save `ddp.module.state_dict()`.
# 8. It is the sum of the ranks' gradients. DDP sums up and divides by the world size, whatever your loss is. So if the
#    ranks' losses are not to weigh the same, multiply before `backward()`.
#
# **On GPUs:** first move the model to its device, then wrap it, with `device_ids=[local_rank]`.
#
# </details>
#
# And DDP does *not* split the data, adapt the learning rate, or average your metrics. The next sections do.
#
# ## Each sample once
#
# Which rank gets which samples is the business of the data loader, and of its `DistributedSampler`. It needs no process
# group if we tell it rank and world size, so we can look at all ranks from here.
#
# **Predict:** ten samples, three ranks. How often is each sample seen per epoch, without a sampler and with one? 10 is
# not divisible by 3.

# %%
n_samples, world_size = 10, 3
shares = {"no sampler": [list(range(n_samples)) for _ in range(world_size)]}
for name, drop_last in {"DistributedSampler": False, "with drop_last": True}.items():
    samplers = [DistributedSampler(range(10), 3, rank, shuffle=False, drop_last=drop_last) for rank in range(3)]
    shares[name] = [list(sampler) for sampler in samplers]

figure, panels = plt.subplots(1, 3, figsize=(11, 2.6), sharey=True)
seen = {}
for axes, (name, indices) in zip(panels, shares.items(), strict=True):
    grid = torch.zeros(world_size, n_samples)
    for rank, taken in enumerate(indices):
        grid[rank, taken] = 1
    seen[name] = list(chain(*indices))
    show_grid(axes, grid, title=name, xlabel="sample", ylabel="rank", xticks=range(n_samples))
    print(f"{name:>19}: " + ", ".join(f"rank {rank} {taken}" for rank, taken in enumerate(indices)))
plotting.show_figure(
    "Grids: light is taken. On the left all is light. In the middle, 0 and 1 are light twice. On the right, 9 is missing."
)
assert all(seen["no sampler"].count(sample) == 3 for sample in range(n_samples))
assert [seen["DistributedSampler"].count(sample) for sample in range(n_samples)] == [2, 2] + [1] * 8
assert sorted(seen["with drop_last"]) == list(range(9))
assert all(len({len(taken) for taken in indices}) == 1 for indices in shares.values())

# %% [markdown]
# <details><summary>Answer</summary>
#
# Without a sampler, three times: every rank does the whole work. An "epoch" is three epochs, and nothing is gained.
# With the sampler once, and two samples twice. All ranks must get *equally many* (you have seen why), so the sampler
# starts again from the beginning until the number divides. With `drop_last=True` it leaves out the rest. For training
# either is fine. For a metric it is not (see *Metrics over all ranks*).
#
# </details>
#
# Shuffling is the sampler's business now; a loader refuses `shuffle=True` beside it. It shuffles by `seed + epoch`, and
# the epoch has to be told.
#
# **Predict:** rank 0 goes through three epochs. Is the order the same, without and with `sampler.set_epoch(epoch)`? And
# what if only rank 0 tells its sampler the epoch?

# %%
for telling in (False, True):
    samplers = [DistributedSampler(range(9), 3, rank, seed=0) for rank in range(3)]
    orders = []
    for epoch in range(3):
        if telling:
            for sampler in samplers:
                sampler.set_epoch(epoch)
        orders.append([list(sampler) for sampler in samplers])
        assert sorted(chain(*orders[-1])) == list(range(9))  # each sample once, in every epoch
    print(f"{'with' if telling else 'no':>4} set_epoch, rank 0:", [order[0] for order in orders])
    assert (orders[0] == orders[1]) is not telling

lopsided = [DistributedSampler(range(9), 3, rank, seed=0) for rank in range(3)]
lopsided[0].set_epoch(1)  # rank 0 is an epoch ahead
taken = list(chain(*lopsided))
print("only rank 0 tells its epoch:", len(set(taken)), "different samples of 9")
assert len(set(taken)) < 9

told, seeded = DistributedSampler(range(9), 3, 0, seed=0), DistributedSampler(range(9), 3, 0, seed=1)
told.set_epoch(1)
assert list(told) == list(seeded)  # seed + epoch
try:
    DataLoader(range(9), sampler=told, shuffle=True)
    raise AssertionError("the loader was to shuffle as well")
except ValueError as error:
    print("shuffle beside a sampler:", error)

# %% [markdown]
# <details><summary>Answer</summary>
#
# Without it, the same order in every epoch, and each rank sees the same share for ever. Nothing reports it. With it,
# another order each time. All ranks have to tell the *same* epoch: they shuffle each for itself, and only the same seed
# and epoch make their shares fit together.
#
# </details>
#
# ## A larger batch, another rate
#
# The batch size of your loader is now that of *one rank*. With 8 ranks and 8 samples each, every step averages over 64
# samples, and an epoch has an eighth of the steps. DDP's gradient is that of one process on the whole batch, so one
# process can show what happens.
#
# **Predict:** after four epochs, where is the loss with 8 ranks and the old rate of 0.05, compared with one rank? And
# with 8 times the rate?


# %%
def losses_of(batch_size, lr, n_epochs=4):
    """Loss on the test digits after each epoch of plain SGD."""
    net = net_of(0)
    losses = [F.cross_entropy(net(test_x), test_y).item()]
    for epoch in range(n_epochs):
        order = torch.randperm(1200, generator=torch.Generator().manual_seed(epoch))
        for chosen in order.split(batch_size):
            step_by(net, gradient_on(train_x[chosen], train_y[chosen], net), lr)
        losses.append(F.cross_entropy(net(test_x), test_y).item())
    return losses


runs = {
    "1 rank, rate 0.05": losses_of(8, 0.05),
    "8 ranks, rate 0.05": losses_of(64, 0.05),
    "8 ranks, rate 0.4": losses_of(64, 0.4),
    "64 ranks, rate 3.2": losses_of(512, 3.2),
}
figure, axes = plt.subplots()
for name, losses in runs.items():
    axes.plot(losses, marker="o", label=name)
    print(f"{name:>18}:", ", ".join(f"{loss:.2f}" for loss in losses))
axes.set(xlabel="epochs", ylabel="loss on the test digits", xticks=range(5), ylim=(0, 4))
axes.legend(loc="center left", bbox_to_anchor=(1, 0.5))
plotting.show_figure(
    "Curves: 8 ranks with the old rate stay near the top. With 8 times the rate, their line lies on that of 1 rank. "
    "With 64 times the rate, 64 ranks learn nothing in these epochs; their line leaves the picture on the way."
)

one, old_rate, scaled, too_far = (losses[-1] for losses in runs.values())
assert old_rate > 2 * one and abs(scaled - one) < 0.2 * one and too_far > 2 * scaled

# %% [markdown]
# <details><summary>Answer</summary>
#
# With the old rate far behind: an eighth of the steps, none of them longer. With 8 times the rate about where one rank
# is. That is the **linear scaling rule**: the rate grows by the same factor as the samples per step. It is a rule of
# thumb for SGD, and it ends: 64 times the rate does not work. So check against a single process. (What people do beyond
# that: let the rate rise over the first steps, called warm-up, and take the square root of the factor for Adam.)
#
# </details>
#
# ## Accumulating without talking
#
# Accumulation means several calls of `backward()` before one `step()`. DDP averages in *each* backward. Only the last
# one needs it. `with ddp.no_sync():` switches it off.
#
# **Predict:** four micro-batches, one bucket. How many buckets are averaged per step if `no_sync()` stands, for all
# micro-batches but the last, around (a) nothing, (b) forward and backward, (c) backward only, (d) forward only? And is
# the gradient right each time?


# %%
def silence(ddp, quiet):
    """No averaging, if it is to be quiet."""
    return ddp.no_sync() if quiet else contextlib.nullcontext()


def accumulate(rank, world_size, x, y):
    """Buckets averaged and the gradient, for each place of no_sync."""
    x, y = x.chunk(world_size)[rank], y.chunk(world_size)[rank]
    told = {}
    for around in ("nothing", "both", "backward", "forward", "all four"):
        sizes = []
        ddp = DistributedDataParallel(net_of(0))
        ddp.register_comm_hook(None, noting(sizes))
        for number, (part_x, part_y) in enumerate(zip(x.split(8), y.split(8), strict=True)):
            quiet = number < 3 or around == "all four"
            with silence(ddp, quiet and around in ("both", "all four")):
                with silence(ddp, quiet and around == "forward"):
                    loss = F.cross_entropy(ddp(part_x), part_y) / 4
                with silence(ddp, quiet and around == "backward"):
                    loss.backward()
        told[around] = len(sizes), gradient_of(ddp)
    return told


accumulated = launch(accumulate, 2, x, y)
whole = gradient_on(x, y)
for around, (count, gradient) in accumulated[0].items():
    error = (gradient - whole).abs().max().item()
    print(f"no_sync around {around:>8}: {count} buckets averaged per step, gradient off by {error:.1e}")

assert {around: count for around, (count, _) in accumulated[0].items()} == {
    "nothing": 4,
    "both": 1,
    "backward": 4,
    "forward": 1,
    "all four": 0,
}
for around in ("nothing", "both", "backward", "forward"):
    torch.testing.assert_close(accumulated[0][around][1], whole, rtol=1e-4, atol=1e-6)
    assert torch.equal(accumulated[0][around][1], accumulated[1][around][1])
assert not torch.allclose(accumulated[0]["all four"][1], accumulated[1]["all four"][1], atol=1e-3)

# %% [markdown]
# <details><summary>Answer</summary>
#
# Four, one, four, one. The **forward** decides: there, DDP prepares its hooks for the backward that follows. Put
# `no_sync()` around both, so that nobody has to know. The gradient is right in all four. No test of numbers finds this
# mistake; only counting does, or a clock. The last row is a mistake that numbers do show: with `no_sync()` around the
# last micro-batch as well, nothing is ever averaged, and the ranks drift apart. That also happens at the end of an
# epoch, if the last group of micro-batches is short.
#
# </details>
#
# ## Metrics over all ranks
#
# **Predict:** rank 0 has 4 test samples and gets 3 right. Rank 1 has 3 and gets 1 right. Each computes its accuracy,
# then they average. What comes out, and what would one process say?


# %%
hits_of, count_of = [3, 1, 0], [4, 3, 0]  # a third rank has no samples at all


def mean_of_means(rank, world_size, comm):
    """Average the ranks' accuracies."""
    return comm.all_reduce(hits_of[rank] / count_of[rank]) / world_size


def sums_and_counts(rank, world_size, comm):
    """Sum hits and samples over all ranks, divide at the end."""
    hits, count = comm.all_reduce(torch.tensor([hits_of[rank], count_of[rank]])).tolist()
    return hits / count


print("mean of means: ", run_ranks_as_threads(mean_of_means, 2).values[0])
print("sums and counts:", [run_ranks_as_threads(sums_and_counts, n).values[0] for n in (2, 3)], "by 2 and by 3 ranks")
assert abs(run_ranks_as_threads(mean_of_means, 2).values[0] - (3 / 4 + 1 / 3) / 2) < 1e-12
assert all(run_ranks_as_threads(sums_and_counts, n).values == (4 / 7,) * n for n in (2, 3))

# %% [markdown]
# <details><summary>Answer</summary>
#
# 0.542 in place of 4/7 = 0.571. Add up hits and samples, over batches *and* ranks, and divide once, at the very end. It
# works for a rank without samples, too, as long as that rank takes part. Several sums fit into one tensor, so one
# collective is enough.
#
# </details>
#
# **Predict:** we validate on 597 digits, over 2, 4 and 8 ranks, with `DistributedSampler`. It makes the shares equal.
# Sums and counts are added up correctly. Is the accuracy the same for every world size?

# %%
trained = net_of(0)
for pair in zip(train_x.repeat(2, 1).split(20), train_y.repeat(2).split(20), strict=True):
    step_by(trained, gradient_on(*pair, trained), 0.2)
with torch.no_grad():
    right = trained(test_x).argmax(dim=1) == test_y  # per sample

n_right, n_all = int(right.sum()), len(right)
print(f"one process: {n_right} of {n_all}")
padded = {}
for world_size in (2, 4, 8):
    indices = [list(DistributedSampler(range(n_all), world_size, rank, shuffle=False)) for rank in range(world_size)]
    taken = torch.tensor(list(chain(*indices)))
    padded[world_size] = int(right[taken].sum()), len(taken)
    striped = [range(rank, n_all, world_size) for rank in range(world_size)]
    exact = sum(int(right[list(part)].sum()) for part in striped), sum(map(len, striped))
    print(f"{world_size} ranks, (right, all): {padded[world_size]} with padding, {exact} without")
    assert exact == (n_right, n_all)
assert [count for _, count in padded.values()] == [598, 600, 600]
assert all(hits - n_right == int(right[: count - n_all].sum()) for hits, count in padded.values())
nine = chain(*(DistributedSampler(range(9), 8, rank, shuffle=False) for rank in range(8)))
assert sorted(nine) == sorted([*range(9), *range(7)])

# %% [markdown]
# <details><summary>Answer</summary>
#
# No. The samples at the beginning are counted twice, as many as it takes. Here the error is small. With 9 samples on 8
# ranks, 7 of 16 are doubles. For validation give each rank every n-th sample without padding. Then the ranks have
# unequal numbers of batches, which is harmless as long as the loop itself holds **no collective**: the model goes in
# without its wrapper, and the sums meet once, after the loop.
#
# </details>
#
# ## One rank writes, all ranks wait
#
# Who saves? When may the others read? And what does a reader find if the writer is stopped half way?
#
# **Predict:** there is a checkpoint of step 1, and step 2 is to be saved. What can be loaded (a) if the process is
# stopped while it writes to the path directly, (b) if it writes to a file beside it, to be moved to the path at the
# end, (c) if rank 0 has written all of it, and rank 1, which saves as well, begins with the same path a moment later?


# %%
def what_is_there(path):
    """Load the checkpoint, if it is one."""
    try:
        return f"step {torch.load(path)['step']}"
    except (RuntimeError, EOFError, ValueError, OSError) as error:
        return f"nothing ({type(error).__name__})"


buffer, found = io.BytesIO(), {}
torch.save({"step": 2}, buffer)
whole_file, half = buffer.getvalue(), buffer.getvalue()[: buffer.tell() // 2]
with tempfile.TemporaryDirectory() as folder:
    path, beside = Path(folder) / "model.pt", Path(folder) / "model.part"
    for name, written in {"(a) directly": path, "(b) beside": beside}.items():
        torch.save({"step": 1}, path)
        written.write_bytes(half)  # stopped half way
        found[name] = what_is_there(path)
    beside.write_bytes(whole_file)
    os.replace(beside, path)
    found["(b) at the end"] = what_is_there(path)
    path.write_bytes(whole_file)
    with path.open("wb"):  # rank 1 opens the file, and has written nothing yet
        found["(c) by a second rank"] = what_is_there(path)
for name, loaded in found.items():
    print(f"{name:>20}: {loaded}")
assert found["(a) directly"].startswith("nothing") and found["(c) by a second rank"].startswith("nothing")
assert found["(b) beside"] == "step 1" and found["(b) at the end"] == "step 2"

# %% [markdown]
# <details><summary>Answer</summary>
#
# (a) Neither step: the old one is gone and the new one is torn. (b) The old one, and in the end the new one.
# `os.replace` is one action of the file system (within one disk), so a reader finds the old file or the new one, never
# half of one. (On Windows it fails while somebody has the old file open.) (c) Nothing again: whoever opens a file for
# writing empties it first. So **one rank** saves.
#
# </details>
#
# For the others to wait, a barrier comes after the writing, **outside** of the `if` (see the explorer). Next: *what* is
# written. Two ranks train a network with BatchNorm, on different digits. Gradients are averaged, so weights are equal.
#
# **Predict:** both ranks validate on the same test digits. Do they get the same loss?

# %%
torch.manual_seed(0)
with_norm = [nn.Sequential(nn.Linear(64, 32), nn.BatchNorm1d(32), nn.ReLU(), nn.Linear(32, 10)) for _ in range(2)]
with_norm[1].load_state_dict(with_norm[0].state_dict())
by_class = train_y.argsort(stable=True)  # each rank sees other digits: 0 to 4, or 5 to 9


def train_and_validate(rank, world_size, comm):
    """Some steps; then the loss on all test digits: as it is, and with the buffers of rank 0."""
    net = with_norm[rank]
    for step in range(20):
        chosen = by_class.chunk(world_size)[rank][step::20]
        step_by(net, comm.all_reduce(gradient_on(train_x[chosen], train_y[chosen], net)) / world_size, 0.1)
    same = torch.equal(*comm.all_gather(weights_of(net)))
    net.eval()
    with torch.no_grad():
        losses = [F.cross_entropy(net(test_x), test_y).item()]
        for buffer in net.buffers():
            buffer.copy_(comm.broadcast(buffer.clone()))
        losses.append(F.cross_entropy(net(test_x), test_y).item())
    return same, losses


(same, losses), (_, others) = run_ranks_as_threads(train_and_validate, 2).values
print(f"weights equal: {same}. Losses by rank 0 and 1: {losses[0]:.3f}, {others[0]:.3f};", end=" ")
print(f"with the buffers of rank 0: {losses[1]:.3f}, {others[1]:.3f}")
assert same and abs(losses[0] - others[0]) > 0.003
assert losses[1] == others[1] == losses[0]

# on the real ranks of *What DDP does for you*: `for buffer in norm.module.buffers(): dist.broadcast(buffer, src=0)`
print(f"real ranks: running means up to {(first['moved'] - second['moved']).abs().max():.4f} apart,", end=" ")
print(f"after a broadcast {(first['sent'] - second['sent']).abs().max():.4f}")
assert not torch.allclose(first["moved"], second["moved"], atol=1e-3)
assert torch.equal(first["sent"], second["sent"]) and torch.equal(first["sent"], first["moved"])  # rank 0's
print("SyncBatchNorm on these ranks:", first["SyncBatchNorm"])
assert "GPU" in first["SyncBatchNorm"]

# %% [markdown]
# <details><summary>Answer</summary>
#
# No: the weights are equal, the running statistics are not. A checkpoint of rank 0 is then another model than the one
# that rank 1 has validated. Decide whose buffers count, and send them to all ranks before you validate and save: on
# real ranks by `dist.broadcast(buffer, src=0)`, which overwrites `buffer` in place on all ranks but rank 0.
#
# **On GPUs** there is `SyncBatchNorm`, which goes further: it computes the statistics over all ranks, at the price of
# collectives in every forward. CPUs are refused.
#
# </details>
#
# **Predict:** to save time, only rank 0 validates, through the *wrapped* model. The others wait at a barrier. What
# happens, if the model has a BatchNorm?

# %%
timeline = run_program("rank 0 validates the wrapped model", 2)
show(timeline)
assert timeline.deadlock.calls == {0: "broadcast from 0", 1: "barrier"}

# %% [markdown]
# <details><summary>Answer</summary>
#
# Each waits for the other, for ever: the wrapper begins its forward with a broadcast of the buffers, as you have seen.
# Validate with `ddp.module`, in eval mode. It talks to nobody.
#
# </details>
#
# ## When more ranks are slower
#
# **Predict:** one step on a batch of 256, by one process, or by two with 128 each and averaged gradients. Take hidden
# layers of 16, 64, 256 and 1024. For which sizes are two processes faster than one? And the smallest network with 64
# times as many samples?


# %%
def step_times(rank, world_size, sizes, rounds=12):
    """Milliseconds per training step for each (width, samples): by one rank alone, and by all with equal shares."""

    def step_of(net, model, x, y):
        optimiser = torch.optim.SGD(net.parameters(), lr=0.01)

        def step():
            optimiser.zero_grad()
            F.cross_entropy(model(x), y).backward()
            optimiser.step()

        return step

    milliseconds = []
    for width, n in sizes:
        torch.manual_seed(0)
        layers = [nn.Linear(64, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(), nn.Linear(width, 10)]
        net = nn.Sequential(*layers)
        x, y, share = torch.rand(n, 64), torch.zeros(n, dtype=torch.long), n // world_size
        alone = step_of(net, net, x, y)
        together = step_of(net, DistributedDataParallel(net), x[:share], y[:share])
        fastest = [float("inf"), float("inf")]
        for _ in range(rounds):  # in turns, so that a busy moment harms both
            for i, step in enumerate([alone, together]):
                dist.barrier()  # all begin at the same time
                begin = time.perf_counter()
                if rank == 0 or step is together:
                    step()
                fastest[i] = min(fastest[i], time.perf_counter() - begin)
        milliseconds.append([1e3 * seconds for seconds in fastest])
    return milliseconds


widths = [16, 64, 256, 1024]
*plotted, many_samples = launch(step_times, 2, [*((width, 256) for width in widths), (16, 64 * 256)])[0]
one_process, two_processes = zip(*plotted, strict=True)
ratios = [two / one for one, two in [*plotted, many_samples]]
for width, (one, two), ratio in zip(widths, plotted, ratios, strict=False):
    print(f"width {width:>5}: one process {one:6.2f} ms, two {two:6.2f} ms, {ratio:.2f} times as long")
print(f"width    16, {64 * 256} samples: two processes take {ratios[-1]:.2f} times as long as one")

figure, axes = plt.subplots()
axes.loglog(widths, one_process, marker="o", label="one process")
axes.loglog(widths, two_processes, marker="s", label="two processes")
axes.set(xlabel="width of the hidden layers", ylabel="ms per step, 256 samples")
axes.set_xticks(widths, [str(width) for width in widths])
axes.minorticks_off()
axes.legend()
faster = [width for width, ratio in zip(widths, ratios, strict=False) if ratio < 1]
plotting.show_figure(
    "Curves: the line of two processes lies below that of one at these widths: "
    f"{faster or 'none, on this machine, just now'}."
)
assert ratios[0] > 1, JUST_NOW.format(f"small: two processes took {ratios[0]:.2f} times as long (expected: over 1)")
assert min(ratios[1:4]) < ratios[0], JUST_NOW.format(f"ratios: {ratios} (expected: the first is not the least of four)")
assert ratios[4] < ratios[0], JUST_NOW.format(f"ratios: {ratios} (expected: with more samples, less than the first)")

# %% [markdown]
# <details><summary>Answer</summary>
#
# For the small one, two processes are slower: half of very little is saved, and a collective costs what it costs. A
# larger network has more to save, but also more to send. More samples per rank only have more to save. Where two
# processes become faster than one, and whether they do at all, depends on your machine and on what else it is doing.
# So measure one process first. More samples per rank, fewer collectives (accumulation) or simply one process are honest
# answers.
#
# **On GPUs** computing is much faster, so networks have to be much larger before several are worth it.
#
# </details>
#
# ## The other ways to share the work
#
# **`nn.DataParallel`** is the older way: *one* process, one thread per GPU. In every forward, the first GPU sends the
# whole model to the others; in every backward, it gets all their gradients. In DDP each rank keeps its model, and the
# gradients go round in a ring: each rank passes a piece to its right neighbour, until all have the sum of every piece.
#
# **Predict:** a model of 100 MB. How much goes through the *busiest* GPU per step, in and out, on 2, 4, 8 and 16 GPUs?


# %%
def ring_all_reduce(rows):
    """What each rank ends with, and how many numbers each has sent, if all talk to their right neighbours only."""
    n = len(rows)
    pieces = [list(row.clone().chunk(n)) for row in rows]
    sent = [0] * n
    for turn in range(2 * (n - 1)):
        passed = [pieces[rank][(rank - turn) % n] for rank in range(n)]
        for rank, piece in enumerate(passed):
            theirs, number = pieces[(rank + 1) % n], (rank - turn) % n
            theirs[number] = theirs[number] + piece if turn < n - 1 else piece  # first sums, then whole sums
            sent[rank] += piece.numel()
    return [torch.cat(row) for row in pieces], sent


worlds, megabytes = (2, 4, 8, 16), 100
first_gpu = [2 * (n - 1) * megabytes for n in worlds]  # parameters out, gradients in
each_rank = []
for n in worlds:
    rows = [torch.full((160,), float(rank)) for rank in range(n)]
    results, sent = ring_all_reduce(rows)
    assert all(torch.equal(result, sum(rows)) for result in results) and len(set(sent)) == 1
    each_rank.append(2 * sent[0] / 160 * megabytes)  # out, and as much in
figure, axes = plt.subplots()
axes.plot(worlds, first_gpu, marker="o", label="DataParallel, first GPU")
axes.plot(worlds, each_rank, marker="s", label="ring, each rank")
axes.set(xlabel="GPUs", ylabel="MB in and out per step", xticks=worlds)
axes.legend()
plotting.show_figure(
    f"Curves: DataParallel needs {first_gpu} MB, more with each GPU. A ring needs {each_rank} MB: its line soon "
    "lies flat."
)
assert first_gpu == [200, 600, 1400, 3000] and each_rank == [200, 300, 350, 375]
assert "self.replicate(" in inspect.getsource(nn.DataParallel.forward)  # the model is sent in every forward

# %% [markdown]
# <details><summary>Answer</summary>
#
# Through the first GPU of `DataParallel` 200 MB and then ever more, through each rank of a ring less than 400 MB
# however many there are. And all threads of `DataParallel` share one Python interpreter. People report, for four GPUs,
# 1.8 times the speed of one against 3.4 times by DDP (not tried here). Use DDP, on a single machine as well.
#
# </details>
#
# **Model parallelism**: the model is too large for one device, so its layers are spread over several. Each layer's
# input has to be moved to where the layer is. (Below, the second device is torch's `meta`, so that it works without a
# GPU.) Only one device is busy at a time, as each waits for the one before it. A **pipeline** cuts the batch into
# micro-batches, so that several devices work at once.
#
# **Predict:** four devices, one layer each. What share of the time is a device busy with 1, 4 and 16 micro-batches?


# %%
def busy_share(n_stages, n_micro):
    """Share of the device steps that are busy, and which ones (stage, step)."""
    grid = torch.zeros(n_stages, n_stages + n_micro - 1)
    for stage in range(n_stages):
        grid[stage, stage : stage + n_micro] = 1  # each begins one step after the stage before it
    return grid.mean().item(), grid


figure, panels = plt.subplots(1, 3, figsize=(11, 2.6), sharey=True)
shares = []
for axes, n_micro in zip(panels, (1, 4, 16), strict=True):
    busy, grid = busy_share(4, n_micro)
    shares.append(busy)
    title = f"{n_micro} micro-batch{'es' * (n_micro > 1)}: {busy:.0%} busy"
    show_grid(axes, grid, title=title, xlabel="step", ylabel="device")
plotting.show_figure(
    f"Grids: light is busy, dark waits. The light part grows: {', '.join(f'{share:.0%}' for share in shares)}."
)
assert all(abs(busy - n / (n + 3)) < 1e-6 for busy, n in zip(shares, (1, 4, 16), strict=True))

lower, upper = nn.Linear(64, 32), nn.Linear(32, 10, device="meta")
try:
    upper(lower(x))
    raise AssertionError("the second layer is on another device")
except RuntimeError as error:
    print("without moving:", error)
assert upper(lower(x).to("meta")).shape == (64, 10)

# %% [markdown]
# <details><summary>Answer</summary>
#
# 25 %, 57 % and 84 %: `m / (m + n - 1)`. With one micro-batch four devices are as fast as one, they only hold more.
# Model parallelism is for models that do not fit. As long as yours fits, DDP is simpler, and no rank has to wait for
# its turn.
#
# </details>
#
# Whichever way, someone has to look after the processes. **torchrun** again: in the next cell, rank 1 dies in the first
# attempt, while rank 0 has work for minutes.
#
# **Predict:** what becomes of rank 0? With `--max-restarts 1`, who is started again, and where does it begin?

# %%
DYING = """
import os, sys, time
rank, attempt = int(os.environ["RANK"]), int(os.environ["TORCHELASTIC_RESTART_COUNT"])
open(f"attempt {attempt}, rank {rank} begins", "w").close()
if attempt == 0:
    if rank == 0:
        time.sleep(600)
    while not os.path.exists("attempt 0, rank 0 begins"):
        time.sleep(0.01)
    sys.exit(1)
open(f"attempt {attempt}, rank {rank} is done", "w").close()
"""
with tempfile.TemporaryDirectory() as folder:
    process = torchrun(folder, DYING, "--standalone", "--nproc-per-node", "2", "--max-restarts", "1")
    printed = process.communicate(timeout=100)
    traces = sorted(path.name for path in Path(folder).glob("attempt *"))
print(*traces, sep="\n")
assert traces == [
    "attempt 0, rank 0 begins",
    "attempt 0, rank 1 begins",
    *(f"attempt 1, rank {rank} {what}" for rank in (0, 1) for what in ("begins", "is done")),
], printed
assert process.returncode == 0

# %% [markdown]
# <details><summary>Answer</summary>
#
# When one rank dies, torchrun ends *all* of them, so that none waits for it. Then it starts all anew, from the script's
# first line. Nothing is carried over: the script has to find its last checkpoint by itself.
#
# </details>
#
# ## A test for many ranks
#
# A test of distributed code runs on every rank, and it counts as failed if *any* rank objects. Here are five ways to
# average two gradients, `a` and `b`, and four tests.
#
# **Predict:** which test finds none of the wrong ones? Which wrong one passes the test that all ranks have the same?


# %%
def right(own, rank, n, comm):
    """The mean of each gradient."""
    return [comm.all_reduce(gradient) / n for gradient in own]


WAYS = {
    "right": right,
    "summed": lambda own, rank, n, comm: [comm.all_reduce(gradient) for gradient in own],
    "only the first": lambda own, rank, n, comm: [comm.all_reduce(own[0]) / n, *own[1:]],
    # all ranks take part, or the test would never end
    "only on rank 0": lambda own, rank, n, comm: (right(own, rank, n, comm), own)[rank > 0],
    "nothing": lambda own, rank, n, comm: own,
}


def passes(way, world_size, same_everywhere=False, compare="mean"):
    """Do all ranks accept what this way of averaging gives?"""

    def test(rank, world_size, comm):
        n = 1 if same_everywhere else rank + 1
        got = way([float(n), float(10 * n)], rank, world_size, comm)
        if compare == "each other":
            return all(other == got for other in comm.all_gather(got))
        ns = [1 if same_everywhere else other + 1 for other in range(world_size)]
        mean = sum(ns) / world_size  # what one process would get from all the data
        return got == [mean, 10 * mean]

    return all(run_ranks_as_threads(test, world_size).values)


TESTS = {
    "one rank": {"world_size": 1},
    "two ranks, equal data": {"world_size": 2, "same_everywhere": True},
    "two ranks agree": {"world_size": 2, "compare": "each other"},
    "two ranks, known mean": {"world_size": 2},
}
print(f"{'':>22}", *(f"{name:>15}" for name in WAYS))
caught = {}
for name, options in TESTS.items():
    verdicts = [passes(way, **options) for way in WAYS.values()]
    caught[name] = verdicts.count(False)
    print(f"{name:>22}", *(f"{'passes' if verdict else 'CAUGHT':>15}" for verdict in verdicts))
    assert verdicts[0]  # nobody objects to the right one
assert caught == {"one rank": 0, "two ranks, equal data": 1, "two ranks agree": 3, "two ranks, known mean": 4}
assert passes(WAYS["summed"], 2, compare="each other")

# %% [markdown]
# <details><summary>Answer</summary>
#
# One rank finds nothing at all. Equal data on all ranks finds only the sum: the mean of equal things is each of them,
# so even doing nothing passes. "They agree" misses the sum, which is equally wrong everywhere. Different data on each
# rank, and a mean that was worked out by other means, finds all four.
#
# </details>
#
# Think of what else may differ between ranks: a gradient that is missing on one of them, a rank with no data. And where
# a test compares ranks by a collective, all ranks must come to it, those that have found a mistake as well.
#
# ## Summary
#
# | Symptom | Look at | Lesson section |
# |---|---|---|
# | Hangs at the start; two processes, one device | world size, address, local rank, backend | Ranks, and how they meet |
# | Hangs later; a number is wrong shortly before | the calls of *each* rank, in order | Collectives, and who waits |
# | Steps too long; many small messages | division by the world size; number of calls | The mean of gradients |
# | Ranks drift apart | start, wrapper's forward, buffers | What DDP does for you |
# | An epoch takes as long as on one rank; same order again | the sampler and its epoch | Each sample once |
# | Learns more slowly with more ranks | samples per step, learning rate | A larger batch, another rate |
# | Accumulation gains nothing | collectives per step, `no_sync` | Accumulating without talking |
# | The metric depends on the number of ranks | sums and counts; padded samples | Metrics over all ranks |
# | Torn files; failed loads; validation that hangs | who writes, where the barrier is | One rank writes, all ranks wait |
# | More ranks, less speed | step time against model size | When more ranks are slower |
# | The first GPU is full, the others idle | `DataParallel`; the pipeline's gaps | The other ways to share the work |
# | A rank dies, all begin anew | who ends and starts them; checkpoints | The other ways to share the work |
# | All tests pass, the job is wrong | a world of two or three, different data | A test for many ranks |
#
# Now it is your turn: the exercise trains a digits classifier on several ranks. It runs, and it gains nothing:
# [open the exercise](../exercises/ch07_ddp/ch07_ddp.ipynb).
