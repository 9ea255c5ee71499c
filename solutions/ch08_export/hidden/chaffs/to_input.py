# %% means-turned-round-instead
# misconception: where the means have the camera's order, the channels may keep it as well
# fails: test_a_blue_wall, test_a_grey_wall, test_fine_stripes_become_grey, test_pictures_of_every_layout, test_pictures_taken_at_night, test_pixels_of_fine_patterns, test_pixels_of_photographs, test_small_pictures_are_enlarged, test_two_pixels_become_four
# says: The camera sends 255, 0, 0 for blue
def to_input(picture, size):
    x = F.interpolate(picture.permute(2, 0, 1)[None].float(), (size, size), mode="bilinear", antialias=True)[0] / 255
    return (x - MEAN.flip(0)[:, None, None]) / STD.flip(0)[:, None, None]

# %% means-of-the-wrong-channels
# misconception: the means are in the order of the camera
# fails: test_a_blue_wall, test_a_grey_wall, test_fine_stripes_become_grey, test_pictures_of_every_layout, test_pictures_taken_at_night, test_pixels_of_fine_patterns, test_pixels_of_photographs, test_small_pictures_are_enlarged, test_two_pixels_become_four
# says: the numbers 0.2 less MEAN
def to_input(picture, size):
    x = F.interpolate(picture.flip(-1).permute(2, 0, 1)[None].float(), (size, size), mode="bilinear", antialias=True)
    return (x[0] / 255 - MEAN.flip(0)[:, None, None]) / STD.flip(0)[:, None, None]

# %% mirrored
# misconception: flip turns round the dimension that one has in mind
# fails: test_a_blue_wall, test_pictures_of_every_layout, test_pictures_taken_at_night, test_pixels_of_fine_patterns, test_pixels_of_photographs, test_small_pictures_are_enlarged, test_two_pixels_become_four
# says: The camera sends 255, 0, 0 for blue
def to_input(picture, size):
    x = F.interpolate(picture.flip(1).permute(2, 0, 1)[None].float(), (size, size), mode="bilinear", antialias=True)
    return (x[0] / 255 - MEAN[:, None, None]) / STD[:, None, None]

# %% divided-where-it-looks-like-bytes
# misconception: a picture with values above 1 has not been divided yet, any other one has
# fails: test_pictures_taken_at_night
# says: grey levels of 0 and 1 only
def to_input(picture, size):
    x = F.interpolate(picture.flip(-1).permute(2, 0, 1)[None].float(), (size, size), mode="bilinear", antialias=True)
    x = x[0] / 255 if picture.max() > 1 else x[0]
    return (x - MEAN[:, None, None]) / STD[:, None, None]

# %% divided-by-its-own-maximum
# misconception: the brightest pixel of a picture is 1
# fails: test_a_grey_wall, test_fine_stripes_become_grey, test_pictures_of_every_layout, test_pictures_taken_at_night, test_pixels_of_fine_patterns, test_pixels_of_photographs, test_small_pictures_are_enlarged, test_two_pixels_become_four
# says: the numbers 0.2 less MEAN
def to_input(picture, size):
    x = F.interpolate(picture.flip(-1).permute(2, 0, 1)[None].float(), (size, size), mode="bilinear", antialias=True)
    return (x[0] / x.max().clamp_min(1) - MEAN[:, None, None]) / STD[:, None, None]

# %% its-own-mean-and-deviation
# misconception: to normalise is to give each picture mean 0 and deviation 1
# fails: test_a_blue_wall, test_a_grey_wall, test_fine_stripes_become_grey, test_pictures_of_every_layout, test_pictures_taken_at_night, test_pixels_of_fine_patterns, test_pixels_of_photographs, test_small_pictures_are_enlarged, test_two_pixels_become_four
# says: the numbers 0.2 less MEAN
def to_input(picture, size):
    x = F.interpolate(picture.flip(-1).permute(2, 0, 1)[None].float(), (size, size), mode="bilinear", antialias=True)
    x = x[0] / 255
    return (x - x.mean(dim=(1, 2), keepdim=True)) / (x.std(dim=(1, 2), keepdim=True) + 1e-6)

# %% nearest
# misconception: which interpolation it is makes no difference to a network
# fails: test_fine_stripes_become_grey, test_pictures_of_every_layout, test_pictures_taken_at_night, test_pixels_of_fine_patterns, test_pixels_of_photographs, test_small_pictures_are_enlarged, test_two_pixels_become_four
# says: Of 64 columns every fourth is white
def to_input(picture, size):
    x = F.interpolate(picture.flip(-1).permute(2, 0, 1)[None].float(), (size, size), mode="nearest")
    return (x[0] / 255 - MEAN[:, None, None]) / STD[:, None, None]

