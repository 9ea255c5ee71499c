# %% divided-by-two
# misconception: two ranks are all there are
# fails: test_a_rank_without_a_gradient_counts_as_zeros, test_layers_used_twice_frozen_or_never, test_mean_over_all_ranks, test_missing_gradients_count_as_zeros, test_one_rank_keeps_its_gradients, test_training_is_that_of_one_process
# says: has the mean of all ranks' gradients
def average_gradients(model):
    trainable = [p for p in model.parameters() if p.requires_grad]
    for p in trainable:
        if p.grad is None:
            p.grad = torch.zeros_like(p)
    for dtype in (torch.float32, torch.float64):
        of_dtype = [p.grad for p in trainable if p.dtype == dtype]
        if of_dtype:
            row = torch.cat([gradient.flatten() for gradient in of_dtype])
            dist.all_reduce(row)
            row /= 2
            for gradient, part in zip(of_dtype, row.split([g.numel() for g in of_dtype])):
                gradient.copy_(part.view_as(gradient))


# %% divided-twice
# misconception: all_reduce needs the division before and after
# fails: test_a_rank_without_a_gradient_counts_as_zeros, test_few_calls_for_many_parameters, test_layers_used_twice_frozen_or_never, test_layouts_and_dtypes, test_mean_of_two_ranks, test_mean_over_all_ranks, test_missing_gradients_count_as_zeros, test_ranks_talk_twice_at_most, test_training_is_that_of_one_process
# says: The gradients[0]: 2 of 2 elements
def average_gradients(model):
    trainable = [p for p in model.parameters() if p.requires_grad]
    for p in trainable:
        if p.grad is None:
            p.grad = torch.zeros_like(p)
    for dtype in (torch.float32, torch.float64):
        of_dtype = [p.grad for p in trainable if p.dtype == dtype]
        if of_dtype:
            row = torch.cat([gradient.flatten() for gradient in of_dtype])
            row /= dist.get_world_size()
            dist.all_reduce(row)
            row /= dist.get_world_size()
            for gradient, part in zip(of_dtype, row.split([g.numel() for g in of_dtype])):
                gradient.copy_(part.view_as(gradient))


# %% rank-0-s
# misconception: the ranks only have to agree
# fails: test_a_rank_without_a_gradient_counts_as_zeros, test_few_calls_for_many_parameters, test_layers_used_twice_frozen_or_never, test_layouts_and_dtypes, test_mean_of_two_ranks, test_mean_over_all_ranks, test_missing_gradients_count_as_zeros, test_ranks_talk_twice_at_most, test_training_is_that_of_one_process
# says: The gradients[0]: 2 of 2 elements
def average_gradients(model):
    trainable = [p for p in model.parameters() if p.requires_grad]
    for p in trainable:
        if p.grad is None:
            p.grad = torch.zeros_like(p)
    for dtype in (torch.float32, torch.float64):
        of_dtype = [p.grad for p in trainable if p.dtype == dtype]
        if of_dtype:
            row = torch.cat([gradient.flatten() for gradient in of_dtype])
            dist.broadcast(row, src=0)
            for gradient, part in zip(of_dtype, row.split([g.numel() for g in of_dtype])):
                gradient.copy_(part.view_as(gradient))


# %% reduced-to-rank-0
# misconception: rank 0 is the one that steps
# fails: test_a_rank_without_a_gradient_counts_as_zeros, test_few_calls_for_many_parameters, test_layers_used_twice_frozen_or_never, test_layouts_and_dtypes, test_mean_of_two_ranks, test_mean_over_all_ranks, test_missing_gradients_count_as_zeros, test_training_is_that_of_one_process
# says: The gradients[0]: 2 of 2 elements
def average_gradients(model):
    trainable = [p for p in model.parameters() if p.requires_grad]
    for p in trainable:
        if p.grad is None:
            p.grad = torch.zeros_like(p)
    for dtype in (torch.float32, torch.float64):
        of_dtype = [p.grad for p in trainable if p.dtype == dtype]
        if of_dtype:
            row = torch.cat([gradient.flatten() for gradient in of_dtype])
            dist.reduce(row, dst=0)
            row /= dist.get_world_size()
            for gradient, part in zip(of_dtype, row.split([g.numel() for g in of_dtype])):
                gradient.copy_(part.view_as(gradient))


# %% largest
# misconception: the strongest gradient wins
# fails: test_a_rank_without_a_gradient_counts_as_zeros, test_few_calls_for_many_parameters, test_layers_used_twice_frozen_or_never, test_layouts_and_dtypes, test_mean_of_two_ranks, test_mean_over_all_ranks, test_missing_gradients_count_as_zeros, test_ranks_talk_twice_at_most, test_training_is_that_of_one_process
# says: The gradients[0]: 2 of 2 elements
def average_gradients(model):
    trainable = [p for p in model.parameters() if p.requires_grad]
    for p in trainable:
        if p.grad is None:
            p.grad = torch.zeros_like(p)
    for dtype in (torch.float32, torch.float64):
        of_dtype = [p.grad for p in trainable if p.dtype == dtype]
        if of_dtype:
            row = torch.cat([gradient.flatten() for gradient in of_dtype])
            dist.all_reduce(row, op=dist.ReduceOp.MAX)
            for gradient, part in zip(of_dtype, row.split([g.numel() for g in of_dtype])):
                gradient.copy_(part.view_as(gradient))


