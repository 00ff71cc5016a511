"""A model's config.json as somebody else wrote it: each field of any type ends in a value or in one sentence."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from m3probe.errors import UnreadableInput
from m3probe.model.model_config import load_model_config, minimax_m3

M3 = {"model_type": "minimax_m3_vl"}
LLAMA = {
    "model_type": "llama",
    "hidden_size": 4096,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "intermediate_size": 11008,
    "vocab_size": 32000,
}
SIZES = [
    "num_hidden_layers",
    "hidden_size",
    "num_attention_heads",
    "num_key_value_heads",
    "head_dim",
    "intermediate_size",
    "vocab_size",
]
WRONG_SIZES = [True, [], {}, "12", 1.5, -1, 10**30, 2**31]


def written(tmp_path: Path, config: object) -> Path:
    path = tmp_path / "config.json"
    path.write_text(json.dumps(config))
    return path


def refusal(path: Path) -> str:
    with pytest.raises(UnreadableInput) as caught:
        load_model_config(path)
    assert caught.value.exit_code == 3
    return caught.value.sentence()


@pytest.mark.parametrize("base", [M3, LLAMA], ids=["m3", "llama"])
@pytest.mark.parametrize("wrong", WRONG_SIZES, ids=repr)
@pytest.mark.parametrize("key", SIZES)
def test_a_size_that_is_no_size_is_named(tmp_path: Path, base: dict[str, Any], key: str, wrong: object) -> None:
    assert f"{key} must be an integer" in refusal(written(tmp_path, {**base, key: wrong}))


@pytest.mark.parametrize(
    ("key", "wrong", "said"),
    [
        ("model_type", [], "model_type must be a text, found []"),
        ("model_type", {"a": 1}, "model_type must be a text"),
        ("model_type", 7, "model_type must be a text"),
        ("model_type", "gpt2", "it describes model_type 'gpt2'"),
        ("model_type", None, "it names no model_type"),
        ("architectures", "MiniMaxM3SparseForCausalLM", "architectures must be a list"),
        ("architectures", [["x"]], "architectures must list names"),
        ("text_config", [], "text_config must be an object"),
        ("text_config", {"model_type": []}, "model_type must be a text"),
        ("moe_layer_freq", {}, "moe_layer_freq must list 0 or 1"),
        ("moe_layer_freq", 1, "moe_layer_freq must list 0 or 1"),
        ("moe_layer_freq", [[]] * 60, "moe_layer_freq must list 0 or 1"),
        ("moe_layer_freq", [1.5] * 60, "moe_layer_freq must list 0 or 1"),
        ("sparse_attention_config", [], "sparse_attention_config must be an object"),
        ("sparse_attention_config", {"sparse_attention_freq": "1"}, "sparse_attention_freq must list 0 or 1"),
        ("sparse_attention_config", {"sparse_attention_freq": [1] * 60, "sparse_index_dim": []}, "sparse_index_dim"),
    ],
)
def test_a_field_of_another_type_is_named(tmp_path: Path, key: str, wrong: object, said: str) -> None:
    assert said in refusal(written(tmp_path, {**M3, key: wrong}))


def test_a_value_of_any_length_makes_a_short_sentence(tmp_path: Path) -> None:
    for wrong in ("x" * 10_000, [0] * 10_000):
        assert len(refusal(written(tmp_path, {**M3, "hidden_size": wrong}))) < 400


def test_a_size_that_is_missing_is_said_to_be(tmp_path: Path) -> None:
    without = {key: value for key, value in LLAMA.items() if key != "hidden_size"}
    assert "hidden_size must be an integer of at least 1 and at most 2,147,483,647, it is not there" in refusal(
        written(tmp_path, without)
    )


def test_null_is_a_key_that_is_absent(tmp_path: Path) -> None:
    config = dict.fromkeys((*SIZES, "architectures", "moe_layer_freq", "sparse_attention_config"))
    found = load_model_config(written(tmp_path, {"model_type": "minimax_m3_text", "text_config": None, **config}))
    published = minimax_m3()
    assert (found.hidden_size, found.sparse_layers) == (published.hidden_size, published.sparse_layers) == (6144, 57)


def test_an_empty_text_config_is_the_published_model(tmp_path: Path) -> None:
    found = load_model_config(written(tmp_path, {**M3, "hidden_size": 64, "text_config": {}}))
    assert found.hidden_size == 6144


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "not a JSON document"),
        (b"[]", "a JSON object was expected, found list"),
        (b"\x1f\x8b\x08\x00", "not a JSON document"),
        (b"[" * 100_000, "not a JSON document"),
        (b'{"hidden_size": ' + b"9" * 5000 + b"}", "not a JSON document"),
        (b" " * (16 * 2**20 + 1), "larger than 16 MiB"),
    ],
    ids=["empty", "list", "gzip", "deep", "digits", "large"],
)
def test_a_file_that_is_no_config(tmp_path: Path, content: bytes, said: str) -> None:
    path = tmp_path / "config.json"
    path.write_bytes(content)
    assert said in refusal(path)


def test_a_name_too_long_for_the_file_system_is_said(tmp_path: Path) -> None:
    assert "File name too long" in refusal(tmp_path / ("a" * 300))
