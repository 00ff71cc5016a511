"""The prefix cache of a real vLLM against a request sequence worked out by hand, and against vLLM's own counters."""

from __future__ import annotations

import os
import subprocess
from itertools import pairwise
from pathlib import Path

import pytest
from guest_kit import files, read
from live_kit import mounted, vllm_python

from m3probe.schema import records

# Blocks of 32 tokens, 16 of them (one more is vLLM's null block); at most 32 tokens of a prompt in one step.
SCRIPT = """
import sys
from vllm import LLM, SamplingParams

if __name__ == "__main__":
    llm = LLM(
        model=sys.argv[1], load_format="dummy", dtype="float32", enforce_eager=True, max_model_len=512, max_num_seqs=4,
        block_size=32, num_gpu_blocks_override=17, long_prefill_token_threshold=32, max_num_batched_tokens=128,
        disable_log_stats=False,
    )
    def prompt(seed, length):
        return [10 + seed, *(10 + (seed * 31 + n * 7) % 200 for n in range(length - 1))]
    def run(*prompts):
        params = SamplingParams(max_tokens=2, ignore_eos=True, temperature=0)
        llm.generate([{"prompt_token_ids": p} for p in prompts], params, use_tqdm=False)
    a, b = prompt(1, 100), prompt(2, 100)
    run(a)            # 100 asked: nothing is there
    run(a)            # 100 asked: 3 full blocks found
    run(a[:96])       # 96 asked: 95 could be hits, 2 whole blocks are: 31 lost to rounding
    run(b, b)         # 200 asked: the second finds the one block that the first has begun, and lacks 64 tokens of it
    for seed in range(3, 8):
        run(prompt(seed, 100))  # 500 asked: nothing; 4 blocks each, so that none of the others stays
    run(a)            # 100 asked: its 96 tokens were evicted
"""
QUERIES = 100 + 100 + 96 + 200 + 500 + 100
HITS = 96 + 64 + 32
INFINITE = 96 + 95 + 96 + 96


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory, tiny_models: Path) -> list[records.AnyRecord]:
    """Records of one process that is engine, worker and client."""
    folder = tmp_path_factory.mktemp("prefix")
    (folder / "script.py").write_text(SCRIPT)
    own = {
        "HF_HUB_OFFLINE": "1",
        "VLLM_NO_USAGE_STATS": "1",
        "VLLM_CPU_KVCACHE_SPACE": "1",
        "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
        "M3PROBE": "1",
        "M3PROBE_DIR": str(folder / "rec"),
        "M3PROBE_RUN": str(folder / "run"),
        "PYTHONPATH": str(mounted(folder / "site")),
    }
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("M3PROBE", "VLLM", "PYTHON"))}
    command = [str(vllm_python()), str(folder / "script.py"), str(tiny_models / "llama")]
    done = subprocess.run(command, env=kept | own, cwd=folder, capture_output=True, text=True, timeout=400, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    (path,) = files(folder / "rec")
    found, cut = read(path)
    assert (cut.why, cut.skipped) == ("", 0)
    return found


def test_the_gap_to_an_infinite_cache_is_split_by_cause(recorded: list[records.AnyRecord]) -> None:
    last = [r for r in recorded if isinstance(r, records.PrefixCache)][-1]
    assert (last.queries, last.hits, last.infinite_hits) == (QUERIES, HITS, INFINITE)
    assert (last.lost_rounding, last.lost_eviction, last.lost_not_computed) == (31, 96, 64)


def test_vllm_counts_the_same_queries_and_hits(recorded: list[records.AnyRecord]) -> None:
    told = [r.values for r in recorded if isinstance(r, records.Sample) and r.source == "scheduler"]
    assert sum(v["prefix_cache_queries"] for v in told) == QUERIES
    assert sum(v["prefix_cache_hits"] for v in told) == HITS


def test_each_request_is_told_with_what_it_found_in_the_cache(recorded: list[records.AnyRecord]) -> None:
    found = [(r.prompt_tokens, r.cached_tokens) for r in recorded if isinstance(r, records.Request)]
    # in the order of their ends: the one that found a block is done a step before the one that made it
    assert found == [(100, 0), (100, 96), (96, 64), (100, 32), (100, 0), *[(100, 0)] * 6]
    requests = [r for r in recorded if isinstance(r, records.Request)]
    assert {(r.output_tokens, r.finish) for r in requests} == {(2, "length")}
    for r in requests:
        assert None not in {r.queued_ns, r.prefill_ns, r.decode_ns, r.e2e_ns}
        assert (r.queued_ns or 0) + (r.prefill_ns or 0) + (r.decode_ns or 0) <= (r.e2e_ns or 0)


def test_a_process_of_three_roles_tells_its_own_use_once(recorded: list[records.AnyRecord]) -> None:
    told = [r for r in recorded if isinstance(r, records.Host)]
    assert len({r.mono_ns for r in told}) == len(told) >= 1
    assert all(b.mono_ns - a.mono_ns > 4_000_000_000 for a, b in pairwise(told))


def test_no_hook_failed_and_none_stayed(recorded: list[records.AnyRecord]) -> None:
    (end,) = [r for r in recorded if isinstance(r, records.End)]
    assert (end.failed_hooks, end.left_behind, end.dropped) == ({}, (), {})
