# %% a-copy-in-eval-mode
def fold_batchnorm(conv, norm):
    if norm.training or norm.running_mean is None:
        raise ValueError("the BatchNorm depends on the batch")
    norm = copy.deepcopy(norm).eval()  # of the copy, which is in eval mode already
    conv = copy.deepcopy(conv)  # from here on `conv` is the new one, and may be written to
    gamma = norm.weight if norm.affine else 1.0
    beta = norm.bias if norm.affine else 0.0
    with torch.no_grad():
        scale = gamma * (norm.running_var + norm.eps).pow(-0.5)
        before = 0.0 if conv.bias is None else conv.bias
        conv.bias = nn.Parameter(scale * (before - norm.running_mean) + beta)
        conv.weight.mul_(scale[:, None, None, None])
    return conv

# %% the-bias-first
def fold_batchnorm(conv, norm):
    if norm.training or norm.running_mean is None:
        raise ValueError("the BatchNorm depends on the batch")
    with torch.no_grad():
        # the bias does not occur again below: it has become part of the mean
        mean = norm.running_mean if conv.bias is None else norm.running_mean - conv.bias
        scale = 1 / torch.sqrt(norm.running_var + norm.eps)
        scale = scale if norm.weight is None else scale * norm.weight
        shift = -mean * scale if norm.bias is None else norm.bias - mean * scale
        folded = copy.deepcopy(conv)
        folded.weight, folded.bias = nn.Parameter(scale.view(-1, 1, 1, 1) * conv.weight), nn.Parameter(shift)
    return folded
