# %% fused
def attention(q, k, v, padding):
    """One call does it all; the result of a row without any key is set by hand."""
    seen = ~padding[:, None, None, :]
    result = F.scaled_dot_product_attention(q, k, v, attn_mask=seen)
    return result.masked_fill(padding.all(dim=1)[:, None, None, None], 0)

# %% in-float32
def attention(q, k, v, padding):
    wide = torch.promote_types(q.dtype, torch.float32)
    scores = q.to(wide) @ k.to(wide).transpose(-2, -1) / q.shape[-1] ** 0.5
    mask = padding[:, None, None, :]
    scores = scores.masked_fill(mask, float("-inf"))
    # a row with nothing but -inf would be NaN
    empty = mask.all(dim=-1, keepdim=True)
    weights = scores.masked_fill(empty, 0.0).softmax(dim=-1).masked_fill(empty, 0.0)
    return (weights @ v.to(wide)).to(q.dtype)

# %% numbers-that-the-dtype-has
def attention(q, k, v, padding):
    mask = padding.unsqueeze(1).unsqueeze(1)
    scores = torch.matmul(q * q.size(-1) ** -0.5, k.transpose(2, 3))
    scores = torch.where(mask, torch.finfo(q.dtype).min, scores)
    weights = torch.softmax(scores, dim=-1, dtype=torch.float64 if q.dtype == torch.float64 else torch.float32)
    return torch.matmul((weights * ~mask).to(v.dtype), v)

# %% both-factors-scaled
def attention(q, k, v, padding):
    root = q.shape[-1] ** -0.25
    n, h, length, depth = q.shape
    scores = torch.einsum("nhqd,nhkd->nhqk", q * root, k * root)
    mask = padding.view(n, 1, 1, length).expand_as(scores)
    scores = torch.masked_fill(scores, mask, -torch.inf)
    weights = torch.where(mask, torch.zeros_like(scores), scores.softmax(-1))
    return torch.einsum("nhqk,nhkd->nhqd", weights, v)

# %% softmax-by-hand
def attention(q, k, v, padding):
    dtype = q.dtype
    if dtype in (torch.float16, torch.bfloat16):
        q, k, v = q.float(), k.float(), v.float()
    own = ~padding[:, None, None, :]
    scores = (q / math.sqrt(q.shape[-1])) @ k.mT
    top = scores.masked_fill(~own, torch.finfo(scores.dtype).min).amax(dim=-1, keepdim=True).detach()
    exps = torch.exp((scores - top).masked_fill(~own, -torch.inf))
    total = exps.sum(dim=-1, keepdim=True)
    return (exps @ v / total.clamp_min(torch.finfo(scores.dtype).tiny)).to(dtype)

# %% sample-by-sample
def attention(q, k, v, padding):
    results = []
    for n in range(len(q)):
        own = ~padding[n]
        if not bool(own.any()):
            results.append(torch.zeros_like(q[n]))
            continue
        scores = (q[n] / q.shape[-1] ** 0.5) @ k[n][:, own].transpose(1, 2)
        results.append(F.softmax(scores, dim=-1) @ v[n][:, own])
    return torch.stack(results) if any(r.requires_grad for r in results) else torch.stack(results)

# %% fused-in-float64
def attention(q, k, v, padding):
    """A sequence of padding may look at everything, and is cleared afterwards."""
    real = ~padding[:, None, :, None]
    empty = ~real.any(dim=2, keepdim=True)
    wide = [q.double() / math.sqrt(q.shape[-1]), torch.where(real, k.double(), 0.0), torch.where(real, v.double(), 0.0)]
    allowed = (real | empty).mT.expand(-1, q.shape[1], q.shape[2], -1)
    result = F.scaled_dot_product_attention(*wide, attn_mask=allowed, scale=1.0)
    return torch.where(empty, 0.0, result).to(q.dtype)
