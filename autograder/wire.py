"""Messages between judge and worker: tensors and plain containers to bytes and back. Nothing in them can run code.

A message is a JSON tree followed by raw storage bytes. Plain values stand in the tree; a tensor stands there as dtype,
shape, stride and offset over one of the storages. Each storage is sent once and only as far as the message's tensors
reach into it. So layouts (a permuted, expanded or overlapping tensor) and aliasing between the tensors of a message
survive the journey, a view costs no more bytes than what it looks at, and the receiver can measure that.

Layout: 8 bytes little-endian length of the JSON, the JSON padded with spaces to :data:`ALIGNMENT`, then the storages,
each padded likewise.
"""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

from autograder.errors import WireError

if TYPE_CHECKING:  # otherwise where a message is read or written: who only has others grade never waits for torch
    import torch

ALIGNMENT = 64
"""Storages start at multiples of this many bytes, so that vectorised loads of any dtype are aligned."""
MAX_MESSAGE_BYTES = 256_000_000
MAX_TENSOR_BYTES = 1_000_000_000
"""Of one tensor, each element counted: a few bytes, expanded, could fill the memory of whoever computes with them."""
MAX_NODES = 200_000
MAX_DEPTH = 50
MAX_DIMENSIONS = 32
_MAX_JSON_BYTES = 32_000_000


@cache
def _dtypes() -> dict[str, torch.dtype]:
    """The dtypes that can be sent, by name."""
    import torch

    dtypes = (
        torch.bool,
        torch.uint8,
        torch.int8,
        torch.int16,
        torch.int32,
        torch.int64,
        torch.float16,
        torch.bfloat16,
        torch.float32,
        torch.float64,
        torch.complex64,
        torch.complex128,
    )
    return {_name(dtype): dtype for dtype in dtypes}


def _name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


