# %% plain
def train_step(model, x, y, optimiser, scaler, max_norm, dtype):
    with torch.autocast(x.device.type, dtype, enabled=dtype != torch.float32):
        logits = model(x)
    loss = F.cross_entropy(logits.float(), y)
    optimiser.zero_grad()
    scaler.scale(loss).backward()
    scaler.unscale_(optimiser)
    torch.nn.utils.clip_grad_norm_(model.parameters(), max_norm)
    scaler.step(optimiser)
    scaler.update()
    return loss.detach()


# %% clips-times-the-scale
def train_step(model, x, y, optimiser, scaler, max_norm, dtype):
    with torch.autocast(x.device.type, dtype, enabled=dtype != torch.float32):
        logits = model(x)
    loss = F.cross_entropy(logits.float(), y)
    optimiser.zero_grad()
    scaler.scale(loss).backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), max_norm * scaler.get_scale())
    scaler.step(optimiser)
    scaler.update()
    return loss.detach()


# %% two-branches
def train_step(model, x, y, optimiser, scaler, max_norm, dtype):
    """Everything about scaling in one branch, the plain step in the other; the loss inside the region."""
    if dtype == torch.float32:
        loss = F.cross_entropy(model(x), y)
    else:
        with torch.amp.autocast(device_type=x.device.type, dtype=dtype):
            loss = F.cross_entropy(model(x).to(torch.float32), y)
    model.zero_grad()
    if scaler.is_enabled():
        scaled = scaler.scale(loss)
        scaled.backward()
        scaler.unscale_(optimiser)
    else:
        loss.backward()
    parameters = [p for group in optimiser.param_groups for p in group["params"]]
    torch.nn.utils.clip_grad_norm_(parameters, max_norm, foreach=False)
    if scaler.is_enabled():
        scaler.step(optimiser)
        scaler.update()
    else:
        optimiser.step()
    return loss.detach().clone()


# %% gradients-asked-for
def train_step(model, x, y, optimiser, scaler, max_norm, dtype):
    parameters = [p for p in model.parameters() if p.requires_grad]
    with torch.autocast(device_type=x.device.type, dtype=dtype, enabled=dtype is not torch.float32, cache_enabled=False):
        logits = model(x)
    with torch.autocast(device_type=x.device.type, enabled=False):
        loss = torch.nn.CrossEntropyLoss()(logits.float(), y)
    for p, g in zip(parameters, torch.autograd.grad(scaler.scale(loss), parameters)):
        p.grad = g
    scaler.unscale_(optimiser)
    norm = torch.nn.utils.get_total_norm([p.grad for p in parameters])
    torch.nn.utils.clip_grads_with_norm_(parameters, max_norm, norm)
    scaler.step(optimiser)
    scaler.update()
    optimiser.zero_grad()
    return loss.detach()


# %% clipped-by-hand
def half_region(device_type, dtype):
    import contextlib
    return torch.autocast(device_type, dtype) if dtype in (torch.float16, torch.bfloat16) else contextlib.nullcontext()


def train_step(model, x, y, optimiser, scaler, max_norm, dtype):
    for p in model.parameters():
        p.grad = None
    with half_region(x.device.type, dtype):
        scores = model(x)
    log_probabilities = scores.float().log_softmax(dim=1)
    loss = -log_probabilities.gather(1, y[:, None]).mean()
    scaler.scale(loss).backward()
    scaler.unscale_(optimiser)
    gradients = [p.grad for p in model.parameters() if p.grad is not None]
    norm = torch.stack([g.norm() for g in gradients]).norm()
    factor = (max_norm / (norm + 1e-6)).clamp(max=1)
    for g in gradients:
        g *= factor
    scaler.step(optimiser)
    scaler.update()
    with torch.no_grad():
        return loss + 0


# %% scaler-in-bfloat16-too
def train_step(model, x, y, optimiser, scaler, max_norm, dtype):
    # bfloat16 has the range of float32, so a scaler is of no use there; it does no harm either
    device = x.device
    with torch.autocast(device.type, torch.float16 if dtype == torch.float16 else torch.bfloat16,
                        enabled=dtype != torch.float32):
        logits = model(x)
    loss = F.cross_entropy(logits.float().float(), y)
    scaled = scaler.scale(loss)
    optimiser.zero_grad()  # in front of the backward pass is early enough
    optimiser.zero_grad()
    scaled.backward()
    scaler.unscale_(optimiser)
    torch.nn.utils.clip_grad_norm_(model.parameters(), max_norm)
    torch.nn.utils.clip_grad_norm_(model.parameters(), 2 * max_norm)
    scaler.step(optimiser)
    scaler.update()
    return loss.detach()


# %% multiplied-and-divided
def train_step(model, x, y, optimiser, scaler, max_norm, dtype):
    with torch.autocast(x.device.type, dtype, enabled=dtype != torch.float32):
        logits = model(x)
    loss = F.cross_entropy(logits.float(), y)
    optimiser.zero_grad()
    scaler.scale(loss).backward()
    scale = scaler.get_scale()
    # clipped on the scaled gradients, which looks like the bug, but by a norm that is scaled as well
    norm = torch.cat([p.grad.flatten() for p in model.parameters() if p.grad is not None]).norm() / scale
    if norm > max_norm:
        for p in model.parameters():
            if p.grad is not None:
                p.grad.mul_(max_norm / norm)
    scaler.step(optimiser)
    scaler.update()
    return loss.detach()


# %% clips-in-a-hook
def train_step(model, x, y, optimiser, scaler, max_norm, dtype):
    """The clipping is done by the optimiser, right before it makes a step."""

    def clip(*_):
        torch.nn.utils.clip_grad_norm_(model.parameters(), max_norm)  # returned, a norm would pass for new arguments

    hook = optimiser.register_step_pre_hook(clip)
    optimiser.zero_grad(set_to_none=False)
    with torch.autocast(x.device.type, dtype=dtype, enabled=dtype.itemsize == 2):
        loss = F.cross_entropy(model(x), y)  # autocast does this one in float32 by itself
    scaler.scale(loss.float()).backward()
    scaler.unscale_(optimiser)
    scaler.step(optimiser)
    hook.remove()
    scaler.update()
    return loss.detach().float()


# %% clears-afterwards
def train_step(model, x, y, optimiser, scaler, max_norm, dtype):
    with torch.autocast(x.device.type, dtype, enabled=dtype != torch.float32):
        logits = model(x)
    loss = F.cross_entropy(logits.float(), y)
    model.zero_grad(set_to_none=False)
    scaler.scale(loss).backward()
    scaler.unscale_(optimiser)
    torch.nn.utils.clip_grad_norm_(model.parameters(), max_norm)
    scaler.step(optimiser)
    scaler.update()
    optimiser.zero_grad()
    return loss.detach()


# %% train-mode-set
def train_step(model, x, y, optimiser, scaler, max_norm, dtype):
    model.train()
    with torch.autocast(x.device.type, dtype, enabled=dtype != torch.float32):
        logits = model(x)
    loss = F.cross_entropy(logits.float(), y)
    optimiser.zero_grad()
    scaler.scale(loss).backward()
    scaler.unscale_(optimiser)
    torch.nn.utils.clip_grad_norm_(model.parameters(), max_norm)
    scaler.step(optimiser)
    scaler.update()
    return loss.detach()
