# %% no-scaler
def train_step(model, x, y, optimiser, scaler, max_norm, dtype):
    with torch.autocast(x.device.type, dtype, enabled=dtype != torch.float32):
        logits = model(x)
    loss = F.cross_entropy(logits.float(), y)
    optimiser.zero_grad()
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), max_norm)
    optimiser.step()
    return loss.detach()


# %% scaled-too-late
def train_step(model, x, y, optimiser, scaler, max_norm, dtype):
    with torch.autocast(x.device.type, dtype, enabled=dtype != torch.float32):
        logits = model(x)
    loss = F.cross_entropy(logits.float(), y)
    optimiser.zero_grad()
    loss.backward()
    for p in model.parameters():
        p.grad = scaler.scale(p.grad)
    scaler.unscale_(optimiser)
    torch.nn.utils.clip_grad_norm_(model.parameters(), max_norm)
    scaler.step(optimiser)
    scaler.update()
    return loss.detach()


# %% clipped-while-scaled
def train_step(model, x, y, optimiser, scaler, max_norm, dtype):
    with torch.autocast(x.device.type, dtype, enabled=dtype != torch.float32):
        logits = model(x)
    loss = F.cross_entropy(logits.float(), y)
    optimiser.zero_grad()
    scaler.scale(loss).backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), max_norm)
    scaler.step(optimiser)
    scaler.update()
    return loss.detach()


# %% unscaled-after-clipping
def train_step(model, x, y, optimiser, scaler, max_norm, dtype):
    with torch.autocast(x.device.type, dtype, enabled=dtype != torch.float32):
        logits = model(x)
    loss = F.cross_entropy(logits.float(), y)
    optimiser.zero_grad()
    scaler.scale(loss).backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), max_norm)
    scaler.unscale_(optimiser)
    scaler.step(optimiser)
    scaler.update()
    return loss.detach()


# %% clipped-after-the-step
def train_step(model, x, y, optimiser, scaler, max_norm, dtype):
    with torch.autocast(x.device.type, dtype, enabled=dtype != torch.float32):
        logits = model(x)
    loss = F.cross_entropy(logits.float(), y)
    optimiser.zero_grad()
    scaler.scale(loss).backward()
    scaler.unscale_(optimiser)
    scaler.step(optimiser)
    torch.nn.utils.clip_grad_norm_(model.parameters(), max_norm)
    scaler.update()
    return loss.detach()


# %% never-clipped
def train_step(model, x, y, optimiser, scaler, max_norm, dtype):
    with torch.autocast(x.device.type, dtype, enabled=dtype != torch.float32):
        logits = model(x)
    loss = F.cross_entropy(logits.float(), y)
    optimiser.zero_grad()
    scaler.scale(loss).backward()
    scaler.unscale_(optimiser)
    scaler.step(optimiser)
    scaler.update()
    return loss.detach()


# %% updated-first
def train_step(model, x, y, optimiser, scaler, max_norm, dtype):
    with torch.autocast(x.device.type, dtype, enabled=dtype != torch.float32):
        logits = model(x)
    loss = F.cross_entropy(logits.float(), y)
    optimiser.zero_grad()
    if scaler.is_enabled() and scaler._scale is not None:
        scaler.update(scaler.get_scale() * 0.5)
    scaler.scale(loss).backward()
    scaler.unscale_(optimiser)
    torch.nn.utils.clip_grad_norm_(model.parameters(), max_norm)
    scaler.step(optimiser)
    scaler.update()
    return loss.detach()


# %% no-update
def train_step(model, x, y, optimiser, scaler, max_norm, dtype):
    with torch.autocast(x.device.type, dtype, enabled=dtype != torch.float32):
        logits = model(x)
    loss = F.cross_entropy(logits.float(), y)
    optimiser.zero_grad()
    scaler.scale(loss).backward()
    scaler.unscale_(optimiser)
    torch.nn.utils.clip_grad_norm_(model.parameters(), max_norm)
    scaler.step(optimiser)
    return loss.detach()


