"""Visible tests of exercise 6, sections 4 to 7. They use examples that can be worked out by hand; they are for you."""

import math

import pytest
import torch

from autograder.checks import assert_matches
from autograder.errors import Finding

# --- attention --------------------------------------------------------------------------------------------------------


@pytest.mark.task("attention")
def test_equal_keys_share(submission):
    """Queries of zero give all keys the same weight: the result is the mean of the values, in the dtype of q."""
    values = torch.tensor([1.0, 2.0, 6.0]).view(1, 1, 3, 1).expand(1, 2, 3, 4)
    for dtype in (torch.float32, torch.float16):
        v = values.to(dtype)
        result = submission.attention(torch.zeros_like(v), v, v, torch.zeros(1, 3, dtype=torch.bool))
        assert_matches(result, torch.full((1, 2, 3, 4), 3.0, dtype=dtype))


@pytest.mark.task("attention")
def test_a_padded_row_has_no_weight(submission):
    """Of three rows the last is padding: the result is the mean of the other two values."""
    v = torch.tensor([1.0, 2.0, 6.0]).view(1, 1, 3, 1)
    result = submission.attention(torch.zeros_like(v), v, v, torch.tensor([[False, False, True]]))
    assert_matches(result, torch.full((1, 1, 3, 1), 1.5))


def _with_gradients(function, q, k, v, padding):
    leaves = [x.clone().requires_grad_() for x in (q, k, v)]
    result = function(*leaves, padding)
    gradients = torch.autograd.grad(result.sum(), leaves)
    return result, gradients


@pytest.mark.task("attention")
@pytest.mark.pitfall("M9")
@pytest.mark.lesson("Masks in half precision")
@pytest.mark.parametrize("dtype", (torch.float16, torch.float32), ids=str)
def test_nothing_but_padding(submission, dtype):
    """A sequence that is all padding gives zeros, with gradients of zero; its neighbour, 5 and 5, gives 5."""
    v = torch.tensor([[1.0, 3.0], [5.0, 5.0]], dtype=dtype).view(2, 1, 2, 1)
    padding = torch.tensor([[True, True], [False, False]])
    result, gradients = submission.attention.probe(_with_gradients, v, v, v, padding)
    expected = torch.tensor([[0.0, 0.0], [5.0, 5.0]], dtype=dtype).view(2, 1, 2, 1)
    assert_matches(result, expected, what=f"the result in {str(dtype).removeprefix('torch.')}")
    for name, gradient in zip("qkv", gradients, strict=True):
        assert_matches(gradient[0], torch.zeros(1, 2, 1, dtype=dtype), what=f"the gradient of {name}, all padding")
    assert_matches(gradients[2][1], torch.ones(1, 2, 1, dtype=dtype), what="the gradient of v, no padding")


@pytest.mark.task("attention")
@pytest.mark.pitfall("M9")
@pytest.mark.lesson("Masks in half precision")
def test_nothing_but_padding_and_negative_scores(submission):
    """In float16, a sequence of padding gives zeros where all scores are -64, too; its neighbour, 8 and 8, gives 8."""
    x = torch.full((2, 1, 2, 1), 8.0, dtype=torch.float16)
    padding = torch.tensor([[True, True], [False, False]])
    result, gradients = submission.attention.probe(_with_gradients, x, -x, x, padding)
    assert_matches(result, torch.tensor([0.0, 8.0], dtype=torch.float16).view(2, 1, 1, 1).expand(2, 1, 2, 1))
    for name, gradient in zip("qkv", gradients, strict=True):
        assert_matches(gradient[0], torch.zeros_like(x[0]), what=f"the gradient of {name}, all padding")


@pytest.mark.task("attention")
def test_float64_has_more_digits(submission):
    """The mean of 1 and 1 + 2^-30 is 1 + 2^-31 in float64."""
    v = (1 + torch.tensor([0.0, 2.0**-30], dtype=torch.float64)).view(1, 1, 2, 1)
    result = submission.attention(torch.zeros_like(v), v, v, torch.zeros(1, 2, dtype=torch.bool))
    assert_matches((result - 1) * 2**31, torch.ones_like(v), rtol=1e-3, what="what is above 1, times 2^31")


@pytest.mark.task("attention")
@pytest.mark.pitfall("M9")
@pytest.mark.lesson("Masks in half precision")
def test_a_large_score_wins(submission):
    """In float16, a key whose score is 12,800 gets all the weight beside one whose score is 0."""
    q = torch.full((1, 1, 2, 64), 40.0, dtype=torch.float16)
    k = q * torch.tensor([1, 0], dtype=torch.float16).view(1, 1, 2, 1)  # 64 products of 1600 each: 102,400; and 0
    v = torch.tensor([2.0, 7.0], dtype=torch.float16).view(1, 1, 2, 1).expand(1, 1, 2, 64)
    result = submission.attention(q, k, v, torch.zeros(1, 2, dtype=torch.bool))
    assert_matches(result, torch.full((1, 1, 2, 64), 2.0, dtype=torch.float16))


