"""Hidden tests of exercise 2, tasks 4 to 7: the same promises for other networks, batches, dtypes, and more steps."""

import pytest
import torch
from torch.nn import functional as F

from autograder.checks import assert_faster, assert_matches
from autograder.errors import Finding

GRADIENT_NORMS_RATIO = 5.0
"""Gradient norms of a whole batch against a loop over its 64 samples (benchmarks/speedups.py)."""


def weights_of(seed, *widths, dtype=torch.float32):
    """[W1, b1, W2, b2, ...] of a network with these widths."""
    generator = torch.Generator().manual_seed(seed)
    weights = []
    for n_in, n_out in zip(widths, widths[1:]):
        weights.append(torch.randn(n_out, n_in, generator=generator, dtype=torch.float64) * n_in**-0.5)
        weights.append(torch.randn(n_out, generator=generator, dtype=torch.float64) * 0.3)
    return [weight.to(dtype) for weight in weights]


def samples(seed, n, width, n_classes, dtype=torch.float32):
    """Inputs (n, width) and labels (n,)."""
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(n, width, generator=generator, dtype=torch.float64).to(dtype)
    return x, torch.randint(n_classes, (n,), generator=generator)


# --- FeatureLog -------------------------------------------------------------------------------------------------------


def assert_statistics(summary, expected):
    """Within what the docstring promises."""
    assert isinstance(summary, dict) and set(summary) == set(expected), "other names than those that were logged"
    for name, wanted in expected.items():
        entry = summary[name]
        assert isinstance(entry, dict) and set(entry) == {"rows", "mean", "std"}, "other entries than promised"
        assert type(entry["rows"]) is int and entry["rows"] == wanted["rows"], "the number of rows"
        unit = torch.where(wanted["std"] > 1e-6, wanted["std"], torch.tensor(10.0, dtype=torch.float64))
        for key in ("mean", "std"):
            assert isinstance(entry[key], torch.Tensor) and entry[key].is_floating_point()
            assert_matches(entry[key].double() / unit, wanted[key] / unit, rtol=0, atol=1e-3, what=key)


def drifting(seed, sizes, width, dtype=torch.float32):
    """Batches whose mean and spread change as a run goes on."""
    generator = torch.Generator().manual_seed(seed)
    scale = torch.rand(width, generator=generator) + 0.5
    return [
        (torch.randn(n, width, generator=generator) * scale * (1 + i / 4) + 2 * scale * i / len(sizes)).to(dtype)
        for i, n in enumerate(sizes)
    ]


def _logged(learner, batches):
    log = learner.FeatureLog()
    for name, features in batches:
        log.add(name, features)
    return log.summary()


@pytest.mark.task("FeatureLog")
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("sizes", [(5,), (1, 1), (7, 7, 2), tuple(range(1, 24))])
def test_statistics_over_all_rows(submission, reference, sizes, dtype):
    """Mean and standard deviation are those of all rows together, for batches of any sizes and both dtypes."""
    first, second = drifting(1, sizes, 6, dtype), drifting(2, sizes, 3, dtype)
    batches = [(name, x) for pair in zip(first, second) for name, x in zip(("first", "second"), pair)]
    summary = submission.run(_logged, batches)
    assert_statistics(summary, {"first": reference.statistics(first), "second": reference.statistics(second)})


@pytest.mark.task("FeatureLog")
def test_statistics_of_dull_units(submission, reference):
    """Units that never change have no deviation, neither a negative one nor NaN; others may lie far from zero."""
    generator = torch.Generator().manual_seed(3)
    batches = []
    for _ in range(9):
        x = torch.randn(11, 6, generator=generator)
        x[:, 0], x[:, 1], x[:, 2], x[:, 3] = 0.0, 0.7, -1.3, x[:, 3] - 9.0
        batches.append(x)
    summary = submission.run(_logged, [("units", x) for x in batches])
    assert_statistics(summary, {"units": reference.statistics(batches)})
    summary = submission.run(_logged, [("units", batches[0][:1])])
    assert_statistics(summary, {"units": reference.statistics([batches[0][:1]])})


@pytest.mark.task("FeatureLog")
@pytest.mark.parametrize("layout", ["columns first", "one row for all", "a slice"])
def test_statistics_of_other_layouts(submission, reference, layout):
    """Features may lie in memory in any way."""
    (x,) = drifting(4, (6,), 8)
    x = {"columns first": x.T.contiguous().T, "one row for all": x[:1].expand(6, 8), "a slice": x[1:, 2:5]}[layout]
    assert_statistics(submission.run(_logged, [("x", x), ("x", x[:2])]), {"x": reference.statistics([x, x[:2]])})


