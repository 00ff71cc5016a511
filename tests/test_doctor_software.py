"""What ``doctor`` says of versions, variables, profiler libraries, and of what ``attach`` can do here."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest
from doctor_kit import READY, Host

from m3probe.doctor.env_rules import RULES
from m3probe.model.doctor_report import Check, Word
from m3probe.schema import sockets

NO_AMD = {name: text for name, text in READY.items() if name != "dev/kfd"}
NVIDIA = NO_AMD | {"dev/nvidiactl": ""}
ON = {"VLLM_ROCM_USE_AITER": "1"}


def rows(host: Host, group: str, env: dict[str, str] | None = None) -> dict[str, Check]:
    """Checks of one group by name; of several with one name the last."""
    return {check.id: check for check in host.examined(env=env).checks if check.group == group}


# --- versions -----------------------------------------------------------------------------------------------------


def test_versions_are_read_from_metadata_of_packages_that_cannot_be_imported(tmp_path: Path) -> None:
    host = Host(tmp_path).package("vllm", "0.33.0+rocm723").package("torch", "2.12.0").package("amd-aiter", "0.1.9")
    found = rows(host.package("triton", "3.5.0"), "versions")
    assert {name: check.text.partition(": ")[2] for name, check in found.items()} == {
        "versions.vllm": "vllm 0.33.0+rocm723",
        "versions.torch": "torch 2.12.0",
        "versions.aiter": "amd-aiter 0.1.9",
        "versions.triton": "triton 3.5.0",
    }
    assert {check.word for check in found.values()} == {Word.OK}


def test_a_release_whose_source_was_not_checked_is_warned_of(tmp_path: Path) -> None:
    found = Host(tmp_path).package("vllm", "0.34.0").check("versions.vllm")
    assert found.word is Word.WARN
    assert "none of those whose source was checked (0.24.0, 0.25.1, 0.32.0, 0.33.0)" in found.text


def test_what_is_not_installed_is_unknown(tmp_path: Path) -> None:
    assert {check.word for check in rows(Host(tmp_path), "versions").values()} == {Word.UNKNOWN}


def test_two_tritons_in_one_folder_are_bad(tmp_path: Path) -> None:
    found = Host(tmp_path).package("triton", "3.5.0").package("pytorch-triton-rocm", "3.4.0").check("versions.triton")
    assert found.word is Word.BAD
    assert "triton 3.5.0, pytorch-triton-rocm 3.4.0: 2 distributions of one package" in found.text


def test_aiter_that_is_asked_for_and_not_there_is_bad(tmp_path: Path) -> None:
    host = Host(tmp_path).package("torch", "2.12.0")
    assert host.check("versions.aiter", env=ON).word is Word.BAD
    assert host.check("versions.aiter").word is Word.UNKNOWN


@pytest.mark.parametrize(
    ("files", "version", "hip", "word"),
    [
        (READY, "2.12.0+cpu", "", "bad"),
        (READY, "2.12.0+cu130", "", "bad"),
        (READY, "2.12.0", "7.2.53211", None),
        (NVIDIA, "2.12.0", "7.2.53211", "bad"),
        (NVIDIA, "2.12.0+cu130", "", None),
        (NO_AMD, "2.13.0+cpu", "", None),
    ],
)
def test_torch_is_of_the_device_that_is_here(
    tmp_path: Path, files: dict[str, str], version: str, hip: str, word: str | None
) -> None:
    host = Host(tmp_path, files).package("torch", version)
    told = f"hip: Optional[str] = {hip!r}" if hip else "hip: Optional[str] = None"
    host.put("site-packages/torch/version.py", f"__version__ = {version!r}\n{told}\n")
    assert [check.word for check in host.checks("versions.torch_build")] == ([word] if word else [])


def test_another_rocm_than_torch_was_built_for_is_warned_of(tmp_path: Path) -> None:
    host = Host(tmp_path, READY | {"opt/rocm/.info/version": "7.0.2-77"}).package("torch", "2.12.0")
    host.put("site-packages/torch/version.py", "hip = '7.2.53211'\n")
    found = host.check("versions.torch_build")
    assert found.word is Word.WARN
    assert "torch is built for HIP 7.2, /opt/rocm/.info/version says 7.0" in found.text


# --- environment --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
def test_every_dangerous_variable_is_told_with_its_reason_and_source(tmp_path: Path, rule: object) -> None:
    assert hasattr(rule, "name")
    values = ("1", "3", "0", "TRACE", "DEBUG", "Ring", "/table.csv")
    value = next(value for value in values if rule.when(value))  # type: ignore[attr-defined]
    env = ON | {rule.name: value}  # type: ignore[attr-defined]
    found = Host(tmp_path).checks(f"environment.{rule.name.lower()}", env=env)  # type: ignore[attr-defined]
    told = [check for check in found if rule.text in check.text]  # type: ignore[attr-defined]
    assert [check.word for check in told] == [rule.word]  # type: ignore[attr-defined]
    assert all(check.source and check.advice for check in told)
    calm = Host(tmp_path / "calm").examined(env=ON).checks
    assert not [check for check in calm if check.id == f"environment.{rule.name.lower()}"]  # type: ignore[attr-defined]


@pytest.mark.parametrize("value", ["0", "", "false", " 0 "])
def test_a_switch_that_is_off_is_not_dangerous(tmp_path: Path, value: str) -> None:
    assert Host(tmp_path).checks("environment.hip_launch_blocking", env=ON | {"HIP_LAUNCH_BLOCKING": value}) == []


@pytest.mark.parametrize(
    ("env", "word", "said"),
    [
        ({"HIP_VISIBLE_DEVICES": "0,1", "CUDA_VISIBLE_DEVICES": "2,3"}, "bad", "differ: vLLM on ROCm does not start"),
        (
            {"ROCR_VISIBLE_DEVICES": "4,5", "HIP_VISIBLE_DEVICES": "4,5"},
            "bad",
            "asks for number 4, which is not among 0 to 1",
        ),
        ({"ROCR_VISIBLE_DEVICES": "4,5", "CUDA_VISIBLE_DEVICES": "0,1"}, "warn", "counts among them"),
        ({"HIP_VISIBLE_DEVICES": "0,1", "CUDA_VISIBLE_DEVICES": "0,1"}, None, ""),
        ({"ROCR_VISIBLE_DEVICES": "4,5", "HIP_VISIBLE_DEVICES": ""}, None, ""),
    ],
)
def test_lists_of_visible_devices_that_contradict_each_other(
    tmp_path: Path, env: dict[str, str], word: str | None, said: str
) -> None:
    found = Host(tmp_path).checks("environment.visible_devices", env=ON | env)
    assert [check.word for check in found] == ([word] if word else [])
    assert all(said in check.text for check in found)


def test_the_rules_of_the_installed_release_are_asked(tmp_path: Path) -> None:
    env = {
        "VLLM_ROCM_USE_AITR": "1",
        "VLLM_ROCM_USE_AITER_MOE": "1",
        "VLLM_ROCM_QUICK_REDUCE_QUANTIZATION": "INT5",
    }
    found = rows(Host(tmp_path).package("vllm", "0.33.0"), "environment", env)
    assert "did you mean VLLM_ROCM_USE_AITER?" in found["environment.unknown_variable"].text
    assert "VLLM_ROCM_USE_AITER_MOE acts only with VLLM_ROCM_USE_AITER=1" in found["environment.no_effect"].text
    refused = found["environment.refused_value"]
    assert refused.word is Word.BAD
    assert "is none of FP, INT8, INT6, INT4, INT3, NONE" in refused.text


def test_without_rules_for_a_release_its_variables_are_unchecked(tmp_path: Path) -> None:
    found = Host(tmp_path).package("vllm", "0.99.0").check("environment.unchecked", env={"VLLM_X": "1"})
    assert (found.word, "vLLM 0.99.0 has no bundled rules" in found.text) == (Word.UNKNOWN, True)


def test_aiter_off_is_warned_of_where_there_are_amd_gpus(tmp_path: Path) -> None:
    assert Host(tmp_path).check("environment.aiter_off").source == "vLLM issue 56945"
    assert Host(tmp_path / "on").checks("environment.aiter_off", env=ON) == []
    assert Host(tmp_path / "nvidia", NVIDIA).checks("environment.aiter_off") == []


def test_a_tuned_table_that_is_not_there_is_bad(tmp_path: Path) -> None:
    host = Host(tmp_path, READY | {"tables/a.csv": ""})
    env = ON | {"AITER_CONFIG_FMOE": "/tables/a.csv:/tables/b.csv"}
    told = [check.text for check in host.checks("environment.aiter_config_fmoe", env=env) if check.word is Word.BAD]
    assert [text.partition(": ")[2] for text in told] == [
        "AITER_CONFIG_FMOE: /tables/b.csv is not there: AITER runs untuned, or stops"
    ]


def test_a_second_profiler_in_the_process_is_told(tmp_path: Path) -> None:
    env = ON | {"LD_PRELOAD": "/opt/rocm/lib/librocprofiler-sdk-tool.so"}
    assert Host(tmp_path).check("environment.second_profiler", env=env).source == "Hyperloom PR 153"


def test_keys_are_never_shown(tmp_path: Path) -> None:
    env = {"VLLM_API_KEY": "sesame", "VLLM_PORT": "x", "HF_TOKEN": "sesame"}
    host = Host(tmp_path).package("vllm", "0.33.0").server(4711, environ=env)
    assert "sesame" not in repr(host.examined(env=env))


def test_a_server_that_wrote_over_its_environment_is_unknown(tmp_path: Path) -> None:
    host = Host(tmp_path, NVIDIA).server(4711)
    (host.root / "proc/4711/environ").write_bytes(b"\0\0\0\0")
    found = host.checks("environment.variables")
    assert [(check.word, check.text.partition(":")[0]) for check in found] == [
        (Word.OK, "this process"),
        (Word.UNKNOWN, "pid 4711 (API server)"),
    ]


def test_any_number_of_misspelt_names_stays_readable(tmp_path: Path) -> None:
    env = {f"VLLM_NOTHING_{n}": "1" for n in range(5_000)}
    found = [
        check
        for check in Host(tmp_path).package("vllm", "0.33.0").examined(env=env).checks
        if check.group == "environment"
    ]
    assert len(found) <= 40


# --- profiler libraries --------------------------------------------------------------------------------------------


def test_libraries_on_disk_are_judged_before_a_server_runs(tmp_path: Path) -> None:
    host = Host(tmp_path)
    host.put("opt/rocm-7.2.1/lib/libroctracer64.so.4.1.70201", "")
    found = host.checks("profiler.libraries")
    # three reports are about 7.2.1: it hangs, it loses all kernels of graphs, it loses some
    assert sorted(check.word for check in found) == ["bad", "warn", "warn"]
    hangs = next(check for check in found if check.word is Word.BAD)
    assert hangs.source == "AMD-AGI/Hyperloom issue 747"
    assert "libroctracer64 of ROCm 7.2.1 (/opt/rocm-7.2.1/lib/libroctracer64.so.4.1.70201) hangs" in hangs.text
    assert "ROCm 7.2.4" in hangs.advice


def test_the_switch_that_avoids_a_hang_is_seen(tmp_path: Path) -> None:
    host = Host(tmp_path)
    host.put("opt/rocm/lib/librocprofiler-sdk.so.1.3.2", "")
    assert host.check("profiler.libraries").word is Word.BAD
    assert host.check("profiler.libraries", env={"ROCPROFILER_QUEUE_INTERPOSITION": "0"}).word is Word.OK


def test_what_a_server_has_mapped_counts_and_not_what_lies_on_disk(tmp_path: Path) -> None:
    maps = "7f00-7f01 r-xp 0 08:01 9 /opt/rocm-7.2.4/lib/libroctracer64.so.4.1.70204\n"
    host = Host(tmp_path).server(4711, maps=maps)
    host.put("opt/rocm-7.2.1/lib/libroctracer64.so.4.1.70201", "")
    found = host.check("profiler.libraries")
    assert (found.word, "7.2.4" in found.text) == (Word.OK, True)


@pytest.mark.parametrize(("files", "word"), [(READY, "unknown"), (NO_AMD, "unknown"), (NVIDIA, "ok")])
def test_no_library_at_all_proves_nothing_where_there_may_be_amd_gpus(
    tmp_path: Path, files: dict[str, str], word: str
) -> None:
    assert Host(tmp_path, files).check("profiler.libraries").word == word


# --- attach --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("scope", "said"),
    [
        ("3", "nobody can trace until the next boot"),
        ("2", "only SYS_PTRACE can trace"),
        ("1", "only descendants can be traced"),
    ],
)
def test_what_refuses_injection_is_told(tmp_path: Path, scope: str, said: str) -> None:
    found = Host(tmp_path, READY | {"proc/sys/kernel/yama/ptrace_scope": scope}).check("attach.inject")
    assert found.word is Word.WARN
    assert said in found.text
    assert "SYS_PTRACE" in found.advice


def test_a_socket_folder_that_others_may_enter_is_bad(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    env = ON | {"M3PROBE_RUN": str(folder)}
    host = Host(tmp_path)
    assert host.check("attach.sockets", env=env).text.endswith("is not there yet, and can be made")
    folder.mkdir(mode=0o700)
    assert host.check("attach.sockets", env=env).word is Word.OK
    folder.chmod(0o755)
    assert host.check("attach.sockets", env=env).word is Word.BAD


@pytest.mark.parametrize(
    ("env", "said"),
    [
        ({"M3PROBE": "0"}, ["M3PROBE=0"]),
        ({"VLLM_PLUGINS": ""}, ["VLLM_PLUGINS=''"]),
        ({"VLLM_PLUGINS": "lora, m3probe"}, []),
        ({}, []),
    ],
)
def test_variables_that_keep_the_plugin_out_are_told(tmp_path: Path, env: dict[str, str], said: list[str]) -> None:
    found = Host(tmp_path).checks("attach.plugin", env=ON | env)
    assert len(found) == len(said)
    assert all(word in check.text for word, check in zip(said, found, strict=True))


def test_no_server_is_unknown(tmp_path: Path) -> None:
    assert Host(tmp_path).check("attach.servers").word is Word.UNKNOWN


def test_a_server_tells_how_many_of_its_processes_have_a_guest(tmp_path: Path) -> None:
    run = tmp_path / "run"
    run.mkdir(mode=0o700)
    host = Host(tmp_path).server(4711, environ={sockets.FOLDER: str(run), "A": "1"})
    assert "0 of 1 processes have a guest's socket" in host.check("attach.server").text
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(run / "4711.sock"))
        found = host.check("attach.server")
    assert (found.word, "1 of 1 processes" in found.text) == (Word.OK, True)


def test_another_users_server_and_one_in_a_container_are_told_with_the_way(tmp_path: Path) -> None:
    other = Host(tmp_path / "user").server(4711, uid=os.geteuid() + 1).check("attach.server")
    assert (other.word, f"it runs as uid {os.geteuid() + 1}" in other.text) == (Word.BAD, True)
    inside = Host(tmp_path / "container").server(4711, pid_namespace="pid:[2]", inner=7)
    found = inside.check("attach.server")
    assert found.word is Word.WARN
    assert found.advice.startswith("Run there: docker exec -it CONTAINER m3probe attach 7")


def test_a_key_on_a_servers_command_line_is_hidden(tmp_path: Path) -> None:
    host = Host(tmp_path).server(4711)
    (host.root / "proc/4711/cmdline").write_bytes(b"\0".join(b"vllm serve m --api-key sesame".split()) + b"\0")
    assert "sesame" not in repr(host.examined())
    assert "(hidden)" in host.check("attach.server").text
