"""Named facts of a setup that several of MiniMax M3's attention paths ask for."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from m3probe.schema.paths import Need, When
from m3probe.schema.setup import Held, Met, Point, RuleStatus, Setup, met
from m3probe.schema.verdicts import Phase

BLOCK = 128
FP8_INDEX = ("fp8", "fp8_e4m3")
AITER, SHUFFLE = "VLLM_ROCM_USE_AITER", "VLLM_ROCM_SHUFFLE_KV_CACHE_LAYOUT"
V2 = "VLLM_USE_V2_MODEL_RUNNER"
RUNNER = "use-v2-model-runner"
"""No flag of vLLM's: what a running server resolved (``VllmConfig.use_v2_model_runner``)."""


def yes(text: str) -> Met:
    """A need that is met."""
    return Met(Held.YES, text)


def no(text: str) -> Met:
    """A need that is refused."""
    return Met(Held.NO, text)


def unknown(text: str) -> Met:
    """A need that the setup does not tell."""
    return Met(Held.UNKNOWN, text)


def flag(setup: Setup, name: str) -> Any:
    """A server flag by its dashed name without the leading dashes; None when it was not set."""
    for key in (f"--{name}", name, name.replace("-", "_")):
        if key in setup.flags:
            return setup.flags[key]
    return None


def as_object(value: Any) -> Mapping[str, Any]:
    """A JSON object given as such or as text; empty for anything else."""
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except (ValueError, RecursionError):
            return {}
    return value if isinstance(value, Mapping) else {}


def option(setup: Setup, name: str, key: str) -> Any:
    """One key of a flag that takes a JSON object; ``--name.key value`` says the same."""
    dotted = flag(setup, f"{name}.{key}")
    return as_object(flag(setup, name)).get(key) if dotted is None else dotted


def number(value: Any) -> int | None:
    """A whole number given as such or as text."""
    text = str(value).strip()
    fits = len(text) <= 18 and text.isascii() and text.isdecimal()  # int() refuses more than 4,300 digits
    return int(text) if fits and not isinstance(value, bool) else None


def switch(value: Any) -> bool:
    """A JSON boolean given as such or as text (``--attention-config.key true``)."""
    return str(value).strip().lower() in ("true", "1")


def build_name(setup: Setup) -> str:
    """``vLLM 0.25.1``, or ``this build``."""
    return f"vLLM {setup.build.version}" if setup.build.version else "this build"


def absent(setup: Setup, rule: str) -> bool:
    """Whether the build is known not to have a thing."""
    return setup.build.rule(rule).status is RuleStatus.ABSENT


def told(setup: Setup, name: str) -> str:
    """A switch that is on, in words: ``--enforce-eager``; of a running server, where nobody may have asked for it,
    ``enforce_eager is on, as the server resolved it``.
    """
    return f"{name.replace('-', '_')} is on, as the server resolved it" if setup.resolved else f"--{name}"


def on_rocm(setup: Setup) -> bool | None:
    """Whether the GPU is AMD's; None: not known."""
    return setup.gfx.startswith("gfx") if setup.gfx else None


def kv_dtype(setup: Setup) -> str:
    """``--kv-cache-dtype``; vLLM's default is ``auto``, the model's own."""
    return str(flag(setup, "kv-cache-dtype") or "auto")


def asked_index_dtype(setup: Setup) -> str:
    """``indexer_kv_dtype`` as it was said; ``auto`` where it was not."""
    return str(option(setup, "attention-config", "indexer_kv_dtype") or "auto")


def index_reaches(setup: Setup) -> bool:
    """Whether ``indexer_kv_dtype`` reaches the indexer: the ROCm model of 0.24 and 0.25.1 never hands it on.

    It builds ``MiniMaxM3Indexer`` without that argument (amd/model.py:560 at 0.24, :661 at 0.25.1), whose default is bf16.
    """
    rule = setup.build.rule("index_dtypes")
    return on_rocm(setup) is False or not rule.known or bool(rule.value["reaches"])


def index_dtype(setup: Setup) -> str:
    """Dtype of the index-key cache in force; unset and ``auto`` are BF16 for MiniMax M3."""
    said = asked_index_dtype(setup)
    return "bf16" if said == "auto" or not index_reaches(setup) else said


def v2_runner(setup: Setup) -> bool | None:
    """Whether Model Runner V2 drives MiniMax M3: what a server resolved, the variable, else the build's default and what V2 cannot do yet."""
    resolved = flag(setup, RUNNER)
    if isinstance(resolved, bool):
        return resolved
    if V2 in setup.env:
        return setup.int_on(V2, default=None)
    rule = setup.build.rule("runner_v2_m3")
    if not rule.known:
        return None
    if not rule.value:  # 0.25.1 forces V2 for dspark
        return None if (setup.draft or {}).get("method") == "dspark" else False
    return not v1_instead(setup)


