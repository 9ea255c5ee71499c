"""Devices, what they can show, and the fingerprint that goes into every report."""

from __future__ import annotations

import contextlib
import os
import platform
import sys
from collections.abc import Iterator, Mapping
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from autograder.errors import ClinicError

_LIBRARIES = ("torch", "numpy", "nbgrader", "torch-clinic")


def resolve_device(name: str) -> str:
    """The device to grade on: *name* as torch spells it, or the accelerator that is there for ``auto``, else ``cpu``.

    Raises :class:`ClinicError` where the machine has no such device.
    """
    if name == "cpu":
        return name
    import torch

    accelerator = torch.accelerator.current_accelerator() if torch.accelerator.is_available() else None
    if name == "auto":
        return accelerator.type if accelerator is not None else "cpu"
    try:
        wanted = torch.device(name)
    except RuntimeError:
        raise ClinicError(f"--device {name}: torch knows no such device. Say cpu, cuda, mps or auto.") from None
    if accelerator is None or wanted.type != accelerator.type:
        has = "only a CPU" if accelerator is None else f"a CPU and {accelerator.type}"
        raise ClinicError(f"--device {name}: this machine has {has}. Leave --device out to grade on the CPU.")
    return name


@cache
def processor() -> str:
    """The processor's name as the system gives it."""
    try:
        with open("/proc/cpuinfo") as file:
            for line in file:
                if line.startswith("model name"):
                    return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


def usable_cores() -> int:
    """Cores that this process may run on."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@contextlib.contextmanager
def one_thread() -> Iterator[None]:
    """Let torch compute on one thread only: it then never waits for a second one to get its turn."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def machine_class(hardware: Mapping[str, Any]) -> str:
    """What machines have in common on which a verdict may be taken over: of a :func:`fingerprint`, what counts.

    That is processor, cores, device, accelerator (where it is the device), and the versions of Python and torch.
    """
    facts = [hardware[key] for key in ("processor", "cores", "device", "python", "torch")]
    facts.append(str(hardware["system"]).partition(" ")[0])  # not the kernel's release
    if hardware["device"] != "cpu":
        facts.append(hardware["accelerator"])
    return " | ".join(map(str, facts))


def _accelerator() -> str:
    """The accelerators of this machine in words: how many, of what kind."""
    import torch

    if not torch.accelerator.is_available():
        return "none"
    if torch.cuda.is_available():
        return f"{torch.cuda.device_count()} x {torch.cuda.get_device_name()}"
    found = torch.accelerator.current_accelerator()
    return f"{torch.accelerator.device_count()} x {found.type if found else 'unknown'}"


def fingerprint(device: str = "cpu", **more: Any) -> dict[str, Any]:
    """What a result depends on: processor, cores, accelerator, versions; *more* adds threads, isolation, seed."""
    return {**_facts(device, _accelerator()), **more}


def machine_class_here(device: str) -> str:
    """The :func:`machine_class` of this machine; for ``cpu`` found without importing torch, which takes seconds."""
    return machine_class(_facts(device, _accelerator() if device != "cpu" else ""))


def _facts(device: str, accelerator: str) -> dict[str, Any]:
    facts: dict[str, Any] = {
        "system": f"{platform.system()} {platform.release()}",
        "processor": processor(),
        "cores": usable_cores(),
        "accelerator": accelerator,
        "device": device,
        "python": sys.version.split()[0],
    }
    for library in _LIBRARIES:
        try:
            facts[library] = version(library)
        except PackageNotFoundError:
            facts[library] = "not installed"
    return facts
