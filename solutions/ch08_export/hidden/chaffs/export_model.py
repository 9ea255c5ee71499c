# %% eval-for-good
# misconception: eval() before the export, and that is that
# fails: test_exporting_changes_nothing, test_the_model_stays_as_it_was
# says: the mode of a module
def export_model(model, folder):
    network = model.eval()
    d = torch.export.Dim.DYNAMIC
    sizes = ({0: d, 2: d, 3: d},)
    program = torch.export.export(network, (torch.zeros(2, 3, 32, 40),), dynamic_shapes=sizes)
    torch.export.save(program, os.path.join(folder, "model.pt2"))
    names = {"input_names": ["pictures"], "output_names": ["logits"]}
    torch.onnx.export(program, (), os.path.join(folder, "model.onnx"), external_data=False, verbose=False, **names)


# %% train-afterwards
# misconception: after eval() comes train()
# fails: test_exporting_changes_nothing, test_the_model_stays_as_it_was
# says: the mode of a module
def export_model(model, folder):
    network = model.eval()
    d = torch.export.Dim.DYNAMIC
    sizes = ({0: d, 2: d, 3: d},)
    program = torch.export.export(network, (torch.zeros(2, 3, 32, 40),), dynamic_shapes=sizes)
    torch.export.save(program, os.path.join(folder, "model.pt2"))
    names = {"input_names": ["pictures"], "output_names": ["logits"]}
    torch.onnx.export(program, (), os.path.join(folder, "model.onnx"), external_data=False, verbose=False, **names)
    model.train()


# %% open-batch-only
# misconception: only the number of pictures changes
# fails: test_any_number_and_size_of_pictures, test_one_picture_and_other_sizes, test_one_picture_is_answered_quickly
# says: no answer
def export_model(model, folder):
    network = copy.deepcopy(model).eval()
    d = torch.export.Dim.DYNAMIC
    sizes = ({0: d},)
    program = torch.export.export(network, (torch.zeros(2, 3, 32, 40),), dynamic_shapes=sizes)
    torch.export.save(program, os.path.join(folder, "model.pt2"))
    names = {"input_names": ["pictures"], "output_names": ["logits"]}
    torch.onnx.export(program, (), os.path.join(folder, "model.onnx"), external_data=False, verbose=False, **names)


# %% open-sizes-only
# misconception: one fixed batch will do
# fails: test_any_number_and_size_of_pictures, test_one_picture_and_other_sizes, test_one_picture_is_answered_quickly
# says: no answer
def export_model(model, folder):
    network = copy.deepcopy(model).eval()
    d = torch.export.Dim.DYNAMIC
    sizes = ({2: d, 3: d},)
    program = torch.export.export(network, (torch.zeros(2, 3, 32, 40),), dynamic_shapes=sizes)
    torch.export.save(program, os.path.join(folder, "model.pt2"))
    names = {"input_names": ["pictures"], "output_names": ["logits"]}
    torch.onnx.export(program, (), os.path.join(folder, "model.onnx"), external_data=False, verbose=False, **names)


# %% an-example-of-one
# misconception: an example may hold one picture, if its size is AUTO
# fails: test_a_hundred_pictures, test_any_number_and_size_of_pictures, test_each_file_is_complete, test_one_picture_and_other_sizes, test_two_pictures_of_one_colour
# says: no answer
def export_model(model, folder):
    network = copy.deepcopy(model).eval()
    d = torch.export.Dim.AUTO
    sizes = ({0: d, 2: d, 3: d},)
    program = torch.export.export(network, (torch.zeros(1, 3, 32, 40),), dynamic_shapes=sizes)
    torch.export.save(program, os.path.join(folder, "model.pt2"))
    names = {"input_names": ["pictures"], "output_names": ["logits"]}
    torch.onnx.export(program, (), os.path.join(folder, "model.onnx"), external_data=False, verbose=False, **names)


# %% squares
# misconception: height and width go by one name
# fails: test_a_hundred_pictures, test_any_number_and_size_of_pictures, test_each_file_is_complete, test_one_picture_and_other_sizes, test_two_pictures_of_one_colour
# says: no answer
def export_model(model, folder):
    network = copy.deepcopy(model).eval()
    d = torch.export.Dim.DYNAMIC
    side = torch.export.Dim("side", min=16)
    sizes = ({0: d, 2: side, 3: side},)
    program = torch.export.export(network, (torch.zeros(2, 3, 32, 32),), dynamic_shapes=sizes)
    torch.export.save(program, os.path.join(folder, "model.pt2"))
    names = {"input_names": ["pictures"], "output_names": ["logits"]}
    torch.onnx.export(program, (), os.path.join(folder, "model.onnx"), external_data=False, verbose=False, **names)


