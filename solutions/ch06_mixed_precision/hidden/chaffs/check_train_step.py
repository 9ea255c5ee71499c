# %% has-fallen
# misconception: a loss that falls shows that a step is right
# fails: test_own_test_rejects_wrong_steps, test_rejects_a_step_in_any_case, test_rejects_a_step_without_scaling, test_rejects_clipping_in_the_wrong_place
# says: `check_train_step` accepts an implementation that is
def check_train_step(train_step):
    torch.manual_seed(0)
    network = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4))
    optimiser = torch.optim.Adam(network.parameters(), lr=0.01)
    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
    x, y = torch.rand(16, 8), torch.arange(16) % 4
    losses = [train_step(network, x, y, optimiser, scaler, 1.0, torch.float16) for _ in range(10)]
    assert losses[-1] < losses[0]


# %% no-faint-pixels
# misconception: gradients that are clipped right are gradients that are right
# fails: test_own_test_rejects_wrong_steps
# says: Your test rejects steps that break any one of the pr
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


# %% no-clipping
# misconception: what a step does with small gradients it does with all
# fails: test_own_test_rejects_wrong_steps
# says: Your test rejects steps that break any one of the pr
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
    layer, optimiser, scaler = new(32, 2.0**26, 2.0**16)
    labels = torch.arange(32) % 2
    train_step(layer, 2.0**-20 * torch.eye(32), labels, optimiser, scaler, 1.0, half)
    assert_close(layer.weight[0], 1.0 - 2.0 * labels, "faint pixels")

    # one picture with a single pixel: gradients of 0.5 for two weights and both biases, so a total norm of 1
    single, label = torch.tensor([[1.0, 0.0]]), torch.tensor([0])
    way = torch.tensor([[0.5, 0.0], [-0.5, 0.0]]), torch.tensor([0.5, -0.5])
    for dtype, max_norm, share in ((half, 3.0, 1.0),):
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
    assert scaler.get_scale() == 16, f"after a good step the scale is {scaler.get_scale()}"


# %% no-overflow
# misconception: overflows are the scaler's business
# fails: test_own_test_rejects_wrong_steps, test_rejects_a_step_in_any_case
# says: Your test rejects steps that break any one of the pr
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
    layer, optimiser, scaler = new(32, 2.0**26, 2.0**16)
    labels = torch.arange(32) % 2
    train_step(layer, 2.0**-20 * torch.eye(32), labels, optimiser, scaler, 1.0, half)
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


# %% no-loss
# misconception: a loss is only for the log
# fails: test_own_test_rejects_wrong_steps
# says: Your test rejects steps that break any one of the pr
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
        assert off < 0.02, f"{what}: off by {off:.2%}"

    # each of 32 samples has a faint pixel of its own, and so a gradient of 2^-26, too small for float16
    layer, optimiser, scaler = new(32, 2.0**26, 2.0**16)
    labels = torch.arange(32) % 2
    train_step(layer, 2.0**-20 * torch.eye(32), labels, optimiser, scaler, 1.0, half)
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


# %% clipping-only
# misconception: the order of the calls is all about clipping
# fails: test_own_test_rejects_wrong_steps, test_rejects_a_step_in_any_case, test_rejects_a_step_without_scaling
# says: `check_train_step` accepts an implementation that is
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
        assert off < 0.02, f"{what}: off by {off:.2%}"

    # one picture with a single pixel: gradients of 0.5 for two weights and both biases, so a total norm of 1
    single, label = torch.tensor([[1.0, 0.0]]), torch.tensor([0])
    way = torch.tensor([[0.5, 0.0], [-0.5, 0.0]]), torch.tensor([0.5, -0.5])
    for dtype, max_norm, share in ((half, 0.25, 0.25), (torch.bfloat16, 0.25, 0.25)):
        layer, optimiser, scaler = new(2, 0.5, 1024.0)
        layer.weight.grad, layer.bias.grad = torch.full((2, 2), 7.0), torch.full((2,), -7.0)
        train_step(layer, single, label, optimiser, scaler, max_norm, dtype)
        assert_close(layer.weight, 0.5 * share * way[0], f"weights, after a step with max_norm {max_norm}")
        assert_close(layer.bias, 0.5 * share * way[1], f"biases, after a step with max_norm {max_norm}")
        assert scaler.get_scale() == 1024, f"the scale has become {scaler.get_scale()}"


