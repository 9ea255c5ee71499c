# %% cropped-before-the-permute
def to_model_layout(frames, size):
    _, h, w, _ = frames.shape
    top, left = (h - size) // 2, (w - size) // 2
    return frames[:, top : top + size, left : left + size].permute(0, 3, 1, 2)

# %% two-transposes-and-narrow
def to_model_layout(frames: torch.Tensor, size: int) -> torch.Tensor:
    """Swap neighbours twice: (N, H, W, C), (N, H, C, W), (N, C, H, W)."""
    channels_first = frames.transpose(2, 3).transpose(1, 2)
    for dim in (2, 3):
        extent = channels_first.size(dim)
        print("cropping", extent, "to", size)
        channels_first = channels_first.narrow(dim, (extent - size) // 2, size)
    return channels_first

# %% strides-by-hand
def to_model_layout(frames, size):
    n, h, w, c = frames.shape
    of_frame, of_row, of_column, of_channel = frames.stride()
    offset = frames.storage_offset() + (h - size) // 2 * of_row + (w - size) // 2 * of_column
    %time result = frames.as_strided((n, c, size, size), (of_frame, of_channel, of_row, of_column), offset)
    return result

# %% moved-and-split
def middle(extent, size):
    before = (extent - size) // 2
    return [before, size, extent - size - before]


def to_model_layout(frames, size):
    rows = frames.split(middle(frames.shape[1], size), dim=1)[1]
    pixels = rows.split(middle(frames.shape[2], size), dim=2)[1]
    return torch.movedim(pixels, -1, 1)
