# %% eval-mode-for-all
# misconception: statistics are estimated while a model is used, whatever its mode
# fails: test_a_layer_in_eval_mode_is_refreshed_too, test_dropout_keeps_out_of_it, test_refreshing_records_no_graph, test_refreshing_twice_is_refreshing_once, test_statistics_are_those_of_the_new_batches, test_statistics_of_networks
# says: The running mean differs from what was expected
def refresh_statistics(model, batches):
    modes = {m: m.training for m in model.modules()}
    model.eval()
    with torch.no_grad():
        for batch in batches:
            model(batch)
    for m, mode in modes.items():
        m.training = mode


# %% train-mode-for-all
# misconception: BatchNorm is the only thing that train mode changes
# fails: test_dropout_keeps_out_of_it, test_refreshing_leaves_all_else, test_refreshing_twice_is_refreshing_once, test_statistics_of_networks
# says: What comes into the layer
def refresh_statistics(model, batches):
    layers = [m for m in model.modules() if isinstance(m, BATCH_NORMS)]
    modes = {m: m.training for m in model.modules()}
    momenta = [layer.momentum for layer in layers]
    for layer in layers:
        layer.reset_running_stats()
        layer.momentum = None
    model.train()
    with torch.no_grad():
        for batch in batches:
            model(batch)
    for layer, momentum in zip(layers, momenta):
        layer.momentum = momentum
    for m, mode in modes.items():
        m.training = mode


# %% old-statistics-mixed-in
# misconception: enough batches wash the old statistics out
# fails: test_a_layer_in_eval_mode_is_refreshed_too, test_refreshing_records_no_graph, test_refreshing_twice_is_refreshing_once, test_statistics_are_those_of_the_new_batches, test_statistics_of_networks
# says: The running mean differs from what was expected
def refresh_statistics(model, batches):
    layers = [m for m in model.modules() if isinstance(m, BATCH_NORMS)]
    modes = {m: m.training for m in model.modules()}
    model.eval()
    for layer in layers:
        layer.train()
    with torch.no_grad():
        for batch in batches:
            model(batch)
    for m, mode in modes.items():
        m.training = mode


# %% reset-but-moving-average
# misconception: after a reset, the moving average is the average
# fails: test_a_layer_in_eval_mode_is_refreshed_too, test_refreshing_records_no_graph, test_refreshing_twice_is_refreshing_once, test_statistics_are_those_of_the_new_batches, test_statistics_of_networks
# says: The running mean differs from what was expected
def refresh_statistics(model, batches):
    layers = [m for m in model.modules() if isinstance(m, BATCH_NORMS)]
    modes = {m: m.training for m in model.modules()}
    model.eval()
    for layer in layers:
        layer.train()
        layer.reset_running_stats()
    with torch.no_grad():
        for batch in batches:
            model(batch)
    for m, mode in modes.items():
        m.training = mode


# %% average-without-a-reset
# misconception: momentum None starts to count anew
# fails: test_refreshing_twice_is_refreshing_once, test_statistics_are_those_of_the_new_batches, test_statistics_of_networks
# says: The running mean differs from what was expected
def refresh_statistics(model, batches):
    layers = [m for m in model.modules() if isinstance(m, BATCH_NORMS)]
    modes = {m: m.training for m in model.modules()}
    momenta = [layer.momentum for layer in layers]
    model.eval()
    for layer in layers:
        layer.train()
        layer.momentum = None
    with torch.no_grad():
        for batch in batches:
            model(batch)
    for layer, momentum in zip(layers, momenta):
        layer.momentum = momentum
    for m, mode in modes.items():
        m.training = mode


# %% left-in-eval-mode
# misconception: who refreshes a model wants to use it afterwards, so eval mode is a good place to end
# fails: test_dropout_keeps_out_of_it, test_refreshing_leaves_all_else, test_refreshing_leaves_mode_momentum_and_weights
# says: Whether the layer is in train mode is False; expected True.
def refresh_statistics(model, batches):
    layers = [m for m in model.modules() if isinstance(m, BATCH_NORMS)]
    momenta = [layer.momentum for layer in layers]
    model.eval()
    for layer in layers:
        layer.train()
        layer.reset_running_stats()
        layer.momentum = None
    with torch.no_grad():
        for batch in batches:
            model(batch)
    for layer, momentum in zip(layers, momenta):
        layer.momentum = momentum
    model.eval()


