"""Hidden tests of exercise 6, sections 4 to 7: the same promises at other sizes, dtypes and numbers of steps."""

import pytest
import torch

from autograder.checks import assert_gains, assert_gradients_match, assert_leaves_inputs_alone, assert_matches
from autograder.errors import Finding

HALF = (torch.float16, torch.bfloat16)
FLOATS = (*HALF, torch.float32, torch.float64)


def _random(seed, *shapes, dtype=torch.float32, scale=1.0):
    """Random tensors, the same numbers (rounded) in any dtype."""
    generator = torch.Generator().manual_seed(seed)
    return [(scale * torch.randn(shape, generator=generator, dtype=torch.float64)).to(dtype) for shape in shapes]


def _eps(dtype):
    return torch.finfo(dtype).eps


# --- attention --------------------------------------------------------------------------------------------------------
# Budgets: there are some six roundings on the way, each of half an eps relative to numbers up to about 4 (scores,
# values), and they rarely add up. 16 eps is about four times what right solutions of several kinds were measured to need.

SHAPES = ((2, 1, 5, 4), (3, 2, 9, 16), (1, 3, 4, 24))


def _padded(shape, dtype, seed=0):
    """Random q, k, v and padding of different lengths, at least one row of each sequence its own."""
    n, _, length, _ = shape
    generator = torch.Generator().manual_seed(seed + 1)
    padding = torch.rand(n, length, generator=generator) < 0.4
    padding[torch.arange(n), torch.randint(length, (n,), generator=generator)] = False
    return (*_random(seed, shape, shape, shape, dtype=dtype), padding)


def _exact(reference, q, k, v, padding):
    return reference.attention(q.double(), k.double(), v.double(), padding)


@pytest.mark.task("attention")
@pytest.mark.lesson("Masks in half precision")
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_attention_with_padding(submission, reference, dtype):
    """Right results and gradients for sequences of different lengths, in each dtype within its own roundings."""
    for seed, shape in enumerate(SHAPES):
        args = _padded(shape, dtype, seed)
        result = submission.attention(*args)
        assert_matches(result, _exact(reference, *args).to(dtype), rtol=0, atol=16 * _eps(dtype))
        assert_gradients_match(
            submission.attention, args, reference.attention, wrt=(0, 1, 2), rtol=0, atol=32 * _eps(dtype)
        )


@pytest.mark.task("attention")
@pytest.mark.pitfall("M9")
@pytest.mark.lesson("Masks in half precision")
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_sequences_of_padding_only(submission, reference, dtype):
    """Sequences without any row of their own give zeros and have gradients of zero; their neighbours are right."""
    for seed, shape in enumerate(((3, 2, 6, 8), (2, 1, 1, 3))):
        q, k, v, padding = _padded(shape, dtype, seed)
        padding[0] = True
        result = submission.attention(q, k, v, padding)
        assert_matches(result[0], torch.zeros(shape[1:], dtype=dtype), rtol=0, atol=0)
        assert_matches(result, _exact(reference, q, k, v, padding).to(dtype), rtol=0, atol=16 * _eps(dtype))
        assert_gradients_match(
            submission.attention,
            (q, k, v, padding),
            reference.attention,
            wrt=(0, 1, 2),
            rtol=0,
            atol=32 * _eps(dtype),
        )


def _large(function, q, k, v, padding):
    """The result, and whether all of q's, k's and v's gradients are finite."""
    leaves = [x.clone().requires_grad_() for x in (q, k, v)]
    result = function(*leaves, padding)
    gradients = torch.autograd.grad(result.float().sum(), leaves)
    return result, gradients[2], all(bool(gradient.isfinite().all()) for gradient in gradients)


