"""One persistent launch per sparse layer for everything after attention: router, experts, shared expert, combine.

Source: ``models/minimax_m3/amd/specialized_decode/runtime`` at 0.33: ``spec.py`` (``DecodeConfig.refusal_reasons``, all of
them in one ValueError at start), ``guards.py`` and ``weights.py`` (after loading), ``routing.py`` (``decide_step``, each
step). Only MiniMax M3's MXFP4 checkpoint at TP4 fits.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from m3probe.fastpaths import shared_expert_fusion
from m3probe.fastpaths._capture import PIECEWISE, modes
from m3probe.fastpaths._expert_pick import pick
from m3probe.fastpaths._expert_variants import FLYDSL_W4A4, calls_in
from m3probe.fastpaths._experts import arch_met, asks_monokernel, backend_word
from m3probe.fastpaths._experts_mxfp4 import MXFP4_AITER
from m3probe.fastpaths._m3 import (
    absent,
    as_object,
    build_name,
    flag,
    index_dtype,
    kv_dtype,
    no,
    number,
    option,
    unknown,
    v2_runner,
    yes,
)
from m3probe.fastpaths._shared_expert import fused_shared
from m3probe.fastpaths._state import state_at
from m3probe.fastpaths._tp_group import at_rows, no_amd
from m3probe.fastpaths.index_reuse import overrides
from m3probe.schema.paths import Asked, Check, FastPath, Need, Role, Variant, When
from m3probe.schema.setup import Held, Met, Point, Setup, met
from m3probe.schema.verdicts import Family, Phase

FIRST_LAYER = 3


def _rule(setup: Setup) -> Mapping[str, Any]:
    value: Mapping[str, Any] = setup.build.rule("monokernel").value
    return value


def asked(setup: Setup) -> Asked:
    """The flag; a build without it refuses the command line."""
    if not asks_monokernel(setup):
        return Asked(Held.NO, "--monokernel is not set (default off)")
    if absent(setup, "monokernel"):
        why = f"{build_name(setup)} has no --monokernel: vllm serve refuses the flag"
        return Asked(Held.NO, why, wasted=True)
    if no_amd(setup):
        why = f"--monokernel is read by ROCm's model files alone: it reaches nothing on {setup.gfx}"
        return Asked(Held.NO, why, wasted=True)
    return Asked(Held.YES if setup.build.rule("monokernel").known else Held.UNKNOWN, "--monokernel")


def _tp(setup: Setup) -> Met:
    wants = _rule(setup)["tp"]
    return met(setup.tp == wants, f"TP{setup.tp}, must be {wants}")


def _one(name: str, size: Any, what: str) -> Met:
    ways = number(size) if size is not None else 1
    return met(None if ways is None else ways == 1, f"{name} {ways if ways is not None else size}: {what} must be 1")


def _off(setup: Setup, names: tuple[str, ...], what: str) -> Met:
    """None of these flags is set."""
    set_ones = [f"--{name}" for name in names if flag(setup, name) not in (None, False, 0, "0", "false", "")]
    return no(f"{', '.join(set_ones)}: no {what}") if set_ones else yes(f"no {what}")


def _ubatching(setup: Setup) -> Met:
    size = number(flag(setup, "ubatch-size")) or 0
    return no(f"--ubatch-size {size}: no micro-batches") if size > 1 else _off(setup, ("enable-dbo",), "micro-batches")


def _ep(setup: Setup) -> Met:
    return met(not setup.expert_parallel, f"EP{setup.ep}: no expert parallelism" if setup.ep > 1 else "no EP")


def _kv(setup: Setup) -> Met:
    dtype, takes = kv_dtype(setup), _rule(setup)["kv_dtypes"]
    return met(dtype in takes, f"--kv-cache-dtype {dtype}, must be {' or '.join(takes)}")


def _block(setup: Setup) -> Met:
    said, wants = flag(setup, "block-size"), _rule(setup)["block"]
    if said is None:
        picks = setup.build.rule("block_size_pick")
        return met(True if picks.known and picks.value == "all" else None, f"--block-size is not set; must be {wants}")
    return met(number(said) == wants, f"--block-size {said}, must be {wants}")


def _index(setup: Setup) -> Met:
    """The word is compared: fp8_e4m3 is refused."""
    dtype, wants = index_dtype(setup), _rule(setup)["index_dtype"]
    return met(dtype == wants, f"indexer_kv_dtype {dtype}, must be {wants}")


def _connector(setup: Setup) -> Met:
    name = as_object(flag(setup, "kv-transfer-config")).get("kv_connector")
    return no(f"kv_connector {name}: no KV connector") if name else yes("no KV connector")


def _runner(setup: Setup) -> Met:
    v2 = v2_runner(setup)
    return met(v2, f"Model Runner {'not known' if v2 is None else 'V2' if v2 else 'V1'}, must be V2")


def _draft(setup: Setup) -> Met:
    method, wants = (setup.draft or {}).get("method"), _rule(setup)["draft_method"]
    return yes("no drafter") if not setup.draft else met(method == wants, f"drafter {method}, only {wants}")


def _offload(setup: Setup) -> Met:
    return _off(setup, ("cpu-offload-gb", "offload-group-size"), "weight offloading")


def _compiled(setup: Setup) -> Met:
    mode = option(setup, "compilation-config", "mode")
    stock = str(mode).upper() in ("1", "STOCK_TORCH_COMPILE")
    return met(not stock, f"compilation mode {mode}: no stock torch.compile" if stock else "no stock torch.compile")


def _reuse(setup: Setup) -> Met:
    on = bool(overrides(setup)[0].get("use_index_cache"))
    return met(not on, "use_index_cache: no index reuse" if on else "no index reuse")


def _frequency(setup: Setup) -> Met:
    said = overrides(setup)[0].get("index_topk_freq", 1)
    return met(said == 1, f"index_topk_freq {said}, must be 1")


def _backend(setup: Setup) -> Met:
    """auto is refused too, whatever it would pick."""
    word, wants = backend_word(setup, "moe-backend"), _rule(setup)["moe_backend"]
    return met(word == wants, f"--moe-backend {word}, must be {wants} by name")


def _layers(setup: Setup) -> Met:
    model = setup.model
    if model.layers is None or model.sparse_layers is None:
        return unknown("sparse layers are not known")
    wants = model.layers - FIRST_LAYER
    return met(
        model.sparse_layers == wants, f"{model.sparse_layers} sparse layers, must be {FIRST_LAYER} to the last: {wants}"
    )


REFUSALS: tuple[tuple[str, Callable[[Setup], Met]], ...] = (
    ("requires tensor parallel size 4", _tp),
    ("does not support pipeline parallelism", lambda s: _one("PP", s.pp, "pipeline parallelism")),
    ("does not support data parallelism", lambda s: _one("DP", s.dp, "data parallelism")),
    (
        "does not support decode context parallelism",
        lambda s: _one("DCP", flag(s, "decode-context-parallel-size"), "decode context parallelism"),
    ),
    (
        "does not support prefill context parallelism",
        lambda s: _one("PCP", flag(s, "prefill-context-parallel-size"), "prefill context parallelism"),
    ),
    ("does not support DBO or ubatching", _ubatching),
    ("does not support expert parallelism", _ep),
    ("does not support EPLB", lambda s: _off(s, ("enable-eplb",), "EPLB")),
    ("requires an FP8 KV cache", _kv),
    ("requires KV cache block size 128", _block),
    ("does not support KV cache offloading", lambda s: _off(s, ("kv-offloading-size",), "KV offloading")),
    ('requires indexer_kv_dtype "fp8"', _index),
    ("does not support LoRA", lambda s: _off(s, ("enable-lora",), "LoRA")),
    ("does not support a KV connector", _connector),
    ("requires Model Runner V2", _runner),
    ("supports only EAGLE3 speculative decoding", _draft),
    ("does not support sleep mode", lambda s: _off(s, ("enable-sleep-mode",), "sleep mode")),
    ("does not support weight transfer or updates", lambda s: _off(s, ("weight-transfer-config",), "weight transfer")),
    ("does not support model weight offloading", _offload),
    ("does not support stock torch.compile", _compiled),
    ("does not support cross-layer index reuse", _reuse),
    ("requires the default index_topk_freq", _frequency),
    (
        "does not support routed-expert capture",
        lambda s: _off(s, ("enable-return-routed-experts",), "routed-expert capture"),
    ),
    ("requires --moe-backend aiter", _backend),
    ("requires sparse attention on layers 3 through the last", _layers),
)
"""vLLM's sentences in its order, with the number of this setup to each."""


