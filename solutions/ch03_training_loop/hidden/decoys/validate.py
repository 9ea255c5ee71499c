# %% every-batch-by-itself
def validate(model, batches):
    n = sum(len(labels) for _, labels in batches)
    loss = accuracy = 0.0
    for images, labels in batches:
        modes = [(module, module.training) for module in model.modules()]
        model.eval()  # in each round, as the modes are put back in each
        with torch.no_grad():
            scores = model(images)
        for module, training in modes:
            module.train(training)
        # means of batches, but each weighed by its share of the samples
        loss += F.cross_entropy(scores, labels).item() * len(labels) / n
        accuracy += (scores.argmax(dim=1) == labels).float().mean().item() * len(labels) / n
    return {"loss": loss, "accuracy": accuracy}


# %% gradients-switched-off-and-on-by-hand
def validate(model, batches):
    modes = {module: module.training for module in model.modules()}
    model.train()
    model.eval()
    enabled = torch.is_grad_enabled()
    torch.set_grad_enabled(False)
    loss, correct, n = 0.0, 0, 0
    for images, labels in batches:
        scores = model(images)
        loss += F.cross_entropy(scores, labels, reduction="sum").item()
        correct += (scores.softmax(dim=1).argmax(dim=1) == labels).sum().item()  # the order is that of the scores
        n += len(labels)
    torch.set_grad_enabled(enabled)
    for module, training in modes.items():
        module.training = training
    return {"loss": loss / n, "accuracy": correct / n}
