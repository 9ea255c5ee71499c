# %% from-the-library
def smoothed_loss(logits, labels, smoothing):
    """The same loss is there already."""
    return F.cross_entropy(logits.float(), labels, label_smoothing=smoothing)

# %% log-softmax-and-gather
def smoothed_loss(logits, labels, smoothing):
    log_p = logits.log_softmax(dim=-1, dtype=torch.float32)
    own = log_p.gather(1, labels.unsqueeze(1)).squeeze(1)
    return (-(1 - smoothing) * own - smoothing * log_p.mean(dim=1)).mean()

# %% largest-logit-first
def smoothed_loss(logits, labels, smoothing):
    z = logits.to(torch.float32)
    z = z - z.detach().max(dim=1, keepdim=True).values
    log_sum = torch.log(torch.exp(z).sum(dim=1))
    own = z[torch.arange(len(z), device=z.device), labels]
    return torch.mean(log_sum - (1 - smoothing) * own - smoothing * z.mean(dim=1))

# %% in-float64
def smoothed_loss(logits, labels, smoothing):
    z = logits.double()
    target = (1 - smoothing) * F.one_hot(labels, z.shape[1]).double() + smoothing / z.shape[1]
    return -(target * F.log_softmax(z, dim=1)).sum(1).mean().float()

# %% region-turned-off
def smoothed_loss(logits, labels, smoothing):
    n, c = logits.shape
    with torch.autocast(logits.device.type, enabled=False):
        z = logits.float()
        target = torch.zeros(n, c, device=z.device).scatter(1, labels[:, None], 1 - smoothing) + smoothing / c
        log_p = z - torch.logsumexp(z, 1, keepdim=True)
        return -torch.einsum("nc,nc->", target, log_p) / n

# %% sample-by-sample
def smoothed_loss(logits, labels, smoothing):
    total = torch.zeros((), device=logits.device)
    for row, label in zip(logits.float(), labels.tolist()):
        log_p = torch.log_softmax(row, 0)
        total = total - (1 - smoothing) * log_p[label] - smoothing * log_p.mean()
    return total / len(labels)
