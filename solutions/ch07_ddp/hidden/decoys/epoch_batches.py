# %% subset-of-a-share
def epoch_batches(dataset, batch_size, rank, world_size, epoch, seed):
    # looks like a loader that does not shuffle and a sampler without set_epoch: the order is all in the subset
    sampler = DistributedSampler(range(len(dataset)), num_replicas=world_size, rank=rank, shuffle=True, seed=seed)
    sampler.epoch = epoch
    share = torch.utils.data.Subset(dataset, list(sampler))
    return list(DataLoader(share, batch_size, shuffle=False))
