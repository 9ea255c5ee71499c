# %% contiguous-then-view
def to_patches(frames, size):
    n, c, h, w = frames.shape
    rows, columns = h // size, w // size
    grid = frames[:, :, : rows * size, : columns * size]
    grid = grid.unflatten(3, (columns, size)).unflatten(2, (rows, size)).permute(0, 2, 4, 1, 3, 5)
    # the copy has to be made anyway
    return grid.contiguous().view(n, rows * columns, c * size * size)


# %% view-else-reshape
def to_patches(frames, size):
    n, c, h, w = frames.shape
    rows, columns = h // size, w // size
    grid = frames[:, :, : rows * size, : columns * size]
    grid = grid.reshape(n, c, rows, size, columns, size).permute(0, 2, 4, 1, 3, 5)
    try:
        return grid.view(n, rows * columns, c * size * size)
    except RuntimeError:
        return grid.reshape(n, rows * columns, c * size * size)  # nobody was promised a view


# %% first-view-is-legal
def to_patches(frames, size):
    n, c, h, w = frames.shape
    rows, columns = h // size, w // size
    grid = frames[:, :, : rows * size, : columns * size]
    # splitting dimensions never needs a copy; only merging them does
    grid = grid.view(n, c, rows, size, columns, size).permute(0, 2, 4, 1, 3, 5)
    return grid.reshape(n, rows * columns, c * size * size)
