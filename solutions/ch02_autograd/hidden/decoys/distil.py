# %% cleared-between-step-and-next-batch-only
def distil(student, teacher, batches, lr, loss):
    student.body.load_state_dict(teacher.body.state_dict())
    optimiser = torch.optim.SGD(student.parameters(), lr=lr)
    student.zero_grad()
    losses = []
    for x in batches:
        value = loss(student(x), teacher(x).detach())
        value.backward()
        optimiser.step()
        student.zero_grad()
        losses.append(value)
    return [value.item() for value in losses]

# %% shared-and-then-parted
import copy


def distil(student, teacher, batches, lr, loss):
    student.body = teacher.body
    student.body = copy.deepcopy(student.body)
    for p in student.body.parameters():
        p.requires_grad = True
    optimiser = torch.optim.SGD(student.parameters(), lr=lr, momentum=0.0, weight_decay=0.0)
    losses = []
    for x in batches:
        optimiser.zero_grad()
        student.zero_grad()
        with torch.no_grad():
            target = teacher(x)
        value = loss(student(x), target)
        value.backward()
        optimiser.step()
        losses.append(value.item())
    return losses
