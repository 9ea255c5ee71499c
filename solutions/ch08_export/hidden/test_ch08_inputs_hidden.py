"""Hidden tests of exercise 8, sections 1 to 5: the same promises at other sizes, dtypes and models."""

import pytest
import torch

from autograder.checks import assert_gradients_match, assert_leaves_inputs_alone, assert_matches, served
from autograder.errors import Finding

# --- to_input ---------------------------------------------------------------------------------------------------------

MEAN = torch.tensor([0.485, 0.456, 0.406]).view(3, 1, 1)
STD = torch.tensor([0.229, 0.224, 0.225]).view(3, 1, 1)


def _assert_shows(submission, reference, picture, size):
    result = submission.to_input(picture, size)
    values = reference.shown(picture, size).float()
    assert_matches(result, values, rtol=0, atol=torch.inf, what="the result")  # its shape and dtype
    assert_matches(result * STD + MEAN, values, rtol=0, atol=1.05 / 255, what="the values before MEAN and STD")


def _noise(seed, height, width, highest=255):
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(highest + 1, (height, width, 3), generator=generator).byte()


@pytest.mark.task("to_input")
@pytest.mark.pitfall("E4")
@pytest.mark.lesson("The same picture, other numbers")
@pytest.mark.parametrize("shape", ((97, 61), (45, 130), (33, 34), (300, 211)), ids=str)
def test_pixels_of_photographs(submission, reference, photographs, shape):
    """Photographs of odd sizes and shapes, made smaller: every pixel within one grey level."""
    for seed, size in enumerate((32, 21)):
        picture = photographs(seed=seed, n_frames=1, height=shape[0], width=shape[1])[0].flip(-1)
        _assert_shows(submission, reference, picture, size)


@pytest.mark.task("to_input")
@pytest.mark.pitfall("E4")
@pytest.mark.lesson("The same picture, other numbers")
@pytest.mark.parametrize("shape", ((64, 64), (33, 95), (150, 10), (7, 40)), ids=str)
def test_pixels_of_fine_patterns(submission, reference, shape):
    """Pictures whose neighbouring pixels have nothing in common, made smaller in one direction or in both."""
    for seed, size in enumerate((8, 13, 24)):
        _assert_shows(submission, reference, _noise(seed, *shape), size)


@pytest.mark.task("to_input")
@pytest.mark.lesson("The same picture, other numbers")
@pytest.mark.parametrize("shape", ((5, 9), (1, 1), (1, 6), (31, 32)), ids=str)
def test_small_pictures_are_enlarged(submission, reference, shape):
    """Pictures that have fewer pixels than the network asks for, down to a single one; and of exactly as many."""
    _assert_shows(submission, reference, _noise(3, *shape), 32)
    _assert_shows(submission, reference, _noise(4, *shape), max(shape))


@pytest.mark.task("to_input")
@pytest.mark.pitfall("E4")
@pytest.mark.lesson("The same picture, other numbers")
def test_pictures_taken_at_night(submission, reference):
    """Pictures with grey levels of 0 and 1 only, or up to 9, are as dark as they are."""
    for highest in (0, 1, 9):
        _assert_shows(submission, reference, _noise(5, 40, 56, highest), 24)


@pytest.mark.task("to_input")
@pytest.mark.pitfall("E4")
@pytest.mark.lesson("The same picture, other numbers")
def test_pictures_of_every_layout(submission, reference):
    """Crops, mirrored and transposed pictures, and such that lie in memory channel by channel."""
    picture = _noise(6, 50, 70)
    planes = picture.permute(2, 0, 1).contiguous().permute(1, 2, 0)
    wall = _noise(7, 1, 1).expand(20, 31, 3)
    for layout in (picture[3:40, 5:50], picture.transpose(0, 1), picture[::2, 1::3], planes, wall):
        _assert_shows(submission, reference, layout, 16)


@pytest.mark.task("to_input")
def test_picture_stays_as_it_is(submission):
    """The picture is not changed."""
    assert_leaves_inputs_alone(submission.to_input, (_noise(8, 30, 40), 16))


# --- in the engine ----------------------------------------------------------------------------------------------------


