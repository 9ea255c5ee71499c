"""Hidden tests of exercise 1: the same promises at other shapes, dtypes and layouts, gradients, and speed."""

from pathlib import Path

import pytest
import torch

from autograder.checks import (
    assert_accepts,
    assert_faster,
    assert_gradients_match,
    assert_is_view,
    assert_leaves_inputs_alone,
    assert_matches,
    assert_owns_result,
    assert_rejects,
)
from autograder.variants import read_variants

LAYOUT_RATIO = 16.0
"""A crop as a view against a crop that copies the whole clip first (benchmarks/speedups.py)."""
PATCHES_RATIO = 22.0
"""Patches by one reshape against patches cut one by one (benchmarks/speedups.py)."""
WINDOWS_RATIO = 30.0
"""Windows as a view against windows stacked frame by frame (benchmarks/speedups.py)."""

MEAN = torch.tensor([0.48, 0.46, 0.41])
STD = torch.tensor([0.27, 0.26, 0.28])


def layouts(tensor):
    """The same numbers in memory laid out in other ways, as other steps of a pipeline would hand them over."""
    backwards = tuple(range(tensor.dim()))[::-1]
    padded = torch.zeros(*tensor.shape[:-1], tensor.shape[-1] + 3, dtype=tensor.dtype)
    padded[..., 1:-2] = tensor
    return {
        "contiguous": tensor.contiguous(),
        "reversed strides": tensor.permute(backwards).contiguous().permute(backwards),
        "cut out of a larger tensor": padded[..., 1:-2],
    }


def as_float(frames):
    return frames.float() / 255


# --- title_clip -------------------------------------------------------------------------------------------------------


@pytest.mark.task("title_clip")
@pytest.mark.pitfall("V7")
@pytest.mark.lesson("Expand repeats nothing")
@pytest.mark.parametrize("n_frames", [1, 3, 7])
@pytest.mark.parametrize("dtype", [torch.uint8, torch.float32])
def test_title_clip_matches_for_any_length(submission, reference, photographs, n_frames, dtype):
    """The clip is right for one frame and for many, for odd widths, for bytes and for floats."""
    title = photographs(seed=3, n_frames=1, height=9, width=23)[0]
    title = title if dtype == torch.uint8 else as_float(title)
    assert_matches(submission.title_clip(title, n_frames), reference.title_clip(title, n_frames))


@pytest.mark.task("title_clip")
@pytest.mark.pitfall("V7")
@pytest.mark.lesson("Expand repeats nothing")
def test_title_in_another_layout(submission, reference, photographs):
    """The still picture may lie in memory in any way, and stays as it was in each."""
    title = as_float(photographs(seed=4, n_frames=1, height=8, width=12)[0])
    for laid_out in layouts(title).values():
        assert_matches(submission.title_clip(laid_out, 4), reference.title_clip(title, 4))
        assert_leaves_inputs_alone(submission.title_clip, (laid_out, 4))


@pytest.mark.task("title_clip")
@pytest.mark.pitfall("V7")
@pytest.mark.lesson("Expand repeats nothing")
def test_one_frame_has_its_own_memory(submission):
    """Even a clip of a single frame is a picture of its own: drawing on it leaves the title alone."""
    assert_owns_result(submission.title_clip, (torch.rand(5, 6, 3), 1))


# --- take_clip --------------------------------------------------------------------------------------------------------


@pytest.mark.task("take_clip")
@pytest.mark.pitfall("V3")
@pytest.mark.lesson("What a view shares")
def test_second_epoch_equals_first(submission, photographs):
    """Cutting the same clip twice gives the same clip, and clips that overlap do not disturb each other."""

    def two_epochs(learner, video, mean, std):
        first = [learner.take_clip(video, start, 4, mean, std).clone() for start in (0, 2)]
        second = [learner.take_clip(video, start, 4, mean, std).clone() for start in (0, 2)]
        return first, second, video

    video = as_float(photographs(seed=5, height=8, width=10))
    expected = [(video[start : start + 4] - MEAN) / STD for start in (0, 2)]
    first, second, after = submission.run(two_epochs, video, MEAN, STD)
    for epoch in (first, second):
        assert_matches(epoch, expected, atol=1e-5, dtype=False)
    # to the last bit: arithmetic that is undone afterwards leaves rounding errors, which add up over epochs
    assert_matches(after, video, rtol=0.0, atol=0.0, what="the video after two epochs")


