# %% view-instead-of-reshape
# misconception: an exception is better than a silent copy, and repair enough
# fails: test_timecode_in_a_crop, test_timecode_in_every_layout, test_timecode_is_there_in_every_layout
# says: view size is not compatible
def write_timecode(frames, first):
    n = len(frames)
    numbers = torch.arange(first, first + n, device=frames.device)
    bits = (numbers[:, None] >> torch.arange(16, device=frames.device)) & 1
    bits = (bits * (255 if frames.dtype == torch.uint8 else 1)).to(frames.dtype)
    pixels = frames.view(n, -1)
    pixels[:, :16] = bits
    return frames


# %% view-else-reshape
# misconception: where view is refused, reshape does the same
# fails: test_timecode_in_a_crop, test_timecode_in_every_layout, test_timecode_is_there_in_every_layout
# says: The frame numbers read back
def write_timecode(frames, first):
    n = len(frames)
    numbers = torch.arange(first, first + n, device=frames.device)
    bits = (numbers[:, None] >> torch.arange(16, device=frames.device)) & 1
    bits = (bits * (255 if frames.dtype == torch.uint8 else 1)).to(frames.dtype)
    try:
        pixels = frames.view(n, -1)
    except RuntimeError:
        pixels = frames.reshape(n, -1)
    pixels[:, :16] = bits
    return frames


# %% flattened
# misconception: flatten never copies
# fails: test_timecode_in_a_crop, test_timecode_in_every_layout, test_timecode_is_there_in_every_layout
# says: a crop that lies channels last
def write_timecode(frames, first):
    n = len(frames)
    numbers = torch.arange(first, first + n, device=frames.device)
    bits = (numbers[:, None] >> torch.arange(16, device=frames.device)) & 1
    bits = (bits * (255 if frames.dtype == torch.uint8 else 1)).to(frames.dtype)
    frames.flatten(1)[:, :16] = bits
    return frames


# %% made-contiguous-first
# misconception: after `frames = frames.contiguous()` the caller's tensor is contiguous, too
# fails: test_timecode_in_a_crop, test_timecode_in_every_layout, test_timecode_is_there_in_every_layout
# says: a crop that lies channels last
def write_timecode(frames, first):
    n = len(frames)
    numbers = torch.arange(first, first + n, device=frames.device)
    bits = (numbers[:, None] >> torch.arange(16, device=frames.device)) & 1
    bits = (bits * (255 if frames.dtype == torch.uint8 else 1)).to(frames.dtype)
    frames = frames.contiguous()
    frames.view(n, -1)[:, :16] = bits
    return frames


# %% channel-flattened
# misconception: a single channel can be flattened as a view in every layout (it cannot be in a crop)
# fails: test_timecode_in_a_crop, test_timecode_in_every_layout, test_timecode_is_there_in_every_layout
# says: from a crop that lies channels last
def write_timecode(frames, first):
    n = len(frames)
    numbers = torch.arange(first, first + n, device=frames.device)
    bits = (numbers[:, None] >> torch.arange(16, device=frames.device)) & 1
    bits = (bits * (255 if frames.dtype == torch.uint8 else 1)).to(frames.dtype)
    pixels = frames[:, 0].reshape(n, -1)
    pixels[:, :16] = bits
    return frames


# %% pipeline-clips-by-their-layout
# misconception: what is not contiguous is channels last, and nothing else
# fails: test_timecode_in_a_crop, test_timecode_in_every_layout, test_timecode_is_there_in_every_layout
# says: from a crop that lies channels last
def write_timecode(frames, first):
    n, c = frames.shape[:2]
    numbers = torch.arange(first, first + n, device=frames.device)
    bits = (numbers[:, None] >> torch.arange(16, device=frames.device)) & 1
    bits = (bits * (255 if frames.dtype == torch.uint8 else 1)).to(frames.dtype)
    if frames.is_contiguous():
        frames.view(n, -1)[:, :16] = bits
    else:
        frames.permute(0, 2, 3, 1).reshape(n, -1)[:, : 16 * c : c] = bits
    return frames


# %% stamped-copy
# misconception: returning the stamped frames is as good as stamping those that were handed in
# fails: test_all_sixteen_bits, test_timecode_gives_back_what_it_was_given, test_timecode_in_a_crop, test_timecode_in_every_layout, test_timecode_is_there_in_every_layout, test_timecode_is_written_in_place, test_timecode_returns_its_argument
# says: written into the frames themselves
def write_timecode(frames, first):
    n = len(frames)
    numbers = torch.arange(first, first + n, device=frames.device)
    bits = (numbers[:, None] >> torch.arange(16, device=frames.device)) & 1
    bits = (bits * (255 if frames.dtype == torch.uint8 else 1)).to(frames.dtype)
    stamped = frames.clone()
    stamped[:, 0, 0, :16] = bits
    return stamped


# %% stamped-and-then-copied
# misconception: a copy is handed back to be on the safe side
# fails: test_timecode_gives_back_what_it_was_given, test_timecode_returns_its_argument
# says: the very tensor that was handed in
def write_timecode(frames, first):
    n = len(frames)
    numbers = torch.arange(first, first + n, device=frames.device)
    bits = (numbers[:, None] >> torch.arange(16, device=frames.device)) & 1
    bits = (bits * (255 if frames.dtype == torch.uint8 else 1)).to(frames.dtype)
    frames[:, 0, 0, :16] = bits
    return frames.clone()


