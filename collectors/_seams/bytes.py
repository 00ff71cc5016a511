"""Seams of ``collectors/bytes.py``: collectives and KV transfers."""

from m3probe.collectors._seams._seam import Seam

_STATE = "vllm.distributed.parallel_state"
_COMM = "vllm.distributed.device_communicators"
_AITER = "aiter.dist.device_communicators.custom_all_reduce"
_KV = "vllm.distributed.kv_transfer.kv_connector.v1"
_MORIIO = f"{_KV}.moriio.moriio_engine"


def _group(method: str, why: str) -> Seam:
    return Seam(_STATE, f"GroupCoordinator.{method}", why)


COLLECTIVES: dict[str, Seam] = {
    # the public all_reduce may go through an op of torch's, which ends in these
    "comm_all_reduce": _group("_all_reduce_out_place", "every all-reduce, from ops of compiled code too"),
    "comm_all_gather": _group("_all_gather_out_place", "every all-gather"),
    "comm_reduce_scatter": _group("_reduce_scatter_out_place", "every reduce-scatter"),
    "comm_all_gatherv": _group("all_gatherv", "all-gather of unequal parts (data parallel)"),
    "comm_reduce_scatterv": _group("reduce_scatterv", "reduce-scatter of unequal parts"),
    "comm_reduce_scatterv_into": _group("reduce_scatterv_into_output", "the same into a given tensor (from 0.32 on)"),
    "comm_gather": _group("gather", "gather of logits"),
    "comm_broadcast": _group("broadcast", "broadcast of a tensor"),
    "comm_broadcast_dict": _group("broadcast_tensor_dict", "broadcast of named tensors"),
    "comm_send": _group("send", "point to point"),
    "comm_recv": _group("recv", "point to point"),
    "comm_isend_dict": _group("isend_tensor_dict", "pipeline stage to the next; the blocking form ends here"),
    "comm_irecv_dict": _group("irecv_tensor_dict", "pipeline stage from the one before"),
    "comm_dispatch": _group("dispatch", "tokens to the ranks of their experts"),
    "comm_dispatch_logits": _group("dispatch_router_logits", "the same before routing"),
    "comm_combine": _group("combine", "expert outputs back to the ranks of their tokens"),
    "comm_combine_into": _group("combine_into_output", "the same into a given tensor (from 0.32 on)"),
    "comm_fused_aiter": Seam(
        _AITER, "CustomAllreduce.custom_fused_ar_rms", "all-reduce and RMSNorm in one AITER kernel"
    ),
    "comm_fused_aiter_old": Seam(_AITER, "CustomAllreduce.fused_ar_rms", "the same as vLLM 0.24 calls it"),
    "comm_fused_flashinfer": Seam(
        "vllm.model_executor.layers.fused_allreduce_gemma_rms_norm",
        "flashinfer_trtllm_fused_allreduce_norm",
        "all-reduce and RMSNorm in one FlashInfer kernel",
    ),
    "comm_indexer_exchange": Seam(
        "vllm.models.minimax_m3.amd.ops.indexer_cp_exchange",
        "aiter_all_gather",
        "exchange of a context-parallel indexer by AITER's IPC (0.33); otherwise it is an all-gather of the group",
        needs=("x",),
    ),
}
BACKENDS: dict[str, Seam] = {
    "backend_shm_all_reduce": Seam(f"{_COMM}.cpu_communicator", "_CPUSHMDistributed.all_reduce", "CPU shared memory"),
    "backend_shm_all_gather": Seam(
        f"{_COMM}.cpu_communicator", "_CPUSHMDistributed.all_gather_into_tensor", "CPU shared memory"
    ),
    "backend_shm_gather": Seam(f"{_COMM}.cpu_communicator", "_CPUSHMDistributed.gather", "CPU shared memory"),
    "backend_quick": Seam(f"{_COMM}.quick_all_reduce", "QuickAllReduce.quick_all_reduce", "quick reduce"),
    "backend_aiter": Seam(
        f"{_COMM}.aiter_custom_all_reduce", "AiterCustomAllreduce.custom_all_reduce", "AITER's custom all-reduce"
    ),
    "backend_custom": Seam(f"{_COMM}.custom_all_reduce", "CustomAllreduce.custom_all_reduce", "vLLM's custom all-reduce"),
    "backend_aiter_all_gather": Seam(
        f"{_COMM}.aiter_custom_all_reduce", "AiterCustomAllreduce.custom_all_gather", "AITER's, from 0.32 on"
    ),
    "backend_aiter_reduce_scatter": Seam(
        f"{_COMM}.aiter_custom_all_reduce", "AiterCustomAllreduce.custom_reduce_scatter", "AITER's, from 0.32 on"
    ),
    "backend_symm": Seam(f"{_COMM}.symm_mem", "SymmMemCommunicator.all_reduce", "symmetric memory"),
    "backend_flashinfer": Seam(f"{_COMM}.flashinfer_all_reduce", "FlashInferAllReduce.all_reduce", "FlashInfer"),
    "backend_pcie": Seam(
        f"{_COMM}.flashinfer_pcie_ipc_all_reduce", "FlashInferPcieIpcAllReduce.all_reduce", "FlashInfer over PCIe"
    ),
} | {
    f"backend_nccl_{method}": Seam(f"{_COMM}.pynccl", f"PyNcclCommunicator.{method}", "NCCL or RCCL by PyNccl")
    for method in (
        "all_reduce", "all_gather", "all_gatherv", "reduce_scatter", "reduce_scatterv", "send", "recv", "broadcast",
    )
}  # fmt: skip


