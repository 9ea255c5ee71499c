"""Hidden tests of exercise 3, tasks 6 to 10: the same promises for other networks, shapes, dtypes and batches."""

from pathlib import Path

import pytest
import torch

from autograder.checks import assert_accepts, assert_leaves_inputs_alone, assert_matches, assert_rejects
from autograder.errors import Finding
from autograder.variants import read_variants

# --- class_report -----------------------------------------------------------------------------------------------------


def _predictions(seed, n, n_classes, only=None):
    """Predictions that are right half of the time, and labels, of which there are only some classes with *only*."""
    generator = torch.Generator().manual_seed(seed)
    labels = torch.randint(only or n_classes, (n,), generator=generator)
    guesses = torch.randint(n_classes, (n,), generator=generator)
    return torch.where(torch.rand(n, generator=generator) < 0.5, labels, guesses), labels


@pytest.mark.task("class_report")
@pytest.mark.lesson("Beyond accuracy")
@pytest.mark.parametrize(("n", "n_classes"), [(1, 1), (1, 3), (40, 2), (97, 5), (300, 11)])
def test_confusion_and_f1_for_many_classes(submission, reference, n, n_classes):
    """Counts, f1, accuracy and the mean f1 are right for two classes and for many, for one sample and for hundreds."""
    predictions, labels = _predictions(n, n, n_classes)
    report = submission.class_report(predictions, labels, n_classes)
    expected = reference.class_report(predictions, labels, n_classes)
    for key in ("confusion", "f1", "accuracy", "macro_f1"):
        assert_matches(report[key], expected[key], what=key)
    assert_matches(sorted(report), sorted(expected), what="the keys")
    assert all(isinstance(report[key], float) for key in ("accuracy", "balanced_accuracy", "macro_f1"))


@pytest.mark.task("class_report")
@pytest.mark.pitfall("T9")
@pytest.mark.lesson("Beyond accuracy")
@pytest.mark.parametrize(("n", "n_classes"), [(40, 2), (97, 5), (300, 11)])
def test_recall_for_many_classes(submission, reference, n, n_classes):
    """Each class's recall is the share of its own samples that were found."""
    predictions, labels = _predictions(n + 1, n, n_classes)
    expected = reference.class_report(predictions, labels, n_classes)
    assert_matches(submission.class_report(predictions, labels, n_classes)["recall"], expected["recall"])


@pytest.mark.task("class_report")
@pytest.mark.pitfall("T9")
@pytest.mark.lesson("Beyond accuracy")
def test_balanced_accuracy_where_classes_are_rare(submission, reference):
    """The balanced accuracy is the plain mean over the classes that occur, on batches with rare and absent classes."""
    for seed, n_classes, only in ((1, 4, None), (2, 7, 5), (3, 12, 2)):
        predictions, labels = _predictions(seed, 60, n_classes, only)
        labels[labels == 0] = 1
        labels[0] = 0
        report = submission.class_report(predictions, labels, n_classes)
        expected = reference.class_report(predictions, labels, n_classes)
        assert_matches(report["recall"], expected["recall"])
        assert_matches(report["balanced_accuracy"], expected["balanced_accuracy"])
        assert_matches(report["macro_f1"], expected["macro_f1"])


@pytest.mark.task("class_report")
@pytest.mark.pitfall("T9")
@pytest.mark.lesson("Beyond accuracy")
def test_a_class_that_is_never_predicted(submission, reference):
    """A class whose samples are all missed has recall 0, not nan, and pulls the balanced accuracy down."""
    labels = torch.cat([torch.arange(90) % 9, torch.zeros(40, dtype=torch.long)])
    predictions = torch.where(labels == 8, 0, labels)
    report = submission.class_report(predictions, labels, 9)
    expected = reference.class_report(predictions, labels, 9)
    for key in expected:
        assert_matches(report[key], expected[key], what=key)


