# %% compares-with-the-notebook
def check_frame_loss(loss):
    # the loss of section 7, once repaired, is as good a witness as any
    for n in (1, 3):
        target = torch.arange(1.0, n + 1)
        mine = torch.full((n, 1), 0.5, requires_grad=True)
        theirs = torch.full((n, 1), 0.5, requires_grad=True)
        right, tried = frame_loss(mine, target), loss(theirs, target)
        assert tried.shape == right.shape and torch.isclose(tried, right)
        right.backward()
        tried.backward()
        assert torch.allclose(mine.grad, theirs.grad)


# %% broken-by-an-error-of-its-own
def check_frame_loss(loss):
    prediction = torch.tensor([[1.0], [4.0]], requires_grad=True)
    value = loss(prediction, torch.tensor([3.0, 3.5]))
    # a loss that is wrong need not fail politely: indexing or dividing may raise, and that says no as well
    {2.125: "right"}[round(value.item(), 4)]
    value.backward()
    1 / (prediction.grad.flatten().tolist() == [-2.0, 0.5])
    {(): "right"}[tuple(value.shape)]
    {4.0: "right"}[round(loss(torch.tensor([[1.0]]), torch.tensor([3.0])).item(), 4)]


# %% uninitialised-then-filled
def check_frame_loss(loss):
    prediction = torch.empty(3, 1).copy_(torch.tensor([[1.0], [2.0], [4.0]])).contiguous().requires_grad_()
    target = torch.zeros(1).expand(3) + torch.tensor([0.0, 4.0, 4.0])
    loss(prediction, target).backward()
    gradient = prediction.grad.view(3)  # a new column is contiguous, so the view is legal
    assert torch.allclose(gradient, torch.tensor([2 / 3, -4 / 3, 0.0]))
    assert torch.allclose(loss(prediction, target), torch.tensor(5 / 3))
    assert loss(torch.ones(1, 1), torch.tensor([4.0])).item() == 9
