"""us of the attention kernels of one decode step over contexts: does block selection select?

    python benchmarks/device/contexts.py FOLDER [FOLDER ...]     (folders of record.py)

Sparse layers attend to at most 16 blocks of 128 tokens, so that above 2,048 tokens their attention should cost what it
costs there, while the index score and the dense layers go on growing.
"""

from __future__ import annotations

import fnmatch
import sys
from pathlib import Path

import device_trace
from recorded import Guest

KERNELS = {
    "sparse attend, 6 layers": "_gqa_sparse_decode_kernel",
    "its merge": "_merge_topk_attn_out_kernel",
    "index score, 6 layers": "_decode_index_score_kernel",
    "top-k": "_topk_index_*",
    "dense attend, 3 layers": "*FlashAttnFwdSm90*",
}


def main() -> None:
    print("| tokens a request | steps | " + " | ".join(KERNELS) + " |")
    print("| ---: | ---: |" + " ---: |" * len(KERNELS))
    for folder in map(Path, sys.argv[1:]):
        guest = Guest(folder)
        steps = [s for s in device_trace.steps(guest.trace) if s.phase == "decode" and s.gen == 8]
        rows = [s for s in guest.steps if s.phase == "decode" and s.requests == 8]
        tokens = sum(s.gen_seq_len_sum for s in rows) / sum(s.requests for s in rows)
        us = [
            sum(us for s in steps for name, us in s.us.items() if fnmatch.fnmatchcase(name, glob)) / len(steps)
            for glob in KERNELS.values()
        ]
        print(f"| {tokens:,.0f} | {len(steps)} | " + " | ".join(f"{value:.1f}" for value in us) + " |")


if __name__ == "__main__":
    main()
