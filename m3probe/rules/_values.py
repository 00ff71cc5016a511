"""What the names of a formula are worth in one recording: from the model's sizes, the server's setup, the module map.

A name that nothing here tells has no value: it is never a default, and two sources that differ tell nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from m3probe.model.recording import Recording
from m3probe.rules.file import FAST_PATHS
from m3probe.rules.formula import MODEL_NAMES
from m3probe.schema.setup import Point
from m3probe.schema.verdicts import Phase

_CONFIG = {
    "layers": "num_layers",
    "dense_layers": "dense_layers",
    "sparse_layers": "sparse_attention_layers",
    "moe_layers": "sparse_layers",
    "kv_heads": "kv_heads",
    "experts": "num_experts",
    "top_k": "top_k",
}
"""Name -> field of ``ModelConfig``, whose ``sparse_layers`` are told apart by their MLP."""
_FACTS = {
    "layers": "layers",
    "dense_layers": "dense_layers",
    "sparse_layers": "sparse_layers",
    "moe_layers": "moe_layers",
    "kv_heads": "kv_heads",
    "experts": "experts",
    "top_k": "top_k",
}
"""Name -> field of ``ModelFacts``."""
_PER_STAGE = frozenset({"layers", "dense_layers", "sparse_layers", "moe_layers", "index_layers"})

MODEL_TELLS = "--model-config FILE (the model's config.json), --recipe FILE, or a recording made by m3probe attach"
SERVER_TELLS = "--recipe FILE (the server's command), or a recording made by m3probe attach"
_TELLS = {"tp": "--tp N", "ep": "--ep N"}


@dataclass(frozen=True, slots=True)
class Values:
    """Names with a value, and of each other name why it has none."""

    known: dict[str, int] = field(default_factory=dict)
    unknown: dict[str, str] = field(default_factory=dict)

    def why(self, names: frozenset[str]) -> str:
        """Why a formula with these names has no value; empty when it has."""
        return "; ".join(self.unknown[name] for name in sorted(names) if name in self.unknown)

    @staticmethod
    def tell(names: frozenset[str]) -> str:
        """Which input would tell them."""
        tells = (
            _TELLS.get(n, MODEL_TELLS if n in MODEL_NAMES and n != "index_layers" else SERVER_TELLS)
            for n in sorted(names)
        )
        return "Give " + "; or ".join(dict.fromkeys(tells))


def values_of(rec: Recording) -> Values:
    """Values of all names but those of a step (``rows``, ``requests``, ``steps``)."""
    found = Values()
    split = rec.meta.setup is not None and rec.meta.setup.pp > 1
    for name in (*MODEL_NAMES, "tp", "ep", "spec_tokens"):
        if split and name in _PER_STAGE:
            found.unknown[name] = f"{name}: pipeline stages split the layers over the ranks"
            continue
        said = dict.fromkeys(_said(rec, name))
        if len({value for value, _by in said}) == 1:
            found.known[name] = next(iter(said))[0]
        elif said:
            found.unknown[name] = f"{name} is not one number: " + ", ".join(f"{value:,} by {by}" for value, by in said)
        else:
            found.unknown[name] = f"{name} is not known here"
    return found


def _said(rec: Recording, name: str) -> Iterator[tuple[int, str]]:
    """Every source's value; the module map speaks only where neither the model nor the server does."""
    said = [*_by_model(rec, name), *_by_server(rec, name)]
    yield from said or _by_modules(rec, name)


def _by_model(rec: Recording, name: str) -> Iterator[tuple[int, str]]:
    meta = rec.meta
    if meta.model is not None and name in _CONFIG:
        yield getattr(meta.model, _CONFIG[name]), "the model's config"
    if name == "tp" and meta.tp is not None:
        yield meta.tp, "the run"
    if name == "ep" and meta.ep is not None:
        yield meta.ep, "the run"


def _by_server(rec: Recording, name: str) -> Iterator[tuple[int, str]]:
    setup = rec.meta.setup
    if setup is None:
        return
    by = "the server's configuration"
    if name in ("tp", "ep", "spec_tokens"):
        yield getattr(setup, name), by
        return
    value = _index_layers(rec) if name == "index_layers" else getattr(setup.model, _FACTS[name])
    if value is not None:
        yield value, by


def _index_layers(rec: Recording) -> int | None:
    """Layers that choose blocks in each step, by the catalogue's own formula: all sparse ones, or fewer with reuse."""
    setup = rec.meta.setup
    path = FAST_PATHS.load("index_reuse")
    if setup is None or path is None or "--hf-overrides" in setup.uncertain:
        return None
    chosen = next((v.expected for v in path.variants if v.name == "every layer chooses"), None)
    # one row of one request: what a step calls once in each such layer
    return chosen(setup, Point(Phase.DECODE, 1, 1)) if chosen else None


def _by_modules(rec: Recording, name: str) -> Iterator[tuple[int, str]]:
    """Layers of the target model as the first rank holds them."""
    table = rec.tables["modules"]
    if name not in ("layers", "moe_layers", "dense_layers") or not len(table):
        return
    mine = (table["file"] == table["file"][0]) & (table["draft"] != 1) & (table["layer"] >= 0)
    moe = mine & (table["kind"] == rec.strings.find("moe"))
    layers, experts = (len(set(table["layer"][rows].tolist())) for rows in (mine, moe))
    found = {"layers": layers, "moe_layers": experts, "dense_layers": layers - experts}[name]
    if layers:
        yield found, "the module map"
