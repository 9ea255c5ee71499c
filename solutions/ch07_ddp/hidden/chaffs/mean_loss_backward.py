# %% mean-of-means
# misconception: the mean of means is the mean
# fails: test_a_rank_without_labels_changes_nothing, test_each_label_weighs_the_same, test_every_rank_returns_the_loss_of_all, test_gradient_is_that_of_one_process, test_loss_is_that_of_all_pictures
# says: The bias's gradient: 2 of 2 elements
def mean_loss_backward(model, images, labels):
    loss = F.cross_entropy(model(images), labels)
    loss.backward()
    mean = loss.detach().clone()
    dist.all_reduce(mean)
    return mean.item() / dist.get_world_size()


# %% not-undone
# misconception: DDP adds gradients up
# fails: test_a_rank_without_labels_changes_nothing, test_batches_of_one_size_with_all_labels, test_each_label_weighs_the_same, test_gradient_is_that_of_one_process
# says: The bias's gradient: 2 of 2 elements
def mean_loss_backward(model, images, labels):
    total = F.cross_entropy(model(images), labels, reduction="sum")
    sums = torch.stack([total.detach(), (labels != -100).sum().to(total.dtype)])
    dist.all_reduce(sums)
    (total / sums[1]).backward()
    return (sums[0] / sums[1]).item()


# %% pictures-counted
# misconception: a picture is a picture, labelled or not
# fails: test_a_rank_without_labels_changes_nothing, test_each_label_weighs_the_same, test_every_rank_returns_the_loss_of_all, test_gradient_is_that_of_one_process, test_loss_is_that_of_all_pictures
# says: The bias's gradient: 2 of 2 elements
def mean_loss_backward(model, images, labels):
    total = F.cross_entropy(model(images), labels, reduction="sum")
    sums = torch.stack([total.detach(), torch.tensor(len(labels)).to(total.dtype)])
    dist.all_reduce(sums)
    (total * dist.get_world_size() / sums[1]).backward()
    return (sums[0] / sums[1]).item()


# %% two-ranks
# misconception: two ranks are all there are
# fails: test_a_rank_without_labels_changes_nothing, test_gradient_is_that_of_one_process
# says: the gradient is that of one process on all of them
def mean_loss_backward(model, images, labels):
    total = F.cross_entropy(model(images), labels, reduction="sum")
    sums = torch.stack([total.detach(), (labels != -100).sum().to(total.dtype)])
    dist.all_reduce(sums)
    (total * 2 / sums[1]).backward()
    return (sums[0] / sums[1]).item()


# %% own-loss-returned
# misconception: each rank logs its own loss
# fails: test_a_rank_without_labels_changes_nothing, test_batches_of_one_size_with_all_labels, test_every_rank_returns_the_loss_of_all, test_loss_is_that_of_all_pictures
# says: The loss on rank 0 differs from what was expected
def mean_loss_backward(model, images, labels):
    total = F.cross_entropy(model(images), labels, reduction="sum")
    sums = torch.stack([total.detach(), (labels != -100).sum().to(total.dtype)])
    dist.all_reduce(sums)
    (total * dist.get_world_size() / sums[1]).backward()
    return total.item() / max((labels != -100).sum().item(), 1)


# %% loss-on-rank-0
# misconception: rank 0 does the logging
# fails: test_a_rank_without_labels_changes_nothing, test_batches_of_one_size_with_all_labels, test_every_rank_returns_the_loss_of_all, test_loss_is_that_of_all_pictures
# says: should be a Python float
def mean_loss_backward(model, images, labels):
    total = F.cross_entropy(model(images), labels, reduction="sum")
    sums = torch.stack([total.detach(), (labels != -100).sum().to(total.dtype)])
    dist.all_reduce(sums)
    (total * dist.get_world_size() / sums[1]).backward()
    return (sums[0] / sums[1]).item() if dist.get_rank() == 0 else None