class _Encoder:
    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.nodes = 0
        self.tensors: list[tuple[torch.Tensor, dict[str, Any]]] = []

    def node(self, value: Any, depth: int = 0) -> Any:
        if depth > MAX_DEPTH:
            raise WireError(f"containers nested more than {MAX_DEPTH} deep")
        self.nodes += 1
        if self.nodes > MAX_NODES:
            raise WireError(f"more than {MAX_NODES:,} single values; many numbers belong into a tensor")
        if value is None or type(value) in (bool, int, str):
            return value
        if isinstance(value, float):
            return float(value) if value - value == 0 else {"f": repr(float(value))}
        import torch

        if isinstance(value, torch.Tensor):
            return self.tensor(value)
        if isinstance(value, list):
            return {"l": [self.node(item, depth + 1) for item in value]}
        if isinstance(value, tuple):
            return {"t": [self.node(item, depth + 1) for item in value]}
        if isinstance(value, dict):
            return {"d": [[self.node(k, depth + 1), self.node(v, depth + 1)] for k, v in value.items()]}
        if isinstance(value, torch.dtype):
            return {"y": _name(value)}
        if isinstance(value, int | str):  # a subclass (bool's and enums' kin): its plain value
            return int(value) if isinstance(value, int) else str(value)
        if type(value).__module__ == "numpy":
            try:
                return self.tensor(torch.as_tensor(value))
            except (TypeError, ValueError, RuntimeError) as error:
                raise WireError(f"a numpy {type(value).__name__} cannot be made a tensor: {error}") from None
        raise WireError(f"a {type(value).__qualname__} is neither a tensor nor a plain container or value")

    def tensor(self, tensor: torch.Tensor) -> dict[str, Any]:
        import torch

        if type(tensor) not in (torch.Tensor, torch.nn.Parameter):
            raise WireError(f"a {type(tensor).__qualname__} is a subclass of Tensor; return plain tensors")
        if tensor.layout != torch.strided or tensor.device.type == "meta" or tensor.is_quantized:
            raise WireError("a sparse, quantised or meta tensor cannot be sent; return a dense one")
        dtype = _name(tensor.dtype)
        if dtype not in _dtypes():
            raise WireError(f"dtype {tensor.dtype} cannot be sent")
        if not _fits(tensor.shape, tensor.element_size()):
            raise WireError(f"a tensor of shape {tuple(tensor.shape)} is larger than any that is asked for")
        plain = tensor.detach().resolve_conj().resolve_neg().cpu()
        node: dict[str, Any] = {
            "dtype": dtype,
            "shape": list(tensor.shape),
            "stride": list(plain.stride()),
        }
        if tensor.requires_grad:
            node["requires_grad"] = True
        self.tensors.append((plain, node))
        return {"T": node}

    def storages(self) -> list[torch.Tensor]:
        """Lay the tensors over as few bytes as they reach, and note in each node which and where."""
        import torch

        spans: dict[int, list[int]] = {}
        for plain, node in self.tensors:
            if plain.numel() == 0:
                node.update(storage=-1, offset=0, stride=[0] * plain.dim())
                continue
            first, last = _reach(plain)
            span = spans.setdefault(plain.untyped_storage().data_ptr(), [first, last])
            span[:] = [min(span[0], first), max(span[1], last)]
        order: dict[int, int] = {}
        pieces: list[torch.Tensor] = []
        total = 0
        for plain, node in self.tensors:
            if plain.numel() == 0:
                continue
            pointer = plain.untyped_storage().data_ptr()
            start = spans[pointer][0] // 16 * 16  # keeps every element aligned to its own size
            if pointer not in order:
                total += spans[pointer][1] - start
                if total > self.limit:
                    raise WireError(
                        f"{total / 1e6:.0f} MB of tensors are more than the {self.limit / 1e6:.0f} MB allowed"
                    )
                order[pointer] = len(pieces)
                piece = torch.empty(0, dtype=torch.uint8)
                piece.set_(plain.untyped_storage(), start, (spans[pointer][1] - start,), (1,))
                pieces.append(piece)
            offset = plain.storage_offset() * plain.element_size() - start
            node.update(storage=order[pointer], offset=offset // plain.element_size())
        return pieces


def _reach(tensor: torch.Tensor) -> tuple[int, int]:
    """First byte and one past the last byte of its storage that a non-empty tensor looks at."""
    last = sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True))
    first = int(tensor.storage_offset()) * tensor.element_size()
    return first, first + int(last + 1) * tensor.element_size()


def _fits(shape: Sequence[int], element_size: int) -> bool:
    return math.prod(max(size, 1) for size in shape) * element_size <= MAX_TENSOR_BYTES


def _padding(length: int) -> int:
    return -length % ALIGNMENT


def encode(value: Any, limit: int = MAX_MESSAGE_BYTES) -> bytes:
    """The bytes of *value*: tensors of any strided layout, numbers, strings, dtypes, lists, tuples and dicts of these.

    Raises :class:`WireError` for anything else, or where the tensors need more than *limit* bytes.
    """
    encoder = _Encoder(limit)
    try:
        tree = encoder.node(value)
        pieces = encoder.storages()
        header = json.dumps({"tree": tree, "storages": [piece.numel() for piece in pieces]}).encode()
        if len(header) > _MAX_JSON_BYTES - ALIGNMENT:
            raise WireError(f"{len(header) / 1e6:.0f} MB of text and single values")
    except RecursionError:
        raise WireError("a container holds itself") from None
    header += b" " * _padding(8 + len(header))
    parts: list[Any] = [struct.pack("<Q", len(header)), header]
    for piece in pieces:
        parts += [piece.numpy().data, bytes(_padding(piece.numel()))]
    return b"".join(parts)


