"""Visible tests of exercise 2, tasks 4 to 7. They use examples that can be worked out by hand; read them."""

import pytest
import torch

from autograder.checks import assert_faster, assert_matches
from autograder.errors import Finding

GRADIENT_NORMS_RATIO = 5.0
"""Gradient norms of a whole batch against a loop over its 64 samples, as benchmarks/speedups.py measures it."""


# --- FeatureLog -------------------------------------------------------------------------------------------------------


def _logged(learner, batches):
    log = learner.FeatureLog()
    empty = log.summary()
    for name, features in batches:
        log.add(name, features)
    return empty, log.summary()


@pytest.mark.task("FeatureLog")
def test_log_of_a_few_rows(submission):
    """Of rows (1, 5), (3, 5), then (8, 5) under one name, mean and deviation are (4, 5) and (2.94, 0)."""
    first, second = torch.tensor([[1.0, 5.0], [3.0, 5.0]]), torch.tensor([[8.0, 5.0]])
    empty, summary = submission.run(_logged, [("a", first), ("b", second), ("a", second)])
    assert empty == {}, "the summary of a log without batches should be an empty dictionary"
    expected = {
        "a": {"rows": 3, "mean": torch.tensor([4.0, 5.0]), "std": torch.tensor([(26 / 3) ** 0.5, 0.0])},
        "b": {"rows": 1, "mean": torch.tensor([8.0, 5.0]), "std": torch.tensor([0.0, 0.0])},
    }
    assert_matches(summary, expected, dtype=False, rtol=1e-3, atol=1e-2, what="the summary")


@pytest.mark.task("FeatureLog")
def test_log_of_units_that_never_change(submission):
    """Units that are 0.1, 0.2 and so on up to 3.2 in every row have deviation 0, not NaN."""
    units = torch.arange(1, 33) / 10
    _, summary = submission.run(_logged, [("a", units.expand(3, 32))] * 7)
    expected = {"a": {"rows": 21, "mean": units, "std": torch.zeros(32)}}
    assert_matches(summary, expected, dtype=False, rtol=1e-3, atol=1e-2, what="the summary")


def _held_after_each_batch(learner, weight, batches):
    from autograder.instruments import SavedTensors

    log, weight = learner.FeatureLog(), weight.clone().requires_grad_()
    held = []
    with SavedTensors() as saved:
        for x in batches:
            log.add("hidden", torch.sigmoid(x @ weight))
            held.append(saved.alive)
    return held, log.summary()


@pytest.mark.task("FeatureLog")
@pytest.mark.pitfall("A5")
@pytest.mark.lesson("What keeps a graph alive")
def test_log_keeps_no_graph(submission):
    """After four batches without a backward pass, no tensor is held for one."""
    batches = [torch.tensor([[0.0, 0.0], [0.0, 0.0]])] * 4
    held, summary = submission.run(_held_after_each_batch, torch.ones(2, 3), batches)
    expected = {"hidden": {"rows": 8, "mean": torch.full((3,), 0.5), "std": torch.zeros(3)}}
    assert_matches(summary, expected, dtype=False, rtol=1e-3, atol=1e-2, what="the summary")
    if any(held):
        raise Finding(f"after each of four batches, so many tensors were held for a backward pass: {held}")


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
def test_log_stays_small(submission):
    """After thirty batches the log holds as many bytes as after ten."""
    batches = [torch.tensor([[1.0], [3.0]]).expand(2, 256)] * 30
    sizes, summary = submission.run(_bytes_held, batches)
    expected = {"features": {"rows": 60, "mean": torch.full((256,), 2.0), "std": torch.ones(256)}}
    assert_matches(summary, expected, dtype=False, rtol=1e-3, atol=1e-2, what="the summary")
    if sizes[29] > sizes[9] + 1000:
        raise Finding(f"it holds {sizes[9]:,} bytes after ten batches of 2,048 bytes, {sizes[29]:,} after thirty")