def _once(submission, name, make):
    """What `make` gives, made once for all tests of a task."""
    if name not in submission.remembered:
        submission.remembered[name] = make()
    return submission.remembered[name]


# --- soft_clip --------------------------------------------------------------------------------------------------------


def _numbers(seed, shape, limit, dtype=torch.float32):
    """Numbers within the limits, outside, and exactly at them."""
    generator = torch.Generator().manual_seed(seed)
    x = 2 * limit * torch.randn(shape, generator=generator, dtype=torch.float64)
    where = torch.rand(shape, generator=generator)
    x = torch.where(where < 0.1, limit, torch.where(where < 0.2, -limit, x))
    return x.to(dtype)


CLIPS = (((7,), 0.5), ((3, 4, 5), 1.25), ((2, 3, 6, 5), 6.0), ((), 1.0), ((0, 4), 2.0), ((64, 33), 0.0625))
"""Shapes and limits; the limits are exact in every dtype."""


@pytest.mark.task("soft_clip")
@pytest.mark.lesson("Operators that the engine has not")
def test_values_of_every_shape(submission, reference):
    """In float32, the values of numbers within, outside and at the limits, for other shapes and limits."""
    for seed, (shape, limit) in enumerate(CLIPS):
        x = _numbers(seed, shape, limit)
        assert_matches(submission.soft_clip(x, limit), reference.soft_clip(x, limit), rtol=1e-6, atol=0)


@pytest.mark.task("soft_clip")
@pytest.mark.lesson("Operators that the engine has not")
def test_gradients_of_every_shape(submission, reference):
    """In float32, the gradients of numbers within, outside and at the limits, for other shapes and limits."""
    for seed, (shape, limit) in enumerate(CLIPS):
        x = _numbers(seed, shape, limit)
        assert_gradients_match(submission.soft_clip, (x, limit), reference.soft_clip, rtol=1e-6, atol=1e-7)


@pytest.mark.task("soft_clip")
@pytest.mark.pitfall("E7")
@pytest.mark.lesson("Operators that the engine has not")
def test_values_and_gradients_in_float64(submission, reference):
    """In float64, values and gradients with the precision of float64."""
    for seed, (shape, limit) in enumerate(CLIPS):
        x = _numbers(seed, shape, limit / 3 * 3.3, torch.float64)
        limit = limit / 3 * 3.3
        assert_matches(submission.soft_clip(x, limit), reference.soft_clip(x, limit), rtol=1e-14, atol=0)
        assert_gradients_match(submission.soft_clip, (x, limit), reference.soft_clip, rtol=1e-14, atol=1e-14)


@pytest.mark.task("soft_clip")
@pytest.mark.lesson("Operators that the engine has not")
def test_very_large_numbers(submission, reference):
    """Numbers from a thousand up to the largest there are become the limit, with no digit lost, and learn on."""
    sizes = torch.tensor([1e3, 3e5, 7e7, 1e20, 3e38, -1e3, -3e5, -7e7, -1e20, -3e38])
    assert_matches(
        submission.soft_clip(sizes, 0.75), reference.soft_clip(sizes, 0.75), rtol=1e-6, atol=0, what="large numbers"
    )
    assert_gradients_match(submission.soft_clip, (sizes, 0.75), reference.soft_clip, rtol=1e-6, atol=0)


@pytest.mark.task("soft_clip")
def test_soft_clip_owns_its_result(submission):
    """The numbers that are given stay as they are, even where the result is written to."""

    def write(learner, x):
        with torch.no_grad():
            for limit in (1.0, 100.0):
                learner.soft_clip(x, limit).fill_(7.0)
        return x

    x = _numbers(9, (4, 5), 1.0)
    assert_matches(submission.run(write, x), x, rtol=0, atol=0, what="the numbers that were given")


@pytest.mark.task("soft_clip")
def test_layouts_of_numbers(submission, reference):
    """Transposed, strided and expanded numbers are clipped like any others."""
    x = _numbers(10, (6, 8), 1.0)
    for layout in (x.T, x[::2, 1::3], x[:, :1].expand(6, 5)):
        assert_matches(submission.soft_clip(layout, 1.0), reference.soft_clip(layout, 1.0))


