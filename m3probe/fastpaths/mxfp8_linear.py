"""Native MXFP8 GEMMs of the attention and dense layers, or BF16 emulation through hipBLASLt.

Sources: vLLM PR 45725, 46117; ``kernels/linear/__init__.py`` (``init_mxfp8_linear_kernel``, ``_resolve_backend_kernels``)
and ``kernels/linear/mxfp8/{rocm_native,emulation}.py`` at 0.24, 0.25.1, 0.32, 0.33. Emulation turns the weights into BF16
once at load (VLLM_MXFP8_EMULATION_DEQUANT_AT_LOAD, on by default), so nothing in a trace is its own.
"""

from m3probe.fastpaths._experts import arch_met, backend_word
from m3probe.fastpaths._m3 import as_object, build_name, no, option, unknown, yes
from m3probe.fastpaths._shared_expert import fused_shared
from m3probe.fastpaths._tp_group import amd, no_amd
from m3probe.schema.paths import Asked, Effect, FastPath, Need, Role, Variant, When
from m3probe.schema.setup import Held, Met, Point, Setup, met
from m3probe.schema.verdicts import Family

DISABLED = "VLLM_DISABLED_KERNELS"
K_ALIGN = 128


def is_mxfp8(setup: Setup) -> bool | None:
    """Whether the attention and dense weights are MXFP8; None where the model does not tell."""
    quant = setup.model.linear_quant
    return None if quant is None else quant == "mxfp8"


def linear_backend(setup: Setup) -> tuple[str, str]:
    """(the word in force for MXFP8 layers, where it stands); 0.32 and 0.33 take one per quantisation first."""
    rule = setup.build.rule("linear_backend_map")
    per_quant = as_object(option(setup, "kernel-config", "linear_backend_per_quant")).get("mxfp8")
    if per_quant and rule.known and rule.value["per_quant"]:
        return str(per_quant).lower().replace("-", "_"), "linear_backend_per_quant mxfp8"
    return backend_word(setup, "linear-backend"), "--linear-backend"


def asked(setup: Setup) -> Asked:
    """An MXFP8 checkpoint, unless emulation is asked for by name."""
    mine = is_mxfp8(setup)
    if mine is False:
        return Asked(Held.NO, f"the dense weights are {setup.model.linear_quant}, not mxfp8")
    word, where = linear_backend(setup)
    said = f"{where} {word}"
    if word == "emulation":
        return Asked(Held.NO, f"{said}: weights become BF16 at load, hipBLASLt (Cijk_*) multiplies them")
    if mine is None:
        return Asked(Held.UNKNOWN, f"{said}; the dense weights' quantisation is not known")
    return Asked(Held.YES, said)


def _word(setup: Setup, _point: Point) -> Met:
    """A word without an MXFP8 kernel stops 0.24 and 0.25.1, and is passed over with a warning since 0.32."""
    rule, (word, where) = setup.build.rule("linear_backend_map").value, linear_backend(setup)
    said = f"{where} {word}"
    if word == "auto":
        return yes(f"{said}: the first kernel of the list that this GPU runs")
    if word not in rule["names"]:
        return no(f"{said} is none of {build_name(setup)}'s names: the engine does not start")
    if no_amd(setup):
        return unknown(f"{said}: {no_amd(setup)}")
    if word in rule["mxfp8"]:
        return yes(f"{said} keeps an MXFP8 kernel")
    if rule["unmatched"] == "error":
        return no(f"{said}: no '{word}' kernel exists for MXFP8 layers, the engine does not start (ValueError)")
    return yes(f"{said} has no MXFP8 kernel: {build_name(setup)} warns once and selects as with auto")


def disabled(setup: Setup) -> tuple[str, ...]:
    """Kernel classes that are turned off by name; vLLM splits at commas and keeps blanks."""
    return tuple(name for name in setup.env.get(DISABLED, "").split(",") if name)


def _left(setup: Setup, _point: Point) -> Met:
    order, off = setup.build.rule("mxfp8_linear").value["order"], disabled(setup)
    left = [name for name in order if name not in off]
    if left:
        return yes(f"{len(left)} of {len(order)} MXFP8 kernels may be used")
    return no(f"{DISABLED} turns off {', '.join(order)}: no MXFP8 kernel is left, the engine does not start")


def _arch(setup: Setup, _point: Point) -> Met:
    return arch_met(setup, tuple(setup.build.rule("mxfp8_linear").value["archs"]), "native MXFP8 needs")


def _enabled(setup: Setup, _point: Point) -> Met:
    native = setup.build.rule("mxfp8_linear").value["order"][0]
    if native in disabled(setup):
        return no(f"{DISABLED} turns off {native}: emulation runs")
    return yes(f"{native} is not turned off")


