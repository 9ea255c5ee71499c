# %% one-deep-copy
import copy

NAMES = ("model", "optimiser", "scheduler", "scaler")


def save_state(model, optimiser, scheduler, scaler, step):
    state = {name: part.state_dict() for name, part in zip(NAMES, (model, optimiser, scheduler, scaler))}
    return copy.deepcopy(dict(state, step=step))


def load_state(state, *parts):
    for name, part in zip(NAMES, parts, strict=True):
        part.load_state_dict(state[name])
    return state["step"]


# %% bytes-in-a-tensor
import io


def save_state(model, optimiser, scheduler, scaler, step):
    """Everything is written at once, so nothing that happens later can change it."""
    buffer = io.BytesIO()
    parts = [part.state_dict() for part in (model, optimiser, scheduler, scaler)]
    torch.save((parts, step), buffer)
    return {"file": torch.frombuffer(bytearray(buffer.getvalue()), dtype=torch.uint8).clone()}


def load_state(state, model, optimiser, scheduler, scaler):
    parts, step = torch.load(io.BytesIO(state["file"].numpy().tobytes()), weights_only=True)
    for target, part in zip((model, optimiser, scheduler, scaler), parts):
        target.load_state_dict(part)
    return step


# %% clones-by-hand
def _copied(value):
    if isinstance(value, torch.Tensor):
        return value.detach().clone()
    if isinstance(value, dict):
        return {key: _copied(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(_copied(item) for item in value)
    return value


def save_state(model, optimiser, scheduler, scaler, step):
    return {
        "version": 1,
        "step": int(step),
        "training": [_copied(part.state_dict()) for part in (model, optimiser, scheduler, scaler)],
    }


def load_state(state, model, optimiser, scheduler, scaler):
    model_state, optimiser_state, scheduler_state, scaler_state = state["training"]
    scheduler.load_state_dict(scheduler_state)
    optimiser.load_state_dict(optimiser_state)
    scaler.load_state_dict(scaler_state)
    model.load_state_dict(model_state, strict=True)
    return state["step"]


# %% scaler-only-where-enabled
import copy


def save_state(model, optimiser, scheduler, scaler, step):
    state = {"step": torch.tensor(step)}
    state["model"] = {name: value.clone() for name, value in model.state_dict().items()}
    state["optimiser"] = copy.deepcopy(optimiser.state_dict())
    state["scheduler"] = copy.deepcopy(scheduler.state_dict())
    if scaler.is_enabled():
        state["scaler"] = scaler.state_dict()
    return state


def load_state(state, model, optimiser, scheduler, scaler):
    with torch.no_grad():
        for name, value in model.state_dict().items():
            value.copy_(state["model"][name])
    optimiser.load_state_dict(copy.deepcopy(state["optimiser"]))
    scheduler.load_state_dict(state["scheduler"])
    if scaler.is_enabled():
        scaler.load_state_dict(state["scaler"])
    return state["step"].item()
