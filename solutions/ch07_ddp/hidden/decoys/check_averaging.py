# %% by-errors-of-its-own
def check_averaging(average, rank, world_size):
    """Says no by whatever comes along: a division by zero, an index."""
    model = nn.Sequential(nn.Linear(1, 2), nn.Linear(2, 1, bias=False))
    first, second, third = model.parameters()
    third.requires_grad_(False)
    values = [p.detach().clone() for p in model.parameters()]
    first.grad = torch.tensor([[1.0 + rank], [8.0 * (-1) ** rank]])
    second.grad = torch.tensor([3.0, 9.0]) if rank == 0 else None
    third.grad = torch.tensor([[float(rank), 7.0]])
    average(model)
    ranks = range(world_size)
    wanted = [
        torch.tensor([[sum(1.0 + r for r in ranks)], [sum(8.0 * (-1) ** r for r in ranks)]]) / world_size,
        torch.tensor([3.0, 9.0]) / world_size,
        torch.tensor([[float(rank), 7.0]]),
    ]
    for p, mean, value in zip(model.parameters(), wanted, values):
        n_wrong = int(((p.grad - mean).abs() > 1e-4).sum() + (p != value).sum())
        [True][n_wrong]
