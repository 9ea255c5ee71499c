# %% torch-has-it
def fold_batchnorm(conv, norm):
    """PyTorch folds as well; what it does not refuse is refused here."""
    from torch.nn.utils.fusion import fuse_conv_bn_eval

    if norm.training or not norm.track_running_stats:
        raise ValueError("a BatchNorm that depends on the batch cannot be folded")
    return fuse_conv_bn_eval(copy.deepcopy(conv).eval(), norm).requires_grad_()

# %% built-anew
def fold_batchnorm(conv, norm):
    if norm.training:
        raise ValueError("the BatchNorm is in train mode")
    if norm.running_var is None:
        raise ValueError("the BatchNorm keeps no statistics")
    folded = nn.Conv2d(
        conv.in_channels,
        conv.out_channels,
        conv.kernel_size,
        conv.stride,
        conv.padding,
        conv.dilation,
        conv.groups,
        bias=True,
        padding_mode=conv.padding_mode,
        device=conv.weight.device,
        dtype=conv.weight.dtype,
    )
    scale = torch.rsqrt(norm.running_var.detach().double() + norm.eps)
    shift = -norm.running_mean.detach().double() * scale
    if conv.bias is not None:
        shift = shift + conv.bias.detach().double() * scale
    if norm.affine:
        scale = scale * norm.weight.detach().double()
        shift = shift * norm.weight.detach().double() + norm.bias.detach().double()
    folded.weight.data.copy_(torch.einsum("o,oikl->oikl", scale, conv.weight.detach().double()))
    folded.bias.data.copy_(shift)
    return folded

# %% asked-instead-of-computed
@torch.no_grad()
def fold_batchnorm(conv, norm):
    """What the BatchNorm makes of 0 and of the convolution's bias is all there is to know."""
    if norm.training or norm.running_mean is None:
        raise ValueError("not in eval mode, or without statistics")
    n = conv.out_channels
    at_zero = norm(conv.weight.new_zeros(1, n, 1, 1)).flatten()
    mean = norm.running_mean.view(1, n, 1, 1)
    scale = (norm(mean + 1) - norm(mean)).flatten()
    folded = copy.deepcopy(conv)
    folded.weight = nn.Parameter(conv.weight * scale.view(n, 1, 1, 1))
    folded.bias = nn.Parameter(at_zero if conv.bias is None else norm(conv.bias.view(1, n, 1, 1)).flatten())
    return folded

# %% copied-and-multiplied
def fold_batchnorm(conv, norm):
    if norm.training or norm.running_mean is None:
        raise ValueError("this BatchNorm looks at the batch")
    folded = copy.deepcopy(conv).requires_grad_()
    deviation = (norm.running_var + norm.eps) ** 0.5
    with torch.no_grad():
        scale = 1 / deviation if norm.weight is None else norm.weight / deviation
        if folded.bias is None:
            folded.bias = nn.Parameter(torch.zeros_like(deviation))
        folded.weight *= scale.reshape(-1, 1, 1, 1)
        folded.bias -= norm.running_mean
        folded.bias *= scale
        if norm.bias is not None:
            folded.bias += norm.bias
    folded.zero_grad()
    return folded
