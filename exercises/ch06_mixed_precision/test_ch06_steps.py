"""Visible tests of exercise 6: steps, schedules, checkpoints. They can be worked out by hand; they are for you."""

import math

import pytest
import torch

from autograder.checks import assert_matches
from autograder.checks.own_test import assert_accepts, assert_rejects

HALF = torch.float16

# --- train_step -------------------------------------------------------------------------------------------------------


def _steps(learner, weight, bias, batches, lr, scale, max_norm, dtype, old_gradient=0.0):
    """Steps of plain descent for one linear layer: its weight and bias, losses, and the scale after each step.

    A scale of 0 stands for a disabled scaler.
    """
    from autograder.instruments import mlp

    model = mlp([weight, bias])
    optimiser = torch.optim.SGD(model.parameters(), lr=lr)
    scaler = torch.amp.GradScaler(weight.device.type, init_scale=scale or 1.0, enabled=scale > 0)
    for parameter in model.parameters():
        parameter.grad = torch.full_like(parameter, old_gradient)
    losses, scales = [], []
    for x, y in batches:
        losses.append(learner.train_step(model, x, y, optimiser, scaler, max_norm, dtype))
        scales.append(scaler.get_scale())
    return model[0].weight.detach(), model[0].bias.detach(), losses, scales, [loss.requires_grad for loss in losses]


@pytest.mark.task("train_step")
def test_loss_of_a_model_that_knows_nothing(submission):
    """Weights of zero and four classes: the loss is log(4), a float32 tensor without dimensions, whatever the scale."""
    batch = (torch.ones(2, 3), torch.tensor([0, 1]))
    for dtype, scale in ((torch.float32, 0.0), (torch.bfloat16, 1024.0), (HALF, 1024.0)):
        args = (torch.zeros(4, 3), torch.zeros(4), [batch], 0.0, scale, 1.0, dtype)
        _, _, (loss,), _, (attached,) = submission.run(_steps, *args)
        assert_matches(loss, torch.tensor(math.log(4)), rtol=1e-5, what="the loss")
        assert not attached, "the loss is still part of a graph"


@pytest.mark.task("train_step")
def test_a_plain_step(submission):
    """In float32, with the scaler disabled: a step with the gradients that can be worked out by hand."""
    batch = (torch.tensor([[2.0, 0.0]]), torch.tensor([1]))
    args = (torch.zeros(2, 2), torch.zeros(2), [batch], 1.0, 0.0, 100.0, torch.float32, 7.0)
    weight, bias, _, _, _ = submission.run(_steps, *args)
    assert_matches(weight, torch.tensor([[-1.0, 0.0], [1.0, 0.0]]), what="the weight after one step")
    assert_matches(bias, torch.tensor([-0.5, 0.5]), what="the bias after one step")


@pytest.mark.task("train_step")
@pytest.mark.pitfall("M1")
@pytest.mark.lesson("Gradients that vanish on the way")
def test_faint_pixels_are_learned_from(submission):
    """32 pictures, each with a faint pixel of its own: gradients of 2^-26, times a rate of 2^26, move weights by 1."""
    labels = torch.arange(32) % 2
    args = (torch.zeros(2, 32), torch.zeros(2), [(2.0**-20 * torch.eye(32), labels)], 2.0**26, 2.0**16, 1.0, HALF)
    weight, _, _, _, _ = submission.run(_steps, *args)
    # each sample's own class is pulled up by (1 - 1/2) * 2^-20 / 32, the other one is pushed down
    assert_matches(weight[0], 1.0 - 2.0 * labels, rtol=1e-2, what="the weights of the first class")


BRIGHT = (torch.tensor([[4096.0, 0.0]]), torch.tensor([0]))
"""Gradients of 2048 for two weights: float16 holds 16 times that, but not 32 times."""


@pytest.mark.task("train_step")
@pytest.mark.pitfall("M4")
@pytest.mark.lesson("The order of five calls")
def test_a_bright_picture_makes_a_step_of_max_norm(submission):
    """Gradients of a total norm of about 2900, a max_norm of 2 and a rate of 0.5: the weights move by 1 in all."""
    args = (torch.zeros(2, 2), torch.zeros(2), [BRIGHT], 0.5, 16.0, 2.0, HALF)
    weight, _, _, _, _ = submission.run(_steps, *args)
    assert_matches(weight, torch.tensor([[1.0, 0.0], [-1.0, 0.0]]) / math.sqrt(2), rtol=1e-2, what="the weight")


