"""Hidden tests of exercise 3, sections 1 to 5: the same promises at other sizes, dtypes and numbers of steps."""

import pytest
import torch

from autograder.checks import assert_matches
from autograder.errors import Finding


def _random(seed, *shapes, dtype=torch.float32):
    """Random tensors, small enough for a network's weights."""
    generator = torch.Generator().manual_seed(seed)
    return [(0.3 * torch.randn(shape, generator=generator, dtype=torch.float64)).to(dtype) for shape in shapes]


# --- Classifier -------------------------------------------------------------------------------------------------------
# Nothing is promised about names, so parameters are set by their shapes: all of one shape are set alike.


def _tensors(seed, width, n_classes):
    return _random(seed, (width, 64), (width, width), (n_classes, width), (width,), (n_classes,))


def _known(learner, n_blocks, mean, std, tensors, images, labels):
    """The probabilities of a model with known parameters, in eval mode; the loss's gradient; how much is trained."""
    width, n_classes = tensors[1].shape[0], tensors[2].shape[0]
    model = learner.Classifier(n_blocks, width, mean, std, n_classes)
    values = {tuple(tensor.shape): tensor for tensor in tensors}
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.requires_grad:
                parameter.copy_(values[tuple(parameter.shape)])
    images = images.clone().requires_grad_()
    scores = model.eval()(images)
    torch.nn.functional.cross_entropy(scores, labels).backward()
    n_trained = sum(parameter.numel() for parameter in model.parameters() if parameter.requires_grad)
    return scores.softmax(dim=1), images.grad, n_trained


@pytest.mark.task("Classifier")
@pytest.mark.pitfall("T5", "T17")
@pytest.mark.lesson("What a module knows about")
def test_scores_at_other_sizes(submission, reference, digits):
    """For any number of blocks, width and classes: right probabilities, gradients, and number of trained numbers."""
    for n_blocks, width, n_classes in ((0, 5, 3), (1, 12, 10), (4, 20, 7)):
        images, labels = digits(seed=n_blocks, n=9)
        for mean, std in ((torch.tensor(0.3), torch.tensor(0.4)), (images.mean(0), images.std(0) + 0.1)):
            args = (n_blocks, mean, std, _tensors(width, width, n_classes), images, labels % n_classes)
            (actual, gradient, n_trained) = submission.run(_known, *args)
            (expected, expected_gradient, expected_number) = _known(reference, *args)
            assert_matches(n_trained, expected_number, what="the number of trained numbers")
            assert_matches(actual, expected, rtol=1e-4, what="the probabilities")
            assert_matches(gradient, expected_gradient, rtol=1e-3, what="the loss's gradient")


def _loaded_after_training(learner, mean, std, tensors, images, labels):
    """The probabilities of a model loaded from one that has been trained for some steps, with Dropout turned off."""
    width, n_classes = tensors[1].shape[0], tensors[2].shape[0]
    values = {tuple(tensor.shape): tensor for tensor in tensors}
    model = learner.Classifier(2, width, mean, std, n_classes)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.requires_grad:
                parameter.copy_(values[tuple(parameter.shape)])
    for module in model.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.0
    optimiser = torch.optim.SGD(model.parameters(), lr=0.1, weight_decay=0.1)
    for _ in range(3):
        optimiser.zero_grad()
        torch.nn.functional.cross_entropy(model(images), labels).backward()
        optimiser.step()
    other = learner.Classifier(2, width, torch.zeros_like(mean), torch.ones_like(std), n_classes)
    other.load_state_dict(model.state_dict())
    return other.eval()(images).softmax(dim=1)


@pytest.mark.task("Classifier")
@pytest.mark.pitfall("T15", "T5")
@pytest.mark.lesson("What a module knows about")
def test_a_trained_model_can_be_loaded(submission, reference, digits):
    """A model that is loaded from a trained one gives its scores, whatever mean and deviation it was built with."""
    images, labels = digits(seed=11, n=30)
    for mean, std in ((torch.tensor(0.3), torch.tensor(0.4)), (images.mean(0), images.std(0) + 0.1)):
        args = (mean, std, _tensors(3, 16, 10), images, labels)
        expected = _loaded_after_training(reference, *args)
        assert_matches(submission.run(_loaded_after_training, *args), expected, rtol=1e-3, atol=1e-4)