@pytest.mark.task("class_report")
def test_report_leaves_strided_inputs_alone(submission, reference):
    """Columns of a larger table go in as well, and stay as they were."""
    table = torch.stack(_predictions(5, 30, 4), dim=1)
    predictions, labels = table[:, 0], table[:, 1]
    assert_leaves_inputs_alone(submission.class_report, (predictions, labels, 4))
    report = submission.class_report(predictions, labels, 4)
    assert_matches(report["confusion"], reference.class_report(predictions, labels, 4)["confusion"])


# --- refresh_statistics -----------------------------------------------------------------------------------------------


def _refreshed(learner, batches, seed, double, times):
    """A network with two BatchNorm layers in different modes, refreshed: its state, momenta and modes."""

    class Counter(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("calls_in_train_mode", torch.zeros(()))

        def forward(self, x):
            if self.training:
                self.calls_in_train_mode += 1
            return x

    torch.manual_seed(seed)
    convolutional = batches[0].dim() == 4
    if convolutional:
        model = torch.nn.Sequential(
            torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3), torch.nn.BatchNorm2d(4, momentum=0.3)),
            torch.nn.Sequential(torch.nn.ReLU(), torch.nn.Dropout2d(0.5), Counter()),
            torch.nn.Flatten(),
            torch.nn.LazyLinear(5),
            torch.nn.BatchNorm1d(5, affine=False),
        )
        model(batches[0].float())
    else:
        model = torch.nn.Sequential(
            torch.nn.Sequential(torch.nn.Linear(6, 5), torch.nn.BatchNorm1d(5, momentum=0.3)),
            torch.nn.Sequential(torch.nn.ReLU(), torch.nn.Dropout(0.5), Counter()),
            torch.nn.Linear(5, 3),
            torch.nn.BatchNorm1d(3, momentum=None),
        )
    model = model.double() if double else model
    for tensor in model.state_dict().values():
        if tensor.dtype.is_floating_point:
            tensor += torch.rand_like(tensor)
        else:
            tensor += 7
    model.train()
    model[0][1].eval()
    model[1][1].eval()
    parameters = list(model.parameters())
    parameters[0].grad = torch.ones_like(parameters[0])
    parameters[1].requires_grad_(False)
    for _ in range(times):
        learner.refresh_statistics(model, (batch for batch in batches))
    return (
        {name: value.detach().clone() for name, value in model.state_dict().items()},
        [module.momentum for module in (model[0][1], model[-1])],
        [module.training for module in model.modules()],
        [None if p.grad is None else p.grad.clone() for p in parameters],
        [p.requires_grad for p in parameters],
        torch.is_grad_enabled(),
    )


def _batches(seed, sizes, shape=(6,), dtype=torch.float32):
    generator = torch.Generator().manual_seed(seed)
    return [
        3 + i + (i + 1) * torch.randn(size, *shape, generator=generator, dtype=dtype) for i, size in enumerate(sizes)
    ]


CASES = [((8, 3, 5), (6,)), ((4,), (6,)), ((2, 3, 2, 7), (3, 5, 5))]


@pytest.mark.task("refresh_statistics")
@pytest.mark.pitfall("T12")
@pytest.mark.lesson("Statistics that move")
@pytest.mark.parametrize(("sizes", "shape"), CASES)
@pytest.mark.parametrize("double", [False, True])
def test_statistics_of_networks(submission, reference, sizes, shape, double):
    """The statistics are plain averages over the new batches, in every BatchNorm layer of a network with Dropout."""
    args = (_batches(1, sizes, shape, torch.float64 if double else torch.float32), 3, double, 1)
    state = submission.run(_refreshed, *args)[0]
    expected = _refreshed(reference, *args)[0]
    # weights that were changed are the matter of another test, but would show in the statistics
    assert_matches(state, expected, rtol=1e-4, atol=1e-5, what="the state of the network")


@pytest.mark.task("refresh_statistics")
@pytest.mark.pitfall("T12")
@pytest.mark.lesson("Statistics that move")
def test_refreshing_twice_is_refreshing_once(submission, reference):
    """Nothing of the old statistics is left: a second refresh with the same batches changes nothing."""
    batches = _batches(2, (6, 4, 9))
    twice = submission.run(_refreshed, batches, 4, False, 2)[0]
    assert_matches(twice, _refreshed(reference, batches, 4, False, 1)[0], rtol=1e-4, atol=1e-5)


