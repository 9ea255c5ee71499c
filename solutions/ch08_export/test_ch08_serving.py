"""Visible tests of exercise 8, sections 6 to 9. They use examples that can be worked out by hand; they are for you."""

import random

import pytest
import torch
from onnx import TensorProto, helper, numpy_helper

from autograder.checks import assert_matches, served
from autograder.errors import Finding, LearnerError


def _once(submission, name, make):
    """What `make()` gives, made once for all tests of a task; an exception is kept as well."""
    if name not in submission.remembered:
        try:
            submission.remembered[name] = make(), None
        except LearnerError as error:
            submission.remembered[name] = None, error
    value, error = submission.remembered[name]
    if error is not None:
        raise error
    return value


# --- export_model -----------------------------------------------------------------------------------------------------


def _export_a_norm(learner):
    """Export a model of five layers; its files, and what the export has changed."""
    import os
    import tempfile

    model = torch.nn.Sequential(
        torch.nn.BatchNorm2d(3, affine=False),
        torch.nn.Dropout(0.5),
        torch.nn.AdaptiveAvgPool2d(1),
        torch.nn.Flatten(),
        torch.nn.Linear(3, 200, bias=False),
    )
    with torch.no_grad():
        model[0].running_mean.fill_(1.0)
        model[0].running_var.fill_(4.0 - model[0].eps)
        model[4].weight.copy_(torch.tensor([[1.0, 0.0, 1.0], [0.0, 1.0, 0.0]]).repeat(100, 1))
    model.train()
    model[1].eval()
    modes = [module.training for module in model.modules()]
    torch.manual_seed(3)
    torch.rand(1)  # in the middle of a training, not at its start
    state = torch.get_rng_state()
    changed, files = [], {}
    with tempfile.TemporaryDirectory() as folder:
        learner.export_model(model, folder)
        if [module.training for module in model.modules()] != modes:
            changed.append("the mode of a module")
        if not torch.equal(torch.get_rng_state(), state):
            changed.append("the state of torch's random numbers")
        for name in sorted(os.listdir(folder)):
            with open(os.path.join(folder, name), "rb") as file:
                content = bytearray(file.read())
            files[name] = torch.frombuffer(content, dtype=torch.uint8) if content else torch.empty(0, dtype=torch.uint8)
    return files, changed


def _of_one_colour(n, height, width):
    """Pictures that are 3, 5 and 1 in their three channels."""
    return torch.tensor([3.0, 5.0, 1.0])[:, None, None].expand(n, 3, height, width).contiguous()


# less the mean of 1, over the deviation of 2, the channels are 1, 2 and 0; of the 200 logits, every other one is
# the first and the third channel together, and those between are the second
OF_ONE_COLOUR = torch.tensor([1.0, 2.0]).repeat(100)


def _check_answers(baseline, files, sizes):
    for name in ("model.pt2", "model.onnx"):
        found = served.answers(baseline, files, name, [_of_one_colour(*size) for size in sizes])
        for size, answer in zip(sizes, found, strict=True):
            what = f"what {name} answers to {size[0]} picture(s) of {size[1]} by {size[2]}"
            assert_matches(answer, OF_ONE_COLOUR.expand(size[0], 200), rtol=1e-4, atol=1e-4, what=what)


@pytest.mark.task("export_model")
@pytest.mark.pitfall("E5")
@pytest.mark.lesson("Train mode goes along")
def test_two_pictures_of_one_colour(submission, baseline):
    """Before the exported answer of each picture, BatchNorm takes off the mean 1 it has learned, not the batch's."""
    files, _ = _once(submission, "of a norm", lambda: submission.run(_export_a_norm))
    _check_answers(baseline, files, [(2, 32, 40)])


@pytest.mark.task("export_model")
@pytest.mark.pitfall("E3")
@pytest.mark.lesson("Another size at the door")
def test_one_picture_and_other_sizes(submission, baseline):
    """One picture alone, five pictures, small and square ones: all have the same logits."""
    files, _ = _once(submission, "of a norm", lambda: submission.run(_export_a_norm))
    _check_answers(baseline, files, [(1, 32, 40), (5, 16, 19), (3, 48, 48), (1, 16, 16)])