def v1_instead(setup: Setup) -> str:
    """What makes a build whose default is V2 take V1; empty when nothing does.

    ``_get_v2_model_runner_unsupported_features`` (config/vllm.py, 0.32 and 0.33). Dual batch overlap counts as long as
    the variable is not set.
    """
    draft = setup.draft or {}
    method = draft.get("method")
    if method in ("suffix", "custom_class", "medusa", "mlp_speculator"):
        return f"speculative method {method}"
    if draft.get("parallel_drafting") and method not in ("dflash", "dspark"):
        return "parallel_drafting"
    if draft.get("use_heterogeneous_vocab"):
        return "use_heterogeneous_vocab"
    if flag(setup, "distributed-executor-backend") == "external_launcher" and setup.pp > 1:
        return "external_launcher with pipeline parallelism"
    if flag(setup, "enable-dbo") or (number(flag(setup, "ubatch-size")) or 0) > 1:
        return "dual batch overlap"
    return ""


def missing_settings(setup: Setup) -> str:
    """Which of the two settings of AITER's sparse paged attention are off; empty when both are on."""
    off = [name for name in (AITER, SHUFFLE) if not setup.on(name, default=False)]
    return ", ".join(f"{name} is {'off' if name in setup.env else 'not set (default off)'}" for name in off)


def kv_heads_text(setup: Setup) -> str:
    """``4 KV heads over TP2 = 2 per rank``."""
    return f"{setup.model.kv_heads} KV heads over TP{setup.tp} = {setup.kv_heads_per_rank} per rank"


def emits_table(setup: Setup) -> Met:
    """Whether the FP8 indexer is selected, and so writes the attend's page table itself.

    All refusals are told, where vLLM's own log line has the first. Sources: ``aiter_indexer_unsupported_reason``
    (amd/indexer_aiter.py, 0.32), ``msa_indexer_unsupported_reason`` (amd/indexer_msa.py, 0.33).
    """
    rule = setup.build.rule("fp8_indexer")
    if rule.status is RuleStatus.ABSENT:
        return no(f"{build_name(setup)} has no FP8 indexer on ROCm")
    if not rule.known:
        return unknown(f"rule fp8_indexer is {rule.status} on this build")
    asks = _asks(setup, rule.value)
    refused = [text for held, text in asks if held is False]
    untold = [text for held, text in asks if held is None]
    name = f"the {rule.value['name']} indexer"
    if refused:
        return no(f"{name} is refused: {'; '.join(refused)}")
    if untold:
        return unknown(f"{name}: {'; '.join(untold)}")
    return yes(f"{name} emits the page table (given an AITER that holds pa_sparse_block_topk)")


def _asks(setup: Setup, rule: Mapping[str, Any]) -> list[tuple[bool | None, str]]:
    """(held, the sentence when it is not) of each condition."""
    model, off = setup.model, missing_settings(setup)
    dtype = index_dtype(setup)
    asks: list[tuple[bool | None, str]] = [
        (not off, off),
        (dtype in FP8_INDEX, f"the index cache is {dtype}, not fp8"),
        (
            setup.gfx.startswith(rule["gfx"]) if setup.gfx else None,
            f"{setup.gfx or 'GPU not known'}, not {rule['gfx']}",
        ),
    ]
    shape = (
        ("score type", model.index_score, rule["score"]),
        ("top-k blocks", model.sparse_topk_blocks, rule["topk"]),
        ("sparse block", model.sparse_block_tokens, rule["block"]),
        ("index dim", model.index_dim, rule["dim"]),
    )
    asks += [(None if has is None else has == wants, f"{word} {has}, not {wants}") for word, has, wants in shape]
    asks.append(_context(setup, rule))
    if rule.get("mfma_columns"):
        asks.append(_columns(setup, rule["mfma_columns"]))
    return asks


