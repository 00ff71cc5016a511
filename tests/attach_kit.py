"""A /proc of one's own, a server that speaks like vLLM over HTTP, and processes with a guest that answers."""

import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

CAPS = "CapPrm:\t0\nCapEff:\t0\n"


def put_process(
    proc: Path,
    pid: int,
    *command: str,
    ppid: int = 1,
    state: str = "S (sleeping)",
    comm: str = "python",
    uid: int | None = None,
    environ: Mapping[str, str] | None = None,
    inner: int | None = None,
    cgroup: str = "0::/\n",
    pid_namespace: str = "pid:[1]",
) -> Path:
    """One process as /proc shows it."""
    at = proc / str(pid)
    (at / "ns").mkdir(parents=True)
    (at / "fd").mkdir()
    who = os.geteuid() if uid is None else uid
    ids = "\t".join([str(who)] * 4)
    status = f"Name:\t{comm}\nState:\t{state}\nPPid:\t{ppid}\nUid:\t{ids}\nNSpid:\t{pid}\t{inner or pid}\n{CAPS}"
    (at / "status").write_text(status)
    (at / "cmdline").write_bytes(b"".join(word.encode() + b"\0" for word in command))
    (at / "environ").write_bytes(b"".join(f"{k}={v}".encode() + b"\0" for k, v in (environ or {}).items()))
    (at / "cgroup").write_text(cgroup)
    (at / "ns" / "pid").symlink_to(pid_namespace)
    (at / "ns" / "mnt").symlink_to("mnt:[1]")
    return at


def new_proc(folder: Path) -> Path:
    """A /proc that holds only this process."""
    proc = folder / "proc"
    put_process(proc, os.getpid(), "pytest")
    (proc / "self").symlink_to(proc / str(os.getpid()))
    return proc


METRICS = """\
# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{{engine="0",model_name="m"}} 2.0
vllm:num_requests_waiting{{engine="0",model_name="m"}} 1.0
vllm:iteration_tokens_total_bucket{{engine="0",le="+Inf",model_name="m"}} {steps}
vllm:iteration_tokens_total_count{{engine="0",model_name="m"}} {steps}
process_start_time_seconds {started}
"""


class FakeVllm:
    """What one server answers; ``extra``: path -> (status, body), also of POST as ``POST /path``."""

    def __init__(self) -> None:
        self.started = [1000.0]
        """Start times, one for each scrape in turn."""
        self.scrapes = 0
        self.extra: dict[str, tuple[int, bytes]] = {}
        self.asked: list[tuple[str, str, dict[str, str]]] = []
        self.hang = threading.Event()
        self.port = 0

    def answer(self, method: str, path: str) -> tuple[int, bytes]:
        """Status and body of one request."""
        key = path if method == "GET" else f"{method} {path}"
        if key in self.extra:
            return self.extra[key]
        if key == "/version":
            return 200, b'{"version": "0.32.0"}'
        if key == "/v1/models":
            return 200, b'{"data": [{"id": "m", "max_model_len": 512}]}'
        if key == "/metrics":
            started = self.started[self.scrapes % len(self.started)]
            self.scrapes += 1
            return 200, METRICS.format(steps=100 + 10 * self.scrapes, started=started).encode()
        return 404, b"{}"


@contextmanager
def serving(fake: FakeVllm) -> Iterator[str]:
    """The address of ``fake`` while it serves."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._reply("GET")

        def do_POST(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length", 0)))
            self._reply("POST")

        def _reply(self, method: str) -> None:
            fake.asked.append((method, self.path, dict(self.headers)))
            status, body = fake.answer(method, self.path)
            if body == b"DRIP":
                self.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n1")
                self.wfile.flush()
                fake.hang.wait(30)
                return
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    fake.port = server.server_address[1]
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{fake.port}"
    finally:
        fake.hang.set()
        server.shutdown()
        server.server_close()


GUEST = """
import os, sys, time
from m3probe.collectors._control import Control
from m3probe.collectors._writer import Writer
from m3probe.schema import control, records
from m3probe.schema.roles import Level, Role
from pathlib import Path

class Guest:
    role, late = Role(sys.argv[1]), sys.argv[2] == "late"
    writer, owner, step = None, "", 0
    def answer(self, ask):
        if isinstance(ask, control.Arm):
            if self.writer:
                return control.Refused(text="already recording for " + self.owner)
            self.owner, self.step = ask.owner, 0
            path = Path(ask.folder) / f"{self.role}-0-{os.getpid()}-{time.time_ns() // 1_000_000}.m3p"
            self.writer = Writer(path, self.tick)
            self.writer.put(records.Process(role=self.role, pid=os.getpid(), env={"VLLM_X": sys.argv[3]}))
            self.writer.start()
        if isinstance(ask, control.Disarm) and self.writer:
            self.writer.close(lambda: records.End(mono_ns=time.monotonic_ns(), reason="detached"))
            self.writer = None
        if isinstance(ask, control.Verify):
            self.writer.put(records.Verified(module=ask.module, state=sys.argv[3], cosine=0.5, rows=4))
            return control.Done()
        self.step += 5
        return control.Status(
            pid=os.getpid(), role=self.role, roles=(self.role,), rank=0, vllm="0.99.0", late=self.late,
            captured=-1 if self.late else 3, level=Level.ARMED if self.writer else Level.LEDGER,
            step=self.step, owner=self.owner, folder="there" if self.writer else "",
            records=self.writer.records if self.writer else 7, hooks=9 if self.writer else 2,
        )
    def tick(self):
        self.writer.put(records.Sample(mono_ns=1, values={"a": 1.0}, source="test"))

control_socket = Control(Guest().answer)
control_socket.open()
print(control_socket.why_not or "up", flush=True)
time.sleep(120)
"""


@contextmanager
def guest(run: Path, role: str, *, late: bool = False, word: str = "1") -> Iterator[subprocess.Popen[str]]:
    """A process of its own in which a guest answers, its socket in ``run``."""
    command = [sys.executable, "-P", "-c", GUEST, role, "late" if late else "early", word]
    env = dict(os.environ) | {"M3PROBE_RUN": str(run)}
    with subprocess.Popen(command, env=env, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline().strip() == "up"
        try:
            yield process
        finally:
            process.kill()


class Heard:
    """Narration, kept; ``then`` is called at each look at the progress."""

    def __init__(self, then: Callable[[], None] = lambda: None) -> None:
        self.said: list[str] = []
        self.shown = 0
        self.recorded = False
        """Whether a guest has told of records that it wrote."""
        self._then = then

    def say(self, text: str) -> None:
        self.said.append(text)

    def show(self, now: Any) -> None:
        self.shown += 1
        self.recorded = any(row.records > 0 for row in now.rows)
        self._then()
