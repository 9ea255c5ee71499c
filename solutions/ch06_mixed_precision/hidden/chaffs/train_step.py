# %% no-scaler
# misconception: autocast is all that mixed precision needs
# fails: test_a_scale_that_is_too_high_skips_a_step, test_early_layers_learn_behind_small_weights, test_faint_pixels_are_learned_from, test_steps_that_overflow_are_skipped, test_the_scale_goes_up_and_down
# says: At a scale of 64 the gradients overflow: nothing moves at 64
def train_step(model, x, y, optimiser, scaler, max_norm, dtype):
    with torch.autocast(x.device.type, dtype, enabled=dtype != torch.float32):
        logits = model(x)
    loss = F.cross_entropy(logits.float(), y)
    optimiser.zero_grad()
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), max_norm)
    optimiser.step()
    return loss.detach()


# %% scaled-too-late
# misconception: it is the gradients that have to be scaled, so they are scaled
# fails: test_a_scale_that_is_too_high_skips_a_step, test_early_layers_learn_behind_small_weights, test_faint_pixels_are_learned_from, test_steps_that_overflow_are_skipped
# says: At a scale of 64 the gradients overflow: nothing moves at 64
def train_step(model, x, y, optimiser, scaler, max_norm, dtype):
    with torch.autocast(x.device.type, dtype, enabled=dtype != torch.float32):
        logits = model(x)
    loss = F.cross_entropy(logits.float(), y)
    optimiser.zero_grad()
    loss.backward()
    for p in model.parameters():
        p.grad = scaler.scale(p.grad)
    scaler.unscale_(optimiser)
    torch.nn.utils.clip_grad_norm_(model.parameters(), max_norm)
    scaler.step(optimiser)
    scaler.update()
    return loss.detach()


# %% clipped-while-scaled
# misconception: the scaler takes its scale away where it matters, in its step
# fails: test_a_bright_picture_makes_a_step_of_max_norm, test_small_gradients_are_not_clipped, test_steps_are_as_long_as_max_norm, test_steps_are_those_of_float32, test_there_is_one_norm
# says: Gradients of a total norm of about 2900, a max_norm of 2 and
def train_step(model, x, y, optimiser, scaler, max_norm, dtype):
    with torch.autocast(x.device.type, dtype, enabled=dtype != torch.float32):
        logits = model(x)
    loss = F.cross_entropy(logits.float(), y)
    optimiser.zero_grad()
    scaler.scale(loss).backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), max_norm)
    scaler.step(optimiser)
    scaler.update()
    return loss.detach()


# %% unscaled-after-clipping
# misconception: unscale_ belongs to the step, so it goes right in front of it
# fails: test_a_bright_picture_makes_a_step_of_max_norm, test_small_gradients_are_not_clipped, test_steps_are_as_long_as_max_norm, test_steps_are_those_of_float32, test_there_is_one_norm
# says: Gradients of a total norm of about 2900, a max_norm of 2 and
def train_step(model, x, y, optimiser, scaler, max_norm, dtype):
    with torch.autocast(x.device.type, dtype, enabled=dtype != torch.float32):
        logits = model(x)
    loss = F.cross_entropy(logits.float(), y)
    optimiser.zero_grad()
    scaler.scale(loss).backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), max_norm)
    scaler.unscale_(optimiser)
    scaler.step(optimiser)
    scaler.update()
    return loss.detach()


# %% clipped-after-the-step
# misconception: the order of the calls is a matter of taste
# fails: test_a_bright_picture_makes_a_step_of_max_norm, test_clipped_without_a_scaler_too, test_steps_are_as_long_as_max_norm, test_steps_are_those_of_float32, test_the_plain_loop_in_float32, test_there_is_one_norm
# says: Gradients of a total norm of about 2900, a max_norm of 2 and
def train_step(model, x, y, optimiser, scaler, max_norm, dtype):
    with torch.autocast(x.device.type, dtype, enabled=dtype != torch.float32):
        logits = model(x)
    loss = F.cross_entropy(logits.float(), y)
    optimiser.zero_grad()
    scaler.scale(loss).backward()
    scaler.unscale_(optimiser)
    scaler.step(optimiser)
    torch.nn.utils.clip_grad_norm_(model.parameters(), max_norm)
    scaler.update()
    return loss.detach()


