"""Visible tests of exercise 8, sections 1 to 5. They use examples that can be worked out by hand; they are for you."""

import pytest
import torch

from autograder.checks import assert_matches, served
from autograder.errors import Finding

# --- to_input ---------------------------------------------------------------------------------------------------------

MEAN = torch.tensor([0.485, 0.456, 0.406]).view(3, 1, 1)
STD = torch.tensor([0.229, 0.224, 0.225]).view(3, 1, 1)


def _assert_shows(actual, values):
    """Before MEAN and STD, the values are these (3, size, size), within one grey level."""
    assert_matches(actual, torch.as_tensor(values), rtol=0, atol=torch.inf, what="the result")  # its shape and dtype
    assert_matches(actual * STD + MEAN, values, rtol=0, atol=1.05 / 255, what="the result times STD plus MEAN")


@pytest.mark.task("to_input")
@pytest.mark.pitfall("E4")
@pytest.mark.lesson("The same picture, other numbers")
def test_a_grey_wall(submission):
    """A wall of grey level 51, which is 0.2, gives the numbers 0.2 less MEAN, divided by STD."""
    result = submission.to_input(torch.full((5, 7, 3), 51, dtype=torch.uint8), 4)
    _assert_shows(result, torch.full((3, 4, 4), 0.2))


@pytest.mark.task("to_input")
@pytest.mark.pitfall("E4")
@pytest.mark.lesson("The same picture, other numbers")
def test_a_blue_wall(submission):
    """The camera sends 255, 0, 0 for blue: the last of the three channels is 1, the others are 0."""
    picture = torch.tensor([255, 0, 0], dtype=torch.uint8).expand(6, 4, 3)
    result = submission.to_input(picture, 5)
    _assert_shows(result, torch.tensor([0.0, 0.0, 1.0]).view(3, 1, 1).expand(3, 5, 5).clone())


@pytest.mark.task("to_input")
@pytest.mark.pitfall("E4")
@pytest.mark.lesson("The same picture, other numbers")
def test_fine_stripes_become_grey(submission):
    """Of 64 columns every fourth is white; brought to 8 by 8, the columns 2 to 5 are a quarter as bright."""
    picture = torch.zeros(64, 64, 3, dtype=torch.uint8)
    picture[:, ::4] = 255
    result = submission.to_input(picture, 8)
    assert_matches(result.shape, (3, 8, 8), what="the shape")
    inner = (result * STD + MEAN)[:, :, 2:6]
    assert_matches(inner, torch.full((3, 8, 4), 0.25), rtol=0, atol=1.05 / 255, what="the result times STD plus MEAN")


@pytest.mark.task("to_input")
@pytest.mark.lesson("The same picture, other numbers")
def test_two_pixels_become_four(submission):
    """Black on the left and grey level 204 on the right, enlarged: 0, 0.2, 0.6 and 0.8 from left to right."""
    picture = torch.tensor([0, 204], dtype=torch.uint8).view(1, 2, 1).expand(2, 2, 3)
    result = submission.to_input(picture, 4)
    _assert_shows(result, torch.tensor([0.0, 0.2, 0.6, 0.8]).expand(3, 4, 4).clone())


# --- in the engine ----------------------------------------------------------------------------------------------------
# What has been exported is served in another process, which has neither the notebook nor its operators.


def _once(submission, name, make):
    """What `make` gives, made once for all tests of a task: an export takes a second or two."""
    if name not in submission.remembered:
        submission.remembered[name] = make()
    return submission.remembered[name]


# --- soft_clip --------------------------------------------------------------------------------------------------------

AROUND = torch.tensor([-50.0, -2.5, -2.0, -1.0, 0.0, 2.0, 2.25, 9.0])
LIMITED = torch.tensor([-2.0, -2.0, -2.0, -1.0, 0.0, 2.0, 2.0, 2.0])


@pytest.mark.task("soft_clip")
@pytest.mark.lesson("Operators that the engine has not")
def test_numbers_around_the_limits(submission):
    """With limit 2, numbers from -50 to 9 become numbers from -2 to 2."""
    assert_matches(submission.soft_clip(AROUND, 2.0), LIMITED, rtol=0, atol=0)


