"""A folder of a rank's trace and the traces of its graph captures, which make the census."""

from __future__ import annotations

import json
from typing import Any

from fuzz import damage, kineto
from fuzz.harness import Format, Sample, examine
from hypothesis import strategies as some
from hypothesis.strategies import DrawFn


@some.composite
def folder(draw: DrawFn) -> Sample:
    """Whole, or one of its two files damaged."""
    served: Any = kineto.document(draw(kineto.events().filter(bool)), "object")
    caught: Any = draw(kineto.events().filter(bool))
    for number, event in enumerate(event for event in caught if event["cat"] == "user_annotation"):
        event["name"] = f"capture_{2**number}_FULL"
    said = {key: value for key, value in kineto.facts(served["traceEvents"]).items() if key in ("kernels", "memcpys")}
    also = kineto.document(caught, "object")
    what = draw(some.integers(0, 3))
    if what == 1:
        also = draw(damage.spoilt_tree(also))
    elif what == 2:
        served = draw(damage.spoilt_tree(served))
    capture = draw(damage.as_json(also))
    if what == 3:
        capture = draw(damage.spoilt_bytes(capture))
    files = {
        "rank_0.pt.trace.json": json.dumps(served).encode(),
        "capture_traces/graph_capture_rank_0.json": capture,
    }
    return Sample(files, {} if what else said, folder=True)


FORMAT = Format("capture_trace", folder(), examine)