def _network_to_onnx(learner, weight, limit):
    """The bytes of an ONNX model of a convolution, `soft_clip`, and a mean; batch and sizes are left open."""
    import logging
    import warnings

    class Network(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = torch.nn.Parameter(weight)

        def forward(self, x):
            return learner.soft_clip(torch.nn.functional.conv2d(x, self.weight), limit).mean(dim=(2, 3))

    logging.getLogger("torch.onnx").setLevel(logging.ERROR)
    free = torch.export.Dim.DYNAMIC
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        shapes = ({0: free, 2: free, 3: free},)
        example = torch.zeros(2, 3, 8, 9)
        program = torch.onnx.export(Network(), (example,), dynamo=True, verbose=False, dynamic_shapes=shapes)
    return torch.frombuffer(bytearray(program.model_proto.SerializeToString()), dtype=torch.uint8)


@pytest.mark.task("soft_clip")
@pytest.mark.pitfall("E7")
@pytest.mark.lesson("Operators that the engine has not")
def test_a_network_in_the_engine(submission, reference, baseline):
    """A network with the function inside runs in ONNX Runtime, at batch sizes and image sizes of all kinds."""
    generator = torch.Generator().manual_seed(11)
    weight = torch.randn(4, 3, 3, 3, generator=generator)
    batches = [torch.randn(n, 3, *size, generator=generator) for n, size in ((1, (8, 8)), (5, (11, 20)), (2, (8, 9)))]
    content = _once(submission, "network", lambda: submission.run(_network_to_onnx, weight, 1.5))
    batches.append(1e4 * batches[0])
    found = served.answers(baseline, {"model.onnx": content}, "model.onnx", batches, names=())
    for x, result in zip(batches, found, strict=True):
        y = reference.soft_clip(torch.nn.functional.conv2d(x.double(), weight.double()), 1.5).mean(dim=(2, 3))
        assert_matches(result, y.float(), rtol=0, atol=1e-5, what="what the engine gives")


# --- lighten ----------------------------------------------------------------------------------------------------------


def _pictures(seed, n, shape, dtype=torch.float32):
    """Dark, bright and black pictures by turns, black pixels in all of them; no mean is near the threshold."""
    generator = torch.Generator().manual_seed(seed)
    pictures = torch.rand((n, *shape), generator=generator, dtype=torch.float64)
    pictures *= torch.rand(pictures.shape, generator=generator) < 0.85
    means = torch.tensor([0.05, 0.4, 0.2, 0.0, 0.3, 0.1], dtype=torch.float64)[torch.arange(n) % 6]
    pictures *= (means / pictures.mean(dim=(1, 2, 3)).clamp_min(1e-9))[:, None, None, None]
    return pictures.clamp(max=1).to(dtype)


BATCHES = ((1, (3, 4, 6)), (2, (1, 7, 5)), (6, (3, 9, 8)), (13, (2, 5, 5)))


@pytest.mark.task("lighten")
@pytest.mark.pitfall("E1")
@pytest.mark.lesson("The example took one branch")
@pytest.mark.parametrize("dtype", (torch.float32, torch.float64), ids=str)
def test_batches_of_all_kinds(submission, reference, dtype):
    """Dark, bright and black pictures in batches of several sizes, in float32 and float64."""
    for seed, (n, shape) in enumerate(BATCHES):
        pictures = _pictures(seed, n, shape, dtype)
        tolerance = 32 * torch.finfo(dtype).eps
        expected = reference.lighten(pictures.double()).to(dtype)
        assert_matches(submission.lighten(pictures), expected, rtol=tolerance, atol=tolerance)


@pytest.mark.task("lighten")
@pytest.mark.pitfall("E1")
@pytest.mark.lesson("The example took one branch")
@pytest.mark.parametrize("dtype", (torch.float32, torch.float64), ids=str)
def test_gradients_on_both_branches(submission, reference, dtype):
    """Gradients of dark, bright and black pictures in one batch, the part of the mean included."""
    for seed, (n, shape) in enumerate(BATCHES):
        pictures = _pictures(seed, n, shape, dtype)
        assert_gradients_match(
            submission.lighten,
            (pictures,),
            reference.lighten,
            rtol=1e-4 if dtype == torch.float32 else 1e-10,
            atol=1e-4 if dtype == torch.float32 else 1e-10,
        )


@pytest.mark.task("lighten")
@pytest.mark.lesson("The example took one branch")
def test_very_dark_pictures(submission, reference):
    """Pictures so dark that hardly a pixel is not black are brightened by the same rule."""
    pictures = torch.zeros(3, 1, 10, 10)
    pictures[0, 0, 2, 3] = 1 / 255
    pictures[1, 0, 4, 4:6] = 1.0
    pictures[2] = 1e-4
    assert_matches(submission.lighten(pictures), reference.lighten(pictures.double()).float())
    assert_gradients_match(submission.lighten, (pictures,), reference.lighten, rtol=1e-3, atol=1e-2)


@pytest.mark.task("lighten")
def test_pictures_are_left_alone(submission):
    """The pictures that are given are not changed."""
    assert_leaves_inputs_alone(submission.lighten, (_pictures(7, 6, (3, 5, 5)),))


def _lighten_as(learner, format, example):
    """The bytes of a .pt2 file or an ONNX model of `lighten`, with batch, height and width left open."""
    import io
    import logging
    import warnings

    class Lighten(torch.nn.Module):
        def forward(self, pictures):
            return learner.lighten(pictures)

    free = torch.export.Dim.DYNAMIC
    shapes = ({0: free, 2: free, 3: free},)
    for name in ("torch.onnx", "torch.fx"):
        logging.getLogger(name).setLevel(logging.ERROR)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if format == "pt2":
            buffer = io.BytesIO()
            torch.export.save(torch.export.export(Lighten(), (example,), dynamic_shapes=shapes), buffer)
            content = buffer.getvalue()
        else:
            program = torch.onnx.export(Lighten(), (example,), dynamo=True, verbose=False, dynamic_shapes=shapes)
            content = program.model_proto.SerializeToString()
    return torch.frombuffer(bytearray(content), dtype=torch.uint8)


@pytest.mark.task("lighten")
@pytest.mark.pitfall("E1")
@pytest.mark.lesson("The example took one branch")
@pytest.mark.parametrize("format, example", (("pt2", "dark"), ("pt2", "black"), ("onnx", "dark")))
def test_served_on_both_branches(submission, reference, baseline, format, example):
    """Exported with dark or with black pictures, as .pt2 and to ONNX, it follows the rule for each picture."""
    pictures = torch.full((2, 3, 8, 12), 0.1 if example == "dark" else 0.0)
    content = submission.run(_lighten_as, format, pictures)
    batches = [
        _pictures(seed, n, (3, *size)) for seed, (n, size) in enumerate(((1, (8, 8)), (2, (9, 31)), (6, (20, 7))))
    ]
    batches.append(batches[-1][1:2])
    name = f"model.{format}"
    found = served.answers(baseline, {name: content}, name, batches, names=())
    for x, result in zip(batches, found, strict=True):
        assert_matches(result, reference.lighten(x), rtol=1e-4, atol=1e-5, what="what is served")


# --- load_model -------------------------------------------------------------------------------------------------------

WRITING = '''
import io
import sys
from unittest import mock


class Call:
    """What runs a function when the file that it is in is opened."""

    def __reduce__(self):
        return sys.setrecursionlimit, (4711,)


def as_written_on(device, content):
    """The bytes of a file of a machine whose tensors are on this device; "call" becomes what runs a function."""
    content = {name: Call() if value == "call" else value for name, value in content.items()}
    buffer = io.BytesIO()
    with mock.patch("torch.serialization.location_tag", lambda storage: device):
        torch.save(content, buffer)
    return torch.frombuffer(bytearray(buffer.getvalue()), dtype=torch.uint8)
'''


def _loaded(learner, content, dtype="float32"):
    """What `load_model` makes of a network with a BatchNorm, and what it leaves of it."""
    import pickle
    import sys
    import tempfile

    limit_before = sys.getrecursionlimit()
    torch.manual_seed(1)
    model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.BatchNorm1d(4), torch.nn.Linear(4, 2))
    model.to(getattr(torch, dtype))
    model[1].eval()
    model[0].bias.requires_grad_(False)
    before = {**dict(model.named_parameters()), **dict(model.named_buffers())}
    with tempfile.TemporaryDirectory() as folder:
        with open(f"{folder}/checkpoint.pt", "wb") as file:
            file.write(content.cpu().numpy().tobytes())
        try:
            returned, error, message = learner.load_model(model, f"{folder}/checkpoint.pt"), None, ""
        except pickle.UnpicklingError as found:
            returned, error, message = None, "UnpicklingError", str(found)
        except RuntimeError as found:
            returned, error, message = None, "RuntimeError", str(found)
    after = {**dict(model.named_parameters()), **dict(model.named_buffers())}
    return {
        "state": {name: value.detach() for name, value in model.state_dict().items()},
        "returned": returned is model,
        "error": error,
        "message": message,
        "ran": limit_before != 4711 and sys.getrecursionlimit() == 4711,
        "same": sorted(after) == sorted(before) and all(after[name] is before[name] for name in before),
        "modes": [module.training for module in model],
        "trainable": [p.requires_grad for p in model.parameters()],
    }


