# %% anything-goes
# misconception: a file from our own training is safe to open
# fails: test_opening_a_file_runs_nothing
# says: A function that the file names has been run
class Shading(nn.Module):
    def __init__(self, gains):
        super().__init__()
        self.register_buffer("gains", torch.tensor(gains))

    def forward(self, pictures):
        return pictures * self.gains[:, None, None]

def load_model(model, path):
    model.load_state_dict(torch.load(path, map_location="cpu", weights_only=False)["model"])
    return model

# %% no-place-named
# misconception: weights are only numbers, so they can be loaded anywhere
# fails: test_a_checkpoint_from_a_card, test_checkpoints_from_any_device, test_gains_come_from_the_checkpoint, test_opening_a_file_runs_nothing
# says: whose tensors were on `cuda:99`
class Shading(nn.Module):
    def __init__(self, gains):
        super().__init__()
        self.register_buffer("gains", torch.tensor(gains))

    def forward(self, pictures):
        return pictures * self.gains[:, None, None]

def load_model(model, path):
    model.load_state_dict(torch.load(path, weights_only=True)["model"])
    return model

# %% as-the-message-suggests
# misconception: the message says how to open the file all the same
# fails: test_opening_a_file_runs_nothing
# says: A function that the file names has been run
class Shading(nn.Module):
    def __init__(self, gains):
        super().__init__()
        self.register_buffer("gains", torch.tensor(gains))

    def forward(self, pictures):
        return pictures * self.gains[:, None, None]

def load_model(model, path):
    try:
        saved = torch.load(path, map_location="cpu", weights_only=True)
    except Exception:
        saved = torch.load(path, map_location="cpu", weights_only=False)
    model.load_state_dict(saved["model"])
    return model

# %% where-the-parameters-are
# misconception: every model has a parameter
# fails: test_gains_come_from_the_checkpoint
# says: The gains in a checkpoint
class Shading(nn.Module):
    def __init__(self, gains):
        super().__init__()
        self.register_buffer("gains", torch.tensor(gains))

    def forward(self, pictures):
        return pictures * self.gains[:, None, None]

def load_model(model, path):
    device = next(model.parameters()).device
    model.load_state_dict(torch.load(path, map_location=device, weights_only=True)["model"])
    return model

# %% what-fits
# misconception: what has the same name is loaded, and the rest does not matter
# fails: test_a_checkpoint_of_another_model, test_names_and_shapes_have_to_fit
# says: was loaded without an error
class Shading(nn.Module):
    def __init__(self, gains):
        super().__init__()
        self.register_buffer("gains", torch.tensor(gains))

    def forward(self, pictures):
        return pictures * self.gains[:, None, None]

def load_model(model, path):
    saved = torch.load(path, map_location="cpu", weights_only=True)["model"]
    own = model.state_dict()
    own.update({name: value for name, value in saved.items() if name in own and own[name].shape == value.shape})
    model.load_state_dict(own)
    return model

# %% nothing-may-be-missing
# misconception: what is in the file beyond the model's needs does no harm
# fails: test_names_and_shapes_have_to_fit
# says: was loaded without an error
class Shading(nn.Module):
    def __init__(self, gains):
        super().__init__()
        self.register_buffer("gains", torch.tensor(gains))

    def forward(self, pictures):
        return pictures * self.gains[:, None, None]

def load_model(model, path):
    saved = torch.load(path, map_location="cpu", weights_only=True)["model"]
    found = model.load_state_dict(saved, strict=False)
    if found.missing_keys:
        raise RuntimeError(f"missing: {found.missing_keys}; not expected: {found.unexpected_keys}")
    return model

# %% in-this-order
# misconception: the values come in the right order, whatever they are called
# fails: test_a_checkpoint_of_another_model, test_checkpoints_from_any_device, test_names_and_shapes_have_to_fit, test_the_model_stays_what_it_is
# says: was loaded without an error
class Shading(nn.Module):
    def __init__(self, gains):
        super().__init__()
        self.register_buffer("gains", torch.tensor(gains))

    def forward(self, pictures):
        return pictures * self.gains[:, None, None]

def load_model(model, path):
    saved = torch.load(path, map_location="cpu", weights_only=True)["model"]
    model.load_state_dict(dict(zip(model.state_dict(), saved.values(), strict=False)), strict=False)
    return model

