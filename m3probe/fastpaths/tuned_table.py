"""Whether the local shapes of a setup have tuned rows, or run on a library's defaults.

Sources: AITER ``fused_moe.py`` (``get_2stage_cfgs``: an exact key, no fallback on the expert count),
``model_configs/minimax_m3_{mxfp8,fp4}_tuned_fmoe.csv`` (129 experts and 5 slots alone, inter 768 and 384);
``rocm_unquantized_gemm_impl`` (layers/utils.py) for who reads a dense table. sglang PR 37072, AITER PR 4666.
"""

from __future__ import annotations

from dataclasses import replace

from m3probe.fastpaths._expert_pick import pick
from m3probe.fastpaths._m3 import no, unknown, yes
from m3probe.fastpaths._shared_expert import FSE_ENV, fused_shared, shared_quant
from m3probe.fastpaths._tp_group import no_amd
from m3probe.fastpaths._tuned_keys import dense_keys, dense_kind, keys_of, moe_key
from m3probe.schema.paths import Anchor, Asked, Effect, FastPath, Need, Role, Variant, When
from m3probe.schema.setup import Held, Met, Point, Setup
from m3probe.schema.tuned import Hit, Key, MoeKey, TableKind, TunedTable, lookup
from m3probe.schema.verdicts import Family

__all__ = ["FAST_PATH", "best", "dense_keys", "dense_kind", "keys_of", "lookup", "moe_key", "tables_in_force"]

REPLACES, BYPASS = "AITER_CONFIG_FMOE", "AITER_BYPASS_TUNE_CONFIG"
HIPBLASLT = "HIPBLASLT_TUNING_OVERRIDE_FILE"


def tables_in_force(setup: Setup, kind: TableKind) -> tuple[TunedTable, ...]:
    """Given tables of one kind; AITER_CONFIG_FMOE replaces the package's own, it does not add to them."""
    given = [table for table in setup.tuned_tables.values() if isinstance(table, TunedTable) and table.kind is kind]
    only = setup.env.get(REPLACES, "")
    if kind is TableKind.FMOE and only:
        wanted = {path.rpartition("/")[2] for path in only.split(":")}
        given = [table for table in given if table.name.rpartition("/")[2] in wanted]
    return tuple(given)


def asked(setup: Setup) -> Asked:
    """AITER's experts always look a table up; a dense GEMM does where its kernel is a library's."""
    chosen, dense = pick(setup), dense_kind(setup)
    if chosen.aiter:
        return Asked(Held.YES, f"{chosen.text} looks its tuned table up")
    if dense:
        return Asked(Held.YES, f"BF16 GEMMs look the {dense} table up")
    if no_amd(setup):
        return Asked(Held.NO, f"{setup.gfx} is no ROCm GPU: no AITER whose experts look a table up")
    if chosen.aiter is None and chosen.starts is not False:
        return Asked(Held.UNKNOWN, chosen.text)
    return Asked(Held.NO, f"{chosen.text}: no tuned table is read")


def _no_table(setup: Setup, kind: TableKind) -> Met:
    only = setup.env.get(REPLACES)
    if kind is TableKind.FMOE and only:
        return unknown(f"{REPLACES}={only} replaces AITER's tables, and no table of that name was given")
    return unknown(f"no {kind} table was given")


def _experts(setup: Setup, point: Point) -> Met:
    """Experts and slots of the weights against those that any row of the tables has at this model dim."""
    key = moe_key(setup, point.rows)
    if key is None:
        return yes("AITER does not run the experts")
    tables = tables_in_force(setup, TableKind.FMOE)
    if not tables:
        return _no_table(setup, TableKind.FMOE)
    has = sorted({pair for table in tables for pair in _pairs(table, key.model_dim)})
    said = f"the MoE key has {key.experts} experts, {key.top_k} slots"
    shown = ", ".join(f"{e}/{k}" for e, k in has) or "none"
    if (key.experts, key.top_k) in has:
        return yes(f"{said}; the tables have {shown} at model dim {key.model_dim:,}")
    return no(f"{said}; the tables have {shown} at model dim {key.model_dim:,}{_why_unfused(setup, has)}")


def _pairs(table: TunedTable, model_dim: int) -> set[tuple[int, int]]:
    keys = [row.key for row in table.rows if isinstance(row.key, MoeKey)]
    return {(key.experts, key.top_k) for key in keys if key.model_dim == model_dim}


