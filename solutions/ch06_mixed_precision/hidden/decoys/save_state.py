# %% scheduler-loaded-first
import copy


def save_state(model, optimiser, scheduler, scaler, step):
    return {
        "model": copy.deepcopy(model.state_dict()),
        "optimiser": copy.deepcopy(optimiser.state_dict()),
        "scheduler": copy.deepcopy(scheduler.state_dict()),
        "scaler": scaler.state_dict(),
        "step": step,
    }


def load_state(state, model, optimiser, scheduler, scaler):
    # the order does not matter: none of them looks at another one while it is loaded
    scaler.load_state_dict(state["scaler"])
    scheduler.load_state_dict(state["scheduler"])
    optimiser.load_state_dict(state["optimiser"])
    model.load_state_dict(state["model"])
    return state["step"]


# %% only-tensors-are-copied-twice
import copy


def save_state(model, optimiser, scheduler, scaler, step):
    return {
        "model": copy.deepcopy(model.state_dict()),
        "optimiser": copy.deepcopy(optimiser.state_dict()),
        "scheduler": copy.deepcopy(scheduler.state_dict()),
        "scaler": dict(scaler.state_dict()),  # numbers only, so a flat copy is a copy
        "step": int(step),
    }


def load_state(state, model, optimiser, scheduler, scaler):
    model.load_state_dict(state["model"])
    optimiser.load_state_dict(state["optimiser"])
    scheduler.load_state_dict(state["scheduler"])
    scaler.load_state_dict(state["scaler"])
    return state["step"]