def _rectified_after_logging(learner, features):
    log = learner.FeatureLog()
    log.add("hidden", features)
    features.relu_()
    return log.summary(), features


@pytest.mark.task("FeatureLog")
@pytest.mark.pitfall("A5")
@pytest.mark.lesson("What keeps a graph alive")
def test_log_shows_what_was_logged(submission):
    """What is done to the features in place after `add` does not show in the log."""
    summary, features = submission.run(_rectified_after_logging, torch.tensor([[-3.0, 1.0], [-1.0, 3.0]]))
    expected = {"hidden": {"rows": 2, "mean": torch.tensor([-2.0, 2.0]), "std": torch.ones(2)}}
    assert_matches(summary, expected, dtype=False, rtol=1e-3, atol=1e-2, what="the summary")
    assert_matches(features, torch.tensor([[0.0, 1.0], [0.0, 3.0]]), what="the features")


# --- distil -----------------------------------------------------------------------------------------------------------


def _one_weight_each(learner, teacher_weights, student_weights, batches, lr, frozen=False):
    """Networks y = head * (body * x), each with one weight in body and head; whether the teacher's got a gradient."""

    class Product(torch.nn.Module):
        def __init__(self, body, head):
            super().__init__()
            self.body, self.head = torch.nn.Linear(1, 1, bias=False), torch.nn.Linear(1, 1, bias=False)
            with torch.no_grad():
                self.body.weight.fill_(body)
                self.head.weight.fill_(head)

        def forward(self, x):
            return self.head(self.body(x))

        def weights(self):
            return [self.body.weight.item(), self.head.weight.item()]

    teacher, student = Product(*teacher_weights).requires_grad_(not frozen), Product(*student_weights)
    losses = learner.distil(student, teacher, batches, lr, lambda s, t: ((s - t) ** 2).mean())
    return losses, student.weights(), teacher.weights(), any(p.grad is not None for p in teacher.parameters())


@pytest.mark.task("distil")
def test_distil_first_step(submission):
    """With teacher 2 * 1 and a student's head of 0, the first step on x = 1 costs 4 and brings the head to 0.8."""
    losses, student, teacher, _ = submission.run(_one_weight_each, (2.0, 1.0), (5.0, 0.0), [torch.ones(1, 1)], 0.1)
    assert_matches(losses, [4.0], what="the losses")
    assert_matches(student[1], 0.8, what="the student's head")
    assert_matches(teacher, [2.0, 1.0], what="the teacher's weights")


@pytest.mark.task("distil")
@pytest.mark.pitfall("A3")
@pytest.mark.lesson("What moves and what does not")
def test_distil_moves_the_body(submission):
    """Teacher 2 * 1, student's head 0.5: a step on x = 1 moves the student's body from 2 to 2.1, not the teacher."""
    losses, student, teacher, left = submission.run(_one_weight_each, (2.0, 1.0), (5.0, 0.5), [torch.ones(1, 1)], 0.1)
    assert_matches(losses, [1.0], what="the losses")
    assert_matches(teacher, [2.0, 1.0], what="the teacher's weights")
    assert_matches(student, [2.1, 0.9], what="the student's weights")
    assert not left, "something was left in the .grad of the teacher's parameters"


@pytest.mark.task("distil")
@pytest.mark.pitfall("A3")
@pytest.mark.lesson("What moves and what does not")
def test_distil_from_a_frozen_teacher(submission):
    """With teacher 2 * 1, frozen before the call, one step still moves the student's body from 2 to 2.1."""
    batches = [torch.ones(1, 1)]
    losses, student, teacher, _ = submission.run(_one_weight_each, (2.0, 1.0), (5.0, 0.5), batches, 0.1, True)
    assert_matches(losses, [1.0], what="the losses")
    assert_matches(teacher, [2.0, 1.0], what="the teacher's weights")
    assert_matches(student, [2.1, 0.9], what="the student's weights")