@pytest.mark.task("take_clip")
@pytest.mark.pitfall("V3")
@pytest.mark.lesson("What a view shares")
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16])
def test_videos_of_all_layouts_stay_as_they_were(submission, reference, photographs, dtype):
    """Right values and an untouched video, for every layout in memory and every floating-point dtype."""
    video = as_float(photographs(seed=6, height=7, width=9)).to(dtype)
    mean, std = MEAN.to(dtype), STD.to(dtype)
    expected = reference.take_clip(video.double(), 2, 3, mean.double(), std.double())
    # nothing is promised about the order of the arithmetic, nor about which floating-point dtype comes out
    atol = 1e-2 if dtype == torch.float16 else 1e-5
    for laid_out in layouts(video).values():
        assert_matches(submission.take_clip(laid_out, 2, 3, mean, std), expected, atol=atol, dtype=False)
        assert_leaves_inputs_alone(submission.take_clip, (laid_out, 2, 3, mean, std))


@pytest.mark.task("take_clip")
@pytest.mark.pitfall("V3")
@pytest.mark.lesson("What a view shares")
def test_gradients_reach_the_video(submission, reference):
    """A learned video gets the right gradient through the clip."""
    video = torch.rand(5, 4, 3, 3)
    assert_gradients_match(submission.take_clip, (video, 1, 3, MEAN, STD), reference.take_clip)


@pytest.mark.task("take_clip")
def test_byte_videos(submission, reference, photographs):
    """Videos of bytes are brought to 0..1 first, and their clip is floating point."""
    video = photographs(seed=7)
    expected = reference.take_clip(video, 1, 4, MEAN, STD)
    assert_matches(submission.take_clip(video, 1, 4, MEAN, STD), expected, atol=1e-5, dtype=False)
    assert_leaves_inputs_alone(submission.take_clip, (video, 1, 4, MEAN, STD))


# --- to_model_layout --------------------------------------------------------------------------------------------------


@pytest.mark.task("to_model_layout")
@pytest.mark.pitfall("V5")
@pytest.mark.lesson("Permute is not view")
@pytest.mark.parametrize(("height", "width", "size"), [(20, 31, 11), (16, 16, 16), (33, 18, 1)])
def test_layout_at_odd_sizes(submission, reference, photographs, height, width, size):
    """Every pixel keeps its place and its colours, for odd sizes, other aspect ratios, and a crop of one pixel."""
    frames = photographs(seed=8, height=height, width=width)
    assert_matches(submission.to_model_layout(frames, size), reference.to_model_layout(frames, size))


@pytest.mark.task("to_model_layout")
@pytest.mark.pitfall("V2", "V5")
@pytest.mark.lesson("Contiguity and what it costs")
def test_layout_is_a_view_of_any_layout(submission, reference, photographs):
    """The result is a view however the frames lie in memory."""
    frames = as_float(photographs(seed=9, height=12, width=17))
    for laid_out in layouts(frames).values():
        assert_is_view(submission.to_model_layout, (laid_out, 6), reference.to_model_layout)


@pytest.mark.task("to_model_layout")
@pytest.mark.pitfall("V5")
@pytest.mark.lesson("Permute is not view")
def test_layout_of_repeated_frames(submission, reference, photographs):
    """A still picture that was expanded to a clip goes through like any other clip."""
    still = as_float(photographs(seed=10, n_frames=1, height=9, width=14)).expand(4, -1, -1, -1)
    assert_matches(submission.to_model_layout(still, 5), reference.to_model_layout(still, 5))


@pytest.mark.task("to_model_layout")
@pytest.mark.pitfall("V5")
@pytest.mark.lesson("Permute is not view")
def test_gradients_reach_their_pixels(submission, reference):
    """The gradient of each output pixel goes to the pixel that it came from."""
    assert_gradients_match(submission.to_model_layout, (torch.rand(2, 7, 9, 3), 4), reference.to_model_layout)


