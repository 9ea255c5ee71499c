# %% values-only
# misconception: where the value is right, autograd takes care of the rest
# fails: test_own_gradient_test_rejects_what_is_wrong, test_rejects_a_gradient_that_is_a_constant, test_rejects_the_original_divergence
# says: in a derivative
def check_distillation_loss(loss):
    generator = torch.Generator().manual_seed(0)
    student = torch.randn(3, 4, generator=generator, dtype=torch.float64, requires_grad=True)
    teacher = torch.randn(3, 4, generator=generator, dtype=torch.float64)

    for temperature in (1.0, 2.0):
        p, q = (teacher / temperature).softmax(1), (student / temperature).softmax(1)
        assert torch.allclose(loss(student, teacher, temperature), temperature**2 * (p * (p / q).log()).sum(1))
    far = torch.tensor([[1e4, -1e4]])
    assert torch.allclose(loss(far, -far, 1.0), torch.tensor([2e4]))


# %% sum-as-the-loss
# misconception: the sum over the batch is a loss like any other
# fails: test_own_gradient_test_rejects_what_is_wrong, test_rejects_a_gradient_that_is_a_constant, test_rejects_the_original_divergence
# says: The loss as section 3 had it
def check_distillation_loss(loss):
    generator = torch.Generator().manual_seed(0)
    student = torch.randn(3, 4, generator=generator, dtype=torch.float64, requires_grad=True)
    teacher = torch.randn(3, 4, generator=generator, dtype=torch.float64)

    for temperature in (1.0, 2.0):
        p, q = (teacher / temperature).softmax(1), (student / temperature).softmax(1)
        assert torch.allclose(loss(student, teacher, temperature), temperature**2 * (p * (p / q).log()).sum(1))
    far = torch.tensor([[1e4, -1e4]])
    assert torch.allclose(loss(far, -far, 1.0), torch.tensor([2e4]))
    (gradient,) = torch.autograd.grad(loss(student, teacher, 2.0).sum(), student)
    assert torch.allclose(gradient, 2 * ((student / 2).softmax(1) - (teacher / 2).softmax(1)))
    teacher.requires_grad_()
    loss(student, teacher, 2.0).sum().backward()
    assert teacher.grad is None or not teacher.grad.any()


# %% first-derivatives-only
# misconception: a gradient that passes gradcheck can be differentiated
# fails: test_own_gradient_test_rejects_what_is_wrong, test_rejects_a_gradient_that_is_a_constant
# says: cannot be differentiated again
def check_distillation_loss(loss):
    generator = torch.Generator().manual_seed(0)
    student = torch.randn(3, 4, generator=generator, dtype=torch.float64, requires_grad=True)
    teacher = torch.randn(3, 4, generator=generator, dtype=torch.float64)

    for temperature in (1.0, 2.0):
        p, q = (teacher / temperature).softmax(1), (student / temperature).softmax(1)
        assert torch.allclose(loss(student, teacher, temperature), temperature**2 * (p * (p / q).log()).sum(1))
    far = torch.tensor([[1e4, -1e4]])
    assert torch.allclose(loss(far, -far, 1.0), torch.tensor([2e4]))
    assert torch.autograd.gradcheck(lambda s: loss(s, teacher, 2.0), student)

    teacher.requires_grad_()
    loss(student, teacher, 2.0).sum().backward()
    assert teacher.grad is None or not teacher.grad.any()


# %% checks-of-autograd-only
# misconception: a loss that is consistent with its derivatives is the right one
# fails: test_own_gradient_test_rejects_what_is_wrong, test_rejects_a_loss_without_its_factor, test_rejects_another_divergence
# says: measures the divergence the other way round
def check_distillation_loss(loss):
    generator = torch.Generator().manual_seed(0)
    student = torch.randn(3, 4, generator=generator, dtype=torch.float64, requires_grad=True)
    teacher = torch.randn(3, 4, generator=generator, dtype=torch.float64)

    for temperature in (1.0, 2.0):
        assert torch.autograd.gradcheck(lambda s: loss(s, teacher, temperature), student)
        assert torch.autograd.gradgradcheck(lambda s: loss(s, teacher, temperature), student)