@pytest.mark.task("attention")
@pytest.mark.pitfall("M9")
@pytest.mark.lesson("Masks in half precision")
@pytest.mark.parametrize("sign", (1, -1), ids=("positive", "negative"))
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_scores_of_ten_thousand(submission, reference, dtype, sign):
    """Scores of ten thousand and more, of either sign: right results, with some padding, with nothing else, without."""
    for depth, size in ((64, 40.0), (16, 80.0)):
        # each key is a multiple of the same vector; all numbers are exact in every dtype
        factors = torch.tensor([[1.0, 0.5, -0.5, 0.25], [0.25, 1.0, 0.5, -1.0], [1.0, 0.5, 0.25, 1.0]])
        q = torch.full((3, 2, 4, depth), size)
        k = sign * size * factors[:, None, :, None].expand(3, 2, 4, depth)
        v = torch.arange(4.0).view(1, 1, 4, 1).expand(3, 2, 4, depth)
        padding = torch.tensor([[True, False, False, False], [False, False, False, True], [True, True, True, True]])
        args = [x.to(dtype).contiguous() for x in (q, k, v)]
        for mask in (padding, padding & torch.tensor([[True], [True], [False]])):
            result, gradient, finite = submission.attention.probe(_large, *args, mask)
            leaf = args[2].double().requires_grad_()
            expected = reference.attention(args[0].double(), args[1].double(), leaf, mask)
            (expected_gradient,) = torch.autograd.grad(expected.sum(), leaf)
            assert_matches(result, expected.detach().to(dtype), rtol=0, atol=16 * _eps(dtype))
            # fused kernels make the weights anew from the scores' logarithm, which has rounding errors of its own size
            assert_matches(gradient, expected_gradient.to(dtype), rtol=0, atol=0.02, what="the gradient of v")
            assert finite, "a gradient is not finite"


@pytest.mark.task("attention")
@pytest.mark.lesson("Masks in half precision")
@pytest.mark.parametrize("dtype", HALF, ids=str)
def test_what_stands_in_the_padding(submission, reference, dtype):
    """Large numbers in padded rows of k and v change nothing, and padded queries get their results like any other."""
    q, k, v, padding = _padded((3, 2, 7, 8), dtype, seed=5)
    padded = padding[:, None, :, None]
    q = torch.where(padded, 2.0 * q, q)  # rows of padding have queries of their own
    expected = _exact(reference, q, k, v, padding).to(dtype)
    k, v = k.masked_fill(padded, 3000.0), v.masked_fill(padded, -60000.0)
    assert_matches(submission.attention(q, k, v, padding), expected, rtol=0, atol=16 * _eps(dtype))


@pytest.mark.task("attention")
def test_attention_leaves_its_inputs_alone(submission):
    """The inputs stay as they were, the mask included."""
    assert_leaves_inputs_alone(submission.attention, _padded((2, 2, 5, 4), torch.float32, seed=6))


# --- smoothed_loss ----------------------------------------------------------------------------------------------------


def _loss(function, logits, labels, smoothing, region):
    """Loss and gradient, the call in an autocast region or not (the backward pass outside, as usual)."""
    logits = logits.clone().requires_grad_()
    dtype = getattr(torch, region) if region else None
    with torch.autocast(logits.device.type, dtype=dtype, enabled=bool(region)):
        loss = function(logits, labels, smoothing)
    (gradient,) = torch.autograd.grad(loss, logits)
    return loss, gradient


def _check_loss(submission, reference, logits, labels, smoothing, region):
    loss, gradient = submission.smoothed_loss.probe(_loss, logits, labels, smoothing, region)
    leaf = logits.double().requires_grad_()
    expected = reference.smoothed_loss(leaf, labels, smoothing)
    (expected_gradient,) = torch.autograd.grad(expected, leaf)
    # float32's spacing is 1.2e-7 of a number, and each sample's loss is a sum of some
    atol = 2e-6 * max(1.0, float(logits.abs().max()))
    assert_matches(loss, expected.detach().float(), rtol=0, atol=atol, what="the loss")
    # probabilities come from differences of logits, so their relative error in float32 grows with the logits
    rtol = atol + _eps(logits.dtype)
    # and it may be the sum of two parts, of up to 1 / N each, that were rounded to the logits' dtype
    tiny = _eps(logits.dtype) / len(logits) + 1e-7
    assert_matches(gradient, expected_gradient.to(logits.dtype), rtol=rtol, atol=tiny, what="the gradient")


