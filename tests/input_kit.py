"""Shared by the tests of recipe input: What a user asked for, read from commands, scripts, containers and env."""

from __future__ import annotations

from pathlib import Path

from tree import ROOT

from m3probe.recipe.asked import Given
from m3probe.recipe.flags import Flags
from m3probe.recipe.reading import (
    read_command,
)
from m3probe.schema.setup import Build, Rule, RuleStatus

DATA = Path(__file__).parent / "data" / "recipe"
PRINTED = ROOT / "samples" / "recipes" / "m3-mxfp8-printed.sh"
USUAL = Flags.usual()
NAMES = [
    "--model", "--tensor-parallel-size", "--max-num-seqs", "--max-num-batched-tokens", "--max-model-len", "--block-size",
    "--enable-prefix-caching", "--enforce-eager", "--disable-log-stats", "--compilation-config", "--attention-config",
    "--speculative-config", "--hf-overrides", "--served-model-name", "--optimization-level", "--quantization", "--config",
    "--enable-expert-parallel", "--port", "-tp",
]  # fmt: skip
SWITCHES = ["--enable-prefix-caching", "--enforce-eager", "--disable-log-stats", "--enable-expert-parallel"]


def build(version: str = "0.33.0") -> Build:
    rules = {
        "cli_flags": Rule(RuleStatus.BUNDLED, NAMES),
        "cli_switches": Rule(RuleStatus.BUNDLED, SWITCHES),
    }
    return Build(version, rules)


KNOWN = Flags.of(build())


def serve(text: str, known: Flags = KNOWN) -> Given:
    """A command whose words hold no blanks."""
    return read_command(["vllm", "serve", *text.split()], known)