@pytest.mark.task("refresh_statistics")
@pytest.mark.lesson("Statistics that move")
@pytest.mark.parametrize(("sizes", "shape"), CASES)
def test_refreshing_leaves_all_else(submission, reference, sizes, shape):
    """Parameters, gradients, other buffers, momenta, requires_grad and the mode of each module are as before."""
    args = (_batches(5, sizes, shape), 6, False, 1)
    state, *rest = submission.run(_refreshed, *args)
    expected, *others = _refreshed(reference, *args)
    kept = [name for name in expected if "running" not in name and "num_batches" not in name]
    assert_matches({name: state[name] for name in kept}, {name: expected[name] for name in kept})
    assert_matches(rest, others)


def _graph_of_a_refresh(learner, batches):
    from autograder.instruments import SavedTensors

    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(6, 5), torch.nn.BatchNorm1d(5))
    with SavedTensors() as saved:
        learner.refresh_statistics(model, batches)
    return saved.total, model[1].running_mean.clone()


@pytest.mark.task("refresh_statistics")
@pytest.mark.pitfall("T12")
@pytest.mark.lesson("Statistics that move")
def test_refreshing_records_no_graph(submission, reference):
    """The new statistics are right, and not one tensor is saved for a backward pass that will never come."""
    batches = _batches(7, (4, 4, 3))
    saved, mean = submission.run(_graph_of_a_refresh, batches)
    assert_matches(mean, _graph_of_a_refresh(reference, batches)[1], rtol=1e-4, atol=1e-5)
    if saved:
        raise Finding(f"{saved} tensors were saved for a backward pass")


# --- FineTuned --------------------------------------------------------------------------------------------------------


def _fine_tuned(learner, batches, labels, optimiser, lr_body, lr_head, outer, dropout):
    """A few steps of fine-tuning from a head that is filled by hand: logits of each step, and the state at the end."""
    torch.manual_seed(1)
    if batches[0].dim() == 4:
        body = torch.nn.Sequential(
            torch.nn.Sequential(torch.nn.Conv2d(2, 3, 3, bias=False), torch.nn.BatchNorm2d(3)),
            torch.nn.ReLU(),
            torch.nn.Flatten(),
            torch.nn.Dropout(dropout),
        )
        n_features = 3 * (batches[0].shape[2] - 2) * (batches[0].shape[3] - 2)
    else:
        body = torch.nn.Sequential(
            torch.nn.BatchNorm1d(5),
            torch.nn.Sequential(torch.nn.Linear(5, 4), torch.nn.Sequential(torch.nn.BatchNorm1d(4), torch.nn.Tanh())),
            torch.nn.Dropout(dropout),
        )
        n_features = 4
    for name, buffer in body.named_buffers():
        if "running" in name:
            buffer.copy_(0.5 + torch.rand_like(buffer))
    of_body = list(body.parameters())
    model = learner.FineTuned(body, n_features, 3)
    of_head = [p for p in model.parameters() if all(p is not other for other in of_body)]
    with torch.no_grad():
        for parameter in of_head:
            parameter.copy_(torch.linspace(-0.5, 0.7, parameter.numel()).reshape(parameter.shape))
    whole = torch.nn.Sequential(model) if outer else model
    stepper = getattr(torch.optim, optimiser)(model.parameter_groups(lr_body, lr_head))
    logits = []
    for x, y in zip(batches, labels, strict=True):
        whole.train()
        out = whole(x)
        logits.append(out.detach().clone())
        stepper.zero_grad()
        torch.nn.functional.cross_entropy(out, y).backward()
        stepper.step()
        whole.eval()
        logits.append(whole(x).detach().clone())
    state = {name: value.detach().clone() for name, value in body.state_dict().items()}
    head = sorted(([p.detach().clone() for p in of_head]), key=lambda p: p.dim())
    modes = [model.training, whole.train() is whole, model.training]
    return logits, state, head, modes


