"""Visible tests of exercise 7, sections 4 to 7. They use examples that can be worked out by hand; they are for you."""

import math
import uuid
from collections import Counter

import pytest
import torch

from autograder.checks import assert_matches
from autograder.checks.ranks import outcomes_on_ranks, values_on_ranks
from autograder.errors import Finding

# --- epoch_batches ----------------------------------------------------------------------------------------------------


def _labels_of_epoch(learner, n_samples, batch_size, world_size, epoch, seed):
    """For each rank its batches' labels (a sample's label is its number); and whether images belong to them."""
    from torch.utils.data import TensorDataset

    numbers = torch.arange(n_samples)
    dataset = TensorDataset(numbers[:, None] * torch.tensor([1.0, 0.5]), numbers)
    labels, belong = [], []
    for rank in range(world_size):
        batches = learner.epoch_batches(dataset, batch_size, rank, world_size, epoch, seed)
        labels.append([of_batch.tolist() for _, of_batch in batches])
        belong += [torch.equal(images, dataset.tensors[0][of_batch]) for images, of_batch in batches]
    return labels, all(belong)


@pytest.mark.task("epoch_batches")
@pytest.mark.pitfall("P2")
@pytest.mark.lesson("Each sample once")
def test_three_ranks_share_twelve_samples(submission):
    """Of twelve samples each of three ranks gets four others, in batches of three and one."""
    labels, belong = submission.run(_labels_of_epoch, 12, 3, 3, 0, 5)
    for rank, of_rank in enumerate(labels):
        assert_matches(len(of_rank), 2, what=f"the number of batches of rank {rank}")
        assert_matches([len(batch) for batch in of_rank], [3, 1], what=f"the list of batch sizes of rank {rank}")
    assert_matches(
        sorted(number for of_rank in labels for batch in of_rank for number in batch),
        list(range(12)),
        what="all samples of the three ranks",
    )
    assert belong, "images and labels do not belong together"


@pytest.mark.task("epoch_batches")
@pytest.mark.pitfall("P2")
@pytest.mark.lesson("Each sample once")
def test_three_ranks_share_ten_samples(submission):
    """Ten samples don't divide by three: each of three ranks gets four of them, so that two come twice."""
    labels, _ = submission.run(_labels_of_epoch, 10, 4, 3, 0, 5)
    for rank, of_rank in enumerate(labels):
        assert_matches(sum(map(len, of_rank)), 4, what=f"the number of samples of rank {rank}")
    times = Counter(number for of_rank in labels for batch in of_rank for number in batch)
    assert_matches([times[number] for number in range(10)].count(0), 0, what="the number of samples that no rank has")
    assert_matches(sorted(times.values()), [1] * 8 + [2] * 2, what="how often the ten samples come")


@pytest.mark.task("epoch_batches")
@pytest.mark.pitfall("P3")
@pytest.mark.lesson("Each sample once")
def test_ranks_get_other_samples_in_each_epoch(submission):
    """Two ranks share 24 samples: in three epochs, rank 0 has three different sets of twelve."""
    epochs = [submission.run(_labels_of_epoch, 24, 12, 2, epoch, 5)[0] for epoch in range(3)]
    different = len({frozenset(number for batch in labels[0] for number in batch) for labels in epochs})
    if different < 3:
        raise Finding(f"in three epochs, rank 0 has {different} different set{'s' if different > 1 else ''} of samples")


@pytest.mark.task("epoch_batches")
@pytest.mark.pitfall("P3")
@pytest.mark.lesson("Each sample once")
def test_three_epochs_on_one_rank(submission):
    """One rank alone gets all of twelve samples in each epoch, in three epochs in three orders."""
    orders = []
    for epoch in range(3):
        labels, belong = submission.run(_labels_of_epoch, 12, 12, 1, epoch, 5)
        orders.append([number for batch in labels[0] for number in batch])
        assert_matches(sorted(orders[-1]), list(range(12)), what="the samples of an epoch")
        assert belong, "images and labels do not belong together"
    assert list(range(12)) not in orders, "the samples are in the order of the data set"
    different = len(set(map(tuple, orders)))
    if different < 3:
        raise Finding(f"three epochs have {different} different order{'s' if different > 1 else ''} of the samples")


# --- train_on_ranks ---------------------------------------------------------------------------------------------------


def _two_classes(learner, rank, world_size, starts, inputs, accumulate, lr):
    """Train a linear model with 2 inputs and 2 classes without a bias; each batch is one sample, of class 0."""
    model = torch.nn.Linear(2, 2, bias=False)
    with torch.no_grad():
        model.weight.fill_(starts[rank])
    batches = [(row[None], torch.tensor([0])) for row in inputs[rank]]
    learner.train_on_ranks(model, batches, accumulate, lr)
    return model.weight.detach()


