# %% gradients-off-is-eval
# misconception: no_grad is all that a model needs for being scored
# fails: test_everything_is_as_it_was, test_looking_twice_shows_the_same, test_sizes_of_batches_do_not_matter
# says: its statistics stay as they were
def validate(model, batches):
    modes = [(module, module.training) for module in model.modules()]
    loss = correct = n = 0
    for images, labels in batches:
        with torch.no_grad():
            scores = model(images)
        loss += F.cross_entropy(scores, labels, reduction="sum").item()
        correct += (scores.argmax(dim=1) == labels).sum().item()
        n += len(labels)
    for module, training in modes:
        module.train(training)
    return {"loss": loss / n, "accuracy": correct / n}


# %% train-mode-for-everyone
# misconception: after validation comes training
# fails: test_a_frozen_layer_stays_frozen, test_everything_is_as_it_was
# says: one frozen in eval mode, and its neighbours
def validate(model, batches):
    modes = [(module, module.training) for module in model.modules()]
    model.eval()
    loss = correct = n = 0
    for images, labels in batches:
        with torch.no_grad():
            scores = model(images)
        loss += F.cross_entropy(scores, labels, reduction="sum").item()
        correct += (scores.argmax(dim=1) == labels).sum().item()
        n += len(labels)
    model.train()
    return {"loss": loss / n, "accuracy": correct / n}


# %% mode-of-the-root
# misconception: a model has one mode
# fails: test_a_frozen_layer_stays_frozen, test_everything_is_as_it_was
# says: one frozen in eval mode, and its neighbours
def validate(model, batches):
    training = model.training
    model.eval()
    loss = correct = n = 0
    for images, labels in batches:
        with torch.no_grad():
            scores = model(images)
        loss += F.cross_entropy(scores, labels, reduction="sum").item()
        correct += (scores.argmax(dim=1) == labels).sum().item()
        n += len(labels)
    model.train(training)
    return {"loss": loss / n, "accuracy": correct / n}


# %% left-in-eval-mode
# misconception: whoever trains will call train()
# fails: test_a_frozen_layer_stays_frozen, test_everything_is_as_it_was, test_training_goes_on_afterwards
# says: with all that it is made of
def validate(model, batches):
    model.eval()
    loss = correct = n = 0
    for images, labels in batches:
        with torch.no_grad():
            scores = model(images)
        loss += F.cross_entropy(scores, labels, reduction="sum").item()
        correct += (scores.argmax(dim=1) == labels).sum().item()
        n += len(labels)
    return {"loss": loss / n, "accuracy": correct / n}


# %% dropout-off
# misconception: Dropout is what makes scores vary
# fails: test_everything_is_as_it_was, test_looking_twice_shows_the_same, test_sizes_of_batches_do_not_matter
# says: its statistics stay as they were
def validate(model, batches):
    modes = [(module, module.training) for module in model.modules()]
    for module in model.modules():
        if isinstance(module, nn.Dropout):
            module.eval()
    loss = correct = n = 0
    for images, labels in batches:
        with torch.no_grad():
            scores = model(images)
        loss += F.cross_entropy(scores, labels, reduction="sum").item()
        correct += (scores.argmax(dim=1) == labels).sum().item()
        n += len(labels)
    for module, training in modes:
        module.train(training)
    return {"loss": loss / n, "accuracy": correct / n}


# %% normalisation-frozen
# misconception: only batch normalisation has a second mode that matters
# fails: test_everything_is_as_it_was, test_looking_twice_shows_the_same, test_sizes_of_batches_do_not_matter
# says: gives the same result
def validate(model, batches):
    modes = [(module, module.training) for module in model.modules()]
    for module in model.modules():
        if isinstance(module, nn.BatchNorm1d):
            module.eval()
    loss = correct = n = 0
    for images, labels in batches:
        with torch.no_grad():
            scores = model(images)
        loss += F.cross_entropy(scores, labels, reduction="sum").item()
        correct += (scores.argmax(dim=1) == labels).sum().item()
        n += len(labels)
    for module, training in modes:
        module.train(training)
    return {"loss": loss / n, "accuracy": correct / n}


# %% graph-made
# misconception: eval() turns gradients off
# fails: test_no_graph_and_grad_mode_as_before, test_validation_makes_no_graph
# says: belong to no autograd graph
def validate(model, batches):
    modes = [(module, module.training) for module in model.modules()]
    model.eval()
    loss = correct = n = 0
    for images, labels in batches:
        scores = model(images)
        loss += F.cross_entropy(scores, labels, reduction="sum").item()
        correct += (scores.argmax(dim=1) == labels).sum().item()
        n += len(labels)
    for module, training in modes:
        module.train(training)
    return {"loss": loss / n, "accuracy": correct / n}


