# %% log-probabilities
class Classifier(nn.Module):
    def __init__(self, n_blocks, width, mean, std, n_classes=10):
        super().__init__()
        self.register_buffer("mean", mean.clone())
        self.register_buffer("std", std.clone())
        self.first = nn.Linear(64, width)
        self.blocks = nn.ModuleList(Block(width) for _ in range(n_blocks))
        self.last = nn.Linear(width, n_classes)

    def forward(self, images):
        x = self.first((images - self.mean) / self.std)
        for block in self.blocks:
            x = block(x)
        # a second log-softmax inside the loss changes nothing, and their softmax are the probabilities
        return self.last(x).log_softmax(dim=1)


# %% a-list-beside-the-modules
class Classifier(nn.Module):
    def __init__(self, n_blocks, width, mean, std, n_classes=10):
        super().__init__()
        self.register_buffer("mean", mean.clone())
        self.register_buffer("std", std.clone())
        self.first = nn.Linear(64, width)
        self.blocks = [Block(width) for _ in range(n_blocks)]
        self.registered = nn.Sequential(*self.blocks)  # the same modules: the list is a second name for them
        self.last = nn.Linear(width, n_classes)

    def forward(self, images):
        x = self.first((images - self.mean) / self.std)
        for block in self.blocks:
            x = block(x)
        return self.last(x)
