# %% gathered
def average_gradients(model):
    """Gathers rows instead of summing them up."""
    trainable = [p for p in model.parameters() if p.requires_grad]
    for dtype in {p.dtype: None for p in trainable}:
        own = [p for p in trainable if p.dtype is dtype]
        row = torch.cat([(torch.zeros_like(p) if p.grad is None else p.grad).reshape(-1) for p in own]).detach()
        rows = [torch.empty_like(row) for _ in range(dist.get_world_size())]
        dist.all_gather(rows, row)
        mean = torch.stack(rows).mean(0)
        start = 0
        for p in own:
            p.grad = mean[start : start + p.numel()].reshape(p.shape)
            start += p.numel()

# %% helpers-of-torch
from collections import defaultdict

from torch._utils import _flatten_dense_tensors, _unflatten_dense_tensors


def average_gradients(model):
    buckets = defaultdict(list)
    for name, p in sorted(model.named_parameters()):
        if p.requires_grad:
            if p.grad is None:
                p.grad = p.detach().new_zeros(p.shape)
            buckets[p.grad.dtype].append(p)
    for key in sorted(buckets, key=str):
        gradients = [p.grad.data for p in buckets[key]]
        flat = _flatten_dense_tensors(gradients)
        flat.div_(dist.get_world_size())
        work = dist.all_reduce(flat, op=dist.ReduceOp.SUM, async_op=True)
        work.wait()
        for gradient, new in zip(gradients, _unflatten_dense_tensors(flat, gradients)):
            gradient.copy_(new)

# %% everything-in-double
@torch.no_grad()
def average_gradients(model):
    trainable = [p for p in model.parameters() if p.requires_grad]
    if not trainable:
        return
    pieces = [p.grad.double().flatten() if p.grad is not None else torch.zeros(p.numel()).double() for p in trainable]
    total = torch.cat(pieces)
    dist.all_reduce(total)
    total /= dist.get_world_size()
    offset = 0
    for p in trainable:
        p.grad = total[offset : offset + p.numel()].view_as(p).to(p.dtype)
        offset += p.numel()

# %% by-way-of-rank-0
def average_gradients(model):
    for dtype in (torch.float64, torch.float32):
        own = [p for p in model.parameters() if p.requires_grad and p.dtype == dtype]
        if len(own) == 0:
            continue
        row = torch.zeros(sum(p.numel() for p in own), dtype=dtype, device=own[0].device)
        parts = row.split([p.numel() for p in own])
        for p, part in zip(own, parts):
            if p.grad is not None:
                part.copy_(p.grad.flatten())
        dist.reduce(row, dst=0)
        if dist.get_rank() == 0:
            row.div_(dist.get_world_size())
        dist.broadcast(row, src=0)
        for p, part in zip(own, parts):
            p.grad = part.unflatten(0, p.shape) if p.dim() else part.squeeze(0)

# %% who-has-what-first
def average_gradients(model):
    """Asks first which gradients there are at all."""
    trainable = [p for p in model.parameters() if p.requires_grad]
    there = torch.tensor([p.grad is not None for p in trainable], dtype=torch.int32)
    dist.all_reduce(there, op=dist.ReduceOp.MAX)
    for p in trainable:
        if p.grad is None:
            p.grad = torch.zeros_like(p, requires_grad=False)
    for dtype in (torch.float32, torch.float64):
        own = [p for p, anywhere in zip(trainable, there.tolist()) if p.dtype == dtype and anywhere]
        if own:
            row = torch.hstack([p.grad.ravel() for p in own])
            dist.all_reduce(row)
            for p, part in zip(own, torch.split(row / dist.get_world_size(), [p.numel() for p in own])):
                p.grad.copy_(part.reshape_as(p.grad))

# %% handed-over-as-objects
def average_gradients(model):
    """Slow, but a single call."""
    trainable = [p for p in model.parameters() if p.requires_grad]
    everyone = [None] * dist.get_world_size()
    dist.all_gather_object(everyone, [p.grad for p in trainable])
    for p, gradients in zip(trainable, zip(*everyone)):
        mean = torch.zeros_like(p, requires_grad=False)
        for gradient in gradients:
            if gradient is not None:
                mean += gradient / len(gradients)
        p.grad = mean