def _slopes(function, x, limit, arriving):
    x = x.clone().requires_grad_()
    result = function(x, limit)
    (gradient,) = torch.autograd.grad(result, x, arriving.to(result.dtype))
    return gradient


@pytest.mark.task("soft_clip")
@pytest.mark.lesson("Operators that the engine has not")
def test_gradients_around_the_limits(submission):
    """Where a gradient of 10 arrives, it is 10 within the limits and exactly at them, and 1 outside."""
    gradient = submission.soft_clip.probe(_slopes, AROUND, 2.0, torch.full((8,), 10.0))
    expected = torch.tensor([1.0, 1.0, 10.0, 10.0, 10.0, 10.0, 1.0, 1.0])
    assert_matches(gradient, expected, what="the gradient")


@pytest.mark.task("soft_clip")
@pytest.mark.lesson("Operators that the engine has not")
def test_enormous_numbers(submission):
    """Of 1e30 and of -70 million no more is left than the limit, 0.75 and -0.75 exactly; they learn on at a tenth."""
    enormous = torch.tensor([1e30, -7e7])
    assert_matches(submission.soft_clip(enormous, 0.75), torch.tensor([0.75, -0.75]), rtol=0, atol=0)
    gradient = submission.soft_clip.probe(_slopes, enormous, 0.75, torch.full((2,), 10.0))
    assert_matches(gradient, torch.ones(2), what="the gradient")


@pytest.mark.task("soft_clip")
@pytest.mark.pitfall("E7")
@pytest.mark.lesson("Operators that the engine has not")
def test_double_stays_double(submission):
    """In float64, 1/3 stays 1/3 with all of its digits, and what is outside becomes the limit, 0.7, with all of its."""
    x = torch.tensor([1 / 3, 5.0], dtype=torch.float64)
    assert_matches(submission.soft_clip(x, 0.7), torch.tensor([1 / 3, 0.7], dtype=torch.float64), rtol=1e-15, atol=0)


def _clip_to_onnx(learner, example, limit):
    """The bytes of an ONNX model of `soft_clip`, with the first size left open; or why there is none."""
    import logging
    import warnings

    class Clip(torch.nn.Module):
        def forward(self, x):
            return learner.soft_clip(x, limit)

    logging.getLogger("torch.onnx").setLevel(logging.ERROR)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        shapes = ({0: torch.export.Dim.DYNAMIC},)
        try:
            program = torch.onnx.export(Clip(), (example,), dynamo=True, verbose=False, dynamic_shapes=shapes)
        except torch.onnx.OnnxExporterError as error:
            reasons = [line for line in str(error).splitlines() if "No ONNX function" in line] or [str(error)]
            return reasons[0].partition(": ")[2].partition(". Failure")[0] or reasons[0]
    return torch.frombuffer(bytearray(program.model_proto.SerializeToString()), dtype=torch.uint8)


@pytest.mark.task("soft_clip")
@pytest.mark.pitfall("E7")
@pytest.mark.lesson("Operators that the engine has not")
def test_clips_in_the_engine(submission, baseline):
    """Exported to ONNX and served by ONNX Runtime in another process, it gives the same numbers."""
    content = _once(submission, "clip", lambda: submission.run(_clip_to_onnx, torch.zeros(3, 1), 2.0))
    if isinstance(content, str):
        raise AssertionError(f"the exporter refuses it: {content}")
    (found,) = served.answers(baseline, {"model.onnx": content}, "model.onnx", [AROUND[:, None].clone()], names=())
    assert_matches(found, LIMITED[:, None], rtol=0, atol=0, what="what the engine gives")


# --- lighten ----------------------------------------------------------------------------------------------------------

NIGHT = torch.tensor([[0.0, 0.05], [0.05, 0.3]])  # the mean is 0.1, so values get 5 times as large, the last at most 1
LIT = torch.tensor([[0.0, 0.25], [0.25, 1.0]])
DAY = torch.tensor([[0.0, 0.75], [0.5, 0.25]])  # the mean is 0.375
CAP = torch.zeros(2, 2)  # the cap is on the lens


def _batch(*pictures):
    """Pictures of one channel."""
    return torch.stack(pictures)[:, None]


@pytest.mark.task("lighten")
@pytest.mark.lesson("The example took one branch")
def test_a_dark_picture_alone(submission):
    """A picture with mean 0.1 gets five times as bright, and 1 is the most."""
    assert_matches(submission.lighten(_batch(NIGHT)), _batch(LIT))


