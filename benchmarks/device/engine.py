"""A vLLM engine in this process, stepped by hand: a batch is prefilled, and each of its decode steps is timed.

The engine core and, on one GPU, the worker live in this process, so that one thread runs everything and a step is one call.
"""

from __future__ import annotations

import itertools
import os
import random
import time
from pathlib import Path

M3 = "MiniMaxM3SparseForCausalLM"
CAPTURE_SIZES = [1, 2, 4, 8, 16, 32, 64]
BLOCK = 128
"""Tokens of a KV block: M3's sparse attention takes no other."""


class Engine:
    """``eager``: no compilation and no graphs. ``profiler``: folder for vLLM's own torch profiler."""

    def __init__(self, model: Path, *, eager: bool, profiler: Path | None = None, most_tokens: int = 8192):
        os.environ["VLLM_ENABLE_V1_MULTIPROCESSING"] = "0"
        os.environ.setdefault("HF_HUB_OFFLINE", "1")
        started = time.perf_counter()
        self.llm = loaded(model, eager, profiler, most_tokens)
        self.engine = self.llm.llm_engine
        self.load_s = time.perf_counter() - started
        self._numbers = itertools.count()
        self._ids = random.Random(0)

    def run(self, batch: int, prompt: int, steps: int) -> list[tuple[float, float]]:
        """Decode ``steps`` steps of ``batch`` fresh prompts of ``prompt`` tokens; (ms, this thread's processor ms) of each.

        A step's time runs from one return of ``step`` to the next, so it holds everything vLLM does between; steps
        before the last prefill are left out.
        """
        from vllm import SamplingParams

        params = SamplingParams(max_tokens=steps + 1, ignore_eos=True, temperature=0)
        for _ in range(batch):
            ids = self._ids.choices(range(10, 250), k=prompt)
            self.engine.add_request(f"r{next(self._numbers)}", {"prompt_token_ids": ids}, params)
        spent, decoding, last, busy = [], set(), time.perf_counter(), time.thread_time()
        while self.engine.has_unfinished_requests():
            outputs = self.engine.step()
            now, used = time.perf_counter(), time.thread_time()
            if len(decoding) == batch and outputs:
                spent.append((round((now - last) * 1e3, 4), round((used - busy) * 1e3, 4)))
            decoding |= {output.request_id for output in outputs}
            last, busy = now, used
        return spent


def loaded(model: Path, eager: bool, profiler: Path | None, most_tokens: int):
    from vllm import LLM, ModelRegistry
    from vllm.platforms import current_platform

    options: dict = {"enforce_eager": True} if eager else {}
    if not eager:
        options["compilation_config"] = {"cudagraph_capture_sizes": CAPTURE_SIZES}
    if profiler is not None:
        profiler.mkdir(parents=True, exist_ok=True)
        options["profiler_config"] = {
            "profiler": "torch",
            "torch_profiler_dir": str(profiler.resolve()),
            "torch_profiler_with_stack": False,
        }
    if current_platform.is_cuda():
        # vLLM 0.25.1 dies in M3's sparse prefill on an H200 where dependent launch is on
        type(current_platform).is_arch_support_pdl = classmethod(lambda _platform: False)
        # M3's file for AMD: its kernels are Triton, so it runs on CUDA too
        ModelRegistry.register_model(M3, f"vllm.models.minimax_m3.amd.model:{M3}")
        options |= {"block_size": BLOCK, "max_model_len": 8192, "num_gpu_blocks_override": 3000}
        options |= {"gpu_memory_utilization": 0.6}
    else:
        options |= {"dtype": "float32"}
    return LLM(
        model=str(model.resolve()),
        load_format="dummy",
        max_num_batched_tokens=most_tokens,
        max_num_seqs=CAPTURE_SIZES[-1],
        enable_prefix_caching=False,
        disable_log_stats=False,
        **options,
    )