def _one_frame_of_each_crop(function, frames, sizes, index):
    return [function(frames, size)[index].clone() for size in sizes]


@pytest.mark.task("to_model_layout")
@pytest.mark.pitfall("V2")
@pytest.mark.lesson("Contiguity and what it costs")
@pytest.mark.timed
def test_layout_costs_next_to_nothing(submission, baseline, reference):
    """A crop of a large clip takes a fraction of the time of a version that copies pixels."""

    def inputs(seed):
        generator = torch.Generator().manual_seed(seed)
        frames = torch.randint(0, 256, (48, 120, 160, 3), dtype=torch.uint8, generator=generator)
        sizes = [int(size) for size in torch.randint(16, 33, (8,), generator=generator)]
        return (frames, sizes, int(torch.randint(48, (), generator=generator))), {}

    def expected(frames, sizes, index):
        return [reference.to_model_layout(frames[index : index + 1], size)[0] for size in sizes]

    assert_faster(
        submission.to_model_layout,
        baseline("V2").to_model_layout,
        inputs,
        expected,
        reference_ratio=LAYOUT_RATIO,
        via=_one_frame_of_each_crop,
    )


# --- write_timecode ---------------------------------------------------------------------------------------------------


def _stamped(learner, frames, first):
    returned = learner.write_timecode(frames, first)
    return frames, returned


@pytest.mark.task("write_timecode")
@pytest.mark.pitfall("V4")
@pytest.mark.lesson("When reshape copies")
@pytest.mark.parametrize("dtype", [torch.uint8, torch.float32])
def test_timecode_in_every_layout(submission, reference, photographs, dtype):
    """The frames that were handed in are stamped, whatever their layout in memory, and what is returned shows it too."""
    frames = photographs(seed=11, height=5, width=19).permute(0, 3, 1, 2)
    frames = frames if dtype == torch.uint8 else as_float(frames)
    expected = reference.write_timecode(frames.clone(), 4_090)
    for name, laid_out in {**layouts(frames), "channels last": frames}.items():
        after, returned = submission.run(_stamped, laid_out, 4_090)
        assert_matches(after, expected, what=f"the frames ({name}) after the call")
        assert_matches(returned, expected, what="the returned tensor")


@pytest.mark.task("write_timecode")
@pytest.mark.pitfall("V4")
@pytest.mark.lesson("When reshape copies")
def test_timecode_in_a_crop(submission, reference, photographs):
    """Stamping a crop writes through to the picture that it was cut from, and only inside the crop."""

    def through_a_crop(learner, frames, first):
        learner.write_timecode(frames[:, :, 1:, 2:20], first)
        return frames

    frames = as_float(photographs(seed=12, height=6, width=24)).permute(0, 3, 1, 2).contiguous()
    expected = frames.clone()
    reference.write_timecode(expected[:, :, 1:, 2:20], 77)
    assert_matches(submission.run(through_a_crop, frames, 77), expected, what="the whole picture")


@pytest.mark.task("write_timecode")
def test_all_sixteen_bits(submission, reference):
    """Numbers up to 65535 fit, in a picture of exactly sixteen columns."""
    frames = torch.rand(3, 1, 2, 16)
    after, _ = submission.run(_stamped, frames, 65_533)
    assert_matches(after, reference.write_timecode(frames.clone(), 65_533), what="the frames after the call")


@pytest.mark.task("write_timecode")
def test_timecode_returns_its_argument(submission):
    """What is returned is the very tensor that was handed in: a write to the one shows in the other."""

    def written_to_afterwards(learner, frames, first):
        returned = learner.write_timecode(frames, first)
        if isinstance(returned, torch.Tensor):
            returned.fill_(0.5)
        return frames

    frames = torch.rand(2, 3, 4, 17)
    after = submission.run(written_to_afterwards, frames, 6)
    assert_matches(after, torch.full_like(frames, 0.5), what="the frames after a write to what was returned")


