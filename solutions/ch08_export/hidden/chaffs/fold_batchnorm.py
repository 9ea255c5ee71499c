# %% eps-outside-the-root
# misconception: eps is added to the deviation
# fails: test_a_channel_that_never_varied, test_a_convolution_that_goes_round, test_a_convolution_with_a_bias, test_a_convolution_without_a_bias, test_folded_layers_of_every_kind, test_quiet_channels
# says: With a variance of 0 and eps 0.0001
def fold_batchnorm(conv, norm):
    if norm.training or norm.running_mean is None:
        raise ValueError("the BatchNorm depends on the batch")
    folded = copy.deepcopy(conv)
    gamma = torch.ones_like(norm.running_var) if norm.weight is None else norm.weight
    beta = torch.zeros_like(norm.running_var) if norm.bias is None else norm.bias
    with torch.no_grad():
        scale = gamma / (torch.sqrt(norm.running_var) + norm.eps)
        bias = torch.zeros_like(gamma) if conv.bias is None else conv.bias
        shift = beta + (bias - norm.running_mean) * scale
        folded.weight = nn.Parameter(conv.weight * scale[:, None, None, None])
        folded.bias = nn.Parameter(shift)
    return folded

# %% divided-by-the-variance
# misconception: a BatchNorm divides by the variance
# fails: test_a_channel_that_never_varied, test_a_convolution_that_goes_round, test_a_convolution_with_a_bias, test_a_convolution_without_a_bias, test_folded_layers_of_every_kind, test_quiet_channels
# says: The convolution makes 2x + 1
def fold_batchnorm(conv, norm):
    if norm.training or norm.running_mean is None:
        raise ValueError("the BatchNorm depends on the batch")
    folded = copy.deepcopy(conv)
    gamma = torch.ones_like(norm.running_var) if norm.weight is None else norm.weight
    beta = torch.zeros_like(norm.running_var) if norm.bias is None else norm.bias
    with torch.no_grad():
        scale = gamma / (norm.running_var + norm.eps)
        bias = torch.zeros_like(gamma) if conv.bias is None else conv.bias
        shift = beta + (bias - norm.running_mean) * scale
        folded.weight = nn.Parameter(conv.weight * scale[:, None, None, None])
        folded.bias = nn.Parameter(shift)
    return folded

# %% always-the-default-eps
# misconception: eps is 1e-5
# fails: test_a_channel_that_never_varied, test_a_convolution_that_goes_round, test_a_convolution_with_a_bias, test_a_convolution_without_a_bias, test_folded_layers_of_every_kind
# says: With a variance of 0 and eps 0.0001
def fold_batchnorm(conv, norm):
    if norm.training or norm.running_mean is None:
        raise ValueError("the BatchNorm depends on the batch")
    folded = copy.deepcopy(conv)
    gamma = torch.ones_like(norm.running_var) if norm.weight is None else norm.weight
    beta = torch.zeros_like(norm.running_var) if norm.bias is None else norm.bias
    with torch.no_grad():
        scale = gamma / torch.sqrt(norm.running_var + 1e-5)
        bias = torch.zeros_like(gamma) if conv.bias is None else conv.bias
        shift = beta + (bias - norm.running_mean) * scale
        folded.weight = nn.Parameter(conv.weight * scale[:, None, None, None])
        folded.bias = nn.Parameter(shift)
    return folded

# %% bias-behind-the-norm
# misconception: the convolution's bias is added at the end, as it is
# fails: test_a_convolution_with_a_bias, test_folded_layers_of_every_kind, test_quiet_channels
# says: The convolution makes 2x + 1
def fold_batchnorm(conv, norm):
    if norm.training or norm.running_mean is None:
        raise ValueError("the BatchNorm depends on the batch")
    folded = copy.deepcopy(conv)
    gamma = torch.ones_like(norm.running_var) if norm.weight is None else norm.weight
    beta = torch.zeros_like(norm.running_var) if norm.bias is None else norm.bias
    with torch.no_grad():
        scale = gamma / torch.sqrt(norm.running_var + norm.eps)
        bias = torch.zeros_like(gamma) if conv.bias is None else conv.bias
        shift = beta - norm.running_mean * scale + bias
        folded.weight = nn.Parameter(conv.weight * scale[:, None, None, None])
        folded.bias = nn.Parameter(shift)
    return folded