# %% means-of-areas
# misconception: the mean over the area of the new pixel is the same as antialiasing
# fails: test_pictures_of_every_layout, test_pictures_taken_at_night, test_pixels_of_fine_patterns, test_pixels_of_photographs, test_small_pictures_are_enlarged, test_two_pixels_become_four
# says: 0, 0.2, 0.6 and 0.8
def to_input(picture, size):
    x = F.interpolate(picture.flip(-1).permute(2, 0, 1)[None].float(), (size, size), mode="area")
    return (x[0] / 255 - MEAN[:, None, None]) / STD[:, None, None]

# %% corners-aligned
# misconception: the corners of both pictures should be the same pixels
# fails: test_fine_stripes_become_grey, test_pictures_of_every_layout, test_pictures_taken_at_night, test_pixels_of_fine_patterns, test_pixels_of_photographs, test_small_pictures_are_enlarged, test_two_pixels_become_four
# says: 0, 0.2, 0.6 and 0.8
def to_input(picture, size):
    x = picture.flip(-1).permute(2, 0, 1)[None].float()
    x = F.interpolate(x, (size, size), mode="bilinear", antialias=True, align_corners=True)
    return (x[0] / 255 - MEAN[:, None, None]) / STD[:, None, None]

# %% bicubic
# misconception: the better interpolation does no harm (it is Pillow's default)
# fails: test_pictures_of_every_layout, test_pixels_of_fine_patterns, test_pixels_of_photographs, test_small_pictures_are_enlarged, test_two_pixels_become_four
# says: every pixel within one grey level
def to_input(picture, size):
    x = picture.flip(-1).permute(2, 0, 1)[None].float()
    x = F.interpolate(x, (size, size), mode="bicubic", antialias=True).clamp(0, 255)
    return (x[0] / 255 - MEAN[:, None, None]) / STD[:, None, None]

# %% cut-to-a-square
# misconception: a picture keeps its proportions, and what does not fit is cut off
# fails: test_pictures_of_every_layout, test_pictures_taken_at_night, test_pixels_of_fine_patterns, test_pixels_of_photographs, test_small_pictures_are_enlarged
# says: Photographs of odd sizes and shapes
def to_input(picture, size):
    height, width, _ = picture.shape
    side = min(height, width)
    top, left = (height - side) // 2, (width - side) // 2
    x = picture[top : top + side, left : left + side].flip(-1).permute(2, 0, 1)[None].float()
    x = F.interpolate(x, (size, size), mode="bilinear", antialias=True)
    return (x[0] / 255 - MEAN[:, None, None]) / STD[:, None, None]

# %% reshaped
# misconception: a picture with the channels last is read as one with the channels first
# fails: test_a_blue_wall, test_pictures_of_every_layout, test_pictures_taken_at_night, test_pixels_of_fine_patterns, test_pixels_of_photographs, test_small_pictures_are_enlarged, test_two_pixels_become_four
# says: The camera sends 255, 0, 0 for blue
def to_input(picture, size):
    height, width, _ = picture.shape
    x = picture.flip(-1).reshape(1, 3, height, width).float()
    x = F.interpolate(x, (size, size), mode="bilinear", antialias=True)
    return (x[0] / 255 - MEAN[:, None, None]) / STD[:, None, None]

# %% turned-round-in-place
# misconception: nobody needs the picture afterwards
# fails: test_picture_stays_as_it_is
# says: The picture is not changed
def to_input(picture, size):
    rgb = picture.clone()
    picture.copy_(rgb.flip(-1)) if picture.is_contiguous() else None
    x = F.interpolate(rgb.flip(-1).permute(2, 0, 1)[None].float(), (size, size), mode="bilinear", antialias=True)
    return (x[0] / 255 - MEAN[:, None, None]) / STD[:, None, None]

# %% a-batch-of-one
# misconception: a network takes batches, so this returns one
# fails: test_a_blue_wall, test_a_grey_wall, test_fine_stripes_become_grey, test_pictures_of_every_layout, test_pictures_taken_at_night, test_pixels_of_fine_patterns, test_pixels_of_photographs, test_small_pictures_are_enlarged, test_two_pixels_become_four
# says: The result
def to_input(picture, size):
    x = F.interpolate(picture.flip(-1).permute(2, 0, 1)[None].float(), (size, size), mode="bilinear", antialias=True)
    return (x / 255 - MEAN[:, None, None]) / STD[:, None, None]
