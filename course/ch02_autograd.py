# ---
# jupyter:
#   jupytext:
#     formats: ipynb,py:percent
#     text_representation:
#       extension: .py
#       format_name: percent
#       format_version: '1.3'
#   kernelspec:
#     display_name: Python 3 (ipykernel)
#     language: python
#     name: python3
# ---

# %% [markdown]
# # Chapter 2: autograd
#
# Autograd writes down what your code *does*, not what you meant. It keeps the tensors it will need, and
# walks its notes backwards. Most gradient bugs are a difference between those notes and your intention:
# an edit that the notes do not know of, a value that was taken out of them, a slope that is infinite
# although the value is fine. Many of them raise no error. The loss goes down, only not as far as it
# could.
#
# As in chapter 1: make the prediction before you run the cell. The claims have an `assert` close by, so
# change the numbers and see what still holds.

# %%
import copy
import itertools
import math
import warnings

import matplotlib.pyplot as plt
import torch
from explorers.graph import Edit, describe, explore_graph, run_expression
from explorers.timing import JUST_NOW, cost_ratio
from torch import nn
from torch.nn.functional import cross_entropy, normalize, softplus

from autograder import plotting
from autograder.instruments import SavedTensors
from autograder.pictures import digits

plotting.use_course_style()
# The networks of this lesson are so small that a second thread would only cost time.
torch.set_num_threads(1)

images, labels = digits()  # 1,797 pictures of 8 by 8 pixels, values from 0 to 1


def new_model(seed=0):
    """A small network for the digits: 64 pixels, 16 hidden units, 10 classes."""
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(64, 16), nn.Tanh(), nn.Linear(16, 10))


# %% [markdown]
# ## What backward leaves behind
#
# `backward()` returns nothing. It leaves its results in the `.grad` of tensors.
#
# **Predict:** the slope of x² + 2x + 1 at 3 is 8. We build the expression and call `backward()` on it,
# three times over. What does `x.grad` hold after each time?

# %%
x = torch.tensor(3.0, requires_grad=True)
seen = []
for _ in range(3):
    y = x**2 + 2 * x + 1
    y.backward()
    seen.append(x.grad.item())
print("x.grad after each backward():", seen)

assert seen == [8, 16, 24]

# %% [markdown]
# <details><summary>Answer</summary>
#
# 8, 16, 24. `backward()` **adds** to `.grad`. So `.grad` is never "the gradient of this loss". It is the
# sum of everything that has arrived since somebody last cleared it.
#
# </details>
#
# Below is that expression, drawn while it runs. Each box is one statement: its value, its version (we
# come to that), the *node* that autograd made for it, and what the node has saved for the way back.
# Arrows above show who read whom, arrows below carry the gradients. Move the step slider from 0 to the
# end.

# %%
print(
    "Explorer: a box for each statement; the line and the table say what is saved, and which gradient has arrived where."
)
explore_graph("x*x + 2*x + 1", 3.0)

# %% [markdown]
# Gradients arrive at `x` from two statements, `x * x` and `2 * x`, and must be added: x acts on y in both
# ways. `.grad` goes on adding: for it, the next call of `backward()` is just one more arrival.
#
# **Predict:** gradient descent on this parabola (its lowest point is at -1). One run clears `.grad` in
# each step, the other forgets to. Does the second one settle at -1 as well?


# %%
def descend(clear, steps=40, lr=0.1):
    """Where x is after each step of gradient descent from 3."""
    x = torch.tensor(3.0, requires_grad=True)
    places = [x.item()]
    for _ in range(steps):
        if clear:
            x.grad = None
        (x**2 + 2 * x + 1).backward()
        with torch.no_grad():
            x -= lr * x.grad
        places.append(x.item())
    return places


cleared, forgotten = descend(clear=True), descend(clear=False)

figure, axes = plt.subplots(figsize=(9, 3.2))
axes.plot(cleared, label="cleared in each step")
axes.plot(forgotten, label="never cleared")
axes.axhline(-1, color=plotting.GREY, linewidth=1)
axes.set(xlabel="step", ylabel="x (grey line: lowest point)", ylim=(-6, 7))
axes.legend(loc="upper right")
plotting.show_figure(
    f"Curves: with clearing (solid), x settles at {cleared[-1]:.3f}. Without (dashed), it swings between "
    f"{min(forgotten):.1f} and {max(forgotten):.1f} and does not settle."
)

assert abs(cleared[-1] + 1) < 0.01
assert min(forgotten) < -4.5 and max(forgotten[20:]) > 2
assert min(descend(clear=False, steps=150, lr=0.001)) < -4.5  # a smaller learning rate: the same swing, later

# %% [markdown]
# <details><summary>Answer</summary>
#
# No, it swings to and fro. A sum of all gradients so far is *momentum without friction*: x rolls through
# the valley and up the other side. In a real network the loss may fall at first, and then swing or climb.
# That looks as if the learning rate were too large, but a smaller one only delays it.
#
# </details>
#
# **Predict:** in the next cell we ask how the score of class 3 depends on the *pixels* of one digit. We
# never mention the parameters. Do they get a gradient? Does the hidden layer's output get one?

# %%
model = new_model()
picture = images[3].clone().requires_grad_()
hidden = model[:2](picture)
model[2](hidden)[3].backward()

with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    hidden_grad = hidden.grad  # torch warns: .grad of a tensor that is not a leaf
print("picture:", tuple(picture.grad.shape), "  hidden:", hidden_grad, "  weight:", tuple(model[0].weight.grad.shape))

assert picture.grad.abs().sum() > 0
assert hidden_grad is None and not hidden.is_leaf and len(caught) == 1
assert picture.is_leaf and all(parameter.is_leaf for parameter in model.parameters())
assert all(parameter.grad is not None for parameter in model.parameters())

hidden = model[:2](picture)
hidden.retain_grad()
model[2](hidden)[3].backward()
assert hidden.grad.shape == (16,)

# %% [markdown]
# <details><summary>Answer</summary>
#
# `backward()` fills the `.grad` of **every leaf** it can reach that requires a gradient. A leaf is a
# tensor that no operation made: the picture, and all parameters. The next optimiser step would use what
# the parameters got. The hidden output is not a leaf, so it gets none (`hidden.retain_grad()` before
# `backward()` asks for it).
#
# </details>
#
# To *ask* for a gradient, use `torch.autograd.grad(output, inputs)`: it returns the gradients of exactly
# the inputs you name, as a tuple, and leaves nothing in `.grad`.

# %%
model = new_model()
picture = images[3].clone().requires_grad_()
(slope,) = torch.autograd.grad(model(picture)[3], picture)

figure, (left, right) = plt.subplots(1, 2, figsize=(7, 3))
left.imshow(images[3].view(8, 8), cmap="gray")
left.set_title("the digit")
strongest = slope.abs().max().item()
shown = right.imshow(slope.view(8, 8), cmap="cividis", vmin=-strongest, vmax=strongest)
right.set_title("slope of its score")
figure.colorbar(shown, ax=right)
for axes in (left, right):
    axes.set_axis_off()
plotting.show_figure(
    "Pictures: on the left a digit, a 3. On the right, for each pixel, whether more ink would raise (light) or "
    "lower (dark) the score."
)

assert labels[3] == 3
assert picture.grad is None
assert all(parameter.grad is None for parameter in model.parameters())

# %% [markdown]
# **Predict:** at the top of this section we computed `y` anew before each `backward()`. What if `backward()`
# is called twice on the *same* `y`?

# %%
x = torch.tensor(3.0, requires_grad=True)
y = x**2 + 2 * x + 1
y.backward(retain_graph=True)
y.backward()
print("retain_graph=True, then once more: x.grad is", x.grad.item())
assert x.grad == 16

try:
    y.backward()
except RuntimeError as error:
    print("a third time:", str(error).split(".")[0])
    assert "second time" in str(error)
else:
    raise AssertionError("the third backward should have been refused")

# %% [markdown]
# <details><summary>Answer</summary>
#
# It is refused: `backward()` **frees** what the nodes had saved. Only after a call with
# `retain_graph=True` can you go through the same graph once more, and then `.grad` adds up again. If you
# meet this error, ask first why an old graph is still in use. `retain_graph=True` is rarely the cure.
#
# </details>

# %% [markdown]
# ## What moves and what does not
#
# `requires_grad_(False)` *freezes* a tensor: it gets no gradient, so training shall not move it.
#
# **Predict:** a second network, `parity`, tells odd digits from even ones. It starts from the first layer of
# `model`, and freezes it. In one version it takes that layer itself, in the other a copy. Then *`model`*
# is trained for five steps. Which of its four parameters move, in each version? Is there an error?


# %%
def train(model, steps=5, lr=0.5):
    """A few steps of plain SGD on the first 200 digits."""
    optimiser = torch.optim.SGD(model.parameters(), lr=lr)
    for _ in range(steps):
        optimiser.zero_grad()
        cross_entropy(model(images[:200]), labels[:200]).backward()
        optimiser.step()


def distances(model, before):
    """How far each parameter is from what it was."""
    return {name: (p - before[name]).norm().item() for name, p in model.named_parameters()}


moved = {}
for version, take in {"parity shares the layer": lambda layer: layer, "parity has a copy": copy.deepcopy}.items():
    model = new_model()
    parity = nn.Sequential(take(model[0]), nn.Tanh(), nn.Linear(16, 2))
    parity[0].requires_grad_(False)
    before = copy.deepcopy(model.state_dict())
    train(model)
    moved[version] = distances(model, before)
    assert (model[0].weight.grad is None) == (parity[0] is model[0])

