"""What public reports say of torch's profiler on ROCm, by the libraries that a process has mapped.

None of it was reproduced here. torch's profiler collects through roctracer, from torch 2.12 on through rocprofiler-sdk
(vLLM PR 53182); a wheel of torch may bring its own copies, which win over ``/opt/rocm`` by RPATH (sglang PR 35390).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

Version = tuple[int, ...]

QUEUE_SWITCH = "ROCPROFILER_QUEUE_INTERPOSITION"


class Effect(StrEnum):
    """What a build does to a profiler window."""

    LOSES = "loses"
    """Kernels are missing from the trace."""
    MISLEADS = "misleads"
    """Kernels are there, their times are not those of serving."""
    HANGS = "hangs"
    """The server may stop answering: a window is refused."""


@dataclass(frozen=True, slots=True)
class Report:
    """One public report.

    Args:
        library: whose copy decides (``libroctracer64``); any library when empty.
        since, below: its version (of rocprofiler-sdk its own, else ROCm's), half open; empty: no bound.
        bundled: it is torch's own copy, whose name tells no version.
        path: a part of the library's path.
        unless: variable of the process that avoids it, with its value.
        text: what happens, with the report's numbers.
        source: the report.
        advice: the next move.
    """

    effect: Effect
    text: str
    source: str
    library: str = ""
    since: Version = ()
    below: Version = ()
    bundled: bool = False
    path: str = ""
    unless: tuple[str, str] | None = None
    advice: str = ""


_PATCHED = "Use an image with ROCm 7.2.4 and see that torch/lib holds no copies of its own"
_SWITCH_OFF = f"Restart the server with {QUEUE_SWITCH}=0 in its environment"

REPORTS = (
    Report(
        Effect.HANGS,
        "0 kernels for 32 graph launches (about 18,400 with patched libraries), and the stall ran into the 600 s watchdog "
        "of RCCL, which ended the server (vllm-openai-rocm v0.19 and v0.21, ROCm 7.2.1 and 7.2.2)",
        "AMD-AGI/Hyperloom issue 747",
        library="libroctracer64",
        since=(7, 2, 1),
        below=(7, 2, 3),
        advice=_PATCHED,
    ),
    Report(
        Effect.LOSES,
        "all kernels inside of graphs: 0 for 32 graph launches, about 18,400 with patched libraries",
        "AMD-AGI/Hyperloom issue 747",
        library="libroctracer64",
        since=(7, 2, 1),
        below=(7, 2, 3),
        advice=_PATCHED,
    ),
    Report(
        Effect.LOSES,
        "some or all kernels inside of graphs: 448 of 512 recorded in a test, 513 of about 3,930 in a server's trace",
        "sglang PR 35390, ROCm/legacy-rocm-build issue 6102 (7.2.1; resolved in 7.2.2)",
        library="libroctracer64",
        since=(7, 2, 0),
        below=(7, 2, 2),
        advice=_PATCHED,
    ),
    Report(
        Effect.LOSES,
        "some kernels inside of graphs: 448 of 512 with the copies of ROCm 7.2.0 that torch's wheel brings, whatever /opt/rocm "
        "holds; the name of this copy does not tell its version",
        "sglang PR 35390",
        library="libroctracer64",
        bundled=True,
        advice=_PATCHED,
    ),
    Report(
        Effect.HANGS,
        "the server hangs when the profiler starts (1.3.2; mended under the same version in later vLLM images, and in 1.3.5)",
        "vLLM issue 54087, PR 54171",
        library="librocprofiler-sdk",
        since=(1, 3, 2),
        below=(1, 3, 5),
        unless=(QUEUE_SWITCH, "0"),
        advice=_SWITCH_OFF,
    ),
    Report(
        Effect.HANGS,
        "queues stall when the profiler starts: 5 of 5 trials on 8 MI355X, a collective ran into its 600 s watchdog",
        "ROCm/rocm-systems issue 11623",
        library="librocprofiler-sdk",
        since=(1, 3, 5),
        unless=(QUEUE_SWITCH, "0"),
        advice=_SWITCH_OFF,
    ),
    Report(
        Effect.MISLEADS,
        "graphs lose their fast path while the profiler runs: times are longer than in serving (1.1.0; mended in 1.3.2)",
        "vLLM PR 53182",
        library="librocprofiler-sdk",
        since=(1,),
        below=(1, 3, 2),
    ),
    Report(
        Effect.LOSES,
        "all kernels: a second rocprofiler tool is in the process, and only the one registered first gets records",
        "AMD-AGI/Hyperloom PR 153",
        library="librocprofiler-sdk-tool",
        advice="Start the server without rocprofv3",
    ),
    Report(
        Effect.LOSES,
        "all kernels of some models: torch is not found by rocprofiler where ROCm comes as Python wheels",
        "vLLM PR 56190",
        library="librocprofiler-sdk",
        path="rocm_sdk",
    ),
)
