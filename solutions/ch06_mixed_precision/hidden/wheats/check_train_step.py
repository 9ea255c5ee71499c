# %% raises-value-errors
def check_train_step(train_step):
    half = torch.float16

    def new(n_in, lr, init_scale):
        """A linear layer of zeros, two classes; its gradients are known beforehand."""
        layer = nn.Linear(n_in, 2)
        nn.init.zeros_(layer.weight)
        nn.init.zeros_(layer.bias)
        optimiser = torch.optim.SGD(layer.parameters(), lr=lr)
        return layer, optimiser, torch.amp.GradScaler("cpu", init_scale=init_scale)

    def assert_close(actual, expected, what):
        off = (actual.detach() - expected).norm() / expected.norm()
        if not off < 0.015:
            raise ValueError(what)

    # logits that half precision holds without an error, so the loss is known to the precision of float32
    layer, optimiser, scaler = new(2, 0.0, 16.0)
    layer.weight.data = torch.tensor([[1.0, 2.0], [0.5, 0.25]])
    x, y = torch.tensor([[1.0, 1.0], [0.5, 3.0], [2.0, 0.0]]), torch.tensor([0, 1, 1])
    for dtype in (half, torch.bfloat16):
        seen = []
        hook = layer.register_forward_hook(lambda module, args, output, seen=seen: seen.append(output.dtype))
        loss = train_step(layer, x, y, optimiser, scaler, 1.0, dtype)
        hook.remove()
        assert seen and all(found == dtype for found in seen), f"the layer ran in {seen}, not in {dtype}"
        assert loss.shape == () and loss.dtype == torch.float32 and not loss.requires_grad, "not a plain number"
        torch.testing.assert_close(loss, F.cross_entropy(x @ layer.weight.detach().T, y), rtol=1e-5, atol=0.0)

    # each of 32 samples has a faint pixel of its own, and so a gradient of 2^-26, too small for float16
    layer, optimiser, scaler = new(32, 2.0**26, 2.0**16)
    labels = torch.arange(32) % 2
    train_step(layer, 2.0**-20 * torch.eye(32), labels, optimiser, scaler, 1.0, half)
    assert_close(layer.weight[0], 1.0 - 2.0 * labels, "faint pixels")

    # one picture with a single pixel: gradients of 0.5 for two weights and both biases, so a total norm of 1
    single, label = torch.tensor([[1.0, 0.0]]), torch.tensor([0])
    way = torch.tensor([[0.5, 0.0], [-0.5, 0.0]]), torch.tensor([0.5, -0.5])
    for dtype, max_norm, share in ((half, 0.25, 0.25), (half, 3.0, 1.0), (torch.bfloat16, 0.25, 0.25), (half, 0.5, 0.5)):
        layer, optimiser, scaler = new(2, 0.5, 1024.0)
        layer.weight.grad, layer.bias.grad = torch.full((2, 2), 7.0), torch.full((2,), -7.0)
        train_step(layer, single, label, optimiser, scaler, max_norm, dtype)
        assert_close(layer.weight, 0.5 * share * way[0], f"weights, after a step with max_norm {max_norm}")
        assert_close(layer.bias, 0.5 * share * way[1], f"biases, after a step with max_norm {max_norm}")
        assert scaler.get_scale() == 1024, f"the scale has become {scaler.get_scale()}"

    # a bright picture: gradients of 2048 for two weights, which float16 holds times 16, but not times 32
    bright, way = torch.tensor([[4096.0, 0.0]]), torch.tensor([[2048.0, 0.0], [-2048.0, 0.0]])
    layer, optimiser, scaler = new(2, 0.5, 32.0)
    train_step(layer, bright, label, optimiser, scaler, 2.0, half)
    assert not layer.weight.any() and not layer.bias.any(), "it made a step in spite of an overflow"
    assert scaler.get_scale() == 16, f"after an overflow at 32 the scale is {scaler.get_scale()}"
    train_step(layer, bright, label, optimiser, scaler, 2.0, half)
    assert_close(layer.weight, way / way.norm(), "the step after a skipped one")
    assert scaler.get_scale() == 16, f"after a good step the scale is {scaler.get_scale()}"


