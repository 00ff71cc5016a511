"""How a call is read: its rows, bytes and words, from shapes and plain attributes; no tensor value is ever touched.

A reader takes ``(args, kwargs, result)`` of the call. Those of calls that are told by what ran inside get the word of
that as their result.
"""

from __future__ import annotations

import sys
import weakref
from collections.abc import Callable
from fnmatch import fnmatchcase
from typing import Any

Args = tuple[Any, ...]
Kwargs = dict[str, Any]
Reader = Callable[[Args, Kwargs, Any], Any]
Said = tuple[tuple[str, str], ...]
"""(path, variant) pairs: one branch may be the fast one of one path and the fallback of another."""
Facts = tuple[tuple[str, Any], ...]

ONE_OF = " | "
"""Between variants where Python sees that one of them ran, and not which."""
EXPERTS = (
    ("AiterMxfp8*", "AITER FlyDSL", "AITER FlyDSL MXFP8"),
    ("AiterW4A8*", ONE_OF.join(("AITER FlyDSL", "AITER CK", "AITER asm")), "AITER W4A8"),
    ("AiterW4A16*", ONE_OF.join(("AITER FlyDSL", "AITER CK", "AITER asm")), "AITER W4A16"),
    ("Aiter*", ONE_OF.join(("AITER FlyDSL", "AITER CK", "AITER asm")), ONE_OF.join(("AITER FlyDSL W4A4", "AITER CK"))),
    ("Mxfp8Native*", "Triton MXFP8", "Triton MXFP8"),
    ("*OAITriton*", "triton_kernels", "triton_kernels"),
    ("*TrtLlm*", "TRT-LLM", "TRT-LLM"),
    ("*Triton*Experts", "Triton fused_moe", "Triton fused_moe"),
)
"""Class of the experts -> variant of ``moe_backend``, and of the path of its weights."""
_EXPERTS: dict[int, tuple[weakref.ref[Any], Said]] = {}
"""By the id of the quantisation method, one a layer; a reference tells whether it is still the same object."""
QUANTS = {"mxfp8": "mxfp8_moe", "mxfp4": "mxfp4_moe"}


def given(args: Args, kwargs: Kwargs, index: int, name: str) -> Any:
    """An argument, however it was passed."""
    return args[index] if len(args) > index else kwargs.get(name)


