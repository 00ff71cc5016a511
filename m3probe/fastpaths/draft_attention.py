"""Which attention backend a drafter runs on.

Sources: vLLM PR 54826; ``_create_draft_vllm_config`` (V1, v1/spec_decode/llm_base_proposer.py, never inherits),
``_DRAFT_VLLM_CONFIG_OVERRIDES`` (V2, config/speculative.py at 0.32 and 0.33, inherits unless set); V2's EAGLE speculator
at 0.24 and 0.25.1 reads no override at all. ``_get_backend_priorities`` in platforms/rocm.py.
"""

from __future__ import annotations

from m3probe.fastpaths._m3 import AITER, V2, flag, no, on_rocm, option, unknown, v1_instead, v2_runner, yes
from m3probe.schema.paths import Anchor, Asked, Effect, FastPath, Need, Role, Variant, When
from m3probe.schema.setup import Held, Met, Point, Setup, met
from m3probe.schema.verdicts import Family, Phase

INVARIANT = "VLLM_BATCH_INVARIANT"
NO_LAYERS = ("ngram", "ngram_gpu", "suffix", "medusa", "mlp_speculator")


def target_backend(setup: Setup) -> str | None:
    """The target's pin; None: auto-selected."""
    said = flag(setup, "attention-backend") or option(setup, "attention-config", "backend")
    return str(said) if said else None


def no_choice(setup: Setup) -> str:
    """Why a drafter has no attention layer that the override could choose for; empty when it has."""
    method = str((setup.draft or {}).get("method") or "")
    if method in NO_LAYERS:
        return f"a {method} drafter has no attention layers"
    if method == "mtp" and setup.model.is_minimax_m3:
        return "an mtp drafter is a sparse layer of MiniMax M3, whose backend is not chosen by this setting"
    return ""


def asked(setup: Setup) -> Asked:
    """speculative_config.attention_backend; without it each runner has its own default, which is told."""
    if not setup.draft:
        return Asked(Held.NO, "no --speculative-config: no drafter")
    pinned, why = setup.draft.get("attention_backend"), no_choice(setup)
    if why:
        return Asked(Held.NO, why, wasted=bool(pinned))
    if pinned:
        return Asked(Held.YES, f"speculative_config.attention_backend {pinned}")
    return Asked(Held.NO, f"speculative_config.attention_backend is not set: {_unset(setup)}")


def first_choice(setup: Setup) -> str:
    """What ROCm takes by itself (``_get_backend_priorities``, ``supports_kv_connector``, ``supports_batch_invariance``).

    ROCM_AITER_UNIFIED_ATTN takes connectors at 0.32 and 0.33 alone: before, it inherits ROCM_ATTN's refusal.
    """
    if setup.int_on(INVARIANT, default=False):
        return "TRITON_ATTN, the only one under batch invariance"
    if not flag(setup, "kv-transfer-config"):
        return "ROCM_ATTN first"
    mha = setup.on(AITER, default=False) and setup.on("VLLM_ROCM_USE_AITER_MHA", default=True)
    rule = setup.build.rule("draft_backend")
    if rule.known and not rule.value["v2_override"]:
        rest = "TRITON_ATTN"
    else:
        rest = "ROCM_AITER_UNIFIED_ATTN where AITER is installed, else TRITON_ATTN"
    return f"ROCM_AITER_FA first, then {rest}" if mha else rest


def _unset(setup: Setup) -> str:
    first, v2 = first_choice(setup), v2_runner(setup)
    if v2 is None:
        return f"V1 auto-selects ({first}), V2 inherits the target's; which runner is not known"
    if not v2:
        why = v1_instead(setup)
        asked_for = f" (V1 because of {why})" if why and V2 not in setup.env else ""
        return f"the V1 runner never inherits --attention-backend and auto-selects ({first}){asked_for}"
    target = target_backend(setup)
    return f"the V2 runner inherits {target} from the target" if target else f"target and drafter auto-select ({first})"


def _read(setup: Setup, _point: Point) -> Met:
    """V1 reads the override in all builds; V2 since 0.32."""
    v2, rule = v2_runner(setup), setup.build.rule("draft_backend")
    if v2 is None:
        return unknown("which model runner drives MiniMax M3 is not known")
    if not v2:
        return yes("the V1 runner reads the override")
    reads = rule.value.get("v2_override")
    if reads is False:
        target = target_backend(setup)
        runs = f"the target's {target}" if target else f"what is auto-selected ({first_choice(setup)})"
        return no(f"the V2 runner of this build ignores the override: the drafter runs on {runs}")
    return met(reads, "the V2 runner reads the override" if reads else "whether V2 reads the override is not known")


def _possible(setup: Setup, _point: Point) -> Met:
    pinned = str((setup.draft or {}).get("attention_backend")).upper()
    rocm = on_rocm(setup)
    if pinned == "FLASH_ATTN":
        return met(None if rocm is None else not rocm, f"{pinned} on {setup.gfx or 'an unknown GPU'}: asserts on ROCm")
    if rocm and setup.int_on(INVARIANT, default=False) and pinned != "TRITON_ATTN":
        why = "no ROCm backend but TRITON_ATTN supports batch invariance, the engine does not start (ValueError)"
        return no(f"{pinned} with {INVARIANT}={setup.env[INVARIANT]}: {why}")
    return yes(f"{pinned} is no backend known to fail on ROCm")


def _variant(name: str, role: Role, source: str) -> Variant:
    steps = "draft layers x num_speculative_tokens"
    return Variant(name, role, (), vendor="amd", calls_per_step=steps, names_from_source=True, source=source)


FAST_PATH = FastPath(
    title="draft attention backend",
    question="Which attention backend does the drafter run on?",
    configured='--speculative-config \'{"attention_backend": "TRITON_ATTN", ...}\'',
    default="V1: auto-selected, ROCM_ATTN first (no KV connector); V2: the target's",
    acts_on=(
        Family.ATTENTION,
        Family.SPARSE_ATTENTION,
        Family.INDEXER,
    ),
    needs=(
        Need("the runner reads the override", _read, When.LOAD, ("draft_backend",)),
        Need("the backend runs on ROCm", _possible, When.START),
    ),
    variants=(
        _variant("TRITON_ATTN", Role.FAST, "kernel_unified_attention*, which the target's dense layers launch too"),
        _variant("ROCM_ATTN", Role.FALLBACK, "paged_attention_ll4mi*, kernel_paged_attention_2d"),
    ),
    # Drafter and dense target layers share kernel names; a stream or an annotation would have to tell them apart.
    counted_by=Anchor.NONE,
    asked=asked,
    phases=(Phase.DECODE,),
    decided_by=(Phase.DECODE,),
    instead="V1: the auto-selected backend; V2 that ignores the override: the target's",
    gates=("attn_group_key", "eval_acceptance", "eval_file"),
    effects=(Effect("4 % to 151 % from pinning TRITON_ATTN over 1 to 256 requests, 8k1k", "vllm recipes PR 615"),),
    logs=(
        "Using %s backend (selected via --attention-backend).",
        "Using %s backend out of potential backends: %s.",
    ),
    functions=("type(layer.impl) of speculator.draft_attn_layer_names",),
    sources=("vLLM PR 54826", "FLASH_ATTN asserts on ROCm (vllm recipes PR 740)"),
)
