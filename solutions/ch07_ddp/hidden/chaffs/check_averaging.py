# %% agreement
# misconception: ranks that agree are right
# fails: test_own_test_rejects_wrong_averagings, test_rejects_a_sum, test_rejects_gaps_that_stay, test_rejects_the_gradients_of_one_rank, test_rejects_what_changes_values, test_rejects_what_touches_frozen_parameters
# says: `check_averaging` accepts an implementation that only sums
def check_averaging(average, rank, world_size):
    model = nn.Linear(3, 2)
    for p in model.parameters():
        p.grad = torch.full_like(p, rank + 1.0)
    average(model)
    for p in model.parameters():
        others = [torch.empty_like(p) for _ in range(world_size)]
        dist.all_gather(others, p.grad.contiguous())
        assert all(torch.equal(p.grad, other) for other in others)


# %% no-exception
# misconception: what runs is right
# fails: test_own_test_rejects_wrong_averagings, test_rejects_a_sum, test_rejects_an_averaging_that_does_nothing, test_rejects_gaps_that_stay, test_rejects_the_gradients_of_one_rank, test_rejects_what_changes_values, test_rejects_what_touches_frozen_parameters
# says: `check_averaging` accepts an implementation that only sums
def check_averaging(average, rank, world_size):
    model = nn.Linear(3, 2)
    model(torch.ones(4, 3)).sum().backward()
    average(model)
    assert all(p.grad is not None for p in model.parameters())


# %% same-on-all-ranks
# misconception: any gradients will do
# fails: test_own_test_rejects_wrong_averagings, test_rejects_an_averaging_that_does_nothing, test_rejects_gaps_that_stay, test_rejects_the_gradients_of_one_rank, test_rejects_what_touches_frozen_parameters
# says: Your test rejects what is no mean
def check_averaging(average, rank, world_size):
    model = nn.Sequential(nn.Linear(3, 2), nn.Linear(2, 1))
    frozen = model[1].bias.requires_grad_(False)
    parameters = list(model.parameters())
    generator = torch.Generator().manual_seed(0)
    gradients = [[torch.randn(p.shape, generator=generator) for p in parameters] for _ in range(world_size)]
    gradients = [gradients[0]] * world_size
    for p, gradient in zip(parameters, gradients[rank]):
        p.grad = None if gradient is None else gradient.clone()
    values = [p.detach().clone() for p in parameters]
    average(model)
    for number, p in enumerate(parameters):
        of_ranks = [torch.zeros_like(p) if of_rank[number] is None else of_rank[number] for of_rank in gradients]
        expected = gradients[rank][number] if p is frozen else sum(of_ranks) / world_size
        assert p.grad is not None
        assert torch.allclose(p.grad, expected, atol=1e-6)
        assert torch.equal(p, values[number])


# %% nothing-missing
# misconception: every parameter has a gradient on every rank
# fails: test_own_test_rejects_wrong_averagings, test_rejects_gaps_that_stay
# says: Your test rejects what is no mean
def check_averaging(average, rank, world_size):
    model = nn.Sequential(nn.Linear(3, 2), nn.Linear(2, 1))
    frozen = model[1].bias.requires_grad_(False)
    parameters = list(model.parameters())
    generator = torch.Generator().manual_seed(0)
    gradients = [[torch.randn(p.shape, generator=generator) for p in parameters] for _ in range(world_size)]
    for p, gradient in zip(parameters, gradients[rank]):
        p.grad = None if gradient is None else gradient.clone()
    values = [p.detach().clone() for p in parameters]
    average(model)
    for number, p in enumerate(parameters):
        of_ranks = [torch.zeros_like(p) if of_rank[number] is None else of_rank[number] for of_rank in gradients]
        expected = gradients[rank][number] if p is frozen else sum(of_ranks) / world_size
        assert p.grad is not None
        assert torch.allclose(p.grad, expected, atol=1e-6)
        assert torch.equal(p, values[number])


