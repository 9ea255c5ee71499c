# %% no-scaler
# misconception: a scaler finds its scale again by itself
# fails: test_a_resumed_run_is_the_straight_run, test_a_resumed_run_with_skipped_steps, test_the_scale_goes_on, test_the_schedule_goes_on, test_the_training_goes_on_before_it_is_loaded, test_what_was_saved_stays_as_it_was
# says: Interrupted at an odd step, in the middle of the scaler's co
import copy


def save_state(model, optimiser, scheduler, scaler, step):
    return {
        "model": copy.deepcopy(model.state_dict()),
        "optimiser": copy.deepcopy(optimiser.state_dict()),
        "scheduler": copy.deepcopy(scheduler.state_dict()),
        "step": step,
    }


def load_state(state, model, optimiser, scheduler, scaler):
    model.load_state_dict(state["model"])
    optimiser.load_state_dict(state["optimiser"])
    scheduler.load_state_dict(state["scheduler"])
    return state["step"]


# %% scale-only
# misconception: a scaler's state is its scale
# fails: test_a_resumed_run_is_the_straight_run, test_the_scale_goes_on, test_the_training_goes_on_before_it_is_loaded
# says: Interrupted at an odd step, in the middle of the scaler's co
import copy


def save_state(model, optimiser, scheduler, scaler, step):
    return {
        "model": copy.deepcopy(model.state_dict()),
        "optimiser": copy.deepcopy(optimiser.state_dict()),
        "scheduler": copy.deepcopy(scheduler.state_dict()),
        "scaler": scaler.get_scale(),
        "step": step,
    }


def load_state(state, model, optimiser, scheduler, scaler):
    model.load_state_dict(state["model"])
    optimiser.load_state_dict(state["optimiser"])
    scheduler.load_state_dict(state["scheduler"])
    scaler.load_state_dict({**scaler.state_dict(), "scale": state["scaler"]}) if scaler.is_enabled() else None
    return state["step"]


# %% no-scheduler
# misconception: the rate is in the optimiser, so the schedule is saved with it
# fails: test_a_resumed_run_is_the_straight_run, test_a_resumed_run_with_skipped_steps, test_a_run_without_a_scaler, test_the_scale_goes_on, test_the_schedule_goes_on, test_the_training_goes_on_before_it_is_loaded
# says: Interrupted at an odd step, in the middle of the scaler's co
import copy


def save_state(model, optimiser, scheduler, scaler, step):
    return {
        "model": copy.deepcopy(model.state_dict()),
        "optimiser": copy.deepcopy(optimiser.state_dict()),
        "scaler": scaler.state_dict(),
        "step": step,
    }


def load_state(state, model, optimiser, scheduler, scaler):
    model.load_state_dict(state["model"])
    optimiser.load_state_dict(state["optimiser"])
    scaler.load_state_dict(state["scaler"])
    return state["step"]


# %% fast-forward
# misconception: the schedule is at the number of batches
# fails: test_a_resumed_run_is_the_straight_run, test_a_resumed_run_with_skipped_steps, test_a_run_without_a_scaler, test_the_schedule_goes_on, test_what_was_saved_stays_as_it_was
# says: Interrupted at an odd step, in the middle of the scaler's co
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
    model.load_state_dict(state["model"])
    optimiser.load_state_dict(state["optimiser"])
    for _ in range(state["step"]):
        scheduler.step()
    scaler.load_state_dict(state["scaler"])
    return state["step"]


# %% last-epoch-from-the-step
# misconception: batches and steps are the same number
# fails: test_a_resumed_run_with_skipped_steps, test_the_schedule_goes_on, test_what_was_saved_stays_as_it_was
# says: Where the first batches overflowed before the interruption,
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
    model.load_state_dict(state["model"])
    optimiser.load_state_dict(state["optimiser"])
    scheduler.last_epoch = state["step"]
    scaler.load_state_dict(state["scaler"])
    return state["step"]


# %% model-only
# misconception: a checkpoint is the weights
# fails: test_a_resumed_run_is_the_straight_run, test_a_resumed_run_with_skipped_steps, test_a_run_without_a_scaler, test_the_scale_goes_on, test_the_schedule_goes_on, test_the_training_goes_on_before_it_is_loaded, test_what_was_saved_stays_as_it_was
# says: Interrupted at an odd step, in the middle of the scaler's co
def save_state(model, optimiser, scheduler, scaler, step):
    return {"model": {name: value.clone() for name, value in model.state_dict().items()}, "step": step}


