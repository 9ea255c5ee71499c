# %% view-that-is-legal
def to_model_layout(frames, size):
    n, h, w, c = frames.shape
    top, left = (h - size) // 2, (w - size) // 2
    pixels = frames.permute(0, 3, 1, 2)[:, :, top : top + size, left : left + size]
    return pixels.view(n, c, size, size)  # the shape that it has already: no layout forbids it


# %% expanded-to-its-own-shape
def to_model_layout(frames, size):
    n, h, w, c = frames.shape
    top, left = (h - size) // 2, (w - size) // 2
    pixels = torch.einsum("nhwc->nchw", frames)  # without a sum, einsum only permutes
    return pixels[..., top : top + size, left : left + size].expand(n, c, size, size)


# %% height-and-width-swapped-twice
def to_model_layout(frames, size):
    n, h, w, c = frames.shape
    top, left = (h - size) // 2, (w - size) // 2
    pixels = frames.permute(0, 3, 2, 1)[:, :, left : left + size, top : top + size]
    return pixels.mT
