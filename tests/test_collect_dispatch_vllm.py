"""Refusals on vLLM's own predicates (0.32.0): what is told of a real object is what its real predicate decided."""

import subprocess
from pathlib import Path

from live_kit import mounted, vllm_python

ASK = """
import torch
from vllm.distributed.device_communicators.custom_all_reduce import CustomAllreduce
from vllm.distributed.device_communicators.quick_all_reduce import QuickAllReduce, QuickReduceRegime
from m3probe.collectors._dispatch_calls import Calls
from m3probe.collectors._dispatch_table import BRANCHES
from m3probe.collectors._patch import Patches, around
from m3probe.collectors._seams import find

calls, patches = Calls(), Patches()
for seam in ("ask_quick", "ask_custom_ar"):
    found = find(seam)
    assert found.state == "present", found.text
    before, after = calls.hooks(seam, BRANCHES[seam])
    assert patches.put(seam, found.owner, found.name, around(patches, seam, before=before, after=after, traced=True))

def told():
    (record,) = calls.drain()
    assert not patches.said, patches.said
    return record

def rows(size, dtype):
    return torch.empty(size // dtype.itemsize, dtype=dtype, device="meta")

MIB = 1024 * 1024
# TP, codec, dtype, cast of BF16 to float16 -> the smallest payload in MiB, from vLLM's table by hand
TABLE = [
    (4, "INT4", torch.bfloat16, False, 16), (4, "INT4", torch.bfloat16, True, 2), (8, "INT4", torch.bfloat16, True, 2),
    (8, "FP", torch.bfloat16, False, 16), (2, "INT8", torch.bfloat16, False, 8), (2, "INT4", torch.float16, False, 1),
    (4, "INT6", torch.float16, True, 4), (2, "INT3", torch.bfloat16, True, 1),
]
for ranks, codec, dtype, cast, least in TABLE:
    comm = object.__new__(QuickAllReduce)
    comm.disabled, comm.world_size, comm.use_fp16_kernels = False, ranks, cast
    comm.qr_min_size, comm.qr_max_size, comm.qr_quant_level = None, 64 * MIB, QuickReduceRegime[codec]
    named = "float16" if cast else str(dtype).removeprefix("torch.")
    assert comm.should_quick_allreduce(rows(least * MIB, dtype)) is True
    assert told().eligible is True
    assert comm.should_quick_allreduce(rows(least * MIB - 16, dtype)) is False
    record = told()
    assert record.eligible is False and record.size == least * MIB - 16
    expected = f"{least * MIB - 16:,} < {least * MIB:,} B, the smallest for {codec} (TP{ranks}, {named})"
    assert record.reason == expected, (record.reason, expected)
    comm.should_quick_allreduce(rows(64 * MIB + 16, dtype))
    assert told().reason == f"{64 * MIB + 16:,} > {64 * MIB:,} B, QuickReduce's largest"
comm.should_quick_allreduce(rows(64, torch.float32))
assert told().reason == "float32 is not served"
comm.should_quick_allreduce(rows(8, torch.bfloat16))
assert told().reason == "8 B is no multiple of 16"
comm.qr_min_size = 0
comm.should_quick_allreduce(torch.empty(4, 16, dtype=torch.bfloat16)[:, ::2])
assert told().reason == "not one contiguous block"
comm.disabled = True
comm.should_quick_allreduce(rows(128, torch.bfloat16))
assert told().reason == "disabled when it was built"

comm = object.__new__(CustomAllreduce)
comm.disabled, comm.world_size, comm.fully_connected, comm.max_size, comm.batch_invariant = False, 8, True, 8 * MIB, False
for size, reason in ((8 * MIB - 16, ""), (8 * MIB, "8,388,608 >= 8,388,608 B, its limit"), (24, "24 B is no multiple of 16")):
    assert comm.should_custom_ar(rows(size, torch.bfloat16)) is (not reason)
    record = told()
    assert (record.eligible, record.reason) == (not reason, reason), record
comm.fully_connected = False
comm.should_custom_ar(rows(48, torch.bfloat16))
assert told().reason == "8 ranks that are not fully connected"
assert patches.undo() == ()
print("same")
"""


def test_a_refusal_s_number_is_the_one_that_vllm_s_predicate_compares_with(tmp_path: Path) -> None:
    """Real QuickAllReduce and CustomAllreduce objects without a GPU behind them, payloads at and below each threshold."""
    env = {
        "PYTHONPATH": str(mounted(tmp_path / "site")),
        "PATH": "/usr/bin:/bin",
        "HOME": str(tmp_path),
        "M3PROBE": "0",
    }
    python = str(vllm_python())
    done = subprocess.run(
        [python, "-c", ASK], check=False, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=300
    )
    assert (done.returncode, done.stdout.strip().splitlines()[-1:]) == (0, ["same"]), done.stderr[-2000:]