# %% never-clipped
# misconception: a scaler keeps gradients from exploding, so clipping is left out
# fails: test_a_bright_picture_makes_a_step_of_max_norm, test_clipped_without_a_scaler_too, test_steps_are_as_long_as_max_norm, test_steps_are_those_of_float32, test_the_plain_loop_in_float32, test_there_is_one_norm
# says: Gradients of a total norm of about 2900, a max_norm of 2 and
def train_step(model, x, y, optimiser, scaler, max_norm, dtype):
    with torch.autocast(x.device.type, dtype, enabled=dtype != torch.float32):
        logits = model(x)
    loss = F.cross_entropy(logits.float(), y)
    optimiser.zero_grad()
    scaler.scale(loss).backward()
    scaler.unscale_(optimiser)
    scaler.step(optimiser)
    scaler.update()
    return loss.detach()


# %% updated-first
# misconception: the scale is updated before it is used
# fails: test_a_scale_that_is_too_high_skips_a_step, test_steps_that_overflow_are_skipped, test_the_scale_goes_up_and_down
# says: At a scale of 64 the gradients overflow: nothing moves at 64
def train_step(model, x, y, optimiser, scaler, max_norm, dtype):
    with torch.autocast(x.device.type, dtype, enabled=dtype != torch.float32):
        logits = model(x)
    loss = F.cross_entropy(logits.float(), y)
    optimiser.zero_grad()
    if scaler.is_enabled() and scaler._scale is not None:
        scaler.update(scaler.get_scale() * 0.5)
    scaler.scale(loss).backward()
    scaler.unscale_(optimiser)
    torch.nn.utils.clip_grad_norm_(model.parameters(), max_norm)
    scaler.step(optimiser)
    scaler.update()
    return loss.detach()


# %% no-update
# misconception: update is optional: the scale that was chosen is good enough
# fails: test_a_scale_that_is_too_high_skips_a_step, test_early_layers_learn_behind_small_weights, test_layers_run_in_the_dtype_that_was_asked_for, test_steps_are_as_long_as_max_norm, test_steps_are_those_of_float32, test_steps_that_overflow_are_skipped, test_the_scale_goes_up_and_down
# says: At a scale of 64 the gradients overflow: nothing moves at 64
def train_step(model, x, y, optimiser, scaler, max_norm, dtype):
    with torch.autocast(x.device.type, dtype, enabled=dtype != torch.float32):
        logits = model(x)
    loss = F.cross_entropy(logits.float(), y)
    optimiser.zero_grad()
    scaler.scale(loss).backward()
    scaler.unscale_(optimiser)
    torch.nn.utils.clip_grad_norm_(model.parameters(), max_norm)
    scaler.step(optimiser)
    return loss.detach()


# %% steps-in-spite-of-overflow
# misconception: after unscale_ the optimiser can make the step by itself
# fails: test_a_scale_that_is_too_high_skips_a_step, test_steps_that_overflow_are_skipped, test_the_scale_goes_up_and_down
# says: At a scale of 64 the gradients overflow: nothing moves at 64
def train_step(model, x, y, optimiser, scaler, max_norm, dtype):
    with torch.autocast(x.device.type, dtype, enabled=dtype != torch.float32):
        logits = model(x)
    loss = F.cross_entropy(logits.float(), y)
    optimiser.zero_grad()
    scaler.scale(loss).backward()
    scaler.unscale_(optimiser)
    torch.nn.utils.clip_grad_norm_(model.parameters(), max_norm)
    optimiser.step()
    scaler.update()
    return loss.detach()


# %% old-gradients-kept
# misconception: gradients are replaced by each backward pass
# fails: test_a_plain_step, test_a_scale_that_is_too_high_skips_a_step, test_steps_are_those_of_float32, test_steps_that_overflow_are_skipped, test_the_plain_loop_in_float32, test_the_scale_goes_up_and_down
# says: In float32, with the scaler disabled: a step with the gradie
def train_step(model, x, y, optimiser, scaler, max_norm, dtype):
    with torch.autocast(x.device.type, dtype, enabled=dtype != torch.float32):
        logits = model(x)
    loss = F.cross_entropy(logits.float(), y)
    scaler.scale(loss).backward()
    scaler.unscale_(optimiser)
    torch.nn.utils.clip_grad_norm_(model.parameters(), max_norm)
    scaler.step(optimiser)
    scaler.update()
    return loss.detach()