# %% detached-afterwards
# misconception: a graph that is let go at once was never there
# fails: test_no_graph_and_grad_mode_as_before, test_validation_makes_no_graph
# says: belong to no autograd graph
def validate(model, batches):
    modes = [(module, module.training) for module in model.modules()]
    model.eval()
    loss = correct = n = 0
    for images, labels in batches:
        scores = model(images).detach()
        loss += F.cross_entropy(scores, labels, reduction="sum").item()
        correct += (scores.argmax(dim=1) == labels).sum().item()
        n += len(labels)
    for module, training in modes:
        module.train(training)
    return {"loss": loss / n, "accuracy": correct / n}


# %% mean-of-batches
# misconception: the mean of batch means is the mean
# fails: test_everything_is_as_it_was, test_sizes_of_batches_do_not_matter, test_two_of_three_are_right
# says: one in the second is wrong
def validate(model, batches):
    modes = [(module, module.training) for module in model.modules()]
    model.eval()
    loss = correct = n = 0
    for images, labels in batches:
        with torch.no_grad():
            scores = model(images)
        loss += F.cross_entropy(scores, labels).item()
        correct += (scores.argmax(dim=1) == labels).float().mean().item()
        n += 1
    for module, training in modes:
        module.train(training)
    return {"loss": loss / n, "accuracy": correct / n}


# %% nominal-size
# misconception: all batches have the size of the first
# fails: test_everything_is_as_it_was, test_sizes_of_batches_do_not_matter, test_two_of_three_are_right
# says: one in the second is wrong
def validate(model, batches):
    modes = [(module, module.training) for module in model.modules()]
    model.eval()
    loss = correct = n = 0
    for images, labels in batches:
        with torch.no_grad():
            scores = model(images)
        loss += F.cross_entropy(scores, labels, reduction="sum").item()
        correct += (scores.argmax(dim=1) == labels).sum().item()
        n += len(batches[0][1])
    for module, training in modes:
        module.train(training)
    return {"loss": loss / n, "accuracy": correct / n}


# %% last-batch-dropped
# misconception: a batch that is not full is no batch
# fails: test_everything_is_as_it_was, test_sizes_of_batches_do_not_matter, test_two_of_three_are_right
# says: one in the second is wrong
def validate(model, batches):
    modes = [(module, module.training) for module in model.modules()]
    model.eval()
    loss = correct = n = 0
    for images, labels in batches:
        if len(labels) < len(batches[0][1]):
            continue
        with torch.no_grad():
            scores = model(images)
        loss += F.cross_entropy(scores, labels, reduction="sum").item()
        correct += (scores.argmax(dim=1) == labels).sum().item()
        n += len(labels)
    for module, training in modes:
        module.train(training)
    return {"loss": loss / n, "accuracy": correct / n}


# %% gradients-on-for-everyone
# misconception: gradients are computed everywhere but in validation
# fails: test_no_graph_and_grad_mode_as_before
# says: gradients are computed where they were before
def validate(model, batches):
    modes = [(module, module.training) for module in model.modules()]
    model.eval()
    torch.set_grad_enabled(False)
    loss = correct = n = 0
    for images, labels in batches:
        scores = model(images)
        loss += F.cross_entropy(scores, labels, reduction="sum").item()
        correct += (scores.argmax(dim=1) == labels).sum().item()
        n += len(labels)
    torch.set_grad_enabled(True)
    for module, training in modes:
        module.train(training)
    return {"loss": loss / n, "accuracy": correct / n}


# %% gradients-left-off
# misconception: switching gradients off holds for this function only
# fails: test_everything_is_as_it_was, test_no_graph_and_grad_mode_as_before
# says: gradients are computed where they were before
def validate(model, batches):
    modes = [(module, module.training) for module in model.modules()]
    model.eval()
    torch.set_grad_enabled(False)
    loss = correct = n = 0
    for images, labels in batches:
        scores = model(images)
        loss += F.cross_entropy(scores, labels, reduction="sum").item()
        correct += (scores.argmax(dim=1) == labels).sum().item()
        n += len(labels)
    for module, training in modes:
        module.train(training)
    return {"loss": loss / n, "accuracy": correct / n}


