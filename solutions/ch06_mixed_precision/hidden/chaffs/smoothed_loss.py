# %% converted-at-the-end
# misconception: what counts is the dtype of the result
# fails: test_half_logits_and_smoothing, test_half_logits_have_a_whole_loss, test_losses_in_a_region, test_losses_of_any_size, test_small_steps_show
# says: The result differs
def smoothed_loss(logits, labels, smoothing):
    log_p = logits - logits.logsumexp(dim=1, keepdim=True)
    wanted = torch.full_like(log_p, smoothing / logits.shape[1])
    wanted.scatter_(1, labels[:, None], 1 - smoothing + smoothing / logits.shape[1])
    return -(wanted * log_p).sum(dim=1).mean().float()

# %% log-softmax-in-half
# misconception: log_softmax is stable, so its dtype does not matter
# fails: test_half_logits_and_smoothing, test_half_logits_have_a_whole_loss, test_losses_in_a_region, test_losses_of_any_size, test_small_steps_show
# says: The result differs
def smoothed_loss(logits, labels, smoothing):
    log_p = logits.log_softmax(dim=1).float()
    own = log_p.gather(1, labels[:, None])
    return -((1 - smoothing) * own + smoothing * log_p.mean(dim=1, keepdim=True)).mean()

# %% product-in-a-region
# misconception: float32 factors make a float32 product
# fails: test_a_region_changes_nothing, test_losses_in_a_region
# says: The result
def smoothed_loss(logits, labels, smoothing):
    log_p = logits.float().log_softmax(dim=1)
    wanted = torch.full_like(log_p, smoothing / logits.shape[1])
    wanted.scatter_(1, labels[:, None], 1 - smoothing + smoothing / logits.shape[1])
    return -(wanted.flatten() @ log_p.flatten()).float() / len(labels)

# %% logarithm-of-the-softmax
# misconception: the logarithm can be taken after the softmax
# fails: test_large_logits, test_losses_in_a_region, test_losses_of_any_size
# says: The loss with logits of
def smoothed_loss(logits, labels, smoothing):
    log_p = logits.float().softmax(dim=1).log()
    wanted = torch.full_like(log_p, smoothing / logits.shape[1])
    wanted.scatter_(1, labels[:, None], 1 - smoothing + smoothing / logits.shape[1])
    return -(wanted * log_p).sum(dim=1).mean()

# %% epsilon-in-the-logarithm
# misconception: a small epsilon keeps the logarithm finite and changes nothing else
# fails: test_large_logits, test_losses_in_a_region, test_losses_of_any_size
# says: The loss with logits of
def smoothed_loss(logits, labels, smoothing):
    log_p = (logits.float().softmax(dim=1) + 1e-8).log()
    own = log_p.gather(1, labels[:, None])
    return -((1 - smoothing) * own + smoothing * log_p.mean(dim=1, keepdim=True)).mean()

# %% naive-in-float64
# misconception: float64 has room for any exponential
# fails: test_large_logits, test_losses_of_any_size
# says: The loss with logits of
def smoothed_loss(logits, labels, smoothing):
    z = logits.double()
    log_p = z - z.exp().sum(dim=1, keepdim=True).log()
    own = log_p.gather(1, labels[:, None])
    return -((1 - smoothing) * own + smoothing * log_p.mean(dim=1, keepdim=True)).mean().float()

# %% clamped-logits
# misconception: logits beyond fifty can be clamped: their exponentials are infinite anyway
# fails: test_large_logits, test_losses_in_a_region, test_losses_of_any_size
# says: The loss with logits of
def smoothed_loss(logits, labels, smoothing):
    return F.cross_entropy(logits.float().clamp(-50, 50), labels, label_smoothing=smoothing)

# %% others-share-the-smoothing
# misconception: smoothing goes to the other classes only
# fails: test_a_region_changes_nothing, test_half_logits_and_smoothing, test_losses_in_a_region, test_losses_of_any_size, test_small_steps_show, test_two_classes
# says: The result
def smoothed_loss(logits, labels, smoothing):
    log_p = logits.float().log_softmax(dim=1)
    wanted = torch.full_like(log_p, smoothing / (logits.shape[1] - 1))
    wanted.scatter_(1, labels[:, None], 1 - smoothing)
    return -(wanted * log_p).sum(dim=1).mean()

# %% smoothing-forgotten
# misconception: smoothing is a detail
# fails: test_a_region_changes_nothing, test_half_logits_and_smoothing, test_losses_in_a_region, test_losses_of_any_size, test_small_steps_show, test_two_classes
# says: The result
def smoothed_loss(logits, labels, smoothing):
    return F.cross_entropy(logits.float(), labels)

# %% region-off-but-half-logits
# misconception: turning autocast off makes everything float32
# fails: test_half_logits_and_smoothing, test_half_logits_have_a_whole_loss, test_losses_in_a_region, test_losses_of_any_size, test_small_steps_show
# says: The result
def smoothed_loss(logits, labels, smoothing):
    with torch.autocast(logits.device.type, enabled=False):
        return F.cross_entropy(logits, labels, label_smoothing=smoothing).float()

# %% gradient-cut-off
# misconception: the conversion needs no gradient
# fails: test_losses_in_a_region, test_losses_of_any_size
# says: its gradient
def smoothed_loss(logits, labels, smoothing):
    return F.cross_entropy(logits.detach().float(), labels, label_smoothing=smoothing)

# %% float64-comes-back
# misconception: the more digits the better
# fails: test_a_region_changes_nothing, test_half_logits_and_smoothing, test_half_logits_have_a_whole_loss, test_large_logits, test_logits_that_know_nothing, test_losses_in_a_region, test_losses_of_any_size, test_two_classes
# says: The result: the dtype is torch.float64
def smoothed_loss(logits, labels, smoothing):
    return F.cross_entropy(logits.double(), labels, label_smoothing=smoothing)

# %% shifted-in-place
# misconception: logits are used up by the loss
# fails: test_loss_leaves_its_inputs_alone, test_losses_in_a_region, test_losses_of_any_size, test_small_steps_show
# says: stay as they were
def smoothed_loss(logits, labels, smoothing):
    with torch.no_grad():
        logits -= logits.amax(dim=1, keepdim=True)
    return F.cross_entropy(logits.float(), labels, label_smoothing=smoothing)

# %% zero
# misconception: zero is a loss
# fails: test_a_region_changes_nothing, test_half_logits_and_smoothing, test_half_logits_have_a_whole_loss, test_large_logits, test_logits_that_know_nothing, test_losses_in_a_region, test_losses_of_any_size, test_small_steps_show, test_two_classes
# says: The result
def smoothed_loss(logits, labels, smoothing):
    return logits.float().sum() * 0

# %% wanted-in-half
# misconception: the wanted probabilities are simple numbers, which any dtype holds
# fails: test_half_logits_and_smoothing, test_losses_in_a_region, test_losses_of_any_size, test_small_steps_show
# says: The result differs
def smoothed_loss(logits, labels, smoothing):
    n_classes = logits.shape[1]
    wanted = torch.full_like(logits, smoothing / n_classes)
    wanted.scatter_(1, labels[:, None], 1 - smoothing + smoothing / n_classes)
    log_probabilities = logits.float().log_softmax(dim=1)
    return -(wanted * log_probabilities).sum(dim=1).mean()
