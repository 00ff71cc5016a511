export VLLM_ROCM_USE_AITER=1
if [ "$ROLE" = prefill ]; then
  export ROLE_NAME=p
  vllm serve M3 -tp 4 --port 8100
else
  export ROLE_NAME=d
  vllm serve M3 -tp 8 --port 8200
fi
