"""Stand-ins for the seams of fast paths, with the names and signatures that vLLM 0.24.0 to 0.33.0 and AITER have."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from enum import Enum
from types import ModuleType, SimpleNamespace
from typing import Any, ClassVar

import pytest

from m3probe import fastpaths
from m3probe.collectors._dispatch_calls import Calls
from m3probe.collectors._dispatch_keep import keeping_cache
from m3probe.collectors._dispatch_read import ONE_OF
from m3probe.collectors._dispatch_table import BRANCHES
from m3probe.collectors._patch import Patches, around
from m3probe.collectors._seams import SEAMS, find
from m3probe.schema.paths import FastPath
from m3probe.schema.records import Dispatch
from m3probe.schema.shelf import scan

WORDS = {
    name: {variant.name for variant in path.variants}
    for name, path in scan("m3probe.fastpaths", fastpaths.__path__, "FAST_PATH", FastPath).items()
}
OUTSIDE = {
    "NCCL",
    "torch.distributed",
    "symmetric memory",
    "FlashInfer",
    "CPU shared memory",
    "another GEMM",
    "MSA (NVIDIA)",
}
"""What the catalogue has no variant for."""
SIZES = {"bfloat16": 2, "float16": 2, "float32": 4, "float8_e4m3fn": 1, "uint8": 1}


@dataclass
class Tensor:
    """Shape and dtype of a tensor; there are no values to read."""

    shape: tuple[int, ...]
    dtype: str = "torch.bfloat16"

    def numel(self) -> int:
        """Elements."""
        found = 1
        for dim in self.shape:
            found *= dim
        return found

    def element_size(self) -> int:
        """Bytes of one."""
        return SIZES[self.dtype.removeprefix("torch.")]


class Codec(Enum):
    """``QuickReduceRegime`` from 0.25.1 on."""

    FP = 0
    INT8 = 1
    INT6 = 2
    INT4 = 3
    INT3 = 4
    NONE = 5


MIB = 1024 * 1024


class Quick:
    """``QuickAllReduce`` at TP4 and INT4, with the two lines of its table that the tests need."""

    _SUPPORTED_DTYPES = ("torch.float16", "torch.bfloat16")
    _QR_MIN_SIZE: ClassVar[dict[tuple[str, int], list[int]]] = {
        ("torch.float16", 4): [1 * MIB, 16 * MIB, 4 * MIB, 2 * MIB, 2 * MIB],
        ("torch.bfloat16", 4): [8 * MIB, 64 * MIB, 64 * MIB, 16 * MIB, 16 * MIB],
    }

    def __init__(self, *, cast: bool = False, least: int | None = None, flydsl: bool = False) -> None:
        self.disabled, self.world_size = False, 4
        self.use_fp16_kernels, self.qr_min_size, self.qr_max_size = cast, least, 512 * MIB
        self.qr_quant_level = Codec.INT4
        self.quantised_from, self.flydsl = 0, flydsl

    def should_quick_allreduce(self, inp: Tensor) -> bool:
        """The real one's verdict for one contiguous block."""
        size = inp.numel() * inp.element_size()
        dtype = "torch.float16" if self.use_fp16_kernels else inp.dtype
        least = self._QR_MIN_SIZE[dtype, 4][3] if self.qr_min_size is None else self.qr_min_size
        return not self.disabled and size % 16 == 0 and least <= size <= self.qr_max_size

    def quick_all_reduce(self, inp: Tensor, *, out: Tensor | None = None) -> Tensor:
        """Out of place."""
        return inp

    def _get_qr_quant_level(self, inp: Tensor) -> int:
        return Codec.FP.value if inp.numel() * 2 < self.quantised_from else Codec.INT4.value

    def _use_flydsl_int4(self, inp: Tensor) -> bool:
        return self.flydsl


class Custom:
    """``CustomAllreduce`` of vLLM: up to 8 MiB."""

    def __init__(self) -> None:
        self.disabled, self.world_size, self.fully_connected, self.max_size = False, 4, True, 8 * MIB

    def should_custom_ar(self, inp: Tensor) -> bool:
        """Below its limit."""
        return inp.numel() * inp.element_size() < self.max_size

    def custom_all_reduce(self, input: Tensor) -> Tensor | None:  # noqa: A002 - vLLM's name
        """None: it refused."""
        return input if self.should_custom_ar(input) else None


class Nccl:
    """``PyNcclCommunicator``."""

    def all_reduce(self, in_tensor: Tensor) -> Tensor | None:
        """One call of RCCL."""
        return in_tensor


class Communicator:
    """``CudaCommunicator``, asking in the order of vLLM's."""

    def __init__(self, quick: Quick | None, custom: Custom | None, name: str = "tp:0") -> None:
        self.qr_comm, self.ca_comm, self.pynccl_comm, self.unique_name = quick, custom, Nccl(), name
        self.aiter_ar_comm = None

    def all_reduce(self, input_: Tensor) -> Any:
        """Quick, then custom, then RCCL."""
        if self.qr_comm is not None and self.qr_comm.should_quick_allreduce(input_):
            return self.qr_comm.quick_all_reduce(input_)
        if self.ca_comm is not None and self.ca_comm.should_custom_ar(input_):
            return self.ca_comm.custom_all_reduce(input_)
        return self.pynccl_comm.all_reduce(input_)


class Hooked:
    """The table's hooks on stand-ins; ``told`` are the records since the last time."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.calls, self.patches, self._monkeypatch = Calls(), Patches(), monkeypatch
        self.compiling = False
        self.classes: set[str] = set()
        """Names of experts' classes that stand for themselves."""
        torch = ModuleType("torch")
        torch.version = SimpleNamespace(hip="7.0")  # type: ignore[attr-defined]
        compiler = ModuleType("torch.compiler")
        compiler.is_compiling = lambda: self.compiling  # type: ignore[attr-defined]
        monkeypatch.setitem(sys.modules, "torch", torch)
        monkeypatch.setitem(sys.modules, "torch.compiler", compiler)

    def seam(self, seam: str, stand_in: Any) -> None:
        """Put a class or function where vLLM has it, and the table's hook on it."""
        wanted = SEAMS[seam]
        module = sys.modules.get(wanted.module)
        if module is None:
            module = ModuleType(wanted.module)
            self._monkeypatch.setitem(sys.modules, wanted.module, module)
        self._monkeypatch.setattr(module, wanted.name.split(".")[0], stand_in, raising=False)
        self.hook(seam)

    def hook(self, seam: str) -> None:
        """The hook alone, where the module is there already."""
        found = find(seam)
        assert found.state == "present", found.text
        before, after = self.calls.hooks(seam, BRANCHES[seam])
        made = keeping_cache(around(self.patches, seam, before=before, after=after, traced=True))
        for owner in (found.owner, *found.also):
            assert self.patches.put(seam, owner, found.name, made) is not None

    def told(self) -> list[Dispatch]:
        """Records; no hook has failed, and variants are the catalogue's words."""
        assert self.patches.said == {}
        told = self.calls.drain()
        for record in told:
            words = set(record.variant.split(ONE_OF)) - OUTSIDE - {""}
            assert words <= WORDS[record.path] | self.classes, record
        return told

    def module(self, seam: str) -> Any:
        """Where vLLM's code looks the function up."""
        return sys.modules[SEAMS[seam].module]


@pytest.fixture
def hooked(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Hooks that come off at the end."""
    made = Hooked(monkeypatch)
    yield made
    assert made.patches.undo() == ()


def only(told: list[Dispatch], path: str) -> list[Dispatch]:
    """Records of one path."""
    return [record for record in told if record.path == path]