def _at_start(check: Callable[[Setup], Met]) -> Check:
    return lambda setup, _point: check(setup)


def _others(setup: Setup) -> Met:
    """A build may refuse for more than m3probe knows."""
    known = {_plain(sentence) for sentence, _ in REFUSALS}
    more = [sentence for sentence in _rule(setup).get("refusals") or () if _plain(str(sentence)) not in known]
    if more:
        return unknown(f"{build_name(setup)} also refuses: {'; '.join(more)}")
    return yes(f"no refusal of {build_name(setup)} beyond these {len(REFUSALS)}")


def _plain(sentence: str) -> str:
    """Words without numbers and fields: how a source's template and its filled-in form look alike."""
    words = re.sub(r"\{[^}]*\}|[^A-Za-z]", " ", sentence)
    return " ".join(words.split())


def _gpu(setup: Setup) -> Met:
    wants = _rule(setup)["units"]
    arch = arch_met(setup, ("gfx950",), "the monokernel needs")
    if arch.held is not Held.YES:
        return arch
    if setup.units is None:
        return unknown(f"compute units are not known, must be {wants}")
    return met(setup.units == wants, f"{setup.gfx} with {setup.units} compute units, must be {wants}")


def _fused(setup: Setup) -> Met:
    told = shared_expert_fusion.append(setup)
    if not fused_shared(setup):
        why = shared_expert_fusion.asked(setup).text
        return met(None if fused_shared(setup) is None else False, f"the shared expert is not fused: {why}")
    return told


