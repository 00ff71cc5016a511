"""Stand-ins for torch's modules and tensors and vLLM's layers, with the names that the model map reads (0.24.0 to 0.33.0)."""

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

SIZES = {"float32": 4, "bfloat16": 2, "float8_e4m3fn": 1, "uint8": 1, "int32": 4}


class Tensor:
    """Dims, a dtype and a storage; ``of``: a view of another tensor's storage."""

    is_meta = False

    def __init__(self, *shape: int, dtype: str = "bfloat16", of: "Tensor | None" = None, values: Any = None) -> None:
        self.shape, self.dtype, self._values = shape, f"torch.{dtype}", values
        self._storage: Any = of._storage if of is not None else _Storage(self.numel() * self.element_size())

    def numel(self) -> int:
        count = 1
        for dim in self.shape:
            count *= dim
        return count

    def element_size(self) -> int:
        return SIZES[self.dtype.removeprefix("torch.")]

    def untyped_storage(self) -> Any:
        return self._storage

    def tolist(self) -> Any:
        return self._values


class _Storage:
    def __init__(self, size: int) -> None:
        self._size = size

    def nbytes(self) -> int:
        return self._size

    def data_ptr(self) -> int:
        return id(self) if self._size else 0


class Module:
    """``torch.nn.Module``: parameters, buffers and children by what is set."""

    def __init__(self, **values: Any) -> None:
        self._parameters: dict[str, Any] = {}
        self._buffers: dict[str, Any] = {}
        self._modules: dict[str, Module] = {}
        for name, value in values.items():
            held = (
                self._modules if isinstance(value, Module) else self._parameters if isinstance(value, Tensor) else None
            )
            if held is not None:
                held[name] = value
            setattr(self, name, value)

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(name)

    def named_modules(self, memo: set[Any] | None = None, prefix: str = "") -> Iterator[tuple[str, "Module"]]:
        memo = set() if memo is None else memo
        if self not in memo:
            memo.add(self)
            yield prefix, self
            for name, child in self._modules.items():
                yield from child.named_modules(memo, f"{prefix}.{name}" if prefix else name)

    def modules(self) -> Iterator["Module"]:
        yield from (module for _name, module in self.named_modules())


class List(Module):
    """``ModuleList``."""

    def __init__(self, *children: Module) -> None:
        super().__init__()
        self._modules = {str(at): child for at, child in enumerate(children)}


class LinearBase(Module):
    """A linear layer of vLLM's; the method's class says how it is quantised."""


class ColumnParallelLinear(LinearBase):
    pass


class MergedColumnParallelLinear(ColumnParallelLinear):
    pass


class QKVParallelLinear(ColumnParallelLinear):
    pass


class RowParallelLinear(LinearBase):
    pass


class ReplicatedLinear(LinearBase):
    pass


class GateLinear(ReplicatedLinear):
    pass


class VocabParallelEmbedding(Module):
    pass


class ParallelLMHead(VocabParallelEmbedding):
    pass


class RMSNorm(Module):
    pass


class Attention(Module):
    """Has a cache of its own."""

    def get_kv_cache_spec(self, vllm_config: Any) -> None:
        """As vLLM's attention layers."""


class MiniMaxM3IndexerCache(Module):
    def get_kv_cache_spec(self, vllm_config: Any) -> None:
        """A cache without an implementation of attention."""


class RoutedExperts(Module):
    pass


class MoERunner(Module):
    pass


class UnquantizedLinearMethod:
    pass


class UnquantizedFusedMoEMethod:
    pass


class FlashImpl:
    """An attention implementation."""

    def __init__(self, **values: Any) -> None:
        self.__dict__.update(values)


class FlashBackend:
    @staticmethod
    def get_name() -> str:
        return "FLASH"


class Wrapper:
    """``CUDAGraphWrapper``: passes attributes on, and is no module."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner

    def unwrap(self) -> Any:
        return self._inner

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)


def linear(kind: type[LinearBase], n: list[int], k: int, whole: tuple[int, int], **more: Any) -> LinearBase:
    """A linear layer with local outputs ``n`` and inputs ``k`` of ``whole`` = (outputs, inputs)."""
    values = {
        "output_partition_sizes": n,
        "input_size_per_partition": k,
        "output_size": whole[0],
        "input_size": whole[1],
        "weight": Tensor(sum(n), k),
        "quant_method": UnquantizedLinearMethod(),
        "params_dtype": "torch.bfloat16",
    }
    return kind(**values | more)


def routed(local: int = 8, experts: int = 8, **more: Any) -> RoutedExperts:
    """Experts of hidden 256 and 128 columns a rank; ``more`` may name a ``slots`` of w13."""
    parallel = SimpleNamespace(tp_size=1, ep_size=experts // local, ep_rank=more.pop("ep_rank", 0), enable_eplb=False)
    config = SimpleNamespace(
        hidden_dim=256,
        intermediate_size_per_partition=128,
        hidden_dim_unpadded=256,
        intermediate_size_per_partition_unpadded=more.pop("unpadded", 128),
        is_act_and_mul=True,
        num_logical_experts=experts,
        moe_parallel_config=parallel,
    )
    slots = more.pop("slots", local)
    values = {
        "moe_config": config,
        "w13_weight": Tensor(slots, 256, 256),
        "w2_weight": Tensor(slots, 256, 128),
        "global_num_experts": experts,
        "local_num_experts": local,
        "top_k": 2,
        "quant_method": UnquantizedFusedMoEMethod(),
    }
    return RoutedExperts(**values | more)


def worker(model: Any, draft: Any = None, v2: bool = False, wrapped: bool = False, **more: Any) -> SimpleNamespace:
    """A worker of either runner with a loaded model."""
    runner = SimpleNamespace(model=Wrapper(model) if wrapped else model)
    if draft is not None:
        setattr(runner, "speculator" if v2 else "drafter", SimpleNamespace(model=draft, **more.pop("drafter", {})))
    runner.__dict__.update(more.pop("runner", {}))
    return SimpleNamespace(model_runner=runner, vllm_config=more.pop("vllm_config", None), rank=0, **more)
