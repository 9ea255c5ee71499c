"""The wire format: what goes in comes out, layout and aliasing included; what is not ours is refused."""

from __future__ import annotations

import enum
import json
import math
import random
import struct
from collections import OrderedDict, namedtuple
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from autograder import wire
from autograder.errors import WireError
from autograder.wire import decode, encode, stored_bytes

DTYPES = list(wire._dtypes().values())


def there_and_back(value: Any) -> Any:
    return decode(bytearray(encode(value)))


def numbers(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return (torch.arange(math.prod(shape)) % 120).reshape(shape).to(dtype)


def same_tensor(actual: torch.Tensor, expected: torch.Tensor) -> bool:
    return (
        actual.dtype == expected.dtype
        and actual.shape == expected.shape
        and actual.requires_grad == expected.requires_grad
        and torch.equal(actual.detach(), expected.detach())
    )


# --- values -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "value",
    [
        None,
        True,
        0,
        -(2**80),
        1.5,
        -0.0,
        1e308,
        5e-324,
        math.inf,
        -math.inf,
        "",
        "text with \0, \ud800 and \N{SNOWMAN}",
        [],
        (),
        {},
        [1, (2, [3.0, None]), {"a": (True,)}],
        {1: "int", "1": "str", (1, 2): "tuple", None: 0, 1.5: 2},
        {"T": 1, "l": [2], "f": "nan"},
        torch.float16,
        torch.complex128,
    ],
)
def test_plain_values(value: Any) -> None:
    got = there_and_back(value)
    assert got == value and type(got) is type(value)
    assert not isinstance(value, float) or math.copysign(1, got) == math.copysign(1, value)


def test_nan() -> None:
    assert math.isnan(there_and_back([math.nan])[0])


def test_kin_of_plain_types_arrive_as_the_plain_types() -> None:
    pair = namedtuple("pair", "a b")
    colour = enum.IntEnum("colour", "RED BLUE")

    class Text(str): ...

    for value, plain in [
        (pair(1, 2), (1, 2)),
        (colour.BLUE, 2),
        (Text("x"), "x"),
        (OrderedDict(a=1), {"a": 1}),
        (torch.Size([2, 3]), (2, 3)),
        (np.float64(1.5), 1.5),
    ]:
        got = there_and_back(value)
        assert got == plain and type(got) is type(plain)


@pytest.mark.parametrize("value", [np.arange(6).reshape(2, 3), np.float32(2.5), np.int16(7), np.bool_(True)])
def test_numpy_values_arrive_as_tensors(value: Any) -> None:
    assert same_tensor(there_and_back(value), torch.as_tensor(value))


# --- tensors ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("shape", [(), (1,), (0,), (3, 0, 2), (2, 3, 4), (257,)], ids=str)
def test_every_dtype(dtype: torch.dtype, shape: tuple[int, ...]) -> None:
    assert same_tensor(there_and_back(numbers(*shape, dtype=dtype)), numbers(*shape, dtype=dtype))


LAYOUTS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "permuted": lambda x: x.permute(2, 0, 1),
    "sliced": lambda x: x[1:, ::2, 1:3],
    "expanded": lambda x: x[:1, :1].expand(6, 7, 5),
    "expanded scalar": lambda x: x[1, 1, 1].expand(3, 3),
    "overlapping": lambda x: x.flatten().unfold(0, 5, 2),
    "single element": lambda x: x[2, 3, 1],
    "unusual stride": lambda x: x.as_strided((2, 2), (7, 3), 5),
    "stride of a dimension of one": lambda x: x.as_strided((1, 2), (1000, 1), 3),
    "all of it": lambda x: x,
}


@pytest.mark.parametrize("dtype", [torch.uint8, torch.bfloat16, torch.float64, torch.complex128], ids=str)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_layouts_survive(layout: str, dtype: torch.dtype) -> None:
    tensor = LAYOUTS[layout](numbers(3, 4, 5, dtype=dtype))
    got = there_and_back(tensor)
    assert same_tensor(got, tensor)
    assert got.stride() == tensor.stride()


