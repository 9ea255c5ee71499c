"""Hidden tests of exercise 6, steps, schedules, checkpoints: the same promises at other sizes, dtypes and scales."""

from pathlib import Path

import pytest
import torch

from autograder.checks import assert_matches
from autograder.checks.own_test import assert_accepts, assert_rejects
from autograder.errors import Finding
from autograder.variants import read_variants

FULL, BRAIN, HALF = torch.float32, torch.bfloat16, torch.float16
ROUNDOFF = {FULL: 2.0**-24, BRAIN: 2.0**-8, HALF: 2.0**-11}
"""The largest relative error of a rounding to each dtype."""


def _weights(seed, *sizes, factors=None):
    """Weights and biases for layers between these sizes."""
    generator = torch.Generator().manual_seed(seed)
    factors = factors or [1.0] * (len(sizes) - 1)
    weights = []
    for n_in, n_out, factor in zip(sizes[:-1], sizes[1:], factors, strict=True):
        weights.append(factor * torch.randn(n_out, n_in, generator=generator) / n_in**0.5)
        weights.append(factor * 0.1 * torch.randn(n_out, generator=generator))
    return weights


def _batches(digits, seed, sizes):
    """Digits, minus their mean so that all weights have a gradient of either sign, in batches of these sizes."""
    images, labels = digits(seed, sum(sizes))
    return list(zip((images - 0.3).split(sizes), labels.split(sizes), strict=True))


def _assert_near(actual, expected, start, dtype, n_layers, what):
    """Compare how far parameters have moved, within what half precision costs.

    Forward and backward, each layer rounds its input, its weights and what it hands on: six roundings. The errors of all
    of them, were they all as large as they can be and of the same sign, add up; a third is for what nonlinear layers make
    of it.
    """
    allowed = 8 * n_layers * ROUNDOFF[dtype] if dtype != FULL else 1e-4
    for number, (a, e, s) in enumerate(zip(actual, expected, start, strict=True)):
        assert_matches(a.dtype, torch.float32, what="the dtype of a parameter")
        off = ((a - e).norm() / (e - s).norm()).item()
        if not off <= allowed:
            raise Finding(
                f"{what}: parameter {number} is off by {off:.2g} of its way, in {dtype}; allowed: {allowed:.2g}"
            )


# --- train_step -------------------------------------------------------------------------------------------------------


def _train(
    learner, weights, batches, rates, scale, max_norm, dtype, growth_interval=2000, momentum=0.0, decay=0.0, old=0.0
):
    """Steps of a network of linear layers, with a rate for each layer: the parameters after each step, and more.

    A scale of 0 stands for a disabled scaler.
    """
    from autograder.instruments import mlp

    model = mlp(weights)
    layers = [module for module in model if isinstance(module, torch.nn.Linear)]
    groups = [{"params": list(layer.parameters()), "lr": rate} for layer, rate in zip(layers, rates, strict=True)]
    optimiser = torch.optim.SGD(groups, lr=1.0, momentum=momentum, weight_decay=decay)
    scaler = torch.amp.GradScaler(
        weights[0].device.type, init_scale=scale or 1.0, growth_interval=growth_interval, enabled=scale > 0
    )
    seen = []
    for layer in layers:
        layer.register_forward_hook(lambda module, args, output: seen.append(str(output.dtype)))
    if old:
        for parameter in model.parameters():
            parameter.grad = torch.full_like(parameter, old)
    found = {"parameters": [], "losses": [], "scaler": []}
    for x, y in batches:
        loss = learner.train_step(model, x, y, optimiser, scaler, max_norm, dtype)
        found["losses"].append(loss.detach())
        found["scaler"].append({"scale": scaler.get_scale(), **scaler.state_dict()})
        found["parameters"].append([parameter.detach().clone() for parameter in model.parameters()])
    found["attached"] = bool(loss.requires_grad)
    found["dtypes"] = sorted(set(seen))
    found["training"] = [module.training for module in model.modules()]
    return found