# %% other-numbers
def check_train_step(train_step):
    half = torch.float16

    def new(n_in, lr, init_scale):
        """A linear layer of zeros, two classes; its gradients are known beforehand."""
        layer = nn.Linear(n_in, 2)
        nn.init.zeros_(layer.weight)
        nn.init.zeros_(layer.bias)
        optimiser = torch.optim.SGD(layer.parameters(), lr=lr)
        return layer, optimiser, torch.amp.GradScaler(device="cpu", init_scale=init_scale, growth_interval=10_000)

    def assert_close(actual, expected, what):
        off = (actual.detach() - expected).norm() / expected.norm()
        assert off < 0.02, f"{what}: off by {off:.2%}"

    # logits that half precision holds without an error, so the loss is known to the precision of float32
    layer, optimiser, scaler = new(2, 0.0, 16.0)
    layer.weight.data = torch.tensor([[1.0, 2.0], [0.5, 0.25]])
    x, y = torch.tensor([[1.0, 1.0], [0.5, 3.0], [2.0, 0.0]]), torch.tensor([0, 1, 1])
    for dtype in (half, torch.bfloat16):
        seen = []
        hook = layer.register_forward_hook(lambda module, args, output, seen=seen: seen.append(output.dtype))
        loss = train_step(layer, x, y, optimiser, scaler, 1.0, dtype)
        hook.remove()
        assert seen and all(found == dtype for found in seen), f"the layer ran in {seen}, not in {dtype}"
        assert loss.shape == () and loss.dtype == torch.float32 and not loss.requires_grad, "not a plain number"
        torch.testing.assert_close(loss, F.cross_entropy(x @ layer.weight.detach().T, y), rtol=1e-5, atol=0.0)

    # each of 32 samples has a faint pixel of its own, and so a gradient of 2^-26, too small for float16
    layer, optimiser, scaler = new(32, 2.0**25, 2.0**17)
    labels = torch.arange(32) % 2
    train_step(layer, 2.0**-19 * torch.eye(32), labels, optimiser, scaler, 1.0, half)
    assert_close(layer.weight[0], 1.0 - 2.0 * labels, "faint pixels")

    # one picture with a single pixel: gradients of 0.5 for two weights and both biases, so a total norm of 1
    single, label = torch.tensor([[1.0, 0.0]]), torch.tensor([0])
    way = torch.tensor([[0.5, 0.0], [-0.5, 0.0]]), torch.tensor([0.5, -0.5])
    for dtype, max_norm, share in ((half, 0.25, 0.25), (half, 3.0, 1.0), (torch.bfloat16, 0.25, 0.25)):
        layer, optimiser, scaler = new(2, 0.5, 1024.0)
        layer.weight.grad, layer.bias.grad = torch.full((2, 2), 7.0), torch.full((2,), -7.0)
        train_step(layer, single, label, optimiser, scaler, max_norm, dtype)
        assert_close(layer.weight, 0.5 * share * way[0], f"weights, after a step with max_norm {max_norm}")
        assert_close(layer.bias, 0.5 * share * way[1], f"biases, after a step with max_norm {max_norm}")
        assert scaler.get_scale() == 1024, f"the scale has become {scaler.get_scale()}"

    # a bright picture: gradients of 2048 for two weights, which float16 holds times 16, but not times 32
    bright, way = torch.tensor([[4096.0, 0.0]]), torch.tensor([[2048.0, 0.0], [-2048.0, 0.0]])
    layer, optimiser, scaler = new(2, 0.5, 32.0)
    train_step(layer, bright, label, optimiser, scaler, 2.0, half)
    assert not layer.weight.any() and not layer.bias.any(), "it made a step in spite of an overflow"
    assert scaler.get_scale() == 16, f"after an overflow at 32 the scale is {scaler.get_scale()}"
    train_step(layer, bright, label, optimiser, scaler, 2.0, half)
    assert_close(layer.weight, way / way.norm(), "the step after a skipped one")
    assert scaler.get_scale() == 16, f"after a good step the scale is {scaler.get_scale()}"


