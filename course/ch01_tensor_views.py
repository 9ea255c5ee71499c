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
# was changed although nobody meant to change it, a write got lost, pixels changed places. Nearly all of
# these come from one idea that is easy to learn once you have *seen* it: **a tensor is a way of looking
# at memory that it may share with others.**
#
# How to use this lesson: every section asks for a prediction. Make it before you run the cell. A wrong
# guess is the most useful thing that can happen to you here. Every claim in the text is checked by an
# `assert` in a cell close by, so you can change the numbers and see what still holds.

# %%
import itertools
import warnings

import matplotlib.pyplot as plt
import torch
from explorers.strided import Step, describe, explain, explore_strides, render_png, run_steps
from explorers.timing import JUST_NOW, cost_ratio
from IPython.display import Image, display
from matplotlib.patches import Rectangle

from autograder import plotting
from autograder.pictures import photograph

plotting.use_course_style()


def shares_storage(one, other):
    """Do two tensors lie on the same piece of memory?"""
    return one.untyped_storage().data_ptr() == other.untyped_storage().data_ptr()


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
# The slot of any element is `offset + index · stride`, and nothing else is needed to find it:

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
#
# Change the starting tensor or one of the two operations, and watch what changes: the storage, or only
# the way of walking along it. Try `permute`, then `contiguous`.

# %%
print(
    "Explorer: the tensor over the slots of its storage; the line and the table below the sliders say what each step did."
)
explore_strides((3, 4), [Step("slice", (0, 1, 3, 1)), Step("slice", (1, 0, 4, 2))])

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

strip = photo[-110:]
strip //= 3

figure, (left, right) = plt.subplots(1, 2)
left.imshow(untouched)
left.set_title("photo, before")
right.imshow(photo)
right.set_title("photo, after  strip //= 3")
for axes in (left, right):
    axes.set_axis_off()
plotting.show_figure(
    "Pictures: on the left the photograph before; on the right after darkening the strip: its lowest quarter is dark."
)

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
# **Predict:** which of these share the storage of `x`, and which are copies? Cover the lower half of
# the next cell before you look. The last three of the views surprise most people.

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
# harmless in the test with uint8 frames and overwrites the caller's data in production, where the frames
# are already floats. The same goes for `.to(...)` and `.contiguous()`.
#
# Indexing with a list or a mask copies; slicing does not. A view, however small, also keeps the *whole*
# storage in memory.
#
# The damage is usually done inside a function that cleans up its input and returns it.
#
# **Predict:** both functions below subtract the mean and return the same numbers. We give each of them
# two rows of a table. What does the table hold afterwards?


# %%
def centre_by_minus_equals(rows):
    """Rows minus their mean, with -= ."""
    rows -= rows.mean()
    return rows


def centre_by_minus(rows):
    """Rows minus their mean, with - ."""
    rows = rows - rows.mean()
    return rows


ones_and_threes = torch.tensor([[1.0, 3.0], [1.0, 3.0], [1.0, 3.0]])
for centre in (centre_by_minus, centre_by_minus_equals):
    table = ones_and_threes.clone()
    centred = centre(table[:2])
    print(f"{centre.__name__:>22} returned {centred.tolist()}, the table is now {table.tolist()}")

    assert centred.tolist() == [[-1, 1], [-1, 1]]
    assert shares_storage(centred, table) == (centre is centre_by_minus_equals)
    assert torch.equal(table, ones_and_threes) == (centre is centre_by_minus)

# %% [markdown]
# <details><summary>Answer</summary>
#
# With `-=` the table has changed: it wrote into the memory of the slice, which is the table's. With `-`
# it has not: `rows - rows.mean()` makes a **new** tensor, and `rows = ` only gives the name to it.
#
# </details>
#
# So the simplest cure is not a copy but plain arithmetic: it makes a new tensor anyway. `clone()` is for
# the case where you need to *write* into a part of a tensor. `detach()` is no cure, it is a view too: it
# only stops the gradient.

