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