# %% scaled-loss-returned
# misconception: the loss is what backward is called on
# fails: test_a_scale_that_is_too_high_skips_a_step, test_loss_of_a_model_that_knows_nothing, test_modes_are_left_alone, test_steps_are_those_of_float32, test_the_loss_is_as_precise_as_float32
# says: At a scale of 64 the gradients overflow: nothing moves at 64
def train_step(model, x, y, optimiser, scaler, max_norm, dtype):
    with torch.autocast(x.device.type, dtype, enabled=dtype != torch.float32):
        logits = model(x)
    loss = F.cross_entropy(logits.float(), y)
    optimiser.zero_grad()
    loss = scaler.scale(loss)
    loss.backward()
    scaler.unscale_(optimiser)
    torch.nn.utils.clip_grad_norm_(model.parameters(), max_norm)
    scaler.step(optimiser)
    scaler.update()
    return loss.detach()


# %% loss-in-half
# misconception: a loss is one number, so it may be a short one
# fails: test_a_scale_that_is_too_high_skips_a_step, test_loss_of_a_model_that_knows_nothing, test_modes_are_left_alone, test_steps_are_those_of_float32, test_the_loss_is_as_precise_as_float32
# says: At a scale of 64 the gradients overflow: nothing moves at 64
def train_step(model, x, y, optimiser, scaler, max_norm, dtype):
    with torch.autocast(x.device.type, dtype, enabled=dtype != torch.float32):
        logits = model(x)
    loss = F.cross_entropy(logits.float(), y)
    optimiser.zero_grad()
    scaler.scale(loss).backward()
    scaler.unscale_(optimiser)
    torch.nn.utils.clip_grad_norm_(model.parameters(), max_norm)
    scaler.step(optimiser)
    scaler.update()
    return loss.detach().to(dtype)


# %% loss-rounded
# misconception: what is float32 in the end is as precise as float32
# fails: test_a_scale_that_is_too_high_skips_a_step, test_early_layers_learn_behind_small_weights, test_faint_pixels_are_learned_from, test_loss_of_a_model_that_knows_nothing, test_steps_that_overflow_are_skipped, test_the_loss_is_as_precise_as_float32
# says: At a scale of 64 the gradients overflow: nothing moves at 64
def train_step(model, x, y, optimiser, scaler, max_norm, dtype):
    with torch.autocast(x.device.type, dtype, enabled=dtype != torch.float32):
        logits = model(x)
    loss = -logits.log_softmax(1)[torch.arange(len(y)), y].mean().float()
    optimiser.zero_grad()
    scaler.scale(loss).backward()
    scaler.unscale_(optimiser)
    torch.nn.utils.clip_grad_norm_(model.parameters(), max_norm)
    scaler.step(optimiser)
    scaler.update()
    return loss.detach()


# %% loss-attached
# misconception: a loss that is returned is only a number
# fails: test_loss_of_a_model_that_knows_nothing, test_modes_are_left_alone
# says: The loss is still part of a graph
def train_step(model, x, y, optimiser, scaler, max_norm, dtype):
    with torch.autocast(x.device.type, dtype, enabled=dtype != torch.float32):
        logits = model(x)
    loss = F.cross_entropy(logits.float(), y)
    optimiser.zero_grad()
    scaler.scale(loss).backward()
    scaler.unscale_(optimiser)
    torch.nn.utils.clip_grad_norm_(model.parameters(), max_norm)
    scaler.step(optimiser)
    scaler.update()
    return loss


# %% a-python-float
# misconception: a tensor without dimensions is a number
# fails: test_a_bright_picture_makes_a_step_of_max_norm, test_a_plain_step, test_a_scale_that_is_too_high_skips_a_step, test_clipped_without_a_scaler_too, test_early_layers_learn_behind_small_weights, test_faint_pixels_are_learned_from, test_layers_run_in_the_dtype_that_was_asked_for, test_loss_of_a_model_that_knows_nothing, test_modes_are_left_alone, test_small_gradients_are_not_clipped, test_steps_are_as_long_as_max_norm, test_steps_are_those_of_float32, test_steps_that_overflow_are_skipped, test_the_loss_is_as_precise_as_float32, test_the_plain_loop_in_float32, test_the_scale_goes_up_and_down, test_there_is_one_norm
# says: Gradients of a total norm of about 2900, a max_norm of 2 and
def train_step(model, x, y, optimiser, scaler, max_norm, dtype):
    with torch.autocast(x.device.type, dtype, enabled=dtype != torch.float32):
        logits = model(x)
    loss = F.cross_entropy(logits.float(), y)
    optimiser.zero_grad()
    scaler.scale(loss).backward()
    scaler.unscale_(optimiser)
    torch.nn.utils.clip_grad_norm_(model.parameters(), max_norm)
    scaler.step(optimiser)
    scaler.update()
    return loss.item()