# %% one-call-each
# misconception: a call is a call, however small
# fails: test_few_calls_for_many_parameters, test_layouts_and_dtypes, test_ranks_talk_twice_at_most
# says: 6 parameters of one dtype there were 6 collective calls
def average_gradients(model):
    for p in model.parameters():
        if p.requires_grad:
            p.grad = torch.zeros_like(p) if p.grad is None else p.grad.contiguous()
            dist.all_reduce(p.grad)
            p.grad /= dist.get_world_size()


# %% all-at-once-but-one-call-each
# misconception: calls that do not wait cost nothing
# fails: test_few_calls_for_many_parameters, test_layouts_and_dtypes, test_ranks_talk_twice_at_most
# says: 6 parameters of one dtype there were 6 collective calls
def average_gradients(model):
    trainable = [p for p in model.parameters() if p.requires_grad]
    for p in trainable:
        p.grad = torch.zeros_like(p) if p.grad is None else p.grad.contiguous()
    for work in [dist.all_reduce(p.grad, async_op=True) for p in trainable]:
        work.wait()
    for p in trainable:
        p.grad /= dist.get_world_size()


# %% mean-of-those-that-have-one
# misconception: a rank without a gradient does not count
# fails: test_a_rank_without_a_gradient_counts_as_zeros, test_missing_gradients_count_as_zeros
# says: The gradients[0]: 2 of 2 elements
def average_gradients(model):
    trainable = [p for p in model.parameters() if p.requires_grad]
    there = torch.tensor([float(p.grad is not None) for p in trainable])
    dist.all_reduce(there)
    for p, n in zip(trainable, there.tolist()):
        p.grad = torch.zeros_like(p) if p.grad is None else p.grad * (dist.get_world_size() / n)
    for dtype in {p.dtype for p in trainable}:
        of_dtype = [p for p in trainable if p.dtype == dtype]
        row = torch.cat([p.grad.flatten() for p in of_dtype])
        for p, n in zip(of_dtype, row.split([p.numel() for p in of_dtype])):
            n /= dist.get_world_size()
        dist.all_reduce(row)
        for p, part in zip(of_dtype, row.split([p.numel() for p in of_dtype])):
            p.grad = part.view_as(p).clone()


# %% missing-stays-missing
# misconception: a parameter that this rank did not use stays as it is
# fails: test_a_rank_without_a_gradient_counts_as_zeros, test_layers_used_twice_frozen_or_never, test_missing_gradients_count_as_zeros
# says: got None; expected a tensor
def average_gradients(model):
    trainable = [p for p in model.parameters() if p.requires_grad]
    missing = [p for p in trainable if p.grad is None]
    for p in trainable:
        if p.grad is None:
            p.grad = torch.zeros_like(p)
    for dtype in (torch.float32, torch.float64):
        of_dtype = [p.grad for p in trainable if p.dtype == dtype]
        if of_dtype:
            row = torch.cat([gradient.flatten() for gradient in of_dtype])
            dist.all_reduce(row)
            row /= dist.get_world_size()
            for gradient, part in zip(of_dtype, row.split([g.numel() for g in of_dtype])):
                gradient.copy_(part.view_as(gradient))
    for p in missing:
        p.grad = None


# %% missing-is-an-error
# misconception: every parameter has a gradient
# fails: test_a_rank_without_a_gradient_counts_as_zeros, test_layers_used_twice_frozen_or_never, test_missing_gradients_count_as_zeros
# says: Your code raised AttributeError
def average_gradients(model):
    trainable = [p for p in model.parameters() if p.requires_grad]
    for dtype in (torch.float32, torch.float64):
        of_dtype = [p.grad for p in trainable if p.dtype == dtype]
        if of_dtype:
            row = torch.cat([gradient.flatten() for gradient in of_dtype])
            dist.all_reduce(row)
            row /= dist.get_world_size()
            for gradient, part in zip(of_dtype, row.split([g.numel() for g in of_dtype])):
                gradient.copy_(part.view_as(gradient))


# %% frozen-too
# misconception: what has a gradient is averaged
# fails: test_frozen_parameters_are_left_alone, test_layers_used_twice_frozen_or_never
# says: , and on each rank the gradient that it had there
def average_gradients(model):
    trainable = [p for p in model.parameters()]
    for p in trainable:
        if p.grad is None:
            p.grad = torch.zeros_like(p)
    for dtype in (torch.float32, torch.float64):
        of_dtype = [p.grad for p in trainable if p.dtype == dtype]
        if of_dtype:
            row = torch.cat([gradient.flatten() for gradient in of_dtype])
            dist.all_reduce(row)
            row /= dist.get_world_size()
            for gradient, part in zip(of_dtype, row.split([g.numel() for g in of_dtype])):
                gradient.copy_(part.view_as(gradient))


