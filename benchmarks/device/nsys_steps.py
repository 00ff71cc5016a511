"""Steps whose every kernel is known, for nsys on a real GPU: what a reader of its export must count.

    nsys profile --trace=cuda,nvtx --cuda-graph-trace=node -o node python benchmarks/device/nsys_steps.py
    nsys export --type sqlite --output node.sqlite node.nsys-rep

Eight decode steps replay one graph of GEMMS matrix products and ADDS additions, two prefill steps launch the same eagerly;
each step stands in an NVTX range named as vLLM names its own. Prints what was launched.
"""

from __future__ import annotations

import json

import torch

GEMMS, ADDS = 3, 5
DECODE, PREFILL = 8, 2


def work(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    for _ in range(GEMMS):
        x = torch.mm(x, w)
    for _ in range(ADDS):
        x = x + 1.0
    return x


def main() -> None:
    w = torch.eye(1024, device="cuda", dtype=torch.bfloat16)
    small = torch.zeros(8, 1024, device="cuda", dtype=torch.bfloat16)
    large = torch.zeros(4000, 1024, device="cuda", dtype=torch.bfloat16)
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        for _ in range(3):
            work(small, w)
            work(large, w)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        work(small, w)
    torch.cuda.synchronize()
    for _ in range(PREFILL):
        torch.cuda.nvtx.range_push("execute_context_1(4000)_generation_0(0)")
        work(large, w)
        torch.cuda.nvtx.range_pop()
    for _ in range(DECODE):
        torch.cuda.nvtx.range_push("execute_context_0(0)_generation_8(8)")
        graph.replay()
        torch.cuda.nvtx.range_pop()
    torch.cuda.synchronize()
    print(json.dumps({"decode_steps": DECODE, "prefill_steps": PREFILL, "kernels_a_step": GEMMS + ADDS}))


if __name__ == "__main__":
    main()
