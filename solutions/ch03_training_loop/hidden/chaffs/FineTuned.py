# %% train-mode-for-all
# misconception: a pretrained body keeps its statistics as long as its rate is small
# fails: test_a_body_inside_a_body, test_statistics_of_the_body_stay, test_statistics_stay_inside_another_model, test_steps_of_fine_tuning
# says: The running mean over time
class FineTuned(nn.Module):
    def __init__(self, body, n_features, n_classes):
        super().__init__()
        self.body = body
        self.head = nn.Linear(n_features, n_classes)

    def forward(self, x):
        return self.head(self.body(x))

    def parameter_groups(self, lr_body, lr_head):
        return [
            {"params": list(self.body.parameters()), "lr": lr_body},
            {"params": list(self.head.parameters()), "lr": lr_head},
        ]


# %% eval-once
# misconception: a layer that was put into eval mode stays there
# fails: test_a_body_inside_a_body, test_statistics_of_the_body_stay, test_statistics_stay_inside_another_model, test_steps_of_fine_tuning
# says: The running mean over time
class FineTuned(nn.Module):
    def __init__(self, body, n_features, n_classes):
        super().__init__()
        self.body = body
        self.head = nn.Linear(n_features, n_classes)
        for module in body.modules():
            if isinstance(module, BATCH_NORMS):
                module.eval()

    def forward(self, x):
        return self.head(self.body(x))

    def parameter_groups(self, lr_body, lr_head):
        return [
            {"params": list(self.body.parameters()), "lr": lr_body},
            {"params": list(self.head.parameters()), "lr": lr_head},
        ]


# %% whole-body-in-eval-mode
# misconception: eval mode for the body keeps the statistics and changes nothing else
# fails: test_dropout_follows_the_mode_in_any_body, test_dropout_of_the_body_follows_the_mode
# says: The logits in train mode
class FineTuned(nn.Module):
    def __init__(self, body, n_features, n_classes):
        super().__init__()
        self.body = body
        self.head = nn.Linear(n_features, n_classes)
        self.train()

    def train(self, mode=True):
        super().train(mode)
        self.body.eval()
        return self

    def forward(self, x):
        return self.head(self.body(x))

    def parameter_groups(self, lr_body, lr_head):
        return [
            {"params": list(self.body.parameters()), "lr": lr_body},
            {"params": list(self.head.parameters()), "lr": lr_head},
        ]


# %% one-rate
# misconception: the optimiser's own rate takes care of the body
# fails: test_body_and_head_have_their_own_rates, test_each_parameter_at_its_rate, test_statistics_stay_inside_another_model, test_steps_of_fine_tuning
# says: How far the body has moved
class FineTuned(nn.Module):
    def __init__(self, body, n_features, n_classes):
        super().__init__()
        self.body = body
        self.head = nn.Linear(n_features, n_classes)
        self.train()

    def train(self, mode=True):
        super().train(mode)
        for module in self.body.modules():
            if isinstance(module, BATCH_NORMS):
                module.eval()
        return self

    def forward(self, x):
        return self.head(self.body(x))

    def parameter_groups(self, lr_body, lr_head):
        return [{"params": list(self.body.parameters())}, {"params": list(self.head.parameters()), "lr": lr_head}]


# %% rates-swapped
# misconception: the old part needs the larger rate, it has more to unlearn
# fails: test_body_and_head_have_their_own_rates, test_each_parameter_at_its_rate, test_steps_of_fine_tuning
# says: How far the body has moved
class FineTuned(nn.Module):
    def __init__(self, body, n_features, n_classes):
        super().__init__()
        self.body = body
        self.head = nn.Linear(n_features, n_classes)
        self.train()

    def train(self, mode=True):
        super().train(mode)
        for module in self.body.modules():
            if isinstance(module, BATCH_NORMS):
                module.eval()
        return self

    def forward(self, x):
        return self.head(self.body(x))

    def parameter_groups(self, lr_body, lr_head):
        return [
            {"params": list(self.body.parameters()), "lr": lr_head},
            {"params": list(self.head.parameters()), "lr": lr_body},
        ]


