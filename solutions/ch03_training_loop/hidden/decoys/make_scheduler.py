# %% counted-in-parts-of-epochs
def make_scheduler(optimiser, n_epochs, steps_per_epoch, n_warmup, floor):
    def factor(i):
        # an epoch's number with a fraction is a step's number in another unit
        epoch, warm_epochs = (i + 1) / steps_per_epoch, n_warmup / steps_per_epoch
        if i + 1 <= n_warmup:
            return epoch / warm_epochs
        progress = min((epoch - warm_epochs) / (n_epochs - warm_epochs), 1)
        return floor + (1 - floor) * (1 + math.cos(math.pi * progress)) / 2

    return torch.optim.lr_scheduler.LambdaLR(optimiser, factor)


# %% rates-made-small-first
def make_scheduler(optimiser, n_epochs, steps_per_epoch, n_warmup, floor):
    last = n_epochs * steps_per_epoch
    own = [group["lr"] for group in optimiser.param_groups]
    for group in optimiser.param_groups:
        group["lr"] = 1.0  # the schedule itself gives the rates then

    def schedule(rate):
        def at(i):
            s = i + 1
            if s <= n_warmup:
                return rate * s / n_warmup
            p = min(1.0, (s - n_warmup) / (last - n_warmup))
            return rate * (1 + floor + (1 - floor) * math.cos(math.pi * p)) / 2

        return at

    return torch.optim.lr_scheduler.LambdaLR(optimiser, [schedule(rate) for rate in own])