def _brought_elsewhere(learner, mean, std, tensors, images):
    """On the device that holds shapes only: which device and shape come out, in both modes; before that, the scores."""
    width, n_classes = tensors[1].shape[0], tensors[2].shape[0]
    values = {tuple(tensor.shape): tensor for tensor in tensors}
    model = learner.Classifier(2, width, mean, std, n_classes)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.requires_grad:
                parameter.copy_(values[tuple(parameter.shape)])
    before = model.eval()(images).softmax(dim=1)
    model.to("meta")
    found = [model.train(training)(images.to("meta")) for training in (False, True)]
    return before, [(scores.device.type, list(scores.shape)) for scores in found]


@pytest.mark.task("Classifier")
@pytest.mark.pitfall("T15")
@pytest.mark.lesson("What a module knows about")
def test_nothing_is_left_behind(submission, reference, digits):
    """After `.to(...)` to another device the whole model is there, and runs."""
    images, _ = digits(seed=12, n=6)
    args = (images.mean(0), images.std(0) + 0.1, _tensors(4, 12, 10), images)
    expected, found = _brought_elsewhere(reference, *args)
    actual, found_here = submission.run(_brought_elsewhere, *args)
    assert_matches(actual, expected, rtol=1e-4, what="the probabilities before")
    assert_matches(found_here, found, what="device and shape after")


def _in_dtype(learner, mean, std, tensors, images, dtype):
    width, n_classes = tensors[1].shape[0], tensors[2].shape[0]
    values = {tuple(tensor.shape): tensor for tensor in tensors}
    model = learner.Classifier(2, width, mean, std, n_classes)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.requires_grad:
                parameter.copy_(values[tuple(parameter.shape)])
    scores = model.to(dtype).eval()(images.to(dtype))
    return scores.softmax(dim=1)


@pytest.mark.task("Classifier")
@pytest.mark.pitfall("T15")
@pytest.mark.lesson("What a module knows about")
def test_the_model_in_other_dtypes(submission, reference, digits):
    """After `.to(...)` to another floating-point dtype the whole model works in that dtype."""
    images, _ = digits(seed=13, n=6)
    args = (images.mean(0), images.std(0) + 0.2, _tensors(5, 12, 10), images)
    for dtype, atol in ((torch.float64, 1e-5), (torch.bfloat16, 0.05)):
        expected = _in_dtype(reference, *args, torch.float64).to(dtype)
        assert_matches(submission.run(_in_dtype, *args, dtype), expected, rtol=0.0, atol=atol)


def _learn_by_heart(learner, images, labels, n_classes):
    torch.manual_seed(3)
    model = learner.Classifier(2, 32, torch.tensor(0.3), torch.tensor(0.4), n_classes)
    optimiser = torch.optim.Adam(model.parameters(), lr=0.02)
    for _ in range(30):
        loss = torch.nn.functional.cross_entropy(model(images), labels)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    return loss.item()


@pytest.mark.task("Classifier")
@pytest.mark.pitfall("T17")
@pytest.mark.lesson("Logits, not probabilities")
def test_four_classes_are_learned_by_heart(submission, digits):
    """With four classes, too, the loss on one batch can be brought close to zero."""
    images, labels = digits(seed=14, n=24)
    loss = submission.run(_learn_by_heart, images, labels % 4, 4)
    if not loss < 0.4:
        raise Finding(f"after 30 steps on the same 24 samples of four classes the loss is still {loss:.2f}")


# --- train_one_epoch --------------------------------------------------------------------------------------------------


def _batches(digits, seed, sizes, scale=1.0, dtype=torch.float64):
    images, labels = digits(seed=seed, n=sum(sizes))
    images = (images * scale).to(dtype)
    return list(zip(images.split(list(sizes)), labels.split(list(sizes)), strict=True))


def _weights(seed, *sizes, dtype=torch.float64):
    shapes = []
    for narrow, wide in zip(sizes[:-1], sizes[1:], strict=True):
        shapes += [(wide, narrow), (wide,)]
    return _random(seed, *shapes, dtype=dtype)


def _epochs(learner, weights, batches, accumulate, max_norm, epochs=2, left=0.0):
    """Train for some epochs; `left` fills the gradients that were there before."""
    from autograder.instruments import mlp

    model = mlp(weights)
    optimiser = torch.optim.SGD(model.parameters(), lr=0.3, momentum=0.5)
    for parameter in model.parameters():
        parameter.grad = torch.full_like(parameter, left) if left else None
    results = [learner.train_one_epoch(model, batches, optimiser, accumulate, max_norm) for _ in range(epochs)]
    return results, [parameter.detach() for parameter in model.parameters()]


