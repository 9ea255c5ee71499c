# %% smaller-number
# misconception: a mask only has to fit into the format; -10,000 is small enough
# fails: test_scores_of_ten_thousand, test_what_stands_in_the_padding
# says: Scores of ten thousand
def attention(q, k, v, padding):
    hidden = padding[:, None, None, :]
    scores = (q / math.sqrt(q.shape[-1])) @ k.mT
    scores = scores + hidden.to(scores.dtype) * -1e4
    weights = scores.softmax(dim=-1).masked_fill(hidden.all(dim=-1, keepdim=True), 0)
    return weights @ v

# %% smallest-number-added
# misconception: the smallest number of the format can be added safely
# fails: test_nothing_but_padding_and_negative_scores, test_scores_of_ten_thousand
# says: Scores of ten thousand
def attention(q, k, v, padding):
    hidden = padding[:, None, None, :]
    scores = (q / math.sqrt(q.shape[-1])) @ k.mT
    scores = scores + hidden.to(scores.dtype) * torch.finfo(scores.dtype).min
    weights = scores.softmax(dim=-1) * ~hidden
    return weights @ v

# %% infinity-only
# misconception: minus infinity is the right mask, and a softmax knows what to do with it
# fails: test_nothing_but_padding, test_nothing_but_padding_and_negative_scores, test_scores_of_ten_thousand, test_sequences_of_padding_only
# says: all padding gives zeros
def attention(q, k, v, padding):
    hidden = padding[:, None, None, :]
    scores = (q / math.sqrt(q.shape[-1])) @ k.mT
    return scores.masked_fill(hidden, -math.inf).softmax(dim=-1) @ v

# %% smallest-number-only
# misconception: with the smallest number of the format nothing is left of a padded key
# fails: test_nothing_but_padding, test_nothing_but_padding_and_negative_scores, test_scores_of_ten_thousand, test_sequences_of_padding_only
# says: all padding gives zeros
def attention(q, k, v, padding):
    hidden = padding[:, None, None, :]
    scores = (q / math.sqrt(q.shape[-1])) @ k.mT
    return scores.masked_fill(hidden, torch.finfo(scores.dtype).min).softmax(dim=-1) @ v

# %% nan-to-num
# misconception: NaN can be removed at the end
# fails: test_nothing_but_padding, test_nothing_but_padding_and_negative_scores, test_scores_of_ten_thousand, test_sequences_of_padding_only
# says: all padding gives zeros
def attention(q, k, v, padding):
    hidden = padding[:, None, None, :]
    scores = (q / math.sqrt(q.shape[-1])) @ k.mT + hidden.to(q.dtype) * -1e9
    return torch.nan_to_num(scores.softmax(dim=-1)) @ v

# %% clamped-scores
# misconception: scores that have overflowed can be clamped to the largest number
# fails: test_scores_of_ten_thousand
# says: Scores of ten thousand
def attention(q, k, v, padding):
    hidden = padding[:, None, None, :]
    top = torch.finfo(q.dtype).max / 2
    scores = (q @ k.mT).clamp(-top, top) / math.sqrt(q.shape[-1])
    scores = scores.masked_fill(hidden, torch.finfo(scores.dtype).min)
    return scores.softmax(dim=-1).masked_fill(hidden, 0) @ v

# %% scores-clamped-to-twenty
# misconception: scores beyond some limit make no difference, so a clamp is harmless
# fails: test_scores_of_ten_thousand
# says: Scores of ten thousand
def attention(q, k, v, padding):
    hidden = padding[:, None, None, :]
    scores = ((q / math.sqrt(q.shape[-1])) @ k.mT).clamp(-20, 20)
    scores = scores.masked_fill(hidden, torch.finfo(scores.dtype).min)
    return scores.softmax(dim=-1).masked_fill(hidden, 0) @ v

# %% only-float32-comes-back
# misconception: what is computed in float32 stays float32
# fails: test_a_large_score_wins, test_attention_with_padding, test_equal_keys_share, test_float64_has_more_digits, test_nothing_but_padding, test_nothing_but_padding_and_negative_scores, test_scores_of_ten_thousand, test_sequences_of_padding_only, test_what_stands_in_the_padding
# says: The result: the dtype is torch.float32
def attention(q, k, v, padding):
    hidden = padding[:, None, None, :]
    scores = (q.float() / math.sqrt(q.shape[-1])) @ k.float().mT
    scores = scores.masked_fill(hidden, torch.finfo(scores.dtype).min)
    return scores.softmax(dim=-1).masked_fill(hidden, 0) @ v.float()

