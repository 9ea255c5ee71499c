# %% adamw-for-everything
# misconception: with AdamW, weight decay is all right
# fails: test_biases_and_normalisation_stay, test_only_weights_decay, test_steps_with_gradients
# says: biases and the parameters of normalisation layers do not change
def make_optimiser(model, lr, weight_decay):
    trainable = [parameter for parameter in model.parameters() if parameter.requires_grad]
    return torch.optim.AdamW(trainable, lr=lr, weight_decay=weight_decay)


# %% l2-in-groups
# misconception: weight decay and a penalty on squares are the same thing
# fails: test_decay_and_gradients_are_kept_apart, test_only_weights_decay, test_steps_with_gradients, test_weights_shrink_by_the_decay
# says: make 0.95 * 0.95 * 2 = 1.805 of a weight of 2
def make_optimiser(model, lr, weight_decay):
    trainable = [parameter for parameter in model.parameters() if parameter.requires_grad]
    groups = [
        {"params": [parameter for parameter in trainable if parameter.dim() > 1], "weight_decay": weight_decay},
        {"params": [parameter for parameter in trainable if parameter.dim() <= 1], "weight_decay": 0.0},
    ]
    return torch.optim.Adam(groups, lr=lr)


# %% found-by-name
# misconception: normalisation layers have norm in their names
# fails: test_biases_and_normalisation_stay, test_only_weights_decay, test_steps_with_gradients
# says: biases and the parameters of normalisation layers do not change
def make_optimiser(model, lr, weight_decay):
    named = [(name, p) for name, p in model.named_parameters() if p.requires_grad]
    plain = [p for name, p in named if "bias" in name or "norm" in name.lower()]
    decay = [p for name, p in named if not ("bias" in name or "norm" in name.lower())]
    groups = [{"params": decay, "weight_decay": weight_decay}, {"params": plain, "weight_decay": 0.0}]
    return torch.optim.AdamW(groups, lr=lr)


# %% biases-spared-only
# misconception: only biases should not decay
# fails: test_biases_and_normalisation_stay, test_only_weights_decay, test_steps_with_gradients
# says: biases and the parameters of normalisation layers do not change
def make_optimiser(model, lr, weight_decay):
    named = [(name, p) for name, p in model.named_parameters() if p.requires_grad]
    groups = [
        {"params": [p for name, p in named if not name.endswith("bias")], "weight_decay": weight_decay},
        {"params": [p for name, p in named if name.endswith("bias")], "weight_decay": 0.0},
    ]
    return torch.optim.AdamW(groups, lr=lr)


# %% default-decay-for-the-rest
# misconception: a group without weight_decay has none
# fails: test_biases_and_normalisation_stay, test_no_decay_at_all, test_only_weights_decay, test_steps_with_gradients
# says: biases and the parameters of normalisation layers do not change
def make_optimiser(model, lr, weight_decay):
    trainable = [parameter for parameter in model.parameters() if parameter.requires_grad]
    groups = [
        {"params": [parameter for parameter in trainable if parameter.dim() > 1], "weight_decay": weight_decay},
        {"params": [parameter for parameter in trainable if parameter.dim() <= 1]},
    ]
    return torch.optim.AdamW(groups, lr=lr)


# %% groups-swapped
# misconception: what is small should be kept small
# fails: test_biases_and_normalisation_stay, test_decay_and_gradients_are_kept_apart, test_only_weights_decay, test_steps_with_gradients, test_weights_shrink_by_the_decay
# says: make 0.95 * 0.95 * 2 = 1.805 of a weight of 2
def make_optimiser(model, lr, weight_decay):
    trainable = [parameter for parameter in model.parameters() if parameter.requires_grad]
    groups = [
        {"params": [parameter for parameter in trainable if parameter.dim() <= 1 ], "weight_decay": weight_decay},
        {"params": [parameter for parameter in trainable if parameter.dim() > 1], "weight_decay": 0.0},
    ]
    return torch.optim.AdamW(groups, lr=lr)


# %% linear-layers-only
# misconception: weights are the weights of linear layers
# fails: test_decay_and_gradients_are_kept_apart, test_only_weights_decay, test_steps_with_gradients
# says: shrink at the given pace
def make_optimiser(model, lr, weight_decay):
    weights = {module.weight for module in model.modules() if isinstance(module, nn.Linear)}
    trainable = [p for p in model.parameters() if p.requires_grad]
    groups = [
        {"params": [p for p in trainable if p in weights], "weight_decay": weight_decay},
        {"params": [p for p in trainable if p not in weights], "weight_decay": 0.0},
    ]
    return torch.optim.AdamW(groups, lr=lr)


