"""Visible tests of exercise 1. They use examples that can be worked out by hand; read them, they are meant for you."""

import pytest
import torch

from autograder.checks import (
    assert_faster,
    assert_gradients_match,
    assert_holds_at_most,
    assert_is_view,
    assert_leaves_inputs_alone,
    assert_matches,
    assert_owns_result,
)
from autograder.checks.own_test import assert_accepts, assert_rejects

WINDOWS_RATIO = 30.0
"""How much faster windows as a view are than windows stacked frame by frame, as benchmarks/speedups.py measures it."""


# --- title_clip -------------------------------------------------------------------------------------------------------


@pytest.mark.task("title_clip")
@pytest.mark.pitfall("V7")
@pytest.mark.lesson("Expand repeats nothing")
def test_bar_grows(submission):
    """The white bar is a quarter of the width in the first of four frames, and full in the last."""
    clip = submission.title_clip(torch.zeros(6, 8, 3), 4)
    bar = clip[:, -1, :, 0].sum(dim=1)
    assert_matches(bar, torch.tensor([2.0, 4.0, 6.0, 8.0]), what="the number of white pixels per frame")


@pytest.mark.task("title_clip")
@pytest.mark.pitfall("V7")
@pytest.mark.lesson("Expand repeats nothing")
def test_title_is_not_drawn_on(submission):
    """The still picture is the same after the call as before."""
    assert_leaves_inputs_alone(submission.title_clip, (torch.zeros(6, 8, 3, dtype=torch.uint8), 4))


@pytest.mark.task("title_clip")
def test_title_clip_has_its_frames(submission):
    """There are as many frames as asked for, each with the picture above the bar."""
    title = torch.arange(6 * 8 * 3, dtype=torch.uint8).reshape(6, 8, 3)
    clip = submission.title_clip(title, 5)
    assert_matches(clip[:, :-2], title[:-2].repeat(5, 1, 1, 1), what="the picture above the bar")


# --- take_clip --------------------------------------------------------------------------------------------------------


@pytest.mark.task("take_clip")
@pytest.mark.pitfall("V3")
@pytest.mark.lesson("What a view shares")
def test_video_is_not_written_to(submission, photographs):
    """The cached video is the same after the call as before."""
    video = photographs(seed=1).float() / 255
    assert_leaves_inputs_alone(submission.take_clip, (video, 1, 3, torch.full((3,), 0.45), torch.full((3,), 0.23)))


@pytest.mark.task("take_clip")
def test_clip_is_normalised(submission):
    """A value one deviation above the mean becomes 1, for float and for uint8 videos."""
    mean, std = torch.tensor([0.2, 0.4, 0.6]), torch.tensor([0.2, 0.2, 0.2])
    video = (mean + std).expand(5, 2, 2, 3).clone()
    assert_matches(submission.take_clip(video, 1, 2, mean, std), torch.ones(2, 2, 2, 3), atol=1e-5, dtype=False)
    white = torch.full((5, 2, 2, 3), 255, dtype=torch.uint8)
    clip = submission.take_clip(white, 0, 1, mean, std)
    assert_matches(clip[0, 0, 0], torch.tensor([4.0, 3.0, 2.0]), atol=1e-5, dtype=False)


# --- to_model_layout --------------------------------------------------------------------------------------------------


@pytest.mark.task("to_model_layout")
@pytest.mark.pitfall("V5")
@pytest.mark.lesson("Permute is not view")
def test_pixels_stay_together(submission, photographs):
    """The middle pixel of each frame keeps its three colours."""
    frames = photographs(seed=2, height=22, width=31)
    batch = submission.to_model_layout(frames, 11)
    assert_matches(batch.shape, torch.Size([6, 3, 11, 11]), what="the shape")
    assert_matches(batch[:, :, 5, 5], frames[:, 10, 15], what="the colours of the middle pixel")


@pytest.mark.task("to_model_layout")
@pytest.mark.pitfall("V2", "V5")
@pytest.mark.lesson("Contiguity and what it costs")
def test_layout_is_a_view(submission):
    """No pixel is copied: what is written to the frames afterwards shows in the result."""
    frames = torch.rand(2, 6, 8, 3)

    def plain(pixels, size):
        return torch.stack([pixels[:, 1:5, 2:6, channel] for channel in range(3)], dim=1)

    assert_is_view(submission.to_model_layout, (frames, 4), plain)


# --- write_timecode ---------------------------------------------------------------------------------------------------


def _numbers(pixels):
    """The frame numbers that sixteen pixels per frame spell."""
    return (pixels.double() * 2.0 ** torch.arange(16)).sum(1).long()


def _stamped(learner, frames, first):
    learner.write_timecode(frames, first)
    return frames


@pytest.mark.task("write_timecode")
@pytest.mark.pitfall("V4")
@pytest.mark.lesson("When reshape copies")
def test_timecode_is_there_in_every_layout(submission):
    """Frame numbers can be read back from a crop that lies channels last in memory, as the pipeline's clips do."""
    frames = torch.zeros(3, 6, 24, 3).permute(0, 3, 1, 2)[:, :, 1:5, 2:22]
    after = submission.run(_stamped, frames, 300)
    assert_matches(_numbers(after[:, 0, 0, :16]), torch.tensor([300, 301, 302]), what="the frame numbers read back")


