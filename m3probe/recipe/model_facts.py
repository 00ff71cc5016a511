"""What paths need to know of the served model: from its config.json, else from a published checkpoint's name."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from m3probe.errors import M3ProbeError, UnreadableInput
from m3probe.model.model_config import (
    DENSE_TYPES,
    LARGEST_SIZE,
    M3_TYPES,
    MOST_BYTES,
    ModelConfig,
    load_model_config,
    minimax_m3,
    model_config_of,
)
from m3probe.readers.small_file import read_small
from m3probe.recipe.quantization import Quantization, of_config, of_name
from m3probe.schema.setup import ModelFacts

ACTIVATION = (1.702, 1.0, 7.0)
"""SwiGLU-OAI alpha, beta and limit of the published checkpoint."""
HIDDEN = "(set)"
"""What a guest writes in the place of a value whose name may be a key's."""
_FACT_OF = {
    "hidden_size": "hidden_size",
    "num_hidden_layers": "layers",
    "num_attention_heads": "q_heads",
    "num_key_value_heads": "kv_heads",
    "head_dim": "head_dim",
    "num_local_experts": "experts",
    "num_experts_per_tok": "top_k",
    "n_shared_experts": "shared_experts",
    "intermediate_size": "moe_intermediate",
    "max_position_embeddings": "max_positions",
}


@dataclass(frozen=True, slots=True)
class Known:
    """The model's sizes (None: not known), its facts, and what of them was assumed."""

    config: ModelConfig | None
    facts: ModelFacts
    assumed: tuple[str, ...] = ()


def known_model(model: str, config_file: Path | None, quantization: str | None, *, local: bool = True) -> Known:
    """Facts of a model by its config file, else by a folder of that name, else by its name.

    Args:
        local: whether a folder of that name on this machine is the model's.

    Raises:
        UnreadableInput: the config file is missing, damaged, or of a model whose sizes cannot be read.
    """
    file = config_file or (_local(model) if local else None)
    if file is not None:
        return _from_file(file, model, quantization, asked=config_file is not None)
    if _is_m3(model):
        return _known(minimax_m3(), model, of_name(model, quantization), {}, ("sizes of the published MiniMax M3",))
    why = f"{model or 'the model'}: sizes are not known; give --model-config for more than generic rules"
    return Known(None, ModelFacts(name=model), (why,))


def _local(model: str) -> Path | None:
    """The config of a model served from a folder of this machine."""
    try:
        file = Path(model) / "config.json" if model else None
        return file if file and file.is_file() else None
    except (OSError, ValueError):
        return None


def _is_folder(path: Path) -> bool:
    try:
        return path.is_dir()
    except (OSError, ValueError):
        return False  # whoever opens it says why


def _is_m3(model: str) -> bool:
    name = model.rstrip("/").rpartition("/")[2].lower()
    return name.startswith("minimax-m3") and "eagle" not in name


def _from_file(file: Path, model: str, quantization: str | None, *, asked: bool) -> Known:
    raw = _raw(file / "config.json" if _is_folder(file) else file)
    found = of_config(raw)
    weights = found or of_name(model, quantization)
    try:
        config = load_model_config(file)
    except M3ProbeError:
        if not asked or not _is_foreign(raw):
            raise
        # A model whose shapes cannot be predicted still has rules that ask for no shape.
        why = f"{raw['model_type']}: no shapes can be predicted; only rules that ask for no size are judged"
        return Known(None, _generic(model, raw, weights), (why,))
    said = () if found else (weights.assumed or "the weights' dtype is not known from quantization_config",)
    return _known(config, model, weights, raw, tuple(said))


def known_of(raw: Mapping[str, Any], model: str, weights: Quantization) -> Known:
    """Facts by a config.json's values as a recording holds them; values that it lacks are not known.

    ``HIDDEN`` stands where a recording keeps a value back. MiniMax M3's class gives absent keys the published
    checkpoint's values, and those of a hidden key would be a guess.
    """
    hidden = {key for key, value in raw.items() if value == HIDDEN}
    told = {key: value for key, value in raw.items() if key not in hidden}
    try:
        known = _known(model_config_of(told, "the recording's model"), model, weights, told, ())
    except M3ProbeError:
        return Known(None, _generic(model, told, weights) if told else ModelFacts(name=model))
    if not hidden:
        return known
    lost: dict[str, Any] = {fact: None for key, fact in _FACT_OF.items() if key in hidden}
    return Known(None, replace(known.facts, **lost))


