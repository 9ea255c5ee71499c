# %% raw
# misconception: the quantiser wants the pictures
# fails: test_an_edge_and_a_blur_in_one_layer, test_grey_pictures_keep_their_values, test_logits_and_classes_agree, test_small_weights_beside_large_ones
# says: of their norm
def quantise(model_path, pictures, target_path):
    class Calibration(CalibrationDataReader):
        def __init__(self, inputs):
            self.batches = iter(inputs.split(16))

        def get_next(self):
            batch = next(self.batches, None)
            return None if batch is None else {"pictures": batch.numpy()}

    inputs = pictures.permute(0, 3, 1, 2).float().contiguous()
    quantize_static(model_path, target_path, Calibration(inputs), quant_format=QuantFormat.QDQ, per_channel=True)


# %% from-0-to-1
# misconception: a picture is prepared when it is between 0 and 1
# fails: test_an_edge_and_a_blur_in_one_layer, test_grey_pictures_keep_their_values, test_logits_and_classes_agree, test_small_weights_beside_large_ones
# says: of their norm
def quantise(model_path, pictures, target_path):
    class Calibration(CalibrationDataReader):
        def __init__(self, inputs):
            self.batches = iter(inputs.split(16))

        def get_next(self):
            batch = next(self.batches, None)
            return None if batch is None else {"pictures": batch.numpy()}

    inputs = pictures.permute(0, 3, 1, 2).float().contiguous() / 255
    quantize_static(model_path, target_path, Calibration(inputs), quant_format=QuantFormat.QDQ, per_channel=True)


# %% without-the-deviation
# misconception: the mean is what matters
# fails: test_an_edge_and_a_blur_in_one_layer, test_grey_pictures_keep_their_values, test_logits_and_classes_agree, test_small_weights_beside_large_ones
# says: of their norm
def quantise(model_path, pictures, target_path):
    class Calibration(CalibrationDataReader):
        def __init__(self, inputs):
            self.batches = iter(inputs.split(16))

        def get_next(self):
            batch = next(self.batches, None)
            return None if batch is None else {"pictures": batch.numpy()}

    inputs = (pictures.float() / 255 - MEAN).permute(0, 3, 1, 2).contiguous()
    quantize_static(model_path, target_path, Calibration(inputs), quant_format=QuantFormat.QDQ, per_channel=True)


# %% random-numbers
# misconception: any numbers will do to try the layers
# fails: test_an_edge_and_a_blur_in_one_layer, test_grey_pictures_keep_their_values, test_logits_and_classes_agree, test_small_weights_beside_large_ones
# says: of their norm
def quantise(model_path, pictures, target_path):
    class Calibration(CalibrationDataReader):
        def __init__(self, inputs):
            self.batches = iter(inputs.split(16))

        def get_next(self):
            batch = next(self.batches, None)
            return None if batch is None else {"pictures": batch.numpy()}

    inputs = torch.rand(64, 3, *pictures.shape[1:3], generator=torch.Generator().manual_seed(0))
    quantize_static(model_path, target_path, Calibration(inputs), quant_format=QuantFormat.QDQ, per_channel=True)


# %% the-first-picture
# misconception: one picture is like the other
# fails: test_an_edge_and_a_blur_in_one_layer, test_grey_pictures_keep_their_values, test_logits_and_classes_agree
# says: of their norm
def quantise(model_path, pictures, target_path):
    class Calibration(CalibrationDataReader):
        def __init__(self, inputs):
            self.batches = iter(inputs.split(16))

        def get_next(self):
            batch = next(self.batches, None)
            return None if batch is None else {"pictures": batch.numpy()}

    inputs = prepared(pictures[:1])
    quantize_static(model_path, target_path, Calibration(inputs), quant_format=QuantFormat.QDQ, per_channel=True)


# %% black-pictures
# misconception: the weights are what is quantised
# fails: test_an_edge_and_a_blur_in_one_layer, test_grey_pictures_keep_their_values, test_logits_and_classes_agree, test_small_weights_beside_large_ones
# says: of their norm
def quantise(model_path, pictures, target_path):
    class Calibration(CalibrationDataReader):
        def __init__(self, inputs):
            self.batches = iter(inputs.split(16))

        def get_next(self):
            batch = next(self.batches, None)
            return None if batch is None else {"pictures": batch.numpy()}

    inputs = prepared(torch.zeros_like(pictures))
    quantize_static(model_path, target_path, Calibration(inputs), quant_format=QuantFormat.QDQ, per_channel=True)


# %% one-range-per-tensor
# misconception: a tensor has a range
# fails: test_an_edge_and_a_blur_in_one_layer, test_small_weights_beside_large_ones
# says: Where weights are small
def quantise(model_path, pictures, target_path):
    class Calibration(CalibrationDataReader):
        def __init__(self, inputs):
            self.batches = iter(inputs.split(16))

        def get_next(self):
            batch = next(self.batches, None)
            return None if batch is None else {"pictures": batch.numpy()}

    inputs = prepared(pictures)
    quantize_static(model_path, target_path, Calibration(inputs), quant_format=QuantFormat.QDQ)


