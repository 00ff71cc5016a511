"""What guests say of the run as a whole: versions, topology, the model, facts for gates."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

from m3probe.errors import UnreadableInput
from m3probe.model.model_config import ModelConfig, model_config_of
from m3probe.model.recording import Meta
from m3probe.model.served import Served
from m3probe.schema import records
from m3probe.schema.gates import GateFacts

PER_RANK = frozenset({"masks", "routed", "sent", "writes", "acks", "cosines"})
"""Gate facts that each rank has its own of: joined. Of the others the first that is known stands."""


def with_guest(meta: Meta, process: records.Process, found: dict[type[records.Record], list[Any]]) -> Meta:
    """The recording's meta with one process's facts."""
    versions = dict(meta.versions)
    for name in ("vllm", "torch", "python", "m3probe"):
        if getattr(process, name):
            versions.setdefault(name, getattr(process, name))
    gates = meta.gates
    for gate in found.get(records.Gate, []):
        gates = merged(gates, gate.facts)
    configs = found.get(records.Config, [])
    served = (Served(process, configs[-1]),) if configs else ()
    return replace(
        meta,
        versions=versions,
        backend=meta.backend or process.device,
        tp=meta.tp if meta.tp is not None else _size(process.tp),
        ep=meta.ep if meta.ep is not None else _size(process.ep),
        model=meta.model or next(filter(None, (_model(config) for config in configs)), None),
        gates=gates,
        served=(*meta.served, *served),
    )


def merged(ours: GateFacts, theirs: GateFacts) -> GateFacts:
    """Both ranks' facts."""
    values = {}
    for field in fields(GateFacts):
        mine, other = getattr(ours, field.name), getattr(theirs, field.name)
        if mine is None or other is None:
            values[field.name] = mine if other is None else other
        else:
            values[field.name] = (*mine, *other) if field.name in PER_RANK else mine
    return GateFacts(**values)


def _model(config: records.Config) -> ModelConfig | None:
    """None for a model whose shapes nobody predicts."""
    try:
        return model_config_of(dict(config.model), "the recording's model")
    except UnreadableInput:
        return None


def _size(value: int) -> int | None:
    return value if value > 0 else None