# %% steps-in-spite-of-overflow
def train_step(model, x, y, optimiser, scaler, max_norm, dtype):
    with torch.autocast(x.device.type, dtype, enabled=dtype != torch.float32):
        logits = model(x)
    loss = F.cross_entropy(logits.float(), y)
    optimiser.zero_grad()
    scaler.scale(loss).backward()
    scaler.unscale_(optimiser)
    torch.nn.utils.clip_grad_norm_(model.parameters(), max_norm)
    optimiser.step()
    scaler.update()
    return loss.detach()


# %% old-gradients-kept
def train_step(model, x, y, optimiser, scaler, max_norm, dtype):
    with torch.autocast(x.device.type, dtype, enabled=dtype != torch.float32):
        logits = model(x)
    loss = F.cross_entropy(logits.float(), y)
    scaler.scale(loss).backward()
    scaler.unscale_(optimiser)
    torch.nn.utils.clip_grad_norm_(model.parameters(), max_norm)
    scaler.step(optimiser)
    scaler.update()
    return loss.detach()


# %% scaled-loss-returned
def train_step(model, x, y, optimiser, scaler, max_norm, dtype):
    with torch.autocast(x.device.type, dtype, enabled=dtype != torch.float32):
        logits = model(x)
    loss = F.cross_entropy(logits.float(), y)
    optimiser.zero_grad()
    loss = scaler.scale(loss)
    loss.backward()
    scaler.unscale_(optimiser)
    torch.nn.utils.clip_grad_norm_(model.parameters(), max_norm)
    scaler.step(optimiser)
    scaler.update()
    return loss.detach()


# %% loss-in-half
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
    return loss.detach().to(dtype)


# %% loss-rounded
def train_step(model, x, y, optimiser, scaler, max_norm, dtype):
    with torch.autocast(x.device.type, dtype, enabled=dtype != torch.float32):
        logits = model(x)
    loss = -logits.log_softmax(1)[torch.arange(len(y)), y].mean().float()
    optimiser.zero_grad()
    scaler.scale(loss).backward()
    scaler.unscale_(optimiser)
    torch.nn.utils.clip_grad_norm_(model.parameters(), max_norm)
    scaler.step(optimiser)
    scaler.update()
    return loss.detach()


# %% loss-attached
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
    return loss


# %% no-autocast
def train_step(model, x, y, optimiser, scaler, max_norm, dtype):
    with torch.autocast(x.device.type, dtype, enabled=False):
        logits = model(x)
    loss = F.cross_entropy(logits.float(), y)
    optimiser.zero_grad()
    scaler.scale(loss).backward()
    scaler.unscale_(optimiser)
    torch.nn.utils.clip_grad_norm_(model.parameters(), max_norm)
    scaler.step(optimiser)
    scaler.update()
    return loss.detach()


# %% always-bfloat16
def train_step(model, x, y, optimiser, scaler, max_norm, dtype):
    with torch.autocast(x.device.type, torch.bfloat16, enabled=dtype != torch.float32):
        logits = model(x)
    loss = F.cross_entropy(logits.float(), y)
    optimiser.zero_grad()
    scaler.scale(loss).backward()
    scaler.unscale_(optimiser)
    torch.nn.utils.clip_grad_norm_(model.parameters(), max_norm)
    scaler.step(optimiser)
    scaler.update()
    return loss.detach()


# %% model-cast
def train_step(model, x, y, optimiser, scaler, max_norm, dtype):
    model.to(dtype)
    loss = F.cross_entropy(model(x.to(dtype)).float(), y)
    optimiser.zero_grad()
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), max_norm)
    optimiser.step()
    return loss.detach()


# %% clipped-one-by-one
def train_step(model, x, y, optimiser, scaler, max_norm, dtype):
    with torch.autocast(x.device.type, dtype, enabled=dtype != torch.float32):
        logits = model(x)
    loss = F.cross_entropy(logits.float(), y)
    optimiser.zero_grad()
    scaler.scale(loss).backward()
    scaler.unscale_(optimiser)
    for p in model.parameters():
        torch.nn.utils.clip_grad_norm_([p], max_norm)
    scaler.step(optimiser)
    scaler.update()
    return loss.detach()