# %% against-float64
def exact_step(weight, bias, x, y, max_norm, lr):
    """What a step should do to a linear layer, in float64."""
    weight, bias = weight.double().requires_grad_(), bias.double().requires_grad_()
    loss = F.cross_entropy(F.linear(x.double(), weight, bias), y)
    gradients = torch.autograd.grad(loss, (weight, bias))
    norm = torch.cat([g.flatten() for g in gradients]).norm()
    factor = min(1.0, max_norm / norm.item())
    return loss.item(), [-lr * factor * g for g in gradients]


def check_train_step(train_step):
    generator = torch.Generator().manual_seed(5)
    cases = [  # brightness, rate, scale, max_norm, dtype
        (1.0, 0.5, 256.0, 100.0, torch.float16),
        (1.0, 0.5, 256.0, 0.05, torch.float16),
        (1.0, 0.5, 256.0, 100.0, torch.bfloat16),
        (1.0, 0.5, 256.0, 0.05, torch.bfloat16),
        (2.0**-18, 1e5, 65536.0, 100.0, torch.float16),
    ]
    for brightness, lr, scale, max_norm, dtype in cases:
        x = brightness * torch.randint(1, 5, (200, 6), generator=generator).float()
        y = torch.randint(4, (200,), generator=generator)
        layer = nn.Linear(6, 4)
        nn.init.zeros_(layer.weight)
        nn.init.zeros_(layer.bias)
        if brightness < 1:  # a pixel for each sample, so that gradients do not add up
            x = brightness * torch.eye(200)[:, :200]
            layer = nn.Linear(200, 4)
            nn.init.zeros_(layer.weight)
            nn.init.zeros_(layer.bias)
        dtypes = []
        layer.register_forward_hook(lambda m, a, out: dtypes.append(out.dtype))
        start = [p.detach().clone() for p in layer.parameters()]
        loss, ways = exact_step(*start, x, y, max_norm, lr)
        for p in layer.parameters():
            p.grad = torch.full_like(p, 11.0)
        optimiser = torch.optim.SGD(layer.parameters(), lr=lr)
        scaler = torch.amp.GradScaler("cpu", init_scale=scale)
        found = train_step(layer, x, y, optimiser, scaler, max_norm, dtype)
        if dtypes[-1] != dtype:
            raise TypeError(f"{dtypes[-1]} instead of {dtype}")
        if found.dtype != torch.float32 or found.dim() or found.requires_grad or abs(found.item() - loss) > 1e-5:
            raise ValueError(f"loss {found}, should be {loss}")
        for p, before, way in zip(layer.parameters(), start, ways):
            off = ((p.detach().double() - before - way).norm() / way.norm()).item()
            if off > 0.02:
                raise ValueError(f"off by {off}")
        if scaler.get_scale() != scale:
            raise ValueError(f"scale {scaler.get_scale()}")
    # overflow by a picture that is inf, with momentum; then a good one
    for picture, scale in ((float("inf"), 8.0), (4096.0, 64.0)):
        layer = nn.Linear(2, 2)
        nn.init.zeros_(layer.weight)
        nn.init.zeros_(layer.bias)
        optimiser = torch.optim.SGD(layer.parameters(), lr=1.0, momentum=0.9)
        scaler = torch.amp.GradScaler("cpu", init_scale=scale)
        before = [p.detach().clone() for p in layer.parameters()]
        train_step(layer, torch.tensor([[picture, 0.0]]), torch.tensor([0]), optimiser, scaler, 1.0, torch.float16)
        if not all(torch.equal(b, p) for b, p in zip(before, layer.parameters())):
            raise ValueError("moved")
        if scaler.get_scale() != scale / 2:
            raise ValueError("scale is not halved")
        start = [p.detach().clone() for p in layer.parameters()]
        x, y = torch.tensor([[2.0, 1.0]]), torch.tensor([1])
        _, ways = exact_step(*start, x, y, 0.1, 1.0)
        train_step(layer, x, y, optimiser, scaler, 0.1, torch.float16)
        for p, b, way in zip(layer.parameters(), start, ways):
            if ((p.detach() - b - way).norm() / way.norm()).item() > 0.02:
                raise ValueError("the step after an overflow is wrong")
        if scaler.get_scale() != scale / 2:
            raise ValueError("scale changed after a good step")
    # logits that are held exactly, in both dtypes: the loss tells whether it was worked out in float32
    x, y = torch.arange(12.0).view(6, 2) / 4, torch.tensor([0, 1, 2, 2, 1, 0])
    for dtype in (torch.float16, torch.bfloat16):
        layer = nn.Linear(2, 3, bias=False)
        layer.weight.data = torch.tensor([[1.0, 0.5], [0.5, 1.0], [-1.0, 0.5]])
        expected = F.cross_entropy(x.double() @ layer.weight.detach().double().T, y).item()
        optimiser = torch.optim.SGD(layer.parameters(), lr=0.0)
        found = train_step(layer, x, y, optimiser, torch.amp.GradScaler("cpu"), 1.0, dtype).item()
        if abs(found / expected - 1) > 1e-5:
            raise ValueError(f"loss {found}, should be {expected}")


