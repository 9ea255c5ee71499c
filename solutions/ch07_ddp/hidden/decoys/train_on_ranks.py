# %% the-flag-itself
def train_on_ranks(model, batches, accumulate, lr):
    # no no_sync in sight, and a loss that is not divided; the rate makes up for it
    dist.barrier()
    ddp = DistributedDataParallel(model, gradient_as_bucket_view=True)
    optimiser = torch.optim.SGD(model.parameters(), lr=lr * dist.get_world_size() / accumulate)
    for i, (inputs, labels) in enumerate(batches, start=1):
        ddp.require_backward_grad_sync = i % accumulate == 0
        F.cross_entropy(ddp(inputs), labels).backward()
        if i % accumulate == 0:
            optimiser.step()
            optimiser.zero_grad(set_to_none=False)
    for buffer in model.buffers():
        dist.broadcast(buffer, src=0)
