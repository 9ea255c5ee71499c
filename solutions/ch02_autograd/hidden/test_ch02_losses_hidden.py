"""Hidden tests of exercise 2, its losses: other shapes, dtypes and layouts, random cotangents, second derivatives."""

from pathlib import Path

import pytest
import torch

from autograder.checks import (
    assert_accepts,
    assert_gradcheck,
    assert_gradients_match,
    assert_leaves_inputs_alone,
    assert_matches,
    assert_rejects,
)
from autograder.errors import Finding
from autograder.variants import read_variants


def random(*shape, seed=0, dtype=torch.float32):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).to(dtype)


def layouts(tensor):
    """The same numbers in memory laid out in other ways."""
    padded = torch.zeros(tensor.shape[0], tensor.shape[1] + 3, dtype=tensor.dtype)
    padded[:, 1:-2] = tensor
    return [tensor.contiguous(), tensor.t().contiguous().t(), padded[:, 1:-2]]


# --- Student ----------------------------------------------------------------------------------------------------------


def _student_and_gradients(learner, sizes, x, cotangents):
    import torch

    torch.manual_seed(sum(sizes))
    student = learner.Student(*sizes).to(x.dtype)
    maps = [*student.hidden, student.head]
    # a bias of its own for each unit, whatever the constructor has chosen
    with torch.no_grad():
        for layer in maps:
            layer.bias.copy_(torch.linspace(-0.5, 0.4, len(layer.bias)))
    before = x.clone()
    x.requires_grad_()
    logits, features = student(x)
    wanted = [x] + [layer.weight for layer in maps] + [layer.bias for layer in maps]
    gradients = torch.autograd.grad([logits, features], wanted, list(cotangents))
    return {
        "weights": [layer.weight.detach() for layer in maps],
        "biases": [layer.bias.detach() for layer in maps],
        "parameters": sum(parameter.numel() for parameter in student.parameters()),
        "logits": logits,
        "features": features,
        "x is as it was": torch.equal(x.detach(), before),
        "gradients": list(gradients),
    }


def _ask_student(submission, sizes, dtype):
    n_inputs, width, _, n_classes = sizes
    x = random(5, n_inputs, seed=1, dtype=dtype)
    cotangents = (random(5, n_classes, seed=2, dtype=dtype), random(5, width, seed=3, dtype=dtype))
    return x, cotangents, submission.run(_student_and_gradients, sizes, x, cotangents)


def _expected(reference, x, answer):
    weights = [weight.double().requires_grad_() for weight in answer["weights"]]
    biases = [bias.double().requires_grad_() for bias in answer["biases"]]
    x = x.double().requires_grad_()
    return [x, *weights, *biases], reference.student_forward(x, weights, biases)


SIZES = [((6, 5, 2, 3), torch.float32), ((4, 7, 5, 2), torch.float64)]


@pytest.mark.task("Student")
@pytest.mark.parametrize(("sizes", "dtype"), SIZES)
def test_logits_see_rectified_features(submission, reference, sizes, dtype):
    """The logits are the head of the rectified features, in the parameters' dtype; the input stays as it was."""
    x, _, answer = _ask_student(submission, sizes, dtype)
    _, (logits, _) = _expected(reference, x, answer)
    assert_matches(answer["logits"], logits.to(dtype), atol=1e-4, rtol=1e-4, what="the logits")
    assert answer["x is as it was"]


@pytest.mark.task("Student")
@pytest.mark.parametrize(("sizes", "dtype"), SIZES)
def test_student_has_its_layers(submission, sizes, dtype):
    """`hidden` and `head` hold the linear maps that were asked for, and nothing else has parameters."""
    n_inputs, width, depth, n_classes = sizes
    _, _, answer = _ask_student(submission, sizes, dtype)
    shapes = [(width, n_inputs)] + [(width, width)] * (depth - 1) + [(n_classes, width)]
    assert [tuple(weight.shape) for weight in answer["weights"]] == shapes
    assert answer["parameters"] == sum(rows * columns + rows for rows, columns in shapes)


@pytest.mark.task("Student")
@pytest.mark.pitfall("A4")
@pytest.mark.lesson("In place, and the version counter")
@pytest.mark.parametrize(("sizes", "dtype"), SIZES)
def test_features_are_not_rectified(submission, reference, sizes, dtype):
    """The features are what the last hidden map gives, negative values included."""
    x, _, answer = _ask_student(submission, sizes, dtype)
    _, (_, features) = _expected(reference, x, answer)
    assert_matches(answer["features"], features.to(dtype), atol=1e-4, rtol=1e-4, what="the features")


