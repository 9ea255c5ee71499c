# %% upstream-averaged
# misconception: the upstream gradient is the same for all samples
# silent: yes
# fails: test_gradients_for_any_upstream, test_penalty_on_the_gradient, test_second_derivatives_agree_with_finite_differences, test_weights_of_samples_count
# says: Whatever is done with the losses afterwards
class SoftenedDivergence(torch.autograd.Function):
    @staticmethod
    def forward(ctx, student_logits, teacher_logits, temperature):
        ctx.temperature = temperature
        ctx.save_for_backward(student_logits, teacher_logits)
        student = torch.log_softmax(student_logits / temperature, dim=1)
        teacher = torch.log_softmax(teacher_logits / temperature, dim=1)
        return temperature**2 * (teacher.exp() * (teacher - student)).sum(dim=1)

    @staticmethod
    def backward(ctx, upstream):
        student_logits, teacher_logits = ctx.saved_tensors
        student = torch.softmax(student_logits / ctx.temperature, dim=1)
        teacher = torch.softmax(teacher_logits / ctx.temperature, dim=1)
        return upstream.mean() * ctx.temperature * (student - teacher), None, None


def distillation_loss(student_logits, teacher_logits, temperature):
    return SoftenedDivergence.apply(student_logits, teacher_logits.detach(), temperature)


# %% upstream-of-the-first-sample
# misconception: what arrives is one number
# silent: yes
# fails: test_gradients_for_any_upstream, test_penalty_on_the_gradient, test_second_derivatives_agree_with_finite_differences, test_weights_of_samples_count
# says: Whatever is done with the losses afterwards
class SoftenedDivergence(torch.autograd.Function):
    @staticmethod
    def forward(ctx, student_logits, teacher_logits, temperature):
        ctx.temperature = temperature
        ctx.save_for_backward(student_logits, teacher_logits)
        student = torch.log_softmax(student_logits / temperature, dim=1)
        teacher = torch.log_softmax(teacher_logits / temperature, dim=1)
        return temperature**2 * (teacher.exp() * (teacher - student)).sum(dim=1)

    @staticmethod
    def backward(ctx, upstream):
        student_logits, teacher_logits = ctx.saved_tensors
        student = torch.softmax(student_logits / ctx.temperature, dim=1)
        teacher = torch.softmax(teacher_logits / ctx.temperature, dim=1)
        return upstream[0] * ctx.temperature * (student - teacher), None, None


def distillation_loss(student_logits, teacher_logits, temperature):
    return SoftenedDivergence.apply(student_logits, teacher_logits.detach(), temperature)


# %% upstream-by-sign
# misconception: the upstream gradient only says in which direction to go
# silent: for upstream gradients of -1, 0 and 1, as gradcheck uses
# fails: test_gradients_for_any_upstream, test_penalty_on_the_gradient, test_training_with_a_penalty, test_weights_of_samples_count
# says: Whatever is done with the losses afterwards
class SoftenedDivergence(torch.autograd.Function):
    @staticmethod
    def forward(ctx, student_logits, teacher_logits, temperature):
        ctx.temperature = temperature
        ctx.save_for_backward(student_logits, teacher_logits)
        student = torch.log_softmax(student_logits / temperature, dim=1)
        teacher = torch.log_softmax(teacher_logits / temperature, dim=1)
        return temperature**2 * (teacher.exp() * (teacher - student)).sum(dim=1)

    @staticmethod
    def backward(ctx, upstream):
        student_logits, teacher_logits = ctx.saved_tensors
        student = torch.softmax(student_logits / ctx.temperature, dim=1)
        teacher = torch.softmax(teacher_logits / ctx.temperature, dim=1)
        return upstream.sign()[:, None] * ctx.temperature * (student - teacher), None, None


def distillation_loss(student_logits, teacher_logits, temperature):
    return SoftenedDivergence.apply(student_logits, teacher_logits.detach(), temperature)


# %% gradient-kept-from-forward
# misconception: what forward has computed need not be computed again
# silent: yes
# fails: test_curvature_of_two_classes, test_penalty_on_the_gradient, test_second_derivatives_agree_with_finite_differences, test_training_with_a_penalty
# says: The table of second derivatives
class SoftenedDivergence(torch.autograd.Function):
    @staticmethod
    def forward(ctx, student_logits, teacher_logits, temperature):
        ctx.temperature = temperature
        student = torch.log_softmax(student_logits / temperature, dim=1)
        teacher = torch.log_softmax(teacher_logits / temperature, dim=1)
        ctx.gradient = temperature * (student.exp() - teacher.exp())
        return temperature**2 * (teacher.exp() * (teacher - student)).sum(dim=1)

    @staticmethod
    def backward(ctx, upstream):
        gradient = ctx.gradient
        return upstream[:, None] * gradient, None, None