# %% everything-frozen-and-freed
# misconception: requires_grad_ is the way to switch gradients off and on
# fails: test_everything_is_as_it_was
# says: modes, statistics, parameters, gradients as before
def validate(model, batches):
    modes = [(module, module.training) for module in model.modules()]
    model.eval()
    model.requires_grad_(False)
    loss = correct = n = 0
    for images, labels in batches:
        scores = model(images)
        loss += F.cross_entropy(scores, labels, reduction="sum").item()
        correct += (scores.argmax(dim=1) == labels).sum().item()
        n += len(labels)
    model.requires_grad_(True)
    for module, training in modes:
        module.train(training)
    return {"loss": loss / n, "accuracy": correct / n}


# %% gradients-cleared
# misconception: clearing gradients cannot do any harm
# fails: test_everything_is_as_it_was
# says: gradients as before
def validate(model, batches):
    modes = [(module, module.training) for module in model.modules()]
    model.eval()
    model.zero_grad()
    loss = correct = n = 0
    for images, labels in batches:
        with torch.no_grad():
            scores = model(images)
        loss += F.cross_entropy(scores, labels, reduction="sum").item()
        correct += (scores.argmax(dim=1) == labels).sum().item()
        n += len(labels)
    for module, training in modes:
        module.train(training)
    return {"loss": loss / n, "accuracy": correct / n}


# %% statistics-reset
# misconception: validation data have statistics of their own
# fails: test_everything_is_as_it_was, test_looking_twice_shows_the_same, test_no_graph_and_grad_mode_as_before, test_sizes_of_batches_do_not_matter
# says: its statistics stay as they were
def validate(model, batches):
    modes = [(module, module.training) for module in model.modules()]
    model.eval()
    for module in model.modules():
        if isinstance(module, nn.BatchNorm1d):
            module.reset_running_stats()
    loss = correct = n = 0
    for images, labels in batches:
        with torch.no_grad():
            scores = model(images)
        loss += F.cross_entropy(scores, labels, reduction="sum").item()
        correct += (scores.argmax(dim=1) == labels).sum().item()
        n += len(labels)
    for module, training in modes:
        module.train(training)
    return {"loss": loss / n, "accuracy": correct / n}


# %% per-cent
# misconception: accuracy is given in per cent
# fails: test_a_frozen_layer_stays_frozen, test_everything_is_as_it_was, test_looking_twice_shows_the_same, test_no_graph_and_grad_mode_as_before, test_sizes_of_batches_do_not_matter, test_two_of_three_are_right, test_validation_makes_no_graph, test_validation_of_a_single_batch
# says: accuracy 0.5, and the mean of their two losses
def validate(model, batches):
    modes = [(module, module.training) for module in model.modules()]
    model.eval()
    loss = correct = n = 0
    for images, labels in batches:
        with torch.no_grad():
            scores = model(images)
        loss += F.cross_entropy(scores, labels, reduction="sum").item()
        correct += (scores.argmax(dim=1) == labels).sum().item()
        n += len(labels)
    for module, training in modes:
        module.train(training)
    return {"loss": loss / n, "accuracy": 100 * correct / n}


# %% sum-of-losses
# misconception: the loss of a data set is the sum of its losses
# fails: test_everything_is_as_it_was, test_looking_twice_shows_the_same, test_no_graph_and_grad_mode_as_before, test_sizes_of_batches_do_not_matter, test_two_of_three_are_right, test_validation_of_a_single_batch
# says: accuracy 0.5, and the mean of their two losses
def validate(model, batches):
    modes = [(module, module.training) for module in model.modules()]
    model.eval()
    loss = correct = n = 0
    for images, labels in batches:
        with torch.no_grad():
            scores = model(images)
        loss += F.cross_entropy(scores, labels, reduction="sum").item()
        correct += (scores.argmax(dim=1) == labels).sum().item()
        n += len(labels)
    for module, training in modes:
        module.train(training)
    return {"loss": loss, "accuracy": correct / n}


# %% the-usual-two
# misconception: Dropout and BatchNorm1d are all that has two modes
# fails: test_everything_is_as_it_was, test_sizes_of_batches_do_not_matter
# says: Whatever the modes were
def validate(model, batches):
    modes = [(module, module.training) for module in model.modules()]
    for module in model.modules():
        if isinstance(module, (nn.Dropout, nn.BatchNorm1d)):
            module.eval()
    loss = correct = n = 0
    for images, labels in batches:
        with torch.no_grad():
            scores = model(images)
        loss += F.cross_entropy(scores, labels, reduction="sum").item()
        correct += (scores.argmax(dim=1) == labels).sum().item()
        n += len(labels)
    for module, training in modes:
        module.train(training)
    return {"loss": loss / n, "accuracy": correct / n}
