# %% mean-of-all-batches
# misconception: batches count alike, whatever their size
# fails: test_a_part_that_is_called_module, test_a_rank_without_samples, test_each_sample_counts_the_same, test_layers_may_have_any_name, test_no_rank_waits_for_one_without_batches, test_three_right_on_one_rank_one_wrong_on_the_other
# says: The accuracy
def evaluate(model, batches):
    network = model.module if isinstance(model, DistributedDataParallel) else model
    modes = {module: module.training for module in model.modules()}
    model.eval()
    loss, n_right, n_samples = 0.0, 0, 0
    with torch.no_grad():
        for inputs, labels in batches:
            scores = network(inputs)
            loss += F.cross_entropy(scores, labels, reduction="mean").item()
            n_right += (scores.argmax(dim=1) == labels).float().mean().item()
            n_samples += 1
    for module, training in modes.items():
        module.training = training
    sums = torch.tensor([loss, n_right, n_samples], dtype=torch.float64)
    dist.all_reduce(sums)
    loss, n_right, n_samples = sums.tolist()
    return {"loss": loss / n_samples, "accuracy": n_right / n_samples}


# %% each-rank-its-own
# misconception: each rank reports its own samples
# fails: test_a_part_that_is_called_module, test_a_rank_that_has_nothing_to_score, test_a_rank_without_samples, test_a_wrapped_model_keeps_its_statistics, test_each_sample_counts_the_same, test_layers_may_have_any_name, test_no_rank_waits_for_one_without_batches, test_three_right_on_one_rank_one_wrong_on_the_other, test_wrapped_models_stay_as_they_are
# says: The accuracy
def evaluate(model, batches):
    network = model.module if isinstance(model, DistributedDataParallel) else model
    modes = {module: module.training for module in model.modules()}
    model.eval()
    loss, n_right, n_samples = 0.0, 0, 0
    with torch.no_grad():
        for inputs, labels in batches:
            scores = network(inputs)
            loss += F.cross_entropy(scores, labels, reduction="sum").item()
            n_right += (scores.argmax(dim=1) == labels).sum().item()
            n_samples += len(labels)
    for module, training in modes.items():
        module.training = training
    return {"loss": loss / max(n_samples, 1), "accuracy": n_right / max(n_samples, 1)}


# %% only-rank-0-knows
# misconception: reduce gives the result to everybody
# fails: test_a_rank_that_has_nothing_to_score, test_a_rank_without_samples, test_a_wrapped_model_keeps_its_statistics, test_each_sample_counts_the_same, test_layers_may_have_any_name, test_no_rank_waits_for_one_without_batches, test_three_right_on_one_rank_one_wrong_on_the_other, test_wrapped_models_stay_as_they_are
# says: The accuracy
def evaluate(model, batches):
    network = model.module if isinstance(model, DistributedDataParallel) else model
    modes = {module: module.training for module in model.modules()}
    model.eval()
    loss, n_right, n_samples = 0.0, 0, 0
    with torch.no_grad():
        for inputs, labels in batches:
            scores = network(inputs)
            loss += F.cross_entropy(scores, labels, reduction="sum").item()
            n_right += (scores.argmax(dim=1) == labels).sum().item()
            n_samples += len(labels)
    for module, training in modes.items():
        module.training = training
    sums = torch.tensor([loss, n_right, n_samples], dtype=torch.float64)
    dist.reduce(sums, dst=0)
    loss, n_right, n_samples = sums.tolist()
    return {"loss": loss / n_samples, "accuracy": n_right / n_samples}


# %% mean-over-ranks-with-samples
# misconception: the mean of the ranks that have samples is the mean of the samples
# fails: test_a_part_that_is_called_module, test_a_rank_without_samples, test_each_sample_counts_the_same, test_layers_may_have_any_name, test_three_right_on_one_rank_one_wrong_on_the_other
# says: The accuracy
def evaluate(model, batches):
    network = model.module if isinstance(model, DistributedDataParallel) else model
    modes = {module: module.training for module in model.modules()}
    model.eval()
    loss, n_right, n_samples = 0.0, 0, 0
    with torch.no_grad():
        for inputs, labels in batches:
            scores = network(inputs)
            loss += F.cross_entropy(scores, labels, reduction="sum").item()
            n_right += (scores.argmax(dim=1) == labels).sum().item()
            n_samples += len(labels)
    for module, training in modes.items():
        module.training = training
    means = torch.tensor([loss / max(n_samples, 1), n_right / max(n_samples, 1), float(n_samples > 0)])
    dist.all_reduce(means)
    loss, accuracy, n_ranks = means.tolist()
    return {"loss": loss / n_ranks, "accuracy": accuracy / n_ranks}


