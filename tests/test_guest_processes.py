"""A server is a tree of processes: forked, spawned, killed, and several of each kind in one folder."""

import json
import os
import signal
import time
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from guest_kit import ask, files, only, read, run, start

from m3probe.schema import control, records


def by_role(folder: Path) -> dict[str, list[Path]]:
    found: dict[str, list[Path]] = {}
    for path in files(folder):
        found.setdefault(path.name.split("-")[0], []).append(path)
    return found


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_each_process_of_a_server_has_a_file_that_ends_in_order(tmp_path: Path, method: str) -> None:
    """vLLM forks its engine and workers by default; a forked child runs no atexit function."""
    (tmp_path / "server.py").write_text(
        "import multiprocessing, sys\n"
        "from guest_kit import SERVE\n"
        "exec(SERVE)\n"
        "if __name__ == '__main__':\n"
        "    engine()\n"
        f"    context = multiprocessing.get_context({method!r})\n"
        "    children = [context.Process(target=worker) for _ in range(2)]\n"
        "    [child.start() for child in children]; [child.join() for child in children]\n"
        "    print([child.exitcode for child in children])\n"
    )
    kit = f"import sys, runpy; sys.path.insert(0, {str(Path(__file__).parent)!r})\n"
    script = kit + "import os; os.environ['PYTHONPATH'] += ':' + sys.path[0]; sys.argv = ['server.py']\n"
    call = "runpy.run_path('server.py', run_name='__main__')"
    with TemporaryDirectory() as short:  # a fork server's socket lies in it, whose path is at most 107 bytes
        done = run(tmp_path, call, begin=script, M3PROBE="1", M3PROBE_DIR="rec", TMPDIR=short)
    assert (done.stdout.strip(), done.stderr) == ("[0, 0]", "")
    found = by_role(tmp_path / "rec")
    assert {role: len(paths) for role, paths in found.items()} == {"engine": 1, "worker": 2}
    for path in files(tmp_path / "rec"):
        read_back, cut = read(path)
        (process,) = only(records.Process, read_back)
        assert str(process.pid) == path.name.split("-")[-2]
        assert isinstance(read_back[-1], records.End)
        assert (read_back[-1].reason, cut.why) == ("exit", "")


def test_a_child_forked_while_recording_leaves_the_parent_s_file_alone(tmp_path: Path) -> None:
    script = """
from m3probe.schema import records
worker()
for n in range(3): probe.put(records.Note(word="parent", text=str(n)))
pid = os.fork()
if not pid:
    probe.put(records.Note(word="child", text=""))
    status = probe.status()
    print(status.roles, probe.recording, probe.owner, flush=True)
    engine(); probe.put(records.Note(word="child", text="own"))
    probe.leave(); os._exit(0)
os.waitpid(pid, 0)
time.sleep(1.2)
probe.put(records.Note(word="parent", text="after"))
"""
    done = run(tmp_path, script, M3PROBE="1", M3PROBE_DIR="rec")
    assert (done.stdout.strip(), done.stderr) == ("() False", "")
    found = by_role(tmp_path / "rec")
    words = {
        role: [(n.word, n.text) for n in only(records.Note, read(paths[0])[0]) if n.word in {"parent", "child"}]
        for role, paths in found.items()
    }
    assert words == {"worker": [("parent", t) for t in ("0", "1", "2", "after")], "engine": [("child", "own")]}


def test_each_process_has_a_socket_and_takes_it_along(tmp_path: Path) -> None:
    script = """
pid = os.fork()
engine() if pid else worker()
print("up", flush=True)
time.sleep(60)
"""
    process = start(tmp_path, script)
    try:
        deadline = time.monotonic() + 10
        while len(sockets := list((tmp_path / "run").glob("*.sock"))) < 2 and time.monotonic() < deadline:
            time.sleep(0.05)
        answers = [ask(path, control.Hello()) for path in sockets]
        assert {a.role for a in answers if isinstance(a, control.Status)} == {"engine", "worker"}
        assert {f"{a.pid}.sock" for a in answers if isinstance(a, control.Status)} == {p.name for p in sockets}
    finally:
        for path in (tmp_path / "run").glob("*.sock"):
            os.kill(int(path.stem), signal.SIGKILL)
        process.wait()


