"""Variables that vLLM sets by itself, differently in each process: they tell nothing of how a server was started."""

from __future__ import annotations

PER_PROCESS = frozenset(
    {"VLLM_DP_RANK", "VLLM_DP_RANK_LOCAL", "VLLM_DIST_IDENT", "VLLM_OBJECT_STORAGE_SHM_BUFFER_NAME", "OMP_NUM_THREADS"}
)
