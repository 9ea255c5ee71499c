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
# # Exercise 1: the video-frame pipeline
#
# You have inherited the input pipeline of a small video model. It loads a clip, puts a title card in front, normalises
# it, brings it into the layout that the model wants, stamps frame numbers, cuts the frames into patches, slides a window
# over time, and computes a loss per frame. It runs. The people who use it have filed seven complaints.
#
# Each section below is one complaint, the function it is about, and a cell that checks your repair. Change the function,
# run its cell, then run the check. What each docstring promises is what the callers rely on: none of the promises is
# wrong, and no function needs another signature.
#
# The checks are a sample: a few small examples, which you may read in `test_ch01_tensor_views.py` beside this notebook.
# A grade comes from more of them, at other shapes, dtypes and memory layouts. Nothing is asked there that the docstrings
# do not promise, so when a check is green, read the docstring once more.
#
# The lesson that goes with this exercise is [Tensor views](../../course/ch01_tensor_views.ipynb); a failed check names
# the section to reread. Plan for 30 to 60 minutes. Hints are folded away under each complaint; open them one at a time.

# %% nbgrader={"grade": false, "grade_id": "setup", "locked": true, "schema_version": 3, "solution": false, "task": false}
import time

import matplotlib.pyplot as plt
import torch

from autograder import check, what_you_fixed
from autograder.pictures import pan, photograph
from autograder.plotting import show_figure, use_course_style

use_course_style()

# %% [markdown]
# ## What is given
#
# Two real photographs, and a camera that pans over them. Clips are `uint8`, channels last: `(frames, height, width,
# channels)`. The two functions below are not part of the exercise. Both have been accused before; both were cleared.

# %% nbgrader={"grade": false, "grade_id": "given", "locked": true, "schema_version": 3, "solution": false, "task": false}
MEAN = torch.tensor([0.48, 0.46, 0.41])
STD = torch.tensor([0.27, 0.26, 0.28])


def load_clip(index, n_frames=12, height=96, width=128):
    """A clip of photograph 0 or 1: uint8, shape (n_frames, height, width, 3)."""
    return pan(photograph(index), n_frames, height, width, step=6, top=120, left=200)


def film_strip(frames):
    """The frames of a clip side by side, as one picture: (N, H, W, C) to (H, N * W, C)."""
    n, h, w, c = frames.shape
    # h and n change places, so the frames are no longer in order in memory and one copy has to be made
    return frames.permute(1, 0, 2, 3).contiguous().view(h, n * w, c)


def show_clip(frames, text):
    """Draw the first frames of a clip (N, H, W, C), values 0..255 or 0..1; the text says what is seen."""
    plt.figure(figsize=(9, 2), facecolor="silver")
    plt.imshow(film_strip(frames[:5].detach().cpu()))
    plt.axis("off")
    show_figure(text)


# %%
show_clip(load_clip(0), "Picture: five frames side by side; the camera moves to the right over a temple roof.")

# %% [markdown]
# ## 1. "Every frame of the title card looks like the last one"
#
# > *From the editing team:* the title card should carry a white bar along the bottom that grows from frame to frame. In
# > the rendered clips the bar is full from the very first frame. And when we use the same picture again later, it has a
# > white line at the bottom that nobody drew.
#
# <details><summary>Hint 1: where to look</summary>
#
# Print `clip.shape` and `clip.stride()` right before the loop. Which stride stands out?
#
# </details>
#
# <details><summary>Hint 2: what to look at</summary>
#
# How many frames are really in memory before the loop starts? Lesson, section *Expand repeats nothing*.
#
# </details>
#
# <details><summary>Hint 3: nearly there</summary>
#
# The loop is fine. It needs a clip in which each frame has memory of its own.
#
# </details>