def test_special_numbers_survive_bit_by_bit() -> None:
    values = torch.tensor([math.nan, math.inf, -math.inf, -0.0, 5e-324], dtype=torch.float64)
    assert torch.equal(there_and_back(values).view(torch.int64), values.view(torch.int64))


def test_requires_grad_survives_and_the_graph_does_not() -> None:
    leaf = torch.ones(3, requires_grad=True)
    for tensor in (leaf, leaf * 2, torch.nn.Parameter(torch.ones(2))):
        got = there_and_back(tensor)
        assert got.requires_grad and got.is_leaf and type(got) is torch.Tensor


@pytest.mark.parametrize(
    "view", [lambda z: z.conj(), lambda z: z.conj().imag, lambda z: z.real], ids=["conj", "imag", "real"]
)
def test_lazy_views_arrive_as_what_they_show(view: Callable[[torch.Tensor], torch.Tensor]) -> None:
    z = torch.complex(numbers(4), numbers(4) + 1)
    assert torch.equal(there_and_back(view(z)), view(z).clone())


def test_aliasing_inside_a_message_survives() -> None:
    whole = numbers(6)
    got = there_and_back({"whole": whole, "part": whole[2:4], "other": whole.clone(), "deep": [(whole[5],)]})
    got["whole"][:] = -1
    assert got["part"].tolist() == [-1, -1]
    assert got["deep"][0][0].item() == -1
    assert got["other"].tolist() == whole.tolist()


def test_nothing_is_shared_with_the_sender() -> None:
    tensor = numbers(4)
    got = there_and_back(tensor)
    tensor.zero_()
    assert got.tolist() == [0, 1, 2, 3]


def test_a_view_costs_what_it_looks_at() -> None:
    large = torch.zeros(1_000_000)
    assert len(encode(large[500_000:500_010])) < 500
    assert len(encode(large[:1].expand(100_000))) < 500
    assert there_and_back(large[500_000:500_010]).untyped_storage().nbytes() <= 10 * 4 + 16


@pytest.mark.parametrize(
    ("make", "size"),
    [
        (lambda x: x, 40),
        (lambda x: [x, x, x.view(2, 5)], 40),
        (lambda x: x.unfold(0, 4, 1), 40),
        (lambda x: x[:4], 16),
        (lambda x: {"a": x[:4], "b": x[4:8]}, 32),
        (lambda x: x[:1].expand(1000), 4),
        (lambda x: [x.clone(), x], 80),
        (lambda x: x[:0], 0),
        (lambda x: (1, "a", None), 0),
    ],
)
def test_stored_bytes_counts_overlaps_once(make: Callable[[torch.Tensor], Any], size: int) -> None:
    assert stored_bytes(make(numbers(10))) == size
    assert stored_bytes(there_and_back(make(numbers(10)))) == size


# --- what cannot be sent ----------------------------------------------------------------------------------------------


class _Subclass(torch.Tensor): ...


def _self_containing() -> list[Any]:
    loop: list[Any] = []
    loop.append(loop)
    return loop


