"""Whether steps replay captured graphs instead of launching kernel by kernel.

Sources: method R1 (the first MI355X recipe ran eager); graph modes at 0.24 to 0.33 (``_capture.py`` beside this file);
vLLM PR 54782 (PIECEWISE without anything to capture is refused). Model Runner V2 replays FULL graphs outside of any
forward context: a hook there sees no step.
"""

from m3probe.fastpaths._capture import EAGER, Modes, breakable, largest, modes, turned_off
from m3probe.schema.paths import Anchor, Asked, Effect, FastPath, Need, Role, Variant, When
from m3probe.schema.setup import Held, Met, Point, Setup, met
from m3probe.schema.verdicts import Phase


def asked(setup: Setup) -> Asked:
    """On by default; --enforce-eager and cudagraph_mode NONE turn it off."""
    off = turned_off(setup)
    return Asked(Held.NO, off) if off else Asked(Held.YES, modes(setup).text)


def _of(found: Modes, point: Point) -> str | None:
    return found.decode if point.phase is Phase.DECODE else found.other


def _captured(setup: Setup, point: Point) -> Met:
    """Uniform decode replays FULL; a prefill or mixed batch needs PIECEWISE, and that breakable graphs."""
    found = modes(setup)
    mode = _of(found, point)
    said = f"{point.phase}: {mode or 'not known'} ({found.text})"
    return met(None if mode is None else mode != EAGER, said)


def _fits(setup: Setup, point: Point) -> Met:
    """Captured sizes count tokens: with drafts a request is 1 + K rows."""
    limit, why = largest(setup)
    queries = 1 + setup.spec_tokens
    rows = f"{point.rows:,} rows"
    if queries > 1 and point.requests and point.rows == point.requests * queries:
        rows += f" ({point.requests} requests x {queries})"
    sign = "<=" if point.rows <= limit else ">"
    return met(point.rows <= limit, f"{rows} {sign} {limit:,}, the largest captured size ({why})")


def _piecewise_calls(setup: Setup, _point: Point) -> int | None:
    """Breakable graphs break once in each sparse layer's attention and once in each dense layer's."""
    layers = setup.model.layers
    return layers + 1 if layers is not None and breakable(setup) else None


FAST_PATH = FastPath(
    title="graph replay",
    question="Does a step replay a captured graph, or launch its kernels one by one?",
    configured="--compilation-config cudagraph_mode; --enforce-eager turns it off",
    default="on: FULL for uniform decode batches, PIECEWISE for the others (FULL_AND_PIECEWISE)",
    needs=(
        Need("FULL: every attention backend of the model can be captured for this kind of batch", _captured, When.CALL),
        Need("padded rows of the step are among the captured sizes; a larger batch runs eager", _fits, When.CALL),
    ),
    variants=(
        Variant(
            name="FULL",
            role=Role.FAST,
            anchors=("FULL",),
            calls_per_step="1",
            expected=lambda _setup, _point: 1,
            source="one graph launch in the step, with kernel records or a census that explains it",
        ),
        Variant(
            name="PIECEWISE",
            role=Role.FAST,
            anchors=("PIECEWISE",),
            calls_per_step="layers + 1 (attention splits the graph)",
            expected=_piecewise_calls,
            source="more than one graph launch in the step",
            note="attention runs outside of the graphs and is launched by the host",
        ),
        Variant(
            name="eager",
            role=Role.FALLBACK,
            anchors=("NONE",),
            calls_per_step="0",
            source="no graph launch in the step",
        ),
    ),
    counted_by=Anchor.GRAPH_LAUNCH,
    # Prefill is often larger than the largest captured size and eager by design: decode decides.
    decided_by=(Phase.DECODE,),
    asked=asked,
    instead="eager: each kernel launched by the host",
    gates=("eval_file",),
    effects=(
        Effect(
            "never measured by itself on MI355X; recipes changed it together with other settings", "InferenceX 1754"
        ),
    ),
    logs=(
        "Cudagraph mode %s requires piecewise capture, but ... Overriding to %s.",
        "Auto-enabling VLLM_USE_BREAKABLE_CUDAGRAPH=1. Set VLLM_USE_BREAKABLE_CUDAGRAPH=0 to opt out.",
    ),
    functions=("ModelCudaGraphManager.run_fullgraph (V2)", "CUDAGraphWrapper.__call__ (V1)"),
    sources=("vLLM PR 54782, 55095", "config/vllm.py:113 at 0.33, :1079-1097 at 0.24"),
)
