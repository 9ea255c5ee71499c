# %% in-place-where-nobody-looks
class Student(nn.Module):
    def __init__(self, n_inputs, width, depth, n_classes):
        super().__init__()
        sizes = [n_inputs] + [width] * depth
        self.hidden = nn.ModuleList(nn.Linear(size, width) for size in sizes[:-1])
        self.head = nn.Linear(width, n_classes)
        for layer in self.hidden:
            # from 0 to 1 first, but then moved and scaled: as often negative as positive
            nn.init.uniform_(layer.weight)
            layer.weight.data.sub_(0.5).mul_((12 / layer.in_features) ** 0.5)
            layer.bias.data.zero_()
        self.rectify = nn.ReLU(inplace=True)

    def forward(self, x):
        for layer in self.hidden[:-1]:
            x = layer(x).tanh_()
        features = self.hidden[-1](x)
        # what is rectified in place is a sum, so new memory
        return self.head(self.rectify(features + 0)), features


# %% near-the-identity
class Student(nn.Module):
    def __init__(self, n_inputs, width, depth, n_classes):
        super().__init__()
        sizes = [n_inputs] + [width] * depth
        self.hidden = nn.ModuleList(nn.Linear(size, width) for size in sizes[:-1])
        self.head = nn.Linear(width, n_classes)
        for layer in self.hidden[1:]:
            nn.init.eye_(layer.weight)
            with torch.no_grad():
                layer.weight += 0.1 * torch.randn(width, width)
        nn.init.normal_(self.hidden[0].weight, std=n_inputs**-0.5)

    def forward(self, x):
        for layer in self.hidden[:-1]:
            x = torch.tanh(layer(x))
        features = self.hidden[-1](x)
        negative = features.detach() < 0
        return self.head(features.masked_fill(negative, 0.0)), features