def _doubling(times: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(times):
        value = [value, value]
    return value


@pytest.mark.parametrize(
    ("value", "says"),
    [
        (torch.zeros(2).as_subclass(_Subclass), "subclass of Tensor"),
        (torch.eye(2).to_sparse(), "sparse"),
        (torch.empty(2, device="meta"), "meta"),
        (torch.zeros(1).expand(2**31), "larger than any"),
        (print, "a builtin_function_or_method is neither"),
        (lambda: 1, "a function is neither"),
        (object(), "a object is neither"),
        ({1, 2}, "a set is neither"),
        (b"bytes", "a bytes is neither"),
        (1j, "a complex is neither"),
        ((x for x in [1]), "a generator is neither"),
        (torch.nn.Linear(1, 1), "a Linear is neither"),
        (ValueError("x"), "a ValueError is neither"),
        (_self_containing(), "nested more than 50 deep"),
        (_doubling(40), "more than 200,000 single values"),
        (list(range(200_001)), "more than 200,000 single values"),
        ("x" * 40_000_000, "40 MB of text"),
        (np.array([object()]), "cannot be made a tensor"),
        (np.arange(3)[::-1], "cannot be made a tensor"),
        (np.array(["a"]), "cannot be made a tensor"),
    ],
    ids=lambda value: "" if not isinstance(value, str) or len(value) > 100 else value,
)
def test_refused_when_sent(value: Any, says: str) -> None:
    with pytest.raises(WireError, match=says):
        encode({"value": [value]})


@pytest.mark.filterwarnings("ignore")  # torch warns of these kinds
def test_kinds_of_tensor_that_torch_itself_hardly_knows_are_refused() -> None:
    with pytest.raises(WireError, match="quantised"):
        encode(torch.quantize_per_tensor(torch.ones(2), 0.1, 0, torch.quint8))
    with pytest.raises(WireError, match=r"dtype torch.complex32"):
        encode(torch.zeros(2, dtype=torch.complex32))


def test_a_message_has_a_size_limit() -> None:
    encode(torch.zeros(250), limit=1000)
    with pytest.raises(WireError, match="MB of tensors"):
        encode([torch.zeros(250), torch.zeros(1)], limit=1000)


# --- forged messages --------------------------------------------------------------------------------------------------


def forged(tree: Any, storages: list[Any] | Any = (), payload: bytes = b"") -> bytearray:
    header = json.dumps({"tree": tree, "storages": storages}).encode()
    header += b" " * (-(8 + len(header)) % wire.ALIGNMENT)
    return bytearray(struct.pack("<Q", len(header)) + header + payload)


def tensor_node(**changes: Any) -> dict[str, Any]:
    return {"T": {"dtype": "float32", "shape": [2], "stride": [1], "storage": 0, "offset": 0, **changes}}


def test_a_message_made_by_hand_decodes() -> None:
    """The forgeries below differ from this one in a single thing each."""
    got = decode(forged(tensor_node(), [8], struct.pack("<2f", 1, 2) + bytes(56)))
    assert got.tolist() == [1, 2]


@pytest.mark.parametrize(
    "changes",
    [
        {"offset": 1},
        {"offset": -1},
        {"offset": 2**47},
        {"offset": 2**63},
        {"offset": 0.0},
        {"offset": True},
        {"stride": [2]},
        {"stride": [-1]},
        {"stride": [2**47]},
        {"stride": [2**70]},
        {"stride": []},
        {"stride": [1, 1]},
        {"shape": [3]},
        {"shape": [-2]},
        {"shape": [2**47], "stride": [0]},
        {"shape": [2**47, 2**47], "stride": [0, 0]},
        {"shape": [0, 2**47, 2**47], "stride": [0, 0, 0]},
        {"shape": [1] * 33, "stride": [1] * 33},
        {"shape": "2"},
        {"shape": None},
        {"shape": [[2]]},
        {"storage": 1},
        {"storage": -1},
        {"storage": "0"},
        {"dtype": "float64"},
        {"dtype": "complex32"},
        {"dtype": "Tensor"},
        {"dtype": ["float32"]},
        {"dtype": None},
    ],
    ids=str,
)
def test_a_tensor_outside_its_storage_or_out_of_bounds_is_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(WireError):
        decode(forged(tensor_node(**changes), [8], bytes(64)))


@pytest.mark.parametrize(
    "storages",
    [[65], [0], [-8], [2**60], [2**47], [8.0], ["8"], [True], [8] * 3, "8", None, 8, {"8": 8}, [[8]]],
    ids=str,
)
def test_storages_beyond_the_message_are_refused(storages: Any) -> None:
    with pytest.raises(WireError):
        decode(forged(tensor_node(), storages, bytes(64)))


@pytest.mark.parametrize(
    "tree",
    [
        {"l": 1},
        {"l": {"a": 1}},
        {"x": []},
        {"l": [], "t": []},
        {},
        [],
        {"T": []},
        {"T": {}},
        {"f": "0"},
        {"f": ["nan"]},
        {"y": "float8"},
        {"y": ["float32"]},
        {"d": [[1]]},
        {"d": [1]},
        {"d": [[{"l": []}, 1]]},
        {"d": [[{"t": [{"l": []}]}, 1]]},
        {"d": [[tensor_node(shape=[0]), 1]]},
        {"l": [0] * 200_001},
    ],
    ids=lambda tree: str(tree)[:40],
)
def test_unknown_nodes_are_refused(tree: Any) -> None:
    with pytest.raises(WireError):
        decode(forged(tree))


def test_deep_nesting_is_refused() -> None:
    tree: Any = 1
    for _ in range(60):
        tree = {"l": [tree]}
    with pytest.raises(WireError):
        decode(forged(tree))
    depth = 100_000
    text = b'{"storages": [], "tree": ' + b'{"l": [' * depth + b"]}" * depth + b"}"
    with pytest.raises(WireError):
        decode(bytearray(struct.pack("<Q", len(text)) + text))


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\0" * 7,
        b"\0" * 8,
        struct.pack("<Q", 2**63) + b"{}",
        struct.pack("<Q", 3) + b"{}",
        struct.pack("<Q", 2) + b"{}",
        struct.pack("<Q", 2) + b"[]",
        struct.pack("<Q", 4) + b"\xff\xfe\xff\xfe",
        struct.pack("<Q", 4) + b"null",
        struct.pack("<Q", 10_004) + b"[" + b"9" * 10_002 + b"]",
    ],
)
def test_what_is_no_message_at_all_is_refused(data: bytes) -> None:
    with pytest.raises(WireError):
        decode(bytearray(data))