# %% nothing-frozen
# misconception: a frozen parameter is nobody's business
# fails: test_own_test_rejects_wrong_averagings, test_rejects_what_touches_frozen_parameters
# says: Your test rejects what is no mean
def check_averaging(average, rank, world_size):
    model = nn.Sequential(nn.Linear(3, 2), nn.Linear(2, 1))
    frozen = model[1].bias.requires_grad_(False)
    parameters = list(model.parameters())
    generator = torch.Generator().manual_seed(0)
    gradients = [[torch.randn(p.shape, generator=generator) for p in parameters] for _ in range(world_size)]
    gradients[0][1] = None
    for p, gradient in zip(parameters, gradients[rank]):
        p.grad = None if gradient is None else gradient.clone()
    values = [p.detach().clone() for p in parameters]
    average(model)
    for number, p in enumerate(parameters):
        of_ranks = [torch.zeros_like(p) if of_rank[number] is None else of_rank[number] for of_rank in gradients]
        expected = p.grad if p is frozen else sum(of_ranks) / world_size
        assert p.grad is not None
        assert torch.allclose(p.grad, expected, atol=1e-6)
        assert torch.equal(p, values[number])


# %% values-not-looked-at
# misconception: gradients are all that can change
# fails: test_own_test_rejects_wrong_averagings, test_rejects_what_changes_values
# says: Your test rejects what is no mean
def check_averaging(average, rank, world_size):
    model = nn.Sequential(nn.Linear(3, 2), nn.Linear(2, 1))
    frozen = model[1].bias.requires_grad_(False)
    parameters = list(model.parameters())
    generator = torch.Generator().manual_seed(0)
    gradients = [[torch.randn(p.shape, generator=generator) for p in parameters] for _ in range(world_size)]
    gradients[0][1] = None
    for p, gradient in zip(parameters, gradients[rank]):
        p.grad = None if gradient is None else gradient.clone()
    values = [p.detach().clone() for p in parameters]
    average(model)
    for number, p in enumerate(parameters):
        of_ranks = [torch.zeros_like(p) if of_rank[number] is None else of_rank[number] for of_rank in gradients]
        expected = gradients[rank][number] if p is frozen else sum(of_ranks) / world_size
        assert p.grad is not None
        assert torch.allclose(p.grad, expected, atol=1e-6)


# %% one-parameter
# misconception: one parameter stands for all
# fails: test_own_test_rejects_wrong_averagings, test_rejects_gaps_that_stay, test_rejects_what_touches_frozen_parameters
# says: Your test rejects what is no mean
def check_averaging(average, rank, world_size):
    model = nn.Sequential(nn.Linear(3, 2), nn.Linear(2, 1))
    frozen = model[1].bias.requires_grad_(False)
    parameters = list(model.parameters())
    generator = torch.Generator().manual_seed(0)
    gradients = [[torch.randn(p.shape, generator=generator) for p in parameters] for _ in range(world_size)]
    gradients[0][1] = None
    for p, gradient in zip(parameters, gradients[rank]):
        p.grad = None if gradient is None else gradient.clone()
    values = [p.detach().clone() for p in parameters]
    average(model)
    for number, p in list(enumerate(parameters))[:1]:
        of_ranks = [torch.zeros_like(p) if of_rank[number] is None else of_rank[number] for of_rank in gradients]
        expected = gradients[rank][number] if p is frozen else sum(of_ranks) / world_size
        assert p.grad is not None
        assert torch.allclose(p.grad, expected, atol=1e-6)
        assert torch.equal(p, values[number])


# %% only-on-rank-0
# misconception: rank 0 does the testing
# fails: test_own_test_rejects_wrong_averagings
# says: Your test rejects what is no mean
def check_averaging(average, rank, world_size):
    model = nn.Sequential(nn.Linear(3, 2), nn.Linear(2, 1))
    frozen = model[1].bias.requires_grad_(False)
    parameters = list(model.parameters())
    generator = torch.Generator().manual_seed(0)
    gradients = [[torch.randn(p.shape, generator=generator) for p in parameters] for _ in range(world_size)]
    gradients[0][1] = None
    for p, gradient in zip(parameters, gradients[rank]):
        p.grad = None if gradient is None else gradient.clone()
    values = [p.detach().clone() for p in parameters]
    average(model)
    if rank > 0:
        return
    for number, p in enumerate(parameters):
        of_ranks = [torch.zeros_like(p) if of_rank[number] is None else of_rank[number] for of_rank in gradients]
        expected = gradients[rank][number] if p is frozen else sum(of_ranks) / world_size
        assert p.grad is not None
        assert torch.allclose(p.grad, expected, atol=1e-6)
        assert torch.equal(p, values[number])