def distillation_loss(student_logits, teacher_logits, temperature):
    return SoftenedDivergence.apply(student_logits, teacher_logits.detach(), temperature)


# %% probabilities-saved
# misconception: save_for_backward keeps what it is given connected, whatever it is
# silent: yes
# fails: test_curvature_of_two_classes, test_penalty_on_the_gradient, test_second_derivatives_agree_with_finite_differences, test_training_with_a_penalty
# says: The table of second derivatives
class SoftenedDivergence(torch.autograd.Function):
    @staticmethod
    def forward(ctx, student_logits, teacher_logits, temperature):
        ctx.temperature = temperature
        student = torch.log_softmax(student_logits / temperature, dim=1)
        teacher = torch.log_softmax(teacher_logits / temperature, dim=1)
        ctx.save_for_backward(student.exp(), teacher.exp())
        return temperature**2 * (teacher.exp() * (teacher - student)).sum(dim=1)

    @staticmethod
    def backward(ctx, upstream):
        student, teacher = ctx.saved_tensors
        return upstream[:, None] * ctx.temperature * (student - teacher), None, None


def distillation_loss(student_logits, teacher_logits, temperature):
    return SoftenedDivergence.apply(student_logits, teacher_logits.detach(), temperature)


# %% once-differentiable
# misconception: a backward that refuses a second derivative is a safe one
# silent: yes
# fails: test_curvature_of_two_classes, test_penalty_on_the_gradient, test_second_derivatives_agree_with_finite_differences, test_training_with_a_penalty
# says: The table of second derivatives
class SoftenedDivergence(torch.autograd.Function):
    @staticmethod
    def forward(ctx, student_logits, teacher_logits, temperature):
        ctx.temperature = temperature
        ctx.save_for_backward(student_logits, teacher_logits)
        student = torch.log_softmax(student_logits / temperature, dim=1)
        teacher = torch.log_softmax(teacher_logits / temperature, dim=1)
        return temperature**2 * (teacher.exp() * (teacher - student)).sum(dim=1)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, upstream):
        student_logits, teacher_logits = ctx.saved_tensors
        student = torch.softmax(student_logits / ctx.temperature, dim=1)
        teacher = torch.softmax(teacher_logits / ctx.temperature, dim=1)
        return upstream[:, None] * ctx.temperature * (student - teacher), None, None


def distillation_loss(student_logits, teacher_logits, temperature):
    return SoftenedDivergence.apply(student_logits, teacher_logits.detach(), temperature)


# %% detached-in-backward
# misconception: backward is about numbers, not about graphs
# silent: yes
# fails: test_curvature_of_two_classes, test_penalty_on_the_gradient, test_second_derivatives_agree_with_finite_differences, test_training_with_a_penalty
# says: A penalty on the gradient has the right value
class SoftenedDivergence(torch.autograd.Function):
    @staticmethod
    def forward(ctx, student_logits, teacher_logits, temperature):
        ctx.temperature = temperature
        ctx.save_for_backward(student_logits, teacher_logits)
        student = torch.log_softmax(student_logits / temperature, dim=1)
        teacher = torch.log_softmax(teacher_logits / temperature, dim=1)
        return temperature**2 * (teacher.exp() * (teacher - student)).sum(dim=1)

    @staticmethod
    def backward(ctx, upstream):
        student_logits, teacher_logits = ctx.saved_tensors
        student = torch.softmax(student_logits.detach() / ctx.temperature, dim=1)
        teacher = torch.softmax(teacher_logits / ctx.temperature, dim=1)
        return upstream[:, None] * ctx.temperature * (student - teacher), None, None


def distillation_loss(student_logits, teacher_logits, temperature):
    return SoftenedDivergence.apply(student_logits, teacher_logits.detach(), temperature)