# %% body-frozen
# misconception: to keep the statistics of a body is to freeze it
# fails: test_a_body_inside_a_body, test_body_and_head_have_their_own_rates, test_each_parameter_at_its_rate, test_statistics_stay_inside_another_model, test_steps_of_fine_tuning
# says: How far the body has moved
class FineTuned(nn.Module):
    def __init__(self, body, n_features, n_classes):
        super().__init__()
        self.body = body.requires_grad_(False)
        self.head = nn.Linear(n_features, n_classes)
        self.train()

    def train(self, mode=True):
        super().train(mode)
        for module in self.body.modules():
            if isinstance(module, BATCH_NORMS):
                module.eval()
        return self

    def forward(self, x):
        with torch.no_grad():
            features = self.body(x)
        return self.head(features)

    def parameter_groups(self, lr_body, lr_head):
        return [{"params": list(self.head.parameters()), "lr": lr_head}]


# %% norms-left-out-of-the-groups
# misconception: layers that keep their statistics keep their weights, too
# fails: test_body_and_head_have_their_own_rates, test_each_parameter_at_its_rate, test_statistics_stay_inside_another_model, test_steps_of_fine_tuning
# says: How far the body has moved
class FineTuned(nn.Module):
    def __init__(self, body, n_features, n_classes):
        super().__init__()
        self.body = body
        self.head = nn.Linear(n_features, n_classes)
        self.train()

    def train(self, mode=True):
        super().train(mode)
        for module in self.body.modules():
            if isinstance(module, BATCH_NORMS):
                module.eval()
        return self

    def forward(self, x):
        return self.head(self.body(x))

    def parameter_groups(self, lr_body, lr_head):
        norms = {p for m in self.body.modules() if isinstance(m, BATCH_NORMS) for p in m.parameters()}
        return [
            {"params": [p for p in self.body.parameters() if p not in norms], "lr": lr_body},
            {"params": list(self.head.parameters()), "lr": lr_head},
        ]


# %% direct-children-only
# misconception: a body is a flat list of layers
# fails: test_a_body_inside_a_body, test_statistics_stay_inside_another_model, test_steps_of_fine_tuning
# says: Over some steps of fine-tuning, logits and parameters are those of a body whose statistics
class FineTuned(nn.Module):
    def __init__(self, body, n_features, n_classes):
        super().__init__()
        self.body = body
        self.head = nn.Linear(n_features, n_classes)
        self.train()

    def train(self, mode=True):
        super().train(mode)
        for module in self.body.children():
            if isinstance(module, BATCH_NORMS):
                module.eval()
        return self

    def forward(self, x):
        return self.head(self.body(x))

    def parameter_groups(self, lr_body, lr_head):
        return [
            {"params": list(self.body.parameters()), "lr": lr_body},
            {"params": list(self.head.parameters()), "lr": lr_head},
        ]


# %% train-returns-nothing
# misconception: train() is called for what it does, nobody looks at what it returns
# fails: test_setting_the_mode_returns_the_model, test_steps_of_fine_tuning
# says: returns something else than the model
class FineTuned(nn.Module):
    def __init__(self, body, n_features, n_classes):
        super().__init__()
        self.body = body
        self.head = nn.Linear(n_features, n_classes)
        self.train()

    def train(self, mode=True):
        super().train(mode)
        for module in self.body.modules():
            if isinstance(module, BATCH_NORMS):
                module.eval()

    def forward(self, x):
        return self.head(self.body(x))

    def parameter_groups(self, lr_body, lr_head):
        return [
            {"params": list(self.body.parameters()), "lr": lr_body},
            {"params": list(self.head.parameters()), "lr": lr_head},
        ]


# %% mode-ignored
# misconception: train() is only ever called with True
# fails: test_dropout_follows_the_mode_in_any_body, test_dropout_of_the_body_follows_the_mode, test_setting_the_mode_returns_the_model, test_statistics_stay_inside_another_model, test_steps_of_fine_tuning
# says: In eval mode, pictures that differ have the same logits
class FineTuned(nn.Module):
    def __init__(self, body, n_features, n_classes):
        super().__init__()
        self.body = body
        self.head = nn.Linear(n_features, n_classes)
        self.train()

    def train(self, mode=True):
        super().train()
        for module in self.body.modules():
            if isinstance(module, BATCH_NORMS):
                module.eval()
        return self

    def forward(self, x):
        return self.head(self.body(x))

    def parameter_groups(self, lr_body, lr_head):
        return [
            {"params": list(self.body.parameters()), "lr": lr_body},
            {"params": list(self.head.parameters()), "lr": lr_head},
        ]


