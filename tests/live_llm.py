"""Runs a script of ``live_scripts`` in the environment that has vLLM, and reads what it printed and recorded."""

import json
import subprocess
from pathlib import Path
from typing import Any

from guest_kit import environment, files, read
from live_kit import mounted, vllm_python
from tree import ROOT

from m3probe.schema import records

SCRIPTS = ROOT / "tests" / "live_scripts"
MOST_S = 400.0


def outcome(script: str, folder: Path, *arguments: str) -> Any:
    """What the script says after ``OUTCOME``, from JSON; its first argument is ``folder``, a new one."""
    env = environment(folder) | {"PYTHONPATH": f"{mounted(folder / 'mounted')}:{SCRIPTS}"}
    command = [vllm_python(), SCRIPTS / script, folder, *arguments]
    done = subprocess.run(command, env=env, cwd=folder, capture_output=True, text=True, timeout=MOST_S, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    said = next(line for line in done.stdout.splitlines() if line.startswith("OUTCOME "))
    return json.loads(said.removeprefix("OUTCOME "))


def recorded(folder: Path) -> list[records.AnyRecord]:
    """What the worker of ``tiny_llm.py`` wrote, to the end."""
    (path,) = (p for p in files(folder / "rec") if p.name.startswith("worker"))
    kept, cut = read(path)
    assert cut.why == ""
    assert isinstance(kept[-1], records.End)
    return kept
