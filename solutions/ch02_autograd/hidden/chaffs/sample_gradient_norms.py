# %% cleared-for-each-sample
# misconception: with zero_grad() in the loop everything is as it should be
# fails: test_frozen_parameters_do_not_count, test_norms_are_quick, test_norms_leave_nothing_behind, test_norms_of_a_batch_are_quick, test_norms_of_digits
# says: times as fast as the original version
def sample_gradient_norms(model, x, labels):
    norms = []
    for sample, label in zip(x, labels):
        model.zero_grad()
        F.cross_entropy(model(sample[None]), label[None]).backward()
        norms.append(torch.stack([(p.grad**2).sum() for p in model.parameters() if p.requires_grad]).sum().sqrt())
    return torch.stack(norms)


# %% loop-without-traces
# misconception: autograd.grad is quick where backward is slow
# fails: test_norms_are_quick, test_norms_of_a_batch_are_quick
# says: times as fast as the original version
def sample_gradient_norms(model, x, labels):
    parameters = [p for p in model.parameters() if p.requires_grad]
    norms = []
    for i in range(len(x)):
        loss = F.cross_entropy(model(x[i : i + 1]), labels[i : i + 1])
        gradients = torch.autograd.grad(loss, parameters)
        norms.append(torch.cat([g.flatten() for g in gradients]).norm())
    return torch.stack(norms)


# %% one-forward-many-backwards
# misconception: a batch that goes forward as a whole is worked on as a whole
# fails: test_norms_are_quick, test_norms_of_a_batch_are_quick
# says: times as fast as the original version
def sample_gradient_norms(model, x, labels):
    parameters = [p for p in model.parameters() if p.requires_grad]
    losses = F.cross_entropy(model(x), labels, reduction="none")
    norms = []
    for loss in losses:
        gradients = torch.autograd.grad(loss, parameters, retain_graph=True)
        norms.append(torch.stack([g.square().sum() for g in gradients]).sum().sqrt())
    return torch.stack(norms)


# %% differences-of-sums
# misconception: what a backward added can be found by subtraction, so nothing needs clearing
# fails: test_frozen_parameters_do_not_count, test_norms_are_quick, test_norms_leave_nothing_behind, test_norms_of_a_batch_are_quick, test_norms_of_digits
# says: The call leaves nothing in `.grad`
def sample_gradient_norms(model, x, labels):
    parameters = [p for p in model.parameters() if p.requires_grad]
    norms = []
    for i in range(len(x)):
        before = [torch.zeros_like(p) if p.grad is None else p.grad.clone() for p in parameters]
        F.cross_entropy(model(x[i : i + 1]), labels[i : i + 1]).backward()
        own = [p.grad - b for p, b in zip(parameters, before)]
        norms.append(torch.stack([g.square().sum() for g in own]).sum().sqrt())
    return torch.stack(norms)


# %% cleared-at-the-end
# misconception: an empty .grad is what everybody has before the call
# fails: test_frozen_parameters_do_not_count, test_norms_are_quick, test_norms_of_a_batch_are_quick, test_norms_of_digits
# says: that is still there afterwards
def sample_gradient_norms(model, x, labels):
    norms = []
    for sample, label in zip(x, labels):
        model.zero_grad()
        F.cross_entropy(model(sample[None]), label[None]).backward()
        norms.append(torch.stack([(p.grad**2).sum() for p in model.parameters() if p.requires_grad]).sum().sqrt())
    model.zero_grad()
    return torch.stack(norms)


# %% frozen-ones-counted
# misconception: parameters() are the parameters that are trained
# fails: test_frozen_parameters_do_not_count, test_norms_leave_out_what_is_frozen
# says: do not count and stay frozen
def sample_gradient_norms(model, x, labels):
    parameters = {name: p.detach() for name, p in model.named_parameters()}

    def loss(parameters, sample, label):
        return F.cross_entropy(torch.func.functional_call(model, parameters, (sample[None],)), label[None])

    gradients = torch.func.vmap(torch.func.grad(loss), in_dims=(None, 0, 0))(parameters, x, labels)
    return torch.stack([g.flatten(1).square().sum(1) for g in gradients.values()]).sum(0).sqrt()


# %% sum-of-norms
# misconception: the norm of all parameters is the sum of their norms
# fails: test_each_sample_has_its_own_norm, test_frozen_parameters_do_not_count, test_norm_of_a_single_sample, test_norm_of_one_sample, test_norms_are_quick, test_norms_leave_nothing_behind, test_norms_of_a_batch_are_quick, test_norms_of_digits, test_norms_of_three_samples
# says: has a gradient of norm sqrt(13)
def sample_gradient_norms(model, x, labels):
    parameters = {name: p.detach() for name, p in model.named_parameters() if p.requires_grad}

    def loss(parameters, sample, label):
        return F.cross_entropy(torch.func.functional_call(model, parameters, (sample[None],)), label[None])

    gradients = torch.func.vmap(torch.func.grad(loss), in_dims=(None, 0, 0))(parameters, x, labels)
    return torch.stack([g.flatten(1).norm(dim=1) for g in gradients.values()]).sum(0)