# %% float32-for-all
# misconception: float32 is the widest format there is
# fails: test_attention_with_padding, test_float64_has_more_digits, test_sequences_of_padding_only
# says: in each dtype within its own roundings
def attention(q, k, v, padding):
    hidden = padding[:, None, None, :]
    scores = (q.float() / math.sqrt(q.shape[-1])) @ k.float().mT
    scores = scores.masked_fill(hidden, torch.finfo(scores.dtype).min)
    return (scores.softmax(dim=-1).masked_fill(hidden, 0) @ v.float()).to(q.dtype)

# %% masked-after-the-softmax
# misconception: it is enough to take the padded weights away at the end
# fails: test_a_padded_row_has_no_weight, test_attention_with_padding, test_scores_of_ten_thousand, test_sequences_of_padding_only, test_what_stands_in_the_padding
# says: The result
def attention(q, k, v, padding):
    hidden = padding[:, None, None, :]
    scores = (q / math.sqrt(q.shape[-1])) @ k.mT
    return scores.softmax(dim=-1).masked_fill(hidden, 0) @ v

# %% weights-normalised-with-an-epsilon
# misconception: a small epsilon in the denominator saves the rows that sum to zero, and costs nothing
# fails: test_a_padded_row_has_no_weight, test_attention_with_padding, test_equal_keys_share, test_float64_has_more_digits, test_nothing_but_padding, test_scores_of_ten_thousand, test_sequences_of_padding_only, test_what_stands_in_the_padding
# says: in each dtype within its own roundings
def attention(q, k, v, padding):
    hidden = padding[:, None, None, :]
    scores = (q / math.sqrt(q.shape[-1])) @ k.mT
    exps = torch.exp(scores - scores.amax(dim=-1, keepdim=True)).masked_fill(hidden, 0)
    return exps @ v / (exps.sum(dim=-1, keepdim=True) + 1e-3)

# %% queries-masked-as-well
# misconception: what is padding is padding, as a query too
# fails: test_a_padded_row_has_no_weight, test_attention_with_padding, test_scores_of_ten_thousand, test_sequences_of_padding_only, test_what_stands_in_the_padding
# says: The result
def attention(q, k, v, padding):
    hidden = padding[:, None, None, :]
    scores = (q / math.sqrt(q.shape[-1])) @ k.mT
    scores = scores.masked_fill(hidden, torch.finfo(scores.dtype).min)
    return (scores.softmax(dim=-1).masked_fill(hidden, 0) @ v).masked_fill(padding[:, None, :, None], 0)

# %% scaled-in-place
# misconception: q is only needed for the scores, so it may be scaled where it is
# fails: test_attention_leaves_its_inputs_alone, test_attention_with_padding, test_sequences_of_padding_only
# says: stay as they were
def attention(q, k, v, padding):
    with torch.no_grad():
        q /= math.sqrt(q.shape[-1])
    hidden = padding[:, None, None, :]
    scores = (q @ k.mT).masked_fill(hidden, torch.finfo(q.dtype).min)
    return scores.softmax(dim=-1).masked_fill(hidden, 0) @ v

# %% values-made-zero-instead
# misconception: a padded key with a value of zero does no harm
# fails: test_a_padded_row_has_no_weight, test_attention_with_padding, test_scores_of_ten_thousand, test_sequences_of_padding_only, test_what_stands_in_the_padding
# says: The result
def attention(q, k, v, padding):
    hidden = padding[:, None, :, None]
    scores = (q / math.sqrt(q.shape[-1])) @ k.masked_fill(hidden, 0).mT
    return scores.softmax(dim=-1) @ v.masked_fill(hidden, 0)

# %% zeros
# misconception: zeros are finite
# fails: test_a_large_score_wins, test_a_padded_row_has_no_weight, test_attention_with_padding, test_equal_keys_share, test_float64_has_more_digits, test_nothing_but_padding, test_nothing_but_padding_and_negative_scores, test_scores_of_ten_thousand, test_sequences_of_padding_only, test_what_stands_in_the_padding
# says: The result
def attention(q, k, v, padding):
    return torch.zeros_like(q)