def _tasks_batches(seed, sizes, shape):
    generator = torch.Generator().manual_seed(seed)
    batches = [2 + 3 * torch.randn(size, *shape, generator=generator) for size in sizes]
    return batches, [torch.randint(3, (size,), generator=generator) for size in sizes]


@pytest.mark.task("FineTuned")
@pytest.mark.pitfall("T13")
@pytest.mark.lesson("A new head on an old body")
@pytest.mark.parametrize("shape", [(5,), (2, 5, 4)])
@pytest.mark.parametrize(("optimiser", "lr_body", "lr_head"), [("SGD", 0.02, 0.2), ("AdamW", 0.001, 0.03)])
def test_steps_of_fine_tuning(submission, reference, shape, optimiser, lr_body, lr_head):
    """Over some steps of fine-tuning, logits and parameters are those of a body whose statistics stay, at two rates."""
    args = (*_tasks_batches(3, (6, 2, 5, 4), shape), optimiser, lr_body, lr_head, False, 0.0)
    logits, state, head, modes = submission.run(_fine_tuned, *args)
    expected_logits, expected_state, expected_head, expected_modes = _fine_tuned(reference, *args)
    assert_matches(logits, expected_logits, rtol=1e-3, atol=1e-4, what="the logits")
    assert_matches(state, expected_state, rtol=1e-3, atol=1e-4, what="the body")
    assert_matches(head, expected_head, rtol=1e-3, atol=1e-4, what="the head")
    assert_matches(modes, expected_modes, what="the modes")


@pytest.mark.task("FineTuned")
@pytest.mark.pitfall("T13")
@pytest.mark.lesson("A new head on an old body")
def test_statistics_stay_inside_another_model(submission, reference):
    """The statistics stay when a model that holds this one is put into train mode; a batch of one goes through, too."""
    args = (*_tasks_batches(4, (3, 1, 2), (5,)), "SGD", 0.1, 0.1, True, 0.0)
    assert_matches(submission.run(_fine_tuned, *args), _fine_tuned(reference, *args), rtol=1e-3, atol=1e-4)


def _rates(learner, lr_body, lr_head):
    """How far a step with gradients of 1 moves body and head, and the groups' sizes and rates."""
    torch.manual_seed(0)
    body = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.BatchNorm1d(4), torch.nn.Linear(4, 2, bias=False))
    model = learner.FineTuned(body, 2, 6)
    optimiser = torch.optim.SGD(model.parameter_groups(lr_body, lr_head), lr=1.0)
    before = [p.detach().clone() for p in model.parameters()]
    for p in model.parameters():
        p.grad = torch.ones_like(p)
    optimiser.step()
    of_body = {id(p) for p in body.parameters()}
    moved = [[], []]
    for p, was in zip(model.parameters(), before, strict=True):
        moved[0 if id(p) in of_body else 1] += (was - p.detach()).flatten().tolist()
    grouped = [id(p) for group in optimiser.param_groups for p in group["params"]]
    return torch.tensor(moved[0]), torch.tensor(moved[1]), len(grouped), len(set(grouped))


@pytest.mark.task("FineTuned")
@pytest.mark.pitfall("T13")
@pytest.mark.lesson("A new head on an old body")
@pytest.mark.parametrize(("lr_body", "lr_head"), [(0.25, 0.5), (0.0, 0.25), (1.0, 0.125)])
def test_each_parameter_at_its_rate(submission, reference, lr_body, lr_head):
    """Every parameter of body and head is in the groups once, and moves at the rate that was asked for its part."""
    found = submission.run(_rates, lr_body, lr_head)
    assert_matches(found, _rates(reference, lr_body, lr_head), atol=1e-5, what="how far the parameters move")