@pytest.mark.task("train_step")
def test_clipped_without_a_scaler_too(submission):
    """The same picture in float32, the scaler disabled: again the weights move by 1 in all."""
    args = (torch.zeros(2, 2), torch.zeros(2), [BRIGHT], 0.5, 0.0, 2.0, torch.float32)
    weight, _, _, _, _ = submission.run(_steps, *args)
    assert_matches(weight, torch.tensor([[1.0, 0.0], [-1.0, 0.0]]) / math.sqrt(2), rtol=1e-3, what="the weight")


@pytest.mark.task("train_step")
@pytest.mark.pitfall("M4")
@pytest.mark.lesson("The order of five calls")
def test_there_is_one_norm(submission):
    """Gradients of 1/2 for 14 weights and 2 biases, a total norm of 2, a max_norm of 1, a rate of 4: all move by 1."""
    args = (torch.zeros(2, 7), torch.zeros(2), [(torch.ones(1, 7), torch.tensor([0]))], 4.0, 256.0, 1.0, HALF)
    weight, bias, _, _, _ = submission.run(_steps, *args)
    ways = torch.tensor([1.0, -1.0])
    assert_matches(bias, ways, rtol=1e-2, what="the bias after one step")
    assert_matches(weight, ways[:, None].expand(2, 7), rtol=1e-2, what="the weight after one step")


@pytest.mark.task("train_step")
@pytest.mark.pitfall("M4")
@pytest.mark.lesson("The order of five calls")
def test_small_gradients_are_not_clipped(submission):
    """Gradients of a total norm below 2 pass a max_norm of 2 unchanged, also where the scale is 1024."""
    batch = (torch.tensor([[2.0, 0.0]]), torch.tensor([1]))
    args = (torch.zeros(2, 2), torch.zeros(2), [batch], 1.0, 1024.0, 2.0, HALF)
    weight, bias, _, _, _ = submission.run(_steps, *args)
    assert_matches(weight, torch.tensor([[-1.0, 0.0], [1.0, 0.0]]), rtol=1e-2, what="the weight after one step")
    assert_matches(bias, torch.tensor([-0.5, 0.5]), rtol=1e-2, what="the bias after one step")


@pytest.mark.task("train_step")
@pytest.mark.pitfall("M1")
@pytest.mark.lesson("Gradients that vanish on the way")
def test_a_scale_that_is_too_high_skips_a_step(submission):
    """At a scale of 64 the gradients overflow: nothing moves at 64 and at 32, and at 16 a step is made."""
    zeros = torch.zeros(2, 2), torch.zeros(2)
    weight, bias, _, _, _ = submission.run(_steps, *zeros, [BRIGHT], 1.0, 64.0, 1e9, HALF)
    for name, moved, before in (("weight", weight, zeros[0]), ("bias", bias, zeros[1])):
        assert_matches(moved, before, what=f"the {name} after a batch whose gradients overflow")
    weight, _, losses, scales, _ = submission.run(_steps, *zeros, [BRIGHT] * 3, 1.0, 64.0, 1e9, HALF)
    assert_matches(scales, [32.0, 16.0, 16.0], what="the scale after each batch")
    assert_matches(torch.stack(losses), torch.full((3,), math.log(2)), what="the losses")
    assert_matches(weight, torch.tensor([[2048.0, 0.0], [-2048.0, 0.0]]), rtol=1e-2, what="the weight afterwards")


# --- fit --------------------------------------------------------------------------------------------------------------


def _fitted(learner, batches, scale, growth_interval, dtype, from_zero=False, passes=1):
    """Passes with a schedule of 1, 1/2, 1/3 … or 0, 1/2, 1 …: losses, rates, its place, the scale, and the weight."""
    from autograder.instruments import mlp

    model = mlp([torch.zeros(2, 2), torch.zeros(2)])
    optimiser = torch.optim.SGD(model.parameters(), lr=1.0)
    schedule = (lambda done: done / 2) if from_zero else (lambda done: 1 / (1 + done))
    scheduler = torch.optim.lr_scheduler.LambdaLR(optimiser, schedule)
    scaler = torch.amp.GradScaler(
        batches[0][0].device.type, init_scale=scale or 1.0, growth_interval=growth_interval, enabled=scale > 0
    )
    losses, rates = [], []
    for _ in range(passes):
        more_losses, more_rates = learner.fit(model, batches, optimiser, scheduler, scaler, dtype)
        losses += more_losses
        rates += more_rates
    return losses, rates, scheduler.last_epoch, scaler.get_scale(), model[0].weight.detach()