# %%
table = ones_and_threes.clone()
own = table[:2].clone()
own[0, 0] = 100  # a write that needs memory of its own
assert torch.equal(table, ones_and_threes)

weights = torch.ones(3, requires_grad=True)
plain = weights.detach()
assert shares_storage(plain, weights) and not plain.requires_grad
plain[0] = 7
assert weights[0] == 7  # the write went through

corner = photograph(0)[:8, :8]
held = corner.untyped_storage().nbytes()
print(f"the corner's elements take {corner.nbytes} bytes, but it keeps {held:,} bytes in memory")
assert corner.nbytes == 8 * 8 * 3 and held == 427 * 640 * 3
assert corner.clone().untyped_storage().nbytes() == corner.nbytes

# %% [markdown]
# ## Contiguity and what it costs
#
# A tensor is **contiguous** if reading it in index order (last dimension fastest) walks its slots from
# left to right without a gap. A permuted tensor is usually not. `.contiguous()` gives you the same
# values in that order: it returns the tensor itself if nothing needs doing, and copies everything
# otherwise.
#
# **Predict**, for a stack of four photographs with the channels in the last dimension:
#
# 1. How much memory does `permute` touch? And `permute(...).contiguous()`?
# 2. Is multiplying the *permuted* stack by 2 slower than multiplying a contiguous one?
#
# The first question can be counted, the second must be measured. Times depend on the machine and on
# what else it is doing. So `cost_ratio` compares: both versions run in turns, on one thread, and of each
# it takes the fastest run, since other programs can only make a run slower.

# %%
stack = photograph(0).expand(4, -1, -1, -1).float()
assert stack.is_contiguous()  # .float() had to convert, so it wrote a tensor of its own
permuted = stack.permute(0, 3, 1, 2)
packed = permuted.contiguous()

assert stack.contiguous() is stack  # nothing to do: free
assert shares_storage(permuted, stack)  # a view: free
assert not shares_storage(packed, stack)  # a second copy of everything
assert packed.untyped_storage().nbytes() == stack.untyped_storage().nbytes()
print(f"permute: 0 bytes copied; .contiguous() after it: {packed.untyped_storage().nbytes():,} bytes copied")


# %%
table = torch.rand(4096, 2048)
assert table[:, ::16].numel() == table[:256].numel()  # as many elements, but spread over 16 times the memory

costs = {
    "multiply, permuted": cost_ratio(lambda: permuted * 2, lambda: packed * 2),
    "make contiguous,\nthen multiply": cost_ratio(lambda: permuted.contiguous() * 2, lambda: packed * 2),
    "sum of every 16th column": cost_ratio(lambda: table[:, ::16].sum(), lambda: table[:256].sum()),
}

figure, axes = plt.subplots(figsize=(9, 3))
bars = axes.barh(list(costs), costs.values(), color=plotting.PALE_BLUE, edgecolor=plotting.INK, hatch=["", "//", "xx"])
axes.bar_label(bars, fmt="%.1f times", padding=6)
axes.axvline(1, color=plotting.ORANGE, linestyle="--")
axes.set_xlim(0, max(costs.values()) * 1.2)
axes.set_xlabel("cost, in multiples of the contiguous version (dashed: equal)")
axes.invert_yaxis()
for name, ratio in costs.items():
    print(f"{' '.join(name.split())}: {ratio:.1f} times the contiguous version")
plotting.show_figure("Bars: the three costs above, as multiples; a dashed line marks equal cost, which is 1.")

multiply, pack_first, columns = costs.values()
assert 0.4 < multiply < 2.5, JUST_NOW.format(
    f"multiplying the permuted stack took {multiply:.2f} times as long as the contiguous one (expected: about 1)"
)
assert pack_first > 1.1, JUST_NOW.format(
    f"packing first took {pack_first:.2f} times as long as no packing (expected: clearly more than 1)"
)
assert columns > 1.5, JUST_NOW.format(
    f"every 16th column took {columns:.2f} times as long as as many neighbours (expected: clearly more than 1)"
)
assert (permuted * 2).stride() == permuted.stride()

