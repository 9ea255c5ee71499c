# %% indices-by-hand
def epoch_batches(dataset, batch_size, rank, world_size, epoch, seed):
    generator = torch.Generator().manual_seed(1_000_003 * seed + epoch)
    order = torch.randperm(len(dataset), generator=generator).tolist()
    share = -(-len(order) // world_size)
    while len(order) < share * world_size:
        order += order[: share * world_size - len(order)]
    own = order[rank * share : (rank + 1) * share]  # a block of neighbours is as good as every n-th one
    batches = []
    for first in range(0, share, batch_size):
        images, labels = zip(*[dataset[i] for i in own[first : first + batch_size]], strict=True)
        batches.append((torch.stack(images), torch.stack(labels)))
    return batches


# %% whole-tensors
def epoch_batches(dataset, batch_size, rank, world_size, epoch, seed):
    images, labels = dataset.tensors
    n = len(labels)
    generator = torch.Generator().manual_seed(hash((seed, epoch)) % 2**63)
    order = torch.randperm(n, generator=generator)
    own = order[torch.arange(rank, rank + world_size * -(-n // world_size), world_size) % n]
    return [(images[part], labels[part]) for part in own.split(batch_size)]


# %% a-sampler-of-its-own
class ShareOfEpoch(torch.utils.data.Sampler):
    def __init__(self, n_samples, rank, world_size):
        self.n_samples, self.rank, self.world_size = n_samples, rank, world_size
        self.key = (0, 0)

    def __len__(self):
        return -(-self.n_samples // self.world_size)

    def __iter__(self):
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(self.key[0] * 7919 + self.key[1])
            order = torch.randperm(self.n_samples).tolist()
        for i in range(self.rank, self.world_size * len(self), self.world_size):
            yield order[i % self.n_samples]


def epoch_batches(dataset, batch_size, rank, world_size, epoch, seed):
    sampler = ShareOfEpoch(len(dataset), rank, world_size)
    sampler.key = (seed, epoch)
    return [tuple(batch) for batch in DataLoader(dataset, batch_size, sampler=sampler)]


# %% seed-for-each-epoch
def epoch_batches(dataset, batch_size, rank, world_size, epoch, seed):
    # a new sampler each time needs no set_epoch if the epoch is part of its seed
    sampler = DistributedSampler(dataset, world_size, rank, shuffle=True, seed=seed + 100_000 * epoch)
    return [batch for batch in DataLoader(dataset, sampler=sampler, batch_size=batch_size, drop_last=False)]
