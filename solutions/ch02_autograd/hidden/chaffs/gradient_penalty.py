# %% graph-retained
# misconception: retain_graph keeps the gradient differentiable
# fails: test_gradients_of_the_penalty, test_penalty_beside_another_loss, test_penalty_of_pictures, test_penalty_pulls_at_the_weights
# says: the penalty is w * w / 4
def gradient_penalty(model, x, labels):
    inputs = x.detach().requires_grad_()
    loss = F.cross_entropy(model(inputs), labels, reduction="sum")
    (gradient,) = torch.autograd.grad(loss, inputs, retain_graph=True)
    return gradient.flatten(1).square().sum(1).mean()


# %% numbers-put-together-again
# misconception: torch.tensor of a list of tensors keeps their graph
# fails: test_gradients_of_the_penalty, test_penalty_beside_another_loss, test_penalty_of_pictures, test_penalty_pulls_at_the_weights
# says: changes the gradients of the sum by the right amount
def gradient_penalty(model, x, labels):
    inputs = x.detach().requires_grad_()
    loss = F.cross_entropy(model(inputs), labels, reduction="sum")
    (gradient,) = torch.autograd.grad(loss, inputs, create_graph=True)
    return torch.tensor([float((row**2).sum()) for row in gradient], dtype=x.dtype).mean()


# %% gradient-switched-on-again
# misconception: requires_grad_() reconnects a tensor to what it was computed from
# fails: test_gradients_of_the_penalty, test_penalty_beside_another_loss, test_penalty_of_pictures, test_penalty_pulls_at_the_weights
# says: The penalty's own gradients arrive in the parameters
def gradient_penalty(model, x, labels):
    inputs = x.detach().requires_grad_()
    loss = F.cross_entropy(model(inputs), labels, reduction="sum")
    (gradient,) = torch.autograd.grad(loss, inputs)
    return gradient.flatten(1).square().sum(1).mean().requires_grad_()


# %% through-backward
# misconception: backward() with a graph is the same as autograd.grad with one
# fails: test_gradients_of_the_penalty, test_nothing_is_left_behind, test_penalty_beside_another_loss, test_penalty_by_hand, test_value_of_the_penalty
# says: Parameters and input are as they were
def gradient_penalty(model, x, labels):
    inputs = x.detach().requires_grad_()
    F.cross_entropy(model(inputs), labels, reduction="sum").backward(create_graph=True)
    return inputs.grad.flatten(1).square().sum(1).mean()


# %% mean-loss
# misconception: the gradient of the mean loss holds each sample's own gradient
# fails: test_gradients_of_the_penalty, test_nothing_is_left_behind, test_penalty_beside_another_loss, test_penalty_by_hand, test_penalty_of_pictures, test_penalty_pulls_at_the_weights, test_value_of_the_penalty
# says: so the penalty is 4
def gradient_penalty(model, x, labels):
    inputs = x.detach().requires_grad_()
    loss = F.cross_entropy(model(inputs), labels)
    (gradient,) = torch.autograd.grad(loss, inputs, create_graph=True)
    return gradient.flatten(1).square().sum(1).mean()


# %% input-marked-in-place
# misconception: requires_grad_() on a function's argument is the function's own business
# fails: test_nothing_is_left_behind, test_gradients_of_the_penalty, test_penalty_beside_another_loss, test_value_of_the_penalty
# says: Parameters and input are as they were
def gradient_penalty(model, x, labels):
    x.requires_grad_()
    loss = F.cross_entropy(model(x), labels, reduction="sum")
    (gradient,) = torch.autograd.grad(loss, x, create_graph=True)
    return gradient.flatten(1).square().sum(1).mean()


# %% gradients-cleared-afterwards
# misconception: who leaves gradients behind should clear them all
# fails: test_gradients_of_the_penalty, test_nothing_is_left_behind, test_penalty_beside_another_loss, test_value_of_the_penalty
# says: Parameters and input are as they were
def gradient_penalty(model, x, labels):
    inputs = x.detach().requires_grad_()
    F.cross_entropy(model(inputs), labels, reduction="sum").backward(create_graph=True)
    penalty = inputs.grad.flatten(1).square().sum(1).mean()
    model.zero_grad()
    return penalty


# %% norms-not-squared
# misconception: a penalty on the norm is a penalty on its square
# fails: test_gradients_of_the_penalty, test_nothing_is_left_behind, test_penalty_beside_another_loss, test_penalty_by_hand, test_penalty_of_pictures, test_penalty_pulls_at_the_weights, test_value_of_the_penalty
# says: so the penalty is 4
def gradient_penalty(model, x, labels):
    inputs = x.detach().requires_grad_()
    loss = F.cross_entropy(model(inputs), labels, reduction="sum")
    (gradient,) = torch.autograd.grad(loss, inputs, create_graph=True)
    return gradient.flatten(1).norm(dim=1).mean()


# %% over-the-first-dimension-only
# misconception: every input is a row of numbers
# fails: test_gradients_of_the_penalty, test_penalty_of_pictures, test_value_of_the_penalty
# says: for inputs of any shape
def gradient_penalty(model, x, labels):
    inputs = x.detach().requires_grad_()
    loss = F.cross_entropy(model(inputs), labels, reduction="sum")
    (gradient,) = torch.autograd.grad(loss, inputs, create_graph=True)
    return gradient.norm(dim=1).square().mean()


# %% detached-model-output
# misconception: the logits are only a stepping stone, so they can be detached
# fails: test_gradients_of_the_penalty, test_penalty_beside_another_loss
# says: changes the gradients of the sum by the right amount
def gradient_penalty(model, x, labels):
    inputs = x.detach().requires_grad_()
    logits = model(inputs)
    error = F.softmax(logits, dim=1).detach() - F.one_hot(labels, logits.shape[1])
    (gradient,) = torch.autograd.grad(logits, inputs, error, create_graph=True)
    return gradient.flatten(1).square().sum(1).mean()


# %% of-the-logits
# misconception: the gradient of the largest logit does as well as that of the loss
# fails: test_gradients_of_the_penalty, test_nothing_is_left_behind, test_penalty_beside_another_loss, test_penalty_by_hand, test_penalty_of_pictures, test_penalty_pulls_at_the_weights, test_value_of_the_penalty
# says: so the penalty is 4
def gradient_penalty(model, x, labels):
    inputs = x.detach().requires_grad_()
    chosen = model(inputs).gather(1, labels[:, None]).sum()
    (gradient,) = torch.autograd.grad(chosen, inputs, create_graph=True)
    return gradient.flatten(1).square().sum(1).mean()
