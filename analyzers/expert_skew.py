"""Do all experts get alike many rows? Counts of sampled steps, the shared expert left out: it gets every row by design.

Under expert parallelism the ranks wait for the one whose experts got most rows. Without it one device computes all
experts, and a hot one costs no wait: fewer tiles are filled in part where rows gather.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from math import sqrt

import numpy as np

from m3probe.analyzers._basis import Basis, basis, removable_share
from m3probe.analyzers._ledger import of_role, texts
from m3probe.model.findings import Bound, Evidence, Finding, evidence, figure
from m3probe.model.recording import Recording
from m3probe.model.report import Answer
from m3probe.model.tables import Array
from m3probe.plugs import Analyzer
from m3probe.schema.verdicts import FAMILIES, Family

CHANCE = 3.0
"""Standard deviations of a count (its root) that the hottest must lie above the mean: few rows are uneven by chance."""
MOE_TIME = "MoE GEMM time"


@dataclass(frozen=True, slots=True)
class LayerRows:
    """Rows of one MoE layer over the sampled steps, of all its tokens: int64 [experts]."""

    layer: str
    rows: Array
    table_rows: tuple[int, ...]

    def ranks(self, ep: int) -> Array:
        """Rows of each expert-parallel rank, int64 [ep]: vLLM places neighbours on one rank unless EPLB moves them."""
        found: Array = self.rows.reshape(ep, -1).sum(axis=1)
        return found


def judge(rec: Recording, _so_far: Answer) -> Answer:
    """Nothing for a trace, which tells no rows per expert."""
    ep, layers = _ep(rec), layer_rows(rec)
    if not layers:
        return Answer(findings=tuple(_uncounted(ep)))
    if ep > 1 and all(len(each.rows) % ep == 0 for each in layers):
        return Answer(findings=tuple(_ranks(rec, layers, ep)))
    return Answer(findings=tuple(_experts(layers, ep)))


ANALYZER = Analyzer(title="Do all experts get alike many rows?", order=42, judge=judge)


def _ep(rec: Recording) -> int:
    """Expert-parallel ranks by the workers, else by the configuration; 1 where nobody says more."""
    known = rec.tables["processes"]["ep"][of_role(rec, "processes", "worker")]
    return max(int(known.max(initial=1)), rec.meta.setup.ep if rec.meta.setup is not None else 1)


def layer_rows(rec: Recording) -> list[LayerRows]:
    """Rows of every layer, summed over data-parallel ranks: tensor-parallel ones route the same tokens."""
    table, names = rec.tables["routing"], texts(rec, rec.tables["routing"], "layer")
    files = _token_files(rec)
    held: dict[str, list[tuple[int, list[int]]]] = {}
    for row, (name, text) in enumerate(zip(names, texts(rec, table, "experts"), strict=True)):
        counts = _counts(text)
        if counts and int(table["file"][row]) in files:
            held.setdefault(name, []).append((row, counts))
    found = []
    for name, parts in held.items():
        most = max(len(counts) for _, counts in parts)
        same = [(row, counts) for row, counts in parts if len(counts) == most]
        rows = np.array([counts for _, counts in same], dtype=np.int64).sum(axis=0)
        if rows.sum() > 0:
            found.append(LayerRows(name, rows, tuple(row for row, _ in same)))
    return found


def _token_files(rec: Recording) -> set[int]:
    """One worker's file of each data-parallel rank."""
    table = rec.tables["processes"]
    has = set(rec.tables["routing"]["file"].tolist())
    by_rank: dict[int, int] = {}
    for row in of_role(rec, "processes", "worker").tolist():
        file = int(table["file"][row])
        if file in has:
            by_rank.setdefault(int(table["dp_rank"][row]), file)
    return set(by_rank.values())


def _counts(text: str) -> list[int]:
    """A file is not trusted to hold what it should: [] for anything but counts."""
    try:
        found = json.loads(text)
    except ValueError:
        return []
    good = isinstance(found, list) and all(type(n) is int and 0 <= n < 2**40 for n in found)
    return found if good else []