def _is_the_same(learner, frames):
    return learner.write_timecode(frames, 1) is frames


@pytest.mark.task("write_timecode")
def test_timecode_gives_back_what_it_was_given(submission):
    """What is returned is the tensor that was handed in, not a copy of it."""
    assert submission.run(_is_the_same, torch.zeros(2, 3, 4, 18)), "it returned another tensor"


@pytest.mark.task("write_timecode")
def test_timecode_is_written_in_place(submission):
    """In a clip from the archive, the sixteen pixels are written into the frames themselves, and nothing else is."""
    frames = torch.full((2, 3, 4, 18), 7, dtype=torch.uint8)
    after = submission.run(_stamped, frames, 5)
    expected = frames.clone()
    expected[:, 0, 0, :16] = 0
    expected[0, 0, 0, [0, 2]] = 255
    expected[1, 0, 0, [1, 2]] = 255
    assert_matches(after, expected, what="the frames after the call")


# --- to_patches -------------------------------------------------------------------------------------------------------


@pytest.mark.task("to_patches")
@pytest.mark.pitfall("V1")
@pytest.mark.lesson("When reshape copies")
def test_patches_of_a_counted_frame(submission):
    """Of a 4 by 6 frame that is numbered row by row, the second 2 by 2 patch is 2, 3, 8, 9."""
    frame = torch.arange(24).reshape(1, 1, 4, 6)
    patches = submission.to_patches(frame, 2)
    assert_matches(patches.shape, torch.Size([1, 6, 4]), what="the shape")
    assert_matches(patches[0, 1], torch.tensor([2, 3, 8, 9]), what="the second patch")


@pytest.mark.task("to_patches")
@pytest.mark.pitfall("V1")
@pytest.mark.lesson("When reshape copies")
def test_patches_drop_what_is_left_over(submission):
    """A row and a column too many are dropped, and channels come before rows."""
    frames = torch.arange(2 * 3 * 5 * 5).reshape(2, 3, 5, 5)
    patches = submission.to_patches(frames, 2)
    assert_matches(patches.shape, torch.Size([2, 4, 12]), what="the shape")
    assert_matches(patches[1, 3], frames[1, :, 2:4, 2:4].flatten(), what="the last patch")


def _count_operations(function, frames, size):
    from torch.overrides import TorchFunctionMode

    class Counter(TorchFunctionMode):
        operations = 0

        def __torch_function__(self, func, types, args=(), kwargs=None):
            self.operations += 1
            return func(*args, **(kwargs or {}))

    with Counter() as counter:
        patches = function(frames, size)
    return counter.operations, patches


@pytest.mark.task("to_patches")
@pytest.mark.pitfall("V1")
@pytest.mark.lesson("When reshape copies")
def test_patches_are_not_cut_out_one_at_a_time(submission):
    """For 64 patches the function makes fewer tensor operations than there are patches."""
    frames = torch.arange(256).reshape(1, 1, 16, 16)
    operations, patches = submission.to_patches.probe(_count_operations, frames, 2)
    squares = [
        frames[0, 0, row : row + 2, column : column + 2] for row in range(0, 16, 2) for column in range(0, 16, 2)
    ]
    assert_matches(patches, torch.stack(squares).reshape(1, 64, 4), what="the patches")
    assert operations < 64, f"it makes {operations} tensor operations for 64 patches"


# --- sliding_windows --------------------------------------------------------------------------------------------------


def _plain_windows(frames, length, step):
    index = torch.arange(0, len(frames) - length + 1, step)[:, None] + torch.arange(length)
    return frames[index]


@pytest.mark.task("sliding_windows")
def test_windows_of_a_counted_clip(submission):
    """Of frames 0 to 9, windows of 4 every 3 frames start at 0, 3 and 6."""
    expected = torch.tensor([[0, 1, 2, 3], [3, 4, 5, 6], [6, 7, 8, 9]])
    assert_matches(submission.sliding_windows(torch.arange(10), 4, 3), expected)


@pytest.mark.task("sliding_windows")
@pytest.mark.lesson("Windows are views")
def test_windows_of_a_clip_of_pictures(submission, photographs):
    """A window of a clip (T, H, W, C) is a short clip (length, H, W, C), however the frames lie in memory."""
    frames = photographs(seed=3, n_frames=16, height=4, width=5)[::2]
    windows = submission.sliding_windows(frames, 6, 2)
    assert_matches(windows, torch.stack([frames[0:6], frames[2:8]]))


@pytest.mark.task("sliding_windows")
@pytest.mark.pitfall("V8")
@pytest.mark.lesson("Windows are views")
def test_windows_take_no_memory(submission):
    """All windows together hold no more bytes than the frames they look at."""
    frames = torch.rand(32, 5)
    assert_holds_at_most(submission.sliding_windows, (frames, 8, 1), frames.nbytes, reference=_plain_windows)


