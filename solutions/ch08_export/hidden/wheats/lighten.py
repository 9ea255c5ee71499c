# %% one-factor
DUSK, BRIGHT = 0.25, 0.5

def lighten(pictures):
    """One factor for each picture: 1 for those that stay."""
    mean = pictures.flatten(1).mean(dim=1)
    stays = (mean >= DUSK) | (mean == 0)
    factor = (BRIGHT / mean.masked_fill(stays, 1.0)).masked_fill(stays, 1.0)
    return (pictures * factor[:, None, None, None]).clamp(max=1)

# %% mixed-by-weights
DUSK, BRIGHT = 0.25, 0.5

def lighten(pictures):
    mean = pictures.sum(dim=(1, 2, 3), keepdim=True) / (pictures.shape[1] * pictures.shape[2] * pictures.shape[3])
    dark = torch.logical_and(mean > 0, mean < DUSK).to(pictures.dtype)
    divisor = dark * mean + (1 - dark)  # never zero
    lit = torch.clamp_max(BRIGHT * pictures / divisor, 1.0)
    return dark * lit + (1 - dark) * pictures

# %% chosen-by-number
DUSK, BRIGHT = 0.25, 0.5

def lighten(pictures):
    mean = pictures.mean(dim=(1, 2, 3))
    dark = (mean < DUSK) & (mean != 0)
    gain = BRIGHT / torch.where(dark, mean, torch.ones_like(mean))
    both = torch.stack([pictures, (pictures * gain.view(-1, 1, 1, 1)).clamp(0, 1)])
    index = dark.long().view(1, -1, 1, 1, 1).expand(1, *pictures.shape)
    return both.gather(0, index).squeeze(0)

# %% picture-by-picture
DUSK, BRIGHT = 0.25, 0.5

def lighten_one(picture):
    mean = picture.mean()
    dark = (mean > 0) & (mean < DUSK)
    divisor = torch.where(dark, mean, 1.0)
    return torch.where(dark, (picture * (BRIGHT / divisor)).clamp(max=1), picture)

def lighten(pictures):
    return torch.vmap(lighten_one)(pictures)

# %% limited-by-where
DUSK, BRIGHT = 0.25, 0.5

def lighten(pictures):
    channels_first = pictures.mean(dim=3).mean(dim=2).mean(dim=1)
    dark = ((channels_first > 0) & (channels_first < DUSK)).reshape(-1, 1, 1, 1)
    mean = torch.where(dark, channels_first.reshape(-1, 1, 1, 1), 2.0)
    lit = pictures / (mean / BRIGHT)
    lit = torch.where(lit > 1, torch.ones_like(lit), lit)
    return torch.where(dark, lit, pictures)
