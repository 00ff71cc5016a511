"""Seams of ``collectors/steps.py``: steps, descriptors and replays."""

from m3probe.collectors._seams._seam import Seam

_V2 = "vllm.v1.worker.gpu.cudagraph_utils"

SEAMS: dict[str, Seam] = {
    "step_execute": Seam(
        "vllm.v1.worker.gpu_worker", "Worker.execute_model", "a step begins and ends", ("scheduler_output",)
    ),
    "step_sample": Seam("vllm.v1.worker.gpu_worker", "Worker.sample_tokens", "the step's tokens are sampled"),
    "step_forward": Seam(
        "vllm.v1.worker.gpu_model_runner", "GPUModelRunner._model_forward", "V1: the model is launched or replayed"
    ),
    "step_dispatch": Seam(
        "vllm.v1.worker.gpu_model_runner",
        "GPUModelRunner._determine_batch_execution_and_padding",
        "V1: mode and padded batch of a step, agreed with other data-parallel ranks",
    ),
    "step_dispatch_v2": Seam(
        "vllm.v1.worker.gpu.model_runner",
        "dispatch_cg_and_sync_dp",
        "V2: mode and padded batch of a step, agreed with other data-parallel ranks",
    ),
    "step_full_v2": Seam(_V2, "CudaGraphManager.run_fullgraph", "V2: one FULL replay, target's or draft's", ("desc",)),
    "step_context_v2": Seam(
        "vllm.v1.worker.gpu.model_runner", "set_forward_context", "V2: the model runs piecewise or eager inside it"
    ),
    "twin_dispatch": Seam(
        "vllm.v1.cudagraph_dispatcher",
        "CudagraphDispatcher.dispatch",
        "V1: made to find no graph in a twin step",
        ("num_tokens",),
    ),
    "twin_dispatch_v2": Seam(
        _V2, "CudaGraphManager.dispatch", "V2: made to find no graph in a twin step", ("num_reqs", "num_tokens")
    ),
    "graph_replay": Seam("torch.cuda.graphs", "CUDAGraph.replay", "one replay of a captured graph or piece"),
    "graph_replay_breakable": Seam(
        "vllm.compilation.breakable_cudagraph",
        "BreakableCUDAGraphWrapper._replay",
        "replay of all graphs between a batch's eager breaks",
        ("entry",),
    ),
    "graph_capture_v1": Seam(
        "vllm.compilation.cuda_graph", "CUDAGraphWrapper.__call__", "V1: capture of a graph or piece, at start-up only"
    ),
    "graph_capture_breakable": Seam(
        "vllm.compilation.breakable_cudagraph",
        "BreakableCUDAGraphWrapper._capture",
        "capture of a breakable graph, at start-up only",
        ("entry",),
    ),
    "graph_capture_v2": Seam(
        _V2, "CudaGraphManager.capture", "V2: the loop over descriptors, at start-up only", ("create_forward_fn",)
    ),
    "step_schedule": Seam("vllm.v1.core.sched.scheduler", "Scheduler.schedule", "the engine plans a step"),
    "step_update": Seam(
        "vllm.v1.core.sched.scheduler",
        "Scheduler.update_from_output",
        "the engine takes a step's tokens in",
        ("scheduler_output",),
    ),
}
