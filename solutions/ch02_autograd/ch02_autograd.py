# ---
# jupyter:
#   jupytext:
#     formats: ipynb,py:percent
#     text_representation:
#       extension: .py
#       format_name: percent
#   kernelspec:
#     display_name: Python 3 (ipykernel)
#     language: python
#     name: python3
#   torch_clinic_warm:
#   - torch._dynamo
# ---

# %% [markdown]
# # Exercise 2: the student that learns from a teacher
#
# A trained network, the teacher, reads hand-written digits. A smaller and deeper one, the student, is to learn from it:
# from the teacher's softened answers, and from what the teacher's last hidden layer sees. You have inherited the code
# for this. It runs, and hardly a line of it raises an error. The people who use it have filed seven complaints.
#
# Each section below is one complaint, the code it is about, and a cell that checks your repair. Change the code, run its
# cell, then run the check. What each docstring promises is what the callers rely on: none of the promises is wrong, and
# nothing needs another signature.
#
# The checks are a sample: a few small examples, which you may read in the `test_*.py` files beside this notebook. A grade
# comes from more of them, at other shapes and dtypes. Nothing is asked there that the docstrings do not promise, so when
# a check is green, read the docstring once more.
#
# The lesson that goes with this exercise is [Autograd](../../course/ch02_autograd.ipynb); a failed check names the
# section to reread. Plan for 60 to 90 minutes. Hints are folded away under each complaint; open them one at a time.

# %% nbgrader={"grade": false, "grade_id": "setup", "locked": true, "schema_version": 3, "solution": false, "task": false}
import copy
import time

import matplotlib.pyplot as plt
import torch
import torch.nn.functional as F
from torch import nn

from autograder import check, what_you_fixed
from autograder.instruments import SavedTensors, reachable_bytes
from autograder.pictures import digits
from autograder.plotting import show_figure, use_course_style

use_course_style()

torch.set_num_threads(1)  # networks as small as these lose time by sharing the work between cores

# %% [markdown]
# ## What is given
#
# 1,797 real digits of 8 by 8 pixels, values 0 to 1, each as one row of 64 numbers. And the teacher: its `body` gives 32
# features (before they are rectified), its `head` turns the rectified features into ten logits. None of the code in the
# next cell is part of the exercise.

# %% nbgrader={"grade": false, "grade_id": "given", "locked": true, "schema_version": 3, "solution": false, "task": false}
IMAGES, LABELS = digits()
N_TRAIN = 1400


class Classifier(nn.Module):
    """The kind of network that the teacher is: a body that gives features, a head that gives logits."""

    def __init__(self, width=32):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(64, width), nn.Tanh(), nn.Linear(width, width))
        self.head = nn.Linear(width, 10)

    def forward(self, x):
        return self.head(torch.relu(self.body(x)))