# %% [markdown]
# <details><summary>Answer</summary>
#
# 1. `permute` touches no pixel; `.contiguous()` after it writes every pixel again.
# 2. It takes about as long. Elementwise operations walk the memory in whichever order suits it, and
#    their result has the same strides as the input. Packing first only adds a copy.
#
# </details>
#
# Strides do matter where an operation skips elements: memory arrives in blocks of neighbouring bytes, so
# summing every 16th column loads many bytes that are not used.
#
# So `.contiguous()` is not good or bad in itself. Ask *who needs the order*: `view` may, code outside of
# PyTorch may, and a tensor that is read again and again may be worth packing once. Most operations do
# not care.

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
    """Try to set the first two elements to zero, in place."""
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
# Why can it not be flattened? Look at the slot numbers in the grid, row by row. Then try to find a
# second step that is refused, and one that `reshape` accepts by copying (the table then says "storage
# of its own").

# %%
print("Explorer: a permuted tensor that cannot be flattened by view; the line says why, the table whose storage it is.")
explore_strides((3, 4), [Step("permute", (1, 0)), Step("view", (12,))])

# %% [markdown]
# The slots are 0, 4, 8, then 1, 5, 9 and so on. No single stride makes that walk, and a tensor has only
# one stride per dimension. That is all the long message wants to say. The rule: two neighbouring
# dimensions can be **merged** without a copy if one step along the outer one is as long as walking all
# through the inner one. Being contiguous is enough for that, but not *necessary*: some merges in a slice
# are views. **Splitting** a dimension in two never needs a copy. The next cell compares the rule with
# what torch does:


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

columns = block[..., 2:6]  # not contiguous
assert not columns.is_contiguous()
assert shares_storage(columns.reshape(24, 4), block)  # merging the outer two: a view
assert not shares_storage(columns.reshape(4, 24), block)  # merging the inner two: a copy
assert shares_storage(columns.reshape(4, 2, 3, 4), block)  # splitting: a view

# %% [markdown]
# Many jobs are a **cut, a move and a merge**. Say we want the 2 by 2 blocks of a small matrix, each as
# one row of four numbers: cut both dimensions in two, bring the two block numbers to the front, merge.
#
# **Predict:** which of the three steps copies? And does `matrix.view(8, 4)`, which has the shape that we
# want, do the same?

# %%
matrix = torch.arange(32).view(4, 8)
cut = matrix.view(2, 2, 4, 2)  # (block row, row in the block, block column, column in the block)
moved = cut.permute(0, 2, 1, 3)  # (block row, block column, row in the block, column in the block)
merged = moved.reshape(8, 4)  # (block, number in the block)

for name, tensor in {"cut": cut, "move": moved, "merge": merged}.items():
    kind = "a view" if shares_storage(tensor, matrix) else "a copy"
    print(f"{name:>5}: shape {tuple(tensor.shape)!s:>12}  stride {tensor.stride()!s:>13}  {kind}")
print("first two blocks:    ", merged[:2].tolist())
print("matrix.view(8, 4)[:2]:", matrix.view(8, 4)[:2].tolist())

assert shares_storage(cut, matrix) and shares_storage(moved, matrix)
assert not shares_storage(merged, matrix)
assert merged[:2].tolist() == [[0, 1, 8, 9], [2, 3, 10, 11]]
assert matrix.view(8, 4)[:2].tolist() == [[0, 1, 2, 3], [4, 5, 6, 7]]
assert not merges_without_copy(moved, 0) and not merges_without_copy(moved, 2)

try:
    moved.view(8, 4)
except RuntimeError as error:
    print("view says:", error)