PLAIN = (torch.tensor([[1.0, 0.0]]), torch.tensor([0]))
BROKEN = (torch.tensor([[float("inf"), 0.0]]), torch.tensor([0]))


def _pull(rates):
    """Where a weight and a bias of each class go for `PLAIN`: up for the first class, down for the other."""
    pull = 0.0
    for rate in rates:
        pull += rate / (1 + math.exp(4 * pull))
    return torch.tensor([[pull, 0.0], [-pull, 0.0]])


@pytest.mark.task("fit")
def test_a_schedule_without_skips(submission):
    """In float32 every batch makes a step, and the rates are 1, 1/2 and 1/3."""
    losses, rates, place, _, weight = submission.run(_fitted, [PLAIN] * 3, 0.0, 2000, torch.float32)
    assert_matches(rates, [1.0, 1 / 2, 1 / 3], what="`rates`")
    assert_matches(place, 3, what="the schedule's place")
    assert_matches(losses[0], math.log(2), what="the first loss")
    assert_matches(weight, _pull(rates), what="the weight")


@pytest.mark.task("fit")
@pytest.mark.pitfall("M8")
@pytest.mark.lesson("A step that was skipped")
def test_broken_pictures_do_not_move_the_schedule(submission):
    """Of five batches, the second and the fourth cannot make a step: three steps, with rates 1, 1/2 and 1/3."""
    batches = [PLAIN, BROKEN, PLAIN, BROKEN, PLAIN]
    losses, rates, place, scale, weight = submission.run(_fitted, batches, 64.0, 2000, HALF)
    assert_matches(rates, [1.0, 1 / 2, 1 / 3], what="`rates`")
    assert_matches(place, 3, what="the schedule's place")
    assert_matches(scale, 16.0, what="the scale")
    assert_matches(len(losses), 5, what="the number of losses")
    assert_matches(weight, _pull(rates), rtol=1e-2, what="the weight")


@pytest.mark.task("fit")
@pytest.mark.pitfall("M8")
@pytest.mark.lesson("A step that was skipped")
def test_a_scale_that_goes_up_skips_nothing(submission):
    """The scale doubles after each step that is made, and is halved for the broken picture: three steps of four."""
    _, rates, place, scale, weight = submission.run(_fitted, [PLAIN, PLAIN, BROKEN, PLAIN], 4.0, 1, HALF)
    assert_matches(rates, [1.0, 1 / 2, 1 / 3], what="`rates`")
    assert_matches(place, 3, what="the schedule's place")
    assert_matches(scale, 16.0, what="the scale")
    assert_matches(weight, _pull(rates), rtol=1e-2, what="the weight")


@pytest.mark.task("fit")
@pytest.mark.pitfall("M8")
@pytest.mark.lesson("A step that was skipped")
def test_gradients_may_overflow_behind_a_finite_loss(submission):
    """A bright picture overflows at scales of 64 and 32, its loss is log(2): two steps of four, rates 1 and 1/2."""
    losses, rates, place, scale, weight = submission.run(_fitted, [BRIGHT, BRIGHT, PLAIN, PLAIN], 64.0, 2000, HALF)
    assert_matches(losses[:2], [math.log(2), math.log(2)], what="the first two losses")
    assert_matches(rates, [1.0, 1 / 2], what="`rates`")
    assert_matches(place, 2, what="the schedule's place")
    assert_matches(scale, 16.0, what="the scale")
    assert_matches(weight, _pull(rates), rtol=1e-2, what="the weight")


@pytest.mark.task("fit")
@pytest.mark.pitfall("M8")
@pytest.mark.lesson("A step that was skipped")
def test_a_schedule_that_begins_at_zero(submission):
    """Rates of 0, 1/2 and 1: the first step is a step, though no weight moves; the broken picture makes none."""
    batches = [PLAIN, BROKEN, PLAIN, PLAIN]
    _, rates, place, _, weight = submission.run(_fitted, batches, 64.0, 2000, HALF, from_zero=True)
    assert_matches(rates, [0.0, 1 / 2, 1.0], what="`rates`")
    assert_matches(place, 3, what="the schedule's place")
    assert_matches(weight, _pull(rates), rtol=1e-2, what="the weight")


