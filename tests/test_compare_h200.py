"""Four servers of one model on an H200, loaded alike: what may be said of graphs against flat, nested and eager.

The host was shared: its rounds differ by 20 to 50 %, and so do the windows under a profiler.
"""

from __future__ import annotations

import gzip
import json
import re
from dataclasses import replace
from functools import cache
from pathlib import Path
from statistics import mean
from typing import Any

import jsonschema
import pytest
from runs_kit import credit, rate, run, serve, topic, two
from tree import ROOT

from m3probe.analyzers._compare.credit import put_down
from m3probe.analyzers._compare.doubt import doubted
from m3probe.analyzers._compare.effects import effects
from m3probe.analyzers._compare.own import own_part, own_words
from m3probe.comparing import AskedRun, _boiled, compare
from m3probe.fastpaths import fast_paths
from m3probe.model.compare_report import CompareReport, Credit, HostChange, Pair, PhaseChange
from m3probe.model.compare_run import PathSeen, RunKept
from m3probe.present._page import cells
from m3probe.present.compare_text import compare_text
from m3probe.present.json import compare_json
from m3probe.sources import no_progress

SAMPLE = ROOT / "samples" / "compare-h200"
NAMES = ("graphs", "flat", "nested", "eager")
INDEX = ("_decode_index_score_kernel", "_topk_index_merge_kernel", "_topk_index_partial_kernel")


@cache
def report() -> CompareReport:
    return compare([AskedRun((SAMPLE / name,)) for name in NAMES], ("faster", "same-contract"))


def pair(after: str) -> Pair:
    return next(p for p in report().pairs if p.after == after)


def decode(after: str) -> PhaseChange:
    (found,) = (c for c in pair(after).phases if (c.phase, c.rows) == ("decode", 8))
    return found


def results(name: str, concurrency: int) -> list[dict[str, Any]]:
    return [
        json.loads(gzip.decompress(f.read_bytes())) for f in sorted((SAMPLE / name).glob(f"bench_c{concurrency}_*"))
    ]


def ratio(name: str, concurrency: int, key: str) -> float:
    """Mean over the two repeats, after over before."""
    after, before = (mean(one[key] for one in results(n, concurrency)) for n in (name, "graphs"))
    return after / before


def indexed(name: str) -> tuple[float, float]:
    """(index kernels a step, their ns a step) of the decode steps of 5 to 8 rows that have a next step."""
    (file,) = (SAMPLE / name / "recording").glob("*.trace.json.gz")
    made = json.loads(gzip.decompress(file.read_bytes()))["traceEvents"]
    words = [e for e in made if e.get("cat") == "user_annotation" and e["name"].startswith("execute_")]
    steps = sorted((e["ts"], e["name"]) for e in words)
    owner = {
        e["args"]["correlation"]: sum(e["ts"] >= at for at, _ in steps) - 1
        for e in made
        if e.get("cat") in ("cuda_runtime", "cuda_driver") and "correlation" in e.get("args", {})
    }
    chosen = {n for n, (_, said) in enumerate(steps[:-1]) if re.search(r"context_0\(0\)_generation_[5-8]\(", said)}
    mine = [
        e
        for e in made
        if e.get("cat") == "kernel" and e["name"] in INDEX and owner.get(e["args"]["correlation"]) in chosen
    ]
    return len(mine) / len(chosen), 1e3 * sum(e["dur"] for e in mine) / len(chosen)


# --- flat: configured, and nothing happened ------------------------------------------------------------------


def test_the_clients_figures_decide_and_the_profilers_window_stands_beside_them() -> None:
    found, change = pair("flat"), decode("flat")
    assert found.answer.startswith("no change beyond noise, which hides up to 39 to 306 %: output at c1 / c8 / c32 x ")
    for key, name in (("output_throughput", "output"), ("mean_tpot_ms", "mean TPOT"), ("mean_ttft_ms", "mean TTFT")):
        told = " / ".join(f"{ratio('flat', c, key):.3f}" for c in (1, 8, 32))
        assert f"{name} at c1 / c8 / c32 x {told}" in found.answer
    assert change.verdict == "better"
    assert change.doubt.startswith("100 % of it is idle time under a profiler")
    (traced,) = found.beside
    assert traced.startswith("decode step of up to 8 rows x 0.838 (better); 100 % of it is idle time")
    outcomes = report().required
    assert outcomes[0].outcome == "failed"  # eager is worse, flat the same


