# %% divide-the-gradients
def train_one_epoch(model, batches, optimiser, accumulate, max_norm):
    """Sums are collected; what they have to be divided by is known when the step is made."""
    model.train()
    parameters = [p for p in model.parameters() if p.requires_grad]
    loss_sum, n_total, n_pending = 0.0, 0, 0
    optimiser.zero_grad()
    for i, (x, y) in enumerate(batches, start=1):
        loss = F.cross_entropy(model(x), y, reduction="sum")
        loss.backward()
        loss_sum = loss_sum + loss.detach()
        n_pending += len(y)
        if i % accumulate == 0 or i == len(batches):
            for p in parameters:
                if p.grad is not None:
                    p.grad.div_(n_pending)
            nn.utils.clip_grad_norm_(parameters, max_norm)
            optimiser.step()
            optimiser.zero_grad()
            n_total, n_pending = n_total + n_pending, 0
    return float(loss_sum) / n_total

# %% groups-from-an-iterator
from itertools import islice


def _groups(batches, size):
    iterator = iter(batches)
    while group := list(islice(iterator, size)):
        yield group


def train_one_epoch(model, batches, optimiser, accumulate, max_norm):
    model.train()
    losses = []
    for group in _groups(batches, accumulate):
        optimiser.zero_grad(set_to_none=False)
        n = sum(y.shape[0] for _, y in group)
        for x, y in group:
            losses.append(F.cross_entropy(model(x), y, reduction="none"))
            losses[-1].sum().div(n).backward()
            losses[-1] = losses[-1].detach()
        torch.nn.utils.clip_grad_norm_([p for g in optimiser.param_groups for p in g["params"]], max_norm)
        optimiser.step()
    return torch.cat(losses).mean().item()

# %% gradients-by-hand
def train_one_epoch(model, batches, optimiser, accumulate, max_norm):
    trained = [p for p in model.parameters() if p.requires_grad]
    model.train()
    total, count = None, 0
    for start in range(0, len(batches), accumulate):
        group = batches[start : start + accumulate]
        sums = [torch.zeros_like(p) for p in trained]
        n = 0
        for x, y in group:
            loss = nn.functional.cross_entropy(model(x), y, reduction="sum")
            for s, g in zip(sums, torch.autograd.grad(loss, trained)):
                s += g
            n += y.numel()
            total = loss.detach() if total is None else total + loss.detach()
        count += n
        norm = torch.stack([(s / n).norm() for s in sums]).norm()
        factor = (max_norm / (norm + 1e-6)).clamp(max=1.0)
        for p, s in zip(trained, sums):
            p.grad = s / n * factor
        optimiser.step()
    optimiser.zero_grad()
    return (total / count).item()

# %% flags-for-the-last-batch
@torch.enable_grad()
def train_one_epoch(model, batches, optimiser, accumulate, max_norm):
    model.train()
    sizes = [len(labels) for _, labels in batches]
    epoch_loss = torch.zeros((), dtype=torch.float64)
    for i, (images, labels) in enumerate(batches):
        position = i % accumulate
        if position == 0:
            model.zero_grad()
        of_step = sum(sizes[i - position : i - position + accumulate])
        loss = F.cross_entropy(model(images), labels)
        loss.mul(sizes[i] / of_step).backward()
        with torch.no_grad():
            epoch_loss += loss * (sizes[i] / sum(sizes))
        if position == accumulate - 1 or i == len(batches) - 1:
            nn.utils.clip_grad_norm_(model.parameters(), max_norm, foreach=False)
            optimiser.step()
    return float(epoch_loss)

# %% criterion-and-norm-apart
def train_one_epoch(model, batches, optimiser, accumulate, max_norm):
    criterion = nn.CrossEntropyLoss(reduction="sum")
    log = []

    def step(group):
        weight = 1 / sum(len(labels) for _, labels in group)
        optimiser.zero_grad()
        for images, labels in group:
            loss = criterion(model(images), labels)
            (weight * loss).backward()
            log.append(loss.detach())
        gradients = [p.grad for p in model.parameters() if p.grad is not None]
        norm = nn.utils.get_total_norm(gradients)
        nn.utils.clip_grads_with_norm_(model.parameters(), max_norm, norm)
        optimiser.step()

    model.train(True)
    group = []
    for batch in batches:
        group.append(batch)
        if len(group) == accumulate:
            step(group)
            group = []
    if group:
        step(group)
    return torch.stack(log).sum().item() / sum(len(labels) for _, labels in batches)
