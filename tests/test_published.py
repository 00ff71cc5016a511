"""Every published figure that has a before, an after and a ratio: read as a benchmark writes it, compared, to the digit."""

from __future__ import annotations

from pathlib import Path

import pytest
from published_kit import BENCH, Published, compared, row, rows, runs
from sweep_kit import pair

from m3probe.analyzers._compare.metrics import metrics
from m3probe.analyzers._compare.share import rate_gain, share_interval
from m3probe.model.compare_bench import Law, MetricVerdict

GAINS = {
    "out_tput_gain", "out_tput_gain_lo", "out_tput_gain_hi", "gain_lo", "gain_hi", "tput_gain", "tpot_ratio",
}  # fmt: skip
"""Published as a bare ratio: before is 1 by definition."""
KERNELS = {"us", "us_lo"}
"""Times of kernels: compared from traces (test_compare_crossing.py)."""
BLANK = {
    "d10": "no before", "d11": "no before", "d12": "no before", "d13": "no before", "d14": "no before",
    "d15": "no before", "d16": "no before", "d31": "a gain of a kernel alone: with d32 it gives a share",
    "d32": "a gain alone", "d33": "a change alone", "d34": "a change alone", "d53": "no before", "d54": "no before",
    "d55": "no before", "d56": "no before", "d57": "no before", "d59": "no before", "d60": "no before",
    "d63": "no after", "d64": "no after", "d70": "no after (the fused value was published without its digits)",
    "d71": "no after", "d72": "no after",
}  # fmt: skip
"""Rows without a ratio to reproduce, and why."""


def whole(one: Published) -> bool:
    return bool(one.before and one.after and one.ratio)


def printed(value: float, like: str) -> str:
    """``value`` with as many digits after the point as ``like`` has."""
    return f"{value:.{len(like.partition('.')[2])}f}"


def test_every_row_is_reproduced_or_said_to_be_none() -> None:
    assert len(rows()) == 73
    assert {one.id for one in rows() if not whole(one)} == set(BLANK)
    left = {one.metric for one in rows() if whole(one)} - set(BENCH)
    assert left == GAINS | KERNELS


@pytest.mark.parametrize("one", [r for r in rows() if whole(r) and r.metric in BENCH], ids=lambda r: r.id)
def test_ratios_of_benchmarks(one: Published, tmp_path: Path) -> None:
    told = BENCH[one.metric]
    found = pair(compared(tmp_path, one.id), told.metric, told.of)
    assert found.a.value == pytest.approx(float(one.before) * told.factor)
    assert found.b.value == pytest.approx(float(one.after) * told.factor)
    assert printed(found.ratio, one.ratio) == one.ratio
    # single figures without requests: nothing says how far equal runs lie apart
    assert found.ratio_error is None
    same = {"d36", "d45"}  # 707.7 of 708.0 and 4,063 of 4,060: within 0.1 %
    assert found.verdict is (MetricVerdict.SAME if one.id in same else MetricVerdict.UNPROVEN)
    faster = (float(one.after) > float(one.before)) == (told.metric not in ("ttft", "tpot"))
    assert found.direction is (
        MetricVerdict.SAME if one.id in same else MetricVerdict.BETTER if faster else MetricVerdict.WORSE
    )


def _bare(metric: str, value: float) -> dict[str, float]:
    """100 tokens a second are the rate of 1, ten for each request; or 100 ms the time of 1."""
    if metric == "tpot_ratio":
        return {"completed": 1000, "request_throughput": 1.0, "mean_tpot_ms": 100 * value}
    return {"completed": round(10_000 * value), "request_throughput": 10 * value, "output_throughput": 100 * value}


@pytest.mark.parametrize("one", [r for r in rows() if whole(r) and r.metric in GAINS], ids=lambda r: r.id)
def test_bare_ratios(one: Published, tmp_path: Path) -> None:
    base = {"endpoint_type": "vllm", "backend": "vllm", "model_id": "m3", "failed": 0, "duration": 1000.0}
    a, b = (
        runs(tmp_path / f"{side}.json", base | _bare(one.metric, float(text)))
        for side, text in (("a", one.before), ("b", one.after))
    )
    found = pair(metrics(a, b), *(("tpot", "mean") if one.metric == "tpot_ratio" else ("output", "")))
    assert printed(found.ratio, one.ratio) == one.ratio
    # TPOT x 0.79 is 1 / 0.79 = +26.6 % of a rate, which the same source prints as +26 % (d42)
    by_hand = 1 / float(one.ratio) - 1 if one.metric == "tpot_ratio" else float(one.ratio) - 1
    assert found.gain == pytest.approx(by_hand, abs=1e-9)


