# %% has-fallen
# misconception: a loss that has fallen shows that a pipeline works
# fails: test_own_test_rejects_wrong_pipelines, test_rejects_a_crawling_pipeline, test_rejects_a_pipeline_that_is_late, test_rejects_a_pipeline_that_learns_other_labels, test_rejects_a_pipeline_that_works_in_train_mode_only, test_rejects_a_pipeline_whose_loss_stays_high
# says: `check_pipeline` accepts an implementation that is wrong
def check_pipeline(make_pipeline):
    x, y = torch.rand(32, 64, generator=torch.Generator().manual_seed(0)), torch.arange(32) % 10
    model, step = make_pipeline()
    losses = [step(x, y) for _ in range(60)]
    assert losses[-1] < losses[0]


# %% loss-only
# misconception: a loss near zero shows that a model knows the labels
# fails: test_own_test_rejects_wrong_pipelines, test_rejects_a_pipeline_that_learns_other_labels, test_rejects_a_pipeline_that_works_in_train_mode_only
# says: `check_pipeline` accepts an implementation that is wrong
def check_pipeline(make_pipeline):
    x, y = torch.rand(32, 64, generator=torch.Generator().manual_seed(0)), torch.arange(32) % 10
    model, step = make_pipeline()
    for _ in range(60):
        loss = step(x, y)
    assert loss < 0.1


# %% predictions-only
# misconception: a model that gets every picture right has been trained on a right loss
# fails: test_own_test_rejects_wrong_pipelines, test_rejects_a_pipeline_that_is_late, test_rejects_a_pipeline_whose_loss_stays_high
# says: Your test rejects pipelines that learn nothing, too little, too late or other labels
def check_pipeline(make_pipeline):
    x, y = torch.rand(32, 64, generator=torch.Generator().manual_seed(0)), torch.arange(32) % 10
    model, step = make_pipeline()
    for _ in range(60):
        step(x, y)
    model.eval()
    assert torch.equal(model(x).argmax(1), y)


# %% predictions-in-train-mode
# misconception: the mode only matters for new pictures
# fails: test_own_test_rejects_wrong_pipelines, test_rejects_a_pipeline_that_works_in_train_mode_only
# says: `check_pipeline` accepts an implementation that is wrong
def check_pipeline(make_pipeline):
    x, y = torch.rand(32, 64, generator=torch.Generator().manual_seed(0)), torch.arange(32) % 10
    model, step = make_pipeline()
    for _ in range(60):
        loss = step(x, y)
    assert loss < 0.1
    model.train()
    assert (model(x).argmax(1) == y).float().mean() > 0.7


# %% half-of-the-pictures
# misconception: most of the pictures right is right enough
# fails: test_own_test_rejects_wrong_pipelines
# says: Your test rejects pipelines that learn nothing, too little, too late or other labels
def check_pipeline(make_pipeline):
    x, y = torch.rand(32, 64, generator=torch.Generator().manual_seed(0)), torch.arange(32) % 10
    model, step = make_pipeline()
    for _ in range(60):
        loss = step(x, y)
    assert loss < 0.1
    model.eval()
    assert (model(x).argmax(1) == y).float().mean() > 0.5


# %% one-label
# misconception: for learning by heart, any labels will do
# fails: test_own_test_rejects_wrong_pipelines, test_rejects_a_pipeline_that_is_late, test_rejects_a_pipeline_that_works_in_train_mode_only
# says: `check_pipeline` accepts an implementation that is wrong
def check_pipeline(make_pipeline):
    x, y = torch.rand(32, 64, generator=torch.Generator().manual_seed(0)), torch.zeros(32, dtype=torch.long)
    model, step = make_pipeline()
    for _ in range(60):
        loss = step(x, y)
    assert loss < 0.1
    model.eval()
    assert torch.equal(model(x).argmax(1), y)


