"""Facts about the kernel records alone."""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from m3probe.analyzers import _figures as figures
from m3probe.kernels.demangle import demangle
from m3probe.model.recording import Recording
from m3probe.model.tables import NONE

Facts = dict[str, Any]

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


def kernel_facts(rec: Recording) -> Facts:
    """Counts, times, names, devices and neighbours of the kernels."""
    kernels = rec.kernels
    linked = int((kernels["launch"] != NONE).sum())
    facts: Facts = {
        "kernels": len(kernels),
        "linked_kernels": linked,
        "unlinked_kernels": len(kernels) - linked,
        **_names(rec),
    }
    if not len(kernels):
        return facts
    facts["kernel_time_ns"] = figures.kernel_time_ns(rec)
    facts["devices"] = np.unique(kernels["device"]).tolist()
    facts["streams"] = np.unique(kernels["stream"]).tolist()
    without = ~kernels["timed"] & (kernels["dur_ns"] >= 0)
    odd = {
        "kernels_without_time": without,
        "negative_durations": kernels["dur_ns"] < 0,
        "zero_durations": ~without & (kernels["dur_ns"] == 0),
    }
    facts |= {key: int(mask.sum()) for key, mask in odd.items() if mask.any()}
    return facts | (_times(rec) if len(figures.timed(rec)) else {})


def _names(rec: Recording) -> Facts:
    r"""Distinct names in order of first appearance, control bytes written ``\xNN``."""
    ids, first = np.unique(rec.kernels["name"], return_index=True)
    stored = rec.strings.of(ids[np.argsort(first)].tolist())
    mangled = {n: demangle(n) for n in stored if n.removesuffix(".kd").startswith("_Z")}
    facts: Facts = {"names": [printable(n) for n in stored], "distinct_kernel_names": len(stored)}
    if mangled:
        facts["demangled"] = {printable(name): printable(plain) for name, plain in mangled.items()}
    return facts


def calls(rec: Recording) -> dict[str, int]:
    """Kernels by name."""
    ids, counts = np.unique(rec.kernels["name"], return_counts=True)
    return {printable(name): n for name, n in zip(rec.strings.of(ids.tolist()), counts.tolist(), strict=True)}


def printable(name: str) -> str:
    r"""``name`` with control bytes other than tab and newline written ``\xNN``."""
    return _CONTROL.sub(lambda m: f"\\x{ord(m.group(0)):02x}", name)


def _times(rec: Recording) -> Facts:
    pairs = figures.neighbours(rec)
    gaps = pairs.gap_ns > 0
    facts: Facts = {
        "busy_union_ns": figures.busy_union_ns(rec),
        "gpu_span_ns": figures.gpu_span_ns(rec),
        "same_stream_overlaps": int(pairs.overlapping.sum()),
        "gaps": int(gaps.sum()),
        **_by_device(rec),
        **_suspects(rec, pairs),
    }
    if pairs.overlapping.any():
        facts["overlap_ns"] = int(-pairs.gap_ns[pairs.overlapping].sum())
    if gaps.any():
        facts["gap_ns"] = int(pairs.gap_ns[gaps].sum())
    return facts


def _by_device(rec: Recording) -> Facts:
    busy = figures.busy_by_device(rec)
    devices = sorted({device for _, device in busy})
    if len(devices) < 2 or len({file for file, _ in busy}) > 1:
        return {}
    span = figures.gpu_span_ns(rec)
    by_device = {str(device): ns for (_, device), ns in sorted(busy.items())}
    share = {key: round(100 * ns / span, 4) for key, ns in by_device.items()} if span else {}
    return {"busy_union_ns_by_device": by_device, "utilization_pct_by_device": share}


def _suspects(rec: Recording, pairs: figures.Neighbours) -> Facts:
    """Kernels that run past the start and the end of the next one on their stream."""
    table = rec.kernels
    end = table["start_ns"] + table["dur_ns"]
    past = pairs.overlapping & (end[pairs.first] > end[pairs.second])
    if not past.any():
        return {}
    names = dict.fromkeys(rec.strings.of(table["name"][pairs.first[past]].tolist()))
    clip = int(-pairs.gap_ns[pairs.gap_ns < 0].sum())
    return {
        "suspect_kernels": [printable(name) for name in names],
        "clipped_kernel_time_ns": figures.kernel_time_ns(rec) - clip,
    }