# --- to_patches -------------------------------------------------------------------------------------------------------


@pytest.mark.task("to_patches")
@pytest.mark.pitfall("V1")
@pytest.mark.lesson("When reshape copies")
@pytest.mark.parametrize(("height", "width", "size"), [(8, 12, 4), (9, 14, 4), (6, 6, 6), (5, 7, 1)])
@pytest.mark.parametrize("dtype", [torch.uint8, torch.float32])
def test_patches_at_several_sizes(submission, reference, photographs, height, width, size, dtype):
    """Each patch holds the pixels of its own place in the picture, for several frames, odd sizes, bytes and floats."""
    frames = photographs(seed=13, height=height, width=width).permute(0, 3, 1, 2)
    frames = frames if dtype == torch.uint8 else as_float(frames)
    assert_matches(submission.to_patches(frames, size), reference.to_patches(frames, size))


@pytest.mark.task("to_patches")
@pytest.mark.pitfall("V1")
@pytest.mark.lesson("When reshape copies")
def test_patches_of_every_layout(submission, reference, photographs):
    """Frames may lie in memory in any way, repeated frames included, and stay as they were."""
    frames = as_float(photographs(seed=14, height=8, width=10)).permute(0, 3, 1, 2)
    repeated = frames[:1].expand(3, -1, -1, -1)
    for laid_out in (*layouts(frames).values(), repeated):
        assert_matches(submission.to_patches(laid_out, 4), reference.to_patches(laid_out, 4))
        assert_leaves_inputs_alone(submission.to_patches, (laid_out, 4))


@pytest.mark.task("to_patches")
@pytest.mark.pitfall("V1")
@pytest.mark.lesson("When reshape copies")
def test_gradients_reach_their_patch(submission, reference):
    """The gradient of each patch goes to its own pixels; pixels that were dropped get none."""
    assert_gradients_match(submission.to_patches, (torch.rand(2, 3, 5, 7), 2), reference.to_patches)


_CUT_ONE_BY_ONE = """
def to_patches(frames, size):
    n, c, h, w = frames.shape
    clips = []
    for frame in frames:
        patches = []
        for row in range(0, h - size + 1, size):
            for column in range(0, w - size + 1, size):
                patches.append(frame[:, row : row + size, column : column + size].flatten())
        clips.append(torch.stack(patches))
    return torch.stack(clips)
"""


@pytest.mark.task("to_patches")
@pytest.mark.pitfall("V1")
@pytest.mark.lesson("When reshape copies")
@pytest.mark.timed
def test_patches_are_quick(submission, baseline, reference):
    """Patches are not cut out one by one: many of them take little longer than one copy of the clip."""

    def inputs(seed):
        return (torch.rand(16, 3, 64, 64, generator=torch.Generator().manual_seed(seed)), 4), {}

    assert_faster(
        submission.to_patches,
        baseline(_CUT_ONE_BY_ONE).to_patches,
        inputs,
        reference.to_patches,
        reference_ratio=PATCHES_RATIO,
    )


# --- sliding_windows --------------------------------------------------------------------------------------------------


@pytest.mark.task("sliding_windows")
@pytest.mark.parametrize(("frames", "length", "step"), [(9, 4, 1), (10, 4, 3), (5, 5, 2), (6, 1, 2), (8, 3, 5)])
def test_windows_at_several_lengths(submission, reference, photographs, frames, length, step):
    """The windows are right when steps overlap, leave gaps, or do not come out even, for pictures and for bytes."""
    clip = photographs(seed=15, n_frames=frames, height=4, width=5)
    for laid_out in layouts(clip).values():
        expected = reference.sliding_windows(clip, length, step)
        assert_matches(submission.sliding_windows(laid_out, length, step), expected)
        assert_leaves_inputs_alone(submission.sliding_windows, (laid_out, length, step))


@pytest.mark.task("sliding_windows")
@pytest.mark.pitfall("V8")
@pytest.mark.lesson("Windows are views")
def test_windows_are_views(submission, reference):
    """Windows look at the frames themselves: what changes in a frame shows in each window that holds it."""
    for laid_out in layouts(torch.rand(9, 4, 3)).values():
        assert_is_view(submission.sliding_windows, (laid_out, 4, 2), reference.sliding_windows)


