# %% steps-with-every-batch
# misconception: a batch is a step
# fails: test_a_scale_that_changes_all_the_time, test_a_scale_that_goes_up_skips_nothing, test_a_schedule_that_begins_at_zero, test_a_second_pass_goes_on, test_broken_pictures_do_not_move_the_schedule, test_gradients_may_overflow_behind_a_finite_loss, test_the_schedule_follows_the_steps
# says: A scale that grows after every step or two overflows again a
def fit(model, batches, optimiser, scheduler, scaler, dtype):
    losses, rates = [], []
    for x, y in batches:
        with torch.autocast(x.device.type, dtype, enabled=dtype != torch.float32):
            logits = model(x)
        loss = F.cross_entropy(logits.float(), y)
        losses.append(loss.item())
        rate = optimiser.param_groups[0]["lr"]
        optimiser.zero_grad()
        scaler.scale(loss).backward()
        scale = scaler.get_scale()
        scaler.step(optimiser)
        scaler.update()
        rates.append(rate)
        scheduler.step()
    return losses, rates


# %% equal-means-stepped
# misconception: the scale stays the same unless a step is skipped
# fails: test_a_scale_that_changes_all_the_time, test_a_scale_that_goes_up_skips_nothing
# says: A scale that grows after every step or two overflows again a
def fit(model, batches, optimiser, scheduler, scaler, dtype):
    losses, rates = [], []
    for x, y in batches:
        with torch.autocast(x.device.type, dtype, enabled=dtype != torch.float32):
            logits = model(x)
        loss = F.cross_entropy(logits.float(), y)
        losses.append(loss.item())
        rate = optimiser.param_groups[0]["lr"]
        optimiser.zero_grad()
        scaler.scale(loss).backward()
        scale = scaler.get_scale()
        scaler.step(optimiser)
        scaler.update()
        if scaler.get_scale() == scale:
            rates.append(rate)
            scheduler.step()
    return losses, rates


# %% growth-means-stepped
# misconception: the scale grows with each step that is made
# fails: test_a_scale_that_changes_all_the_time, test_a_schedule_that_begins_at_zero, test_a_schedule_without_skips, test_a_second_pass_goes_on, test_broken_pictures_do_not_move_the_schedule, test_gradients_may_overflow_behind_a_finite_loss, test_nothing_is_skipped_without_a_scaler, test_the_schedule_follows_the_steps
# says: A scale that grows after every step or two overflows again a
def fit(model, batches, optimiser, scheduler, scaler, dtype):
    losses, rates = [], []
    for x, y in batches:
        with torch.autocast(x.device.type, dtype, enabled=dtype != torch.float32):
            logits = model(x)
        loss = F.cross_entropy(logits.float(), y)
        losses.append(loss.item())
        rate = optimiser.param_groups[0]["lr"]
        optimiser.zero_grad()
        scaler.scale(loss).backward()
        scale = scaler.get_scale()
        scaler.step(optimiser)
        scaler.update()
        if scaler.get_scale() > scale:
            rates.append(rate)
            scheduler.step()
    return losses, rates


# %% only-the-log-repaired
# misconception: what the log says is what happened
# fails: test_a_scale_that_changes_all_the_time, test_a_scale_that_goes_up_skips_nothing, test_a_schedule_that_begins_at_zero, test_a_second_pass_goes_on, test_broken_pictures_do_not_move_the_schedule, test_gradients_may_overflow_behind_a_finite_loss, test_the_schedule_follows_the_steps
# says: A scale that grows after every step or two overflows again a
def fit(model, batches, optimiser, scheduler, scaler, dtype):
    losses, rates = [], []
    for x, y in batches:
        with torch.autocast(x.device.type, dtype, enabled=dtype != torch.float32):
            logits = model(x)
        loss = F.cross_entropy(logits.float(), y)
        losses.append(loss.item())
        rate = optimiser.param_groups[0]["lr"]
        optimiser.zero_grad()
        scaler.scale(loss).backward()
        scale = scaler.get_scale()
        scaler.step(optimiser)
        scaler.update()
        scheduler.step()
        if scaler.get_scale() >= scale:
            rates.append(rate)
    return losses, rates


# %% only-the-schedule-repaired
# misconception: the log may well show the batches that were skipped
# fails: test_a_scale_that_changes_all_the_time, test_a_scale_that_goes_up_skips_nothing, test_a_schedule_that_begins_at_zero, test_a_second_pass_goes_on, test_broken_pictures_do_not_move_the_schedule, test_gradients_may_overflow_behind_a_finite_loss, test_the_schedule_follows_the_steps
# says: A scale that grows after every step or two overflows again a
def fit(model, batches, optimiser, scheduler, scaler, dtype):
    losses, rates = [], []
    for x, y in batches:
        with torch.autocast(x.device.type, dtype, enabled=dtype != torch.float32):
            logits = model(x)
        loss = F.cross_entropy(logits.float(), y)
        losses.append(loss.item())
        rate = optimiser.param_groups[0]["lr"]
        optimiser.zero_grad()
        scaler.scale(loss).backward()
        scale = scaler.get_scale()
        scaler.step(optimiser)
        scaler.update()
        rates.append(rate)
        if scaler.get_scale() >= scale:
            scheduler.step()
    return losses, rates


