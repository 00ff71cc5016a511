#!/usr/bin/env bash
# Made by hand with the settings of the gated InferenceX recipe (PR 2187): sparse attention and emulation only where
# prompts are long and many.
set -euo pipefail
MODEL=MiniMaxAI/MiniMax-M3-MXFP8
TP=4
export VLLM_ROCM_USE_AITER=1
export VLLM_ROCM_QUICK_REDUCE_QUANTIZATION="${QR_QUANT:-INT4}"
export VLLM_ROCM_QUICK_REDUCE_CAST_BF16_TO_FP16=0 VLLM_ROCM_QUICK_REDUCE_QUANTIZATION_MIN_SIZE_KB=256

EXTRA=()
if [ "$ISL" -ge 8192 ] && [ "$CONC" -ge 64 ]; then
    export VLLM_ROCM_SHUFFLE_KV_CACHE_LAYOUT=1
    EXTRA+=(--linear-backend emulation)
fi
PARALLEL=(--tensor-parallel-size "$TP")   # no expert parallelism here

cat > /tmp/note.txt <<'NOTE'
vllm serve somewhere/else --this is 'text
NOTE
vllm serve "$MODEL" --port "$PORT" \
    "${PARALLEL[@]}" \
    --block-size 128 --kv-cache-dtype fp8 \
    --moe-backend aiter \
    "${EXTRA[@]}" > "$SERVER_LOG" 2>&1 &
SERVER_PID=$!
vllm bench serve --model "$MODEL" --max-concurrency "$CONC"