# %% ones
# misconception: a gradient of ones is a gradient
# fails: test_own_test_rejects_wrong_averagings, test_rejects_what_touches_frozen_parameters
# says: Your test rejects what is no mean
def check_averaging(average, rank, world_size):
    model = nn.Sequential(nn.Linear(3, 2), nn.Linear(2, 1))
    frozen = model[1].bias.requires_grad_(False)
    parameters = list(model.parameters())
    generator = torch.Generator().manual_seed(0)
    gradients = [[torch.ones(p.shape) for p in parameters] for _ in range(world_size)]
    gradients[0][1] = None
    for p, gradient in zip(parameters, gradients[rank]):
        p.grad = None if gradient is None else gradient.clone()
    values = [p.detach().clone() for p in parameters]
    average(model)
    for number, p in enumerate(parameters):
        of_ranks = [torch.zeros_like(p) if of_rank[number] is None else of_rank[number] for of_rank in gradients]
        expected = gradients[rank][number] if p is frozen else sum(of_ranks) / world_size
        assert p.grad is not None
        assert torch.allclose(p.grad, expected, atol=1e-6)
        assert torch.equal(p, values[number])


# %% half-of-the-sum
# misconception: the mean is half of the sum
# fails: test_accepts_rounding_errors, test_own_test_accepts_right_averagings, test_own_test_rejects_wrong_averagings
# says: Your test rejects what is no mean
def check_averaging(average, rank, world_size):
    model = nn.Sequential(nn.Linear(3, 2), nn.Linear(2, 1))
    frozen = model[1].bias.requires_grad_(False)
    parameters = list(model.parameters())
    generator = torch.Generator().manual_seed(0)
    gradients = [[torch.randn(p.shape, generator=generator) for p in parameters] for _ in range(world_size)]
    gradients[0][1] = None
    for p, gradient in zip(parameters, gradients[rank]):
        p.grad = None if gradient is None else gradient.clone()
    values = [p.detach().clone() for p in parameters]
    average(model)
    for number, p in enumerate(parameters):
        of_ranks = [torch.zeros_like(p) if of_rank[number] is None else of_rank[number] for of_rank in gradients]
        expected = gradients[rank][number] if p is frozen else sum(of_ranks) / 2
        assert p.grad is not None
        assert torch.allclose(p.grad, expected, atol=1e-6)
        assert torch.equal(p, values[number])


# %% same-tensor
# misconception: what is in place stays in place
# fails: test_accepts_gradients_that_are_new_tensors, test_accepts_rounding_errors, test_own_test_accepts_right_averagings, test_own_test_rejects_wrong_averagings
# says: On every rank, your test accepts
def check_averaging(average, rank, world_size):
    model = nn.Sequential(nn.Linear(3, 2), nn.Linear(2, 1))
    frozen = model[1].bias.requires_grad_(False)
    parameters = list(model.parameters())
    generator = torch.Generator().manual_seed(0)
    gradients = [[torch.randn(p.shape, generator=generator) for p in parameters] for _ in range(world_size)]
    gradients[0][1] = None
    for p, gradient in zip(parameters, gradients[rank]):
        p.grad = None if gradient is None else gradient.clone()
    values = [p.detach().clone() for p in parameters]
    if rank == 0:
        parameters[1].grad = torch.zeros_like(parameters[1])
    kept = [p.grad for p in parameters]
    average(model)
    for number, p in enumerate(parameters):
        of_ranks = [torch.zeros_like(p) if of_rank[number] is None else of_rank[number] for of_rank in gradients]
        expected = gradients[rank][number] if p is frozen else sum(of_ranks) / world_size
        assert p.grad is kept[number]
        assert torch.allclose(p.grad, expected, atol=1e-6)
        assert torch.equal(p, values[number])


