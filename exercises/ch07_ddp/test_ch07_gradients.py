"""Visible tests of exercise 7: how ranks meet, and how their gradients come together. They use examples that can be
worked out by hand; read them, they are meant for you.
"""

import math
import re

import pytest
import torch

from autograder.checks import assert_matches
from autograder.checks.own_test_on_ranks import rejection_on_ranks
from autograder.checks.ranks import outcomes_on_ranks, values_on_ranks
from autograder.errors import Finding

# --- process_group_settings -------------------------------------------------------------------------------------------

# two machines with two processes each
TORCHRUN = {"WORLD_SIZE": "4", "LOCAL_WORLD_SIZE": "2", "MASTER_ADDR": "10.1.0.7", "MASTER_PORT": "29400"}


@pytest.mark.task("process_group_settings")
@pytest.mark.lesson("Ranks, and how they meet")
def test_settings_of_the_first_process(submission):
    """Rank 0 of two, on a machine with two cards."""
    environment = {
        "RANK": "0",
        "LOCAL_RANK": "0",
        "WORLD_SIZE": "2",
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": "29512",
    }
    expected = {
        "backend": "nccl",
        "init_method": "tcp://127.0.0.1:29512",
        "rank": 0,
        "world_size": 2,
        "device": "cuda:0",
    }
    assert_matches(submission.process_group_settings(environment, "cuda"), expected, what="the settings")


@pytest.mark.task("process_group_settings")
@pytest.mark.pitfall("P8")
@pytest.mark.lesson("Ranks, and how they meet")
def test_cards_are_counted_on_each_machine(submission):
    """Ranks 2 and 3 are the only two processes of the second machine, which has the cards 0 and 1."""
    for rank, local_rank in ((2, 0), (3, 1)):
        environment = TORCHRUN | {"RANK": str(rank), "LOCAL_RANK": str(local_rank)}
        settings = submission.process_group_settings(environment, "cuda")
        assert_matches(settings["device"], f"cuda:{local_rank}", what=f"the device of rank {rank}")
        assert_matches(settings["rank"], rank, what="the rank")
        assert_matches(settings["world_size"], 4, what="the world size")


@pytest.mark.task("process_group_settings")
@pytest.mark.pitfall("P7")
@pytest.mark.lesson("Ranks, and how they meet")
def test_all_meet_where_the_first_rank_listens(submission):
    """The address and the port are those that the environment has."""
    for address, port in (("10.1.0.7", "29400"), ("trainer-0.example", "1234")):
        environment = {"RANK": "1", "LOCAL_RANK": "1", "WORLD_SIZE": "4", "MASTER_ADDR": address, "MASTER_PORT": port}
        settings = submission.process_group_settings(environment, "cpu")
        assert_matches(settings["init_method"], f"tcp://{address}:{port}", what="the place to meet")


@pytest.mark.task("process_group_settings")
@pytest.mark.pitfall("P7")
@pytest.mark.lesson("Ranks, and how they meet")
def test_backend_goes_with_the_device(submission):
    """Processes on the CPU talk by gloo, those on CUDA by nccl."""
    for device_type, backend, device in (("cpu", "gloo", "cpu"), ("cuda", "nccl", "cuda:1")):
        settings = submission.process_group_settings(TORCHRUN | {"RANK": "1", "LOCAL_RANK": "1"}, device_type)
        assert_matches(settings["backend"], backend, what=f"the backend for {device_type}")
        assert_matches(settings["device"], device, what="the device")


def _complaint(function, environment, device_type):
    try:
        function(environment, device_type)
    except ValueError as error:
        return str(error)
    return None


@pytest.mark.task("process_group_settings")
@pytest.mark.pitfall("P8")
@pytest.mark.lesson("Ranks, and how they meet")
def test_what_is_missing_is_named(submission):
    """Without RANK, WORLD_SIZE and MASTER_PORT there is a ValueError that names all three."""
    environment = {"LOCAL_RANK": "0", "MASTER_ADDR": "localhost"}
    complaint = submission.process_group_settings.probe(_complaint, environment, "cpu")
    assert complaint is not None, "no ValueError, although RANK, WORLD_SIZE and MASTER_PORT are missing"
    for name in ("RANK", "WORLD_SIZE", "MASTER_PORT"):
        # as a word: LOCAL_RANK does not name RANK
        assert re.search(rf"\b{name}\b", complaint), f"the message does not name {name}: {complaint}"


