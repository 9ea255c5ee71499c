# %% a-shuffling-loader
# misconception: a loader that shuffles is all that is needed
# fails: test_each_epoch_divides_the_samples_anew, test_ranks_get_other_samples_in_each_epoch, test_ranks_share_the_samples, test_three_ranks_share_ten_samples, test_three_ranks_share_twelve_samples
# says: The number of batches of rank 0
def epoch_batches(dataset, batch_size, rank, world_size, epoch, seed):
    generator = torch.Generator().manual_seed(seed + epoch)
    return list(DataLoader(dataset, batch_size, shuffle=True, generator=generator))


# %% a-seed-for-each-rank
# misconception: ranks should shuffle independently of each other
# fails: test_each_epoch_divides_the_samples_anew, test_ranks_share_the_samples, test_three_ranks_share_ten_samples, test_three_ranks_share_twelve_samples
# says: All samples of the three ranks
def epoch_batches(dataset, batch_size, rank, world_size, epoch, seed):
    sampler = DistributedSampler(dataset, num_replicas=world_size, rank=rank, seed=1000 * seed + rank)
    sampler.set_epoch(epoch)
    return list(DataLoader(dataset, batch_size, sampler=sampler))


# %% fixed-shares
# misconception: shuffling inside of each rank's own share is shuffling
# fails: test_each_epoch_divides_the_samples_anew, test_ranks_get_other_samples_in_each_epoch
# says: different selection(s)
def epoch_batches(dataset, batch_size, rank, world_size, epoch, seed):
    n, share = len(dataset), -(-len(dataset) // world_size)
    own = torch.arange(rank, rank + share * world_size, world_size) % n
    generator = torch.Generator().manual_seed(7919 * seed + epoch)
    own = own[torch.randperm(share, generator=generator)]
    images, labels = dataset.tensors
    return [(images[part], labels[part]) for part in own.split(batch_size)]


# %% no-shuffle
# misconception: shuffle=False in the sampler, as the loader shuffles
# fails: test_an_epoch_comes_out_the_same_again, test_each_epoch_divides_the_samples_anew, test_one_rank_alone_shuffles_too, test_ranks_get_other_samples_in_each_epoch, test_three_epochs_on_one_rank
# says: The samples are in the order of the data set
def epoch_batches(dataset, batch_size, rank, world_size, epoch, seed):
    sampler = DistributedSampler(dataset, num_replicas=world_size, rank=rank, shuffle=False, seed=seed)
    sampler.set_epoch(epoch)
    return list(DataLoader(dataset, batch_size, sampler=sampler))


# %% drops-the-tail
# misconception: samples that do not divide can be left out
# fails: test_ranks_share_the_samples, test_three_ranks_share_ten_samples
# says: No sample is left out
def epoch_batches(dataset, batch_size, rank, world_size, epoch, seed):
    sampler = DistributedSampler(dataset, num_replicas=world_size, rank=rank, seed=seed, drop_last=True)
    sampler.set_epoch(epoch)
    return list(DataLoader(dataset, batch_size, sampler=sampler))


# %% drops-the-last-batch
# misconception: a short last batch is of no use
# fails: test_one_rank_alone_shuffles_too, test_ranks_share_the_samples, test_three_ranks_share_twelve_samples
# says: The number of batches of rank 0
def epoch_batches(dataset, batch_size, rank, world_size, epoch, seed):
    sampler = DistributedSampler(dataset, num_replicas=world_size, rank=rank, seed=seed)
    sampler.set_epoch(epoch)
    return list(DataLoader(dataset, batch_size, sampler=sampler, drop_last=True))


# %% ranks-of-unequal-length
# misconception: every n-th sample needs no padding
# fails: test_ranks_share_the_samples, test_three_ranks_share_ten_samples
# says: all ranks have equally many
def epoch_batches(dataset, batch_size, rank, world_size, epoch, seed):
    generator = torch.Generator().manual_seed(7919 * seed + epoch)
    own = torch.randperm(len(dataset), generator=generator)[rank::world_size]
    images, labels = dataset.tensors
    return [(images[part], labels[part]) for part in own.split(batch_size)] if len(own) else []


# %% the-global-seed
# misconception: the generator that everybody uses is in the same state on all ranks
# fails: test_an_epoch_comes_out_the_same_again, test_each_epoch_divides_the_samples_anew, test_ranks_share_the_samples, test_three_ranks_share_ten_samples, test_three_ranks_share_twelve_samples
# says: All samples of the three ranks
def epoch_batches(dataset, batch_size, rank, world_size, epoch, seed):
    order = torch.randperm(len(dataset))
    n, share = len(dataset), -(-len(dataset) // world_size)
    own = order[torch.arange(rank, rank + share * world_size, world_size) % n]
    images, labels = dataset.tensors
    return [(images[part], labels[part]) for part in own.split(batch_size)]


# %% set-epoch-too-late
# misconception: set_epoch works on batches that were drawn before
# fails: test_each_epoch_divides_the_samples_anew, test_one_rank_alone_shuffles_too, test_ranks_get_other_samples_in_each_epoch, test_three_epochs_on_one_rank
# says: Three epochs have 1 different order
def epoch_batches(dataset, batch_size, rank, world_size, epoch, seed):
    sampler = DistributedSampler(dataset, num_replicas=world_size, rank=rank, seed=seed)
    batches = list(DataLoader(dataset, batch_size, sampler=sampler))
    sampler.set_epoch(epoch)
    return batches


# %% always-padded-with-one-sample
# misconception: padding is padding, whichever sample it is
# fails: test_ranks_share_the_samples, test_three_ranks_share_ten_samples
# says: One sample comes
def epoch_batches(dataset, batch_size, rank, world_size, epoch, seed):
    generator = torch.Generator().manual_seed(7919 * seed + epoch)
    order = torch.randperm(len(dataset), generator=generator).tolist()
    while len(order) % world_size:
        order.append(order[0])
    images, labels = dataset.tensors
    own = torch.tensor(order[rank::world_size])
    return [(images[part], labels[part]) for part in own.split(batch_size)]


# %% seed-left-out
# misconception: the epoch is seed enough
# fails: test_an_epoch_comes_out_the_same_again
# says: another seed gives others
def epoch_batches(dataset, batch_size, rank, world_size, epoch, seed):
    sampler = DistributedSampler(dataset, num_replicas=world_size, rank=rank)
    sampler.set_epoch(epoch)
    return list(DataLoader(dataset, batch_size, sampler=sampler))