def _held(learner, weights, batches):
    from autograder.instruments import SavedTensors, mlp

    log, model = learner.FeatureLog(), mlp(weights)
    held = []
    with SavedTensors() as saved:
        for x in batches:
            hidden = model[:3](x)
            log.add("hidden", hidden)
            log.add("logits", model[3:](hidden))
            del hidden
            held.append(saved.alive)
    return held, log.summary()


@pytest.mark.task("FeatureLog")
@pytest.mark.pitfall("A5")
@pytest.mark.lesson("What keeps a graph alive")
def test_no_graph_is_kept(submission, reference):
    """No tensor is held for a backward pass after features of two layers were logged, batch after batch."""
    weights, batches = weights_of(5, 4, 6, 5, 3), drifting(5, (3, 8, 1, 5), 4)
    held, summary = submission.run(_held, weights, batches)
    hidden = [reference.network(weights[:4], x) for x in batches]
    logits = [reference.network(weights, x) for x in batches]
    assert_statistics(summary, {"hidden": reference.statistics(hidden), "logits": reference.statistics(logits)})
    if any(held):
        raise Finding(f"after each batch, so many tensors were held for a backward pass: {held}")


def _bytes_held(learner, batches):
    """Bytes that can be reached from the log after each batch, and its summary."""
    from autograder.instruments import reachable_bytes

    log, sizes = learner.FeatureLog(), []
    for features in batches:
        log.add("features", features.clone())
        sizes.append(reachable_bytes(log))
    return sizes, log.summary()


@pytest.mark.task("FeatureLog")
@pytest.mark.pitfall("A5")
@pytest.mark.lesson("What keeps a graph alive")
def test_log_does_not_grow(submission, reference):
    """The log holds as much after many batches as after a few."""
    batches = drifting(6, (16,) * 30, 128)
    sizes, summary = submission.run(_bytes_held, batches)
    assert_statistics(summary, {"features": reference.statistics(batches)})
    growth = (sizes[29] - sizes[4]) / 25
    if growth > 60:
        raise Finding(f"the log grows by about {growth:,.0f} bytes with each batch")


def _trained_beside_the_log(learner, weights, x, labels, changed):
    from autograder.instruments import mlp

    log, model = learner.FeatureLog(), mlp(weights)
    hidden = model[0](x)
    log.add("hidden", hidden)
    if changed:
        hidden.mul_(2)
    torch.nn.functional.cross_entropy(model[1:](hidden), labels).backward()
    with torch.no_grad():
        hidden.zero_()
    return [p.grad for p in model.parameters()], log.summary()


@pytest.mark.task("FeatureLog")
@pytest.mark.pitfall("A5")
@pytest.mark.lesson("What keeps a graph alive")
@pytest.mark.parametrize("changed", [False, True])
def test_training_goes_on_as_before(submission, reference, changed):
    """Gradients are the same with and without a log, and changes in place afterwards do not show in it."""
    weights = weights_of(7, 5, 6, 3)
    x, labels = samples(7, 9, 5, 3)
    gradients, summary = submission.run(_trained_beside_the_log, weights, x, labels, changed)
    wide = reference.leaves(weights)
    hidden = reference.network(wide[:2], x.double())
    logits = reference.network(wide[2:], torch.tanh(2 * hidden if changed else hidden))
    expected = torch.autograd.grad(F.cross_entropy(logits, labels), wide)
    assert_matches(gradients, list(expected), dtype=False, rtol=1e-4, atol=1e-6, what="the gradients")
    assert_statistics(summary, {"hidden": reference.statistics([hidden.detach()])})


def _snapshots(learner, first, second):
    log = learner.FeatureLog()
    log.add("x", first)
    early = log.summary()
    log.add("x", second)
    late = log.summary()
    try:
        late["x"]["mean"] += 100
        late["x"]["std"].zero_()
    except RuntimeError:  # tensors of inference mode cannot be changed here, so no change can reach the log
        pass
    late["other"] = late.pop("x")
    return early, log.summary()


@pytest.mark.task("FeatureLog")
def test_summaries_are_snapshots(submission, reference):
    """A summary stays as it is when more is logged, and changes to it do not reach the log."""
    batches = drifting(8, (4, 6), 3)
    early, late = submission.run(_snapshots, *batches)
    assert_statistics(early, {"x": reference.statistics(batches[:1])})
    assert_statistics(late, {"x": reference.statistics(batches)})


