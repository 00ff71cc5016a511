"""Which backend an all-reduce of the TP group takes, by its bytes, and over all rows.

Sources: ``CudaCommunicator.all_reduce`` (its order, not that of the log line "Using [...] all-reduce backends"),
``custom_all_reduce.py``, ``aiter_custom_all_reduce.py`` at 0.24, 0.25.1, 0.32, 0.33; AITER's
``dist/device_communicators/custom_all_reduce.py`` (worlds, 64 MiB inclusive, its two variables). FlashInfer, torch
symmetric memory and NCCL symmetric memory are in that order too and never serve on ROCm: their constructors ask for CUDA.
"""

from __future__ import annotations

from dataclasses import dataclass

from m3probe.fastpaths import _quick_reduce as qr
from m3probe.fastpaths._m3 import AITER, build_name, no, unknown, yes
from m3probe.fastpaths._tp_group import ALIGN, MIB, allowed, batch_invariant, fixed_order, no_amd, release, row_bytes
from m3probe.schema.setup import Held, Met, Point, RuleStatus, Setup
from m3probe.schema.verdicts import Phase

QUICK_REDUCE, AITER_CUSTOM, CUSTOM, RCCL = "quick_reduce", "aiter_custom", "custom", "rccl"
BATCH_INVARIANT = "batch_invariant"
_CUDA_ONLY = ("nccl_symm_mem", "flashinfer", "flashinfer_pcie_ipc", "symm_mem")
AITER_WORLDS = (2, 4, 6, 8)
AITER_MAX, AITER_POOL = 64 * MIB, 128 * MIB
"""Bytes: AITER's own default limit (inclusive), and the buffer that vLLM gives it (a larger limit is dropped)."""
AITER_MAX_ENV, AITER_MIN_ENV = "AITER_CUSTOM_AR_MAX_SIZE", "AITER_CUSTOM_AR_MIN_SIZE"


@dataclass(frozen=True, slots=True)
class Backend:
    """One backend of the order.

    Args:
        name: as in ``all_reduce_order``; ``rccl`` for pynccl.
        built: whether it exists for this group.
        least: smallest payload in bytes.
        most: largest payload in bytes, inclusive; None: no limit.
        label: what ``least`` hangs on.
        strict: the source compares ``<`` with most + 1.
        maybe: (least, most) under another AITER that this setup may have; None: one answer.
    """

    name: str
    built: Met
    least: int = 1
    most: int | None = None
    label: str = ""
    strict: bool = False
    maybe: tuple[int, int] | None = None

    def takes(self, payload: int) -> Held:
        """Whether it takes a payload of so many bytes."""
        if self.built.held is not Held.YES:
            return self.built.held
        if self.name != RCCL and payload % ALIGN:
            return Held.NO
        sure = _within(payload, self.least, self.most)
        other = sure if self.maybe is None else _within(payload, *self.maybe)
        return Held.UNKNOWN if sure is not other else Held.YES if sure else Held.NO

    def limits(self) -> str:
        """Its range of payloads in words: ``< 8,388,608 B``."""
        if self.most is not None and self.most < self.least:
            return f"no size, at most {self.most:,} B"
        low = f">= {self.least:,} B" if self.least > 1 else ""
        high = "" if self.most is None else f"< {self.most + 1:,} B" if self.strict else f"<= {self.most:,} B"
        said = " and ".join(part for part in (low, high) if part) or "any size"
        if self.least == self.most:
            said = f"{self.least:,} B alone"
        return f"{said}: {self.label}" if self.label else said

    def says(self, payload: int) -> str:
        """Why it takes a payload or does not, with both numbers."""
        if self.built.held is not Held.YES:
            return self.built.text
        if self.name != RCCL and payload % ALIGN:
            return f"{payload:,} B is no multiple of {ALIGN} B"
        label = f": {self.label}" if self.label else ""
        if payload < self.least or (self.least > 1 and _within(payload, self.least, self.most)):
            return f"{payload:,} B {'<' if payload < self.least else '>='} {self.least:,} B{label}"
        return f"{payload:,} B{self._at_top(payload)}"

    def _at_top(self, payload: int) -> str:
        if self.most is None:
            return ""
        limit = self.most + 1 if self.strict else self.most
        below, above = ("<", ">=") if self.strict else ("<=", ">")
        return f" {above if payload > self.most else below} {limit:,} B"


@dataclass(frozen=True, slots=True)
class Interval:
    """Rows of one backend: first to last inclusive (None: no end); backend None: no all-reduce, or not known."""

    first_row: int
    last_row: int | None
    backend: str | None
    why: str


def _within(payload: int, least: int, most: int | None) -> bool:
    return payload >= least and (most is None or payload <= most)