def _state(seed, dtype=torch.float32):
    generator = torch.Generator().manual_seed(seed)
    shapes = {"0.weight": (4, 3), "0.bias": (4,), "1.weight": (4,), "1.bias": (4,), "1.running_mean": (4,)}
    shapes |= {"1.running_var": (4,), "2.weight": (2, 4), "2.bias": (2,)}
    state = {name: torch.rand(shape, generator=generator, dtype=torch.float64) for name, shape in shapes.items()}
    return {name: value.to(dtype) for name, value in state.items()} | {"1.num_batches_tracked": torch.tensor(17)}


@pytest.mark.task("load_model")
@pytest.mark.pitfall("E8")
@pytest.mark.lesson("Devices that came along")
@pytest.mark.parametrize("device", ("cpu", "cuda", "cuda:0", "cuda:99", "mps", "xpu:3"))
def test_checkpoints_from_any_device(submission, baseline, device):
    """Checkpoints from machines with devices of several kinds, among other things that are in them."""
    content = {"epoch": 3, "model": _state(1), "optimiser": {"state": {}, "lr": 0.1}, "best": [0.5, torch.ones(2)]}
    found = submission.run(_loaded, baseline(WRITING).as_written_on(device, content))
    assert found["error"] is None, f"it raised {found['error']}"
    assert_matches(found["state"], _state(1), what="the state")
    assert found["returned"], "something else than the model was returned"