ZERO = torch.tensor([[0.0, 0.0]])
ACROSS = torch.tensor([[1.0, 0.0]])
UP = torch.tensor([[0.0, 1.0]])
# With weights of zero both classes have probability 1/2; a sample x of class 0 has the gradient [-x/2, x/2]. So the
# mean over one sample (1, 0) and one sample (0, 1) is [[-1/4, -1/4], [1/4, 1/4]], and a step goes in this direction:
DIRECTION = torch.tensor([[0.5, 0.5], [-0.5, -0.5]])


@pytest.mark.task("train_on_ranks")
@pytest.mark.pitfall("P10")
@pytest.mark.lesson("What DDP does for you")
def test_rank_1_starts_from_the_model_of_rank_0(submission):
    """Rank 0 starts from weights of 0, rank 1 from 3; then both have the same: 0, moved along the mean gradient."""
    weights = values_on_ranks(submission, _two_classes, 2, [0.0, 3.0], [ACROSS, UP], 1, 0.1)
    assert_matches(weights[1], weights[0], what="the weights on rank 1, compared to those on rank 0")
    assert_matches(weights[0] / weights[0].norm(), DIRECTION, what="the direction of the step")


def _with_statistics(learner, rank, world_size, inputs, accumulate):
    """Train a linear model behind BatchNorm; its running mean on this rank, right after its last forward and now."""
    norm = torch.nn.BatchNorm1d(2)
    seen = []
    norm.register_forward_hook(lambda norm, *_: seen.append(norm.running_mean.clone()))
    model = torch.nn.Sequential(norm, torch.nn.Linear(2, 2, bias=False))
    batches = [(batch, torch.tensor([0, 1])) for batch in inputs[rank]]
    learner.train_on_ranks(model, batches, accumulate, 0.1)
    return seen[-1], norm.running_mean


@pytest.mark.task("train_on_ranks")
@pytest.mark.pitfall("P10")
@pytest.mark.lesson("One rank writes, all ranks wait")
def test_both_ranks_end_with_the_statistics_of_rank_0(submission):
    """After one step, the running mean of a BatchNorm is on both ranks what rank 0 has made of its batch."""
    inputs = [[torch.tensor([[1.0, 0.0], [3.0, 0.0]])], [torch.tensor([[5.0, 5.0], [7.0, 9.0]])]]
    for rank, (_, mean) in enumerate(values_on_ranks(submission, _with_statistics, 2, inputs, 1)):
        assert_matches(mean, torch.tensor([0.2, 0.0]), what=f"the running mean on rank {rank}")


@pytest.mark.task("train_on_ranks")
@pytest.mark.pitfall("P5")
@pytest.mark.lesson("A larger batch, another rate")
def test_two_ranks_twice_the_rate(submission):
    """Two ranks make one step from weights of 0: along the mean gradient [[-1/4, -1/4], [1/4, 1/4]], at rate 2 lr."""
    weights = values_on_ranks(submission, _two_classes, 2, [0.0, 0.0], [ACROSS, UP], 1, 0.4)
    for rank, of_rank in enumerate(weights):
        assert_matches(of_rank, 0.4 * DIRECTION, rtol=1e-5, what=f"the weights on rank {rank}")


@pytest.mark.task("train_on_ranks")
@pytest.mark.pitfall("P5")
@pytest.mark.lesson("A larger batch, another rate")
def test_three_ranks_three_times_the_rate(submission):
    """Three ranks with one sample (1, 1) each make a step from 0: along [[-1/2, -1/2], [1/2, 1/2]], at rate 3 lr."""
    inputs = [ACROSS + UP] * 3
    weights = values_on_ranks(submission, _two_classes, 3, [0.0, 0.0, 0.0], inputs, 1, 0.4)
    for rank, of_rank in enumerate(weights):
        assert_matches(of_rank, 1.2 * DIRECTION, rtol=1e-5, what=f"the weights on rank {rank}")


@pytest.mark.task("train_on_ranks")
@pytest.mark.pitfall("P12")
@pytest.mark.lesson("Accumulating without talking")
def test_four_batches_one_exchange(submission):
    """A step of four batches takes as many collective calls as a step of one, and moves the weights the same way."""
    counts = {}
    for n, inputs in ((1, [ACROSS, UP]), (4, [ACROSS.expand(4, 2), UP.expand(4, 2)])):
        outcomes = outcomes_on_ranks(submission, _two_classes, 2, [0.0, 0.0], inputs, n, 0.1)
        for outcome in outcomes:
            assert_matches(outcome["value"] / outcome["value"].norm(), DIRECTION, what="the direction of the step")
        counts[n] = outcomes[0]["collectives"]
    if counts[4] != counts[1]:
        took = f"a step of 4 batches took {counts[4]} collective calls, a step of 1 batch took {counts[1]}"
        raise Finding(f"{took}, those before the first step included")