def _tensors(value: Any) -> list[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, dict):
        value = [*value.keys(), *value.values()]
    return [t for item in value for t in _tensors(item)] if isinstance(value, list | tuple) else []


def _inside(tensor: torch.Tensor) -> bool:
    if tensor.numel() == 0:
        return True
    first, last = wire._reach(tensor)
    return 0 <= first < last <= tensor.untyped_storage().nbytes()


def test_mutated_messages_decode_within_their_bounds_or_are_refused() -> None:
    """Thousands of damaged messages: a value whose tensors lie inside their storages, or WireError, nothing else."""
    base = numbers(3, 4)
    good = encode(
        {"x": [base, base.t(), base[1:, ::2], torch.zeros(2, 0)], "y": (1, 2.5, math.nan, None, torch.int8), "z": "a"}
    )
    (length,) = struct.unpack_from("<Q", good)
    rng = random.Random(20_24)
    digits = [i for i in range(8, 8 + length) if chr(good[i]).isdigit()]
    decoded = refused = 0
    for _ in range(6_000):
        data = bytearray(good)
        kind = rng.randrange(5)
        if kind == 0:
            del data[rng.randrange(len(data)) :]
        elif kind == 1:
            for _ in range(rng.randint(1, 4)):
                data[rng.randrange(len(data))] = rng.randrange(256)
        elif kind == 2:  # numbers in the header: sizes, strides, offsets
            for _ in range(rng.randint(1, 3)):
                data[rng.choice(digits)] = ord(rng.choice("0123456789-"))
        elif kind == 3:
            at = rng.choice(digits)
            more = str(rng.choice([2**31, 2**47, 2**48, 2**63, 10**30])).encode()
            data[at : at + 1] = more
            data[:8] = struct.pack("<Q", length + len(more) - 1)
        else:
            start = rng.randrange(len(data))
            data[start:start] = data[rng.randrange(len(data)) :][: rng.randrange(40)]
        try:
            value = decode(data)
        except WireError:
            refused += 1
            continue
        decoded += 1
        assert all(_inside(tensor) for tensor in _tensors(value))
    assert decoded > 300 and refused > 1_000


def test_every_truncation_is_refused_up_to_the_padding() -> None:
    good = encode([numbers(5), "x"])
    needed = len(good) - (-5 * 4 % wire.ALIGNMENT)
    for length in range(needed):
        with pytest.raises(WireError):
            decode(bytearray(good[:length]))