# %% nothing-returned
# misconception: a function that works in place returns nothing
# fails: test_own_test_accepts_right_averagings
# says: On every rank, your test accepts
def check_averaging(average, rank, world_size):
    model = nn.Sequential(nn.Linear(3, 2), nn.Linear(2, 1))
    frozen = model[1].bias.requires_grad_(False)
    parameters = list(model.parameters())
    generator = torch.Generator().manual_seed(0)
    gradients = [[torch.randn(p.shape, generator=generator) for p in parameters] for _ in range(world_size)]
    gradients[0][1] = None
    for p, gradient in zip(parameters, gradients[rank]):
        p.grad = None if gradient is None else gradient.clone()
    values = [p.detach().clone() for p in parameters]
    assert average(model) is None
    for number, p in enumerate(parameters):
        of_ranks = [torch.zeros_like(p) if of_rank[number] is None else of_rank[number] for of_rank in gradients]
        expected = gradients[rank][number] if p is frozen else sum(of_ranks) / world_size
        assert p.grad is not None
        assert torch.allclose(p.grad, expected, atol=1e-6)
        assert torch.equal(p, values[number])


# %% answer-returned
# misconception: a test says what it found by returning True or False
# fails: test_own_test_rejects_wrong_averagings, test_rejects_a_sum, test_rejects_an_averaging_that_does_nothing, test_rejects_gaps_that_stay, test_rejects_the_gradients_of_one_rank, test_rejects_what_touches_frozen_parameters
# says: `check_averaging` accepts an implementation that only sums
def check_averaging(average, rank, world_size):
    model = nn.Sequential(nn.Linear(3, 2), nn.Linear(2, 1))
    frozen = model[1].bias.requires_grad_(False)
    parameters = list(model.parameters())
    generator = torch.Generator().manual_seed(0)
    gradients = [[torch.randn(p.shape, generator=generator) for p in parameters] for _ in range(world_size)]
    gradients[0][1] = None
    for p, gradient in zip(parameters, gradients[rank]):
        p.grad = None if gradient is None else gradient.clone()
    values = [p.detach().clone() for p in parameters]
    average(model)
    for number, p in enumerate(parameters):
        of_ranks = [torch.zeros_like(p) if of_rank[number] is None else of_rank[number] for of_rank in gradients]
        expected = gradients[rank][number] if p is frozen else sum(of_ranks) / world_size
        if p.grad is None:
            return False
        if not torch.allclose(p.grad, expected, atol=1e-6):
            return False
        assert torch.equal(p, values[number])


# %% printed
# misconception: a test that prints has told
# fails: test_own_test_rejects_wrong_averagings, test_rejects_a_sum, test_rejects_an_averaging_that_does_nothing, test_rejects_gaps_that_stay, test_rejects_the_gradients_of_one_rank, test_rejects_what_changes_values, test_rejects_what_touches_frozen_parameters
# says: `check_averaging` accepts an implementation that only sums
def check_averaging(average, rank, world_size):
    model = nn.Linear(3, 2)
    for p in model.parameters():
        p.grad = torch.full_like(p, rank + 1.0)
    average(model)
    for p in model.parameters():
        if not torch.allclose(p.grad, torch.full_like(p, (world_size + 1) / 2)):
            print("wrong")


# %% rejects-all
# misconception: a strict test is a good test
# fails: test_accepts_a_plain_averaging, test_accepts_gradients_that_are_new_tensors, test_accepts_rounding_errors, test_own_test_accepts_right_averagings
# says: `check_averaging` should accept this implementation
def check_averaging(average, rank, world_size):
    model = nn.Sequential(nn.Linear(3, 2), nn.Linear(2, 1))
    frozen = model[1].bias.requires_grad_(False)
    parameters = list(model.parameters())
    generator = torch.Generator().manual_seed(0)
    gradients = [[torch.randn(p.shape, generator=generator) for p in parameters] for _ in range(world_size)]
    gradients[0][1] = None
    for p, gradient in zip(parameters, gradients[rank]):
        p.grad = None if gradient is None else gradient.clone()
    values = [p.detach().clone() for p in parameters]
    average(model)
    raise AssertionError
    for number, p in enumerate(parameters):
        of_ranks = [torch.zeros_like(p) if of_rank[number] is None else of_rank[number] for of_rank in gradients]
        expected = gradients[rank][number] if p is frozen else sum(of_ranks) / world_size
        assert p.grad is not None
        assert torch.allclose(p.grad, expected, atol=1e-6)
        assert torch.equal(p, values[number])


