"""What a server's log holds, as ``inspect`` prints it."""

from __future__ import annotations

from collections import Counter
from typing import Any

from m3probe.analyzers._log_run_facts import run_facts
from m3probe.model.recording import Recording
from m3probe.model.server_log import LogKind, ServerLog

Facts = dict[str, Any]
_CHOSEN = {LogKind.ATTENTION: "attention_backend", LogKind.MOE: "moe_backend", LogKind.LINEAR: "linear_kernels"}
_BACKENDS = (*_CHOSEN, LogKind.ALL_REDUCE, LogKind.SPARSE_ATTENTION, LogKind.INDEXER)
UNNAMED = "null"
"""The key of lines without a process."""


def log_facts(rec: Recording) -> Facts:
    """Facts of all logs together; {} where there is none."""
    logs = rec.meta.logs
    if not logs:
        return {}
    levels = sum((Counter(log.counts.levels) for log in logs), Counter[str]())
    labels = list(dict.fromkeys(label or None for log in logs for label in log.labels))
    facts: Facts = {
        "records": sum(log.counts.records for log in logs),
        "levels": dict(levels),
        "process_labels": labels,
    }
    for key in ("foreign", "unparsed"):
        number = sum(getattr(log.counts, key) for log in logs)
        facts |= {f"{key}_records" if key == "foreign" else "unparsed_lines": number} if number else {}
    for log in logs:
        facts |= _server(log) | _chosen(log) | _m3(log)
    return facts | _ranks(logs) | run_facts(rec)


def _server(log: ServerLog) -> Facts:
    config = log.config or {}
    facts: Facts = {"vllm_version": log.version} if log.version else {}
    facts |= {"architecture": log.architecture} if log.architecture else {}
    facts |= {"asked": sorted(log.asked)} if log.asked is not None else {}
    sizes = [f"{name}_parallel_size" for name in ("tensor", "pipeline", "data")]
    facts |= {size: config[size] for size in sizes if size in config}
    if log.config is not None or log.ready:
        facts["startup_complete"] = log.ready
    refused = [line.refused for line in log.said if line.refused]
    return facts | ({"refusals": refused} if refused else {})


def _chosen(log: ServerLog) -> Facts:
    facts: Facts = {}
    for kind, key in _CHOSEN.items():
        found = {line.process or UNNAMED: line.value for line in log.of(kind) if line.value}
        facts |= {key: found} if found else {}
    reduces = {line.process or UNNAMED: line.value.split(", ") for line in log.of(LogKind.ALL_REDUCE)}
    facts |= {"allreduce_backends": reduces} if reduces else {}
    if any(line.details.get("asked") == "user-requested" for line in log.of(LogKind.MOE)):
        facts["moe_backend_requested_by_user"] = True
    captured = [line.value for line in log.of(LogKind.CAPTURED)]
    return facts | ({"graphs_captured": captured} if captured else {})


def _m3(log: ServerLog) -> Facts:
    facts: Facts = {}
    for line in log.of(LogKind.SPARSE_ATTENTION):
        facts |= {"sparse_attention": line.value, "kv_cache_dtype": line.details.get("kv_cache_dtype")}
        blocks = line.details.get("topk_blocks", "")
        facts["topk_blocks"] = int(blocks) if blocks.isascii() and blocks.isdecimal() and len(blocks) < 10 else None
    for line in log.of(LogKind.INDEXER):
        facts |= {"indexer": line.value} if line.value else {"indexer_msa_refused": line.refused.partition(": ")[2]}
    for line in log.of(LogKind.INDEXER_CP):
        facts["indexer_cp"] = bool(line.value)
        facts |= {"indexer_cp_reason": line.refused} if line.refused else {}
    return facts


def _ranks(logs: tuple[ServerLog, ...]) -> Facts:
    """Ranks that printed no backend line said nothing, which is no evidence."""
    seen = sorted({rank for log in logs for rank in log.ranks})
    spoke = {line.rank for log in logs for line in log.of(*_BACKENDS)}
    silent = [rank for rank in seen if rank not in spoke]
    facts: Facts = {"ranks_seen": seen} if seen else {}
    return facts | ({"ranks_without_line": silent} if silent and spoke - {None} else {})