@pytest.mark.task("sliding_windows")
@pytest.mark.pitfall("V8")
@pytest.mark.lesson("Windows are views")
@pytest.mark.timed
def test_windows_are_quick(submission, baseline):
    """Windows over a long clip take a fraction of the time that the original version takes."""

    def inputs(seed):
        # small frames: a copy of them costs little, so what is timed is the loop; copies are found by the test above
        return (torch.rand(300, 4, generator=torch.Generator().manual_seed(seed)), 8, 1), {}

    assert_faster(
        submission.sliding_windows,
        baseline("starter").sliding_windows,
        inputs,
        _plain_windows,
        reference_ratio=WINDOWS_RATIO,
    )


# --- frame_loss -------------------------------------------------------------------------------------------------------


@pytest.mark.task("frame_loss")
@pytest.mark.pitfall("V6")
@pytest.mark.lesson("Broadcasting")
def test_perfect_prediction_costs_nothing(submission):
    """Predictions that are equal to their targets have loss 0."""
    target = torch.tensor([1.0, 2.0, 4.0])
    assert_matches(submission.frame_loss(target[:, None], target), torch.tensor(0.0))


@pytest.mark.task("frame_loss")
@pytest.mark.pitfall("V6")
@pytest.mark.lesson("Broadcasting")
def test_each_frame_is_pulled_to_its_own_target(submission):
    """The gradient of each prediction is two thirds of its own error, for three frames."""
    args = (torch.tensor([[0.0], [2.0], [4.0]]), torch.tensor([1.0, 2.0, 0.0]))
    assert_gradients_match(
        submission.frame_loss, args, lambda prediction, target: sum((prediction[:, 0] - target) ** 2) / 3
    )


@pytest.mark.task("frame_loss")
def test_loss_of_one_frame(submission):
    """For a single frame the loss is its squared error, without dimensions."""
    assert_matches(submission.frame_loss(torch.tensor([[3.0]]), torch.tensor([1.0])), torch.tensor(4.0))


# --- check_frame_loss -------------------------------------------------------------------------------------------------

RIGHT = """
def implementation(prediction, target):
    total = 0.0
    for i in range(len(target)):
        total = total + (prediction[i, 0] - target[i]) ** 2
    return total / len(target)
"""
HALF = """
def implementation(prediction, target):
    return sum((prediction[i, 0] - target[i]) ** 2 for i in range(len(target))) / (2 * len(target))
"""
FROZEN = """
def implementation(prediction, target):
    loss = sum((prediction[i, 0] - target[i]) ** 2 for i in range(len(target))) / len(target)
    return loss.detach() + 0.5 * (loss - loss.detach())
"""
NOT_FOR_ONE = """
def implementation(prediction, target):
    total = sum((prediction[i, 0] - target[i]) ** 2 for i in range(len(target)))
    return total / max(len(target), 2)
"""
SHOWN = [RIGHT, HALF, FROZEN, NOT_FOR_ONE]


@pytest.mark.task("check_frame_loss")
def test_accepts_a_plain_loop(submission):
    """A loss that is written as a loop over the frames, and right, is accepted."""
    assert_accepts(submission.check_frame_loss, RIGHT, among=SHOWN)


@pytest.mark.task("check_frame_loss")
@pytest.mark.pitfall("V6")
@pytest.mark.lesson("A test that can fail")
def test_rejects_the_original_loss(submission, starter_source):
    """The loss as section 7 had it at first is rejected."""
    source = starter_source("frame_loss-code")
    assert_rejects(submission.check_frame_loss, source + "\n\nimplementation = frame_loss\n")


@pytest.mark.task("check_frame_loss")
@pytest.mark.pitfall("V6")
@pytest.mark.lesson("A test that can fail")
def test_rejects_half_a_loss(submission):
    """A loss that is half of what it should be is rejected."""
    assert_rejects(submission.check_frame_loss, HALF, among=SHOWN)


@pytest.mark.task("check_frame_loss")
@pytest.mark.pitfall("V6")
@pytest.mark.lesson("A test that can fail")
def test_rejects_a_loss_with_half_the_gradient(submission):
    """A loss whose value is right and whose gradient is half of what it should be is rejected."""
    assert_rejects(submission.check_frame_loss, FROZEN, among=SHOWN)


@pytest.mark.task("check_frame_loss")
@pytest.mark.pitfall("V6")
@pytest.mark.lesson("A test that can fail")
def test_rejects_a_loss_that_is_wrong_for_one_frame(submission):
    """A loss that is right for two frames and more, and wrong for a single one, is rejected."""
    assert_rejects(submission.check_frame_loss, NOT_FOR_ONE, among=SHOWN)


# --- a result of one's own --------------------------------------------------------------------------------------------


@pytest.mark.task("title_clip")
@pytest.mark.pitfall("V7")
@pytest.mark.lesson("Expand repeats nothing")
def test_title_clip_may_be_edited(submission):
    """The clip has memory of its own, even with one frame: drawing on it changes no other, nor the still picture."""
    assert_owns_result(submission.title_clip, (torch.zeros(6, 8, 3), 4))
    assert_owns_result(submission.title_clip, (torch.zeros(6, 8, 3), 1))
