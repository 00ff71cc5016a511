"""What starts a server: shell scripts, compose and Kubernetes files, with words that vLLM knows, damaged in structure or bytes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import yaml
from fuzz import damage
from fuzz.harness import Format, Sample, bounded, clean, refuse_constant, refused, written
from hypothesis import strategies as some
from hypothesis.strategies import DrawFn

from m3probe.errors import UnreadableInput, UsageError
from m3probe.present.json import recipe_json
from m3probe.present.recipe_text import recipe_text
from m3probe.recipe import recipe
from m3probe.recipe.asking import Server, ask_of

MODEL = "MiniMaxAI/MiniMax-M3-MXFP8"
FLAGS = (
    "--tensor-parallel-size=4",
    "--enforce-eager",
    "--max-num-seqs 64",
    "--block-size 128",
    '--compilation-config \'{"cudagraph_mode": "FULL"}\'',
    '--speculative-config \'{"method": "eagle3", "num_speculative_tokens": 3}\'',
    "--kv-cache-dtype fp8",
    "--max-num-batched-tokens 8192",
)
ENV = {"VLLM_ROCM_USE_AITER": "1", "VLLM_ROCM_QUICK_REDUCE_QUANTIZATION": "INT6", "HF_HOME": "/data"}
SHELL = (
    "TP=4",
    "if true; then",
    "fi",
    "for i in 1 2; do",
    "done",
    "cat <<EOF",
    "EOF",
    "$(date)",
    "`id`",
    "${A:-${B:-",
    "}",
)


@some.composite
def script(draw: DrawFn, hostile: bool) -> bytes:
    """A shell script."""
    flags = draw(some.lists(some.sampled_from(FLAGS), max_size=4, unique=True))
    lines = ["#!/bin/bash", *(f"export {key}={value}" for key, value in ENV.items())]
    if hostile:
        flags += draw(some.lists(damage.texts, max_size=2))
        lines += draw(some.lists(some.sampled_from(SHELL) | damage.texts, max_size=6))
    lines.append(" \\\n  ".join(["vllm serve", MODEL, *flags]))
    return "\n".join([*lines, ""]).encode("utf-8", "surrogatepass")


@some.composite
def container(draw: DrawFn, hostile: bool) -> bytes:
    """A compose file, or a pod's."""
    command = ["vllm", "serve", MODEL, "--tensor-parallel-size=4"]
    tree: Any = {"services": {"m3": {"image": "vllm/vllm-openai:latest", "environment": ENV, "command": command}}}
    if draw(some.booleans()):
        named = [{"name": key, "value": value} for key, value in ENV.items()]
        pod = {"containers": [{"name": "m3", "command": command, "env": named}]}
        tree = {"apiVersion": "v1", "kind": "Pod", "spec": pod}
    if hostile:
        tree = draw(damage.spoilt_tree(tree, 5))
    text = json.dumps(tree) if draw(some.booleans()) else yaml.safe_dump(tree)
    return text.encode("utf-8", "surrogatepass")


@some.composite
def samples(draw: DrawFn) -> Sample:
    """Whole, or not."""
    hostile = draw(some.booleans())
    form = draw(some.sampled_from((script, container)))
    data = draw(form(hostile))
    if hostile and draw(some.booleans()):
        data = draw(damage.spoilt_bytes(data))
    name = "serve.sh" if form is script else "serve.yaml"
    return Sample({name: data}, {} if hostile else {"model": MODEL, "aiter": "1"})


def look(sample: Sample, root: Path) -> None:
    """Read it and judge it on paper."""
    (path,) = written(sample, root)
    with bounded():
        try:
            asked = ask_of(Server(file=path, vllm="0.33.0"))
            report = recipe(asked)
        except (UsageError, UnreadableInput) as error:
            assert not sample.says, f"a sound file is refused: {error}"
            refused(error)
            return
        clean(recipe_text(report, 100, color=False), "text")
        json.loads(recipe_json(report).encode(), parse_constant=refuse_constant)
    if sample.says:
        assert (asked.given.model, asked.given.env["VLLM_ROCM_USE_AITER"]) == (MODEL, "1")


FORMAT = Format("recipe_file", samples(), look)
