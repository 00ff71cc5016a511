"""Which attention backend an EAGLE3 drafter runs on.

Sources: vLLM PR 54826; ``_create_draft_vllm_config`` (V1, v1/spec_decode/llm_base_proposer.py, never inherits),
``_DRAFT_VLLM_CONFIG_OVERRIDES`` (V2, config/speculative.py at 0.32 and 0.33, inherits unless set); V2's EAGLE speculator
at 0.24 and 0.25.1 reads no override at all. ``_get_backend_priorities`` in platforms/rocm.py.
"""

from __future__ import annotations

from m3probe.fastpaths._m3 import flag, no, option, unknown, v2_runner, yes
from m3probe.schema.paths import Anchor, Asked, Effect, FastPath, Need, Role, Variant, When
from m3probe.schema.setup import Held, Met, Point, Setup, met
from m3probe.schema.verdicts import Phase


def target_backend(setup: Setup) -> str | None:
    """The target's pin; None: auto-selected."""
    said = flag(setup, "attention-backend") or option(setup, "attention-config", "backend")
    return str(said) if said else None


def asked(setup: Setup) -> Asked:
    """speculative_config.attention_backend; without it each runner has its own default, which is told."""
    if not setup.draft:
        return Asked(Held.NO, "no --speculative-config: no drafter")
    pinned = setup.draft.get("attention_backend")
    if pinned:
        return Asked(Held.YES, f"speculative_config.attention_backend {pinned}")
    return Asked(Held.NO, f"speculative_config.attention_backend is not set: {_unset(setup)}")


def _unset(setup: Setup) -> str:
    first = "ROCM_AITER_FA or TRITON_ATTN" if flag(setup, "kv-transfer-config") else "ROCM_ATTN first"
    if v2_runner(setup) is None:
        return f"V1 auto-selects ({first}), V2 inherits the target's; which runner is not known"
    if not v2_runner(setup):
        return f"the V1 runner never inherits --attention-backend and auto-selects ({first})"
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
        target = target_backend(setup) or "its auto-selected backend"
        return no(f"the V2 runner of this build ignores the override: the drafter runs on the target's {target}")
    return met(reads, "the V2 runner reads the override" if reads else "whether V2 reads the override is not known")


def _possible(setup: Setup, _point: Point) -> Met:
    pinned = str((setup.draft or {}).get("attention_backend"))
    rocm = setup.gfx.startswith("gfx") if setup.gfx else None
    if pinned == "FLASH_ATTN":
        return met(None if rocm is None else not rocm, f"{pinned} on {setup.gfx or 'an unknown GPU'}: asserts on ROCm")
    return yes(f"{pinned} is no backend known to fail on ROCm")


def _variant(name: str, role: Role, source: str) -> Variant:
    steps = "draft layers x num_speculative_tokens"
    return Variant(name, role, (), vendor="amd", calls_per_step=steps, names_from_source=True, source=source)


FAST_PATH = FastPath(
    title="draft attention backend",
    question="Which attention backend does the drafter run on?",
    configured='--speculative-config \'{"attention_backend": "TRITON_ATTN", ...}\'',
    default="V1: auto-selected, ROCM_ATTN first (no KV connector); V2: the target's",
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