def load_state(state, model, optimiser, scheduler, scaler):
    model.load_state_dict(state["model"])
    return state["step"]


# %% no-optimiser
# misconception: momentum comes back by itself
# fails: test_a_resumed_run_is_the_straight_run, test_a_resumed_run_with_skipped_steps, test_a_run_without_a_scaler, test_the_scale_goes_on, test_the_training_goes_on_before_it_is_loaded
# says: Interrupted at an odd step, in the middle of the scaler's co
import copy


def save_state(model, optimiser, scheduler, scaler, step):
    return {
        "model": copy.deepcopy(model.state_dict()),
        "scheduler": copy.deepcopy(scheduler.state_dict()),
        "scaler": scaler.state_dict(),
        "step": step,
    }


def load_state(state, model, optimiser, scheduler, scaler):
    model.load_state_dict(state["model"])
    scheduler.load_state_dict(state["scheduler"])
    scaler.load_state_dict(state["scaler"])
    return state["step"]


# %% not-copied
# misconception: state_dict is a copy
# fails: test_a_resumed_run_is_the_straight_run, test_a_resumed_run_with_skipped_steps, test_a_run_without_a_scaler, test_the_training_goes_on_before_it_is_loaded, test_what_was_saved_stays_as_it_was
# says: Interrupted at an odd step, in the middle of the sca
import copy


def save_state(model, optimiser, scheduler, scaler, step):
    return {
        "model": model.state_dict(),
        "optimiser": optimiser.state_dict(),
        "scheduler": copy.deepcopy(scheduler.state_dict()),
        "scaler": scaler.state_dict(),
        "step": step,
    }


def load_state(state, model, optimiser, scheduler, scaler):
    model.load_state_dict(state["model"])
    optimiser.load_state_dict(state["optimiser"])
    scheduler.load_state_dict(state["scheduler"])
    scaler.load_state_dict(state["scaler"])
    return state["step"]


# %% copied-flat
# misconception: a copy of a dict is a copy of what is in it
# fails: test_a_resumed_run_is_the_straight_run, test_a_resumed_run_with_skipped_steps, test_a_run_without_a_scaler, test_the_training_goes_on_before_it_is_loaded, test_what_was_saved_stays_as_it_was
# says: Interrupted at an odd step, in the middle of the sca
import copy


def save_state(model, optimiser, scheduler, scaler, step):
    return {
        "model": copy.copy(model.state_dict()),
        "optimiser": copy.copy(optimiser.state_dict()),
        "scheduler": copy.deepcopy(scheduler.state_dict()),
        "scaler": scaler.state_dict(),
        "step": step,
    }


def load_state(state, model, optimiser, scheduler, scaler):
    model.load_state_dict(state["model"])
    optimiser.load_state_dict(state["optimiser"])
    scheduler.load_state_dict(state["scheduler"])
    scaler.load_state_dict(state["scaler"])
    return state["step"]


# %% whole-objects
# misconception: torch.save takes anything, so why not the objects
# fails: test_a_resumed_run_is_the_straight_run, test_a_resumed_run_with_skipped_steps, test_a_run_without_a_scaler, test_the_scale_goes_on, test_the_schedule_goes_on
# says: Interrupted at an odd step, in the middle of the scaler's co
import copy


def save_state(model, optimiser, scheduler, scaler, step):
    return {
        "model": copy.deepcopy(model),
        "optimiser": copy.deepcopy(optimiser.state_dict()),
        "scheduler": copy.deepcopy(scheduler.state_dict()),
        "scaler": scaler.state_dict(),
        "step": step,
    }


def load_state(state, model, optimiser, scheduler, scaler):
    model.load_state_dict(state["model"].state_dict())
    optimiser.load_state_dict(state["optimiser"])
    scheduler.load_state_dict(state["scheduler"])
    scaler.load_state_dict(state["scaler"])
    return state["step"]