# --- evaluate ---------------------------------------------------------------------------------------------------------


def _score_by_hand(learner, rank, world_size, batches, wrap):
    """Score with a model whose scores are its inputs, but for BatchNorm statistics that differ from rank to rank."""
    norm = torch.nn.BatchNorm1d(2, eps=1e-12)
    norm.running_mean += rank  # the same for both classes, so probabilities don't change
    model = torch.nn.parallel.DistributedDataParallel(norm) if wrap else norm
    if wrap:
        norm.running_mean.fill_(rank)  # the wrapping has just made it equal
    result = learner.evaluate(model, batches[rank])
    return result, norm.running_mean


def _batch(*rows):
    inputs, labels = zip(*rows, strict=True)
    return torch.tensor(inputs), torch.tensor(labels)


RIGHT = ([math.log(3.0), 0.0], 0)  # the classes' probabilities are 3/4 and 1/4
WRONG = ([math.log(3.0), 0.0], 1)


@pytest.mark.task("evaluate")
@pytest.mark.pitfall("P13")
@pytest.mark.lesson("Metrics over all ranks")
def test_three_right_on_one_rank_one_wrong_on_the_other(submission):
    """Rank 0 has three samples, all right; rank 1 has one, and it is wrong: on both ranks, the accuracy is 0.75."""
    batches = [[_batch(RIGHT, RIGHT), _batch(RIGHT)], [_batch(WRONG)]]
    loss = -(3 * math.log(0.75) + math.log(0.25)) / 4
    for result, _ in values_on_ranks(submission, _score_by_hand, 2, batches, False):
        assert_matches(result["accuracy"], 0.75, rtol=1e-5, what="the accuracy")
        assert_matches(result, {"loss": loss, "accuracy": 0.75}, rtol=1e-5)
        assert all(isinstance(value, float) for value in result.values()), "the results are no Python floats"


@pytest.mark.task("evaluate")
@pytest.mark.pitfall("P4")
@pytest.mark.lesson("One rank writes, all ranks wait")
def test_a_wrapped_model_keeps_its_statistics(submission):
    """A wrapped model on two ranks, one batch each: right results; each rank's BatchNorm statistics stay its own."""
    batches = [[_batch(RIGHT, WRONG)], [_batch(RIGHT, RIGHT)]]
    loss = -(3 * math.log(0.75) + math.log(0.25)) / 4
    for rank, (result, running_mean) in enumerate(values_on_ranks(submission, _score_by_hand, 2, batches, True)):
        assert_matches(result, {"loss": loss, "accuracy": 0.75}, rtol=1e-5)
        assert_matches(running_mean, torch.full((2,), float(rank)), what=f"the running mean of rank {rank} afterwards")


def _score_by_parts(learner, rank, world_size, batches):
    """Score with a plain model that has a part called `module`, which is in eval mode; the modes afterwards."""

    class Swapped(torch.nn.Module):
        """Its scores are its inputs in reverse order."""

        def __init__(self):
            super().__init__()
            self.module = torch.nn.BatchNorm1d(2, eps=1e-12)

        def forward(self, x):
            return self.module(x).flip(1)

    model = Swapped()
    model.module.eval()
    result = learner.evaluate(model, batches[rank])
    return result, {"model": model.training, "model.module": model.module.training}


@pytest.mark.task("evaluate")
@pytest.mark.pitfall("P4")
@pytest.mark.lesson("One rank writes, all ranks wait")
def test_a_part_that_is_called_module(submission):
    """A plain model in train mode, whose part `module` is in eval mode: it is scored as a whole, and its modes stay."""
    batches = [
        [_batch(RIGHT, RIGHT, RIGHT)],
        [_batch(WRONG)],
    ]  # the model reverses the scores, so all but one are wrong
    for rank, (result, modes) in enumerate(values_on_ranks(submission, _score_by_parts, 2, batches)):
        assert_matches(result["accuracy"], 0.25, rtol=1e-5, what="the accuracy")
        for name, expected in (("model", True), ("model.module", False)):
            assert_matches(modes[name], expected, what=f"`{name}.training` afterwards on rank {rank}")


