# %% one-frame-only
# misconception: what holds for one frame holds for many
# fails: test_own_test_rejects_what_is_wrong, test_rejects_the_original_loss
# says: The loss as section 7 had it at first is rejected
def check_frame_loss(loss):
    prediction = torch.tensor([[2.0]], requires_grad=True)
    result = loss(prediction, torch.tensor([-1.0]))
    assert result.shape == ()
    assert torch.isclose(result, torch.tensor(9.0))
    result.backward()
    assert torch.allclose(prediction.grad, torch.tensor([[6.0]]))


# %% all-frames-alike
# misconception: several frames are enough, they need not differ
# fails: test_own_test_rejects_what_is_wrong, test_rejects_a_loss_that_is_wrong_for_one_frame, test_rejects_the_original_loss
# says: The loss as section 7 had it at first is rejected
def check_frame_loss(loss):
    prediction = torch.full((4, 1), 3.0, requires_grad=True)
    result = loss(prediction, torch.ones(4))
    assert result.shape == ()
    assert torch.isclose(result, torch.tensor(4.0))
    result.backward()
    assert torch.allclose(prediction.grad, torch.full((4, 1), 1.0))


# %% shape-only
# misconception: a loss without dimensions is a loss
# fails: test_own_test_rejects_what_is_wrong, test_rejects_a_loss_that_is_wrong_for_one_frame, test_rejects_a_loss_with_half_the_gradient, test_rejects_half_a_loss, test_rejects_the_original_loss
# says: A loss that is half of what it should be is rejected
def check_frame_loss(loss):
    for n in (1, 2, 7):
        assert loss(torch.randn(n, 1), torch.randn(n)).shape == ()


# %% value-without-gradient
# misconception: where the value is right, autograd takes care of the gradient
# fails: test_own_test_rejects_what_is_wrong, test_rejects_a_loss_with_half_the_gradient
# says: in value, in gradient, or for certain inputs only
def check_frame_loss(loss):
    for values, wanted in (([0.0, 1.0, 3.0], [1.0, 1.0, 5.0]), ([2.0], [-1.0])):
        prediction, target = torch.tensor(values), torch.tensor(wanted)
        result = loss(prediction[:, None], target)
        assert result.shape == ()
        assert torch.isclose(result, ((prediction - target) ** 2).mean())


# %% some-gradient
# misconception: a gradient that arrives is a gradient that is right
# fails: test_own_test_rejects_what_is_wrong, test_rejects_a_loss_with_half_the_gradient
# says: in value, in gradient, or for certain inputs only
def check_frame_loss(loss):
    for values, wanted in (([0.0, 1.0, 3.0], [1.0, 1.0, 5.0]), ([2.0], [-1.0])):
        prediction, target = torch.tensor(values)[:, None].requires_grad_(), torch.tensor(wanted)
        result = loss(prediction, target)
        assert torch.isclose(result, ((torch.tensor(values) - target) ** 2).mean())
        result.backward()
        assert prediction.grad.abs().sum() > 0


# %% never-a-single-frame
# misconception: a batch of one is like any other batch
# fails: test_own_test_rejects_what_is_wrong, test_rejects_a_loss_that_is_wrong_for_one_frame
# says: or for certain inputs only
def check_frame_loss(loss):
    prediction, target = torch.tensor([[0.0], [1.0], [3.0]], requires_grad=True), torch.tensor([1.0, 1.0, 5.0])
    result = loss(prediction, target)
    assert torch.isclose(result, torch.tensor(5 / 3))
    result.backward()
    assert torch.allclose(prediction.grad, torch.tensor([[-2 / 3], [0.0], [-4 / 3]]))


# %% generous-tolerance
# misconception: losses are noisy anyway, so the comparison need not be close
# fails: test_own_test_rejects_what_is_wrong, test_rejects_a_loss_that_is_wrong_for_one_frame, test_rejects_a_loss_with_half_the_gradient, test_rejects_half_a_loss, test_rejects_the_original_loss
# says: A loss that is half of what it should be is rejected
def check_frame_loss(loss):
    prediction, target = torch.tensor([[0.0], [1.0], [3.0]], requires_grad=True), torch.tensor([1.0, 1.0, 5.0])
    result = loss(prediction, target)
    assert result.shape == ()
    assert torch.isclose(result, torch.tensor(5 / 3), atol=5.0)
    result.backward()
    assert torch.allclose(prediction.grad, torch.tensor([[-2 / 3], [0.0], [-4 / 3]]), atol=5.0)


