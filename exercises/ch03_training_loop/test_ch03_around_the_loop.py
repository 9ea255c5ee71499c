"""Visible tests of exercise 3, tasks 6 to 10. They use examples that can be worked out by hand; read them, they are
meant for you.
"""

import math

import pytest
import torch

from autograder.checks import assert_faster, assert_leaves_inputs_alone, assert_matches
from autograder.checks.own_test import assert_accepts, assert_rejects

POOLING_RATIO = 9.0
"""How much faster it is to pad to the longest of some short sequences than to a limit of 400, as
benchmarks/speedups.py measures it.
"""
NAN = math.nan


# --- class_report -----------------------------------------------------------------------------------------------------

# ten samples of class 0, all found; two of class 1, one of them taken for 0; two of class 2, both taken for 0
LABELS = torch.tensor([0] * 10 + [1, 1, 2, 2])
PREDICTIONS = torch.tensor([0] * 10 + [1, 0, 0, 0])


@pytest.mark.task("class_report")
@pytest.mark.lesson("Beyond accuracy")
def test_confusion_has_a_row_for_each_true_class(submission):
    """Row t of the confusion matrix says what became of the samples of class t."""
    report = submission.class_report(PREDICTIONS, LABELS, 3)
    assert_matches(report["confusion"], torch.tensor([[10, 0, 0], [1, 1, 0], [2, 0, 0]]), what="the confusion matrix")


@pytest.mark.task("class_report")
@pytest.mark.lesson("Beyond accuracy")
def test_accuracy_is_a_share_of_all_samples(submission):
    """Of 14 samples, 11 are right."""
    report = submission.class_report(PREDICTIONS, LABELS, 3)
    assert_matches(report["accuracy"], 11 / 14, what="the accuracy")
    assert isinstance(report["accuracy"], float), "the accuracy should be a Python float"


@pytest.mark.task("class_report")
@pytest.mark.lesson("Beyond accuracy")
def test_f1_is_between_recall_and_precision(submission):
    """The f1 of class 0 is 20/23, that of class 1 is 2/3; a class that was never found has 0."""
    report = submission.class_report(PREDICTIONS, LABELS, 3)
    assert_matches(report["f1"], torch.tensor([20 / 23, 2 / 3, 0.0]), what="f1")
    assert_matches(report["macro_f1"], (20 / 23 + 2 / 3) / 3, what="the mean f1")


@pytest.mark.task("class_report")
@pytest.mark.pitfall("T9")
@pytest.mark.lesson("Beyond accuracy")
def test_recall_of_each_class(submission):
    """Of class 0 everything was found, of class 1 half, of class 2 nothing."""
    report = submission.class_report(PREDICTIONS, LABELS, 3)
    assert_matches(report["recall"], torch.tensor([1.0, 0.5, 0.0]), what="recall")


@pytest.mark.task("class_report")
@pytest.mark.pitfall("T9")
@pytest.mark.lesson("Beyond accuracy")
def test_a_rare_class_counts_as_much_as_any(submission):
    """Recalls of 1, 1/2 and 0 make a balanced accuracy of 1/2, however common the first class is."""
    report = submission.class_report(PREDICTIONS, LABELS, 3)
    assert_matches(report["balanced_accuracy"], 0.5, what="the balanced accuracy")


@pytest.mark.task("class_report")
@pytest.mark.pitfall("T9")
@pytest.mark.lesson("Beyond accuracy")
def test_a_class_without_samples_has_no_recall(submission):
    """A class that does not occur has recall nan and is left out of the mean; so is an f1 that is nan."""
    report = submission.class_report(torch.tensor([0, 3, 0, 1]), torch.tensor([0, 0, 0, 1]), 4)
    assert_matches(report["recall"], torch.tensor([2 / 3, 1.0, NAN, NAN]), what="recall")
    assert_matches(report["f1"], torch.tensor([0.8, 1.0, NAN, 0.0]), what="f1")
    assert_matches(report["balanced_accuracy"], 5 / 6, what="the balanced accuracy")
    assert_matches(report["macro_f1"], 0.6, what="the mean f1")


