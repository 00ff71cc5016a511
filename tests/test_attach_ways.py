"""Ways into a running server: what ptrace needs, the matrix of methods, other containers, other users."""

import json
import os
from pathlib import Path

import pytest
from attach_kit import new_proc, put_process

from m3probe.attach import proc as processes
from m3probe.attach import ptrace
from m3probe.attach.advice import Situation, advice
from m3probe.attach.asked import Asked
from m3probe.attach.containers import container_id, way_in
from m3probe.attach.servers import find
from m3probe.attach.within import check_within
from m3probe.errors import UnreadableInput

CASES = Path(__file__).parent / "data" / "cases"
X01 = json.loads((CASES / "x01_proc_status.expected.json").read_text())
X03 = json.loads((CASES / "x03_attach_matrix.json").read_text())["rows"]
SERVE = ("/usr/bin/python3", "-m", "vllm.entrypoints.openai.api_server", "--model", "m")
HEX = "0123456789abcdef" * 4
# What each row of the matrix asks for, in words that its advice must hold.
WANTED = [
    ("works", "3.14"),
    ("cannot read the script file", "0600"),
    ("3.14 on both sides", "vllm.general_plugins"),
    ("versions must match", "3.13"),
    ("SYS_PTRACE", "ptrace_scope"),
    ("musl", "not tried"),
    ("EngineCore and the workers", "which processes have it"),
    ("absent in forked workers", "each pid, not assumed"),
    ("skipped", "zombie"),
    ("gone between list and attach", "the others go on"),
    ("never switched on", "through uvloop itself, not through asyncio's policy"),
    ("PYTHONPATH before the fork server", "each pid, not assumed"),
]


def status(name: str) -> str:
    return (CASES / "x01_proc_status" / name).read_text()


@pytest.mark.parametrize(("name", "allowed"), X01["checks"]["files"].items())
def test_only_the_effective_set_gives_sys_ptrace(name: str, allowed: bool) -> None:
    assert ptrace.has_sys_ptrace(status(name)) is allowed
    assert X01["checks"]["bit"] == ptrace.SYS_PTRACE
    assert X01["checks"]["advice"].split(" or ")[0] in ptrace.ADVICE


@pytest.mark.parametrize(
    ("own", "target", "scope", "why"),
    [
        ("with_sys_ptrace.txt", "user_bounding_only.txt", "2", ""),
        ("with_sys_ptrace.txt", "docker_default.txt", "3", "ptrace_scope is 3"),
        ("docker_default.txt", "docker_default.txt", "1", "only descendants"),
        ("docker_default.txt", "user_bounding_only.txt", "", "runs as uid 1000, this is uid 0"),
        ("user_bounding_only.txt", "docker_default.txt", "0", "runs as uid 0, this is uid 1000"),
        ("user_bounding_only.txt", "user_bounding_only.txt", "0", ""),
        ("user_bounding_only.txt", "user_bounding_only.txt", "", ""),
    ],
)
def test_tracing_is_refused_with_the_rule_that_refuses_it(own: str, target: str, scope: str, why: str) -> None:
    said = ptrace.refusal(status(own), status(target), scope)
    assert why in said
    assert bool(said) is bool(why)


def test_a_target_with_more_capabilities_than_oneself_may_not_be_traced() -> None:
    own = "Uid:\t5\t5\t5\t5\nCapPrm:\t0\nCapEff:\t0\n"
    assert "capabilities" in ptrace.refusal(own, own.replace("CapPrm:\t0", "CapPrm:\t1"), "")
    assert ptrace.refusal(own, own, "") == ""


@pytest.mark.parametrize(("row", "words"), list(zip(X03, WANTED, strict=True)), ids=range(12))
def test_each_row_of_the_attach_matrix_gets_its_cause_and_remedy(
    row: dict[str, object], words: tuple[str, ...]
) -> None:
    told = advice(Situation(**{key: value for key, value in row.items() if key != "want"}))
    assert [word for word in words if word not in told] == []
    assert "\n" not in told
    assert len(told) < 320