# %% temperature-one
# misconception: what holds at temperature 1 holds at any
# fails: test_own_gradient_test_rejects_what_is_wrong, test_rejects_a_loss_without_its_factor
# says: right at temperature 1 only
def check_distillation_loss(loss):
    generator = torch.Generator().manual_seed(0)
    student = torch.randn(3, 4, generator=generator, dtype=torch.float64, requires_grad=True)
    teacher = torch.randn(3, 4, generator=generator, dtype=torch.float64)

    for temperature in (1.0,):
        p, q = (teacher / temperature).softmax(1), (student / temperature).softmax(1)
        assert torch.allclose(loss(student, teacher, temperature), temperature**2 * (p * (p / q).log()).sum(1))
    far = torch.tensor([[1e4, -1e4]])
    assert torch.allclose(loss(far, -far, 1.0), torch.tensor([2e4]))
    assert torch.autograd.gradcheck(lambda s: loss(s, teacher, 1.0), student)
    assert torch.autograd.gradgradcheck(lambda s: loss(s, teacher, 1.0), student)
    teacher.requires_grad_()
    loss(student, teacher, 2.0).sum().backward()
    assert teacher.grad is None or not teacher.grad.any()


# %% never-a-large-logit
# misconception: logits are of order one
# fails: test_own_gradient_test_rejects_what_is_wrong
# says: for certain arguments only
def check_distillation_loss(loss):
    generator = torch.Generator().manual_seed(0)
    student = torch.randn(3, 4, generator=generator, dtype=torch.float64, requires_grad=True)
    teacher = torch.randn(3, 4, generator=generator, dtype=torch.float64)

    for temperature in (1.0, 2.0):
        p, q = (teacher / temperature).softmax(1), (student / temperature).softmax(1)
        assert torch.allclose(loss(student, teacher, temperature), temperature**2 * (p * (p / q).log()).sum(1))
    before = student.detach().clone()
    assert torch.autograd.gradcheck(lambda s: loss(s, teacher, 2.0), student)
    assert torch.autograd.gradgradcheck(lambda s: loss(s, teacher, 2.0), student)
    assert torch.equal(student, before)
    teacher.requires_grad_()
    loss(student, teacher, 2.0).sum().backward()
    assert teacher.grad is None or not teacher.grad.any()


# %% teacher-forgotten
# misconception: what is handed in without a gradient gets none in training either
# fails: test_own_gradient_test_rejects_what_is_wrong
# says: in a derivative
def check_distillation_loss(loss):
    generator = torch.Generator().manual_seed(0)
    student = torch.randn(3, 4, generator=generator, dtype=torch.float64, requires_grad=True)
    teacher = torch.randn(3, 4, generator=generator, dtype=torch.float64)

    for temperature in (1.0, 2.0):
        p, q = (teacher / temperature).softmax(1), (student / temperature).softmax(1)
        assert torch.allclose(loss(student, teacher, temperature), temperature**2 * (p * (p / q).log()).sum(1))
    far = torch.tensor([[1e4, -1e4]])
    assert torch.allclose(loss(far, -far, 1.0), torch.tensor([2e4]))
    before = student.detach().clone()
    assert torch.autograd.gradcheck(lambda s: loss(s, teacher, 2.0), student)
    assert torch.autograd.gradgradcheck(lambda s: loss(s, teacher, 2.0), student)
    assert torch.equal(student, before)


# %% one-sample
# misconception: what holds for one sample holds for a batch
# fails: test_own_gradient_test_rejects_what_is_wrong, test_rejects_a_gradient_that_is_a_constant, test_rejects_the_original_divergence
# says: The loss as section 3 had it
def check_distillation_loss(loss):
    student = torch.tensor([[1.0, 0.0, 2.0]], dtype=torch.float64, requires_grad=True)
    teacher = torch.tensor([[0.0, -1.0, 0.5]], dtype=torch.float64)

    for temperature in (1.0, 2.0):
        p, q = (teacher / temperature).softmax(1), (student / temperature).softmax(1)
        assert torch.allclose(loss(student, teacher, temperature), temperature**2 * (p * (p / q).log()).sum(1))
    far = torch.tensor([[1e4, -1e4]])
    assert torch.allclose(loss(far, -far, 1.0), torch.tensor([2e4]))
    (gradient,) = torch.autograd.grad(loss(student, teacher, 2.0).sum(), student)
    assert torch.allclose(gradient, 2 * ((student / 2).softmax(1) - (teacher / 2).softmax(1)))