@pytest.mark.task("sliding_windows")
def test_gradients_add_up_over_windows(submission, reference):
    """A frame that is in several windows gets the sum of their gradients."""
    assert_gradients_match(submission.sliding_windows, (torch.rand(7, 3), 3, 1), reference.sliding_windows)


@pytest.mark.task("sliding_windows")
@pytest.mark.pitfall("V8")
@pytest.mark.lesson("Windows are views")
@pytest.mark.timed
def test_windows_over_patches_are_quick(submission, baseline, reference):
    """Windows over clips of patches take a fraction of the time that the original version takes."""

    def inputs(seed):
        # small frames: a copy of them costs little, so what is timed is the loop; copies are found by other tests
        return (torch.rand(200, 2, 3, generator=torch.Generator().manual_seed(seed)), 10, 1), {}

    assert_faster(
        submission.sliding_windows,
        baseline("starter").sliding_windows,
        inputs,
        reference.sliding_windows,
        reference_ratio=WINDOWS_RATIO,
    )


# --- frame_loss -------------------------------------------------------------------------------------------------------


@pytest.mark.task("frame_loss")
@pytest.mark.pitfall("V6")
@pytest.mark.lesson("Broadcasting")
@pytest.mark.parametrize("n", [2, 3, 17])
def test_loss_value(submission, reference, n):
    """The loss is the mean of the frames' squared errors, for batches of several sizes."""
    generator = torch.Generator().manual_seed(n)
    prediction, target = torch.randn(n, 1, generator=generator), torch.randn(n, generator=generator)
    for laid_out in (prediction, torch.cat([prediction, prediction], dim=1)[:, :1]):
        assert_matches(submission.frame_loss(laid_out, target), reference.frame_loss(prediction, target), rtol=1e-4)


@pytest.mark.task("frame_loss")
@pytest.mark.pitfall("V6")
@pytest.mark.lesson("Broadcasting")
def test_loss_gradients(submission, reference):
    """Prediction and target get the gradients of the mean squared error."""
    args = (torch.randn(6, 1, generator=torch.Generator().manual_seed(1)), torch.arange(6.0) / 3)
    assert_gradients_match(submission.frame_loss, args, reference.frame_loss, wrt=(0, 1))


@pytest.mark.task("frame_loss")
def test_loss_of_a_single_frame(submission, reference):
    """A batch of one frame has a loss without dimensions, and nothing is changed in place."""
    args = (torch.tensor([[0.25]]), torch.tensor([-1.5]))
    assert_matches(submission.frame_loss(*args), reference.frame_loss(*args))
    assert_leaves_inputs_alone(submission.frame_loss, args)


# --- check_frame_loss -------------------------------------------------------------------------------------------------

_HERE = Path(__file__).parent
_RIGHT = read_variants(_HERE / "wheats" / "frame_loss.py")
_WRONG = [variant for variant in read_variants(_HERE / "chaffs" / "frame_loss.py") if variant.facts.get("silent")]


def _implementation(variant):
    return variant.source + "\n\nimplementation = frame_loss\n"


_ALL = [_implementation(variant) for variant in (*_RIGHT, *_WRONG)]


@pytest.mark.task("check_frame_loss")
@pytest.mark.parametrize("number", range(len(_RIGHT)))
def test_own_test_accepts_what_is_right(submission, number):
    """Your test accepts losses that keep the promise, however they are written."""
    assert_accepts(submission.check_frame_loss, _implementation(_RIGHT[number]), among=_ALL)


@pytest.mark.task("check_frame_loss")
@pytest.mark.pitfall("V6")
@pytest.mark.lesson("A test that can fail")
@pytest.mark.parametrize("number", range(len(_WRONG)))
def test_own_test_rejects_what_is_wrong(submission, number):
    """Your test rejects losses that break the promise: in value, in gradient, or for certain inputs only."""
    assert_rejects(submission.check_frame_loss, _implementation(_WRONG[number]), among=_ALL)