# %% without-its-own-weights
# misconception: every BatchNorm has weights
# fails: test_folded_layers_of_every_kind, test_originals_stay_as_they_were
# says: Convolutions and BatchNorms of every kind
def fold_batchnorm(conv, norm):
    if norm.training or norm.running_mean is None:
        raise ValueError("the BatchNorm depends on the batch")
    folded = copy.deepcopy(conv)
    gamma, beta = norm.weight, norm.bias
    with torch.no_grad():
        scale = gamma / torch.sqrt(norm.running_var + norm.eps)
        bias = 0.0 if conv.bias is None else conv.bias
        shift = beta + (bias - norm.running_mean) * scale
        folded.weight = nn.Parameter(conv.weight * scale[:, None, None, None])
        folded.bias = nn.Parameter(shift)
    return folded

# %% into-the-layer-itself
# misconception: nobody needs the two layers afterwards
# fails: test_originals_stay_as_they_were
# says: keep values, gradients and modes
def fold_batchnorm(conv, norm):
    if norm.training or norm.running_mean is None:
        raise ValueError("the BatchNorm depends on the batch")
    folded = conv
    gamma = torch.ones_like(norm.running_var) if norm.weight is None else norm.weight
    beta = torch.zeros_like(norm.running_var) if norm.bias is None else norm.bias
    with torch.no_grad():
        scale = gamma / torch.sqrt(norm.running_var + norm.eps)
        bias = torch.zeros_like(gamma) if conv.bias is None else conv.bias
        shift = beta + (bias - norm.running_mean) * scale
        folded.weight = nn.Parameter(conv.weight * scale[:, None, None, None])
        folded.bias = nn.Parameter(shift)
    return folded

# %% a-shallow-copy
# misconception: copy.copy makes a layer of its own
# fails: test_originals_stay_as_they_were
# says: keep values, gradients and modes
def fold_batchnorm(conv, norm):
    if norm.training or norm.running_mean is None:
        raise ValueError("the BatchNorm depends on the batch")
    folded = copy.copy(conv)
    gamma = torch.ones_like(norm.running_var) if norm.weight is None else norm.weight
    beta = torch.zeros_like(norm.running_var) if norm.bias is None else norm.bias
    with torch.no_grad():
        scale = gamma / torch.sqrt(norm.running_var + norm.eps)
        bias = torch.zeros_like(gamma) if conv.bias is None else conv.bias
        shift = beta + (bias - norm.running_mean) * scale
        folded.weight = nn.Parameter(conv.weight * scale[:, None, None, None])
        folded.bias = nn.Parameter(shift)
    return folded

# %% train-mode-is-no-matter
# misconception: the running statistics are there in train mode as well
# fails: test_a_norm_that_keeps_no_statistics, test_in_the_middle_of_training, test_what_depends_on_the_batch_is_refused
# says: was folded
def fold_batchnorm(conv, norm):
    folded = copy.deepcopy(conv)
    gamma = torch.ones_like(norm.running_var) if norm.weight is None else norm.weight
    beta = torch.zeros_like(norm.running_var) if norm.bias is None else norm.bias
    with torch.no_grad():
        scale = gamma / torch.sqrt(norm.running_var + norm.eps)
        bias = torch.zeros_like(gamma) if conv.bias is None else conv.bias
        shift = beta + (bias - norm.running_mean) * scale
        folded.weight = nn.Parameter(conv.weight * scale[:, None, None, None])
        folded.bias = nn.Parameter(shift)
    return folded

# %% only-the-mode-counts
# misconception: a BatchNorm in eval mode has running statistics
# fails: test_a_norm_that_keeps_no_statistics, test_what_depends_on_the_batch_is_refused
# says: A BatchNorm in train mode, or one that keeps no running statistics
def fold_batchnorm(conv, norm):
    if norm.training:
        raise ValueError("the BatchNorm is in train mode")
    folded = copy.deepcopy(conv)
    gamma = torch.ones_like(norm.running_var) if norm.weight is None else norm.weight
    beta = torch.zeros_like(norm.running_var) if norm.bias is None else norm.bias
    with torch.no_grad():
        scale = gamma / torch.sqrt(norm.running_var + norm.eps)
        bias = torch.zeros_like(gamma) if conv.bias is None else conv.bias
        shift = beta + (bias - norm.running_mean) * scale
        folded.weight = nn.Parameter(conv.weight * scale[:, None, None, None])
        folded.bias = nn.Parameter(shift)
    return folded

