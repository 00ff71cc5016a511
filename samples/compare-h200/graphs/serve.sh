#!/bin/sh
vllm serve M3 --load-format dummy --port 8766 --block-size 128 --max-model-len 8192 --max-num-batched-tokens 8192 --num-gpu-blocks-override 3000 --gpu-memory-utilization 0.6 --no-enable-prefix-caching --compilation-config '{"cudagraph_capture_sizes": [1, 2, 4, 8, 16, 32, 64]}'