else:
    raise AssertionError("view should have refused")

# %% [markdown]
# <details><summary>Answer</summary>
#
# Only the merge copies. The cut splits dimensions and the move swaps strides, but after the move the
# numbers of one block are no longer evenly spaced in memory. This copy cannot be avoided, and one is
# enough. `matrix.view(8, 4)` only cuts: its rows are halves of matrix rows, not blocks.
#
# </details>
#
# So the choice between the two is a statement about what you *mean*:
#
# * "I only read the result": `reshape`, it always works.
# * "I write through the result" or "this must not copy": `view`. It gives you an error today instead
#   of a lost write next month. Then either write through an index that needs no new shape, or make the
#   result something the function *returns*.

# %% [markdown]
# ## Permute is not view
#
# A photograph has shape (height, width, channel); most layers want the channel first. There are two
# calls that turn shape `(427, 640, 3)` into `(3, 427, 640)`, and both run without an error.
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
plotting.show_figure(
    "Pictures: in the upper row, permute, the whole temple three times, as red, green and blue see it. "
    "In the lower row, view, three different pictures: the top, middle and bottom third, cut into stripes."
)

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
# dimension does not change the mean of a channel.


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
plotting.show_figure(
    "Grid: 8 × 8 differences. The framed diagonal holds the 8 we meant, all 0. The other 56 compare a prediction "
    "with the truth of another element."
)

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
# Training on such a loss teaches the model the wrong thing. The loss is lowest where every prediction
# equals the mean of all truths. So it falls for a while and stops at a reasonable number, and the model
# has learnt to predict the same value for everything.

# %%
same_for_all = torch.full((8, 1), truth.mean().item(), requires_grad=True)
loss_at_mean = (same_for_all - truth).square().mean()
loss_at_mean.backward()

assert same_for_all.grad.abs().max() < 1e-6  # flat: training would stop here
assert loss_at_mean < loss  # and it beats the perfect prediction
print(f"loss if every prediction is the mean: {loss_at_mean:.4f}, of the perfect prediction: {loss:.4f}")

# %% [markdown]
# `mse_loss` at least warns; a loss written by hand does not. Make it a habit to state the shapes you
# expect where two tensors meet. And be careful with `squeeze()` without a dimension: it drops *every*
# size 1, also that of the batch when the batch holds one element.

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
state = run_steps((4,), [Step("expand", (3, 4))])
print("Picture:", describe(state))
display(Image(render_png(state), alt=explain(state)))
assert set(state.aliases.values()) == {3}

# %% [markdown]
# PyTorch protects you only sometimes. `add_` on the *whole* expanded tensor is refused, for example.
# Do not rely on it: indexing first gives a tensor whose own cells do not overlap, and that write is
# accepted.
#
# So expanded tensors are for reading. Before writing, ask for memory of your own.
#
# **Predict:** three ways to ask for it are `clone()`, `contiguous()` and `repeat` instead of `expand`. We
# try them with three rows and with one row. In which of the six cases does a write still reach `row`?

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

for times in (3, 1):
    row = torch.zeros(4)
    expanded = row.expand(times, 4)
    results = {
        "clone": expanded.clone(),
        "contiguous": expanded.contiguous(),
        "repeat": row.repeat(times, 1),
    }
    reaching = [name for name, table in results.items() if shares_storage(table, row)]
    print(f"{times} row(s): expanded has stride {expanded.stride()}, memory shared with row:", reaching or "none")

    assert expanded.is_contiguous() == (times == 1)
    assert reaching == (["contiguous"] if times == 1 else [])

results["contiguous"][0, 0] = 5
assert row[0] == 5  # the write reached row
results["clone"][0, 0] = 6
assert row[0] == 5  # this one did not

