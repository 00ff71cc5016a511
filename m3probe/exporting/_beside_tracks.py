"""What lies beside kernels on the same clock: queues, the device's health, steps that a guest counted, findings."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np

from m3probe.analyzers._queues_series import metrics_of
from m3probe.exporting._track import COUNTER, INSTANTS, SLICES, Arg, Track
from m3probe.exporting._when import NOWHERE, When
from m3probe.model.findings import Finding
from m3probe.model.recording import Recording
from m3probe.model.tables import NONE

QUEUES = {
    "num_requests_running": ("running", "requests"),
    "num_requests_waiting": ("waiting", "requests"),
    "num_requests_waiting_by_reason": ("waiting", "requests"),
    "num_requests_swapped": ("swapped", "requests"),
    "num_requests_kv_fetch_by_stage": ("KV fetch", "requests"),
    "kv_cache_usage_perc": ("KV cache in use", "%"),
}
"""Word of a metric -> title and unit of its track; shares are shown in per cent."""
HEALTH = {
    "busy_pct": "%", "memory_busy_pct": "%", "clock_mhz": "MHz", "memory_clock_mhz": "MHz", "power_w": "W",
    "junction_c": "C", "memory_c": "C", "used_mb": "MB", "throttled": "1: held back",
}  # fmt: skip
"""Figures of a GPU that move; caps and counters since boot are in the tables."""


def queues(rec: Recording, when: When) -> Iterator[Track]:
    """Queue lengths and the KV cache, whoever told them: pages of /metrics, the guest, or the server's log."""
    metrics = metrics_of(rec)
    for word, (title, unit) in QUEUES.items():
        for series in metrics.named(word):
            of = [f"{key} {value}" for key, value in series.labels.items()]
            of += [f"engine {series.engine}"] if series.engine else []
            name = f"{title} ({', '.join(of)})" if of else title
            values = series.values * (100.0 if unit == "%" else 1.0)
            group = f"server {series.server}" if series.server else "server"
            yield Track(group, name, COUNTER, when.of(series.table, series.rows), values=values, unit=unit)


def health(rec: Recording, when: When) -> Iterator[Track]:
    """Clocks, power, heat and use of each GPU."""
    table = rec.tables["device_samples"]
    places = np.stack((table["file"].astype(np.int64), table["gpu"].astype(np.int64)))
    many = len(np.unique(places[0])) > 1
    for file, gpu in np.unique(places, axis=1).T.tolist():
        rows = np.flatnonzero((places[0] == file) & (places[1] == gpu))
        group = f"GPU health of {Path(rec.files[file].path).name}" if many else "GPU health"
        start = when.of("device_samples", rows)
        for figure, unit in HEALTH.items():
            known = np.isfinite(table[figure][rows])
            if known.any():
                values = table[figure][rows][known]
                yield Track(group, f"GPU {gpu} {figure}", COUNTER, start[known], values=values, unit=unit)


def counted_steps(rec: Recording, when: When) -> Iterator[Track]:
    """Steps that a guest kept one by one (``attach --full-rows``, and around a kernel window)."""
    table = rec.tables["step_rows"]
    for file in np.unique(table["file"]).tolist():
        rows = np.flatnonzero((table["file"] == file) & (table["t_start"] > 0))
        ends = np.max([table[key][rows] for key in ("t_end", "t_sample_end", "t_done", "t_launched")], axis=0)
        dur = np.where(ends > 0, ends - table["t_start"][rows], NONE)
        keys = ("step", "rows", "padded_rows", "requests", "ctx_reqs", "gen_reqs", "replays")
        args = tuple(Arg(key, table[key][rows]) for key in keys)
        mode = Arg("graph mode", table["mode"][rows], rec.strings.texts)
        start, texts = when.of("step_rows", rows), rec.strings.texts
        yield Track(
            f"guest {Path(rec.files[file].path).name}", "steps (guest)", SLICES, start, table["phase"][rows], texts, dur,
            (*args, mode),
        )  # fmt: skip


def findings(rec: Recording, when: When, found: Sequence[Finding], group_of: Callable[[int], str]) -> Iterator[Track]:
    """Each finding at the rows that show it; one that no row with a time shows is in the report alone."""
    at: dict[str, list[tuple[int, int]]] = {}
    for index, finding in enumerate(found):
        for evidence in finding.evidence:
            table = rec.tables.get(evidence.table)
            if table is None or not evidence.rows:
                continue
            rows = np.array([row for row in evidence.rows if 0 <= row < len(table)], dtype=np.int64)
            files = table["file"][rows].tolist() if "file" in table.columns else [NONE] * len(rows)
            for file, time in zip(files, when.of(evidence.table, rows).tolist(), strict=True):
                if time != NOWHERE:
                    at.setdefault(group_of(file), []).append((time, index))
    words = [finding.id for finding in found]
    for group, all_marks in at.items():
        marks = sorted(set(all_marks))
        rows = np.array([index for _, index in marks], dtype=np.int64)
        args = (
            Arg("claim", rows, [finding.claim for finding in found]),
            Arg("verdict", rows, [finding.verdict for finding in found]),
            Arg("advice", rows, [finding.advice for finding in found]),
            Arg("bound", rows, [_bound(finding) for finding in found]),
        )
        start = np.array([time for time, _ in marks], dtype=np.int64)
        yield Track(group, "findings", INSTANTS, start, rows, words, args=args)


def _bound(finding: Finding) -> str:
    bound = finding.bound
    return "" if bound is None else f"at most {bound.high:.1%} of {bound.basis or 'the time'}: {bound.formula}"
