# %% view-instead-of-permute
# misconception: view and permute differ only in that view is stricter
# fails: test_gradients_reach_their_pixels, test_layout_at_odd_sizes, test_layout_costs_next_to_nothing, test_layout_is_a_view, test_layout_is_a_view_of_any_layout, test_layout_of_repeated_frames, test_pixels_stay_together
# says: The colours of the middle pixel
def to_model_layout(frames, size):
    n, h, w, c = frames.shape
    top, left = (h - size) // 2, (w - size) // 2
    pixels = frames.view(n, c, h, w)
    return pixels[:, :, top : top + size, left : left + size]


# %% copies-gone-reshape-kept
# misconception: the copies were the whole complaint
# fails: test_gradients_reach_their_pixels, test_layout_at_odd_sizes, test_layout_costs_next_to_nothing, test_layout_is_a_view, test_layout_is_a_view_of_any_layout, test_layout_of_repeated_frames, test_pixels_stay_together
# says: The colours of the middle pixel
def to_model_layout(frames, size):
    n, h, w, c = frames.shape
    top, left = (h - size) // 2, (w - size) // 2
    pixels = frames.reshape(n, c, h, w)
    return pixels[:, :, top : top + size, left : left + size]


# %% permuted-then-contiguous
# misconception: a permuted tensor must be made contiguous before it can be used
# fails: test_layout_costs_next_to_nothing, test_layout_is_a_view, test_layout_is_a_view_of_any_layout
# says: returned a copy: a write to its input did not show in it
def to_model_layout(frames, size):
    n, h, w, c = frames.shape
    top, left = (h - size) // 2, (w - size) // 2
    pixels = frames.permute(0, 3, 1, 2).contiguous()
    return pixels[:, :, top : top + size, left : left + size]


# %% crop-made-contiguous
# misconception: a small copy at the end is no copy
# fails: test_layout_is_a_view, test_layout_is_a_view_of_any_layout
# says: returned a copy: a write to its input did not show in it
def to_model_layout(frames, size):
    n, h, w, c = frames.shape
    top, left = (h - size) // 2, (w - size) // 2
    pixels = frames.permute(0, 3, 1, 2)
    return pixels[:, :, top : top + size, left : left + size].contiguous()


# %% crop-cloned
# misconception: a result of one's own is always the safe way
# fails: test_layout_is_a_view, test_layout_is_a_view_of_any_layout
# says: returned a copy: a write to its input did not show in it
def to_model_layout(frames, size):
    n, h, w, c = frames.shape
    top, left = (h - size) // 2, (w - size) // 2
    pixels = frames.permute(0, 3, 1, 2)
    return pixels[:, :, top : top + size, left : left + size].clone()


# %% indexed-by-tensors
# misconception: every kind of indexing gives a view
# fails: test_layout_costs_next_to_nothing, test_layout_is_a_view, test_layout_is_a_view_of_any_layout
# says: returned a copy: a write to its input did not show in it
def to_model_layout(frames, size):
    n, h, w, c = frames.shape
    rows = torch.arange(size) + (h - size) // 2
    columns = torch.arange(size) + (w - size) // 2
    return frames.permute(0, 3, 1, 2)[:, :, rows][:, :, :, columns]


# %% permuted-to-width-first
# misconception: permute(0, 3, 2, 1) is channels first; square crops look alike
# fails: test_gradients_reach_their_pixels, test_layout_at_odd_sizes, test_layout_costs_next_to_nothing, test_layout_is_a_view, test_layout_is_a_view_of_any_layout, test_layout_of_repeated_frames
# says: other aspect ratios
def to_model_layout(frames, size):
    n, h, w, c = frames.shape
    top, left = (h - size) // 2, (w - size) // 2
    pixels = frames.permute(0, 3, 2, 1)
    return pixels[:, :, left : left + size, top : top + size]