@pytest.mark.task("Student")
@pytest.mark.pitfall("A4")
@pytest.mark.lesson("In place, and the version counter")
@pytest.mark.parametrize(("sizes", "dtype"), SIZES)
def test_gradients_of_logits_and_features(submission, reference, sizes, dtype):
    """A loss on the logits and one on the features, together, send the right gradients to all weights and to the input."""
    x, cotangents, answer = _ask_student(submission, sizes, dtype)
    leaves, results = _expected(reference, x, answer)
    expected = torch.autograd.grad(results, leaves, [cotangent.double() for cotangent in cotangents])
    assert_matches(answer["gradients"], list(expected), atol=1e-4, rtol=1e-3, dtype=False, what="the gradients")


def _new_student(learner, sizes, x, labels):
    import torch

    torch.manual_seed(11)
    student = learner.Student(*sizes)
    weights = [layer.weight.detach().clone() for layer in [*student.hidden, student.head]]
    logits, features = student(x)
    torch.nn.functional.cross_entropy(logits, labels).backward()
    norms = torch.stack([layer.weight.grad.norm() for layer in student.hidden])
    return features.detach().std(dim=0).mean(), norms, weights


@pytest.mark.task("Student")
@pytest.mark.pitfall("A8")
@pytest.mark.lesson("Gradients through depth")
@pytest.mark.parametrize(("n_inputs", "width", "depth"), [(64, 64, 10), (40, 32, 10), (64, 32, 2)])
def test_new_students_can_be_trained(submission, n_inputs, width, depth):
    """In a new student, features differ from row to row, and gradients of like size reach all hidden layers."""
    x, labels = random(80, n_inputs, seed=12), torch.arange(80) % 7
    spread, norms, _ = submission.run(_new_student, (n_inputs, width, depth, 7), x, labels)
    if not spread >= 0.02:
        raise Finding(f"the features' standard deviation over the rows is {float(spread):.2g}, at least 0.02 is wanted")
    low, high = float(norms.min()), float(norms.max())
    if not 0 < high <= 20 * low:
        raise Finding(f"the norms of the layers' gradients go from {low:.2g} to {high:.2g}; a factor of 20 is allowed")


@pytest.mark.task("Student")
def test_no_two_units_are_alike(submission):
    """No two units of a layer start with the same weights."""
    _, _, weights = submission.run(_new_student, (8, 16, 3, 7), random(5, 8), torch.arange(5))
    for weight in weights:
        assert torch.pdist(weight).min() > 1e-6


# --- hint_loss --------------------------------------------------------------------------------------------------------


def _keep(n_units):
    return torch.arange(n_units) % 3 != 1


@pytest.mark.task("hint_loss")
@pytest.mark.parametrize(
    ("dtype", "n", "n_units"), [(torch.float32, 1, 4), (torch.float64, 7, 5), (torch.float32, 3, 1)]
)
def test_distances(submission, reference, dtype, n, n_units):
    """Distances are right for several shapes, dtypes and layouts, also for rows of zeros."""
    student, teacher = random(n, n_units, seed=21, dtype=dtype), random(n, n_units, seed=22, dtype=dtype) * 30
    student[-1] = 0
    expected = reference.hint_loss(student, teacher, _keep(n_units))
    for laid_out in layouts(student):
        assert_matches(submission.hint_loss(laid_out, teacher, _keep(n_units)), expected, atol=1.5e-3)


@pytest.mark.task("hint_loss")
@pytest.mark.parametrize("scale", [0.01, 1.0, 100.0])
def test_hint_gradients(submission, reference, scale):
    """Each row gets the gradient of its own distance; units set aside get none."""
    args = (scale * random(6, 5, seed=23), random(6, 5, seed=24), _keep(5))
    assert_gradients_match(submission.hint_loss, args, reference.hint_loss, rtol=2e-3, atol=1e-4 / scale)


def _gradients_of_both(function, student, teacher, keep):
    student.requires_grad_()
    teacher.requires_grad_()
    distances = function(student, teacher, keep)
    distances.sum().backward()
    return distances, student.grad, teacher.grad