@pytest.mark.task("fit")
@pytest.mark.pitfall("M8")
@pytest.mark.lesson("A step that was skipped")
def test_a_second_pass_goes_on(submission):
    """Two passes over three batches, one of them broken: four steps in all, with rates 1, 1/2, 1/3 and 1/4."""
    _, rates, place, scale, weight = submission.run(_fitted, [PLAIN, BROKEN, PLAIN], 64.0, 2000, HALF, passes=2)
    assert_matches(place, 4, what="the schedule's place after both passes")
    assert_matches(rates, [1.0, 1 / 2, 1 / 3, 1 / 4], what="`rates`, of both passes together,")
    assert_matches(scale, 16.0, what="the scale after both passes")
    assert_matches(weight, _pull(rates), rtol=1e-2, what="the weight")


# --- save_state -------------------------------------------------------------------------------------------------------


def _resumed(learner, batches, stop, scale, growth_interval, through_a_file=True):
    """Train on the first batches, save, load into new objects, and go on: all that there is at the end.

    Without a file, the old objects are trained on between saving and loading.
    """
    import io

    def new(scale):
        from autograder.instruments import mlp

        model = mlp([torch.zeros(2, 2), torch.zeros(2)])
        optimiser = torch.optim.SGD(model.parameters(), lr=1.0, momentum=0.5)
        scheduler = torch.optim.lr_scheduler.LambdaLR(optimiser, lambda done: 1 / (1 + done))
        scaler = torch.amp.GradScaler("cpu", init_scale=scale, growth_interval=growth_interval)
        return model, optimiser, scheduler, scaler

    def train(training, batches):
        model, optimiser, scheduler, scaler = training
        for x, y in batches:
            optimiser.zero_grad()
            scaler.scale(torch.nn.functional.cross_entropy(model(x), y)).backward()
            before = scaler.get_scale()
            scaler.step(optimiser)
            scaler.update()
            if scaler.get_scale() >= before:
                scheduler.step()

    first, second = new(scale), new(65536.0)
    train(first, batches[:stop])
    state = learner.save_state(*first, stop)
    if through_a_file:
        file = io.BytesIO()
        torch.save(state, file)
        file.seek(0)
        state = torch.load(file, weights_only=True)
    else:
        train(first, batches[stop:])
    step = learner.load_state(state, *second)
    train(second, batches[stop:])
    model, optimiser, scheduler, scaler = second
    return {
        "weight": model[0].weight.detach(),
        "rate": float(optimiser.param_groups[0]["lr"]),
        "place": scheduler.last_epoch,
        "scale": scaler.get_scale(),
        "step": step,
    }


def _check_three_steps(found):
    """What there is after three steps from a scale of 8, interrupted after two of them."""
    assert_matches(found["scale"], 16.0, what="the scale")
    assert_matches(found["place"], 3, what="the schedule's place")
    assert_matches(found["step"], 2, what="the result of `load_state`")
    pull = speed = 0.0
    for rate in (1.0, 1 / 2, 1 / 3):
        speed = 0.5 * speed + 1 / (1 + math.exp(4 * pull))
        pull += rate * speed
    assert_matches(found["weight"], torch.tensor([[pull, 0.0], [-pull, 0.0]]), what="the weight")


@pytest.mark.task("save_state")
@pytest.mark.pitfall("M8")
@pytest.mark.lesson("A step that was skipped")
def test_the_scale_goes_on(submission):
    """Two steps at a scale of 8, an interruption, a step: then the third step in a row doubles the scale to 16."""
    found = submission.run(_resumed, [PLAIN] * 3, 2, 8.0, 3)
    _check_three_steps(found)


@pytest.mark.task("save_state")
@pytest.mark.pitfall("M8")
@pytest.mark.lesson("A step that was skipped")
def test_the_schedule_goes_on(submission):
    """Three batches, one of which was skipped, an interruption, and a fourth: the schedule is at its third place."""
    found = submission.run(_resumed, [PLAIN, BROKEN, PLAIN, PLAIN], 3, 8.0, 2000)
    assert_matches(found["place"], 3, what="the schedule's place")
    assert_matches(found["rate"], 1 / 4, what="the rate for the next step")
    assert_matches(found["scale"], 4.0, what="the scale")
    assert_matches(found["step"], 3, what="the result of `load_state`")


@pytest.mark.task("save_state")
@pytest.mark.pitfall("M8")
@pytest.mark.lesson("A step that was skipped")
def test_the_training_goes_on_before_it_is_loaded(submission):
    """Two steps, saved; the old objects make a third one; loaded without a file, what was saved is after two steps."""
    _check_three_steps(submission.run(_resumed, [PLAIN] * 3, 2, 8.0, 3, through_a_file=False))