@pytest.mark.task("train_one_epoch")
@pytest.mark.pitfall("T2", "T3")
@pytest.mark.lesson("Accumulating gradients")
def test_batches_of_unequal_sizes(submission, reference, digits):
    """Batches of different sizes, with some left over: each step is that of the mean over all of its samples."""
    for accumulate in (2, 3, 4):
        args = (_weights(21, 64, 6, 10), _batches(digits, 22, (5, 1, 8, 2, 3)), accumulate, 1e6)
        results, parameters = submission.run(_epochs, *args)
        expected_results, expected = _epochs(reference, *args)
        assert_matches(parameters, expected, rtol=1e-5, what="the parameters after two epochs")
        assert_matches(results, expected_results, rtol=1e-5, what="the mean losses")


@pytest.mark.task("train_one_epoch")
@pytest.mark.pitfall("T11")
@pytest.mark.lesson("When a batch explodes")
def test_total_norm_is_limited(submission, reference, digits):
    """The gradient of each step, of all parameters together, is scaled down to the norm that is allowed."""
    for accumulate, max_norm in ((1, 0.3), (3, 0.05)):
        args = (_weights(23, 64, 5, 10), _batches(digits, 24, (4, 7, 2, 6, 5, 3), scale=20.0), accumulate, max_norm)
        results, parameters = submission.run(_epochs, *args)
        expected_results, expected = _epochs(reference, *args)
        assert_matches(parameters, expected, rtol=1e-4, what="the parameters after two epochs")
        assert_matches(results, expected_results, rtol=1e-4, what="the mean losses")


@pytest.mark.task("train_one_epoch")
@pytest.mark.pitfall("T2")
@pytest.mark.lesson("The order of the calls")
def test_gradients_from_before(submission, reference, digits):
    """Gradients that something else has left behind have no part in the first step, nor in any other."""
    for accumulate in (1, 2):
        args = (_weights(25, 64, 4, 10), _batches(digits, 26, (6, 4, 5)), accumulate, 1e6, 1)
        _, expected = _epochs(reference, *args)
        _, parameters = submission.run(_epochs, *args, 7.0)
        assert_matches(parameters, expected, rtol=1e-5, what="the parameters after one epoch")


def _with_normalisation(learner, weights, batches, accumulate):
    """A model with batch normalisation, in eval mode before, with a frozen first layer, trained by AdamW."""
    from autograder.instruments import mlp

    first, last = mlp(weights[:2]), mlp(weights[2:])
    first.requires_grad_(False)
    norm = torch.nn.BatchNorm1d(weights[0].shape[0]).to(weights[0].dtype)
    model = torch.nn.Sequential(first, norm, last).eval()
    optimiser = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=0.05)
    result = learner.train_one_epoch(model, batches, optimiser, accumulate, 1.0)
    modes = [module.training for module in model.modules()]
    return result, modes, {name: value.detach() for name, value in model.state_dict().items()}


@pytest.mark.task("train_one_epoch")
@pytest.mark.pitfall("T3")
@pytest.mark.lesson("Accumulating gradients")
def test_batches_go_through_one_by_one(submission, reference, digits):
    """In train mode, each batch goes through the model once and by itself: batch normalisation shows it."""
    for accumulate in (1, 3):
        args = (_weights(27, 64, 6, 10), _batches(digits, 28, (6, 9, 5, 4)), accumulate)
        result, modes, state = submission.run(_with_normalisation, *args)
        expected_result, expected_modes, expected = _with_normalisation(reference, *args)
        assert_matches(modes, expected_modes, what="`training` of the modules")
        assert_matches(state, expected, rtol=1e-5, what="the state of the model")
        assert_matches(result, expected_result, rtol=1e-5, what="the mean loss")


def _kept(learner, weights, batches, accumulate):
    """As each batch comes: tensors saved for a backward pass, and graphs of earlier batches; and reads in all."""
    from autograder.instruments import GraphCounter, HostReads, SavedTensors, mlp

    kept = []
    model = torch.nn.Sequential(mlp(weights), GraphCounter())
    with SavedTensors() as saved, HostReads() as reads:
        model.register_forward_pre_hook(lambda *_: kept.append(saved.alive))
        optimiser = torch.optim.SGD(model.parameters(), lr=0.1)
        result = learner.train_one_epoch(model, batches, optimiser, accumulate, 0.5)
    graphs = model[1].history
    return kept, graphs, reads.count, result, [parameter.detach() for parameter in model.parameters()]