def test_sigterm_as_vllm_handles_it_leaves_an_end_and_no_socket(tmp_path: Path) -> None:
    """vLLM's worker raises SystemExit from its handler."""
    script = """
import signal
def handler(*_): raise SystemExit
signal.signal(signal.SIGTERM, handler)
worker(); print("up", flush=True)
while True: time.sleep(0.01)
"""
    process = start(tmp_path, script, M3PROBE="1", M3PROBE_DIR=str(tmp_path / "rec"))
    process.terminate()
    started = time.monotonic()
    assert process.wait(timeout=10) == 0
    assert time.monotonic() - started < 5
    assert isinstance(read(files(tmp_path / "rec")[0])[0][-1], records.End)
    assert list((tmp_path / "run").iterdir()) == []


def test_several_engines_share_one_folder_and_its_manifest_is_the_first_one_s(tmp_path: Path) -> None:
    script = """
import multiprocessing
context = multiprocessing.get_context("fork")
children = [context.Process(target=target) for target in (engine, engine, worker, worker)]
[child.start() for child in children]; [child.join() for child in children]
"""
    done = run(tmp_path, script, M3PROBE="1", M3PROBE_DIR="rec", API_KEY="k")
    assert done.stderr == ""
    found = by_role(tmp_path / "rec")
    assert {role: len(paths) for role, paths in found.items()} == {"engine": 2, "worker": 2}
    manifest = json.loads((tmp_path / "rec/manifest.json").read_text())
    pids = [int(path.name.split("-")[-2]) for path in files(tmp_path / "rec")]
    assert manifest["pid"] in pids
    assert manifest["started"].startswith("20")
    notes = [n for path in files(tmp_path / "rec") for n in only(records.Note, read(path)[0])]
    assert [n for n in notes if n.word == "shared_folder"] == []  # one server, one recording
    assert sorted(p.name for p in (tmp_path / "rec").iterdir() if not p.name.endswith(".m3p")) == ["manifest.json"]


def test_the_manifest_s_command_holds_no_key(tmp_path: Path) -> None:
    script = "sys.orig_argv[:] = ['vllm', 'serve', '--api-key', 's1', 's2', '--port', '1', '--hf-token=s3']; worker()"
    run(tmp_path, script, M3PROBE="1", M3PROBE_DIR="rec")
    command = json.loads((tmp_path / "rec/manifest.json").read_text())["command"]
    assert command == ["vllm", "serve", "--api-key", "(hidden)", "(hidden)", "--port", "1", "--hf-token=(hidden)"]


def test_a_late_probe_finds_what_the_collector_of_garbage_does_not_show(tmp_path: Path) -> None:
    """vLLM freezes its objects after start-up: they are in no generation, and must be frozen again afterwards."""
    script = """
import gc
class Sub(__import__("vllm.v1.worker.gpu_worker", fromlist=["Worker"]).Worker): rank = 3
w, e = Sub(), engine()
gc.collect(); gc.freeze()
frozen, shown = gc.get_freeze_count(), any(o is w for o in gc.get_objects())
_plugin.inject()
deadline = time.monotonic() + 10
while (_plugin.probe() is None or len(_plugin.probe().roles) < 2) and time.monotonic() < deadline: time.sleep(0.01)
p = _plugin.probe()
print(shown, p.roles == ["worker", "engine"], p.host("worker") is w, p.status().late, p.status().captured, p.status().rank)
print(gc.get_freeze_count() >= frozen, gc.isenabled(), any(o is w for o in gc.get_objects()))
"""
    done = run(tmp_path, script, begin=run.__globals__["SERVE"].replace("_plugin.register()", "pass"))
    assert done.stderr == ""
    assert done.stdout.splitlines() == ["False True True True -1 3", "True True False"]
