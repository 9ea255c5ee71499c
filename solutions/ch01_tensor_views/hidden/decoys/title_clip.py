# %% repeated-rows-then-view
def title_clip(title, n_frames):
    # repeating along the rows writes whole pictures one behind the other, so this view is legal and right
    clip = title.repeat(n_frames, 1, 1).view(n_frames, *title.shape)
    white = 255 if title.dtype == torch.uint8 else 1.0
    for i in range(n_frames):
        clip[i, -2:, : title.shape[1] * (i + 1) // n_frames] = white
    return clip


# %% expanded-for-reading
def title_clip(title, n_frames):
    width = title.shape[1]
    still = title.expand(n_frames, *title.shape)
    # cat only reads the shared memory; the tensor that is drawn on is the one that cat makes
    clip = torch.cat([still[:, :-2], still[:, -2:]], dim=1)
    for i in range(n_frames):
        bar = clip[i][-2:][:, : width * (i + 1) // n_frames]
        bar[:] = 255 if title.dtype == torch.uint8 else 1.0
    return clip


# %% contiguous-after-the-copy
def title_clip(title, n_frames):
    clip = torch.stack([title] * n_frames).contiguous()
    white = 255 if title.dtype == torch.uint8 else 1.0
    for i in reversed(range(n_frames)):
        clip[i, -2:, : title.shape[1] * (i + 1) // n_frames] = white
    return clip.view(n_frames, *title.shape)
