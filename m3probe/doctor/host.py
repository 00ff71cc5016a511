"""The host itself: settings of the kernel that cost a GPU server time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from m3probe.doctor.place import Place
from m3probe.model.doctor_report import Check, Word

NUMA = "/proc/sys/kernel/numa_balancing"
_NUMA_SOURCE = "ROCm documentation, LLM inference performance validation on MI300X: disable NUMA auto-balancing"
_CPUS = "sys/devices/system/cpu"
_HUGE = "/sys/kernel/mm/transparent_hugepage/enabled"
_RING = 10 * 16 * 2**20
"""vLLM's message queue between engine and workers: 10 chunks of VLLM_MQ_MAX_CHUNK_BYTES_MB (16)."""
_SHM_SOURCE = "vLLM, distributed/device_communicators/shm_broadcast.py; vLLM documentation: --ipc=host or --shm-size"
_ENOUGH_SHM = 2**30


def checks(place: Place) -> Iterator[Check]:
    """NUMA balancing, governors of the CPUs, huge pages, and the shared memory."""
    yield _numa(place)
    yield _governor(place)
    yield from _huge(place)
    yield _shm(place)


def _numa(place: Place) -> Check:
    name, value = "host.numa_balancing", place.number(NUMA)
    if value is None:
        return Check(name, Word.UNKNOWN, f"{NUMA} is not visible here", "Read it on the host, outside of the container")
    if value == 0:
        return Check(name, Word.OK, "off", source=_NUMA_SOURCE)
    nodes = list((place.root / "sys/devices/system/node").glob("node[0-9]*"))
    if len(nodes) == 1:
        return Check(name, Word.OK, f"{value}, and there is one NUMA node: nothing to balance", source=_NUMA_SOURCE)
    text = f"{value}: the kernel moves pages between NUMA nodes while a server runs"
    advice = f"As root on the host: echo 0 > {NUMA}"
    if place.amd:
        return Check(name, Word.BAD, f"{text}; AMD GPUs may hang until it has done so", advice, _NUMA_SOURCE)
    return Check(name, Word.WARN, f"{text}; with AMD GPUs these may hang until it has done so", advice, _NUMA_SOURCE)


def _governor(place: Place) -> Check:
    name, source = "host.cpu_governor", "Linux, Documentation/admin-guide/pm/cpufreq.rst"
    found = Counter(
        text.read_text(encoding="ascii", errors="replace").strip()
        for text in (place.root / _CPUS).glob("cpu[0-9]*/cpufreq/scaling_governor")
        if text.is_file()
    )
    if not found:
        text = "no governor is visible: a virtual machine, or a container without /sys"
        return Check(name, Word.UNKNOWN, text, "Read it on the host: cpupower frequency-info", source)
    said = ", ".join(f"{word[:40]} on {count:,} CPUs" for word, count in found.most_common())
    if set(found) == {"performance"}:
        return Check(name, Word.OK, said, source=source)
    text = f"{said}: scheduling and launches of each step run at the clock that it chooses"
    return Check(name, Word.WARN, text, "On the host: cpupower frequency-set -g performance", source)


def _huge(place: Place) -> Iterator[Check]:
    name, source = "host.hugepages", "Linux, Documentation/admin-guide/mm/transhuge.rst"
    text = place.text(_HUGE)
    chosen = text.partition("[")[2].partition("]")[0] if text else ""
    if not chosen:
        yield Check(name, Word.UNKNOWN, f"{_HUGE} is not visible here", "Read it on the host")
    elif chosen == "never":
        told = "transparent huge pages are off: each 2 MiB of host memory takes 512 page faults and 512 entries"
        yield Check(name, Word.WARN, told, f"As root on the host: echo madvise > {_HUGE}", source)
    else:
        yield Check(name, Word.OK, f"transparent huge pages: {chosen}", source=source)
    kept = _reserved(place)
    if kept > 0:
        told = f"{kept / 2**30:,.1f} GiB are reserved for hugetlbfs and used by nobody: no server gets them"
        yield Check(name, Word.WARN, told, "Lower vm.nr_hugepages unless something is to use them", source)


def _reserved(place: Place) -> int:
    """Bytes of huge pages that are set aside and free."""
    lines = dict(line.split(":", 1) for line in (place.text("/proc/meminfo") or "").splitlines() if ":" in line)
    words = {key: lines.get(key, "").split() for key in ("HugePages_Free", "HugePages_Rsvd", "Hugepagesize")}
    if not all(found and found[0].isdecimal() for found in words.values()):
        return 0
    free, promised, size_kb = (int(found[0]) for found in words.values())
    return max(free - promised, 0) * size_kb * 1024


def _shm(place: Place) -> Check:
    name, size = "host.shm", place.shm(place.root / "dev/shm")
    if size is None:
        return Check(name, Word.UNKNOWN, "/dev/shm is not there, or may not be read", "Mount a tmpfs of 16 GiB there")
    said, advice = (
        f"/dev/shm holds {size / 2**20:,.0f} MiB",
        "docker: --ipc=host or --shm-size 16g; Kubernetes: an emptyDir",
    )
    if size < _RING:
        text = f"{said}, one message queue between engine and workers takes {_RING / 2**20:,.0f} MiB: tensor parallel fails"
        return Check(name, Word.BAD, text, f"{advice} of medium Memory at /dev/shm", _SHM_SOURCE)
    if size < _ENOUGH_SHM:
        text = f"{said}: {size // _RING} of vLLM's message queues ({_RING / 2**20:,.0f} MiB each), and RCCL or NCCL need it too"
        return Check(name, Word.WARN, text, f"{advice} of medium Memory at /dev/shm", _SHM_SOURCE)
    return Check(name, Word.OK, said, source=_SHM_SOURCE)