@pytest.mark.task("hint_loss")
def test_the_teacher_gets_no_gradient(submission):
    """No gradient reaches the teacher's features, even if they ask for one."""
    _, mine, teachers = submission.hint_loss.probe(
        _gradients_of_both, random(4, 5, seed=25), random(4, 5, seed=26), _keep(5)
    )
    assert mine is not None and mine.any()
    assert teachers is None or not teachers.any()


@pytest.mark.task("hint_loss")
@pytest.mark.pitfall("A1")
@pytest.mark.lesson("Behind autograd's back")
def test_features_are_left_alone(submission):
    """Both tensors of features are the same after the call as before, in every layout."""
    teacher = random(4, 6, seed=28)
    for laid_out in layouts(random(4, 6, seed=27)):
        assert_leaves_inputs_alone(submission.hint_loss, (laid_out, teacher, _keep(6)))


def _with_a_penalty(function, x, weight, teacher, keep):
    weight.requires_grad_()
    features = x @ weight
    penalty = (features**3).sum()
    distances = function(features, teacher, keep)
    (penalty + distances.sum()).backward()
    return penalty, weight.grad


@pytest.mark.task("hint_loss")
@pytest.mark.pitfall("A1")
@pytest.mark.lesson("Behind autograd's back")
def test_another_loss_on_the_same_features(submission, reference):
    """Another loss on the same features, computed before the hint loss, keeps its gradient; both add up."""
    args = (random(5, 3, seed=29), random(3, 6, seed=30), random(5, 6, seed=31), _keep(6))
    expected = _with_a_penalty(reference.hint_loss, args[0].double(), args[1].double(), args[2].double(), args[3])
    answer = submission.hint_loss.probe(_with_a_penalty, *args)
    assert_matches(tuple(answer), tuple(e.detach() for e in expected), rtol=1e-3, atol=1e-3, dtype=False)


@pytest.mark.task("hint_loss")
@pytest.mark.pitfall("A10")
@pytest.mark.lesson("Finite value, infinite slope")
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_rows_without_a_gradient(submission, reference, dtype):
    """Rows of zeros get a finite gradient no longer than 1, rows equal to the teacher's 0; other rows are right."""
    student, teacher, keep = random(8, 6, seed=32, dtype=dtype), random(8, 6, seed=33, dtype=dtype), _keep(6)
    student[1] = 0
    student[2, keep] = 0  # nothing is left of it when units have been set aside
    teacher[3] = 0
    student[4] = teacher[4] = 0
    student[5] = teacher[5]
    student[6, keep] = teacher[6, keep]
    distances, mine, _ = submission.hint_loss.probe(_gradients_of_both, student, teacher, keep)

    leaf = student.double().requires_grad_()
    expected = reference.hint_loss(leaf, teacher.double(), keep)
    expected.sum().backward()
    assert_matches(distances, expected.detach(), atol=1.5e-3, dtype=False, what="the distances")
    for row in (1, 2, 4):
        assert mine[row].norm() <= 1.01, "the gradient of a row of zeros is too long"
    assert_matches(mine[[5, 6]], torch.zeros(2, 6), atol=1e-3, dtype=False, what="the gradient of equal rows")
    assert_matches(mine[[0, 3, 7]], leaf.grad[[0, 3, 7]], rtol=2e-3, atol=1e-4, dtype=False, what="other gradients")


@pytest.mark.task("hint_loss")
@pytest.mark.pitfall("A10")
@pytest.mark.lesson("Finite value, infinite slope")
def test_no_unit_is_kept(submission):
    """Where all units are set aside, all distances are 0, and gradients are finite."""
    args = (random(3, 4, seed=34), random(3, 4, seed=35), torch.zeros(4, dtype=torch.bool))
    distances, mine, _ = submission.hint_loss.probe(_gradients_of_both, *args)
    assert_matches(distances, torch.zeros(3), atol=1.5e-3)
    assert_matches(mine, torch.zeros(3, 4), what="the gradient")


def _train_on_padded_batches(function, batches, targets, weight, keep):
    import torch

    for x, target in zip(batches, targets):
        weight.requires_grad_()
        (gradient,) = torch.autograd.grad(function(x @ weight, target, keep).mean(), weight)
        weight = (weight - 0.5 * gradient).detach()
    return weight


