"""Visible tests of exercise 3, sections 1 to 5. They use examples that can be worked out by hand; they are for you."""

import math

import pytest
import torch
import torch.nn.functional as F

from autograder.checks import assert_matches
from autograder.errors import Finding

# --- Classifier -------------------------------------------------------------------------------------------------------


def _shape_of_scores(learner, images):
    torch.manual_seed(0)
    scores = learner.Classifier(2, 16, torch.tensor(0.0), torch.tensor(1.0), n_classes=7)(images)
    return scores.shape, scores.dtype


@pytest.mark.task("Classifier")
def test_there_is_a_score_for_each_class(submission, digits):
    """Five pictures and seven classes give scores of shape (5, 7), float32."""
    shape, dtype = submission.run(_shape_of_scores, digits(seed=0, n=5)[0])
    assert_matches(tuple(shape), (5, 7), what="the shape")
    assert_matches(dtype, torch.float32, what="the dtype")


def _favourites(learner, images):
    """The classes with the highest scores, by a model without blocks that adds up what it sees."""
    model = learner.Classifier(0, 2, torch.full((64,), 0.5), torch.full((64,), 0.25), n_classes=3)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.requires_grad:
                parameter.fill_(0.01)
                if parameter.shape == (3, 2):
                    parameter.copy_(torch.tensor([[1.0, 1.0], [0.0, 0.0], [-1.0, -1.0]]))
    return model.eval()(images).argmax(dim=1)


@pytest.mark.task("Classifier")
def test_brighter_or_darker_than_the_mean(submission):
    """A model that adds up the normalised pixels favours one class for bright pictures, and another for dark ones."""
    favourites = submission.run(_favourites, torch.tensor([[0.75], [0.25]]).expand(2, 64))
    assert_matches(favourites, torch.tensor([0, 2]), what="the class with the highest score")


def _one_step(learner, images, labels):
    torch.manual_seed(1)
    model = learner.Classifier(2, 8, torch.zeros(64), torch.ones(64))
    optimiser = torch.optim.SGD(model.parameters(), lr=0.5)
    before = [parameter.detach().clone() for parameter in model.parameters() if parameter.requires_grad]
    torch.nn.functional.cross_entropy(model(images), labels).backward()
    optimiser.step()
    after = [parameter.detach() for parameter in model.parameters() if parameter.requires_grad]
    return sum(b.numel() for b in before), [torch.equal(b, a) for b, a in zip(before, after, strict=True)]


@pytest.mark.task("Classifier")
@pytest.mark.pitfall("T5")
@pytest.mark.lesson("What a module knows about")
def test_all_layers_are_trained(submission, digits):
    """With two blocks of width 8 the model trains 770 numbers, and one step of training changes every tensor."""
    n_trained, unchanged = submission.run(_one_step, *digits(seed=1, n=20))
    # 64 * 8 + 8 for the first layer, 8 * 8 + 8 + 8 for each block, 8 * 10 + 10 for the last layer
    assert_matches(n_trained, 520 + 2 * 80 + 90, what="the number of trained numbers")
    assert not any(unchanged), f"{sum(unchanged)} of {len(unchanged)} tensors did not change in a step"


def _learn_by_heart(learner, images, labels):
    torch.manual_seed(2)
    model = learner.Classifier(1, 32, torch.full((64,), 0.3), torch.full((64,), 0.4))
    optimiser = torch.optim.Adam(model.parameters(), lr=0.02)
    for _ in range(30):
        loss = torch.nn.functional.cross_entropy(model(images), labels)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    return loss.item()


@pytest.mark.task("Classifier")
@pytest.mark.pitfall("T17")
@pytest.mark.lesson("Logits, not probabilities")
def test_twenty_digits_are_learned_by_heart(submission, digits):
    """Trained on the same 20 digits again and again, the model gets their loss below 0.5."""
    loss = submission.run(_learn_by_heart, *digits(seed=2, n=20))
    if not loss < 0.5:
        raise Finding(f"after 30 steps on the same 20 digits the loss is still {loss:.2f}")