# %% nothing-returned
# misconception: a function that works in place has nothing to return
# fails: test_timecode_gives_back_what_it_was_given, test_timecode_in_every_layout, test_timecode_returns_its_argument
# says: what is returned shows it too
def write_timecode(frames, first):
    n = len(frames)
    numbers = torch.arange(first, first + n, device=frames.device)
    bits = (numbers[:, None] >> torch.arange(16, device=frames.device)) & 1
    bits = (bits * (255 if frames.dtype == torch.uint8 else 1)).to(frames.dtype)
    frames[:, 0, 0, :16] = bits


# %% indices-before-the-slice
# misconception: assigning to what an index tensor picked out writes to the original
# fails: test_all_sixteen_bits, test_timecode_in_a_crop, test_timecode_in_every_layout, test_timecode_is_there_in_every_layout, test_timecode_is_written_in_place
# says: written into the frames themselves
def write_timecode(frames, first):
    n = len(frames)
    numbers = torch.arange(first, first + n, device=frames.device)
    bits = (numbers[:, None] >> torch.arange(16, device=frames.device)) & 1
    bits = (bits * (255 if frames.dtype == torch.uint8 else 1)).to(frames.dtype)
    frames[torch.arange(n)][:, 0, 0, :16] = bits
    return frames


# %% highest-bit-first
# misconception: bits are written as one writes numbers, the highest on the left
# fails: test_all_sixteen_bits, test_timecode_in_a_crop, test_timecode_in_every_layout, test_timecode_is_there_in_every_layout, test_timecode_is_written_in_place
# says: The frame numbers read back
def write_timecode(frames, first):
    n = len(frames)
    numbers = torch.arange(first, first + n, device=frames.device)
    bits = (numbers[:, None] >> torch.arange(15, -1, -1, device=frames.device)) & 1
    bits = (bits * (255 if frames.dtype == torch.uint8 else 1)).to(frames.dtype)
    frames[:, 0, 0, :16] = bits
    return frames


# %% first-frame-only
# misconception: the first sixteen numbers of the batch are the first row of each frame
# fails: test_all_sixteen_bits, test_timecode_in_a_crop, test_timecode_in_every_layout, test_timecode_is_there_in_every_layout, test_timecode_is_written_in_place
# says: at index (2,) (got 0, expected 302
def write_timecode(frames, first):
    n = len(frames)
    numbers = torch.arange(first, first + n, device=frames.device)
    bits = (numbers[:, None] >> torch.arange(16, device=frames.device)) & 1
    bits = (bits * (255 if frames.dtype == torch.uint8 else 1)).to(frames.dtype)
    frames[0, 0, 0, :16] = bits[0]
    return frames


# %% all-channels
# misconception: a pixel is white only where all its channels are
# fails: test_timecode_in_a_crop, test_timecode_in_every_layout, test_timecode_is_written_in_place
# says: and nothing else is
def write_timecode(frames, first):
    n = len(frames)
    numbers = torch.arange(first, first + n, device=frames.device)
    bits = (numbers[:, None] >> torch.arange(16, device=frames.device)) & 1
    bits = (bits * (255 if frames.dtype == torch.uint8 else 1)).to(frames.dtype)
    frames[:, :, 0, :16] = bits[:, None]
    return frames


# %% one-as-the-byte-for-white
# misconception: a set bit is a 1 in every dtype
# fails: test_timecode_in_every_layout, test_timecode_is_written_in_place
# says: got 1, expected 255
def write_timecode(frames, first):
    n = len(frames)
    numbers = torch.arange(first, first + n, device=frames.device)
    bits = (numbers[:, None] >> torch.arange(16, device=frames.device)) & 1
    frames[:, 0, 0, :16] = bits.to(frames.dtype)
    return frames


# %% numbers-as-bytes
# misconception: frame numbers of a short clip fit into the dtype of its pixels
# fails: test_all_sixteen_bits, test_timecode_in_every_layout, test_timecode_is_there_in_every_layout
# says: got 44, expected 300
def write_timecode(frames, first):
    n = len(frames)
    numbers = torch.arange(first, first + n).to(torch.uint8).long()
    bits = (numbers[:, None] >> torch.arange(16)) & 1
    frames[:, 0, 0, :16] = (bits * (255 if frames.dtype == torch.uint8 else 1)).to(frames.dtype)
    return frames


# %% only-set-bits-drawn
# misconception: pixels of clear bits are dark already
# fails: test_all_sixteen_bits, test_timecode_in_a_crop, test_timecode_in_every_layout, test_timecode_is_written_in_place
# says: got 7, expected 0
def write_timecode(frames, first):
    n = len(frames)
    numbers = torch.arange(first, first + n)
    bits = (numbers[:, None] >> torch.arange(16)) & 1
    frames[:, 0, 0, :16].masked_fill_(bits.bool(), 255 if frames.dtype == torch.uint8 else 1)
    return frames
