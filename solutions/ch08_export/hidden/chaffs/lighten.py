# %% divides-on-both-sides
# misconception: a side that is not taken has no influence
# fails: test_gradients_on_both_branches, test_with_the_cap_on
# says: A black picture, alone
DUSK, BRIGHT = 0.25, 0.5

def lighten(pictures):
    mean = pictures.mean(dim=(1, 2, 3), keepdim=True)
    dark = (mean > 0) & (mean < DUSK)
    return torch.where(dark, (pictures * (BRIGHT / mean)).clamp(max=1), pictures)

# %% repaired-afterwards
# misconception: NaN can be removed at the end
# fails: test_gradients_on_both_branches, test_with_the_cap_on
# says: black picture, alone or beside
DUSK, BRIGHT = 0.25, 0.5

def lighten(pictures):
    mean = pictures.mean(dim=(1, 2, 3), keepdim=True)
    return torch.nan_to_num(torch.where(mean < DUSK, (pictures * (BRIGHT / mean)).clamp(max=1), pictures))

# %% a-little-is-added
# misconception: a small number in the divisor does no harm
# fails: test_batches_of_all_kinds, test_gradients_on_both_branches, test_very_dark_pictures, test_with_the_cap_on
# says: black picture, alone or beside
DUSK, BRIGHT = 0.25, 0.5

def lighten(pictures):
    mean = pictures.mean(dim=(1, 2, 3), keepdim=True)
    return torch.where(mean < DUSK, (pictures * (BRIGHT / (mean + 1e-6))).clamp(max=1), pictures)

# %% divisor-from-below
# misconception: where the values come out right, the gradients do
# fails: test_gradients_on_both_branches, test_with_the_cap_on
# says: black picture, alone or beside
DUSK, BRIGHT = 0.25, 0.5

def lighten(pictures):
    mean = pictures.mean(dim=(1, 2, 3), keepdim=True)
    return torch.where(mean < DUSK, (pictures * (BRIGHT / mean.clamp_min(1e-8))).clamp(max=1), pictures)

# %% factor-without-a-gradient
# misconception: the factor is a constant
# fails: test_gradients_on_both_branches, test_very_dark_pictures, test_what_a_dark_picture_learns
# says: the part of the mean included
DUSK, BRIGHT = 0.25, 0.5

def lighten(pictures):
    mean = pictures.mean(dim=(1, 2, 3), keepdim=True).detach()
    dark = (mean > 0) & (mean < DUSK)
    return torch.where(dark, (pictures * (BRIGHT / torch.where(dark, mean, 1.0))).clamp(max=1), pictures)

# %% one-after-the-other
# misconception: an `if` for each picture is better than one for all
# fails: test_exported_by_day_served_at_night, test_served_on_both_branches
# says: Exported with bright pictures
DUSK, BRIGHT = 0.25, 0.5

def lighten(pictures):
    results = []
    for picture in pictures:
        mean = picture.mean()
        results.append((picture * (BRIGHT / mean)).clamp(max=1) if 0 < mean < DUSK else picture)
    return torch.stack(results)

# %% channel-by-channel
# misconception: the mean of a picture is one for each channel
# fails: test_batches_of_all_kinds, test_gradients_on_both_branches, test_served_on_both_branches
# says: Dark, bright and black pictures
DUSK, BRIGHT = 0.25, 0.5

def lighten(pictures):
    mean = pictures.mean(dim=(2, 3), keepdim=True)
    dark = (mean > 0) & (mean < DUSK)
    return torch.where(dark, (pictures * (BRIGHT / torch.where(dark, mean, 1.0))).clamp(max=1), pictures)

# %% no-limit
# misconception: the network does not mind values above 1
# fails: test_a_dark_picture_alone, test_batches_of_all_kinds, test_each_picture_by_itself, test_exported_by_day_served_at_night, test_gradients_on_both_branches, test_served_on_both_branches, test_very_dark_pictures
# says: A picture with mean 0.1
DUSK, BRIGHT = 0.25, 0.5