# --- refresh_statistics -----------------------------------------------------------------------------------------------


def _refreshed_layer(learner, batches, momentum, mode):
    layer = torch.nn.BatchNorm1d(1, momentum=momentum)
    with torch.no_grad():
        layer.running_mean.fill_(100.0)
        layer.running_var.fill_(50.0)
        layer.num_batches_tracked.fill_(9)
        layer.weight.fill_(3.0)
        layer.bias.fill_(-2.0)
    layer.train(mode)
    learner.refresh_statistics(layer, batches)
    after = {name: value.clone() for name, value in layer.state_dict().items()}
    return after, layer.momentum, layer.training


BATCHES = [torch.tensor([[0.0], [2.0]]), torch.tensor([[4.0], [8.0]])]


@pytest.mark.task("refresh_statistics")
@pytest.mark.pitfall("T12")
@pytest.mark.lesson("Statistics that move")
def test_statistics_are_those_of_the_new_batches(submission):
    """Batches with means 1 and 6 and variances 2 and 8 leave a mean of 3.5 and a variance of 5."""
    after, _, _ = submission.run(_refreshed_layer, BATCHES, 0.1, True)
    assert_matches(after["running_mean"], torch.tensor([3.5]), what="the running mean")
    assert_matches(after["running_var"], torch.tensor([5.0]), what="the running variance")
    assert_matches(after["num_batches_tracked"], torch.tensor(2), what="the number of batches")


@pytest.mark.task("refresh_statistics")
@pytest.mark.pitfall("T12")
@pytest.mark.lesson("Statistics that move")
def test_a_layer_in_eval_mode_is_refreshed_too(submission):
    """The statistics are estimated anew whatever mode the layer is in, and from a generator as well as from a list."""

    def from_a_generator(learner, batches):
        layer = torch.nn.BatchNorm1d(1)
        layer.eval()
        learner.refresh_statistics(layer, (batch for batch in batches))
        return layer.running_mean.clone(), layer.running_var.clone(), layer.training

    mean, var, training = submission.run(from_a_generator, [*BATCHES, torch.tensor([[-1.0], [0.0], [1.0]])])
    assert_matches(mean, torch.tensor([7 / 3]), what="the running mean")
    assert_matches(var, torch.tensor([11 / 3]), what="the running variance")
    assert_matches(training, False, what="whether the layer is in train mode")


@pytest.mark.task("refresh_statistics")
@pytest.mark.lesson("Statistics that move")
@pytest.mark.parametrize("mode", [True, False])
def test_refreshing_leaves_mode_momentum_and_weights(submission, mode):
    """Mode, momentum, weight and bias of the layer are as they were."""
    after, momentum, training = submission.run(_refreshed_layer, BATCHES, 0.25, mode)
    assert_matches(momentum, 0.25, what="the momentum")
    assert_matches(training, mode, what="whether the layer is in train mode")
    assert_matches(after["weight"], torch.tensor([3.0]), what="the layer's weight")
    assert_matches(after["bias"], torch.tensor([-2.0]), what="the layer's bias")


def _refreshed_behind_dropout(learner, batches):
    model = torch.nn.Sequential(torch.nn.Dropout(0.5), torch.nn.BatchNorm1d(1))
    model.train()
    seen = []
    model[1].register_forward_pre_hook(lambda layer, args: seen.append(args[0].tolist()))
    learner.refresh_statistics(model, batches)
    names = ("the model", "the Dropout", "the BatchNorm layer")
    modes = {name: module.training for name, module in zip(names, model.modules(), strict=True)}
    return seen, model[1].num_batches_tracked.item(), modes


