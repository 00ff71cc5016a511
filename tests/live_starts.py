"""Three starts of a real vLLM, each with a known load: what the live tests look at afterwards."""

import os
import shutil
import signal
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from guest_kit import files, read
from live_kit import mounted, vllm_python
from live_server import Server, begin, models, prompt, serving, wait_until_up

from m3probe.schema import control, records

FLUSHED_S = 2.5
"""After it everything that the guests counted is in their files: a second, and a busy machine."""
ONE_CORE_EACH = "0|1" if (os.cpu_count() or 1) > 1 else "0|0"

SINGLE = [
    (prompt(n, length), tokens) for n, (length, tokens) in enumerate([(20, 6), (33, 1), (64, 9), (100, 4), (7, 12)])
]
TOGETHER = [(prompt(10 + n, 16 + 5 * n), 5 + n) for n in range(8)]
AGAIN = [(SINGLE[3][0], 3)]
"""The prompt of 100 tokens a second time: its full blocks are in the prefix cache."""
LOAD = [*SINGLE, *TOGETHER, *AGAIN]
PROMPT_TOKENS = sum(len(prompt) for prompt, _ in LOAD)
OUTPUT_TOKENS = sum(tokens for _, tokens in LOAD)


@dataclass
class Live:
    """A recording that was written while a server ran, and what the server itself counted meanwhile."""

    folder: Path
    metrics: dict[str, float] = field(default_factory=dict)
    before: dict[str, float] = field(default_factory=dict)
    armed: dict[int, control.Status] = field(default_factory=dict)
    detached: dict[int, control.Status] = field(default_factory=dict)
    seen: dict[str, dict[int, dict[str, Any]]] = field(default_factory=dict)
    """Testimonies of the witness plugin: while recording, detached, while recording again, and after that."""
    killed_ns: int = -1
    killed: Path = Path()
    again: Path = Path()
    """The recording of the server whose worker was killed."""

    def records(self, role: str) -> dict[int, list[records.AnyRecord]]:
        """Records of each process of a role, by rank (by pid for those without)."""
        found = {}
        for path in files(self.folder):
            kept, cut = read(path)
            assert cut.why == ""
            assert cut.skipped == 0
            who = [r for r in kept if isinstance(r, records.Process)][-1]
            if who.role == role:
                found[who.rank if who.rank >= 0 else who.pid] = kept
        return found


@pytest.fixture(scope="session")
def tiny_models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folders ``llama`` and ``qwen3moe``."""
    vllm_python()
    return models(tmp_path_factory.mktemp("models") / "tiny")


@pytest.fixture(scope="session")
def tp2(tmp_path_factory: pytest.TempPathFactory, tiny_models: Path) -> Live:
    """A tiny MoE on two ranks, eager, recorded from its start by M3PROBE=1; then detached, armed again, and killed."""
    folder = tmp_path_factory.mktemp("tp2")
    live = Live(folder / "rec", again=folder / "again")
    env = {"M3PROBE": "1", "M3PROBE_DIR": str(live.folder), "VLLM_CPU_OMP_THREADS_BIND": ONE_CORE_EACH}
    flags = ["--enforce-eager", "-tp", "2", "--block-size", "32"]
    site = mounted(folder / "site", witness=True)
    with serving(folder, tiny_models / "qwen3moe", *flags, site=site, **env) as server:
        _known_load(server)
        live.armed, live.metrics = server.guests(), server.metrics()
        live.seen["recording"] = server.witness("recording")
        live.detached = _detached(server)
        live.seen["detached"] = server.witness("detached")
        _arm(server, folder / "twice")
        live.seen["again"] = server.witness("again")
        live.detached |= _detached(server)
        live.seen["after"] = server.witness("after")
        _arm(server, live.again)
        _kill_a_worker(server, live)
    return live


@pytest.fixture(scope="session")
def pair(tmp_path_factory: pytest.TempPathFactory, tiny_models: Path) -> dict[str, Live]:
    """A prefill and a decode server, one core each, that share KV blocks through vLLM's example connector."""
    folder = tmp_path_factory.mktemp("pair")
    store, site = folder / "store", mounted(folder / "site")
    store.mkdir()
    servers: dict[str, Server] = {}
    found: dict[str, Live] = {}
    try:
        for core, role in enumerate(("kv_producer", "kv_consumer")):
            connector = (
                f'{{"kv_connector":"ExampleConnector","kv_role":"{role}",'
                f'"kv_connector_extra_config":{{"shared_storage_path":"{store}"}}}}'
            )
            flags = ["--enforce-eager", "--block-size", "32", "--kv-transfer-config", connector]
            flags += ["--shutdown-timeout", "20"] if role == "kv_consumer" else []
            bound = {"VLLM_CPU_OMP_THREADS_BIND": str(min(core, (os.cpu_count() or 1) - 1))}
            env = {"M3PROBE": "1", "M3PROBE_DIR": str(folder / f"rec-{role}"), **bound}
            servers[role] = begin(folder / role, tiny_models / "llama", *flags, site=site, **env)
        for server in servers.values():
            wait_until_up(server)
        servers["kv_producer"].complete(prompt(1, 160), 1)
        servers["kv_consumer"].complete(prompt(1, 160), 8)
        time.sleep(FLUSHED_S)
        for role, server in servers.items():
            found[role] = Live(folder / f"rec-{role}", metrics=server.metrics(), armed=server.guests())
    finally:
        for server in servers.values():
            server.stop()
    return found


@pytest.fixture(scope="session")
def injected(tmp_path_factory: pytest.TempPathFactory, tiny_models: Path) -> Iterator[tuple[Server, Path]]:
    """A compiled dense model, started without the plugin; it runs until the session ends."""
    folder = tmp_path_factory.mktemp("injected")
    env = {"VLLM_CPU_OMP_THREADS_BIND": "0", "VLLM_CACHE_ROOT": str(folder / "cache")}
    with serving(folder, tiny_models / "llama", **env) as server:
        yield server, folder


def _known_load(server: Server) -> None:
    for one, tokens in SINGLE:
        server.complete(one, tokens)
    server.load(TOGETHER)
    server.load(AGAIN)
    time.sleep(FLUSHED_S)


def _detached(server: Server) -> dict[int, control.Status]:
    answers = server.tell(control.Disarm(owner="M3PROBE=1"))
    return {answer.pid: answer for answer in answers if isinstance(answer, control.Status)}


def _arm(server: Server, folder: Path) -> None:
    for answer in server.tell(control.Arm(folder=str(folder), owner="live test")):
        assert isinstance(answer, control.Status), answer


def _kill_a_worker(server: Server, live: Live) -> None:
    """Requests run while it dies; the folder is copied at once, so that nothing later is taken for what was there."""
    worker = next(pid for pid, status in server.guests().items() if status.role == "worker" and status.rank == 1)
    server.load(TOGETHER)
    time.sleep(1.3)
    server.load(SINGLE[:1])
    live.killed_ns = time.monotonic_ns()
    os.kill(worker, signal.SIGKILL)
    time.sleep(0.2)
    live.killed = live.again.with_name("killed")
    shutil.copytree(live.again, live.killed)
    live.seen["killed"] = {worker: {}}
