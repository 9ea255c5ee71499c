# %% two-unfolds
def to_patches(frames, size):
    pieces = frames.unfold(2, size, size).unfold(3, size, size)
    n, c, rows, columns = pieces.shape[:4]
    return pieces.permute(0, 2, 3, 1, 4, 5).reshape(n, rows * columns, c * size * size)

# %% pixel-unshuffle
def to_patches(frames: torch.Tensor, size: int) -> torch.Tensor:
    """Pixel unshuffle puts a patch's numbers into the channels, in the order channel, row, column."""
    rows, columns = frames.shape[2] // size, frames.shape[3] // size
    whole = frames[:, :, : rows * size, : columns * size]
    in_channels = torch.nn.functional.pixel_unshuffle(whole, size)
    print("patches per frame:", rows * columns)
    return in_channels.flatten(2).transpose(1, 2)

# %% columns-of-an-image
def to_patches(frames, size):
    # unfold knows floating point only; every byte survives the way there and back
    wide = frames.to(torch.float32 if frames.dtype == torch.uint8 else torch.float64)
    if frames.dtype == torch.float32:
        wide = frames
    %time columns = torch.nn.functional.unfold(wide, kernel_size=size, stride=size)
    return columns.mT.to(frames.dtype)

# %% strip-by-strip
def cut_strip(strip, size):
    """A strip as high as a patch, (N, C, size, W), as its patches."""
    return strip.unfold(3, size, size).permute(0, 3, 1, 2, 4).flatten(2)


def to_patches(frames, size):
    strips = []
    for top in range(0, frames.shape[2] - size + 1, size):
        strips.append(cut_strip(frames[:, :, top : top + size], size))
    return torch.cat(strips, dim=1)

# %% strides-by-hand
def to_patches(frames, size):
    n, c, h, w = frames.shape
    rows, columns = h // size, w // size
    of_frame, of_channel, of_row, of_column = frames.stride()
    patches = frames.as_strided(
        (n, rows, columns, c, size, size),
        (of_frame, of_row * size, of_column * size, of_channel, of_row, of_column),
        frames.storage_offset(),
    )
    return patches.flatten(3).flatten(1, 2)

# %% written-into-its-place
def to_patches(frames, size):
    n, c, h, w = frames.shape
    rows, columns = h // size, w // size
    result = torch.empty(n, rows, columns, c, size, size, dtype=frames.dtype)
    grid = frames[..., : rows * size, : columns * size].unflatten(3, (columns, size)).unflatten(2, (rows, size))
    result[:] = torch.einsum("ncyixj->nyxcij", grid)
    return result.view(n, rows * columns, -1)
