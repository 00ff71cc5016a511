"""The plugin's three levels, and everything that may be wrong around it: it never raises, and leaves nothing behind."""

import os
from pathlib import Path

import pytest
from guest_kit import SERVE, files, only, read, run

from m3probe.schema import records

SEEN = """
import threading
print(sorted(t.name for t in threading.enumerate()))
print([type(f).__name__ for f in sys.meta_path if type(f).__module__.startswith("m3probe")])
print(os.path.exists(os.environ["M3PROBE_RUN"]))
"""
LASTING = {"worker_load", "worker_ready", "worker_ready_cpu", "engine_ready", "api_ready", "api_ready_offline"}


def left(tmp_path: Path) -> list[str]:
    """Everything below home, the temporary folder and the folder of sockets."""
    found = [p for name in ("home", "tmp", "run") for p in (tmp_path / name).rglob("*")]
    return [str(path.relative_to(tmp_path)) for path in found]


def test_0_starts_no_thread_watches_no_import_and_opens_no_socket(tmp_path: Path) -> None:
    done = run(
        tmp_path, "worker(); engine()" + SEEN + "print(probe, 'm3probe.collectors._probe' in sys.modules)", M3PROBE="0"
    )
    assert done.stderr == ""
    assert done.stdout.splitlines() == ["['MainThread']", "[]", "False", "None False"]
    assert left(tmp_path) == []


def test_unset_answers_a_socket_and_writes_no_file(tmp_path: Path) -> None:
    done = run(tmp_path, "worker(); engine()" + SEEN + "print(sorted(p.seam for p in probe.patches.standing))")
    assert done.stderr == ""
    threads, finders, folder, hooked = done.stdout.splitlines()
    assert threads == "['MainThread', 'm3probe-control']"
    assert (finders, folder) == ("['Watch']", "True")
    assert set(eval(hooked)) <= LASTING
    assert left(tmp_path) == []  # the socket went with the process


def test_unset_does_nothing_per_step(tmp_path: Path) -> None:
    """What a step calls is the object that vLLM defined."""
    script = """
import vllm.v1.core.sched.scheduler as module
before = vars(module.Scheduler)["schedule"]
engine(); worker()
print(vars(module.Scheduler)["schedule"] is before, probe.recording)
"""
    assert run(tmp_path, script).stdout.split() == ["True", "False"]


def test_1_records_from_the_moment_the_worker_is_warm(tmp_path: Path) -> None:
    done = run(tmp_path, "w = worker(); print(probe.recording)", M3PROBE="1", M3PROBE_DIR="rec")
    assert (done.stdout.strip(), done.stderr) == ("True", "")
    (file,) = files(tmp_path / "rec")
    found, cut = read(file)
    (process,) = only(records.Process, found)
    assert (process.role, process.rank, process.late, process.vllm) == ("worker", 0, False, "0.0.stand-in")
    started = {s.id: s.state for s in only(records.Seam, found) if s.id in LASTING}
    assert started == {"worker_load": "present", "worker_ready": "present"}
    assert isinstance(found[-1], records.End)
    assert (found[-1].reason, found[-1].left_behind, cut.why) == ("exit", (), "")


@pytest.mark.parametrize("level", ["", "0", "1"])
def test_a_process_without_a_part_in_serving_leaves_nothing(tmp_path: Path, level: str) -> None:
    """``vllm --help``, ``vllm bench`` and the child that inspects a model load the plugin and build nothing."""
    done = run(tmp_path, SEEN + "print(probe.roles if probe else None)", M3PROBE=level)
    assert done.returncode == 0
    assert done.stdout.splitlines()[0] == "['MainThread']"
    assert left(tmp_path) == []


@pytest.mark.parametrize("value", ["yes", "2", "-1", "0x1", "\udcff"])
def test_a_level_that_is_none_is_told_and_starts_nothing(tmp_path: Path, value: str) -> None:
    done = run(tmp_path, "worker()" + SEEN + "print(probe)", M3PROBE=value)
    assert done.returncode == 0
    assert done.stdout.splitlines() == ["['MainThread']", "[]", "False", "None"]
    assert "is neither 0 nor 1" in done.stderr


