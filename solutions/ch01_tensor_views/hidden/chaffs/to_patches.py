# %% reshape-without-permute
# misconception: the right number of elements in the right shape is the right result
# fails: test_gradients_reach_their_patch, test_patches_are_not_cut_out_one_at_a_time, test_patches_are_quick, test_patches_at_several_sizes, test_patches_drop_what_is_left_over, test_patches_of_a_counted_frame, test_patches_of_every_layout
# says: The second patch
def to_patches(frames, size):
    n, c, h, w = frames.shape
    rows, columns = h // size, w // size
    grid = frames[:, :, : rows * size, : columns * size]
    return grid.reshape(n, rows * columns, c * size * size)


# %% wrong-call-replaced
# misconception: it is the first view that is refused
# fails: test_gradients_reach_their_patch, test_patches_are_not_cut_out_one_at_a_time, test_patches_are_quick, test_patches_at_several_sizes, test_patches_drop_what_is_left_over, test_patches_of_a_counted_frame, test_patches_of_every_layout
# says: view size is not compatible
def to_patches(frames, size):
    n, c, h, w = frames.shape
    rows, columns = h // size, w // size
    grid = frames[:, :, : rows * size, : columns * size]
    grid = grid.reshape(n, c, rows, size, columns, size).permute(0, 2, 4, 1, 3, 5)
    return grid.view(n, rows * columns, c * size * size)


# %% contiguous-before-the-permute
# misconception: once contiguous, always contiguous
# fails: test_gradients_reach_their_patch, test_patches_are_not_cut_out_one_at_a_time, test_patches_are_quick, test_patches_at_several_sizes, test_patches_drop_what_is_left_over, test_patches_of_a_counted_frame, test_patches_of_every_layout
# says: view size is not compatible
def to_patches(frames, size):
    n, c, h, w = frames.shape
    rows, columns = h // size, w // size
    grid = frames[:, :, : rows * size, : columns * size].contiguous()
    grid = grid.view(n, c, rows, size, columns, size).permute(0, 2, 4, 1, 3, 5)
    return grid.view(n, rows * columns, c * size * size)


# %% cloned-after-the-permute
# misconception: a clone is contiguous
# fails: test_gradients_reach_their_patch, test_patches_are_not_cut_out_one_at_a_time, test_patches_are_quick, test_patches_at_several_sizes, test_patches_drop_what_is_left_over, test_patches_of_a_counted_frame, test_patches_of_every_layout
# says: view size is not compatible
def to_patches(frames, size):
    n, c, h, w = frames.shape
    rows, columns = h // size, w // size
    grid = frames[:, :, : rows * size, : columns * size]
    grid = grid.view(n, c, rows, size, columns, size).permute(0, 2, 4, 1, 3, 5)
    return grid.clone().view(n, rows * columns, c * size * size)


# %% column-by-column
# misconception: the order of patches is a matter of taste
# fails: test_gradients_reach_their_patch, test_patches_are_not_cut_out_one_at_a_time, test_patches_are_quick, test_patches_at_several_sizes, test_patches_of_a_counted_frame, test_patches_of_every_layout
# says: The second patch
def to_patches(frames, size):
    n, c, h, w = frames.shape
    rows, columns = h // size, w // size
    grid = frames[:, :, : rows * size, : columns * size]
    grid = grid.reshape(n, c, rows, size, columns, size).permute(0, 4, 2, 1, 3, 5)
    return grid.reshape(n, rows * columns, c * size * size)


# %% channels-last-in-a-patch
# misconception: the channels of a pixel always stay together
# fails: test_gradients_reach_their_patch, test_patches_are_quick, test_patches_at_several_sizes, test_patches_drop_what_is_left_over, test_patches_of_every_layout
# says: channels come before rows
def to_patches(frames, size):
    n, c, h, w = frames.shape
    rows, columns = h // size, w // size
    grid = frames[:, :, : rows * size, : columns * size]
    grid = grid.reshape(n, c, rows, size, columns, size).permute(0, 2, 4, 3, 5, 1)
    return grid.reshape(n, rows * columns, c * size * size)


# %% transposed-within-the-patch
# misconception: a patch is square, so rows and columns may change places in it
# fails: test_gradients_reach_their_patch, test_patches_are_not_cut_out_one_at_a_time, test_patches_are_quick, test_patches_at_several_sizes, test_patches_drop_what_is_left_over, test_patches_of_a_counted_frame, test_patches_of_every_layout
# says: got 8, expected 3
def to_patches(frames, size):
    n, c, h, w = frames.shape
    rows, columns = h // size, w // size
    grid = frames[:, :, : rows * size, : columns * size]
    grid = grid.reshape(n, c, rows, size, columns, size).permute(0, 2, 4, 1, 5, 3)
    return grid.reshape(n, rows * columns, c * size * size)