@pytest.mark.task("smoothed_loss")
@pytest.mark.pitfall("M3")
@pytest.mark.lesson("The loss in full precision")
@pytest.mark.parametrize("dtype", (*HALF, torch.float32), ids=str)
@pytest.mark.parametrize("size", (1.0, 12.0, 150.0, 4000.0))
def test_losses_of_any_size(submission, reference, dtype, size):
    """The loss and its gradient, as exact as float32 is, for logits of any dtype from small ones to some thousands."""
    for seed, (n, n_classes, smoothing) in enumerate(((1, 2, 0.0), (7, 10, 0.1), (5, 33, 0.5), (3, 4, 1.0))):
        (logits,) = _random(seed, (n, n_classes), dtype=dtype, scale=size)
        labels = torch.arange(n) * 7 % n_classes
        _check_loss(submission, reference, logits, labels, smoothing, "")
        _check_loss(submission, reference, logits - 2 * size, labels, smoothing, "")  # a common shift means nothing


@pytest.mark.task("smoothed_loss")
@pytest.mark.pitfall("M3")
@pytest.mark.lesson("What autocast casts")
@pytest.mark.parametrize("region", ("bfloat16", "float16"))
def test_losses_in_a_region(submission, reference, region):
    """Inside autocast regions the loss and its gradient are as exact as outside."""
    for seed, (n, n_classes, smoothing) in enumerate(((1, 3, 0.0), (6, 10, 0.1), (9, 5, 0.3))):
        for dtype in (*HALF, torch.float32):
            for size in (2.0, 30.0):
                (logits,) = _random(seed, (n, n_classes), dtype=dtype, scale=size)
                _check_loss(submission, reference, logits, torch.arange(n) % n_classes, smoothing, region)


@pytest.mark.task("smoothed_loss")
@pytest.mark.pitfall("M3")
@pytest.mark.lesson("The loss in full precision")
@pytest.mark.parametrize("dtype", HALF, ids=str)
def test_small_steps_show(submission, reference, dtype):
    """Over many samples, the loss shows differences that are smaller than the spacing of half precision."""
    (logits,) = _random(3, (40, 10), dtype=dtype)
    labels = torch.arange(40) % 10
    losses, expected = [], []
    for step in range(4):
        changed = logits.clone()
        changed[step, labels[step]] += 0.25
        losses.append(submission.smoothed_loss(changed, labels, 0.1).double())
        expected.append(reference.smoothed_loss(changed, labels, 0.1))
    assert_matches(torch.stack(losses), torch.stack(expected), rtol=0, atol=5e-6, what="the losses")


@pytest.mark.task("smoothed_loss")
def test_loss_leaves_its_inputs_alone(submission):
    """Logits and labels stay as they were."""
    (logits,) = _random(4, (5, 6))
    assert_leaves_inputs_alone(submission.smoothed_loss, (logits, torch.arange(5), 0.1))


# --- RowClassifier ----------------------------------------------------------------------------------------------------
# Budgets: some ten roundings on the way from the pixels to the logits, each of half an eps; relative to the largest
# logit, right solutions of several kinds were measured to need less than 2 eps, and less than 4 for gradients.

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}


def _state(seed, width, n_classes):
    """Weights that make the scores of the attention matter."""
    shapes = {"embed": (width, 8), "head": (n_classes, width)}
    shapes |= {name: (width, width) for name in ("query", "key", "value", "out")}
    state = {}
    for number, (name, shape) in enumerate(shapes.items()):
        weight, bias = _random(100 * seed + number, shape, shape[:1], scale=1.5 * shape[1] ** -0.5)
        state[f"{name}.weight"], state[f"{name}.bias"] = weight, bias
    (state["positions"],) = _random(100 * seed + 50, (8, width))
    return state


