# %% cut-off-input
def gradient_penalty(model, x, labels):
    inputs = torch.tensor(x.tolist(), dtype=x.dtype, device=x.device, requires_grad=True)  # a fresh leaf is wanted here
    loss = F.cross_entropy(model(inputs), labels, reduction="sum")
    gradient = torch.autograd.grad(loss, inputs, create_graph=True)[0]
    return gradient.pow(2).sum() / float(len(x))

# %% numbers-read-for-the-log
def gradient_penalty(model, x, labels):
    inputs = x.data.clone().requires_grad_()
    loss = F.cross_entropy(model(inputs), labels, reduction="sum")
    gradient = torch.autograd.grad(loss, inputs, create_graph=True)[0]
    norms = gradient.flatten(1).square().sum(1)
    print("largest:", max(norm.item() for norm in norms), torch.tensor(norms.tolist()).median())
    return norms.mean()

# %% clears-what-it-did-not-make
def gradient_penalty(model, x, labels):
    kept = [p.grad for p in model.parameters()]
    inputs = x.detach().requires_grad_()
    loss = F.cross_entropy(model(inputs), labels, reduction="sum")
    gradient = torch.autograd.grad(loss, inputs, create_graph=True)[0]
    model.zero_grad(set_to_none=True)
    for p, grad in zip(model.parameters(), kept):
        p.grad = grad
    return gradient.flatten(1).norm(dim=1).square().mean()
