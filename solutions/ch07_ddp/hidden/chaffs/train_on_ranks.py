# %% never-talks
# misconception: a process group is enough for ranks to train together
# fails: test_as_one_process_would, test_both_ranks_end_with_the_statistics_of_rank_0, test_four_batches_one_exchange, test_rank_1_starts_from_the_model_of_rank_0, test_statistics_are_those_of_rank_0_on_all, test_steps_of_many_batches_talk_no_more, test_the_rate_grows_with_the_ranks, test_two_ranks_twice_the_rate
# says: The weights on rank 1
def train_on_ranks(model, batches, accumulate, lr):
    optimiser = torch.optim.SGD(model.parameters(), lr=lr * dist.get_world_size())
    for i, (inputs, labels) in enumerate(batches, start=1):
        (F.cross_entropy(model(inputs), labels) / accumulate).backward()
        if i % accumulate == 0:
            optimiser.step()
            optimiser.zero_grad()


# %% trains-the-inner-model
# misconception: once it is wrapped, the model itself can be called
# fails: test_as_one_process_would, test_both_ranks_end_with_the_statistics_of_rank_0, test_four_batches_one_exchange, test_rank_1_starts_from_the_model_of_rank_0, test_statistics_are_those_of_rank_0_on_all, test_steps_of_many_batches_talk_no_more, test_the_rate_grows_with_the_ranks, test_two_ranks_twice_the_rate
# says: The weights on rank 1
def train_on_ranks(model, batches, accumulate, lr):
    wrapped = DistributedDataParallel(model)
    optimiser = torch.optim.SGD(model.parameters(), lr=lr * dist.get_world_size())
    for i, (inputs, labels) in enumerate(batches, start=1):
        with contextlib.nullcontext() if i % accumulate == 0 else wrapped.no_sync():
            (F.cross_entropy(model(inputs), labels) / accumulate).backward()
        if i % accumulate == 0:
            optimiser.step()
            optimiser.zero_grad()


# %% talks-for-every-batch
# misconception: DDP knows by itself when a step is due
# fails: test_four_batches_one_exchange, test_steps_of_many_batches_talk_no_more
# says: A step of 4 batches took
def train_on_ranks(model, batches, accumulate, lr):
    wrapped = DistributedDataParallel(model)
    optimiser = torch.optim.SGD(model.parameters(), lr=lr * dist.get_world_size())
    for i, (inputs, labels) in enumerate(batches, start=1):
        (F.cross_entropy(wrapped(inputs), labels) / accumulate).backward()
        if i % accumulate == 0:
            optimiser.step()
            optimiser.zero_grad()
    for buffer in model.buffers():
        dist.broadcast(buffer, src=0)


# %% always-quiet
# misconception: no_sync around everything saves the most
# fails: test_as_one_process_would, test_four_batches_one_exchange, test_rank_1_starts_from_the_model_of_rank_0, test_steps_of_many_batches_talk_no_more, test_the_rate_grows_with_the_ranks, test_two_ranks_twice_the_rate
# says: The weights on rank 1
def train_on_ranks(model, batches, accumulate, lr):
    wrapped = DistributedDataParallel(model)
    optimiser = torch.optim.SGD(model.parameters(), lr=lr * dist.get_world_size())
    with wrapped.no_sync():
        for i, (inputs, labels) in enumerate(batches, start=1):
            (F.cross_entropy(wrapped(inputs), labels) / accumulate).backward()
            if i % accumulate == 0:
                optimiser.step()
                optimiser.zero_grad()
    for buffer in model.buffers():
        dist.broadcast(buffer, src=0)


# %% quiet-on-the-wrong-batch
# misconception: the first batch of a step is the one that talks
# fails: test_as_one_process_would, test_four_batches_one_exchange, test_steps_of_many_batches_talk_no_more, test_the_rate_grows_with_the_ranks
# says: Three steps of five batches
def train_on_ranks(model, batches, accumulate, lr):
    wrapped = DistributedDataParallel(model)
    optimiser = torch.optim.SGD(model.parameters(), lr=lr * dist.get_world_size())
    for i, (inputs, labels) in enumerate(batches):
        with contextlib.nullcontext() if i % accumulate == 0 else wrapped.no_sync():
            (F.cross_entropy(wrapped(inputs), labels) / accumulate).backward()
        if (i + 1) % accumulate == 0:
            optimiser.step()
            optimiser.zero_grad()
    for buffer in model.buffers():
        dist.broadcast(buffer, src=0)


# %% parameters-only
# misconception: buffers are not part of a model's start
# fails: test_as_one_process_would
# says: Ranks that start apart
def train_on_ranks(model, batches, accumulate, lr):
    for parameter in model.parameters():
        dist.broadcast(parameter.detach(), src=0)
    optimiser = torch.optim.SGD(model.parameters(), lr=lr * dist.get_world_size())
    for i, (inputs, labels) in enumerate(batches, start=1):
        (F.cross_entropy(model(inputs), labels) / accumulate).backward()
        if i % accumulate == 0:
            for parameter in model.parameters():
                if parameter.grad is not None:
                    dist.all_reduce(parameter.grad)
                    parameter.grad /= dist.get_world_size()
            optimiser.step()
            optimiser.zero_grad()
    for buffer in model.buffers():
        dist.broadcast(buffer, src=0)


