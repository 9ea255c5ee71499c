"""Hidden tests of exercise 7, sections 4 to 7: other shapes, more ranks, more steps, ranks with less to do."""

import uuid
from collections import Counter

import pytest
import torch

from autograder.checks import assert_matches
from autograder.checks.ranks import outcomes_on_ranks, values_on_ranks
from autograder.errors import Finding

# --- epoch_batches ----------------------------------------------------------------------------------------------------


def _epochs(learner, n_samples, batch_size, world_size, epochs, seed):
    """By epoch and rank: the batches, of samples whose label is their number."""
    from torch.utils.data import TensorDataset

    numbers = torch.arange(n_samples)
    dataset = TensorDataset(numbers[:, None, None].float().expand(-1, 2, 3), numbers)
    found = []
    for position, epoch in enumerate(epochs):
        by_rank = []
        for rank in range(world_size):
            torch.manual_seed(17 * position + rank)  # must not matter
            batches = learner.epoch_batches(dataset, batch_size, rank, world_size, epoch, seed)
            by_rank.append([(images, labels) for images, labels in batches])
        found.append(by_rank)
    return found


def _numbers(by_rank):
    """The samples of each rank, a list of lists; checks that images, labels and sizes of batches fit."""
    for batches in by_rank:
        for images, labels in batches:
            assert_matches(labels.dtype, torch.int64, what="the dtype of the labels")
            expected = labels[:, None, None].float().expand(-1, 2, 3)
            assert_matches(images, expected, what="the images of the labels")
    return [[number for _, labels in batches for number in labels.tolist()] for batches in by_rank]


