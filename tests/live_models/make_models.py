"""Writes tiny model folders (config.json and a tokenizer, no weights): ``python make_models.py FOLDER``.

Serve them with ``--load-format dummy``. Runs in the vLLM environment, which has ``tokenizers``.
"""

import json
import sys
from pathlib import Path

COMMON = {
    "vocab_size": 1024, "hidden_size": 256, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
    "head_dim": 64, "max_position_embeddings": 2048, "rms_norm_eps": 1e-6, "rope_theta": 10000.0, "hidden_act": "silu",
    "bos_token_id": 0, "eos_token_id": 1, "torch_dtype": "bfloat16", "tie_word_embeddings": False,
    "intermediate_size": 512,
}  # fmt: skip
CONFIGS = {
    "llama": COMMON | {"architectures": ["LlamaForCausalLM"], "model_type": "llama"},
    "qwen3moe": COMMON
    | {
        "architectures": ["Qwen3MoeForCausalLM"],
        "model_type": "qwen3_moe",
        "num_experts": 8,
        "num_experts_per_tok": 2,
        "moe_intermediate_size": 128,
        "decoder_sparse_step": 1,
        "norm_topk_prob": True,
        "mlp_only_layers": [],
    },
}
TOKENIZER = {
    "tokenizer_class": "PreTrainedTokenizerFast",
    "bos_token": "<s>",
    "eos_token": "</s>",
    "pad_token": "<pad>",
    "model_max_length": 2048,
}


def write_tokenizer(folder: Path) -> None:
    """A byte-level tokenizer of the 256 bytes and three special tokens."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

    tokenizer = Tokenizer(models.BPE(unk_token=None))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=1024,
        special_tokens=["<s>", "</s>", "<pad>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
    )
    tokenizer.train_from_iterator([f"a tiny model reads number {n}" for n in range(500)], trainer)
    tokenizer.save(str(folder / "tokenizer.json"))
    (folder / "tokenizer_config.json").write_text(json.dumps(TOKENIZER))


def main() -> None:
    """Write every model."""
    for name, config in CONFIGS.items():
        folder = Path(sys.argv[1]) / name
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "config.json").write_text(json.dumps(config, indent=1))
        write_tokenizer(folder)


if __name__ == "__main__":
    main()
