# %% pillow
def to_input(picture, size):
    """Pillow does the resizing, and rounds to grey levels."""
    from PIL import Image

    rgb = picture[:, :, [2, 1, 0]].contiguous().numpy()
    small = Image.fromarray(rgb).resize((size, size), Image.BILINEAR)
    values = torch.frombuffer(bytearray(small.tobytes()), dtype=torch.uint8).view(size, size, 3)
    return ((values / 255 - MEAN) / STD).permute(2, 0, 1).contiguous()

# %% resized-as-bytes
def to_input(picture, size):
    channels = picture.permute(2, 0, 1).flip(0)[None].contiguous()
    small = F.interpolate(channels, (size, size), mode="bilinear", antialias=True, align_corners=False)
    return (small[0] / 255 - MEAN.view(3, 1, 1)) / STD.view(3, 1, 1)

# %% shares-of-pixels
def shares(n_from, n_to):
    scale = n_from / n_to
    centres = scale * (torch.arange(n_to) + 0.5)
    distance = (torch.arange(n_from) + 0.5 - centres[:, None]).abs() / max(scale, 1.0)
    weights = (1 - distance).clamp_min(0)
    return weights / weights.sum(dim=1, keepdim=True)

def to_input(picture, size):
    height, width, _ = picture.shape
    values = picture.float()[..., [2, 1, 0]].movedim(-1, 0) / 255
    resized = shares(height, size) @ values @ shares(width, size).T
    return (resized - MEAN[:, None, None]) / STD[:, None, None]

# %% normalised-first
def to_input(picture, size):
    """Mean and deviation first: a weighted mean of shifted values is the shifted mean."""
    blue, green, red = picture.float().div(255).unbind(dim=-1)
    normalised = torch.stack([(x - m) / s for x, m, s in zip((red, green, blue), MEAN, STD, strict=True)])
    return F.interpolate(normalised.unsqueeze(0), size=size, mode="bilinear", antialias=True).squeeze(0)

# %% rows-then-columns
def to_input(picture, size):
    height, width, _ = picture.shape
    x = picture.to(torch.float64).permute(2, 0, 1).index_select(0, torch.tensor([2, 1, 0]))[None]
    x = F.interpolate(x, size=(height, size), mode="bilinear", antialias=True)
    x = F.interpolate(x, size=(size, size), mode="bilinear", antialias=True)
    return ((x[0] / 255 - MEAN[:, None, None]) / STD[:, None, None]).float()