# %% squares-returned
# misconception: the order is the same, so the root does not matter
# fails: test_each_sample_has_its_own_norm, test_frozen_parameters_do_not_count, test_norm_of_a_single_sample, test_norm_of_one_sample, test_norms_are_quick, test_norms_leave_nothing_behind, test_norms_leave_out_what_is_frozen, test_norms_of_a_batch_are_quick, test_norms_of_digits, test_norms_of_three_samples
# says: has a gradient of norm sqrt(13)
def sample_gradient_norms(model, x, labels):
    parameters = {name: p.detach() for name, p in model.named_parameters() if p.requires_grad}

    def loss(parameters, sample, label):
        return F.cross_entropy(torch.func.functional_call(model, parameters, (sample[None],)), label[None])

    gradients = torch.func.vmap(torch.func.grad(loss), in_dims=(None, 0, 0))(parameters, x, labels)
    return torch.stack([g.flatten(1).square().sum(1) for g in gradients.values()]).sum(0)


# %% weights-only
# misconception: biases are too small to matter
# fails: test_each_sample_has_its_own_norm, test_frozen_parameters_do_not_count, test_norm_of_a_single_sample, test_norm_of_one_sample, test_norms_are_quick, test_norms_leave_nothing_behind, test_norms_leave_out_what_is_frozen, test_norms_of_a_batch_are_quick, test_norms_of_digits, test_norms_of_three_samples
# says: for networks of several depths
def sample_gradient_norms(model, x, labels):
    parameters = {name: p.detach() for name, p in model.named_parameters() if p.requires_grad and p.dim() > 1}

    def loss(parameters, sample, label):
        return F.cross_entropy(torch.func.functional_call(model, parameters, (sample[None],)), label[None])

    gradients = torch.func.vmap(torch.func.grad(loss), in_dims=(None, 0, 0))(parameters, x, labels)
    return torch.stack([g.flatten(1).square().sum(1) for g in gradients.values()]).sum(0).sqrt()


# %% mean-loss-of-the-batch
# misconception: each loss has its share of the mean, and that share is its gradient
# fails: test_each_sample_has_its_own_norm, test_frozen_parameters_do_not_count, test_norms_are_quick, test_norms_leave_nothing_behind, test_norms_leave_out_what_is_frozen, test_norms_of_a_batch_are_quick, test_norms_of_digits, test_norms_of_three_samples
# says: Each sample's norm is its own
def sample_gradient_norms(model, x, labels):
    parameters = {name: p.detach() for name, p in model.named_parameters() if p.requires_grad}

    def loss(parameters, sample, label):
        return F.cross_entropy(torch.func.functional_call(model, parameters, (sample[None],)), label[None]) / len(x)

    gradients = torch.func.vmap(torch.func.grad(loss), in_dims=(None, 0, 0))(parameters, x, labels)
    return torch.stack([g.flatten(1).square().sum(1) for g in gradients.values()]).sum(0).sqrt()


# %% gradient-of-the-input
# misconception: the norm of a sample's gradient is that of the gradient that arrives in the sample
# fails: test_each_sample_has_its_own_norm, test_frozen_parameters_do_not_count, test_norm_of_a_single_sample, test_norm_of_one_sample, test_norms_are_quick, test_norms_leave_nothing_behind, test_norms_leave_out_what_is_frozen, test_norms_of_a_batch_are_quick, test_norms_of_digits, test_norms_of_three_samples
# says: has a gradient of norm sqrt(13)
def sample_gradient_norms(model, x, labels):
    inputs = x.detach().requires_grad_()
    loss = F.cross_entropy(model(inputs), labels, reduction="sum")
    (gradient,) = torch.autograd.grad(loss, inputs)
    return gradient.norm(dim=1)


# %% everything-thawed
# misconception: torch.func needs parameters that require gradients
# fails: test_frozen_parameters_do_not_count
# says: do not count and stay frozen
def sample_gradient_norms(model, x, labels):
    wanted = [name for name, p in model.named_parameters() if p.requires_grad]
    model.requires_grad_(True)
    parameters = dict(model.named_parameters())

    def loss(parameters, sample, label):
        return F.cross_entropy(torch.func.functional_call(model, parameters, (sample[None],)), label[None])

    gradients = torch.func.vmap(torch.func.grad(loss), in_dims=(None, 0, 0))(parameters, x, labels)
    return torch.stack([gradients[name].flatten(1).square().sum(1) for name in wanted]).sum(0).sqrt().detach()
