# %% clone-that-nobody-differentiates
class SoftenedDivergence(torch.autograd.Function):
    @staticmethod
    def forward(ctx, student_logits, teacher_logits, temperature):
        ctx.temperature = temperature
        # the teacher's side is a constant, so what is computed here may be kept; the student's side is kept as it came
        ctx.p = torch.softmax(teacher_logits.detach().clone() / temperature, dim=1)
        ctx.save_for_backward(student_logits)
        log_q = torch.log_softmax(student_logits / temperature, dim=1)
        log_p = torch.log_softmax(teacher_logits / temperature, dim=1)
        return temperature**2 * (ctx.p * (log_p - log_q)).sum(dim=1)

    @staticmethod
    def backward(ctx, upstream):
        (student_logits,) = ctx.saved_tensors
        q = torch.softmax(student_logits / ctx.temperature, dim=1)
        return (upstream * ctx.temperature).unsqueeze(-1) * (q - ctx.p), None, None


def distillation_loss(student_logits, teacher_logits, temperature):
    return SoftenedDivergence.apply(student_logits, teacher_logits, temperature)


# %% scaled-outside
class _Divergence(torch.autograd.Function):
    @staticmethod
    def forward(ctx, scaled, target):
        ctx.save_for_backward(scaled, target)
        log_q, log_p = torch.log_softmax(scaled, 1), torch.log_softmax(target, 1)
        return (log_p.exp() * (log_p - log_q)).sum(1)

    @staticmethod
    def backward(ctx, upstream):
        scaled, target = ctx.saved_tensors
        # no temperature here: autograd brings it in, twice, through what is done outside
        return upstream[:, None] * (scaled.softmax(1) - target.softmax(1)), None


def distillation_loss(student_logits, teacher_logits, temperature):
    return _Divergence.apply(student_logits / temperature, teacher_logits.detach() / temperature) * temperature**2