class _Decoder:
    def __init__(self, storages: list[torch.Tensor]) -> None:
        self.storages = storages
        self.nodes = 0

    def value(self, node: Any, depth: int = 0) -> Any:
        self.nodes += 1
        if self.nodes > MAX_NODES or depth > MAX_DEPTH:
            raise WireError("too many values in one message")
        if node is None or isinstance(node, bool | int | float | str):
            return node
        if not isinstance(node, dict) or len(node) != 1:
            raise WireError("unknown node")
        ((kind, body),) = node.items()
        if kind == "T" and isinstance(body, dict):
            return self.tensor(body)
        if kind == "f" and body in ("nan", "inf", "-inf"):
            return float(body)
        if kind == "y" and body in _dtypes():
            return _dtypes()[body]
        if not isinstance(body, list):
            raise WireError("unknown node")
        if kind == "l":
            return [self.value(item, depth + 1) for item in body]
        if kind == "t":
            return tuple(self.value(item, depth + 1) for item in body)
        if kind == "d":
            return {self.key(pair[0]): self.value(pair[1], depth + 1) for pair in body}
        raise WireError("unknown node")

    def key(self, node: Any) -> Any:
        import torch

        key = self.value(node, MAX_DEPTH - 1)
        if isinstance(key, list | dict | torch.Tensor):
            raise WireError("unhashable key")
        return key

    def tensor(self, node: dict[str, Any]) -> torch.Tensor:
        import torch

        dtype = _dtypes()[node["dtype"]]
        shape = [_count(size) for size in node["shape"]]
        stride = [_count(step) for step in node["stride"]]
        if len(shape) != len(stride) or len(shape) > MAX_DIMENSIONS:
            raise WireError("shape and stride do not fit each other")
        tensor = torch.empty(0, dtype=dtype)
        if not _fits(shape, tensor.element_size()):
            raise WireError("a tensor is larger than any that is asked for")
        if 0 in shape:
            tensor = torch.empty(shape, dtype=dtype)
        else:
            storage = self.storages[_count(node["storage"])]
            offset = _count(node["offset"])
            last = offset + sum((size - 1) * step for size, step in zip(shape, stride, strict=True))
            if (last + 1) * tensor.element_size() > storage.numel():
                raise WireError("a tensor reaches past its storage")
            tensor = tensor.to(storage.device)
            tensor.set_(storage.untyped_storage(), offset, shape, stride)
        if node.get("requires_grad") is True and (dtype.is_floating_point or dtype.is_complex):
            tensor.requires_grad_()
        return tensor


def _count(value: Any) -> int:
    if type(value) is not int or not 0 <= value < 2**48:
        raise WireError("a size, stride or offset is no count")
    return value


def decode(data: bytearray, device: str = "cpu") -> Any:
    """The value that :func:`encode` made *data* of; tensors share memory with *data* unless moved to *device*.

    Raises :class:`WireError` for anything that :func:`encode` cannot have made, without running or reserving anything.
    """
    import torch

    try:
        (length,) = struct.unpack_from("<Q", data)
        if length > min(len(data) - 8, _MAX_JSON_BYTES):
            raise WireError("the header is longer than the message")
        header = json.loads(data[8 : 8 + length])
        position = 8 + length
        storages = []
        if len(header["storages"]) > MAX_NODES:
            raise WireError("too many storages in one message")
        for size in header["storages"]:
            end = position + _count(size)
            if end > len(data) or size == 0:
                raise WireError("a storage is longer than the message")
            piece = torch.frombuffer(data, dtype=torch.uint8, offset=position, count=size)
            # a copy of its own: a storage over the message's buffer would reach beyond the piece
            storages.append(piece.to(device) if device != "cpu" else piece.clone())
            position = end + _padding(size)
        return _Decoder(storages).value(header["tree"])
    except WireError:
        raise
    except (
        ValueError,
        KeyError,
        IndexError,
        TypeError,
        AttributeError,
        RuntimeError,  # torch's own, and RecursionError
        struct.error,
        OverflowError,
    ) as error:
        raise WireError(f"not a message: {type(error).__name__}") from None


def stored_bytes(value: Any) -> int:
    """How many bytes of storage the tensors in *value* look at, overlaps and repeats counted once."""
    encoder = _Encoder(limit=2**62)
    encoder.node(value)
    return sum(piece.numel() for piece in encoder.storages())