# --- average_gradients ------------------------------------------------------------------------------------------------


def _averaged(learner, rank, world_size, gradients):
    model = torch.nn.ParameterList()
    for number, gradient in enumerate(gradients[rank]):
        shape = next(of_rank[number].shape for of_rank in gradients if of_rank[number] is not None)
        parameter = torch.nn.Parameter(torch.zeros(shape))
        parameter.grad = gradient
        model.append(parameter)
    learner.average_gradients(model)
    return [None if p.grad is None else p.grad.clone() for p in model]


@pytest.mark.task("average_gradients")
@pytest.mark.pitfall("P9")
@pytest.mark.lesson("The mean of gradients")
def test_mean_of_two_ranks(submission):
    """Gradients of (1, 2) and 5 on rank 0, of (3, 6) and 6 on rank 1: both ranks end with (2, 4) and 5.5."""
    gradients = [[torch.tensor([1.0, 2.0]), torch.tensor(5.0)], [torch.tensor([3.0, 6.0]), torch.tensor(6.0)]]
    for found in values_on_ranks(submission, _averaged, 2, gradients, timeout=10):
        assert_matches(found, [torch.tensor([2.0, 4.0]), torch.tensor(5.5)], what="the gradients")


@pytest.mark.task("average_gradients")
@pytest.mark.pitfall("P9")
@pytest.mark.lesson("Collectives, and who waits")
def test_a_rank_without_a_gradient_counts_as_zeros(submission):
    """Of three ranks, one has no gradient for the first parameter, one none for the second, one none at all."""
    gradients = [[None, torch.tensor([9.0])], [torch.tensor([3.0, 6.0]), None], [None, None]]
    for found in values_on_ranks(submission, _averaged, 3, gradients, timeout=10):
        assert_matches(found, [torch.tensor([1.0, 2.0]), torch.tensor([3.0])], what="the gradients")


@pytest.mark.task("average_gradients")
@pytest.mark.pitfall("P9")
@pytest.mark.lesson("The mean of gradients")
def test_ranks_talk_twice_at_most(submission):
    """For six parameters of one dtype, there are two collective calls at most."""
    gradients = [[torch.full((2,), float(rank * number)) for number in range(6)] for rank in range(2)]
    for outcome in outcomes_on_ranks(submission, _averaged, 2, gradients, timeout=10):
        expected = [torch.full((2,), number / 2) for number in range(6)]
        assert_matches(outcome["value"], expected, what="the gradients")
        n_calls = outcome["collectives"]
        if n_calls > 2:
            raise Finding(f"for 6 parameters of one dtype there were {n_calls} collective calls; 2 are allowed")


def _with_a_frozen_one(learner, rank, world_size):
    model = torch.nn.Linear(2, 1)
    with torch.no_grad():
        model.weight.fill_(7.0)
    model.weight.requires_grad_(False)
    model.weight.grad = torch.full((1, 2), rank + 1.0)
    model.bias.grad = torch.tensor([4.0])
    learner.average_gradients(model)
    return model.weight.detach(), model.weight.grad


@pytest.mark.task("average_gradients")
@pytest.mark.lesson("The mean of gradients")
def test_frozen_parameters_are_left_alone(submission):
    """A frozen parameter keeps its value, and on each rank the gradient that it had there."""
    for rank, (value, gradient) in enumerate(values_on_ranks(submission, _with_a_frozen_one, 2, timeout=10)):
        assert_matches(value, torch.full((1, 2), 7.0), what="the frozen weight")
        assert_matches(gradient, torch.full((1, 2), rank + 1.0), what=f"the frozen weight's gradient on rank {rank}")


# --- mean_loss_backward -----------------------------------------------------------------------------------------------


def _backward(learner, rank, world_size, batches):
    # all logits are 0 to begin with: each picture's loss is log 2, and its gradient for the label's bias is -1/2
    model = torch.nn.Linear(2, 2)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.zero_()
    wrapped = torch.nn.parallel.DistributedDataParallel(model)
    loss = learner.mean_loss_backward(wrapped, *batches[rank])
    return {"loss": loss, "weight": model.weight.grad, "bias": model.bias.grad}


