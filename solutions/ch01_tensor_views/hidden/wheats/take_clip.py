# %% functional-steps
def take_clip(video, start, length, mean, std):
    clip = video[start : start + length]
    if clip.dtype == torch.uint8:
        clip = clip / 255
    return clip.sub(mean).div(std)

# %% cloned-then-in-place
def take_clip(video: torch.Tensor, start: int, length: int, mean: torch.Tensor, std: torch.Tensor) -> torch.Tensor:
    """In-place arithmetic is fine on a tensor of one's own."""
    own = video.narrow(0, start, length).clone()
    if own.dtype == torch.uint8:
        own = own.to(mean.dtype).div_(255)
    own -= mean
    own /= std
    return own

# %% frame-by-frame-and-channel
def normalise_channel(channel, centre, spread):
    return (channel - centre) / spread


def take_clip(video, start, length, mean, std):
    print("clip from", start, "to", start + length)
    scale = 255 if video.dtype == torch.uint8 else 1
    frames = []
    for i in range(start, start + length):
        channels = [normalise_channel(video[i, ..., c] / scale, mean[c], std[c]) for c in range(video.shape[-1])]
        frames.append(torch.stack(channels, dim=-1))
    return torch.stack(frames)

# %% always-single-precision
def take_clip(video, start, length, mean, std):
    %time clip = video[start : start + length].clone().float()
    if video.dtype == torch.uint8:
        clip.mul_(1 / 255)
    return (clip - mean.float()) / std.float()

# %% one-multiplication
def take_clip(video, start, length, mean, std):
    # (x - mean) / std as a * x + b, with the division by 255 in the same factor
    is_bytes = video.dtype == torch.uint8
    scale = 1 / (std * 255) if is_bytes else 1 / std
    return torch.addcmul(-mean / std, video[start : start + length].to(mean.dtype), scale)

# %% channels-first-inside
def take_clip(video, start, length, mean, std):
    channels_first = video[start : start + length].permute(0, 3, 1, 2)
    if channels_first.dtype == torch.uint8:
        channels_first = channels_first / 255.0
    normal = (channels_first - mean.view(1, -1, 1, 1)) / std.view(1, -1, 1, 1)
    return normal.contiguous().permute(0, 2, 3, 1)