figure, axes = plt.subplots(figsize=(9, 3))
for offset, (version, hatch) in zip((-0.2, 0.2), zip(moved, ("//", ""), strict=True), strict=True):
    places = [place + offset for place in range(4)]
    axes.bar(
        places,
        moved[version].values(),
        0.38,
        label=version,
        hatch=hatch,
        color=plotting.PALE_BLUE,
        edgecolor=plotting.INK,
    )
axes.set_xticks(range(4), moved["parity has a copy"])
axes.set(ylabel="distance moved", xlabel="parameter of model")
axes.legend()
for version, far in moved.items():
    print(f"{version:>24}:", "  ".join(f"{name} moved {distance:.2f}" for name, distance in far.items()))
plotting.show_figure("Bars: the same distances, hatched where parity shares the layer: its first two have no height.")

assert [distance > 0 for distance in moved["parity shares the layer"].values()] == [False, False, True, True]
assert all(distance > 0 for distance in moved["parity has a copy"].values())

# %% [markdown]
# <details><summary>Answer</summary>
#
# With the shared layer, the first two parameters of `model` stay where they are, and there is no error:
# the other two still need a gradient, so `backward()` has something to do. The optimiser skips parameters
# whose `.grad` is None. With a copy (`copy.deepcopy`), all four move.
#
# </details>
#
# What is frozen is a *tensor*, not a name, and an assignment never copies: `parity[0] = model[0]` gives one
# module a second name, and with it all of its parameters. Whoever freezes it under one name has frozen
# it under the other.
#
# **Predict:**
#
# 1. We keep the best weights with `best = model.state_dict()` and train on. What is in `best`?
# 2. A layer is frozen, then copied with `copy.deepcopy`. Is the copy frozen? And a new layer that gets the
#    values with `load_state_dict`?
# 3. A layer is frozen *after* a `backward()`. Does the next optimiser step still move it?
# 4. Does a frozen layer stop the gradient of the layers before it?

# %%
model = new_model()
best = model.state_dict()
train(model)
assert best["0.weight"].data_ptr() == model[0].weight.data_ptr()
assert torch.equal(best["0.weight"], model[0].weight)
other = new_model()
other.load_state_dict(best)
assert other[0].weight.data_ptr() != best["0.weight"].data_ptr()
print("1. best['0.weight'] follows the training: it is the same memory")

frozen = nn.Linear(64, 16).requires_grad_(False)
copied, loaded = copy.deepcopy(frozen), nn.Linear(64, 16)
loaded.load_state_dict(frozen.state_dict())
print(
    "2. frozen too? deepcopy:", not copied.weight.requires_grad, "  load_state_dict:", not loaded.weight.requires_grad
)
assert not copied.weight.requires_grad and loaded.weight.requires_grad

# %%
model = new_model()
optimiser = torch.optim.SGD(model.parameters(), lr=0.5)
cross_entropy(model(images[:200]), labels[:200]).backward()
model[0].requires_grad_(False)
before = model[0].weight.clone()
optimiser.step()
far = (model[0].weight - before).norm().item()
print(f"3. frozen with a gradient left in .grad, the weight still moved by {far:.3f}")
assert far > 0

model = new_model()
model[2].requires_grad_(False)
cross_entropy(model(images[:200]), labels[:200]).backward()
print("4. last layer frozen: norm of the gradient of the first layer:", f"{model[0].weight.grad.norm():.3f}")
assert model[2].weight.grad is None and model[0].weight.grad.norm() > 0
assert not model[2](model[:2](images[:200]).detach()).requires_grad  # detach() stops the flow

# %% [markdown]
# <details><summary>Answer</summary>
#
# 1. The *latest* weights: `state_dict()` hands out the tensors themselves. Keep
#    `copy.deepcopy(model.state_dict())`.
# 2. `deepcopy` copies everything, so that copy is frozen as well. `load_state_dict` copies the values and
#    nothing else.
# 3. Yes. An optimiser looks at `.grad`, not at `requires_grad`. So clear `.grad` when you freeze
#    something.
# 4. No. Frozen means "collects no gradient"; what flows *through* it goes on to the layers before. To stop
#    the flow, use `detach()` or `no_grad()`.
#
# </details>
#
# A test for all of this: copy the parameters, take a few steps, and list which have moved, as the picture
# above does.

# %% [markdown]
# ## In place, and the version counter
#
# A node saves tensors for the way back. It saves no copies, since they would cost too much memory. What if
# somebody overwrites such a tensor in between? Every tensor has a **version**, a number that each
# in-place operation raises by one. A node notes the version that it saved, and refuses to run if it has
# changed.
#
# **Predict:** `a` goes into two branches. The first squares it, the second rectifies it. Which of the two
# programs below fails, at which line, and what does the other one return?


# %%
def square_first(x):
    """a*a + relu(a) for a = 2x: square, then rectify in place."""
    a = 2 * x
    squared = a * a
    return squared + a.relu_()


def rectify_first(x):
    """The same, with the two branches in the other order."""
    a = 2 * x
    rectified = a.relu_()
    return a * a + rectified


x = torch.tensor(-1.0, requires_grad=True)
print("should be: y = 4, slope -8")
y = square_first(x)
try:
    y.backward()
except RuntimeError as error:
    print(f"square_first:  y = {y.item():g}, then: {str(error).split('. Hint')[0]}")
    assert "is at version 1; expected version 0" in str(error)
else:
    raise AssertionError("backward should have been refused")

y = rectify_first(x)
(slope,) = torch.autograd.grad(y, x)
print(f"rectify_first: y = {y.item():g}, slope {slope.item():g}, no error")
assert (y, slope) == (0, 0)

# %% [markdown]
# <details><summary>Answer</summary>
#
# `square_first` computes the right value, 4, and fails in `backward()`, far from the line that is to
# blame. `rectify_first` does not fail: no node had saved `a` yet when it was overwritten. So it squares
# the *rectified* `a`, and returns 0 where 4 was meant. With the error you are lucky.
#
# </details>
#
# Here is `square_first` as a drawing. Then choose "at once" as the moment of the edit: that is
# `rectify_first`. In the other expressions, look for edits that do no harm.

# %%
print("Explorer: two branches read a tensor that relu_ has changed in place; the line says what autograd makes of it.")
explore_graph("two branches, one relu", -1.0, Edit("relu_", "a", "after its first use"))

# %% [markdown]
# Which in-place operations are harmless depends on what the nodes have saved, and that differs from one
# operation to the next.
#
# **Predict:** we compute `result` by each of the operations below and then call `result.add_(1)`. After
# which of them does `backward()` fail?

# %%
operations = {
    "x + 3": lambda x: x + 3,
    "x * 3": lambda x: x * 3,
    "x * x": lambda x: x * x,
    "x.log()": torch.log,
    "x.exp()": torch.exp,
    "x.sqrt()": torch.sqrt,
    "x.tanh()": torch.tanh,
    "x.sigmoid()": torch.sigmoid,
    "x.relu()": torch.relu,
    "x.softmax(0)": lambda x: x.softmax(0),
}


def saved_by(result):
    """The tensors that the node of a result has saved."""
    names = [name for name in dir(result.grad_fn) if name.startswith("_saved_")]
    return [saved for name in names if isinstance(saved := getattr(result.grad_fn, name), torch.Tensor)]


breaks, keeps_result = [], []
x = torch.tensor([0.5, 1.5], requires_grad=True)
for name, operation in operations.items():
    result = operation(x)
    pointers = [saved.data_ptr() for saved in saved_by(result)]
    kept = [word for word, t in {"its input": x, "its result": result}.items() if t.data_ptr() in pointers]
    keeps_result += [name] if "its result" in kept else []
    result.add_(1)
    try:
        result.sum().backward()
        outcome = "fine"
    except RuntimeError:
        breaks.append(name)
        outcome = "breaks"
    print(f"{name:>13} saves {' and '.join(kept) or 'nothing of these':<16}  add_(1) on the result: {outcome}")

assert breaks == keeps_result == ["x.exp()", "x.sqrt()", "x.tanh()", "x.sigmoid()", "x.relu()", "x.softmax(0)"]

# %% [markdown]
# <details><summary>Answer</summary>
#
# After those whose slope can be computed from the *result*: the slope of `exp` is `exp` itself, that of
# `tanh` is 1 - tanh². They save their result, and it must not change. The results of the others may be
# edited.
#
# </details>
#
# This list is not worth remembering. The rule is: **write out of place unless you have measured that the
# memory matters.** For the error looks at the nodes only, and a node is not the only one who may hold the
# tensor.
#
# **Predict:** a hook keeps the output of the first layer, *before* the activation, so that we can plot it later.
# About half of these numbers should be negative. How many are, with `nn.ReLU()` and with
# `nn.ReLU(inplace=True)`?

# %%
share = {}
for inplace in (False, True):
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(64, 16), nn.ReLU(inplace=inplace), nn.Linear(16, 10))
    kept = []
    net[0].register_forward_hook(lambda module, inputs, output, kept=kept: kept.append(output))
    cross_entropy(net(images[:50]), labels[:50]).backward()
    share[inplace] = (kept[0] < 0).float().mean().item()
    print(f"nn.ReLU(inplace={inplace}): {share[inplace]:.0%} of what the hook kept is negative")

assert share[False] > 0.2 and share[True] == 0

# %% [markdown]
# <details><summary>Answer</summary>
#
# About half, and none. With `inplace=True` the activation has written over what the hook kept. There is no
# error, since no node needed the old values. A second loss on features, a skip connection or a log of
# activations meets the same bug.
#
# </details>