# %% student-that-agrees
# misconception: equal logits are a good test, since the answer is known
# fails: test_own_gradient_test_accepts_what_is_right, test_own_gradient_test_rejects_what_is_wrong, test_rejects_a_gradient_that_is_a_constant, test_rejects_a_loss_without_its_factor, test_rejects_another_divergence, test_rejects_the_original_divergence
# says: other way round
def check_distillation_loss(loss):
    logits = torch.randn(4, 3, generator=torch.Generator().manual_seed(0), requires_grad=True)
    value = loss(logits, logits.detach(), 3.0)
    assert value.shape == (4,) and torch.allclose(value, torch.zeros(4), atol=1e-6)
    value.sum().backward()
    assert torch.allclose(logits.grad, torch.zeros(4, 3), atol=1e-6)


# %% goes-down
# misconception: a loss that training brings down is right
# fails: test_own_gradient_test_rejects_what_is_wrong, test_rejects_a_gradient_that_is_a_constant, test_rejects_a_loss_without_its_factor, test_rejects_another_divergence, test_rejects_the_original_divergence
# says: other way round
def check_distillation_loss(loss):
    generator = torch.Generator().manual_seed(0)
    student = torch.randn(3, 4, generator=generator, dtype=torch.float64, requires_grad=True)
    teacher = torch.randn(3, 4, generator=generator, dtype=torch.float64)

    before = loss(student, teacher, 2.0).sum()
    (gradient,) = torch.autograd.grad(before, student)
    assert loss((student - 0.1 * gradient).detach(), teacher, 2.0).sum() < before


# %% answer-returned
# misconception: a test says what it found by returning True or False
# fails: test_own_gradient_test_rejects_what_is_wrong, test_rejects_a_gradient_that_is_a_constant, test_rejects_a_loss_without_its_factor, test_rejects_another_divergence, test_rejects_the_original_divergence
# says: other way round
def check_distillation_loss(loss):
    generator = torch.Generator().manual_seed(0)
    student = torch.randn(3, 4, generator=generator, dtype=torch.float64, requires_grad=True)
    teacher = torch.randn(3, 4, generator=generator, dtype=torch.float64)

    p, q = (teacher / 2).softmax(1), (student / 2).softmax(1)
    return bool(torch.allclose(loss(student, teacher, 2.0), 4 * (p * (p / q).log()).sum(1)))


# %% batch-mean-expected
# misconception: a loss is one number
# fails: test_accepts_a_loop_over_samples, test_own_gradient_test_accepts_what_is_right, test_own_gradient_test_rejects_what_is_wrong
# says: should accept this implementation
def check_distillation_loss(loss):
    generator = torch.Generator().manual_seed(0)
    student = torch.randn(3, 4, generator=generator, dtype=torch.float64, requires_grad=True)
    teacher = torch.randn(3, 4, generator=generator, dtype=torch.float64)

    value = loss(student, teacher, 2.0)
    assert value.shape == ()


# %% torch-divergence-as-it-stands
# misconception: kl_div divides by the batch and knows the temperature
# fails: test_accepts_a_loop_over_samples, test_own_gradient_test_accepts_what_is_right, test_own_gradient_test_rejects_what_is_wrong, test_rejects_a_loss_without_its_factor
# says: should accept this implementation
def check_distillation_loss(loss):
    generator = torch.Generator().manual_seed(0)
    student = torch.randn(3, 4, generator=generator, dtype=torch.float64, requires_grad=True)
    teacher = torch.randn(3, 4, generator=generator, dtype=torch.float64)

    expected = F.kl_div((student / 2).log_softmax(1), (teacher / 2).softmax(1), reduction="batchmean")
    assert torch.allclose(loss(student, teacher, 2.0).mean(), expected)


# %% single-precision-finite-differences
# misconception: finite differences work in the precision of training
# fails: test_accepts_a_loop_over_samples, test_own_gradient_test_accepts_what_is_right
# says: should accept this implementation
def check_distillation_loss(loss):
    generator = torch.Generator().manual_seed(0)
    student = torch.randn(3, 4, generator=generator, dtype=torch.float64, requires_grad=True)
    teacher = torch.randn(3, 4, generator=generator, dtype=torch.float64)

    for temperature in (1.0, 2.0):
        p, q = (teacher / temperature).softmax(1), (student / temperature).softmax(1)
        assert torch.allclose(loss(student, teacher, temperature), temperature**2 * (p * (p / q).log()).sum(1))
    far = torch.tensor([[1e4, -1e4]])
    assert torch.allclose(loss(far, -far, 1.0), torch.tensor([2e4]))
    s, t = student.detach().float().requires_grad_(), teacher.float()
    assert torch.autograd.gradcheck(lambda x: loss(x, t, 2.0), s)