# %% [markdown]
# <details><summary>Answer</summary>
#
# In one case: `contiguous()` with one row. Expanding to 1 repeats nothing, so the result is already
# contiguous, and `contiguous()` returns it as it is: a view of `row`.
#
# </details>
#
# `contiguous()` promises an *order* of the elements, not memory of your own; `clone()` and `repeat` do
# promise that. With three rows, as in a test, you see no difference. With one row, as it may happen in
# production, you do.

# %% [markdown]
# ## Windows are views
#
# Moving averages and clips of consecutive frames are two of the many jobs that look at overlapping
# windows. A Python loop that cuts and stacks them is slow and stores each element once per window. But
# the next window is the same storage, read from a later slot, so the right strides can express *all*
# windows at once. `tensor.unfold(dim, size, step)` chooses them for you and puts the window in a new
# last dimension.
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
# A small example: 12 numbers in windows of 4 with a step of 2. The slots marked `x2` lie in two windows.

# %%
print("Explorer: 12 numbers in overlapping windows; the table has shape, strides and storage of each step.")
explore_strides((12,), [Step("unfold", (0, 4, 2))])

# %%
ratio = cost_ratio(
    lambda: torch.stack([strips[start : start + 32].mean() for start in range(609)]),
    lambda: strips.unfold(0, 32, 1).mean(dim=1),
)
smooth = windows.mean(dim=1)
print(f"Here the Python loop takes {ratio:.0f} times as long as unfold.")

figure, axes = plt.subplots(figsize=(9, 3.6))
axes.plot(strips, linewidth=1.2, label="each column")
axes.plot(torch.arange(609) + 15.5, smooth, label="mean of 32 columns")
axes.set(xlabel="column of the photograph", ylabel="brightness (0 to 1)")
axes.legend()
plotting.show_figure(
    "Curves: solid and jagged, the brightness of each column; dashed and smooth, the mean over 32 columns."
)

assert ratio > 2, JUST_NOW.format(f"the loop took {ratio:.1f} times as long as unfold (expected: many times)")
assert smooth.diff().abs().mean() < strips.diff().abs().mean() / 2

# %% [markdown]
# Two warnings: windows overlap, so they are for reading, like everything that is expanded. And `reshape`
# and `contiguous` write them out in full, so the saving is gone.
#
# What if the tensor has more dimensions? `clip` below is eight frames of 2 rows and 3 columns, and we
# want windows of four frames.
#
# **Predict:** at which place in the shape does `unfold` put the window? How do you bring it to the second
# place, right after the number of the window, and does that copy?

# %%
assert windows.contiguous().untyped_storage().nbytes() == as_copy
assert not shares_storage(windows.reshape(-1), strips)

clip = torch.arange(8 * 2 * 3).view(8, 2, 3)  # (frame, row, column)
last = clip.unfold(0, 4, 1)  # (window, row, column, frame in the window)
second = last.movedim(-1, 1)  # (window, frame in the window, row, column)
swapped = last.transpose(1, -1)  # (window, frame in the window, column, row): not the same
for name, tensor in {"unfold": last, "then movedim": second, "then transpose": swapped}.items():
    print(f"{name:>14}: shape {tuple(tensor.shape)}  stride {tensor.stride()}")

assert (last.shape, last.stride()) == ((5, 2, 3, 4), (6, 3, 1, 6))
assert (second.shape, second.stride()) == ((5, 4, 2, 3), (6, 6, 3, 1))
assert swapped.shape == (5, 4, 3, 2)
assert shares_storage(second, clip)
for start in range(5):
    assert torch.equal(second[start], clip[start : start + 4])
assert torch.equal(swapped, second.transpose(2, 3))  # rows and columns of each frame are swapped

# %% [markdown]
# <details><summary>Answer</summary>
#
# `unfold` puts it **last**, behind rows and columns. `movedim(-1, 1)` moves it to the second place and
# keeps the others in their order. Like `permute` it only reorders sizes and strides, so nothing is
# copied. `transpose(1, -1)` *swaps* two dimensions: the rows end up last, and every frame has its rows
# and columns swapped.
#
# </details>

