# %% counts-before-the-forward-pass
def mean_loss_backward(model, images, labels):
    has_label = labels >= 0
    n = has_label.sum().double()
    dist.all_reduce(n)
    losses = F.cross_entropy(model(images), labels, reduction="none", ignore_index=-100)
    share = losses[has_label].sum() / n.item()
    (share * dist.get_world_size()).backward()
    loss = share.detach().double()
    dist.all_reduce(loss)
    return float(loss)

# %% gathered-as-objects
def mean_loss_backward(model, images, labels):
    n_own = int((labels != -100).sum())
    total = nn.CrossEntropyLoss(reduction="sum")(model(images), labels)
    everyone = [None] * dist.get_world_size()
    dist.all_gather_object(everyone, (total.item(), n_own))
    n_all = sum(n for _, n in everyone)
    total.mul(dist.get_world_size()).div(n_all).backward()
    return sum(value for value, _ in everyone) / n_all

# %% without-ddp-s-mean
def mean_loss_backward(model, images, labels):
    """Lets DDP keep quiet, and sums the gradients up itself."""
    with model.no_sync():
        total = F.cross_entropy(model(images), labels, reduction="sum")
        total.backward()
    sums = torch.tensor([total.item(), (labels != -100).sum().item()], dtype=torch.float64)
    dist.all_reduce(sums)
    for p in model.parameters():
        dist.all_reduce(p.grad)
        p.grad /= sums[1]
    return (sums[0] / sums[1]).item()

# %% gradients-divided-afterwards
def mean_loss_backward(model, images, labels):
    """DDP leaves the sum of all gradients divided by the number of ranks; the rest is arithmetic."""
    counts = torch.tensor([0.0, float((labels != -100).sum())])
    total = F.cross_entropy(model(images), labels, reduction="sum")
    counts[0] = total.detach()
    total.backward()
    dist.all_reduce(counts)
    for p in model.module.parameters():
        if p.grad is not None:
            p.grad.mul_(dist.get_world_size() / counts[1])
    return counts[0].div(counts[1]).item()

# %% weight-for-the-own-mean
def mean_loss_backward(model, images, labels):
    n = (labels != -100).sum()
    logits = model(images)
    mean = F.cross_entropy(logits, labels) if n > 0 else logits.sum() * 0
    shares = [torch.zeros_like(n) for _ in range(dist.get_world_size())]
    dist.all_gather(shares, n)
    weight = n / sum(shares)
    (mean * weight * len(shares)).backward()
    part = (mean * weight).detach().clone()
    dist.reduce(part, dst=0)
    dist.broadcast(part, src=0)
    return part.item()
