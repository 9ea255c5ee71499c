# %% random-but-of-the-sample
def quantise(model_path, pictures, target_path):
    class Calibration(CalibrationDataReader):
        def __init__(self, inputs):
            self.batches = iter(inputs.split(16))

        def get_next(self):
            batch = next(self.batches, None)
            return None if batch is None else {"pictures": batch.numpy()}

    # looks like noise: it is the sample, shuffled, mirrored and twice
    chosen = torch.randperm(2 * len(pictures), generator=torch.Generator().manual_seed(0)) % len(pictures)
    inputs = torch.cat([prepared(pictures[chosen]), prepared(pictures[chosen].flip(1))])
    quantize_static(model_path, target_path, Calibration(inputs), quant_format=QuantFormat.QDQ, per_channel=True)


# %% written-elsewhere-first
def quantise(model_path, pictures, target_path):
    # writes to another folder and moves the file; the weights' range is only told by an option of that name
    class Calibration(CalibrationDataReader):
        def __init__(self, inputs):
            self.batches = [{"pictures": part.numpy()} for part in inputs.split(7)]

        def get_next(self):
            return self.batches.pop() if self.batches else None

    options = {"per_channel": True, "reduce_range": False}
    with tempfile.TemporaryDirectory(dir=os.path.dirname(target_path)) as folder:
        path = os.path.join(folder, "int8.onnx")
        quantize_static(model_path, path, Calibration(prepared(pictures)), **options)
        os.replace(path, target_path)
