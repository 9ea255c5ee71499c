# %% no-train-method-at-all
class FineTuned(nn.Module):
    def __init__(self, body, n_features, n_classes):
        super().__init__()
        self.body = body
        self.head = nn.Linear(n_features, n_classes)

    def forward(self, x):
        # they listen to train(), but it does not last
        norms = [module for module in self.body.modules() if isinstance(module, BATCH_NORMS)]
        for norm in norms:
            norm.eval()
        return self.head(self.body(x))

    def parameter_groups(self, lr_body, lr_head):
        return [
            {"params": list(self.body.parameters()), "lr": lr_body},
            {"params": list(self.head.parameters()), "lr": lr_head},
        ]


# %% head-before-body
class FineTuned(nn.Module):
    def __init__(self, body, n_features, n_classes):
        super().__init__()
        self.head = nn.Linear(n_features, n_classes)
        self.body = body
        self.train()

    def train(self, mode=True):
        for name, child in self.named_children():
            child.train(mode)
        self.training = mode
        for module in self.body.modules():
            if isinstance(module, BATCH_NORMS):
                module.training = False
        return self

    def forward(self, x):
        return self.head(self.body(x))

    def parameter_groups(self, lr_body, lr_head):
        # a group for each tensor is unusual, and just as good
        rates = {self.head: lr_head, self.body: lr_body}
        return [{"params": p, "lr": rate} for part, rate in rates.items() for p in part.parameters()]