# %% [markdown]
# ## Behind autograd's back
#
# `.data` gives you the same memory *without* the version counter: autograd is not told of a write. In old
# code it is often used to silence the error of the last section.
#
# **Predict:** four weights come out of a softmax, and we set those under 0.2 to zero, in three ways. Which
# of them is refused? Are the gradients of the other two the same, and which one is true? (To know the truth
# we measure: move each input a little, and see how much the result changes.)


# %%
def measured_gradient(function, x, step=1e-6):
    """The gradient of a function (a number) at x (float64), measured by moving each entry up and down."""
    gradient = torch.zeros_like(x)
    for index in range(x.numel()):
        move = torch.zeros_like(x)
        move[index] = step
        gradient[index] = (function(x + move) - function(x - move)) / (2 * step)
    return gradient


values = torch.tensor([1.0, 3.0, -5.0, 2.0], dtype=torch.float64)


def prune_with_where(scores):
    """Weights under 0.2 are replaced in a new tensor."""
    weights = scores.softmax(0)
    return (torch.where(weights < 0.2, 0.0, weights) * values).sum()


def prune_with_data(scores):
    """Weights under 0.2 are overwritten, through .data."""
    weights = scores.softmax(0)
    weights.data[weights.data < 0.2] = 0
    return (weights * values).sum()


def prune_with_detach(scores):
    """Weights under 0.2 are overwritten, through detach()."""
    weights = scores.softmax(0)
    weights.detach()[weights.detach() < 0.2] = 0
    return (weights * values).sum()


scores = torch.tensor([2.0, 1.0, -2.0, 0.5], dtype=torch.float64, requires_grad=True)
results, gradients = {}, {"measured": measured_gradient(prune_with_where, scores.detach())}
for prune in (prune_with_where, prune_with_data, prune_with_detach):
    results[prune] = prune(scores)
    try:
        (gradients[prune.__name__],) = torch.autograd.grad(results[prune], scores)
    except RuntimeError as error:
        print(f"{prune.__name__} is refused: {str(error).split('. Hint')[0]}")
for name, gradient in gradients.items():
    print(f"{name:>17}: {[round(number, 3) for number in gradient.tolist()]}")

assert len({y.item() for y in results.values()}) == 1
assert "prune_with_detach" not in gradients
torch.testing.assert_close(gradients["prune_with_where"], gradients["measured"])
assert gradients["prune_with_data"][2:].tolist() == [0, 0]
assert gradients["measured"][3] < -0.1

weights = scores.softmax(0)
weights.data[0] = 0
assert weights._version == 0  # not counted
weights.detach()[0] = 0
assert weights._version == 1  # counted

# %% [markdown]
# <details><summary>Answer</summary>
#
# All three return the same value. With `.data` the gradient is wrong: the softmax had saved its result,
# and finds zeros where it had put weights. The scores of the pruned entries get the gradient 0; the measured
# one is not 0. Through `detach()` the very same edit is counted, and `backward()` refuses.
# `torch.where` makes a new tensor, and is right.
#
# </details>
#
# The wrong gradient need not be yours. It comes from **any node that had saved the old values**: a second
# loss on the same features, in a file that you have never seen.
#
# Here is such an edit as a drawing: the value of `a` changes, its version stays 0, and there is no error.

# %%
print("Explorer: a factor changed through .data after it was saved; the line says whether the gradient is right.")
explore_graph("a factor used twice", 2.0, Edit("data", "a"))

# %%
run = run_expression("a factor used twice", 2.0, Edit("data", "a"))
print(describe(run))
assert run.verdict == "wrong" and run.grad == 30
assert abs(run.slopes[0] - 26) < 0.01 and abs(run.slopes[1] - 26) < 0.01
assert run_expression("a factor used twice", 2.0, Edit("add_", "a")).verdict == "refused"

# %% [markdown]
# There is a right place for edits without autograd: **leaves, between two steps**, under
# `torch.no_grad()`. Optimisers do that. It does not hide the edit: the version still counts up.
#
# **Predict:** some weights must not be negative, so we clamp them. Is that allowed after `backward()`? And
# between forward and backward? And there, through `.data`?

# %%
model = new_model()
version = model[2].weight._version
cross_entropy(model(images[:50]), labels[:50]).backward()
with torch.no_grad():
    model[2].weight.clamp_(min=0)  # after backward: fine
assert model[2].weight._version == version + 1
cross_entropy(model(images[:50]), labels[:50]).backward()  # the next step sees the new weights

loss = cross_entropy(model(images[:50]), labels[:50])
with torch.no_grad():
    model[2].weight.clamp_(max=0.1)  # between forward and backward
try:
    loss.backward()
except RuntimeError as error:
    print("between forward and backward:", str(error).split(". Hint")[0])
else:
    raise AssertionError("backward should have been refused")

pixels = images[:50].clone().requires_grad_()
loss = cross_entropy(model(pixels), labels[:50])
(right,) = torch.autograd.grad(loss, pixels, retain_graph=True)
model[2].weight.data.mul_(2)  # the same, through .data
(wrong,) = torch.autograd.grad(loss, pixels)
print("through .data: no error, and the slope of the loss is", f"{wrong.norm() / right.norm():.2f} times the true one")
torch.testing.assert_close(wrong, 2 * right)

# %% [markdown]
# <details><summary>Answer</summary>
#
# After `backward()`: yes. No node needs the old values any more, and the next forward starts from the new
# ones. Between forward and backward: no, the last layer had saved its weight. With `.data` there is no
# error, and a wrong gradient.
#
# </details>
#
# So you never need `.data`: to edit a leaf between steps, take `no_grad()`; to read without gradient,
# take `detach()`; in the middle of a computation, make a new tensor (`torch.where`, `*`, `clamp`).

# %% [markdown]
# ## Cutting the graph
#
# Numbers sometimes leave torch in the middle of a loss: for a log, for a sum in Python, for a function of
# NumPy. What becomes of the gradient if they come back?
#
# **Predict:** a loss gets a penalty: the sum of two terms, one for each layer. Below are eight ways to
# add them up. The value is always the same. In which of them does the gradient of the penalty arrive?

# %%
ways = {
    "sum(terms)": lambda terms: sum(terms),
    "torch.stack(terms).sum()": lambda terms: torch.stack(terms).sum(),
    "torch.tensor(terms).sum()": lambda terms: torch.tensor(terms).sum(),
    "sum of t.item()": lambda terms: sum(term.item() for term in terms),
    "sum of float(t)": lambda terms: sum(float(term) for term in terms),
    "from numpy and back": lambda terms: sum(torch.from_numpy(term.detach().numpy().reshape(1)) for term in terms)[0],
    "sum of as_tensor(t)": lambda terms: sum(torch.as_tensor(term) for term in terms),
    "sum of t.double()": lambda terms: sum(term.double() for term in terms),
}

model = new_model()
weight = model[0].weight
(plain,) = torch.autograd.grad(cross_entropy(model(images[:100]), labels[:100]), weight)
arrives = {}
for name, add_up in ways.items():
    terms = [layer.weight.square().mean() for layer in (model[0], model[2])]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # two of them warn, but once for each process only
        penalty = add_up(terms)
        value = float(penalty)
    loss = cross_entropy(model(images[:100]), labels[:100]) + penalty
    (gradient,) = torch.autograd.grad(loss, weight)
    arrives[name] = (gradient - plain).norm().item() > 1e-4
    print(f"{name:>25}: penalty {value:.4f}, its gradient {'arrives' if arrives[name] else 'is missing'}")

assert [name for name, arrived in arrives.items() if not arrived] == [
    "torch.tensor(terms).sum()",
    "sum of t.item()",
    "sum of float(t)",
    "from numpy and back",
]

# %% [markdown]
# <details><summary>Answer</summary>
#
# In half of them. `torch.tensor`, `.item()`, `float()` and NumPy hand on the *number* alone: what comes back
# is a constant. `torch.as_tensor` returns a tensor as it is, and a change of dtype is an operation like any
# other, with a way back.
#
# </details>
#
# There was no error, since the cross entropy still has a gradient. So look at each *term* of a loss by
# itself: does it have `requires_grad`? Does `torch.autograd.grad` of that term alone reach the
# parameters?
#
# It is harder to see when only a *part* of a term is cut.
#
# **Predict:** weights are divided by their sum, so that they sum to 1. One version takes the sum with
# `.item()`. The values are the same. Which entries of the gradient differ, and do the signs agree?

# %%
prices = torch.tensor([1.0, 2.0, 6.0], dtype=torch.float64)


def mean_price(weights):
    """Mean of the prices with the given weights."""
    return (weights / weights.sum() * prices).sum()


def mean_price_item(weights):
    """The same number, but the sum is a constant for autograd."""
    return (weights / weights.sum().item() * prices).sum()


weights = torch.tensor([1.0, 1.0, 2.0], dtype=torch.float64, requires_grad=True)
(whole,) = torch.autograd.grad(mean_price(weights), weights)
(cut,) = torch.autograd.grad(mean_price_item(weights), weights)
print("measured:   ", [round(number, 4) for number in measured_gradient(mean_price, weights.detach()).tolist()])
print("whole graph:", whole.tolist())
print("with .item():", cut.tolist())

assert mean_price(weights) == mean_price_item(weights)
torch.testing.assert_close(whole, measured_gradient(mean_price, weights.detach()))
assert whole.tolist() == [-0.6875, -0.4375, 0.5625]
assert cut.tolist() == [0.25, 0.5, 1.5]  # all positive: every weight seems to raise the mean

