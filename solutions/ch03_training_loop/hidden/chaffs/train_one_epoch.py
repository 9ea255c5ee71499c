# %% divided-by-accumulate
# misconception: a loss divided by the number of batches is what accumulation needs, always
# fails: test_backward_before_the_next_forward, test_batches_go_through_one_by_one, test_batches_of_unequal_sizes, test_batches_that_are_left_over_count, test_gradients_from_before, test_total_norm_is_limited, test_two_batches_make_one_step
# says: `accumulate=4`, a step is made
def train_one_epoch(model, batches, optimiser, accumulate, max_norm):
    model.train()
    total, seen = 0.0, 0
    for first in range(0, len(batches), accumulate):
        group = batches[first : first + accumulate]
        optimiser.zero_grad()
        n_samples = sum(len(of_batch) for _, of_batch in group)
        for images, labels in group:
            loss = F.cross_entropy(model(images), labels)
            (loss / accumulate).backward()
            total = total + loss.detach() * len(labels)
            seen += len(labels)
        nn.utils.clip_grad_norm_(model.parameters(), max_norm)
        optimiser.step()
    return (total / seen).item()


# %% divided-by-the-group
# misconception: batches count alike, however many samples they have
# fails: test_backward_before_the_next_forward, test_batches_go_through_one_by_one, test_batches_of_unequal_sizes, test_gradients_from_before, test_total_norm_is_limited, test_two_batches_make_one_step
# says: that of the mean over all of its samples
def train_one_epoch(model, batches, optimiser, accumulate, max_norm):
    model.train()
    total, seen = 0.0, 0
    for first in range(0, len(batches), accumulate):
        group = batches[first : first + accumulate]
        optimiser.zero_grad()
        n_samples = sum(len(of_batch) for _, of_batch in group)
        for images, labels in group:
            loss = F.cross_entropy(model(images), labels)
            (loss / len(group)).backward()
            total = total + loss.detach() * len(labels)
            seen += len(labels)
        nn.utils.clip_grad_norm_(model.parameters(), max_norm)
        optimiser.step()
    return (total / seen).item()


# %% sum-of-means
# misconception: gradients that add up are what accumulation is meant to give
# fails: test_backward_before_the_next_forward, test_batches_go_through_one_by_one, test_batches_of_unequal_sizes, test_each_step_has_a_gradient_of_its_own, test_gradients_from_before, test_old_gradients_have_no_part, test_the_log_costs_nothing, test_total_norm_is_limited, test_two_batches_make_one_step
# says: make the step that one batch of all three makes
def train_one_epoch(model, batches, optimiser, accumulate, max_norm):
    model.train()
    total, seen = 0.0, 0
    for first in range(0, len(batches), accumulate):
        group = batches[first : first + accumulate]
        optimiser.zero_grad()
        n_samples = sum(len(of_batch) for _, of_batch in group)
        for images, labels in group:
            loss = F.cross_entropy(model(images), labels)
            loss.backward()
            total = total + loss.detach() * len(labels)
            seen += len(labels)
        nn.utils.clip_grad_norm_(model.parameters(), max_norm)
        optimiser.step()
    return (total / seen).item()


# %% read-at-each-step
# misconception: `.item()` costs nothing and keeps no graph
# fails: test_backward_before_the_next_forward, test_the_log_costs_nothing
# says: It reads values 12 times for 12 batches and 4 times for 4
def train_one_epoch(model, batches, optimiser, accumulate, max_norm):
    model.train()
    total, seen = 0.0, 0
    for first in range(0, len(batches), accumulate):
        group = batches[first : first + accumulate]
        optimiser.zero_grad()
        n_samples = sum(len(of_batch) for _, of_batch in group)
        for images, labels in group:
            loss = F.cross_entropy(model(images), labels)
            (loss * (len(labels) / n_samples)).backward()
            total += loss.item() * len(labels)
            seen += len(labels)
        nn.utils.clip_grad_norm_(model.parameters(), max_norm)
        optimiser.step()
    return total / seen