# --- distil -----------------------------------------------------------------------------------------------------------


def squared(student, teacher):
    """A plain loss."""
    return F.mse_loss(student, teacher)


def softened(student, teacher):
    """A distillation loss at temperature 3."""
    return F.cross_entropy(student / 3, F.softmax(teacher / 3, dim=1))


def weighted(student, teacher):
    """A loss in which students and teachers have different parts."""
    return ((student - teacher) ** 2 * teacher.abs()).sum() / len(student)


LOSSES = {"squared": squared, "softened": softened, "weighted": weighted}


def _distilled(learner, student, teacher, batches, lr, loss, frozen, left):
    """Losses, the student's parameters, the teacher's and its gradients; ``left`` lies in each .grad beforehand."""
    from torch.nn import functional as F

    from autograder.instruments import mlp

    class Network(torch.nn.Module):
        def __init__(self, weights):
            super().__init__()
            self.body = torch.nn.Sequential(*mlp(weights[:-2]), torch.nn.Tanh())
            self.head = mlp(weights[-2:])

        def forward(self, x):
            return self.head(self.body(x))

    losses = {
        "squared": F.mse_loss,
        "softened": lambda s, t: F.cross_entropy(s / 3, F.softmax(t / 3, dim=1)),
        "weighted": lambda s, t: ((s - t) ** 2 * t.abs()).sum() / len(s),
    }
    student, teacher = Network(student), Network(teacher)
    for p in [*student.parameters(), *teacher.parameters()]:
        p.grad = torch.full_like(p, left) if left else None
    teacher.requires_grad_(not frozen)
    values = learner.distil(student, teacher, (x for x in batches), lr, losses[loss])
    parts = (student.body, student.head, teacher.body, teacher.head)
    student_weights, teacher_weights = [
        [p.detach().clone() for part in pair for p in part.parameters()] for pair in (parts[:2], parts[2:])
    ]
    gradients = [p.grad for p in teacher.parameters()]
    with torch.no_grad():  # whoever shares a tensor with the teacher gives it away here
        for p in student.parameters():
            p.fill_(7.0)
    shared = [bool((p == 7.0).all()) for p in teacher.parameters()]
    return values, student_weights, teacher_weights, gradients, shared


def assert_distilled(submission, reference, student, teacher, batches, lr, loss, frozen=False, left=0.0):
    """Everything that the docstring of distil promises."""
    found = submission.run(_distilled, student, teacher, batches, lr, loss, frozen, left)
    losses, weights, teacher_after, gradients, shared = found
    expected_losses, expected = reference.distil(student, teacher, batches, lr, LOSSES[loss])
    assert isinstance(losses, list) and all(type(value) is float for value in losses), "losses: not a list of floats"
    assert_matches(losses, expected_losses, rtol=1e-4, atol=1e-6, what="the losses")
    assert_matches(weights, expected, dtype=False, rtol=1e-4, atol=1e-5, what="the student's parameters")
    assert_matches(teacher_after, teacher, rtol=0, atol=0, what="the teacher's parameters")
    before = [torch.full_like(weight, left) if left else None for weight in teacher]
    assert_matches(gradients, before, rtol=0, atol=0, what="what is in the teacher's .grad")
    assert not any(shared), "student and teacher share a tensor"


def digits_in_batches(digits, seed, sizes):
    """Real digits, centred, in batches of these sizes."""
    images, _ = digits(seed, sum(sizes))
    return list((images - 0.3).split(list(sizes)))


@pytest.mark.task("distil")
def test_no_batches(submission):
    """Without batches there are no losses, and the student has the teacher's body and its own head."""
    student, teacher = weights_of(10, 4, 5, 3), weights_of(11, 4, 5, 3)
    found = submission.run(_distilled, student, teacher, [], 0.1, "squared", False, 0.0)
    losses, weights, teacher_after, _, _ = found
    assert losses == [], "losses without batches"
    assert_matches(weights, [*teacher[:-2], *student[-2:]], what="the student's parameters")
    assert_matches(teacher_after, teacher, what="the teacher's parameters")


@pytest.mark.task("distil")
@pytest.mark.pitfall("A3")
@pytest.mark.lesson("What moves and what does not")
@pytest.mark.parametrize("frozen", [False, True])
def test_every_part_of_the_student_moves(submission, reference, digits, frozen):
    """One step trains body and head, whether or not the teacher was frozen before, and leaves the teacher alone."""
    student, teacher = weights_of(12, 64, 12, 10), weights_of(13, 64, 12, 10)
    batches = digits_in_batches(digits, 12, (7,))
    assert_distilled(submission, reference, student, teacher, batches, 0.5, "softened", frozen)


