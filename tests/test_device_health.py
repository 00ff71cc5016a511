"""One slow GPU, named beside the collective wait that it explains; and what is missing where it cannot be."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from builders import kernel, launch, step, write_trace

from m3probe import pipeline
from m3probe.model.findings import Finding


def smi(folder: Path, *changed: dict[str, Any], gpus: int = 4) -> Path:
    """Equal GPUs at work; each change is of one of them."""
    rows = []
    for gpu in range(gpus):
        said: dict[str, Any] = {
            "busy": 99,
            "clock": 2400,
            "power": 1000,
            "status": "NOT ACTIVE",
            "ecc": 0,
            "mode": "SPX",
        }
        for change in changed:
            said |= change if change["gpu"] == gpu else {}
        rows.append(
            {
                "gpu": gpu,
                "usage": {"gfx_activity": {"value": said["busy"], "unit": "%"}},
                "power": {"socket_power": {"value": said["power"], "unit": "W"}},
                "clock": {"gfx_0": {"clk": {"value": said["clock"], "unit": "MHz"}}},
                "throttle": {"ppt_violation_status": said["status"]},
                "ecc": {"total_uncorrectable_count": said["ecc"]},
                "partition": {"accelerator_partition": said["mode"]},
            }
        )
    path = folder / "smi.json"
    path.write_text(json.dumps({"gpu_data": rows}))
    return path


def traces(folder: Path, collective_us: list[float]) -> list[Path]:
    """A rank each, on the device of its number, with one collective of this length."""
    found = []
    for rank, length in enumerate(collective_us):
        events = [step(0.0, 900.0, "execute_context_0(0)_generation_8(8)"), launch(1.0, 1)]
        events.append(
            kernel(
                5.0,
                length,
                1,
                "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)",
                device=rank,
            )
        )
        info = {"rank": rank, "world_size": len(collective_us)}
        found.append(write_trace(folder / f"rank{rank}.json", events, distributedInfo=info))
    return found


def health(*paths: Path) -> dict[str, Finding]:
    answer = pipeline.report(pipeline.read(paths)).answer
    assert not [one.id for one in answer.findings if one.id.endswith(".failed")]
    return {one.id: one for one in answer.findings if one.question == "device_health"}


def test_equal_gpus_have_no_finding(tmp_path: Path) -> None:
    assert health(smi(tmp_path)) == {}


def test_a_slow_gpu_is_named_with_its_reason_and_what_is_missing(tmp_path: Path) -> None:
    """1800 of 2400 MHz is 25 % lower; no trace was given."""
    found = health(smi(tmp_path, {"gpu": 2, "clock": 1800, "status": "ACTIVE"}))
    assert sorted(found) == ["device_health.slow_clock.2", "device_health.throttled.2"]
    claim = found["device_health.slow_clock.2"].claim
    assert claim.startswith("GPU 2 runs at 1,800 MHz while the others run at 2,400 (25% lower")
    assert "held back by ppt" in claim
    assert "traces of the ranks are missing" in claim


def test_the_wait_of_the_other_ranks_is_told_beside_it(tmp_path: Path) -> None:
    """The late rank is 10 us in the collective, the three others wait there: 40 us each."""
    paths = traces(tmp_path, [40.0, 40.0, 10.0, 40.0])
    claim = health(smi(tmp_path, {"gpu": 2, "clock": 1800}), *paths)["device_health.slow_clock.2"].claim
    assert claim.startswith("GPU 2 (rank 2, if no *_VISIBLE_DEVICES renumbers them) runs at 1,800 MHz")
    assert "the other ranks spend 40.0 us in one on average, rank 2 10.0 us" in claim


def test_no_wait_is_claimed_where_the_collectives_show_none(tmp_path: Path) -> None:
    paths = traces(tmp_path, [40.0, 40.0, 40.0, 40.0])
    claim = health(smi(tmp_path, {"gpu": 2, "clock": 1800}), *paths)["device_health.slow_clock.2"].claim
    assert claim.endswith("the collectives show no wait for it")


def test_an_idle_gpu_with_a_low_clock_is_no_fault(tmp_path: Path) -> None:
    assert health(smi(tmp_path, {"gpu": 2, "clock": 132, "busy": 0})) == {}


def test_errors_and_another_partition_mode(tmp_path: Path) -> None:
    found = health(smi(tmp_path, {"gpu": 1, "ecc": 3}, {"gpu": 3, "mode": "DPX"}))
    assert sorted(found) == ["device_health.ecc_uncorrected.1", "device_health.partition.3"]
    assert "3 uncorrected memory error(s)" in found["device_health.ecc_uncorrected.1"].claim
    assert "SPX: GPU 0, 1, 2; DPX: GPU 3" in found["device_health.partition.3"].claim
