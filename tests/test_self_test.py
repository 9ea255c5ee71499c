"""The machine's self-test: what works is told with a sign, what does not with what to do, and nothing is raised."""

from __future__ import annotations

from pathlib import Path

import pytest

from autograder import self_test as module
from autograder.self_test import Capability, SelfTest, self_test


@pytest.mark.slow
def test_here_all_that_the_course_needs_works(small_course: Path, capfd: pytest.CaptureFixture[str]) -> None:
    tested = self_test()
    assert len(tested.capabilities) == 7
    needed = [capability for capability in tested.capabilities if "bfloat16" not in capability.what]
    assert [c.text for c in needed if not c.works and "GPU" not in c.what and "1 core" not in c.what] == []
    assert capfd.readouterr() == ("", "")


def test_what_fails_is_told_with_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken() -> Capability:
        raise ImportError("libgomp.so.1 <missing>")

    monkeypatch.setattr(module, "_ATTEMPTS", {"ONNX Runtime": broken})
    tested = self_test()
    (failed,) = tested.capabilities
    assert failed.text.startswith(
        "– ONNX Runtime did not work: ImportError: libgomp.so.1 <missing>. Run `make install`"
    )
    assert "libgomp.so.1 &lt;missing&gt;" in tested._repr_html_()
    assert "Lines with –" in tested.summary


@pytest.mark.parametrize(("gain", "works"), [(1.1, False), (4.0, True)])
def test_a_machine_is_told_what_bfloat16_gains(monkeypatch: pytest.MonkeyPatch, gain: float, works: bool) -> None:
    monkeypatch.setattr(module, "product_gain", lambda device, dtype, product: gain)
    capability = module._bfloat16()
    assert capability.works is works and f"{gain} times as fast" in capability.what
    assert ("costs no points" in capability.means) is not works


def test_a_folder_that_cannot_be_written_is_told(small_course: Path) -> None:
    assert module._diary().works
    (small_course / ".progress").rmdir()
    (small_course / ".progress").write_text("a file in its place")
    assert not module._diary().works


def test_all_of_it_working_says_so() -> None:
    tested = SelfTest((Capability(True, "A training step."),))
    assert tested.text == "✓ A training step.\nThis machine can show everything. You can begin."
    assert repr(tested) == tested.text and "✓" in tested._repr_html_()
