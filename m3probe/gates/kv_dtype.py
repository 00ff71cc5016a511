"""The FP8 flavour that KV writers store is the one that readers see and the platform computes in.

FNUZ and FN differ by one in the exponent bias: the same byte read as FN is twice the FNUZ value, and 0x80 is NaN in
FNUZ and -0 in FN. Nothing raises.
"""

from m3probe.schema.gates import Gate, GateFacts, GateVerdict, broken, holds, unproven

CODES = 256


def _plain(dtype: str) -> str:
    return dtype.removeprefix("torch.")


def check(facts: GateFacts) -> GateVerdict:
    """Writer == reader; an FP8 dtype also has the platform's flavour."""
    kv = facts.kv
    if kv is None or kv.writer is None or kv.reader is None:
        return unproven("the writer's or the reader's KV dtype was not recorded")
    writer, reader = _plain(kv.writer), _plain(kv.reader)
    if writer != reader:
        return broken(f"KV is written as {writer} and read as {reader}")
    if "float8" not in writer:
        return holds(f"KV is written and read as {writer}: no FP8 in it")
    if kv.codes_equal is not None and kv.codes_equal < CODES:
        return broken(f"{kv.codes_equal} of {CODES} byte codes survive a write and a read as {writer}")
    return _flavour(facts, writer)


def _flavour(facts: GateFacts, dtype: str) -> GateVerdict:
    fnuz = _fnuz(facts)
    if fnuz is None:
        return unproven(f"KV is {dtype} on both sides; the platform's FP8 dtype was not recorded")
    if dtype.endswith("fnuz") is not fnuz:
        where = facts.gfx or "this platform"
        return broken(f"KV is {dtype}, but {where} computes in {'FNUZ' if fnuz else 'FN'}")
    return holds(f"KV is written and read as {dtype}, the platform's flavour")


def _fnuz(facts: GateFacts) -> bool | None:
    if facts.kv is not None and facts.kv.platform is not None:
        return facts.kv.platform.endswith("fnuz")
    return facts.gfx.startswith("gfx94") if facts.gfx else None


GATE = Gate(
    title="KV writer dtype = reader view = platform FP8 dtype",
    question="Do readers of the KV cache see the FP8 flavour that was written?",
    check=check,
    facts="impl.kv_cache_fp8_dtype, the bound cache tensor's dtype, current_platform.is_fp8_fnuz()",
    trap="gfx942 wrote FNUZ and read FN: HTTP 200 and GSM8K strict 0.0099; 0.9666 with BF16 KV, 0.9575 when fixed "
    "(vLLM issue 45562, PR 45720)",
)
