# %% lowered-means-skipped
def fit(model, batches, optimiser, scheduler, scaler, dtype):
    losses, rates = [], []
    half = dtype != torch.float32
    for x, y in batches:
        optimiser.zero_grad(set_to_none=False)
        with torch.autocast(x.device.type, dtype if half else None, enabled=half):
            loss = F.cross_entropy(model(x).float(), y)
        scaler.scale(loss).backward()
        before = scaler.get_scale()
        scaler.step(optimiser)
        scaler.update()
        skipped = scaler.get_scale() < before
        losses.append(float(loss.detach()))
        if skipped:
            continue
        rates.append(scheduler.get_last_lr()[0])
        scheduler.step()
    return losses, rates


# %% a-hook-counts
class Count:
    def __init__(self):
        self.made = 0

    def __call__(self, optimiser, args, kwargs):
        self.made += 1


def fit(model, batches, optimiser, scheduler, scaler, dtype):
    count, losses, rates = Count(), [], []
    handle = optimiser.register_step_post_hook(count)
    try:
        for x, y in batches:
            with torch.autocast(x.device.type, dtype, enabled=dtype != torch.float32):
                logits = model(x)
            loss = F.cross_entropy(logits.float(), y)
            model.zero_grad()
            scaler.scale(loss).backward()
            made, rate = count.made, float(optimiser.param_groups[0]["lr"])
            scaler.step(optimiser)
            scaler.update()
            if count.made != made:
                scheduler.step()
                rates.append(rate)
            losses.append(loss.item())
    finally:
        handle.remove()
    return losses, rates


# %% gradients-looked-at
def fit(model, batches, optimiser, scheduler, scaler, dtype):
    """Asks the gradients themselves: the scaler skips where one of them is not finite."""
    losses, rates = [], []
    for x, y in batches:
        with torch.autocast(x.device.type, dtype, enabled=dtype != torch.float32):
            logits = model(x)
        loss = F.cross_entropy(logits.float(), y)
        optimiser.zero_grad()
        scaler.scale(loss).backward()
        scaler.unscale_(optimiser)
        finite = all(p.grad.isfinite().all() for p in model.parameters() if p.grad is not None)
        stepped = bool(finite) or not scaler.is_enabled()
        scaler.step(optimiser)
        scaler.update()
        losses += [loss.item()]
        if stepped:
            rates += [group["lr"] for group in optimiser.param_groups[:1]]
            scheduler.step()
    return losses, rates


# %% the-schedule-in-a-hook
def fit(model, batches, optimiser, scheduler, scaler, dtype):
    """The optimiser tells when it has made a step, and the schedule goes on right then."""
    losses, rates = [], []

    def after_step(optimiser, args, kwargs):
        rates.append(optimiser.param_groups[0]["lr"])
        scheduler.step()

    handle = optimiser.register_step_post_hook(after_step)
    for x, y in batches:
        region = torch.autocast(x.device.type, dtype, enabled=dtype.itemsize == 2)
        with region:
            logits = model(x)
        loss = F.cross_entropy(logits.to(torch.float32), y)
        optimiser.zero_grad()
        scaler.scale(loss).backward()
        scaler.step(optimiser)
        scaler.update()
        losses.append(loss.detach())
    handle.remove()
    return torch.stack(losses).tolist() if losses else [], rates


# %% asks-the-schedulers-wrapper
def fit(model, batches, optimiser, scheduler, scaler, dtype):
    losses, rates = [], []
    for x, y in batches:
        with torch.autocast(x.device.type, dtype, enabled=dtype != torch.float32):
            logits = model(x)
        loss = F.cross_entropy(logits.float(), y)
        losses.append(loss.item())
        rate = optimiser.param_groups[0]["lr"]
        optimiser.zero_grad()
        scaler.scale(loss).backward()
        scale = scaler.get_scale()
        scaler.step(optimiser)
        scaler.update()
        stepped = not scaler.is_enabled() or scaler.state_dict()['scale'] / scale >= 1
        if stepped:
            rates.append(rate)
            scheduler.step()
    return losses, rates
