# %% staircase
# misconception: a schedule is stepped once per epoch
# fails: test_half_a_cosine, test_rate_stays_at_its_floor, test_the_shortest_and_the_longest_warm_up, test_the_whole_schedule
# says: four more go down to nothing
def make_scheduler(optimiser, n_epochs, steps_per_epoch, n_warmup, floor):
    def factor(n_done):
        step = n_done + 1
        if step <= n_warmup:
            return step / n_warmup
        progress = min(n_done // steps_per_epoch / n_epochs, 1.0)
        return floor + (1 - floor) * (1 + math.cos(math.pi * progress)) / 2

    return torch.optim.lr_scheduler.LambdaLR(optimiser, factor)


# %% no-warm-up
# misconception: a good rate is good from the first step on
# fails: test_the_shortest_and_the_longest_warm_up, test_the_whole_schedule, test_warm_up
# says: a quarter, a half, three quarters and all
def make_scheduler(optimiser, n_epochs, steps_per_epoch, n_warmup, floor):
    def factor(n_done):
        step = n_done + 1
        step = max(step, n_warmup)
        progress = min((step - n_warmup) / (n_epochs * steps_per_epoch - n_warmup), 1.0)
        return floor + (1 - floor) * (1 + math.cos(math.pi * progress)) / 2

    return torch.optim.lr_scheduler.LambdaLR(optimiser, factor)


# %% warm-up-from-nothing
# misconception: a warm-up begins at zero
# fails: test_the_shortest_and_the_longest_warm_up, test_the_whole_schedule, test_warm_up
# says: a quarter, a half, three quarters and all
def make_scheduler(optimiser, n_epochs, steps_per_epoch, n_warmup, floor):
    def factor(n_done):
        step = n_done + 1
        if step <= n_warmup:
            return n_done / n_warmup
        progress = min((step - n_warmup) / (n_epochs * steps_per_epoch - n_warmup), 1.0)
        return floor + (1 - floor) * (1 + math.cos(math.pi * progress)) / 2

    return torch.optim.lr_scheduler.LambdaLR(optimiser, factor)


# %% warm-up-in-epochs
# misconception: n_warmup counts epochs
# fails: test_half_a_cosine, test_the_shortest_and_the_longest_warm_up, test_the_whole_schedule, test_warm_up
# says: a quarter, a half, three quarters and all
def make_scheduler(optimiser, n_epochs, steps_per_epoch, n_warmup, floor):
    n_warmup = n_warmup * steps_per_epoch

    def factor(n_done):
        step = n_done + 1
        if step <= n_warmup:
            return step / n_warmup
        progress = min((step - n_warmup) / (max(n_epochs * steps_per_epoch - n_warmup, 1)), 1.0)
        return floor + (1 - floor) * (1 + math.cos(math.pi * progress)) / 2

    return torch.optim.lr_scheduler.LambdaLR(optimiser, factor)


# %% whole-run-for-the-cosine
# misconception: the cosine begins with the first step
# fails: test_half_a_cosine, test_the_shortest_and_the_longest_warm_up, test_the_whole_schedule
# says: four more go down to nothing
def make_scheduler(optimiser, n_epochs, steps_per_epoch, n_warmup, floor):
    def factor(n_done):
        step = n_done + 1
        if step <= n_warmup:
            return step / n_warmup
        progress = min(step / (n_epochs * steps_per_epoch), 1.0)
        return floor + (1 - floor) * (1 + math.cos(math.pi * progress)) / 2

    return torch.optim.lr_scheduler.LambdaLR(optimiser, factor)


# %% cosine-too-long
# misconception: what is left for the cosine are all steps
# fails: test_half_a_cosine, test_the_shortest_and_the_longest_warm_up, test_the_whole_schedule
# says: four more go down to nothing
def make_scheduler(optimiser, n_epochs, steps_per_epoch, n_warmup, floor):
    def factor(n_done):
        step = n_done + 1
        if step <= n_warmup:
            return step / n_warmup
        progress = min((step - n_warmup) / (n_epochs * steps_per_epoch), 1.0)
        return floor + (1 - floor) * (1 + math.cos(math.pi * progress)) / 2

    return torch.optim.lr_scheduler.LambdaLR(optimiser, factor)


# %% up-again
# misconception: nobody makes a step after the last one
# fails: test_rate_stays_at_its_floor, test_the_shortest_and_the_longest_warm_up, test_the_whole_schedule
# says: all others with the floor
def make_scheduler(optimiser, n_epochs, steps_per_epoch, n_warmup, floor):
    def factor(n_done):
        step = n_done + 1
        if step <= n_warmup:
            return step / n_warmup
        progress = (step - n_warmup) / (n_epochs * steps_per_epoch - n_warmup)
        return floor + (1 - floor) * (1 + math.cos(math.pi * progress)) / 2

    return torch.optim.lr_scheduler.LambdaLR(optimiser, factor)


# %% floor-cuts-off
# misconception: a floor is what the rate may not fall below
# fails: test_rate_stays_at_its_floor, test_the_shortest_and_the_longest_warm_up, test_the_whole_schedule
# says: the first with the mean of rate and floor
def make_scheduler(optimiser, n_epochs, steps_per_epoch, n_warmup, floor):
    def factor(n_done):
        step = n_done + 1
        if step <= n_warmup:
            return step / n_warmup
        progress = min((step - n_warmup) / (n_epochs * steps_per_epoch - n_warmup), 1.0)
        return max(floor, (1 + math.cos(math.pi * progress)) / 2)

    return torch.optim.lr_scheduler.LambdaLR(optimiser, factor)


# %% whole-wave
# misconception: a cosine goes down and up
# fails: test_half_a_cosine, test_rate_stays_at_its_floor, test_the_shortest_and_the_longest_warm_up, test_the_whole_schedule
# says: four more go down to nothing
def make_scheduler(optimiser, n_epochs, steps_per_epoch, n_warmup, floor):
    def factor(n_done):
        step = n_done + 1
        if step <= n_warmup:
            return step / n_warmup
        progress = min((step - n_warmup) / (n_epochs * steps_per_epoch - n_warmup), 1.0)
        return floor + (1 - floor) * (1 + math.cos(2 * math.pi * progress)) / 2

    return torch.optim.lr_scheduler.LambdaLR(optimiser, factor)


# %% straight-down
# misconception: a straight line will do
# fails: test_half_a_cosine, test_the_shortest_and_the_longest_warm_up, test_the_whole_schedule
# says: 0.854, 0.5, 0.146
def make_scheduler(optimiser, n_epochs, steps_per_epoch, n_warmup, floor):
    def factor(n_done):
        step = n_done + 1
        if step <= n_warmup:
            return step / n_warmup
        progress = min((step - n_warmup) / (n_epochs * steps_per_epoch - n_warmup), 1.0)
        return floor + (1 - floor) * (1 - progress)

    return torch.optim.lr_scheduler.LambdaLR(optimiser, factor)


# %% one-step-late
# misconception: the first step is made with the rate that the optimiser has
# fails: test_half_a_cosine, test_rate_stays_at_its_floor, test_the_shortest_and_the_longest_warm_up, test_the_whole_schedule, test_warm_up
# says: a quarter, a half, three quarters and all
class Schedule:
    def __init__(self, optimiser, factor):
        self.optimiser, self.factor, self.n_done = optimiser, factor, 0
        self.own = [group["lr"] for group in optimiser.param_groups]

    def step(self):
        for group, own in zip(self.optimiser.param_groups, self.own, strict=True):
            group["lr"] = own * self.factor(self.n_done)
        self.n_done += 1


def make_scheduler(optimiser, n_epochs, steps_per_epoch, n_warmup, floor):
    def factor(n_done):
        step = n_done + 1
        if step <= n_warmup:
            return step / n_warmup
        progress = min((step - n_warmup) / (n_epochs * steps_per_epoch - n_warmup), 1.0)
        return floor + (1 - floor) * (1 + math.cos(math.pi * progress)) / 2

    return Schedule(optimiser, factor)


# %% one-rate-for-all-groups
# misconception: all groups have the same rate
# fails: test_the_shortest_and_the_longest_warm_up, test_the_whole_schedule
# says: for each group by itself
class Schedule:
    def __init__(self, optimiser, factor):
        self.optimiser, self.factor, self.n_done = optimiser, factor, -1
        self.own = optimiser.param_groups[0]["lr"]
        self.step()

    def step(self):
        self.n_done += 1
        for group in self.optimiser.param_groups:
            group["lr"] = self.own * self.factor(self.n_done)


def make_scheduler(optimiser, n_epochs, steps_per_epoch, n_warmup, floor):
    def factor(n_done):
        step = n_done + 1
        if step <= n_warmup:
            return step / n_warmup
        progress = min((step - n_warmup) / (n_epochs * steps_per_epoch - n_warmup), 1.0)
        return floor + (1 - floor) * (1 + math.cos(math.pi * progress)) / 2

    return Schedule(optimiser, factor)


# %% floor-as-a-rate
# misconception: the floor is a learning rate
# fails: test_rate_stays_at_its_floor, test_the_shortest_and_the_longest_warm_up, test_the_whole_schedule
# says: for each group by itself
def make_scheduler(optimiser, n_epochs, steps_per_epoch, n_warmup, floor):
    schedulers = torch.optim.lr_scheduler
    cosine = schedulers.CosineAnnealingLR(optimiser, n_epochs * steps_per_epoch - n_warmup, eta_min=floor)
    if n_warmup < 2:
        return cosine
    warmup = schedulers.LinearLR(optimiser, 1 / n_warmup, total_iters=n_warmup - 1)
    return schedulers.SequentialLR(optimiser, [warmup, cosine], milestones=[n_warmup - 1])