@pytest.mark.task("hint_loss")
@pytest.mark.pitfall("A10")
@pytest.mark.lesson("Finite value, infinite slope")
def test_training_with_padding(submission, reference, digits):
    """Three steps on batches that are padded with rows of zeros end at the right weights."""
    images, _ = digits(seed=36, n=15)
    batches = [torch.cat([images[i : i + 5], torch.zeros(2, 64)]) for i in (0, 5, 10)]
    targets = [batch @ random(64, 6, seed=37) for batch in batches]
    weight = random(64, 6, seed=38) / 8
    after = submission.hint_loss.probe(_train_on_padded_batches, batches, targets, weight.clone(), _keep(6))
    expected = _train_on_padded_batches(
        reference.hint_loss, [b.double() for b in batches], [t.double() for t in targets], weight.double(), _keep(6)
    )
    assert_matches(after, expected, rtol=1e-3, atol=1e-3, dtype=False, what="the weights")


# --- distillation_loss ------------------------------------------------------------------------------------------------


@pytest.mark.task("distillation_loss")
@pytest.mark.parametrize(
    ("dtype", "n", "n_classes", "temperature"),
    [(torch.float32, 1, 10, 4.0), (torch.float64, 7, 3, 0.5), (torch.float32, 3, 3, 2), (torch.float64, 2, 1, 1.0)],
)
def test_divergence(submission, reference, dtype, n, n_classes, temperature):
    """The loss of each sample is right for several shapes, temperatures, dtypes and layouts."""
    student, teacher = random(n, n_classes, seed=41, dtype=dtype), 3 * random(n, n_classes, seed=42, dtype=dtype)
    expected = reference.distillation_loss(student.double(), teacher.double(), temperature).to(dtype)
    for mine, theirs in zip(layouts(student), reversed(layouts(teacher)), strict=True):
        assert_matches(submission.distillation_loss(mine, theirs, temperature), expected, rtol=1e-4, atol=1e-5)
        assert_leaves_inputs_alone(submission.distillation_loss, (mine, theirs, temperature))


def _gradients_of_the_sum(function, student, teacher, temperature):
    student.requires_grad_()
    teacher.requires_grad_()
    losses = function(student, teacher, temperature)
    losses.sum().backward()
    return losses, student.grad, teacher.grad


@pytest.mark.task("distillation_loss")
@pytest.mark.parametrize("temperature", [1.0, 5.0])
def test_large_logits(submission, reference, temperature):
    """For logits from -10,000 to 10,000 losses and gradients are finite and right."""
    student = torch.tensor([[1e4, -1e4, 0.0], [0.0, 1e4, 9_990.0], [-1e4, -1e4, -1e4]])
    teacher = torch.tensor([[-1e4, 1e4, 0.0], [1.0, 2.0, 3.0], [1e4, 9_999.0, -1e4]])
    losses, mine, _ = submission.distillation_loss.probe(_gradients_of_the_sum, student, teacher, temperature)
    leaf = student.double().requires_grad_()
    expected = reference.distillation_loss(leaf, teacher.double(), temperature)
    expected.sum().backward()
    assert_matches(losses, expected.detach(), rtol=1e-4, atol=1e-3, dtype=False)
    assert_matches(mine, leaf.grad, rtol=1e-3, atol=1e-3, dtype=False, what="the gradient")


@pytest.mark.task("distillation_loss")
def test_no_gradient_for_teacher_logits(submission):
    """No gradient reaches the teacher's logits, even if they ask for one."""
    args = (random(4, 5, seed=43), random(4, 5, seed=44), 2.0)
    _, mine, teachers = submission.distillation_loss.probe(_gradients_of_the_sum, *args)
    assert mine is not None and mine.any()
    assert teachers is None or not teachers.any()


@pytest.mark.task("distillation_loss")
@pytest.mark.pitfall("A7")
@pytest.mark.lesson("Writing a backward")
@pytest.mark.parametrize("temperature", [0.5, 1.0, 3])
def test_gradients_for_any_upstream(submission, reference, temperature):
    """Whatever is done with the losses afterwards, the gradient of the student's logits is right."""
    args = (random(5, 4, seed=45), 2 * random(5, 4, seed=46), temperature)
    assert_gradients_match(submission.distillation_loss, args, reference.distillation_loss)


@pytest.mark.task("distillation_loss")
@pytest.mark.pitfall("A7")
@pytest.mark.lesson("Gradients of gradients")
def test_second_derivatives_agree_with_finite_differences(submission):
    """First and second derivatives agree with finite differences."""
    args = (random(2, 2, seed=47, dtype=torch.float64), random(2, 2, seed=48, dtype=torch.float64), 2.0)
    assert_gradcheck(submission.distillation_loss, args, twice=True)


