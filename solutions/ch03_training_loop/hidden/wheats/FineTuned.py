# %% train-overridden
class FineTuned(nn.Module):
    def __init__(self, body, n_features, n_classes):
        super().__init__()
        self.body, self.head = body, nn.Linear(n_features, n_classes)
        self._keep_statistics()

    def _keep_statistics(self):
        for module in self.body.modules():
            if isinstance(module, nn.modules.batchnorm._BatchNorm):
                module.train(False)

    def train(self, mode: bool = True):
        model = super().train(mode)
        self._keep_statistics()
        return model

    def forward(self, *args, **kwargs):
        return self.head(self.body(*args, **kwargs))

    def parameter_groups(self, lr_body, lr_head):
        return [dict(params=self.body.parameters(), lr=lr_body), dict(params=self.head.parameters(), lr=lr_head)]

# %% right-before-each-use
class FineTuned(nn.Module):
    def __init__(self, body, n_features, n_classes):
        super().__init__()
        self.trunk = body
        self.classifier = nn.Linear(n_features, n_classes)

    def forward(self, x):
        for layer in self.trunk.modules():
            if isinstance(layer, BATCH_NORMS) and layer.training:
                layer.eval()
        features = self.trunk(x)
        return self.classifier(features)

    def parameter_groups(self, lr_body, lr_head):
        known = {id(p) for p in self.trunk.parameters()}
        old = [p for p in self.parameters() if id(p) in known]
        new = [p for p in self.parameters() if id(p) not in known]
        return [{"params": new, "lr": lr_head}, {"params": old, "lr": lr_body}]

# %% pre-hooks-on-the-layers
def stay_in_eval_mode(module, args):
    """Called right before a layer runs."""
    module.training = False


class FineTuned(nn.Module):
    def __init__(self, body, n_features, n_classes):
        super().__init__()
        self.add_module("body", body)
        self.add_module("head", nn.Linear(n_features, n_classes, bias=True))
        for module in body.modules():
            if "BatchNorm" in type(module).__name__:
                module.register_forward_pre_hook(stay_in_eval_mode)

    def forward(self, x):
        return nn.functional.linear(self.body(x), self.head.weight, self.head.bias)

    def parameter_groups(self, lr_body, lr_head):
        groups = []
        for name, parameter in self.named_parameters():
            groups.append({"params": [parameter], "lr": lr_body if name.startswith("body.") else lr_head})
        return groups

# %% layers-that-do-not-listen
import types


def deaf(self, mode=True):
    return self


class FineTuned(nn.Sequential):
    """Body and head in a row; the BatchNorm layers of the body get a method train of their own, which does nothing."""

    def __init__(self, body, n_features, n_classes):
        super().__init__(body, nn.Linear(n_features, n_classes))
        for module in body.modules():
            if isinstance(module, (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d)):
                module.eval()
                module.train = types.MethodType(deaf, module)

    def parameter_groups(self, lr_body, lr_head):
        body, head = self
        return [
            {"params": list(body.parameters()), "lr": lr_body},
            {"params": list(head.parameters()), "lr": lr_head},
        ]

# %% layers-collected-once
class FineTuned(nn.Module):
    """Collects the layers once, and keeps them in a tuple, so that they are not registered twice."""

    def __init__(self, body, n_features, n_classes):
        super().__init__()
        self.body = body
        self.head = nn.Linear(n_features, n_classes)
        self.frozen = tuple(m for m in body.modules() if isinstance(m, nn.modules.batchnorm._BatchNorm))
        self.train(self.training)

    def train(self, mode=True):
        super().train(mode)
        [layer.eval() for layer in self.frozen]
        return self

    def forward(self, x):
        return self.head(self.body(x))

    def parameter_groups(self, lr_body, lr_head):
        of_head = set(self.head.parameters())
        return [
            {"params": [p for p in self.parameters() if p not in of_head], "lr": lr_body},
            {"params": [*of_head], "lr": lr_head},
        ]
