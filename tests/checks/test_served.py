"""What exported files answer in another process."""

from __future__ import annotations

import io
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from onnx import TensorProto, helper

from autograder.checks import served
from autograder.errors import Finding
from autograder.submission import Submission

Learner = Callable[[str], Submission]
BATCHES = [torch.tensor([[1.0, -2.0]]), torch.tensor([[0.5, 0.0], [-3.0, 4.0], [7.0, -1.0]])]


@pytest.fixture
def baseline(learner: Learner) -> Callable[[str], Submission]:
    """Like the fixture that tests of chapters get: the same source is served by the same process."""
    running: dict[str, Submission] = {}

    def start(source: str) -> Submission:
        return running.setdefault(source, learner(source))

    return start


def as_tensor(content: bytes) -> torch.Tensor:
    return torch.frombuffer(bytearray(content), dtype=torch.uint8)


def doubled_relu(source: str = "pictures", result: str = "logits", rows: int | str = "n") -> torch.Tensor:
    """An ONNX file that doubles what is positive; input and output have these names."""
    nodes = [helper.make_node("Relu", [source], ["above"]), helper.make_node("Add", ["above", "above"], [result])]
    ends = [[helper.make_tensor_value_info(name, TensorProto.FLOAT, [rows, 2])] for name in (source, result)]
    graph = helper.make_graph(nodes, "doubled", *ends)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    return as_tensor(model.SerializeToString())


def doubled_program() -> torch.Tensor:
    """The same as a ``.pt2`` file."""

    class Doubled(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x.relu() * 2

    buffer = io.BytesIO()
    shapes = ({0: torch.export.Dim.DYNAMIC},)
    torch.export.save(torch.export.export(Doubled(), (torch.zeros(2, 2),), dynamic_shapes=shapes), buffer)
    return as_tensor(buffer.getvalue())


def test_both_kinds_of_file_are_served(baseline: Callable[[str], Submission]) -> None:
    files = {"model.onnx": doubled_relu(), "model.pt2": doubled_program()}
    for name in files:
        found = served.answers(baseline, files, name, BATCHES)
        assert all(torch.equal(a, 2 * x.relu()) for a, x in zip(found, BATCHES, strict=True))
        assert not any(answer.requires_grad for answer in found)


def test_names_matter_only_where_they_are_asked_for(baseline: Callable[[str], Submission]) -> None:
    files = {"model.onnx": doubled_relu("x", "y")}
    with pytest.raises(Finding, match=r"^model.onnx has no answer to some pictures$") as caught:
        served.answers(baseline, files, "model.onnx", BATCHES)
    assert "shape (1, 2)" in caught.value.in_full
    for names in ((), ("x", "y")):
        (answer, _) = served.answers(baseline, files, "model.onnx", BATCHES, names)
        assert answer.tolist() == [[2.0, 0.0]]


def test_what_is_wrong_with_a_file_is_told(baseline: Callable[[str], Submission]) -> None:
    files = {"model.onnx": as_tensor(b"no model"), "one.onnx": doubled_relu(rows=1)}
    with pytest.raises(Finding, match=r"^there is no model.pt2 in the folder$"):
        served.answers(baseline, files, "model.pt2", [])
    with pytest.raises(Finding, match=r"^model.onnx does not open$"):
        served.answers(baseline, files, "model.onnx", [])
    with pytest.raises(Finding, match="no answer to some") as caught:
        served.answers(baseline, files, "one.onnx", BATCHES)
    assert "(3, 2)" in caught.value.in_full


def test_operators_of_what_is_computed(baseline: Callable[[str], Submission]) -> None:
    assert served.operators(baseline, doubled_relu()) == {"Relu": 1, "Add": 1}


def test_a_file_in_hand_answers_batches_and_one_by_one(baseline: Callable[[str], Submission]) -> None:
    engine = served.server(baseline, "timed")
    assert engine is not served.server(baseline)
    engine.hold(doubled_relu())
    assert torch.equal(engine.served(BATCHES[1]), 2 * BATCHES[1].relu())
    engine.hold(doubled_relu(rows=1))
    assert torch.equal(engine.one_by_one(BATCHES[1]), 2 * BATCHES[1].relu())


def test_no_file_is_left(
    baseline: Callable[[str], Submission], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is written to be opened is gone again, also where it does not open."""
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path.with_name("cache")))  # torch's own, made when first used
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    served.operators(baseline, doubled_relu())
    served.answers(baseline, {"model.pt2": doubled_program()}, "model.pt2", BATCHES)
    with pytest.raises(Finding, match="does not open"):
        served.answers(baseline, {"model.onnx": as_tensor(b"no model")}, "model.onnx", [])
    assert list(tmp_path.iterdir()) == []
