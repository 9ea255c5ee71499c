"""Reference implementations of exercise 2, written for clarity: row by row and sample by sample."""

import torch
from torch.nn import functional as F


def student_forward(x, weights, biases):
    """What the student of the notebook computes: logits and features, from its weights in order, the head's last."""
    for weight, bias in zip(weights[:-2], biases[:-2], strict=True):
        x = torch.tanh(x @ weight.T + bias)
    features = x @ weights[-2].T + biases[-2]
    rectified = torch.where(features > 0, features, torch.zeros_like(features))
    return rectified @ weights[-1].T + biases[-1], features


def hint_loss(student_features, teacher_features, keep):
    """See the notebook. Row by row; a row without length has no direction, and an angle without rows no gradient."""
    distances = []
    for student, teacher in zip(student_features, teacher_features.detach(), strict=True):
        student, teacher = student[keep], teacher[keep]
        if student.any():
            student = student / torch.sqrt(torch.dot(student, student))
        if teacher.any():
            teacher = teacher / torch.sqrt(torch.dot(teacher, teacher))
        difference = student - teacher
        distances.append(torch.sqrt(torch.dot(difference, difference)) if difference.any() else 0 * difference.sum())
    return torch.stack(distances)


def distillation_loss(student_logits, teacher_logits, temperature):
    """See the notebook."""
    log_q = torch.log_softmax(student_logits / temperature, dim=1)
    log_p = torch.log_softmax(teacher_logits.detach() / temperature, dim=1)
    return temperature**2 * torch.sum(log_p.exp() * (log_p - log_q), dim=1)


def network(weights, x):
    """A network of linear layers with tanh between them; weights: [W1, b1, W2, b2, ...]."""
    for i in range(0, len(weights), 2):
        x = (torch.tanh(x) if i else x) @ weights[i].T + weights[i + 1]
    return x


def leaves(weights):
    """Copies in float64 that gradients can be taken for."""
    return [weight.detach().double().requires_grad_() for weight in weights]


def statistics(batches):
    """What FeatureLog should say about the rows of these batches."""
    rows = torch.cat([batch.double() for batch in batches])
    return {"rows": len(rows), "mean": rows.mean(0), "std": rows.std(0, correction=0)}


def distil(student, teacher, batches, lr, loss):
    """See the notebook. Networks are lists of weights whose last two are the head; also returns the student's."""
    teacher = [weight.double() for weight in teacher]
    student = leaves([*teacher[:-2], *student[-2:]])
    losses = []
    for x in batches:
        value = loss(network(student, x.double()), network(teacher, x.double()))
        gradients = torch.autograd.grad(value, student)
        student = leaves([p - lr * g for p, g in zip(student, gradients, strict=True)])
        losses.append(value.item())
    return losses, [p.detach() for p in student]


def gradient_penalty(model, x, labels):
    """See the notebook; one sample at a time."""
    penalty = 0.0
    for sample, label in zip(x, labels, strict=True):
        sample = sample[None].detach().requires_grad_()
        loss = F.cross_entropy(model(sample), label[None])
        (gradient,) = torch.autograd.grad(loss, sample, create_graph=True)
        penalty = penalty + (gradient**2).sum()
    return penalty / len(x)


def sample_gradient_norms(weights, x, labels, trainable):
    """See the notebook; one sample at a time, with respect to the weights that are marked in `trainable`."""
    weights = leaves(weights)
    wanted = [weight for weight, counts in zip(weights, trainable, strict=True) if counts]
    norms = []
    for sample, label in zip(x.double(), labels, strict=True):
        loss = F.cross_entropy(network(weights, sample[None]), label[None])
        gradients = torch.autograd.grad(loss, wanted)
        norms.append(torch.cat([gradient.flatten() for gradient in gradients]).norm())
    return torch.stack(norms)
