"""Writes a tiny model with real weights, for vLLM's own loader (``--load-format dummy`` calls none, and leaves noise of 1e-3)."""

import json
from pathlib import Path

import torch
from safetensors.torch import save_file

BASE = {
    "vocab_size": 512, "hidden_size": 256, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
    "head_dim": 64, "max_position_embeddings": 512, "rms_norm_eps": 1e-6, "rope_theta": 10000.0, "hidden_act": "silu",
    "bos_token_id": 0, "eos_token_id": 1, "torch_dtype": "float32", "tie_word_embeddings": False, "intermediate_size": 384,
}  # fmt: skip
MOE = {
    "num_experts": 8, "num_experts_per_tok": 2, "moe_intermediate_size": 128, "decoder_sparse_step": 1,
    "norm_topk_prob": True, "mlp_only_layers": [],
}  # fmt: skip
CONFIGS = {
    "llama": BASE | {"architectures": ["LlamaForCausalLM"], "model_type": "llama"},
    "qwen3moe": BASE | MOE | {"architectures": ["Qwen3MoeForCausalLM"], "model_type": "qwen3_moe"},
    "mixtral": BASE
    | {
        "architectures": ["MixtralForCausalLM"],
        "model_type": "mixtral",
        "num_local_experts": 8,
        "num_experts_per_tok": 2,
        "sliding_window": None,
    },
}


def write(folder: Path, kind: str, without: tuple[str, ...] = (), weights: bool = True) -> None:
    """config.json and, where asked for, all weights but those named in ``without``."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(CONFIGS[kind]))
    if weights:
        torch.manual_seed(7)
        made = {name: _random(dims) for name, dims in _dims(CONFIGS[kind]).items()}
        save_file({n: w for n, w in made.items() if n not in without}, folder / "model.safetensors", {"format": "pt"})


def _random(dims: tuple[int, ...]) -> torch.Tensor:
    return torch.randn(dims) * 0.06 if len(dims) > 1 else 1.0 + 0.1 * torch.randn(dims)


def _dims(config: dict) -> dict[str, tuple[int, ...]]:
    hidden, vocabulary = config["hidden_size"], config["vocab_size"]
    found = {"model.embed_tokens.weight": (vocabulary, hidden), "lm_head.weight": (vocabulary, hidden)}
    for layer in range(config["num_hidden_layers"]):
        at = f"model.layers.{layer}"
        found |= {f"{at}.{name}.weight": (hidden,) for name in ("input_layernorm", "post_attention_layernorm")}
        found |= _attention(f"{at}.self_attn", config)
        found |= (
            _experts(f"{at}.mlp", config)
            if "num_experts" in config
            else _mlp(f"{at}.mlp", config["intermediate_size"], hidden)
        )
    return found | {"model.norm.weight": (hidden,)}


def _attention(at: str, config: dict) -> dict[str, tuple[int, ...]]:
    hidden, head = config["hidden_size"], config["head_dim"]
    q, kv = config["num_attention_heads"] * head, config["num_key_value_heads"] * head
    sizes = {"q_proj": (q, hidden), "k_proj": (kv, hidden), "v_proj": (kv, hidden), "o_proj": (hidden, q)}
    sizes |= {"q_norm": (head,), "k_norm": (head,)} if "num_experts" in config else {}
    return {f"{at}.{name}.weight": dims for name, dims in sizes.items()}


def _mlp(at: str, inner: int, hidden: int) -> dict[str, tuple[int, ...]]:
    sizes = {"gate_proj": (inner, hidden), "up_proj": (inner, hidden), "down_proj": (hidden, inner)}
    return {f"{at}.{name}.weight": dims for name, dims in sizes.items()}


def _experts(at: str, config: dict) -> dict[str, tuple[int, ...]]:
    found = {f"{at}.gate.weight": (config["num_experts"], config["hidden_size"])}
    for expert in range(config["num_experts"]):
        found |= _mlp(f"{at}.experts.{expert}", config["moe_intermediate_size"], config["hidden_size"])
    return found