@pytest.mark.task("distil")
@pytest.mark.pitfall("A3", "A2")
@pytest.mark.lesson("What moves and what does not")
@pytest.mark.parametrize("loss", ["squared", "softened", "weighted"])
@pytest.mark.parametrize("frozen", [False, True])
def test_several_steps(submission, reference, digits, loss, frozen):
    """After several steps on real digits, in batches of different sizes, all parameters are where they should be."""
    student, teacher = weights_of(14, 64, 9, 8, 10), weights_of(15, 64, 9, 8, 10)
    batches = digits_in_batches(digits, 14, (6, 9, 3, 8, 1))
    assert_distilled(submission, reference, student, teacher, batches, 0.3, loss, frozen)


def _only_the_head(learner, student, teacher, batches, lr):
    """A body without parameters, and a head of one layer: the student's weights and the losses."""
    from autograder.instruments import mlp

    class Network(torch.nn.Module):
        def __init__(self, weights):
            super().__init__()
            self.body, self.head = torch.nn.Tanh(), mlp(weights)

        def forward(self, x):
            return self.head(self.body(x))

    student, teacher = Network(student), Network(teacher)
    losses = learner.distil(student, teacher, batches, lr, lambda s, t: ((s - t) ** 2).mean())
    return losses, [p.detach() for p in student.head.parameters()], [p.detach() for p in teacher.head.parameters()]


@pytest.mark.task("distil")
@pytest.mark.pitfall("A2")
@pytest.mark.lesson("What backward leaves behind")
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_each_step_has_its_own_gradient(submission, reference, dtype):
    """Four steps of a student that is all head use the gradients of their own batches."""
    student, teacher = weights_of(16, 5, 4, dtype=dtype), weights_of(17, 5, 4, dtype=dtype)
    batches = [samples(seed, 6, 5, 4, dtype)[0] for seed in range(4)]
    losses, weights, teacher_after = submission.run(_only_the_head, student, teacher, batches, 0.4)
    expected_losses, expected = reference.distil(student, teacher, [torch.tanh(x) for x in batches], 0.4, squared)
    assert_matches(losses, expected_losses, rtol=1e-4, atol=1e-6, what="the losses")
    assert_matches(weights, expected, dtype=False, rtol=1e-4, atol=1e-5, what="the student's parameters")
    assert_matches(teacher_after, teacher, rtol=0, atol=0, what="the teacher's parameters")


@pytest.mark.task("distil")
@pytest.mark.pitfall("A2")
@pytest.mark.lesson("What backward leaves behind")
def test_what_was_left_before(submission, reference, digits):
    """Gradients that lie in `.grad` before the call have no influence; the teacher's are still there afterwards."""
    student, teacher = weights_of(18, 64, 7, 10), weights_of(19, 64, 7, 10)
    batches = digits_in_batches(digits, 18, (5, 5, 4))
    assert_distilled(submission, reference, student, teacher, batches, 0.2, "squared", left=3.0)


# --- gradient_penalty -------------------------------------------------------------------------------------------------


def _penalised(function, weights, x, labels, factors, kind):
    """The penalty; gradients of ``factors[0] * cross entropy + factors[1] * penalty``; what was left behind."""
    from torch.nn import functional as F

    from autograder.instruments import mlp

    model = mlp(weights, torch.nn.Softplus)
    if x.dim() > 2:
        model.insert(0, torch.nn.Flatten())
    parameters = list(model.parameters())
    earlier = [torch.full_like(p, 0.5) for p in parameters]
    for p, grad in zip(parameters, earlier):
        p.grad = grad.clone()
    if kind != "plain":
        x = x.clone().requires_grad_()
        x.grad = torch.full_like(x, 0.25)
    given = torch.tanh(x) if kind == "result" else x
    kept = given.detach().clone()
    penalty = function(model, given, labels)
    left = [
        any(p.grad is None or not torch.equal(p.grad, grad) for p, grad in zip(parameters, earlier)),
        not all(p.requires_grad for p in parameters),
        any(not torch.equal(p.detach(), w) for p, w in zip(parameters, weights)),
        not torch.equal(given, kept),
        given.requires_grad != (kind != "plain"),
        x.grad is not None if kind == "plain" else x.grad is None or not bool((x.grad == 0.25).all()),
    ]
    for p in parameters:
        p.grad = None
    loss = factors[0] * F.cross_entropy(model(kept), labels) + factors[1] * penalty
    gradients = torch.autograd.grad(loss, parameters, allow_unused=True) if loss.requires_grad else None
    return penalty, gradients, left


