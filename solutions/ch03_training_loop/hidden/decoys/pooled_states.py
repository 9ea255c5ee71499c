# %% mean-over-everything-then-scaled
def pooled_states(rnn, sequences, limit):
    cut = [sequence[:limit] for sequence in sequences]
    lengths = torch.tensor([len(sequence) for sequence in cut])
    states, _ = rnn(torch.nn.utils.rnn.pad_sequence(cut, batch_first=True))
    own = torch.arange(states.shape[1]) < lengths[:, None]
    states = states.masked_fill(~own[:, :, None], 0)
    # the mean over all steps, padding included, is too small by a factor that is known
    return states.mean(1) * (states.shape[1] / lengths[:, None])


# %% padded-with-ones
def pooled_states(rnn, sequences, limit):
    cut = [sequence[:limit] for sequence in sequences]
    # what stands in the padding does not matter: a state never sees a later step
    batch = torch.nn.utils.rnn.pad_sequence(cut, batch_first=True, padding_value=1.0)
    states, _ = rnn(batch)
    return torch.stack([row[: len(sequence)].mean(0) for row, sequence in zip(states, cut)])


# %% limit-of-the-batch
def pooled_states(rnn, sequences, limit):
    limit = min(limit, max(map(len, sequences)))
    batch = sequences[0].new_zeros(len(sequences), limit, sequences[0].shape[1])  # now the limit is a good length
    own = torch.zeros(len(sequences), limit, dtype=torch.bool)
    for i, sequence in enumerate(sequences):
        batch[i, : len(sequence)] = sequence[:limit]
        own[i, : len(sequence)] = True
    states, _ = rnn(batch)
    return torch.where(own[..., None], states, 0).sum(1) / own.sum(1)[:, None]
