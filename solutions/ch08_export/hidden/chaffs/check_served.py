# %% in-whatever-mode
# misconception: the model is in eval mode already
# fails: test_accepts_the_model_itself, test_own_test_accepts_right_servers, test_own_test_leaves_the_model, test_rejects_train_mode
# says: accepts served models that are right
def check_served(serve, model):
    network = model
    generator = torch.Generator().manual_seed(1)
    for height, width in ((32, 32), (17, 40)):
        for n in (1, 2, 5, 64, 3, 64, 1, 2):
            shade = torch.empty(n, 1, 1, 1).uniform_(-3.0, 3.0, generator=generator)
            colours = torch.randn(n, 3, 1, 1, generator=generator)
            pictures = shade + colours + 0.5 * torch.randn(n, 3, height, width, generator=generator)
            for _ in range(2):
                sent = pictures.clone()
                found = serve(sent)
                with torch.no_grad():
                    expected = network(pictures)
                assert found.dtype == torch.float32 and found.shape == expected.shape
                assert (found - expected).abs().max() < 1e-4 * expected.abs().max()
                assert torch.equal(sent, pictures)


# %% to-the-last-bit
# misconception: the same model gives the same bits
# fails: test_own_test_accepts_right_servers
# says: accepts served models that are right
def check_served(serve, model):
    network = copy.deepcopy(model).eval()
    generator = torch.Generator().manual_seed(1)
    for height, width in ((32, 32), (17, 40)):
        for n in (1, 2, 5, 64, 3, 64, 1, 2):
            shade = torch.empty(n, 1, 1, 1).uniform_(-3.0, 3.0, generator=generator)
            colours = torch.randn(n, 3, 1, 1, generator=generator)
            pictures = shade + colours + 0.5 * torch.randn(n, 3, height, width, generator=generator)
            for _ in range(2):
                sent = pictures.clone()
                found = serve(sent)
                with torch.no_grad():
                    expected = network(pictures)
                assert found.dtype == torch.float32 and found.shape == expected.shape
                assert torch.equal(found, expected)
                assert torch.equal(sent, pictures)


# %% bright-ones-only
# misconception: pictures of noise will do
# fails: test_own_test_rejects_wrong_servers, test_rejects_one_branch
# says: one branch only
def check_served(serve, model):
    network = copy.deepcopy(model).eval()
    generator = torch.Generator().manual_seed(1)
    for height, width in ((32, 32), (17, 40)):
        for n in (1, 2, 5, 64, 3, 64, 1, 2):
            shade = torch.empty(n, 1, 1, 1).uniform_(1.8, 3.0, generator=generator)
            colours = torch.randn(n, 3, 1, 1, generator=generator)
            pictures = shade + 0.2 * colours + 0.5 * torch.randn(n, 3, height, width, generator=generator)
            for _ in range(2):
                sent = pictures.clone()
                found = serve(sent)
                with torch.no_grad():
                    expected = network(pictures)
                assert found.dtype == torch.float32 and found.shape == expected.shape
                assert (found - expected).abs().max() < 1e-4 * expected.abs().max()
                assert torch.equal(sent, pictures)


# %% one-size
# misconception: one size of picture will do
# fails: test_own_test_rejects_wrong_servers, test_rejects_what_knows_squares_only
# says: rejects served models that are wrong
def check_served(serve, model):
    network = copy.deepcopy(model).eval()
    generator = torch.Generator().manual_seed(1)
    for height, width in ((32, 32),):
        for n in (1, 2, 5, 64, 3, 64, 1, 2):
            shade = torch.empty(n, 1, 1, 1).uniform_(-3.0, 3.0, generator=generator)
            colours = torch.randn(n, 3, 1, 1, generator=generator)
            pictures = shade + colours + 0.5 * torch.randn(n, 3, height, width, generator=generator)
            for _ in range(2):
                sent = pictures.clone()
                found = serve(sent)
                with torch.no_grad():
                    expected = network(pictures)
                assert found.dtype == torch.float32 and found.shape == expected.shape
                assert (found - expected).abs().max() < 1e-4 * expected.abs().max()
                assert torch.equal(sent, pictures)


