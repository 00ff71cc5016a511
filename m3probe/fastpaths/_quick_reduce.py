"""Which payloads QuickReduce takes, and with which codec.

Sources: ``quick_all_reduce.py`` at 0.24, 0.25.1, 0.32, 0.33 (one size table in all four, INT3 since 0.25.1, FlyDSL since
0.33), ``env_with_choices`` and ``maybe_convert_int`` of ``envs.py``, ``qr_max_size`` of ``csrc/custom_quickreduce.cu``.
"""

from __future__ import annotations

from m3probe.fastpaths._m3 import AITER, no, unknown, yes
from m3probe.fastpaths._tp_group import ALIGN, ARCHS, MIB, allowed, fixed_order, model_dtype
from m3probe.schema.setup import Held, Met, Point, RuleStatus, Setup, met
from m3probe.schema.verdicts import Phase

QUANTIZATION = "VLLM_ROCM_QUICK_REDUCE_QUANTIZATION"
CAST = "VLLM_ROCM_QUICK_REDUCE_CAST_BF16_TO_FP16"
MIN_MB = "VLLM_ROCM_QUICK_REDUCE_MIN_SIZE_BYTES_MB"
MAX_MB = "VLLM_ROCM_QUICK_REDUCE_MAX_SIZE_BYTES_MB"
CODEC_KB = "VLLM_ROCM_QUICK_REDUCE_QUANTIZATION_MIN_SIZE_KB"
NUMBERS = (MIN_MB, MAX_MB, CODEC_KB)
LARGEST = 2048 * MIB
"""Bytes: what the C++ library answers where MAX_SIZE_BYTES_MB is not set."""
SHORT = {"float16": "fp16", "bfloat16": "bf16", "float32": "fp32"}
TABLE_RULES = ("qr_min_size_mb", "qr_codecs", "qr_cast_default")


def codec(setup: Setup) -> str:
    """The codec asked for, word for word: vLLM compares the case too and strips nothing."""
    return setup.env.get(QUANTIZATION, "NONE")


def whole(setup: Setup, name: str) -> int | None:
    """A number as ``int()`` reads it; None: not set, or no number (see ``settings``)."""
    try:
        return int(setup.env[name])
    except (KeyError, ValueError):
        return None


def cast(setup: Setup) -> bool | None:
    """Whether BF16 payloads are summed as FP16: the variable, else the build's default."""
    rule = setup.build.rule("qr_cast_default")
    return setup.on(CAST, bool(rule.value) if rule.known else None)


def settings(setup: Setup, _point: Point) -> Met:
    """Values that vLLM reads without raising ValueError, which would keep the engine from starting."""
    names = [*setup.build.rule("qr_codecs").value, "NONE"]
    wrong = []
    if codec(setup) not in names:
        wrong.append(f"{QUANTIZATION}={codec(setup)!r} is none of {', '.join(names)} (the case counts)")
    wrong += [
        f"{name}={setup.env[name]!r} is no whole number"
        for name in NUMBERS
        if name in setup.env and whole(setup, name) is None
    ]
    raised = "; the engine does not start (ValueError)"
    if wrong:
        return no("; ".join(wrong) + raised)
    ranges = _out_of_range(setup)
    if not ranges:
        return yes(f"{QUANTIZATION}={codec(setup)} and its numbers are read")
    sure = any(held is Held.YES for _, held in ranges)
    return Met(Held.NO if sure else Held.UNKNOWN, "; ".join(text for text, _ in ranges) + raised)


def _out_of_range(setup: Setup) -> list[tuple[str, Held]]:
    """(sentence, whether vLLM gets to look): a group without QuickReduce never does.

    The codec threshold is looked at before the dtype, the smallest size after it.
    """
    smallest, threshold, wrong = whole(setup, MIN_MB), whole(setup, CODEC_KB), []
    if threshold is not None and threshold < 0:
        wrong.append((f"{CODEC_KB}={threshold} < 0", off(setup, any_dtype=True).held))
    if smallest is not None and smallest < 0:
        wrong.append((f"{MIN_MB}={smallest} < 0", off(setup).held))
    elif smallest is not None and smallest * MIB > most(setup):
        said = f"{MIN_MB}={smallest}: {smallest * MIB:,} B > {most(setup):,} B, the largest size"
        wrong.append((said, off(setup).held))
    return [(text, held) for text, held in wrong if held is not Held.NO]


def most(setup: Setup) -> int:
    """The largest payload in bytes, inclusive."""
    said = whole(setup, MAX_MB)
    return LARGEST if said is None else said * MIB


def world(setup: Setup, _point: Point) -> Met:
    """TP2, TP4 or TP8."""
    if setup.tp == 1:
        return no("TP1: no all-reduce")
    worlds = setup.build.rule("qr_world_sizes").value
    return met(setup.tp in worlds, f"TP{setup.tp}; QuickReduce serves {', '.join(f'TP{w}' for w in worlds)}")


