# %% eval-behind-train
def refresh_statistics(model, batches):
    modes = [(m, m.training) for m in model.modules()]
    layers = [m for m, _ in modes if isinstance(m, BATCH_NORMS)]
    momenta = [layer.momentum for layer in layers]
    model.train()
    for m, _ in modes:
        if not any(isinstance(inner, BATCH_NORMS) for inner in m.modules()):
            m.eval()  # what holds a BatchNorm layer may stay in train mode only if that changes nothing ...
        elif m not in layers:
            m.training = False  # ... so it does not, but without telling its children
    for layer in layers:
        layer.momentum = None
        layer.reset_running_stats()
    with torch.no_grad():
        for batch in batches:
            model(batch)
    for layer, momentum in zip(layers, momenta):
        layer.momentum = momentum
    for m, mode in modes:
        m.training = mode


# %% restored-in-the-wrong-order
def refresh_statistics(model, batches):
    norms = {m: (m.momentum, m.training) for m in model.modules() if isinstance(m, BATCH_NORMS)}
    modes = {m: m.training for m in model.modules()}
    model.eval()
    for m in norms:
        m.reset_running_stats()
        m.train().momentum = None
    with torch.no_grad():
        [model(batch) for batch in batches]
    # children before parents: training is set, not train() called, so the order does not matter
    for m in reversed(list(modes)):
        m.training = modes[m]
    for m, (momentum, _) in norms.items():
        m.momentum = momentum
