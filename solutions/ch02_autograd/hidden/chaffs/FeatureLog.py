# %% list-of-detached
# misconception: detach() makes a copy, and a list of plain tensors is small
# fails: test_log_does_not_grow, test_log_shows_what_was_logged, test_log_stays_small, test_training_goes_on_as_before
# says: bytes with each batch
class FeatureLog:
    def __init__(self):
        self._batches = {}

    def add(self, name, features):
        self._batches.setdefault(name, []).append(features.detach())

    def summary(self):
        rows = {name: torch.cat(batches) for name, batches in self._batches.items()}
        return {name: {"rows": len(x), "mean": x.mean(0), "std": x.std(0, correction=0)} for name, x in rows.items()}


# %% list-of-copies
# misconception: what leaked was the graph, so without one everything may be kept
# fails: test_log_does_not_grow, test_log_stays_small
# says: bytes with each batch
class FeatureLog:
    def __init__(self):
        self._batches = {}

    def add(self, name, features):
        self._batches.setdefault(name, []).append(features.detach().clone())

    def summary(self):
        rows = {name: torch.cat(batches) for name, batches in self._batches.items()}
        return {name: {"rows": len(x), "mean": x.mean(0), "std": x.std(0, correction=0)} for name, x in rows.items()}


# %% list-of-arrays
# misconception: NumPy's memory is not PyTorch's
# fails: test_log_does_not_grow, test_log_shows_what_was_logged, test_log_stays_small, test_training_goes_on_as_before
# says: bytes with each batch
class FeatureLog:
    def __init__(self):
        self._batches = {}

    def add(self, name, features):
        self._batches.setdefault(name, []).append(features.detach().cpu().numpy())

    def summary(self):
        rows = {name: torch.cat([torch.from_numpy(x) for x in batches]) for name, batches in self._batches.items()}
        return {name: {"rows": len(x), "mean": x.mean(0), "std": x.std(0, correction=0)} for name, x in rows.items()}


# %% list-of-batch-moments
# misconception: three small tensors for each batch are nothing
# fails: test_log_does_not_grow, test_log_stays_small
# says: bytes with each batch
class FeatureLog:
    def __init__(self):
        self._moments = {}

    def add(self, name, features):
        x = features.detach().double()
        self._moments.setdefault(name, []).append((len(x), x.sum(0), x.square().sum(0)))

    def summary(self):
        result = {}
        for name, moments in self._moments.items():
            n, s, q = (sum(column) for column in zip(*moments))
            result[name] = {"rows": n, "mean": s / n, "std": (q / n - (s / n) ** 2).clamp(min=0).sqrt()}
        return result


# %% sums-with-a-graph
# misconception: a running sum holds one tensor, so it cannot leak
# fails: test_log_keeps_no_graph, test_no_graph_is_kept
# says: so many tensors were held for a backward pass
class FeatureLog:
    def __init__(self):
        self._sums = {}

    def add(self, name, features):
        n, s, q = self._sums.get(name, (0, 0.0, 0.0))
        x = features.double()
        self._sums[name] = (n + len(x), s + x.sum(0), q + (x * x).sum(0))

    def summary(self):
        return {
            name: {"rows": n, "mean": s / n, "std": (q / n - (s / n) ** 2).clamp(min=0).sqrt()}
            for name, (n, s, q) in self._sums.items()
        }


# %% detached-in-place
# misconception: detach_() is detach() without the copy
# fails: test_training_goes_on_as_before
# says: Gradients are the same with and without a log
class FeatureLog:
    def __init__(self):
        self._sums = {}

    def add(self, name, features):
        x = features.detach_().double()
        n, s, q = self._sums.get(name, (0, 0.0, 0.0))
        self._sums[name] = (n + len(x), s + x.sum(0), q + (x * x).sum(0))

    def summary(self):
        return {
            name: {"rows": n, "mean": s / n, "std": (q / n - (s / n) ** 2).clamp(min=0).sqrt()}
            for name, (n, s, q) in self._sums.items()
        }


# %% detached-when-asked
# misconception: it is enough to detach what is handed out
# fails: test_log_does_not_grow, test_log_keeps_no_graph, test_log_shows_what_was_logged, test_log_stays_small, test_no_graph_is_kept, test_training_goes_on_as_before
# says: so many tensors were held for a backward pass
class FeatureLog:
    def __init__(self):
        self._batches = {}

    def add(self, name, features):
        self._batches.setdefault(name, []).append(features)

    @torch.no_grad()
    def summary(self):
        rows = {name: torch.cat(batches).detach() for name, batches in self._batches.items()}
        return {name: {"rows": len(x), "mean": x.mean(0), "std": x.std(0, correction=0)} for name, x in rows.items()}


