"""Hidden tests of exercise 7: settings, averaging, unequal numbers of labels, and the learner's own test."""

import itertools
from pathlib import Path

import pytest
import torch

from autograder.checks import assert_matches
from autograder.checks.own_test_on_ranks import rejection_on_ranks
from autograder.checks.ranks import outcomes_on_ranks, values_on_ranks
from autograder.errors import Finding
from autograder.variants import read_variants

# --- process_group_settings -------------------------------------------------------------------------------------------

_NEEDED = ["RANK", "LOCAL_RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"]


def _environment(rank, per_machine, n_machines, address="192.0.2.17", port="41000"):
    return {
        "RANK": str(rank),
        "LOCAL_RANK": str(rank % per_machine),
        "GROUP_RANK": str(rank // per_machine),
        "WORLD_SIZE": str(per_machine * n_machines),
        "LOCAL_WORLD_SIZE": str(per_machine),
        "MASTER_ADDR": address,
        "MASTER_PORT": port,
        "CUDA_VISIBLE_DEVICES": "4,5,6,7",
        "HOME": "/home/trainer",
    }


@pytest.mark.task("process_group_settings")
@pytest.mark.lesson("Ranks, and how they meet")
def test_settings_of_a_single_machine(submission, reference):
    """On one machine that is its own address, with CUDA, each process has its rank's card and nothing else is in it."""
    for rank in range(3):
        environment = _environment(rank, 3, 1, address="127.0.0.1")
        settings = submission.process_group_settings(environment, "cuda")
        assert_matches(settings, reference.process_group_settings(environment, "cuda"), what="the settings")


@pytest.mark.task("process_group_settings")
@pytest.mark.pitfall("P8")
@pytest.mark.lesson("Ranks, and how they meet")
def test_devices_on_many_machines(submission, reference):
    """On each of several machines, the processes have that machine's cards from 0 on; ranks and world size are ints."""
    for per_machine, n_machines in ((1, 3), (8, 2)):
        for rank in range(per_machine, per_machine * n_machines, 3):
            environment = _environment(rank, per_machine, n_machines)
            settings = submission.process_group_settings(environment, "cuda")
            expected = reference.process_group_settings(environment, "cuda")
            for key in ("device", "rank", "world_size", "backend"):
                assert_matches(settings[key], expected[key], what=f"settings[{key!r}]")


@pytest.mark.task("process_group_settings")
@pytest.mark.pitfall("P7")
@pytest.mark.pitfall("P8")
@pytest.mark.lesson("Ranks, and how they meet")
def test_all_settings_of_many_processes(submission, reference):
    """Everything at once, for both kinds of device, on one machine and on several, and nothing more than was promised."""
    # machines need not have the same number of processes: the last one of these has rank 4 alone
    uneven = _environment(4, 2, 3) | {"LOCAL_WORLD_SIZE": "1", "WORLD_SIZE": "5"}
    uneven = [uneven, {name: uneven[name] for name in _NEEDED}, _environment(3, 3, 2) | {"LOCAL_RANK": "1"}]
    for environment in uneven:
        settings = submission.process_group_settings(environment, "cuda")
        assert_matches(settings, reference.process_group_settings(environment, "cuda"), what="the settings")
    for rank, device_type in itertools.product(range(6), ("cpu", "cuda")):
        environment = _environment(rank, 2, 3, address="node-17.cluster.example", port="2345")
        settings = submission.process_group_settings(environment, device_type)
        assert_matches(settings, reference.process_group_settings(environment, device_type), what="the settings")


@pytest.mark.task("process_group_settings")
@pytest.mark.pitfall("P7")
@pytest.mark.lesson("Ranks, and how they meet")
def test_laptops_need_no_cards(submission, reference):
    """On the CPU, several processes talk by gloo and all have the device "cpu"."""
    for rank in range(2):
        environment = _environment(rank, 2, 1, address="127.0.0.1")
        settings = submission.process_group_settings(environment, "cpu")
        assert_matches(settings, reference.process_group_settings(environment, "cpu"), what="the settings")


def _complaints(function, environments, device_type):
    complaints = []
    for environment in environments:
        try:
            function(environment, device_type)
            complaints.append("")
        except ValueError as error:
            complaints.append(str(error))
    return complaints


@pytest.mark.task("process_group_settings")
@pytest.mark.pitfall("P8")
@pytest.mark.lesson("Ranks, and how they meet")
@pytest.mark.parametrize("device_type", ["cpu", "cuda"])
def test_anything_missing_is_named(submission, device_type):
    """Whichever of the five variables are missing, there is a ValueError that names each of them."""
    whole = _environment(1, 2, 2, address="127.0.0.1")
    gone = [names for n in (1, 2, 5) for names in itertools.combinations(_NEEDED, n)]
    environments = [{name: value for name, value in whole.items() if name not in names} for names in gone]
    complaints = submission.process_group_settings.probe(_complaints, environments, device_type)
    assert len(complaints) == len(gone)
    for names, complaint in zip(gone, complaints, strict=True):
        # RANK is a part of LOCAL_RANK
        text = complaint.replace("LOCAL_RANK", "") if "RANK" in names else complaint
        unnamed = [name for name in names if name not in (complaint if name == "LOCAL_RANK" else text)]
        assert not unnamed, f"without {names}, the message is {complaint!r}"


def _with_the_real_environment(function, environment, device_type):
    import os

    kept = dict(os.environ)
    try:
        os.environ.update(environment)
        before = dict(os.environ)
        settings = function(os.environ, device_type)
        return settings, dict(os.environ) == before
    finally:
        os.environ.clear()
        os.environ.update(kept)


@pytest.mark.task("process_group_settings")
@pytest.mark.lesson("Ranks, and how they meet")
def test_environment_stays_as_it_is(submission, reference):
    """`os.environ` itself will do as the environment, and it is not changed."""
    environment = _environment(1, 2, 1, address="127.0.0.1")
    settings, is_unchanged = submission.process_group_settings.probe(_with_the_real_environment, environment, "cuda")
    assert_matches(settings, reference.process_group_settings(environment, "cuda"), what="the settings")
    assert is_unchanged, "the environment has changed"


# --- average_gradients ------------------------------------------------------------------------------------------------


def _averaged(learner, rank, world_size, gradients):
    model = torch.nn.Module()
    for number in range(len(gradients[0])):
        like = next(of_rank[number] for of_rank in gradients if of_rank[number] is not None)
        parameter = torch.nn.Parameter(torch.full(like.shape, 0.5, dtype=like.dtype))
        parameter.grad = gradients[rank][number]
        model.register_parameter(f"p{number}", parameter)
    learner.average_gradients(model)
    for p in model.parameters():
        if not (p == 0.5).all():
            raise AssertionError("a parameter's value has changed")
    return [None if p.grad is None else p.grad.clone() for p in model.parameters()]


def _gradients(seed, world_size, shapes, dtypes=(torch.float32,)):
    generator = torch.Generator().manual_seed(seed)
    return [
        [
            torch.randn(shape, generator=generator, dtype=dtypes[number % len(dtypes)])
            for number, shape in enumerate(shapes)
        ]
        for _ in range(world_size)
    ]


_SHAPES = [(3, 4), (4,), (), (2, 3, 2), (1,)]


@pytest.mark.task("average_gradients")
@pytest.mark.pitfall("P9")
@pytest.mark.lesson("The mean of gradients")
def test_mean_over_all_ranks(submission, reference):
    """Every one of three ranks has the mean of all ranks' gradients, for parameters of any shape."""
    gradients = _gradients(2, 3, _SHAPES)
    expected = reference.mean_over_ranks(gradients)
    for found in values_on_ranks(submission, _averaged, 3, gradients, timeout=10):
        assert_matches(found, expected, what="the gradients")


@pytest.mark.task("average_gradients")
@pytest.mark.pitfall("P9")
@pytest.mark.lesson("The mean of gradients")
def test_layouts_and_dtypes(submission, reference):
    """Gradients of float32 and float64 in turn, some of them transposed in memory, keep their places and precision."""
    gradients = _gradients(3, 2, [(3, 4), (5, 2), (4,), (2, 3, 4), ()], (torch.float64, torch.float32))
    for of_rank in gradients:
        of_rank[0] = of_rank[0].t().contiguous().t()
        of_rank[3] = of_rank[3].permute(2, 0, 1).contiguous().permute(1, 2, 0)
    gradients[1][1] = gradients[1][1].t().contiguous().t()  # another layout than on rank 0
    expected = reference.mean_over_ranks(gradients)
    for outcome in outcomes_on_ranks(submission, _averaged, 2, gradients, timeout=10):
        assert_matches(outcome["value"], expected, what="the gradients")
        # what was rounded to float32 on the way would be off by 1e-8
        assert_matches(outcome["value"][::2], expected[::2], rtol=1e-13, atol=1e-14, what="the gradients of float64")
        n_calls = outcome["collectives"]
        if n_calls > 4:
            raise Finding(f"for parameters of two dtypes there were {n_calls} collective calls; 4 are allowed")


@pytest.mark.task("average_gradients")
@pytest.mark.pitfall("P9")
@pytest.mark.lesson("Collectives, and who waits")
def test_missing_gradients_count_as_zeros(submission, reference):
    """Ranks that lack some gradients, each others, count as ranks with zeros; afterwards nothing is missing anywhere."""
    gradients = _gradients(5, 3, _SHAPES)
    for rank, number in ((0, 0), (1, 1), (1, 2), (2, 2), (0, 4)):
        gradients[rank][number] = None
    expected = reference.mean_over_ranks(gradients)
    for found in values_on_ranks(submission, _averaged, 3, gradients, timeout=10):
        assert_matches(found, expected, what="the gradients")


@pytest.mark.task("average_gradients")
@pytest.mark.pitfall("P9")
@pytest.mark.lesson("The mean of gradients")
def test_few_calls_for_many_parameters(submission, reference):
    """However many parameters there are, there are two collective calls at most for their dtype, and the means are right."""
    gradients = _gradients(6, 2, [(number % 3 + 1, 2) for number in range(40)])
    expected = reference.mean_over_ranks(gradients)
    for outcome in outcomes_on_ranks(submission, _averaged, 2, gradients, timeout=10):
        assert_matches(outcome["value"], expected, what="the gradients")
        n_calls = outcome["collectives"]
        if n_calls > 2:
            raise Finding(f"for 40 parameters of one dtype there were {n_calls} collective calls; 2 are allowed")


def _odd_model(learner, rank, world_size, gradients):
    import torch.nn as nn

    body = nn.Linear(3, 3)
    norm = nn.BatchNorm1d(3)
    unused = nn.Linear(2, 2)
    frozen = nn.Linear(3, 1)
    frozen.requires_grad_(False)
    model = nn.Sequential(body, norm, body, frozen, unused)  # the same layer twice
    with torch.no_grad():
        for p in model.parameters():
            p.fill_(0.25)
        norm.running_mean.fill_(rank)
    body.weight.grad, body.bias.grad = gradients[rank][:2]
    norm.weight.grad, norm.bias.grad = gradients[rank][2:4]
    frozen.weight.grad = gradients[rank][4].clone()
    learner.average_gradients(model)
    of_unused = [torch.ones(1) if p.grad is None else p.grad.clone() for p in unused.parameters()]
    return {
        "body": [p.grad.clone() for p in (*body.parameters(), *norm.parameters())],
        "unused": of_unused,
        "frozen weight": frozen.weight.grad.clone(),
        "frozen bias has a gradient": frozen.bias.grad is not None,
        "values": torch.cat([p.detach().flatten() for p in model.parameters()]),
        "buffers": norm.running_mean.clone(),
    }


@pytest.mark.task("average_gradients")
@pytest.mark.pitfall("P9")
@pytest.mark.lesson("The mean of gradients")
def test_layers_used_twice_frozen_or_never(submission, reference):
    """A layer used twice is averaged once, one that no rank uses has zeros; frozen ones, values and buffers stay."""
    gradients = _gradients(7, 3, [(3, 3), (3,), (3,), (3,), (1, 3)])
    expected = reference.mean_over_ranks(gradients)
    for rank, found in enumerate(values_on_ranks(submission, _odd_model, 3, gradients, timeout=10)):
        assert_matches(found["body"], expected[:4], what="the gradients")
        assert_matches(found["unused"], [torch.zeros(2, 2), torch.zeros(2)], what="the gradients of an unused layer")
        assert_matches(found["frozen weight"], gradients[rank][4], what="the gradient of a frozen weight")
        assert_matches(found["frozen bias has a gradient"], False, what="whether the frozen bias has a gradient")
        assert_matches(found["values"], torch.full_like(found["values"], 0.25), what="the values")
        assert_matches(found["buffers"], torch.full((3,), float(rank)), what="the running mean")


def _trained(learner, rank, world_size, weights, steps, lr):
    from autograder.instruments import mlp

    model = mlp(weights)
    for batches in steps:
        images, labels = batches[rank]
        model.zero_grad()
        torch.nn.functional.cross_entropy(model(images), labels).backward()
        learner.average_gradients(model)
        with torch.no_grad():
            for p in model.parameters():
                p -= lr * p.grad
    return [p.detach().clone() for p in model.parameters()]


def _weights(seed, sizes):
    generator = torch.Generator().manual_seed(seed)
    pairs = itertools.pairwise(sizes)
    return [
        tensor
        for n_in, n_out in pairs
        for tensor in (
            torch.randn(n_out, n_in, generator=generator) / n_in**0.5,
            torch.randn(n_out, generator=generator),
        )
    ]


@pytest.mark.task("average_gradients")
@pytest.mark.pitfall("P9")
@pytest.mark.lesson("The mean of gradients")
def test_training_is_that_of_one_process(submission, reference, digits):
    """Three steps on three ranks, with batches of equal size, end with the weights of one process on all the data."""
    images, labels = digits(3, 36)
    weights = _weights(8, (64, 6, 10))
    batches = list(zip(images.split(4), labels.split(4), strict=True))
    steps = [batches[start : start + 3] for start in (0, 3, 6)]
    expected = reference.trained(weights, steps, 0.5)
    for found in values_on_ranks(submission, _trained, 3, weights, steps, 0.5, timeout=10):
        assert_matches(found, expected, rtol=1e-4, atol=1e-5, dtype=False, what="the weights")


@pytest.mark.task("average_gradients")
@pytest.mark.lesson("The mean of gradients")
def test_one_rank_keeps_its_gradients(submission):
    """In a group of one, the gradients stay what they are."""
    gradients = _gradients(9, 1, _SHAPES)
    (found,) = values_on_ranks(submission, _averaged, 1, gradients, timeout=10)
    assert_matches(found, gradients[0], what="the gradients")


# --- mean_loss_backward -----------------------------------------------------------------------------------------------


def _backward(learner, rank, world_size, weights, batches):
    from autograder.instruments import mlp

    images, labels = batches[rank]
    kept = images.clone(), labels.clone()
    model = mlp(weights)
    loss = learner.mean_loss_backward(torch.nn.parallel.DistributedDataParallel(model), images, labels)
    is_kept = torch.equal(images, kept[0]) and torch.equal(labels, kept[1])
    is_kept = is_kept and all(torch.equal(p, w) for p, w in zip(model.parameters(), weights, strict=True))
    return {"loss": loss, "gradients": [p.grad.clone() for p in model.parameters()], "is kept": is_kept}


def _batches(digits, seed, sizes, n_labels):
    """Batches of digits with so many labels each; which ones have a label is drawn by seed."""
    images, labels = digits(seed, sum(sizes))
    generator = torch.Generator().manual_seed(seed)
    batches = []
    for x, y, n in zip(images.split(sizes), labels.split(sizes), n_labels, strict=True):
        y = y.clone()
        y[torch.randperm(len(y), generator=generator)[n:]] = -100
        batches.append((x.clone(), y))
    return batches


@pytest.mark.task("mean_loss_backward")
@pytest.mark.pitfall("P13")
@pytest.mark.lesson("The mean of gradients")
@pytest.mark.parametrize(("sizes", "n_labels"), [([7, 2], [7, 2]), ([4, 9], [3, 0]), ([3, 1, 6], [0, 1, 4])])
def test_gradient_is_that_of_one_process(submission, reference, digits, sizes, n_labels):
    """Whatever the ranks' numbers of pictures and labels, the gradient is that of one process on all of them."""
    batches = _batches(digits, 11, sizes, n_labels)
    weights = _weights(12, (64, 5, 10))
    _, expected = reference.mean_loss_and_gradients(weights, batches)
    for found in values_on_ranks(submission, _backward, len(sizes), weights, batches, timeout=10):
        assert_matches(found["gradients"], expected, rtol=1e-4, atol=1e-5, dtype=False, what="the gradients")


@pytest.mark.task("mean_loss_backward")
@pytest.mark.pitfall("P13")
@pytest.mark.lesson("Metrics over all ranks")
def test_every_rank_returns_the_loss_of_all(submission, reference, digits):
    """Every rank returns the mean loss over all labelled pictures of all ranks, as a Python float."""
    batches = _batches(digits, 13, [2, 5, 3], [2, 0, 1])
    weights = _weights(14, (64, 10))
    expected, _ = reference.mean_loss_and_gradients(weights, batches)
    for found in values_on_ranks(submission, _backward, 3, weights, batches, timeout=10):
        assert isinstance(found["loss"], float), "the loss should be a Python float"
        assert_matches(found["loss"], expected, rtol=1e-4, atol=1e-5, what="the loss")


@pytest.mark.task("mean_loss_backward")
@pytest.mark.lesson("What DDP does for you")
def test_batches_of_one_size_with_all_labels(submission, reference, digits):
    """With as many labels on each rank, loss and gradient are those of one process; parameters and batch stay."""
    batches = _batches(digits, 15, [4, 4], [4, 4])
    weights = [weight.double() for weight in _weights(16, (64, 4, 10))]
    batches = [(images.double(), labels) for images, labels in batches]
    loss, gradients = reference.mean_loss_and_gradients([weight.clone() for weight in weights], batches)
    for found in values_on_ranks(submission, _backward, 2, weights, batches, timeout=10):
        assert_matches(found["loss"], loss, what="the loss")
        assert_matches(found["gradients"], gradients, what="the gradients")
        assert found["is kept"], "the parameters or the batch have changed"


# --- check_averaging --------------------------------------------------------------------------------------------------

_HERE = Path(__file__).parent


def _cases(name):
    """(source, number of ranks) of all implementations in a file; two ranks where its facts do not say otherwise."""
    variants = read_variants(_HERE / "averagings" / name)
    return [(v.source, int(size)) for v in variants for size in v.facts.get("ranks", "2").split(",")]


_RIGHT = _cases("right.py")
_WRONG = _cases("wrong.py")


def _rejection(check_averaging, source, world_size):
    among = [other for other, size in (*_RIGHT, *_WRONG) if size == world_size]
    return rejection_on_ranks(check_averaging, source, world_size, among)


@pytest.mark.task("check_averaging")
@pytest.mark.lesson("A test for many ranks")
@pytest.mark.parametrize("number", range(len(_RIGHT)))
def test_own_test_accepts_right_averagings(submission, number):
    """On every rank, your test accepts implementations that are right, however they go about it."""
    if _rejection(submission.check_averaging, *_RIGHT[number]):
        raise AssertionError("an implementation that is right was rejected")


@pytest.mark.task("check_averaging")
@pytest.mark.pitfall("P9")
@pytest.mark.lesson("A test for many ranks")
@pytest.mark.parametrize("number", range(len(_WRONG)))
def test_own_test_rejects_wrong_averagings(submission, number):
    """Your test rejects what is no mean, not on all ranks, not for all parameters, or changes more than it should."""
    if not _rejection(submission.check_averaging, *_WRONG[number]):
        raise AssertionError("an implementation that is wrong was accepted")