# %% the-loss-looked-at
# misconception: a step is skipped where the loss is not finite
# fails: test_a_scale_that_changes_all_the_time, test_gradients_may_overflow_behind_a_finite_loss
# says: Of 14 batches 6 moved the weights; there are 14 rate
def fit(model, batches, optimiser, scheduler, scaler, dtype):
    losses, rates = [], []
    for x, y in batches:
        with torch.autocast(x.device.type, dtype, enabled=dtype != torch.float32):
            logits = model(x)
        loss = F.cross_entropy(logits.float(), y)
        losses.append(loss.item())
        rate = optimiser.param_groups[0]["lr"]
        optimiser.zero_grad()
        scaler.scale(loss).backward()
        scale = scaler.get_scale()
        scaler.step(optimiser)
        scaler.update()
        if loss.isfinite():
            rates.append(rate)
            scheduler.step()
    return losses, rates


# %% disabled-means-skipped
# misconception: a step that no scaler has confirmed has not been made
# fails: test_a_schedule_without_skips, test_nothing_is_skipped_without_a_scaler
# says: In float32 every batch makes a step, and the rates are 1, 1/
def fit(model, batches, optimiser, scheduler, scaler, dtype):
    losses, rates = [], []
    for x, y in batches:
        with torch.autocast(x.device.type, dtype, enabled=dtype != torch.float32):
            logits = model(x)
        loss = F.cross_entropy(logits.float(), y)
        losses.append(loss.item())
        rate = optimiser.param_groups[0]["lr"]
        optimiser.zero_grad()
        scaler.scale(loss).backward()
        scale = scaler.get_scale()
        scaler.step(optimiser)
        scaler.update()
        if scaler.is_enabled() and scaler.get_scale() >= scale:
            rates.append(rate)
            scheduler.step()
    return losses, rates


# %% the-rate-afterwards
# misconception: the rate in the log is the one after the schedule's step
# fails: test_a_scale_that_changes_all_the_time, test_a_scale_that_goes_up_skips_nothing, test_a_schedule_that_begins_at_zero, test_a_schedule_without_skips, test_a_second_pass_goes_on, test_broken_pictures_do_not_move_the_schedule, test_gradients_may_overflow_behind_a_finite_loss, test_nothing_is_skipped_without_a_scaler, test_the_schedule_follows_the_steps
# says: A scale that grows after every step or two overflows again a
def fit(model, batches, optimiser, scheduler, scaler, dtype):
    losses, rates = [], []
    for x, y in batches:
        with torch.autocast(x.device.type, dtype, enabled=dtype != torch.float32):
            logits = model(x)
        loss = F.cross_entropy(logits.float(), y)
        losses.append(loss.item())
        rate = optimiser.param_groups[0]["lr"]
        optimiser.zero_grad()
        scaler.scale(loss).backward()
        scale = scaler.get_scale()
        scaler.step(optimiser)
        scaler.update()
        if scaler.get_scale() >= scale:
            scheduler.step()
            rates.append(optimiser.param_groups[0]['lr'])
    return losses, rates


# %% compared-too-late
# misconception: the scale can be read at any time
# fails: test_a_scale_that_changes_all_the_time, test_a_scale_that_goes_up_skips_nothing, test_a_schedule_that_begins_at_zero, test_a_second_pass_goes_on, test_broken_pictures_do_not_move_the_schedule, test_gradients_may_overflow_behind_a_finite_loss, test_the_schedule_follows_the_steps
# says: A scale that grows after every step or two overflows again a
def fit(model, batches, optimiser, scheduler, scaler, dtype):
    losses, rates = [], []
    for x, y in batches:
        with torch.autocast(x.device.type, dtype, enabled=dtype != torch.float32):
            logits = model(x)
        loss = F.cross_entropy(logits.float(), y)
        losses.append(loss.item())
        rate = optimiser.param_groups[0]["lr"]
        optimiser.zero_grad()
        scaler.scale(loss).backward()
        scaler.step(optimiser)
        scaler.update()
        scale = scaler.get_scale()
        if scaler.get_scale() >= scale:
            rates.append(rate)
            scheduler.step()
    return losses, rates