@pytest.mark.task("lighten")
@pytest.mark.pitfall("E1")
@pytest.mark.lesson("The example took one branch")
def test_each_picture_by_itself(submission):
    """In a batch the dark picture is brightened, the bright one is not, and neither is one with mean 0.25."""
    even = torch.full((2, 2), 0.25)
    assert_matches(submission.lighten(_batch(DAY, NIGHT, even)), _batch(DAY, LIT, even))


def _lightened_with_slopes(function, pictures):
    pictures = pictures.clone().requires_grad_()
    result = function(pictures)
    (gradient,) = torch.autograd.grad(result.sum(), pictures)
    return result, gradient


@pytest.mark.task("lighten")
@pytest.mark.pitfall("E1")
@pytest.mark.lesson("The example took one branch")
def test_with_the_cap_on(submission):
    """A black picture, alone or beside a bright one, stays as it is, and so do their gradients, which are 1."""
    for batch in (_batch(CAP), _batch(CAP, DAY)):
        result, gradient = submission.lighten.probe(_lightened_with_slopes, batch)
        assert_matches(result, batch)
        assert_matches(gradient, torch.ones_like(batch), what="the gradient")


@pytest.mark.task("lighten")
@pytest.mark.pitfall("E1")
@pytest.mark.lesson("The example took one branch")
def test_what_a_dark_picture_learns(submission):
    """Where nothing reaches 1, a dark picture gets the mean 0.5 whatever is in it: the gradient of the sum is 0."""
    dim = torch.tensor([[0.05, 0.1], [0.1, 0.15]])
    result, gradient = submission.lighten.probe(_lightened_with_slopes, _batch(dim, DAY))
    assert_matches(result, _batch(5 * dim, DAY))
    assert_matches(gradient, _batch(torch.zeros(2, 2), torch.ones(2, 2)), atol=1e-4, what="the gradient")


def _lighten_to_pt2(learner, example):
    """The bytes of a .pt2 file of `lighten`, with batch, height and width left open; or why there is none."""
    import io
    import logging

    class Lighten(torch.nn.Module):
        def forward(self, pictures):
            return learner.lighten(pictures)

    logging.getLogger("torch.fx").setLevel(logging.ERROR)
    free = torch.export.Dim.DYNAMIC
    try:
        program = torch.export.export(Lighten(), (example,), dynamic_shapes=({0: free, 2: free, 3: free},))
    except RuntimeError as error:  # a page of text, of which the first line says it
        return str(error).strip().splitlines()[0].partition(" (")[0]
    buffer = io.BytesIO()
    torch.export.save(program, buffer)
    return torch.frombuffer(bytearray(buffer.getvalue()), dtype=torch.uint8)


@pytest.mark.task("lighten")
@pytest.mark.pitfall("E1")
@pytest.mark.lesson("The example took one branch")
def test_exported_by_day_served_at_night(submission, baseline):
    """Exported with bright pictures as the example, it brightens dark ones as well, in batches of 1, 2 and 5."""
    content = _once(submission, "by day", lambda: submission.run(_lighten_to_pt2, DAY.repeat(2, 1, 4, 6)))
    if isinstance(content, str):
        raise AssertionError(f"the exporter refuses it: {content}")
    batches = [_batch(NIGHT), _batch(DAY, NIGHT), _batch(NIGHT, DAY, CAP, DAY, NIGHT)]
    found = served.answers(baseline, {"model.pt2": content}, "model.pt2", batches)
    expected = [_batch(LIT), _batch(DAY, LIT), _batch(LIT, DAY, CAP, DAY, LIT)]
    assert_matches(found, expected, what="what is served")


# --- load_model -------------------------------------------------------------------------------------------------------

WRITING = '''
import io
from unittest import mock


def as_written_on(device, state):
    """The bytes of a checkpoint of a machine whose tensors are on this device."""
    buffer = io.BytesIO()
    with mock.patch("torch.serialization.location_tag", lambda storage: device):
        torch.save({"model": state, "step": 3}, buffer)
    return torch.frombuffer(bytearray(buffer.getvalue()), dtype=torch.uint8)
'''
LINE = {"weight": torch.tensor([[3.0, -1.0]]), "bias": torch.tensor([0.5])}


