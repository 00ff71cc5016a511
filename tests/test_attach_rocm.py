"""What a process's mapped libraries say of torch's profiler, by lines of /proc/PID/maps."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from m3probe.attach.build_id import build_id
from m3probe.attach.rocm import ProfilerBuild, read_profiling
from m3probe.attach.rocm_builds import REPORTS, Effect

SYSTEM = "/opt/rocm-7.2.4/lib"
WHEEL = "/usr/local/lib/python3.12/dist-packages/torch/lib"


def process(tmp_path: Path, *paths: str, env: dict[str, str] | None = None) -> ProfilerBuild:
    """A process 7 that has these files mapped, each in two pieces."""
    folder = tmp_path / "7"
    folder.mkdir(exist_ok=True)
    lines = [
        "55d0c0000000-55d0c0001000 r--p 00000000 08:01 131 /usr/bin/python3.12",
        "7ffd0-7ffd1 rw-p 0 0:0 0 [stack]",
    ]
    for n, path in enumerate(paths):
        lines += [f"7f{n:02}00000000-7f{n:02}00001000 {flags} 00000000 08:01 9 {path}" for flags in ("r--p", "r-xp")]
    (folder / "maps").write_text("\n".join([*lines, "7f-80 rw-p 0 0:0 0 "]) + "\n")
    (folder / "environ").write_bytes(b"\0".join(f"{k}={v}".encode() for k, v in (env or {"HOME": "/root"}).items()))
    return read_profiling(7, tmp_path)


def test_libraries_have_their_rocm_version_from_the_end_of_their_names(tmp_path: Path) -> None:
    found = process(
        tmp_path,
        "/opt/rocm/lib/libamdhip64.so.7.2.70204",
        "/opt/rocm/lib/libroctracer64.so.4.1.70204",
        "/opt/rocm/lib/librccl.so.1.0.70204 (deleted)",
        "/opt/rocm/lib/librocprofiler-sdk.so.1.1.0",
        "/usr/lib/libcrypto.so.3",
    )
    assert {lib.name: lib.version for lib in found.libs} == {
        "libamdhip64": (7, 2, 4),
        "libroctracer64": (7, 2, 4),
        "librccl": (7, 2, 4),
        "librocprofiler-sdk": (1, 1, 0),
    }
    assert found.libs[2].path == "/opt/rocm/lib/librccl.so.1.0.70204"


def test_hips_own_build_number_is_no_version_of_rocm_and_the_folder_may_tell_it(tmp_path: Path) -> None:
    found = process(tmp_path, "/a/libamdhip64.so.7.2.53211", "/opt/rocm-7.2.3/lib/libamdhip64.so.7.2.53211-abc")
    assert [lib.version for lib in found.libs] == [(), (7, 2, 3)]


def sources(found: ProfilerBuild) -> list[str]:
    return [known.report.source for known in found.known]


def test_rocm_7_2_0_loses_448_of_512_and_is_not_refused(tmp_path: Path) -> None:
    found = process(tmp_path, "/opt/rocm/lib/libroctracer64.so.4.1.70200")
    assert [known.report.effect for known in found.known] == [Effect.LOSES]
    assert "448 of 512" in found.losses[0].text
    assert "issue 6102" in found.losses[0].text
    assert (found.refuse, found.reason, found.report) == (False, "", "")


@pytest.mark.parametrize("patch", ["70201", "70202"])
def test_rocm_7_2_1_and_7_2_2_lose_all_and_stall_so_a_window_is_refused(tmp_path: Path, patch: str) -> None:
    found = process(tmp_path, f"/opt/rocm/lib/libroctracer64.so.4.1.{patch}")
    assert found.refuse
    assert found.report == "AMD-AGI/Hyperloom issue 747"
    assert any("all kernels inside of graphs: 0 for 32" in known.text for known in found.losses)
    assert f"libroctracer64 of ROCm 7.2.{patch[-1]} (/opt/rocm/lib/libroctracer64.so.4.1.{patch})" in found.reason


def test_rocm_7_2_4_of_the_system_has_no_report(tmp_path: Path) -> None:
    assert process(tmp_path, f"{SYSTEM}/libroctracer64.so.4.1.70204", f"{SYSTEM}/libamdhip64.so.7.2.70204").known == ()


def test_the_copies_of_torchs_wheel_count_whatever_the_system_has(tmp_path: Path) -> None:
    found = process(tmp_path, f"{WHEEL}/libroctracer64.so", f"{SYSTEM}/libamdhip64.so.7.2.70204")
    assert found.libs[0].bundled
    assert sources(found) == ["sglang PR 35390"]
    assert found.losses[0].library.text == f"libroctracer64 unknown version ({WHEEL}/libroctracer64.so)"


def test_rocprofiler_sdk_1_3_2_hangs_unless_the_switch_is_off(tmp_path: Path) -> None:
    path = "/opt/rocm/lib/librocprofiler-sdk.so.1.3.2"
    found = process(tmp_path, path)
    assert found.refuse
    assert found.report == "vLLM issue 54087, PR 54171"
    assert "ROCPROFILER_QUEUE_INTERPOSITION=0" in found.reason
    assert not process(tmp_path, path, env={"ROCPROFILER_QUEUE_INTERPOSITION": "0"}).refuse
    assert process(tmp_path, path, env={"ROCPROFILER_QUEUE_INTERPOSITION": "1"}).refuse
    assert not read_profiling(7, tmp_path, {"ROCPROFILER_QUEUE_INTERPOSITION": "0"}).refuse  # a guest said so


@pytest.mark.parametrize(
    ("version", "refused", "said"),
    [
        ("1.1.0", False, ["vLLM PR 53182"]),
        ("1.3.4", True, ["vLLM issue 54087, PR 54171"]),
        ("1.3.5", True, ["ROCm/rocm-systems issue 11623"]),
        ("2.0.0", True, ["ROCm/rocm-systems issue 11623"]),
        ("1", False, []),  # a soname alone tells no version
    ],
)
def test_each_version_of_rocprofiler_sdk_has_its_report(
    tmp_path: Path, version: str, refused: bool, said: list[str]
) -> None:
    found = process(tmp_path, f"/opt/rocm/lib/librocprofiler-sdk.so.{version}")
    assert (found.refuse, sources(found)) == (refused, said)


def test_a_second_tool_and_rocm_as_python_wheels_lose_kernels(tmp_path: Path) -> None:
    second = process(tmp_path, "/opt/rocm/lib/rocprofiler-sdk/librocprofiler-sdk-tool.so.1.1.0")
    assert sources(second) == ["AMD-AGI/Hyperloom PR 153"]
    wheels = process(tmp_path, "/usr/lib/python3/site-packages/_rocm_sdk_core/lib/librocprofiler-sdk.so.1")
    assert sources(wheels) == ["vLLM PR 56190"]


def test_cuda_and_cpu_processes_have_no_report(tmp_path: Path) -> None:
    found = process(tmp_path, "/usr/local/cuda/lib64/libcupti.so.2025.3.1")
    assert [(lib.name, lib.version) for lib in found.libs] == [("libcupti", (2025, 3, 1))]
    assert (found.readable, found.known, found.refuse) == (True, (), False)


def test_a_process_that_is_gone_is_unknown_and_not_harmless(tmp_path: Path) -> None:
    found = read_profiling(8, tmp_path)
    assert (found.readable, found.libs, found.refuse) == (False, (), False)


def test_every_report_names_its_source_and_what_is_refused_has_a_way_out() -> None:
    for report in REPORTS:
        assert any(word in report.source for word in ("issue ", "PR "))
        assert report.effect is not Effect.HANGS or report.advice
        assert report.library


def elf(notes: bytes, kind: int = 4) -> bytes:
    """A 64-bit ELF file with one program header."""
    head = bytearray(64)
    head[:6] = b"\x7fELF\x02\x01"
    struct.pack_into("<Q", head, 32, 64)
    struct.pack_into("<HH", head, 54, 56, 1)
    entry = bytearray(56)
    struct.pack_into("<I", entry, 0, kind)
    struct.pack_into("<Q", entry, 8, 120)
    struct.pack_into("<Q", entry, 32, len(notes))
    return bytes(head) + bytes(entry) + notes


BUILD = struct.pack("<III", 4, 4, 3) + b"GNU\0" + bytes.fromhex("c0ffee01")


def test_a_build_id_tells_a_patched_library_from_a_stock_one(tmp_path: Path) -> None:
    library = tmp_path / "7/root/opt/rocm/lib/libroctracer64.so.4.1.70204"
    library.parent.mkdir(parents=True)
    library.write_bytes(elf(struct.pack("<III", 4, 1, 1) + b"ABI\0" + b"x\0\0\0" + BUILD))
    assert process(tmp_path, "/opt/rocm/lib/libroctracer64.so.4.1.70204").libs[0].build_id == "c0ffee01"


@pytest.mark.parametrize(
    "data", [b"", b"MZ" * 40, elf(BUILD, kind=1), elf(BUILD[:9]), elf(b"\xff" * 64), elf(BUILD)[:70]]
)
def test_a_file_without_a_build_id_has_none(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "lib").write_bytes(data)
    assert build_id(tmp_path / "lib") == ""
    assert build_id(tmp_path) == ""
