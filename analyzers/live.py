"""A recording made inside the server: who wrote it, and where each phase's time went."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from m3probe.analyzers._ledger import WORKING, is_live, of_role, seconds, texts
from m3probe.analyzers._live_profiled import profiled_slower
from m3probe.model.findings import Bound, Finding, evidence, figure
from m3probe.model.live_report import LiveSection, ProcessRow, StepTimeRow, VerifiedRow
from m3probe.model.recording import Recording
from m3probe.model.report import Answer
from m3probe.model.tables import NONE, Array
from m3probe.plugs import Analyzer

STEP_TO_STEP = "time from step to step of the worker"
"""What these bounds are shares of: a host's clock, so that they are not compared with shares of device time."""
WAITS = 0.10
"""Above this share the worker waits for the device, whose time decides then."""
_OF_WORKER = ("prepare", "launch", "wait", "idle")
PARTS = ("schedule", "prepare", "launch", "wait", "output", "idle")


def judge(rec: Recording, _so_far: Answer) -> Answer:
    """Nothing for a trace."""
    if not is_live(rec):
        return Answer()
    rows = tuple(_step_times(rec))
    section = LiveSection(tuple(_processes(rec)), rows, seconds(rec), tuple(_verified(rec)), tuple(_unseen(rec)))
    findings = (*_host_share(rec, rows), *profiled_slower(rec), *_broken(section.verified))
    return Answer((section,), findings)


ANALYZER = Analyzer(title="Who recorded, and where does a step's time go?", order=15, judge=judge)


def _processes(rec: Recording) -> Iterator[ProcessRow]:
    table, counts = rec.tables["processes"], rec.tables["step_counts"]
    roles = texts(rec, table, "role")
    for row, role in enumerate(roles):
        mine = counts["file"] == table["file"][row]
        own = mine & (counts["role"] == rec.strings.find(role))
        rank = int(table["rank"][row])
        yield ProcessRow(
            role=role,
            pid=int(table["pid"][row]),
            rank=None if rank == NONE else rank,
            late=bool(table["late"][row] == 1),
            steps=int(counts["count"][own].sum()) if own.any() else None,
        )


def _step_times(rec: Recording) -> Iterator[StepTimeRow]:
    table = rec.tables["step_counts"]
    phases, modes = texts(rec, table, "phase"), texts(rec, table, "mode")
    workers, engines = of_role(rec, "step_counts", "worker"), of_role(rec, "step_counts", "engine")
    ranks = max(len(np.unique(table["file"][workers])), 1)
    kinds = sorted({(phases[r], modes[r]) for r in workers.tolist() if phases[r] in WORKING})
    for phase, mode in kinds:
        here = np.array([r for r in workers.tolist() if (phases[r], modes[r]) == (phase, mode)])
        planned = np.array([r for r in engines.tolist() if phases[r] == phase], dtype=np.int64)
        steps = int(table["count"][here].sum())
        yield StepTimeRow(
            phase=phase,
            graph_mode=mode,
            steps=steps / ranks,
            rows=int(table["rows_sum"][here].sum()) / steps,
            requests=int(table["requests_sum"][here].sum()) / steps,
            schedule_ns=_mean(table["schedule_ns"][planned], table["count"][planned]),
            prepare_ns=_mean(table["prepare_ns"][here], table["count"][here]),
            launch_ns=_mean(table["launch_ns"][here], table["count"][here]),
            wait_ns=_mean(table["wait_ns"][here], table["count"][here]),
            output_ns=_mean(table["output_ns"][planned], table["count"][planned]),
            idle_ns=_mean(table["idle_ns"][here], table["count"][here]),
        )


def _mean(times: Array, counts: Array) -> float | None:
    """Over the seconds in which every step's time was taken."""
    known = times >= 0
    return float(times[known].sum() / counts[known].sum()) if known.any() else None


_UNKNOWN = "cannot verify"
_STATES = frozenset({"holds", "broken", _UNKNOWN})
"""Words of ``records.Verified``; a recording may say anything."""


def _verified(rec: Recording) -> Iterator[VerifiedRow]:
    table = rec.tables["verified"]
    ranks = {
        int(f): int(r) for f, r in zip(rec.tables["processes"]["file"], rec.tables["processes"]["rank"], strict=True)
    }
    for row, (module, state, text) in enumerate(
        zip(texts(rec, table, "module"), texts(rec, table, "state"), texts(rec, table, "text"), strict=True)
    ):
        cosine, error = float(table["cosine"][row]), float(table["max_error"][row])
        rank = ranks.get(int(table["file"][row]), NONE)
        yield VerifiedRow(
            module=module,
            rank=None if rank == NONE else rank,
            state=state if state in _STATES else _UNKNOWN,
            cosine=None if math.isnan(cosine) else cosine,
            max_error=None if math.isnan(error) else error,
            text=text,
        )