@pytest.mark.task("load_model")
@pytest.mark.pitfall("E8")
@pytest.mark.lesson("Devices that came along")
@pytest.mark.parametrize("change", ("missing", "unexpected", "renamed", "reshaped"))
def test_names_and_shapes_have_to_fit(submission, baseline, change):
    """A checkpoint with a name too few, too many, another one, or another shape: a RuntimeError that has the name."""
    state = _state(2)
    if change == "missing":
        del state["1.running_var"]
        names = ["1.running_var"]
    elif change == "unexpected":
        state["3.weight"] = torch.ones(2, 2)
        names = ["3.weight"]
    elif change == "renamed":
        state["2.kernel"] = state.pop("2.weight")
        names = ["2.kernel", "2.weight"]
    else:
        state["0.bias"] = torch.ones(5)
        names = ["0.bias"]
    found = submission.run(_loaded, baseline(WRITING).as_written_on("cpu", {"model": state}))
    if found["error"] is None:
        raise Finding("a checkpoint that does not fit was loaded without an error")
    assert found["error"] == "RuntimeError"
    assert all(name in found["message"] for name in names)


@pytest.mark.task("load_model")
@pytest.mark.pitfall("E8")
@pytest.mark.lesson("Devices that came along")
@pytest.mark.parametrize("device", ("cpu", "cuda:99"))
def test_opening_a_file_runs_nothing(submission, baseline, device):
    """A file with something that runs a function when it is opened is refused, and the function is not run."""
    content = {"model": _state(3), "note": "call"}
    found = submission.run(_loaded, baseline(WRITING).as_written_on(device, content))
    if found["ran"]:
        raise Finding("a function that the file names has been run")
    assert found["error"] == "UnpicklingError", f"{found['error'] or 'no error'} instead of an UnpicklingError"


