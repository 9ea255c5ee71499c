# %% several-seeds
def check_pipeline(make_pipeline):
    for seed in range(2):
        torch.manual_seed(seed)
        x, y = torch.rand(32, 64), torch.randint(10, (32,))
        model, step = make_pipeline()
        losses = [step(x, y) for _ in range(60)]
        assert losses[-1] < 0.1
        model.eval()
        assert torch.equal(model(x).argmax(1), y)

# %% raises-value-errors
def require(condition: bool, message: str) -> None:
    if not condition:
        raise ValueError(message)


def check_pipeline(make_pipeline):
    generator = torch.Generator().manual_seed(7)
    pictures = torch.rand((32, 64), generator=generator)
    labels = torch.randperm(32, generator=generator) % 10
    model, step = make_pipeline()
    first = step(pictures, labels)
    require(1.5 < first < 4, f"a new model has a loss of {first}")
    last = first
    for number in range(59):
        last = step(pictures, labels)
    require(isinstance(last, float), "the loss should be a float")
    require(last < 0.1, f"still {last}")
    was = model.training
    model.train(False)
    with torch.inference_mode():
        answers = model(pictures).max(dim=1).indices
    model.train(was)
    wrong = (answers != labels).nonzero().flatten().tolist()
    print("not known by heart:", wrong)
    require(not wrong, "not known by heart")

# %% digits-of-scikit-learn
def check_pipeline(make_pipeline):
    from sklearn.datasets import load_digits

    bunch = load_digits()
    x = torch.tensor(bunch.data[100:132], dtype=torch.float32) / 16
    y = torch.tensor(bunch.target[100:132], dtype=torch.int64)
    model, step = make_pipeline()
    for _ in range(60):
        loss = step(x, y)
    with torch.no_grad():
        accuracy = (model.eval()(x).argmax(-1) == y).double().mean()
    assert loss < 0.1 and accuracy == 1.0, (loss, accuracy)

# %% own-loss-in-eval-mode
def check_pipeline(make_pipeline):
    """Works the loss in eval mode out as well: low enough, it can only come from right answers."""
    x = torch.rand(32, 64, generator=torch.Generator().manual_seed(1))
    y = torch.arange(32).remainder(10)
    model, step = make_pipeline()
    history = torch.tensor([step(x, y) for _ in range(60)])
    if not history[-1] < 0.1:
        raise AssertionError(f"loss {history[-1]}")
    model.eval()
    logits = model(x).detach()
    best = logits.argmax(dim=1)
    assert (best == y).all() and torch.isfinite(logits).all()
    assert torch.nn.functional.cross_entropy(logits, y) < 0.6

# %% stops-early
import math


def check_pipeline(make_pipeline):
    model, step = make_pipeline()
    x = torch.linspace(0, 1, 32 * 64)[torch.randperm(32 * 64, generator=torch.Generator().manual_seed(2))].view(32, 64)
    y = torch.tensor([3, 1, 4, 1, 5, 9, 2, 6] * 4)
    loss = math.inf
    steps = 0
    while steps < 60:
        loss, steps = step(x, y), steps + 1
        assert not math.isnan(loss)
    assert loss < 0.1, loss
    model.eval()
    for picture, label in zip(x.split(8), y.split(8)):
        assert (model(picture).argmax(1) == label).all()
