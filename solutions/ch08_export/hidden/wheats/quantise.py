# %% unsigned-activations
def quantise(model_path, pictures, target_path):
    class Calibration(CalibrationDataReader):
        def __init__(self, inputs):
            self.batches = iter(inputs.split(16))

        def get_next(self):
            batch = next(self.batches, None)
            return None if batch is None else {"pictures": batch.numpy()}

    inputs = prepared(pictures)
    quantize_static(model_path, target_path, Calibration(inputs), quant_format=QuantFormat.QDQ, per_channel=True, activation_type=QuantType.QUInt8, weight_type=QuantType.QInt8)


# %% one-picture-at-a-time
def quantise(model_path, pictures, target_path):
    class OneByOne(CalibrationDataReader):
        def __init__(self):
            self.position = -1

        def get_next(self):
            self.position += 1
            if self.position >= len(pictures):
                return None
            return {"pictures": prepared(pictures[self.position : self.position + 1]).numpy()}

        def __len__(self):
            return len(pictures)

    quantize_static(model_path, target_path, OneByOne(), per_channel=True)


# %% operators-of-the-engine
def quantise(model_path, pictures, target_path):
    class Calibration(CalibrationDataReader):
        def __init__(self, inputs):
            self.batches = iter(inputs.split(16))

        def get_next(self):
            batch = next(self.batches, None)
            return None if batch is None else {"pictures": batch.numpy()}

    inputs = prepared(pictures)
    quantize_static(model_path, target_path, Calibration(inputs), quant_format=QuantFormat.QOperator, per_channel=True, activation_type=QuantType.QUInt8)


# %% prepared-by-the-quantiser-first
def quantise(model_path, pictures, target_path):
    from onnxruntime.quantization.shape_inference import quant_pre_process

    class Whole(CalibrationDataReader):
        left = 1

        def get_next(self):
            self.left -= 1
            return {"pictures": prepared(pictures).numpy()} if self.left == 0 else None

    with tempfile.TemporaryDirectory() as folder:
        inferred = os.path.join(folder, "inferred.onnx")
        quant_pre_process(model_path, inferred, skip_symbolic_shape=True)
        quantize_static(inferred, target_path, Whole(), per_channel=True)


# %% normalised-by-hand
def quantise(model_path, pictures, target_path):
    class Calibration(CalibrationDataReader):
        def __init__(self, inputs):
            self.batches = iter(inputs.split(16))

        def get_next(self):
            batch = next(self.batches, None)
            return None if batch is None else {"pictures": batch.numpy()}

    inputs = pictures.permute(0, 3, 1, 2).double()
    inputs = ((inputs / 255.0 - MEAN[:, None, None]) / STD[:, None, None]).to(torch.float32).contiguous()
    quantize_static(model_path, target_path, Calibration(inputs), quant_format=QuantFormat.QDQ, per_channel=True)