# %% averages-the-weights
# misconception: averaging the weights once at the end is the same as averaging the gradients
# fails: test_as_one_process_would, test_steps_of_many_batches_talk_no_more, test_the_rate_grows_with_the_ranks
# says: Ranks that start apart
def train_on_ranks(model, batches, accumulate, lr):
    for value in model.state_dict().values():
        dist.broadcast(value, src=0)
    optimiser = torch.optim.SGD(model.parameters(), lr=lr * dist.get_world_size())
    for i, (inputs, labels) in enumerate(batches, start=1):
        (F.cross_entropy(model(inputs), labels) / accumulate).backward()
        if i % accumulate == 0:
            optimiser.step()
            optimiser.zero_grad()
    for parameter in model.parameters():
        dist.all_reduce(parameter.detach())
        parameter.detach().div_(dist.get_world_size())
    for buffer in model.buffers():
        dist.broadcast(buffer, src=0)


# %% averages-the-starts
# misconception: a fair start is the mean of all starts
# fails: test_as_one_process_would, test_both_ranks_end_with_the_statistics_of_rank_0, test_rank_1_starts_from_the_model_of_rank_0, test_statistics_are_those_of_rank_0_on_all
# says: The direction of the step
def train_on_ranks(model, batches, accumulate, lr):
    for value in model.state_dict().values():
        dist.all_reduce(value)
        value.div_(dist.get_world_size())
    wrapped = DistributedDataParallel(model)
    optimiser = torch.optim.SGD(model.parameters(), lr=lr * dist.get_world_size())
    for i, (inputs, labels) in enumerate(batches, start=1):
        with contextlib.nullcontext() if i % accumulate == 0 else wrapped.no_sync():
            (F.cross_entropy(wrapped(inputs), labels) / accumulate).backward()
        if i % accumulate == 0:
            optimiser.step()
            optimiser.zero_grad()
    for buffer in model.buffers():
        dist.broadcast(buffer, src=0)


# %% sum-and-rate
# misconception: summed gradients and a rate for n ranks go together
# fails: test_as_one_process_would, test_steps_of_many_batches_talk_no_more, test_the_rate_grows_with_the_ranks, test_three_ranks_three_times_the_rate, test_two_ranks_twice_the_rate
# says: The weights
def train_on_ranks(model, batches, accumulate, lr):
    for value in model.state_dict().values():
        dist.broadcast(value, src=0)
    optimiser = torch.optim.SGD(model.parameters(), lr=lr * dist.get_world_size())
    for i, (inputs, labels) in enumerate(batches, start=1):
        (F.cross_entropy(model(inputs), labels) / accumulate).backward()
        if i % accumulate == 0:
            for parameter in model.parameters():
                if parameter.grad is not None:
                    dist.all_reduce(parameter.grad)
            optimiser.step()
            optimiser.zero_grad()
    for buffer in model.buffers():
        dist.broadcast(buffer, src=0)


# %% rate-for-accumulation-too
# misconception: the rate grows with accumulate once more
# fails: test_as_one_process_would, test_steps_of_many_batches_talk_no_more, test_the_rate_grows_with_the_ranks
# says: Three steps of five batches
def train_on_ranks(model, batches, accumulate, lr):
    wrapped = DistributedDataParallel(model)
    optimiser = torch.optim.SGD(model.parameters(), lr=lr * dist.get_world_size() * accumulate)
    for i, (inputs, labels) in enumerate(batches, start=1):
        with contextlib.nullcontext() if i % accumulate == 0 else wrapped.no_sync():
            (F.cross_entropy(wrapped(inputs), labels) / accumulate).backward()
        if i % accumulate == 0:
            optimiser.step()
            optimiser.zero_grad()
    for buffer in model.buffers():
        dist.broadcast(buffer, src=0)


# %% square-root-of-the-ranks
# misconception: the rate grows with the root of the number of ranks (a rule, but not the one asked for)
# fails: test_as_one_process_would, test_steps_of_many_batches_talk_no_more, test_the_rate_grows_with_the_ranks, test_three_ranks_three_times_the_rate, test_two_ranks_twice_the_rate
# says: The weights
def train_on_ranks(model, batches, accumulate, lr):
    wrapped = DistributedDataParallel(model)
    optimiser = torch.optim.SGD(model.parameters(), lr=lr * dist.get_world_size() ** 0.5)
    for i, (inputs, labels) in enumerate(batches, start=1):
        with contextlib.nullcontext() if i % accumulate == 0 else wrapped.no_sync():
            (F.cross_entropy(wrapped(inputs), labels) / accumulate).backward()
        if i % accumulate == 0:
            optimiser.step()
            optimiser.zero_grad()
    for buffer in model.buffers():
        dist.broadcast(buffer, src=0)


