"""The files that describe the environment agree with each other.

The same versions are needed in three places: pyproject.toml has ranges, requirements.lock has all
exact versions, environment.yml repeats those of the direct dependencies for conda.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable
from importlib import metadata
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[2]


def read_lines(text: str) -> list[str]:
    """The lines of a requirements file that name a package."""
    return [line.strip() for line in text.splitlines() if line.strip() and not line.startswith("#")]


def by_name(lines: list[str]) -> dict[str, Requirement]:
    requirements = [Requirement(line) for line in lines]
    names = [canonicalize_name(requirement.name) for requirement in requirements]
    assert len(names) == len(set(names)), "a package is named twice"
    return dict(zip(names, requirements, strict=True))


def exact_version(requirement: Requirement) -> str:
    (specifier,) = requirement.specifier
    assert specifier.operator == "==", f"{requirement} is not one exact version"
    assert not specifier.version.endswith(".*"), f"{requirement} is not one exact version"
    return specifier.version


PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
RUNTIME = by_name(PYPROJECT["project"]["dependencies"])
DEV = by_name(PYPROJECT["project"]["optional-dependencies"]["dev"])
SITE = by_name(PYPROJECT["project"]["optional-dependencies"]["site"])
CLUSTER = by_name(PYPROJECT["project"]["optional-dependencies"]["cluster"])
BUILD = by_name(PYPROJECT["build-system"]["requires"])
LOCK_TEXT = (ROOT / "requirements.lock").read_text(encoding="utf-8")
LOCK = by_name(read_lines(LOCK_TEXT))

CONDA = yaml.safe_load((ROOT / "environment.yml").read_text(encoding="utf-8"))
CONDA_PIP_LINES = next(entry["pip"] for entry in CONDA["dependencies"] if isinstance(entry, dict))
CONDA_PIP = by_name([line for line in CONDA_PIP_LINES if not line.startswith("-")])


def test_lock_pins_each_package_to_one_version():
    for requirement in LOCK.values():
        exact_version(requirement)


def test_lock_names_no_place_to_download_from():
    # Comments included: where packages come from is up to the user's own pip settings.
    assert "://" not in LOCK_TEXT
    assert " @ " not in LOCK_TEXT
    assert not [line for line in read_lines(LOCK_TEXT) if line.startswith("-")]


def test_lock_leaves_the_build_of_torch_open():
    assert "+" not in exact_version(LOCK["torch"])
    assert not [name for name in LOCK if name.startswith(("nvidia-", "cuda-")) or name == "triton"]


def test_lock_leaves_out_installers_and_the_project():
    assert not {"pip", "wheel", "torch-clinic"} & LOCK.keys()
    # But not setuptools: nbgrader imports it.
    assert "setuptools" in LOCK


@pytest.mark.parametrize(
    "group", [RUNTIME, DEV, SITE, CLUSTER, BUILD], ids=["runtime", "dev", "site", "cluster", "build"]
)
def test_direct_dependencies_are_locked_within_their_range(group: dict[str, Requirement]):
    for name, requirement in group.items():
        assert name in LOCK, f"{name} is in pyproject.toml, but not in requirements.lock"
        assert requirement.specifier.contains(exact_version(LOCK[name])), requirement
        assert str(requirement.marker) == str(LOCK[name].marker), f"{name}: other marker in the lock"


def test_what_two_groups_name_has_one_range():
    for group in (CLUSTER, SITE):
        for name in DEV.keys() & group.keys():
            assert str(DEV[name]) == str(group[name])


def test_conda_pins_the_direct_dependencies_to_the_locked_versions():
    expected = {name: str(LOCK[name]) for name in [*RUNTIME, "setuptools"]}
    assert {name: str(requirement) for name, requirement in CONDA_PIP.items()} == expected


def test_conda_installs_the_project_itself():
    assert [line for line in CONDA_PIP_LINES if line.startswith("-")] == ["-e ."]


def test_conda_uses_a_python_the_project_supports():
    (python,) = [e for e in CONDA["dependencies"] if isinstance(e, str) and e.startswith("python=")]
    assert SpecifierSet(PYPROJECT["project"]["requires-python"]).contains(python.removeprefix("python="))


def test_makefile_installs_the_locked_torch():
    makefile = (ROOT / "make" / "common.mk").read_text(encoding="utf-8")
    usual = re.search(r"^USUAL_TORCH\s*:=\s*(\S+)$", makefile, re.MULTILINE)
    assert usual is not None
    assert usual.group(1) == str(LOCK["torch"])


def _needed(names: Iterable[str]) -> set[str]:
    """The packages of these names and all that they need in turn, as far as they are installed here."""
    needed: set[str] = set()
    waiting = {(canonicalize_name(name), "") for name in names}
    done: set[tuple[str, str]] = set()
    while waiting:
        name, extra = waiting.pop()
        done.add((name, extra))
        needed.add(name)
        try:
            lines = metadata.requires(name) or []
        except metadata.PackageNotFoundError:  # for another system
            continue
        for requirement in map(Requirement, lines):
            if requirement.marker is None or requirement.marker.evaluate({"extra": extra}):
                found = {(canonicalize_name(requirement.name), more) for more in ("", *requirement.extras)}
                waiting |= found - done
    return needed


def test_learners_are_spared_what_only_developers_need():
    """``make release`` takes these packages out of the learners' lock: nothing that the course needs is among them."""
    needed = _needed([*RUNTIME, "setuptools"])
    spared = [name for name in LOCK if name not in needed]
    lines = (ROOT / "release" / "developers_only.txt").read_text(encoding="utf-8").splitlines()
    assert [canonicalize_name(line) for line in lines] == spared
    names_in_lock = {line.partition("==")[0] for line in read_lines(LOCK_TEXT)}
    assert set(lines) <= names_in_lock, "spell them as the lock does"


def test_each_dependency_says_why_it_is_there():
    lines = (ROOT / "pyproject.toml").read_text(encoding="utf-8").splitlines()
    for name, requirement in {**RUNTIME, **DEV, **SITE}.items():
        start = re.compile(rf"""\s+["']{re.escape(requirement.name)}[<>=]""")
        found = [line for line in lines if start.match(line)]
        assert found, f"{name} stands on no line of its own"
        assert all(re.search(r",\s+# \S", line) for line in found), f"{name} has no reason next to it"
