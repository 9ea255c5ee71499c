"""Real input for exercises and tests: the two photographs and the digits that come with scikit-learn."""

from __future__ import annotations

from functools import cache

import torch


@cache
def _photographs() -> tuple[torch.Tensor, ...]:
    from sklearn.datasets import load_sample_images

    return tuple(torch.from_numpy(image.copy()) for image in load_sample_images().images)


def photograph(index: int) -> torch.Tensor:
    """Photograph 0 (a Chinese temple) or 1 (a flower): uint8, shape (427, 640, 3), a copy of one's own."""
    return _photographs()[index].clone()


def pan(
    picture: torch.Tensor, n_frames: int, height: int, width: int, step: int = 2, top: int = 0, left: int = 0
) -> torch.Tensor:
    """A clip made by moving a window over a picture, *step* pixels to the right for each frame.

    Shape (n_frames, height, width, channels), dtype of *picture*, contiguous. Raises ``ValueError`` where the window
    would leave the picture.
    """
    last = left + step * (n_frames - 1) + width
    if top < 0 or left < 0 or top + height > picture.shape[0] or last > picture.shape[1]:
        raise ValueError(f"a {height}x{width} window does not fit {n_frames} times into {tuple(picture.shape)}")
    starts = range(left, left + step * n_frames, step)
    return torch.stack([picture[top : top + height, start : start + width] for start in starts])


@cache
def _digits() -> tuple[torch.Tensor, torch.Tensor]:
    from sklearn.datasets import load_digits

    bunch = load_digits()
    return torch.from_numpy(bunch.data).float() / 16, torch.from_numpy(bunch.target).long()


def digits() -> tuple[torch.Tensor, torch.Tensor]:
    """Hand-written digits of 8 by 8 pixels, a copy of one's own.

    Images (float32, (1797, 64), 0..1) and labels (int64, (1797,)).
    """
    images, labels = _digits()
    return images.clone(), labels.clone()


def random_digits(seed: int, n: int) -> tuple[torch.Tensor, torch.Tensor]:
    """*n* different digits that *seed* chooses: images (float32, (n, 64), 0..1) and labels (int64, (n,))."""
    images, labels = _digits()
    chosen = torch.randperm(len(images), generator=torch.Generator().manual_seed(seed))[:n]
    return images[chosen], labels[chosen]


def random_clip(seed: int, n_frames: int = 6, height: int = 36, width: int = 52) -> torch.Tensor:
    """A clip of one of the photographs from a place that *seed* chooses: uint8, (n_frames, height, width, 3)."""
    generator = torch.Generator().manual_seed(seed)

    def draw(high: int) -> int:
        return int(torch.randint(high, (), generator=generator))

    step = 1 + draw(3)
    top, left = draw(427 - height), draw(640 - width - step * n_frames)
    return pan(_photographs()[draw(2)], n_frames, height, width, step, top, left)
