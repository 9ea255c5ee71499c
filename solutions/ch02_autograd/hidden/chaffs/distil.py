# %% thawed-again
# misconception: the body must only be made trainable again; that it is shared does not matter
# fails: test_distil_from_a_frozen_teacher, test_distil_moves_the_body, test_distil_second_step, test_every_part_of_the_student_moves, test_several_steps, test_what_was_left_before
# says: leaves the teacher alone
def distil(student, teacher, batches, lr, loss):
    student.body = teacher.body
    student.requires_grad_(True)
    optimiser = torch.optim.SGD(student.parameters(), lr=lr)
    losses = []
    for x in batches:
        value = loss(student(x), teacher(x).detach())
        optimiser.zero_grad()
        value.backward()
        optimiser.step()
        losses.append(value.item())
    return losses


# %% copied-when-frozen
# misconception: a copy of a frozen module can be trained
# fails: test_distil_from_a_frozen_teacher, test_distil_moves_the_body, test_every_part_of_the_student_moves, test_several_steps, test_what_was_left_before
# says: moves the student's body from 2 to 2.1
import copy


def distil(student, teacher, batches, lr, loss):
    teacher.requires_grad_(False)
    student.body = copy.deepcopy(teacher.body)
    optimiser = torch.optim.SGD([p for p in student.parameters() if p.requires_grad], lr=lr)
    losses = []
    for x in batches:
        value = loss(student(x), teacher(x))
        optimiser.zero_grad()
        value.backward()
        optimiser.step()
        losses.append(value.item())
    return losses


# %% copied-before-freezing
# misconception: the caller never hands in a teacher that is frozen already
# fails: test_distil_from_a_frozen_teacher, test_every_part_of_the_student_moves, test_several_steps
# says: whether or not the teacher was frozen before
import copy


def distil(student, teacher, batches, lr, loss):
    student.body = copy.deepcopy(teacher.body)
    teacher.requires_grad_(False)
    optimiser = torch.optim.SGD(student.parameters(), lr=lr)
    losses = []
    for x in batches:
        value = loss(student(x), teacher(x))
        optimiser.zero_grad()
        value.backward()
        optimiser.step()
        losses.append(value.item())
    return losses


# %% optimiser-of-the-old-body
# misconception: an optimiser follows a module, whatever parameters it has
# fails: test_distil_from_a_frozen_teacher, test_distil_moves_the_body, test_every_part_of_the_student_moves, test_several_steps, test_what_was_left_before
# says: moves the student's body from 2 to 2.1
import copy


def distil(student, teacher, batches, lr, loss):
    optimiser = torch.optim.SGD(student.parameters(), lr=lr)
    student.body = copy.deepcopy(teacher.body).requires_grad_(True)
    losses = []
    for x in batches:
        with torch.no_grad():
            target = teacher(x)
        value = loss(student(x), target)
        student.zero_grad()
        value.backward()
        optimiser.step()
        losses.append(value.item())
    return losses


# %% shared-data
# misconception: two parameters that share their data are two copies
# fails: test_distil_from_a_frozen_teacher, test_distil_moves_the_body, test_distil_second_step, test_every_part_of_the_student_moves, test_several_steps, test_what_was_left_before
# says: leaves the teacher alone
def distil(student, teacher, batches, lr, loss):
    for mine, theirs in zip(student.body.parameters(), teacher.body.parameters()):
        mine.data = theirs.data
    optimiser = torch.optim.SGD(student.parameters(), lr=lr)
    losses = []
    for x in batches:
        with torch.no_grad():
            target = teacher(x)
        value = loss(student(x), target)
        optimiser.zero_grad()
        value.backward()
        optimiser.step()
        losses.append(value.item())
    return losses


# %% cleared-once
# misconception: gradients must be cleared once, before training
# fails: test_distil_second_step, test_each_step_has_its_own_gradient, test_several_steps, test_what_was_left_before
# says: The second step
def distil(student, teacher, batches, lr, loss):
    student.body.load_state_dict(teacher.body.state_dict())
    optimiser = torch.optim.SGD(student.parameters(), lr=lr)
    optimiser.zero_grad()
    losses = []
    for x in batches:
        with torch.no_grad():
            target = teacher(x)
        value = loss(student(x), target)
        value.backward()
        optimiser.step()
        losses.append(value.item())
    return losses


# %% cleared-after-the-step-only
# misconception: nobody leaves gradients behind before a call
# fails: test_what_was_left_before
# says: Gradients that lie in `.grad` before the call have no influence
def distil(student, teacher, batches, lr, loss):
    student.body.load_state_dict(teacher.body.state_dict())
    optimiser = torch.optim.SGD(student.parameters(), lr=lr)
    losses = []
    for x in batches:
        with torch.no_grad():
            target = teacher(x)
        value = loss(student(x), target)
        value.backward()
        optimiser.step()
        optimiser.zero_grad()
        losses.append(value.item())
    return losses


