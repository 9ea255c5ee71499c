# %% as-it-is
def publish(model):
    return model


# %% one-by-one
def publish(model):
    return lambda pictures: torch.cat([model(picture[None]) for picture in pictures])


# %% filled-up-to-fours
def publish(model):
    def serve(pictures):
        parts = []
        for part in pictures.split(4):
            filled = torch.cat([part, part.new_zeros(4 - len(part), *part.shape[1:])])
            parts.append(model(filled)[: len(part)])
        return torch.cat(parts)

    return serve


# %% in-double-precision
def publish(model):
    model = model.double()
    return lambda pictures: model(pictures.double()).float()


# %% norm-folded-into-the-head-of-a-channel
def publish(model):
    scale = model.norm.weight / (model.norm.running_var + model.norm.eps).sqrt()
    shift = model.norm.bias - model.norm.running_mean * scale

    def serve(pictures):
        x = torch.where(model.is_dark(pictures), 2 * pictures - model.dark, pictures)
        x = F.conv2d(x, model.first.weight * scale[:, None, None, None], model.first.bias * scale + shift, 2, 1)
        return F.linear(x.relu().mean(dim=(2, 3)), model.head.weight, model.head.bias)

    return serve


# %% channels-last-and-both-branches
def publish(model):
    def serve(pictures):
        pictures = pictures.contiguous(memory_format=torch.channels_last)
        is_dark = model.is_dark(pictures)
        yes, no = torch.ones_like(is_dark), torch.zeros_like(is_dark)
        return torch.where(is_dark[:, 0, 0], model(pictures, yes), model(pictures, no))

    return serve


# %% rounded-a-little
def publish(model):
    def serve(pictures):
        logits = model(pictures)
        return logits + 2e-6 * logits.abs().amax() * torch.sign(logits)

    return serve


# %% sorted-by-branch-and-back
def publish(model):
    def serve(pictures):
        order = model.is_dark(pictures).flatten().int().argsort(stable=True)
        return model(pictures[order])[order.argsort()]

    return serve
