# %% an-if-about-the-shape
DUSK, BRIGHT = 0.25, 0.5

def lighten(pictures):
    if pictures.shape[1] == 1:  # an `if`, but the number of channels is fixed in an export
        mean = pictures.mean(dim=(2, 3), keepdim=True)
    else:
        mean = pictures.mean(dim=(1, 2, 3), keepdim=True)
    dark = (mean > 0) & (mean < DUSK)
    return torch.where(dark, (pictures * (BRIGHT / torch.where(dark, mean, 1))).clamp(max=1), pictures)

# %% decided-without-a-graph
DUSK, BRIGHT = 0.25, 0.5

def lighten(pictures):
    mean = pictures.mean(dim=(1, 2, 3), keepdim=True)
    with torch.no_grad():  # the decision has no gradient anyway; the mean above keeps its own
        dark = (mean > 0) & (mean < DUSK)
    gain = BRIGHT / (mean * dark + ~dark)
    return (pictures * gain ** dark.to(mean.dtype)).clamp(max=1)
