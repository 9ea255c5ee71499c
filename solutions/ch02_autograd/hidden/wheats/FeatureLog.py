# %% sums-in-float64
class FeatureLog:
    def __init__(self):
        self.sums = {}

    @torch.no_grad()
    def add(self, name, features):
        x = features.to(torch.float64)
        new = torch.stack([torch.ones_like(x[0]) * len(x), x.sum(0), (x * x).sum(0)])
        self.sums[name] = self.sums[name] + new if name in self.sums else new

    def summary(self):
        result = {}
        for name, (rows, total, squares) in self.sums.items():
            mean = total / rows
            variance = (squares / rows - mean**2).clamp_min(0)
            result[name] = {"rows": int(rows[0]), "mean": mean, "std": variance.sqrt()}
        return result

# %% sums-in-float32
from collections import defaultdict


class FeatureLog:
    """Sums as they come: enough for means that are not far from zero."""

    def __init__(self):
        self.rows = defaultdict(int)
        self.total = defaultdict(float)
        self.squares = defaultdict(float)

    def add(self, name, features):
        x = features.detach().float()
        self.rows[name] += x.shape[0]
        self.total[name] = self.total[name] + x.sum(dim=0)
        self.squares[name] = self.squares[name] + x.pow(2).sum(dim=0)

    def summary(self):
        out = {}
        for name in self.rows:
            n = self.rows[name]
            mean = self.total[name] / n
            std = torch.sqrt(torch.clamp(self.squares[name] / n - mean.pow(2), min=0.0))
            out[name] = dict(rows=n, mean=mean, std=std)
        return out

# %% welford-row-by-row
class FeatureLog:
    def __init__(self):
        self._state = {}

    def add(self, name: str, features: torch.Tensor) -> None:
        with torch.no_grad():
            if name not in self._state:
                zero = torch.zeros(features.shape[1], dtype=torch.float64, device=features.device)
                self._state[name] = [0, zero, zero.clone()]
            state = self._state[name]
            for row in features.double():
                state[0] += 1
                before = row - state[1]
                state[1] += before / state[0]
                state[2] += before * (row - state[1])

    def summary(self) -> dict:
        return {
            name: {"rows": n, "mean": mean.clone(), "std": torch.sqrt(m2 / n)}
            for name, (n, mean, m2) in self._state.items()
        }

# %% shifted-by-the-first-row
from dataclasses import dataclass


@dataclass
class _Running:
    shift: torch.Tensor
    rows: int = 0
    total: torch.Tensor | float = 0.0
    squares: torch.Tensor | float = 0.0


class FeatureLog:
    def __init__(self):
        self.units = {}

    def add(self, name, features):
        features = features.detach()
        running = self.units.setdefault(name, _Running(features[0].clone()))
        centred = features - running.shift
        running.rows += len(features)
        running.total = running.total + centred.sum(0)
        running.squares = running.squares + centred.square().sum(0)

    def summary(self):
        print(len(self.units), "names")
        found = {}
        for name, u in self.units.items():
            off = u.total / u.rows
            found[name] = {"rows": u.rows, "mean": u.shift + off, "std": (u.squares / u.rows - off**2).relu().sqrt()}
        return found

# %% numpy-accumulators
import numpy as np


class FeatureLog:
    def __init__(self):
        self.data = {}

    def add(self, name, features):
        x = features.detach().cpu().numpy().astype(np.float64)
        n, s, q = self.data.get(name, (0, 0.0, 0.0))
        self.data[name] = (n + x.shape[0], s + x.sum(axis=0), q + np.square(x).sum(axis=0))

    def summary(self):
        answer = {}
        for name, (n, s, q) in self.data.items():
            mean = s / n
            std = np.sqrt(np.maximum(q / n - mean**2, 0))
            answer[name] = {"rows": n, "mean": torch.from_numpy(mean.copy()), "std": torch.from_numpy(std)}
        return answer

# %% mean-and-mean-square
class FeatureLog:
    """Both means are moved a little towards each batch, by its share of all rows."""

    def __init__(self):
        self._names = {}

    @torch.no_grad()
    def add(self, name, features):
        x = features.double()
        moments = torch.stack((x.mean(0), (x**2).mean(0)))
        if name not in self._names:
            self._names[name] = {"rows": len(x), "moments": moments}
            return
        entry = self._names[name]
        entry["rows"] += len(x)
        entry["moments"].lerp_(moments, len(x) / entry["rows"])

    def summary(self):
        def line(entry):
            mean, square = entry["moments"].clone()
            return {"rows": entry["rows"], "mean": mean, "std": (square - mean**2).clamp(min=0).sqrt()}

        return {name: line(entry) for name, entry in self._names.items()}

# %% in-inference-mode
class FeatureLog:
    def __init__(self):
        self._sums = {}

    @torch.inference_mode()
    def add(self, name, features):
        x = features.double()
        n, s, q = self._sums.setdefault(name, [0, torch.zeros_like(x[0]), torch.zeros_like(x[0])])
        s += x.sum(0)
        q += (x * x).sum(0)
        self._sums[name][0] = n + len(x)

    @torch.inference_mode()
    def summary(self):
        return {
            name: {"rows": n, "mean": s / n, "std": (q / n - (s / n) ** 2).clamp(min=0).sqrt()}
            for name, (n, s, q) in self._sums.items()
        }
