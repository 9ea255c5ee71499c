# %% a-model-of-all-ranks
def check_averaging(average, rank, world_size):
    def made():
        torch.manual_seed(3)
        model = nn.ModuleList([nn.Linear(2, 3), nn.Linear(3, 1), nn.Linear(2, 2)])
        model[2].requires_grad_(False)
        for number, p in enumerate(model.parameters()):
            p.grad = torch.arange(1.0, p.numel() + 1).reshape(p.shape) + 10 * number
        return model

    model, before = made(), made()
    for number, p in enumerate(model.parameters()):
        p.grad *= (-2.0) ** rank
    model[1].weight.grad = None if rank == world_size - 1 else model[1].weight.grad
    own = [None if p.grad is None else p.grad.clone() for p in model.parameters()]
    average(model)
    factor = sum((-2.0) ** r for r in range(world_size)) / world_size
    without_last = sum((-2.0) ** r for r in range(world_size - 1)) / world_size
    for (name, p), old, mine in zip(model.named_parameters(), before.parameters(), own):
        if not torch.equal(p.detach(), old.detach()):
            raise ValueError(f"{name} changed")
        if p.requires_grad:
            wanted = old.grad * (without_last if name == "1.weight" else factor)
        else:
            wanted = mine
        torch.testing.assert_close(p.grad, wanted)

# %% against-a-plain-one
def check_averaging(average, rank, world_size):
    generator = torch.Generator().manual_seed(100 + rank)
    model = nn.Sequential(nn.Linear(4, 3), nn.Tanh(), nn.Linear(3, 2))
    with torch.no_grad():
        for p in model.parameters():
            p.fill_(0.3)
    model[0].bias.requires_grad_(False)
    model(torch.randn(5, 4, generator=generator)).pow(2).sum().backward()
    model[0].bias.grad = torch.full((3,), float(rank))
    if rank == 1:
        model[2].bias.grad = None
    expected = []
    for p in model.parameters():
        mean = torch.zeros_like(p) if p.grad is None else p.grad.clone()
        if p.requires_grad:
            dist.all_reduce(mean)
            mean /= world_size
        expected.append(mean)
    average(model)
    for p, mean in zip(model.parameters(), expected):
        assert p.grad is not None and (p.grad - mean).abs().max() < 1e-5 and (p == 0.3).all()

# %% several-small-questions
def check_averaging(average, rank, world_size):
    def run(gradients, frozen=()):
        parameters = nn.ParameterList([nn.Parameter(torch.tensor([1.0, -1.0])) for _ in gradients])
        for number, (p, g) in enumerate(zip(parameters, gradients)):
            p.requires_grad_(number not in frozen)
            p.grad = None if g is None else torch.tensor(g)
        average(parameters)
        assert all(p.tolist() == [1.0, -1.0] for p in parameters)
        return [None if p.grad is None else [round(x, 4) for x in p.grad.tolist()] for p in parameters]

    every = list(range(1, world_size + 1))
    mean = round(sum(every) / world_size, 4)
    problems = []
    if run([[-float(rank + 1), rank + 1.0], [0.0, 6.0 * (rank + 1)]]) != [[-mean, mean], [0.0, round(6 * mean, 4)]]:
        problems.append("no mean")
    if run([[6.0, 12.0] if rank == 0 else None, [1.0, 1.0]])[0] != [6 / world_size, 12 / world_size]:
        problems.append("missing gradients")
    if run([[float(rank), 1.0], [2.0, 3.0]], frozen=[0]) != [[float(rank), 1.0], [2.0, 3.0]]:
        problems.append("frozen")
    told = [None] * world_size
    dist.all_gather_object(told, problems)
    if any(told):
        raise AssertionError(told)

# %% told-by-rank-0
def check_averaging(average, rank, world_size):
    model = nn.Linear(3, 3)
    model.extra = nn.Parameter(torch.zeros(2, 2), requires_grad=False)
    model.extra.grad = torch.full((2, 2), rank + 0.5)
    model.weight.grad = torch.eye(3) * (rank * rank - 3.0)
    model.bias.grad = torch.tensor([1.0, -2.0, 4.0]) if rank == 1 else None
    values = {name: value.clone() for name, value in model.state_dict().items()}
    average(model)
    after = {name: p.grad for name, p in model.named_parameters()}
    same = all(torch.equal(value, model.state_dict()[name]) for name, value in values.items())
    found = [None] * world_size if rank == 0 else None
    dist.gather_object((after, same), found, dst=0)
    if rank == 0:
        mean = sum(r * r - 3.0 for r in range(world_size)) / world_size
        for other, (gradients, was_same) in enumerate(found):
            assert was_same, f"values on rank {other}"
            assert torch.allclose(gradients["weight"], torch.eye(3) * mean), f"weight on rank {other}"
            assert torch.allclose(gradients["bias"], torch.tensor([1.0, -2.0, 4.0]) / world_size)
            assert torch.allclose(gradients["extra"], torch.full((2, 2), other + 0.5))