# %% both-in-eval-mode
# misconception: a convolution in train mode computes something else
# fails: test_a_channel_that_never_varied, test_a_convolution_that_goes_round, test_a_convolution_with_a_bias, test_a_convolution_without_a_bias, test_folded_layers_of_every_kind, test_originals_stay_as_they_were, test_quiet_channels
# says: Convolutions and BatchNorms of every kind
def fold_batchnorm(conv, norm):
    if conv.training or norm.training or norm.running_mean is None:
        raise ValueError("both have to be in eval mode")
    folded = copy.deepcopy(conv)
    gamma = torch.ones_like(norm.running_var) if norm.weight is None else norm.weight
    beta = torch.zeros_like(norm.running_var) if norm.bias is None else norm.bias
    with torch.no_grad():
        scale = gamma / torch.sqrt(norm.running_var + norm.eps)
        bias = torch.zeros_like(gamma) if conv.bias is None else conv.bias
        shift = beta + (bias - norm.running_mean) * scale
        folded.weight = nn.Parameter(conv.weight * scale[:, None, None, None])
        folded.bias = nn.Parameter(shift)
    return folded

# %% settings-left-out
# misconception: stride, padding and groups are all there is to a convolution
# fails: test_a_convolution_that_goes_round, test_folded_layers_of_every_kind
# says: Convolutions and BatchNorms of every kind
def fold_batchnorm(conv, norm):
    if norm.training or norm.running_mean is None:
        raise ValueError("the BatchNorm depends on the batch")
    folded = nn.Conv2d(
        conv.in_channels, conv.out_channels, conv.kernel_size, conv.stride, conv.padding, groups=conv.groups
    )
    gamma = torch.ones_like(norm.running_var) if norm.weight is None else norm.weight
    beta = torch.zeros_like(norm.running_var) if norm.bias is None else norm.bias
    with torch.no_grad():
        scale = gamma / torch.sqrt(norm.running_var + norm.eps)
        bias = torch.zeros_like(gamma) if conv.bias is None else conv.bias
        shift = beta + (bias - norm.running_mean) * scale
        folded.weight = nn.Parameter(conv.weight * scale[:, None, None, None])
        folded.bias = nn.Parameter(shift)
    return folded

# %% one-after-the-other
# misconception: two layers in a row are one layer
# fails: test_a_channel_that_never_varied, test_a_convolution_with_a_bias, test_a_convolution_without_a_bias, test_originals_stay_as_they_were
# says: Convolution and BatchNorm keep values
def fold_batchnorm(conv, norm):
    if norm.training or norm.running_mean is None:
        raise ValueError("the BatchNorm depends on the batch")
    folded = nn.Sequential(copy.deepcopy(conv), copy.deepcopy(norm))
    folded.weight, folded.bias = folded[0].weight, norm.bias
    return folded

# %% frozen
# misconception: a layer that is served is not trained
# fails: test_originals_stay_as_they_were
# says: keep values, gradients and modes
def fold_batchnorm(conv, norm):
    if norm.training or norm.running_mean is None:
        raise ValueError("the BatchNorm depends on the batch")
    folded = copy.deepcopy(conv)
    gamma = torch.ones_like(norm.running_var) if norm.weight is None else norm.weight
    beta = torch.zeros_like(norm.running_var) if norm.bias is None else norm.bias
    with torch.no_grad():
        scale = gamma / torch.sqrt(norm.running_var + norm.eps)
        bias = torch.zeros_like(gamma) if conv.bias is None else conv.bias
        shift = beta + (bias - norm.running_mean) * scale
        folded.weight = nn.Parameter(conv.weight * scale[:, None, None, None])
        folded.bias = nn.Parameter(shift)
    return folded.requires_grad_(False)

# %% in-float32
# misconception: float32 is exact enough for weights
# fails: test_folded_layers_of_every_kind
# says: Convolutions and BatchNorms of every kind
def fold_batchnorm(conv, norm):
    if norm.training or norm.running_mean is None:
        raise ValueError("the BatchNorm depends on the batch")
    folded = copy.deepcopy(conv)
    gamma = torch.ones_like(norm.running_var) if norm.weight is None else norm.weight
    beta = torch.zeros_like(norm.running_var) if norm.bias is None else norm.bias
    with torch.no_grad():
        scale = (gamma / torch.sqrt(norm.running_var + norm.eps)).float().to(gamma.dtype)
        bias = torch.zeros_like(gamma) if conv.bias is None else conv.bias
        shift = beta + (bias - norm.running_mean) * scale
        folded.weight = nn.Parameter(conv.weight * scale[:, None, None, None])
        folded.bias = nn.Parameter(shift)
    return folded
