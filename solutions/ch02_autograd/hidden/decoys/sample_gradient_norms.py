# %% loops-over-parameters-only
def sample_gradient_norms(model, x, labels):
    parameters = {name: p.detach() for name, p in model.named_parameters() if p.requires_grad}

    def loss(parameters, sample, label):
        return F.cross_entropy(torch.func.functional_call(model, parameters, (sample[None],)), label[None])

    gradients = torch.func.vmap(torch.func.grad(loss), in_dims=(None, 0, 0))(parameters, x, labels)
    squares = x.new_zeros(len(x))
    for name in gradients:  # a few parameters, not many samples
        squares += gradients[name].flatten(1).square().sum(1)
    return squares.sqrt()

# %% mean-loss-of-one
def sample_gradient_norms(model, x, labels):
    parameters = {name: p.detach() for name, p in model.named_parameters() if p.requires_grad}

    def loss(parameters, sample, label):
        logits = torch.func.functional_call(model, parameters, (sample[None],))
        return F.cross_entropy(logits, label[None], reduction="mean")  # the mean of one

    gradients = torch.func.vmap(torch.func.grad(loss), in_dims=(None, 0, 0), chunk_size=64)(parameters, x, labels)
    return sum(g.flatten(1).square().sum(1) for g in gradients.values()).sqrt()
