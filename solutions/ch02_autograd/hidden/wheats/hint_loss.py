# %% lengths-by-the-library
def hint_loss(student_features, teacher_features, keep):
    def direction(rows):
        rows = rows * keep
        length = torch.linalg.vector_norm(rows, dim=1, keepdim=True)
        return rows / length.masked_fill(length == 0, 1.0)

    gap = direction(student_features) - direction(teacher_features.detach())
    return torch.linalg.vector_norm(gap, dim=1)


# %% only-the-units-that-are-kept
def hint_loss(student_features, teacher_features, keep):
    student = student_features[:, keep]
    with torch.no_grad():
        teacher = teacher_features[:, keep]
        teacher = F.normalize(teacher, dim=1)

    empty = (student == 0).all(dim=1, keepdim=True)
    safe = torch.where(empty, torch.ones_like(student), student)
    unit = safe / safe.pow(2).sum(dim=1, keepdim=True).sqrt()
    unit = unit.masked_fill(empty, 0)
    # under the root a constant does: at zero the inner slope is zero
    return torch.sqrt((unit - teacher).square().sum(dim=1) + 1e-12)


# %% rows-with-a-length-are-picked
def _unit_rows(rows: torch.Tensor) -> torch.Tensor:
    some = rows.ne(0).any(dim=1)
    result = torch.zeros_like(rows)
    result[some] = rows[some] / rows[some].norm(dim=1, keepdim=True)
    return result


def hint_loss(student_features: torch.Tensor, teacher_features: torch.Tensor, keep: torch.Tensor) -> torch.Tensor:
    """The distance of directions, for the units that are kept."""
    print("units kept:", int(keep.sum()))
    student = _unit_rows(student_features.masked_fill(~keep, 0.0))
    teacher = _unit_rows(teacher_features.detach().masked_fill(~keep, 0.0))
    return (student - teacher).norm(dim=1)


# %% row-by-row
def hint_loss(student_features, teacher_features, keep):
    distances = []
    for s, t in zip(student_features, teacher_features.detach()):
        s, t = s[keep], t[keep]
        s = s / s.norm() if torch.count_nonzero(s) else s
        t = t / t.norm() if torch.count_nonzero(t) else t
        distances.append(torch.dist(s, t))
    return torch.stack(distances)


# %% reciprocal-length
def hint_loss(student_features, teacher_features, keep):
    mask = keep.to(student_features.dtype)

    def inverse_length(squares):
        positive = squares > 0
        return torch.where(positive, torch.where(positive, squares, torch.ones_like(squares)).rsqrt(), 0.0)

    s = student_features * mask
    t = teacher_features.detach() * mask
    s = s * inverse_length(torch.einsum("nd,nd->n", s, s)).unsqueeze(-1)
    t = t * inverse_length(torch.einsum("nd,nd->n", t, t)).unsqueeze(-1)
    squares = (s - t).square().sum(-1)
    return squares * inverse_length(squares)


# %% a-backward-by-hand
class _Distance(torch.autograd.Function):
    @staticmethod
    def forward(ctx, student, teacher):
        length = student.norm(dim=1, keepdim=True)
        length = length.where(length > 0, torch.ones_like(length))
        unit = student / length
        gap = unit - F.normalize(teacher, dim=1)
        distance = gap.norm(dim=1, keepdim=True)
        ctx.save_for_backward(unit, gap, distance, length)
        return distance.squeeze(1)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, upstream):
        unit, gap, distance, length = ctx.saved_tensors
        slope = torch.where(distance > 0, gap / distance.clamp_min(1e-30), torch.zeros_like(gap))
        slope = slope - unit * (unit * slope).sum(1, keepdim=True)
        return upstream[:, None] * slope / length, None


def hint_loss(student_features, teacher_features, keep):
    return _Distance.apply(student_features * keep, teacher_features * keep)
