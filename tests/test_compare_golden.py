"""Published comparisons, rebuilt from their figures: what may be said of each, and what may not."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest
from runs_kit import bench, credit, rate, run, serve, topic, two
from tree import shared_or_skip

from m3probe.comparing import AskedRun, compare

KEYS = {"use_index_cache": True, "index_topk_freq": 4}
FLAT = f"--hf-overrides '{json.dumps(KEYS)}'"
NESTED = f"--hf-overrides '{json.dumps({'text_config': KEYS})}'"
AITER = "VLLM_ROCM_USE_AITER=1"
INT4 = (
    f"{AITER} VLLM_ROCM_QUICK_REDUCE_QUANTIZATION=INT4 VLLM_ROCM_QUICK_REDUCE_CAST_BF16_TO_FP16=0 "
    "VLLM_ROCM_QUICK_REDUCE_QUANTIZATION_MIN_SIZE_KB=256"
)
QR_BEFORE = ((4, 4060, 258), (8, 6765, 305), (64, 22044, 814), (128, 27778, 1343))
QR_AFTER = ((4, 4063, 234), (8, 6797, 290), (64, 22865, 741), (128, 29165, 1240))


def test_a_flat_override_that_changes_nothing_is_suspected_not_to_run(tmp_path: Path) -> None:
    """vllm-project/recipes PR 621: 708.0 and 707.7 tokens/s/GPU, and the flag looked as if it were on."""
    report, pair = two(
        run(tmp_path, "baseline", [rate(708.0)], serve()), run(tmp_path, "flat", [rate(707.7)], serve(FLAT)), "faster"
    )
    assert pair.contract.verdict == "same"
    assert [setting.name for setting in pair.contract.settings or ()] == ["--hf-overrides"]
    found = credit(pair, "suspect not executed")
    assert found.what == ("--hf-overrides",)
    assert "x 1.000" in found.text
    # the recipe knows why: this release reads the keys of text_config alone
    assert "top-level use_index_cache, index_topk_freq is silently ignored" in found.text
    assert report.required[0].outcome == "failed"


def test_the_nested_override_is_faster_and_does_other_work(tmp_path: Path) -> None:
    """781.2 against 708.0 is +10.3 %, of a model whose sparse layers choose in 15 of 57: no speed-up of one work."""
    before = run(tmp_path, "baseline", [rate(708.0, mean_tpot_ms=69.9)], serve())
    after = run(tmp_path, "nested", [rate(781.2, mean_tpot_ms=63.3)], serve(NESTED))
    report, pair = two(before, after, "faster", "same-contract")
    assert pair.metrics is not None
    ratios = {(p.metric, p.of): p.ratio for p in pair.metrics.pairs}
    assert ratios["output_per_gpu", ""] == pytest.approx(1.103, abs=0.0005)
    assert ratios["tpot", "mean"] == pytest.approx(0.906, abs=0.0005)
    assert [t.topic for t in pair.contract.topics if t.state == "differs"] == ["model's work"]
    assert topic(pair, "model's work").after == "index top-k every 4 sparse layers (15 choose)"
    assert pair.contract.kind == "evolution"
    assert "no speed-up is claimed" in pair.answer
    assert credit(pair, "refused").what == ("model's work",)
    assert [r.outcome for r in report.required] == ["inconclusive", "failed"]


def test_quick_reduce_can_have_sped_up_prefill_alone(tmp_path: Path) -> None:
    """InferenceX PR 2333: TTFT falls by 5 to 9 % at every concurrency, tokens/s are flat at 4."""
    sides = [
        [bench(max_concurrency=c, total_token_throughput=total, mean_ttft_ms=ttft) for c, total, ttft in points]
        for points in (QR_BEFORE, QR_AFTER)
    ]
    before = run(tmp_path, "without", sides[0], serve(env=AITER))
    after = run(tmp_path, "int4", sides[1], serve(env=INT4))
    _, pair = two(before, after)
    assert pair.contract.verdict == "same"
    settings = {s.name: s.follows for s in pair.contract.settings or ()}
    assert [name for name, follows in settings.items() if not follows] == ["VLLM_ROCM_QUICK_REDUCE_QUANTIZATION"]
    prefill = credit(pair, "unproven")
    assert (prefill.phase, prefill.what) == ("prefill", ("quick_reduce",))
    assert "quick_reduce is eligible in prefill by it, and nothing shows that it ran" in prefill.text
    assert "trace" in prefill.tell
    decode = credit(pair, "not its")
    assert (decode.phase, decode.what) == ("decode", ("quick_reduce",))
    # 128 rows x 12,288 B, against 16 MiB for BF16 at TP4
    assert "1,572,864 B < 16,777,216 B" in decode.text
    assert not [c for c in pair.credits if c.verdict == "credited"]


def test_another_tp_is_density_and_no_speed_up(tmp_path: Path) -> None:
    """716.8 to 943.5 tokens/s/GPU from TP4 to TP2 is 1.316 of what a GPU yields."""
    report, pair = two(
        run(tmp_path, "tp4", [rate(716.8)], serve()),
        run(tmp_path, "tp2", [rate(943.5, gpus=2)], serve(tp=2)),
        "faster",
        "same-contract",
    )
    assert pair.contract.kind == "density"
    assert {t.topic for t in pair.contract.topics if t.state == "differs"} == {"GPUs", "topology"}
    assert pair.metrics is not None
    per_gpu = next(p for p in pair.metrics.pairs if p.metric == "output_per_gpu")
    assert per_gpu.ratio == pytest.approx(1.316, abs=0.0005)
    assert "density, not speed-up" in pair.answer
    assert credit(pair, "refused").what == ("GPUs", "topology")
    assert [r.outcome for r in report.required] == ["inconclusive", "failed"]


def disaggregated(tmp_path: Path, concurrency: int, gpus: tuple[int, int], per_gpu: float, ttft_s: float, tpot: float) -> AskedRun:  # fmt: skip
    total, n = per_gpu * sum(gpus), 5 * concurrency
    result = bench(
        max_concurrency=concurrency, num_gpus=sum(gpus), num_prefill_gpu=gpus[0], num_decode_gpu=gpus[1],
        num_prompts=n, completed=n, total_input_tokens=n * 7354, total_output_tokens=n * 917,
        total_token_throughput=total, duration=n * (7354 + 917) / total, median_ttft_ms=1e3 * ttft_s, mean_tpot_ms=tpot,
    )  # fmt: skip
    return run(tmp_path, f"c{concurrency}", [result])


def test_the_bottleneck_moves_from_the_prefill_queue_to_the_decode_step(tmp_path: Path) -> None:
    """InferenceX PRs 1762 and 2144: 900 of 1,024 wait for prefill; then 462 of 512 decode. 16 against 12 GPUs."""
    before = disaggregated(tmp_path, 1024, (8, 8), 2084.6, 223.20, 31.26)
    after = disaggregated(tmp_path, 512, (8, 4), 6370.5, 1.32, 54.60)
    report, pair = two(before, after, "faster")
    assert pair.moved.verdict == "moved"
    assert "from queues.prefill.0 (level: queue) to queues.decode.0 (level: repeated path)" in pair.moved.text
    assert [(row.run, row.level) for row in report.trail] == [("c1024", "queue"), ("c512", "repeated path")]
    assert "900" in report.trail[0].claim
    assert "462" in report.trail[1].claim
    assert topic(pair, "GPUs").before == "16"
    assert pair.contract.kind == "density"
    assert pair.credits[0].verdict == "refused"
    assert report.required[0].outcome == "inconclusive"


def test_a_trail_has_a_row_for_each_run_and_each_is_held_against_the_first(tmp_path: Path) -> None:
    runs = [
        run(tmp_path, name, [rate(value)], serve(words))
        for name, value, words in (("baseline", 708.0, ""), ("flat", 707.7, FLAT), ("nested", 781.2, NESTED))
    ]
    report = compare(runs)
    assert [(p.before, p.after) for p in report.pairs] == [("baseline", "flat"), ("baseline", "nested")]
    assert [(row.run, row.figure, row.value) for row in report.trail] == [
        ("baseline", "output tokens/s per GPU at c128", pytest.approx(708.0)),
        ("flat", "output tokens/s per GPU at c128", pytest.approx(707.7)),
        ("nested", "output tokens/s per GPU at c128", pytest.approx(781.2)),
    ]


def recounted(file: Path) -> dict[str, int]:
    """Kernels with a launch, by words of their names, with nothing but json."""
    with gzip.open(file) as stream:
        made = json.load(stream)["traceEvents"]
    calls = {e["args"].get("correlation") for e in made if e.get("cat") == "cuda_runtime" and "args" in e}
    names = [e["name"] for e in made if e.get("cat") == "kernel" and e["args"]["correlation"] in calls]
    words = {"gemm": ("Cijk_", "gemm"), "attention": ("attn_fwd", "flash_fwd")}
    return {family: sum(any(w in name for w in told) for name in names) for family, told in words.items()}


def test_two_gpus_of_one_model_are_other_hardware() -> None:
    traces = shared_or_skip("traces/tracelens")
    files = [traces / gpu / "Qwen_Qwen1.5-0.5B-Chat__1016005.json.gz" for gpu in ("mi300", "h100")]
    report = compare([AskedRun((file,)) for file in files], ("faster", "same-contract"))
    (pair,) = report.pairs
    assert [run.name for run in report.runs] == ["mi300", "h100"]
    assert pair.contract.kind == "other hardware"
    assert "no speed-up is claimed" in pair.answer
    assert topic(pair, "hardware").before == "AMD Instinct MI300X VF"
    assert topic(pair, "hardware").after == "NVIDIA H100 80GB HBM3"
    (change,) = pair.phases
    families = {part.name: part for part in change.families}
    # 169 GEMM and 24 attention kernels in both, as a plain count of the files shows
    assert [(families[f].count_before, families[f].count_after) for f in ("gemm", "attention")] == [
        (169, 169),
        (24, 24),
    ]
    assert families["gemm"].delta_ns is not None
    assert families["gemm"].delta_ns < 0 < (families["elementwise"].delta_ns or 0)
    assert [r.outcome for r in report.required] == ["inconclusive", "failed"]