def quick_reduce(setup: Setup) -> Backend:
    """QuickReduce: off unless its codec is set."""
    if qr.codec(setup) == "NONE":
        return Backend(
            QUICK_REDUCE, no(f"{qr.QUANTIZATION} is {'NONE' if qr.QUANTIZATION in setup.env else 'not set'}")
        )
    built = qr.off(setup)
    least, label = qr.least(setup)
    if least is None and built.held is Held.YES:
        built = unknown(label)
    return Backend(QUICK_REDUCE, built, least or 1, qr.most(setup), label)


def aiter_asked(setup: Setup) -> Met:
    """Whether vLLM makes AITER's all-reduce object in place of its own, whatever that object can do."""
    rule = setup.build.rule("aiter_ar")
    if rule.status is RuleStatus.ABSENT:
        return no(f"{build_name(setup)} does not call AITER's all-reduce")
    if not setup.on(AITER, default=False):
        return no(f"{AITER} is {'off' if AITER in setup.env else 'not set (default off)'}")
    if no_amd(setup):
        return no(f"{setup.gfx} is no ROCm GPU: AITER is not used")
    if not rule.known:
        return unknown(f"rule aiter_ar is {rule.status} on this build")
    env = str(rule.value["env"])
    if not setup.on(env, default=True):
        return no(f"{env} is off")
    order = fixed_order(setup)
    return yes(f"{AITER}=1") if order.held is Held.YES else order


def aiter_custom(setup: Setup) -> Backend:
    """AITER's all-reduce; its two variables are read by newer AITERs alone, so the older answer is kept beside."""
    built = _first((allowed(setup), aiter_asked(setup)))
    if built.held is Held.YES and setup.tp not in AITER_WORLDS:
        built = no(f"TP{setup.tp}: AITER serves {', '.join(f'TP{w}' for w in AITER_WORLDS)}")
    low, high = _bytes(setup, AITER_MIN_ENV, 0), _bytes(setup, AITER_MAX_ENV, AITER_MAX)
    high = AITER_MAX if high > AITER_POOL else high
    maybe = (1, AITER_MAX) if (low, high) != (0, AITER_MAX) else None
    return Backend(AITER_CUSTOM, built, low + 1, high, maybe=maybe)


def _bytes(setup: Setup, name: str, default: int) -> int:
    """A variable of AITER's: negative or no number is the default, as its log then says."""
    try:
        said = int(setup.env.get(name, ""))
    except ValueError:
        return default
    return said if said >= 0 else default


def custom(setup: Setup) -> Backend:
    """vLLM's own: not built where AITER's is."""
    rule, theirs = setup.build.rule("custom_ar"), aiter_asked(setup)
    built = allowed(setup)
    if built.held is Held.YES and theirs.held is not Held.NO:
        built = no("not built beside AITER's") if theirs.held is Held.YES else theirs
    if built.held is Held.NO:
        return Backend(CUSTOM, built)
    if not rule.known:
        return Backend(CUSTOM, unknown(f"rule custom_ar is {rule.status} on this build"))
    worlds = [w for w in rule.value["worlds"] if w <= rule.value["most_world"]]
    if setup.tp not in worlds:
        return Backend(CUSTOM, no(f"TP{setup.tp}: it serves {', '.join(f'TP{w}' for w in worlds)}"))
    if batch_invariant(setup):  # 0.32, 0.33: should_custom_ar drops the limit, all_reduce goes chunk by chunk
        return Backend(CUSTOM, built)
    strict = bool(rule.value["strict"])
    return Backend(CUSTOM, built, 1, int(rule.value["max_bytes"]) - (1 if strict else 0), strict=strict)


def _first(answers: tuple[Met, ...]) -> Met:
    """The first refusal, else the first that is not known, else the last answer."""
    for held in (Held.NO, Held.UNKNOWN):
        found = next((a for a in answers if a.held is held), None)
        if found:
            return found
    return answers[-1]


_MAKERS = {QUICK_REDUCE: quick_reduce, AITER_CUSTOM: aiter_custom, CUSTOM: custom}


def backends(setup: Setup) -> tuple[tuple[Backend, ...], str]:
    """(the order in which all_reduce() asks on ROCm, why it is not known); the last takes everything."""
    rule = setup.build.rule("all_reduce_order")
    if not setup.gfx:
        return (), "unknown: the GPU is not known"
    if not setup.gfx.startswith("gfx"):
        return (), f"unknown: {setup.gfx} is no AMD GPU: only ROCm's order is known here"
    if not rule.known or not rule.value:
        return (), f"unknown: rule all_reduce_order is {rule.status} on this build"
    if qr.codec(setup) != "NONE" and setup.build.rule("qr_codecs").known:
        told = qr.settings(setup, Point(Phase.DECODE, 0))
        if told.held is Held.NO:
            return (), told.text
    known = {*_CUDA_ONLY, *_MAKERS, BATCH_INVARIANT, "pynccl"}
    strange = [name for name in rule.value if name not in known]
    if strange:
        return (), f"unknown: {build_name(setup)} asks {', '.join(strange)} too, which is not known here"
    made = [_MAKERS[name](setup) for name in rule.value if name in _MAKERS]
    if batch_invariant(setup) and release(setup) in ("0.32.0", "0.33.0"):
        made.append(Backend(BATCH_INVARIANT, yes("gathers and adds in rank order")))
    return (*made, Backend(RCCL, yes("takes everything"))), ""


