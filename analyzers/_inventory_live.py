"""What is in a recording of guests: who wrote it, how long, how many records of each kind."""

from __future__ import annotations

from collections import Counter
from typing import Any

from m3probe.analyzers._ledger import seconds, texts, worker_steps
from m3probe.model.live_tables import LIVE_TABLES
from m3probe.model.recording import Recording

MOST_LISTED = 4096
LOSSES = ("dropped", "failed_hook", "damaged")


def live_facts(rec: Recording) -> dict[str, Any]:
    """Facts of ``inspect``; docs/inspect.md explains each."""
    processes, table = rec.tables["processes"], rec.tables["step_counts"]
    roles = texts(rec, processes, "role")
    steps = Counter[str]()
    for kind in worker_steps(rec):
        rank = rec.files[kind.file].rank
        steps["unknown rank" if rank is None else f"rank {rank}"] += kind.steps
    ranks = sorted({rank for rank in processes["rank"].tolist() if rank >= 0})
    world = int(processes["world_size"].max(initial=0))
    facts: dict[str, Any] = {
        "versions": dict(rec.meta.versions),
        "processes": dict(sorted(Counter(roles).items())),
        "pids": [f"{role} {pid}" for role, pid in zip(roles, processes["pid"].tolist(), strict=True)],
        "attached_late": int((processes["late"] == 1).sum()),
        "seconds": round(seconds(rec), 3),
        "steps_counted": dict(sorted(steps.items())),
        "phases_counted": dict(sorted(_phases(rec).items())),
        "ranks": ranks,
        "world_size": world,
        "missing_ranks": sorted(set(range(min(world, MOST_LISTED))) - set(ranks)) if ranks else [],
        "graph_replays": int(table["replays"].clip(min=0).sum()),
        "records": {name: len(rec.tables[name]) for name in LIVE_TABLES if len(rec.tables[name])},
        "losses": {word: _noted(rec, word) for word in LOSSES if _noted(rec, word)},
        "ended_in_order": not any(note.word == "no_end" for note in rec.notes),
    }
    return {key: value for key, value in facts.items() if value not in ({}, [])}


def _phases(rec: Recording) -> Counter[str]:
    found = Counter[str]()
    for kind in worker_steps(rec):
        found[kind.phase] += kind.steps
    return found


def _noted(rec: Recording, word: str) -> int:
    return sum(note.count for note in rec.notes if note.word == word)