@pytest.mark.task("export_model")
@pytest.mark.pitfall("E11")
@pytest.mark.lesson("Parity, in another process")
def test_each_file_opens_alone(submission, baseline):
    """Each of the two files is copied to an empty folder and opens there."""
    files, _ = _once(submission, "of a norm", lambda: submission.run(_export_a_norm))
    assert_matches(sorted(files), ["model.onnx", "model.pt2"], what="the files in the folder")
    for name in ("model.pt2", "model.onnx"):
        served.answers(baseline, {name: files[name]}, name, [])


@pytest.mark.task("export_model")
@pytest.mark.pitfall("E5")
@pytest.mark.lesson("Train mode goes along")
def test_exporting_changes_nothing(submission):
    """After the export each layer is in the mode that it was in, and torch draws the random numbers that were next."""
    _, changed = _once(submission, "of a norm", lambda: submission.run(_export_a_norm))
    if changed:
        raise Finding(f"the export has changed {' and '.join(changed)}")


# --- check_served -----------------------------------------------------------------------------------------------------

_MODEL = '''
class Shown(torch.nn.Module):
    """The mean of each channel after BatchNorm; dark pictures are doubled first."""

    def __init__(self, dark):
        super().__init__()
        self.dark = dark
        self.norm = torch.nn.BatchNorm2d(3)
        self.norm.running_mean.copy_(torch.tensor([0.5, -0.5, 1.0]))
        self.norm.running_var.copy_(torch.tensor([4.0, 1.0, 0.25]))

    def forward(self, pictures, brighten=True):
        dark = pictures.mean(dim=(1, 2, 3), keepdim=True) < self.dark
        return self.norm(torch.where(dark & brighten, 2 * pictures, pictures)).mean(dim=(2, 3))
'''
_HONEST = """
def publish(model):
    return model.eval()
"""
_ONE_BRANCH = """
def publish(model):
    model.eval()
    return lambda pictures: model(pictures, brighten=False)
"""
_TRAIN_MODE = """
def publish(model):
    return model.train()
"""
_SQUARES = """
def publish(model):
    model.eval()
    return lambda pictures: model(pictures) if pictures.shape[2] == pictures.shape[3] else model(pictures) * torch.nan
"""
_SHOWN = [_HONEST, _ONE_BRANCH, _TRAIN_MODE, _SQUARES]


def _tried(learner, model_source, source):
    """What the test raised for a served model, or an empty text; and whether the model is as it was."""
    import copy

    namespace = {"torch": torch}
    exec(model_source + source, namespace)
    model = namespace["Shown"](learner.DARK).train()
    model.norm.weight.grad = torch.ones(3)
    published = namespace["publish"](copy.deepcopy(model))

    def serve(pictures):
        with torch.no_grad():
            return published(pictures)

    before = {name: value.clone() for name, value in model.state_dict().items()}
    raised = ""
    try:
        learner.check_served(serve, model)
    except Exception as error:
        raised = f"{type(error).__name__}: {error}"
    is_kept = all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    is_kept = is_kept and model.training and model.norm.training and torch.equal(model.norm.weight.grad, torch.ones(3))
    return raised, is_kept


def _verdict(submission, source):
    """All that are shown are tried at once, in an order drawn anew."""

    def make():
        sources = list(_SHOWN)
        random.SystemRandom().shuffle(sources)
        return {other: submission.run(_tried, _MODEL, other) for other in sources}

    return _once(submission, "verdicts shown", make)[source]


@pytest.mark.task("check_served")
@pytest.mark.pitfall("E2")
@pytest.mark.lesson("A test for a served model")
def test_accepts_the_model_itself(submission):
    """The model in eval mode, served as it is, is accepted; the model that it was made from is in train mode."""
    raised, is_kept = _verdict(submission, _HONEST)
    assert not raised, f"the model itself was rejected: {raised}"
    if not is_kept:
        raise Finding("afterwards the model is another one, or in another mode")


@pytest.mark.task("check_served")
@pytest.mark.pitfall("E2")
@pytest.mark.lesson("The example took one branch")
def test_rejects_one_branch(submission):
    """A served model that brightens no picture is rejected."""
    raised, _ = _verdict(submission, _ONE_BRANCH)
    assert raised, "a served model that knows one branch only was accepted"


@pytest.mark.task("check_served")
@pytest.mark.pitfall("E2")
@pytest.mark.lesson("Train mode goes along")
def test_rejects_train_mode(submission):
    """A served model in train mode, whose answers depend on the batch, is rejected."""
    raised, _ = _verdict(submission, _TRAIN_MODE)
    assert raised, "a served model in train mode was accepted"


