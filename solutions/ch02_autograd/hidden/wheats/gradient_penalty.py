# %% one-sample-at-a-time
def gradient_penalty(model, x, labels):
    squares = []
    for sample, label in zip(x.detach(), labels):
        pixels = sample.unsqueeze(0).requires_grad_(True)
        loss = F.cross_entropy(model(pixels), label.unsqueeze(0))
        gradient = torch.autograd.grad(loss, pixels, create_graph=True)[0]
        squares.append(gradient.pow(2).sum())
    return torch.stack(squares).mean()

# %% vmap-of-grad
from torch.func import functional_call, grad, vmap


def gradient_penalty(model, x, labels):
    parameters = dict(model.named_parameters())

    def loss(sample, label):
        return F.cross_entropy(functional_call(model, parameters, (sample[None],)), label[None])

    gradients = vmap(grad(loss))(x.detach(), labels)
    return (gradients.reshape(len(x), -1) ** 2).sum(dim=1).mean()

# %% from-log-probabilities
def gradient_penalty(model: nn.Module, x: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """The cotangent of ones pulls each sample's own loss back."""
    pixels = x.detach().clone()
    pixels.requires_grad = True
    picked = model(pixels).log_softmax(dim=-1).gather(1, labels[:, None]).squeeze(1)
    (gradient,) = torch.autograd.grad(-picked, pixels, grad_outputs=torch.ones_like(picked), create_graph=True)
    penalty = torch.linalg.vector_norm(gradient) ** 2 / x.shape[0]
    print("penalty", penalty.item())
    return penalty

# %% backward-into-the-input-only
import warnings


def gradient_penalty(model, x, labels):
    pixels = x.clone().detach().requires_grad_()
    loss = F.cross_entropy(model(pixels), labels, reduction="none").sum()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        loss.backward(inputs=[pixels], create_graph=True)
    gradient = pixels.grad
    pixels.grad = None
    return gradient.square().flatten(start_dim=1).sum(dim=1).mean()

# %% mean-undone
def gradient_penalty(model, x, labels):
    n = x.size(0)
    pixels = x.detach().requires_grad_()
    with torch.enable_grad():
        loss = F.cross_entropy(model(pixels), labels)
        (g,) = torch.autograd.grad(loss, [pixels], retain_graph=True, create_graph=True)
    return torch.einsum("nd,nd->n", (n * g).reshape(n, -1), (n * g).reshape(n, -1)).mean()

# %% jacobian-of-the-losses
def gradient_penalty(model, x, labels):
    def losses(pixels):
        return F.cross_entropy(model(pixels), labels, reduction="sum")

    gradient = torch.autograd.functional.jacobian(losses, x.detach(), create_graph=True)
    return (gradient * gradient).sum() / len(x)

# %% input-borrowed-and-given-back
def gradient_penalty(model, x, labels):
    had = x.requires_grad
    if not had:
        x.requires_grad_(True)
    try:
        loss = F.cross_entropy(model(x), labels, reduction="sum")
        gradient = torch.autograd.grad(loss, x, create_graph=True)[0]
    finally:
        if not had:
            x.requires_grad_(False)
    return gradient.reshape(len(x), -1).norm(dim=1).pow(2).mean()