# %% means-of-means
# misconception: the statistics of all rows are the averages of the batches' statistics
# fails: test_log_does_not_grow, test_log_of_a_few_rows, test_no_graph_is_kept, test_statistics_of_dull_units, test_statistics_of_other_layouts, test_statistics_over_all_rows, test_summaries_are_snapshots
# says: Mean and standard deviation are those of all rows together
class FeatureLog:
    def __init__(self):
        self._running = {}

    def add(self, name, features):
        x = features.detach()
        batches, rows, mean, std = self._running.get(name, (0, 0, 0.0, 0.0))
        self._running[name] = (batches + 1, rows + len(x), mean + x.mean(0), std + x.std(0, correction=0))

    def summary(self):
        return {
            name: {"rows": rows, "mean": mean / batches, "std": std / batches}
            for name, (batches, rows, mean, std) in self._running.items()
        }


# %% sample-deviation
# misconception: std() divides by the number of rows
# fails: test_log_does_not_grow, test_log_of_a_few_rows, test_log_shows_what_was_logged, test_no_graph_is_kept, test_statistics_of_dull_units, test_statistics_of_other_layouts, test_statistics_over_all_rows, test_summaries_are_snapshots, test_training_goes_on_as_before
# says: mean and deviation are (4, 5) and (2.94, 0)
class FeatureLog:
    def __init__(self):
        self._sums = {}

    def add(self, name, features):
        x = features.detach().double()
        n, s, q = self._sums.get(name, (0, 0.0, 0.0))
        self._sums[name] = (n + len(x), s + x.sum(0), q + (x * x).sum(0))

    def summary(self):
        return {
            name: {"rows": n, "mean": s / n, "std": ((q - s * s / n) / (n - 1)).clamp(min=0).sqrt()}
            for name, (n, s, q) in self._sums.items()
        }


# %% not-clamped
# misconception: the mean of squares is never below the square of the mean, in floating point either
# fails: test_log_of_units_that_never_change, test_statistics_of_dull_units
# says: neither a negative one nor NaN
class FeatureLog:
    def __init__(self):
        self._sums = {}

    def add(self, name, features):
        x = features.detach().float()
        n, s, q = self._sums.get(name, (0, 0.0, 0.0))
        self._sums[name] = (n + len(x), s + x.sum(0), q + (x * x).sum(0))

    def summary(self):
        return {
            name: {"rows": n, "mean": s / n, "std": (q / n - (s / n) ** 2).sqrt()}
            for name, (n, s, q) in self._sums.items()
        }


# %% live-summaries
# misconception: a summary that is up to date by itself is a service
# fails: test_summaries_are_snapshots
# says: A summary stays as it is when more is logged
class FeatureLog:
    def __init__(self):
        self._state = {}

    @torch.no_grad()
    def add(self, name, features):
        x = features.double()
        if name not in self._state:
            self._state[name] = [0, x.new_zeros(x.shape[1]), x.new_zeros(x.shape[1])]
        state = self._state[name]
        for row in x:
            state[0] += 1
            before = row - state[1]
            state[1] += before / state[0]
            state[2] += before * (row - state[1])

    def summary(self):
        return {name: {"rows": n, "mean": mean, "std": (m2 / n).sqrt()} for name, (n, mean, m2) in self._state.items()}


# %% exponential-average
# misconception: a running mean is an exponential moving average
# fails: test_log_does_not_grow, test_log_of_a_few_rows, test_no_graph_is_kept, test_statistics_of_dull_units, test_statistics_of_other_layouts, test_statistics_over_all_rows, test_summaries_are_snapshots
# says: Mean and standard deviation are those of all rows together
class FeatureLog:
    def __init__(self):
        self._running = {}

    def add(self, name, features):
        x = features.detach().double()
        new = (len(x), x.mean(0), x.var(0, correction=0))
        if name in self._running:
            rows, mean, variance = self._running[name]
            new = (rows + len(x), 0.9 * mean + 0.1 * new[1], 0.9 * variance + 0.1 * new[2])
        self._running[name] = new

    def summary(self):
        return {
            name: {"rows": rows, "mean": mean.clone(), "std": variance.sqrt()}
            for name, (rows, mean, variance) in self._running.items()
        }


# %% batches-counted
# misconception: a batch is a row of the log
# fails: test_log_does_not_grow, test_log_keeps_no_graph, test_log_of_a_few_rows, test_log_of_units_that_never_change, test_log_shows_what_was_logged, test_log_stays_small, test_no_graph_is_kept, test_statistics_of_dull_units, test_statistics_of_other_layouts, test_statistics_over_all_rows, test_summaries_are_snapshots, test_training_goes_on_as_before
# says: mean and deviation are (4, 5) and (2.94, 0)
class FeatureLog:
    def __init__(self):
        self._sums = {}

    def add(self, name, features):
        x = features.detach().double()
        batches, n, s, q = self._sums.get(name, (0, 0, 0.0, 0.0))
        self._sums[name] = (batches + 1, n + len(x), s + x.sum(0), q + (x * x).sum(0))

    def summary(self):
        return {
            name: {"rows": batches, "mean": s / n, "std": (q / n - (s / n) ** 2).clamp(min=0).sqrt()}
            for name, (batches, n, s, q) in self._sums.items()
        }