# %% values-clipped
def train_step(model, x, y, optimiser, scaler, max_norm, dtype):
    with torch.autocast(x.device.type, dtype, enabled=dtype != torch.float32):
        logits = model(x)
    loss = F.cross_entropy(logits.float(), y)
    optimiser.zero_grad()
    scaler.scale(loss).backward()
    scaler.unscale_(optimiser)
    torch.nn.utils.clip_grad_value_(model.parameters(), max_norm)
    scaler.step(optimiser)
    scaler.update()
    return loss.detach()


# %% scaler-of-its-own
def train_step(model, x, y, optimiser, scaler, max_norm, dtype):
    with torch.autocast(x.device.type, dtype, enabled=dtype != torch.float32):
        logits = model(x)
    loss = F.cross_entropy(logits.float(), y)
    optimiser.zero_grad()
    scaler = torch.amp.GradScaler(x.device.type, enabled=scaler.is_enabled())
    scaler.scale(loss).backward()
    scaler.unscale_(optimiser)
    torch.nn.utils.clip_grad_norm_(model.parameters(), max_norm)
    scaler.step(optimiser)
    scaler.update()
    return loss.detach()


# %% does-nothing
def train_step(model, x, y, optimiser, scaler, max_norm, dtype):
    with torch.no_grad(), torch.autocast(x.device.type, dtype, enabled=dtype != torch.float32):
        return F.cross_entropy(model(x).float(), y)


# %% backward-in-float32
def train_step(model, x, y, optimiser, scaler, max_norm, dtype):
    loss = F.cross_entropy(model(x), y)
    optimiser.zero_grad()
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), max_norm)
    optimiser.step()
    return loss.detach()


# %% clips-to-one
def train_step(model, x, y, optimiser, scaler, max_norm, dtype):
    with torch.autocast(x.device.type, dtype, enabled=dtype != torch.float32):
        logits = model(x)
    loss = F.cross_entropy(logits.float(), y)
    optimiser.zero_grad()
    scaler.scale(loss).backward()
    scaler.unscale_(optimiser)
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    scaler.step(optimiser)
    scaler.update()
    return loss.detach()


# %% always-clipped
def train_step(model, x, y, optimiser, scaler, max_norm, dtype):
    with torch.autocast(x.device.type, dtype, enabled=dtype != torch.float32):
        logits = model(x)
    loss = F.cross_entropy(logits.float(), y)
    optimiser.zero_grad()
    scaler.scale(loss).backward()
    scaler.unscale_(optimiser)
    torch.nn.utils.clip_grad_norm_(model.parameters(), max_norm)
    norm = torch.cat([p.grad.flatten() for p in model.parameters()]).norm()
    for p in model.parameters():
        p.grad.mul_(max_norm / norm)
    scaler.step(optimiser)
    scaler.update()
    return loss.detach()


# %% skips-for-good
def train_step(model, x, y, optimiser, scaler, max_norm, dtype):
    with torch.autocast(x.device.type, dtype, enabled=dtype != torch.float32):
        logits = model(x)
    loss = F.cross_entropy(logits.float(), y)
    optimiser.zero_grad()
    scaler.scale(loss).backward()
    scaler.unscale_(optimiser)
    torch.nn.utils.clip_grad_norm_(model.parameters(), max_norm)
    scaler.step(optimiser)
    scale = scaler.get_scale()
    scaler.update()
    if scaler.get_scale() < scale:
        scaler.update(scale)
    return loss.detach()