def assert_penalty(submission, reference, weights, x, labels, factors, kind="plain"):
    """Value, gradients under an outer loss, and nothing left behind."""
    probe = submission.gradient_penalty.probe
    penalty, gradients, left = probe(_penalised, weights, x, labels, factors, kind)
    wide = reference.leaves(weights)

    def model(x):
        x = x.flatten(1)
        for i in range(0, len(wide), 2):
            x = (F.softplus(x) if i else x) @ wide[i].T + wide[i + 1]
        return x

    given = (torch.tanh(x) if kind == "result" else x).double()
    expected = reference.gradient_penalty(model, given, labels)
    assert_matches(penalty, expected.detach().to(x.dtype), rtol=1e-4, atol=1e-6, what="the penalty")
    assert not any(left), "something of the model or of x is not as it was"
    if factors[1]:
        loss = factors[0] * F.cross_entropy(model(given), labels) + factors[1] * expected
        wanted = torch.autograd.grad(loss, wide, allow_unused=True)
        wanted = [torch.zeros_like(w) if g is None else g for g, w in zip(wanted, wide)]
        assert isinstance(gradients, list | tuple), "the penalty cannot be differentiated"
        found = [torch.zeros_like(w) if g is None else g for g, w in zip(gradients, wide, strict=True)]
        assert_matches(found, wanted, dtype=False, rtol=1e-3, atol=1e-6, what="the gradients")