@pytest.mark.task("train_step")
@pytest.mark.pitfall("M1")
@pytest.mark.lesson("Gradients that vanish on the way")
def test_early_layers_learn_behind_small_weights(submission, reference, digits):
    """A first layer whose gradients are far too small for float16 moves as it does in float32, over several steps."""
    for seed, sizes in ((1, (64, 12, 9, 10)), (2, (64, 5, 16, 10))):
        weights = _weights(seed, *sizes, factors=(1.0, 1e-3, 1e-3))
        batches = _batches(digits, seed, (7, 20, 5))
        rates = (1e6, 1e3, 0.1)
        expected = _train(reference, weights, batches, rates, 0.0, 1e9, FULL)["parameters"]
        for dtype in (HALF, BRAIN):
            found = submission.run(_train, weights, batches, rates, 2.0**16, 1e9, dtype)["parameters"]
            for step in (0, 2):
                _assert_near(found[step], expected[step], weights, dtype, 3, f"step {step + 1}")


@pytest.mark.task("train_step")
@pytest.mark.pitfall("M1")
@pytest.mark.lesson("Gradients that vanish on the way")
def test_steps_that_overflow_are_skipped(submission, reference, digits):
    """Where gradients times the scale overflow, nothing moves and the scale falls, until they fit; then it moves."""
    weights = _weights(3, 64, 8, 10)
    batches = _batches(digits, 3, (16,) * 8)
    args = (weights, batches, (0.1, 0.1), 2.0**22, 1e9, HALF)
    found = submission.run(_train, *args, momentum=0.9)
    expected = _train(reference, *args, momentum=0.9)
    for number, (before, after) in enumerate(zip([weights, *found["parameters"]], found["parameters"], strict=False)):
        lowered = found["scaler"][number]["scale"] < (found["scaler"][number - 1]["scale"] if number else 2.0**22)
        moved = any(not torch.equal(b, a) for b, a in zip(before, after, strict=True))
        if moved == lowered:
            raise Finding(
                f"batch {number + 1}: the scale was {'' if lowered else 'not '}lowered, yet the weights "
                f"{'moved' if moved else 'did not move'}"
            )
    assert_matches(found["scaler"], expected["scaler"], what="the scaler's state")
    _assert_near(found["parameters"][-1], expected["parameters"][-1], weights, HALF, 2, "at the end")


@pytest.mark.task("train_step")
@pytest.mark.pitfall("M4")
@pytest.mark.lesson("The order of five calls")
@pytest.mark.parametrize("dtype", [HALF, BRAIN, FULL])
def test_steps_are_as_long_as_max_norm(submission, digits, dtype):
    """Plain descent moves all parameters together by rate times max_norm where gradients are larger, at any scale."""
    weights = _weights(4, 64, 8, 10)
    for scale in (1.0, 64.0, 4096.0):
        for max_norm in (0.01, 0.3):
            batches = _batches(digits, 4, (6, 3, 11))
            found = submission.run(_train, weights, batches, (0.5, 0.5), scale, max_norm, dtype)["parameters"]
            for before, after in zip([weights, *found], found, strict=False):
                pairs = zip(before, after, strict=True)
                moved = torch.cat([(a - b).double().flatten() for b, a in pairs]).norm().item()
                if not abs(moved / (0.5 * max_norm) - 1) < 1e-2:
                    raise Finding(f"the parameters moved by {moved / (0.5 * max_norm):.3g} times what max_norm allows")


@pytest.mark.task("train_step")
@pytest.mark.pitfall("M4")
@pytest.mark.lesson("The order of five calls")
@pytest.mark.parametrize("dtype", [HALF, BRAIN, FULL])
def test_steps_are_those_of_float32(submission, reference, digits, dtype):
    """With momentum, some steps clipped and some not, training goes where it goes in float32; old gradients are gone."""
    for seed, max_norm in ((5, 0.4), (6, 100.0)):
        weights = _weights(seed, 64, 10, 10)
        batches = _batches(digits, seed, (9, 4, 13, 5))
        expected = _train(reference, weights, batches, (0.2, 0.05), 0.0, max_norm, FULL, momentum=0.5)
        found = submission.run(_train, weights, batches, (0.2, 0.05), 1024.0, max_norm, dtype, momentum=0.5, old=3.0)
        for step in (0, 3):
            _assert_near(found["parameters"][step], expected["parameters"][step], weights, dtype, 2, f"step {step + 1}")
        tolerance = 16 * ROUNDOFF[dtype] if dtype != FULL else 1e-5
        assert_matches(found["losses"], expected["losses"], rtol=tolerance, what="the losses")