# %% only-shares-the-start
# misconception: equal models are trained models
# fails: test_as_one_process_would, test_both_ranks_end_with_the_statistics_of_rank_0, test_four_batches_one_exchange, test_rank_1_starts_from_the_model_of_rank_0, test_statistics_are_those_of_rank_0_on_all, test_steps_of_many_batches_talk_no_more, test_the_rate_grows_with_the_ranks, test_three_ranks_three_times_the_rate, test_two_ranks_twice_the_rate
# says: The direction of the step
def train_on_ranks(model, batches, accumulate, lr):
    DistributedDataParallel(model)


# %% buffers-left-out
# misconception: broadcast_buffers=False only concerns later steps
# fails: test_as_one_process_would
# says: Ranks that start apart
def train_on_ranks(model, batches, accumulate, lr):
    wrapped = DistributedDataParallel(model, broadcast_buffers=False)
    optimiser = torch.optim.SGD(model.parameters(), lr=lr * dist.get_world_size())
    for i, (inputs, labels) in enumerate(batches, start=1):
        with contextlib.nullcontext() if i % accumulate == 0 else wrapped.no_sync():
            (F.cross_entropy(wrapped(inputs), labels) / accumulate).backward()
        if i % accumulate == 0:
            optimiser.step()
            optimiser.zero_grad()
    for buffer in model.buffers():
        dist.broadcast(buffer, src=0)


# %% statistics-of-its-own
# misconception: DDP keeps buffers equal, since every forward pass sends those of rank 0
# fails: test_both_ranks_end_with_the_statistics_of_rank_0, test_statistics_are_those_of_rank_0_on_all
# says: The running mean on rank 1
def train_on_ranks(model, batches, accumulate, lr):
    wrapped = DistributedDataParallel(model)
    optimiser = torch.optim.SGD(model.parameters(), lr=lr * dist.get_world_size())
    for i, (inputs, labels) in enumerate(batches, start=1):
        with contextlib.nullcontext() if i % accumulate == 0 else wrapped.no_sync():
            (F.cross_entropy(wrapped(inputs), labels) / accumulate).backward()
        if i % accumulate == 0:
            optimiser.step()
            optimiser.zero_grad()


# %% mean-of-the-statistics
# misconception: statistics are averaged over the ranks as gradients are
# fails: test_both_ranks_end_with_the_statistics_of_rank_0, test_statistics_are_those_of_rank_0_on_all
# says: The running mean on rank 0
def train_on_ranks(model, batches, accumulate, lr):
    wrapped = DistributedDataParallel(model)
    optimiser = torch.optim.SGD(model.parameters(), lr=lr * dist.get_world_size())
    for i, (inputs, labels) in enumerate(batches, start=1):
        with contextlib.nullcontext() if i % accumulate == 0 else wrapped.no_sync():
            (F.cross_entropy(wrapped(inputs), labels) / accumulate).backward()
        if i % accumulate == 0:
            optimiser.step()
            optimiser.zero_grad()
    for buffer in model.buffers():
        dist.all_reduce(buffer)
        buffer.copy_(buffer / dist.get_world_size())


# %% twice-the-rate
# misconception: two ranks are all there are
# fails: test_as_one_process_would, test_the_rate_grows_with_the_ranks, test_three_ranks_three_times_the_rate
# says: The weights on rank 0
def train_on_ranks(model, batches, accumulate, lr):
    wrapped = DistributedDataParallel(model)
    optimiser = torch.optim.SGD(model.parameters(), lr=2 * lr)
    for i, (inputs, labels) in enumerate(batches, start=1):
        with contextlib.nullcontext() if i % accumulate == 0 else wrapped.no_sync():
            (F.cross_entropy(wrapped(inputs), labels) / accumulate).backward()
        if i % accumulate == 0:
            optimiser.step()
            optimiser.zero_grad()
    for buffer in model.buffers():
        dist.broadcast(buffer, src=0)


# %% buffers-sent-at-the-end
# misconception: buffers only matter for who uses the trained model
# fails: test_as_one_process_would
# says: Ranks that start apart
def train_on_ranks(model, batches, accumulate, lr):
    for parameter in model.parameters():
        dist.broadcast(parameter.data, src=0)
    wrapped = DistributedDataParallel(model, init_sync=False, broadcast_buffers=False)
    optimiser = torch.optim.SGD(model.parameters(), lr=lr * dist.get_world_size())
    for i, (inputs, labels) in enumerate(batches, start=1):
        with contextlib.nullcontext() if i % accumulate == 0 else wrapped.no_sync():
            (F.cross_entropy(wrapped(inputs), labels) / accumulate).backward()
        if i % accumulate == 0:
            optimiser.step()
            optimiser.zero_grad()
    for buffer in model.buffers():
        dist.broadcast(buffer, src=0)