# %% size-and-number-confused
# misconception: which of two neighbouring dimensions counts patches and which counts pixels does not matter to reshape
# fails: test_gradients_reach_their_patch, test_patches_are_not_cut_out_one_at_a_time, test_patches_are_quick, test_patches_at_several_sizes, test_patches_drop_what_is_left_over, test_patches_of_a_counted_frame, test_patches_of_every_layout
# says: The second patch
def to_patches(frames, size):
    n, c, h, w = frames.shape
    rows, columns = h // size, w // size
    grid = frames[:, :, : rows * size, : columns * size]
    grid = grid.reshape(n, c, size, rows, size, columns).permute(0, 3, 5, 1, 2, 4)
    return grid.reshape(n, rows * columns, c * size * size)


# %% nothing-dropped
# misconception: pictures come in multiples of the patch size
# fails: test_gradients_reach_their_patch, test_patches_at_several_sizes, test_patches_drop_what_is_left_over, test_patches_of_every_layout
# says: is invalid for input of size 150
def to_patches(frames, size):
    n, c, h, w = frames.shape
    rows, columns = h // size, w // size
    grid = frames.reshape(n, c, rows, size, columns, size).permute(0, 2, 4, 1, 3, 5)
    return grid.reshape(n, rows * columns, c * size * size)


# %% dropped-at-the-top-and-left
# misconception: a slice with negative start drops what is at the end
# fails: test_gradients_reach_their_patch, test_patches_at_several_sizes, test_patches_drop_what_is_left_over, test_patches_of_every_layout
# says: The last patch
def to_patches(frames, size):
    n, c, h, w = frames.shape
    rows, columns = h // size, w // size
    grid = frames[:, :, -rows * size :, -columns * size :]
    grid = grid.reshape(n, c, rows, size, columns, size).permute(0, 2, 4, 1, 3, 5)
    return grid.reshape(n, rows * columns, c * size * size)


# %% columns-of-a-float-image
# misconception: unfold of torch.nn.functional takes any dtype
# fails: test_patches_are_not_cut_out_one_at_a_time, test_patches_at_several_sizes, test_patches_drop_what_is_left_over, test_patches_of_a_counted_frame
# says: not implemented for 'Long'
def to_patches(frames, size):
    return torch.nn.functional.unfold(frames, size, stride=size).transpose(1, 2)


# %% float-for-all
# misconception: the dtype of a result is a matter of taste as long as the numbers are right
# fails: test_patches_are_not_cut_out_one_at_a_time, test_patches_at_several_sizes, test_patches_drop_what_is_left_over, test_patches_of_a_counted_frame
# says: torch.float32; expected torch.int64
def to_patches(frames, size):
    return torch.nn.functional.unfold(frames.float(), size, stride=size).transpose(1, 2)


# %% patches-not-transposed
# misconception: unfold of torch.nn.functional returns patches in rows
# fails: test_gradients_reach_their_patch, test_patches_are_not_cut_out_one_at_a_time, test_patches_are_quick, test_patches_at_several_sizes, test_patches_drop_what_is_left_over, test_patches_of_a_counted_frame, test_patches_of_every_layout
# says: expected (1, 6, 4)
def to_patches(frames, size):
    return torch.nn.functional.unfold(frames.double(), size, stride=size).to(frames.dtype)


# %% one-patch-at-a-time
# misconception: a loop over frames and patches is slow only for large data
# fails: test_patches_are_not_cut_out_one_at_a_time, test_patches_are_quick
# says: times as fast as the plain version
def to_patches(frames, size):
    n, c, h, w = frames.shape
    clips = []
    for i in range(n):
        patches = []
        for row in range(h // size):
            for column in range(w // size):
                patch = frames[i, :, row * size : (row + 1) * size, column * size : (column + 1) * size]
                patches.append(patch.reshape(-1))
        clips.append(torch.stack(patches))
    return torch.stack(clips)


# %% through-numpy
# misconception: NumPy's reshape is free of PyTorch's complaints and loses nothing
# fails: test_gradients_reach_their_patch
# says: The gradient of each patch goes to its own pixels
def to_patches(frames, size):
    n, c, h, w = frames.shape
    rows, columns = h // size, w // size
    grid = frames.detach().numpy()[:, :, : rows * size, : columns * size]
    grid = grid.reshape(n, c, rows, size, columns, size).transpose(0, 2, 4, 1, 3, 5)
    return torch.from_numpy(grid.reshape(n, rows * columns, c * size * size))