def _loaded(learner, images):
    """Scores of a model without blocks that was loaded from another one's state_dict."""
    saved = learner.Classifier(0, 2, torch.tensor(0.5), torch.tensor(0.25), n_classes=3)
    with torch.no_grad():
        for parameter in saved.parameters():
            if parameter.requires_grad:
                parameter.fill_(0.01)
                if parameter.shape == (3, 2):
                    parameter[0] = 1.0
    loaded = learner.Classifier(0, 2, torch.tensor(0.0), torch.tensor(1.0), n_classes=3)
    loaded.load_state_dict(saved.state_dict())
    return loaded.eval()(images)


@pytest.mark.task("Classifier")
@pytest.mark.pitfall("T15")
@pytest.mark.lesson("What a module knows about")
def test_state_dict_holds_all_that_matters(submission):
    """A model that is loaded from another one's state_dict gives the scores of that one."""
    scores = submission.run(_loaded, torch.tensor([[0.75], [0.25]]).expand(2, 64))
    # normalised, the pixels are 1 and -1; so the two hidden numbers are both 0.65 and -0.63
    expected = torch.tensor([[2 * 0.65 + 0.01, 0.023, 0.023], [2 * -0.63 + 0.01, -0.0026, -0.0026]])
    assert_matches(scores.softmax(dim=1), expected.softmax(dim=1), what="the probabilities")


# --- train_one_epoch --------------------------------------------------------------------------------------------------


def _train(learner, weight, bias, batches, accumulate, max_norm, lr, left=None):
    """Train one linear layer by plain steps: its weight and bias, the result, and whether it is in train mode.

    *left* is what all gradients are before.
    """
    from autograder.instruments import mlp

    model = mlp([weight, bias]).eval()
    optimiser = torch.optim.SGD(model.parameters(), lr=lr)
    for parameter in model.parameters():
        parameter.grad = None if left is None else torch.full_like(parameter, left)
    result = learner.train_one_epoch(model, batches, optimiser, accumulate, max_norm)
    return model[0].weight.detach(), model[0].bias.detach(), result, model.training


def _mean_gradient(weight, bias, images, labels):
    """The gradient of the mean cross-entropy of a linear layer."""
    weight, bias = weight.clone().requires_grad_(), bias.clone().requires_grad_()
    return torch.autograd.grad(F.cross_entropy(F.linear(images, weight, bias), labels), (weight, bias))


@pytest.mark.task("train_one_epoch")
def test_mean_loss_of_a_model_that_knows_nothing(submission):
    """A model whose weights are zero has loss log(4) for four classes, and a rate of zero leaves it so."""
    batches = [(torch.ones(2, 3), torch.tensor([0, 1])), (torch.ones(1, 3), torch.tensor([3]))]
    weight, _, result, training = submission.run(_train, torch.zeros(4, 3), torch.zeros(4), batches, 1, 1.0, 0.0)
    assert isinstance(result, float), f"the result is a {type(result).__name__}; expected a float"
    assert_matches(result, math.log(4), what="the mean loss")
    assert_matches(weight, torch.zeros(4, 3), what="the weight")
    assert training, "the model is in eval mode afterwards"


@pytest.mark.task("train_one_epoch")
@pytest.mark.pitfall("T2", "T3")
@pytest.mark.lesson("Accumulating gradients")
def test_two_batches_make_one_step(submission):
    """A batch of one sample and a batch of two, accumulated, make the step that one batch of all three makes."""
    images, labels = torch.eye(3), torch.arange(3)
    batches = [(images[:1], labels[:1]), (images[1:], labels[1:])]
    weight, _, _, _ = submission.run(_train, torch.zeros(3, 3), torch.zeros(3), batches, 2, 100.0, 1.0)
    # each sample pulls its own column: its class up by 2/3, the others down by 1/3, and of that the mean of three
    assert_matches(weight, (torch.eye(3) - 1 / 3) / 3, what="the weight after one step")