# %% contiguous-copies
# misconception: contiguous() never changes anything
# silent: for strided logits
# fails: test_penalty_on_the_gradient
# says: however the logits lie in memory
class SoftenedDivergence(torch.autograd.Function):
    @staticmethod
    def forward(ctx, student_logits, teacher_logits, temperature):
        ctx.temperature = temperature
        ctx.save_for_backward(student_logits.contiguous(), teacher_logits.contiguous())
        student = torch.log_softmax(student_logits / temperature, dim=1)
        teacher = torch.log_softmax(teacher_logits / temperature, dim=1)
        return temperature**2 * (teacher.exp() * (teacher - student)).sum(dim=1)

    @staticmethod
    def backward(ctx, upstream):
        student_logits, teacher_logits = ctx.saved_tensors
        student = torch.softmax(student_logits / ctx.temperature, dim=1)
        teacher = torch.softmax(teacher_logits / ctx.temperature, dim=1)
        return upstream[:, None] * ctx.temperature * (student - teacher), None, None


def distillation_loss(student_logits, teacher_logits, temperature):
    return SoftenedDivergence.apply(student_logits, teacher_logits.detach(), temperature)


# %% temperature-missing-in-backward
# misconception: the gradient of a divergence is the difference of the probabilities, at any temperature
# silent: yes
# fails: test_gradients_for_any_upstream, test_large_logits, test_penalty_on_the_gradient, test_second_derivatives_agree_with_finite_differences, test_training_with_a_penalty
# says: Whatever is done with the losses afterwards
class SoftenedDivergence(torch.autograd.Function):
    @staticmethod
    def forward(ctx, student_logits, teacher_logits, temperature):
        ctx.temperature = temperature
        ctx.save_for_backward(student_logits, teacher_logits)
        student = torch.log_softmax(student_logits / temperature, dim=1)
        teacher = torch.log_softmax(teacher_logits / temperature, dim=1)
        return temperature**2 * (teacher.exp() * (teacher - student)).sum(dim=1)

    @staticmethod
    def backward(ctx, upstream):
        student_logits, teacher_logits = ctx.saved_tensors
        student = torch.softmax(student_logits / ctx.temperature, dim=1)
        teacher = torch.softmax(teacher_logits / ctx.temperature, dim=1)
        return upstream[:, None] * (student - teacher), None, None


def distillation_loss(student_logits, teacher_logits, temperature):
    return SoftenedDivergence.apply(student_logits, teacher_logits.detach(), temperature)


# %% temperature-squared-in-backward
# misconception: the factor of the value is the factor of the gradient
# silent: yes
# fails: test_gradients_for_any_upstream, test_large_logits, test_penalty_on_the_gradient, test_second_derivatives_agree_with_finite_differences, test_training_with_a_penalty
# says: Whatever is done with the losses afterwards
class SoftenedDivergence(torch.autograd.Function):
    @staticmethod
    def forward(ctx, student_logits, teacher_logits, temperature):
        ctx.temperature = temperature
        ctx.save_for_backward(student_logits, teacher_logits)
        student = torch.log_softmax(student_logits / temperature, dim=1)
        teacher = torch.log_softmax(teacher_logits / temperature, dim=1)
        return temperature**2 * (teacher.exp() * (teacher - student)).sum(dim=1)

    @staticmethod
    def backward(ctx, upstream):
        student_logits, teacher_logits = ctx.saved_tensors
        student = torch.softmax(student_logits / ctx.temperature, dim=1)
        teacher = torch.softmax(teacher_logits / ctx.temperature, dim=1)
        return upstream[:, None] * ctx.temperature**2 * (student - teacher), None, None


def distillation_loss(student_logits, teacher_logits, temperature):
    return SoftenedDivergence.apply(student_logits, teacher_logits.detach(), temperature)


# %% teacher-gradient-by-symmetry
# misconception: backward must return a gradient for each argument
# silent: yes
# fails: test_no_gradient_for_teacher_logits
# says: No gradient reaches the teacher's logits
class SoftenedDivergence(torch.autograd.Function):
    @staticmethod
    def forward(ctx, student_logits, teacher_logits, temperature):
        ctx.temperature = temperature
        ctx.save_for_backward(student_logits, teacher_logits)
        student = torch.log_softmax(student_logits / temperature, dim=1)
        teacher = torch.log_softmax(teacher_logits / temperature, dim=1)
        return temperature**2 * (teacher.exp() * (teacher - student)).sum(dim=1)

    @staticmethod
    def backward(ctx, upstream):
        student_logits, teacher_logits = ctx.saved_tensors
        student = torch.softmax(student_logits / ctx.temperature, dim=1)
        teacher = torch.softmax(teacher_logits / ctx.temperature, dim=1)
        gradient = upstream[:, None] * ctx.temperature * (student - teacher)
        return gradient, -gradient, None