# %% tidied-up
# misconception: the .data beside the .onnx is a leftover
# fails: test_a_hundred_pictures, test_any_number_and_size_of_pictures, test_each_file_is_complete, test_each_file_opens_alone, test_one_picture_and_other_sizes, test_one_picture_is_answered_quickly, test_two_pictures_of_one_colour
# says: does not open
def export_model(model, folder):
    network = copy.deepcopy(model).eval()
    d = torch.export.Dim.DYNAMIC
    sizes = ({0: d, 2: d, 3: d},)
    program = torch.export.export(network, (torch.zeros(2, 3, 32, 40),), dynamic_shapes=sizes)
    torch.export.save(program, os.path.join(folder, "model.pt2"))
    names = {"input_names": ["pictures"], "output_names": ["logits"]}
    torch.onnx.export(program, (), os.path.join(folder, "model.onnx"), verbose=False, **names)
    for name in os.listdir(folder):
        if name.endswith(".data"):
            os.remove(os.path.join(folder, name))


# %% dropout-off-by-hand
# misconception: only dropout behaves otherwise in train mode
# fails: test_a_hundred_pictures, test_any_number_and_size_of_pictures, test_one_picture_and_other_sizes, test_two_pictures_of_one_colour
# says: differ
def export_model(model, folder):
    network = copy.deepcopy(model).train()
    for module in network.modules():
        if isinstance(module, nn.Dropout):
            module.p = 0.0
    d = torch.export.Dim.DYNAMIC
    sizes = ({0: d, 2: d, 3: d},)
    program = torch.export.export(network, (torch.zeros(2, 3, 32, 40),), dynamic_shapes=sizes)
    torch.export.save(program, os.path.join(folder, "model.pt2"))
    names = {"input_names": ["pictures"], "output_names": ["logits"]}
    torch.onnx.export(program, (), os.path.join(folder, "model.onnx"), external_data=False, verbose=False, **names)


# %% norm-off-by-hand
# misconception: only BatchNorm behaves otherwise in train mode
# fails: test_a_hundred_pictures, test_any_number_and_size_of_pictures, test_one_picture_and_other_sizes, test_two_pictures_of_one_colour
# says: model.pt2
def export_model(model, folder):
    network = copy.deepcopy(model).train()
    for module in network.modules():
        if isinstance(module, nn.BatchNorm2d):
            module.eval()
    d = torch.export.Dim.DYNAMIC
    sizes = ({0: d, 2: d, 3: d},)
    program = torch.export.export(network, (torch.zeros(2, 3, 32, 40),), dynamic_shapes=sizes)
    torch.export.save(program, os.path.join(folder, "model.pt2"))
    names = {"input_names": ["pictures"], "output_names": ["logits"]}
    torch.onnx.export(program, (), os.path.join(folder, "model.onnx"), external_data=False, verbose=False, **names)


# %% the-module-itself
# misconception: a .pt2 is what torch.save writes
# fails: test_a_hundred_pictures, test_any_number_and_size_of_pictures, test_each_file_is_complete, test_each_file_opens_alone, test_one_picture_and_other_sizes, test_two_pictures_of_one_colour
# says: does not open
def export_model(model, folder):
    network = copy.deepcopy(model).eval()
    d = torch.export.Dim.DYNAMIC
    sizes = ({0: d, 2: d, 3: d},)
    program = torch.export.export(network, (torch.zeros(2, 3, 32, 40),), dynamic_shapes=sizes)
    torch.save(network.state_dict(), os.path.join(folder, "model.pt2"))
    names = {"input_names": ["pictures"], "output_names": ["logits"]}
    torch.onnx.export(program, (), os.path.join(folder, "model.onnx"), external_data=False, verbose=False, **names)


# %% names-as-they-come
# misconception: names do not matter
# fails: test_a_hundred_pictures, test_any_number_and_size_of_pictures, test_each_file_is_complete, test_one_picture_and_other_sizes, test_one_picture_is_answered_quickly, test_two_pictures_of_one_colour
# says: no answer
def export_model(model, folder):
    network = copy.deepcopy(model).eval()
    d = torch.export.Dim.DYNAMIC
    sizes = ({0: d, 2: d, 3: d},)
    program = torch.export.export(network, (torch.zeros(2, 3, 32, 40),), dynamic_shapes=sizes)
    torch.export.save(program, os.path.join(folder, "model.pt2"))
    names = {"input_names": ["pictures"], "output_names": ["logits"]}
    torch.onnx.export(program, (), os.path.join(folder, "model.onnx"), external_data=False, verbose=False)


