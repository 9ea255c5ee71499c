# %% data-only-read
class FeatureLog:
    def __init__(self):
        self.sums = {}

    def add(self, name, features):
        x = features.data.double()  # nothing is written through it
        new = [len(x), x.sum(0), x.square().sum(0)]
        old = self.sums.get(name, [0, 0, 0])
        self.sums[name] = [a + b for a, b in zip(old, new)]

    def summary(self):
        return {
            name: {"rows": n, "mean": s / n, "std": (q / n - (s / n) ** 2).clamp(min=0).sqrt()}
            for name, (n, s, q) in self.sums.items()
        }

# %% list-that-is-emptied
class FeatureLog:
    """Batches go to a list, which is folded into one entry when it has two."""

    def __init__(self):
        self._lists = {}

    def add(self, name, features):
        x = features.detach().double()
        entries = self._lists.setdefault(name, [])
        entries.append((len(x), x.mean(0), x.square().mean(0)))
        if len(entries) == 2:
            (m, a, b), (n, c, d) = entries
            entries.clear()
            entries.append((m + n, (m * a + n * c) / (m + n), (m * b + n * d) / (m + n)))

    def summary(self):
        return {
            name: {"rows": n, "mean": a.clone(), "std": (b - a * a).clamp(min=0).sqrt()}
            for name, [(n, a, b)] in self._lists.items()
        }

# %% keeps-the-latest-row
class FeatureLog:
    def __init__(self):
        self.sums, self.latest = {}, {}

    def add(self, name, features):
        x = features.detach().clone()
        self.latest[name] = x[-1].clone()
        n, s, q = self.sums.get(name, (0, 0.0, 0.0))
        self.sums[name] = (n + len(x), s + x.double().sum(0), q + x.double().pow(2).sum(0))

    def summary(self):
        return {
            name: {"rows": n, "mean": s / n, "std": torch.sqrt(torch.clamp(q / n - (s / n) ** 2, min=0))}
            for name, (n, s, q) in self.sums.items()
        }