# %% asks-the-steps-result
# misconception: scaler.step returns whether it made a step
# fails: test_a_scale_that_changes_all_the_time, test_a_scale_that_goes_up_skips_nothing, test_a_schedule_that_begins_at_zero, test_a_schedule_without_skips, test_a_second_pass_goes_on, test_broken_pictures_do_not_move_the_schedule, test_gradients_may_overflow_behind_a_finite_loss, test_nothing_is_skipped_without_a_scaler, test_the_schedule_follows_the_steps
# says: A scale that grows after every step or two overflows again a
def fit(model, batches, optimiser, scheduler, scaler, dtype):
    losses, rates = [], []
    for x, y in batches:
        with torch.autocast(x.device.type, dtype, enabled=dtype != torch.float32):
            logits = model(x)
        loss = F.cross_entropy(logits.float(), y)
        losses.append(loss.item())
        rate = optimiser.param_groups[0]["lr"]
        optimiser.zero_grad()
        scaler.scale(loss).backward()
        scale = scaler.get_scale()
        made = scaler.step(optimiser)
        scaler.update()
        if made is not None:
            rates.append(rate)
            scheduler.step()
    return losses, rates


# %% old-gradients-kept
# misconception: scaled gradients replace what was there
# fails: test_a_scale_that_changes_all_the_time, test_a_scale_that_goes_up_skips_nothing, test_a_schedule_that_begins_at_zero, test_a_schedule_without_skips, test_a_second_pass_goes_on, test_broken_pictures_do_not_move_the_schedule, test_gradients_may_overflow_behind_a_finite_loss, test_nothing_is_skipped_without_a_scaler, test_the_schedule_follows_the_steps
# says: A scale that grows after every step or two overflows again a
def fit(model, batches, optimiser, scheduler, scaler, dtype):
    losses, rates = [], []
    for x, y in batches:
        with torch.autocast(x.device.type, dtype, enabled=dtype != torch.float32):
            logits = model(x)
        loss = F.cross_entropy(logits.float(), y)
        losses.append(loss.item())
        rate = optimiser.param_groups[0]["lr"]
        scaler.scale(loss).backward()
        scale = scaler.get_scale()
        scaler.step(optimiser)
        scaler.update()
        if scaler.get_scale() >= scale:
            rates.append(rate)
            scheduler.step()
    return losses, rates


# %% losses-of-steps-only
# misconception: a batch that was skipped has no loss
# fails: test_a_scale_that_changes_all_the_time, test_broken_pictures_do_not_move_the_schedule, test_gradients_may_overflow_behind_a_finite_loss, test_the_schedule_follows_the_steps
# says: A scale that grows after every step or two overflows again a
def fit(model, batches, optimiser, scheduler, scaler, dtype):
    losses, rates = [], []
    for x, y in batches:
        with torch.autocast(x.device.type, dtype, enabled=dtype != torch.float32):
            logits = model(x)
        loss = F.cross_entropy(logits.float(), y)
        rate = optimiser.param_groups[0]["lr"]
        optimiser.zero_grad()
        scaler.scale(loss).backward()
        scale = scaler.get_scale()
        scaler.step(optimiser)
        scaler.update()
        if scaler.get_scale() >= scale:
            rates.append(rate)
            losses.append(loss.item())
            scheduler.step()
    return losses, rates


# %% schedule-first
# misconception: the schedule comes before the step that it is for
# fails: test_a_scale_that_changes_all_the_time, test_a_scale_that_goes_up_skips_nothing, test_a_schedule_that_begins_at_zero, test_a_schedule_without_skips, test_a_second_pass_goes_on, test_broken_pictures_do_not_move_the_schedule, test_gradients_may_overflow_behind_a_finite_loss, test_nothing_is_skipped_without_a_scaler, test_the_schedule_follows_the_steps
# says: A scale that grows after every step or two overflows again a
def fit(model, batches, optimiser, scheduler, scaler, dtype):
    losses, rates = [], []
    for x, y in batches:
        with torch.autocast(x.device.type, dtype, enabled=dtype != torch.float32):
            logits = model(x)
        loss = F.cross_entropy(logits.float(), y)
        losses.append(loss.item())
        rate = optimiser.param_groups[0]["lr"]
        optimiser.zero_grad()
        scheduler.step()
        scaler.scale(loss).backward()
        scale = scaler.get_scale()
        scaler.step(optimiser)
        scaler.update()
        if scaler.get_scale() >= scale:
            rates.append(rate)
    return losses, rates


