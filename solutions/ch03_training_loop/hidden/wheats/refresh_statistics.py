# %% hooks-on-each-layer
def refresh_statistics(model, batches):
    layers = [m for m in model.modules() if isinstance(m, torch.nn.modules.batchnorm._BatchNorm)]
    modes = [(m, m.training) for m in model.modules()]
    seen = {layer: [] for layer in layers}

    def note(layer, inputs):
        x = inputs[0].detach()
        dims = [d for d in range(x.dim()) if d != 1]
        seen[layer].append((x.mean(dims), x.var(dims, unbiased=True)))

    handles = [layer.register_forward_pre_hook(note) for layer in layers]
    kept = {layer: layer.track_running_stats for layer in layers}
    model.eval()
    for layer in layers:
        layer.training = True
    with torch.no_grad():
        for batch in batches:
            model(batch)
        for layer in layers:
            layer.running_mean.copy_(torch.stack([mean for mean, _ in seen[layer]]).mean(0))
            layer.running_var.copy_(torch.stack([var for _, var in seen[layer]]).mean(0))
            layer.num_batches_tracked.fill_(len(seen[layer]))
    for handle in handles:
        handle.remove()
    for module, mode in modes:
        module.training = mode
    assert kept == {layer: layer.track_running_stats for layer in layers}

# %% context-manager-and-momentum-by-count
from contextlib import contextmanager


@contextmanager
def only_batch_norm_trains(model):
    layers = [m for m in model.modules() if type(m).__name__.startswith("BatchNorm")]
    before = {m: (m.training, getattr(m, "momentum", None)) for m in model.modules()}
    try:
        for m in before:
            m.training = m in layers
        yield layers
    finally:
        for m, (mode, momentum) in before.items():
            m.training = mode
            if m in layers:
                m.momentum = momentum


@torch.no_grad()
def refresh_statistics(model, batches):
    with only_batch_norm_trains(model) as layers:
        for layer in layers:
            layer.reset_running_stats()
        for i, batch in enumerate(batches, start=1):
            for layer in layers:
                layer.momentum = 1 / i  # the i-th of i batches counts for a part in i
            model(batch)

# %% sums-of-single-batches
def refresh_statistics(model, batches):
    norms = [m for m in model.modules() if isinstance(m, BATCH_NORMS)]
    state = [(m, m.training) for m in model.modules()]
    momenta = [m.momentum for m in norms]
    for m, _ in state:
        m.train(False)
    for m in norms:
        m.train(True)
        m.momentum = 1.0  # each batch replaces what was there
    means, variances, count = [0.0] * len(norms), [0.0] * len(norms), 0
    with torch.inference_mode():
        for batch in batches:
            model(batch)
            count += 1
            means = [total + m.running_mean for total, m in zip(means, norms)]
            variances = [total + m.running_var for total, m in zip(variances, norms)]
    with torch.no_grad():
        for m, mean, variance, momentum in zip(norms, means, variances, momenta):
            m.running_mean.copy_(mean / count)
            m.running_var.copy_(variance / count)
            m.num_batches_tracked.fill_(count)
            m.momentum = momentum
    for m, mode in state:
        m.training = mode

# %% a-copy-does-the-work
import copy


def refresh_statistics(model, batches):
    """The model itself is never put into another mode: a copy of it is, and its statistics are taken over."""
    double = copy.deepcopy(model).requires_grad_(False).eval()
    for module in double.modules():
        if isinstance(module, torch.nn.modules.batchnorm._BatchNorm):
            module.reset_running_stats()
            module.momentum = None
            module.train()
    for batch in batches:
        double(batch.detach())
    for mine, theirs in zip(model.modules(), double.modules()):
        if isinstance(mine, torch.nn.modules.batchnorm._BatchNorm):
            mine.load_state_dict(theirs.state_dict())

# %% everything-in-train-mode-but-the-rest
def refresh_statistics(model, batches):
    was = {m: m.training for m in model.modules()}
    momenta = {}
    torch.set_grad_enabled(False)
    model.train()
    for m in model.modules():
        if isinstance(m, torch.nn.modules.batchnorm._BatchNorm):
            momenta[m], m.momentum = m.momentum, None
            m.running_mean.zero_()
            m.running_var.fill_(1)
            m.num_batches_tracked.zero_()
        else:
            m.training = False
    for batch in batches:
        model(batch)
    torch.set_grad_enabled(True)
    for m, momentum in momenta.items():
        m.momentum = momentum
    for m, mode in was.items():
        m.training = mode
