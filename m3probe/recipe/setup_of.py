"""A command line and an environment -> the ``Setup`` that paths are judged by."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

from m3probe.errors import UsageError
from m3probe.hardware import Accelerator, accelerators
from m3probe.recipe.asked import Given
from m3probe.recipe.model_facts import Known
from m3probe.schema.setup import Build, Setup

HOME_GPU = "mi355x"
NAMED_METHODS = (("eagle-", "eagle"), ("eagle3", "eagle3"), ("dflash", "dflash"), ("dspark", "dspark"))
"""In vLLM's order: a name with both ``eagle-`` and ``eagle3`` in it is an eagle drafter."""
SPEC_KEYS = {"--spec-method": "method", "--spec-model": "model", "--spec-tokens": "num_speculative_tokens"}


@dataclass(frozen=True, slots=True)
class Made:
    """The setup, its device, and what was assumed on the way."""

    setup: Setup
    gpu: Accelerator
    assumed: tuple[str, ...]


def make(given: Given, build: Build, known: Known, gpu: str | None, drafts: int | None) -> Made:
    """Put the parts together.

    Args:
        gpu: an accelerator by its file name (``mi355x``); None: MI355X, told as an assumption.
        drafts: ``--spec``; None: as the command says.

    Raises:
        UsageError: a size that is no whole number, an unknown GPU, or two numbers of drafted tokens.
    """
    device = _device(gpu)
    assumed = () if gpu else (f"the GPU is an {device.name} (give --gpu)",)
    setup = Setup(
        build=build,
        model=known.facts,
        gfx=device.gfx or f"sm{device.capability[0]}{device.capability[1]}",
        units=int(device.units.value),
        tp=size(given.flags, "--tensor-parallel-size"),
        pp=size(given.flags, "--pipeline-parallel-size"),
        dp=size(given.flags, "--data-parallel-size"),
        expert_parallel=bool(given.flags.get("--enable-expert-parallel")),
        nodes=size(given.flags, "--nnodes"),
        env=given.env,
        flags=given.flags,
        draft=_draft(given.flags, drafts),
        uncertain=given.uncertain,
    )
    return Made(setup, device, (*assumed, *known.assumed))


def size(flags: Mapping[str, Any], name: str, default: int = 1) -> int:
    """A positive whole number of the command line.

    Raises:
        UsageError: it is something else.
    """
    said = flags.get(name)
    if said is None:
        return default
    text = str(said).strip()
    fits = len(text) <= 10 and text.isascii() and text.isdecimal()
    if isinstance(said, bool) or not fits or not 0 < int(text) < 2**31:
        raise UsageError(f"{name} takes a whole number from 1, got {text[:40]!r}", where="the vllm command")
    return int(text)


def _device(name: str | None) -> Accelerator:
    shelf = accelerators()
    wanted = (name or HOME_GPU).lower()
    if wanted not in shelf:
        near = get_close_matches(wanted, shelf, n=1)
        raise UsageError(
            f"--gpu {str(name)[:40]}: no such accelerator",
            next_move=f"Did you mean {near[0]}?" if near else f"Known are {', '.join(shelf)}",
        )
    return shelf[wanted]


def _draft(flags: Mapping[str, Any], drafts: int | None) -> Mapping[str, Any] | None:
    """The speculative config; ``--spec-*`` of 0.33 say the same key by key."""
    said = _object(flags.get("--speculative-config"))
    said |= {key: flags[name] for name, key in SPEC_KEYS.items() if flags.get(name) is not None}
    in_command = said.get("num_speculative_tokens")
    if drafts is not None and in_command is not None and str(in_command) != str(drafts):
        raise UsageError(
            f"--spec {drafts} contradicts num_speculative_tokens {in_command} of the command",
            next_move="Give one of the two",
        )
    method = method_of(said)
    if drafts:
        said = {**said, "num_speculative_tokens": drafts}
        method = method or "eagle3"
    if method:
        said["method"] = method
    if "num_speculative_tokens" in said:
        said["num_speculative_tokens"] = size(said, "num_speculative_tokens")
    return said or None


def method_of(said: Mapping[str, Any]) -> str | None:
    """The speculative method that vLLM ends up with; None: the draft model's config.json decides.

    ``SpeculativeConfig.__post_init__``: config/speculative.py:574 and :742 at 0.24, :1126 and :1334 at 0.32, :1236 and
    :1445 at 0.33. The model's name decides over a stated ``draft_model`` or ``mtp`` too; dspark is not in 0.24.
    """
    stated, model = said.get("method"), str(said.get("model") or "")
    if stated is None and model in ("ngram", "[ngram]"):
        return "ngram"
    if stated is None and "/" not in model and "." in model and all(p.isidentifier() for p in model.split(".")):
        return "custom_class"
    if stated not in (None, "draft_model") and not str(stated).endswith("mtp"):
        return str(stated)
    by_name = next((method for part, method in NAMED_METHODS if part in model.lower()), None)
    return by_name or (None if stated is None else "mtp" if str(stated).endswith("mtp") else str(stated))


def _object(value: Any) -> dict[str, Any]:
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except (ValueError, RecursionError) as error:
            raise UsageError(f"--speculative-config is no JSON object: {error}", where="the vllm command") from error
    return dict(value) if isinstance(value, Mapping) else {}
