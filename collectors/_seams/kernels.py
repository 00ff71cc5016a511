"""Seams of ``collectors/kernels.py`` (profiler windows) and ``collectors/census.py`` (what captured graphs hold)."""

from m3probe.collectors._seams._seam import Seam

SEAMS = {
    "profile_step": Seam(
        "vllm.v1.worker.gpu_worker",
        "Worker.execute_model",
        "one step of a profiler window: annotated as vLLM does; the CPU worker inherits it",
        needs=("scheduler_output",),
    ),
    "profile_sample": Seam(
        "vllm.v1.worker.gpu_worker", "Worker.sample_tokens", "the last kernels of a step: the window may close"
    ),
    "census_end": Seam("torch.cuda.graphs", "CUDAGraph.capture_end", "CUDA: a captured graph's nodes are read"),
    "census_v2": Seam(
        "vllm.v1.worker.gpu.cudagraph_utils",
        "CudaGraphManager.capture",
        "the loop over descriptors of Model Runner V2; each descriptor's capture gets a profiler window",
        needs=("create_forward_fn",),
    ),
    "census_v1": Seam(
        "vllm.v1.worker.gpu_model_runner",
        "GPUModelRunner._warmup_and_capture",
        "warm-up and capture of one descriptor of Model Runner V1",
        needs=("desc", "cudagraph_runtime_mode"),
    ),
}
