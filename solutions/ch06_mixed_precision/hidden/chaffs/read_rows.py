# %% region-around-the-loop
# misconception: inside one autocast region everything is converted once
# fails: test_as_many_conversions_for_any_length, test_conversions_do_not_grow, test_each_parameter_is_converted_once, test_it_is_faster_where_products_are
# says: conversions
def read_rows(from_row, from_state, rows, dtype):
    state = rows.new_zeros(len(rows), from_state.in_features)
    states = []
    with torch.autocast(rows.device.type, dtype=dtype, enabled=dtype != torch.float32):
        for t in range(rows.shape[1]):
            state = torch.tanh(from_row(rows[:, t]) + from_state(state))
            states.append(state)
    return torch.stack(states, dim=1).float()

# %% region-and-narrow-rows
# misconception: autocast remembers every weight that it has converted, the frozen ones too
# fails: test_as_many_conversions_for_any_length, test_conversions_do_not_grow, test_each_parameter_is_converted_once, test_it_is_faster_where_products_are
# says: conversions
def read_rows(from_row, from_state, rows, dtype):
    rows = rows.to(dtype)
    state = rows.new_zeros(len(rows), from_state.in_features)
    states = []
    with torch.autocast(rows.device.type, dtype=dtype, enabled=dtype != torch.float32):
        for t in range(rows.shape[1]):
            state = torch.tanh(from_row(rows[:, t]) + from_state(state))
            states.append(state)
    return torch.stack(states, dim=1).float()

# %% project-in-the-loop
# misconception: a conversion by hand costs nothing
# fails: test_as_many_conversions_for_any_length, test_conversions_do_not_grow, test_each_parameter_is_converted_once, test_it_is_faster_where_products_are
# says: conversions
def read_rows(from_row, from_state, rows, dtype):
    rows = rows.to(dtype)
    state = rows.new_zeros(len(rows), from_state.in_features)
    states = []
    for t in range(rows.shape[1]):
        state = torch.tanh(project(from_row, rows[:, t]) + project(from_state, state))
        states.append(state)
    return torch.stack(states, dim=1).float()

# %% back-in-fp32
# misconception: the cheapest conversion is none: fp32 has fewest
# fails: test_as_many_conversions_for_any_length, test_each_parameter_is_converted_once, test_it_is_faster_where_products_are, test_states_and_gradients, test_states_row_by_row
# says: atrix products were computed in torch.float32
def read_rows(from_row, from_state, rows, dtype):
    state = rows.new_zeros(len(rows), from_state.in_features)
    states = []
    for t in range(rows.shape[1]):
        state = torch.tanh(from_row(rows[:, t]) + from_state(state))
        states.append(state)
    return torch.stack(states, dim=1).to(dtype).float()

# %% each-state-converted-for-the-result
# misconception: results are converted as they come
# fails: test_as_many_conversions_for_any_length, test_conversions_do_not_grow
# says: conversions
def read_rows(from_row, from_state, rows, dtype):
    weights = [p.to(dtype) for p in (*from_row.parameters(), *from_state.parameters())]
    rows = rows.to(dtype)
    state = rows.new_zeros(len(rows), from_state.in_features)
    states = []
    for t in range(rows.shape[1]):
        state = torch.tanh(F.linear(rows[:, t], *weights[:2]) + F.linear(state, *weights[2:]))
        states.append(state.float())
    return torch.stack(states, dim=1)

# %% layers-converted-for-good
# misconception: the layers can be brought to the format once and for all
# fails: test_as_many_conversions_for_any_length, test_each_parameter_is_converted_once, test_states_and_gradients
# says: Right states and gradients
def read_rows(from_row, from_state, rows, dtype):
    from_row.to(dtype), from_state.to(dtype)
    rows = rows.to(dtype)
    state = rows.new_zeros(len(rows), from_state.in_features)
    states = []
    for t in range(rows.shape[1]):
        state = torch.tanh(from_row(rows[:, t]) + from_state(state))
        states.append(state)
    return torch.stack(states, dim=1).float()

