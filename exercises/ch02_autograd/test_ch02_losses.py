"""Visible tests of exercise 2, its losses. They use examples that can be worked out by hand; read them."""

import math

import pytest
import torch

from autograder.checks import assert_leaves_inputs_alone, assert_matches
from autograder.checks.own_test import assert_accepts, assert_rejects
from autograder.errors import Finding

# --- Student ----------------------------------------------------------------------------------------------------------


def _forward_of_a_new_student(learner, sizes, x):
    import torch

    torch.manual_seed(1)
    student = learner.Student(*sizes)
    return tuple(student(x))


@pytest.mark.task("Student")
def test_student_has_its_shapes(submission):
    """Five rows give five rows of logits and five rows of features, floating point as the input is."""
    logits, features = submission.run(_forward_of_a_new_student, (3, 4, 2, 6), torch.ones(5, 3))
    assert_matches(logits.shape, torch.Size([5, 6]), what="the shape of the logits")
    assert_matches(features.shape, torch.Size([5, 4]), what="the shape of the features")
    assert logits.dtype == features.dtype == torch.float32, "logits and features should be float32 here"


def _forward_with_known_biases(learner, x, biases):
    import torch

    student = learner.Student(x.shape[1], len(biases), 2, 2)
    with torch.no_grad():
        student.hidden[0].bias.zero_()
        student.hidden[1].bias.copy_(biases)
    logits, features = student(x)
    return logits, features, student.head.weight.detach(), student.head.bias.detach()


@pytest.mark.task("Student")
@pytest.mark.pitfall("A4")
@pytest.mark.lesson("In place, and the version counter")
def test_features_keep_their_sign(submission):
    """With biases 2 and -3 in the last hidden map, a row of zeros has features 2 and -3; the head sees 2 and 0."""
    logits, features, weight, bias = submission.run(
        _forward_with_known_biases, torch.zeros(1, 3), torch.tensor([2, -3])
    )
    assert_matches(features, torch.tensor([[2.0, -3.0]]), what="the features")
    assert_matches(logits, (2 * weight[:, 0] + bias)[None], what="the logits")


def _through_a_new_student(learner, sizes, x, labels):
    import torch

    torch.manual_seed(2)
    student = learner.Student(*sizes)
    logits, features = student(x)
    torch.nn.functional.cross_entropy(logits, labels).backward()
    spread = features.detach().std(dim=0).mean().item()
    return spread, [layer.weight.grad.norm().item() for layer in student.hidden]


@pytest.mark.task("Student")
@pytest.mark.pitfall("A8")
@pytest.mark.lesson("Gradients through depth")
def test_a_signal_gets_through_ten_layers(submission):
    """In a new student of ten hidden layers, features differ from row to row, and all layers get gradients alike."""
    generator = torch.Generator().manual_seed(3)
    x, labels = torch.randn(64, 64, generator=generator), torch.arange(64) % 10
    spread, norms = submission.run(_through_a_new_student, (64, 32, 10, 10), x, labels)
    if not spread >= 0.02:
        raise Finding(f"the features' standard deviation over the rows is {spread:.2g}; at least 0.02 is wanted")
    low, high = min(norms), max(norms)
    if not 0 < high <= 20 * low:
        raise Finding(f"the norms of the layers' gradients go from {low:.2g} to {high:.2g}; a factor of 20 is allowed")


# --- hint_loss --------------------------------------------------------------------------------------------------------

ALL = torch.tensor([True, True])


@pytest.mark.task("hint_loss")
def test_distance_of_two_directions(submission):
    """Rows (3, 4) and (0, 2) have directions (0.6, 0.8) and (0, 1), which are 0.632 apart; (5, 0) and (0, 2) 1.414."""
    student, teacher = torch.tensor([[3.0, 4.0], [5.0, 0.0]]), torch.tensor([[0.0, 2.0], [0.0, 2.0]])
    distances = submission.hint_loss(student, teacher, ALL)
    assert_matches(distances, torch.tensor([math.sqrt(0.4), math.sqrt(2)]), atol=1.5e-3)


@pytest.mark.task("hint_loss")
def test_units_set_aside_do_not_count(submission):
    """With the last unit set aside, rows (3, 4, 9) and (6, 8, -7) have the same direction."""
    student, teacher = torch.tensor([[3.0, 4.0, 9.0]]), torch.tensor([[6.0, 8.0, -7.0]])
    distances = submission.hint_loss(student, teacher, torch.tensor([True, True, False]))
    assert_matches(distances, torch.zeros(1), atol=1.5e-3)


@pytest.mark.task("hint_loss")
@pytest.mark.pitfall("A1")
@pytest.mark.lesson("Behind autograd's back")
def test_features_stay_as_they_were(submission):
    """Neither the student's nor the teacher's features are changed, also where a unit is set aside."""
    args = (torch.tensor([[3.0, 4.0, 9.0]]), torch.tensor([[6.0, 8.0, -7.0]]), torch.tensor([True, True, False]))
    assert_leaves_inputs_alone(submission.hint_loss, args)


