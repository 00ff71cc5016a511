"""Tables that only our own recordings fill: one row per record of a guest, columns named like its fields.

``file`` is the guest's file, so the process. Yes/no columns are int8: 1, 0, -1 for not known. Times are ns on the
monotonic clock of the host. Plain data without a fixed shape (``facts``, rows per expert) is JSON text.
"""

from __future__ import annotations

FILE = ("file", "int32", "id", "index into Recording.files: the process")
_STAGE = ("stage", "int32", "string id", "warmup, capture, eager or twin")
_PHASE = ("phase", "int32", "string id", "of the step")
_DESCRIPTOR = ("descriptor", "int32", "descriptor id", "padded batch in this process; -1: none")
_MODE = ("mode", "int32", "string id", "FULL, PIECEWISE or NONE; empty in the engine")
_COUNT = ("count", "int64", "calls", "since the row before")
_MONO = ("mono_ns", "int64", "ns", "monotonic clock")
_DRAFT = ("draft", "int8", "yes/no", "of the draft model")
_ROLE = ("role", "int32", "string id", "worker or engine: whose times these are")
_PLAN = (
    ("padded_rows", "int64", "tokens", "M of one step"),
    ("rows_sum", "int64", "tokens", "real rows"),
    ("requests_sum", "int64", "requests", "context + generation"),
    ("ctx_reqs_sum", "int64", "requests", "without a token yet"),
    ("ctx_rows_sum", "int64", "tokens", "of those"),
    ("gen_reqs_sum", "int64", "requests", "that generate"),
    ("gen_rows_sum", "int64", "tokens", "of those, drafts included"),
    ("ctx_seq_len_sum", "int64", "tokens", "key lengths of context requests"),
    ("gen_seq_len_sum", "int64", "tokens", "key lengths of generating requests"),
    ("spec_rows_sum", "int64", "tokens", "drafts verified"),
    ("spec_rows_on_prefill_sum", "int64", "tokens", "of those, put on the prefill side"),
    ("replays", "int64", "calls", "graph replays"),
)
_TIMES = (
    "t_start",
    "t_launch",
    "t_launched",
    "t_end",
    "t_sample_end",
    "t_schedule",
    "t_scheduled",
    "t_output",
    "t_done",
)

