# %% view-that-is-legal
def sliding_windows(frames, length, step):
    windows = frames.unfold(0, length, step).movedim(-1, 1)
    # its own shape once more: nothing is merged, so no layout forbids it
    return windows.view(-1, length, *frames.shape[1:]) if frames.numel() else windows


# %% expanded-to-its-own-shape
def sliding_windows(frames, length, step):
    n = (len(frames) - length) // step + 1
    windows = frames.unfold(0, length, step).movedim(-1, 1)
    return windows.expand(n, length, *frames.shape[1:])


# %% numpy-windows
from numpy.lib.stride_tricks import sliding_window_view


def sliding_windows(frames, length, step):
    if frames.requires_grad:  # NumPy knows no gradients, so these windows are made in PyTorch
        return frames.unfold(0, length, step).movedim(-1, 1)
    windows = sliding_window_view(frames.numpy(), length, axis=0, writeable=True)
    return torch.from_numpy(windows).movedim(-1, 1)[::step]
