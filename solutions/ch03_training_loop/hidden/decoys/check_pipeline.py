# %% steps-on-in-eval-mode
def check_pipeline(make_pipeline):
    x, y = torch.rand(32, 64, generator=torch.Generator().manual_seed(3)), torch.arange(32) % 10
    model, step = make_pipeline()
    model.eval()  # a step puts the model into the mode that it needs
    for _ in range(60):
        loss = step(x, y)
    model.eval()
    assert loss < 0.1
    assert (model(x).argmax(1) - y).abs().sum() == 0


# %% fails-by-an-error-of-its-own
def check_pipeline(make_pipeline):
    x, y = torch.rand(32, 64, generator=torch.Generator().manual_seed(4)), torch.arange(32) % 10
    model, step = make_pipeline()
    losses = [step(x, y) for _ in range(60)]
    known = (model.eval()(x).argmax(1) == y).sum().item()
    {True: "low"}[losses[-1] < 0.1]  # a KeyError says no as well
    ["all"][32 - known]
