# %% plain-network-adam
def make_pipeline():
    model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 10))
    optimiser = torch.optim.Adam(model.parameters(), lr=0.02)

    def step(x, y):
        loss = torch.nn.functional.cross_entropy(model(x), y)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        return loss.item()

    return model, step


# %% momentum-and-norm
def make_pipeline():
    model = torch.nn.Sequential(
        torch.nn.Linear(64, 48), torch.nn.BatchNorm1d(48), torch.nn.ReLU(), torch.nn.Linear(48, 10)
    )
    criterion = torch.nn.CrossEntropyLoss()
    optimiser = torch.optim.SGD(model.parameters(), lr=0.2, momentum=0.8)

    def step(x, y):
        model.train()
        optimiser.zero_grad(set_to_none=False)
        loss = criterion(model(x), y)
        loss.backward()
        optimiser.step()
        return float(loss.detach())

    return model, step


# %% dropout-and-clipping
def make_pipeline():
    model = torch.nn.Sequential(
        torch.nn.Linear(64, 128), torch.nn.GELU(), torch.nn.Dropout(0.1), torch.nn.Linear(128, 10)
    )
    optimiser = torch.optim.AdamW(model.parameters(), lr=0.02, weight_decay=0.01)

    def step(x, y):
        model.train()
        loss = torch.nn.functional.cross_entropy(model(x), y)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()
        optimiser.zero_grad()  # behind the step is as good a place as in front of the forward pass
        return loss.item()

    return model, step


# %% log-softmax-twice
def make_pipeline():
    # cross entropy takes a log-softmax of its own; of log-probabilities that is the same once more, so no harm is done
    model = torch.nn.Sequential(
        torch.nn.Linear(64, 64), torch.nn.Tanh(), torch.nn.Linear(64, 10), torch.nn.LogSoftmax(dim=1)
    )
    optimiser = torch.optim.Adam(model.parameters(), lr=0.02)

    def step(x, y):
        optimiser.zero_grad()
        loss = torch.nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimiser.step()
        return loss.item()

    return model, step


# %% residual-blocks-in-pieces
def make_pipeline():
    class Block(torch.nn.Module):
        def __init__(self, width):
            super().__init__()
            self.norm = torch.nn.LayerNorm(width)
            self.inner = torch.nn.Linear(width, width)

        def forward(self, x):
            return x + torch.relu(self.inner(self.norm(x)))

    model = torch.nn.Sequential(torch.nn.Linear(64, 32), Block(32), Block(32), torch.nn.Linear(32, 10))
    optimiser = torch.optim.AdamW(model.parameters(), lr=0.01)

    def step(x, y):
        # four pieces, one step: each piece's mean counts for a quarter
        total = 0.0
        optimiser.zero_grad()
        for pictures, labels in zip(x.chunk(4), y.chunk(4)):
            loss = torch.nn.functional.cross_entropy(model(pictures), labels, reduction="sum") / len(y)
            loss.backward()
            total += loss.item()
        optimiser.step()
        return total

    return model, step


# %% eval-mode-behind-every-step
def make_pipeline():
    model = torch.nn.Sequential(
        torch.nn.Linear(64, 64),
        torch.nn.ReLU(),
        torch.nn.BatchNorm1d(64),
        torch.nn.Dropout(0.1),
        torch.nn.Linear(64, 10),
    )
    optimiser = torch.optim.RMSprop(model.parameters(), lr=0.005)

    def step(x, y):
        model.train()
        optimiser.zero_grad()
        loss = torch.nn.functional.nll_loss(model(x).log_softmax(1), y)
        loss.backward()
        optimiser.step()
        model.eval()
        return loss.item()

    return model, step


# %% warmed-up
def make_pipeline():
    model = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(64, 40), torch.nn.SiLU(), torch.nn.Linear(40, 10))
    optimiser = torch.optim.NAdam(model.parameters(), lr=0.03)
    scheduler = torch.optim.lr_scheduler.LambdaLR(optimiser, lambda i: min(1.0, (i + 1) / 5))

    def step(x, y):
        log_probabilities = torch.log_softmax(model(x), dim=-1)
        loss = -log_probabilities.gather(1, y[:, None]).mean()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        scheduler.step()
        return loss.item()

    return model, step