@pytest.mark.task("train_one_epoch")
@pytest.mark.pitfall("T3")
@pytest.mark.lesson("Accumulating gradients")
def test_batches_that_are_left_over_count(submission):
    """With one batch only and `accumulate=4`, a step is made all the same."""
    batches = [(torch.tensor([[2.0, 0.0]]), torch.tensor([1]))]
    weight, bias, _, _ = submission.run(_train, torch.zeros(2, 2), torch.zeros(2), batches, 4, 100.0, 1.0)
    assert_matches(weight, torch.tensor([[-1.0, 0.0], [1.0, 0.0]]), what="the weight after one step")
    assert_matches(bias, torch.tensor([-0.5, 0.5]), what="the bias after one step")


@pytest.mark.task("train_one_epoch")
@pytest.mark.pitfall("T2")
@pytest.mark.lesson("The order of the calls")
def test_each_step_has_a_gradient_of_its_own(submission):
    """Two steps, each made of two batches of one sample, are the two steps that plain gradient descent makes."""
    images = torch.tensor([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0], [0.0, 0.0]])
    labels = torch.tensor([0, 1, 1, 1])
    batches = [(images[i : i + 1], labels[i : i + 1]) for i in range(4)]
    expected = torch.zeros(2, 2), torch.zeros(2)
    for first in (0, 2):
        gradients = _mean_gradient(*expected, images[first : first + 2], labels[first : first + 2])
        expected = tuple(old - 0.5 * gradient for old, gradient in zip(expected, gradients, strict=True))
    weight, bias, _, _ = submission.run(_train, torch.zeros(2, 2), torch.zeros(2), batches, 2, 100.0, 0.5)
    assert_matches((weight, bias), expected, what="the weight and the bias after two steps")


@pytest.mark.task("train_one_epoch")
@pytest.mark.pitfall("T2")
@pytest.mark.lesson("The order of the calls")
def test_old_gradients_have_no_part(submission):
    """Gradients of 7 from before the call do not show in the step that two batches make."""
    batches = [(torch.tensor([[1.0, 0.0]]), torch.tensor([1])), (torch.tensor([[0.0, 1.0]]), torch.tensor([0]))]
    weight, bias, _, _ = submission.run(_train, torch.zeros(2, 2), torch.zeros(2), batches, 2, 100.0, 1.0, left=7.0)
    assert_matches(weight, torch.tensor([[-0.25, 0.25], [0.25, -0.25]]), what="the weight after one step")
    assert_matches(bias, torch.zeros(2), what="the bias after one step")


@pytest.mark.task("train_one_epoch")
@pytest.mark.pitfall("T11")
@pytest.mark.lesson("When a batch explodes")
def test_the_step_is_clipped_as_a_whole(submission):
    """Of two batches that make one step, one has a value of 1000: next to it, the other hardly shows in the step."""
    batches = [(torch.tensor([[1e3, 0.0]]), torch.tensor([0])), (torch.tensor([[0.0, 1.0]]), torch.tensor([1]))]
    weight, _, _, _ = submission.run(_train, torch.zeros(2, 2), torch.zeros(2), batches, 2, 1.0, 1.0)
    # both pull alike by a share of their values, 250 and 1/4; the norm of all that is sqrt(2) * 250, and may be 1
    expected = torch.tensor([[1.0, -0.001], [-1.0, 0.001]]) / math.sqrt(2)
    assert_matches(weight, expected, atol=1e-4, what="the weight after one step")


@pytest.mark.task("train_one_epoch")
@pytest.mark.pitfall("T11")
@pytest.mark.lesson("When a batch explodes")
def test_a_broken_picture_makes_a_small_step(submission):
    """One picture with values of 40,000: with max_norm 2 and a rate of 0.5 the weights move by 1, and that downhill."""
    batches = [(torch.tensor([[4e4, 0.0]]), torch.tensor([0]))]
    weight, _, _, _ = submission.run(_train, torch.zeros(2, 2), torch.zeros(2), batches, 1, 2.0, 0.5)
    expected = torch.tensor([[1.0, 0.0], [-1.0, 0.0]]) / math.sqrt(2)
    assert_matches(weight, expected, atol=1e-4, what="the weight after one step")