def _loaded_line(learner, content):
    """The state of a linear layer after `load_model`, or the error; and whether that layer is what came back."""
    import tempfile

    model = torch.nn.Linear(2, 1)
    with tempfile.TemporaryDirectory() as folder:
        with open(f"{folder}/checkpoint.pt", "wb") as file:
            file.write(content.cpu().numpy().tobytes())
        try:
            same = learner.load_model(model, f"{folder}/checkpoint.pt") is model
        except RuntimeError as error:
            return str(error), None
    return {name: value.detach() for name, value in model.state_dict().items()}, same


@pytest.mark.task("load_model")
@pytest.mark.lesson("Devices that came along")
def test_a_checkpoint_from_here(submission, baseline):
    """A checkpoint that was written on a CPU is loaded, into the model that was handed over."""
    state, same = submission.run(_loaded_line, baseline(WRITING).as_written_on("cpu", LINE))
    assert_matches(state, LINE, what="the state")
    assert same, "something else than the model was returned"


@pytest.mark.task("load_model")
@pytest.mark.pitfall("E8")
@pytest.mark.lesson("Devices that came along")
def test_a_checkpoint_from_a_card(submission, baseline):
    """A checkpoint whose tensors were on `cuda:99` is loaded like any other."""
    state, _ = submission.run(_loaded_line, baseline(WRITING).as_written_on("cuda:99", LINE))
    assert_matches(state, LINE, what="the state")


@pytest.mark.task("load_model")
@pytest.mark.pitfall("E8")
@pytest.mark.lesson("Devices that came along")
def test_a_checkpoint_of_another_model(submission, baseline):
    """A checkpoint that has "kernel" where the model has "weight" is refused, and the message has both names."""
    other = {"kernel": LINE["weight"], "bias": LINE["bias"]}
    message, _ = submission.run(_loaded_line, baseline(WRITING).as_written_on("cpu", other))
    if not isinstance(message, str):
        raise Finding("the checkpoint of another model was loaded without an error")
    assert "kernel" in message and "weight" in message, f"the message does not have both names: {message}"


def _shaded(learner, gains, pictures):
    module = learner.Shading(gains).to(pictures.dtype)
    return module(pictures), {name: value.detach() for name, value in module.state_dict().items()}


@pytest.mark.task("load_model")
@pytest.mark.pitfall("E8")
@pytest.mark.lesson("Devices that came along")
@pytest.mark.parametrize("dtype", (torch.float32, torch.bfloat16), ids=str)
def test_shading_of_two_channels(submission, dtype):
    """Gains of 1.5 and 0.5 make 3 and 1 of pictures of 2, in the dtype of the module; they are in its state."""
    pictures = torch.full((1, 2, 1, 3), 2.0, dtype=dtype)
    result, state = submission.run(_shaded, [1.5, 0.5], pictures)
    expected = torch.tensor([3.0, 1.0], dtype=dtype).view(1, 2, 1, 1).expand(1, 2, 1, 3)
    assert_matches(result, expected, what="the pictures")
    assert_matches(state, {"gains": torch.tensor([1.5, 0.5], dtype=dtype)}, what="the state")


# --- fold_batchnorm ---------------------------------------------------------------------------------------------------


def _folded_number(learner, weight, bias, norm, training):
    """Fold a convolution of one number: the new weight and bias, or None where it is refused; and the norm's mode."""
    conv = torch.nn.Conv2d(1, 1, 1, bias=bias is not None)
    layer = torch.nn.BatchNorm2d(1, eps=norm["eps"]).train(training)
    with torch.no_grad():
        conv.weight.fill_(weight)
        if bias is not None:
            conv.bias.fill_(bias)
        for name in ("weight", "bias", "running_mean", "running_var"):
            getattr(layer, name).fill_(norm[name])
    try:
        folded = learner.fold_batchnorm(conv, layer)
    except ValueError:
        return None, layer.training
    return [folded.weight.detach(), folded.bias.detach()], layer.training


# 4 / sqrt(3.75 + 0.25) is 2: what comes out of the convolution is doubled, after 3 has been taken off
DOUBLES = {"weight": 4.0, "bias": 0.5, "running_mean": 3.0, "running_var": 3.75, "eps": 0.25}


