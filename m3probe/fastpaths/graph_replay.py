"""Whether steps replay captured graphs instead of launching kernel by kernel.

Sources: method R1 (the first MI355X recipe ran eager), facts on vLLM 0.33 ``cudagraph_mode``.
"""

from m3probe.schema.paths import Anchor, FastPath, Need, Role, Variant
from m3probe.schema.verdicts import Phase

FAST_PATH = FastPath(
    title="graph replay",
    question="Does a step replay a captured graph, or launch its kernels one by one?",
    configured="--compilation-config cudagraph_mode; --enforce-eager turns it off",
    default="on: FULL for uniform decode batches, PIECEWISE for the others (FULL_AND_PIECEWISE)",
    needs=(
        Need("padded rows of the step are among the captured sizes; a larger batch runs eager"),
        Need("FULL: every attention backend of the model can be captured for this kind of batch"),
    ),
    variants=(
        Variant(
            name="FULL",
            role=Role.FAST,
            anchors=("FULL",),
            calls_per_step="1",
            source="one graph launch in the step, with kernel records or a census that explains it",
        ),
        Variant(
            name="PIECEWISE",
            role=Role.FAST,
            anchors=("PIECEWISE",),
            calls_per_step="layers + 1 (attention splits the graph)",
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
)