@pytest.mark.task("FineTuned")
@pytest.mark.lesson("Two modes")
def test_dropout_follows_the_mode_in_any_body(submission, reference):
    """Dropout in a body acts in train mode, though the BatchNorm layers beside it do not, and rests in eval mode."""
    for shape in ((5,), (2, 4, 4)):
        args = (*_tasks_batches(5, (3, 4), shape), "SGD", 0.0, 0.0, False, 1.0)
        logits = submission.run(_fine_tuned, *args)[0]
        expected = _fine_tuned(reference, *args)[0]
        assert_matches(logits[0].shape, expected[0].shape, what="the logits' shape")
        # the statistics are the matter of other tests: what counts here is whether pictures differ in their logits
        spread = [(rows - rows[:1]).abs().max().item() for rows in logits]
        assert all(value < 1e-6 for value in spread[0::2]), "Dropout does not act in train mode"
        assert all(value > 1e-3 for value in spread[1::2]), "Dropout acts in eval mode"


# --- pooled_states ----------------------------------------------------------------------------------------------------


def _pooled(learner, sequences, limit, hidden, layers, cotangent):
    """The pooled states of a network that a seed makes, and the gradients of sequences and network."""
    torch.manual_seed(hidden)
    rnn = torch.nn.GRU(sequences[0].shape[1], hidden, layers, batch_first=True).to(sequences[0].dtype)
    sequences = [sequence.detach().clone().requires_grad_() for sequence in sequences]
    pooled = learner.pooled_states(rnn, list(sequences), limit)
    (pooled * cotangent).sum().backward()
    nothing = torch.zeros(())
    gradients = [nothing if s.grad is None else s.grad for s in [*sequences, *rnn.parameters()]]
    return pooled.detach(), gradients


def _sequences(seed, lengths, n_features, dtype=torch.float32):
    generator = torch.Generator().manual_seed(seed)
    sequences = [torch.randn(length, n_features, generator=generator, dtype=dtype) for length in lengths]
    for sequence in sequences:
        sequence[::3] = 0  # a step whose features are all zero is a step like any other
    return sequences


@pytest.mark.task("pooled_states")
@pytest.mark.pitfall("T16")
@pytest.mark.lesson("Padding and masks")
@pytest.mark.parametrize(
    ("lengths", "limit", "hidden", "layers"),
    [([4, 1, 7], 20, 5, 1), ([3], 8, 2, 2), ([9, 2, 2, 12, 1], 6, 4, 2), ([5, 5, 1], 5, 3, 1)],
)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_pooled_states_and_gradients(submission, reference, lengths, limit, hidden, layers, dtype):
    """Each row is the mean over its sequence's own steps, with its gradients, for networks of one layer and of two."""
    sequences = _sequences(1, lengths, 3, dtype)
    cotangent = torch.randn(len(lengths), hidden, generator=torch.Generator().manual_seed(2)).to(dtype)
    pooled, gradients = submission.run(_pooled, sequences, limit, hidden, layers, cotangent)
    expected, expected_gradients = _pooled(reference, sequences, limit, hidden, layers, cotangent)
    loose = {"rtol": 1e-3, "atol": 1e-4} if dtype == torch.float32 else {}
    assert_matches(pooled, expected, what="the pooled states", **loose)
    assert_matches(gradients, expected_gradients, what="the gradients", **loose)


@pytest.mark.task("pooled_states")
@pytest.mark.lesson("Padding and masks")
def test_full_sequences(submission, reference):
    """Sequences that are all as long as the limit, or longer, are pooled over the limit."""
    for lengths, limit in (([4, 4], 4), ([6, 9, 7], 5), ([1], 1)):
        sequences = _sequences(3, lengths, 2)
        cotangent = torch.ones(len(lengths), 3)
        expected = _pooled(reference, sequences, limit, 3, 1, cotangent)[0]
        assert_matches(submission.run(_pooled, sequences, limit, 3, 1, cotangent)[0], expected, rtol=1e-4, atol=1e-5)


