# %% trains-in-eval-mode
def check_train_step(train_step):
    half = torch.float16

    def new(n_in, lr, init_scale):
        """A linear layer of zeros, two classes; its gradients are known beforehand."""
        layer = nn.Linear(n_in, 2)
        nn.init.zeros_(layer.weight)
        nn.init.zeros_(layer.bias)
        optimiser = torch.optim.SGD(layer.parameters(), lr=lr)
        layer.eval()  # of no importance to a linear layer
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


# %% an-error-of-its-own
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
        {True: what}[bool(off < 0.02)]  # a KeyError says no as well

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