@pytest.mark.task("train_one_epoch")
@pytest.mark.pitfall("T3", "T18")
@pytest.mark.lesson("What the log keeps alive")
def test_backward_before_the_next_forward(submission, reference, digits):
    """When a batch begins, nothing is kept for earlier ones; the number of reads does not depend on that of batches."""
    batches = _batches(digits, 29, (3,) * 11 + (2,))
    args = (_weights(30, 64, 5, 10), batches, 6)
    kept, graphs, many, result, parameters = submission.run(_kept, *args)
    _, _, few, _, _ = submission.run(_kept, args[0], batches[:3], 6)
    _, _, _, expected_result, expected = _kept(reference, *args)
    assert_matches(len(kept), 12, what="the number of forward passes")
    if max(kept) > 0:
        raise Finding(f"{max(kept)} tensors of earlier batches are still kept for a backward pass")
    if max(graphs) > 2:
        raise Finding(f"the graphs of {max(graphs)} earlier batches are alive at once")
    if many > few:
        raise Finding(f"it reads values {many} times for 12 batches and {few} times for 3")
    assert_matches(parameters, expected, rtol=1e-5, what="the parameters")
    assert_matches(result, expected_result, rtol=1e-5, what="the mean loss")


# --- validate ---------------------------------------------------------------------------------------------------------


def _scored(learner, weights, batches, modes, grad_enabled=True):
    """Score a nested model of all kinds of layers; what was returned, and what is different afterwards."""
    from autograder.instruments import mlp

    torch.manual_seed(37)  # for Dropout, should it be at work
    first, last = mlp(weights[:2]), mlp(weights[2:])
    last[0].bias.requires_grad_(False)
    norm = torch.nn.BatchNorm1d(weights[0].shape[0])
    norm.running_mean.copy_(weights[1])
    norm.running_var.copy_(1 + weights[1].abs())
    body = torch.nn.Sequential(first, norm, torch.nn.ReLU(), torch.nn.Dropout(0.5))
    model = torch.nn.Sequential(body, torch.nn.AlphaDropout(0.2), last)
    modules = list(model.modules())
    for module, mode in zip(modules, modes, strict=True):
        module.training = mode
    for i, parameter in enumerate(model.parameters()):
        if parameter.requires_grad:
            parameter.grad = torch.full_like(parameter, float(i))

    def snapshot():
        return {
            "modes": [module.training for module in modules],
            "state": {name: value.clone() for name, value in model.state_dict().items()},
            "trained": [parameter.requires_grad for parameter in model.parameters()],
            "gradients": [None if p.grad is None else p.grad.clone() for p in model.parameters()],
            "grad mode": torch.is_grad_enabled(),
        }

    made_graph = []
    hook = last.register_forward_hook(lambda module, args, output: made_graph.append(output.requires_grad))
    with torch.set_grad_enabled(grad_enabled):
        before = snapshot()
        result = learner.validate(model, batches)
        after = snapshot()
    hook.remove()
    return result, before, after, made_graph


def _scoring_weights(seed):
    return _weights(seed, 64, 6, 10, dtype=torch.float32)


ALL_TRAIN = [True] * 10


@pytest.mark.task("validate")
@pytest.mark.pitfall("T14", "T1")
@pytest.mark.lesson("Averages over batches")
def test_sizes_of_batches_do_not_matter(submission, reference, digits):
    """The results are the same however the samples are divided into batches."""
    weights = _scoring_weights(31)
    whole = _batches(digits, 32, (12,), dtype=torch.float32)
    expected = _scored(reference, weights, whole, ALL_TRAIN)[0]
    for sizes in ((1,) * 12, (7, 5), (12,), (5, 5, 2), (1, 11)):
        result, *_ = submission.run(_scored, weights, _batches(digits, 32, sizes, dtype=torch.float32), ALL_TRAIN)
        assert_matches(result, expected, rtol=1e-5)
        assert all(isinstance(value, float) for value in result.values()), "the results are no Python floats"


PATTERNS = [
    [True, True, True, True, False, True, True, True, True, True],
    [True, False, False, False, False, False, False, True, True, True],
    [False, True, True, False, True, False, True, True, False, True],
    [False, False, False, False, False, False, True, False, False, False],
]


