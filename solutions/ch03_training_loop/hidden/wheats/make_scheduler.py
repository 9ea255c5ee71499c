# %% a-class-of-ones-own
class WarmupCosine:
    def __init__(self, optimiser, total, n_warmup, floor):
        self.optimiser, self.total, self.n_warmup, self.floor = optimiser, total, n_warmup, floor
        self.base = [group["lr"] for group in optimiser.param_groups]
        self.current = 0
        self.step()

    def step(self):
        self.current += 1
        for group, base in zip(self.optimiser.param_groups, self.base):
            group["lr"] = base * self.factor()

    def factor(self):
        s = self.current
        if s <= self.n_warmup:
            return s / self.n_warmup
        if s >= self.total:
            return self.floor
        p = (s - self.n_warmup) / (self.total - self.n_warmup)
        return self.floor + (1 - self.floor) * 0.5 * (1 + math.cos(math.pi * p))


def make_scheduler(optimiser, n_epochs, steps_per_epoch, n_warmup, floor):
    return WarmupCosine(optimiser, n_epochs * steps_per_epoch, n_warmup, floor)

# %% a-table
def make_scheduler(optimiser, n_epochs, steps_per_epoch, n_warmup, floor):
    total = n_epochs * steps_per_epoch
    up = [(i + 1) / n_warmup for i in range(n_warmup)]
    angles = torch.linspace(0, math.pi, total - n_warmup + 1, dtype=torch.float64)[1:]
    down = (floor + (1 - floor) * (1 + angles.cos()) / 2).tolist()
    table = up + down
    return torch.optim.lr_scheduler.LambdaLR(optimiser, lambda i: table[min(i, len(table) - 1)])

# %% a-subclass
from torch.optim.lr_scheduler import LRScheduler


class Schedule(LRScheduler):
    def __init__(self, optimiser, last, n_warmup, floor):
        self.last, self.n_warmup, self.floor = last, n_warmup, floor
        super().__init__(optimiser)

    def get_lr(self):
        step = min(self.last_epoch + 1, self.last)
        if step <= self.n_warmup:
            share = step / self.n_warmup
        else:
            share = math.cos(math.pi / 2 * (step - self.n_warmup) / (self.last - self.n_warmup)) ** 2
            share = self.floor + (1 - self.floor) * share
        return [base * share for base in self.base_lrs]


def make_scheduler(optimiser, n_epochs, steps_per_epoch, n_warmup, floor):
    return Schedule(optimiser, n_epochs * steps_per_epoch, n_warmup, floor)

# %% two-schedules-in-sequence
def make_scheduler(optimiser, n_epochs, steps_per_epoch, n_warmup, floor):
    length = n_epochs * steps_per_epoch - n_warmup

    def cosine(i):
        return floor + (1 - floor) * (1 + math.cos(math.pi * min(i + 1, length) / length)) / 2

    schedulers = torch.optim.lr_scheduler
    if n_warmup == 0:
        return schedulers.LambdaLR(optimiser, cosine)
    warmup = schedulers.LambdaLR(optimiser, lambda i: (i + 1) / n_warmup)
    return schedulers.SequentialLR(optimiser, [warmup, schedulers.LambdaLR(optimiser, cosine)], milestones=[n_warmup])

# %% a-factor-for-each-group
def make_scheduler(optimiser, n_epochs, steps_per_epoch, n_warmup, floor):
    n_steps = n_epochs * steps_per_epoch

    def factor(i):
        warm = (i + 1) / max(n_warmup, 1)
        progress = min(max((i + 1 - n_warmup) / max(n_steps - n_warmup, 1), 0.0), 1.0)
        cosine = floor + (1 - floor) * (1 + math.cos(math.pi * progress)) / 2
        return warm if i < n_warmup else cosine

    return torch.optim.lr_scheduler.LambdaLR(optimiser, [factor] * len(optimiser.param_groups))