def _logbook(learner, batches, max_norm):
    """Trains with a layer that notes how many graphs are alive as each batch comes, and counts reads."""
    from autograder.instruments import GraphCounter, HostReads

    model = torch.nn.Sequential(torch.nn.Linear(2, 2, bias=False), GraphCounter())
    torch.nn.init.zeros_(model[0].weight)
    with HostReads() as reads:
        learner.train_one_epoch(model, batches, torch.optim.SGD(model.parameters(), lr=0.5), 2, max_norm)
    return model[0].weight.detach(), model[1].history, reads.count


@pytest.mark.task("train_one_epoch")
@pytest.mark.pitfall("T18")
@pytest.mark.lesson("What the log keeps alive")
def test_the_log_costs_nothing(submission):
    """Over 12 batches the graphs of earlier ones do not pile up, and values are not read more often than over 4."""
    # the same two samples again and again, so each step pulls them alike: first by 1/4, then by less
    images, labels = torch.eye(2), torch.tensor([0, 1])
    batches = [(images[i % 2 : i % 2 + 1], labels[i % 2 : i % 2 + 1]) for i in range(12)]
    weight, alive, many = submission.run(_logbook, batches, 100.0)
    _, _, few = submission.run(_logbook, batches[:4], 100.0)
    if max(alive) > 2:
        raise Finding(f"the graphs of {max(alive)} earlier batches are alive at once")
    if many > few:
        raise Finding(f"it reads values {many} times for 12 batches and {few} times for 4")
    pull = 0.0
    for _ in range(6):
        pull += 0.5 * 0.5 / (1 + math.exp(2 * pull))
    assert_matches(weight, torch.tensor([[pull, -pull], [-pull, pull]]), what="the weight after six steps")


# --- validate ---------------------------------------------------------------------------------------------------------


def _validate_plain(learner, batches):
    """The scores are the pictures themselves: a linear layer that hands on what it gets."""
    from autograder.instruments import mlp

    model = mlp([torch.eye(2), torch.zeros(2)])
    recorded = []
    model[0].register_forward_hook(lambda module, args, output: recorded.append(output.requires_grad))
    return learner.validate(model, batches), recorded


PICTURES = torch.tensor([[1.0, 0.0], [2.0, 0.0], [3.0, 0.0]])
"""Scores of three samples; the first class is always the likelier one."""
PLAIN = [(PICTURES[:2], torch.tensor([0, 0])), (PICTURES[2:], torch.tensor([1]))]
PLAIN_LOSS = (math.log1p(math.exp(-1.0)) + math.log1p(math.exp(-2.0)) + math.log1p(math.exp(3.0))) / 3


@pytest.mark.task("validate")
def test_validation_of_a_single_batch(submission):
    """Of two samples, one is predicted right: accuracy 0.5, and the mean of their two losses."""
    batches = [(PICTURES[:2], torch.tensor([0, 1]))]
    result, _ = submission.run(_validate_plain, batches)
    loss = (math.log1p(math.exp(-1.0)) + math.log1p(math.exp(2.0))) / 2
    assert_matches(result, {"loss": loss, "accuracy": 0.5})
    assert all(isinstance(value, float) for value in result.values()), "the results are no Python floats"


@pytest.mark.task("validate")
@pytest.mark.pitfall("T14")
@pytest.mark.lesson("Averages over batches")
def test_two_of_three_are_right(submission):
    """Two samples in the first batch are right, one in the second is wrong: accuracy 2/3, and the mean of 3 losses."""
    result, _ = submission.run(_validate_plain, PLAIN)
    assert_matches(result, {"loss": PLAIN_LOSS, "accuracy": 2 / 3})


@pytest.mark.task("validate")
@pytest.mark.pitfall("T4")
@pytest.mark.lesson("What the log keeps alive")
def test_validation_makes_no_graph(submission):
    """The scores that the model gives during validation belong to no autograd graph."""
    batches = [(PICTURES[:2], torch.tensor([0, 1])), (PICTURES[1:], torch.tensor([1, 0]))]
    result, recorded = submission.run(_validate_plain, batches)
    assert_matches(result["accuracy"], 0.5, what="the accuracy")
    assert recorded, "the model was not called"
    assert not any(recorded), f"{sum(recorded)} of {len(recorded)} batches made a graph"


