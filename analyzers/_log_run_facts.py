"""Start, statistics and troubles of server logs, as ``inspect`` prints them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from m3probe.model.log_events import LogRun, Raised, Start, StartStep, Trouble, TroubleLine
from m3probe.model.log_tables import AGGREGATED, COUNTS, FIGURES, SINGLE
from m3probe.model.recording import Recording

Facts = dict[str, Any]
MOST_STATS = 2_000
"""Statistics lines that are printed; all of them are in the table ``log_stats``."""


def run_facts(rec: Recording) -> Facts:
    """Of all logs together."""
    runs = [log.run for log in rec.meta.logs]
    facts: Facts = {"messages": [text for run in runs for text in run.messages]}
    facts |= _stats(rec)
    for run in runs:
        facts |= _kv(run)
    modules = list(dict.fromkeys(module for run in runs for module in run.modules))
    facts |= {"aiter_modules_imported": modules} if modules else {}
    steps = [_step(step) for run in runs for step in run.steps]
    facts |= {"startup": steps} if steps else {}
    return facts | _troubles(runs)


def _stats(rec: Recording) -> Facts:
    table = rec.tables["log_stats"]
    if not len(table):
        return {}
    columns = {name: table[name][:MOST_STATS].tolist() for name in FIGURES}
    engines = zip(table["engine"][:MOST_STATS].tolist(), table["engines"].tolist(), strict=False)
    rows = [
        _engine(engine, engines_of)
        | {name: _figure(name, column[row]) for name, column in columns.items() if not np.isnan(column[row])}
        for row, (engine, engines_of) in enumerate(engines)
    ]
    facts: Facts = {"stats": rows}
    facts |= {"stats_not_printed": len(table) - len(rows)} if len(table) > len(rows) else {}
    single = table["generation_tps"][table["engine"] != AGGREGATED]
    single = single[~np.isnan(single)]
    named = bool((table["engine"] != SINGLE).any())
    return facts | ({"max_generation_tps_single_engine": float(single.max())} if named and len(single) else {})


def _engine(engine: int, engines: int) -> Facts:
    if engine == AGGREGATED:
        return {"engine": "aggregated", "engines": engines}
    return {} if engine == SINGLE else {"engine": engine}


def _figure(name: str, value: float) -> float | int:
    return int(value) if name in COUNTS else value


def _kv(run: LogRun) -> Facts:
    if not run.kv_tokens:
        return {}
    return {
        "kv_cache_tokens_by_engine": dict(run.kv_tokens),
        "kv_cache_tokens_total": sum(tokens for _, tokens in run.kv_tokens),
    }


def _step(step: StartStep) -> Facts:
    facts: Facts = {"stage": str(step.stage), "process": step.process or None, "at_s": step.at_s}
    facts |= {"what": step.what} if step.what else {}
    facts |= {"took_s": step.took_s} if step.took_s is not None else {}
    facts |= {"times": step.count} if step.count > 1 else {}
    return facts | ({"late": True} if step.late else {})


def _troubles(runs: Iterable[LogRun]) -> Facts:
    runs = list(runs)
    facts: Facts = {}
    counted = {
        "tracebacks": sum(run.tracebacks for run in runs),
        "gpu_faults": _count(runs, Trouble.GPU_FAULT),
        "stall_lines": _count(runs, Trouble.STALL),
        "sq_full_lines": _count(runs, Trouble.SQ_FULL),
        "too_many_open_files_lines": _count(runs, Trouble.NO_FILES),
        "builds_after_ready": sum(step.count for run in runs for step in run.steps if step.late),
    }
    facts |= {key: value for key, value in counted.items() if value}
    raised = [_raised(one) for run in runs for one in run.raised]
    facts |= {"exceptions": raised} if raised else {}
    cause = next((run.first_cause for run in runs if run.first_cause), None)
    facts |= {"first_cause": cause_text(cause)} if cause else {}
    failed = any(run.first(Trouble.START_FAILED) for run in runs)
    ready = any(step.stage in (Start.ENGINE_READY, Start.READY) for run in runs for step in run.steps)
    return facts | ({"startup_complete": False} if failed and not ready else {})


def cause_text(cause: TroubleLine | Raised) -> str:
    """One line."""
    if isinstance(cause, TroubleLine):
        return cause.text
    return f"{cause.type}: {cause.text}" if cause.text else cause.type


def _count(runs: Iterable[LogRun], trouble: Trouble) -> int:
    return sum(run.count(trouble) for run in runs)


def _raised(one: Raised) -> Facts:
    return {"process": one.process or None, "type": one.type, "text": one.text}