# %% [markdown]
# <details><summary>Answer</summary>
#
# All entries differ. With `.item()`, each weight seems to raise the mean price, the cheap ones too:
# autograd does not know that a larger weight makes all others count less. There is a gradient for each
# entry, and no warning.
#
# </details>
#
# Sometimes a cut is what you want: for a target, for a teacher's output, for a log. Then say so, with
# `detach()` or `no_grad()`, on a line of its own.

# %% [markdown]
# ## What keeps a graph alive
#
# You have seen that nodes save tensors. How long do these stay in memory? `SavedTensors`, a helper of this
# course, counts them. (It uses `torch.autograd.graph.saved_tensors_hooks`.)
#
# **Predict:** six batches go through a network, to find its mean loss. Does the number of saved tensors in
# memory grow with each batch, if we keep: a list of the losses; a running sum of them; a list of
# `loss.detach()`; a list of `loss.item()`?

# %%
batches = list(zip(images[:300].split(50), labels[:300].split(50), strict=True))


def alive_after_each_batch(keep, train=False):
    """How many saved tensors are alive after each batch; keep(loss, kept) returns what is kept."""
    model, kept, counts = new_model(), None, []
    with SavedTensors() as saved:
        for pictures, truth in batches:
            loss = cross_entropy(model(pictures), truth)
            if train:
                loss.backward()
            kept = keep(loss, kept)
            del loss
            counts.append(saved.alive)
    return counts


ways = {
    "list of loss": lambda loss, kept: [*(kept or []), loss],
    "total += loss": lambda loss, kept: loss + (0 if kept is None else kept),
    "list of loss.detach()": lambda loss, kept: [*(kept or []), loss.detach()],
    "list of loss.item()": lambda loss, kept: [*(kept or []), loss.item()],
}
alive = {name: alive_after_each_batch(keep) for name, keep in ways.items()}

figure, axes = plt.subplots(figsize=(9, 3))
for (name, counts), marker in zip(alive.items(), "os^v", strict=True):
    axes.plot(range(1, 7), counts, label=name, marker=marker, markersize=9)
axes.set(xlabel="batch", ylabel="saved tensors alive")
axes.legend()
for name, counts in alive.items():
    print(f"{name:>21}: {counts}")
plotting.show_figure("Curves: the upper two lie on each other and climb with each batch; the lower two stay at 0.")

assert alive["list of loss"] == alive["total += loss"]
assert len({later - earlier for earlier, later in itertools.pairwise(alive["list of loss"])}) == 1
assert alive["list of loss"][-1] == 6 * alive["list of loss"][0] > 0
assert alive["list of loss.detach()"] == alive["list of loss.item()"] == [0] * 6

# %% [markdown]
# <details><summary>Answer</summary>
#
# With the list and with the sum. A graph lives as long as somebody holds one of its results, and so do all
# tensors that its nodes have saved. A loss is a single number, but behind it are the activations of every
# layer, for a whole batch. A detached loss holds none of this.
#
# </details>
#
# **Predict:** now the list of losses again, in two other programs. In training, `backward()` is called before
# the loss is kept. In validation, all runs under `torch.no_grad()`. Do the counts still grow? And if, in
# training, we keep the *features* of a second forward that no loss uses?

# %%
trained = alive_after_each_batch(ways["list of loss"], train=True)
with torch.no_grad():
    validated = alive_after_each_batch(ways["list of loss"])

model, features, counts = new_model(), [], []
with SavedTensors() as saved:
    for pictures, truth in batches:
        features.append(model[:2](pictures))
        cross_entropy(model(pictures), truth).backward()
        counts.append(saved.alive)
print("list of loss, after backward():   ", trained)
print("list of loss, under no_grad():    ", validated)
print("list of features, not in the loss:", counts)

assert trained == validated == [0] * 6
assert counts[0] > 0 and counts[-1] == 6 * counts[0]

# %% [markdown]
# <details><summary>Answer</summary>
#
# The first two stay at 0: `backward()` frees what the nodes had saved, and under `no_grad()` no graph is
# built. The third grows. So this leak shows where **no** backward follows: in validation without
# `no_grad()`, and for outputs that take part in no loss.
#
# </details>
#
# **Predict:** we log `features.detach()`. Later on, somebody sets the features to zero in place. What is in
# the log? And does the memory of such a log still grow?

# %%
features = model[:2](images[:50])
log, copied_log = features.detach(), features.detach().clone()
with torch.no_grad():
    features.mul_(0)
print(f"largest number in the log: {log.abs().max():.2f} if detached, {copied_log.abs().max():.2f} if also cloned")
assert log.abs().max() == 0
assert copied_log.abs().max() > 0

rows, total = 0, torch.zeros(16)
with torch.no_grad():
    for pictures, _ in batches:
        rows, total = rows + len(pictures), total + model[:2](pictures).sum(dim=0)
    torch.testing.assert_close(total / rows, model[:2](images[:300]).mean(dim=0))
print(f"the mean of each unit over {rows} rows, from {1 + total.numel()} numbers in memory")

# %% [markdown]
# <details><summary>Answer</summary>
#
# Zeros: `detach()` cuts the graph but **shares the memory** (chapter 1). If what you keep must not change,
# clone it. And a list grows with every batch, detached, cloned or not.
#
# </details>
#
# Ask what you want to *know*. For the mean of each unit, the last lines keep a count and a sum, however
# many batches come.

# %% [markdown]
# ## Finite value, infinite slope
#
# The value of √a at 0 is 0, a fine number. Its slope, 1 / (2√a), is infinite there.
#
# **Predict:** x·x, then a square root, at x = 0. `x.grad` will be NaN ("not a number"). Which of the two
# nodes makes it: that of the root, or that of the product? Step through the backward pass.

# %%
print("Explorer: the square root at zero; the table has the gradient of each statement.")
explore_graph("a square root at zero", 0.0)

# %%
run = run_expression("a square root at zero", 0.0)
print(describe(run))
assert run.y == 0 and math.isnan(run.grad) and run.verdict == "not finite"
assert run.moments[-1].arrived[1] == math.inf  # what the root hands to the product
assert run_expression("a square root at zero", 0.25).verdict == "right"

# %% [markdown]
# <details><summary>Answer</summary>
#
# The product. The root passes on an infinity, which is its true slope. The chain rule multiplies it by the
# slope of the product, x = 0, and infinity times 0 is NaN.
#
# </details>
#
# So one blank picture is enough. Below, a linear layer without bias makes 64 numbers of each picture, and we
# take the standard deviation of these. The third picture of the batch is blank (padding, say), so its
# standard deviation is 0.
#
# **Predict:** for how many of the layer's 4,096 weights is the gradient NaN? There are six spellings of a
# standard deviation. Which of them survive?

# %%
batch = images[:8].clone()
batch[2] = 0
layer = nn.Linear(64, 64, bias=False)
assert layer(batch).var(dim=1)[2] == 0

spellings = {  # "ok" is var > 0
    "var().sqrt()": lambda t: t.var(dim=1).sqrt(),
    "var() ** 0.5": lambda t: t.var(dim=1) ** 0.5,
    "where(ok, sqrt(var), 0)": lambda t: torch.where(t.var(dim=1) > 0, t.var(dim=1).sqrt(), 0.0),
    "where(ok, sqrt(where(ok, var, 1)), 0)": lambda t: torch.where(
        t.var(dim=1) > 0, torch.where(t.var(dim=1) > 0, t.var(dim=1), 1.0).sqrt(), 0.0
    ),
    "(var() + 1e-12).sqrt()": lambda t: (t.var(dim=1) + 1e-12).sqrt(),
    "std()": lambda t: t.std(dim=1),
}
bad = {}
for name, spread in spellings.items():
    deviation = spread(layer(batch))
    assert deviation.isfinite().all()  # the values are fine in every one of them
    (gradient,) = torch.autograd.grad(deviation.sum(), layer.weight)
    bad[name] = int(gradient.isnan().sum())
    print(f"{name:>37}: {bad[name]:>5} of {gradient.numel()} gradients are NaN")

assert list(bad.values()) == [4096, 4096, 4096, 0, 0, 0]

zero = torch.zeros(1, requires_grad=True)
for function in (torch.sqrt, torch.log, torch.reciprocal, lambda t: t**0.5, lambda t: torch.acos(t + 1)):
    chosen = torch.where(zero > 0, function(zero), 0.0)
    assert chosen == 0 and torch.autograd.grad(chosen, zero)[0].isnan()
assert torch.autograd.grad(zero.norm(), zero)[0] == 0

# %% [markdown]
# <details><summary>Answer</summary>
#
# For all 4,096 with the first three, since every weight is used for every picture. After the next optimiser
# step all weights are NaN, while the loss that you logged was fine. Most surprising is the third spelling.
# `where` chooses among *values*, after both were computed. On the way back the branch that was not chosen
# gets the gradient 0, and the root multiplies that 0 by infinity.
#
# The other three survive. The fourth is the **double where**: the inner one makes the *input* of the root
# harmless, the outer one puts the right value in. A small number under the root also works, at the price
# of a value that is not exactly 0. And `std()` takes care of this case by itself, as `norm()` does.
#
# </details>
#
# The rule: if a branch can be infinite or NaN, **make its input safe before it is computed**; choosing
# afterwards is too late. That holds for `sqrt`, `log`, division, `acos` and powers below 1.
#
# **Predict:** how small should "a small number" be? Each function below is finite at x = 0. How large is its
# slope there, with small = 1e-12? And with 1e-4? (The third one is a row of length |x|, divided by its
# length.)

