"""What of a model's ``config.json`` decides the shapes its kernels see.

MiniMax M3's config class gives every absent key the value of the published checkpoint, so a short file
describes a full-size model; `load_model_config` does the same.  Values and keys were read from vLLM 0.33.0,
``transformers_utils/configs/minimax_m3.py``; which key builds which layer, from ``models/minimax_m3/amd/model.py``.
"""

from __future__ import annotations

import json
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from m3probe.errors import UnreadableInput

T = TypeVar("T", dict[str, object], list[object], str)

M3_NAME = "MiniMax M3"
M3_TYPES = frozenset({"minimax_m3_vl", "minimax_m3_text"})
# Dense decoders whose four projections per layer follow the same formulas as M3's dense layers.
DENSE_TYPES = frozenset({"llama", "mistral", "qwen2", "qwen3"})
_M3_ARCHITECTURE = "MiniMaxM3Sparse"
MOST_BYTES = 16 * 2**20
LARGEST_SIZE = 2**31 - 1
MOST_LAYERS = 10_000
"""Far above every model: some facts are worked out layer by layer."""
_SHOWN = 80
_JSON_WORDS = {dict: "an object", list: "a list", str: "a text"}
_M3_LEADING_DENSE = 3  # default of moe_layer_freq and sparse_attention_freq: three zeros, then ones


@dataclass(frozen=True)
class ModelConfig:
    """Global (unsharded) sizes of one decoder; heads, layers and experts are counts, widths are elements.

    ``dense_layers`` + ``sparse_layers`` = ``num_layers``, told apart by their MLP: one dense MLP, or routed
    experts.  ``sparse_attention_layers`` counts the layers with the index branch; it equals ``sparse_layers``
    in the published model but is set by another key.  0 means that the model has no such part.
    """

    name: str
    architecture: str
    hidden_size: int
    num_layers: int
    dense_layers: int
    sparse_layers: int
    sparse_attention_layers: int
    q_heads: int
    kv_heads: int
    head_dim: int
    index_heads: int
    index_dim: int
    sparse_block_tokens: int
    sparse_topk_blocks: int
    num_experts: int
    top_k: int
    shared_experts: int
    moe_intermediate: int
    shared_intermediate: int
    dense_intermediate: int
    vocab_size: int
    max_positions: int
    mtp_modules: int

    @property
    def is_minimax_m3(self) -> bool:
        """True when the file named itself MiniMax M3, whatever its sizes."""
        return self.name == M3_NAME


def minimax_m3() -> ModelConfig:
    """The published MiniMax M3 text backbone.

    Source: defaults of ``MiniMaxM3TextConfig`` in vLLM 0.33.0, ``transformers_utils/configs/minimax_m3.py``.
    """
    return _m3_from({}, architecture="MiniMaxM3SparseForCausalLM", where="")


def load_model_config(path: Path) -> ModelConfig:
    """Read a Hugging Face ``config.json``, given as the file or as the folder that holds it.

    Understood: MiniMax M3, flat or nested under ``text_config``, and dense Llama, Mistral, Qwen2 and Qwen3
    decoders, whose projections need no knowledge of their own.

    Raises:
        UnreadableInput: missing file, not JSON, a size that is no positive integer, or another kind of model.
    """
    file = path / "config.json" if _is_folder(path) else path
    return model_config_of(_read_object(file), str(file))


def model_config_of(outer: Mapping[str, object], where: str) -> ModelConfig:
    """The same from the document itself; ``where`` names it in errors.

    Raises:
        UnreadableInput: a size that is no positive integer, or another kind of model.
    """
    nested = _typed(outer, "text_config", dict, where)
    text = outer if nested is None else nested
    kinds = [_typed(section, "model_type", str, where) for section in (outer, text)]
    architecture = _architecture(text, where) or _architecture(outer, where)
    if M3_TYPES.intersection(kinds) or architecture.startswith(_M3_ARCHITECTURE):
        return _m3_from(text, architecture=architecture or _M3_ARCHITECTURE, where=where)
    for kind in kinds:
        if kind in DENSE_TYPES:
            return _dense_from(text, name=kind, architecture=architecture, where=where)
    said = next((kind for kind in kinds if kind is not None), None)
    named = "it names no model_type" if said is None else f"it describes model_type {_shown(said)}"
    raise UnreadableInput(
        f"{named}, and predicted shapes are known only for {M3_NAME} "
        f"and for dense {', '.join(sorted(DENSE_TYPES))} decoders",
        where=where,
        next_move="Leave the model config out: observed shapes are reported without a prediction",
    )


