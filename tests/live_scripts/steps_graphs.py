"""In an environment with vLLM: its own dispatchers, wrappers and managers with graphs that record nothing (no GPU here).

Prints what the steps collector saw: of V1 (FULL and compiled pieces), of breakable graphs, and of V2.
"""

import gc
import json
import os
import sys
from contextlib import contextmanager, nullcontext
from types import SimpleNamespace

os.environ |= {"VLLM_LOGGING_LEVEL": "ERROR", "VLLM_USE_BREAKABLE_CUDAGRAPH": "1"}

import torch
from vllm.compilation import breakable_cudagraph, cuda_graph
from vllm.compilation.monitor import set_cudagraph_capturing_enabled
from vllm.config import CUDAGraphMode, VllmConfig, set_current_vllm_config
from vllm.forward_context import BatchDescriptor, set_forward_context
from vllm.platforms import current_platform
from vllm.v1.cudagraph_dispatcher import CudagraphDispatcher
from vllm.v1.worker import gpu_model_runner, gpu_worker
from vllm.v1.worker.gpu import cudagraph_utils, model_runner

from m3probe.collectors._now import NOW
from m3probe.collectors._probe import Probe
from m3probe.collectors.steps import Steps
from m3probe.schema import control, records
from m3probe.schema.roles import Level, Role

SIZES = [1, 2, 4, 8]


class Graph:
    """torch's CUDAGraph, without a device."""

    def capture_begin(self, *_args, **_kwargs):
        pass

    def capture_end(self):
        pass

    def replay(self):
        pass


class Worker:
    """The runner's caller; the real one needs a device."""

    def __init__(self, runner):
        self.model_runner = runner

    def execute_model(self, scheduler_output):
        self.model_runner.run(scheduler_output.total_num_scheduled_tokens, scheduler_output.uniform)

    def sample_tokens(self, grammar_output):
        return "tokens"


class Told(Probe):
    """Keeps what it is told."""

    def __init__(self):
        super().__init__(Level.LEDGER)
        self.told = []

    def put(self, record):
        self.told.append(record)


def stand_ins() -> None:
    torch.cuda.CUDAGraph = torch.cuda.graphs.CUDAGraph = Graph
    torch.cuda.graph = lambda *_args, **_kwargs: nullcontext()
    for module in (cuda_graph, breakable_cudagraph, cudagraph_utils):
        module.capture_pool = lambda *_args: nullcontext()
    cuda_graph.current_stream = lambda: None
    cudagraph_utils.graph_capture = lambda **_kwargs: nullcontext()
    cudagraph_utils.CudaGraphManager._capture_stream = lambda *_args: None
    cudagraph_utils.is_global_first_rank = lambda: False
    cudagraph_utils.get_pp_group = lambda: SimpleNamespace(is_first_rank=True, is_last_rank=True)
    type(current_platform).get_global_graph_pool = lambda *_args: None
    gpu_worker.Worker = Worker
    set_cudagraph_capturing_enabled(True)
    gc.disable()  # as in vLLM's capture loop: else each capture asks the device to give memory back


def config() -> VllmConfig:
    made = VllmConfig()
    made.compilation_config.cudagraph_mode = CUDAGraphMode.FULL_AND_PIECEWISE
    made.compilation_config.cudagraph_capture_sizes = SIZES
    made.compilation_config.max_cudagraph_capture_size = 8
    made.scheduler_config.max_num_seqs = 8
    return made


class V1(gpu_model_runner.GPUModelRunner):
    """V1 with its own dispatcher and wrappers, and no model."""

    def __init__(self, vllm_config, model, pieces):
        self.vllm_config, self.compilation_config = vllm_config, vllm_config.compilation_config
        self.model_config = SimpleNamespace(is_encoder_decoder=False)
        self.input_batch = SimpleNamespace(lora_id_to_lora_request={})
        self.uniform_decode_query_len = 1
        self.cudagraph_dispatcher = CudagraphDispatcher(vllm_config)
        self.cudagraph_dispatcher.initialize_cudagraph_keys(CUDAGraphMode.FULL_AND_PIECEWISE, 1)
        self.pieces = [pieces(model) for _ in range(2)]
        whole = cuda_graph.CUDAGraphWrapper(self.all_pieces, vllm_config, CUDAGraphMode.FULL)
        self.model = lambda **_inputs: whole()

    def all_pieces(self):
        for piece in self.pieces:
            piece()
        return ()

    def run(self, tokens, uniform):
        mode, batch, *_ = self._determine_batch_execution_and_padding(
            num_tokens=tokens,
            num_reqs=tokens if uniform else 1,
            num_scheduled_tokens_np=None,
            max_num_scheduled_tokens=1 if uniform else tokens,
            use_cascade_attn=False,
        )
        self.launch(mode, batch)

    def launch(self, mode, batch):
        with set_forward_context(None, self.vllm_config, cudagraph_runtime_mode=mode, batch_descriptor=batch):
            self._model_forward()

    def capture_model(self):
        for mode, keys in self.cudagraph_dispatcher.get_capture_descs():
            for key in keys:
                self.launch(CUDAGraphMode.NONE, None)
                self.launch(mode, key)


