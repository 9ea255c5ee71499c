# %% autocast-around-the-forward
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
        dtype = DTYPES[self.precision]
        with torch.autocast(images.device.type, dtype=dtype, enabled=dtype != torch.float32):
            x = self.embed(images.view(-1, 8, 8)) + self.positions
            scores = self.query(x) @ self.key(x).transpose(1, 2)
            weights = torch.softmax(scores / x.shape[-1] ** 0.5, dim=-1)
            x = x + self.out(weights @ self.value(x))
            logits = self.head(x.mean(dim=1))
        return logits.float()

# %% softmax-and-sums-in-float32
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
        dtype = DTYPES[self.precision]

        def linear(layer, x):
            return F.linear(x.to(dtype), layer.weight.to(dtype), layer.bias.to(dtype)).float()

        x = linear(self.embed, images.reshape(-1, 8, 8)) + self.positions
        q, k, v = (linear(layer, x) for layer in (self.query, self.key, self.value))
        scores = torch.bmm((q / math.sqrt(q.size(2))).to(dtype), k.to(dtype).transpose(1, 2)).float()
        mixed = torch.bmm(F.softmax(scores, dim=2).to(dtype), v.to(dtype))
        return linear(self.head, (x + linear(self.out, mixed)).mean(1))

# %% fused-attention
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
        x = project(self.embed, images.unflatten(1, (8, 8)).to(DTYPES[self.precision]))
        x = x.add(self.positions.to(x))
        q, k, v = (project(layer, x)[:, None] for layer in (self.query, self.key, self.value))
        mixed = F.scaled_dot_product_attention(q, k, v)[:, 0]
        x = x + project(self.out, mixed)
        return project(self.head, x.mean(dim=1)).to(torch.float32)

# %% a-property-and-a-copy-of-the-weights
class RowClassifier(nn.Module):
    def __init__(self, width, positions, precision="fp32", n_classes=10):
        super().__init__()
        self.precision = precision  # goes through the property
        self.register_buffer("positions", positions.clone())
        self.embed = nn.Linear(8, width)
        self.query = nn.Linear(width, width)
        self.key = nn.Linear(width, width)
        self.value = nn.Linear(width, width)
        self.out = nn.Linear(width, width)
        self.head = nn.Linear(width, n_classes)

    @property
    def precision(self):
        return self._precision

    @precision.setter
    def precision(self, name):
        self._precision, self._dtype = name, DTYPES[name]

    def _body(self, x):
        x = self.embed(x) + self.positions
        weights = torch.baddbmm(x.new_zeros(1), self.query(x), self.key(x).mT, beta=0, alpha=x.shape[2] ** -0.5)
        x = x + self.out(weights.softmax(-1) @ self.value(x))
        return self.head(x.mean(1))

    def forward(self, images):
        if not hasattr(self, "_inside"):
            self.__dict__["_inside"] = False
        if self._inside:
            return self._body(images)
        tensors = {**dict(self.named_parameters()), **dict(self.named_buffers())}
        narrow = {name: tensor.to(self._dtype) for name, tensor in tensors.items()}
        self._inside = True
        try:
            logits = torch.func.functional_call(self, narrow, (images.view(-1, 8, 8).to(self._dtype),))
        finally:
            self._inside = False
        return logits.float()

# %% positions-in-the-bias
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
        dtype = DTYPES[self.precision]
        x = images.reshape(-1, 8, 8).to(dtype) @ self.embed.weight.to(dtype).T
        x = x + (self.embed.bias + self.positions).to(dtype)
        n, rows, width = x.shape
        together = torch.cat([self.query.weight, self.key.weight, self.value.weight]).to(dtype)
        bias = torch.cat([self.query.bias, self.key.bias, self.value.bias]).to(dtype)
        q, k, v = F.linear(x, together, bias).chunk(3, dim=2)
        weights = torch.einsum("nqd,nkd->nqk", q, k).float().div(math.sqrt(width)).softmax(2).to(dtype)
        x = x + project(self.out, torch.einsum("nqk,nkd->nqd", weights, v))
        return project(self.head, x.mean(1)).float()
