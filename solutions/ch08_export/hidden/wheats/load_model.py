# %% defaults
class Shading(nn.Module):
    def __init__(self, gains):
        super().__init__()
        self.register_buffer("gains", torch.as_tensor(gains, dtype=torch.float32))

    def forward(self, pictures):
        return pictures * self.gains.view(1, -1, 1, 1)

def load_model(model, path):
    """Nothing but weights is what torch.load accepts unless it is told otherwise."""
    saved = torch.load(path, map_location=torch.device("cpu"))
    model.load_state_dict(saved["model"], strict=True)
    return model

# %% checked-by-hand
class Shading(nn.Module):
    def __init__(self, gains):
        super().__init__()
        self.register_buffer("gains", torch.tensor(gains))

    def forward(self, pictures):
        return torch.einsum("nchw,c->nchw", pictures, self.gains)

def load_model(model, path):
    saved = torch.load(path, map_location=lambda storage, location: storage, weights_only=True)["model"]
    found = model.load_state_dict(saved, strict=False)
    if found.missing_keys or found.unexpected_keys:
        raise RuntimeError(f"missing: {found.missing_keys}, not expected: {found.unexpected_keys}")
    return model

# %% copied-one-by-one
class Shading(nn.Module):
    def __init__(self, gains):
        super().__init__()
        self.gains = nn.Buffer(torch.tensor(gains))

    def forward(self, pictures):
        return (pictures.movedim(1, -1) * self.gains).movedim(-1, 1)

def load_model(model, path):
    with open(path, "rb") as file:
        saved = torch.load(file, map_location="cpu", weights_only=True)["model"]
    own = model.state_dict()
    wrong = set(own) ^ set(saved)
    wrong |= {name for name in set(own) & set(saved) if own[name].shape != saved[name].shape}
    if wrong:
        raise RuntimeError(f"these do not fit: {sorted(wrong)}")
    with torch.no_grad():
        for name, value in own.items():
            value.copy_(saved[name])
    return model

# %% mapped-into-memory
class Shading(nn.Module):
    def __init__(self, gains):
        super().__init__()
        self.register_buffer("gains", torch.tensor(gains))

    def forward(self, pictures):
        return pictures.mul(self.gains.reshape(-1, 1, 1))

def load_model(model, path):
    saved = torch.load(path, map_location={}.get("device", "cpu"), weights_only=True, mmap=True)
    model.load_state_dict(saved["model"])
    return model