# %% values-averaged
# misconception: averaging the weights is the same thing
# fails: test_a_rank_without_a_gradient_counts_as_zeros, test_few_calls_for_many_parameters, test_layers_used_twice_frozen_or_never, test_layouts_and_dtypes, test_mean_of_two_ranks, test_mean_over_all_ranks, test_missing_gradients_count_as_zeros, test_ranks_talk_twice_at_most, test_training_is_that_of_one_process
# says: The gradients[0]: 2 of 2 elements
def average_gradients(model):
    for p in model.parameters():
        if p.requires_grad:
            dist.all_reduce(p.data)
            p.data /= dist.get_world_size()


# %% all-in-float32
# misconception: float32 is enough for gradients
# fails: test_layouts_and_dtypes
# says: keep their places and precision
def average_gradients(model):
    trainable = [p for p in model.parameters() if p.requires_grad]
    row = torch.cat([torch.zeros(p.numel()) if p.grad is None else p.grad.float().flatten() for p in trainable])
    dist.all_reduce(row)
    row /= dist.get_world_size()
    for p, part in zip(trainable, row.split([p.numel() for p in trainable])):
        p.grad = part.view_as(p).to(p.dtype)


# %% viewed
# misconception: gradients lie in memory as their shape says
# fails: test_layouts_and_dtypes
# says: keep their places and precision
def average_gradients(model):
    trainable = [p for p in model.parameters() if p.requires_grad]
    for p in trainable:
        if p.grad is None:
            p.grad = torch.zeros_like(p)
    for dtype in (torch.float32, torch.float64):
        of_dtype = [p.grad for p in trainable if p.dtype == dtype]
        if of_dtype:
            row = torch.cat([gradient.view(-1) for gradient in of_dtype])
            dist.all_reduce(row)
            row /= dist.get_world_size()
            for gradient, part in zip(of_dtype, row.split([g.numel() for g in of_dtype])):
                gradient.copy_(part.view_as(gradient))


# %% in-the-order-of-memory
# misconception: what lies in memory may be added up as it lies there
# fails: test_layouts_and_dtypes
# says: keep their places and precision
def average_gradients(model):
    trainable = [p for p in model.parameters() if p.requires_grad]
    for dtype in (torch.float32, torch.float64):
        of_dtype = [p for p in trainable if p.dtype == dtype]
        if of_dtype:
            for p in of_dtype:
                p.grad = torch.zeros_like(p) if p.grad is None else p.grad
            flats = [p.grad.as_strided((p.numel(),), (1,)) for p in of_dtype]
            row = torch.cat(flats)
            dist.all_reduce(row)
            row /= dist.get_world_size()
            for flat, part in zip(flats, row.split([p.numel() for p in of_dtype])):
                flat.copy_(part)


# %% returned-only
# misconception: the caller puts them where they belong
# fails: test_a_rank_without_a_gradient_counts_as_zeros, test_few_calls_for_many_parameters, test_layers_used_twice_frozen_or_never, test_layouts_and_dtypes, test_mean_of_two_ranks, test_mean_over_all_ranks, test_missing_gradients_count_as_zeros, test_ranks_talk_twice_at_most, test_training_is_that_of_one_process
# says: The gradients[0]: 2 of 2 elements
def average_gradients(model):
    trainable = [p for p in model.parameters() if p.requires_grad]
    for p in trainable:
        if p.grad is None:
            p.grad = torch.zeros_like(p)
    for dtype in (torch.float32, torch.float64):
        of_dtype = [p.grad for p in trainable if p.dtype == dtype]
        if of_dtype:
            row = torch.cat([gradient.flatten() for gradient in of_dtype])
            dist.all_reduce(row)
            row /= dist.get_world_size()
            for gradient, part in zip(of_dtype, row.split([g.numel() for g in of_dtype])):
                part.view_as(gradient)


# %% module-by-module
# misconception: each module has its own parameters
# fails: test_a_rank_without_a_gradient_counts_as_zeros, test_few_calls_for_many_parameters, test_layouts_and_dtypes, test_mean_of_two_ranks, test_mean_over_all_ranks, test_missing_gradients_count_as_zeros, test_ranks_talk_twice_at_most
# says: The gradients
def average_gradients(model):
    gradients = []
    for module in model.children():
        for p in module.parameters():
            if p.requires_grad:
                p.grad = torch.zeros_like(p) if p.grad is None else p.grad
                gradients.append(p.grad)
    for dtype in {g.dtype for g in gradients}:
        own = [g for g in gradients if g.dtype == dtype]
        row = torch.cat([g.flatten() for g in own])
        dist.all_reduce(row)
        row /= dist.get_world_size()
        for g, part in zip(own, row.split([g.numel() for g in own])):
            g.copy_(part.view_as(g))
