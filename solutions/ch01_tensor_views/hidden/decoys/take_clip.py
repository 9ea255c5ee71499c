# %% second-step-in-place
def take_clip(video, start, length, mean, std):
    clip = video[start : start + length]
    if clip.dtype == torch.uint8:
        clip = clip / 255
    clip = clip - mean
    clip /= std  # the subtraction has made a new tensor, which nobody else sees
    return clip


# %% indexed-with-a-tensor
def take_clip(video, start, length, mean, std):
    clip = video[torch.arange(start, start + length)]  # indices, unlike a slice, copy
    if clip.dtype == torch.uint8:
        clip = clip / 255
    clip -= mean
    clip /= std
    return clip


# %% cloned-as-a-whole
def take_clip(video, start, length, mean, std):
    video = video.clone()  # more than is needed, but the cache is safe
    clip = video[start : start + length]
    if clip.dtype == torch.uint8:
        clip = clip / 255
    clip.sub_(mean).div_(std)
    return clip
