# %% repeated
def title_clip(title, n_frames):
    width = title.shape[1]
    white = 255 if title.dtype == torch.uint8 else 1.0
    clip = title.repeat(n_frames, 1, 1, 1)
    for i in range(n_frames):
        clip[i, -2:, : width * (i + 1) // n_frames] = white
    return clip

# %% mask-of-all-frames
def title_clip(title: torch.Tensor, n_frames: int) -> torch.Tensor:
    """Decide for every pixel of every frame whether it belongs to the bar, without a loop."""
    height, width, _ = title.shape
    filled = width * torch.arange(1, n_frames + 1) // n_frames
    in_bar = torch.arange(width) < filled[:, None]
    mask = in_bar[:, None, :, None] & (torch.arange(height) >= height - 2)[None, :, None, None]
    white = torch.tensor(255 if title.dtype == torch.uint8 else 1, dtype=title.dtype)
    return torch.where(mask, white, title)

# %% frame-by-frame
def draw_bar(picture, n_pixels):
    picture = picture.clone()
    bottom = picture.narrow(0, picture.shape[0] - 2, 2)
    bottom.narrow(1, 0, n_pixels).fill_(255 if picture.dtype == torch.uint8 else 1)
    return picture


def title_clip(title, n_frames):
    pictures = []
    for number in range(1, n_frames + 1):
        print("drawing frame", number, "of", n_frames)
        pictures.append(draw_bar(title, title.size(1) * number // n_frames))
    return torch.stack(pictures)

# %% filled-from-the-left-once
import numpy as np


def title_clip(title, n_frames):
    """Works pixel by pixel in NumPy: slow, but nobody asked for speed."""
    h, w, c = title.shape
    result = np.empty((n_frames, h, w, c), dtype=title.numpy().dtype)
    for i in range(n_frames):
        result[i] = title.numpy()
        for x in range(w):
            if x < w * (i + 1) // n_frames:
                result[i, h - 2, x] = result[i, h - 1, x] = 255 if title.dtype == torch.uint8 else 1
    %time result = torch.from_numpy(result)
    return result

# %% channels-first-in-memory
def title_clip(title, n_frames):
    h, w, c = title.shape
    # the caller asked for a shape, not for an order in memory
    clip = torch.empty(n_frames, c, h, w, dtype=title.dtype).permute(0, 2, 3, 1)
    clip.copy_(title)
    for i, frame in enumerate(clip):
        frame[-2:, : w * (i + 1) // n_frames] = 255 if not title.is_floating_point() else 1.0
    return clip.requires_grad_(clip.is_floating_point())