@pytest.mark.task("load_model")
@pytest.mark.lesson("Devices that came along")
@pytest.mark.parametrize("dtype", ("float64", "float32", "bfloat16"))
def test_the_model_stays_what_it_is(submission, baseline, dtype):
    """The model's tensors stay the same ones, of their dtype; so do its modes, and what is trained."""
    found = submission.run(_loaded, baseline(WRITING).as_written_on("cpu", {"model": _state(4)}), dtype)
    expected = {name: v if name.endswith("tracked") else v.to(getattr(torch, dtype)) for name, v in _state(4).items()}
    assert_matches(found["state"], expected, what="the state")
    if not found["same"]:
        raise Finding("the model has other tensors than before, which an optimiser does not know")
    assert found["modes"] == [True, False, True], "a mode has changed"
    assert found["trainable"] == [True, False, True, True, True, True], "requires_grad of a parameter has changed"


def _shading_sent(learner, gains, pictures, dtype, device):
    """What a `Shading` does after `.to(dtype)` and `.to(device)`, the picture likewise."""
    module = learner.Shading(gains).to(getattr(torch, dtype)).to(device)
    pictures = pictures.to(getattr(torch, dtype)).to(device)
    result = module(pictures)
    plain = result if device != "meta" else None
    return plain, list(result.shape), str(result.dtype), result.device.type, len(list(module.parameters()))


@pytest.mark.task("load_model")
@pytest.mark.pitfall("E8")
@pytest.mark.lesson("Devices that came along")
@pytest.mark.parametrize("device", ("cpu", "meta"))
@pytest.mark.parametrize("dtype", ("float32", "float64", "float16", "bfloat16"))
def test_shading_goes_where_it_is_sent(submission, dtype, device):
    """Sent to a device and a dtype, the correction takes pictures that are there, and what it returns is there."""
    generator = torch.Generator().manual_seed(5)
    pictures = torch.randint(1, 9, (2, 3, 4, 5), generator=generator) / 8
    gains = [1.25, 0.75, 0.5]
    result, shape, found_dtype, found_device, n_parameters = submission.run(
        _shading_sent, gains, pictures, dtype, device
    )
    assert_matches([shape, found_dtype, found_device], [[2, 3, 4, 5], f"torch.{dtype}", device])
    if n_parameters:
        raise Finding("the gains are a parameter, which would be trained")
    if device == "cpu":
        expected = (pictures * torch.tensor(gains)[:, None, None]).to(getattr(torch, dtype))
        assert_matches(result, expected, what="the pictures")


def _shading_loaded(learner, content, pictures, n_channels):
    """Pictures before and after a larger model has got the gains of a checkpoint; and the names in its state."""
    import tempfile

    model = torch.nn.Sequential(learner.Shading([1.0] * n_channels), torch.nn.Flatten())
    before = model(pictures)
    with tempfile.TemporaryDirectory() as folder:
        with open(f"{folder}/checkpoint.pt", "wb") as file:
            file.write(content.cpu().numpy().tobytes())
        model = learner.load_model(model, f"{folder}/checkpoint.pt")
    return before, model(pictures), list(model.state_dict())


@pytest.mark.task("load_model")
@pytest.mark.pitfall("E8")
@pytest.mark.lesson("Devices that came along")
def test_gains_come_from_the_checkpoint(submission, baseline):
    """The gains in a checkpoint from a card are those that are used from then on."""
    gains = torch.tensor([0.5, 1.5, 2.0, 0.25])
    content = baseline(WRITING).as_written_on("cuda:99", {"model": {"0.gains": gains}})
    pictures = torch.rand(3, 4, 2, 5, generator=torch.Generator().manual_seed(6))
    before, after, names = submission.run(_shading_loaded, content, pictures, 4)
    assert_matches(before, pictures.flatten(1), what="the pictures before")
    assert_matches(after, (pictures * gains[:, None, None]).flatten(1), what="the pictures after")
    assert names == ["0.gains"]