def _classify(learner, precisions, state, images, labels, wide=False):
    """Logits and gradients of a model that is made with the first of the precisions and set to the others in turn."""
    from autograder.instruments import MatmulDtypes

    width, n_classes = state["embed.weight"].shape[0], state["head.weight"].shape[0]
    model = learner.RowClassifier(width, torch.zeros(8, width), precisions[0], n_classes=n_classes)
    model.load_state_dict(state)
    if wide:
        model, images = model.double(), images.double()
    rounds = []
    for precision in precisions:
        model.precision = precision
        model.zero_grad()
        with MatmulDtypes() as products:
            logits = model(images)
            torch.nn.functional.cross_entropy(logits, labels).backward()
        gradients = {
            name: torch.zeros_like(parameter) if parameter.grad is None else parameter.grad.clone()
            for name, parameter in model.named_parameters()
        }
        rounds.append((logits.detach(), gradients, products.counts))
    return rounds, dict(model.state_dict())


def _check_round(actual, expected, precision):
    (logits, gradients, _), (exact, exact_gradients, _) = actual, expected
    eps = max(_eps(DTYPES[precision]), 4 * _eps(torch.float32))
    budget = 8 * eps * float(exact.abs().max())
    assert_matches(logits, exact.float(), rtol=0, atol=budget, what="the logits")
    budget = 16 * eps * max(float(gradient.abs().max()) for gradient in exact_gradients.values())
    wanted = {name: gradient.float() for name, gradient in exact_gradients.items()}
    assert_matches(gradients, wanted, rtol=0, atol=budget, what="the gradients")


@pytest.mark.task("RowClassifier")
@pytest.mark.pitfall("M7")
@pytest.mark.lesson("One model, one setting")
@pytest.mark.parametrize("precision", DTYPES)
def test_logits_and_gradients(submission, reference, digits, precision):
    """Right logits and gradients, float32, at other sizes; in half precision within its roundings."""
    for seed, (width, n_classes, n) in enumerate(((4, 3, 1), (16, 10, 7))):
        images, labels = digits(seed=seed, n=n)
        args = ([precision], _state(seed, width, n_classes), images, labels % n_classes)
        (actual,), state = submission.run(_classify, *args)
        (expected,), _ = _classify(reference, *args, wide=True)
        _check_round(actual, expected, precision)
        assert_matches(state, args[1], rtol=0, atol=0, what="the state")


@pytest.mark.task("RowClassifier")
@pytest.mark.pitfall("M5")
@pytest.mark.lesson("Promotion without a word")
@pytest.mark.parametrize("precision", DTYPES)
def test_all_products_in_one_dtype(submission, reference, digits, precision):
    """All matrix products, forward and backward, have the dtype asked for, and what comes out is right."""
    images, labels = digits(seed=9, n=6)
    args = ([precision], _state(4, 12, 10), images, labels)
    (actual,), _ = submission.run(_classify, *args)
    if sorted(actual[2]) != [str(DTYPES[precision])]:
        raise Finding(
            f"with {precision} there are matrix products in {', '.join(sorted(actual[2])) or 'no dtype at all'}"
        )
    (expected,), _ = _classify(reference, *args, wide=True)
    # whatever it computes, other tests say how well; here it has to be the same function
    scale = float(expected[0].abs().max())
    correlation = float((actual[0].double() * expected[0]).sum() / expected[0].square().sum())
    assert abs(correlation - 1) < 0.5 and float(actual[0].abs().max()) < 3 * scale, "these are other logits"


@pytest.mark.task("RowClassifier")
@pytest.mark.pitfall("M2", "M7")
@pytest.mark.lesson("One model, one setting")
def test_another_precision_at_any_time(submission, reference, digits):
    """Set to one precision after the other, the model gives what each should give, and its state stays as it was."""
    precisions = ["bf16", "fp32", "fp16", "bf16"]
    images, labels = digits(seed=11, n=5)
    args = (precisions, _state(6, 8, 10), images, labels)
    rounds, state = submission.run(_classify, *args)
    (expected, *_), _ = _classify(reference, *args, wide=True)
    for precision, actual in zip(precisions, rounds, strict=True):
        _check_round(actual, expected, precision)
        if sorted(actual[2]) != [str(DTYPES[precision])]:
            raise Finding(f"set to {precision}, it has matrix products in {', '.join(sorted(actual[2]))}")
    assert_matches(state, args[1], rtol=0, atol=0, what="the state")


