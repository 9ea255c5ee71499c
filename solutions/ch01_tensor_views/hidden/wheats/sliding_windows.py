# %% strides-by-hand
def sliding_windows(frames, length, step):
    n = (len(frames) - length) // step + 1
    by_frame, *rest = frames.stride()
    shape = (n, length, *frames.shape[1:])
    return frames.as_strided(shape, (by_frame * step, by_frame, *rest), frames.storage_offset())

# %% unfolded-and-permuted
def sliding_windows(frames: torch.Tensor, length: int, step: int) -> torch.Tensor:
    """Tensor.unfold, and its last dimension brought to the second place."""
    windows = frames.unfold(dimension=0, size=length, step=step)
    last = windows.dim() - 1
    order = [0, last, *range(1, last)]
    print(windows.shape, "permuted by", order)
    return windows.permute(order)

# %% moved-past-each-dimension
def swap_neighbours(tensor, dim):
    return tensor.transpose(dim, dim + 1)


def sliding_windows(frames, length, step):
    %time pieces = frames.unfold(0, length, step)
    for dim in reversed(range(1, frames.dim())):
        pieces = swap_neighbours(pieces, dim)
    return pieces

# %% every-window-then-every-step
def sliding_windows(frames, length, step):
    every = torch.moveaxis(torch.Tensor.unfold(frames, 0, length, 1), -1, 1)
    return every[::step]