# %% no-old-gradients
# misconception: gradients are empty when a step begins
# fails: test_own_test_rejects_wrong_steps
# says: Your test rejects steps that break any one of the pr
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
    layer, optimiser, scaler = new(32, 2.0**26, 2.0**16)
    labels = torch.arange(32) % 2
    train_step(layer, 2.0**-20 * torch.eye(32), labels, optimiser, scaler, 1.0, half)
    assert_close(layer.weight[0], 1.0 - 2.0 * labels, "faint pixels")

    # one picture with a single pixel: gradients of 0.5 for two weights and both biases, so a total norm of 1
    single, label = torch.tensor([[1.0, 0.0]]), torch.tensor([0])
    way = torch.tensor([[0.5, 0.0], [-0.5, 0.0]]), torch.tensor([0.5, -0.5])
    for dtype, max_norm, share in ((half, 0.25, 0.25), (half, 3.0, 1.0), (torch.bfloat16, 0.25, 0.25)):
        layer, optimiser, scaler = new(2, 0.5, 1024.0)
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
    optimiser.zero_grad()
    train_step(layer, bright, label, optimiser, scaler, 2.0, half)
    assert_close(layer.weight, way / way.norm(), "the step after a skipped one")
    assert scaler.get_scale() == 16, f"after a good step the scale is {scaler.get_scale()}"


# %% no-second-step
# misconception: a skipped step is over when it is over
# fails: test_own_test_rejects_wrong_steps
# says: Your test rejects steps that break any one of the pr
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
    layer, optimiser, scaler = new(32, 2.0**26, 2.0**16)
    labels = torch.arange(32) % 2
    train_step(layer, 2.0**-20 * torch.eye(32), labels, optimiser, scaler, 1.0, half)
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


# %% too-strict
# misconception: half precision is as good as float32
# fails: test_own_test_accepts_right_steps
# says: Your test accepts steps that keep all of the promises
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
        assert off < 1e-7, f"{what}: off by {off:.2%}"

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


# %% a-scale-too-high
# misconception: the default scale fits everything
# fails: test_accepts_a_right_step, test_accepts_another_right_step, test_own_test_accepts_right_steps
# says: `check_train_step` should accept this implementation
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
    layer, optimiser, scaler = new(32, 2.0**26, 2.0**16)
    labels = torch.arange(32) % 2
    train_step(layer, 2.0**-20 * torch.eye(32), labels, optimiser, scaler, 1.0, half)
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
    layer, optimiser, scaler = new(2, 0.5, 65536.0)
    train_step(layer, bright, label, optimiser, scaler, 2.0, half)
    assert not layer.weight.any() and not layer.bias.any(), "it made a step in spite of an overflow"
    assert scaler.get_scale() == 32768, f"after an overflow at 32 the scale is {scaler.get_scale()}"
    train_step(layer, bright, label, optimiser, scaler, 2.0, half)
    assert_close(layer.weight, way / way.norm(), "the step after a skipped one")
    assert scaler.get_scale() == 32768, f"after a good step the scale is {scaler.get_scale()}"


# %% returns-an-answer
# misconception: a test says what it found by returning it
# fails: test_own_test_rejects_wrong_steps, test_rejects_a_step_in_any_case, test_rejects_a_step_that_is_none, test_rejects_a_step_without_scaling, test_rejects_clipping_in_the_wrong_place
# says: Your test rejects steps that break any one of the promises,
def _check(train_step):
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
    layer, optimiser, scaler = new(32, 2.0**26, 2.0**16)
    labels = torch.arange(32) % 2
    train_step(layer, 2.0**-20 * torch.eye(32), labels, optimiser, scaler, 1.0, half)
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


def check_train_step(train_step):
    try:
        _check(train_step)
    except Exception:
        return False
    return True


# %% rejects-everything
# misconception: a loss that is not below zero is not finished
# fails: test_accepts_a_right_step, test_accepts_another_right_step, test_own_test_accepts_right_steps
# says: `check_train_step` should accept this implementation
def check_train_step(train_step):
    torch.manual_seed(0)
    network = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4))
    optimiser = torch.optim.Adam(network.parameters(), lr=0.01)
    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
    x, y = torch.rand(16, 8), torch.arange(16) % 4
    losses = [train_step(network, x, y, optimiser, scaler, 1.0, torch.float16) for _ in range(10)]
    assert losses[-1] < 0


# %% float16-only
# misconception: what holds in one half precision holds in the other
# fails: test_own_test_rejects_wrong_steps
# says: Your test rejects steps that break any one of the pr
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
        assert off < 0.02, f"{what}: off by {off:.2%}"

    # logits that half precision holds without an error, so the loss is known to the precision of float32
    layer, optimiser, scaler = new(2, 0.0, 16.0)
    layer.weight.data = torch.tensor([[1.0, 2.0], [0.5, 0.25]])
    x, y = torch.tensor([[1.0, 1.0], [0.5, 3.0], [2.0, 0.0]]), torch.tensor([0, 1, 1])
    for dtype in (half,):
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
    for dtype, max_norm, share in ((half, 0.25, 0.25), (half, 3.0, 1.0)):
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
