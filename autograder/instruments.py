"""What probes measure with, beside the learner's code: what graphs and objects hold, host reads, small networks.

A probe imports from here inside its own body. Like everything that runs there, what these count can be believed only as
far as the learner's code is honest; so a test that counts asks for right results in the same call.
"""

from __future__ import annotations

import gc
import sys
import weakref
from collections.abc import Mapping, Sequence
from types import BuiltinFunctionType, FunctionType, ModuleType
from typing import Any

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

_READS = frozenset(
    {
        "item",
        "tolist",
        "numpy",
        "cpu",
        "is_nonzero",
        "equal",
        "allclose",
        "__array__",
        "__bool__",
        "__complex__",
        "__contains__",
        "__float__",
        "__format__",
        "__index__",
        "__int__",
        "__repr__",
    }
)
"""Names of the functions and methods of torch that hand a tensor's value to Python."""


def mlp(weights: Sequence[torch.Tensor], activation: type[torch.nn.Module] = torch.nn.Tanh) -> torch.nn.Sequential:
    """A network of linear layers with *activation* between them.

    ``weights`` is ``[W1, b1, W2, b2, ...]``, shapes (out, in) and (out,); they are copied into the parameters, dtype
    included.
    """
    layers: list[torch.nn.Module] = []
    for weight, bias in zip(weights[::2], weights[1::2], strict=True):
        layer = torch.nn.Linear(weight.shape[1], weight.shape[0], device="meta")  # draws no random numbers
        layer.weight = torch.nn.Parameter(weight.detach().clone())
        layer.bias = torch.nn.Parameter(bias.detach().clone())
        layers += [layer, activation()]
    return torch.nn.Sequential(*layers[:-1])


def reachable_bytes(thing: object) -> int:
    """About how many bytes *thing* keeps in memory: itself and whatever can be reached from it, storages once.

    Classes, modules and functions are not followed: what they hold is there anyway.
    """
    found: set[int] = set()
    storages: set[int] = set()
    waiting, size = [thing], 0
    while waiting:
        item = waiting.pop()
        if id(item) in found or isinstance(item, type | ModuleType | FunctionType | BuiltinFunctionType):
            continue
        found.add(id(item))
        size += sys.getsizeof(item)
        if isinstance(item, torch.Tensor):
            storage = item.untyped_storage()
            if storage.data_ptr() not in storages:
                storages.add(storage.data_ptr())
                size += storage.nbytes()
        elif hasattr(item, "nbytes"):
            size += int(item.nbytes)
        waiting += gc.get_referents(item)
    return size


class _Held:
    """One tensor that a graph has saved; it lives as long as the graph needs it."""

    __slots__ = ("__weakref__", "tensor")

    def __init__(self, tensor: torch.Tensor) -> None:
        self.tensor = tensor


class SavedTensors:
    """Counts what autograd graphs hold: ``alive`` is how many tensors are saved for a backward that is still to come.

    Used as a context manager; graphs made inside it are counted for as long as they live. A leaf or a result that is
    saved counts as well.
    """

    def __init__(self) -> None:
        self._held: weakref.WeakSet[_Held] = weakref.WeakSet()
        self._hooks = torch.autograd.graph.saved_tensors_hooks(self._pack, self._unpack)
        self.total = 0
        """How many have ever been saved."""

    def _pack(self, tensor: torch.Tensor) -> _Held:
        held = _Held(tensor.detach())  # attached, it would keep alive the graph that keeps it alive
        self._held.add(held)
        self.total += 1
        return held

    @staticmethod
    def _unpack(held: _Held) -> torch.Tensor:
        return held.tensor

    @property
    def alive(self) -> int:
        """How many are held now."""
        return len(self._held)

    def __enter__(self) -> SavedTensors:
        self._hooks.__enter__()
        return self

    def __exit__(self, *exception: object) -> None:
        self._hooks.__exit__(*exception)