def test_a_setting_that_reached_nothing_is_told_with_its_reason_and_the_launches() -> None:
    found = credit(pair("flat"), "suspect not executed")
    assert found.what == ("--hf-overrides",)
    assert "top-level use_index_cache, index_topk_freq is silently ignored" in found.text
    assert [indexed(name)[0] for name in ("graphs", "flat")] == [18, 18]  # 3 kernels in each of 6 layers
    assert "index_reuse ran in neither: 18.0 indexer kernels a decode step before and 18.0 after" in found.text
    assert len(pair("flat").credits) == 1


def test_noise_that_hides_everything_is_no_sign_that_nothing_ran(tmp_path: Path) -> None:
    """Two runs a side, a fifth apart, against two that are a hundredth apart: 12.7 errors of the mean of two."""
    for name, apart, verdict in (("wide", 0.2, "unproven"), ("narrow", 0.002, "suspect not executed")):
        folder = tmp_path / name
        folder.mkdir()
        sides = [
            run(folder, side, [rate(700.0 * f) for f in (1 - apart / 2, 1 + apart / 2)], serve(words))
            for side, words in (("a", ""), ("b", "--max-num-seqs 64"))
        ]
        found = credit(two(*sides)[1], verdict)
        assert found.what == ("--max-num-seqs",)


# --- nested: other work --------------------------------------------------------------------------------------


def test_what_ran_changes_the_models_work_whatever_the_configuration_says() -> None:
    found = pair("nested")
    work = topic(found, "model's work")
    assert (work.state, work.before, work.after) == (
        "differs", "index top-k reuse did not run", "index top-k reuse ran",
    )  # fmt: skip
    assert found.contract.kind == "evolution"
    assert found.answer.startswith("no change beyond noise, which hides up to ")
    assert "no speed-up is claimed" in found.answer


def test_a_path_is_told_with_the_part_of_the_change_that_its_kernels_made() -> None:
    (before, before_ns), (after, after_ns) = indexed("graphs"), indexed("nested")
    assert (before, after) == (18, 6)
    change = decode("nested")
    own = own_part(("index_reuse",), [change])
    assert own is not None
    assert own.delta_ns == pytest.approx(after_ns - before_ns)
    assert own.delta_ns == pytest.approx(-44_900, abs=50)
    assert own.share == pytest.approx(own.delta_ns / (change.delta_ns or 0))
    found = credit(pair("nested"), "refused")
    assert "in decode index_reuse ran after and not before: indexer kernels are 2.2 % of the change" in found.text
    assert "(-44.9 us), what is left is not its" in found.text


# --- eager: worse --------------------------------------------------------------------------------------------


def test_only_the_figures_that_say_so_are_listed() -> None:
    found = credit(pair("eager"), "credited")
    assert f"decode is slower (mean TPOT at c1 x {ratio('eager', 1, 'mean_tpot_ms'):.3f}; " in found.text
    assert "the other figures do not move beyond noise" in found.text
    assert " at c8" not in found.text
    assert found.what == ("graph_replay", "--enforce-eager")
    assert "idle time is 100 % of the change" in found.text
    idle = next(p for p in decode("eager").parts if p.what == "idle")
    assert (found.delta_ns, found.share) == (idle.delta_ns, idle.share)
    assert decode("eager").doubt == ""  # graphs ran before and not after: idle time is theirs
    assert pair("eager").answer.startswith("worse: output at c1 x 0.140; mean TPOT at c1 x ")


# --- what a worker's clock and launches say of idle time -----------------------------------------------------


def clock(ratio_: float | None) -> HostChange:
    return replace(pair("flat").hosts[0], ratio=ratio_)