def _is_foreign(raw: Mapping[str, Any]) -> bool:
    """Whether it names a kind of model whose shapes nobody here can predict: no damage, then."""
    kinds = {str(section.get("model_type") or "") for section in (raw, _text(raw))} - {""}
    return bool(kinds) and not kinds & (M3_TYPES | DENSE_TYPES)


def _raw(file: Path) -> Mapping[str, Any]:
    try:
        found = json.loads(read_small(file, MOST_BYTES).decode("utf-8-sig"))
    except (ValueError, RecursionError) as error:
        raise _no_config(f"not a JSON document ({error})", file) from error
    if not isinstance(found, dict):
        raise _no_config("no JSON object", file)
    return found


def _no_config(what: str, file: Path) -> UnreadableInput:
    return UnreadableInput(what, where=str(file), next_move="Give the checkpoint's own config.json")


def _generic(model: str, raw: Mapping[str, Any], weights: Quantization) -> ModelFacts:
    """Sizes that every Hugging Face decoder states by these keys."""
    nested = raw.get("text_config")
    text = nested if isinstance(nested, Mapping) else raw

    def size(*keys: str) -> int | None:
        found = (text.get(key) for key in keys)
        return next((v for v in found if isinstance(v, int) and not isinstance(v, bool) and v > 0), None)

    return ModelFacts(
        name=model,
        hidden_size=size("hidden_size"),
        layers=size("num_hidden_layers"),
        q_heads=size("num_attention_heads"),
        kv_heads=size("num_key_value_heads", "num_attention_heads"),
        head_dim=size("head_dim"),
        experts=size("num_local_experts", "n_routed_experts", "num_experts"),
        top_k=size("num_experts_per_tok"),
        shared_experts=size("n_shared_experts") or 0,
        sparse_layers=0,
        linear_quant=weights.linear,
        moe_quant=weights.moe,
        quant_config_class=weights.config_class,
        max_positions=size("max_position_embeddings"),
        dtype=_dtype(raw),
    )


def _known(
    config: ModelConfig, model: str, weights: Quantization, raw: Mapping[str, Any], assumed: tuple[str, ...]
) -> Known:
    experts = config.num_experts or None
    facts = ModelFacts(
        name=model or config.name,
        is_minimax_m3=config.is_minimax_m3,
        hidden_size=config.hidden_size,
        layers=config.num_layers,
        dense_layers=config.dense_layers,
        moe_layers=config.sparse_layers,
        sparse_layers=config.sparse_attention_layers,
        q_heads=config.q_heads,
        kv_heads=config.kv_heads,
        head_dim=config.head_dim,
        index_heads=config.index_heads or None,
        index_dim=config.index_dim or None,
        index_score=_index_score(raw) if config.sparse_attention_layers else None,
        sparse_block_tokens=config.sparse_block_tokens or None,
        sparse_topk_blocks=config.sparse_topk_blocks or None,
        experts=experts,
        top_k=config.top_k or None,
        shared_experts=config.shared_experts,
        moe_intermediate=config.moe_intermediate or None,
        activation=_activation(raw) if config.is_minimax_m3 else None,
        linear_quant=weights.linear,
        moe_quant=weights.moe,
        quant_config_class=weights.config_class,
        max_positions=config.max_positions or None,
        dtype=_dtype(raw),
    )
    return Known(
        config, facts, (*assumed, *((weights.assumed,) if weights.assumed and weights.assumed not in assumed else ()))
    )


def _small(value: object, default: float) -> float:
    """A number of a size that float() takes; the published one for anything else."""
    fits = isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < LARGEST_SIZE
    return float(value) if fits and isinstance(value, int | float) else default


def _dtype(raw: Mapping[str, Any]) -> str | None:
    """``torch_dtype``, or ``dtype`` as newer files call it, of the text model."""
    said = (section.get(key) for section in (_text(raw), raw) for key in ("torch_dtype", "dtype"))
    return next((value for value in said if isinstance(value, str)), None)


def _text(raw: Mapping[str, Any]) -> Mapping[str, Any]:
    nested = raw.get("text_config")
    return nested if isinstance(nested, Mapping) else raw


def _index_score(raw: Mapping[str, Any]) -> str:
    section = _text(raw).get("sparse_attention_config")
    said = section.get("sparse_score_type") if isinstance(section, Mapping) else None
    return said if isinstance(said, str) else "max"


def _activation(raw: Mapping[str, Any]) -> tuple[float, float, float]:
    text = _text(raw)
    said = [text.get(key) for key in ("swiglu_alpha", "swiglu_beta", "swiglu_limit")]
    alpha, beta, limit = (_small(v, default) for v, default in zip(said, ACTIVATION, strict=True))
    return alpha, beta, limit