# %% length-of-the-gradient
# misconception: two gradients of the same length are the same
# fails: test_own_test_rejects_wrong_averagings, test_rejects_the_gradients_of_one_rank, test_rejects_what_touches_frozen_parameters
# says: Your test rejects what is no mean
def check_averaging(average, rank, world_size):
    model = nn.Sequential(nn.Linear(3, 2), nn.Linear(2, 1))
    frozen = model[1].bias.requires_grad_(False)
    parameters = list(model.parameters())
    generator = torch.Generator().manual_seed(0)
    gradients = [[torch.randn(p.shape, generator=generator) for p in parameters] for _ in range(world_size)]
    gradients[0][1] = None
    for p, gradient in zip(parameters, gradients[rank]):
        p.grad = None if gradient is None else gradient.clone()
    values = [p.detach().clone() for p in parameters]
    average(model)
    for number, p in enumerate(parameters):
        of_ranks = [torch.zeros_like(p) if of_rank[number] is None else of_rank[number] for of_rank in gradients]
        expected = gradients[rank][number] if p is frozen else sum(of_ranks) / world_size
        assert p.grad is not None
        assert p.grad.norm() <= max(of_rank.norm() for of_rank in of_ranks) + 1e-6
        assert torch.equal(p, values[number])


# %% nothing-that-is-frozen
# misconception: a plain layer has all that there is to average
# fails: test_own_test_rejects_wrong_averagings, test_rejects_what_touches_frozen_parameters
# says: accepts an implementation that averages frozen ones
def check_averaging(average, rank, world_size):
    model = nn.Linear(3, 2)
    values = [p.detach().clone() for p in model.parameters()]
    generator = torch.Generator().manual_seed(0)
    weights = [torch.randn(2, 3, generator=generator) for _ in range(world_size)]
    biases = [torch.zeros(2), *(torch.randn(2, generator=generator) for _ in range(world_size - 1))]
    model.weight.grad = weights[rank].clone()
    model.bias.grad = biases[rank].clone() if rank > 0 else None
    average(model)
    for p, of_ranks, value in zip(model.parameters(), (weights, biases), values):
        assert p.grad is not None
        assert torch.allclose(p.grad, sum(of_ranks) / world_size, atol=1e-6)
        assert torch.equal(p, value)


# %% to-the-last-bit
# misconception: the mean is one number, whichever way it is worked out; and what is left alone is the same tensor
# fails: test_accepts_rounding_errors, test_own_test_accepts_right_averagings
# says: accepted on three ranks
def check_averaging(average, rank, world_size):
    model = nn.Sequential(nn.Linear(3, 2), nn.Linear(2, 1))
    frozen = model[1].bias.requires_grad_(False)
    parameters = list(model.parameters())
    generator = torch.Generator().manual_seed(0)
    gradients = [[torch.randn(p.shape, generator=generator) for p in parameters] for _ in range(world_size)]
    gradients[0][1] = None
    for p, gradient in zip(parameters, gradients[rank]):
        p.grad = None if gradient is None else gradient.clone()
    values = [p.detach().clone() for p in parameters]
    kept = frozen.grad
    average(model)
    for number, p in enumerate(parameters):
        of_ranks = [torch.zeros_like(p) if of_rank[number] is None else of_rank[number] for of_rank in gradients]
        expected = gradients[rank][number] if p is frozen else sum(of_ranks) / world_size
        assert p.grad is not None
        assert torch.equal(p.grad, expected)
        assert torch.equal(p, values[number])
    assert frozen.grad is kept