def _fine_tune(learner, precision, state, images, labels, lr, n_steps, wide=False):
    """How far each parameter has moved after some steps of plain gradient descent."""
    width, n_classes = state["embed.weight"].shape[0], state["head.weight"].shape[0]
    model = learner.RowClassifier(width, state["positions"], precision, n_classes=n_classes)
    model.load_state_dict(state)
    if wide:
        model, images = model.double(), images.double()
    optimiser = torch.optim.SGD(model.parameters(), lr=lr)
    for _ in range(n_steps):
        optimiser.zero_grad()
        torch.nn.functional.cross_entropy(model(images), labels).backward()
        optimiser.step()
    moved = {name: parameter.detach().double() - state[name].double() for name, parameter in model.named_parameters()}
    return moved, model(images).detach()


@pytest.mark.task("RowClassifier")
@pytest.mark.pitfall("M2")
@pytest.mark.lesson("Weights that round away")
@pytest.mark.parametrize("precision", DTYPES)
def test_small_steps_add_up(submission, reference, digits, precision):
    """With a small rate the weights move, over several steps, as they do in a model of full precision."""
    images, labels = digits(seed=12, n=20)
    state = _state(7, 8, 10)
    lr, n_steps = 1e-3, 5
    moved, logits = submission.run(_fine_tune, precision, state, images, labels, lr, n_steps)
    expected, exact = _fine_tune(reference, precision, state, images, labels, lr, n_steps, wide=True)
    most = max(float(change.abs().max()) for change in expected.values())
    # float32 weights of about 1 have a spacing of 1.2e-7, and each step rounds once
    budget = 16 * _eps(DTYPES[precision]) * most + n_steps * 2.5e-7
    assert_matches(moved, expected, rtol=0, atol=budget, what="the way that the parameters went")
    # the logits, which may have another test's fault as well, in kind only
    assert float((logits.double() - exact).abs().max()) < float(exact.abs().max()), "these are other logits"


def _other_precisions_load_it(learner, width, positions, images):
    """Logits in fp32 of a model loaded from the state of one that was made for another precision, and the originals."""
    results = []
    for precision in ("bf16", "fp16"):
        torch.manual_seed(1)
        saved = learner.RowClassifier(width, positions, precision)
        loaded = learner.RowClassifier(width, torch.zeros_like(positions), "fp32")
        loaded.load_state_dict(saved.state_dict())
        state = saved.state_dict()
        results.append((loaded(images).detach(), {name: tensor.clone() for name, tensor in state.items()}))
    return results


@pytest.mark.task("RowClassifier")
@pytest.mark.pitfall("M2")
@pytest.mark.lesson("Weights that round away")
def test_state_of_a_new_model(submission, reference, digits):
    """The state of a new model for half precision is float32 throughout, and suits a model for fp32."""
    images, _ = digits(seed=13, n=3)
    (positions,) = _random(8, (8, 6))
    for logits, state in submission.run(_other_precisions_load_it, 6, positions, images):
        assert_matches(sorted(state), sorted(_state(0, 6, 10)), what="the names in the state")
        dtypes = sorted({str(tensor.dtype) for tensor in state.values()})
        if dtypes != ["torch.float32"]:
            raise Finding(f"the state of a new model has tensors in {', '.join(dtypes)}")
        assert_matches(state["positions"], positions, rtol=0, atol=0, what="the positions")
        model = reference.RowClassifier(6, positions)
        model.load_state_dict(state)
        assert_matches(logits, model(images).detach(), rtol=1e-4, what="the logits")


# --- read_rows --------------------------------------------------------------------------------------------------------
# Budgets: a state is a tanh of a sum of about 1, rounded some four times at half an eps each; from row to row an error is
# damped, since the weights are small. Right solutions of several kinds were measured to need less than 4 eps.