def _connector(method: str, why: str, *needs: str) -> Seam:
    return Seam(f"{_KV}.base", f"KVConnectorBase_V1.{method}", why, needs=needs)


KV_WORKER: dict[str, Seam] = {
    "kv_register": _connector("register_kv_caches", "caches that a connector may read and write", "kv_caches"),
    "kv_load": _connector("start_load_kv", "loads of a step begin", "forward_context"),
    "kv_save": _connector("save_kv_layer", "one layer is saved", "layer_name", "kv_layer"),
    "kv_wait_save": _connector("wait_for_save", "the step waits until its saves are done"),
    "kv_finished": _connector("get_finished", "requests whose transfers are over"),
    "kv_nixl_transfer": Seam(
        f"{_KV}.nixl.stats", "NixlKVConnectorStats.record_transfer", "bytes and time of a NIXL transfer", needs=("res",)
    ),
    "kv_moriio_write": Seam(
        _MORIIO, "MoRIIOWrapper.write_remote_data", "bytes of a batch of writes", needs=("transfer_size_byte",)
    ),
    "kv_moriio_write_one": Seam(
        _MORIIO, "MoRIIOWrapper.write_remote_data_single", "bytes of one write", needs=("transfer_size_byte",)
    ),
    "kv_moriio_read": Seam(
        _MORIIO, "MoRIIOWrapper.read_remote_data", "bytes of a batch of reads", needs=("transfer_size_byte",)
    ),
    "kv_moriio_schedule": Seam(_MORIIO, "MoRIIOWriter.schedule_write", "a write is queued", needs=("task",)),
    "kv_moriio_finalize": Seam(
        _MORIIO,
        "MoRIIOWriter._finalize_if_complete",
        "writes done against writes expected, and the moment the blocks may be freed",
        needs=("transfer_id", "request_info"),
    ),
}
KV_WORKER["kv_moriio_ack"] = Seam(
    f"{_KV}.moriio.moriio_connector",
    "resolve_moriio_transfer_ack",
    "an acknowledgement, and whether it is the last that a transfer waits for (from 0.25.1 on)",
    needs=("ack", "producer_tp_size", "live_transfer_ids", "completed_transfer_ids"),
)
KV_MADE: dict[str, Seam] = {
    "kv_made": Seam(
        "vllm.distributed.kv_transfer.kv_connector.factory",
        "KVConnectorFactory.create_connector",
        "the connector of this process, before it registers its caches",
    ),
}
KV_ENGINE: dict[str, Seam] = {
    "kv_alloc": _connector(
        "update_state_after_alloc", "tokens of a request that come from outside", "request", "num_external_tokens"
    ),
    "kv_arrived": Seam(
        "vllm.v1.core.sched.scheduler",
        "Scheduler._update_from_kv_xfer_finished",
        "requests whose remote KV has arrived",
        needs=("kv_connector_output",),
    ),
    "kv_scheduled": Seam(
        "vllm.v1.core.sched.scheduler", "Scheduler.schedule", "requests that run after their KV arrived"
    ),
}
SEAMS: dict[str, Seam] = COLLECTIVES | BACKENDS | KV_WORKER | KV_MADE | KV_ENGINE
