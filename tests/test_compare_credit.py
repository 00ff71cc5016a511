"""Who gets the credit: a path that ran in one run alone, in the phase that changed, with nothing else changed."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from builders import kernel, launch, step, write_trace
from runs_kit import VLLM, credit, rate, run, serve, two
from steps import ATTEND, GEMM
from tree import ROOT

from m3probe.comparing import AskedRun
from m3probe.model.compare_report import Pair
from m3probe.recipe.asking import Server
from m3probe.workload import Workload

SAMPLES = ROOT / "samples"
EAGER = "--enforce-eager"


def decode(*, graph: bool, period: float, number: int = 5) -> list[dict[str, Any]]:
    """Steps of 8 rows with a GEMM and an attend of 20 us each; launched one by one, or by one graph launch."""
    made: list[dict[str, Any]] = []
    for i in range(number):
        at, first = period * i, 100 * (i + 1)
        made.append(step(at, period - 10, "execute_context_0(0)_generation_8(8)"))
        calls = [first, first] if graph else [first, first + 1]
        made += [
            launch(at + n, c, "hipGraphLaunch" if graph else "hipLaunchKernel")
            for n, c in enumerate(dict.fromkeys(calls))
        ]
        made += [
            kernel(at + 5 + 20 * n, 20, c, name) for n, (c, name) in enumerate(zip(calls, (GEMM, ATTEND), strict=True))
        ]
    return made


def traced(tmp_path: Path, name: str, made: list[dict[str, Any]], words: str | None, *, vllm: str = VLLM) -> AskedRun:
    folder = tmp_path / name
    folder.mkdir()
    file = write_trace(folder / "trace.pt.trace.json", made)
    if words is None:
        return AskedRun((file,), name)
    script = folder / "serve.sh"
    script.write_text(serve(words))
    return AskedRun((file,), name, Workload(server=Server(file=script, vllm=vllm, gpu="mi355x")))


def graphs(tmp_path: Path, before: str | None, after: str | None, *, vllm: str = VLLM, period: float = 100) -> Pair:
    """Eager decode of 400 us a step against graph replay of ``period``."""
    a = traced(tmp_path, "eager", decode(graph=False, period=400), before)
    b = traced(tmp_path, "graph", decode(graph=True, period=period), after, vllm=vllm)
    return two(a, b)[1]


def test_a_path_that_ran_after_alone_with_one_flag_changed_is_credited(tmp_path: Path) -> None:
    """400 us of which 360 are idle against 100 with 60: all of the change is idle time."""
    found = credit(graphs(tmp_path, EAGER, ""), "credited")
    assert (found.phase, found.what) == ("decode", ("graph_replay", EAGER))
    assert "decode is faster (decode step of up to 8 rows x 0.250)" in found.text
    assert "graph_replay ran after and not before" in found.text
    assert "idle time is 100 % of the change of -0.300 ms a step" in found.text


def test_two_settings_that_change_at_once_share_the_credit(tmp_path: Path) -> None:
    found = credit(graphs(tmp_path, EAGER, "--max-num-seqs 64"), "bundle")
    assert set(found.what) == {EAGER, "--max-num-seqs"}
    assert "2 things changed at once" in found.text


def test_another_release_is_in_the_bundle(tmp_path: Path) -> None:
    pair = graphs(tmp_path, EAGER, "", vllm="0.25.1")
    assert pair.contract.kind == "evolution"
    assert set(credit(pair, "bundle").what) == {"--vllm", EAGER}


def test_what_was_set_is_not_known_so_nothing_is_credited(tmp_path: Path) -> None:
    for name, before in (("one", EAGER), ("none", None)):
        folder = tmp_path / name
        folder.mkdir()
        pair = graphs(folder, before, None)
        found = credit(pair, "unproven")
        assert pair.contract.settings is None
        assert "graph_replay" in found.text
        assert "--recipe" in found.tell


def test_a_path_that_ran_in_both_is_no_reason(tmp_path: Path) -> None:
    a = traced(tmp_path, "a", decode(graph=True, period=400), "")
    b = traced(tmp_path, "b", decode(graph=True, period=100), "--max-num-seqs 64")
    found = credit(two(a, b)[1], "unproven")
    assert found.what == ("--max-num-seqs",)
    assert "no path is seen to run because of it" in found.text


def test_a_path_that_ran_and_moved_nothing_is_told_so(tmp_path: Path) -> None:
    found = credit(graphs(tmp_path, EAGER, "", period=400), "executed without effect")
    assert found.what == ("graph_replay", EAGER)


def test_nothing_changed_and_nothing_moved_has_no_credit(tmp_path: Path) -> None:
    a, b = (traced(tmp_path, name, decode(graph=True, period=400), "") for name in "ab")
    assert two(a, b)[1].credits == ()


def test_a_difference_without_a_cause_may_be_noise(tmp_path: Path) -> None:
    a, b = (traced(tmp_path, n, decode(graph=True, period=p), "") for n, p in (("a", 400), ("b", 300)))
    found = credit(two(a, b)[1], "unproven")
    assert "no setting that is known differs" in found.text


def repeats(value: float, **more: Any) -> list[dict[str, Any]]:
    """Three runs of one point, a thousandth apart."""
    return [rate(value * f, **{k: v * f for k, v in more.items()}) for f in (0.999, 1.0, 1.001)]


def test_a_decode_gain_is_not_that_of_a_path_eligible_in_prefill_alone(tmp_path: Path) -> None:
    """INT4 at TP4 without the cast begins at 1,366 rows; a decode batch of 128 has 1.5 of 16 MiB."""
    env = "VLLM_ROCM_USE_AITER=1"
    qr = f"{env} VLLM_ROCM_QUICK_REDUCE_QUANTIZATION=INT4 VLLM_ROCM_QUICK_REDUCE_CAST_BF16_TO_FP16=0"
    a = run(tmp_path, "without", repeats(700.0, mean_tpot_ms=70.0), serve(env=env))
    b = run(tmp_path, "int4", repeats(800.0, mean_tpot_ms=60.0), serve(env=qr))
    found = credit(two(a, b)[1], "not its")
    assert (found.phase, found.what) == ("decode", ("quick_reduce",))
    assert "it cannot be quick_reduce's" in found.text
    assert "1,572,864 B < 16,777,216 B" in found.text


def test_one_point_without_a_noise_is_no_gain(tmp_path: Path) -> None:
    """A single run each, whose requests were not kept: +14 % and nothing that says how far equal runs lie apart."""
    a = run(tmp_path, "a", [rate(700.0, mean_tpot_ms=70.0)], serve(EAGER))
    b = run(tmp_path, "b", [rate(800.0, mean_tpot_ms=60.0)], serve())
    report, pair = two(a, b, "faster")
    assert pair.credits == ()
    assert report.required[0].outcome == "inconclusive"


def test_repeats_make_it_a_gain_and_faster_holds(tmp_path: Path) -> None:
    a = run(tmp_path, "a", repeats(700.0, mean_tpot_ms=70.0), serve(EAGER))
    b = run(tmp_path, "b", repeats(800.0, mean_tpot_ms=60.0), serve())
    report, pair = two(a, b, "faster")
    assert report.required[0].outcome == "holds"
    assert pair.answer.startswith("better: ")
    # nobody saw what ran
    assert "graph_replay is eligible in decode by it" in credit(pair, "unproven").text
    assert two(b, a, "faster")[0].required[0].outcome == "failed"


def test_an_image_that_a_client_was_labelled_with_is_one_of_the_bundle(tmp_path: Path) -> None:
    a = run(tmp_path, "a", [r | {"image": "one"} for r in repeats(700.0, mean_tpot_ms=70.0)], serve(EAGER))
    b = run(tmp_path, "b", [r | {"image": "two"} for r in repeats(800.0, mean_tpot_ms=60.0)], serve())
    assert set(credit(two(a, b)[1], "bundle").what) == {"image or version", EAGER}


@pytest.mark.parametrize("order", [1, -1])
def test_graphs_get_the_credit_of_two_real_recordings(order: int) -> None:
    """Two recordings of one H200 whose servers wrote down what they resolved: --enforce-eager alone differs."""
    runs = [AskedRun((SAMPLES / f"live-h200-m3-{mode}",)) for mode in ("eager", "graph")][::order]
    _, pair = two(*runs)
    found = credit(pair, "credited")
    assert (found.phase, found.what) == ("decode", ("graph_replay", EAGER))
    assert ("ran after and not before" if order == 1 else "ran before and not after") in found.text
    assert "idle time is 100 % of the change" in found.text
    alone = [s.name for s in pair.contract.settings or () if not s.follows]
    assert alone == [EAGER]


def recounted(file: Path) -> tuple[float, float]:
    """Mean step and kernel time, ns, of the decode steps that have a next one: nothing but json and sums."""
    with gzip.open(file) as stream:
        made = json.load(stream)["traceEvents"]
    steps = sorted(e["ts"] for e in made if e.get("cat") == "user_annotation" and "generation_8(8)" in e["name"] and "context_0(0)" in e["name"])  # fmt: skip
    owner = {}
    for e in made:
        if e.get("cat") in ("cuda_runtime", "cuda_driver") and e["ts"] >= steps[0]:
            owner[e["args"].get("correlation")] = sum(e["ts"] >= at for at in steps) - 1
    device = [(owner.get(e["args"]["correlation"], -1), e) for e in made if e.get("cat") in ("kernel", "gpu_memcpy", "gpu_memset")]  # fmt: skip
    first = [min(e["ts"] for at, e in device if at == n) for n in range(len(steps))]
    whole = len(steps) - 1
    kernels = sum(e["dur"] for at, e in device if e["cat"] == "kernel" and 0 <= at < whole)
    return 1e3 * (first[whole] - first[0]) / whole, 1e3 * kernels / whole


def test_two_real_traces_without_a_configuration_are_not_enough() -> None:
    runs = [AskedRun((SAMPLES / f"h200-m3-tp4rank-{mode}.pt.trace.json.gz",)) for mode in ("eager", "graph")]
    report, pair = two(*runs, "executed:graph_replay", "faster")
    (change,) = (c for c in pair.phases if c.phase == "decode")
    plain = [recounted(run.paths[0]) for run in runs]
    assert (change.steps_before, change.steps_after) == (8, 8)  # the ninth has no next step: its time is not whole
    assert (change.before_ns, change.after_ns) == tuple(pytest.approx(step_ns) for step_ns, _ in plain)
    assert sum(part.before_ns or 0 for part in change.families) == pytest.approx(plain[0][1])
    assert sum(part.after_ns or 0 for part in change.families) == pytest.approx(plain[1][1])
    assert change.explained == pytest.approx(1.0, abs=0.02)
    assert credit(pair, "unproven").what == ("graph_replay",)
    assert [r.outcome for r in report.required] == ["holds", "inconclusive"]


def test_drafts_are_other_work(tmp_path: Path) -> None:
    spec = """--speculative-config '{"method": "eagle3", "model": "a/b", "num_speculative_tokens": 3}'"""
    pair = two(run(tmp_path, "a", [rate(700.0)], serve()), run(tmp_path, "b", [rate(700.0)], serve(spec)))[1]
    assert credit(pair, "refused").what == ("model's work",)
