# %% constant-under-both-roots
# misconception: a tiny constant makes any root harmless
# fails: test_a_row_of_zeros, test_rows_without_a_gradient
# says: finite, and no longer than 1
def hint_loss(student_features, teacher_features, keep):
    student, teacher = student_features * keep, teacher_features.detach() * keep

    def length(rows):
        return ((rows**2).sum(dim=1) + 1e-12).sqrt()

    return length(student / length(student)[:, None] - teacher / length(teacher)[:, None])


# %% normalised-by-the-library
# misconception: F.normalize takes care of rows of zeros, in backward too
# fails: test_a_row_of_zeros, test_rows_without_a_gradient
# says: finite, and no longer than 1
def hint_loss(student_features, teacher_features, keep):
    student, teacher = student_features * keep, teacher_features.detach() * keep
    return (F.normalize(student, dim=1) - F.normalize(teacher, dim=1)).norm(dim=1)


# %% pairwise-distance
# misconception: a library's distance is zero, with no slope, for equal rows
# fails: test_a_row_that_equals_the_teachers, test_rows_without_a_gradient
# says: has distance 0 and gradient 0
def hint_loss(student_features, teacher_features, keep):
    def direction(rows):
        length = rows.norm(dim=1, keepdim=True)
        return rows / torch.where(length > 0, length, torch.ones_like(length))

    return F.pairwise_distance(direction(student_features * keep), direction(teacher_features.detach() * keep))


# %% nan-replaced-in-the-value
# misconception: NaN in backward goes away when the value is cleaned
# fails: test_a_row_of_zeros, test_a_row_that_equals_the_teachers, test_no_unit_is_kept, test_rows_without_a_gradient, test_training_with_padding
# says: The gradient
def hint_loss(student_features, teacher_features, keep):
    student, teacher = student_features * keep, teacher_features.detach() * keep

    def direction(rows):
        return torch.nan_to_num(rows / (rows**2).sum(1, keepdim=True).sqrt())

    return torch.nan_to_num(((direction(student) - direction(teacher)) ** 2).sum(1).sqrt())


# %% where-around-the-distance-only
# misconception: choosing the other branch of where keeps the first one's slope out
# fails: test_a_row_that_equals_the_teachers, test_no_unit_is_kept, test_rows_without_a_gradient, test_training_with_padding
# says: The gradient
def hint_loss(student_features, teacher_features, keep):
    def direction(rows):
        length = rows.norm(dim=1, keepdim=True)
        return rows / torch.where(length > 0, length, torch.ones_like(length))

    squares = (direction(student_features * keep) - direction(teacher_features.detach() * keep)).square().sum(1)
    return torch.where(squares > 0, squares.sqrt(), torch.zeros_like(squares))


# %% detached-and-zeroed
# misconception: detach() makes a copy
# fails: test_another_loss_on_the_same_features, test_features_are_left_alone, test_features_stay_as_they_were
# says: after the call
def hint_loss(student_features, teacher_features, keep):
    student_features.detach()[:, ~keep] = 0.0
    teacher_features.detach()[:, ~keep] = 0.0

    def direction(rows):
        length = rows.norm(dim=1, keepdim=True)
        return rows / torch.where(length > 0, length, torch.ones_like(length))

    return (direction(student_features) - direction(teacher_features.detach())).norm(dim=1)


# %% only-the-student-is-protected
# misconception: only what has a gradient needs protection
# fails: test_features_are_left_alone, test_features_stay_as_they_were
# says: are changed
def hint_loss(student_features, teacher_features, keep):
    student, teacher = student_features * keep, teacher_features.detach()
    teacher[:, ~keep] = 0.0

    def direction(rows):
        length = rows.norm(dim=1, keepdim=True)
        return rows / torch.where(length > 0, length, torch.ones_like(length))

    return (direction(student) - direction(teacher)).norm(dim=1)