def fresh_network(seed):
    """A network that has learned nothing yet; the same seed gives the same one."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return Classifier()


def trained_teacher(steps=60):
    """A classifier, trained on the first N_TRAIN digits: the same one each time."""
    network = fresh_network(0)
    optimiser = torch.optim.Adam(network.parameters(), lr=0.02)
    for _ in range(steps):
        loss = F.cross_entropy(network(IMAGES[:N_TRAIN]), LABELS[:N_TRAIN])
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    optimiser.zero_grad()
    return network


def softened_loss(student_logits, teacher_logits):
    """How far the student's softened answers are from the teacher's: one number, the mean over the batch."""
    return F.cross_entropy(student_logits / 2, F.softmax(teacher_logits / 2, dim=1))


def accuracy(network):
    """The share of the digits kept back for testing that a network reads right."""
    with torch.no_grad():
        return (network(IMAGES[N_TRAIN:]).argmax(1) == LABELS[N_TRAIN:]).float().mean().item()


TEACHER = trained_teacher()

# %%
plt.figure(figsize=(8, 1.2))
plt.imshow(IMAGES[:8].reshape(8, 8, 8).permute(1, 0, 2).reshape(8, 64), cmap="gray_r")
plt.axis("off")
show_figure(f"Picture: the first eight digits, side by side: {LABELS[:8].tolist()}.")
print(f"The teacher reads {accuracy(TEACHER):.0%} of the test digits right.")

# %% [markdown]
# ## 1. "The student does not learn, and its features are never negative"
#
# > *From the modelling team:* the student has ten hidden layers. After a night of training, the first ones are what they
# > were before it, to the last bit. The code is fine with two layers, so we suspect the depth.
# >
# > *From the team that compares features:* more than a quarter of the teacher's features are negative. Those that
# > the student hands out never are, although its docstring says that they are not rectified.
#
# <details><summary>Hint 1: where to look</summary>
#
# For the first complaint, read the curve below from right to left: what happens to the gradient on its way back to the
# first layer? For the second, print `features` in `forward`, once before the logits are made and once after.
#
# </details>
#
# <details><summary>Hint 2: what to look at</summary>
#
# Which numbers does the call in the constructor draw, and what is then the sum of 64 of them, and its tanh? Lesson,
# section *Gradients through depth*. For the second complaint: *In place, and the version counter*.
#
# </details>
#
# <details><summary>Hint 3: nearly there</summary>
#
# A weight should be negative as often as positive, and the smaller the more inputs its unit has: `torch.nn.init` has
# recipes for this. And the logits need rectified features, but two readers want to see the features: do not let one of
# them write on what the other reads.
#
# </details>


# %% nbgrader={"grade": false, "grade_id": "Student-code", "locked": false, "schema_version": 3, "solution": true, "task": false}
class Student(nn.Module):
    """A deep classifier that also shows what its last hidden layer found.

    Student(n_inputs, width, depth, n_classes), depth >= 2. `hidden` holds `depth` maps nn.Linear: the first from
    n_inputs to width, the others from width to width. `head` is an nn.Linear from width to n_classes. Weights and
    biases of these are plain parameters, and there are no others.

    forward(x), x of shape (N, n_inputs), applies the hidden maps in turn, with a tanh after each of them except the
    last. What the last one gives are the features, (N, width), negative values included. The logits, (N, n_classes),
    are the head of the rectified features (negative values replaced by 0). Returns (logits, features), in the dtype of
    the parameters; gradients flow through both; x stays as it was.

    A new student is ready to be trained: no two units of a layer start with the same weights, and for width 16 to 64,
    depth 2 to 10 and rows x of standard-normal numbers
    - the features differ from row to row: the standard deviation of a unit's feature over many rows is at least 0.02,
      on average over the units;
    - gradients get through: under the mean cross entropy of the logits, the weight gradients of any two hidden layers
      differ in their norms by a factor of at most 20.
    """

    def __init__(self, n_inputs, width, depth, n_classes):
        super().__init__()
        sizes = [n_inputs] + [width] * depth
        self.hidden = nn.ModuleList(nn.Linear(size, width) for size in sizes[:-1])
        self.head = nn.Linear(width, n_classes)
        for layer in self.hidden:
            ### BEGIN SOLUTION A8
            nn.init.xavier_normal_(layer.weight, gain=nn.init.calculate_gain("tanh"))
            ### BUG
            # nn.init.uniform_(layer.weight)
            ### END SOLUTION
            nn.init.zeros_(layer.bias)

    def forward(self, x):
        for layer in self.hidden[:-1]:
            x = torch.tanh(layer(x))
        features = self.hidden[-1](x)
        ### BEGIN SOLUTION A4
        logits = self.head(torch.relu(features))
        ### BUG
        # logits = self.head(torch.relu_(features))
        ### END SOLUTION
        return logits, features


# %%
student = Student(64, 32, 10, 10)
logits, features = student(IMAGES[:200])
F.cross_entropy(logits, LABELS[:200]).backward()
norms = [layer.weight.grad.norm().item() for layer in student.hidden]
plt.figure(figsize=(5, 2.5))
plt.semilogy(range(1, 11), [max(norm, 1e-20) for norm in norms], "o-")
plt.ylim(1e-21, 10)
plt.xlabel("hidden layer")
plt.ylabel("norm of its gradient")
show_figure(
    f"Curve: norm of the weight gradient, layer by layer (0 is drawn as 1e-20): {[f'{norm:.0e}' for norm in norms]}."
)
teacher_features = TEACHER.body(IMAGES[:200])
print(f"negative features, teacher: {(teacher_features < 0).float().mean():.0%}")
print(f"negative features, student: {(features < 0).float().mean():.0%}")

# %% nbgrader={"grade": true, "grade_id": "Student", "locked": true, "schema_version": 3, "solution": false, "task": false, "points": 3}
check("Student")

# %% [markdown]
# ## 2. "One padded batch, and everything is NaN"
#
# > *From the training log:* the last batch of an epoch is padded with rows of zeros. Its loss looks fine, every number
# > of it. After that step all weights are NaN, and the loss stands at exactly 1. The same happens in the very first step
# > when the student starts as a copy of the teacher.
# >
# > *From the team that looks after the penalties:* we add a penalty on the size of the features. Once the hint loss is
# > computed as well, units that were set aside get no gradient from *our* penalty any more. No error, no warning; we
# > only noticed because finite differences disagree.
#
# <details><summary>Hint 1: where to look</summary>
#
# For NaN: call the function on a single row of zeros, then `backward()`, and look at the gradient. For the penalty:
# compare `features` before and after the call.
#
# </details>
#
# <details><summary>Hint 2: what to look at</summary>
#
# What is the slope of a square root at 0, and what does backward make of the branch that `where` did not choose? Lesson,
# section *Finite value, infinite slope*. For the penalty: *Behind autograd's back*.
#
# </details>
#
# <details><summary>Hint 3: nearly there</summary>
#
# Setting aside needs no write: make a new tensor. And let no root and no division ever *see* a 0: replace it by something
# harmless before, not after. (Or use a function of torch that computes a length and knows what to do at 0.) A tiny
# constant under the root is enough for the distance, but not for the division: work out the slope that it leaves.
#
# </details>


# %% nbgrader={"grade": false, "grade_id": "hint_loss-code", "locked": false, "schema_version": 3, "solution": true, "task": false}
def hint_loss(student_features, teacher_features, keep):
    """How far each row of the student's features points away from the teacher's: (N, D), (N, D), (D,) to (N,).

    keep: bool. Where it is False, a unit is set aside: it counts as 0 in all rows, of the student and of the teacher.
    Then each row is divided by its Euclidean length; a row of zeros stays as it is. The result is the Euclidean
    distance between the student's and the teacher's row, in the dtype of the features. Distances are needed to 0.001
    only.

    Gradients go to student_features alone: none reaches teacher_features. They are right for rows of different
    directions, 0 for units set aside, and 0 for a row that is equal to the teacher's. For a row of zeros, where the
    distance has no gradient, what arrives is finite and no longer than 1 (Euclidean length, for a cotangent of 1). The
    features themselves stay as they were: others use them, too.
    """
    ### BEGIN SOLUTION A1
    student = torch.where(keep, student_features, 0.0)
    teacher = torch.where(keep, teacher_features.detach(), 0.0)
    ### BUG
    # student, teacher = student_features, teacher_features.detach()
    # student.data[:, ~keep] = 0.0
    # teacher.data[:, ~keep] = 0.0
    ### END SOLUTION

    ### BEGIN SOLUTION A10
    def length(rows):
        squares = (rows**2).sum(dim=1)
        empty = squares == 0
        # the root sees 1 where it would see 0, so that its slope is finite on both sides of `where`
        return torch.where(empty, 0.0, torch.where(empty, 1.0, squares).sqrt())

    def direction(rows):
        size = length(rows)
        return rows / torch.where(size > 0, size, 1.0)[:, None]

    ### BUG
    # def length(rows):
    #     return (rows**2).sum(dim=1).sqrt()
    #
    # def direction(rows):
    #     size = length(rows)[:, None]
    #     return torch.where(size > 0, rows / size, 0.0)
    #
    ### END SOLUTION
    return length(direction(student) - direction(teacher))


# %%
with torch.no_grad():
    target = TEACHER.body(IMAGES[:6])
    target = torch.cat([target / target.norm(dim=1, keepdim=True), torch.zeros(2, 32)])
keep = torch.arange(32) % 4 != 3
noise = torch.randn(8, 32, generator=torch.Generator().manual_seed(1)) * (target != 0) / 6
mixer = torch.eye(32, requires_grad=True)
for step in range(4):
    losses = hint_loss((target + noise) @ mixer, target.clone(), keep)
    print(f"step {step}: losses", [round(value, 3) for value in losses.tolist()], "(the last two rows are padding)")
    (gradient,) = torch.autograd.grad(losses.mean(), mixer)
    mixer = (mixer - gradient).detach().requires_grad_()
    print(f"        weights that are NaN after it: {mixer.isnan().sum()} of {mixer.numel()}")

features = torch.ones(2, 4, requires_grad=True) * 3.0
penalty = (features**2).sum()
hint_loss(features, torch.ones(2, 4), torch.tensor([True, True, False, True]))
print("gradient of the penalty, 2 * 3 everywhere:", torch.autograd.grad(penalty, features)[0][0].tolist())

# %% nbgrader={"grade": true, "grade_id": "hint_loss", "locked": true, "schema_version": 3, "solution": false, "task": false, "points": 4}
check("hint_loss")

# %% [markdown]
# ## 3. "We weight the samples. It makes no difference"
#
# > *From the modelling team:* samples whose label is in doubt get weight 0 in the distillation loss. They are learned
# > all the same. And when we changed the sum over the batch to a mean, we expected steps that are 200 times smaller;
# > nothing changed.
# >
# > *From the robustness team:* we train with a penalty on the gradient of this loss. The logged penalty is right, but no
# > step ever makes it smaller.
#
# The author of the loss adds that its backward was tested: the gradient of `loss.sum()` agrees with finite differences
# to six digits.
#
# <details><summary>Hint 1: where to look</summary>
#
# Print what `backward` is handed: for `loss.sum()`, and for `(weights * loss).sum()`.
#
# </details>
#
# <details><summary>Hint 2: what to look at</summary>
#
# Who uses the upstream gradient? And is what `backward` reads still connected to the logits? Lesson, section *Writing a
# backward*; for the penalty also *Gradients of gradients*.
#
# </details>
#
# <details><summary>Hint 3: nearly there</summary>
#
# Nothing that `forward` computes is recorded. For a second derivative, `backward` must compute from the very tensors
# that `forward` was given. And the chain rule wants a product with one number per sample.
#
# </details>


# %% nbgrader={"grade": false, "grade_id": "distillation_loss-code", "locked": false, "schema_version": 3, "solution": true, "task": false}
class SoftenedDivergence(torch.autograd.Function):
    """The loss below: forward by hand, backward by hand, so that no table of logarithms is kept until backward."""

    @staticmethod
    def forward(ctx, student_logits, teacher_logits, temperature):
        ctx.temperature = temperature
        ### BEGIN SOLUTION A7
        ctx.save_for_backward(student_logits, teacher_logits)
        ### BUG
        # # copies, so that nobody can change them before backward comes
        # ctx.save_for_backward(student_logits.clone(), teacher_logits.clone())
        ### END SOLUTION
        student = F.log_softmax(student_logits / temperature, dim=1)
        teacher = F.log_softmax(teacher_logits / temperature, dim=1)
        return temperature**2 * (teacher.exp() * (teacher - student)).sum(dim=1)

    @staticmethod
    def backward(ctx, upstream):
        student_logits, teacher_logits = ctx.saved_tensors
        student = F.softmax(student_logits / ctx.temperature, dim=1)
        teacher = F.softmax(teacher_logits / ctx.temperature, dim=1)
        ### BEGIN SOLUTION A7
        return upstream[:, None] * ctx.temperature * (student - teacher), None, None
        ### BUG
        # return ctx.temperature * (student - teacher), None, None
        ### END SOLUTION


def distillation_loss(student_logits, teacher_logits, temperature):
    """What a student still has to learn from its teacher, sample by sample: (N, C), (N, C), number > 0 to (N,).

    With p = softmax(teacher_logits / temperature) and q = softmax(student_logits / temperature), both over the C
    classes, the loss of a sample is temperature**2 * sum(p * (log p - log q)), in the dtype of the logits (float32 or
    float64, any layout in memory). It is finite and right for logits from -10,000 to 10,000, too.

    It can be differentiated twice with respect to student_logits, whatever is done with the N losses afterwards: the
    robustness team puts a penalty on its gradient. No gradient reaches teacher_logits. Both arguments stay as they were.
    """
    return SoftenedDivergence.apply(student_logits, teacher_logits.detach(), temperature)


# %%
with torch.no_grad():
    target = TEACHER(IMAGES[:4])
weights = torch.tensor([1.0, 1.0, 0.0, 0.0])
guess = torch.zeros(4, 10, requires_grad=True)
for step in range(6):
    losses = distillation_loss(guess, target, 2.0)
    print(f"step {step}: losses", [round(value, 2) for value in losses.tolist()], "with weights", weights.tolist())
    (gradient,) = torch.autograd.grad((weights * losses).sum(), guess)
    guess = (guess - 0.5 * gradient).detach().requires_grad_()

guess = torch.zeros(4, 10, requires_grad=True)
(gradient,) = torch.autograd.grad(distillation_loss(guess, target, 2.0).sum(), guess, create_graph=True)
print("The gradient, from which a penalty is made, depends on the logits:", gradient.requires_grad)

# %% nbgrader={"grade": true, "grade_id": "distillation_loss", "locked": true, "schema_version": 3, "solution": false, "task": false, "points": 4}
check("distillation_loss")

# %% [markdown]
# ## 4. "Validation runs out of memory, always in the same hour"
#
# > *From the platform team:* validation makes no backward pass, and yet its memory grows from batch to batch, by about
# > as much as a training step needs. It stops growing when the feature log is switched off. Someone made the log store
# > float16; now it takes a little longer until the job dies.
# >
# > *From the analysis team:* the log says that no unit of the first layer ever goes below zero. We looked: before the
# > rectifier, which works in place and runs *after* the log, half of them do.
#
# <details><summary>Hint 1: where to look</summary>
#
# What is in `self._batches` after a hundred batches? Count everything that each entry holds on to.
#
# </details>
#
# <details><summary>Hint 2: what to look at</summary>
#
# A tensor that was computed from parameters knows how it was computed. Lesson, section *What keeps a graph alive*. And
# a tensor that is stored is not a picture of its values.
#
# </details>
#
# <details><summary>Hint 3: nearly there</summary>
#
# A mean and a standard deviation do not need all rows at hand. Which few numbers per unit are enough, can be brought up
# to date with each batch, and know nothing of how they came about?
#
# </details>


# %% nbgrader={"grade": false, "grade_id": "FeatureLog-code", "locked": false, "schema_version": 3, "solution": true, "task": false}
class FeatureLog:
    """Statistics of features, unit by unit, over as many batches as one likes.

    `add(name, features)` takes the features (N, D) of one batch under a name; N >= 1 may differ from batch to batch, D
    is the same for a name. float32 or float64, with or without a graph.

    `summary()` returns a dictionary with an entry for each name: {"rows": the number of rows so far, an int; "mean":
    (D,); "std": (D,)}, both over all rows so far, floating point. "std" divides by the number of rows (not by one
    less); a unit that has always had the same value gets 0 (within 0.01), never NaN. Apart from that, mean and std are
    right to 1 part in 1,000 of the std as long as a unit's mean is at most 10 times its std. A summary is a snapshot:
    neither does `add` change it later, nor does a change to it reach the log.

    The log does not disturb training: it holds a fixed number of bytes for each name however many batches come, it
    keeps no graph alive, gradients are the same with and without it, and what happens to `features` after `add`, in
    place, does not show in the log.
    """

    ### BEGIN SOLUTION A5
    def __init__(self):
        self._moments = {}

    def add(self, name, features):
        features = features.detach().double()
        n, mean, spread = len(features), features.mean(0), features.var(0, correction=0) * len(features)
        if name in self._moments:
            # two groups of rows become one: their spreads, and that of their means around the common mean
            m, old_mean, old_spread = self._moments[name]
            step = mean - old_mean
            mean = old_mean + step * n / (m + n)
            spread = old_spread + spread + step**2 * m * n / (m + n)
            n += m
        self._moments[name] = n, mean, spread

    def summary(self):
        return {
            name: {"rows": n, "mean": mean.clone(), "std": (spread / n).sqrt()}
            for name, (n, mean, spread) in self._moments.items()
        }

    ### BUG
    # def __init__(self):
    #     self._batches = {}
    #
    # def add(self, name, features):
    #     self._batches.setdefault(name, []).append(features)
    #
    # def summary(self):
    #     rows = {name: torch.cat(batches) for name, batches in self._batches.items()}
    #     return {
    #         name: {"rows": len(x), "mean": x.mean(0), "std": x.std(0, correction=0)}
    #         for name, x in rows.items()
    #     }
    ### END SOLUTION


# %%
log = FeatureLog()
held, sizes = [], []
with SavedTensors() as saved:
    for batch in IMAGES[:1600].split(100):
        log.add("hidden", TEACHER.body(batch))
        held.append(saved.alive)
        sizes.append(reachable_bytes(log))
plt.figure(figsize=(6, 2.5))
plt.plot(held, "o-")
plt.xlabel("batch")
plt.ylabel("tensors held")
plt.title("held for a backward pass that never comes")
show_figure(f"Curve: tensors held for a backward pass, batch by batch: {held}.")
print("Bytes that the log itself holds, every fourth batch:", sizes[3::4])

with torch.no_grad():
    features = TEACHER.body(IMAGES[:500])
    log.add("before the rectifier", features)
    below = [log.summary()["before the rectifier"]["mean"].min().item()]
    features.relu_()
    below.append(log.summary()["before the rectifier"]["mean"].min().item())
print(f"The lowest mean of a unit before the rectifier: {below[0]:.3f}; asked once more, later: {below[1]:.3f}")

# %% nbgrader={"grade": true, "grade_id": "FeatureLog", "locked": true, "schema_version": 3, "solution": false, "task": false, "points": 3}
check("FeatureLog")

# %% [markdown]
# ## 5. "The body never moves, and the head overshoots"
#
# > *From the modelling team:* we start the student's body from the teacher's, which has worked well elsewhere. After a
# > night of distillation the body is still the teacher's, to the last bit. Only the head has moved.
# >
# > *From the training log:* with the learning rate that the paper gives, the loss falls for a few steps and then climbs
# > for the rest of the night. We see the same with smaller rates; it only begins later.
#
# <details><summary>Hint 1: where to look</summary>
#
# Run the cell below. For the first complaint print `student.body is teacher.body`; for the second the norm of the
# head's `.grad` after each `backward()`.
#
# </details>
#
# <details><summary>Hint 2: what to look at</summary>
#
# What does an assignment copy? Lesson, section *What moves and what does not*. And what does `backward()` do with
# what it finds in `.grad`? Section *What backward leaves behind*.
#
# </details>
#
# <details><summary>Hint 3: nearly there</summary>
#
# The student's body should get the teacher's *values* and keep tensors of its own, which are trained whatever happens
# to the teacher's. Each step, the first one too, should start without gradients from before.
#
# </details>


# %% nbgrader={"grade": false, "grade_id": "distil-code", "locked": false, "schema_version": 3, "solution": true, "task": false}
def distil(student, teacher, batches, lr, loss):
    """Train a student on a teacher's answers: one step of plain gradient descent for each batch.

    student, teacher: modules that have a `body` and a `head`, whose parameters are all that there are; the bodies are
    built alike, and there are no layers such as dropout. First the student's body takes over the values of the teacher's
    body; its head stays as it is. The two share no tensor afterwards. Then for each x of `batches` (any iterable, read
    once, in order)

        p = p - lr * (gradient of loss(student(x), teacher(x)) with respect to p)

    for every parameter p of the student (none was frozen before the call), all at the same time. `loss` gives a tensor
    without dimensions. Gradients that lay in `.grad` before the call have no influence. Returns the losses, each from
    before its step, as a list of Python floats.

    The teacher is the same afterwards: the values of its parameters and what is in their `.grad`. Its parameters may
    have been frozen before the call (`requires_grad` False) or not; whether they are afterwards is left open.
    """
    ### BEGIN SOLUTION A3
    student.body.load_state_dict(teacher.body.state_dict())
    ### BUG
    # student.body = teacher.body
    ### END SOLUTION
    teacher.requires_grad_(False)
    optimiser = torch.optim.SGD(student.parameters(), lr=lr)
    losses = []
    for x in batches:
        value = loss(student(x), teacher(x))
        ### BEGIN SOLUTION A2
        optimiser.zero_grad()
        value.backward()
        ### BUG
        # value.backward()
        ### END SOLUTION
        optimiser.step()
        losses.append(value.item())
    return losses


# %%
tutor, pupil = copy.deepcopy(TEACHER), fresh_network(1)
loss_curve = distil(pupil, tutor, IMAGES[:1600].split(50), lr=0.5, loss=softened_loss)
plt.figure(figsize=(6, 2.5))
plt.plot(loss_curve)
plt.xlabel("step")
plt.ylabel("loss")
plt.title("distillation")
show_figure(f"Curve: the loss at every fourth step: {[round(value, 2) for value in loss_curve[::4]]}.")
for part in ("body", "head"):
    moved = [
        (p - q).norm().item()
        for p, q in zip(getattr(pupil, part).parameters(), getattr(TEACHER, part).parameters(), strict=True)
    ]
    print(f"How far the student's {part} is from the teacher's:", [round(distance, 4) for distance in moved])

# %% nbgrader={"grade": true, "grade_id": "distil", "locked": true, "schema_version": 3, "solution": false, "task": false, "points": 4}
check("distil")

# %% [markdown]
# ## 6. "The penalty is in the log, but not in the model"
#
# > *From the robustness team:* we add a gradient penalty to the student's loss, so that a pixel more or less does not
# > change its mind. The log shows the penalty, and it is a sensible number. But we can multiply it by 0, by 1 or by
# > 1,000: the trained weights are the same, to the last bit.
#
# <details><summary>Hint 1: where to look</summary>
#
# Print `penalty.requires_grad` and `penalty.grad_fn` for what the function returns. Then do the same for each
# intermediate result.
#
# </details>
#
# <details><summary>Hint 2: what to look at</summary>
#
# There are two places where the trail ends, and repairing one of them changes nothing. Lesson, sections *Gradients of
# gradients* and *Cutting the graph*.
#
# </details>
#
# <details><summary>Hint 3: nearly there</summary>
#
# The gradient with respect to the pixels has to be a result like any other, with a graph of its own: `autograd.grad`
# has an argument for this. From there to the mean, stay with tensor operations.
#
# </details>


# %% nbgrader={"grade": false, "grade_id": "gradient_penalty-code", "locked": false, "schema_version": 3, "solution": true, "task": false}
def gradient_penalty(model, x, labels):
    """How strongly the loss of each sample depends on its input: the mean of the squared norms of these gradients.

    model: maps x (N, D) or (N, D, ...), float32 or float64, to logits (N, C), each sample's from that sample alone.
    labels: (N,), int64. The loss of sample i is its cross entropy; g_i is the gradient of that loss with respect to
    x[i], and the penalty is the mean over i of the sum of the squares of all elements of g_i. Returns a tensor without
    dimensions, in x's dtype.

    The penalty is part of a training loss: it can be differentiated with respect to the model's parameters, alone or
    added to other terms. (With respect to x it need not be.) x may be any input, also the result of other layers. The
    call leaves nothing behind: the values, `requires_grad` and `.grad` of x and of the parameters are as they were.
    """
    inputs = x.detach().requires_grad_()
    loss = F.cross_entropy(model(inputs), labels, reduction="sum")
    ### BEGIN SOLUTION A11
    (gradient,) = torch.autograd.grad(loss, inputs, create_graph=True)
    ### BUG
    # (gradient,) = torch.autograd.grad(loss, inputs)
    ### END SOLUTION
    ### BEGIN SOLUTION A9
    return gradient.flatten(1).square().sum(1).mean()
    ### BUG
    # squares = [(row**2).sum().item() for row in gradient]
    # return torch.tensor(squares, dtype=x.dtype).mean()
    ### END SOLUTION


# %%
final_weights, curves = {}, {}
for factor in (0.0, 1.0, 1000.0):
    model = fresh_network(2)
    optimiser = torch.optim.Adam(model.parameters(), lr=0.02)
    curves[factor] = []
    for _ in range(12):
        penalty = gradient_penalty(model, IMAGES[:100], LABELS[:100])
        curves[factor].append(penalty.item())
        optimiser.zero_grad()
        (F.cross_entropy(model(IMAGES[:100]), LABELS[:100]) + factor * penalty).backward()
        optimiser.step()
    final_weights[factor] = model.head.weight.detach()
plt.figure(figsize=(6, 2.5))
for factor, curve in curves.items():
    plt.plot(curve, label=f"times {factor:g}", linewidth=6 - 2 * len(f"{factor:g}") / 2)
plt.xlabel("step")
plt.ylabel("penalty")
plt.legend()
show_figure(
    f"Curves: the penalty during training. At the end: { {f: round(curve[-1], 4) for f, curve in curves.items()} }."
)
for factor in (1.0, 1000.0):
    difference = (final_weights[factor] - final_weights[0.0]).abs().max().item()
    print(f"Largest difference of a weight, penalty times {factor:g} against no penalty: {difference:.4f}")

# %% nbgrader={"grade": true, "grade_id": "gradient_penalty", "locked": true, "schema_version": 3, "solution": false, "task": false, "points": 3}
check("gradient_penalty")

# %% [markdown]
# ## 7. "The suspicious digits are always the last ones"
#
# > *From the data team:* a digit with a wrong label pulls hard at the weights, so we look at the digits with the
# > largest gradient norms first. But whatever order we load them in, the list of suspects is made of the last ones of
# > the batch, and if we ask twice, the second answer is larger than the first.
# >
# > *From the platform team:* for half an hour each night this function keeps a core busy, in steps so small that no
# > profiler finds anything to blame. It was meant to take a small fraction of a loop over the samples.
#
# <details><summary>Hint 1: where to look</summary>
#
# Look at the picture that the cell below draws, and at what is in `.grad` before the first sample and after the last.
#
# </details>
#
# <details><summary>Hint 2: what to look at</summary>
#
# Whose gradient is in `.grad` after the third `backward()`? Lesson, section *What backward leaves behind*. For the
# second complaint: *One gradient for each sample*.
#
# </details>
#
# <details><summary>Hint 3: nearly there</summary>
#
# Write the loss of *one* sample as a function of the parameters. `torch.func` can turn it into a function that gives
# the gradient, and that one into a function for a whole batch. Which parameters do not count?
#
# </details>


# %% nbgrader={"grade": false, "grade_id": "sample_gradient_norms-code", "locked": false, "schema_version": 3, "solution": true, "task": false}
def sample_gradient_norms(model, x, labels):
    """How hard each sample pulls at the weights: for each, the norm of its own gradient.

    model: a module that maps x (N, D) to logits (N, C). It is made of nn.Linear layers, each used once, and of
    activations without parameters; x and the parameters are float32 or float64. labels: (N,), int64. The loss of sample
    i is its cross entropy. Returns (N,), in x's dtype: element i is the root of the sum of the squares of all elements
    of that loss's gradients with respect to all parameters whose `requires_grad` is True. The others do not count; at
    least one is True.

    The call leaves the model as it was: values, `requires_grad` and what is in `.grad`. A batch is worked on as a
    whole: for many samples it takes a small fraction of the time of a loop over them.
    """
    ### BEGIN SOLUTION A6
    parameters = {name: p.detach() for name, p in model.named_parameters() if p.requires_grad}

    def loss_of_one(parameters, sample, label):
        logits = torch.func.functional_call(model, parameters, (sample[None],))
        return F.cross_entropy(logits, label[None])

    gradients_of_one = torch.func.grad(loss_of_one)
    gradients = torch.func.vmap(gradients_of_one, in_dims=(None, 0, 0))(parameters, x, labels)
    return torch.stack([g.flatten(1).square().sum(1) for g in gradients.values()]).sum(0).sqrt()
    ### BUG
    # norms = []
    # for sample, label in zip(x, labels):
    #     F.cross_entropy(model(sample[None]), label[None]).backward()
    #     squares = [(p.grad**2).sum() for p in model.parameters() if p.requires_grad]
    #     norms.append(torch.stack(squares).sum().sqrt())
    # return torch.stack(norms)
    ### END SOLUTION


# %%
two_hundred, claimed = IMAGES[:200], LABELS[:200].clone()
wrong = torch.arange(5, 200, 20)
claimed[wrong] = (claimed[wrong] + 3) % 10

reader = copy.deepcopy(TEACHER)
pulls = sample_gradient_norms(reader, two_hundred, claimed)
started = time.perf_counter()
again = sample_gradient_norms(reader, two_hundred, claimed)
elapsed = time.perf_counter() - started
suspects = pulls.argsort(descending=True)[: len(wrong)]
plt.figure(figsize=(6, 2.5))
plt.plot(pulls, ".", label="label as it was")
plt.plot(wrong, pulls[wrong], "x", label="label changed")
plt.xlabel("sample")
plt.ylabel("gradient norm")
plt.legend()
show_figure(
    "Points: gradient norms by place in the batch; crosses: label changed. The ten largest are at "
    f"{sorted(suspects.tolist())}."
)
print(f"Of {len(wrong)} changed labels, {len(set(suspects.tolist()) & set(wrong.tolist()))} are among these.")
print(
    f"Asked a second time: {elapsed * 1000:.1f} ms, and norms {(again.sum() / pulls.sum()).item():.2f} times as large."
)
print(f"Left behind in .grad: {reader.head.weight.grad is not None}")

# %% nbgrader={"grade": true, "grade_id": "sample_gradient_norms", "locked": true, "schema_version": 3, "solution": false, "task": false, "points": 4}
check("sample_gradient_norms")

# %% [markdown]
# ## 8. The test that was missing
#
# The loss of section 3 had a test. Here it is, below: it was green all the time. Write the test that would have caught
# both mistakes, so that they cannot come back.
#
# `check_distillation_loss(loss)` is given a function that may or may not keep the promise of `distillation_loss`'s
# docstring. It returns if the promise is kept, and raises (an `assert` will do) if not. It will be tried on right
# implementations that are written differently, and on wrong ones: some are wrong only in a derivative, some only at
# certain temperatures or for certain logits.
#
# <details><summary>Hint 1: where to look</summary>
#
# What is the upstream gradient when a test calls `loss.sum().backward()`? Which mistakes does that hide? And what does a
# temperature of 1 hide?
#
# </details>
#
# <details><summary>Hint 2: what to look at</summary>
#
# Make the value from torch's own log-softmax, and compare gradients for weights that differ from sample to sample.
# Lesson, section *A test for a gradient*.
#
# </details>
#
# <details><summary>Hint 3: nearly there</summary>
#
# Two functions of `torch.autograd` compare first and second derivatives with finite differences, in float64. They cannot
# tell you whether the value itself is right, whether a gradient leaks to the teacher, or what happens at 10,000.
#
# </details>


# %% nbgrader={"grade": false, "grade_id": "check_distillation_loss-code", "locked": false, "schema_version": 3, "solution": true, "task": false}
def check_distillation_loss(loss):
    """Raise an exception unless `loss(student_logits, teacher_logits, temperature)` keeps `distillation_loss`'s promise.

    That promise is the docstring of `distillation_loss`, for contiguous logits: value, shape and dtype, both
    derivatives, no gradient for the teacher, large logits, arguments that stay as they were.
    """
    ### BEGIN SOLUTION A7
    generator = torch.Generator().manual_seed(0)
    for n, classes, temperature in ((3, 3, 2.0), (1, 4, 0.5)):
        student = torch.randn(n, classes, generator=generator, dtype=torch.float64, requires_grad=True)
        teacher = 2 * torch.randn(n, classes, generator=generator, dtype=torch.float64)
        copies = student.detach().clone(), teacher.clone()

        p = torch.softmax(teacher / temperature, dim=1)
        log_q = torch.log_softmax(student / temperature, dim=1)
        expected = temperature**2 * (p * (p.log() - log_q)).sum(dim=1)
        for dtype in (torch.float32, torch.float64):
            result = loss(student.detach().to(dtype), teacher.to(dtype), temperature)
            assert result.dtype == dtype and result.shape == (n,), "wrong dtype or shape"
            assert torch.allclose(result.double(), expected, rtol=1e-4, atol=1e-5), "wrong value"
        assert torch.equal(student, copies[0]) and torch.equal(teacher, copies[1]), "an argument was changed"

        assert torch.autograd.gradcheck(loss, (student, teacher, temperature))
        assert torch.autograd.gradgradcheck(loss, (student, teacher, temperature))
        teacher.requires_grad_()
        loss(student, teacher, temperature).sum().backward()
        assert teacher.grad is None or not teacher.grad.any(), "the teacher gets a gradient"

    large = torch.tensor([[10_000.0, -10_000.0]], requires_grad=True)
    result = loss(large, -large.detach(), 2.0)
    assert torch.allclose(result, torch.tensor([40_000.0])), "wrong for large logits"
    result.sum().backward()
    assert torch.allclose(large.grad, torch.tensor([[2.0, -2.0]])), "wrong gradient for large logits"
    ### BUG
    # student = torch.tensor([[1.0, 0.0], [0.0, 2.0]], dtype=torch.float64, requires_grad=True)
    # teacher = torch.tensor([[0.0, 0.0], [3.0, 1.0]], dtype=torch.float64)
    # total = loss(student, teacher, 1.0).sum()
    # total.backward()
    # for i in range(2):
    #     for j in range(2):
    #         moved = student.detach().clone()
    #         moved[i, j] += 1e-6
    #         slope = (loss(moved, teacher, 1.0).sum() - total) / 1e-6
    #         assert abs(slope - student.grad[i, j]) < 1e-4, "the gradient disagrees with finite differences"
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "check_distillation_loss", "locked": true, "schema_version": 3, "solution": false, "task": false, "points": 3}
check("check_distillation_loss")

# %% [markdown]
# ## All green?
#
# Then the sample is green. Save, and `pytest exercises` in a terminal runs the same checks on the saved file; a grade
# asks for the docstrings' promises in full. The habits to take along: know what a graph holds and what it does not; look
# at `.grad` before you believe it; ask where a slope is infinite; test a gradient with weights that differ.