@pytest.mark.task("validate")
@pytest.mark.pitfall("T1")
@pytest.mark.lesson("Two modes")
def test_everything_is_as_it_was(submission, reference, digits):
    """Whatever the modes were: right results, and afterwards modes, statistics, parameters, gradients as before."""
    for modes in PATTERNS:
        args = (_scoring_weights(33), _batches(digits, 34, (7, 4), dtype=torch.float32), modes)
        result, before, after, _ = submission.run(_scored, *args)
        assert_matches(result, _scored(reference, *args)[0], rtol=1e-5)
        assert_matches(after, before, rtol=0.0, atol=0.0, what="what should not change")


@pytest.mark.task("validate")
@pytest.mark.pitfall("T4")
@pytest.mark.lesson("What the log keeps alive")
def test_no_graph_and_grad_mode_as_before(submission, reference, digits):
    """No graph is made; afterwards gradients are computed where they were before, and only there."""
    modes = [False] * 10  # the modes are another matter
    for grad_enabled in (True, False):
        args = (_scoring_weights(35), _batches(digits, 36, (6, 6), dtype=torch.float32), modes, grad_enabled)
        result, before, after, made_graph = submission.run(_scored, *args)
        assert_matches(result, _scored(reference, *args)[0], rtol=1e-5)
        assert_matches(after["grad mode"], before["grad mode"], what="whether gradients are computed")
        assert made_graph, "the model was not called"
        assert not any(made_graph), f"{sum(made_graph)} of {len(made_graph)} batches made a graph"


# --- make_optimiser ---------------------------------------------------------------------------------------------------


def _optimised(learner, kind, lr, weight_decay, scale, steps):
    """A model of some kind, after steps with known gradients; how often each parameter is in a group; the rates."""
    from torch import nn

    torch.manual_seed(41)
    if kind == "pictures":
        model = nn.Sequential(
            nn.Conv2d(1, 3, 3), nn.BatchNorm2d(3), nn.ReLU(), nn.Conv2d(3, 4, 1), nn.GroupNorm(2, 4), nn.Flatten()
        )
        model.append(nn.Linear(8, 2, bias=False))
        model[3].requires_grad_(False)
        model[4].bias.requires_grad_(False)
    elif kind == "words":
        model = nn.ModuleDict({"words": nn.Embedding(5, 4), "layer": nn.LayerNorm(4), "scores": nn.Linear(4, 5)})
        model["scores"].weight = model["words"].weight  # shared
    elif kind == "weights":
        model = nn.Sequential(nn.Linear(3, 4, bias=False), nn.Conv2d(2, 2, 2, bias=False), nn.Embedding(3, 2))
    else:
        model = nn.Sequential(nn.Conv1d(2, 3, 2), nn.InstanceNorm1d(3, affine=True), nn.Linear(3, 3), nn.LayerNorm(3))
    parameters = list(model.parameters())
    generator = torch.Generator().manual_seed(42)
    with torch.no_grad():
        for parameter in parameters:
            parameter.copy_(torch.randn(parameter.shape, generator=generator))
    optimiser = learner.make_optimiser(model, lr, weight_decay)
    for _ in range(steps):
        for parameter in parameters:
            gradient = scale * torch.randn(parameter.shape, generator=generator)
            parameter.grad = gradient if parameter.requires_grad else None
        optimiser.step()
    held = [parameter for group in optimiser.param_groups for parameter in group["params"]]
    counts = [sum(other is parameter for other in held) for parameter in parameters]
    rates = [float(group["lr"]) for group in optimiser.param_groups]
    return [parameter.detach() for parameter in parameters], counts, rates


KINDS = ("pictures", "words", "signals")


@pytest.mark.task("make_optimiser")
@pytest.mark.pitfall("T7")
@pytest.mark.lesson("Weight decay")
def test_only_weights_decay(submission, reference):
    """Without gradients, weights of linear layers, convolutions, embeddings shrink at the given pace, and nothing else."""
    for kind in KINDS:
        args = (kind, 0.05, 0.4, 0.0, 5)
        parameters, _, _ = submission.run(_optimised, *args)
        assert_matches(parameters, _optimised(reference, *args)[0], rtol=1e-5, what="the parameters after five steps")


@pytest.mark.task("make_optimiser")
@pytest.mark.pitfall("T7")
@pytest.mark.lesson("Weight decay")
def test_decay_and_gradients_are_kept_apart(submission, reference):
    """A model of weights only makes the steps of AdamW, with gradients small and large."""
    for scale in (0.001, 1.0, 50.0):
        args = ("weights", 0.05, 0.4, scale, 4)
        parameters, _, _ = submission.run(_optimised, *args)
        assert_matches(parameters, _optimised(reference, *args)[0], rtol=1e-4, what="the parameters after four steps")


