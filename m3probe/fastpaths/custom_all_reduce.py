"""The custom all-reduce over XGMI: AITER's, else vLLM's; what neither takes goes to RCCL.

Sources: ``custom_all_reduce.py`` and ``aiter_custom_all_reduce.py`` at 0.24 to 0.33; vLLM issue 53136 (sizes between
vLLM's limit and QuickReduce's smallest fall to RCCL, and no log line tells it).
"""

from dataclasses import replace

from m3probe.fastpaths._all_reduce import aiter_asked, aiter_custom, backends, custom, quick_reduce
from m3probe.fastpaths._comm_variants import AITER_AR, BARE_AR, FLYDSL, HIP, RCCL_AR, VLLM_AR
from m3probe.fastpaths._m3 import no, told, unknown, yes
from m3probe.fastpaths._tp_group import ONE_RANK, allowed, at_size, switched_on
from m3probe.schema.paths import Asked, Effect, FastPath, Need, Role, When
from m3probe.schema.setup import Held, Met, Point, Setup
from m3probe.schema.verdicts import Family

_FLAG = "disable-custom-all-reduce"


def asked(setup: Setup) -> Asked:
    """On by default, where there is anything to reduce."""
    if setup.tp == 1:
        return Asked(Held.NO, ONE_RANK)
    if switched_on(setup, _FLAG):
        return Asked(Held.NO, told(setup, _FLAG))
    theirs = aiter_asked(setup)
    mine = "AITER's" if theirs.held is Held.YES else "vLLM's" if theirs.held is Held.NO else "AITER's or vLLM's"
    return Asked(Held.YES, f"--{_FLAG} is not set: {mine} ({theirs.text})")


def _allowed(setup: Setup, _point: Point) -> Met:
    return allowed(setup)


def _built(setup: Setup, _point: Point) -> Met:
    """The one of the two that this setup makes, and whether it serves this world."""
    if allowed(setup).held is not Held.YES:
        return yes("see the need before")
    theirs = aiter_asked(setup)
    if theirs.held is Held.UNKNOWN:
        return theirs
    found = aiter_custom(setup) if theirs.held is Held.YES else custom(setup)
    return Met(found.built.held, f"{found.name}: {found.built.text}")


def _fits(setup: Setup, payload: int) -> Met:
    found = aiter_custom(setup) if aiter_asked(setup).held is Held.YES else custom(setup)
    if found.built.held is not Held.YES:
        return yes("see the need before")
    return Met(found.takes(payload), found.says(payload))


def _size(setup: Setup, point: Point) -> Met:
    return at_size(setup, point, lambda payload: _fits(setup, payload))


def _first(setup: Setup, payload: int) -> Met:
    """QuickReduce is asked before, and keeps what it takes."""
    held = quick_reduce(setup).takes(payload)
    said = f"quick_reduce: {quick_reduce(setup).says(payload)}"
    if held is Held.UNKNOWN:
        return unknown(said)
    return no(f"QuickReduce takes it first: {said}") if held is Held.YES else yes(f"not {said}")


def _not_taken(setup: Setup, point: Point) -> Met:
    return at_size(setup, point, lambda payload: _first(setup, payload))


def _order(setup: Setup, _point: Point) -> Met:
    chain, why = backends(setup)
    return yes(f"asked in this order: {', '.join(b.name for b in chain)}") if chain else unknown(why)


FAST_PATH = FastPath(
    title="custom all-reduce",
    question="Did AITER's or vLLM's all-reduce over XGMI run, or RCCL?",
    configured="on unless --disable-custom-all-reduce; VLLM_ROCM_USE_AITER=1 with VLLM_ROCM_USE_AITER_CUSTOM_AR (on by "
    "default, since 0.25) puts AITER's in the place of vLLM's",
    default="on: vLLM's below 8,388,608 B; with AITER up to 67,108,864 B",
    acts_on=(Family.COMM,),
    needs=(
        Need("custom all-reduces: more than one rank, gfx94x or gfx95x, one node, not switched off", _allowed),
        Need("AITER's or vLLM's is built and serves this TP size", _built),
        Need("a payload within its limit", _size, When.CALL),
        Need("QuickReduce does not take the payload first", _not_taken, When.CALL),
        Need("the order in which all_reduce() asks", _order, rules=("all_reduce_order",)),
    ),
    variants=(
        AITER_AR,
        VLLM_AR,
        BARE_AR,
        *(replace(v, role=Role.FALLBACK) for v in (FLYDSL, *HIP)),
        RCCL_AR,
    ),
    asked=asked,
    family=Family.COMM,
    instead="QuickReduce for the payloads it takes, RCCL for the others",
    gates=("eval_file", "cosine"),
    effects=(
        Effect("payloads of 8 to 16 MiB at TP8 went to RCCL unannounced: slow, then a crash", "vLLM issue 53136"),
        Effect("about 3 us a call where ungated INT4 QuickReduce costs about 18.4 us", "ROCm/aiter 4970"),
    ),
    logs=("Using [...] all-reduce backends (in dispatch order): what was built, at no size in particular",),
    functions=("AiterCustomAllreduce.custom_all_reduce", "CustomAllreduce.custom_all_reduce"),
    sources=(
        "cuda_communicator.py:362 (all_reduce) at 0.33",
        "custom_all_reduce.py:496 at 0.33, :230 at 0.24 (should_custom_ar)",
        "vLLM issue 53136",
    ),
)
