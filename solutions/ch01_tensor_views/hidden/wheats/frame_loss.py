# %% unsqueezed-target
def frame_loss(prediction, target):
    return ((prediction - target.unsqueeze(-1)) ** 2).mean()


# %% library-loss
from torch.nn.functional import mse_loss


def frame_loss(prediction, target):
    return mse_loss(prediction.flatten(), target)


# %% sum-over-count
def frame_loss(prediction: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    error = prediction.reshape(-1) - target.reshape(-1)
    return torch.dot(error, error) / error.numel()


# %% viewed-like-the-target
def frame_loss(prediction, target):
    """The mean squared error."""
    print("frames:", len(target))
    error = prediction.view_as(target).sub(target)
    return error.square().mean(dim=0)