# --- fold_batchnorm ---------------------------------------------------------------------------------------------------

KINDS = {
    "plain": {},
    "no bias": {"bias": False},
    "groups": {"groups": 2, "stride": 2, "padding": 1},
    "each channel": {"groups": 4, "padding": 2, "dilation": 2},
    "wide": {"kernel_size": (1, 5), "padding": (0, 2), "stride": (2, 1), "bias": False},
    "reflected": {"padding": 1, "padding_mode": "reflect"},
}
NORMS = {"affine": {}, "not affine": {"affine": False}, "large eps": {"eps": 0.5}}


def _layers(seed, kind, norm_kind, dtype, variance=1.0):
    """A convolution of 4 to 8 channels and a BatchNorm that has seen something."""
    settings = {"kernel_size": 3} | KINDS[kind]
    generator = torch.Generator().manual_seed(seed)
    conv, norm = torch.nn.Conv2d(4, 8, **settings).to(dtype), torch.nn.BatchNorm2d(8, **NORMS[norm_kind]).to(dtype)

    def draw(like, low, high):
        like.data = low + (high - low) * torch.rand(like.shape, generator=generator, dtype=torch.float64).to(dtype)

    for parameter in conv.parameters():
        draw(parameter, -1.0, 1.0)
    if norm.weight is not None:
        draw(norm.weight, -1.5, 1.5)
        draw(norm.bias, -1.0, 1.0)
    draw(norm.running_mean, -2.0, 2.0)
    draw(norm.running_var, 0.2 * variance, 3.0 * variance)
    x = torch.randn(3, 4, 9, 11, generator=generator, dtype=torch.float64).to(dtype)
    return conv.eval(), norm.eval(), x, settings


def _plain(module):
    return {name: value.detach() for name, value in module.state_dict().items()}


def _folded(learner, settings, norm_settings, conv_state, norm_state, x, cotangent):
    """Result and gradient of the folded layer, what is left of the layers it was made of, and facts about it."""
    conv = torch.nn.Conv2d(4, 8, **settings).to(x.dtype).train()
    norm = torch.nn.BatchNorm2d(8, **norm_settings).to(x.dtype).eval()
    conv.load_state_dict(conv_state)
    norm.load_state_dict(norm_state)
    for number, parameter in enumerate((*conv.parameters(), *norm.parameters())):
        parameter.grad = torch.full_like(parameter, number)
    folded = learner.fold_batchnorm(conv, norm)
    x.requires_grad_()
    result = folded(x)
    (gradient,) = torch.autograd.grad(result, x, cotangent)
    facts = [type(folded).__name__, folded.bias is not None, folded is not conv]
    facts += [p.is_leaf and p.requires_grad and p.dtype == x.dtype for p in folded.parameters()]
    with torch.no_grad():
        for parameter in folded.parameters():
            parameter.fill_(77.0)
    grads = [p.grad for p in (*conv.parameters(), *norm.parameters())]
    return {
        "result": result.detach(),
        "gradient": gradient,
        "facts": facts,
        "conv": {name: value.detach() for name, value in conv.state_dict().items()},
        "norm": {name: value.detach() for name, value in norm.state_dict().items()},
        "grads": [None if grad is None else float(grad.float().mean()) for grad in grads],
        "modes": [conv.training, norm.training],
    }


def _fold(submission, layers, norm_kind):
    conv, norm, x, settings = layers
    cotangent = torch.randn(conv(x).shape, generator=torch.Generator().manual_seed(1), dtype=torch.float64).to(x.dtype)
    found = submission.run(
        _folded, settings, NORMS[norm_kind], _plain(conv), _plain(norm), x.clone().detach(), cotangent
    )
    return found, cotangent


