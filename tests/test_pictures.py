"""Real pictures and digits: shapes, ranges, copies, and draws that only the seed decides."""

from __future__ import annotations

import torch

from autograder.pictures import digits, photograph, random_clip, random_digits


def test_digits_are_pictures_with_labels() -> None:
    """Images in 0..1 and a label 0..9 for each; writing to them harms nobody else."""
    images, labels = digits()
    assert (images.shape, images.dtype) == ((1797, 64), torch.float32)
    assert (labels.shape, labels.dtype) == ((1797,), torch.int64)
    assert images.min() == 0 and images.max() == 1
    assert labels.unique().tolist() == list(range(10))
    images.zero_()
    assert digits()[0].max() == 1


def test_a_seed_draws_digits_without_repetition() -> None:
    """The same seed gives the same digits, another one others; no digit comes twice."""
    images, labels = random_digits(1, 300)
    again, _ = random_digits(1, 300)
    other, _ = random_digits(2, 300)
    assert torch.equal(images, again) and not torch.equal(images, other)
    assert images.shape == (300, 64) and labels.shape == (300,)
    assert len(random_digits(3, 1797)[0].unique(dim=0)) == len(digits()[0].unique(dim=0))


def test_photographs_are_copies() -> None:
    """Drawing on a photograph or a clip leaves the next one as it was."""
    picture, clip = photograph(0), random_clip(1)
    picture.zero_()
    clip.zero_()
    assert photograph(0).any() and random_clip(1).any()