# %% scaler-object
# misconception: a scaler is a number with some settings, it can be saved as it is
# fails: test_a_resumed_run_is_the_straight_run, test_a_resumed_run_with_skipped_steps, test_a_run_without_a_scaler, test_the_scale_goes_on, test_the_schedule_goes_on, test_what_was_saved_stays_as_it_was
# says: Interrupted at an odd step, in the middle of the scaler's co
import copy


def save_state(model, optimiser, scheduler, scaler, step):
    return {
        "model": copy.deepcopy(model.state_dict()),
        "optimiser": copy.deepcopy(optimiser.state_dict()),
        "scheduler": copy.deepcopy(scheduler.state_dict()),
        "scaler": scaler,
        "step": step,
    }


def load_state(state, model, optimiser, scheduler, scaler):
    model.load_state_dict(state["model"])
    optimiser.load_state_dict(state["optimiser"])
    scheduler.load_state_dict(state["scheduler"])
    scaler.load_state_dict(state["scaler"].state_dict())
    return state["step"]


# %% steps-that-were-made
# misconception: the step of a run is that of its schedule
# fails: test_a_resumed_run_with_skipped_steps, test_the_schedule_goes_on, test_what_was_saved_stays_as_it_was
# says: Where the first batches overflowed before the interruption,
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
    model.load_state_dict(state["model"])
    optimiser.load_state_dict(state["optimiser"])
    scheduler.load_state_dict(state["scheduler"])
    scaler.load_state_dict(state["scaler"])
    return state["scheduler"]["last_epoch"]


# %% nothing-returned
# misconception: a function that loads has nothing to return
# fails: test_a_resumed_run_is_the_straight_run, test_a_resumed_run_with_skipped_steps, test_a_run_without_a_scaler, test_the_scale_goes_on, test_the_schedule_goes_on, test_the_training_goes_on_before_it_is_loaded, test_what_was_saved_stays_as_it_was
# says: Interrupted at an odd step, in the middle of the scaler's co
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
    model.load_state_dict(state["model"])
    optimiser.load_state_dict(state["optimiser"])
    scheduler.load_state_dict(state["scheduler"])
    scaler.load_state_dict(state["scaler"])


# %% buffers-left-out
# misconception: a model's state are its parameters
# fails: test_a_resumed_run_is_the_straight_run, test_a_resumed_run_with_skipped_steps, test_a_run_without_a_scaler, test_what_was_saved_stays_as_it_was
# says: Interrupted at an odd step, in the middle of the scaler's co
import copy


def save_state(model, optimiser, scheduler, scaler, step):
    return {
        "model": {name: value.detach().clone() for name, value in model.named_parameters()},
        "optimiser": copy.deepcopy(optimiser.state_dict()),
        "scheduler": copy.deepcopy(scheduler.state_dict()),
        "scaler": scaler.state_dict(),
        "step": step,
    }


def load_state(state, model, optimiser, scheduler, scaler):
    model.load_state_dict(state["model"], strict=False)
    optimiser.load_state_dict(state["optimiser"])
    scheduler.load_state_dict(state["scheduler"])
    scaler.load_state_dict(state["scaler"])
    return state["step"]


# %% empty
# misconception: what is not saved cannot be wrong
# fails: test_a_resumed_run_is_the_straight_run, test_a_resumed_run_with_skipped_steps, test_a_run_without_a_scaler, test_the_scale_goes_on, test_the_schedule_goes_on, test_the_training_goes_on_before_it_is_loaded, test_what_was_saved_stays_as_it_was
# says: Interrupted at an odd step, in the middle of the scaler's co
def save_state(model, optimiser, scheduler, scaler, step):
    return {"step": step}


def load_state(state, model, optimiser, scheduler, scaler):
    return state["step"]


# %% growth-settings-lost
# misconception: what changes is the scale and nothing else
# fails: test_a_resumed_run_is_the_straight_run, test_the_scale_goes_on, test_the_training_goes_on_before_it_is_loaded
# says: Interrupted at an odd step, in the middle of the scaler's co
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
    model.load_state_dict(state["model"])
    optimiser.load_state_dict(state["optimiser"])
    scheduler.load_state_dict(state["scheduler"])
    scaler.load_state_dict({**state["scaler"], "_growth_tracker": 0}) if scaler.is_enabled() else None
    return state["step"]
