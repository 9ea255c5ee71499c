"""Imported by the warm process for chapters that export models: what the first export in a fork would fetch.

About a second of processor time for torch.export and as much for the exporter to ONNX, in every fork that exports.
"""

import contextlib
import logging

with contextlib.suppress(ImportError):
    import torch.export._trace  # noqa: F401

    try:
        logging.disable(logging.WARNING)  # it speaks of torchvision, and what the process says last is its diagnosis
        from torch.onnx._internal.exporter._registration import ONNXRegistry

        # Each export builds one of its own; what this one leaves is that onnxscript's functions have been read.
        ONNXRegistry.from_torchlib()
    finally:
        logging.disable(logging.NOTSET)