def _distances_and_gradient(function, student, teacher, keep):
    student = student.clone().requires_grad_()
    distances = function(student, teacher, keep)
    distances.sum().backward()
    return distances, student.grad


@pytest.mark.task("hint_loss")
@pytest.mark.pitfall("A10")
@pytest.mark.lesson("Finite value, infinite slope")
def test_a_row_of_zeros(submission):
    """A row of zeros is 1 away from any direction; the gradient that it gets is finite, and no longer than 1."""
    student, teacher = torch.zeros(1, 2), torch.tensor([[0.0, 2.0]])
    distances, gradient = submission.hint_loss.probe(_distances_and_gradient, student, teacher, ALL)
    assert_matches(distances, torch.ones(1), atol=1.5e-3)
    assert gradient.norm() <= 1.01, f"the gradient of the row of zeros is {gradient.tolist()}"


@pytest.mark.task("hint_loss")
def test_a_short_row(submission):
    """A row of length 0.05 counts by its direction alone: (0.03, 0.04) is 0.632 away from (0, 5)."""
    distances, _ = submission.hint_loss.probe(
        _distances_and_gradient, torch.tensor([[0.03, 0.04]]), torch.tensor([[0.0, 5.0]]), ALL
    )
    assert_matches(distances, torch.tensor([math.sqrt(0.4)]), atol=1.5e-3)


@pytest.mark.task("hint_loss")
@pytest.mark.pitfall("A10")
@pytest.mark.lesson("Finite value, infinite slope")
def test_a_row_that_equals_the_teachers(submission):
    """A row that is equal to the teacher's has distance 0 and gradient 0."""
    rows = torch.tensor([[3.0, 4.0], [0.0, -1.0]])
    distances, gradient = submission.hint_loss.probe(_distances_and_gradient, rows, rows.clone(), ALL)
    assert_matches(distances, torch.zeros(2), atol=1.5e-3)
    assert_matches(gradient, torch.zeros(2, 2), atol=1.5e-3, what="the gradient")


# --- distillation_loss ------------------------------------------------------------------------------------------------

THREE_TO_ONE = [math.log(3), 0.0]
"""Logits of probabilities 3/4 and 1/4 at temperature 1."""
BY_HAND = 0.75 * math.log(1.5) + 0.25 * math.log(0.5)
"""Their divergence from probabilities 1/2 and 1/2."""


@pytest.mark.task("distillation_loss")
def test_loss_of_two_classes(submission):
    """Teacher 3 to 1, student 1 to 1: 3/4 log(3/2) + 1/4 log(1/2). Where the student agrees, the loss is 0."""
    teacher = torch.tensor([THREE_TO_ONE, THREE_TO_ONE])
    student = torch.tensor([[0.0, 0.0], [2.0 + math.log(3), 2.0]])
    losses = submission.distillation_loss(student, teacher, 1.0)
    assert_matches(losses, torch.tensor([BY_HAND, 0.0]), atol=1e-5)


@pytest.mark.task("distillation_loss")
def test_loss_at_another_temperature(submission):
    """Logits twice as large at temperature 2 give the same probabilities, and 4 times the loss."""
    losses = submission.distillation_loss(torch.zeros(1, 2), 2 * torch.tensor([THREE_TO_ONE]), 2.0)
    assert_matches(losses, torch.tensor([4 * BY_HAND]), atol=1e-5)


@pytest.mark.task("distillation_loss")
def test_loss_of_large_logits(submission):
    """Where the teacher says 10,000 to 0 and the student 0 to 0, the loss is log 2, and no NaN."""
    losses = submission.distillation_loss(torch.zeros(1, 2), torch.tensor([[10_000.0, 0.0]]), 1.0)
    assert_matches(losses, torch.tensor([math.log(2)]), atol=1e-5)


def _weighted_gradient(function, student, teacher, temperature, weights):
    student = student.clone().requires_grad_()
    (weights * function(student, teacher, temperature)).sum().backward()
    return student.grad


@pytest.mark.task("distillation_loss")
@pytest.mark.pitfall("A7")
@pytest.mark.lesson("Writing a backward")
def test_weights_of_samples_count(submission):
    """Of three equal samples with weights 1, 0 and 4, the second gets no gradient, the third four times the first's."""
    teacher, weights = torch.tensor([THREE_TO_ONE] * 3), torch.tensor([1.0, 0.0, 4.0])
    gradient = submission.distillation_loss.probe(_weighted_gradient, torch.zeros(3, 2), teacher, 1.0, weights)
    expected = torch.tensor([[-0.25, 0.25], [0.0, 0.0], [-1.0, 1.0]])
    assert_matches(gradient, expected, atol=1e-5, what="the gradient")


