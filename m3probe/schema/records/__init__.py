"""What a guest writes: one record a frame, told apart by the tag ``k``.

Unknown is None, or -1 where a field says so, and never 0. Times are ``time.monotonic_ns()``: on Linux one clock for all
processes of a host; ``Clock`` ties it to the wall. Names of dtypes are torch's without ``torch.``. A reader skips and
counts tags that it does not know; new fields get defaults, so that old readings stay possible.
"""

from __future__ import annotations

from m3probe.schema.records._base import FORMAT, Record
from m3probe.schema.records._calls import Collective, Dispatch, KvTransfer, Routing
from m3probe.schema.records._model import Descriptor, KvLayer, KvPool, Module
from m3probe.schema.records._process import Clock, Config, End, Note, Process, Seam
from m3probe.schema.records._proof import Census, CensusKernel, Gate, Kernels, Verified
from m3probe.schema.records._queues import Host, PrefixCache, Request, Sample
from m3probe.schema.records._steps import StepCount, StepCounts, StepRow

AnyRecord = (
    Process | Clock | Config | Module | KvLayer | KvPool | Descriptor | StepRow | StepCounts | Dispatch | Collective
    | KvTransfer | Routing | Gate | Sample | Request | PrefixCache | Host | Kernels | Census | Verified | Seam | Note | End
)  # fmt: skip

__all__ = [
    "FORMAT",
    "AnyRecord",
    "Census",
    "CensusKernel",
    "Clock",
    "Collective",
    "Config",
    "Descriptor",
    "Dispatch",
    "End",
    "Gate",
    "Host",
    "Kernels",
    "KvLayer",
    "KvPool",
    "KvTransfer",
    "Module",
    "Note",
    "PrefixCache",
    "Process",
    "Record",
    "Request",
    "Routing",
    "Sample",
    "Seam",
    "StepCount",
    "StepCounts",
    "StepRow",
    "Verified",
]
