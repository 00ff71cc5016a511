"""Seams of start-up: which process is what, and when it is ready."""

from m3probe.collectors._seams._seam import Seam

SEAMS = {
    "worker_load": Seam(
        "vllm.v1.worker.gpu_worker", "Worker.load_model", "the model is loaded: this process is a worker", early=True
    ),
    "worker_ready": Seam(
        "vllm.v1.worker.gpu_worker", "Worker.compile_or_warm_up_model", "warm-up and graph capture are over", early=True
    ),
    "worker_ready_cpu": Seam(
        "vllm.v1.worker.cpu_worker", "CPUWorker.compile_or_warm_up_model", "the same on the CPU platform", early=True
    ),
    "engine_ready": Seam(
        "vllm.v1.core.sched.scheduler",
        "Scheduler.__init__",
        "the scheduler is built: this process is an engine",
        early=True,
    ),
    "api_ready": Seam("vllm.v1.engine.async_llm", "AsyncLLM.__init__", "the API server has its client", early=True),
    "api_ready_offline": Seam("vllm.v1.engine.llm_engine", "LLMEngine.__init__", "an offline LLM", early=True),
}