@pytest.mark.task("epoch_batches")
@pytest.mark.pitfall("P2")
@pytest.mark.lesson("Each sample once")
def test_ranks_share_the_samples(submission):
    """No sample is left out, all ranks have equally many, no more than needed, in batches of the size asked for."""
    for n_samples, batch_size, world_size in ((24, 5, 2), (23, 4, 3), (7, 2, 4), (2, 3, 5), (9, 9, 3)):
        (by_rank,) = submission.run(_epochs, n_samples, batch_size, world_size, [2], 1)
        share = -(-n_samples // world_size)
        sizes = [batch_size] * (share // batch_size) + [share % batch_size] * (share % batch_size > 0)
        found = [[len(labels) for _, labels in batches] for batches in by_rank]
        assert_matches(found, [sizes] * world_size, what="the sizes of the batches")
        times = Counter(sum(_numbers(by_rank), []))
        assert_matches(sorted(times), list(range(n_samples)), what="the samples")
        most, least = max(times.values()), min(times.values())
        if most - least > 1:
            raise Finding(f"one sample comes {most} times, another {least} time{'s' if least > 1 else ''}")


@pytest.mark.task("epoch_batches")
@pytest.mark.pitfall("P3")
@pytest.mark.lesson("Each sample once")
def test_each_epoch_divides_the_samples_anew(submission):
    """From epoch to epoch, each rank gets other samples, in another order, none twice, and all ranks get all of them."""
    for world_size in (2, 3):
        epochs = submission.run(_epochs, 42, 7, world_size, [0, 1, 2, 7], 3)
        numbers = [_numbers(by_rank) for by_rank in epochs]
        for of_epoch in numbers:
            assert_matches(sorted(sum(of_epoch, [])), list(range(42)), what="the samples of an epoch")
        for rank in range(world_size):
            different = len({frozenset(of_epoch[rank]) for of_epoch in numbers})
            if different < 4:
                raise Finding(f"in four epochs a rank has {different} different selection(s) of the samples")


@pytest.mark.task("epoch_batches")
@pytest.mark.pitfall("P3")
@pytest.mark.lesson("Each sample once")
def test_one_rank_alone_shuffles_too(submission):
    """With one rank: all samples in each epoch, in orders that differ from each other and from that of the data."""
    numbers = [_numbers(by_rank)[0] for by_rank in submission.run(_epochs, 30, 4, 1, [0, 1, 2, 3], 8)]
    for of_epoch in numbers:
        assert_matches(sorted(of_epoch), list(range(30)), what="the samples of an epoch")
    different = len({tuple(order) for order in [*numbers, list(range(30))]})
    if different < 5:
        raise Finding(f"four epochs and the data have {different} different orders")


@pytest.mark.task("epoch_batches")
@pytest.mark.pitfall("P3")
@pytest.mark.lesson("Each sample once")
def test_an_epoch_comes_out_the_same_again(submission):
    """The same arguments give the same batches, in whatever order epochs are asked for; another seed gives others."""
    there = submission.run(_epochs, 20, 6, 2, [0, 1, 2, 3], 5)
    back = submission.run(_epochs, 20, 6, 2, [3, 1, 0, 2], 5)
    other = submission.run(_epochs, 20, 6, 2, [3], 6)
    again = {epoch: _numbers(by_rank) for epoch, by_rank in zip([3, 1, 0, 2], back, strict=True)}
    for epoch, by_rank in enumerate(there):
        assert_matches(_numbers(by_rank), again[epoch], what="the samples of the same epoch, asked for again")
    if _numbers(other[0]) == again[3]:
        raise Finding("another seed gives the same order")


# --- train_on_ranks ---------------------------------------------------------------------------------------------------


def _trained(learner, rank, world_size, starts, shifts, batches, accumulate, lr, frozen=()):
    """Train a network with a buffer, each rank from its own start; parameters and buffers afterwards."""
    from autograder.instruments import mlp

    class Shift(torch.nn.Module):
        def __init__(self, shift):
            super().__init__()
            self.register_buffer("shift", shift.clone())

        def forward(self, x):
            return x - self.shift

    layers = [Shift(shifts[rank])] if shifts else []
    model = torch.nn.Sequential(*layers, mlp(starts[rank]))
    for i, parameter in enumerate(model.parameters()):
        parameter.requires_grad_(i not in frozen)
    learner.train_on_ranks(model, batches[rank], accumulate, lr)
    return {name: value.detach() for name, value in model.state_dict().items()}


class _Alone:
    """Lets the probe above run the reference: one process in the place of all ranks."""

    def __init__(self, reference):
        self.reference = reference

    def train_on_ranks(self, model, batches_of_ranks, accumulate, lr):
        self.reference.trained_alone(model, batches_of_ranks, accumulate, lr)


def _starts(seed, n, *sizes):
    generator = torch.Generator().manual_seed(seed)

    def draw(*shape):
        return torch.randn(shape, generator=generator, dtype=torch.float64)

    return [
        [draw(*shape) for i, o in zip(sizes[:-1], sizes[1:], strict=True) for shape in ((o, i), (o,))] for _ in range(n)
    ], [draw(sizes[0]) for _ in range(n)]


def _own_batches(digits, seed, n_ranks, n_batches, size):
    images, labels = digits(seed=seed, n=n_ranks * n_batches * size)
    batches = list(zip(images.double().split(size), labels.split(size), strict=True))
    return [batches[rank::n_ranks] for rank in range(n_ranks)]


def _expected(reference, starts, shifts, batches, accumulate, lr, frozen=()):
    return _trained(_Alone(reference), 0, 1, starts, shifts, [batches], accumulate, lr, frozen)


@pytest.mark.task("train_on_ranks")
@pytest.mark.pitfall("P10", "P5")
@pytest.mark.lesson("What DDP does for you")
def test_as_one_process_would(submission, reference, digits):
    """Ranks that start apart end with the parameters and buffers that one process gets from rank 0's start."""
    for world_size, n_batches, size, accumulate, frozen in ((2, 6, 3, 2, ()), (3, 4, 5, 1, (0,))):
        starts, shifts = _starts(71 + world_size, world_size, 64, 5, 10)
        batches = _own_batches(digits, 72, world_size, n_batches, size)
        args = (starts, shifts, batches, accumulate, 0.2, frozen)
        expected = _expected(reference, *args)
        for rank, state in enumerate(values_on_ranks(submission, _trained, world_size, *args)):
            assert_matches(state, expected, rtol=1e-6, what=f"the model of rank {rank}")


@pytest.mark.task("train_on_ranks")
@pytest.mark.pitfall("P5")
@pytest.mark.lesson("A larger batch, another rate")
def test_the_rate_grows_with_the_ranks(submission, reference, digits):
    """With one start for all, one and three ranks make the steps of one process, at the rate of the linear rule."""
    starts, _ = _starts(73, 1, 64, 10)
    for world_size, accumulate in ((1, 1), (3, 3)):
        args = (starts * world_size, [], _own_batches(digits, 74, world_size, 3 * accumulate, 2), accumulate, 0.05)
        expected = _expected(reference, *args)
        for state in values_on_ranks(submission, _trained, world_size, *args):
            assert_matches(state, expected, rtol=1e-6, what="the trained model")


@pytest.mark.task("train_on_ranks")
@pytest.mark.pitfall("P12")
@pytest.mark.lesson("Accumulating without talking")
def test_steps_of_many_batches_talk_no_more(submission, reference, digits):
    """Three steps of five batches take as many collective calls as three steps of one, and are the steps of one process."""
    starts, _ = _starts(75, 1, 64, 6, 10)
    counts = {}
    for accumulate in (1, 5):
        args = (starts * 2, [], _own_batches(digits, 76, 2, 3 * accumulate, 2), accumulate, 0.1)
        expected = _expected(reference, *args)
        outcomes = outcomes_on_ranks(submission, _trained, 2, *args)
        for outcome in outcomes:
            assert_matches(outcome["value"], expected, rtol=1e-6, what="the trained model")
        counts[accumulate] = max(outcome["collectives"] for outcome in outcomes)
    if counts[5] != counts[1]:
        took = f"3 steps of 5 batches took {counts[5]} collective calls, 3 steps of 1 batch took {counts[1]}"
        raise Finding(f"{took}, those before the first step included")


def _with_statistics(learner, rank, world_size, batches, accumulate):
    """Train a network with two BatchNorms: this rank's buffers, right after their last forward and at the end."""
    torch.manual_seed(rank)
    norms = [torch.nn.BatchNorm1d(64), torch.nn.BatchNorm1d(10, affine=False)]
    norms[0].running_var.fill_(rank + 1.0)
    last = {}

    def note(norm, *_):
        last[norms.index(norm)] = [buffer.clone() for buffer in norm.buffers()]

    for norm in norms:
        norm.register_forward_hook(note)
    model = torch.nn.Sequential(norms[0], torch.nn.Linear(64, 10), norms[1]).double()
    learner.train_on_ranks(model, batches[rank], accumulate, 0.1)
    return last[0] + last[1], list(model.buffers())


@pytest.mark.task("train_on_ranks")
@pytest.mark.pitfall("P10")
@pytest.mark.lesson("One rank writes, all ranks wait")
def test_statistics_are_those_of_rank_0_on_all(submission, digits):
    """Each rank has other batches; at the end each has the statistics, and the counts, that rank 0 has made."""
    for world_size, accumulate in ((2, 3), (3, 1)):
        batches = _own_batches(digits, 77, world_size, 3, 4)
        ended = values_on_ranks(submission, _with_statistics, world_size, batches, accumulate)
        for rank, (_, buffers) in enumerate(ended):
            assert_matches(buffers, ended[0][0], what=f"the buffers on rank {rank}")


# --- evaluate ---------------------------------------------------------------------------------------------------------


def _scored(learner, rank, world_size, weights, batches, wrap, different, modes=None):
    """Score with a model of all kinds of layers; the result, what has changed, and this rank's own scores."""
    from autograder.instruments import mlp

    torch.manual_seed(rank)  # for Dropout, should it be at work
    first, last = mlp(weights[:2]), mlp(weights[2:])
    norm = torch.nn.BatchNorm1d(weights[0].shape[0])
    model = torch.nn.Sequential(first, norm, torch.nn.Dropout(0.5), last)
    whole = torch.nn.parallel.DistributedDataParallel(model) if wrap else model
    norm.running_mean += 0.3 + 0.4 * different * rank
    norm.running_var *= 2.0
    for module, mode in zip(whole.modules(), modes or [True] * 10, strict=False):
        module.training = mode
    for parameter in model.parameters():
        parameter.grad = torch.full_like(parameter, 2.0)

    def snapshot():
        return {
            "modes": [module.training for module in whole.modules()],
            "state": {name: value.clone() for name, value in model.state_dict().items()},
            "gradients": [None if p.grad is None else p.grad.clone() for p in model.parameters()],
            "grad mode": torch.is_grad_enabled(),
        }

    before = snapshot()
    result = learner.evaluate(whole, batches[rank])
    after = snapshot()
    model.eval()
    inputs = torch.cat([torch.zeros(0, 64), *(inputs for inputs, _ in batches[rank])])
    with torch.no_grad():
        return result, before, after, model(inputs)


def _scoring(digits, seed, sizes_of_ranks):
    """Weights, and for each rank batches of the given sizes."""
    generator = torch.Generator().manual_seed(seed)
    weights = [torch.randn(shape, generator=generator) for shape in ((6, 64), (6,), (10, 6), (10,))]
    images, labels = digits(seed=seed, n=sum(map(sum, sizes_of_ranks)))
    batches, first = [], 0
    for sizes in sizes_of_ranks:
        batches.append([])
        for size in sizes:
            batches[-1].append((images[first : first + size], labels[first : first + size]))
            first += size
    return weights, batches, labels


def _own_scores(weights, batches, rank, different):
    """The scores in eval mode, worked out from the weights."""
    inputs = torch.cat([torch.zeros(0, 64), *(inputs for inputs, _ in batches)]).double()
    w1, b1, w2, b2 = (weight.double() for weight in weights)
    hidden = (inputs @ w1.T + b1 - (0.3 + 0.4 * different * rank)) / (2.0 + 1e-5) ** 0.5
    return hidden @ w2.T + b2


def _check_scores(submission, reference, digits, seed, sizes_of_ranks, wrap, different, modes=None, timeout=20.0):
    weights, batches, labels = _scoring(digits, seed, sizes_of_ranks)
    world_size = len(sizes_of_ranks)
    scores = torch.cat([_own_scores(weights, of_rank, rank, different) for rank, of_rank in enumerate(batches)])
    expected = reference.scores_alone(scores, labels)
    args = (weights, batches, wrap, different, modes)
    found = values_on_ranks(submission, _scored, world_size, *args, timeout=timeout)
    for rank, (result, before, after, _) in enumerate(found):
        assert_matches(result, expected, rtol=1e-4, what=f"the result on rank {rank}")
        assert all(isinstance(value, float) for value in result.values()), "the results are no Python floats"
        assert_matches(after, before, rtol=0.0, atol=0.0, what=f"what should not change, on rank {rank},")


@pytest.mark.task("evaluate")
@pytest.mark.pitfall("P13")
@pytest.mark.lesson("Metrics over all ranks")
def test_each_sample_counts_the_same(submission, reference, digits):
    """However 7 samples are divided among two or three ranks, the results on all of them are those of one process."""
    for seed, sizes in ((81, [[3, 2], [2]]), (82, [[1], [3, 1, 1], [1]])):
        _check_scores(submission, reference, digits, seed, sizes, wrap=False, different=False)


@pytest.mark.task("evaluate")
@pytest.mark.pitfall("P13")
@pytest.mark.lesson("Metrics over all ranks")
def test_a_rank_without_samples(submission, reference, digits):
    """A rank that has no batch at all comes to the same result as the others."""
    for seed, sizes in ((83, [[], [4, 1]]), (84, [[5], [], [2]])):
        _check_scores(submission, reference, digits, seed, sizes, wrap=False, different=False)


@pytest.mark.task("evaluate")
@pytest.mark.pitfall("P4")
@pytest.mark.lesson("One rank writes, all ranks wait")
def test_wrapped_models_stay_as_they_are(submission, reference, digits):
    """Wrapped, in several patterns of modes: right results, and on each rank the model is afterwards as it was."""
    modes = [True, False, True, False, True, False, True]
    _check_scores(submission, reference, digits, 85, [[3], [3]], wrap=True, different=True, modes=modes)
    _check_scores(submission, reference, digits, 86, [[2, 2]] * 3, wrap=True, different=True)


def _scored_by_parts(learner, rank, world_size, batches, wrap):
    """Score with a model one layer of which is called `module`."""

    class Named(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.module = torch.nn.Linear(64, 10)
            with torch.no_grad():
                for number, parameter in enumerate(self.parameters()):
                    parameter.copy_(torch.arange(parameter.numel()).view_as(parameter) % 7 / 7 + number)

        def forward(self, x):
            return -self.module(x) * torch.arange(10)

    model = torch.nn.parallel.DistributedDataParallel(Named()) if wrap else Named()
    result = learner.evaluate(model, batches[rank])
    with torch.no_grad():
        return result, Named()(torch.cat([images for of_rank in batches for images, _ in of_rank]))


@pytest.mark.task("evaluate")
@pytest.mark.lesson("One rank writes, all ranks wait")
def test_layers_may_have_any_name(submission, reference, digits):
    """A plain model, and a wrapped one, with a layer that is called `module`: scored as a whole."""
    _, batches, labels = _scoring(digits, 88, [[3], [2]])
    for wrap in (False, True):
        for result, scores in values_on_ranks(submission, _scored_by_parts, 2, batches, wrap):
            assert_matches(result, reference.scores_alone(scores, labels), rtol=1e-4, what="the result")


@pytest.mark.task("evaluate")
@pytest.mark.pitfall("P4")
@pytest.mark.lesson("One rank writes, all ranks wait")
def test_no_rank_waits_for_one_without_batches(submission, reference, digits):
    """A wrapped model, two batches on one rank and none on the other: both come back, with right results."""
    _check_scores(submission, reference, digits, 87, [[4, 3], []], wrap=True, different=False, timeout=8.0)


# --- save_checkpoint --------------------------------------------------------------------------------------------------


def _saved(learner, rank, world_size, folder, wrap, slow):
    """Save over an old file, each rank with a folder of its own.

    What rank 0's file holds as soon as this rank has come back (only rank 0 looks, if its disk is not slow); what is in
    this rank's folder; what a reader sees who had opened the old file before.
    """
    import os
    import tempfile
    import time

    folders = [os.path.join(tempfile.gettempdir(), folder, f"rank{i}") for i in range(world_size)]
    os.makedirs(folders[rank])
    path = os.path.join(folders[rank], "model.pt")
    with open(path, "wb") as file:
        file.write(b"the old file")
    model = torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.BatchNorm1d(2), torch.nn.Linear(2, 4, bias=False))
    whole = torch.nn.parallel.DistributedDataParallel(model) if wrap else model
    torch.distributed.group.WORLD.barrier().wait()  # not counted among the learner's calls, as `dist.barrier` would be
    with torch.no_grad():
        for i, value in enumerate(model.state_dict().values()):
            value.copy_(torch.arange(value.numel()).view_as(value) + 10 * i + 1000 * rank)
    if slow and rank == 0:  # a slow disk
        save = torch.save

        def slow_save(*args, **kwargs):
            time.sleep(0.3)
            save(*args, **kwargs)

        torch.save = slow_save
    with open(path, "rb") as reader:
        learner.save_checkpoint(whole, path)
        seen = reader.read() == b"the old file"
    with open(path, "rb") as file:
        untouched = file.read() == b"the old file"
    state = None
    if slow or rank == 0:
        try:
            state = dict(torch.load(os.path.join(folders[0], "model.pt")))
        except Exception:
            state = {}
    return state, sorted(os.listdir(folders[rank])), seen, untouched


def _check_saved(found):
    expected = {}
    shapes = {"0.weight": (2, 3), "0.bias": (2,), "1.weight": (2,), "1.bias": (2,), "1.running_mean": (2,)}
    shapes |= {"1.running_var": (2,), "1.num_batches_tracked": (), "2.weight": (4, 2)}
    for i, (name, shape) in enumerate(shapes.items()):
        dtype = torch.int64 if name.endswith("tracked") else torch.float32
        expected[name] = (torch.arange(torch.Size(shape).numel()).view(shape) + 10 * i).to(dtype)
    for rank, (state, files, _, untouched) in enumerate(found):
        if state == {}:
            raise Finding(f"when rank {rank} comes back, there is no new file on rank 0's disk")
        if state is not None:
            assert_matches(state, expected, what=f"what rank {rank} finds in the file")
        assert_matches(files, ["model.pt"], what=f"the list of files in the folder of rank {rank}")
        if untouched != (rank > 0):
            raise Finding(f"rank {rank} has {'not ' if untouched else ''}written a file")


@pytest.mark.task("save_checkpoint")
@pytest.mark.pitfall("P4")
@pytest.mark.lesson("One rank writes, all ranks wait")
def test_rank_0_alone_writes(submission):
    """Of two or three ranks, plain or wrapped, rank 0 alone writes: its own parameters and buffers, by plain names."""
    _check_saved(values_on_ranks(submission, _saved, 2, uuid.uuid4().hex, False, False))
    _check_saved(values_on_ranks(submission, _saved, 3, uuid.uuid4().hex, True, False))


@pytest.mark.task("save_checkpoint")
@pytest.mark.pitfall("P4")
@pytest.mark.lesson("One rank writes, all ranks wait")
def test_all_wait_for_a_slow_disk(submission):
    """Rank 0's disk is slow: when the other rank comes back, the whole new file is there nevertheless."""
    _check_saved(values_on_ranks(submission, _saved, 2, uuid.uuid4().hex, False, True))


@pytest.mark.task("save_checkpoint")
@pytest.mark.pitfall("P4")
@pytest.mark.lesson("One rank writes, all ranks wait")
def test_readers_of_the_old_file_keep_it(submission):
    """The new file takes the place of the old one: who had opened the old one before can still read all of it."""
    found = values_on_ranks(submission, _saved, 1, uuid.uuid4().hex, False, False)
    _check_saved(found)
    if not found[0][2]:
        raise Finding("the old file was written over in place")


def _saved_by_parts(learner, rank, world_size, wrap):
    """Save a model one layer of which is called `module`; the names in the file."""
    import os
    import tempfile

    model = torch.nn.ModuleDict({"module": torch.nn.Linear(2, 1), "head": torch.nn.Linear(1, 1, bias=False)})
    path = os.path.join(tempfile.mkdtemp(), "model.pt")
    learner.save_checkpoint(torch.nn.parallel.DistributedDataParallel(model) if wrap else model, path)
    return sorted(torch.load(path)) if rank == 0 else None


@pytest.mark.task("save_checkpoint")
@pytest.mark.lesson("One rank writes, all ranks wait")
def test_names_that_begin_with_module_by_right(submission):
    """A layer that is called `module` keeps its name, in a plain model and in a wrapped one."""
    for wrap in (False, True):
        names, _ = values_on_ranks(submission, _saved_by_parts, 2, wrap)
        assert_matches(names, ["head.weight", "module.bias", "module.weight"], what="the names in the file")


def _failed_save(learner, rank, world_size):
    """Save a layer, then one that cannot be saved; what the file holds in the end."""
    import os
    import tempfile

    class Unsaved(torch.nn.Linear):
        def get_extra_state(self):
            return lambda: None  # can't be pickled

    path = os.path.join(tempfile.mkdtemp(), "model.pt")
    good, bad = torch.nn.Linear(2, 1), Unsaved(2, 1)
    with torch.no_grad():
        for i, parameter in enumerate(good.parameters()):
            parameter.fill_(i + 1.0)
    learner.save_checkpoint(good, path)
    try:
        learner.save_checkpoint(bad, path)
    except Exception:
        pass  # as it should be
    try:
        return dict(torch.load(path))
    except Exception:
        return {}


@pytest.mark.task("save_checkpoint")
@pytest.mark.pitfall("P4")
@pytest.mark.lesson("One rank writes, all ranks wait")
def test_a_failed_save_leaves_the_old_file(submission):
    """When saving fails halfway, the file that was there before is still there, and complete."""
    (state,) = values_on_ranks(submission, _failed_save, 1)
    if not state:
        raise Finding("after a save that failed, there is no file that can be read")
    assert_matches(state, {"weight": torch.ones(1, 2), "bias": torch.full((1,), 2.0)}, what="what is in the file")
