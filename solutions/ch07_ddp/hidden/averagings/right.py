# %% one-by-one
# ranks: 2, 3
def implementation(model):
    for p in model.parameters():
        if p.requires_grad:
            # other ranks may have it in another order in memory
            p.grad = torch.zeros_like(p) if p.grad is None else p.grad.contiguous()
            dist.all_reduce(p.grad)
            p.grad /= dist.get_world_size()


# %% in-one-row
# ranks: 2, 3
def implementation(model):
    trainable = [p for p in model.parameters() if p.requires_grad]
    row = torch.cat([(torch.zeros_like(p) if p.grad is None else p.grad).flatten() for p in trainable])
    dist.all_reduce(row.div_(dist.get_world_size()))
    for p, part in zip(trainable, row.split([p.numel() for p in trainable])):
        p.grad = part.view_as(p)  # a view of the row
    return row


# %% gathered-in-double
# ranks: 2, 3
def implementation(model):
    for p in model.parameters():
        if p.requires_grad:
            own = torch.zeros(p.shape, dtype=torch.float64) if p.grad is None else p.grad.double()
            of_ranks = [torch.empty_like(own) for _ in range(dist.get_world_size())]
            dist.all_gather(of_ranks, own.contiguous())
            p.grad = torch.stack(of_ranks).mean(0).to(p.dtype)


# %% by-way-of-rank-0
def implementation(model):
    for p in reversed(list(model.parameters())):
        if p.requires_grad:
            mean = torch.zeros_like(p) if p.grad is None else p.grad.detach().clone(memory_format=torch.contiguous_format)
            dist.reduce(mean, dst=0)
            if dist.get_rank() == 0:
                mean /= dist.get_world_size()
            dist.broadcast(mean, src=0)
            p.grad = mean


# %% as-objects
def implementation(model):
    own = {
        name: p.grad.tolist() if p.grad is not None else None for name, p in model.named_parameters() if p.requires_grad
    }
    of_ranks = [None] * dist.get_world_size()
    dist.all_gather_object(of_ranks, own)
    for name, p in model.named_parameters():
        if p.requires_grad:
            there = [torch.tensor(found[name]) for found in of_ranks if found[name] is not None]
            p.grad = sum(there, torch.zeros_like(p).detach()) / len(of_ranks)


# %% frozen-ones-copied
# ranks: 3
def implementation(model):
    for p in model.parameters():
        if not p.requires_grad:
            p.grad = None if p.grad is None else p.grad.clone()  # equal, and another tensor
            continue
        mean = torch.zeros_like(p) if p.grad is None else p.grad.contiguous() / dist.get_world_size()
        dist.all_reduce(mean)
        p.grad = mean