# %% no-autocast
# misconception: float32 is right in any case
# fails: test_a_scale_that_is_too_high_skips_a_step, test_layers_run_in_the_dtype_that_was_asked_for, test_steps_that_overflow_are_skipped
# says: At a scale of 64 the gradients overflow: nothing moves at 64
def train_step(model, x, y, optimiser, scaler, max_norm, dtype):
    with torch.autocast(x.device.type, dtype, enabled=False):
        logits = model(x)
    loss = F.cross_entropy(logits.float(), y)
    optimiser.zero_grad()
    scaler.scale(loss).backward()
    scaler.unscale_(optimiser)
    torch.nn.utils.clip_grad_norm_(model.parameters(), max_norm)
    scaler.step(optimiser)
    scaler.update()
    return loss.detach()


# %% always-bfloat16
# misconception: half is half
# fails: test_a_scale_that_is_too_high_skips_a_step, test_early_layers_learn_behind_small_weights, test_layers_run_in_the_dtype_that_was_asked_for, test_steps_that_overflow_are_skipped
# says: At a scale of 64 the gradients overflow: nothing moves at 64
def train_step(model, x, y, optimiser, scaler, max_norm, dtype):
    with torch.autocast(x.device.type, torch.bfloat16, enabled=dtype != torch.float32):
        logits = model(x)
    loss = F.cross_entropy(logits.float(), y)
    optimiser.zero_grad()
    scaler.scale(loss).backward()
    scaler.unscale_(optimiser)
    torch.nn.utils.clip_grad_norm_(model.parameters(), max_norm)
    scaler.step(optimiser)
    scaler.update()
    return loss.detach()


# %% model-cast
# misconception: mixed precision is a model in half precision
# fails: test_a_bright_picture_makes_a_step_of_max_norm, test_a_scale_that_is_too_high_skips_a_step, test_early_layers_learn_behind_small_weights, test_faint_pixels_are_learned_from, test_layers_run_in_the_dtype_that_was_asked_for, test_small_gradients_are_not_clipped, test_steps_are_as_long_as_max_norm, test_steps_are_those_of_float32, test_steps_that_overflow_are_skipped, test_the_scale_goes_up_and_down, test_there_is_one_norm
# says: Gradients of a total norm of about 2900, a max_norm of 2 and
def train_step(model, x, y, optimiser, scaler, max_norm, dtype):
    model.to(dtype)
    loss = F.cross_entropy(model(x.to(dtype)).float(), y)
    optimiser.zero_grad()
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), max_norm)
    optimiser.step()
    return loss.detach()


# %% clipped-one-by-one
# misconception: each parameter has a norm of its own to clip
# fails: test_steps_are_as_long_as_max_norm, test_steps_are_those_of_float32, test_the_plain_loop_in_float32, test_there_is_one_norm
# says: Plain descent moves all parameters together by rate times ma
def train_step(model, x, y, optimiser, scaler, max_norm, dtype):
    with torch.autocast(x.device.type, dtype, enabled=dtype != torch.float32):
        logits = model(x)
    loss = F.cross_entropy(logits.float(), y)
    optimiser.zero_grad()
    scaler.scale(loss).backward()
    scaler.unscale_(optimiser)
    for p in model.parameters():
        torch.nn.utils.clip_grad_norm_([p], max_norm)
    scaler.step(optimiser)
    scaler.update()
    return loss.detach()


# %% values-clipped
# misconception: clipping is clipping
# fails: test_a_bright_picture_makes_a_step_of_max_norm, test_clipped_without_a_scaler_too, test_steps_are_as_long_as_max_norm, test_steps_are_those_of_float32, test_the_plain_loop_in_float32, test_there_is_one_norm
# says: Gradients of a total norm of about 2900, a max_norm of 2 and
def train_step(model, x, y, optimiser, scaler, max_norm, dtype):
    with torch.autocast(x.device.type, dtype, enabled=dtype != torch.float32):
        logits = model(x)
    loss = F.cross_entropy(logits.float(), y)
    optimiser.zero_grad()
    scaler.scale(loss).backward()
    scaler.unscale_(optimiser)
    torch.nn.utils.clip_grad_value_(model.parameters(), max_norm)
    scaler.step(optimiser)
    scaler.update()
    return loss.detach()