# %% parameters-have-moved
# misconception: parameters that move are parameters that learn
# fails: test_own_test_rejects_wrong_pipelines, test_rejects_a_crawling_pipeline, test_rejects_a_pipeline_that_is_late, test_rejects_a_pipeline_that_learns_other_labels, test_rejects_a_pipeline_that_works_in_train_mode_only, test_rejects_a_pipeline_whose_loss_stays_high
# says: `check_pipeline` accepts an implementation that is wrong
def check_pipeline(make_pipeline):
    x, y = torch.rand(32, 64, generator=torch.Generator().manual_seed(0)), torch.arange(32) % 10
    model, step = make_pipeline()
    before = [p.detach().clone() for p in model.parameters()]
    for _ in range(5):
        step(x, y)
    assert all(not torch.equal(p, was) for p, was in zip(model.parameters(), before))


# %% a-few-steps
# misconception: a right pipeline needs a handful of steps
# fails: test_accepts_a_plain_pipeline, test_own_test_accepts_right_pipelines
# says: `check_pipeline` should accept this implementation, but it raised AssertionError
def check_pipeline(make_pipeline):
    x, y = torch.rand(32, 64, generator=torch.Generator().manual_seed(0)), torch.arange(32) % 10
    model, step = make_pipeline()
    for _ in range(6):
        loss = step(x, y)
    assert loss < 0.1
    model.eval()
    assert torch.equal(model(x).argmax(1), y)


# %% a-loss-of-zero
# misconception: what is known by heart has a loss of zero
# fails: test_own_test_accepts_right_pipelines
# says: Your test accepts pipelines that learn a batch by heart, whatever they are made of
def check_pipeline(make_pipeline):
    x, y = torch.rand(32, 64, generator=torch.Generator().manual_seed(0)), torch.arange(32) % 10
    model, step = make_pipeline()
    for _ in range(60):
        loss = step(x, y)
    assert loss < 1e-4
    model.eval()
    assert torch.equal(model(x).argmax(1), y)


# %% another-batch-each-step
# misconception: a right pipeline learns from any batches
# fails: test_accepts_a_plain_pipeline, test_own_test_accepts_right_pipelines
# says: `check_pipeline` should accept this implementation, but it raised AssertionError
def check_pipeline(make_pipeline):
    generator = torch.Generator().manual_seed(0)
    model, step = make_pipeline()
    for _ in range(60):
        x, y = torch.rand(32, 64, generator=generator), torch.arange(32) % 10
        loss = step(x, y)
    assert loss < 0.1
    model.eval()
    assert torch.equal(model(x).argmax(1), y)


# %% a-single-picture
# misconception: one picture is the smallest batch, and so the quickest test
# fails: test_own_test_accepts_right_pipelines, test_own_test_rejects_wrong_pipelines, test_rejects_a_pipeline_that_is_late, test_rejects_a_pipeline_that_works_in_train_mode_only
# says: `check_pipeline` accepts an implementation that is wrong
def check_pipeline(make_pipeline):
    x, y = torch.rand(1, 64, generator=torch.Generator().manual_seed(0)), torch.tensor([3])
    model, step = make_pipeline()
    for _ in range(60):
        loss = step(x, y)
    assert loss < 0.1
    model.eval()
    assert torch.equal(model(x).argmax(1), y)


# %% answer-returned
# misconception: a test says what it found by returning True or False
# fails: test_own_test_rejects_wrong_pipelines, test_rejects_a_crawling_pipeline, test_rejects_a_pipeline_that_is_late, test_rejects_a_pipeline_that_learns_other_labels, test_rejects_a_pipeline_that_works_in_train_mode_only, test_rejects_a_pipeline_whose_loss_stays_high
# says: `check_pipeline` accepts an implementation that is wrong
def check_pipeline(make_pipeline):
    x, y = torch.rand(32, 64, generator=torch.Generator().manual_seed(0)), torch.arange(32) % 10
    model, step = make_pipeline()
    for _ in range(60):
        loss = step(x, y)
    model.eval()
    return loss < 0.1 and torch.equal(model(x).argmax(1), y)


