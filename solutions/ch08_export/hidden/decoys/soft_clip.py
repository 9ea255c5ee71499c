# %% hardtanh-for-the-values
def soft_clip(x, limit):
    # its gradient would be zero at the limits, but only its values are used
    values = F.hardtanh(x.detach(), -limit, limit)
    pull = torch.where(x.abs() > limit, x / 10, x)
    return values + (pull - pull.detach())

# %% two-gradients-that-add-up
def soft_clip(x, limit):
    clipped = torch.clamp(x, -limit, limit)
    shadow = 0.1 * x
    # inside 0.9 of the one and 0.1 of the other; outside nothing of the first
    return clipped.detach() + 0.9 * (clipped - clipped.detach()) + (shadow - shadow.detach())