@pytest.mark.task("train_step")
def test_the_plain_loop_in_float32(submission, reference, digits):
    """With the scaler disabled, in float32: the plain loop, clipped, with weight decay, whatever `.grad` held before."""
    for seed, sizes, max_norm in ((7, (64, 6, 10), 0.2), (8, (64, 4, 5, 10), 10.0)):
        weights, batches = _weights(seed, *sizes), _batches(digits, seed, (5, 8, 2, 6))
        args = (weights, batches, (0.3,) * (len(sizes) - 1), 0.0, max_norm, FULL)
        found = submission.run(_train, *args, momentum=0.9, decay=0.1, old=-2.0)
        expected = _train(reference, *args, momentum=0.9, decay=0.1, old=-2.0)
        assert_matches(found["parameters"], expected["parameters"], rtol=1e-4, atol=1e-6, what="the parameters")
        assert_matches(found["losses"], expected["losses"], rtol=1e-5, what="the losses")


@pytest.mark.task("train_step")
@pytest.mark.lesson("What autocast casts")
def test_layers_run_in_the_dtype_that_was_asked_for(submission, digits):
    """The layers give results of the dtype of the autocast region; parameters stay float32, and the modes as they are."""
    weights, batches = _weights(9, 64, 6, 10), _batches(digits, 9, (4, 3))
    for dtype in (HALF, BRAIN, FULL):
        found = submission.run(_train, weights, batches, (0.1, 0.1), 256.0, 1.0, dtype)
        assert_matches(found["dtypes"], [str(dtype)], what="the dtypes of the layers' results")
        assert all(p.dtype == torch.float32 for p in found["parameters"][-1]), "the parameters are not float32 any more"


@pytest.mark.task("train_step")
def test_the_scale_goes_up_and_down(submission, reference, digits):
    """Over many batches, some of them broken, the scaler is updated once for each: it counts, doubles and halves."""
    weights, batches = _weights(10, 64, 6, 10), _batches(digits, 10, (5,) * 9)
    for broken in (3, 6):
        batches[broken] = (torch.full_like(batches[broken][0], float("inf")), batches[broken][1])
    for dtype in (HALF, BRAIN, FULL):
        args = (weights, batches, (0.1, 0.1), 8.0, 1.0, dtype)
        found = submission.run(_train, *args, growth_interval=2)
        expected = _train(reference, *args, growth_interval=2)
        assert_matches(found["scaler"], expected["scaler"], what="the scaler's state after each batch")


def _modes(learner, weights, x, y, dtype, training):
    """A network with dropout; which modules are in train mode afterwards."""
    from autograder.instruments import mlp

    model = torch.nn.Sequential(mlp(weights[:2]), torch.nn.Dropout(0.5), mlp(weights[2:])).train(training)
    model[1].train(not training)
    optimiser = torch.optim.AdamW(model.parameters(), lr=0.01)
    scaler = torch.amp.GradScaler(x.device.type, init_scale=16.0)
    torch.manual_seed(0)
    loss = learner.train_step(model, x, y, optimiser, scaler, 1.0, dtype)
    return [module.training for module in model.modules()], loss.detach(), bool(loss.requires_grad)


@pytest.mark.task("train_step")
def test_modes_are_left_alone(submission, reference, digits):
    """Modules in train mode and in eval mode stay so; the loss is detached and not scaled."""
    ((x, y),) = _batches(digits, 11, (6,))
    for training in (True, False):
        args = (_weights(11, 64, 6, 10), x, y, HALF, training)
        modes, loss, attached = submission.run(_modes, *args)
        expected_modes, expected, _ = _modes(reference, *args)
        assert_matches(modes, expected_modes, what="`training` of the modules")
        assert_matches(loss, expected, rtol=16 * ROUNDOFF[HALF], what="the loss")
        assert not attached, "the loss is still part of a graph"


def _loss_alone(learner, weight, x, y, scale, dtype):
    from autograder.instruments import mlp

    model = mlp([weight, torch.zeros(weight.shape[0])])
    optimiser = torch.optim.SGD(model.parameters(), lr=0.1)
    return learner.train_step(model, x, y, optimiser, torch.amp.GradScaler("cpu", init_scale=scale), 1.0, dtype)