# %% goes-down
# misconception: a loss that training brings down is right
# fails: test_own_test_rejects_what_is_wrong, test_rejects_a_loss_that_is_wrong_for_one_frame, test_rejects_a_loss_with_half_the_gradient, test_rejects_half_a_loss, test_rejects_the_original_loss
# says: accepts an implementation that is wrong
def check_frame_loss(loss):
    guess = torch.zeros(4, 1, requires_grad=True)
    target = torch.tensor([1.0, 2.0, 3.0, 6.0])
    before = loss(guess, target)
    before.sum().backward()
    with torch.no_grad():
        guess -= 0.05 * guess.grad
    assert loss(guess, target).sum() < before.sum()


# %% zero-at-the-target
# misconception: a loss that is zero for perfect predictions and positive elsewhere is right
# fails: test_own_test_rejects_what_is_wrong, test_rejects_a_loss_that_is_wrong_for_one_frame, test_rejects_a_loss_with_half_the_gradient, test_rejects_half_a_loss
# says: A loss that is half of what it should be is rejected
def check_frame_loss(loss):
    target = torch.tensor([1.0, 2.0, 4.0])
    assert loss(target[:, None], target).item() == 0
    assert loss(target[:, None] + 1, target).item() > 0


# %% answer-returned
# misconception: a test says what it found by returning True or False
# fails: test_own_test_rejects_what_is_wrong, test_rejects_a_loss_that_is_wrong_for_one_frame, test_rejects_a_loss_with_half_the_gradient, test_rejects_half_a_loss, test_rejects_the_original_loss
# says: accepts an implementation that is wrong
def check_frame_loss(loss):
    prediction, target = torch.tensor([[0.0], [1.0], [3.0]]), torch.tensor([1.0, 1.0, 5.0])
    return bool(torch.isclose(loss(prediction, target), torch.tensor(5 / 3)).all())


# %% exception-swallowed
# misconception: a test should catch errors, so that the run goes on
# fails: test_own_test_rejects_what_is_wrong, test_rejects_a_loss_that_is_wrong_for_one_frame, test_rejects_a_loss_with_half_the_gradient, test_rejects_half_a_loss, test_rejects_the_original_loss
# says: accepts an implementation that is wrong
def check_frame_loss(loss):
    prediction, target = torch.tensor([[0.0], [1.0], [3.0]]), torch.tensor([1.0, 1.0, 5.0])
    try:
        assert torch.isclose(loss(prediction, target), torch.tensor(5 / 3))
    except Exception as error:
        print("the loss is wrong:", error)


# %% rejects-everything
# misconception: predictions of shape (N,) are the same as (N, 1) to a loss, so what raises for them is wrong
# fails: test_accepts_a_plain_loop, test_own_test_accepts_what_is_right
# says: should accept this implementation, but it raised IndexError
def check_frame_loss(loss):
    target = torch.tensor([1.0, 2.0, 4.0])
    result = loss(target + 1, target)
    assert result.shape == torch.Size([1])


# %% wrong-sum-by-hand
# misconception: the mean of squares is halved, so that its gradient is the error
# fails: test_accepts_a_plain_loop, test_own_test_accepts_what_is_right, test_rejects_half_a_loss
# says: should accept this implementation, but it raised AssertionError
def check_frame_loss(loss):
    prediction, target = torch.tensor([[0.0], [1.0], [3.0]], requires_grad=True), torch.tensor([1.0, 1.0, 5.0])
    result = loss(prediction, target)
    assert result.shape == ()
    assert torch.isclose(result, torch.tensor(5 / 6))
    result.backward()
    assert torch.allclose(prediction.grad, torch.tensor([[-1 / 3], [0.0], [-2 / 3]]))


# %% gradient-of-the-target-forbidden
# misconception: a right loss never lets a gradient into the target
# fails: test_accepts_a_plain_loop, test_own_test_accepts_what_is_right
# says: should accept this implementation, but it raised AssertionError
def check_frame_loss(loss):
    prediction = torch.tensor([[0.0], [1.0], [3.0]], requires_grad=True)
    target = torch.tensor([1.0, 1.0, 5.0], requires_grad=True)
    result = loss(prediction, target)
    assert torch.isclose(result, torch.tensor(5 / 3))
    result.backward()
    assert target.grad is None