def _ranks(rec: Recording, layers: list[LayerRows], ep: int) -> Iterator[Finding]:
    """The hottest rank of each layer against the mean: every rank waits for it at the layer's end."""
    loads = np.array([each.ranks(ep) for each in layers])
    hottest, mean = int(loads.max(axis=1).sum()), float(loads.mean(axis=1).sum())
    worst = int(np.argmax(loads.max(axis=1) / np.maximum(loads.mean(axis=1), 1)))
    if hottest <= mean + CHANCE * sqrt(mean):
        return
    top, average = int(loads[worst].max()), float(loads[worst].mean())
    yield Finding(
        id="expert_skew.ranks",
        question="expert_skew",
        verdict="uneven",
        claim=f"Over {len(layers)} MoE layers the hottest of {ep} expert-parallel ranks gets {hottest / mean:.2f} x the mean rows "
        f"(worst {layers[worst].layer}: {top:,} against {average:,.0f}); the others wait for it in every layer",
        where="",
        evidence=_shown(layers, f"hottest ranks {hottest:,} rows, mean {mean:,.1f}"),
        advice="Rebalance: --enable-eplb with redundant experts, or another placement; the shared expert is not counted, it "
        "gets every row by design. Without expert parallelism no rank waits for another's experts",
        bound=_bound(rec, hottest, mean),
        confidence="low",  # a sample of eager steps, of all phases; ranks placed by neighbours
    )


def _bound(rec: Recording, hottest: int, mean: float) -> Bound:
    """Of step time where kernels were timed, else of the MoE GEMMs' own."""
    share = 1 - mean / hottest
    worked = f"(1 - {figure(mean, 'rows')} / {figure(hottest, 'rows')})"
    formula = "1 - mean rows / hottest rank's rows, summed over layers"
    base: Basis | None = basis(rec)
    moe = np.flatnonzero(rec.kernels["family"] == FAMILIES.index(Family.MOE_GEMM))
    if base is None or not len(moe):
        return Bound(0.0, share, f"{formula}, if the time of a rank's GEMMs grows with its rows", MOE_TIME, (worked,))
    whole = removable_share(rec, moe, base)
    said = tuple(f"{each} * {worked}" for each in whole.arithmetic)
    return Bound(0.0, whole.high * share, f"{whole.formula} x ({formula})", base.name, said)


def _experts(layers: list[LayerRows], ep: int) -> Iterator[Finding]:
    """One device computes every expert: unevenness is told, and nothing waits for it."""
    ratio = [(float(each.rows.max() / each.rows.mean()), each) for each in layers]
    high, worst = max(ratio, key=lambda pair: pair[0])
    mean = float(worst.rows.mean())
    if worst.rows.max() <= mean + CHANCE * sqrt(mean):
        return
    why = f"the {len(worst.rows)} experts do not divide over {ep} ranks" if ep > 1 else "without expert parallelism"
    yield Finding(
        id="expert_skew.experts",
        question="expert_skew",
        verdict="unproven" if ep > 1 else "no_wait",
        claim=f"The hottest expert gets up to {high:.2f} x the mean rows ({worst.layer}: {int(worst.rows.max()):,} against {mean:,.1f} "
        f"over {len(worst.rows)} experts); {why} no rank is known to wait for it: a hot expert fills its tiles, and the others' "
        "weights are read in any case",
        where="",
        evidence=_shown(layers, f"hottest {high:.2f} x the mean"),
        advice="Nothing to win by balancing here; under expert parallelism the same rows would make ranks wait",
        confidence="medium",
    )


def _shown(layers: list[LayerRows], observed: str) -> tuple[Evidence, ...]:
    rows = [row for each in layers for row in each.table_rows]
    return (evidence("routing", rows, f"{len(layers)} layers: {observed}"),)


def _uncounted(ep: int) -> Iterator[Finding]:
    if ep < 2:
        return
    yield Finding(
        id="expert_skew.unproven",
        question="expert_skew",
        verdict="unproven",
        claim=f"Whether the {ep} expert-parallel ranks wait for a hot one is unproven: no rows per expert were counted",
        where="",
        evidence=(),
        advice="Record with attach --routing, or start the server with M3PROBE=1 M3PROBE_ROUTING=1 to count inside graphs too",
    )