@pytest.mark.task("make_optimiser")
@pytest.mark.pitfall("T7")
@pytest.mark.lesson("Weight decay")
def test_steps_with_gradients(submission, reference):
    """Models of several kinds make the steps of AdamW, where only weights decay; frozen parameters stay."""
    for kind in KINDS:
        args = (kind, 0.05, 0.4, 1.0, 4)
        parameters, _, _ = submission.run(_optimised, *args)
        assert_matches(parameters, _optimised(reference, *args)[0], rtol=1e-4, what="the parameters after four steps")


@pytest.mark.task("make_optimiser")
def test_each_parameter_is_in_one_group(submission, reference):
    """Trainable parameters are in exactly one group, shared ones too, frozen ones in none; all groups have the rate."""
    for kind in KINDS:
        args = (kind, 0.05, 0.4, 0.0, 0)
        _, counts, rates = submission.run(_optimised, *args)
        assert_matches(counts, _optimised(reference, *args)[1], what="how often each parameter is in a group")
        assert_matches(rates, [0.05] * len(rates), what="the rates of the groups")


@pytest.mark.task("make_optimiser")
def test_no_decay_at_all(submission, reference):
    """With a weight decay of zero, steps are those of Adam for all parameters."""
    args = ("pictures", 0.02, 0.0, 1.0, 3)
    parameters, _, _ = submission.run(_optimised, *args)
    assert_matches(parameters, _optimised(reference, *args)[0], rtol=1e-4, what="the parameters after three steps")


# --- make_scheduler ---------------------------------------------------------------------------------------------------


def _all_rates(learner, rates, n_epochs, steps_per_epoch, n_warmup, floor, steps):
    """The rates of each group in each step, and where plain descent along a slope of 1 has led each group."""
    parameters = [torch.nn.Parameter(torch.zeros(1, dtype=torch.float64)) for _ in rates]
    groups = [{"params": [parameter], "lr": rate} for parameter, rate in zip(parameters, rates, strict=True)]
    optimiser = torch.optim.SGD(groups, lr=1.0)
    scheduler = learner.make_scheduler(optimiser, n_epochs, steps_per_epoch, n_warmup, floor)
    found = []
    for _ in range(steps):
        found.append([float(group["lr"]) for group in optimiser.param_groups])
        for parameter in parameters:
            parameter.grad = torch.ones_like(parameter)
        optimiser.step()
        scheduler.step()
    return found, [-parameter.item() for parameter in parameters]


def _compare_schedules(submission, reference, n_epochs, steps_per_epoch, n_warmup, floor):
    own = [0.4, 0.03, 2.0]
    steps = n_epochs * steps_per_epoch + 9
    rates, ways = submission.run(_all_rates, own, n_epochs, steps_per_epoch, n_warmup, floor, steps)
    factors = [reference.rate_factor(s, n_epochs, steps_per_epoch, n_warmup, floor) for s in range(1, steps + 1)]
    expected = [[factor * rate for rate in own] for factor in factors]
    assert_matches(rates, expected, rtol=1e-5, atol=1e-8, what="the rates")
    assert_matches(ways, [sum(factors) * rate for rate in own], rtol=1e-5, atol=1e-8, what="how far the steps led")


@pytest.mark.task("make_scheduler")
@pytest.mark.pitfall("T8")
@pytest.mark.lesson("The learning rate over time")
def test_the_whole_schedule(submission, reference):
    """Every rate of a run, and of some steps after its end, is what the formula says, for each group by itself."""
    for case in ((3, 7, 5, 0.1), (1, 12, 3, 0.0), (5, 4, 6, 1.0), (6, 1, 2, 0.5)):
        _compare_schedules(submission, reference, *case)


@pytest.mark.task("make_scheduler")
@pytest.mark.pitfall("T8")
@pytest.mark.lesson("The learning rate over time")
def test_the_shortest_and_the_longest_warm_up(submission, reference):
    """The formula holds with a warm-up of no steps, of one step, and of all steps but the last."""
    for case in ((2, 13, 0, 0.01), (3, 6, 1, 0.2), (4, 5, 19, 0.25)):
        _compare_schedules(submission, reference, *case)