# %% graphs-in-the-log
# misconception: the log needs the loss as it is
# fails: test_backward_before_the_next_forward, test_the_log_costs_nothing
# says: earlier batches are alive at once
def train_one_epoch(model, batches, optimiser, accumulate, max_norm):
    model.train()
    total, seen = 0.0, 0
    for first in range(0, len(batches), accumulate):
        group = batches[first : first + accumulate]
        optimiser.zero_grad()
        n_samples = sum(len(of_batch) for _, of_batch in group)
        for images, labels in group:
            loss = F.cross_entropy(model(images), labels)
            (loss * (len(labels) / n_samples)).backward()
            total = total + loss * len(labels)
            seen += len(labels)
        nn.utils.clip_grad_norm_(model.parameters(), max_norm)
        optimiser.step()
    return (total / seen).item()


# %% losses-kept-in-a-list
# misconception: a list of losses is a list of numbers
# fails: test_backward_before_the_next_forward, test_the_log_costs_nothing
# says: earlier batches are alive at once
def train_one_epoch(model, batches, optimiser, accumulate, max_norm):
    model.train()
    losses, seen = [], 0
    for first in range(0, len(batches), accumulate):
        group = batches[first : first + accumulate]
        optimiser.zero_grad()
        n_samples = sum(len(of_batch) for _, of_batch in group)
        for images, labels in group:
            loss = F.cross_entropy(model(images), labels)
            (loss * (len(labels) / n_samples)).backward()
            losses.append(loss * len(labels))
            seen += len(labels)
        nn.utils.clip_grad_norm_(model.parameters(), max_norm)
        optimiser.step()
    return (torch.stack(losses).sum() / seen).item()


# %% norm-looked-at
# misconception: clipping needs an if
# fails: test_backward_before_the_next_forward, test_the_log_costs_nothing
# says: It reads values
def train_one_epoch(model, batches, optimiser, accumulate, max_norm):
    model.train()
    total, seen = 0.0, 0
    for first in range(0, len(batches), accumulate):
        group = batches[first : first + accumulate]
        optimiser.zero_grad()
        n_samples = sum(len(of_batch) for _, of_batch in group)
        for images, labels in group:
            loss = F.cross_entropy(model(images), labels)
            (loss * (len(labels) / n_samples)).backward()
            total = total + loss.detach() * len(labels)
            seen += len(labels)
        norm = torch.stack([p.grad.norm() for p in model.parameters() if p.grad is not None]).norm()
        if norm > max_norm:
            for p in model.parameters():
                if p.grad is not None:
                    p.grad.mul_(max_norm / norm)
        optimiser.step()
    return (total / seen).item()


# %% tail-waits
# misconception: what is left over is added to the first step of the next epoch
# fails: test_batches_go_through_one_by_one, test_batches_of_unequal_sizes, test_batches_that_are_left_over_count, test_gradients_from_before, test_old_gradients_have_no_part
# says: `accumulate=4`, a step is made
def train_one_epoch(model, batches, optimiser, accumulate, max_norm):
    model.train()
    total, seen, pending = 0.0, 0, 0
    for i, (images, labels) in enumerate(batches, start=1):
        loss = F.cross_entropy(model(images), labels, reduction="sum")
        loss.backward()
        total, seen, pending = total + loss.detach(), seen + len(labels), pending + len(labels)
        if i % accumulate == 0:
            for parameter in model.parameters():
                if parameter.grad is not None:
                    parameter.grad /= pending
            nn.utils.clip_grad_norm_(model.parameters(), max_norm)
            optimiser.step()
            optimiser.zero_grad()
            pending = 0
    return (total / seen).item()


# %% old-gradients-stay
# misconception: clearing after each step is enough
# fails: test_gradients_from_before, test_old_gradients_have_no_part
# says: left behind have no part in the first step
def train_one_epoch(model, batches, optimiser, accumulate, max_norm):
    model.train()
    total, seen = 0.0, 0
    for first in range(0, len(batches), accumulate):
        group = batches[first : first + accumulate]
        n_samples = sum(len(of_batch) for _, of_batch in group)
        for images, labels in group:
            loss = F.cross_entropy(model(images), labels)
            (loss * (len(labels) / n_samples)).backward()
            total = total + loss.detach() * len(labels)
            seen += len(labels)
        nn.utils.clip_grad_norm_(model.parameters(), max_norm)
        optimiser.step()
        optimiser.zero_grad()
    return (total / seen).item()