class V2:
    """V2 with its own manager, dispatch and forward context."""

    def __init__(self, vllm_config, model):
        self.vllm_config, self.model = vllm_config, lambda **_inputs: model()
        manager = cudagraph_utils.CudaGraphManager
        self.cudagraph_manager = manager(vllm_config, None, CUDAGraphMode.FULL_AND_PIECEWISE, 1)

    def run(self, tokens, uniform):
        desc, _ = model_runner.dispatch_cg_and_sync_dp(
            self.cudagraph_manager, tokens if uniform else 1, tokens, 1 if uniform else None, 1, 0
        )
        if desc.cg_mode == CUDAGraphMode.FULL:
            self.cudagraph_manager.run_fullgraph(desc)
        else:
            with self.context(desc):
                self.cudagraph_manager.run_pw_graph(self.model, {}) if desc.cg_mode.value else self.model()

    @contextmanager
    def context(self, desc):
        batch = BatchDescriptor(num_tokens=desc.num_tokens)
        inside = model_runner.set_forward_context
        with inside(None, self.vllm_config, cudagraph_runtime_mode=desc.cg_mode, batch_descriptor=batch):
            yield

    def capture_model(self):
        self.cudagraph_manager.init_breakable_cg_runner(self.model)

        def create(desc, warmup):
            def forward(mode):
                if mode == CUDAGraphMode.PIECEWISE:
                    with self.context(desc):
                        self.cudagraph_manager.run_pw_graph(self.model, {})
                else:
                    self.model()

            return forward

        self.cudagraph_manager.capture(create)


def scheduled(tokens: int, uniform: bool):
    return SimpleNamespace(
        uniform=uniform,
        total_num_scheduled_tokens=tokens,
        num_scheduled_tokens={str(n): 1 for n in range(tokens)},
        scheduled_new_reqs=[],
        scheduled_cached_reqs=SimpleNamespace(
            req_ids=[str(n) for n in range(tokens)], num_computed_tokens=[7] * tokens, num_output_tokens=[1] * tokens
        ),
        scheduled_spec_decode_tokens={},
    )


def seen(make) -> dict:
    """Capture, then steps of 1, 3 and 8 rows, 5 of one request, 100, then 3 again as a twin."""
    looks = []

    def model():
        looks.append([NOW.descriptor, str(NOW.stage)])
        eager_break()
        return ()

    runner, probe = make(model), Told()
    worker = Worker(runner)
    probe._hosts[Role.WORKER] = lambda: worker
    part = Steps(probe)
    part.role = Role.WORKER
    part.loaded()
    runner.capture_model()
    captured = [look for look in looks if look[1] == "capture"]
    part.captured()
    part.arm()
    part.ask(control.Twin(at=5, steps=1))
    for tokens, uniform in ((1, True), (3, True), (8, True), (5, False), (100, True), (3, True)):
        worker.execute_model(scheduled(tokens, uniform))
        worker.sample_tokens(None)
    part.tick()
    part.disarm()
    probe.patches.undo()
    steps = [s for r in probe.told if isinstance(r, records.StepCounts) for s in r.steps]
    return {
        "captured": captured,
        "descriptors": [
            [d.id, d.mode, d.padded_rows, d.runner] for d in probe.told if isinstance(d, records.Descriptor)
        ],
        "steps": [[s.mode, s.descriptor, s.padded_rows, s.rows_sum, s.replays, str(s.stage)] for s in steps],
        "launch_known": [s.launch_ns >= 0 for s in steps],
        "failed": dict(probe.patches.failed),
    }


@breakable_cudagraph.eager_break_during_capture
def eager_break():
    """Attention of a breakable model: two graphs, one on each side."""


stand_ins()
vllm_config = config()
with set_current_vllm_config(vllm_config):
    pieces = CUDAGraphMode.PIECEWISE
    found = {
        "v1": seen(lambda m: V1(vllm_config, m, lambda one: cuda_graph.CUDAGraphWrapper(one, vllm_config, pieces))),
        "breakable": seen(
            lambda m: V1(
                vllm_config,
                m,
                lambda one: breakable_cudagraph.BreakableCUDAGraphWrapper(one, vllm_config, runtime_mode=pieces),
            )
        ),
        "v2": seen(lambda m: V2(vllm_config, m)),
    }
sys.stdout.write("OUTCOME " + json.dumps(found) + "\n")
