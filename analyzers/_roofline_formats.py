"""Formats of weights and caches, and routing, as guests, the server's configuration or the operators say them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from m3probe.analyzers._gemm import Gemms
from m3probe.analyzers._gemm_ops import GROUPED, LINEAR
from m3probe.analyzers._layout import Layout
from m3probe.analyzers._ledger import counts, facts_of, texts
from m3probe.analyzers._tensors import json_list
from m3probe.model.decode_floor import Formats
from m3probe.model.floors import format_word
from m3probe.model.m3_shapes import OPTIONAL_MODULES
from m3probe.model.recording import Recording
from m3probe.model.report import Answer, BytesSection
from m3probe.model.tables import Array
from m3probe.schema.setup import Setup

_QUANT = {"mxfp8": "mxfp8", "mxfp4": "mxfp4"}


@dataclass(frozen=True, slots=True)
class Modules:
    """Formats by kind of module, as far as all modules of the kind share one; sizes that all experts or attentions share.

    ``kv_heads`` are the model's; ``fused_shared``: the shared expert is a slot of the routed ones.
    """

    formats: dict[str, str | None]
    ep: int | None
    kv_heads: int | None
    fused_shared: bool


def modules_of(rec: Recording) -> Modules:
    """What the live model map says; nothing without one."""
    table = rec.tables["modules"]
    own = [row for row in range(len(table)) if table["draft"][row] != 1]
    kinds, dtypes, quants, facts = (texts(rec, table, c) for c in ("kind", "dtype", "quant", "facts"))
    formats: dict[str, str | None] = {}
    for kind in ("linear", "moe", "router", "lm_head"):
        rows = [row for row in own if kinds[row] == kind]
        words = {_module_format(dtypes[row], quants[row]) for row in rows}
        if rows:
            formats[kind] = words.pop() if len(words) == 1 else None
    held = [facts_of(facts[row]) for row in own]
    return Modules(
        formats, _shared(held, "ep_size"), _shared(held, "kv_heads_all"), bool(_shared(held, "fused_shared"))
    )


def _shared(held: Iterable[dict[str, object]], name: str) -> int | None:
    """The one number above 0 that all modules with this fact say."""
    found = {facts[name] for facts in held if counts(facts, name)}
    size = found.pop() if len(found) == 1 else None
    return size if isinstance(size, int) else None


def _module_format(dtype: str, quant: str) -> str | None:
    """A packed weight is bytes: then the quantisation method's name says the format, or nothing does."""
    said = next((word for name, word in _QUANT.items() if name in quant.lower()), None)
    return said or format_word(dtype)


def formats_of(rec: Recording, so_far: Answer, found: Gemms, shape: Layout | None, modules: Modules) -> Formats:
    """From live modules, else from the operators that ran, else from the server's configuration."""
    setup, held = rec.meta.setup, modules.formats
    caches = _caches(rec, so_far, setup)
    return Formats(
        linear=held.get("linear") or _of_shapes(found, shape, LINEAR) or _said(setup, "linear_quant"),
        experts=held.get("moe") or _of_shapes(found, shape, GROUPED) or _said(setup, "moe_quant"),
        kv=caches["main"],
        index=caches["index"],
        lm_head=held.get("lm_head") or "bf16",
        router=held.get("router") or "fp32",
    )


def as_configured(formats: Formats, found: Gemms, shape: Layout | None, modules: Modules) -> Iterator[str]:
    """Formats that nothing but the configuration tells: what ran may have been given others."""
    for kind, module, word in ((LINEAR, "linear", formats.linear), (GROUPED, "moe", formats.experts)):
        if word and not modules.formats.get(module) and not _of_shapes(found, shape, kind):
            weights = "experts' weights" if module == "moe" else "linear weights"
            yield f"{weights} are taken as {word}, as configured: no operator and no guest shows them"


def _said(setup: Setup | None, name: str) -> str | None:
    word = getattr(setup.model, name) if setup else None
    return format_word(word) if word else None


def _of_shapes(found: Gemms, shape: Layout | None, kind: str) -> str | None:
    words = {
        format_word(group.shape.dtype)
        for group in found.shaped
        if shape and group.shape and group.shape.kind == kind and _plain(shape.module(group.shape))
    }
    return words.pop() if len(words) == 1 else None


def _plain(module: str) -> bool:
    return bool(module) and OPTIONAL_MODULES.isdisjoint(module.split(", "))


def _caches(rec: Recording, so_far: Answer, setup: Setup | None) -> dict[str, str | None]:
    """Formats of the KV cache and the index cache."""
    table = rec.tables["kv_layers"]
    kinds, dtypes = texts(rec, table, "kind"), texts(rec, table, "dtype")
    drafts = table["draft"].tolist()
    said = so_far.section(BytesSection)
    state = said.bytes.state if said else ()
    found: dict[str, str | None] = {}
    for kind, written in (("main", "KV write"), ("index", "index write")):
        live = {dtypes[r] for r in range(len(table)) if kinds[r] == kind and drafts[r] != 1}
        seen = {row.dtype for row in state if row.what.startswith(written) and row.dtype}
        found[kind] = _only(live) or _only(seen)
    if found["main"] is None and setup and str(setup.flags.get("--kv-cache-dtype", "")).startswith("fp8"):
        found["main"] = "fp8"
    return found


def _only(words: Iterable[str]) -> str | None:
    found = {format_word(word) for word in words}
    return found.pop() if len(found) == 1 else None


def routing_of(rec: Recording, experts: int) -> Iterator[tuple[float, ...]]:
    """Rows that chose each expert over rows, by layer; layers whose record has another number of experts are left out."""
    table = rec.tables["routing"]
    layers, told = texts(rec, table, "layer"), texts(rec, table, "experts")
    sums: dict[str, Array] = {}
    rows: Counter[str] = Counter()
    for row, (layer, text) in enumerate(zip(layers, told, strict=True)):
        counts = [n for n in json_list(text) if type(n) is int and n >= 0]
        if len(counts) == experts and table["rows"][row] > 0:
            sums[layer] = sums.get(layer, 0) + np.array(counts, dtype=np.int64)
            rows[layer] += int(table["rows"][row])
    for layer, total in sums.items():
        yield tuple(float(share) for share in total / rows[layer])
