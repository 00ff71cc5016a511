"""Kernels of all-reduces that several paths count, each written once, and how many calls a step makes.

Sources of names: ``csrc/quickreduce`` of vLLM (``allreduce_prototype_twoshot<AllReduceTwoshot<T, Codec<T, world>,
cast_bf2half>, T>``: the last argument of the inner template tells whether BF16 was cast), ``csrc/custom_all_reduce.cuh``
of vLLM and of AITER (the namespace tells them apart), AITER's ``ops/flydsl``. No trace with an all-reduce of MiniMax M3
on AMD was at hand.
"""

from __future__ import annotations

from m3probe.fastpaths._all_reduce import (
    AITER_CUSTOM,
    CUSTOM,
    QUICK_REDUCE,
    RCCL,
    aiter_custom,
    backend_of,
    kernel_of,
)
from m3probe.fastpaths._capture import launched
from m3probe.fastpaths._m3 import build_name, no, unknown, yes
from m3probe.fastpaths._tp_group import model_dtype, row_bytes, switched_on
from m3probe.schema.paths import Expected, Role, Variant
from m3probe.schema.setup import Held, Met, Point, RuleStatus, Setup, met
from m3probe.schema.verdicts import Phase

EACH = "2 x layers + 1 (attention, MLP or experts, embedding), less those fused with a norm"
QR_SOURCE = "vLLM csrc/quickreduce/quick_reduce.h and custom_quickreduce.cu"


def all_reduces(setup: Setup) -> int | None:
    """All-reduces of one step: 2 x layers + 1 = 121 for MiniMax M3; None where something else adds or takes some.

    A drafter adds its own, pipeline stages split the layers, data parallelism changes how experts are summed, and the
    monokernel sums over ranks inside of itself.
    """
    layers = setup.model.layers
    if setup.tp == 1:
        return 0
    odd = setup.pp > 1 or setup.dp > 1 or setup.draft is not None or switched_on(setup, "monokernel")
    return None if odd or layers is None or not setup.model.is_minimax_m3 else 2 * layers + 1


def fused_rows(setup: Setup, payload: int) -> Met:
    """At most 80 rows: above, AITER's two-stage form would run, which is slower than all-reduce and norm apart."""
    rows = payload // (row_bytes(setup) or payload)
    most = int(setup.build.rule("fused_ar_norm").value["max_rows"])
    return met(rows <= most, f"{rows:,} rows {'<=' if rows <= most else '>'} {most}")


def fused_bytes(setup: Setup, payload: int) -> Met:
    """The byte limit of AITER's one-stage kernel for this world; TP2 has none."""
    limits = {int(world): most for world, most in setup.build.rule("fused_ar_norm").value["max_bytes"].items()}
    world = min((w for w in limits if w >= setup.tp), default=None)
    if world is None:
        return no(f"TP{setup.tp}: the one-stage kernel serves up to TP{max(limits)}")
    most = limits[world]
    if most is None:
        return yes(f"{payload:,} B: TP{setup.tp} has no byte limit")
    return met(payload < most, f"{payload:,} B {'<' if payload < most else '>='} {most:,} B: TP{setup.tp}")


def fused_packs(setup: Setup, _point: Point) -> Met:
    """A row of whole 16-byte packs, at most 1,024 of them (768 for MiniMax M3)."""
    rule, per_row = setup.build.rule("fused_ar_norm").value, row_bytes(setup)
    if per_row is None:
        return unknown("the hidden size or the dtype is not known")
    if model_dtype(setup) == "float32":
        return no("activations in fp32; the fusion takes fp16 and bf16")
    size, most = int(rule["pack_bytes"]), int(rule["max_packs"])
    if per_row % size:
        return no(f"rows of {per_row:,} B are no whole packs of {size} B")
    packs = per_row // size
    return met(packs <= most, f"{packs:,} packs of {size} B in a row {'<=' if packs <= most else '>'} {most:,}")


def fused_built(setup: Setup) -> Met:
    """The AITER branch: in this build, with AITER's all-reduce, in MiniMax M3's model file."""
    rule = setup.build.rule("fused_ar_norm")
    if rule.status is RuleStatus.ABSENT:
        return no(f"{build_name(setup)} has the FlashInfer branch alone, which is NVIDIA's")
    if not rule.known:
        return unknown(f"rule fused_ar_norm is {rule.status} on this build")
    if not setup.model.is_minimax_m3:
        return no("not MiniMax M3: no other model file is known to call it on ROCm")
    return aiter_custom(setup).built