# %% [markdown]
# ## A test that can fail
#
# A test is only worth something if it fails when the function is broken. Every bug of this chapter has
# passed some test, because for *those* inputs right and wrong give the same result.
#
# `row_means` below is a weighted mean of each row. Seven broken versions of it follow.
#
# **Predict:** five tests try them all. Which test catches most of the broken versions? Which versions get
# past all five?


# %%
def row_means(values, weights):
    """Weighted mean of each row: values (N, D), weights (D,), result (N,)."""
    return (values * weights).sum(dim=1) / weights.sum()


def halves_gradient(values, weights):
    """The right numbers, but half of the result is cut off from the gradient."""
    means = row_means(values, weights)
    return means / 2 + means.detach() / 2


def writes_weights(values, weights):
    """The right numbers, but the caller's weights are changed."""
    weights /= weights.sum()
    return (values * weights).sum(dim=1)


broken = {
    "ignores the weights": lambda values, weights: values.mean(dim=1),
    "does not divide": lambda values, weights: (values * weights).sum(dim=1),
    "mixes the rows": lambda values, weights: row_means(values, weights).mean().expand(len(values)),
    "returns (N, 1)": lambda values, weights: row_means(values, weights)[:, None],
    "squeezes too much": lambda values, weights: row_means(values, weights).squeeze(),
    "halves the gradient": halves_gradient,
    "writes to the weights": writes_weights,
}


# %%
def zeros(function):
    """All values are 0, so all means are 0."""
    assert (function(torch.zeros(2, 3), torch.tensor([1.0, 0.0, 3.0])) == 0).all()


def equal_values(function):
    """All values are 2, so all means are 2."""
    means = function(torch.full((2, 3), 2.0), torch.tensor([1.0, 0.0, 3.0]))
    assert torch.allclose(means, torch.tensor([2.0, 2.0]))


def shape_only(function):
    """Two rows give two means."""
    assert function(torch.rand(2, 3), torch.rand(3)).shape == (2,)


def one_row(function):
    """A mean worked out by hand: (1 * 5 + 0 * 7 + 3 * 1) / 4."""
    means = function(torch.tensor([[5.0, 7.0, 1.0]]), torch.tensor([1.0, 0.0, 3.0]))
    assert torch.allclose(means, torch.tensor([2.0]))


def two_rows(function):
    """Two rows that differ, worked out by hand: 6 / 4 and 28 / 4."""
    means = function(torch.tensor([[0.0, 1.0, 2.0], [4.0, -1.0, 8.0]]), torch.tensor([1.0, 0.0, 3.0]))
    torch.testing.assert_close(means, torch.tensor([1.5, 7.0]))


def catches(test, function):
    """Does the test raise an exception for this function?"""
    try:
        test(function)
    except Exception:
        return True
    return False


tests = (zeros, equal_values, shape_only, one_row, two_rows)
caught = {name: [test.__name__ for test in tests if catches(test, function)] for name, function in broken.items()}
print(f"{'':22}", *(f"{test.__name__:>13}" for test in tests))
for name, by in caught.items():
    print(f"{name:>22}", *(f"{'caught' if test.__name__ in by else '-':>13}" for test in tests))

assert not any(catches(test, row_means) for test in tests)  # a test must accept what is right
assert caught == {
    "ignores the weights": ["one_row", "two_rows"],
    "does not divide": ["equal_values", "one_row", "two_rows"],
    "mixes the rows": ["two_rows"],
    "returns (N, 1)": ["shape_only", "two_rows"],
    "squeezes too much": [],
    "halves the gradient": [],
    "writes to the weights": [],
}