# %%
functions = {
    "√(x + small)": lambda x, small: (x + small).sqrt(),
    "√(x² + small)": lambda x, small: (x**2 + small).sqrt(),
    "x / √(x² + small)": lambda x, small: x / (x**2 + small).sqrt(),
}
zero = torch.zeros(1, dtype=torch.float64, requires_grad=True)
steepest = {}
for name, function in functions.items():
    for small in (1e-4, 1e-12):
        (slope,) = torch.autograd.grad(function(zero, small), zero)
        steepest[name, small] = slope.item()
    print(f"{name:>18}: slope {steepest[name, 1e-4]:.0f} with 1e-4, {steepest[name, 1e-12]:,.0f} with 1e-12")
(slope,) = torch.autograd.grad(normalize(zero, dim=0), zero)
print(f"torch's normalize, as it comes: slope {slope.item():.0e}")
assert slope > 1e11

near = torch.linspace(-0.05, 0.05, 201, dtype=torch.float64, requires_grad=True)
figure, axes = plt.subplots(figsize=(9, 3))
for small in (1e-3, 1e-4, 1e-5):
    (slope,) = torch.autograd.grad((near / (near**2 + small).sqrt()).sum(), near)
    axes.plot(near.detach(), slope, label=f"small = {small:g}")
axes.set(xlabel="x", ylabel="slope of x / √(x² + small)")
axes.legend()
plotting.show_figure("Curves: each is a peak at x = 0; the smaller the number, the higher and narrower the peak.")

for small in (1e-4, 1e-12):
    assert math.isclose(steepest["√(x + small)", small], 0.5 / math.sqrt(small))
    assert steepest["√(x² + small)", small] == 0
    assert math.isclose(steepest["x / √(x² + small)", small], 1 / math.sqrt(small))

# %% [markdown]
# <details><summary>Answer</summary>
#
# It is 1 / (2√small) for the first: 50 with 1e-4, and 500,000 with 1e-12. For the second it is 0, since the
# slope of the square is 0 there. For the third it is 1 / √small, a million with 1e-12. (For torch's
# `normalize`, which divides by its `eps` of 1e-12 where the length is 0, it is 10¹².)
#
# </details>
#
# So finite is not yet harmless. A slope of a million from one row near zero takes over the whole gradient of
# a batch. The smaller the number, the more exact the value and the steeper the slope. If that is too steep,
# leave such rows out *before* the root and the division see them, as the double where does.
#
# If you meet a NaN and do not know where it comes from, `torch.autograd.detect_anomaly()` names the first
# node that returns one. Note that this is the product again, and not the root: look at the node that ran
# just before it, too. Anomaly mode is slow, so switch it on to search, and off again.

# %%
with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # it announces that it is slow, and shows where the node was made
    with torch.autograd.detect_anomaly():
        x = torch.zeros(3, requires_grad=True)
        length = (x * x).sum().sqrt()
        try:
            length.backward()
        except RuntimeError as error:
            print("anomaly mode says:", error)
            assert "MulBackward0" in str(error) and "nan" in str(error)
        else:
            raise AssertionError("anomaly mode should have found the NaN")

# %% [markdown]
# ## Writing a backward
#
# Sometimes you write the slope by hand: to save memory, to keep it stable, or because torch does not have
# the operation. The example is log(cosh(x)), a loss that is curved near 0 and almost straight further out.
# Its slope is tanh(x).
#
# A hand-written operation is a class with two static methods, and is called by its `.apply`. `forward`
# computes the values. `backward` gets the **upstream gradient**: how much the final loss changes with each
# entry of the *result*. It must return how much the loss changes with each entry of the *input*: upstream
# gradient times own slope. `ctx` is handed to both; `ctx.save_for_backward` keeps tensors from one for the
# other.
#
# **Predict:** four versions follow. Each is right in `forward`. Which gradients come out wrong if the
# loss is the sum of the results? If it is a weighted sum? And the second derivative?


# %%
def log_cosh(x):
    """log(cosh(x)), from operations of torch that do not overflow."""
    return x + softplus(-2 * x) - math.log(2)


class NoUpstream(torch.autograd.Function):
    """Returns its own slope, whatever comes from above."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return log_cosh(x)

    @staticmethod
    def backward(ctx, upstream):
        (x,) = ctx.saved_tensors
        return torch.tanh(x)


class SlopeFromForward(torch.autograd.Function):
    """Computes the slope in forward, saves it, and multiplies."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(torch.tanh(x))
        return log_cosh(x)

    @staticmethod
    def backward(ctx, upstream):
        (slope,) = ctx.saved_tensors
        return upstream * slope


class Honest(torch.autograd.Function):
    """The same, but it says that its backward cannot be differentiated."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(torch.tanh(x))
        return log_cosh(x)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, upstream):
        (slope,) = ctx.saved_tensors
        return upstream * slope


class TwiceDifferentiable(torch.autograd.Function):
    """Saves its input and computes the slope in backward, from x, with operations of torch."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return log_cosh(x)

    @staticmethod
    def backward(ctx, upstream):
        (x,) = ctx.saved_tensors
        return upstream * torch.tanh(x)


versions = (NoUpstream, SlopeFromForward, Honest, TwiceDifferentiable)

# %%
x = torch.tensor([-1.5, 0.25, 2.0], dtype=torch.float64, requires_grad=True)
weights = torch.tensor([1.0, -2.0, 0.5], dtype=torch.float64)


def second(function, x):
    """Second derivative of the sum of function(x)², where the upstream gradient depends on x too."""
    (first,) = torch.autograd.grad(function(x).square().sum(), x, create_graph=True)
    return torch.autograd.grad(first.sum(), x)[0]


def verdict(measure, f, true):
    """Whether measure(f) is true, is something else, or is refused."""
    try:
        return "right" if torch.allclose(measure(f), true) else "WRONG"
    except RuntimeError:
        return "refused"


table = {
    version.__name__: (
        verdict(lambda f: torch.autograd.grad(f(x).sum(), x)[0], version.apply, x.tanh()),
        verdict(lambda f: torch.autograd.grad((f(x) * weights).sum(), x)[0], version.apply, weights * x.tanh()),
        verdict(lambda f: second(f, x), version.apply, second(log_cosh, x)),
    )
    for version in versions
}
print(f"{'':>20} {'sum':>9} {'weighted':>9} {'second':>9}")
for name, row in table.items():
    print(f"{name:>20}", *(f"{entry:>9}" for entry in row))

assert table == {
    "NoUpstream": ("right", "WRONG", "WRONG"),
    "SlopeFromForward": ("right", "right", "WRONG"),
    "Honest": ("right", "right", "refused"),
    "TwiceDifferentiable": ("right", "right", "right"),
}
assert log_cosh(torch.tensor([-1e4, 1e4])).isfinite().all() and not torch.tensor(1e4).cosh().log().isfinite()

# %% [markdown]
# <details><summary>Answer</summary>
#
# With the plain sum, the upstream gradient is 1 everywhere, and all four pass. A weighted sum shows the
# first one. (So would `mean()`, or any further layer.)
#
# `SlopeFromForward` is right until somebody differentiates its *gradient*. `forward` runs without
# autograd, so whatever it computes is a constant later on, saved or not. That the slope itself depends on
# x is lost, with no error. `Honest` cannot do it either, but says so (`once_differentiable`). To be
# differentiable twice, `backward` must compute the slope **from the saved arguments of `forward`, with
# operations of torch**.
#
# </details>
#
# Why `save_for_backward`, and not simply `ctx.x = x`?
#
# **Predict:** somebody adds 1 to x between forward and backward. Which version notices: the new one below,
# or `TwiceDifferentiable`?


# %%
class OnCtx(torch.autograd.Function):
    """Keeps its input on ctx."""

    @staticmethod
    def forward(ctx, x):
        ctx.x = x
        return log_cosh(x)

    @staticmethod
    def backward(ctx, upstream):
        return upstream * torch.tanh(ctx.x)


noticed = {}
for version in (OnCtx, TwiceDifferentiable):
    leaf = torch.tensor([0.5], requires_grad=True)
    x = leaf * 2
    y = version.apply(x)
    x.add_(1)
    try:
        (slope,) = torch.autograd.grad(y.sum(), leaf)
        noticed[version.__name__] = False
        print(f"{version.__name__}: slope {slope.item():.3f}, it should be {2 * math.tanh(1):.3f}")
    except RuntimeError:
        noticed[version.__name__] = True
        print(f"{version.__name__}: refused, x has changed")

assert noticed == {"OnCtx": False, "TwiceDifferentiable": True}

# %% [markdown]
# <details><summary>Answer</summary>
#
# Only the one that used `save_for_backward`, which watches the version. `ctx.x` is an attribute like any
# other, and nobody checks it.
#
# </details>
#
# Two more rules. `backward` returns one value for **each argument** of `forward`, None for those without
# a gradient (a number, a flag). And if plain operations of torch do the job, do not write a Function at
# all: `log_cosh` above was right from the start.

# %% [markdown]
# ## Gradients of gradients
#
# A loss may contain a gradient. A common use: the slope of a network shall be small, so that a small change
# of the input changes little. `torch.autograd.grad` has an argument for this, `create_graph=True`.
#
# **Predict:** we fit a noisy curve three times: without a penalty; with a penalty on the slope, but without
# `create_graph`; with both. What does the second fit look like? Is there an error?

# %%
generator = torch.Generator().manual_seed(0)
place = torch.linspace(-1, 1, 40)[:, None]
height = torch.sin(3 * place) + 0.4 * torch.randn(place.shape, generator=generator)