def _is_folder(path: Path) -> bool:
    try:
        return path.is_dir()
    except OSError:
        return False  # opening it says why


def _refusal(what: str, where: str) -> UnreadableInput:
    return UnreadableInput(what, where=where, next_move="Give the checkpoint's own config.json")


def _shown(value: object) -> str:
    """A value as an error tells it, short whatever the file holds."""
    try:
        text = repr(value)
    except RecursionError:
        return "something nested too deeply"
    except ValueError:  # Python writes out no integer of more than 4,300 digits
        return "an integer of thousands of digits"
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."


def _read_object(file: Path) -> dict[str, object]:
    try:
        # a pipe or a device would never end
        if not stat.S_ISREG(file.stat().st_mode):
            raise _refusal("not a regular file", str(file))
        with file.open("rb") as stream:
            raw = stream.read(MOST_BYTES + 1)
        data = json.loads(raw.decode("utf-8-sig")) if len(raw) <= MOST_BYTES else None
    except FileNotFoundError:
        raise UnreadableInput(
            "there is no such file", where=str(file), next_move="Give the model folder or its config.json"
        ) from None
    except OSError as error:
        raise UnreadableInput(
            f"cannot be opened ({error.strerror})", where=str(file), next_move="Check the path and its rights"
        ) from None
    except (ValueError, RecursionError) as error:
        raise _refusal(f"not a JSON document ({error})", str(file)) from None
    if len(raw) > MOST_BYTES:
        raise _refusal(f"larger than {MOST_BYTES // 2**20} MiB, which no model config is", str(file))
    if not isinstance(data, dict):
        raise _refusal(f"a JSON object was expected, found {type(data).__name__}", str(file))
    return data


def _typed(section: Mapping[str, object], key: str, kind: type[T], where: str) -> T | None:
    """The value under ``key``, None when it is absent or null."""
    value = section.get(key)
    if value is None or isinstance(value, kind):
        return value
    raise _refusal(f"{key} must be {_JSON_WORDS[kind]}, found {_shown(value)}", where)


def _architecture(section: Mapping[str, object], where: str) -> str:
    named = _typed(section, "architectures", list, where)
    if not named:
        return ""
    if not isinstance(named[0], str):
        raise _refusal(f"architectures must list names, found {_shown(named[0])}", where)
    return named[0]


def _size(
    section: Mapping[str, object],
    key: str,
    default: int | None,
    where: str,
    *,
    least: int = 1,
    most: int = LARGEST_SIZE,
) -> int:
    """The integer under ``key``; JSON null counts as absent, as it does in vLLM's reading of optional sizes."""
    value = section.get(key)
    if value is None:
        value = default
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        found = "it is not there" if value is None else f"found {_shown(value)}"
        raise _refusal(f"{key} must be an integer of at least {least} and at most {most:,}, {found}", where)
    return value


def _flags(section: Mapping[str, object], key: str, where: str) -> list[int] | None:
    value = section.get(key)
    if value is None or (isinstance(value, list) and all(isinstance(flag, int) for flag in value)):
        return value
    raise _refusal(f"{key} must list 0 or 1, one flag per layer, found {_shown(value)}", where)


def _count_marked(flags: list[int] | None, num_layers: int) -> int:
    """How many of the first ``num_layers`` layers a per-layer list of 0 and 1 marks.

    The list may be longer than the model: a shortened test model keeps the published list of 60.
    """
    if flags is None:
        return max(0, num_layers - _M3_LEADING_DENSE)
    return sum(1 for flag in flags[:num_layers] if flag != 0)


