# %% clamp
# misconception: what has the same values is the same function
# fails: test_enormous_numbers, test_gradients_around_the_limits, test_gradients_of_every_shape, test_values_and_gradients_in_float64, test_very_large_numbers
# says: and 1 outside
def soft_clip(x, limit):
    return x.clamp(-limit, limit)

# %% straight-through
# misconception: outside the gradient just goes on as it arrives
# fails: test_enormous_numbers, test_gradients_around_the_limits, test_gradients_of_every_shape, test_values_and_gradients_in_float64, test_very_large_numbers
# says: and 1 outside
def soft_clip(x, limit):
    return x.clamp(-limit, limit).detach() + (x - x.detach())

# %% a-slope-in-the-values
# misconception: a gradient of a tenth means that the values go on rising
# fails: test_a_network_in_the_engine, test_clips_in_the_engine, test_double_stays_double, test_enormous_numbers, test_layouts_of_numbers, test_numbers_around_the_limits, test_values_and_gradients_in_float64, test_values_of_every_shape, test_very_large_numbers
# says: With limit 2, numbers from -50 to 9
def soft_clip(x, limit):
    clipped = x.clamp(-limit, limit)
    return clipped + 0.1 * (x - clipped)

# %% rounded-away
# misconception: the order of additions does not matter
# fails: test_enormous_numbers, test_very_large_numbers
# says: with no digit lost
def soft_clip(x, limit):
    slope = torch.where(x.abs() <= limit, x, 0.1 * x)
    return (x.clamp(-limit, limit) - slope).detach() + slope

# %% nothing-at-the-limits
# misconception: the ends are outside (as they are for hardtanh)
# fails: test_gradients_around_the_limits, test_gradients_of_every_shape, test_values_and_gradients_in_float64
# says: exactly at them
def soft_clip(x, limit):
    slope = torch.where(x.abs() < limit, x, 0.1 * x)
    return x.clamp(-limit, limit).detach() + (slope - slope.detach())

# %% half-at-the-limits
# misconception: minimum and maximum have the gradient of clamp
# fails: test_gradients_around_the_limits, test_gradients_of_every_shape, test_values_and_gradients_in_float64
# says: exactly at them
def soft_clip(x, limit):
    ends = torch.full_like(x, limit)
    inside = torch.maximum(torch.minimum(x, ends), -ends)
    rest = x - inside
    return inside + 0.1 * (rest - rest.detach())

# %% another-slope
# misconception: the slope is that of leaky_relu
# fails: test_enormous_numbers, test_gradients_around_the_limits, test_gradients_of_every_shape, test_values_and_gradients_in_float64, test_very_large_numbers
# says: and 1 outside
def soft_clip(x, limit):
    rest = x - x.clamp(-limit, limit)
    return x.clamp(-limit, limit) + 0.01 * (rest - rest.detach())

# %% there-and-back
# misconception: a float64 that was a float32 on the way is a float64
# fails: test_double_stays_double, test_values_and_gradients_in_float64
# says: In float64, 1/3 stays 1/3
def soft_clip(x, limit):
    wide, x = x.dtype, x.float()
    rest = x - x.clamp(-limit, limit)
    return (x.clamp(-limit, limit) + 0.1 * (rest - rest.detach())).to(wide)

# %% another-operator
# misconception: an operator that is written better can be converted
# fails: test_a_network_in_the_engine, test_clips_in_the_engine
# says: The exporter refuses it
def make_better_clip():
    @torch.library.custom_op("tiles::better_clip", mutates_args=())
    def better_clip(x: torch.Tensor, limit: float) -> torch.Tensor:
        return x.clamp(-limit, limit)

    @better_clip.register_fake
    def _(x, limit):
        return torch.empty_like(x)

    def remember(ctx, inputs, output):
        ctx.save_for_backward(inputs[0])
        ctx.limit = inputs[1]

    def backward(ctx, gradient):
        return torch.where(ctx.saved_tensors[0].abs() <= ctx.limit, gradient, 0.1 * gradient), None

    better_clip.register_autograd(backward, setup_context=remember)
    return better_clip

better_clip = make_better_clip()

def soft_clip(x, limit):
    return better_clip(x, limit)

# %% one-for-the-exporter
# misconception: the exporter may be given another function than everybody else
# fails: test_double_stays_double, test_values_and_gradients_in_float64
# says: In float64, 1/3 stays 1/3
def soft_clip(x, limit):
    if torch.onnx.is_in_onnx_export():
        return x.clamp(-limit, limit)
    return leaky_clip(x.float(), limit).to(x.dtype)

# %% smooth
# misconception: a soft limit is a tanh
# fails: test_a_network_in_the_engine, test_clips_in_the_engine, test_double_stays_double, test_enormous_numbers, test_gradients_around_the_limits, test_gradients_of_every_shape, test_layouts_of_numbers, test_numbers_around_the_limits, test_values_and_gradients_in_float64, test_values_of_every_shape, test_very_large_numbers
# says: numbers from -50 to 9
def soft_clip(x, limit):
    return limit * torch.tanh(x / limit)

# %% untouched-where-nothing-is-outside
# misconception: where nothing is to be done, the same tensor can be given back, and finding out costs nothing
# fails: test_a_network_in_the_engine, test_clips_in_the_engine, test_soft_clip_owns_its_result
# says: The exporter refuses it
def soft_clip(x, limit):
    if not bool((x.abs() > limit).any()):
        return x
    rest = x - x.clamp(-limit, limit)
    return x.clamp(-limit, limit) + 0.1 * (rest - rest.detach())

# %% written-into-what-was-given
# misconception: nobody needs the numbers afterwards
# fails: test_enormous_numbers, test_gradients_around_the_limits, test_gradients_of_every_shape, test_layouts_of_numbers, test_soft_clip_owns_its_result, test_values_and_gradients_in_float64, test_very_large_numbers
# says: stay as they are
def soft_clip(x, limit):
    rest = x - x.clamp(-limit, limit)
    result = x.clamp(-limit, limit) + 0.1 * (rest - rest.detach())
    with torch.no_grad():
        x.copy_(result)
    return result

# %% flat-rows-only
# misconception: every tensor can be viewed as one long row
# fails: test_layouts_of_numbers
# says: Transposed, strided and expanded
def soft_clip(x, limit):
    row = x.view(-1)
    rest = row - row.clamp(-limit, limit)
    return (row.clamp(-limit, limit) + 0.1 * (rest - rest.detach())).view(x.shape)

# %% an-operator-that-only-torch-has
# misconception: whatever is part of PyTorch can be converted
# fails: test_a_network_in_the_engine, test_clips_in_the_engine
# says: The exporter refuses it
def soft_clip(x, limit):
    rest = x - x.clamp(-limit, limit)
    edge = torch.copysign(torch.full_like(x, limit), x)
    return torch.where(x.abs() <= limit, x, edge) + 0.1 * (rest - rest.detach())