@pytest.mark.task("check_served")
@pytest.mark.pitfall("E2")
@pytest.mark.lesson("Another size at the door")
def test_rejects_what_knows_squares_only(submission):
    """For pictures that are not square, the logits are not numbers: rejected."""
    raised, _ = _verdict(submission, _SQUARES)
    assert raised, "a served model that knows squares only was accepted"


# --- quantise ---------------------------------------------------------------------------------------------------------


def _onnx_file(convolutions, head, pads=0):
    """The bytes of a model: convolutions (weight, bias), the mean of each channel, a linear layer of weight `head`."""
    nodes, constants, last = [], [numpy_helper.from_array(head.numpy(), "head")], "pictures"
    for i, (weight, bias) in enumerate(convolutions):
        constants += [numpy_helper.from_array(weight.numpy(), f"w{i}"), numpy_helper.from_array(bias.numpy(), f"b{i}")]
        kernel = {"kernel_shape": list(weight.shape[2:]), "pads": [pads] * 4}
        nodes.append(helper.make_node("Conv", [last, f"w{i}", f"b{i}"], [f"conv{i}"], name=f"conv{i}", **kernel))
        last = f"conv{i}"
    nodes += [
        helper.make_node("GlobalAveragePool", [last], ["means"], name="pool"),
        helper.make_node("Flatten", ["means"], ["flat"], name="flatten"),
        helper.make_node("Gemm", ["flat", "head"], ["logits"], name="head", transB=1),
    ]
    pictures = helper.make_tensor_value_info("pictures", TensorProto.FLOAT, ["n", 3, "h", "w"])
    logits = helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["n", len(head)])
    graph = helper.make_graph(nodes, "model", [pictures], [logits], constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    return torch.frombuffer(bytearray(model.SerializeToString()), dtype=torch.uint8)


def _quantised(learner, content, pictures):
    """The bytes of the int8 form of a model."""
    import os
    import tempfile

    with tempfile.TemporaryDirectory() as here, tempfile.TemporaryDirectory() as there:
        paths = os.path.join(here, "float32.onnx"), os.path.join(there, "int8.onnx")
        with open(paths[0], "wb") as file:
            file.write(content.numpy().tobytes())
        learner.quantise(paths[0], pictures, paths[1])
        with open(paths[1], "rb") as file:
            return torch.frombuffer(bytearray(file.read()), dtype=torch.uint8)


def _plain_pictures():
    """Sixteen pictures of one colour each, from black to white."""
    return torch.linspace(0, 255, 16).to(torch.uint8)[:, None, None, None].expand(16, 8, 8, 3).contiguous()


CHANNELS = [(torch.eye(3)[:, :, None, None].clone(), torch.zeros(3))], torch.eye(3)
"""A convolution and a head that hand on what they get: the logits are the means of the channels."""


def _logits_of_plain_pictures(submission, baseline):
    content = _onnx_file(*CHANNELS)
    pictures = _plain_pictures()
    small = _once(submission, "of channels", lambda: submission.run(_quantised, content, pictures))
    inputs = baseline("starter").prepared(pictures)
    (found,) = served.answers(baseline, {"int8.onnx": small}, "int8.onnx", [inputs])
    return small, found, inputs.mean(dim=(2, 3))


@pytest.mark.task("quantise")
@pytest.mark.pitfall("E9")
@pytest.mark.lesson("Eight bits")
def test_grey_pictures_keep_their_values(submission, baseline):
    """Where a model only takes means, int8 gives those of grey pictures, from black to white, to within 0.1."""
    _, found, expected = _logits_of_plain_pictures(submission, baseline)
    assert_matches(found, expected, rtol=0, atol=0.1, what="the logits")


@pytest.mark.task("quantise")
@pytest.mark.pitfall("E9")
@pytest.mark.lesson("Eight bits")
def test_the_convolution_is_computed_in_int8(submission, baseline):
    """In what ONNX Runtime makes of the file there is one convolution, in int8."""
    small, found, _ = _logits_of_plain_pictures(submission, baseline)
    counts = served.operators(baseline, small)
    assert found.shape == (16, 3), f"the logits have the shape {tuple(found.shape)}"
    if counts.get("QLinearConv", 0) != 1 or any(name in counts for name in ("Conv", "FusedConv")):
        raise Finding(
            f"the convolution is not computed by QLinearConv; there are: {', '.join(sorted(counts)) or 'none'}"
        )


@pytest.mark.task("quantise")
@pytest.mark.pitfall("E9")
@pytest.mark.lesson("Eight bits")
def test_an_edge_and_a_blur_in_one_layer(submission, baseline):
    """Weights of 1/9 in one channel, of 32 in the other: on pictures that get brighter to the right, both are kept."""
    kernels = torch.zeros(2, 3, 3, 3)
    kernels[0, 1] = 1 / 9  # the mean of the green of nine pixels
    kernels[1, 1, 1] = torch.tensor([-32.0, 0.0, 32.0])  # 32 times what green gains from the left to the right
    content = _onnx_file([(kernels, torch.zeros(2))], torch.eye(2))
    starts = torch.arange(0, 160, 10)
    pictures = (
        (starts[:, None] + 2 * torch.arange(32))[:, None, :, None].expand(16, 8, 32, 3).to(torch.uint8).contiguous()
    )
    small = submission.run(_quantised, content, pictures)
    inputs = baseline("starter").prepared(pictures)
    (found,) = served.answers(baseline, {"int8.onnx": small}, "int8.onnx", [inputs])
    green = inputs[:, 1, 0, :]
    # the mean of a blur is nearly the mean of green; that of an edge is 32 times the mean gain over two pixels
    expected = torch.stack([green[:, 1:-1].mean(dim=1), 32 * (green[:, 2:] - green[:, :-2]).mean(dim=1)], dim=1)
    assert_matches(found[:, 0], expected[:, 0], rtol=0, atol=0.15, what="the logits of the blur")
    assert_matches(found[:, 1], expected[:, 1], rtol=0, atol=0.3, what="the logits of the edge")


# --- serve_requests ---------------------------------------------------------------------------------------------------


def _served(learner, lengths, sizes):
    """Requests of so many pictures, request number i full of the number i + 1, on an engine with a clock of its own.

    A call takes a second for each picture in the batch; the first one of a shape takes a hundred more.
    """
    now, shapes, calls = [0.0], set(), []
    memory = torch.zeros(64, 1)

    def engine(batch):
        now[0] += len(batch) + (0.0 if batch.shape in shapes else 100.0)
        shapes.add(batch.shape)
        calls.append(len(batch))
        memory[: len(batch)] = batch.mean(dim=(1, 2, 3))[:, None]
        return memory[: len(batch)]

    requests = [torch.full((n, 3, 2, 2), i + 1.0) for i, n in enumerate(lengths)]
    answers, report = learner.serve_requests(engine, requests, sizes, lambda: now[0])
    return answers, report, calls


@pytest.mark.task("serve_requests")
@pytest.mark.pitfall("E10")
@pytest.mark.lesson("The slowest of a hundred")
def test_three_requests_in_batches_of_four(submission):
    """Requests of 1, 3 and 2 pictures, batches of 4 only: the engine prepares itself once, before the first of them."""
    _, report, calls = submission.run(_served, [1, 3, 2], [4])
    if set(calls) != {4}:
        raise Finding(f"the engine got batches of {', '.join(map(str, sorted(set(calls))))} pictures; expected: 4")
    assert_matches(report, {"p50": 4.0, "p95": 4.0, "p99": 4.0}, what="the report")
    assert len(calls) == 4, f"the engine was called {len(calls)} times; expected: once beforehand and three times"


@pytest.mark.task("serve_requests")
@pytest.mark.pitfall("E10")
@pytest.mark.lesson("The slowest of a hundred")
def test_a_report_of_twenty_requests(submission):
    """18 requests of one picture, one of 2 and one of 9, in batches of 1, 2 and 9: P50 is 1 s, P95 2 s and P99 9 s."""
    _, report, _ = submission.run(_served, [1] * 5 + [9] + [1] * 12 + [2, 1], [1, 2, 9])
    assert_matches(report, {"p50": 1.0, "p95": 2.0, "p99": 9.0}, what="the report")


@pytest.mark.task("serve_requests")
@pytest.mark.pitfall("E10")
@pytest.mark.lesson("The slowest of a hundred")
def test_answers_are_kept(submission):
    """Each of three requests, full of 1, 2 and 3, has answers of its own afterwards, one for each of its pictures."""
    answers, _, _ = submission.run(_served, [2, 1, 7], [1, 4])
    expected = [torch.full((2, 1), 1.0), torch.full((1, 1), 2.0), torch.full((7, 1), 3.0)]
    assert_matches(answers, expected, what="the answers")