# %% in-train-mode
# misconception: no_grad is what evaluation needs
# fails: test_a_rank_without_samples, test_a_wrapped_model_keeps_its_statistics, test_each_sample_counts_the_same, test_no_rank_waits_for_one_without_batches, test_three_right_on_one_rank_one_wrong_on_the_other, test_wrapped_models_stay_as_they_are
# says: The result['loss']
def evaluate(model, batches):
    network = model.module if isinstance(model, DistributedDataParallel) else model
    modes = {module: module.training for module in model.modules()}
    loss, n_right, n_samples = 0.0, 0, 0
    with torch.no_grad():
        for inputs, labels in batches:
            scores = network(inputs)
            loss += F.cross_entropy(scores, labels, reduction="sum").item()
            n_right += (scores.argmax(dim=1) == labels).sum().item()
            n_samples += len(labels)
    for module, training in modes.items():
        module.training = training
    sums = torch.tensor([loss, n_right, n_samples], dtype=torch.float64)
    dist.all_reduce(sums)
    loss, n_right, n_samples = sums.tolist()
    return {"loss": loss / n_samples, "accuracy": n_right / n_samples}


# %% all-in-train-mode-afterwards
# misconception: train() undoes eval()
# fails: test_a_part_that_is_called_module, test_wrapped_models_stay_as_they_are
# says: the model is afterwards as it was
def evaluate(model, batches):
    network = model.module if isinstance(model, DistributedDataParallel) else model
    modes = {module: module.training for module in model.modules()}
    model.eval()
    loss, n_right, n_samples = 0.0, 0, 0
    with torch.no_grad():
        for inputs, labels in batches:
            scores = network(inputs)
            loss += F.cross_entropy(scores, labels, reduction="sum").item()
            n_right += (scores.argmax(dim=1) == labels).sum().item()
            n_samples += len(labels)
    model.train()
    sums = torch.tensor([loss, n_right, n_samples], dtype=torch.float64)
    dist.all_reduce(sums)
    loss, n_right, n_samples = sums.tolist()
    return {"loss": loss / n_samples, "accuracy": n_right / n_samples}


# %% wrapped-mode-forgotten
# misconception: the mode of the model inside is all there is
# fails: test_no_rank_waits_for_one_without_batches, test_wrapped_models_stay_as_they_are
# says: the model is afterwards as it was
def evaluate(model, batches):
    network = model.module if isinstance(model, DistributedDataParallel) else model
    modes = {module: module.training for module in network.modules()}
    model.eval()
    loss, n_right, n_samples = 0.0, 0, 0
    with torch.no_grad():
        for inputs, labels in batches:
            scores = network(inputs)
            loss += F.cross_entropy(scores, labels, reduction="sum").item()
            n_right += (scores.argmax(dim=1) == labels).sum().item()
            n_samples += len(labels)
    for module, training in modes.items():
        module.training = training
    sums = torch.tensor([loss, n_right, n_samples], dtype=torch.float64)
    dist.all_reduce(sums)
    loss, n_right, n_samples = sums.tolist()
    return {"loss": loss / n_samples, "accuracy": n_right / n_samples}


# %% a-collective-per-batch
# misconception: all ranks go through equally many batches
# fails: test_a_rank_that_has_nothing_to_score, test_a_rank_without_samples, test_each_sample_counts_the_same, test_no_rank_waits_for_one_without_batches, test_three_right_on_one_rank_one_wrong_on_the_other
# says: on both ranks, the accuracy is 0.75
def evaluate(model, batches):
    network = model.module if isinstance(model, DistributedDataParallel) else model
    modes = {module: module.training for module in model.modules()}
    model.eval()
    totals = torch.zeros(3, dtype=torch.float64)
    with torch.no_grad():
        for inputs, labels in batches:
            scores = network(inputs)
            loss = F.cross_entropy(scores, labels, reduction="sum").item()
            sums = torch.tensor([loss, (scores.argmax(dim=1) == labels).sum().item(), len(labels)]).double()
            dist.all_reduce(sums)
            totals += sums
    for module, training in modes.items():
        module.training = training
    return {"loss": (totals[0] / totals[2]).item(), "accuracy": (totals[1] / totals[2]).item()}