def rows(index: int, name: str) -> Reader:
    """Rows of an activation: its elements by the width of its last dimension."""

    def read(args: Args, kwargs: Kwargs, _result: Any) -> int:
        tensor = given(args, kwargs, index, name)
        shape = tensor.shape
        return int(shape[0]) if len(shape) <= 2 else int(tensor.numel() // shape[-1])

    return read


def tokens(index: int, name: str) -> Reader:
    """First dimension: rows of tensors that are split in heads."""
    return lambda args, kwargs, _result: int(given(args, kwargs, index, name).shape[0])


def payload(index: int, name: str) -> Reader:
    """Bytes of a tensor."""

    def read(args: Args, kwargs: Kwargs, _result: Any) -> int:
        tensor = given(args, kwargs, index, name)
        return int(tensor.numel() * tensor.element_size())

    return read


def number(index: int, name: str) -> Reader:
    """A plain number among the arguments."""
    return lambda args, kwargs, _result: int(given(args, kwargs, index, name))


def of(word: str, *paths: str) -> Reader:
    """The same word for these paths, whatever was passed."""
    said: Said = tuple((path, word) for path in paths)
    return lambda _args, _kwargs, _result: said


def inside(*paths: str) -> Reader:
    """The word of what ran inside."""
    return lambda _args, _kwargs, word: tuple((path, word) for path in paths)


def unless_none(word: str) -> Reader:
    """A communicator that returns None has refused."""
    return lambda _args, _kwargs, result: word if result is not None else ""


def ok(_args: Args, _kwargs: Kwargs, result: Any) -> bool:
    """What a predicate said."""
    return bool(result)


def tensor_parallel(reader: Reader) -> Reader:
    """Calls of the tensor-parallel group alone; the collectives of all groups are in ``bytes``."""

    def read(args: Args, kwargs: Kwargs, result: Any) -> Any:
        group = getattr(args[0], "unique_name", "")
        return reader(args, kwargs, result) if not group or group.startswith("tp:") else ()

    return read


def codec(args: Args, kwargs: Kwargs, _result: Any) -> str:
    """QuickReduce's codec for this payload; below its own threshold it is FP. FlyDSL's INT4 is 0.33's."""
    comm, tensor = args[0], given(args, kwargs, 1, "inp")
    flydsl = getattr(comm, "_use_flydsl_int4", None)
    if flydsl is not None and flydsl(tensor):
        return "FlyDSL INT4"
    level = comm._get_qr_quant_level(tensor)  # noqa: SLF001 - the call that vLLM makes itself
    return f"HIP {codec_name(comm, level)}"


def codec_name(comm: Any, level: Any) -> str:
    """INT3 and NONE have other numbers at 0.24, so vLLM's own enum is asked."""
    kinds = type(comm.qr_quant_level)
    return str(next((kind.name for kind in kinds if kind.value == level), level))


def nccl() -> str:
    """PyNccl is one name for two libraries."""
    version = getattr(sys.modules.get("torch"), "version", None)
    return "RCCL" if getattr(version, "hip", None) else "NCCL"


def nccl_ran(_args: Args, _kwargs: Kwargs, result: Any) -> str:
    """The library's name; nothing where it is switched off."""
    return nccl() if result is not None else ""


def cpu_reduce(args: Args, _kwargs: Kwargs, _result: Any) -> Said:
    """Shared memory of one host, or what torch.distributed has."""
    shm = type(args[0].dist_module).__name__ == "_CPUSHMDistributed"
    return (("custom_all_reduce", "CPU shared memory" if shm else "torch.distributed"),)


def fused_norm(_args: Args, kwargs: Kwargs, result: Any) -> Said:
    """AITER's all-reduce and norm; None: it refused, and the two run one after the other."""
    if result is None:
        return ()
    one = kwargs.get("use_1stage", False)
    return (("fused_allreduce_norm", "AITER one-stage" if one else "AITER two-stage"),)


def experts(args: Args, _kwargs: Kwargs, _result: Any) -> Said:
    """Which class computes the experts; ``moe_backend``, and the path of the weights' format. Worked out once a method."""
    method = getattr(args[0], "quant_method", None)
    held = _EXPERTS.get(id(method))
    if held is None or held[0]() is not method:
        held = _EXPERTS[id(method)] = (weakref.ref(method), experts_of(method))
    return held[1]


def experts_of(method: Any) -> Said:
    """The same from the quantisation method that a layer holds: its kernel's experts, else its own class."""
    kernel = getattr(method, "moe_kernel", None)
    found = getattr(kernel, "fused_experts", None)
    name = type(found if found is not None else method).__name__
    word, own = next(((w, o) for pattern, w, o in EXPERTS if fnmatchcase(name, pattern)), (name, name))
    said: Said = (("moe_backend", word),)
    return said + tuple((path, own) for quant, path in QUANTS.items() if quant in backend(method).lower())


def backend(method: Any) -> str:
    """vLLM's word for the backend that it selected: the value of ``mxfp8_backend``, ``fp8_backend``, ..."""
    for name in ("mxfp8_backend", "mxfp4_backend", "fp8_backend", "nvfp4_backend", "unquantized_backend"):
        found = getattr(method, name, None)
        if found is not None:
            value = str(getattr(found, "value", found))
            quant = name.removesuffix("_backend")
            return value if quant == "unquantized" or quant in value.lower() else f"{quant}: {value}"
    return ""


def linear(args: Args, _kwargs: Kwargs, _result: Any) -> Said:
    """Native MXFP8, or the BF16 F.linear that the native class falls to where K is no multiple of 128."""
    layer = args[1]
    blocks = layer.weight_scale.shape[0] != layer.weight.shape[0]  # one scale row for 32 weight rows: its own GEMM
    native = blocks or (layer.weight.element_size() == 1 and layer.weight.shape[-1] % 128 == 0)
    return (("mxfp8_linear", "native" if native else "emulation"),)


def attend_decode(word: str) -> Reader:
    """Decode rows of sparse attention; more than one token a request is multi-token verification too."""
    said: Said = (("sparse_attention", word), ("aiter_sparse_pa", word))
    verified: Said = (*said, ("spec_sparse_pa", word))

    def read(args: Args, kwargs: Kwargs, _result: Any) -> Said:
        length = kwargs.get("decode_query_len", args[8] if len(args) > 8 else 1)  # by position in Triton's alone
        return verified if isinstance(length, int) and length > 1 else said

    return read


def reuse(args: Args, kwargs: Kwargs, _result: Any) -> Said:
    """Whether a sparse layer reads the blocks that an earlier one chose; calls without metadata ran nothing."""
    layer = given(args, kwargs, 1, "layer")
    if _metadata(layer) is None:
        return ()
    return (("index_reuse", "reuse" if getattr(layer, "skip_index_topk", False) else "every layer chooses"),)


def msa(args: Args, kwargs: Kwargs, _result: Any) -> Said:
    """Blackwell's attend takes prefill rows (and, planned, decode rows); Triton's decode has a seam of its own."""
    metadata = _metadata(given(args, kwargs, 1, "layer"))
    return (("sparse_attention", "MSA"),) if getattr(metadata, "num_prefills", 0) else ()


def index_aiter(_args: Args, _kwargs: Kwargs, result: Any) -> Said:
    """The FP8 indexer of 0.32: a profiling run returns a pair of None."""
    return (("indexer", "FP8 (AITER, MSA)"),) if result and any(part is not None for part in result) else ()


def index_nvidia(_args: Args, _kwargs: Kwargs, result: Any) -> Said:
    """The MSA indexer of Blackwell, which has no variant in the catalogue."""
    return (("indexer", "MSA (NVIDIA)"),) if result and any(part is not None for part in result) else ()


def shared_mlp(args: Args, _kwargs: Kwargs, _result: Any) -> Said:
    """The MLP of an unfused shared expert; the dense layers' MLP is the same class."""
    prefix = str(getattr(getattr(args[0], "gate_up_proj", None), "prefix", ""))
    return (("shared_expert_fusion", "separate MLP"),) if ".shared_experts." in prefix else ()


def sparse_layer(args: Args, kwargs: Kwargs) -> str:
    """Name of the layer that a sparse attend is called for."""
    return str(getattr(given(args, kwargs, 1, "layer"), "layer_name", ""))


def index_branch(position: int) -> Reader:
    """What a fused QK-norm does for the indexer: dense layers have none, reusing layers skip it.

    Args:
        position: of ``num_index_heads``.
    """

    def read(args: Args, kwargs: Kwargs, _result: Any) -> Facts:
        if kwargs.get("skip_index_branch", False):
            return (("index", "skipped"),)
        return (("index", "computed" if given(args, kwargs, position, "num_index_heads") else "none"),)

    return read


def moe_key(args: Args, kwargs: Kwargs, result: Any) -> Facts:
    """AITER's key as its table has it, and the kernels that were chosen for it."""
    names = (
        "token", "model_dim", "inter_dim", "expert", "topk", "dtype", "q_dtype_a", "q_dtype_w", "q_type", "use_g1u1",
        "activation", "doweight_stage1",
    )  # fmt: skip
    key = [(name, plain(given(args, kwargs, index, name))) for index, name in enumerate(names)]
    for stage in ("stage1", "stage2"):
        kernel = getattr(getattr(result, stage, None), "keywords", {}).get("kernelName")
        key.append((stage, str(kernel or "")))
    return tuple(key)


def gemm_key(args: Args, kwargs: Kwargs, _result: Any) -> Facts:
    """M, N, K and the weight's dtype."""
    return tuple((n, plain(given(args, kwargs, i, n))) for i, n in enumerate(("M", "N", "K", "q_dtype_w")))


def gemm_row(_args: Args, _kwargs: Kwargs, result: Any) -> Said:
    """AITER returns the row of its table, or None for its default."""
    return (("tuned_table", "tuned row" if result is not None else "default"),)


def plain(value: Any) -> Any:
    """A number, a switch, or text without torch's prefix."""
    return value if isinstance(value, bool | int | float) else str(value).removeprefix("torch.")


def capturing() -> bool | None:
    """A graph is being captured on the stream of this thread; None where there are no graphs."""
    cuda = getattr(sys.modules.get("torch"), "cuda", None)
    return bool(cuda.is_current_stream_capturing()) if cuda is not None and cuda.is_initialized() else None


def _metadata(layer: Any) -> Any:
    """Attention metadata of this layer in the step that runs now; None in a profiling run."""
    context = getattr(sys.modules.get("vllm.forward_context"), "_forward_context", None)
    found = getattr(context, "attn_metadata", None)
    return found.get(getattr(layer, "layer_name", None)) if isinstance(found, dict) else None