# %% one-mode-for-the-whole-model
# misconception: model.training says what mode each of its modules is in
# fails: test_refreshing_leaves_all_else
# says: Parameters, gradients, other buffers, momenta, requires_grad and the mode of each module a
def refresh_statistics(model, batches):
    layers = [m for m in model.modules() if isinstance(m, BATCH_NORMS)]
    was = model.training
    momenta = [layer.momentum for layer in layers]
    model.eval()
    for layer in layers:
        layer.train()
        layer.reset_running_stats()
        layer.momentum = None
    with torch.no_grad():
        for batch in batches:
            model(batch)
    for layer, momentum in zip(layers, momenta):
        layer.momentum = momentum
    model.train(was)


# %% momentum-forgotten
# misconception: momentum is only looked at here
# fails: test_refreshing_leaves_all_else, test_refreshing_leaves_mode_momentum_and_weights
# says: The momentum is a NoneType; expected a number.
def refresh_statistics(model, batches):
    layers = [m for m in model.modules() if isinstance(m, BATCH_NORMS)]
    modes = {m: m.training for m in model.modules()}
    model.eval()
    for layer in layers:
        layer.train()
        layer.reset_running_stats()
        layer.momentum = None
    with torch.no_grad():
        for batch in batches:
            model(batch)
    for m, mode in modes.items():
        m.training = mode


# %% with-a-graph
# misconception: without backward() there is no graph
# fails: test_refreshing_records_no_graph
# says: The new statistics are right, and not one tensor is saved for a backward pass that will ne
def refresh_statistics(model, batches):
    layers = [m for m in model.modules() if isinstance(m, BATCH_NORMS)]
    modes = {m: m.training for m in model.modules()}
    momenta = [layer.momentum for layer in layers]
    model.eval()
    for layer in layers:
        layer.train()
        layer.reset_running_stats()
        layer.momentum = None
    for batch in batches:
        model(batch)
    for layer, momentum in zip(layers, momenta):
        layer.momentum = momentum
    for m, mode in modes.items():
        m.training = mode


# %% weights-reset-as-well
# misconception: a fresh start for the statistics is a fresh start for the layer
# fails: test_refreshing_leaves_all_else, test_refreshing_leaves_mode_momentum_and_weights, test_refreshing_twice_is_refreshing_once, test_statistics_of_networks
# says: The layer's weight differs from what was expected: got 1, expected 3
def refresh_statistics(model, batches):
    layers = [m for m in model.modules() if isinstance(m, BATCH_NORMS)]
    modes = {m: m.training for m in model.modules()}
    momenta = [layer.momentum for layer in layers]
    model.eval()
    for layer in layers:
        layer.train()
        layer.reset_parameters()
        layer.momentum = None
    with torch.no_grad():
        for batch in batches:
            model(batch)
    for layer, momentum in zip(layers, momenta):
        layer.momentum = momentum
    for m, mode in modes.items():
        m.training = mode


# %% top-level-layers-only
# misconception: BatchNorm layers are children of the model
# fails: test_a_layer_in_eval_mode_is_refreshed_too, test_refreshing_twice_is_refreshing_once, test_statistics_are_those_of_the_new_batches, test_statistics_of_networks
# says: The running mean differs from what was expected
def refresh_statistics(model, batches):
    layers = [m for m in model.children() if isinstance(m, BATCH_NORMS)]
    modes = {m: m.training for m in model.modules()}
    momenta = [layer.momentum for layer in layers]
    model.eval()
    for layer in layers:
        layer.train()
        layer.reset_running_stats()
        layer.momentum = None
    with torch.no_grad():
        for batch in batches:
            model(batch)
    for layer, momentum in zip(layers, momenta):
        layer.momentum = momentum
    for m, mode in modes.items():
        m.training = mode


# %% statistics-of-all-batches-at-once
# misconception: the variance of all batches together is the mean of their variances
# fails: test_a_layer_in_eval_mode_is_refreshed_too, test_dropout_keeps_out_of_it, test_refreshing_records_no_graph, test_refreshing_twice_is_refreshing_once, test_statistics_are_those_of_the_new_batches, test_statistics_of_networks
# says: The running variance differs from what was expected
def refresh_statistics(model, batches):
    layers = [m for m in model.modules() if isinstance(m, BATCH_NORMS)]
    modes = {m: m.training for m in model.modules()}
    momenta = [layer.momentum for layer in layers]
    batches = list(batches)
    model.eval()
    for layer in layers:
        layer.train()
        layer.reset_running_stats()
        layer.momentum = 1.0
    with torch.no_grad():
        model(torch.cat(batches))
    for layer, momentum in zip(layers, momenta):
        layer.momentum = momentum
        layer.num_batches_tracked.fill_(len(batches))
    for m, mode in modes.items():
        m.training = mode
