# %% softmax-in-front-of-the-loss
# pitfall: T17
def make_pipeline():
    model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 10), torch.nn.Softmax(1))
    optimiser = torch.optim.Adam(model.parameters(), lr=0.02)

    def step(x, y):
        loss = torch.nn.functional.cross_entropy(model(x), y)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        return loss.item()

    return model, step


# %% gradient-thrown-away
# pitfall: T2
def make_pipeline():
    model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 10))
    optimiser = torch.optim.AdamW(model.parameters(), lr=0.02, weight_decay=0.1)

    def step(x, y):
        loss = torch.nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimiser.zero_grad()
        optimiser.step()
        return loss.item()

    return model, step


# %% gradient-never-cleared
# pitfall: T2
def make_pipeline():
    model = torch.nn.Sequential(torch.nn.Linear(64, 48), torch.nn.Tanh(), torch.nn.Linear(48, 10))
    optimiser = torch.optim.SGD(model.parameters(), lr=1.0, momentum=0.9)

    def step(x, y):
        loss = torch.nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimiser.step()
        return loss.item()

    return model, step


# %% layers-in-a-list
# pitfall: T5
def make_pipeline():
    class Network(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = [torch.nn.Linear(64, 32), torch.nn.ReLU(), torch.nn.Linear(32, 3), torch.nn.ReLU()]
            self.head = torch.nn.Linear(3, 10)

        def forward(self, x):
            for layer in self.layers:
                x = layer(x)
            return self.head(x)

    model = Network()
    optimiser = torch.optim.Adam(model.parameters(), lr=0.05)

    def step(x, y):
        loss = torch.nn.functional.cross_entropy(model(x), y)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        return loss.item()

    return model, step


# %% labels-of-the-neighbour
# pitfall: T10
def make_pipeline():
    model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 10))
    optimiser = torch.optim.Adam(model.parameters(), lr=0.02)

    def step(x, y):
        loss = torch.nn.functional.cross_entropy(model(x), y.roll(1))
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        return loss.item()

    return model, step


# %% labels-shuffled-each-step
# pitfall: T10
def make_pipeline():
    model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 10))
    optimiser = torch.optim.Adam(model.parameters(), lr=0.02)

    def step(x, y):
        x = x[torch.randperm(len(x))]
        loss = torch.nn.functional.cross_entropy(model(x), y)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        return loss.item()

    return model, step


# %% loss-cut-off
# pitfall: T10
def make_pipeline():
    model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 10))
    optimiser = torch.optim.Adam(model.parameters(), lr=0.02)

    def step(x, y):
        logits = torch.tensor(model(x).tolist(), requires_grad=True)
        loss = torch.nn.functional.cross_entropy(logits, y)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        return loss.item()

    return model, step


# %% statistics-that-never-move
# pitfall: T12
class RawValues(torch.nn.Module):
    def forward(self, x):
        return 4000 + (255 * x).round()


def make_pipeline():
    # with a momentum of 0 the layer keeps the statistics that it started with, and a sensor's values are far from these
    model = torch.nn.Sequential(
        RawValues(),
        torch.nn.BatchNorm1d(64, momentum=0.0),
        torch.nn.Linear(64, 64),
        torch.nn.ReLU(),
        torch.nn.Linear(64, 10),
    )
    optimiser = torch.optim.Adam(model.parameters(), lr=0.02)

    def step(x, y):
        model.train()
        loss = torch.nn.functional.cross_entropy(model(x), y)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        return loss.item()

    return model, step


# %% dropout-that-never-rests
# pitfall: T1
def make_pipeline():
    class Network(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.second = torch.nn.Linear(64, 128), torch.nn.Linear(128, 10)

        def features(self, x, p):
            return torch.relu(self.first(torch.nn.functional.dropout(x, p)))

        def forward(self, x):
            return self.second(self.features(x, 0.9))  # without training=self.training

    model = Network()
    optimiser = torch.optim.Adam(model.parameters(), lr=0.01)

    def step(x, y):
        model.train()
        loss = torch.nn.functional.cross_entropy(model.second(model.features(x, 0.0)), y)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        return loss.item()

    return model, step


# %% optimiser-of-another-model
# pitfall: T10
def make_pipeline():
    def network():
        return torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 10))

    optimiser = torch.optim.Adam(network().parameters(), lr=0.02)
    model = network()

    def step(x, y):
        loss = torch.nn.functional.cross_entropy(model(x), y)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        return loss.item()

    return model, step


