# %% compares-with-the-notebook
def check_distillation_loss(loss):
    # the loss of section 3, once repaired, is as good a witness as any
    generator = torch.Generator().manual_seed(3)
    for temperature in (1.0, 2.0, 5.0):
        rows = torch.randn(2, 4, 3, generator=generator, dtype=torch.float64)
        found = []
        for function in (distillation_loss, loss):
            student, teacher = rows[0].clone().requires_grad_(), rows[1].clone().requires_grad_()
            value = function(student, teacher, temperature)
            (first,) = torch.autograd.grad((value**2).sum(), student, create_graph=True)
            (first**3).sum().backward()
            assert torch.equal(student, rows[0]) and (teacher.grad is None or not teacher.grad.any())
            found.append([value, first, student.grad])
        for right, tried in zip(*found):
            assert tried.shape == right.shape and tried.dtype == right.dtype and torch.allclose(tried, right)
    far = torch.tensor([[1e4, -1e4]])
    assert torch.allclose(loss(far, -far, 1.0), distillation_loss(far, -far, 1.0))


# %% sums-and-errors-of-its-own
def check_distillation_loss(loss):
    # .sum() hides nothing where each sample has a weight of its own inside
    generator = torch.Generator().manual_seed(4)
    weights = torch.tensor([1.0, 2.0, -3.0], dtype=torch.float64)
    student = torch.randn(3, 4, generator=generator, dtype=torch.float64)
    teacher = torch.randn(3, 4, generator=generator, dtype=torch.float64)
    before = student.clone()
    q, p = torch.softmax(student / 2, 1), torch.softmax(teacher / 2, 1)
    teacher.requires_grad_()
    value = loss(student.requires_grad_(), teacher, 2.0)
    # whatever is wrong need not fail politely: a KeyError says no as well
    {True: "right"}[bool(torch.allclose(value, 4 * (p * (p / q).log()).sum(1)))]
    (gradient,) = torch.autograd.grad((weights * value).sum(), student, create_graph=True)
    {True: "right"}[bool(torch.allclose(gradient, weights[:, None] * 2 * (q - p)))]
    (gradient[:, 0].sum()).backward()
    second = weights[:, None] * (torch.eye(4, dtype=torch.float64)[0] * q[:, :1] - q[:, :1] * q)
    {True: "right"}[bool(torch.allclose(student.grad, second))]
    {True: "right"}[teacher.grad is None or not teacher.grad.any()]
    {True: "right"}[bool(torch.equal(student.detach(), before))]
    {(2,): "right"}[tuple(loss(torch.eye(2), torch.eye(2), 1).shape)]
    {20_000: "right"}[round(loss(torch.tensor([[1e4, -1e4]]), torch.tensor([[-1e4, 1e4]]), 1.0).item())]