def mean_squared_slope(net, place, create_graph):
    """Mean over the places of the squared slope of the network there."""
    place = place.clone().requires_grad_()
    (slope,) = torch.autograd.grad(net(place).sum(), place, create_graph=create_graph)
    return slope.square().mean()


def fit(strength, create_graph, steps=150):
    """Fit the curve; returns the network and the penalty at the end."""
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(1, 32), nn.Tanh(), nn.Linear(32, 32), nn.Tanh(), nn.Linear(32, 1))
    optimiser = torch.optim.Adam(net.parameters(), lr=0.02)
    for _ in range(steps):
        optimiser.zero_grad()
        loss = (net(place) - height).square().mean()
        loss = loss + strength * mean_squared_slope(net, place, create_graph)
        loss.backward()
        optimiser.step()
    return net, mean_squared_slope(net, place, create_graph=False).item()


fits = {
    "no penalty": fit(0.0, create_graph=False),
    "penalty, no create_graph": fit(0.05, create_graph=False),
    "penalty, create_graph": fit(0.05, create_graph=True),
}

figure, axes = plt.subplots(figsize=(9, 3.6))
axes.plot(place, height, "o", color=plotting.GREY, markersize=4)
for (name, (net, _)), width in zip(fits.items(), (6, 2.5, 2.5), strict=True):
    axes.plot(place, net(place).detach(), label=name, linewidth=width)
axes.set(xlabel="place", ylabel="height")
axes.legend()
for name, (_, penalty) in fits.items():
    print(f"{name:>25}: mean squared slope at the end {penalty:.3f}")
plotting.show_figure(
    "Curves: the first two lie exactly on each other (one is drawn wide) and follow the noise more. "
    "The third one is smoother."
)

plain, useless, smooth = fits.values()
assert plain[1] == useless[1]
assert torch.equal(plain[0](place), useless[0](place))
assert smooth[1] < 0.6 * plain[1]

# %% [markdown]
# <details><summary>Answer</summary>
#
# Exactly like the first one, to the last bit. Without `create_graph` the slope has no graph of its own, so it
# is a constant for `loss.backward()`. The loss has a larger value and the same gradient. There is no error,
# since the first part of the loss still has a graph.
#
# </details>
#
# **Predict:** for y = x³ at 2 the three derivatives are 12, 12 and 6. We ask for one after the other, with
# `create_graph=True` where another one follows. Then we call `backward()` on the penalty **alone**, without
# the rest of the loss. Which of these calls is refused?

# %%
x = torch.tensor(2.0, requires_grad=True)
y = x**3
(first,) = torch.autograd.grad(y, x, create_graph=True)
(second_derivative,) = torch.autograd.grad(first, x, create_graph=True)
(third,) = torch.autograd.grad(second_derivative, x)
print("derivatives of x³ at 2:", first.item(), second_derivative.item(), third.item())
assert (first, second_derivative, third) == (12, 12, 6)
assert first.requires_grad and second_derivative.requires_grad and not third.requires_grad

net = plain[0]
penalty = mean_squared_slope(net, place, create_graph=False)
try:
    penalty.backward()
except RuntimeError as error:
    print("the penalty alone:", error)
else:
    raise AssertionError("there should have been nothing to differentiate")
assert not penalty.requires_grad
mean_squared_slope(net, place, create_graph=True).backward()  # not refused

with SavedTensors() as saved:
    alive = {}
    for create_graph in (False, True):
        penalty = mean_squared_slope(net, place, create_graph)
        alive[create_graph] = saved.alive
print("saved tensors in memory, without and with create_graph:", *alive.values())
assert alive[False] == 0
assert alive[True] > 0

# %% [markdown]
# <details><summary>Answer</summary>
#
# None of the three for x³: the first two have a graph of their own, and nothing is asked of the third. The
# penalty alone is refused if there was no `create_graph`. This is the error that the sum of two terms had
# hidden.
#
# </details>
#
# So the check is one line: does the penalty have `requires_grad`? Better: ask for the gradient of the
# penalty alone. Each step on the way counts. If a later line cuts the graph (see *Cutting the graph*),
# `create_graph=True` does not help.
#
# The second graph takes memory, so ask for it only where a second derivative is needed. And a hand-written
# Function on the way needs a `backward` like that of `TwiceDifferentiable`.

# %% [markdown]
# ## One gradient for each sample
#
# A batch gives one gradient, the mean over its samples. What if you want the gradient of each sample? The
# plain way is a loop: one sample at a time, one backward each. `torch.func` offers another:
#
# * `grad(f)` is a *function* that returns the gradient of `f` with respect to its first argument,
# * `vmap(f)` runs a function made for one sample on a whole batch, in one go. `in_dims` says which
#   argument has a batch dimension.
#
# **Predict:** the simplest network for digits is a single `weight` of shape (64, 10), for 64 pixels and 10
# classes. There are 128 digits. What is the shape of all their gradients together? How much faster is `vmap`
# than the loop: 2 times, or rather 10?


# %%
weight = torch.zeros(64, 10)
for _ in range(30):  # train a little, so that the gradients have something to say
    leaf = weight.requires_grad_()
    (gradient,) = torch.autograd.grad(cross_entropy(images @ leaf, labels), leaf)
    weight = (leaf - 2.0 * gradient).detach()

pictures, truth = images[:128], labels[:128]


def loss_of_one(weight, picture, label):
    """The loss of a single digit: picture (64,), label ()."""
    return cross_entropy(picture @ weight, label)


def by_loop():
    """The gradients one after the other."""
    leaf = weight.clone().requires_grad_()
    losses = (loss_of_one(leaf, picture, label) for picture, label in zip(pictures, truth, strict=True))
    return torch.stack([torch.autograd.grad(loss, leaf)[0] for loss in losses])


def by_vmap():
    """All gradients in one go."""
    return torch.func.vmap(torch.func.grad(loss_of_one), in_dims=(None, 0, 0))(weight, pictures, truth)


each = by_vmap()
ratio = cost_ratio(by_loop, by_vmap, rounds=8)
print("shape of all gradients:", tuple(each.shape))
print(f"Here the loop takes {ratio:.0f} times as long as vmap.")

assert each.shape == (128, 64, 10)
torch.testing.assert_close(each, by_loop())
whole = torch.func.grad(lambda weight: cross_entropy(pictures @ weight, truth))(weight)
torch.testing.assert_close(each.mean(dim=0), whole)  # their mean is the gradient of the batch
assert weight.grad is None  # nothing is left behind
assert ratio > 3, JUST_NOW.format(f"the loop took {ratio:.1f} times as long (expected: many times)")

# %% [markdown]
# <details><summary>Answer</summary>
#
# (128, 64, 10): one gradient of the weight's shape for each digit. The loop pays the fixed price of a
# forward and a backward 128 times, `vmap` pays it once. How much that is depends on the network and on
# the batch, so measure your own. The price is memory: 128 gradients at once.
#
# </details>
#
# Note that the loop did *not* call `backward()` and read `.grad` each time. You know from the first section
# what that would have given: sums.
#
# `torch.func` needs what you differentiate by as an *argument* of the function. For a module,
# `torch.func.functional_call(model, parameters, inputs)` runs it with parameters that you hand in, as a
# dict by name.
#
# **Predict:** we hand in two of the model's four parameters, with other values. What happens to the model? What
# does `grad` return for an argument that is a dict?

# %%
model = new_model()
zeros = {name: torch.zeros_like(p) for name, p in model.named_parameters() if name.startswith("2.")}
print("handed in:", list(zeros))


def loss_with(parameters):
    """The loss of the first five digits, with other parameters in place of the model's own."""
    return cross_entropy(torch.func.functional_call(model, parameters, (images[:5],)), labels[:5])


gradients = torch.func.grad(loss_with)(zeros)
print("gradients:", {name: tuple(gradient.shape) for name, gradient in gradients.items()})

assert list(gradients) == ["2.weight", "2.bias"]
assert math.isclose(loss_with(zeros).item(), math.log(10), rel_tol=1e-5)  # zeros can only guess
assert torch.equal(model[2].weight, new_model()[2].weight)  # the model is as it was
assert all(parameter.grad is None for parameter in model.parameters())

# %% [markdown]
# <details><summary>Answer</summary>
#
# Nothing happens to the model: its own parameters are put aside for this one call, and `.grad` is not touched.
# The names that you leave out keep the model's values. `grad` returns a dict with the same names.
#
# </details>
#
# **Predict:** what are gradients of single samples good for? Let us take a small step downhill for all 1,797
# digits together, along the mean of their gradients. The loss of how many digits will *rise*? What do these
# look like?

# %%
each = torch.func.vmap(torch.func.grad(loss_of_one), in_dims=(None, 0, 0))(weight, images, labels).flatten(1)
agreement = torch.cosine_similarity(each, each.mean(dim=0, keepdim=True), dim=1)
order = agreement.argsort()

figure, axes_list = plt.subplots(1, 8, figsize=(9, 2))
for axes, index in zip(axes_list, [*order[:4], *order[-4:]], strict=True):
    axes.imshow(images[index].view(8, 8), cmap="gray")
    axes.set_title(f"a {labels[index]}: {agreement[index]:.2f}", fontsize=11)
    axes.set_axis_off()
plotting.show_figure(
    "Pictures: the four digits on the left are those whose gradients point most against the mean; the four on the "
    "right agree most with it. Above each: its label, and the cosine between its gradient and the mean "
    "(1: same direction, -1: opposite)."
)