# %% dynamic
# misconception: dynamic quantisation needs no pictures
# fails: test_all_layers_are_computed_in_int8, test_an_edge_and_a_blur_in_one_layer, test_it_is_faster_where_int8_is, test_small_weights_beside_large_ones, test_the_convolution_is_computed_in_int8
# says: are computed in int8
def quantise(model_path, pictures, target_path):
    from onnxruntime.quantization import quantize_dynamic

    quantize_dynamic(model_path, target_path, per_channel=True)


# %% a-copy
# misconception: the engine will do it
# fails: test_all_layers_are_computed_in_int8, test_it_is_faster_where_int8_is, test_the_convolution_is_computed_in_int8, test_the_file_is_small
# says: 0 convolution(s)
def quantise(model_path, pictures, target_path):
    import shutil

    shutil.copy(model_path, target_path)


# %% sixteen-bits-flow
# misconception: only the weights need to be small
# fails: test_all_layers_are_computed_in_int8, test_it_is_faster_where_int8_is, test_the_convolution_is_computed_in_int8
# says: 0 convolution(s)
def quantise(model_path, pictures, target_path):
    class Calibration(CalibrationDataReader):
        def __init__(self, inputs):
            self.batches = iter(inputs.split(16))

        def get_next(self):
            batch = next(self.batches, None)
            return None if batch is None else {"pictures": batch.numpy()}

    inputs = prepared(pictures)
    quantize_static(model_path, target_path, Calibration(inputs), quant_format=QuantFormat.QDQ, per_channel=True, activation_type=QuantType.QInt16)


# %% all-but-the-head
# misconception: the last layer is too delicate
# fails: test_all_layers_are_computed_in_int8
# says: 0 linear layer(s)
def quantise(model_path, pictures, target_path):
    class Calibration(CalibrationDataReader):
        def __init__(self, inputs):
            self.batches = iter(inputs.split(16))

        def get_next(self):
            batch = next(self.batches, None)
            return None if batch is None else {"pictures": batch.numpy()}

    inputs = prepared(pictures)
    quantize_static(model_path, target_path, Calibration(inputs), quant_format=QuantFormat.QDQ, per_channel=True, op_types_to_quantize=["Conv", "Relu", "GlobalAveragePool"])


# %% all-but-the-first-layer
# misconception: the first layer is too delicate
# fails: test_all_layers_are_computed_in_int8, test_the_convolution_is_computed_in_int8
# says: 1 convolution(s) of 2
def quantise(model_path, pictures, target_path):
    class Calibration(CalibrationDataReader):
        def __init__(self, inputs):
            self.batches = iter(inputs.split(16))

        def get_next(self):
            batch = next(self.batches, None)
            return None if batch is None else {"pictures": batch.numpy()}

    inputs = prepared(pictures)
    import onnx

    convolutions = [node.name for node in onnx.load(model_path).graph.node if node.op_type == "Conv"]
    quantize_static(model_path, target_path, Calibration(inputs), quant_format=QuantFormat.QDQ, per_channel=True, nodes_to_exclude=convolutions[:1])


# %% in-place
# misconception: the new file may as well be the old one
# fails: test_nothing_else_changes
# says: and no other file
def quantise(model_path, pictures, target_path):
    class Calibration(CalibrationDataReader):
        def __init__(self, inputs):
            self.batches = iter(inputs.split(16))

        def get_next(self):
            batch = next(self.batches, None)
            return None if batch is None else {"pictures": batch.numpy()}

    inputs = prepared(pictures)
    quantize_static(model_path, model_path, Calibration(inputs), quant_format=QuantFormat.QDQ, per_channel=True)
    import shutil

    shutil.copy(model_path, target_path)


# %% the-older-form
# misconception: QOperator is as good as QDQ
# fails: test_it_is_faster_where_int8_is
# says: not fast enough yet
def quantise(model_path, pictures, target_path):
    class Calibration(CalibrationDataReader):
        def __init__(self, inputs):
            self.batches = iter(inputs.split(16))

        def get_next(self):
            batch = next(self.batches, None)
            return None if batch is None else {"pictures": batch.numpy()}

    inputs = prepared(pictures)
    quantize_static(model_path, target_path, Calibration(inputs), quant_format=QuantFormat.QOperator, per_channel=True, activation_type=QuantType.QInt8)


# %% a-file-left-behind
# misconception: a prepared file is kept for the next time
# fails: test_nothing_else_changes
# says: and no other file
def quantise(model_path, pictures, target_path):
    class Calibration(CalibrationDataReader):
        def __init__(self, inputs):
            self.batches = iter(inputs.split(16))

        def get_next(self):
            batch = next(self.batches, None)
            return None if batch is None else {"pictures": batch.numpy()}

    inputs = prepared(pictures)
    import shutil

    shutil.copy(model_path, os.path.join(os.path.dirname(target_path), 'before.onnx'))
    quantize_static(model_path, target_path, Calibration(inputs), quant_format=QuantFormat.QDQ, per_channel=True)