@pytest.mark.task("train_step")
@pytest.mark.lesson("The loss in full precision")
def test_the_loss_is_as_precise_as_float32(submission):
    """Where half precision holds the logits without an error, the loss is right to the precision of float32."""
    generator = torch.Generator().manual_seed(12)
    for n, classes in ((37, 5), (3, 11)):
        weight = torch.randint(-2, 3, (classes, 4), generator=generator) / 2.0
        x = torch.randint(0, 3, (n, 4), generator=generator).float()
        y = torch.randint(classes, (n,), generator=generator)
        expected = torch.nn.functional.cross_entropy(x @ weight.T, y)
        for dtype in (HALF, BRAIN):
            loss = submission.run(_loss_alone, weight, x, y, 256.0, dtype)
            assert_matches(loss, expected, rtol=1e-5, what=f"the loss in {dtype}")


# --- fit --------------------------------------------------------------------------------------------------------------


def _fit(learner, weights, batches, schedule, scale, growth_interval, dtype, kind, old=0.0):
    """A pass: what `fit` returned, the parameters as each batch came and at the end, and the rate of the last group."""
    from autograder.instruments import mlp

    model = mlp(weights)
    parameters = list(model.parameters())
    groups = [{"params": parameters[:1], "lr": 0.4}, {"params": parameters[1:], "lr": 0.1}]
    adam = kind == "adam"
    model.train(not adam)
    optimiser = torch.optim.AdamW(groups, lr=0.1) if adam else torch.optim.SGD(groups, lr=0.1, momentum=0.5)
    if schedule == "step":
        scheduler = torch.optim.lr_scheduler.StepLR(optimiser, 2, gamma=0.5)
    elif schedule == "cosine":
        scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, len(batches))
    elif schedule == "from zero":
        scheduler = torch.optim.lr_scheduler.LambdaLR(optimiser, lambda done: min(1.0, done / 3))
    else:
        scheduler = torch.optim.lr_scheduler.LambdaLR(optimiser, lambda done: min(1.0, (1 + done) / 5))
    scaler = torch.amp.GradScaler(
        weights[0].device.type, init_scale=scale or 1.0, growth_interval=growth_interval, enabled=scale > 0
    )
    for parameter in parameters:
        parameter.grad = torch.full_like(parameter, old) if old else None
    snapshots = []
    model.register_forward_pre_hook(lambda *_: snapshots.append([p.detach().clone() for p in parameters]))
    losses, rates = learner.fit(model, iter(batches), optimiser, scheduler, scaler, dtype)
    snapshots.append([p.detach().clone() for p in parameters])
    return {
        "losses": losses,
        "rates": rates,
        "place": scheduler.last_epoch,
        "rate": float(optimiser.param_groups[1]["lr"]),
        "scaler": {"scale": scaler.get_scale(), **scaler.state_dict()},
        "snapshots": snapshots,
        "plain": all(isinstance(value, float) for value in [*losses, *rates]),
        "modes": [module.training for module in model.modules()],
    }


def _compare_passes(submission, reference, args, dtype, **more):
    found, expected = submission.run(_fit, *args, **more), _fit(reference, *args, **more)
    for name in ("rates", "rate"):
        assert_matches(found[name], expected[name], rtol=1e-6, what=f"the {name}")
    for name in ("place", "scaler", "modes"):
        assert_matches(found[name], expected[name], what=f"the {name}")
    assert found["plain"], "the losses and rates are no Python floats"
    assert_matches(
        torch.tensor(found["losses"]),
        torch.tensor(expected["losses"]),
        rtol=16 * ROUNDOFF[dtype] if dtype != FULL else 1e-5,
        what="the losses",
    )
    _assert_near(found["snapshots"][-1], expected["snapshots"][-1], args[0], dtype, 2, "at the end")
    return found


@pytest.mark.task("fit")
@pytest.mark.pitfall("M8")
@pytest.mark.lesson("A step that was skipped")
@pytest.mark.parametrize("schedule", ["step", "cosine", "warm-up", "from zero"])
def test_the_schedule_follows_the_steps(submission, reference, digits, schedule):
    """With broken batches here and there, schedule, rates (0 among them) and weights go on as if there were none."""
    for dtype, broken in ((HALF, (0, 2, 3)), (BRAIN, (4, 6)), (FULL, (1,))):
        batches = _batches(digits, 21, (5, 3, 8, 4, 6, 2, 7))
        for i in broken:
            batches[i] = (batches[i][0] * float("nan"), batches[i][1])
        args = (_weights(21, 64, 6, 10), batches, schedule, 4096.0, 2000, dtype, "sgd")
        found = _compare_passes(submission, reference, args, dtype, old=5.0)
        assert_matches(len(found["rates"]), len(batches) - len(broken), what="the number of rates")