# %% channels-swapped-for-width
# misconception: one transpose of the first and the last dimension brings the channels to the front
# fails: test_gradients_reach_their_pixels, test_layout_at_odd_sizes, test_layout_costs_next_to_nothing, test_layout_is_a_view, test_layout_is_a_view_of_any_layout, test_layout_of_repeated_frames, test_pixels_stay_together
# says: The colours of the middle pixel
def to_model_layout(frames, size):
    n, h, w, c = frames.shape
    top, left = (h - size) // 2, (w - size) // 2
    pixels = frames.transpose(1, 3)
    return pixels[:, :, top : top + size, left : left + size]


# %% colours-reversed
# misconception: channels first means that the last channel comes first
# fails: test_gradients_reach_their_pixels, test_layout_at_odd_sizes, test_layout_costs_next_to_nothing, test_layout_is_a_view, test_layout_is_a_view_of_any_layout, test_layout_of_repeated_frames, test_pixels_stay_together
# says: The middle pixel of each frame keeps its three colours
def to_model_layout(frames, size):
    n, h, w, c = frames.shape
    top, left = (h - size) // 2, (w - size) // 2
    pixels = frames.flip(-1).permute(0, 3, 1, 2)
    return pixels[:, :, top : top + size, left : left + size]


# %% rounded-up
# misconception: a pixel more or less at the top makes no difference
# fails: test_gradients_reach_their_pixels, test_layout_at_odd_sizes, test_layout_costs_next_to_nothing, test_layout_is_a_view_of_any_layout, test_layout_of_repeated_frames, test_pixels_stay_together
# says: Every pixel keeps its place and its colours, for odd sizes
def to_model_layout(frames, size):
    n, h, w, c = frames.shape
    top, left = (h - size + 1) // 2, (w - size + 1) // 2
    pixels = frames.permute(0, 3, 1, 2)
    return pixels[:, :, top : top + size, left : left + size]


# %% equal-margins
# misconception: the middle has as many pixels cut off on either side
# fails: test_gradients_reach_their_pixels, test_layout_at_odd_sizes, test_layout_costs_next_to_nothing, test_layout_is_a_view_of_any_layout, test_layout_of_repeated_frames, test_pixels_stay_together
# says: (6, 3, 12, 11); expected (6, 3, 11, 11)
def to_model_layout(frames, size):
    n, h, w, c = frames.shape
    top, left = (h - size) // 2, (w - size) // 2
    return frames.permute(0, 3, 1, 2)[:, :, top:-top, left:-left]


# %% one-pixel-short
# misconception: a slice includes its end
# fails: test_gradients_reach_their_pixels, test_layout_at_odd_sizes, test_layout_costs_next_to_nothing, test_layout_is_a_view, test_layout_is_a_view_of_any_layout, test_layout_of_repeated_frames, test_pixels_stay_together
# says: expected (6, 3, 11, 11)
def to_model_layout(frames, size):
    n, h, w, c = frames.shape
    top, left = (h - size) // 2, (w - size) // 2
    pixels = frames.permute(0, 3, 1, 2)
    return pixels[:, :, top : top + size - 1, left : left + size - 1]


# %% as-float
# misconception: the model wants floats, so the layout step may as well make them
# fails: test_layout_at_odd_sizes, test_layout_costs_next_to_nothing, test_pixels_stay_together
# says: torch.float32; expected torch.uint8
def to_model_layout(frames, size):
    n, h, w, c = frames.shape
    top, left = (h - size) // 2, (w - size) // 2
    pixels = frames.permute(0, 3, 1, 2)
    return pixels[:, :, top : top + size, left : left + size].float()


# %% without-gradient
# misconception: data holds no more than the values, so it is the cheaper view
# fails: test_gradients_reach_their_pixels
# says: The gradient of each output pixel
def to_model_layout(frames, size):
    n, h, w, c = frames.shape
    top, left = (h - size) // 2, (w - size) // 2
    return frames.data.permute(0, 3, 1, 2)[:, :, top : top + size, left : left + size]
