# %% minus-infinity-and-nan
def attention(q, k, v, padding):
    hidden = padding[:, None, None, :]
    scores = ((q / math.sqrt(q.shape[-1])) @ k.mT).masked_fill(hidden, -math.inf)
    # all hidden: NaN, but filled in right away, and no gradient goes back through what the first mask has filled
    return scores.softmax(dim=-1).masked_fill(hidden, 0) @ v

# %% result-of-empty-rows-filled
def attention(q, k, v, padding):
    hidden = padding[:, None, None, :]
    scores = (q / math.sqrt(q.shape[-1])) @ k.mT
    # the mean over the padding comes out of an empty sequence, and is thrown away
    weights = scores.masked_fill(hidden, torch.finfo(q.dtype).min).softmax(dim=-1)
    return (weights @ v) * (~padding).any(dim=1)[:, None, None, None]