def _batch(x, labels):
    return torch.tensor([[value, 0.0] for value in x]), torch.tensor(labels)


@pytest.mark.task("mean_loss_backward")
@pytest.mark.pitfall("P13")
@pytest.mark.lesson("The mean of gradients")
def test_each_label_weighs_the_same(submission):
    """Three labels on rank 0, one on rank 1; each of the four pictures has a quarter of the weight."""
    batches = [_batch([1.0, 1.0, 1.0], [0, 0, 0]), _batch([8.0, 5.0], [1, -100])]
    for found in values_on_ranks(submission, _backward, 2, batches, timeout=10):
        # -3 x 1/2 + 1 x 1/2 pictures, a quarter each; with x: (-3 x 1 + 8) / 8
        assert_matches(found["bias"], torch.tensor([-0.25, 0.25]), what="the bias's gradient")
        assert_matches(found["weight"], torch.tensor([[0.625, 0.0], [-0.625, 0.0]]), what="the weight's gradient")


@pytest.mark.task("mean_loss_backward")
@pytest.mark.pitfall("P13")
@pytest.mark.lesson("The mean of gradients")
def test_a_rank_without_labels_changes_nothing(submission):
    """With both labels on rank 1, none on ranks 0 and 2, each has a weight of one half; the loss of each is log 2."""
    batches = [_batch([3.0, 4.0], [-100, -100]), _batch([2.0, 4.0], [1, 1]), _batch([5.0], [-100])]
    for rank, found in enumerate(values_on_ranks(submission, _backward, 3, batches, timeout=10)):
        assert_matches(found["bias"], torch.tensor([0.5, -0.5]), what="the bias's gradient")
        assert_matches(found["weight"], torch.tensor([[1.5, 0.0], [-1.5, 0.0]]), what="the weight's gradient")
        assert_matches(found["loss"], math.log(2), atol=1e-4, what=f"the loss on rank {rank}")


def _loss_of_fixed_logits(learner, rank, world_size, batches):
    # the first logit is the picture itself, the second is 0
    model = torch.nn.Linear(2, 2)
    with torch.no_grad():
        model.weight.copy_(torch.tensor([[1.0, 0.0], [0.0, 0.0]]))
        model.bias.zero_()
    return learner.mean_loss_backward(torch.nn.parallel.DistributedDataParallel(model), *batches[rank])


@pytest.mark.task("mean_loss_backward")
@pytest.mark.pitfall("P13")
@pytest.mark.lesson("Metrics over all ranks")
def test_loss_is_that_of_all_pictures(submission):
    """Losses of 0, 0 and 0 on rank 0, and of 20 on rank 1, have the mean 5 on both ranks."""
    batches = [_batch([20.0, 20.0, 20.0], [0, 0, 0]), _batch([20.0, 9.0], [1, -100])]
    for rank, loss in enumerate(values_on_ranks(submission, _loss_of_fixed_logits, 2, batches, timeout=10)):
        assert isinstance(loss, float), f"the loss on rank {rank} should be a Python float"
        assert_matches(loss, 5.0, atol=1e-4, what=f"the loss on rank {rank}")


# --- check_averaging --------------------------------------------------------------------------------------------------

_RIGHT = """
def implementation(model):
    for p in model.parameters():
        if p.requires_grad:
            p.grad = torch.zeros_like(p) if p.grad is None else p.grad.contiguous()
            dist.all_reduce(p.grad)
            p.grad /= dist.get_world_size()
"""
_NEW_ONES = """
def implementation(model):
    for p in model.parameters():
        if p.requires_grad:
            mean = torch.zeros_like(p) if p.grad is None else p.grad / dist.get_world_size()
            mean = mean.contiguous()
            dist.all_reduce(mean)
            p.grad = mean
"""
_GAPS_STAY = _NEW_ONES.replace("p.grad = mean", "p.grad = None if p.grad is None else mean")
_SUM = _RIGHT.replace("            p.grad /= dist.get_world_size()\n", "")
_OF_RANK_0 = _RIGHT.replace("dist.all_reduce(p.grad)", "dist.broadcast(p.grad, src=0)").replace(
    "            p.grad /= dist.get_world_size()\n", ""
)
_NOTHING = """
def implementation(model):
    pass
"""
_FROZEN_TOO = _NEW_ONES.replace("if p.requires_grad", "if True")
_VALUES_TOO = _NEW_ONES.replace("p.grad = mean", "p.grad = mean\n            p.data -= 0.1 * mean")
_DIVIDES_FIRST = (
    _NEW_ONES
    + """
        elif p.grad is not None:
            p.grad = p.grad.clone()
"""
)
_SHOWN = {  # by the number of ranks
    2: [_RIGHT, _NEW_ONES, _SUM, _OF_RANK_0, _NOTHING, _GAPS_STAY, _FROZEN_TOO, _VALUES_TOO],
    3: [_DIVIDES_FIRST],
}