# --- smoothed_loss ----------------------------------------------------------------------------------------------------


@pytest.mark.task("smoothed_loss")
def test_logits_that_know_nothing(submission):
    """Four logits that are the same give a loss of log(4), whatever the smoothing."""
    for smoothing in (0.0, 0.2):
        result = submission.smoothed_loss(torch.ones(3, 4), torch.tensor([0, 1, 3]), smoothing)
        assert_matches(result, torch.tensor(math.log(4)))


@pytest.mark.task("smoothed_loss")
def test_two_classes(submission):
    """Logits log(3) and 0 are probabilities 3/4 and 1/4; with smoothing 0.2 their logarithms count 0.9 and 0.1."""
    result = submission.smoothed_loss(torch.tensor([[math.log(3), 0.0]]), torch.tensor([0]), 0.2)
    assert_matches(result, torch.tensor(-0.9 * math.log(0.75) - 0.1 * math.log(0.25)))


@pytest.mark.task("smoothed_loss")
@pytest.mark.pitfall("M3")
@pytest.mark.lesson("The loss in full precision")
@pytest.mark.parametrize("dtype", (torch.bfloat16, torch.float16), ids=str)
def test_half_logits_have_a_whole_loss(submission, dtype):
    """Logits of 2 and 0 in half precision give the loss log(1 + exp(-2)), in float32 and to six digits."""
    result = submission.smoothed_loss(torch.tensor([[2.0, 0.0]], dtype=dtype), torch.tensor([0]), 0.0)
    assert_matches(result, torch.tensor(math.log1p(math.exp(-2.0))))


@pytest.mark.task("smoothed_loss")
@pytest.mark.pitfall("M3")
@pytest.mark.lesson("The loss in full precision")
@pytest.mark.parametrize("dtype", (torch.bfloat16, torch.float16), ids=str)
def test_half_logits_and_smoothing(submission, dtype):
    """The same logits with smoothing 0.6: the second class, whose loss is larger by 2, has a share of exactly 3/10."""
    result = submission.smoothed_loss(torch.tensor([[2.0, 0.0]], dtype=dtype), torch.tensor([0]), 0.6)
    assert_matches(result, torch.tensor(math.log1p(math.exp(-2.0)) + 0.3 * 2.0))


@pytest.mark.task("smoothed_loss")
@pytest.mark.pitfall("M3")
@pytest.mark.lesson("The loss in full precision")
@pytest.mark.parametrize("dtype", (torch.float16, torch.float32), ids=str)
def test_large_logits(submission, dtype):
    """Logits of 1000 and 0: a loss of 0 for the first class, of 1000 for the second, of 500 on average; -1000 too."""
    labels = torch.tensor([0, 1])
    for size in (1000.0, -1000.0):
        result = submission.smoothed_loss(torch.tensor([[size, 0.0]] * 2, dtype=dtype), labels, 0.0)
        assert_matches(result, torch.tensor(500.0), what=f"the loss with logits of {size:g}")


def _in_a_region(function, logits, labels, smoothing, region):
    with torch.autocast(logits.device.type, dtype=getattr(torch, region)):
        return function(logits, labels, smoothing)


@pytest.mark.task("smoothed_loss")
@pytest.mark.pitfall("M3")
@pytest.mark.lesson("What autocast casts")
@pytest.mark.parametrize("region", ("bfloat16", "float16"))
def test_a_region_changes_nothing(submission, region):
    """Inside an autocast region the loss is what it is outside."""
    logits = torch.tensor([[math.log(3), 0.0]])
    result = submission.smoothed_loss.probe(_in_a_region, logits, torch.tensor([0]), 0.2, region)
    assert_matches(result, torch.tensor(-0.9 * math.log(0.75) - 0.1 * math.log(0.25)))


# --- RowClassifier ----------------------------------------------------------------------------------------------------
# One example for all tests. Rows are all ones or all zeros, in turn, and `embed` takes their mean: x is (1, 1, 0, 0) or
# (0, 1, 0, 0), the second number from the positions. All queries are 2 log 3 and the keys are x, so the scaled scores
# are log 3 or 0, and the weights are as 3 to 1: on average, the first number is 3/4. Added to x, the means over all
# rows are 1.25 and 2.

