"""The FP32 router GEMM of small batches.

Sources: vLLM PR 54845; ``router/rocm_fp32_router_gemm.py``, ``router/bf16x3_router_gemm_rocm.py`` and
``router/gate_linear.py`` at 0.32 and 0.33; at 0.24 and 0.25.1 GateLinear's kernel is for SM90 and SM100 alone.
"""

from dataclasses import replace

from m3probe.fastpaths._capture import launched
from m3probe.fastpaths._expert_variants import calls_in
from m3probe.fastpaths._experts import arch_met, asks_monokernel, expert_layers
from m3probe.fastpaths._m3 import absent, build_name, no, unknown, yes
from m3probe.fastpaths._state import state_at
from m3probe.fastpaths._tp_group import BATCH_INVARIANT, amd, at_rows, batch_invariant, no_amd
from m3probe.schema.paths import Asked, FastPath, Need, Role, Variant, When
from m3probe.schema.setup import Held, Met, Point, Setup, State, met
from m3probe.schema.verdicts import Family, Phase

BF16X3_ROWS = 2048
"""From so many rows on, gfx950 splits the FP32 weight into three BF16 terms (``MIN_TOKENS`` at 0.32 and 0.33)."""


def asked(setup: Setup) -> Asked:
    """It has no switch: a build has it or not."""
    rule = setup.build.rule("router_gemm")
    if no_amd(setup):
        return Asked(Held.UNKNOWN, f"no switch; GateLinear's CUDA kernels: {no_amd(setup)}")
    if absent(setup, "router_gemm"):
        return Asked(Held.NO, f"{build_name(setup)} has no FP32 router GEMM on ROCm: F.linear in FP32 at any size")
    return Asked(Held.YES if rule.known else Held.UNKNOWN, "no switch: chosen by shape and rows")


def _shape(setup: Setup, _point: Point) -> Met:
    model, shapes = setup.model, setup.build.rule("router_gemm").value["shapes"]
    if model.hidden_size is None or model.experts is None:
        return unknown("hidden size and experts are not known")
    said = f"(hidden {model.hidden_size:,}, experts {model.experts})"
    if shapes is None:
        return yes(f"{said}: any shape is served")
    return met(
        [model.hidden_size, model.experts] in [list(s) for s in shapes], f"{said}, {len(shapes)} shapes are served"
    )


def _invariant(setup: Setup, _point: Point) -> Met:
    """0.33 turns its tiers off; 0.32 does not look. The rule that knows any shape is 0.33's."""
    on, asks = batch_invariant(setup), setup.build.rule("router_gemm").value["shapes"] is None
    if on is None and asks:
        return unknown(f"{BATCH_INVARIANT}={setup.env.get(BATCH_INVARIANT)!r} is no number")
    if on and asks:
        return no(f"{BATCH_INVARIANT}={setup.env.get(BATCH_INVARIANT)} turns the router's kernels off")
    return yes(f"{BATCH_INVARIANT} is {'on, which this build does not ask here' if on else 'off'}")


def _judge(setup: Setup, rows: int) -> Met:
    most = setup.build.rule("router_gemm").value["max_rows"]
    if rows <= most:
        return yes(f"{rows:,} rows <= {most}")
    other = "three BF16 terms (Cijk_* and _reduce_terms_kernel)" if rows >= BF16X3_ROWS else "F.linear in FP32"
    return no(f"{rows:,} rows > {most}: {other}")


def _rows(setup: Setup, point: Point) -> Met:
    """Rows as they are launched: a graph replays its captured size."""
    return at_rows(setup, point, lambda rows: _judge(setup, rows))


def _calls(setup: Setup, point: Point) -> int | None:
    """Launches of the FP32 kernel; not told for decode steps that the monokernel may take, router and all."""
    if asks_monokernel(setup) and point.phase is Phase.DECODE:
        return None
    return calls_in(state_at(FAST_PATH, setup, point).state, setup)


def _terms(setup: Setup, point: Point) -> int | None:
    """Launches of the sum of three terms: the same guards, and 2,048 rows or more."""
    needs = [need for need in FAST_PATH.needs if need.when is not When.CALL]
    held = state_at(replace(FAST_PATH, needs=tuple(needs)), setup, point).state
    many = {rows >= BF16X3_ROWS for rows in launched(setup, point)}
    if many == {False} or held in (State.OFF, State.REFUSED):
        return 0
    return calls_in(held, setup) if many == {True} else None


FAST_PATH = FastPath(
    title="FP32 router GEMM",
    question="Did the router's logits come from the small-batch FP32 kernel?",
    configured="nothing: chosen by GPU, shape and rows",
    default="on where the build has it",
    acts_on=(
        Family.GEMM,
        Family.MOE_ROUTE,
    ),
    needs=(
        Need("the model has expert layers", expert_layers),
        Need(
            "gfx950",
            lambda setup, _point: arch_met(setup, ("gfx950",), "the router's kernel needs"),
            rules=("router_gemm",),
        ),
        Need("a (hidden, experts) pair that is served", amd(_shape), When.LOAD, ("router_gemm",)),
        Need("0.33: no batch invariance", amd(_invariant), When.LOAD, ("router_gemm",)),
        Need("at most 32 rows, padding included", amd(_rows), When.CALL, ("router_gemm",)),
    ),
    variants=(
        Variant(
            name="FP32 kernel",
            role=Role.FAST,
            anchors=("_rocm_fp32_router_gemm_kernel*",),
            vendor="amd",
            calls_per_step="moe_layers (57)",
            expected=_calls,
            names_from_source=True,
            source="router/rocm_fp32_router_gemm.py at 0.32 and 0.33",
            vllm="0.32, 0.33",
        ),
        Variant(
            name="FP32 kernel (CUDA)",
            role=Role.FAST,
            anchors=("*fp32_router_gemm_kernel<*",),
            vendor="nvidia",
            calls_per_step="moe_layers",
            source="csrc fp32_router_gemm; seen in H200 traces",
            vllm="0.24 to 0.33",
        ),
        Variant(
            name="three BF16 terms",
            role=Role.FALLBACK,
            anchors=("_reduce_terms_kernel*",),
            vendor="amd",
            calls_per_step="moe_layers in steps of 2,048 rows and more",
            expected=_terms,
            names_from_source=True,
            source="router/bf16x3_router_gemm_rocm.py at 0.32 and 0.33",
            vllm="0.32, 0.33",
            note="its GEMM is one of hipBLASLt's; only the sum of the terms has a name of its own",
        ),
    ),
    asked=asked,
    decided_by=(Phase.DECODE,),
    instead="F.linear in FP32 (Cijk_*) from 33 to 2,047 rows; above, three BF16 terms; at 0.24 and 0.25.1 F.linear always",
    gates=("cosine", "token_conservation", "eval_file"),
    logs=("Enabled ROCm BF16x3 router GEMM.",),
    functions=("rocm_fp32_router_gemm", "bf16x3_router_gemm", "GateLinear.forward"),
    sources=("vLLM PR 54845", "gate_linear.py, rocm_fp32_router_gemm.py at 0.32 and 0.33"),
)
