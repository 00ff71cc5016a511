"""Can the evidence be trusted? Each check in fixed words, with its numbers.

Only what can hide kernels makes path verdicts unproven: graph launches without kernels, unequal
replays, layers that graphs lack, a cut file, a missing rank, a capture trace read as serving. Fewer kernels than the census
degrades trust but hides nothing: the census says what ran.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from m3probe.analyzers import _figures as figures
from m3probe.analyzers._ledger import of_role
from m3probe.analyzers._queues_checks import metric_checks
from m3probe.analyzers._replays import contents, unequal_replays
from m3probe.analyzers._uneven import uneven_files
from m3probe.model.recording import KERNEL_FREE, Recording
from m3probe.model.tables import NONE, Array

LOST_TIME_SHARE = 0.01
"""Above this share of kernels without a usable time, trust is degraded (docs/words.md)."""

COUNTERS_ONLY = (
    "counters of single dispatches and no trace: kernels ran one at a time, so that nothing says what a step takes"
)

RANKS_LISTED = 4_096
"""Missing ranks that are listed by number; more are counted."""


@dataclass(frozen=True, slots=True)
class Check:
    """One thing to know about the evidence; ``verdict`` is the trust it leaves ("" leaves it alone)."""

    word: str
    text: str
    verdict: str = ""
    hides_kernels: bool = False
    count: int = 1


def checks(rec: Recording) -> list[Check]:
    """All checks that fired, those against trust first."""
    found = [
        *_nothing_seen(rec),
        *_unread(rec),
        *_cut(rec),
        *_missing_ranks(rec),
        *_same_rank(rec),
        *_graph_launches(rec),
        *_unequal_replays(rec),
        *_uneven_layers(rec),
        *_counted(rec),
        *_times(rec),
        *_links(rec),
        *_overlaps(rec),
        *(Check(word, text, count=count) for word, text, count in metric_checks(rec)),
    ]
    return sorted(found, key=lambda check: not check.verdict)


# --- what was read -----------------------------------------------------------------------------------


def _nothing_seen(rec: Recording) -> Iterator[Check]:
    beside = {f.role for f in rec.files} & KERNEL_FREE
    roles = {f.role for f in rec.files} - KERNEL_FREE
    if not roles and beside == {"log"}:
        text = "a server's log and nothing else: it says what was chosen, not what ran"
        yield Check("log_only", text, "unusable", hides_kernels=True, count=0)
    elif not roles and "counters" in beside:
        yield Check("counters_only", COUNTERS_ONLY, "unusable", hides_kernels=True, count=0)
    elif not roles:
        text = "no trace and no live recording among the inputs: nothing says which kernels ran"
        yield Check("no_trace", text, "unusable", hides_kernels=True, count=0)
    elif roles == {"capture"}:
        text = "only graph-capture traces: capture is not serving, their kernels count in nothing"
        yield Check("capture_as_serving", text, "unusable", hides_kernels=True)
    elif roles == {"frontend"}:
        text = "only front-end traces (API server): no worker, so no kernel can be in them"
        yield Check("frontend_only", text, "unusable", hides_kernels=True)
    elif "guest" in roles and not len(rec.kernels):  # a profiler window on CPU has host operators alone
        yield from _guests(rec)
    elif not len(rec.kernels) and not (rec.launches["graph"] != NONE).any() and len(rec.tables["counter_values"]):
        yield Check("counters_only", COUNTERS_ONLY, "unusable", hides_kernels=True, count=0)
    elif not len(rec.kernels) and not (rec.launches["graph"] != NONE).any():
        text = f"no GPU kernels in trace ({len(rec.ops):,} host operators, {len(rec.launches):,} runtime calls)"
        if any(f.kind.startswith("rocprofv3") for f in rec.files):
            text = f"no kernel rows; vLLM kernels run in worker processes: record those too, not the API server alone ({text})"
        quiet = not len(rec.ops) and not len(rec.launches) and any(f.kind == "kineto" for f in rec.files)
        yield Check("no_kernels", text, "unusable", hides_kernels=True, count=0 if quiet else 1)


def _counted(rec: Recording) -> Iterator[Check]:
    """Kernels of a process that counted too: the same file, or the same process of the same folder."""
    counting = [f for f in rec.files if f.role == "counters"]
    paths = {f.path for f in counting}
    places = {(Path(f.path).parent, f.pid) for f in counting if f.pid is not None}
    found = [
        i
        for i, f in enumerate(rec.files)
        if f.role == "rank" and (f.path in paths or (Path(f.path).parent, f.pid) in places)
    ]
    kernels = int(np.isin(rec.kernels["file"], found).sum())
    if not kernels:
        return
    text = f"{kernels:,} kernels are of processes that read counters: they ran one at a time, and their times are no serving times"
    yield Check("counted_while_traced", text, "degraded", count=kernels)


def _guests(rec: Recording) -> Iterator[Check]:
    """A live recording without a kernel window: what hooks saw stands; what they lost or a missing rank degrades it."""
    elsewhere = {file.path for file in rec.files if file.role in KERNEL_FREE}
    lost = [note for note in rec.notes if note.lossy and note.path not in elsewhere]
    if lost:
        text = f"{len(lost)} loss(es) in the recording: calls and steps may be missing from the counts"
        yield Check("recording_lossy", text, "degraded", hides_kernels=True, count=0)
    table = rec.tables["processes"]
    workers = table["rank"][table["rank"] >= 0]
    world = int(table["world_size"].max(initial=0))
    missing = sorted(set(range(min(world, RANKS_LISTED))) - set(workers.tolist()))
    if len(workers) and missing:
        text = (
            f"rank {', '.join(map(str, missing[:8]))} missing: {len(missing):,} of {world:,} workers wrote no recording"
        )
        yield Check("missing_rank", text, "degraded", hides_kernels=True, count=len(missing))
    if not len(of_role(rec, "processes", "worker")):
        text = "no guest was in a worker: steps, shapes, bytes and paths are not known"
        yield Check("no_worker", text, "unusable", hides_kernels=True)
    elif not len(rec.tables["step_counts"]):
        yield Check("no_steps", "no step was counted: nothing ran while it recorded", "unusable", hides_kernels=True)


def _unread(rec: Recording) -> Iterator[Check]:
    """Inputs beside those that were read: a rank, a part of one, or a census may be in them."""
    unread = [note for note in rec.notes if note.word == "unread"]
    if unread:
        text = f"{len(unread)} file(s) or folder(s) could not be read: kernels may be in them"
        yield Check("unread", text, "degraded", hides_kernels=True, count=len(unread))


def _cut(rec: Recording) -> Iterator[Check]:
    cut = [f.path for f in rec.files if f.counts.truncated and f.role == "rank"]
    if cut:
        yield Check(
            "truncated",
            f"{len(cut)} file(s) cut: kernels may be missing at the end",
            "degraded",
            hides_kernels=True,
            count=0,
        )
    lost = sum(f.counts.lost_events for f in rec.files if f.role == "rank")
    if lost:
        yield Check(
            "lost_events", f"{lost:,} event(s) lost: kernels may be among them", "degraded", hides_kernels=True, count=0
        )


@dataclass(frozen=True, slots=True)
class MissingRanks:
    """Ranks of 0..``world``-1 without a file: how many, and the first ``RANKS_LISTED`` of them."""

    count: int
    world: int
    first: tuple[int, ...]


def missing_ranks(rec: Recording) -> MissingRanks:
    """Ranks without a file; none for a single file, which speaks for its own rank.

    What a damaged file says of its world may be any number: the ranks are counted, and not all walked through.
    """
    files = [f for f in rec.files if f.role == "rank"]
    world = max((f.world_size or 0 for f in files), default=0)
    known = {f.rank for f in files if f.rank is not None and 0 <= f.rank < world}
    alone = len(files) < 2 and not any(f.in_folder for f in files)
    if alone or not any(f.rank is not None for f in files):
        return MissingRanks(0, world, ())
    listed = range(min(world, RANKS_LISTED + len(known)))
    first = tuple(rank for rank in listed if rank not in known)[:RANKS_LISTED]
    return MissingRanks(world - len(known), world, first)


def _missing_ranks(rec: Recording) -> Iterator[Check]:
    missing = missing_ranks(rec)
    if missing.count:
        shown = ", ".join(map(str, missing.first[:8])) + (", ..." if missing.count > 8 else "")
        text = f"rank {shown} missing: {missing.count:,} of {missing.world:,} ranks wrote no trace"
        yield Check("missing_rank", text, "degraded", hides_kernels=True, count=missing.count)


def _same_rank(rec: Recording) -> Iterator[Check]:
    """Two recordings of one rank are two runs (or two windows): means over both describe neither."""
    ranks = [f.rank for f in rec.files if f.role == "rank" and f.rank is not None]
    twice = sorted({rank for rank in ranks if ranks.count(rank) > 1})
    if twice:
        shown = ", ".join(map(str, twice))
        text = f"more than one trace of rank {shown}: figures of different recordings are added up; read one at a time"
        yield Check("same_rank", text, "degraded", count=len(twice))


# --- graphs -------------------------------------------------------------------------------------------


def _graph_launches(rec: Recording) -> Iterator[Check]:
    launches = rec.launches
    graph = rec.graph_launches
    matched = graph & (launches["graph"] != NONE)
    bare = int(rec.unseen_replays.sum())
    if bare:
        why = "profiler loss likely; ROCm 7.2 libraries are known to drop them, sglang PR 35390"
        if len(rec.tables["whole_graphs"]) >= bare:
            why = "recorded as wholes, not kernel by kernel"
        text = f"graph launches without kernels: {bare:,} of {int(graph.sum()):,} ({why})"
        yield Check("graph_launches_without_kernels", text, "degraded", hides_kernels=True, count=bare)
    sizes = np.bincount(rec.graphs["graph"]) if len(rec.graphs) else np.zeros(1, dtype=np.int64)
    expected = int(sizes[launches["graph"][matched]].sum())
    recorded = int(launches["kernels"][matched].sum())
    if recorded < expected:
        text = f"fewer kernels than the census: {recorded:,} recorded, {expected:,} captured x replayed"
        yield Check("fewer_kernels_than_census", text, "degraded", count=expected - recorded)


def _unequal_replays(rec: Recording) -> Iterator[Check]:
    launches = rec.launches
    rows = np.flatnonzero(rec.graph_launches & (launches["kernels"] > 0))
    if len(rows) < 2:
        return
    if not len(rec.steps):
        yield from _prefix_replays(rec, rows)
        return
    unequal = unequal_replays(rec)
    if unequal:
        sizes = sorted({int(launches["kernels"][r]) for r in unequal[0]})
        shown = f"{' or '.join(map(str, sizes))} kernels" if len(sizes) > 1 else f"other kernels ({sizes[0]} each)"
        text = (
            f"unequal replays: the same graph launch of equal steps shows {shown} "
            f"({len(unequal)} place(s)); kernels were lost"
        )
        yield Check("unequal_replays", text, "degraded", hides_kernels=True, count=len(unequal))


def _uneven_layers(rec: Recording) -> Iterator[Check]:
    """Replays that all lost the same kernels are equal; the eager steps beside them have all layers."""
    for found in uneven_files(rec):
        text = (
            f"uneven layers: {found.steps} graph step(s) show {found.in_graph} {found.kind} layers where eager steps "
            f"of the same file show {found.eager}; kernels were lost in every replay"
        )
        yield Check("uneven_layers", text, "degraded", hides_kernels=True, count=found.steps)


def _prefix_replays(rec: Recording, rows: Array) -> Iterator[Check]:
    """Without steps nothing says that two launches replay one graph: a shorter twin is only a warning."""
    content = list(zip(*(part.tolist() for part in contents(rec)), strict=True))
    distinct = {content[r]: r for r in rows.tolist()}
    counters = [_names_of(rec, row) for row in distinct.values()]
    sizes = sorted({counter.total() for counter in counters})
    twins = len(sizes) > 1 and any(a != b and a <= b for a in counters for b in counters)
    if twins:
        shown = ", ".join(map(str, sizes))
        text = f"replays with unequal kernel counts: {shown}; no steps say whether they are one graph"
        yield Check("unequal_replays_no_steps", text, count=len(rows))


def _names_of(rec: Recording, launch: int) -> Counter[int]:
    return Counter(rec.kernels["name"][rec.kernels["launch"] == launch].tolist())


# --- times and links ---------------------------------------------------------------------------------


def _times(rec: Recording) -> Iterator[Check]:
    kernels = rec.kernels
    total = len(kernels)
    for word, text, mask in (
        ("no_time", "records without timestamps or durations", ~kernels["timed"] & (kernels["dur_ns"] >= 0)),
        ("negative_duration", "negative duration", kernels["dur_ns"] < 0),
    ):
        count = int(mask.sum())
        if count:
            bad = "degraded" if count > LOST_TIME_SHARE * total else ""
            yield Check(word, f"{text}: {count:,} of {total:,} kernels, left out of every time", bad, count=count)


def _links(rec: Recording) -> Iterator[Check]:
    if len(rec.kernels) and not len(rec.launches):
        # torch's profiler always records calls; the others record them when asked to, and none is then no matter
        traced = any(f.kind == "kineto" and f.role == "rank" for f in rec.files)
        yield Check("no_launches", "no runtime calls in trace: no kernel belongs to a step", count=int(traced))
        return
    unlinked = int((rec.kernels["launch"] == NONE).sum())
    if unlinked:
        text = f"kernels without a launch: {unlinked:,} of {len(rec.kernels):,}; they belong to no step"
        yield Check("unlinked_kernels", text, count=unlinked)


def _overlaps(rec: Recording) -> Iterator[Check]:
    overlaps = int(figures.neighbours(rec).overlapping.sum())
    if overlaps:
        text = f"same-stream overlap: {overlaps:,} pair(s) of kernels (graph branches and PDL do this; no fault)"
        yield Check("same_stream_overlap", text, count=overlaps)
