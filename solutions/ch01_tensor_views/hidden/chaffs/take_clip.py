# %% contiguous-slice
# misconception: contiguous() always makes a copy
# fails: test_gradients_reach_the_video, test_second_epoch_equals_first, test_video_is_not_written_to, test_videos_of_all_layouts_stay_as_they_were
# says: The cached video is the same after the call as before
def take_clip(video, start, length, mean, std):
    clip = video[start : start + length].contiguous()
    if clip.dtype == torch.uint8:
        clip = clip / 255
    clip -= mean
    clip /= std
    return clip


# %% cast-to-float
# misconception: float() always makes a copy
# fails: test_gradients_reach_the_video, test_second_epoch_equals_first, test_video_is_not_written_to, test_videos_of_all_layouts_stay_as_they_were
# says: After the call of `take_clip`, its first argument
def take_clip(video, start, length, mean, std):
    clip = video[start : start + length].float()
    if video.dtype == torch.uint8:
        clip = clip / 255
    clip -= mean
    clip /= std
    return clip


# %% only-the-division-repaired
# misconception: one of the two statements was the culprit
# fails: test_gradients_reach_the_video, test_second_epoch_equals_first, test_video_is_not_written_to, test_videos_of_all_layouts_stay_as_they_were
# says: After the call of `take_clip`, its first argument
def take_clip(video, start, length, mean, std):
    clip = video[start : start + length]
    if clip.dtype == torch.uint8:
        clip = clip / 255
    clip -= mean
    return clip / std


# %% cloned-at-the-end
# misconception: it is the result that must not share memory; when the copy is made does not matter
# fails: test_gradients_reach_the_video, test_second_epoch_equals_first, test_video_is_not_written_to, test_videos_of_all_layouts_stay_as_they_were
# says: The cached video is the same after the call as before
def take_clip(video, start, length, mean, std):
    clip = video[start : start + length]
    if clip.dtype == torch.uint8:
        clip = clip / 255
    clip -= mean
    clip /= std
    return clip.clone()


# %% restored-afterwards
# misconception: what was subtracted and divided can be added and multiplied back without loss
# fails: test_gradients_reach_the_video, test_second_epoch_equals_first, test_video_is_not_written_to, test_videos_of_all_layouts_stay_as_they_were
# says: Cutting the same clip twice gives the same clip
def take_clip(video, start, length, mean, std):
    clip = video[start : start + length]
    if clip.dtype == torch.uint8:
        clip = clip / 255
    clip -= mean
    clip /= std
    result = clip.clone()
    clip *= std
    clip += mean
    return result


# %% detached-slice
# misconception: detach() gives a tensor with memory of its own
# fails: test_gradients_reach_the_video, test_second_epoch_equals_first, test_video_is_not_written_to, test_videos_of_all_layouts_stay_as_they_were
# says: The cached video is the same after the call as before
def take_clip(video, start, length, mean, std):
    clip = video[start : start + length].detach()
    if clip.dtype == torch.uint8:
        clip = clip / 255
    clip -= mean
    clip /= std
    return clip


# %% copy-without-gradient
# misconception: clone().detach() is how one copies a tensor, always
# fails: test_gradients_reach_the_video
# says: A learned video gets the right gradient
def take_clip(video, start, length, mean, std):
    clip = video[start : start + length].clone().detach()
    if clip.dtype == torch.uint8:
        clip = clip / 255
    return (clip - mean) / std


# %% statistics-for-channels-first
# misconception: mean and std are always viewed as (C, 1, 1)
# fails: test_byte_videos, test_clip_is_normalised, test_gradients_reach_the_video, test_second_epoch_equals_first, test_video_is_not_written_to, test_videos_of_all_layouts_stay_as_they_were
# says: must match the size of tensor b (3)
def take_clip(video, start, length, mean, std):
    clip = video[start : start + length]
    if clip.dtype == torch.uint8:
        clip = clip / 255
    return (clip - mean.view(-1, 1, 1)) / std.view(-1, 1, 1)


# %% one-mean-for-all-channels
# misconception: the channels are so alike that one number does
# fails: test_byte_videos, test_clip_is_normalised, test_gradients_reach_the_video, test_second_epoch_equals_first, test_videos_of_all_layouts_stay_as_they_were
# says: A value one deviation above the mean becomes 1
def take_clip(video, start, length, mean, std):
    clip = video[start : start + length]
    if clip.dtype == torch.uint8:
        clip = clip / 255
    return (clip - mean.mean()) / std.mean()


# %% bytes-kept-as-they-are
# misconception: converting to float brings bytes to 0..1
# fails: test_byte_videos, test_clip_is_normalised
# says: got 1274, expected 4
def take_clip(video, start, length, mean, std):
    clip = video[start : start + length]
    if clip.dtype == torch.uint8:
        clip = clip.float()
    return (clip - mean) / std


# %% whole-division-of-bytes
# misconception: // and / are the same for numbers that are whole
# fails: test_byte_videos
# says: Videos of bytes are brought to 0..1 first
def take_clip(video, start, length, mean, std):
    clip = video[start : start + length]
    if clip.dtype == torch.uint8:
        clip = clip // 255
    return (clip - mean) / std


# %% end-instead-of-length
# misconception: the second number of a slice is a length
# fails: test_byte_videos, test_clip_is_normalised, test_gradients_reach_the_video, test_second_epoch_equals_first, test_videos_of_all_layouts_stay_as_they_were
# says: expected (2, 2, 2, 3)
def take_clip(video, start, length, mean, std):
    clip = video[start:length]
    if clip.dtype == torch.uint8:
        clip = clip / 255
    return (clip - mean) / std
