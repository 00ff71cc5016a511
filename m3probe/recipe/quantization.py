"""Which dtype a checkpoint's weights have, and which of vLLM's quantisation classes reads it.

Sources: ``layers/quantization/__init__.py`` and ``modelopt.py`` at 0.33 (MiniMax writes quant_method ``mxfp8``, read by
ModelOptMxFp8Config); published checkpoints' names; sglang PR 32904 (attention and dense of amd/MiniMax-M3-MXFP4 in BF16).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

MXFP8, MXFP4, BF16 = "mxfp8", "mxfp4", "bf16"
_PLAIN = {"bfloat16": BF16, "float16": "fp16", "float32": "fp32"}
MODELOPT_CLASS, QUARK_CLASS = "ModelOptMxFp8Config", "QuarkConfig"


@dataclass(frozen=True, slots=True)
class Quantization:
    """dtypes of dense and expert weights, vLLM's class, and on what this rests when nobody said it."""

    linear: str | None = None
    moe: str | None = None
    config_class: str | None = None
    assumed: str = ""


def of_config(config: Mapping[str, Any]) -> Quantization | None:
    """From config.json's ``quantization_config``; None when the form is not known. Without one: BF16."""
    section = config.get("quantization_config")
    nested = config.get("text_config")
    if section is None and isinstance(nested, Mapping):
        section = nested.get("quantization_config")
    if section is None:
        return Quantization(BF16, BF16)
    if not isinstance(section, Mapping):
        return None
    method = str(section.get("quant_method", "")).lower()
    if method == "mxfp8" or ("modelopt" in method and "MXFP8" in _algorithm(section)):
        return Quantization(MXFP8, MXFP8, MODELOPT_CLASS)
    return _quark(section) if method == "quark" else None


def of_resolved(method: Any, section: Any, dtype: str) -> Quantization:
    """From what a running vLLM holds: ``ModelConfig.quantization`` and ``VllmConfig.quant_config``.

    Args:
        method: None where the model is not quantised.
        section: that object's class and values; None where there is none.
        dtype: of unquantised weights, without ``torch.``.
    """
    if section is None and method is None:
        word = _PLAIN.get(dtype)
        return Quantization(word, word)
    name = section.get("class") if isinstance(section, Mapping) else None
    if name == MODELOPT_CLASS:
        return Quantization(MXFP8, MXFP8, MODELOPT_CLASS)
    if name == QUARK_CLASS and isinstance(section, Mapping):
        inner = section.get("quant_config")
        return (_quark(inner) if isinstance(inner, Mapping) else None) or Quantization(config_class=QUARK_CLASS)
    return Quantization(config_class=name if isinstance(name, str) else None)


def of_name(model: str, quantization: str | None) -> Quantization:
    """From a published checkpoint's name, or ``--quantization``; told as an assumption."""
    said = (quantization or "").lower()
    word = model.rpartition("/")[2].lower()
    if "mxfp8" in said or "mxfp8" in word:
        return Quantization(MXFP8, MXFP8, MODELOPT_CLASS, f"{model}: MXFP8 weights read by {MODELOPT_CLASS}")
    if said == "quark" or "mxfp4" in word:
        why = f"{model}: MXFP4 experts read by {QUARK_CLASS}, attention and dense weights in BF16 (sglang PR 32904)"
        return Quantization(BF16, MXFP4, QUARK_CLASS, why)
    if said or any(word_ in word for word_ in ("fp8", "fp4", "int4", "int8", "awq", "gptq")):
        return Quantization(assumed=f"{model}: the weights' dtype is not known; give --model-config")
    return Quantization(BF16, BF16, None, f"{model}: BF16 weights")


def _algorithm(section: Mapping[str, Any]) -> str:
    inner = section.get("quantization")
    found = section.get("quant_algo") or (inner.get("quant_algo") if isinstance(inner, Mapping) else "")
    return str(found or "").upper()


def _quark(section: Mapping[str, Any]) -> Quantization | None:
    """Experts by the global weight dtype; dense layers stay BF16 where ``exclude`` names attention."""
    overall = section.get("global_quant_config")
    weight = overall.get("weight") if isinstance(overall, Mapping) else None
    dtype = str(weight.get("dtype", "")) if isinstance(weight, Mapping) else ""
    moe = {"fp4": MXFP4, "fp8_e4m3": "fp8"}.get(dtype)
    if moe is None:
        return None
    excluded = section.get("exclude")
    names = [str(name) for name in excluded] if isinstance(excluded, list) else []
    spared = any("self_attn" in name or "qkv_proj" in name or "attention" in name for name in names)
    return Quantization(BF16 if spared else moe, moe, QUARK_CLASS)
