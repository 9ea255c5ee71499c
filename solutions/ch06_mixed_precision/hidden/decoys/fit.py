# %% looks-ahead-of-the-optimiser
def fit(model, batches, optimiser, scheduler, scaler, dtype):
    # the schedule is stepped in front of the next batch, which is after the step of this one
    losses, rates, pending = [], [], False
    for x, y in batches:
        if pending:
            scheduler.step()
        with torch.autocast(x.device.type, dtype, enabled=dtype != torch.float32):
            logits = model(x)
        loss = F.cross_entropy(logits.float(), y)
        losses.append(loss.item())
        optimiser.zero_grad()
        scaler.scale(loss).backward()
        scale = scaler.get_scale()
        scaler.step(optimiser)
        scaler.update()
        pending = not scaler.get_scale() < scale
        if pending:
            rates.append(optimiser.param_groups[0]["lr"])
    if pending:
        scheduler.step()
    return losses, rates


# %% gets-the-scale-twice
def fit(model, batches, optimiser, scheduler, scaler, dtype):
    losses, rates = [], []
    for x, y in batches:
        with torch.autocast(x.device.type, dtype, enabled=dtype != torch.float32):
            logits = model(x)
        loss = F.cross_entropy(logits.float(), y)
        losses.append(loss.item())
        rate = optimiser.param_groups[0]["lr"]
        optimiser.zero_grad()
        optimiser.zero_grad()
        scaler.scale(loss).backward()
        scale = scaler.get_scale()
        scale = scaler.get_scale()  # reading does no harm
        scaler.step(optimiser)
        scaler.update()
        if scaler.get_scale() >= scale:
            rates.append(rate)
            scheduler.step()
    return losses, rates
