"""Seams of ``collectors/queues.py``: scheduler, requests and prefix cache."""

from m3probe.collectors._seams._seam import Seam

SEAMS: dict[str, Seam] = {
    "stat_record": Seam(
        "vllm.v1.metrics.loggers",
        "StatLoggerManager.record",
        "statistics of each step's scheduler, and of the requests that it finished",
        needs=("scheduler_stats", "iteration_stats", "engine_idx"),
    ),
    "prefix_lookup": Seam(
        "vllm.v1.core.kv_cache_manager",
        "KVCacheManager.get_computed_blocks",
        "a request asks the prefix cache: its block hashes, and the tokens found",
        needs=("request",),
    ),
    "prefix_cached": Seam(
        "vllm.v1.core.block_pool",
        "BlockPool.cache_full_blocks",
        "blocks that can be found from now on",
        needs=("request", "num_cached_blocks", "num_full_blocks", "block_size", "kv_cache_group_id"),
    ),
}