LIVE_TABLES: dict[str, tuple[tuple[str, str, str, str], ...]] = {
    "processes": (
        FILE,
        ("role", "int32", "string id", "nearest to the device"),
        ("pid", "int64", "id", "process"),
        *((name, "int32", "rank", "in its group") for name in ("rank", "tp_rank", "pp_rank", "dp_rank", "ep_rank", "engine")),
        *((name, "int32", "ranks", "size") for name in ("world_size", "tp", "pp", "dp", "ep")),
        ("late", "int8", "yes/no", "the probe came after load and capture"),
    ),
    "modules": (
        FILE,
        ("name", "int32", "string id", "of the module"),
        ("cls", "int32", "string id", "its class"),
        ("kind", "int32", "string id", "linear, moe, attention, norm, embedding, lm_head, router, other"),
        ("layer", "int32", "layer", "-1: in none"),
        ("N", "int64", "rows", "of the local weight"),
        ("K", "int64", "columns", "of the local weight"),
        ("dtype", "int32", "string id", "of the weight"),
        ("weight_bytes", "int64", "bytes", "parameters and buffers, shared storage once"),
        ("quant", "int32", "string id", "quantisation method"),
        ("kernel", "int32", "string id", "class that computes it"),
        _DRAFT,
        ("facts", "int32", "string id", "JSON text of what else its kind has"),
    ),
    "kv_layers": (
        FILE,
        ("layer", "int32", "string id", "name of the layer"),
        ("kind", "int32", "string id", "main, index or other"),
        ("spec", "int32", "string id", "class of the cache spec"),
        *((n, "int64", "count", "of the spec") for n in ("group", "block_tokens", "kv_heads", "head_size", "storage")),
        ("dtype", "int32", "string id", "of the cache"),
        ("page_bytes", "int64", "bytes", "of one block"),
        ("real_page_bytes", "int64", "bytes", "without padding"),
        _DRAFT,
    ),
    "kv_pools": (
        FILE,
        ("blocks", "int64", "blocks", "of the pool"),
        ("bytes", "int64", "bytes", "each allocation once"),
        ("block_tokens", "int64", "tokens", "of a block"),
        ("groups", "int64", "count", "cache groups"),
    ),
    "descriptors": (
        FILE,
        ("id", "int32", "descriptor id", "in this process"),
        _MODE,
        ("padded_rows", "int64", "tokens", "of the batch"),
        ("requests", "int64", "requests", "of the batch"),
        ("uniform", "int8", "yes/no", "all requests of equal length"),
        ("runner", "int32", "string id", "v1, v2 or breakable"),
        _DRAFT,
    ),
    "draft_replays": (FILE, _MONO, _DESCRIPTOR, ("count", "int64", "calls", "FULL replays of a draft model's graph")),
    "step_counts": (
        FILE,
        _ROLE,
        _MONO,
        _PHASE,
        _MODE,
        _DESCRIPTOR,
        _STAGE,
        _COUNT,
        *_PLAN,
        *(
            (f"{name}_ns", "int64", "ns", "sum over the steps; -1: not taken")
            for name in ("schedule", "prepare", "launch", "wait", "output", "idle")
        ),
    ),
    "step_rows": (
        FILE,
        _ROLE,
        ("step", "int64", "step", "number in this process"),
        _PHASE,
        _MODE,
        _DESCRIPTOR,
        _STAGE,
        *(
            (name, "int64", "count", "as in steps")
            for name in (
                "rows", "padded_rows", "requests", "ctx_reqs", "ctx_rows", "gen_reqs", "gen_rows", "ctx_seq_len_sum",
                "gen_seq_len_sum", "spec_rows", "spec_rows_on_prefill", "replays",
            )
        ),
        *((name, "int64", "ns", "monotonic; -1: not taken") for name in _TIMES),
    ),
    "dispatches": (
        FILE,
        ("path", "int32", "string id", "fast path of the catalogue"),
        ("seam", "int32", "string id", "where it was seen"),
        ("variant", "int32", "string id", "implementation, in the catalogue's words; empty: an eligibility call"),
        ("eligible", "int8", "yes/no", "what the seam's own predicate said"),
        ("reason", "int32", "string id", "of a refusal, with its numbers"),
        ("size", "int64", "unit", "rows or bytes of one call"),
        ("unit", "int32", "string id", "rows or bytes"),
        _PHASE,
        _DESCRIPTOR,
        _STAGE,
        _COUNT,
        ("layers", "int64", "layers", "distinct ones"),
        ("facts", "int32", "string id", "JSON text"),
    ),
    "collectives": (
        FILE,
        ("op", "int32", "string id", "all_reduce, all_gather, ..."),
        ("group", "int32", "string id", "of ranks"),
        ("payload_bytes", "int64", "bytes", "of one call on this rank; -1: calls of several sizes, or not told"),
        ("payload_sum_bytes", "int64", "bytes", "of all calls where they have several sizes; -1: not told"),
        ("dtype", "int32", "string id", "of the payload"),
        ("backend", "int32", "string id", "that carried it"),
        ("ranks", "int64", "ranks", "of the group"),
        ("fused", "int8", "yes/no", "with a norm"),
        _PHASE,
        _DESCRIPTOR,
        _STAGE,
        _COUNT,
    ),
    "kv_moves": (
        FILE,
        ("connector", "int32", "string id", "class"),
        ("direction", "int32", "string id", "load, save, register, finish"),
        ("seam", "int32", "string id", "where it was seen"),
        ("layer", "int32", "string id", "empty: all"),
        ("payload_bytes", "int64", "bytes", "-1: the connector does not tell"),
        ("tokens", "int64", "tokens", "-1: not told"),
        ("requests", "int64", "requests", "-1: not told"),
        ("dur_ns", "int64", "ns", "-1: not taken"),
        _COUNT,
    ),
    "routing": (
        FILE,
        ("layer", "int32", "string id", "MoE layer"),
        *((n, "int64", "count", "summed over the sampled steps") for n in ("steps", "rows", "top_k", "shared", "padded")),
        ("experts", "int32", "string id", "JSON list: rows per expert"),
        ("overlap_next", "float64", "share", "NaN: not asked for"),
    ),
    "requests": (
        FILE,
        _MONO,
        *((n, "int64", "tokens", "of the request") for n in ("prompt_tokens", "output_tokens", "cached_tokens")),
        ("finish", "int32", "string id", "reason"),
        *((n, "int64", "ns", "-1: vLLM did not keep it") for n in ("queued_ns", "prefill_ns", "decode_ns", "e2e_ns", "ttft_ns")),
        ("preemptions", "int64", "count", "-1: not told"),
    ),
    "samples": (
        FILE,
        _MONO,
        ("source", "int32", "string id", "scheduler, iteration, metrics"),
        ("name", "int32", "string id", "of the value, with its labels"),
        ("value", "float64", "as named", "at that time"),
    ),
    "prefix_caches": (
        FILE,
        _MONO,
        *(
            (n, "int64", "tokens", "since arming")
            for n in ("queries", "hits", "infinite_hits", "lost_rounding", "lost_eviction", "lost_not_computed")
        ),
    ),
    "hosts": (
        FILE,
        _MONO,
        ("pid", "int64", "id", "process"),
        ("role", "int32", "string id", "of the process"),
        *((n, "int64", "count", "-1: not told") for n in ("fds", "fd_soft", "fd_hard", "sockets", "threads")),
        ("rss_bytes", "int64", "bytes", "resident"),
        ("cpu_ns", "int64", "ns", "of the process so far"),
    ),
    "windows": (
        FILE,
        ("state", "int32", "string id", "done, failed or refused"),
        ("path", "int32", "string id", "trace"),
        ("first_step", "int64", "step", "number"),
        ("steps", "int64", "steps", "in it"),
        ("text", "int32", "string id", "what happened"),
        ("before_steps_per_s", "float64", "1/s", "NaN: not known"),
        ("after_steps_per_s", "float64", "1/s", "NaN: not known"),
    ),
    "verified": (
        FILE,
        ("module", "int32", "string id", "name"),
        ("state", "int32", "string id", "holds, broken or cannot verify"),
        ("cosine", "float64", "", "NaN: none"),
        ("max_error", "float64", "", "NaN: none"),
        ("rows", "int64", "rows", "compared"),
        ("text", "int32", "string id", "what was compared"),
    ),
    "seams": (
        FILE,
        ("id", "int32", "string id", "of the seam"),
        ("state", "int32", "string id", "present, changed or absent"),
        ("hooked", "int8", "yes/no", "a wrapper stood on it"),
        ("text", "int32", "string id", "why not"),
    ),
}  # fmt: skip