step = 0.1 * each.mean(dim=0).view(64, 10)
before, after = (cross_entropy(images @ w, labels, reduction="none") for w in (weight, weight - step))
print(f"The loss rises for {(after > before).sum()} of 1,797 digits.")

assert agreement[order[0]] < 0 < agreement[order[-1]]
assert ((after > before) == (agreement < 0)).float().mean() > 0.99
assert 0 < (after > before).sum() < 100

# %% [markdown]
# <details><summary>Answer</summary>
#
# About one in a hundred: those whose gradient points against the mean. They are hard to read. Such gradients
# show which samples a step helps and which it hurts, and which samples stand out: strange pictures, or
# wrong labels.
#
# </details>

# %% [markdown]
# ## Gradients through depth
#
# On the way back, a gradient is multiplied by the slope of the activation and by the weights of each layer.
# Ten layers are ten such factors. If they are typically 0.2, little is left; if they are typically 2, there
# is too much.
#
# **Predict:** the slope of a sigmoid is 1/4 at most, that of tanh is 1 at most. Below are stacks of ten layers.
# How large is the gradient of the first layer's weights, compared with the last?
#
# * sigmoid, with torch's default weights;
# * tanh, weights of standard deviation 1: most units are *saturated*, their tanh is close to 1 or -1;
# * tanh, standard deviation 1/√n, where n is the number of inputs of the layer;
# * tanh, standard deviation 0.05.

# %%
standardised = (images - images.mean()) / images.std()


def deep(activation, std=None, depth=10, width=32, seed=0):
    """A stack of linear layers and activations; std(n) is that of the weights of a layer with n inputs."""
    torch.manual_seed(seed)
    layers, n = [], 64
    for _ in range(depth):
        layer = nn.Linear(n, width)
        if std is not None:
            nn.init.normal_(layer.weight, std=std(n))
            nn.init.zeros_(layer.bias)
        layers += [layer, activation()]
        n = width
    return nn.Sequential(*layers, nn.Linear(n, 10))


def gradient_norms(model, pictures):
    """The norm of the gradient of each hidden layer's weights, first layer first."""
    weights = [layer.weight for layer in model if isinstance(layer, nn.Linear)]
    loss = cross_entropy(model(pictures), labels[: len(pictures)])
    return [gradient.norm().item() for gradient in torch.autograd.grad(loss, weights)][:-1]


stacks = {
    "sigmoid, torch's default": deep(nn.Sigmoid),
    "tanh, std 1": deep(nn.Tanh, lambda n: 1.0),
    "tanh, std 1/√n": deep(nn.Tanh, lambda n: n**-0.5),
    "tanh, std 0.05": deep(nn.Tanh, lambda n: 0.05),
}
norms = {name: gradient_norms(model, standardised[:128]) for name, model in stacks.items()}

figure, axes = plt.subplots(figsize=(9, 3.4))
for (name, by_layer), marker in zip(norms.items(), "os^v", strict=True):
    axes.semilogy(range(1, 11), by_layer, label=name, marker=marker)
axes.set(xlabel="layer", ylabel="norm of the gradient", xticks=range(1, 11))
axes.legend(loc="upper left", bbox_to_anchor=(1, 1))  # beside the lines
for name, by_layer in norms.items():
    print(f"{name:>25}: first layer {by_layer[0]:.1e}, last {by_layer[-1]:.1e}, ratio {by_layer[0] / by_layer[-1]:.1e}")
plotting.show_figure(
    "Curves: from the first layer to the last, the sigmoid's norm climbs steeply and that of tanh with std 1 falls. "
    "The other two are nearly level, std 0.05 far below 1/√n."
)

spread = {name: model[:-1](standardised[:128]).std(dim=0).mean().item() for name, model in stacks.items()}
print("How much a unit of the last hidden layer differs from digit to digit (standard deviation):")
print("; ".join(f"{name}: {deviation:.0e}" for name, deviation in spread.items()))

first_to_last = {name: by_layer[0] / by_layer[-1] for name, by_layer in norms.items()}
assert first_to_last["sigmoid, torch's default"] < 1e-5
assert first_to_last["tanh, std 1"] > 20
assert (stacks["tanh, std 1"][:-1](standardised[:128]).abs() > 0.9).float().mean() > 0.5  # most units are saturated
assert 0.2 < first_to_last["tanh, std 1/√n"] < 10
assert 0.2 < first_to_last["tanh, std 0.05"] < 10
assert max(norms["tanh, std 0.05"]) < 1e-3 * min(norms["tanh, std 1/√n"])
assert spread["tanh, std 0.05"] < 1e-4 < 0.05 < spread["tanh, std 1/√n"]

# %% [markdown]
# <details><summary>Answer</summary>
#
# * Sigmoid: the gradient **vanishes**. The first layer gets less than a hundred-thousandth of the last one.
# * Tanh, 1: it **explodes**, and that surprises most people. Most slopes are nearly 0, but the weights are so
#   large that the few units in between more than make up for it.
# * Tanh, 1/√n: the norm stays about the same through all layers.
# * Tanh, 0.05: the norm stays about the same too, but it is tiny *everywhere*. Here it is the values that die
#   out on the way forward. At the end, all digits look alike.
#
# </details>
#
# Why 1/√n? A unit adds up n products of an input and a weight.
#
# **Predict:** inputs between 0 and 1, such as pixels. If there are 16 times as many of them, how many times as
# large is a typical sum: for weights of standard deviation 1; for 1/√n; for weights between 0 and 1?

# %%
generator = torch.Generator().manual_seed(0)
typical = {}
for n in (64, 1024):
    inputs = torch.rand(500, n, generator=generator)
    centred = torch.randn(n, 200, generator=generator)
    positive = torch.rand(n, 200, generator=generator)
    for name, weights in {"std 1": centred, "std 1/√n": centred / n**0.5, "between 0 and 1": positive}.items():
        typical[name, n] = (inputs @ weights).square().mean().sqrt().item()
    assert (inputs @ positive).tanh().min() > 0.999

growth = {}
for name in ("std 1", "std 1/√n", "between 0 and 1"):
    growth[name] = typical[name, 1024] / typical[name, 64]
    print(f"{name:>15}: typical sum {typical[name, 64]:.1f} of 64 products, {typical[name, 1024]:.1f} of 1,024")

assert math.isclose(growth["std 1"], 4, rel_tol=0.2)
assert math.isclose(growth["std 1/√n"], 1, rel_tol=0.2)
assert math.isclose(growth["between 0 and 1"], 16, rel_tol=0.2)

# %% [markdown]
# <details><summary>Answer</summary>
#
# 4 times, once, 16 times. If the weights have both signs, the products partly cancel, and the sum grows with √n.
# Dividing by √n keeps the signal at its size. If all weights have the same sign, nothing cancels, and the sum
# grows with n. The tanh of such a sum is 1, for every picture, and its slope is 0.
#
# </details>
#
# So weights should be centred at 0, with a size that fits the number of inputs. `nn.init` has recipes for this
# (`xavier_normal_`, `kaiming_normal_`, `orthogonal_`), with a *gain* for each activation.
#
# **Predict:** the same four stacks are trained for 40 steps. Whose loss gets clearly below that of guessing?
# And if *one* layer in the middle of the good stack is saturated, because its biases are 10: which layers get
# a gradient?


# %%
def losses_while_training(model, steps=40, lr=0.1):
    """The loss at each step of plain SGD."""
    model, losses = copy.deepcopy(model), []
    optimiser = torch.optim.SGD(model.parameters(), lr=lr)
    for _ in range(steps):
        optimiser.zero_grad()
        loss = cross_entropy(model(standardised[:256]), labels[:256])
        loss.backward()
        optimiser.step()
        losses.append(loss.item())
    return losses


guessing = math.log(10)
curves = {name: losses_while_training(model) for name, model in stacks.items()}

figure, axes = plt.subplots(figsize=(9, 3))
for name, losses in curves.items():
    axes.plot(losses, label=name)
axes.axhline(guessing, color=plotting.GREY, linewidth=1)
axes.set(xlabel="step", ylabel="loss (grey line: guessing)")
axes.legend()
for name, losses in curves.items():
    print(
        f"{name:>25}: loss from {losses[0]:.2f} to {losses[-1]:.2f} in {len(losses)} steps (guessing: {guessing:.2f})"
    )
plotting.show_figure(
    "Curves: tanh with std 1/√n falls far; the sigmoid and tanh with std 0.05 lie on the grey line of guessing."
)

assert abs(curves["sigmoid, torch's default"][-1] - guessing) < 0.05
assert abs(curves["tanh, std 0.05"][-1] - guessing) < 0.05
assert curves["tanh, std 1/√n"][-1] < 1.5
assert curves["tanh, std 1"][-1] > 1.8

# %%
one_bad = copy.deepcopy(stacks["tanh, std 1/√n"])
with torch.no_grad():
    one_bad[8].bias.fill_(10)  # the fifth layer; its activation is one_bad[9]
saturated = (one_bad[:10](standardised[:128]).abs() > 0.999).float().mean().item()
one_bad_norms = gradient_norms(one_bad, standardised[:128])
print(f"Layer 5 saturated ({saturated:.0%} of its units), gradients of layers 1 to 10:")
print("  ".join(f"{norm:.0e}" for norm in one_bad_norms))

assert saturated > 0.99
assert max(one_bad_norms[:5]) < 1e-4 * min(one_bad_norms[5:])