@pytest.mark.task("evaluate")
@pytest.mark.pitfall("P4")
@pytest.mark.lesson("One rank writes, all ranks wait")
def test_a_rank_that_has_nothing_to_score(submission):
    """Rank 0 has two batches for a wrapped model, rank 1 has none: both come back, with the same result."""
    batches = [[_batch(RIGHT, RIGHT), _batch(RIGHT, WRONG)], []]
    for result, _ in values_on_ranks(submission, _score_by_hand, 2, batches, True, timeout=10):
        assert_matches(result["accuracy"], 0.75, rtol=1e-5, what="the accuracy")


# --- save_checkpoint --------------------------------------------------------------------------------------------------


def _saved(learner, rank, world_size, folder, wrap, slow):
    """Save a layer that is full of the rank's number plus one, each rank to a folder of its own on the same disk.

    What the file of rank 0 holds as soon as this rank has come back (only rank 0 looks, if its disk is not slow), and
    the files in this rank's folder.
    """
    import os
    import tempfile
    import time

    folders = [os.path.join(tempfile.gettempdir(), folder, f"rank{i}") for i in range(world_size)]
    os.makedirs(folders[rank])
    model = torch.nn.Linear(2, 1)
    if wrap:
        model = torch.nn.parallel.DistributedDataParallel(model)
    torch.distributed.group.WORLD.barrier().wait()  # not counted among your calls, as `dist.barrier` would be
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.fill_(rank + 1.0)
    save = torch.save

    def slow_save(*args, **kwargs):
        time.sleep(0.3)
        save(*args, **kwargs)

    if slow and rank == 0:
        torch.save = slow_save
    learner.save_checkpoint(model, os.path.join(folders[rank], "model.pt"))
    state = None
    path = os.path.join(folders[0], "model.pt")
    if (slow or rank == 0) and os.path.exists(path):
        state = dict(torch.load(path))
    return state, sorted(os.listdir(folders[rank]))


@pytest.mark.task("save_checkpoint")
@pytest.mark.pitfall("P4")
@pytest.mark.lesson("One rank writes, all ranks wait")
def test_rank_0_writes_and_both_come_back(submission):
    """Two ranks save a layer: rank 0 writes its own weights, rank 1 nothing; both come back when that is done."""
    for rank, (state, files) in enumerate(values_on_ranks(submission, _saved, 2, uuid.uuid4().hex, False, True)):
        if state is None:
            raise Finding(f"when rank {rank} comes back, there is no new file on rank 0's disk")
        assert_matches(state, {"weight": torch.ones(1, 2), "bias": torch.ones(1)}, what="what is in the file")
        assert_matches(files, ["model.pt"] if rank == 0 else [], what=f"the list of files that rank {rank} has written")


@pytest.mark.task("save_checkpoint")
@pytest.mark.pitfall("P4")
@pytest.mark.lesson("One rank writes, all ranks wait")
def test_the_file_has_the_names_of_the_plain_model(submission):
    """A wrapped layer is saved as `weight` and `bias`, those of rank 0."""
    state, _ = values_on_ranks(submission, _saved, 2, uuid.uuid4().hex, True, False)[0]
    if state is None:
        raise Finding("when rank 0 comes back, there is no new file on its disk")
    assert_matches(state, {"weight": torch.ones(1, 2), "bias": torch.ones(1)}, what="what is in the file")


def _cut_off(learner, rank, world_size):
    """Save a layer, then another one, whose saving fails halfway; what is at the path in the end."""
    import os
    import tempfile

    class Last:
        """Comes after the weights, when the disk is full."""

        def __reduce__(self):
            raise OSError("No space left on device")

    class TooLarge(torch.nn.Linear):
        def get_extra_state(self):
            return Last()

    path = os.path.join(tempfile.mkdtemp(), "model.pt")
    small = torch.nn.Linear(2, 1, bias=False)
    torch.nn.init.ones_(small.weight)
    learner.save_checkpoint(small, path)
    try:
        learner.save_checkpoint(TooLarge(2, 1, bias=False), path)
        raised = False
    except Exception:
        raised = True
    try:
        return raised, dict(torch.load(path))
    except Exception:
        return raised, None


@pytest.mark.task("save_checkpoint")
@pytest.mark.pitfall("P4")
@pytest.mark.lesson("One rank writes, all ranks wait")
def test_half_a_checkpoint(submission):
    """When the disk gets full halfway, rank 0 raises, and the checkpoint from before is still at the path, complete."""
    ((raised, state),) = values_on_ranks(submission, _cut_off, 1)
    if state is None:
        raise Finding("after a save that was cut off, there is no file at the path that can be read")
    assert_matches(state, {"weight": torch.ones(1, 2)}, what="what is in the file")
    assert raised, "the save was cut off, and `save_checkpoint` raised nothing"
