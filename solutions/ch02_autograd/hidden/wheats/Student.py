# %% orthogonal-maps
class Student(nn.Module):
    def __init__(self, n_inputs, width, depth, n_classes):
        super().__init__()
        self.hidden = nn.ModuleList([nn.Linear(n_inputs, width)])
        self.hidden.extend(nn.Linear(width, width) for _ in range(depth - 1))
        self.head = nn.Linear(width, n_classes)
        for layer in self.hidden:
            nn.init.orthogonal_(layer.weight, gain=5 / 3)

    def forward(self, x):
        *early, last = self.hidden
        for layer in early:
            x = layer(x).tanh()
        features = last(x)
        return self.head(F.relu(features)), features


# %% scaled-by-hand
class Student(nn.Module):
    """Weights of variance 1 / fan-in, as LeCun proposed."""

    def __init__(self, n_inputs: int, width: int, depth: int, n_classes: int) -> None:
        super().__init__()
        layers = []
        for number in range(depth):
            layer = nn.Linear(width if number else n_inputs, width)
            with torch.no_grad():
                layer.weight.copy_(torch.randn_like(layer.weight) / layer.in_features**0.5)
                layer.bias.zero_()
            layers.append(layer)
        self.hidden = nn.Sequential(*layers)
        self.head = nn.Linear(width, n_classes)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        features = None
        for layer in self.hidden:
            features = layer(x if features is None else torch.tanh(features))
        return self.head(features.clamp(min=0)), features


# %% kaiming-with-the-gain-of-tanh
class Student(nn.Module):
    def __init__(self, n_inputs, width, depth, n_classes):
        super().__init__()
        sizes = [n_inputs, *[width] * depth]
        self.hidden = nn.ModuleList(nn.Linear(a, b) for a, b in zip(sizes, sizes[1:]))
        self.head = nn.Linear(width, n_classes)
        self.hidden.apply(self._start)

    @staticmethod
    def _start(module):
        if isinstance(module, nn.Linear):
            nn.init.kaiming_normal_(module.weight, nonlinearity="tanh")

    def forward(self, x):
        for layer in self.hidden[:-1]:
            x = F.tanh(layer(x))
        features = self.hidden[-1](x)
        rectified = features * (features > 0)
        return self.head(rectified), features


# %% a-copy-rectified-in-place
class Student(nn.Module):
    def __init__(self, n_inputs, width, depth, n_classes):
        super().__init__()
        sizes = [n_inputs] + [width] * depth
        self.hidden = nn.ModuleList(nn.Linear(size, width) for size in sizes[:-1])
        self.head = nn.Linear(width, n_classes)
        for layer in self.hidden:
            nn.init.trunc_normal_(layer.weight, std=layer.weight.shape[1] ** -0.5)
            nn.init.zeros_(layer.bias)

    def forward(self, x):
        for layer in self.hidden[:-1]:
            x = torch.tanh_(layer(x))
        features = self.hidden[-1](x)
        logits = self.head(features.clone().relu_())
        return logits, features


# %% uniform-within-the-right-bounds
class Student(nn.Module):
    def __init__(self, n_inputs, width, depth, n_classes):
        super().__init__()
        self.hidden = nn.ModuleList()
        fan_in = n_inputs
        for _ in range(depth):
            layer = nn.Linear(fan_in, width)
            bound = (3 / fan_in) ** 0.5
            nn.init.uniform_(layer.weight, -bound, bound)
            self.hidden.append(layer)
            fan_in = width
        self.head = nn.Linear(width, n_classes)
        nn.init.zeros_(self.head.bias)
        self.rectify = nn.ReLU()

    def forward(self, x):
        h = x
        for i, layer in enumerate(self.hidden):
            h = layer(h)
            if i < len(self.hidden) - 1:
                h = h.tanh()
        return self.head(self.rectify(h)), h