def lighten(pictures):
    mean = pictures.mean(dim=(1, 2, 3), keepdim=True)
    dark = (mean > 0) & (mean < DUSK)
    return torch.where(dark, pictures * (BRIGHT / torch.where(dark, mean, 1.0)), pictures)

# %% added-instead
# misconception: to brighten is to add
# fails: test_a_dark_picture_alone, test_batches_of_all_kinds, test_each_picture_by_itself, test_exported_by_day_served_at_night, test_gradients_on_both_branches, test_served_on_both_branches, test_very_dark_pictures, test_what_a_dark_picture_learns
# says: A picture with mean 0.1
DUSK, BRIGHT = 0.25, 0.5

def lighten(pictures):
    mean = pictures.mean(dim=(1, 2, 3), keepdim=True)
    dark = (mean > 0) & (mean < DUSK)
    return torch.where(dark, (pictures + BRIGHT - mean).clamp(max=1), pictures)

# %% at-the-threshold
# misconception: below and up to are the same
# fails: test_each_picture_by_itself
# says: neither is one with mean 0.25
DUSK, BRIGHT = 0.25, 0.5

def lighten(pictures):
    mean = pictures.mean(dim=(1, 2, 3), keepdim=True)
    dark = (mean > 0) & (mean <= DUSK)
    return torch.where(dark, (pictures * (BRIGHT / torch.where(dark, mean, 1.0))).clamp(max=1), pictures)

# %% a-soft-decision
# misconception: a decision has to be smooth to have a gradient
# fails: test_batches_of_all_kinds, test_each_picture_by_itself, test_gradients_on_both_branches
# says: The result
DUSK, BRIGHT = 0.25, 0.5

def lighten(pictures):
    mean = pictures.mean(dim=(1, 2, 3), keepdim=True)
    share = torch.sigmoid(200 * (DUSK - mean)) * (mean > 0)
    lit = (pictures * (BRIGHT / torch.where(mean > 0, mean, 1.0))).clamp(max=1)
    return share * lit + (1 - share) * pictures

# %% always-in-float32
# misconception: pictures are float32
# fails: test_batches_of_all_kinds, test_gradients_on_both_branches
# says: in float32 and float64
DUSK, BRIGHT = 0.25, 0.5

def lighten(pictures):
    small = pictures.float()
    mean = small.mean(dim=(1, 2, 3), keepdim=True)
    dark = (mean > 0) & (mean < DUSK)
    lit = torch.where(dark, (small * (BRIGHT / torch.where(dark, mean, 1.0))).clamp(max=1), small)
    return lit.to(pictures.dtype)

# %% in-place
# misconception: nobody needs the dark pictures afterwards
# fails: test_gradients_on_both_branches, test_pictures_are_left_alone, test_very_dark_pictures, test_what_a_dark_picture_learns, test_with_the_cap_on
# says: not changed
DUSK, BRIGHT = 0.25, 0.5

def lighten(pictures):
    mean = pictures.mean(dim=(1, 2, 3), keepdim=True)
    dark = (mean > 0) & (mean < DUSK)
    result = torch.where(dark, (pictures * (BRIGHT / torch.where(dark, mean, 1.0))).clamp(max=1), pictures)
    if not torch.compiler.is_compiling():
        pictures.detach().copy_(result.detach())
    return result

# %% hardly-dark-enough
# misconception: a mean of nearly zero may count as zero
# fails: test_very_dark_pictures
# says: Pictures so dark that hardly a pixel
DUSK, BRIGHT = 0.25, 0.5

def lighten(pictures):
    mean = pictures.mean(dim=(1, 2, 3), keepdim=True)
    dark = (mean > 1e-3) & (mean < DUSK)
    return torch.where(dark, (pictures * (BRIGHT / torch.where(dark, mean, 1.0))).clamp(max=1), pictures)