def _validate_normalised(learner, batches):
    """Batch normalisation (running mean 1, variance 4) before a layer that hands on what it gets."""
    from autograder.instruments import mlp

    torch.manual_seed(4)  # for Dropout, should it be at work
    norm = torch.nn.BatchNorm1d(2, eps=1e-12)
    norm.running_mean.fill_(1.0)
    norm.running_var.fill_(4.0)
    model = torch.nn.Sequential(norm, torch.nn.Dropout(0.5), mlp([torch.eye(2), torch.zeros(2)]))
    return [learner.validate(model, batches) for _ in range(2)], norm.running_mean


@pytest.mark.task("validate")
@pytest.mark.pitfall("T1")
@pytest.mark.lesson("Two modes")
def test_looking_twice_shows_the_same(submission):
    """Scored twice, a model with batch normalisation gives the same result, and its statistics stay as they were."""
    batches = [(2 * PICTURES, torch.tensor([0, 1, 0]))]
    (first, second), mean = submission.run(_validate_normalised, batches)
    # (2x - 1) / 2 leaves the differences between the scores of a sample at 1, 2 and 3
    loss = (math.log1p(math.exp(-1.0)) + math.log1p(math.exp(2.0)) + math.log1p(math.exp(-3.0))) / 3
    assert_matches(first, {"loss": loss, "accuracy": 2 / 3}, what="the first result")
    assert_matches(second, first, what="the second result")
    assert_matches(mean, torch.ones(2), what="the running mean")


def _modes_after(learner, batches, frozen):
    from autograder.instruments import mlp

    torch.manual_seed(5)
    inner = torch.nn.Sequential(torch.nn.BatchNorm1d(2), torch.nn.Dropout(0.5))
    model = torch.nn.Sequential(inner, mlp([torch.eye(2), torch.zeros(2)])).train()
    if frozen:
        inner[0].eval()
    result = learner.validate(model, batches)
    named = {"the model": model, "the inner part": inner, "its BatchNorm": inner[0], "its Dropout": inner[1]}
    return {name: module.training for name, module in named.items()}, result


@pytest.mark.task("validate")
@pytest.mark.pitfall("T1")
@pytest.mark.lesson("Two modes")
def test_a_frozen_layer_stays_frozen(submission):
    """After validation each module is in the mode that it was in: one frozen in eval mode, and its neighbours."""
    batches = [(PICTURES, torch.tensor([0, 1, 0]))]
    modes, result = submission.run(_modes_after, batches, True)
    assert_matches(result["accuracy"], 2 / 3, what="the accuracy")
    assert_matches(modes, {**dict.fromkeys(modes, True), "its BatchNorm": False}, what="`training` afterwards of")


@pytest.mark.task("validate")
def test_training_goes_on_afterwards(submission):
    """A model that was in train mode is in train mode after validation, with all that it is made of."""
    modes, _ = submission.run(_modes_after, [(PICTURES, torch.tensor([0, 1, 0]))], False)
    assert_matches(modes, dict.fromkeys(modes, True), what="`training` afterwards of")


# --- make_optimiser ---------------------------------------------------------------------------------------------------


def _decay(learner, value, lr, weight_decay, steps):
    """What becomes of a network's parameters, all of one value, where every gradient is zero."""
    model = torch.nn.Sequential(torch.nn.Linear(1, 1), torch.nn.BatchNorm1d(1), torch.nn.Linear(1, 1))
    torch.nn.init.constant_(model[0].weight, value)
    torch.nn.init.constant_(model[0].bias, value)
    for parameter in (*model[1].parameters(), *model[2].parameters()):
        torch.nn.init.constant_(parameter, value)
    optimiser = learner.make_optimiser(model, lr, weight_decay)
    for _ in range(steps):
        for parameter in model.parameters():
            parameter.grad = torch.zeros_like(parameter)
        optimiser.step()
    first, norm, last = ({name: p.item() for name, p in layer.named_parameters()} for layer in model)
    others = {
        "the first layer's bias": first["bias"],
        "the normalisation's weight": norm["weight"],
        "the normalisation's bias": norm["bias"],
        "the last layer's bias": last["bias"],
    }
    return [first["weight"], last["weight"]], others