def _second_derivative(function, student, teacher, temperature):
    import torch

    return torch.autograd.functional.hessian(lambda logits: function(logits, teacher, temperature).sum(), student)


@pytest.mark.task("distillation_loss")
@pytest.mark.pitfall("A7")
@pytest.mark.lesson("Gradients of gradients")
def test_curvature_of_two_classes(submission):
    """Where the student says 1 to 1, the second derivatives are 1/4 on the diagonal and -1/4 beside it."""
    student, teacher = torch.zeros(1, 2), torch.tensor([THREE_TO_ONE])
    second = submission.distillation_loss.probe(_second_derivative, student, teacher, 1.0)
    expected = torch.tensor([[0.25, -0.25], [-0.25, 0.25]])
    assert_matches(second[0, :, 0], expected, atol=1e-5, what="the table of second derivatives")


# --- check_distillation_loss ------------------------------------------------------------------------------------------

RIGHT = """
def implementation(student_logits, teacher_logits, temperature):
    def logs(row):
        row = row / temperature - (row / temperature).max().detach()
        return row - sum(score.exp() for score in row).log()

    losses = []
    for student, teacher in zip(student_logits, teacher_logits.detach()):
        loss = 0.0
        for log_p, log_q in zip(logs(teacher), logs(student)):
            loss = loss + temperature**2 * log_p.exp() * (log_p - log_q)
        losses.append(loss)
    return torch.stack(losses)
"""
WITHOUT_SQUARE = """
def implementation(student_logits, teacher_logits, temperature):
    log_p = (teacher_logits.detach() / temperature).log_softmax(1)
    return (log_p.exp() * (log_p - (student_logits / temperature).log_softmax(1))).sum(1)
"""
OTHER_WAY_ROUND = """
def implementation(student_logits, teacher_logits, temperature):
    log_p = (teacher_logits.detach() / temperature).log_softmax(1)
    log_q = (student_logits / temperature).log_softmax(1)
    return temperature**2 * (log_q.exp() * (log_q - log_p)).sum(1)
"""
FROZEN_GRADIENT = """
class Frozen(torch.autograd.Function):
    @staticmethod
    def forward(ctx, student_logits, teacher_logits, temperature):
        log_p = (teacher_logits / temperature).log_softmax(1)
        log_q = (student_logits / temperature).log_softmax(1)
        ctx.gradient = temperature * (log_q.exp() - log_p.exp())
        return temperature**2 * (log_p.exp() * (log_p - log_q)).sum(1)

    @staticmethod
    def backward(ctx, upstream):
        return upstream[:, None] * ctx.gradient, None, None


def implementation(student_logits, teacher_logits, temperature):
    return Frozen.apply(student_logits, teacher_logits.detach(), temperature)
"""
SHOWN = [RIGHT, WITHOUT_SQUARE, OTHER_WAY_ROUND, FROZEN_GRADIENT]


@pytest.mark.task("check_distillation_loss")
def test_accepts_a_loop_over_samples(submission):
    """A loss that is written sample by sample, and right, is accepted."""
    assert_accepts(submission.check_distillation_loss, RIGHT, among=SHOWN)


@pytest.mark.task("check_distillation_loss")
@pytest.mark.pitfall("A7")
@pytest.mark.lesson("A test for a gradient")
def test_rejects_the_original_divergence(submission, starter_source):
    """The loss as section 3 had it at first is rejected."""
    source = "import torch.nn.functional as F\n" + starter_source("distillation_loss-code")
    assert_rejects(submission.check_distillation_loss, source + "\n\nimplementation = distillation_loss\n")


@pytest.mark.task("check_distillation_loss")
@pytest.mark.pitfall("A7")
@pytest.mark.lesson("A test for a gradient")
def test_rejects_a_loss_without_its_factor(submission):
    """A loss without the factor temperature**2, which is right at temperature 1 only, is rejected."""
    assert_rejects(submission.check_distillation_loss, WITHOUT_SQUARE, among=SHOWN)


@pytest.mark.task("check_distillation_loss")
@pytest.mark.pitfall("A7")
@pytest.mark.lesson("A test for a gradient")
def test_rejects_another_divergence(submission):
    """A loss that is consistent in itself, but measures the divergence the other way round, is rejected."""
    assert_rejects(submission.check_distillation_loss, OTHER_WAY_ROUND, among=SHOWN)


@pytest.mark.task("check_distillation_loss")
@pytest.mark.pitfall("A7")
@pytest.mark.lesson("Gradients of gradients")
def test_rejects_a_gradient_that_is_a_constant(submission):
    """A loss with right values and gradients, whose gradients cannot be differentiated again, is rejected."""
    assert_rejects(submission.check_distillation_loss, FROZEN_GRADIENT, among=SHOWN)