def fused_at(setup: Setup, payload: int) -> Held:
    """Whether the all-reduce after attention is fused with its norm at so many bytes."""
    built = fused_built(setup)
    if built.held is not Held.YES:
        return built.held
    packs = fused_packs(setup, Point(Phase.DECODE, 0))
    answers = (packs.held, fused_rows(setup, payload).held, fused_bytes(setup, payload).held)
    held = (*answers, aiter_custom(setup).takes(payload))
    return Held.NO if Held.NO in held else Held.UNKNOWN if Held.UNKNOWN in held else Held.YES


def fused_calls(setup: Setup, point: Point) -> int | None:
    """One per layer (the all-reduce after attention; the one after the experts is never fused on ROCm)."""
    per_row, layers = row_bytes(setup), setup.model.layers
    if all_reduces(setup) is None or per_row is None or layers is None:
        return None
    held = {fused_at(setup, rows * per_row) for rows in launched(setup, point)}
    if len(held) > 1 or Held.UNKNOWN in held:
        return None
    return layers if held == {Held.YES} else 0


def calls_of(backend: str, kernel: str = "") -> Expected:
    """Calls of one backend (and one kernel of it): all that are not fused, where this step's size goes to it."""

    def expected(setup: Setup, point: Point) -> int | None:
        total, fused, per_row = all_reduces(setup), fused_calls(setup, point), row_bytes(setup)
        if total is None or fused is None or per_row is None:
            return None
        payloads = {rows * per_row for rows in launched(setup, point)}
        takers = {backend_of(setup, payload)[0] for payload in payloads}
        if len(takers) > 1 or (None in takers and total):
            return None
        kernels = {kernel_of(setup, payload) for payload in payloads} if kernel and takers == {backend} else {kernel}
        if len(kernels) > 1 or (kernel and not any("," in k for k in kernels)):
            return None
        return total - fused if takers == {backend} and kernels == {kernel} else 0

    return expected


def _hip(codec: str, glob: str, vllm: str = "0.24 to 0.33") -> Variant:
    return Variant(
        name=f"HIP {codec}",
        role=Role.FAST,
        anchors=(f"*allreduce_prototype_twoshot*{glob}<*",),
        vendor="amd",
        calls_per_step=EACH,
        expected=calls_of(QUICK_REDUCE, f"{codec}, HIP"),
        names_from_source=True,
        source=QR_SOURCE,
        vllm=vllm,
        note="half as the type of a BF16 model, and true as the template's last argument: the BF16 to FP16 cast was on",
    )


FLYDSL = Variant(
    name="FlyDSL INT4",
    role=Role.FAST,
    anchors=("*quick_allreduce*int4*",),
    vendor="amd",
    calls_per_step=EACH,
    expected=calls_of(QUICK_REDUCE, "INT4, FlyDSL"),
    names_from_source=True,
    source="quick_all_reduce.py:_use_flydsl_int4 at 0.33; make_quick_allreduce_int4_kernel of AITER",
    vllm="0.33",
    note="takes BF16 as it is: the cast decides which sizes are eligible and nothing else",
)
HIP = (
    _hip("INT4", "codecq4"),
    _hip("INT6", "codecq6"),
    _hip("INT8", "codecq8"),
    _hip("INT3", "codecq3", "0.25 to 0.33"),
    _hip("FP", "codecfp"),
)
AITER_AR = Variant(
    name="AITER",
    role=Role.FAST,
    anchors=("*aiter::cross_device_reduce_*",),
    vendor="amd",
    calls_per_step=EACH,
    expected=calls_of(AITER_CUSTOM),
    names_from_source=True,
    source="AITER csrc/include/custom_all_reduce.cuh; aiter_custom_all_reduce.py at 0.25.1 to 0.33",
    vllm="0.25 to 0.33",
)
VLLM_AR = Variant(
    name="vLLM",
    role=Role.FAST,
    anchors=("*vllm::cross_device_reduce_*",),
    calls_per_step=EACH,
    expected=calls_of(CUSTOM),
    names_from_source=True,
    source="vLLM csrc/custom_all_reduce.cuh (cross_device_reduce_1stage, _2stage)",
    vllm="0.24 to 0.33",
)
BARE_AR = Variant(
    name="AITER or vLLM",
    role=Role.FAST,
    anchors=("cross_device_reduce_*",),
    calls_per_step=EACH,
    names_from_source=True,
    source="SemiAnalysisAI/InferenceX issue 1005 (984 calls, 78.9 us each, 22.7 % of the kernel time)",
    note="the trace lost the namespace: both packages use the name",
)
RCCL_AR = Variant(
    name="RCCL",
    role=Role.FALLBACK,
    anchors=("*nccldevkernel_allreduce*", "*nccldevkernel_generic*", "*ncclkernel_generic*"),
    calls_per_step=EACH,
    expected=calls_of(RCCL),
    names_from_source=True,
    source="RCCL src/device: one generic kernel for all collectives on AMD",
    note="a generic name does not tell the collective: the all-gather of the logits may be among them",
)
