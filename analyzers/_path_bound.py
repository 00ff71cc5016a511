"""What a fast path that did not run could give: what was published nearest to this run, else the fallback's time seen here."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from m3probe.analyzers._anchors import Calls
from m3probe.analyzers._basis import basis, removable_share
from m3probe.analyzers._configured import state_of_step
from m3probe.analyzers._ledger import worker_steps
from m3probe.analyzers._view import percent
from m3probe.fastpaths._published import Published, Run, nearest, published
from m3probe.fastpaths._sparse_pa import PAYS_FROM
from m3probe.model.findings import Bound, Finding
from m3probe.model.path_report import PathRow
from m3probe.model.recording import Recording
from m3probe.model.tables import Array
from m3probe.schema.paths import FastPath, Role, When
from m3probe.schema.setup import Held
from m3probe.schema.verdicts import FAMILIES, PHASES, Family, PathVerdict, Phase

BASES = {
    "tpot": f"{Phase.DECODE} step time",
    "output_throughput": f"{Phase.DECODE} step time",
    "ttft": "time to first token",
}
"""What a published gain is taken as a share of; an end-to-end gain counts as one of the decode step, and says so."""
MEASURED_ON = "gfx950"
"""Every published effect is of MI355X; on another device only what was seen there bounds."""
_MISSING = (PathVerdict.MISSED, PathVerdict.DECLINED)
_SIZES = "refused at these sizes by design: nothing is missed"


def with_bound(rec: Recording, path: FastPath, row: PathRow, calls: list[Calls], finding: Finding) -> Finding:
    """The finding with what the path could give, or why nothing can be told; unchanged where it ran or is unproven."""
    if row.verdict not in _MISSING:
        return finding
    run = run_of(rec)
    why_not = _right(rec, path, row, run)
    if why_not:
        return replace(finding, claim=f"{finding.claim}; {why_not}")
    there = rec.meta.setup is not None and rec.meta.setup.gfx == MEASURED_ON
    near = nearest(published().get(row.id, ()), run) if there else ()
    found = _published(row, finding, near, run) if near else _seen(rec, row, calls, finding)
    if found.bound is None or not path.other_work:
        return found
    changes = f"{path.other_work} changes the model's work: no speed-up under one contract"
    return replace(found, claim=f"{found.claim}; {changes}")


def run_of(rec: Recording) -> Run:
    """What is known of this run: its weights, TP, the requests of a decode step, and a benchmark's mean lengths."""
    setup = rec.meta.setup
    bench = rec.meta.bench[0] if len(rec.meta.bench) == 1 else None
    return Run(
        quant=(setup.model.moe_quant or setup.model.linear_quant) if setup is not None else None,
        tp=setup.tp if setup is not None else None,
        concurrency=_requests(rec),
        isl=bench.mean_input_tokens if bench is not None else None,
        osl=bench.mean_output_tokens if bench is not None else None,
    )


def _requests(rec: Recording) -> float | None:
    """Mean requests of a decode step, of the trace or of the counted steps."""
    decode = np.flatnonzero(rec.steps["phase"] == PHASES.index(Phase.DECODE))
    known = rec.steps["requests"][decode]
    if len(known) and (known >= 0).all():
        return float(known.mean())
    kinds = [kind for kind in worker_steps(rec) if kind.phase == Phase.DECODE]
    steps = sum(kind.steps for kind in kinds)
    return sum(kind.requests for kind in kinds) / steps if steps else None


def _right(rec: Recording, path: FastPath, row: PathRow, run: Run) -> str:
    """Why the path not running is right here; empty where it is not, or nobody can tell."""
    if row.id == "aiter_sparse_pa" and (why := _too_small(rec, run)):
        return why
    if row.verdict != PathVerdict.DECLINED or row.id == "tuned_table":
        return ""
    refusing = _refusals(rec, path, row)
    return _SIZES if refusing and all(when is When.CALL for when in refusing) else ""


def _too_small(rec: Recording, run: Run) -> str:
    """Below the gate of the recipe the path was measured slower."""
    tokens, requests = PAYS_FROM
    context = _context(rec)
    told = [f"{run.concurrency:,.0f} requests"] if run.concurrency is not None and run.concurrency < requests else []
    if run.isl is not None:
        told += [f"{run.isl:,.0f} prompt tokens"] if round(run.isl) < tokens * (1 - _RANDOM) else []
    elif context is not None and context < tokens * (1 - _RANDOM):  # no prompt is longer than what it is attended with
        told.append(f"contexts of {context:,.0f} tokens")
    if not told:
        return ""
    return (
        f"not running it is right here: it was measured slower below {tokens:,} prompt tokens or {requests} requests "
        f"(InferenceX PR 2187), and this run has {' and '.join(told)}"
    )


_RANDOM = 0.2
"""A benchmark of nominal 8,192 tokens with a range ratio of 0.8 sends 7,354 on average (0.8 to 1.0 of it)."""