# %% cleared-once
# misconception: the optimiser clears the gradients that it has used
# fails: test_backward_before_the_next_forward, test_batches_go_through_one_by_one, test_batches_of_unequal_sizes, test_each_step_has_a_gradient_of_its_own, test_gradients_from_before, test_the_log_costs_nothing, test_total_norm_is_limited
# says: the two steps that plain gradient descent makes
def train_one_epoch(model, batches, optimiser, accumulate, max_norm):
    model.train()
    total, seen = 0.0, 0
    optimiser.zero_grad()
    for first in range(0, len(batches), accumulate):
        group = batches[first : first + accumulate]
        n_samples = sum(len(of_batch) for _, of_batch in group)
        for images, labels in group:
            loss = F.cross_entropy(model(images), labels)
            (loss * (len(labels) / n_samples)).backward()
            total = total + loss.detach() * len(labels)
            seen += len(labels)
        nn.utils.clip_grad_norm_(model.parameters(), max_norm)
        optimiser.step()
    return (total / seen).item()


# %% cleared-before-the-step
# misconception: gradients have to be cleared before each step
# fails: test_a_broken_picture_makes_a_small_step, test_backward_before_the_next_forward, test_batches_go_through_one_by_one, test_batches_of_unequal_sizes, test_batches_that_are_left_over_count, test_each_step_has_a_gradient_of_its_own, test_gradients_from_before, test_old_gradients_have_no_part, test_the_log_costs_nothing, test_the_step_is_clipped_as_a_whole, test_total_norm_is_limited, test_two_batches_make_one_step
# says: The weight after one step
def train_one_epoch(model, batches, optimiser, accumulate, max_norm):
    model.train()
    total, seen = 0.0, 0
    for first in range(0, len(batches), accumulate):
        group = batches[first : first + accumulate]
        n_samples = sum(len(of_batch) for _, of_batch in group)
        for images, labels in group:
            loss = F.cross_entropy(model(images), labels)
            (loss * (len(labels) / n_samples)).backward()
            total = total + loss.detach() * len(labels)
            seen += len(labels)
        nn.utils.clip_grad_norm_(model.parameters(), max_norm)
        optimiser.zero_grad()
        optimiser.step()
    return (total / seen).item()


# %% cleared-for-each-batch
# misconception: backward needs clean gradients
# fails: test_backward_before_the_next_forward, test_batches_go_through_one_by_one, test_batches_of_unequal_sizes, test_each_step_has_a_gradient_of_its_own, test_gradients_from_before, test_old_gradients_have_no_part, test_the_log_costs_nothing, test_the_step_is_clipped_as_a_whole, test_total_norm_is_limited, test_two_batches_make_one_step
# says: make the step that one batch of all three makes
def train_one_epoch(model, batches, optimiser, accumulate, max_norm):
    model.train()
    total, seen = 0.0, 0
    for first in range(0, len(batches), accumulate):
        group = batches[first : first + accumulate]
        n_samples = sum(len(of_batch) for _, of_batch in group)
        for images, labels in group:
            optimiser.zero_grad()
            loss = F.cross_entropy(model(images), labels)
            (loss * (len(labels) / n_samples)).backward()
            total = total + loss.detach() * len(labels)
            seen += len(labels)
        nn.utils.clip_grad_norm_(model.parameters(), max_norm)
        optimiser.step()
    return (total / seen).item()


# %% clipped-after-each-batch
# misconception: to clip each backward pass is to clip the step
# fails: test_backward_before_the_next_forward, test_the_step_is_clipped_as_a_whole, test_total_norm_is_limited
# says: scaled down to the norm that is allowed
def train_one_epoch(model, batches, optimiser, accumulate, max_norm):
    model.train()
    total, seen = 0.0, 0
    for first in range(0, len(batches), accumulate):
        group = batches[first : first + accumulate]
        optimiser.zero_grad()
        n_samples = sum(len(of_batch) for _, of_batch in group)
        for images, labels in group:
            loss = F.cross_entropy(model(images), labels)
            (loss * (len(labels) / n_samples)).backward()
            nn.utils.clip_grad_norm_(model.parameters(), max_norm)
            total = total + loss.detach() * len(labels)
            seen += len(labels)
        optimiser.step()
    return (total / seen).item()


