# %% the-same-name-for-the-copy
def export_model(model, folder):
    # eval(), frozen and without gradients, but all of it on a copy
    model = copy.deepcopy(model)
    model.zero_grad()
    model.requires_grad_(False).eval()
    d = torch.export.Dim.DYNAMIC
    program = torch.export.export(model, (torch.zeros(2, 3, 16, 17),), dynamic_shapes=({0: d, 2: d, 3: d},))
    torch.export.save(program, os.path.join(folder, "model.pt2"))
    names = {"input_names": ["pictures"], "output_names": ["logits"]}
    torch.onnx.export(program, (), os.path.join(folder, "model.onnx"), external_data=False, verbose=False, **names)


# %% a-random-example-and-the-state-set-back
def export_model(model, folder):
    state = torch.get_rng_state()
    torch.manual_seed(0)
    example = torch.randn(7, 3, 32, 32)  # a square, but the sizes are named one by one
    torch.set_rng_state(state)
    d = torch.export.Dim.DYNAMIC
    network = copy.deepcopy(model).eval()
    program = torch.export.export(network, (example,), dynamic_shapes=({0: d, 2: d, 3: d},))
    torch.export.save(program, os.path.join(folder, "model.pt2"))
    names = {"input_names": ["pictures"], "output_names": ["logits"]}
    torch.onnx.export(program, (), os.path.join(folder, "model.onnx"), external_data=False, verbose=False, **names)
