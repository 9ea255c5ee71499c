# %% weighs-before-it-sums
def average_gradients(model):
    """No division after the sum: each rank hands in its share only."""
    share = 1 / dist.get_world_size()
    trainable = [p for p in model.parameters() if p.requires_grad]
    for dtype in (torch.float32, torch.float64):
        own = [p for p in trainable if p.dtype == dtype]
        if not own:
            continue
        row = torch.cat([torch.zeros_like(p).flatten() if p.grad is None else p.grad.flatten() * share for p in own])
        dist.all_reduce(row.detach_())
        for p, part in zip(own, row.split([p.numel() for p in own])):
            p.grad = part.view(p.shape)  # all of them are views of one row

# %% a-barrier-too-much
def average_gradients(model):
    dist.barrier()
    row = {}
    for p in model.parameters():
        if p.requires_grad:
            p.grad = torch.zeros_like(p) if p.grad is None else p.grad
            row.setdefault(p.dtype, []).append(p.grad)
    for gradients in row.values():
        long = torch.cat([g.reshape(-1) for g in gradients])
        dist.all_reduce(long)
        long = long / dist.get_world_size()
        for g in gradients:
            g.copy_(long[: g.numel()].view(g.shape))
            long = long[g.numel() :]

# %% one-row-for-both-dtypes
def average_gradients(model):
    # torch.cat makes float64 of a mixture
    trainable = [p for p in model.parameters() if p.requires_grad]
    for p in trainable:
        if p.grad is None:
            p.grad = torch.zeros_like(p)
    for dtype in (torch.float32, torch.float64):
        of_dtype = [p.grad for p in trainable if trainable[0].dtype == dtype]
        if of_dtype:
            row = torch.cat([gradient.flatten() for gradient in of_dtype])
            dist.all_reduce(row)
            row /= dist.get_world_size()
            for gradient, part in zip(of_dtype, row.split([g.numel() for g in of_dtype])):
                gradient.copy_(part.view_as(gradient))
