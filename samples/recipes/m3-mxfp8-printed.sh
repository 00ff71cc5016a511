#!/bin/bash
# MiniMax M3 MXFP8 on four MI355X, as the vLLM blog of 2026-09-10 prints it: AITER on, and neither the shuffled cache
# layout, nor emulated linear layers, nor a quantised all-reduce, all of which its 128-request figure was measured with.
export VLLM_ROCM_USE_AITER=1
export VLLM_USE_BREAKABLE_CUDAGRAPH=0

vllm serve MiniMaxAI/MiniMax-M3-MXFP8 \
  --tensor-parallel-size 4 \
  --block-size 128 \
  --kv-cache-dtype fp8 \
  --attention-backend TRITON_ATTN \
  --moe-backend aiter \
  --max-num-batched-tokens 32768 \
  --language-model-only \
  --no-enable-prefix-caching \
  --tool-call-parser minimax_m3 --reasoning-parser minimax_m3 --enable-auto-tool-choice