def _check_fold(submission, reference, layers, norm_kind):
    conv, norm, x, _ = layers
    found, cotangent = _fold(submission, layers, norm_kind)
    leaf = x.double().requires_grad_()
    expected = reference.normalised(conv, norm, leaf)
    (gradient,) = torch.autograd.grad(expected, leaf, cotangent.double())
    tolerance = 1e-5 if x.dtype == torch.float32 else 1e-10
    for name, mine, theirs in (("result", found["result"], expected), ("gradient", found["gradient"], gradient)):
        largest = theirs.detach().abs().amax(dim=(0, 2, 3), keepdim=True).clamp_min(1e-30)
        assert_matches(mine.double() / largest, theirs.detach() / largest, rtol=0, atol=tolerance, what=f"the {name}")
        assert mine.dtype == x.dtype, f"the {name} has dtype {mine.dtype}"


@pytest.mark.task("fold_batchnorm")
@pytest.mark.pitfall("E6")
@pytest.mark.lesson("Folding BatchNorm")
@pytest.mark.parametrize("norm_kind", NORMS)
@pytest.mark.parametrize("kind", KINDS)
def test_folded_layers_of_every_kind(submission, reference, kind, norm_kind):
    """Convolutions and BatchNorms of every kind: result and gradient of the folded layer are those of the two."""
    for seed, dtype in enumerate((torch.float32, torch.float64)):
        _check_fold(submission, reference, _layers(seed, kind, norm_kind, dtype), norm_kind)


@pytest.mark.task("fold_batchnorm")
@pytest.mark.pitfall("E6")
@pytest.mark.lesson("Folding BatchNorm")
@pytest.mark.parametrize("variance", (1e-4, 1e-6, 0.0))
def test_quiet_channels(submission, reference, variance):
    """Channels whose variance is about as small as eps, or smaller, or zero."""
    for kind in ("plain", "no bias"):
        _check_fold(submission, reference, _layers(3, kind, "affine", torch.float32, variance), "affine")


@pytest.mark.task("fold_batchnorm")
@pytest.mark.pitfall("E6")
@pytest.mark.lesson("Folding BatchNorm")
@pytest.mark.parametrize("kind", ("plain", "no bias"))
@pytest.mark.parametrize("norm_kind", ("affine", "not affine"))
def test_originals_stay_as_they_were(submission, kind, norm_kind):
    """Convolution and BatchNorm keep values, gradients and modes, also when the folded layer is written to."""
    layers = _layers(4, kind, norm_kind, torch.float32)
    conv, norm, _, _ = layers
    found, _ = _fold(submission, layers, norm_kind)
    assert_matches(found["conv"], _plain(conv), rtol=0, atol=0, what="the convolution afterwards")
    assert_matches(found["norm"], _plain(norm), rtol=0, atol=0, what="the BatchNorm afterwards")
    n_parameters = len(list(conv.parameters())) + len(list(norm.parameters()))
    assert_matches(found["grads"], [float(number) for number in range(n_parameters)], what="the gradients afterwards")
    assert found["modes"] == [True, False], "a mode has changed"
    assert found["facts"] == ["Conv2d", True, True, True, True], "the folded layer is not a new Conv2d with a bias"


def _refused(learner, statistics, training):
    """Whether folding raises a ValueError; and the BatchNorm's mode and statistics afterwards."""
    conv, norm = torch.nn.Conv2d(2, 2, 3), torch.nn.BatchNorm2d(2, track_running_stats=statistics).train(training)
    try:
        learner.fold_batchnorm(conv, norm)
    except ValueError:
        return True, norm.training
    return False, norm.training


@pytest.mark.task("fold_batchnorm")
@pytest.mark.pitfall("E6")
@pytest.mark.lesson("Folding BatchNorm")
def test_what_depends_on_the_batch_is_refused(submission):
    """A BatchNorm in train mode, or one that keeps no running statistics: refused, its mode untouched."""
    for statistics, training in ((True, True), (False, True), (False, False)):
        refused, mode = submission.run(_refused, statistics, training)
        if not refused:
            raise Finding("a BatchNorm that uses the statistics of the batch was folded")
        assert mode == training, "the mode of the BatchNorm has changed"