LOGITS = torch.tensor([[1.25, 2.0]])
PRECISIONS = ("fp32", "bf16", "fp16")
DTYPES = {"fp32": "torch.float32", "bf16": "torch.bfloat16", "fp16": "torch.float16"}
CLOSE = {"fp32": 1e-5, "bf16": 2**-5, "fp16": 2**-8}  # a few roundings


def _striped():
    """The model's state and the picture."""
    state = {f"{name}.bias": torch.zeros(4) for name in ("embed", "query", "key", "value", "out")}
    state |= {f"{name}.weight": torch.eye(4) for name in ("key", "value", "out")}
    state["embed.weight"] = torch.zeros(4, 8)
    state["embed.weight"][0] = 1 / 8
    state["query.weight"] = torch.zeros(4, 4)
    state["query.bias"][0] = 2 * math.log(3)
    state["head.weight"] = torch.eye(4)[:2].clone()
    state["head.bias"] = torch.zeros(2)
    state["positions"] = torch.tensor([0.0, 1.0, 0.0, 0.0]).expand(8, 4).clone()
    return state, (torch.arange(8) % 2 == 0).float().repeat_interleave(8).view(1, 64)


def _striped_model(learner, precision, state, images, made_for=""):
    """Its logits, and the dtypes of its matrix products (forward and backward)."""
    from autograder.instruments import MatmulDtypes

    model = learner.RowClassifier(4, state["positions"], made_for or precision, n_classes=2)
    model.load_state_dict(state)
    if made_for:
        model.precision = precision
    with MatmulDtypes() as products:
        logits = model(images)
        logits.sum().backward()
    return logits, sorted(products.counts)


@pytest.mark.task("RowClassifier")
def test_a_striped_picture(submission):
    """A model whose weights are known gives the logits 1.25 and 2 for a striped picture, in float32."""
    logits, _ = submission.run(_striped_model, "fp32", *_striped())
    assert_matches(logits, LOGITS, rtol=1e-5, what="the logits")


@pytest.mark.task("RowClassifier")
@pytest.mark.lesson("One model, one setting")
@pytest.mark.parametrize("precision", ("bf16", "fp16"))
def test_the_precision_has_an_effect(submission, precision):
    """In half precision there are matrix products in half precision."""
    logits, products = submission.run(_striped_model, precision, *_striped())
    if DTYPES[precision] not in products:
        raise Finding(f"with {precision} there are matrix products in {', '.join(products) or 'no dtype at all'} only")
    assert_matches(logits.argmax(dim=1), torch.tensor([1]), what="the class with the highest logit")


@pytest.mark.task("RowClassifier")
@pytest.mark.pitfall("M7")
@pytest.mark.lesson("One model, one setting")
@pytest.mark.parametrize("precision", ("bf16", "fp16"))
def test_the_same_picture_in_half_precision(submission, precision):
    """The same model gives the same logits in half precision, but for a few roundings."""
    logits, _ = submission.run(_striped_model, precision, *_striped())
    assert_matches(logits, LOGITS, rtol=CLOSE[precision], what="the logits")


@pytest.mark.task("RowClassifier")
@pytest.mark.pitfall("M5")
@pytest.mark.lesson("Promotion without a word")
def test_products_have_the_dtype_asked_for(submission):
    """In each precision all matrix products are computed in its dtype, and the highest logit is the right one."""
    for precision in PRECISIONS:
        logits, products = submission.run(_striped_model, precision, *_striped())
        if products != [DTYPES[precision]]:
            raise Finding(f"with {precision} there are matrix products in {', '.join(products) or 'no dtype at all'}")
        assert_matches(logits.argmax(dim=1), torch.tensor([1]), what="the class with the highest logit")


@pytest.mark.task("RowClassifier")
@pytest.mark.pitfall("M2", "M7")
@pytest.mark.lesson("One model, one setting")
@pytest.mark.parametrize(("before", "after"), (("fp32", "fp16"), ("bf16", "fp32")))
def test_set_to_another_precision(submission, before, after):
    """Made for one precision and set to another one, the model gives what it gives when it is made for that one."""
    logits, products = submission.run(_striped_model, after, *_striped(), made_for=before)
    assert_matches(logits, LOGITS, rtol=CLOSE[after], what="the logits")
    if products != [DTYPES[after]]:
        raise Finding(f"set to {after}, it has matrix products in {', '.join(products) or 'no dtype at all'}")


def _new_state(learner, precision, positions):
    return learner.RowClassifier(4, positions, precision).state_dict()


