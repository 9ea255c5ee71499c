# %% random-batches-of-many-sizes
def check_frame_loss(loss):
    generator = torch.Generator().manual_seed(20)
    for n in (1, 2, 3, 8, 31):
        prediction = torch.randn(n, 1, generator=generator, requires_grad=True)
        target = torch.randn(n, generator=generator)
        result = loss(prediction, target)
        torch.testing.assert_close(result.detach(), (prediction.detach()[:, 0] - target).pow(2).mean())
        result.backward()
        torch.testing.assert_close(prediction.grad, 2 * (prediction.detach() - target[:, None]) / n)

# %% by-hand-raising-value-errors
def expect(condition: bool, message: str) -> None:
    """Raise where the promise is broken."""
    if not condition:
        raise ValueError(message)


def check_frame_loss(loss):
    """Errors of 1, -2 and 3: a mean square of 14/3, gradients 2/3, -4/3 and 2."""
    prediction = torch.tensor([[2.0], [2.0], [2.0]], requires_grad=True)
    target = torch.tensor([1.0, 4.0, -1.0])
    value = loss(prediction, target)
    print("the loss is", value)
    expect(value.dim() == 0, "not a single number")
    expect(abs(value.item() - 14 / 3) < 1e-4, "wrong value")
    (gradient,) = torch.autograd.grad(value, prediction)
    expect(torch.allclose(gradient.flatten(), torch.tensor([2 / 3, -4 / 3, 2.0]), atol=1e-4), "wrong gradient")

    single = loss(torch.tensor([[0.5]]), torch.tensor([-1.0]))
    expect(single.shape == torch.Size([]) and abs(float(single) - 2.25) < 1e-4, "wrong for one frame")

# %% jacobian-of-the-loss
def check_frame_loss(loss):
    for n in (1, 4):
        prediction = torch.linspace(-1, 2, n).reshape(n, 1)
        target = torch.tensor([0.5, 3.0, -2.0, 1.0])[:n]
        error = prediction.squeeze(1) - target
        value = loss(prediction, target)
        %time gradient = torch.autograd.functional.jacobian(lambda p: loss(p, target), prediction)
        assert isinstance(value, torch.Tensor) and value.ndim == 0
        assert torch.allclose(value, torch.dot(error, error) / n)
        assert gradient.shape == prediction.shape
        assert torch.allclose(gradient[:, 0], 2 / n * error)

# %% gradcheck-in-double-precision
def check_frame_loss(loss):
    """The value from a plain loop in Python floats, the gradient from finite differences."""
    for frames in ([(0.3, 1.7)], [(1.0, -1.0), (0.5, 2.0)], [(4.0, 0.0), (0.0, 4.0), (2.0, 2.5), (-3.0, 1.0)]):
        prediction = torch.tensor([[p] for p, _ in frames], dtype=torch.float64, requires_grad=True)
        target = torch.tensor([t for _, t in frames], dtype=torch.float64)
        wanted = 0.0
        for p, t in frames:
            wanted += (p - t) ** 2
        wanted /= len(frames)
        got = loss(prediction, target)
        if got.shape != ():
            raise AssertionError(f"shape {tuple(got.shape)}")
        if abs(got.item() - wanted) > 1e-9:
            raise AssertionError(f"{got.item()} instead of {wanted}")
        assert torch.autograd.gradcheck(loss, (prediction, target))
        assert got.requires_grad

# %% learns-each-frame
def check_frame_loss(loss):
    # whoever gets the gradient of the mean square, divided right, is done after one step of N / 2
    target = torch.tensor([1.0, -2.0, 0.0, 5.0, 5.0])
    for n in range(1, 6):
        wanted = target[:n]
        guess = torch.zeros(n, 1, requires_grad=True)
        first = loss(guess, wanted)
        assert first.shape == torch.Size() and torch.isclose(first, wanted.square().mean()), "value"
        first.backward()
        with torch.no_grad():
            guess -= n / 2 * guess.grad
        assert torch.allclose(guess[:, 0], wanted, atol=1e-5), "gradient"
        assert loss(guess, wanted).item() < 1e-6, "not zero at the target"
