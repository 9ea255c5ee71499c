# %% gathered-objects
def evaluate(model, batches):
    inner = model.module if type(model) is DistributedDataParallel else model
    modes = [(module, module.training) for module in model.modules()]
    inner.eval()
    own = []
    with torch.inference_mode():
        for inputs, labels in batches:
            scores = inner(inputs)
            losses = F.cross_entropy(scores, labels, reduction="none").tolist()
            own += list(zip(losses, (scores.argmax(1) == labels).tolist(), strict=True))
    for module, mode in modes:
        module.training = mode
    everything = [None] * dist.get_world_size()
    dist.all_gather_object(everything, own)
    samples = [sample for of_rank in everything for sample in of_rank]
    return {
        "loss": sum(loss for loss, _ in samples) / len(samples),
        "accuracy": sum(right for _, right in samples) / len(samples),
    }


# %% weighed-means
@torch.no_grad()
def evaluate(model, batches):
    if isinstance(model, DistributedDataParallel):
        model = model.module
    modes = {name: module.training for name, module in model.named_modules()}
    try:
        model.eval()
        n = sum(len(labels) for _, labels in batches)
        n_total = torch.tensor(float(n))
        dist.all_reduce(n_total)
        means = torch.zeros(2)
        for inputs, labels in batches:
            scores = model(inputs)
            share = len(labels) / n_total
            means[0] += F.cross_entropy(scores, labels) * share
            means[1] += (scores.argmax(-1) == labels).float().mean() * share
        dist.all_reduce(means)
    finally:
        for name, module in model.named_modules():
            module.training = modes[name]
    return {"loss": float(means[0]), "accuracy": float(means[1])}


# %% a-copy
import copy


def evaluate(model, batches):
    network = model.module if isinstance(model, DistributedDataParallel) else model
    network = copy.deepcopy(network).eval()
    totals = torch.zeros(3)
    with torch.no_grad():
        for inputs, labels in batches:
            scores = network(inputs)
            totals += torch.stack(
                [
                    F.cross_entropy(scores, labels, reduction="sum"),
                    (scores.argmax(1) == labels).sum().float(),
                    torch.tensor(float(len(labels))),
                ]
            )
    gathered = [torch.zeros(3) for _ in range(dist.get_world_size())]
    dist.all_gather(gathered, totals)
    loss, right, n = torch.stack(gathered).sum(0).tolist()
    return {"accuracy": right / n, "loss": loss / n}


# %% rank-0-divides
def evaluate(model, batches):
    network = model.module if isinstance(model, nn.parallel.DistributedDataParallel) else model
    modes = [(module, module.training) for module in network.modules()]
    network.eval()
    sums = torch.zeros(3, dtype=torch.float64)
    with torch.no_grad():
        for inputs, labels in batches:
            scores = network(inputs)
            sums[0] += F.cross_entropy(scores, labels).item() * len(labels)
            sums[1] += (scores.argmax(1) == labels).sum()
            sums[2] += len(labels)
    for module, mode in modes:
        module.training = mode
    dist.reduce(sums, dst=0)
    answer = [{"loss": (sums[0] / sums[2]).item(), "accuracy": (sums[1] / sums[2]).item()}]
    if dist.get_rank() > 0:
        answer = [None]
    dist.broadcast_object_list(answer, src=0)
    return answer[0]