def _unseen(rec: Recording) -> Iterator[str]:
    """Seams that this build changed or lacks in a process that has their module, and late probes."""
    table = rec.tables["seams"]
    told = zip(texts(rec, table, "id"), texts(rec, table, "state"), texts(rec, table, "text"), strict=True)
    for seam, state, text in dict.fromkeys(told):
        if state == "changed" or (state == "absent" and "not loaded" not in text):
            yield f"{seam}: {state} ({text})"


def _host_share(rec: Recording, rows: tuple[StepTimeRow, ...]) -> Iterator[Finding]:
    """Decode time in which the worker waits for its next step, and in which its host prepares and launches one."""
    decode = [row for row in rows if row.phase == "decode" and row.idle_ns is not None]
    for row in decode:
        if sum(_worker_ns(row)) > 0:
            yield _between_steps(rec, row)
            yield from _on_host(rec, row)


def _worker_ns(row: StepTimeRow) -> tuple[float, float, float, float]:
    """Prepare, launch, wait and idle of one step; 0 for a part that was not taken."""
    prepare, launch, wait, idle = (getattr(row, f"{part}_ns") or 0.0 for part in _OF_WORKER)
    return prepare, launch, wait, idle


def _bound(row: StepTimeRow, *parts: str, when: str) -> Bound:
    """These parts of the time from step to step."""
    times = dict(zip(_OF_WORKER, _worker_ns(row), strict=True))
    top = " + ".join(figure(times[part], "ns") for part in parts)
    worked = f"({top}) / ({' + '.join(figure(ns, 'ns') for ns in times.values())})"
    formula = f"{' + '.join(parts)} / ({' + '.join(times)}), {when}"
    return Bound(0.0, sum(times[part] for part in parts) / sum(times.values()), formula, STEP_TO_STEP, (worked,))


def _between_steps(rec: Recording, row: StepTimeRow) -> Finding:
    bound = _bound(row, "idle", when="if the next step were always ready")
    parts = ", ".join(
        f"{part} {getattr(row, part + '_ns') / 1e3:,.0f} µs" for part in PARTS if getattr(row, part + "_ns") is not None
    )
    return Finding(
        id=f"live.between_steps.{row.graph_mode.lower()}",
        question="queues",
        verdict="measured",
        claim=f"decode ({row.graph_mode}): between two steps the worker waits {(row.idle_ns or 0.0) / 1e3:,.0f} µs, "
        f"{bound.high:.1%} of the time from step to step ({parts})",
        where="decode",
        evidence=(evidence("step_counts", of_role(rec, "step_counts", "worker"), f"{row.steps:,.0f} steps a rank"),),
        bound=bound,
        advice="Under load this is the engine's and the front end's time; without load it is no bottleneck: compare with "
        "the requests that wait",
        confidence="medium",
        trusted=False,  # an idle server waits too: alone it names no bottleneck
    )


def _on_host(rec: Recording, row: StepTimeRow) -> Iterator[Finding]:
    """The host's own work of a step; while it waits for the device behind that, the device decides."""
    prepare, launch, wait, idle = _worker_ns(row)
    if prepare + launch <= 0:
        return
    bound = _bound(row, "prepare", "launch", when="if the host took no time; what the device does meanwhile stays")
    waits = wait / (prepare + launch + wait + idle)
    beside = f"; it then waits {waits:.1%} for the device, which decides as long as it does" if waits > WAITS else ""
    yield Finding(
        id=f"live.host_time.{row.graph_mode.lower()}",
        question="repeats",
        verdict="measured",
        claim=f"decode ({row.graph_mode}): the host takes {prepare / 1e3:,.0f} µs to prepare a step and {launch / 1e3:,.0f} µs to "
        f"launch it, {bound.high:.1%} of the time from step to step{beside}",
        where="decode",
        evidence=(evidence("step_counts", of_role(rec, "step_counts", "worker"), f"{row.steps:,.0f} steps a rank"),),
        bound=bound,
        advice="Prepare less per step, or while the previous one runs (asynchronous scheduling); graphs make launching one call",
        confidence="low" if waits > WAITS else "medium",
        trusted=False,  # on a CPU the launch is the computation; and the device's own time stands beside it in no record
    )


def _broken(rows: tuple[VerifiedRow, ...]) -> Iterator[Finding]:
    for at, row in enumerate(rows):
        if row.state == "broken":
            yield Finding(
                id=f"live.verify.{row.module}",
                question="paths",
                verdict="broken",
                claim=f"{row.module} on rank {row.rank} does not compute what its parameters say: cosine "
                f"{row.cosine if row.cosine is not None else '?'} with the float32 reference",
                where=row.text,
                evidence=(evidence("verified", [at], "below 0.999"),),
                advice="Do not compare speed before this is right",
                trusted=True,
            )
