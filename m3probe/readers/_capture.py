"""The graph census: kernels of captured graphs, from the trace of their capture.

On ROCm a launch between hipStreamBeginCapture and hipStreamEndCapture carries ``args.kernel``, grid
and block (seen on MI300X, roctracer: 421 and 361 launches, all with an op and Input Dims), so content
times counted replays proves execution without one kernel record. CUDA's launches name no kernel.
"""

from __future__ import annotations

import numpy as np

from m3probe.model.recording import RecordingBuilder
from m3probe.model.tables import NONE, Array
from m3probe.readers import _link, _steps
from m3probe.readers._families import families
from m3probe.readers._gather import Gather
from m3probe.readers._grid import WORK_ITEM_CALLS, in_workgroups
from m3probe.schema.verdicts import GRAPH_MODES


def add_census(gather: Gather, builder: RecordingBuilder, file: int) -> None:
    """Add the graphs that one capture trace shows, in launch order."""
    texts = builder.strings.texts
    calls = [texts[i] if i >= 0 else "" for i in gather.column("launches", "name").tolist()]
    start = gather.time("launches", "start_ns")
    begin = np.sort(start[[n.endswith("StreamBeginCapture") for n in calls]]) if calls else start
    end = np.sort(start[[n.endswith("StreamEndCapture") for n in calls]]) if calls else start
    kernel = gather.column("launches", "kernel")
    launches = np.flatnonzero((kernel != NONE) & np.array(["Launch" in n for n in calls], dtype=bool))
    launches = launches[np.argsort(start[launches], kind="stable")]
    window = np.searchsorted(begin, start[launches], side="right") - 1
    inside = (window >= 0) & (np.searchsorted(end, start[launches], side="right") == window)
    launches, window = launches[inside], window[inside]
    if not len(launches):
        return
    mode, rows = _labels(gather, builder, begin[window])
    _add(gather, builder, file, launches, window, mode, rows)
    builder.graphs_seen += len(begin)


def _labels(gather: Gather, builder: RecordingBuilder, at: Array) -> tuple[Array, Array]:
    """Mode and padded rows of each launch's capture, from the ``capture_32_FULL`` annotation around it."""
    texts = builder.strings.texts
    names = gather.column("annotations", "name").tolist()
    start = gather.time("annotations", "start_ns")
    end = start + gather.time("annotations", "dur_ns")
    mode = np.full(len(at), NONE, dtype=np.int8)
    rows = np.full(len(at), NONE, dtype=np.int64)
    words = [str(m) for m in GRAPH_MODES]
    for row, name in enumerate(names):
        said = _steps.CAPTURE.fullmatch(texts[name]) if name >= 0 else None
        if said and said["mode"] in words:
            here = (at >= start[row]) & (at <= end[row])
            mode[here] = words.index(said["mode"])
            rows[here] = int(said["rows"])
    return mode, rows


def _add(
    gather: Gather, builder: RecordingBuilder, file: int, launches: Array, window: Array, mode: Array, rows: Array
) -> None:
    column = gather.column
    op = _link.innermost_op(
        _link.threads(column("launches", "pid"), column("launches", "tid"))[launches],
        gather.time("launches", "start_ns")[launches],
        _link.threads(column("ops", "pid"), column("ops", "tid")),
        gather.time("ops", "start_ns"),
        gather.time("ops", "dur_ns"),
    )
    names = column("launches", "kernel")[launches]
    of_op = {key: _of(column("ops", key), op) for key in ("name", "dims", "types", "strides")}
    first = np.searchsorted(window, window, side="left")
    builder.add(
        "graphs",
        {
            "file": np.full(len(launches), file),
            "graph": window + builder.graphs_seen,
            "position": np.arange(len(launches)) - first,
            "mode": mode,
            "padded_rows": rows,
            "name": names,
            "family": families(names, of_op["name"], builder),
            "op": of_op["name"],
            "dims": of_op["dims"],
            "types": of_op["types"],
            "strides": of_op["strides"],
            "grid": _grid(gather, builder)[launches],
        },
    )


def _grid(gather: Gather, builder: RecordingBuilder) -> Array:
    calls = [builder.strings[i] if i >= 0 else "" for i in gather.column("launches", "name").tolist()]
    work_items = np.array([name in WORK_ITEM_CALLS for name in calls], dtype=bool)
    return in_workgroups(gather.column("launches", "grid"), gather.column("launches", "block"), work_items, builder)


def _of(values: Array, rows: Array) -> Array:
    return np.where(rows >= 0, values[np.maximum(rows, 0)], NONE) if len(values) else np.full(len(rows), NONE)