@pytest.mark.task("refresh_statistics")
@pytest.mark.pitfall("T12")
@pytest.mark.lesson("Two modes")
def test_dropout_keeps_out_of_it(submission):
    """A layer behind a Dropout sees the pictures as they are; and the Dropout is back in train mode afterwards."""
    batches = [torch.full((7, 1), 2.0), torch.full((7, 1), 4.0)]
    seen, n_batches, modes = submission.run(_refreshed_behind_dropout, batches)
    assert_matches(n_batches, 2, what="the number of batches in the layer's statistics")
    assert_matches(torch.tensor(seen), torch.stack(batches), what="what comes into the layer")
    assert_matches(modes, dict.fromkeys(modes, True), what="`training` afterwards of")


# --- FineTuned --------------------------------------------------------------------------------------------------------


def _statistics_over_time(learner, batches):
    body = torch.nn.Sequential(torch.nn.BatchNorm1d(2))
    with torch.no_grad():
        body[0].running_mean.copy_(torch.tensor([1.0, -1.0]))
        body[0].running_var.fill_(4.0)
    model = learner.FineTuned(body, 2, 3)
    seen = []
    model(batches[0])  # as it was made
    seen.append(body[0].running_mean.clone())
    for batch in batches:
        model.eval()
        model.train()
        model(batch)
        seen.append(body[0].running_mean.clone())
    return seen, body(torch.tensor([[3.0, 1.0], [1.0, -1.0]])).detach()


@pytest.mark.task("FineTuned")
@pytest.mark.pitfall("T13")
@pytest.mark.lesson("A new head on an old body")
def test_statistics_of_the_body_stay(submission):
    """However often the model is put into train mode and used, the body's running mean stays what it was."""
    seen, features = submission.run(_statistics_over_time, [torch.full((4, 2), 9.0), torch.zeros(3, 2)])
    assert_matches(seen, [torch.tensor([1.0, -1.0])] * 3, what="the running mean over time")
    assert_matches(
        features, torch.tensor([[1.0, 1.0], [0.0, 0.0]]), atol=1e-4, what="what the body makes of two pictures"
    )


def _one_step_of_ones(learner, lr_body, lr_head):
    body = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.BatchNorm1d(2))
    model = learner.FineTuned(body, 2, 3)
    of_body = list(body.parameters())
    of_head = [p for p in model.parameters() if all(p is not other for other in of_body)]
    before = [p.detach().clone() for p in [*of_body, *of_head]]
    optimiser = torch.optim.SGD(model.parameter_groups(lr_body, lr_head), lr=100.0)
    for p in model.parameters():
        p.grad = torch.ones_like(p)
    optimiser.step()
    moved = [was - p.detach() for was, p in zip(before, [*of_body, *of_head], strict=True)]
    return moved[: len(of_body)], moved[len(of_body) :]


@pytest.mark.task("FineTuned")
@pytest.mark.pitfall("T13")
@pytest.mark.lesson("A new head on an old body")
def test_body_and_head_have_their_own_rates(submission):
    """With gradients of 1, a step moves each parameter of the body by its rate and each of the head by the head's."""
    of_body, of_head = submission.run(_one_step_of_ones, 0.125, 0.5)
    assert_matches([tuple(t.shape) for t in of_body], [(2, 2), (2,), (2,), (2,)], what="the shapes in the body")
    assert_matches(sorted(tuple(t.shape) for t in of_head), [(3,), (3, 2)], what="the shapes in the head")
    for moved, rate, name in ((of_body, 0.125, "body"), (of_head, 0.5, "head")):
        for change in moved:
            assert_matches(change, torch.full_like(change, rate), atol=1e-6, what=f"how far the {name} has moved")


def _gradients_of_the_body(learner, pictures):
    inner = torch.nn.Sequential(torch.nn.Conv2d(1, 2, 2), torch.nn.BatchNorm2d(2))
    body = torch.nn.Sequential(inner, torch.nn.Flatten())
    model = learner.FineTuned(body, 8, 3)
    model.train()
    means = inner[1].running_mean.clone()
    torch.nn.functional.cross_entropy(model(pictures), torch.tensor([0, 1])).backward()
    names = {"convolution": inner[0], "BatchNorm": inner[1]}
    got = {f"the {name}'s {key}": p.grad is not None for name, m in names.items() for key, p in m.named_parameters()}
    return got, inner[1].running_mean - means


