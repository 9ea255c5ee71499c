# %% scale-without-dimensions
class RowClassifier(nn.Module):
    def __init__(self, width, positions, precision="fp32", n_classes=10):
        super().__init__()
        self.precision = precision
        self.register_buffer("positions", positions.clone())
        self.embed = nn.Linear(8, width)
        self.query = nn.Linear(width, width)
        self.key = nn.Linear(width, width)
        self.value = nn.Linear(width, width)
        self.out = nn.Linear(width, width)
        # a float32 tensor without dimensions promotes nothing
        self.register_buffer("scale", torch.tensor(width**-0.5), persistent=False)
        self.head = nn.Linear(width, n_classes)

    def forward(self, images):
        x = images.reshape(len(images), 8, 8).to(DTYPES[self.precision])
        x = project(self.embed, x)
        x = x + self.positions.to(x.dtype)
        q, k, v = project(self.query, x), project(self.key, x), project(self.value, x)
        weights = (q @ k.mT * self.scale).softmax(dim=-1)
        x = x + project(self.out, weights @ v)
        return project(self.head, x.mean(dim=1)).float()

# %% promoted-where-no-product-follows
class RowClassifier(nn.Module):
    def __init__(self, width, positions, precision="fp32", n_classes=10):
        super().__init__()
        self.precision = precision
        self.register_buffer("positions", positions.clone())
        self.embed = nn.Linear(8, width)
        self.query = nn.Linear(width, width)
        self.key = nn.Linear(width, width)
        self.value = nn.Linear(width, width)
        self.out = nn.Linear(width, width)
        self.head = nn.Linear(width, n_classes)

    def forward(self, images):
        x = images.reshape(len(images), 8, 8).to(DTYPES[self.precision])
        x = project(self.embed, x)
        x = x + self.positions.to(x.dtype)
        q, k, v = project(self.query, x), project(self.key, x), project(self.value, x)
        weights = (q @ k.mT / math.sqrt(q.shape[-1])).softmax(dim=-1)
        dtype = x.dtype
        x = x.float() + project(self.out, weights @ v)  # float32, as far as the mean
        return project(self.head, x.mean(dim=1).to(dtype)).float()

# %% two-branches-that-agree
class RowClassifier(nn.Module):
    def __init__(self, width, positions, precision="fp32", n_classes=10):
        super().__init__()
        self.precision = precision
        self.register_buffer("positions", positions.clone())
        self.embed = nn.Linear(8, width)
        self.query = nn.Linear(width, width)
        self.key = nn.Linear(width, width)
        self.value = nn.Linear(width, width)
        self.out = nn.Linear(width, width)
        self.head = nn.Linear(width, n_classes)

    def forward(self, images):
        x = images.reshape(len(images), 8, 8).to(DTYPES[self.precision])
        x = project(self.embed, x)
        if self.precision == "fp32":
            x = x + self.positions
        else:
            x = x + self.positions.to(x.dtype)
        q, k, v = project(self.query, x), project(self.key, x), project(self.value, x)
        weights = (q @ k.mT / math.sqrt(q.shape[-1])).softmax(dim=-1)
        x = x + project(self.out, weights @ v)
        return project(self.head, x.mean(dim=1)).float()
