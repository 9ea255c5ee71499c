# %% mean-of-means-of-equal-parts
def mean_loss_backward(model, images, labels):
    """Averages over ranks, but numbers that were brought to the same denominator before."""
    n = torch.tensor(float((labels != -100).sum()))
    dist.all_reduce(n)
    n /= dist.get_world_size()  # how many labels a rank has on average
    loss = F.cross_entropy(model(images), labels, reduction="sum") / n
    loss.backward()
    mean = loss.detach().clone()
    dist.all_reduce(mean)
    return mean.item() / dist.get_world_size()