def int3(setup: Setup, _point: Point) -> Met:
    """INT3 at two ranks alone; a build without INT3 refuses the word itself."""
    rule = setup.build.rule("qr_int3_worlds")
    if codec(setup) != "INT3" or rule.status is RuleStatus.ABSENT:
        return yes(f"{codec(setup)}, not INT3")
    if not rule.known:
        return unknown(f"rule qr_int3_worlds is {rule.status} on this build")
    return met(setup.tp in rule.value, f"INT3 at TP{setup.tp}; it is for {', '.join(f'TP{w}' for w in rule.value)}")


def dtype(setup: Setup, _point: Point) -> Met:
    """FP16 or BF16 activations."""
    said = model_dtype(setup)
    if said is None:
        return unknown("the dtype of the activations is not known")
    return met(said in setup.build.rule("qr_dtypes").value, f"activations in {SHORT[said]}")


def archs(setup: Setup, _point: Point) -> Met:
    """A GPU that QuickReduce's kernels are written for."""
    if not setup.gfx:
        return unknown("the GPU is not known")
    wants = setup.build.rule("qr_archs").value
    return met(setup.gfx.startswith(tuple(wants)), f"GPU {setup.gfx}; QuickReduce serves {', '.join(wants)}")


def off(setup: Setup, *, any_dtype: bool = False) -> Met:
    """Whether the object is built at all: every refusal, else what is not known, else yes."""
    here = Point(Phase.DECODE, 0)  # none of these asks for it
    checks = {"qr_archs": archs, "qr_world_sizes": world, "qr_dtypes": dtype, "": int3}
    answers = [allowed(setup), fixed_order(setup)]
    if any_dtype:
        del checks["qr_dtypes"]
    for rule, check in checks.items():
        lost = bool(rule) and not setup.build.rule(rule).known
        answers.append(unknown(f"rule {rule} is not known on this build") if lost else check(setup, here))
    for held in (Held.NO, Held.UNKNOWN):
        texts = dict.fromkeys(a.text for a in answers if a.held is held)
        if texts:
            return Met(held, "; ".join(texts))
    return yes(f"QuickReduce is built: TP{setup.tp}, {codec(setup)}")


def least(setup: Setup) -> tuple[int | None, str]:
    """(the smallest payload in bytes, what it hangs on); None: not known, the text says why."""
    said = whole(setup, MIN_MB)
    if said is not None:
        return said * MIB, f"{MIN_MB}={said}"
    lost = [name for name in TABLE_RULES if not setup.build.rule(name).known]
    kind, casts = model_dtype(setup), cast(setup)
    if lost or kind is None:
        return None, f"rule {lost[0]} is not known on this build" if lost else "the dtype is not known"
    column = "float16" if casts else kind
    row = setup.build.rule("qr_min_size_mb").value.get(column, {}).get(str(setup.tp))
    codecs = setup.build.rule("qr_codecs").value
    if row is None or codec(setup) not in codecs:
        return None, f"no size for {column}, TP{setup.tp}, {codec(setup)} in the table"
    said_cast = f", cast {'on' if casts else 'off'}" if kind == "bfloat16" else ""
    return row[codecs.index(codec(setup))] * MIB, f"{SHORT[kind]}, TP{setup.tp}, {codec(setup)}{said_cast}"


def size(setup: Setup, payload: int) -> Met:
    """Whether one payload (bytes) is within the limits; the sentence has both numbers."""
    smallest, label = least(setup)
    if payload % ALIGN:
        return no(f"{payload:,} B is no multiple of {ALIGN} B")
    if payload > most(setup):
        return no(f"{payload:,} B > {most(setup):,} B, the largest size")
    if smallest is None:
        told = model_dtype(setup) is not None and all(setup.build.rule(name).known for name in TABLE_RULES)
        return no(label) if told else unknown(label)
    sign = "<" if payload < smallest else ">="
    return met(payload >= smallest, f"{payload:,} B {sign} {smallest:,} B: {label}")


def codec_at(setup: Setup, payload: int) -> str:
    """The codec of one payload: FP below the codec threshold, else the one asked for."""
    threshold = whole(setup, CODEC_KB)
    return "FP" if threshold is not None and payload < threshold * 1024 else codec(setup)


def flydsl(setup: Setup, payload: int) -> Held:
    """Whether AITER's FlyDSL kernel takes the payload instead of the HIP one: BF16 at codec INT4, AITER on (0.33)."""
    rule = setup.build.rule("qr_flydsl_int4")
    if rule.status is RuleStatus.ABSENT or codec_at(setup, payload) != "INT4" or not setup.on(AITER, default=False):
        return Held.NO
    if not rule.known or setup.gfx is None or model_dtype(setup) is None:
        return Held.UNKNOWN
    fits = model_dtype(setup) == rule.value["dtype"] and setup.gfx.startswith(ARCHS)
    return Held.YES if fits and payload % int(rule.value["align"]) == 0 else Held.NO


def threshold_text(setup: Setup) -> str:
    """What the codec threshold does: nothing, unless it is above the smallest payload; empty when it is not set."""
    threshold, (smallest, label) = whole(setup, CODEC_KB), least(setup)
    if threshold is None or smallest is None:
        return ""
    said = f"{CODEC_KB}={threshold} ({threshold * 1024:,} B)"
    if threshold * 1024 <= smallest:
        return f"{said} never matters: the smallest payload is {smallest:,} B ({label})"
    return f"{said}: payloads from {smallest:,} B up to it use codec FP"