@pytest.mark.parametrize(
    "line",
    [
        f"0::/system.slice/docker-{HEX}.scope",
        f"12:devices:/docker/{HEX}",
        f"0::/kubepods.slice/kubepods-pod1.slice/cri-containerd-{HEX}.scope",
        f"0::/kubepods/besteffort/pod12/{HEX}",
        f"0::/machine.slice/libpod-{HEX}.scope",
    ],
)
def test_the_container_is_named_by_its_cgroup(line: str) -> None:
    assert container_id(line) == HEX


def test_a_cgroup_without_a_container_names_none() -> None:
    assert container_id("0::/user.slice/user-1000.slice/session-1.scope") == ""


def test_a_server_in_another_container_is_not_touched_and_the_docker_line_is_told(tmp_path: Path) -> None:
    proc = new_proc(tmp_path)
    cgroup = f"0::/system.slice/docker-{HEX}.scope\n"
    put_process(proc, 4711, *SERVE, inner=7, cgroup=cgroup, pid_namespace="pid:[2]")
    with pytest.raises(UnreadableInput) as refused:
        check_within(find("4711", proc), Asked("4711", seconds=30, proc=proc))
    assert "another container" in refused.value.what
    assert f"docker exec -it {HEX[:12]} m3probe attach 7 --seconds 30" in refused.value.next_move


def test_a_server_in_a_pod_gets_kubectl_exec_and_debug() -> None:
    lines = way_in(f"0::/kubepods/pod1/{HEX}", {"HOSTNAME": "vllm-0"}, 1, ("--inject",))
    assert lines[0] == "kubectl exec -it vllm-0 -- m3probe attach 1 --inject"
    assert "kubectl debug -it vllm-0" in lines[1]
    assert "--target=" in lines[1]
    assert lines[1].endswith("nsenter -t 1 -m -- m3probe attach 1 --inject")


def test_a_pod_whose_name_needs_quotes_gets_them() -> None:
    (first, _) = way_in("/kubepods", {"HOSTNAME": "a; rm -rf x"}, 1)
    assert first == "kubectl exec -it 'a; rm -rf x' -- m3probe attach 1"


def test_another_users_server_is_refused_with_the_sudo_line(tmp_path: Path) -> None:
    proc = new_proc(tmp_path)
    put_process(proc, 4711, *SERVE, uid=os.geteuid() + 1)
    with pytest.raises(UnreadableInput) as refused:
        check_within(find("4711", proc), Asked("4711", proc=proc))
    assert f"runs as uid {os.geteuid() + 1}, this is uid {os.geteuid()}" in refused.value.what
    assert f"sudo -u '#{os.geteuid() + 1}' m3probe attach 4711" in refused.value.next_move


def test_an_environment_that_a_renamed_process_wrote_over_is_unknown(tmp_path: Path) -> None:
    proc = new_proc(tmp_path)
    at = put_process(proc, 5, "VLLM::EngineCore", environ={"VLLM_A": "1"})
    assert processes.environ(5, proc) == {"VLLM_A": "1"}
    (at / "environ").write_bytes(b"\0" * 40 + b"LEFT=1\0")
    assert processes.environ(5, proc) is None
    assert processes.environ(6, proc) is None


def test_limits_and_sockets_are_read_from_proc(tmp_path: Path) -> None:
    proc = new_proc(tmp_path)
    at = put_process(proc, 5, "x")
    (at / "limits").write_text(
        "Limit  Soft Limit  Hard Limit  Units\nMax open files            1024     unlimited  files\n"
    )
    (at / "fd" / "3").symlink_to("socket:[77]")
    (at / "net").mkdir()
    head = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n"
    row = "   0: 0100007F:1F40 00000000:0000 {} 00000000:00000000 00:00000000 00000000     0        0 {} 1\n"
    (at / "net" / "tcp").write_text(head + row.format("0A", 77) + row.replace("1F40", "1F41").format("01", 77))
    used = processes.use(5, proc)
    assert (used.fds, used.fd_soft, used.fd_hard) == (1, 1024, 2**63 - 1)
    assert processes.listening(5, proc) == (("127.0.0.1", 8000),)
