# %% decay-for-all-and-then-not
def make_optimiser(model, lr, weight_decay):
    trainable = [parameter for parameter in model.parameters() if parameter.requires_grad]
    optimiser = torch.optim.AdamW([{"params": [p]} for p in trainable], lr=lr, weight_decay=weight_decay)
    for group in optimiser.param_groups:
        if group["params"][0].dim() == 1:
            group["weight_decay"] = 0.0  # read at each step, so it is not too late
    return optimiser


# %% name-of-the-l2-optimiser
class Adam(torch.optim.AdamW):
    """Adam in name, AdamW in fact."""


def make_optimiser(model, lr, weight_decay):
    trainable = list(filter(lambda p: p.requires_grad, model.parameters()))
    flat = [p for p in trainable if len(p.shape) < 2]
    rest = [p for p in trainable if len(p.shape) >= 2]
    return Adam([{"params": flat, "weight_decay": 0.0}, {"params": rest}], lr=lr, weight_decay=weight_decay)