def test_all_processes_record_into_one_folder_wherever_they_stand(tmp_path: Path) -> None:
    """A relative folder is made absolute for children that change theirs."""
    script = """
import subprocess
worker()
subprocess.run([sys.executable, "-c", os.environ["SCRIPT"] + "\\nos.chdir('/'); engine()"], check=True)
"""
    done = run(tmp_path, script, M3PROBE="1", M3PROBE_DIR="./a/../rec", SCRIPT=SERVE)
    assert done.stderr == ""
    assert sorted(f.name.split("-")[0] for f in files(tmp_path / "rec")) == ["engine", "worker"]


@pytest.mark.skipif(os.geteuid() != 0, reason="as root, a folder under /proc is what cannot be written to")
@pytest.mark.parametrize("folder", ["/proc/1/nowhere", "/dev/null/x", "x" * 300])
def test_a_folder_that_cannot_be_made_is_told_and_serving_goes_on(tmp_path: Path, folder: str) -> None:
    script = "print(worker().load_model()); print(probe.recording, probe.status().stopped)"
    done = run(tmp_path, script, M3PROBE="1", M3PROBE_DIR=folder)
    assert done.stdout.splitlines()[0] == "loaded"
    assert done.stdout.splitlines()[1].startswith("False cannot record into ")
    assert done.stderr == ""


def test_where_home_is_read_only_the_recording_lies_in_the_temporary_folder(tmp_path: Path) -> None:
    done = run(tmp_path, "worker(); print(probe.status().folder)", M3PROBE="1", HOME="/proc/1")
    assert done.stdout.startswith(f"{tmp_path}/tmp/m3probe-")
    assert len(files(Path(done.stdout.strip()))) == 1


def test_a_home_that_is_writable_gets_it_below_its_state_folder(tmp_path: Path) -> None:
    done = run(tmp_path, "worker(); print(probe.status().folder)", M3PROBE="1")
    assert done.stdout.startswith(f"{tmp_path}/home/.local/state/m3probe/m3probe-")


@pytest.mark.parametrize("folder", ["", "   "])
def test_an_empty_folder_name_is_none(tmp_path: Path, folder: str) -> None:
    done = run(tmp_path, "worker(); print(probe.status().folder)", M3PROBE="1", M3PROBE_DIR=folder)
    assert done.stdout.startswith(f"{tmp_path}/home/")


def test_without_msgspec_the_server_starts_without_the_probe(tmp_path: Path) -> None:
    block = "import sys; sys.modules['msgspec'] = None\n"
    done = run(tmp_path, "print(worker().load_model(), probe)", begin=block + SERVE, M3PROBE="1")
    assert done.stdout.strip() == "loaded None"
    assert "m3probe: not started: ModuleNotFoundError" in done.stderr


def test_a_collector_that_cannot_be_loaded_takes_no_other_with_it(tmp_path: Path) -> None:
    """The reason is in the recording."""
    script = """
import m3probe.collectors
class Broken:
    def find_spec(self, name, path, target=None):
        if name == "m3probe.collectors.broken": raise SyntaxError("planted")
import pkgutil
real = pkgutil.iter_modules
def planted(path=None, prefix=""):
    yield from real(path, prefix)
    if list(path or []) == list(m3probe.collectors.__path__): yield pkgutil.ModuleInfo(None, "broken", False)
pkgutil.iter_modules = planted
sys.meta_path.insert(0, Broken())
worker(); print(probe.recording)
"""
    done = run(tmp_path, script, M3PROBE="1", M3PROBE_DIR="rec")
    assert (done.stdout.strip(), done.stderr) == ("True", "")
    notes = [n for n in only(records.Note, read(files(tmp_path / "rec")[0])[0]) if n.word == "part_failed"]
    assert [(n.text, n.lossy) for n in notes if n.text.startswith("broken")] == [("broken: SyntaxError: planted", True)]


def test_an_old_recording_in_the_folder_is_kept_and_told(tmp_path: Path) -> None:
    for _ in range(2):
        assert run(tmp_path, "worker()", M3PROBE="1", M3PROBE_DIR="rec").stderr == ""
    first, second = sorted(files(tmp_path / "rec"), key=lambda f: f.name.rsplit("-", 1)[1])
    assert not [n for n in only(records.Note, read(first)[0]) if n.word == "shared_folder"]
    assert [n.word for n in only(records.Note, read(second)[0]) if n.word == "shared_folder"] == ["shared_folder"]


def test_registering_twice_is_one_probe(tmp_path: Path) -> None:
    done = run(tmp_path, "_plugin.register(); print(_plugin.probe() is probe, len(sys.meta_path))")
    once = run(tmp_path, "print(len(sys.meta_path))")
    assert done.stdout.split() == ["True", once.stdout.strip()]