def _moe_layers(text: Mapping[str, object], num_layers: int, where: str) -> int:
    """Layers with routed experts; vLLM indexes this list by layer, so it must not be shorter than the model."""
    flags = _flags(text, "moe_layer_freq", where)
    if flags is not None and len(flags) < num_layers:
        raise _refusal(f"moe_layer_freq has {len(flags):,} entries for {num_layers:,} layers", where)
    return _count_marked(flags, num_layers)


def _m3_from(text: Mapping[str, object], *, architecture: str, where: str) -> ModelConfig:
    def size(key: str, default: int, *, least: int = 1, most: int = LARGEST_SIZE) -> int:
        return _size(text, key, default, where, least=least, most=most)

    layers = size("num_hidden_layers", 60, most=MOST_LAYERS)
    sparse_layers = _moe_layers(text, layers, where)
    index, indexed_layers = _index_branch(text, layers, where)
    shared = size("n_shared_experts", 1, least=0)
    moe = size("intermediate_size", 3072)
    return ModelConfig(
        name=M3_NAME,
        architecture=architecture,
        hidden_size=size("hidden_size", 6144),
        num_layers=layers,
        dense_layers=layers - sparse_layers,
        sparse_layers=sparse_layers,
        sparse_attention_layers=indexed_layers,
        q_heads=size("num_attention_heads", 64),
        kv_heads=size("num_key_value_heads", 4),
        head_dim=size("head_dim", 128),
        index_heads=_size(index, "sparse_num_index_heads", 4, where) if indexed_layers else 0,
        index_dim=_size(index, "sparse_index_dim", 128, where) if indexed_layers else 0,
        sparse_block_tokens=_size(index, "sparse_block_size", 128, where) if indexed_layers else 0,
        sparse_topk_blocks=_size(index, "sparse_topk_blocks", 16, where) if indexed_layers else 0,
        num_experts=size("num_local_experts", 128),
        top_k=size("num_experts_per_tok", 4),
        shared_experts=shared,
        moe_intermediate=moe,
        # vLLM sizes the shared MLP from intermediate_size; shared_intermediate_size is read by nobody.
        shared_intermediate=moe * shared,
        dense_intermediate=size("dense_intermediate_size", 12288),
        vocab_size=size("vocab_size", 200064),
        max_positions=size("max_position_embeddings", 524288),
        mtp_modules=size("num_mtp_modules", 1, least=0),
    )


def _index_branch(text: Mapping[str, object], layers: int, where: str) -> tuple[Mapping[str, object], int]:
    """The ``sparse_attention_config`` section and how many layers carry the index branch.

    Only ``sparse_attention_freq`` counts; vLLM 0.33.0 builds the branch without asking ``use_sparse_attention``.
    A section without that list builds none, an absent section means the published one.
    """
    section = _typed(text, "sparse_attention_config", dict, where)
    if section is None:
        return {}, _count_marked(None, layers)
    flags = _flags(section, "sparse_attention_freq", where)
    return section, 0 if flags is None else _count_marked(flags, layers)


def _dense_from(text: Mapping[str, object], *, name: str, architecture: str, where: str) -> ModelConfig:
    hidden = _size(text, "hidden_size", None, where)
    layers = _size(text, "num_hidden_layers", None, where, most=MOST_LAYERS)
    q_heads = _size(text, "num_attention_heads", None, where)
    return ModelConfig(
        name=name,
        architecture=architecture,
        hidden_size=hidden,
        num_layers=layers,
        dense_layers=layers,
        sparse_layers=0,
        sparse_attention_layers=0,
        q_heads=q_heads,
        kv_heads=_size(text, "num_key_value_heads", q_heads, where),
        head_dim=_size(text, "head_dim", hidden // q_heads, where),
        index_heads=0,
        index_dim=0,
        sparse_block_tokens=0,
        sparse_topk_blocks=0,
        num_experts=0,
        top_k=0,
        shared_experts=0,
        moe_intermediate=0,
        shared_intermediate=0,
        dense_intermediate=_size(text, "intermediate_size", None, where),
        vocab_size=_size(text, "vocab_size", None, where),
        max_positions=_size(text, "max_position_embeddings", 0, where, least=0),
        mtp_modules=0,
    )
