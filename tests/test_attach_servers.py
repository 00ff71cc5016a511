"""Which processes are a vLLM server, and which of several is meant."""

from pathlib import Path

import pytest
from attach_kit import new_proc, put_process

from m3probe.attach.servers import find
from m3probe.errors import UnreadableInput, UsageError
from m3probe.schema.roles import Role

SERVE = ("/usr/bin/python3", "/usr/local/bin/vllm", "serve", "some/model")


@pytest.fixture
def proc(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """One server at tensor parallel size 2 below a shell, with a spawn helper and a child that has no title."""
    monkeypatch.setenv("M3PROBE_RUN", str(tmp_path / "run"))
    made = new_proc(tmp_path)
    put_process(made, 100, "bash", "run.sh")
    put_process(made, 200, *SERVE, ppid=100)
    put_process(made, 201, "python", "-c", "from multiprocessing.resource_tracker import main;main(33)", ppid=200)
    put_process(made, 300, "VLLM::EngineCore", ppid=200, comm="VLLM::EngineCor")
    put_process(made, 401, "VLLM::Worker_TP0", ppid=300, comm="VLLM::Worker_TP")
    put_process(made, 402, "VLLM::Worker_TP1", ppid=300, comm="VLLM::Worker_TP")
    put_process(made, 403, "python", "-c", "from multiprocessing.spawn import spawn_main; spawn_main(1)", ppid=300)
    return made


def pids(proc: Path, target: str) -> list[int]:
    return [member.pid for member in find(target, proc).members]


@pytest.mark.parametrize("target", ["auto", "100", "200", "300", "402"])
def test_any_process_of_the_tree_and_what_started_it_name_the_server(proc: Path, target: str) -> None:
    assert pids(proc, target) == [200, 300, 401, 402, 403]


def test_roles_come_from_command_lines_and_not_from_the_cut_comm(proc: Path) -> None:
    roles = {member.pid: member.role for member in find("auto", proc).members}
    assert roles == {200: Role.API, 300: Role.ENGINE, 401: Role.WORKER, 402: Role.WORKER, 403: Role.UNKNOWN}


def test_a_zombie_worker_is_a_member_with_its_state(proc: Path) -> None:
    put_process(proc, 404, ppid=300, state="Z (zombie)", comm="VLLM::Worker_TP")
    last = next(member for member in find("auto", proc).members if member.pid == 404)
    assert last.process.zombie
    assert last.name == "VLLM::Worker_TP"


def test_of_two_servers_auto_takes_none_and_lists_both(proc: Path) -> None:
    put_process(proc, 900, "python3", "-m", "vllm.entrypoints.openai.api_server", "--port", "9000")
    with pytest.raises(UsageError) as refused:
        find("auto", proc)
    assert "200: /usr/bin/python3 /usr/local/bin/vllm serve" in refused.value.what
    assert "--port 9000" in refused.value.what
    assert pids(proc, "900") == [900]


def test_data_parallel_front_ends_are_one_server(proc: Path) -> None:
    put_process(proc, 210, "VLLM::APIServer_0", ppid=200)
    put_process(proc, 211, "VLLM::APIServer_1", ppid=200)
    put_process(proc, 212, "VLLM::DPCoordinator", ppid=200)
    put_process(proc, 301, "MINE::EngineCore_DP1", ppid=200)
    found = {member.pid: member.role for member in find("auto", proc).members}
    assert {pid: found[pid] for pid in (210, 211, 212, 301)} == {
        210: Role.API,
        211: Role.API,
        212: Role.UNKNOWN,
        301: Role.ENGINE,
    }


@pytest.mark.parametrize(
    ("target", "words"),
    [("77777", "no such process"), ("500", "nothing of vLLM in it"), ("501", "has ended and waits for its parent")],
)
def test_a_pid_that_is_no_server_is_refused_in_words(proc: Path, target: str, words: str) -> None:
    put_process(proc, 500, "nginx")
    put_process(proc, 501, state="Z (zombie)", comm="nginx")
    with pytest.raises(UnreadableInput, match=words):
        find(target, proc)


def test_a_script_that_holds_the_engine_itself_is_told_by_vllms_libraries(proc: Path) -> None:
    at = put_process(proc, 600, "python", "offline.py")
    (at / "maps").write_text("7f0-7f1 r-xp 0 08:01 1 /v/lib/python3.12/site-packages/vllm/_C.abi3.so\n")
    assert pids(proc, "600") == [600]


def test_a_process_with_a_socket_is_a_server_without_any_title(proc: Path, tmp_path: Path) -> None:
    put_process(proc, 700, "python", "mine.py", environ={"M3PROBE_RUN": str(tmp_path)})
    (tmp_path / "700.sock").touch()
    assert pids(proc, "700") == [700]


def test_no_server_says_where_else_to_look(tmp_path: Path) -> None:
    with pytest.raises(UnreadableInput) as refused:
        find("auto", new_proc(tmp_path))
    assert "docker exec" in refused.value.next_move