# %% put-back-afterwards
# misconception: what is put back was never changed (the recorded graph reads it in backward, and finds the wrong values)
# fails: test_another_loss_on_the_same_features, test_hint_gradients, test_rows_without_a_gradient, test_training_with_padding
# says: units set aside get none
def hint_loss(student_features, teacher_features, keep):
    def direction(rows):
        length = rows.norm(dim=1, keepdim=True)
        return rows / torch.where(length > 0, length, torch.ones_like(length))

    before = student_features.detach().clone()
    student_features.data[:, ~keep] = 0.0
    distance = (direction(student_features) - direction(teacher_features.detach() * keep)).norm(dim=1)
    student_features.data.copy_(before)
    return distance


# %% teacher-not-detached
# misconception: the teacher is frozen, so it does not matter what flows towards it
# fails: test_the_teacher_gets_no_gradient
# says: No gradient reaches the teacher's features
def hint_loss(student_features, teacher_features, keep):
    def direction(rows):
        length = rows.norm(dim=1, keepdim=True)
        return rows / torch.where(length > 0, length, torch.ones_like(length))

    return (direction(student_features * keep) - direction(teacher_features * keep)).norm(dim=1)


# %% set-aside-after-normalising
# misconception: the order of setting aside and normalising does not matter
# fails: test_another_loss_on_the_same_features, test_distances, test_hint_gradients, test_rows_without_a_gradient, test_training_with_padding, test_units_set_aside_do_not_count
# says: have the same direction
def hint_loss(student_features, teacher_features, keep):
    def direction(rows):
        length = rows.norm(dim=1, keepdim=True)
        return rows / torch.where(length > 0, length, torch.ones_like(length)) * keep

    return (direction(student_features) - direction(teacher_features.detach())).norm(dim=1)


# %% length-detached
# misconception: the length is only a scale, so it needs no gradient
# fails: test_another_loss_on_the_same_features, test_hint_gradients, test_rows_without_a_gradient, test_training_with_padding
# says: Each row gets the gradient of its own distance
def hint_loss(student_features, teacher_features, keep):
    def direction(rows):
        length = rows.detach().norm(dim=1, keepdim=True)
        return rows / torch.where(length > 0, length, torch.ones_like(length))

    return (direction(student_features * keep) - direction(teacher_features.detach() * keep)).norm(dim=1)


# %% squared-distance
# misconception: without the root it is the same loss, only smoother
# fails: test_a_row_of_zeros, test_a_short_row, test_another_loss_on_the_same_features, test_distance_of_two_directions, test_distances, test_hint_gradients, test_rows_without_a_gradient, test_training_with_padding
# says: which are 0.632 apart
def hint_loss(student_features, teacher_features, keep):
    def direction(rows):
        length = rows.norm(dim=1, keepdim=True)
        return rows / torch.where(length > 0, length, torch.ones_like(length))

    return (direction(student_features * keep) - direction(teacher_features.detach() * keep)).square().sum(1)


# %% mean-of-the-batch
# misconception: a loss is one number
# fails: test_a_row_of_zeros, test_a_row_that_equals_the_teachers, test_a_short_row, test_another_loss_on_the_same_features, test_distance_of_two_directions, test_distances, test_hint_gradients, test_no_unit_is_kept, test_rows_without_a_gradient, test_units_set_aside_do_not_count
# says: shape
def hint_loss(student_features, teacher_features, keep):
    def direction(rows):
        length = rows.norm(dim=1, keepdim=True)
        return rows / torch.where(length > 0, length, torch.ones_like(length))

    return (direction(student_features * keep) - direction(teacher_features.detach() * keep)).norm(dim=1).mean()


# %% normalised-with-a-large-eps
# misconception: a large eps keeps the gradient of a row of zeros short, and does nothing else
# fails: test_a_short_row, test_another_loss_on_the_same_features, test_distances, test_hint_gradients, test_training_with_padding
# says: A row of length 0.05 counts by its direction alone
def hint_loss(student_features, teacher_features, keep):
    student = torch.where(keep, student_features, 0.0)
    teacher = torch.where(keep, teacher_features.detach(), 0.0)
    student, teacher = F.normalize(student, dim=1, eps=1.0), F.normalize(teacher, dim=1, eps=1.0)
    return (student - teacher).norm(dim=1)
