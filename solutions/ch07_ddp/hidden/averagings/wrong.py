# %% sum
# ranks: 2, 3
def implementation(model):
    for p in model.parameters():
        if p.requires_grad:
            p.grad = torch.zeros_like(p) if p.grad is None else p.grad
            dist.all_reduce(p.grad)


# %% nothing
def implementation(model):
    pass


# %% half-of-the-sum
# ranks: 3
def implementation(model):
    for p in model.parameters():
        if p.requires_grad:
            p.grad = torch.zeros_like(p) if p.grad is None else p.grad
            dist.all_reduce(p.grad)
            p.grad /= 2


# %% divided-twice
def implementation(model):
    for p in model.parameters():
        if p.requires_grad:
            p.grad = torch.zeros_like(p) if p.grad is None else p.grad / dist.get_world_size()
            dist.all_reduce(p.grad)
            p.grad /= dist.get_world_size()


# %% that-of-rank-0
def implementation(model):
    for p in model.parameters():
        if p.requires_grad:
            p.grad = torch.zeros_like(p) if p.grad is None else p.grad
            dist.broadcast(p.grad, src=0)


# %% mean-on-rank-0-only
# ranks: 2, 3
def implementation(model):
    for p in model.parameters():
        if p.requires_grad:
            mean = torch.zeros_like(p) if p.grad is None else p.grad.clone()
            dist.all_reduce(mean)
            if dist.get_rank() == 0:
                p.grad = mean / dist.get_world_size()
            elif p.grad is None:
                p.grad = torch.zeros_like(p)


# %% first-parameter-only
def implementation(model):
    for number, p in enumerate(model.parameters()):
        if p.requires_grad:
            p.grad = torch.zeros_like(p) if p.grad is None else p.grad
            if number == 0:
                dist.all_reduce(p.grad)
                p.grad /= dist.get_world_size()


# %% first-parameter-left-out
def implementation(model):
    for number, p in enumerate(model.parameters()):
        if p.requires_grad:
            p.grad = torch.zeros_like(p) if p.grad is None else p.grad
            if number > 0:
                dist.all_reduce(p.grad)
                p.grad /= dist.get_world_size()


# %% missing-stays-missing
# ranks: 2, 3
def implementation(model):
    for p in model.parameters():
        if p.requires_grad:
            mean = torch.zeros_like(p) if p.grad is None else p.grad.clone()
            dist.all_reduce(mean)
            if p.grad is not None:
                p.grad = mean / dist.get_world_size()


# %% mean-of-those-that-have-one
# ranks: 2, 3
def implementation(model):
    for p in model.parameters():
        if p.requires_grad:
            there = torch.tensor(0.0 if p.grad is None else 1.0)
            p.grad = torch.zeros_like(p) if p.grad is None else p.grad
            dist.all_reduce(p.grad)
            dist.all_reduce(there)
            p.grad /= there.clamp(min=1)


# %% missing-on-one-missing-on-all
def implementation(model):
    for p in model.parameters():
        if p.requires_grad:
            there = torch.tensor(0.0 if p.grad is None else 1.0)
            dist.all_reduce(there)
            if there < dist.get_world_size():
                p.grad = torch.zeros_like(p)
            else:
                dist.all_reduce(p.grad)
                p.grad /= dist.get_world_size()


# %% returned-only
def implementation(model):
    means = []
    for p in model.parameters():
        if p.requires_grad:
            mean = torch.zeros_like(p) if p.grad is None else p.grad.clone()
            dist.all_reduce(mean)
            means.append(mean / dist.get_world_size())
    return means


# %% frozen-too
def implementation(model):
    for p in model.parameters():
        p.grad = torch.zeros_like(p) if p.grad is None else p.grad
        dist.all_reduce(p.grad)
        p.grad /= dist.get_world_size()


# %% values-too
def implementation(model):
    for p in model.parameters():
        if p.requires_grad:
            p.grad = torch.zeros_like(p) if p.grad is None else p.grad
            dist.all_reduce(p.grad)
            p.grad /= dist.get_world_size()
            with torch.no_grad():
                p -= 0.1 * p.grad


# %% absolute-values
def implementation(model):
    for p in model.parameters():
        if p.requires_grad:
            p.grad = torch.zeros_like(p) if p.grad is None else p.grad.abs()
            dist.all_reduce(p.grad)
            p.grad /= dist.get_world_size()


# %% largest
def implementation(model):
    for p in model.parameters():
        if p.requires_grad:
            p.grad = torch.zeros_like(p) if p.grad is None else p.grad
            dist.all_reduce(p.grad, op=dist.ReduceOp.MAX)


# %% from-rank-to-rank
def implementation(model):
    for p in model.parameters():
        if p.requires_grad:
            mean = torch.zeros_like(p) if p.grad is None else p.grad.clone()
            dist.all_reduce(mean)
            p.grad = mean / (dist.get_rank() + 1)
