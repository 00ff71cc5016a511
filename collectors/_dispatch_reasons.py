"""Why a predicate said no, with its number: the same tests as the predicate, read from the live object.

Asked once for each size that was refused. A test that is none of these is told as such, and never guessed.
"""

from __future__ import annotations

import sys
from typing import Any

from m3probe.collectors._dispatch_read import Args, Kwargs, codec_name, given

OTHER = "refused for a reason that is not known here"


def quick(args: Args, kwargs: Kwargs, _result: Any) -> str:
    """``QuickAllReduce.should_quick_allreduce``: the table is looked up for float16 where BF16 is cast to it."""
    comm, tensor = args[0], given(args, kwargs, 1, "inp")
    if comm.disabled:
        return "disabled when it was built"
    if tensor.dtype not in comm._SUPPORTED_DTYPES:  # noqa: SLF001 - vLLM has no other name for it
        return f"{name(tensor.dtype)} is not served"
    size, most = tensor.numel() * tensor.element_size(), comm.qr_max_size
    level = comm.qr_quant_level
    if size % 16:
        return f"{size:,} B is no multiple of 16"
    if size > most:
        return f"{size:,} > {most:,} B, QuickReduce's largest"
    dtype = "float16" if comm.use_fp16_kernels else name(tensor.dtype)
    least, where = comm.qr_min_size, "the override"
    if least is None:
        table = {(name(kind), world): sizes for (kind, world), sizes in comm._QR_MIN_SIZE.items()}  # noqa: SLF001
        least, where = table[(dtype, comm.world_size)][level.value], f"TP{comm.world_size}, {dtype}"
    if size < least:
        return f"{size:,} < {least:,} B, the smallest for {codec_name(comm, level.value)} ({where})"
    return "not one contiguous block"


def custom(args: Args, kwargs: Kwargs, _result: Any) -> str:
    """``CustomAllreduce.should_custom_ar`` of vLLM."""
    comm, tensor = args[0], given(args, kwargs, 1, "inp")
    size = tensor.numel() * tensor.element_size()
    if comm.disabled:
        return "disabled when it was built"
    if size % 16:
        return f"{size:,} B is no multiple of 16"
    if comm.world_size != 2 and not comm.fully_connected:
        return f"{comm.world_size} ranks that are not fully connected"
    if size >= comm.max_size:
        return f"{size:,} >= {comm.max_size:,} B, its limit"
    return f"{name(tensor.dtype)}, or not one contiguous block"


def aiter_custom(args: Args, kwargs: Kwargs, _result: Any) -> str:
    """``AiterCustomAllreduce.should_custom_ar``: AITER decides; its largest payload is known."""
    tensor, most = given(args, kwargs, 1, "inp"), _most_aiter(args[0])
    size = tensor.numel() * tensor.element_size()
    return f"{size:,} > {most:,} B, AITER's largest" if most is not None and size > most else OTHER


def fused_norm(args: Args, kwargs: Kwargs, _result: Any) -> str:
    """``_can_use_aiter_fused_ar_rms`` and, behind it, ``use_1stage_fused_ar_rms`` at 0.32 and 0.33."""
    ops = getattr(sys.modules.get("vllm._aiter_ops"), "rocm_aiter_ops", None)
    if ops is None or not ops.is_custom_all_reduce_enabled():
        return "AITER's custom all-reduce is not switched on"
    comm = ops.get_aiter_allreduce()
    if comm is None or comm.disabled:
        return "AITER's custom all-reduce is not built"
    return _two_stages(given(args, kwargs, 0, "hidden_states"), comm.aiter_ca)


def _two_stages(tensor: Any, comm: Any) -> str:
    """Why AITER's one-stage kernel does not take it."""
    size, rows, ranks = tensor.numel() * tensor.element_size(), tensor.numel() // tensor.shape[-1], comm.world_size
    packs = tensor.shape[-1] * tensor.element_size() / 16
    limit = 256 * 1024 if ranks <= 4 else 128 * 1024
    tests = (
        (rows > 80, f"{rows:,} rows > 80"),
        (packs > 1024 or packs % 1 > 0, f"a row of {packs:,g} packs of 16 B: at most 1,024 whole ones"),
        (ranks != 2 and not comm.fully_connected, f"{ranks} ranks that are not fully connected"),
        (ranks != 2 and size >= limit, f"{size:,} >= {limit:,} B at TP{ranks}"),
    )
    return next((text for refused, text in tests if refused), OTHER)


def qknorm(args: Args, kwargs: Kwargs, _result: Any) -> str:
    """``fused_qknorm_idxrqknorm_enabled``: it compares the word, so that bfloat16 is not auto."""
    dtype, scales = given(args, kwargs, 1, "kv_cache_dtype"), [
        given(args, kwargs, index, name_) is not None for index, name_ in ((2, "k_scale"), (3, "v_scale"))
    ]  # fmt: skip
    if not getattr(args[0], "_AITER_ENABLED", True):
        return "AITER is not switched on"
    if dtype in ("fp8", "fp8_e4m3") and not all(scales):
        return f"--kv-cache-dtype {dtype} without both scales"
    return f"--kv-cache-dtype {dtype} is none of auto, fp8, fp8_e4m3"


def said(_args: Args, _kwargs: Kwargs, result: Any) -> str:
    """The predicate returned its reason."""
    return str(result)


def decision(_args: Args, _kwargs: Kwargs, result: Any) -> str:
    """``StepDecision`` of the monokernel."""
    return str(result.reason)


def not_asked(_args: Args, _kwargs: Kwargs, _result: Any) -> str:
    """``minimax_m3_use_aiter_sparse_pa``: what it refuses raises, so False is that nobody asked."""
    return "VLLM_ROCM_USE_AITER and VLLM_ROCM_SHUFFLE_KV_CACHE_LAYOUT are not both on"


def name(dtype: Any) -> str:
    """``bfloat16``."""
    return str(dtype).removeprefix("torch.")


def _most_aiter(comm: Any) -> int | None:
    """``effective_max_size`` exists from 0.25.1 on."""
    limit = getattr(type(comm), "effective_max_size", None)
    return int(limit()) if limit is not None else None
