"""Names of vLLM's flags by what their values are; ``flags.py`` says where they were read."""

from __future__ import annotations

ALIASES = {
    "-tp": "--tensor-parallel-size",
    "-pp": "--pipeline-parallel-size",
    "-dp": "--data-parallel-size",
    "-dcp": "--decode-context-parallel-size",
    "-pcp": "--prefill-context-parallel-size",
    "-dpn": "--data-parallel-rank",
    "-dpr": "--data-parallel-start-rank",
    "-dpl": "--data-parallel-size-local",
    "-dpa": "--data-parallel-address",
    "-dpp": "--data-parallel-rpc-port",
    "-dpb": "--data-parallel-backend",
    "-dph": "--data-parallel-hybrid-lb",
    "-dpe": "--data-parallel-external-lb",
    "-dpm": "--data-parallel-multi-port-external-lb",
    "-ep": "--enable-expert-parallel",
    "-n": "--nnodes",
    "-r": "--node-rank",
    "-q": "--quantization",
    "-sc": "--speculative-config",
    "-dc": "--diffusion-config",
    "-cc": "--compilation-config",
    "-ac": "--attention-config",
    "-asc": "--api-server-count",
    "--device-memory-utilization": "--gpu-memory-utilization",
}
"""The same in all four releases but for the last one (0.32 and later)."""

STORE_TRUE = frozenset({"--headless", "--grpc", "--disable-log-stats", "--aggregate-engine-logging"})
"""Switches without a ``--no-`` form: ``action="store_true"``."""

# A config class or optional_type(json.loads): text that is no JSON object ends vLLM with status 2.
JSON_OBJECT = frozenset(
    {
        "--attention-config",
        "--aux-output-config",
        "--compilation-config",
        "--custom-histogram-buckets",
        "--default-chat-template-kwargs",
        "--default-mm-loras",
        "--diffusion-config",
        "--ec-manager-config",
        "--ec-transfer-config",
        "--engram-config",
        "--eplb-config",
        "--fault-tolerance-config",
        "--ir-op-priority",
        "--kernel-config",
        "--kv-events-config",
        "--kv-transfer-config",
        "--limit-mm-per-prompt",
        "--media-io-kwargs",
        "--mm-processor-kwargs",
        "--model-class-overrides",
        "--override-generation-config",
        "--pooler-config",
        "--profiler-config",
        "--reasoning-config",
        "--reasoning-effort-map",
        "--speculative-config",
        "--structured-outputs-config",
        "--watchdog-config",
        "--watermark-config",
        "--weight-transfer-config",
    }
)
NONE_IS_UNSET = frozenset(
    {
        "--custom-histogram-buckets",
        "--default-mm-loras",
        "--diffusion-config",
        "--ec-transfer-config",
        "--engram-config",
        "--kv-events-config",
        "--kv-transfer-config",
        "--media-io-kwargs",
        "--mm-processor-kwargs",
        "--pooler-config",
        "--reasoning-config",
        "--speculative-config",
        "--watermark-config",
        "--weight-transfer-config",
    }
)
"""Those of JSON_OBJECT whose type takes None: ``optional_type`` reads "" and "None" as that."""

# union_dict_and_str: JSON only in braces.
JSON_OR_TEXT = frozenset(
    {
        "--additional-config",
        "--hf-overrides",
        "--model-loader-extra-config",
        "--pt-load-map-location",
        "--quantization-config",
    }
)
JSON_ANY = frozenset({"--allowed-headers", "--allowed-methods", "--allowed-origins"})
LISTS = frozenset(
    {
        "--allowed-media-domains",
        "--api-key",
        "--collect-detailed-traces",
        "--cpu-offload-params",
        "--cudagraph-capture-sizes",
        "--ignore-patterns",
        "--kv-cache-dtype-skip-layers",
        "--logits-processors",
        "--lora-modules",
        "--lora-target-modules",
        "--numa-bind-cpus",
        "--numa-bind-nodes",
        "--offload-params",
        "--served-model-name",
        "--sleep-preserve-parameter-names",
    }
)
APPENDS = frozenset({"--middleware"})
ONE_OR_NONE = frozenset({"--hf-token"})
SIZES = frozenset(
    {
        "--kv-cache-memory-bytes",
        "--max-model-len",
        "--max-num-batched-tokens",
        "--max-num-queued-tokens",
        "--max-num-scheduled-tokens",
        "--safetensors-prefetch-block-size",
    }
)
NUMBERS = frozenset(
    {
        "--api-server-count",
        "--block-size",
        "--data-parallel-size",
        "--data-parallel-size-local",
        "--decode-context-parallel-size",
        "--max-num-seqs",
        "--nnodes",
        "--pipeline-parallel-size",
        "--port",
        "--tensor-parallel-size",
    }
)

USUAL = (
    *sorted((JSON_OBJECT | JSON_OR_TEXT | LISTS | SIZES | NUMBERS) - {"--aux-output-config", "--engram-config"}),
    "--attention-backend",
    "--chat-template",
    "--config",
    "--data-parallel-address",
    "--data-parallel-backend",
    "--data-parallel-rank",
    "--data-parallel-rpc-port",
    "--data-parallel-start-rank",
    "--distributed-executor-backend",
    "--download-dir",
    "--dtype",
    "--gpu-memory-utilization",
    "--host",
    "--kv-cache-dtype",
    "--linear-backend",
    "--load-format",
    "--long-prefill-token-threshold",
    "--master-addr",
    "--master-port",
    "--max-cudagraph-capture-size",
    "--max-num-partial-prefills",
    "--mm-encoder-attn-backend",
    "--mm-encoder-tp-mode",
    "--mm-processor-cache-gb",
    "--mm-processor-cache-type",
    "--model",
    "--moe-backend",
    "--node-rank",
    "--optimization-level",
    "--prefill-context-parallel-size",
    "--quantization",
    "--reasoning-parser",
    "--revision",
    "--scheduling-policy",
    "--seed",
    "--stream-interval",
    "--tokenizer",
    "--tokenizer-mode",
    "--tool-call-parser",
    "--uvicorn-log-level",
)
USUAL_SWITCHES = (
    *sorted(STORE_TRUE),
    "--async-scheduling",
    "--calculate-kv-scales",
    "--data-parallel-external-lb",
    "--data-parallel-hybrid-lb",
    "--data-parallel-multi-port-external-lb",
    "--disable-custom-all-reduce",
    "--disable-hybrid-kv-cache-manager",
    "--disable-uvicorn-access-log",
    "--enable-auto-tool-choice",
    "--enable-chunked-prefill",
    "--enable-dbo",
    "--enable-eplb",
    "--enable-expert-parallel",
    "--enable-log-requests",
    "--enable-lora",
    "--enable-prefix-caching",
    "--enable-sleep-mode",
    "--enforce-eager",
    "--language-model-only",
    "--monokernel",
    "--skip-tokenizer-init",
    "--trust-remote-code",
)
