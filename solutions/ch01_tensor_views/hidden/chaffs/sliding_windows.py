# %% stacked-slices
# misconception: each window must own its memory, for somebody may write to it
# fails: test_windows_are_quick, test_windows_are_views, test_windows_over_patches_are_quick, test_windows_take_no_memory
# says: times as fast as the original version
def sliding_windows(frames, length, step):
    return torch.stack([frames[start : start + length].clone() for start in range(0, len(frames) - length + 1, step)])


# %% windows-made-contiguous
# misconception: a result should be contiguous before it is handed on
# fails: test_windows_are_views, test_windows_take_no_memory
# says: holds 4,000 bytes
def sliding_windows(frames, length, step):
    return frames.unfold(0, length, step).movedim(-1, 1).contiguous()


# %% windows-cloned
# misconception: overlapping memory is dangerous even for those who only read
# fails: test_windows_are_views, test_windows_take_no_memory
# says: holds 4,000 bytes
def sliding_windows(frames, length, step):
    return frames.unfold(0, length, step).movedim(-1, 1).clone()


# %% gathered-by-index
# misconception: an index without a loop is as good as a view
# fails: test_windows_are_views, test_windows_take_no_memory
# says: holds 4,000 bytes
def sliding_windows(frames, length, step):
    starts = torch.arange(0, len(frames) - length + 1, step)
    return frames[starts[:, None] + torch.arange(length)]


# %% frames-cloned-first
# misconception: sharing memory with the input is a bug
# fails: test_windows_are_views
# says: returned a copy: a write to its input did not show in it
def sliding_windows(frames, length, step):
    return frames.clone().unfold(0, length, step).movedim(-1, 1)


# %% strides-of-contiguous-frames
# misconception: as_strided needs contiguous frames, and contiguous() costs nothing
# fails: test_windows_are_views
# says: returned a copy: a write to its input did not show in it
def sliding_windows(frames, length, step):
    frames = frames.contiguous()
    n = (len(frames) - length) // step + 1
    by_frame, *rest = frames.stride()
    return frames.as_strided((n, length, *frames.shape[1:]), (by_frame * step, by_frame, *rest))


# %% frames-one-after-the-other
# misconception: the next frame begins as many slots further on as a frame has pixels
# fails: test_windows_are_views, test_windows_at_several_lengths, test_windows_of_a_clip_of_pictures
# says: however the frames lie in memory
def sliding_windows(frames, length, step):
    n = (len(frames) - length) // step + 1
    by_frame = frames[0].numel()
    return frames.as_strided((n, length, *frames.shape[1:]), (by_frame * step, by_frame, *frames.stride()[1:]))


# %% new-dimension-left-at-the-end
# misconception: unfold puts the new dimension next to the one that it unfolds
# fails: test_gradients_add_up_over_windows, test_windows_are_quick, test_windows_are_views, test_windows_at_several_lengths, test_windows_of_a_clip_of_pictures, test_windows_over_patches_are_quick, test_windows_take_no_memory
# says: (293, 4, 8); expected (293, 8, 4)
def sliding_windows(frames, length, step):
    return frames.unfold(0, length, step)


# %% swapped-with-the-last
# misconception: swapping two dimensions and moving one are the same
# fails: test_windows_are_views, test_windows_at_several_lengths, test_windows_of_a_clip_of_pictures, test_windows_over_patches_are_quick
# says: for pictures and for bytes
def sliding_windows(frames, length, step):
    windows = frames.unfold(0, length, step)
    return windows.transpose(1, -1) if windows.dim() > 2 else windows


# %% viewed-into-shape
# misconception: view and permute differ only in the shape that one writes down
# fails: test_gradients_add_up_over_windows, test_windows_are_quick, test_windows_are_views, test_windows_at_several_lengths, test_windows_of_a_clip_of_pictures, test_windows_over_patches_are_quick, test_windows_take_no_memory
# says: differ from what was expected
def sliding_windows(frames, length, step):
    windows = frames.unfold(0, length, step)
    return windows.reshape(windows.shape[0], length, *frames.shape[1:])


# %% last-window-dropped
# misconception: range(T - length) reaches the last start
# fails: test_gradients_add_up_over_windows, test_windows_are_quick, test_windows_at_several_lengths, test_windows_of_a_clip_of_pictures, test_windows_of_a_counted_clip, test_windows_over_patches_are_quick, test_windows_take_no_memory
# says: (2, 4); expected (3, 4)
def sliding_windows(frames, length, step):
    return frames[:-1].unfold(0, length, step).movedim(-1, 1)


# %% one-window-per-frame
# misconception: the number of windows is T - length + 1, whatever the step
# fails: test_windows_are_views, test_windows_at_several_lengths, test_windows_of_a_clip_of_pictures, test_windows_of_a_counted_clip
# says: (7, 4); expected (3, 4)
def sliding_windows(frames, length, step):
    return frames.unfold(0, length, 1).movedim(-1, 1)


# %% cut-without-overlap
# misconception: the step between windows is their length
# fails: test_gradients_add_up_over_windows, test_windows_are_quick, test_windows_are_views, test_windows_at_several_lengths, test_windows_of_a_clip_of_pictures, test_windows_of_a_counted_clip, test_windows_over_patches_are_quick, test_windows_take_no_memory
# says: (2, 4); expected (3, 4)
def sliding_windows(frames, length, step):
    return frames.unfold(0, length, length).movedim(-1, 1)


# %% without-gradient
# misconception: windows are for reading, so they need no gradient
# fails: test_gradients_add_up_over_windows
# says: gets the sum of their gradients
def sliding_windows(frames, length, step):
    with torch.no_grad():
        return frames.unfold(0, length, step).movedim(-1, 1)


# %% through-numpy
# misconception: NumPy's windows do all that PyTorch's do
# fails: test_gradients_add_up_over_windows, test_windows_are_views, test_windows_take_no_memory
# says: gets the sum of their gradients
from numpy.lib.stride_tricks import sliding_window_view


def sliding_windows(frames, length, step):
    windows = sliding_window_view(frames.detach().numpy(), length, axis=0)[::step]
    return torch.from_numpy(windows.copy()).movedim(-1, 1)