def _context(setup: Setup, rule: Mapping[str, Any]) -> tuple[bool | None, str]:
    most = rule.get("max_blocks")
    tokens = number(flag(setup, "max-model-len")) or setup.model.max_positions
    if most is None or tokens is None:
        return None, "the longest context or the top-k's limit is not known"
    blocks = -(-tokens // rule["block"])
    return blocks <= most, f"{tokens:,} tokens are {blocks:,} blocks > {most:,}"


def _columns(setup: Setup, columns: int) -> tuple[bool | None, str]:
    """0.32 alone: one MFMA column per (token, index head); a rank has as many index heads as KV heads."""
    heads, queries = setup.kv_heads_per_rank, 1 + setup.spec_tokens
    if heads is None:
        return None, "KV heads are not known"
    said = f"{heads} index heads x {queries} tokens = {heads * queries} > {columns} MFMA columns"
    return heads * queries <= columns, said


def calls(setup: Setup, point: Point, layers: int | None) -> int | None:
    """Launches of one step where each layer makes one for the decode rows and one for the prefill rows.

    None with pipeline parallelism: a rank runs the layers of its own stage.
    """
    sides = 2 if point.phase is Phase.MIXED else 1
    return None if layers is None or setup.pp > 1 else layers * sides


def once(setup: Setup, layers: int | None) -> int | None:
    """Launches of one step where each layer makes one for all rows; None with pipeline parallelism."""
    return None if setup.pp > 1 else layers


def _block_size(setup: Setup, _point: Point) -> Met:
    said = flag(setup, "block-size")
    if said is None:
        return _picked_block(setup)
    size = number(said)
    if size is None:
        return unknown(f"--block-size {said} is no number")
    if size == BLOCK:
        return yes(f"--block-size {BLOCK} = the sparse block")
    if size % BLOCK == 0:
        return unknown(f"--block-size {size} is cut into kernel blocks of {BLOCK}: gate block_equal has to hold")
    return no(f"--block-size {size} != {BLOCK}: no common block size, the engine does not start")


def _picked_block(setup: Setup) -> Met:
    """Without the flag: 0.24 and 0.25.1 take the first layer's preferred size, and that layer is dense.

    Every dense backend of ROCm prefers 16, ROCM_AITER_UNIFIED_ATTN 64; the sparse one takes 128 alone, and
    ``select_common_block_size`` (v1/worker/utils.py) raises.
    """
    rule = setup.build.rule("block_size_pick")
    if rule.known and rule.value == "all":
        return yes(f"--block-size is not set: {build_name(setup)} asks every backend and takes {BLOCK}")
    if rule.known and setup.model.dense_layers and on_rocm(setup):
        return no(
            f"--block-size is not set: {build_name(setup)} takes the first layer's (dense: 16 or 64), sparse layers "
            f"take {BLOCK} alone, and the engine does not start (ValueError); set {BLOCK}",
        )
    return unknown(f"--block-size is not set: {BLOCK} only where vLLM asks every layer's backend; set {BLOCK}")


def _index_cache(setup: Setup, _point: Point) -> Met:
    """On ROCm nothing but the FP8 indexer reads an FP8 index cache; without it the engine raises."""
    said, rule = asked_index_dtype(setup), setup.build.rule("index_dtypes")
    stated = option(setup, "attention-config", "indexer_kv_dtype") is not None
    words = (rule.value or {}).get("words", [])
    if stated and rule.known and said not in words and not rule.value["open"]:
        why = f"{build_name(setup)} takes {', '.join(words)}"
        return no(f"indexer_kv_dtype {said}: {why}; the engine does not start (config validation)")
    if said != "auto" and not index_reaches(setup):
        return yes(f"indexer_kv_dtype {said} reaches nothing on ROCm in {build_name(setup)}: the index cache is bf16")
    if index_dtype(setup) == "bf16":
        return yes("the index cache is bf16, which every indexer reads")
    if said not in FP8_INDEX:
        return no(f"indexer_kv_dtype {said}: no indexer reads it, the engine does not start (NotImplementedError)")
    return _fp8_index(setup, said)


def _fp8_index(setup: Setup, said: str) -> Met:
    if on_rocm(setup) is False:
        return unknown(f"indexer_kv_dtype {said} on {setup.gfx}: which indexer reads it is not judged on NVIDIA")
    table = emits_table(setup)
    if table.held is Held.NO:
        return no(
            f"indexer_kv_dtype {said}: {table.text}; the Triton indexer reads bf16 alone on ROCm, so the "
            "engine does not start (NotImplementedError)",
        )
    return table


def _sparse_layers(setup: Setup, _point: Point) -> Met:
    layers = setup.model.sparse_layers
    if layers is None:
        return unknown("whether the model has sparse layers is not known")
    return met(layers > 0, f"{layers} of {setup.model.layers} layers are sparse")


def _rocm(setup: Setup, _point: Point) -> Met:
    gfx = setup.gfx
    return met(
        gfx.startswith(("gfx94", "gfx95")) if gfx else None, f"GPU {gfx or 'not known'}: AITER needs gfx94x, gfx95x"
    )


def _kv_dtype(setup: Setup, _point: Point) -> Met:
    dtype, allowed = kv_dtype(setup), setup.build.rule("kv_cache_dtypes_m3").value
    if dtype == "auto":
        return yes("--kv-cache-dtype auto: the model's own, bf16")
    return met(dtype in allowed, f"--kv-cache-dtype {dtype}, sparse layers take {', '.join(allowed)}")


SPARSE_LAYERS = Need("the model has sparse attention layers (57 of MiniMax M3's 60)", _sparse_layers)
BLOCK_SIZE = Need("KV block = sparse block = 128", _block_size, When.START)
INDEX_CACHE = Need("an indexer exists for the index cache's dtype", _index_cache, When.START)
ROCM = Need("an AITER GPU: gfx94x or gfx95x", _rocm)
KV_DTYPE = Need("KV dtype bf16, fp8, fp8_e4m3 or fp8_e5m2", _kv_dtype, When.START, rules=("kv_cache_dtypes_m3",))
