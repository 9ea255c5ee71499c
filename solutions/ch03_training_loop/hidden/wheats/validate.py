# %% inference-mode-and-finally
def validate(model, batches):
    modes = {module: module.training for module in model.modules()}
    model.eval()
    loss, correct, n = 0.0, 0, 0
    try:
        with torch.inference_mode():
            for images, labels in batches:
                scores = model(images)
                loss += float(F.cross_entropy(scores, labels)) * len(labels)
                correct += int((scores.argmax(-1) == labels).sum())
                n += len(labels)
    finally:
        for module, mode in modes.items():
            module.training = mode
    return {"loss": loss / n, "accuracy": correct / n}

# %% all-scores-first
@torch.no_grad()
def validate(model, batches):
    were_training = [module for module in model.modules() if module.training]
    for module in were_training:
        module.training = False
    scores = torch.cat([model(images) for images, _ in batches])
    labels = torch.cat([labels for _, labels in batches])
    for module in were_training:
        module.training = True
    return {
        "accuracy": scores.max(dim=1).indices.eq(labels).double().mean().item(),
        "loss": F.cross_entropy(scores, labels).item(),
    }

# %% a-context-manager
from contextlib import contextmanager


@contextmanager
def evaluating(model):
    before = {name: module.training for name, module in model.named_modules()}
    model.train(False)
    try:
        with torch.set_grad_enabled(False):
            yield
    finally:
        for name, module in model.named_modules():
            module.training = before[name]


def validate(model, batches):
    losses, hits = [], []
    with evaluating(model):
        for images, labels in batches:
            scores = model(images)
            losses.append(F.cross_entropy(scores, labels, reduction="none"))
            hits.append(scores.argmax(dim=1) == labels)
    return {"loss": torch.cat(losses).mean().item(), "accuracy": torch.cat(hits).float().mean().item()}

# %% a-copy-of-the-model
import copy


def validate(model, batches):
    """The model itself is not touched at all."""
    twin = copy.deepcopy(model).eval()
    sums = torch.zeros(3, dtype=torch.float64)
    with torch.no_grad():
        for images, labels in batches:
            scores = twin(images)
            wrong = -scores.log_softmax(dim=1).gather(1, labels[:, None])
            sums += torch.stack([wrong.sum(), (scores.argmax(1) == labels).sum(), torch.tensor(len(labels))]).double()
    loss, right, n = sums.tolist()
    return dict(loss=loss / n, accuracy=right / n)

# %% modes-put-back-from-the-root
def validate(model, batches):
    modes = [(m, m.training) for m in model.modules()]
    model.eval()
    total = right = count = 0
    with torch.no_grad():
        for x, y in batches:
            logits = model(x)
            total += nn.CrossEntropyLoss(reduction="sum")(logits, y).item()
            right += torch.count_nonzero(logits.argmax(dim=1) == y).item()
            count += y.size(0)
    for m, training in modes:
        m.train(training)
    return {"loss": total / count, "accuracy": right / count}