def inner_sizes(setup: Setup) -> dict[str, int]:
    """K on this rank of each kind of dense layer that the model's facts tell."""
    model, found = setup.model, {}
    if model.hidden_size:
        found["hidden size"] = model.hidden_size
    if model.q_heads and model.head_dim:
        found["o_proj"] = model.q_heads * model.head_dim // setup.tp
    if model.moe_intermediate and model.shared_experts and not fused_shared(setup):
        found["shared down"] = model.shared_experts * model.moe_intermediate // setup.tp
    return found


def _k(setup: Setup, _point: Point) -> Met:
    """0.24 and 0.25.1 dequantise such a layer at every call, 0.32 and 0.33 once at load."""
    align, sizes = setup.build.rule("mxfp8_linear").value["k_align"], inner_sizes(setup)
    if not sizes:
        return unknown("inner sizes are not known")
    odd = {name: k for name, k in sizes.items() if k % align}
    shown = ", ".join(f"{name} {k:,}" for name, k in (odd or sizes).items())
    if odd:
        return met(
            len(odd) < len(sizes), f"K of {shown} is no multiple of {align}: that layer runs in BF16 unannounced"
        )
    return yes(f"K of {shown}: multiples of {align}")


def gemms(setup: Setup) -> int | None:
    """Dense GEMMs of a step: qkv and output in each layer, two in each dense and each unfused shared MLP.

    No expected count of the variant: a checkpoint may leave some of them in BF16, and no fact here tells which. A stage
    of a pipeline runs some of the layers.
    """
    model, fused = setup.model, fused_shared(setup)
    if setup.pp > 1 or model.layers is None or model.dense_layers is None or model.moe_layers is None or fused is None:
        return None
    shared = 0 if fused or not model.shared_experts else 2 * model.moe_layers
    return 2 * model.layers + 2 * model.dense_layers + shared


FAST_PATH = FastPath(
    title="native MXFP8 linear",
    question="Did the dense layers multiply in MXFP8, or were they emulated in BF16?",
    configured="--linear-backend auto (emulation turns it off); per quantisation: --kernel-config linear_backend_per_quant",
    default="auto: native on gfx95x, emulation elsewhere",
    acts_on=(
        Family.GEMM,
        Family.QUANT,
    ),
    needs=(
        Need("a --linear-backend that this build takes for MXFP8", _word, When.START, ("linear_backend_map",)),
        Need("a kernel is left to choose", amd(_left), When.START, ("mxfp8_linear",)),
        Need("a GPU with MX hardware", _arch, When.LOAD, ("mxfp8_linear",)),
        Need("the native kernel is not turned off by name", amd(_enabled), When.LOAD, ("mxfp8_linear",)),
        Need("K a multiple of 128, layer by layer", amd(_k), When.LOAD, ("mxfp8_linear",)),
    ),
    variants=(
        Variant(
            name="native",
            role=Role.FAST,
            anchors=("_mxfp8_linear_kernel*",),
            vendor="amd",
            calls_per_step="2 x layers + 2 x dense_layers, and 2 x moe_layers more with an unfused shared expert: 126, 240",
            names_from_source=True,
            source="vLLM PR 45725; kernels/linear/mxfp8/rocm_native.py at 0.24 to 0.33",
            vllm="0.24 to 0.33",
            note="given that the checkpoint excludes none of these layers; an activation quantisation stands beside each",
        ),
        Variant(
            name="emulation",
            role=Role.FALLBACK,
            anchors=(),
            vendor="amd",
            calls_per_step="none of its own",
            names_from_source=True,
            source="kernels/linear/mxfp8/emulation.py at 0.24 to 0.33",
            vllm="0.24 to 0.33",
            note="its GEMMs are Cijk_*, which the router, lm_head and any BF16 checkpoint launch too: Cijk_* without "
            "_mxfp8_linear_kernel tells it only where the checkpoint is known to be MXFP8",
        ),
    ),
    asked=asked,
    instead="emulation: BF16 weights, twice the bytes, hipBLASLt; no _mxfp8_linear_kernel in the trace",
    gates=("cosine", "eval_file"),
    effects=(
        Effect("output +7.8 to +9.4 %, TP8, 8k1k, launcher split (native before and after)", "vLLM PR 45725"),
        Effect("emulation +26 % at 1 request on one nightly, 2 to 3 % at high concurrency", "InferenceX PR 2003"),
        Effect(
            "native at low and mid concurrency, emulation for ISL >= 8192 with 64 requests on another nightly",
            "InferenceX PR 2187",
        ),
    ),
    logs=(
        "Using RocmDotScaledMxfp8LinearKernel for MXFP8 GEMM",
        "--linear-backend=%s has no kernel for this linear layer type; using automatic selection (0.32, 0.33)",
    ),
    functions=("RocmDotScaledMxfp8LinearKernel.apply_weights", "EmulationMxfp8LinearKernel.apply_weights"),
    sources=(
        "vLLM PR 45725, 46117",
        "kernels/linear/__init__.py:721 at 0.24, :758 at 0.25.1, :936 at 0.32, :958 at 0.33",
    ),
)