@pytest.mark.task("RowClassifier")
@pytest.mark.pitfall("M2")
@pytest.mark.lesson("Weights that round away")
@pytest.mark.parametrize("precision", ("bf16", "fp16"))
def test_a_new_model_is_float32(submission, precision):
    """Of a new model for half precision, all of the state is float32; positions of 1/3 keep all of their digits."""
    state = submission.run(_new_state, precision, torch.full((8, 4), 1 / 3))
    for name, tensor in state.items():
        assert_matches(str(tensor.dtype), "torch.float32", what=f"the dtype of {name}")
    assert_matches(state["positions"], torch.full((8, 4), 1 / 3), rtol=0, atol=0, what="the positions")


def _small_step(learner, precision, positions, images):
    """The dtypes of the parameters, and the biases of the head, 1 before, after a step with a gradient of -+1/2."""
    torch.manual_seed(0)
    model = learner.RowClassifier(4, positions, precision, n_classes=2)
    with torch.no_grad():
        model.head.weight.zero_()
        model.head.bias.fill_(1.0)
    optimiser = torch.optim.SGD(model.parameters(), lr=1e-4)
    torch.nn.functional.cross_entropy(model(images), torch.tensor([0])).backward()
    optimiser.step()
    return sorted({str(parameter.dtype) for parameter in model.parameters()}), model.head.bias.detach()


@pytest.mark.task("RowClassifier")
@pytest.mark.pitfall("M2")
@pytest.mark.lesson("Weights that round away")
@pytest.mark.parametrize("precision", ("bf16", "fp16"))
def test_a_small_step_is_not_lost(submission, precision):
    """A step with a rate of 1/10,000 moves biases of 1 to 1.00005 and 0.99995."""
    _, bias = submission.run(_small_step, precision, torch.ones(8, 4), _striped()[1])
    assert_matches(
        bias.double() - 1, torch.tensor([5e-5, -5e-5]).double(), atol=2e-6, what="what was added to the bias"
    )


# --- read_rows --------------------------------------------------------------------------------------------------------


def _read(learner, weights, rows, dtype, frozen=False):
    """States, how many conversions the call makes, and the dtypes of its matrix products."""
    from autograder.instruments import Conversions, MatmulDtypes, mlp

    from_row, from_state = mlp(weights[:2])[0], mlp(weights[2:])[0]
    for parameter in (*from_row.parameters(), *from_state.parameters()):
        parameter.requires_grad_(not frozen)
    with MatmulDtypes() as products, Conversions() as conversions:
        states = learner.read_rows(from_row, from_state, rows, getattr(torch, dtype))
    return states, conversions.count, sorted(products.counts)


ADDS_UP = (torch.ones(2, 1), torch.tensor([0.0, 0.5]), 0.5 * torch.eye(2), torch.zeros(2))
"""Two states: tanh(row + last / 2), and the same with 0.5 added."""


def _by_hand(rows):
    states, last = [], (0.0, 0.0)
    for row in rows:
        last = (math.tanh(row + last[0] / 2), math.tanh(row + 0.5 + last[1] / 2))
        states.append(last)
    return torch.tensor([states])


@pytest.mark.task("read_rows")
@pytest.mark.parametrize("dtype", ("float32", "bfloat16", "float16"))
def test_states_row_by_row(submission, dtype):
    """Each state is the tanh of the row plus half of the last state; all of them come back, in float32."""
    states, _, products = submission.run(_read, ADDS_UP, torch.tensor([0.5, -1.0, 0.25]).view(1, 3, 1), dtype)
    assert_matches(states, _by_hand((0.5, -1.0, 0.25)), atol=8 * torch.finfo(getattr(torch, dtype)).eps)
    assert products == [f"torch.{dtype}"], (
        f"matrix products were computed in {', '.join(products) or 'no dtype at all'}"
    )


@pytest.mark.task("read_rows")
@pytest.mark.pitfall("M6")
@pytest.mark.lesson("What it gains here")
@pytest.mark.parametrize("frozen", (False, True), ids=("trained", "frozen"))
def test_conversions_do_not_grow(submission, frozen):
    """For 12 rows there are as many conversions between dtypes as for 4, and the states are right."""
    rows = [0.5, -0.25, 0.0, 1.0] * 3
    counts = []
    for n_rows in (4, 12):
        x = torch.tensor(rows[:n_rows]).view(1, n_rows, 1)
        states, count, _ = submission.run(_read, ADDS_UP, x, "bfloat16", frozen)
        assert_matches(states, _by_hand(rows[:n_rows]), atol=8 * torch.finfo(torch.bfloat16).eps)
        counts.append(count)
    if counts[0] != counts[1]:
        kind = "frozen" if frozen else "trained"
        raise Finding(f"there are {counts[0]} conversions for 4 rows and {counts[1]} for 12, with {kind} parameters")
