"""What recordings of rocprofv3, RPD and nsys cannot answer, and the option that would have it recorded (docs/record.md).

torch's traces and live recordings say it in the findings of each question.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from m3probe.analyzers._view import ms
from m3probe.model.device_report import UnansweredRow
from m3probe.model.recording import Recording
from m3probe.model.tables import NONE


@dataclass(frozen=True, slots=True)
class Tool:
    """A profiler: its options for ranges (``steps``), for calls of the host (``calls``) and for copies (``copies``)."""

    name: str
    steps: str
    calls: str
    copies: str
    graphs: str


_CENSUS = "M3PROBE_CENSUS=1 on the server, or an image whose libraries keep the kernels of graphs (docs/record.md)"
_ROCPROF = Tool(
    "rocprofv3",
    steps="rocprofv3 --marker-trace",
    calls="rocprofv3 --hip-trace",
    copies="rocprofv3 --memory-copy-trace --output-format rocpd",
    graphs=_CENSUS,
)
TOOLS = {
    "rocprofv3-csv": _ROCPROF,
    "rocprofv3-json": _ROCPROF,
    "rocpd-sqlite": _ROCPROF,
    "rpd-sqlite": Tool("RPD", "runTracer.sh (it records ROCTX)", "runTracer.sh", "runTracer.sh", _CENSUS),
    "nsys-sqlite": Tool(
        "nsys",
        steps="nsys profile --trace=cuda,nvtx",
        calls="nsys profile --trace=cuda,nvtx",
        copies="nsys profile --trace=cuda,nvtx",
        graphs="nsys profile --cuda-graph-trace=node",
    ),
}
"""Kind of file -> the profiler that wrote it."""
_MARK = (
    "vllm serve --profiler-config.profiler cuda: from POST /start_profile to /stop_profile each step is then a range"
)
_SHAPES = (
    "a short window of torch's profiler on the same server: --profiler-config.profiler torch "
    "--profiler-config.torch_profiler_record_shapes true"
)
_PAGES = "the server's pages while it runs, one a second: curl -s localhost:8000/metrics > m_$(date +%s.%3N).prom"
_RECIPE = "nothing more: --recipe FILE gives m3probe the command line or compose file of the server"


def unanswered(rec: Recording) -> tuple[UnansweredRow, ...]:
    """One row for each question that lacks something; () where no file is of such a profiler."""
    tool = next((TOOLS[f.kind] for f in rec.files if f.role == "rank" and f.kind in TOOLS), None)
    if tool is None:
        return ()
    asks = (("shapes", _shapes), ("repeats", _repeats), ("bytes", _bytes), ("paths", _paths), ("queues", _queues))
    return tuple(UnansweredRow(question, *said) for question, ask in asks for said in ask(rec, tool))


_Said = tuple[str, str]


def _shapes(rec: Recording, tool: Tool) -> Iterator[_Said]:
    if not len(rec.graphs) and not len(rec.tables["modules"]) and not (rec.ops["dims"] != NONE).any():
        yield f"{tool.name} records kernels, and no operator with its input shapes", _SHAPES


def _repeats(rec: Recording, tool: Tool) -> Iterator[_Said]:
    if not len(rec.steps):
        yield (
            "no range is named as a step, so that kernels are known by family and by device alone",
            (f"{tool.steps} and {_MARK}"),
        )
    elif not len(rec.launches):
        yield "ranges name steps, and without calls of the host no kernel belongs to one", tool.calls


def _bytes(rec: Recording, tool: Tool) -> Iterator[_Said]:
    copies, sized = len(rec.transfers), int((rec.transfers["payload_bytes"] >= 0).sum())
    if not (rec.ops["dims"] != NONE).any():
        told = f"{sized:,} of {copies:,} copies have a size" if copies else "no copy was recorded"
        more = "" if sized else f"; copies with sizes: {tool.copies}"
        yield f"no argument of a kernel or collective is recorded, and {told}", f"{_SHAPES}{more}"


def _paths(rec: Recording, tool: Tool) -> Iterator[_Said]:
    unseen = int(rec.unseen_replays.sum())
    if unseen:
        yield (
            f"{unseen:,} graph launches show no kernel{_as_wholes(rec)}, so that no path in them is proven",
            tool.graphs,
        )
    elif len(rec.kernels) and not len(rec.launches):
        yield "kernels prove what ran; without calls of the host no graph launch could be seen", tool.calls
    if rec.meta.setup is None:
        yield "no trace tells what was configured and eligible", _RECIPE


def _as_wholes(rec: Recording) -> str:
    """Time of graphs that nsys recorded as one row each: the sum is known, and no kernel of it."""
    graphs = rec.tables["whole_graphs"]
    known = graphs["dur_ns"][graphs["timed"]]
    return f" (as wholes they took {ms(int(known.sum()))} in sum)" if len(known) else ""


def _queues(rec: Recording, tool: Tool) -> Iterator[_Said]:
    told = rec.meta.bench or rec.meta.logs or len(rec.tables["samples"]) or len(rec.tables["scrapes"])
    if not told:
        yield f"{tool.name} sees no request", _PAGES