# %% one-at-a-time
# misconception: a hundred pictures are best sent one by one
# fails: test_own_test_rejects_wrong_servers
# says: rejects served models that are wrong
def check_served(serve, model):
    network = copy.deepcopy(model).eval()
    generator = torch.Generator().manual_seed(1)
    for height, width in ((32, 32), (17, 40)):
        for n in [1] * 60:
            shade = torch.empty(n, 1, 1, 1).uniform_(-3.0, 3.0, generator=generator)
            colours = torch.randn(n, 3, 1, 1, generator=generator)
            pictures = shade + colours + 0.5 * torch.randn(n, 3, height, width, generator=generator)
            for _ in range(2):
                sent = pictures.clone()
                found = serve(sent)
                with torch.no_grad():
                    expected = network(pictures)
                assert found.dtype == torch.float32 and found.shape == expected.shape
                assert (found - expected).abs().max() < 1e-4 * expected.abs().max()
                assert torch.equal(sent, pictures)


# %% pairs-only
# misconception: batches such as the example's will do
# fails: test_own_test_rejects_wrong_servers
# says: rejects served models that are wrong
def check_served(serve, model):
    network = copy.deepcopy(model).eval()
    generator = torch.Generator().manual_seed(1)
    for height, width in ((32, 32), (17, 40)):
        for n in [2] * 60:
            shade = torch.empty(n, 1, 1, 1).uniform_(-3.0, 3.0, generator=generator)
            colours = torch.randn(n, 3, 1, 1, generator=generator)
            pictures = shade + colours + 0.5 * torch.randn(n, 3, height, width, generator=generator)
            for _ in range(2):
                sent = pictures.clone()
                found = serve(sent)
                with torch.no_grad():
                    expected = network(pictures)
                assert found.dtype == torch.float32 and found.shape == expected.shape
                assert (found - expected).abs().max() < 1e-4 * expected.abs().max()
                assert torch.equal(sent, pictures)


# %% never-the-same-twice
# misconception: asking twice is a waste
# fails: test_own_test_rejects_wrong_servers
# says: rejects served models that are wrong
def check_served(serve, model):
    network = copy.deepcopy(model).eval()
    generator = torch.Generator().manual_seed(1)
    for height, width in ((32, 32), (17, 40)):
        for n in (1, 2, 5, 64):
            shade = torch.empty(n, 1, 1, 1).uniform_(-3.0, 3.0, generator=generator)
            colours = torch.randn(n, 3, 1, 1, generator=generator)
            pictures = shade + colours + 0.5 * torch.randn(n, 3, height, width, generator=generator)
            for _ in range(1):
                sent = pictures.clone()
                found = serve(sent)
                with torch.no_grad():
                    expected = network(pictures)
                assert found.dtype == torch.float32 and found.shape == expected.shape
                assert (found - expected).abs().max() < 1e-4 * expected.abs().max()
                assert torch.equal(sent, pictures)


# %% eval-for-good
# misconception: eval() before comparing, and that is that
# fails: test_accepts_the_model_itself, test_own_test_leaves_the_model
# says: the mode
def check_served(serve, model):
    network = model.eval()
    generator = torch.Generator().manual_seed(1)
    for height, width in ((32, 32), (17, 40)):
        for n in (1, 2, 5, 64, 3, 64, 1, 2):
            shade = torch.empty(n, 1, 1, 1).uniform_(-3.0, 3.0, generator=generator)
            colours = torch.randn(n, 3, 1, 1, generator=generator)
            pictures = shade + colours + 0.5 * torch.randn(n, 3, height, width, generator=generator)
            for _ in range(2):
                sent = pictures.clone()
                found = serve(sent)
                with torch.no_grad():
                    expected = network(pictures)
                assert found.dtype == torch.float32 and found.shape == expected.shape
                assert (found - expected).abs().max() < 1e-4 * expected.abs().max()
                assert torch.equal(sent, pictures)


# %% one-per-cent
# misconception: one per cent is close enough
# fails: test_own_test_rejects_wrong_servers
# says: rejects served models that are wrong
def check_served(serve, model):
    network = copy.deepcopy(model).eval()
    generator = torch.Generator().manual_seed(1)
    for height, width in ((32, 32), (17, 40)):
        for n in (1, 2, 5, 64, 3, 64, 1, 2):
            shade = torch.empty(n, 1, 1, 1).uniform_(-3.0, 3.0, generator=generator)
            colours = torch.randn(n, 3, 1, 1, generator=generator)
            pictures = shade + colours + 0.5 * torch.randn(n, 3, height, width, generator=generator)
            for _ in range(2):
                sent = pictures.clone()
                found = serve(sent)
                with torch.no_grad():
                    expected = network(pictures)
                assert found.dtype == torch.float32 and found.shape == expected.shape
                assert (found - expected).abs().max() < 1e-2 * expected.abs().max()
                assert torch.equal(sent, pictures)