def _check_folded(found, weight, bias):
    assert found is not None, "a BatchNorm in eval mode was refused"
    expected = [torch.tensor(weight).view(1, 1, 1, 1), torch.tensor([bias])]
    assert_matches(found, expected, rtol=1e-5, what="weight and bias")


@pytest.mark.task("fold_batchnorm")
@pytest.mark.pitfall("E6")
@pytest.mark.lesson("Folding BatchNorm")
def test_a_convolution_with_a_bias(submission):
    """The convolution makes 2x + 1; BatchNorm takes 3 off, doubles, adds 0.5: together 4x - 3.5."""
    _check_folded(submission.run(_folded_number, 2.0, 1.0, DOUBLES, False)[0], 4.0, -3.5)


@pytest.mark.task("fold_batchnorm")
@pytest.mark.pitfall("E6")
@pytest.mark.lesson("Folding BatchNorm")
def test_a_convolution_without_a_bias(submission):
    """The convolution makes 2x; BatchNorm takes 3 off, doubles, adds 0.5: together 4x - 5.5."""
    _check_folded(submission.run(_folded_number, 2.0, None, DOUBLES, False)[0], 4.0, -5.5)


@pytest.mark.task("fold_batchnorm")
@pytest.mark.pitfall("E6")
@pytest.mark.lesson("Folding BatchNorm")
def test_a_channel_that_never_varied(submission):
    """With a variance of 0 and eps 0.0001, a channel is multiplied by 100."""
    silent = {"weight": 1.0, "bias": 0.0, "running_mean": 0.0, "running_var": 0.0, "eps": 1e-4}
    _check_folded(submission.run(_folded_number, 1.0, None, silent, False)[0], 100.0, 0.0)


@pytest.mark.task("fold_batchnorm")
@pytest.mark.pitfall("E6")
@pytest.mark.lesson("Folding BatchNorm")
def test_in_the_middle_of_training(submission):
    """A BatchNorm in train mode is refused with a ValueError, and stays in train mode."""
    found, training = submission.run(_folded_number, 2.0, 1.0, DOUBLES, True)
    if found is not None:
        raise Finding("a BatchNorm in train mode was folded")
    assert training, "the BatchNorm is in eval mode now"


def _folded_row(learner, row, norm):
    """A row of numbers after a folded convolution that moves each one two places on, around the end."""
    conv = torch.nn.Conv2d(1, 1, (1, 3), padding=(0, 2), dilation=(1, 2), padding_mode="circular", bias=False)
    layer = torch.nn.BatchNorm2d(1, eps=norm["eps"]).eval()
    with torch.no_grad():
        conv.weight.copy_(torch.tensor([1.0, 0.0, 0.0]))
        for name in ("weight", "bias", "running_mean", "running_var"):
            getattr(layer, name).fill_(norm[name])
        return learner.fold_batchnorm(conv, layer)(row[None, None, None])[0, 0, 0]


@pytest.mark.task("fold_batchnorm")
@pytest.mark.lesson("Folding BatchNorm")
def test_a_convolution_that_goes_round(submission):
    """The convolution, dilated and padded in circles, makes 4, 5, 1, 2, 3 of 1 to 5; BatchNorm as before."""
    found = submission.run(_folded_row, torch.tensor([1.0, 2.0, 3.0, 4.0, 5.0]), DOUBLES)
    assert_matches(found, torch.tensor([2.5, 4.5, -3.5, -1.5, 0.5]), what="what the folded layer makes")


def _without_statistics(learner, training):
    layer = torch.nn.BatchNorm2d(1, track_running_stats=False).train(training)
    try:
        learner.fold_batchnorm(torch.nn.Conv2d(1, 1, 1), layer)
    except ValueError:
        return True
    return False


@pytest.mark.task("fold_batchnorm")
@pytest.mark.pitfall("E6")
@pytest.mark.lesson("Folding BatchNorm")
@pytest.mark.parametrize("training", (True, False), ids=("train", "eval"))
def test_a_norm_that_keeps_no_statistics(submission, training):
    """A BatchNorm with `track_running_stats=False` uses those of the batch in either mode: a ValueError."""
    if not submission.run(_without_statistics, training):
        raise Finding("a BatchNorm that keeps no running statistics was folded")