# %% clipped-before-backward
# misconception: clipping is a setting that holds for the backward pass
# fails: test_a_broken_picture_makes_a_small_step, test_backward_before_the_next_forward, test_batches_go_through_one_by_one, test_the_step_is_clipped_as_a_whole, test_total_norm_is_limited
# says: the weights move by 1
def train_one_epoch(model, batches, optimiser, accumulate, max_norm):
    model.train()
    total, seen = 0.0, 0
    for first in range(0, len(batches), accumulate):
        group = batches[first : first + accumulate]
        optimiser.zero_grad()
        n_samples = sum(len(of_batch) for _, of_batch in group)
        nn.utils.clip_grad_norm_(model.parameters(), max_norm)
        for images, labels in group:
            loss = F.cross_entropy(model(images), labels)
            (loss * (len(labels) / n_samples)).backward()
            total = total + loss.detach() * len(labels)
            seen += len(labels)
        optimiser.step()
    return (total / seen).item()


# %% clipped-too-late
# misconception: clipping belongs at the end of a step
# fails: test_a_broken_picture_makes_a_small_step, test_backward_before_the_next_forward, test_batches_go_through_one_by_one, test_the_step_is_clipped_as_a_whole, test_total_norm_is_limited
# says: the weights move by 1
def train_one_epoch(model, batches, optimiser, accumulate, max_norm):
    model.train()
    total, seen = 0.0, 0
    for first in range(0, len(batches), accumulate):
        group = batches[first : first + accumulate]
        optimiser.zero_grad()
        n_samples = sum(len(of_batch) for _, of_batch in group)
        for images, labels in group:
            loss = F.cross_entropy(model(images), labels)
            (loss * (len(labels) / n_samples)).backward()
            total = total + loss.detach() * len(labels)
            seen += len(labels)
        optimiser.step()
        nn.utils.clip_grad_norm_(model.parameters(), max_norm)
    return (total / seen).item()


# %% each-parameter-clipped
# misconception: the norm of each parameter is limited
# fails: test_backward_before_the_next_forward, test_batches_go_through_one_by_one, test_total_norm_is_limited
# says: scaled down to the norm that is allowed
def train_one_epoch(model, batches, optimiser, accumulate, max_norm):
    model.train()
    total, seen = 0.0, 0
    for first in range(0, len(batches), accumulate):
        group = batches[first : first + accumulate]
        optimiser.zero_grad()
        n_samples = sum(len(of_batch) for _, of_batch in group)
        for images, labels in group:
            loss = F.cross_entropy(model(images), labels)
            (loss * (len(labels) / n_samples)).backward()
            total = total + loss.detach() * len(labels)
            seen += len(labels)
        for parameter in model.parameters():
            nn.utils.clip_grad_norm_(parameter, max_norm)
        optimiser.step()
    return (total / seen).item()


# %% each-number-clipped
# misconception: clipping limits each number of a gradient
# fails: test_a_broken_picture_makes_a_small_step, test_backward_before_the_next_forward, test_batches_go_through_one_by_one, test_the_step_is_clipped_as_a_whole, test_total_norm_is_limited
# says: the weights move by 1
def train_one_epoch(model, batches, optimiser, accumulate, max_norm):
    model.train()
    total, seen = 0.0, 0
    for first in range(0, len(batches), accumulate):
        group = batches[first : first + accumulate]
        optimiser.zero_grad()
        n_samples = sum(len(of_batch) for _, of_batch in group)
        for images, labels in group:
            loss = F.cross_entropy(model(images), labels)
            (loss * (len(labels) / n_samples)).backward()
            total = total + loss.detach() * len(labels)
            seen += len(labels)
        nn.utils.clip_grad_value_(model.parameters(), max_norm)
        optimiser.step()
    return (total / seen).item()


# %% always-normalised
# misconception: clipping gives each gradient the norm max_norm
# fails: test_batches_go_through_one_by_one, test_batches_of_unequal_sizes, test_batches_that_are_left_over_count, test_each_step_has_a_gradient_of_its_own, test_gradients_from_before, test_old_gradients_have_no_part, test_the_log_costs_nothing, test_two_batches_make_one_step
# says: The weight after one step
def train_one_epoch(model, batches, optimiser, accumulate, max_norm):
    model.train()
    total, seen = 0.0, 0
    for first in range(0, len(batches), accumulate):
        group = batches[first : first + accumulate]
        optimiser.zero_grad()
        n_samples = sum(len(of_batch) for _, of_batch in group)
        for images, labels in group:
            loss = F.cross_entropy(model(images), labels)
            (loss * (len(labels) / n_samples)).backward()
            total = total + loss.detach() * len(labels)
            seen += len(labels)
        norm = torch.stack([p.grad.norm() for p in model.parameters() if p.grad is not None]).norm()
        for p in model.parameters():
            if p.grad is not None:
                p.grad.mul_(max_norm / norm)
        optimiser.step()
    return (total / seen).item()