# %% exceptions-swallowed
# misconception: a test should not stop the run
# fails: test_own_test_rejects_wrong_pipelines, test_rejects_a_crawling_pipeline, test_rejects_a_pipeline_that_is_late, test_rejects_a_pipeline_that_learns_other_labels, test_rejects_a_pipeline_that_works_in_train_mode_only, test_rejects_a_pipeline_whose_loss_stays_high
# says: `check_pipeline` accepts an implementation that is wrong
def check_pipeline(make_pipeline):
    x, y = torch.rand(32, 64, generator=torch.Generator().manual_seed(0)), torch.arange(32) % 10
    try:
        model, step = make_pipeline()
        for _ in range(60):
            loss = step(x, y)
        assert loss < 0.1
        model.eval()
        assert torch.equal(model(x).argmax(1), y)
    except Exception as error:
        print("wrong:", error)


# %% rejects-everything
# misconception: the loss is a tensor
# fails: test_accepts_a_plain_pipeline, test_own_test_accepts_right_pipelines
# says: `check_pipeline` should accept this implementation, but it raised AttributeError
def check_pipeline(make_pipeline):
    x, y = torch.rand(32, 64, generator=torch.Generator().manual_seed(0)), torch.arange(32) % 10
    model, step = make_pipeline()
    for _ in range(60):
        loss = step(x, y)
    assert loss.item() < 0.1
    model.eval()
    assert torch.equal(model(x).argmax(1), y)


# %% the-lowest-loss
# misconception: it is enough to have been there once, and near the end is as good as the end
# fails: test_own_test_rejects_wrong_pipelines, test_rejects_a_pipeline_that_is_late, test_rejects_a_pipeline_whose_loss_stays_high
# says: Your test rejects pipelines that learn nothing, too little, too late or other labels
def check_pipeline(make_pipeline):
    x, y = torch.rand(32, 64, generator=torch.Generator().manual_seed(0)), torch.arange(32) % 10
    model, step = make_pipeline()
    losses = [step(x, y) for _ in range(60)]
    assert min(losses) < 1.6
    model.eval()
    assert torch.equal(model(x).argmax(1), y)


# %% near-zero-once
# misconception: a loss that was near zero stays there
# fails: test_own_test_rejects_wrong_pipelines
# says: Your test rejects pipelines that learn nothing, too little, too late or other labels
def check_pipeline(make_pipeline):
    x, y = torch.rand(32, 64, generator=torch.Generator().manual_seed(0)), torch.arange(32) % 10
    model, step = make_pipeline()
    losses = [step(x, y) for _ in range(60)]
    assert min(losses) < 0.1
    model.eval()
    assert torch.equal(model(x).argmax(1), y)


# %% nine-of-ten
# misconception: by heart is nine of ten
# fails: test_own_test_rejects_wrong_pipelines
# says: Your test rejects pipelines that learn nothing, too little, too late or other labels
def check_pipeline(make_pipeline):
    x, y = torch.rand(32, 64, generator=torch.Generator().manual_seed(0)), torch.arange(32) % 10
    model, step = make_pipeline()
    for _ in range(60):
        loss = step(x, y)
    assert loss < 0.1
    model.eval()
    assert (model(x).argmax(1) == y).float().mean() > 0.9


# %% two-hundred-steps
# misconception: more steps make a stricter test
# fails: test_own_test_rejects_wrong_pipelines, test_rejects_a_pipeline_that_is_late
# says: `check_pipeline` accepts an implementation that is wrong
def check_pipeline(make_pipeline):
    x, y = torch.rand(32, 64, generator=torch.Generator().manual_seed(0)), torch.arange(32) % 10
    model, step = make_pipeline()
    for _ in range(200):
        loss = step(x, y)
    assert loss < 0.1
    model.eval()
    assert torch.equal(model(x).argmax(1), y)