# %% [markdown]
# <details><summary>Answer</summary>
#
# Only the loss of the one with 1/√n. The sigmoid stack and that with 0.05 reach the loss of guessing, which
# their last layer alone can do, and stay there. The stack with a standard deviation of 1 does not get far
# below it. The layers before the saturated one, and that layer itself, get almost nothing: what comes from
# above is multiplied by slopes of almost 0. The layers after it still get theirs.
#
# </details>
#
# So when a loss does not move, print **one gradient norm for each layer**, first layer first:
#
# * a steady fall or rise points to the initialisation or the activation,
# * a sudden drop to one layer,
# * tiny norms everywhere to values that die out on the way forward (print their spread as well).
#
# Other cures are normalisation layers and residual connections.

# %% [markdown]
# ## A test for a gradient
#
# In this lesson we have measured gradients: move an input a little up and a little down, and see how much the
# result changes. How little is best?
#
# **Predict:** the measured slope of exp at 1 is compared with the true one, for steps from 0.1 down to
# 1e-12. Is a smaller step always better? How many digits can you get right in float32?

# %%
steps = [10.0**-power for power in range(1, 13)]
errors = {}
for dtype in (torch.float32, torch.float64):
    one = torch.tensor(1.0, dtype=dtype)
    measured = [((one + step).exp() - (one - step).exp()).item() / (2 * step) for step in steps]
    errors[dtype] = [abs(slope - math.e) / math.e for slope in measured]

figure, axes = plt.subplots(figsize=(9, 3.2))
for (dtype, by_step), marker in zip(errors.items(), "os", strict=True):
    axes.loglog(steps, [max(error, 1e-13) for error in by_step], label=str(dtype).removeprefix("torch."), marker=marker)
axes.set(xlabel="step", ylabel="relative error of the slope")
axes.legend()
best = {dtype: min(zip(by_step, steps, strict=True)) for dtype, by_step in errors.items()}
for dtype, (error, step) in best.items():
    print(
        f"{dtype}: best step {step:.0e}, relative error {error:.0e}; with a step of 1e-12 it is {errors[dtype][-1]:.0e}"
    )
plotting.show_figure(
    "Curves: as the step gets smaller, both errors fall at first and then climb again; float32 turns much earlier."
)

assert best[torch.float64][0] < 1e-9 and 1e-7 < best[torch.float64][1] < 1e-3
assert 1e-7 < best[torch.float32][0] < 1e-3
assert errors[torch.float32][-1] == 1  # 1 + 1e-12 is 1: the measured slope is 0

# %% [markdown]
# <details><summary>Answer</summary>
#
# No. With a large step, the slope changes within the step. With a small one, the two results are so close that
# their difference is mostly rounding. In between lies a best step. In float64 it leaves nine good digits or
# more, in float32 only about five. So **test gradients in float64**.
#
# </details>
#
# `torch.autograd.gradcheck(function, inputs)` compares measured and computed slopes for every pair of an
# input and an output. `gradgradcheck` does so for the second derivatives. Both raise if they disagree.
#
# But a test can only fail where right and wrong differ. Below are six broken versions of log(cosh(x)),
# each with the right *values*, and five tests.
#
# **Predict:** which test catches most? `gradgradcheck` looks at second derivatives: does it make
# `gradcheck` unnecessary?


# %%
class Clipped(torch.autograd.Function):
    """The slope stops growing at x = 1."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return log_cosh(x)

    @staticmethod
    def backward(ctx, upstream):
        (x,) = ctx.saved_tensors
        return upstream * torch.tanh(x.clamp(-1, 1))


def half_detached(x):
    """The right values, half of the slope."""
    return (log_cosh(x) + log_cosh(x).detach()) / 2


class Doubled(torch.autograd.Function):
    """Twice the slope."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return log_cosh(x)

    @staticmethod
    def backward(ctx, upstream):
        (x,) = ctx.saved_tensors
        return 2 * upstream * torch.tanh(x)


class MeanUpstream(torch.autograd.Function):
    """Hands each entry the mean of what comes from above."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return log_cosh(x)

    @staticmethod
    def backward(ctx, upstream):
        (x,) = ctx.saved_tensors
        return upstream.mean() * torch.tanh(x)


broken = {
    "no upstream": NoUpstream.apply,
    "mean of the upstream": MeanUpstream.apply,
    "twice the slope": Doubled.apply,
    "half detached": half_detached,
    "clipped beyond 1": Clipped.apply,
    "slope kept from forward": SlopeFromForward.apply,
}


# %%
def draw(*shape, seed=0):
    """Standard normal numbers in float64."""
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def something_arrives(function):
    """There is a gradient, and it is finite."""
    x = draw(4).requires_grad_()
    function(x).sum().backward()
    assert x.grad.isfinite().all() and x.grad.any()


def slope_of_the_sum(function):
    """The gradient of the sum, compared with tanh, at 0.5 and -0.5."""
    x = torch.tensor([0.5, -0.5], dtype=torch.float64, requires_grad=True)
    (gradient,) = torch.autograd.grad(function(x).sum(), x)
    torch.testing.assert_close(gradient, x.detach().tanh())


def random_upstream(function):
    """The gradient of a weighted sum with random weights, at random places up to 3."""
    x = (3 * draw(6)).requires_grad_()
    weights = draw(6, seed=1)
    (gradient,) = torch.autograd.grad(function(x), x, grad_outputs=weights)
    torch.testing.assert_close(gradient, weights * x.detach().tanh())


def with_gradcheck(function):
    """Finite differences, at random places up to 3."""
    torch.autograd.gradcheck(function, (3 * draw(6)).requires_grad_())


def with_gradgradcheck(function):
    """Finite differences of the gradient."""
    torch.autograd.gradgradcheck(function, (3 * draw(6)).requires_grad_())


def catches(test, function):
    """Does the test raise an exception for this function?"""
    try:
        test(function)
    except Exception:
        return True
    return False


tests = (something_arrives, slope_of_the_sum, random_upstream, with_gradcheck, with_gradgradcheck)
caught = {name: [test.__name__ for test in tests if catches(test, function)] for name, function in broken.items()}
print(f"{'':23}", *(f"{test.__name__:>18}" for test in tests))
for name, by in caught.items():
    print(f"{name:>23}", *(f"{'caught' if test.__name__ in by else '-':>18}" for test in tests))

assert not any(catches(test, right) for test in tests for right in (log_cosh, TwiceDifferentiable.apply))
assert caught == {
    "no upstream": ["random_upstream", "with_gradcheck"],
    "mean of the upstream": ["random_upstream", "with_gradcheck"],
    "twice the slope": ["slope_of_the_sum", "random_upstream", "with_gradcheck"],
    "half detached": ["slope_of_the_sum", "random_upstream", "with_gradcheck"],
    "clipped beyond 1": ["random_upstream", "with_gradcheck"],
    "slope kept from forward": ["with_gradgradcheck"],
}

# %% [markdown]
# <details><summary>Answer</summary>
#
# `random_upstream` and `gradcheck` catch five of six. That *some* gradient arrives catches none.
# `slope_of_the_sum` has two blind spots: the upstream gradient is 1 for every entry, so neither forgetting it
# nor averaging it shows; and ±0.5 does not reach the place where the slope is clipped.
#
# `gradgradcheck` measures the slope of the gradient **that the function returns**, right or wrong. So a wrong
# gradient passes if its own derivative is right. Only the version with the lost graph is caught, and by no
# other test. You need both.
#
# </details>
#
# For a test of a gradient:
#
# * float64, and inputs away from kinks, where a slope can be measured;
# * values of all sizes: small and large, both signs, and for a function with a parameter more than one
#   value of it;
# * a **random upstream gradient** (`grad_outputs=`), or `gradcheck`, never the sum alone;
# * `gradgradcheck` if anybody differentiates the gradient;
# * at kinks and edges (zeros, ties, an empty mask): at least finite, and the number that you decided on;
# * inputs that shall get *no* gradient: check that they get none (`gradcheck` does not ask);
# * the values too. A gradient can be right for a function that is wrong.

# %% [markdown]
# ## Summary
#
# | Symptom | Look at | Lesson section |
# |---|---|---|
# | Gradients too large, training swings | who clears `.grad`, and when | What backward leaves behind |
# | Parameters have a gradient nobody asked for | `torch.autograd.grad` instead | What backward leaves behind |
# | "backward through the graph a second time" | why an old graph is still in use | What backward leaves behind |
# | A parameter never moves, a frozen one does | two names for one module; old `.grad` | What moves and what does not |
# | "modified by an inplace operation" | the edit, and who saved the tensor | In place, and the version counter |
# | A branch, a hook, a log sees other values | an edit in place, `inplace=True` | In place, and the version counter |
# | Right values, wrong gradient, no error | `.data` | Behind autograd's back |
# | One term of the loss has no effect | `.item()`, `torch.tensor`, NumPy, `float()` | Cutting the graph |
# | Memory grows with each batch | what is kept: loss, outputs, features | What keeps a graph alive |
# | NaN after a blank row | `sqrt`, `log`, division; `where` too late | Finite value, infinite slope |
# | A hand-written gradient, a worse optimum | upstream gradient; what is saved, and where | Writing a backward |
# | A penalty on a gradient has no effect | `create_graph=True` | Gradients of gradients |
# | Slow loop over samples | `torch.func.vmap` of `grad` | One gradient for each sample |
# | The loss does not move | gradient norm of each layer | Gradients through depth |
# | The gradient test passes, training does not work | random upstream, float64, second order | A test for a gradient |
#
# Now it is your turn: in the exercise a small network learns from the answers of a large one. The code runs,
# and is wrong in several of these ways: [open the exercise](../exercises/ch02_autograd/ch02_autograd.ipynb).