# %% back-early-without-samples
# misconception: a rank without samples has nothing to say
# fails: test_a_rank_that_has_nothing_to_score, test_a_rank_without_samples, test_no_rank_waits_for_one_without_batches
# says: comes to the same result as the others
def evaluate(model, batches):
    if not batches:
        return {"loss": 0.0, "accuracy": 0.0}
    network = model.module if isinstance(model, DistributedDataParallel) else model
    modes = {module: module.training for module in model.modules()}
    model.eval()
    loss, n_right, n_samples = 0.0, 0, 0
    with torch.no_grad():
        for inputs, labels in batches:
            scores = network(inputs)
            loss += F.cross_entropy(scores, labels, reduction="sum").item()
            n_right += (scores.argmax(dim=1) == labels).sum().item()
            n_samples += len(labels)
    for module, training in modes.items():
        module.training = training
    sums = torch.tensor([loss, n_right, n_samples], dtype=torch.float64)
    dist.all_reduce(sums)
    loss, n_right, n_samples = sums.tolist()
    return {"loss": loss / n_samples, "accuracy": n_right / n_samples}


# %% tensors-returned
# misconception: a tensor is a number
# fails: test_a_rank_without_samples, test_each_sample_counts_the_same, test_no_rank_waits_for_one_without_batches, test_three_right_on_one_rank_one_wrong_on_the_other, test_wrapped_models_stay_as_they_are
# says: The results are no Python floats
def evaluate(model, batches):
    network = model.module if isinstance(model, DistributedDataParallel) else model
    modes = {module: module.training for module in model.modules()}
    model.eval()
    loss, n_right, n_samples = 0.0, 0, 0
    with torch.no_grad():
        for inputs, labels in batches:
            scores = network(inputs)
            loss += F.cross_entropy(scores, labels, reduction="sum").item()
            n_right += (scores.argmax(dim=1) == labels).sum().item()
            n_samples += len(labels)
    for module, training in modes.items():
        module.training = training
    sums = torch.tensor([loss, n_right, n_samples], dtype=torch.float64)
    dist.all_reduce(sums)
    loss, n_right, n_samples = sums
    return {"loss": loss / n_samples, "accuracy": n_right / n_samples}


# %% half-right
# misconception: constant answers
# fails: test_a_part_that_is_called_module, test_a_rank_that_has_nothing_to_score, test_a_rank_without_samples, test_a_wrapped_model_keeps_its_statistics, test_each_sample_counts_the_same, test_layers_may_have_any_name, test_no_rank_waits_for_one_without_batches, test_three_right_on_one_rank_one_wrong_on_the_other, test_wrapped_models_stay_as_they_are
# says: The accuracy
def evaluate(model, batches):
    return {"loss": 0.0, "accuracy": 0.5}


# %% statistics-averaged-first
# misconception: the ranks' statistics should be averaged before an evaluation
# fails: test_a_wrapped_model_keeps_its_statistics, test_wrapped_models_stay_as_they_are
# says: The running mean of rank
def evaluate(model, batches):
    network = model.module if isinstance(model, DistributedDataParallel) else model
    for buffer in network.buffers():
        if buffer.is_floating_point():
            dist.all_reduce(buffer)
            buffer /= dist.get_world_size()
    modes = {module: module.training for module in model.modules()}
    model.eval()
    loss, n_right, n_samples = 0.0, 0, 0
    with torch.no_grad():
        for inputs, labels in batches:
            scores = network(inputs)
            loss += F.cross_entropy(scores, labels, reduction="sum").item()
            n_right += (scores.argmax(dim=1) == labels).sum().item()
            n_samples += len(labels)
    for module, training in modes.items():
        module.training = training
    sums = torch.tensor([loss, n_right, n_samples], dtype=torch.float64)
    dist.all_reduce(sums)
    loss, n_right, n_samples = sums.tolist()
    return {"loss": loss / n_samples, "accuracy": n_right / n_samples}


# %% whatever-is-called-module
# misconception: only a wrapped model has a `module`
# fails: test_a_part_that_is_called_module, test_layers_may_have_any_name
# says: A plain model, and a wrapped one
def evaluate(model, batches):
    network = getattr(model, "module", model)
    modes = {module: module.training for module in model.modules()}
    model.eval()
    sums = torch.zeros(3, dtype=torch.float64)
    with torch.no_grad():
        for inputs, labels in batches:
            scores = network(inputs)
            sums[0] += F.cross_entropy(scores, labels, reduction="sum")
            sums[1] += (scores.argmax(dim=1) == labels).sum()
            sums[2] += len(labels)
    for module, training in modes.items():
        module.training = training
    dist.all_reduce(sums)
    return {"loss": (sums[0] / sums[2]).item(), "accuracy": (sums[1] / sums[2]).item()}
