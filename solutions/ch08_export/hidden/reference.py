"""Reference implementations of exercise 8, written for clarity."""

import torch
import torch.nn.functional as F

# --- what goes in -----------------------------------------------------------------------------------------------------

MEAN = (0.485, 0.456, 0.406)
STD = (0.229, 0.224, 0.225)


def _shares(n_from, n_to):
    """How much each of n_from pixels in a row has of each of n_to pixels: float64 (n_to, n_from), rows sum to 1."""
    scale = n_from / n_to
    centres = (torch.arange(n_to, dtype=torch.float64) + 0.5) * scale
    pixels = torch.arange(n_from, dtype=torch.float64) + 0.5
    distance = (pixels[None, :] - centres[:, None]).abs() / max(scale, 1.0)
    shares = (1 - distance).clamp(min=0)
    return shares / shares.sum(dim=1, keepdim=True)


def shown(picture, size):
    """The values from 0 to 1 of a picture from the camera at size by size pixels: float64 (3, size, size), RGB."""
    height, width, _ = picture.shape
    channels = [picture[:, :, number].double() / 255 for number in (2, 1, 0)]
    return torch.stack([_shares(height, size) @ channel @ _shares(width, size).T for channel in channels])


def to_input(picture, size):
    """See the notebook; in float64."""
    values = shown(picture, size)
    return torch.stack([(value - mean) / std for value, mean, std in zip(values, MEAN, STD, strict=True)])


# --- operators and branches -------------------------------------------------------------------------------------------


class _SoftClip(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, limit):
        ctx.save_for_backward(x)
        ctx.limit = limit
        return x.clamp(-limit, limit)

    @staticmethod
    def backward(ctx, gradient):
        (x,) = ctx.saved_tensors
        return torch.where(x.abs() <= ctx.limit, gradient, 0.1 * gradient), None


def soft_clip(x, limit):
    """See the notebook."""
    return _SoftClip.apply(x, limit)


def lighten(pictures):
    """See the notebook. One picture after the other."""
    results = []
    for picture in pictures:
        mean = picture.mean()
        is_dark = 0 < mean < 0.25
        results.append((picture * (0.5 / mean)).clamp(max=1) if is_dark else picture)
    return torch.stack(results)


# --- BatchNorm --------------------------------------------------------------------------------------------------------


def normalised(conv, norm, x):
    """What `norm(conv(x))` is in eval mode, written out, in float64. Both are modules; neither is changed."""
    arguments = {"stride": conv.stride, "dilation": conv.dilation, "groups": conv.groups}
    if conv.padding_mode == "zeros":
        arguments["padding"] = conv.padding
    else:
        vertical, horizontal = conv.padding
        mode = conv.padding_mode
        x = torch.nn.functional.pad(x, (horizontal, horizontal, vertical, vertical), mode=mode)
    bias = None if conv.bias is None else conv.bias.detach().double()
    y = torch.nn.functional.conv2d(x.double(), conv.weight.detach().double(), bias, **arguments)

    def per_channel(values):
        return values.detach().double()[:, None, None]

    y = (y - per_channel(norm.running_mean)) / (per_channel(norm.running_var) + norm.eps).sqrt()
    return y if norm.weight is None else y * per_channel(norm.weight) + per_channel(norm.bias)


# --- what is served ---------------------------------------------------------------------------------------------------


def network_logits(state, pictures):
    """The logits of `NETWORK` in the hidden tests, in eval mode and in float64, from its state_dict."""
    w = {name: value.double() if value.is_floating_point() else value for name, value in state.items()}

    def normalised(x, name):
        mean, var, scale, shift = (w[f"{name}.{what}"] for what in ("running_mean", "running_var", "weight", "bias"))
        x = (x - mean[:, None, None]) / (var[:, None, None] + 1e-5).sqrt()
        return x * scale[:, None, None] + shift[:, None, None]

    x = torch.stack([3 * picture + 2 if picture.mean() < -0.5 else picture for picture in pictures.double()])
    x = x - w["shift"]
    for i, stride in enumerate((2, 2, 1, 1, 1, 1)):
        x = F.conv2d(x, w[f"convs.{i}.weight"], w.get(f"convs.{i}.bias"), stride=stride, padding=1)
        x = normalised(x, f"norms.{i}").relu()
    return F.linear(x.mean(dim=(2, 3)), w["head.weight"], w["head.bias"])


def convolutions_of_edges_and_blurs(inputs, width=48, seed=0):
    """Two convolutions (weight, bias), 3 by 3, BatchNorm folded: `width` channels, then twice as many.

    Half of the filters of the first one are blurs and half are edges, at random. On the `inputs`, (n, 3, h, w), each
    channel has a deviation of about 1, so the weights of the edges, to which photographs have little to say, are large.
    """
    generator = torch.Generator().manual_seed(seed)
    first = torch.rand(width, 3, 3, 3, generator=generator)
    edges = torch.randn(width // 2, 3, 3, 3, generator=generator)
    first[: width // 2] = edges - edges.mean(dim=(2, 3), keepdim=True)
    first = first[torch.randperm(width, generator=generator)]
    second = torch.randn(2 * width, width, 3, 3, generator=generator)
    layers, x = [], inputs
    for weight, stride in ((first, 1), (second, 2)):
        raw = F.conv2d(x, weight, stride=stride, padding=1)
        mean, deviation = raw.mean(dim=(0, 2, 3)), raw.std(dim=(0, 2, 3))
        layers.append((weight / deviation[:, None, None, None], 0.3 - mean / deviation))
        x = F.conv2d(x, *layers[-1], stride=stride, padding=1).relu()
    return layers


def convolved(layers, inputs):
    """The mean of each channel after the convolutions: (n, channels)."""
    x = F.conv2d(inputs, *layers[0], padding=1).relu()
    return F.conv2d(x, *layers[1], stride=2, padding=1).relu().mean(dim=(2, 3))


def fitted_head(features, labels):
    """A linear layer (weight, bias) for two classes, by least squares that keep the weights small."""
    x = torch.cat([features, torch.ones(len(features), 1)], dim=1).double()
    y = 2.0 * F.one_hot(labels, 2).double() - 1.0
    solution = torch.linalg.solve(x.T @ x + 100.0 * torch.eye(x.shape[1], dtype=torch.float64), x.T @ y).float()
    return solution[:-1].T.contiguous(), solution[-1].contiguous()


def batch_sizes(n, sizes):
    """The sizes of the batches that a request of n pictures goes into."""
    found = [sizes[-1]] * (n // sizes[-1])
    rest = n % sizes[-1]
    return found + [min(size for size in sizes if size >= rest)] if rest else found


def percentile(latencies, q):
    """The smallest of the latencies that at least q % of them do not exceed."""
    n = len(latencies)
    return min(value for value in latencies if 100 * sum(other <= value for other in latencies) >= q * n)