# %% no-scaler
# misconception: autocast is all that it takes
# fails: test_a_scale_that_goes_up_skips_nothing, test_a_schedule_that_begins_at_zero, test_a_second_pass_goes_on, test_broken_pictures_do_not_move_the_schedule, test_gradients_may_overflow_behind_a_finite_loss, test_the_schedule_follows_the_steps
# says: The scale doubles after each step that is made, and is halve
def fit(model, batches, optimiser, scheduler, scaler, dtype):
    losses, rates = [], []
    for x, y in batches:
        with torch.autocast(x.device.type, dtype, enabled=dtype != torch.float32):
            logits = model(x)
        loss = F.cross_entropy(logits.float(), y)
        losses.append(loss.item())
        rate = optimiser.param_groups[0]["lr"]
        optimiser.zero_grad()
        loss.backward()
        scale = scaler.get_scale()
        optimiser.step()
        if scaler.get_scale() >= scale:
            rates.append(rate)
            scheduler.step()
    return losses, rates


# %% tensors-in-the-log
# misconception: a tensor without dimensions is a number
# fails: test_nothing_is_skipped_without_a_scaler, test_the_schedule_follows_the_steps
# says: With broken batches here and there, schedule, rates
def fit(model, batches, optimiser, scheduler, scaler, dtype):
    losses, rates = [], []
    for x, y in batches:
        with torch.autocast(x.device.type, dtype, enabled=dtype != torch.float32):
            logits = model(x)
        loss = F.cross_entropy(logits.float(), y)
        losses.append(loss.detach())
        rate = optimiser.param_groups[0]["lr"]
        optimiser.zero_grad()
        scaler.scale(loss).backward()
        scale = scaler.get_scale()
        scaler.step(optimiser)
        scaler.update()
        if scaler.get_scale() >= scale:
            rates.append(rate)
            scheduler.step()
    return losses, rates


# %% no-steps
# misconception: the schedule is what counts
# fails: test_a_scale_that_changes_all_the_time, test_a_scale_that_goes_up_skips_nothing, test_a_schedule_that_begins_at_zero, test_a_schedule_without_skips, test_a_second_pass_goes_on, test_broken_pictures_do_not_move_the_schedule, test_gradients_may_overflow_behind_a_finite_loss, test_nothing_is_skipped_without_a_scaler, test_the_schedule_follows_the_steps
# says: A scale that grows after every step or two overflows again a
def fit(model, batches, optimiser, scheduler, scaler, dtype):
    losses, rates = [], []
    for x, y in batches:
        with torch.no_grad():
            losses.append(F.cross_entropy(model(x).float(), y).item())
        rates.append(optimiser.param_groups[0]["lr"])
        scheduler.step()
    return losses, rates


# %% train-mode
# misconception: to train is to call train()
# fails: test_nothing_is_skipped_without_a_scaler
# says: With a disabled scaler each batch makes a step, in f
def fit(model, batches, optimiser, scheduler, scaler, dtype):
    model.train()
    losses, rates = [], []
    for x, y in batches:
        with torch.autocast(x.device.type, dtype, enabled=dtype != torch.float32):
            logits = model(x)
        loss = F.cross_entropy(logits.float(), y)
        losses.append(loss.item())
        rate = optimiser.param_groups[0]["lr"]
        optimiser.zero_grad()
        scaler.scale(loss).backward()
        scale = scaler.get_scale()
        scaler.step(optimiser)
        scaler.update()
        if scaler.get_scale() >= scale:
            rates.append(rate)
            scheduler.step()
    return losses, rates


# %% moved-means-stepped
# misconception: a step that was made is one that has moved the weights
# fails: test_a_schedule_that_begins_at_zero, test_the_schedule_follows_the_steps
# says: Rates of 0, 1/2 and 1: the first step is a step
def fit(model, batches, optimiser, scheduler, scaler, dtype):
    losses, rates = [], []
    for x, y in batches:
        with torch.autocast(x.device.type, dtype, enabled=dtype != torch.float32):
            logits = model(x)
        loss = F.cross_entropy(logits.float(), y)
        losses.append(loss.item())
        rate = optimiser.param_groups[0]["lr"]
        optimiser.zero_grad()
        scaler.scale(loss).backward()
        before = [p.detach().clone() for p in model.parameters()]
        scaler.step(optimiser)
        scaler.update()
        if any(not torch.equal(p, old) for p, old in zip(model.parameters(), before, strict=True)):
            rates.append(rate)
            scheduler.step()
    return losses, rates


# %% the-hook-stays
# misconception: a hook is gone when the function that has registered it returns
# fails: test_a_second_pass_goes_on
# says: The schedule's place after both passes
def fit(model, batches, optimiser, scheduler, scaler, dtype):
    losses, rates = [], []

    def after_step(*_):
        rates.append(optimiser.param_groups[0]["lr"])
        scheduler.step()

    optimiser.register_step_post_hook(after_step)
    for x, y in batches:
        with torch.autocast(x.device.type, dtype, enabled=dtype != torch.float32):
            logits = model(x)
        loss = F.cross_entropy(logits.float(), y)
        losses.append(loss.item())
        optimiser.zero_grad()
        scaler.scale(loss).backward()
        scaler.step(optimiser)
        scaler.update()
    return losses, rates