@pytest.mark.task("FineTuned")
@pytest.mark.pitfall("T13")
@pytest.mark.lesson("A new head on an old body")
def test_a_body_inside_a_body(submission):
    """In a body made of parts, BatchNorm2d keeps its statistics; its weight and bias get gradients as all others do."""
    pictures = torch.arange(18.0).reshape(2, 1, 3, 3)
    got_gradients, moved = submission.run(_gradients_of_the_body, pictures)
    missing = [name for name, got in got_gradients.items() if not got]
    assert not missing, f"{', '.join(missing)}: no gradient after a backward pass"
    assert_matches(moved, torch.zeros(2), what="how far the running mean has moved")


def _with_all_dropped(learner, x):
    body = torch.nn.Sequential(torch.nn.BatchNorm1d(2), torch.nn.Dropout(1.0))
    model = learner.FineTuned(body, 2, 3)
    logits = []
    for mode in (True, False, True):
        model.train(mode)
        logits.append(model(x).detach())
    return logits


@pytest.mark.task("FineTuned")
@pytest.mark.lesson("Two modes")
def test_dropout_of_the_body_follows_the_mode(submission):
    """A Dropout that drops everything makes all logits alike in train mode, and has no effect in eval mode."""
    train, evaluation, again = submission.run(_with_all_dropped, torch.tensor([[1.0, 2.0], [3.0, -4.0], [0.0, 9.0]]))
    assert_matches(train.shape, torch.Size([3, 3]), what="the logits' shape")
    for logits in (train, again):
        assert_matches(logits, logits[:1].expand(3, 3), what="the logits in train mode")
    if (evaluation - evaluation[:1]).abs().amax(1)[1:].min() < 0.01:
        raise AssertionError("in eval mode, pictures that differ have the same logits")


@pytest.mark.task("FineTuned")
def test_setting_the_mode_returns_the_model(submission):
    """`model.train()` and `model.eval()` return the model, so that calls can be chained; and they set its mode."""

    def chained(learner):
        model = learner.FineTuned(torch.nn.BatchNorm1d(2), 2, 3)
        return [model.eval() is model, model.training, model.train() is model, model.training]

    eval_returns, mode_after_eval, train_returns, mode_after_train = submission.run(chained)
    assert eval_returns and train_returns, "`train` or `eval` returns something else than the model"
    assert_matches([mode_after_eval, mode_after_train], [False, True], what="`training` after eval() and after train()")


# --- pooled_states ----------------------------------------------------------------------------------------------------


def _halfway(learner, sequences, limit):
    # weights of 0 and one large bias: whatever comes in, each state is halfway between the last one and 1
    rnn = torch.nn.GRU(2, 1, batch_first=True)
    with torch.no_grad():
        for parameter in rnn.parameters():
            parameter.zero_()
        rnn.bias_ih_l0[2] = 20.0
        return learner.pooled_states(rnn, sequences, limit)


def _ones(*lengths):
    return [torch.ones(length, 2) for length in lengths]


@pytest.mark.task("pooled_states")
@pytest.mark.pitfall("T16")
@pytest.mark.lesson("Padding and masks")
def test_mean_over_a_sequence_of_its_own_length(submission):
    """States of 1/2, 3/4 and 7/8 have the mean 17/24; one state alone is its own mean, two have the mean 5/8."""
    pooled = submission.run(_halfway, _ones(3, 1, 2), 5)
    assert_matches(pooled, torch.tensor([[17 / 24], [1 / 2], [5 / 8]]), what="the pooled states")


