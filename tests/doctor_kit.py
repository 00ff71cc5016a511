"""A host of one's own: its /proc, /sys, /dev and installed packages as files, and a doctor that looks at them."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from attach_kit import put_process

from m3probe.doctor import Place, examine
from m3probe.model.doctor_report import Check, DoctorReport

GIB = 2**30
READY = {
    "proc/sys/kernel/numa_balancing": "0",
    "proc/sys/net/ipv4/ip_local_port_range": "32768\t60999",
    "proc/sys/net/core/somaxconn": "4096",
    "sys/devices/system/cpu/cpu0/cpufreq/scaling_governor": "performance",
    "sys/devices/system/cpu/cpu1/cpufreq/scaling_governor": "performance",
    "sys/devices/system/node/node0/x": "",
    "sys/devices/system/node/node1/x": "",
    "sys/kernel/mm/transparent_hugepage/enabled": "always [madvise] never",
    "dev/kfd": "",
}
"""A host without a fault, with AMD GPUs."""


def limits(soft: str = "1048576", hard: str = "1048576", locked: str = "unlimited") -> str:
    """``/proc/PID/limits``."""
    return (
        "Limit                     Soft Limit           Hard Limit           Units     \n"
        f"Max open files            {soft:<20} {hard:<20} files     \n"
        f"Max locked memory         {locked:<20} {locked:<20} bytes     \n"
    )


class Host:
    """Files below ``root``; each method adds to them."""

    def __init__(
        self, tmp_path: Path, files: Mapping[str, str] = READY, own: str = limits(), shm: int | None = 64 * GIB
    ):
        self.root = tmp_path / "root"
        self.shm = shm
        for name, text in files.items():
            self.put(name, text)
        put_process(self.root / "proc", os.getpid(), "m3probe", "doctor")
        (self.root / "proc" / "self").symlink_to(str(os.getpid()))
        self.put("proc/self/limits", own)
        self.sites = (self.root / "site-packages",)

    def put(self, name: str, text: str) -> Path:
        """One file."""
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    def package(self, name: str, version: str) -> Host:
        """An installed distribution: its metadata alone, so that importing it would fail."""
        folder = f"site-packages/{name.replace('-', '_')}-{version}.dist-info"
        self.put(f"{folder}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
        return self

    def server(self, pid: int, own: str = limits(), maps: str = "", **values: object) -> Host:
        """An API server of vLLM."""
        at = put_process(self.root / "proc", pid, "python3", "-m", "vllm.entrypoints.openai.api_server", **values)  # type: ignore[arg-type]
        (at / "limits").write_text(own)
        (at / "maps").write_text(maps)
        return self

    def examined(self, concurrency: int | None = None, env: Mapping[str, str] | None = None) -> DoctorReport:
        """The report; without ``env`` nothing is set."""
        place = Place(self.root, dict(env or {}), self.sites, lambda _folder: self.shm)
        return examine(place, concurrency)

    def checks(self, name: str, concurrency: int | None = None, env: Mapping[str, str] | None = None) -> list[Check]:
        """Rows of one id."""
        return [check for check in self.examined(concurrency, env).checks if check.id == name]

    def check(self, name: str, concurrency: int | None = None, env: Mapping[str, str] | None = None) -> Check:
        """The only row of one id."""
        (found,) = self.checks(name, concurrency, env)
        return found