# %% filled-up-to-a-full-batch
# misconception: an engine is quickest with many pictures
# fails: test_one_picture_is_answered_quickly
# says: times as fast
def export_model(model, folder):
    class Filled(nn.Module):
        def __init__(self):
            super().__init__()
            self.network = copy.deepcopy(model)

        def forward(self, pictures):
            more = pictures.new_zeros(63, 3, pictures.shape[2], pictures.shape[3])
            return self.network(torch.cat([pictures, more]))[: pictures.shape[0]]

    network = Filled().eval()
    d = torch.export.Dim.DYNAMIC
    sizes = ({0: d, 2: d, 3: d},)
    program = torch.export.export(network, (torch.zeros(2, 3, 32, 40),), dynamic_shapes=sizes)
    torch.export.save(program, os.path.join(folder, "model.pt2"))
    names = {"input_names": ["pictures"], "output_names": ["logits"]}
    torch.onnx.export(program, (), os.path.join(folder, "model.onnx"), external_data=False, verbose=False, **names)


# %% seeded
# misconception: a seed makes an export repeatable
# fails: test_exporting_changes_nothing, test_the_model_stays_as_it_was
# says: random numbers
def export_model(model, folder):
    torch.manual_seed(0)
    network = copy.deepcopy(model).eval()
    d = torch.export.Dim.DYNAMIC
    sizes = ({0: d, 2: d, 3: d},)
    program = torch.export.export(network, (torch.zeros(2, 3, 32, 40),), dynamic_shapes=sizes)
    torch.export.save(program, os.path.join(folder, "model.pt2"))
    names = {"input_names": ["pictures"], "output_names": ["logits"]}
    torch.onnx.export(program, (), os.path.join(folder, "model.onnx"), external_data=False, verbose=False, **names)


# %% gradients-cleared
# misconception: an exporter begins with a clean model
# fails: test_the_model_stays_as_it_was
# says: gradients
def export_model(model, folder):
    model.zero_grad()
    network = copy.deepcopy(model).eval()
    d = torch.export.Dim.DYNAMIC
    sizes = ({0: d, 2: d, 3: d},)
    program = torch.export.export(network, (torch.zeros(2, 3, 32, 40),), dynamic_shapes=sizes)
    torch.export.save(program, os.path.join(folder, "model.pt2"))
    names = {"input_names": ["pictures"], "output_names": ["logits"]}
    torch.onnx.export(program, (), os.path.join(folder, "model.onnx"), external_data=False, verbose=False, **names)


# %% frozen
# misconception: what is exported is not trained any more
# fails: test_the_model_stays_as_it_was
# says: requires_grad
def export_model(model, folder):
    network = copy.deepcopy(model.requires_grad_(False)).eval()
    d = torch.export.Dim.DYNAMIC
    sizes = ({0: d, 2: d, 3: d},)
    program = torch.export.export(network, (torch.zeros(2, 3, 32, 40),), dynamic_shapes=sizes)
    torch.export.save(program, os.path.join(folder, "model.pt2"))
    names = {"input_names": ["pictures"], "output_names": ["logits"]}
    torch.onnx.export(program, (), os.path.join(folder, "model.onnx"), external_data=False, verbose=False, **names)


# %% seeded-as-before
# misconception: with the seed that it had, the generator is where it was
# fails: test_exporting_changes_nothing, test_the_model_stays_as_it_was
# says: random numbers
def export_model(model, folder):
    seed = torch.initial_seed()
    network = copy.deepcopy(model).eval()
    d = torch.export.Dim.DYNAMIC
    sizes = ({0: d, 2: d, 3: d},)
    program = torch.export.export(network, (torch.randn(2, 3, 32, 40),), dynamic_shapes=sizes)
    torch.export.save(program, os.path.join(folder, "model.pt2"))
    names = {"input_names": ["pictures"], "output_names": ["logits"]}
    torch.onnx.export(program, (), os.path.join(folder, "model.onnx"), external_data=False, verbose=False, **names)
    torch.manual_seed(seed)