# %% matrices-have-two-dimensions
# misconception: a weight is a matrix, so it has two dimensions
# fails: test_decay_and_gradients_are_kept_apart, test_only_weights_decay, test_steps_with_gradients
# says: shrink at the given pace
def make_optimiser(model, lr, weight_decay):
    trainable = [parameter for parameter in model.parameters() if parameter.requires_grad]
    groups = [
        {"params": [parameter for parameter in trainable if parameter.dim() == 2], "weight_decay": weight_decay},
        {"params": [parameter for parameter in trainable if parameter.dim() != 2], "weight_decay": 0.0},
    ]
    return torch.optim.AdamW(groups, lr=lr)


# %% frozen-ones-too
# misconception: an optimiser leaves frozen parameters alone anyway
# fails: test_each_parameter_is_in_one_group, test_frozen_parameters_are_left_out
# says: the weight and the bias of the other
def make_optimiser(model, lr, weight_decay):
    trainable = [parameter for parameter in model.parameters()]
    groups = [
        {"params": [parameter for parameter in trainable if parameter.dim() > 1], "weight_decay": weight_decay},
        {"params": [parameter for parameter in trainable if parameter.dim() <= 1], "weight_decay": 0.0},
    ]
    return torch.optim.AdamW(groups, lr=lr)


# %% shared-ones-twice
# misconception: each module has parameters of its own
# fails: test_each_parameter_is_in_one_group, test_only_weights_decay, test_steps_with_gradients
# says: shared ones too
def make_optimiser(model, lr, weight_decay):
    decay, plain = [], []
    for module in model.modules():
        for name, parameter in module.named_parameters(recurse=False):
            if parameter.requires_grad:
                (decay if parameter.dim() > 1 else plain).append(parameter)
    groups = [{"params": decay, "weight_decay": weight_decay}, {"params": plain, "weight_decay": 0.0}]
    return torch.optim.AdamW(groups, lr=lr)


# %% the-rest-left-out
# misconception: what does not decay needs no group
# fails: test_each_parameter_is_in_one_group, test_frozen_parameters_are_left_out, test_no_decay_at_all, test_steps_with_gradients
# says: the weight and the bias of the other
def make_optimiser(model, lr, weight_decay):
    trainable = [parameter for parameter in model.parameters() if parameter.requires_grad]
    weights = [parameter for parameter in trainable if parameter.dim() > 1]
    return torch.optim.AdamW(weights, lr=lr, weight_decay=weight_decay)


# %% descent-with-decay
# misconception: weight decay does the same in every optimiser
# fails: test_decay_and_gradients_are_kept_apart, test_no_decay_at_all, test_steps_with_gradients
# says: makes the steps of AdamW
def make_optimiser(model, lr, weight_decay):
    trainable = [parameter for parameter in model.parameters() if parameter.requires_grad]
    groups = [
        {"params": [parameter for parameter in trainable if parameter.dim() > 1], "weight_decay": weight_decay},
        {"params": [parameter for parameter in trainable if parameter.dim() <= 1], "weight_decay": 0.0},
    ]
    return torch.optim.SGD(groups, lr=lr)


# %% zero-means-default
# misconception: no weight decay means the default
# fails: test_no_decay_at_all
# says: With a weight decay of zero
def make_optimiser(model, lr, weight_decay):
    trainable = [parameter for parameter in model.parameters() if parameter.requires_grad]
    groups = [
        {"params": [parameter for parameter in trainable if parameter.dim() > 1], "weight_decay": weight_decay or 0.01},
        {"params": [parameter for parameter in trainable if parameter.dim() <= 1], "weight_decay": 0.0},
    ]
    return torch.optim.AdamW(groups, lr=lr)


# %% decay-not-scaled
# misconception: the decay is a share of the weight, whatever the rate
# fails: test_decay_and_gradients_are_kept_apart, test_only_weights_decay, test_steps_with_gradients, test_weights_shrink_by_the_decay
# says: make 0.95 * 0.95 * 2 = 1.805 of a weight of 2
def make_optimiser(model, lr, weight_decay):
    trainable = [parameter for parameter in model.parameters() if parameter.requires_grad]
    groups = [
        {"params": [parameter for parameter in trainable if parameter.dim() > 1], "weight_decay": weight_decay / lr},
        {"params": [parameter for parameter in trainable if parameter.dim() <= 1], "weight_decay": 0.0},
    ]
    return torch.optim.AdamW(groups, lr=lr)