# %% taken-as-they-are
# misconception: it does not matter which tensors a model has
# fails: test_the_model_stays_what_it_is
# says: which an optimiser does not know
class Shading(nn.Module):
    def __init__(self, gains):
        super().__init__()
        self.register_buffer("gains", torch.tensor(gains))

    def forward(self, pictures):
        return pictures * self.gains[:, None, None]

def load_model(model, path):
    model.load_state_dict(torch.load(path, map_location="cpu", weights_only=True)["model"], assign=True)
    return model

# %% another-error
# misconception: any error will do
# fails: test_a_checkpoint_of_another_model, test_names_and_shapes_have_to_fit, test_opening_a_file_runs_nothing
# says: The message does not have both names
class Shading(nn.Module):
    def __init__(self, gains):
        super().__init__()
        self.register_buffer("gains", torch.tensor(gains))

    def forward(self, pictures):
        return pictures * self.gains[:, None, None]

def load_model(model, path):
    try:
        saved = torch.load(path, map_location="cpu", weights_only=True)["model"]
        model.load_state_dict(saved)
    except Exception as error:
        raise RuntimeError(f"{path} cannot be used: {type(error).__name__}") from None
    return model

# %% what-was-found
# misconception: load_state_dict returns the model
# fails: test_a_checkpoint_from_here, test_checkpoints_from_any_device, test_gains_come_from_the_checkpoint
# says: Something else than the model was returned
class Shading(nn.Module):
    def __init__(self, gains):
        super().__init__()
        self.register_buffer("gains", torch.tensor(gains))

    def forward(self, pictures):
        return pictures * self.gains[:, None, None]

def load_model(model, path):
    return model.load_state_dict(torch.load(path, map_location="cpu", weights_only=True)["model"])

# %% ready-to-serve
# misconception: whoever loads a model wants it in eval mode
# fails: test_the_model_stays_what_it_is
# says: so do its modes
class Shading(nn.Module):
    def __init__(self, gains):
        super().__init__()
        self.register_buffer("gains", torch.tensor(gains))

    def forward(self, pictures):
        return pictures * self.gains[:, None, None]

def load_model(model, path):
    model.load_state_dict(torch.load(path, map_location="cpu", weights_only=True)["model"])
    return model.eval()

# %% not-saved
# misconception: gains are known to the code and need not be saved
# fails: test_gains_come_from_the_checkpoint, test_shading_of_two_channels
# says: The state
class Shading(nn.Module):
    def __init__(self, gains):
        super().__init__()
        self.register_buffer("gains", torch.tensor(gains), persistent=False)

    def forward(self, pictures):
        return pictures * self.gains[:, None, None]

def load_model(model, path):
    model.load_state_dict(torch.load(path, map_location="cpu", weights_only=True)["model"])
    return model

# %% a-plain-attribute-that-follows
# misconception: what is brought to the pictures in forward is as good as a buffer
# fails: test_gains_come_from_the_checkpoint, test_shading_of_two_channels
# says: The state
class Shading(nn.Module):
    def __init__(self, gains):
        super().__init__()
        self.gains = torch.tensor(gains)

    def forward(self, pictures):
        return pictures * self.gains.to(pictures)[:, None, None]

def load_model(model, path):
    model.load_state_dict(torch.load(path, map_location="cpu", weights_only=True)["model"])
    return model

# %% a-parameter
# misconception: what is in the state is a parameter
# fails: test_shading_goes_where_it_is_sent
# says: The gains are a parameter
class Shading(nn.Module):
    def __init__(self, gains):
        super().__init__()
        self.gains = nn.Parameter(torch.tensor(gains))

    def forward(self, pictures):
        return pictures * self.gains[:, None, None]

def load_model(model, path):
    model.load_state_dict(torch.load(path, map_location="cpu", weights_only=True)["model"])
    return model

# %% made-once-and-kept
# misconception: a tensor that is made at the first call is there for all of them
# fails: test_gains_come_from_the_checkpoint
# says: The gains in a checkpoint from a card
class Shading(nn.Module):
    def __init__(self, gains):
        super().__init__()
        self.register_buffer("gains", torch.tensor(gains))
        self.ready = None

    def forward(self, pictures):
        if self.ready is None:
            self.ready = self.gains.clone()[:, None, None]
        return pictures * self.ready

def load_model(model, path):
    model.load_state_dict(torch.load(path, map_location="cpu", weights_only=True)["model"])
    return model