@pytest.mark.task("gradient_penalty")
@pytest.mark.parametrize("shape", [(1, 5), (8, 5), (4, 2, 3), (3, 1, 2, 4)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_value_of_the_penalty(submission, reference, shape, dtype):
    """The penalty is the mean over the samples of their squared gradient norms, for inputs of any shape."""
    width = torch.Size(shape[1:]).numel()
    x, labels = samples(20, shape[0], width, 3, dtype)
    weights = weights_of(20, width, 6, 3, dtype=dtype)
    assert_penalty(submission, reference, weights, x.reshape(shape), labels, (1.0, 0.0))


@pytest.mark.task("gradient_penalty")
@pytest.mark.parametrize("kind", ["plain", "leaf", "result"])
def test_nothing_is_left_behind(submission, reference, kind):
    """Parameters and input are as they were, `.grad` included, and the input may be the result of other layers."""
    x, labels = samples(21, 6, 4, 3)
    assert_penalty(submission, reference, weights_of(21, 4, 5, 3), x, labels, (1.0, 0.0), kind)


@pytest.mark.task("gradient_penalty")
@pytest.mark.pitfall("A11", "A9")
@pytest.mark.lesson("Gradients of gradients")
@pytest.mark.parametrize("shape", [(1, 5), (7, 4), (5, 2, 3)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_gradients_of_the_penalty(submission, reference, shape, dtype):
    """The penalty's own gradients arrive in the parameters."""
    width = torch.Size(shape[1:]).numel()
    x, labels = samples(22, shape[0], width, 4, dtype)
    weights = weights_of(22, width, 6, 5, 4, dtype=dtype)
    assert_penalty(submission, reference, weights, x.reshape(shape), labels, (0.0, -1.7))


@pytest.mark.task("gradient_penalty")
@pytest.mark.pitfall("A11", "A9")
@pytest.mark.lesson("Cutting the graph")
@pytest.mark.parametrize("kind", ["plain", "leaf", "result"])
def test_penalty_beside_another_loss(submission, reference, digits, kind):
    """Added to a cross entropy, the penalty changes the gradients of the sum by the right amount, for real digits."""
    x, labels = digits(23, 9)
    weights = weights_of(23, 64, 8, 10)
    assert_penalty(submission, reference, weights, x, labels, (0.6, 3.0), kind)


# --- sample_gradient_norms --------------------------------------------------------------------------------------------


def _norms_and_traces(function, weights, trainable, x, labels, left):
    """The norms of two calls, and whether anything of the model was changed."""
    from autograder.instruments import mlp

    model = mlp(weights)
    parameters = list(model.parameters())
    for p, counts in zip(parameters, trainable):
        p.requires_grad_(counts)
        p.grad = torch.full_like(p, left) if left and counts else None
    norms = [function(model, x, labels), function(model, x, labels)]
    as_it_was = [
        all(p.requires_grad == counts for p, counts in zip(parameters, trainable)),
        all(torch.equal(p.detach(), w) for p, w in zip(parameters, weights)),
        all(
            p.grad is not None and bool((p.grad == left).all()) if left and counts else p.grad is None
            for p, counts in zip(parameters, trainable)
        ),
    ]
    return norms, as_it_was


def assert_norms(submission, reference, weights, x, labels, trainable=None, left=0.0, traces=True):
    """Right norms, twice, and (where ``traces``) a model that is as it was."""
    trainable = trainable or [True] * len(weights)
    probe = submission.sample_gradient_norms.probe
    norms, as_it_was = probe(_norms_and_traces, weights, trainable, x, labels, left)
    expected = reference.sample_gradient_norms(weights, x, labels, trainable).to(x.dtype)
    for answer in norms:
        assert_matches(answer, expected, rtol=1e-4, atol=1e-6, what="the norms")
    assert not traces or all(as_it_was), "the model is not as it was"


def _norms(function, weights, x, labels):
    from autograder.instruments import mlp

    return function(mlp(weights), x, labels)


@pytest.mark.task("sample_gradient_norms")
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_norm_of_a_single_sample(submission, reference, dtype):
    """The norm of one sample in a batch of one is that of its gradient, over all layers, in the input's dtype."""
    x, labels = samples(30, 1, 6, 4, dtype)
    weights = weights_of(30, 6, 5, 4, dtype=dtype)
    norms = submission.sample_gradient_norms.probe(_norms, weights, x, labels)
    expected = reference.sample_gradient_norms(weights, x, labels, [True] * 4).to(dtype)
    assert_matches(norms, expected, rtol=1e-4, atol=1e-6, what="the norms")


@pytest.mark.task("sample_gradient_norms")
@pytest.mark.pitfall("A6")
@pytest.mark.lesson("What backward leaves behind")
@pytest.mark.parametrize(("n", "widths"), [(1, (4, 3)), (5, (4, 3)), (8, (6, 7, 5, 4)), (13, (3, 2, 6, 5, 2))])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_each_sample_has_its_own_norm(submission, reference, n, widths, dtype):
    """Norms are those of each sample's own gradient, for networks of several depths, and the same in a second call."""
    x, labels = samples(31, n, widths[0], widths[-1], dtype)
    assert_norms(submission, reference, weights_of(31, *widths, dtype=dtype), x, labels, traces=False)


@pytest.mark.task("sample_gradient_norms")
@pytest.mark.pitfall("A6")
@pytest.mark.lesson("What backward leaves behind")
def test_norms_of_digits(submission, reference, digits):
    """Norms of real digits are right, whatever lies in `.grad` already, and that is still there afterwards."""
    images, labels = digits(32, 20)
    assert_norms(submission, reference, weights_of(32, 64, 12, 10), images, labels, left=2.5)


@pytest.mark.task("sample_gradient_norms")
@pytest.mark.pitfall("A6")
@pytest.mark.lesson("What moves and what does not")
@pytest.mark.parametrize(
    "trainable",
    [
        [False, False, True, True, True, True],
        [True, False, False, False, True, False],
        [True, True, False, True, False, False],
        [False, False, False, False, False, True],
    ],
)
def test_frozen_parameters_do_not_count(submission, reference, trainable):
    """Frozen parameters, in the first layers, in the last or in between, do not count and stay frozen."""
    x, labels = samples(33, 6, 5, 4)
    assert_norms(submission, reference, weights_of(33, 5, 6, 7, 4), x, labels, trainable, left=1.5)


@pytest.mark.task("sample_gradient_norms")
@pytest.mark.pitfall("A6")
@pytest.mark.lesson("One gradient for each sample")
@pytest.mark.timed
def test_norms_of_a_batch_are_quick(submission, baseline, reference):
    """A batch of samples takes a small fraction of the time of a loop over them."""

    def inputs(seed):
        weights = weights_of(seed, 64, 16, 10)
        return (weights, *samples(seed, 64, 64, 10)), {}

    def expected(weights, x, labels):
        return reference.sample_gradient_norms(weights, x, labels, [True] * 4).float()

    assert_faster(
        submission.sample_gradient_norms,
        baseline("starter").sample_gradient_norms,
        inputs,
        expected,
        reference_ratio=GRADIENT_NORMS_RATIO,
        via=_norms,
        rtol=1e-3,
    )
