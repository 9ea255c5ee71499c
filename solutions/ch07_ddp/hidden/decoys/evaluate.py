# %% a-collective-in-a-loop
def evaluate(model, batches):
    # a collective in the loop, but all ranks go round equally often; and means, but of sums that were reduced
    network = model.module if isinstance(model, DistributedDataParallel) else model
    modes = {module: module.training for module in network.modules()}
    network.eval()
    n_rounds = torch.tensor(len(batches))
    dist.all_reduce(n_rounds, op=dist.ReduceOp.MAX)
    totals = torch.zeros(3)
    for i in range(int(n_rounds)):
        sums = torch.zeros(3)
        if i < len(batches):
            inputs, labels = batches[i]
            with torch.no_grad():
                scores = network(inputs)
            sums[0] = F.cross_entropy(scores, labels, reduction="sum")
            sums[1] = (scores.argmax(dim=1) == labels).sum()
            sums[2] = len(labels)
        dist.all_reduce(sums)
        totals += sums
    for module, training in modes.items():
        module.training = training
    return {"loss": (totals[0] / totals[2]).item(), "accuracy": (totals[1] / totals[2]).item()}
