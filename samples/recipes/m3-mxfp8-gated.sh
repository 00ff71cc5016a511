#!/bin/bash
# MiniMax M3 MXFP8 on MI355X at 8,192 tokens in and 64 requests or more: the settings of InferenceX PR 2187 and
# vllm-project/recipes PR 654. TP defaults to 4; at TP=2 this does not start on vLLM 0.32 and 0.33.
TP=${TP:-4}
export VLLM_ROCM_USE_AITER=1
export VLLM_ROCM_SHUFFLE_KV_CACHE_LAYOUT=1
export VLLM_USE_BREAKABLE_CUDAGRAPH=0
export VLLM_ROCM_QUICK_REDUCE_QUANTIZATION=INT4
export VLLM_ROCM_QUICK_REDUCE_CAST_BF16_TO_FP16=0
export VLLM_ROCM_QUICK_REDUCE_QUANTIZATION_MIN_SIZE_KB=256

SERVE_ARGS=(
  --tensor-parallel-size "$TP"
  --block-size 128
  --kv-cache-dtype fp8
  --attention-backend TRITON_ATTN
  --moe-backend aiter
  --linear-backend emulation
  --max-num-batched-tokens 32768
  --language-model-only
  --no-enable-prefix-caching
)

vllm serve MiniMaxAI/MiniMax-M3-MXFP8 "${SERVE_ARGS[@]}"
