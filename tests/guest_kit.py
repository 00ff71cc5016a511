"""A process with the guest in it and stand-ins for the classes of vLLM that it hooks: for tests without vLLM."""

import os
import shutil
import socket
import subprocess
import sys
import time
from pathlib import Path

import msgspec
from tree import ROOT

import m3probe
from m3probe.schema import control, frames, records

HOME = Path(m3probe.__file__).parent.parent
"""The folder that holds the m3probe under test."""

WORKER = """
class WorkerBase:
    rank = 0
    local_rank = 0
    vllm_config = None
    device = None
"""
GPU_WORKER = """
from vllm.v1.worker.worker_base import WorkerBase
class Worker(WorkerBase):
    def load_model(self): return "loaded"
    def compile_or_warm_up_model(self): return "warm"
"""
SCHEDULER = """
class Scheduler:
    vllm_config = None
    def __init__(self, name="scheduler"): self.name = name
    def schedule(self): return 7
"""
CLIENT = """
class AsyncLLM:
    vllm_config = None
    def __init__(self): pass
"""
MODULES = {
    "vllm/v1/worker/worker_base.py": WORKER,
    "vllm/v1/worker/gpu_worker.py": GPU_WORKER,
    "vllm/v1/core/sched/scheduler.py": SCHEDULER,
    "vllm/v1/engine/async_llm.py": CLIENT,
}
SERVE = """
import os, sys, time
from m3probe.collectors import _plugin
_plugin.register()
def worker():
    from vllm.v1.worker.gpu_worker import Worker
    made = Worker()
    made.load_model()
    made.compile_or_warm_up_model()
    return made
def engine():
    from vllm.v1.core.sched.scheduler import Scheduler
    return Scheduler()
probe = _plugin.probe()
"""
"""Start of a script: the plugin is loaded; ``worker()`` and ``engine()`` build what a process of a server builds."""


def stand_ins(folder: Path) -> Path:
    """A folder for PYTHONPATH with the modules of vLLM that start-up hooks wait for."""
    for name, text in MODULES.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        for parent in path.relative_to(folder).parents:
            if parent != Path():
                (folder / parent / "__init__.py").touch()
    (folder / "vllm/__init__.py").write_text('__version__ = "0.0.stand-in"\n')
    return folder


def environment(tmp_path: Path, **env: str) -> dict[str, str]:
    """Variables of a server's process whose sockets, home and temporary files lie below ``tmp_path``."""
    for name in ("home", "tmp"):
        (tmp_path / name).mkdir(exist_ok=True)
    own = {
        "PYTHONPATH": f"{HOME}:{stand_ins(tmp_path / 'site')}",
        "HOME": str(tmp_path / "home"),
        "TMPDIR": str(tmp_path / "tmp"),
        "M3PROBE_RUN": str(tmp_path / "run"),
    }
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("M3PROBE", "XDG_", "PYTHON"))}
    return kept | own | env


def run(tmp_path: Path, script: str, *, begin: str = SERVE, **env: str) -> subprocess.CompletedProcess[str]:
    """Run a script to its end; its exit status is the caller's to judge."""
    return subprocess.run(
        [sys.executable, "-c", begin + script],
        env=environment(tmp_path, **env),
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def start(tmp_path: Path, script: str, **env: str) -> subprocess.Popen[str]:
    """Start a script and wait for the line that it prints first; the caller ends it."""
    process = subprocess.Popen(
        [sys.executable, "-u", "-c", SERVE + script],
        env=environment(tmp_path, **env),
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    process.stdout.readline()
    return process


def read(path: Path) -> tuple[list[records.AnyRecord], frames.Cut]:
    """Records of one file, and where reading ended."""
    data, cut = path.read_bytes(), frames.Cut()
    assert data.startswith(frames.MAGIC)
    return list(frames.records(data, cut, len(frames.MAGIC))), cut


def files(folder: Path) -> list[Path]:
    """Files of a recording."""
    return sorted(folder.glob(f"*{frames.SUFFIX}"))


def ask(path: Path, message: control.Ask) -> control.Answer:
    """One exchange with the guest behind a socket."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(10)
        for left in reversed(range(100)):  # a guest binds its socket a moment before it listens
            try:
                connection.connect(str(path))
                break
            except ConnectionRefusedError:
                if not left:
                    raise
                time.sleep(0.05)
        connection.sendall(frames.frame(message))
        received = b"".join(iter(lambda: connection.recv(65536), b""))
    payload = next(frames.payloads(received, frames.Cut()))
    return msgspec.msgpack.decode(payload, type=control.Answer)


def only(kind: type, found: list[records.AnyRecord]) -> list[records.AnyRecord]:
    """Records of one type."""
    return [record for record in found if isinstance(record, kind)]


def copied_tree(folder: Path) -> Path:
    """What a build needs, where it may write: pip builds in the tree that it is given."""
    left_out = {"build", "tests", "samples", "docs", "benchmarks"}
    shutil.copytree(ROOT, folder, ignore=lambda _at, names: [n for n in names if n in left_out or n.startswith(".")])
    return folder