class _Token:
    """Lives as long as the graph that it belongs to."""


class _Passed(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, living: weakref.WeakSet[_Token]) -> torch.Tensor:
        ctx.token = _Token()
        living.add(ctx.token)
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, *upstream: Any) -> Any:
        return upstream[0], None


class GraphCounter(torch.nn.Module):
    """A layer that hands its input on and counts the graphs that it became part of.

    Unlike :class:`SavedTensors` it also counts a graph that a backward pass has already emptied, as long as something
    (a running total, say) keeps it alive.
    """

    def __init__(self) -> None:
        super().__init__()
        self._living: weakref.WeakSet[_Token] = weakref.WeakSet()
        self.history: list[int] = []
        """How many were alive as each forward pass began."""

    @property
    def alive(self) -> int:
        """How many there are now."""
        return len(self._living)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """*x*, any shape and dtype, as a view with the same gradient."""
        self.history.append(self.alive)
        return _Passed.apply(x, self._living) if x.requires_grad else x  # type: ignore[no-untyped-call]


class HostReads(TorchFunctionMode):
    """Counts how often Python reads a tensor's value: each time an accelerator would have to be waited for.

    ``count`` in all, ``by_name`` by method: ``item``, ``__bool__`` (an ``if``), ``__format__`` (an f-string), ``cpu``
    and the like.
    """

    def __init__(self) -> None:
        super().__init__()
        self.by_name: dict[str, int] = {}

    @property
    def count(self) -> int:
        """All reads so far."""
        return sum(self.by_name.values())

    def __torch_function__(
        self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        name = getattr(func, "__name__", "")
        rebuilt = name in ("tensor", "as_tensor") and args and isinstance(args[0], list | tuple)
        if name in _READS or (rebuilt and any(isinstance(item, torch.Tensor) for item in args[0])):
            self.by_name[name] = self.by_name.get(name, 0) + 1
        return func(*args, **(kwargs or {}))


_PRODUCTS = frozenset({"mm", "bmm", "mv", "dot", "addmm", "addmv", "baddbmm", "addbmm", "convolution", "linear"})
"""Names of the operators that are a matrix product or a convolution, as they arrive below autograd and autocast."""


class MatmulDtypes(TorchDispatchMode):
    """Counts matrix products by the dtype that they are computed in.

    ``counts`` maps ``"torch.bfloat16"`` and the like to the number of products, convolutions and fused attentions. They
    are seen below autocast, so what counts is the dtype that the kernel gets; backward passes inside count as well.
    """

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.counts: dict[str, int] = {}

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        name = func.overloadpacket.__name__
        if name in _PRODUCTS or "scaled_dot_product" in name:
            # the second tensor is a factor in all of them; the first may be what is added to the product
            factors = [item for item in args[:3] if isinstance(item, torch.Tensor)]
            dtype = str(factors[min(1, len(factors) - 1)].dtype)
            self.counts[dtype] = self.counts.get(dtype, 0) + 1
        return func(*args, **(kwargs or {}))


class Conversions(TorchDispatchMode):
    """Counts conversions of tensors from one dtype to another, those that autocast makes included.

    ``count`` in all; ``of(tensor)`` how often this very tensor was converted.
    """

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._sources: list[int] = []

    @property
    def count(self) -> int:
        """All conversions so far."""
        return len(self._sources)

    def of(self, tensor: torch.Tensor) -> int:
        """How often *tensor*, or another view of the same memory from its start, was converted."""
        return self._sources.count(tensor.data_ptr())

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        result = func(*args, **(kwargs or {}))
        name = func.overloadpacket.__name__
        if name in ("_to_copy", "copy_"):
            # a copy to another dtype makes a new tensor; a copy into an existing one has its source second
            source = args[0] if name == "_to_copy" else args[1]
            if source.dtype != result.dtype:
                self._sources.append(source.data_ptr())
        return result