@pytest.mark.task("fit")
@pytest.mark.pitfall("M8")
@pytest.mark.lesson("A step that was skipped")
def test_a_scale_that_changes_all_the_time(submission, digits):
    """A scale that grows after every step or two overflows again and again: there is a rate for each step made."""
    for growth_interval in (1, 2):
        batches = _batches(digits, 22, (8,) * 14)
        args = (_weights(22, 64, 6, 10), batches, "step", 2.0**19, growth_interval, HALF, "sgd")
        found = submission.run(_fit, *args)
        snapshots = found["snapshots"]
        assert_matches(len(snapshots), len(batches) + 1, what="the number of forward passes and one")
        made = sum(
            any(not torch.equal(a, b) for a, b in zip(before, after, strict=True))
            for before, after in zip(snapshots[:-1], snapshots[1:], strict=True)
        )
        if made == 0 or len(found["rates"]) != made or found["place"] != made:
            raise Finding(
                f"of {len(batches)} batches {made} moved the weights; there are {len(found['rates'])} rates, and the "
                f"schedule is at {found['place']}"
            )
        assert_matches(found["rates"], [0.4 * 0.5 ** (k // 2) for k in range(made)], rtol=1e-6, what="the rates")
        assert_matches(len(found["losses"]), len(batches), what="the number of losses")


@pytest.mark.task("fit")
def test_nothing_is_skipped_without_a_scaler(submission, reference, digits):
    """With a disabled scaler each batch makes a step, in float32 and in bfloat16, with AdamW as well."""
    for dtype, kind in ((FULL, "adam"), (FULL, "sgd"), (BRAIN, "sgd")):
        args = (_weights(23, 64, 7, 10), _batches(digits, 23, (6, 9, 1, 4)), "warm-up", 0.0, 2000, dtype, kind)
        _compare_passes(submission, reference, args, dtype, old=-4.0)


# --- save_state -------------------------------------------------------------------------------------------------------


def _resume(learner, weights, batches, stops, kind, scale, growth_interval, through_a_file):
    """Train, saved and loaded into new objects after each of `stops`: what there is at the end, and the steps returned.

    What was saved is loaded only after the old objects have been trained on.
    """
    import io

    def new(weights, scale):
        from autograder.instruments import mlp

        # not behind a bias, whose gradient would be nothing but rounding errors
        model = torch.nn.Sequential(torch.nn.BatchNorm1d(weights[0].shape[1]), mlp(weights))
        if kind == "adam":
            optimiser = torch.optim.AdamW(model.parameters(), lr=0.02)
            scheduler = torch.optim.lr_scheduler.LambdaLR(optimiser, lambda done: 1 / (1 + done))
        elif kind == "cycle":
            optimiser = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
            scheduler = torch.optim.lr_scheduler.OneCycleLR(optimiser, 0.1, total_steps=40)
        else:
            optimiser = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, nesterov=True)
            scheduler = torch.optim.lr_scheduler.StepLR(optimiser, 3, gamma=0.5)
        scaler = torch.amp.GradScaler(
            "cpu", init_scale=scale or 1.0, growth_interval=growth_interval, enabled=scale > 0
        )
        return model, optimiser, scheduler, scaler

    def train(training, batches):
        model, optimiser, scheduler, scaler = training
        for x, y in batches:
            optimiser.zero_grad()
            with torch.autocast("cpu", torch.float16, enabled=scaler.is_enabled()):
                logits = model(x)
            scaler.scale(torch.nn.functional.cross_entropy(logits.float(), y)).backward()
            before = scaler.get_scale()
            scaler.step(optimiser)
            scaler.update()
            if scaler.get_scale() >= before:
                scheduler.step()

    training, done, returned = new(weights, scale), 0, []
    for stop in stops:
        train(training, batches[done:stop])
        state = learner.save_state(*training, stop)
        assert isinstance(state, dict), f"`save_state` returned a {type(state).__name__}"
        train(training, batches[:2])  # whatever becomes of these objects, what was saved stays as it was
        if through_a_file:
            file = io.BytesIO()
            torch.save(state, file)
            file.seek(0)
            state = torch.load(file, weights_only=True)
        training = new([torch.zeros_like(weight) for weight in weights], scale and 2.0**10)
        done = learner.load_state(state, *training)
        returned.append(done)
    train(training, batches[done:])
    model, optimiser, scheduler, scaler = training
    return {
        "model": {name: value.clone() for name, value in model.state_dict().items()},
        "rates": [float(group["lr"]) for group in optimiser.param_groups],
        "place": scheduler.last_epoch,
        "scaler": dict(scaler.state_dict()),
        "steps": returned,
    }


def _compare_runs(submission, reference, digits, seed, stops, kind, scale, growth_interval, file=True):
    sizes = (6, 4, 7, 5, 3, 8, 6, 5, 4)
    images, labels = digits(seed, sum(sizes))
    weights, batches = _weights(seed, 64, 6, 10), list(zip(images.split(sizes), labels.split(sizes), strict=True))
    args = (weights, batches)
    found = submission.run(_resume, *args, stops, kind, scale, growth_interval, file)
    expected = _resume(reference, *args, (), kind, scale, growth_interval, file)  # without an interruption
    assert_matches(found["steps"], list(stops), what="what `load_state` returned")
    for name in ("scaler", "place"):
        assert_matches(found[name], expected[name], what=f"the {name}")
    assert_matches(found["rates"], expected["rates"], rtol=1e-9, what="the rates")
    # the two runs are on one machine, but not in one process: the bits of a sum might depend on its threads
    assert_matches(found["model"], expected["model"], rtol=1e-5, atol=1e-7, what="the state of the model")


@pytest.mark.task("save_state")
@pytest.mark.pitfall("M8")
@pytest.mark.lesson("A step that was skipped")
@pytest.mark.parametrize("kind", ["step", "adam", "cycle"])
def test_a_resumed_run_is_the_straight_run(submission, reference, digits, kind):
    """Interrupted at an odd step, in the middle of the scaler's count: the same run, the scale and its times included."""
    for stops, growth_interval in (((5,), 4), ((1, 7), 3)):
        _compare_runs(submission, reference, digits, 31, stops, kind, 2.0**8, growth_interval)


@pytest.mark.task("save_state")
@pytest.mark.pitfall("M8")
@pytest.mark.lesson("A step that was skipped")
@pytest.mark.parametrize("kind", ["step", "adam", "cycle"])
def test_a_resumed_run_with_skipped_steps(submission, reference, digits, kind):
    """Where the first batches overflowed before the interruption, the schedule goes on from the steps that were made."""
    for stops in ((5,), (3, 8)):
        _compare_runs(submission, reference, digits, 32, stops, kind, 2.0**23, 2)


@pytest.mark.task("save_state")
def test_a_run_without_a_scaler(submission, reference, digits):
    """With a disabled scaler, in float32, a resumed run is the straight run too."""
    for kind in ("step", "adam", "cycle"):
        _compare_runs(submission, reference, digits, 33, (4,), kind, 0.0, 2000)


@pytest.mark.task("save_state")
@pytest.mark.pitfall("M8")
@pytest.mark.lesson("A step that was skipped")
def test_what_was_saved_stays_as_it_was(submission, reference, digits):
    """What `save_state` returned can be loaded without a file, after the training has gone on in the meantime."""
    for kind in ("step", "adam"):
        _compare_runs(submission, reference, digits, 34, (5,), kind, 2.0**22, 3, file=False)


# --- check_train_step -------------------------------------------------------------------------------------------------

_HERE = Path(__file__).parent
_RIGHT = read_variants(_HERE / "pipelines" / "right.py")
_WRONG = read_variants(_HERE / "pipelines" / "wrong.py")


def _implementation(variant):
    return f"import torch.nn.functional as F\n\n\n{variant.source}\n\n\nimplementation = train_step\n"


_ALL = [_implementation(variant) for variant in (*_RIGHT, *_WRONG)]


@pytest.mark.task("check_train_step")
@pytest.mark.parametrize("number", range(len(_RIGHT)))
def test_own_test_accepts_right_steps(submission, number):
    """Your test accepts steps that keep all of the promises, however they are written."""
    assert_accepts(submission.check_train_step, _implementation(_RIGHT[number]), among=_ALL)


@pytest.mark.task("check_train_step")
@pytest.mark.pitfall("M4")
@pytest.mark.lesson("A test for a training step")
@pytest.mark.parametrize("number", range(len(_WRONG)))
def test_own_test_rejects_wrong_steps(submission, number):
    """Your test rejects steps that break any one of the promises, even if the loss falls."""
    assert_rejects(submission.check_train_step, _implementation(_WRONG[number]), among=_ALL)
