"""Whether steps replay captured graphs instead of launching kernel by kernel.

Sources: method R1 (the first MI355X recipe ran eager); graph modes at 0.24 to 0.33 (``_capture.py`` beside this file);
vLLM PR 54782 (PIECEWISE without anything to capture is refused). Model Runner V2 replays FULL graphs outside of any
forward context: a hook there sees no step.
"""

from m3probe.fastpaths._capture import (
    EAGER,
    FULL,
    PIECEWISE,
    is_uniform,
    modes,
    refused_mode,
    replay,
    turned_off,
)
from m3probe.fastpaths._capture_sizes import MOST, SIZES, general, listed, said, whole
from m3probe.fastpaths._m3 import no, number, v2_runner, yes
from m3probe.schema.paths import Anchor, Asked, Effect, FastPath, Need, Role, Variant, When
from m3probe.schema.setup import Held, Met, Point, Setup, met
from m3probe.schema.verdicts import Phase


def asked(setup: Setup) -> Asked:
    """On by default; --enforce-eager and cudagraph_mode NONE turn it off."""
    off = turned_off(setup)
    return Asked(Held.NO, off) if off else Asked(Held.YES, modes(setup).text)


def _captured(setup: Setup, point: Point) -> Met:
    """Uniform decode replays FULL; a prefill or mixed batch needs PIECEWISE, and that breakable graphs."""
    found, even = modes(setup), is_uniform(setup, point)
    mode = found.decode if even else found.other
    kind = point.phase if even or point.phase is not Phase.DECODE else f"{point.phase}, requests of unequal length"
    return met(None if mode is None else mode != EAGER, f"{kind}: {mode or 'not known'} ({found.text})")


def _fits(setup: Setup, point: Point) -> Met:
    """Captured sizes count tokens: with drafts a request is 1 + K rows, and a size is whole requests."""
    seen, each = replay(setup, point), 1 + setup.spec_tokens
    limit = seen.sizes.largest
    rows = f"{point.rows:,} rows"
    if each > 1 and point.requests and point.rows == point.requests * each:
        rows += f" ({point.requests} requests x {each})"
    text = f"{rows} {'<=' if seen.fits else '>'} {limit:,}, the largest captured size ({seen.sizes.why})"
    # where the build's treatment of drafts is not known, the last requests below the limit may run eager
    sure = seen.sizes.exact or point.rows > limit or point.rows <= limit - each
    return met(seen.fits if sure else None, text)


def _consistent(setup: Setup, _point: Point) -> Met:
    """``_set_cudagraph_sizes`` raises where the user's largest size and the user's maximum differ, or there is none.

    ``adjust_cudagraph_sizes_for_spec_decode`` (V1) raises where no size holds a whole drafting request.
    """
    wrong = refused_mode(setup)
    if wrong:
        return no(f"{wrong}: the engine does not start")
    if turned_off(setup):
        return yes("no graphs, so no sizes")
    own, most, top = listed(setup), number(said(setup, MOST)), general(setup).largest
    if own == () or most == 0:
        return no(f"{SIZES if own == () else MOST} holds no size: the engine does not start (AssertionError)")
    if own and most is not None and most != top:
        return no(f"{MOST} {most} != {top}, the largest of {SIZES}: the engine does not start (ValueError)")
    if not whole(setup).tokens and v2_runner(setup) is False and modes(setup).decode == FULL:
        each = 1 + setup.spec_tokens
        return no(f"no captured size up to {top} holds a request of {each} rows: V1 does not start (ValueError)")
    return yes("sizes and their maximum agree")


def _full(setup: Setup, point: Point) -> int | None:
    return 1 if replay(setup, point).mode == FULL else None


def _pieces(setup: Setup, point: Point) -> int | None:
    """Breakable graphs break once in each sparse layer's attention and once in each dense layer's."""
    layers = setup.model.layers
    runs = layers is not None and setup.pp == 1 and replay(setup, point).mode == PIECEWISE
    return layers + 1 if layers is not None and runs else None


FAST_PATH = FastPath(
    title="graph replay",
    question="Does a step replay a captured graph, or launch its kernels one by one?",
    configured="--compilation-config cudagraph_mode; --enforce-eager turns it off",
    default="on: FULL for uniform decode batches, PIECEWISE for the others (FULL_AND_PIECEWISE)",
    launches=True,
    needs=(
        Need("FULL: every attention backend of the model can be captured for this kind of batch", _captured, When.CALL),
        Need("a known mode; captured sizes that agree with their maximum", _consistent, When.START),
        Need("padded rows of the step are among the captured sizes; a larger batch runs eager", _fits, When.CALL),
    ),
    variants=(
        Variant(
            name="FULL",
            role=Role.FAST,
            anchors=("FULL",),
            calls_per_step="1",
            expected=_full,
            source="one graph launch in the step, with kernel records or a census that explains it",
        ),
        Variant(
            name="PIECEWISE",
            role=Role.FAST,
            anchors=("PIECEWISE",),
            calls_per_step="layers + 1 (attention splits the graph)",
            expected=_pieces,
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