@pytest.mark.task("pooled_states")
@pytest.mark.pitfall("T16")
@pytest.mark.lesson("Padding and masks")
def test_a_point_at_the_origin_counts(submission):
    """Strokes that begin or end at (0, 0) have two steps all the same: states of 1/2 and 3/4, and the mean 5/8."""
    strokes = torch.tensor([[[0.0, 0.0], [1.0, 1.0]], [[1.0, 1.0], [0.0, 0.0]]])
    pooled = submission.run(_halfway, list(strokes), 5)
    assert_matches(pooled, torch.full((2, 1), 5 / 8), what="the pooled states")


@pytest.mark.task("pooled_states")
@pytest.mark.lesson("Padding and masks")
def test_sequences_are_cut_at_the_limit(submission):
    """With a limit of 2, sequences of 2, 3 and 4 steps all count for two steps."""
    assert_matches(submission.run(_halfway, _ones(2, 3, 4), 2), torch.full((3, 1), 5 / 8), what="the pooled states")


def _work_asked_for(learner, sequences, limit):
    from torch.nn.utils.rnn import PackedSequence

    class Counting(torch.nn.GRU):
        work = 0

        def forward(self, input, hx=None):
            self.work += len(input.data) if isinstance(input, PackedSequence) else input.numel() // input.shape[-1]
            return super().forward(input, hx)

    rnn = Counting(2, 3, batch_first=True)
    with torch.no_grad():
        for parameter in rnn.parameters():
            parameter.zero_()
        rnn.bias_ih_l0[6:] = 20.0
        return rnn.work, learner.pooled_states(rnn, sequences, limit), rnn.work


@pytest.mark.task("pooled_states")
@pytest.mark.pitfall("T16")
@pytest.mark.lesson("Padding and masks")
def test_no_more_steps_than_the_longest_needs(submission):
    """The network works through 9 steps at most for 3, 1 and 2 steps, whatever the limit; through 12 where it is 4."""
    mean_of = {3: 17 / 24, 4: 49 / 64}
    for lengths, limit, needed in (((3, 1, 2), 50, 3), ((400, 3, 2), 4, 4)):
        _, pooled, work = submission.run(_work_asked_for, _ones(*lengths), limit)
        if work > 3 * needed:
            asked = f"for {lengths} steps and a limit of {limit}, {3 * needed} are needed"
            raise AssertionError(f"the network was given {work} steps of work; {asked}")
        # the others' means are the matter of another test: padding cannot spoil that of the longest
        assert_matches(pooled[:1], torch.full((1, 3), mean_of[needed]), what="the pooled state of the longest")


# --- check_pipeline ---------------------------------------------------------------------------------------------------

_RIGHT = """
def implementation():
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(64, 50), torch.nn.ReLU(), torch.nn.Linear(50, 10))
    optimiser = torch.optim.Adam(model.parameters(), lr=0.02)

    def step(x, y):
        loss = torch.nn.functional.cross_entropy(model(x), y)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        return loss.item()

    return model, step
"""
_SLOW = _RIGHT.replace("lr=0.02", "lr=0.00002")
_LATE = _RIGHT.replace("lr=0.02", "lr=0.002")
_SOFT = _RIGHT.replace("(model(x), y)", "(model(x).softmax(1), y)")
_OTHER_LABELS = _RIGHT.replace("(model(x), y)", "(model(x), 9 - y)")
_NOISE = """
def implementation():
    torch.manual_seed(0)
    class Noisy(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = torch.nn.Linear(64, 10)

        def forward(self, x):
            return self.layer(x if self.training else torch.rand_like(x))

    model = Noisy()
    optimiser = torch.optim.Adam(model.parameters(), lr=0.1)

    def step(x, y):
        model.train()
        loss = torch.nn.functional.cross_entropy(model(x), y)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        return loss.item()

    return model, step
"""
_SHOWN = [_RIGHT, _SLOW, _LATE, _SOFT, _OTHER_LABELS, _NOISE]


@pytest.mark.task("check_pipeline")
def test_accepts_a_plain_pipeline(submission):
    """Two linear layers, trained with Adam the way it should be done, are accepted."""
    assert_accepts(submission.check_pipeline, _RIGHT, among=_SHOWN)