def _weights(seed, depth, width):
    shapes = ((width, depth), (width,), (width, width), (width,))
    scales = (depth**-0.5, 0.3, 0.7 * width**-0.5, 0.3)
    return [_random(10 * seed + i, shape, scale=s)[0] for i, (shape, s) in enumerate(zip(shapes, scales, strict=True))]


def _states(learner, weights, rows, dtype, frozen=(), gradients=True, cotangent=None, wide=False):
    """States, gradients, dtypes of products, conversions in all, and the most that one parameter was converted."""
    from autograder.instruments import Conversions, MatmulDtypes, mlp

    from_row, from_state = mlp(weights[:2])[0], mlp(weights[2:])[0]
    if wide:
        from_row, from_state, rows = from_row.double(), from_state.double(), rows.double()
    parameters = [*from_row.parameters(), *from_state.parameters()]
    rows = rows.clone().requires_grad_(gradients)
    for number, parameter in enumerate(parameters):
        parameter.requires_grad_(number not in frozen)
    with torch.set_grad_enabled(gradients), MatmulDtypes() as products, Conversions() as conversions:
        states = learner.read_rows(from_row, from_state, rows, getattr(torch, dtype))
    times = [conversions.of(parameter) for parameter in parameters]
    found = []
    if gradients:
        leaves = [rows, *(parameter for parameter in parameters if parameter.requires_grad)]
        found = list(torch.autograd.grad(states, leaves, cotangent.to(states.dtype), materialize_grads=True))
    unchanged = all(torch.equal(p.detach().float(), w) for p, w in zip(parameters, weights, strict=True))
    return states.detach(), found, sorted(products.counts), conversions.count, max(times), unchanged


def _check_states(submission, reference, weights, rows, dtype, **more):
    (cotangent,) = _random(77, (*rows.shape[:2], weights[0].shape[0]), dtype=torch.float64)
    states, gradients, products, n_conversions, most, unchanged = submission.run(
        _states, weights, rows, dtype, cotangent=cotangent, **more
    )
    exact, exact_gradients, *_ = _states(reference, weights, rows, dtype, cotangent=cotangent, wide=True, **more)
    eps = max(_eps(getattr(torch, dtype)), 4 * _eps(torch.float32))
    assert_matches(states, exact.float(), rtol=0, atol=16 * eps, what="the states")
    assert_matches(len(gradients), len(exact_gradients), what="the number of gradients")
    for actual, expected in zip(gradients, exact_gradients, strict=True):
        # of the order of the largest, since many roundings add up in each
        budget = 32 * eps * max(1.0, float(expected.abs().max()))
        assert_matches(actual, expected.float(), rtol=0, atol=budget, what="a gradient")
    if products != [f"torch.{dtype}"]:
        raise Finding(f"there are matrix products in {', '.join(products) or 'no dtype at all'}")
    assert unchanged, "the parameters have changed"
    return n_conversions, most


@pytest.mark.task("read_rows")
@pytest.mark.lesson("What it gains here")
@pytest.mark.parametrize("dtype", ("float32", "bfloat16", "float16"))
def test_states_and_gradients(submission, reference, dtype):
    """Right states and gradients at other sizes, and all matrix products in the dtype asked for."""
    for seed, (n, n_rows, depth, width) in enumerate(((1, 1, 3, 2), (5, 7, 8, 12))):
        (rows,) = _random(seed, (n, n_rows, depth))
        _check_states(submission, reference, _weights(seed, depth, width), rows, dtype)


