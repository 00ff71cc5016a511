"""The graph mode that a log's configuration names, beside the graph launches of a trace."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from m3probe.model.findings import Finding, evidence
from m3probe.model.log_match import contradictions
from m3probe.model.recording import Recording
from m3probe.model.server_log import ServerLog
from m3probe.schema.verdicts import GRAPH_MODES, PHASES, GraphMode, Phase

QUESTION = "joining"
_DECODES_FULL = ("FULL", "FULL_DECODE_ONLY", "FULL_AND_PIECEWISE")


def other_graphs(rec: Recording) -> Iterator[Finding]:
    """Logs that say no graphs beside replays, or graphs for decode beside steps without any."""
    for log in rec.meta.logs:
        config = log.config
        if config is None or not len(rec.steps) or contradictions(log, rec):
            continue
        mode = "NONE" if config.get("enforce_eager") is True else _compilation(config).get("cudagraph_mode")
        if mode == "NONE":
            yield from _replayed(rec, log, config)
        elif mode in _DECODES_FULL:
            yield from _eager(rec, log, str(mode), _compilation(config).get("max_cudagraph_capture_size"))


def _compilation(config: Mapping[str, Any]) -> Mapping[str, Any]:
    found = config.get("compilation_config")
    return found if isinstance(found, Mapping) else {}


def _replayed(rec: Recording, log: ServerLog, config: Mapping[str, Any]) -> Iterator[Finding]:
    launches = np.flatnonzero(rec.graph_launches & (rec.launches["step"] >= 0))
    if not len(launches):
        return
    said = "enforce_eager" if config.get("enforce_eager") is True else "cudagraph_mode NONE"
    yield Finding(
        id=f"{QUESTION}.graph_mode.{log.file}",
        question=QUESTION,
        verdict="differs",
        claim=f"the log says {said}, and the trace replays graphs: {len(launches):,} launches in its steps",
        where=log.path,
        evidence=(evidence("launches", launches, "graph launches", "none"),),
        advice="The log is of another start than the trace: give the log of the server that was traced.",
    )


def _eager(rec: Recording, log: ServerLog, mode: str, largest: object) -> Iterator[Finding]:
    """Decode steps that fit a captured batch, none of which launches a graph."""
    table = rec.steps
    if not isinstance(largest, int) or isinstance(largest, bool) or largest <= 0 or not len(rec.launches):
        return
    decode = (table["phase"] == PHASES.index(Phase.DECODE)) & (table["rows"] > 0) & (table["rows"] <= largest)
    steps = np.flatnonzero(decode)
    modes = table["graph_mode"][steps]
    if not len(steps) or (modes != GRAPH_MODES.index(GraphMode.NONE)).any():
        return
    yield Finding(
        id=f"{QUESTION}.graph_mode.{log.file}",
        question=QUESTION,
        verdict="differs",
        claim=f"the log says cudagraph_mode {mode} with batches of up to {largest:,} rows, and none of {len(steps):,} decode "
        "steps of the trace that fit one launches a graph",
        where=log.path,
        evidence=(evidence("steps", steps, "without a graph launch", "one graph launch"),),
        advice="The log is of another start than the trace, or graphs were turned off later: look for `graph_replay` in the "
        "paths question.",
    )