# %% nan-is-not-greater
# misconception: what is not greater is small enough
# fails: test_own_test_rejects_wrong_servers, test_rejects_what_knows_squares_only
# says: rejects served models that are wrong
def check_served(serve, model):
    network = copy.deepcopy(model).eval()
    generator = torch.Generator().manual_seed(1)
    for height, width in ((32, 32), (17, 40)):
        for n in (1, 2, 5, 64, 3, 64, 1, 2):
            shade = torch.empty(n, 1, 1, 1).uniform_(-3.0, 3.0, generator=generator)
            colours = torch.randn(n, 3, 1, 1, generator=generator)
            pictures = shade + colours + 0.5 * torch.randn(n, 3, height, width, generator=generator)
            for _ in range(2):
                sent = pictures.clone()
                found = serve(sent)
                with torch.no_grad():
                    expected = network(pictures)
                assert found.dtype == torch.float32 and found.shape == expected.shape
                assert not (found - expected).abs().max() > 1e-4 * expected.abs().max()
                assert torch.equal(sent, pictures)


# %% the-same-class
# misconception: the class is what matters
# fails: test_own_test_rejects_wrong_servers
# says: rejects served models that are wrong
def check_served(serve, model):
    network = copy.deepcopy(model).eval()
    generator = torch.Generator().manual_seed(1)
    for height, width in ((32, 32), (17, 40)):
        for n in (1, 2, 5, 64, 3, 64, 1, 2):
            shade = torch.empty(n, 1, 1, 1).uniform_(-3.0, 3.0, generator=generator)
            colours = torch.randn(n, 3, 1, 1, generator=generator)
            pictures = shade + colours + 0.5 * torch.randn(n, 3, height, width, generator=generator)
            for _ in range(2):
                sent = pictures.clone()
                found = serve(sent)
                with torch.no_grad():
                    expected = network(pictures)
                assert found.dtype == torch.float32 and found.shape == expected.shape
                assert torch.equal(found.argmax(dim=1), expected.argmax(dim=1))
                assert torch.equal(sent, pictures)


# %% five-pictures
# misconception: a handful of pictures will do
# fails: test_own_test_rejects_wrong_servers
# says: rejects served models that are wrong
def check_served(serve, model):
    network = copy.deepcopy(model).eval()
    generator = torch.Generator().manual_seed(1)
    for height, width in ((32, 32), (17, 40)):
        for n in (1, 2):
            shade = torch.empty(n, 1, 1, 1).uniform_(-3.0, 3.0, generator=generator)
            colours = torch.randn(n, 3, 1, 1, generator=generator)
            pictures = shade + colours + 0.5 * torch.randn(n, 3, height, width, generator=generator)
            for _ in range(1):
                sent = pictures.clone()
                found = serve(sent)
                with torch.no_grad():
                    expected = network(pictures)
                assert found.dtype == torch.float32 and found.shape == expected.shape
                assert (found - expected).abs().max() < 1e-4 * expected.abs().max()
                assert torch.equal(sent, pictures)


# %% any-precision
# misconception: logits are logits, whatever their dtype
# fails: test_own_test_rejects_wrong_servers
# says: rejects served models that are wrong
def check_served(serve, model):
    network = copy.deepcopy(model).eval()
    generator = torch.Generator().manual_seed(1)
    for height, width in ((32, 32), (17, 40)):
        for n in (1, 2, 5, 64, 3, 64, 1, 2):
            shade = torch.empty(n, 1, 1, 1).uniform_(-3.0, 3.0, generator=generator)
            colours = torch.randn(n, 3, 1, 1, generator=generator)
            pictures = shade + colours + 0.5 * torch.randn(n, 3, height, width, generator=generator)
            for _ in range(2):
                sent = pictures.clone()
                found = serve(sent)
                with torch.no_grad():
                    expected = network(pictures)
                assert found.shape == expected.shape
                assert (found - expected).abs().max() < 1e-4 * expected.abs().max()
                assert torch.equal(sent, pictures)


# %% what-it-does-to-its-input
# misconception: nobody writes to pictures that were sent
# fails: test_own_test_rejects_wrong_servers
# says: rejects served models that are wrong
def check_served(serve, model):
    network = copy.deepcopy(model).eval()
    generator = torch.Generator().manual_seed(1)
    for height, width in ((32, 32), (17, 40)):
        for n in (1, 2, 5, 64, 3, 64, 1, 2):
            shade = torch.empty(n, 1, 1, 1).uniform_(-3.0, 3.0, generator=generator)
            colours = torch.randn(n, 3, 1, 1, generator=generator)
            pictures = shade + colours + 0.5 * torch.randn(n, 3, height, width, generator=generator)
            for _ in range(2):
                sent = pictures.clone()
                found = serve(sent)
                with torch.no_grad():
                    expected = network(pictures)
                assert found.dtype == torch.float32 and found.shape == expected.shape
                assert (found - expected).abs().max() < 1e-4 * expected.abs().max()