# %% cleared-too-late
# misconception: zero_grad() may stand anywhere in the loop
# fails: test_distil_first_step, test_distil_from_a_frozen_teacher, test_distil_moves_the_body, test_distil_second_step, test_each_step_has_its_own_gradient, test_every_part_of_the_student_moves, test_several_steps, test_what_was_left_before
# says: brings the head to 0.8
def distil(student, teacher, batches, lr, loss):
    student.body.load_state_dict(teacher.body.state_dict())
    optimiser = torch.optim.SGD(student.parameters(), lr=lr)
    losses = []
    for x in batches:
        with torch.no_grad():
            target = teacher(x)
        value = loss(student(x), target)
        value.backward()
        optimiser.zero_grad()
        optimiser.step()
        losses.append(value.item())
    return losses


# %% teacher-collects-gradients
# misconception: what is not in the optimiser gets no gradient
# fails: test_distil_moves_the_body, test_every_part_of_the_student_moves, test_several_steps, test_what_was_left_before
# says: leaves the teacher alone
def distil(student, teacher, batches, lr, loss):
    student.body.load_state_dict(teacher.body.state_dict())
    optimiser = torch.optim.SGD(student.parameters(), lr=lr)
    losses = []
    for x in batches:
        value = loss(student(x), teacher(x))
        optimiser.zero_grad()
        value.backward()
        optimiser.step()
        losses.append(value.item())
    return losses


# %% whole-state-loaded
# misconception: a student starts as its teacher, head included
# fails: test_distil_first_step, test_distil_from_a_frozen_teacher, test_distil_moves_the_body, test_distil_second_step, test_each_step_has_its_own_gradient, test_every_part_of_the_student_moves, test_no_batches, test_several_steps, test_what_was_left_before
# says: costs 4 and brings the head to 0.8
def distil(student, teacher, batches, lr, loss):
    student.load_state_dict(teacher.state_dict())
    optimiser = torch.optim.SGD(student.parameters(), lr=lr)
    losses = []
    for x in batches:
        with torch.no_grad():
            target = teacher(x)
        value = loss(student(x), target)
        optimiser.zero_grad()
        value.backward()
        optimiser.step()
        losses.append(value.item())
    return losses


# %% inference-mode
# misconception: inference_mode() is no_grad(), only faster
# fails: test_several_steps, test_what_was_left_before
# says: Your code raised RuntimeError
def distil(student, teacher, batches, lr, loss):
    student.body.load_state_dict(teacher.body.state_dict())
    optimiser = torch.optim.SGD(student.parameters(), lr=lr)
    losses = []
    for x in batches:
        with torch.inference_mode():
            target = teacher(x)
        value = loss(student(x), target)
        optimiser.zero_grad()
        value.backward()
        optimiser.step()
        losses.append(value.item())
    return losses


# %% loss-turned-round
# misconception: a distance is the same in both directions
# fails: test_every_part_of_the_student_moves, test_several_steps
# says: all parameters are where they should be
def distil(student, teacher, batches, lr, loss):
    student.body.load_state_dict(teacher.body.state_dict())
    optimiser = torch.optim.SGD(student.parameters(), lr=lr)
    losses = []
    for x in batches:
        with torch.no_grad():
            target = teacher(x)
        value = loss(target, student(x))
        optimiser.zero_grad()
        value.backward()
        optimiser.step()
        losses.append(value.item())
    return losses


# %% live-losses
# misconception: a loss is a number
# fails: test_every_part_of_the_student_moves, test_several_steps, test_what_was_left_before
# says: all parameters are where they should be
def distil(student, teacher, batches, lr, loss):
    student.body.load_state_dict(teacher.body.state_dict())
    optimiser = torch.optim.SGD(student.parameters(), lr=lr)
    losses = []
    for x in batches:
        with torch.no_grad():
            target = teacher(x)
        value = loss(student(x), target)
        optimiser.zero_grad()
        value.backward()
        optimiser.step()
        losses.append(value.detach())
    return losses


# %% batches-counted-first
# misconception: batches are a list
# fails: test_every_part_of_the_student_moves, test_no_batches, test_several_steps, test_what_was_left_before
# says: Your code raised TypeError
def distil(student, teacher, batches, lr, loss):
    student.body.load_state_dict(teacher.body.state_dict())
    optimiser = torch.optim.SGD(student.parameters(), lr=lr)
    losses = [0.0] * len(batches)
    for i, x in enumerate(batches):
        with torch.no_grad():
            target = teacher(x)
        value = loss(student(x), target)
        optimiser.zero_grad()
        value.backward()
        optimiser.step()
        losses[i] = value.item()
    return losses


# %% with-momentum
# misconception: SGD with momentum is what everybody means by gradient descent
# fails: test_distil_second_step, test_each_step_has_its_own_gradient, test_several_steps, test_what_was_left_before
# says: all parameters are where they should be
def distil(student, teacher, batches, lr, loss):
    student.body.load_state_dict(teacher.body.state_dict())
    optimiser = torch.optim.SGD(student.parameters(), lr=lr, momentum=0.9)
    losses = []
    for x in batches:
        with torch.no_grad():
            target = teacher(x)
        value = loss(student(x), target)
        optimiser.zero_grad()
        value.backward()
        optimiser.step()
        losses.append(value.item())
    return losses
