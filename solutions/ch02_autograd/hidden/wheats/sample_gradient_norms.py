# %% vmap-one-argument-at-a-time
from torch.func import functional_call, grad, vmap


def sample_gradient_norms(model, x, labels):
    trainable = {k: v for k, v in model.named_parameters() if v.requires_grad}

    def loss(trainable, sample, label):
        logits = functional_call(model, trainable, sample.unsqueeze(0)).squeeze(0)
        return -torch.log_softmax(logits, dim=0).gather(0, label[None]).sum()

    per_sample = vmap(grad(loss), in_dims=(None, 0, 0))(trainable, x.detach(), labels)
    flat = torch.cat([g.reshape(len(x), -1) for g in per_sample.values()], dim=1)
    return flat.norm(dim=1)

# %% batched-cotangents
def sample_gradient_norms(model, x, labels):
    parameters = [p for p in model.parameters() if p.requires_grad]
    losses = F.cross_entropy(model(x), labels, reduction="none")
    one_each = torch.eye(len(x), dtype=losses.dtype, device=losses.device)
    gradients = torch.autograd.grad(losses, parameters, one_each, is_grads_batched=True)
    return sum(g.flatten(1).pow(2).sum(1) for g in gradients).sqrt()

# %% jacrev
def sample_gradient_norms(model, x, labels):
    weights = {name: p.detach() for name, p in model.named_parameters() if p.requires_grad}

    def losses(weights):
        return F.cross_entropy(torch.func.functional_call(model, weights, (x,)), labels, reduction="none")

    jacobian = torch.func.jacrev(losses)(weights)
    squared = torch.zeros(len(x), dtype=x.dtype, device=x.device)
    for part in jacobian.values():
        squared += torch.linalg.vector_norm(part.flatten(1), dim=1) ** 2
    return squared**0.5

# %% formula-with-hooks
def sample_gradient_norms(model, x, labels):
    """A linear layer's gradient is an outer product, whose norm is the product of two norms."""
    seen = []

    def remember(module, args, output):
        seen.append((module, args[0].detach(), output))

    handles = [m.register_forward_hook(remember) for m in model.modules() if isinstance(m, nn.Linear)]
    try:
        loss = F.cross_entropy(model(x), labels, reduction="sum")
    finally:
        for handle in handles:
            handle.remove()
    seen = [entry for entry in seen if entry[2].requires_grad]
    errors = torch.autograd.grad(loss, [output for _, _, output in seen])
    total = torch.zeros(len(x), dtype=x.dtype, device=x.device)
    for (layer, given, _), error in zip(seen, errors):
        square = (error**2).sum(1)
        if layer.weight.requires_grad:
            total = total + square * (given**2).sum(1)
        if layer.bias is not None and layer.bias.requires_grad:
            total = total + square
    return total.sqrt()

# %% frozen-ones-apart
from torch.func import functional_call


def split(model):
    trained, fixed = {}, {}
    for name, p in model.named_parameters():
        (trained if p.requires_grad else fixed)[name] = p.detach().clone()
    return trained, fixed


def sample_gradient_norms(model, x, labels):
    trained, fixed = split(model)

    def one(trained, image, label):
        scores = functional_call(model, (trained, fixed), args=(image[None, :],))
        return F.cross_entropy(scores, label[None], reduction="sum")

    def norm_of_one(image, label):
        gradient = torch.func.grad(one)(trained, image, label)
        return torch.stack([g.square().sum() for g in gradient.values()]).sum().sqrt()

    return torch.vmap(norm_of_one)(x, labels)

# %% in-chunks
def sample_gradient_norms(model, x, labels):
    names, values = zip(*[(name, p) for name, p in model.named_parameters() if p.requires_grad])

    def loss(values, sample, label):
        logits = torch.func.functional_call(model, dict(zip(names, values)), sample[None])
        return F.nll_loss(F.log_softmax(logits, -1), label[None])

    norms = []
    for some, their_labels in zip(x.split(32), labels.split(32)):
        found = torch.func.vmap(torch.func.grad(loss), (None, 0, 0))(values, some, their_labels)
        norms.append(torch.cat([g.flatten(1) for g in found], 1).norm(dim=1).detach())
    return torch.cat(norms)
