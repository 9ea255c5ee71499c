# %% contiguous-instead-of-clone
# misconception: contiguous() always makes a copy (it does not for one frame, where nothing is repeated)
# fails: test_one_frame_has_its_own_memory, test_title_clip_may_be_edited
# says: Even a clip of a single frame is a picture of its own
def title_clip(title, n_frames):
    width = title.shape[1]
    white = 255 if title.dtype == torch.uint8 else 1.0
    clip = title.expand(n_frames, *title.shape).contiguous()
    for i in range(n_frames):
        clip[i, -2:, : width * (i + 1) // n_frames] = white
    return clip


# %% reshape-instead-of-clone
# misconception: reshape() always makes a copy
# fails: test_bar_grows, test_one_frame_has_its_own_memory, test_title_clip_matches_for_any_length, test_title_clip_may_be_edited, test_title_in_another_layout, test_title_is_not_drawn_on
# says: share memory: whoever writes to one writes to others
def title_clip(title, n_frames):
    width = title.shape[1]
    white = 255 if title.dtype == torch.uint8 else 1.0
    clip = title.expand(n_frames, *title.shape).reshape(n_frames, *title.shape)
    for i in range(n_frames):
        clip[i, -2:, : width * (i + 1) // n_frames] = white
    return clip


# %% clone-before-expand
# misconception: one clone is enough to keep everything apart; only the title needs protection
# fails: test_bar_grows, test_title_clip_matches_for_any_length, test_title_clip_may_be_edited, test_title_in_another_layout
# says: share memory: whoever writes to one writes to others
def title_clip(title, n_frames):
    width = title.shape[1]
    white = 255 if title.dtype == torch.uint8 else 1.0
    clip = title.clone().expand(n_frames, *title.shape)
    for i in range(n_frames):
        clip[i, -2:, : width * (i + 1) // n_frames] = white
    return clip


# %% clone-after-drawing
# misconception: it is the returned clip that must not share memory; when the copy is made does not matter
# fails: test_bar_grows, test_one_frame_has_its_own_memory, test_title_clip_matches_for_any_length, test_title_clip_may_be_edited, test_title_in_another_layout, test_title_is_not_drawn_on
# says: The number of white pixels per frame
def title_clip(title, n_frames):
    width = title.shape[1]
    white = 255 if title.dtype == torch.uint8 else 1.0
    clip = title.expand(n_frames, *title.shape)
    for i in range(n_frames):
        clip[i, -2:, : width * (i + 1) // n_frames] = white
    return clip.clone()


# %% title-restored-afterwards
# misconception: the title is the only victim, so putting it back is a repair
# fails: test_bar_grows, test_title_clip_matches_for_any_length, test_title_in_another_layout
# says: The number of white pixels per frame
def title_clip(title, n_frames):
    width = title.shape[1]
    white = 255 if title.dtype == torch.uint8 else 1.0
    before = title.clone()
    clip = title.expand(n_frames, *title.shape)
    for i in range(n_frames):
        clip[i, -2:, : width * (i + 1) // n_frames] = white
    clip = clip.clone()
    title.copy_(before)
    return clip


# %% same-frame-in-a-list
# misconception: assigning a tensor to another name makes another tensor
# fails: test_bar_grows, test_one_frame_has_its_own_memory, test_title_clip_matches_for_any_length, test_title_clip_may_be_edited, test_title_in_another_layout, test_title_is_not_drawn_on
# says: The still picture is the same after the call as before
def title_clip(title, n_frames):
    white = 255 if title.dtype == torch.uint8 else 1.0
    frames = []
    for i in range(n_frames):
        frame = title
        frame[-2:, : title.shape[1] * (i + 1) // n_frames] = white
        frames.append(frame)
    return torch.stack(frames)


# %% repeated-along-the-width
# misconception: repeat and a view to the wanted shape give whole pictures, whichever dimension is repeated
# fails: test_title_clip_has_its_frames, test_title_clip_matches_for_any_length, test_title_in_another_layout
# says: The picture above the bar
def title_clip(title, n_frames):
    width = title.shape[1]
    white = 255 if title.dtype == torch.uint8 else 1.0
    clip = title.repeat(1, n_frames, 1).view(n_frames, *title.shape)
    for i in range(n_frames):
        clip[i, -2:, : width * (i + 1) // n_frames] = white
    return clip


# %% bar-counts-from-zero
# misconception: the last frame's bar is full whether one counts from 0 or from 1
# fails: test_bar_grows, test_title_clip_matches_for_any_length, test_title_in_another_layout
# says: got 0, expected 2
def title_clip(title, n_frames):
    width = title.shape[1]
    white = 255 if title.dtype == torch.uint8 else 1.0
    clip = title.repeat(n_frames, 1, 1, 1)
    for i in range(n_frames):
        clip[i, -2:, : width * i // n_frames] = white
    return clip


# %% float-for-all
# misconception: float is the safe dtype for any picture
# fails: test_title_clip_has_its_frames, test_title_clip_matches_for_any_length
# says: for bytes and for floats
def title_clip(title, n_frames):
    width = title.shape[1]
    white = 255 if title.dtype == torch.uint8 else 1.0
    clip = torch.zeros(n_frames, *title.shape) + title
    for i in range(n_frames):
        clip[i, -2:, : width * (i + 1) // n_frames] = white
    return clip


# %% bar-in-one-channel
# misconception: white in the first channel is white
# fails: test_title_clip_matches_for_any_length, test_title_in_another_layout
# says: The clip is right for one frame and for many
def title_clip(title, n_frames):
    width = title.shape[1]
    white = 255 if title.dtype == torch.uint8 else 1.0
    clip = torch.stack([title] * n_frames)
    for i in range(n_frames):
        clip[i, -2:, : width * (i + 1) // n_frames, 0] = white
    return clip
