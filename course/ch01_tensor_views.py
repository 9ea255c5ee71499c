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
# # Chapter 1: tensor views
#
# Many PyTorch bugs raise no error. The shapes fit, the loss goes down, and the data is wrong: a frame
# was changed behind its owner's back, a write went nowhere, pixels changed places. Nearly all of these
# come from one idea that is easy to learn once you have *seen* it: **a tensor is a way of looking at
# memory that it may share with others.**
#
# How to use this lesson: every section asks for a prediction. Make it before you run the cell. A wrong
# guess is the most useful thing that can happen to you here. Every claim in the text is checked by an
# `assert` in a cell close by, so you can change the numbers and see what still holds.

# %%
import io
import itertools
import statistics
import time
import warnings

import matplotlib.pyplot as plt
import torch
from explorers import style
from explorers.strided import Step, describe, explain, explore_strides, render_png, run_steps
from IPython.display import Image, display
from matplotlib.patches import Rectangle

from autograder.pictures import photograph

style.use_course_style()


def shares_storage(one, other):
    """Do two tensors lie on the same piece of memory?"""
    return one.untyped_storage().data_ptr() == other.untyped_storage().data_ptr()


def draw(shape, *steps):
    """Run the steps on a small arange tensor, print the facts and draw them."""
    state = run_steps(shape, steps)
    print(describe(state))
    display(Image(render_png(state), alt=explain(state)))


# %% [markdown]
# ## Storage, shape, stride, offset
#
# The numbers of a tensor lie in a **storage**: one flat row of slots. The tensor itself only says how
# to walk along that row:
#
# * **shape**: how many steps there are along each dimension,
# * **stride**: how many slots one step along each dimension moves,
# * **offset**: the slot of the first element.
#
# **Predict:** `x` below has shape `(3, 4)` and lies on 12 slots in reading order. How many slots do
# you move to get to the next *row*? And in `x.T`, to get to the next row?

# %%
x = torch.arange(12).view(3, 4)
print("x  :", tuple(x.shape), "stride", x.stride(), "offset", x.storage_offset())
print("x.T:", tuple(x.T.shape), "stride", x.T.stride(), "offset", x.T.storage_offset())

assert x.stride() == (4, 1)
assert x.T.stride() == (1, 4)
assert shares_storage(x, x.T)

# %% [markdown]
# <details><summary>Answer</summary>
#
# Four slots in `x`, since a row has four elements. One slot in `x.T`. Transposing moved nothing: it
# swapped two numbers in the shape and two in the stride. The storage is the same one.
#
# </details>
#
# The slot of any element is `offset + index · stride`, and that is all there is to it:

# %%
part = x[1:, ::2]
row_stride, column_stride = part.stride()
storage = torch.arange(12)  # x was made by arange, so each slot holds its own number

for row, column in itertools.product(range(2), range(2)):
    slot = part.storage_offset() + row * row_stride + column * column_stride
    assert part[row, column] == storage[slot]

print("x[1:, ::2] has shape", tuple(part.shape), "stride", part.stride(), "offset", part.storage_offset())
assert (part.stride(), part.storage_offset()) == ((4, 2), 4)

# %% [markdown]
# Here is that slice, drawn over its storage. The upper row is the memory: a solid frame around the
# slots the tensor reaches, a dotted frame around those it skips. The arrows show one step along each
# dimension. The grid below is the tensor; every cell names the slot it looks at.

# %%
draw((3, 4), Step("slice", (0, 1, 3, 1)), Step("slice", (1, 0, 4, 2)))

# %% [markdown]
# Now play. Choose a starting tensor and up to two operations, and watch what changes: the storage, or
# only the way of walking along it. Try `permute`, then `contiguous`; then a slice of a slice.

# %%
explore_strides((3, 4), [Step("permute", (1, 0))])

# %% [markdown]
# ## What a view shares
#
# A tensor that lies on the storage of another is a **view** of it. A basic slice (`a:b`, `::2`, a
# single number, `...`) is a view.
#
# **Predict:** we cut a strip off a photograph and darken *the strip*. What happens to the photograph?

# %%
photo = photograph(0).clone()
untouched = photo.clone()
version_before = photo._version

strip = photo[-110:]
strip //= 3

