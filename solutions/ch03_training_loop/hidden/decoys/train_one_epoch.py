# %% cleared-between-backward-and-step
def train_one_epoch(model, batches, optimiser, accumulate, max_norm):
    model.train()
    parameters = list(model.parameters())
    optimiser.zero_grad()
    log, n_seen = [], 0
    for first in range(0, len(batches), accumulate):
        group = batches[first : first + accumulate]
        n = sum(len(labels) for _, labels in group)
        for images, labels in group:
            loss = F.cross_entropy(model(images), labels)
            (loss * len(labels) / n).backward()
            log.append(loss.detach() * len(labels))
        gradients = [parameter.grad for parameter in parameters]
        optimiser.zero_grad()  # lets go of them only: they are put back
        for parameter, gradient in zip(parameters, gradients, strict=True):
            parameter.grad = gradient
        nn.utils.clip_grad_norm_(parameters, max_norm)
        optimiser.step()
        optimiser.zero_grad()
        n_seen += n
    return torch.stack(log).sum().item() / n_seen


# %% two-clippings-and-a-mean-of-means
def train_one_epoch(model, batches, optimiser, accumulate, max_norm):
    model.train()
    means, sizes = [], []
    for first in range(0, len(batches), accumulate):
        group = batches[first : first + accumulate]
        optimiser.zero_grad()
        optimiser.zero_grad()
        n = sum(len(labels) for _, labels in group)
        for images, labels in group:
            loss = F.cross_entropy(model(images), labels)
            share = len(labels) / n * loss
            share.backward()
            means.append(loss.detach())
            sizes.append(len(labels))
        # a gradient that has been clipped is not clipped again
        nn.utils.clip_grad_norm_(model.parameters(), max_norm)
        nn.utils.clip_grad_norm_(model.parameters(), 2 * max_norm)
        optimiser.step()
    # a mean of means, each weighed by its size
    weights = torch.tensor(sizes, device=means[0].device) / sum(sizes)
    return (torch.stack(means) * weights).sum().item()
