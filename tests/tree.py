"""Where the tree's rooms lie and what is in them; shared by the tests that look at files instead of behaviour."""

import os
import subprocess
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
ROOMS = {
    "m3probe": "m3probe",
    "m3probe.analyzers": "analyzers",
    "m3probe.collectors": "collectors",
    "m3probe.tui": "tui",
}


def kept_files() -> list[str]:
    """Every file of the tree that git keeps or would keep, below the root; skips where this is no clone of it."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    if not (ROOT / ".git").exists():
        pytest.skip("no clone: git alone knows which files are the tree's")
    said = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    return sorted(name for name in said.split("\0") if name and (ROOT / name).is_file())


def room_files(folder: str) -> list[Path]:
    """Every file of one top-level folder that git would keep; a folder that does not exist yet has none."""
    found = (path for path in (ROOT / folder).rglob("*") if path.is_file())
    return sorted(path for path in found if "__pycache__" not in path.parts and path.suffix != ".pyc")


@cache
def installed_names() -> dict[str, Path]:
    """Path inside the wheel -> file on disk, for every file of every room that has code."""
    names: dict[str, Path] = {}
    for package, folder in ROOMS.items():
        if (ROOT / folder / "__init__.py").is_file():
            inside = package.replace(".", "/")
            names |= {f"{inside}/{path.relative_to(ROOT / folder)}": path for path in room_files(folder)}
    return names


@cache
def modules() -> dict[str, Path]:
    """Dotted import name -> source file, for every module of every room that has code."""
    sources = {name: path for name, path in installed_names().items() if name.endswith(".py")}
    return {
        name.removesuffix(".py").replace("/", ".").removesuffix(".__init__"): path for name, path in sources.items()
    }


BUNDLED = {
    "traces/h200-m3/h200-m3-tp4rank-graph.pt.trace.json.gz": ROOT
    / "samples"
    / "h200-m3-tp4rank-graph.pt.trace.json.gz",
    "traces/h200-m3/h200-m3-tp4rank-eager.pt.trace.json.gz": ROOT
    / "samples"
    / "h200-m3-tp4rank-eager.pt.trace.json.gz",
}


def shared_or_skip(path: str) -> Path:
    """A real recording: bundled, or from the folder beside the tree ($M3PROBE_SHARED); skips where it is nowhere."""
    if path in BUNDLED:
        return BUNDLED[path]
    if path.startswith("cases/"):
        return ROOT / "tests" / "data" / path
    found = Path(os.environ.get("M3PROBE_SHARED", ROOT.parent / "shared")) / path
    if not found.exists():
        pytest.skip(f"real recording {path} is not here (set M3PROBE_SHARED to the folder that holds it)")
    return found