figure, (left, right) = plt.subplots(1, 2)
left.imshow(untouched)
left.set_title("photo, before")
right.imshow(photo)
right.set_title("photo, after  strip //= 3")
for axes in (left, right):
    axes.set_axis_off()
print("Left: the photograph before. Right: after darkening the strip; its lowest quarter has gone dark.")
plt.show()

assert shares_storage(strip, photo)
assert torch.equal(photo[-110:], untouched[-110:] // 3)
assert torch.equal(photo[:-110], untouched[:-110])

# %% [markdown]
# <details><summary>Answer</summary>
#
# The photograph goes dark at the bottom. `strip` is not a piece of data of its own, it is a window onto
# the photograph's memory. Any in-place operation (`+=`, `//=`, `.mul_()`, `strip[...] = `) writes
# through the window.
#
# </details>
#
# The dangerous version of this hides inside a function: it takes a slice or a whole tensor, normalises
# it in place, returns it, and its caller's data has changed. Each tensor counts the writes to the
# memory it shares, which makes a handy detector. (The leading underscore means that PyTorch does not
# promise to keep this counter: use it to look around, not in a product.)

# %%
print("writes counted before:", version_before, " after:", photo._version)
assert photo._version == version_before + 1  # strip wrote, photo counted

copied = photo[-110:].clone()
copied //= 3
assert photo._version == version_before + 1  # a write to a clone is not counted
assert not shares_storage(copied, photo)

# %% [markdown]
# **Predict:** which of these share the storage of `x`, and which are copies? Cover the lower half of
# the cell before you look. One family is meant to surprise you.

# %%
x = torch.arange(12.0).view(3, 4)
views = {
    "x[1:, ::2]": x[1:, ::2],
    "x[0]": x[0],
    "x[..., 1]": x[..., 1],
    "x.T": x.T,
    "x.view(2, 6)": x.view(2, 6),
    "x.unsqueeze(0)": x.unsqueeze(0),
    "x.chunk(2)[0]": x.chunk(2)[0],
    "x.detach()": x.detach(),
    "x.float()": x.float(),
    "x.to('cpu')": x.to("cpu"),
    "x.contiguous()": x.contiguous(),
}
copies = {
    "x[[0, 2]]": x[[0, 2]],
    "x[x > 5]": x[x > 5],
    "x.clone()": x.clone(),
    "x.double()": x.double(),
    "x.repeat(2, 1)": x.repeat(2, 1),
    "torch.cat([x, x])": torch.cat([x, x]),
    "x + 0": x + 0,
}
print("same storage:", ", ".join(views))
print("a copy:      ", ", ".join(copies))

assert all(shares_storage(result, x) for result in views.values())
assert not any(shares_storage(result, x) for result in copies.values())
assert not shares_storage(strip.float(), strip)  # uint8: a copy
assert x.float() is x and x.to("cpu") is x and x.contiguous() is x

# %% [markdown]
# The surprise: **a conversion that has nothing to do returns its argument.** `x.float()` copies a uint8
# tensor, but a float32 tensor comes back as *the same object*. So "convert, then change in place" is
# harmless in the test with uint8 frames and rewrites the caller's data in production, where the frames
# are already floats. The same goes for `.to(...)` and `.contiguous()`.
#
# Indexing with a list or a mask copies; slicing does not.
#
# A view also keeps the *whole* storage alive, and `torch.save` writes the whole storage:


# %%
def saved_bytes(tensor):
    """Size of the file torch.save makes of a tensor."""
    file = io.BytesIO()
    torch.save(tensor, file)
    return file.tell()


corner = photograph(0)[:8, :8]
own = corner.numel() * corner.element_size()
held = corner.untyped_storage().nbytes()
print(f"the corner's elements take {own} bytes, but it holds {held} bytes in memory")
print(f"saved as it is: {saved_bytes(corner)} bytes, saved as a clone: {saved_bytes(corner.clone())} bytes")

assert own == 8 * 8 * 3
assert held == 427 * 640 * 3
assert saved_bytes(corner) > held > 100 * saved_bytes(corner.clone())

# %% [markdown]
# ## Contiguity and what it costs
#
# A tensor is **contiguous** if reading it in index order (last dimension fastest) walks its slots from
# left to right without a gap. A permuted tensor is usually not. `.contiguous()` gives you the same
# values in that order: it returns the tensor itself if nothing needs doing, and copies everything
# otherwise.
#
# **Predict**, for a stack of eight photographs with the channels in the last dimension:
#
# 1. How much memory does `permute` touch? And `permute(...).contiguous()`?
# 2. Is multiplying the *permuted* stack by 2 slower than multiplying a contiguous one?

# %%
stack = photograph(0).expand(8, -1, -1, -1).float()
assert stack.is_contiguous()  # .float() had to convert, so it wrote a tensor of its own
permuted = stack.permute(0, 3, 1, 2)
packed = permuted.contiguous()

assert stack.contiguous() is stack  # nothing to do: free
assert shares_storage(permuted, stack)  # a view: free
assert not shares_storage(packed, stack)  # a second copy of everything
assert packed.untyped_storage().nbytes() == stack.untyped_storage().nbytes()
print(f"permute: 0 bytes copied; .contiguous() after it: {packed.untyped_storage().nbytes():,} bytes copied")

# %% [markdown]
# Times depend on the machine and on what else it is doing, so we compare: both candidates run in turns,
# and we look at the middle one of the ratios.


# %%
def cost_ratio(candidate, baseline, rounds=11):
    """How many times as long as the baseline the candidate takes (median of runs in turns)."""
    candidate()  # the first run of each pays for setting things up
    baseline()
    ratios = []
    for _ in range(rounds):
        start = time.perf_counter()
        candidate()
        middle = time.perf_counter()
        baseline()
        ratios.append((middle - start) / (time.perf_counter() - middle))
    return statistics.median(ratios)


table = torch.rand(4096, 2048)
costs = {
    "multiply, permuted": cost_ratio(lambda: permuted * 2, lambda: packed * 2),
    "make contiguous,\nthen multiply": cost_ratio(lambda: permuted.contiguous() * 2, lambda: packed * 2),
    "sum of every 16th column": cost_ratio(lambda: table[:, ::16].sum(), lambda: table[:256].sum()),
}
assert table[:, ::16].numel() == table[:256].numel()  # as many elements, but spread over 16 times the memory

figure, axes = plt.subplots(figsize=(9, 3))
bars = axes.barh(list(costs), costs.values(), color=style.PALE_BLUE, edgecolor=style.INK, hatch=["", "//", "xx"])
axes.bar_label(bars, fmt="%.1f times", padding=6)
axes.axvline(1, color=style.ORANGE, linestyle="--")
axes.set_xlim(0, max(costs.values()) * 1.2)
axes.set_xlabel("cost, in multiples of the contiguous version (dashed: equal)")
axes.invert_yaxis()
for name, ratio in costs.items():
    print(f"{' '.join(name.split())}: {ratio:.1f} times the contiguous version")
plt.show()

multiply, pack_first, columns = costs.values()
assert 0.4 < multiply < 2.5
assert pack_first > 1.2 and pack_first > multiply
assert columns > 1.5

# %% [markdown]
# <details><summary>Answer</summary>
#
# 1. `permute` touches no pixel; `.contiguous()` after it writes every pixel again.
# 2. It takes about as long. Elementwise operations walk the memory in whichever order suits it, and
#    their result has the same strides as the input. Packing first only adds a copy.
#
# </details>
#
# Strides do matter to a reader that skips: memory arrives in lines of neighbouring bytes, so summing
# every 16th column pulls in many bytes that nobody asked for.
#
# So `.contiguous()` is neither a charm nor a sin. Ask *who needs the order*: `view` may, code outside
# of PyTorch may, and a tensor that is read again and again may be worth packing once. Most operations
# do not care. Even a convolution takes the permuted stack as it is; PyTorch knows that very layout by
# the name `channels_last`:

# %%
assert permuted.is_contiguous(memory_format=torch.channels_last)
assert (permuted * 2).stride() == permuted.stride()

kernel = torch.rand(2, 3, 3, 3)
from_view = torch.nn.functional.conv2d(permuted[:1], kernel)
from_copy = torch.nn.functional.conv2d(packed[:1], kernel)
assert torch.allclose(from_view, from_copy, rtol=1e-4)
print("the convolution of the permuted view equals that of the packed copy")

# %% [markdown]
# ## When reshape copies
#
# `view` gives a tensor another shape on the *same* storage, or refuses. `reshape` gives it another
# shape, as a view where that is possible and as a **copy** where it is not, and does not tell you
# which.
#
# **Predict:** the function below blackens the first two elements it sees. Which of the two tensors
# will have changed?


# %%
def blacken_start(tensor):
    """Set the first two elements to zero, in place... or so it seems."""
    tensor.reshape(-1)[:2] = 0


straight = torch.ones(3, 4)
turned = torch.ones(3, 4).T
blacken_start(straight)
blacken_start(turned)
print("zeros in straight:", int((straight == 0).sum()), "  zeros in turned:", int((turned == 0).sum()))

assert (straight == 0).sum() == 2
assert (turned == 0).sum() == 0  # the write went into a copy that nobody kept

# %% [markdown]
# <details><summary>Answer</summary>
#
# Only `straight`. The transposed tensor cannot be flattened by choosing one stride, so `reshape`
# copied, the zeros went into the copy, and the copy was thrown away. No error, no warning, and a
# unit test with a freshly made (contiguous) tensor passes.
#
# </details>
#
# Why can it not be flattened? Look at the slot numbers in the grid, row by row:

# %%
draw((3, 4), Step("permute", (1, 0)), Step("view", (12,)))

# %% [markdown]
# The slots are 0, 4, 8, then 1, 5, 9 and so on. No single stride makes that walk, and a
# tensor has only one stride per dimension. That is all the long message wants to say. The rule: two
# neighbouring dimensions can be merged without a copy if stepping once along the outer one equals
# walking all through the inner one. Let us hold the rule against torch itself:


# %%
def merges_without_copy(tensor, dim):
    """Can dimensions dim and dim + 1 become one without copying? (All sizes above 1.)"""
    return tensor.stride(dim) == tensor.stride(dim + 1) * tensor.shape[dim + 1]


block = torch.arange(4 * 6 * 8).view(4, 6, 8)
checked = 0
for source in (block, block[1:], block[:, ::2], block[..., 2:6], block[:, 1:3, :]):
    for order, dim in itertools.product(itertools.permutations(range(3)), (0, 1)):
        tensor = source.permute(order)
        assert merges_without_copy(tensor, dim) == shares_storage(tensor.flatten(dim, dim + 1), tensor)
        checked += 1
print(f"the rule agrees with torch in {checked} of {checked} layouts")

# %% [markdown]
# Two things to take home from the rule: being contiguous is enough, but it is not *necessary* (some
# reshapes of a slice are views), and *splitting* one dimension in two never needs a copy.

# %%
columns = block[..., 2:6]  # not contiguous
assert not columns.is_contiguous()
assert shares_storage(columns.reshape(24, 4), block)  # merging the outer two: a view
assert not shares_storage(columns.reshape(4, 24), block)  # merging the inner two: a copy
assert shares_storage(columns.reshape(4, 2, 3, 4), block)  # splitting: a view

try:
    columns.view(4, 24)
except RuntimeError as error:
    print("view says:", error)
else:
    raise AssertionError("view should have refused")

# %% [markdown]
# So the choice between the two is a statement about what you *mean*:
#
# * "I only read the result": `reshape`, it always works.
# * "I write through the result" or "this must not copy": `view`. It gives you an error today instead
#   of a lost write next month. Then either write through an index that needs no new shape, or make the
#   result something the function *returns*.
#
# Try to find a second step that is refused, and one that `reshape` accepts by copying (the table then
# says "storage of its own").

# %%
explore_strides((3, 4), [Step("permute", (1, 0)), Step("view", (12,))])

# %% [markdown]
# ## Permute is not view
#
# A photograph has shape (height, width, channel); most layers want the channel first. Two ways to get
# from `(427, 640, 3)` to `(3, 427, 640)` come to mind, and both run.
#
# **Predict:** what will the three "channels" of the second one look like?

# %%
photo = photograph(0)
moved = photo.permute(2, 0, 1)
recut = photo.view(3, 427, 640)
assert moved.shape == recut.shape == (3, 427, 640)

figure, grid = plt.subplots(2, 3, figsize=(9, 4.6))
for row, (name, picture) in zip(grid, {"permute": moved, "view": recut}.items(), strict=True):
    for number, axes in enumerate(row):
        axes.imshow(picture[number], cmap="gray", vmin=0, vmax=255)
        axes.set_title(f"{name}: channel {number}")
        axes.set_axis_off()
print("Upper row, permute: the whole temple three times, as red, green and blue see it.")
print("Lower row, view: three different pictures, the top, middle and bottom third, chopped into stripes.")
plt.show()

assert torch.equal(moved[1], photo[..., 1])  # channel 1 really is the green of every pixel
assert not torch.equal(recut[1], photo[..., 1])

# %% [markdown]
# <details><summary>Answer</summary>
#
# Stripes. `view` never moves a dimension: it keeps the reading order and cuts the same long row of
# numbers into pieces of another size. The first "channel" is simply the first third of the storage,
# the top of the photograph, with red, green and blue taking turns.
#
# </details>
#
# The rule:
#
# * `view` and `reshape` **cut**: they keep the reading order, and split or merge neighbouring dimensions.
# * `permute` and `transpose` **move**: they keep every element's coordinates, and change which one
#   comes first.
#
# No shape check can find this bug, since the shapes are right. A check on *content* does: moving a
# dimension leaves each channel's statistics alone.


# %%
def channel_means(picture, channel_dim):
    """Mean of each channel, as a list of floats rounded to two places."""
    others = [dim for dim in range(3) if dim != channel_dim]
    return [round(mean, 2) for mean in picture.double().mean(others).tolist()]


print("photograph:", channel_means(photo, 2))
print("permute:   ", channel_means(moved, 0))
print("view:      ", channel_means(recut, 0))

assert torch.equal(recut.flatten(), photo.flatten())  # view: the reading order stays
assert recut[0].flatten().tolist() == photo.flatten()[: 427 * 640].tolist()
assert channel_means(moved, 0) == channel_means(photo, 2)
assert channel_means(recut, 0) != channel_means(photo, 2)

# %% [markdown]
# Some jobs need both: first cut, then move. Stereo sound often comes as left, right, left, right; two
# separate tracks are one cut and one move away, and a cut alone gets it wrong.

# %%
samples = torch.tensor([1, -1, 2, -2, 3, -3, 4, -4])  # left ear positive, right ear negative
tracks = samples.view(4, 2).permute(1, 0)
wrong = samples.view(2, 4)
print("cut, then move:", tracks.tolist())
print("cut only:      ", wrong.tolist())

assert tracks.tolist() == [[1, 2, 3, 4], [-1, -2, -3, -4]]
assert wrong.tolist() == [[1, -1, 2, -2], [3, -3, 4, -4]]
assert shares_storage(tracks, samples)

# %% [markdown]
# ## Broadcasting
#
# When two shapes differ, PyTorch lines them up **from the right**, adds missing dimensions of size 1 on
# the left, and stretches every size 1 to fit.
#
# **Predict:** `prediction` has shape `(8, 1)`, as a last linear layer gives it; `truth` has shape `(8,)`.
# The prediction is *perfect*. What is the shape of the difference, and is the loss 0?

# %%
strips = photograph(0).float().mean(dim=(0, 2)) / 255  # brightness of each of the 640 columns
truth = strips.view(8, 80).mean(dim=1)
prediction = truth.view(8, 1)

difference = prediction - truth
loss = difference.square().mean()
print(f"shape of the difference: {tuple(difference.shape)}")
print(f"loss of the perfect prediction: {loss:.4f}")

assert difference.shape == (8, 8)
assert torch.allclose(loss, 2 * truth.var(correction=0), rtol=1e-4)
assert loss > 0

# %%
figure, axes = plt.subplots(figsize=(9, 4.6))
axes.imshow(difference.abs())
axes.set(xticks=range(8), yticks=range(8))
axes.set(xlabel="truth number", ylabel="prediction number", title="|prediction − truth|, in hundredths")
for row, column in itertools.product(range(8), range(8)):
    value = difference[row, column].abs().item()
    ink = "white" if value < difference.abs().max() / 2 else "black"
    axes.text(column, row, f"{100 * value:.0f}", ha="center", va="center", color=ink, fontsize=11)
    if row == column:
        axes.add_patch(Rectangle((column - 0.5, row - 0.5), 1, 1, fill=False, edgecolor="white", linewidth=3))
print("8 × 8 differences. The framed diagonal holds the 8 we meant, all 0; the other 56 compare strangers.")
plt.show()

assert difference.diagonal().abs().max() == 0

# %% [markdown]
# <details><summary>Answer</summary>
#
# The difference has shape `(8, 8)`: `(8,)` becomes `(1, 8)`, then both are stretched. The loss compares
# every prediction with every truth and comes out as twice the variance of the truth, even for a
# perfect model.
#
# </details>
#
# The nasty part is what such a loss *teaches*. It is at its lowest where every prediction equals the
# mean of all truths. The loss falls for a while and settles at a reasonable number, and the model
# has learnt to say the same thing about everything.

# %%
same_for_all = torch.full((8, 1), truth.mean().item(), requires_grad=True)
loss_at_mean = (same_for_all - truth).square().mean()
loss_at_mean.backward()

assert same_for_all.grad.abs().max() < 1e-6  # flat: training would stop here
assert loss_at_mean < loss  # and it beats the perfect prediction
print(f"loss if every prediction is the mean: {loss_at_mean:.4f}, of the perfect prediction: {loss:.4f}")

# %% [markdown]
# `mse_loss` at least warns; a loss written by hand does not. Make it a habit to state the shapes you
# expect where two tensors meet. And mind `squeeze()` without a dimension: it drops *every* size 1, also
# the batch, on the day the batch holds one element.

# %%
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    warned_loss = torch.nn.functional.mse_loss(prediction, truth)
assert torch.allclose(warned_loss, loss) and len(caught) == 1
print("mse_loss warns:", caught[0].message)

with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    (prediction - truth).square().mean()
assert not caught  # by hand: silence

assert torch.zeros(8, 1).squeeze().shape == (8,)
assert torch.zeros(1, 1).squeeze().shape == ()
assert torch.zeros(1, 1).squeeze(1).shape == (1,)

# %% [markdown]
# ## Expand repeats nothing
#
# Stretching a size of 1 costs no memory, and you can now guess how: the stride of the stretched
# dimension is **0**. Walking along it, you stay on the same slot. `expand` gives you such a tensor to
# keep.
#
# **Predict:** we expand one row to three and write into the *first* one. What do the others hold?

# %%
row = torch.zeros(4)
table = row.expand(3, 4)
table[0, 0] = 5
print(table)
print("stride:", table.stride(), "  bytes in the storage:", table.untyped_storage().nbytes())

assert table.stride() == (0, 1)
assert table[:, 0].tolist() == [5, 5, 5]
assert row[0] == 5
assert table.untyped_storage().nbytes() == 4 * 4  # four float32, not twelve

# %% [markdown]
# <details><summary>Answer</summary>
#
# The 5 shows in all three rows, and in `row` itself: there is only one row in memory.
#
# </details>
#
# Hatched slots are reached by more than one cell; the mark `x3` says by how many.

# %%
draw((4,), Step("expand", (3, 4)))

# %% [markdown]
# Does PyTorch not protect you? Sometimes. `add_` on the *whole* expanded tensor is refused, for
# example. Do not rely on it: indexing first gives a tensor whose own cells do not overlap, and that
# write goes through.

# %%
table = torch.zeros(4).expand(3, 4)
try:
    table.add_(1)
except RuntimeError as error:
    print("torch says:", error)
else:
    raise AssertionError("add_ should have been refused")

table[0] = torch.ones(4)  # one row, so it seems
assert table.sum() == 12  # accepted, and all three rows changed

# %% [markdown]
# So: expanded tensors are for reading. Before writing, ask for memory of your own, with `clone`
# (or with `repeat`, which copies from the start).

# %%
table = torch.zeros(4).expand(3, 4).clone()
table[0, 0] = 5
assert table[:, 0].tolist() == [5, 0, 0]
assert table.stride() == (4, 1)
assert torch.zeros(4).repeat(3, 1).untyped_storage().nbytes() == 3 * 4 * 4
print("after clone:", table.tolist())

# %%
explore_strides((4, 1), [Step("expand", (4, 3))])

# %% [markdown]
# ## Windows are views
#
# Moving averages, patches, clips of consecutive frames: many jobs look at overlapping windows. A Python
# loop that cuts and stacks them is slow and stores each element once per window. But a window is only
# "the same storage, a bit further on", so a clever choice of strides can express *all* windows at once.
# `tensor.unfold(dim, size, step)` makes that choice for you and puts the window in a new last dimension.
#
# **Predict:** for windows of 32 with a step of 1 over 640 numbers: how many windows are there, what are the
# two strides, and how many bytes of storage do they take?

# %%
windows = strips.unfold(0, 32, 1)
print("shape", tuple(windows.shape), " stride", windows.stride())

assert windows.shape == ((640 - 32) // 1 + 1, 32)
assert windows.stride() == (1, 1)
assert shares_storage(windows, strips)

stacked = torch.stack([strips[start : start + 32] for start in range(640 - 32 + 1)])
assert torch.equal(windows, stacked)

as_view, as_copy = windows.untyped_storage().nbytes(), stacked.untyped_storage().nbytes()
print(f"storage: {as_view:,} bytes as a view, {as_copy:,} bytes as a stack ({as_copy / as_view:.0f} times)")
assert as_view == 640 * 4
assert as_copy == 609 * 32 * 4

# %% [markdown]
# <details><summary>Answer</summary>
#
# 609 windows. Both strides are 1: the next window begins one slot further on, and so does the next
# element within a window. They take no storage of their own: 2,560 bytes, those of the 640 numbers.
#
# </details>
#
# In small, 12 numbers in windows of 4 with a step of 2 (mind the marks: the inner slots are shared):

# %%
draw((12,), Step("unfold", (0, 4, 2)))

# %%
ratio = cost_ratio(
    lambda: torch.stack([strips[start : start + 32].mean() for start in range(609)]),
    lambda: strips.unfold(0, 32, 1).mean(dim=1),
)
smooth = windows.mean(dim=1)

figure, axes = plt.subplots(figsize=(9, 3.6))
axes.plot(strips, linewidth=1.2, label="each column")
axes.plot(torch.arange(609) + 15.5, smooth, label="mean of 32 columns")
axes.set(xlabel="column of the photograph", ylabel="brightness (0 to 1)")
axes.legend()
print("Solid, jagged: brightness of each column. Dashed, smooth: the mean over windows of 32 columns.")
print(f"Here the Python loop takes {ratio:.0f} times as long as unfold.")
plt.show()

assert ratio > 2
assert smooth.diff().abs().mean() < strips.diff().abs().mean() / 2

# %% [markdown]
# Three warnings come with windows:
#
# 1. They overlap, so they are for reading, like everything that is expanded.
# 2. `reshape` and `contiguous` spell them out in full, and the saving is gone.
# 3. `as_strided` makes windows too, but takes your numbers on trust. It refuses to leave the storage,
#    and that is all: it does not know that *this* tensor walks in steps of 2, say. `unfold` works
#    with the strides the tensor really has.

# %%
assert windows.contiguous().untyped_storage().nbytes() == as_copy
assert not shares_storage(windows.reshape(-1), strips)

assert torch.equal(strips.as_strided((609, 32), (1, 1)), windows)  # right, for this tensor

every_other = strips[::2]
honest = every_other.unfold(0, 4, 1)
trusting = every_other.as_strided(honest.shape, (1, 1))  # the same numbers, now wrong
assert torch.equal(honest[5], every_other[5:9])
assert not torch.equal(trusting[5], every_other[5:9])

try:
    strips.as_strided((640, 32), (1, 1))
except RuntimeError as error:
    print("as_strided says:", error)
else:
    raise AssertionError("as_strided should have refused to leave the storage")

# %%
explore_strides((12,), [Step("unfold", (0, 4, 2))])

# %% [markdown]
# ## Summary
#
# | Symptom | Look at | Lesson section |
# |---|---|---|
# | You do not know what a tensor is | `shape`, `stride()` | Storage, shape, stride, offset |
# | Someone's data changed | slice or `.float()` before an in-place write | What a view shares |
# | Small tensor, huge file | `untyped_storage().nbytes()` | What a view shares |
# | Slow, `.contiguous()` everywhere | who needs the order? | Contiguity and what it costs |
# | "view size is not compatible..." | `stride()`: do you read or write? | When reshape copies |
# | A write that is lost for some inputs | `reshape` before the write | When reshape copies |
# | Shapes fit, pixels are scrambled | `view` where a dimension should *move* | Permute is not view |
# | The model predicts the mean | shape of the difference in the loss | Broadcasting |
# | One write changes many rows | a stride of 0 | Expand repeats nothing |
# | Slow loop over windows, much memory | `unfold`, bytes of the storage | Windows are views |
#
# Now it is your turn: the exercise is a small pipeline for video frames that runs and is wrong in
# several of these ways: [open the exercise](../exercises/ch01_tensor_views/ch01_tensor_views.ipynb).
