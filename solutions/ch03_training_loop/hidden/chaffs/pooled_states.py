# %% mean-over-padding
# misconception: the states at padded steps are zero, or do not matter
# fails: test_company_does_not_matter, test_mean_over_a_sequence_of_its_own_length, test_pooled_states_and_gradients
# says: The pooled states
def pooled_states(rnn, sequences, limit):
    cut = [sequence[:limit] for sequence in sequences]
    batch = torch.nn.utils.rnn.pad_sequence(cut, batch_first=True)
    states, _ = rnn(batch)
    return states.mean(1)


# %% sum-over-padding
# misconception: only the divisor has to know the lengths, since padding is zero
# fails: test_company_does_not_matter, test_mean_over_a_sequence_of_its_own_length, test_pooled_states_and_gradients
# says: The pooled states
def pooled_states(rnn, sequences, limit):
    cut = [sequence[:limit] for sequence in sequences]
    lengths = torch.tensor([len(sequence) for sequence in cut])
    batch = torch.nn.utils.rnn.pad_sequence(cut, batch_first=True)
    states, _ = rnn(batch)
    return states.sum(1) / lengths[:, None]


# %% padded-to-the-limit
# misconception: a batch needs a fixed shape
# fails: test_no_more_steps_than_the_longest_needs, test_short_sequences_are_quick, test_work_follows_the_longest_sequence
# says: The network was given
def pooled_states(rnn, sequences, limit):
    cut = [sequence[:limit] for sequence in sequences]
    lengths = torch.tensor([len(sequence) for sequence in cut])
    batch = torch.stack([F.pad(sequence, (0, 0, 0, limit - len(sequence))) for sequence in cut])
    states, _ = rnn(batch)
    own = torch.arange(limit) < lengths[:, None]
    return (states * own[:, :, None]).sum(1) / lengths[:, None]


# %% longest-before-cutting
# misconception: cutting can wait until the states are there
# fails: test_no_more_steps_than_the_longest_needs, test_work_follows_the_longest_sequence
# says: The network was given
def pooled_states(rnn, sequences, limit):
    lengths = torch.tensor([min(len(sequence), limit) for sequence in sequences])
    batch = torch.nn.utils.rnn.pad_sequence(sequences, batch_first=True)
    states, _ = rnn(batch)
    own = torch.arange(batch.shape[1]) < lengths[:, None]
    return (states * own[:, :, None]).sum(1) / lengths[:, None]


# %% never-cut
# misconception: the limit is about memory only, and padding to the longest takes care of it
# fails: test_full_sequences, test_no_more_steps_than_the_longest_needs, test_pooled_states_and_gradients, test_sequences_are_cut_at_the_limit, test_work_follows_the_longest_sequence
# says: The pooled states
def pooled_states(rnn, sequences, limit):
    lengths = torch.tensor([len(sequence) for sequence in sequences])
    batch = torch.nn.utils.rnn.pad_sequence(sequences, batch_first=True)
    states, _ = rnn(batch)
    own = torch.arange(batch.shape[1]) < lengths[:, None]
    return (states * own[:, :, None]).sum(1) / lengths[:, None]


# %% mask-one-too-long
# misconception: lengths count from zero
# fails: test_company_does_not_matter, test_mean_over_a_sequence_of_its_own_length, test_pooled_states_and_gradients
# says: The pooled states
def pooled_states(rnn, sequences, limit):
    cut = [sequence[:limit] for sequence in sequences]
    lengths = torch.tensor([len(sequence) for sequence in cut])
    batch = torch.nn.utils.rnn.pad_sequence(cut, batch_first=True)
    states, _ = rnn(batch)
    own = torch.arange(batch.shape[1]) <= lengths[:, None]
    return (states * own[:, :, None]).sum(1) / lengths[:, None]


# %% order-of-the-packing
# misconception: what was sorted for packing comes back in the old order
# fails: test_company_does_not_matter, test_mean_over_a_sequence_of_its_own_length, test_pooled_states_and_gradients, test_short_sequences_are_quick, test_work_follows_the_longest_sequence
# says: The pooled states
def pooled_states(rnn, sequences, limit):
    cut = sorted((sequence[:limit] for sequence in sequences), key=len, reverse=True)
    states, _ = rnn(torch.nn.utils.rnn.pack_sequence(cut))
    padded, lengths = torch.nn.utils.rnn.pad_packed_sequence(states, batch_first=True)
    return padded.sum(1) / lengths[:, None]


