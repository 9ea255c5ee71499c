# %% pad-sequence-and-mask
from torch.nn.utils.rnn import pad_sequence


def pooled_states(rnn, sequences, limit):
    short = [s[:limit] for s in sequences]
    batch = pad_sequence(short, batch_first=True)
    n = batch.new_tensor([s.shape[0] for s in short]).unsqueeze(1)
    states = rnn(batch)[0]
    mask = (torch.arange(batch.shape[1]).unsqueeze(0) < n).to(states.dtype)
    return torch.einsum("nth,nt->nh", states, mask) / n

# %% packed
from torch.nn.utils.rnn import pack_sequence, pad_packed_sequence


def pooled_states(rnn, sequences, limit):
    """A packed sequence knows where each sequence ends."""
    packed = pack_sequence([sequence[:limit] for sequence in sequences], enforce_sorted=False)
    states, _ = rnn(packed)
    padded, lengths = pad_packed_sequence(states, batch_first=True)
    return padded.sum(dim=1) / lengths.to(padded)[:, None]

# %% sorted-by-hand
def pooled_states(rnn, sequences, limit):
    lengths = [min(len(s), limit) for s in sequences]
    order = sorted(range(len(sequences)), key=lambda i: -lengths[i])
    padded = torch.nn.utils.rnn.pad_sequence([sequences[i][:limit] for i in order], batch_first=True)
    packed = torch.nn.utils.rnn.pack_padded_sequence(padded, [lengths[i] for i in order], batch_first=True)
    states, _ = rnn(packed)
    rows = torch.repeat_interleave(torch.arange(len(states.batch_sizes)), states.batch_sizes)
    places = torch.cat([torch.arange(int(size)) for size in states.batch_sizes])
    print("steps at most:", int(rows[-1]) + 1)
    sums = states.data.new_zeros(len(order), states.data.shape[1]).index_add(0, places, states.data)
    means = sums / torch.tensor([[lengths[i]] for i in order], dtype=sums.dtype)
    back = torch.empty(len(order), dtype=torch.long)
    back[order] = torch.arange(len(order))
    return means[back]

# %% a-call-for-each-length
def pooled_states(rnn, sequences, limit):
    by_length = {}
    for i, sequence in enumerate(sequences):
        by_length.setdefault(min(len(sequence), limit), []).append(i)
    rows = [None] * len(sequences)
    for length, members in by_length.items():
        states, _ = rnn(torch.stack([sequences[i][:length] for i in members]))
        for i, mean in zip(members, states.mean(dim=1)):
            rows[i] = mean
    return torch.stack(rows)

# %% running-sums
def pooled_states(rnn, sequences, limit):
    cut = [sequence.narrow(0, 0, min(limit, sequence.size(0))) for sequence in sequences]
    longest = max(sequence.size(0) for sequence in cut)
    batch = cut[0].new_zeros((len(cut), longest, cut[0].size(1)))
    for row, sequence in enumerate(cut):
        batch[row, : sequence.size(0)] = sequence
    sums = rnn(batch)[0].cumsum(dim=1)
    last = torch.tensor([sequence.size(0) - 1 for sequence in cut])
    return sums[torch.arange(len(cut)), last] / (last + 1).unsqueeze(1)

# %% one-by-one
def pooled_states(rnn, sequences, limit):
    pooled = []
    for sequence in sequences:
        outputs, _ = rnn(sequence[:limit])  # without a batch dimension
        pooled.append(outputs.mean(0))
    return torch.stack(pooled)
