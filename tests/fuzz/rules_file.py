"""Rules files: TOML of the words that there are, with values of other kinds, damaged tables and bytes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from fuzz import damage
from fuzz.harness import Format, Sample, bounded, refused, written
from hypothesis import strategies as some
from hypothesis.strategies import DrawFn

from m3probe.errors import UnreadableInput, UsageError
from m3probe.rules import load_rules

RULES: tuple[dict[str, Any], ...] = (
    {"path": "graph_replay", "phase": "decode", "verdict": "executed"},
    {"kernel": "*moe*", "phase": "decode", "per_step": 6},
    {"kernel": "Cijk_*", "forbid": True},
    {"family": "comm", "max_share": 0.2},
    {"family": "gemm", "phase": "prefill", "min_share": 0.1, "max_share": 0.9},
    {"kernel": "*", "min_count": 1, "max_count": 10},
    {"gate": "cosine"},
)


def toml(value: Any) -> str:
    """A value as TOML writes it; what has no such form becomes text."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        return repr(value)
    if isinstance(value, list):
        return f"[{', '.join(map(toml, value))}]"
    if isinstance(value, dict):
        return f"{{{', '.join(f'{quoted(key)} = {toml(inner)}' for key, inner in value.items())}}}"
    return str(value) if isinstance(value, int) else quoted(str(value))


def quoted(text: str) -> str:
    """A basic string; JSON escapes as TOML does, but for DEL."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def document(rules: list[Any]) -> str:
    """The file's text."""
    lines = ["[require]", 'trust = "complete"']
    for rule in rules:
        lines.append("[[rule]]")
        lines += [f"{quoted(k)} = {toml(v)}" for k, v in rule.items()] if isinstance(rule, dict) else [toml(rule)]
    return "\n".join([*lines, ""])


@some.composite
def samples(draw: DrawFn) -> Sample:
    """Sound rules, or damaged ones; what a sound file says is how many rules it has."""
    rules: Any = draw(some.lists(some.sampled_from(RULES[:6]), min_size=1, max_size=5, unique_by=json.dumps))
    if draw(some.booleans()):
        return Sample({"rules.toml": document(rules).encode()}, {"rules": len(rules)})
    rules = draw(damage.spoilt_tree(rules, 5))
    data = document(rules if isinstance(rules, list) else [rules]).encode("utf-8", "surrogatepass")
    return Sample({"rules.toml": draw(damage.spoilt_bytes(data)) if draw(some.booleans()) else data})


def look(sample: Sample, root: Path) -> None:
    """Load them; whoever wrote them is told what is wrong in a sentence."""
    (path,) = written(sample, root)
    with bounded():
        try:
            found = load_rules(path)
        except (UsageError, UnreadableInput) as error:
            assert not sample.says, f"sound rules are refused: {error}"
            refused(error)
            return
    assert not sample.says or len(found.rules) == sample.says["rules"]


FORMAT = Format("rules_file", samples(), look)