@pytest.mark.task("read_rows")
@pytest.mark.pitfall("M6")
@pytest.mark.lesson("What it gains here")
@pytest.mark.parametrize(
    ("dtype", "frozen"),
    (("bfloat16", ()), ("float16", ()), ("bfloat16", (0, 1)), ("float16", (0, 1, 2, 3))),
    ids=("bfloat16, trained", "float16, trained", "partly frozen", "frozen"),
)
def test_as_many_conversions_for_any_length(submission, reference, dtype, frozen):
    """The number of conversions is the same for few rows and for many, for small batches and large ones."""
    weights = _weights(8, 4, 6)
    counts = {}
    for n, n_rows in ((1, 3), (1, 9), (5, 3)):
        (rows,) = _random(n_rows, (n, n_rows, 4))
        counts[n, n_rows], _ = _check_states(submission, reference, weights, rows, dtype, frozen=frozen)
    if len(set(counts.values())) > 1:
        raise Finding(f"there are {min(counts.values())} to {max(counts.values())} conversions, depending on the input")


@pytest.mark.task("read_rows")
@pytest.mark.pitfall("M6")
@pytest.mark.lesson("What autocast casts")
@pytest.mark.parametrize("gradients", (True, False), ids=("recorded", "not recorded"))
@pytest.mark.parametrize("frozen", ((), (0, 1, 2, 3)), ids=("trained", "frozen"))
def test_each_parameter_is_converted_once(submission, reference, gradients, frozen):
    """Trained or frozen, with gradients or without, a parameter is converted at most once in a call."""
    weights = _weights(9, 5, 4)
    for n_rows in (2, 6):
        (rows,) = _random(n_rows, (3, n_rows, 5))
        more = {"frozen": frozen, "gradients": gradients}
        _, most = _check_states(submission, reference, weights, rows, "bfloat16", **more)
        if most > 1:
            raise Finding(f"a parameter is converted {most} times in a call")


PLAIN = """
def read_rows(from_row, from_state, rows, dtype):
    state, states = rows.new_zeros(len(rows), from_state.in_features), []
    for row in rows.unbind(dim=1):
        state = torch.tanh(from_row(row) + from_state(state))
        states.append(state)
    return torch.stack(states, dim=1)
"""
"""The same work in float32, whatever is asked for: what bfloat16 has to be faster than."""
BATCH, LENGTH, DEPTH, WIDTH = 8, 16, 8, 2048
"""Few pictures and a wide state: products take most of the time, and converting a weight takes as long as one in half."""


def _two_states(function, weights, rows, picked):
    """The states after two of the rows, frozen weights, in bfloat16. Nothing is copied, for this is timed."""
    layers = []
    for weight, bias in (weights[:2], weights[2:]):
        layer = torch.nn.Linear(weight.shape[1], weight.shape[0], device="meta")
        layer.weight = torch.nn.Parameter(weight, requires_grad=False)
        layer.bias = torch.nn.Parameter(bias, requires_grad=False)
        layers.append(layer)
    with torch.no_grad():
        return function(*layers, rows, torch.bfloat16)[:, picked].clone()


@pytest.mark.task("read_rows")
@pytest.mark.pitfall("M6")
@pytest.mark.lesson("What it gains here")
@pytest.mark.timed
def test_it_is_faster_where_products_are(submission, baseline, reference):
    """With frozen, wide layers, bfloat16 brings a good part of what a single product of that size gains from it."""
    weights = [weight.contiguous() for weight in _weights(10, DEPTH, WIDTH)]

    def inputs(seed):
        generator = torch.Generator().manual_seed(seed)
        rows = torch.randn(BATCH, LENGTH, DEPTH, generator=generator)
        return (weights, rows, torch.randint(LENGTH, (2,), generator=generator).tolist()), {}

    def expected(weights, rows, picked):
        return _two_states(reference.read_rows, weights, rows, picked)

    frozen = {"frozen": (0, 1, 2, 3), "gradients": False}
    _, _, products, *_ = submission.run(_states, weights, inputs(0)[0][1], "bfloat16", **frozen)
    if products != ["torch.bfloat16"]:
        raise Finding(f"there are matrix products in {', '.join(products) or 'no dtype at all'}")
    assert_gains(
        submission.read_rows,
        baseline(PLAIN).read_rows,
        inputs,
        expected,
        dtype=torch.bfloat16,
        product=(BATCH, WIDTH, WIDTH),
        via=_two_states,
        rtol=0,
        atol=16 * _eps(torch.bfloat16),
    )
