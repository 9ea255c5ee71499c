# %% the-expectation-comes-last
def check_served(serve, model):
    # expected is worked out after serving, from a copy; the model is switched to eval, and then back by name
    generator = torch.Generator().manual_seed(2)
    modes = {name: module.training for name, module in model.named_modules()}
    for n, size in ((60, (32, 32)), (1, (32, 32)), (2, (19, 32)), (5, (16, 16)), (60, (32, 19)), (1, (32, 32)), (60, (32, 32))):
        pictures = torch.randn(n, 3, *size, generator=generator) + torch.randn(n, 3, 1, 1, generator=generator)
        pictures = pictures + 4 * (torch.rand(n, 1, 1, 1, generator=generator) - 0.6)
        sent = pictures.clone()
        first = serve(sent)
        serve(pictures.flip(0) - 0.3)
        second = serve(sent)
        model.eval()
        with torch.no_grad():
            expected = model(pictures)
        for name, module in model.named_modules():
            module.training = modes[name]
        for found in (first, second):
            assert found.dtype == expected.dtype and found.shape == expected.shape
            assert not ((found - expected).abs().max() >= 1e-4 * expected.abs().max()) and not found.isnan().any()
        assert torch.equal(sent, pictures)