@pytest.mark.task("make_optimiser")
@pytest.mark.pitfall("T7")
@pytest.mark.lesson("Weight decay")
def test_weights_shrink_by_the_decay(submission):
    """Without gradients, two steps with rate 0.1 and weight decay 0.5 make 0.95 * 0.95 * 2 = 1.805 of a weight of 2."""
    weights, _ = submission.run(_decay, 2.0, 0.1, 0.5, 2)
    assert_matches(weights, [1.805, 1.805], what="the weights")


@pytest.mark.task("make_optimiser")
@pytest.mark.pitfall("T7")
@pytest.mark.lesson("Weight decay")
def test_biases_and_normalisation_stay(submission):
    """Without gradients, weights get smaller; biases and the parameters of normalisation layers do not change."""
    weights, others = submission.run(_decay, 2.0, 0.1, 0.5, 3)
    assert all(0 < weight < 2 for weight in weights), f"the weights went from 2 to {weights}"
    assert_matches(others, dict.fromkeys(others, 2.0), what="after three steps")


def _groups(learner):
    layer = torch.nn.Linear(2, 3)
    body = torch.nn.Linear(2, 2).requires_grad_(False)
    optimiser = learner.make_optimiser(torch.nn.Sequential(body, layer), 0.25, 0.1)
    sizes = sorted(parameter.numel() for group in optimiser.param_groups for parameter in group["params"])
    return sizes, [group["lr"] for group in optimiser.param_groups if group["params"]]


@pytest.mark.task("make_optimiser")
@pytest.mark.lesson("Weight decay")
def test_frozen_parameters_are_left_out(submission):
    """Of two layers, one of them frozen, the optimiser has the weight and the bias of the other, once each."""
    sizes, rates = submission.run(_groups)
    assert_matches(sizes, [3, 6], what="the list of all sizes in the groups")
    assert_matches(rates, [0.25] * len(rates), what="the rates of the groups")


# --- make_scheduler ---------------------------------------------------------------------------------------------------


def _rates(learner, lr, n_epochs, steps_per_epoch, n_warmup, floor, steps):
    """The rates that the steps are made with."""
    parameter = torch.nn.Parameter(torch.zeros(1))
    optimiser = torch.optim.SGD([parameter], lr=lr)
    scheduler = learner.make_scheduler(optimiser, n_epochs, steps_per_epoch, n_warmup, floor)
    rates = []
    for _ in range(steps):
        rates.append(float(optimiser.param_groups[0]["lr"]))
        parameter.grad = torch.ones(1)
        optimiser.step()
        scheduler.step()
    return rates


@pytest.mark.task("make_scheduler")
@pytest.mark.pitfall("T8")
@pytest.mark.lesson("The learning rate over time")
def test_warm_up(submission):
    """With four steps of warm-up, the first four steps have a quarter, a half, three quarters and all of the rate."""
    rates = submission.run(_rates, 0.8, 2, 5, 4, 0.1, 4)
    assert_matches(rates, [0.2, 0.4, 0.6, 0.8], what="the rates of the first four steps")


@pytest.mark.task("make_scheduler")
@pytest.mark.pitfall("T8")
@pytest.mark.lesson("The learning rate over time")
def test_half_a_cosine(submission):
    """After two steps of warm-up to a rate of 1, four more go down to nothing: 0.854, 0.5, 0.146 and 0."""
    rates = submission.run(_rates, 1.0, 2, 3, 2, 0.0, 6)
    quarter = math.sqrt(0.125)
    assert_matches(rates[2:], [0.5 + quarter, 0.5, 0.5 - quarter, 0.0], what="the rates after the warm-up")


@pytest.mark.task("make_scheduler")
@pytest.mark.pitfall("T8")
@pytest.mark.lesson("The learning rate over time")
def test_rate_stays_at_its_floor(submission):
    """Two steps are planned and four are made: the first with the mean of rate and floor, all others with the floor."""
    rates = submission.run(_rates, 1.0, 2, 1, 0, 0.5, 4)
    assert_matches(rates, [0.75, 0.5, 0.5, 0.5], what="the rates")
