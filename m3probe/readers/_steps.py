"""Step annotations: the forms vLLM, SGLang and torch write, and what each says.

Forms seen (formats.md 4.1): ``execute_context_8(4000)_generation_0(0)``,
``execute_context_1(888_788544)_generation_0(0)`` (sum and sum of squares, B200),
``execute_32_context_0(sq0sk0sqsq0sqsk0)_generation_32(sq32sk55086sqsq32sqsk55086)`` (vLLM PR 33198),
``step[DECODE bs=16]``, ``step[EXTEND bs=2 toks=107]``, ``step[MIXED bs=2]`` (SGLang), ``ProfilerStep#1``.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, fields, replace

from m3probe.schema.verdicts import Phase

_LARGEST = 10**15
"""A count above this is damage, not a count of tokens or requests."""

_VLLM = re.compile(
    r"execute_(?:(?P<tokens>\d+)_)?context_(?P<ctx_reqs>\d+)\((?P<ctx>[^)]*)\)"
    r"_generation_(?P<gen_reqs>\d+)\((?P<gen>[^)]*)\)"
)
_SUMS = re.compile(r"sq(?P<sq>\d+)sk(?P<sk>\d+)sqsq(?P<sqsq>\d+)sqsk(?P<sqsk>\d+)")
_PLAIN = re.compile(r"(?P<sum>\d+)(?:_(?P<squares>\d+))?")
_SGLANG = re.compile(r"step\[(?P<kind>[A-Z_]+)(?P<rest>[^\]]*)\]")
_FIELD = re.compile(r"(\w+)=(\d+)")
CAPTURE = re.compile(r"capture_(?P<rows>\d+)_(?P<mode>[A-Z]+)")
PROFILER_STEP = "ProfilerStep#"

_SGLANG_PHASE = {"DECODE": Phase.DECODE, "EXTEND": Phase.PREFILL, "PREFILL": Phase.PREFILL, "MIXED": Phase.MIXED}


@dataclass(frozen=True, slots=True)
class StepName:
    """What one annotation says; -1 where it says nothing."""

    phase: Phase = Phase.UNKNOWN
    requests: int = -1
    rows: int = -1
    ctx_reqs: int = -1
    ctx_tokens: int = -1
    gen_reqs: int = -1
    gen_tokens: int = -1
    ctx_seq_len_sum: int = -1
    gen_seq_len_sum: int = -1
    ctx_sq_sum: int = -1

    def filled_from(self, inner: StepName) -> StepName:
        """This annotation, its gaps filled by one nested in it."""
        gaps = {
            f.name: getattr(inner, f.name)
            for f in fields(self)
            if getattr(self, f.name) in (-1, Phase.UNKNOWN) and getattr(inner, f.name) not in (-1, Phase.UNKNOWN)
        }
        return replace(self, **gaps) if gaps else self


def parse(name: str) -> StepName | None:
    """The step that an annotation names; None when it names none."""
    if name.startswith("execute_"):
        return _vllm(name)
    if name.startswith("step["):
        return _sglang(name)
    return None


def _vllm(name: str) -> StepName:
    found = _VLLM.match(name)
    if found is None:
        return StepName()
    ctx_reqs, gen_reqs = _number(found["ctx_reqs"]), _number(found["gen_reqs"])
    ctx_tokens, ctx_keys, ctx_squares = _sums(found["ctx"])
    gen_tokens, gen_keys, _ = _sums(found["gen"])
    rows = ctx_tokens + gen_tokens if min(ctx_tokens, gen_tokens) >= 0 else _number(found["tokens"])
    return StepName(
        phase=_phase(ctx_reqs, gen_reqs),
        requests=ctx_reqs + gen_reqs if min(ctx_reqs, gen_reqs) >= 0 else -1,
        rows=rows,
        ctx_reqs=ctx_reqs,
        ctx_tokens=ctx_tokens,
        gen_reqs=gen_reqs,
        gen_tokens=gen_tokens,
        ctx_seq_len_sum=ctx_keys,
        gen_seq_len_sum=gen_keys,
        ctx_sq_sum=ctx_squares,
    )


def _sums(text: str) -> tuple[int, int, int]:
    """(tokens, sum of key lengths, sum of squares), -1 where not written."""
    detailed = _SUMS.fullmatch(text)
    if detailed:
        return _number(detailed["sq"]), _number(detailed["sk"]), _number(detailed["sqsq"])
    plain = _PLAIN.fullmatch(text)
    if plain:
        return _number(plain["sum"]), -1, _number(plain["squares"])
    return -1, -1, -1


def _number(text: str | None) -> int:
    """A count; -1 when it is not written or cannot be one."""
    if not text or len(text) > 16:
        return -1
    number = int(text)
    return number if number <= _LARGEST else -1


def _phase(ctx_reqs: int, gen_reqs: int) -> Phase:
    if min(ctx_reqs, gen_reqs) < 0:
        return Phase.UNKNOWN
    if ctx_reqs and gen_reqs:
        return Phase.MIXED
    if ctx_reqs:
        return Phase.PREFILL
    return Phase.DECODE if gen_reqs else Phase.EMPTY


def _sglang(name: str) -> StepName | None:
    found = _SGLANG.match(name)
    if found is None:
        return None
    said = {key: _number(value) for key, value in _FIELD.findall(found["rest"])}
    phase = _SGLANG_PHASE.get(found["kind"], Phase.UNKNOWN)
    requests = said.get("bs", -1)
    rows = said.get("toks", requests if phase is Phase.DECODE else -1)
    return StepName(phase=phase, requests=requests, rows=rows)
