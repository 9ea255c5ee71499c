"""Reference implementations of exercise 3, written for clarity: sample by sample where that is clearest."""

import math

import torch
import torch.nn.functional as F
from torch import nn

_BATCH_NORMS = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d)


class Block(nn.Module):
    """See the notebook."""

    def __init__(self, width):
        super().__init__()
        self.linear = nn.Linear(width, width, bias=False)
        self.norm = nn.BatchNorm1d(width)
        self.dropout = nn.Dropout(0.1)

    def forward(self, x):
        return x + self.dropout(F.relu(self.norm(self.linear(x))))


class Classifier(nn.Module):
    """See the notebook."""

    def __init__(self, n_blocks, width, mean, std, n_classes=10):
        super().__init__()
        self.register_buffer("mean", mean.clone())
        self.register_buffer("std", std.clone())
        blocks = [Block(width) for _ in range(n_blocks)]
        self.layers = nn.Sequential(nn.Linear(64, width), *blocks, nn.Linear(width, n_classes))

    def forward(self, images):
        return self.layers((images - self.mean) / self.std)


def train_one_epoch(model, batches, optimiser, accumulate, max_norm):
    """See the notebook."""
    model.train()
    losses = []
    for first in range(0, len(batches), accumulate):
        group = batches[first : first + accumulate]
        n_samples = sum(len(labels) for _, labels in group)
        optimiser.zero_grad()
        for images, labels in group:
            loss_per_sample = F.cross_entropy(model(images), labels, reduction="none")
            (loss_per_sample.sum() / n_samples).backward()
            losses.append(loss_per_sample.detach())
        nn.utils.clip_grad_norm_(model.parameters(), max_norm)
        optimiser.step()
    return torch.cat(losses).mean().item()


def validate(model, batches):
    """See the notebook."""
    modes = {module: module.training for module in model.modules()}
    model.eval()
    with torch.no_grad():
        scores = torch.cat([model(images) for images, _ in batches])
    for module, training in modes.items():
        module.training = training
    labels = torch.cat([labels for _, labels in batches])
    n_right = sum(int(row.argmax()) == int(label) for row, label in zip(scores, labels, strict=True))
    return {"loss": F.cross_entropy(scores, labels).item(), "accuracy": n_right / len(labels)}


def make_optimiser(model, lr, weight_decay):
    """See the notebook."""
    kinds = (nn.Linear, nn.Conv1d, nn.Conv2d, nn.Conv3d, nn.Embedding)
    weights = {module.weight for module in model.modules() if isinstance(module, kinds)}
    trainable = [parameter for parameter in model.parameters() if parameter.requires_grad]
    groups = [
        {"params": [parameter], "weight_decay": weight_decay if parameter in weights else 0.0}
        for parameter in trainable
    ]
    return torch.optim.AdamW(groups, lr=lr)


def rate_factor(step, n_epochs, steps_per_epoch, n_warmup, floor):
    """The factor of `make_scheduler` for a step, counted from 1."""
    last = n_epochs * steps_per_epoch
    if step <= n_warmup:
        return step / n_warmup
    if step > last:
        return floor
    return floor + (1 - floor) * (1 + math.cos(math.pi * (step - n_warmup) / (last - n_warmup))) / 2


def class_report(predictions, labels, n_classes):
    """See the notebook."""
    pairs = list(zip(labels.tolist(), predictions.tolist(), strict=True))
    confusion = [[pairs.count((true, predicted)) for predicted in range(n_classes)] for true in range(n_classes)]
    recall, f1 = [], []
    for c in range(n_classes):
        labelled = sum(true == c for true, _ in pairs)
        predicted = sum(guess == c for _, guess in pairs)
        recall.append(confusion[c][c] / labelled if labelled else float("nan"))
        f1.append(2 * confusion[c][c] / (labelled + predicted) if labelled + predicted else float("nan"))
    return {
        "confusion": torch.tensor(confusion),
        "recall": torch.tensor(recall),
        "f1": torch.tensor(f1),
        "accuracy": sum(true == guess for true, guess in pairs) / len(pairs),
        "balanced_accuracy": _mean_of_numbers(recall),
        "macro_f1": _mean_of_numbers(f1),
    }


def _mean_of_numbers(values):
    numbers = [value for value in values if value == value]  # nan is not equal to itself
    return sum(numbers) / len(numbers)


def refresh_statistics(model, batches):
    """See the notebook. Looks at what comes into each layer, and works out the statistics by hand."""
    layers = [module for module in model.modules() if isinstance(module, _BATCH_NORMS)]
    modes = [(module, module.training) for module in model.modules()]
    means = {layer: [] for layer in layers}
    variances = {layer: [] for layer in layers}

    def look(layer, args):
        values = args[0].transpose(0, 1).flatten(1)  # (C, everything else)
        means[layer].append(values.mean(1))
        variances[layer].append(values.var(1))

    hooks = [layer.register_forward_pre_hook(look) for layer in layers]
    model.eval()
    for layer in layers:
        layer.train()
    with torch.no_grad():
        for batch in batches:
            model(batch)
        for layer in layers:
            layer.running_mean.copy_(sum(means[layer]) / len(means[layer]))
            layer.running_var.copy_(sum(variances[layer]) / len(variances[layer]))
            layer.num_batches_tracked.fill_(len(means[layer]))
    for hook in hooks:
        hook.remove()
    for module, mode in modes:
        module.training = mode


class FineTuned(nn.Module):
    """See the notebook. Puts the BatchNorm layers into eval mode right before each use."""

    def __init__(self, body, n_features, n_classes):
        super().__init__()
        self.body = body
        self.head = nn.Linear(n_features, n_classes)

    def forward(self, x):
        """The head's logits."""
        for module in self.body.modules():
            if isinstance(module, _BATCH_NORMS):
                module.training = False
        return self.head(self.body(x))

    def parameter_groups(self, lr_body, lr_head):
        """See the notebook."""
        return [
            {"params": list(self.body.parameters()), "lr": lr_body},
            {"params": list(self.head.parameters()), "lr": lr_head},
        ]


def pooled_states(rnn, sequences, limit):
    """See the notebook. One sequence at a time, so there is no padding."""
    rows = []
    for sequence in sequences:
        states, _ = rnn(sequence[None, :limit])
        rows.append(states[0].mean(0))
    return torch.stack(rows)
