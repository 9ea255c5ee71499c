# %% against-the-composed-loss
def check_distillation_loss(loss):
    """Value, gradient and a product with the second derivative, beside the loss that torch's own functions compose."""

    def right(student, teacher, temperature):
        p = F.softmax(teacher.detach() / temperature, dim=1)
        return temperature**2 * F.kl_div(F.log_softmax(student / temperature, dim=1), p, reduction="none").sum(1)

    generator = torch.Generator().manual_seed(5)
    for n, classes, temperature in [(1, 2, 1.0), (5, 4, 3.0), (2, 7, 0.25)]:
        draw = [torch.randn(n, classes, generator=generator, dtype=torch.float64) for _ in range(3)]
        weights = torch.randn(n, generator=generator, dtype=torch.float64)
        found = []
        for function in (right, loss):
            student, teacher = draw[0].clone().requires_grad_(), draw[1].clone().requires_grad_()
            value = function(student, teacher, temperature)
            first, teachers = torch.autograd.grad(
                (weights * value).sum(), [student, teacher], create_graph=True, allow_unused=True
            )
            assert teachers is None or not teachers.any()
            (second,) = torch.autograd.grad((first * draw[2]).sum(), student)
            assert torch.equal(student, draw[0]) and torch.equal(teacher, draw[1])
            found.append((value, first, second))
        torch.testing.assert_close(found[1], found[0])

    huge = torch.tensor([[9_000.0, -9_000.0, 0.0]])
    torch.testing.assert_close(loss(huge, -huge, 1.0), torch.tensor([18_000.0]))


# %% by-hand-for-two-classes
import math


def check_distillation_loss(loss):
    # teacher 3 to 1, student 1 to 1, at temperature 2
    student = torch.zeros(2, 2, requires_grad=True)
    teacher = torch.tensor([[2 * math.log(3), 0.0], [0.0, 2 * math.log(3)]], requires_grad=True)
    value = loss(student, teacher, 2.0)
    if value.shape != (2,) or value.dtype != torch.float32:
        raise ValueError("one float32 per sample, please")
    expected = 4 * (0.75 * math.log(1.5) + 0.25 * math.log(0.5))
    if any(abs(item - expected) > 1e-5 for item in value.tolist()):
        raise ValueError(f"{value.tolist()}")
    gradient, other = torch.autograd.grad(value, [student, teacher], torch.tensor([3.0, 1.0]), create_graph=True, allow_unused=True)
    if other is not None and other.abs().max() > 0:
        raise ValueError("a gradient for the teacher")
    if not torch.allclose(gradient, torch.tensor([[-1.5, 1.5], [0.5, -0.5]]), atol=1e-5):
        raise ValueError(f"{gradient.tolist()}")
    (curvature,) = torch.autograd.grad(gradient[0, 0], student)
    if not torch.allclose(curvature, torch.tensor([[0.75, -0.75], [0.0, 0.0]]), atol=1e-5):
        raise ValueError(f"{curvature.tolist()}")

    away = torch.tensor([[5.0, 3.0, 4.0]])
    before = away.clone()
    one = loss(away, torch.tensor([[1.0, 1.0, 1.0]]), 1.0)
    log_q = before.double().log_softmax(1)
    if not torch.equal(away, before) or abs(one.item() - (-math.log(3) - log_q.mean().item())) > 1e-4:
        raise ValueError("changed or wrong")

    double = loss(torch.zeros(1, 2, dtype=torch.float64), teacher[:1].detach().double(), 2.0)
    if double.dtype != torch.float64:
        raise ValueError("float64 in, float64 out")
    far = torch.tensor([[1e4, 0.0]])
    if not math.isclose(loss(far, far.flip(1), 1.0).item(), 1e4, rel_tol=1e-3):
        raise ValueError("large logits")


# %% checks-of-autograd
def check_distillation_loss(loss):
    torch.manual_seed(8)
    for temperature in (0.7, 1, 4.0):
        student = torch.randn(3, 4, dtype=torch.double, requires_grad=True)
        teacher = torch.randn(3, 4, dtype=torch.double, requires_grad=True)
        keep = student.detach().clone(), teacher.detach().clone()
        value = loss(student, teacher, temperature)
        for i in range(3):
            p = (teacher[i] / temperature).exp() / (teacher[i] / temperature).exp().sum()
            q = (student[i] / temperature).exp() / (student[i] / temperature).exp().sum()
            wanted = temperature**2 * sum(a * torch.log(a / b) for a, b in zip(p, q))
            assert value.ndim == 1 and abs(value[i] - wanted) < 1e-9
        def of_student(x):
            return loss(x, keep[1], temperature)

        assert torch.autograd.gradcheck(of_student, [student])
        assert torch.autograd.gradgradcheck(of_student, [student])
        value.sum().backward()
        assert teacher.grad is None or torch.all(teacher.grad == 0)
        assert torch.equal(student.detach(), keep[0])
    assert torch.isfinite(loss(torch.tensor([[1e4, -1e4]]), torch.tensor([[-1e4, 1e4]]), 1.0)).all()
    large = loss(torch.tensor([[1e4, -1e4]]), torch.tensor([[-1e4, 1e4]]), 1.0)
    assert torch.allclose(large, torch.tensor([2e4]))


# %% jacobian-and-hessian
def check_distillation_loss(loss):
    teacher = torch.tensor([[0.5, -1.0, 2.0], [1.0, 1.0, 0.0]], dtype=torch.float64)
    student = torch.tensor([[1.0, 0.0, -1.0], [0.2, 0.4, 3.0]], dtype=torch.float64)
    kept = student.clone()
    for t in (1.0, 2.5):
        p, q = (teacher / t).softmax(1), (student / t).softmax(1)
        assert torch.allclose(loss(student, teacher, t), t**2 * (p * (p / q).log()).sum(1))
        %time jacobian = torch.autograd.functional.jacobian(lambda s: loss(s, teacher, t), student)
        assert torch.allclose(jacobian[0, 0], t * (q - p)[0]) and torch.allclose(jacobian[1, 1], t * (q - p)[1])
        assert not jacobian[0, 1].any() and not jacobian[1, 0].any()
        for i in range(2):
            hessian = torch.autograd.functional.hessian(lambda row: loss(row[None], teacher[i : i + 1], t).sum(), student[i])
            assert torch.allclose(hessian, torch.diag(q[i]) - torch.outer(q[i], q[i]))
        through = torch.autograd.functional.jacobian(lambda x: loss(student, x, t), teacher)
        assert not through.any()
    assert torch.equal(student, kept)
    far = 10_000 * torch.eye(2)
    assert torch.allclose(loss(far, far.flip(0), 1.0), torch.full((2,), 1e4))