# %% rank-skipped
# misconception: a rank without labels has nothing to do
# fails: test_a_rank_without_labels_changes_nothing, test_every_rank_returns_the_loss_of_all, test_gradient_is_that_of_one_process
# says: still waits in `all_reduce`
def mean_loss_backward(model, images, labels):
    if (labels == -100).all():
        return 0.0
    total = F.cross_entropy(model(images), labels, reduction="sum")
    sums = torch.stack([total.detach(), (labels != -100).sum().to(total.dtype)])
    dist.all_reduce(sums)
    (total * dist.get_world_size() / sums[1]).backward()
    return (sums[0] / sums[1]).item()


# %% nan-to-zero
# misconception: a nan is a zero that was divided
# fails: test_a_rank_without_labels_changes_nothing, test_each_label_weighs_the_same, test_gradient_is_that_of_one_process
# says: The bias's gradient: 2 of 2 elements
def mean_loss_backward(model, images, labels):
    loss = F.cross_entropy(model(images), labels).nan_to_num()
    loss.backward()
    sums = torch.stack([loss.detach() * (labels != -100).sum(), (labels != -100).sum().to(loss.dtype)])
    dist.all_reduce(sums)
    return (sums[0] / sums[1]).item()


# %% weighted-by-own-share-afterwards
# misconception: what DDP has averaged can still be weighed
# fails: test_a_rank_without_labels_changes_nothing, test_each_label_weighs_the_same, test_gradient_is_that_of_one_process
# says: The bias's gradient: 2 of 2 elements
def mean_loss_backward(model, images, labels):
    n = (labels != -100).sum()
    total = F.cross_entropy(model(images), labels, reduction="sum")
    sums = torch.stack([total.detach(), n.to(total.dtype)])
    dist.all_reduce(sums)
    (total / n.clamp(min=1)).backward()
    for p in model.parameters():
        p.grad *= n * dist.get_world_size() / sums[1]
    return (sums[0] / sums[1]).item()


# %% past-the-wrapper
# misconception: the wrapper only matters for the forward pass
# fails: test_a_rank_without_labels_changes_nothing, test_batches_of_one_size_with_all_labels, test_each_label_weighs_the_same, test_gradient_is_that_of_one_process
# says: The bias's gradient: 2 of 2 elements
def mean_loss_backward(model, images, labels):
    total = F.cross_entropy(model.module(images), labels, reduction="sum")
    sums = torch.stack([total.detach(), (labels != -100).sum().to(total.dtype)])
    dist.all_reduce(sums)
    (total * dist.get_world_size() / sums[1]).backward()
    return (sums[0] / sums[1]).item()


# %% tensor-returned
# misconception: a number is a number
# fails: test_every_rank_returns_the_loss_of_all, test_loss_is_that_of_all_pictures
# says: should be a Python float
def mean_loss_backward(model, images, labels):
    total = F.cross_entropy(model(images), labels, reduction="sum")
    sums = torch.stack([total.detach(), (labels != -100).sum().to(total.dtype)])
    dist.all_reduce(sums)
    (total * dist.get_world_size() / sums[1]).backward()
    return (sums[0] / sums[1])


# %% steps-as-well
# misconception: a backward pass is followed by a step
# fails: test_batches_of_one_size_with_all_labels
# says: parameters and batch stay
def mean_loss_backward(model, images, labels):
    total = F.cross_entropy(model(images), labels, reduction="sum")
    sums = torch.stack([total.detach(), (labels != -100).sum().to(total.dtype)])
    dist.all_reduce(sums)
    (total * dist.get_world_size() / sums[1]).backward()
    with torch.no_grad():
        for p in model.parameters():
            p -= 0.1 * p.grad
    return (sums[0] / sums[1]).item()


# %% mean-times-number
# misconception: a mean over nothing, times 0, is 0
# fails: test_a_rank_without_labels_changes_nothing, test_every_rank_returns_the_loss_of_all
# says: the loss of each is log 2
def mean_loss_backward(model, images, labels):
    n_labels = (labels != -100).sum()
    n_everywhere = n_labels.clone()
    dist.all_reduce(n_everywhere)
    share = F.cross_entropy(model(images), labels) * n_labels / n_everywhere
    (share * dist.get_world_size()).backward()
    loss = share.detach().clone()
    dist.all_reduce(loss)
    return loss.item()