# %% [markdown]
# <details><summary>Answer</summary>
#
# `two_rows` catches the first four, since its rows, its values and its weights all differ. Zeros catch
# nothing here: each of the seven gives 0 for zeros. Equal values hide that weights are ignored and that
# rows are mixed. One row cannot show that rows are mixed either.
#
# The last three get past all five tests. `squeezes too much` is wrong only for a single row: it loses a
# dimension, and `one_row` does not notice, since `allclose` broadcasts. `halves the gradient` is wrong
# only in its gradient, and `writes to the weights` only in what it does to its input.
#
# </details>
#
# So for each way in which the function could be wrong, choose an input for which right and wrong
# **differ**, and work the answer out by hand. Then:
#
# * try the smallest case too: one row;
# * compare floats with `torch.testing.assert_close`, not with `==` (rounding). It also checks shape and
#   dtype, and it does not broadcast;
# * if anyone trains through the function, compare the gradient with the right *numbers*. That some
#   gradient arrives is not enough;
# * check that the inputs are what they were;
# * *raise* if something is wrong. A test that returns `False` has not failed.
#
# **Predict:** does this test catch all seven?


# %%
def check_row_means(function):
    """Raise unless the function does what the docstring of row_means says."""
    for rows, by_hand in (([[0.0, 1.0, 2.0], [4.0, -1.0, 8.0]], [1.5, 7.0]), ([[5.0, 7.0, 1.0]], [2.0])):
        values = torch.tensor(rows, requires_grad=True)
        weights = torch.tensor([1.0, 0.0, 3.0])
        means = function(values, weights)
        torch.testing.assert_close(means, torch.tensor(by_hand))

        (gradient,) = torch.autograd.grad(means.sum(), values)  # or: means.sum().backward(), then values.grad
        torch.testing.assert_close(gradient, torch.tensor([[0.25, 0.0, 0.75]] * len(rows)))

        assert torch.equal(values, torch.tensor(rows)), "the values were changed"
        assert torch.equal(weights, torch.tensor([1.0, 0.0, 3.0])), "the weights were changed"


assert all(catches(check_row_means, function) for function in broken.values())
check_row_means(row_means)
check_row_means(lambda values, weights: torch.stack([row @ weights / weights.sum() for row in values]))
print(f"caught: all {len(broken)} broken versions; accepted: two right ones, written differently")

tenths = torch.tensor([0.1, 0.2], dtype=torch.float64)
assert tenths.sum() != 0.3  # rounding
torch.testing.assert_close(tenths.sum(), torch.tensor(0.3, dtype=torch.float64))
assert torch.allclose(torch.ones(2, 1), torch.ones(2))  # broadcasts
assert catches(lambda tensor: torch.testing.assert_close(tensor, torch.ones(2)), torch.ones(2, 1))  # does not

# %% [markdown]
# ## Summary
#
# | Symptom | Look at | Lesson section |
# |---|---|---|
# | You do not know what a tensor is | `shape`, `stride()` | Storage, shape, stride, offset |
# | Someone's data changed | `+=` and the like after a slice or `.float()` | What a view shares |
# | A small tensor keeps much memory | `untyped_storage().nbytes()` | What a view shares |
# | Slow, `.contiguous()` everywhere | who needs the order? | Contiguity and what it costs |
# | "view size is not compatible..." | `stride()`: do you read or write? | When reshape copies |
# | A write that is lost for some inputs | `reshape` before the write | When reshape copies |
# | Shapes fit, pixels are scrambled | `view` where a dimension should *move* | Permute is not view |
# | The model predicts the mean | shape of the difference in the loss | Broadcasting |
# | One write changes many rows | a stride of 0; `clone()`, not `contiguous()` | Expand repeats nothing |
# | Slow loop over windows, much memory | `unfold`, then `movedim` | Windows are views |
# | The test passes, the function is wrong | inputs for which right and wrong differ | A test that can fail |
#
# Now it is your turn: the exercise is a small pipeline for video frames that runs and is wrong in
# several of these ways: [open the exercise](../exercises/ch01_tensor_views/ch01_tensor_views.ipynb).
