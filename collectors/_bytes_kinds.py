"""How each seam of a collective is read, and which communicator's method means which backend."""

from __future__ import annotations

from m3probe.collectors._bytes_calls import Kind, tensor_parallel
from m3probe.collectors._seams.bytes import BACKENDS

_FUSED = Kind("all_reduce", whole=True, fused=True, refuses=True, group=tensor_parallel, backend="aiter")

KINDS: dict[str, Kind] = {
    "comm_all_reduce": Kind("all_reduce"),
    "comm_all_gather": Kind("all_gather"),
    "comm_reduce_scatter": Kind("reduce_scatter"),
    "comm_all_gatherv": Kind("all_gatherv"),
    "comm_reduce_scatterv": Kind("reduce_scatterv"),
    "comm_reduce_scatterv_into": Kind("reduce_scatterv"),
    "comm_gather": Kind("gather"),
    "comm_broadcast": Kind("broadcast"),
    "comm_broadcast_dict": Kind("broadcast_tensor_dict", payload="result"),
    "comm_send": Kind("send"),
    "comm_recv": Kind("recv", payload="result"),
    # with an all-gather group a pipeline send moves slices of these tensors; the bytes told are the whole tensors'
    "comm_isend_dict": Kind("send_tensor_dict"),
    "comm_irecv_dict": Kind("recv_tensor_dict", payload="result"),
    "comm_dispatch": Kind("dispatch", payload="args", whole=True),
    "comm_dispatch_logits": Kind("dispatch", payload="args", whole=True),
    "comm_combine": Kind("combine", whole=True),
    "comm_combine_into": Kind("combine", whole=True),
    "comm_fused_aiter": _FUSED,
    "comm_fused_aiter_old": _FUSED,
    "comm_fused_flashinfer": Kind(
        "all_reduce", whole=True, fused=True, group=tensor_parallel, method=False, backend="flashinfer"
    ),
    "comm_indexer_exchange": Kind(
        "all_gather", whole=True, refuses=True, group=tensor_parallel, method=False, backend="aiter"
    ),
}


def backend_of(seam: str) -> str:
    """``backend_shm_all_gather`` -> ``shm``; PyNccl is the same name on RCCL."""
    name = seam.removeprefix("backend_").partition("_")[0]
    return "pynccl" if name == "nccl" else name


BACKEND_OF = {seam: backend_of(seam) for seam in BACKENDS}
