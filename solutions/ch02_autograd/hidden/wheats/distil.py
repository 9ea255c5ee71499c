# %% copied-module
import copy


def distil(student, teacher, batches, lr, loss):
    student.body = copy.deepcopy(teacher.body)
    student.requires_grad_(True)
    optimiser = torch.optim.SGD(student.parameters(), lr=lr)
    losses = []
    for x in batches:
        with torch.no_grad():
            wanted = teacher(x)
        optimiser.zero_grad(set_to_none=False)
        value = loss(student(x), wanted)
        value.backward()
        optimiser.step()
        losses.append(float(value))
    return losses

# %% by-hand
def distil(student, teacher, batches, lr, loss):
    with torch.no_grad():
        for mine, theirs in zip(student.body.parameters(), teacher.body.parameters()):
            mine.copy_(theirs)
    parameters = list(student.parameters())
    history = []
    for x in batches:
        answer = teacher(x).detach()
        value = loss(student(x), answer)
        gradients = torch.autograd.grad(value, parameters)
        with torch.no_grad():
            for p, g in zip(parameters, gradients):
                p -= lr * g
        history.append(value.item())
    return history

# %% cleared-after-each-step
def distil(student, teacher, batches, lr, loss):
    student.body.load_state_dict(teacher.body.state_dict())
    for p in student.parameters():
        p.grad = None
    optimiser = torch.optim.SGD(student.parameters(), lr=lr)

    def step(x):
        with torch.no_grad():
            target = teacher(x)
        value = loss(student(x), target)
        value.backward()
        optimiser.step()
        optimiser.zero_grad()
        return value.item()

    return [step(x) for x in batches]

# %% functional
from torch.func import functional_call, grad_and_value


def distil(student, teacher, batches, lr, loss):
    student.body.load_state_dict({name: value.clone() for name, value in teacher.body.state_dict().items()})
    weights = {name: p.detach().clone() for name, p in student.named_parameters()}

    def objective(weights, x, wanted):
        return loss(functional_call(student, weights, (x,)), wanted)

    losses = []
    for x in batches:
        gradients, value = grad_and_value(objective)(weights, x, teacher(x).detach())
        weights = {name: w - lr * gradients[name] for name, w in weights.items()}
        losses.append(value.item())
    student.load_state_dict(weights, strict=False)
    return losses

# %% only-the-students-gradients
def distil(student, teacher, batches, lr, loss):
    teacher_values = {k: v.detach().clone() for k, v in teacher.body.named_parameters()}
    for name, p in student.body.named_parameters():
        p.data = teacher_values[name]
    trained = [p for p in student.parameters()]
    losses = []
    for x in batches:
        value = loss(student(x), teacher(x))
        for p in trained:
            p.grad = None
        value.backward(inputs=trained)
        with torch.no_grad():
            for p in trained:
                p.add_(p.grad, alpha=-lr)
        losses.append(value.detach().item())
    return losses

# %% from-a-frozen-twin
import copy


def distil(student, teacher, batches, lr, loss):
    twin = copy.deepcopy(teacher).requires_grad_(False).eval()
    student.body = copy.deepcopy(twin.body)
    student.train().requires_grad_(True)
    student.zero_grad(set_to_none=True)
    optimiser = torch.optim.SGD([{"params": student.body.parameters()}, {"params": student.head.parameters()}], lr=lr)
    losses = []
    for batch in iter(batches):
        with torch.no_grad():
            wanted = twin(batch)

        def closure():
            optimiser.zero_grad()
            value = loss(student(batch), wanted)
            value.backward()
            return value

        losses.append(optimiser.step(closure).item())
    return losses