def _penalised(function, leaf, teacher, temperature, layout):
    import torch

    leaf.requires_grad_()
    if layout == "transposed":
        student = leaf.t()
    elif layout == "expanded":
        student = leaf[:1].expand(len(teacher), -1)
    else:
        student = leaf
    losses = function(student, teacher, temperature)
    weights = torch.linspace(0.5, 2.0, len(losses), dtype=losses.dtype)
    (gradient,) = torch.autograd.grad((weights * losses**2).sum(), student, create_graph=True)
    penalty = (gradient**2).sum()
    return penalty, torch.autograd.grad(penalty + losses.sum(), leaf)[0]


@pytest.mark.task("distillation_loss")
@pytest.mark.pitfall("A7")
@pytest.mark.lesson("Gradients of gradients")
@pytest.mark.parametrize("layout", ["contiguous", "transposed", "expanded"])
def test_penalty_on_the_gradient(submission, reference, layout):
    """A penalty on the gradient has the right value and the right gradient, however the logits lie in memory."""
    shape = (4, 6) if layout == "transposed" else (6, 4)
    leaf, teacher = random(*shape, seed=49), random(6, 4, seed=50)
    expected = _penalised(reference.distillation_loss, leaf.double(), teacher.double(), 2.0, layout)
    answer = submission.distillation_loss.probe(_penalised, leaf, teacher, 2.0, layout)
    assert_matches(tuple(answer), tuple(e.detach() for e in expected), rtol=1e-3, atol=1e-4, dtype=False)


def _train_with_a_penalty(function, x, weight, teacher):
    import torch

    for _ in range(3):
        weight.requires_grad_()
        x = x.detach().requires_grad_()
        losses = function(torch.tanh(x) @ weight, teacher, 1.5)
        (sensitivity,) = torch.autograd.grad(losses.sum(), x, create_graph=True)
        (gradient,) = torch.autograd.grad(losses.mean() + 0.1 * (sensitivity**2).sum(), weight)
        weight = (weight - 0.3 * gradient).detach()
    return weight


@pytest.mark.task("distillation_loss")
@pytest.mark.pitfall("A7")
@pytest.mark.lesson("Gradients of gradients")
def test_training_with_a_penalty(submission, reference, digits):
    """Three steps on the mean loss and a penalty on its gradient with respect to the images end at the right weights."""
    images, _ = digits(seed=51, n=7)
    weight, teacher = random(64, 10, seed=52) / 8, random(7, 10, seed=53)
    after = submission.distillation_loss.probe(_train_with_a_penalty, images, weight.clone(), teacher)
    expected = _train_with_a_penalty(reference.distillation_loss, images.double(), weight.double(), teacher.double())
    assert_matches(after, expected, rtol=1e-3, atol=1e-4, dtype=False, what="the weights")


# --- check_distillation_loss ------------------------------------------------------------------------------------------

_HERE = Path(__file__).parent
_RIGHT = [
    variant
    for variant in read_variants(_HERE / "wheats" / "distillation_loss.py")
    # right to the tolerances of our tests, but a learner's test may well be stricter about large logits
    if variant.facts.get("rounds") != "coarsely"
]
_WRONG = [
    variant
    for variant in read_variants(_HERE / "chaffs" / "distillation_loss.py")
    if variant.facts.get("silent") == "yes"
]


def _implementation(variant):
    return f"import torch.nn.functional as F\nfrom torch import nn\n{variant.source}\n\nimplementation = distillation_loss\n"


_ALL = [_implementation(variant) for variant in (*_RIGHT, *_WRONG)]


@pytest.mark.task("check_distillation_loss")
@pytest.mark.parametrize("number", range(len(_RIGHT)))
def test_own_gradient_test_accepts_what_is_right(submission, number):
    """Your test accepts losses that keep the promise, however they are written."""
    assert_accepts(submission.check_distillation_loss, _implementation(_RIGHT[number]), among=_ALL)


@pytest.mark.task("check_distillation_loss")
@pytest.mark.pitfall("A7")
@pytest.mark.lesson("A test for a gradient")
@pytest.mark.parametrize("number", range(len(_WRONG)))
def test_own_gradient_test_rejects_what_is_wrong(submission, number):
    """Your test rejects losses that break the promise: in value, in a derivative, or for certain arguments only."""
    assert_rejects(submission.check_distillation_loss, _implementation(_WRONG[number]), among=_ALL)
