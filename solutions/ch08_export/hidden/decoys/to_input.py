# %% blue-first-until-the-end
def to_input(picture, size):
    # blue, green, red all the way, with the means in that order; turned round in the last line
    x = picture.permute(2, 0, 1)[None].float() / 255
    x = F.interpolate(x, size=(size, size), mode="bilinear", antialias=True)[0]
    return ((x - MEAN.flip(0)[:, None, None]) / STD.flip(0)[:, None, None]).flip(0)

# %% never-divided
def to_input(picture, size):
    x = F.interpolate(picture.flip(-1).permute(2, 0, 1)[None].float(), (size, size), mode="bilinear", antialias=True)
    return (x[0] - (255 * MEAN)[:, None, None]) / (255 * STD)[:, None, None]

# %% antialiasing-where-it-matters
def to_input(picture, size):
    x = picture.permute(2, 0, 1)[None].float()[:, [2, 1, 0]]
    gets_smaller = size < max(picture.shape[:2])
    x = F.interpolate(x, (size, size), mode="bilinear", antialias=gets_smaller)  # enlarging, it makes no difference
    return (x[0] / 255 - MEAN[:, None, None]) / STD[:, None, None]