# %% rate-of-zero
# pitfall: T8
def make_pipeline():
    model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 10))
    optimiser = torch.optim.SGD(model.parameters(), lr=0.5)
    scheduler = torch.optim.lr_scheduler.LambdaLR(optimiser, lambda epoch: epoch / 100)

    def step(x, y):
        loss = torch.nn.functional.cross_entropy(model(x), y)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        return loss.item()

    return model, step


# %% loss-divided-twice
# pitfall: T3
def make_pipeline():
    model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 10))
    optimiser = torch.optim.SGD(model.parameters(), lr=0.1)

    def step(x, y):
        loss = torch.nn.functional.cross_entropy(model(x), y) / len(y)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        return loss.item()

    return model, step


# %% body-frozen
# pitfall: T13
def make_pipeline():
    body = torch.nn.Sequential(torch.nn.Linear(64, 32), torch.nn.ReLU(), torch.nn.Linear(32, 4), torch.nn.Tanh())
    model = torch.nn.Sequential(body.requires_grad_(False), torch.nn.Linear(4, 10))
    optimiser = torch.optim.Adam([p for p in model.parameters() if p.requires_grad], lr=0.05)

    def step(x, y):
        loss = torch.nn.functional.cross_entropy(model(x), y)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        return loss.item()

    return model, step


# %% ignores-the-picture
# pitfall: T10
def make_pipeline():
    class Network(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 10))

        def forward(self, x):
            canvas = torch.zeros(len(x), 64)
            canvas + x  # add_ was meant
            return self.layers(canvas)

    model = Network()
    optimiser = torch.optim.Adam(model.parameters(), lr=0.02)

    def step(x, y):
        loss = torch.nn.functional.cross_entropy(model(x), y)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        return loss.item()

    return model, step


# %% trains-on-half-the-batch
# pitfall: T3
def make_pipeline():
    model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 10))
    optimiser = torch.optim.Adam(model.parameters(), lr=0.02)

    def step(x, y):
        half = len(y) // 2
        loss = torch.nn.functional.cross_entropy(model(x[:half]), y[:half])
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        return loss.item()

    return model, step


# %% averaged-over-the-batch
# pitfall: T10
def make_pipeline():
    class Network(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.last = torch.nn.Linear(64, 64), torch.nn.Linear(64, 10)

        def forward(self, x):
            middle = torch.relu(self.first(x)).mean(0, keepdim=True)  # dim 1 of something else was meant
            return self.last(middle).expand(len(x), 10)

    model = Network()
    optimiser = torch.optim.Adam(model.parameters(), lr=0.02)

    def step(x, y):
        loss = torch.nn.functional.cross_entropy(model(x), y)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        return loss.item()

    return model, step


# %% one-label-too-many
# pitfall: T10
def make_pipeline():
    model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 11))
    optimiser = torch.optim.Adam(model.parameters(), lr=0.02)

    def step(x, y):
        loss = torch.nn.functional.cross_entropy(model(x), y + 1)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        return loss.item()

    return model, step


# %% squashed-logits
# pitfall: T17
def make_pipeline():
    model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 10), torch.nn.Tanh())
    optimiser = torch.optim.Adam(model.parameters(), lr=0.02)

    def step(x, y):
        loss = torch.nn.functional.cross_entropy(model(x), y)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        return loss.item()

    return model, step


# %% one-label-of-the-batch
# pitfall: T10
def make_pipeline():
    model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 10))
    optimiser = torch.optim.Adam(model.parameters(), lr=0.02)

    def step(x, y):
        y = torch.cat([(y[:1] + 1) % 10, y[1:]])  # the first of each batch is spoilt: 31 of 32 are right
        loss = torch.nn.functional.cross_entropy(model(x), y)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        return loss.item()

    return model, step


# %% decay-that-grows
# pitfall: T8
def make_pipeline():
    model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 10))
    body, head = ({"params": model[i].parameters(), "weight_decay": decay} for i, decay in ((0, 0.0), (2, 0.01)))
    optimiser = torch.optim.AdamW([body, head], lr=0.02)

    def step(x, y):
        loss = torch.nn.functional.cross_entropy(model(x), y)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        # a schedule of the wrong number: the loss gets near zero, then the logits fade, and it comes back
        optimiser.param_groups[1]["weight_decay"] *= 1.14
        return loss.item()

    return model, step


# %% ten-times-too-slow
# pitfall: T8
def make_pipeline():
    model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 10))
    optimiser = torch.optim.Adam(model.parameters(), lr=0.002)

    def step(x, y):
        loss = torch.nn.functional.cross_entropy(model(x), y)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        return loss.item()

    return model, step