def asked_again(change: PhaseChange, clocks: list[HostChange], *, replayed: bool = True) -> str:
    seen = PathSeen("graph_replay", "graph replay", "decode", replayed, "", "", 1, 1, ())
    run = replace(_kept(), paths=(seen,))
    return doubted([change], clocks, run, run)[0].doubt


@cache
def _kept(name: str = "graphs") -> RunKept:
    return _boiled(name, AskedRun((SAMPLE / name,)), no_progress)[0]


def test_idle_time_is_doubted_unless_a_clock_a_launch_or_the_kernels_agree() -> None:
    """x 0.838: half of 16.2 % without a profiler agrees; kernels that make up the change need no clock."""
    change = decode("flat")
    assert asked_again(change, [])
    assert asked_again(change, [clock(0.93)]).endswith("x 0.930")
    assert asked_again(change, [clock(0.91)]) == ""
    assert asked_again(change, [clock(None)])
    assert asked_again(change, [clock(1.10)])
    fewer = replace(change, launches_after=change.launches_before - 20)
    assert asked_again(fewer, [])  # inside a graph a kernel less costs the host nothing less
    assert asked_again(fewer, [], replayed=False) == ""
    assert asked_again(change, [], replayed=False)
    parts = tuple(replace(p, share=0.4) if p.what == "idle" else p for p in change.parts)
    assert asked_again(replace(change, parts=parts), []) == ""
    assert asked_again(replace(change, verdict="same"), []) == ""


def of_eager(change: PhaseChange) -> Credit:
    """The credit of eager's decode steps, were the traced change another one."""
    told = effects(pair("eager").metrics, [change])
    found = put_down(_kept("graphs"), _kept("eager"), pair("eager").contract, told, [change])
    return next(one for one in found if one.phase == "decode")


def test_a_path_gets_no_credit_for_what_its_part_of_the_step_does_not_show() -> None:
    change = decode("eager")
    assert of_eager(change).verdict == "credited"
    shorter = tuple(replace(p, share=-0.05, delta_ns=-1e6) if p.what == "idle" else p for p in change.parts)
    found = of_eager(replace(change, parts=shorter))
    assert (found.verdict, found.delta_ns) == ("not its", -1e6)
    other = of_eager(replace(change, verdict="better"))
    assert other.verdict == "unproven"
    assert "the traced steps go the other way" in other.text


def test_a_part_without_times_or_a_path_that_acts_on_nothing_known_has_no_share() -> None:
    change = decode("nested")
    untimed = replace(change, families=tuple(replace(p, delta_ns=None) for p in change.families))
    assert own_part(("index_reuse",), [untimed]) is None
    assert own_part(("index_reuse",), []) is None
    assert own_part(("kv_transfer",), [change]) is None
    both = own_part(("index_reuse", "graph_replay"), [change])
    assert both is not None
    assert both.words == "indexer kernels and idle time"
    assert "what is left" not in own_words(both)


def test_every_path_that_runs_on_the_device_says_what_it_acts_on() -> None:
    silent = [name for name, path in fast_paths().items() if not (path.acts_on or path.family or path.launches)]
    assert silent == ["kv_transfer"]  # it copies between servers, in no step


# --- the page ------------------------------------------------------------------------------------------------


def test_a_workers_idle_time_is_no_step_time() -> None:
    """Behind a prefill step the server waited 554 ms for its next request."""
    (row,) = (h for h in pair("flat").hosts if h.phase == "prefill")
    parts = {p.name: p.before_ns for p in row.parts}
    assert (parts["idle"] or 0) > 500e6
    assert row.before_ns == pytest.approx(sum(parts[p] or 0 for p in ("prepare", "launch", "wait")))
    assert row.before_ns == pytest.approx(34.35e6, abs=0.01e6)