# %% beside-a-right-one
def right_step(model, x, y, optimiser, scaler, max_norm, dtype):
    with torch.autocast(x.device.type, dtype):
        logits = model(x)
    loss = F.cross_entropy(logits.float(), y)
    optimiser.zero_grad()
    scaler.scale(loss).backward()
    scaler.unscale_(optimiser)
    nn.utils.clip_grad_norm_(model.parameters(), max_norm)
    scaler.step(optimiser)
    scaler.update()
    return loss.detach()


def check_train_step(train_step):
    """Side by side with a step that is right, over a few batches that have everything."""
    images, labels = torch.rand(64, 16, generator=torch.Generator().manual_seed(3)), torch.arange(64) % 5
    faint = 2.0**-20 * torch.eye(64)
    for dtype in (torch.float16, torch.bfloat16):
        for scale, max_norm, xs in (
            (64.0, 0.05, [images, 2 * images, images * float("inf"), images]),
            (2.0**14, 50.0, [images, images, images]),
            (2.0**24, 50.0, [4096 * images] * 4),
            (2.0**16, 50.0, [faint]),
        ):
            runs = []
            for step in (right_step, train_step):
                torch.manual_seed(1)
                n_in = xs[0].shape[1]
                model = nn.Sequential(nn.Linear(n_in, 6), nn.Tanh(), nn.Linear(6, 5)) if n_in == 16 else nn.Linear(64, 5)
                if n_in == 64:
                    nn.init.zeros_(model.weight)
                seen = []
                for layer in model.modules():
                    if isinstance(layer, nn.Linear):
                        layer.register_forward_hook(lambda m, a, out: seen.append(out.dtype))
                rate = 2.0**20 if n_in == 64 else 0.2
                optimiser = torch.optim.SGD(model.parameters(), lr=rate)
                scaler = torch.amp.GradScaler("cpu", init_scale=scale)
                start = [p.detach().clone() for p in model.parameters()]
                for p in model.parameters():
                    p.grad = torch.ones_like(p)
                log = []
                for x in xs:
                    loss = step(model, x, labels, optimiser, scaler, max_norm, dtype)
                    assert isinstance(loss, torch.Tensor) and loss.dtype == torch.float32
                    assert loss.ndim == 0 and not loss.requires_grad
                    log.append((loss.item(), scaler.get_scale()))
                ways = [(p - s).detach() for p, s in zip(model.parameters(), start)]
                runs.append((log, ways, set(seen)))
            (log, ways, seen), (own_log, own_ways, own_seen) = runs
            assert seen == own_seen, (seen, own_seen)
            for (loss, s), (own_loss, own_s) in zip(log, own_log):
                assert s == own_s, (s, own_s)
                assert loss != loss or abs(loss - own_loss) < 1e-4 * loss, (loss, own_loss)
            for way, own_way in zip(ways, own_ways):
                assert (way - own_way).norm() <= 0.02 * way.norm(), "another way"