# --- check_train_step -------------------------------------------------------------------------------------------------

_RIGHT = """
def implementation(model, x, y, optimiser, scaler, max_norm, dtype):
    with torch.autocast(x.device.type, dtype):
        rows = model(x)
    loss = 0.0
    for row, label in zip(rows.float(), y):
        loss = loss - row.log_softmax(0)[label] / len(y)

    factor = scaler.get_scale()
    for weight in model.parameters():
        weight.grad = None
    (factor * loss).backward()
    slopes = [weight.grad for weight in model.parameters() if weight.grad is not None]
    overflow = not all(slope.isfinite().all() for slope in slopes)
    length = sum(float(slope.square().sum()) for slope in slopes) ** 0.5 / factor
    for slope in slopes:
        slope *= min(1.0, max_norm / (length + 1e-9)) / factor
    if not overflow:
        optimiser.step()

    state = scaler.state_dict()
    if state:  # a disabled scaler has none
        good = 0 if overflow else state["_growth_tracker"] + 1
        if overflow:
            state["scale"] *= state["backoff_factor"]
        elif good == state["growth_interval"]:
            state["scale"] *= state["growth_factor"]
            good = 0
        state["_growth_tracker"] = good
        scaler.load_state_dict(state)
    return loss.detach()
"""
_NO_STEP = _RIGHT.replace("optimiser.step()", "pass")
_SCALED_CLIP = _RIGHT.replace("** 0.5 / factor", "** 0.5")
_UNSCALED = _RIGHT.replace("scaler.get_scale()", "1.0").replace("scaler.state_dict()", "{}")
_SHOWN = [_RIGHT, _NO_STEP, _SCALED_CLIP, _UNSCALED]


@pytest.mark.task("check_train_step")
def test_accepts_a_right_step(submission):
    """A step that is written out by hand, down to the scaler's bookkeeping, and right, is accepted."""
    assert_accepts(submission.check_train_step, _RIGHT, among=_SHOWN)


@pytest.mark.task("check_train_step")
def test_rejects_a_step_that_is_none(submission):
    """All is done except for the step itself: rejected."""
    assert_rejects(submission.check_train_step, _NO_STEP, among=_SHOWN)


@pytest.mark.task("check_train_step")
@pytest.mark.pitfall("M4")
@pytest.mark.lesson("A test for a training step")
def test_rejects_clipping_in_the_wrong_place(submission):
    """Gradients that are clipped while they are still multiplied by the scale: rejected."""
    assert_rejects(submission.check_train_step, _SCALED_CLIP, among=_SHOWN)


@pytest.mark.task("check_train_step")
@pytest.mark.pitfall("M4")
@pytest.mark.lesson("A test for a training step")
def test_rejects_a_step_without_scaling(submission):
    """A step that does not use the scaler at all: rejected."""
    assert_rejects(submission.check_train_step, _UNSCALED, among=_SHOWN)


# two more implementations, which show other things
_OWN_NORM = """
def implementation(net, pictures, classes, opt, gs, most, kind):
    with torch.autocast(pictures.device.type, dtype=kind):
        error = -net(pictures).float().log_softmax(1)[torch.arange(len(classes)), classes].mean()
    own = [p for p in net.parameters() if p.requires_grad]
    steep = torch.autograd.grad(gs.scale(error), own)
    total = torch.cat([slope.flatten() for slope in steep]).norm() / gs.get_scale()
    for p, slope in zip(own, steep):
        p.grad = slope * (most / total).clamp(max=1)
    gs.step(opt)
    gs.update()
    return error.detach()
"""
_NEVER_SKIPS = _OWN_NORM.replace("gs.step(opt)", "gs.unscale_(opt), opt.step()")
_ALL_SHOWN = [*_SHOWN, _OWN_NORM, _NEVER_SKIPS]


@pytest.mark.task("check_train_step")
def test_accepts_another_right_step(submission):
    """A right step that asks for its gradients in another way, and makes its own arithmetic of the norm: accepted."""
    assert_accepts(submission.check_train_step, _OWN_NORM, among=_ALL_SHOWN)


@pytest.mark.task("check_train_step")
@pytest.mark.pitfall("M4")
@pytest.mark.lesson("A test for a training step")
def test_rejects_a_step_in_any_case(submission):
    """The same, but the optimiser is asked directly, and so it makes a step whatever the gradients are: rejected."""
    assert_rejects(submission.check_train_step, _NEVER_SKIPS, among=_ALL_SHOWN)