def _mxfp4(setup: Setup) -> Met:
    """The kernel reads the layout that this backend makes of the weights."""
    chosen = pick(setup)
    if chosen.member is None and chosen.starts is not False:
        return unknown(f"the experts' layout: {chosen.text}")
    return met(chosen.member == MXFP4_AITER, f"experts in the {MXFP4_AITER} layout: {chosen.text}")


def _shape(setup: Setup) -> Met:
    model = setup.model
    facts = (model.top_k, model.shared_experts, model.activation)
    said = f"top-{facts[0]}, {facts[1]} shared expert, SwiGLU-OAI {facts[2]}: must be 4, 1, (1.702, 1.0, 7.0)"
    return unknown(said) if None in facts else met(facts == (4, 1, (1.702, 1.0, 7.0)), said)


def _rows(setup: Setup, point: Point) -> Met:
    """Physical rows count, padding included; drafted tokens are rows like any other."""
    least, most = _rule(setup)["rows"]
    return at_rows(setup, point, lambda n: met(least <= n <= most, f"{n:,} rows, {least} to {most} are served"))


def _decode(_setup: Setup, point: Point) -> Met:
    return met(point.phase is Phase.DECODE, f"a {point.phase} step; decode alone is served")


def _mode(setup: Setup, _point: Point) -> Met:
    """Eager and FULL are served; a PIECEWISE graph is keyed by tokens alone and also replays mixed steps."""
    found = modes(setup)
    return met(None if found.decode is None else found.decode != PIECEWISE, f"decode {found.decode} ({found.text})")


def _calls(setup: Setup, point: Point) -> int | None:
    """One launch per expert layer in the steps that it takes."""
    return calls_in(state_at(FAST_PATH, setup, point).state, setup)


MONO = Variant(
    name="monokernel",
    role=Role.FAST,
    anchors=("*minimax_m3_mono_ffn*",),
    vendor="amd",
    needs=(Need("--monokernel; not with index reuse"),),
    calls_per_step="moe_layers (router, experts, shared expert and combine in one)",
    expected=_calls,
    names_from_source=True,
    source="amd/specialized_decode at 0.33 (mono/ffn.py:kernel_name: minimax_m3_mono_ffn_s{rows}_tp{tp})",
    vllm="0.33",
)
_RULES = ("monokernel",)

FAST_PATH = FastPath(
    title="monokernel",
    question="Did one launch per layer run router, experts, shared expert and combine?",
    configured="--monokernel with --moe-backend aiter, TP4, FP8 KV, indexer_kv_dtype fp8, shared-expert fusion on",
    default="off",
    acts_on=(
        Family.MOE_GEMM,
        Family.MOE_ROUTE,
        Family.QUANT,
        Family.ACTIVATION,
        Family.GEMM,
    ),
    launches=True,
    needs=(
        *(Need(sentence, _at_start(check), When.START, _RULES) for sentence, check in REFUSALS),
        Need("no refusal that is new", _at_start(_others), When.START, _RULES),
        Need("gfx950 with 256 compute units, FlyDSL installed", _at_start(_gpu), When.START, _RULES),
        Need("the AITER fused shared expert", _at_start(_fused), When.START, _RULES),
        Need("MXFP4 experts in AITER's layout", _at_start(_mxfp4), When.START, _RULES),
        Need("MiniMax M3's experts: top-4, one shared, its activation", _at_start(_shape), When.START, _RULES),
        Need("1 to 16 rows", _rows, When.CALL, _RULES),
        Need("a decode step", _decode, When.CALL, _RULES),
        Need("no PIECEWISE graph", _mode, When.CALL, _RULES),
    ),
    variants=(MONO, replace(FLYDSL_W4A4, role=Role.FALLBACK)),
    asked=asked,
    phases=(Phase.DECODE,),
    decided_by=(Phase.DECODE,),
    only_m3=True,
    instead="at start: no engine, all refusals in one ValueError; in a step: the stock layers, without a word",
    gates=("cosine", "token_conservation", "eval_file"),
    logs=(
        "MiniMax-M3 specialized decode unsupported: ...; ...",
        "MiniMax-M3 FFN launch: rows %s, resident CTAs per CU %s",
        "MiniMax-M3 FFN launch: %d output steps, %d launches since reset %d (%d sparse layers each)",
    ),
    functions=("SpecializedDecode.plan: mono_steps, stock_steps", "decide_step", "FfnExecutor.output_step"),
    sources=("amd/specialized_decode/runtime/{spec,guards,weights,routing,decode,executor}.py at 0.33",),
)
