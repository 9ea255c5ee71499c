# %% all-rows-before-the-loop
def read_rows(from_row, from_state, rows, dtype):
    """What the rows contribute does not depend on the states: one large product."""
    inputs = F.linear(rows.to(dtype), from_row.weight.to(dtype), from_row.bias.to(dtype))
    weight, bias = from_state.weight.to(dtype).T, from_state.bias.to(dtype)
    state = inputs.new_zeros(inputs.shape[0], weight.shape[0])
    states = []
    for x in inputs.unbind(1):
        state = (x + torch.addmm(bias, state, weight)).tanh()
        states.append(state)
    return torch.stack(states, 1).to(torch.float32)

# %% functional-call
def read_rows(from_row, from_state, rows, dtype):
    call = torch.func.functional_call
    in_rows = {name: p.to(dtype) for name, p in from_row.named_parameters()}
    in_states = {name: p.to(dtype) for name, p in from_state.named_parameters()}
    narrow = rows.to(dtype)
    state = torch.zeros(rows.shape[0], from_state.out_features, dtype=dtype, device=rows.device)
    states = []
    for t in range(rows.size(1)):
        state = torch.tanh(call(from_row, in_rows, (narrow[:, t],)) + call(from_state, in_states, (state,)))
        states.append(state)
    return torch.stack(states, dim=1).float()

# %% one-matrix
def read_rows(from_row, from_state, rows, dtype):
    weight = torch.cat([from_row.weight, from_state.weight], dim=1).to(dtype)
    bias = (from_row.bias + from_state.bias).to(dtype)
    rows = rows.to(dtype)
    states = [rows.new_zeros(len(rows), from_state.in_features)]
    for row in rows.unbind(dim=1):
        states.append(F.linear(torch.cat([row, states[-1]], dim=1), weight, bias).tanh())
    return torch.stack(states[1:], dim=1).float()

# %% autocast-with-weights-converted
def read_rows(from_row, from_state, rows, dtype):
    """An autocast region has nothing left to convert."""
    wr, br, ws, bs = (p.to(dtype) for p in (from_row.weight, from_row.bias, from_state.weight, from_state.bias))
    with torch.autocast(rows.device.type, dtype=dtype, enabled=dtype is not torch.float32):
        inputs = F.linear(rows.to(dtype), wr, br)
        h = torch.zeros_like(inputs[:, 0])
        out = []
        for t in range(inputs.shape[1]):
            h = torch.tanh(inputs[:, t] + F.linear(h, ws, bs))
            out.append(h)
        return torch.stack(out, dim=1).float()

# %% written-into-place
def read_rows(from_row, from_state, rows, dtype):
    narrow = rows.to(dtype).transpose(0, 1)
    wr, ws = from_row.weight.to(dtype), from_state.weight.to(dtype)
    bias = from_row.bias.to(dtype) + from_state.bias.to(dtype)
    state, states = None, []
    for row in narrow:
        x = row @ wr.mT + bias
        state = torch.tanh(x if state is None else x + torch.mm(state, ws.t()))
        states.append(state.unsqueeze(1))
    return torch.cat(states, dim=1).to(rows.dtype)

# %% a-view-for-each-row
def read_rows(from_row, from_state, rows, dtype):
    """Each row has a view of the weights of its own, so that the gradients are added up in one go."""
    n_rows = rows.shape[1]
    inputs = F.linear(rows.to(dtype), from_row.weight.to(dtype), from_row.bias.to(dtype))
    weights = from_state.weight.to(dtype).expand(n_rows, -1, -1).unbind()
    biases = from_state.bias.to(dtype).expand(n_rows, -1).unbind()
    state, states = torch.zeros_like(inputs[:, 0]), []
    for weight, bias, inputs_t in zip(weights, biases, inputs.unbind(dim=1), strict=True):
        state = torch.tanh(inputs_t + F.linear(state, weight, bias))
        states.append(state)
    return torch.stack(states, dim=1).float()

# %% one-recurrent-kernel
def read_rows(from_row, from_state, rows, dtype):
    parameters = [p.to(dtype) for p in (from_row.weight, from_state.weight, from_row.bias, from_state.bias)]
    first = torch.zeros(1, len(rows), from_state.in_features, dtype=dtype, device=rows.device)
    states, _ = torch.rnn_tanh(rows.to(dtype), first, parameters, True, 1, 0.0, False, False, True)
    return states.float()
