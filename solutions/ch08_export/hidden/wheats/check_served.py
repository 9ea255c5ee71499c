# %% one-set-cut-in-many-ways
def check_served(serve, model):
    network = copy.deepcopy(model).eval()
    generator = torch.Generator().manual_seed(3)
    for size in ((24, 24), (16, 31), (40, 20)):
        pictures = torch.cat([torch.randn(20, 3, *size, generator=generator) + level for level in (-2.0, -1.2, -0.8, 0, 1, 2)])
        pictures += torch.randn(120, 3, 1, 1, generator=generator)
        pictures = pictures[torch.randperm(120, generator=generator)]
        with torch.no_grad():
            expected = network(pictures)
        limit = 1e-4 * expected.abs().max()
        for cut in (1, 2, 5, 50, 120, 1):
            found = [serve(part.clone()) for part in pictures.split(cut)]
            assert all(part.dtype == torch.float32 for part in found)
            found = torch.cat(found)
            assert found.shape == expected.shape and (found - expected).abs().max() < limit
        kept = pictures.clone()
        serve(kept)
        assert torch.equal(kept, pictures)


# %% modes-set-back
def check_served(serve, model):
    modes = {module: module.training for module in model.modules()}
    model.eval()
    try:
        for seed in range(8):
            generator = torch.Generator().manual_seed(seed)
            for n in (1, 2, 5, 30):
                size = torch.randint(16, 50, (2,), generator=generator).tolist()
                pictures = torch.randn(n, 3, *size, generator=generator) + torch.randn(n, 3, 1, 1, generator=generator)
                pictures += 4 * torch.rand(n, 1, 1, 1, generator=generator) - 2.5
                with torch.no_grad():
                    expected = model(pictures)
                for _ in range(2):
                    sent = pictures.clone()
                    limit = {"rtol": 0.0, "atol": 5e-5 * float(expected.abs().max())}
                    torch.testing.assert_close(serve(sent), expected, **limit)
                    torch.testing.assert_close(sent, pictures, rtol=0.0, atol=0.0)
                torch.testing.assert_close(serve(pictures.roll(1, 0)), expected.roll(1, 0), **limit)
    finally:
        for module, training in modes.items():
            module.training = training


# %% against-double-precision
def check_served(serve, model):
    import numpy as np

    network = copy.deepcopy(model).double().eval().requires_grad_(False)
    rng = np.random.default_rng(0)
    worst = 0.0
    for n, h, w in [(1, 32, 32), (2, 32, 32), (5, 20, 44), (40, 33, 16), (60, 32, 32), (1, 32, 32), (60, 32, 32), (9, 44, 20)] * 2:
        levels = rng.uniform(-2.5, 2.5, (n, 1, 1, 1)) + rng.normal(size=(n, 3, 1, 1))
        pictures = torch.from_numpy((levels + rng.normal(size=(n, 3, h, w))).astype("float32"))
        expected = network(pictures.double())
        for turn in range(2):
            sent = pictures.clone()
            found = serve(sent)
            if found.dtype is not torch.float32 or found.shape != expected.shape or not torch.equal(sent, pictures):
                raise ValueError("another dtype, another shape, or other pictures")
            if not torch.isfinite(found).all():
                raise ValueError("not finite")
            worst = max(worst, ((found - expected).abs().max() / expected.abs().max()).item())
    if worst > 1e-4:
        raise ValueError(f"off by {worst:.1e}")


# %% differences-in-a-list
def check_served(serve, model):
    network = copy.deepcopy(model)
    network.train(False)
    torch_state = torch.get_rng_state()
    torch.manual_seed(7)
    problems = []
    for _ in range(3):
        for size in ((16, 16), (28, 19)):
            bright = torch.randn(30, 3, *size) + torch.randn(30, 3, 1, 1) + 1.5
            pictures = torch.cat([bright, bright - 3.5])
            with torch.no_grad():
                expected = network(pictures)
            scale = expected.abs().max()
            for where in ([0], [59], [0, 59], [59, 0], [1, 3, 5, 31, 33], list(range(60)), list(range(59, -1, -1))):
                for _ in range(2):
                    sent = pictures[where]
                    found = serve(sent)
                    if found.dtype != torch.float32 or found.shape != expected[where].shape:
                        problems.append("form")
                    elif not bool(((found - expected[where]).abs() <= 1e-4 * expected[where].abs().max()).all()):
                        problems.append("values")
                    elif not torch.equal(sent, pictures[where]):
                        problems.append("input")
    torch.set_rng_state(torch_state)
    assert scale > 0 and not problems, problems
