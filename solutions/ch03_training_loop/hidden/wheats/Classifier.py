# %% normalisation-as-a-layer
class Normalise(nn.Module):
    def __init__(self, mean, std):
        super().__init__()
        self.register_buffer("mean", mean.detach().clone())
        self.register_buffer("std", std.detach().clone())

    def forward(self, x):
        return (x - self.mean) / self.std


class Classifier(nn.Module):
    def __init__(self, n_blocks, width, mean, std, n_classes=10):
        super().__init__()
        layers = [Normalise(mean, std), nn.Linear(64, width)]
        layers += [Block(width) for _ in range(n_blocks)]
        layers.append(nn.Linear(width, n_classes))
        self.layers = nn.Sequential(*layers)

    def forward(self, images):
        return self.layers(images)

# %% frozen-parameters
class Classifier(nn.Module):
    def __init__(self, n_blocks, width, mean, std, n_classes=10):
        super().__init__()
        self.mean = nn.Parameter(mean.clone(), requires_grad=False)
        self.std = nn.Parameter(std.clone(), requires_grad=False)
        self.stem = nn.Linear(64, width)
        for i in range(n_blocks):
            self.add_module(f"block{i}", Block(width))
        self.n_blocks = n_blocks
        self.head = nn.Linear(width, n_classes)

    def forward(self, images):
        hidden = self.stem(images.sub(self.mean).div(self.std))
        for i in range(self.n_blocks):
            hidden = getattr(self, f"block{i}")(hidden)
        return self.head(hidden)

# %% scale-and-shift
class Classifier(nn.Sequential):
    """A Sequential itself; the normalisation is multiplied out."""

    def __init__(self, n_blocks, width, mean, std, n_classes=10):
        super().__init__(
            nn.Linear(64, width),
            nn.Sequential(*(Block(width) for _ in range(n_blocks))),
            nn.Linear(width, n_classes),
        )
        self.register_buffer("scale", 1 / std)
        self.register_buffer("shift", -mean / std)

    def forward(self, images):
        return super().forward(torch.addcmul(self.shift, images, self.scale))

# %% one-buffer-for-both
class Classifier(nn.Module):
    def __init__(self, n_blocks: int, width: int, mean: torch.Tensor, std: torch.Tensor, n_classes: int = 10) -> None:
        super().__init__()
        self.register_buffer("statistics", torch.stack([mean.expand(64), std.expand(64)]))
        self.embed = nn.Linear(64, width)
        self.body = nn.ModuleDict({str(i): Block(width) for i in range(n_blocks)})
        self.classify = nn.Linear(width, n_classes)

    def normalise(self, images: torch.Tensor) -> torch.Tensor:
        mean, std = self.statistics
        return (images - mean) / std

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        hidden = self.embed(self.normalise(images))
        for block in self.body.values():
            hidden = block(hidden)
        return self.classify(hidden)

# %% buffers-as-objects
class Classifier(nn.Module):
    def __init__(self, n_blocks, width, mean, std, n_classes=10):
        super().__init__()
        self.mean = nn.Buffer(mean.clone())
        self.std = nn.Buffer(std.clone())
        self.blocks = nn.ModuleList()
        for _ in range(n_blocks):
            self.blocks.append(Block(width))
        self.inner, self.outer = nn.Linear(64, width), nn.Linear(width, n_classes)

    def forward(self, images):
        x = F.linear((images - self.mean) / self.std, self.inner.weight, self.inner.bias)
        for block in self.blocks:
            x = block(x)
        return self.outer(x)