@pytest.mark.task("distil")
@pytest.mark.pitfall("A2")
@pytest.mark.lesson("What backward leaves behind")
def test_distil_second_step(submission):
    """The second step, again on x = 1, brings a head that went from 0 to 0.8 in the first to 0.96."""
    batches = [torch.ones(1, 1)] * 2
    losses, student, teacher, _ = submission.run(_one_weight_each, (2.0, 1.0), (5.0, 0.0), batches, 0.1)
    assert_matches(losses, [4.0, 0.16], rtol=1e-4, what="the losses")
    assert_matches(student[1], 0.96, rtol=1e-4, what="the student's head")
    assert_matches(teacher, [2.0, 1.0], what="the teacher's weights")


# --- gradient_penalty -------------------------------------------------------------------------------------------------


def _penalty_of_two_classes(function, scale, x, labels, factor):
    """The model's logits for a sample x, a number or several, are (scale * sum of x, 0)."""

    class TwoClasses(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.scale = torch.nn.Parameter(scale.clone())

        def forward(self, x):
            score = self.scale * x.flatten(1).sum(1)
            return torch.stack([score, torch.zeros_like(score)], dim=1)

    model = TwoClasses()
    penalty = function(model, x, labels)
    left = model.scale.grad is not None
    (factor * penalty + 3 * model.scale).backward()
    return penalty, model.scale.grad, left


@pytest.mark.task("gradient_penalty")
def test_penalty_by_hand(submission):
    """Where logits are (4 * x, 0) and x = 0, each sample's gradient is 2 or -2, so the penalty is 4."""
    args = (torch.tensor(4.0), torch.zeros(3, 1), torch.tensor([0, 1, 0]), 1.0)
    penalty, _, left = submission.gradient_penalty.probe(_penalty_of_two_classes, *args)
    assert_matches(penalty, torch.tensor(4.0), what="the penalty")
    assert not left, "something was left in the parameter's .grad"


@pytest.mark.task("gradient_penalty")
@pytest.mark.pitfall("A11", "A9")
@pytest.mark.lesson("Gradients of gradients")
def test_penalty_pulls_at_the_weights(submission):
    """Where logits are (w * x, 0) and x = 0, the penalty is w * w / 4; its gradient at w = 4 is 2."""
    args = (torch.tensor(4.0), torch.zeros(3, 1), torch.tensor([0, 1, 0]), 5.0)
    penalty, gradient, _ = submission.gradient_penalty.probe(_penalty_of_two_classes, *args)
    assert_matches(penalty, torch.tensor(4.0), what="the penalty")
    hint = "If it is 3: follow the penalty back to w, and look for every place where the trail ends."
    assert_matches(gradient, torch.tensor(13.0), what="the gradient of 5 * penalty + 3 * w", hint=hint)


@pytest.mark.task("gradient_penalty")
@pytest.mark.pitfall("A11", "A9")
@pytest.mark.lesson("Gradients of gradients")
def test_penalty_of_pictures(submission):
    """Where logits are (w * sum of x, 0) and x is 2 by 2 zeros, the penalty is w * w; its gradient at w = 4 is 8."""
    args = (torch.tensor(4.0), torch.zeros(3, 2, 2), torch.tensor([0, 1, 0]), 1.0)
    penalty, gradient, _ = submission.gradient_penalty.probe(_penalty_of_two_classes, *args)
    assert_matches(penalty, torch.tensor(16.0), what="the penalty")
    assert_matches(gradient, torch.tensor(11.0), what="the gradient of penalty + 3 * w")


# --- sample_gradient_norms --------------------------------------------------------------------------------------------


def _norms(function, weights, x, labels):
    from autograder.instruments import mlp

    model = mlp(weights)
    norms = function(model, x, labels)
    return norms, [p.grad is not None for p in model.parameters()]


@pytest.mark.task("sample_gradient_norms")
def test_norm_of_one_sample(submission):
    """With all weights 0 and two classes, a sample (3, 4) has a gradient of norm sqrt(13)."""
    weights = [torch.zeros(2, 2), torch.zeros(2)]
    norms, _ = submission.sample_gradient_norms.probe(_norms, weights, torch.tensor([[3.0, 4.0]]), torch.tensor([1]))
    assert_matches(norms, torch.tensor([13.0]).sqrt(), what="the norms")


@pytest.mark.task("sample_gradient_norms")
@pytest.mark.pitfall("A6")
@pytest.mark.lesson("What backward leaves behind")
def test_norms_of_three_samples(submission):
    """Each sample's norm is its own: sqrt(13) for (3, 4) and sqrt(0.5) for (0, 0), in whatever order they come."""
    weights = [torch.zeros(2, 2), torch.zeros(2)]
    x, labels = torch.tensor([[3.0, 4.0], [0.0, 0.0], [3.0, 4.0]]), torch.tensor([0, 1, 1])
    norms, _ = submission.sample_gradient_norms.probe(_norms, weights, x, labels)
    assert_matches(norms, torch.tensor([13.0, 0.5, 13.0]).sqrt(), what="the norms")


@pytest.mark.task("sample_gradient_norms")
@pytest.mark.pitfall("A6")
@pytest.mark.lesson("What backward leaves behind")
def test_norms_leave_nothing_behind(submission):
    """The call leaves nothing in `.grad` of a parameter that had nothing there, and gives the right norms."""
    weights = [torch.zeros(2, 2), torch.zeros(2)]
    norms, left = submission.sample_gradient_norms.probe(_norms, weights, torch.ones(2, 2), torch.tensor([0, 1]))
    assert_matches(norms, torch.tensor([1.5, 1.5]).sqrt(), what="the norms")
    assert not any(left), "something was left in the parameters' .grad"


def _norms_with_a_frozen_weight(function, weights, x, labels):
    from autograder.instruments import mlp

    model = mlp(weights)
    model[0].weight.requires_grad_(False)
    return function(model, x, labels)


@pytest.mark.task("sample_gradient_norms")
@pytest.mark.pitfall("A6")
@pytest.mark.lesson("What moves and what does not")
def test_norms_leave_out_what_is_frozen(submission):
    """With the weight frozen, only the bias counts: the norms of (3, 4) and (0, 0) are sqrt(0.5)."""
    weights, x = [torch.zeros(2, 2), torch.zeros(2)], torch.tensor([[3.0, 4.0], [0.0, 0.0]])
    labels = torch.tensor([1, 1])
    norms = submission.sample_gradient_norms.probe(_norms_with_a_frozen_weight, weights, x, labels)
    assert_matches(norms, torch.tensor([0.5, 0.5]).sqrt(), what="the norms")


def _norms_alone(function, weights, x, labels):
    from autograder.instruments import mlp

    return function(mlp(weights), x, labels)


@pytest.mark.task("sample_gradient_norms")
@pytest.mark.pitfall("A6")
@pytest.mark.lesson("One gradient for each sample")
@pytest.mark.timed
def test_norms_are_quick(submission, baseline):
    """The norms of 64 samples take a fraction of the time that the original version takes."""

    def inputs(seed):
        generator = torch.Generator().manual_seed(seed)
        first = [torch.randn(16, 64, generator=generator) / 8, torch.randn(16, generator=generator)]
        x, labels = torch.rand(64, 64, generator=generator), torch.randint(10, (64,), generator=generator)
        return ([*first, torch.zeros(10, 16), torch.zeros(10)], x, labels), {}

    def expected(weights, x, labels):
        # where all logits are 0, the gradient of the last layer can be worked out by hand, and that of the first is 0
        hidden = torch.tanh(x @ weights[0].T + weights[1])
        return (0.9 * (1 + (hidden**2).sum(1))).sqrt()

    assert_faster(
        submission.sample_gradient_norms,
        baseline("starter").sample_gradient_norms,
        inputs,
        expected,
        reference_ratio=GRADIENT_NORMS_RATIO,
        via=_norms_alone,
        rtol=1e-4,
    )
