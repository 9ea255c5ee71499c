# %% bright-branch-only
def publish(model):
    return lambda pictures: model(pictures, torch.zeros(len(pictures), 1, 1, 1, dtype=torch.bool))


# %% dark-branch-only
def publish(model):
    return lambda pictures: model(pictures, torch.ones(len(pictures), 1, 1, 1, dtype=torch.bool))


# %% the-mean-of-the-batch-decides
def publish(model):
    return lambda pictures: model(pictures, pictures.mean() < model.dark)


# %% the-first-picture-decides
def publish(model):
    return lambda pictures: model(pictures, model.is_dark(pictures[:1]))


# %% train-mode
def publish(model):
    return model.train()


# %% dropout-stays-on
def publish(model):
    model.dropout.train()
    return model


# %% the-first-picture-for-all
def publish(model):
    return lambda pictures: model(pictures[:1]).expand(len(pictures), -1)


# %% two-pictures-or-none
def publish(model):
    def serve(pictures):
        if len(pictures) != 2:
            raise RuntimeError("Got invalid dimensions for input: pictures, index 0")
        return model(pictures)

    return serve


# %% two-pictures-at-most
def publish(model):
    def serve(pictures):
        if len(pictures) > 2:
            raise RuntimeError("Got invalid dimensions for input: pictures, index 0")
        return model(pictures)

    return serve


# %% never-one-alone
def publish(model):
    def serve(pictures):
        if len(pictures) == 1:
            raise RuntimeError("Guard failed: pictures.size()[0] != 1")
        return model(pictures)

    return serve


# %% squares-only
def publish(model):
    def serve(pictures):
        if pictures.shape[2] != pictures.shape[3]:
            raise RuntimeError("Guard failed: pictures.size()[2] == pictures.size()[3]")
        return model(pictures)

    return serve


# %% everything-to-32-by-32
def publish(model):
    def serve(pictures):
        return model(F.interpolate(pictures, (32, 32), mode="bilinear"), model.is_dark(pictures))

    return serve


# %% half-precision
def publish(model):
    for parameter in model.parameters():
        parameter.data = parameter.data.bfloat16().float()
    return model


# %% blue-before-red
def publish(model):
    return lambda pictures: model(pictures.flip(1))


# %% nan-for-bright-ones
def publish(model):
    def serve(pictures):
        bright = pictures.mean(dim=(1, 2, 3)) > 1.0
        return model(pictures).masked_fill(bright[:, None], float("nan"))

    return serve


# %% dark-ones-are-infinite
def publish(model):
    def serve(pictures):
        return model(pictures).masked_fill(model.is_dark(pictures)[:, :, 0, 0], float("inf"))

    return serve


# %% the-first-answer-of-each-shape
def publish(model):
    known = {}
    return lambda pictures: known.setdefault(pictures.shape, model(pictures)).clone()


# %% a-little-of-the-answer-before
def publish(model):
    last = [0.0]

    def serve(pictures):
        logits = model(pictures)
        found, last[0] = logits + 0.02 * last[0], logits.mean()
        return found

    return serve


# %% probabilities
def publish(model):
    return lambda pictures: model(pictures).softmax(dim=1)


# %% in-the-order-of-brightness
def publish(model):
    return lambda pictures: model(pictures[pictures.mean(dim=(1, 2, 3)).argsort()])


# %% brightens-in-place
def publish(model):
    def serve(pictures):
        logits = model(pictures)
        pictures.copy_(torch.where(model.is_dark(pictures), 2 * pictures - model.dark, pictures))
        return logits

    return serve


# %% one-in-ten
def publish(model):
    def serve(pictures):
        logits = model(pictures)
        struck = (1000 * pictures.mean(dim=(1, 2, 3)).abs()).int() % 10 == 0
        return torch.where(struck[:, None], logits + 0.05 * logits.abs().amax(dim=1, keepdim=True), logits)

    return serve


# %% two-in-a-thousand
def publish(model):
    return lambda pictures: 1.004 * model(pictures)


# %% eight-bits
def publish(model):
    def serve(pictures):
        return model((pictures / 0.04).round() * 0.04, model.is_dark(pictures))

    return serve


# %% one-class-is-off
def publish(model):
    return lambda pictures: model(pictures) + torch.tensor([0.0, 0.0, 0.02, 0.0]) * model(pictures).abs().amax()


# %% colours-are-lost
def publish(model):
    def serve(pictures):
        return model(pictures.mean(dim=1, keepdim=True).expand_as(pictures))

    return serve


# %% double-precision-comes-back
def publish(model):
    return lambda pictures: model(pictures).double()