def distillation_loss(student_logits, teacher_logits, temperature):
    return SoftenedDivergence.apply(student_logits, teacher_logits, temperature)


# %% teacher-not-detached
# misconception: the teacher is frozen, so it does not matter what flows towards it
# silent: yes
# fails: test_no_gradient_for_teacher_logits
# says: No gradient reaches the teacher's logits
def distillation_loss(student_logits, teacher_logits, temperature):
    log_p = torch.log_softmax(teacher_logits / temperature, dim=1)
    log_q = torch.log_softmax(student_logits / temperature, dim=1)
    return temperature**2 * (log_p.exp() * (log_p - log_q)).sum(dim=1)


# %% logarithm-of-softmax
# misconception: log(softmax(x)) and log_softmax(x) are the same
# silent: yes
# fails: test_large_logits, test_loss_of_large_logits
# says: For logits from -10,000 to 10,000
def distillation_loss(student_logits, teacher_logits, temperature):
    p = torch.softmax(teacher_logits.detach() / temperature, dim=1)
    q = torch.softmax(student_logits / temperature, dim=1)
    return temperature**2 * (p * (p.log() - q.log())).sum(dim=1)


# %% constant-under-the-logarithm
# misconception: a tiny constant makes a logarithm safe and changes nothing
# silent: yes
# fails: test_large_logits
# says: For logits from -10,000 to 10,000
def distillation_loss(student_logits, teacher_logits, temperature):
    p = torch.softmax(teacher_logits.detach() / temperature, dim=1)
    q = torch.softmax(student_logits / temperature, dim=1)
    return temperature**2 * (p * ((p + 1e-8).log() - (q + 1e-8).log())).sum(dim=1)


# %% by-the-library-of-distributions
# misconception: a library's divergence is as stable as its logits
# silent: yes
# fails: test_large_logits
# says: For logits from -10,000 to 10,000
def distillation_loss(student_logits, teacher_logits, temperature):
    p = torch.distributions.Categorical(logits=teacher_logits.detach() / temperature)
    q = torch.distributions.Categorical(logits=student_logits / temperature)
    return temperature**2 * torch.distributions.kl_divergence(p, q)


# %% student-first
# misconception: a divergence is a distance, so the order does not matter
# silent: yes
# fails: test_divergence, test_gradients_for_any_upstream, test_large_logits, test_loss_at_another_temperature, test_loss_of_large_logits, test_loss_of_two_classes, test_penalty_on_the_gradient, test_training_with_a_penalty, test_weights_of_samples_count
# says: Teacher 3 to 1, student 1 to 1
def distillation_loss(student_logits, teacher_logits, temperature):
    log_p = torch.log_softmax(teacher_logits.detach() / temperature, dim=1)
    log_q = torch.log_softmax(student_logits / temperature, dim=1)
    return temperature**2 * torch.nn.functional.kl_div(log_p, log_q, reduction="none", log_target=True).sum(dim=1)


# %% batch-mean
# misconception: a loss is one number
# silent: yes
# fails: test_divergence, test_gradients_for_any_upstream, test_large_logits, test_loss_at_another_temperature, test_loss_of_large_logits, test_loss_of_two_classes, test_penalty_on_the_gradient, test_training_with_a_penalty, test_weights_of_samples_count
# says: the shape is ()
def distillation_loss(student_logits, teacher_logits, temperature):
    p = torch.softmax(teacher_logits.detach() / temperature, dim=1)
    log_q = torch.log_softmax(student_logits / temperature, dim=1)
    return temperature**2 * torch.nn.functional.kl_div(log_q, p, reduction="batchmean")


# %% mean-over-classes
# misconception: the mean over classes is the sum up to the learning rate
# silent: yes
# fails: test_curvature_of_two_classes, test_divergence, test_gradients_for_any_upstream, test_large_logits, test_loss_at_another_temperature, test_loss_of_large_logits, test_loss_of_two_classes, test_penalty_on_the_gradient, test_training_with_a_penalty, test_weights_of_samples_count
# says: Teacher 3 to 1, student 1 to 1
def distillation_loss(student_logits, teacher_logits, temperature):
    p = torch.softmax(teacher_logits.detach() / temperature, dim=1)
    log_q = torch.log_softmax(student_logits / temperature, dim=1)
    return temperature**2 * torch.nn.functional.kl_div(log_q, p, reduction="none").mean(dim=1)


