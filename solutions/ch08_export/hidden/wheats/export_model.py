# %% modes-set-back
def export_model(model, folder):
    modes = [(module, module.training) for module in model.modules()]
    model.eval()
    try:
        sizes = {"dynamic_shapes": ({0: torch.export.Dim.DYNAMIC, 2: torch.export.Dim.DYNAMIC, 3: torch.export.Dim.DYNAMIC},)}
        program = torch.export.export(model, (torch.ones(3, 3, 24, 36),), **sizes)
    finally:
        for module, training in modes:
            module.training = training
    torch.export.save(program, f"{folder}/model.pt2")
    names = {"input_names": ["pictures"], "output_names": ["logits"]}
    torch.onnx.export(program, (), f"{folder}/model.onnx", external_data=False, verbose=False, **names)


# %% named-sizes-and-two-exports
def export_model(model, folder):
    network = copy.deepcopy(model).eval()
    n, h, w = torch.export.Dim("n"), torch.export.Dim("h", min=16), torch.export.Dim("w", min=16)
    example, sizes = torch.zeros(4, 3, 20, 50), ({0: n, 2: h, 3: w},)
    torch.export.save(torch.export.export(network, (example,), dynamic_shapes=sizes), os.path.join(folder, "model.pt2"))
    torch.onnx.export(
        network,
        (example,),
        os.path.join(folder, "model.onnx"),
        dynamic_shapes=sizes,
        input_names=["pictures"],
        output_names=["logits"],
        external_data=False,
        dynamo=True,
        verbose=False,
    )


# %% saved-by-the-program-itself
def export_model(model, folder):
    network = copy.deepcopy(model)
    network.train(False)
    with torch.random.fork_rng(devices=[]), torch.no_grad():
        example = torch.randn(2, 3, 16, 48)
        auto = torch.export.Dim.AUTO
        program = torch.export.export(network, (example,), dynamic_shapes=({0: auto, 2: auto, 3: auto},))
    with open(os.path.join(folder, "model.pt2"), "wb") as file:
        torch.export.save(program, file)
    made = torch.onnx.export(program, input_names=["pictures"], output_names=["logits"], verbose=False)
    made.save(os.path.join(folder, "model.onnx"), external_data=False)


# %% two-files-made-one
def export_model(model, folder):
    import onnx

    class Served(nn.Module):
        def __init__(self):
            super().__init__()
            self.network = copy.deepcopy(model)
            self.eval()

        def forward(self, pictures):
            return self.network(pictures)

    sizes = {"pictures": {i: torch.export.Dim.DYNAMIC for i in (0, 2, 3)}}
    program = torch.export.export(Served(), (torch.zeros(2, 3, 40, 32),), dynamic_shapes=sizes)
    torch.export.save(program, os.path.join(folder, "model.pt2"))
    with tempfile.TemporaryDirectory() as aside:
        path = os.path.join(aside, "model.onnx")
        torch.onnx.export(program, (), path, input_names=["pictures"], output_names=["logits"], verbose=False)
        whole = onnx.load(path)
    onnx.save(whole, os.path.join(folder, "model.onnx"))
