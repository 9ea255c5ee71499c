# %% chain-of-indices
def write_timecode(frames, first):
    numbers = torch.arange(first, first + len(frames))
    bits = (numbers[:, None] >> torch.arange(16)) & 1
    bits = (bits * (255 if frames.dtype == torch.uint8 else 1)).to(frames.dtype)
    frames[:, 0][:, 0][:, :16] = bits  # numbers and slices give views, so this reaches `frames`
    return frames


# %% reshape-that-is-copied-back
def write_timecode(frames, first):
    n = len(frames)
    numbers = torch.arange(first, first + n)
    bits = (numbers[:, None] >> torch.arange(16)) & 1
    bits = (bits * (255 if frames.dtype == torch.uint8 else 1)).to(frames.dtype)
    pixels = frames.reshape(n, -1)  # a view or a copy: either way it goes back into `frames` below
    pixels[:, :16] = bits
    frames.copy_(pixels.view(frames.shape))
    return frames


# %% row-viewed-flat
def write_timecode(frames, first):
    bits = (torch.arange(first, first + len(frames))[:, None] >> torch.arange(16)) & 1
    bits = (bits * (255 if frames.dtype == torch.uint8 else 1)).to(frames.dtype)
    # dropping dimensions of size one is possible as a view whatever the strides are
    frames[:, :1, :1, :16].view(len(frames), 16)[:] = bits
    return frames
