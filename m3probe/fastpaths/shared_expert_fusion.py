"""The shared expert as one more routed expert: 129 experts and 5 slots instead of 128 and 4, and no MLP beside them.

Sources: vLLM PR 46545 (MXFP8), 46474 (MXFP4), 51695 (refuses by default), 57916 (MXFP8 accepted again), 54573 (Quark);
``MiniMaxM3MoE.__init__`` in ``amd/model.py`` at 0.25.1, 0.32, 0.33 and ``is_shared_expert_quant_fse_compatible``. The
model file of 0.24 has no fusion: the variable reaches nothing.
"""

from m3probe.fastpaths._expert_variants import here
from m3probe.fastpaths._experts import aiter_off, on_arch
from m3probe.fastpaths._m3 import absent, build_name, no, unknown, yes
from m3probe.fastpaths._shared_expert import FSE_ENV, fused_shared, shared_quant, shared_there, shared_without_ep
from m3probe.schema.paths import Asked, Effect, FastPath, Layers, Need, Role, Variant, When
from m3probe.schema.setup import Held, Met, Point, Setup, met
from m3probe.schema.verdicts import Family

_ACTIVATION = ("_swiglu_oai_kernel*",)
# One launch in each of the 60 layers, dense ones included.
_EVERY_LAYER = ("*fusedminimaxm3qnormropekvinsert*", "*fusedqknormidxrqknormkernel*")


def asked(setup: Setup) -> Asked:
    """The variable alone; it works without VLLM_ROCM_USE_AITER."""
    if not setup.on(FSE_ENV, default=False):
        return Asked(Held.NO, f"{FSE_ENV} is {'off' if FSE_ENV in setup.env else 'not set (default off)'}")
    said = f"{FSE_ENV}=1"
    if absent(setup, "fse"):
        why = f"{said}, but {build_name(setup)}'s MiniMax M3 has no shared-expert fusion: the variable does nothing"
        return Asked(Held.NO, why, wasted=True)
    return Asked(Held.YES if setup.build.rule("fse").known else Held.UNKNOWN, said)


def append(setup: Setup) -> Met:
    """Who appends the slot: AITER's grouped top-k, or vLLM's router by a concat. Both fuse.

    vLLM asks the GPU and the variables, not the backend that was chosen (a TODO in the model file): with another
    --moe-backend the slot still comes from AITER.
    """
    off = aiter_off(setup)
    if off:
        return no(f"{off}: vLLM's top-k router appends the slot (a concat)")
    fits = on_arch(setup, ("gfx950",))
    if fits is False:
        return no(f"{setup.gfx}, not gfx950: vLLM's top-k router appends the slot (a concat)")
    if fits is None:
        return unknown("the GPU is not known: gfx950 appends the slot in AITER's grouped top-k")
    return yes("gfx950 with AITER's MoE on: AITER's grouped top-k appends the slot")


def _appended(setup: Setup, _point: Point) -> Met:
    """Either way is a fusion; the sentence tells which."""
    told = append(setup)
    return unknown(told.text) if told.held is Held.UNKNOWN else yes(told.text)


def _rocm(setup: Setup, _point: Point) -> Met:
    gfx = setup.gfx
    return met(gfx.startswith("gfx") if gfx else None, f"GPU {gfx or 'not known'}: only the ROCm model file fuses")


def activations(setup: Setup, _point: Point) -> int | None:
    """Launches of the activation kernel in a step: dense layers, and each unfused shared MLP."""
    model, fused = setup.model, fused_shared(setup)
    if setup.pp > 1 or model.dense_layers is None or model.moe_layers is None or fused is None:
        return None
    return model.dense_layers + (0 if fused or not model.shared_experts else model.moe_layers)


def _fused_layers(setup: Setup, _point: Point) -> int | None:
    fused, layers = fused_shared(setup), here(setup, setup.model.moe_layers)
    return None if fused is None or layers is None else layers * fused


FAST_PATH = FastPath(
    title="shared-expert fusion",
    question="Did the shared expert ride along with the routed ones, or run as an MLP of its own?",
    configured=f"{FSE_ENV}=1 (VLLM_ROCM_USE_AITER is not needed)",
    default="off",
    acts_on=(
        Family.GEMM,
        Family.ACTIVATION,
        Family.MOE_GEMM,
        Family.MOE_ROUTE,
        Family.QUANT,
    ),
    needs=(
        Need("the ROCm model file", _rocm),
        Need("the model has a shared expert", lambda setup, _point: shared_there(setup), When.LOAD, ("fse",)),
        Need("no expert parallelism", lambda setup, _point: shared_without_ep(setup), When.LOAD, ("fse",)),
        Need(
            "a quantisation that this build compares and accepts",
            lambda setup, _point: shared_quant(setup),
            When.LOAD,
            ("fse",),
        ),
        Need("who appends the slot", _appended),
    ),
    variants=(
        Variant(
            name="fused",
            role=Role.FAST,
            anchors=_ACTIVATION,
            layers=_EVERY_LAYER,
            in_layers=Layers.SOME,
            vendor="amd",
            calls_per_step="moe_layers: layers (60) without an activation kernel of their own, 3 dense ones keep it",
            expected=_fused_layers,
            source="MiniMaxM3MoE builds no shared MLP (amd/model.py at 0.25.1, 0.32, 0.33)",
            vllm="0.25.1 to 0.33",
            note="the experts' own activation is inside AITER's GEMM, or _swiglu_oai_quant_kernel in native Triton; "
            "the MoE key is 129 experts, 5 slots",
        ),
        Variant(
            name="separate MLP",
            role=Role.FALLBACK,
            anchors=_ACTIVATION,
            layers=_EVERY_LAYER,
            in_layers=Layers.EVERY,
            calls_per_step="layers (60): 3 dense, 57 shared",
            expected=lambda setup, point: 0 if fused_shared(setup) else activations(setup, point),
            source="MiniMaxM3MLP.forward; seen in H200 traces",
            vllm="0.24 to 0.33",
            note="two GEMMs and an activation more in each expert layer; the MoE key is 128 experts, 4 slots",
        ),
    ),
    asked=asked,
    only_m3=True,
    instead="a shared MLP beside the experts: 57 activation kernels and 114 GEMMs more per step; AITER's M3 tables hold "
    "129/5 rows alone, so the experts' GEMMs lose their tuned rows too",
    gates=("token_conservation", "fused_params", "eval_file"),
    effects=(
        Effect("output +30.2 % at 1 request, +5.6 % at 128, MXFP8", "vLLM PR 46545"),
        Effect("output +22.6 % at 1, +19.8 % at 16, +11.2 % at 64 requests, 1k1k", "Hyperloom issue 760"),
        Effect("silently off for MXFP8 for five weeks, a warning per layer and exit 0", "vLLM PR 51695, 57916"),
    ),
    logs=(f"{FSE_ENV} is enabled but cannot be enabled: %s. (once per layer: 57 lines)",),
    functions=("MiniMaxM3MoE.__init__: is_fused_shared_expert_enabled, use_aiter_moe_fse",),
    sources=(
        "vLLM PR 46545, 46474, 51695, 57916, 54573, 53068",
        "amd/model.py:109 at 0.25.1, :394 at 0.32, :404 at 0.33",
        "config_utils.py:337 at 0.32 (no MXFP8 branch), :358 at 0.33",
    ),
)