@pytest.mark.task("check_pipeline")
@pytest.mark.pitfall("T10")
@pytest.mark.lesson("Overfit one batch")
def test_rejects_a_crawling_pipeline(submission):
    """A pipeline whose loss falls, but so slowly that it gets nowhere, is rejected."""
    assert_rejects(submission.check_pipeline, _SLOW, among=_SHOWN)


@pytest.mark.task("check_pipeline")
@pytest.mark.pitfall("T10")
@pytest.mark.lesson("Overfit one batch")
def test_rejects_a_pipeline_that_is_late(submission):
    """A pipeline that gets there, but needs well over 60 steps for it, is rejected."""
    assert_rejects(submission.check_pipeline, _LATE, among=_SHOWN)


@pytest.mark.task("check_pipeline")
@pytest.mark.pitfall("T10")
@pytest.mark.lesson("Overfit one batch")
def test_rejects_a_pipeline_whose_loss_stays_high(submission):
    """A pipeline whose model gets every picture right, while its loss never comes near 0.1, is rejected."""
    assert_rejects(submission.check_pipeline, _SOFT, among=_SHOWN)


@pytest.mark.task("check_pipeline")
@pytest.mark.pitfall("T10")
@pytest.mark.lesson("Overfit one batch")
def test_rejects_a_pipeline_that_learns_other_labels(submission):
    """A pipeline whose loss goes to zero for labels that are not those of the pictures is rejected."""
    assert_rejects(submission.check_pipeline, _OTHER_LABELS, among=_SHOWN)


@pytest.mark.task("check_pipeline")
@pytest.mark.pitfall("T10")
@pytest.mark.lesson("Overfit one batch")
def test_rejects_a_pipeline_that_works_in_train_mode_only(submission):
    """A model that knows the batch in train mode and sees only noise in eval mode is rejected."""
    assert_rejects(submission.check_pipeline, _NOISE, among=_SHOWN)


# --- what stays as it was, and speed ----------------------------------------------------------------------------------


@pytest.mark.task("class_report")
def test_class_report_leaves_its_inputs_alone(submission):
    """Predictions and labels are the same after the call as before."""
    assert_leaves_inputs_alone(submission.class_report, (PREDICTIONS, LABELS, 3))


def _pooled_batches(function, weights, batches, limit):
    rnn = torch.nn.GRU(3, 8, batch_first=True)
    with torch.no_grad():
        for parameter, weight in zip(rnn.parameters(), weights, strict=True):
            parameter.copy_(weight)
        # of each batch the longest sequence: its mean is right whether or not padding counts, which others test
        longest = [max(range(len(sequences)), key=lambda i: len(sequences[i])) for sequences in batches]
        return [function(rnn, sequences, limit)[i] for sequences, i in zip(batches, longest, strict=True)]


@pytest.mark.task("pooled_states")
@pytest.mark.pitfall("T16")
@pytest.mark.lesson("Padding and masks")
@pytest.mark.timed
def test_short_sequences_are_quick(submission, baseline):
    """A batch of short sequences takes a fraction of the time that the original version takes, with a high limit."""

    def inputs(seed):
        generator = torch.Generator().manual_seed(seed)
        weights = [torch.randn(shape, generator=generator) / 3 for shape in ((24, 3), (24, 8), (24,), (24,))]
        lengths = torch.randint(2, 13, (4, 6), generator=generator).tolist()
        batches = [[torch.randn(length, 3, generator=generator) for length in row] for row in lengths]
        return (weights, batches, 400), {}

    def one_by_one(weights, batches, limit):
        def pooled(rnn, sequences, limit):
            return torch.stack([rnn(sequence[None, :limit])[0][0].mean(0) for sequence in sequences])

        return _pooled_batches(pooled, weights, batches, limit)

    assert_faster(
        submission.pooled_states,
        baseline("starter").pooled_states,
        inputs,
        one_by_one,
        reference_ratio=POOLING_RATIO,
        via=_pooled_batches,
        atol=1e-5,
        rtol=1e-4,
    )