# %% one-backward-for-all
# misconception: one backward pass for the sum of the losses is the same and saves time
# fails: test_backward_before_the_next_forward
# says: still kept for a backward pass
def train_one_epoch(model, batches, optimiser, accumulate, max_norm):
    model.train()
    total, seen = 0.0, 0
    for first in range(0, len(batches), accumulate):
        group = batches[first : first + accumulate]
        optimiser.zero_grad()
        n_samples = sum(len(of_batch) for _, of_batch in group)
        group_loss = 0.0
        for images, labels in group:
            loss = F.cross_entropy(model(images), labels)
            group_loss = group_loss + loss * (len(labels) / n_samples)
            total = total + loss.detach() * len(labels)
            seen += len(labels)
        group_loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), max_norm)
        optimiser.step()
    return (total / seen).item()


# %% batches-put-together
# misconception: accumulation is what one does with batches that fit together anyway
# fails: test_backward_before_the_next_forward, test_batches_go_through_one_by_one
# says: goes through the model once and by itself
def train_one_epoch(model, batches, optimiser, accumulate, max_norm):
    model.train()
    total, seen = 0.0, 0
    for first in range(0, len(batches), accumulate):
        images, labels = (torch.cat(parts) for parts in zip(*batches[first : first + accumulate]))
        loss = F.cross_entropy(model(images), labels)
        optimiser.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), max_norm)
        optimiser.step()
        total = total + loss.detach() * len(labels)
        seen += len(labels)
    return (total / seen).item()


# %% mode-left-alone
# misconception: a model is in train mode anyway
# fails: test_batches_go_through_one_by_one, test_mean_loss_of_a_model_that_knows_nothing
# says: The model is in eval mode afterwards
def train_one_epoch(model, batches, optimiser, accumulate, max_norm):
    total, seen = 0.0, 0
    for first in range(0, len(batches), accumulate):
        group = batches[first : first + accumulate]
        optimiser.zero_grad()
        n_samples = sum(len(of_batch) for _, of_batch in group)
        for images, labels in group:
            loss = F.cross_entropy(model(images), labels)
            (loss * (len(labels) / n_samples)).backward()
            total = total + loss.detach() * len(labels)
            seen += len(labels)
        nn.utils.clip_grad_norm_(model.parameters(), max_norm)
        optimiser.step()
    return (total / seen).item()


# %% mean-of-batches
# misconception: the mean over batches is the mean over samples
# fails: test_backward_before_the_next_forward, test_batches_go_through_one_by_one, test_batches_of_unequal_sizes, test_total_norm_is_limited
# says: the mean over all of its samples
def train_one_epoch(model, batches, optimiser, accumulate, max_norm):
    model.train()
    total, seen = 0.0, 0
    for first in range(0, len(batches), accumulate):
        group = batches[first : first + accumulate]
        optimiser.zero_grad()
        n_samples = sum(len(of_batch) for _, of_batch in group)
        for images, labels in group:
            loss = F.cross_entropy(model(images), labels)
            (loss * (len(labels) / n_samples)).backward()
            total = total + loss.detach()
            seen += 1
        nn.utils.clip_grad_norm_(model.parameters(), max_norm)
        optimiser.step()
    return (total / seen).item()


# %% a-tensor-returned
# misconception: a tensor without dimensions is a number
# fails: test_mean_loss_of_a_model_that_knows_nothing
# says: expected a float
def train_one_epoch(model, batches, optimiser, accumulate, max_norm):
    model.train()
    total, seen = 0.0, 0
    for first in range(0, len(batches), accumulate):
        group = batches[first : first + accumulate]
        optimiser.zero_grad()
        n_samples = sum(len(of_batch) for _, of_batch in group)
        for images, labels in group:
            loss = F.cross_entropy(model(images), labels)
            (loss * (len(labels) / n_samples)).backward()
            total = total + loss.detach() * len(labels)
            seen += len(labels)
        nn.utils.clip_grad_norm_(model.parameters(), max_norm)
        optimiser.step()
    return total / seen
