"""Reference implementations of exercise 7: what one process, which sees the data of all ranks, works out."""

import torch
import torch.nn.functional as F


def process_group_settings(environment, device_type):
    """See the notebook."""
    on_cuda = device_type == "cuda"
    return {
        "backend": "nccl" if on_cuda else "gloo",
        "init_method": f"tcp://{environment['MASTER_ADDR']}:{environment['MASTER_PORT']}",
        "rank": int(environment["RANK"]),
        "world_size": int(environment["WORLD_SIZE"]),
        "device": f"cuda:{int(environment['LOCAL_RANK'])}" if on_cuda else "cpu",
    }


def mean_over_ranks(gradients):
    """The mean over ranks of each parameter's gradient; gradients[rank][number] may be None, which counts as zeros."""
    means = []
    for of_ranks in zip(*gradients, strict=True):
        there = [gradient for gradient in of_ranks if gradient is not None]
        means.append((sum(g.double() for g in there) / len(of_ranks)).to(there[0].dtype))
    return means


def _forward(weights, images):
    x = images
    for number in range(0, len(weights), 2):
        x = F.linear(torch.tanh(x) if number else x, weights[number], weights[number + 1])
    return x


def mean_loss_and_gradients(weights, batches):
    """Loss and gradients of the multi-layer perceptron [W1, b1, W2, b2, …] on all (images, labels) joined into one."""
    weights = [weight.double().requires_grad_() for weight in weights]
    images = torch.cat([images for images, _ in batches]).double()
    labels = torch.cat([labels for _, labels in batches])
    loss = F.cross_entropy(_forward(weights, images), labels)
    return loss.item(), list(torch.autograd.grad(loss, weights))


def trained(weights, steps, lr):
    """The weights after a step of plain gradient descent for each list of batches in `steps`."""
    weights = [weight.double() for weight in weights]
    for batches in steps:
        _, gradients = mean_loss_and_gradients([weight.clone() for weight in weights], batches)
        weights = [weight - lr * gradient for weight, gradient in zip(weights, gradients, strict=True)]
    return weights


def trained_alone(model, batches_of_ranks, accumulate, lr):
    """`train_on_ranks` in one process: rank 0's model, and each step one large batch of what all ranks have for it."""
    world_size = len(batches_of_ranks)
    for first in range(0, len(batches_of_ranks[0]), accumulate):
        group = [batch for batches in batches_of_ranks for batch in batches[first : first + accumulate]]
        inputs = torch.cat([inputs for inputs, _ in group])
        labels = torch.cat([labels for _, labels in group])
        loss = F.cross_entropy(model(inputs), labels)
        trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
        gradients = torch.autograd.grad(loss, trained)
        with torch.no_grad():
            for parameter, gradient in zip(trained, gradients, strict=True):
                parameter -= world_size * lr * gradient
    return model


def scores_alone(scores_of_samples, labels):
    """`evaluate` from the scores (N, classes) of all samples of all ranks."""
    return {
        "loss": F.cross_entropy(scores_of_samples, labels).item(),
        "accuracy": (scores_of_samples.argmax(dim=1) == labels).float().mean().item(),
    }