# %% cross-entropy-alone
# misconception: the entropy of the teacher is a constant and can be left out
# silent: yes
# fails: test_divergence, test_large_logits, test_loss_at_another_temperature, test_loss_of_two_classes, test_penalty_on_the_gradient
# says: Teacher 3 to 1, student 1 to 1
def distillation_loss(student_logits, teacher_logits, temperature):
    p = torch.softmax(teacher_logits.detach() / temperature, dim=1)
    return -(temperature**2) * (p * torch.log_softmax(student_logits / temperature, dim=1)).sum(dim=1)


# %% without-the-square
# misconception: the square of the temperature is part of the learning rate
# silent: yes
# fails: test_divergence, test_gradients_for_any_upstream, test_large_logits, test_loss_at_another_temperature, test_penalty_on_the_gradient, test_training_with_a_penalty
# says: 4 times the loss
def distillation_loss(student_logits, teacher_logits, temperature):
    p = torch.softmax(teacher_logits.detach() / temperature, dim=1)
    log_q = torch.log_softmax(student_logits / temperature, dim=1)
    return torch.nn.functional.kl_div(log_q, p, reduction="none").sum(dim=1)


# %% teacher-not-softened
# misconception: the temperature is the student's
# silent: yes
# fails: test_divergence, test_gradients_for_any_upstream, test_large_logits, test_loss_at_another_temperature, test_penalty_on_the_gradient, test_training_with_a_penalty
# says: Logits twice as large at temperature 2
def distillation_loss(student_logits, teacher_logits, temperature):
    p = torch.softmax(teacher_logits.detach(), dim=1)
    log_q = torch.log_softmax(student_logits / temperature, dim=1)
    return temperature**2 * torch.nn.functional.kl_div(log_q, p, reduction="none").sum(dim=1)


# %% softmax-over-the-batch
# misconception: softmax knows which dimension holds the classes
# silent: yes
# fails: test_curvature_of_two_classes, test_divergence, test_gradients_for_any_upstream, test_large_logits, test_loss_at_another_temperature, test_loss_of_large_logits, test_loss_of_two_classes, test_penalty_on_the_gradient, test_training_with_a_penalty, test_weights_of_samples_count
# says: Teacher 3 to 1, student 1 to 1
def distillation_loss(student_logits, teacher_logits, temperature):
    p = torch.softmax(teacher_logits.detach() / temperature, dim=0)
    log_q = torch.log_softmax(student_logits / temperature, dim=0)
    return temperature**2 * torch.nn.functional.kl_div(log_q, p, reduction="none").sum(dim=1)


# %% student-probabilities-detached
# misconception: one factor may be detached where the value stays the same
# silent: yes
# fails: test_curvature_of_two_classes, test_gradients_for_any_upstream, test_large_logits, test_penalty_on_the_gradient, test_second_derivatives_agree_with_finite_differences, test_training_with_a_penalty, test_weights_of_samples_count
# says: The gradient
def distillation_loss(student_logits, teacher_logits, temperature):
    p = torch.softmax(teacher_logits.detach() / temperature, dim=1)
    scaled = student_logits / temperature
    log_q = scaled - scaled.detach().logsumexp(dim=1, keepdim=True)
    return temperature**2 * torch.nn.functional.kl_div(log_q, p, reduction="none").sum(dim=1)


# %% centred-in-place
# misconception: taking the largest logit away changes nothing, so it may be done in place
# silent: yes
# fails: test_divergence, test_penalty_on_the_gradient
# says: The loss of each sample is right for several shapes
def distillation_loss(student_logits, teacher_logits, temperature):
    student_logits.data.sub_(student_logits.detach().amax(dim=1, keepdim=True))
    p = torch.softmax(teacher_logits.detach() / temperature, dim=1)
    log_q = torch.log_softmax(student_logits / temperature, dim=1)
    return temperature**2 * torch.nn.functional.kl_div(log_q, p, reduction="none").sum(dim=1)


# %% always-in-single-precision
# misconception: losses are computed in float32
# silent: yes
# fails: test_divergence, test_second_derivatives_agree_with_finite_differences
# says: The loss of each sample is right for several shapes
def distillation_loss(student_logits, teacher_logits, temperature):
    p = torch.softmax(teacher_logits.detach().float() / temperature, dim=1)
    log_q = torch.log_softmax(student_logits.float() / temperature, dim=1)
    return temperature**2 * torch.nn.functional.kl_div(log_q, p, reduction="none").sum(dim=1)