def test_a_kernel_of_half_its_time_and_three_per_cent_had_a_tenth_at_most() -> None:
    kernel, whole_ = float(row("d31").after) / 100, float(row("d32").after) / 100
    found = share_interval(kernel, whole_)
    assert printed(100 * found.low, "6.5") == "6.5"
    assert printed(100 * found.high, "9.7") == "9.7"
    # AMD-AGI's other measurements of the indexer lie above it: other GPU (d72), 315K tokens of context (d64)
    for id_ in ("d72", "d64"):
        assert share_interval(kernel, whole_, measured=float(row(id_).before)).verdict == "above"


def test_changes_of_time_as_gains_of_rate() -> None:
    # -10 % TPOT at concurrency 1 and -4 % at the high end: +11.1 % and +4.2 % tokens a second
    assert rate_gain(float(row("d33").after) / 100) == pytest.approx(1 / 0.9 - 1)
    assert rate_gain(float(row("d34").after) / 100) == pytest.approx(1 / 0.96 - 1)


def test_a_fused_shared_expert_saves_a_constant_time_in_every_step(tmp_path: Path) -> None:
    found = compared(tmp_path, *(f"d{n}" for n in range(25, 31)), moe_layers=57)
    assert found.left_out == ()  # throughput, TPOT and concurrency of each run agree by Little's law
    (law,) = found.scaling
    assert [printed(p.saved_ms, "0.00") for p in law.points] == ["3.10", "4.55", "3.83"]
    assert [round(p.saved_us_per_layer or 0) for p in law.points] == [54, 80, 67]
    assert [printed(p.rate_gain, "0.000") for p in law.points] == ["0.226", "0.206", "0.117"]
    assert law.law is Law.AMORTISATION
    # by hand: mean (3.10 + 4.55 + 3.83) / 3; k = (1 x 3.10 + 16 x 4.55 + 64 x 3.83) / (1 + 256 + 4,096)
    assert law.fixed_ms == pytest.approx(11.48 / 3)
    assert law.per_row_us == pytest.approx(1e3 * (3.10 + 72.8 + 245.12) / 4353)
    assert law.fixed_residual_ms == pytest.approx(0.592, abs=5e-4)
    assert law.per_row_residual_ms == pytest.approx(2.665, abs=5e-4)  # of 3.026, 3.370 and -0.890
    assert "3.10 / 4.55 / 3.83 ms (54 / 80 / 67 us in each expert layer) at concurrency 1 / 16 / 64" in law.claim
    assert "nearly constant while the gain goes +22.6% -> +11.7%" in law.claim
    assert "Trace a few decode steps" in law.decide


def test_a_quantised_all_reduce_gains_before_the_first_token(tmp_path: Path) -> None:
    found = compared(tmp_path, *(f"d{n}" for n in range(45, 53)))
    assert found.place is not None
    assert found.place.phase == "prefill"
    # 234/258, 741/814, 1240/1343, 290/305; 4063/4060 at concurrency 4
    assert "TTFT changes by -9.3% to -4.9% at concurrency 4 to 128" in found.place.claim
    assert "tokens/s at concurrency 4 go x1.0007, no effect" in found.place.claim
    assert "nothing shows a gain of decode steps" in found.place.claim
    assert "the noise is not known" in found.place.claim


def test_a_flat_override_shows_no_effect_and_a_nested_one_does(tmp_path: Path) -> None:
    flat = pair(compared(tmp_path, "d36"), "output_per_gpu")
    assert flat.verdict is MetricVerdict.SAME
    assert abs(flat.ratio - 1) < 0.001
    nested = pair(compared(tmp_path, "d35"), "output_per_gpu")
    assert nested.gain == pytest.approx(781.2 / 708.0 - 1)