# %% last-state-instead
# misconception: the last state sums a sequence up, that is what a recurrent network is for
# fails: test_a_point_at_the_origin_counts, test_company_does_not_matter, test_full_sequences, test_mean_over_a_sequence_of_its_own_length, test_no_more_steps_than_the_longest_needs, test_pooled_states_and_gradients, test_sequences_are_cut_at_the_limit, test_short_sequences_are_quick, test_work_follows_the_longest_sequence
# says: The pooled states
def pooled_states(rnn, sequences, limit):
    packed = torch.nn.utils.rnn.pack_sequence([sequence[:limit] for sequence in sequences], enforce_sorted=False)
    _, last = rnn(packed)
    return last[-1]


# %% nonzero-steps
# misconception: a step whose features are all zero is padding
# fails: test_a_point_at_the_origin_counts, test_company_does_not_matter, test_full_sequences, test_pooled_states_and_gradients, test_work_follows_the_longest_sequence
# says: Strokes that begin or end at (0, 0) have two steps all the same
def pooled_states(rnn, sequences, limit):
    cut = [sequence[:limit] for sequence in sequences]
    batch = torch.nn.utils.rnn.pad_sequence(cut, batch_first=True)
    states, _ = rnn(batch)
    own = (batch != 0).any(2)
    return (states * own[:, :, None]).sum(1) / own.sum(1, keepdim=True)


# %% padded-in-front
# misconception: padding may go anywhere, as long as the mask knows where
# fails: test_company_does_not_matter, test_mean_over_a_sequence_of_its_own_length, test_pooled_states_and_gradients
# says: The pooled states
def pooled_states(rnn, sequences, limit):
    cut = [sequence[:limit] for sequence in sequences]
    lengths = torch.tensor([len(sequence) for sequence in cut])
    longest = int(lengths.max())
    batch = torch.stack([F.pad(sequence, (0, 0, longest - len(sequence), 0)) for sequence in cut])
    states, _ = rnn(batch)
    own = torch.arange(longest) >= longest - lengths[:, None]
    return (states * own[:, :, None]).sum(1) / lengths[:, None]


# %% without-gradients
# misconception: pooling is for features, and features need no gradient
# fails: test_company_does_not_matter, test_full_sequences, test_pooled_states_and_gradients
# says: Each row is the mean over its sequence's own steps, with its gradients, for networks of on
@torch.no_grad()
def pooled_states(rnn, sequences, limit):
    cut = [sequence[:limit] for sequence in sequences]
    lengths = torch.tensor([len(sequence) for sequence in cut])
    batch = torch.nn.utils.rnn.pad_sequence(cut, batch_first=True)
    states, _ = rnn(batch)
    own = torch.arange(batch.shape[1]) < lengths[:, None]
    return (states * own[:, :, None]).sum(1) / lengths[:, None]


# %% the-last-steps-count
# misconception: the end of a long sequence is what matters
# fails: test_full_sequences, test_pooled_states_and_gradients, test_work_follows_the_longest_sequence
# says: Each row is the mean over its sequence's own steps, with its gradients, for networks of on
def pooled_states(rnn, sequences, limit):
    cut = [sequence[-limit:] for sequence in sequences]
    lengths = torch.tensor([len(sequence) for sequence in cut])
    batch = torch.nn.utils.rnn.pad_sequence(cut, batch_first=True)
    states, _ = rnn(batch)
    own = torch.arange(batch.shape[1]) < lengths[:, None]
    return (states * own[:, :, None]).sum(1) / lengths[:, None]


# %% list-cut-in-place
# misconception: a list that one is given is one's own
# fails: test_sequences_stay_as_they_were
# says: Neither the list nor the sequences in it are changed, also where they are cut
def pooled_states(rnn, sequences, limit):
    for i, sequence in enumerate(sequences):
        sequences[i] = sequence[:limit]
    lengths = torch.tensor([len(sequence) for sequence in sequences])
    batch = torch.nn.utils.rnn.pad_sequence(sequences, batch_first=True)
    states, _ = rnn(batch)
    own = torch.arange(batch.shape[1]) < lengths[:, None]
    return (states * own[:, :, None]).sum(1) / lengths[:, None]
