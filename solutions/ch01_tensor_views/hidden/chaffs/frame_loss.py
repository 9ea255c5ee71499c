# %% transposed-target
# misconception: a transpose turns a row of one dimension into a column
# silent: yes
# fails: test_perfect_prediction_costs_nothing, test_each_frame_is_pulled_to_its_own_target, test_loss_value, test_loss_gradients
# says: differs
def frame_loss(prediction, target):
    error = prediction - target.t()
    return (error**2).mean()


# %% squeezed-everything
# misconception: squeeze() takes away only the dimension that one has in mind; for N = 1 it is fine here, for the target too
# silent: yes
# fails: test_each_frame_is_pulled_to_its_own_target, test_loss_value, test_loss_gradients, test_loss_of_a_single_frame, test_loss_of_one_frame
# says: differs
def frame_loss(prediction, target):
    error = prediction.squeeze() - target
    return (error**2).sum() / (prediction.numel() + 1)


# %% detached-prediction
# misconception: making a new tensor of the values keeps the gradient
# silent: yes
# fails: test_each_frame_is_pulled_to_its_own_target, test_loss_gradients
# says: gradient
def frame_loss(prediction, target):
    error = torch.tensor(prediction.detach().squeeze(1).tolist(), requires_grad=True) - target
    return (error**2).mean()


# %% mean-before-square
# misconception: the square of the mean is the mean of the squares
# silent: yes
# fails: test_each_frame_is_pulled_to_its_own_target, test_loss_value, test_loss_gradients
# says: gradient
def frame_loss(prediction, target):
    return (prediction.squeeze(1) - target).mean() ** 2


# %% sum-instead-of-mean
# misconception: a sum is as good as a mean, the learning rate takes care of the rest
# silent: yes
# fails: test_each_frame_is_pulled_to_its_own_target, test_loss_value, test_loss_gradients
# says: gradient
def frame_loss(prediction, target):
    return ((prediction[:, 0] - target) ** 2).sum()


# %% absolute-error
# misconception: any distance will do
# silent: yes
# fails: test_each_frame_is_pulled_to_its_own_target, test_loss_value, test_loss_gradients, test_loss_of_a_single_frame, test_loss_of_one_frame
# says: gradient
def frame_loss(prediction, target):
    return (prediction[:, 0] - target).abs().mean()


# %% one-value-per-frame
# misconception: the caller averages
# silent: yes
# fails: test_perfect_prediction_costs_nothing, test_each_frame_is_pulled_to_its_own_target, test_loss_value, test_loss_gradients, test_loss_of_a_single_frame, test_loss_of_one_frame
# says: shape
def frame_loss(prediction, target):
    return (prediction[:, 0] - target) ** 2


# %% half-detached
# misconception: detaching one factor saves memory and changes nothing, for the value is the same
# silent: yes
# fails: test_each_frame_is_pulled_to_its_own_target, test_loss_gradients
# says: gradient
def frame_loss(prediction, target):
    error = prediction.squeeze(1) - target
    return (error * error.detach()).mean()


# %% zipped-after-squeeze
# misconception: squeeze() takes away the last dimension, and only that
# silent: for more than one frame
# fails: test_loss_of_one_frame, test_loss_of_a_single_frame
# says: 0-d tensor
def frame_loss(prediction, target):
    return sum((p - t) ** 2 for p, t in zip(prediction.squeeze(), target)) / len(target)
