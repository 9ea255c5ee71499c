# %% by-hand
def train_on_ranks(model, batches, accumulate, lr):
    world_size = dist.get_world_size()
    with torch.no_grad():
        for value in model.state_dict().values():
            dist.broadcast(value, src=0)
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    for first in range(0, len(batches), accumulate):
        for inputs, labels in batches[first : first + accumulate]:
            (F.cross_entropy(model(inputs), labels) / accumulate).backward()
        flat = torch.cat([parameter.grad.flatten() for parameter in trained])
        dist.all_reduce(flat)  # the sum over the ranks is their mean at n times the rate
        with torch.no_grad():
            pieces = flat.split([parameter.numel() for parameter in trained])
            for parameter, piece in zip(trained, pieces, strict=True):
                parameter -= lr * piece.view_as(parameter)
                parameter.grad = None
    with torch.no_grad():
        for name, value in model.state_dict().items():
            dist.broadcast(value, src=0)


# %% one-call-per-tensor
def train_on_ranks(model, batches, accumulate, lr):
    n = dist.get_world_size()
    state = [{name: value.detach() for name, value in model.state_dict().items()}]
    dist.broadcast_object_list(state, src=0)
    model.load_state_dict(state[0])
    optimiser = torch.optim.SGD([p for p in model.parameters() if p.requires_grad], lr=n * lr)
    model.train()
    for i, (inputs, labels) in enumerate(batches):
        if i % accumulate == 0:
            optimiser.zero_grad()
        F.cross_entropy(model(inputs), labels).backward()
        if (i + 1) % accumulate == 0:
            for parameter in model.parameters():
                if parameter.grad is not None:
                    dist.all_reduce(parameter.grad)
                    parameter.grad /= n * accumulate
            optimiser.step()
    state = [list(model.buffers())]
    dist.broadcast_object_list(state, src=0)
    for own, of_rank_0 in zip(model.buffers(), state[0], strict=True):
        own.copy_(of_rank_0)


# %% groups-of-batches
def train_on_ranks(model, batches, accumulate, lr):
    ddp = nn.parallel.DistributedDataParallel(model)
    optimiser = torch.optim.SGD(ddp.parameters(), lr=lr)
    for group in optimiser.param_groups:
        group["lr"] *= dist.get_world_size()

    def backward(batch):
        inputs, labels = batch
        F.cross_entropy(ddp(inputs), labels).div(accumulate).backward()

    for first in range(0, len(batches), accumulate):
        *quiet, last = batches[first : first + accumulate]
        optimiser.zero_grad(set_to_none=True)
        with ddp.no_sync():
            for batch in quiet:
                backward(batch)
        backward(last)
        optimiser.step()
    for buffer in model.buffers():
        dist.broadcast(buffer, src=0)


# %% one-large-batch
def train_on_ranks(model, batches, accumulate, lr):
    ddp = nn.parallel.DistributedDataParallel(model, bucket_cap_mb=1)
    optimiser = torch.optim.SGD(model.parameters(), lr=lr * dist.get_world_size())
    for first in range(0, len(batches), accumulate):
        group = batches[first : first + accumulate]
        inputs, labels = (torch.cat(parts) for parts in zip(*group, strict=True))
        optimiser.zero_grad()
        F.cross_entropy(ddp(inputs), labels).backward()
        optimiser.step()
    with torch.no_grad():
        for name, value in model.state_dict().items():
            dist.broadcast(value, src=0)