# %% nbgrader={"grade": false, "grade_id": "title_clip-code", "locked": false, "schema_version": 3, "solution": true, "task": false}
def title_clip(title, n_frames):
    """Show a still picture for some frames, with a progress bar at the bottom.

    title: (H, W, C), uint8 or float. Returns (n_frames, H, W, C), same dtype. The bar is the last two rows; in frame i
    it is white (255, or 1.0 for float) over the first W * (i + 1) // n_frames pixels. `title` stays as it was.
    """
    width = title.shape[1]
    white = 255 if title.dtype == torch.uint8 else 1.0
    ### BEGIN SOLUTION V7
    clip = title.expand(n_frames, *title.shape).clone()
    ### BUG
    # clip = title.expand(n_frames, *title.shape)
    ### END SOLUTION
    for i in range(n_frames):
        clip[i, -2:, : width * (i + 1) // n_frames] = white
    return clip


# %%
card = load_clip(0, n_frames=1)[0]
clip = title_clip(card, 5)
show_clip(clip, "Picture: the title card, frames 0 to 4, side by side, each with its bar at the bottom.")
print("White pixels in the bottom row, frame by frame:", (clip[:, -1] == 255).all(-1).sum(1).tolist())
print("White pixels in the bottom row of the still picture:", (card[-1] == 255).all(-1).sum().item())

# %% nbgrader={"grade": true, "grade_id": "title_clip", "locked": true, "schema_version": 3, "solution": false, "task": false, "points": 2}
check("title_clip")

# %% [markdown]
# ## 2. "The second epoch sees other data than the first"
#
# > *From the training log:* epoch 1 and epoch 2 use the same cached video and the same clip positions. The mean
# > brightness of the clips should therefore be the same in every epoch. It is not, and validation after training gets
# > clips that look like noise.
#
# <details><summary>Hint 1: where to look</summary>
#
# The cached video is `float32`. Does `video` still hold the same numbers after a call?
#
# </details>
#
# <details><summary>Hint 2: what to look at</summary>
#
# What does a slice share with the tensor it was cut from? Lesson, section *What a view shares*.
#
# </details>
#
# <details><summary>Hint 3: nearly there</summary>
#
# Two of the three statements write into `clip`. Write the same arithmetic so that it makes a new tensor.
#
# </details>


# %% nbgrader={"grade": false, "grade_id": "take_clip-code", "locked": false, "schema_version": 3, "solution": true, "task": false}
def take_clip(video, start, length, mean, std):
    """Cut a clip out of a video and normalise it, channel by channel: (x - mean) / std.

    video: (T, H, W, C), float in 0..1, or uint8 (then divided by 255 first). mean, std: (C,). Returns
    (length, H, W, C), float. The video is a cache that others read too: it stays as it was.
    """
    clip = video[start : start + length]
    if clip.dtype == torch.uint8:
        clip = clip / 255
    ### BEGIN SOLUTION V3
    return (clip - mean) / std
    ### BUG
    # clip -= mean
    # clip /= std
    # return clip
    ### END SOLUTION


# %%
cached_video = load_clip(1).float() / 255
for epoch in (1, 2, 3):
    clips = [take_clip(cached_video, start, 6, MEAN, STD) for start in (0, 3, 6)]
    print(f"epoch {epoch}: mean brightness of the clips", [round(clip.mean().item(), 3) for clip in clips])

# %% nbgrader={"grade": true, "grade_id": "take_clip", "locked": true, "schema_version": 3, "solution": false, "task": false, "points": 2}
check("take_clip")

# %% [markdown]
# ## 3. "The model trains, but badly. And the loader is slow"
#
# > *From the modelling team:* accuracy is stuck far below what the same network reaches on single pictures. Shapes and
# > value ranges are all as documented, there is no error anywhere.
# >
# > *From the platform team:* the profiler puts a tenth of each step into memory copies in this function. It was promised
# > to us as free: a crop should not touch pixels that it throws away, nor copy those that it keeps.
#
# <details><summary>Hint 1: where to look</summary>
#
# Look at the picture that the cell below draws. Does it show the middle of the photograph?
#
# </details>
#
# <details><summary>Hint 2: what to look at</summary>
#
# Reordering dimensions and cutting the same numbers into another shape are two different things. Lesson, section *Permute is not view*. For the second complaint: *Contiguity and what it costs*.
#
# </details>
#
# <details><summary>Hint 3: nearly there</summary>
#
# No step of this function has to move a pixel: there is a way to reorder dimensions that changes only the strides.
#
# </details>


# %% nbgrader={"grade": false, "grade_id": "to_model_layout-code", "locked": false, "schema_version": 3, "solution": true, "task": false}
def to_model_layout(frames, size):
    """Channels first, and the middle of each frame: (N, H, W, C) to (N, C, size, size), same dtype.

    The crop starts at row (H - size) // 2 and column (W - size) // 2. The result is a view of `frames`: no pixel is
    copied.
    """
    n, h, w, c = frames.shape
    top, left = (h - size) // 2, (w - size) // 2
    ### BEGIN SOLUTION V5
    pixels = frames.permute(0, 3, 1, 2)
    ### BUG
    # pixels = frames.reshape(n, c, h, w)
    ### END SOLUTION
    ### BEGIN SOLUTION V2
    return pixels[:, :, top : top + size, left : left + size]
    ### BUG
    # pixels = pixels.contiguous()
    # return pixels[:, :, top : top + size, left : left + size].contiguous()
    ### END SOLUTION


# %%
batch = to_model_layout(load_clip(0), 64)
print("shape", tuple(batch.shape), " lowest and highest value", batch.min().item(), batch.max().item())
seen = torch.stack([batch[:, channel] for channel in range(3)], dim=-1)
show_clip(seen, "Picture: what the model sees of the first five frames.")

clip = load_clip(0)
shares = to_model_layout(clip, 64).untyped_storage().data_ptr() == clip.untyped_storage().data_ptr()
print("The result lies in the memory of the clip:", shares)

# %% nbgrader={"grade": true, "grade_id": "to_model_layout", "locked": true, "schema_version": 3, "solution": false, "task": false, "points": 3}
check("to_model_layout")

# %% [markdown]
# ## 4. "Half of our clips have no timecode"
#
# > *From the synchronisation team:* we read the frame number back from sixteen pixels in the first row. It is there in
# > clips that come from the archive. In clips that come through the model pipeline, the pixels show plain picture. Same
# > function, same arguments, no error.
#
# <details><summary>Hint 1: where to look</summary>
#
# The two kinds of clip have the same shape. Compare `frames.stride()` and `frames.is_contiguous()`.
#
# </details>
#
# <details><summary>Hint 2: what to look at</summary>
#
# When does `reshape` hand you the same memory, and when other memory? Lesson, section *When reshape copies*.
#
# </details>
#
# <details><summary>Hint 3: nearly there</summary>
#
# Write where you want to write: index `frames` itself, with its four dimensions.
#
# </details>


# %% nbgrader={"grade": false, "grade_id": "write_timecode-code", "locked": false, "schema_version": 3, "solution": true, "task": false}
def write_timecode(frames, first):
    """Stamp each frame's number into the picture, in place.

    frames: (N, C, H, W) with W >= 16, uint8 or float, of any memory layout. Frame i gets the number first + i: its bit
    b (b = 0 is the lowest, 16 bits) goes to pixel b of the first row of channel 0, as 0 for a clear bit and 255 (1.0
    for float) for a set one. Writes into `frames` and returns that same tensor.
    """
    n = len(frames)
    numbers = torch.arange(first, first + n, device=frames.device)
    bits = (numbers[:, None] >> torch.arange(16, device=frames.device)) & 1
    bits = (bits * (255 if frames.dtype == torch.uint8 else 1)).to(frames.dtype)
    ### BEGIN SOLUTION V4
    frames[:, 0, 0, :16] = bits
    ### BUG
    # pixels = frames.reshape(n, -1)
    # pixels[:, :16] = bits
    ### END SOLUTION
    return frames


# %%
archive_clip = torch.zeros(4, 3, 20, 32)
pipeline_clip = torch.zeros(4, 24, 40, 3).permute(0, 3, 1, 2)[:, :, 2:22, 4:36]
for name, clip in (("archive", archive_clip), ("pipeline", pipeline_clip)):
    write_timecode(clip, first=8)
    read_back = (clip[:, 0, 0, :16] * 2.0 ** torch.arange(16)).sum(1)
    print(f"{name:>9}: shape {tuple(clip.shape)}, numbers read back {read_back.int().tolist()}")

# %% nbgrader={"grade": true, "grade_id": "write_timecode", "locked": true, "schema_version": 3, "solution": false, "task": false, "points": 2}
check("write_timecode")

# %% [markdown]
# ## 5. "It worked in the prototype"
#
# > *From the log of last night's run:* the job died in the first batch, in the function that cuts frames into patches.
# > The message talks about size and stride. Someone's note says that it "worked with one patch per frame". A colleague
# > did what the message suggests: it ran, and the model learned from patches whose colours were mixed up.
#
# <details><summary>Hint 1: where to look</summary>
#
# Run the cell and read the whole message: it names the call that was refused and what could be called instead.
#
# </details>
#
# <details><summary>Hint 2: what to look at</summary>
#
# After a `permute`, can the last two groups of dimensions still be merged without moving anything? Lesson, section *When reshape copies*.
#
# </details>
#
# <details><summary>Hint 3: nearly there</summary>
#
# Here one copy has to be made, and only one. Which of the two calls is the one that cannot be a view? When it runs,
# compare the order in which `permute` puts the dimensions with the order that the docstring promises.
#
# </details>


# %% nbgrader={"grade": false, "grade_id": "to_patches-code", "locked": false, "schema_version": 3, "solution": true, "task": false}
def to_patches(frames, size):
    """Cut each frame into square patches: (N, C, H, W) to (N, P, C * size * size), same dtype.

    P = (H // size) * (W // size) patches, row by row from the top left; rows and columns left over at the bottom and
    the right are dropped. Each patch is flattened in the order channel, row, column. `frames` may have any layout.
    Called for every batch, so patches are not cut out one at a time.
    """
    n, c, h, w = frames.shape
    rows, columns = h // size, w // size
    grid = frames[:, :, : rows * size, : columns * size]
    ### BEGIN SOLUTION V1
    grid = grid.reshape(n, c, rows, size, columns, size).permute(0, 2, 4, 1, 3, 5)
    return grid.reshape(n, rows * columns, c * size * size)
    ### BUG
    # grid = grid.view(n, c, rows, size, columns, size).permute(0, 2, 4, 3, 5, 1)
    # return grid.view(n, rows * columns, c * size * size)
    ### END SOLUTION


# %%
try:
    print("patches:", tuple(to_patches(load_clip(0).permute(0, 3, 1, 2), 16).shape))
except RuntimeError as error:
    print("RuntimeError:", error)

# %% nbgrader={"grade": true, "grade_id": "to_patches", "locked": true, "schema_version": 3, "solution": false, "task": false, "points": 3}
check("to_patches")

# %% [markdown]
# ## 6. "The GPU waits for the windows"
#
# > *From the performance review:* the sliding windows take longer than the forward pass. Memory goes up eightfold while
# > they are built. The numbers are right, says the test suite.
#
# <details><summary>Hint 1: where to look</summary>
#
# How many Python-level tensor operations does the function make for 1,000 frames and windows of 8?
#
# </details>
#
# <details><summary>Hint 2: what to look at</summary>
#
# Neighbouring windows hold mostly the same frames. Could all of them look at one memory? Lesson, section *Windows are views*.
#
# </details>
#
# <details><summary>Hint 3: nearly there</summary>
#
# `Tensor.unfold` makes the windows as a view. It puts the new dimension last; the docstring wants it second.
#
# </details>


# %% nbgrader={"grade": false, "grade_id": "sliding_windows-code", "locked": false, "schema_version": 3, "solution": true, "task": false}
def sliding_windows(frames, length, step):
    """All windows of `length` neighbouring frames, one every `step` frames.

    frames: (T, ...) with T >= length. Returns (n, length, ...) with n = (T - length) // step + 1, same dtype. The
    result is for reading only, and a view of `frames`: neighbouring windows hold mostly the same frames, so nothing is
    copied, and it takes no longer for a long clip.
    """
    ### BEGIN SOLUTION V8
    return frames.unfold(0, length, step).movedim(-1, 1)
    ### BUG
    # starts = range(0, len(frames) - length + 1, step)
    # return torch.stack([torch.stack([frames[start + i] for i in range(length)]) for start in starts])
    ### END SOLUTION


# %%
for n_frames in (250, 500, 1000):
    features = torch.rand(n_frames, 64)
    begin = time.perf_counter()
    windows = sliding_windows(features, 8, 1)
    elapsed = time.perf_counter() - begin
    grown = windows.untyped_storage().nbytes() / features.untyped_storage().nbytes()
    print(f"{n_frames:5} frames: {elapsed * 1e3:6.2f} ms, {grown:.1f} times the memory of the input")

# %% nbgrader={"grade": true, "grade_id": "sliding_windows", "locked": true, "schema_version": 3, "solution": false, "task": false, "points": 3}
check("sliding_windows")

# %% [markdown]
# ## 7. "The loss looks plausible. Accuracy does not move"
#
# > *From the modelling team:* the head predicts one number per frame. The loss starts at a sensible value, goes down a
# > little and stays there; the predictions are all the same, namely the mean of the targets. It is as if the model could
# > not tell the frames apart.
#
# <details><summary>Hint 1: where to look</summary>
#
# Print the shape of `error` for four frames.
#
# </details>
#
# <details><summary>Hint 2: what to look at</summary>
#
# What happens when a column meets a row? Lesson, section *Broadcasting*.
#
# </details>
#
# <details><summary>Hint 3: nearly there</summary>
#
# Bring both to the same shape before you subtract, in a way that also works for a single frame.
#
# </details>


# %% nbgrader={"grade": false, "grade_id": "frame_loss-code", "locked": false, "schema_version": 3, "solution": true, "task": false}
def frame_loss(prediction, target):
    """Mean squared error over the frames of a batch, as a tensor without dimensions.

    prediction: (N, 1), as the model's head gives it. target: (N,). Both float; N may be 1.
    """
    ### BEGIN SOLUTION V6
    error = prediction.squeeze(1) - target
    ### BUG
    # error = prediction - target
    ### END SOLUTION
    return (error**2).mean()


# %%
brightness = load_clip(1).float().mean((1, 2, 3))
brightness = (brightness - brightness.mean()) / brightness.std()
guess = torch.full((len(brightness), 1), 2.0, requires_grad=True)
optimiser = torch.optim.SGD([guess], lr=1.0)
losses = []
for _ in range(40):
    loss = frame_loss(guess, brightness)
    optimiser.zero_grad()
    loss.backward()
    optimiser.step()
    losses.append(loss.item())
plt.figure(figsize=(5, 2.5))
plt.plot(losses)
plt.xlabel("step")
plt.ylabel("loss")
show_figure(
    f"Curve: loss over 40 steps, from {losses[0]:.2f} to {losses[-1]:.2f}; one free number per frame could reach 0."
)
print("target    ", [round(value, 1) for value in brightness.tolist()])
print("prediction", [round(value, 1) for value in guess.flatten().tolist()])

# %% nbgrader={"grade": true, "grade_id": "frame_loss", "locked": true, "schema_version": 3, "solution": false, "task": false, "points": 2}
check("frame_loss")

# %% [markdown]
# ## 8. The test that was missing
#
# The loss of section 7 had a test. Here it is, below: it was green all the time. Write the test that would have caught
# the mistake, so that it cannot come back.
#
# `check_frame_loss(loss)` is given a function that may or may not keep the promise of `frame_loss`'s docstring. It
# returns if the promise is kept, and raises (an `assert` will do) if not. It will be tried on right implementations that
# are written differently, and on wrong ones: some are wrong only in their gradient, some only for certain inputs.
#
# <details><summary>Hint 1: where to look</summary>
#
# For which inputs do the right and the wrong version of section 7 give the same number?
#
# </details>
#
# <details><summary>Hint 2: what to look at</summary>
#
# Work out by hand what the loss of two or three frames must be, with targets that differ. Try one frame, too.
#
# </details>
#
# <details><summary>Hint 3: nearly there</summary>
#
# Check the value, that it has no dimensions, and the gradient that arrives in `prediction`: 2 * error / N.
#
# </details>


# %% nbgrader={"grade": false, "grade_id": "check_frame_loss-code", "locked": false, "schema_version": 3, "solution": true, "task": false}
def check_frame_loss(loss):
    """Raise an exception unless `loss(prediction, target)` does what the docstring of `frame_loss` says."""
    ### BEGIN SOLUTION V6
    for values, wanted in (([0.0, 1.0, 3.0], [1.0, 1.0, 5.0]), ([2.0], [-1.0])):
        prediction = torch.tensor(values)[:, None].requires_grad_()
        target = torch.tensor(wanted)
        error = torch.tensor(values) - target
        result = loss(prediction, target)
        assert result.shape == (), "the loss must be a single number"
        assert torch.isclose(result.detach(), (error**2).mean()), "wrong value"
        result.backward()
        assert prediction.grad is not None, "no gradient"
        assert torch.allclose(prediction.grad[:, 0], 2 * error / len(values)), "wrong gradient"
        assert torch.equal(target, torch.tensor(wanted)), "the target was changed"
    ### BUG
    # prediction = torch.zeros(4, 1)
    # target = torch.zeros(4)
    # result = loss(prediction, target)
    # assert result.shape == ()
    # assert result == 0
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "check_frame_loss", "locked": true, "schema_version": 3, "solution": false, "task": false, "points": 3}
check("check_frame_loss")

# %% [markdown]
# ## All green?
#
# Then the sample is green. Save, and `pytest exercises` in a terminal runs the same checks on the saved file; a grade
# asks for the docstrings' promises in full. Would your functions keep them for a clip of one frame, for bytes, for odd
# sizes, for frames that are not contiguous? The habits to take along: know whether you hold a view; ask for a copy where
# you need one, and only there; test where right and wrong differ.
