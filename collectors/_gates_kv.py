"""FP8 flavours around a KV cache: what is stored, as what it is read, and what this platform computes in."""

from __future__ import annotations

import sys
from typing import Any

from m3probe.collectors._gates_facts import Worker, caches_of
from m3probe.collectors._modules_look import dtype, get
from m3probe.schema.gates import CacheDtypes


def kv(worker: Worker) -> CacheDtypes | None:
    """Of the first layer whose writer and reader differ, else of the first layer whose reader is unknown, else of any."""
    found = [layer_dtypes(layer, tensor) for layer, tensor, _spec in caches_of(worker)]
    if not found:
        return None
    differ = (f for f in found if f.writer and f.reader and f.writer != f.reader)
    unknown = (f for f in found if f.writer is None or f.reader is None)
    return next(differ, None) or next(unknown, None) or found[0]


def layer_dtypes(layer: Any, tensor: Any) -> CacheDtypes:
    """A cache that holds bytes is read as its impl says; one with a dtype of its own is read as that dtype.

    vLLM's write kernels store the platform's flavour whatever the cache tensor is called, but for an impl that names
    another one (``kv_cache_fp8_dtype``); without either the writer is unknown.
    """
    stored, asked = get(tensor, "dtype"), str(get(layer, "kv_cache_dtype") or "auto")
    if "fp8" not in asked and "float8" not in dtype(stored):
        return CacheDtypes(dtype(stored), dtype(stored)) if dtype(stored) != "uint8" else CacheDtypes()
    platform = _platform()
    named = get(get(layer, "impl"), "kv_cache_fp8_dtype", "fp8_dtype")
    reader = named if named is not None else stored if "float8" in dtype(stored) else None
    writer = platform if platform is not None and "e5m2" not in asked else None
    return CacheDtypes(
        writer=dtype(writer) or None,
        reader=dtype(reader) or None,
        platform=dtype(platform) or None,
        codes_equal=codes_equal(writer, reader),
    )


def codes_equal(writer: Any, reader: Any) -> int | None:
    """Of the 256 byte codes, how many are the same number in both flavours (NaN equals NaN); on the CPU."""
    torch: Any = sys.modules.get("torch")
    if torch is None or writer is None or reader is None:
        return None
    if any("float8" not in dtype(flavour) for flavour in (writer, reader)):
        return None
    codes = torch.arange(256, dtype=torch.uint8)
    one, other = codes.view(writer).float(), codes.view(reader).float()
    return int(((one == other) | (one.isnan() & other.isnan())).sum())


def _platform() -> Any:
    """The FP8 dtype that this platform computes in; None where it has none."""
    platform = get(sys.modules.get("vllm.platforms"), "current_platform")
    ask = get(platform, "fp8_dtype")
    try:
        return ask() if callable(ask) else None
    except Exception:  # noqa: BLE001 - a platform without FP8
        return None