def _rejection(check_averaging, source, world_size=2):
    return rejection_on_ranks(check_averaging, source, world_size, among=_SHOWN[world_size])


@pytest.mark.task("check_averaging")
def test_accepts_a_plain_averaging(submission):
    """Summing up one parameter after the other and dividing is slow and right: it is accepted on both ranks."""
    reason = _rejection(submission.check_averaging, _RIGHT)
    assert not reason, f"`check_averaging` should accept this implementation, but it raised {reason}"


@pytest.mark.task("check_averaging")
def test_accepts_gradients_that_are_new_tensors(submission):
    """Means that are put into `.grad` as new tensors are as good: accepted on both ranks."""
    reason = _rejection(submission.check_averaging, _NEW_ONES)
    assert not reason, f"`check_averaging` should accept this implementation, but it raised {reason}"


@pytest.mark.task("check_averaging")
@pytest.mark.lesson("A test for many ranks")
def test_accepts_rounding_errors(submission):
    """Means that are rounded otherwise, and a frozen `.grad` that is an equal copy, are accepted on three ranks."""
    reason = _rejection(submission.check_averaging, _DIVIDES_FIRST, 3)
    assert not reason, f"`check_averaging` should accept this implementation, but it raised {reason}"


@pytest.mark.task("check_averaging")
@pytest.mark.pitfall("P9")
@pytest.mark.lesson("A test for many ranks")
def test_rejects_gaps_that_stay(submission):
    """Where a rank has no gradient, it should have the mean afterwards: leaving the gap is rejected."""
    assert _rejection(submission.check_averaging, _GAPS_STAY), (
        "`check_averaging` accepts an implementation that leaves gaps"
    )


@pytest.mark.task("check_averaging")
@pytest.mark.pitfall("P9")
@pytest.mark.lesson("A test for many ranks")
def test_rejects_a_sum(submission):
    """An averaging that only sums is rejected on at least one rank."""
    assert _rejection(submission.check_averaging, _SUM), "`check_averaging` accepts an implementation that only sums"


@pytest.mark.task("check_averaging")
@pytest.mark.pitfall("P9")
@pytest.mark.lesson("A test for many ranks")
def test_rejects_the_gradients_of_one_rank(submission):
    """An averaging that hands the gradients of rank 0 to all is rejected on at least one rank."""
    assert _rejection(submission.check_averaging, _OF_RANK_0), (
        "`check_averaging` accepts the gradients of rank 0 as the mean of all"
    )


@pytest.mark.task("check_averaging")
@pytest.mark.lesson("A test for many ranks")
def test_rejects_an_averaging_that_does_nothing(submission):
    """Leaving all gradients as they are is rejected on at least one rank."""
    assert _rejection(submission.check_averaging, _NOTHING), (
        "`check_averaging` accepts an implementation that does nothing"
    )


@pytest.mark.task("check_averaging")
@pytest.mark.pitfall("P9")
@pytest.mark.lesson("A test for many ranks")
def test_rejects_what_touches_frozen_parameters(submission):
    """Averaging the `.grad` of frozen parameters as well is rejected on at least one rank."""
    assert _rejection(submission.check_averaging, _FROZEN_TOO), (
        "`check_averaging` accepts an implementation that averages frozen ones"
    )


@pytest.mark.task("check_averaging")
@pytest.mark.pitfall("P9")
@pytest.mark.lesson("A test for many ranks")
def test_rejects_what_changes_values(submission):
    """An averaging that makes a step as well is rejected: the values of parameters stay as they are."""
    assert _rejection(submission.check_averaging, _VALUES_TOO), (
        "`check_averaging` accepts an implementation that changes parameters"
    )