@pytest.mark.parametrize("width", [80, 120])
def test_the_page_is_short_whole_and_without_notes_that_are_no_fault(width: int) -> None:
    page = compare_text(report(), width, color=False, explain=False)
    lines = page.splitlines()
    assert max(map(cells, lines)) <= width
    assert len(lines) < 180
    assert "overlap" not in page
    assert [run.notes for run in report().runs] == [()] * 4
    assert "graphs → flat  --hf-overrides" in page
    assert "graphs → eager  --enforce-eager" in page
    rows = [line.split() for line in lines if line.startswith("  c8 4,001/128 ")]
    assert len(rows) == 3
    assert rows[0][2:5] == [f"{ratio('flat', 8, 'output_throughput'):.3f}", "±3.06", "in"]
    assert "TPOT" in page
    assert ("before → after" in page) == (width == 120)
    assert "timed at more than one M" not in page
    explained = compare_text(report(), width, color=False, explain=True)
    assert "what would decide" not in page
    assert "what would decide" in explained
    # one saves what the others cost: signs, where the sentence has no one word for them
    saved = [
        f"{-(ratio('flat', c, 'mean_tpot_ms') - 1) * mean(o['mean_tpot_ms'] for o in results('graphs', c)):+.2f}"
        for c in (1, 8, 32)
    ]
    assert saved[0].startswith("+")
    assert saved[1].startswith("-")
    assert f"A token saves {' / '.join(saved)} ms" in " ".join(explained.split())
    assert "tokens/s, in and out" in explained
    assert max(map(cells, explained.splitlines())) <= width


def test_its_json_fits_the_schema() -> None:
    known = jsonschema.Draft202012Validator(json.loads(Path(ROOT / "docs" / "compare.schema.json").read_text()))
    assert [error.message for error in known.iter_errors(json.loads(compare_json(report())))] == []


# --- one run in two files ------------------------------------------------------------------------------------


def printed(one: dict[str, Any]) -> str:
    """What vLLM's client prints of a result."""
    rows = {
        "Successful requests:": f"{one['completed']}", "Failed requests:": f"{one['failed']}",
        "Maximum request concurrency:": f"{one['max_concurrency']}",
        "Benchmark duration (s):": f"{one['duration']:.2f}", "Total input tokens:": f"{one['total_input_tokens']}",
        "Total generated tokens:": f"{one['total_output_tokens']}",
        "Request throughput (req/s):": f"{one['request_throughput']:.2f}",
        "Output token throughput (tok/s):": f"{one['output_throughput']:.2f}",
        "Total token throughput (tok/s):": f"{one['total_token_throughput']:.2f}",
    }  # fmt: skip
    box = [f"{name:<40} {value:<10}" for name, value in rows.items()]
    return "\n".join(["=" * 12 + " Serving Benchmark Result " + "=" * 12, *box, "=" * 50, ""])


def test_what_the_client_printed_beside_what_it_saved_is_one_run(tmp_path: Path) -> None:
    saved = results("graphs", 8)
    for number, one in enumerate(saved):
        (tmp_path / f"c8_{number}.json").write_text(json.dumps(one))
        (tmp_path / f"a_c8_{number}.txt").write_text(printed(one))
    found = compare([AskedRun((tmp_path,), "both"), AskedRun((SAMPLE / "flat",), "flat")]).pairs[0].metrics
    assert found is not None
    (output,) = (p for p in found.pairs if p.metric == "output")
    assert output.a.repeats == 2
    assert output.a.value == pytest.approx(mean(one["output_throughput"] for one in saved))
    copies = [out for out in found.left_out if "a copy is no repeat" in out.why]
    assert sorted(out.name for out in copies) == ["a_c8_0.txt", "a_c8_1.txt"]
    # another run of as many tokens lasts otherwise
    other = dict(saved[0], duration=saved[0]["duration"] + 0.02)
    (tmp_path / "a_c8_0.txt").write_text(printed(other))
    found = compare([AskedRun((tmp_path,), "both"), AskedRun((SAMPLE / "flat",), "flat")]).pairs[0].metrics
    assert found is not None
    assert len([out for out in found.left_out if "a copy is no repeat" in out.why]) == 1


def test_noise_that_hides_any_gain_fails_nobody() -> None:
    """Two repeats of each point: differences of 39 % and more would not be seen, so that nothing is known to be the same."""
    report = compare([AskedRun((SAMPLE / "graphs",)), AskedRun((SAMPLE / "flat",))], ("faster",))
    assert report.required[0].outcome == "inconclusive"
    assert report.required[0].why.startswith("no change beyond noise, which hides up to")