# %% sum-instead-of-mean
def train_step(model, x, y, optimiser, scaler, max_norm, dtype):
    with torch.autocast(x.device.type, dtype, enabled=dtype != torch.float32):
        logits = model(x)
    loss = F.cross_entropy(logits.float(), y, reduction='sum')
    optimiser.zero_grad()
    scaler.scale(loss).backward()
    scaler.unscale_(optimiser)
    torch.nn.utils.clip_grad_norm_(model.parameters(), max_norm)
    scaler.step(optimiser)
    scaler.update()
    return loss.detach()


# %% unscaled-twice-by-hand
def train_step(model, x, y, optimiser, scaler, max_norm, dtype):
    with torch.autocast(x.device.type, dtype, enabled=dtype != torch.float32):
        logits = model(x)
    loss = F.cross_entropy(logits.float(), y)
    optimiser.zero_grad()
    scaler.scale(loss).backward()
    scaler.unscale_(optimiser)
    for p in model.parameters():
        p.grad.div_(scaler.get_scale())
    torch.nn.utils.clip_grad_norm_(model.parameters(), max_norm)
    scaler.step(optimiser)
    scaler.update()
    return loss.detach()


# %% loss-after-the-step
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
    with torch.no_grad():
        return F.cross_entropy(model(x).float(), y)


# %% a-short-step-after-each
def train_step(model, x, y, optimiser, scaler, max_norm, dtype):
    with torch.autocast(x.device.type, dtype, enabled=dtype != torch.float32):
        logits = model(x)
    loss = F.cross_entropy(logits.float(), y)
    optimiser.zero_grad()
    scaler.scale(loss).backward()
    scaler.unscale_(optimiser)
    torch.nn.utils.clip_grad_norm_(model.parameters(), max_norm)
    scaler.step(optimiser)
    scaler.update(scaler.get_scale() / 2)
    return loss.detach()


# %% sum-of-norms
def train_step(model, x, y, optimiser, scaler, max_norm, dtype):
    with torch.autocast(x.device.type, dtype, enabled=dtype != torch.float32):
        logits = model(x)
    loss = F.cross_entropy(logits.float(), y)
    optimiser.zero_grad()
    scaler.scale(loss).backward()
    scaler.unscale_(optimiser)
    total = sum(p.grad.norm() for p in model.parameters())
    for p in model.parameters():
        p.grad.mul_((max_norm / total).clamp(max=1))
    scaler.step(optimiser)
    scaler.update()
    return loss.detach()


# %% zero-gradients-for-overflow
def train_step(model, x, y, optimiser, scaler, max_norm, dtype):
    with torch.autocast(x.device.type, dtype, enabled=dtype != torch.float32):
        logits = model(x)
    loss = F.cross_entropy(logits.float(), y)
    optimiser.zero_grad()
    scaler.scale(loss).backward()
    scale = scaler.get_scale()
    for p in model.parameters():
        p.grad.div_(scale).nan_to_num_(0.0, 1.0, -1.0)
    torch.nn.utils.clip_grad_norm_(model.parameters(), max_norm)
    optimiser.step()
    return loss.detach()


# %% gradients-kept-in-half
def train_step(model, x, y, optimiser, scaler, max_norm, dtype):
    with torch.autocast(x.device.type, dtype, enabled=dtype != torch.float32):
        logits = model(x)
    loss = F.cross_entropy(logits.float(), y)
    optimiser.zero_grad()
    scaler.scale(loss).backward()
    scaler.unscale_(optimiser)
    for p in model.parameters():
        p.grad = p.grad.half().float()
    torch.nn.utils.clip_grad_norm_(model.parameters(), max_norm)
    scaler.step(optimiser)
    scaler.update()
    return loss.detach()


# %% always-float16
def train_step(model, x, y, optimiser, scaler, max_norm, dtype):
    with torch.autocast(x.device.type, torch.float16, enabled=dtype != torch.float32):
        logits = model(x)
    loss = F.cross_entropy(logits.float(), y)
    optimiser.zero_grad()
    scaler.scale(loss).backward()
    scaler.unscale_(optimiser)
    torch.nn.utils.clip_grad_norm_(model.parameters(), max_norm)
    scaler.step(optimiser)
    scaler.update()
    return loss.detach()