# %% converted-copies
# misconception: a copy of a layer in the other format is as good as the layer
# fails: test_as_many_conversions_for_any_length, test_each_parameter_is_converted_once, test_states_and_gradients
# says: Right states and gradients
def read_rows(from_row, from_state, rows, dtype):
    def converted(layer):
        twin = nn.utils.skip_init(nn.Linear, layer.in_features, layer.out_features, dtype=dtype)
        twin.load_state_dict(layer.state_dict())
        return twin

    from_row, from_state = converted(from_row), converted(from_state)
    rows = rows.to(dtype)
    state = rows.new_zeros(len(rows), from_state.in_features)
    states = []
    for t in range(rows.shape[1]):
        state = torch.tanh(from_row(rows[:, t]) + from_state(state))
        states.append(state)
    return torch.stack(states, dim=1).float()

# %% only-the-last-state
# misconception: the last state is what a recurrent network gives
# fails: test_as_many_conversions_for_any_length, test_conversions_do_not_grow, test_each_parameter_is_converted_once, test_it_is_faster_where_products_are, test_states_and_gradients, test_states_row_by_row
# says: The result
def read_rows(from_row, from_state, rows, dtype):
    weights = [p.to(dtype) for p in (*from_row.parameters(), *from_state.parameters())]
    rows = rows.to(dtype)
    state = rows.new_zeros(len(rows), from_state.in_features)
    for t in range(rows.shape[1]):
        state = torch.tanh(F.linear(rows[:, t], *weights[:2]) + F.linear(state, *weights[2:]))
    return state.float()[:, None]

# %% states-in-half
# misconception: whoever asks for bf16 wants bf16 back
# fails: test_as_many_conversions_for_any_length, test_conversions_do_not_grow, test_each_parameter_is_converted_once, test_it_is_faster_where_products_are, test_states_and_gradients, test_states_row_by_row
# says: dtype is torch.
def read_rows(from_row, from_state, rows, dtype):
    weights = [p.to(dtype) for p in (*from_row.parameters(), *from_state.parameters())]
    rows = rows.to(dtype)
    state = rows.new_zeros(len(rows), from_state.in_features)
    states = []
    for t in range(rows.shape[1]):
        state = torch.tanh(F.linear(rows[:, t], *weights[:2]) + F.linear(state, *weights[2:]))
        states.append(state)
    return torch.stack(states, dim=1)

# %% frozen-conversions
# misconception: a converted weight is a constant, so it can be detached
# fails: test_as_many_conversions_for_any_length, test_each_parameter_is_converted_once, test_states_and_gradients
# says: Right states and gradients
def read_rows(from_row, from_state, rows, dtype):
    weights = [p.detach().to(dtype) for p in (*from_row.parameters(), *from_state.parameters())]
    rows = rows.to(dtype)
    state = rows.new_zeros(len(rows), from_state.in_features)
    states = []
    for t in range(rows.shape[1]):
        state = torch.tanh(F.linear(rows[:, t], *weights[:2]) + F.linear(state, *weights[2:]))
        states.append(state)
    return torch.stack(states, dim=1).float()

# %% no-state
# misconception: what the rows contribute is what matters
# fails: test_as_many_conversions_for_any_length, test_conversions_do_not_grow, test_each_parameter_is_converted_once, test_it_is_faster_where_products_are, test_states_and_gradients, test_states_row_by_row
# says: The result
def read_rows(from_row, from_state, rows, dtype):
    weights = [p.to(dtype) for p in from_row.parameters()]
    return torch.tanh(F.linear(rows.to(dtype), *weights)).float()

# %% zeros
# misconception: zeros need no conversions
# fails: test_as_many_conversions_for_any_length, test_conversions_do_not_grow, test_each_parameter_is_converted_once, test_it_is_faster_where_products_are, test_states_and_gradients, test_states_row_by_row
# says: The result
def read_rows(from_row, from_state, rows, dtype):
    return rows.new_zeros(*rows.shape[:2], from_state.out_features)