@pytest.mark.task("pooled_states")
@pytest.mark.pitfall("T16")
@pytest.mark.lesson("Padding and masks")
def test_company_does_not_matter(submission, reference):
    """A sequence has the same pooled state alone, beside longer ones, and in another place in the batch."""
    short, *others = _sequences(4, [3, 8, 5, 2], 3)
    alone = _pooled(reference, [short], 30, 4, 1, torch.ones(1, 4))[0]
    for place, batch in ((0, [short]), (0, [short, *others]), (2, [*others[:2], short, others[2]])):
        for limit in (8, 30):
            pooled, _ = submission.run(_pooled, batch, limit, 4, 1, torch.ones(len(batch), 4))
            assert_matches(pooled[place : place + 1], alone, rtol=1e-4, atol=1e-5)


def _inputs_after(learner, sequences, limit):
    torch.manual_seed(0)
    learner.pooled_states(torch.nn.GRU(2, 3, batch_first=True), sequences, limit)
    return sequences


@pytest.mark.task("pooled_states")
def test_sequences_stay_as_they_were(submission):
    """Neither the list nor the sequences in it are changed, also where they are cut."""
    sequences = _sequences(5, [4, 9, 1], 2)
    assert_matches(submission.run(_inputs_after, sequences, 6), sequences, what="the sequences after the call")


def _work(learner, sequences, limit):
    from torch.nn.utils.rnn import PackedSequence

    class Counting(torch.nn.GRU):
        work = 0

        def forward(self, input, hx=None):
            self.work += len(input.data) if isinstance(input, PackedSequence) else input.numel() // input.shape[-1]
            return super().forward(input, hx)

    torch.manual_seed(0)
    rnn = Counting(2, 3, batch_first=True)
    with torch.no_grad():
        return rnn.work, learner.pooled_states(rnn, sequences, limit), rnn.work


@pytest.mark.task("pooled_states")
@pytest.mark.pitfall("T16")
@pytest.mark.lesson("Padding and masks")
@pytest.mark.parametrize(("lengths", "limit"), [([2, 5, 3], 64), ([1, 1], 9), ([12, 3, 30, 4], 10)])
def test_work_follows_the_longest_sequence(submission, reference, lengths, limit):
    """The network works through as many steps as the longest sequence has, for each, or fewer."""
    sequences = _sequences(6, lengths, 2)
    _, pooled, work = submission.run(_work, sequences, limit)
    needed = min(max(lengths), limit)
    if work > len(lengths) * needed:
        raise Finding(f"the network was given {work / (len(lengths) * needed):.1f} times the steps that are needed")
    longest = [i for i, length in enumerate(lengths) if length >= needed]  # padding cannot spoil their means
    assert_matches(pooled[longest], _work(reference, sequences, limit)[1][longest], rtol=1e-4, atol=1e-5)


# --- check_pipeline ---------------------------------------------------------------------------------------------------

_HERE = Path(__file__).parent
_RIGHT = read_variants(_HERE / "pipelines" / "right.py")
_WRONG = read_variants(_HERE / "pipelines" / "wrong.py")


def _implementation(variant):
    # seeded, so that a test that accepts or rejects a pipeline does so each time
    return f"{variant.source}\n\n\ndef implementation():\n    torch.manual_seed(0)\n    return make_pipeline()\n"


_ALL = [_implementation(variant) for variant in (*_RIGHT, *_WRONG)]


@pytest.mark.task("check_pipeline")
@pytest.mark.parametrize("number", range(len(_RIGHT)))
def test_own_test_accepts_right_pipelines(submission, number):
    """Your test accepts pipelines that learn a batch by heart, whatever they are made of."""
    assert_accepts(submission.check_pipeline, _implementation(_RIGHT[number]), among=_ALL)


@pytest.mark.task("check_pipeline")
@pytest.mark.pitfall("T10")
@pytest.mark.lesson("Overfit one batch")
@pytest.mark.parametrize("number", range(len(_WRONG)))
def test_own_test_rejects_wrong_pipelines(submission, number):
    """Your test rejects pipelines that learn nothing, too little, too late or other labels, that forget, or work in one mode."""
    assert_rejects(submission.check_pipeline, _implementation(_WRONG[number]), among=_ALL)