# %% scaler-of-its-own
# misconception: a scaler has no memory, so a new one will do
# fails: test_a_bright_picture_makes_a_step_of_max_norm, test_a_scale_that_is_too_high_skips_a_step, test_small_gradients_are_not_clipped, test_steps_that_overflow_are_skipped, test_the_scale_goes_up_and_down
# says: Gradients of a total norm of about 2900, a max_norm of 2 and
def train_step(model, x, y, optimiser, scaler, max_norm, dtype):
    with torch.autocast(x.device.type, dtype, enabled=dtype != torch.float32):
        logits = model(x)
    loss = F.cross_entropy(logits.float(), y)
    optimiser.zero_grad()
    scaler = torch.amp.GradScaler(x.device.type, enabled=scaler.is_enabled())
    scaler.scale(loss).backward()
    scaler.unscale_(optimiser)
    torch.nn.utils.clip_grad_norm_(model.parameters(), max_norm)
    scaler.step(optimiser)
    scaler.update()
    return loss.detach()


# %% train-mode-set
# misconception: a training step puts the model into train mode
# fails: test_modes_are_left_alone
# says: Modules in train mode and in eval mode stay so; the
def train_step(model, x, y, optimiser, scaler, max_norm, dtype):
    model.train()
    with torch.autocast(x.device.type, dtype, enabled=dtype != torch.float32):
        logits = model(x)
    loss = F.cross_entropy(logits.float(), y)
    optimiser.zero_grad()
    scaler.scale(loss).backward()
    scaler.unscale_(optimiser)
    torch.nn.utils.clip_grad_norm_(model.parameters(), max_norm)
    scaler.step(optimiser)
    scaler.update()
    return loss.detach()


# %% only-where-half
# misconception: without half precision there is nothing to clip
# fails: test_clipped_without_a_scaler_too, test_the_plain_loop_in_float32
# says: With the scaler disabled, in float32: the plain loop,
def train_step(model, x, y, optimiser, scaler, max_norm, dtype):
    with torch.autocast(x.device.type, dtype, enabled=dtype != torch.float32):
        logits = model(x)
    loss = F.cross_entropy(logits.float(), y)
    optimiser.zero_grad()
    scaler.scale(loss).backward()
    scaler.unscale_(optimiser)
    if scaler.is_enabled():
        torch.nn.utils.clip_grad_norm_(model.parameters(), max_norm)
    scaler.step(optimiser)
    scaler.update()
    return loss.detach()


# %% does-nothing
# misconception: a loss is all that anyone looks at
# fails: test_a_bright_picture_makes_a_step_of_max_norm, test_a_plain_step, test_a_scale_that_is_too_high_skips_a_step, test_clipped_without_a_scaler_too, test_early_layers_learn_behind_small_weights, test_faint_pixels_are_learned_from, test_small_gradients_are_not_clipped, test_steps_are_as_long_as_max_norm, test_steps_are_those_of_float32, test_steps_that_overflow_are_skipped, test_the_plain_loop_in_float32, test_the_scale_goes_up_and_down, test_there_is_one_norm
# says: 32 pictures, each with a faint pixel of its own: gradients
def train_step(model, x, y, optimiser, scaler, max_norm, dtype):
    with torch.no_grad(), torch.autocast(x.device.type, dtype, enabled=dtype != torch.float32):
        return F.cross_entropy(model(x).float(), y)


# %% backward-in-float32
# misconception: what matters is that the gradients are right
# fails: test_a_scale_that_is_too_high_skips_a_step, test_layers_run_in_the_dtype_that_was_asked_for, test_steps_that_overflow_are_skipped, test_the_scale_goes_up_and_down
# says: The layers give results of the dtype of the autocast
def train_step(model, x, y, optimiser, scaler, max_norm, dtype):
    loss = F.cross_entropy(model(x), y)
    optimiser.zero_grad()
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), max_norm)
    optimiser.step()
    return loss.detach()