# %% at-random
def check_train_step(train_step):
    """Side by side with a step of its own, in situations that are drawn at random (some with gradients of zero)."""

    def own(model, x, y, optimiser, scaler, max_norm, dtype):
        optimiser.zero_grad()
        with torch.autocast(x.device.type, dtype):
            logits = model(x)
        loss = F.cross_entropy(logits.float(), y)
        scaler.scale(loss).backward()
        scaler.unscale_(optimiser)
        nn.utils.clip_grad_norm_(model.parameters(), max_norm)
        scaler.step(optimiser)
        scaler.update()
        return loss.detach()

    class Net(nn.Module):
        def __init__(self, sizes, draw):
            super().__init__()
            self.layers = nn.ModuleList(nn.Linear(a, b) for a, b in zip(sizes, sizes[1:]))
            for parameter in self.parameters():
                parameter.data = 0.5 * torch.randn(parameter.shape, generator=draw)
            self.seen = []

        def forward(self, x):
            for layer in self.layers[:-1]:
                x = layer(x)
                self.seen.append(x.dtype)
                x = x.relu()
            x = self.layers[-1](x)
            self.seen.append(x.dtype)
            return x

    draw = torch.Generator().manual_seed(1)
    situations = [
        (dtype, scale, max_norm, size)
        for dtype in (torch.float16, torch.bfloat16)
        for scale, size in ((2.0**8, 1.0), (2.0**3, 1.0), (2.0**14, 2.0**-20), (2.0**13, 64.0))
        for max_norm in (0.01, 1e8)
    ]
    for dtype, scale, max_norm, size in situations:
        faint = size < 1
        sizes = (40, 3) if faint else (6, 8, 3)
        a = Net(sizes, draw)
        b = copy.deepcopy(a)
        rate = (2.0**22 if max_norm > 1 else 1.0) if faint else 0.1
        trainings = []
        for net in (a, b):
            trainings.append(
                (
                    torch.optim.SGD(net.parameters(), lr=rate, momentum=0.5),
                    torch.amp.GradScaler("cpu", init_scale=scale, backoff_factor=0.25, growth_interval=2),
                )
            )
        for step in range(5):
            x = size * (torch.eye(40) if faint else torch.randn(10, sizes[0], generator=draw))
            if step == 2 and not faint:
                x = x * 2.0**14 / size  # most likely too large for fp16
            y = torch.randint(3, (len(x),), generator=draw)
            b.load_state_dict(a.state_dict())
            before = [parameter.detach().clone() for parameter in a.parameters()]
            if step == 4:
                y = a(x).detach().argmax(dim=1)  # a small loss
            for parameter in a.parameters():
                parameter.grad = torch.full_like(parameter, math.nan if step == 3 else 1e4)
            a.seen.clear()
            for net, training in zip((a, b), trainings, strict=True):
                loss = (train_step if net is a else own)(net, x, y, *training, max_norm, dtype)
                if net is a:
                    first = loss
            assert a.seen and set(a.seen) == {dtype}, "the layers have no region of this dtype"
            assert first.dtype == torch.float32 and first.shape == () and not first.requires_grad
            if loss.isfinite():
                assert abs(first - loss) <= 1e-5 * loss.abs(), "the loss"
            assert trainings[0][1].get_scale() == trainings[1][1].get_scale(), "the scale"
            # the first weight apart from the rest, whose gradients are larger by far with faint pictures
            for part in (slice(0, 1), slice(1, None)):
                new, wanted, old = (
                    torch.cat([p.detach().flatten() for p in list(ps)[part]])
                    for ps in (a.parameters(), b.parameters(), before)
                )
                moved = (wanted - old).norm()
                if moved == 0:
                    assert torch.equal(new, old), "a step that should have been skipped"
                else:
                    assert (new - wanted).norm() <= 0.04 * moved, "the parameters"