# %% momentum-of-zero
# misconception: statistics that do not move are statistics that are used
# fails: test_statistics_of_the_body_stay, test_statistics_stay_inside_another_model, test_steps_of_fine_tuning
# says: What the body makes of two pictures
class FineTuned(nn.Module):
    def __init__(self, body, n_features, n_classes):
        super().__init__()
        self.body = body
        self.head = nn.Linear(n_features, n_classes)
        for module in body.modules():
            if isinstance(module, BATCH_NORMS):
                module.momentum = 0.0

    def forward(self, x):
        return self.head(self.body(x))

    def parameter_groups(self, lr_body, lr_head):
        return [
            {"params": list(self.body.parameters()), "lr": lr_body},
            {"params": list(self.head.parameters()), "lr": lr_head},
        ]


# %% not-before-the-first-train
# misconception: a model is put into train mode before it is used
# fails: test_statistics_of_the_body_stay
# says: The running mean over time
class FineTuned(nn.Module):
    def __init__(self, body, n_features, n_classes):
        super().__init__()
        self.body = body
        self.head = nn.Linear(n_features, n_classes)

    def train(self, mode=True):
        super().train(mode)
        for module in self.body.modules():
            if isinstance(module, BATCH_NORMS):
                module.eval()
        return self

    def forward(self, x):
        return self.head(self.body(x))

    def parameter_groups(self, lr_body, lr_head):
        return [
            {"params": list(self.body.parameters()), "lr": lr_body},
            {"params": list(self.head.parameters()), "lr": lr_head},
        ]


# %% copy-of-the-body
# misconception: a pretrained body must not be touched, so a copy of it is trained
# fails: test_a_body_inside_a_body, test_body_and_head_have_their_own_rates, test_each_parameter_at_its_rate, test_statistics_of_the_body_stay, test_statistics_stay_inside_another_model, test_steps_of_fine_tuning
# says: What the body makes of two pictures
import copy


class FineTuned(nn.Module):
    def __init__(self, body, n_features, n_classes):
        super().__init__()
        self.body = copy.deepcopy(body)
        self.head = nn.Linear(n_features, n_classes)
        self.train()

    def train(self, mode=True):
        super().train(mode)
        for module in self.body.modules():
            if isinstance(module, BATCH_NORMS):
                module.eval()
        return self

    def forward(self, x):
        return self.head(self.body(x))

    def parameter_groups(self, lr_body, lr_head):
        return [
            {"params": list(self.body.parameters()), "lr": lr_body},
            {"params": list(self.head.parameters()), "lr": lr_head},
        ]


# %% norms-without-gradients
# misconception: to keep the statistics of a layer is to freeze the layer
# fails: test_a_body_inside_a_body, test_statistics_stay_inside_another_model, test_steps_of_fine_tuning
# says: The BatchNorm's weight, the BatchNorm's bias: no gradient
class FineTuned(nn.Module):
    def __init__(self, body, n_features, n_classes):
        super().__init__()
        self.body = body
        self.head = nn.Linear(n_features, n_classes)
        self.train()

    def train(self, mode=True):
        super().train(mode)
        for module in self.body.modules():
            if isinstance(module, BATCH_NORMS):
                module.eval()
                module.requires_grad_(False)
        return self

    def forward(self, x):
        return self.head(self.body(x))

    def parameter_groups(self, lr_body, lr_head):
        return [
            {"params": list(self.body.parameters()), "lr": lr_body},
            {"params": list(self.head.parameters()), "lr": lr_head},
        ]


# %% flat-layers-only
# misconception: BatchNorm is BatchNorm1d
# fails: test_a_body_inside_a_body, test_steps_of_fine_tuning
# says: How far the running mean has moved
class FineTuned(nn.Module):
    def __init__(self, body, n_features, n_classes):
        super().__init__()
        self.body = body
        self.head = nn.Linear(n_features, n_classes)
        self.train()

    def train(self, mode=True):
        super().train(mode)
        for module in self.body.modules():
            if isinstance(module, nn.BatchNorm1d):
                module.eval()
        return self

    def forward(self, x):
        return self.head(self.body(x))

    def parameter_groups(self, lr_body, lr_head):
        return [
            {"params": list(self.body.parameters()), "lr": lr_body},
            {"params": list(self.head.parameters()), "lr": lr_head},
        ]
