# %% data-of-a-copy
def hint_loss(student_features, teacher_features, keep):
    # writing to .data is wrong on what others hold; these are copies that nobody else has, and the slope of what is
    # written over is 0 here in any case
    student, teacher = student_features.clone(), teacher_features.detach().clone()
    student.data[:, ~keep] = 0.0
    teacher[:, ~keep] = 0.0

    def direction(rows):
        length = rows.norm(dim=1, keepdim=True)
        return rows / torch.where(length > 0, length, torch.ones_like(length))

    return (direction(student) - direction(teacher)).norm(dim=1)


# %% nan-replaced-in-backward
def hint_loss(student_features, teacher_features, keep):
    student = student_features * keep
    if student.requires_grad:
        # the rows whose slope is not a number are exactly those that have none
        student.register_hook(lambda gradient: torch.nan_to_num(gradient, nan=0.0, posinf=0.0, neginf=0.0))
    teacher = teacher_features.detach() * keep

    def direction(rows):
        size = (rows**2).sum(1, keepdim=True).sqrt()
        return torch.where(size > 0, rows / size, 0.0)

    return ((direction(student) - direction(teacher)) ** 2).sum(1).sqrt()