def _context(rec: Recording) -> float | None:
    """Mean key length of a decode request; None where a step does not say it."""
    decode = np.flatnonzero(rec.steps["phase"] == PHASES.index(Phase.DECODE))
    keys, requests = rec.steps["gen_seq_len_sum"][decode], rec.steps["gen_reqs"][decode]
    if not len(decode) or (keys < 0).any() or (requests <= 0).any():
        return None
    return float(keys.sum() / requests.sum())


def _refusals(rec: Recording, path: FastPath, row: PathRow) -> list[When]:
    """When each need that says no in the declining phases is asked."""
    setup = rec.meta.setup
    if setup is None:
        return []
    found: list[When] = []
    for name, verdict in row.by_phase.items():
        if verdict != PathVerdict.DECLINED:
            continue
        steps = np.flatnonzero(rec.steps["phase"] == PHASES.index(Phase(name)))
        sizes = {(int(rec.steps["rows"][s]), int(rec.steps["requests"][s])) for s in steps.tolist()}
        kinds = [k for k in worker_steps(rec) if k.phase == name]
        sizes |= {(k.rows // k.steps, k.requests // k.steps) for k in kinds}
        for rows, requests in sizes:
            judged = state_of_step(path, setup, Phase(name), rows, requests).judged
            found += [j.need.when for j in judged if j.answer.held is Held.NO]
    return found


def _published(row: PathRow, finding: Finding, near: tuple[Published, ...], run: Run) -> Finding:
    """The range over what was measured nearest, times the share of steps that it would reach."""
    low, high = min(near, key=lambda p: p.low), max(near, key=lambda p: p.high)
    at = "; ".join(dict.fromkeys(f"{effect.source}: {_said(effect)} at {effect.where()}" for effect in near))
    told = f"{finding.claim}; published {at}; yours is {run.text()}"
    if high.high <= 0:
        return replace(finding, claim=f"{told}; the fallback was the faster one there: nothing is won for certain")
    part, times = _part(row, high.metric)
    worked = [f"{effect.worked[end]}{times}" for end, effect in ((0, low), (1, high))]
    worked[0] = worked[0] if low.low > 0 else ""
    won = "; ".join(dict.fromkeys(_FORMULA[effect.metric] for effect in (low, high)))
    formula = f"{won}{' x share of steps' if times else ''}, as measured at the nearest published run (MI355X)"
    bound = Bound(
        max(low.low, 0.0) * part,
        high.high * part,
        formula,
        BASES[high.metric],
        tuple(dict.fromkeys(text for text in worked if text)),
    )
    same = all(_same(effect.run, run) for effect in near)
    return replace(finding, claim=told, bound=bound, confidence="medium" if same else "low")


_FORMULA = {
    "tpot": "1 - TPOT after / TPOT before",
    "ttft": "1 - TTFT after / TTFT before",
    "output_throughput": "1 - 1 / gain of output throughput, end to end and taken as one of the step",
}


def _said(effect: Published) -> str:
    ends = dict.fromkeys(percent(abs(share)) for share in (effect.low, effect.high))
    return f"{' to '.join(ends)} of the time {'won' if effect.high > 0 else 'lost'}"


def _same(at: Run, run: Run) -> bool:
    """Equal weights, TP and requests: what decides most."""
    return at.quant == run.quant and at.tp == run.tp and at.concurrency == run.concurrency is not None


def _part(row: PathRow, metric: str) -> tuple[float, str]:
    """Share of the decode steps (of all for a first token) in which the path did not run, and its arithmetic; else all."""
    cells = [cell for cell in row.cells if cell.phase == Phase.DECODE or metric == "ttft"]
    steps = sum(cell.steps for cell in cells)
    missed = sum(cell.steps - cell.executed for cell in cells if cell.verdict in _MISSING)
    return (missed / steps, f" * {missed:,} / {steps:,}") if 0 < missed < steps else (1.0, "")


def _seen(rec: Recording, row: PathRow, calls: list[Calls], finding: Finding) -> Finding:
    """At most the time of the kernels that ran in its place; nothing where none of them has one."""
    base = basis(rec)
    kernels = _tuned(rec, row) if row.id == "tuned_table" else _fallback(calls)
    if base is None or not len(kernels):
        return finding
    more = " (the fallback's kernels: an upper bound, the fast one takes time too; nothing is published of it alone)"
    bound = removable_share(rec, kernels, base, more=more)
    if bound.high <= 0:
        return finding
    claim = f"{finding.claim}; what ran in its place bounds it by {percent(bound.high)} of {base.name}"
    return replace(finding, claim=claim, bound=bound, confidence="low")


def _fallback(calls: list[Calls]) -> Array:
    rows = [c.rows for c in calls if c.variant.role is Role.FALLBACK and c.table == "kernels"]
    return np.concatenate(rows) if rows else np.empty(0, dtype=np.int64)


def _tuned(rec: Recording, row: PathRow) -> Array:
    """GEMMs that a table serves: the experts', or the dense ones where the reason is of those."""
    dense = any("dense shapes" in reason for reason in row.reasons)
    wanted = Family.GEMM if dense else Family.MOE_GEMM
    return np.flatnonzero(rec.kernels["family"] == FAMILIES.index(wanted))