def _why_unfused(setup: Setup, has: list[tuple[int, int]]) -> str:
    """The tables hold the fused shape and the setup does not fuse: the first of the two findings."""
    model = setup.model
    if model.experts is None or model.top_k is None or fused_shared(setup):
        return ""
    more = model.shared_experts or 0
    if not more or (model.experts + more, model.top_k + more) not in has:
        return ""
    if setup.expert_parallel:
        return f": shared-expert fusion is off under EP{setup.ep}, and the experts are split"
    if not setup.on(FSE_ENV, default=False):
        return f": shared-expert fusion is off ({FSE_ENV} is not set)"
    rule = setup.build.rule("fse")
    if not rule.known or rule.value is None:
        return ": shared-expert fusion is off, this build has none"
    return f": shared-expert fusion is off ({shared_quant(setup).text})"


def _row(setup: Setup, point: Point) -> Met:
    key = moe_key(setup, point.rows)
    if key is None:
        return yes("AITER does not run the experts")
    bypass = setup.int_on(BYPASS, default=False)  # int(): AITER's fused_moe.py
    if bypass is None:
        return unknown(f"{BYPASS}={setup.env[BYPASS]!r} is no number: AITER raises ValueError")
    if bypass:
        return no(f"{BYPASS}={setup.env[BYPASS]}: tuned rows are passed over")
    tables = tables_in_force(setup, TableKind.FMOE)
    if not tables:
        return _no_table(setup, TableKind.FMOE)
    hit = best(tables, key)
    return yes(hit.text) if hit.tuned else no(hit.text)


def best(tables: tuple[TunedTable, ...], key: Key) -> Hit:
    """The first tuned row of several tables, else the nearest miss."""
    hits = [lookup(table, key) for table in tables]
    tuned = [hit for hit in hits if hit.tuned]
    return tuned[0] if tuned else min(hits, key=lambda hit: (not hit.differs, len(hit.differs)))


def _dense(setup: Setup, point: Point) -> Met:
    kind, keys = dense_kind(setup), dense_keys(setup, point.rows)
    if kind is None or not keys:
        told = f"; {HIPBLASLT} is set, which hipBLASLt reads by itself" if HIPBLASLT in setup.env else ""
        return yes(f"no dense GEMM reads a table that m3probe knows{told}")
    tables = tables_in_force(setup, kind)
    if not tables:
        return _no_table(setup, kind)
    missed = [key for key in keys if not best(tables, key).tuned]
    said = f"{len(keys) - len(missed)} of {len(keys)} dense shapes are tuned in the {kind} table"
    if not missed:
        return yes(said)
    shapes = ", ".join(f"({key.rows:,}, {key.n:,}, {key.k:,})" for key in missed)
    return no(f"{said}; default for (M, N, K) {shapes}")


_TUNED = Variant(
    name="tuned row",
    role=Role.FAST,
    anchors=(),
    names_from_source=True,
    calls_per_step="as many as the GEMMs it serves",
    source="AITER fused_moe.py: get_2stage_cfgs; '[fused_moe] using 2stage (kernelName1=..., ...) for (key)'",
    note="a kernel's name does not tell whether a row or a heuristic chose it: the log line does",
)

FAST_PATH = FastPath(
    title="tuned tables",
    question="Do the local shapes have tuned rows, or do defaults run?",
    configured="AITER_CONFIG_FMOE (replaces the tables of the package), PYTORCH_TUNABLEOP_ENABLED and its results file",
    default="the tables in the AITER package; TunableOp off",
    acts_on=(
        Family.GEMM,
        Family.MOE_GEMM,
    ),
    needs=(
        Need("experts and slots of the MoE key are in a table", _experts, When.CALL),
        Need("a row for the MoE key at these rows", _row, When.CALL),
        Need("rows for the dense GEMMs that read a table", _dense, When.CALL),
    ),
    variants=(
        _TUNED,
        replace(
            _TUNED,
            name="default",
            role=Role.FALLBACK,
            source="AITER fused_moe.py: get_2stage_cfgs; '[fused_moe] using 2stage default for (key)'",
        ),
    ),
    counted_by=Anchor.NONE,
    asked=asked,
    instead="a heuristic's kernel at every step, with one log line per shape",
    gates=("cosine", "eval_file"),
    effects=(
        Effect("384 experts and 6 slots without rows: the heuristic on every step", "sglang PR 37072"),
        Effect("the fused shape 385/7 lacked its rows over the whole range", "AITER PR 4666"),
    ),
    logs=(
        "[fused_moe] using 2stage default for (...)",
        "no tuned FlyDSL config for (...)",
        "not found tuned config in ... will use default config",
    ),
    functions=("aiter.fused_moe.get_2stage_cfgs", "aiter.ops.gemm_op_a8w8.get_GEMM_config_with_quant_type"),
    sources=(
        "AITER fused_moe.py, csrc/py_itfs_cu/gemm_common.cu, configs/model_configs",
        "AITER_CONFIG_FMOE replaces the set: sglang PR 37072",
    ),
)