def backend_of(setup: Setup, payload: int) -> tuple[str | None, str]:
    """(backend, why) of an all-reduce of so many bytes: its own sentence, then those of the backends asked before.

    None: no all-reduce at TP1, an engine that does not start, or not known (the reason then begins with ``unknown``).
    """
    if setup.tp == 1:
        return None, "TP1: no all-reduce"
    chain, why = backends(setup)
    if not chain:
        return None, why
    passed: list[str] = []
    for backend in chain:
        held = backend.takes(payload)
        if held is Held.YES:
            return backend.name, "; ".join([f"{backend.name}: {backend.says(payload)}", *passed])
        if held is Held.UNKNOWN:
            return None, f"unknown: {backend.name} may take it: {backend.says(payload)}"
        passed.append(f"not {backend.name}: {backend.says(payload)}")
    raise AssertionError("rccl takes everything")


def intervals(setup: Setup) -> tuple[Interval, ...]:
    """Rows -> backend from 1 row up, without gaps, for MiniMax M3's all-reduces of rows x hidden size.

    Rows are those the kernels get: a graph replays its captured size. Edges are exact.
    """
    per_row = row_bytes(setup)
    if setup.tp == 1:
        return (Interval(1, None, None, "TP1: no all-reduce"),)
    chain, why = backends(setup)
    if not chain or per_row is None:
        return (Interval(1, None, None, why or "unknown: the hidden size or the dtype is not known"),)
    if per_row % ALIGN:
        return (
            Interval(1, None, None, f"unknown: rows of {per_row:,} B, not of {ALIGN}: each count has its own answer"),
        )
    starts = sorted({1, *(row for b in chain for row in _edges(b, per_row)), *_codec_edge(setup, per_row)})
    parts = [(row, *_taker(setup, chain, row * per_row)) for row in starts]
    kept = [p for i, p in enumerate(parts) if i == 0 or p[1:] != parts[i - 1][1:]]
    ends = [*(p[0] - 1 for p in kept[1:]), None]
    names = [p[1].name if p[2] else None for p in kept]
    return tuple(
        Interval(row, end, names[i], _why(chain, backend, detail, i, names))
        for i, ((row, backend, detail), end) in enumerate(zip(kept, ends, strict=True))
    )


def _edges(backend: Backend, per_row: int) -> list[int]:
    """First rows at which a backend begins or ends to take a payload; a limit below 0 takes none from the first on."""
    if backend.built.held is not Held.YES:
        return []
    spans = [(backend.least, backend.most), *([backend.maybe] if backend.maybe else [])]
    begins = [max(1, -(-least // per_row)) for least, _ in spans]
    return begins + [max(1, most // per_row + 1) for _, most in spans if most is not None]


def _codec_edge(setup: Setup, per_row: int) -> list[int]:
    threshold = qr.whole(setup, qr.CODEC_KB)
    return [] if threshold is None or threshold <= 0 else [max(1, -(-threshold * 1024 // per_row))]


def _taker(setup: Setup, chain: tuple[Backend, ...], payload: int) -> tuple[Backend, str]:
    """(backend, its kernel); an empty kernel: only perhaps."""
    for backend in chain:
        held = backend.takes(payload)
        if held is Held.UNKNOWN:
            return backend, ""
        if held is Held.YES:
            return backend, kernel_of(setup, payload) if backend.name == QUICK_REDUCE else backend.name
    raise AssertionError("rccl takes everything")


def kernel_of(setup: Setup, payload: int) -> str:
    """QuickReduce's kernel for a payload: ``INT4, FlyDSL``, ``INT4, HIP``, or ``INT4`` where that is not known."""
    codec = qr.codec_at(setup, payload)
    held = qr.flydsl(setup, payload)
    return codec if held is Held.UNKNOWN else f"{codec}, {'FlyDSL' if held is Held.YES else 'HIP'}"


def _why(chain: tuple[Backend, ...], backend: Backend, detail: str, at: int, names: list[str | None]) -> str:
    if not detail:
        said = backend.limits() if backend.built.held is Held.YES else backend.built.text
        return f"unknown: {backend.name} may take it: {said}"
    if backend.name == QUICK_REDUCE:
        return f"{detail}: {backend.limits()}"
    if backend.name != RCCL:
        return backend.limits()
    able = [f"{b.name} takes {b.limits()}" for b in chain[:-1] if b.built.held is Held.YES]
    gone = [f"no {b.name}: {b.built.text}" for b in chain[:-1] if b.built.held is not Held.YES]
    between = any(names[:at]) and any(names[at + 1 :])
    return ("dead zone: " if between else "") + "; ".join([*able, *gone])