# %% grey-ones-only
# misconception: brightness is all that differs
# fails: test_own_test_rejects_wrong_servers
# says: rejects served models that are wrong
def check_served(serve, model):
    network = copy.deepcopy(model).eval()
    generator = torch.Generator().manual_seed(1)
    for height, width in ((32, 32), (17, 40)):
        for n in (1, 2, 5, 64, 3, 64, 1, 2):
            shade = torch.empty(n, 1, 1, 1).uniform_(-3.0, 3.0, generator=generator)
            colours = torch.randn(n, 3, 1, 1, generator=generator)
            pictures = shade + 0.5 * torch.randn(n, 1, height, width, generator=generator).expand(n, 3, height, width)
            for _ in range(2):
                sent = pictures.clone()
                found = serve(sent)
                with torch.no_grad():
                    expected = network(pictures)
                assert found.dtype == torch.float32 and found.shape == expected.shape
                assert (found - expected).abs().max() < 1e-4 * expected.abs().max()
                assert torch.equal(sent, pictures)


# %% relative-to-each
# misconception: each logit has an error of its own
# fails: test_own_test_accepts_right_servers
# says: accepts served models that are right
def check_served(serve, model):
    network = copy.deepcopy(model).eval()
    generator = torch.Generator().manual_seed(1)
    for height, width in ((32, 32), (17, 40)):
        for n in (1, 2, 5, 64, 3, 64, 1, 2):
            shade = torch.empty(n, 1, 1, 1).uniform_(-3.0, 3.0, generator=generator)
            colours = torch.randn(n, 3, 1, 1, generator=generator)
            pictures = shade + colours + 0.5 * torch.randn(n, 3, height, width, generator=generator)
            for _ in range(2):
                sent = pictures.clone()
                found = serve(sent)
                with torch.no_grad():
                    expected = network(pictures)
                assert found.dtype == torch.float32 and found.shape == expected.shape
                assert ((found - expected).abs() / expected.abs()).max() < 2e-6
                assert torch.equal(sent, pictures)


# %% dark-ones-only
# misconception: the branch that was forgotten before is the one to look at
# fails: test_own_test_rejects_wrong_servers
# says: rejects served models that are wrong
def check_served(serve, model):
    network = copy.deepcopy(model).eval()
    generator = torch.Generator().manual_seed(1)
    for height, width in ((32, 32), (17, 40)):
        for n in (1, 2, 5, 64, 3, 64, 1, 2):
            shade = torch.empty(n, 1, 1, 1).uniform_(-4.0, -3.0, generator=generator)
            colours = torch.randn(n, 3, 1, 1, generator=generator)
            pictures = shade + 0.2 * colours + 0.5 * torch.randn(n, 3, height, width, generator=generator)
            for _ in range(2):
                sent = pictures.clone()
                found = serve(sent)
                with torch.no_grad():
                    expected = network(pictures)
                assert found.dtype == torch.float32 and found.shape == expected.shape
                assert (found - expected).abs().max() < 1e-4 * expected.abs().max()
                assert torch.equal(sent, pictures)


# %% looks-like-logits
# misconception: finite numbers of the right shape are right
# fails: test_own_test_rejects_wrong_servers, test_rejects_one_branch, test_rejects_train_mode
# says: one branch only
def check_served(serve, model):
    network = copy.deepcopy(model).eval()
    generator = torch.Generator().manual_seed(1)
    for height, width in ((32, 32), (17, 40)):
        for n in (1, 2, 5, 64, 3, 64, 1, 2):
            shade = torch.empty(n, 1, 1, 1).uniform_(-3.0, 3.0, generator=generator)
            colours = torch.randn(n, 3, 1, 1, generator=generator)
            pictures = shade + colours + 0.5 * torch.randn(n, 3, height, width, generator=generator)
            for _ in range(2):
                sent = pictures.clone()
                found = serve(sent)
                with torch.no_grad():
                    expected = network(pictures)
                assert found.dtype == torch.float32 and found.shape == expected.shape
                assert found.isfinite().all()
                assert torch.equal(sent, pictures)
